"""Releases and files of strangers: lies in footers, keys said twice, letters that command a terminal, endless files."""

import json
import os
import sys
from xml.etree import ElementTree as ET

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato import untrusted
from sfumato.cli import main
from sfumato.errors import LedgerError, ParameterError, ReleaseError, SchemaError
from sfumato.fileformat import reader, writer
from sfumato.files import parquet_files
from sfumato.files.open_table import open_table
from sfumato.ledger.entries import canonical, parsed
from sfumato.ledger.journal import Journal
from sfumato.ledger.ledger import Ledger
from sfumato.mechanisms.synthetic.recipe import Synthetic
from sfumato.privacy.guarantee import Guarantee
from sfumato.releases.release import load
from sfumato.report.html import escape
from sfumato.report.plots import draw_spending
from sfumato.tables.columns import Category, Flag, Id, Real
from sfumato.tables.schema import Schema
from support.forging import one_row_for, reseal, varint, with_footer
from support.kinds import KINDS, made
from support.spending import pure


@pytest.fixture
def folder(tmp_path):
    made("sketch").save(tmp_path / "people.release")
    return tmp_path / "people.release"


# ---- rows that are not there ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["file", "all"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_footer_that_counts_rows_which_are_not_there_is_refused(kind, where, tmp_path):
    """One row was taken for all of them; files of other lengths ended in a traceback."""
    made(kind).save(tmp_path / "r")
    for path in sorted((tmp_path / "r").glob("*.parquet")):
        whole = path.read_bytes()
        one_row_for(path, pq.ParquetFile(path).metadata.num_rows, where)
        reseal(tmp_path / "r")
        with pytest.raises(ReleaseError, match="does not hold what its manifest says") as caught:
            load(tmp_path / "r")
        assert str(caught.value).isprintable()
        path.write_bytes(whole)
    reseal(tmp_path / "r")
    assert load(tmp_path / "r").manifest["kind"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_number_that_is_missing_is_refused(kind, tmp_path):
    """Of whole numbers too, where nothing that is no number can be seen once they are in an array."""
    made(kind).save(tmp_path / "r")
    path = tmp_path / "r" / "data.parquet"
    table = pq.read_table(path)
    place = [pa.types.is_integer(f.type) or pa.types.is_floating(f.type) for f in table.schema].index(True)
    name, cells = table.schema.names[place], table.column(place).to_pylist()
    gaps = pa.array([None, *cells[1:]], table.schema.field(place).type)
    pq.write_table(table.set_column(place, name, gaps), path, compression="none")
    reseal(tmp_path / "r")
    with pytest.raises(ReleaseError, match="does not hold what its manifest says"):
        load(tmp_path / "r")


@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize("where", ["file", "all"])
def test_each_of_several_parts_has_the_rows_that_it_counts(folder, part, where):
    table = pq.read_table(folder / "data.parquet")
    (folder / "data.parquet").unlink()
    parts = [folder / f"part-00000{i}.parquet" for i in range(2)]
    for path, some in zip(parts, (table.slice(0, 100), table.slice(100)), strict=True):
        pq.write_table(some, path)
    files = {path.name: {} for path in (*parts, folder / "projection.parquet")}
    reseal(folder, files=files)
    assert np.array_equal(load(folder).columns, made("sketch").columns)
    one_row_for(parts[part], [100, 57][part], where)
    reseal(folder)
    with pytest.raises(ReleaseError, match="does not hold what its manifest says"):
        load(folder)


def test_a_flipped_bit_of_a_footer_is_one_clear_refusal_or_changes_nothing(folder):
    """Every bit of the counts of a footer and what is beside them, sealed again: none of them is a traceback."""
    path, truth = folder / "data.parquet", made("sketch").columns
    content = path.read_bytes()
    length = int.from_bytes(content[-8:-4], "little")
    refused = 0
    for place in range(0, length, 7):
        flip = lambda footer, at=place: footer[:at] + bytes([footer[at] ^ 1 << at % 8]) + footer[at + 1 :]  # noqa: E731
        path.write_bytes(with_footer(content, flip))
        reseal(folder)
        try:
            assert np.array_equal(load(folder).columns, truth)
        except ReleaseError:
            refused += 1
    assert refused > length // 28


def test_a_sparse_projection_of_more_entries_than_cells_is_refused(folder):
    facts = made("sketch").manifest["projection"]
    cells = facts["dim_in"] * facts["dim_out"]
    for count, fits in ((cells, True), (cells + 1, False)):
        zeros = np.zeros(count, np.int64)
        pq.write_table(
            pa.table({"row": zeros, "column": zeros, "value": np.ones(count)}), folder / "projection.parquet"
        )
        reseal(folder)
        if fits:
            assert load(folder).projection.shape == (facts["dim_in"], facts["dim_out"])
        else:
            with pytest.raises(ReleaseError, match="does not hold"):
                load(folder)


# ---- said twice -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "again"),
    [
        ('"epsilon": 4.0', '"epsilon": 0.001, "epsilon": 4.0'),
        ('"warnings": [', '"warnings": ["none"], "warnings": ['),
        ('"name": "age"', '"name": "other", "name": "age"'),
        ('"bytes": ', '"bytes": 1, "bytes": '),
    ],
)
def test_a_manifest_that_says_something_twice_is_refused_at_any_depth(folder, said, again):
    """Readers differ in which of the two they believe, and the digest is the same as if it were said once."""
    path = folder / "manifest.json"
    text = path.read_text()
    assert said in text
    path.write_text(text.replace(said, again, 1))
    with pytest.raises(ReleaseError, match="same key twice"):
        load(folder)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
