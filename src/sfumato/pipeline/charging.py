"""One policy of spending, for releases, answers and sessions alike: reserve, and give back what was not drawn from.

A reservation is spent before a row is read. Whatever ends the work before its first random word, a refusal, an error or
an interrupt, voids it, on record; whatever ends it later leaves it spent. The ledger decides, not this process: it
voids what was never drawn and draws from nothing that is void, so a draw that another thread is about to make is either
seen here or refused there. A process that is killed outright voids nothing: its reservation stays, as reserved, and
``sfumato ledger void`` gives it back.

Voiding tells nothing of the data, on the assumption that they can be read. No error depends on what a cell says, and
the number of records, which "the data have no rows" depends on, is public wherever that can be said
(``neighbours="replace"``): what protects the number of records (``add-remove``) publishes noise about none as about any
other number, and never refuses for it.

Two exceptions. First, a ledger recognises a file by its size and its first and last bytes (``origins``), so whether a
copy is refused tells that it is one. Whoever can price a release by a ledger can test a guess of these bytes, and needs
no budget for it: a ledger is for its owner only. Second, whether a source can be read to its end. A CSV row of more
than 8 MiB, or with too few or too many fields, makes its file unreadable, and so does a single list of 2^31 bytes of
texts in a Parquet file. Such a refusal tells that the row is there, and is given back as any other. Keeping the charge
would not help: no budget covers an error that is certain for a table and impossible for its neighbour. Check the rows
of files that others can write to.
"""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sfumato.errors import LedgerError, SfumatoError
from sfumato.fileformat.manifest import Manifest
from sfumato.ledger.account import Account
from sfumato.ledger.reservation import Reservation
from sfumato.ledger.state import Request

_REASON = "it ended before anything was drawn"
_LOST = "as if an older copy, or another ledger, was put in its place"


@contextmanager
def charged(account: Account, request: Request) -> Iterator[Reservation]:
    """Charge before anything is read. What fails before the first draw is given back; an error says what became of it.

    Guarantee: what was drawn from stays spent, and what is given back can never be drawn from.
    """
    reservation = account.reserve(request)
    try:
        yield reservation
    except BaseException as error:
        became = _settled(reservation)
        if isinstance(error, SfumatoError):
            error.args = (f"{error}; {became}", *error.args[1:])
        else:
            error.add_note(became)
        raise


def record(reservation: Reservation, manifest: Manifest, path: str | Path) -> None:
    """Commit the charge of a release that is written; where that fails, the error says what is true of it."""
    try:
        reservation.commit(manifest)
    except LedgerError as error:
        raise LedgerError(f"the release is written, in {path}, {_standing(reservation, error)}") from None


def _settled(reservation: Reservation) -> str:
    """Give back the charge of work that has failed, if nothing was drawn; what became of it, in words."""
    which = f"reservation {reservation.number} of {reservation.name!r}"
    try:
        if not reservation.drawn and _voided(reservation):
            return "nothing was drawn, and nothing spent"
        state = reservation.state()
    except LedgerError:
        return f"{which} was made, and what became of it cannot be read now: see `sfumato ledger show` when it can"
    if state is None:
        return f"nothing was released, and the ledger has lost {which}, {_LOST}: nothing is charged"
    if state == "void":
        return "nothing was drawn, and nothing spent"
    if state == "reserved":
        void = f"sfumato ledger void {shlex.quote(reservation.journal.name)} {reservation.number} --reason TEXT"
        return f"{which} stays spent until it is voided (`{void}`)"
    return f"{which} stays spent, for noise may have been drawn: it cannot be voided"


def _voided(reservation: Reservation) -> bool:
    try:
        reservation.void(_REASON)
    except LedgerError:  # drawn after all, void or lost already, or a ledger that cannot be written to
        return False
    return True


def _standing(reservation: Reservation, error: LedgerError) -> str:
    """Words for the charge of a release that is written but could not be committed."""
    try:
        lost = reservation.state() is None
    except LedgerError:
        lost = False
    if lost:
        return (
            f"but is NOT charged: the ledger has lost reservation {reservation.number}, {_LOST}; "
            "put back the one that has it, or remove the release, and take it for seen"
        )
    return (
        f"and charged, but the ledger could not record that it is whole ({error}): "
        "run `sfumato ledger confirm` when it can"
    )
