"""Probabilities of questions under the model of a table: enumerated, and against rows that are drawn from it."""

import itertools
import warnings

import numpy as np
import pyarrow as pa
import pytest

from sfumato.errors import InexactWarning
from sfumato.marginals import table_model
from sfumato.marginals.binning import Bins
from sfumato.marginals.junction_tree import JunctionTree
from sfumato.marginals.partition import Partition
from sfumato.marginals.table_model import TableModel
from sfumato.queries.parser import parse
from sfumato.tables.columns import Category, Flag, Integer, Real, Set
from sfumato.tables.schema import Schema
from support.all_kinds import SCHEMAS
from support.table_models import random_model

ASKED = [
    "real > 0",
    "real == 0 or real == -3 or real >= 5",
    "-1.23 <= real < 2.34",
    "real <= 0.777 and not real < -0.777",
    "integer between -1 and 4",
    "integer in (-2, 0, 7)",
    "flag",
    "not flag and integer > 2.5",
    "ordinal >= 'middle' and real > 1",
    "category == 'x' or category == 3",
    "category != 'y' and ordinal < 7 or flag",
    "date < 2020-03-05",
    "datetime >= 2020-01-20T10:30:00 and date > 2020-06-01",
    "words contains 'b'",
    "words contains 'a' or not words contains 5",
    "words contains 'a' and words contains 'c' and real > 0",
    "(real > 0 or integer > 0) and (real < 1 or flag) and not (category == 'x' and words contains 'd')",
    "true",
    "false or real > 7",
]
LEVELS = [
    "real is missing",
    "integer is not missing and flag is missing",
    "ordinal is missing or date is missing and category is missing",
    "integer != 3",
    "not (datetime > 2020-02-01) and not flag",
]
# sets of which each record may have any number of items: rows that are drawn then lose none
_PLAIN = [c for c in SCHEMAS["plain"].columns if c.kind != "set"]
_KEPT = [c for c in SCHEMAS["levels"].columns if c.kind != "set"]
_SETS = [Set("words", ("a", "b", "c", "d", 5), most=5)]
MODELS = {"plain": Schema((*_PLAIN, *_SETS)), "levels": Schema((*_KEPT, *_SETS))}


@pytest.mark.parametrize("name", MODELS)
def test_a_probability_is_the_frequency_among_many_rows(name):
    model = random_model(np.random.default_rng(5), MODELS[name])
    rows = 200_000
    table = pa.Table.from_batches(list(model.sampled(rows, np.random.default_rng(6)))).combine_chunks()
    block = model.partition.schema.encode(table.to_batches()[0])
    for text in [*ASKED, *(LEVELS if name == "levels" else [])]:
        question = parse(text, model.partition.schema)
        found, seen = model.probability(question), question.test(model.partition.schema)(block).mean()
        # 5 deviations of independent rows: rows drawn evenly deviate less
        assert abs(found - seen) < 5 * np.sqrt(max(found * (1 - found), 1e-6) / rows) + 1e-9, text


def test_a_probability_is_the_sum_over_all_cells():
    """All records of a small domain, one by one: cells of a single value each."""
    schema = Schema(
        (
            Integer("i", 0, 4),
            Flag("f"),
            Category("c", ("x", "y")),
            Integer("j", 1, 3),
            Set("s", ("p", "q"), most=2),
        )
    )
    model = random_model(np.random.default_rng(1), schema, most=3, cliques=[(0, 1), (1, 2), (2, 3), (0, 4), (4, 5)])
    joint = model.tree.marginal(model.beliefs, range(6))
    records, chances = [], []
    for cells in itertools.product(*map(range, model.partition.sizes)):
        i, f, c, j, p, q = cells
        records.append(
            {
                "i": i,
                "f": bool(f),
                "c": ("x", "y", None)[c],
                "j": j + 1,
                "s": [w for w, there in zip("pq", (p, q), strict=True) if there],
            }
        )
        shares = [bins.shares[cell] for bins, cell in zip(model.bins, cells, strict=True)]
        chances.append(
            joint[tuple(bins.of_cell[cell] for bins, cell in zip(model.bins, cells, strict=True))] * np.prod(shares)
        )
    block = schema.encode(pa.RecordBatch.from_pylist(records))
    assert np.sum(chances) == pytest.approx(1)
    for text in (
        "i > 2",
        "i in (0, 3) and not f",
        "c == 'y' or j < 2 and i != 1",
        "s contains 'p' and (s contains 'q' or f)",
        "not (i < 3 or c is missing) or j == 2",
    ):
        question = parse(text, schema)
        assert model.probability(question) == pytest.approx(
            np.array(chances)[question.test(schema)(block)].sum(), abs=1e-12
        )