@pytest.mark.parametrize("field", ['"rows": ', '"scale": ', '"epsilon": '])
def test_numbers_that_are_none_are_refused_wherever_they_stand(folder, field, number):
    path = folder / "manifest.json"
    head, _, rest = path.read_text().partition(field)
    path.write_text(head + field + number + rest[rest.index(",") :])
    with pytest.raises(ReleaseError, match="cannot be read as JSON"):
        load(folder)


def test_a_manifest_is_written_only_if_it_can_be_read_again(monkeypatch):
    fields = {k: v for k, v in made("sketch").manifest.items() if k not in ("format", "version", "software", "digest")}
    odd = fields | {"mechanism": fields["mechanism"] | {"scale": float("inf")}}
    with pytest.raises(ReleaseError, match="could not be read again"):
        writer.seal(odd)
    monkeypatch.setattr(writer, "LARGEST", 1000)
    with pytest.raises(ReleaseError, match="more than"):
        writer.seal(fields)


def test_a_model_that_no_manifest_can_hold_is_refused_before_anything_is_read():
    schema = Schema([*(Real(f"c{i}", 0, 1) for i in range(500)), Category("k", [str(i) for i in range(10)])])
    promise = Guarantee(epsilon=1.0, delta=1e-6, unit="record")
    with pytest.raises(ParameterError, match="at most 408 here: the manifest"):
        Synthetic(dimension=409, label="k", kind="classes", noise="gaussian").prepare(schema, promise)


@pytest.mark.parametrize("body", ['{"a":1,"a":2}', '{"a":{"b":1,"b":1}}', '{"a":NaN}', '{"a":1e999}', "[]"])
def test_entries_of_a_ledger_say_everything_once(body):
    assert parsed(canonical({"a": 1})) == {"a": 1}
    with pytest.raises(ValueError):
        parsed(body)


def test_a_schema_says_everything_once(tmp_path):
    (tmp_path / "s.toml").write_text('[[columns]]\nname = "a"\nkind = "real"\nlow = 0.0\nhigh = 1.0\nhigh = 9.0\n')
    with pytest.raises(SchemaError, match="not TOML"):
        Schema.read(tmp_path / "s.toml")


# ---- plain text -----------------------------------------------------------------------------------------------------

ODD = "\x1b[2J\x1b]0;owned\x07x\nsfumato: epsilon 0.001 promised\r\x85\x9b31m\u202e\u2066\u2028\u2029\u200f\x7f\ud800"
PLAIN = "x\\u000asfumato: epsilon 0.001 promised"


def all_plain(text):
    return all(letter == "\n" or letter.isprintable() for letter in text)


def test_a_text_becomes_one_line_of_plain_letters():
    assert untrusted.line("Zürich 漢字 \U0001f600 a\u00a0b") == "Zürich 漢字 \U0001f600 a\u00a0b"
    assert untrusted.line(ODD) == json.dumps(ODD, ensure_ascii=True)[1:-1].replace("\\n", "\\u000a").replace(
        "\\r", "\\u000d"
    ).replace("\x7f", "\\u007f")
    assert untrusted.line("\u0645\u200c\u0646") == "\u0645\u200c\u0646"  # a joiner that Persian needs
    assert untrusted.line("a" * 3000) == "a" * 1997 + "..."
    assert untrusted.lines("a\tb\nc\x1b") == "a\\u0009b\nc\\u001b"
    assert untrusted.lines("a" * 3000) == "a" * 3000
    assert untrusted.marked("a\tb\n" + ODD).count("\ufffd") == len(ODD) - len(
        "[2J]0;ownedx\nsfumato: epsilon 0.001 promised31m"
    )
    assert json.loads(untrusted.lines(json.dumps(["\x7f"]))) == ["\x7f"]


