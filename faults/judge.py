"""The judge: looks at a ledger and at folders after a fault, and says what was lost, twice, partial or uncharged.

lost      : committed, but the folder is not there; or said to be done, but not committed; or a ledger without its end.
twice     : one release charged more than once, or two releases (or more than the cap) charged as one.
partial   : a folder under its final name that does not load whole.
uncharged : noise that was drawn, or numbers that can be seen, and the ledger does not count them as spent.

A reservation that was spent though nothing came of it is no fault: the owner loses budget, nobody loses privacy. It is
noted, like reservations that could be given back, releases that could be confirmed, and hidden folders left behind. A
message that says otherwise than the ledger is counted as ``untrue``.
"""

import re
import shutil
import stat
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faults.jobs import EPSILON, Job
from faults.steps import DREW, ENDED, RESERVED, Step
from sfumato.errors import LedgerError, SfumatoError
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.state import Spent
from sfumato.releases.release import load

COUNTS = ("lost", "twice", "partial", "uncharged", "untrue", "hung")
_DRAWN = ("drawn", "committed")
UNHARMED, UNREADABLE = "unharmed", "unreadable"
_SAYS_CHARGED = re.compile(r"and charged|stays spent|and is spent")
_SAYS_FREE = re.compile(r"nothing (was )?spent|was voided|nothing is charged|NOT charged")
_SAYS_UNDRAWN = re.compile(r"nothing was drawn")
_SAYS_CLEAN = re.compile(r"nothing was (left|written)")
_SAYS_UNSEEN = re.compile(r"nothing was (left|written|released)")


@dataclass(frozen=True, slots=True)
class Witness:
    """One process that did a job: the folder it was to make, and all that it told until it ended.

    struck : when the fault hit it, if it was the one and is known to have felt it.
    """

    out: Path
    steps: Sequence[Step]
    struck: float | None = None

    def _detail(self, name: str) -> Any:
        return next((step.detail for step in self.steps if step.name == name), None)

    @property
    def drew(self) -> bool:
        """Whether noise was at hand."""
        return any(step.name == DREW for step in self.steps)

    @property
    def reservation(self) -> tuple[int, str] | None:
        """Number and hash of its reservation, if it came to know them."""
        found = self._detail(RESERVED)
        return None if found is None else tuple(found)

    @property
    def done(self) -> bool:
        """Whether it said that all went well."""
        return bool(self._detail(ENDED) == "")

    @property
    def message(self) -> str:
        """What it said when it did not."""
        return self._detail(ENDED) or ""

    def before(self) -> list[Step]:
        """What it had told when it was struck."""
        return [step for step in self.steps if self.struck is None or step.time <= self.struck]


