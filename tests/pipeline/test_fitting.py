"""Where a schema meets a table: patterns settled by names, and counts of cells that do not fit."""

import datetime as dt
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq
import pytest

import sfumato
from sfumato.attacks.example_data import TargetTable
from sfumato.audit.grey_box import greybox
from sfumato.commands.console.options import schema_of
from sfumato.errors import SchemaError
from sfumato.files.open_table import open_table
from sfumato.files.source import Source
from sfumato.ledger.ledger import Ledger
from sfumato.mechanisms.sketch import Sketch
from sfumato.pipeline.fitting import Misfit, compare, settled
from sfumato.pipeline.release import price, release
from sfumato.pipeline.session import Session
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness.secret import Secret
from sfumato.tables.columns import Category, Date, Flag, Id, Integer, Ordinal, Real, Set, Vector
from sfumato.tables.schema import Schema

PROMISE = Guarantee(epsilon=1.0, unit="attribute")
WIFI = Schema([Integer("WAP*", -110, 0), Flag("inside"), Vector("e", low=0, high=1, columns="e*")], scale="bounds")
TABLE = pa.table({"e1": [0.5, 1.0], "WAP2": [-3, -9], "inside": [True, False], "WAP1": [-110, 0], "e0": [0.0, 0.1]})
SPELT = Schema(
    [Integer("WAP2", -110, 0), Integer("WAP1", -110, 0), Flag("inside"), Vector("e", 2, 0, 1, columns=("e1", "e0"))],
    scale="bounds",
)


def forms(folder):
    pv.write_csv(TABLE, folder / "wifi.csv")
    pq.write_table(TABLE, folder / "wifi.parquet")
    return [
        folder / "wifi.csv",
        str(folder / "wifi.parquet"),
        TABLE,
        TABLE.to_batches()[0],
        TABLE.to_pandas(),
        pl.from_arrow(TABLE),
        open_table(TABLE),
    ]


def test_a_release_settles_patterns_from_every_form_of_table(tmp_path):
    made = []
    for data in forms(tmp_path):
        terms = {"mechanism": Sketch(dimension=2, seed=3), "guarantee": PROMISE, "secret": Secret.for_testing(1)}
        made.append(release(data, schema=WIFI, **terms))
        assert made[-1].schema == SPELT
        assert np.array_equal(made[-1].columns, release(data, schema=SPELT, **terms).columns)
    assert made[0].manifest["schema"]["columns"][0]["name"] == "WAP2"
    assert made[0].manifest["schema"]["columns"][3]["columns"] == ["e1", "e0"]


def test_sessions_prices_attacks_and_audits_settle_patterns(tmp_path):
    data = tmp_path / "wifi.csv"
    pv.write_csv(pa.concat_tables([TABLE] * 4), data)
    ledger = Ledger.create(tmp_path / "budget.db")
    ledger.add_dataset("wifi", Guarantee(epsilon=9.0))
    session = Session(data, schema=WIFI, ledger=ledger.account())
    assert session.schema == SPELT
    assert session.price(["inside"], epsilon=1.0)
    assert price(data, schema=WIFI, mechanism=Sketch(dimension=2), guarantee=Guarantee(epsilon=1.0), ledger=ledger)
    assert TargetTable.read(data, WIFI).schema == SPELT
    other = TABLE.set_column(2, "inside", pa.array([False, False]))
    found = greybox(TABLE, other, schema=WIFI, mechanism=Sketch(dimension=2, seed=1), guarantee=PROMISE)
    assert found is not None


def test_without_patterns_data_and_schema_stay_as_they_are():
    data = object()
    assert settled(data, SPELT) == (data, SPELT)


def test_a_stream_that_can_be_read_once_is_opened_once():
    class Once:
        """An object of which an Arrow stream is asked once."""

        left = 1

        def __arrow_c_stream__(self, requested=None):
            assert self.left, "asked twice"
            self.left -= 1
            return TABLE.__arrow_c_stream__(requested)

    data, schema = settled(Once(), WIFI)
    assert isinstance(data, Source)
    assert schema == SPELT


def test_a_matrix_has_no_names_to_match():
    with pytest.raises(SchemaError, match=r"'WAP\*' has no names to match.*numbered range"):
        settled(np.zeros((2, 3)), WIFI)
    schema = Schema([Real("x{1..3}", 0, 1)])
    made = release(np.zeros((2, 3)), schema=schema, mechanism=Sketch(dimension=2), guarantee=PROMISE)
    assert [c.name for c in made.schema.columns] == ["x1", "x2", "x3"]


def test_a_pattern_without_a_column_is_refused_with_the_name_of_the_table(tmp_path):
    data = forms(tmp_path)[0]
    with pytest.raises(SchemaError, match=r"csv file wifi.csv: no column of the table is left for the pattern 'b\*'"):
        settled(data, Schema([Flag("b*")]))


