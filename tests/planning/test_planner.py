"""Plans: forecasts against real preparation and calibration, ranking against an exhaustive search, and words."""

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.intervals.moments import Geometry, NoiseLaw, SketchLaw
from sfumato.mechanisms.sketch import Sketch
from sfumato.pipeline.release import release
from sfumato.planning import forecast
from sfumato.planning.forecast import ColumnWidths
from sfumato.planning.planner import plan
from sfumato.planning.scales import plan_scales
from sfumato.privacy.calibration import calibrate, least_level
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.privacy.losses import FreshGaussian, FreshLaplace
from sfumato.randomness.secret import Secret
from sfumato.tables.columns import Category, Flag, Real, Set, Vector
from sfumato.tables.schema import Schema

ATTRIBUTE = Guarantee(epsilon=1.0, delta=1e-6, unit="attribute")
UNITS = [
    ATTRIBUTE,
    Guarantee(epsilon=1.0, delta=1e-6, change=Change.l1(2.0)),
    Guarantee(epsilon=1.0, delta=1e-6, change=Change.l2(2.0)),
    Guarantee(epsilon=1.0, delta=1e-6),
]


@pytest.fixture(autouse=True)
def same_projections_on_every_run(monkeypatch):
    """Plans draw public seeds; here they are always the same, so that no test depends on luck."""
    numbers = itertools.count(1)
    monkeypatch.setattr("secrets.randbits", lambda _bits: next(numbers))


# ---- forecasts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("guarantee", UNITS, ids=lambda g: g.allowed_change.kind)
@pytest.mark.parametrize("family", ["sparse", "rademacher", "gaussian", "achlioptas", "orthonormal"])
@pytest.mark.parametrize(("d", "k"), [(60, 20), (200, 32)])
def test_forecast_sensitivities_are_those_of_drawn_projections(family, d, k, guarantee):
    schema = Schema.reals(d, low=0, high=1)
    for noise, order in (("laplace", 1), ("gaussian", 2)):
        sketches = [Sketch(dimension=k, projection=family, noise=noise, seed=s) for s in range(5)]
        exact = np.mean([p.sensitivity * p.unit for p in (s.prepare(schema, guarantee) for s in sketches)])
        found = forecast.reach(Geometry(family, d, k), order, guarantee.allowed_change, ColumnWidths.of(schema))
        assert found == pytest.approx(exact, rel=0.12 if family == "sparse" else 0.06)  # whole columns share a bucket
        if family in ("sparse", "rademacher") and guarantee.allowed_change.kind in ("attribute", "l1"):
            assert found == pytest.approx(exact, rel=1e-3)


def test_a_category_counts_twice():
    schema = Schema([Category("city", ["a", "b", "c"]), Real("x", 0, 1)], scale="raw")
    for noise, order in (("laplace", 1), ("gaussian", 2)):
        prepared = Sketch(noise=noise).prepare(schema, ATTRIBUTE)
        found = forecast.reach(Geometry("identity", 4, 4), order, Change.attribute(), ColumnWidths.of(schema))
        assert found == pytest.approx(prepared.sensitivity * prepared.unit, rel=1e-3)
    assert ColumnWidths.of(schema).squared_typical == pytest.approx(2 * (1 - 1 / 3) + 1 / 6)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-6), (4.0, 1e-3)])
def test_fresh_levels_are_the_calibrated_ones(epsilon, delta):
    shapes = [Geometry("gaussian", 300, 1), Geometry("gaussian", 300, 16), Geometry("orthonormal", 300, 16)]
    for shape, found in zip(shapes, forecast.fresh_levels(shapes, epsilon, delta), strict=True):
        facts = {"family": shape.family, "dim_in": shape.dim_in, "dim_out": shape.dim_out, "radius": 1.0}
        exact = least_level(lambda s, facts=facts: FreshGaussian(scale=s, **facts), epsilon, delta)
        assert found == pytest.approx(exact, rel=1e-5)


def test_fresh_laplace_levels_are_within_a_hundredth():
    one = forecast.fresh_laplace_level(1.0, 1e-3)
    for k in (1, 4):
        exact = least_level(lambda b, k=k: FreshLaplace(dim_out=k, radius=1.0, laplace_scale=b), 1.0, 1e-3)
        assert one * forecast.more_columns(k) == pytest.approx(math.sqrt(2) * exact, rel=0.01)


