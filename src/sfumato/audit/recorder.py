"""A tape of every draw of a run: what was fed to it, by which law, and what came out; and its replay on other data.

Recording: the run's own streams are drawn from, but keyed without the integers that get the noise, so that another run
on other data meets the same noise. Replaying: each draw gives what makes its outcome the recorded one (noise that is
recorded outcome less what is fed now; the recorded answers; the recorded choice). So whatever a mechanism publishes by
way of its noise alone comes out the same to the bit, and every difference is something else that depends on the data.

Nothing of this can touch a real release: the functions that draw are replaced while a tape runs, but only streams that
come from a tape's own secret, which is a testing twin and marked as such, are treated differently.
"""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import numpy as np

from sfumato.numerics.types import Integers
from sfumato.randomness import noise, private_selection, randomized_choice
from sfumato.randomness.secret import Context, Secret, Words

Law = Literal["laplace", "gaussian", "response", "choice", "flips"]
Place = tuple[str, ...]

_patching = threading.RLock()


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """One draw of noise.

    place    : the parameters and positions that its stream belongs to; the first word names the mechanism's stage.
    scale    : of the noise in steps; the epsilon of an answer; the rate of a choice, or of permute-and-flip's coins.
    options  : how many answers there are, or the bits of a choice's scores.
    fed      : the integers that got the noise, were answered, or were the scores.
    came     : what came of them.
    """

    place: Place
    law: Law
    scale: float
    options: int
    fed: Integers
    came: Integers

    @property
    def kind(self) -> tuple[Law, float, int, tuple[int, ...]]:
        """What must not depend on the data."""
        return self.law, self.scale, self.options, self.fed.shape


@dataclass(slots=True, eq=False)
class Tape:
    """Draws by the place of their stream and their number within it; ``faults`` is what a replay met beside them.

    settle : whether a replay makes every outcome the recorded one. Otherwise the noise alone is the same.
    """

    draws: dict[tuple[Place, int], Draw] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    settle: bool = True
    source: "Tape | None" = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _streams: set[Place] = field(default_factory=set)

    def replay(self, *, settle: bool = True) -> "Tape":
        """A tape that records in turn, and gives the outcomes of this one."""
        return Tape(source=self, settle=settle)

    def opened(self, place: Place) -> None:
        """Note a stream; two streams of one place would share their noise."""
        with self._lock:
            if place in self._streams:
                self.faults.append(f"two streams of {place[0].split(' ')[0]!r} have the same place: they share noise")
            self._streams.add(place)

    def noted(self, draw: Draw, number: int) -> Integers:
        """Keep a draw; what shall come of it."""
        came = draw.came if self.source is None else self._recorded(draw, number)
        with self._lock:
            self.draws[draw.place, number] = Draw(draw.place, draw.law, draw.scale, draw.options, draw.fed, came)
        return came

    def _recorded(self, draw: Draw, number: int) -> Integers:
        assert self.source is not None
        recorded = self.source.draws.get((draw.place, number))
        if recorded is None or recorded.kind != draw.kind:
            what = "was not there before" if recorded is None else "had another law, scale or size before"
            with self._lock:
                self.faults.append(f"a draw of {draw.law} noise for {stage(draw)!r} {what}")
            return draw.came
        return recorded.came if self.settle else draw.came

    def missing(self) -> list[str]:
        """Draws of the recorded run that this one did not make."""
        gone = [] if self.source is None else [d for key, d in self.source.draws.items() if key not in self.draws]
        return [f"a draw of {draw.law} noise for {stage(draw)!r} is no longer there" for draw in gone]


def stage(draw: Draw) -> str:
    """Which part of which mechanism drew: the first two words of its parameters."""
    return " ".join(draw.place[0].split(" ")[:2])


