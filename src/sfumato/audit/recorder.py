"""A tape of every draw of a run: what was fed to it, by which law, and what came out; and its replay on other data.

Recording: the run's own streams are drawn from, but keyed without the integers that get the noise, so that another run
on other data meets the same noise. Replaying: each draw gives what makes its outcome the recorded one (noise that is
recorded outcome less what is fed now; the recorded answers; the recorded choice). So whatever a mechanism publishes by
way of its noise alone comes out the same to the bit, and every difference is something else that depends on the data.

A tape is a secret that hands out streams which record, so nothing is replaced, and no other stream is touched. What
it sees, of a run in the threads of one process:

- each draw of noise, answer or choice, in ``Tape.draws``. A replay settles these, and no others;
- each draw that protects nothing by itself (coins, uniform and geometric numbers, normal doubles, keys), in
  ``Tape.beside``. A replay gives what the words say, so data that show through them show in what is published;
- words that were taken in any other way, as a fault: nobody can say what they are for.

Nothing of this can touch a real release: the secret is a testing one, and marked as such.
"""

import functools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NoReturn, Self, TypeVar

import numpy as np

from sfumato.errors import ParameterError
from sfumato.numerics.types import Floats, Integers
from sfumato.randomness.secret import Context, Secret, Words

Law = Literal[
    "laplace",
    "discrete laplace",
    "gaussian",
    "response",
    "choice",
    "flips",
    "coins",
    "uniform",
    "geometric",
    "normals",
    "key",
]
Place = tuple[str, ...]
Data = TypeVar("Data")
Result = TypeVar("Result")

_NOTHING = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """One draw.

    place    : the parameters and positions that its stream belongs to; the first word names the mechanism's stage.
    scale    : of the noise in steps; the epsilon of an answer; the rate of a choice, or of permute-and-flip's coins.
    options  : how many answers or numbers there are, or the bits of a choice's scores or of a coin.
    fed      : the integers that got the noise, were answered, were the scores, or the weights of coins.
    came     : what came of them; nothing of normal doubles and keys.
    """

    place: Place
    law: Law
    scale: float
    options: int
    fed: Integers
    came: Integers

    @property
    def kind(self) -> tuple[Law, float, int, tuple[int, ...], tuple[int, ...]]:
        """What of a recorded draw must not depend on the data."""
        return self.law, self.scale, self.options, self.fed.shape, self.came.shape


Draws = dict[tuple[Place, int], Draw]


@dataclass(slots=True, eq=False)
class Tape:
    """Draws by the place of their stream and their number within it; ``faults`` is what a run met beside them.

    draws  : noise, answers and choices, which protect what was fed to them.
    beside : all other draws.
    settle : whether a replay makes every outcome the recorded one. Otherwise the noise alone is the same.
    """

    draws: Draws = field(default_factory=dict)
    beside: Draws = field(default_factory=dict)
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
                self.faults.append(f"two streams of {_mechanism(place)} have the same place: they share noise")
            self._streams.add(place)

    def noted(self, draw: Draw, number: int) -> Integers:
        """Keep a draw that protects on the tape; what shall come of it."""
        recorded = self._recorded(draw, number, None if self.source is None else self.source.draws)
        came = draw.came if recorded is None or not self.settle else recorded.came
        with self._lock:
            self.draws[draw.place, number] = Draw(draw.place, draw.law, draw.scale, draw.options, draw.fed, came)
        return came

    def noted_beside(self, draw: Draw, number: int) -> None:
        """Keep any other draw on the tape. What came of it stays."""
        self._recorded(draw, number, None if self.source is None else self.source.beside)
        with self._lock:
            self.beside[draw.place, number] = draw

    def _recorded(self, draw: Draw, number: int, draws: Draws | None) -> Draw | None:
        """The same draw of the recorded run, for a replay."""
        if draws is None:
            return None
        recorded = draws.get((draw.place, number))
        if recorded is None or recorded.kind != draw.kind:
            what = "was not there before" if recorded is None else "had another law, scale or size before"
            with self._lock:
                self.faults.append(f"a draw of {draw.law} for {stage(draw)!r} {what}")
            return None
        return recorded

    def missing(self) -> list[str]:
        """Draws of the recorded run that this one did not make."""
        if self.source is None:
            return []
        both = (self.source.draws, self.draws), (self.source.beside, self.beside)
        gone = [draw for before, now in both for key, draw in before.items() if key not in now]
        return [f"a draw of {draw.law} for {stage(draw)!r} is no longer there" for draw in gone]


def stage(draw: Draw) -> str:
    """Of a recorded draw: which part of which mechanism drew, the first two words of its parameters."""
    return " ".join(draw.place[0].split(" ")[:2])


def _mechanism(place: Place) -> str:
    return repr(place[0].split(" ")[0])