def test_no_letter_that_is_not_plain_comes_through():
    """All of Unicode, by another definition than the one in use."""
    import unicodedata  # noqa: PLC0415

    for number in range(sys.maxunicode + 1):
        letter = chr(number)
        if unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp") and number not in (0x200C, 0x200D):
            assert letter not in untrusted.line(letter), hex(number)
            assert letter in "\n\t" or untrusted.marked(letter) == "\ufffd"


def hostile(kind, tmp_path):
    """A release all of whose texts are odd, as far as its form allows."""
    odd = made(kind)
    fields = dict(odd.manifest) | {"warnings": [ODD], "randomness": ODD, "accounted": True}
    fields |= {"ledger": {"dataset": ODD, "entry": 3, "hash": "0" * 64}}
    if "schema" in fields:
        label = fields["mechanism"].get("label")
        columns = [c if c["name"] == label else c | {"name": c["name"] + ODD[:-1]} for c in fields["schema"]["columns"]]
        fields |= {"schema": fields["schema"] | {"columns": columns}}
    if "histogram" in kind:  # whose tables name their columns
        tables = [
            table
            | {"columns": [name + ODD[:-1] for name in table["columns"]]}
            | {"cuts": {name + ODD[:-1]: cuts for name, cuts in table["cuts"].items()}}
            for table in fields["mechanism"]["tables"]
        ]
        fields |= {"mechanism": fields["mechanism"] | {"tables": tables}}
    path = tmp_path / "odd.release"
    odd.save(path)
    if kind == "table":  # whose file has the columns of the schema
        data = pq.read_table(path / "data.parquet").rename_columns([c["name"] for c in fields["schema"]["columns"]])
        pq.write_table(data, path / "data.parquet", compression="none")
    reseal(path, **{k: v for k, v in fields.items() if k not in ("files", "digest")} | {"software": {"sfumato": ODD}})
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_of_a_release_commands_a_terminal(kind, tmp_path, capsys):
    path = hostile(kind, tmp_path)
    commands = [f"show {path}", f"report {path} --out {tmp_path / 'r.html'}", f"estimate distance {path} 0 1"]
    if "covariance" in kind:
        commands += [f"estimate components {path} 2", f"estimate variance {path} none"]
    for command in commands:
        for more in ([], ["--json"]):
            main([*command.split(), *more, *(["--force"] if "report" in command else [])])
            said = capsys.readouterr()
            assert all_plain(said.out + said.err), command
            assert not any(line.startswith("sfumato: epsilon") for line in (said.out + said.err).splitlines())
    main(["show", str(path)])
    assert PLAIN in capsys.readouterr().out
    assert all_plain(repr(load(path)))
    page = (tmp_path / "r.html").read_text()
    assert not set(page) & set(ODD) - set("\n" + untrusted.marked(ODD))


@pytest.mark.parametrize("kind", ["sketch", "synthetic", "covariance"])
def test_what_is_saved_again_says_the_texts_of_strangers_plainly(kind, tmp_path):
    load(hostile(kind, tmp_path)).save(tmp_path / "again.release")
    for name in ("README.txt", "registry.yaml"):
        assert all_plain((tmp_path / "again.release" / name).read_text())


def test_errors_quote_names_of_strangers_plainly(tmp_path):
    release = load(hostile("covariance", tmp_path))
    with pytest.raises(ParameterError) as caught:
        release.variance(ODD)
    assert all_plain(str(caught.value))
    assert "\n" not in str(caught.value)


def test_a_ledger_of_strangers_is_shown_plainly(tmp_path, capsys):
    ledger = Ledger.create(tmp_path / "b.db")
    ledger.add_dataset("people", pure(3.0))
    (entry,) = ledger.journal.entries()
    Journal(tmp_path / "b.db").append(ODD[:-1], "dataset", entry.body, lambda _: None)
    assert main(["ledger", "show", str(tmp_path / "b.db")]) == 0
    said = capsys.readouterr().out
    assert all_plain(said)
    assert PLAIN in said


@pytest.mark.parametrize("name", ["costs in $ and \\frac{$", ODD[:-1]])
def test_a_picture_of_a_ledger_takes_names_as_text(tmp_path, name):
    ledger = Ledger.create(tmp_path / "b.db")
    ledger.add_dataset("people", pure(3.0))
    (entry,) = ledger.journal.entries()
    ledger.journal.append(name, "dataset", entry.body, lambda _: None)
    draw_spending(ledger.dataset(name), tmp_path / "b.svg")
    text = "".join(ET.parse(tmp_path / "b.svg").getroot().itertext())  # noqa: S314 - our own
    assert untrusted.line(name)[:20] in text


