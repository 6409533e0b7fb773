"""The budget of a synthetic table: how its noise follows from its price, and the meter that all noise goes through.

A table of counts over some variables: a record is in exactly one cell, so one that is added or removed moves it by 1,
and one that is replaced by 1 in two cells: l2 sqrt(2), l1 2. A score is the l1 distance of such a table from public
whole numbers, so it moves by at most as much as the table does in l1: 1, or 2. A group of g records moves each g times
as far. A second moment of rows of bounded length moves as far as ``projection.unit_ball`` proves of its triangle; with
Gaussian noise in svec form, where entries off the diagonal count sqrt(2) times, so their noise is as much smaller.

Formal guarantee: whatever tables, scores and second moments are asked for, each chosen after seeing the noisy ones
before it, all that goes through a ``Meter`` at a level is together 1/level-GDP with Gaussian noise, and epsilon =
1/level with Laplace noise. Proof. Gaussian: the l2 move of what is asked for in step t is at most ``move``, its noise
has deviation s_t, and the meter refuses a step that would bring the sum of (move_t/s_t)^2 above 1/level^2. That is the
filter whose proof ``mechanisms.schema_learning.budget`` gives (Smith and Thakurta 2022). It is for steps of Gaussian
noise, and covers choices, which are none: a step that is m-GDP given the past is, by Blackwell's theorem, a
randomisation of N(0, 1) against N(m, 1), so replacing it by that Gaussian step can only tell more. Laplace: likewise
with the sum of move_t/s_t, which bounds the logarithm of every likelihood ratio, step by step. Choices: below. Noise is
exact: rounding a real Laplace or normal number that is added to an integer is post-processing of the real sum.

Choices. The exponential mechanism takes candidate i of score s_i with probability in proportion to exp(s_i/scale). If
one unit moves each score by at most d, the logarithm of the likelihood ratio is (s_i - s'_i)/scale plus a constant, so
it lies in an interval of length e = 2 d/scale that holds 0: e-differential privacy, and move 2 d with Laplace noise.
It is also mu-GDP with mu = sqrt(pi/8) e, so move sqrt(pi/2) d. Proof. A likelihood ratio within [e^a, e^(a+e)] is one
of two outcomes of just these ratios, forgotten in part (they have the same mean 1 and are the most spread out), so it
suffices that two distributions on two outcomes, with chances p and q of the first and logit(p) - logit(q) = e, are
mu-GDP; and as their trade-off function has a single corner between (0, 1) and (1, 0), and that of mu-GDP is convex,
that the corner is: Phi^-1(p) - Phi^-1(q) <= mu. The derivative of Phi^-1(p) in logit(p) is p (1 - p)/phi(Phi^-1(p)),
at most sqrt(pi/8): g(x) = phi(x) - sqrt(8/pi) Phi(x) Phi(-x) is even, 0 at x = 0 and at infinity, and for x > 0 its
derivative is phi(x) times sqrt(8/pi) (2 Phi(x) - 1) - x, which is concave, 0 at x = 0, positive and then negative.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sfumato.errors import ParameterError
from sfumato.mechanisms.base import cells_move
from sfumato.numerics.types import Floats, Integers, Order
from sfumato.privacy.guarantee import Guarantee, Neighbours
from sfumato.projection import unit_ball
from sfumato.randomness import noise
from sfumato.randomness.secret import Secret

_SAFE = 1 + 2.0**-40  # more than doubles get wrong
_PARTS = 1 << 64  # of the budget that a meter counts in
_UP = (1 + 2.0**-48) * _PARTS  # more than the dozen roundings of one share get wrong, 2^-53 each: counted as spent


@dataclass(frozen=True, slots=True)
class TableMoves:
    """How far one unit moves a table of counts, in the norm that the noise protects against, and a score."""

    replace: bool
    group: int
    order: Order

    @classmethod
    def of(cls, guarantee: Guarantee, order: Order) -> "TableMoves":
        """The moves under the neighbours and the group of a guarantee."""
        return cls(guarantee.neighbours == "replace", guarantee.group, order)

    @property
    def table(self) -> float:
        """How far one unit moves the counts of one table."""
        return cells_move(self.order, replace=self.replace, group=self.group)

    @property
    def score(self) -> float:
        """How far one unit moves one score."""
        return self.group * (2.0 if self.replace else 1.0)

    def scores(self, count: int) -> float:
        """How far one unit moves so many scores."""
        return self.score * (count if self.order == 1 else math.sqrt(count))

    def moment(self, columns: int, top: int) -> float:
        """How far one unit moves the triangle of a second moment: of rows of so many columns, of length at most top."""
        neighbours: Neighbours = "replace" if self.replace else "add-remove"
        return self.group * unit_ball.triangle_move(columns, self.order, neighbours, top=float(top))

    @property
    def choice(self) -> float:
        """What a choice by scores costs, as a move, by the proof at the top."""
        return self.score * (2.0 if self.order == 1 else math.sqrt(math.pi / 2))


@dataclass(frozen=True, slots=True)
class Shares:
    """Parts of the budget, which add up to 1: of mu^2 with Gaussian noise, of epsilon with Laplace noise.

    one_ways    : tables of single variables, over fine cells.
    pairs       : tables of all pairs but those with the label, where no rounds choose.
    label_pairs : pairs with the label.
    rounds      : for each round, choices and the tables that they choose.
    moment      : the second moment of scores, where that stands for pairs.
    """

    one_ways: float
    pairs: float
    label_pairs: float
    rounds: tuple[tuple[float, float], ...] = ()
    moment: float = 0.0

    def __post_init__(self) -> None:
        rounds = [part for pair in self.rounds for part in pair]
        parts = (self.one_ways, self.pairs, self.label_pairs, self.moment, *rounds)
        if not all(0 <= part <= 1 for part in parts) or abs(math.fsum(parts) - 1) > 1e-9:
            raise ParameterError(f"shares of a table's budget are at least 0 and add up to 1, got {parts}")

    @property
    def stages(self) -> dict[str, float]:
        """The share of each stage by its name; those that get nothing are left out."""
        named = {"one-way": self.one_ways, "pair": self.pairs, "label pair": self.label_pairs}
        named["moment"] = self.moment
        for number, (choices, tables) in enumerate(self.rounds, start=1):
            named |= {f"choices {number}": choices, f"round {number}": tables}
        return {stage: share for stage, share in named.items() if share > 0}


@dataclass(frozen=True, slots=True)
class TableScales:
    """Noise scales of a table's stages, from shares of the budget."""

    moves: TableMoves
    level: float

    @property
    def order(self) -> Order:
        """The norm that the noise protects against."""
        return self.moves.order

    @property
    def budget(self) -> float:
        """All there is to spend: mu^2, or epsilon."""
        return 1 / self.level**self.order

    def _scale(self, move: float, share: float) -> float:
        if share <= 0:
            return math.inf
        relative = share * self.budget
        scale = _SAFE * move / (relative if self.order == 1 else math.sqrt(relative))
        if not scale <= noise.LARGEST_SCALE / 4:
            raise ParameterError("so little epsilon leaves nothing but noise in a table: choose a larger epsilon")
        return max(scale, noise.SMALLEST_SCALE)

    def tables(self, cells: Sequence[float], share: float) -> list[float]:
        """The noise of each of several tables that take a share together.

        Sum over tables of cells times scale, the expected l1 error, is least where the budget of each goes with
        cells^(2/3) (Gaussian), or its square root (Laplace).
        """
        weights = np.array(cells, float) ** (1 / 2 if self.order == 1 else 2 / 3)
        return [self._scale(self.moves.table, share * w) for w in weights / max(weights.sum(), 1e-300)]

    def alike(self, tables: int, share: float) -> float:
        """The noise of each of so many tables, the same for all, that take a share together."""
        return self._scale(self.moves.table, share / max(tables, 1))

    def scores(self, count: int, share: float) -> float:
        """The noise of each of so many scores that take a share together."""
        return self._scale(self.moves.scores(count), share)

    def moment(self, columns: int, top: int, share: float) -> float:
        """The noise of a second moment that takes a share: on its diagonal, and with Laplace noise on all entries."""
        return self._scale(self.moves.moment(columns, top), share)

    def choices(self, count: int, share: float) -> float:
        """The scale of each of so many choices by scores that take a share together."""
        return self._scale(self.moves.choice, share / max(count, 1))

    def deviation(self, scale: float) -> float:
        """The standard deviation of noise of a scale."""
        return noise.deviation(self.order, scale)


