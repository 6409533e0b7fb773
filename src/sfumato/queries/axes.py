"""The columns of a finite domain, each cut into levels: intervals, values, or items of a set.

Every cell of a column falls into exactly one level, by itself. Where missingness is kept, missing cells are one more
level, the last.
"""

import bisect
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, TypeAlias

import numpy as np

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.numerics.edge_search import places
from sfumato.numerics.types import Bools, Floats, Integers
from sfumato.queries.predicates import Among, Compared, Leaf, Ordered, is_whole
from sfumato.tables import dates
from sfumato.tables.columns import Category, DataColumn, Date, Flag, Integer, Ordinal, Real, Set, Vector
from sfumato.tables.declared import keeps_missing
from sfumato.tables.encoding import bounds_of, missing_value
from sfumato.tables.lists import bucket

One: TypeAlias = str | int | float | date
Level: TypeAlias = One | bool | tuple[One, One] | frozenset[str | int] | None
Bins: TypeAlias = int | Sequence[Any]

LIMIT = 1 << 20  # cells, unless told


@dataclass(frozen=True, slots=True)
class Axis(ABC):
    """A column cut into levels; ``start`` is where it stands among the encoded columns of its schema."""

    column: DataColumn
    start: int

    @property
    def name(self) -> str:
        """The name of the domain's column that is cut into levels."""
        return self.column.name

    @property
    @abstractmethod
    def size(self) -> int:
        """How many levels this column of the domain is cut into."""

    @property
    @abstractmethod
    def levels(self) -> tuple[Level, ...]:
        """What each level of the domain means: a value, the first and last of several, or the items of a set.

        Of real columns, the ends of an interval. None: missing, or none of a category's values.
        """

    def codes(self, block: Floats) -> Integers:
        """The domain's level of each row of an encoded block (columns, rows); NaN and what is too low: the lowest."""
        return self.codes_of(block[self.start : self.start + self.column.width])

    @abstractmethod
    def codes_of(self, cells: Floats) -> Integers:
        """The domain's level of each row, from the encoded columns of this column alone."""

    @abstractmethod
    def encoded(self) -> Floats:
        """One encoded cell per level of the domain, (encoded columns, levels); of several values, the first."""

    def truths(self, leaf: Leaf) -> Bools:
        """For each level of the domain, whether a comparison holds; refused if it holds for a part of a level."""
        return leaf.holds(self.encoded())


@dataclass(frozen=True, slots=True)
class Intervals(Axis):
    """A number, an ordinal or a date, cut into intervals in encoded units.

    edges : from the low to the high bound. Level i holds edges[i] <= x < edges[i + 1], the last one its upper edge as
            well; what lies outside the bounds counts as the bound. Where the high bound is itself a cut it is there
            twice: the last level holds the bound alone.
    """

    column: Ordered
    edges: tuple[float, ...]

    @property
    def size(self) -> int:
        """How many intervals there are, and one more for missing cells, if they are kept."""
        return len(self.edges) - 1 + keeps_missing(self.column)

    @property
    def levels(self) -> tuple[Level, ...]:
        """The ends of each interval: of whole numbers, ordinals and dates its first and last value, or the only one."""
        missing = (None,) * keeps_missing(self.column)
        return (*(self._level(i) for i in range(len(self.edges) - 1)), *missing)

    def _level(self, place: int) -> Level:
        low, high = self.edges[place], self.edges[place + 1]
        if not is_whole(self.column):
            return low, high
        last = high if place == len(self.edges) - 2 else high - 1
        return self._value(low) if low == last else (self._value(low), self._value(last))

    def _value(self, number: float) -> One:
        """An encoded number of the domain's column as the value that it stands for."""
        if isinstance(self.column, Ordinal):
            return self.column.values[int(number)]
        if isinstance(self.column, Date):
            return dates.at_step(number, self.column)
        return int(number) if isinstance(self.column, Integer) else number

    def codes_of(self, cells: Floats) -> Integers:
        """The interval of each cell, the lowest for NaN; the last level for missing cells, if they are kept."""
        found = places(self.edges[1:-1], cells[0]).astype(np.int64)
        return np.where(cells[1] > 0.5, self.size - 1, found) if keeps_missing(self.column) else found

    def encoded(self) -> Floats:
        """The lower edge of each interval, and a missing cell, if they are kept."""
        return _with_missing(self.column, np.array([self.edges[:-1]]))

    def truths(self, leaf: Leaf) -> Bools:
        """For each interval, whether a comparison holds; refused if it holds for a part of one."""
        if isinstance(leaf, Compared):
            cut = next((level for level in map(self._split, leaf.cuts) if level is not None), None)
            if cut is not None:
                first, last = (_shown(end) for end in _ends(self._level(cut)))
                raise ParameterError(
                    f"{leaf.column.name!r} {leaf.relation} {_shown(self._value(leaf.value))} holds for a part of the "
                    f"level from {first} to {last}: ask for whole levels (< and >= at their edges), or cut elsewhere"
                )
        return leaf.holds(self.encoded())

    def _split(self, cut: float) -> int | None:
        """The domain's level that a cut goes through: above its lower edge, or at the high bound unless that is one."""
        place = bisect.bisect_left(self.edges, cut)  # edges[place - 1] < cut <= edges[place]
        if place in (0, len(self.edges)) or (self.edges[place] == cut and place < len(self.edges) - 1):
            return None
        return place - 1


