"""A run of faults: which ones, in which order, and what they came to."""

import itertools
import os
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from faults.jobs import JOBS
from faults.judge import COUNTS
from faults.steps import HELD, PHASES, Plan, Step, phase
from faults.strike import Ground, Struck, strike

KINDS = (
    "kill",
    "helper killed",
    "interrupt",
    "terminate",
    "pause",
    "pause and void",
    "full disk",
    "full ledger",
    "file limit",
    "sync fails",
    "rename fails",
    "entry fails",
    "entry doubtful",
    "rolled back",
    "rolled back and spent",
    "cut",
    "connection lost",
    "server crash",
)
_KILLS = 3  # so many kills for one of each other kind
_AT_ONCE = 0.3  # the share of signals that come at the step itself
_WEIGHTS = (1, 1, 1, 1, 1 / 3)  # of the phases: when all is over there is little to break
_WITHIN = {  # the phases in which a kind of fault can begin and still be felt
    "full disk": (0, 2),
    "full ledger": (0, 3),
    "file limit": (0, 3),
    "sync fails": (0, 3),
    "rename fails": (0, 2),
    "entry fails": (0, 3),
    "entry doubtful": (0, 3),
    "rolled back": (1, 4),
    "rolled back and spent": (1, 4),
}
_ON_FOLDERS = ("full disk", "sync fails", "rename fails")
_ON_FILES = ("full ledger", "cut")
_ON_SERVERS = ("connection lost", "server crash")


@dataclass(slots=True)
class Tally:
    """What came of the faults of one kind."""

    faults: int = 0
    phases: Counter[str] = field(default_factory=Counter)
    unfelt: int = 0
    wrong: Counter[str] = field(default_factory=Counter)

    def add(self, struck: Struck) -> None:
        """One fault more."""
        self.faults += 1
        if struck.phase is None:
            self.unfelt += 1
        else:
            self.phases[PHASES[struck.phase]] += 1
        self.wrong.update({kind: 1 for kind, found in struck.verdict.wrong.items() if found})


class Campaign:
    """Faults of all kinds on all jobs and databases, in an order that a seed decides."""

    def __init__(
        self,
        ground: Ground,
        databases: Sequence[str],
        seed: int,
        twin: str | None = None,
        jobs: Sequence[str] = tuple(JOBS),
        kinds: Sequence[str] = KINDS,
    ) -> None:
        self.ground, self.databases, self.seed, self.twin = ground, databases, seed, twin
        self.jobs, self.kinds = jobs, kinds
        self.by_kind = {kind: Tally() for kind in kinds}
        self.by_job = {job: Tally() for job in jobs}
        self.notes: Counter[str] = Counter()
        self.asked = self.seconds = 0.0
        self._profiles: dict[tuple[str, str], list[Step]] = {}

    @property
    def total(self) -> Tally:
        """All kinds together."""
        made = Tally()
        for tally in self.by_kind.values():
            made.faults, made.unfelt = made.faults + tally.faults, made.unfelt + tally.unfelt
            made.phases.update(tally.phases)
            made.wrong.update(tally.wrong)
        return made

    @property
    def clean(self) -> bool:
        """Whether nothing went wrong."""
        return not self.total.wrong.total()

    def run(self, seconds: float, first: int = 0, most: int | None = None) -> Iterator[str]:
        """Faults for so long, from a number on, and at most so many; a few lines for each that does harm."""
        begun, self.asked = time.monotonic(), seconds
        stop = None if most is None else first + most
        for number, fault in itertools.islice(enumerate(self._order()), first, stop):
            if time.monotonic() - begun > seconds:
                break
            yield from self._fault(number, *fault)
        self.seconds = time.monotonic() - begun

    def _fault(self, number: int, job: str, kind: str, database: str) -> Iterator[str]:
        rng = random.Random(f"{self.seed}/{number}")  # noqa: S311 - which fault is no secret
        plan = planned(rng, kind, self._profile(job, database))
        struck = strike(self.ground, job, database, plan, twin=self.twin)
        self.by_kind[kind].add(struck)
        self.by_job[job].add(struck)
        self.notes.update(struck.verdict.notes)
        if not struck.verdict.clean:
            yield f"fault {number} of seed {self.seed}: {job} on {database}, {plan}"
            yield from (f"  {kind}: {what}" for kind, found in struck.verdict.wrong.items() for what in found)
            yield f"  steps: {', '.join(step.name for step in struck.steps)}"

    def _order(self) -> Iterator[tuple[str, str, str]]:
        """Every kind on every job and database that it fits, shuffled, round after round."""
        for turn in itertools.count():
            fitting = [
                (job, kind, database)
                for job in self.jobs
                for kind in self.kinds
                for database in self.databases
                if fits(job, kind, database, self.ground)
                for _ in range(_KILLS if kind == "kill" else 1)
            ]
            random.Random(f"{self.seed} {turn}").shuffle(fitting)  # noqa: S311 - likewise
            yield from fitting

    def _profile(self, job: str, database: str) -> list[Step]:
        """The steps of a job that nobody disturbs, which must be right."""
        key = (job, database)
        if key not in self._profiles:
            struck = strike(self.ground, job, database, None)
            assert struck.verdict.clean, (key, struck.verdict.wrong)
            self._profiles[key] = list(struck.steps)
        return self._profiles[key]


