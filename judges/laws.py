"""Privacy loss variables of sfumato's laws for prv-accountant, from their definitions: what prv-accountant asks of one.

prv-accountant is given, for each release, the law of log(P/Q) under P for a worst pair of neighbours, and composes
them itself. It brings Gaussian and Laplace noise; the rest is here. ``rdp`` serves it only to choose how far its grid
reaches, for which an upper bound is as good.
"""

import numpy as np
from numpy.typing import NDArray
from prv_accountant import PrivacyRandomVariable
from scipy import interpolate, special, stats

Floats = NDArray[np.float64]


class Response(PrivacyRandomVariable):
    """Randomized response among ``categories`` answers, of which the true one is e^epsilon times as likely."""

    def __init__(self, epsilon: float, categories: int) -> None:
        self.epsilon = epsilon
        self.other = 1 / (np.exp(epsilon) + categories - 1)
        self.neither = (categories - 2) * self.other

    def cdf(self, t: Floats) -> Floats:
        """Three steps: -epsilon, 0, epsilon."""
        steps = self.other * (t >= -self.epsilon) + self.neither * (t >= 0)
        return np.where(t >= self.epsilon, 1.0, steps)

    def rdp(self, alpha: float) -> float:
        """No more than epsilon at any order."""
        del alpha
        return self.epsilon


class Fresh(PrivacyRandomVariable):
    """Gaussian noise about a row times a fresh gaussian matrix, which is seen: a mixture over the length of the image.

    Given the length, the loss is that of a Gaussian mechanism with mu = length / scale; radius^2 chi2(k) / k is the law
    of its square. The mixture is integrated by Gauss and Legendre's rule, on a grid, with a spline between its points.
    """

    _REACH, _POINTS, _NODES = 40.0, 40_001, 200

    def __init__(self, radius: float, scale: float, dimension: int) -> None:
        nodes, weights = np.polynomial.legendre.leggauss(self._NODES)
        lengths = (nodes + 1) / 2 * stats.chi(dimension).isf(1e-18)
        weights = weights * stats.chi(dimension).pdf(lengths)
        mu = radius / scale * lengths / np.sqrt(dimension)
        grid = np.linspace(-self._REACH, self._REACH, self._POINTS)
        self.rate, self.dimension = (radius / scale) ** 2 / dimension, dimension
        values = [weights @ special.ndtr(t / mu[:, None] - mu[:, None] / 2) for t in np.array_split(grid, 100)]
        self.spline = interpolate.CubicSpline(grid, np.concatenate(values) / weights.sum())

    def cdf(self, t: Floats) -> Floats:
        """The average of Gaussian ones; beyond the grid all of it, or nothing, to 1e-15."""
        inside = np.clip(np.asarray(t, np.float64), -self._REACH, self._REACH)
        return np.clip(self.spline(inside), 0.0, 1.0)

    def rdp(self, alpha: float) -> float:
        """The logarithm of the moment of a chi-square variable; infinite where it has none."""
        room = 1 - alpha * (alpha - 1) * self.rate
        return float(-self.dimension / 2 * np.log(room) / (alpha - 1)) if room > 0 else np.inf


class ChiSquare(PrivacyRandomVariable):
    """Rows of N(0, 1 + s) against rows of N(0, 1), ``removed``: the other way round."""

    def __init__(self, rows: int, ratio: float, *, removed: bool) -> None:
        self.rows, self.ratio, self.removed = rows, ratio, removed

    def cdf(self, t: Floats) -> Floats:
        """The loss is a line in a chi-square variable."""
        t = np.asarray(t, np.float64)
        s, centre = self.ratio, self.rows / 2 * np.log1p(self.ratio)
        if self.removed:
            return stats.chi2.sf((centre - t) * 2 * (1 + s) / s, self.rows)
        return stats.chi2.cdf((t + centre) * 2 / s, self.rows)

    def rdp(self, alpha: float) -> float:
        """Of two centred Gaussians, Gil, Alajaji and Linder 2013."""
        first, second = (1.0, 1 + self.ratio) if self.removed else (1 + self.ratio, 1.0)
        mixed = alpha * second + (1 - alpha) * first
        if mixed <= 0:
            return np.inf
        each = np.log(second / first) / 2 + np.log(second / mixed) / (2 * (alpha - 1))
        return float(self.rows * each)
