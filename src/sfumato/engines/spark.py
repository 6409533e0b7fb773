"""Rows on a Spark cluster: the same blocks at the same positions, worked on by tasks. The only file that names pyspark.

Spark schedules; the rows do not pass through it. A task is told a range of rows, reads it from Parquet files that all
machines see, and works on it exactly as one machine would: ``mapInArrow`` over ranges, in Python processes that have
sfumato installed. So a position is a row's index in the files and not a matter of partitions, and what a task does is
the same whenever and wherever it is done again. A Spark DataFrame is first written to Parquet, in a private folder that
is removed at the end: evaluated twice, it might be another one.

Retried, speculative and duplicated tasks cannot leak. The noise of a block is a function of the release's key, the
parameters, the block's position and its integers (``secret``), so a second attempt draws the same numbers, or, if its
data had changed, independent ones. Each attempt writes to a file of its own outside the release, Spark reports one
attempt of each task, and only the files it reports are moved into the folder, which then gets its name.

The key travels to the workers within the task's pickled function. Neither Spark's event log nor its plans show that; it
does pass through Spark's own network and, for large functions, its local folders: turn on Spark's encryption
(``spark.network.crypto.enabled``, ``spark.io.encryption.enabled``) where these are not yours alone.
"""

import os
import pickle
import re
import secrets
import shutil
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from sfumato.engines.local import Announce, Ids, LocalRows, with_ids
from sfumato.errors import MissingDependency, ParameterError, ReleaseError, SfumatoError
from sfumato.fileformat import leftovers, writer
from sfumato.fileformat.manifest import part_name
from sfumato.fileformat.writer import Written
from sfumato.numerics.lattice import Total
from sfumato.numerics.types import Floats, Integers
from sfumato.tables.blocks import MEMORY, Blocks, Progress, Rows, memory_size

Result = TypeVar("Result")
Batches = Iterator[pa.RecordBatch]

_TASKS_PER_CORE = 4
_MOST_BLOCKS = 256  # of one task, so that little is lost with it
_FAN = 64  # totals that one task adds up
_WAVE = 8  # blocks per core that come back to this process at once
_ATTEMPTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Spark:
    """A cluster, or Spark on this machine: ``master`` as Spark writes it; without one the session that is running.

    ``memory``: bytes for the blocks at work in each task, and the same for the release whatever the engine.
    """

    master: str | None = None
    memory: int = MEMORY

    def __post_init__(self) -> None:
        object.__setattr__(self, "memory", memory_size(self.memory))

    @contextmanager
    def opened(self, data: Any, beside: Path) -> Iterator[Any]:
        """Paths as they are; a Spark DataFrame as a folder of Parquet files beside a path, removed in the end."""
        if not type(data).__module__.startswith("pyspark."):
            yield data
            return
        leftovers.warn(beside.absolute().parent)
        with writer.hidden(beside.absolute(), "copy") as copy:
            place = f"file://{copy / 'rows'}"  # not as_uri(), whose escapes Hadoop takes for letters of a name
            _attempt(lambda: data.write.parquet(place), f"writing the rows of the DataFrame to {copy.parent} failed")
            yield copy / "rows"

    def rows(self, blocks: Blocks, progress: Progress) -> Rows:
        """Rows whose blocks are worked on by tasks of Spark."""
        if not blocks.table.divisible:
            raise ParameterError(
                f"{blocks.table.description} cannot be read from the middle, as tasks of Spark do: give a Parquet "
                "file, a folder of them or a Spark DataFrame, and no part of a dataset"
            )
        return SparkRows(session(self.master), blocks, progress)

    def write(
        self, folder: Path, names: tuple[str, ...], blocks: Iterator[Any], ids: Ids | None, announce: Announce
    ) -> Written:
        """One file for each Spark task if tasks make the blocks; otherwise one file, from here.

        A secret announces itself before it travels.
        """
        del announce
        if isinstance(blocks, Mapped):
            return blocks.write(folder, names, ids)
        return writer.write_numbers(folder, names, with_ids(blocks, ids))


