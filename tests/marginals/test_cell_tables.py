"""Tables of public cells: every record in exactly one cell of each, and the same tables from what a manifest states."""

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.marginals.cell_tables import MOST_CELLS, TOGETHER, CellTables
from sfumato.marginals.partition import Partition
from sfumato.tables.columns import Category, Flag, Integer, Real, Set, Vector
from sfumato.tables.schema import Schema
from support import all_kinds

KINDS = Schema([c for c in (*all_kinds.LEVELS, Real("plain", -1, 4)) if not isinstance(c, Vector | Set)])
NAMES = [column.name for column in KINDS.data_columns]
TABLES = [("real",), ("plain",), ("date", "category"), ("integer", "flag", "plain")]


def rows(schema=KINDS, count=300):
    luck = np.random.default_rng(3)
    low, high = schema.encoding.low, schema.encoding.high
    block = luck.uniform(low - 1, high + 1, (count, low.size)).T
    block[:, ::17] = np.nan
    return block


def test_every_row_is_in_one_cell_of_each_table():
    tables = CellTables.of(KINDS, TABLES)
    counts = tables.split(tables.counts(rows()))
    assert [part.sum() for part in counts] == [300] * 4
    assert [part.size for part in counts] == list(tables.sizes)
    assert tables.size == sum(tables.sizes)


def test_a_column_alone_has_fine_cells_and_several_together_few():
    tables = CellTables.of(KINDS)
    assert tables.names == tuple((name,) for name in NAMES)
    assert tables.sizes == Partition.of(KINDS).sizes
    together = CellTables.of(KINDS, [("real", "plain")])
    assert together.domains[0].shape == (TOGETHER + 1, TOGETHER)  # one more where missing cells are a level


def test_what_a_manifest_states_are_the_same_tables():
    tables = CellTables.of(KINDS, TABLES, {"real": 7, "date": ["2020-03-01"]})
    for made in (tables, CellTables.of(KINDS)):
        stated = [(names, made.cuts(place)) for place, names in enumerate(made.names)]
        again = CellTables.stated(KINDS, stated)
        assert again == made
        assert (again.counts(rows()) == made.counts(rows())).all()
        # a manifest may hold no number that is too small to be computed with
        assert all(cut == 0 or abs(cut) > 1e-100 for _, cuts in stated for own in cuts.values() for cut in own)


@pytest.mark.parametrize(
    ("tables", "bins", "words"),
    [
        (("real",), None, "a table is a list of columns"),
        ([], None, "one or more"),
        ([("real",), ("real",)], None, "no two of the same"),
        ([("real", "real")], None, "different columns"),
        ([("nowhere",)], None, "nowhere"),
        ([("real",)], {"plain": 3}, "bins for 'plain'"),
        ([("flag",)], {"flag": 3}, "bins for 'flag'"),
        ([("real",)], {"real": [9.0]}, "cuts of 'real'"),
    ],
)
def test_tables_that_cannot_be_are_refused(tables, bins, words):
    with pytest.raises(ParameterError, match=words):
        CellTables.of(KINDS, tables, bins)


def test_wide_tables_are_refused_with_what_to_do():
    wide = Schema([Integer(f"i{j}", 0, 250) for j in range(5)])
    with pytest.raises(ParameterError, match=r"name fewer columns, or cut numbers into fewer bins"):
        CellTables.of(wide, [tuple(f"i{j}" for j in range(5))])
    assert CellTables.of(wide, [tuple(f"i{j}" for j in range(4))]).size == 32**4 <= MOST_CELLS
    many = [(f"i{a}", f"i{b}", f"i{c}", f"i{d}") for a, b, c, d in ((0, 1, 2, 3), (0, 1, 2, 4), (0, 1, 3, 4))]
    with pytest.raises(ParameterError, match="name fewer tables"):
        CellTables.of(wide, [*many, ("i0", "i2", "i3", "i4"), ("i1", "i2", "i3", "i4")])


def test_sets_and_vectors_have_no_cells():
    mixed = Schema([Set("words", ("a", "b"), most=1), Vector("v", 2, 0, 1), Flag("f"), Category("c", ["x"])])
    assert CellTables.of(mixed).names == (("f",), ("c",))
    with pytest.raises(ParameterError, match="'words' is a set"):
        CellTables.of(mixed, [("f", "words")])
    with pytest.raises(ParameterError, match="sets and vectors have none"):
        CellTables.of(Schema([Set("words", ("a", "b"), most=1)]))


@pytest.mark.parametrize(
    "stated",
    [
        [(["plain", "real"], {"plain": [], "real": []})],  # not in the order of the schema
        [(["real"], {})],  # no cuts
        [(["category"], {"category": [1.0]})],
        [(["real"], {"real": [4.0, 3.0]})],
        [(["real"], {"real": [6.0]})],
        [(["real"], {"real": [1.0], "plain": [1.0]})],
    ],
)
def test_what_no_manifest_states_is_refused(stated):
    with pytest.raises(ParameterError):
        CellTables.stated(KINDS, stated)