def test_the_schema_of_a_command_is_settled(tmp_path):
    data = forms(tmp_path)[0]
    WIFI.write(tmp_path / "wifi.toml")

    class Options:
        table = separator = encoding = None
        """Options of a command."""

        schema, data = str(tmp_path / "wifi.toml"), str(tmp_path / "wifi.csv")

    assert data.exists()
    assert schema_of(Options) == SPELT


# ---- cells that do not fit ------------------------------------------------------------------------------------------

PEOPLE = Schema(
    [
        Id("person"),
        Real("age", 0, 120, weight=2.0),
        Flag("smoker"),
        Category("city", ["Bern", "Basel", "Zürich"], weight=0.5),
        Real("height", -1.5, 2.5, missing=1.0),
    ]
)


def people(**changed):
    columns = {"age": [30.0], "smoker": [True], "city": ["Bern"], "height": [1.8], **changed}
    return pa.table(
        {name: cells if isinstance(cells, pa.Array) else pa.array(cells) for name, cells in columns.items()}
    )


def test_compare_counts_what_does_not_fit():
    first = people(
        age=pa.array(["-1", "200", None, "x", "3"]),
        smoker=["yes", "maybe", None, "no", "1"],
        city=pa.array(["Bern", "Chur", None, "Genf", "Bern"]).dictionary_encode(),
        height=[math.nan, None, 9.0, 0.0, -1.6],
    )
    second = people(age=[-5.0])
    blocks = [b for t in (first, second) for b in t.to_batches()]
    assert compare(PEOPLE, iter(blocks)) == [
        Misfit("age", "missing", 1),
        Misfit("age", "unreadable", 1),
        Misfit("age", "below low", 2),
        Misfit("age", "above high", 1),
        Misfit("smoker", "missing", 1),
        Misfit("smoker", "unreadable", 1),
        Misfit("city", "missing", 1),
        Misfit("city", "unlisted", 2),
        Misfit("height", "missing", 2),
        Misfit("height", "below low", 1),
        Misfit("height", "above high", 1),
    ]
    assert compare(PEOPLE, people().to_batches()) == []
    assert "NOT PRIVATE" in compare.__doc__
    with pytest.raises(SchemaError, match="has no column 'age'"):
        compare(PEOPLE, people().drop_columns(["age"]).to_batches())


def test_compare_knows_every_kind_of_column():
    schema = Schema(
        [
            Integer("n", 0, 9),
            Ordinal("o", ["low", "high"]),
            Date("d", dt.date(2020, 1, 1), dt.date(2020, 12, 31)),
            Vector("v", 2, 0, 1),
            Vector("w", low=0, high=1, columns=["w0", "w1"]),
            Set("s", ["a", "b"], most=2),
            Set("h", buckets=8, most=2),
        ]
    )
    table = pa.table(
        {
            "n": [-1, 3, 99],
            "o": ["low", "middle", None],
            "d": ["2019-12-31", "2021-01-01", "soon"],
            "v": [[0.0, 2.0], [1.0], None],
            "w0": [0.5, -1.0, math.nan],
            "w1": [0.0, 0.0, 7.0],
            "s": [["a", "z"], None, []],
            "h": [["q"], None, []],
        }
    )
    assert compare(schema, table.to_batches()) == [
        Misfit("n", "below low", 1),
        Misfit("n", "above high", 1),
        Misfit("o", "missing", 1),
        Misfit("o", "unlisted", 1),
        Misfit("d", "unreadable", 1),
        Misfit("d", "below low", 1),
        Misfit("d", "above high", 1),
        Misfit("v", "missing", 1),
        Misfit("v", "unreadable", 1),
        Misfit("v", "above high", 1),
        Misfit("w0", "missing", 1),
        Misfit("w0", "below low", 1),
        Misfit("w1", "above high", 1),
        Misfit("s", "missing", 1),
        Misfit("s", "unlisted", 1),
        Misfit("h", "missing", 1),
    ]


def test_a_table_that_does_not_fit_is_refused_with_every_problem():
    table = pa.table({"age": [dt.date(2020, 1, 1)], "city": [["x"]], "height": [1.8]})
    with pytest.raises(SchemaError, match="3 problems") as caught:
        open_table(table).check_types(PEOPLE)
    said = str(caught.value).split("\n")
    assert [line[:5] for line in said[1:]] == ["  1. ", "  2. ", "  3. "]
    assert "no column 'smoker'" in said[1]
    assert "'age' is of type date" in said[2]
    assert "'city' is of type list" in said[3]
    assert len(caught.value.problems) == 3
    with pytest.raises(SchemaError, match="3 problems"):
        release(table, schema=PEOPLE, mechanism=Sketch(dimension=2), guarantee=PROMISE)


def test_public_names():
    assert sfumato.Schema is Schema
    assert isinstance(Schema.from_pandas(pd.DataFrame({"a": [1]})), sfumato.Draft)


def test_a_draft_is_refused_with_what_to_do():
    frame = pd.DataFrame({"a": [1, 2]})
    with pytest.raises(SchemaError, match=r"draft\.fill"):
        settled(frame, Schema.from_pandas(frame))
