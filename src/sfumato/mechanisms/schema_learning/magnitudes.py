"""The public partition of the numbers: octaves of both signs, each cut into equal parts, in order of value.

Octave i holds the numbers x with 2^i <= |x| < 2^(i+1), for i from -32 to 63. It is cut into 64 equal *parts*. Numbers
below 2^-32 in size share one cell with 0. Numbers of 2^64 and more, infinite ones among them, have a cell at each end.
So every number falls into exactly one part, whatever the data, and parts, octaves and the equal cells of ``even`` are
all unions of neighbouring parts. Cells of columns of dates are the same, of days since 1970.
"""

import functools
from dataclasses import dataclass

import numpy as np

from sfumato.numerics.types import Floats, Integers

_LOWEST, _HIGHEST = -32, 64  # exponents
_BITS = 6  # parts of an octave, as a power of two
_SIDE = (_HIGHEST - _LOWEST) << _BITS  # parts of one sign
_EDGE = _SIDE + 1  # the last part of one sign: numbers beyond all octaves
_SHIFT = 52 - _BITS
_FIRST = (1023 + _LOWEST) << _BITS
PARTS = 2 * _EDGE + 1
LARGEST = 2.0**_HIGHEST


def parts_of(numbers: Floats) -> Integers:
    """The part that each number falls into, 0 for the least. A double holds its octave and part in its first bits."""
    values = np.ascontiguousarray(numbers, np.float64)
    sizes = (values.view(np.int64) & np.int64((1 << 63) - 1)) >> _SHIFT
    places = np.clip(sizes - (_FIRST - 1), 0, _EDGE)
    return np.asarray(_EDGE + np.where(np.signbit(values), -places, places))


@functools.cache
def part_edges() -> Floats:
    """The ends of the parts in order, one more than there are parts; cells beyond all octaves end at their last."""
    octaves = np.ldexp(1.0, np.arange(_LOWEST, _HIGHEST))
    positive = (octaves[:, None] * (1 + np.arange(1 << _BITS) / (1 << _BITS))).ravel()
    side = np.concatenate([positive, [LARGEST, LARGEST]])
    edges = np.concatenate([-side[::-1], side])
    edges.setflags(write=False)
    return edges


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """A coarser partition: cell i holds the parts from ``starts[i]`` to before ``starts[i + 1]``."""

    starts: Integers

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def edges(self) -> Floats:
        """The ends of the cells of numbers, in order; 0 for those next to it."""
        edges = part_edges()[self.starts]
        return np.where(np.abs(edges) <= 2.0**_LOWEST, 0.0, edges)

    def counts(self, parts: Integers) -> Integers:
        """How many numbers are in each cell, from how many are in each part."""
        sums = np.concatenate([[0], np.cumsum(parts)])
        return np.asarray(np.diff(sums[self.starts]))


@functools.cache
def octaves() -> Cells:
    """The cells that bounds of numbers are first sought in: octaves of both signs, 0, and what is beyond."""
    side = 1 + np.arange(0, _SIDE + 1, 1 << _BITS)
    starts = np.concatenate([[0], _EDGE + 1 - side[::-1], _EDGE + side, [PARTS]])
    return Cells(starts)


def even(low: float, high: float, size: float) -> Cells:
    """Equal cells of numbers, of this size, a power of two, from low to high; what is beyond has a cell at each end.

    Numbers next to 0 are in the cell that begins with 0, or, where the cells end with 0, in the last.
    """
    wanted = np.arange(np.floor(low / size), np.ceil(high / size) + 1) * size
    zero = np.full(len(wanted), -(2.0**_LOWEST))
    zero[-1] = 2.0**_LOWEST
    inner = np.searchsorted(part_edges()[1:-1], np.where(wanted == 0, zero, wanted)) + 1
    return Cells(np.unique(np.concatenate([[0], inner, [PARTS]])))
