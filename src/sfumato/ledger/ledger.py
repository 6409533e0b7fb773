"""The budget ledger: datasets with caps, and what every release of them has spent.

Formal guarantee: the releases of a dataset that were reserved and not voided together satisfy each of its caps, as it
stood when the last of them was reserved, by composition (``privacy.composition``), whatever processes made them and
however they ended. A price is computed first; the entry is written in a transaction that excludes all others, and only
if nothing of what the price rests on has changed. A reservation is spent from that moment; ``draw`` is written before
the first random word of a release is drawn, and only a reservation without it, which can then never be drawn, may be
voided.
"""

import hashlib
import hmac
import importlib
import json
import math
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from sfumato import check
from sfumato.errors import BudgetError, LedgerError
from sfumato.fileformat import kinds
from sfumato.fileformat.manifest import Manifest
from sfumato.fileformat.reader import digest
from sfumato.ledger.state import STEPS, Dataset, Quote, Request, Spent, protects, read_dataset
from sfumato.privacy import composition as accounting
from sfumato.privacy import stored_losses, units
from sfumato.privacy.calibration import least_epsilon, least_level
from sfumato.privacy.composition import COMPOSITIONS, Charge, Composition, Total
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Loss
from sfumato.privacy.units import Cap

if TYPE_CHECKING:
    from sfumato.ledger.journal import Entry, Journal

_SPENDING = ("dataset", "cap", "reserve", "void")
_ATTEMPTS = 1000


