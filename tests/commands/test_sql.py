"""The command for SQL: the answers of ``sfumato ask``, its options, and refusals in one line that cost nothing."""

import json
import re

import pyarrow as pa
import pyarrow.csv as pv
import pytest

from sfumato.cli import main
from sfumato.ledger.ledger import Ledger
from support.rows import forbid_reading

pytest.importorskip("sqlglot")

SCHEMA = """
[[columns]]
name = "age"
kind = "integer"
low = 0
high = 120

[[columns]]
name = "smoker"
kind = "flag"

[[columns]]
name = "city"
kind = "category"
values = ["Bern", "Basel"]
"""
SQL = ["sql", "people.csv", "--schema", "people.toml", "--ledger", "budget.db", "--epsilon", "1"]
SELECT = "select city, avg(age) as mean_age, count(*) from people where smoker group by city"


@pytest.fixture(autouse=True)
def people(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.toml").write_text(SCHEMA)
    table = {"age": [20, 30, 40] * 400, "smoker": [True, False] * 600, "city": ["Bern"] * 600 + ["Basel"] * 600}
    pv.write_csv(pa.table(table), "people.csv")
    assert main(["ledger", "init", "budget.db", "--dataset", "people", "--epsilon", "3"]) == 0
    capsys.readouterr()


def entries():
    return len(Ledger("budget.db").journal.entries())


def test_a_select_is_answered_with_a_table_and_charged(capsys):
    assert main([*SQL, SELECT]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == SELECT
    assert re.fullmatch(r"  Bern +mean_age +[23]\d\.\d+ +\d\.\d+ +[\d.]+ +[\d.]+", lines[2])
    assert re.fullmatch(r"  Basel +count\(\*\) +[23]\d\d(\.\d+)? +[\d.]+ +[\d.]+ +[\d.]+", lines[6])
    assert lines[-1] == "people: spent 1 of epsilon 3, delta 0 for one record changed. Left: epsilon 2 (pure)."


def test_json_files_and_prices_are_those_of_ask(capsys, monkeypatch):
    assert main([*SQL, SELECT, "--json", "--out", "answers.csv"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["answers"][0]["query"] == SELECT
    assert [row["aggregate"] for row in facts["answers"][0]["rows"]] == ["mean_age"] * 3 + ["count(*)"] * 3
    assert Ledger("budget.db").check_release(facts["record"]).guarantee.epsilon == 1
    assert pv.read_csv("answers.csv").num_rows == 6
    before = entries()
    forbid_reading(monkeypatch)
    assert main([*SQL, SELECT, "select count(*) from people", "--price"]) == 0
    assert capsys.readouterr().out.startswith("2 questions at epsilon 1 each. No data was read.")
    assert entries() == before


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("select * from people join cities using (city)", "SQL: sfumato cannot answer JOIN: a question is about one"),
        ("select avg(agee) from people", "SQL: the schema has no column 'agee'; near it: 'age'"),
        ("drop table people", "SQL: sfumato cannot answer DROP"),
        ("mean(age)", "SQL: sfumato cannot answer MEAN: write SELECT"),
        ("select count(*) from people where city = '\x1b[31m'", r"has no value '\\x1b\[31m'"),
    ],
)
def test_what_cannot_be_translated_is_refused_in_one_line_and_costs_nothing(capsys, text, says):
    assert main([*SQL, text]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    assert re.search(says, told.err)
    assert entries() == 1


def test_help_shows_an_example(capsys):
    with pytest.raises(SystemExit):
        main(["sql", "--help"])
    told = capsys.readouterr().out
    assert "select city, avg(age) as mean_age, count(*) from people where smoker group by city" in told
    assert "percentile_cont" in told
