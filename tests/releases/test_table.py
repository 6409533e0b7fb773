"""Synthetic tables in the analyst's hands: rows come back in the owner's columns and types, from memory and disk."""

import subprocess
import sys
from datetime import date

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.cli import main
from sfumato.engines.processes import Processes
from sfumato.errors import MissingDependency, ReleaseError
from sfumato.fileformat.manifest import COUNTS, DATA, MODEL
from sfumato.ledger.ledger import Ledger
from sfumato.pipeline.release import release, release_to
from sfumato.privacy.guarantee import Guarantee
from sfumato.releases.release import load
from sfumato.releases.table import TableRelease
from sfumato.tables.columns import Flag, Id, Integer, Vector
from sfumato.tables.decoding import arrow_fields
from sfumato.tables.schema import Schema
from support.asked_kinds import CELLS, KINDS, table
from support.synthetic_tables import RECORD, FixedTable, beside, decoded, facts

ROWS = decoded(KINDS, table())
TERMS = {"schema": KINDS, "mechanism": FixedTable(ROWS, together=3), "guarantee": RECORD}


@pytest.fixture(scope="module")
def made():
    return release(table(), **TERMS)


def test_a_table_comes_back_in_its_own_columns_and_types(made, tmp_path):
    release_to(tmp_path / "r", table(), **TERMS)
    made.save(tmp_path / "again")
    for found in (made, load(tmp_path / "r"), load(tmp_path / "again")):
        assert isinstance(found, TableRelease)
        assert found.table().equals(ROWS)
        assert found.table().schema.equals(arrow_fields(KINDS))
        assert found.names == tuple(CELLS)
        assert found.rows == 8
        assert found.schema == KINDS
        assert found.guarantee == RECORD
        for name, values in beside(facts(KINDS)).items():
            assert found.beside[name].tolist() == values.column(0).to_pylist()
    files = {path.name for path in (tmp_path / "r").iterdir()}
    assert files == {DATA, MODEL, COUNTS, "manifest.json", "README.txt", "registry.yaml"}
    assert (tmp_path / "r" / DATA).read_bytes() == (tmp_path / "again" / DATA).read_bytes()


def test_the_types_of_a_table_are_those_of_its_decoded_columns():
    schema = Schema([Id("who"), *KINDS.columns, Vector("v", columns=("a", "b"), low=0, high=9)], scale="raw")
    found = arrow_fields(schema)
    assert found.names == [*CELLS, "a", "b"]
    kinds = {
        "age": pa.int64(),
        "income": pa.float64(),
        "education": pa.string(),
        "stage": pa.int64(),
        "joined": pa.date32(),
        "seen": pa.timestamp("us"),
        "smoker": pa.bool_(),
        "city": pa.string(),
        "basket": pa.list_(pa.string()),
        "words": pa.list_(pa.int64()),
        "face": pa.list_(pa.float64(), 3),
        "a": pa.float64(),
    }
    assert {name: found.field(name).type for name in kinds} == kinds


def test_a_vector_of_its_own_columns_is_published_as_them(tmp_path):
    schema = Schema([Vector("v", columns=("a", "b"), low=0, high=9), Flag("f")])
    rows = pa.table({"a": [1.0, 9.0], "b": [0.0, 4.5], "f": [True, False]})
    release_to(tmp_path / "r", rows, schema=schema, mechanism=FixedTable(rows), guarantee=RECORD)
    assert load(tmp_path / "r").table().equals(rows)


