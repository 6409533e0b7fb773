"""Exact counts of distinct texts: values of a category, items of a set. As many as there are, in bounded memory.

Counts are kept in memory up to a limit and then written to disk, sorted, as a *run*; in the end the runs are merged.
Runs hold texts of the data. They lie in a folder that only their owner may enter, and are removed in every case but a
kill of the process. How many texts there are changes neither what is published nor whether the work succeeds.

A record counts once for a category and for at most ``most`` distinct items for a set, those that come first in its
list. Texts that are empty or blank, or longer than 256 bytes, are not counted: the limit is public, and they are never
values of a learned schema. Nor are numbers of 2^53 and more: as doubles, which one missing cell makes of whole numbers,
several of them are one text, so one cell could change the counts of many texts.
"""

import heapq
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa

from sfumato.numerics.types import Integers
from sfumato.tables import cells, lists

LONGEST = 256  # bytes of a text that can become a value
_EXACT = 2.0**53
_MAY_BE_LARGE = r"^-?([1-9]\d{15,}(\.0)?|\d(\.\d+)?e\+\d+|inf)$"
_CHUNK = 1 << 16  # texts at a time, in order
_AT_ONCE = 64  # runs that are merged at a time
_SCHEMA = pa.schema([("word", pa.large_binary()), ("times", pa.int64())])
_PENDING = 64  # blocks whose counts are summed at once


def category_texts(array: Any) -> tuple[Any, Integers]:
    """Distinct texts of a piece of a category, and in how many cells each is. Numbers are their texts."""
    return _counted(cells.in_common(cells.decoded(array), [pa.large_binary()]))


def set_texts(array: Any, most: int) -> tuple[Any, Integers]:
    """Distinct items of a piece of a column of sets, and in how many lists each is, of at most ``most`` of a list."""
    lengths, starts, inner = lists.laid_out(array)
    coded = cells.in_common(cells.decoded(inner), [pa.large_binary()]).dictionary_encode()
    codes = coded.indices.fill_null(-1).to_numpy().astype(np.int64)
    present = np.maximum(lengths, 0)
    owners = np.repeat(np.arange(lengths.size), present)
    places = np.repeat(starts - (np.cumsum(present) - present), present) + np.arange(owners.size)
    usable = _usable(coded.dictionary)
    found = codes[places]
    kept = (found >= 0) & np.append(usable, False)[found]
    owners, found = owners[kept], found[kept]
    _, first = np.unique(owners * np.int64(len(usable) + 1) + found, return_index=True)
    first.sort()  # distinct items in the order of their lists
    owners, found = owners[first], found[first]
    early = np.arange(owners.size) - np.searchsorted(owners, owners) < most
    return _filtered(coded.dictionary, np.bincount(found[early], minlength=len(usable)))


def _counted(words: Any) -> tuple[Any, Integers]:
    coded = words.dictionary_encode()
    count = len(coded.dictionary)
    times = np.bincount(coded.indices.fill_null(count).to_numpy(), minlength=count + 1)[:count]
    return _filtered(coded.dictionary, np.where(_usable(coded.dictionary), times, 0))


def _filtered(words: Any, times: Any) -> tuple[Any, Integers]:
    kept = np.flatnonzero(times)
    return words.take(pa.array(kept)), times[kept].astype(np.int64)


def _usable(words: Any) -> Any:
    """Whether each of these distinct texts can become a value: neither blank nor too long, nor too large a number."""
    compute = cells.compute()
    short = compute.less_equal(compute.binary_length(words), LONGEST).to_numpy(zero_copy_only=False)
    unchecked = compute.CastOptions(target_type=pa.large_string(), allow_invalid_utf8=True)
    trimmed = compute.ascii_trim_whitespace(compute.cast(words, options=unchecked))
    filled = compute.greater(compute.binary_length(trimmed), 0).to_numpy(zero_copy_only=False)
    return short & filled & ~_large(words, compute.match_substring_regex(trimmed, _MAY_BE_LARGE))


