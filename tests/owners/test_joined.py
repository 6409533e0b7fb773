"""Sketches of several owners, joined: rows know their owner, and every answer both noises."""

import dataclasses
import math

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.estimation import sketches
from sfumato.intervals.moments import SketchLaw
from sfumato.owners import clustering, owner_rows
from sfumato.owners.clustering import OwnedRows
from sfumato.randomness.secret import Secret

FLAGS = sf.Schema([sf.Flag(f"f{i}") for i in range(24)], scale="raw")
REALS = sf.Schema([sf.Real(f"x{i}", 0, 1) for i in range(10)], scale="raw")
TERMS = {"a": (8.0, 1e-6, "gaussian"), "b": (30.0, 0.0, "laplace"), "c": (20.0, 1e-6, "gaussian")}


def data(schema, rows, seed):
    luck, names = np.random.default_rng(seed), [column.name for column in schema.columns]
    cells = luck.random((len(names), rows))
    return pa.table(dict(zip(names, cells < 0.4 if schema is FLAGS else cells, strict=True)))


def made(schema, terms, space, rows=30, seed=0, **more):
    epsilon, delta, noise = terms
    return sf.release(
        data(schema, rows, seed),
        schema=schema,
        mechanism=sf.Sketch(space=space, noise=noise, **more),
        guarantee=sf.Guarantee(epsilon=epsilon, delta=delta, unit="record"),
        secret=Secret.for_testing(seed),
    )


def several_owners(schema=FLAGS, family="gaussian", dimension=8):
    space = sf.Space(schema, family, dimension, seed=5)
    return {name: made(schema, terms, space, rows=20 + 5 * i, seed=i) for i, (name, terms) in enumerate(TERMS.items())}


@pytest.fixture(scope="module")
def owners():
    return several_owners()


@pytest.fixture(scope="module")
def joined(owners):
    return sf.join(owners, allow_unprotected=True)


# ---- who is who -----------------------------------------------------------------------------------------------------


def test_positions_run_through_all_owners(joined, owners):
    assert joined.owners == ("a", "b", "c")
    assert joined.rows == 20 + 25 + 30
    assert joined.at("b", 3) == 23
    assert joined.at("c", [0, 29]).tolist() == [45, 74]
    assert joined.owner_of(19) == "a"
    assert joined.owner_of([20, 45]) == ["b", "c"]
    assert joined.record_of(46) == 1
    assert joined.record_of([19, 20]).tolist() == [19, 0]
    assert np.array_equal(joined.array(), np.concatenate([one.array() for one in owners.values()]))
    assert repr(joined) == "<joined sketches of 3 owners (a, b, c), 75 records>"
    assert {name: promise.epsilon for name, promise in joined.guarantees.items()} == {"a": 8.0, "b": 30.0, "c": 20.0}
    for wrong in (75, -1):
        with pytest.raises(sf.ParameterError, match="numbered 0 to 74"):
            joined.owner_of(wrong)
    with pytest.raises(sf.ParameterError, match="records of a are numbered 0 to 19"):
        joined.at("a", 20)
    with pytest.raises(sf.ParameterError, match="no owner 'd'"):
        joined.at("d", 0)


def test_owners_are_called_by_letters_or_stems(owners, tmp_path):
    one, two, three = owners.values()
    assert sf.join([one, two], allow_unprotected=True).owners == ("a", "b")
    for name, release in zip(("b.release", "north.release"), (one, two), strict=True):
        release.save(tmp_path / name)
    mixed = sf.join([three, tmp_path / "b.release", str(tmp_path / "north.release")], allow_unprotected=True)
    assert mixed.owners == ("a", "b", "north")
    one.save(tmp_path / "other.release")
    (tmp_path / "x").mkdir()
    two.save(tmp_path / "x" / "b.release")
    with pytest.raises(sf.ParameterError, match="two owners would be called 'b'"):
        sf.join([tmp_path / "b.release", tmp_path / "x" / "b.release"], allow_unprotected=True)
    with pytest.raises(sf.ReleaseError, match="b and other are copies of one release"):
        sf.join([tmp_path / "b.release", tmp_path / "other.release"], allow_unprotected=True)
    with pytest.raises(sf.ReleaseError, match="a and b are copies"):
        sf.join([one, one], allow_unprotected=True)


