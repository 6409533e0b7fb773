"""Principal components with noise: losses of two stages, contract, audits with broken twins, use and refusals."""

import math

import numpy as np
import pyarrow as pa
import pytest
from scipy import integrate

from sfumato.audit.bound import lower_bound
from sfumato.errors import ParameterError
from sfumato.estimation import sketches
from sfumato.files.open_table import open_table
from sfumato.intervals.moments import Geometry, NoiseLaw, SketchLaw
from sfumato.mechanisms.components import Components, PreparedComponents, principal
from sfumato.mechanisms.second_moment import SecondMoment
from sfumato.mechanisms.sketch import _exact_rows
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.privacy.losses import Composed, Gaussian, Laplace
from sfumato.randomness.secret import Secret
from sfumato.releases.sketch import SketchRelease
from sfumato.tables.columns import Category, Flag, Real
from sfumato.tables.schema import Schema
from support.evidence import agrees
from support.rows import table_rows

NOISES = ["laplace", "gaussian"]
MIXED = Schema(
    [Real("age", 0, 120, weight=0.01), Flag("smoker"), Category("city", ["Bern", "Basel", "Biel"]), Real("x", -1, 1)],
    scale="raw",
)
CHANGES = {
    "attribute": {"unit": "attribute"},
    "box": {"unit": "record"},
    "l1": {"unit": "record", "change": Change.l1(0.7)},
    "l2": {"unit": "record", "change": Change.l2(0.7)},
}


class Block:
    """An engine of one block in memory."""

    def __init__(self, block):
        self.block = np.asarray(block, float)

    def map(self, function):
        return iter([function(0, self.block)])

    def sum(self, function):
        return function(0, self.block)


def prepare(schema, noise="laplace", kind="box", epsilon=1.0, dimension=2, **more):
    recipe = {name: more.pop(name) for name in ("split", "publish_projection") if name in more}
    promise = Guarantee(epsilon=epsilon, delta=0.0 if noise == "laplace" else 1e-3, **CHANGES[kind], **more)
    return Components(dimension=dimension, noise=noise, **recipe).prepare(schema, promise)


def run(prepared, data, level, seed=1):
    published = prepared.run(
        table_rows(open_table(data, prepared.schema), prepared.schema), level, Secret.for_testing(seed)
    )
    return published, np.concatenate(list(published.blocks), axis=1)


# ---- the losses of the stages ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", [0.1, 0.3, 0.5])
def test_pure_stages_add_up_to_epsilon(split):
    prepared = prepare(MIXED, epsilon=2.0, split=split)
    level = calibrate(prepared, prepared.guarantee).level
    first, second = prepared.levels(level)
    assert [1 / first, 1 / second] == pytest.approx([2 * split, 2 * (1 - split)], rel=1e-9)
    assert prepared.loss(level) == Composed([Laplace(1.0, first), Laplace(1.0, second)])
    assert prepared.loss(level).delta(2.0) == 0
    assert prepared.loss(level * 0.999).delta(2.0) > 0


@pytest.mark.parametrize("split", [0.1, 0.5, 0.9])
def test_gaussian_stages_compose_to_the_gaussian_of_the_level(split):
    prepared = prepare(MIXED, "gaussian", split=split)
    for level in (0.7, 4.0):
        first, second = prepared.levels(level)
        assert first**-2 == pytest.approx(split * level**-2)
        for epsilon in (0.0, 0.5, 2.0):
            exact = prepared.loss(level).delta(epsilon)
            assert exact == pytest.approx(Gaussian(1.0, level).delta(epsilon), rel=1e-9)
            assert exact >= Gaussian(1.0, level).delta(epsilon) * (1 - 1e-14)
            slow = Composed([Gaussian(1.0, first), Gaussian(1.0, second)]).delta(epsilon)
            assert exact <= slow <= exact + 1e-3


