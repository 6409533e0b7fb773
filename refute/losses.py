"""What two runs lost against each other, computed from the integers that got noise, and what was claimed.

Nothing here is taken from the package's own accounting. Counts, sums and answers are integers and scales are doubles,
so sums of |difference| / scale are fractions, compared with epsilon exactly. What needs a logarithm or a normal law is
computed in balls, and rounded so that no claim that holds is refuted.
"""

import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ParamSpec, TypeVar

import numpy as np
import scipy
from flint import arb

from sfumato.audit.recorder import Draw
from sfumato.numerics.balls import precision
from sfumato.privacy.guarantee import Guarantee

Numbers = np.ndarray
Given, Result = ParamSpec("Given"), TypeVar("Result")
SLACK = 1 + 1e-9  # where eigenvalues or likelihoods are computed in doubles; everywhere else there is none

_BITS = 256
_EXACT_SCALE = 4000.0  # of a threshold's noise: up to here all whole numbers are summed over


@dataclass(slots=True)
class Loss:
    """What was lost: by Laplace noise and choices (pure), Gaussian noise (mu squared), answers (of m, at epsilon)."""

    pure: Fraction = Fraction(0)
    squared: Fraction = Fraction(0)
    answers: Counter[tuple[int, float]] = field(default_factory=Counter)

    def add(self, one: Draw, two: Draw) -> None:
        """What one draw tells of the two."""
        gaps = [int(a) - int(b) for a, b in zip(one.fed.ravel().tolist(), two.fed.ravel().tolist(), strict=True)]
        scale = Fraction(one.scale)
        if one.law == "laplace" and one.place[0].startswith("selected"):
            self.pure += Fraction(max(gaps) - min(gaps)) / scale  # the largest of noisy scores, and no number
        elif one.law in ("laplace", "discrete laplace"):
            self.pure += Fraction(sum(map(abs, gaps))) / scale
        elif one.law == "gaussian":
            self.squared += Fraction(sum(gap * gap for gap in gaps)) / scale**2
        elif one.law == "response":
            self.answers[one.options, one.scale] += sum(gap != 0 for gap in gaps)
        else:
            self.pure += Fraction(_MEASURES[one.law](one, two))


def of(pairs: Iterable[tuple[Draw, Draw]]) -> Loss:
    """What all draws of two runs tell of them, stage after stage, as the accounting adds them up."""
    loss = Loss()
    for one, two in pairs:
        loss.add(one, two)
    return loss


def share(loss: Loss, guarantee: Guarantee, *, stages: int = 1) -> Fraction | float | None:
    """Realised over claimed; None where no closed form says what several laws together may lose at this delta."""
    epsilon, delta = guarantee.epsilon, guarantee.delta
    changed = sum(loss.answers.values())
    if delta == 0:
        answered = sum((Fraction(each) * count for (_, each), count in loss.answers.items()), Fraction(0))
        return (loss.pure + answered) / Fraction(epsilon) if not loss.squared else math.inf
    if changed and not loss.pure and not loss.squared:
        return _answered_share(loss, epsilon, delta)
    if loss.pure and loss.squared:
        return None
    if loss.squared:
        largest = Fraction(largest_mu(epsilon, delta))
        found = math.sqrt(loss.squared / largest**2)
        return max(found, math.nextafter(1.0, 2.0)) if loss.squared > largest**2 else min(found, 1.0)
    return loss.pure / Fraction(largest_laplace(epsilon, delta)) if stages == 1 else None


# ---- one law at a time ----------------------------------------------------------------------------------------------