def session(master: str | None) -> Any:
    """The Spark session in use, or a new one; a local one replaces lost Python workers, as a cluster does."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingDependency("engine='spark' needs pyspark: pip install 'sfumato[spark]'") from None
    running, wanted = SparkSession.getActiveSession(), None if master is None else _with_attempts(master)
    if running is not None:
        if wanted not in (None, _with_attempts(running.sparkContext.master)):
            raise ParameterError(
                f"a Spark session on {running.sparkContext.master} is running, not on {master}: "
                "leave master out to use it, or stop it"
            )
        return running
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        raise MissingDependency(
            "Spark needs Java, and there is none here: on Debian, apt-get install default-jre-headless"
        )
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("sfumato").config("spark.log.level", "FATAL")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    return _attempt((builder if wanted is None else builder.master(wanted)).getOrCreate, "Spark did not start")


def _with_attempts(master: str) -> str:
    """A local Spark master that repeats failed tasks, as clusters do; any other master as it is."""
    local = re.fullmatch(r"local(?:\[([0-9]+|\*)\])?", master)
    return f"local[{local[1] or 1},{_ATTEMPTS}]" if local else master


def _attempt(action: Callable[[], Result], complaint: str) -> Result:
    """What Spark gives; where it fails, an error without its words, for a worker's message may quote a cell."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # on versions of pandas, through which no row goes
            return action()
    except SfumatoError:
        raise
    except Exception as error:  # noqa: BLE001 - py4j, Java and pyspark raise many kinds
        name = type(error).__name__  # and no more; raised below, so that the new error does not carry this one
    raise ReleaseError(f"{complaint} ({name}); the log of a Spark session of your own says more, and may hold cells")


