"""The screens of the studio: what each is for, and what it says when something is wrong."""

import fcntl
import os
import re
import sqlite3
import sys
import threading
from dataclasses import replace
from datetime import date
from html import unescape
from importlib import resources

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.cli import main
from sfumato.errors import LedgerError, ParameterError
from sfumato.ledger.ledger import Ledger
from sfumato.mechanisms.sketch import Sketch
from sfumato.pipeline.release import release_to
from sfumato.planning import planner
from sfumato.planning.per_record import SketchErrors
from sfumato.privacy.guarantee import Guarantee
from sfumato.releases.release import load
from sfumato.report import svg
from sfumato.studio import plan_screen, release_screen
from sfumato.studio.frame import jobs, shared_state
from sfumato.studio.frame.jobs import Job
from sfumato.studio.inputs.folder import Folder
from sfumato.studio.schema_form import FIELDS, KIND_WORDS, MOST_LINES, FormRow, completed, lines_from, lines_of
from sfumato.studio.server import Server
from sfumato.tables.columns import (
    KINDS,
    Category,
    Date,
    Flag,
    Id,
    Integer,
    Ordinal,
    Real,
    Set,
    Vector,
)
from sfumato.tables.schema import Schema
from support.forms import untouched
from support.visiting import CELL, ORIGIN, ROWS, SCHEMA, SKETCH, Visitor, make_studio, write_people


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "data"
    made.mkdir()
    write_people(made)
    return made


@pytest.fixture
def visitor(folder):
    return Visitor(make_studio(folder))


def fields_of(text):
    """The fields of the first form that is sent to a schema's address."""
    names = re.findall(r'<(?:input|select|textarea)[^>]* name="([^"]+)"', text)
    return [name for name in names if name != "csrf"]


# ---- Data -----------------------------------------------------------------------------------------------------------


def test_the_first_page_lists_the_tables_of_the_folder(visitor, folder):
    (folder / "new.parquet").write_bytes(b"not looked into")
    (folder / "notes.txt").write_text("no table")
    assert visitor.get("/").headers["location"] == "/data"
    text = visitor.get("/data").text
    assert "people.csv" in text
    assert "new.parquet" in text
    assert "notes.txt" not in text
    assert str(ROWS) not in re.sub(r"<[^>]*>", "", text).split()


def test_a_table_without_a_schema_gets_a_draft_from_names_and_types(visitor, folder):
    (folder / "people.toml").unlink()
    text = visitor.get("/data/people.csv").text
    for name in SCHEMA.columns:
        assert f'name="{SCHEMA.columns.index(name)}.kind"' in text
    assert '<option value="category" selected>' in text
    assert "# low = " in text
    assert CELL not in text


def test_a_form_is_saved_beside_the_table_and_read_back(visitor, folder):
    (folder / "people.toml").unlink()
    form = {
        "lines": "3",
        "0.name": "age",
        "0.kind": "real",
        "0.low": "0",
        "0.high": "120",
        "0.missing": "40",
        "0.weight": "",
        "1.name": "smoker",
        "1.kind": "flag",
        "1.missing": "True",
        "1.weight": "2.5",
        "2.name": "city",
        "2.kind": "category",
        "2.values": " Bern \r\n\r\nBasel\r\n",
        "2.missing": "Basel",
        "norm": "l2",
        "norm_bound": "50",
    }
    saved = visitor.send("/data/people.csv/form", form)
    assert saved.is_redirect
    assert "is saved" in visitor.get(saved.headers["location"]).text
    wanted = (
        Real("age", 0, 120, 40.0),
        Flag("smoker", missing=True, weight=2.5),
        Category("city", ("Bern", "Basel"), "Basel"),
    )
    assert Schema.read(folder / "people.toml") == Schema(wanted, "l2", 50.0)


def test_what_is_wrong_is_said_beside_its_field_and_nothing_is_saved(visitor, folder):
    before = (folder / "people.toml").read_text()
    form = {
        "lines": "4",
        "0.name": "age",
        "0.kind": "real",
        "0.low": "",
        "0.high": "many",
        "1.name": "smoker",
        "1.kind": "flag",
        "1.missing": "perhaps",
        "2.name": "city",
        "2.kind": "category",
        "2.values": "Bern",
        "2.missing": "Zug",
        "3.name": "x",
        "3.kind": "real",
        "3.low": "5",
        "3.high": "4",
    }
    lines, columns = completed(lines_from(form), None)
    assert columns == []
    assert [list(line.wrong) for line in lines] == [["low"], ["missing"], ["missing"], ["low"]]
    answer = visitor.send("/data/people.csv/form", form)
    assert answer.status_code == 422
    assert 'id="f0-low-wrong">to fill in<' in answer.text
    assert 'aria-describedby="f1-missing-wrong"' in answer.text
    assert 'value="many"' in answer.text
    assert (folder / "people.toml").read_text() == before


def test_columns_can_be_left_out_but_not_all_of_them(visitor, folder):
    form = {"lines": "2", "0.name": "age", "0.kind": "", "1.name": "smoker", "1.kind": "flag"}
    assert visitor.send("/data/people.csv/form", form).is_redirect
    assert [c.name for c in Schema.read(folder / "people.toml").columns] == ["smoker"]
    refused = visitor.send("/data/people.csv/form", form | {"1.kind": "id"})
    assert refused.status_code == 422
    assert "at least one column" in refused.text


@pytest.mark.parametrize(
    "given", [{"low": "nan", "high": "1"}, {"low": "0", "high": "inf"}, {"low": "0", "high": "1", "weight": "-1"}]
)
def test_numbers_that_are_none_are_refused(visitor, given):
    form = {"lines": "1", "0.name": "age", "0.kind": "real"} | {f"0.{k}": v for k, v in given.items()}
    assert visitor.send("/data/people.csv/form", form).status_code == 422


def test_a_schema_goes_through_the_form_unchanged():
    """Whole numbers among the values stay whole numbers: else the ledger would see another schema."""
    schema = Schema((Real("a", 0, 1, 0.5, 2.0), Flag("b", missing=False), Category("c", (1, 2, "x"), 2), Id("d")))
    names_and_types = pa.schema([(name, pa.string()) for name in ("d", "a", "b", "c")])
    lines = lines_of(names_and_types, schema)
    assert [line.name for line in lines] == ["d", "a", "b", "c"]
    checked, columns = completed(lines, schema)
    assert not any(line.wrong for line in checked)
    assert {c.name: c for c in columns} == {c.name: c for c in schema.columns}


EVERY_KIND = Schema(
    (
        Id("key"),
        Real("age", 0, 120.5, missing="level", weight=2),
        Integer("rooms", 0, 9, missing=3),
        Flag("owns", missing="level"),
        Ordinal("grade", ("low", "high", 7), missing="high"),
        Category("town", ("Bern", 3), missing="level"),
        Date("born", date(1900, 1, 1), date(2030, 1, 1), step=30, missing=date(1970, 1, 1)),
        Date("seen", "2000-01-01T12:30:00", "2030-01-01T00:00:01", step=0.5),
        Vector("face", 384, -1, 1, bound=3.5),
        Vector("wifi", low=-110, high=0, columns=("w1", "w2"), whole=False),
        Set("drugs", ("a", "b", 5), most=2),
        Set("words", buckets=64, most=8, weight=0.5),
    ),
    norm="l2",
    norm_bound=9.5,
    scale="raw",
)


def typed(lines, **settings):
    """What a browser sends of these lines."""
    form = {"lines": str(len(lines))} | settings
    for i, line in enumerate(lines):
        form |= {f"{i}.name": line.name, f"{i}.kind": line.kind}
        form |= {f"{i}.{key}": text.replace("\n", "\r\n") for key, text in line.texts.items()}
    return form


