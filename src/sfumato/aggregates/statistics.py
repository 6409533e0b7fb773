"""What is measured for a question: exact integers, one vector for each group.

Each statistic clips the cells it reads to the declared bounds, rounds them to a public grid, and adds up whole numbers.
So its sensitivity holds to the last bit, whatever a cell says. A missing cell, where missingness is kept, adds nothing.

Moments are measured in the basis of Bernstein: a cell at a = (x - low) / (high - low) adds (1 - a)^2, 2 a (1 - a) and
a^2 (of degree 1: 1 - a and a). These are nonnegative and sum to 1, so one record moves the whole vector by 1 in the l1
norm, as much as a count alone. The number of records, their sum and the sum of their squares all follow from it. In one
group of records that are replaced, where a may change and a record may leave, the basis 2 a - 1 and 1 is better: both
moves are 2 in the l1 norm, and one number has half the variance that the difference of two has.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

import numpy as np

from sfumato.aggregates.exposure import Exposure, Norms
from sfumato.aggregates.noise_scale import NoiseScale
from sfumato.errors import ParameterError
from sfumato.numerics.types import Bools, Floats, Integers
from sfumato.privacy.discrete_loss import DiscreteLaplace
from sfumato.privacy.losses import Laplace, Loss
from sfumato.queries.axes import Axis
from sfumato.randomness.secret import Secret
from sfumato.tables.columns import DataColumn, Flag, Integer, Real
from sfumato.tables.declared import keeps_missing
from sfumato.tables.encoding import bounds_of

Measured: TypeAlias = Real | Integer | Flag

FINEST = {0: 28, 1: 24, 2: 14}  # bits of the grid of a sum, and of moments of degree 1 and 2
_CHUNK = 1 << 20  # rows: sums of so many stay exact in doubles
_LARGEST = 2.0**200  # bounds of columns that are summed: noise on squares of them, squared, stays a double


@dataclass(frozen=True, slots=True)
class Grid:
    """The public grid of a column: ``steps`` equal steps of length ``step`` from low to high.

    whole : every cell lies on the grid, since cells are whole numbers and steps are of length 1.
    """

    low: float
    high: float
    steps: int
    whole: bool = False

    @classmethod
    def of(cls, column: Measured, degree: int) -> "Grid":
        """The grid of a column for moments of a degree: its own whole numbers, unless there are too many."""
        low, high = bounds_of(column)
        most = 1 << FINEST[degree]
        whole = not isinstance(column, Real) and high - low <= most
        return cls(low, high, int(high - low) if whole else most, whole)

    @property
    def step(self) -> float:
        """The length of a step in units of the column."""
        return (self.high - self.low) / self.steps

    @property
    def rounding(self) -> float:
        """The most by which rounding to the grid moves a cell."""
        return 0.0 if self.whole else self.step / 2

    def places(self, cells: Floats) -> Floats:
        """The step of each cell, a whole number from 0 to ``steps``: clipped, and NaN at the low end."""
        inside = np.fmin(np.fmax(cells, self.low), self.high)
        return np.clip(np.rint((inside - self.low) / (self.high - self.low) * self.steps), 0.0, float(self.steps))


class Statistic(ABC):
    """Exact integers of a question: ``numbers`` for each group.

    one_by_one : every answer shows one noisy number by itself, so the discrete law of its noise gives exact intervals.
    """

    __slots__ = ()
    one_by_one: ClassVar[bool] = False

    @property
    @abstractmethod
    def numbers(self) -> int:
        """How many numbers of the statistic each group has."""

    @property
    def column(self) -> DataColumn | None:
        """The column that the statistic reads, if it reads one."""
        return None

    @abstractmethod
    def added(self, cells: Floats, groups: Integers, count: int) -> Integers:
        """The statistic of rows, shape (count, numbers): ``groups`` has the group of each, ``cells`` their cells."""

    def finished(self, sums: Integers, rows: int) -> Integers:  # noqa: ARG002 - some statistics use it
        """What gets the noise: the sums themselves, unless the statistic is a function of them.

        rows : of the whole table; used only where it is public.
        """
        return sums

    @abstractmethod
    def moves(self, exposure: Exposure) -> Norms:
        """The most by which one unit moves the statistic of all groups together."""

    def published(self, exact: Integers, noise: NoiseScale, secret: Secret, *context: str | int) -> Integers:
        """What is published of the finished statistic: the numbers with noise, unless it has its own mechanism."""
        return noise.added(exact, secret, *context)

    def drawn(self, noise: NoiseScale) -> NoiseScale:
        """The noise that is drawn for the numbers, if it is not that of the statistic's budget itself."""
        return noise

    def described(self, noise: NoiseScale) -> dict[str, object]:
        """The noise of the statistic, for the record of an answer."""
        return {"noise": self.drawn(noise).kind, "scale": self.drawn(noise).scale}

    def losses(self, move: float, noise: NoiseScale) -> list[Loss]:
        """What publishing costs with Laplace noise; Gaussian noise of scale s always costs mu = move / s."""
        return [DiscreteLaplace(int(move), noise.scale) if self.one_by_one else Laplace(move, noise.scale)]

    @property
    @abstractmethod
    def relative_variance(self) -> float:
        """Of the answer, under noise of variance 1 on each number; times the square of the number of records.

        It decides how statistics share a budget. Records are taken to be spread evenly over levels, and a column over
        its bounds: nothing of the data is known.
        """