@pytest.mark.parametrize("split", [0.1, 0.3, 0.5])
def test_laplace_stages_have_the_closed_profile_of_their_composition(split):
    """Against the privacy-loss distributions, and against integration over the loss of the smaller stage."""
    prepared = prepare(MIXED, split=split)
    for level in (0.4, 2.0):
        loss = prepared.loss(level)
        small, large = sorted((split / level, (1 - split) / level))
        for epsilon in np.array([0.0, 0.3, 0.7, 0.95, 0.999]) / level:
            found = loss.delta(epsilon)
            slow = float(loss.pld().get_delta_for_epsilon(epsilon))
            assert found <= slow + 1e-12 <= found + 1e-3
            assert found == pytest.approx(integrated(epsilon, small, large), abs=1e-9)


def integrated(epsilon, small, large):
    """The profile of the larger move, averaged over the loss of the smaller: two atoms and a density between."""
    kinks = sorted({max(-small, min(small, epsilon + sign * large)) for sign in (-1, 1)})
    inner = integrate.quad(
        lambda x: one_laplace(epsilon - x, large) * math.exp((x - small) / 2) / 4, -small, small, points=kinks
    )[0]
    return inner + one_laplace(epsilon - small, large) / 2 + one_laplace(epsilon + small, large) * math.exp(-small) / 2


def one_laplace(epsilon, move):
    """The profile of one coordinate, at negative epsilon too."""
    if epsilon >= move:
        return 0.0
    return 1 - math.exp(epsilon) if epsilon <= -move else 1 - math.exp((epsilon - move) / 2)


def test_a_delta_makes_laplace_stages_cheaper():
    prepared = prepare(MIXED)
    loose = Guarantee(epsilon=1.0, delta=0.05)
    assert calibrate(prepared, loose).level < 0.99 * calibrate(prepared, prepared.guarantee).level


# ---- contract --------------------------------------------------------------------------------------------------------


def random_rows(rng, count):
    block = np.zeros((6, count))
    block[0], block[5] = rng.uniform(-60, 300, count), rng.uniform(-3, 3, count)
    block[0, ::7], block[5, ::5] = np.inf, -np.inf
    block[1] = rng.random(count) < 0.5
    city = rng.integers(0, 4, count)
    for value in range(3):
        block[2 + value] = city == value
    return block


def neighbours(rng, count, kind):
    one, two = random_rows(rng, count), random_rows(rng, count)
    if kind == "attribute":
        which = rng.integers(0, 4, count)
        for i, (a, b) in enumerate([(0, 1), (1, 2), (2, 5), (5, 6)]):
            two[a:b, which != i] = one[a:b, which != i]
    elif kind in ("l1", "l2"):
        one = np.nan_to_num(one, posinf=60.0, neginf=0.0)
        steps = rng.standard_normal(one.shape) * (rng.random(one.shape) < 0.5)
        length = np.linalg.norm(steps, 1 if kind == "l1" else 2, axis=0)
        two = one + steps * 0.7 / np.maximum(length, 1e-9) / MIXED.encoding.weights[:, None]
    return one, two


@pytest.mark.parametrize("kind", CHANGES)
@pytest.mark.parametrize("noise", NOISES)
def test_no_neighbour_moves_the_second_stage_further_than_stated(noise, kind):
    """For the components of noise alone, the least aligned to the axes that there are."""
    prepared = prepare(MIXED, noise, kind)
    moment = prepared.moment.noisy(Block(np.zeros((6, 1))), 1.0, Secret.for_testing(3))
    stage = prepared.second_stage(principal(moment, 2))
    exact = _exact_rows(MIXED, stage.projection, stage.shift)
    one, two = neighbours(np.random.default_rng(1), 40_000, kind)
    moved = np.linalg.norm((exact(one) - exact(two)).astype(float), stage.order, axis=0).max()
    assert moved <= stage.sensitivity
    assert moved > stage.sensitivity * (0.98 if kind == "attribute" else 0.5)


def test_the_components_are_the_leading_eigenvectors_with_a_fixed_sign():
    rng = np.random.default_rng(2)
    basis = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    moment = basis @ np.diag([3.0, -9.0, 5.0, 1.0, 4.0]) @ basis.T
    found = principal(moment, 3)
    for column, place in zip(found.T, (2, 4, 0), strict=True):
        assert abs(column @ basis[:, place]) == pytest.approx(1)
        assert column[np.abs(column).argmax()] > 0
    assert np.allclose(found.T @ found, np.eye(3))
    assert (found == principal(moment, 3)).all()


