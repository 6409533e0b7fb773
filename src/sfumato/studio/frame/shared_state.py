"""What the pages share: the folder, the ledger, the keys and the release that is being made."""

import contextlib
import itertools
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sfumato.errors import LedgerError, ParameterError
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.state import Dataset
from sfumato.pipeline.answers import Answer
from sfumato.privacy.units import Cap
from sfumato.studio.frame.guard import Keys
from sfumato.studio.frame.jobs import Jobs
from sfumato.studio.inputs.folder import Folder

_WAIT = 3  # seconds of a page for other writers to the ledger


class Turns:
    """Shared by pages that compute: one at a time; of those that wait, only the one that came last gets its turn."""

    def __init__(self) -> None:
        self._changed, self._last, self._busy = threading.Condition(), 0, False

    @contextlib.contextmanager
    def mine(self) -> Iterator[None]:
        """Wait for a turn; refused as soon as somebody comes later."""
        with self._changed:
            self._last = number = self._last + 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._busy or number != self._last)
            if number != self._last:
                raise ParameterError("a later question took the place of this one")
            self._busy = True
        try:
            yield
        finally:
            with self._changed:
                self._busy = False
                self._changed.notify_all()


@dataclass(frozen=True, slots=True)
class Studio:
    """State of one studio that all pages share. ``place``: of its ledger, if it has one."""

    folder: Folder
    place: str | None
    keys: Keys
    jobs: Jobs = field(default_factory=Jobs)
    plans: Turns = field(default_factory=Turns)
    answers: dict[int, Answer] = field(default_factory=dict)  # to questions, while the studio runs
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))  # of questions that were priced
    seen: threading.Event = field(default_factory=threading.Event)  # set once its ledger was there

    def __post_init__(self) -> None:
        """Remember a ledger that is there when the studio starts."""
        self._look()

    def ledger(self) -> Ledger | None:
        """The ledger, opened anew for each request since others may write to it; None if there is none yet.

        One that was there and is gone is an error, never an empty ledger: what was spent would be forgotten. A page
        does not wait long for other writers.
        """
        if self.place is None:
            return None
        there = self._look()
        if not there and self.seen.is_set():
            raise LedgerError(f"the ledger {self.place} was here and is gone: put it back; no new one is made")
        return Ledger(self.place, wait=_WAIT) if there else None

    def _look(self) -> bool:
        """Whether the studio's ledger is there; a database elsewhere answers for itself."""
        if self.place is None:
            return False
        if "://" in self.place:
            return True
        path = Path(self.place)
        there = path.is_file() and path.stat().st_size > 0
        if there:
            self.seen.set()
        return there

    def entered(self, name: str, cap: Cap) -> None:
        """Enter a dataset into the studio's ledger, which is made if there has been none."""
        if self.place is None:
            raise ParameterError("this studio was started without a ledger, so there is none to enter it into")
        ledger = self.ledger()
        if ledger is None or not self.seen.is_set():
            ledger = Ledger(self.place, wait=_WAIT)
            ledger.journal.create()
            self.seen.set()
        ledger.add_dataset(name, cap)

    def datasets(self) -> list[Dataset]:
        """The datasets in the studio's ledger."""
        ledger = self.ledger()
        if ledger is None:
            return []
        found = ledger.datasets()
        self.seen.set()
        return found

    def table_of(self, release: str) -> str:
        """The table that a release was made from, as far as the last job or its name says; empty if neither does."""
        job = self.jobs.job
        if job is not None and job.order.name == release:
            return job.order.table
        stem = release.removesuffix(".release")
        names = [item.name for item in self.folder.tables() if item.has_schema]
        near = [name for name in names if re.fullmatch(re.escape(name.partition(".")[0]) + r"(-[0-9]+)?", stem)]
        return near[0] if near else ""

    def payers(self, table: str) -> list[str]:
        """The names of the datasets that may pay for a table, the one of its name first.

        None, where the ledger cannot be read: the Budget screen says why.
        """
        try:
            names = [dataset.name for dataset in self.datasets()]
        except LedgerError:
            return []
        return sorted(names, key=lambda name: name != table.partition(".")[0])
