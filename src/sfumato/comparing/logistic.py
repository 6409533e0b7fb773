"""Logistic regression and the scores of models, with what the package needs anyway: NumPy and SciPy.

Agrees with scikit-learn's ``LogisticRegression`` at its defaults, ``roc_auc_score`` and ``balanced_accuracy_score``.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.numerics.types import Bools, Floats, Integers

_ITERATIONS = 200


@dataclass(frozen=True, slots=True, eq=False)
class LogisticModel:
    """A logistic regression that is trained: ``weights`` (columns, classes) and a constant for each of ``classes``."""

    classes: Integers
    weights: Floats
    constants: Floats

    @classmethod
    def trained(cls, rows: Any, truth: Integers) -> "LogisticModel":
        """The model that minimises log-loss plus half the squared weights; ``rows`` may be sparse, one row a record."""
        from scipy import optimize, special  # noqa: PLC0415 - slow to load, and only models need it

        classes, codes = np.unique(truth, return_inverse=True)
        free = len(classes) if len(classes) > 2 else 1  # of two classes, the first one's score is 0
        count, columns = rows.shape
        wanted = np.eye(len(classes))[codes]

        def cost(flat: Floats) -> tuple[float, Floats]:
            weights = flat.reshape(columns + 1, free)
            logs = special.log_softmax(_scores(rows, weights[:-1], weights[-1], len(classes)), axis=1)
            slope = (np.exp(logs) - wanted)[:, -free:]
            value = -logs[np.arange(count), codes].sum() + np.square(weights[:-1]).sum() / 2
            return float(value), np.vstack([rows.T @ slope + weights[:-1], slope.sum(axis=0)]).ravel()

        start = np.zeros((columns + 1) * free)
        found = optimize.minimize(cost, start, jac=True, method="L-BFGS-B", options={"maxiter": _ITERATIONS})
        weights = found.x.reshape(columns + 1, free)
        return cls(classes, weights[:-1], weights[-1])

    def chances(self, rows: Any) -> Floats:
        """The probability of each class, for every row."""
        from scipy import special  # noqa: PLC0415 - as above

        scores = _scores(rows, self.weights, self.constants, len(self.classes))
        return np.asarray(special.softmax(scores, axis=1))


def _scores(rows: Any, weights: Floats, constants: Floats, classes: int) -> Floats:
    found = np.asarray(rows @ weights) + constants
    return found if found.shape[1] == classes else np.hstack([np.zeros((len(found), 1)), found])


def area_under_curve(truth: Bools, score: Floats) -> float:
    """How often a row of the class has a higher score than another one, ties counted as half (the AUC)."""
    _, places, counts = np.unique(score, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    own, others = int(truth.sum()), int((~truth).sum())
    return float((ranks[truth].sum() - own * (own + 1) / 2) / (own * others))


def balanced_accuracy(truth: Integers, found: Integers) -> float:
    """The mean over the classes of ``truth`` of the share that a model found right."""
    return float(np.mean([np.mean(found[truth == one] == one) for one in np.unique(truth)]))