def fits(job: str, kind: str, database: str, ground: Ground) -> bool:
    """Whether a kind of fault can happen to a job."""
    if kind in _ON_SERVERS:
        return database == "postgresql"
    if kind in _ON_FILES and database != "sqlite":
        return False
    if kind in ("full disk", "full ledger") and (ground.disk is None or job == "processes"):
        return False  # what processes write does not fit the small disk to begin with
    if kind in _ON_FOLDERS and not JOBS[job].folder:
        return False
    if kind == "helper killed":
        return job == "processes"
    return JOBS[job].writers == 1 or kind not in HELD


def planned(rng: random.Random, kind: str, profile: Sequence[Step]) -> Plan:
    """A fault at a random step of a random phase, and a random moment until the next."""
    steps = [step for step in profile if step.home]
    if kind == "helper killed":  # while rows are written there are helpers
        at = moment(steps, "writing rows")
        return Plan(kind, at, rng.random() * (steps[at + 1].time - steps[at].time), rng.random())
    places = {number: phase(steps[: number + 1]) for number in range(len(steps))}
    first, last = _WITHIN.get(kind, (0, 4))
    places = {number: p for number, p in places.items() if first <= p <= last}
    if kind in HELD:  # what is replaced under an open transaction goes on under no name: nobody could notice
        places = {number: p for number, p in places.items() if steps[number].name != "sealing"}
    phases = sorted(set(places.values()))
    (chosen,) = rng.choices(phases, [_WEIGHTS[p] for p in phases])
    at = rng.choice([number for number, p in places.items() if p == chosen])
    until = steps[at + 1].time if at + 1 < len(steps) else steps[at].time + 0.01
    delay = 0.0 if rng.random() < _AT_ONCE else rng.random() * (until - steps[at].time)
    return Plan(kind, at, delay, rng.random())


def moment(profile: Sequence[Step], name: str, nth: int = 0) -> int:
    """The number of a step of the process itself by its name."""
    return [number for number, step in enumerate(s for s in profile if s.home) if step.name == name][nth]


def headline(campaign: Campaign) -> str:
    """All faults in one line."""
    wrong = campaign.total.wrong
    counts = ", ".join(f"{wrong[kind]} {kind}" for kind in COUNTS[:4])
    return f"{campaign.total.faults:,} faults: {counts}"


def machine() -> str:
    """How many cores there were."""
    return f"{len(os.sched_getaffinity(0))} cores"
