"""One fault: a new ledger, a job in a process of its own, something that goes wrong, and the judge."""

import os
import shutil
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from faults import disk, injuries
from faults.child import act
from faults.context import CONTEXT
from faults.jobs import JOBS, Job, Place
from faults.judge import Verdict, Witness, judge, judge_robbed
from faults.server import Server
from faults.steps import ENDED, FELT, HELD, MOMENT, RESERVED, SIGNALS, Plan, Step, phase
from sfumato.ledger.ledger import Ledger

_PATIENCE = 120.0  # seconds for one job, whatever is done to it
_OVERTAKEN = 20.0  # seconds for others to overtake one that is stopped
_ENTRIES = 2  # of a new ledger
_STARVED = ("full disk", "full ledger", "file limit")
_RAISED = ("sync fails", "rename fails", "entry fails", "entry doubtful")


@dataclass(frozen=True, slots=True)
class Ground:
    """Where faults are made: a folder to fill, the folder of the data, a small disk and a server if there are any."""

    folder: Path
    data: Path
    disk: Path | None = None
    server: Server | None = None


@dataclass(frozen=True, slots=True)
class Struck:
    """What came of a fault: the verdict, the phase that it hit (None if it was not felt), and what was told."""

    verdict: Verdict
    phase: int | None
    steps: Sequence[Step]


@dataclass(slots=True, eq=False)
class _Watched:
    """A process, and what it has told so far."""

    process: Any
    line: Connection
    out: Path
    steps: list[Step] = field(default_factory=list)
    struck: float | None = None

    def listen(self) -> Step | None:
        """What it tells next; None at its end."""
        try:
            step: Step = self.line.recv()
        except (EOFError, OSError):
            return None
        self.steps.append(step)
        return step

    def drain(self) -> None:
        """What it told before it ended."""
        while self.line.poll(0) and self.listen() is not None:
            pass


def strike(ground: Ground, name: str, database: str, plan: Plan | None, *, twin: str | None = None) -> Struck:
    """Do a job on a new ledger, hurt it as planned (or not at all), and judge what is left."""
    job, folder = JOBS[name], ground.folder / "fault"
    fault = None if plan is None else plan.fault
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    small = None if ground.disk is None else ground.disk / "fault"
    if small is not None:
        shutil.rmtree(small, ignore_errors=True)
        small.mkdir()
    outs = small if fault == "full disk" and small is not None else folder
    within = small if fault == "full ledger" and small is not None else folder
    place = str(within / "budget.db") if database == "sqlite" else _emptied(ground)
    expected = _new_ledger(place, job)
    if plan is not None and fault in ("full disk", "full ledger"):
        plan = replace(plan, disk=ground.disk)
    watched = [
        _started(name, Place(place, outs / f"{number}.release", ground.data), plan if number == 0 else None, twin)
        for number in range(job.writers)
    ]
    try:
        hung = _attend(watched, plan, place, ground)
    finally:
        _end(watched)
        if ground.disk is not None:
            disk.free(ground.disk)
    verdict, hit = _judged(place, job, watched, plan, expected)
    if hung:
        verdict.find("hung", "a process did not end")
    return Struck(verdict, hit, watched[0].steps)


def _emptied(ground: Ground) -> str:
    assert ground.server is not None
    return ground.server.emptied()


def _new_ledger(place: str, job: Job) -> str:
    """A ledger with one dataset; the hash of its last entry."""
    ledger = Ledger.create(place)
    ledger.add_dataset("people", replace(job.promise, epsilon=job.cap / 2))
    ledger.set_cap("people", replace(job.promise, epsilon=job.cap))
    return ledger.verify()[1]


def _started(name: str, place: Place, plan: Plan | None, twin: str | None) -> _Watched:
    here, there = CONTEXT.Pipe()
    process = CONTEXT.Process(target=act, args=(name, place, plan, twin, there), daemon=False)
    process.start()
    there.close()
    return _Watched(process, here, place.out)


def _attend(watched: Sequence[_Watched], plan: Plan | None, place: str, ground: Ground) -> bool:
    """Listen until all have ended, and hurt one at its moment; whether one had to be ended."""
    deadline = time.monotonic() + _PATIENCE
    living = list(watched)
    while living:
        waited: list[Any] = [one.line for one in living] + [one.process.sentinel for one in living]
        ready = wait(waited, max(0.0, deadline - time.monotonic()))
        if not ready:
            return True
        for one in list(living):
            if one.line in ready:
                step = one.listen()
                if step is not None and step.name == MOMENT:
                    assert plan is not None
                    if plan.fault == "pause" and plan.amount < 0.5:
                        _pass(watched, one)
                    _injure(one, plan, place, ground)
                if step is not None:
                    continue
            if one.line in ready or one.process.sentinel in ready:
                one.process.join()
                one.drain()
                living.remove(one)
    return False


def _pass(watched: Sequence[_Watched], one: _Watched) -> None:
    """Let the others go on while one waits, until all of them have spent something or ended."""
    deadline = time.monotonic() + _OVERTAKEN
    for other in watched:
        while other is not one and not {RESERVED, ENDED} & {step.name for step in other.steps}:
            if not other.line.poll(max(0.0, deadline - time.monotonic())) or other.listen() is None:
                break


def _injure(one: _Watched, plan: Plan, place: str, ground: Ground) -> None:
    """What is done from outside once a process has come to its moment."""
    pid = one.process.pid
    if plan.fault in SIGNALS:
        one.struck = injuries.signalled(pid, plan)
    elif plan.fault in ("pause", "pause and void"):
        one.struck = injuries.paused(pid, plan, place)
    elif plan.fault == "helper killed":
        one.struck = injuries.helper_killed(pid, plan)
    elif plan.fault in ("connection lost", "server crash"):
        assert ground.server is not None
        one.struck = injuries.server_hurt(ground.server, plan)
    elif plan.fault in HELD:
        one.struck = injuries.robbed(place, plan, _ENTRIES)
        with suppress(OSError):
            one.line.send("go on")


def _end(watched: Sequence[_Watched]) -> None:
    """End what is left of the processes and of their forks."""
    for one in watched:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(one.process.pid, signal.SIGKILL)
        one.process.kill()
        one.process.join()
        one.drain()
        one.line.close()


def _judged(
    place: str, job: Job, watched: Sequence[_Watched], plan: Plan | None, expected: str
) -> tuple[Verdict, int | None]:
    first = watched[0]
    struck = None if plan is None else _felt(first, plan)
    witnesses = [Witness(one.out, one.steps, struck if one is first else None) for one in watched]
    hit = None if struck is None else phase(witnesses[0].before())
    if plan is not None and plan.fault in HELD and struck is not None:
        return judge_robbed(place, job, witnesses[0], expected), hit
    return judge(place, job, witnesses, expected), hit


def _felt(one: _Watched, plan: Plan) -> float | None:
    """When a process felt its fault: a signal when it was sent, a failure when it was raised, hunger in the end."""
    ended = next((step for step in one.steps if step.name == ENDED), None)
    if plan.fault in _RAISED:
        return next((step.time for step in one.steps if step.name == FELT), None)
    if plan.fault in _STARVED:
        return None if ended is None or ended.detail == "" else ended.time
    return one.struck
