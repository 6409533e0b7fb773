"""What a ledger says of a dataset: its caps, what was spent of them, and every release that was charged to it."""

import functools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from sfumato.errors import LedgerError
from sfumato.in_notebooks import InNotebooks
from sfumato.ledger.entries import canonical
from sfumato.ledger.sources import FingerprintedOrigin, Origin
from sfumato.privacy import stored_losses
from sfumato.privacy.cap_shares import CapShares
from sfumato.privacy.composition import (
    Book,
    Charge,
    ChargeBook,
    Composition,
    Share,
    TotalEpsilon,
    largest_epsilon,
    worst,
)
from sfumato.privacy.filters import DividedBook, placed, remaining
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Loss, Pure
from sfumato.privacy.programme import Programme
from sfumato.privacy.units import Cap

if TYPE_CHECKING:
    from sfumato.ledger.entries import Entry

STEPS = {"draw": ("reserved", "drawn"), "commit": ("drawn", "committed"), "void": ("reserved", "void")}


@dataclass(frozen=True, slots=True)
class Request:
    """A release as a ledger sees it: nothing here was read off a cell, but for the digest of a file in ``source``.

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
    source: Origin
    outside: tuple[str, ...] = ()


def cost_of(body: dict[str, Any]) -> str:
    """What a reservation costs of each cap, as a text: equal for equal costs, which are then read and composed once."""
    return canonical({name: body[name] for name in ("guarantee", "loss", "charges")})


@functools.lru_cache(maxsize=1 << 16)
def charges_of(cost: str) -> tuple[Charge, ...]:
    """What to compose for each cap, in the order of caps; refuses what it cannot read."""
    body = json.loads(cost)
    try:
        guarantee, loss = Guarantee.from_dict(body["guarantee"]), stored_losses.from_json(body["loss"])
        return tuple(
            _charge(Charge.of(guarantee.epsilon, guarantee.delta, loss, c["times"]), c) for c in body["charges"]
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, LedgerError):
            raise
        raise LedgerError("a charge in the ledger is not of a form that this version of sfumato knows") from None


def _charge(charge: Charge, told: dict[str, Any]) -> Charge:
    """A charge with what an entry tells of it: majorant, share, and its epsilon if it does without a delta."""
    if "epsilon" in told:
        charge = replace(charge, epsilon=float(told["epsilon"]), delta=0.0)
    return replace(charge, mu=told.get("mu", math.inf), tail=told.get("tail", 0.0), share=told.get("share"))


@functools.lru_cache(maxsize=1 << 16)
def _shares_of(cost: str, cap: int) -> CapShares | None:
    """The shares of a cap under which a reservation was made, if the cap was divided."""
    told = json.loads(cost)["charges"][cap].get("shares")
    return None if told is None else CapShares.from_json(told)


@functools.lru_cache(maxsize=64)
def _programme_of(text: str) -> Programme:
    return Programme.from_json(json.loads(text))


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

    @classmethod
    def of(cls, entry: "Entry") -> Self:
        """The reservation that an entry makes."""
        body = entry.body
        totals = [TotalEpsilon(math.inf if t["epsilon"] is None else t["epsilon"], t["bound"]) for t in body["spent"]]
        facts = entry.number, entry.at, body["mechanism"], Guarantee.from_dict(body["guarantee"]), body["part"]
        return cls(*facts, charges_of(cost_of(body)), tuple(totals), tuple(body["outside"]))

    def followed(self, entry: "Entry") -> "Spent":
        """The reservation after a step of it: drawn, committed or void."""
        note = entry.body.get("digest", entry.body.get("reason", ""))
        return replace(self, state=STEPS[entry.kind][1], note=note)


@dataclass(frozen=True, slots=True)
class Pending:
    """A reservation that is neither committed nor void: what its next step needs, and what a void gives back."""

    state: str
    hash: str
    cost: str
    part: str | None
    schema: str
    source: str
    learner: bool


@dataclass(slots=True)
class Standing(InNotebooks):
    """How a dataset stands: its caps, what was spent of them, and what its next release must agree with.

    A value: nothing changes it but ``folding``, which works on copies of its own.

    declared : the entry that made the dataset: composition, parts_by.
    costs    : for each part (None: of the whole) how many reservations there are of each cost, those that are void
               left out. Time goes by kinds of costs, not by reservations.
    sources  : how many reservations, and admissions, tie the dataset to a (schema, source), as fingerprints.
    marks    : what else each of these sources is recognised by, as fingerprints.
    learned  : entries under which a schema was, or may have been, learned.
    made     : how many reservations there ever were.
    moved    : hash of the last entry that changed what is spent, or may be.
    """

    name: str
    declared: dict[str, Any]
    caps: tuple[Cap, ...]
    costs: dict[str | None, Counter[str]] = field(default_factory=dict)
    sources: Counter[tuple[str, str]] = field(default_factory=Counter)
    marks: dict[str, set[str]] = field(default_factory=dict)
    pending: dict[int, Pending] = field(default_factory=dict)
    learned: set[int] = field(default_factory=set)
    made: int = 0
    moved: str = ""

    @property
    def composition(self) -> Composition:
        """How the dataset's releases add up."""
        found: Composition = self.declared["composition"]
        return found

    @property
    def parts_by(self) -> str | None:
        """The public column by which the dataset has parts, if it has any."""
        found: str | None = self.declared["parts_by"]
        return found

    def schemas_of(self, origin: FingerprintedOrigin) -> set[str]:
        """The schemas, as fingerprints, under which the dataset has a source that is, or may be, this one."""
        return {
            schema
            for schema, source in self.sources
            if source in origin.sought or not origin.sought.isdisjoint(self.marks.get(source, ()))
        }

    @property
    def programme(self) -> Programme | None:
        """The releases that were declared with the dataset, if any were."""
        told = self.declared.get("programme")
        return None if told is None else _programme_of(canonical(told))

    @property
    def divided(self) -> bool:
        """Whether the shares of the dataset's first cap were declared with it."""
        return "shares" in self.declared

    def shares(self, cap: int) -> CapShares | None:
        """How a cap is divided: as declared, or by its first reservation; None if there is none, or all are void."""
        if cap == 0 and self.divided:
            return CapShares.from_json(self.declared["shares"])
        found = {_shares_of(cost, cap) for costs in self.costs.values() for cost in costs}
        if len(found) > 1:
            raise LedgerError(
                f"reservations of {self.name!r} do not agree on the shares of its cap: it was tampered with"
            )
        return next(iter(found), None)

    def spent(self, cap: int, part: str | None = None) -> Book | DividedBook:
        """What was spent of a cap: by releases of the whole and, if a part is named, of that part."""
        counts = Counter[Charge]()
        for each in {None, part}:
            for cost, number in self.costs.get(each, {}).items():
                counts[charges_of(cost)[cap]] += number
        if self.composition == "filter":
            return DividedBook(counts, self.shares(cap), self.programme)
        return Book(counts, self.composition)

    def books(self, cap: int, part: str | None = None) -> list[Book | DividedBook]:
        """The books that a release of a part adds to, or one of the whole: a unit is in one part only."""
        found = sorted(each for each in self.costs if each is not None)
        parts: list[str | None] = [part] if part is not None else [*found] or [None]
        return [self.spent(cap, p) for p in parts]

    def placed(
        self, cap: int, books: Sequence[Book | DividedBook], charge: Charge, mechanism: str
    ) -> tuple[Charge, Sequence[ChargeBook]]:
        """A charge to a cap as it is composed, and the books that it adds to.

        Under a filter it has the share that it goes to, and the books have the shares that it fixes if it is the first.
        """
        divided = [book for book in books if isinstance(book, DividedBook)]
        if divided:
            promise = self.caps[cap].guarantee
            return placed(divided, charge, (promise.epsilon, promise.delta), mechanism)
        return charge.majorised() if self.composition == "gaussian" else charge, books

    def total(self, cap: int) -> TotalEpsilon:
        """What was spent of a cap in the part that spent most."""
        return worst(self.books(cap), self.caps[cap].guarantee.delta)

    def remaining(self, cap: int) -> float:
        """The largest epsilon that one more pure release of the whole could have, rounded down."""
        promise, books = self.caps[cap].guarantee, self.books(cap)
        divided = [book for book in books if isinstance(book, DividedBook)]
        if divided:
            return remaining(divided, (promise.epsilon, promise.delta))

        def room(epsilon: float) -> bool:
            charge, _ = self.placed(cap, books, Charge.of(epsilon, 0.0, Pure(epsilon)), "")
            return all(book.and_(charge).fits(promise.epsilon, promise.delta) for book in books)

        return promise.epsilon if room(promise.epsilon) else largest_epsilon(room, promise.epsilon)

    def remaining_under_every_cap(self) -> float:
        """The largest epsilon that one more pure release of the whole could have under every cap, rounded down."""
        return min(self.remaining(place) for place in range(len(self.caps)))