def write_every_kind(folder):
    """An empty table of every kind of column, and its schema."""
    fields = {name: pa.null() for name in ("key", *EVERY_KIND.source_names)}
    types = {"face": pa.list_(pa.float64()), "drugs": pa.list_(pa.string()), "words": pa.list_(pa.string())}
    pq.write_table(pa.schema(list((fields | types).items())).empty_table(), folder / "every.parquet")
    EVERY_KIND.write(folder / "every.toml")


def test_the_form_has_every_kind_and_gives_it_back_unchanged(visitor, folder):
    write_every_kind(folder)
    assert list(KIND_WORDS) == list(KINDS)
    page = visitor.get("/data/every.parquet").text
    inputs = dict(re.findall(r'name="([0-9]+\.(?!kind)[a-z]+)" value="([^"]*)"', page))
    inputs |= dict(re.findall(r'name="([0-9]+\.[a-z]+)" rows="."[^>]*>([^<]*)</textarea>', page))
    inputs |= dict(re.findall(r'name="([0-9]+\.(?:kind|whole))".*?<option value="([a-z]*)" selected', page))
    form = {"lines": "12", "scale": "raw", "norm": "l2", "norm_bound": "9.5"} | inputs
    assert visitor.send("/data/every.parquet/form", form).is_redirect
    assert Schema.read(folder / "every.toml") == EVERY_KIND


def test_each_line_has_the_fields_of_its_kind_alone(visitor, folder):
    write_every_kind(folder)
    page = visitor.get("/data/every.parquet").text.partition("<template")[0]
    for i, column in enumerate(EVERY_KIND.columns):
        assert tuple(re.findall(rf'name="{i}\.([a-z]+)"', page)) == ("name", "kind", *FIELDS[column.kind]), column


def test_a_vector_of_columns_stands_for_them_in_the_form():
    schema = Schema((Vector("v", low=0, high=1, columns=("b", "a")), Flag("c")))
    names = pa.schema([(name, pa.float64()) for name in ("c", "a", "x", "b")])
    assert [line.name for line in lines_of(names, schema)] == ["c", "v", "x"]
    lines = lines_of(pa.schema([("a", pa.float64()), ("c", pa.bool_())]), schema)
    assert [(line.name, "kind" in line.wrong) for line in lines] == [("c", False), ("v", True)]


def test_every_bad_column_is_named_at_once_and_what_was_typed_is_kept(visitor, folder):
    pq.write_table(pa.table({f"c{i}": [0.5] for i in range(60)}), folder / "wide.parquet")
    form = {"lines": "60", "scale": "raw", "norm": "l1", "norm_bound": "many"}
    for i in range(60):
        form |= {f"{i}.name": f"c{i}", f"{i}.kind": "real", f"{i}.low": f"{i}.25", f"{i}.high": "99" if i % 2 else "x"}
    answer = visitor.send("/data/wide.parquet/form", form)
    assert answer.status_code == 422
    assert "30 of 60 columns need another look" in answer.text
    assert re.findall(r'<a href="#n([0-9]+)">c[0-9]+</a>', answer.text) == [str(i) for i in range(0, 40, 2)]
    assert "and 10 more" in answer.text
    marked = re.findall(r'id="f([0-9]+)-high-wrong">must be a number<', answer.text)
    assert marked == [str(i) for i in range(0, 60, 2)]
    for kept in ('value="59.25"', '<option value="raw" selected>', '<option value="l1" selected>', 'value="many"'):
        assert kept in answer.text
    assert not (folder / "wide.toml").exists()


def test_labels_and_names_that_come_twice_are_all_marked():
    form = {"lines": "3"} | {f"{i}.kind": "id" for i in range(3)} | {"0.name": "a", "1.name": "b", "2.name": "b"}
    lines, _ = completed(lines_from(form), None)
    told = [line.wrong["kind"] for line in lines]
    assert "row label" in told[0]
    assert all("more than once" in text for text in told[1:])


@pytest.mark.parametrize(
    ("kind", "given", "place"),
    [
        ("integer", {"low": "0.5", "high": "3"}, "low"),
        ("ordinal", {"values": "one"}, "values"),
        ("date", {"low": "1950", "high": "2030-01-01"}, "low"),
        ("date", {"low": "1950-01-01 12:00", "high": "2030-01-01 12:00"}, "low"),
        ("date", {"low": "1950-01-01", "high": "2030-01-01", "step": "0.5"}, "step"),
        ("vector", {"low": "0", "high": "1"}, "size"),
        ("vector", {"low": "1", "high": "2", "size": "3", "bound": "1"}, "bound"),
        ("set", {"most": "3"}, "values"),
        ("set", {"buckets": "8"}, "most"),
        ("set", {"buckets": "8", "values": "a", "most": "1"}, "kind"),
        ("flag", {"missing": "perhaps"}, "missing"),
        ("real", {"low": "0", "high": "1", "missing": "2"}, "missing"),
        ("colour", {}, "kind"),
    ],
)
def test_what_is_wrong_with_a_kind_is_said_beside_its_field(kind, given, place):
    form = {"lines": "1", "0.name": "c", "0.kind": kind} | {f"0.{key}": text for key, text in given.items()}
    (line,), columns = completed(lines_from(form), None)
    assert (list(line.wrong), columns) == ([place], [])


def test_a_date_with_time_may_be_typed_without_one():
    form = {"lines": "1", "0.name": "c", "0.kind": "datetime", "0.low": "1950-01-01", "0.high": "2030-01-01 12:30"}
    _, columns = completed(lines_from(form), None)
    assert columns == [Date("c", "1950-01-01T00:00:00", "2030-01-01T12:30:00")]


def test_columns_count_in_units_of_their_range_unless_the_form_says_otherwise(visitor, folder):
    form = {"lines": "1", "0.name": "smoker", "0.kind": "flag"}
    mixed = form | {"lines": "2", "1.name": "age", "1.kind": "real", "1.low": "0", "1.high": "120"}
    visitor.send("/data/people.csv/form", form)  # of one range: its scale plays no part and is not kept
    assert '<option value="raw" selected>' not in visitor.get("/data/people.csv").text
    for asked, kept in (({}, "bounds"), ({"scale": "raw"}, "raw"), ({"scale": "bounds"}, "bounds")):
        assert visitor.send("/data/people.csv/form", mixed | asked).is_redirect
        assert Schema.read(folder / "people.toml").scale == kept
        assert ('<option value="raw" selected>' in visitor.get("/data/people.csv").text) == (kept == "raw")
    assert visitor.send("/data/people.csv/form", mixed | {"scale": "other"}).status_code == 422


def test_the_page_and_the_form_of_a_wide_table_grow_with_its_columns_and_no_faster(visitor, folder):
    sizes = {}
    for width in (10, 500, MOST_LINES):
        pq.write_table(pa.table({f"c{i:04}": [0.5] for i in range(width)}), folder / "wide.parquet")
        sizes[width] = len(visitor.get("/data/wide.parquet").content)
        lines = [
            FormRow(f"c{i:04}", "real", {"low": "0", "high": "1", "missing": "", "weight": ""}) for i in range(width)
        ]
        assert visitor.send("/data/wide.parquet/form", typed(lines)).is_redirect, width
        assert len(Schema.read(folder / "wide.toml").columns) == width
        (folder / "wide.toml").unlink()
    each = (sizes[500] - sizes[10]) / 490
    assert each < 2_000
    assert (sizes[MOST_LINES] - sizes[500]) / (MOST_LINES - 500) == pytest.approx(each, rel=0.05)