def test_the_second_stage_uses_the_components_and_the_manifest_says_so():
    data = np.random.default_rng(3).random((500, 4))
    schema = Schema.reals(4, low=0, high=1)
    for noise in NOISES:
        prepared = prepare(schema, noise, "attribute", epsilon=1.0)
        level = calibrate(prepared, prepared.guarantee).level
        published, out = run(prepared, data, level)
        first, second = prepared.levels(level)
        stage = prepared.second_stage(published.matrix)
        facts = published.facts["mechanism"]
        assert facts["sensitivity"] == pytest.approx(stage.sensitivity * stage.unit, rel=1e-5)
        assert facts["scale"] == pytest.approx(second * facts["sensitivity"])
        assert facts["moments"]["scale"] == pytest.approx(first * facts["moments"]["sensitivity"])
        residual = out - published.matrix.T @ data.T
        assert agrees(residual.ravel() ** 2, facts["standard_deviation"] ** 2)
        assert not agrees(residual.ravel() ** 2, 1.5 * facts["standard_deviation"] ** 2)
        assert published.facts["projection"] == {"family": "principal", "dim_in": 4, "dim_out": 2, "published": True}
        assert published.names == ("z0", "z1")


def test_a_release_is_the_same_however_it_is_cut_into_blocks():
    schema = Schema.reals(3, low=0, high=1)
    data = np.random.default_rng(4).random((70_000, 3))
    prepared = prepare(schema)
    outs = []
    for threads in (1, 3):
        rows = table_rows(open_table(data, schema), schema, threads=threads)
        published = prepared.run(rows, 1.0, Secret.for_testing(1))
        outs.append((published.matrix, np.concatenate(list(published.blocks), axis=1)))
    assert all((a == b).all() for a, b in zip(*outs, strict=True))


def test_components_may_be_kept():
    prepared = prepare(MIXED, publish_projection=False)
    published = prepared.run(Block(np.zeros((6, 1))), 1.0, Secret.for_testing(1))
    assert published.matrix is None
    assert published.facts["projection"]["published"] is False


# ---- audits of both stages together ----------------------------------------------------------------------------------

LINE = Schema([Real("x", -1, 1)], scale="raw")
NEAR = Change.l2(0.2)
WORST = 1.0, 0.8  # farthest apart in both stages at once: 1 - 0.8^2 in the first, 0.2 in the second


def two_stages(epsilon=1.5, split=0.5):
    promise = Guarantee(epsilon=epsilon, change=NEAR)
    return Components(dimension=1, split=split).prepare(LINE, promise)


def refuted(prepared, level, monkeypatch, runs):
    """Whether exact likelihood ratios of many runs refute epsilon = 1.5, for one who sees all that is accounted for.

    That is the noisy second moment too, which is not published.
    """
    seen = []
    honest = SecondMoment._matrix
    monkeypatch.setattr(SecondMoment, "_matrix", lambda *arguments: seen.append(honest(*arguments)) or seen[-1])
    scores = []
    for side, x in enumerate(WORST):
        out = []
        for seed in range(side * runs, (side + 1) * runs):
            published = prepared.run(Block([[x]]), level, Secret.for_testing(seed))
            facts, ((number,),) = published.facts["mechanism"], next(published.blocks)
            gaps = [
                abs(seen[-1][0, 0] - y * y) / facts["moments"]["scale"] + abs(number - y) / facts["scale"]
                for y in WORST
            ]
            out.append(gaps[1] - gaps[0])
        scores.append(np.array(out))
    return lower_bound(*scores, confidence=1 - 1e-4).refutes(1.5)


def test_an_audit_of_both_stages_passes(monkeypatch):
    prepared = two_stages()
    level = calibrate(prepared, prepared.guarantee).level
    assert level == pytest.approx(1 / 1.5)
    assert not refuted(prepared, level, monkeypatch, runs=1000)


