"""Answers in the analyst's hands: numbers, tables, text, and frames of other libraries."""

import datetime as dt
import math
import re

import numpy as np
import pyarrow as pa
import pytest

from sfumato.errors import MissingDependency
from sfumato.ledger.ledger import Ledger
from sfumato.pipeline import answers
from sfumato.pipeline.answers import summary, written
from sfumato.queries.questions import parse_question
from sfumato.randomness.secret import Secret
from sfumato.tables.columns import Category, Date, Flag, Integer, Ordinal, Real
from sfumato.tables.schema import Schema
from support.asking import opened
from support.spending import pure
from support.twins import always, secret_of

SCHEMA = Schema(
    (
        Integer("age", 0, 120),
        Flag("smoker"),
        Category("city", ("Bern", "Basel", "Zug")),
        Ordinal("stage", (1, 2)),
        Category("mixed", ("one", 2)),
        Flag("aggregate"),
        Flag("at"),
        Flag("value"),
        Category("odd", ("\x1b[31m<b>", "long" * 30)),
        Real("income", 0, 1000),
    )
)
TABLE = pa.table(
    {
        "age": [20, 30, 40, 50],
        "smoker": [True, True, False, False],
        "city": ["Bern", "Bern", "Basel", None],
        "stage": [1, 1, 2, 2],
        "mixed": ["one", "2", "2", "2"],
        "aggregate": [True] * 4,
        "at": [False] * 4,
        "value": [False] * 4,
        "odd": ["\x1b[31m<b>"] * 4,
        "income": [100.0, 200.0, 300.5, 400.0],
    }
)
NUMBERS = ["value", "standard_error", "low", "high"]


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """Ask without noise."""
    monkeypatch.setattr(Secret, "fresh", lambda: secret_of(always(0)))
    ledger = Ledger.create(tmp_path / "large.db")
    ledger.add_dataset("people", pure(1000.0))
    session = opened(ledger, TABLE, schema=SCHEMA)
    return lambda text, epsilon=0.1, **terms: session.ask(text, epsilon=epsilon, **terms)


def test_one_number_is_a_float_with_an_interval(ask):
    for text, value in (("smoker", 2), ("count where smoker", 2), ("sum(age) where smoker", 50), ("mean(age)", 35)):
        answer = ask(text)
        low, high = answer.interval(0.9)
        assert answer.single
        assert answer.value == value
        assert low <= value <= high
        assert isinstance(answer.standard_error, float)
        assert answer.table().num_rows == 1


def test_an_answer_of_several_numbers_is_a_table_aggregate_by_aggregate(ask):
    answer = ask("mean(age), count by city")
    assert not answer.single
    table = answer.table(0.9)
    assert table.column_names == ["city", "aggregate", *NUMBERS]
    assert table["city"].to_pylist() == ["Bern", "Basel", "Zug", None] * 2
    assert table["aggregate"].to_pylist() == ["mean(age)"] * 4 + ["count"] * 4
    assert table["value"].to_pylist()[:2] == [25, 40]
    assert table["value"].to_pylist()[4:] == [2, 1, 0, 1]
    assert answer.value[:2].tolist() == [25, 40]
    assert [table["low"].to_pylist(), table["high"].to_pylist()] == [end.tolist() for end in answer.interval(0.9)]


def test_a_group_without_evidence_has_no_estimate_and_the_whole_range(ask):
    answer = ask("mean(age) by city")
    zug = answer.table().to_pylist()[2]
    assert math.isnan(answer.value[2])
    assert (zug["value"], zug["standard_error"], zug["low"], zug["high"]) == (None, None, 0, 120)
    lines = written(answer)
    assert lines[3].split() == ["Zug", "mean(age)", "-", "-", "0", "120"]
    assert lines[-1] == answers.WHY_NO_ESTIMATE
    assert answers.WHY_NO_ESTIMATE not in written(ask("count by city"))
    alone = ask("mean(age) where age > 100")
    assert summary(alone) == "no estimate (95%: 0 to 120)"


@pytest.mark.parametrize("text", ["count by city", "count, mean(age) by city", "histogram(city)", "sum(age) by city"])
def test_counts_and_sums_are_unbiased_beside_whatever_else_is_asked(ledger, monkeypatch, text):
    monkeypatch.setattr(Secret, "fresh", lambda: secret_of(always(-1000)))
    answer = opened(ledger, TABLE, schema=SCHEMA).ask(text, epsilon=1.0)
    assert np.all(np.asarray(answer.value)[:4] < 0)
    assert np.all(answer.interval()[0] >= 0)


def test_means_and_variances_are_cut_to_what_the_schema_allows(ledger, monkeypatch):
    for noise in (-1000, 1000):
        monkeypatch.setattr(Secret, "fresh", lambda noise=noise: secret_of(always(noise)))
        answer = opened(ledger, TABLE, schema=SCHEMA).ask("mean(age), variance(age)", epsilon=0.5)
        assert 0 <= answer.value[0] <= 120
        assert 0 <= answer.value[1] <= 3600


