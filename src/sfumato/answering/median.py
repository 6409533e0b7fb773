"""The median mechanism: questions answered by all small databases that agree with what was answered before.

Roth and Roughgarden 2010, after Prakash's survey (Figure 1), for domains so small that every database of m rows can be
listed. C holds those candidates that agree with the answers so far. For a question f (a share of the rows):

(a) r = the mean over S in C of exp(-|f(D) - f(S)| / accuracy): how well the candidates know the answer already.
(b) t = 3/4 + j gamma with j in 0 .. 0.15 / gamma, drawn with probability in proportion to 2^-j.
(c) r + noise >= t: the question is *easy*, and the answer is the median of f over C, which anyone could compute.
(d) otherwise it is *hard*: the answer is f(D) + noise, and C keeps the candidates within ``width`` of it.
(f) after ``hard`` of them it stops; and it reports failure where no candidate is left.

Formal guarantee: a session opened at a level whose loss satisfies delta(epsilon) <= delta is (epsilon, delta)-
differentially private, for questions that may depend on all earlier answers. C and t do not depend on the rows but
through answers. The weight exp(-|f(D) - f(S)| / accuracy), with f(D) = count / n and n public (or measured, see below),
moves by at most g / (n accuracy) with the count, so by at most K = ceil(2^30 g / (n accuracy)) in steps of 2^-30. Each
weight is rounded to the nearest step, so two of them are apart by at most K + 1 and what doubles err by, which is below
2^-9 of a step for accuracies of 2^-10 or more, and by a whole number: by at most s = K + 1. So is their mean, and so is
the mean rounded down. Comparing r with t is then a sparse vector with c = ``hard`` positives on whole numbers
(``sparse_vector``; t is public, so it may be part of a threshold): Pure(epsilon1 + epsilon2). Each hard answer is a
Laplace mechanism of sensitivity g on the count. Under add-remove neighbours n is measured first, at a share of epsilon,
and that measurement takes its place everywhere.

What the survey prints is another mechanism: noise afresh for every comparison and none on the threshold, so that every
easy answer costs something (``experiments/printed_median.py``). Its width, accuracy / 50, leaves no candidate at all
unless m is at least 25 / accuracy: databases of m rows answer multiples of 1 / m only. Hence ``width`` here is at least
what m rows can do.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato import check
from sfumato.answering.base import (
    MEASURED_SHARE,
    Answered,
    Noises,
    OpenMechanism,
    PreparedAnswers,
    Query,
    check_counts,
    check_scales,
    checked_counts,
    compared,
    count_move,
    counting_loss,
    measured,
    noises_for,
    packed,
    rows_known,
    shared_out,
)
from sfumato.answering.sparse_vector import Comparisons, Scales, check_positives
from sfumato.errors import ExhaustedError, ParameterError
from sfumato.numerics.types import Integers
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Composed, Laplace, Loss, Pure
from sfumato.queries.domain import Domain
from sfumato.randomness.noise import laplace_scale
from sfumato.randomness.secret import Secret

BITS = 30  # of r
_MOST_CANDIDATES = 1 << 18
_MOST_NUMBERS = 1 << 24  # candidates times cells
_LOW, _SPAN = 0.75, 0.15  # of the randomised threshold


def candidates_of(cells: int, rows: int) -> int:
    """Median mechanism: how many databases of so many rows there are over so many cells, the order of rows aside."""
    return math.comb(cells + rows - 1, rows)


def _check_listable(cells: int, rows: int) -> None:
    """Median mechanism: refuse candidate databases that cannot be listed, and say what can."""
    if _listable(cells, rows):
        return
    most_rows = max((m for m in range(1, rows) if _listable(cells, m)), default=0)
    most_cells = max((x for x in range(1, min(cells, 1 << 13)) if _listable(x, rows)), default=0)
    found = candidates_of(cells, rows)
    count = f"{found:,}" if found < 10**12 else f"more than 10^{len(str(found)) - 1}"
    raise ParameterError(
        f"there are {count} databases of {rows} rows over {cells} cells, too many to list: with {cells} cells "
        f"size can be at most {most_rows}, with size={rows} a domain at most {most_cells} cells; "
        "beyond that use Weights or MWEM"
    )


def _listable(cells: int, rows: int) -> bool:
    if cells > _MOST_NUMBERS or rows > _MOST_CANDIDATES:
        return False
    found = candidates_of(cells, rows)
    return found <= _MOST_CANDIDATES and found * cells <= _MOST_NUMBERS


def candidates(cells: int, rows: int) -> NDArray[np.int16]:
    """Median mechanism: all databases of so many rows over so many cells, as histograms (databases, cells)."""
    found = np.zeros((1, 0), np.int16)
    left = np.full(1, rows)
    for _ in range(cells - 1):
        repeats = left + 1
        here = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        found = np.column_stack([np.repeat(found, repeats, axis=0), here.astype(np.int16)])
        left = np.repeat(left, repeats) - here
    return np.column_stack([found, left.astype(np.int16)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Median:
    """The recipe.

    size       : m, the rows of a candidate database.
    hard       : how many questions can be hard; left out, as many as would halve the candidates down to one.
    accuracy   : the survey's epsilon, a share of the rows: answers closer than this count as right. Databases of m rows
                 answer multiples of 1/m, so an accuracy below about 8/m leaves questions hard however often asked.
    width      : how far from a hard answer candidates stay, as a share; left out, the larger of accuracy / 8 and 1/m.
    measuring  : the share of epsilon for the hard answers.
    """

    size: int = 16
    hard: int | None = None
    accuracy: float = 0.5
    width: float | None = None
    measuring: float = 0.4

    def __post_init__(self) -> None:
        check.whole(1, size=self.size)
        check.between(1, 1 << 14, size=self.size)
        check.positive(accuracy=self.accuracy, measuring=self.measuring)
        check.probability_below_one(measuring=self.measuring)
        check.between(2.0**-10, 1.0, accuracy=self.accuracy)
        if self.hard is not None:
            check_positives(hard=self.hard)
        if self.width is not None:
            check.positive(width=self.width)

    @property
    def kept(self) -> float:
        """How far from a hard answer candidates stay."""
        return max(self.accuracy / 8, 1 / self.size) if self.width is None else self.width

    @property
    def context(self) -> str:
        """The recipe in the keys of streams: as version 0.1.0 wrote it, with one field more, so that draws stay."""
        return repr(self).removesuffix(")") + ", comparison='shared')"

    def prepare(self, domain: Domain, guarantee: Guarantee) -> "PreparedMedian":
        """Refuse what cannot be listed or promised; before any data is read."""
        check_counts(guarantee)
        _check_listable(domain.size, self.size)
        halvings = math.ceil(math.log2(candidates_of(domain.size, self.size)))
        return PreparedMedian(self, domain, guarantee, self.hard or max(1, halvings))


@dataclass(frozen=True, slots=True)
class MedianParts:
    """What the parts of a session get at a level.

    comparing : epsilon of all comparisons together.
    measuring : Laplace scale of hard answers.
    counting  : Laplace scale of the number of rows, where it is protected.
    """

    comparing: float
    measuring: float
    counting: float | None


@dataclass(frozen=True, slots=True, eq=False)
class PreparedMedian(PreparedAnswers):
    """The median mechanism before calibration; level = 1 / epsilon of all parts, were they pure."""

    recipe: Median
    domain: Domain
    guarantee: Guarantee
    hard: int

    def parts(self, level: float) -> MedianParts:
        """How epsilon is shared out among comparisons and hard answers."""
        left, counting = shared_out(self.guarantee, level)
        measuring = laplace_scale(count_move(self.guarantee), left * self.recipe.measuring / self.hard)
        return MedianParts(left * (1 - self.recipe.measuring), measuring, counting)

    def loss(self, level: float) -> Loss:
        """The loss of comparing, of all hard answers, and of the number of rows if it is protected."""
        parts, move = self.parts(level), count_move(self.guarantee)
        counting = counting_loss(self.guarantee, parts.counting)
        comparing = self.comparing_loss(parts.comparing)
        return Composed([comparing, *[Laplace(move, parts.measuring)] * self.hard, *counting])

    def comparing_loss(self, epsilon: float) -> Loss:
        """What comparing costs, at this share of epsilon."""
        return Pure(Scales.of(epsilon, self.hard, 1, monotone=False)[1])

    def agreement_move(self, rows: int) -> int:
        """Most by which one unit moves the agreement r, in steps of 2^-30: as proved at the top."""
        return math.ceil(Fraction(2**BITS * count_move(self.guarantee)) / (rows * Fraction(self.recipe.accuracy))) + 1

    def comparisons(self, noises: Noises, level: float, rows: int) -> Comparisons:
        """What compares r with its threshold, in steps, once the number of rows is known."""
        scales = Scales.of(self.parts(level).comparing, self.hard, self.agreement_move(rows), monotone=False)[0]
        check_scales(self.guarantee, scales.query, scales.threshold)
        return Comparisons(noises, scales, self.hard)

    def scales(self, level: float) -> tuple[float, ...]:
        """Laplace scales of hard answers, and of the number of rows if it is protected.

        Those of comparisons need that number.
        """
        parts = self.parts(level)
        return parts.measuring, *(() if parts.counting is None else (parts.counting,))

    def begin(self, counts: ArrayLike, level: float, secret: Secret) -> "OpenMedian":
        """Open the median mechanism on a histogram of the domain."""
        context = f"{self.recipe.context} {self.hard}"
        noises = noises_for(secret, context, self.domain, self.guarantee, level)
        return OpenMedian(self, level, checked_counts(counts, self.domain), noises)


def agreement(count: int, votes: Integers, rows: int, accuracy: float) -> int:
    """Median mechanism: the rounded agreement r of candidates with the data.

    votes[j] candidates hold j of m rows in the cells, the data hold ``count`` of ``rows``.
    """
    size = len(votes) - 1
    gaps = np.abs(count / rows - np.arange(size + 1) / size)
    weights = np.rint(2.0**BITS * np.exp(-gaps / accuracy)).astype(np.int64)
    total = sum(int(v) * int(w) for v, w in zip(votes, weights, strict=True))
    return total // int(votes.sum())


class OpenMedian(OpenMechanism):
    """The median mechanism after it has read its rows."""

    rows: int

    def __init__(self, prepared: PreparedMedian, level: float, counts: Integers, noises: Noises) -> None:
        super().__init__(prepared.domain)
        self.prepared, self._counts, self._noises = prepared, counts, noises
        self._parts = prepared.parts(level)
        self.rows = rows_known(prepared.guarantee, counts, noises, self._parts.counting)
        self._comparisons = prepared.comparisons(noises, level, self.rows)
        self._scales = self._comparisons.scales
        self._left = candidates(prepared.domain.size, prepared.recipe.size)

    @property
    def remaining(self) -> int:
        """How many more questions can be hard."""
        return int(self._comparisons.left[0])

    @property
    def candidates(self) -> int:
        """How many databases agree with all hard answers; 0 is a failure, and everyone may know."""
        return len(self._left)

    def _answered(self, cells: Query) -> Answered:
        """The number of rows in the cells: the candidates' median where they agree, measured where not.

        Error: at least half of the candidates lie as far from the truth as their median does, so an answer that is
        off by x rows has r <= (1 + exp(-x / (rows accuracy))) / 2; ``margin`` adds the noise of the comparison.
        """
        self._check_left()
        question = packed(cells)
        votes = np.bincount(self._left[:, cells].sum(axis=1, dtype=np.int64), minlength=self.prepared.recipe.size + 1)
        exact = self._counts[cells].sum(keepdims=True)
        r = agreement(int(exact[0]), votes, self.rows, self.prepared.recipe.accuracy)
        # r + Z >= t + R <=> not -r - Z >= 1 - t - R
        edge = math.floor(2**BITS * self._threshold(question))
        if not self._comparisons.above(np.array([-r]), 1 - edge, question)[0]:
            return Answered(
                self._median(votes), False, None, lambda confidence: self._margin(confidence, edge), self.remaining
            )
        value = int(self._noises.added("hard answer", exact, self._parts.measuring, question)[0])
        self._keep(cells, value)
        return measured(value, self._parts.measuring, self.remaining, MEASURED_SHARE)

    def _check_left(self) -> None:
        if not self.candidates:
            raise ExhaustedError(
                "failure: no database of this size agrees with the hard answers so far; "
                "open another session with a larger size, width or epsilon, at its own cost"
            )
        if not self.remaining:
            raise ExhaustedError(
                f"failure: all {self.prepared.hard} hard questions are used up: open another session, at its own cost"
            )

    def _threshold(self, question: bytes = b"") -> float:
        """The threshold of agreement: 3/4 + j gamma, j with probability in proportion to 2^-j.

        That is the law of the remainder of a geometric number.
        """
        gamma = min(_SPAN, 4 * self._scales.query * 2.0**-BITS)
        most = math.floor(_SPAN / gamma)
        words = self._noises.words("edge of agreement", "", np.zeros(1, np.int64), question)
        return _LOW + gamma * (words.geometric() % (most + 1))

    def _median(self, votes: Integers) -> float:
        """The lower median of the candidates' answers, in rows."""
        middle = int(np.searchsorted(np.cumsum(votes), (votes.sum() + 1) // 2))
        return middle / self.prepared.recipe.size * self.rows

    def _keep(self, cells: NDArray[np.bool_], value: int) -> None:
        shares = self._left[:, cells].sum(axis=1) / self.prepared.recipe.size
        self._left = self._left[np.abs(shares - value / self.rows) <= self.prepared.recipe.kept]

    def _margin(self, confidence: float, edge: int) -> float:
        """The margin of a median, from r >= t + R - Z, all but with a small probability; infinite if unknown."""
        least = (edge - self._scales.exceeded(compared(confidence))) * 2.0**-BITS
        return math.inf if least <= 0.5 else -self.prepared.recipe.accuracy * self.rows * math.log(2 * least - 1)
