"""The sketch mechanism: contract, audits with broken twins, and what it refuses."""

import itertools
import math
import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from sfumato.audit.bound import lower_bound
from sfumato.audit.worst_pairs import sketch_pair
from sfumato.errors import ParameterError
from sfumato.estimation.sketches import squared_distance
from sfumato.files.open_table import open_table
from sfumato.intervals.moments import Geometry, NoiseLaw, SketchLaw
from sfumato.mechanisms.sketch import Sketch, _exact_rows, effective_change
from sfumato.numerics.lattice import InputGrid, doubles
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.projection.lattice_projection import LatticeProjection
from sfumato.randomness.secret import Secret
from sfumato.tables.columns import Category, Flag, Real
from sfumato.tables.schema import Schema
from support.rows import table_rows

FAMILIES = ["identity", "gaussian", "rademacher", "achlioptas", "sparse", "orthonormal"]
NOISES = ["laplace", "gaussian"]
CHANGES = {
    "attribute": {"unit": "attribute"},
    "box": {"unit": "record"},
    "l1": {"unit": "record", "change": Change.l1(0.7)},
    "l2": {"unit": "record", "change": Change.l2(0.7)},
}
MIXED = Schema(
    [Real("age", 0, 120, weight=0.01), Flag("smoker"), Category("city", ["Bern", "Basel", "Biel"]), Real("x", -1, 1)],
    scale="raw",
)


def guarantee(kind, noise, epsilon=1.0, **more):
    return Guarantee(epsilon=epsilon, delta=0.0 if noise == "laplace" else 1e-3, **CHANGES[kind], **more)


def prepare(family, noise, kind, schema=MIXED, **more):
    dimension = None if family == "identity" else 4
    recipe = Sketch(dimension=dimension, projection=family, noise=noise, seed=3)
    return recipe.prepare(schema, guarantee(kind, noise, **more))


def random_rows(rng, count, wild=True):
    """Encoded rows of MIXED: real values far outside their bounds too, flags, and one category or none."""
    block = np.zeros((6, count))
    block[0], block[5] = rng.uniform(-60, 300, count), rng.uniform(-3, 3, count)
    if wild:
        block[0, ::7], block[5, ::5] = np.inf, -np.inf
    block[1] = rng.random(count) < 0.5
    city = rng.integers(0, 4, count)
    for value in range(3):
        block[2 + value] = city == value
    return block


def neighbours(rng, count, kind, encoding):
    one, two = random_rows(rng, count), random_rows(rng, count)
    if kind == "attribute":
        which = rng.integers(0, 4, count)
        spans = [(0, 1), (1, 2), (2, 5), (5, 6)]
        keep = np.ones((6, count), bool)
        for i, (a, b) in enumerate(spans):
            keep[a:b, which == i] = False
        two = np.where(keep, one, two)
    elif kind in ("l1", "l2"):
        one = random_rows(rng, count, wild=False)
        steps = rng.standard_normal(one.shape) * (rng.random(one.shape) < 0.5)
        length = np.linalg.norm(steps, 1 if kind == "l1" else 2, axis=0)
        two = one + steps * 0.7 / np.maximum(length, 1e-9) / encoding.weights[:, None]
    return one, two


@pytest.mark.parametrize("kind", CHANGES)
@pytest.mark.parametrize(("family", "noise"), list(itertools.product(FAMILIES, NOISES)))
def test_no_neighbour_moves_the_output_further_than_stated(family, noise, kind):
    sketch = prepare(family, noise, kind)
    one, two = neighbours(np.random.default_rng(1), 30_000, kind, MIXED.encoding)
    exact = _exact_rows(MIXED, sketch.projection, sketch.shift)
    moved = np.linalg.norm((exact(one) - exact(two)).astype(float), sketch.order, axis=0).max()
    assert moved <= sketch.sensitivity
    assert moved > sketch.sensitivity * (0.98 if kind == "attribute" else 0.3)


