"""What the entries of a ledger say: datasets, their caps, and every release that was charged to them."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sfumato.errors import LedgerError
from sfumato.privacy import stored_losses
from sfumato.privacy.composition import Book, Charge, Composition, TotalEpsilon, largest_epsilon, worst
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Loss, Pure
from sfumato.privacy.units import Cap

if TYPE_CHECKING:
    from sfumato.ledger.journal import Entry


@dataclass(frozen=True, slots=True)
class Request:
    """A release as a ledger sees it: nothing here was read off a cell.

    loss            : what it will cost, for ``guarantee.epsilon`` at ``guarantee.delta``.
    loss_at         : the loss of the same release at so many times its level, to say what would still fit.
    columns         : how many values a record has.
    schema, source  : what the data are and where they come from; kept as keyed fingerprints only.
    outside         : what of it is outside its guarantee, in words.
    """

    mechanism: str
    guarantee: Guarantee
    loss: Loss
    loss_at: Callable[[float], Loss]
    columns: int
    schema: str
    source: str
    outside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Spent:
    """One reservation and what became of it: reserved, drawn, committed or void."""

    number: int
    at: str
    mechanism: str
    guarantee: Guarantee
    part: str | None
    charges: tuple[Charge, ...]
    totals: tuple[TotalEpsilon, ...]
    outside: tuple[str, ...] = ()
    state: str = "reserved"
    note: str = ""


@dataclass(frozen=True, slots=True)
class Dataset:
    """What the entries of a ledger say about one dataset."""

    name: str
    composition: Composition
    parts_by: str | None
    caps: tuple[Cap, ...]
    sources: frozenset[tuple[str, str]] = frozenset()
    releases: tuple[Spent, ...] = ()

    def spent(self, cap: int, part: str | None = None) -> Book:
        """What was spent of a cap: by releases of the whole and, if a part is named, of that part."""
        counted = (s for s in self.releases if s.state != "void" and s.part in (None, part))
        return Book((s.charges[cap] for s in counted), self.composition)

    def books(self, cap: int, part: str | None = None) -> list[Book]:
        """The books that a release of a part adds to, or one of the whole: a unit is in one part only."""
        found = {s.part for s in self.releases if s.state != "void" and s.part is not None}
        parts: list[str | None] = [part] if part is not None else [*sorted(found)] or [None]
        return [self.spent(cap, p) for p in parts]

    def total(self, cap: int) -> TotalEpsilon:
        """What was spent of a cap in the part that spent most."""
        return worst(self.books(cap), self.caps[cap].guarantee.delta)

    def remaining(self, cap: int) -> float:
        """The largest epsilon that one more pure release of the whole could have, rounded down."""
        promise, books = self.caps[cap].guarantee, self.books(cap)

        def room(epsilon: float) -> bool:
            charge = Charge.of(epsilon, 0.0, Pure(epsilon))
            charge = charge.majorised() if self.composition == "gaussian" else charge
            return all(book.and_(charge).fits(promise.epsilon, promise.delta) for book in books)

        return promise.epsilon if room(promise.epsilon) else largest_epsilon(room, promise.epsilon)

    def remaining_under_every_cap(self) -> float:
        """The largest epsilon that one more pure release of the whole could have under every cap, rounded down."""
        return min(self.remaining(place) for place in range(len(self.caps)))


@dataclass(frozen=True, slots=True)
class Quote:
    """What a release would cost of one cap: the epsilon spent before and after, at the cap's delta."""

    cap: Cap
    before: TotalEpsilon
    after: TotalEpsilon
    fits: bool
    times: int


def read_dataset(name: str, entries: Iterable["Entry"], where: str) -> Dataset:
    """The state of a dataset, read from the entries of a ledger: caps, sources and releases."""
    dataset: Dataset | None = None
    for entry in entries:
        if entry.dataset == name:
            try:
                dataset = _told(dataset, entry)
            except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
                if isinstance(error, LedgerError):
                    raise
                raise LedgerError(f"{where}: entry {entry.number} cannot be read; nothing was released") from None
    if dataset is None:
        raise LedgerError(f"{where} has no dataset {name!r}: enter it with `sfumato ledger init`")
    return dataset


def _told(dataset: Dataset | None, entry: "Entry") -> Dataset:
    body = entry.body
    if entry.kind == "dataset":
        return Dataset(entry.dataset, body["composition"], body["parts_by"], (_cap(body),))
    if dataset is None:
        raise ValueError
    if entry.kind == "cap":
        cap = _cap(body)
        places = [i for i, old in enumerate(dataset.caps) if old.key == cap.key]
        caps = [cap if i in places else old for i, old in enumerate(dataset.caps)] + ([] if places else [cap])
        return replace(dataset, caps=tuple(caps))
    if entry.kind == "admit":
        return replace(dataset, sources=dataset.sources | {(body["schema"], body["source"])})
    if entry.kind == "reserve":
        sources = dataset.sources | {(body["schema"], body["source"])}
        return replace(dataset, sources=sources, releases=(*dataset.releases, _spent(entry)))
    return replace(dataset, releases=tuple(_followed(s, entry) for s in dataset.releases))


def _cap(body: dict[str, Any]) -> Cap:
    return Cap(Guarantee.from_dict(body["guarantee"]), body["attributes"])


def _spent(entry: "Entry") -> Spent:
    body = entry.body
    guarantee, loss = Guarantee.from_dict(body["guarantee"]), stored_losses.from_json(body["loss"])
    charges = [
        replace(
            Charge.of(guarantee.epsilon, guarantee.delta, loss, c["times"]),
            mu=c.get("mu", math.inf),
            tail=c.get("tail", 0.0),
        )
        for c in body["charges"]
    ]
    totals = [TotalEpsilon(math.inf if t["epsilon"] is None else t["epsilon"], t["bound"]) for t in body["spent"]]
    facts = entry.number, entry.at, body["mechanism"], guarantee, body["part"]
    return Spent(*facts, tuple(charges), tuple(totals), tuple(body["outside"]))


def _followed(spent: Spent, entry: "Entry") -> Spent:
    """The state of a charged release after a later entry of the ledger about it: drawn, committed or void."""
    if entry.body["reservation"] != spent.number:
        return spent
    before, state = STEPS[entry.kind]
    if spent.state != before:
        raise LedgerError(
            f"entry {entry.number} of the ledger makes {state} what is {spent.state}: it was tampered with"
        )
    return replace(spent, state=state, note=entry.body.get("digest", entry.body.get("reason", "")))


STEPS = {"draw": ("reserved", "drawn"), "commit": ("drawn", "committed"), "void": ("reserved", "void")}


def protects(cap: Cap) -> tuple[object, ...]:
    """What a cap of a ledger's dataset protects, whatever its epsilon and delta."""
    promise = cap.guarantee
    return promise.unit, promise.neighbours, promise.change, promise.group, cap.attributes
