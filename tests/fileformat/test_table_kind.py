"""Synthetic tables on disk: manifests that contradict themselves, files that hold something else, and their limits."""

import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.errors import ReleaseError
from sfumato.fileformat import reader, table_kind, table_reader
from sfumato.fileformat.manifest import COUNTS, DATA, MODEL, part_name
from sfumato.fileformat.table_kind import Layout, flat
from sfumato.pipeline.release import release
from sfumato.releases.release import load
from sfumato.tables.columns import Category, Real, Set, Vector
from sfumato.tables.schema import Schema
from support.asked_kinds import KINDS, table
from support.forging import reseal
from support.synthetic_tables import RECORD, FixedTable, beside, decoded, facts


@pytest.fixture
def folder(tmp_path):
    """A synthetic table with a column of every kind."""
    recipe = FixedTable(decoded(KINDS, table()), together=3, said={"label": "city", "cuts": {"income": [1.5, 7.0]}})
    release(table(), schema=KINDS, mechanism=recipe, guarantee=RECORD).save(tmp_path / "r")
    load(tmp_path / "r")
    return tmp_path / "r"


def said(folder):
    return json.loads((folder / "manifest.json").read_text())["mechanism"]


def refused(folder, match, **changes):
    reseal(folder, **changes)
    with pytest.raises(ReleaseError, match=match):
        load(folder)


# ---- the manifest ---------------------------------------------------------------------------------------------------


def first(key, value):
    """A change of the first entry of a list."""
    return lambda facts: facts | {key: [value(facts[key][0]), *facts[key][1:]]}


@pytest.mark.parametrize(
    "change",
    [
        lambda facts: facts | {"bins": facts["bins"][:-1]},
        lambda facts: facts | {"bins": [*facts["bins"], [0]]},
        first("bins", lambda cells: [*cells, 0]),
        first("bins", lambda cells: [*cells[:-1], 2.0]),
        first("bins", lambda cells: [*cells[:-1], len(cells)]),
        first("bins", lambda cells: [*cells[:-1], 3]),
        first("bins", lambda cells: [*cells[:-1], 2**70]),
        first("cliques", lambda clique: clique[::-1]),
        first("cliques", lambda clique: [clique[0], clique[0]]),
        first("cliques", lambda clique: [clique[0], 10**6]),
        first("cliques", lambda clique: [0.0, clique[1]]),
        lambda facts: facts | {"cliques": facts["cliques"][:-1]},
        lambda facts: facts | {"cliques": [*facts["cliques"], facts["cliques"][0]]},
        first("tables", lambda counted: counted | {"stage": "none"}),
        first("tables", lambda counted: counted | {"columns": [10**6]}),
        lambda facts: facts | {"shares": {"one-way": 0.5, "pairs": 0.6}},
        lambda facts: facts | {"label": "nobody"},
        lambda facts: facts | {"cuts": {"nobody": [1.0]}},
        lambda facts: facts | {"cuts": {"income": [7.0, 1.5]}},
        lambda facts: facts | {"cuts": {"income": [1.5]}},
        lambda facts: {key: value for key, value in facts.items() if key != "cuts"},
    ],
)
def test_a_manifest_of_a_table_that_contradicts_itself_is_refused(folder, change):
    refused(folder, "contradicts itself", mechanism=change(said(folder)))


@pytest.mark.parametrize(
    "change",
    [
        lambda facts: facts | {"method": "guess"},
        lambda facts: facts | {"records": 0},
        lambda facts: facts | {"records": -3.0},
        lambda facts: facts | {"cliques": []},
        lambda facts: facts | {"tables": []},
        lambda facts: facts | {"shares": {"one-way": -0.5, "pairs": 0.6}},
        lambda facts: facts | {"forbid": [3]},
        lambda facts: facts | {"more": 1},
        first("bins", lambda cells: [-1, *cells[1:]]),
        first("tables", lambda counted: counted | {"scale": 0}),
        first("tables", lambda counted: counted | {"cells": "coarse"}),
        lambda facts: {key: value for key, value in facts.items() if key != "sensitivity"},
    ],
)
def test_a_manifest_of_a_table_without_its_form_is_refused(folder, change):
    refused(folder, "form of a manifest", mechanism=change(said(folder)))


