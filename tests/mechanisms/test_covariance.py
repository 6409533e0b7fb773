"""Covariances: what one unit can move, exact sums, losses, audits with broken twins, and what comes in."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from sfumato.audit.bound import lower_bound
from sfumato.errors import ParameterError, ReleaseError
from sfumato.estimation import covariances
from sfumato.files.open_table import open_table
from sfumato.mechanisms import covariance, moment_bounds, second_moment
from sfumato.mechanisms.covariance import Beside, Covariance, PreparedCovarianceSketch
from sfumato.mechanisms.second_moment import CentredGrid, SecondMoment
from sfumato.privacy.calibration import calibrate, least_level
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.privacy.losses import ChiSquare, Gaussian
from sfumato.randomness.secret import Secret
from sfumato.releases.covariance import CovarianceRelease
from sfumato.tables.columns import Category, Flag, Real
from sfumato.tables.schema import Schema
from support.moments import HALVES, MIXED, Block, every_pair, moves, neighbours, random_rows
from support.rows import table_rows

NEIGHBOURS = ["replace", "add-remove"]
SQUARE = Schema.reals(2, low=-1, high=1)
UNEVEN = Schema([Real("wide", -1, 1), Real("narrow", -0.1, 0.1)], scale="raw")


def promise(noise="gaussian", **fields):
    return Guarantee(**({"epsilon": 1.0, "delta": 0.0 if noise == "laplace" else 1e-3} | fields))


# ---- what one unit can move ------------------------------------------------------------------------------------------


def beside(x, anchor):
    """Rows as columns, with the anchor below each."""
    return np.vstack([x, np.full((1, x.shape[1]), float(anchor))])


@pytest.mark.parametrize("anchor", [1, 3, 8])
@pytest.mark.parametrize("half", HALVES)
def test_no_row_moves_the_anchored_matrix_further_than_stated_and_one_nearly_does(half, anchor):
    x, y = (beside(side, anchor) for side in every_pair(half))
    for order in (1, 2):
        found, stated = moves(x, y, order).max(), moment_bounds.box(np.array(half), order, anchor)
        assert found <= stated <= found * (1.15 if order == 1 else 1.5 if anchor**2 <= sum(h**2 for h in half) else 3)
    x, y = (beside(side, anchor) for side in every_pair(half, keep=lambda gap: np.count_nonzero(gap, axis=0) <= 1))
    assert moves(x, y, 1).max() == moment_bounds.attribute(np.array(half), 1, (), anchor)
    found = moves(x, y, 2).max()
    assert found <= moment_bounds.attribute(np.array(half), 2, (), anchor) <= 1.2 * found


@pytest.mark.parametrize("half", [(2, 2), (2, 2, 1), (1, 1, 3)])
@pytest.mark.parametrize("anchor", [1, 4])
def test_a_category_moves_the_anchored_matrix_as_far_as_stated(half, anchor):
    x, y = (beside(side, anchor) for side in every_pair(half, keep=lambda gap: ~gap[2:].any(axis=0)))
    assert moves(x, y, 1).max() == moment_bounds.two_columns(np.array(half), 0, 1, anchor)
    found, stated = moves(x, y, 2).max(), moment_bounds.two_columns(np.array(half), 0, 2, anchor)
    assert found <= stated <= found * 1.42


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("anchor", [1, 5])
def test_a_row_that_comes_or_goes_moves_the_matrix_exactly_as_far_as_stated(half, anchor):
    x = np.array(list(itertools.product(*(range(-h, h + 1) for h in half))), float).T
    lengths = float(sum(half)), math.sqrt(sum(h**2 for h in half))
    for order in (1, 2):
        centred = moves(beside(x, anchor), 0 * beside(x, anchor), order).max()
        assert moment_bounds.arrival(lengths, order, anchor, centred=True) == pytest.approx(centred, rel=1e-12)
        counted = (moves(x, 0 * x, order).max() ** order + float(anchor) ** (2 * order)) ** (1 / order)
        assert moment_bounds.arrival(lengths, order, anchor, centred=False) == pytest.approx(counted, rel=1e-12)
        assert moment_bounds.arrival(lengths, order, anchor, centred=True) >= centred
        assert moment_bounds.arrival(lengths, order, anchor, centred=False) >= counted


def published_move(moment, one, two):
    """The norm of the move of what is published, for columns that are rows before and after."""
    sides = [moment.grid.round(side) if side is not None else 0 * moment.grid.round(one) for side in (one, two)]
    place = np.concatenate([np.diag_indices(moment.dim), np.triu_indices(moment.dim, 1)], axis=1)[:, moment.kept]
    gap = np.subtract(*(side[place[0]] * side[place[1]] for side in sides))
    weights = np.where(place[0] == place[1], 1, moment.order)
    return (weights @ np.abs(gap) ** moment.order) ** (1 / moment.order)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("kind", ["attribute", "box", "l1", "l2", "add-remove"])
def test_no_neighbour_moves_what_is_published_further_than_stated(noise, centred, kind):
    rng = np.random.default_rng(1)
    if kind == "add-remove":
        guarantee, one, two = promise(noise, neighbours="add-remove"), random_rows(rng, 20_000, wild=True), None
    else:
        fields = {"attribute": {"unit": "attribute"}, "box": {}}.get(kind) or {}
        fields |= {"change": Change(kind, 0.7)} if kind in ("l1", "l2") else {}
        guarantee, (one, two) = promise(noise, **fields), neighbours(rng, 20_000, kind)
    moment = Covariance(noise=noise, centred=centred).prepare(MIXED, guarantee).moment
    found = published_move(moment, one, two).max()
    assert 0.45 * moment.reach < found <= moment.reach
    if kind in ("box", "add-remove"):
        group = Covariance(noise=noise, centred=centred).prepare(
            MIXED, promise(noise, neighbours=guarantee.neighbours, group=3)
        )
        assert 3 * moment.reach <= group.moment.reach <= 3.0001 * moment.reach


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("pair", NEIGHBOURS)
def test_a_row_norm_clip_bounds_what_is_published(norm, noise, centred, pair):
    schema = Schema([Real(f"c{i}", -5, 5, weight=1 + i) for i in range(4)], norm=norm, norm_bound=2.0, scale="raw")
    rng = np.random.default_rng(2)
    one, two = (rng.choice([-9.0, 9.0, 0.0, 0.1, np.inf], (4, 20_000), p=[0.1, 0.1, 0.5, 0.2, 0.1]) for _ in range(2))
    moment = Covariance(noise=noise, centred=centred).prepare(schema, promise(noise, neighbours=pair)).moment
    found = published_move(moment, one, two if pair == "replace" else None).max()
    assert 0.4 * moment.reach < found <= moment.reach


def scatter_of(prepared, rows):
    """The exact scatter that a sketch is drawn about, in weighted units."""
    moment = SecondMoment(prepared.grid, prepared.guarantee, 2, 0.0, centred=True)
    exact = moment.exact(Block(rows))
    return prepared._scatter(exact)


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("others", [0, 1, 2, 30, 400])
def test_one_row_adds_one_vector_to_a_sketched_scatter_no_longer_than_stated(centred, others):
    prepared = Covariance(noise="sketch", centred=centred, rows=10).prepare(SQUARE, promise())
    rng, longest = np.random.default_rng(3), 0.0
    for trial in range(60):
        far = np.sign(rng.standard_normal((2, 1)))
        rows = -far + (rng.uniform(-3, 3, (2, others)) if trial % 2 else np.zeros((2, others)))
        gap = scatter_of(prepared, np.hstack([rows, far])) - scatter_of(prepared, rows)
        values = np.linalg.eigvalsh(gap)
        assert np.abs(values[:-1]).max() < 1e-9 * max(others, 1)
        longest = max(longest, values[-1])
    stated = prepared.longest**2 * (4 if centred else 1)
    assert longest <= stated * (1 + 1e-9)
    assert longest == pytest.approx(stated * (others / (others + 1) if centred else 1), rel=1e-6)


@pytest.mark.parametrize("centred", [False, True])
def test_replaced_rows_change_a_sketched_law_within_the_ratio_stated(centred):
    prepared = Covariance(noise="sketch", centred=centred, rows=10).prepare(Schema.reals(3, low=-1, high=1), promise())
    rng, level = np.random.default_rng(4), 2.0
    ratio, widest = prepared.loss(level).ratio, 1.0
    for _ in range(300):
        rows = -np.ones((3, 200)) if rng.random() < 0.5 else rng.uniform(-1, 1, (3, rng.integers(0, 9)))
        ends = [
            scatter_of(prepared, np.hstack([rows, np.sign(rng.standard_normal((3, 1)))]))
            + level * prepared.longest**2 * np.eye(3)
            for _ in range(2)
        ]
        values = np.linalg.eigvals(np.linalg.solve(*ends)).real
        assert values.max() <= (1 + ratio) * (1 + 1e-9)
        assert values.min() >= (1 - 1e-9) / (1 + ratio)
        assert np.count_nonzero(np.abs(values - 1) > 1e-9) <= 2
        widest = max(widest, values.max())
    assert widest > 1 + 0.8 * ratio


# ---- losses ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "plain", "centred"), [(119, 38.2, 153), (473, 70.5, 282), (4239, 200, 800)])
def test_sketches_have_the_exact_ridges_and_a_little_more_for_the_number_of_rows(rows, plain, centred):
    found = {}
    for kind in (False, True):
        recipe = Covariance(noise="sketch", centred=kind, rows=rows)
        prepared = recipe.prepare(SQUARE, promise(delta=1e-6, neighbours="add-remove"))
        bare = least_level(lambda level, p=prepared: p.loss(level).losses[0], 1.0, 1e-6)
        found[kind] = bare, calibrate(prepared, prepared.guarantee).level
    assert found[False][0] == pytest.approx(plain, rel=3e-3)
    assert found[True][0] == pytest.approx(centred, rel=3e-3)
    for bare, counted in found.values():
        assert 1.005 * bare < counted < 1.025 * bare


def test_replacing_a_row_of_a_sketch_costs_what_section_9_says():
    prepared = Covariance(noise="sketch", rows=119, centred=False).prepare(SQUARE, promise(delta=1e-6))
    assert prepared.loss(47.3).delta(1.0) <= 1e-6 < prepared.loss(46.7).delta(1.0)
    assert prepared.facts(47.1, 5)["mechanism"]["ridge"] == pytest.approx(47.1 * 2)


def test_a_pure_loss_beside_another_takes_its_epsilon_off():
    one = ChiSquare(rows=20, ratio=0.1)
    assert Beside(one, 0.3).delta(1.0) == pytest.approx(one.delta(0.7), rel=1e-9)
    assert Beside(one, 0.3).delta(1.0) >= one.delta(0.7)
    assert Beside(one, 0.3).delta(0.3) == 1.0
    assert Beside(one, 0.3).pld().get_delta_for_epsilon(1.0) <= one.delta(0.7)


# ---- exact sums, one pass --------------------------------------------------------------------------------------------


def test_squares_sums_and_counts_are_exact_over_blocks_and_threads():
    schema = Schema.reals(2, low=[0, -1], high=[1, 3])
    data = np.random.default_rng(5).uniform(-2, 4, (150_000, 2))
    moment = SecondMoment.anchored(schema, promise(), 2, centred=True)
    *columns, anchors = moment.grid.round(data.T).astype(int).tolist()
    assert set(anchors) == {moment.grid.anchor}
    triples = [*columns, anchors]
    pairs = [(0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)]
    expected = [sum(a * b for a, b in zip(triples[i], triples[j], strict=True)) for i, j in pairs]
    for threads in (1, 3):
        found = moment.exact(table_rows(open_table(data, schema), schema, threads=threads))
        assert found.integers().tolist() == expected
    assert covariance._count(found, moment.grid) == 150_000


class Once(Block):
    """An engine that may be asked once."""

    asked = 0

    def sum(self, function):
        self.asked += 1
        assert self.asked == 1
        return super().sum(function)

    def map(self, function):
        raise AssertionError(function)


@pytest.mark.parametrize("noise", ["gaussian", "laplace", "sketch"])
def test_the_rows_are_read_once(noise):
    rows = Once(np.random.default_rng(6).uniform(-1, 1, (2, 40)))
    prepared = Covariance(noise=noise, centred=True).prepare(SQUARE, promise(noise))
    out = prepared.run(rows, 2.0, Secret.for_testing(1))
    assert rows.asked == 1
    assert not out.by_record


def test_noise_repeats_for_a_retry_and_differs_between_contents():
    for noise in ("gaussian", "laplace", "sketch"):
        prepared = Covariance(noise=noise, rows=5 if noise == "sketch" else None).prepare(SQUARE, promise(noise))
        one, again, other = (
            next(prepared.run(Block(np.full((2, 3), x)), 1.0, Secret.for_testing(1)).blocks) for x in (0.1, 0.1, 0.101)
        )
        assert (one == again).all()
        assert (one != other).all()


# ---- audits ----------------------------------------------------------------------------------------------------------

# So weak that a few hundred runs can refute a mechanism that is only a little worse.
CLAIM = {"epsilon": 0.05, "delta": 0.7}


def triangle_scores(prepared, level, pair, runs):
    """Likelihood ratios of many runs on two tables, of noise on a triangle."""
    moment, scale = prepared.moment, prepared.moment.scale(level)
    exact = [moment.exact(Block(block)) for block in pair]
    centres = [e.doubles()[moment.kept, None] * 2.0**-moment.shift for e in exact]
    diagonal = np.flatnonzero(moment.kept) < moment.dim
    weights = np.where(diagonal, 1, moment.order)
    for side, e in enumerate(exact):
        seeds = range(side * runs, (side + 1) * runs)
        out = np.stack([moment.protected(e, scale, Secret.for_testing(s)) for s in seeds], axis=-1)
        gaps = [weights @ np.abs(out - c) ** moment.order for c in centres]
        yield gaps[1] - gaps[0]


def refuted(prepared, level, pair, runs=500):
    found = triangle_scores(prepared, level, pair, runs)
    return lower_bound(*found, delta=CLAIM["delta"], confidence=1 - 1e-4).refutes(CLAIM["epsilon"])


def corner_pair(neighbours_):
    """Two tables with the largest move: a row at a corner against none, or against one across."""
    here, there = np.array([[1.0], [1.0]]), np.array([[1.0], [-1.0]])
    return (here, np.empty((2, 0))) if neighbours_ == "add-remove" else (here, there)


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("pair", NEIGHBOURS)
def test_audits_of_gaussian_covariances_pass_and_half_the_noise_is_caught(centred, pair):
    prepared = Covariance(centred=centred).prepare(SQUARE, promise(neighbours=pair, **CLAIM))
    level = calibrate(prepared, prepared.guarantee).level
    assert Gaussian(1.0, level).delta(0.05) == pytest.approx(0.7, rel=1e-6)
    assert not refuted(prepared, level, corner_pair(pair))
    assert refuted(prepared, level / 2, corner_pair(pair))


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("pair", NEIGHBOURS)
def test_audits_of_laplace_covariances_pass_and_too_little_noise_is_caught(centred, pair):
    """Half of it where one entry makes nearly all of the move, a third where several share it."""
    prepared = Covariance(noise="laplace", centred=centred).prepare(UNEVEN, promise(neighbours=pair, **CLAIM))
    level, row = calibrate(prepared, prepared.guarantee).level, np.array([[1.0], [0.1]])
    tables = (row, np.empty((2, 0)) if pair == "add-remove" else 0 * row)
    assert not refuted(prepared, level, tables)
    assert refuted(prepared, level / (3 if centred or pair == "add-remove" else 2), tables, runs=1500)


def test_forgetting_that_a_replaced_row_both_goes_and_comes_is_caught(monkeypatch):
    """The sensitivity of add-remove, sqrt(2) too small, for rows that are replaced."""
    recipe, guarantee = Covariance(centred=False), promise(**CLAIM)
    level = calibrate(recipe.prepare(SQUARE, guarantee), guarantee).level
    assert not refuted(recipe.prepare(SQUARE, guarantee), level, corner_pair("replace"))
    honest = second_moment.box
    monkeypatch.setattr(second_moment, "box", lambda *arguments: honest(*arguments) / math.sqrt(2))
    assert refuted(recipe.prepare(SQUARE, guarantee), level, corner_pair("replace"), runs=800)


@pytest.mark.parametrize("pair", NEIGHBOURS)
def test_an_anchor_that_the_noise_does_not_know_of_is_caught(pair):
    """Sums beside a large anchor, with noise for the anchor that it was prepared for."""
    prepared = Covariance(centred=True).prepare(SQUARE, promise(neighbours=pair, **CLAIM))
    level = calibrate(prepared, prepared.guarantee).level
    grid = replace(prepared.moment.grid, anchor=4 * prepared.moment.grid.anchor)
    twin = replace(prepared, moment=replace(prepared.moment, grid=grid))
    assert refuted(twin, level, (np.ones((2, 1)), -np.ones((2, 1) if pair == "replace" else (2, 0))))


def test_a_clip_left_out_of_a_covariance_is_caught(monkeypatch):
    prepared = Covariance().prepare(UNEVEN, promise(**CLAIM))
    level = calibrate(prepared, prepared.guarantee).level
    pair = np.array([[1.0], [1.0]]), np.array([[1.0], [-1.0]])
    assert not refuted(prepared, level, pair)

    def unclipped(grid, block):
        return np.vstack([np.rint(block / grid.step), np.full((1, block.shape[1]), float(grid.anchor))])

    monkeypatch.setattr(CentredGrid, "round", unclipped)
    assert refuted(prepared, level, pair)


def sketch_refuted(prepared, level, pair, runs=4000):
    """Whether the squared length of sketches along the row that differs refutes the claim.

    Rows of a sketch are drawn alike, so one run with many of them is as good as many runs at the same ridge.
    """
    many, scores = replace(prepared, draws=runs * prepared.draws), []
    for side, block in enumerate(pair):
        out = next(many.run(Block(block), level, Secret.for_testing(side)).blocks)[0]
        drawn = out[: many.draws * 2].reshape(runs, prepared.draws, 2)
        scores.append(((drawn @ np.array([1.0, 1.0])) ** 2).sum(axis=1))
    return lower_bound(*scores, delta=CLAIM["delta"], confidence=1 - 1e-4).refutes(CLAIM["epsilon"])


def sketch_pair(centred):
    """With and without a row at a corner; if centred, all the others at the opposite one."""
    others = -np.ones((2, 60 if centred else 0))
    return np.hstack([others, np.ones((2, 1))]), others


@pytest.mark.parametrize("centred", [False, True])
def test_audits_of_sketches_pass_and_half_the_ridge_is_caught(centred):
    recipe = Covariance(noise="sketch", centred=centred, rows=20)
    prepared = recipe.prepare(SQUARE, promise(neighbours="add-remove", **CLAIM))
    level = calibrate(prepared, prepared.guarantee).level
    assert not sketch_refuted(prepared, level, sketch_pair(centred))
    assert sketch_refuted(prepared, level / 2, sketch_pair(centred))


def test_a_centred_sketch_with_the_ridge_of_one_that_is_not_is_caught():
    plain, centred = (
        Covariance(noise="sketch", centred=c, rows=20).prepare(SQUARE, promise(neighbours="add-remove", **CLAIM))
        for c in (False, True)
    )
    level = calibrate(plain, plain.guarantee).level
    assert sketch_refuted(centred, level, sketch_pair(centred=True))


def test_a_number_of_rows_without_noise_of_its_own_is_caught(monkeypatch):
    prepared = Covariance(noise="sketch", rows=2).prepare(SQUARE, promise(neighbours="add-remove"))

    def found():
        scores = [
            np.array(
                [
                    next(prepared.run(Block(np.zeros((2, n))), 1e6, Secret.for_testing(n * 10**6 + s)).blocks)[0, -1]
                    for s in range(300)
                ]
            )
            for n in (51, 50)
        ]
        return lower_bound(*scores, confidence=1 - 1e-4)

    assert not found().refutes(1.0)
    monkeypatch.setattr(PreparedCovarianceSketch, "_count_scale", 0.1)
    assert found().refutes(1.0)


# ---- what comes in ---------------------------------------------------------------------------------------------------


def released(recipe, schema, data, guarantee, level=1.0, seed=1):
    prepared = recipe.prepare(schema, guarantee)
    published = prepared.run(table_rows(open_table(data, schema), schema), level, Secret.for_testing(seed))
    fields = {"schema": schema.to_dict(), "guarantee": {}} | published.facts
    return CovarianceRelease({k: v for k, v in fields.items() if v is not None}, next(published.blocks))


@pytest.mark.parametrize("noise", ["gaussian", "laplace", "sketch"])
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("pair", NEIGHBOURS)
def test_bad_cells_constant_columns_and_one_row_are_released_like_others(noise, centred, pair):
    table = pa.table({"age": [math.nan, 1e300], "smoker": [None, True], "city": ["Zug", None], "x": ["what", "0.5"]})
    schema = Schema(
        [
            Real("age", 0, 120, missing=0.0),
            Flag("smoker", missing=False),
            Category("city", ["Bern", "Basel"]),
            Real("x", -1, 1, missing=0.0),
        ],
        scale="raw",
    )
    recipe, guarantee = Covariance(noise=noise, centred=centred), promise(noise, neighbours=pair)
    for data in (table, table.slice(0, 1)):
        release = released(recipe, schema, data, guarantee)
        assert np.isfinite(release.covariance().values).all()
        assert np.isfinite(release.variance("age").interval()).all()
        assert (release.principal_components(2).variances.interval()[0] >= 0).all()
    same = released(recipe, Schema.reals(3, low=0, high=1), np.full((1000, 3), 0.7), guarantee, 1e-6)
    if noise != "sketch":
        assert np.abs(same.covariance(repair=False).values - (0.0 if centred else 0.04)).max() < 1e-4
    assert same.variance([1, 0, -1]).value == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize("noise", ["gaussian", "laplace", "sketch"])
def test_no_rows_at_all_look_like_few_if_their_number_is_protected_and_are_refused_if_it_is_public(noise):
    empty = np.empty((0, 2))
    for centred in (False, True):
        recipe = Covariance(noise=noise, centred=centred)
        release = released(recipe, SQUARE, empty, promise(noise, neighbours="add-remove"))
        assert np.isfinite(release.covariance().values).all()
        with pytest.raises(ReleaseError, match="no rows"):
            released(recipe, SQUARE, empty, promise(noise))


@pytest.mark.parametrize(
    ("recipe", "fields", "named"),
    [
        ({"noise": "uniform"}, {}, "noise='uniform'"),
        ({"centred": 1}, {}, "centred=1"),
        ({"rows": 5}, {}, "rows=5"),
        ({"noise": "sketch", "rows": 0}, {}, "rows=0"),
        ({"noise": "gaussian"}, {"delta": 0.0}, "delta=0.0"),
        ({"noise": "sketch"}, {"delta": 0.0}, "delta=0.0"),
        ({}, {"unit": "edge"}, "unit='edge'"),
        ({}, {"change": Change.l2(1.0), "projection": "fresh"}, "projection='fixed'"),
        ({}, {"unit": "attribute", "neighbours": "add-remove"}, "unit='attribute'"),
        ({}, {"change": Change.l2(1.0), "neighbours": "add-remove"}, "change='l2'"),
        ({"noise": "sketch"}, {"unit": "attribute"}, "unit='attribute'"),
        ({"noise": "sketch"}, {"change": Change.l2(1.0)}, "change='l2'"),
        ({"noise": "sketch"}, {"group": 2}, "group=2"),
    ],
)
def test_what_covariances_cannot_promise_is_refused_in_one_line(recipe, fields, named):
    with pytest.raises(ParameterError) as caught:
        Covariance(**recipe).prepare(SQUARE, promise(**fields))
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


def test_too_many_columns_are_refused():
    with pytest.raises(ParameterError, match="3000 encoded columns"):
        Covariance().prepare(Schema.reals(3001, low=0, high=1), promise())


def test_levels_that_no_grid_can_hold_are_refused_before_rows_are_read():
    prepared = Covariance().prepare(SQUARE, promise())
    with pytest.raises(ParameterError, match=r"epsilon=1\.0"):
        prepared.run(None, 1e20, Secret.for_testing(1))


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_a_record_that_comes_moves_no_other_however_blocks_are_cut(norm):
    """Alone in the last block or beside others: a row's integers are its own, to the bit."""
    schema = replace(Schema.reals(60, low=-100.0, high=100.0), norm=norm, norm_bound=1.0)
    grid = CentredGrid.of(schema, anchored=True)
    block = np.random.default_rng(5).uniform(0.9, 1.4, size=(60, 200))
    whole = grid.round(block)
    for i in range(200):
        assert (grid.round(block[:, i : i + 1]) == whole[:, i : i + 1]).all()


