"""Codes that are kept between readings: the same blocks at the same positions, from a table that is read once.

And threads of ours, each with one of BLAS.
"""

import sys
from types import ModuleType

import numpy as np
import pyarrow as pa
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from sfumato.engines.local import Local, LocalRows, libraries
from sfumato.files.open_table import open_table
from sfumato.files.source import Source
from sfumato.marginals.partition import Partition
from sfumato.tables.blocks import Blocks, CodeReader, ignore
from sfumato.tables.columns import Flag, Real
from sfumato.tables.schema import Schema

SCHEMA = Schema((Real("a", 0.0, 1.0), Flag("b")))
ROWS, MEMORY = 20_000, 1 << 20  # blocks of 4,096 rows


@pytest.fixture
def readings(monkeypatch):
    """How often a table was read."""
    found, honest = [], Source.blocks

    def blocks(self, columns, rows):
        found.append(rows)
        return honest(self, columns, rows)

    monkeypatch.setattr(Source, "blocks", blocks)
    return found


def cut(rows=ROWS):
    rng, partition = np.random.default_rng(1), Partition.of(SCHEMA)
    table = open_table(pa.table({"a": rng.random(rows), "b": rng.random(rows) < 0.5}))
    return Blocks.read_by(CodeReader(partition.read, 2), table, SCHEMA, memory=MEMORY)


def seen(position, block):
    """What tells blocks, and where they are, apart."""
    return np.append(block.sum(axis=1, dtype=np.int64), [position % 65_521, block.shape[1]])


@pytest.mark.parametrize("threads", [1, 3])
def test_a_table_whose_codes_are_kept_is_read_once(readings, threads):
    expected = [s.tolist() for s in LocalRows(cut(), first=11).map(seen)]
    assert len(expected) == 5
    readings.clear()
    rows = LocalRows(cut(), first=11, threads=threads, keep=ROWS * 2 * 4)
    for _ in range(3):
        assert [s.tolist() for s in rows.map(seen)] == expected
        assert rows.sum(seen).tolist() == np.sum(expected, axis=0).tolist()
    assert len(readings) == 1


@pytest.mark.parametrize("keep", [0, ROWS * 2 * 4 - 1])
def test_a_table_with_too_many_codes_is_read_again(readings, keep):
    rows = LocalRows(cut(), keep=keep)
    first, second = rows.sum(seen), rows.sum(seen)
    assert first.tolist() == second.tolist()
    assert len(readings) == 2


def test_a_reading_that_ended_early_is_not_taken_for_the_table(readings):
    rows = LocalRows(cut(), threads=1, keep=1 << 30)
    next(iter(rows.map(seen)))
    assert rows.sum(lambda _, block: np.array([block.shape[1]])).tolist() == [ROWS]
    assert len(readings) == 2


def test_a_reading_that_failed_is_not_taken_for_the_table():
    rows = LocalRows(cut(), keep=1 << 30)

    def failing(position, block):
        if position > 5000:
            raise RuntimeError
        return seen(position, block)

    with pytest.raises(RuntimeError):
        rows.sum(failing)
    assert rows.sum(lambda _, block: np.array([block.shape[1]])).tolist() == [ROWS]


def test_without_rows_nothing_is_kept_and_the_sum_is_that_of_an_empty_block():
    rows = LocalRows(cut(0), keep=1 << 30)
    assert [rows.sum(seen).tolist() for _ in range(2)] == [[0, 0, 0, 0]] * 2


def test_encoded_numbers_are_not_kept(readings):
    table = open_table(pa.table({"a": [0.5], "b": [True]}))
    rows = LocalRows(Blocks.of(table, SCHEMA), keep=1 << 30)
    for _ in range(2):
        rows.sum(lambda _, block: np.array([block.shape[1]]))
    assert len(readings) == 2


def test_the_engine_keeps_an_eighth_of_its_memory(readings):
    for memory, often in ((8 * ROWS * 2 * 4 + 8, 1), (1 << 20, 2)):
        readings.clear()
        rows = Local(memory=memory).rows(cut(), ignore)
        for _ in range(2):
            rows.sum(seen)
        assert len(readings) == often


def threads_of_blas(*_):
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_blas_has_one_thread_while_blocks_are_worked_on_and_its_own_number_afterwards():
    rows = LocalRows(cut(), threads=2)
    for before in (2, 3):
        with threadpool_limits(before, user_api="blas"):
            assert list(rows.map(threads_of_blas)) == [{1}] * 5
            assert threads_of_blas() == {before}


def test_libraries_are_looked_for_again_when_modules_were_loaded(monkeypatch):
    known = libraries(len(sys.modules))
    assert libraries(len(sys.modules)) is known
    monkeypatch.setitem(sys.modules, "loaded_since", ModuleType("loaded_since"))
    assert libraries(len(sys.modules)) is not known
