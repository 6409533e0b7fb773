"""Manifests that name a shared space: one that contradicts its schema or projection is refused."""

import json

import pytest

import sfumato as sf
from sfumato.errors import ReleaseError
from sfumato.fileformat import plain_words
from sfumato.fileformat.spaces import space_in
from sfumato.report.page import page
from support.forging import reseal
from support.kinds import made
from support.spaces import PARTS, SCHEMA, SPACE, people, space

RECORD = sf.Guarantee(epsilon=1.0, delta=1e-6)
OTHER = sf.Space(SCHEMA, dimension=5, seed=8)
CASES = {
    "sketch": sf.Sketch(space=SPACE, noise="gaussian"),
    "part": sf.Sketch(space=SPACE, columns=PARTS[0], noise="gaussian"),
    "covariance": sf.Covariance(space=SPACE),
}


@pytest.fixture(params=CASES)
def folder(request, tmp_path):
    sf.release_to(tmp_path / "r", people(), mechanism=CASES[request.param], guarantee=RECORD)
    return tmp_path / "r"


def manifest_of(folder):
    return json.loads((folder / "manifest.json").read_text())


def refused(folder, **changes):
    reseal(folder, **changes)
    with pytest.raises(ReleaseError, match=r"contradicts itself|form of a manifest"):
        sf.load(folder)


def test_the_space_of_a_manifest_is_the_space(folder):
    assert space_in(sf.load(folder).manifest) == SPACE
    assert space_in(made("sketch").manifest) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"digest": "0" * 64},
        {"digest": OTHER.digest},
        {"digest": OTHER.digest, "seed": 8},
        {"seed": 8},
        {"seed": 7.0},
        {"dimension": 6},
        {"dimension": 5.0},
        {"family": "gaussian"},
        {"family": "principal"},
        {"sparsity": 2},
        {"columns": ["age"]},
        {"columns": ["city", "age"]},
        {"columns": ["age", "city", "smoker"]},
        {"columns": ["height"]},
        {"schema": {"columns": [{"name": "x", "kind": "flag"}]}},
        {"schema": {"columns": []}},
        {"owner": "me"},
    ],
    ids=str,
)
def test_a_space_that_is_not_that_of_the_release_is_refused(folder, changes):
    before = manifest_of(folder)
    if before["kind"] == "covariance" and changes == {"digest": OTHER.digest, "seed": 8}:
        return  # it is another space of the same schema: nothing in a covariance depends on the seed
    refused(folder, space=before["space"] | changes)
    reseal(folder, space=before["space"])
    assert sf.load(folder).manifest["space"] == before["space"]


def test_what_is_said_of_a_part_is_said_whole(folder):
    said = manifest_of(folder)["space"]
    if "columns" in said:
        for key in ("columns", "schema"):
            refused(folder, space={name: value for name, value in said.items() if name != key})
    refused(folder, space=said | {"columns": ["age", "city", "smoker", "income", "place"]})


def test_a_projection_that_is_not_the_spaces_is_refused(folder):
    before = manifest_of(folder)
    if before["kind"] == "covariance":
        return
    for changes in ({"seed": 8}, {"sparsity": 2}, {"family": "gaussian"}):
        refused(folder, projection=before["projection"] | changes)
    without = {name: value for name, value in before["projection"].items() if name != "seed"}
    refused(folder, projection=without)
    files = {name: facts for name, facts in before["files"].items() if name != "projection.parquet"}
    refused(folder, projection=before["projection"] | {"published": False}, files=files)


def test_a_schema_that_is_not_the_spaces_is_refused(folder):
    schema = manifest_of(folder)["schema"]
    schema["columns"][1]["high"] = 119.0
    refused(folder, schema=schema)


def test_no_guarantee_rests_on_a_fresh_projection(folder):
    promise = manifest_of(folder)["guarantee"]
    refused(folder, guarantee=promise | {"projection": "fresh", "change": {"kind": "l2", "radius": 1.0}})


@pytest.mark.parametrize("kind", ["components", "responses", "distances", "synthetic", "table"])
def test_other_kinds_are_in_no_space(kind, tmp_path):
    made(kind).save(tmp_path / "r")
    refused(tmp_path / "r", space={"digest": SPACE.digest, **SPACE.facts})


def test_people_are_told_of_the_space(folder):
    release = sf.load(folder)
    for text in (plain_words.summary(release.manifest), (folder / "README.txt").read_text(), str(page(release))):
        assert f"shared space {SPACE.digest[:12]}" in text
        assert "what these releases cost together" in text
    assert SPACE.digest in release._repr_html_()
    assert SPACE.digest in str(page(release))


@pytest.mark.parametrize("family", ["orthonormal", "identity", "gaussian"])
def test_a_part_of_any_family_is_loaded_and_asked(family, tmp_path):
    recipe = sf.Sketch(space=space(family), columns=PARTS[1], noise="gaussian")
    sf.release_to(tmp_path / "r", people(), mechanism=recipe, guarantee=RECORD)
    low, high = sf.load(tmp_path / "r").distance(0, 1).interval()
    assert low <= high