def test_a_column_that_the_data_lack_is_shown_as_such():
    lines = lines_of(pa.schema([("b", pa.bool_())]), Schema((Real("a", 0, 1), Flag("b"))))
    assert [(line.name, dict(line.wrong)) for line in lines] == [
        ("b", {}),
        ("a", {"kind": "the data lack this column"}),
    ]


def test_the_text_is_saved_as_it_is_with_its_comments(visitor, folder):
    text = (
        '# from the questionnaire of 2019\r\n[[columns]]\r\nname = "age"\r\nkind = "real"\r\nlow = 0\r\nhigh = 99\r\n'
    )
    assert visitor.send("/data/people.csv/text", {"text": text}).is_redirect
    assert (folder / "people.toml").read_text() == text.replace("\r\n", "\n")
    assert "of 2019" in visitor.get("/data/people.csv").text


def test_a_text_that_is_no_schema_is_shown_again_with_the_reason(visitor, folder):
    before = (folder / "people.toml").read_text()
    for text, reason in (("low =", "not TOML"), ('[[columns]]\nname = "a"\nkind = "colour"', "must be one of")):
        answer = visitor.send("/data/people.csv/text", {"text": text})
        assert answer.status_code == 422
        assert reason in answer.text
        assert text.split("\n", maxsplit=1)[0] in answer.text.replace("&#34;", '"')
    assert (folder / "people.toml").read_text() == before


def test_a_schema_whose_bounds_come_from_data_keeps_its_confession(visitor, folder):
    replace(SCHEMA, bounds_from_data=True).write(folder / "people.toml")
    assert "taken from the data" in visitor.get("/data/people.csv").text
    form = {"lines": "1", "0.name": "smoker", "0.kind": "flag"}
    assert visitor.send("/data/people.csv/form", form).is_redirect
    assert Schema.read(folder / "people.toml").bounds_from_data


def test_a_wide_table_is_edited_as_text(visitor, folder):
    pq.write_table(pa.table({f"c{i}": [0.5] for i in range(MOST_LINES + 1)}), folder / "wide.parquet")
    text = visitor.get("/data/wide.parquet").text
    assert "too wide for a form" in text
    assert 'name="0.kind"' not in text


@pytest.mark.parametrize(
    ("header", "warned"),
    [
        ("age,income", False),
        ("q1,q2_2020,income.2020,b-3", False),
        ("34,Bern", True),
        ("Anna,51.5", True),
        ("Anna,1e5", True),
        ("Anna,1999-12-31", True),
        ("Anna,31.12.1999", True),
        ("Anna,anna@example.org", True),
        ("Anna,True", True),
        ("Anna,Anna", True),
    ],
)
def test_a_header_that_looks_like_a_record_is_warned_of(visitor, folder, header, warned):
    (folder / "people.csv").write_text(f"{header}\n1,2\n" if header.count(",") == 1 else f"{header}\n1,2,3,4\n")
    page = visitor.get("/data/people.csv")
    assert page.status_code == 200
    assert ("look like values" in page.text) == warned


def test_a_very_wide_table_is_drafted_in_part_and_its_page_stays_small(visitor, folder):
    pq.write_table(pa.table({f"c{i}": [0.5] for i in range(3000)}), folder / "wide.parquet")
    page = visitor.get("/data/wide.parquet")
    assert "the first 2,000 of its 3,000 columns" in page.text
    assert 'name = "c{0..1999}"' in unescape(page.text)
    rows = visitor.send("/data/wide.parquet/rows", {"understood": "yes"}).text
    assert ('<th scope="col">c199</th>' in rows, '<th scope="col">c200</th>' in rows) == (True, False)


def test_a_schema_wider_than_its_table_is_edited_as_text(visitor, folder):
    Schema.reals(MOST_LINES + 1, 0, 1).write(folder / "people.toml")
    assert 'name="0.kind"' not in visitor.get("/data/people.csv").text


# ---- Plan -----------------------------------------------------------------------------------------------------------

ASKED = {
    "data": "people.csv",
    "unit": "attribute",
    "epsilon": "2",
    "delta": "0",
    "purpose": "distances",
    "rows": "1000",
}


def test_the_answer_is_the_planners(visitor):
    made = plan_screen.answer(ASKED, SCHEMA).plan
    full = planner.plan(schema=SCHEMA, guarantee=Guarantee(epsilon=2.0, unit="attribute"), rows=1000)
    assert {(o.name, o.family, o.noise) for o in made.options} == {(o.name, o.family, o.noise) for o in full.options}
    certain = ("", "identity", "sparse")  # of the others a plan draws one, with a noise of its own
    for option in (o for o in made.options if o.family in certain):
        twin = next(
            o for o in full.options if (o.name, o.family, o.noise) == (option.name, option.family, option.noise)
        )
        assert option.standard_error(5.0) == pytest.approx(twin.standard_error(5.0), rel=0.01)
    answer = visitor.ask(ASKED).json()
    assert answer["words"] == made.verdict
    assert answer["largest"] == SCHEMA.encoding.dim
    assert answer["html"].count('class="plot"') == 2
    assert made.best.name in answer["html"]


def test_a_synthetic_table_is_planned_as_well(visitor):
    asked = ASKED | {"purpose": "table", "unit": "record", "delta": "1e-6"}
    made = plan_screen.table_answer(asked, SCHEMA)
    assert made.guarantee == Guarantee(epsilon=2.0, delta=1e-6, unit="record")
    answer = visitor.ask(asked).json()
    assert answer["words"] == made.verdict
    assert made.facts["noise"] in answer["html"]
    assert made.verdict in visitor.get("/plan", params=asked).text
    assert "“What is protected: a whole record”" in visitor.ask(asked | {"unit": "attribute"}).json()["words"]
    assert "described table" in visitor.ask(asked | {"rows": ""}).json()["words"]


def test_a_plan_reads_no_data_and_spends_nothing(visitor, monkeypatch):
    def read(*_, **__):
        raise AssertionError

    monkeypatch.setattr("sfumato.files.open_table._open_path", read)
    assert visitor.get("/data/people.csv").status_code == 500  # what opens the table is seen
    before = visitor.studio.ledger().journal.entries()
    assert visitor.ask(ASKED).status_code == 200
    assert visitor.get("/plan", params=ASKED).status_code == 200
    assert visitor.studio.ledger().journal.entries() == before


def test_more_epsilon_means_less_error_and_the_point_follows():
    few, many = (plan_screen.answer(ASKED | {"epsilon": e}, SCHEMA) for e in ("0.5", "8"))
    assert few.over_epsilon.chosen.x == 0.5
    assert many.over_epsilon.chosen.y < few.over_epsilon.chosen.y
    (one,), (other,) = few.over_epsilon.traces, many.over_epsilon.traces
    np.testing.assert_array_equal([one.xs, one.ys], [other.xs, other.ys])
    assert list(one.ys) == sorted(one.ys, reverse=True)


def test_a_chosen_k_is_exactly_that_k():
    wide = Schema.reals(100, 0, 1)
    for k in (1, 37, 77, 100):
        made = plan_screen.answer(ASKED | {"k": str(k)}, wide)
        sketches = [o for o in made.plan.options if o.family]
        assert {o.dimension for o in sketches} == {k}
        assert made.over_k.chosen.x == k
        assert all(isinstance(o.errors, SketchErrors) and o.errors.law.geometry.dim_out == k for o in sketches)
    best = plan_screen.answer(ASKED, wide).plan.best
    assert plan_screen.answer(ASKED | {"k": str(best.dimension)}, wide).plan.best.noise_scale == best.noise_scale


