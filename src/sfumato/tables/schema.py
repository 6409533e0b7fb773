"""What the data may be: columns with declared bounds, and how a batch of rows becomes a matrix.

Bounds come from what is known about the world, never from the data: a guarantee is computed from them before a row is
read. A cell that is missing, unreadable or unlisted becomes what the schema says, never an error, because an error that
depends on a private cell would tell about it.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, Union, cast, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from sfumato import check, defaults
from sfumato.errors import ParameterError, SchemaError
from sfumato.in_notebooks import InNotebooks
from sfumato.numerics.lattice import Plain, PlainRows
from sfumato.numerics.types import Floats
from sfumato.tables import cells, declared, lists, patterns, schema_file, sheet
from sfumato.tables.columns import Column, DataColumn, Flag, Id, Integer, Real, Set, Vector, source_names
from sfumato.tables.encoding import Encoding, Scale, encoded_names, fill, missing_value, of_one_range
from sfumato.tables.learned import Learned
from sfumato.tables.patterns import positions
from sfumato.tables.schema_draft import Draft, arrow_types, pandas_categories, pandas_types

Norm = Literal["l1", "l2"]
AnySchema: TypeAlias = Union["Schema", str, Path, None]  # a schema, or the file of one

_CACHED = 1 << 12  # rows that are shortened together, while they are in the cache
_CLASSES = "Real, Integer, Flag, Ordinal, Category, Date, Vector, Set and Id"


def schema_of(schema: "AnySchema | Draft") -> "Schema | None":
    """The schema that somebody gave, read from its file where that was given; a draft is refused where it is used."""
    if isinstance(schema, str | Path):
        return Schema.read(schema)
    if schema is not None and not isinstance(schema, Schema | Draft):
        kind = type(schema).__name__
        raise ParameterError(f"schema must be a Schema or the path of its file, got an object of type {kind}")
    return cast("Schema | None", schema)


@dataclass(frozen=True, slots=True)
class Schema(InNotebooks):
    """The columns of a table and, if wanted, a clip of each row to a norm of at most ``norm_bound``, in weighted units.

    scale            : ``bounds``, the default: a column counts in units of its declared range, whatever its kind, and
                       weights are relative to that. ``raw``: in its own units. Where no scale is stated, columns that
                       are numbers of one range stay raw, since scaling would only change the unit.
    bounds_from_data : confesses that bounds were taken from the data, which no guarantee covers.
    learned          : how bounds and values were learned privately, if they were, and at which price.
    A name such as ``WAP*`` is a pattern, and ``WAP{001..520}`` a numbered range (see ``patterns``). A schema with
    patterns is of use once ``matched`` has settled them with the names of a table; ``release`` and the like do so.
    Guarantee: ``encode`` reads each cell by itself; no cell changes how another is encoded or raises an error.
    """

    columns: tuple[Column, ...]
    norm: Norm | None = None
    norm_bound: float | None = None
    bounds_from_data: bool = False
    scale: Scale | None = None
    learned: Learned | None = None
    scale_stated: bool = field(init=False, repr=False, compare=False, default=True)
    open_patterns: tuple[str, ...] = field(init=False, repr=False, compare=False, default=())  # not settled yet
    _encoding: Encoding | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        if isinstance(self.columns, (str, Mapping)) or not isinstance(self.columns, Iterable):
            raise SchemaError(f"columns must be a list of {_CLASSES}")
        object.__setattr__(self, "columns", tuple(self.columns))
        for place, column in enumerate(self.columns, 1):
            if not isinstance(column, get_args(Column)):
                raise SchemaError(f"column number {place} must be one of {_CLASSES}, got {column!r}")
        object.__setattr__(self, "columns", patterns.expanded(self.columns))
        object.__setattr__(self, "open_patterns", patterns.open_patterns(self.columns))
        self._check_columns()
        if not isinstance(self.bounds_from_data, bool):
            raise SchemaError(f"bounds_from_data must be true or false, got {self.bounds_from_data!r}")
        if not isinstance(self.learned, Learned | None):
            raise SchemaError(f"learned must be a Learned or None, got {self.learned!r}")
        self._settle_scale()
        if (self.norm is None) != (self.norm_bound is None):
            raise SchemaError("a clip needs both norm and bound, or neither")
        if self.norm is not None:
            self._check_clip()

    def _settle_scale(self) -> None:
        if self.scale not in (None, *get_args(Scale)):
            raise SchemaError(f"scale must be 'bounds' or 'raw', got {self.scale!r}")
        if self.open_patterns:  # settled with them
            object.__setattr__(self, "scale_stated", self.scale is not None)
            return
        alike = of_one_range(self.data_columns)
        object.__setattr__(self, "scale_stated", alike or self.scale is not None)
        object.__setattr__(self, "scale", self.scale or ("raw" if alike else defaults.SCALE))

    def _check_columns(self) -> None:
        _refuse_twice([c.name for c in self.columns], "column")
        if not self.open_patterns:
            _refuse_twice(self.source_names, "column")
            _refuse_twice([n for c in self.data_columns for n in encoded_names(c)], "encoded column")
        ids = [c.name for c in self.columns if isinstance(c, Id)]
        if len(ids) > 1:
            raise SchemaError(f"at most one column may be an id, got {', '.join(map(repr, ids))}")
        if len(ids) == len(self.columns):
            raise SchemaError("a schema needs at least one column that is no id")

    def _check_clip(self) -> None:
        if self.norm not in get_args(Norm):
            raise SchemaError(f"norm of the clip must be 'l1' or 'l2', got {self.norm!r}")
        bound: Any = self.norm_bound
        if isinstance(bound, bool) or not isinstance(bound, (int, float, np.number)) or not 0 < bound < math.inf:
            raise SchemaError(f"bound of the clip must be a positive finite number, got {bound!r}")
        object.__setattr__(self, "norm_bound", float(bound))

    @classmethod
    def reals(cls, dim: int, low: ArrayLike, high: ArrayLike) -> Self:
        """The schema of a plain matrix: columns c0, c1, ... with one pair of bounds, or one pair for each."""
        check.whole(1, dim=dim)
        bounds = [np.asarray(bound) for bound in (low, high)]
        if any(bound.shape not in ((), (dim,)) for bound in bounds):
            raise SchemaError(
                f"low and high must be numbers, or {dim} of them, got {bounds[0].shape}, {bounds[1].shape}"
            )
        pairs = zip(*(np.broadcast_to(bound, dim).tolist() for bound in bounds), strict=True)
        return cls(tuple(Real(f"c{j}", *pair) for j, pair in enumerate(pairs)))

    @property
    def id_column(self) -> Id | None:
        """The column that labels the rows, if there is one."""
        return next((c for c in self.columns if isinstance(c, Id)), None)

    @property
    def data_columns(self) -> tuple[DataColumn, ...]:
        """The columns that are encoded, in order; refused where patterns are not settled yet."""
        self._need_names()
        return tuple(c for c in self.columns if not isinstance(c, Id))

    def _need_names(self) -> None:
        if self.open_patterns:
            raise SchemaError(
                f"the schema has the pattern {self.open_patterns[0]!r}, which needs the names of a table's columns: "
                "give the table, or write a numbered range such as 'x{1..9}'"
            )

    @property
    def source_names(self) -> tuple[str, ...]:
        """The columns of the table that data columns are read from."""
        return tuple(name for column in self.data_columns for name in source_names(column))

    @property
    def number_columns(self) -> dict[str, DataColumn]:
        """The columns of the table that hold plain numbers, with what is declared about them."""
        numbers = [c for c in self.data_columns if isinstance(c, Real | Integer) or getattr(c, "columns", None)]
        return {name: column for column in numbers for name in source_names(column)}

    @property
    def clips(self) -> bool:
        """Whether rows, or vectors among their values, are shortened to a norm."""
        return self.norm is not None or any(isinstance(c, Vector) and c.bound is not None for c in self.columns)

    @property
    def encoding(self) -> Encoding:
        """The layout of the encoded matrix; a function of the schema alone."""
        if self._encoding is None:
            self._need_names()
            assert self.scale is not None
            object.__setattr__(self, "_encoding", Encoding.of(self.data_columns, self.scale))
        assert self._encoding is not None
        return self._encoding

    @property
    def digest(self) -> str:
        """SHA-256 of the schema in canonical form: equal for equal schemas, however they were written."""
        canonical = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def encode(self, batch: pa.RecordBatch | pa.Table) -> Floats:
        """The batch as a matrix of shape (encoded columns, rows); numbers as they are, not yet clipped.

        Guarantee: every entry is a number or an infinity, never NaN; each cell is read by itself, and none raises.
        Raises SchemaError for what is public: a column that is absent, twice there, or of a type that cannot be read.
        """
        names = self.source_names
        places = dict(zip(names, positions(batch.schema.names, names), strict=True))
        out, row = np.empty((sum(c.width for c in self.data_columns), batch.num_rows)), 0
        for column in self.data_columns:
            found = [batch.column(places[name]) for name in source_names(column)]
            encode_column(out[row : row + column.width], found, column)
            row += column.width
        return out

    def later(self, batch: pa.RecordBatch) -> Floats | Plain:
        """What ``encode`` gives; or what it would give, if all columns are numbers without gaps."""
        missing = self.missing_numbers
        if missing is None:
            return self._later_lists(batch)
        found = [batch.column(place) for place in positions(batch.schema.names, self.source_names)]
        if not all(map(cells.is_plain, found)):
            return self.encode(batch)
        return Plain([cells.numbers(array) for array in found], missing)

    def _later_lists(self, batch: pa.RecordBatch) -> Floats | Plain:
        """What ``encode`` gives; or what it would give, if the only column is of vectors without gaps."""
        (first, *others), names = self.data_columns, batch.schema.names
        if isinstance(first, Vector) and not others:
            rows = lists.plain_rows(batch.column(positions(names, self.source_names)[0]), first)
            if rows is not None:
                return PlainRows(rows, np.full(first.size, missing_value(first)))
        return self.encode(batch)

    @property
    def missing_numbers(self) -> Floats | None:
        """What NaN stands for in each encoded column, where all are numbers as they are read; else None."""
        columns = self.data_columns
        if not all((isinstance(c, Real) and c.width == 1) or getattr(c, "columns", None) for c in columns):
            return None
        return np.array([missing_value(c) for c in columns for _ in range(c.width)])

    def clip(self, block: Floats) -> Floats:
        """An encoded block within the column bounds, NaN at the low one, and each row within the norm, if any.

        Vectors that have a bound are shortened to it.
        """
        encoding = self.encoding
        inside = np.fmax(block, encoding.low[:, None])
        np.fmin(inside, encoding.high[:, None], out=inside)
        for group in encoding.groups:
            if group.bound is not None:
                # in units of the bound, so that no square that counts is too small for a double
                per_bound = np.full(group.stop - group.start, 1 / group.bound)
                _shorten(inside[group.start : group.stop], per_bound, "l2", 1.0)
        if self.norm is not None and self.norm_bound is not None:
            _shorten(inside, encoding.weights, self.norm, self.norm_bound)
        return np.asarray(inside)

    def matched(self, names: Iterable[str]) -> Self:
        """The schema with its patterns settled by the names of a table's columns; without patterns, itself.

        A pattern stands for the columns that it matches and that no other entry names. Names are public: nothing is
        read off the rows.
        """
        return self if not self.open_patterns else replace(self, columns=patterns.matched(self.columns, names))

    def to_dict(self) -> dict[str, Any]:
        """The schema as JSON-able values, defaults left out; without a scale, units are raw, as in version 0.1.0."""
        self._need_names()
        result = self._settings()
        if self.scale == "raw":
            del result["scale"]
        return result | {"columns": [schema_file.column_values(c) for c in self.columns]}

    def _settings(self) -> dict[str, Any]:
        """What a file says besides the columns."""
        result: dict[str, Any] = {"bounds_from_data": True} if self.bounds_from_data else {}
        if self.scale is not None:
            result["scale"] = self.scale
        if self.norm is not None:
            result["clip"] = {"norm": self.norm, "bound": self.norm_bound}
        if self.learned is not None:
            result["learned"] = self.learned.to_dict()
        return result

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of ``to_dict``; names are those of columns, never patterns."""
        return cls._of(schema_file.written(values))

    def to_toml(self) -> str:
        """The schema as a TOML text that people can read and edit."""
        return schema_file.toml_text(self._settings(), self.columns)

    @classmethod
    def from_toml(cls, text: str) -> Self:
        """The inverse of ``to_toml``; without a scale it is by bounds, and refused where that could be mistaken.

        One SchemaError tells every problem.
        """
        return cls._of(schema_file.from_toml(text))

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """The schema in a TOML file, or in a sheet (.csv, .xlsx); one SchemaError names the file and every problem."""
        path = Path(path)
        try:
            if path.suffix.lower() in sheet.SUFFIXES:
                return cls._of(sheet.read(path))
            return cls._of(schema_file.from_toml(schema_file.text_of(path), path.parent))
        except SchemaError as error:
            raise SchemaError(f"{path}: {error}", error.problems) from None

    def rows(self) -> list[list[str]]:
        """The schema as the rows of a sheet, headers first."""
        return sheet.rows_of(self._settings(), [schema_file.entry_of(c) for c in self.columns])

    def write(self, path: str | Path) -> None:
        """Write the schema to a TOML file, or to a sheet (.csv, .xlsx)."""
        sheet.write(Path(path), self)

    @classmethod
    def _of(cls, written: schema_file.WrittenSchema) -> Self:
        """The schema that a file describes; refused with every problem, those of the whole schema among them."""
        problems = list(written.problems)
        try:
            made = cls((Flag("any"),) if problems else written.columns, **written.settings)
        except SchemaError as error:
            problems += declared.told(error)
        if problems:
            raise declared.gathered(problems)
        return made

    @classmethod
    def from_arrow(cls, table: Any) -> Draft:
        """A draft of the schema of an Arrow table, or of its ``pyarrow.Schema``; no value is looked at.

        Takes whatever has ``__arrow_c_stream__`` or ``__arrow_c_schema__`` too, such as a polars frame. ``Draft.fill``
        makes the schema.
        """
        return Draft.of(arrow_types(table), cls)

    @classmethod
    def from_pandas(cls, frame: Any, *, categories_from_data: bool = False) -> Draft:
        """A draft of the schema of a pandas frame, from its column names and dtypes alone; ``Draft.fill`` makes it.

        categories_from_data : also take the categories of columns of dtype ``category``. NOT PRIVATE: which values
                               occur is a fact about the data. The schema says so (``bounds_from_data``).
        """
        return Draft.of(pandas_types(frame), cls, pandas_categories(frame) if categories_from_data else {})