def test_a_table_has_its_files_and_no_others(folder):
    files = json.loads((folder / "manifest.json").read_text())["files"]
    assert set(files) == {DATA, MODEL, COUNTS}
    for name in files:
        refused(folder, "contradicts itself", files={key: value for key, value in files.items() if key != name})
    for more in ("projection.parquet", part_name(0)):
        (folder / more).write_bytes(b"")
        refused(folder, "contradicts itself", files=files | {more: {}})
    (folder / part_name(0)).write_bytes((folder / DATA).read_bytes())
    whole = {part_name(0): {}, MODEL: files[MODEL], COUNTS: files[COUNTS]}
    refused(folder, "contradicts itself", files=whole)
    reseal(folder, files=files)
    load(folder)
    (folder / MODEL).unlink()
    with pytest.raises(ReleaseError, match="missing or not a plain file"):
        load(folder)


def test_a_schema_that_declares_more_than_the_table_has_is_not_laid_out(folder, monkeypatch):
    """A vector of many numbers is a few bytes of a manifest."""
    monkeypatch.setattr(table_kind, "fine_cells", lambda *_: pytest.fail("laid out"))
    plain = {key: value for key, value in said(folder).items() if key not in ("label", "cuts")}
    for column in (Vector("v", 2**12, 0, 1), Set("s", buckets=2**12, most=1)):
        refused(folder, "contradicts itself", schema=Schema([column], scale="raw").to_dict(), mechanism=plain)


def test_cells_are_bounded_before_they_are_counted(folder):
    facts_ = said(folder)
    many = len(facts_["bins"])
    refused(folder, "does not hold", mechanism=facts_ | {"cliques": [list(range(many))]})  # 2^25 cells
    with pytest.raises(ValueError, match="too many"):
        Layout.of(facts_ | {"tables": [facts_["tables"][0] | {"columns": list(range(many)), "cells": "fine"}]})
    wide = {"bins": [list(range(2**14))] * 2, "cliques": [[0, 1]], "tables": []}
    with pytest.raises(ValueError, match="too many"):
        Layout.of(wide)
    some = wide | {"bins": [list(range(2**13))] * 3, "cliques": [[0, 1], [0, 2]]}
    assert Layout.of(some).sizes == {MODEL: 3 * 2**13 + 2**27, COUNTS: 0}
    with pytest.raises(ValueError, match="too many"):
        Layout.of(some | {"cliques": [[0, 1], [0, 2], [0]]})


# ---- how files are laid out -----------------------------------------------------------------------------------------


def test_files_beside_a_table_are_laid_out_in_order():
    layout = Layout.of(
        {
            "bins": [[0, 0, 1], [0, 1], [0]],
            "cliques": [[0, 1], [2]],
            "tables": [{"columns": [0], "cells": "fine"}, {"columns": [0, 1], "cells": "bins"}],
        }
    )
    assert layout.sizes == {MODEL: 6 + 5, COUNTS: 3 + 4}
    shares, cliques = layout.model(np.arange(11.0))
    assert [part.tolist() for part in shares] == [[0, 1, 2], [3, 4], [5]]
    assert [part.tolist() for part in cliques] == [[[6, 7], [8, 9]], [10]]
    assert flat([*shares, *cliques]).tolist() == list(range(11))
    assert [part.tolist() for part in layout.counts(np.arange(7))] == [[0, 1, 2], [[3, 4], [5, 6]]]


def test_a_model_is_of_probabilities():
    layout = Layout.of({"bins": [[0, 0, 1], [0, 1]], "cliques": [[0, 1]], "tables": []})
    good = np.array([0.25, 0.75, 1, 1, 1, 0.1, 0.2, 0.3, 0.4])
    assert layout.is_model(good)
    assert layout.is_model(good * (1 + 5e-7))
    for place, value in ((0, 0.3), (2, 0.9), (5, 0.2), (5, math.nan), (5, math.inf), (0, -0.25)):
        bad = good.copy()
        bad[place] = value
        assert not layout.is_model(bad)
    signs = good.copy()
    signs[:2] = [-0.5, 1.5]
    assert not layout.is_model(signs)