class Ledger:
    """The budgets at a place: the path of a SQLite file, or a postgresql:// URL. ``wait``: seconds for others."""

    def __init__(self, where: str | os.PathLike[str], *, wait: int = 60) -> None:
        # its database library takes a quarter of a second to import, and a release without a ledger never needs it
        self.journal: Journal = importlib.import_module("sfumato.ledger.journal").Journal(where, wait)

    @classmethod
    def create(cls, where: str | os.PathLike[str]) -> Self:
        """Open a ledger, which is made if it is not there."""
        ledger = cls(where)
        ledger.journal.create()
        return ledger

    def add_dataset(
        self, name: str, cap: Guarantee | Cap, *, composition: Composition = "tight", parts_by: str | None = None
    ) -> Dataset:
        """Enter a dataset with its first cap.

        composition : how releases add up (``privacy.composition``). ``tight`` holds if the sizes of releases are not
                      chosen by looking at earlier ones; ``basic``, ``advanced`` and ``gaussian`` hold in any case.
        parts_by    : a public column by whose values the records fall into parts that are released one by one; a
                      neighbour keeps its value, so one record spends in its own part only.
        """
        _check_text(name, "a dataset's name")
        check.one_of(COMPOSITIONS, composition=composition)
        first = Cap(cap) if isinstance(cap, Guarantee) else cap
        if parts_by is not None:
            _check_text(parts_by, "the column of parts")
            if first.guarantee.group > 1:
                raise LedgerError("rows of one person may lie in several parts: a cap with group > 1 cannot have parts")

        def absent(entries: list["Entry"]) -> None:
            if any(e.dataset == name for e in entries):
                raise LedgerError(f"{self.journal.name} has a dataset {name!r} already: see `sfumato ledger show`")

        body = {"composition": composition, "parts_by": parts_by} | _cap_json(first)
        self.journal.append(name, "dataset", body, absent)
        return self.dataset(name)

    def set_cap(self, name: str, cap: Guarantee | Cap) -> Dataset:
        """Set the cap of a unit; it can be raised or lowered later, on record, but what it protects stays the same."""
        new = Cap(cap) if isinstance(cap, Guarantee) else cap

        def possible(entries: list["Entry"]) -> None:
            dataset = read_dataset(name, entries, self.journal.name)
            same = [old for old in dataset.caps if old.key == new.key]
            if dataset.releases and not same:
                raise LedgerError(f"releases of {name!r} were made already, so no cap for another unit can be added")
            if new.guarantee.group > 1 and dataset.parts_by is not None:
                raise LedgerError("rows of one person may lie in several parts: a cap with group > 1 cannot have parts")
            if same and protects(same[0]) != protects(new):
                raise LedgerError(f"the cap of {name!r} for this unit protects {same[0].describe()}, which stays so")

        self.journal.append(name, "cap", _cap_json(new), possible)
        return self.dataset(name)

    def dataset(self, name: str) -> Dataset:
        """One dataset with all its releases."""
        return read_dataset(name, self.journal.entries(), self.journal.name)

    def datasets(self) -> list[Dataset]:
        """All datasets, in the order they were entered."""
        entries = self.journal.entries()
        return [read_dataset(e.dataset, entries, self.journal.name) for e in entries if e.kind == "dataset"]

    def account(
        self, dataset: str | None = None, *, part: str | None = None, convert: bool = False, exceptions: bool = False
    ) -> "Account":
        """What releases are charged to; the only dataset if none is named.

        part       : release only the records of this part, if the dataset has parts.
        convert    : charge releases of another unit too, by the number of their units that one of the cap's can be.
        exceptions : charge releases of which something is outside their guarantee, and record what.
        """
        found = self.datasets() if dataset is None else [self.dataset(dataset)]
        if len(found) != 1:
            raise LedgerError(f"{self.journal.name} has {len(found)} datasets: name one (--dataset)")
        if part is not None and found[0].parts_by is None:
            raise LedgerError(f"the dataset {found[0].name!r} has no parts: enter it with parts_by, a public column")
        if part is not None:
            _check_text(part, "a part's name")
        return Account(self, found[0].name, part, found[0].parts_by, convert, exceptions)

    def admit(self, name: str, schema: str, source: str) -> None:
        """Say, on record, that data from this source with this schema belong to a dataset, and spend its budget."""
        fingerprints = {"schema": self.fingerprint("schema", schema), "source": self.fingerprint("source", source)}

        def known(entries: list["Entry"]) -> None:
            dataset = read_dataset(name, entries, self.journal.name)
            _check_units(dataset, fingerprints["schema"])

        self.journal.append(name, "admit", fingerprints, known)

    def fingerprint(self, kind: str, text: str) -> str:
        """A keyed hash: whoever has no access to the ledger cannot guess what it stands for."""
        return hmac.new(self.journal.key, f"{kind}\0{text}".encode(), hashlib.sha256).hexdigest()

    def void(self, number: int, reason: str) -> None:
        """Give back a reservation that was never drawn, and never will be.

        Sound, because a release asks ``draw`` before its first random word, and draw refuses a void reservation.
        """
        check.whole(1, number=number)
        _check_text(reason, "a reason, which is kept,")
        self._mark(number, "void", {"reason": reason})

    def check_release(self, manifest: Manifest) -> Spent:
        """The reservation of a release; refuses one that was not committed, or is not what was committed.

        Of a release that was made in memory and saved later, the ledger knows the manifest but not the files.
        """
        spent = self._reservation(manifest)
        if spent.state != "committed":
            raise LedgerError(
                f"reservation {spent.number}, to which this release was charged, is {spent.state} and not committed"
                + (
                    ": `sfumato ledger confirm` records a release that was written whole"
                    if spent.state == "drawn"
                    else ""
                )
            )
        if spent.note not in (manifest["digest"], digest({**manifest, "files": {}})):
            raise LedgerError(f"this is not the release that entry {spent.number} committed: do not trust it")
        return spent

    def _reservation(self, manifest: Manifest) -> Spent:
        """The reservation that a manifest names, if it is one of this ledger and of the same promise."""
        told = manifest.get("ledger")
        if told is None:
            raise LedgerError("this release was charged to no ledger, and says so")
        entry = next((e for e in self.journal.entries() if e.number == told["entry"]), None)
        if entry is None or (entry.hash, entry.dataset, entry.kind) != (told["hash"], told["dataset"], "reserve"):
            raise LedgerError(f"{self.journal.name} has no entry for this release: it belongs to another ledger")
        spent = next(s for s in self.dataset(entry.dataset).releases if s.number == entry.number)
        if kinds.claim_kept(manifest) and Guarantee.from_dict(manifest["guarantee"]) != spent.guarantee:
            raise LedgerError(f"this release promises something else than entry {spent.number}: do not trust it")
        return spent

    def confirm_release(self, manifest: Manifest) -> int:
        """Record a release that was written whole but not committed before its process ended."""
        spent = self._reservation(manifest)
        self._mark(spent.number, "commit", {"digest": manifest["digest"]})
        return spent.number

    def verify(self, expected: str | None = None) -> tuple[int, str]:
        """Check the chain of entries and the steps of every release; how many there are, and the last hash."""
        found = self.journal.verify(expected)
        self.datasets()
        return found

    def _mark(self, number: int, kind: str, body: dict[str, Any], hash_: str | None = None) -> None:
        """The next step of a reservation, which is known by its number and, to its own process, by its hash."""
        found = _reserved(self.journal.entries(), number, hash_)
        if found is None:
            raise LedgerError(f"{self.journal.name} has no such reservation {number}")
        name = found.dataset

        def possible(entries: list["Entry"]) -> None:
            if found not in entries:
                raise LedgerError(f"{self.journal.name} lost reservation {number} meanwhile")
            state = self._state(entries, found)
            if state != STEPS[kind][0]:
                raise LedgerError(f"reservation {number} of {name!r} is {state}, so it cannot be {_PAST[kind]}")

        self.journal.append(name, kind, {"reservation": number} | body, possible)

    def _state(self, entries: list["Entry"], reserved: "Entry") -> str:
        releases = read_dataset(reserved.dataset, entries, self.journal.name).releases
        return next(s.state for s in releases if s.number == reserved.number)


