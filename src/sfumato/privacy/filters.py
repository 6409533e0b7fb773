"""Privacy filters: a cap divided into shares of a size fixed beforehand, so that every release may be chosen freely.

A cap (epsilon, delta) has a pure share epsilon1 and a Gaussian share of epsilon2 = epsilon - epsilon1 at delta.

pure     : epsilons add up to at most epsilon1. It takes releases of delta 0.
gaussian : each loss lies below a Gaussian one with mu, but for a probability tau (``Charge.mu``, ``Charge.tail``). The
           sum of tau is at most T, and with M^2 the sum of mu^2, T + (1 - T) * (Gaussian profile of M at epsilon2) is
           at most delta.
all pure : epsilon1 = epsilon. Nothing is left for a Gaussian share, so this share takes deltas too: epsilons and deltas
           add up to at most (epsilon, delta).

Formal guarantee: releases that ``DividedBook.fits`` accepts, one after another, together satisfy (epsilon, delta), also
if each release, its loss and the share that it is charged to are chosen after seeing everything published before. The
sizes of the shares (epsilon1 and T) must be fixed before the first random word is drawn: they are declared with the
cap, or follow from the first reservation. A split that follows the outcomes is no filter.

Proof. Let D and D' be neighbours, and V(a, b) all that is published if releases of the pure share read a and those of
the Gaussian share read b. Whoever chooses them sees only what is published. Between V(D, D) and V(D, D') the pure share
is randomness of the same law, so the Gaussian filter gives Pr[V(D, D) in S] <= e^epsilon2 Pr[V(D, D') in S] + delta.
Between V(D, D') and V(D', D') the Gaussian share is, so sums of epsilon give Pr[V(D, D') in S] <= e^epsilon1
Pr[V(D', D') in S]. Together: (epsilon1 + epsilon2, delta), with no factor on delta, since only the first step has one.

A share that has one charge is checked by the loss itself, delta(epsilon2) <= delta: the first release of a share is
chosen without having seen anything of that share, and whatever follows it is held to the sums. So a (1, 1e-6) release
fits a (1, 1e-6) cap exactly. Proofs of the filters: docs/mathematics.md, section 8.
"""

import functools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_FLOOR, Decimal

from sfumato.privacy.calibration import least_level
from sfumato.privacy.cap_shares import CapShares, decimal_of, epsilon_from_zero, epsilon_less
from sfumato.privacy.composition import (
    Book,
    Charge,
    Share,
    TotalEpsilon,
    response_below,
    rounded_down,
    rounded_up,
)
from sfumato.privacy.losses import Gaussian, Pure, pure_epsilon
from sfumato.privacy.programme import Programme

_DIGITS = 6  # of a remaining epsilon: as many as are shown
_HARDLY = 1.01  # times an epsilon: what a pure loss may cost without its delta, which others can then have
_OTHERWISE = "; `sfumato ledger init --pure-share` divides a cap otherwise, before its first release"


