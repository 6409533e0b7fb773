"""What the cells of a record can be, by the public schema, and how likely each makes the released numbers.

A flag is 0 or 1, a category one of its values, a whole number one of a few. Other numbers lie in one of many cells
between their bounds, narrow beside the noise. Noise is taken as it is, Laplace or normal, because every released number
is one column with its own noise. Only the schema, the published numbers and the law of their noise are used.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sfumato.intervals.moments import NoiseLaw
from sfumato.numerics.types import Floats, Integers
from sfumato.tables.columns import Category, DataColumn, Flag, Integer, Ordinal, Set, Vector
from sfumato.tables.declared import keeps_missing
from sfumato.tables.encoding import bounds_of
from sfumato.tables.schema import Schema

_FEW = 64  # levels at most of a column; a number with more possible values gets cells
_FINE = 0.5  # width of these cells, in standard deviations of the noise
_RARE = 1e-3  # chance of a level that the means do not show
_MOST = 4096  # levels at most of a record


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """Groups of levels, of which a record has one each: group g has those from ``starts[g]`` on.

    columns, values : what a level says: the encoded column ``columns[t]`` is ``values[t]``, in weighted units, and the
                      others of its group are at ``base``.
    widths          : of cells, for numbers with many possible values; 0 where the value is exact.
    unit            : squared distances are multiples of this; 0 if they are not.
    """

    columns: Integers
    values: Floats
    widths: Floats
    starts: Integers
    base: Floats
    unit: float

    @classmethod
    def of(cls, schema: Schema, noise: NoiseLaw) -> "Levels | None":
        """Of a table whose encoded columns are 0/1 or of few levels for the most part; None for others."""
        encoding, few = schema.encoding, 0
        parts: list[_LevelGroup] = []
        if schema.norm is not None or any(isinstance(c, Vector) or _beside(c) for c in schema.data_columns):
            return None
        for column in schema.data_columns:
            start = sum(p.width for p in parts) if parts else 0
            for part in _parts(column, start, encoding.weights[start : start + column.width], noise):
                parts.append(part)
                few += part.width * (not part.cells)
        if 2 * few < encoding.dim or sum(len(p.values) for p in parts) > _MOST:
            return None
        sizes = np.array([len(part.values) for part in parts])
        squares = encoding.weights**2
        alike = all(part.binary for part in parts) and bool(np.allclose(squares, squares[0], rtol=1e-12, atol=0))
        return cls(
            np.concatenate([part.columns for part in parts]),
            np.concatenate([part.values for part in parts]),
            np.concatenate([np.full(len(part.values), part.cells) for part in parts]),
            np.cumsum(sizes) - sizes,
            np.asarray(encoding.low * encoding.weights),
            float(squares[0]) if alike else 0.0,
        )

    @property
    def count(self) -> int:
        """The number of levels, of all groups together."""
        return len(self.values)

    @property
    def groups(self) -> Iterator[slice]:
        """Where the levels of each group are."""
        ends = [*self.starts[1:].tolist(), self.count]
        return (slice(start, end) for start, end in zip(self.starts.tolist(), ends, strict=True))

    @property
    def group_of(self) -> Integers:
        """The group of each level."""
        return np.repeat(np.arange(len(self.starts)), np.diff(np.append(self.starts, self.count)))

    @property
    def in_pairs(self) -> bool:
        """Whether every group has two levels, the first of them at the base."""
        return bool(np.all(np.diff(self.starts) == 2)) and self.count == 2 * len(self.starts) == 2 * len(self.base)

    @property
    def rows(self) -> Floats:
        """What each level adds to the base, as rows of encoded columns: (levels, columns)."""
        found = np.zeros((self.count, len(self.base)))
        found[np.arange(self.count), self.columns] = self.values - self.base[self.columns]
        return found

    def first_guess(self, released: Floats) -> Floats:
        """Chances of levels by the means of released numbers; of a number, any level is as likely as another."""
        reach, found = self.values - self.base[self.columns], 1 / np.bincount(self.group_of)[self.group_of]
        means = np.array([self._have_columns(group) for group in self.groups])[self.group_of] & (reach != 0)
        found[means] = (released.mean(axis=0) - self.base)[self.columns][means] / reach[means]
        return self.with_total(found, released)

    def with_total(self, chances: Floats, released: Floats) -> Floats:
        """Chances of levels that add up as the means of released numbers do, where these show them."""
        reach, found = self.values - self.base[self.columns], chances.copy()
        means = np.array([self._have_columns(group) for group in self.groups])[self.group_of] & (reach != 0)
        total = np.sum((released.mean(axis=0) - self.base)[self.columns][means] / reach[means])
        found[means] = _with_total(found[means], float(total))
        for group in self.groups:
            at_base, by_means = reach[group] == 0, means[group]
            if by_means.any():
                found[group][at_base] = max(1 - float(found[group][by_means].sum()), _RARE)
            found[group] /= found[group].sum()
        return found

    def _have_columns(self, group: slice) -> bool:
        """Whether each level of a group that is not at the base has a column of its own."""
        columns = self.columns[group][self.values[group] != self.base[self.columns[group]]]
        return len(np.unique(columns)) == len(columns)

    def likelihoods(self, released: Floats, noise: NoiseLaw) -> Floats:
        """How likely each level makes released rows, over the likeliest of its group: (rows, levels)."""
        seen = released[:, self.columns]
        found = _log_density(seen - self.values, noise) - _log_density(seen - self.base[self.columns], noise)
        most = np.maximum.reduceat(found, self.starts, axis=1)
        return np.asarray(np.exp(found - most[:, self.group_of]))


@dataclass(frozen=True, slots=True, eq=False)
class _LevelGroup:
    """Levels of one group; ``cells`` is their width, 0 where they are exact values."""

    columns: Integers
    values: Floats
    width: int
    cells: float = 0.0
    binary: bool = True


def _with_total(means: Floats, total: float) -> Floats:
    """Noisy shares brought between ``_RARE`` and 1 with a sum, which is known far better than they are.

    Cutting them alone would raise the sum: of many rare levels, what noise makes negative becomes 0, and the rest
    stays. So the same is taken off all of them: the nearest point that has this sum.
    """
    total = float(np.clip(total, _RARE * len(means), len(means)))
    low, high = float(means.min(initial=0.0)) - 1, float(means.max(initial=0.0))
    for _ in range(60):
        middle = (low + high) / 2
        more = np.clip(means - middle, _RARE, 1.0).sum() > total
        low, high = (middle, high) if more else (low, middle)
    return np.clip(means - low, _RARE, 1.0)


def _beside(column: DataColumn) -> bool:
    """Whether a number has a second column for missing cells."""
    return keeps_missing(column) and not isinstance(column, Category | Set)


def _log_density(apart: Floats, noise: NoiseLaw) -> Floats:
    if noise.kind == "gaussian":
        return np.asarray(-(apart**2) / (2 * noise.variance))
    return np.asarray(-np.abs(apart) * np.sqrt(2) / noise.scale)


def _parts(column: DataColumn, start: int, weights: Floats, noise: NoiseLaw) -> Iterator[_LevelGroup]:
    if isinstance(column, Category):
        none = column.missing is None  # then a cell that is not listed has no value
        columns = np.arange(start, start + column.width)
        yield _LevelGroup(np.append(columns, columns[:none]), np.append(weights, [0.0] * none), column.width)
    elif isinstance(column, Set):
        yield from (_LevelGroup(np.full(2, start + j), np.array([0.0, w]), 1) for j, w in enumerate(weights))
    else:
        yield _number(column, start, float(weights[0]), noise)


def _number(column: DataColumn, place: int, weight: float, noise: NoiseLaw) -> _LevelGroup:
    low, high = bounds_of(column)
    exact = isinstance(column, Flag | Ordinal | Integer) and high - low < _FEW
    if exact:
        values = np.asarray(weight * (low + np.arange(int(high - low) + 1)), np.float64)
        return _LevelGroup(np.full(len(values), place), values, 1, binary=isinstance(column, Flag))
    cells = int(np.clip(np.ceil(weight * (high - low) / (_FINE * noise.scale)), 2, _FEW))
    width = weight * (high - low) / cells
    values = np.asarray(weight * low + width * (np.arange(cells) + 0.5), np.float64)
    return _LevelGroup(np.full(cells, place), values, 1, width, binary=False)