@pytest.mark.parametrize(
    "wrong",
    [
        *({"epsilon": ""}, {"epsilon": "-1"}, {"epsilon": "nan"}, {"epsilon": "a"}, {"delta": "2"}, {"rows": "1.5"}),
        *({"k": "0"}, {"k": "1000"}, {"unit": "edge"}, {"unit": "x"}, {"purpose": "x"}, {"purpose": "cuts"}),
        *({"data": "nowhere.csv"}, {"data": "", "columns": ""}, {"data": "", "columns": "0"}, {"distance": "-3"}),
        {"unit": "record", "change": "l1", "radius": ""},
        *({"epsilon": "1e-300"}, {"delta": "1e-320"}, {"distance": "1e-320"}, {"distance": "1e308"}),
        *({"rows": "9" * 300}, {"k": "9" * 300}, {"epsilon": "9" * 300}, {"rows": "1" * 5000}),
        {"unit": "record", "change": "l1", "radius": "1e-320"},
    ],
)
def test_a_control_that_makes_no_sense_is_answered_in_words(visitor, wrong):
    answer = visitor.ask(ASKED | wrong)
    assert answer.status_code == 200
    assert answer.json()["words"]
    assert 'class="note"' in answer.json()["html"]
    assert visitor.get("/plan", params=ASKED | wrong).status_code == 200


@pytest.mark.parametrize(
    "size",
    [{"columns": "100001"}, {"columns": "2001", "purpose": "covariance"}, {"rows": "1000000001"}, {"k": "100001"}],
)
def test_a_plan_that_would_take_long_is_left_to_the_command(visitor, size):
    answer = visitor.ask(ASKED | {"data": "", "columns": "10"} | size).json()
    assert "too many to plan here: use `sfumato plan`" in answer["words"]


def test_a_wide_schema_is_too_many_to_plan_as_well():
    with pytest.raises(ParameterError, match="too many to plan here"):
        plan_screen.answer(ASKED | {"purpose": "learning"}, Schema.reals(2001, 0, 1))


def test_one_plan_is_computed_at_a_time_and_only_the_last_that_waits(visitor, monkeypatch):
    begun, go, answer, asked, told = threading.Event(), threading.Event(), plan_screen.answer, [], {}

    def slow(fields, schema):
        asked.append(fields["epsilon"])
        begun.set()
        go.wait(120)
        return answer(fields, schema)

    def ask(epsilon):
        told[epsilon] = visitor.ask(ASKED | {"epsilon": epsilon}).json()["words"]

    monkeypatch.setattr(plan_screen, "answer", slow)
    threads = {epsilon: threading.Thread(target=ask, args=(epsilon,)) for epsilon in ("1", "2", "3")}
    threads["1"].start()
    assert begun.wait(120)
    threads["2"].start()
    while visitor.studio.plans._last < 2:
        pass
    threads["3"].start()
    threads["2"].join(60)
    go.set()
    for thread in threads.values():
        thread.join(120)
    assert asked == ["1", "3"]
    assert "a later question" in told["2"]


def test_a_script_is_refused_in_its_own_language(visitor):
    headers = {"origin": ORIGIN, "x-csrf": visitor.studio.keys.csrf, "content-type": "application/json"}
    answer = visitor.request("POST", "/plan/answer", headers=headers, body=b"{")
    assert (answer.status_code, list(answer.json())) == (403, ["error"])


def test_plans_without_a_table_know_flags_and_graphs(visitor):
    flags = visitor.ask(ASKED | {"data": "", "columns": "64"}).json()
    assert flags["largest"] == 64
    graph = {"data": "", "purpose": "cuts", "unit": "edge", "rows": "200", "distance": "5000", "delta": "1e-6"}
    assert "edge noise" in visitor.ask(ASKED | graph).json()["html"]


@pytest.mark.parametrize("purpose", ["distances", "nearest", "clustering", "covariance", "learning"])
@pytest.mark.parametrize("terms", [{"unit": "attribute"}, {"unit": "record", "delta": "1e-6"}])
def test_every_option_of_a_plan_can_be_released_as_it_is(visitor, purpose, terms):
    fields = ASKED | terms | {"purpose": purpose}
    made = plan_screen.answer(fields, SCHEMA).plan
    for option in made.options:
        link = dict(re.findall(r"([a-z]+)=([^&]*)", plan_screen.query(fields, option).replace("+", " ")))
        order = release_screen.order_of(visitor.studio, SKETCH | {"dataset": ""} | link)
        assert order.recipe == option.mechanism
        assert order.guarantee == option.guarantee


# ---- Release --------------------------------------------------------------------------------------------------------


def test_a_release_is_priced_confirmed_made_and_charged(visitor, folder):
    priced = visitor.send("/release/price", SKETCH)
    assert "It fits" in priced.text
    assert "of 10" in priced.text
    assert visitor.studio.datasets()[0].releases == ()
    told = visitor.release(SKETCH)
    assert (told["state"], told["share"], told["rows"]) == ("done", 1.0, ROWS)
    assert told["spent"] == "The price is spent, and on record."
    made = load(folder / "people.release")
    assert made.array().shape == (ROWS, 2)
    (spent,) = visitor.studio.datasets()[0].releases
    assert (spent.state, spent.note) == ("committed", made.manifest["digest"])
    page = visitor.get("/release/made/people.release").text
    assert 'sandbox="allow-scripts' in page
    assert "/explore/people.release" in page
    report = visitor.get("/release/made/people.release/report")
    assert report.text.startswith("<!doctype html>")
    assert "attachment" in visitor.get("/release/made/people.release/report?save").headers["content-disposition"]
    assert "published" in visitor.get("/budget").text


def test_nothing_is_made_without_a_confirmation_or_twice(visitor):
    priced = visitor.send("/release/price", SKETCH).text
    (key,) = re.findall(r'name="order" value="([^"]+)"', priced)
    others = [{"order": order, "confirmed": "yes"} for order in ("x", "ä", "")]
    for fields in ({"order": key}, *others, {"confirmed": "yes"}):
        assert visitor.send("/release/start", fields).status_code == 400
    assert visitor.studio.datasets()[0].releases == ()
    assert visitor.send("/release/start", {"order": key, "confirmed": "yes"}).is_redirect
    visitor.studio.jobs.job.join()
    assert visitor.send("/release/start", {"order": key, "confirmed": "yes"}).status_code == 400
    assert len(visitor.studio.datasets()[0].releases) == 1


def test_a_hopeless_release_needs_a_second_confirmation(visitor):
    hopeless = SKETCH | {"purpose": "clustering", "spectrum": "flat", "epsilon": "0.01"}
    priced = visitor.send("/release/price", hopeless).text
    assert "Hopeless: of two records" in priced
    assert 'name="anyway"' in priced
    (key,) = re.findall(r'name="order" value="([^"]+)"', priced)
    assert visitor.send("/release/start", {"order": key, "confirmed": "yes"}).status_code == 400
    assert visitor.studio.datasets()[0].releases == ()
    (key,) = re.findall(r'name="order" value="([^"]+)"', visitor.send("/release/price", hopeless).text)
    assert visitor.send("/release/start", {"order": key, "confirmed": "yes", "anyway": "yes"}).is_redirect
    visitor.studio.jobs.job.join()
    assert len(visitor.studio.datasets()[0].releases) == 1
    assert 'name="anyway"' not in visitor.send("/release/price", SKETCH | {"name": "other.release"}).text