class TapeWords(Words):
    """Words of one place that tell a tape of every draw, and what it is for."""

    __slots__ = ("_column", "_inside", "_integers", "_number", "_tape", "place")

    def __init__(self, key: bytes, tape: Tape, place: Place, integers: Integers | None) -> None:
        super().__init__(key)
        self._tape, self.place = tape, place
        self._integers = None if integers is None else np.atleast_2d(integers).copy()
        self._column = self._number = 0
        self._inside = False

    def fill(self, out: Integers) -> None:
        """The next words; a fault on the tape, unless they are for a draw."""
        self._check_inside()
        super().fill(out)

    def more(self, word: int, turn: int) -> int:
        """Further bits; a fault on the tape, unless they are for a draw."""
        self._check_inside()
        return super().more(word, turn)

    def laplace(self, size: int, laplace_scale: float) -> Integers:
        """Laplace noise, kept on the tape."""
        return self._added("laplace", size, laplace_scale, self._within(super().laplace, size, laplace_scale))

    def discrete_laplace(self, size: int, laplace_scale: float) -> Integers:
        """Discrete Laplace noise, kept on the tape."""
        drawn = self._within(super().discrete_laplace, size, laplace_scale)
        return self._added("discrete laplace", size, laplace_scale, drawn)

    def gaussian(self, size: int, scale: float) -> Integers:
        """Gaussian noise, kept on the tape."""
        return self._added("gaussian", size, scale, self._within(super().gaussian, size, scale))

    def respond(self, codes: Integers, categories: int, epsilon: float) -> Integers:
        """Randomized answers, kept on the tape."""
        answers = self._within(super().respond, codes, categories, epsilon)
        return self._settled("response", epsilon, categories, np.array(codes), answers)

    def choose(self, scores: Sequence[int] | Integers, rate: float, *, bits: int = 0) -> int:
        """A choice by the exponential mechanism, kept on the tape."""
        chosen = self._within(functools.partial(super().choose, bits=bits), scores, rate)
        return int(self._settled("choice", rate, bits, np.array(scores, np.int64), np.array([chosen]))[0])

    def choose_repeated(self, scores: Integers, counts: Integers, rate: float) -> int:
        """A choice over runs of equal scores, kept on the tape with every score as often as it stands there."""
        chosen = self._within(super().choose_repeated, scores, counts, rate)
        return int(self._settled("choice", rate, 0, np.repeat(scores, counts), np.array([chosen]))[0])

    def flip(self, scores: Sequence[int], rate: float) -> int:
        """A choice by permute-and-flip, kept on the tape."""
        chosen = self._within(super().flip, scores, rate)
        return int(self._settled("flips", rate, 0, np.array(scores, np.int64), np.array([chosen]))[0])

    def coins(self, steps: Integers, bits: int) -> Integers:
        """Coins, kept on the tape beside the noise."""
        tossed = self._within(super().coins, steps, bits)
        self._beside("coins", bits, np.array(steps), tossed)
        return tossed

    def uniform(self, size: int, count: int) -> Integers:
        """Uniform integers, kept on the tape beside the noise."""
        drawn = self._within(super().uniform, size, count)
        self._beside("uniform", count, _NOTHING, drawn)
        return drawn

    def geometric(self) -> int:
        """A geometric integer, kept on the tape beside the noise."""
        drawn = self._within(super().geometric)
        self._beside("geometric", 1, _NOTHING, np.array([drawn]))
        return drawn

    def normals(self, size: int) -> Floats:
        """That normal doubles were drawn, kept on the tape beside the noise."""
        self._beside("normals", size, _NOTHING, _NOTHING)
        return self._within(super().normals, size)

    def key(self) -> bytes:
        """That a key was drawn, kept on the tape beside the noise."""
        self._beside("key", 1, _NOTHING, _NOTHING)
        return self._within(super().key)

    def _within(self, draw: Callable[..., Result], *given: object) -> Result:
        """What a draw gives; the words that it takes are its own."""
        self._inside = True
        try:
            return draw(*given)
        finally:
            self._inside = False

    def _check_inside(self) -> None:
        if not self._inside:
            name = _mechanism(self.place)
            self._tape.faults.append(f"words of {name} are taken raw: what they are for is not on the tape")

    def _fed(self, size: int) -> Integers:
        """The integers of the next ``size`` draws: the next columns of what the stream belongs to."""
        if self._integers is None or size % max(1, len(self._integers)):
            self._tape.faults.append(f"noise of {_mechanism(self.place)} is drawn for no known integers")
            return np.zeros(size, np.int64)
        first = self._column
        self._column += size // max(1, len(self._integers))
        return self._integers[:, first : self._column].ravel()

    def _added(self, law: Law, size: int, scale: float, drawn: Integers) -> Integers:
        """Noise for the next integers."""
        fed = self._fed(size)
        return self._settled(law, scale, 0, fed, fed + drawn) - fed

    def _settled(self, law: Law, scale: float, options: int, fed: Integers, came: Integers) -> Integers:
        """Tell the tape; what shall come."""
        self._number += 1
        return self._tape.noted(Draw(self.place, law, scale, options, fed, came), self._number)

    def _beside(self, law: Law, options: int, fed: Integers, came: Integers) -> None:
        self._number += 1
        self._tape.noted_beside(Draw(self.place, law, 0.0, options, fed, came), self._number)


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
        return TapeWords(self._stream_key(*plain), self.tape, place, arrays[-1] if arrays else None)

    def _same(self, *, protected: bool, before: Callable[[], None] | None) -> Self:
        made = super()._same(protected=protected, before=before)
        made.tape = self.tape
        return made

    def __reduce__(self) -> NoReturn:
        """Refused: what other processes draw would not be on the tape."""
        raise ParameterError("a recorded run stays in one process: use engine='local'")


def secret(tape: Tape, seed: int = 1) -> TapeSecret:
    """The secret that a recorded run is given: its draws go on the tape."""
    made = TapeSecret.for_testing(seed)
    made.tape = tape
    return made


def replayed_pair(inputs: tuple[Data, Data], run: Callable[[Data, Secret], object]) -> list[tuple[Draw, Draw]]:
    """The recorded draws of a run on two inputs, the second a replay with the outcomes of the first, side by side."""
    tape = Tape()
    again = tape.replay()
    for data, taped in zip(inputs, (secret(tape), secret(again)), strict=True):
        run(data, taped)
    assert not again.faults, again.faults
    return [(draw, again.draws[key]) for key, draw in tape.draws.items()]