def test_folders_answer_as_loaded_releases_do(owners, joined, tmp_path, monkeypatch):
    monkeypatch.setattr(owner_rows, "_NUMBERS", 7 * 8)  # blocks of seven rows
    for name, release in owners.items():
        release.save(tmp_path / f"{name}.release")
    lazy = sf.join([tmp_path / f"{name}.release" for name in owners], allow_unprotected=True)
    assert np.array_equal(lazy.array(), joined.array())
    pairs = [0, 21, 50, 3], [70, 22, 10, 4]
    for question in ("distances", "inner_product", "cosine", "hamming", "jaccard"):
        one, two = (getattr(release, question)(*pairs) for release in (lazy, joined))
        assert np.array_equal(one.uncut, two.uncut, equal_nan=True)
        assert np.array_equal(one.interval(), two.interval())
    assert np.array_equal(lazy.nearest(3, 5).indices, joined.nearest(3, 5).indices)
    assert np.allclose(lazy.cluster(3).within, joined.cluster(3).within, rtol=1e-5)
    public = data(FLAGS, 1, 9)
    assert np.array_equal(lazy.distances_to([1, 50], public).uncut, joined.distances_to([1, 50], public).uncut)


# ---- answers --------------------------------------------------------------------------------------------------------


def test_within_one_owner_answers_are_those_of_its_release(owners, joined):
    for name, release in owners.items():
        first, second = [0, 4, 7], [1, 9, 15]
        for question in ("distances", "inner_product", "cosine", "hamming", "jaccard"):
            alone = getattr(release, question)(first, second)
            found = getattr(joined, question)(joined.at(name, first), joined.at(name, second))
            assert np.array_equal(alone.uncut, found.uncut, equal_nan=True)
            assert np.array_equal(alone.standard_error, found.standard_error)
            assert np.array_equal(alone.interval(), found.interval())
            assert alone.quantity == found.quantity
        assert np.array_equal(release.norm(first).interval(), joined.norm(joined.at(name, first)).interval())
        public = data(FLAGS, 1, 8)
        found = joined.distances_to(joined.at(name, first), public)
        assert np.array_equal(release.distances_to(first, public).interval(), found.interval())


def test_across_owners_answers_know_both_noises(owners, joined):
    a, b = owners["a"], owners["b"]
    law = SketchLaw(a.noise, a.geometry, b.noise)
    expected = sketches.squared_distance(a.array()[2], b.array()[7], law)
    found = joined.distance(joined.at("a", 2), joined.at("b", 7))
    turned = joined.distance(joined.at("b", 7), joined.at("a", 2))
    bias = a.dimension * (a.noise.variance + b.noise.variance)
    assert found.uncut == turned.uncut == expected.uncut
    assert math.isclose(found.uncut, np.sum((a.array()[2] - b.array()[7]) ** 2) - bias)
    assert found.interval() == turned.interval()
    whole = expected.interval()
    assert found.interval() == (max(whole[0], 0.0), min(whole[1], 24.0))
    assert isinstance(found.value, float)


def test_pairs_of_many_owners_come_in_their_order(joined):
    first, second = [0, 21, 50, 3, 60], [70, 1, 51, 24, 30]
    for question in ("distances", "inner_product", "cosine", "jaccard"):
        together = getattr(joined, question)(first, second)
        for place, (i, j) in enumerate(zip(first, second, strict=True)):
            alone = getattr(joined, question)([i], [j])
            assert np.allclose(together.uncut[place], alone.uncut[0], equal_nan=True)
            assert np.allclose([end[place] for end in together.interval()], np.ravel(alone.interval()))
    norms = joined.norm(first)
    assert np.allclose(norms.uncut, [joined.norm([i]).uncut[0] for i in first])
    with pytest.raises(sf.ParameterError, match="same length"):
        joined.distances([0], [1, 2])


def test_hamming_and_jaccard_need_flags():
    reals = sf.join(several_owners(REALS), allow_unprotected=True)
    for question in (reals.hamming, reals.jaccard):
        with pytest.raises(sf.ReleaseError, match="flags only"):
            question(0, 1)


# ---- neighbours -----------------------------------------------------------------------------------------------------


