"""What mechanisms share that answer questions one by one: counts of a finite domain, answers, and noise for each.

Such a mechanism has a loss that is fixed before any row is read and is charged once, when it starts; what it is asked
afterwards may depend on all of its answers. A question is one truth for each cell of the domain, its true answer the
number of rows in the cells that are true.

What one unit moves (g = ``group``, the rows of one person):

====================  ===========  =========
..                    add-remove   replace
====================  ===========  =========
a count               g            g
disjoint counts, l1   g            2 g
the number of rows    g            0: public
====================  ===========  =========
"""

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.numerics.types import Integers
from sfumato.privacy.calibration import Family
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Laplace, Loss
from sfumato.queries.domain import Domain
from sfumato.queries.histogram import SyntheticHistogram
from sfumato.randomness import noise
from sfumato.randomness.noise import laplace_scale
from sfumato.randomness.secret import Secret, Words
from sfumato.tables.blocks import Rows

Query = NDArray[np.bool_]

COUNT_SHARE = 0.05  # of epsilon, for the number of rows where it is protected
COMPARED_SHARE = 0.2  # of what intervals may miss, for answers from what was known; measured ones have the rest
MEASURED_SHARE = 1 - COMPARED_SHARE
_LARGEST = 1 << 53  # rows: counts stay exact in doubles, too


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to one question.

    value         : the estimated number of rows; None where the question was only compared with a threshold.
    positive      : above the threshold; hard; not to be told from what was known before.
    laplace_scale : of the noise on the value, if it is the question's own count with noise; None otherwise.
    margin        : given a confidence, how far the value is from the truth at most, but for that probability; None
                    where nothing is promised.
    remaining     : how many more positive answers there can be.
    missing       : the share that a measured value has of what its interval may miss. Below 1 where a question may also
                    be answered from what was known: its truth is then missed by either answer, so the two share.
    """

    value: float | None
    positive: bool
    laplace_scale: float | None
    margin: Callable[[float], float] | None
    remaining: int
    missing: float = 1.0


def measured(value: int, laplace_scale: float, remaining: int, missing: float = 1.0) -> Answered:
    """The answer of any mechanism that measured a count: off by more than x + 1/2 with chance at most exp(-x / b).

    The noise is rounded Laplace noise of scale b.
    """

    def margin(confidence: float) -> float:
        check.probability_below_one(confidence=confidence)
        return float(-laplace_scale * np.log((1 - confidence) * missing) + 0.5)

    return Answered(float(value), True, laplace_scale, margin, remaining, missing)


def compared(confidence: float) -> float:
    """How often any answering mechanism may err in a comparison that leaves a question to what was known.

    Then a truth that is off by more than the margin is missed by that comparison with this probability, and by a
    measured count with that of ``MEASURED_SHARE``: together with 1 - confidence at most. Any other truth is missed by
    measured counts alone.
    """
    check.probability_below_one(confidence=confidence)
    return COMPARED_SHARE * (1 - confidence)


def check_counts(guarantee: Guarantee) -> None:
    """Refuse what no mechanism that answers with counts of rows can promise."""
    if guarantee.unit == "edge":
        raise ParameterError("counts protect values or records, got unit='edge': use unit='attribute' or 'record'")
    if guarantee.projection == "fresh":
        raise ParameterError("counts project nothing, so no drawn projection protects: use projection='fixed'")
    if guarantee.neighbours == "add-remove" and guarantee.unit != "record":
        raise ParameterError(
            f"what is added or removed is a whole record: unit must be 'record', got unit={guarantee.unit!r}"
        )


def count_move(guarantee: Guarantee) -> int:
    """For any answering mechanism: the most by which one unit moves a count."""
    return guarantee.group


def disjoint_move(guarantee: Guarantee) -> int:
    """For any answering mechanism: most by which one unit moves disjoint counts, together.

    A record that is replaced leaves one cell and enters another.
    """
    return guarantee.group * (2 if guarantee.neighbours == "replace" else 1)


def checked_query(query: ArrayLike, domain: Domain) -> Query:
    """A question to any answering mechanism as truths over the cells of its domain, or a refusal."""
    array = np.asarray(query)
    if array.dtype != np.bool_ or array.shape != (domain.size,):
        raise ParameterError(
            f"a question must be {domain.size} truths, one for each cell of the domain, "
            f"got shape {array.shape} of {array.dtype}"
        )
    return array


def checked_counts(counts: ArrayLike, domain: Domain) -> Integers:
    """The histogram any answering mechanism starts from: one count for each cell of the domain, or a refusal."""
    array = np.asarray(counts)
    if array.dtype.kind not in "iu" or array.shape != (domain.size,):
        raise ParameterError(f"a histogram must be {domain.size} whole numbers, got shape {array.shape}")
    if array.size and (array.min() < 0 or array.sum(dtype=object) > _LARGEST):
        raise ParameterError(f"a histogram must hold counts of at least 0 and at most {_LARGEST} rows together")
    return array.astype(np.int64)


class Live:
    """What has read private rows and draws noise as it goes: it is one, in the process that made it.

    Two copies of it, one of them in a forked process or not, would each have all that was paid for once, and draw the
    same noise. So copies and pickles are refused, and so is any question in another process.
    """

    def __init__(self) -> None:
        self._process, self._one = os.getpid(), threading.Lock()

    @property
    def at_home(self) -> bool:
        """Whether the answering mechanism is in the process that opened it."""
        return os.getpid() == self._process

    def check_home(self) -> None:
        """Refuse answers in another process than the one that opened the mechanism."""
        if not self.at_home:
            raise ParameterError(
                "this session belongs to the process that opened it, and answers there alone: "
                "two of it would use noise twice; open another, at its own cost"
            )

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Answer one question at a time, whatever threads there are."""
        self.check_home()
        with self._one:
            yield

    def __reduce__(self) -> NoReturn:
        """Neither ``copy`` nor ``pickle`` gets a second one of an answering mechanism."""
        raise ParameterError(
            "an open session can be neither copied nor pickled: two of it would use noise twice; "
            "ask this one, or open another, at its own cost"
        )


