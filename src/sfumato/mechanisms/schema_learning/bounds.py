"""Bounds of a column of numbers, from noisy counts of public cells. All of it is post-processing: nothing here is data.

The noise of every count is known, and so is that of sums of counts. Two mistakes are possible. Bounds that leave out
cells of the table cut them; bounds that are too wide waste the scale of the column. Cutting is worse, so cells next to
the bounds are taken in on little evidence, and cells far outside, which would widen them by a large factor, on much.
"""

import math
from dataclasses import dataclass

import numpy as np

from sfumato.mechanisms.schema_learning.magnitudes import Cells, even
from sfumato.numerics.types import Floats

SHARE = 0.01  # of the rows that bounds may cut, at most
_NEAR, _PER_OCTAVE, _FAR = 1.25, 0.75, 5.5  # evidence wanted, in standard deviations of the noise
_WITHIN, _PER_DOUBLING = 2.0, 0.5  # the same for equal cells, of which there are many at any distance
_OTHER_SIGN = 2.25  # more of it, before bounds cross 0
_WINDOWS = (1, 2, 4, 8)  # cells whose sum may be evidence
_NOTICED = 0.2 * SHARE  # of the rows: evidence of fewer moves no bound
_SMALL = 2.0**-6  # of the width of bounds: numbers closer to 0 than that are no reason to cross it
_TRIMMED = 0.4 * SHARE  # of the rows, that may be trimmed at each end of a range
_CERTAIN = 1.64  # standard deviations, for trimming
_SPARSE = 3.0  # a range this many times as wide as what has evidence is cut to that
_REPAIRED = (0.5 * SHARE, 2.75)  # rows beyond bounds, and deviations of noise, from which on bounds are widened again
_BLIND = 3  # octaves that bounds are widened by, at most, where octaves beyond show nothing
_REMAINS = 0.3 * SHARE  # of the rows, that may stay outside then
_LEFT_OUT = 0.5 * SHARE  # of the rows, that such a cut may seem to leave out
_BLURRED = 0.6 * SHARE  # of the rows: noise of more than this says too little about it
_CLEAR = 4.75  # deviations of noise of a count that shows where numbers are
_SURE = 1.5  # if the share that may be cut is this many standard deviations of the noise
_FINEST, _COARSEST = 64, 8  # equal cells of a range


@dataclass(frozen=True, slots=True, eq=False)
class NoisyCells:
    """NoisyCells counts of public cells of numbers, with the standard deviation of their noise."""

    cells: Cells
    counts: Floats
    deviation: float

    def outside(self, low: float, high: float) -> tuple[float, int]:
        """About how many numbers lie below low or above high, by cells that are wholly there, and how many cells."""
        edges = self.cells.edges
        there = (edges[1:] <= low) | (edges[:-1] >= high)
        return float(self.counts[there].sum()), int(there.sum())


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of a column of numbers, low < high."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class _Rule:
    """How much evidence widens bounds of numbers: at the same width, and for each doubling of at least a least one."""

    near: float
    per_doubling: float
    least: float


def first_bounds(noisy: NoisyCells, rows: float, *, whole: bool) -> Bounds:
    """Bounds of numbers to a factor of two, from noisy counts of octaves. Of whole numbers they contain 0 or 1.

    Without evidence of any number they are 0 and 1.
    """
    edges, counts = noisy.cells.edges, noisy.counts.copy()
    counts[[0, -1]] = 0.0  # what is beyond all octaves is cut, whatever its number
    if whole:  # none is a fraction
        counts[(np.maximum(np.abs(edges[1:]), np.abs(edges[:-1])) <= 1) & (edges[1:] > edges[:-1])] = 0.0
    start = int(np.argmax(counts))
    if counts[start] < _CLEAR * noisy.deviation:
        return Bounds(0.0, 1.0)
    least = 1.0 if whole or edges[start] == edges[start + 1] else 0.0  # 0 alone has no width, so it is taken to be 1
    rule = _Rule(_NEAR, _PER_OCTAVE, least)
    first, last = _evident(NoisyCells(noisy.cells, counts, noisy.deviation), rows, start, rule)
    return _around_zero(float(edges[first]), float(edges[last + 1]))


def _around_zero(low: float, high: float) -> Bounds:
    """Bounds of numbers that reach to 0 where that costs little width, and are never equal."""
    if 0 < low <= high / 8:
        low = 0.0
    if low / 8 <= high < 0:
        high = 0.0
    return Bounds(low, high if low < high else low + 1.0)


def _evident(noisy: NoisyCells, rows: float, start: int, rule: _Rule) -> tuple[int, int]:
    """The first and last cell of the bounds of numbers: from one cell outwards, as long as there is evidence of more.

    A window of cells is evidence if its noisy sum is large against its own noise, and no tiny share of the rows. How
    large it has to be grows with the factor by which the window would widen the bounds.
    """
    sums, edges = np.concatenate([[0.0], np.cumsum(noisy.counts)]), noisy.cells.edges
    begins = np.concatenate([np.arange(len(noisy.cells) - length + 1) for length in _WINDOWS])
    ends = np.concatenate([np.arange(length, len(noisy.cells) + 1) for length in _WINDOWS])
    noise = noisy.deviation * np.sqrt(ends - begins)
    evidence = (sums[ends] - sums[begins]) / noise
    first, last, least = start, start, rule.least
    while True:
        low, high = edges[first], edges[last + 1]
        width = max(high - low, least)
        far_low, far_high = np.minimum(edges[begins], low), np.maximum(edges[ends], high)
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.log2(np.maximum(far_high - far_low, least) / width) if width > 0 else np.inf
        below, above = (far_low < 0) & (low >= 0), (far_high > 0) & (high <= 0) & (low < 0)
        wanted = np.minimum(rule.near + rule.per_doubling * factor + _OTHER_SIGN * (below | above), _FAR)
        excess = evidence - np.maximum(wanted, _NOTICED * rows / noise)
        tiny = (below & (-far_low < _SMALL * width)) | (above & (far_high < _SMALL * width))
        excess[tiny | ((begins <= last) & (ends > first))] = -np.inf
        place = int(np.argmax(excess))
        if not excess[place] > 0:
            return first, last
        first, last = min(first, int(begins[place])), max(last, int(ends[place]) - 1)


