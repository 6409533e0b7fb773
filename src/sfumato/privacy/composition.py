"""What releases cost together: four bounds, and which of them may be used when.

New ledgers use none of them alone: ``privacy.filters`` divides a cap into shares that are fixed beforehand.

basic    : epsilons and deltas add up. Promises are read as the decimals that were written, so that ten times 0.1 is 1;
           a double differs from its decimal by one part in 10^16, and so does what is promised.
advanced : sqrt(2 ln(1/d) sum e^2) + sum e^2 / 2, with d + sum of deltas.
gaussian : each loss lies below that of a Gaussian mechanism with sensitivity over scale mu, but for a probability d;
           Gaussians compose to one with the root of the sum of mu^2.
tight    : the losses themselves; Gaussians exactly, the rest through ``dp_accounting``'s privacy-loss distributions.

Formal guarantee: releases that ``Book.fits`` accepts, one after another, together satisfy (epsilon, delta). With
composition='tight' any bound will do, and the least is named; this holds only if *which losses* are spent is not
decided by looking at what was published (what is asked of the data may be), or if the losses were declared beforehand
(``privacy.programme``). Otherwise losses of different shapes can be picked after a lucky outcome, and the true delta
can be several times the cap's: 2.8 times at (4, 1e-3) and 4.8 times at (4, 1e-6). The other three, each used alone, are
privacy filters: they hold however every release is chosen (Rogers et al. 2016; Whitehouse et al. 2023). For that, what
they allow to deltas and to the rest of the bound is fixed beforehand (``TAILS``, ``_DELTAS``). Proofs:
docs/mathematics.md, section 8.
"""

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal
from functools import cached_property
from typing import Literal, Protocol

import numpy as np
import scipy

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.privacy import calibration, pld, profiles
from sfumato.privacy.losses import Composed, Gaussian, Laplace, Loss, Pure, Response
from sfumato.privacy.stored_losses import Tabulated, group_delta, grouped
from sfumato.privacy.threshold_loss import FailingGaussian

Composition = Literal["filter", "basic", "advanced", "gaussian", "tight"]
Share = Literal["pure", "gaussian"] | int  # of a cap, or the number of a release in a programme
_BOUNDS: dict[Composition, tuple[Composition, ...]] = {
    "tight": ("basic", "advanced", "tight"),
    "gaussian": ("gaussian",),
    "advanced": ("advanced",),
    "basic": ("basic",),
}
COMPOSITIONS: tuple[Composition, ...] = ("filter", *_BOUNDS)
_TAIL = 1e-4  # the part of a release's own delta that its Gaussian majorant may leave out
TAILS = 0.05  # the part of a cap's delta that all these together may have, as a filter
_DELTAS = 0.5  # the part of a cap's delta that the deltas of releases may have, in advanced composition as a filter
_WITHOUT_TAIL = (Gaussian, Laplace, Pure, Response)  # laws that lie below a Gaussian one everywhere
_FINE = 4001
_MARGIN = 1e-14  # what doubles may get wrong of a Gaussian profile, absolutely


@dataclass(frozen=True, slots=True)
class Charge:
    """What one release costs in the unit of a cap: its promise (epsilon, delta), its loss, and its majorant.

    mu, tail : for every epsilon >= 0, delta(epsilon) <= tail + (1 - tail) * Gaussian profile of mu.
    share    : the share of a divided cap that it is charged to (``privacy.filters``), None where there are no shares.
    """

    epsilon: float
    delta: float
    loss: Loss
    mu: float = math.inf
    tail: float = 0.0
    share: Share | None = None

    @classmethod
    def of(cls, epsilon: float, delta: float, loss: Loss, times: int = 1) -> "Charge":
        """The charge to compose for ``times`` units that change together, if one has this promise and loss."""
        promised = group_delta(epsilon, delta, times)
        return cls(float(Decimal(repr(epsilon)) * times), promised, grouped(loss, times))

    def majorised(self) -> "Charge":
        """The charge with its Gaussian majorant for composition, which takes a moment to find."""
        if isinstance(self.loss, FailingGaussian):
            noise = Gaussian(self.loss.sensitivity, self.loss.scale)
            return replace(self, mu=majorant(noise, 0.0), tail=self.loss.failure)
        tail = 0.0 if without_tail(self.loss) else _TAIL * self.delta
        return replace(self, mu=majorant(self.loss, tail), tail=tail)


