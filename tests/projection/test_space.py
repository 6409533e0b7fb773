"""Shared spaces: what they say, their files, parts of them, and files that strangers wrote."""

import hashlib
import json
import os
from dataclasses import replace

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import ParameterError, SchemaError
from sfumato.projection.space import Space, schema_differences, told
from support.spaces import PARTS, SCHEMA, SPACE

GOLDEN = "4c35a918f3078bf7d68a84a9a35421dafbd0718a62b557b10a8c606cd8661880"


def written(tmp_path, **changes):
    """The file of a space after changes, which None leaves out."""
    values = {key: value for key, value in (SPACE.to_dict() | changes).items() if value is not None}
    path = tmp_path / "changed.space"
    path.write_text(json.dumps(values))
    return path


def resealed(**changes):
    """The values of a space after changes, with the digest that they would have."""
    said = {
        key: value for key, value in (SPACE.to_dict() | changes).items() if key not in ("format", "version", "digest")
    }
    canonical = json.dumps(said, sort_keys=True, separators=(",", ":"))
    return changes | {"digest": hashlib.sha256(canonical.encode()).hexdigest()}


# ---- what a space says ----------------------------------------------------------------------------------------------


def test_the_digest_never_changes():
    """Files of spaces are with several owners: whoever computes another digest refuses them all."""
    assert SPACE.digest == GOLDEN


def test_what_nobody_stated_is_as_in_a_sketch():
    assert (SPACE.family, SPACE.sparsity) == ("sparse", 1)
    plain = Space(SCHEMA)
    assert (plain.family, plain.dimension, plain.sparsity) == ("identity", SCHEMA.encoding.dim, None)
    assert Space(SCHEMA).seed != Space(SCHEMA).seed
    assert sf.Space is Space


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"family": "sparse"}, "needs a dimension"),
        ({"family": "fourier", "dimension": 3}, "family"),
        ({"dimension": 0}, "dimension"),
        ({"dimension": 2, "sparsity": 3}, "at most dim_out=2"),
        ({"dimension": 2, "sparsity": 0}, "sparsity"),
        ({"family": "gaussian", "dimension": 2, "sparsity": 1}, "only family='sparse'"),
        ({"family": "orthonormal", "dimension": 100}, "at most dim_in"),
        ({"family": "identity", "dimension": 3}, "must equal dim_in"),
        ({"seed": -1}, "seed"),
        ({"seed": 1 << 256}, "2\\^256"),
    ],
)
def test_a_projection_that_there_is_not_is_refused(settings, words):
    with pytest.raises(ParameterError, match=words):
        Space(SCHEMA, **settings)


def test_a_schema_with_patterns_is_refused():
    with pytest.raises(SchemaError, match="pattern"):
        Space(sf.Schema([sf.Real("WAP*", 0, 1)]))
    with pytest.raises(ParameterError, match="must be a Schema"):
        Space(None)
    with pytest.raises(SchemaError, match="no such schema file"):
        Space("people.toml")


def test_a_space_states_the_scale_of_its_schema():
    silent = sf.Schema([sf.Real("a", 0, 1), sf.Real("b", 0, 2)])
    assert not silent.scale_stated
    assert Space(silent).schema.scale_stated
    assert Space(silent).schema.scale == "bounds"


# ---- the file -------------------------------------------------------------------------------------------------------


def test_a_space_is_read_back_as_it_was(tmp_path):
    SPACE.save(tmp_path / "cohort.space")
    assert Space.read(tmp_path / "cohort.space") == SPACE == Space.from_dict(SPACE.to_dict())
    assert [path.name for path in tmp_path.iterdir()] == ["cohort.space"]


def test_a_file_is_not_written_over(tmp_path):
    (tmp_path / "cohort.space").write_text("mine")
    with pytest.raises(SchemaError, match="already exists"):
        SPACE.save(tmp_path / "cohort.space")
    assert (tmp_path / "cohort.space").read_text() == "mine"
    with pytest.raises(SchemaError, match="failed"):
        SPACE.save(tmp_path / "nowhere" / "cohort.space")
    assert [path.name for path in tmp_path.iterdir()] == ["cohort.space"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format": "sfumato-release"}, "not a shared space"),
        ({"version": 2}, "version 2"),
        ({"version": True}, "version True"),
        ({"digest": None}, "form"),
        ({"digest": "0" * 64}, "digest"),
        ({"digest": 7}, "digest"),
        ({"seed": 8}, "digest"),
        ({"seed": "8"}, "wrong type"),
        ({"seed": None}, "form"),
        ({"dimension": 5.0}, "wrong type"),
        ({"dimension": True}, "wrong type"),
        ({"family": ["sparse"]}, "wrong type"),
        ({"sparsity": 2}, "digest"),
        ({"comment": "hello"}, "form"),
        ({"schema": []}, "form"),
        ({"schema": {"columns": []}}, "at least one column"),
        ({"schema": {"columns": [{"name": "x"}]}}, "kind"),
        (resealed(dimension=1 << 70), "dimension|large|digest"),
        (resealed(family="identity", sparsity=None), "must equal dim_in"),
        (resealed(seed=-3), "seed"),
    ],
)
def test_a_file_that_is_no_space_is_refused(tmp_path, changes, words):
    path = written(tmp_path, **changes)
    if "dimension" in changes and changes["dimension"] == 1 << 70:  # nothing is drawn until a release is prepared
        with pytest.raises(ParameterError, match="dimension"):
            sf.Sketch(space=Space.read(path)).prepare(None, sf.Guarantee(epsilon=1.0))
        return
    with pytest.raises(SchemaError, match=words) as caught:
        Space.read(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"7",
        b"{" * 5000,
        b"[" * 100_000,
        b'{"format":"sfumato-space","format":"x"}',
        b'{"a": NaN}',
    ],
)
def test_what_is_no_json_object_is_refused(tmp_path, content):
    (tmp_path / "x.space").write_bytes(content)
    with pytest.raises(SchemaError, match=r"x\.space"):
        Space.read(tmp_path / "x.space")