# ---- plans ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("guarantee", UNITS, ids=lambda g: g.allowed_change.kind)
@pytest.mark.parametrize("distance", [0.5, 4.0, 20.0])
def test_no_dimension_of_any_family_beats_the_plan_by_two_percent(guarantee, distance):
    """Exhaustively, with every projection drawn and every noise calibrated for real."""
    schema = Schema.reals(48, low=0, high=1)
    best = plan(schema=schema, guarantee=guarantee, distance=distance).best.standard_error(distance)
    for option in _exhaustive(schema, guarantee):
        assert best <= 1.02 * _error(option, schema, distance)


def _exhaustive(schema, guarantee):
    d = schema.encoding.dim
    for noise in ("laplace", "gaussian"):
        yield calibrate(Sketch(noise=noise).prepare(schema, guarantee), guarantee)
        for family in ("sparse", "rademacher"):
            for k in range(1, d, 3):
                sketch = Sketch(dimension=k, projection=family, noise=noise, seed=1)
                yield calibrate(sketch.prepare(schema, guarantee), guarantee)


def _error(calibrated, schema, distance):
    sketch = calibrated.mechanism
    sd = sketch.scale(calibrated.level) * sketch.unit * (math.sqrt(2) if sketch.recipe.noise == "laplace" else 1)
    geometry = Geometry(sketch.recipe.family, schema.encoding.dim, sketch.dimension)
    fourth = distance**4 / schema.encoding.dim
    return math.sqrt(SketchLaw(NoiseLaw(sketch.recipe.noise, sd), geometry).distance_variance(distance**2, fourth))


def test_the_noise_of_a_planned_release_is_the_predicted_one():
    schema = Schema.reals(30, low=0, high=2)
    for option in plan(schema=schema, guarantee=ATTRIBUTE, distance=3.0).options:
        if option.name == "sketch":
            prepared = option.mechanism.prepare(schema, option.guarantee)
            level = calibrate(prepared, option.guarantee).level
            sd = prepared.scale(level) * prepared.unit * (math.sqrt(2) if option.noise == "laplace" else 1)
            assert option.noise_scale == pytest.approx(sd, rel=2e-4)


def test_a_pure_promise_is_planned_with_pure_mechanisms_only():
    options = plan(columns=100, guarantee=Guarantee(epsilon=1.0, unit="attribute"), distance=3.0).options
    assert {o.noise for o in options} == {"laplace", "response"}


def test_fresh_projections_are_planned_when_the_promise_allows_them():
    promise = Guarantee(epsilon=1.0, delta=1e-6, change=Change.l2(1.0), projection="fresh")
    options = plan(schema=Schema.reals(300, low=0, high=1), guarantee=promise, distance=20.0).options
    assert {o.guarantee.projection for o in options} == {"fixed", "fresh"}
    fresh = next(o for o in options if o.guarantee.projection == "fresh" and o.noise == "gaussian")
    assert fresh.mechanism.prepare(Schema.reals(300, low=0, high=1), fresh.guarantee).fresh


@pytest.mark.parametrize(("epsilon", "distance"), [(1e-300, 1.0), (1.0, 1e308), (1.0, 1e-320)])
def test_numbers_that_no_variance_can_bear_are_refused(epsilon, distance):
    with pytest.raises(ParameterError, match="must be between"):
        plan(columns=5, rows=10, guarantee=Guarantee(epsilon=epsilon, unit="attribute"), distance=distance)


def test_one_column_can_be_planned_for():
    made = plan(columns=1, rows=100, guarantee=Guarantee(epsilon=1.0, unit="attribute"), distance=0.5)
    assert made.best.standard_error(0.5) >= 0


def test_a_request_is_not_hopeless_while_one_option_can_tell_the_distance_from_0():
    made = plan(columns=64, rows=3000, guarantee=Guarantee(epsilon=1.0, unit="attribute"), distance=4.0)
    assert made.best.detectable > 4 > min(option.detectable for option in made.options)
    assert not made.hopeless
    assert "are indistinguishable from 0 at this epsilon; " in made.verdict
    assert " detects them from 3.8" in made.verdict
    assert made.only(lambda option: option.detectable > 4).hopeless


def test_hopeless_requests_are_said_to_be_hopeless_with_what_would_help():
    made = plan(columns=1000, rows=500, guarantee=Guarantee(epsilon=1.0, delta=1e-6), distance=10.0)
    assert made.hopeless
    assert made.verdict.startswith("Hopeless at 10: distances below ")
    budget, change, other = made.advice
    epsilon = float(budget.split("epsilon ")[1].split()[0])
    radius = float(change.split("at most ")[1].split()[0])
    assert "synthetic data" in other
    enough = plan(columns=1000, guarantee=Guarantee(epsilon=epsilon, delta=1e-6), distance=10.0)
    assert enough.best.relative_error(10.0) == pytest.approx(0.25, rel=0.1)
    smaller = plan(columns=1000, guarantee=Guarantee(epsilon=1.0, delta=1e-6, change=Change.l1(radius)), distance=10.0)
    assert smaller.best.relative_error(10.0) == pytest.approx(0.25, rel=0.1)