def test_correlations_are_symmetric_and_positive_definite():
    said = {"bins": [[0, 0, 1], [0, 1]], "cliques": [[0], [1]], "tables": [], "method": "copula"}
    layout = Layout.of(said)
    assert layout.sizes[MODEL] == 5 + 4 + 4
    good = np.array([0.25, 0.75, 1, 1, 1, 0.1, 0.9, 0.3, 0.7, 1, -0.5, -0.5, 1])
    assert layout.is_model(good)
    assert layout.correlation(good).tolist() == [[1, -0.5], [-0.5, 1]]
    for place, value in ((10, 0.5), (9, 2.0), (12, 0.9), (10, math.nan), (0, 0.3), (5, -0.1)):
        bad = good.copy()
        bad[place] = value
        assert not layout.is_model(bad)
    for steep in (1.0, -1.0, 1.5):
        bad = good.copy()
        bad[10:12] = steep
        assert not layout.is_model(bad)
    with pytest.raises(ValueError, match="too many variables"):
        Layout.of(said | {"bins": [[0]] * 4097, "cliques": [[0]]})


# ---- files ----------------------------------------------------------------------------------------------------------


def rewritten(folder, name, change):
    pq.write_table(change(pq.read_table(folder / name)), folder / name, compression="none")


def with_values(values):
    return lambda _: pa.table({"value": values})


@pytest.mark.parametrize("name", [MODEL, COUNTS])
@pytest.mark.parametrize(
    "change",
    [
        lambda found: found.slice(1),
        lambda found: pa.concat_tables([found, found.slice(0, 1)]),
        lambda found: found.rename_columns(["values"]),
        lambda found: found.append_column("more", found.column(0)),
        lambda found: pa.table({"value": found.column(0).cast(pa.float32())}),
        lambda found: pa.table({"value": pa.array([None, *found.column(0).to_pylist()[1:]], found.schema[0].type)}),
        lambda found: pa.table({"value": found.column(0).cast(pa.string())}),
    ],
)
def test_files_beside_a_table_hold_what_the_manifest_says(folder, name, change):
    rewritten(folder, name, change)
    refused(folder, f"{name} does not hold what its manifest says")


def test_a_model_that_is_none_is_refused(folder):
    values = pq.read_table(folder / MODEL).column(0).to_numpy().copy()
    for change in (lambda found: found * 1.01, lambda found: -found, lambda found: found * math.nan):
        rewritten(folder, MODEL, with_values(change(values)))
        refused(folder, "does not hold what its manifest says")


def put(name, cells):
    """A change of one column's cells, of the same type."""

    def change(found):
        place, field = found.schema.get_field_index(name), found.schema.field(name)
        values = found.column(name).to_pylist()
        return found.set_column(place, field, pa.array([*cells, *values[len(cells) :]], field.type))

    return change


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found.slice(1),
        lambda found: pa.concat_tables([found, found]),
        lambda found: found.drop_columns(["age"]),
        lambda found: found.append_column("more", found.column("age")),
        lambda found: found.select(found.column_names[::-1]),
        lambda found: found.set_column(0, "age", found.column("age").cast(pa.int32())),
        lambda found: found.set_column(0, "age", found.column("age").cast(pa.string())),
        put("age", [121]),
        put("age", [-1]),
        put("age", [None]),
        put("children", [10]),
        put("income", [math.nan]),
        put("income", [30.1]),
        put("education", ["Master"]),
        put("education", [None]),
        put("stage", [4]),
        put("joined", [None]),
        put("joined", [pa.scalar(2**14, pa.int32()).cast(pa.date32()).as_py()]),
        put("seen", [pa.scalar(0, pa.timestamp("us")).as_py()]),
        put("city", ["Zug"]),
        put("sex", ["x"]),
        put("basket", [["tea"]]),
        put("basket", [None]),
        put("basket", [[None]]),
        put("basket", [["milk", "bread", "eggs"]]),
        put("words", [[8]]),
        put("face", [None]),
        put("face", [[0.0, 0.5, 1.01]]),
        put("face", [[0.0, 0.5, math.nan]]),
    ],
)
def test_rows_of_a_table_are_such_as_the_schema_allows(folder, change):
    rewritten(folder, DATA, change)
    refused(folder, "does not hold what its manifest says")


def test_rows_that_the_schema_allows_are_read_as_they_are(folder):
    changes = (
        put("children", [None, 9]),
        put("city", [None, "Bern"]),
        put("sex", [None]),
        put("basket", [[], ["eggs"]]),
    )
    for change in changes:
        rewritten(folder, DATA, change)
    reseal(folder)
    found = load(folder).table()
    assert found["children"][0].as_py() is None
    assert found["basket"].to_pylist()[:2] == [[], ["eggs"]]