class Noises(Live):
    """Exact Laplace noise for one step after another, each from a stream of its own.

    A stream is keyed by the step, which is never repeated, by the parameters, by the integers that get the noise
    (``secret`` says why) and by the question, if any. The step alone tells streams apart for as long as there is one of
    this, which ``Live`` sees to. The question is there for what might yet go round that: what two of this draw for
    different questions at one step is independent, but the noise of a threshold, drawn before any, would be the same.
    """

    def __init__(self, secret: Secret, parameters: str) -> None:
        super().__init__()
        self.secret, self.parameters, self.step = secret, parameters, 0

    def added(self, stage: str, exact: Integers, laplace_scale: float, question: bytes = b"") -> Integers:
        """Counts with the noise of an answering mechanism's next step; ``stage``: a word or two for what they are."""
        words = self.words(stage, laplace_scale.hex(), exact, question)
        return exact + words.laplace(exact.size, laplace_scale)

    def words(self, stage: str, options: str, exact: Integers, question: bytes = b"") -> Words:
        """The stream of an answering mechanism's next step."""
        self.check_home()
        self.step += 1
        asked = (question,) if question else ()
        return self.secret.words(f"{stage} {options} {self.parameters}", self.step, *asked, exact)


def packed(cells: Query) -> bytes:
    """A question to an answering mechanism as bytes, for the key of its noise."""
    return np.packbits(cells).tobytes()


def noises_for(secret: Secret, context: str, domain: Domain, guarantee: Guarantee, level: float) -> Noises:
    """The noise of one answering mechanism at one level; ``context``: what tells its recipe from others."""
    return Noises(secret, f"{context} {guarantee!r} {domain.schema.digest} {level.hex()}")


class OpenMechanism(Live, ABC):
    """A mechanism that has read its rows and answers questions about the cells of a domain.

    rows : how many there are: exact where that is public, measured where it is protected, None where it is not told.
    """

    rows: int | None = None

    def __init__(self, domain: Domain) -> None:
        super().__init__()
        self._domain = domain

    @property
    @abstractmethod
    def remaining(self) -> int:
        """How many more questions any answering mechanism can measure."""

    @property
    def histogram(self) -> SyntheticHistogram | None:
        """What is known, for everyone, where the answering mechanism keeps a histogram."""
        return None

    def ask(self, query: ArrayLike) -> Answered:
        """The answer of any mechanism to one question, or ExhaustedError."""
        cells = checked_query(query, self._domain)
        with self.turn():
            return self._answered(cells)

    @abstractmethod
    def _answered(self, cells: Query) -> Answered: ...


class PreparedAnswers(Family, Protocol):
    """A mechanism that will read its rows once, and be charged whole; a family of losses that fall with the level."""

    __slots__ = ()

    if TYPE_CHECKING:  # fields: a dataclass would take a property here for their default

        @property
        def domain(self) -> Domain:
            """Which cells questions are about."""
            ...

        @property
        def guarantee(self) -> Guarantee:
            """What it was prepared to promise."""
            ...

    def scales(self, level: float) -> tuple[float, ...]:
        """Any answering mechanism: the Laplace scales of all noise that are known before a row is read."""
        ...

    def begin(self, counts: ArrayLike, level: float, secret: Secret) -> OpenMechanism:
        """Open any answering mechanism on a histogram. Guarantee: the loss of ``level``, whatever is asked."""
        ...

    def start(self, rows: Rows, level: float, secret: Secret) -> OpenMechanism:
        """Read the rows once; then ask any questions. Guarantee: the loss of ``level``, whatever is asked."""
        check_scales(self.guarantee, *self.scales(level))
        return self.begin(self.domain.histogram(rows), level, secret)


def check_scales(guarantee: Guarantee, *scales: float) -> None:
    """Refuse, in any answering mechanism, noise that cannot be drawn, before a row is read."""
    if not all(noise.SMALLEST_SCALE <= scale <= noise.LARGEST_SCALE for scale in scales):
        raise ParameterError(
            f"epsilon={guarantee.epsilon!r} asks for noise outside the exact sampler's range "
            f"({noise.SMALLEST_SCALE:g} to {noise.LARGEST_SCALE:g} rows): choose another epsilon, or fewer steps"
        )


def shared_out(guarantee: Guarantee, level: float) -> tuple[float, float | None]:
    """Any answering mechanism: of 1 / level, what is left for questions, and the Laplace scale of the number of rows.

    None where that number is public.
    """
    if guarantee.neighbours == "replace":
        return 1.0 / level, None
    return (1 - COUNT_SHARE) / level, laplace_scale(count_move(guarantee), COUNT_SHARE / level)


def counting_loss(guarantee: Guarantee, laplace_scale: float | None) -> list[Loss]:
    """What any answering mechanism pays for the number of rows: a Laplace loss if protected, nothing if public."""
    return [] if laplace_scale is None else [Laplace(count_move(guarantee), laplace_scale)]


def rows_known(guarantee: Guarantee, counts: Integers, noises: Noises, laplace_scale: float | None) -> int:
    """The number of rows that any answering mechanism uses: exact if public, with noise if protected; at least 1."""
    exact = np.array([counts.sum()])
    if guarantee.neighbours == "replace":
        return max(1, int(exact[0]))
    assert laplace_scale is not None
    return max(1, int(noises.added("row count", exact, laplace_scale)[0]))