@dataclass(frozen=True, slots=True)
class Choices(Axis):
    """A flag or a category: one level for each value."""

    column: Flag | Category

    @property
    def size(self) -> int:
        """How many values there are, and one more for cells that have none, if there may be such."""
        if isinstance(self.column, Flag):
            return 2 + keeps_missing(self.column)
        return self.column.width + (self.column.missing is None)

    @property
    def levels(self) -> tuple[Level, ...]:
        """The values, and None for cells that have none, if there may be such."""
        values: tuple[Level, ...] = (False, True) if isinstance(self.column, Flag) else self.column.values
        return (*values, *(None,) * (self.size - len(values)))

    def codes_of(self, cells: Floats) -> Integers:
        """The place of each cell's value, the last level if it has none."""
        set_ = cells > 0.5
        if isinstance(self.column, Flag):
            truths = set_[0].astype(np.int64)
            return np.where(set_[1], 2, truths) if keeps_missing(self.column) else truths
        return np.asarray(np.where(set_.any(axis=0), set_.argmax(axis=0), self.size - 1), np.int64)

    def encoded(self) -> Floats:
        """Each value as it is encoded."""
        if isinstance(self.column, Flag):
            return _with_missing(self.column, np.array([[0.0, 1.0]]))
        return np.eye(self.column.width, self.size)


@dataclass(frozen=True, slots=True)
class Items(Axis):
    """A set: one level for each combination of some of its items, by their encoded columns, that a record may have."""

    column: Set
    places: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many combinations there are of at most as many items as a record may have."""
        return sum(math.comb(len(self.places), count) for count in range(self.column.most + 1))

    @property
    def _combinations(self) -> list[tuple[int, ...]]:
        """Places among ``places``, for each level of the domain."""
        some = range(min(self.column.most, len(self.places)) + 1)
        return [found for count in some for found in itertools.combinations(range(len(self.places)), count)]

    @property
    def levels(self) -> tuple[Level, ...]:
        """The items, or buckets, of each combination."""
        words = self.column.values or range(self.column.width)
        return tuple(frozenset(words[self.places[i]] for i in found) for found in self._combinations)

    def codes_of(self, cells: Floats) -> Integers:
        """The combination of each cell; one with more items than a record may have, which no encoded cell has: none."""
        codes = np.zeros(1 << len(self.places), np.int64)
        for level, found in enumerate(self._combinations):
            codes[sum(1 << i for i in found)] = level
        set_ = cells[list(self.places)] > 0.5
        return np.asarray(codes[(set_.T @ (1 << np.arange(len(self.places), dtype=np.int64))).astype(np.int64)])

    def encoded(self) -> Floats:
        """Each combination as it is encoded, with no item beside these."""
        cells = np.zeros((self.column.width, self.size))
        for level, found in enumerate(self._combinations):
            cells[[self.places[i] for i in found], level] = 1.0
        return cells

    def truths(self, leaf: Leaf) -> Bools:
        """For each combination, whether a question holds; refused if it is about other items."""
        if isinstance(leaf, Among) and not set(leaf.places) <= set(self.places):
            raise ParameterError(f"the query asks about items of {self.name!r} that are no level of the domain")
        return leaf.holds(self.encoded())


def _with_missing(column: DataColumn, cells: Floats) -> Floats:
    """Encoded levels of a domain's number, with one for missing cells, if they are kept."""
    if not keeps_missing(column):
        return cells
    return np.array([[*cells[0], missing_value(column)], [*np.zeros(cells.shape[1]), 1.0]])


def _ends(level: Level) -> tuple[Any, Any]:
    return level if isinstance(level, tuple) else (level, level)


def _shown(value: One) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


# ---- cuts -----------------------------------------------------------------------------------------------------------


def axis_at(column: DataColumn, start: int, leaves: Sequence[Leaf]) -> Axis:
    """A column of a domain, cut where questions change, which are public: each is constant on every level."""
    mine = [leaf for leaf in leaves if leaf.column == column]
    if isinstance(column, Set):
        places = tuple(sorted({place for leaf in mine if isinstance(leaf, Among) for place in leaf.places}))
        return _items(column, start, places)
    if not isinstance(column, Real | Integer | Ordinal | Date):
        return _choices(column, start)
    low, high = bounds_of(column)
    cuts = {float(cut) for leaf in mine if isinstance(leaf, Compared) for cut in leaf.cuts}
    return Intervals(column, start, (low, *sorted(cut for cut in cuts if low < cut <= high), high))


