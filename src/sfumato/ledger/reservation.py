"""Reservations: budget that is spent for one release, and the steps after it: draw, commit or void.

A reservation is spent from the moment it is entered. ``draw`` is written before the first random word of a release is
drawn, and only a reservation without it, which can then never be drawn, may be voided.
"""

import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sfumato.errors import LedgerError
from sfumato.ledger.state import STEPS

if TYPE_CHECKING:
    from sfumato.ledger.folding import Folded
    from sfumato.ledger.journal import Journal

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
        open_ = self.journal.folded().pending(self.number)
        if open_ is not None:
            return open_[1].state if open_[1].hash == self.hash else None
        closed = _closed(self.journal, self.number, self.hash)
        return None if closed is None else closed[1]


def mark(journal: "Journal", number: int, kind: str, body: dict[str, Any], hash_: str | None = None) -> None:
    """Write the next step of a reservation, known by its number and, to its own process, by its hash."""

    def possible(folded: "Folded") -> str | None:
        """The dataset of a reservation that can take the step; None if it has no further steps, or is not there."""
        found = folded.pending(number)
        if found is None or hash_ not in (None, found[1].hash):
            return None
        name, one = found
        if one.state != STEPS[kind][0]:
            raise LedgerError(_cannot(number, name, one.state, kind))
        return name

    def still(folded: "Folded") -> None:
        if possible(folded) is None:
            raise _Gone

    name = possible(journal.folded())
    with suppress(_Gone):
        if name is not None:
            journal.append(name, kind, {"reservation": number} | body, still)
            return
    closed = _closed(journal, number, hash_)
    if closed is None:
        raise LedgerError(f"{journal.name} has no such reservation {number}")
    raise LedgerError(_cannot(number, *closed, kind))


class _Gone(Exception):  # noqa: N818 - no error, a reason to look closer
    """A reservation is not among those that are open."""


def _cannot(number: int, name: str, state: str, kind: str) -> str:
    return f"reservation {number} of {name!r} is {state}, so it cannot be {_PAST[kind]}"


def _closed(journal: "Journal", number: int, hash_: str | None) -> tuple[str, str] | None:
    """The dataset and the state of a reservation that is committed or void; None if the ledger has none like it."""
    found = journal.about(number)
    if not found or found[0].kind != "reserve" or hash_ not in (None, found[0].hash):
        return None
    reserved, *steps = found
    return reserved.dataset, STEPS[steps[-1].kind][1] if steps else "reserved"