def test_a_budget_that_is_not_split_is_caught(monkeypatch):
    """Each stage alone keeps epsilon; the two together spend it twice."""
    monkeypatch.setattr(PreparedComponents, "levels", lambda _self, level: (level, level))
    assert refuted(two_stages(), 1 / 1.5, monkeypatch, runs=1600)


@pytest.mark.parametrize("stage", [0, 1])
def test_a_quarter_of_the_noise_in_either_stage_is_caught(stage, monkeypatch):
    honest = PreparedComponents.levels
    quarter = np.array([1.0, 1.0])
    quarter[stage] = 0.25
    monkeypatch.setattr(PreparedComponents, "levels", lambda self, level: tuple(quarter * honest(self, level)))
    assert refuted(two_stages(), 1 / 1.5, monkeypatch, runs=1000)


# ---- use -------------------------------------------------------------------------------------------------------------


def low_rank(rng, rows, dim=8):
    basis = np.linalg.qr(rng.standard_normal((dim, 2)))[0]
    return 0.5 + rng.uniform(-0.4, 0.4, (rows, 2)) @ basis.T, basis


def smallest_cosine(one, two):
    return np.linalg.svd(one.T @ two, compute_uv=False).min()


@pytest.mark.parametrize("noise", NOISES)
def test_the_subspace_of_low_rank_data_is_found_and_missed_under_more_noise(noise):
    data, basis = low_rank(np.random.default_rng(5), 5000)
    schema = Schema.reals(8, low=0, high=1)
    found = {}
    for epsilon in (50.0, 0.01):
        prepared = prepare(schema, noise, epsilon=epsilon)
        published, _ = run(prepared, data, calibrate(prepared, prepared.guarantee).level)
        found[epsilon] = smallest_cosine(basis, published.matrix)
    assert found[50.0] > 0.999
    assert found[0.01] < 0.9


def test_a_released_sketch_reads_distances_within_the_subspace():
    """Unbiased for ||vW||^2, with the predicted error, and intervals that cover it."""
    data, _ = low_rank(np.random.default_rng(6), 40_000)
    schema = Schema.reals(8, low=0, high=1)
    prepared = prepare(schema, "laplace", "attribute", epsilon=5.0)
    published, out = run(prepared, data, calibrate(prepared, prepared.guarantee).level)
    release = SketchRelease(published.facts | {"schema": schema.to_dict(), "rows": 40_000}, out, published.matrix)
    assert release.geometry == Geometry("principal", 8, 2)
    found = release.distances(range(0, 40_000, 2), range(1, 40_000, 2))
    inside = np.square((data[::2] - data[1::2]) @ published.matrix).sum(axis=1)
    assert agrees(found.uncut, inside.mean())
    variance = release.law.distance_variance(inside)
    assert agrees((found.uncut - inside) ** 2 - variance, 0.0)
    assert not agrees((found.uncut - inside) ** 2 - 0.5 * variance, 0.0)
    low, high = found.interval(0.95)
    assert 0.93 < np.mean((low <= inside) & (inside <= high)) < 0.99
    assert "subspace" in found.covers
    assert np.allclose(release.transform(data[:3]), data[:3] @ published.matrix)


def test_lengths_within_a_subspace_have_no_projection_error():
    law = NoiseLaw("gaussian", 0.1)
    one, two = (Geometry(family, 4, 4) for family in ("principal", "identity"))
    rows = np.random.default_rng(7).random((2, 10, 4))
    left, right = (sketches.squared_distance(*rows, SketchLaw(law, geometry)) for geometry in (one, two))
    assert (left.value == right.value).all()
    assert (left.standard_error == right.standard_error).all()
    with pytest.raises(ParameterError, match="at most dim_in=4"):
        Geometry("principal", 4, 5)


