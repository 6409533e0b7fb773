"""The budget ledger: datasets with caps, and what every release of them has spent.

Formal guarantee: the releases of a dataset that were reserved and not voided together satisfy each of its caps, as it
stood when the last of them was reserved, whatever processes made them and however they ended. With composition
'filter', the default, and with 'basic', 'advanced' and 'gaussian' this holds however releases are chosen, also by what
earlier ones published (``privacy.filters``, ``privacy.composition``). PROVISO: with 'tight' it holds only if the size
(epsilon, delta and kind of loss) of no release was chosen after seeing a result of an earlier one; otherwise the true
delta can be several times the cap's. Caps must not be raised because of results either. A price is computed first; the
entry is written in a transaction that excludes all others, and only if nothing of what the price rests on has changed.
A reservation is spent from that moment; ``draw`` is written before the first random word of a release is drawn, and
only a reservation without it, which can then never be drawn, may be voided.
"""

import importlib
import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from sfumato import check
from sfumato.errors import LedgerError
from sfumato.fileformat import kinds
from sfumato.fileformat.manifest import Manifest
from sfumato.fileformat.reader import digest
from sfumato.in_notebooks import InNotebooks
from sfumato.ledger.account import Account
from sfumato.ledger.division import Planned, PureShare, check_programme, division_json
from sfumato.ledger.folding import datasets_of
from sfumato.ledger.reservation import mark
from sfumato.ledger.sources import Origin
from sfumato.ledger.state import Dataset, Spent, cap_json, protects
from sfumato.privacy.composition import COMPOSITIONS, Composition
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.units import Cap

if TYPE_CHECKING:
    from sfumato.ledger.folding import Folded
    from sfumato.ledger.journal import Journal