def test_a_data_frame_has_the_types_that_people_expect(made):
    found = made.to_pandas()
    assert list(found.columns) == list(CELLS)
    kinds = {name: str(found[name].dtype) for name in ("age", "children", "income", "stage", "smoker", "seen")}
    assert kinds == {
        "age": "int64",
        "children": "Int64",
        "income": "float64",
        "stage": "Int64",
        "smoker": "boolean",
        "seen": "datetime64[us]",
    }
    assert found["children"].tolist() == [0, 1, 2, pd.NA, 9, 0, 9, 4]
    assert found["city"].isna().tolist() == [False, False, True, True, False, False, False, True]
    assert found["city"][0] == "Bern"
    assert str(found["joined"].dtype).startswith("datetime64")
    assert found["joined"][1] == pd.Timestamp(2020, 1, 2)
    assert found["week"].isna().sum() == 1
    assert found["basket"].tolist() == ROWS["basket"].to_pylist()
    assert found["face"][0].tolist() == [0.0, 0.5, 1.0]


def test_flags_without_gaps_are_plain_ones():
    rows = pa.table({"f": [True, False]})
    found = release(rows, schema=Schema([Flag("f")]), mechanism=FixedTable(rows), guarantee=RECORD).to_pandas()
    assert found["f"].dtype == bool


def test_without_pandas_one_is_told_so(made, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingDependency, match="pip install pandas"):
        made.to_pandas()
    assert made.table().num_rows == 8


