"""What the pages share: the folder, the ledger, the keys and the release that is being made."""

from dataclasses import dataclass

from sfumato.ledger import Ledger
from sfumato.studio.folder import Folder
from sfumato.studio.guard import Keys


@dataclass(frozen=True, slots=True)
class Studio:
    """One studio. ``place``: of its ledger, if it has one."""

    folder: Folder
    place: str | None
    keys: Keys

    def ledger(self) -> Ledger | None:
        """The ledger, opened anew for each request, since others may write to it."""
        return None if self.place is None else Ledger(self.place)
