"""Reservations: budget that is spent for one release, and the steps after it: draw, commit or void.

A reservation is spent from the moment it is entered. ``draw`` is written before the first random word of a release is
drawn, and only a reservation without it, which can then never be drawn, may be voided.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sfumato.errors import LedgerError
from sfumato.ledger.state import STEPS, read_dataset

if TYPE_CHECKING:
    from sfumato.ledger.journal import Entry, Journal

_PAST = {"void": "voided", "draw": "drawn from", "commit": "committed"}


@dataclass(frozen=True, slots=True)
class Reservation:
    """Budget that is spent, for one release. ``draw`` before the first random word, ``commit`` when it is written."""

    journal: "Journal" = field(repr=False)
    name: str
    number: int
    hash: str
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)
    _drawn: list[bool] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def drawn(self) -> bool:
        """Whether noise may have been drawn under this reservation."""
        return bool(self._drawn)

    def draw(self) -> None:
        """Say, durably and once, that randomness is about to be drawn; refused if the reservation was voided."""
        with self._lock:
            if not self._drawn:
                mark(self.journal, self.number, "draw", {}, self.hash)
                self._drawn.append(True)

    def ready(self) -> None:
        """Refuse to go on if the reservation cannot be committed: the ledger must still have it, as drawn."""
        self.draw()
        state = self.state()
        if state != "drawn":
            became = "is not in it any more" if state is None else f"is {state}"
            raise LedgerError(f"{self.journal.name} cannot record a release: reservation {self.number} {became}")

    def commit(self, manifest: Mapping[str, object]) -> None:
        """Record the digest of what was released."""
        self.draw()
        mark(self.journal, self.number, "commit", {"digest": manifest["digest"]}, self.hash)

    def void(self, reason: str) -> None:
        """Give the reserved budget back; refused once it is drawn, as ``Ledger.void`` is."""
        mark(self.journal, self.number, "void", {"reason": reason}, self.hash)

    def state(self) -> str | None:
        """The state in the ledger now: reserved, drawn, committed or void; None if the ledger has lost it."""
        entries = self.journal.entries()
        found = _reserved(entries, self.number, self.hash)
        return None if found is None else _state(self.journal, entries, found)


def mark(journal: "Journal", number: int, kind: str, body: dict[str, Any], hash_: str | None = None) -> None:
    """Write the next step of a reservation, known by its number and, to its own process, by its hash."""
    found = _reserved(journal.entries(), number, hash_)
    if found is None:
        raise LedgerError(f"{journal.name} has no such reservation {number}")
    name = found.dataset

    def possible(entries: list["Entry"]) -> None:
        if found not in entries:
            raise LedgerError(f"{journal.name} lost reservation {number} meanwhile")
        state = _state(journal, entries, found)
        if state != STEPS[kind][0]:
            raise LedgerError(f"reservation {number} of {name!r} is {state}, so it cannot be {_PAST[kind]}")

    journal.append(name, kind, {"reservation": number} | body, possible)


def _state(journal: "Journal", entries: list["Entry"], reserved: "Entry") -> str:
    releases = read_dataset(reserved.dataset, entries, journal.name).releases
    return next(s.state for s in releases if s.number == reserved.number)


def _reserved(entries: list["Entry"], number: int, hash_: str | None) -> "Entry | None":
    """The entry that made a reservation of this number and, where it is given, this hash."""
    found = next((e for e in entries if (e.number, e.kind) == (number, "reserve")), None)
    return None if found is None or hash_ not in (None, found.hash) else found