_PAST = {"void": "voided", "draw": "drawn from", "commit": "committed"}


@dataclass(frozen=True, slots=True)
class Account:
    """Where a release is charged: a dataset of a ledger, or a part of it. Made by ``Ledger.account``."""

    ledger: Ledger
    name: str
    part: str | None = None
    parts_by: str | None = None
    convert: bool = False
    exceptions: bool = False

    def price(self, request: Request) -> list[Quote]:
        """What a release would cost, cap by cap; nothing is written. Refuses data that would be refused in the end."""
        entries = self.ledger.journal.entries()
        dataset = read_dataset(self.name, entries, self.ledger.journal.name)
        self._sources(dataset, entries, request)
        return self._quotes(dataset, request)[0]

    def reserve(self, request: Request) -> "Reservation":
        """Spend what a release will cost, durably; raises BudgetError if it does not fit.

        The price is computed without holding the others up; the entry is written only if nothing was spent meanwhile.
        """
        for _ in range(_ATTEMPTS):
            entries = self.ledger.journal.entries()
            dataset = read_dataset(self.name, entries, self.ledger.journal.name)
            sources = self._sources(dataset, entries, request)
            quotes, charges = self._quotes(dataset, request)
            if not all(quote.fits for quote in quotes):
                raise self._refusal(dataset, request, quotes)
            body = {
                "mechanism": request.mechanism,
                "guarantee": request.guarantee.to_dict(),
                "part": self.part,
                "outside": list(request.outside),
                "loss": stored_losses.to_json(stored_losses.tabulated(request.loss)),
                "charges": [
                    {"times": q.times} | ({} if c.mu == math.inf else {"mu": c.mu, "tail": c.tail})
                    for q, c in zip(quotes, charges, strict=True)
                ],
                "spent": [_total_json(q.after) for q in quotes],
            } | sources
            unmoved = _unmoved(self.name, entries)

            def still(now: list["Entry"], unmoved: Callable[[list["Entry"]], None] = unmoved) -> None:
                unmoved(now)
                self._sources(read_dataset(self.name, now, self.ledger.journal.name), now, request)

            try:
                entry = self.ledger.journal.append(self.name, "reserve", body, still)
            except _Moved:
                continue
            return Reservation(self.ledger, self.name, entry.number, entry.hash)
        raise LedgerError(f"{self.ledger.journal.name} is too busy: others kept spending meanwhile; try again")

    def _quotes(self, dataset: Dataset, request: Request) -> tuple[list[Quote], list[Charge]]:
        if request.outside and not self.exceptions:
            raise LedgerError(
                f"something of this release is outside its guarantee ({'; '.join(request.outside)}): a ledger "
                "cannot vouch for it; say --exceptions (exceptions=True) to charge it all the same, on record"
            )
        quotes, charges = [], []
        loss = stored_losses.tabulated(request.loss)
        for place, cap in enumerate(dataset.caps):
            times = self._times(cap, request)
            charge = _charge(request.guarantee, loss, times, dataset.composition)
            books, (epsilon, delta) = dataset.books(place, self.part), (cap.guarantee.epsilon, cap.guarantee.delta)
            longer = [book.and_(charge) for book in books]
            fits = all(book.fits(epsilon, delta) for book in longer)
            before, after = accounting.worst(books, delta), accounting.worst(longer, delta)
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
        """The fingerprints of schema and source; refuses those of another dataset."""
        made = {
            "schema": self.ledger.fingerprint("schema", request.schema),
            "source": self.ledger.fingerprint("source", request.source),
        }
        _check_units(dataset, made["schema"])
        if dataset.sources and (made["schema"], made["source"]) not in dataset.sources:
            raise LedgerError(
                f"{self.name!r} was released from another file or with another schema before: if these data belong "
                "to it, say so with `sfumato ledger admit` (Ledger.admit); if not, enter a dataset of its own"
            )
        others = {e.dataset for e in entries if e.body.get("source") == made["source"]} - {self.name}
        if not dataset.sources and others and not request.source.startswith("memory"):
            raise LedgerError(
                f"this file is accounted for as {min(others)!r} already: charge it there or, if it holds other "
                f"people's data now, say with `sfumato ledger admit` that it belongs to {self.name!r}"
            )
        return made

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
        """The largest epsilon that the same release could have with more noise, rounded down."""
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

        share = accounting.largest_epsilon(smaller, 1.0)
        if share == 0:
            return 0.0
        found = least_epsilon(request.loss_at(1 / share), delta)
        nearby = accounting.round_number(found, found * (1 + 1 / 400))
        if nearby is not None:
            level = least_level(request.loss_at, nearby, delta, start=1 / share)
            if fits(request.loss_at(level), nearby):
                return nearby
        return accounting.rounded_down(found)