@dataclass(slots=True)
class Verdict:
    """What is wrong, in words, by kind; and what is only worth a note."""

    wrong: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in COUNTS})
    notes: Counter[str] = field(default_factory=Counter)

    def find(self, kind: str, what: str) -> None:
        """Something is wrong."""
        self.wrong[kind].append(what)

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong."""
        return not any(self.wrong.values())


def judge(place: str, job: Job, witnesses: Sequence[Witness], expected: str) -> Verdict:
    """After a fault that left the ledger to itself, which had an entry of the hash ``expected`` before it."""
    verdict, ledger = Verdict(), Ledger(place)
    try:
        ledger.verify(expected)
        releases = {spent.number: spent for spent in ledger.datasets()[0].releases}
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
        verdict.find("lost", f"the ledger does not verify: {error!r}")
        return verdict
    _judge_charges(verdict, ledger, job, witnesses, releases)
    seen = [_judge_folder(verdict, ledger, witness) for witness in witnesses]
    shown = [number for number in seen if number is not None]
    for number in {n for n in shown if shown.count(n) > 1}:
        verdict.find("twice", f"reservation {number} was charged for two releases")
    for spent in releases.values():
        if job.folder and spent.state == "committed" and spent.number not in shown:
            verdict.find("lost", f"reservation {spent.number} is committed, and its folder is not there")
    for witness in witnesses:
        _judge_words(verdict, witness, _state(releases, witness))
        _leftovers(verdict, witness)
    _judge_rest(verdict, ledger, job, releases, shown)
    return verdict


def _judge_charges(
    verdict: Verdict, ledger: Ledger, job: Job, witnesses: Sequence[Witness], releases: dict[int, Spent]
) -> None:
    """Whether every draw is charged, once, and within the cap."""
    if len(releases) > len(witnesses):
        verdict.find("twice", f"{len(releases)} reservations for {len(witnesses)} releases")
    spent = ledger.datasets()[0].total(0).epsilon
    if spent > job.cap:
        verdict.find("twice", f"epsilon {spent} is spent of {job.cap}")
    drawn = sum(release.state in _DRAWN for release in releases.values())
    drew = sum(witness.drew for witness in witnesses)
    if drew > drawn:
        verdict.find("uncharged", f"{drew} processes drew noise, and the ledger counts {drawn}")
    if job.promise.delta == 0 and spent < drew * EPSILON * (1 - 1e-12):
        verdict.find("uncharged", f"{drew} draws cost epsilon {spent} only")
    for witness in witnesses:
        state = _state(releases, witness)
        if witness.drew and witness.reservation is not None and state not in _DRAWN:
            verdict.find("uncharged", f"noise was drawn, and its reservation is {state}")
        if witness.done and state != "committed":
            verdict.find("lost" if state == "drawn" else "uncharged", f"it was said to be done, and is {state}")


def _state(releases: dict[int, Spent], witness: Witness) -> str | None:
    """What the ledger says of a process's reservation; one that it did not live to know is the only one there is."""
    if witness.reservation is not None:
        found = releases.get(witness.reservation[0])
        return None if found is None else found.state
    return next(iter(releases.values())).state if len(releases) == 1 else None


def _judge_folder(verdict: Verdict, ledger: Ledger, witness: Witness) -> int | None:
    """The number of the reservation that a visible release was charged to, if there is one."""
    if not witness.out.exists():
        if witness.done and any(step.name == "renamed" for step in witness.steps):
            verdict.find("lost", "it was said to be done, and its folder is gone")
        return None
    manifest = _loaded(verdict, witness.out)
    if manifest is None:
        return None
    try:
        spent = ledger._reservation(manifest)
    except LedgerError as error:
        verdict.find("uncharged", f"a release can be seen, and {error}")
        return None
    if spent.state not in _DRAWN:
        verdict.find("uncharged", f"a release can be seen, and its reservation is {spent.state}")
        return spent.number
    try:
        if spent.state == "drawn":
            ledger.confirm_release(manifest)
            verdict.notes["confirmed"] += 1
        ledger.check_release(manifest)
    except LedgerError as error:
        verdict.find("uncharged", f"a release can be seen, and cannot be confirmed: {error}")
    return spent.number


def _loaded(verdict: Verdict, out: Path) -> dict[str, Any] | None:
    """The manifest of a visible release, which must be whole."""
    try:
        manifest = load(out).manifest
    except (SfumatoError, OSError) as error:
        verdict.find("partial", f"{out.name} does not load: {error}")
        return None
    return dict(manifest)


def _judge_words(verdict: Verdict, witness: Witness, state: str | None) -> None:
    """Whether what was said when it failed is so."""
    counted = state not in (None, "void")
    if state == UNREADABLE:
        return
    if _SAYS_CHARGED.search(witness.message) and not counted:
        verdict.find("untrue", f"nothing is charged, and it was said: {witness.message}")
    if _SAYS_FREE.search(witness.message) and counted:
        verdict.find("untrue", f"its reservation is {state}, and it was said: {witness.message}")
    if _SAYS_UNDRAWN.search(witness.message) and witness.drew:
        verdict.find("untrue", f"noise was drawn, and it was said: {witness.message}")
    if _SAYS_UNSEEN.search(witness.message) and witness.out.exists():
        verdict.find("untrue", f"a release can be seen, and it was said: {witness.message}")
    if _SAYS_CLEAN.search(witness.message) and _hidden(witness.out):
        verdict.find("untrue", f"something was left, and it was said: {witness.message}")


def _hidden(out: Path) -> list[Path]:
    return list(out.parent.glob(f".{out.name}.*"))