class Ledger(InNotebooks):
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
        self,
        name: str,
        cap: Guarantee | Cap,
        *,
        composition: Composition = "filter",
        parts_by: str | None = None,
        pure_share: PureShare | None = None,
        tails: float = 0.0,
        programme: Planned | None = None,
    ) -> Dataset:
        """Enter a dataset with its first cap.

        composition : how releases add up. ``filter`` (``privacy.filters``) divides the cap into shares and holds
                      however releases are chosen; so do ``basic``, ``advanced`` and ``gaussian``
                      (``privacy.composition``). ``tight`` holds ONLY IF the sizes of releases are not chosen by looking
                      at earlier ones: declare a programme instead.
        parts_by    : a public column by whose values the records fall into parts that are released one by one; a
                      neighbour keeps its value, so one record spends in its own part only.
        pure_share  : the part of the cap's epsilon that pure releases (delta 0) add up to; the rest is for Gaussian
                      noise. 'all': epsilons and deltas add up. Left out: the first release decides.
        tails       : the part of the cap's delta for releases that are Gaussian but for a failure, with a pure_share.
        programme   : releases that are declared beforehand and composed tightly: a TOML file of [[release]] tables, or
                      a list of such tables (``privacy.programme``). What it leaves of the cap is for pure releases.
        """
        _check_text(name, "a dataset's name")
        check.one_of(COMPOSITIONS, composition=composition)
        first = Cap(cap) if isinstance(cap, Guarantee) else cap
        if parts_by is not None:
            _check_text(parts_by, "the column of parts")
            if first.guarantee.group > 1:
                raise LedgerError("rows of one person may lie in several parts: a cap with group > 1 cannot have parts")

        def absent(folded: "Folded") -> None:
            if name in folded.datasets:
                raise LedgerError(f"{self.journal.name} has a dataset {name!r} already: see `sfumato ledger show`")

        if composition != "filter" and (pure_share is not None or tails or programme is not None):
            raise LedgerError(f"shares and programmes divide a cap under composition='filter', got {composition!r}")
        division = division_json(first.guarantee, pure_share, tails, programme)
        body = {"composition": composition, "parts_by": parts_by} | cap_json(first) | division
        self.journal.append(name, "dataset", body, absent)
        return self.dataset(name)

    def set_cap(self, name: str, cap: Guarantee | Cap) -> Dataset:
        """Set the cap of a unit; it can be raised or lowered later, on record, but what it protects stays the same."""
        new = Cap(cap) if isinstance(cap, Guarantee) else cap

        def possible(folded: "Folded") -> None:
            dataset = folded.standing(name, self.journal.name)
            same = [old for old in dataset.caps if old.key == new.key]
            if dataset.made and not same:
                raise LedgerError(f"releases of {name!r} were made already, so no cap for another unit can be added")
            if new.guarantee.group > 1 and dataset.parts_by is not None:
                raise LedgerError("rows of one person may lie in several parts: a cap with group > 1 cannot have parts")
            if same and protects(same[0]) != protects(new):
                raise LedgerError(f"the cap of {name!r} for this unit protects {same[0].describe()}, which stays so")
            check_programme(dataset, new)

        self.journal.append(name, "cap", cap_json(new), possible)
        return self.dataset(name)

    def dataset(self, name: str) -> Dataset:
        """One dataset of the ledger, with all its releases; every entry is read and checked."""
        self.journal.folded().standing(name, self.journal.name)
        return next(dataset for dataset in self.datasets() if dataset.name == name)

    def datasets(self) -> list[Dataset]:
        """All datasets of the ledger, in the order they were entered; every entry is read and checked."""
        return datasets_of(self.journal.entries(), self.journal.name)

    def account(
        self, dataset: str | None = None, *, part: str | None = None, convert: bool = False, exceptions: bool = False
    ) -> Account:
        """The account of this ledger that releases are charged to; of the only dataset if none is named.

        part       : release only the records of this part, if the dataset has parts.
        convert    : charge releases of another unit too, by the number of their units that one of the cap's can be.
        exceptions : charge releases of which something is outside their guarantee, and record what.
        """
        folded = self.journal.folded()
        found = [*folded.datasets.values()] if dataset is None else [folded.standing(dataset, self.journal.name)]
        if len(found) != 1:
            raise LedgerError(f"{self.journal.name} has {len(found)} datasets: name one (--dataset)")
        if part is not None and found[0].parts_by is None:
            raise LedgerError(f"the dataset {found[0].name!r} has no parts: enter it with parts_by, a public column")
        if part is not None:
            _check_text(part, "a part's name")
        return Account(self.journal, found[0].name, part, found[0].parts_by, convert, exceptions)

    def admit(self, name: str, schema: str, source: Origin | str) -> None:
        """Admit data of this source and schema to a dataset, on record: they spend its budget.

        ``source``: what ``pipeline.release.source_of`` says of them.
        """
        Account(self.journal, name).admit(schema, Origin(source) if isinstance(source, str) else source)

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
        streamed = manifest["stream"]["digest"] if "stream" in manifest else None
        if spent.note not in (streamed or manifest["digest"], streamed or digest({**manifest, "files": {}})):
            raise LedgerError(f"this is not the release that entry {spent.number} committed: do not trust it")
        return spent

    def _reservation(self, manifest: Manifest) -> Spent:
        """The reservation that a manifest names, if it is one of this ledger and of the same promise."""
        told = manifest.get("ledger")
        if told is None:
            raise LedgerError("this release was charged to no ledger, and says so")
        found = self.journal.about(told["entry"])
        if not found or (found[0].hash, found[0].dataset, found[0].kind) != (told["hash"], told["dataset"], "reserve"):
            raise LedgerError(f"{self.journal.name} has no entry for this release: it belongs to another ledger")
        entry, *steps = found
        spent = Spent.of(entry)
        for step in steps:
            spent = spent.followed(step)
        promised = Guarantee.from_dict(manifest["guarantee"])
        if "stream" in manifest and promised.epsilon >= spent.guarantee.epsilon:  # it may have been extended since
            promised = replace(promised, epsilon=spent.guarantee.epsilon)
        if kinds.claim_kept(manifest) and promised != spent.guarantee:
            raise LedgerError(f"this release promises something else than entry {spent.number}: do not trust it")
        return spent

    def confirm_release(self, manifest: Manifest) -> int:
        """Record a release that was written whole but not committed before its process ended."""
        spent = self._reservation(manifest)
        mark(self.journal, spent.number, "commit", {"digest": manifest["digest"]})
        return spent.number

    def verify(self, expected: str | None = None) -> tuple[int, str]:
        """Check the chain of entries, the snapshot and the steps of every release; how many entries, the last hash."""
        found = self.journal.verify(expected)
        self.datasets()
        return found


def _check_text(text: object, what: str) -> None:
    if not isinstance(text, str) or not text.strip() or len(text) > 200 or not text.isprintable():
        raise LedgerError(f"{what} has 1 to 200 printable characters")


def schema_text(fields: dict[str, Any] | None) -> str:
    """A schema as the text that a budget ledger keeps a fingerprint of."""
    return json.dumps(fields, sort_keys=True)
