"""Quantiles by private selection: cells are chosen by their ranks, and noisy counts around them give the intervals.

Two stages share the budget of the statistic, by the public part ``FOR_COUNTS``:

1. For each order, the exponential mechanism chooses a cell of the grid by integer scores: minus the distance of its
   ranks from that of the quantile (Smith 2011), or how deep this lies within them. ``exposure`` proves how far one unit
   moves them. On small grids with Laplace noise it is permute-and-flip (McKenna and Sheldon 2020), which costs the same
   and errs less where few cells have high scores.
2. The records between edges at distances 1, 2, 4, ... from the chosen cells are counted, with noise. The counts are
   disjoint, so they cost once. ``ranks`` makes intervals of them, which hold whatever was chosen.

Formal guarantee: at the scale s of ``NoiseScale``, ``losses`` with Laplace noise, which sum to at most epsilon = 1/s;
and mu-GDP for mu = 1/s with Gaussian noise. Proof. Stage 2 sees the data through counts, at edges that are functions of
what stage 1 published: losses of both add up (epsilon), or their squares (mu), as the parameters of both are fixed
beforehand. One unit moves each score of a group by at most half of what ``Exposure.of_scores`` says of it, so a choice
costs epsilon = rate times that, by either mechanism (``randomness.private_selection``). The exponential mechanism's log
likelihood ratio lies within an interval of that length that holds 0, which makes it sqrt(pi/8) as much GDP, by the
proof of ``mechanisms.table.budget``; this is not known of permute-and-flip. Choices in two groups are independent.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.aggregates.exposure import Exposure, Norms
from sfumato.aggregates.noise_scale import NoiseScale
from sfumato.aggregates.quantile_grid import SMALL, CellGrid
from sfumato.aggregates.quantiles import FoundQuantile, QuantileStatistic
from sfumato.aggregates.ranks import RankCurve, exact_order
from sfumato.intervals.estimate import Estimate
from sfumato.numerics.types import Floats, Integers
from sfumato.privacy.losses import Laplace, Loss, Pure
from sfumato.queries.predicates import Ordered
from sfumato.randomness.noise import laplace_scale
from sfumato.randomness.secret import Secret

FOR_COUNTS = 1 / 16  # the part of epsilon, or of mu^2, that the counts for intervals get
_CHOICE_GDP = math.sqrt(math.pi / 8)
_BELOW, _UP = 1 - 2.0**-48, 1 + 2.0**-48
_CLEAR = 4.0  # standard errors above 0 from which on a noisy count says how dense records are


def scores(filled: Integers, counts: Integers, cells: int, order: Fraction) -> tuple[Integers, Integers]:
    """The scores of all cells for a quantile of an order a/d, in 1/d of a rank: runs of equal ones, and their lengths.

    The score of a cell with l records below it, c in it and n in all is -max(d l - a n, a n - d (l + c)): how far the
    quantile's rank is outside of the cell's ranks, as a negative number, or how deep inside of them, as a positive one.
    filled : the cells that hold records, rising; counts : how many each of them holds.
    """
    above, whole = order.numerator, order.denominator
    below = np.concatenate([[0], np.cumsum(counts)])
    total = above * below[-1]
    outside = np.maximum(whole * below[:-1] - total, total - whole * below[1:])
    between = np.abs(whole * below - total)
    lengths = np.empty(2 * len(filled) + 1, np.int64)
    lengths[1::2] = 1
    lengths[0::2] = np.diff(np.concatenate([[-1], filled, [cells]])) - 1
    found = np.empty(len(lengths), np.int64)
    found[0::2], found[1::2] = -between, -outside
    return found[lengths > 0], lengths[lengths > 0]


def edges_around(chosen: Sequence[int], cells: int) -> Integers:
    """Edges at distances 0, 1, 2, 4, ... on both sides of chosen cells, within the grid."""
    apart = [0, *(1 << power for power in range(cells.bit_length()))]
    found = {cell - distance for cell in chosen for distance in apart}
    found |= {cell + 1 + distance for cell in chosen for distance in apart}
    return np.array(sorted(edge for edge in found if 0 < edge < cells), np.int64)


@dataclass(frozen=True, slots=True)
class QuantileSelection(QuantileStatistic):
    """Cells chosen for their ranks, and noisy counts around them. What is published: (groups, orders and counts)."""

    @classmethod
    def of(cls, column: Ordered, orders: Sequence[float], exposure: Exposure, most: int) -> "QuantileSelection":
        """The selection of quantiles of a column, on a grid of at most so many cells."""
        return cls(column, tuple(map(exact_order, orders)), exposure, CellGrid.of(column, most))

    def moves(self, exposure: Exposure) -> Norms:  # noqa: ARG002 - it is in the rates
        """The scale of its noise is that of the whole budget: 1/epsilon, or 1/mu."""
        return Norms(1, 1.0)

    @property
    def relative_variance(self) -> float:
        """Of a rank beside the number of records."""
        return self.rank_deviation(gaussian=False) ** 2

    def rank_deviation(self, *, gaussian: bool) -> float:
        """The standard error of a rank, times the budget: the law of a choice is two-sided exponential, at its rate."""
        rates = self.rates(NoiseScale("gaussian" if gaussian else "laplace", 1.0))
        return max(math.sqrt(2) / (rate * q.denominator) for rate, q in zip(rates, self.orders, strict=True))

    def rates(self, noise: NoiseScale) -> list[float]:
        """The rate of the choice of each order, for each step of its scores."""
        share = (1 - FOR_COUNTS) / len(self.orders) * _BELOW
        moves = [self.exposure.of_scores(q.numerator, q.denominator) for q in self.orders]
        if noise.kind == "laplace":
            return [share / noise.scale / move.l1 * _BELOW for move in moves]
        return [math.sqrt(share) / noise.scale / (_CHOICE_GDP * move.l2) * _BELOW for move in moves]

    def drawn(self, noise: NoiseScale) -> NoiseScale:
        """The noise on the counts around what was chosen."""
        once = self.exposure.of_shares(1)
        if noise.kind == "laplace":
            return NoiseScale("laplace", laplace_scale(once.l1, FOR_COUNTS / noise.scale * _BELOW))
        return NoiseScale("gaussian", once.l2 * noise.scale / math.sqrt(FOR_COUNTS) * _UP)

    def described(self, noise: NoiseScale) -> dict[str, object]:
        """The noise of the counts, and the rate of the choice of each order for each step of its scores."""
        drawn = self.drawn(noise)
        return {"noise": drawn.kind, "scale": drawn.scale, "rates": self.rates(noise)}

    def losses(self, move: float, noise: NoiseScale) -> list[Loss]:  # noqa: ARG002 - it is 1
        """A pure loss for the choice of each order, and the loss of the counts."""
        moves = [self.exposure.of_scores(q.numerator, q.denominator).l1 for q in self.orders]
        choices = [Pure(rate * step * _UP) for rate, step in zip(self.rates(noise), moves, strict=True)]
        return [*choices, Laplace(self.exposure.of_shares(1).l1, self.drawn(noise).scale)]

    def published(self, exact: Integers, noise: NoiseScale, secret: Secret, *context: str | int) -> Integers:
        """For each group the chosen cell of each order, then the noisy counts between the edges around them."""
        found = []
        for group, counts in enumerate(exact):
            chosen = self._chosen(counts, noise, secret, *context, group)
            edges = np.concatenate([[0], edges_around(chosen, self.grid.cells)])
            between = np.add.reduceat(counts, edges)[None]
            noisy = self.drawn(noise).added(between, secret, "counts around quantiles", *context, group)
            found.append(np.concatenate([chosen, noisy[0]]))
        size = max(map(len, found))
        return np.stack([np.pad(row, (0, size - len(row))) for row in found])

    def _chosen(self, counts: Integers, noise: NoiseScale, secret: Secret, *context: str | int) -> list[int]:
        cells = []
        filled = np.flatnonzero(counts)
        held = counts[filled]
        for rate, order in zip(self.rates(noise), self.orders, strict=True):
            words = secret.words("aggregate", "choice", rate.hex(), str(order), *context, np.stack([filled, held]))
            runs, lengths = scores(filled, held, len(counts), order)
            if noise.kind == "laplace" and len(counts) <= SMALL:
                cells.append(words.flip(np.repeat(runs, lengths).tolist(), rate))
            else:
                cells.append(words.choose_repeated(runs, lengths, rate))
        return cells

    def quantiles(
        self, published: Integers, noise: NoiseScale, orders: Sequence[float], most: float | None
    ) -> Estimate:
        """The chosen cells, with intervals from the counts around them."""
        curves = [self.curve(row, noise, most) for row in published]
        found = []
        for order in map(exact_order, orders):
            place = self.orders.index(order)
            cells = published[:, place]
            rate = self.rates(noise)[place] * order.denominator
            errors = [_error(curve, int(cell), rate) for curve, cell in zip(curves, cells, strict=True)]
            found.append(FoundQuantile(order, cells, curves, np.array(errors)))
        return self.estimate(found)

    def curve(self, row: Integers, noise: NoiseScale, most: float | None) -> RankCurve:
        """The noisy numbers of records on both sides of the edges around what was chosen in one group."""
        chosen = row[: len(self.orders)].tolist()
        edges = edges_around(chosen, self.grid.cells)
        sums = np.cumsum(row[len(chosen) : len(chosen) + len(edges) + 1])
        left, parts = sums[None, :-1], np.arange(1, len(edges) + 1)
        drawn = self.drawn(noise)
        return RankCurve(edges, left, sums[-1] - left, parts, len(sums), drawn, self.grid.cells, self.known(most))


def _error(curve: RankCurve, cell: int, rate: float) -> float:
    """The standard error of a chosen cell, in cells, where records on either side are as dense as counts say.

    The law of the choice is then two-sided exponential in cells, with the scale w / rate on a side where a record takes
    up w cells. The nearest count that is clearly above 0 says how many; without one, all cells on the side are likely.
    Whole cells err by more than that: a move by less than one crosses an edge with a chance of its length, so that the
    first moment of the law is added to its second.
    """
    edges = np.array([0, *curve.edges.tolist(), curve.cells])
    sums = np.array([0, *curve.left[0].tolist(), int(curve.left[0, -1] + curve.right[0, -1])], np.float64)
    left, right = np.searchsorted(edges, [cell, cell + 1]).tolist()
    above = _scale(edges[left:] - edges[left], sums[left:] - sums[left], curve.noise.deviation)
    below = _scale(edges[right] - edges[right::-1], sums[right] - sums[right::-1], curve.noise.deviation)
    scales = [width / rate if clear else width / math.sqrt(6) for width, clear in (above, below)]
    first, second = (moment * sum(scale ** (moment + 1) for scale in scales) / sum(scales) for moment in (1, 2))
    return math.sqrt(first + second)


def _scale(cells: Integers, counts: Floats, deviation: float) -> tuple[float, bool]:
    """How many cells a record takes up, from noisy counts within growing distances; or all cells, and False."""
    clear = counts > _CLEAR * deviation * np.sqrt(np.arange(len(counts)))
    if not clear.any():
        return float(cells[-1]), False
    nearest = int(np.argmax(clear))
    return float(cells[nearest] / counts[nearest]), True