def test_several_rows_of_one_person_add_up():
    one, four = (prepare("gaussian", noise, "box", group=g) for noise, g in (("laplace", 1), ("laplace", 4)))
    assert four.sensitivity == pytest.approx(4 * one.sensitivity * 2.0 ** (one.shift - four.shift), rel=1e-4)
    one, four = (prepare("gaussian", "gaussian", "box", group=g) for g in (1, 4))
    assert four.sensitivity == pytest.approx(2 * one.sensitivity * 2.0 ** (one.shift - four.shift), rel=1e-4)


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("noise", NOISES)
def test_a_row_norm_clip_bounds_any_two_rows(norm, noise):
    schema = Schema([Real(f"c{i}", -5, 5, weight=1 + i) for i in range(5)], norm=norm, norm_bound=2.0, scale="raw")
    sketch = prepare("gaussian", noise, "box", schema)
    assert effective_change(schema, sketch.guarantee) == Change(norm, 4.0)
    rng = np.random.default_rng(2)
    exact = _exact_rows(schema, sketch.projection, sketch.shift)
    one, two = (rng.choice([-9.0, 9.0, 0.0, 0.1, np.inf], (5, 20_000)) for _ in range(2))
    assert np.linalg.norm((exact(one) - exact(two)).astype(float), sketch.order, axis=0).max() <= sketch.sensitivity
    clipped = schema.clip(one) * schema.encoding.weights[:, None]
    assert np.linalg.norm(clipped, 1 if norm == "l1" else 2, axis=0).max() <= 2.0


def run_many(sketch, level, value, count, seed):
    """One release of ``count`` equal records is ``count`` independent runs on one record."""
    table = open_table(np.tile(value, (count, 1)), sketch.schema)
    rows = table_rows(table, sketch.schema)
    return np.concatenate(list(sketch.run(rows, level, Secret.for_testing(seed)).blocks), axis=1)


def scores(sketch, outputs, first, second):
    """The log-likelihood ratio, up to what does not matter."""
    dense = sketch.projection.matrix()
    images = [(x @ dense)[:, None] for x in (first, second)]
    power = 1 if sketch.recipe.noise == "laplace" else 2
    return sum(
        sign * (np.abs(outputs - image) ** power).sum(axis=0) for sign, image in zip((-1, 1), images, strict=True)
    )


UNIT_BOX = Schema.reals(4, low=0.0, high=1.0)


@pytest.mark.parametrize("kind", CHANGES)
@pytest.mark.parametrize(("family", "noise"), list(itertools.product(FAMILIES, NOISES)))
def test_audits_pass_and_half_the_noise_is_caught(family, noise, kind):
    epsilon = 1.5
    sketch = Sketch(dimension=None if family == "identity" else 3, projection=family, noise=noise, seed=1).prepare(
        UNIT_BOX, guarantee(kind, noise, epsilon)
    )
    level = calibrate(sketch, sketch.guarantee).level
    first, second = (row[:, 0] for row in sketch_pair(sketch))
    delta = sketch.guarantee.delta
    for factor, caught in ((1.0, False), (0.5, True)):
        outputs = [run_many(sketch, level * factor, x, 60_000, seed) for seed, x in ((1, first), (2, second))]
        bound = lower_bound(*(scores(sketch, z, first, second) for z in outputs), delta=delta, confidence=1 - 1e-6)
        assert bound.refutes(epsilon) == caught, bound
        assert factor != 1.0 or bound.epsilon > 0.25 * epsilon or kind in ("box", "l2")


@pytest.mark.parametrize("kind", CHANGES)
@pytest.mark.parametrize(("family", "noise"), list(itertools.product(FAMILIES, NOISES)))
def test_distances_are_unbiased_with_the_predicted_variance_for_every_unit(family, noise, kind):
    """The real mechanism, with projection and noise drawn anew each time."""
    rng, errors, predicted, level = np.random.default_rng(6), [], [], None
    pair = rng.random((2, 4))
    gap = pair[0] - pair[1]
    for seed in range(120):
        recipe = Sketch(dimension=None if family == "identity" else 6, projection=family, noise=noise, seed=seed)
        recipe = replace(recipe, dimension=4) if family == "orthonormal" else recipe
        sketch = recipe.prepare(UNIT_BOX, guarantee(kind, noise, epsilon=8.0))
        level = level or calibrate(sketch, sketch.guarantee).level
        rows = table_rows(open_table(np.tile(pair, (25, 1)), UNIT_BOX), UNIT_BOX, threads=1)
        (out,) = sketch.run(rows, level, Secret.for_testing(seed)).blocks
        scale = sketch.scale(level) * sketch.unit * (math.sqrt(2) if noise == "laplace" else 1.0)
        law = SketchLaw(NoiseLaw(noise, scale), Geometry(family, 4, out.shape[0]))
        found = squared_distance(out.T[0::2], out.T[1::2], law)
        errors.append(found.value - gap @ gap)
        predicted.append(law.distance_variance(gap @ gap, np.sum(gap**4)))
    means, squares = np.mean(errors, axis=1), np.mean(np.square(errors), axis=1)
    assert abs(means.mean()) <= 5 * means.std() / math.sqrt(len(means))
    error = np.std(squares - predicted) / math.sqrt(len(squares))
    assert abs(np.mean(squares - predicted)) <= 5 * error
    assert error < 0.3 * np.mean(predicted)


