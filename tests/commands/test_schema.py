"""Commands with schemas that have patterns: names come from the table that the command reads."""

import json

import pytest

from sfumato.cli import main

TABLE = "WAP1,WAP2,inside,extra\n-3,-4,true,x\n-50,-60,false,y\n" + "-1,-2,true,z\n" * 8
SCHEMA = """scale = "bounds"
columns = [
  {name = "WAP*", kind = "real", low = -110, high = 0},
  {name = "inside", kind = "flag"},
]
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wifi.csv").write_text(TABLE)
    (tmp_path / "wifi.toml").write_text(SCHEMA)


def run(line):
    return main(line.split())


def identity(capsys):
    """The line of a plan that no random projection moves."""
    (line,) = [line for line in capsys.readouterr().out.splitlines() if " identity " in line]
    return line


def test_a_release_by_command_has_the_columns_in_its_manifest(tmp_path):
    common = "release sketch wifi.csv --schema wifi.toml --epsilon 1 --unit attribute"
    for number, more in enumerate(("--dimension 2", "--anyway", "--choose-dimension 0.3 --noise laplace")):
        assert run(f"{common} {more} --out r{number}") == 0
        manifest = json.loads((tmp_path / f"r{number}" / "manifest.json").read_text())
        assert [c["name"] for c in manifest["schema"]["columns"]] == ["WAP1", "WAP2", "inside"]


def test_a_plan_needs_a_table_for_its_patterns_and_no_row_of_it(tmp_path, capsys):
    command = "plan --schema wifi.toml --epsilon 1 --unit attribute --rows 100"
    assert run(command) == 2
    assert "'WAP*', which needs the names of a table's columns: give the table" in capsys.readouterr().err
    (tmp_path / "names.csv").write_text(TABLE.splitlines()[0] + "\n")
    assert run(f"{command} --data names.csv") == 0
    seen = identity(capsys)
    assert run(f"{command} --data wifi.csv") == 0
    assert identity(capsys) == seen
    (tmp_path / "wifi.toml").write_text(SCHEMA.replace("WAP*", "WAP{1..2}"))
    assert run(command) == 0
    assert identity(capsys) == seen
    assert run("plan --columns 5 --data wifi.csv --epsilon 1 --unit attribute --rows 9") == 2
    assert "--data needs --schema" in capsys.readouterr().err


def test_ledgers_and_questions_know_the_columns(capsys):
    assert run("ledger init b.db --dataset wifi --epsilon 5") == 0
    assert run("ledger admit b.db wifi.csv --schema wifi.toml --dataset wifi") == 0
    price = "ledger price sketch wifi.csv --schema wifi.toml --epsilon 1 --dimension 2 --ledger b.db"
    assert run(price) == 0
    capsys.readouterr()
    assert main(["ask", "wifi.csv", "WAP2 > -50", "--schema", "wifi.toml", "--epsilon", "1", "--ledger", "b.db"]) == 0


def test_check_lists_every_column_that_does_not_fit(tmp_path, capsys):
    (tmp_path / "wifi.toml").write_text(
        SCHEMA.replace("]\n", '  {name = "a", kind = "flag"},\n  {name = "b", kind = "flag"},\n]\n')
    )
    assert run("check wifi.csv --schema wifi.toml") == 2
    assert "the table has no columns 'a', 'b'" in capsys.readouterr().err
    (tmp_path / "wifi.toml").write_text(SCHEMA.replace('"inside"', '"in*"').replace("-110", "-49"))
    assert run("check wifi.csv --schema wifi.toml") == 0
    assert "WAP1: below low in 1 cells" in capsys.readouterr().out
    (tmp_path / "wifi.toml").write_text(SCHEMA.replace('"inside"', '"out*"'))
    assert run("check wifi.csv --schema wifi.toml") == 2
    assert "csv file wifi.csv: no column of the table is left for the pattern 'out*'" in capsys.readouterr().err