def refinement(bounds: Bounds, rows: float, deviation: float, *, whole: bool) -> Cells:
    """Equal cells within bounds of numbers: the more, the larger a share of the rows is against the noise."""
    count = 2 * 2 ** round(math.log2(max(SHARE * rows / deviation, 1)))
    extent = max(abs(bounds.low), abs(bounds.high))
    size = 2.0 ** math.ceil(math.log2(extent)) / min(_FINEST, max(_COARSEST, count))
    return even(bounds.low, bounds.high, max(size, 1.0) if whole else size)


def refined(noisy: NoisyCells, bounds: Bounds, rows: float) -> Bounds:
    """Bounds of numbers within earlier ones, from noisy counts of equal cells.

    Each end is trimmed as long as the noisy count of what is trimmed is below a small share of the rows by more than
    its noise. Where the evidence fills but a small part of the range, as of years, the range is cut to that part and
    one cell more on each side.
    """
    inner = NoisyCells(Cells(noisy.cells.starts[1:-1]), noisy.counts[1:-1], noisy.deviation)
    edges, many = inner.cells.edges, len(inner.cells)
    start = int(np.argmax(inner.counts))
    if inner.counts[start] < _CLEAR * noisy.deviation:
        return bounds
    low = _trimmed(noisy.counts[:-1], noisy.deviation, rows)
    high = many - _trimmed(noisy.counts[:0:-1], noisy.deviation, rows)
    first, last = _evident(inner, rows, start, _Rule(_WITHIN, _PER_DOUBLING, 0.0))
    low, high = min(low, first), max(high, last + 1)
    sparse = edges[high] - edges[low] > _SPARSE * (edges[last + 1] - edges[first])
    if sparse and SHARE * rows >= _SURE * noisy.deviation:
        inside = slice(max(first - 1, 0), min(last + 2, many))
        noise = noisy.deviation * math.sqrt(many - (inside.stop - inside.start))
        if noise <= _BLURRED * rows and inner.counts.sum() - inner.counts[inside].sum() <= _LEFT_OUT * rows:
            low, high = inside.start, inside.stop
    return Bounds(max(float(edges[low]), bounds.low), min(float(edges[high]), bounds.high))


def _trimmed(counts: Floats, deviation: float, rows: float) -> int:
    """How many cells may be trimmed from the bounds of numbers, at the end where these noisy counts begin.

    The first count is of what lies beyond, and is cut in any case.
    """
    sums, lengths = np.cumsum(counts), np.arange(1, len(counts) + 1)
    above = sums + _CERTAIN * deviation * np.sqrt(lengths) > _TRIMMED * rows
    return max(0, int(np.argmax(above)) - 1 if above.any() else len(counts) - 2)


def repaired(
    bounds: Bounds, first: Bounds, within: NoisyCells, by_octave: NoisyCells, rows: float
) -> tuple[Bounds, float]:
    """Bounds of numbers, widened where too many lie beyond the first ones, and about how many that takes in.

    What lies beyond is one cell at each end of the equal cells (``within``), with little noise. If it is too much, the
    octaves beyond say how far to go: to the first at which little of it seems to remain, by their noisy sum.
    """
    edges = by_octave.cells.edges
    above, below = edges[:-1] >= max(first.high, 0.0), edges[1:] <= min(first.low, 0.0)
    upwards = NoisyCells(by_octave.cells, by_octave.counts[above], by_octave.deviation)
    downwards = NoisyCells(by_octave.cells, by_octave.counts[below][::-1], by_octave.deviation)
    high, more = _further(float(within.counts[-1]), within.deviation, upwards, edges[1:][above], rows)
    low, less = _further(float(within.counts[0]), within.deviation, downwards, edges[:-1][below][::-1], rows)
    return Bounds(bounds.low if low is None else low, bounds.high if high is None else high), more + less


def _further(
    beyond: float, deviation: float, outwards: NoisyCells, ends: Floats, rows: float
) -> tuple[float | None, float]:
    """Where bounds of numbers should end instead, from noisy counts of octaves outwards; None: where they are."""
    share, deviations = _REPAIRED
    if outwards.counts[-1] > deviations * outwards.deviation:  # beyond all octaves, where no bound can follow
        beyond -= float(outwards.counts[-1])
    if beyond <= max(share * rows, deviations * deviation) or len(ends) < 2:
        return None, 0.0
    sums = np.cumsum(outwards.counts[:-1])  # the last is beyond all octaves
    noise = outwards.deviation * np.sqrt(np.arange(1, len(sums) + 1))
    enough = sums >= beyond - _REMAINS * rows - noise
    place = int(np.argmax(enough)) if enough.any() else int(np.argmax(sums / noise))
    if sums[place] < _REPAIRED[1] * noise[place]:
        place = min(place, _BLIND - 1)
    return float(ends[place]), float(np.clip(sums[place], 0.0, beyond))
