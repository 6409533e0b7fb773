"""Units, and ranges of what is estimated: no pair of rows leaves them, and releases of every kind keep to them."""

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from sfumato.estimation import quantities
from sfumato.estimation.distance_matrix import widest_squared
from sfumato.mechanisms.chosen_sketch import ChosenSketch
from sfumato.mechanisms.components import Components
from sfumato.mechanisms.distances import NoisyDistances
from sfumato.mechanisms.responses import RandomizedResponse
from sfumato.mechanisms.sketch import Sketch
from sfumato.pipeline.release import release
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness.secret import Secret
from sfumato.tables.columns import Category, Flag, Integer, Real, Set, Vector
from sfumato.tables.schema import Schema

COLUMNS = (
    Real("a", -3, 5, weight=0.5),
    Real("b", 2, 4),
    Flag("c", weight=2.0),
    Category("d", ["x", "y", "z"], weight=1.5),
    Category("e", ["x", "y"]),
)
KEPT = (
    Integer("a", 2, 9, missing="level"),
    Category("d", ["x", "y"], missing="level"),
    Vector("v", 2, -3.0, 4.0, bound=4.5),
    Set("s", ["p", "q", "r", "t"], most=2),
)
MIXED = Schema(COLUMNS, scale="raw")
POSITIVE = Schema([Real("a", 1, 5), Flag("c"), Category("d", ["x", "y", "z"])], scale="raw")
CLIPPED = [replace(MIXED, norm=norm, norm_bound=bound) for norm in ("l1", "l2") for bound in (1.0, 3.0, 50.0)]
UNCLIPPED = [MIXED, POSITIVE, Schema(COLUMNS), Schema(KEPT), Schema(KEPT, scale="raw")]
SCHEMAS = [*UNCLIPPED, replace(POSITIVE, norm="l2", norm_bound=2.0), *CLIPPED]


def ends(column):
    """The extreme cells of a column, a missing one among them where that is another."""
    if isinstance(column, Vector):
        return [list(cell) for cell in itertools.product([column.low, 0.0, column.high], repeat=column.size)]
    if isinstance(column, Set):
        return [list(cell) for size in range(column.most + 1) for cell in itertools.combinations(column.values, size)]
    if isinstance(column, Category):
        return [*column.values, None]
    if isinstance(column, Flag):
        return [False, True]
    return [column.low, column.high, None]


def corners(schema):
    """Every row of extreme cells, as mechanisms take it, in weighted units."""
    columns, encoding = schema.data_columns, schema.encoding
    rows = list(itertools.product(*map(ends, columns)))
    table = pa.table({c.name: [row[i] for row in rows] for i, c in enumerate(columns)})
    inside = np.clip(schema.clip(schema.encode(table)), encoding.low[:, None], encoding.high[:, None])
    return (inside * encoding.weights[:, None]).T


@pytest.mark.parametrize("schema", SCHEMAS)
def test_no_rows_leave_the_ranges_and_the_worst_attain_them_without_a_clip(schema):
    rows = corners(schema)
    squares = np.sum((rows[:, None] - rows) ** 2, axis=2)
    products, lengths = rows @ rows.T, np.sum(rows**2, axis=1)
    apart, long, inner = (
        question(schema)
        for question in (quantities.squared_distance, quantities.squared_norm, quantities.inner_product)
    )
    assert squares.max() <= apart.high * (1 + 1e-12)
    assert lengths.max() <= long.high * (1 + 1e-12)
    assert inner.low - 1e-9 <= products.min() <= products.max() <= inner.high * (1 + 1e-12)
    assert (apart.low, long.low) == (0.0, 0.0)
    if schema.norm is None:
        bounded = isinstance(schema.columns[-2], Vector)  # no corner is at the bound both ways
        assert squares.max() == pytest.approx(apart.high) or (bounded and squares.max() > 0.8 * apart.high)
        assert lengths.max() == pytest.approx(long.high)
        assert products.max() == pytest.approx(inner.high)
    assert quantities.inner_product(schema, whole=False).low == -inner.high


def test_columns_of_one_sign_have_no_negative_inner_products():
    assert quantities.inner_product(POSITIVE).low == 0
    assert quantities.inner_product(MIXED).low == 0.25 * -15
    assert quantities.inner_product(Schema.reals(2, low=-1, high=1)).low == -2
    ball = replace(Schema.reals(2, low=-1, high=1), norm="l2", norm_bound=0.5)
    assert (quantities.inner_product(ball).low, quantities.inner_product(ball).high) == (-0.25, 0.25)


@pytest.mark.parametrize("schema", SCHEMAS)
def test_no_row_is_farther_from_a_vector_than_stated(schema):
    rng, rows = np.random.default_rng(2), corners(schema)
    vectors = [rng.normal(0, scale, schema.encoding.dim) for scale in (0.1, 1.0, 30.0)]
    for vector in (*vectors, schema.encoding.weights * schema.encoding.high):
        found = quantities.squared_distance_to(schema, vector)
        assert np.sum((rows - vector) ** 2, axis=1).max() <= found.high * (1 + 1e-12)
    numbers = Schema.reals(3, low=-1, high=2)
    assert quantities.squared_distance_to(numbers, np.array([0.0, 5.0, -2.0])).high == 4 + 36 + 16


def test_bounds_without_a_square_in_doubles_cut_nothing():
    huge = Schema.reals(3, low=-1e200, high=1e200)
    assert quantities.squared_distance(huge).high == quantities.squared_norm(huge).high == np.inf
    assert (quantities.inner_product(huge).low, quantities.inner_product(huge).high) == (-np.inf, np.inf)
    assert quantities.squared_distance_to(huge, np.zeros(3)).high == np.inf


