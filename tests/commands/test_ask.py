"""``sfumato ask``: answers and prices in lines, refusals in one, and the budget they leave."""

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq
import pytest

from sfumato.cli import main
from sfumato.ledger.account import Account
from sfumato.ledger.ledger import Ledger
from sfumato.pipeline.answers import WHY_NO_ESTIMATE
from sfumato.randomness.secret import Secret
from support.hostile import HOSTILE
from support.rows import forbid_reading, reading
from support.twins import always, secret_of

SCHEMA = """
[[columns]]
name = "age"
kind = "real"
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
ASK = ["ask", "people.csv", "--schema", "people.toml", "--ledger", "budget.db"]
PAGE = (Path(__file__).parents[2] / "docs" / "queries.md").read_text()
NUMBERS = ("value", "standard_error", "low", "high")
ROWS = 1200
AGES = np.random.default_rng(1).integers(18, 95, ROWS)


@pytest.fixture(autouse=True)
def people(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.toml").write_text(SCHEMA)
    (tmp_path / "ages.txt").write_text("# ages\n\nage < 30\n  30 <= age < 60\r\nage >= 60\n")
    pv.write_csv(
        pa.table({"age": AGES, "smoker": AGES % 3 == 0, "city": ["Bern", "Basel"] * (ROWS // 2)}), "people.csv"
    )
    assert main(["ledger", "init", "budget.db", "--dataset", "people", "--epsilon", "3"]) == 0
    capsys.readouterr()


def asked(capsys, *arguments):
    assert main([*ASK, *arguments]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    return told.out


def refused(capsys, *arguments, start=ASK):
    try:
        code = main([*start, *arguments])
    except SystemExit as ended:  # of the parser
        code = ended.code
    told = capsys.readouterr()
    assert (code, told.out) == (2, "")
    assert told.err.count("\n") == 1
    assert told.err.startswith("sfumato: ")
    return told.err


def entries():
    return len(Ledger("budget.db").journal.entries())


def test_every_answer_is_a_line_with_its_interval_and_then_comes_what_remains(capsys, monkeypatch):
    monkeypatch.setattr(Secret, "fresh", lambda: secret_of(always(0)))
    lines = asked(capsys, "--epsilon", "0.1", "age  >= 60", "smoker and city = 'Bern'").splitlines()
    old = int((AGES >= 60).sum())
    assert lines[0] == f"age >= 60: {old} +- 14.1 (95%: {old - 30} to {old + 30})"
    assert re.fullmatch(r"smoker and city = 'Bern': \d+ \+- 14.1 \(95%: \d+ to \d+\)", lines[1])
    assert lines[2] == ("people: spent 0.2 of epsilon 3, delta 0 for one record changed. Left: epsilon 2.8 (pure).")
    assert len(lines) == 3


def test_several_numbers_are_a_table_below_their_question(capsys, monkeypatch):
    monkeypatch.setattr(Secret, "fresh", lambda: secret_of(always(0)))
    lines = asked(
        capsys, "--epsilon", "0.5", "mean(age),  count where smoker by city", "count", "--level", "0.9"
    ).splitlines()
    of_bern = AGES[::2][AGES[::2] % 3 == 0]
    assert lines[0] == "mean(age), count where smoker by city"
    assert lines[1].split() == ["city", "aggregate", "value", "+-", "low", "(90%)", "high", "(90%)"]
    assert lines[2].split()[:3] == ["Bern", "mean(age)", f"{of_bern.mean():.1f}"]
    assert lines[4].split() == ["missing", "mean(age)", "-", "-", "0.0", "120.0"]
    assert lines[5].split()[:3] == ["Bern", "count", str(len(of_bern))]
    assert lines[8].strip() == WHY_NO_ESTIMATE
    assert lines[9] == ""
    assert lines[10] == f"count: {ROWS:,} +- 2.80 (90%: {ROWS - 6:,} to {ROWS:,})"
    assert lines[11].startswith("people: spent 1 of epsilon 3")
    assert len(lines) == 12
    assert all(line.startswith("  ") for line in lines[1:9])


def test_json_has_the_rows_of_every_table(capsys):
    facts = json.loads(asked(capsys, "--epsilon", "0.5", "histogram(age, 2), mean(age) by city", "--json"))
    (answer,) = facts["answers"]
    assert set(answer) == {"query", "rows"}
    assert len(answer["rows"]) == 9
    first, last = answer["rows"][0], answer["rows"][-1]
    assert list(first) == ["city", "aggregate", "at", *NUMBERS]
    assert (first["city"], first["aggregate"], first["at"]) == ("Bern", "histogram(age, 2)", "0 to 60")
    assert (last["city"], last["aggregate"], last["at"]) == (None, "mean(age)", None)
    assert isinstance(first["value"], int)


def test_gaussian_noise_needs_a_delta_that_the_budget_has(capsys):
    told = refused(capsys, "--epsilon", "0.5", "count by city", "--delta", "1e-6")
    assert "--delta needs a budget with a delta: this one has delta 0" in told
    assert entries() == 1
    main(["ledger", "init", "delta.db", "--dataset", "people", "--epsilon", "3", "--delta", "1e-5"])
    capsys.readouterr()
    start = [*ASK[:-1], "delta.db"]
    assert main([*start, "--epsilon", "0.5", "--delta", "1e-6", "--json", "count by city"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["terms"]["method"], facts["terms"]["delta"]) == ("gaussian", 1e-6)
    assert facts["record"]["mechanism"]["statistics"][0][0]["noise"] == "gaussian"
    assert main([*start, "--epsilon", "0.5", "--delta", "1e-6", "--price", "count by city", "mean(age)"]) == 0
    assert capsys.readouterr().out.startswith("2 questions at epsilon 0.5, delta 1e-06 each. No data was read.")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_out_gets_the_answers_as_a_table(capsys, ending):
    asked(capsys, "--epsilon", "0.1", "count by city", "--out", f"one.{ending}")
    asked(capsys, "--epsilon", "0.1", "mean(age) by smoker", "smoker", "--out", f"two.{ending}")
    read = pv.read_csv if ending == "csv" else pq.read_table
    assert read(f"one.{ending}").column_names == ["city", "aggregate", *NUMBERS]
    both = read(f"two.{ending}")
    assert both.column_names == ["question", "smoker", "aggregate", *NUMBERS]
    assert both["question"].to_pylist() == ["mean(age) by smoker"] * 2 + ["smoker"]


def test_a_file_for_answers_that_cannot_be_is_refused_before_any_charge(capsys, tmp_path):
    assert "must name a new file that ends in .csv or .parquet" in refused(
        capsys, "--epsilon", "0.1", "smoker", "--out", "x.xlsx"
    )
    (tmp_path / "there.csv").touch()
    assert "already exists" in refused(capsys, "--epsilon", "0.1", "smoker", "--out", "there.csv")
    assert "a new file" in refused(capsys, "--epsilon", "0.1", "smoker", "--out", "no/x.csv")
    refused(capsys, "--epsilon", "4", "smoker", "--out", "x.csv")
    assert not Path("x.csv").exists()
    weights = ["--epsilon", "1", "--method", "weights", "smoker"]
    assert "--out needs --method laplace" in refused(capsys, *weights, "--out", "x.csv")
    assert entries() == 1


@pytest.mark.parametrize("method", ["weights", "median", "mwem"])
def test_methods_for_conditions_say_so_of_aggregates(capsys, method):
    told = refused(capsys, "--epsilon", "1", "--method", method, "smoker", "mean(age)")
    assert f"--method {method} answers conditions only" in told
    assert "ask 'mean(age)' without --method" in told
    assert entries() == 1


def test_first_tries_of_newcomers_cost_nothing(capsys):
    for text in ("mean(agee)", "avg age", "select avg(age) from people", "stddev(age)", "mean(city)", "count by age"):
        refused(capsys, "--epsilon", "0.1", text)
    assert entries() == 1
    assert asked(capsys, "--epsilon", "0.1", "COUNT(*)").startswith("COUNT(*): 1,")


def test_aggregates_are_priced_without_reading_a_row(capsys, monkeypatch):
    forbid_reading(monkeypatch)
    priced = asked(capsys, "--epsilon", "0.1", "mean(age), count by city", "--price", "--json")
    assert json.loads(priced)["quotes"][0]["after"] == pytest.approx(0.1)
    assert entries() == 1


def test_json_holds_the_answers_the_budget_and_a_record_that_the_ledger_knows(capsys):
    facts = json.loads(asked(capsys, "--epsilon", "0.5", "smoker", "--json", "--level", "0.9"))
    (answer,) = facts["answers"]
    assert answer["low"] <= answer["value"] <= answer["high"]
    assert facts["budget"] == {"dataset": "people", "spent": [0.5], "remaining": 2.5}
    assert answer["rows"] == [{"aggregate": "count"} | {key: answer[key] for key in NUMBERS}]
    promised = {"unit": "record", "neighbours": "replace", "group": 1}
    assert facts["terms"] == {"method": "laplace", "epsilon": 0.5, "delta": 0.0, "level": 0.9} | promised
    assert Ledger("budget.db").check_release(facts["record"]).guarantee.epsilon == 0.5


def test_a_batch_is_priced_first_without_reading_a_row(capsys, monkeypatch):
    forbid_reading(monkeypatch)
    priced = asked(capsys, "--epsilon", "0.1", "--batch", "ages.txt", "--price")
    assert priced.splitlines() == [
        "3 questions at epsilon 0.1 each. No data was read.",
        "Cap: epsilon 3, delta 0 for one record changed",
        "  Spent: epsilon 0. After these answers: epsilon 0.3 (sum of epsilons). Within the cap.",
    ]
    facts = json.loads(asked(capsys, "--epsilon", "2", "--batch", "ages.txt", "--price", "--json"))
    assert (facts["questions"], facts["quotes"][0]["after"], facts["quotes"][0]["fits"]) == (3, 6.0, False)
    assert entries() == 1
    with reading():
        asked(capsys, "--epsilon", "0.1", "--batch", "ages.txt")


def test_a_batch_is_answered_in_the_order_of_its_file_after_the_questions_of_the_line(capsys):
    lines = asked(capsys, "--epsilon", "0.1", "smoker", "--batch", "ages.txt").splitlines()
    assert [line.rpartition(": ")[0].rpartition(":")[0].split(": ")[0] for line in lines[:4]] == [
        "smoker",
        "age < 30",
        "30 <= age < 60",
        "age >= 60",
    ]
    assert "spent 0.4" in lines[4]


def test_a_batch_that_does_not_fit_is_refused_whole_in_one_line(capsys):
    told = refused(capsys, "--epsilon", "1.1", "--batch", "ages.txt")
    assert "would still fit is 3 for all 3 questions together, 1 for each" in told
    assert entries() == 1


def test_a_hostile_question_is_refused_in_one_line_and_costs_nothing(capsys):
    for text, _ in list(HOSTILE.values())[::4]:  # all of them are asked in test_session
        told = refused(capsys, "--epsilon", "0.1", text)
        assert len(told) < 400
    assert entries() == 1


def test_hostile_files_of_questions_are_refused_and_cost_nothing(capsys, tmp_path):
    files = {
        "bad line": (b"smoker\nage.__class__\n", "question 2 of 2: query, at character 4"),
        "nul": (b"smoker\0\n", r"U\+0000"),
        "empty": (b"# nothing\n\n", "the file has no questions"),
        "bytes": (b"\xff\xfe\x00", "not UTF-8 text"),
        "large": (b"#" * ((1 << 24) + 1), "at most 16 MiB"),
        "many": (b"smoker\n" * 10_001, "1 to 10,000 questions, got 10,001"),
    }
    for name, (raw, says) in files.items():
        (tmp_path / name).write_bytes(raw)
        assert re.search(says, refused(capsys, "--epsilon", "0.0001", "--batch", name))
    assert "there is no such file" in refused(capsys, "--epsilon", "0.1", "--batch", "nowhere")
    assert entries() == 1


def test_what_is_missing_or_out_of_range_is_said_in_one_line(capsys):
    assert "no question: write one" in refused(capsys, "--epsilon", "0.1")
    assert "--ledger" in refused(capsys, "--epsilon", "0.1", "smoker", start=ASK[:4])
    assert "epsilon must be positive" in refused(capsys, "--epsilon", "-1", "smoker")
    assert "epsilon must be" in refused(capsys, "--epsilon", "nan", "smoker")
    assert "level must be" in refused(capsys, "--epsilon", "1", "smoker", "--level", "1")
    assert "no such schema" in refused(capsys, "--epsilon", "1", "smoker", start=[*ASK[:3], "x.toml", *ASK[4:]])
    assert "has no dataset 'x'" in refused(capsys, "--epsilon", "1", "smoker", "--dataset", "x")
    assert entries() == 1


def test_what_a_question_promises_can_be_said_and_must_fit_the_cap(capsys):
    facts = json.loads(asked(capsys, "--epsilon", "1", "smoker", "--group", "3", "--json"))
    assert facts["record"]["mechanism"]["laplace_scale"] == pytest.approx(3)
    told = refused(capsys, "--epsilon", "1", "smoker", "--neighbours", "add-remove")
    assert "would count 2 times; say --convert" in told
    assert "spent 3 of" in asked(capsys, "--epsilon", "1", "smoker", "--neighbours", "add-remove", "--convert")


def test_help_shows_an_example_and_what_a_question_looks_like(capsys):
    with pytest.raises(SystemExit):
        main(["ask", "--help"])
    told = capsys.readouterr().out
    assert '--epsilon 0.1 "mean(age) by city"' in told
    assert "histogram(age, 10) by smoker" in told
    assert "`blood pressure` > 120" in told


def test_other_methods_are_charged_whole_and_answer_all_questions(capsys):
    questions = ["--epsilon", "1", "smoker", "--batch", "ages.txt"]
    for number, method in enumerate(("weights", "mwem"), 1):
        priced = asked(capsys, *questions, "--method", method, "--price").splitlines()
        assert priced[0] == "4 questions at epsilon 1 together. No data was read."
        assert f"After these answers: epsilon {number} (sum of epsilons). Within the cap." in priced[2]
        lines = asked(capsys, *questions, "--method", method, "--histogram", f"{method}.parquet").splitlines()
        assert len(lines) == 5
        assert f"spent {number} of epsilon 3" in lines[4]
        cells = pq.read_table(f"{method}.parquet")
        assert cells.column_names == ["age", "smoker", "rows"]
        assert cells.num_rows == 6
        assert sum(cells["rows"].to_pylist()) == pytest.approx(ROWS)
    facts = json.loads(asked(capsys, "--epsilon", "1", "smoker", "--method", "median", "--json"))
    assert facts["answers"][0]["low"] <= facts["answers"][0]["value"] <= facts["answers"][0]["high"]
    assert Ledger("budget.db").check_release(facts["record"]).mechanism == "Median"
    assert facts["budget"]["remaining"] == 0


def test_what_other_methods_cannot_do_is_refused_and_costs_nothing(capsys, tmp_path):
    weights = ["--epsilon", "1", "--method", "weights", "smoker"]
    assert "ends in .parquet" in refused(capsys, *weights, "--histogram", "x.csv")
    (tmp_path / "there.parquet").touch()
    assert "already exists" in refused(capsys, *weights, "--histogram", "there.parquet")
    assert "has no histogram" in refused(capsys, *weights[:3], "median", "smoker", "--histogram", "h.parquet")
    assert "need --method" in refused(capsys, "--epsilon", "1", "smoker", "--updates", "3")
    assert "updates must be" in refused(capsys, *weights, "--updates", "0")
    assert "largest epsilon that would still fit is 3" in refused(capsys, "--epsilon", "4", *weights[2:])
    assert "too many to list" in refused(capsys, *weights[:3], "median", *(f"age < {a}" for a in range(1, 100)))
    assert entries() == 1


@pytest.mark.parametrize("method", ["weights", "mwem"])
def test_answers_that_were_paid_for_are_told_even_if_the_histogram_cannot_be_written(capsys, monkeypatch, method):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", full)
    code = main([*ASK, "--epsilon", "1", "--method", method, "smoker", "--histogram", "h.parquet"])
    told = capsys.readouterr()
    assert code == 2
    assert told.out.startswith("smoker: ")
    assert "spent 1 of epsilon 3" in told.out
    assert told.err.count("\n") == 1
    assert "h.parquet: the histogram could not be written; the answers stand" in told.err
    assert not Path("h.parquet").exists()


def test_the_file_of_a_histogram_is_there_before_anything_is_charged_and_gone_after_a_refusal(capsys, monkeypatch):
    weights = ["--method", "weights", "smoker", "--histogram", "h.parquet"]
    reserve, seen = Account.reserve, []

    def noted(self, request):
        seen.append(Path("h.parquet").exists())
        return reserve(self, request)

    monkeypatch.setattr(Account, "reserve", noted)
    refused(capsys, "--epsilon", "4", *weights)
    assert seen == [True]
    assert not Path("h.parquet").exists()
    asked(capsys, "--epsilon", "1", *weights, "--price")
    assert not Path("h.parquet").exists()
    before, opening = entries(), Path.open

    def forbidden(self, *arguments, **options):
        if self.name == "h.parquet":
            raise PermissionError(13, "Permission denied")
        return opening(self, *arguments, **options)

    monkeypatch.setattr(Path, "open", forbidden)
    assert "the histogram cannot be written there (Permission denied)" in refused(capsys, "--epsilon", "1", *weights)
    assert entries() == before


def test_a_session_that_runs_out_tells_what_it_answered_and_what_it_did_not(capsys):
    questions = ["age < 1", "age < 2", "age < 3", "smoker"]  # far from uniform, so that the first is measured
    terms = ["--epsilon", "3", "--method", "weights", "--updates", "1", "--histogram", "h.parquet"]
    code = main([*ASK, *terms, *questions])
    told = capsys.readouterr()
    assert code == 2
    assert re.fullmatch(r"sfumato: 3 of 4 questions were not answered: all 1 updates are used up.*\n", told.err)
    assert told.out.splitlines()[-1].startswith("people: spent 3 of epsilon 3")
    assert pq.read_table("h.parquet").num_rows == 8
    assert [s.state for s in Ledger("budget.db").dataset("people").releases] == ["committed"]


def test_the_page_on_queries_knows_the_true_number():
    rng, n = np.random.default_rng(1), 10_000
    ages, smokers = rng.integers(18, 95, n), rng.random(n) < 0.25
    assert f"The true number is {((ages >= 40) & smokers).sum():,}." in PAGE
    means = [ages[(ages >= 40) & (smokers == smoker)].mean() for smoker in (False, True)]
    assert f"The true means are {means[0]:.1f} and {means[1]:.1f}." in PAGE
