"""Graphs in the analyst's hands: cuts, conductance and Laplacian forms, with error bars, from each kind of release.

Vertices are numbered 0 to n - 1. Nothing here costs privacy; formulas and intervals are those of ``estimation.cuts``.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import ParameterError, ReleaseError
from sfumato.estimation import cuts, quantities
from sfumato.estimation.cuts import PairNoise
from sfumato.fileformat.manifest import GraphSketchManifest
from sfumato.intervals.estimate import Estimate, Quantity
from sfumato.numerics.types import Floats
from sfumato.releases.release import Index, NumbersRelease
from sfumato.tables.schema import Schema

_CELLS = 1 << 22  # numbers at a time
_LARGEST = 1e60  # fourth powers of a vector's entries, and sums of them, must be doubles


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GraphRelease(NumbersRelease, ABC):
    """A private graph; how its forms and volumes are estimated depends on the kind."""

    def __repr__(self) -> str:
        promise = self.guarantee
        return (
            f"<{self.manifest['kind']} of {self.vertices} vertices; {promise.epsilon=:g}, {promise.delta=:g}>".replace(
                "promise.", ""
            )
        )

    @property
    def schema(self) -> Schema:
        """A graph has no schema of columns."""
        raise ReleaseError("a graph has no columns, so its release has no schema")

    @property
    def vertices(self) -> int:
        """The number of vertices of the graph."""
        return self.rows

    def laplacian_quadratic_form(self, x: ArrayLike) -> Estimate:
        """Sum over pairs of a_uv (x_u - x_v)^2; ``x`` has one number for each vertex, or a row of them per question.

        Error: unbiased. Intervals hold for questions chosen without looking at this release.
        """
        vectors = np.asarray(x, np.float64)
        if vectors.ndim not in (1, 2) or vectors.shape[-1] != self.vertices or not (np.abs(vectors) < _LARGEST).all():
            raise ParameterError(
                f"x must hold {self.vertices} numbers below {_LARGEST:g} in size, one for each vertex, or rows of them"
            )
        most, _ = cuts.powers(_centred(vectors))
        return self._form(vectors).of(Quantity(f"{self._counts} times squared differences", 0.0, most))

    def cut(self, vertices: Index) -> Estimate:
        """The weight of all edges between these vertices and the others.

        Randomized answers about a graph without weights estimate the number of these pairs whose weight is at least
        1/2, and so does whatever else is asked of them (``PairsRelease.thresholded``).
        """
        return self._cut(self._indicator(vertices))

    def cuts(self, indicators: Any) -> Estimate:
        """Many cuts at once: one row for each, 1 or True for the vertices on one side; dense or sparse."""
        return self._cut(self._indicators(indicators))

    def conductance(self, vertices: Index) -> Estimate:
        """The cut over the smaller of the two sides' volumes (sums of degrees), in [0, 1].

        Error: by linearisation, with Fieller's intervals. NaN where the volume's estimate is not positive. For a
        sketch the means over its rows are taken as normal: simulated, 95% bars cover 94% to 95% from 119 rows on, but
        only 90% at 30 rows and 88% at 10.
        """
        return self._conductance(self._indicator(vertices)).of(quantities.CONDUCTANCE)

    def conductances(self, indicators: Any) -> Estimate:
        """Many conductances at once, as for ``cuts``."""
        return self._conductance(self._indicators(indicators)).of(quantities.CONDUCTANCE)

    @abstractmethod
    def error_at(self, cut: ArrayLike, side: ArrayLike) -> Floats:
        """The standard error of an estimated cut that truly has this weight and so many vertices on one side."""

    @property
    def _counts(self) -> str:
        """What cuts add up."""
        return "edge weight"

    def _cut(self, sets: Floats) -> Estimate:
        side = sets.sum(axis=-1)
        return self._form(sets).of(Quantity(self._counts, 0.0, side * (self.vertices - side)))

    def _indicator(self, vertices: Index) -> Floats:
        x = np.zeros(self.vertices)
        x[self._check(vertices, "vertices")] = 1.0
        return x

    def _indicators(self, indicators: Any) -> Floats:
        dense = np.asarray(indicators.toarray() if hasattr(indicators, "toarray") else indicators)
        if dense.ndim != 2 or dense.shape[1] != self.vertices or not ((dense == 0) | (dense == 1)).all():
            raise ParameterError(f"indicators must be rows of {self.vertices} zeros and ones, one for each vertex")
        return dense.astype(np.float64)

    @abstractmethod
    def _form(self, vectors: Floats) -> Estimate: ...

    @abstractmethod
    def _conductance(self, sets: Floats) -> Estimate: ...


def _centred(vectors: Floats) -> Floats:
    """Vectors of a graph's Laplacian form less their mean, which changes no form: sums shrink, a constant gives 0."""
    return np.asarray(vectors - vectors.mean(axis=-1, keepdims=True))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GraphSketchRelease(GraphRelease):
    """Gaussian rows whose covariance is the Laplacian of the graph mixed with a complete one: (rows, vertices)."""

    manifest: GraphSketchManifest

    @property
    def ridge(self) -> float:
        """The weight w: the fraction w/n of what the rows show is the complete graph."""
        return float(self.manifest["mechanism"]["ridge"])

    def array(self) -> NDArray[np.float32]:
        """The sketch, one row of numbers for each vertex."""
        return self.columns.T

    def _law(self) -> dict[str, Any]:
        return {"vertices": self.vertices, "weight": self.ridge, "rows": self.columns.shape[0]}

    def _form(self, vectors: Floats) -> Estimate:
        centred = _centred(vectors)
        spread, _ = cuts.powers(centred)
        return cuts.from_sketch(np.mean(self._products(centred) ** 2, axis=0), spread, **self._law())

    def error_at(self, cut: ArrayLike, side: ArrayLike) -> Floats:
        """The standard error of a cut of this weight and side, from a graph sketch; a heavier cut errs more."""
        form, size = np.asarray(cut, np.float64), np.asarray(side, np.float64)
        return np.asarray(np.sqrt(cuts.sketch_variance(form, size * (self.vertices - size), **self._law())))

    def _products(self, vectors: Floats, *, squared: bool = False) -> Floats:
        """The sketch times each vector, or its squares; (rows, ...), in doubles, a few vertices at a time."""
        size = max(1, _CELLS // len(self.columns))
        total = np.zeros((len(self.columns), *vectors.shape[:-1]))
        for start in range(0, self.vertices, size):
            part = self.columns[:, start : start + size].astype(np.float64)
            total += (part**2 if squared else part) @ vectors[..., start : start + size].T
        return total

    def _conductance(self, sets: Floats) -> Estimate:
        """Conductances from the sketch: rows are independent and alike, so both means covary as the rows do."""
        n, weight, rows = self.vertices, self.ridge, len(self.columns)
        if rows < 2:
            raise ReleaseError("a conductance needs a sketch of at least two rows for its error bar")
        size = sets.sum(axis=-1)
        ridged = cuts.mixed(0.0, size * (n - size), vertices=n, weight=weight)
        inside, whole = self._products(sets, squared=True), self._products(np.ones(n), squared=True)
        volumes = [inside - weight * (1 - 1 / n) * size, (whole.T - inside.T).T - weight * (1 - 1 / n) * (n - size)]
        smaller = np.where(volumes[0].mean(axis=0) <= volumes[1].mean(axis=0), *volumes)
        each = (self._products(_centred(sets)) ** 2 - ridged) / (1 - weight / n), smaller / (1 - weight / n)
        cut, volume = (e.mean(axis=0) for e in each)
        gaps, pairs = (each[0] - cut, each[1] - volume), rows * (rows - 1)
        moments = tuple((gaps[i] * gaps[j]).sum(axis=0) / pairs for i, j in ((0, 0), (0, 1), (1, 1)))
        law: cuts.Quantile = lambda tail: -scipy.special.stdtrit(rows - 1, tail)  # noqa: E731
        return cuts.ratio(cut, volume, moments, cuts.SKETCH_ROWS, law)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PairsRelease(GraphRelease):
    """A number for every pair u < v, row after row of the upper triangle, each with independent noise."""

    @property
    def noise(self) -> PairNoise:
        """The law of the error of each pair's weight."""
        mechanism = self.manifest["mechanism"]
        if self.manifest["kind"] == "graph-responses":
            return PairNoise.response(mechanism["epsilon_per_value"], rounded=mechanism.get("weighted", False))
        made = PairNoise.laplace if mechanism["noise"] == "laplace" else PairNoise.gaussian
        return made(float(mechanism["standard_deviation"]))

    def error_at(self, cut: ArrayLike, side: ArrayLike) -> Floats:
        """The standard error of a cut from pairs; its weight matters where weights were rounded at random, at worst."""
        size = np.asarray(side, np.float64) + np.zeros_like(cut, np.float64)
        crossing = size * (self.vertices - size)
        variance = cuts.pair_variance(crossing, self.noise.variance)
        if self.noise.rounded:
            variance = variance + cuts.rounding_variance(np.asarray(cut, np.float64), crossing, crossing, 1.0)
        return np.asarray(np.sqrt(variance))

    @property
    def thresholded(self) -> bool:
        """Whether what is estimated is pairs of weight at least 1/2, each counting as 1, and not weights."""
        return self.manifest["kind"] == "graph-responses" and not self.noise.rounded

    @property
    def _counts(self) -> str:
        return "edges" if self.thresholded else "edge weight"

    def weights(self, part: slice = slice(None)) -> Floats:
        """Unbiased estimates of the pairs' weights, or of whether they are at least 1/2, in the order of the file."""
        numbers = self.columns[0, part].astype(np.float64)
        if self.manifest["kind"] != "graph-responses":
            return numbers
        flip = 1 / (1 + np.exp(self.manifest["mechanism"]["epsilon_per_value"]))
        return np.asarray((numbers - flip) / (1 - 2 * flip))

    def _triangle(self) -> Iterator[tuple[slice, Floats]]:
        """The upper triangle of pairs of vertices, a few whole rows of it at a time."""
        n, start, columns = self.vertices, 0, np.arange(self.vertices)
        size = max(1, _CELLS // n)
        for low in range(0, n, size):
            rows = slice(low, min(low + size, n))
            block = np.zeros((rows.stop - low, n))
            above = columns > columns[rows, None]
            count = int(np.count_nonzero(above))
            block[above] = self.weights(slice(start, start + count))
            start += count
            yield rows, block

    def _form(self, vectors: Floats) -> Estimate:
        x = np.atleast_2d(_centred(vectors))
        form = np.zeros(len(x))
        for rows, block in self._triangle():
            mine = x[:, rows]
            form += mine**2 @ block.sum(axis=1) + x**2 @ block.sum(axis=0) - 2 * np.sum((mine @ block) * x, axis=1)
        width = x.max(axis=1) - x.min(axis=1)
        shaped = [v.reshape(vectors.shape[:-1]) for v in (form, *cuts.powers(x), width)]
        return cuts.from_pairs(shaped[0], shaped[1], shaped[2], shaped[3], self.noise)

    def _conductance(self, sets: Floats) -> Estimate:
        degrees, n = np.zeros(self.vertices), self.vertices
        for rows, block in self._triangle():
            degrees[rows] += block.sum(axis=1)
            degrees += block.sum(axis=0)
        size, sides = sets.sum(axis=-1), (sets @ degrees, (1 - sets) @ degrees)
        inside = sides[0] <= sides[1]
        volume, size = np.where(inside, *sides), np.where(inside, size, n - size)
        crossing, within = size * (n - size), size * (size - 1) / 2  # pairs that count once in the volume, and twice
        cut = np.asarray(self._form(sets).uncut)
        once, twice = self._summed(cut, crossing), self._summed((volume - cut) / 2, within)
        law = self.noise.quantile(4 / np.maximum(crossing, 4.0))
        return cuts.ratio(cut, volume, (once, once, once + 4 * twice), self.noise.covers, law)

    def _summed(self, weight: Floats, pairs: Floats) -> Floats:
        """The variance of the estimated weight of so many pairs: the largest within three of its standard errors."""
        variance = cuts.pair_variance(pairs, self.noise.variance)
        if not self.noise.rounded:
            return np.asarray(variance)
        reach = 3 * np.sqrt(variance + pairs / 4)
        worst = np.minimum(np.maximum(pairs / 2, weight - reach), weight + reach)
        return np.asarray(variance + cuts.rounding_variance(worst, pairs, pairs, 1.0))
