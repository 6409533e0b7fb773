"""Work in the background that costs privacy: what was agreed on, how far it is, and how it can be stopped.

A job that makes a release goes through ``pipeline.release_to`` with the ledger, as on the command line. It can be
stopped where rows are read or written; its price stays spent once noise was drawn, is given back before that, and the
message says which.
"""

import contextlib
import fcntl
import os
import secrets
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from sfumato.engines.local import Announce, Ids, Local
from sfumato.errors import LedgerError, ParameterError, SfumatoError
from sfumato.fileformat.writer import Written
from sfumato.ledger.account import Account
from sfumato.ledger.reservation import Reservation
from sfumato.ledger.state import Quote, Request, Standing
from sfumato.mechanisms.base import Recipe
from sfumato.numerics.types import Floats
from sfumato.pipeline.release import release_to
from sfumato.privacy.composition import Charge
from sfumato.privacy.guarantee import Guarantee
from sfumato.studio.inputs.page_words import said
from sfumato.tables.blocks import Blocks, Progress, Rows, ignore
from sfumato.tables.schema import Schema

_PATIENCE = 60.0  # seconds for a job to stop when the studio ends
_SPENT = {  # while a release is made, and afterwards
    "unaccounted": ("No ledger is charged.",) * 2,
    "none": ("Nothing is spent so far.", "Nothing was spent."),
    "reserved": (
        "The price is reserved. Stopping gives it back, unless noise is drawn by then.",
        "The price was reserved and nothing was drawn: it stays spent until `sfumato ledger void` gives it back.",
    ),
    "drawn": ("The price is spent, since noise is drawn: stopping does not give it back.", "The price is spent."),
    "committed": ("The price is spent, and on record.",) * 2,
}


class CancelledError(SfumatoError):
    """The owner stopped a job in the background."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWords:
    """How the pages speak of an order: while it is priced and carried out, and where to go from there."""

    screen: str  # that it belongs to
    back: str  # the address where it was put together
    title: str
    noun: str
    button: str
    unaccounted: str
    running: str
    done: str
    cancelled: str
    failed: str
    opened: str  # what leads to the result
    again: str  # what leads back


@dataclass(frozen=True, slots=True, kw_only=True)
class Order(ABC):
    """What was priced and waits to be confirmed: exactly this is carried out, or nothing.

    path         : where the result goes.
    table, state : the name of the file in the folder, and which file it was (``file_state``).
    counted      : pages may tell how many rows there are.
    holds        : what is published, in words, as the prepared mechanism has it.
    outside      : what of it no guarantee covers.
    hopeless     : what a plan says of it, if that it is hopeless.
    """

    name: str
    path: Path
    table: str
    data: Path
    state: tuple[int, ...]
    guarantee: Guarantee
    account: Account | None
    quotes: tuple[Quote, ...]
    rows: int | None
    counted: bool
    holds: Mapping[str, str]
    outside: tuple[str, ...]
    hopeless: str = ""
    key: str = field(default_factory=lambda: secrets.token_urlsafe(16))

    @property
    def promise(self) -> str:
        """What is promised, in plain words."""
        return self.guarantee.describe()

    @property
    @abstractmethod
    def words(self) -> JobWords:
        """How pages speak of the order."""

    @property
    @abstractmethod
    def result(self) -> str:
        """The address of what the order makes."""

    @abstractmethod
    def carry_out(self, account: Account | None, tick: Progress) -> None:
        """Do what the order says, charged to the account; ``tick`` is told of rows and may raise an error to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseOrder(Order):
    """An order of a release."""

    schema: Schema | None
    recipe: Recipe

    @property
    def words(self) -> JobWords:
        """How pages speak of a release."""
        return _RELEASE

    @property
    def result(self) -> str:
        """The address of the release."""
        return f"/release/made/{quote(self.name, safe='')}"

    def carry_out(self, account: Account | None, tick: Progress) -> None:
        """Make the release."""
        release_to(
            self.path,
            self.data,
            schema=self.schema,
            mechanism=self.recipe,
            guarantee=self.guarantee,
            ledger=account,
            engine=Watched(tick=tick),
            progress=tick if self.schema is None else ignore,
        )


_RELEASE = JobWords(
    screen="release",
    back="/release",
    title="Release under way",
    noun="release",
    button="Release",
    unaccounted="No ledger is charged: what other releases of these data cost is not accounted for, and the release "
    "will say so.",
    running="The release is being made.",
    done="The release is made.",
    cancelled="The release was stopped.",
    failed="The release was not made.",
    opened="Open the release",
    again="Another release",
)


@dataclass(frozen=True, kw_only=True)
class Agreed(Account):
    """An account that is charged the totals that were confirmed, or nothing, and that tells of what it reserves.

    The ledger asks for the quotes within every attempt to reserve, and writes only if nothing was spent since.
    """

    agreed: tuple[Quote, ...]
    told: Callable[[Reservation], None]

    def reserve(self, request: Request) -> Reservation:
        """Reserve what was agreed on."""
        made = super().reserve(request)
        self.told(made)
        return made

    def _quotes(self, dataset: Standing, request: Request) -> tuple[list[Quote], list[Charge]]:
        quotes, charges = super()._quotes(dataset, request)
        if tuple(quotes) != self.agreed:
            raise LedgerError("the budget has moved: look at the price again")
        return quotes, charges


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched(Local):
    """The engine of a job: this machine, telling of every block that is read or written."""

    tick: Progress = ignore

    def rows(self, blocks: Blocks, progress: Progress) -> Rows:
        """Rows that count themselves when they are read, whether they are mapped or summed."""

        def encode(batch: pa.RecordBatch) -> Floats:
            self.tick(batch.num_rows)
            return blocks.encode(batch)

        return Local.rows(self, blocks.encoded_by(encode), progress)

    def write(
        self, folder: Path, names: tuple[str, ...], blocks: Iterator[Any], ids: Ids | None, announce: Announce
    ) -> Written:
        """Written block by block, each of which is a place to stop."""

        def told() -> Iterator[Any]:
            for block in blocks:
                self.tick(0)
                yield block

        return Local.write(self, folder, names, told(), ids, announce)


