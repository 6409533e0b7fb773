"""A lower bound on epsilon from two arrays of scores; it knows no mechanism.

Run a mechanism many times on each of two neighbouring inputs and score each output, higher meaning "more like the
first". If the mechanism is (epsilon, delta)-private then for every event Pr[first] <= e^epsilon Pr[second] + delta, so
epsilon >= ln((Pr[first] - delta) / Pr[second]). An event {score > t} or {score < t}, in either direction, is chosen on
one part of the scores, and Clopper-Pearson bounds its two probabilities on the other part.

Guarantee: for a mechanism that keeps its promise, ``lower_bound`` exceeds its epsilon with probability at most
1 - confidence. The scores of each side must be independent of each other; the two sides may depend on one another.
"""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from sfumato import check
from sfumato.numerics.types import Floats

_RAREST = 1e-7  # share of the scores that an event may hold, at least; and so many of them
_FEWEST = 16
_THRESHOLDS = 64  # tried in each tail


@dataclass(frozen=True, slots=True)
class Bound:
    """What an audit found: epsilon is at least ``epsilon``, at the stated confidence."""

    epsilon: float
    delta: float
    confidence: float
    samples: int

    def refutes(self, claimed: float) -> bool:
        """Whether the audit's lower bound refutes a claim of this epsilon."""
        return self.epsilon > claimed


@dataclass(frozen=True, slots=True)
class _Event:
    """{score > threshold}, or {score < threshold} if low, as evidence for the first input or, if swapped, the second.

    ``counts`` looks at one threshold for an event and at many, in order, for a family of them.
    """

    low: bool
    threshold: Floats
    swapped: bool

    def counts(self, first: Floats, second: Floats) -> list[Floats]:
        """How many scores of each side are in an event; the side it speaks for first. Scores must be sorted."""
        hits = [
            np.asarray(
                np.searchsorted(scores, self.threshold, "left")
                if self.low
                else scores.size - np.searchsorted(scores, self.threshold, "right"),
                np.float64,
            )
            for scores in (first, second)
        ]
        return hits[::-1] if self.swapped else hits

    def bound(self, first: Floats, second: Floats, delta: float, alpha: float) -> Floats:
        """Lower bound on epsilon from an event: ln((p_low - delta) / q_high).

        The two bounds share the error probability.
        """
        hits, others = self.counts(first, second)
        size, other_size = (second.size, first.size) if self.swapped else (first.size, second.size)
        with np.errstate(divide="ignore", invalid="ignore"):
            low = np.where(hits > 0, stats.beta.ppf(alpha / 2, hits, size - hits + 1), 0.0)
            high = np.where(
                others < other_size, stats.beta.isf(alpha / 2, others + 1, np.maximum(other_size - others, 1)), 1.0
            )
            return np.where(low > delta, np.log((low - delta) / high), -np.inf)


def lower_bound(
    first: Floats, second: Floats, *, delta: float = 0.0, confidence: float = 0.999, choosing: float = 0.5
) -> Bound:
    """The largest epsilon below which two arrays of scores refute any claim, at a confidence.

    ``choosing`` is the share of the scores on which the event is chosen.
    """
    check.probability_below_one(delta=delta, confidence=confidence, choosing=choosing)
    cuts = [int(side.size * choosing) for side in (first, second)]
    check.whole(1, samples=min(cuts))
    chosen_on, bounded_on = (
        [np.sort(side[some]) for side, some in zip((first, second), parts, strict=True)]
        for parts in ([slice(cut) for cut in cuts], [slice(cut, None) for cut in cuts])
    )
    event = _choose(chosen_on[0], chosen_on[1], delta, 1 - confidence)
    epsilon = float(event.bound(bounded_on[0], bounded_on[1], delta, 1 - confidence)[0])
    return Bound(max(0.0, epsilon), delta, confidence, first.size + second.size)


def _choose(first: Floats, second: Floats, delta: float, alpha: float) -> _Event:
    """The event on these scores that would give the largest lower bound on epsilon."""
    rarest = min(0.5, max(_RAREST, _FEWEST / (first.size + second.size)))
    tail = np.geomspace(rarest, 0.5, _THRESHOLDS)
    seen = np.quantile(np.concatenate([first, second]), np.concatenate([tail, 1 - tail]))
    # A score may have atoms, and the events that tell most begin just beside them.
    thresholds = np.unique([seen, np.nextafter(seen, -np.inf), np.nextafter(seen, np.inf)])
    families = [_Event(low, thresholds, swapped) for low in (False, True) for swapped in (False, True)]
    bounds = [family.bound(first, second, delta, alpha) for family in families]
    family, found = max(zip(families, bounds, strict=True), key=lambda pair: float(pair[1].max()))
    return _Event(family.low, thresholds[[found.argmax()]], family.swapped)