def test_a_plan_for_similar_records_says_what_it_assumed(visitor):
    asked = ASKED | {"purpose": "nearest", "spectrum": "flat"}
    answer = visitor.ask(asked).json()
    assert "spectrum flat, a guess" in answer["html"]
    assert ">Recall</th>" in answer["html"]
    assert "purpose=nearest" in answer["html"]
    assert "are shown (by chance" in answer["words"]


@pytest.mark.parametrize("purpose", ["nearest", "distances"])
def test_pages_take_a_guess_by_its_name_and_read_no_rows_for_one(visitor, folder, purpose, monkeypatch):
    monkeypatch.setattr("sfumato.planning.public_guess.open_table", None)  # what would read rows
    stated = {"purpose": purpose, "spectrum": str(folder / "people.csv")}
    assert "spectrum must be one of" in visitor.ask(ASKED | stated).text
    assert "records like the" not in visitor.get("/plan", params=ASKED | stated).text
    refused = visitor.send("/release/price", SKETCH | stated)
    assert refused.status_code == 422
    assert "spectrum must be one of" in refused.text


def test_a_plan_leads_to_levels_and_the_form_releases_them(visitor, folder):
    Schema((Real("age", 0, 120),)).write(folder / "people.toml")
    levels = SKETCH | {"mechanism": "responses", "levels": "4", "projection": "", "dimension": "", "name": "l.release"}
    priced = visitor.send("/release/price", levels | {"unit": "attribute", "epsilon": "4", "delta": "0"}).text
    (key,) = re.findall(r'name="order" value="([^"]+)"', priced)
    assert visitor.send("/release/start", {"order": key, "confirmed": "yes"}).is_redirect
    visitor.studio.jobs.job.join()
    assert load(folder / "l.release").levels == 4


def test_what_was_priced_is_what_is_made_whatever_the_files_say_by_then(visitor, folder):
    priced = visitor.send("/release/price", SKETCH).text
    (key,) = re.findall(r'name="order" value="([^"]+)"', priced)
    Schema((Real("age", 0, 1),)).write(folder / "people.toml")
    visitor.send("/release/start", {"order": key, "confirmed": "yes"})
    visitor.studio.jobs.job.join()
    assert Schema.from_dict(load(folder / "people.release").manifest["schema"]) == SCHEMA


def confirmed(visitor, fields, meanwhile=lambda: None):
    """Price and confirm, with something that happens in between."""
    (key,) = re.findall(r'name="order" value="([^"]+)"', visitor.send("/release/price", fields).text)
    meanwhile()
    return visitor.send("/release/start", {"order": key, "confirmed": "yes"})


def spend(visitor, folder, table):
    """Another process that charges the same dataset."""
    release_to(
        folder / "other.release",
        folder / table,
        schema=SCHEMA,
        mechanism=Sketch(dimension=2),
        guarantee=Guarantee(epsilon=1.0, unit="attribute"),
        ledger=visitor.studio.ledger().account("people"),
    )


def test_what_is_charged_is_what_was_confirmed_or_nothing(visitor, folder):
    confirmed(visitor, SKETCH, lambda: spend(visitor, folder, "people.csv"))
    visitor.studio.jobs.job.join()
    told = visitor.get("/release/state").json()
    assert told["state"] == "failed"
    assert "the budget has moved: look at the price again" in told["message"]
    assert told["spent"] == "Nothing was spent."
    assert len(visitor.studio.datasets()[0].releases) == 1
    assert visitor.release(SKETCH)["state"] == "done"


@pytest.mark.parametrize("swap", ["link", "file", "gone", "longer"])
def test_a_table_that_is_another_one_by_then_is_not_released(visitor, folder, tmp_path, swap):
    table, secret = folder / "people.csv", tmp_path / "people.csv"
    secret.write_bytes(table.read_bytes())

    def change():
        if swap == "longer":
            table.write_text(table.read_text() + "30,True,Bern\n")
            return
        table.unlink()
        if swap == "link":
            table.symlink_to(secret)
        elif swap == "file":
            secret.rename(table)

    refused = confirmed(visitor, SKETCH, change)
    assert refused.status_code == (404 if swap in ("link", "gone") else 400)
    assert visitor.studio.jobs.job is None
    assert visitor.studio.datasets()[0].releases == ()


def test_the_price_shows_what_is_published_as_it_was_prepared(visitor):
    def facts(fields):
        text = visitor.send("/release/price", SKETCH | fields).text
        return dict(re.findall(r"<dt>([^<]*)</dt><dd>([^<]*)</dd>", text))

    shown = facts({"projection": "identity"})
    assert (shown["Projection"], shown["Numbers each"], shown["Noise"]) == ("identity", "4", "laplace")
    labelled = {"mechanism": "synthetic", "unit": "record", "label": "smoker", "dataset": "", "dimension": ""}
    assert facts(labelled)["Label column"] == "smoker"
    sketched = {"mechanism": "covariance", "unit": "record", "noise": "sketch", "delta": "1e-6", "dataset": ""}
    assert "Rows of the sketch" in facts(sketched)
    graph = {"mechanism": "edge noise", "unit": "edge", "vertices": "1500", "dataset": ""}
    assert facts(graph)["Vertices"] == "1,500"


def test_the_price_shows_what_is_outside_the_promise(visitor, folder):
    assert "Outside the promise" not in visitor.send("/release/price", SKETCH).text
    replace(SCHEMA, bounds_from_data=True).write(folder / "people.toml")
    for paid in ({"dataset": ""}, {"exceptions": "yes"}):
        text = visitor.send("/release/price", SKETCH | paid).text
        assert "bounds were taken from the data" in text
        assert text.index("Outside the promise") < text.index('name="confirmed"')
    graph = {"mechanism": "graph sketch", "unit": "edge", "rows": "9", "delta": "1e-6", "dataset": ""}
    text = visitor.send("/release/price", SKETCH | graph).text
    assert "which vertices there are was taken from the data" in text
    assert "numerics are idealized" in text


def test_a_price_that_does_not_fit_cannot_be_confirmed(visitor):
    text = visitor.send("/release/price", SKETCH | {"epsilon": "11"}).text
    assert "does not fit" in text
    assert 'name="order"' not in text


def test_without_a_dataset_the_release_says_that_nothing_was_accounted(visitor, folder):
    assert "not accounted for" in visitor.send("/release/price", SKETCH | {"dataset": ""}).text
    told = visitor.release(SKETCH | {"dataset": ""})
    assert (told["state"], told["spent"]) == ("done", "No ledger is charged.")
    assert not load(folder / "people.release").manifest["accounted"]
    assert visitor.studio.datasets()[0].releases == ()


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"epsilon": "0"}, "epsilon must be positive"),
        ({"noise": "gaussian"}, "needs delta"),
        ({"dimension": "0"}, "dimension must be"),
        ({"dimension": "two"}, "must be a whole number"),
        ({"dimension": "3000000"}, "more than the 1,024 MiB of memory"),
        ({"dimension": "60000", "projection": "gaussian", "data": "wide.csv"}, "more than the 1,024 MiB of memory"),
        ({"dimension": "9" * 300}, "dimension must be at most"),
        ({"epsilon": "1e-300"}, "epsilon must be between"),
        ({"data": "nowhere.csv"}, "no such file"),
        ({"mechanism": "none"}, "mechanism must be one of"),
        ({"dataset": "others"}, "has no dataset"),
        ({"dataset": "whole"}, "convert"),
        ({"unit": "edge", "mechanism": "edge noise", "vertices": "3", "dataset": "people"}, "edge"),
    ],
)
def test_what_cannot_be_promised_is_refused_before_the_price(visitor, folder, wrong, reason):
    (folder / "wide.csv").write_text("c0\n0\n")
    Schema.reals(900, 0, 1).write(folder / "wide.toml")
    visitor.studio.ledger().add_dataset("whole", Guarantee(epsilon=9.0, unit="record"))
    answer = visitor.send("/release/price", SKETCH | wrong)
    assert answer.status_code == 422
    assert reason in answer.text
    assert 'value="people.release"' in answer.text


