"""A projection as integers, and how far one unit can move what it makes of a row: sensitivities.

The width of each column is folded into a d x k matrix, which is rounded to integers; from then on that integer matrix
*is* the projection, and sensitivities are computed on it, before any data is read.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.numerics import lattice
from sfumato.numerics.lattice import Matrix, Plain
from sfumato.numerics.spectral_norm import norm_bound
from sfumato.numerics.types import Floats, Integers, Order
from sfumato.privacy.guarantee import Change
from sfumato.tables.encoding import Group

Groups: TypeAlias = tuple[Group, ...]  # encoded columns that one value moves together

_NARROWEST = 1e-100  # widths beyond this, or its reciprocal, could overflow or underflow when squared
_ENUMERATE = 16  # up to this many output columns, maxima over sign vectors are taken by trying all of them


class Named(Protocol):
    """Which projection it is: what its sensitivities and its law need to know beside the matrix."""

    @property
    def family(self) -> str:
        """The family of a projection on the lattice, or ``principal``."""
        ...

    @property
    def dim_in(self) -> int:
        """The number of input columns of a projection on the lattice."""
        ...

    @property
    def dim_out(self) -> int:
        """The number of output columns of a projection on the lattice."""
        ...

    @property
    def sparsity(self) -> int | None:
        """How many entries of a row of a lattice projection are not zero, where the family says so."""
        ...


@dataclass(frozen=True, slots=True)
class Drawn:
    """A projection P = values * factor. ``error`` bounds the Frobenius distance of P from a draw of the ideal law."""

    values: Matrix
    factor: float
    error: float = 0.0


@dataclass(frozen=True, slots=True)
class NamedRows:
    """Some rows of a projection on the lattice: its family and width, and fewer input columns."""

    family: str
    dim_in: int
    dim_out: int
    sparsity: int | None


@dataclass(frozen=True, slots=True, eq=False)
class LatticeProjection:
    """A projection as integers: data integers q give the exact output sum_j q_j * entries_jl, in units of ``unit``."""

    projection: Named
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
        """How much rounding of the inputs to the lattice can lengthen a change: one step per column.

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

    def part(self, rows: NDArray[np.intp]) -> "LatticeProjection":
        """Some rows of the projection, on the grid and in the unit of the whole: their outputs are summands of its."""
        whole = self.projection
        named = NamedRows(whole.family, int(rows.size), whole.dim_out, whole.sparsity)
        return replace(self, projection=named, entries=self.entries[rows], ranges=self.ranges[rows])

    def sensitivity(self, change: Change, order: Order, *, groups: Groups = ()) -> float:
        """How far the exact integer output of one row can move, in the l1 (order 1) or l2 norm; rounded up.

        Guarantee: at least max ||vP|| over all changes v of one unit, rounding of the inputs included. Equal to it (up
        to that rounding) for attributes that are numbers or categories, for l1 balls, for l2 balls in the l2 norm, and,
        with up to 16 output columns, for l2 balls and boxes in the l1 norm (balls that fit within the bounds; without
        vectors); otherwise an upper bound. ``groups``: columns that one value moves together.
        """
        check.one_of(("1", "2"), order=str(order))
        if change.kind == "attribute":
            return self._attribute(order, groups)
        if change.kind == "box":
            return self._box(order, groups)
        return self._ball(change.kind, change.radius or 0.0, order)

    def _attribute(self, order: Order, groups: Groups) -> float:
        norms = _row_norms(self.entries, order)
        alone = _alone(norms.size, groups)
        parts = [self._group(group, order, norms) for group in groups]
        moved = max([float(norms[alone].max(initial=0.0)) * 2.0**self.input_bits, *parts])
        return self._exact_or_up(moved, order)

    def _group(self, group: Group, order: Order, norms: Floats) -> float:
        """How far one value of a group moves the integer output; exact for a category, else an upper bound.

        At most ``choices`` columns of a set move, each by a whole width; a missing number lies at the middle, and
        every other cell by itself; a vector moves all its columns, and is as long as its group says, in either norm.
        """
        top, own = 2.0**self.input_bits, norms[group.start : group.stop]
        rows = self.entries[group.start : group.stop]
        if group.most == 1:
            return max(_widest_pair(rows, order), float(own.max())) * top
        if group.level:
            ends = rows if isinstance(rows, np.ndarray) else rows.toarray()
            missing = np.stack([ends[0] / 2 + ends[1], ends[0] / 2 - ends[1]])
            return self._up(max(float(own[0]), float(_row_norms(missing, order).max())) * top + float(own[0]))
        moving = own.size if group.choices is None else group.choices
        by_column = float(np.sort(own)[-moving:].sum()) * top
        per_step = _scale_rows(rows, 1 / self.step[group.start : group.stop])
        by_length = self._group_length(group) * norm_bound(per_step) * (math.sqrt(self.dim_out) if order == 1 else 1.0)
        by_sum = self._group_sum(group) * float(_row_norms(per_step, order).max())
        return self._up(min(by_column, by_length, by_sum))

    def _group_sum(self, group: Group) -> float:
        """How far apart two values of a group are in the l1 norm, in weighted units, after the inputs are rounded."""
        return group.reach1 + float(self.step[group.start : group.stop].sum()) * (
            1 + 2.0 ** (self.input_bits - 48) + 1e-9
        )

    def _group_length(self, group: Group) -> float:
        """How far apart two values of a group are, in weighted units, after the inputs are rounded."""
        if group.choices is not None:  # whole widths, which the lattice holds
            return math.sqrt(group.choices) * float(self.ranges[group.start : group.stop].max()) * (1 + 2.0**-50)
        rounding = float(np.linalg.norm(self.step[group.start : group.stop]))
        return group.reach2 + rounding * (1 + 2.0 ** (self.input_bits - 48) + 1e-9)

    def _ball(self, kind: str, radius: float, order: Order) -> float:
        per_step = _scale_rows(self.entries, 1 / self.step)
        radius += self.rounding_growth(1 if kind == "l1" else 2)
        if kind == "l1":
            return self._up(radius * float(_row_norms(per_step, order).max()))
        if order == 1 and self.dim_out <= _ENUMERATE:
            return self._up(radius * _over_signs(per_step, lambda image: np.sqrt(np.square(image).sum(axis=0))))
        return self._up(radius * norm_bound(per_step) * (math.sqrt(self.dim_out) if order == 1 else 1.0))

    def _box(self, order: Order, groups: Groups) -> float:
        top = 2.0**self.input_bits
        alone = _alone(self.projection.dim_in, groups)
        exact = math.inf
        if order == 1 and self.dim_out <= _ENUMERATE:
            exact = self._exact_or_up(top * _over_signs(self.entries, lambda image: _reach(image, alone, groups)), 1)
            if all(group.most is not None for group in groups):
                return exact  # what follows is no less
        norms = _row_norms(self.entries, order)
        by_column = top * float(norms[alone].sum()) + math.fsum(self._group(g, order, norms) for g in groups)
        squares = [self._group_length(group) ** 2 for group in groups]
        longest = math.sqrt(float(np.sum(self.ranges[alone] ** 2)) + math.fsum(squares))
        by_length = longest * norm_bound(_scale_rows(self.entries, 1 / self.step))
        return min(exact, self._up(min(by_column, by_length * (math.sqrt(self.dim_out) if order == 1 else 1.0))))

    def _exact_or_up(self, value: float, order: Order) -> float:
        """A sensitivity rounded up; of order 1 a sum of integers, and exact while below 2^53 steps."""
        exact = order == 1 and value < 2.0 ** (lattice.EXACT_BITS + self.input_bits)
        return value if exact else self._up(value)

    def _up(self, value: float) -> float:
        return lattice.past_roundings(value, self.projection.dim_in + self.dim_out)


