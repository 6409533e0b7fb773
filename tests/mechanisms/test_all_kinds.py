"""Contracts of every mechanism on schemas that mix all kinds of columns: neighbours of raw cells are searched.

What gets noise is integers. Here they are computed for pairs of neighbouring rows, whatever their cells hold, and move
by at most what the mechanism says, to the integer.
"""

import functools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from sfumato.audit.claimed_moves import SLACK, allowed
from sfumato.audit.worst_pairs import moved
from sfumato.errors import ParameterError
from sfumato.mechanisms.chosen_sketch import ChosenSketch
from sfumato.mechanisms.components import Components
from sfumato.mechanisms.covariance import Covariance
from sfumato.mechanisms.distances import DistanceGrid, NoisyDistances
from sfumato.mechanisms.second_moment import CentredGrid
from sfumato.mechanisms.sketch import Sketch, _exact_rows
from sfumato.mechanisms.synthetic.recipe import Synthetic
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.projection.lattice_projection import LatticeProjection
from sfumato.tables import lists
from sfumato.tables.columns import Real, Set, Vector
from sfumato.tables.schema import Schema
from tests.support import all_kinds
from tests.support.all_kinds import CLIPPED, SCHEMAS
from tests.support.moments import moves

FAMILIES = {
    "identity": {},
    "sparse": {"dimension": 3, "projection": "sparse"},
    "gaussian": {"dimension": 4, "projection": "gaussian"},
    "orthonormal": {"dimension": 2, "projection": "orthonormal"},
    "rademacher": {"dimension": 20, "projection": "rademacher"},
    "achlioptas": {"dimension": 17, "projection": "achlioptas"},
}
VALUE, RECORD = Guarantee(epsilon=1.0, delta=1e-6, unit="attribute"), Guarantee(epsilon=1.0, delta=1e-6)
EVERY = SCHEMAS | CLIPPED


@functools.cache
def promises(name, kind, radius=0.7):
    """What is promised, and pairs of encoded rows that are neighbours by it."""
    rng, schema = np.random.default_rng(5), EVERY[name]
    if kind == "attribute":
        return VALUE, all_kinds.encoded(schema, list(all_kinds.changed_values(rng, schema)))
    if kind == "box":
        return RECORD, all_kinds.encoded(schema, all_kinds.changed_rows(rng, schema))
    ball = Guarantee(epsilon=1.0, delta=1e-6, change=getattr(Change, kind)(radius))
    return ball, all_kinds.within_ball(rng, schema, kind, radius)


def bounded(schema):
    return any(isinstance(c, Vector) and c.bound is not None for c in schema.data_columns)


CHANGES = ("attribute", "box", "l2", "l1")
CASES = [
    (name, kind)
    for name, schema in EVERY.items()
    for kind in CHANGES
    if not (kind == "l1" and bounded(schema)) and (schema.norm is None or kind in ("box", schema.norm))
]


def share(schema, promise, blocks, noise, family):
    """How far the exact product of a sketch moves at most, over how far it says; to the power of the noise's norm."""
    prepared = Sketch(noise=noise, seed=3, **FAMILIES[family]).prepare(schema, promise)
    integers = _exact_rows(schema, prepared.projection, 0)
    one, two = (integers(block) for block in blocks)
    gap, power = np.abs(one - two), 1 if noise == "laplace" else 2
    about = (gap.astype(float) ** power).sum(axis=0)
    most = gap[:, about >= about.max() * (1 - 1e-9)].astype(object)  # whole numbers of any size, where the largest is
    return (most**power).sum(axis=0).max() / Fraction(prepared.reach) ** power


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_no_neighbour_moves_the_exact_product_of_a_sketch_further_than_it_says(name, kind, noise):
    for family in FAMILIES:
        if family != "orthonormal" or EVERY[name].encoding.dim > 1:
            assert share(EVERY[name], *promises(name, kind), noise, family) <= 1, family


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("anchored", [False, True])
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_no_neighbour_moves_an_exact_second_moment_further_than_it_says(name, kind, anchored, order):
    schema = EVERY[name]
    promise, (one, two) = promises(name, kind)
    grid = CentredGrid.of(schema, anchored=anchored)
    x, y = grid.round(one), grid.round(two)
    assert moves(x, y, order).max() <= grid.reach(promise, order, centred=anchored) * (1 + 1e-12)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("name", EVERY)