def _large(words: Any, candidates: Any) -> Any:
    """Whether each of these distinct texts is how a number of 2^53 or more is written, as whole or as double."""
    found = candidates.to_numpy(zero_copy_only=False).copy()
    places = np.flatnonzero(found)
    found[places] = [abs(float(word)) >= _EXACT for word in words.take(pa.array(places)).to_pylist()]
    return found


@dataclass(eq=False)
class TextCounts:
    """Counts of the distinct texts of one column; a context that removes what it wrote.

    memory : bytes that counts may take before they are written to disk.
    """

    memory: int
    _pending: list[pa.Table] = field(default_factory=list)
    _held: pa.Table | None = None
    _folder: Path | None = None
    _runs: list[Path] = field(default_factory=list)
    _written_runs: int = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, words: Any, times: Integers) -> None:
        """Count distinct texts, each so many times more."""
        self._pending.append(pa.table({"word": words.cast(pa.large_binary()), "times": pa.array(times, pa.int64())}))
        if len(self._pending) >= _PENDING or sum(table.nbytes for table in self._pending) > self.memory // 2:
            self._gather()

    def _gather(self) -> None:
        tables = [*self._pending, *([] if self._held is None else [self._held])]
        self._pending = []
        if not tables:
            return
        summed = pa.concat_tables(tables).group_by("word").aggregate([("times", "sum")])
        self._held = summed.rename_columns({"times_sum": "times"}).select(["word", "times"])
        if self._held.nbytes > self.memory // 2:
            self._spill()

    def _spill(self) -> None:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="sfumato-texts-"))  # only its owner may enter
        assert self._held is not None
        self._runs.append(self._written(self._held.sort_by("word").to_batches(max_chunksize=_CHUNK)))
        self._held = None

    def _written(self, batches: Iterable[pa.RecordBatch]) -> Path:
        """A new run of texts that come in order."""
        assert self._folder is not None
        self._written_runs += 1
        path = self._folder / f"{self._written_runs}.arrow"
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "wb") as file, pa.ipc.new_file(file, _SCHEMA) as writer:
            for batch in batches:
                writer.write_batch(batch)
        return path

    def chunks(self) -> Iterator[tuple[list[bytes], Integers]]:
        """All distinct texts in order, with their exact counts, a chunk at a time."""
        self._gather()
        if not self._runs:
            yield from _batches(self._held)
            return
        if self._held is not None:
            self._spill()
        while len(self._runs) > _AT_ONCE:  # a process may open but so many files
            some, self._runs = self._runs[:_AT_ONCE], self._runs[_AT_ONCE:]
            merged = (pa.record_batch([pa.array(w, pa.large_binary()), t], schema=_SCHEMA) for w, t in _merged(some))
            self._runs.append(self._written(merged))
            for path in some:
                path.unlink()
        yield from _merged(self._runs)


def _merged(runs: Iterable[Path]) -> Iterator[tuple[list[bytes], Integers]]:
    """The distinct texts of runs in order, with the sums of their counts, a chunk at a time."""
    words, times = list[bytes](), list[int]()
    for word, count in heapq.merge(*map(_pairs, runs)):
        if words and words[-1] == word:
            times[-1] += count
            continue
        if len(words) == _CHUNK:
            yield words, np.array(times, np.int64)
            words, times = [], []
        words.append(word)
        times.append(count)
    yield words, np.array(times, np.int64)


def _batches(held: pa.Table | None) -> Iterator[tuple[list[bytes], Integers]]:
    if held is not None:
        for batch in held.sort_by("word").to_batches(max_chunksize=_CHUNK):
            yield batch.column(0).to_pylist(), batch.column(1).to_numpy().astype(np.int64)


def _pairs(path: Path) -> Iterator[tuple[bytes, int]]:
    """The texts and counts of a run, in order, a batch at a time."""
    with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as run:
        for place in range(run.num_record_batches):
            batch = run.get_batch(place)
            yield from zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)
