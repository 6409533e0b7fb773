"""What the data may be: columns with declared bounds, and how a batch of rows becomes a matrix.

Bounds come from what is known about the world, never from the data: a guarantee is computed from them before a row is
read. A cell that is missing, unreadable or unlisted becomes what the schema says, never an error, because an error that
depends on a private cell would tell about it.
"""

import hashlib
import json
import math
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import date
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from sfumato import check, untrusted
from sfumato.errors import SchemaError
from sfumato.numerics.lattice import Plain
from sfumato.numerics.types import Floats
from sfumato.tables import cells, lists
from sfumato.tables.columns import KINDS, Column, DataColumn, Id, Integer, Real, Set, Vector, source_names
from sfumato.tables.encoding import Encoding, Scale, encoded_names, missing_value, of_one_range

Norm = Literal["l1", "l2"]

LARGEST = 1 << 26  # bytes of a schema file
_CLASSES = "Real, Integer, Flag, Ordinal, Category, Date, Vector, Set and Id"


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a table and, if wanted, a clip of each row to a norm of at most ``norm_bound``, in weighted units.

    scale            : ``bounds``, the default: a column counts in units of its declared range, whatever its kind, and
                       weights are relative to that. ``raw``: in its own units. Columns that are numbers of one range
                       stay raw, since scaling would only change the unit.
    bounds_from_data : confesses that bounds were taken from the data, which no guarantee covers.
    Guarantee: ``encode`` reads each cell by itself; no cell changes how another is encoded or raises an error.
    """

    columns: tuple[Column, ...]
    norm: Norm | None = None
    norm_bound: float | None = None
    bounds_from_data: bool = False
    scale: Scale | None = None
    scale_stated: bool = field(init=False, repr=False, compare=False, default=True)
    _encoding: Encoding | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        if isinstance(self.columns, (str, Mapping)) or not isinstance(self.columns, Iterable):
            raise SchemaError(f"columns must be a list of {_CLASSES}")
        object.__setattr__(self, "columns", tuple(self.columns))
        for place, column in enumerate(self.columns, 1):
            if not isinstance(column, get_args(Column)):
                raise SchemaError(f"column number {place} must be one of {_CLASSES}, got {column!r}")
        self._check_columns()
        if not isinstance(self.bounds_from_data, bool):
            raise SchemaError(f"bounds_from_data must be true or false, got {self.bounds_from_data!r}")
        self._settle_scale()
        if (self.norm is None) != (self.norm_bound is None):
            raise SchemaError("a clip needs both norm and bound, or neither")
        if self.norm is not None:
            self._check_clip()

    def _settle_scale(self) -> None:
        if self.scale not in (None, *get_args(Scale)):
            raise SchemaError(f"scale must be 'bounds' or 'raw', got {self.scale!r}")
        alike = of_one_range(self.data_columns)
        object.__setattr__(self, "scale_stated", alike or self.scale is not None)
        object.__setattr__(self, "scale", "raw" if alike else self.scale or "bounds")

    def _check_columns(self) -> None:
        _refuse_twice([c.name for c in self.columns], "column")
        _refuse_twice(self.source_names, "column")
        _refuse_twice([n for c in self.data_columns for n in encoded_names(c)], "encoded column")
        ids = [c.name for c in self.columns if isinstance(c, Id)]
        if len(ids) > 1:
            raise SchemaError(f"at most one column may be an id, got {', '.join(map(repr, ids))}")
        if not self.data_columns:
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
        """The columns that are encoded, in order."""
        return tuple(c for c in self.columns if not isinstance(c, Id))

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
            _encode(out[row : row + column.width], found, column)
            row += column.width
        return out

    def later(self, batch: pa.RecordBatch) -> Floats | Plain:
        """What ``encode`` gives; or what it would give, if all columns are numbers without gaps."""
        missing = self.missing_numbers
        if missing is None:
            return self.encode(batch)
        found = [batch.column(place) for place in positions(batch.schema.names, self.source_names)]
        if not all(map(cells.is_plain, found)):
            return self.encode(batch)
        return Plain([cells.numbers(array) for array in found], missing)

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
        inside = np.fmin(np.fmax(block, encoding.low[:, None]), encoding.high[:, None])
        for group in encoding.groups:
            if group.bound is not None:
                _shorten(inside[group.start : group.stop], 1.0, "l2", group.bound)
        if self.norm is not None and self.norm_bound is not None:
            _shorten(inside, encoding.weights[:, None], self.norm, self.norm_bound)
        return np.asarray(inside)

    def to_dict(self) -> dict[str, Any]:
        """The schema as JSON-able values, defaults left out; without a scale, units are raw, as in version 0.1.0."""
        result: dict[str, Any] = {"bounds_from_data": True} if self.bounds_from_data else {}
        if self.scale != "raw":
            result["scale"] = self.scale
        if self.norm is not None:
            result["clip"] = {"norm": self.norm, "bound": self.norm_bound}
        return result | {"columns": [_column_to_dict(c) for c in self.columns]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of ``to_dict``."""
        _refuse_unknown(values, ("columns", "clip", "bounds_from_data", "scale"), "the schema")
        clip, columns = values.get("clip", {}), values.get("columns", [])
        if not isinstance(columns, list) or not isinstance(clip, Mapping):
            raise SchemaError("columns must be written as [[columns]] and clip as [clip]")
        _refuse_unknown(clip, ("norm", "bound"), "clip")
        made = tuple(_column_from_dict(place, entry) for place, entry in enumerate(columns, 1))
        from_data, scale = values.get("bounds_from_data", False), values.get("scale", "raw")
        return cls(made, clip.get("norm"), clip.get("bound"), from_data, scale)

    def to_toml(self) -> str:
        """The schema as a TOML text that people can read and edit."""
        values = self.to_dict()
        lines = ["bounds_from_data = true"] if self.bounds_from_data else []
        lines += [f'scale = "{self.scale}"', ""]
        if "clip" in values:
            lines += ["[clip]", *_toml_lines(values["clip"]), ""]
        for column, written in zip(self.columns, values["columns"], strict=True):
            dated = {key: getattr(column, key) for key in written if isinstance(getattr(column, key), date)}
            lines += ["[[columns]]", *_toml_lines(written | dated), ""]
        return "\n".join(lines)

    @classmethod
    def from_toml(cls, text: str) -> Self:
        """The inverse of ``to_toml``; without a scale it is by bounds, and refused where that could be mistaken."""
        try:
            values = tomllib.loads(text)
        except ValueError as error:  # TOMLDecodeError, or a number with thousands of digits
            raise SchemaError(f"not TOML: {error}") from None
        except RecursionError:
            raise SchemaError("not a schema: its brackets are nested too deeply") from None
        if "scale" in values:
            return cls.from_dict(values)
        raw = cls.from_dict(values)
        _refuse_unstated(raw, values)
        return cls(raw.columns, raw.norm, raw.norm_bound, raw.bounds_from_data)

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """The schema in a TOML file; errors name the file."""
        path = Path(path)
        try:
            return cls.from_toml(untrusted.read(path, LARGEST).decode().replace("\r\n", "\n").replace("\r", "\n"))
        except untrusted.NotOrdinaryError as error:
            raise SchemaError(f"{path}: {error}, so it is not read: name the file of a schema") from None
        except (OSError, UnicodeError):
            raise SchemaError(f"{path}: there is no such schema file, or it is not UTF-8 text") from None
        except SchemaError as error:
            raise SchemaError(f"{path}: {error}") from None

    def write(self, path: str | Path) -> None:
        """Write the schema to a TOML file."""
        Path(path).write_text(self.to_toml(), encoding="utf-8", newline="\n")


