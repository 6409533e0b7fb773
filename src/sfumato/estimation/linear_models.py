"""Linear models from a covariance seen through noise: principal components and least squares, with error bars.

Errors are those of quadratic forms of the covariance (``View.form``): of eigenvalues along their vectors, and of
regression coefficients by the delta method. All of it is post-processing of a release: it costs no privacy.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa

from sfumato import check, untrusted
from sfumato.errors import ParameterError, ReleaseError
from sfumato.estimation.covariances import View, before_rounding
from sfumato.estimation.moment_table import frame, in_columns, in_html
from sfumato.intervals.estimate import NOISE_ONLY, Ends, Estimate, Number, plain
from sfumato.numerics.types import Floats

_STEADY = 4.0  # standard errors above 0 of the least variance of the features, from which on the delta method holds


class Eigenvalues(Estimate):
    """Estimates of eigenvalues whose intervals hold for all of them at once, asked for or not."""

    __slots__ = ()

    def interval(self, level: float = 0.95, *, simultaneous: bool = True) -> tuple[Number, Number]:
        """(low, high) that hold all principal components' eigenvalues with probability ``level``.

        (low, high) that hold all eigenvalues with probability ``level``, however close together they are.
        """
        del simultaneous
        return Estimate.interval(self, level)


@dataclass(frozen=True, slots=True, eq=False)
class PrincipalComponents:
    """Leading eigenvectors as columns, the largest variance first, with the variance along each.

    Noise pushes eigenvalues apart, so the leading ones look larger than they are where noise rivals the gaps between
    them; the intervals allow for that, the standard errors (of the first order) do not.
    """

    variances: Eigenvalues
    vectors: Floats
    total_variance: float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Regression:
    """Least squares of a target on features, in the columns' own units; prints as a table of its terms.

    intercept : None where no mean is published, as by sketches about the mean.
    notes     : what a reader should know of this fit.
    """

    target: str
    features: tuple[str, ...]
    coefficients: Estimate
    intercept: Estimate | None
    notes: tuple[str, ...] = ()

    def table(self, level: float = 0.95, *, simultaneous: bool = False) -> pa.Table:
        """An Arrow table with a row per term: coefficient, standard error, and an interval of this level.

        ``simultaneous``: intervals that hold for the intercept and all coefficients at once.
        """
        level = 1 - (1 - level) / (len(self.features) + (self.intercept is not None)) if simultaneous else level
        parts = [("(intercept)",), self.features] if self.intercept is not None else [self.features]
        found = [self.coefficients] if self.intercept is None else [self.intercept, self.coefficients]
        numbers = [(e.value, e.standard_error, *e.interval(level)) for e in found]
        columns = [np.concatenate([np.atleast_1d(part) for part in column]) for column in zip(*numbers, strict=True)]
        heads = ("coefficient", "standard_error", "low", "high")
        return pa.table({"term": [name for part in parts for name in part]} | dict(zip(heads, columns, strict=True)))

    def to_pandas(self, level: float = 0.95) -> Any:
        """The terms of the regression as a pandas data frame, indexed by term; needs pandas."""
        return frame(self.table(level)).set_index("term")

    def predict(self, rows: Mapping[str, Any]) -> Floats:
        """The target on average, for rows that give each feature as a column: a data frame, or arrays by name."""
        if self.intercept is None:
            raise ReleaseError("no mean is published with this release, so the line has no intercept to predict from")
        missing = [name for name in self.features if name not in rows]
        if missing:
            raise ParameterError(f"the rows have no column {untrusted.line(missing[0])}")
        given = [np.asarray(rows[name], np.float64) for name in self.features]
        found = sum((b * x for b, x in zip(np.atleast_1d(self.coefficients.value), given, strict=True)), 0.0)
        return np.asarray(found + self.intercept.value)

    def _cells(self) -> list[list[str]]:
        """The head and the rows of a printed regression."""
        columns = self.table().to_pydict()
        numbers = [[f"{x:.4g}" for x in columns[name]] for name in ("coefficient", "standard_error", "low", "high")]
        terms = [untrusted.line(name, 40) for name in columns["term"]]
        head = ["term", "coefficient", "standard error", "95% from", "to"]
        return [head, *([term, *row] for term, row in zip(terms, zip(*numbers, strict=True), strict=True))]

    def _words(self) -> list[str]:
        return [f"Unit: {self.coefficients.unit}. Errors: {self.coefficients.covers}.", *self.notes]

    def __repr__(self) -> str:
        return "\n".join(
            [f"Least squares of {untrusted.line(self.target, 40)}", *in_columns(self._cells()), *self._words()]
        )

    def _repr_html_(self) -> str:
        return in_html(f"Least squares of {self.target}", self._cells(), self._words())


def principal_components(view: View, k: int, most: float) -> PrincipalComponents:
    """The k leading principal components of the covariance as it is, not repaired."""
    covariance = view.covariance()
    check.whole(1, k=k)
    if k > len(covariance):
        raise check.fail("k", k, f"at most {len(covariance)}, the number of encoded columns")
    values, vectors = (part[..., ::-1] for part in np.linalg.eigh(covariance))
    vectors = vectors[:, :k] * np.where(vectors[np.abs(vectors[:, :k]).argmax(axis=0), np.arange(k)] < 0, -1.0, 1.0)
    errors = np.array([view.form(v, v, x)[0] for v, x in zip(vectors.T, values[:k], strict=True)])
    moved = float(np.linalg.norm(np.broadcast_to(view.rounding, len(covariance))))

    def bounds(tail: float) -> Ends:
        return before_rounding(view.eigenvalue_bounds(values[:k], tail), moved, most)

    return PrincipalComponents(Eigenvalues(values[:k], errors, NOISE_ONLY, bounds), vectors, float(values.sum()))


@dataclass(frozen=True, slots=True, eq=False)
class LeastSquares:
    """Least squares of one column of a covariance on others, solved: in weighted units.

    inverse  : of the features' covariance with the ridge.
    residual : the target less what the features explain of it, as weights of all columns.
    """

    view: View
    features: list[int]
    covariance: Floats
    inverse: Floats
    slopes: Floats
    residual: Floats

    @classmethod
    def of(cls, view: View, columns: tuple[list[int], int], ridge: float) -> Self | None:
        """Solve the regression; None if noise has left the features' covariance without a positive matrix."""
        features, target = columns
        covariance = view.covariance()
        inner = covariance[np.ix_(features, features)] + ridge * np.eye(len(features))
        if float(np.linalg.eigvalsh(inner)[0]) <= 0:
            return None
        inverse = np.asarray(np.linalg.inv(inner), np.float64)
        slopes = inverse @ covariance[features, target]
        residual = np.zeros(len(covariance))
        residual[features], residual[target] = -slopes, 1.0
        return cls(view, features, covariance, inverse, slopes, residual)

    def coefficients(self, scaling: Floats) -> Estimate:
        """Regression coefficients, times ``scaling``, with errors by the delta method."""
        directions = np.zeros((len(self.features), len(self.covariance)))
        directions[:, self.features] = self.inverse
        parts = [self._form(direction) for direction in directions]
        errors, alike, rounded = (np.array(part) * 1.0 for part in zip(*parts, strict=True))
        return self._estimate(self.slopes * scaling, (errors * np.abs(scaling), alike, rounded * np.abs(scaling)))

    def intercept(self, centre: Floats, scaling: float, *, mean: bool) -> Estimate:
        """Where a regression line cuts the target's axis, times ``scaling``.

        ``centre``: what the covariance is about, with the noisy ``mean`` in it if there is one. The line is through it.
        """
        direction = np.zeros(len(self.covariance))
        direction[self.features] = -self.inverse @ centre[self.features]
        error, alike, rounded = self._form(direction, along=float(mean))
        rounded += float(np.sum(np.abs(self.residual) * self.view.rounding)) * mean
        value = float(self.residual @ centre) * scaling
        size = abs(scaling)
        return self._estimate(np.array(value), (np.array(error * size), np.array(alike), np.array(rounded * size)))

    def _form(self, direction: Floats, along: float = 0.0) -> tuple[float, float, float]:
        """Error of a form of the direction and the residual, how many draws err alike, and what rounding may do."""
        value = float(direction @ self.covariance @ self.residual)
        error, alike = self.view.form(direction, self.residual, value, along=along)
        return error, alike, _rounded(self.view, self.covariance, direction, self.residual)

    def _estimate(self, value: Floats, errors: tuple[Floats, Floats, Floats]) -> Estimate:
        error, alike, rounded = errors

        def bounds(tail: float) -> Ends:
            draws = np.array([self.view.quantile(tail, count) for count in np.atleast_1d(alike)])
            reach = error * draws.reshape(error.shape) + rounded
            return value - reach, value + reach

        return Estimate(plain(value), plain(error), NOISE_ONLY + ", to first order", bounds)

    @property
    def distinguishable(self) -> bool:
        """Whether the features' covariance is far from singular in the noise, so that errors hold to first order."""
        inner = self.covariance[np.ix_(self.features, self.features)]
        values, vectors = np.linalg.eigh(inner)
        least = np.zeros(len(self.covariance))
        least[self.features] = vectors[:, 0]
        return bool(values[0] > _STEADY * self.view.form(least, least, float(values[0]))[0])


def _rounded(view: View, covariance: Floats, left: Floats, right: Floats) -> float:
    """How much rounding of rows moved a regression's covariance form left^T covariance right at most.

    By Cauchy's inequality, from <Xl, Yr> - <X'l, Y'r>.
    """
    moved = [float(np.sum(np.abs(side) * view.rounding)) for side in (left, right)]
    length = [math.sqrt(max(float(side @ covariance @ side), 0.0)) for side in (left, right)]
    return moved[0] * length[1] + length[0] * moved[1] + moved[0] * moved[1]
