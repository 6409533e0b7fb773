"""Priors over levels: what a schema allows, products behind noise of either law, ties, and laws of distances."""

import math

import numpy as np
import pytest

from sfumato.intervals.moments import NoiseLaw
from sfumato.posterior import products, true_neighbours
from sfumato.posterior.level_beliefs import LevelBeliefs
from sfumato.posterior.levels import Levels
from sfumato.posterior.products import Products
from sfumato.tables.columns import Category, Flag, Integer, Ordinal, Real, Set
from sfumato.tables.schema import Schema

LAPLACE, NORMAL = NoiseLaw("laplace", 0.5), NoiseLaw("gaussian", 0.5)
MIXED = Schema(
    (
        Flag("member"),
        Category("colour", ("red", "green", "blue")),
        Ordinal("size", ("s", "m", "l")),
        Integer("age", 0, 90),
        Real("height", 100, 200),
        Category("town", ("a", "b"), missing="a"),
    )
)


def flags(width):
    return Schema(tuple(Flag(f"f{j}") for j in range(width)))


def noisy(records, noise, rng):
    if noise.kind == "gaussian":
        return records + rng.normal(0, noise.scale, records.shape)
    return records + rng.laplace(0, noise.scale / np.sqrt(2), records.shape)


def grouped_flags(count, rng, width=24):
    """Flags in four groups with their own frequent ones, so that many records are alike."""
    chances = np.where(rng.random((4, width)) < 0.2, 0.85, 0.02)
    return (rng.random((count, width)) < chances[rng.integers(4, size=count)]).astype(float)


# ---- levels ---------------------------------------------------------------------------------------------------------


def test_levels_are_those_of_the_schema():
    found, encoding = Levels.of(MIXED, LAPLACE), MIXED.encoding
    sizes = np.bincount(found.group_of)
    assert sizes[:3].tolist() == [2, 4, 3]  # a colour that is not listed has no value
    assert sizes[-1] == 2
    assert found.unit == 0
    assert found.rows.shape == (found.count, encoding.dim)
    reached = [found.base + found.rows[group].max(axis=0) for group in found.groups]
    assert np.max(reached, axis=0) == pytest.approx(encoding.high * encoding.weights, abs=0.2)
    assert (found.widths[np.isin(found.columns, [0, 1, 2, 3, 4])] == 0).all()
    assert (found.widths[found.columns == 5] > 0).all()  # more than 64 ages
    assert Levels.of(flags(5), LAPLACE).unit == 1.0
    assert Levels.of(flags(5), LAPLACE).in_pairs
    assert not found.in_pairs


@pytest.mark.parametrize(
    "schema",
    [
        Schema.reals(4, low=0, high=1),
        Schema((Flag("a"), Flag("b")), norm="l2", norm_bound=1.0),
        Schema((Flag("a"), Integer("b", 0, 5, missing="level"))),
        Schema((Flag("a"), *(Real(f"r{j}", 0, 1) for j in range(3)))),
    ],
    ids=["numbers", "clip", "missing beside", "few flags"],
)
def test_other_tables_have_no_levels(schema):
    assert Levels.of(schema, LAPLACE) is None


def test_elements_of_a_set_are_flags():
    found = Levels.of(Schema((Set("likes", values=("x", "y", "z"), most=2),)), LAPLACE)
    assert np.bincount(found.group_of).tolist() == [2, 2, 2]


@pytest.mark.parametrize("noise", [LAPLACE, NORMAL], ids=["laplace", "normal"])
def test_likelihoods_are_those_of_the_noise(noise):
    """Bayes by hand, for a category: the noise of all its columns counts."""
    levels, rng = Levels.of(MIXED, noise), np.random.default_rng(1)
    rows = rng.normal(0, 1, (5, MIXED.encoding.dim))
    group = list(levels.groups)[1]
    points = levels.base + levels.rows[group]
    apart = (rows[:, None] - points)[:, :, 1:4]
    scale = noise.scale / np.sqrt(2)
    log = (
        -np.abs(apart).sum(axis=2) / scale if noise.kind == "laplace" else -(apart**2).sum(axis=2) / 2 / noise.variance
    )
    by_hand = np.exp(log - log.max(axis=1, keepdims=True))
    assert levels.likelihoods(rows, noise)[:, group] == pytest.approx(by_hand, rel=1e-9)


# ---- products -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [LAPLACE, NORMAL], ids=["laplace", "normal"])
def test_a_mixture_is_learned_where_it_is_and_its_posterior_beats_one_product(noise):
    rng = np.random.default_rng(2)
    records = grouped_flags(2000, rng)
    levels = Levels.of(flags(24), noise)
    rows = noisy(records, noise, rng)
    found = products.fit(rows, levels, noise)
    assert found.products.count > 1
    assert found.gain > 10 * found.error
    single = products.fit(rows, levels, noise, sizes=())
    errors = [np.mean((LevelBeliefs.of(p.products, rows, noise).means - records) ** 2) for p in (found, single)]
    assert errors[0] < 0.9 * errors[1]
    assert single.products.chances[0, 1::2] == pytest.approx(records.mean(axis=0), abs=0.06)
    alone = (rng.random((2000, 24)) < 0.1).astype(float)  # independent flags need no more than one
    assert products.fit(noisy(alone, noise, rng), levels, noise).products.count == 1


