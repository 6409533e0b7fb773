"""Source: a table that can be read again and again, a block of rows at a time, whatever it is stored in.

No error quotes a cell: what pyarrow says about damaged data is replaced, and dropped rather than chained.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa

from sfumato import check
from sfumato.errors import SchemaError, SfumatoError
from sfumato.tables import cells, lists
from sfumato.tables.columns import source_names
from sfumato.tables.declared import complaints, gathered
from sfumato.tables.patterns import positions
from sfumato.tables.schema import Schema, check_type

Batches: TypeAlias = Iterator[pa.RecordBatch]
Result = TypeVar("Result")

UNREADABLE = (pa.ArrowInvalid, pa.ArrowKeyError, pa.ArrowTypeError, pa.ArrowNotImplementedError, OSError, ValueError)


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A table that can be read again and again, a block of rows at a time.

    ``schema``: names and types (of a CSV file, as its beginning suggests; of a folder, those of its first file).
    ``kinds``: the types in which cells are handed out, where that is not ``schema``: of a folder, those of every file;
    of a CSV file text, but doubles in columns that were said to be real when it was opened.
    ``rows``: their number, None where it is not known before reading. ``description``: what it is, fit for the public.
    """

    schema: pa.Schema
    rows: int | None
    description: str
    _read: Callable[[tuple[str, ...], int], Batches] = field(repr=False)
    _within: Callable[[int, int], "Source"] | None = field(default=None, repr=False)
    entries: Any = field(default=None, repr=False)  # of a SciPy sparse matrix of numbers: its rows, as they are stored
    kinds: tuple[pa.Schema, ...] = field(default=(), repr=False)
    untyped: frozenset[str] = field(default=frozenset(), repr=False)  # columns of cells of any type (object)

    def within(self, start: int, stop: int) -> "Source":
        """The rows from ``start`` to before ``stop``, without reading the others; only Parquet files allow it."""
        if self._within is None:
            raise SchemaError(f"{self.description}: only Parquet files can be read from the middle")
        return self._within(start, stop)

    @property
    def divisible(self) -> bool:
        """Whether any range of rows can be read by itself."""
        return self._within is not None

    def check_columns(self, columns: Sequence[str]) -> None:
        """Refuse names that are not there, or there twice, before a row is read."""
        try:
            positions(self.schema.names, columns)
        except SchemaError as error:
            raise SchemaError(f"{self.description}: {error}") from None

    def types_of(self, name: str) -> list[pa.DataType]:
        """The types in which the cells of a column are handed out, which is there once in every file."""
        return list(dict.fromkeys(kinds.field(name).type for kinds in self.kinds or (self.schema,)))

    def check_types(self, schema: Schema) -> None:
        """Refuse all columns that are not there, or of a type that the schema cannot be read from, before a row is."""
        problems = complaints(self.check_columns, schema.source_names)
        count = Counter(self.schema.names)
        pairs = ((c, name) for c in schema.data_columns for name in source_names(c) if count[name] == 1)
        for column, name in pairs:
            for kind in self.types_of(name):
                problems += complaints(check_type, kind, column)
            problems += complaints(cells.check_numbers, column) if name in self.untyped else []
        if problems:
            raise gathered(list(dict.fromkeys(problems)))

    def blocks(self, columns: Sequence[str], rows: int) -> Batches:
        """The named columns in blocks of exactly ``rows`` rows, the last one shorter, however the source is laid out.

        Raises SchemaError, without a cell in it, if a column is not there or the source turns out to be damaged.
        """
        check.whole(1, rows=rows)
        if isinstance(columns, str) or not columns:
            raise check.fail("columns", columns, "a list of at least one column name")
        self.check_columns(columns)
        return _guarded(reblock(self._read(tuple(columns), rows), rows), self.description)


def part_of(table: Source, column: str, value: str) -> Source:
    """A source of the rows of a table whose (public) value in a column, as text, is this one."""
    check_public_column(table, column, "the column", "parts go by texts or whole numbers")

    def read(columns: tuple[str, ...], rows: int) -> Batches:
        wanted = list(dict.fromkeys((*columns, column)))
        for batch in table.blocks(wanted, rows):
            kept = cells.compute().equal(cells.as_text(batch.column(wanted.index(column))), value).fill_null(False)
            arrays = [cells.decoded(batch.column(wanted.index(name))).filter(kept) for name in columns]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    return Source(table.schema, None, f"part of {table.description}", read, kinds=table.kinds, untyped=table.untyped)


def check_public_column(table: Source, name: str, what: str, rule: str) -> None:
    """Refuse a source whose public column, of ids or parts, is absent, or neither of texts nor of whole numbers."""
    positions(table.schema.names, [name])
    for kind in table.types_of(name):
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not (pa.types.is_integer(plain) or cells.is_text(plain)):
            raise SchemaError(f"{what} {name!r} is of type {plain} in the data: {rule}")


def reblock(batches: Iterable[pa.RecordBatch], rows: int) -> Batches:
    """Rows of a source in batches of exactly ``rows`` rows, the last one shorter; holds no more than one block."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        start = 0
        while count + batch.num_rows - start >= rows:
            stop = start + rows - count
            yield _joined([*held, batch.slice(start, stop - start)])
            held, count, start = [], 0, stop
        if start < batch.num_rows:
            held.append(batch.slice(start))
            count += batch.num_rows - start
        del batch
    if held:
        yield _joined(held)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    columns = [one_array(parts) for parts in zip(*(b.columns for b in batches), strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=batches[0].schema.names)


def one_array(parts: Sequence[pa.Array]) -> pa.Array:
    """Parts of a source's column joined, in one type that keeps what each cell means: files may differ in types.

    Dictionaries are decoded first, for a joint one may outgrow its indices, depending on the cells. Texts and lists may
    outgrow offsets of 32 bits in the same way, so they always get 64.
    """
    plain = [lists.wide(part) for part in parts]
    if len({part.type for part in plain}) == 1:
        return pa.concat_arrays(plain)
    return pa.concat_arrays([lists.in_common(part, [other.type for other in plain]) for part in plain])


def attempt(action: Callable[[], Result], complaint: str, caught: tuple[type[Exception], ...] = UNREADABLE) -> Result:
    """Result of opening or reading a source, or a SchemaError without pyarrow's words, for they may quote cells."""
    try:
        return action()
    except (
        SfumatoError,
        MemoryError,
    ):  # ours, some of which are ValueErrors; and those that have nothing to do with it
        raise
    except caught:
        pass  # raised below, outside of this block, so that the error does not carry this one as its context
    raise SchemaError(complaint)


def _guarded(batches: Batches, source: str) -> Batches:
    complaint = f"{source} cannot be read to its end: it is damaged, or its rows do not all have the same columns"
    return iter(lambda: attempt(lambda: next(batches, None), complaint), None)