# ---- against equal noise ---------------------------------------------------------------------------------------------


def test_the_error_off_the_diagonal_is_less_by_the_square_root_of_two_than_with_equal_noise_on_the_triangle():
    """Equal noise protects the triangle with each number once, which moves by sqrt(2) R^2: from one axis to another."""
    dim, radius, rng = 40, 2.0, np.random.default_rng(3)
    schema = replace(Schema.reals(dim, low=-radius, high=radius), norm="l2", norm_bound=radius)
    prepared = Covariance(noise="gaussian", centred=False).prepare(schema, promise())
    level = calibrate(prepared, promise()).level
    above, whole = np.triu_indices(dim, 1), np.triu_indices(dim)
    x, y = rng.standard_normal((2, 500, dim)) * rng.random((2, 500, dim)) ** 8
    x, y = (radius * z / np.linalg.norm(z, axis=1, keepdims=True) for z in (x, y))
    moved = np.einsum("ni,nj->nij", x, x) - np.einsum("ni,nj->nij", y, y)
    assert np.linalg.norm(moved[:, whole[0], whole[1]], axis=1).max() <= math.sqrt(2) * radius**2
    rows = schema.clip(rng.standard_normal((dim, 3))).T
    errors = [noisy_square(prepared, rows, level, seed)[above] - (rows.T @ rows)[above] for seed in range(40)]
    ratio = level * math.sqrt(2) * radius**2 / math.sqrt(np.mean(np.square(errors)))
    tolerance = 6.2 * math.sqrt(2) / math.sqrt(2 * np.size(errors))
    assert ratio == pytest.approx(math.sqrt(2), abs=tolerance)
    for wrong in (1.05, 0.95):
        assert ratio != pytest.approx(math.sqrt(2) * wrong, abs=tolerance)


def noisy_square(prepared, rows, level, seed):
    values = next(prepared.run(Block(rows.T), level, Secret.for_testing(seed)).blocks)[0]
    return covariances.square(values, rows.shape[1])