def test_what_is_no_ordinary_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "nothing"):
        with pytest.raises(SchemaError, match=path.name):
            Space.read(path)


# ---- what differs ---------------------------------------------------------------------------------------------------


def columns(**changes):
    return [changes.get(column.name, column) for column in SCHEMA.columns]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (replace(SPACE, seed=8), ["seed (7 and 8)"]),
        (replace(SPACE, dimension=6), ["dimension (5 and 6)"]),
        (replace(SPACE, sparsity=2), ["sparsity (1 and 2)"]),
        (Space(SCHEMA, "gaussian", 5, 7), ["family (sparse and gaussian)", "sparsity (1 and not stated)"]),
        (
            replace(SPACE, schema=sf.Schema(columns(age=sf.Real("age", 0, 110, weight=2.0)))),
            ["column 'age': high (120.0 and 110.0)"],
        ),
        (
            replace(SPACE, schema=sf.Schema(columns(smoker=sf.Flag("smokes")))),
            ["'smoker' is in one", "'smokes' is in one"],
        ),
        (replace(SPACE, schema=sf.Schema(SCHEMA.columns[::-1])), ["the order of the columns"]),
        (replace(SPACE, schema=sf.Schema(SCHEMA.columns, scale="raw")), ["scale (bounds and raw)"]),
        (
            replace(SPACE, schema=sf.Schema(columns(city=sf.Category("city", ["x" * 50], missing="level")))),
            ["column 'city': values"],
        ),
        (
            replace(SPACE, schema=sf.Schema(columns(smoker=sf.Real("smoker", 0, 1)))),
            ["kind (flag and real)", "low", "high"],
        ),
    ],
)
def test_spaces_that_differ_say_in_what(other, words):
    found = SPACE.differences(other)
    assert len(found) == len(words)
    assert all(word in said for word, said in zip(words, found, strict=True)), found
    assert other.digest != SPACE.digest
    assert len(other.differences(SPACE)) == len(found)


def test_the_same_space_has_no_differences():
    assert SPACE.differences(Space.from_dict(SPACE.to_dict())) == ()
    assert schema_differences(SCHEMA, SPACE.schema) == ()
    assert told([str(i) for i in range(6)]) == "0; 1; 2; 3; and 2 more"


# ---- parts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "schema",
    [
        SCHEMA,
        sf.Schema(SCHEMA.columns, scale="raw"),
        sf.Schema([sf.Real(n, 0, 3) for n in ("age", "smoker", "city", "income")]),
    ],
    ids=["bounds", "raw", "of one range"],
)
def test_the_columns_of_a_part_count_as_in_the_whole(schema):
    """A part may be numbers of one range where the whole is not: then its units would be raw, had none stated them."""
    joint = Space(schema, dimension=4, seed=1)
    whole = joint.schema.encoding
    for names in (("age",), ("age", "city"), ("income", "age"), ("smoker",)):
        part = joint.part(names)
        own = part.schema.encoding
        for field in ("low", "high", "weights", "ranges"):
            assert np.array_equal(getattr(own, field), getattr(whole, field)[part.rows])
        assert own.names == tuple(whole.names[row] for row in part.rows)
        again = sf.Schema.from_dict(part.schema.to_dict())
        assert np.array_equal(again.encoding.weights, own.weights)
        assert again.to_dict() == part.schema.to_dict()


def test_parts_that_share_no_column_are_the_whole():
    rows = np.concatenate([SPACE.part(part).rows for part in PARTS])
    assert sorted(rows) == list(range(SCHEMA.encoding.dim))
    assert np.array_equal(SPACE.part(None).rows, np.arange(SCHEMA.encoding.dim))
    assert SPACE.part(None).schema is SPACE.schema
    assert [c.name for c in SPACE.part(("city", "age")).schema.columns] == ["name", "age", "city"]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("agee",), "agee"),
        (("age", "age"), "once"),
        ((), "at least one"),
        (("name",), "at least one"),
        ("age", "a list"),
    ],
)
def test_columns_that_the_space_does_not_have_are_refused(names, words):
    with pytest.raises(ParameterError, match=words):
        SPACE.part(names)


def test_a_schema_that_clips_rows_has_no_parts():
    clipped = Space(sf.Schema(SCHEMA.columns, norm="l2", norm_bound=1.0, scale="bounds"), dimension=4)
    assert clipped.part(None).schema.norm == "l2"
    with pytest.raises(ParameterError, match="clips whole rows"):
        clipped.part(("age",))


def test_a_space_shows_itself():
    assert "5 numbers for each record (sparse projection, 1 in each row)" in SPACE.describe()
    assert SPACE.digest in SPACE.describe()
    assert SPACE.digest in SPACE._repr_html_()
    odd = Space(sf.Schema([sf.Flag("a\x1b[31m"), sf.Flag("b")]), seed=1)
    assert "\x1b" not in odd.describe()


def test_a_space_is_made_of_a_schema_file(tmp_path):
    schema = sf.Schema([sf.Real("a", 0, 1), sf.Flag("b")])
    path = tmp_path / "people.toml"
    schema.write(path)
    for given in (path, str(path)):
        assert sf.Space(given, "gaussian", 3, seed=1).digest == sf.Space(schema, "gaussian", 3, seed=1).digest
    with pytest.raises(sf.ParameterError, match="a Schema or the path of its file, got an object of type int"):
        sf.Space(5)
