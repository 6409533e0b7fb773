"""Models that judge a synthetic table: trained on it and tested on real rows, and told to tell it from the real one.

NOT PRIVATE: scores on real rows are exact. Needs scikit-learn.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from sfumato.errors import MissingDependency
from sfumato.marginals.partition import Codes, Partition
from sfumato.marginals.parts import centres
from sfumato.numerics.types import Floats, Integers

_HELD_OUT = 0.3  # of the sampled real rows, to test on
_ITERATIONS = 60  # of boosting
_MOST_CODES = 255  # levels of a category that boosting keeps apart; of more, the rest are one
_FEW = 20  # cells of a label that are classes of their own; a number with more is halved


@dataclass(frozen=True, slots=True)
class Trained:
    """One model that predicts the label, trained on real and on synthetic rows, each tested on held-out real rows.

    measure : AUC for two classes (0.5 is guessing), balanced accuracy for more.
    """

    model: str
    measure: str
    real: float
    synthetic: float


@dataclass(frozen=True, slots=True)
class Propensity:
    """How well a model tells real from synthetic rows: AUC (0.5: not at all), and the mean squared propensity error.

    error : mean of (p - 1/2)^2 over test rows, p the predicted probability; 0 to 0.25.
    """

    auc: float
    error: float


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """The label as classes of its fine cells, and what they are in words."""

    variable: int
    of_cell: Integers
    words: str

    @classmethod
    def of(cls, partition: Partition, name: str, fine: Integers) -> "Target":
        """The classes of a label; a number of many values is halved at the median of the synthetic table's counts."""
        place = partition.place(name)
        variable = partition.variables[place]
        middle = centres(variable)
        if middle is None or variable.size <= _FEW:
            return cls(place, np.arange(variable.size), name)
        half = int(np.searchsorted(np.cumsum(fine), fine.sum() / 2))
        return cls(place, (np.arange(variable.size) > half).astype(np.int64), f"{name} above its synthetic median")


def trained(partition: Partition, target: Target, real: Codes, synthetic: Codes) -> list[Trained]:
    """Models that predict the label of held-out real rows, trained on the other real rows and on synthetic ones.

    Both are trained on as many rows. Empty where the rows to train or to test on have one class alone.
    """
    held = int(_HELD_OUT * real.shape[1])
    test, own = real[:, :held], real[:, held:]
    count = min(own.shape[1], synthetic.shape[1])
    truth = target.of_cell[test[target.variable]]
    sets = [rows[:, :count] for rows in (own, synthetic)]
    if min((len(np.unique(target.of_cell[rows[target.variable]])) for rows in (test, *sets)), default=0) < 2:
        return []
    found = []
    for name, model, seen in _models(partition, target.variable):
        scores = []
        for rows in sets:
            fitted = _fitted(model(), seen(rows), target.of_cell[rows[target.variable]])
            scores.append(_score(fitted, seen(test), truth))
        measure = "AUC" if len(np.unique(truth)) == 2 else "balanced accuracy"
        found.append(Trained(name, measure, *scores))
    return found


def propensity(partition: Partition, real: Codes, synthetic: Codes) -> Propensity | None:
    """Boosting that is told which rows are real, on one half of them; its scores on the other half."""
    count = min(real.shape[1], synthetic.shape[1])
    half = count // 2
    if half < 2:
        return None
    from sklearn.metrics import roc_auc_score  # noqa: PLC0415 - an optional dependency

    _, model, seen = list(_models(partition, None))[-1]
    rows = np.hstack([real[:, :count], synthetic[:, :count]])
    truth = np.repeat([1, 0], count)
    first = np.tile(np.arange(count) < half, 2)
    every = seen(rows)
    chance = _chances(_fitted(model(), every[first], truth[first]), every[~first])[:, 1]
    return Propensity(float(roc_auc_score(truth[~first], chance)), float(np.mean((chance - 0.5) ** 2)))


def check_installed() -> None:
    """Refuse to train models where scikit-learn is not installed."""
    try:
        import sklearn  # noqa: F401, PLC0415 - an optional dependency
    except ImportError:
        raise MissingDependency("models need scikit-learn: pip install 'sfumato[sklearn]'") from None


def _models(partition: Partition, left_out: int | None) -> Iterator[tuple[str, Any, Any]]:
    """The models, each with its name and with what it sees of rows of fine cells."""
    from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: PLC0415 - an optional dependency
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    places = [i for i in range(len(partition.variables)) if i != left_out]
    unordered = [not partition.variables[i].ordered for i in places]
    named = np.array([one and partition.variables[i].size > 2 for one, i in zip(unordered, places, strict=True)])

    def codes(rows: Codes) -> Floats:
        return np.asarray(np.minimum(rows[places], _MOST_CODES - 1).T if named.all() else _codes(rows[places], named))

    yield (
        "logistic regression",
        lambda: LogisticRegression(max_iter=200),
        lambda rows: _numbers(partition, places, rows),
    )
    settings = {"categorical_features": named if named.any() else None, "max_iter": _ITERATIONS, "random_state": 0}
    yield "gradient boosting", lambda: HistGradientBoostingClassifier(**settings), codes


def _codes(rows: Codes, named: Integers) -> Floats:
    """Cells as numbers for boosting: categories by their level, others by their order."""
    return np.where(named[:, None], np.minimum(rows, _MOST_CODES - 1), rows).T.astype(np.float64)


def _numbers(partition: Partition, places: list[int], rows: Codes) -> Any:
    """Cells as numbers for logistic regression: in [0, 1] by their middle, or one column for each level; sparse."""
    import scipy  # noqa: PLC0415 - only models need it

    count, found = rows.shape[1], []
    for place in places:
        variable, middle = partition.variables[place], centres(partition.variables[place])
        if middle is None:
            one = np.ones(count)
            found.append(scipy.sparse.csr_matrix((one, (np.arange(count), rows[place])), (count, variable.size)))
            continue
        span = float(middle[-1] - middle[0]) or 1.0
        scaled = np.append((middle - middle[0]) / span, np.zeros(variable.size - len(middle)))
        columns = [scaled[rows[place]], (rows[place] >= len(middle)).astype(float)][: 1 + (variable.size > len(middle))]
        found.append(scipy.sparse.csr_matrix(np.column_stack(columns)))
    return scipy.sparse.hstack(found).tocsr()


def _fitted(model: Any, rows: Any, truth: Integers) -> Any:
    """A model that is trained, by one thread: several that wait for each other on a busy machine take far longer."""
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        return model.fit(rows, truth)


def _chances(model: Any, rows: Any) -> Floats:
    """The probability of each class that a model was trained on, for every row; by one thread."""
    with threadpool_limits(1):
        return np.asarray(model.predict_proba(rows))


def _score(model: Any, rows: Any, truth: Integers) -> float:
    from sklearn.metrics import balanced_accuracy_score, roc_auc_score  # noqa: PLC0415 - an optional dependency

    classes, chances = np.unique(truth), _chances(model, rows)
    if len(classes) > 2:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a class that was in no row to train on
            return float(balanced_accuracy_score(truth, model.classes_[chances.argmax(axis=1)]))
    place = list(model.classes_).index(classes[1]) if classes[1] in model.classes_ else None
    return float(roc_auc_score(truth == classes[1], np.zeros(len(truth)) if place is None else chances[:, place]))