# ---- what comes in ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", NOISES)
def test_bad_cells_constant_columns_and_one_row_are_released_like_others(noise):
    table = pa.table(
        {"age": [math.nan, 1e300], "smoker": [None, True], "city": ["Zug", None], "x": ["what", "0.5"]},
    )
    schema = Schema(
        [
            Real("age", 0, 120, missing=0.0),
            Flag("smoker", missing=False),
            Category("city", ["Bern", "Basel"]),
            Real("x", -1, 1, missing=0.0),
        ],
        scale="raw",
    )
    prepared = prepare(schema, noise)
    for data in (table, table.slice(0, 1)):
        published, out = run(prepared, data, 1.0)
        assert out.shape == (2, data.num_rows)
        assert np.isfinite(out).all()
        assert np.isfinite(published.matrix).all()
    same = prepare(Schema.reals(3, low=0, high=1), noise)
    published, out = run(same, np.full((100, 3), 0.5), 1e-3)
    assert np.isfinite(out).all()
    assert np.allclose(published.matrix.T @ published.matrix, np.eye(2), atol=1e-5)


def test_a_schema_with_a_row_norm_clip_is_released_too():
    schema = Schema([Real(f"c{i}", 0, 5) for i in range(4)], norm="l2", norm_bound=1.0, scale="raw")
    data = np.abs(np.random.default_rng(8).standard_normal((3000, 1))) * np.array([[3.0, 1.0, 0.0, 0.0]])
    for noise in NOISES:
        prepared = prepare(schema, noise, epsilon=50.0, dimension=1)
        published, _ = run(prepared, data, calibrate(prepared, prepared.guarantee).level)
        assert abs(published.matrix[:, 0] @ np.array([3.0, 1.0, 0, 0]) / math.sqrt(10)) > 0.999


@pytest.mark.parametrize(
    ("recipe", "promise", "named"),
    [
        ({"dimension": 0}, {}, "dimension=0"),
        ({"dimension": 5}, {}, "dimension=5"),
        ({"noise": "uniform"}, {}, "noise='uniform'"),
        ({"split": 0.0}, {}, "split=0.0"),
        ({"split": 1.0}, {}, "split=1.0"),
        ({"noise": "gaussian"}, {}, "delta=0.0"),
        ({}, {"neighbours": "add-remove"}, "neighbours='add-remove'"),
        ({}, {"unit": "edge"}, "unit='edge'"),
        ({}, {"delta": 1e-6, "change": Change.l2(1.0), "projection": "fresh"}, "projection='fixed'"),
    ],
)
def test_what_components_cannot_promise_is_refused_in_one_line(recipe, promise, named):
    with pytest.raises(ParameterError) as caught:
        Components(**({"dimension": 2} | recipe)).prepare(
            Schema.reals(4, low=0, high=1), Guarantee(**({"epsilon": 1.0} | promise))
        )
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


def test_too_many_columns_are_refused():
    with pytest.raises(ParameterError, match="3000 encoded columns"):
        prepare(Schema.reals(3001, low=0, high=1))


def test_a_row_norm_clip_needs_the_record_as_unit():
    schema = Schema([Real("a", 0, 1), Real("b", 0, 1)], norm="l2", norm_bound=1.0, scale="raw")
    with pytest.raises(ParameterError, match="unit='record'"):
        prepare(schema, kind="attribute")


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_a_narrow_column_beside_a_very_wide_one_can_be_released(noise):
    """Rounding the wide one is longer than the narrow one: a ball of that length says more than a product holds."""
    schema = Schema([Real("wide", 0, 1e60), Flag("narrow")], norm="l2", norm_bound=3.0, scale="raw")
    promise = Guarantee(epsilon=1.0, delta=0.0 if noise == "laplace" else 1e-6)
    prepared = Components(dimension=1, noise=noise).prepare(schema, promise)
    for components in (np.array([[0.0], [1.0]]), np.array([[1.0], [0.0]])):
        stage = prepared.second_stage(components)
        assert stage.reach <= 2.0**53
        rows = table_rows(open_table(pa.table({"wide": [0.0, 1e60], "narrow": [True, False]}), schema), schema)
        (block,) = stage.run(rows, 1.0, Secret.for_testing(1)).blocks
        assert np.isfinite(block).all()