def test_the_release_form_is_filled_in_by_the_plan(visitor, folder):
    text = visitor.get("/release", params={"data": "people.csv", "epsilon": "0.7", "dimension": "3"}).text
    assert 'value="0.7"' in text
    assert 'value="people.release"' in text
    (folder / "people.release").mkdir()
    assert 'value="people-2.release"' in visitor.get("/release", params={"data": "people.csv"}).text


def test_a_form_that_nobody_touched_releases_a_table(visitor, folder):
    text = visitor.get("/release").text
    fields = untouched(text, "/release/price")
    assert fields["data"] == "people.csv"  # the only table that is described
    assert (fields["mechanism"], fields["unit"], fields["epsilon"], fields["delta"]) == ("table", "record", "1", "1e-6")
    assert '<option value="smoker">' in text  # of the list of labels
    told = visitor.release(fields | {"convert": "yes"})  # the cap of this ledger is of another unit
    assert told["state"] == "done"
    made = load(folder / "people.release")
    assert made.manifest["kind"] == "table"
    assert made.manifest["mechanism"]["noise"] == "gaussian"
    page = visitor.get("/explore/people.release").text
    assert f"Columns 1 to 3 of 3, in {ROWS} synthetic rows." in page  # answered before anything is asked
    assert page.count("<svg") >= 3
    assert f"20 of {ROWS} synthetic rows." in visitor.get("/explore/people.release?question=rows").text
    assert "Beside the real table" in page
    asked = visitor.get("/explore/people.release?question=probability&query=smoker and age > 40").text
    assert "By the model it holds for" in asked
    counted = visitor.get("/explore/people.release?question=count&query=smoker").text
    assert "95% confidence" in counted
    assert "verdict words" in visitor.get("/explore/people.release?question=column&column=city").text
    wrong = visitor.get("/explore/people.release?question=probability&query=nobody > 3").text
    assert "nobody" in wrong


def test_the_real_table_beside_a_synthetic_one_is_marked_and_stored_nowhere(visitor, folder):
    order = {"data": "people.csv", "mechanism": "table", "unit": "record", "epsilon": "20", "delta": "1e-6"}
    assert visitor.release(order | {"dataset": "", "name": "people.release", "label": "city"})["state"] == "done"
    before = sorted(path.name for path in folder.rglob("*"))
    answer = visitor.get("/explore/people.release/beside?data=people.csv")
    assert answer.status_code == 200
    assert answer.text.count("Not private: real data.") == 3
    assert answer.text.index("NOT PRIVATE") < answer.text.index("<h1")
    assert answer.headers["cache-control"] == "no-store"
    assert CELL not in answer.text  # no cell, but counts of what the schema declares
    assert sorted(path.name for path in folder.rglob("*")) == before
    assert visitor.get("/explore/people.release/beside?data=nobody.csv").status_code == 404
    assert visitor.get("/explore/people.release/beside?data=../budget.db").status_code == 404


def write_filled(folder):
    """A table with rows and a column of every kind, and its schema."""
    count = 12
    table = {
        "key": [f"k{i}" for i in range(count)],
        "age": [float(i) if i else None for i in range(count)],
        "rooms": [i % 5 for i in range(count)],
        "grade": [("low", "high")[i % 2] for i in range(count)],
        "born": [date(1950 + i, 1, 1) for i in range(count)],
        "face": [[0.01 * i] * 384 for i in range(count)],
        "drugs": [["a", "b"][: i % 3] for i in range(count)],
    }
    pq.write_table(pa.table(table), folder / "filled.parquet")
    columns = (
        Id("key"),
        Real("age", 0, 120, missing="level"),
        Integer("rooms", 0, 9),
        Ordinal("grade", ("low", "high")),
        Date("born", date(1900, 1, 1), date(2030, 1, 1), step=30),
        Vector("face", 384, -1, 1, bound=3),
        Set("drugs", ("a", "b", "c"), most=2),
    )
    Schema(columns).write(folder / "filled.toml")
    return {"data": "filled.parquet", "unit": "record", "epsilon": "20", "dataset": "", "noise": "laplace"}


@pytest.mark.parametrize(
    ("mechanism", "more", "question"),
    [
        ("sketch", {"projection": "sparse", "dimension": "8"}, "nearest"),
        ("distances", {}, "distance"),
        ("synthetic", {"dimension": "3", "label": "grade"}, "sample"),
        ("synthetic", {"dimension": "3", "label": "rooms"}, "model"),
        ("covariance", {}, "variance"),
        ("covariance", {}, "components"),
    ],
)
def test_a_table_of_every_kind_is_released_explored_and_reported_without_walls(
    visitor, folder, mechanism, more, question
):
    order = write_filled(folder) | {"mechanism": mechanism, "name": "filled.release"} | more
    assert visitor.release(order)["state"] == "done"
    report = visitor.get("/release/made/filled.release/report")
    assert report.status_code == 200
    assert "384 numbers" in report.text
    assert "in this order: low, high" in report.text
    explored = visitor.get(f"/explore/filled.release?question={question}")
    assert explored.status_code == 200
    assert "verdict words" in explored.text
    for page in (report, explored):
        assert page.text.count("face[") < 60
        assert len(page.content) < 100_000


def test_samples_show_the_first_few_numbers_of_a_vector_and_texts_on_the_left(visitor, folder):
    order = write_filled(folder) | {"mechanism": "synthetic", "dimension": "3", "name": "filled.release"}
    assert visitor.release(order)["state"] == "done"
    page = visitor.get("/explore/filled.release?question=sample").text
    assert page.count("and 381 more") == 10
    assert re.search(r'<td class="number" data-label="age">', page)
    assert re.search(r'<td data-label="(grade|face)">', page)


def test_the_release_form_offers_the_columns_that_can_be_labels(visitor, folder):
    write_filled(folder)
    for mechanism, labels in (("synthetic", ["rooms", "grade"]), ("table", ["age", "rooms", "grade"])):
        page = visitor.get(f"/release?data=filled.parquet&mechanism={mechanism}").text
        offered = re.findall(
            r'<option value="([^"]*)">', page.partition('<select id="label"')[2].partition("</select>")[0]
        )
        assert offered == ["", *labels]
        followed = visitor.get("/release/table", params={"data": "filled.parquet", "mechanism": mechanism}).json()
        assert followed == {"labels": labels, "name": "filled.release", "payer": "people"}
    assert "<datalist" not in visitor.get("/release?data=other.csv").text


def test_a_graph_is_released_without_a_schema(visitor, folder):
    (folder / "edges.csv").write_text("src,dst\n0,1\n1,2\n2,3\n")
    fields = {"data": "edges.csv", "mechanism": "edge noise", "vertices": "4", "unit": "edge", "dataset": ""}
    told = visitor.release(SKETCH | fields)
    assert (told["state"], told["rows"]) == ("done", None)
    assert load(folder / "people.release").manifest["kind"] == "graph-noise"


def many_rows(folder, rows):
    pq.write_table(pa.table({"a": np.zeros(rows), "b": np.ones(rows)}), folder / "many.parquet")
    Schema((Real("a", 0, 1), Real("b", 0, 1))).write(folder / "many.toml")
    return SKETCH | {"data": "many.parquet", "name": "many.release"}


