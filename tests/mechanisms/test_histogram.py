"""Private histograms: how far neighbours move them, their noise, and one vector of sums that others can take apart."""

import itertools
import math

import numpy as np
import pyarrow as pa
import pytest
import scipy

import sfumato as sf
from sfumato.audit.block_rows import Copies
from sfumato.audit.claimed_moves import SLACK, allowed
from sfumato.audit.worst_pairs import moved
from sfumato.errors import ParameterError, ReleaseError
from sfumato.mechanisms.covariance import Covariance
from sfumato.mechanisms.histogram import Histogram, PreparedHistogram
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.randomness.secret import Secret
from support.evidence import fits

SCHEMA = sf.Schema([sf.Integer("i", 0, 4), sf.Category("c", ["x", "y"]), sf.Flag("f", missing="level")])
TABLES = (("i",), ("c", "f"), ("i", "c", "f"))
PROMISES = {
    (neighbours, group): Guarantee(epsilon=1.0, delta=1e-3, neighbours=neighbours, group=group)
    for neighbours in ("replace", "add-remove")
    for group in (1, 3)
}


def every_row(schema=SCHEMA):
    """One encoded row for each cell of all columns together."""
    axes = [domain.columns[0] for domain in Histogram().prepare(schema, Guarantee(epsilon=1.0)).cells.domains]
    levels = [axis.encoded().T for axis in axes]
    return [np.concatenate(cells)[:, None] for cells in itertools.product(*levels)]


def pairs(rows, promise):
    """All pairs of tables that differ in one unit whose records are alike, which is the worst; and some others."""
    luck = np.random.default_rng(1)
    others = rows[0]
    for one in rows:
        if promise.neighbours == "add-remove":
            yield np.hstack([one] * promise.group + [others]), others
            continue
        for two in rows:
            yield np.hstack([one] * promise.group + [others]), np.hstack([two] * promise.group + [others])
    for _ in range(20):
        chosen = luck.integers(len(rows), size=(2, promise.group))
        one, two = (np.hstack([*(rows[i] for i in some), others]) for some in chosen)
        yield one, (others if promise.neighbours == "add-remove" else two)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("promise", PROMISES.values(), ids=map(str, PROMISES))
def test_no_neighbour_moves_the_counts_further_than_stated_and_one_attains_it(promise, noise):
    prepared = Histogram(TABLES, noise=noise).prepare(SCHEMA, promise)
    order = 1 if noise == "laplace" else 2
    found = [
        np.linalg.norm((prepared.cells.counts(one) - prepared.cells.counts(two)) / prepared.deviations, order)
        for one, two in pairs(every_row(), promise)
    ]
    assert max(found) <= prepared.reach
    assert max(found) >= prepared.reach * (1 - 1e-9)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("promise", PROMISES.values(), ids=map(str, PROMISES))
def test_a_run_feeds_its_noise_no_more_than_stated(promise, noise):
    prepared = Histogram(TABLES, noise=noise).prepare(SCHEMA, promise)
    rows = every_row()
    for pair in itertools.islice(pairs(rows, promise), 0, None, 29):
        for stage, far in moved(prepared, 2.0, pair).items():
            assert far <= allowed(prepared, 2.0)[stage] * SLACK


def test_a_mechanism_that_forgets_a_table_would_be_seen(monkeypatch):
    prepared = Histogram(TABLES).prepare(SCHEMA, PROMISES["replace", 1])
    forgot = math.sqrt(2) * np.linalg.norm(1 / prepared.weights[1:])
    monkeypatch.setattr(PreparedHistogram, "reach", property(lambda _: forgot))
    rows = every_row()
    assert moved(prepared, 2.0, (rows[0], rows[-1]))["histogram"] > allowed(prepared, 2.0)["histogram"] * 1.05


