"""Links of two owners' records: how many are false, as estimated and in truth; refusals; the command."""

import csv
import dataclasses
import json
import math

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.cli import main
from sfumato.intervals.moments import NoiseLaw
from sfumato.owners import candidate_pairs, decoys, links
from sfumato.owners.decoys import Competition
from sfumato.randomness.secret import Secret
from tests.support import evidence

WIDTH = 30
FLAGS = sf.Schema([sf.Flag(f"f{i}") for i in range(WIDTH)], scale="raw")
REALS = sf.Schema([sf.Real(f"x{i}", -4, 4) for i in range(WIDTH)], scale="raw")
COLUMNS = sf.Space(FLAGS, "identity", seed=5)
SPARSE = sf.Space(REALS, "sparse", 16, seed=5)


def people(count, seed, *, flags=True):
    luck = np.random.default_rng(seed)
    if flags:
        return luck.random((count, WIDTH)) < np.linspace(0.05, 0.6, WIDTH)
    return np.clip(
        luck.normal(size=(count, 4)) @ luck.normal(size=(4, WIDTH)) / 2 + luck.normal(size=(count, WIDTH)) / 2, -4, 4
    )


def parts(count, both, seed, *, flags=True):
    """Two owners' rows; the first ``both`` of each are the same people, of whom the second mistyped some cells."""
    rows = people(2 * count - both, seed, flags=flags)
    luck, other = np.random.default_rng([seed, 1]), people(count, [seed, 2], flags=flags)
    second = np.concatenate([rows[:both], rows[count:]])
    return rows[:count], np.where(luck.random(second.shape) < 0.02, other, second)


def sketch(rows, space, epsilon, seed, noise="laplace"):
    names = space.schema.source_names
    promise = sf.Guarantee(epsilon=epsilon, unit="attribute", delta=1e-6 * (noise == "gaussian"))
    return sf.release(
        pa.table(dict(zip(names, rows.T, strict=True))),
        mechanism=sf.Sketch(space=space, noise=noise),
        guarantee=promise,
        secret=Secret.for_testing(seed),
    )


def owners(both, seed=0, epsilons=(10, 10), space=COLUMNS, count=500, noise="laplace"):
    tables = parts(count, both, seed, flags=space is COLUMNS)
    return [
        sketch(rows, space, e, 2 * seed + k, noise) for k, (rows, e) in enumerate(zip(tables, epsilons, strict=True))
    ]


def right(found):
    return np.equal(*found.pairs.T)


def with_noise(release, factor):
    """The same numbers, with a manifest that says another noise."""
    facts = dict(release.manifest["mechanism"])
    facts["standard_deviation"] *= factor
    return dataclasses.replace(release, manifest={**release.manifest, "mechanism": facts})


# ---- false links, estimated and true --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def found():
    return links.link(*owners(150))


def test_folders_are_linked_as_releases_are(found, tmp_path):
    for name, release in zip("ab", owners(150), strict=True):
        release.save(tmp_path / f"{name}.release")
    again = sf.link(tmp_path / "a.release", str(tmp_path / "b.release"), allow_unprotected=True)
    np.testing.assert_array_equal(again.pairs, found.pairs)
    with pytest.raises(sf.ReleaseError, match="test noise"):
        sf.link(tmp_path / "a.release", tmp_path / "b.release")


def test_links_are_found_one_to_one_and_most_of_them_are_right(found):
    kept = found.at(fdr=0.1)
    assert len(kept) > 50
    assert np.mean(right(kept)) > 0.8
    assert len(set(found.pairs[:, 0])) == len(set(found.pairs[:, 1])) == len(found)
    assert 60 < found.expected_matches < 200


def test_rates_and_probabilities_fall_in_order(found):
    assert np.all(np.diff(found.rates) >= 0)
    assert np.all(np.diff(found.probability) <= 0)
    assert found.at(fdr=0.1).fdr() <= 0.1
    assert found.fdr(at=found.probability[40]) >= found.rates[40]
    assert found.fdr(at=1.0) <= found.fdr(at=0.5) <= found.fdr()
    assert len(found.at(fdr=0.0)) == 0
    assert found.at(fdr=0.0).fdr() == 0.0


