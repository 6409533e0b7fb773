"""Domains: every row in exactly one cell, by itself; what is too large is refused with its size."""

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from sfumato.errors import ParameterError
from sfumato.files.open_table import open_table
from sfumato.queries.domain import Domain
from sfumato.queries.parser import parse
from sfumato.tables.columns import Category, Flag, Id, Real
from sfumato.tables.schema import Schema
from support.rows import table_rows

PEOPLE = Schema(
    (
        Id("name"),
        Real("age", 0, 100),
        Flag("smoker"),
        Category("city", ("Bern", "Basel")),
        Category("sex", ("f", "m"), "f"),
    )
)
TABLE = pa.table(
    {
        "name": ["a", "b", "c", "d", "e", "f"],
        "age": [0.0, 40.0, 39.999, 100.0, None, 1e9],
        "smoker": [True, False, True, None, True, False],
        "city": ["Bern", "Basel", "Oslo", "Bern", None, "Basel"],
        "sex": ["f", "m", "f", None, "m", "x"],
    }
)


def test_rows_fall_into_the_cells_of_their_levels():
    domain = Domain.of(PEOPLE, bins={"age": [40.0]})
    assert domain.shape == (2, 2, 3, 2)
    cells = domain.cells(PEOPLE.encode(TABLE))
    levels = np.array([domain.codes(axis.name)[cells] for axis in domain.columns])
    assert levels[0].tolist() == [0, 1, 0, 1, 0, 1]
    assert levels[1].tolist() == [1, 0, 1, 0, 1, 0]
    assert levels[2].tolist() == [0, 1, 2, 0, 2, 1]
    assert levels[3].tolist() == [0, 1, 0, 0, 1, 0]


def test_levels_say_what_they_stand_for():
    domain = Domain.of(PEOPLE, bins={"age": 4})
    assert domain.axis("age").levels == ((0, 25), (25, 50), (50, 75), (75, 100))
    assert domain.axis("smoker").levels == (False, True)
    assert domain.axis("city").levels == ("Bern", "Basel", None)
    assert domain.axis("sex").levels == ("f", "m")


def test_a_domain_of_some_columns_keeps_the_order_of_the_schema():
    domain = Domain.of(PEOPLE, columns=["sex", "smoker"])
    assert [axis.name for axis in domain.columns] == ["smoker", "sex"]
    assert domain.cells(PEOPLE.encode(TABLE)).tolist() == [2, 1, 2, 0, 3, 0]


def test_histograms_are_exact_and_do_not_depend_on_blocks():
    domain = Domain.of(PEOPLE, bins={"age": [40.0]})
    rows = table_rows(open_table(TABLE), PEOPLE)
    counts = domain.histogram(rows)
    assert counts.dtype == np.int64
    assert counts.sum() == 6
    assert (counts == np.bincount(domain.cells(PEOPLE.encode(TABLE)), minlength=domain.size)).all()


def test_one_record_moves_one_count_and_a_replaced_one_moves_two():
    domain = Domain.of(PEOPLE, bins={"age": 3})
    block = np.random.default_rng(0).uniform(-50, 150, (6, 40))
    whole, without = (np.bincount(domain.cells(b), minlength=domain.size) for b in (block, block[:, 1:]))
    other = np.bincount(domain.cells(np.hstack([block[:, 1:], 99 - block[:, :1]])), minlength=domain.size)
    assert np.abs(whole - without).sum() == 1
    assert np.abs(whole - other).sum() == 2


def test_a_cell_that_is_no_number_falls_into_the_lowest_level():
    block = np.array([[math.nan, -math.inf, math.inf, 50.0]])
    assert Domain.of(Schema((Real("x", 0, 100),)), bins={"x": 2}).cells(block).tolist() == [0, 0, 1, 1]


