"""Pipelines that are broken on purpose: the judge must find each of them out, or it judges nothing."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sfumato.errors import LedgerError
from sfumato.fileformat import writer
from sfumato.ledger import account, reservation
from sfumato.ledger.account import Account
from sfumato.ledger.reservation import Reservation


def draws_unrecorded() -> None:
    """The ledger hears of a draw when all is written."""
    draw, commit = Reservation.draw, Reservation.commit

    def late(self: Reservation, manifest: Any) -> None:
        draw(self)
        commit(self, manifest)

    Reservation.draw = lambda _: None
    Reservation.commit = late


def commits_first() -> None:
    """A release is committed before its folder has its name."""
    reserve, finish, commit = Account.reserve, writer.finish, Reservation.commit
    made: list[Reservation] = []

    def reserved(self: Account, request: Any) -> Reservation:
        made.append(reserve(self, request))
        return made[-1]

    def finished(*given: Any) -> Any:
        manifest = finish(*given)
        commit(made[-1], manifest)
        return manifest

    Account.reserve, writer.finish = reserved, finished
    Reservation.commit = lambda *_: None
    Reservation.ready = lambda _: None  # it would find out that this cannot be committed any more


def writes_in_place() -> None:
    """A folder has its name from the beginning."""

    @contextmanager
    def folder(path: Path, *_: Any) -> Iterator[Path]:
        path.mkdir()
        yield path

    writer.new_folder = folder


def reserves_again() -> None:
    """Whoever hears that a reservation failed tries once more."""
    reserve = Account.reserve

    def stubborn(self: Account, request: Any) -> Reservation:
        try:
            return reserve(self, request)
        except LedgerError:
            return reserve(self, request)

    Account.reserve = stubborn


def goes_by_number() -> None:
    """A reservation is known by its number alone, which another has in a ledger that was rolled back."""
    mark = reservation.mark
    reservation.mark = lambda journal, number, kind, body, _=None: mark(journal, number, kind, body)


def looks_once() -> None:
    """What others spend between the price and the entry is not seen."""
    account._unmoved = lambda *_: lambda _: None


TWINS: dict[str, Callable[[], None]] = {
    twin.__name__.replace("_", "-"): twin
    for twin in (draws_unrecorded, commits_first, writes_in_place, reserves_again, goes_by_number, looks_once)
}
