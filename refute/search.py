"""One search for all mechanisms: draw a contest, draw pairs for it, climb from the worst one, and keep what was found.

A contest is a mechanism with its settings, prepared and calibrated, and the pairs that its guarantee speaks of.
"""

import math
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator

from refute.luck import chance
from sfumato.errors import SfumatoError
from sfumato.privacy.guarantee import Guarantee

_DRAWN, _CLIMBED = 14, 14  # pairs of a contest that are drawn, and steps of the climb from the worst of them


class SkippedError(Exception):
    """Nothing can be said of this pair: both runs are refused alike, or no file can hold the table."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Realised over claimed.

    whole  : of the promise itself, epsilon at its delta; None where no closed form says it.
    stage  : of what a single stage says that one unit moves; None where there are no stages.
    exact  : whether ``whole`` comes from integers alone, so that nothing above 1 is forgiven.
    fault  : what depended on the data beside the noise.
    """

    whole: Fraction | float | None = None
    stage: float | None = None
    exact: bool = True
    fault: str = ""
    slack: float = 1e-9

    @property
    def reach(self) -> float:
        """How close to a refutation, or beyond."""
        known = [float(share) for share in (self.whole, self.stage) if share is not None]
        return math.inf if self.fault else max(known, default=0.0)

    @property
    def refuted(self) -> bool:
        """Whether more was lost than claimed."""
        most = 1 if self.exact else 1 + self.slack
        whole, stage = self.whole is not None and self.whole > most, (self.stage or 0.0) > 1 + self.slack
        return bool(self.fault) or whole or stage


class Contest(Protocol):
    """A mechanism that is ready to run, and the neighbours it speaks of."""

    @property
    def settings(self) -> str:
        """In one line."""
        ...

    def draw(self, luck: Generator) -> Any:
        """A pair of neighbours."""
        ...

    def changed(self, luck: Generator, pair: Any) -> Any:
        """Another one, close to it."""
        ...

    def measure(self, pair: Any) -> Measured:
        """Run on both; raises SkippedError."""
        ...


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the table: a mechanism, and how its contests are drawn. ``exact`` says what its numbers come from."""

    name: str
    contest: Callable[[Generator], Contest]


@dataclass(slots=True)
class Tally:
    """What was found of a line."""

    name: str
    contests: int = 0
    refused: int = 0
    pairs: int = 0
    seconds: float = 0.0
    whole: float | None = None
    stage: float | None = None
    reach: float = 0.0
    settings: str = ""
    refuted: list[str] = field(default_factory=list)

    def keep(self, found: Measured, contest: Contest, pair: Any, number: int) -> None:
        """Count a pair, and remember the worst."""
        self.pairs += 1
        self.whole, self.stage = _larger(self.whole, found.whole), _larger(self.stage, found.stage)
        if found.reach > self.reach:
            self.reach, self.settings = found.reach, contest.settings
        if found.refuted:
            share = "a fault" if found.fault else f"{found.reach!r} of the claim"
            self.refuted.append(f"{self.name}, contest {number}: {share}. {found.fault} {contest.settings} {pair!r}")


def _larger(one: float | None, two: Fraction | float | None) -> float | None:
    return one if two is None else float(two) if one is None else max(one, float(two))


def luck_of(seed: int, line: str, number: int) -> Generator:
    """The randomness of one contest: the same wherever and whenever it is searched."""
    return np.random.default_rng([seed, zlib.crc32(line.encode()), number])


def try_contest(line: Line, seed: int, number: int, tally: Tally) -> None:
    """Draw a contest, then pairs of it, then climb."""
    luck, start = luck_of(seed, line.name, number), time.monotonic()
    tally.contests += 1
    try:
        contest = line.contest(luck)
    except SfumatoError:
        tally.refused += 1
    else:
        _climb(contest, luck, number, tally)
    tally.seconds += time.monotonic() - start


def _climb(contest: Contest, luck: Generator, number: int, tally: Tally) -> None:
    best, reached = None, -1.0
    for step in range(_DRAWN + _CLIMBED):
        fresh = best is None or step < _DRAWN or chance(luck, 0.05)
        pair = contest.draw(luck) if fresh else contest.changed(luck, best)
        try:
            found = contest.measure(pair)
        except SkippedError:
            continue
        tally.keep(found, contest, pair, number)
        if found.reach >= reached:
            best, reached = pair, found.reach
        if found.refuted:
            return


def for_seconds(lines: list[Line], seconds: float, seed: int, said: Callable[[str], None]) -> list[Tally]:
    """Contests of all lines, always of the one that has had the least time, until the time is over."""
    tallies, end = [Tally(line.name) for line in lines], time.monotonic() + seconds
    while time.monotonic() < end:
        place = min(range(len(lines)), key=lambda i: tallies[i].seconds)
        before = len(tallies[place].refuted)
        try_contest(lines[place], seed, tallies[place].contests, tallies[place])
        for text in tallies[place].refuted[before:]:
            said(f"REFUTED {text}")
    return tallies


def for_contests(line: Line, count: int, seed: int) -> Tally:
    """So many contests of one line that are not refused, whatever time they take."""
    tally = Tally(line.name)
    while tally.contests - tally.refused < count:
        try_contest(line, seed, tally.contests, tally)
    return tally


# ---- words ----------------------------------------------------------------------------------------------------------


def brief(value: Any) -> str:
    """A recipe with what is not at its default."""
    given = [
        f"{f.name}={brief(held) if hasattr(held, '__dataclass_fields__') else repr(held)}"
        for f in fields(value)
        if f.init and f.name not in ("seed", "workload", "schema") and (held := getattr(value, f.name)) != f.default
    ]
    return f"{type(value).__name__}({', '.join(given)})"


def terms_of(guarantee: Guarantee) -> str:
    """A guarantee in a few words."""
    change = guarantee.allowed_change
    words = [guarantee.unit, guarantee.neighbours]
    words += [f"{change.kind} within {change.radius:.3g}"] if change.radius else []
    words += [f"group {guarantee.group}"] if guarantee.group > 1 else []
    words += [f"epsilon {guarantee.epsilon:g}"] + ([f"delta {guarantee.delta:g}"] if guarantee.delta else [])
    return ", ".join(words)