def on_lattice(
    source: Named, drawn: Drawn, ranges: ArrayLike, input_bits: int, projection_bits: int
) -> LatticeProjection:
    """The integer form of a projection matrix, drawn or given, for columns of weighted widths ``ranges``."""
    widths = np.broadcast_to(np.asarray(ranges, float), (source.dim_in,)).copy()
    check_widths(widths)
    lattice.check_exact(input_bits=input_bits, projection_bits=projection_bits, terms=source.dim_in)
    folded = _scale_rows(drawn.values, widths)
    peak = float(abs(folded).max())
    entries = _on_entries(lambda values: np.rint(values / peak * 2.0**projection_bits), folded)
    unit = drawn.factor * peak * 2.0 ** -(input_bits + projection_bits)
    return LatticeProjection(source, entries, widths, input_bits, projection_bits, unit, drawn.error)


def input_bits(dim: int) -> int:
    """Bits of a row beside a lattice projection: 20, or as many as an exact product over ``dim`` columns allows.

    The projection has one bit more.
    """
    return min(lattice.INPUT_BITS, (lattice.EXACT_BITS - 1 - (dim - 1).bit_length()) // 2)


def check_widths(widths: Floats) -> None:
    """Refuse to project columns of weighted widths whose squares would not be ordinary numbers."""
    bad = np.flatnonzero(~((widths >= _NARROWEST) & (widths <= 1 / _NARROWEST)))
    if bad.size:
        expected = f"positive and finite, between {_NARROWEST:g} and {1 / _NARROWEST:g}"
        raise check.fail(f"ranges[{bad[0]}]", float(widths[bad[0]]), expected)


def check_steps(weights: Floats, step: float) -> None:
    """Refuse weights so large that a number to project would be worth more lattice steps than a double can count."""
    with np.errstate(over="ignore"):
        bad = np.flatnonzero(~np.isfinite(weights / step))
    if bad.size:
        raise check.fail(f"weights[{bad[0]}]", float(weights[bad[0]]), "small enough for its column's width")


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
    """Sensitivity of a projected category: the largest ||P_a - P_b|| over two rows of the projection."""
    dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
    return max((float(_row_norms(dense[a + 1 :] - dense[a], order).max()) for a in range(len(dense) - 1)), default=0.0)


def _reach(image: Floats, alone: np.ndarray, groups: Groups) -> Floats:
    """Sensitivity of a projection over boxes, largest <v, image>: columns of any sign, category to another or none.

    Of a set, ``most`` items go and as many others come. Vectors count as boxes.
    """
    total = np.abs(image[alone]).sum(axis=0)
    for group in groups:
        own = image[group.start : group.stop]
        if group.most is None:
            total = total + np.abs(own).sum(axis=0)
        elif group.most == 1:
            total = total + np.maximum(own.max(axis=0), 0) - np.minimum(own.min(axis=0), 0)
        else:
            ordered = np.sort(own, axis=0)
            total = total + np.maximum(ordered[-group.most :], 0).sum(axis=0)
            total = total - np.minimum(ordered[: group.most], 0).sum(axis=0)
    return np.asarray(total)


def _alone(dim: int, groups: Groups) -> np.ndarray:
    """Which projected columns are a value of their own."""
    alone = np.ones(dim, bool)
    for group in groups:
        alone[group.start : group.stop] = False
    return alone


def _over_signs(matrix: Matrix, measure: Callable[[Floats], Floats]) -> float:
    """Sensitivity of a projection over a box: largest measure(matrix @ s) over sign vectors s; s and -s are one."""
    k = matrix.shape[1]
    codes = np.arange(1 << (k - 1))
    block = max(1, (1 << 22) // matrix.shape[0])
    best = 0.0
    for start in range(0, codes.size, block):
        bits = (codes[start : start + block, None] >> np.arange(k)) & 1
        best = max(best, float(measure(matrix @ (2.0 * bits.T - 1)).max()))
    return best