def test_identical_records_give_an_audit_nothing():
    sketch = prepare("gaussian", "laplace", "attribute", UNIT_BOX)
    value = np.full(4, 0.3)
    outputs = [run_many(sketch, 1.0, value, 50_000, seed)[0] for seed in (1, 2)]
    assert lower_bound(*outputs).epsilon == 0


def refuted(sketch, level, pair, epsilon=1.5):
    """Whether an audit of many runs on the two ends of a pair refutes the claim."""
    images = [sketch.schema.clip(np.array(x, float)[:, None])[:, 0] for x in pair]
    outputs = [run_many(sketch, level, np.array(x, float), 60_000, seed) for seed, x in enumerate(pair)]
    found = lower_bound(*(scores(sketch, z, *images) for z in outputs), confidence=1 - 1e-6)
    return found.refutes(epsilon)


def test_a_clip_left_out_is_caught(monkeypatch):
    """Values far outside their bounds: clipped they keep the promise, unclipped the audit refutes it."""
    sketch = prepare("identity", "laplace", "attribute", UNIT_BOX, epsilon=1.5)
    level = calibrate(sketch, sketch.guarantee).level
    pair = (5.0, 0, 0, 0), (-5.0, 0, 0, 0)
    assert not refuted(sketch, level, pair)
    monkeypatch.setattr(InputGrid, "round", lambda _grid, columns, out: np.rint(doubles(columns) * 2.0**20, out=out))
    assert refuted(sketch, level, pair)


@pytest.mark.parametrize("noise", NOISES)
def test_every_record_of_a_block_gets_noise_of_its_own(noise, monkeypatch):
    """Noise is drawn for some records of a block at a time: for the last ones too, and never twice the same."""
    monkeypatch.setattr("sfumato.mechanisms.sketch._DRAWN", 4 * 1000)
    sketch = prepare("identity", noise, "attribute", UNIT_BOX, epsilon=1.0)
    level = calibrate(sketch, sketch.guarantee).level
    numbers = run_many(sketch, level, np.zeros(4), 5500, 1).astype(float) / sketch.unit / sketch.scale(level)
    windows = [numbers[:, start : start + 1000] for start in range(0, 5500, 1000)]
    assert [w.shape[1] for w in windows] == [1000] * 5 + [500]
    assert all(0.8 < w.std() / (2**0.5 if noise == "laplace" else 1) < 1.2 for w in windows)
    assert all(np.abs(np.corrcoef(windows[0].ravel(), w.ravel())[0, 1]) < 0.1 for w in windows[1:5])


def test_a_forgotten_factor_two_of_a_category_is_caught(monkeypatch):
    schema = Schema([Category("city", ["Bern", "Basel"])], scale="raw")

    def audit():
        sketch = prepare("identity", "laplace", "attribute", schema, epsilon=1.5)
        level = calibrate(sketch, sketch.guarantee).level
        outputs = []
        for seed, city in ((1, "Bern"), (2, "Basel")):
            rows = table_rows(open_table(pa.table({"city": [city] * 60_000}), schema), schema)
            outputs.append(np.concatenate(list(sketch.run(rows, level, Secret.for_testing(seed)).blocks), axis=1))
        ends = np.eye(2)
        found = lower_bound(*(scores(sketch, z, *ends) for z in outputs), confidence=1 - 1e-6)
        return found.refutes(1.5)

    assert not audit()
    honest = LatticeProjection.sensitivity
    monkeypatch.setattr(LatticeProjection, "sensitivity", lambda self, change, order, **_: honest(self, change, order))
    assert audit()


