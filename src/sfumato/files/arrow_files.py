"""Arrow IPC: files (.arrow, .feather, .ipc) and streams, read a record batch at a time.

Memory grows with the largest record batch, which whoever wrote the file chose, and not with the number of rows. Batches
of a file are checked before they are used: Arrow would follow an offset that leads out of its buffer. Texts are checked
as bytes, so that a cell that is not UTF-8 is no error here either.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import ipc, types

from sfumato.errors import SchemaError
from sfumato.files.content import Content
from sfumato.files.source import Batches
from sfumato.files.spool import Spool
from sfumato.tables.patterns import positions

_FILE = b"ARROW1"
_IN_MEMORY = 1 << 26  # bytes of a stream that are kept in memory


@dataclass(frozen=True, slots=True)
class ArrowFile:
    """An Arrow file or stream: its names and types, and how many rows it has, None if that is not known."""

    content: Content
    schema: pa.Schema
    rows: int | None
    checked: bool = True

    @classmethod
    def of(cls, content: Content) -> "ArrowFile":
        """An Arrow file or stream; reads no row."""
        with content.open() as file, _within_memory(content.name):
            reader = _reader(file, None)
            count = getattr(reader, "count_rows", None)  # of files; older versions of pyarrow do not have it
            return cls(content, _named(reader.schema), None if count is None else count())

    def read(self, columns: tuple[str, ...], rows: int) -> Batches:
        """The named columns of the Arrow file, in batches of at most so many rows."""
        with self.content.open() as file, _within_memory(self.content.name):
            reader = _reader(file, positions(self.schema.names, columns))
            for batch in _batches(reader):
                whole = _sound(batch) if self.checked else batch
                for start in range(0, batch.num_rows, rows):
                    yield whole.slice(start, rows).select(list(columns))
                del batch, whole


def _reader(file: Any, included: list[int] | None) -> Any:
    """A reader of the columns at these places of an Arrow file, or of a stream; None: of all."""
    options = ipc.IpcReadOptions(included_fields=included)
    start = file.read(len(_FILE))
    file.seek(0)
    return ipc.open_file(file, options=options) if start == _FILE else ipc.open_stream(file, options=options)


def _batches(reader: Any) -> Batches:
    if isinstance(reader, ipc.RecordBatchFileReader):
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)
    else:
        yield from reader


@contextmanager
def _within_memory(name: str) -> Iterator[None]:
    """Refuse an Arrow file that asks for more memory than there is, as a damaged one may."""
    try:
        yield
    except MemoryError:
        large = f"{name}: a record batch does not fit into memory, or the file is damaged: write it in smaller batches"
    else:
        return
    raise SchemaError(large)


def _named(schema: pa.Schema) -> pa.Schema:
    """Names and types of an Arrow file alone; raises UnicodeDecodeError here if a name is not UTF-8."""
    return pa.schema(list(zip(schema.names, schema.types, strict=True)))


def _sound(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same cells of an Arrow file, known to lie within their buffers; raises ArrowInvalid if some do not."""
    try:
        arrays = [_sound_array(column) for column in batch.columns]
    except pa.ArrowException:
        raise pa.ArrowInvalid("out of bounds") from None
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _sound_array(array: Any) -> Any:
    kind = array.type
    if types.is_dictionary(kind):
        array.validate()
        pa.DictionaryArray.from_arrays(array.indices, pa.nulls(len(array.dictionary))).validate(full=True)
        return pa.DictionaryArray.from_arrays(array.indices, _sound_array(array.dictionary), safe=False)
    (array.view(_BYTES[kind]) if kind in _BYTES else array).validate(full=True)
    return _without_lost_views(array) if kind in (pa.string_view(), pa.binary_view()) else array


_BYTES = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}


def _without_lost_views(array: Any) -> Any:
    """Views of an Arrow file, those of missing cells empty: Arrow validates them not, and follows them all the same."""
    if not array.null_count:
        return array
    valid, views, *data = array.buffers()
    cleared = np.frombuffer(views, np.uint8)[: 16 * (array.offset + len(array))].reshape(-1, 16).copy()
    cleared[array.offset :][array.is_null().to_numpy(zero_copy_only=False)] = 0
    return pa.Array.from_buffers(array.type, len(array), [valid, pa.py_buffer(cleared), *data], offset=array.offset)


def kept(reader: pa.RecordBatchReader, name: str) -> "ArrowFile | pa.Table":
    """An Arrow stream that comes only once, kept to be read again: in memory if it is small, else in a spool.

    It is not asked for twice: a query may give its rows in another order the second time.
    """
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in reader:
        held.append(batch)
        size += batch.nbytes
        if size > _IN_MEMORY:
            return _spooled(reader, held, name)
    return pa.Table.from_batches(held, reader.schema)


def _spooled(reader: pa.RecordBatchReader, held: list[pa.RecordBatch], name: str) -> ArrowFile:
    spool, rows = Spool(), 0
    with spool.writing(name) as file, ipc.new_stream(file, reader.schema) as writer:
        while held:
            rows += held[0].num_rows
            writer.write_batch(held.pop(0))
        for batch in reader:
            rows += batch.num_rows
            writer.write_batch(batch)
    return ArrowFile(Content(name, spool.open), _named(reader.schema), rows, checked=False)
