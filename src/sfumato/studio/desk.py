"""What the pages share: the folder, the ledger, the keys and the release that is being made."""

from dataclasses import dataclass, field
from pathlib import Path

from sfumato.budget import Dataset
from sfumato.ledger import Ledger
from sfumato.studio.folder import Folder
from sfumato.studio.guard import Keys
from sfumato.studio.jobs import Desk


@dataclass(frozen=True, slots=True)
class Studio:
    """One studio. ``place``: of its ledger, if it has one."""

    folder: Folder
    place: str | None
    keys: Keys
    desk: Desk = field(default_factory=Desk)

    def ledger(self) -> Ledger | None:
        """The ledger, opened anew for each request since others may write to it; None if there is none yet."""
        if self.place is None or ("://" not in self.place and not Path(self.place).exists()):
            return None
        return Ledger(self.place)

    def datasets(self) -> list[Dataset]:
        """What the ledger says."""
        ledger = self.ledger()
        return [] if ledger is None else ledger.datasets()