def test_a_release_that_is_stopped_says_what_stays_spent(visitor, folder, monkeypatch):
    fields, tick = many_rows(folder, 6 << 16), Job.tick

    def stopping(job, rows):
        if job._read >= 4 << 16:
            job.cancel()
        tick(job, rows)

    monkeypatch.setattr(Job, "tick", stopping)
    told = visitor.release(fields)
    assert told["state"] == "cancelled"
    assert "nothing was written" in told["message"]
    assert "stays spent, for noise may have been drawn" in told["message"]
    assert told["spent"] == "The price is spent."
    assert not (folder / "many.release").exists()
    assert [p for p in folder.iterdir() if "partial" in p.name] == []
    assert [s.state for s in visitor.studio.datasets()[0].releases] == ["drawn"]
    text = visitor.get("/budget").text
    assert "spent; not recorded as published" in text
    assert "sfumato ledger confirm" in text
    assert "sfumato ledger void" not in text


def test_the_stop_button_stops_and_one_release_is_made_at_a_time(visitor, folder, monkeypatch):
    fields, tick, begun, go = many_rows(folder, 6 << 16), Job.tick, threading.Event(), threading.Event()

    def slow(job, rows):
        begun.set()
        go.wait(120)
        tick(job, rows)

    monkeypatch.setattr(Job, "tick", slow)
    (key,) = re.findall(r'name="order" value="([^"]+)"', visitor.send("/release/price", fields).text)
    visitor.send("/release/start", {"order": key, "confirmed": "yes"})
    assert begun.wait(120)
    assert visitor.get("/release/state").json()["state"] == "running"
    assert "being made" in visitor.get("/release").text
    second = visitor.send("/release/price", fields | {"name": "second.release"}).text
    (other,) = re.findall(r'name="order" value="([^"]+)"', second)
    refused = visitor.send("/release/start", {"order": other, "confirmed": "yes"})
    assert refused.status_code == 400
    assert "is not done yet" in refused.text
    assert visitor.send("/release/cancel").is_redirect
    assert visitor.get("/release/state").json()["stopping"]
    assert "Stopping" in visitor.get("/release/job").text
    go.set()
    visitor.studio.jobs.job.join()
    told = visitor.get("/release/state").json()
    assert told["state"] == "cancelled"
    assert told["message"].endswith("nothing was drawn, and nothing spent")  # it was stopped at its first block
    assert told["spent"] == "Nothing was spent."
    assert len(visitor.studio.datasets()[0].releases) == 1


def test_another_studio_in_the_same_folder_has_to_wait_and_spends_nothing(visitor, folder):
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        told = visitor.release(SKETCH)
    finally:
        os.close(handle)
    assert told["state"] == "failed"
    assert "another studio" in told["message"]
    assert told["spent"] == "Nothing was spent."
    page = visitor.get("/release/job").text
    assert "Nothing was spent." in page
    assert "price was spent" not in page
    assert visitor.studio.datasets()[0].releases == ()
    assert visitor.release(SKETCH)["state"] == "done"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError(CELL), "this went wrong (ValueError)"),
        (MemoryError(CELL), "not enough memory: choose a lower dimension"),
        (OSError(28, "No space left on device", CELL), "the file system refused (No space left on device)"),
    ],
)
def test_a_release_that_breaks_says_why_and_nothing_of_the_cells(visitor, monkeypatch, error, said):
    def broken(*_, **__):
        raise error

    monkeypatch.setattr(jobs, "release_to", broken)
    told = visitor.release(SKETCH)
    assert told["state"] == "failed"
    assert CELL not in told["message"]
    assert told["message"] == f"{said}; the Budget screen says what was spent"
    assert "Budget" not in visitor.release(SKETCH | {"dataset": ""})["message"]


def full(*_):
    raise OSError(28, "No space left on device")


def test_a_release_that_ends_before_noise_is_drawn_gets_its_price_back(visitor, monkeypatch):
    monkeypatch.setattr("sfumato.fileformat.writer.new_folder", full)
    assert visitor.release(SKETCH)["spent"] == "Nothing was spent."
    assert [s.state for s in visitor.studio.datasets()[0].releases] == ["void"]


def test_where_its_price_cannot_be_given_back_it_says_how_to_get_it(visitor, monkeypatch):
    def locked(*_):
        raise LedgerError("the ledger cannot be used (database is locked)")

    monkeypatch.setattr("sfumato.fileformat.writer.new_folder", full)
    monkeypatch.setattr("sfumato.ledger.reservation.Reservation.void", locked)
    assert "reserved and nothing was drawn" in visitor.release(SKETCH)["spent"]
    assert [s.state for s in visitor.studio.datasets()[0].releases] == ["reserved"]
    assert "sfumato ledger void" in visitor.get("/budget").text
    monkeypatch.setattr("sfumato.ledger.reservation.Reservation.state", locked)
    assert "reserved and nothing was drawn" in visitor.get("/release/state").json()["spent"]


def test_a_release_that_the_ledger_refuses_says_why(visitor, folder):
    rows = (folder / "people.csv").read_bytes().splitlines(keepends=True)
    (folder / "others.csv").write_bytes(b"".join(rows[:-1]))  # a copy would be recognised
    confirmed(visitor, SKETCH, lambda: spend(visitor, folder, "others.csv"))
    visitor.studio.jobs.job.join()
    told = visitor.get("/release/state").json()
    assert (told["state"], told["spent"]) == ("failed", "Nothing was spent.")
    assert "another file" in told["message"]
    assert len(visitor.studio.datasets()[0].releases) == 1


def test_progress_counts_rows_only_where_their_number_is_public(visitor, folder):
    fields = many_rows(folder, 1000) | {"mechanism": "covariance", "dataset": "", "unit": "record"}
    shown, hidden = (visitor.release(fields | {"neighbours": n, "name": n}) for n in ("replace", "add-remove"))
    assert (shown["rows"], shown["total"]) == (1000, 1000)
    assert (hidden["rows"], hidden["total"], hidden["share"]) == (None, None, 1.0)


def test_no_share_tells_how_many_rows_there_are_where_that_is_private(visitor, folder):
    fields = many_rows(folder, 1000) | {"mechanism": "covariance", "dataset": "", "unit": "record"}
    for neighbours, share, turn in (("replace", 0.5, 2), ("add-remove", None, 1)):
        job = Job(release_screen.order_of(visitor.studio, fields | {"neighbours": neighbours}))
        job.tick(1500)
        assert (job.facts()["share"], job.facts()["turn"]) == (share, turn)


def test_the_studio_stops_its_release_when_it_ends(visitor, folder, monkeypatch):
    fields, tick, begun = many_rows(folder, 6 << 16), Job.tick, threading.Event()

    def waiting(job, rows):
        begun.set()
        job._stop.wait(120)
        tick(job, rows)

    monkeypatch.setattr(Job, "tick", waiting)
    (key,) = re.findall(r'name="order" value="([^"]+)"', visitor.send("/release/price", fields).text)
    visitor.send("/release/start", {"order": key, "confirmed": "yes"})
    assert begun.wait(120)
    visitor.studio.jobs.close()
    assert visitor.studio.jobs.job.state == "cancelled"


# ---- Budget ---------------------------------------------------------------------------------------------------------


