"""Fixed-point arithmetic without rounding errors.

Clipped data and projections are integers held in doubles. While every sum of products stays within 2^53, each partial
sum is an integer that a double holds exactly, so a BLAS product is exact in any order of summation: the same on every
machine, thread count and block size. Totals over rows are gathered in wide integers and do not depend on their order.

Blocks are columns-first: shape (dim, rows), one contiguous run per column, as Arrow and Parquet store them.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato import check
from sfumato.errors import ParameterError, RangeError
from sfumato.numerics.types import Floats, Integers, Order

Matrix: TypeAlias = Any  # a dense array of doubles or a scipy.sparse.csr_array

INPUT_BITS = 20
PROJECTION_BITS = 21
EXACT_BITS = 53
_CACHED = 1 << 20  # numbers at a time: in the cache, and long enough that threads do not wait for the interpreter
_SCRATCH = 1 << 23  # numbers of working space for a product
PIECE = 4608  # records at a time: few, as cores share the cache, but over 4,096, from where on NumPy buffers nothing
_TILE = 256  # rows and columns that are transposed together: few enough for the cache of one core
_LARGEST_TOTAL = 1 << 62  # of coarsened totals: with noise, which stays below 2^61, they fit 64 bits


def check_exact(*, input_bits: int, projection_bits: int, terms: int) -> None:
    """Refuse bit widths for which a sum of ``terms`` products of lattice integers could leave the exact doubles.

    With |x| <= 2^input_bits and |p| <= 2^projection_bits every partial sum is at most terms * 2^(sum of bits) <= 2^53.
    """
    check.whole(1, input_bits=input_bits, projection_bits=projection_bits, terms=terms)
    growth = (terms - 1).bit_length()
    excess = input_bits + projection_bits + growth - EXACT_BITS
    if excess > 0:
        raise ParameterError(
            f"input_bits={input_bits} + projection_bits={projection_bits} + {growth} (for {terms} columns) must be at "
            f"most {EXACT_BITS} for the product to be exact: lower input_bits or projection_bits by {excess} in all"
        )


class Plain:
    """Columns as they were read, floating numbers without gaps; NaN stands for what ``missing`` has for its column.

    They become doubles a range of rows at a time, while they are in the cache.
    """

    def __init__(self, columns: Sequence[NDArray[np.floating]], missing: Floats) -> None:
        self._columns, self._missing = columns, missing

    @property
    def shape(self) -> tuple[int, int]:
        """Number of columns and of rows, before they go on the lattice."""
        return len(self._columns), len(self._columns[0])

    def __getitem__(self, key: tuple[slice, slice]) -> "Plain":
        """``plain[:, start:stop]``: some of the rows, still as they were read."""
        some, rows = key
        return Plain([column[rows] for column in self._columns[some]], self._missing[some])

    def doubles(self, out: Floats | None = None) -> Floats:
        """The columns in doubles, NaN filled, ready to be rounded to the lattice; ``out`` is contiguous."""
        out = np.empty(self.shape) if out is None else out
        assert out.flags.c_contiguous
        np.concatenate(self._columns, out=out.reshape(-1))  # one call: threads wait for the interpreter less often
        if out.size and np.isnan(out.min()):
            np.copyto(out, self._missing[:, None], where=np.isnan(out))
        return out


class PlainRows(Plain):
    """Rows as they were read, floating numbers without gaps, (rows, columns); turned into columns while in the cache.

    NaN stands for what ``missing`` has for its column.
    """

    def __init__(self, rows: NDArray[np.floating], missing: Floats) -> None:
        self._rows, self._missing = rows, missing

    @property
    def shape(self) -> tuple[int, int]:
        """Number of columns and of rows, before they go on the lattice."""
        return self._rows.shape[1], self._rows.shape[0]

    def __getitem__(self, key: tuple[slice, slice]) -> "PlainRows":
        """``plain[:, start:stop]``: some of the rows, still as they were read."""
        some, rows = key
        return PlainRows(self._rows[rows, some], self._missing[some])

    def doubles(self, out: Floats | None = None) -> Floats:
        """The columns in doubles, NaN filled, ready to be rounded to the lattice."""
        out = np.empty(self.shape) if out is None else out
        turn(self._rows, out)
        if out.size and np.isnan(self._rows.min()):
            np.copyto(out, self._missing[:, None], where=np.isnan(out))
        return out


def turn(rows: NDArray[np.floating], out: Floats) -> None:
    """Numbers (rows, columns) as columns of doubles for the lattice, a tile at a time, so that both stay in cache."""
    for start in range(0, rows.shape[0], _TILE):
        for first in range(0, rows.shape[1], _TILE):
            window, some = slice(start, start + _TILE), slice(first, first + _TILE)
            out[some, window] = rows[window, some].T


def doubles(block: Floats | Plain, out: Floats | None = None) -> Floats:
    """A block for fixed-point rounding as an array of doubles, made in ``out`` if it is made here."""
    return block.doubles(out) if isinstance(block, Plain) else block


Block: TypeAlias = Floats | Plain


class InputGrid:
    """The lattice of clipped inputs: column j runs from low_j to high_j in 2^bits equal steps, both ends included.

    Guarantee: ``round`` maps any double whatever, NaN and infinities included, to an integer in [0, 2^bits], cell by
    cell, so a change of one cell moves one integer and by at most 2^bits. NaN becomes 0, the low end.
    """

    def __init__(self, low: ArrayLike, high: ArrayLike, bits: int = INPUT_BITS) -> None:
        self.low, self.high = np.atleast_1d(np.asarray(low, float)), np.atleast_1d(np.asarray(high, float))
        check.whole(1, input_bits=bits)
        check.between(1, 40, input_bits=bits)
        self.bits = bits
        if self.low.shape != self.high.shape or self.low.ndim != 1:
            raise ParameterError(
                f"low and high must be vectors of one length, got shapes {self.low.shape} and {self.high.shape}"
            )
        for name, bound in (("low", self.low), ("high", self.high)):
            bad = np.flatnonzero(~np.isfinite(bound))
            if bad.size:
                raise check.fail(f"{name}[{bad[0]}]", float(bound[bad[0]]), "finite")
        with np.errstate(over="ignore", divide="ignore"):
            bad = np.flatnonzero(~((self.high > self.low) & np.isfinite(self._per_unit) & (self._per_unit > 0)))
        if bad.size:
            low, high = float(self.low[bad[0]]), float(self.high[bad[0]])
            raise ParameterError(f"high[{bad[0]}] must lie above low[{bad[0]}], by a usable width, got {low=}, {high=}")

    @property
    def _per_unit(self) -> Floats:
        return np.asarray(2.0**self.bits / (self.high - self.low))

    @property
    def dim(self) -> int:
        """The number of columns on the lattice."""
        return self.low.size

    @property
    def step(self) -> Floats:
        """The width of one lattice step of each column."""
        return np.asarray((self.high - self.low) * 2.0**-self.bits)

    def round(self, columns: Block, out: Floats | None = None) -> Floats:
        """Clip a (dim, rows) block to the bounds and round it to the lattice; integers 0..2^bits, held in doubles."""
        if len(columns.shape) != 2 or columns.shape[0] != self.dim:
            raise ParameterError(f"columns must have shape ({self.dim}, rows), got {columns.shape}")
        out = np.empty(columns.shape) if out is None else out
        given, rows = doubles(columns, out), columns.shape[1]
        zero, top = np.zeros(rows), np.full(rows, 2.0**self.bits)
        low, per_unit = self.low[:, None], self._per_unit[:, None]
        together = max(1, _CACHED // max(1, rows))
        with np.errstate(over="ignore", invalid="ignore"):
            for j in range(0, self.dim, together):  # a few columns at a time, so that the five passes stay in cache
                some = slice(j, j + together)
                cells = out[some]
                np.subtract(given[some], low[some], out=cells)
                np.multiply(cells, per_unit[some], out=cells)
                np.fmax(cells, zero, out=cells)  # fmax(NaN, 0) = 0
                np.fmin(cells, top, out=cells)
                np.rint(cells, out=cells)
        return out

    def round_entries(self, values: Floats, columns: NDArray[np.integer]) -> Floats:
        """``round`` of single cells, each of its own column: the same operations, so the same integers."""
        with np.errstate(over="ignore", invalid="ignore"):
            cells = (values - self.low[columns]) * self._per_unit[columns]
            return np.asarray(np.rint(np.fmin(np.fmax(cells, 0.0), 2.0**self.bits)))


def product(matrix: Matrix, block: Floats) -> Floats:
    """The exact product matrix.T @ block of lattice integers that passed ``check_exact``, however it is computed.

    ``matrix`` has shape (dim_in, dim_out), dense or CSR; ``block`` (dim_in, rows); the result (dim_out, rows).
    """
    return np.asarray(matrix.T @ block)


def rounded_product(
    grid: InputGrid, matrix: Matrix, columns: Block, *, projection_bits: int, shift: int = 0
) -> Integers:
    """Round a (dim_in, rows) block to its grid, project it exactly and ``coarsen``, a cache-sized piece at a time.

    ``projection_bits`` bounds the entries of the matrix: |p| <= 2^projection_bits.
    """
    check_exact(input_bits=grid.bits, projection_bits=projection_bits, terms=grid.dim)
    rows = columns.shape[1]
    piece = min(PIECE, max(1 << 10, _SCRATCH // grid.dim))
    out, scratch = np.empty((matrix.shape[1], rows), np.int64), np.empty(grid.dim * min(piece, rows))
    for start in range(0, rows, piece):
        window = slice(start, min(start + piece, rows))
        size = window.stop - start
        rounded = grid.round(columns[:, window], out=scratch[: grid.dim * size].reshape(grid.dim, size))
        coarsen(product(matrix, rounded), shift, out=out[:, window])
    return out


def rounded_sparse_product(
    grid: InputGrid, matrix: Matrix, rows: Any, *, projection_bits: int, shift: int = 0
) -> Integers:
    """``rounded_product`` of a SciPy sparse (rows, dim_in) block, in time and memory for what it stores.

    With z the lattice point of 0 and x that of a row, x P = z P + (x - z) P, where x - z is as sparse as the row. Every
    partial sum is an integer of at most 2^53 again, so the result is the same to the bit.
    """
    check_exact(input_bits=grid.bits, projection_bits=projection_bits, terms=grid.dim)
    if rows.shape[1] != grid.dim:
        raise ParameterError(f"rows must have {grid.dim} columns, got shape {rows.shape}")
    origin = grid.round(np.zeros((grid.dim, 1)))
    moved = rows.copy()
    moved.data = grid.round_entries(rows.data, rows.indices) - origin[rows.indices, 0]
    made = moved @ matrix
    dense = made if isinstance(made, np.ndarray) else made.toarray()
    return coarsen(np.ascontiguousarray(dense.T) + product(matrix, origin), shift)


def coarsen(exact: Floats | Integers, shift: int, out: Integers | None = None) -> Integers:
    """Exact integers to a coarser lattice: floor(y / 2^shift + 1/2), in integer arithmetic."""
    check.whole(0, shift=shift)
    out = np.empty(exact.shape, np.int64) if out is None else out
    np.copyto(out, exact, casting="unsafe")
    if shift:
        out += 1 << (shift - 1)
        out >>= shift
    return out


def coarsened_sensitivity(sensitivity: float, shift: int, dim_out: int, order: Order) -> float:
    """Sensitivity on the coarser lattice of ``coarsen``: each of k outputs may round apart by under one step more."""
    if shift == 0:
        return sensitivity
    return past_roundings(sensitivity * 2.0**-shift + (dim_out if order == 1 else math.sqrt(dim_out)), 2)


def past_roundings(value: float, terms: int) -> float:
    """A bound, computed as a sum of ``terms`` non-negative products in doubles, rounded up past its roundings."""
    return value * (1 + (terms + 256) * 2.0**-52)


class Total:
    """An exact sum of integer arrays of one shape, for any number of terms in any order.

    Kept as high * 2^32 + low with 0 <= low < 2^32, so that it holds 2^95 and two totals merge exactly.
    """

    __slots__ = ("_high", "_low")

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._high, self._low = np.zeros(shape, np.int64), np.zeros(shape, np.int64)

    def add(self, block: NDArray[np.float64] | NDArray[np.int64]) -> Self:
        """Add one array of lattice integers below 2^62 in size, held in doubles or int64."""
        if block.size and not (float(block.max()) <= 2.0**62 and float(block.min()) >= -(2.0**62)):
            raise RangeError("one block's sums go beyond 62 bits: release fewer columns")
        self._low += block.astype(np.int64)
        return self._carry()

    def merge(self, other: "Total") -> Self:
        """Add another exact total, for instance another thread's."""
        self._high += other._high
        self._low += other._low
        return self._carry()

    def _carry(self) -> Self:
        self._high += self._low >> 32
        self._low &= (1 << 32) - 1
        return self

    @property
    def halves(self) -> tuple[Integers, Integers]:
        """High and low part, as ``of`` takes them: how an exact total travels between processes."""
        return self._high, self._low

    @classmethod
    def of(cls, high: Integers, low: Integers) -> Self:
        """An exact total from its halves, or from sums of the halves of others."""
        total = cls(high.shape)
        total._high, total._low = high.copy(), low.copy()
        return total._carry()

    def part(self, chosen: Any) -> "Total":
        """Some of the numbers of an exact total, as arrays are indexed."""
        return Total.of(self._high[chosen], self._low[chosen])

    def coarsened(self, shift: int) -> Integers:
        """``coarsen`` of the total: floor(y / 2^shift + 1/2), cut to [-2^62, 2^62) and so never refused.

        Which totals are beyond that depends on cells, so a refusal would tell of them. Cutting each number moves no two
        totals further apart, and leaves room for the noise.
        """
        check.whole(0, shift=shift)
        moved = Total.of(self._high, self._low)
        if shift:
            half = 1 << (shift - 1)
            moved = Total.of(self._high + (half >> 32), self._low + (half & ((1 << 32) - 1)))
        high, low = moved.halves
        if shift >= 32:
            return np.asarray(np.clip(high >> (shift - 32), -_LARGEST_TOTAL, _LARGEST_TOTAL - 1))
        most = _LARGEST_TOTAL >> (32 - shift)
        low = np.where(high < -most, 0, np.where(high >= most, (1 << 32) - 1, low))
        return np.asarray((np.clip(high, -most, most - 1) << (32 - shift)) + (low >> shift))

    def doubles(self) -> Floats:
        """The exact total in doubles, rounded."""
        return np.asarray(self._high * 2.0**32 + self._low)

    def integers(self) -> NDArray[np.object_]:
        """The exact total as Python integers, which have no limit."""
        return np.asarray((self._high.astype(object) << 32) + self._low.astype(object))

    def int64(self) -> Integers:
        """The exact total as int64, when it fits."""
        if self._high.size and not ((self._high >= -(1 << 31)) & (self._high < (1 << 31))).all():
            raise RangeError("there are more rows or columns than 64-bit sums can hold: release a part")
        return np.asarray((self._high << 32) + self._low)


def gram(blocks: Iterable[Floats], dim: int, bits: int) -> Total:
    """Exact Gram matrix: the sum over all rows of x x^T, for (dim, rows) blocks of integers |x| <= 2^bits.

    Each block is cut so that 2 * bits + log2(rows of a piece) <= 53, which makes its float64 product exact; as many
    pieces as 62 bits hold are added up before they go to the total.
    """
    check.between(1, 26, bits=bits)
    total, piece = Total((dim, dim)), 1 << (EXACT_BITS - 2 * bits)
    for block in blocks:
        _check_size(block, bits)
        rows = block.shape[1]
        for first in range(0, rows, piece << (62 - EXACT_BITS)):
            some = min(piece << (62 - EXACT_BITS), rows - first)
            size = -(-some // -(-some // piece))  # pieces of about one size
            found = np.zeros((dim, dim), np.int64)
            for start in range(first, first + some, size):
                part = block[:, start : min(start + size, first + some)]
                found += (part @ part.T).astype(np.int64)
            total.add(found)
    return total


def _check_size(block: Floats, bits: int) -> None:
    if block.size and not float(np.abs(block).max()) <= 2.0**bits:
        raise OverflowError(f"a block holds numbers beyond {bits} bits: clip it before it is summed")
