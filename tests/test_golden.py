"""Releases of every mechanism are those of version 0.1.0, number by number, and what it wrote can still be read."""

import json
from pathlib import Path

import numpy as np
import pytest

import sfumato as sf
from support.golden import CASES, FOLDER, answers, made

IN_DOUBLES = (
    "components",
    "covariance-sketch",
    "graph-sketch",
    "synthetic-plain",
    "synthetic-classes",
    "synthetic-values",
)


def numbers(release):
    return release.weights() if release.manifest["kind"] in ("graph-noise", "graph-responses") else release.array()


def facts(manifest):
    return {key: value for key, value in manifest.items() if key not in ("files", "digest", "software", "version")}


def shape(value):
    """What a manifest says, but for its numbers."""
    if isinstance(value, dict):
        return {key: shape(part) for key, part in value.items()}
    return [shape(part) for part in value] if isinstance(value, list) else 0 if isinstance(value, float) else value


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_release_under_the_testing_secret_is_that_of_the_first_version(name):
    before, now = sf.load(FOLDER / f"{name}.release", allow_unprotected=True), made(name)
    same = np.allclose if name in IN_DOUBLES else np.array_equal
    assert same(numbers(before), numbers(now))
    assert shape(facts(now.manifest)) == shape(facts(before.manifest))
    if name not in IN_DOUBLES:
        assert facts(now.manifest) == facts(before.manifest)


def test_answers_under_one_key_are_those_of_the_first_version():
    before, now = json.loads((FOLDER / "answers.json").read_text()), answers()
    assert now["ask"] == before["ask"]
    assert {k: pytest.approx(v) for k, v in before.items()} == now


def test_every_case_was_kept():
    assert {f"{name}.release" for name in CASES} <= {folder.name for folder in FOLDER.glob("*.release")}


@pytest.mark.parametrize("folder", sorted(FOLDER.glob("*.release")), ids=lambda folder: folder.name)
def test_what_the_first_version_wrote_can_be_loaded(folder: Path):
    manifest = json.loads((folder / "manifest.json").read_text())
    release = sf.load(folder, allow_unprotected=True)
    assert release.manifest == manifest
    assert numbers(release).size