def _lengths(rows: Floats, weights: Floats | None, norm: str) -> Floats:
    """The weighted length of each encoded row, which a schema clips to its norm, summed column by column.

    So a row's length is the same to the bit whatever stands beside it in its block (NumPy's own sums depend on shape):
    where the number of rows is protected, a record that comes or goes may shift others to other blocks.
    """
    total, part = np.zeros(rows.shape[1]), np.empty(rows.shape[1])
    for j, column in enumerate(rows):
        weighted = column if weights is None else np.multiply(column, weights[j], out=part)
        if norm == "l1":
            np.abs(weighted, out=part)
        else:
            np.multiply(weighted, weighted, out=part)
        total += part
    return total if norm == "l1" else np.sqrt(total)


def _shorten(rows: Floats, weights: Floats | None, norm: str, bound: float) -> None:
    """Shorten rows (columns, rows), in place, so that no weighted length exceeds a schema's bound."""
    room = 1 - max(1e-12, (len(rows) + 16) * 2.0**-51)  # for the roundings of the length
    for start in range(0, rows.shape[1], _CACHED):
        some = rows[:, start : start + _CACHED]
        some *= np.minimum(1.0, bound * room / np.maximum(_lengths(some, weights, norm), bound / 2))


def check_type(kind: pa.DataType, column: DataColumn) -> None:
    """Refuse an Arrow type in which a schema's column cannot be read; depends on the type and the schema alone."""
    if isinstance(column, Vector | Set):
        lists.check(kind, column)
    else:
        cells.check(kind, column)


def encode_column(block: Floats, found: Sequence[Any], column: DataColumn) -> None:
    """Encode one column of a schema: ``found`` are the columns of the table that it is read from."""
    if isinstance(column, Vector) and column.columns is not None:
        for row, array in enumerate(found):
            encode_column(
                block[row : row + 1], [array], Real(column.name, column.low, column.high, missing_value(column))
            )
        return
    (array,), start = found, 0
    if isinstance(column, Real) and column.width == 1 and cells.copied(array, block[0]):
        return
    for chunk in cells.chunks(array):
        some = block[:, start : start + len(chunk)]
        if isinstance(column, Vector | Set):
            lists.fill(some, chunk, column)
        else:
            fill(some, cells.read(chunk, column), column)
        start += len(chunk)


def _refuse_twice(names: Sequence[str], what: str) -> None:
    twice = declared.repeated(names, what)
    if twice:
        raise SchemaError(twice[0])