def test_a_dataset_is_entered_and_its_ledger_made(folder):
    visitor = Visitor(make_studio(folder, epsilon=None))
    assert "Enter a dataset" in visitor.get("/budget").text
    fields = {"name": "survey", "unit": "record", "epsilon": "3", "delta": "1e-6"}
    assert visitor.send("/budget/dataset", fields).is_redirect
    (dataset,) = visitor.studio.datasets()
    assert dataset.caps[0].guarantee == Guarantee(epsilon=3.0, delta=1e-6, unit="record")
    text = visitor.get("/budget").text
    assert "survey" in text
    assert "of 3" in text
    for wrong in ({}, {"name": ""}, {"name": "b", "epsilon": "0"}, {"name": "c", "unit": "x"}):
        assert visitor.send("/budget/dataset", fields | wrong).status_code == 422


def test_a_studio_without_a_ledger_says_how_to_get_one(folder):
    visitor = Visitor(replace(make_studio(folder, epsilon=None), place=None))
    assert "--ledger" in visitor.get("/budget").text
    assert visitor.send("/budget/verify").status_code == 400
    refused = visitor.send("/budget/dataset", {"name": "a", "unit": "record", "epsilon": "1"})
    assert refused.status_code == 422
    assert visitor.send("/release/price", SKETCH).status_code == 422


@pytest.mark.parametrize("lost", ["gone", "emptied"])
def test_a_ledger_that_is_gone_is_an_error_and_no_new_one_is_made(visitor, folder, lost):
    place = folder.parent / "budget.db"
    if lost == "gone":
        place.unlink()
    else:
        place.write_bytes(b"")
    text = visitor.get("/budget").text
    assert "was here and is gone" in text
    assert "no ledger at" not in text
    entered = visitor.send("/budget/dataset", {"name": "a", "unit": "record", "epsilon": "1"})
    priced = visitor.send("/release/price", SKETCH)
    for refused in (entered, priced):
        assert refused.status_code in (400, 422)
        assert "was here and is gone" in refused.text
    assert place.exists() == (lost == "emptied")
    assert lost == "gone" or place.stat().st_size == 0


def test_a_ledger_that_appeared_later_is_missed_too(folder):
    visitor = Visitor(make_studio(folder, epsilon=None))
    assert "There is no ledger at" in visitor.get("/budget").text
    visitor.send("/budget/dataset", {"name": "a", "unit": "record", "epsilon": "1"})
    (folder.parent / "budget.db").unlink()
    assert "was here and is gone" in visitor.get("/budget").text


def test_the_command_says_that_a_ledger_will_be_made(folder, capsys, monkeypatch):
    monkeypatch.setattr(Server, "run", lambda server: server.socket.close())
    place = folder.parent / "budget.db"
    for there in (False, True):
        assert main(["studio", "--data", str(folder), "--ledger", str(place)]) == 0
        assert ("There is no ledger at" in capsys.readouterr().out) != there
        Ledger.create(place)


def test_a_page_does_not_wait_long_for_a_ledger_that_another_program_locks(visitor, monkeypatch):
    monkeypatch.setattr(shared_state, "_WAIT", 0)
    other = sqlite3.connect(visitor.studio.place, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    assert "locked" in visitor.get("/budget").text
    assert "locked" in visitor.send("/release/price", SKETCH).text
    other.close()
    assert "of 10" in visitor.get("/budget").text
    assert release_screen.order_of(visitor.studio, SKETCH).account.journal._database.wait == 60


def test_a_refusal_of_the_ledger_is_shown_with_what_to_do(visitor):
    visitor.release(SKETCH)
    visitor.studio.ledger().add_dataset("others", Guarantee(epsilon=9.0, unit="attribute"))
    answer = visitor.send("/release/price", SKETCH | {"dataset": "others", "name": "second.release"})
    assert answer.status_code == 422
    assert "already accounted for as &#39;people&#39;" in answer.text
    assert "enter a dataset of its own" in answer.text
    assert "<details open><summary>Exceptions" in answer.text
    wrong = visitor.send("/release/price", SKETCH | {"epsilon": "0", "name": "second.release"})
    assert "enter a dataset of its own" not in wrong.text


def test_the_ledger_is_verified_and_tampering_is_seen(visitor):
    visitor.release(SKETCH)
    text = visitor.send("/budget/verify").text
    assert "unbroken" in text
    (last,) = re.findall(r"<code[^>]*>([0-9a-f]{64})</code>", text)
    assert "unbroken" in visitor.send("/budget/verify", {"expected": f" {last} "}).text
    assert "Do not trust" in visitor.send("/budget/verify", {"expected": "0" * 64}).text
    with sqlite3.connect(visitor.studio.place) as base:
        base.execute("DROP TRIGGER sfumato_no_UPDATE")
        base.execute("UPDATE sfumato_entries SET body = replace(body, '1.0', '0.5') WHERE kind = 'reserve'")
    base.close()
    answer = visitor.send("/budget/verify")
    assert "Do not trust this ledger" in answer.text
    assert "unbroken" not in answer.text


# ---- Explore and the server -----------------------------------------------------------------------------------------


def test_a_release_is_found_on_the_explore_screen(visitor):
    assert "no release yet" in visitor.get("/explore").text
    visitor.release(SKETCH)
    assert 'href="/explore/people.release"' in visitor.get("/explore").text
    assert visitor.get("/explore/people.release").status_code == 200


def test_every_screen_marks_its_place_and_has_a_way_past_the_navigation(visitor):
    for screen in ("data", "plan", "release", "budget", "explore"):
        text = visitor.get(f"/{screen}").text
        assert f'<a href="/{screen}" aria-current="page">' in text
        assert text.index('class="skip" href="#main"') < text.index("<nav")
        labelled = set(re.findall(r'<label for="([^"]+)"', text))
        controls = re.findall(
            r"<(?:input|select|textarea) (?![^>]*(?:type=\"hidden\"|aria-label=|checkbox))[^>]*", text
        )
        assert all(re.search(r'id="([^"]+)"', c)[1] in labelled for c in controls), screen
        tables = re.findall(r"<table.*?</table>", text, re.DOTALL)
        assert all('scope="col"' in table for table in tables)


def test_the_package_carries_what_the_pages_load(visitor):
    static = resources.files("sfumato.studio") / "static"
    templates = resources.files("sfumato.studio") / "templates"
    wanted = {n for t in templates.iterdir() for n in re.findall(r'"/static/([^"]+)"', t.read_text())}
    assert wanted
    assert {file.name for file in static.iterdir()} == wanted - {"pictures.css"}  # which reports carry too
    for name in wanted:
        assert visitor.get(f"/static/{name}").status_code == 200
    shared = visitor.get("/static/pictures.css")
    assert shared.headers["content-type"].startswith("text/css")
    assert shared.text == svg.style()


@pytest.mark.parametrize("package", ["starlette", "uvicorn", "jinja2"])
def test_without_its_packages_the_command_says_what_to_install(folder, capsys, monkeypatch, package):
    for name in [n for n in sys.modules if n.startswith(("sfumato.studio.", f"{package}."))]:
        if name.startswith("sfumato."):
            monkeypatch.setattr(name, sys.modules[name])  # the package names the same modules again afterwards
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["studio", "--data", str(folder)]) == 2
    assert "pip install 'sfumato[studio]'" in capsys.readouterr().err


def test_a_port_that_is_taken_is_refused_in_one_line(folder, capsys):
    server = Server.of(Folder.of(folder), None)
    with server.socket:
        with pytest.raises(ParameterError, match="cannot be had"):
            Server.of(Folder.of(folder), None, server.port)
        assert server.socket.getsockname()[0] == "127.0.0.1"
        assert main(["studio", "--data", str(folder), "--port", str(server.port)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["studio", "--data", str(folder / "nowhere")]) == 2
