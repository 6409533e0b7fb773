"""Schema files: every problem at once, and values that stand in a file of their own."""

import os
import pickle

import pytest

from sfumato.cli import main
from sfumato.errors import SchemaError
from sfumato.tables.columns import Category, Flag, Set
from sfumato.tables.schema import Schema
from sfumato.tables.schema_file import LARGEST

BAD = """
scales = 1
scale = "centimetres"
[clip]
norm = "l2"
radius = 3
[[columns]]
name = "age"
kind = "real"
low = "zero"
hihg = 3
weight = 2
[[columns]]
name = "n"
kind = "integer"
low = 0.5
high = 1
[[columns]]
name = "born"
kind = "date"
low = 5
high = 2020-01-01
step = "day"
[[columns]]
name = "city"
kind = "category"
values = ["a", "a"]
missing = "b"
[[columns]]
name = "tags"
kind = "set"
most = 0
[[columns]]
name = "e"
kind = "vector"
low = 0
high = 1
columns = ["e0", 5]
[[columns]]
kind = "flag"
[[columns]]
name = "ok"
kind = "flags"
[[columns]]
name = "f"
kind = "flag"
[[columns]]
name = "f"
kind = "flag"
"""
FOUND = [
    "unknown key 'scales' in the schema",
    "unknown key 'radius' in clip",
    "unknown key 'hihg' in column 'age' of kind real",
    "low of column 'age' must be a finite number, got 'zero'",
    "high of column 'age' is left to fill in",
    "low of column 'n' must be a whole number",
    "low of column 'born' must be a date such as 2020-12-31, got 5",
    "step of column 'born' must be a finite number, got 'day'",
    "values of column 'city' must be distinct, got 'a' twice",
    "values of column 'tags' is left to fill in",
    "most of column 'tags' must be a whole number from 1",
    "the name of a column of the vector 'e' must be a text",
    "column number 7 has no name",
    "kind of column 'ok' must be one of",
    "the column 'f' is there more than once",
    "scale must be 'bounds' or 'raw', got 'centimetres'",
]


def test_every_problem_of_a_file_is_told_at_once(tmp_path):
    path = tmp_path / "people.toml"
    path.write_text(BAD)
    with pytest.raises(SchemaError) as caught:
        Schema.read(path)
    first, *lines = str(caught.value).split("\n")
    assert first == f"{path}: {len(FOUND)} problems:"
    for number, (line, expected) in enumerate(zip(lines, FOUND, strict=True), 1):
        assert line.startswith(f"  {number}. {expected}")
    assert len(caught.value.problems) == len(FOUND)
    assert pickle.loads(pickle.dumps(caught.value)).problems == caught.value.problems  # noqa: S301 - our own


def test_the_command_line_shows_a_line_for_each_problem(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("age\n1\n")
    (tmp_path / "a.toml").write_text(BAD)
    assert main(["check", str(tmp_path / "a.csv"), "--schema", str(tmp_path / "a.toml")]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0].endswith(f"{len(FOUND)} problems:")
    assert len(said) == len(FOUND) + 1


def test_at_most_fifty_problems_are_shown():
    with pytest.raises(SchemaError) as caught:
        Schema.from_toml("".join(f'[[columns]]\nname = "c{i}"\nkind = "no"\n' for i in range(70)))
    lines = str(caught.value).split("\n")
    assert len(lines) == 52
    assert lines[-1] == "  ... and 20 more"
    assert len(caught.value.problems) == 70


def test_a_name_cannot_add_a_line_to_the_problems():
    with pytest.raises(SchemaError) as caught:
        Schema.from_toml('[[columns]]\nname = "a\\n  7. b"\nkind = "no"\n[[columns]]\nname = "c"\nkind = "no"\n')
    assert len(str(caught.value).split("\n")) == 3


# ---- files of values ------------------------------------------------------------------------------------------------

CITY = '[[columns]]\nname = "city"\nkind = "category"\n'


@pytest.mark.parametrize("line", ['values = "@cities.txt"', 'values_file = "cities.txt"'])
def test_values_can_be_a_file_with_one_a_line(tmp_path, line):
    (tmp_path / "lists").mkdir()
    (tmp_path / "cities.txt").write_bytes("\ufeffBern\r\n  Zürich \r\n\r\nBasel".encode())
    (tmp_path / "lists" / "codes.txt").write_text("1\n2\n-3\n")
    more = '[[columns]]\nname = "tags"\nkind = "set"\nmost = 2\nvalues = "@lists/codes.txt"\n'
    (tmp_path / "people.toml").write_text(f"{CITY}{line}\n{more}")
    schema = Schema.read(tmp_path / "people.toml")
    assert schema.columns == (Category("city", ["Bern", "Zürich", "Basel"]), Set("tags", [1, 2, -3], 2))
    assert Schema.from_toml(schema.to_toml()) == schema


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('values = "@/etc/hostname"', "must lie in the folder of the schema"),
        ('values = "@../cities.txt"', "must lie in the folder of the schema"),
        ('values = "@nowhere.txt"', "nowhere.txt: there is no such file of values"),
        ('values = "@link.txt"', "no such file of values"),
        ('values = "@pipe"', "not an ordinary file"),
        ('values = "@large.txt"', "more than 64 MiB"),
        ('values = "@empty.txt"', "at least one text"),
        ('values = "@"', "the name of a file"),
        ("values_file = 3", "the name of a file"),
        ('values_file = "empty.txt"\nvalues = ["a"]', "give one of them"),
        ('values = "cities.txt"', "values of column 'city' must be a list"),
    ],
)
def test_other_files_of_values_are_refused_in_one_line(tmp_path, line, said):
    (tmp_path / "empty.txt").write_text("\n")
    (tmp_path / "link.txt").symlink_to("/etc/hostname")
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "large.txt").open("wb") as file:
        file.truncate(LARGEST + 1)
    (tmp_path / "people.toml").write_text(CITY + line + "\n")
    with pytest.raises(SchemaError, match="city") as caught:
        Schema.read(tmp_path / "people.toml")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_text_and_a_manifest_read_no_file():
    with pytest.raises(SchemaError, match="only be read where the schema is a file"):
        Schema.from_toml(CITY + 'values = "@cities.txt"\n')
    for odd in ({"values": "@cities.txt"}, {"values_file": "cities.txt"}):
        with pytest.raises(SchemaError, match=r"values of column 'city' must be a list|unknown key 'values_file'"):
            Schema.from_dict({"columns": [{"name": "city", "kind": "category", **odd}]})


def test_a_flag_has_no_values_file():
    with pytest.raises(SchemaError, match="unknown key 'values_file'"):
        Schema.from_toml('[[columns]]\nname = "a"\nkind = "flag"\nvalues_file = "x"\n')
    assert Schema.from_toml('[[columns]]\nname = "a"\nkind = "flag"\n').columns == (Flag("a"),)