def test_good_plans_give_no_advice():
    made = plan(columns=1000, guarantee=Guarantee(epsilon=8.0, unit="attribute"), distance=20.0)
    assert made.advice == ()
    assert not made.hopeless
    assert "are indistinguishable from 0" in made.verdict


def test_what_is_told_from_zero_has_a_square_of_two_standard_errors():
    best = plan(columns=100, guarantee=ATTRIBUTE, distance=5.0).best
    assert best.detectable**2 == pytest.approx(1.96 * best.standard_error(0.0))


def test_plans_for_a_million_columns_touch_no_data():
    made = plan(columns=10**6, rows=10**9, guarantee=ATTRIBUTE, distance=30.0)
    assert made.best.family == "sparse"
    assert made.best.numbers == 10**9 * made.best.dimension
    json.dumps(made.to_dict(), allow_nan=False)


def test_the_largest_dimension_is_kept_to():
    made = plan(columns=1000, guarantee=ATTRIBUTE, distance=30.0, largest_dimension=10)
    assert max(o.dimension for o in made.options if o.name == "sketch") <= 10


def test_clusters_of_wide_records_are_planned_by_how_many_records_go_wrong():
    """More columns than are guessed: no forecast of what analysts find."""
    made = plan(schema=Schema.reals(5_000, low=-8, high=8), guarantee=Guarantee(epsilon=4.0, change=Change.l1(1.0)),
                purpose="clustering", distance=4.0)  # fmt: skip
    assert made.best.alike is None
    assert made.best.family == "identity"  # Dhaliwal et al., Table 1
    assert made.best.errors.mistake(4.0) < 1e-6
    assert "land in the wrong one" in made.verdict


def test_without_a_distance_the_plan_says_what_it_assumed():
    made = plan(schema=Schema([Flag(f"f{i}") for i in range(8)]), guarantee=ATTRIBUTE)
    assert made.distance == 2.0
    assert "two random records" in made.describe()


def test_flags_have_their_own_fourth_moment():
    """16 ones at epsilon 4, 20 columns: 44.4 (a test of sketches simulates it)."""
    promise = Guarantee(epsilon=4.0, unit="attribute")
    made = plan(columns=1000, guarantee=promise, distance=4.0)
    (twenty,) = [
        e for c in made.curves() for e, s in zip(c.errors, c.shapes, strict=True)
        if (s.family, s.dim_out) == ("sparse", 20)
    ]  # fmt: skip
    assert twenty.variance(16.0) == pytest.approx(44.4, abs=0.05)


@pytest.mark.parametrize(
    "wrong",
    [{}, {"columns": 5, "schema": Schema.reals(3, low=0, high=1)}, {"columns": 0}, {"columns": 5, "rows": 0},
     {"columns": 5, "distance": 0.0}, {"columns": 5, "distance": math.nan}, {"columns": 5, "purpose": "nonsense"},
     {"columns": 5, "largest_dimension": 0}],
)  # fmt: skip
def test_nonsense_is_refused_in_one_line(wrong):
    with pytest.raises(ParameterError) as caught:
        plan(guarantee=ATTRIBUTE, **wrong)
    assert "\n" not in str(caught.value)


def test_cuts_are_planned_with_what_small_sides_and_small_graphs_need():
    promise = Guarantee(epsilon=1.0, delta=1e-6, unit="edge")
    made = plan(purpose="cuts", rows=4039, distance=20_000.0, guarantee=promise)
    assert [o.name for o in made.options] == ["edge response", "edge noise", "graph sketch"]
    assert made.best.standard_error(1.0) == pytest.approx(math.sqrt(2019 * 2020) / (2 * math.sinh(0.5)), rel=1e-4)
    assert "The sketch is best for cuts of up to" in made.advice[0]
    large = plan(purpose="cuts", rows=100_000, distance=200_000.0, guarantee=promise)
    assert [o.name for o in large.options] == ["graph sketch"]
    small = plan(purpose="cuts", rows=60, distance=400.0, guarantee=promise)
    assert "too little" in " ".join(small.advice)


@pytest.mark.parametrize(
    "wrong",
    [{"rows": 50}, {"distance": 5.0}, {"rows": 50, "distance": 5.0, "columns": 3}, {"rows": 1, "distance": 5.0}],
)
def test_a_plan_for_cuts_says_what_it_needs(wrong):
    with pytest.raises(ParameterError, match="rows"):
        plan(purpose="cuts", guarantee=Guarantee(epsilon=1.0, delta=1e-6, unit="edge"), **wrong)