def _leftovers(verdict: Verdict, witness: Witness) -> None:
    """Hidden folders of killed releases, which nobody else can look into; they are removed."""
    for folder in _hidden(witness.out):
        verdict.notes["left behind"] += 1
        if stat.S_IMODE(folder.stat().st_mode) & 0o077 and not _named(witness):
            verdict.find("partial", f"{folder.name} is open to others")
        shutil.rmtree(folder)


def _named(witness: Witness) -> bool:
    """Whether a release was about to get its name: then all of it is synced, and its mode is the final one."""
    return any(step.name == "finished" for step in witness.steps)


def _judge_rest(verdict: Verdict, ledger: Ledger, job: Job, releases: dict[int, Spent], shown: Sequence[int]) -> None:
    """What was not drawn can be given back; what was, and never shown, is noted."""
    for spent in releases.values():
        verdict.notes["given back by the release"] += spent.state == "void"
        if spent.state == "reserved":
            try:
                ledger.void(spent.number, "the process ended before it drew")
                verdict.notes["given back by hand"] += 1
            except LedgerError as error:
                verdict.find("lost", f"what was not drawn cannot be given back: {error}")
        if job.folder and spent.state == "drawn" and spent.number not in shown:
            verdict.notes["spent for nothing"] += 1


def judge_robbed(place: str, job: Job, witness: Witness, expected: str) -> Verdict:
    """After a fault that took entries from the ledger by force, as a restored copy does.

    Nobody can charge to a ledger what is taken from it afterwards. What is asked: nothing is drawn once the reservation
    is gone; what was drawn before is not shown later if it was gone before the folder was whole; what is shown all the
    same can be told from a charged release (``ledger verify --release`` and ``ledger confirm`` refuse it); and no
    message says that it is charged.
    """
    verdict, told = Verdict(), {step.name for step in witness.before()}
    try:
        state = _counted(place, witness)
    except Exception as error:  # noqa: BLE001 - a traceback is no refusal
        state = UNREADABLE
        verdict.find("untrue", f"the ledger should be refused in words: {error!r}")
    if state == UNHARMED:
        return judge(place, job, [witness], expected)
    verdict.notes["robbed"] += 1
    if DREW not in told and "entry draw" not in told and witness.drew and state not in _DRAWN:
        verdict.find("uncharged", "noise was drawn after the ledger had lost its reservation")
    if "entry commit" not in told and witness.done and state != "committed":
        verdict.find("lost", "it was said to be done, and the ledger does not know it")
    if witness.out.exists():
        _judge_shown(verdict, place, witness, state)
        if "finishing" not in told and state not in _DRAWN:
            verdict.find("uncharged", "a release can be seen whose charge was gone before it was whole")
    _judge_words(verdict, witness, state)
    _leftovers(verdict, witness)
    return verdict


def _counted(place: str, witness: Witness) -> str | None:
    """The state of a process's own reservation, None if it is gone; or of a ledger that lost nothing, or everything."""
    mine, ledger = witness.reservation, Ledger(place)
    try:
        entries = ledger.journal.entries()
        releases = {spent.number: spent.state for spent in ledger.datasets()[0].releases}
    except SfumatoError:
        return UNREADABLE
    known = {entry.kind for entry in entries}
    told = {step.name.removeprefix("entry ") for step in witness.steps if step.name.startswith("entry ")}
    own = mine is None or any((entry.number, entry.hash) == mine for entry in entries)
    if told <= known and own and _sound(ledger):
        return UNHARMED
    return releases.get(mine[0]) if own and mine is not None else None


def _sound(ledger: Ledger) -> bool:
    try:
        ledger.verify()
    except SfumatoError:
        return False
    return True


def _judge_shown(verdict: Verdict, place: str, witness: Witness, state: str | None) -> None:
    """A release that can be seen, of a ledger that was robbed: whoever looks it up is told."""
    manifest = _loaded(verdict, witness.out)
    if manifest is None:
        return
    verdict.notes["shown though robbed"] += 1
    try:
        Ledger(place).check_release(manifest)
        verdict.find("uncharged", "a release whose charge was lost is taken for a committed one")
    except SfumatoError:
        verdict.notes["refused by verify"] += 1
    if state not in _DRAWN:
        try:
            Ledger(place).confirm_release(manifest)
            verdict.find("uncharged", "a release whose charge was lost could be confirmed")
        except SfumatoError:
            verdict.notes["refused by confirm"] += 1