@dataclass(slots=True, eq=False)
class Meter:
    """All noise of one run goes through here; what would overspend is refused before it is drawn."""

    scales: TableScales
    secret: Secret
    context: str
    _spent: int = field(default=0, init=False)  # whole parts: a sum of doubles drifts over thousands of tables

    def table(self, counts: Integers, scale: float, *where: str | int) -> Integers:
        """The counts of one table with exact noise of a scale on each."""
        return self._noisy(counts, scale, self.scales.moves.table, *where)

    def scored(self, scores: Integers, scale: float, *where: str | int) -> Integers:
        """Scores, l1 distances of tables from public whole numbers, with exact noise of a scale on each."""
        return self._noisy(scores, scale, self.scales.moves.scores(len(scores)), *where)

    def moment(self, matrix: Integers, top: int, scale: float, *where: str | int) -> Integers:
        """A second moment, the sum of x x' over rows of length at most ``top``, with exact noise; symmetric.

        Gaussian noise has this scale on the diagonal, and over sqrt(2) off it; Laplace noise has one scale.
        """
        columns = len(matrix)
        self._charge(self.scales.moves.moment(columns, top), scale)
        above = np.triu_indices(columns, 1)
        exact = np.ascontiguousarray(np.concatenate([np.diag(matrix), matrix[above]]), np.int64)
        words = self.secret.words(self.context, *where, scale.hex(), exact)
        draw = words.laplace if self.scales.order == 1 else words.gaussian
        off = scale if self.scales.order == 1 else unit_ball.off_diagonal(scale)
        noisy = exact + np.concatenate([draw(columns, scale), draw(len(above[0]), off)])
        found = np.diag(noisy[:columns])
        found[above] = found.T[above] = noisy[columns:]
        return found

    def choose(self, scores: Integers, scale: float, *where: str | int) -> int:
        """The place of a high score, with probability in proportion to exp(score/scale)."""
        self._charge(self.scales.moves.choice, scale)
        exact = np.ascontiguousarray(scores, np.int64)
        return self.secret.words(self.context, *where, scale.hex(), exact).choose(exact, 1 / scale)

    def _noisy(self, counts: Integers, scale: float, move: float, *where: str | int) -> Integers:
        self._charge(move, scale)
        exact = np.ascontiguousarray(counts, np.int64)
        words = self.secret.words(self.context, *where, scale.hex(), exact)
        drawn = (words.laplace if self.scales.order == 1 else words.gaussian)(exact.size, scale)
        return np.asarray((exact.ravel() + drawn).reshape(exact.shape))

    def _charge(self, move: float, scale: float) -> None:
        spent = self._spent + math.ceil((move / scale) ** self.scales.order / self.scales.budget * _UP)
        if spent > _PARTS:
            raise ParameterError("a table asked for more than its budget allows: nothing was drawn")
        self._spent = spent

    @property
    def spent(self) -> float:
        """How much of the budget was spent, as a share."""
        return self._spent / _PARTS


def total(ones: Sequence[Floats], deviation: float) -> float:
    """The number of records from noisy one-way tables: each adds up to it; the mean by their variances, at least 1."""
    weights = np.array([1 / (len(counts) * deviation**2) for counts in ones])
    return max(1.0, float((weights * [counts.sum() for counts in ones]).sum() / weights.sum()))
