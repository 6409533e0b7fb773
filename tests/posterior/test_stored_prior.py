"""A learned prior as a file: the same answers, for its own release alone; what strangers wrote is refused."""

import base64
import dataclasses
import json

import numpy as np
import pytest

from sfumato.cli import main
from sfumato.errors import ParameterError, ReleaseError
from sfumato.mechanisms.sketch import Sketch
from sfumato.pipeline.release import release
from sfumato.posterior import stored
from sfumato.privacy.guarantee import Guarantee
from sfumato.releases.release import load
from sfumato.tables.columns import Flag
from sfumato.tables.schema import Schema

WIDTH = 40


def folder(place, seed):
    """A release of records that vary along two directions."""
    rng = np.random.default_rng(seed)
    data = np.clip(0.5 + 0.12 * rng.standard_normal((200, 2)) @ rng.standard_normal((2, WIDTH)), 0, 1)
    terms = {"schema": Schema.reals(WIDTH, low=0, high=1), "mechanism": Sketch(seed=1)}
    made = release(data, **terms, guarantee=Guarantee(epsilon=4.0, unit="attribute"))
    made.save(place)
    return made


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    place = tmp_path_factory.mktemp("kept")
    made = folder(place / "r", 1)
    folder(place / "other", 2)
    load(place / "r").posterior().save(place / "r.posterior")
    return place, made


def test_a_stored_prior_gives_the_same_answers_and_nothing_is_learned_again(kept, monkeypatch):
    place, _ = kept
    before = sorted(path.name for path in (place / "r").iterdir())
    fresh = load(place / "r").nearest([3, 4], 5)
    monkeypatch.setattr("sfumato.posterior.prior.learn", None)
    again = load(place / "r")
    again.posterior(place / "r.posterior")
    found = again.nearest([3, 4], 5)
    assert np.array_equal(found.indices, fresh.indices)
    for ours, theirs in zip(found.distances.interval(), fresh.distances.interval(), strict=True):
        assert np.array_equal(ours, theirs)
    assert np.array_equal(found.expected.among_k, fresh.expected.among_k)
    assert sorted(path.name for path in (place / "r").iterdir()) == before


def test_it_is_refused_for_another_release_and_never_written_over(kept):
    place, made = kept
    with pytest.raises(ReleaseError, match="learned from another release"):
        load(place / "other").posterior(place / "r.posterior")
    with pytest.raises(ReleaseError, match="already exists"):
        load(place / "r").posterior(place / "r.posterior").save(place / "r.posterior")
    with pytest.raises(ParameterError, match="save the release"):
        made.posterior().save(place / "memory.posterior")
    with pytest.raises(ReleaseError, match=r"writing .* failed"):
        load(place / "r").posterior(place / "r.posterior").save(place / "nowhere" / "x")
    assert not list(place.glob(".*"))


def test_every_number_of_a_prior_is_stored_and_every_array_has_a_shape(kept):
    place, _ = kept
    found = json.loads((place / "r.posterior").read_text())
    posterior = load(place / "r").posterior(place / "r.posterior")
    parts = {name: getattr(posterior.beliefs.prior, name) for name in ("spectrum", "mixture", "rest")}
    parts["correction"] = posterior.correction
    for name, part in parts.items():
        for field in dataclasses.fields(part):
            key = f"{name}.{field.name}"
            assert (np.ndim(getattr(part, field.name)) > 0) == (key in stored.SHAPES)
            assert key in found


def _array(values):
    values = np.asarray(values, "<f8")
    return {"shape": list(values.shape), "float64": base64.b64encode(values.tobytes()).decode()}


