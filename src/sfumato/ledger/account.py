"""Accounts: what a release would cost of a dataset, cap by cap, and the entry that spends it, or a refusal.

A price is computed first; the entry is written in a transaction that excludes all others, and only if nothing of what
the price rests on has changed.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sfumato.errors import BudgetError, LedgerError
from sfumato.in_notebooks import InNotebooks
from sfumato.ledger.reservation import Reservation
from sfumato.ledger.sources import FingerprintedOrigin, Origin
from sfumato.ledger.state import Price, Quote, Request, Standing
from sfumato.privacy import stored_losses, units
from sfumato.privacy.calibration import least_epsilon, least_level
from sfumato.privacy.composition import (
    Charge,
    TotalEpsilon,
    largest_epsilon,
    round_number,
    rounded_down,
    worst,
)
from sfumato.privacy.filters import DividedBook, refusal_reason
from sfumato.privacy.losses import Loss
from sfumato.privacy.units import Cap

if TYPE_CHECKING:
    from sfumato.ledger.entries import Entry
    from sfumato.ledger.folding import Folded
    from sfumato.ledger.journal import Journal

_ATTEMPTS = 1000
_NEGLIGIBLE = 1e-5  # of a cap's epsilon: what calibration leaves of it is not worth a release
LEARNING = "a schema that is learned"  # stands for the schema of a request that learns one


@dataclass(frozen=True, slots=True)
class Account(InNotebooks):
    """Where a release is charged: a dataset of a ledger, or a part of it. Made by ``Ledger.account``."""

    journal: "Journal" = field(repr=False)
    name: str
    part: str | None = None
    parts_by: str | None = None
    convert: bool = False
    exceptions: bool = False

    @property
    def dataset(self) -> Standing:
        """How the dataset that this account charges stands now, by the ledger."""
        return self._standing(self.journal.folded())

    def _standing(self, folded: "Folded") -> Standing:
        return folded.standing(self.name, self.journal.name)

    def price(self, request: Request) -> Price:
        """What a release would cost, cap by cap; nothing is written. Refuses data that would be refused in the end."""
        folded = self.journal.folded()
        self._sources(folded, request)
        return Price(self._quotes(self._standing(folded), request)[0])

    def quoted(self, request: Request) -> Price:
        """What a request would cost of the account, of data that it admits before it is charged; nothing is written."""
        return Price(self._quotes(self.dataset, request)[0])

    def reserve(self, request: Request) -> Reservation:
        """Spend what a release will cost, durably; raises BudgetError if it does not fit.

        The price is computed without holding the others up; the entry is written only if nothing was spent meanwhile.
        """
        for _ in range(_ATTEMPTS):
            try:
                entry = self._entered(request)
            except _Moved:
                continue
            return Reservation(self.journal, self.name, entry.number, entry.hash)
        raise LedgerError(f"{self.journal.name} is too busy: others kept spending meanwhile; try again")

    def admit(self, schema: str, source: Origin, check: Callable[[Standing], None] | None = None) -> None:
        """Admit data of this source and schema to the dataset of the account, on record: they spend its budget.

        ``check`` may refuse, by how the dataset stands at the moment of the entry.
        """
        fingerprints: dict[str, Any] = {"schema": self.journal.fingerprint("schema", schema)}
        fingerprints |= source.kept(self.journal.fingerprint).to_json()

        def known(folded: "Folded") -> None:
            check_units(self._standing(folded), fingerprints["schema"], self.journal.fingerprint("schema", LEARNING))
            if check is not None:
                check(self._standing(folded))

        self.journal.append(self.name, "admit", fingerprints, known)

    def _entered(self, request: Request) -> "Entry":
        """One attempt to spend: the price, and the entry; raises _Moved if something was spent in between."""
        folded = self.journal.folded()
        dataset, sources = self._standing(folded), self._sources(folded, request)
        quotes, charges = self._fitting(dataset, request)
        unmoved = _unmoved(self.name, folded)

        def still(now: "Folded") -> None:
            unmoved(now)
            self._sources(now, request)

        body = _reservation_json(request, self.part, quotes, charges) | sources
        return self.journal.append(self.name, "reserve", body, still)

    def check_room(self, request: Request) -> None:
        """Refuse a request that the account has no room for, before its data are admitted; nothing is written."""
        self._fitting(self.dataset, request)

    def _fitting(self, dataset: Standing, request: Request) -> tuple[list[Quote], list[Charge]]:
        quotes, charges = self._quotes(dataset, request)
        if not all(quote.fits for quote in quotes):
            raise self._refusal(dataset, request, quotes, charges)
        return quotes, charges

    def _quotes(self, dataset: Standing, request: Request) -> tuple[list[Quote], list[Charge]]:
        if request.outside and not self.exceptions:
            raise LedgerError(
                f"part of this release is outside its guarantee ({'; '.join(request.outside)}): use --exceptions "
                "(exceptions=True) to charge it and record that"
            )
        quotes, charges = [], []
        loss = stored_losses.tabulated(request.loss)
        for place, cap in enumerate(dataset.caps):
            times, books = self._times(cap, request), dataset.books(place, self.part)
            charge = Charge.of(request.guarantee.epsilon, request.guarantee.delta, loss, times)
            charge, settled = dataset.placed(place, books, charge, request.mechanism)
            epsilon, delta = cap.guarantee.epsilon, cap.guarantee.delta
            longer = [book.and_(charge) for book in settled]
            fits = all(book.fits(epsilon, delta) for book in longer)
            shares = next((book.shares for book in settled if isinstance(book, DividedBook)), None)
            totals = worst(settled, delta), worst(longer, delta)
            quotes.append(Quote(cap, *totals, fits, times, charge.share, shares))
            charges.append(charge)
        return quotes, charges

    def _times(self, cap: Cap, request: Request) -> int:
        times = units.units(request.guarantee, cap, request.columns)
        if times > 1 and not self.convert:
            raise LedgerError(
                f"{self.name!r} is capped at {cap.describe()}: this release, of unit={request.guarantee.unit!r} and "
                f"neighbours={request.guarantee.neighbours!r}, would count {times} times; say --convert (convert=True) "
                "to charge it so, or release with the unit of the cap"
            )
        return times

    def _sources(self, folded: "Folded", request: Request) -> dict[str, Any]:
        """The fingerprints of schema and source to charge for; refuses those of another dataset."""
        dataset = self._standing(folded)
        schema = self.journal.fingerprint("schema", request.schema)
        origin = request.source.kept(self.journal.fingerprint)
        check_units(dataset, schema, self.journal.fingerprint("schema", LEARNING))
        if dataset.sources and not self._admitted(dataset, request.schema, schema, origin):
            raise LedgerError(
                f"dataset {self.name!r} has releases of another file or schema: assign these data to it with "
                "`sfumato ledger admit` (Ledger.admit), or add another dataset"
            )
        others = [d.name for d in folded.datasets.values() if d.name != self.name and d.schemas_of(origin)]
        if not dataset.sources and others and not request.source.in_memory:
            raise LedgerError(
                f"this file is already accounted for as {min(others)!r}: charge it there or, if it now holds other "
                f"people's data, assign it to {self.name!r} with `sfumato ledger admit`"
            )
        return {"schema": schema} | origin.to_json(dataset.marks.get(origin.place, set()))

    def _admitted(self, dataset: Standing, text: str, schema: str, origin: FingerprintedOrigin) -> bool:
        """Whether an account's dataset has this source under this schema, or learned the schema from this source.

        A schema that is learned is charged before it is known, so the release that uses it comes with another, which
        says by which entry it was learned.
        """
        learning, known = self.journal.fingerprint("schema", LEARNING), dataset.schemas_of(origin)
        if schema == learning:
            return bool(known)
        return schema in known or (learning in known and _learned_by(text, dataset.name) in dataset.learned)

    def _refusal(self, dataset: Standing, request: Request, quotes: list[Quote], charges: list[Charge]) -> BudgetError:
        wanted, left = request.guarantee.epsilon, self._room(dataset, request)
        full = next(quote for quote in quotes if not quote.fits)
        whole, after = full.cap.guarantee.epsilon, f"{full.after.epsilon:.4g}"
        left = left if left > _NEGLIGIBLE * whole else 0.0
        above = f"just above {whole:.4g}" if after == f"{whole:.4g}" else after
        more = f"would bring it to {above}" if whole < full.after.epsilon < math.inf else "does not fit"
        advice = f"the largest epsilon that would still fit is {left:g}" if left else "nothing of this kind would fit"
        reason = _reason(dataset, full, charges[quotes.index(full)])
        return BudgetError(
            f"{self.name!r} has spent {full.before.epsilon:.4g} of epsilon {whole:g} at delta "
            f"{full.cap.guarantee.delta:g}; this release, of epsilon {wanted:g}, {more}{reason}: {advice}",
            requested=wanted,
            remaining=left,
        )

    def _room(self, dataset: Standing, request: Request) -> float:
        """The largest epsilon that would still fit the account for this release with more noise, rounded down."""
        delta = request.guarantee.delta
        books = [dataset.books(place, self.part) for place in range(len(dataset.caps))]

        def fits(loss: Loss, epsilon: float) -> bool:
            for place, cap in enumerate(dataset.caps):
                charge = Charge.of(epsilon, delta, loss, self._times(cap, request))
                charge, several = dataset.placed(place, books[place], charge, request.mechanism)
                if not all(book.and_(charge).fits(cap.guarantee.epsilon, cap.guarantee.delta) for book in several):
                    return False
            return True

        def smaller(share: float) -> bool:
            loss = request.loss_at(1 / share)
            return fits(loss, least_epsilon(loss, delta))

        share = largest_epsilon(smaller, 1.0)
        if share == 0:
            return 0.0
        found = least_epsilon(request.loss_at(1 / share), delta)
        nearby = round_number(found, found * (1 + 1 / 400))
        if nearby is not None:
            level = least_level(request.loss_at, nearby, delta, start=1 / share)
            if fits(request.loss_at(level), nearby):
                return nearby
        return rounded_down(found)


def _reason(dataset: Standing, full: Quote, charge: Charge) -> str:
    """What of a filter's shares decides that a release is refused, in words; nothing where a sum says it all."""
    if dataset.composition != "filter":
        return ""
    cap, declared = full.cap.guarantee, dataset.divided and full.cap == dataset.caps[0]
    book = DividedBook([], full.shares, dataset.programme)
    return refusal_reason(book, charge, (cap.epsilon, cap.delta), declared=declared)


