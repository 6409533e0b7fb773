"""MWEM: a synthetic histogram for a given list of questions (Hardt, Ligett and McSherry 2012).

Round by round, the question that the present histogram answers worst is selected privately, measured with noise, and
the histogram is updated by multiplicative weights towards everything measured so far. A question may be a partition
with many parts, such as a marginal, which is then measured whole.

Formal guarantee: a run at a level whose loss satisfies delta(epsilon) <= delta is (epsilon, delta)-differentially
private for the guarantee it was prepared for. Given the earlier rounds, the histogram and its rounded guesses e are
public whole numbers. The score of a partition is the sum over its parts of |q(D) - e|, less a public penalty: a whole
number that one unit moves by at most what it moves the counts of the parts in the l1 norm (``DisjointParts.move``: g
for one question; for several parts g where records come or go, 2 g where they are replaced). So selecting is Pure
(``private_selection``) with the largest of these as its sensitivity, and measuring is a Laplace mechanism whose scale
is in proportion to the move of what was selected, so that its loss does not depend on which it was. T rounds compose
adaptively. Under add-remove neighbours the number of rows is measured first, at a share of epsilon.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sfumato import check
from sfumato.answering.base import (
    Noises,
    check_counts,
    check_scales,
    checked_counts,
    counting_loss,
    noises_for,
    rows_known,
    shared_out,
)
from sfumato.answering.workload import DisjointParts, Measurement, refitted, uniform_weights
from sfumato.errors import ParameterError
from sfumato.numerics.types import Floats, Integers
from sfumato.privacy.calibration import Family
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Composed, Laplace, Loss, Pure
from sfumato.queries.domain import Domain
from sfumato.queries.histogram import SyntheticHistogram
from sfumato.randomness.noise import laplace_scale
from sfumato.randomness.private_selection import Method
from sfumato.randomness.secret import Secret
from sfumato.tables.blocks import Rows

_MOST_ROUNDS = 1 << 14


def suggested_rounds(rows: int, epsilon: float) -> int:
    """Rounds of MWEM for about this many rows, a public guess, and this epsilon.

    From a coarse scan on two data sets.
    """
    check.whole(1, rows=rows)
    check.positive(epsilon=epsilon)
    return min(_MOST_ROUNDS, math.ceil(math.sqrt(rows * epsilon) / 5))


@dataclass(frozen=True, slots=True, kw_only=True)
class MWEM:
    """The recipe.

    workload  : what the histogram shall answer: ``workload.marginals`` or ``workload.questions``.
    rounds    : how many partitions are measured.
    selection : how they are selected.
    selecting : the share of epsilon for selecting them.
    passes    : how often each update goes over all that was measured.
    """

    workload: tuple[DisjointParts, ...]
    rounds: int = 10
    selection: Method = "permute-and-flip"
    selecting: float = 0.5
    passes: int = 20

    def __post_init__(self) -> None:
        if not self.workload or not all(isinstance(part, DisjointParts) for part in self.workload):
            raise ParameterError("workload must hold at least one partition: see workload.marginals and questions")
        check.whole(1, rounds=self.rounds, passes=self.passes)
        check.between(1, _MOST_ROUNDS, rounds=self.rounds)
        check.one_of(("exponential", "permute-and-flip", "noisy-max"), selection=self.selection)
        check.positive(selecting=self.selecting)
        check.probability_below_one(selecting=self.selecting)

    def prepare(self, domain: Domain, guarantee: Guarantee) -> "PreparedMWEM":
        """Compute what one unit can move, or refuse; before any data is read."""
        check_counts(guarantee)
        if any(part.labels.shape != (domain.size,) for part in self.workload):
            raise ParameterError(f"every partition of the workload must be one of the {domain.size} cells")
        return PreparedMWEM(self, domain, guarantee)


@dataclass(frozen=True, slots=True)
class MWEMParts:
    """What the parts of a run get at a level.

    selecting : epsilon of one selection.
    ratio     : the scale of a measurement over what one unit moves.
    counting  : the scale of the number of rows, where it is protected.
    """

    selecting: float
    ratio: float
    counting: float | None


@dataclass(frozen=True, slots=True, eq=False)
class PreparedMWEM(Family):
    """MWEM before calibration; level = 1 / epsilon of all parts together."""

    recipe: MWEM
    domain: Domain
    guarantee: Guarantee

    @property
    def score_move(self) -> int:
        """The most by which one unit moves any score of a partition."""
        return max(part.move(self.guarantee) for part in self.recipe.workload)

    def parts(self, level: float) -> MWEMParts:
        """How epsilon is shared out among the rounds of MWEM."""
        left, counting = shared_out(self.guarantee, level)
        each, share = left / self.recipe.rounds, self.recipe.selecting
        return MWEMParts(each * share, laplace_scale(1, each * (1 - share)), counting)

    def loss(self, level: float) -> Loss:
        """The loss of all rounds, and of the number of rows if it is protected."""
        parts, rounds = self.parts(level), self.recipe.rounds
        counting = counting_loss(self.guarantee, parts.counting)
        return Composed([*[Pure(parts.selecting)] * rounds, *[Laplace(1, parts.ratio)] * rounds, *counting])

    def run(self, rows: Rows, level: float, secret: Secret) -> "Synthesised":
        """Read the rows once and make the histogram. Guarantee: the loss of ``level``."""
        parts = self.parts(level)
        check_scales(self.guarantee, parts.ratio, parts.ratio * self.score_move, parts.counting or 1.0)
        return self.make(self.domain.histogram(rows), level, secret)

    def make(self, counts: ArrayLike, level: float, secret: Secret) -> "Synthesised":
        """Make the synthetic histogram from the exact histogram of the domain. Guarantee: the loss of ``level``."""
        exact, parts = checked_counts(counts, self.domain), self.parts(level)
        facts = (self.recipe.rounds, self.recipe.selection, [part.name for part in self.recipe.workload])
        noises = noises_for(secret, repr(facts), self.domain, self.guarantee, level)
        total = rows_known(self.guarantee, exact, noises, parts.counting)
        weights, found, chosen = uniform_weights(self.domain, total), list[Measurement](), list[int]()
        for _ in range(self.recipe.rounds):
            chosen.append(self.selected(exact, weights, noises, parts))
            partition = self.recipe.workload[chosen[-1]]
            scale = math.nextafter(parts.ratio * partition.move(self.guarantee), math.inf)
            values = noises.added("measured partition", partition.exact(exact), scale)
            found.append((partition, values.astype(np.float64)))
            weights = refitted(weights, found, total, self.recipe.passes)
        return Synthesised(SyntheticHistogram(self.domain, weights), total, tuple(chosen))

    def selected(self, exact: Integers, weights: Floats, noises: Noises, parts: MWEMParts) -> int:
        """The place of a partition that is answered badly. Guarantee: Pure(parts.selecting), as stated at the top."""
        scores = self.scores(exact, weights, parts)
        words = noises.words("selected partition", float(parts.selecting).hex(), scores)
        return words.select(scores, epsilon=parts.selecting, sensitivity=self.score_move, method=self.recipe.selection)

    def scores(self, exact: Integers, weights: Floats, parts: MWEMParts) -> Integers:
        """How badly each partition is answered, less how badly noise would answer it."""
        return np.array(
            [
                np.abs(part.exact(exact) - np.floor(part.totals(weights) + 0.5).astype(np.int64)).sum()
                - math.floor(min(parts.ratio * part.move(self.guarantee) * part.parts, 2.0**52))
                for part in self.recipe.workload
            ],
            np.int64,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Synthesised:
    """What a run publishes: the histogram, the number of rows (measured, if protected), and what was selected."""

    histogram: SyntheticHistogram
    rows: int
    selected: tuple[int, ...]
