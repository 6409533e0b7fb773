"""Several releases on the command line: records named by owner, and refusals in one line."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.cli import main

SCHEMA = sf.Schema([sf.Flag(f"f{i}") for i in range(12)], scale="raw")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two owners in one space, one in another, and the same stem twice."""
    place = tmp_path_factory.mktemp("owners")
    (place / "other").mkdir()
    spaces = [sf.Space(SCHEMA, "gaussian", 6, seed=seed) for seed in (1, 2)]
    terms = [("north", 0, 20.0), ("south", 0, 5.0), ("other/north", 0, 8.0), ("west", 1, 20.0)]
    for seed, (name, space, epsilon) in enumerate(terms):
        cells = np.random.default_rng(seed).random((12, 30)) < 0.4
        table = pa.table(dict(zip(SCHEMA.source_names, cells, strict=True)))
        sf.release_to(
            place / f"{name}.release",
            table,
            mechanism=sf.Sketch(space=spaces[space], noise="gaussian"),
            guarantee=sf.Guarantee(epsilon=epsilon, delta=1e-6),
        )
    return place


@pytest.fixture
def run(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)

    def said(words, code=0):
        assert main(words.split()) == code
        captured = capsys.readouterr()
        return captured.err if code else captured.out

    return said


def same(told, found):
    """JSON has null where there is no number."""
    return np.allclose(np.nan if told is None else told, found, equal_nan=True)


@pytest.mark.parametrize("question", ["distance", "inner-product", "cosine", "hamming", "jaccard"])
def test_pairs_across_owners(run, folder, question):
    facts = json.loads(run(f"estimate {question} north.release south.release north:3 south:17 --json"))
    joined = sf.join([folder / "north.release", folder / "south.release"])
    method = getattr(joined, question.replace("-", "_"))
    found = method(joined.at("north", 3), joined.at("south", 17))
    assert same(facts["value"], found.value)
    assert np.allclose([facts["low"], facts["high"]], np.ravel(found.interval()))
    alone = json.loads(run(f"estimate {question} north.release 3 17 --json"))
    assert same(alone["value"], getattr(sf.load("north.release"), question.replace("-", "_"))(3, 17).value)


def test_owners_can_be_named(run):
    one = run("estimate distance a=north.release b=other/north.release a:3 b:17")
    assert one.startswith("Squared distance: ")
    assert run("estimate distance b=other/north.release north.release north:3 b:17") == one


def test_the_nearest_name_their_owner(run, folder):
    facts = json.loads(run("estimate nearest north.release south.release north:3 --k 4 --json"))["nearest"]
    joined = sf.join([folder / "north.release", folder / "south.release"])
    found = joined.nearest(3, 4)
    assert [(f["owner"], f["record"]) for f in facts] == list(
        zip(joined.owner_of(found.indices), joined.record_of(found.indices).tolist(), strict=True)
    )
    text = run("estimate nearest north.release south.release north:3 --k 4 --among south")
    assert text.count("south:") == 4
    assert "north:" not in text
    assert "owner" not in json.loads(run("estimate nearest north.release 3 --k 2 --json"))["nearest"][0]


def test_clusters_over_owners(run):
    facts = json.loads(run("estimate cluster north.release south.release 3 --json"))
    assert len(facts["labels"]) == sum(facts["sizes"]) == 60
    assert run("estimate cluster north.release south.release 3").count("Cluster ") == 3


def test_show_states_what_somebody_loses_who_is_with_both(run):
    facts = json.loads(run("show north.release south.release --json"))
    assert facts["kind"] == "joined"
    assert facts["several"]["delta"] == 2e-6
    assert 20 <= facts["several"]["epsilon"] <= 25
    assert "Somebody who is with all of them: epsilon" in run("show north.release south.release")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("estimate distance north.release south.release 3 south:1", "3: say whose record it is, such as north:3"),
        ("estimate distance north.release north:3 4", "north:3: there is one release"),
        ("estimate distance north.release south.release east:3 south:1", "there is no owner 'east'"),
        (
            "estimate distance north.release south.release north:30 south:1",
            "records of north are numbered 0 to 29, got 30\n",
        ),
        ("estimate distance north.release 3 9000", "records are numbered 0 to 29, got 9000\n"),
        ("estimate distance north.release west.release north:3 west:1", "they differ in seed (1 and 2)"),
        ("estimate distance north.release other/north.release north:3 north:1", "two owners would be called 'north'"),
        ("estimate distance a=north.release a=south.release a:3 a:1", "two releases have the same name"),
        ("estimate distance north.release north.release north:3 north:1", "two owners would be called 'north'"),
        ("estimate distance a=north.release b=north.release a:3 b:1", "a and b are copies of one release"),
        ("estimate nearest north.release south.release north:3 --prior learned", "no prior is learned of several"),
        ("estimate cluster north.release south.release 3 --posterior p", "no prior is learned of several"),
        ("estimate nearest north.release 3 --among south", "--among south needs several releases"),
    ],
)
def test_refusals_take_one_line(run, words, said):
    told = run(words, 2)
    assert said in told
    assert len(told.strip().splitlines()) == 1


def test_a_record_that_is_none_is_refused_by_its_form(capsys):
    with pytest.raises(SystemExit):
        main(["estimate", "distance", "north.release", "north:x", "3"])
    assert "OWNER:NUMBER" in capsys.readouterr().err


def test_a_missing_number_of_clusters_is_named(run, capsys):
    del run
    with pytest.raises(SystemExit):
        main(["estimate", "cluster", "north.release", "south.release"])
    assert "the number of clusters is missing" in capsys.readouterr().err


def test_other_kinds_are_refused(run, folder):
    cells = np.random.default_rng(1).random((12, 30)) < 0.4
    table = pa.table(dict(zip(SCHEMA.source_names, cells, strict=True)))
    pq.write_table(table, folder / "t.parquet")
    sf.release_to(
        folder / "sums.release",
        table,
        schema=SCHEMA,
        mechanism=sf.Covariance(),
        guarantee=sf.Guarantee(epsilon=1, delta=1e-6),
    )
    assert "of kind 'covariance'" in run("estimate distance north.release sums.release north:3 sums:1", 2)