def test_marginals_cut_the_cells_into_their_levels():
    domain = Domain.of(PEOPLE, bins={"age": 2})
    table = domain.marginal("smoker", "city")
    assert table.shape == (6, domain.size)
    assert (table.sum(axis=0) == 1).all()
    assert (table[1] == (domain.codes("smoker") == 0) & (domain.codes("city") == 1)).all()
    assert domain.marginal().tolist() == [[True] * domain.size]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"bins": {"age": 100_000}}, "1200000 cells"),
        ({"bins": {"age": 10}, "limit": 100}, "at most 100"),
        ({}, "say how to cut it"),
        ({"bins": {"age": [50.0, 20.0]}}, "rise strictly"),
        ({"bins": {"age": [0.0]}}, "rise strictly"),
        ({"bins": {"age": [math.nan]}}, "rise strictly"),
        ({"bins": {"age": [120.0]}}, "rise strictly"),
        ({"bins": {"age": [100.0, 100.0]}}, "rise strictly"),
        ({"bins": {"age": "abc"}}, "whole number of bins, or a list of cuts"),
        ({"bins": {"age": "123"}}, "whole number of bins, or a list of cuts"),
        ({"bins": {"age": b"123"}}, "whole number of bins, or a list of cuts"),
        ({"bins": {"age": ""}}, "whole number of bins, or a list of cuts"),
        ({"bins": {"age": 5.0}}, "whole number of bins, or a list of cuts"),
        ({"bins": {"age": ["40"]}}, "whole number of bins, or a list of cuts"),
        ({"bins": {"age": [None]}}, "whole number of bins, or a list of cuts"),
        ({"bins": {"age": [10**400]}}, "whole number of bins, or a list of cuts"),
        ({"bins": {"age": True}}, "bins must be a whole number"),
        ({"bins": "age"}, "cuts by column"),
        ({"bins": 5}, "cuts by column"),
        ({"bins": {"age": 2, "smoker": 2}}, "real columns"),
        ({"columns": ["smoker"], "bins": {"age": 2}}, "real columns"),
        ({"columns": ["name"]}, "column must be one of"),
        ({"columns": []}, "at least one column"),
    ],
)
def test_what_cannot_be_enumerated_is_refused(arguments, words):
    with pytest.raises(ParameterError, match=words):
        Domain.of(PEOPLE, **arguments)


def test_a_cut_at_the_high_bound_makes_a_level_of_the_bound_alone():
    domain = Domain.of(Schema((Real("x", 0, 100),)), bins={"x": [50, 100]})
    assert domain.axis("x").levels == ((0, 50), (50, 100), (100, 100))
    block = np.array([[math.nan, -1.0, 0.0, 50.0, math.nextafter(100, 0), 100.0, 1e9, math.inf]])
    assert domain.cells(block).tolist() == [0, 0, 0, 1, 1, 2, 2, 2]


class Walked(tuple):
    """Edges that note when all of them are looked at, one after another."""

    __slots__ = ()
    walks = 0

    def __iter__(self):
        Walked.walks += 1
        return super().__iter__()


def test_a_comparison_neither_walks_over_all_edges_nor_finds_the_level_of_every_cell(monkeypatch):
    domain = Domain.of(PEOPLE, bins={"age": 64})
    age = replace(domain.axis("age"), edges=Walked(domain.axis("age").edges))
    domain = replace(domain, columns=(age, *domain.columns[1:]))
    asked = parse(" or ".join(f"age < {100 * i / 64}" for i in range(65)), PEOPLE)
    monkeypatch.setattr(Domain, "codes", lambda *_: pytest.fail("all cells were decoded"))
    Walked.walks = 0
    with pytest.raises(ParameterError, match="part of the level"):
        domain.mask(parse("age < 1", PEOPLE))
    with pytest.raises(ParameterError, match=r"part of the level from 98\.4375 to 100"):
        domain.mask(asked)
    domain.mask(parse("age < 50 or age > 100", PEOPLE))
    assert Walked.walks == 0


def test_cells_of_many_columns_of_one_level_are_decoded():
    """More columns than an array has dimensions."""
    schema = Schema((*(Category(f"c{i}", ("x",), "x") for i in range(70)), Flag("f")))
    assert Domain.of(schema).codes("f").tolist() == [0, 1]
    assert Domain.of(schema).codes("c5").tolist() == [0, 0]
    assert Domain.of(schema).mask(parse("f", schema)).tolist() == [False, True]