@dataclass(frozen=True, slots=True)
class Reservation:
    """Budget that is spent, for one release. ``draw`` before the first random word, ``commit`` when it is written."""

    ledger: Ledger
    name: str
    number: int
    hash: str
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)
    _drawn: list[bool] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def drawn(self) -> bool:
        """Whether something may have been drawn."""
        return bool(self._drawn)

    def draw(self) -> None:
        """Say, durably and once, that randomness is about to be drawn; refused if the reservation was voided."""
        with self._lock:
            if not self._drawn:
                self.ledger._mark(self.number, "draw", {}, self.hash)
                self._drawn.append(True)

    def ready(self) -> None:
        """Refuse to go on if this cannot be committed: the ledger must still have it, as drawn."""
        self.draw()
        state = self.state()
        if state != "drawn":
            became = "is not in it any more" if state is None else f"is {state}"
            raise LedgerError(f"{self.ledger.journal.name} cannot record a release: reservation {self.number} {became}")

    def commit(self, manifest: Mapping[str, object]) -> None:
        """Record the digest of what was released."""
        self.draw()
        self.ledger._mark(self.number, "commit", {"digest": manifest["digest"]}, self.hash)

    def void(self, reason: str) -> None:
        """Give it back; refused once it is drawn, as ``Ledger.void`` is."""
        self.ledger._mark(self.number, "void", {"reason": reason}, self.hash)

    def state(self) -> str | None:
        """What the ledger says of it now: reserved, drawn, committed or void; None if the ledger has lost it."""
        entries = self.ledger.journal.entries()
        found = _reserved(entries, self.number, self.hash)
        return None if found is None else self.ledger._state(entries, found)


def _reserved(entries: list["Entry"], number: int, hash_: str | None) -> "Entry | None":
    """The reservation of a number and, where it is given, of a hash."""
    found = next((e for e in entries if (e.number, e.kind) == (number, "reserve")), None)
    return None if found is None or hash_ not in (None, found.hash) else found


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


def _total_json(total: Total) -> dict[str, Any]:
    return {"epsilon": None if total.epsilon == math.inf else total.epsilon, "bound": total.bound}


def _cap_json(cap: Cap) -> dict[str, Any]:
    return {"guarantee": cap.guarantee.to_dict(), "attributes": cap.attributes}


def _check_units(dataset: Dataset, schema: str) -> None:
    """A radius is in the weighted units of a schema, so a cap with one is for that schema alone."""
    balls = any(cap.guarantee.allowed_change.radius is not None for cap in dataset.caps)
    known = {first for first, _ in dataset.sources}
    if balls and known and schema not in known:
        raise LedgerError(
            f"the cap of {dataset.name!r} has a radius in the units of the schema it was first used with: "
            "another schema needs a dataset of its own"
        )


def _check_text(text: object, what: str) -> None:
    if not isinstance(text, str) or not text.strip() or len(text) > 200 or not text.isprintable():
        raise LedgerError(f"{what} has 1 to 200 printable characters")


def schema_text(fields: dict[str, Any] | None) -> str:
    """A schema as a text to fingerprint."""
    return json.dumps(fields, sort_keys=True)