@pytest.mark.parametrize(("neighbours", "within"), [("replace", 0.03), ("add-remove", 0.3)])
def test_covariances_are_planned_with_the_noise_of_real_ones(neighbours, within):
    """A release of columns that do not vary: the error it states, which under add-remove follows a noisy count."""
    promise = Guarantee(epsilon=1.0, delta=1e-6, neighbours=neighbours)
    schema, rows = Schema.reals(6, low=-1, high=1), np.zeros((500, 6))
    made = plan(schema=schema, guarantee=promise, purpose="covariance", rows=500, distance=0.3)
    assert {o.name for o in made.options} == ({"covariance", "sketch"} if neighbours == "replace" else {"covariance"})
    assert made.best.noise == "gaussian"
    direction = dict.fromkeys(schema.encoding.names, 1 / math.sqrt(6))
    for option in made.options:
        if option.noise in ("laplace", "gaussian") and option.name == "covariance":
            facts = {"schema": schema, "mechanism": option.mechanism, "guarantee": option.guarantee}
            found = release(rows, secret=Secret.for_testing(1), **facts)
            stated = float(found.variance(direction).standard_error)
            assert option.standard_error(0.0) == pytest.approx(stated, rel=within)


def test_sums_beat_noise_on_every_record_for_learning():
    made = plan(columns=50, rows=10_000, guarantee=ATTRIBUTE, purpose="learning")
    assert [o.name for o in made.options][:2] == ["covariance", "covariance"]
    assert made.distance == pytest.approx(0.5)
    assert "Variances near 0.5^2 = 0.25" in made.verdict


def test_replacing_in_a_gaussian_sketch_has_the_tabled_ridge():
    replaced = Guarantee(epsilon=1.0, delta=1e-6)
    assert forecast.ridge_level(119, replaced) == pytest.approx(47.1, abs=0.05)
    assert forecast.ridge_level(473, replaced) == pytest.approx(92.2, abs=0.05)
    assert forecast.ridge_level(119, replace(replaced, neighbours="add-remove")) == pytest.approx(38.2, abs=0.05)


@pytest.mark.parametrize("norm", [None, "l2"])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_noise_on_distances_is_planned_as_it_will_be(norm, noise):
    """Row-norm clips included: they bound the distances, and so the noise, far below the box."""
    schema = Schema.reals(30, low=0, high=1)
    schema = schema if norm is None else replace(schema, norm=norm, norm_bound=1.0)
    promise = Guarantee(epsilon=1.0, delta=1e-6)
    made = plan(schema=schema, guarantee=promise, rows=50, distance=1.0)
    (option,) = [o for o in made.options if (o.name, o.noise) == ("distances", noise)]
    prepared = option.mechanism.prepare(schema, promise)
    facts = prepared.facts(calibrate(prepared, promise).level, 50)["mechanism"]
    assert option.noise_scale == pytest.approx(facts["standard_deviation"], rel=1e-6)
    by_columns = forecast.distances_reach(option.mechanism.order, promise, Change.box(), ColumnWidths.of(schema), 50)
    assert (facts["sensitivity"] == pytest.approx(by_columns, rel=0.05)) == (norm is None)


# ---- several scales -------------------------------------------------------------------------------------------------


def test_distant_scales_get_a_sketch_each_and_near_ones_share():
    promise = Guarantee(epsilon=4.0, unit="attribute")
    far = plan_scales([3.0, 300.0], columns=100_000, guarantee=promise)
    near = plan_scales([20.0, 40.0], columns=100_000, guarantee=promise)
    assert (len(far.parts), len(near.parts)) == (2, 1)
    assert far.regret(far.several) < far.regret([far.single])
    assert sum(part.guarantee.epsilon for part in far.several) <= 4.0
    assert "several sketches" in far.describe()


def test_one_distance_is_no_plan_for_several():
    with pytest.raises(ParameterError, match="at least two"):
        plan_scales([3.0], columns=10, guarantee=ATTRIBUTE)


@pytest.mark.parametrize(
    ("column", "advised"),
    [
        (Set("items", buckets=128, most=10), "(sum of absolute values, in units of the declared ranges)"),
        (Vector("e", 8, -1, 1, bound=1), "(Euclidean length)"),
    ],
)
def test_a_smaller_change_is_advised_in_a_unit_that_is_told(column, advised):
    found = plan(schema=Schema([column]), guarantee=Guarantee(epsilon=1.0, delta=1e-6), rows=1000)
    told = [line for line in found.advice if line.startswith("A smaller change")]
    assert [advised in line for line in told] == [True]
