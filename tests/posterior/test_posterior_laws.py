"""Laws of squared distances under a posterior, against brute force, and what held-out noise says of a prior."""

import dataclasses
import math

import numpy as np
import pytest
import scipy.stats

from sfumato.intervals.moments import NoiseLaw
from sfumato.posterior import held_out, mixture, prior, true_neighbours
from sfumato.posterior.beliefs import Beliefs
from sfumato.posterior.lengths import DistanceLaw, LengthCumulants, Stretch
from support.evidence import agrees

NOISE = NoiseLaw("gaussian", 1.0)


def test_cumulants_are_those_of_a_generalised_chi_square():
    """Mean, variance and third cumulant against draws; a diagonal covariance both ways."""
    rng = np.random.default_rng(1)
    root, apart = rng.standard_normal((6, 6)), rng.standard_normal(6)
    found = LengthCumulants.of(apart[None], (root @ root.T)[None])
    drawn = np.sum((apart + rng.standard_normal((400_000, 6)) @ root.T) ** 2, axis=1)
    assert agrees(drawn, found.mean[0])
    assert agrees((drawn - found.mean[0]) ** 2, found.variance[0])
    assert agrees((drawn - found.mean[0]) ** 3, found.third[0])
    assert not agrees(drawn, 1.02 * found.mean[0])
    assert not agrees((drawn - found.mean[0]) ** 2, 1.1 * found.variance[0])
    weights = rng.gamma(1.0, 1.0, 6)
    whole, along = LengthCumulants.of(apart[None], np.diag(weights)[None]), LengthCumulants.along(apart[None], weights)
    for name in ("mean", "variance", "third"):
        assert np.allclose(getattr(whole, name), getattr(along, name))


@pytest.mark.parametrize(("width", "size"), [(1, 0.0), (1, 2.0), (5, 0.0), (5, 1.0), (60, 0.3)])
def test_quantiles_are_near_those_of_draws(width, size):
    rng = np.random.default_rng(2)
    apart, weights = size * rng.standard_normal(width), rng.gamma(1.0, 1.0, width)
    law = LengthCumulants.along(apart[None], weights)
    drawn = np.sum((apart + rng.standard_normal((200_000, width)) * np.sqrt(weights)) ** 2, axis=1)
    assert np.mean(drawn <= law.quantile(0.975)[0]) == pytest.approx(0.975, abs=0.01)
    assert np.mean(drawn <= law.quantile(0.025)[0]) <= 0.09  # the shape near 0 is what three cumulants do not tell
    low, high = DistanceLaw(law).bounds(0.025)
    assert 0 <= low[0] <= high[0]
    assert 0.94 <= np.mean((drawn >= low[0]) & (drawn <= high[0])) <= 0.995


def test_a_law_without_spread_is_a_point():
    point = DistanceLaw(LengthCumulants(*np.array([[0.0, 3.0], [0.0, 0.0], [0.0, 0.0]])))
    for ends in point.bounds(0.025):
        assert ends == pytest.approx([0.0, 3.0])


def test_a_projection_brings_what_looks_near_nearer_than_it_is():
    """Original squared distances are log-normal, images are stretched at random; the nearest tenth are looked at."""
    rng = np.random.default_rng(3)
    spread, noise = 0.1, 2 / 16
    true = np.exp(2 + math.sqrt(spread) * rng.standard_normal(20_000))
    seen = true * np.exp(math.sqrt(noise) * rng.standard_normal(20_000) - noise / 2)
    lengths = LengthCumulants(seen, np.zeros(20_000), np.zeros(20_000))
    found = Stretch.learned(noise, lengths)
    assert found.spread == pytest.approx(spread, abs=0.01)
    law, near = DistanceLaw(lengths, found), seen < np.quantile(seen, 0.1)
    low, high = law.bounds(0.025)
    assert np.mean((true >= low) & (true <= high)) == pytest.approx(0.97, abs=0.02)
    assert np.mean(((true >= low) & (true <= high))[near]) == pytest.approx(0.97, abs=0.02)
    assert agrees((true / law.mean)[near], 1.0) or abs(np.mean((true / law.mean)[near]) - 1) < 0.02
    reach = 1.96 * math.sqrt(noise)  # power: intervals about what is seen do not hold for the nearest
    plain = np.abs(np.log(true / seen) - noise / 2) <= reach
    assert np.mean(plain[near]) < 0.9
    assert Stretch.learned(noise, LengthCumulants(*np.zeros((3, 4)))).share == 0


# ---- selection ------------------------------------------------------------------------------------------------------