@dataclass(slots=True)
class Dataset(Standing):
    """How a dataset stands, with all its releases, those that are void among them."""

    releases: tuple[Spent, ...] = ()


@dataclass(frozen=True, slots=True)
class Quote(InNotebooks):
    """What a release would cost of one cap: the epsilon spent before and after, at the cap's delta.

    share, shares : where a filter charges it, and how the cap is divided, or will be if this is the first release.
    """

    cap: Cap
    before: TotalEpsilon
    after: TotalEpsilon
    fits: bool
    times: int
    share: Share | None = None
    shares: CapShares | None = None


class Price(list[Quote], InNotebooks):
    """What a release would cost, cap by cap: a list of quotes that can be printed, and shown in a notebook."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\n".join(
            f"Cap: {quote.cap.describe()}. Spent: epsilon {quote.before.epsilon:.4g}. After this release: epsilon "
            f"{quote.after.epsilon:.4g}. {'Within the cap.' if quote.fits else 'It does not fit.'}"
            for quote in self
        )


def releases_of(entries: Iterable["Entry"]) -> dict[str, tuple[Spent, ...]]:
    """All releases of each dataset, from entries that were folded, so that each step is one that could follow."""
    found: dict[str, dict[int, Spent]] = {}
    for entry in entries:
        told = found.setdefault(entry.dataset, {})
        if entry.kind == "reserve":
            told[entry.number] = Spent.of(entry)
        elif entry.kind in STEPS:
            number = entry.body["reservation"]
            told[number] = told[number].followed(entry)
    return {name: tuple(told.values()) for name, told in found.items()}


def cap_of(body: dict[str, Any]) -> Cap:
    """The cap that an entry sets."""
    return Cap(Guarantee.from_dict(body["guarantee"]), body["attributes"])


def cap_json(cap: Cap) -> dict[str, Any]:
    """A cap as an entry sets it."""
    return {"guarantee": cap.guarantee.to_dict(), "attributes": cap.attributes}


def protects(cap: Cap) -> tuple[object, ...]:
    """What a cap of a ledger's dataset protects, whatever its epsilon and delta."""
    promise = cap.guarantee
    return promise.unit, promise.neighbours, promise.change, promise.group, cap.attributes