class SparkRows:
    """Blocks worked on by tasks of Spark, each on a range of whole blocks."""

    def __init__(self, running: Any, blocks: Blocks, progress: Progress) -> None:
        self.session, self.blocks, self.progress = running, blocks, progress
        self.cores = int(running.sparkContext.defaultParallelism)

    def map(self, function: Callable[[int, Floats], Result]) -> "Mapped[Result]":
        """What Spark tasks make of the blocks: to be written by them, or brought here in the order of the rows."""
        return Mapped(self, function)

    def sum(self, function: Callable[[int, Floats], Integers]) -> Integers:
        """The exact total: each task adds up its blocks, further tasks add up 64 of these, until few are left."""
        ranges = self.ranges()
        if not ranges:
            return function(0, self.blocks.empty())
        blocks = self.blocks

        def added(batches: Batches) -> Batches:
            for start, stop in _asked(batches, ranges):
                total = LocalRows(blocks.within(start, stop), first=start, threads=1).total(function)
                assert total is not None
                yield _packed(total)

        def in_a_tree() -> list[Total]:
            totals, left = self._over(ranges, added, _TOTAL), len(ranges)
            while left > _FAN:
                left = -(-left // _FAN)
                totals = totals.repartition(left).mapInArrow(_merged, _TOTAL)
            return [_unpacked(row["shape"], row["high"], row["low"]) for row in totals.collect()]

        return _sum(_attempt(in_a_tree, "adding up the rows failed")).int64()

    def ranges(self, blocks_each: int | None = None) -> list[tuple[int, int]]:
        """Ranges of whole blocks, one for each Spark task, that cover the table in order."""
        rows, size = self.blocks.table.rows or 0, self.blocks.size
        count = -(-rows // size)
        each = blocks_each or max(1, min(_MOST_BLOCKS, -(-count // (self.cores * _TASKS_PER_CORE))))
        return [(start, min(start + each * size, rows)) for start in range(0, rows, each * size)]

    def collected(self, ranges: list[tuple[int, int]], task: Callable[[Batches], Batches], schema: str) -> list[Any]:
        """What one successful attempt of each Spark task gave."""
        return _attempt(lambda: self._over(ranges, task, schema).collect(), "a task failed for good")

    def _over(self, ranges: list[tuple[int, int]], task: Callable[[Batches], Batches], schema: str) -> Any:
        return self.session.range(0, len(ranges), 1, len(ranges)).mapInArrow(task, schema)


_TOTAL = "shape string, high binary, low binary"
_PART = "number long, name string, rows long, sha256 string, bytes long"
_RESULT = "number long, place long, result binary"


class Mapped(Iterator[Result]):
    """The results of a function of the blocks, not yet computed."""

    def __init__(self, rows: SparkRows, function: Callable[[int, Floats], Result]) -> None:
        self._rows, self._function = rows, function
        self._results = self._brought()  # begins when it is first asked

    def __next__(self) -> Result:
        return next(self._results)

    def _brought(self) -> Iterator[Result]:
        """Results of Spark tasks brought to this process, a few ranges at a time, so memory does not grow with rows."""
        blocks, function = self._rows.blocks, self._function
        ranges = self._rows.ranges(blocks_each=_WAVE // 2)

        def results(batches: Batches) -> Batches:
            for number, (start, stop) in _numbered(batches, some):
                found = LocalRows(blocks.within(start, stop), first=start, threads=1).map(function)
                for place, result in enumerate(found):
                    yield _batch(_RESULT, number, place, pickle.dumps(result))

        for first in range(0, len(ranges), 2 * self._rows.cores):
            some = ranges[first : first + 2 * self._rows.cores]
            found = self._rows.collected(some, results, _RESULT)
            for row in sorted(found, key=lambda row: (row["number"], row["place"])):
                yield pickle.loads(row["result"])  # noqa: S301 - made by our own workers a moment ago
            self._rows.progress(sum(stop - start for start, stop in some))

    def write(self, folder: Path, names: tuple[str, ...], ids: Ids | None) -> Written:
        """One file for each Spark task. Attempts write elsewhere; those that Spark reports are moved to the folder."""
        ranges = self._rows.ranges()
        if not ranges:
            raise ReleaseError("the data have no rows, so there is nothing to release; nothing was written")
        with writer.hidden(folder, "attempts") as attempts:
            found = self._rows.collected(ranges, self._writer(ranges, attempts, names, ids), _PART)
            written = {int(row["number"]): row for row in found}
            if sorted(written) != list(range(len(ranges))):
                raise ReleaseError("Spark reported some parts twice or not at all; nothing was left")
            for number, row in written.items():
                (attempts / row["name"]).rename(folder / part_name(number))
        rows = sum(int(row["rows"]) for row in written.values())
        self._rows.progress(rows)
        facts = {n: {"sha256": row["sha256"], "bytes": int(row["bytes"])} for n, row in written.items()}
        return Written(rows, {part_name(n): facts[n] for n in sorted(facts)})

    def _writer(
        self, ranges: list[tuple[int, int]], attempts: Path, names: tuple[str, ...], ids: Ids | None
    ) -> Callable[[Batches], Batches]:
        blocks, function, place = self._rows.blocks, self._function, str(attempts.absolute())

        def write(batches: Batches) -> Batches:
            for number, (start, stop) in _numbered(batches, ranges):
                made: Iterable[Any] = LocalRows(blocks.within(start, stop), first=start, threads=1).map(function)
                name = f"{number}-{secrets.token_hex(8)}.parquet"
                mine = None if ids is None else ids.within(start, stop)
                rows, facts = writer.write_part(Path(place) / name, names, with_ids(made, mine))
                yield _batch(_PART, number, name, rows, facts["sha256"], facts["bytes"])

        return write


# ---- between tasks --------------------------------------------------------------------------------------------------


def _numbered(batches: Batches, ranges: list[tuple[int, int]]) -> Iterator[tuple[int, tuple[int, int]]]:
    """The numbered ranges of rows that a Spark task is asked for."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield number, ranges[number]


def _asked(batches: Batches, ranges: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    return (asked for _, asked in _numbered(batches, ranges))


_ARROW = {"long": pa.int64(), "string": pa.string(), "binary": pa.binary()}


def _batch(schema: str, *values: Any) -> pa.RecordBatch:
    """One row of a schema of Spark columns, as an Arrow batch."""
    names, kinds = zip(*(field.split() for field in schema.split(", ")), strict=True)
    return pa.RecordBatch.from_arrays([pa.array([v], _ARROW[k]) for v, k in zip(values, kinds, strict=True)], names)


def _packed(total: Total) -> pa.RecordBatch:
    high, low = total.halves
    return _batch(_TOTAL, ",".join(map(str, high.shape)), high.tobytes(), low.tobytes())


def _unpacked(shape: str, high: bytes, low: bytes) -> Total:
    size = tuple(int(part) for part in shape.split(",") if part)
    halves = (np.frombuffer(bytes(half), np.int64).reshape(size) for half in (high, low))
    return Total.of(*halves)


def _merged(batches: Batches) -> Batches:
    parts = [_unpacked(*row.values()) for batch in batches for row in batch.to_pylist()]
    if parts:
        yield _packed(_sum(parts))


def _sum(parts: list[Total]) -> Total:
    total = parts[0]
    for part in parts[1:]:
        total.merge(part)
    return total