def simulated(seed, *, heavy=False, kind="gaussian"):
    """Records with a few strong directions in a wide space, and their rows."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((60, 8)))[0]
    records = rng.standard_normal((1500, 8)) * np.sqrt(np.linspace(12, 2, 8))
    if heavy:  # of very different sizes
        records *= np.exp(0.8 * rng.standard_normal((1500, 1)))
    records = records @ basis.T
    noise = rng.standard_normal(records.shape) if kind == "gaussian" else rng.laplace(0, math.sqrt(0.5), records.shape)
    return records, records + noise


def shown(rows, kind="gaussian"):
    """Beliefs, pairs of 300 queries with the ten that are shown, and the law of their squared distances."""
    noise = NoiseLaw(kind, 1.0)
    beliefs = Beliefs.of(*prior.learn(rows, noise), rows)
    squares = np.sum(beliefs.means**2, axis=1)
    apart = squares[:300, None] + squares - 2 * beliefs.means[:300] @ beliefs.means.T
    apart[np.arange(300), np.arange(300)] = np.inf
    found = np.argsort(apart, axis=1)[:, :10]
    return beliefs, np.repeat(np.arange(300), 10), found.ravel()


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_credible_intervals_hold_for_selected_pairs_and_frequentist_ones_do_not(kind):
    records, rows = simulated(1, kind=kind)
    beliefs, first, second = shown(rows, kind)
    true = np.sum((records[first] - records[second]) ** 2, axis=1)
    law = DistanceLaw(beliefs.lengths(first, second) + beliefs.rest(first, second))
    low, high = law.bounds(0.025)
    assert 0.93 <= np.mean((true >= low) & (true <= high)) <= 0.99
    assert law.mean.mean() == pytest.approx(true.mean(), rel=0.05)
    apart = rows[:300, None] - rows[None]  # power: raw distances of those that look nearest by them
    raw = np.sum(apart**2, axis=2) - 2 * 60
    raw[np.arange(300), np.arange(300)] = np.inf
    chosen = np.argsort(raw, axis=1)[:, :10]
    value = np.take_along_axis(raw, chosen, 1)
    exact = np.sum((records[:300, None] - records[chosen]) ** 2, axis=2)
    error = np.sqrt(8 * np.maximum(value, 0) + (8 if kind == "gaussian" else 14) * 60)
    assert np.mean(np.abs(value - exact) <= 1.96 * error) < 0.85
    assert value.mean() < 0.8 * exact.mean()


def test_the_views_of_a_row_have_independent_normal_errors():
    rng = np.random.default_rng(4)
    for noise in (NoiseLaw("gaussian", 2.0), NoiseLaw("laplace", 2.0)):
        size = (500, 400)
        errors = rng.normal(0, 2, size) if noise.kind == "gaussian" else rng.laplace(0, math.sqrt(2), size)
        views = held_out.Views.of(errors, noise, rng)
        for view, variance in ((views.one, views.noise_one), (views.two, views.noise_two)):
            assert view.var() == pytest.approx(variance, rel=0.01)
            assert scipy.stats.kurtosis(view.ravel()) == pytest.approx(0, abs=0.15)
        assert abs(np.corrcoef(views.one.ravel() ** 2, views.two.ravel() ** 2)[0, 1]) < 0.025
    kept = rng.laplace(0, math.sqrt(2), size)  # power: Laplace noise that is not made normal first
    wrong = held_out.Views.of(kept, NoiseLaw("gaussian", 2.0), rng)
    assert np.corrcoef(wrong.one.ravel() ** 2, wrong.two.ravel() ** 2)[0, 1] > 0.1


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_held_out_noise_finds_what_a_wrong_prior_gets_wrong_about_selected_pairs(kind, monkeypatch):
    """Records of very different sizes, of which one Gaussian knows nothing, and those that it describes."""
    monkeypatch.setattr(mixture, "fit", lambda _, variances, __: mixture.gaussian(variances))
    found = {}
    for heavy in (False, True):
        _, rows = simulated(5, heavy=heavy, kind=kind)
        found[heavy] = held_out.correction(rows, NoiseLaw(kind, 1.0))
    assert found[False].within == pytest.approx([1.0] * 6, abs=0.15)
    assert np.mean(found[False].deviation) < 1.5
    assert list(found[False].believed) == sorted(found[False].believed)
    assert found[True].within[0] < 0.8  # what it believes near is nearer still: small records are drawn to the others
    assert found[True].within[0] < found[True].within[-1] - 0.1
    assert held_out.correction(simulated(1)[1][:4], NOISE) == held_out.Correction()


def test_corrections_bring_selected_pairs_of_a_wrong_prior_to_the_truth(monkeypatch):
    monkeypatch.setattr(mixture, "fit", lambda _, variances, __: mixture.gaussian(variances))
    records, rows = simulated(9, heavy=True)
    beliefs, first, second = shown(rows)
    true = np.sum((records[first] - records[second]) ** 2, axis=1)
    within, rest = beliefs.lengths(first, second), beliefs.rest(first, second)
    law = held_out.correction(rows, NOISE).corrected(within, rest)
    near = within.mean < np.median(within.mean)
    ratios = [np.mean(part.mean[near]) / np.mean(true[near]) for part in (law, within + rest)]
    assert abs(ratios[0] - 1) < 0.5 * abs(ratios[1] - 1)
    low, high = DistanceLaw(law).bounds(0.025)
    assert np.mean((true >= low) & (true <= high)) > 0.93


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_the_released_numbers_rank_where_the_prior_misses_what_makes_records_alike(kind):
    """A basis of too few directions of records that vary in all of them alike."""
    rng = np.random.default_rng(10)
    centres = 8 * rng.standard_normal((100, 40))
    records = centres[rng.integers(100, size=1500)] + 0.5 * rng.standard_normal((1500, 40))
    noise = rng.standard_normal(records.shape) if kind == "gaussian" else rng.laplace(0, math.sqrt(0.5), records.shape)
    found = held_out.HeldOut.of(records + noise, NoiseLaw(kind, 1.0))
    assert not found.released_ranks_better()
    few = found.prior.spectrum
    cut = dataclasses.replace(few, basis=few.basis[:, :1], variances=few.variances[:1], shrink=few.shrink[:1])
    worse = prior.LearnedPrior(
        cut, mixture.gaussian(few.variances[:1]), dataclasses.replace(found.prior.rest, means=np.zeros(1))
    )
    assert dataclasses.replace(found, prior=worse).released_ranks_better()
    _, rows = simulated(11, kind=kind)  # and not where few directions are all there is
    assert not held_out.HeldOut.of(
        rows + 3 * rng.standard_normal(rows.shape), NoiseLaw(kind, 3.2)
    ).released_ranks_better()


def test_expected_hits_are_about_what_is_found():
    records, rows = simulated(6)
    beliefs, first, second = shown(rows)
    queries, listed = first.reshape(-1, 10)[:40, 0], second.reshape(-1, 10)[:40]
    found = true_neighbours.expected_hits(beliefs, queries, listed, lambda squared, rest, _: squared + rest.mean)
    true = np.sum((records[queries][:, None] - records[None]) ** 2, axis=2)
    true[np.arange(40), queries] = np.inf
    places = np.argsort(np.argsort(true, axis=1), axis=1)
    for name, times in (("among_k", 1), ("among_2k", 2), ("among_10k", 10)):
        hits = np.sum(np.take_along_axis(places, listed, 1) < 10 * times, axis=1)
        assert getattr(found, name).mean() == pytest.approx(hits.mean(), abs=1.0)
        assert (getattr(found, name) <= 10).all()
    assert (found.among_k <= found.among_2k).all()
    again = true_neighbours.expected_hits(beliefs, queries, listed, lambda squared, rest, _: squared + rest.mean)
    assert np.array_equal(found.among_k, again.among_k)


def test_far_records_are_a_sample_that_stands_for_all(monkeypatch):
    """Where nothing is known of distances, each record is as likely as any other to be among the nearest."""
    _, rows = simulated(7)
    beliefs, first, second = shown(rows)
    monkeypatch.setattr(true_neighbours, "_NEAR", 50)
    monkeypatch.setattr(true_neighbours, "_FAR", 100)
    queries, listed = first.reshape(-1, 10)[:40, 0], second.reshape(-1, 10)[:40, :5]
    found = true_neighbours.expected_hits(beliefs, queries, listed, lambda squared, _, rng: rng.random(squared.shape))
    assert found.among_10k.mean() == pytest.approx(5 * 50 / 1499, rel=0.3)


def test_a_record_that_the_prior_does_not_describe_is_taken_as_it_is():
    """One record far from all others: shrunk like them, it would look near."""
    rng = np.random.default_rng(8)
    records = np.repeat([[0.0], [1.0]], [1, 199], axis=0) * np.full(30, 6.0)
    rows = records + rng.standard_normal(records.shape)
    beliefs = Beliefs.of(*prior.learn(rows, NOISE), rows)
    assert beliefs.odd[0]
    assert beliefs.odd[1:].sum() == 0
    law = DistanceLaw(beliefs.lengths(*np.array([[0], [5]])) + beliefs.rest(*np.array([[0], [5]])))
    low, high = law.bounds(0.005)
    assert low[0] <= 30 * 36 <= high[0]
    trusted = Beliefs(beliefs.prior, beliefs.coordinates, beliefs.means, np.zeros(200, bool), beliefs.squares)
    assert np.allclose(trusted.covariances(np.array([5]))[0], beliefs.covariances(np.array([5]))[0])