def noisy_owners(spreads, rows, dimension=6, seed=1, apart=0.0):
    """Joined sketches of records that are the same, or so far apart, under noise of these scales."""
    space = sf.Space(REALS, "gaussian", dimension, seed=3)
    first = made(REALS, TERMS["a"], space)
    luck, owners = np.random.default_rng(seed), {}
    for place, spread in enumerate(spreads):
        facts = {**first.manifest["mechanism"], "standard_deviation": spread, "scale": spread}
        manifest = {**first.manifest, "rows": rows, "mechanism": facts}
        owners[f"o{place}"] = dataclasses.replace(
            first, manifest=manifest, columns=luck.normal(0, math.hypot(spread, apart), (dimension, rows))
        )
    return sf.join(owners, allow_unprotected=True)


def test_nearest_rows_are_ranked_free_of_each_owners_noise(joined):
    found = joined.nearest(joined.at("a", 4), 6)
    every = np.setdiff1d(np.arange(joined.rows), [4])
    estimates = joined.distances(np.full(every.size, 4), every)
    usual = joined._usual(np.array([4]), joined.array()[[4]], [0, 1, 2])
    places = joined._owners(every)
    mean = usual.mean[0] + np.sum(joined.array()[4] ** 2) - joined.dimension * joined.law.variances[0]
    shrunk = (estimates.uncut - mean) / (usual.spread[0] + usual.noise[0, places])
    assert found.indices.tolist() == every[np.argsort(shrunk, kind="stable")[:6]].tolist()
    assert np.array_equal(found.distances.uncut, joined.distances(np.full(6, 4), found.indices).uncut)
    low, high = found.distances.interval()
    alone = joined.distances(np.full(6, 4), found.indices).interval(1 - 0.05 / 74)
    assert np.array_equal((low, high), alone)
    among = joined.nearest(4, 3, among="c")
    assert set(joined.owner_of(among.indices)) == {"c"}
    many = joined.nearest([4, 30], 6)
    assert many.indices.shape == many.distances.value.shape == (2, 6)
    assert many.indices[0].tolist() == found.indices.tolist()
    assert np.allclose(many.distances.uncut[0], found.distances.uncut)
    with pytest.raises(sf.ParameterError, match="k must be at most 19"):
        joined.nearest(4, 20, among="a")
    with pytest.raises(sf.ParameterError, match="no owner"):
        joined.nearest(4, 2, among="d")


@pytest.mark.parametrize("asking", ["o0", "o2"])
def test_the_noisiest_owner_is_not_all_that_is_near(asking):
    """Unbiased estimates of a noisy owner scatter so much that the smallest would all be that owner's."""
    three = noisy_owners((6.0, 0.4, 0.2), 300, apart=1.0)
    index = np.arange(40) + three.at(asking, 0)
    share = np.mean(three._owners(three.nearest(index, 10).indices.ravel()) == 0)
    assert share < 1 / 3 + 0.1
    among_all = np.delete(np.arange(three.rows), index[0])
    plain = among_all[np.argsort(three.distances(np.full(three.rows - 1, index[0]), among_all).uncut)[:10]]
    assert np.mean(three._owners(plain) == 0) > 0.8


def test_shrinking_finds_more_of_the_truly_near():
    luck, spreads = np.random.default_rng(4), (6.0, 0.4, 0.2)
    three = noisy_owners(spreads, 300)
    true = luck.normal(0, 1, (three.rows, three.dimension))
    held = [
        dataclasses.replace(one, release=dataclasses.replace(one.release, columns=one.release.columns + part.T))
        for one, part in zip(three.held, np.split(true, 3), strict=True)
    ]
    three = dataclasses.replace(three, held=tuple(held))
    index = np.arange(600, 660)
    apart = np.sum((true[index][:, None] - true) ** 2, axis=2)
    near = [set(np.argsort(row)[1:51]) for row in apart]
    found = three.nearest(index, 20).indices
    hits = np.mean([len(near[i] & set(row)) for i, row in enumerate(found.tolist())])
    assert hits > 8  # of 20, where as many of 50 in 900 would be one by chance


def test_equal_noise_ranks_as_unbiased_estimates_do():
    two = noisy_owners((0.5, 0.5), 100, apart=1.0)
    every = np.setdiff1d(np.arange(two.rows), [7])
    plain = every[np.argsort(two.distances(np.full(every.size, 7), every).uncut, kind="stable")[:9]]
    found = two.nearest(7, 9)
    assert found.indices.tolist() == plain.tolist()
    assert found.note == ""


