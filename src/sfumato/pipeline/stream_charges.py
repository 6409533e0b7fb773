"""What a stream is charged, and what its ledger knows of it: the horizon, its extensions, and the files of periods.

The policy is that of ``charging``. A stream has no file of data when it is charged, so making it ties it to the dataset
by its own identity; every file that is appended is admitted to the dataset afterwards, under a mark that says which
period of the stream it was, and which draw. So a file that another dataset accounts for is refused, a release of an
appended file is charged to the right budget, an older copy of the stream's file, put back by somebody, is recognised
before it could draw for a period a second time, and of two copies that drew at once only one is published.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from sfumato import untrusted
from sfumato.errors import LedgerError, ParameterError, StreamError
from sfumato.ledger.account import Account
from sfumato.ledger.ledger import Ledger, schema_text
from sfumato.ledger.reservation import Reservation, mark
from sfumato.ledger.sources import Origin
from sfumato.ledger.state import Price, Request, Standing
from sfumato.pipeline.charging import charged
from sfumato.pipeline.release import FROM_BOUNDS, Budget
from sfumato.privacy.calibration import least_epsilon
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Gaussian
from sfumato.streams.description import Entered, StreamDescription
from sfumato.streams.store import StreamStore, Transaction

MECHANISM, EXTENSION = "Stream", "Stream extension"


@dataclass(frozen=True, slots=True)
class StreamCharges:
    """The account of a stream in its ledger."""

    account: Account

    @classmethod
    def of(cls, about: StreamDescription, ledger: Budget) -> "StreamCharges | None":
        """The account that a stream is charged to, in its ledger or where that is now; None if it has none."""
        if about.ledger is None:
            if ledger is not None:
                raise ParameterError("this stream was made without a ledger: make a new one to charge it")
            return None
        where, dataset = about.ledger
        if isinstance(ledger, Account):
            if ledger.name != dataset or ledger.part is not None:
                raise ParameterError(
                    f"this stream is charged to the whole dataset {dataset!r}: give an account of that"
                )
            return cls(ledger)
        if ledger is None and where is None:
            raise LedgerError("this stream is charged to a ledger that is not a file: name it with --ledger (ledger=)")
        found = ledger if isinstance(ledger, Ledger) else Ledger(str(where if ledger is None else ledger))
        file = found.journal.file
        if file is not None and not file.exists():
            asked = "" if str(file) == where else f"there is no ledger at {file}; "
            raise LedgerError(f"{asked}{_gone(where)}")
        if dataset not in found.journal.folded().datasets:
            raise LedgerError(f"{found.journal.name} has no dataset {untrusted.line(dataset)!r}; {_gone(where)}")
        return cls(found.account(dataset))

    @classmethod
    def opened(cls, account: Account, store: StreamStore, about: StreamDescription) -> "StreamCharges":
        """Charge the whole horizon of a new stream, and make its file; what fails before that is given back."""
        if account.part is not None:
            raise ParameterError("a stream is of a whole dataset, and not of a part of it: leave --part out")
        own = cls(account)
        loss = about.measuring.whole(about.scale, about.horizon)
        request = own._request(about, loss, about.guarantee, about.horizon)
        account.check_room(request)
        account.admit(schema_text(about.schema.to_dict()), _own(about))
        with charged(account, request) as reservation:
            place = None if account.journal.file is None else str(account.journal.file)
            entry = Entered(reservation.number, reservation.hash, about.horizon)
            made = replace(about, ledger=(place, account.name), entries=(entry,))
            store.make(made)
        own.settle(made)
        return own

    def _request(self, about: StreamDescription, loss: Gaussian, guarantee: Guarantee, horizon: int) -> Request:
        return Request(
            MECHANISM if horizon == about.horizon else EXTENSION,
            guarantee,
            loss,
            lambda times: Gaussian(loss.sensitivity, loss.scale * times),
            about.schema.encoding.values,
            schema_text(about.schema.to_dict()),
            replace(_own(about), place=f"stream {about.name} from {about.horizon} to {horizon}"),
            (FROM_BOUNDS,) if about.schema.bounds_from_data else (),
        )

    def settle(self, about: StreamDescription) -> None:
        """Finish what was charged for a stream: every entry becomes drawn and committed, or the stream is refused.

        Guarantee: noise is drawn for a period only after this.
        """
        journal = self.account.journal
        for entry in about.entries:
            one = Reservation(journal, self.account.name, entry.number, entry.hash)
            state = one.state()
            if state == "reserved":
                mark(journal, entry.number, "draw", {}, entry.hash)
                state = "drawn"
            if state == "drawn":
                mark(journal, entry.number, "commit", {"digest": about.digest}, entry.hash)
            elif state != "committed":
                became = "has no such entry" if state is None else f"has voided entry {entry.number}"
                raise LedgerError(
                    f"{journal.name} {became}, which this stream was charged to: it is not charged, so nothing is "
                    "drawn; say where its own ledger is with --ledger, a new one will not do"
                )

    @contextmanager
    def extended(self, about: StreamDescription, horizon: int) -> Iterator[Entered | None]:
        """Charge the extra of a longer horizon, before the stream has it; None if it costs nothing.

        A reservation for the same that a killed process has left is used, so that nothing is spent twice.
        """
        request = self._extension(about, horizon)
        if request is None:
            yield None
            return
        left = self._left(request)
        if left is not None:
            yield self._drawn(left, horizon)
            return
        with charged(self.account, request) as reservation:
            yield self._drawn(Entered(reservation.number, reservation.hash, horizon), horizon)

    def _extension(self, about: StreamDescription, horizon: int) -> Request | None:
        """What a ledger is asked for the extra of a longer horizon; None if it costs nothing."""
        loss = about.measuring.more(about.scale, about.horizon, horizon)
        if loss is None:
            return None
        promise = replace(about.measuring.guarantee, epsilon=least_epsilon(loss, about.measuring.guarantee.delta))
        return self._request(about, loss, promise, horizon)

    # ---- what it would cost ----

    def price_to_open(self, about: StreamDescription) -> Price:
        """What the whole horizon of a new stream would cost, cap by cap; nothing is written."""
        loss = about.measuring.whole(about.scale, about.horizon)
        return self.account.quoted(self._request(about, loss, about.guarantee, about.horizon))

    def price_to_extend(self, about: StreamDescription, horizon: int) -> Price | None:
        """What a longer horizon of a stream would cost, cap by cap; None if it costs nothing. Nothing is written."""
        request = self._extension(about, horizon)
        return None if request is None else self.account.quoted(request)

    def _drawn(self, entry: Entered, horizon: int) -> Entered:
        one = Reservation(self.account.journal, self.account.name, entry.number, entry.hash)
        if one.state() == "reserved":
            mark(self.account.journal, entry.number, "draw", {}, entry.hash)
        return replace(entry, horizon=horizon)

    def _left(self, request: Request) -> Entered | None:
        """A reservation for the same request that nobody has finished."""
        place = request.source.kept(self.account.journal.fingerprint).place
        pending = self.account.dataset.pending.items()
        found = [Entered(number, one.hash, 0) for number, one in pending if one.source == place]
        return found[0] if found else None

    # ---- the files of periods ----

    def check_new(self, about: StreamDescription, number: int, origins: Sequence[Origin]) -> None:
        """Refuse, before a period of a stream is read, files of another dataset, and an old copy of the stream."""
        journal = self.account.journal
        folded = journal.folded()
        own = folded.standing(self.account.name, journal.name)
        if own.schemas_of(Origin(_mark(about, number)).kept(journal.fingerprint)):
            raise StreamError(
                f"the ledger knows of a period {number} of this stream already: this is an older copy of its file, and "
                "to append to it would draw a second time for a period; put the newest one back"
            )
        for origin in origins:
            kept = origin.kept(journal.fingerprint)
            others = [d.name for d in folded.datasets.values() if d.name != own.name and d.schemas_of(kept)]
            if others and not own.schemas_of(kept) and not origin.in_memory:
                raise LedgerError(
                    f"this file is already accounted for as {min(others)!r}: append it to a stream of that dataset or, "
                    f"if it now holds other people's data, assign it to {own.name!r} with `sfumato ledger admit`"
                )

    def tell(self, about: StreamDescription, stream: Transaction) -> None:
        """Admit the files of periods that were stored to the stream's dataset, on record, once each.

        Guarantee: a ledger knows one draw of a period. One that another copy of the stream's file has made is refused,
        and what is not told is never published (``Stream``): so no two draws of a period are seen.
        """
        text = schema_text(about.schema.to_dict())
        for period in stream.untold():
            try:
                place, marks, links = json.loads(period.origin or "[]")
                drawn = f"{_mark(about, period.number)} drawn {stream.fingerprint(period.number)}"
                marks = (*map(str, marks), _mark(about, period.number), drawn)
                origin = Origin(str(place), marks, tuple(map(str, links)))
            except (ValueError, TypeError):
                raise stream.damaged() from None
            self._tell_one(about, text, period.number, origin, drawn)
            stream.told(period.number)

    def _tell_one(self, about: StreamDescription, text: str, number: int, origin: Origin, drawn: str) -> None:
        """Admit a period to the dataset of the stream unless it is there; refused if another draw of it is."""
        fingerprint = self.account.journal.fingerprint
        period, own = (Origin(mark).kept(fingerprint) for mark in (_mark(about, number), drawn))

        def absent(standing: Standing) -> None:
            if standing.schemas_of(own):
                raise _Told
            if standing.schemas_of(period):
                raise StreamError(
                    f"the ledger knows of another draw for period {number} of this stream, made in another copy of its "
                    "file: go on with that copy, and publish nothing of this one"
                )

        with suppress(_Told):
            self.account.admit(text, origin, absent)


def _gone(where: str | None) -> str:
    """What to do about the ledger of a stream that is not where it was."""
    place = "another one" if where is None else untrusted.line(where)
    what = ", which is gone: put it back, or say" if where is not None and not Path(where).exists() else ": say"
    return f"this stream was charged to {place}{what} where it is with --ledger; a new ledger will not do"


class _Told(Exception):  # noqa: N818 - no error, there is nothing to do
    """A ledger knows this draw of a stream's period."""


def _own(about: StreamDescription) -> Origin:
    """A stream as a source of data: known by itself, before there are any files."""
    return Origin(f"stream {about.name}", (f"stream {about.name} itself",))


def _mark(about: StreamDescription, number: int) -> str:
    return f"stream {about.name} period {number}"
