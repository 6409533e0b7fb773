"""Kinds of releases: one record each, which says all that differs between them."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from sfumato.errors import ReleaseError
from sfumato.fileformat import kinds, manifest, plain_words, reader, writer
from sfumato.fileformat.kinds import KINDS
from sfumato.releases.release import Release, load
from support.forging import reseal
from support.golden import FOLDER
from support.kinds import KINDS as MADE
from support.kinds import made

FORM = json.loads(Path(reader.__file__).with_name("manifest.schema.json").read_text())
FALSE_CLAIM = "synthetic-published-constants.release"


def facts_of(type_):
    return set(type_.__required_keys__), set(type_.__required_keys__ | type_.__optional_keys__)


def test_the_json_schema_knows_the_same_kinds():
    assert set(FORM["properties"]["kind"]["enum"]) == KINDS.keys()
    assert {made(kind).manifest["kind"] for kind in MADE} == KINDS.keys()


def test_the_types_have_the_keys_of_the_json_schema():
    required, known = facts_of(manifest.ManifestOf)
    assert known == FORM["properties"].keys()
    assert required == set(FORM["required"])
    for name, type_ in (
        ("projection", manifest.ProjectionFacts),
        ("lattice", manifest.LatticeFacts),
        ("space", manifest.SpaceFacts),
        ("ledger", manifest.LedgerFacts),
        ("guarantee", manifest.GuaranteeFields),
    ):
        form = FORM["properties"][name]
        assert facts_of(type_) == (set(form["required"]), set(form["properties"]))


@pytest.mark.parametrize(
    ("kind", "type_"),
    [
        ("responses", manifest.ResponsesFacts),
        ("distances", manifest.NoiseFacts),
        ("covariance", manifest.CovarianceFacts),
        ("histogram", manifest.HistogramFacts),
        ("synthetic", manifest.SyntheticFacts),
        ("table", manifest.TableFacts),
        ("graph-sketch", manifest.GraphSketchFacts),
        ("graph-noise", manifest.NoiseFacts),
        ("graph-responses", manifest.GraphResponsesFacts),
        ("sketch components", manifest.SketchFacts),
    ],
)
def test_the_types_of_mechanisms_have_the_keys_of_the_json_schema(kind, type_):
    parts = [part for part in FORM["allOf"] if part["if"]["properties"]["kind"].get("const") in kind.split()]
    forms = [part["then"]["properties"]["mechanism"] for part in parts if "mechanism" in part["then"]["properties"]]
    assert set.union(*(set(form["properties"]) for form in forms)) == facts_of(type_)[1]
    assert set.intersection(*(set(form["required"]) for form in forms)) == facts_of(type_)[0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_served_by_a_class_of_releases(kind):
    module, name = KINDS[kind].served_by
    assert issubclass(getattr(importlib.import_module(f"sfumato.releases.{module}"), name), Release)


@pytest.mark.parametrize("name", [name for name in MADE if name != "table"])
def test_a_record_says_what_the_files_of_its_kind_hold(name, tmp_path):
    release = made(name)
    kind, said = kinds.of(release.manifest), release.manifest
    assert release.columns.shape == (len(kind.columns(said)), kind.size(said))
    assert release.columns.dtype == kinds.memory_type(said)
    assert kind.graph == ("schema" not in said)
    release.save(tmp_path / "r")
    again = load(tmp_path / "r")
    assert type(again) is type(release)
    assert np.array_equal(again.columns, release.columns.astype(kinds.stored_type(said)))


@pytest.mark.parametrize("name", MADE)
def test_a_release_says_of_itself_what_it_is(name):
    said = made(name).manifest
    for sentence in (plain_words.sensitivity(said), plain_words.unprotected(said)):
        assert sentence.endswith(".")
        assert sentence[0].isupper()
    assert not plain_words.contents(said).endswith(".")
    readme = plain_words.readme(said)
    assert plain_words.contents(said) in readme
    assert all(code in readme for code, _ in kinds.of(said).use)
    assert "$" not in readme
    draft = yaml.safe_load(plain_words.registry_draft(said))["deployment"]
    assert draft["product"]["data_product_type"] == kinds.of(said).product
    assert draft["privacy_loss"]["privacy_parameters"]["epsilon"] == said["guarantee"]["epsilon"]
    assert ("delta" in draft["privacy_loss"]["privacy_parameters"]) == (said["guarantee"]["delta"] > 0)
    assert plain_words.contents(said) in draft["implementation"]["mechanisms"]
    assert plain_words.summary(said).splitlines()[2] == plain_words.sensitivity(said)


@pytest.mark.parametrize("name", MADE)
def test_the_example_of_a_kind_can_be_asked(name):
    release = made(name)
    example = kinds.of(release.manifest).example(release.manifest)
    if example is None:
        assert name.endswith(("synthetic", "table"))
    else:
        low, high = eval(example, {"release": release}).interval(0.95)  # noqa: S307 - our own
        assert low <= high


def test_only_the_class_of_its_kind_is_imported_for_a_release(tmp_path):
    """Loading a sketch took the time of importing all of them."""
    for name in ("sketch", "graph-noise"):
        made(name).save(tmp_path / name)
    code = f"""
