"""Places of many numbers among sorted edges: what ``np.searchsorted`` gives, several times as fast.

A grid of equal buckets lies over the edges. The bucket of a number is floor((x - low) * scale), cut to the grid. None
of these steps, rounded, turns the order of two numbers round. So an edge in a lower bucket lies below the number, and
one in a higher bucket above it; only those in its own bucket, one at most as a rule, are compared with it.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.numerics.types import Floats

_BUCKETS = 1 << 12
_FEW = 8  # edges that are searched without a grid
_TOGETHER = 1 << 14  # numbers that are placed together, while they are in the cache
_CROWDED = -1  # of a bucket with several edges


def places(edges: tuple[float, ...], numbers: Floats) -> NDArray[np.int32]:
    """How many of the edges, which must not fall, are at most as large as each number; 0 for NaN."""
    grid, found = _grid(edges), np.empty(numbers.shape[0], np.int32)
    for start in range(0, numbers.shape[0], _TOGETHER):
        some = np.asarray(numbers[start : start + _TOGETHER], np.float64)
        if grid is None:
            found[start : start + some.size] = _searched(np.asarray(edges), some)
        else:
            grid.place(some, found[start : start + some.size])
    return found


def _searched(edges: Floats, numbers: Floats) -> NDArray[np.intp]:
    return np.where(np.isnan(numbers), 0, np.searchsorted(edges, numbers, side="right"))


@dataclass(frozen=True, slots=True, eq=False)
class _Grid:
    """Buckets over sorted edges.

    below : how many edges lie in lower buckets; ``_CROWDED`` where the bucket itself has several.
    own   : the only edge in the bucket, NaN where there is none, or several.
    """

    edges: Floats
    scale: float
    below: NDArray[np.int32]
    own: Floats

    def place(self, numbers: Floats, out: NDArray[np.int32]) -> None:
        buckets = _buckets(numbers, self.edges[0], self.scale)
        np.take(self.below, buckets, out=out, mode="clip")
        if out.size and out.min() == _CROWDED:
            crowded = np.flatnonzero(out == _CROWDED)
            out[crowded] = _searched(self.edges, numbers[crowded])
        out += numbers >= np.take(self.own, buckets, mode="clip")


@functools.lru_cache(maxsize=1024)
def _grid(edges: tuple[float, ...]) -> _Grid | None:
    """The grid over some edges; None where it would be of no use: few edges, or too close to or far from each other."""
    width = float(edges[-1]) - float(edges[0]) if len(edges) > _FEW else 0.0
    scale = _BUCKETS / width if width > 0 else 0.0
    if not 0 < scale < math.inf:
        return None
    held = np.asarray(edges, np.float64)
    buckets = _buckets(held, held[0], scale)
    count = np.bincount(buckets, minlength=_BUCKETS)
    below = (np.cumsum(count) - count).astype(np.int32)
    own = np.full(_BUCKETS, math.nan)
    own[count == 1] = held[below[count == 1]]
    below[count > 1] = _CROWDED
    return _Grid(held, scale, below, own)


def _buckets(numbers: Floats, low: float, scale: float) -> NDArray[np.intp]:
    """The bucket of each number: one that is larger is in no lower bucket."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = (numbers - low) * scale
    np.fmin(np.fmax(found, 0.0, out=found), _BUCKETS - 1.0, out=found)
    return found.astype(np.intp)
