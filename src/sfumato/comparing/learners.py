"""Models that judge a synthetic table: trained on it and tested on real rows, and told to tell it from the real one.

NOT PRIVATE: scores on real rows are exact. Logistic regression is always there; gradient boosting needs scikit-learn.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from sfumato.comparing.logistic import LogisticModel, area_under_curve, balanced_accuracy
from sfumato.errors import MissingDependency
from sfumato.marginals.partition import Codes, Partition
from sfumato.marginals.parts import centres
from sfumato.numerics.types import Bools, Floats, Integers

HELD_OUT = 0.3  # of the sampled real rows, to test on where no others are given
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


def trained(partition: Partition, target: Target, test: Codes, real: Codes, synthetic: Codes) -> list[Trained]:
    """Models that predict the label of the real rows to ``test`` on, trained on other real rows and on synthetic ones.

    Both are trained on as many rows, of the classes that there are to test on: noise makes a few rows of others, such
    as a label that is missing. Empty where the rows to train or to test on have one class alone.
    """
    truth = target.of_cell[test[target.variable]]
    real, synthetic = (rows[:, np.isin(target.of_cell[rows[target.variable]], truth)] for rows in (real, synthetic))
    count = min(real.shape[1], synthetic.shape[1])
    sets = [rows[:, :count] for rows in (real, synthetic)]
    if min((len(np.unique(target.of_cell[rows[target.variable]])) for rows in (test, *sets)), default=0) < 2:
        return []
    measure = "AUC" if len(np.unique(truth)) == 2 else "balanced accuracy"
    found = []
    for learner in _learners(partition, target.variable):
        scores = []
        for rows in sets:
            fitted = learner.fit(learner.seen(rows), target.of_cell[rows[target.variable]])
            scores.append(_score(fitted, learner.seen(test), truth))
        found.append(Trained(learner.name, measure, *scores))
    return found


def propensity(partition: Partition, real: Codes, synthetic: Codes) -> Propensity | None:
    """Boosting that is told which rows are real, on one half of them; its scores on the other half."""
    count = min(real.shape[1], synthetic.shape[1])
    half = count // 2
    if half < 2:
        return None
    boosting = _boosting(partition, list(range(len(partition.variables))))
    rows = np.hstack([real[:, :count], synthetic[:, :count]])
    truth = np.repeat([1, 0], count)
    first = np.tile(np.arange(count) < half, 2)
    every = boosting.seen(rows)
    chance = boosting.fit(every[first], truth[first]).chances(every[~first])[:, 1]
    return Propensity(area_under_curve(truth[~first] == 1, chance), float(np.mean((chance - 0.5) ** 2)))


def without_boosting() -> str:
    """What is missing for gradient boosting, in words; empty where scikit-learn is installed."""
    try:
        import sklearn  # noqa: F401, PLC0415 - an optional dependency
    except ImportError:
        return str(MissingDependency("gradient boosting needs scikit-learn: pip install 'sfumato[sklearn]'"))
    return ""


@dataclass(frozen=True, slots=True, eq=False)
class _Learner:
    """A way to train: its name, what it sees of rows of fine cells, and how it is fitted to that."""

    name: str
    seen: Callable[[Codes], Any]
    fit: Callable[[Any, Integers], Any]


def _learners(partition: Partition, left_out: int) -> Iterator[_Learner]:
    places = [i for i in range(len(partition.variables)) if i != left_out]
    yield _Learner("logistic regression", lambda rows: _numbers(partition, places, rows), _logistic)
    if not without_boosting():
        yield _boosting(partition, places)


def _logistic(rows: Any, truth: Integers) -> LogisticModel:
    with threadpool_limits(1):  # several that wait for each other on a busy machine take far longer
        return LogisticModel.trained(rows, truth)


def _boosting(partition: Partition, places: list[int]) -> _Learner:
    unordered = [not partition.variables[i].ordered for i in places]
    named = np.array([one and partition.variables[i].size > 2 for one, i in zip(unordered, places, strict=True)])

    def codes(rows: Codes) -> Floats:
        return np.asarray(np.minimum(rows[places], _MOST_CODES - 1).T if named.all() else _codes(rows[places], named))

    return _Learner("gradient boosting", codes, lambda rows, truth: _Boosted.trained(rows, truth, named))


@dataclass(frozen=True, slots=True, eq=False)
class _Boosted:
    """Gradient boosting that is trained, by one thread."""

    model: Any

    @classmethod
    def trained(cls, rows: Floats, truth: Integers, named: Bools) -> "_Boosted":
        from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: PLC0415 - an optional dependency

        categorical = named if named.any() else None
        settings = {"categorical_features": categorical, "max_iter": _ITERATIONS, "random_state": 0}
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")
            return cls(HistGradientBoostingClassifier(early_stopping=False, **settings).fit(rows, truth))

    @property
    def classes(self) -> Integers:
        return np.asarray(self.model.classes_)

    def chances(self, rows: Floats) -> Floats:
        with threadpool_limits(1):
            return np.asarray(self.model.predict_proba(rows))


def _codes(rows: Codes, named: Bools) -> Floats:
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


def _score(model: LogisticModel | _Boosted, rows: Any, truth: Integers) -> float:
    classes, chances = np.unique(truth), model.chances(rows)
    if len(classes) > 2:
        return balanced_accuracy(truth, model.classes[chances.argmax(axis=1)])
    place = list(model.classes).index(classes[1]) if classes[1] in model.classes else None
    return area_under_curve(truth == classes[1], np.zeros(len(truth)) if place is None else chances[:, place])