def test_small_tables_get_less_of_the_budget():
    for noise, power in (("gaussian", 1 / 3), ("laplace", 1 / 2)):
        prepared = Histogram(TABLES, noise=noise).prepare(SCHEMA, PROMISES["replace", 1])
        sizes = np.array(prepared.cells.sizes)
        assert prepared.weights == pytest.approx((sizes.max() / sizes) ** power)
        assert prepared.deviations.size == sizes.sum()


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_noise_is_that_of_the_manifest(noise):
    table = np.zeros((4, 1))
    guarantee = Guarantee(epsilon=0.1, delta=1e-3 if noise == "gaussian" else 0.0)
    schema = sf.Schema([sf.Integer("i", 0, 4999), sf.Category("c", ["x", "y"])])
    prepared = Histogram((("i",), ("i", "c")), noise=noise, bins={"i": 4000}).prepare(schema, guarantee)
    level = calibrate(prepared, guarantee).level
    exact = prepared.exact(Copies(table))
    drawn = []
    for seed in range(8):
        made = prepared.run(Copies(table), level, Secret.for_testing(seed))
        (block,) = made.blocks
        assert made.names == ("value",)
        drawn.append(np.split(block[0] - exact, np.cumsum(prepared.cells.sizes)[:-1]))
    law = scipy.stats.norm if noise == "gaussian" else scipy.stats.laplace
    for place, facts in enumerate(made.facts["mechanism"]["tables"]):
        seen = np.concatenate([draws[place] for draws in drawn]).astype(np.int64)
        assert fits(seen, law(scale=facts["scale"]).cdf)
        assert not fits(seen, law(scale=facts["scale"] * 1.1).cdf)
        weight = prepared.weights[place]
        assert facts["scale"] == pytest.approx(weight * level * prepared.reach, rel=1e-9)
        assert facts["scale"] >= weight * level * prepared.reach


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("recipe", [Histogram, Covariance])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_sums_with_noise_can_be_taken_apart(recipe, noise, neighbours):
    """``run`` is the exact vector, its noise, and ``published``; vectors of disjoint tables add up."""
    guarantee = Guarantee(epsilon=1.0, delta=1e-6, neighbours=neighbours)
    prepared = recipe(noise=noise).prepare(SCHEMA, guarantee)
    rows = np.hstack(every_row())
    one, two = prepared.exact(Copies(rows[:, :11])), prepared.exact(Copies(rows[:, 11:]))
    whole, count = prepared.counted(Copies(rows))
    assert count == rows.shape[1]
    assert whole.dtype == np.int64
    assert whole.shape == prepared.deviations.shape
    assert np.abs(one + two - whole).max() <= (recipe is Covariance)  # coarsening rounds each
    made = prepared.run(Copies(rows), 5.0, Secret.for_testing(1))
    (noisy,) = made.blocks
    scale = math.nextafter(5.0 * prepared.reach, math.inf)
    again = prepared.published(noisy[0] / prepared.unit, scale, count if neighbours == "replace" else None)
    (block,) = again.blocks
    assert (block == noisy).all()
    assert again.facts == made.facts
    off = (noisy[0] / prepared.unit - whole) / prepared.deviations
    spread = 5.0 * prepared.reach * (math.sqrt(2) if noise == "laplace" else 1.0)
    assert 0.2 < off.std() / spread < 3.0


def test_where_the_number_of_rows_is_protected_nothing_says_it():
    guarantee = Guarantee(epsilon=1.0, neighbours="add-remove")
    rows = np.hstack(every_row())
    made = [
        Histogram(TABLES).prepare(SCHEMA, guarantee).run(Copies(some), 1.0, Secret.for_testing(1))
        for some in (rows, rows[:, :0])
    ]
    assert made[0].facts == made[1].facts
    assert made[0].facts["rows"] is None
    assert next(made[1].blocks).shape == next(made[0].blocks).shape
    with pytest.raises(ReleaseError, match="no rows"):
        Histogram().prepare(SCHEMA, Guarantee(epsilon=1.0)).run(Copies(rows[:, :0]), 1.0, Secret.for_testing(1))


@pytest.mark.parametrize(
    ("recipe", "promise", "words"),
    [
        ({}, {"unit": "attribute"}, "whole records"),
        ({}, {"change": Change.l2(0.5)}, "change of kind"),
        ({"noise": "gaussian"}, {}, "needs delta > 0"),
        ({"tables": (("nowhere",),)}, {}, "nowhere"),
    ],
)
def test_what_cannot_be_promised_is_refused(recipe, promise, words):
    with pytest.raises(ParameterError, match=words):
        Histogram(**recipe).prepare(SCHEMA, Guarantee(epsilon=1.0, **promise))


@pytest.mark.parametrize("given", [{"tables": "age"}, {"tables": 3}, {"noise": "sketch"}, {"bins": 3}])
def test_recipes_that_make_no_sense_are_refused(given):
    with pytest.raises(ParameterError):
        Histogram(**given)


@pytest.mark.parametrize("epsilon", [1e-12, 1e-13])
def test_noise_that_cannot_be_drawn_is_refused_before_rows_are_read(epsilon):
    with pytest.raises(ParameterError, match="epsilon"):
        sf.release(pa.table({"i": [1]}), schema=sf.Schema([sf.Integer("i", 0, 4)]), mechanism="histogram",
                   guarantee=Guarantee(epsilon=epsilon))  # fmt: skip


def test_a_table_may_be_one_name_and_columns_come_in_the_order_of_the_schema():
    prepared = Histogram(("i", ("f", "c"))).prepare(SCHEMA, Guarantee(epsilon=1.0))
    assert prepared.cells.names == (("i",), ("c", "f"))
    assert prepared.settings == {"noise": "laplace", "cells": 5 + 3 * 3}