@dataclass(frozen=True, slots=True)
class TotalEpsilon:
    """What was spent: an epsilon at the delta that was asked for, and the bound that says so."""

    epsilon: float
    bound: Composition


class ChargeBook(Protocol):
    """Charges that add up, under whatever rule of composition."""

    def and_(self, charge: Charge) -> "ChargeBook":
        """A composition with one charge more."""
        ...

    def fits(self, epsilon: float, delta: float) -> bool:
        """Whether all charges composed together satisfy (epsilon, delta)."""
        ...

    def total(self, delta: float) -> TotalEpsilon:
        """The composed epsilon at this delta; infinite where there is none."""
        ...


class Book:
    """Charges that add up, under one rule of composition.

    counts : how many there are of each charge. Sums take time for each kind of charge, not for each charge.
    """

    def __init__(self, charges: Iterable[Charge] | Mapping[Charge, int], composition: Composition = "tight") -> None:
        self.counts, self.composition = Counter(charges), composition

    def and_(self, charge: Charge) -> "Book":
        """A composition with one charge more, which uses again what is known of the shorter book."""
        longer = Book(self.counts, self.composition)
        longer.counts[charge] += 1
        longer.__dict__["_settled"] = self._settled
        longer.__dict__["_later"] = (*self._later, charge)
        return longer

    def fits(self, epsilon: float, delta: float) -> bool:
        """Whether all charges composed together satisfy (epsilon, delta)."""
        if not self.counts:
            return True
        quick = {"basic": self._basic, "advanced": self._advanced}
        bounds = _BOUNDS[self.composition]
        if any(quick[bound](delta) <= epsilon for bound in bounds if bound in quick):
            return True
        if "gaussian" in bounds:
            mu, left = self._majorant(delta)
            return mu < math.inf and left > 0 and Gaussian(mu, 1.0).delta(epsilon) <= left
        return "tight" in bounds and self._tight().delta(epsilon) <= delta

    def total(self, delta: float) -> TotalEpsilon:
        """The composed epsilon, by the best bound.

        The least epsilon at this delta by a bound that may be used here; infinite where none gives one.
        """
        return min(self.totals(delta), key=lambda total: total.epsilon)

    def totals(self, delta: float) -> list[TotalEpsilon]:
        """The composed epsilon at this delta by every bound of composition that may be used here."""
        return [
            TotalEpsilon(self._by(bound, delta) if self.counts else 0.0, bound) for bound in _BOUNDS[self.composition]
        ]

    def _by(self, bound: Composition, delta: float) -> float:
        if bound == "basic":
            return self._basic(delta)
        if bound == "advanced":
            return self._advanced(delta)
        if bound == "tight":
            return epsilon_at(self._tight(), delta)
        mu, left = self._majorant(delta)
        return epsilon_at(Gaussian(mu, 1.0), left) if mu < math.inf and left > 0 else math.inf

    def _basic(self, delta: float) -> float:
        if sum((Decimal(repr(c.delta)) * n for c, n in self.counts.items()), Decimal(0)) > Decimal(repr(delta)):
            return math.inf
        return float(sum((Decimal(repr(c.epsilon)) * n for c, n in self.counts.items()), Decimal(0)))

    def _advanced(self, delta: float) -> float:
        spent = math.fsum(c.delta * n for c, n in self.counts.items()) * (1 + 1e-15)
        left = delta - spent
        if self.composition == "advanced":  # as a filter
            left = (1 - _DELTAS) * delta if spent <= _DELTAS * delta else 0.0
        if left <= 0:
            return math.inf
        squares = math.fsum(c.epsilon**2 * n for c, n in self.counts.items())
        return (math.sqrt(2 * math.log(1 / left) * squares) + squares / 2) * (1 + 1e-14)

    def _majorant(self, delta: float) -> tuple[float, float]:
        """Gaussian composition: one Gaussian above all charges.

        The one Gaussian above all charges, and the delta that it has: none if the tails are too large.
        """
        mu, tails = gaussian_sum(self.counts)
        return mu, (1 - TAILS) * delta if tails <= TAILS * delta else 0.0

    @cached_property
    def _settled(self) -> tuple[Composed | None, float]:
        """Charges whose tight composition is settled: those that are no Gaussians, composed, and the sum of mu^2."""
        losses = [(part, n) for c, n in self.counts.items() for part in _flat(c.loss)]
        others = [loss for loss, n in losses if not isinstance(loss, Gaussian) for _ in range(n)]
        squares = math.fsum((g.sensitivity / g.scale) ** 2 * n for g, n in losses if isinstance(g, Gaussian))
        return Composed(others) if others else None, squares

    @cached_property
    def _later(self) -> tuple[Charge, ...]:
        """Charges that came after what is settled of a tight composition."""
        return ()

    def _tight(self) -> Loss:
        others, squares = self._settled
        later = [part for c in self._later for part in _flat(c.loss)]
        squares += math.fsum((g.sensitivity / g.scale) ** 2 for g in later if isinstance(g, Gaussian))
        parts: list[Loss] = [] if others is None else [others]
        parts += [loss for loss in later if not isinstance(loss, Gaussian)]
        if squares:
            parts.append(Gaussian(math.sqrt(squares) * (1 + 1e-14), 1.0))
        return parts[0] if len(parts) == 1 else Composed(parts)