class _Stream:
    """Words of one place that remember what they are for; a duck of ``Words``."""

    def __init__(self, words: Words, tape: Tape, place: Place, integers: Integers | None) -> None:
        self.words, self.tape, self.place = words, tape, place
        self._integers = None if integers is None else np.atleast_2d(integers).copy()
        self._column = self.number = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.words, name)

    def fed(self, size: int) -> Integers:
        """The integers of the next ``size`` draws: the next columns of what the stream belongs to."""
        if self._integers is None or size % max(1, len(self._integers)):
            self.tape.faults.append(f"noise of {self.place[0].split(' ')[0]!r} is drawn for no known integers")
            return np.zeros(size, np.int64)
        first = self._column
        self._column += size // max(1, len(self._integers))
        return self._integers[:, first : self._column].ravel()

    def settled(self, law: Law, scale: float, options: int, fed: Integers, came: Integers) -> Integers:
        """Tell the tape; what shall come."""
        self.number += 1
        return self.tape.noted(Draw(self.place, law, scale, options, fed, came), self.number)


class TapeSecret(Secret):
    """A testing secret whose streams report to a tape, and do not depend on the integers of their context."""

    __slots__ = ("tape",)
    tape: Tape

    def words(self, *context: Context) -> Words:
        """The stream of the context without its arrays."""
        plain = [part for part in context if not isinstance(part, np.ndarray)]
        arrays = [part for part in context if isinstance(part, np.ndarray)]
        place = tuple(str(part) for part in plain)
        self.tape.opened(place)
        stream = _Stream(Secret.words(self, *plain), self.tape, place, arrays[-1] if arrays else None)
        return cast("Words", stream)


def secret(tape: Tape, seed: int = 1) -> TapeSecret:
    """The secret that a recorded run is given; ``running`` must be entered around it."""
    made = TapeSecret.for_testing(seed)
    made.tape = tape
    return made


@contextlib.contextmanager
def running() -> Iterator[None]:
    """While it lasts, draws from a tape's streams are told to the tape; all other streams are drawn from as ever."""
    with _patching:
        honest = noise.laplace, noise.gaussian, randomized_choice.respond, randomized_choice.choose
        coins = private_selection.permute_and_flip
        noise.laplace, noise.gaussian = _added("laplace", honest[0]), _added("gaussian", honest[1])
        randomized_choice.respond, randomized_choice.choose = _responding(honest[2]), _choosing(honest[3])
        private_selection.permute_and_flip = _flipping(coins)
        try:
            yield
        finally:
            noise.laplace, noise.gaussian, randomized_choice.respond, randomized_choice.choose = honest
            private_selection.permute_and_flip = coins


def _added(law: Law, honest: Any) -> Any:
    def draw(words: Any, size: int, scale: float) -> Integers:
        if not isinstance(words, _Stream):
            return cast("Integers", honest(words, size, scale))
        drawn, fed = honest(words.words, size, scale), words.fed(size)
        return words.settled(law, scale, 0, fed, fed + drawn) - fed

    return draw


def _responding(honest: Any) -> Any:
    def respond(words: Any, codes: Integers, categories: int, epsilon: float) -> Integers:
        if not isinstance(words, _Stream):
            return cast("Integers", honest(words, codes, categories, epsilon))
        answers = honest(words.words, codes, categories, epsilon)
        return words.settled("response", epsilon, categories, np.array(codes), answers)

    return respond


def _choosing(honest: Any) -> Any:
    def choose(words: Any, scores: Sequence[int], rate: float, *, bits: int = 0) -> int:
        if not isinstance(words, _Stream):
            return cast("int", honest(words, scores, rate, bits=bits))
        chosen = np.array([honest(words.words, scores, rate, bits=bits)])
        return int(words.settled("choice", rate, bits, np.array(scores, np.int64), chosen)[0])

    return choose


def _flipping(honest: Any) -> Any:
    def flip(words: Any, scores: Any, *, epsilon: float, sensitivity: int, monotone: bool = False) -> int:
        terms = {"epsilon": epsilon, "sensitivity": sensitivity, "monotone": monotone}
        if not isinstance(words, _Stream):
            return cast("int", honest(words, scores, **terms))
        chosen = np.array([honest(words.words, scores, **terms)])
        rate = private_selection._rate(epsilon, sensitivity, monotone)
        return int(words.settled("flips", rate, 0, np.array(scores, np.int64), chosen)[0])

    return flip