def _lengths(weighted: Floats, norm: str) -> Floats:
    """The length of each encoded row, which a schema clips to its norm, summed column by column.

    So a row's length is the same to the bit whatever stands beside it in its block (NumPy's own sums depend on shape):
    where the number of rows is protected, a record that comes or goes may shift others to other blocks.
    """
    total = np.zeros(weighted.shape[1])
    for column in weighted:
        total += np.abs(column) if norm == "l1" else column * column
    return total if norm == "l1" else np.sqrt(total)


def _shorten(rows: Floats, weights: Floats | float, norm: str, bound: float) -> None:
    """Shorten rows (columns, rows), in place, so that no weighted length exceeds a schema's bound."""
    room = 1 - max(1e-12, (len(rows) + 16) * 2.0**-51)  # for the roundings of the length
    rows *= np.minimum(1.0, bound * room / np.maximum(_lengths(rows * weights, norm), bound / 2))


def check_type(kind: pa.DataType, column: DataColumn) -> None:
    """Refuse an Arrow type in which a schema's column cannot be read; depends on the type and the schema alone."""
    if isinstance(column, Vector | Set):
        lists.check(kind, column)
    else:
        cells.check(kind, column)


def _encode(block: Floats, found: Sequence[Any], column: DataColumn) -> None:
    """Encode one column of a schema: ``found`` are the columns of the table that it is read from."""
    if isinstance(column, Vector) and column.columns is not None:
        for row, array in enumerate(found):
            _encode(block[row : row + 1], [array], Real(column.name, column.low, column.high, missing_value(column)))
        return
    (array,), start = found, 0
    if isinstance(column, Real) and column.width == 1 and cells.copied(array, block[0]):
        return
    for chunk in cells.chunks(array):
        some = block[:, start : start + len(chunk)]
        if isinstance(column, Vector | Set):
            lists.fill(some, chunk, column)
        else:
            cells.fill(some, cells.read(chunk, column), column)
        start += len(chunk)