def test_an_owner_whose_noise_decides_nothing_is_named():
    assert noisy_owners((6.0, 0.4, 0.2), 300, apart=1.0).nearest(700, 5).note == (
        "Noise hides which records of o0 are nearer: their ranks say next to nothing."
    )
    assert "of any owner" in noisy_owners((6.0, 0.4, 0.2), 300, apart=1.0).nearest(3, 5).note  # it is noise itself
    assert noisy_owners((0.3, 0.2), 300, apart=1.0).nearest(3, 5).note == ""
    few = noisy_owners((0.3, 0.2), 1, apart=1.0)  # nothing to learn from
    assert few.nearest(0, 1).indices.tolist() == [1]


def test_quiet_owners_do_not_look_nearer():
    """All records are equal, so half of the nearest half should be of each owner; by released numbers none would be."""
    both = noisy_owners((0.5, 2.0), 400)
    shares = [np.mean([owner == "o1" for owner in both.owner_of(both.nearest(i, 400).indices)]) for i in range(20)]
    assert 0.35 < np.mean(shares) < 0.65
    rows, raw = both.array(), []
    for i in range(20):
        apart = np.sum((rows - rows[i]) ** 2, axis=1)
        raw.append(np.mean(np.argsort(apart)[1:401] >= 400))
    assert np.mean(raw) < 0.1


# ---- clusters -------------------------------------------------------------------------------------------------------


def clouds(scales, rows, k=4, seed=0):
    luck = np.random.default_rng(seed)
    centres = luck.normal(0, 3, (3, k))
    labels = [luck.integers(0, 3, rows) for _ in scales]
    parts = [centres[own] + luck.normal(0, scale, (rows, k)) for own, scale in zip(labels, scales, strict=True)]

    def passes():
        for place, part in enumerate(parts):
            for start in range(0, rows, 100):
                yield place, place * rows + start, part[start : start + 100].astype(np.float32)

    return centres, np.concatenate(labels), OwnedRows(np.full(len(scales), rows), np.square(scales), passes)


def test_clusters_find_their_centres_and_noisy_owners_count_less():
    centres, labels, rows = clouds((0.2, 2.0), 600)
    found = clustering.cluster(rows, 3, np.random.default_rng(0))
    apart = np.linalg.norm(found.centres[:, None] - centres, axis=2)
    order = apart.argmin(axis=0)
    assert sorted(order) == [0, 1, 2]
    weighted = apart.min(axis=0).max()
    alike = OwnedRows(rows.counts, np.full(2, 1e6), rows.passes)  # one weight for all
    plain = clustering.cluster(alike, 3, np.random.default_rng(0))
    assert weighted < 0.1
    assert np.linalg.norm(plain.centres[:, None] - centres, axis=2).min(axis=0).max() > 2 * weighted
    assert np.mean(order[labels[:600]] == found.labels[:600]) > 0.99
    assert found.labels.shape == (1200,)


def test_spread_records_make_all_owners_count_alike():
    """Where records spread far more than the noise, weights are equal: those of plain k-means."""
    _, _, rows = clouds((1.0, 1.0), 300)
    quiet = OwnedRows(rows.counts, np.array([1e-6, 1e-4]), rows.passes)
    one, two = (clustering.cluster(each, 3, np.random.default_rng(0)) for each in (quiet, rows))
    assert np.allclose(one.centres, two.centres, atol=1e-3)


def test_joined_rows_are_clustered(joined):
    found = joined.cluster(3)
    assert found.labels.shape == (75,)
    assert found.centres.shape == (3, 8)
    nearest = np.linalg.norm(joined.array()[:, None] - found.centres, axis=2).argmin(axis=1)
    assert np.array_equal(nearest, found.labels)
    with pytest.raises(sf.ParameterError, match="clusters must be at most 75"):
        joined.cluster(76)


# ---- refusals -------------------------------------------------------------------------------------------------------


def test_spaces_that_do_not_match_are_refused_by_what_differs(owners):
    other = made(FLAGS, TERMS["b"], sf.Space(FLAGS, "gaussian", 8, seed=6), seed=3)
    with pytest.raises(sf.ReleaseError, match=r"a and b are not in the same space: they differ in seed \(5 and 6\)"):
        sf.join([owners["a"], other], allow_unprotected=True)
    smaller = made(FLAGS, TERMS["b"], sf.Space(FLAGS, "gaussian", 4, seed=5), seed=3)
    with pytest.raises(sf.ReleaseError, match=r"dimension \(8 and 4\)"):
        sf.join([owners["a"], smaller], allow_unprotected=True)


