"""Sparse vector: any number of questions compared with a threshold, at a price for those above it alone.

The correct form (Lyu, Su and Li 2017, Algorithms 1 and 7), on whole numbers. With c positives, sensitivity d, and all
noise rounded by floor(eta + 1/2):

  R ~ Lap(d / epsilon1), once;   question i is above  <=>  q_i + Z_i >= T_i + R,  Z_i ~ Lap(2 c d / epsilon2), afresh;
  after c positives it stops;    if numbers are wanted, a positive one is followed by q_i + Lap(c d / epsilon3), with
  noise of its own.

Formal guarantee: Pure(epsilon1 + epsilon2), and c Laplace mechanisms of epsilon3 / c beside it, for questions and
thresholds that may depend on all earlier answers. Proof. Take a transcript with answers a_1 .. a_k, and D, D' with
|q_i(D) - q_i(D')| <= d. Given R = r the answers are independent, with Pr[Z >= t] = Pr[eta >= t - 1/2] for whole t:

1. Pr[R = r] <= e^epsilon1 Pr[R = r + d] for whole d: rounding is post-processing of the Laplace mechanism.
2. below: Pr[Z < T + r - q(D)] <= Pr[Z < T + (r + d) - q(D')], since q(D') <= q(D) + d. However many there are.
3. above: Pr[Z >= T + r - q(D)] <= e^(2 d / b) Pr[Z >= T + (r + d) - q(D')]: the edge rises by at most 2 d, and the
   logarithm of the Laplace tail has slope at most 1 / b, at whole numbers less 1/2 as anywhere. At most c factors.

The sum over r of the product is at most e^(epsilon1 + 2 c d / b) times that for D'. So rounding both sides by
floor(eta + 1/2) keeps the theorem: all that is used is that thresholds, questions and d are whole numbers.

Monotone questions (between D and D' all rise, or all fall): b = c d / epsilon2 will do. If all rise, 3 needs a rise of
the edge by d only; if all fall, use r itself instead of r + d: 1 is not needed, 2 holds, and the edge rises by at most
d. Counts are monotone where a record is added or removed, and are not where one is replaced, which may leave one
question and enter another. Distances |q(D) - e| from a guess e are not monotone under either.

epsilon1 : epsilon2 = 1 : (2 c)^(2/3), monotone 1 : c^(2/3), makes the noise of the comparison smallest (section 4.2
there). Numbers: the comparisons are pure for every transcript and the numbers have noise of their own, so the two
compose as if one came after the other (Lyu 2022, on concurrent composition).
"""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from sfumato import check
from sfumato.answering.base import (
    Answered,
    Live,
    Noises,
    OpenMechanism,
    PreparedAnswers,
    Query,
    check_counts,
    checked_counts,
    checked_query,
    count_move,
    measured,
    noises_for,
    packed,
)
from sfumato.errors import ExhaustedError
from sfumato.numerics.types import Integers
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Composed, Laplace, Loss, Pure
from sfumato.queries.domain import Domain
from sfumato.randomness.noise import laplace_scale
from sfumato.randomness.secret import Secret

MOST_POSITIVES = 1 << 16
_LARGEST = 1 << 53


@dataclass(frozen=True, slots=True)
class Scales:
    """The Laplace scales of a comparison: of the threshold, drawn once, and of each question."""

    threshold: float
    query: float

    @classmethod
    def of(cls, epsilon: float, positives: int, sensitivity: int, *, monotone: bool) -> tuple[Self, float]:
        """Sparse vector's noise scales for about this epsilon; cost rounded up. Guarantee: as proved at the top."""
        factor = (1 if monotone else 2) * positives
        first = epsilon / (1 + factor ** (2 / 3))
        second = epsilon - first
        check.positive(epsilon1=first, epsilon2=second)
        scales = cls(laplace_scale(sensitivity, first), laplace_scale(factor * sensitivity, second))
        return scales, math.nextafter(first + second, math.inf)

    def exceeded(self, probability: float) -> float:
        """A value that the noise Z - R or R - Z of sparse vector exceeds with at most this probability (at most 1/2).

        For continuous noise of scales a > b: Pr[> x] = (a^2 e^(-x/a) - b^2 e^(-x/b)) / (2 (a^2 - b^2)). Rounding moves
        each of the two by at most 1/2.
        """
        small, large = sorted((self.threshold, self.query))
        large = max(large, small * (1 + 1e-6))
        a, b = large**2, small**2

        def excess(x: float) -> float:
            tail = (a * math.exp(-x / large) - b * math.exp(-x / small)) / (2 * (a - b))
            return tail - probability

        end = 2 * (large + small) * (1 - math.log(probability))
        return float(scipy.optimize.brentq(excess, 0.0, end, xtol=1e-6 * large)) + 2e-6 * large + 1