def positions(names: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Where columns of a schema are among the names of a table; refuses what is absent or there more than once."""
    place, count = {name: i for i, name in enumerate(names)}, Counter(names)
    absent = [name for name in wanted if name not in place]
    if absent:
        raise SchemaError(f"the table has no column{'s' * (len(absent) > 1)} {_listing(absent)}")
    _refuse_twice([name for name in wanted if count[name] > 1 for _ in range(2)], "column of the data")
    return [place[name] for name in wanted]


def _listing(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _refuse_twice(names: Sequence[str], what: str) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise SchemaError(f"the {what} {twice[0]!r} is there more than once: names must be unique")


def _refuse_unknown(values: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    unknown = [key for key in values if key not in known]
    if unknown:
        raise SchemaError(f"unknown key {unknown[0]!r} in {where}: it may hold {', '.join(known)}")


def _column_to_dict(column: Column) -> dict[str, Any]:
    given = {f.name: getattr(column, f.name) for f in fields(column) if getattr(column, f.name) != f.default}
    for key, value in given.items():
        given[key] = (
            list(value) if isinstance(value, tuple) else value.isoformat() if isinstance(value, date) else value
        )
    return {"name": given.pop("name"), "kind": column.kind} | given


def _column_from_dict(place: int, entry: object) -> Column:
    if not isinstance(entry, Mapping) or "name" not in entry:
        raise SchemaError(f"column number {place} has no name")
    where, kind = f"column {entry['name']!r}", entry.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise SchemaError(f"kind of {where} must be one of {', '.join(KINDS)}, got {kind!r}")
    keys = [f.name for f in fields(KINDS[kind])]
    _refuse_unknown(entry, ["kind", *keys], f"{where} of kind {kind}")
    column: Column = KINDS[kind](**{key: entry[key] for key in keys if key in entry})
    if column.kind != kind:
        raise SchemaError(f"{where} is of kind {kind}, and its bounds are those of kind {column.kind}")
    return column


def _refuse_unstated(schema: Schema, values: Mapping[str, Any]) -> None:
    """Refuse a schema from a file that states no scale where a weight or a clip could mean either."""
    weighted = [column["name"] for column in values["columns"] if "weight" in column]
    if weighted or (schema.norm is not None and not of_one_range(schema.data_columns)):
        what = f"the weight of column {weighted[0]!r}" if weighted else "the bound of the clip"
        raise SchemaError(
            f'{what} can be read in two ways: write scale = "bounds" if columns count in units of their declared range '
            'and it is relative to that, or scale = "raw" if it is in the columns\' own units, as in version 0.1.0'
        )


def _toml_lines(values: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {toml_value(value)}" for key, value in values.items()]


def toml_value(value: object) -> str:
    """A value in a schema's TOML; JSON's texts, whole numbers and booleans are valid TOML but for one character."""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
