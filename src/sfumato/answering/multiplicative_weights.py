"""Private multiplicative weights: any number of counts from a histogram that is corrected where it is wrong.

Hardt and Rothblum 2010, on whole numbers. The mechanism keeps public weights over the domain. A question is answered
from them, unless sparse vector finds their answer off by about the threshold or more; then the question's own count is
measured, with noise, the weights are updated, and one of c updates is used up. Most questions cost nothing: their
answers could have been computed by whoever asked.

Formal guarantee: a session opened at a level whose loss satisfies delta(epsilon) <= delta is (epsilon, delta)-
differentially private, for questions that may depend on all earlier answers. Weights are a function of what was
published, so given the transcript the rounded guess e of a count is a public whole number, and |q(D) - e| is a whole
number that one unit moves by at most g, by the triangle inequality. Comparing it with the threshold is a sparse vector
with c positives that are not monotone (``sparse_vector``); the c measured counts are Laplace mechanisms with g as their
sensitivity. Under add-remove neighbours the number of rows is protected: it is measured first, with a share of epsilon,
and the weights add up to that measurement.
"""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from sfumato import check
from sfumato.answering.base import (
    MEASURED_SHARE,
    Answered,
    Noises,
    OpenMechanism,
    PreparedAnswers,
    Query,
    check_counts,
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
from sfumato.answering.sparse_vector import MOST_POSITIVES, Comparisons, Scales, check_positives, check_threshold
from sfumato.answering.workload import DisjointParts, Measurement, refitted, uniform_weights
from sfumato.errors import ExhaustedError
from sfumato.numerics.types import Integers
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Composed, Laplace, Loss, Pure
from sfumato.queries.domain import Domain
from sfumato.queries.histogram import SyntheticHistogram
from sfumato.randomness.noise import laplace_scale
from sfumato.randomness.secret import Secret

_FALSE_ALARM = 0.05  # that any of the expected questions is measured although the weights are right


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The recipe.

    updates   : how many questions can be measured.
    threshold : how far off an answer may be, in rows, before it is measured; left out, so large that noise alone
                hardly ever reaches it in ``questions`` of them.
    questions : how many are expected; it sets the default threshold and nothing else.
    measuring : the share of epsilon for the measured counts.
    passes    : how often each update goes over all that was measured.
    """

    updates: int = 20
    threshold: int | None = None
    questions: int = 1000
    measuring: float = 0.4
    passes: int = 20

    def __post_init__(self) -> None:
        check_positives(updates=self.updates)
        check.whole(1, questions=self.questions, passes=self.passes)
        check.positive(measuring=self.measuring)
        check.probability_below_one(measuring=self.measuring)
        if self.threshold is not None:
            check_threshold(self.threshold)

    @classmethod
    def suggested(cls, rows: int, epsilon: float) -> Self:
        """Settings for about this many rows, a public guess, and this epsilon, from a coarse scan on two data sets.

        A starting point (docs/results.md), not an optimum. Updates are in proportion to sqrt(rows epsilon), and so is
        the inverse of the threshold as a share of the rows.
        """
        check.whole(1, rows=rows)
        check.positive(epsilon=epsilon)
        strength = math.sqrt(rows * epsilon)
        updates = min(MOST_POSITIVES, math.ceil(strength / 2.3))
        return cls(updates=updates, threshold=math.ceil(5 * rows / strength), measuring=0.3)

    def prepare(self, domain: Domain, guarantee: Guarantee) -> "PreparedWeights":
        """Refuse what cannot be promised; before any data is read."""
        check_counts(guarantee)
        return PreparedWeights(self, domain, guarantee)


@dataclass(frozen=True, slots=True)
class WeightsParts:
    """What the parts of a session get at a level: Laplace scales, and what comparing costs."""

    comparing: Scales
    cost: float
    measuring: float
    counting: float | None


@dataclass(frozen=True, slots=True, eq=False)
class PreparedWeights(PreparedAnswers):
    """Multiplicative weights before calibration; level = 1 / epsilon of all parts together."""

    recipe: Weights
    domain: Domain
    guarantee: Guarantee

    def parts(self, level: float) -> WeightsParts:
        """How epsilon is shared out among comparisons and measurements for updates of the weights."""
        move = count_move(self.guarantee)
        left, counting = shared_out(self.guarantee, level)
        scales, cost = Scales.of(left * (1 - self.recipe.measuring), self.recipe.updates, move, monotone=False)
        return WeightsParts(
            scales,
            cost,
            laplace_scale(move, left * self.recipe.measuring / self.recipe.updates),
            counting,
        )

    def loss(self, level: float) -> Loss:
        """The loss of comparing, of all updates of the weights, and of the number of rows if it is protected."""
        parts, move = self.parts(level), count_move(self.guarantee)
        counting = counting_loss(self.guarantee, parts.counting)
        return Composed([Pure(parts.cost), *[Laplace(move, parts.measuring)] * self.recipe.updates, *counting])

    def threshold(self, level: float) -> int:
        """The recipe's, or one that noise reaches with a small probability in the expected questions."""
        if self.recipe.threshold is not None:
            return self.recipe.threshold
        return math.ceil(self.parts(level).comparing.exceeded(_FALSE_ALARM / self.recipe.questions))

    def scales(self, level: float) -> tuple[float, ...]:
        """Laplace scales of comparisons, measurements, and the number of rows if it is protected."""
        parts = self.parts(level)
        known = (parts.comparing.query, parts.comparing.threshold, parts.measuring, parts.counting)
        return tuple(scale for scale in known if scale is not None)

    def begin(self, counts: ArrayLike, level: float, secret: Secret) -> "OpenWeights":
        """Open multiplicative weights on a histogram of the domain."""
        noises = noises_for(secret, repr(self.recipe), self.domain, self.guarantee, level)
        return OpenWeights(self, level, checked_counts(counts, self.domain), noises)


class OpenWeights(OpenMechanism):
    """Multiplicative weights that have read their rows; ``histogram`` is public at all times."""

    rows: int

    def __init__(self, prepared: PreparedWeights, level: float, counts: Integers, noises: Noises) -> None:
        super().__init__(prepared.domain)
        self._prepared, self._counts, self._noises = prepared, counts, noises
        self._parts, self._threshold = prepared.parts(level), prepared.threshold(level)
        self.rows = rows_known(prepared.guarantee, counts, noises, self._parts.counting)
        self._weights = uniform_weights(prepared.domain, self.rows)
        self._measured: list[Measurement] = []
        self._comparisons = Comparisons(noises, self._parts.comparing, prepared.recipe.updates)

    @property
    def remaining(self) -> int:
        """How many more questions can be measured, each updating the weights."""
        return int(self._comparisons.left[0])

    @property
    def histogram(self) -> SyntheticHistogram:
        """The weights, known to everyone: synthetic counts that answer any question."""
        return SyntheticHistogram(self._prepared.domain, self._weights.copy())

    def _answered(self, cells: Query) -> Answered:
        """The number of rows in the cells: from the weights where they do, measured where not.

        Error: an answer from the weights is off by less than the threshold and the noise of the comparison, whose
        tails ``margin`` knows; a measured one by its own noise. With no update left every question is refused, since
        nothing would tell whether the weights do; ``histogram`` answers on, without a promise.
        """
        if not self.remaining:
            raise ExhaustedError(
                f"all {self._prepared.recipe.updates} updates are used up: "
                "the histogram still answers, but nothing says how well; open another session, at its own cost"
            )
        partition = DisjointParts.question(cells, self._prepared.domain)
        exact, question = self._counts[cells].sum(keepdims=True), packed(cells)
        guess = math.floor(float(partition.totals(self._weights)[0]) + 0.5)
        if not self._comparisons.above(np.abs(exact - guess), self._threshold, question)[0]:
            return Answered(float(guess), False, None, self._margin, self.remaining)
        value = self._noises.added("measured count", exact, self._parts.measuring, question)
        self._measured.append((partition, value.astype(np.float64)))
        self._weights = refitted(self._weights, self._measured, self.rows, self._prepared.recipe.passes)
        return measured(int(value[0]), self._parts.measuring, self.remaining, MEASURED_SHARE)

    def _margin(self, confidence: float) -> float:
        """The margin of an answer from the weights.

        Below means |q - e| + Z < T + R, so |q - e| < T + (R - Z).
        """
        return self._threshold + self._parts.comparing.exceeded(compared(confidence))