FORGED = {
    "another format": {"format": "sfumato release"},
    "another version": {"version": 2},
    "version by a truth": {"version": None},
    "no number": {"spectrum.tail": "1"},
    "a truth for a number": {"spectrum.tail": True},
    "negative": {"rest.variance": -1.0},
    "other noise": {"spectrum.noise": 1.0},
    "no array": {"spectrum.mean": 1.0},
    "not a number in it": {"spectrum.mean": _array(np.full(WIDTH, np.nan))},
    "too short": {"spectrum.mean": _array(np.zeros(3))},
    "a shape that lies": {"spectrum.mean": _array(np.zeros(3)) | {"shape": [WIDTH]}},
    "a negative shape": {"spectrum.mean": _array(np.zeros(WIDTH)) | {"shape": [-1]}},
    "a shape of a truth": {"spectrum.mean": _array(np.zeros(1)) | {"shape": [True]}},
    "no base64": {"spectrum.mean": {"shape": [WIDTH], "float64": "?"}},
    "no directions": {"spectrum.variances": _array(np.zeros(0))},
    "shares of 2": {"mixture.shares": _array([2.0])},
    "shares of 0": {"mixture.shares": _array([0.0])},
    "a negative variance": {"mixture.covariances": _array(-np.eye(2)[None])},
    "lopsided": {"mixture.covariances": _array([[[1.0, 0.5], [0.0, 1.0]]])},
    "no basis": {"spectrum.basis": _array(np.zeros((WIDTH, 2)))},
    "missing": {"correction.within": None},
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_what_strangers_wrote_is_refused_in_one_line(kept, forged, tmp_path, capsys):
    place, _ = kept
    found = json.loads((place / "r.posterior").read_text()) | forged
    assert found["spectrum.variances"]["shape"] in ([2], [0])  # as the forged arrays expect
    (tmp_path / "x").write_text(json.dumps({key: value for key, value in found.items() if value is not None}))
    with pytest.raises(ReleaseError):
        load(place / "r").posterior(tmp_path / "x")
    assert main(["estimate", "nearest", str(place / "r"), "3", "--posterior", str(tmp_path / "x")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_what_rounding_does_to_a_covariance_is_no_forgery(kept, tmp_path):
    """EM makes covariances that are symmetric but for rounding, as that of digits of 784 numbers did."""
    place, _ = kept
    found = json.loads((place / "r.posterior").read_text())
    rounded = [[[0.3, 0.1 + 1e-16], [0.1, 0.1 / 3]]]  # its least eigenvalue is 0 but for rounding
    assert np.linalg.eigvalsh(rounded).min() == pytest.approx(0, abs=1e-16)
    (tmp_path / "x").write_text(json.dumps(found | {"mixture.covariances": _array(rounded)}))
    assert load(place / "r").posterior(tmp_path / "x").nearest(0, 3).indices.shape == (3,)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"format": 1, "format": 2}', "[" * 100_000])
def test_what_is_no_posterior_is_refused(kept, text, tmp_path):
    (tmp_path / "x").write_text(text)
    with pytest.raises(ReleaseError):
        load(kept[0] / "r").posterior(tmp_path / "x")


def test_a_file_that_is_too_large_or_no_file_is_not_read(kept, tmp_path):
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 30)
    for path in (tmp_path / "large", tmp_path):
        with pytest.raises(ReleaseError, match=r"not read|cannot be read"):
            load(kept[0] / "r").posterior(path)


def test_the_command_writes_it_once_and_uses_it(kept, tmp_path, capsys, monkeypatch):
    place, _ = kept
    command = ["estimate", "nearest", str(place / "r"), "3", "--posterior", str(tmp_path / "p")]
    assert main(command) == 0
    first, written = capsys.readouterr().out, (tmp_path / "p").read_bytes()
    monkeypatch.setattr("sfumato.posterior.prior.learn", None)
    assert main(command) == 0
    assert capsys.readouterr().out == first
    assert (tmp_path / "p").read_bytes() == written
    assert main([*command[:2], str(place / "other"), *command[3:]]) == 2
    assert "learned from another release" in capsys.readouterr().err


@pytest.mark.parametrize("question", ["classify", "regress"])
def test_the_command_guesses_by_public_labels(kept, question, tmp_path, capsys):
    place, _ = kept
    known = np.arange(0, 200, 2)
    labels = (load(place / "r").posterior(place / "r.posterior").means()[:, 0] > 0).astype(int)
    (tmp_path / "l.csv").write_text("record,label\n" + "\n".join(f"{i},{labels[i]}" for i in known))
    command = ["estimate", question, str(place / "r"), str(tmp_path / "l.csv"), "--k", "5"]
    assert main([*command, "--posterior", str(place / "r.posterior"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["guesses"]
    assert [line["record"] for line in found] == list(range(1, 200, 2))
    own = getattr(load(place / "r").posterior(place / "r.posterior"), question)(
        np.arange(1, 200, 2), known, labels[known], 5
    )
    assert [line["label"] for line in found] == own.tolist()
    assert np.mean((own > 0.5) == labels[1::2]) > 0.9
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "70 more records" in said
    assert "if the labelled records are a random sample" in said
    for text in ("a,b\n1,2\n", "record,label\nx,1\n", "record,label\n1,\n3,x\n", "record,label\n"):
        (tmp_path / "l.csv").write_text(text)
        assert main(command) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_the_command_clusters_posterior_means(kept, capsys):
    place, _ = kept
    command = ["estimate", "cluster", str(place / "r"), "2", "--json"]
    found = []
    for prior in ([], ["--prior", "learned"], ["--posterior", str(place / "r.posterior")]):
        assert main([*command, *prior]) == 0
        found.append(json.loads(capsys.readouterr().out)["labels"])
    assert found[1] == found[2] == load(place / "r").posterior().cluster(2).labels.tolist()
    assert found[0] == load(place / "r").cluster(2).labels.tolist()


@pytest.fixture(scope="module")
def flags(tmp_path_factory):
    """A release of rare flags, whose prior is one of levels, and the file that keeps it."""
    place, rng = tmp_path_factory.mktemp("flags"), np.random.default_rng(3)
    data = rng.random((400, 20)) < 0.1
    schema = Schema([Flag(f"f{i}") for i in range(20)])
    terms = {"schema": schema, "mechanism": Sketch(), "guarantee": Guarantee(epsilon=4.0, unit="attribute")}
    release(data.astype(float), **terms).save(place / "r")
    load(place / "r").posterior().save(place / "r.posterior")
    return place


def test_a_stored_prior_of_levels_gives_the_same_answers(flags, monkeypatch):
    fresh = load(flags / "r").nearest([3, 4], 5)
    monkeypatch.setattr("sfumato.posterior.products.fit", None)
    again = load(flags / "r")
    again.posterior(flags / "r.posterior")
    found = again.nearest([3, 4], 5)
    assert np.array_equal(found.indices, fresh.indices)
    assert all(map(np.array_equal, found.distances.interval(), fresh.distances.interval()))
    assert np.array_equal(found.expected.among_k, fresh.expected.among_k)


@pytest.mark.parametrize("name", ["products.shares", "products.chances", "gain", "error"])
def test_a_prior_of_levels_that_strangers_changed_is_refused(flags, tmp_path, name):
    whole = json.loads((flags / "r.posterior").read_text())
    forged = [{k: v for k, v in whole.items() if k != name}, whole | {name: "x"}]
    if name.startswith("products"):
        numbers = np.frombuffer(base64.b64decode(whole[name]["float64"])).copy()
        numbers[0] *= 1.5
        wrong = {"shape": whole[name]["shape"], "float64": base64.b64encode(numbers.tobytes()).decode()}
        forged += [whole | {name: wrong}, whole | {name: wrong | {"shape": [1, 1]}}]
    for place, text in enumerate(forged):
        path = tmp_path / str(place)
        path.write_text(json.dumps(text))
        with pytest.raises(ReleaseError, match="does not hold a prior"):
            load(flags / "r").posterior(path)


def test_a_prior_of_levels_does_not_serve_where_directions_are_learned(flags, kept, tmp_path):
    place, _ = kept
    whole = json.loads((flags / "r.posterior").read_text())
    (tmp_path / "p").write_text(json.dumps(whole | {"release": load(place / "r").manifest["digest"]}))
    with pytest.raises(ReleaseError, match="does not hold a prior"):
        load(place / "r").posterior(tmp_path / "p")


def test_what_lies_at_the_name_of_a_file_to_come_is_not_written_through(flags, tmp_path):
    (tmp_path / "victim").write_text("mine")
    for name in ("p", ".p.partial"):
        (tmp_path / name).symlink_to(tmp_path / "victim")
    with pytest.raises(ReleaseError, match="already exists"):
        load(flags / "r").posterior(flags / "r.posterior").save(tmp_path / "p")
    assert (tmp_path / "victim").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".p.partial", "p", "victim"]


def test_a_number_that_no_double_holds_is_refused(flags, tmp_path):
    whole = json.loads((flags / "r.posterior").read_text())
    (tmp_path / "p").write_text(json.dumps(whole | {"gain": 10**400}))
    with pytest.raises(ReleaseError, match=r"does not hold a prior|cannot be read"):
        load(flags / "r").posterior(tmp_path / "p")