def test_no_mechanism_is_loaded_with_a_table(made, tmp_path):
    made.save(tmp_path / "r")
    code = f"""
import sys
import sfumato
assert sfumato.load({str(tmp_path / "r")!r}).rows == 8
assert not any(name.startswith("sfumato.mechanisms") for name in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603


def test_a_table_says_what_it_is(made, tmp_path, capsys):
    assert repr(made) == "<table of 8 synthetic rows and 14 columns; epsilon=2, delta=1e-06, neighbours='replace'>"
    made.save(tmp_path / "r")
    assert main(["show", str(tmp_path / "r")]) == 0
    said = capsys.readouterr().out
    assert "8 synthetic rows of 14 columns, sampled from a model that was fitted to" in said
    assert "tables of counts with gaussian noise" in said
    assert "Sensitivity: 1.41421 for each table of counts." in said
    readme = (tmp_path / "r" / "README.txt").read_text()
    for line in ("release.to_pandas()", "release.sample(1000)", 'release.probability("age > 40")', "release.count("):
        assert line in readme
    assert "data_product_type: Synthetic records" in (tmp_path / "r" / "registry.yaml").read_text()


def test_the_label_of_a_table_is_said():
    recipe = FixedTable(ROWS, said={"label": "city", "forbid": ["age < 15 and income > 0"], "cuts": {"age": [15.0]}})
    found = release(table(), schema=KINDS, mechanism=recipe, guarantee=RECORD)
    assert found.manifest["mechanism"]["forbid"] == ["age < 15 and income > 0"]
    main_line = found.manifest["mechanism"]["label"]
    assert main_line == "city"


def test_what_goes_along_is_cut_as_the_manifest_says(made):
    shares, cliques = made._model_tables
    said = made.manifest["mechanism"]
    assert [len(share) for share in shares] == [len(cells) for cells in said["bins"]]
    assert [clique.shape for clique in cliques] == [(2, 2)] * len(said["cliques"])
    assert all(clique.sum() == pytest.approx(1) for clique in cliques)
    counts = made._noisy_counts
    assert [found.ndim for found in counts] == [len(entry["columns"]) for entry in said["tables"]]


def test_ids_of_records_are_not_published(tmp_path):
    schema = Schema([Id("who"), Integer("i", 0, 9)])
    data = pa.table({"who": ["a", "b"], "i": [1, 2]})
    recipe = FixedTable(data.select(["i"]))
    release_to(tmp_path / "r", data, schema=schema, mechanism=recipe, guarantee=RECORD)
    for found in (load(tmp_path / "r"), release(data, schema=schema, mechanism=recipe, guarantee=RECORD)):
        assert found.table().equals(data.select(["i"]))


def test_a_table_without_rows_is_not_released(tmp_path):
    terms = TERMS | {"mechanism": FixedTable(ROWS.slice(0, 0))}
    for make in (lambda: release(table(), **terms), lambda: release_to(tmp_path / "r", table(), **terms)):
        with pytest.raises(ReleaseError, match="no rows"):
            make()
    assert list(tmp_path.iterdir()) == []


def test_a_table_that_fails_midway_leaves_nothing(tmp_path, monkeypatch):
    honest = FixedTable.prepare

    def prepare(self, schema, guarantee):
        prepared = honest(self, schema, guarantee)
        object.__setattr__(prepared, "recipe", FixedTable(Failing(ROWS)))
        return prepared

    monkeypatch.setattr(FixedTable, "prepare", prepare)
    with pytest.raises(RuntimeError, match="midway"):
        release_to(tmp_path / "r", table(), **TERMS)
    assert list(tmp_path.iterdir()) == []


class Failing:
    """A table whose second batch cannot be made."""

    def __init__(self, rows):
        self.rows, self.column_names = rows, rows.column_names

    def to_batches(self, max_chunksize):
        del max_chunksize
        yield self.rows.to_batches()[0]
        raise RuntimeError("midway")


def test_a_protected_number_of_records_is_not_said(tmp_path):
    """``rows`` are those that were drawn; how many records the model is for is a noisy estimate."""
    added = Guarantee(epsilon=2.0, delta=1e-6, unit="record", neighbours="add-remove")
    release_to(tmp_path / "r", table(), **TERMS | {"guarantee": added})
    found = load(tmp_path / "r")
    assert found.manifest["rows"] == 8
    assert "the number of records is" in (tmp_path / "r" / "README.txt").read_text()


def test_a_table_is_charged_once(tmp_path):
    ledger = Ledger.create(tmp_path / "b.db")
    ledger.add_dataset("people", Guarantee(epsilon=3.0, delta=1e-5, unit="record"))
    release_to(tmp_path / "r", table(), **TERMS, ledger=ledger)
    assert load(tmp_path / "r").manifest["ledger"]["dataset"] == "people"
    (spent,) = ledger.dataset("people").releases
    assert spent


def test_several_processes_write_a_table_to_one_file(tmp_path):
    release_to(tmp_path / "r", table(), **TERMS, engine=Processes(processes=3))
    assert load(tmp_path / "r").table().equals(ROWS)


def test_many_rows_become_row_groups_of_bounded_size(tmp_path, monkeypatch):
    from sfumato.fileformat import writer  # noqa: PLC0415

    monkeypatch.setattr(writer, "_TABLE_GROUP", 1 << 12)
    many = pa.concat_tables([ROWS] * 50)
    release_to(tmp_path / "r", table(), **TERMS | {"mechanism": FixedTable(many, together=8)})
    assert pq.ParquetFile(tmp_path / "r" / DATA).num_row_groups > 3
    assert load(tmp_path / "r").table().equals(many)


def test_dates_and_texts_take_few_bytes(tmp_path):
    """Texts, items and whole numbers are written once and meant by codes."""
    many = pa.concat_tables([ROWS] * 1000).combine_chunks()
    release_to(tmp_path / "r", table(), **TERMS | {"mechanism": FixedTable(many, together=8000)})
    file = pq.ParquetFile(tmp_path / "r" / DATA)
    packed = {
        file.schema.column(place).path: file.metadata.row_group(0).column(place).has_dictionary_page
        for place in range(file.metadata.num_columns)
    }
    assert [name for name, yes in packed.items() if not yes] == ["income", "smoker"]


@pytest.mark.parametrize("rows", [1, 8])
def test_dates_come_back_whatever_the_number_of_rows(rows, tmp_path):
    terms = TERMS | {"mechanism": FixedTable(ROWS.slice(0, rows))}
    release_to(tmp_path / "r", table(), **terms)
    found = load(tmp_path / "r").table()
    assert found["joined"][0].as_py() == date(2020, 1, 1)
    assert np.array_equal(found["age"].to_numpy(), ROWS["age"].to_numpy()[:rows])
