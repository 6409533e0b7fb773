"""A score where no likelihood is closed: logistic regression on simple features of what was published."""

import numpy as np
from scipy import optimize, special

from sfumato.numerics.types import Floats

_RIDGE = 1e-3


def features(published: Floats) -> Floats:
    """What the classifier sees of outputs (samples, numbers): numbers, their squares and products of neighbours."""
    return np.hstack([published, published**2, published[:, 1:] * published[:, :-1]])


def classifier(first: Floats, second: Floats) -> "Classifier":
    """Train a logistic regression that tells two samples apart, after each feature is brought to the same spread."""
    both = np.vstack([first, second])
    # Heavy tails say little and would rule the fit: ranks within the middle 98% stand for the rest.
    low, high = np.quantile(both, [0.01, 0.99], axis=0)
    spread = np.where(high > low, high - low, 1.0)
    x = (np.clip(both, low, high) - low) / spread - 0.5
    sign = np.repeat([1.0, -1.0], [len(first), len(second)])

    def cost(w: Floats) -> tuple[float, Floats]:
        margin = sign * (x @ w[1:] + w[0])
        slope = -sign * special.expit(-margin) / sign.size
        value = np.logaddexp(0, -margin).mean() + _RIDGE * (w[1:] @ w[1:]) / 2
        return float(value), np.concatenate([[slope.sum()], x.T @ slope + _RIDGE * w[1:]])

    fitted = optimize.minimize(cost, np.zeros(1 + x.shape[1]), jac=True, method="L-BFGS-B")
    return Classifier(low, high, spread, np.asarray(fitted.x))


class Classifier:
    """Scores outputs: higher means more like the first sample it was made from."""

    def __init__(self, low: Floats, high: Floats, spread: Floats, weights: Floats) -> None:
        self._low, self._high, self._spread, self._weights = low, high, spread, weights

    def __call__(self, outputs: Floats) -> Floats:
        """The log-odds of each output, up to a constant."""
        scaled = (np.clip(outputs, self._low, self._high) - self._low) / self._spread
        return np.asarray(scaled @ self._weights[1:])