def test_links_say_no_more_than_they_know(found):
    """Noise hides matches, so their number is at least what is believed; without links it is not told at all."""
    believed = f"At least about {found.expected_matches:.0f} records are believed to be with both owners."
    assert found.describe(0.1).endswith(f"% are estimated to be false.\n{believed}")
    assert f"at least about {found.expected_matches:.0f} records are with both" in repr(found)
    none = found.describe(0.0).splitlines()
    assert none[0] == (
        "No links at 0%. At this noise links cannot be told from chance: this says nothing about how many people are "
        "with both owners."
    )
    assert none[1:] == [f"At 10%: {len(found.at(0.1))} links; at 20%: {len(found.at(0.2))}."]
    assert found.at(0.0).describe(0.0) == none[0]  # the others are not there to be counted
    assert repr(found.at(0.0)) == "<no links of two owners, which does not say that nobody is with both>"


def test_where_all_shares_are_loose_nothing_is_told_of_looser_ones(found):
    few = dataclasses.replace(found, pairs=found.pairs[:1], probability=found.probability[:1], rates=found.rates[:1])
    told = few.describe(0.2)
    assert told.startswith("1 link, of which ")
    assert told.endswith("\nAt 50%: 1 links.")
    assert "At " not in few.describe(0.5).replace("At least", "")


def _goes_to_decoys(epsilons, space, noise, factor=1.0):
    """Of owners who have nobody in common: whether each link goes to a decoy."""
    found = []
    for seed in range(4):
        a, b = owners(0, seed, epsilons, space, count=300, noise=noise)
        found += links._linked(a, with_noise(b, factor))[0].decoys.tolist()
    return np.array(found, float)


@pytest.mark.parametrize(
    ("epsilons", "space", "noise"),
    [((14, 7), COLUMNS, "laplace"), ((30, 30), SPARSE, "gaussian"), ((60, 30), SPARSE, "laplace")],
)
def test_links_without_anybody_in_common_go_to_decoys_as_often(epsilons, space, noise):
    assert evidence.agrees(_goes_to_decoys(epsilons, space, noise), 0.5)


def test_a_wrong_noise_scale_is_caught():
    """The power of the test above: where a manifest says twice the noise, decoys are not what false links go to."""
    assert not evidence.agrees(_goes_to_decoys((30, 30), SPARSE, "gaussian", 2.0), 0.5)


@pytest.mark.parametrize(
    ("space", "epsilons", "noise"), [(COLUMNS, (9, 12), "laplace"), (SPARSE, (200, 200), "gaussian")]
)
def test_the_estimated_share_of_false_links_is_near_the_true_one(space, epsilons, noise):
    wrong, guessed, declared = 0, 0.0, 0
    for seed in range(4):
        kept = links.link(*owners(150, seed + 10, epsilons, space, noise=noise)).at(fdr=0.2)
        wrong, declared = wrong + int(np.sum(~right(kept))), declared + len(kept)
        guessed += kept.fdr() * len(kept)
    assert declared > 100
    assert abs(wrong - guessed) <= 0.1 * declared


# ---- decoys ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kinds", "tail"), [(("laplace", "laplace"), 0), (("gaussian", "gaussian"), 0), (("laplace", "gaussian"), None)]
)
def test_noise_is_added_until_its_law_is_the_wanted_one(kinds, tail):
    has, wanted = NoiseLaw(kinds[0], 1.0), NoiseLaw(kinds[1], 2.0)
    luck = np.random.default_rng(3)
    draws = luck.laplace(0, 1 / math.sqrt(2), (1000, 400)) if kinds[0] == "laplace" else luck.normal(size=(1000, 400))
    made = decoys.noisier(draws, has, wanted).ravel()
    assert evidence.agrees(made**2, 4.0)
    if tail is not None:
        far = wanted.tail(0.01, 1)
        assert evidence.agrees((made > far).astype(float), 0.01)
    assert decoys.noisier(draws, has, has) is draws


def test_false_rates_count_decoys_and_one_more():
    taken = np.array([False] * 8 + [True] + [False] * 3)
    competition = Competition(np.arange(12), np.arange(12), -np.arange(12.0), taken, 1000, 1000)
    rates = competition.false_rates()
    np.testing.assert_allclose(rates[7], 1 / 1000 / (1 - 1 / 1000) * 992 / 8)
    np.testing.assert_allclose(rates[-1], 2 / 1000 / (1 - 2 / 1000) * 989 / 11)
    assert np.all((competition.probabilities() > 0) & (competition.probabilities() < 1))