def gaussian_sum(counts: Mapping[Charge, int]) -> tuple[float, float]:
    """Gaussian composition of majorants: the root of the sum of mu^2, and the sum of tails, both rounded up."""
    mu = math.sqrt(math.fsum(c.mu**2 * n for c, n in counts.items())) * (1 + 1e-14)
    return mu, math.fsum(c.tail * n for c, n in counts.items()) * (1 + 1e-15)


def without_tail(loss: Loss) -> bool:
    """Whether a loss lies below a Gaussian majorant everywhere, so that it needs no tail in Gaussian composition."""
    return all(isinstance(part, _WITHOUT_TAIL) for part in _flat(loss))


def _flat(loss: Loss) -> list[Loss]:
    return [part for each in loss.losses for part in _flat(each)] if isinstance(loss, Composed) else [loss]


def epsilon_at(loss: Loss, delta: float) -> float:
    """The least epsilon of composed losses at a delta; infinite where there is none."""
    try:
        return calibration.least_epsilon(loss, delta)
    except ParameterError:
        return math.inf


@functools.lru_cache(maxsize=256)
def majorant(loss: Loss, tail: float) -> float:
    """Gaussian majorant of a loss, for Gaussian composition.

    The least mu (to one part in 10^4) whose Gaussian profile lies above that of a loss, but for ``tail``; or inf.

    Checked on a fine grid: between its points a profile is at most its value at the left, and the Gaussian one at
    least its value at the right.
    """
    check.probability_below_one(tail=tail)
    if isinstance(loss, Gaussian):
        return math.nextafter(loss.sensitivity / loss.scale, math.inf)
    if isinstance(loss, Composed):
        share = tail / len(loss.losses)
        squares = math.fsum(count * majorant(part, share) ** 2 for part, count in Counter(loss.losses).items())
        return math.sqrt(squares) * (1 + 1e-14)
    if isinstance(loss, (Pure, Response, Laplace)):
        epsilon = loss.sensitivity / loss.laplace_scale if isinstance(loss, Laplace) else loss.epsilon
        return _of_response(epsilon)
    return _by_grid(loss, tail)


