"""A lower bound on epsilon from two arrays of scores; it knows no mechanism.

Run a mechanism many times on each of two neighbouring inputs and score each output, higher meaning "more like the
first". If the mechanism is (epsilon, delta)-private then for every event Pr[first] <= e^epsilon Pr[second] + delta, so
epsilon >= ln((Pr[first] - delta) / Pr[second]). An event {score > t} or {score < t}, in either direction, is chosen on
one half of the scores, and Clopper-Pearson bounds its two probabilities on the other half.

Guarantee: for a mechanism that keeps its promise, ``lower_bound`` exceeds its epsilon with probability at most
1 - confidence.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from sfumato import check

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Bound:
    """What an audit found: epsilon is at least ``epsilon``, at the stated confidence."""

    epsilon: float
    delta: float
    confidence: float
    samples: int

    def refutes(self, claimed: float) -> bool:
        """Whether a claim of that epsilon is refuted."""
        return self.epsilon > claimed


@dataclass(frozen=True, slots=True)
class _Event:
    """{sign * score > threshold}, as evidence for the first input or, if swapped, for the second."""

    sign: float
    threshold: float
    swapped: bool

    def counts(self, first: Floats, second: Floats) -> tuple[int, int]:
        hits = [int(np.count_nonzero(self.sign * scores > self.threshold)) for scores in (first, second)]
        return (hits[1], hits[0]) if self.swapped else (hits[0], hits[1])


def lower_bound(first: Floats, second: Floats, *, delta: float = 0.0, confidence: float = 0.999) -> Bound:
    """The largest epsilon that the scores refute anything below, at a confidence."""
    check.probability_below_one(delta=delta, confidence=confidence)
    half_first, half_second = first.size // 2, second.size // 2
    check.whole(1, samples=min(half_first, half_second))
    event = _choose(first[:half_first], second[:half_second], delta, confidence)
    hits, other = event.counts(first[half_first:], second[half_second:])
    sizes = first.size - half_first, second.size - half_second
    if event.swapped:
        sizes = sizes[::-1]
    epsilon = _epsilon(hits, sizes[0], other, sizes[1], delta, 1 - confidence)
    return Bound(max(0.0, epsilon), delta, confidence, first.size + second.size)


def _epsilon(hits: int, size: int, other: int, other_size: int, delta: float, alpha: float) -> float:
    """ln((p_low - delta) / q_high), with the error probability shared by the two bounds."""
    low = 0.0 if hits == 0 else float(stats.beta.ppf(alpha / 2, hits, size - hits + 1))
    high = 1.0 if other == other_size else float(stats.beta.isf(alpha / 2, other + 1, other_size - other))
    return math.log((low - delta) / high) if low > delta else -math.inf


def _choose(first: Floats, second: Floats, delta: float, confidence: float) -> _Event:
    """The event that would give the largest bound on this half."""
    thresholds = np.quantile(
        np.concatenate([first, second]), np.concatenate([np.geomspace(1e-4, 0.5, 40), 1 - np.geomspace(1e-4, 0.5, 40)])
    )
    events = [
        _Event(sign, sign * t, swapped)
        for t in np.unique(thresholds)
        for sign in (1.0, -1.0)
        for swapped in (False, True)
    ]

    def found(event: _Event) -> float:
        hits, other = event.counts(first, second)
        sizes = (second.size, first.size) if event.swapped else (first.size, second.size)
        return _epsilon(hits, sizes[0], other, sizes[1], delta, 1 - confidence)

    return max(events, key=found)