@pytest.mark.parametrize("codec", ["zstd", "gzip", "lz4"])
def test_tables_are_packed_as_releases_are_or_not_read(folder, codec):
    pq.write_table(pq.read_table(folder / DATA), folder / DATA, compression=codec)
    refused(folder, "does not hold")


def test_damage_is_found_by_digests(folder):
    for name in (DATA, MODEL, COUNTS):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[:-1] + b"x")
        with pytest.raises(ReleaseError, match="digest does not match"):
            load(folder)
        (folder / name).write_bytes(content)


def test_footers_of_tables_are_no_larger_than_they_need(folder):
    found = pq.read_table(folder / DATA)
    pq.write_table(found.replace_schema_metadata({"a": "x" * (1 << 21)}), folder / DATA, compression="none")
    refused(folder, "does not hold")


def test_long_names_have_room_in_a_footer(tmp_path):
    rng = np.random.default_rng(1)
    names = [f"{place:03d}{'n' * 3000}" for place in range(300)]
    schema = Schema([Real(name, 0, 1) for name in names])
    rows = pa.table({name: rng.random(2) for name in names})
    release(rows, schema=schema, mechanism=FixedTable(rows), guarantee=RECORD).save(tmp_path / "r")
    assert load(tmp_path / "r").table().equals(rows)


# ---- few bytes that stand for many ----------------------------------------------------------------------------------


def of_texts(tmp_path, values, rows):
    """A folder of one column of texts, of so many rows."""
    schema = Schema([Category("c", values)])
    data = pa.table({"c": pa.array(values).take(pa.array(np.zeros(rows, np.int64)))})
    release(data, schema=schema, mechanism=FixedTable(data, together=rows), guarantee=RECORD).save(tmp_path / "r")
    return tmp_path / "r"


def test_texts_that_stand_once_and_are_meant_by_every_row_are_bounded(tmp_path, monkeypatch):
    folder = of_texts(tmp_path, ["x" * 10_000, "y"], 3000)
    assert (folder / DATA).stat().st_size < 1 << 16
    assert load(folder).table().nbytes > 3000 * 10_000
    monkeypatch.setattr(reader, "FREE", 1 << 20)
    monkeypatch.setattr(reader, "MANIFOLD", 10)
    before = pa.total_allocated_bytes()
    with pytest.raises(ReleaseError, match="does not hold"):
        load(folder)
    assert pa.total_allocated_bytes() - before < 1 << 22


def test_texts_that_are_no_values_are_not_unpacked(tmp_path, monkeypatch):
    """They are found to be none while they are codes: cells become texts only afterwards."""
    folder = of_texts(tmp_path, ["x", "y"], 300)
    long = pa.array(["x" * 100_000] * 300)
    pq.write_table(pa.table({"c": long}), folder / DATA, compression="none")
    assert (folder / DATA).stat().st_size < 1 << 18
    read, honest = [], table_reader._allowed
    monkeypatch.setattr(
        table_reader, "_allowed", lambda column, cells: read.append(cells.nbytes) or honest(column, cells)
    )
    refused(folder, "does not hold")
    assert 0 < read[0] < 1 << 18


def test_items_of_a_set_are_bounded_by_its_most(tmp_path):
    schema = Schema([Set("s", ("a", "b", "c"), most=2)])
    data = pa.table({"s": pa.array([["a", "b"]] * 50, pa.list_(pa.string()))})
    release(data, schema=schema, mechanism=FixedTable(data), guarantee=RECORD).save(tmp_path / "r")
    assert load(tmp_path / "r").table().equals(data)
    many = pa.table({"s": pa.array([["a"] * 5000, *[[]] * 49], pa.list_(pa.string()))})
    pq.write_table(many, tmp_path / "r" / DATA, compression="none")
    refused(tmp_path / "r", "does not hold")


def test_a_release_in_memory_has_the_files_that_it_states():
    rows, facts_ = decoded(KINDS, table()), facts(KINDS)
    made = release(table(), schema=KINDS, mechanism=FixedTable(rows), guarantee=RECORD)
    files = {name: found.column(0).to_numpy() for name, found in beside(facts_).items()}
    type(made)(made.manifest, rows, files)
    for wrong in ({}, {MODEL: files[MODEL]}, files | {MODEL: files[MODEL][1:]}, files | {"more": files[MODEL]}):
        with pytest.raises(ReleaseError, match="its model and its noisy counts"):
            type(made)(made.manifest, rows, wrong)