class Pairs:
    """An engine of one-row blocks: equal or neighbouring records, two by two."""

    def __init__(self, pair, count, *, position):
        self.blocks, self.position = [np.array(x, float)[:, None] for x in pair] * count, position

    def map(self, function):
        return (function(self.position(i), block) for i, block in enumerate(self.blocks))


@pytest.mark.parametrize("reused", [False, True])
def test_noise_reused_between_equal_blocks_is_caught(reused):
    """If noise depended on a block's content alone, equal records would be published equal: delta = 1."""
    sketch = prepare("identity", "laplace", "attribute", UNIT_BOX, epsilon=1.5)
    level = calibrate(sketch, sketch.guarantee).level
    same, other = (0.3, 0.3, 0.3, 0.3), (0.8, 0.3, 0.3, 0.3)
    gaps = []
    for seed, pair in ((1, (same, same)), (2, (same, other))):
        rows = Pairs(pair, 2000, position=int)
        if reused:  # a fresh key for each pair, so that only the two halves of a pair can share noise
            runs = [
                list(
                    sketch.run(Pairs(pair, 1, position=lambda _i: 0), level, Secret.for_testing(9000 * seed + i)).blocks
                )
                for i in range(2000)
            ]
            out = np.concatenate([block for run in runs for block in run], axis=1)
        else:
            out = np.concatenate(list(sketch.run(rows, level, Secret.for_testing(seed)).blocks), axis=1)
        gaps.append(-np.abs(out[:, 0::2] - out[:, 1::2]).max(axis=0))
    assert lower_bound(*gaps, confidence=1 - 1e-6).refutes(1.5) == reused


def test_a_retry_repeats_its_noise_and_other_content_does_not():
    sketch = prepare("identity", "laplace", "attribute", UNIT_BOX)
    one, two = (run_many(sketch, 1.0, np.full(4, 0.3), 1000, 7) for _ in range(2))
    assert (one == two).all()
    other = run_many(sketch, 1.0, np.full(4, 0.4), 1000, 7)
    assert np.abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.1
    assert np.unique(one[0]).size == 1000


@pytest.mark.parametrize(
    ("family", "noise"),
    [
        ("gaussian", "gaussian"),
        pytest.param("orthonormal", "gaussian", marks=pytest.mark.slow),
        pytest.param("gaussian", "laplace", marks=pytest.mark.slow),
    ],
)
def test_fresh_projections_pass_the_audit_and_reusing_one_does_not(family, noise, monkeypatch):
    """One record per draw of P. At a P that suits the attacker the fresh level is too low: a reused P is caught."""
    monkeypatch.setattr("secrets.randbits", random.Random(8).getrandbits)  # noqa: S311
    promise = Guarantee(epsilon=1.0, delta=0.02, change=Change.l2(1.0), projection="fresh")
    recipe, schema = Sketch(dimension=2, projection=family, noise=noise), Schema.reals(6, low=-1.0, high=1.0)
    sketches = [recipe.prepare(schema, promise) for _ in range(800)]
    level = calibrate(sketches[0], promise).level
    pair = np.eye(6)[0] / 2, -np.eye(6)[0] / 2
    for factor, caught in ((1.0, False), (0.15, True)):
        sides = [
            np.array(
                [scores(s, run_many(s, level * factor, x, 1, 2 * i + side), *pair)[0] for i, s in enumerate(sketches)]
            )
            for side, x in enumerate(pair)
        ]
        assert lower_bound(*sides, delta=promise.delta, confidence=1 - 1e-6).refutes(1.0) == caught
    longest = max(sketches, key=lambda s: np.linalg.norm(pair[0] @ s.projection.matrix()))
    reused = [scores(longest, run_many(longest, level, x, 60_000, seed), *pair) for seed, x in enumerate(pair)]
    assert lower_bound(*reused, delta=promise.delta, confidence=1 - 1e-6).refutes(1.0)