class _Moved(Exception):  # noqa: N818 - no error, a reason to try again
    """Something was spent between the price and the entry."""


def _unmoved(name: str, seen: "Folded") -> Callable[["Folded"], None]:
    known = seen.datasets[name].moved

    def check_(now: "Folded") -> None:
        if name not in now.datasets or now.datasets[name].moved != known:
            raise _Moved

    return check_


def _reservation_json(request: Request, part: str | None, quotes: list[Quote], charges: list[Charge]) -> dict[str, Any]:
    return {
        "mechanism": request.mechanism,
        "guarantee": request.guarantee.to_dict(),
        "part": part,
        "outside": list(request.outside),
        "loss": stored_losses.to_json(stored_losses.tabulated(request.loss)),
        "charges": [_charge_json(q, c, request.guarantee.delta) for q, c in zip(quotes, charges, strict=True)],
        "spent": [_total_json(q.after) for q in quotes],
    }


def _charge_json(quote: Quote, charge: Charge, delta: float) -> dict[str, Any]:
    """A charge in the words of a ledger; with an epsilon of its own if it does without the delta it was given."""
    own = {"epsilon": charge.epsilon} if charge.delta == 0 < delta else {}
    majorant = {} if charge.mu == math.inf else {"mu": charge.mu, "tail": charge.tail}
    shares = {} if quote.shares is None else {"share": charge.share, "shares": quote.shares.to_json()}
    return {"times": quote.times} | own | majorant | shares


def _total_json(total: TotalEpsilon) -> dict[str, Any]:
    return {"epsilon": None if total.epsilon == math.inf else total.epsilon, "bound": total.bound}


def _learned_by(schema: str, name: str) -> int | None:
    """The entry of an account's dataset by which a schema says that it was learned."""
    fields = json.loads(schema) if schema.startswith("{") else {}
    said = fields.get("learned", {}).get("ledger") or {}
    return said.get("entry") if said.get("dataset") == name else None


def check_units(dataset: Standing, schema: str, learning: str) -> None:
    """Refuse to charge another schema to a cap with a radius, which is in weighted units of its schema alone.

    ``learning`` is the fingerprint of a schema that is still to be learned: it has no units.
    """
    balls = any(cap.guarantee.allowed_change.radius is not None for cap in dataset.caps)
    known = {first for first, _ in dataset.sources} - {learning}
    if balls and known and schema not in known | {learning}:
        raise LedgerError(
            f"the cap of {dataset.name!r} has a radius in the units of the schema it was first used with: "
            "another schema needs a dataset of its own"
        )