def axis_of(column: DataColumn, start: int, bins: Bins | None) -> Axis:
    """A column of a domain, cut as the caller says."""
    if isinstance(column, Set):
        return _items(column, start, _asked(column, bins))
    if isinstance(column, Real | Integer | Ordinal | Date):
        return Intervals(column, start, _edges(column, bins))
    return _choices(column, start)


def _choices(column: DataColumn, start: int) -> Choices:
    if isinstance(column, Flag | Category):
        return Choices(column, start)
    assert isinstance(column, Vector)
    raise ParameterError(f"the column {column.name!r} is a vector, which has no levels: leave it out of the domain")


def _items(column: Set, start: int, places: tuple[int, ...]) -> Items:
    made = Items(column, start, places)
    if len(places) > LIMIT.bit_length() or made.size > LIMIT:
        raise ParameterError(
            f"{len(places)} items of {column.name!r} have too many combinations to enumerate: ask about fewer of them"
        )
    return made


def _asked(column: Set, bins: Bins | None) -> tuple[int, ...]:
    """The encoded columns of a set's items that a domain tells apart."""
    if bins is None or isinstance(bins, (int, np.integer, str, bytes)):
        raise ParameterError(
            f"the column {column.name!r} is a set: list the items to ask about, bins={{{column.name!r}: ['milk']}}"
        )
    words = [str(item) for item in bins]
    if column.buckets is not None:
        return tuple(sorted({bucket(word.encode(), column.buckets) for word in words}))
    known = [str(value) for value in column.values or ()]
    for word in words:
        check.one_of(known, item=word)
    return tuple(sorted({known.index(word) for word in words}))


def _edges(column: Ordered, bins: Bins | None) -> tuple[float, ...]:
    """The public cuts of a column of a domain into levels, with its bounds at both ends, in encoded units."""
    low, high = bounds_of(column)
    if bins is None:
        cuts = _each(column)
    elif isinstance(bins, (int, np.integer)):
        check.whole(1, bins=bins)
        check.between(1, LIMIT, bins=bins)
        cuts = _equal(column, int(bins))
    else:
        cuts = _listed(column, bins)
    edges = (low, *cuts, high)
    if not all(a < b for a, b in itertools.pairwise(edges[:-1])) or not edges[-2] <= high:
        raise ParameterError(f"cuts of {column.name!r} must rise strictly between its bounds, got bins={bins!r}")
    return edges


def _each(column: Ordered) -> list[float]:
    """Cuts of a domain's column between any two values of a whole number or an ordinal; others have too many."""
    low, high = bounds_of(column)
    if not isinstance(column, Integer | Ordinal) or high - low >= LIMIT:
        what = {"real": "real", "integer": "a whole number of many values"}.get(column.kind, f"a {column.kind}")
        raise ParameterError(f"the column {column.name!r} is {what}: say how to cut it, bins={{{column.name!r}: 10}}")
    return np.arange(low + 1, high + 1).tolist()


def _equal(column: Ordered, bins: int) -> list[float]:
    """Cuts of a domain's column into equal levels, or into levels of whole numbers that are as equal as can be."""
    low, high = bounds_of(column)
    if is_whole(column):
        count = int(high - low) + 1
        return [low + count * i // bins for i in range(1, bins)]
    return [low + (high - low) * (i / bins) for i in range(1, bins)]


def _listed(column: Ordered, bins: Sequence[Any]) -> list[float]:
    """The cuts of a column of a domain, checked to be numbers, values of an ordinal, or dates; in encoded units."""
    try:
        cuts = [math.nan] if isinstance(bins, (str, bytes)) else [_cut(column, cut) for cut in bins]
    except (TypeError, ValueError, OverflowError):
        cuts = [math.nan]
    if any(math.isnan(cut) for cut in cuts):
        what = {"ordinal": "of its values", "date": "of dates", "datetime": "of dates"}.get(column.kind, "of cuts")
        raise ParameterError(
            f"bins of {column.name!r} must be a whole number of bins, or a list {what} that rise strictly, "
            f"got bins={bins!r}"
        )
    return [float(math.ceil(cut)) for cut in cuts] if is_whole(column) and all(map(math.isfinite, cuts)) else cuts


def _cut(column: Ordered, cut: Any) -> float:
    """A cut of a domain's column in encoded units; NaN if it is none."""
    if isinstance(column, Ordinal):
        places = {str(value): place for place, value in enumerate(column.values)}
        return float(places.get(str(cut), math.nan))
    if isinstance(column, Date):
        text = cut.isoformat() if isinstance(cut, date) else cut
        found = dates.written(text, column) if isinstance(text, str) else None
        return math.nan if found is None else found
    return math.nan if isinstance(cut, (str, bytes, bool, np.bool_)) else float(cut)