def test_the_noise_has_the_stated_scale_and_the_mean_is_the_projection():
    for noise in NOISES:
        sketch = prepare("gaussian", noise, "attribute", UNIT_BOX)
        level = calibrate(sketch, sketch.guarantee).level
        value = np.array([0.1, 0.5, 0.9, 1.0])
        out = run_many(sketch, level, value, 100_000, 9)
        scale = sketch.scale(level) * sketch.unit * (math.sqrt(2) if noise == "laplace" else 1)
        error = scale / math.sqrt(100_000)
        assert np.abs(out.mean(axis=1) - value @ sketch.projection.matrix()).max() < 6.2 * error
        assert np.abs(out.std(axis=1) / scale - 1).max() < 0.02


def test_low_bounds_keep_their_place():
    schema = Schema.reals(3, low=10.0, high=11.0)
    sketch = prepare("gaussian", "laplace", "attribute", schema, epsilon=1000.0)
    out = run_many(sketch, 1e-3, np.array([10.2, 10.5, 11.0]), 2000, 1)
    assert np.allclose(out.mean(axis=1), np.array([10.2, 10.5, 11.0]) @ sketch.projection.matrix(), atol=1e-3)


def test_wide_tables_lower_their_bits_instead_of_refusing():
    sketch = Sketch(dimension=8, seed=1).prepare(Schema.reals(6000, low=0, high=1), guarantee("attribute", "laplace"))
    assert sketch.projection.input_bits + sketch.projection.projection_bits + 13 <= 53
    assert sketch.sensitivity * sketch.unit == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize(
    ("recipe", "promise", "named"),
    [
        ({"projection": "gaussian"}, {}, "dimension=None"),
        ({"dimension": 0}, {}, "dimension=0"),
        ({"dimension": 3_000_000}, {}, "dimension=3000000"),  # more than a release can hold
        ({"dimension": 5, "projection": "orthonormal"}, {}, "dim_out=5"),
        ({"dimension": 3, "noise": "uniform"}, {}, "noise='uniform'"),
        ({"dimension": 3, "noise": "gaussian"}, {}, "delta=0.0"),
        ({"dimension": 3}, {"neighbours": "add-remove"}, "neighbours='add-remove'"),
        ({"dimension": 3}, {"unit": "edge"}, "unit='edge'"),
        ({"dimension": 3}, {"delta": 1e-6, "change": Change.l2(1.0), "projection": "fresh"}, "projection='sparse'"),
        (
            {"dimension": 3, "projection": "orthonormal", "noise": "laplace"},
            {"delta": 1e-6, "change": Change.l2(1.0), "projection": "fresh"},
            "projection='orthonormal'",
        ),
        (
            {"dimension": 3, "projection": "gaussian", "seed": 4},
            {"delta": 1e-6, "change": Change.l2(1.0), "projection": "fresh"},
            "seed=4",
        ),
    ],
)
def test_what_a_sketch_cannot_promise_is_refused(recipe, promise, named):
    with pytest.raises(ParameterError) as caught:
        Sketch(**recipe).prepare(UNIT_BOX, Guarantee(**({"epsilon": 1.0} | promise)))
    assert named in str(caught.value)


def test_a_clip_by_row_norm_needs_the_record_as_unit():
    schema = Schema([Real("a", 0, 1), Real("b", 0, 1)], norm="l2", norm_bound=1.0, scale="raw")
    with pytest.raises(ParameterError, match="unit='record'"):
        _ = prepare("gaussian", "laplace", "attribute", schema).sensitivity
    with pytest.raises(ParameterError, match="l1 norm"):
        _ = prepare("gaussian", "laplace", "l1", schema).sensitivity


def test_threads_and_blocks_do_not_change_a_release():
    sketch = prepare("gaussian", "laplace", "attribute", UNIT_BOX)
    data = np.random.default_rng(3).random((300_000, 4))
    table = open_table(data, UNIT_BOX)
    runs = [
        np.concatenate(
            list(sketch.run(table_rows(table, UNIT_BOX, threads=t), 1.0, Secret.for_testing(1)).blocks), axis=1
        )
        for t in (1, 3)
    ]
    assert (runs[0] == runs[1]).all()
    arrow = open_table(pa.table({f"c{i}": data[:, i] for i in range(4)}), UNIT_BOX)
    again = np.concatenate(list(sketch.run(table_rows(arrow, UNIT_BOX), 1.0, Secret.for_testing(1)).blocks), axis=1)
    assert (runs[0] == again).all()