class Comparisons(Live):
    """Sparse vector in motion, for one run or for many independent ones at once (audits have many).

    Guarantee: as proved at the top, for whole values that one unit moves by at most the sensitivity of the scales.
    """

    def __init__(self, noises: Noises, scales: Scales, positives: int, runs: int = 1) -> None:
        super().__init__()
        self.noises, self.scales = noises, scales
        self.left = np.full(runs, positives)
        self.threshold = noises.added("threshold", np.zeros(runs, np.int64), scales.threshold)

    def above(self, values: Integers, threshold: int, question: bytes = b"") -> NDArray[np.bool_]:
        """Sparse vector's comparison: which runs find their value above; those that have stopped find nothing."""
        noisy = self.noises.added("comparison", values, self.scales.query, question)
        found = (noisy >= threshold + self.threshold) & (self.left > 0)
        self.left = self.left - found
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseVector:
    """The recipe: which counts reach ``threshold``; it stops after as many positives.

    numeric : the share of epsilon for the counts of the positives themselves; 0 for none.
    """

    threshold: int
    positives: int = 1
    numeric: float = 0.0

    def __post_init__(self) -> None:
        check_threshold(self.threshold)
        check_positives(positives=self.positives)
        check.probability_below_one(numeric=self.numeric)

    def prepare(self, domain: Domain, guarantee: Guarantee) -> "PreparedSparseVector":
        """Refuse what cannot be promised; before any data is read."""
        check_counts(guarantee)
        return PreparedSparseVector(self, domain, guarantee)


@dataclass(frozen=True, slots=True, eq=False)
class PreparedSparseVector(PreparedAnswers):
    """A sparse vector before calibration; level = 1 / epsilon of all its parts together."""

    recipe: SparseVector
    domain: Domain
    guarantee: Guarantee

    def parts(self, level: float) -> tuple[Scales, float, float | None]:
        """The scales of a comparison, what comparing costs, and the scale of numbers, if there are any."""
        comparing = (1 - self.recipe.numeric) / level
        move, monotone = count_move(self.guarantee), self.guarantee.neighbours == "add-remove"
        scales, cost = Scales.of(comparing, self.recipe.positives, move, monotone=monotone)
        if not self.recipe.numeric:
            return scales, cost, None
        return scales, cost, laplace_scale(move, self.recipe.numeric / level / self.recipe.positives)

    def loss(self, level: float) -> Loss:
        """The loss of comparing, and of as many numbers as there can be positives."""
        _, cost, number = self.parts(level)
        numbers = [] if number is None else [Laplace(count_move(self.guarantee), number)] * self.recipe.positives
        return Composed([Pure(cost), *numbers]) if numbers else Pure(cost)

    def scales(self, level: float) -> tuple[float, ...]:
        """Laplace scales of comparisons, and of numbers, if there are any."""
        scales, _, number = self.parts(level)
        return scales.query, scales.threshold, *(() if number is None else (number,))

    def begin(self, counts: ArrayLike, level: float, secret: Secret) -> "OpenSparseVector":
        """Open sparse vector on a histogram of the domain."""
        noises = noises_for(secret, repr(self.recipe), self.domain, self.guarantee, level)
        return OpenSparseVector(self, level, checked_counts(counts, self.domain), noises)


class OpenSparseVector(OpenMechanism):
    """A sparse vector that has read its rows. Each question counts; after the last positive it refuses."""

    def __init__(self, prepared: PreparedSparseVector, level: float, counts: Integers, noises: Noises) -> None:
        super().__init__(prepared.domain)
        self._prepared, self._counts, self._noises = prepared, counts, noises
        self._scales, _, self._number = prepared.parts(level)
        self._comparisons = Comparisons(noises, self._scales, prepared.recipe.positives)

    @property
    def remaining(self) -> int:
        """How many more positive answers (above the threshold) there can be."""
        return int(self._comparisons.left[0])

    def ask(self, query: ArrayLike, threshold: int | None = None) -> Answered:
        """Whether the number of rows in the cells reaches the threshold; the recipe's, unless told otherwise."""
        if threshold is None:
            return super().ask(query)
        check_threshold(threshold)
        cells = checked_query(query, self._prepared.domain)
        with self.turn():
            return self._compared(cells, int(threshold))

    def _answered(self, cells: Query) -> Answered:
        return self._compared(cells, self._prepared.recipe.threshold)

    def _compared(self, cells: Query, edge: int) -> Answered:
        if not self.remaining:
            raise ExhaustedError(
                f"all {self._prepared.recipe.positives} positive answers are used up: open another, at its own cost"
            )
        exact, question = self._counts[cells].sum(keepdims=True), b"%d " % edge + packed(cells)
        if not self._comparisons.above(exact, edge, question)[0]:
            return Answered(None, False, None, None, self.remaining)
        if self._number is None:
            return Answered(None, True, None, None, self.remaining)
        value = self._noises.added("number", exact, self._number, question)
        return measured(int(value[0]), self._number, self.remaining)


def check_threshold(threshold: int) -> None:
    """Refuse thresholds of sparse vector that are no count: the proof needs whole numbers."""
    check.whole(-_LARGEST, threshold=threshold)
    check.between(-_LARGEST, _LARGEST, threshold=threshold)


def check_positives(**counts: int) -> None:
    """Refuse numbers of positives that sparse vector cannot allow."""
    check.whole(1, **counts)
    check.between(1, MOST_POSITIVES, **counts)