def test_parts_of_columns_are_compared_with_the_same_part_only(owners):
    space = sf.Space(FLAGS, "gaussian", 8, seed=5)
    names = tuple(f"f{i}" for i in range(12))
    parts = [
        sf.release(
            data(FLAGS, 12, seed),
            mechanism=sf.Sketch(space=space, columns=held, noise="gaussian"),
            guarantee=sf.Guarantee(epsilon=50.0, delta=1e-6, unit="record"),
            secret=Secret.for_testing(seed),
        )
        for seed, held in enumerate((names, names, names[:6]))
    ]
    assert sf.join(parts[:2], allow_unprotected=True).rows == 24
    for other in (parts[2], owners["a"]):
        with pytest.raises(sf.ReleaseError, match="different columns"):
            sf.join([parts[0], other], allow_unprotected=True)


def test_what_cannot_be_joined_is_refused(owners, tmp_path):
    one = owners["a"]
    for few in ([], [one]):
        with pytest.raises(sf.ParameterError, match="at least two"):
            sf.join(few, allow_unprotected=True)
    for wrong in ("a.release", 3):
        with pytest.raises(sf.ParameterError, match="list of sketches"):
            sf.join(wrong)
    with pytest.raises(sf.ParameterError, match="object of type int"):
        sf.join([one, 3], allow_unprotected=True)
    with pytest.raises(sf.ReleaseError, match="protects nobody"):
        sf.join([one, owners["b"]])
    one.save(tmp_path / "a.release")
    with pytest.raises(sf.ReleaseError, match="protects nobody"):
        sf.join([tmp_path / "a.release", owners["b"]])
    with pytest.raises(sf.ReleaseError, match="no release folder"):
        sf.join([tmp_path / "none.release", one], allow_unprotected=True)
    own = sf.release(
        data(FLAGS, 9, 1),
        schema=FLAGS,
        mechanism=sf.Sketch(projection="sparse", dimension=8, seed=5),
        guarantee=sf.Guarantee(epsilon=1.0, unit="record"),
        secret=Secret.for_testing(1),
    )
    with pytest.raises(sf.ReleaseError, match="no shared space"):
        sf.join([one, own], allow_unprotected=True)
    terms = {"guarantee": sf.Guarantee(epsilon=1.0, delta=1e-6, unit="record"), "secret": Secret.for_testing(1)}
    moments = sf.release(data(FLAGS, 9, 1), schema=FLAGS, mechanism=sf.Covariance(), **terms)
    with pytest.raises(sf.ReleaseError, match="of kind 'covariance'"):
        sf.join([one, moments], allow_unprotected=True)


# ---- what somebody loses --------------------------------------------------------------------------------------------


def test_the_manifest_states_what_somebody_loses_who_is_with_all(owners, joined, monkeypatch):
    monkeypatch.setattr("sfumato.owners.several._DISTRIBUTIONS", 0)  # at such epsilons they take seconds
    facts = joined.manifest
    assert [one["rows"] for one in facts["owners"]] == [20, 25, 30]
    assert [one["guarantee"]["epsilon"] for one in facts["owners"]] == [8.0, 30.0, 20.0]
    assert facts["space"]["digest"] == owners["a"].manifest["space"]["digest"]
    assert "several" in facts
    space, low = sf.Space(FLAGS, "sparse", 8, seed=5), [(1.0, 1e-6, "gaussian"), (0.5, 1e-6, "gaussian")]
    both = sf.join([made(FLAGS, terms, space, seed=i) for i, terms in enumerate(low)], allow_unprotected=True)
    assert both.several["delta"] == 2e-6
    assert 1.0 < both.several["epsilon"] < 1.5


def test_a_notebook_shows_owners_and_what_somebody_loses():
    space = sf.Space(FLAGS, "gaussian", 8, seed=5)
    terms = [(1.0, 1e-6, "gaussian"), (0.5, 1e-6, "gaussian")]
    both = {f"<{i}>": made(FLAGS, one, space, seed=i) for i, one in enumerate(terms)}
    shown = sf.join(both, allow_unprotected=True)._repr_html_()
    assert "&lt;0&gt;: 30 records, epsilon 1" in shown
    assert "Somebody who is with all of them" in shown
    assert "<0>" not in shown
