"""Commands on tables in every form: packed, on standard input, with another separator or encoding."""

import gzip
import io
import json
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.attacks.example_data import TargetTable
from sfumato.cli import main
from sfumato.files.table_file import TableFile
from sfumato.releases.release import load
from sfumato.tables.schema import Schema

SCHEMA = """
scale = "bounds"
[[columns]]
name = "größe"
kind = "real"
low = 0
high = 200
[[columns]]
name = "city"
kind = "category"
values = ["Bern", "Zürich"]
"""
TEXT = "größe,city\n" + "170.5,Bern\n180,Zürich\n" * 20
PROMISE = "--epsilon 4 --unit attribute"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.toml").write_text(SCHEMA, encoding="utf-8")
    (tmp_path / "people.csv").write_text(TEXT, encoding="utf-8")
    (tmp_path / "people.csv.gz").write_bytes(gzip.compress(TEXT.encode()))
    (tmp_path / "old.csv").write_bytes(TEXT.replace(",", ";").encode("latin-1"))
    pq.write_table(pa.table({"größe": [170.5, 180.0] * 20, "city": ["Bern", "Zürich"] * 20}), "people.parquet")
    return tmp_path


def given(monkeypatch, content):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def run(line, capsys):
    assert main(line.split()) == 0
    return capsys.readouterr().out


def refused(line, capsys):
    assert main(line.split()) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


OLD = "old.csv --separator ; --encoding latin-1"
TABLES = ["people.csv", "people.csv.gz", "people.parquet", OLD, f"{OLD.replace('old.csv', '-')}", "-"]


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("schema {}", 'name = "city"'),
        ("check {} --schema people.toml", "All cells fit the schema."),
        (f"release sketch {{}} --schema people.toml {PROMISE} --anyway --out r", "written to r"),
        ("release synthetic {} --schema people.toml --epsilon 4 --dimension 2 --rows 5 --out r", "written to r"),
    ],
)
def test_commands_read_tables_in_every_form(table, line, says, capsys, monkeypatch, folder):
    if table.startswith("-"):
        name = "old.csv" if "latin" in table else "people.parquet"
        given(monkeypatch, (folder / name).read_bytes())
    assert says in run(line.format(table), capsys)
    if "release" in line:
        assert load("r").manifest["rows"] == (5 if "synthetic" in line else 40)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("schema old.csv", "the header is not UTF-8 text: name the encoding of the file, such as --encoding cp1252"),
        ("schema old.csv --encoding latin-1", "looks separated by ';', not ',': use --separator ';'"),
        ("schema people.csv --separator ab", "separator must be one ASCII character"),
        ("schema people.csv --encoding klingon", "encoding must be one that Python knows"),
        ("check people.parquet --schema people.toml --separator ;", "only CSV text has a separator"),
        (f"release sketch people.doc --schema people.toml {PROMISE} --out r", "no such file"),
        ("schema people.toml", "a table is read from CSV"),
    ],
)
def test_what_is_not_read_is_refused_in_one_line_that_says_what_to_do(line, says, capsys, folder):
    assert says in refused(line, capsys)
    assert not (folder / "r").exists()


def test_standard_input_that_is_closed_or_empty_is_refused(capsys, monkeypatch):
    given(monkeypatch, b"")
    assert "standard input: not a CSV file" in refused("schema -", capsys)
    monkeypatch.setattr(sys, "stdin", None)
    assert "there is no standard input" in refused("schema -", capsys)


def test_prices_questions_graphs_and_attacks_read_them_too(capsys, monkeypatch, folder):
    run("ledger init budget.db --dataset people --epsilon 9", capsys)
    charged = "--schema people.toml --ledger budget.db --epsilon 1"
    assert "Within the cap" in run(f"ledger price sketch {OLD} {charged}", capsys)
    assert "`größe`>0" in run(f"ask {OLD} {charged} `größe`>0", capsys)
    given(monkeypatch, TEXT.encode())
    assert "another file or schema" in refused(f"ask - {charged} `größe`>0", capsys)
    run("ledger admit budget.db - --schema people.toml --dataset people", capsys)
    given(monkeypatch, (folder / "old.csv").read_bytes())
    assert "written to r" in run(f"release sketch {OLD.replace('old.csv', '-')} {charged} --anyway --out r", capsys)
    (folder / "edges.csv").write_text("a|b\n" + "".join(f"{i}|{i + 1}\n" for i in range(20)))
    graph = "release graph edges.csv --separator | --epsilon 1 --mechanism response --vertices 21 --out g"
    assert "written to g" in run(graph, capsys)
    target = TargetTable.read(TableFile("old.csv", ";", "latin-1"), Schema.read("people.toml"))
    assert (target.name, target.rows) == ("old.csv", 40)


def test_a_pipe_is_read_as_a_file_is(folder):
    command = [sys.executable, "-m", "sfumato.cli", "release", "sketch", "-", "--schema", "people.toml", "--out", "r"]
    command += [*PROMISE.split(), "--anyway"]
    done = subprocess.run(command, input=gzip.compress(TEXT.encode()), capture_output=True, check=False)  # noqa: S603
    assert (done.returncode, done.stderr) == (0, b"")
    assert load("r").manifest["rows"] == 40
    assert not list(folder.glob("tmp*"))


def test_counts_of_a_table_are_estimated_with_their_interval(capsys):
    run("release table people.parquet --schema people.toml --epsilon 4 --delta 1e-6 --out r", capsys)
    question = "city = 'Bern'"
    assert main(["estimate", "count", "r", question]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Count: ")
    assert "Unit: records." in said
    assert main(["estimate", "count", "r", question, "--json", "--level", "0.999999999"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["low"] <= 20 <= found["high"]
    assert found["value"] == load("r").count(question).value
    assert main(["estimate", "count", "r", "nobody = 1"]) == 2
    assert "no column 'nobody'" in capsys.readouterr().err