def response_below(mu: float) -> float:
    """The epsilon of the randomized response whose Gaussian majorant has this mu: about it, no bound."""
    return float(scipy.special.log_ndtr(mu / 2) - scipy.special.log_ndtr(-mu / 2))


def _of_response(epsilon: float) -> float:
    """Gaussian majorant of randomized response, the worst of all pure losses.

    Randomized response is the worst of all pure losses; its profile touches the Gaussian one at 0.

    A Gaussian's trade-off curve is convex and symmetric and passes through the corner (1/(1 + e^epsilon), same) of
    randomized response, whose two straight sides then lie above it. A small epsilon would be lost in the corner, a
    double close to 1/2, but not in the distance of the corner from 1/2, which is tanh(epsilon / 2) / 2.
    """
    if epsilon < 1:
        mu = math.sqrt(8) * scipy.special.erfinv(math.tanh(epsilon / 2 * (1 + 1e-15)))
        return math.nextafter(float(mu) * (1 + 1e-12), math.inf)
    corner = scipy.special.expit(-epsilon * (1 + 1e-15))
    return float(-2 * scipy.special.ndtri(corner) * (1 + 1e-12)) if corner > 0 else math.inf


def _by_grid(loss: Loss, tail: float) -> float:
    table = loss if isinstance(loss, Tabulated) else Tabulated(pld.sampled(loss.delta, loss.delta))
    end = table.dots.steps[-1] * pld.INTERVAL
    epsilons = end * np.linspace(0, 1, _FINE) ** 2
    found = np.array([table.delta(e) for e in epsilons])
    left, right = found[:-1], epsilons[1:]
    if found[-1] > tail:
        return math.inf

    def above(mu: float) -> bool:
        profile = profiles.gaussian_in_doubles(right, mu)
        return bool(((left <= tail) | (left + _MARGIN <= tail + (1 - tail) * profile)).all())

    low, high = 1e-9, 1e-3  # mu
    while not above(high):
        low, high = high, 2 * high
        if high > 1e3:
            return math.inf
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if above(middle) else (middle, high)
    return high


def largest_epsilon(room: Callable[[float], bool], highest: float) -> float:
    """The largest epsilon that still composes with earlier charges.

    The largest epsilon below ``highest`` for which there is room, to one part in 500; 0 if none.

    A rounder number is taken where there is one as large, so that 1 is said to be left, and not 0.998.
    """
    low, high = 0.0, highest
    for _ in range(60):
        if low > 0 and high - low <= high / 500:
            break
        middle = (low + high) / 2
        if middle < highest * 1e-6:
            return 0.0
        low, high = (middle, high) if room(middle) else (low, middle)
    nearby = round_number(low, high)
    return nearby if nearby is not None and room(nearby) else rounded_down(low)


def round_number(low: float, high: float) -> float | None:
    """A round number for a composed epsilon.

    The number of fewest digits, at most three, from low to a little above high.
    """
    for digits in (1, 2, 3):
        places = digits - 1 - math.floor(math.log10(low))
        found = math.ceil(low * 10**places) / 10**places
        if found <= high * (1 + 1e-4):
            return float(found)
    return None


def rounded_down(value: float) -> float:
    """A composed epsilon in three digits, rounded down, so that what a message says still fits."""
    if value <= 0:
        return 0.0
    places = 2 - math.floor(math.log10(value))
    return float(math.floor(value * 10**places) / 10**places)


def rounded_up(epsilon: float, digits: int = 6) -> float:
    """A composed epsilon in a few digits, rounded up, so that sums of it are readable and hold."""
    exact = Decimal(repr(epsilon))
    return float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), ROUND_CEILING))


def worst(books: Sequence[ChargeBook], delta: float) -> TotalEpsilon:
    """Parallel composition: the largest of several books.

    The largest of several books: disjoint parts of the data, of which one unit is in one only.
    """
    return max((book.total(delta) for book in books), key=lambda total: total.epsilon)
