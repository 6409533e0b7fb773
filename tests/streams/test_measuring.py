"""The noise of streams: what neighbours move, exactly; the law of published running sums; what longer horizons cost."""

import itertools
import math

import numpy as np
import pyarrow as pa
import pytest

from sfumato.errors import ParameterError
from sfumato.files.open_table import open_table
from sfumato.mechanisms.covariance import Covariance
from sfumato.mechanisms.histogram import Histogram
from sfumato.mechanisms.synthetic.recipe import Synthetic
from sfumato.numerics.lattice import Total
from sfumato.privacy.calibration import least_epsilon
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Gaussian
from sfumato.randomness.secret import Secret
from sfumato.streams.description import StreamDescription
from sfumato.streams.factorisation import Node, SquareRoot, Tree
from sfumato.streams.statistic import WeightedSum, statistic_of
from sfumato.tables.columns import Category, Real
from sfumato.tables.schema import Schema
from support.evidence import agrees
from support.rows import table_rows

NUMBERS = Schema.reals(2, low=0, high=1)
MIXED = Schema([Real("x", low=0, high=1), Category("c", values=("a", "b"))])


def promise(neighbours="replace", group=1):
    return Guarantee(epsilon=1.0, delta=1e-6, unit="record", neighbours=neighbours, group=group)


def coarsened_measurements(about, streams):
    """All measurements of one stream of exact integers, coarsened and without noise, over deviations."""
    made, found = about.measuring, []
    for period in range(1, len(streams) + 1):
        for node in made.method.measured(period):
            total = WeightedSum(streams[0].halves[0].size)
            rows = np.stack([one.halves for one in streams[:period]], axis=1)
            total.add(made.method.weights(node), rows[0], rows[1])
            found.append(total.coarsened(made.shift))
    return found


def move(about, one, other):
    """How far the whole coarsened vector moves between two streams, over deviations: its length."""
    pairs = zip(coarsened_measurements(about, one), coarsened_measurements(about, other), strict=True)
    return math.sqrt(sum(float(np.sum(((a - b) / about.measuring.statistic.deviations) ** 2)) for a, b in pairs))


CASES = [
    (Covariance(), NUMBERS, "replace"),
    (Covariance(), NUMBERS, "add-remove"),
    (Covariance(centred=False), NUMBERS, "replace"),
    (Histogram((("x",), ("x", "c")), bins={"x": 3}), MIXED, "replace"),
    (Histogram((("x", "c"),), bins={"x": 3}), MIXED, "add-remove"),
    (Synthetic(dimension=1, label="c", seed=1), MIXED, "replace"),
    (Synthetic(dimension=1, label="c", seed=1), MIXED, "add-remove"),
]


def corner_rows(schema):
    """Rows at the ends and in the middle of a schema's domain, each as a table of one row."""
    if schema is NUMBERS:
        return [pa.table({"c0": [a], "c1": [b]}) for a, b in itertools.product((0.0, 0.31, 1.0), repeat=2)]
    return [pa.table({"x": [a], "c": [b]}) for a, b in itertools.product((0.0, 0.31, 1.0), "ab")]


@pytest.mark.parametrize("method", ["square-root", "tree"])
@pytest.mark.parametrize(("recipe", "schema", "neighbours"), CASES)
def test_no_neighbours_in_any_period_move_a_stream_further_than_stated(recipe, schema, neighbours, method):
    """Every pair of rows from the corners of the domain, in every period of five; some move it nearly as far."""
    about = StreamDescription.new(recipe, schema, promise(neighbours), 5, method)
    statistic = about.measuring.statistic
    single = [statistic.exact(table_rows(open_table(row, schema), schema))[0] for row in corner_rows(schema)]
    none = Total.of(*(np.zeros_like(half) for half in single[0].halves))
    rest = [single[i % len(single)] for i in range(5)]
    stated, largest = about.measuring.sensitivity(5), 0.0
    pairs = itertools.combinations(single, 2) if neighbours == "replace" else [(one, none) for one in single]
    for (before, after), period in itertools.product(pairs, range(5)):
        own = [Total.of(*one.halves).merge(rest[period]) for one in (before, after)]
        found = move(about, *([*rest[:period], one, *rest[period + 1 :]] for one in own))
        assert found <= stated
        largest = max(largest, found)
    assert largest > 0.6 * stated


@pytest.mark.parametrize("method", [SquareRoot(), Tree()])
def test_counts_attain_the_sensitivity_that_is_stated(method):
    """One table, a record more in the first period: exactly the column norm."""
    statistic = statistic_of(Histogram((("c",),)), MIXED, promise("add-remove"))
    about = StreamDescription.new(Histogram((("c",),)), MIXED, promise("add-remove"), 4, method.name)
    (row,) = (statistic.exact(table_rows(open_table(pa.table({"x": [0.5], "c": ["a"]}), MIXED), MIXED))[0],)
    none = Total.of(*(np.zeros_like(half) for half in row.halves))
    found = move(about, [row, none, none, none], [none] * 4)
    assert about.measuring.shift == 0
    assert found == pytest.approx(math.sqrt(method.squared_norm(4)), rel=1e-12)
    assert found <= about.measuring.sensitivity(4) <= found * (1 + 1e-9)