class DividedBook:
    """Charges that add up under a filter, each to its share of a cap.

    shares    : None until the first charge fixes them; with a programme, what it leaves is all pure, at delta 0.
    programme : releases that were declared beforehand, which have all of delta and a part of epsilon.
    """

    def __init__(
        self,
        charges: Iterable[Charge] | Mapping[Charge, int],
        shares: CapShares | None = None,
        programme: Programme | None = None,
    ) -> None:
        self.counts, self.programme = Counter(charges), programme
        self.shares = CapShares(None) if programme is not None else shares

    def divided(self, shares: CapShares) -> "DividedBook":
        """The book of a filter with these shares, unless it has some."""
        return DividedBook(self.counts, self.shares or shares, self.programme)

    def and_(self, charge: Charge) -> "DividedBook":
        """A book of a filter with one charge more."""
        longer = DividedBook(self.counts, self.shares, self.programme)
        longer.counts[charge] += 1
        return longer

    def of(self, share: Share) -> Counter[Charge]:
        """The charges to one share of the cap, counted."""
        return Counter({charge: n for charge, n in self.counts.items() if charge.share == share})

    def options(self, charge: Charge, mechanism: str = "") -> Iterator[Charge]:
        """The shares that a charge may go to in a filter, as charges, the one to try first at the front."""
        forms = [*_without_delta(charge), charge]
        if self.programme is not None:
            yield from (replace(f, share=n) for f in forms for n in self.programme.matching(f, mechanism))
        whole = self.shares is None or self.shares.pure is None
        for form in forms:
            if whole or form.delta == 0:
                yield replace(form, share="pure")
        if not whole:
            yield replace(charge.majorised(), share="gaussian")

    def fits(self, epsilon: float, delta: float) -> bool:
        """Whether every share has room for its charges, if the cap is (epsilon, delta)."""
        return not self.full(epsilon, delta)

    def full(self, epsilon: float, delta: float) -> list[Share]:
        """The shares of a cap (epsilon, delta) that are full: their charges do not fit."""
        known: set[Share | None] = {"pure", "gaussian"}
        if self.programme is not None:
            known |= set(range(len(self.programme.planned)))
        if any(charge.share not in known for charge in self.counts):
            raise ValueError("a charge to no share of the cap")
        found: list[Share] = []
        if self.programme is not None:
            within = self.programme.epsilon <= epsilon and self.programme.delta <= delta
            used = [self.of(number).total() for number in range(len(self.programme.planned))]
            found += [i for i, n in enumerate(used) if n > (self.programme.planned[i].count if within else 0)]
        epsilon, delta = self._rest(epsilon, delta)
        if not self._pure_fits(epsilon, delta):
            found.append("pure")
        if not self._gaussian_fits(epsilon, delta):
            found.append("gaussian")
        return found

    def _rest(self, epsilon: float, delta: float) -> tuple[float, float]:
        """What a programme leaves of a cap to the shares of the filter."""
        return (epsilon, delta) if self.programme is None else (epsilon_less(epsilon, self.programme.epsilon), 0.0)

    def _pure_fits(self, epsilon: float, delta: float) -> bool:
        charges = self.of("pure")
        if not charges:
            return True
        if self.shares is None or self.shares.pure is None:
            beyond = max(charge.delta for charge in charges) > delta  # what is promised then says nothing
            return Book(charges, "basic").fits(epsilon, delta) or (beyond and _alone(charges, epsilon, delta))
        return Book(charges, "basic").fits(min(epsilon, self.shares.pure), 0.0)

    def _gaussian_fits(self, epsilon: float, delta: float) -> bool:
        charges, shares = self.of("gaussian"), self.shares
        if not charges:
            return True
        if shares is None or shares.pure is None:
            return False
        whole = shares.gaussian(epsilon)
        if _alone(charges, whole, delta):
            return True
        mu, left = shares.gaussian_left(charges, delta)
        return left > 0 and mu < math.inf and Gaussian(mu, 1.0).delta(whole) <= left

    def parts(self, delta: float) -> dict[str, float]:
        """What was spent of each share of a cap with this delta, as an epsilon; a share without charges is left out."""
        parts = {}
        if self.programme is not None and any(isinstance(charge.share, int) for charge in self.counts):
            parts["programme"] = self.programme.epsilon
        charges, rest = self.of("pure"), self._rest(0.0, delta)[1]
        if charges:
            basic = Book(charges, "basic").total(rest).epsilon
            alone = basic == math.inf and charges.total() == 1
            parts["pure"] = _alone_epsilon(charges, rest) if alone else basic
        charges = self.of("gaussian")
        if charges.total() == 1:
            parts["gaussian"] = _alone_epsilon(charges, delta)
        elif charges and self.shares is not None:
            mu, left = self.shares.gaussian_left(charges, delta)
            parts["gaussian"] = epsilon_from_zero(Gaussian(mu, 1.0), left) if left > 0 and mu < math.inf else math.inf
        return parts

    def total(self, delta: float) -> TotalEpsilon:
        """What was spent of a cap with this delta: the epsilons of its shares, added up."""
        return TotalEpsilon(float(sum(map(decimal_of, self.parts(delta).values()), Decimal(0))), "filter")

    def totals(self, delta: float) -> list[TotalEpsilon]:
        """What was spent of a cap with this delta, by the only bound that a filter has."""
        return [self.total(delta)]

    def room(self, share: Share, epsilon: float, delta: float) -> float:
        """The largest epsilon that one more pure release could have in a share of a cap, rounded down."""
        shares = self.shares or CapShares(None)
        epsilon, delta = self._rest(epsilon, delta)
        if share == "pure":
            spent = Book(self.of("pure"), "basic").total(delta).epsilon
            whole = epsilon if shares.pure is None else min(epsilon, shares.pure)
            return _floor(whole, spent) if spent < math.inf else 0.0
        whole, charges = shares.gaussian(epsilon), self.of("gaussian")
        if not charges or shares.pure is None:
            return _floor(whole, 0.0)
        mu, left = shares.gaussian_left(charges, delta)
        if left <= 0 or whole == 0:
            return 0.0
        squares = largest_mu(whole, left) ** 2 - mu**2
        return self._checked(response_below(math.sqrt(squares)), epsilon, delta) if squares > 0 else 0.0

    def _checked(self, found: float, epsilon: float, delta: float) -> float:
        """About the largest epsilon of the Gaussian share, in three digits, that does fit."""
        for share in (1.0, 0.995, 0.98):
            rounded = rounded_down(found * share)
            charge = Charge.of(rounded, 0.0, Pure(rounded)).majorised() if rounded > 0 else None
            if charge is not None and self.and_(replace(charge, share="gaussian"))._gaussian_fits(epsilon, delta):
                return rounded
        return 0.0