def test_levels_of_histograms_stand_at_and_groups_keep_their_types(ask):
    table = ask("histogram(age, 2), count by smoker, stage").table()
    assert table.column_names == ["smoker", "stage", "aggregate", "at", *NUMBERS]
    assert table.schema.field("smoker").type == pa.bool_()
    assert table.schema.field("stage").type == pa.int64()
    assert table["at"].to_pylist()[:2] == ["0 to 59", "60 to 120"]
    assert table["at"].to_pylist()[-1] is None
    assert ask("count by mixed").table()["mixed"].to_pylist() == ["one", "2", None]


def test_columns_that_are_called_as_those_of_the_table_keep_their_names(ask):
    answer = ask("histogram(smoker) by aggregate, at, value")
    wanted = ["aggregate", "at", "value", "aggregate_", "at_", "value_", "standard_error", "low", "high"]
    assert answer.table().column_names == wanted
    assert set(answer.table()["aggregate_"].to_pylist()) == {"histogram(smoker)"}
    assert written(answer)[0].split()[:6] == ["aggregate", "at", "value", "aggregate_", "at_", "value"]


def test_quantiles_of_dates_and_ordinals_are_shown_as_their_values(tmp_path, monkeypatch):
    monkeypatch.setattr(Secret, "fresh", lambda: secret_of(always(0)))
    ledger = Ledger.create(tmp_path / "dates.db")
    ledger.add_dataset("people", pure(1000.0))
    days = [dt.date(2020, 1, 1 + place % 9) for place in range(900)]
    table = pa.table({"joined": days, "stage": ["a", "b", "c"] * 300, "age": [5] * 900})
    schema = Schema(
        (Date("joined", days[0], dt.date(2020, 12, 31)), Ordinal("stage", ("a", "b", "c")), Integer("age", 0, 9))
    )
    session = opened(ledger, table, schema=schema)
    line = summary(session.ask("median(joined)", epsilon=100.0))
    assert re.fullmatch(r"2020-01-05 \+- [\d.]+ steps \(95%: 2020-01-0[345] to 2020-01-0[567]\)", line)
    answer = session.ask("quantile(stage, 0.2 0.9), count by age", epsilon=100.0)
    found = answer.table().to_pylist()
    assert (found[10]["value"], found[10]["value_text"], found[11]["value_text"]) == (0, "a", "c")
    assert (found[-5]["at"], found[-5]["value"], found[-5]["value_text"]) == (None, 900, None)
    lines = written(answer)
    assert lines[11].split()[:5] == ["5", "quantile(stage,", "0.2", "0.9)", "0.2"]
    assert lines[11].split()[5] == "a"
    assert lines[-5].split()[:3] == ["5", "count", "900"]  # and no order of a quantile
    assert "value_text" not in session.ask("median(age)", epsilon=1.0).table().column_names


def test_numbers_are_shown_with_two_digits_of_their_error(ask):
    assert summary(ask("mean(income)", 1.0)).startswith("250 +- 354 (95%: 0 to 999)")
    lines = written(ask("mean(income), count, sum(age)", 100.0))
    assert [line.split()[1:3] for line in lines[1:]] == [["250.1", "7.07"], ["4", "0"], ["140", "3.37"]]
    assert written(ask("sum(income) by smoker", 0.01))[2].split()[2:4] == ["300", "282,843"]
    assert summary(ask("count where smoker", 0.5), 0.9) == "2 +- 2.80 (90%: 0 to 4)"


def test_texts_of_the_schema_cannot_move_the_cursor_or_add_a_tag(ask):
    answer = ask("count by odd")
    text = str(answer)
    assert "\x1b" not in text
    assert "\\u001b[31m<b>" in text
    assert "long" * 9 + "l...  count" in text
    assert max(map(len, text.splitlines())) < 120
    page = answer._repr_html_()
    assert "<b>" not in page
    assert "&lt;b&gt;" in page
    assert page.startswith("<table><caption>count by odd</caption><tr><th>odd</th><th>aggregate</th><th>value</th>")
    assert '<td style="text-align: right">4</td>' in page


def test_long_answers_are_cut_where_they_are_printed_and_nowhere_else(ask):
    answer = ask("count by age")
    assert answer.table().num_rows == 121
    assert len(written(answer)) == 122
    assert str(answer).splitlines()[-1] == "... 21 more rows: table() has all of them"
    assert len(str(answer).splitlines()) == 102
    assert "21 more rows" in answer._repr_html_()
    assert repr(answer).startswith("<answer to 'count by age', epsilon=0.1>\nage  aggregate  value")


def test_answers_go_to_pandas_and_polars(ask, monkeypatch):
    answer = ask("mean(age), count by city")
    frame = answer.to_pandas()
    assert frame.columns.tolist() == answer.table().column_names
    assert frame["value"].tolist()[4:] == [2, 1, 0, 1]
    assert math.isnan(frame["value"][2])
    pytest.importorskip("polars")
    assert answer.to_polars(0.5)["value"].to_list() == answer.table(0.5)["value"].to_pylist()

    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(answers.importlib, "import_module", missing)
    with pytest.raises(MissingDependency, match="to_polars needs polars: pip install polars"):
        answer.to_polars()


def test_the_label_of_an_aggregate_is_its_text_without_the_rest():
    question = parse_question("mean( age ),count  where smoker", SCHEMA)
    assert [aggregate.text for aggregate in question.aggregates] == ["mean( age )", "count"]
