"""The budget ledger: datasets with caps, and what every release of them has spent.

Formal guarantee: the releases of a dataset that were reserved and not voided together satisfy each of its caps, as it
stood when the last of them was reserved, by composition (``privacy.composition``), whatever processes made them and
however they ended. A price is computed first; the entry is written in a transaction that excludes all others, and only
if nothing of what the price rests on has changed. A reservation is spent from that moment; ``draw`` is written before
the first random word of a release is drawn, and only a reservation without it, which can then never be drawn, may be
voided.
"""

import importlib
import json
import os
from typing import TYPE_CHECKING, Any, Self

from sfumato import check
from sfumato.errors import LedgerError
from sfumato.fileformat import kinds
from sfumato.fileformat.manifest import Manifest
from sfumato.fileformat.reader import digest
from sfumato.ledger.account import LEARNING, Account, check_units
from sfumato.ledger.reservation import mark
from sfumato.ledger.state import Dataset, Spent, protects, read_dataset
from sfumato.privacy.composition import COMPOSITIONS, Composition
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.units import Cap

if TYPE_CHECKING:
    from sfumato.ledger.journal import Entry, Journal


class Ledger:
    """The budgets at a place: the path of a SQLite file, or a postgresql:// URL. ``wait``: seconds for others."""

    def __init__(self, where: str | os.PathLike[str], *, wait: int = 60) -> None:
        # its database library takes a quarter of a second to import, and a release without a ledger never needs it
        self.journal: Journal = importlib.import_module("sfumato.ledger.journal").Journal(where, wait)

    @classmethod
    def create(cls, where: str | os.PathLike[str]) -> Self:
        """Open a ledger, which is made if it is not there."""
        ledger = cls(where)
        ledger.journal.create()
        return ledger

    def add_dataset(
        self, name: str, cap: Guarantee | Cap, *, composition: Composition = "tight", parts_by: str | None = None
    ) -> Dataset:
        """Enter a dataset with its first cap.

        composition : how releases add up (``privacy.composition``). ``tight`` holds if the sizes of releases are not
                      chosen by looking at earlier ones; ``basic``, ``advanced`` and ``gaussian`` hold in any case.
        parts_by    : a public column by whose values the records fall into parts that are released one by one; a
                      neighbour keeps its value, so one record spends in its own part only.
        """
        _check_text(name, "a dataset's name")
        check.one_of(COMPOSITIONS, composition=composition)
        first = Cap(cap) if isinstance(cap, Guarantee) else cap
        if parts_by is not None:
            _check_text(parts_by, "the column of parts")
            if first.guarantee.group > 1:
                raise LedgerError("rows of one person may lie in several parts: a cap with group > 1 cannot have parts")

        def absent(entries: list["Entry"]) -> None:
            if any(e.dataset == name for e in entries):
                raise LedgerError(f"{self.journal.name} has a dataset {name!r} already: see `sfumato ledger show`")

        body = {"composition": composition, "parts_by": parts_by} | _cap_json(first)
        self.journal.append(name, "dataset", body, absent)
        return self.dataset(name)

    def set_cap(self, name: str, cap: Guarantee | Cap) -> Dataset:
        """Set the cap of a unit; it can be raised or lowered later, on record, but what it protects stays the same."""
        new = Cap(cap) if isinstance(cap, Guarantee) else cap

        def possible(entries: list["Entry"]) -> None:
            dataset = read_dataset(name, entries, self.journal.name)
            same = [old for old in dataset.caps if old.key == new.key]
            if dataset.releases and not same:
                raise LedgerError(f"releases of {name!r} were made already, so no cap for another unit can be added")
            if new.guarantee.group > 1 and dataset.parts_by is not None:
                raise LedgerError("rows of one person may lie in several parts: a cap with group > 1 cannot have parts")
            if same and protects(same[0]) != protects(new):
                raise LedgerError(f"the cap of {name!r} for this unit protects {same[0].describe()}, which stays so")

        self.journal.append(name, "cap", _cap_json(new), possible)
        return self.dataset(name)

    def dataset(self, name: str) -> Dataset:
        """One dataset of the ledger, with all its releases."""
        return read_dataset(name, self.journal.entries(), self.journal.name)

    def datasets(self) -> list[Dataset]:
        """All datasets of the ledger, in the order they were entered."""
        entries = self.journal.entries()
        return [read_dataset(e.dataset, entries, self.journal.name) for e in entries if e.kind == "dataset"]

    def account(
        self, dataset: str | None = None, *, part: str | None = None, convert: bool = False, exceptions: bool = False
    ) -> Account:
        """The account of this ledger that releases are charged to; of the only dataset if none is named.

        part       : release only the records of this part, if the dataset has parts.
        convert    : charge releases of another unit too, by the number of their units that one of the cap's can be.
        exceptions : charge releases of which something is outside their guarantee, and record what.
        """
        found = self.datasets() if dataset is None else [self.dataset(dataset)]
        if len(found) != 1:
            raise LedgerError(f"{self.journal.name} has {len(found)} datasets: name one (--dataset)")
        if part is not None and found[0].parts_by is None:
            raise LedgerError(f"the dataset {found[0].name!r} has no parts: enter it with parts_by, a public column")
        if part is not None:
            _check_text(part, "a part's name")
        return Account(self.journal, found[0].name, part, found[0].parts_by, convert, exceptions)

    def admit(self, name: str, schema: str, source: str) -> None:
        """Admit data of this source and schema to a dataset, on record: they spend its budget."""
        fingerprints = {
            "schema": self.journal.fingerprint("schema", schema),
            "source": self.journal.fingerprint("source", source),
        }

        def known(entries: list["Entry"]) -> None:
            dataset = read_dataset(name, entries, self.journal.name)
            check_units(dataset, fingerprints["schema"], self.journal.fingerprint("schema", LEARNING))

        self.journal.append(name, "admit", fingerprints, known)

    def void(self, number: int, reason: str) -> None:
        """Void a reservation that was never drawn, and never will be: its budget is given back.

        Sound, because a release asks ``draw`` before its first random word, and draw refuses a void reservation.
        """
        check.whole(1, number=number)
        _check_text(reason, "a reason, which is kept,")
        mark(self.journal, number, "void", {"reason": reason})

    def check_release(self, manifest: Manifest) -> Spent:
        """The reservation of a release; refuses one that was not committed, or is not what was committed.

        Of a release that was made in memory and saved later, the ledger knows the manifest but not the files.
        """
        spent = self._reservation(manifest)
        if spent.state != "committed":
            raise LedgerError(
                f"reservation {spent.number}, to which this release was charged, is {spent.state} and not committed"
                + (
                    ": `sfumato ledger confirm` records a release that was written whole"
                    if spent.state == "drawn"
                    else ""
                )
            )
        if spent.note not in (manifest["digest"], digest({**manifest, "files": {}})):
            raise LedgerError(f"this is not the release that entry {spent.number} committed: do not trust it")
        return spent

    def _reservation(self, manifest: Manifest) -> Spent:
        """The reservation that a manifest names, if it is one of this ledger and of the same promise."""
        told = manifest.get("ledger")
        if told is None:
            raise LedgerError("this release was charged to no ledger, and says so")
        entry = next((e for e in self.journal.entries() if e.number == told["entry"]), None)
        if entry is None or (entry.hash, entry.dataset, entry.kind) != (told["hash"], told["dataset"], "reserve"):
            raise LedgerError(f"{self.journal.name} has no entry for this release: it belongs to another ledger")
        spent = next(s for s in self.dataset(entry.dataset).releases if s.number == entry.number)
        if kinds.claim_kept(manifest) and Guarantee.from_dict(manifest["guarantee"]) != spent.guarantee:
            raise LedgerError(f"this release promises something else than entry {spent.number}: do not trust it")
        return spent

    def confirm_release(self, manifest: Manifest) -> int:
        """Record a release that was written whole but not committed before its process ended."""
        spent = self._reservation(manifest)
        mark(self.journal, spent.number, "commit", {"digest": manifest["digest"]})
        return spent.number

    def verify(self, expected: str | None = None) -> tuple[int, str]:
        """Check the chain of entries and the steps of every release; how many there are, and the last hash."""
        found = self.journal.verify(expected)
        self.datasets()
        return found


def _cap_json(cap: Cap) -> dict[str, Any]:
    return {"guarantee": cap.guarantee.to_dict(), "attributes": cap.attributes}


def _check_text(text: object, what: str) -> None:
    if not isinstance(text, str) or not text.strip() or len(text) > 200 or not text.isprintable():
        raise LedgerError(f"{what} has 1 to 200 printable characters")


def schema_text(fields: dict[str, Any] | None) -> str:
    """A schema as the text that a budget ledger keeps a fingerprint of."""
    return json.dumps(fields, sort_keys=True)
