"""Where the data of a release come from, as a ledger tells sources apart: by marks that it keeps as keyed hashes."""

from collections.abc import Callable
from dataclasses import dataclass

MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where data come from: texts that say so, of which a ledger keeps keyed fingerprints only.

    place : the whole path of a file or folder, or the type of an object in memory.
    marks : what else the same data are recognised by: paths of the files of a folder, and what is in them.
    links : what is kept, but looked for only in data that may be the same file under another name (hard links): an
            inode by itself proves nothing, for a new file may get the one of a file that was deleted.
    linked : those of ``links`` that other names point to now.
    """

    place: str
    marks: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    linked: tuple[str, ...] = ()

    @property
    def in_memory(self) -> bool:
        """Whether nothing of the data is known but that they are in memory."""
        return self.place.startswith(MEMORY)

    def kept(self, fingerprint: Callable[[str, str], str]) -> "FingerprintedOrigin":
        """What a ledger keeps and looks for, as keyed hashes."""

        def hashed(texts: tuple[str, ...]) -> frozenset[str]:
            return frozenset(fingerprint("source", text) for text in texts)

        place = fingerprint("source", self.place)
        return FingerprintedOrigin(
            place, hashed((*self.marks, *self.links)), hashed((*self.marks, *self.linked)) | {place}
        )


@dataclass(frozen=True, slots=True)
class FingerprintedOrigin:
    """Where data come from, in the hashes of one ledger.

    place : what names the source. marks : what it is recognised by later. sought : what it is recognised by now.
    """

    place: str
    marks: frozenset[str]
    sought: frozenset[str]

    def to_json(self, known: frozenset[str] | set[str] = frozenset()) -> dict[str, str | list[str]]:
        """What an entry says of the source, without marks that the ledger knows of it already."""
        new = sorted(self.marks - known)
        return {"source": self.place} | ({"marks": new} if new else {})