def test_people_with_several_rows_in_different_periods_stay_within_their_group():
    """Three rows in the same period, in different ones, or one that comes and leaves; two rows' bound is exceeded."""
    three, two = (StreamDescription.new(Covariance(), NUMBERS, promise("add-remove", g), 4, None) for g in (3, 2))
    row = open_table(pa.table({"c0": [1.0], "c1": [1.0]}), NUMBERS)
    corner = three.measuring.statistic.exact(table_rows(row, NUMBERS))[0]
    times = {n: Total.of(*(n * half for half in corner.halves)) for n in (-1, 0, 1, 2, 3)}
    nobody, stated = [times[0]] * 4, three.measuring.sensitivity(4)
    moves = {
        counts: move(three, [times[n] for n in counts], nobody)
        for counts in ((3, 0, 0, 0), (1, 1, 1, 0), (1, 0, 0, 2), (0, 1, -1, 1))
    }
    assert max(moves.values()) == moves[3, 0, 0, 0] <= stated
    assert moves[3, 0, 0, 0] > 0.9 * stated
    assert moves[3, 0, 0, 0] > two.measuring.sensitivity(4) * 2.0 ** (two.measuring.shift - three.measuring.shift)


def test_weighted_sums_are_exact_for_numbers_of_any_size():
    """Against Python's integers, below and beyond what 64 bits hold, negative ones among them."""
    rng = np.random.default_rng(5)
    for top in (20, 33, 47, 62):
        for shift in (0, 7, 40):
            high = rng.integers(-(2**top), 2**top, (9, 4)) >> 1
            low = rng.integers(0, 2**32, (9, 4))
            weights = rng.integers(-(2**20), 2**20, 9)
            total = WeightedSum(4)
            total.add(weights[:5], high[:5], low[:5])
            total.add(weights[5:], high[5:], low[5:])
            exact = [
                sum(int(w) * ((int(h) << 32) + int(x)) for w, h, x in zip(weights, high[:, j], low[:, j], strict=True))
                for j in range(4)
            ]
            half = (1 << shift) >> 1
            wanted = [min(max((number + half) >> shift, -(2**62)), 2**62 - 1) for number in exact]
            assert total.coarsened(shift).tolist() == wanted


@pytest.mark.parametrize("method", ["square-root", "tree"])
def test_longer_horizons_cost_what_the_whole_then_costs(method):
    """Squared sensitivities add up: what was charged before and the extra make the whole, never less."""
    about = StreamDescription.new(Covariance(), NUMBERS, promise(), 8, method)
    made, scale = about.measuring, about.scale
    for horizon in (9, 16, 100, 4096):
        extra, whole = made.more(scale, 8, horizon), made.whole(scale, horizon)
        together = math.hypot(made.sensitivity(8), 0.0 if extra is None else extra.sensitivity)
        assert together >= whole.sensitivity
        assert together == pytest.approx(whole.sensitivity, rel=1e-9)
        assert made.promise(scale, horizon).epsilon >= 1.0
        assert whole.delta(made.promise(scale, horizon).epsilon) <= 1e-6
    assert (made.more(scale, 8, 15) is None) == (method == "tree")
    assert about.guarantee.epsilon == 1.0
    assert least_epsilon(Gaussian(made.sensitivity(8), scale), 1e-6) <= 1.0


def test_noise_is_exact_and_reused_by_no_other_measurement():
    """Two nodes of one period, and one node of two periods, get different noise under one testing key."""
    about = StreamDescription.new(Covariance(), NUMBERS, promise(), 8, "tree").measuring
    zeros, secret = np.zeros(about.statistic.deviations.size, np.int64), Secret.for_testing(1)
    drawn = [about.measured(node, zeros, 1e6, secret) for t in (1, 2) for node in about.method.measured(t)]
    assert len({tuple(one) for one in drawn}) == 3


@pytest.mark.parametrize(
    ("recipe", "guarantee", "says"),
    [
        (Covariance(), Guarantee(epsilon=1.0, unit="record"), "delta > 0"),
        (Covariance(noise="laplace"), promise(), "leave it out"),
        (Synthetic(label="c", counts="public"), promise(), "counts='private'"),
        (Synthetic(label="c", centring="private"), promise(), "centring='public'"),
    ],
)
def test_what_cannot_be_streamed_is_refused_in_one_line(recipe, guarantee, says):
    """Noise without a theorem, and statistics that are no sums."""
    with pytest.raises(ParameterError, match=says) as error:
        statistic_of(recipe, MIXED, guarantee)
    assert "\n" not in str(error.value)


def test_products_have_less_noise_than_squares_by_the_square_root_of_two():
    """Isotropic in Frobenius norm, as the sensitivity is: variances of both, and neither fits the other."""
    about = StreamDescription.new(Covariance(), Schema.reals(120, low=0, high=1), promise(), 8, None).measuring
    deviations, scale = about.statistic.deviations, 1e6
    drawn = about.measured(Node(1), np.zeros(deviations.size, np.int64), scale, Secret.for_testing(4)).astype(float)
    squares, products = drawn[deviations == 1.0], drawn[deviations < 1.0]
    assert squares.size == 120
    assert agrees(products**2, scale**2 / 2)
    assert not agrees(products**2, scale**2 / 1.8)
    assert agrees(squares**2, scale**2)
    assert not agrees(squares**2, scale**2 * 3)