def test_the_law_of_laplace_noise_is_worth_more_than_its_variance():
    rng = np.random.default_rng(3)
    records, levels = grouped_flags(1500, rng), Levels.of(flags(24), LAPLACE)
    rows = noisy(records, LAPLACE, rng)
    found = [LevelBeliefs.of(products.fit(rows, levels, law).products, rows, law).means for law in (LAPLACE, NORMAL)]
    assert np.mean((found[0] - records) ** 2) < 0.9 * np.mean((found[1] - records) ** 2)


# ---- beliefs --------------------------------------------------------------------------------------------------------


def known(schema, count=60, seed=4, noise=LAPLACE):
    """Beliefs under a prior that is right, and records drawn from it."""
    rng, levels = np.random.default_rng(seed), Levels.of(schema, noise)
    chances = rng.random((2, levels.count)) ** 3 + 1e-3
    chances = np.stack([row / np.bincount(levels.group_of, row)[levels.group_of] for row in chances])
    prior = Products(levels, np.array([0.3, 0.7]), chances)
    flat = LevelBeliefs.of(prior, np.tile(levels.base, (count, 1)), NoiseLaw(noise.kind, 1e3))
    records = flat.sampler(np.arange(count))(rng)
    return LevelBeliefs.of(prior, noisy(records, noise, rng), noise), records


@pytest.mark.parametrize("schema", [flags(12), MIXED], ids=["flags", "mixed"])
def test_cumulants_of_distances_are_those_of_draws(schema):
    beliefs, _ = known(schema)
    rng, first, second = np.random.default_rng(5), np.arange(20), np.arange(20, 40)
    one, two = beliefs.sampler(first), beliefs.sampler(second)
    drawn = np.array([np.sum((one(rng) - two(rng)) ** 2, axis=1) for _ in range(4000)])
    law, error = beliefs.lengths(first, second), drawn.std(axis=0) / np.sqrt(len(drawn))
    assert (np.abs(drawn.mean(axis=0) - law.mean) < 6.5 * error + 1e-9).all()
    assert np.mean(law.variance) == pytest.approx(np.mean(drawn.var(axis=0)), rel=0.1)
    assert not (np.abs(drawn.mean(axis=0) - 1.2 * law.mean) < 6.5 * error).all()  # power
    means, variances = beliefs.moments(first)
    rows = np.array([one(rng) for _ in range(4000)])
    assert rows.mean(axis=0) == pytest.approx(means, abs=6.5 * np.sqrt(variances.max() / 4000))
    assert rows.var(axis=0).sum(axis=1) == pytest.approx(variances.sum(axis=1), rel=0.25, abs=1e-3)
    assert beliefs.variances[first] == pytest.approx(variances.sum(axis=1))


def test_ties_count_as_found():
    """Of records of few flags the tenth has many equals: all of them are as near as the truly nearest."""
    rng, noise = np.random.default_rng(6), NoiseLaw("laplace", 0.25)
    records = grouped_flags(1200, rng, width=5)
    rows = noisy(records, noise, rng)
    fitted = products.fit(rows, Levels.of(flags(5), noise), noise).products
    beliefs, queries = LevelBeliefs.of(fitted, rows, noise), np.arange(30)
    apart = np.sum((beliefs.means[queries][:, None] - beliefs.means) ** 2, axis=2)
    apart[queries, queries] = np.inf
    shown = np.argsort(apart, axis=1)[:, :10]
    true = np.sum((records[queries][:, None] - records) ** 2, axis=2)
    true[queries, queries] = np.inf
    hits = np.sum(np.take_along_axis(true, shown, 1) <= np.sort(true, axis=1)[:, 9:10], axis=1)
    said = true_neighbours.expected_hits(beliefs, queries, shown, lambda squared, *_: squared).among_k
    assert said.mean() == pytest.approx(hits.mean(), abs=1.0)
    broken = true_neighbours.expected_hits(
        beliefs, queries, shown, lambda squared, _, rng: squared + 1e-3 * rng.random(squared.shape)
    )
    assert broken.among_k.mean() < hits.mean() - 2  # power: without ties hardly any is found


def test_the_sum_of_rare_shares_is_not_raised_by_cutting_them():
    """300 flags that one record in a hundred has, behind noise that hides each of them, and not their sum."""
    rng, columns, rows = np.random.default_rng(1), 300, 4_000
    schema, noise = Schema([Flag(f"f{i}") for i in range(columns)]), NoiseLaw("laplace", math.sqrt(2))
    bits = rng.random((rows, columns)) < 0.01
    released = bits + rng.laplace(0.0, 1.0, bits.shape)
    levels = Levels.of(schema, noise)
    chances = levels.first_guess(released)
    assert chances[1::2].sum() == pytest.approx(released.mean(axis=0).sum(), rel=1e-6)
    assert np.clip(released.mean(axis=0), 1e-3, 1).sum() > 1.2 * bits.mean(axis=0).sum()  # what cutting alone gives
    assert np.allclose(chances[::2] + chances[1::2], 1)
    fitted = products.fit(released, levels, noise, sizes=()).products
    assert fitted.chances[0, 1::2].sum() == pytest.approx(bits.mean(axis=0).sum(), rel=0.2)