class Job:
    """One order being carried out by a thread."""

    def __init__(self, order: Order) -> None:
        self.order, self.state, self.message = order, "running", ""
        self._read, self._lock, self._stop = 0, threading.Lock(), threading.Event()
        self._reserved: list[Reservation] = []
        self._thread = threading.Thread(target=self._run, name="release", daemon=True)

    def start(self) -> None:
        """Begin the job; the folder is ours until the end."""
        self._thread.start()

    def cancel(self) -> None:
        """Ask the job to stop at the next block."""
        self._stop.set()

    def join(self) -> None:
        """Wait for the end of the job."""
        self._thread.join(_PATIENCE)

    @property
    def spent(self) -> str:
        """What has become of the price: a key of the sentences."""
        if self.order.account is None:
            return "unaccounted"
        if not self._reserved:
            return "none"
        if self.state == "done":
            return "committed"
        return _became(self._reserved[0], running=self.state == "running")

    def facts(self) -> dict[str, Any]:
        """How far the job is, for the page; tells how many rows there are only if the guarantee allows it."""
        public, words = self.order.counted, self.order.words
        total, read = self.order.rows if public else None, self._read
        share = None if not total else min(1.0, read / total) if read <= total else (read % total or total) / total
        return {
            "state": self.state,
            "stopping": self._stop.is_set() and self.state == "running",
            "share": 1.0 if self.state == "done" else share,
            "rows": read if public else None,
            "total": total,
            "turn": 1 if not total else max(1, -(-read // total)),
            "message": self.message,
            "spent": _SPENT[self.spent][self.state != "running"],
            "name": self.order.name,
            "said": {"done": words.done, "cancelled": words.cancelled, "failed": words.failed}.get(
                self.state, "Stopping at the next block." if self._stop.is_set() else words.running
            ),
        }

    def tick(self, rows: int) -> None:
        """Count rows that were read; the place where a job stops."""
        with self._lock:
            self._read += rows
        if self._stop.is_set():
            raise CancelledError("stopped by you; nothing was written")

    def _run(self) -> None:
        order = self.order
        try:
            with _alone(order.path.parent):
                order.carry_out(self._account(), self.tick)
            self.state = "done"
        except SfumatoError as error:
            self.message = said(error)
            self.state = "cancelled" if isinstance(error, CancelledError) else "failed"
        except BaseException as error:  # noqa: BLE001 - the thread ends here, and its text might hold a cell
            accounted = "" if order.account is None else "; the Budget screen says what was spent"
            self.message = _reason(error) + accounted
            self.state = "failed"

    def _account(self) -> Agreed | None:
        """The account of the order, held to what was agreed on."""
        account = self.order.account
        if account is None:
            return None
        same = {f.name: getattr(account, f.name) for f in fields(account)}
        return Agreed(**same, agreed=self.order.quotes, told=self._reserved.append)


def _became(reservation: Reservation, *, running: bool) -> str:
    """What became of a job's reservation, as a key of the sentences: given back if it ended before it drew anything."""
    if running or reservation.drawn:
        return "drawn" if reservation.drawn else "reserved"
    with contextlib.suppress(LedgerError):
        return "none" if reservation.state() == "void" else "reserved"
    return "reserved"


def _reason(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "not enough memory: choose a lower dimension"
    if isinstance(error, OSError):
        return f"the file system refused ({error.strerror or type(error).__name__})"
    return f"this went wrong ({type(error).__name__})"


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lock a folder for one job: one release at a time is made in it, whatever studio makes it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ParameterError("another studio is at work in this folder: wait for it") from None
        yield
    finally:
        os.close(handle)


def _equal(key: str, offered: str) -> bool:
    """Compare the key of an order in the same time wherever it differs; what is offered may be any text."""
    return secrets.compare_digest(key.encode(), offered.encode(errors="surrogatepass"))


class Jobs:
    """The order that waits and the job that was started last; one job at a time."""

    def __init__(self) -> None:
        self._order: Order | None = None
        self._lock = threading.Lock()
        self.job: Job | None = None

    def keep(self, order: Order) -> None:
        """Keep an order until it is confirmed, or another takes its place."""
        with self._lock:
            self._order = order

    def waiting(self, key: str) -> Order | None:
        """The order with this key, if it waits or was carried out last."""
        orders = (self._order, None if self.job is None else self.job.order)
        return next((order for order in orders if order is not None and _equal(order.key, key)), None)

    def start(self, key: str, check: Callable[[Order], None]) -> Job:
        """Carry out the order with this key, once, unless the check refuses it."""
        with self._lock:
            if self.job is not None and self.job.state == "running":
                raise ParameterError(f"{self.job.order.name} is not done yet: wait for it, or stop it first")
            order = self._order
            if order is None or not _equal(order.key, key):
                raise ParameterError("this order was carried out or replaced already: look at its price again")
            check(order)
            self._order, self.job = None, Job(order)
            self.job.start()
            return self.job

    def close(self) -> None:
        """Stop the job that is under way."""
        if self.job is not None:
            self.job.cancel()
            self.job.join()
