"""``sfumato space``, and releases in a space, from the command line."""

import json

import pytest

import sfumato as sf
from sfumato.cli import main
from sfumato.projection.space import Space
from support.spaces import PARTS, SCHEMA, people


@pytest.fixture
def place(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    schema = sf.Schema([c for c in SCHEMA.columns if c.name != "place"], scale="bounds")
    schema.write("people.toml")
    people(30).drop_columns(["place"]).to_pandas().to_csv("people.csv", index=False)
    assert main(["space", "--schema", "people.toml", "--dimension", "4", "--seed", "7", "--out", "cohort.space"]) == 0
    capsys.readouterr()
    return tmp_path


ANYWAY = {"sketch": ["--anyway"]}  # at epsilon 1, which a plan calls hopeless


def refused(capsys, *words):
    """The one line of a refusal."""
    assert main(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    return line


@pytest.mark.usefixtures("place")
def test_a_space_is_made_and_shown(capsys):
    made = Space.read("cohort.space")
    assert made == Space(sf.Schema.read("people.toml"), "sparse", 4, 7)
    assert main(["space", "cohort.space"]) == 0
    assert made.describe() in capsys.readouterr().out
    assert main(["space", "cohort.space", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == made.to_dict()
    assert main(["space", "--schema", "people.toml", "--family", "identity", "--out", "plain.space", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["space"] == "plain.space"
    assert told["digest"] == Space.read("plain.space").digest
    assert Space.read("plain.space").dimension == Space.read("plain.space").schema.encoding.dim


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "give --schema and --out"),
        (["--schema", "people.toml"], "give --schema and --out"),
        (["--schema", "people.toml", "--dimension", "4", "--out", "cohort.space"], "already exists"),
        (["--schema", "nothing.toml", "--out", "a.space"], "nothing.toml"),
        (["--schema", "people.toml", "--family", "sparse", "--out", "a.space"], "needs a dimension"),
        (["--schema", "people.toml", "--dimension", "-2", "--out", "a.space"], "dimension"),
        (["cohort.space", "--seed", "3"], "--seed is for making"),
        (["people.csv"], "people.csv cannot be read as JSON"),
        (["nothing.space"], "no file nothing.space"),
    ],
)
def test_what_is_no_space_is_refused_in_one_line(place, capsys, words, said):
    assert said in refused(capsys, "space", *words)
    assert not (place / "a.space").exists()


def release(kind, *words):
    return ["release", kind, "people.csv", "--epsilon", "1", "--delta", "1e-6", "--out", "out.release", *words]


@pytest.mark.parametrize("kind", ["sketch", "covariance"])
@pytest.mark.usefixtures("place")
def test_a_release_in_a_space_needs_no_schema(kind, capsys):
    assert main(release(kind, "--space", "cohort.space", *ANYWAY.get(kind, []))) == 0
    digest = Space.read("cohort.space").digest
    assert f"shared space {digest[:12]}" in capsys.readouterr().out
    made = sf.load("out.release")
    assert made.manifest["space"]["digest"] == digest
    assert main(["show", "out.release"]) == 0
    assert digest[:12] in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["sketch", "covariance"])
@pytest.mark.usefixtures("place")
def test_an_owner_of_some_columns_names_them(kind):
    people(30).select(["name", *PARTS[0]]).to_pandas().to_csv("people.csv", index=False)
    assert main(release(kind, "--space", "cohort.space", "--columns", "city, age", *ANYWAY.get(kind, []))) == 0
    assert sf.load("out.release").manifest["space"]["columns"] == ["age", "city"]


@pytest.mark.parametrize("kind", ["sketch", "covariance", "histogram"])
@pytest.mark.usefixtures("place")
def test_who_lacks_columns_of_a_space_is_told_how_to_name_the_others(kind, capsys):
    people(30).select(["name", *PARTS[0]]).to_pandas().to_csv("people.csv", index=False)
    line = refused(capsys, *release(kind, "--space", "cohort.space"))
    assert line.startswith("sfumato: csv file people.csv: the table has no column")
    assert line.endswith("; if you hold only some of them: --columns age,city")
    people(30).select(["name"]).to_pandas().to_csv("people.csv", index=False)
    assert "--columns" not in refused(capsys, *release(kind, "--space", "cohort.space"))


@pytest.mark.usefixtures("place")
def test_a_price_is_that_of_the_release(capsys):
    sf.Ledger.create("budget.db").add_dataset("people", sf.Guarantee(epsilon=5.0, delta=1e-5))
    promise = ["people.csv", "--space", "cohort.space", "--epsilon", "1", "--delta", "1e-6", "--ledger", "budget.db"]
    for kind in ("sketch", "covariance"):
        assert main(["ledger", "price", kind, *promise, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["quotes"][0]["fits"]


@pytest.mark.parametrize("dimension", ["4", "40", None])
@pytest.mark.parametrize("columns", [[], ["--columns", "city,age"]])
@pytest.mark.usefixtures("place")
def test_a_hopeless_sketch_in_a_space_is_refused_as_any_other(capsys, dimension, columns):
    wide = [] if dimension is None else ["--dimension", dimension]
    assert main(["space", "--schema", "people.toml", *wide, "--out", "some.space"]) == 0
    capsys.readouterr()
    words = release("sketch", "--space", "some.space", *columns)
    assert main(words) == 2
    said = capsys.readouterr()
    assert said.out.splitlines()[0].startswith("distances at distance")
    assert said.err.startswith("sfumato: Hopeless at ")
    assert said.err.endswith("with this projection. Nothing was spent; to release it anyway, add --anyway\n")
    assert main([*words, "--anyway"]) == 0
    kept = release("sketch", "--space", "some.space", *columns, "--unit", "attribute", "--json")
    kept = ["200" if word == "1" else "kept.release" if word == "out.release" else word for word in kept]
    assert main(kept) == 0


@pytest.mark.usefixtures("place")
def test_a_projection_that_makes_nothing_smaller_is_told(capsys):
    for dimension, told in (("4", False), ("40", True)):
        words = ["--dimension", dimension, "--out", f"{dimension}.space"]
        assert main(["space", "--schema", "people.toml", *words]) == 0
        assert ("leave --dimension out to keep columns as they are" in capsys.readouterr().out) == told
    assert main(["space", "--schema", "people.toml", "--out", "whole.space"]) == 0
    assert "leave --dimension out" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--space", "cohort.space", "--dimension", "5"], "space has dimension=4, got dimension=5"),
        (["--space", "cohort.space", "--keep-projection"], "is public"),
        (["--space", "cohort.space", "--change", "l2", "--radius", "1", "--fresh"], "known before the data are fixed"),
        (["--space", "cohort.space", "--choose-dimension", "0.1"], "cannot be combined with --space"),
        (["--space", "cohort.space", "--columns", "height"], "height"),
        (["--space", "cohort.space", "--schema", "other.toml"], "column 'age': high (120.0 and 99.0)"),
        (["--space", "people.csv"], "cannot be read as JSON"),
        (["--schema", "people.toml", "--columns", "age"], "--columns needs --space"),
        ([], "--schema is missing"),
        (["--dimension", "3"], "--schema is missing"),
    ],
)
def test_what_does_not_go_with_a_space_is_refused_in_one_line(place, capsys, words, said):
    schema = sf.Schema.read("people.toml")
    changed = [sf.Real("age", 0, 99, weight=2.0) if c.name == "age" else c for c in schema.columns]
    sf.Schema(changed, scale="bounds").write("other.toml")
    assert said in refused(capsys, *release("sketch", *words))
    assert not (place / "out.release").exists()


@pytest.mark.usefixtures("place")
def test_a_plan_says_what_a_sketch_in_the_space_can_do(capsys):
    promise = ["--space", "cohort.space", "--epsilon", "1", "--rows", "500"]
    assert main(["plan", *promise, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {option["mechanism"] for option in told["options"]} == {"sketch"}
    assert main(["plan", *promise, "--delta", "1e-6", "--purpose", "covariance"]) == 0
    assert "covariance" in capsys.readouterr().out
    assert "leave out --schema" in refused(capsys, "plan", *promise, "--schema", "people.toml")
    fresh = ["--delta", "1e-6", "--fresh", "--change", "l2", "--radius", "1"]
    assert "known before the data are fixed" in refused(capsys, "plan", *promise, *fresh)
