"""How the noise of a learned schema follows from its price, before a row is read and then stage by stage.

Three stages of counts: kinds of cells, then octaves of numbers and counts of texts, then equal cells within first
bounds. All noise is Gaussian. A stage whose counts move by at most c_i in column i, with noise s_i there, takes
sum c_i^2 / s_i^2 of the budget mu^2. Which columns a stage counts, and how the budget that is left is shared out, may
depend on noisy counts of earlier stages and on nothing else of the data.

Formal guarantee: if the sum over all stages is at most mu^2, whatever the noisy counts were, the counts are mu-GDP.
Proof: let m_t be the length of the move in stage t over its noise, a function of what was published before. The log
likelihood ratio after stage t grows by m_t^2/2 + m_t Z_t with Z_t standard normal. Publish at last one more normal
number whose mean moves so that the m_t^2 add up to mu^2 exactly; that can only tell more. Then the sum of m_t Z_t is a
Brownian motion stopped when its clock is at mu^2, which is N(0, mu^2), so the log likelihood ratio is that of N(mu, 1)
against N(0, 1). (Smith and Thakurta 2022 prove it for any Gaussian private mechanisms.) A move that is shorter than its
bound is covered as well: m_t is its true length.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.privacy import profiles
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import noise

FAILURE = 0.04  # of delta: the probability of all thresholds together to show what one unit alone has
_KINDS, _REFINING = 0.1, 0.3  # of mu^2: for kinds of cells, and for equal cells
_VALUES = 0.85  # noise of categories against that of numbers: a threshold is many deviations away
_SAFE = 1 + 2.0**-40  # more than doubles get wrong


@dataclass(frozen=True, slots=True)
class CountMoves:
    """How far one unit moves the counts of a column, squared, in units of one record that is added or removed.

    A record is in one cell of each partition. Replacing it takes one from a cell and adds one to another.
    """

    replace: bool
    group: int

    def squared(self, cells: int = 1) -> float:
        """The squared length of the move if a record is in so many cells: group^2 times cells, twice for replace."""
        return float(self.group**2 * cells * (2 if self.replace else 1))


@dataclass(frozen=True, slots=True)
class Threshold:
    """What a noisy count of a text must exceed to be published, and the standard deviation of its noise."""

    count: int
    deviation: float


@dataclass(frozen=True, slots=True)
class Budget:
    """The budget mu^2 of a learned schema, and what is left of it."""

    moves: CountMoves
    left: float

    @classmethod
    def of(cls, guarantee: Guarantee, level: float) -> "Budget":
        """The whole budget for noise at a level, which is 1/mu."""
        moves = CountMoves(guarantee.neighbours == "replace", guarantee.group)
        return cls(moves, 1 / (level * level) / _SAFE)

    def kinds(self, columns: int) -> tuple[float, "Budget"]:
        """The standard deviation of noise on kinds of cells of so many columns, and the budget after it."""
        share = _KINDS * self.left
        scale = _scale(self.moves.squared(columns), share)
        return scale, Budget(self.moves, self.left - self.moves.squared(columns) / scale**2)

    def measured(self, cells: Mapping[str, tuple[int, bool]], *, refines: bool) -> tuple[dict[str, float], "Budget"]:
        """Noise of each column's octaves or texts: from cells of a record in it, and whether texts are counted.

        Noise grows with the cube root of a record's cells, which makes the sum of all deviations least.
        """
        share = self.left * (1 - _REFINING / (1 - _KINDS) if refines else 1.0)
        sizes = {name: (count ** (1 / 3)) * (_VALUES if texts else 1.0) for name, (count, texts) in cells.items()}
        squares = {name: self.moves.squared(cells[name][0]) / size**2 for name, size in sizes.items()}
        unit = _scale(math.fsum(squares.values()), share) if squares else 0.0
        scales = {name: max(size * unit, noise.SMALLEST_SCALE) for name, size in sizes.items()}
        spent = math.fsum(self.moves.squared(cells[name][0]) / scale**2 for name, scale in scales.items())
        return scales, Budget(self.moves, self.left - spent)

    def refined(self, cells: Mapping[str, int]) -> dict[str, float]:
        """Noise of each column's equal cells, from the cells of a record in it; takes all that is left."""
        scale = _scale(self.moves.squared(sum(cells.values())), self.left) if cells else 0.0
        return dict.fromkeys(cells, scale)


def _scale(squared: float, share: float) -> float:
    """The least noise at which counts that move so far take at most a share of the budget."""
    scale = math.sqrt(squared / share) * _SAFE
    if not scale <= noise.LARGEST_SCALE / 4:
        raise ParameterError("so little epsilon leaves nothing but noise in a learned schema: choose a larger epsilon")
    return max(scale, noise.SMALLEST_SCALE)


def threshold(deviation: float, values: int, group: int, failure: float) -> Threshold:
    """The threshold of a column whose texts have noise of this deviation.

    values : in how many texts one record can be alone, over all columns that count texts.

    Guarantee: a text that only one unit has, in at most ``group`` records, is in at most ``group`` counts; its noisy
    count exceeds the threshold only if its noise exceeds the threshold less the group. One unit has at most
    group * values such texts, so with probability at most ``failure`` any of them does. The probability is that of the
    rounded noise, exactly: floor(eta + 1/2) > t if and only if eta >= t + 1/2.
    """
    check.whole(1, values=values, group=group)
    each = failure / (values * group) / _SAFE
    low, high = -1, 1
    while not profiles.normal_tail((high + 0.5) / deviation) <= each:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if profiles.normal_tail((middle + 0.5) / deviation) <= each else (middle, high)
    return Threshold(group + high, deviation)