def placed(
    books: Sequence[DividedBook], charge: Charge, cap: tuple[float, float], mechanism: str = ""
) -> tuple[Charge, list[DividedBook]]:
    """The charge with the share it goes to, and the books of a filter, whose shares it fixes if it is the first.

    The first share that has room in every book; if none has, the last, which is then full.
    """
    settled = [book.divided(CapShares.of_first(charge, cap[1])) for book in books]
    option = charge
    for option in settled[0].options(charge, mechanism):
        if all(book.and_(option).fits(*cap) for book in settled):
            break
    return option, settled


def remaining(books: Sequence[DividedBook], cap: tuple[float, float]) -> float:
    """The largest epsilon that one more pure release could have under a filter, in every book, rounded down."""
    found = [min(book.room(share, *cap) for book in books) for share in ("pure", "gaussian")]
    programme = books[0].programme
    for number, planned in enumerate(programme.planned if programme is not None else ()):
        if planned.law == "pure" and all(book.of(number).total() < planned.count for book in books):
            found.append(planned.epsilon)
    return max(found)


def refusal_reason(book: DividedBook, charge: Charge, cap: tuple[float, float], *, declared: bool) -> str:
    """Why a filter refuses a charge, if the kind of its loss decides that, in brackets for a message.

    A sum of epsilons that is too large needs no reason.
    """
    shares, whole = book.shares, cap[1]
    if book.programme is not None:
        planned = (
            f"epsilon {book.programme.epsilon:g} and all of delta belong to the programme, and no unused line of it"
        )
        return f" ({planned} covers this release; the rest of the cap is for pure releases)"
    pure = charge.delta == 0 or pure_epsilon(charge.loss) < math.inf
    if shares is None or whole == 0 or (shares.pure is None and pure):
        return ""
    fixed, otherwise = ("its owner declared", "") if declared else ("the first release fixed", _OTHERWISE)
    if shares.pure is None:
        return f" ({fixed} that epsilons and deltas of this cap add up, deltas to at most {whole:g}{otherwise})"
    share = (
        "this cap is" if shares.pure == 0 else f"epsilon {shares.pure:g} of this cap is for pure releases and the rest"
    )
    kind = ", where Laplace noise and other pure losses cost more than their epsilon" if pure else ""
    tails = f", with {shares.tails:g} of delta for failures" if shares.tails or charge.tail else ""
    return f" ({fixed} that {share} for Gaussian noise{tails}{kind}{otherwise})"


@functools.lru_cache(maxsize=256)
def largest_mu(epsilon: float, delta: float) -> float:
    """The largest mu of a Gaussian share: its profile at epsilon is at most delta."""
    return 1 / least_level(lambda level: Gaussian(1.0, level), epsilon, delta)


def _without_delta(charge: Charge) -> list[Charge]:
    """A charge of a pure loss without the delta that it was given, if its epsilon is hardly larger then."""
    epsilon = pure_epsilon(charge.loss) if charge.delta > 0 else math.inf
    if epsilon == math.inf or epsilon > _HARDLY * charge.epsilon:
        return []
    return [replace(charge, epsilon=rounded_up(epsilon), delta=0.0)]


def _alone(charges: Counter[Charge], epsilon: float, delta: float) -> bool:
    """Whether there is one charge, and what it promises, or else its loss itself, satisfies (epsilon, delta)."""
    if charges.total() != 1:
        return False
    charge = next(iter(charges))
    promised = charge.epsilon <= epsilon and charge.delta <= delta
    return promised or (charge.delta > 0 and charge.loss.delta(epsilon) <= delta)


def _alone_epsilon(charges: Counter[Charge], delta: float) -> float:
    """The epsilon of a single charge at this delta: what it promises, or what its loss says if that is less."""
    charge = next(iter(charges))
    if charge.delta in (0.0, delta):
        return charge.epsilon
    return min(charge.epsilon if charge.delta < delta else math.inf, epsilon_from_zero(charge.loss, delta))


def _floor(whole: float, spent: float) -> float:
    """What is left of an epsilon, in as many digits as are shown, rounded down."""
    left = decimal_of(whole) - decimal_of(spent)
    if left <= 0:
        return 0.0
    return float(left.quantize(Decimal(1).scaleb(left.adjusted() - _DIGITS + 1), ROUND_FLOOR))