@dataclass(frozen=True, slots=True)
class Counted(Statistic):
    """How many records there are."""

    one_by_one: ClassVar[bool] = True

    @property
    def numbers(self) -> int:
        """One count for each group."""
        return 1

    def added(self, cells: Floats, groups: Integers, count: int) -> Integers:  # noqa: ARG002 - it reads none
        """The number of rows in each group."""
        return np.bincount(groups, minlength=count).astype(np.int64)[:, None]

    def moves(self, exposure: Exposure) -> Norms:
        """One record adds 1 to one group."""
        return exposure.of_number(0, 1)

    @property
    def relative_variance(self) -> float:
        """Of a count, beside the records of its group."""
        return 1.0


@dataclass(frozen=True, slots=True)
class LevelCounts(Statistic):
    """How many records have each level of a column."""

    one_by_one: ClassVar[bool] = True
    axis: Axis

    @property
    def numbers(self) -> int:
        """One count for each level."""
        return self.axis.size

    @property
    def column(self) -> DataColumn:
        """The column whose levels are counted."""
        return self.axis.column

    def added(self, cells: Floats, groups: Integers, count: int) -> Integers:
        """The number of rows at each level, in each group."""
        size = self.axis.size
        found = np.bincount(groups * size + self.axis.codes_of(cells), minlength=count * size)
        return found.astype(np.int64).reshape(count, size)

    def moves(self, exposure: Exposure) -> Norms:
        """One record adds 1 to one level."""
        return exposure.of_shares(1)

    @property
    def relative_variance(self) -> float:
        """Of a level's count, beside the records at that level."""
        return float(self.axis.size) ** 2


@dataclass(frozen=True, slots=True)
class Totalled(Statistic):
    """The sum of a column, in steps of its grid, from ``origin``: 0, or the low bound where the number is public."""

    one_by_one: ClassVar[bool] = True
    of: Measured
    from_low: bool
    grid: Grid = field(init=False)

    def __post_init__(self) -> None:
        low, high = bounds_of(self.of)
        whole = not isinstance(self.of, Real) and max(abs(low), abs(high), high - low) <= 1 << FINEST[0]
        grid = Grid.of(self.of, 0) if self.from_low or whole else _from_zero(low, high)
        object.__setattr__(self, "grid", grid)

    @property
    def numbers(self) -> int:
        """One sum for each group."""
        return 1

    @property
    def column(self) -> DataColumn:
        """The column that is summed."""
        return self.of

    @property
    def offset(self) -> int:
        """Steps from the origin of the sum to the low end of the grid."""
        return 0 if self.from_low else round(self.grid.low / self.grid.step)

    def added(self, cells: Floats, groups: Integers, count: int) -> Integers:
        """The sum of each group, in steps."""
        kept = present(self.of, cells)
        values = self.grid.places(cells[0]) + self.offset
        return _grouped([np.where(kept, values, 0.0)], groups, count)

    def moves(self, exposure: Exposure) -> Norms:
        """One record adds what it is."""
        low = self.offset
        if keeps_missing(self.of):
            return exposure.of_number(min(low, 0), max(low + self.grid.steps, 0))
        return exposure.of_number(low, low + self.grid.steps)

    @property
    def relative_variance(self) -> float:
        """Of a sum, beside that of records half as large as can be."""
        return (2 / max(abs(self.offset), abs(self.offset + self.grid.steps))) ** 2


