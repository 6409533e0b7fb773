"""Accounts: what a release would cost of a dataset, cap by cap, and the entry that spends it, or a refusal.

A price is computed first; the entry is written in a transaction that excludes all others, and only if nothing of what
the price rests on has changed.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sfumato.errors import BudgetError, LedgerError
from sfumato.ledger.reservation import Reservation
from sfumato.ledger.state import Dataset, Quote, Request, read_dataset
from sfumato.privacy import stored_losses, units
from sfumato.privacy.calibration import least_epsilon, least_level
from sfumato.privacy.composition import (
    Charge,
    Composition,
    TotalEpsilon,
    largest_epsilon,
    round_number,
    rounded_down,
    worst,
)
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Loss
from sfumato.privacy.units import Cap

if TYPE_CHECKING:
    from sfumato.ledger.journal import Entry, Journal

_SPENDING = ("dataset", "cap", "reserve", "void")
_ATTEMPTS = 1000
LEARNING = "a schema that is learned"  # stands for the schema of a request that learns one
LEARNER = "SchemaLearning"  # the mechanism of such a request


@dataclass(frozen=True, slots=True)
class Account:
    """Where a release is charged: a dataset of a ledger, or a part of it. Made by ``Ledger.account``."""

    journal: "Journal" = field(repr=False)
    name: str
    part: str | None = None
    parts_by: str | None = None
    convert: bool = False
    exceptions: bool = False

    @property
    def dataset(self) -> Dataset:
        """The dataset that this account charges, with all its releases, as the ledger has it now."""
        return self._dataset(self.journal.entries())

    def _dataset(self, entries: list["Entry"]) -> Dataset:
        return read_dataset(self.name, entries, self.journal.name)

    def price(self, request: Request) -> list[Quote]:
        """What a release would cost, cap by cap; nothing is written. Refuses data that would be refused in the end."""
        entries = self.journal.entries()
        dataset = self._dataset(entries)
        self._sources(dataset, entries, request)
        return self._quotes(dataset, request)[0]

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

    def _entered(self, request: Request) -> "Entry":
        """One attempt to spend: the price, and the entry; raises _Moved if something was spent in between."""
        entries = self.journal.entries()
        dataset = self._dataset(entries)
        sources = self._sources(dataset, entries, request)
        quotes, charges = self._quotes(dataset, request)
        if not all(quote.fits for quote in quotes):
            raise self._refusal(dataset, request, quotes)
        unmoved = _unmoved(self.name, entries)

        def still(now: list["Entry"]) -> None:
            unmoved(now)
            self._sources(self._dataset(now), now, request)

        body = _reservation_json(request, self.part, quotes, charges) | sources
        return self.journal.append(self.name, "reserve", body, still)

    def _quotes(self, dataset: Dataset, request: Request) -> tuple[list[Quote], list[Charge]]:
        if request.outside and not self.exceptions:
            raise LedgerError(
                f"part of this release is outside its guarantee ({'; '.join(request.outside)}): use --exceptions "
                "(exceptions=True) to charge it and record that"
            )
        quotes, charges = [], []
        loss = stored_losses.tabulated(request.loss)
        for place, cap in enumerate(dataset.caps):
            times = self._times(cap, request)
            charge = _charge(request.guarantee, loss, times, dataset.composition)
            books, (epsilon, delta) = dataset.books(place, self.part), (cap.guarantee.epsilon, cap.guarantee.delta)
            longer = [book.and_(charge) for book in books]
            fits = all(book.fits(epsilon, delta) for book in longer)
            before, after = worst(books, delta), worst(longer, delta)
            quotes.append(Quote(cap, before, after, fits, times))
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

    def _sources(self, dataset: Dataset, entries: list["Entry"], request: Request) -> dict[str, str]:
        """The fingerprints of schema and source to charge for; refuses those of another dataset."""
        made = {
            "schema": self.journal.fingerprint("schema", request.schema),
            "source": self.journal.fingerprint("source", request.source),
        }
        check_units(dataset, made["schema"], self.journal.fingerprint("schema", LEARNING))
        if dataset.sources and not self._admitted(dataset, request.schema, made):
            raise LedgerError(
                f"dataset {self.name!r} has releases of another file or schema: assign these data to it with "
                "`sfumato ledger admit` (Ledger.admit), or add another dataset"
            )
        others = {e.dataset for e in entries if e.body.get("source") == made["source"]} - {self.name}
        if not dataset.sources and others and not request.source.startswith("memory"):
            raise LedgerError(
                f"this file is already accounted for as {min(others)!r}: charge it there or, if it now holds other "
                f"people's data, assign it to {self.name!r} with `sfumato ledger admit`"
            )
        return made

    def _admitted(self, dataset: Dataset, schema: str, made: dict[str, str]) -> bool:
        """Whether an account's dataset has this source under this schema, or learned the schema from this source.

        A schema that is learned is charged before it is known, so the release that uses it comes with another, which
        says by which entry it was learned.
        """
        learning = self.journal.fingerprint("schema", LEARNING)
        known = {first for first, second in dataset.sources if second == made["source"]}
        if made["schema"] == learning:
            return bool(known)
        drawn = {s.number for s in dataset.releases if s.mechanism == LEARNER and s.state in ("drawn", "committed")}
        return made["schema"] in known or (learning in known and _learned_by(schema, dataset.name) in drawn)

    def _refusal(self, dataset: Dataset, request: Request, quotes: list[Quote]) -> BudgetError:
        wanted, left = request.guarantee.epsilon, self._room(dataset, request)
        full = next(quote for quote in quotes if not quote.fits)
        advice = f"the largest epsilon that would still fit is {left:g}" if left else "nothing of this kind would fit"
        return BudgetError(
            f"{self.name!r} has spent {full.before.epsilon:.4g} of epsilon {full.cap.guarantee.epsilon:g} at delta "
            f"{full.cap.guarantee.delta:g}; this release, of epsilon {wanted:g}, would bring it to "
            f"{full.after.epsilon:.4g}: {advice}",
            requested=wanted,
            remaining=left,
        )

    def _room(self, dataset: Dataset, request: Request) -> float:
        """The largest epsilon that would still fit the account for this release with more noise, rounded down."""
        delta = request.guarantee.delta
        books = [dataset.books(place, self.part) for place in range(len(dataset.caps))]

        def fits(loss: Loss, epsilon: float) -> bool:
            promise = replace(request.guarantee, epsilon=epsilon)
            for cap, several in zip(dataset.caps, books, strict=True):
                charge = _charge(promise, loss, self._times(cap, request), dataset.composition)
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


class _Moved(Exception):  # noqa: N818 - no error, a reason to try again
    """Something was spent between the price and the entry."""


def _unmoved(name: str, seen: list["Entry"]) -> Callable[[list["Entry"]], None]:
    known = [e.number for e in seen if e.dataset == name and e.kind in _SPENDING]

    def check_(entries: list["Entry"]) -> None:
        if known != [e.number for e in entries if e.dataset == name and e.kind in _SPENDING]:
            raise _Moved

    return check_


def _charge(guarantee: Guarantee, loss: Loss, times: int, composition: Composition) -> Charge:
    charge = Charge.of(guarantee.epsilon, guarantee.delta, loss, times)
    return charge.majorised() if composition == "gaussian" else charge


def _reservation_json(request: Request, part: str | None, quotes: list[Quote], charges: list[Charge]) -> dict[str, Any]:
    return {
        "mechanism": request.mechanism,
        "guarantee": request.guarantee.to_dict(),
        "part": part,
        "outside": list(request.outside),
        "loss": stored_losses.to_json(stored_losses.tabulated(request.loss)),
        "charges": [
            {"times": q.times} | ({} if c.mu == math.inf else {"mu": c.mu, "tail": c.tail})
            for q, c in zip(quotes, charges, strict=True)
        ],
        "spent": [_total_json(q.after) for q in quotes],
    }


def _total_json(total: TotalEpsilon) -> dict[str, Any]:
    return {"epsilon": None if total.epsilon == math.inf else total.epsilon, "bound": total.bound}


def _learned_by(schema: str, name: str) -> int | None:
    """The entry of an account's dataset by which a schema says that it was learned."""
    fields = json.loads(schema) if schema.startswith("{") else {}
    said = fields.get("learned", {}).get("ledger") or {}
    return said.get("entry") if said.get("dataset") == name else None


def check_units(dataset: Dataset, schema: str, learning: str) -> None:
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
