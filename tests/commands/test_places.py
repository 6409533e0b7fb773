"""Files and folders that a command is to write: one that is there already is said so, before anything is charged."""

from pathlib import Path

import pytest

from sfumato.cli import main
from sfumato.ledger.ledger import Ledger
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.units import Cap
from support.spending import states

SCHEMA = """
[[columns]]
name = "age"
kind = "real"
low = 0.0
high = 120.0

[[columns]]
name = "smoker"
kind = "flag"
"""
TABLE = "people.csv --schema people.toml --epsilon 1 --delta 1e-7"
WRITING = {
    "release": f"release table {TABLE} --out taken --ledger budget.db",
    "ask": "ask people.csv --schema people.toml --epsilon 1 --ledger budget.db --out taken.csv age>40",
    "sql": "sql people.csv --schema people.toml --epsilon 1 --ledger budget.db --out taken.csv",
    "histogram": "ask people.csv --schema people.toml --epsilon 1 --ledger budget.db --method mwem --histogram "
    "taken.parquet smoker",
    "schema": "schema people.csv --private --epsilon 1 --delta 1e-7 --ledger budget.db --out taken.toml",
    "compare": "compare people.csv r --epsilon 1 --ledger budget.db --out taken.html",
    "report": "report r --out taken.html",
    "draft": "schema people.csv --out taken.toml",
}


@pytest.fixture
def people(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text("age,smoker\n" + "\n".join(f"{i},{i % 2}" for i in range(60)))
    (tmp_path / "people.toml").write_text(SCHEMA)
    Ledger.create("budget.db").add_dataset("people", Cap(Guarantee(epsilon=9.0, delta=1e-5)))
    return tmp_path


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize("name", WRITING)
def test_what_is_there_already_is_said_before_anything_is_charged(name, capsys):
    words = WRITING[name].split() + (["select count(*) from people"] if name == "sql" else [])
    taken = next(word for word in words if word.startswith("taken"))
    Path(taken).write_text("mine")
    assert main(words) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"sfumato: {taken} already exists: ")
    assert printed.err.count("\n") == 1
    assert states(Ledger("budget.db")) == []
    assert Path(taken).read_text() == "mine"


@pytest.mark.usefixtures("people")
def test_a_name_that_is_taken_is_said_before_a_plan_is_printed(capsys):
    Path("taken").mkdir()
    line = "release sketch people.csv --schema people.toml --epsilon 1 --out taken"
    assert main(line.split()) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("schema nowhere.csv", "nowhere.csv"),
        ("schema odd.csv --bounds-from-data", "odd.csv"),
        ("schema empty.csv", "empty.csv"),
        ("schema people.csv --private --epsilon 1", "--delta"),
        ("schema people.csv --private --epsilon 99 --delta 1e-7 --ledger budget.db", "cap"),
        ("schema people.csv --private --epsilon 1 --delta 1e-7 --kind nobody=real", "nobody"),
        ("schema people.csv --as sheet --out draft.toml", "draft.toml"),
    ],
)
@pytest.mark.usefixtures("people")
def test_a_schema_that_fails_prints_nothing_to_the_file_that_it_was_meant_for(line, says, capsys):
    Path("odd.csv").write_text("age\n1,2\n3\n4,5,6\n")
    Path("empty.csv").write_text("")
    assert main(line.split()) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert says in printed.err