def test_no_record_that_comes_moves_an_exact_second_moment_further_than_it_says(name, centred, order):
    schema = EVERY[name]
    one, _ = promises(name, "box")[1]
    grid = CentredGrid.of(schema, anchored=True)
    x = grid.round(one)
    rows = x if centred else x[:-1]
    found = moves(rows, np.zeros_like(rows), order)
    if not centred:  # the count stands beside the triangle
        found = found + grid.anchor**2 if order == 1 else np.hypot(found, grid.anchor**2)
    reach = grid.reach(Guarantee(epsilon=1.0, neighbours="add-remove"), order, centred=centred)
    assert found.max() <= reach * (1 + 1e-12)


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_no_neighbour_moves_a_squared_distance_further_than_it_says(name, kind):
    schema = EVERY[name]
    promise, (one, two) = promises(name, kind)
    grid = DistanceGrid(schema)
    x, y = grid.round(one), grid.round(two)
    prepared = NoisyDistances(noise="laplace").prepare(schema, promise)
    rng, worst, both = np.random.default_rng(1), 0.0, 0.0
    ones = np.hstack([x, y])
    for _ in range(20):
        place = rng.permutation(ones.shape[1])[: x.shape[1]]
        z, other = ones[:, place], rng.permutation(x.shape[1])
        apart = [np.square(rows - z).sum(axis=0) for rows in (x, y)]
        worst = max(worst, np.abs(apart[0] - apart[1]).max())
        pairs = [np.square(a - b[:, other]).sum(axis=0) for a, b in ((x, x), (y, y))]
        both = max(both, np.abs(pairs[0] - pairs[1]).max())
    worst = max(worst, np.square(x - y).sum(axis=0).max() if kind in ("attribute", "box") else 0.0)
    assert worst <= prepared.moves[0]
    if kind != "attribute":
        assert both <= prepared.moves[1]


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("family", ["identity", "gaussian"])
@pytest.mark.parametrize("name", ["real alone", "integer alone"])
def test_a_number_whose_missingness_is_kept_moves_a_sketch_as_far_as_it_says(name, family, noise):
    assert share(SCHEMAS[name], *promises(name, "attribute"), noise, family) >= 1 - 1e-5


# ---- every mechanism as it runs -------------------------------------------------------------------------------------

RECIPES = {
    "sketch": Sketch(dimension=3, projection="gaussian", seed=1),
    "chosen sketch": ChosenSketch(choice=0.1, candidates=(1, 4), sketch=Sketch(dimension=1, seed=1)),
    "components": Components(dimension=2, noise="gaussian"),
    "distances": NoisyDistances(),
    "covariance, laplace": Covariance(noise="laplace", centred=True),
    "covariance, gaussian": Covariance(),
    "covariance, sketch": Covariance(noise="sketch", rows=3, centred=True),
    "synthetic": Synthetic(dimension=3, seed=1),
    "synthetic, never": Synthetic(dimension=2, noise="gaussian", normalise="never", centring="private", seed=1),
    "synthetic, values": Synthetic(dimension=2, label="integer", noise="gaussian", seed=1),
    "synthetic, classes": Synthetic(dimension=2, label="ordinal", kind="classes", seed=1),
}
WHOLE = ("covariance, sketch", "synthetic", "synthetic, never", "synthetic, values", "synthetic, classes")
PROMISES = {
    "attribute": Guarantee(epsilon=1.0, delta=1e-3, unit="attribute"),
    "record": Guarantee(epsilon=1.0, delta=1e-3),
    "two rows": Guarantee(epsilon=1.0, delta=1e-3, group=2),
    "ball": Guarantee(epsilon=1.0, delta=1e-3, change=Change.l2(0.4)),
    "comes": Guarantee(epsilon=1.0, delta=1e-3, neighbours="add-remove"),
}


def _possible(recipe, promise):
    if promise == "comes":
        return recipe.startswith(("covariance", "synthetic"))
    if recipe == "covariance, sketch":
        return promise == "record"
    return promise in ("record", "two rows") or recipe not in WHOLE


def tables(name, promise, count=12):
    """Pairs of encoded tables of a few rows that differ in one unit."""
    rng, schema = np.random.default_rng(9), EVERY[name]
    kind = {"attribute": "attribute", "ball": "l2"}.get(promise, "box")
    one, two = (promises(name, kind, 0.4) if kind == "l2" else promises(name, kind))[1]
    for _ in range(count):
        unit = rng.integers(one.shape[1], size=2 if promise == "two rows" else 1)
        others = one[:, rng.integers(one.shape[1], size=2)]
        gone = np.empty((schema.encoding.dim, 0)) if promise == "comes" else two[:, unit]
        yield np.hstack([one[:, unit], others]), np.hstack([gone, others])