@dataclass(frozen=True, slots=True)
class Moments(Statistic):
    """Moments of a column of degree 1 or 2, in the basis of Bernstein or, of degree 1, about the middle (``centred``).

    ``whole`` is what counts as 1. ``basis`` has a row for each number: what a record at a adds, as coefficients of 1, a
    and a^2, in units of ``whole``.
    """

    of: Measured
    degree: int
    centred: bool = False
    grid: Grid = field(init=False)

    def __post_init__(self) -> None:
        assert self.degree == 1 or (self.degree == 2 and not self.centred)
        object.__setattr__(self, "grid", Grid.of(self.of, self.degree))

    @property
    def numbers(self) -> int:
        """One number more than the degree."""
        return self.degree + 1

    @property
    def column(self) -> DataColumn:
        """The column whose moments are measured."""
        return self.of

    @property
    def whole(self) -> int:
        """What the moments of one record sum to, or what its centred moments are measured in."""
        return int(self.grid.steps**self.degree)

    @property
    def basis(self) -> Floats:
        """What a record adds to each number, as coefficients of 1, a and a^2."""
        if self.centred:
            return np.array([[-1.0, 2.0], [1.0, 0.0]])
        if self.degree == 1:
            return np.array([[1.0, -1.0], [0.0, 1.0]])
        return np.array([[1.0, -2.0, 1.0], [0.0, 2.0, -2.0], [0.0, 0.0, 1.0]])

    def added(self, cells: Floats, groups: Integers, count: int) -> Integers:
        """The moments of each group, in steps."""
        kept, up = present(self.of, cells), self.grid.places(cells[0])
        down = self.grid.steps - up
        if self.centred:
            terms = [up - down, np.full(up.shape, float(self.grid.steps))]
        else:
            terms = [down, up] if self.degree == 1 else [down * down, 2 * down * up, up * up]
        return _grouped([np.where(kept, term, 0.0) for term in terms], groups, count)

    def moves(self, exposure: Exposure) -> Norms:
        """Bernstein: shares of ``whole``. Centred, one group: (2 a - 1, 1) comes or goes, or moves by (2, 0)."""
        if not self.centred:
            return exposure.of_shares(self.whole)
        assert not exposure.grouped
        most = 2 * exposure.group * self.whole
        return Norms(most, float(most))

    @property
    def relative_variance(self) -> float:
        """Of a mean beside half the range, or of a variance beside that of even values."""
        return (24.0 if self.degree == 2 else 1.0 if self.centred else 2.0) / self.whole**2


@dataclass(frozen=True, slots=True)
class PublicSpread(Statistic):
    """The sum of squared deviations from the mean of a column, where the number n of records is public.

    With whole numbers x from 0 to N, q = n sum x^2 - (sum x)^2 is the sum of (x_i - x_j)^2 over all pairs. One record
    that is replaced changes n - 1 of them, each by at most N^2: q moves by (n - 1) N^2 at most, and floor(q / n) by
    less than N^2 + 1, so by at most N^2, a whole number: (n - 1) N^2 / n < N^2, and two floors differ by at most the
    ceiling of the difference of what they round.
    """

    one_by_one: ClassVar[bool] = True
    of: Measured
    grid: Grid = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "grid", Grid.of(self.of, 2))

    @property
    def numbers(self) -> int:
        """The sum of the column and of its squares, of which one number is made."""
        return 2

    @property
    def column(self) -> DataColumn:
        """The column whose deviations are measured."""
        return self.of

    def added(self, cells: Floats, groups: Integers, count: int) -> Integers:
        """The sum of the column and that of its squares, in steps."""
        places = self.grid.places(cells[0])
        return _grouped([places, places * places], groups, count)

    def finished(self, sums: Integers, rows: int) -> Integers:
        """The sum of squared deviations from the mean, rounded down."""
        first, second = (int(value) for value in sums[0])
        return np.array([[(rows * second - first**2) // rows if rows else 0]], np.int64)

    def moves(self, exposure: Exposure) -> Norms:
        """One record moves it by at most the square of the range."""
        assert exposure.public
        most = exposure.group * self.grid.steps**2
        return Norms(most, float(most))

    @property
    def relative_variance(self) -> float:
        """Of a variance, beside that of even values."""
        return (12 / self.grid.steps**2) ** 2


def check_extremes(column: Measured) -> None:
    """Refuse bounds whose squares doubles cannot hold: before anything is read, drawn or charged."""
    low, high = bounds_of(column)
    if max(abs(low), abs(high)) > _LARGEST or high - low < 1 / _LARGEST:
        raise ParameterError(
            f"sums, means and variances need bounds of at most {_LARGEST:.3g} that are at least {1 / _LARGEST:.3g} "
            f"apart; column {column.name!r} goes from {low:g} to {high:g}: declare it in another unit"
        )


def _from_zero(low: float, high: float) -> Grid:
    """The grid of a sum of real numbers: steps from 0, with low and high on the grid or within it.

    A step is a power of 2, so that its multiples are exact in doubles.
    """
    step = 2.0 ** (math.frexp(max(abs(low), abs(high)))[1] - FINEST[0])
    first, last = math.floor(low / step), math.ceil(high / step)
    return Grid(first * step, last * step, last - first)


def present(column: DataColumn, cells: Floats) -> Bools:
    """Which cells are there, where missingness is kept."""
    return cells[1] <= 0.5 if keeps_missing(column) else np.ones(cells.shape[1], bool)


def _grouped(terms: list[Floats], groups: Integers, count: int) -> Integers:
    """Sums of whole numbers by group, exact: chunks so short that doubles hold their sums."""
    found = np.zeros((count, len(terms)), np.int64)
    for start in range(0, len(groups), _CHUNK):
        some = groups[start : start + _CHUNK]
        for place, term in enumerate(terms):
            found[:, place] += np.bincount(some, term[start : start + _CHUNK], count).astype(np.int64)
    return found
