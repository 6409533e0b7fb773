"""``sfumato schema --private``: a schema, its price, and what is refused."""

import json

import numpy as np
import pandas as pd
import pytest

from sfumato.cli import main
from sfumato.ledger.ledger import Ledger
from sfumato.privacy.guarantee import Guarantee
from sfumato.tables.schema import Schema

PROMISE = ["--private", "--epsilon", "2", "--delta", "1e-6"]


@pytest.fixture
def people(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    frame = {"age": rng.integers(17, 91, 2000), "city": rng.choice(["Rome", "Pisa"], 2000), "no": np.arange(2000)}
    pd.DataFrame(frame).to_csv("people.csv", index=False)
    return "people.csv"


def run(*arguments):
    return main(["schema", *arguments])


def test_a_schema_is_printed_as_toml_and_the_price_beside_it(people, capsys):
    assert run(people, *PROMISE, "--id", "no") == 0
    told = capsys.readouterr()
    schema = Schema.from_toml(told.out)
    assert [column.kind for column in schema.columns] == ["integer", "category", "id"]
    assert "threshold of at most" in told.err
    assert "No ledger is used" in told.err


def test_a_dry_run_reads_no_row_and_spends_nothing(people, capsys, monkeypatch):
    ledger = Ledger.create("budget.db")
    ledger.add_dataset("people", Guarantee(epsilon=3.0, delta=1e-5))
    monkeypatch.setattr("sfumato.mechanisms.schema_learning.counting.Reading.tallies", None)
    assert run(people, *PROMISE, "--dry-run", "--ledger", "budget.db", "--json") == 0
    lines = json.loads(capsys.readouterr().out)["plan"]
    assert "spent after it" in lines[-1]
    assert not ledger.dataset("people").releases


def test_a_schema_is_charged(people, capsys):
    ledger = Ledger.create("budget.db")
    ledger.add_dataset("people", Guarantee(epsilon=3.0, delta=1e-5))
    assert run(people, *PROMISE, "--ledger", "budget.db", "--leave-out", "no") == 0
    (spent,) = ledger.dataset("people").releases
    assert spent.state == "committed"
    assert Schema.from_toml(capsys.readouterr().out).learned.ledger["entry"] == spent.number


def test_kinds_are_told_by_name(people, capsys):
    assert run(people, *PROMISE, "--kind", "age=real", "--leave-out", "no", "--neighbours", "add-remove") == 0
    schema = Schema.from_toml(capsys.readouterr().out)
    assert schema.columns[0].kind == "real"
    assert schema.learned.neighbours == "add-remove"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--private"], "--private needs --epsilon and --delta"),
        (["--epsilon", "1"], "--epsilon needs --private"),
        (["--ledger", "budget.db"], "--ledger needs --private"),
        ([*PROMISE, "--bounds-from-data"], "not private"),
        ([*PROMISE, "--kind", "age"], "NAME=KIND"),
        ([*PROMISE, "--kind", "age=number"], "one of 'real'"),
    ],
)
def test_what_is_wrong_is_refused_in_one_line(people, capsys, arguments, words):
    assert run(people, *arguments) != 0
    told = capsys.readouterr().err
    assert words in told
    assert told.count("\n") == 1