def test_a_page_neutralises_what_turns_letters_around():
    assert escape("a\x1cb\x85c\u2028d\u202ee\u2067f\u200fg") == "a\ufffdb\ufffdc\ufffdd\ufffde\ufffdf\ufffdg"


# ---- bounded reads --------------------------------------------------------------------------------------------------


SCHEMA = '[[columns]]\nname = "a"\nkind = "real"\nlow = 0.0\nhigh = 1.0\n'


@pytest.mark.parametrize("what", ["endless", "pipe", "folder", "giant"])
def test_a_schema_that_is_no_ordinary_file_is_refused_before_it_is_read(tmp_path, what, capsys):
    place = tmp_path / "s.toml"
    if what == "endless":
        place.symlink_to("/dev/zero")
    elif what == "pipe":
        os.mkfifo(place)
    elif what == "folder":
        place.mkdir()
    else:
        with place.open("wb") as file:
            file.truncate(1 << 40)
    (tmp_path / "d.csv").write_text("a\n1\n")
    assert main(["check", str(tmp_path / "d.csv"), "--schema", str(place)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "s.toml: " in said
    assert ("it has more than 64 MiB" if what == "giant" else "ordinary file" if what != "folder" else "") in said


def test_a_schema_of_any_line_ends_is_read_through_a_link(tmp_path):
    for ends in ("\n", "\r\n", "\r"):
        (tmp_path / "real.toml").write_bytes(SCHEMA.replace("\n", ends).encode())
        (tmp_path / "s.toml").unlink(missing_ok=True)
        (tmp_path / "s.toml").symlink_to(tmp_path / "real.toml")
        assert Schema.read(tmp_path / "s.toml").columns == (Real("a", 0, 1),)


@pytest.mark.parametrize("name", ["d.csv", "d.parquet"])
@pytest.mark.parametrize("what", ["endless", "pipe"])
def test_a_table_that_is_no_ordinary_file_is_refused(tmp_path, name, what, capsys):
    place = tmp_path / name
    place.symlink_to("/dev/zero") if what == "endless" else os.mkfifo(place)
    (tmp_path / "s.toml").write_text(SCHEMA)
    for command in (f"schema {place}", f"check {place} --schema {tmp_path / 's.toml'}"):
        assert main(command.split()) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert "not an ordinary file" in said


@pytest.mark.parametrize("act", ["show", "init --dataset a --epsilon 1"])
@pytest.mark.parametrize("what", ["endless", "pipe", "folder"])
def test_a_ledger_that_is_no_ordinary_file_is_refused(tmp_path, what, act, capsys):
    place = tmp_path / "b.db"
    if what == "endless":
        place.symlink_to("/dev/zero")
    elif what == "pipe":
        os.mkfifo(place)
    else:
        place.mkdir()
    verb, *more = act.split()
    assert main(["ledger", verb, str(place), *more]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    with pytest.raises(LedgerError):
        Ledger.create(place)


@pytest.mark.parametrize("what", ["pipe", "giant", "growing"])
def test_a_manifest_that_is_no_ordinary_file_is_refused_before_it_is_read(folder, what, monkeypatch):
    path = folder / "manifest.json"
    if what == "pipe":
        path.unlink()
        os.mkfifo(path)
    elif what == "giant":
        with path.open("ab") as file:
            file.truncate(1 << 40)
    else:
        monkeypatch.setattr(untrusted, "check_ordinary", lambda _state, _most: None)
        monkeypatch.setattr(reader, "LARGEST", 1000)
    with pytest.raises(ReleaseError, match=r"no manifest\.json|it has more than"):
        load(folder)


def few_bytes(path, rows, names, kind=np.float64):
    """A Parquet file of equal numbers, which takes a few bytes however many rows it has."""
    numbers = pa.array(np.zeros(1 << 20, kind))
    schema = pa.schema([(name, numbers.type) for name in names])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=True) as writer:
        whole = pa.chunked_array([numbers] * (rows >> 20))
        writer.write_table(pa.table([whole] * len(names), schema=schema), row_group_size=rows)


def test_a_few_bytes_of_a_release_are_not_unpacked_to_gigabytes(folder, monkeypatch):
    rows = 1 << 20
    few_bytes(folder / "data.parquet", rows, [f"z{i}" for i in range(4)])
    assert (folder / "data.parquet").stat().st_size < 1 << 18
    lattice = made("sketch").manifest["lattice"] | {"numbers": "float64"}
    reseal(folder, rows=rows, lattice=lattice)
    assert load(folder).rows == rows  # as much as any release may take
    monkeypatch.setattr(reader, "FREE", 1 << 24)
    monkeypatch.setattr(reader, "MANIFOLD", 10)
    with pytest.raises(ReleaseError, match=r"would unpack to 0\.0312 GiB"):
        load(folder)


def test_a_column_that_counts_more_numbers_than_its_rows_is_not_unpacked(folder):
    """The number of values of one column is what Arrow unpacks, whatever the row group says."""
    path = folder / "data.parquet"
    pq.write_table(pq.read_table(path), path, compression="none", use_dictionary=False)
    content, rows = path.read_bytes(), made("sketch").rows
    said, more = b"\x16" + varint(2 * rows), b"\x16" + varint(2 * (1 << 40))
    lies = 0
    length = int.from_bytes(content[-8:-4], "little")
    footer = content[-8 - length : -8]
    for place in (i for i in range(length) if footer[i : i + len(said)] == said):
        path.write_bytes(with_footer(content, lambda f, at=place: f[:at] + more + f[at + len(said) :]))
        reseal(folder)
        with pytest.raises(ReleaseError, match="does not hold"):
            load(folder)
        lies += 1
    assert lies >= 6  # of the file, of its row group, of four columns


def test_a_footer_larger_than_such_a_file_needs_is_not_read(folder, monkeypatch):
    path, opened, honest = folder / "data.parquet", [], pq.ParquetFile
    monkeypatch.setattr(reader.pq, "ParquetFile", lambda *a: opened.append(a[0].name) or honest(*a))
    load(folder)
    assert path.name in opened
    monkeypatch.undo()
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({"a": "x" * (1 << 21)}), path)
    reseal(folder)
    monkeypatch.setattr(reader.pq, "ParquetFile", lambda *a: opened.append(a[0].name))
    opened.clear()
    with pytest.raises(ReleaseError, match="does not hold"):
        load(folder)
    assert opened == []


@pytest.mark.parametrize("codec", ["zstd", "gzip", "brotli", "lz4"])
def test_files_are_packed_as_releases_are_or_not_read(folder, codec):
    path = folder / "data.parquet"
    pq.write_table(pq.read_table(path), path, compression=codec)
    reseal(folder)
    with pytest.raises(ReleaseError, match="does not hold"):
        load(folder)


def test_ids_that_stand_once_and_are_meant_by_every_row_are_bounded(tmp_path, monkeypatch):
    schema, rows = Schema([Id("who"), Flag("a")]), 300
    from sfumato.mechanisms.responses import RandomizedResponse  # noqa: PLC0415
    from sfumato.pipeline.release import release  # noqa: PLC0415

    table = pa.table({"who": [f"p{i}" for i in range(rows)], "a": [True] * rows})
    made_ = release(table, schema=schema, mechanism=RandomizedResponse(), guarantee=pure(1.0))
    made_.save(tmp_path / "r")
    assert load(tmp_path / "r").ids.to_pylist() == table["who"].to_pylist()
    long = pa.array(["x" * 100_000]).take(pa.array(np.zeros(rows, np.int64)))
    pq.write_table(pa.table({"id": long, "r0": made_.columns[0]}), tmp_path / "r" / "data.parquet", compression="none")
    assert (tmp_path / "r" / "data.parquet").stat().st_size < 1 << 18
    reseal(tmp_path / "r")
    monkeypatch.setattr(reader, "FREE", 1 << 22)
    monkeypatch.setattr(reader, "MANIFOLD", 10)
    before = pa.total_allocated_bytes()
    with pytest.raises(ReleaseError, match="does not hold"):
        load(tmp_path / "r")
    assert pa.total_allocated_bytes() - before < 1 << 23


def test_a_row_group_of_few_bytes_is_unpacked_a_block_at_a_time(tmp_path, monkeypatch):
    """An owner's file: equal numbers in one row group take a few bytes, and all their room at once if read whole."""
    monkeypatch.setattr(parquet_files, "_SMALL_UNPACKED", 1 << 24, raising=False)
    few_bytes(tmp_path / "d.parquet", 1 << 22, ["a"])
    assert (tmp_path / "d.parquet").stat().st_size < 1 << 18
    before, rows = pa.total_allocated_bytes(), 0
    for block in open_table(tmp_path / "d.parquet").blocks(["a"], 1 << 14):
        rows += block.num_rows
        assert pa.total_allocated_bytes() - before < 1 << 23
    assert rows == 1 << 22