def test_values_within_a_cell_are_spread_evenly():
    """By length for reals, by number for whole ones; single values are cells of their own."""
    schema = Schema((Real("x", 0, 128), Integer("n", 0, 1_000_000)))
    partition = Partition.of(schema)
    bins = tuple(Bins.of([[cell] for cell in range(size)], np.ones(size), 0.0) for size in partition.sizes)
    tree = JunctionTree.of(partition.sizes, [])
    beliefs = [np.zeros(size) for size in partition.sizes]
    x, n = partition.codes(np.array([[100.3], [500_000.0]]))[:, 0]
    beliefs[0][[0, x]], beliefs[1][[0, n]] = (0.25, 0.75), (0.5, 0.5)
    model = TableModel(partition, bins, tree, tuple(beliefs))
    low, high = partition.variables[0].axis.edges[x : x + 2]
    first, last = partition.variables[1].axis.levels[n]

    def asked(text):
        return model.probability(parse(text, schema))

    assert (asked("x == 0"), asked("x > 0")) == (0.25, 0.75)
    assert asked(f"x >= {low + 0.2 * (high - low)!r}") == pytest.approx(0.75 * 0.8)
    assert asked(f"n == {last}") == pytest.approx(0.5 / (last - first + 1))
    assert asked(f"n > {first + 1}") == pytest.approx(0.5 * (last - first - 1) / (last - first + 1))
    assert asked(f"n <= {first + 0.5}") == pytest.approx(0.5 + 0.5 / (last - first + 1))


def test_a_question_about_very_many_columns_is_estimated_and_says_so(monkeypatch):
    schema = Schema(tuple(Flag(f"f{i}") for i in range(12)))
    model = random_model(np.random.default_rng(3), schema)
    question = parse(" and ".join(f"(f{i} or not f{i + 1})" for i in range(11)), schema)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exact = model.probability(question)
    for name in ("_FEW_COMBINATIONS", "_MOST_COMBINATIONS"):
        monkeypatch.setattr(table_model, name, 10)
    with pytest.warns(InexactWarning, match="estimated from 1,048,576 rows"):
        assert abs(model.probability(question) - exact) < 0.0025
    assert model.probability(parse("f0 and f1", schema)) <= 1


@pytest.mark.parametrize("join", ["and", "or"])
def test_columns_taken_one_by_one_give_the_same(monkeypatch, join):
    """A conjunction multiplies conditional probabilities; a disjunction is what its negation leaves."""
    schema = Schema((*(Integer(f"n{i}", 0, 99) for i in range(5)), Category("c", ("x", "y"))))
    model = random_model(np.random.default_rng(4), schema, most=7)
    parts = ["n0 > 30", "n1 < 70", "(n2 > 40 or n3 > 20)", "c == 'x'", "n2 < 95"]
    text = " and ".join(parts) if join == "and" else " or ".join(f"not {part}" for part in parts)
    question = parse(text, schema)
    monkeypatch.setattr(table_model, "_FEW_COMBINATIONS", 10**6)
    at_once = model.probability(question)
    monkeypatch.setattr(table_model, "_FEW_COMBINATIONS", 1)
    assert 0.01 < at_once < 0.99
    assert model.probability(question) == pytest.approx(at_once, rel=1e-10)
    assert model.probability(parse(f"({text}) and n4 > 99", schema)) == 0


def test_many_columns_of_many_bins_are_computed():
    schema = Schema(tuple(Integer(f"n{i}", 0, 99) for i in range(40)))
    model = random_model(np.random.default_rng(4), schema, most=20)
    question = parse(" and ".join(f"n{i} > 2" for i in range(40)), schema)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = model.probability(question)
    (block,) = (
        pa.Table.from_batches(list(model.sampled(50_000, np.random.default_rng(7)))).combine_chunks().to_batches()
    )
    assert abs(found - question.test(schema)(schema.encode(block)).mean()) < 5 * np.sqrt(found * (1 - found) / 50_000)