def _in_balls(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """A function whose balls are narrow."""

    @functools.wraps(function)
    def narrow(*given: Given.args, **named: Given.kwargs) -> Result:
        with precision(_BITS):
            return function(*given, **named)

    return narrow


def _above(number: arb) -> float:
    return math.nextafter(float(number.upper()), math.inf)


def _below(number: arb) -> float:
    return math.nextafter(float(number.lower()), -math.inf)


@functools.cache
@_in_balls
def largest_laplace(epsilon: float, delta: float) -> float:
    """The largest x = move over scale that is private for Laplace noise: 1 - exp((epsilon - x)/2) = delta."""
    return _above(arb(epsilon) - 2 * (-arb(delta)).log1p())


@functools.cache
@_in_balls
def largest_mu(epsilon: float, delta: float) -> float:
    """The largest mu at which Gaussian noise is (epsilon, delta)-private, by halving; a hair above it (Balle, Wang)."""

    def normal(x: arb) -> arb:
        return (-x / arb(2).sqrt()).erfc() / 2

    def excess(mu: float) -> bool:
        m, e = arb(mu), arb(epsilon)
        return _below(normal(m / 2 - e / m) - e.exp() * normal(-m / 2 - e / m)) > delta

    return _last(excess)


def _last(excess: Callable[[float], bool]) -> float:
    """The least double found at which something that grows exceeds."""
    low, high = 1e-9, 1.0
    while not excess(high):
        low, high = high, 2 * high
    for _ in range(80):
        middle = low + (high - low) / 2
        low, high = (low, middle) if excess(middle) else (middle, high)
    return high


def _answered_share(loss: Loss, epsilon: float, delta: float) -> float:
    """The epsilon at which the changed answers keep the claimed delta, over the claimed one."""
    if _answers_delta(loss, epsilon) > delta:
        return max(math.nextafter(1.0, 2.0), _last(lambda e: _answers_delta(loss, e) <= delta) / epsilon)
    if _answers_delta(loss, 1e-9) <= delta:
        return 0.0
    return min(1.0, _last(lambda e: _answers_delta(loss, e) <= delta) / epsilon)


@_in_balls
def _answers_delta(loss: Loss, epsilon: float) -> float:
    """The sum over outcomes of Pr[outcome] (1 - e^(epsilon - loss)), from below: losses add up, answer by answer."""
    ((_, each), *_) = loss.answers
    law: dict[int, arb] = {0: arb(1)}
    for (categories, _), count in loss.answers.items():
        other = 1 / (arb(each).exp() + categories - 1)
        steps = {1: arb(each).exp() * other, 0: (categories - 2) * other, -1: other}
        for _ in range(count):
            found: dict[int, arb] = {}
            for (a, p), (b, q) in itertools.product(law.items(), steps.items()):
                found[a + b] = found.get(a + b, arb(0)) + p * q
            law = found
    positive = [p * (1 - (arb(epsilon) - net * arb(each)).exp()) for net, p in law.items() if net * each > epsilon]
    return _below(sum(positive, arb(0)))


@_in_balls
def _choice(one: Draw, two: Draw) -> float:
    """The largest logarithm of a ratio of probabilities that go with exp(rate * score / 2^bits); from below."""

    def logarithms(draw: Draw) -> list[arb]:
        scores = [arb(draw.scale) * int(score) / arb(2) ** draw.options for score in draw.fed.tolist()]
        total = sum((score.exp() for score in scores), arb(0)).log()
        return [score - total for score in scores]

    return max(0.0, *(_below(abs(a - b)) for a, b in zip(logarithms(one), logarithms(two), strict=True)))


@_in_balls
def _flips(one: Draw, two: Draw) -> float:
    """The same for permute-and-flip: coins of probability exp(rate (score - best)), then one of the heads."""

    def probabilities(draw: Draw) -> list[arb]:
        best = int(draw.fed.max())
        heads = [(arb(draw.scale) * (int(score) - best)).exp() for score in draw.fed.tolist()]
        found = []
        for i, head in enumerate(heads):
            law = [arb(1)]  # of how many others show heads
            for other in heads[:i] + heads[i + 1 :]:
                law = [a * (1 - other) + b * other for a, b in zip([*law, arb(0)], [arb(0), *law], strict=True)]
            found.append(head * sum((p / (k + 1) for k, p in enumerate(law)), arb(0)))
        return found

    pairs = zip(probabilities(one), probabilities(two), strict=True)
    return max(0.0, *(_below(abs((a / b).log())) for a, b in pairs))


_MEASURES: dict[str, Callable[[Draw, Draw], float]] = {"choice": _choice, "flips": _flips}


# ---- sketches that are private by themselves ------------------------------------------------------------------------


@functools.cache
def largest_stretch(epsilon: float, delta: float, rows: int) -> float:
    """The largest s at which so many draws of N(0, 1 + s) and of N(0, 1) keep the promise, both ways; in doubles."""
    chi = scipy.stats.chi2(rows)

    def excess(s: float) -> bool:
        half = rows / 2 * math.log1p(s)
        edge, other = 2 * (1 + s) / s * (epsilon + half), 2 * (1 + s) / s * (half - epsilon)
        factor = math.exp(epsilon)
        adding = chi.sf(edge / (1 + s)) - factor * chi.sf(edge)
        removing = chi.cdf(other) - factor * chi.cdf(other / (1 + s)) if other > 0 else 0.0
        return max(adding, removing) > delta

    return _last(excess)


# ---- comparisons with a noisy threshold -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Comparison:
    """A count, the public number that it was compared with, and whether it was found above."""

    value: int
    threshold: int
    above: bool


def transcript(comparisons: Sequence[Comparison], threshold: float | None, query: float) -> float:
    """The logarithm of the probability of all answers together, for noise of these Laplace scales, both rounded."""
    edges = np.array([c.threshold - c.value for c in comparisons], float)
    above = np.array([c.above for c in comparisons], bool)
    if threshold is None:
        return float(_answers(np.zeros(1), edges, above, query)[0])
    points, weights = _points(edges, threshold, query)
    return float(scipy.special.logsumexp(weights + _answers(points, edges, above, query)))


def _answers(points: Numbers, edges: Numbers, above: Numbers, scale: float) -> Numbers:
    """Given the threshold's noise: the sum of log Pr[Z >= edge + noise], or of log Pr[Z < edge + noise]."""
    found = np.zeros_like(points)
    for edge, yes in zip(edges, above, strict=True):
        x = (edge + points - 0.5) / scale  # Pr[Z >= t] = Pr[eta >= t - 1/2] for whole t
        rare, common = -np.abs(x) - math.log(2), np.log1p(-np.exp(-np.abs(x)) / 2)
        found += np.where((x >= 0) == yes, rare, common)
    return found


def _points(edges: Numbers, threshold: float, query: float) -> tuple[Numbers, Numbers]:
    """Values of the threshold's noise that matter, with the logarithms of their weights."""
    ends = np.append(-edges, 0.0)
    low, high = math.floor(ends.min() - 60 * threshold), math.ceil(ends.max() + 60 * threshold)
    if threshold <= _EXACT_SCALE:
        r = np.arange(low, high + 1.0)
        size = np.abs(r)
        inside = math.log(-math.expm1(-0.5 / threshold))
        tails = -(size - 0.5) / threshold + math.log(-math.expm1(-1 / threshold) / 2)
        return r, np.where(size == 0, inside, tails)
    # So many steps are as good as continuous: Gauss's rule between all places where the integrand has a kink.
    kinks = np.unique(np.concatenate([[low, high], ends]))
    pieces = [np.linspace(a, b, 2 + int((b - a) / min(threshold, query))) for a, b in itertools.pairwise(kinks)]
    cuts = np.unique(np.concatenate(pieces))
    nodes, weights = np.polynomial.legendre.leggauss(16)
    half, middle = np.diff(cuts)[:, None] / 2, (cuts[1:] + cuts[:-1])[:, None] / 2
    r, w = (middle + half * nodes).ravel(), (half * weights).ravel()
    return r, np.log(w) - np.abs(r) / threshold - math.log(2 * threshold)
