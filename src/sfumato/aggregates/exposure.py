"""What one unit can do to the records that a question is about.

A question selects records by a condition and puts each of them into one group. So a record counts once, in one group,
or not at all. What one unit moves (g = ``group``, the rows of one person) follows from two facts: whether records come
and go (add-remove) or are replaced, and whether every record counts.

==========================================  =============================  ==========================================
vectors v of nonnegative numbers            add-remove                     replace
==========================================  =============================  ==========================================
that sum to at most s for each record       l1: g s, l2: g s               l1: 2 g s, l2: sqrt(2) g s
scores of a quantile, in 1/d of a rank      2 g m                          2 g d; of several groups l1: 4 g m,
                                                                           l2: max(sqrt(8) g m, 2 g d)
==========================================  =============================  ==========================================

For a record contributes a vector of l1 norm at most s with nonnegative entries, and so of l2 norm at most s. Of two
such vectors a and b, ||a - b||_1 <= 2 s, and ||a - b||_2^2 = ||a||^2 + ||b||^2 - 2 a.b <= 2 s^2 because a.b >= 0. The
rows of one person add up, by the triangle inequality.

Scores of a quantile of order a/d: t(e) = (d - a) l(e) - a r(e), with l(e) records below an edge e and r(e) above it,
and the score of a cell between the edges e and f is -max(t(e), -t(f)). A record that comes or goes moves every t by
d - a or by a, so by at most m = max(a, d - a), and each score by as much, as maxima do. One that is replaced and stays
among those that count moves every t by 0 or d; otherwise it comes or goes. Differences of two scores move by twice
this, which is what a choice by scores pays for each step. Under ``replace`` with groups, the scores of two groups may
move, each by m, whose choices are independent: their losses add up, and as Gaussian ones in squares.
"""

import math
from dataclasses import dataclass

from sfumato.privacy.guarantee import Guarantee, Neighbours
from sfumato.queries.questions import AggregateQuestion

_UP = 1 + 2.0**-50  # above the rounding of a square root


@dataclass(frozen=True, slots=True)
class Norms:
    """The most by which one unit moves a vector of integers: in the l1 norm, exactly, and in the l2 norm."""

    l1: int
    l2: float


@dataclass(frozen=True, slots=True)
class Exposure:
    """How one unit meets a question.

    everyone : each record counts, in the one group that there is. Under ``replace`` their number is then public.
    grouped  : there are several groups.
    """

    neighbours: Neighbours
    group: int
    everyone: bool
    grouped: bool

    @classmethod
    def of(cls, guarantee: Guarantee, question: AggregateQuestion) -> "Exposure":
        """How one unit of a guarantee meets a question."""
        everyone = question.where is None and not question.by
        return cls(guarantee.neighbours, guarantee.group, everyone, question.groups > 1)

    @property
    def public(self) -> bool:
        """Whether the number of records that count is public, and the same for neighbours."""
        return self.neighbours == "replace" and self.everyone

    def of_shares(self, whole: int) -> Norms:
        """What one unit moves of a vector to which each record adds nonnegative integers with the sum ``whole``."""
        if self.neighbours == "add-remove":
            return Norms(self.group * whole, float(self.group * whole))
        return Norms(2 * self.group * whole, math.sqrt(2) * self.group * whole * _UP)

    def of_number(self, low: int, high: int) -> Norms:
        """What one unit moves of a vector with one entry for each group, to which a record adds low to high in its own.

        A record that does not count adds 0. Under ``replace`` it may leave one group and enter another; with one group
        it may come into it, go out of it, or change within it.
        """
        largest, width = max(abs(low), abs(high)), high - low
        if self.public:
            return Norms(self.group * width, float(self.group * width))
        if self.neighbours == "replace" and self.grouped:
            l2 = max(math.sqrt(2) * largest * _UP, float(width))
            return Norms(self.group * max(2 * largest, width), self.group * l2 * _UP)
        most = largest if self.neighbours == "add-remove" else max(largest, width)
        return Norms(self.group * most, float(self.group * most))

    def of_scores(self, above: int, whole: int) -> Norms:
        """What one unit moves differences of the scores of a quantile of order above/whole, in 1/whole of a rank.

        In the l1 norm for all groups together, and in the l2 norm over groups.
        """
        larger = max(above, whole - above)
        if self.neighbours == "add-remove":
            return Norms(2 * self.group * larger, float(2 * self.group * larger))
        if not self.grouped:
            return Norms(2 * self.group * whole, float(2 * self.group * whole))
        l2 = max(math.sqrt(8) * larger * _UP, 2.0 * whole)
        return Norms(4 * self.group * larger, self.group * l2 * _UP)