def _named(recipe):
    """The schemas that a recipe can have: a label keeps no missing cells."""
    return ["plain"] if recipe in ("synthetic, values", "synthetic, classes") else ["plain", "levels", "levels, raw"]


@pytest.mark.parametrize(
    ("recipe", "promise", "name"),
    [(r, p, name) for r in RECIPES for p in PROMISES if _possible(r, p) for name in _named(r)],
)
def test_no_neighbour_moves_what_gets_noise_further_than_its_mechanism_says(recipe, promise, name):
    prepared = RECIPES[recipe].prepare(EVERY[name], PROMISES[promise])
    limits = allowed(prepared, 1.0)
    for pair in tables(name, promise):
        for stage, found in moved(prepared, 1.0, pair).items():
            assert found <= limits[stage] * SLACK, stage


# ---- broken twins ---------------------------------------------------------------------------------------------------


def _with_groups(monkeypatch, change):
    """Sensitivities of groups that are not what they are."""
    honest = LatticeProjection.sensitivity

    def broken(projection, *given, groups, **named):
        return honest(projection, *given, groups=tuple(filter(None, map(change, groups))), **named)

    monkeypatch.setattr(LatticeProjection, "sensitivity", broken)


def _not_shortened(schema, block):
    return np.fmin(np.fmax(block, schema.encoding.low[:, None]), schema.encoding.high[:, None])


@pytest.mark.parametrize("kind", ["attribute", "box"])
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("vector alone", lambda group: replace(group, reach1=group.reach1 / 2, reach2=group.reach2 / 2)),
        ("words alone", lambda group: replace(group, most=1)),
    ],
    ids=["half the length of a vector", "one item of a set"],
)
def test_a_group_that_is_said_to_move_less_is_found(name, change, kind, monkeypatch):
    _with_groups(monkeypatch, change)
    assert share(EVERY[name], *promises(name, kind), "gaussian", "identity") > 1


@pytest.mark.parametrize("name", ["real alone", "words alone"])
def test_a_group_that_is_forgotten_is_found(name, monkeypatch):
    _with_groups(monkeypatch, lambda _: None)
    assert share(EVERY[name], *promises(name, "attribute"), "laplace", "identity") > 1


def test_a_vector_that_is_not_shortened_is_found(monkeypatch):
    monkeypatch.setattr(Schema, "clip", _not_shortened)
    for kind in ("attribute", "box"):
        assert share(EVERY["vector alone"], *promises("vector alone", kind), "gaussian", "identity") > 1


def test_a_set_without_its_limit_of_items_is_found(monkeypatch):
    honest, schema = lists._fill_set, Schema((Set("words", ("a", "b", "c", "d", 5), most=1),), scale="bounds")
    monkeypatch.setattr(lists, "_fill_set", lambda b, a, column: honest(b, a, replace(column, most=column.width)))
    pairs = list(all_kinds.changed_values(np.random.default_rng(1), schema))
    assert share(schema, VALUE, all_kinds.encoded(schema, pairs), "gaussian", "identity") > 1


# ---- what fell ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", [None, "l1"])
def test_an_l1_change_is_refused_beside_a_vector_with_a_bound_with_and_without_a_clip_of_rows(norm):
    """Shortening in the Euclidean norm stretches an l1 change of 100 numbers five times."""
    columns = (Vector("v", 100, -1.0, 1.0, bound=1.0), Real("r", -1.0, 1.0))
    schema = Schema(columns, norm=norm, norm_bound=None if norm is None else 50.0, scale="raw")
    with pytest.raises(ParameterError, match="cannot go with a vector that has a bound"):
        Sketch().prepare(schema, Guarantee(epsilon=1.0, change=Change.l1(0.1)))
    vector = np.full((101, 1), 0.09)
    vector[0], vector[100] = 0.9, 0.0
    moved = vector.copy()
    moved[0] += 0.1
    gap = schema.clip(moved) - schema.clip(vector)
    assert np.abs(gap).sum() > 0.2  # though it moved by 0.1, which a clip in the l1 norm would at most double
