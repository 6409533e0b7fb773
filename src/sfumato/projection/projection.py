"""Random projections from a public seed, in integer form, with the sensitivities of what they project.

A ``Projection`` names a d x k matrix P with E||vP||^2 = ||v||^2; a ``Given`` one holds a matrix from elsewhere.
``on_lattice`` folds the width of each column into it and rounds it to integers; from then on that integer matrix *is*
the projection, and sensitivities are computed on it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np
import scipy
from numpy.typing import ArrayLike

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.numerics import lattice
from sfumato.numerics.lazy_columns import Plain
from sfumato.numerics.spectral_norm import norm_bound
from sfumato.numerics.types import Floats, Integers
from sfumato.privacy.guarantee import Change
from sfumato.projection import families
from sfumato.projection.families import Drawn, Matrix
from sfumato.randomness.secret import public_words

Family = Literal["identity", "gaussian", "rademacher", "achlioptas", "sparse", "orthonormal"]
Order = Literal[1, 2]
Runs: TypeAlias = tuple[tuple[int, int], ...]  # [start, stop) of the one-hot columns of each category

_NARROWEST = 1e-100  # widths beyond this, or its reciprocal, could overflow or underflow when squared
_ENUMERATE = 16  # up to this many output columns, maxima over sign vectors are taken by trying all of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """A d x k projection of one of six families.

    identity     P = I.                          gaussian     N(0, 1/k) entries.
    rademacher   +-1/sqrt(k).                    achlioptas   +-sqrt(3/k) with probability 1/6 each, else 0.
    sparse       ``sparsity`` entries +-1/sqrt(s) at distinct places of each row (s = 1 is CountSketch); kept as CSR.
    orthonormal  sqrt(d/k) times k orthonormal columns of Haar law.
    """

    family: Family
    dim_in: int
    dim_out: int
    seed: int = 0
    sparsity: int | None = None

    def __post_init__(self) -> None:
        check.one_of(get_args(Family), family=self.family)
        check.whole(1, dim_in=self.dim_in, dim_out=self.dim_out)
        check.whole(0, seed=self.seed)
        if self.family == "sparse":
            object.__setattr__(self, "sparsity", 1 if self.sparsity is None else self.sparsity)
            check.whole(1, sparsity=self.sparsity or 0)
        self._check_together()

    def _check_together(self) -> None:
        d, k, s = self.dim_in, self.dim_out, self.sparsity
        if s is not None and self.family != "sparse":
            raise ParameterError(f"only family='sparse' has a sparsity, got sparsity={s!r} with family={self.family!r}")
        if s is not None and s > k:
            raise ParameterError(f"sparsity must be at most dim_out={k} (distinct places in a row), got sparsity={s}")
        if self.family == "orthonormal" and k > d:
            raise ParameterError(f"dim_out must be at most dim_in={d} for family='orthonormal', got dim_out={k}")
        if self.family == "identity" and k != d:
            raise ParameterError(f"dim_out must equal dim_in={d} for family='identity', got dim_out={k}")

    def draw(self) -> Drawn:
        """The matrix in real form, the same for the same seed everywhere and for ever."""
        sparsity = self.sparsity or 0
        words = public_words(self.seed, self.family, self.dim_in, self.dim_out, sparsity)
        return families.DRAWS[self.family](words, self.dim_in, self.dim_out, sparsity)

    def on_lattice(
        self,
        ranges: ArrayLike,
        *,
        input_bits: int = lattice.INPUT_BITS,
        projection_bits: int = lattice.PROJECTION_BITS,
    ) -> "LatticeProjection":
        """The integer form, for columns of weighted widths ``ranges`` with data in [0, 2^input_bits].

        Entry (j, l) becomes the integer nearest to ranges_j * P_jl / unit, where the unit is such that the largest
        entry is 2^projection_bits.
        """
        drawn = self.draw()
        if float(abs(drawn.values).max()) == 0:
            raise ParameterError(f"seed={self.seed} draws a projection of zeros: choose another seed or dim_out")
        return _on_lattice(self, drawn, ranges, input_bits, projection_bits)


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """A d x k projection that is given as a dense matrix, and public: its guarantees are those of a fixed projection.

    Principal components are one, once they are computed from what has been published.
    """

    values: Floats
    family: ClassVar[Literal["principal"]] = "principal"
    sparsity: ClassVar[None] = None

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or not np.isfinite(self.values).all() or not self.values.any():
            raise ParameterError(
                f"a projection must be a finite matrix that is not zero, got one of shape {self.values.shape}"
            )

    @property
    def dim_in(self) -> int:
        """The number of input columns."""
        return int(self.values.shape[0])

    @property
    def dim_out(self) -> int:
        """The number of output columns."""
        return int(self.values.shape[1])

    def on_lattice(self, ranges: ArrayLike, *, input_bits: int, projection_bits: int) -> "LatticeProjection":
        """The integer form, as of a projection that is drawn."""
        return _on_lattice(self, Drawn(self.values, 1.0), ranges, input_bits, projection_bits)


def _on_lattice(
    source: Projection | Given, drawn: Drawn, ranges: ArrayLike, input_bits: int, projection_bits: int
) -> "LatticeProjection":
    widths = np.broadcast_to(np.asarray(ranges, float), (source.dim_in,)).copy()
    check_widths(widths)
    lattice.check_exact(input_bits=input_bits, projection_bits=projection_bits, terms=source.dim_in)
    folded = _scale_rows(drawn.values, widths)
    peak = float(abs(folded).max())
    entries = _on_entries(lambda values: np.rint(values / peak * 2.0**projection_bits), folded)
    unit = drawn.factor * peak * 2.0 ** -(input_bits + projection_bits)
    return LatticeProjection(source, entries, widths, input_bits, projection_bits, unit, drawn.error)


def check_widths(widths: Floats) -> None:
    """Refuse weighted widths whose squares would not be ordinary numbers."""
    bad = np.flatnonzero(~((widths >= _NARROWEST) & (widths <= 1 / _NARROWEST)))
    if bad.size:
        expected = f"positive and finite, between {_NARROWEST:g} and {1 / _NARROWEST:g}"
        raise check.fail(f"ranges[{bad[0]}]", float(widths[bad[0]]), expected)


@dataclass(frozen=True, slots=True, eq=False)
class LatticeProjection:
    """A projection as integers: data integers q give the exact output sum_j q_j * entries_jl, in units of ``unit``."""

    projection: Projection | Given
    entries: Matrix
    ranges: Floats
    input_bits: int
    projection_bits: int
    unit: float
    draw_error: float

    @property
    def dim_out(self) -> int:
        """The number of output columns."""
        return self.projection.dim_out

    @property
    def step(self) -> Floats:
        """What one step of each input column is worth, in weighted units."""
        return np.asarray(self.ranges * 2.0**-self.input_bits)

    @property
    def rounding(self) -> float:
        """Upper bound on the Frobenius distance of the matrix in use from a draw of the ideal law, in weighted units.

        An entry is within half a step of the integers (and a little more for the arithmetic) of its ideal, and one such
        step is ``unit / step_j`` in row j. It depends on the draw: a loss that averages over draws needs
        ``rounding_beforehand``.
        """
        rows = (0.5 + 2.0 ** (self.projection_bits - 49)) * self.unit / self.step
        rounded = math.sqrt(self.dim_out) * math.sqrt(float(np.sum(rows * rows)))
        return (rounded + self.draw_error) * (1 + 1e-9)

    @property
    def rounding_beforehand(self) -> float:
        """A bound on ``rounding`` that does not depend on the draw; a draw that breaks it is refused.

        For gaussian P it holds while no entry exceeds nine standard deviations, which fails with probability below
        1e-18 per entry; for orthonormal P entries of Q are at most 1.
        """
        largest = 9.0 if self.projection.family == "gaussian" else math.sqrt(self.projection.dim_in)
        widest = float(self.ranges.max()) * float(np.linalg.norm(1 / self.ranges))
        bound = 0.51 * largest * widest * 2.0**-self.projection_bits + 2.0**-18
        if self.rounding > bound:
            raise ParameterError(
                "this draw of the projection is too uneven for a proof that averages over draws; nothing was released: "
                "try again, or use projection='fixed'"
            )
        return bound

    def rounding_growth(self, order: Order) -> float:
        """How much rounding to the lattice can lengthen a change: one step per column.

        ``InputGrid.round`` works in doubles, so it may miss the nearest lattice point by 2^(input_bits - 51) steps.
        """
        return float(np.linalg.norm(self.step, order)) * (1 + 2.0 ** (self.input_bits - 48) + 1e-9)

    def apply(self, grid: lattice.InputGrid, columns: Any, shift: int = 0) -> Integers:
        """Clip and round a (dim_in, rows) block to its grid, project it and coarsen it: integers, (dim_out, rows).

        A SciPy sparse block has shape (rows, dim_in), and stays sparse.
        """
        if (grid.dim, grid.bits) != (self.projection.dim_in, self.input_bits):
            raise ParameterError(
                f"the grid has {grid.dim} columns of {grid.bits} bits, "
                f"the projection takes {self.projection.dim_in} of {self.input_bits}"
            )
        dense = isinstance(columns, np.ndarray | Plain)
        way = lattice.rounded_product if dense else lattice.rounded_sparse_product
        return way(grid, self.entries, columns, projection_bits=self.projection_bits, shift=shift)

    def matrix(self) -> Matrix:
        """The projection in use, in weighted units: what a public row is multiplied with."""
        return _scale_rows(self.entries, self.unit / self.step)

    def sensitivity(self, change: Change, order: Order, *, categories: Runs = ()) -> float:
        """How far the exact integer output of one row can move, in the l1 (order 1) or l2 norm; rounded up.

        Guarantee: at least max ||vP|| over all changes v of one unit, rounding of the inputs included. Equal to it (up
        to that rounding) for attributes, for l1 balls, for l2 balls in the l2 norm, and, with up to 16 output columns,
        for l2 balls and boxes in the l1 norm (balls that fit within the bounds); otherwise an upper bound.
        ``categories``: one value of a category moves two of its one-hot columns.
        """
        check.one_of(("1", "2"), order=str(order))
        if change.kind == "attribute":
            return self._attribute(order, categories)
        if change.kind == "box":
            return self._box(order, categories)
        return self._ball(change.kind, change.radius or 0.0, order)

    def _attribute(self, order: Order, categories: Runs) -> float:
        largest = float(_row_norms(self.entries, order).max())
        largest = max([largest, *(_widest_pair(self.entries[a:b], order) for a, b in categories)])
        moved = largest * 2.0**self.input_bits
        return self._exact_or_up(moved, order)

    def _ball(self, kind: str, radius: float, order: Order) -> float:
        per_step = _scale_rows(self.entries, 1 / self.step)
        radius += self.rounding_growth(1 if kind == "l1" else 2)
        if kind == "l1":
            return self._up(radius * float(_row_norms(per_step, order).max()))
        if order == 1 and self.dim_out <= _ENUMERATE:
            return self._up(radius * _over_signs(per_step, lambda image: np.sqrt(np.square(image).sum(axis=0))))
        return self._up(radius * norm_bound(per_step) * (math.sqrt(self.dim_out) if order == 1 else 1.0))

    def _box(self, order: Order, categories: Runs) -> float:
        top = 2.0**self.input_bits
        alone = np.ones(self.projection.dim_in, bool)
        for a, b in categories:
            alone[a:b] = False
        if order == 1 and self.dim_out <= _ENUMERATE:
            return self._exact_or_up(top * _over_signs(self.entries, lambda image: _reach(image, alone, categories)), 1)
        norms = _row_norms(self.entries, order)
        parts = [max(_widest_pair(self.entries[a:b], order), float(norms[a:b].max())) for a, b in categories]
        by_column = top * (float(norms[alone].sum()) + math.fsum(parts))
        squares = [2 * float(self.ranges[a:b].max()) ** 2 for a, b in categories]
        longest = math.sqrt(float(np.sum(self.ranges[alone] ** 2)) + math.fsum(squares))
        by_length = longest * norm_bound(_scale_rows(self.entries, 1 / self.step))
        return self._up(min(by_column, by_length * (math.sqrt(self.dim_out) if order == 1 else 1.0)))

    def _exact_or_up(self, value: float, order: Order) -> float:
        """Norms of order 1 are sums of integers, and exact while they stay below 2^53 steps."""
        exact = order == 1 and value < 2.0 ** (lattice.EXACT_BITS + self.input_bits)
        return value if exact else self._up(value)

    def _up(self, value: float) -> float:
        return _up(value, self.projection.dim_in + self.dim_out)


def coarsened(sensitivity: float, shift: int, dim_out: int, order: Order) -> float:
    """The sensitivity after ``lattice.coarsen``: each of k outputs may round apart by less than one step more."""
    if shift == 0:
        return sensitivity
    return _up(sensitivity * 2.0**-shift + (dim_out if order == 1 else math.sqrt(dim_out)), 2)


def check_steps(weights: Floats, step: float) -> None:
    """Refuse weights so large that a number of the table would be worth more steps than a double can count."""
    with np.errstate(over="ignore"):
        bad = np.flatnonzero(~np.isfinite(weights / step))
    if bad.size:
        raise check.fail(f"weights[{bad[0]}]", float(weights[bad[0]]), "small enough for its column's width")


def _up(value: float, terms: int) -> float:
    """Round up past the roundings of a bound that was computed as a sum of ``terms`` non-negative products."""
    return value * (1 + (terms + 256) * 2.0**-52)


def _on_entries(function: Callable[[Floats], Floats], matrix: Matrix) -> Matrix:
    if isinstance(matrix, np.ndarray):
        return function(matrix)
    return scipy.sparse.csr_array((function(matrix.data), matrix.indices, matrix.indptr), shape=matrix.shape)


def _scale_rows(matrix: Matrix, factors: Floats) -> Matrix:
    if isinstance(matrix, np.ndarray):
        return matrix * factors[:, None]
    return _on_entries(lambda data: data * np.repeat(factors, np.diff(matrix.indptr)), matrix)


def _row_norms(matrix: Matrix, order: Order) -> Floats:
    sums = abs(matrix).sum(axis=1) if order == 1 else np.sqrt((matrix * matrix).sum(axis=1))
    return np.asarray(sums, float).reshape(-1)


def _widest_pair(rows: Matrix, order: Order) -> float:
    """The largest ||P_a - P_b|| over two of the rows."""
    dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
    return max((float(_row_norms(dense[a + 1 :] - dense[a], order).max()) for a in range(len(dense) - 1)), default=0.0)


def _reach(image: Floats, alone: np.ndarray, categories: Runs) -> Floats:
    """The largest <v, image> over boxes: any sign for a column of its own, one category to another (or none) else."""
    total = np.abs(image[alone]).sum(axis=0)
    for a, b in categories:
        total = total + np.maximum(image[a:b].max(axis=0), 0) - np.minimum(image[a:b].min(axis=0), 0)
    return np.asarray(total)


def _over_signs(matrix: Matrix, measure: Callable[[Floats], Floats]) -> float:
    """The largest measure(matrix @ s) over all sign vectors s; s and -s count as one."""
    k = matrix.shape[1]
    codes = np.arange(1 << (k - 1))
    block = max(1, (1 << 22) // matrix.shape[0])
    best = 0.0
    for start in range(0, codes.size, block):
        bits = (codes[start : start + block, None] >> np.arange(k)) & 1
        best = max(best, float(measure(matrix @ (2.0 * bits.T - 1)).max()))
    return best