import sys
import sfumato
found = lambda: {{name.split(".")[-1] for name in sys.modules if name.startswith("sfumato.releases.")}}
sfumato.load({str(tmp_path / "sketch")!r})
assert found() == {{"release", "sketch"}}, found()
sfumato.load({str(tmp_path / "graph-noise")!r})
assert found() == {{"release", "sketch", "graph"}}, found()
assert not any(name.startswith(("sfumato.estimation.responses", "sfumato.mechanisms")) for name in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603


def test_a_claim_that_was_not_kept_is_read_and_said(tmp_path):
    release = load(FOLDER / FALSE_CLAIM, allow_unprotected=True)
    assert not kinds.claim_kept(release.manifest)
    assert "do NOT keep the promise" in plain_words.sensitivity(release.manifest)
    assert "WHICH THIS RELEASE DOES NOT KEEP" in plain_words.readme(release.manifest)
    assert "NOT KEPT" in repr(release)
    kept = made("synthetic")
    assert kinds.claim_kept(kept.manifest)
    assert "NOT KEEP" not in plain_words.readme(kept.manifest)
    kept.save(tmp_path / "r")
    for silent in ("constants", "satisfies_claim"):
        reseal(tmp_path / "r", mechanism={k: v for k, v in kept.manifest["mechanism"].items() if k != silent})
        with pytest.raises(ReleaseError, match="form of a manifest"):
            load(tmp_path / "r")
    reseal(tmp_path / "r", mechanism=kept.manifest["mechanism"] | {"constants": "published"})
    assert not kinds.claim_kept(load(tmp_path / "r").manifest)


def other(key, value):
    """A change of what the mechanism says, or of what stands beside it."""
    return lambda said: said | ({key: value} if key in said else {"mechanism": said["mechanism"] | {key: value}})


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("sketch", lambda said: other("scale", said["mechanism"]["scale"] * 1.001)(said)),
        ("sketch", lambda said: said | {"projection": said["projection"] | {"dim_in": 7}}),
        ("components", lambda said: other("standard_deviation", said["mechanism"]["scale"])(said)),
        ("responses", other("keep", [0.9])),
        ("distances", lambda said: other("scale", said["mechanism"]["scale"] * 2)(said)),
        ("covariance", other("columns", 4)),
        ("covariance", lambda said: said | {"lattice": said["lattice"] | {"input_bits": 41}}),
        ("covariance sketch", other("numerics", "exact")),
        ("synthetic", lambda said: said | {"projection": said["projection"] | {"dim_in": 6}}),
        ("synthetic", lambda said: other("moments", said["mechanism"]["moments"] | {"scale": 1.0})(said)),
        ("graph-sketch", lambda said: other("ridge", said["mechanism"]["ridge"] * 1.001)(said)),
        ("graph-sketch", other("numerics", "exact")),
        ("graph-noise", lambda said: other("scale", said["mechanism"]["scale"] * 2)(said)),
        ("graph-noise", lambda said: said | {"guarantee": said["guarantee"] | {"unit": "attribute"}}),
        ("graph-responses", other("keep", 0.75)),
    ],
)
def test_a_manifest_that_contradicts_itself_is_refused(name, change, tmp_path):
    made(name).save(tmp_path / "r")
    said = json.loads((tmp_path / "r" / "manifest.json").read_text())
    reseal(tmp_path / "r")
    load(tmp_path / "r")
    reseal(tmp_path / "r", **change(said))
    with pytest.raises(ReleaseError, match="contradicts itself"):
        load(tmp_path / "r")


def test_a_graph_in_parts_is_refused(tmp_path):
    made("graph-noise").save(tmp_path / "r")
    (tmp_path / "r" / "data.parquet").rename(tmp_path / "r" / manifest.part_name(0))
    reseal(tmp_path / "r", files={manifest.part_name(0): {}})
    with pytest.raises(ReleaseError, match="contradicts itself"):
        load(tmp_path / "r")


def test_a_manifest_with_a_key_of_no_kind_is_not_written():
    said = {k: v for k, v in made("sketch").manifest.items() if k not in ("format", "version", "software", "digest")}
    assert writer.seal(said)["kind"] == "sketch"
    with pytest.raises(ReleaseError, match="does not have the form of a manifest: see mechanism"):
        writer.seal(said | {"mechanism": said["mechanism"] | {"sensitivty": 1.0}})
