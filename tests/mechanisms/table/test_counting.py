"""Exact counts of tables: those of a plain count, however they are covered, cut and added up."""

import itertools
import math
import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.engines.local import LocalRows
from sfumato.files.open_table import open_table
from sfumato.marginals.partition import Partition
from sfumato.mechanisms.table import counting
from sfumato.mechanisms.table.counting import Reader
from sfumato.mechanisms.table.covering import covering
from sfumato.tables.blocks import Blocks, CodeReader
from sfumato.tables.columns import Category, Flag, Integer, Real
from sfumato.tables.schema import Schema

SCHEMA = Schema((Real("a", 0.0, 1.0), Integer("b", 0, 9), Flag("c", missing="level"), Category("d", ("x", "y", "z"))))


def pairs(count):
    return [(i, j) for j in range(count) for i in range(j)]


def plain(codes, sizes, cliques):
    """One record after the other."""
    found = [np.zeros([sizes[c] for c in clique], np.int64) for clique in cliques]
    for row in np.array([np.asarray(c, int) for c in codes]).T:
        for table, clique in zip(found, cliques, strict=True):
            table[tuple(row[list(clique)])] += 1
    return found


def drawn(sizes, rows, seed=0, dtype=np.int32):
    rng = np.random.default_rng(seed)
    return [np.minimum(rng.geometric(0.2, rows) - 1, size - 1).astype(dtype) for size in sizes]


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=7),
    st.data(),
    st.integers(0, 60),
    st.sampled_from([np.int32, np.uint16, np.int64]),
)
@settings(max_examples=150, deadline=None)
def test_tables_of_any_cliques_are_those_of_a_plain_count(sizes, data, rows, dtype):
    every = [c for k in (1, 2, 3, 4) for c in itertools.combinations(range(len(sizes)), k)]
    cliques = data.draw(st.lists(st.sampled_from(every), max_size=12))  # some twice, some within others
    codes = drawn(sizes, rows, rows, dtype)
    found = counting.split(counting.tables(codes, sizes, cliques), sizes, cliques)
    for ours, theirs in zip(found, plain(codes, sizes, cliques), strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == np.int64


@pytest.mark.parametrize(
    "sizes",
    [(255, 257), (256, 256), (1, 65535), (1, 65536), (65536,), (65535,), (70_000, 3, 2), (300, 300, 2), (2,) * 17],
)
def test_tables_that_need_more_than_16_bits_are_counted_as_well(sizes):
    codes = [np.append(c, size - 1) for c, size in zip(drawn(sizes, 500), sizes, strict=True)]
    for clique in (tuple(range(len(sizes))), tuple(range(len(sizes)))[-2:]):
        flat = counting.tables(codes, sizes, [clique])
        shape = [sizes[c] for c in clique]
        expected = np.zeros(math.prod(shape), np.int64)
        np.add.at(expected, np.ravel_multi_index([codes[c] for c in clique], shape), 1)
        np.testing.assert_array_equal(flat, expected)


def test_rows_are_counted_in_pieces_that_add_up(monkeypatch):
    sizes, cliques = (5, 3, 4), [(0, 1), (1, 2), (0, 1, 2)]
    codes = drawn(sizes, 1000)
    whole = counting.tables(codes, sizes, cliques)
    monkeypatch.setattr(counting, "_TOGETHER", 64)
    np.testing.assert_array_equal(counting.tables(codes, sizes, cliques), whole)
    assert whole.sum() == 3000


def test_without_rows_or_without_cliques_there_are_zeros_or_nothing():
    sizes = (5, 3)
    assert counting.tables(drawn(sizes, 0), sizes, [(0, 1)]).tolist() == [0] * 15
    assert counting.tables(drawn(sizes, 7), sizes, []).tolist() == []


# ---- covering -------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.sampled_from([1, 2, 3, 16, 50, 5000, 100_000]), min_size=2, max_size=9),
    st.data(),
)
@settings(max_examples=150, deadline=None)
def test_every_clique_is_taken_from_exactly_one_set_that_holds_it(sizes, data):
    every = [c for k in (1, 2, 3) for c in itertools.combinations(range(len(sizes)), k)]
    cliques = data.draw(st.lists(st.sampled_from(every), max_size=30))
    sets = covering(sizes, cliques)
    assert sorted(c for held in sets.values() for c in held) == sorted(set(cliques))
    for members, held in sets.items():
        assert members == tuple(sorted(members))
        assert all(set(clique) <= set(members) for clique in held)
        cells = math.prod(sizes[v] for v in members)
        assert cells <= 1 << 13 or members in held  # larger only if that table is itself wanted
        assert cells <= 1 << 16 or held == [members]