# ---- units ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scale", "weights", "said"),
    [
        ("raw", (1.0, 1.0), "squared distance in the columns' own units"),
        ("raw", (1.0, 2.0), "squared distance in the columns' own units times their weights"),
        ("bounds", (1.0, 1.0), "squared distance, columns in units of their declared range"),
        ("bounds", (1.0, 2.0), "squared distance, columns in units of their declared range times their weight"),
    ],
)
def test_units_say_in_what_columns_count(scale, weights, said):
    schema = SimpleNamespace(scale=scale, data_columns=[SimpleNamespace(weight=weight) for weight in weights])
    assert quantities.distance_unit(schema) == said


# ---- releases -------------------------------------------------------------------------------------------------------

FLAGS = Schema([Flag(f"f{i}") for i in range(12)])
KINDS = {
    "sketch": Sketch(dimension=6, projection="gaussian", seed=3),
    "sparse": Sketch(dimension=6, seed=3),
    "identity": Sketch(projection="identity"),
    "chosen": ChosenSketch(choice=0.05, candidates=(2, 4)),
    "components": Components(dimension=3),
    "distances": NoisyDistances(noise="laplace"),
    "responses": RandomizedResponse(),
}
ROWS = 80


def bits():
    return (np.random.default_rng(7).random((ROWS, 12)) < 0.4).astype(float)


def released(kind, epsilon=0.3):
    return release(
        bits(), schema=FLAGS, mechanism=KINDS[kind], guarantee=Guarantee(epsilon=epsilon, unit="attribute"),
        secret=Secret.for_testing(1),
    )  # fmt: skip


def asked(found):
    """What every kind is asked that it can answer, about pairs of different records."""
    first, second = np.triu_indices(ROWS, 1)
    public = {"public_rows": pa.table({f"f{i}": [True] for i in range(12)})}
    for name in ("distances", "inner_product", "cosine", "hamming", "jaccard"):
        whole = name not in ("hamming", "jaccard") or found.manifest["kind"] != "components"
        if hasattr(found, name) and whole:
            yield name, getattr(found, name)(first, second)
    if hasattr(found, "norm"):
        yield "norm", found.norm(np.arange(ROWS))
        yield "distances_to", found.distances_to(np.arange(ROWS), **public)
    if hasattr(found, "attribute_distance"):
        yield "attribute_distance", found.attribute_distance(np.arange(ROWS), {"f1": 5.0})
    yield "nearest", found.nearest(4, 9).distances


LARGEST = {"distances": 12, "inner_product": 12, "cosine": 1, "hamming": 12, "jaccard": 1, "norm": 12}
LARGEST |= {"distances_to": 12, "attribute_distance": 11 + 25, "nearest": 12}


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_is_asked_stays_within_what_the_bounds_allow(kind):
    for name, found in asked(released(kind)):
        least = -LARGEST[name] if name == "cosine" or (name, kind) == ("inner_product", "components") else 0
        assert found.limits == (least, LARGEST[name]), name
        low, high = found.interval()
        for numbers in (found.value, low, high):
            known = numbers[~np.isnan(numbers)]
            assert ((known >= least) & (known <= LARGEST[name])).all(), name
        assert (low <= high).all()
        assert found.unit
    squared = dict(asked(released(kind)))["distances"]
    assert squared.uncut.min() < 0 == squared.value.min()
    assert squared.uncut.max() > 12 == squared.value.max()
    assert squared.unit == "squared distance in the columns' own units"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "components"])
def test_cut_intervals_cover_as_often_as_whole_ones(kind):
    """The truth is within the range, so that it is in a cut interval whenever it is in the whole one."""
    first, second = np.triu_indices(ROWS, 1)
    truth = np.sum((bits()[first] - bits()[second]) ** 2, axis=1)
    found = released(kind, epsilon=2.0).distances(first, second)
    (low, high), whole = found.interval(0.8), found.bounds(0.1)
    hits = (low <= truth) & (truth <= high)
    assert (hits >= (whole[0] <= truth) & (truth <= whole[1])).all()
    inside = (truth > 0) & (truth < 12)
    assert (hits == (whole[0] <= truth) & (truth <= whole[1]))[inside].all()
    assert hits.mean() > 0.7


def test_standard_errors_are_those_at_a_distance_that_there_can_be():
    found = released("sketch")
    squared = found.distances(np.arange(40), np.arange(40, 80))
    assert squared.uncut.max() > 12
    np.testing.assert_allclose(squared.standard_error, found.error_at(np.clip(squared.uncut, 0, 12)))


def test_public_rows_outside_of_the_bounds_are_clipped_so_their_distances_are_bounded():
    schema, data = Schema.reals(4, low=0, high=1), np.random.default_rng(3).random((20, 4))
    made = release(
        data, schema=schema, mechanism=Sketch(projection="identity"),
        guarantee=Guarantee(epsilon=1e5, unit="attribute"), secret=Secret.for_testing(2),
    )  # fmt: skip
    found = made.distances_to(np.arange(20), np.full((1, 4), 1e9))
    assert found.limits == (0, widest_squared(schema)) == (0, 4)
    assert found.value == pytest.approx(np.sum((data - 1) ** 2, axis=1), abs=0.01)


def test_public_rows_are_clipped_as_the_released_ones_where_bounds_exclude_0():
    schema = replace(Schema.reals(2, low=2, high=4), norm="l2", norm_bound=3.0)
    data = np.array([[2.0, 4.0], [4.0, 2.0]])
    made = release(
        data, schema=schema, mechanism=Sketch(projection="identity"),
        guarantee=Guarantee(epsilon=1e6, unit="record"), secret=Secret.for_testing(2),
    )  # fmt: skip
    assert made.transform(data) == pytest.approx(made.array(), abs=1e-3)
