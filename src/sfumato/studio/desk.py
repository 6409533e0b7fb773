"""What the pages share: the folder, the ledger, the keys and the release that is being made."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sfumato.budget import Dataset
from sfumato.errors import ParameterError
from sfumato.ledger import Ledger
from sfumato.studio.folder import Folder
from sfumato.studio.guard import Keys
from sfumato.studio.jobs import Desk


class Turns:
    """One computation at a time; of those that wait, only the one that came last gets its turn."""

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
    """One studio. ``place``: of its ledger, if it has one."""

    folder: Folder
    place: str | None
    keys: Keys
    desk: Desk = field(default_factory=Desk)
    plans: Turns = field(default_factory=Turns)

    def ledger(self) -> Ledger | None:
        """The ledger, opened anew for each request since others may write to it; None if there is none yet."""
        if self.place is None or ("://" not in self.place and not Path(self.place).exists()):
            return None
        return Ledger(self.place)

    def datasets(self) -> list[Dataset]:
        """What the ledger says."""
        ledger = self.ledger()
        return [] if ledger is None else ledger.datasets()