def test_means_that_fall_are_pooled():
    np.testing.assert_allclose(decoys.isotonic(np.array([1.0, 0, 0, 3]), np.ones(4)), [1 / 3] * 3 + [3])


@pytest.mark.parametrize("same", [True, False])
def test_candidates_are_the_largest_products(same, monkeypatch):
    monkeypatch.setattr(candidate_pairs, "_ROWS", 7)
    monkeypatch.setattr(candidate_pairs, "_COLUMNS", 11)
    rows = np.random.default_rng(2).normal(size=(40, 5)).astype(np.float32)
    every = rows @ rows.T - np.diag([np.inf] * 40 if same else [0] * 40)
    wanted = np.argsort(-every, axis=1)[:, :3]
    np.testing.assert_array_equal(np.sort(candidate_pairs.best(rows, rows, 3, same=same)), np.sort(wanted))


# ---- what is refused, and what is said ------------------------------------------------------------------------------


def test_links_say_what_somebody_loses_who_is_with_both(found):
    assert found.several["epsilon"] == pytest.approx(20)
    assert "both owners" in found.privacy
    assert "20" in found.privacy
    assert "epsilon 20 for one value with each, epsilon 600 " in found.privacy
    assert found.privacy.endswith("for a whole record with each.")
    assert found.table().column_names == ["first", "second", "probability", "false_rate"]
    assert repr(found).startswith(f"<{len(found)} links of two owners")


def test_the_louder_owner_may_come_first():
    a, b = owners(150, 3, (8, 14))
    kept = links.link(a, b).at(fdr=0.2)
    turned = links.link(b, a).at(fdr=0.2)
    assert len(kept) > 20
    assert np.array_equal(np.sort(kept.pairs, axis=0), np.sort(turned.pairs[:, ::-1], axis=0))


def test_releases_that_cannot_be_linked_are_refused():
    a, _ = owners(150)
    rows = people(500, 9)
    other = sketch(rows, sf.Space(FLAGS, "sparse", 16, seed=5), 4, 3)
    with pytest.raises(sf.ReleaseError, match="same space"):
        links.link(a, other)
    with pytest.raises(sf.ReleaseError, match="seed"):
        links.link(other, sketch(rows, sf.Space(FLAGS, "sparse", 16, seed=6), 4, 4))
    with pytest.raises(sf.ParameterError, match="same release"):
        links.link(a, a)
    with pytest.raises(sf.ReleaseError, match="100 records"):
        links.link(a, sketch(rows[:50], COLUMNS, 4, 4))
    with pytest.raises(sf.ParameterError, match="must be a sketch"):
        links.link(a, 3)
    with pytest.raises(sf.ReleaseError, match=r"b\.release"):
        links.link(a, "b.release")


def test_sketches_in_no_space_are_linked_by_their_projection():
    rows, told = people(200, 4), sf.Guarantee(epsilon=10, unit="attribute")
    table = pa.table(dict(zip(FLAGS.source_names, rows.T, strict=True)))
    made = [
        sf.release(table, schema=FLAGS, mechanism=recipe, guarantee=told, secret=Secret.for_testing(seed))
        for seed, recipe in enumerate(
            (sf.Sketch(noise="laplace"), sf.Sketch(noise="laplace"), sf.Sketch(dimension=8, seed=3))
        )
    ]
    assert len(links.link(made[0], made[1]).at(fdr=0.2)) > 20
    with pytest.raises(sf.ReleaseError, match="the family of projections"):
        links.link(made[0], made[2])


def test_the_command_writes_links(tmp_path, capsys):
    for name, made in zip("ab", owners(150), strict=True):
        made.save(tmp_path / f"{name}.release")
    out, folders = tmp_path / "pairs.csv", [str(tmp_path / f"{name}.release") for name in "ab"]
    words = ["link", *folders, "--fdr", "0.1", "--allow-unprotected"]
    assert main([*words, "--out", str(out)]) == 0
    told = capsys.readouterr().out
    assert "links, of which" in told
    assert "epsilon 20" in told
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert main([*words, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert len(rows) == facts["links"] == len(facts["pairs"])
    assert main([*words[:-3], "--fdr", "0", "--allow-unprotected"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("No links at 0%. At this noise links cannot be told from chance")
    assert "\nAt 10%: " in told
    assert "believed" not in told
    assert main([*words, "--out", str(out)]) == 2
    assert "exists" in capsys.readouterr().err