@pytest.mark.parametrize(("sizes", "most"), [((16,) * 40, 320), ((4,) * 40, 90), ((2,) * 40, 45)])
def test_all_pairs_are_covered_by_far_fewer_tables(sizes, most):
    """At best three pairs of 16 cells fit a table of the cache, fifteen pairs of 4, and 78 of 2."""
    assert len(covering(sizes, pairs(40))) <= most


def test_tables_that_others_hold_are_not_counted_again():
    assert list(covering((3, 4, 5), [(0, 1), (0, 1, 2), (2,)])) == [(0, 1, 2)]


# ---- over all rows --------------------------------------------------------------------------------------------------


def people(rows, seed=1):
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "d": rng.choice(["x", "y", "z", "?"], rows),
            "a": rng.normal(0.5, 0.4, rows),
            "b": pa.array(rng.integers(-2, 12, rows), mask=rng.random(rows) < 0.1),
            "c": pa.array(rng.random(rows) < 0.3, mask=rng.random(rows) < 0.1),
        }
    )


def counted(data, cliques, memory=1 << 20, threads=None):
    partition = Partition.of(SCHEMA)
    reader = CodeReader(partition.read, len(partition.variables))
    blocks = Blocks.read_by(reader, open_table(data), SCHEMA, memory=memory)
    maps = [np.arange(v.size) * min(v.size, 4) // v.size for v in partition.variables]
    sizes = tuple(int(m.max()) + 1 for m in maps)
    read = Reader(partition, maps)
    codes = [m[row] for m, row in zip(maps, partition.read(data), strict=True)]
    return counting.count(LocalRows(blocks, threads=threads), sizes, read, cliques), plain(codes, sizes, cliques)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("rows", [0, 1, 5000])
def test_counts_over_blocks_are_those_of_all_rows(rows, threads, monkeypatch):
    cliques = [*pairs(4), (0, 1, 3)]
    for cells in (counting._CELLS, 20):  # once, or for a few tables at a time
        monkeypatch.setattr(counting, "_CELLS", cells)
        found, expected = counted(people(rows), cliques, threads=threads)
        assert len(found) == len(cliques)
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_encoded_blocks_are_counted_like_codes():
    """Engines that know no reader of codes hand out doubles."""
    data, partition = people(300), Partition.of(SCHEMA)
    maps = [np.arange(v.size) for v in partition.variables]
    read, clique = Reader(partition, maps), [(0, 3)]
    ours = counting.count(LocalRows(Blocks.of(open_table(data), SCHEMA)), partition.sizes, read, clique)
    theirs = plain(partition.read(data), partition.sizes, clique)
    np.testing.assert_array_equal(ours[0], theirs[0])


def test_large_results_take_several_readings_that_hold_a_few_tables_each():
    sizes = (1000,) * 5
    portions = list(counting._portions(sizes, pairs(5)))
    assert [len(some) for some in portions] == [4, 4, 2]
    assert [clique for some in portions for clique in some] == pairs(5)
    assert list(counting._portions((3000, 3000), [(0, 1), (0,)])) == [((0, 1),), ((0,),)]  # too large alone


def test_what_is_summed_travels_to_other_processes():
    partition = Partition.of(SCHEMA)
    read = Reader(partition, [np.arange(v.size) for v in partition.variables])

    class Rows:
        def sum(self, function):
            again = pickle.loads(pickle.dumps(function))  # noqa: S301
            return again(0, partition.read(people(40)))

    ours = counting.count(Rows(), partition.sizes, read, [(1, 2)])
    np.testing.assert_array_equal(ours[0], plain(partition.read(people(40)), partition.sizes, [(1, 2)])[0])


def test_variables_of_a_single_bin_are_counted_however_many_there_are():
    sizes = [2, 3] + [1] * 80  # more axes than an array can have
    codes, cliques = drawn(sizes, 50), pairs(len(sizes))
    found = counting.split(counting.tables(codes, sizes, cliques), sizes, cliques)
    for one, other in zip(found, plain(codes, sizes, cliques), strict=True):
        assert np.array_equal(one, other)
