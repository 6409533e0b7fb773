"""Noisy counts of an ordered variable freed of noise, whose deviation is known. Post-processing: it costs nothing.

Single values and spikes (a usual number of hours) stay as they were counted. Of the rest, stretches without records are
found first, by a dyadic tree: a stretch is split where that fits its counts better by more than noise would. Of those
that remain, stretches whose whole count is within its noise become 0. Bounds that are much too wide would otherwise
leave noise far from all records, which moves means. What is left is a moving mean, over the window that Mallows' Cp
prefers.
"""

import math

import numpy as np
from numpy.typing import NDArray

from sfumato.marginals.partition import Variable
from sfumato.numerics.types import Floats

Places = NDArray[np.bool_]
_SPIKE = 4.5  # deviations of noise over what its neighbours have
_NEAR = 3  # cells on either side that a spike is compared with
_WINDOWS = (0, 1, 2, 3, 5, 8, 12, 20)  # cells on either side that are smoothed over
_EMPTY, _OUTSIDE = 1.0, 2.0  # deviations of a stretch's count below which it is empty; of one at either end
_LACKING = 1.0  # deviations by which estimates fall short of the number of records, for empty cells to get the rest


def smoothed(variable: Variable, counts: Floats, deviation: float) -> Floats:
    """Estimated counts of a variable's cells, at least 0; exactly 0 where there is nothing but noise."""
    size, single = variable.values, variable.alone()
    values, width = counts[:size].astype(float), np.maximum(variable.widths(), 1e-300)
    kept = single.copy()
    kept[~single] = spikes(values[~single], width[~single], deviation)
    found = np.maximum(counts.astype(float), 0.0)
    found[:size][kept & (values < _EMPTY * deviation)] = 0.0
    rest = np.flatnonzero(~kept)
    occupied = rest[~_empty(values[rest], width[rest], deviation)]
    found[rest] = 0.0
    found[occupied] = _moving_mean(values[occupied], width[occupied], deviation)
    return np.asarray(found)


def completed(variable: Variable, counts: Floats, estimates: Floats, deviation: float, records: float) -> Floats:
    """Estimates with all records: what they lack of their known number, beyond noise, goes to cells that seemed empty.

    A few records in each of many cells are lost in the noise of these, and yet are many together: what is left over of
    the number of records by a value that most have. They are spread as a moving mean says.
    """
    empty = np.flatnonzero(estimates[: variable.values] <= 0)
    lacking = records - float(estimates.sum())
    if not len(empty) or lacking <= _LACKING * deviation * math.sqrt(len(estimates) - len(empty)):
        return estimates
    width = np.maximum(variable.widths(), 1e-300)[empty]
    likely = _moving_mean(counts[empty].astype(float), width, deviation)
    likely = likely if likely.sum() > 0 else width
    found = estimates.copy()
    found[empty] = likely * (lacking / likely.sum())
    return found


def spikes(values: Floats, width: Floats, deviation: float) -> Places:
    """Cells whose count stands out of what the median of their neighbours would give them."""
    if not len(values):
        return np.zeros(0, bool)
    padded = np.pad(values / width, _NEAR, mode="edge")
    near = np.stack([padded[i : i + len(values)] for i in range(2 * _NEAR + 1)])
    return np.asarray(values - np.median(near, axis=0) * width > _SPIKE * deviation)


def _empty(values: Floats, width: Floats, deviation: float) -> Places:
    """Cells of stretches without records, as far as noise shows."""
    found = np.zeros(len(values), bool)
    penalty = 2 * math.log(max(len(values), 2)) * deviation**2
    for start, stop in _stretches(values, width, penalty):
        least = _OUTSIDE if start == 0 or stop == len(values) else _EMPTY
        found[start:stop] = values[start:stop].sum() < least * deviation * math.sqrt(stop - start)
    return found


def _stretches(values: Floats, width: Floats, penalty: float) -> list[tuple[int, int]]:
    """The dyadic stretches, each with counts in proportion to width, whose misfit and number cost least together."""
    sums = [np.concatenate([[0.0], np.cumsum(x)]) for x in (values, width, values**2, width**2, values * width)]

    def misfit(start: int, stop: int) -> float:
        count, span, squares, widths, products = (s[stop] - s[start] for s in sums)
        rate = count / span
        return float(squares - 2 * rate * products + rate**2 * widths)

    def best(start: int, stop: int) -> tuple[float, list[tuple[int, int]]]:
        whole = misfit(start, stop) + penalty
        if stop - start < 2:
            return whole, [(start, stop)]
        middle = (start + stop) // 2
        (left, before), (right, after) = best(start, middle), best(middle, stop)
        return (left + right, before + after) if left + right < whole else (whole, [(start, stop)])

    return best(0, len(values))[1] if len(values) else []


def _moving_mean(values: Floats, width: Floats, deviation: float) -> Floats:
    """Counts in proportion to width over the window that Cp prefers, at least 0."""
    best, least = values, math.inf
    for window in _WINDOWS:
        places = np.arange(len(values))
        low, high = np.maximum(places - window, 0), np.minimum(places + window + 1, len(values))
        mass, span = (np.concatenate([[0.0], np.cumsum(x)]) for x in (values, width))
        share = width / np.maximum(span[high] - span[low], 1e-300)
        estimate = share * (mass[high] - mass[low])
        risk = float(((values - estimate) ** 2).sum() + 2 * deviation**2 * share.sum())
        if risk < least:
            best, least = estimate, risk
    return np.maximum(best, 0.0)
