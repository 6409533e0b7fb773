"""Rows within the unit ball: lengths on the integers themselves, whatever comes in and however it is cut."""

import math
from dataclasses import replace

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.projection.projection import Projection
from sfumato.projection.unit_ball import Frame, Turned, _guarded, _squares
from sfumato.tables.columns import Category, Real
from sfumato.tables.schema import Schema

WAYS = ["twice", "once", "never"]
SCHEMA = Schema([Real("a", -3, 5), Real("b", 0, 1e6, weight=1e-5), Category("c", ["x", "y", "z"]), Real("d", -1, 1)])
RAW = Schema(SCHEMA.columns, scale="raw")


def wild_block(rng, rows=400):
    block = rng.uniform(-8, 8, (6, rows))
    block[1] *= 1e6
    block[:, ::7] = 0.0
    block[2, ::5], block[0, ::11], block[5, ::13] = np.nan, np.inf, -np.inf
    block[:, ::9] *= 1e-200
    block[:, ::17] = 5e-324
    block[:, 3::17] = -0.0
    return block


def turned(frame, p=3, seed=1):
    return Turned.of(Projection(family="orthonormal", dim_in=frame.dim, dim_out=p, seed=seed).draw().values, frame)


def lengths(integers):
    return np.sqrt(np.square(integers).sum(axis=0))


@pytest.mark.parametrize("way", WAYS)
def test_no_row_is_longer_than_top_whatever_it_holds(way):
    frame = Frame.of(SCHEMA, way)
    placed = frame.place(wild_block(np.random.default_rng(1)))
    about = frame.about(placed, frame.centre(np.array([1e9, -2e5, 3.0, 0, 0, 5e8])))
    image = turned(frame).image(about)
    for integers, top in ((placed, frame.top), (about, frame.top), (image, turned(frame).top)):
        assert (integers == np.rint(integers)).all()
        assert (np.square(integers).sum(axis=0) <= float(top) ** 2).all()


@pytest.mark.parametrize("way", ["twice", "once"])
def test_normalised_rows_have_length_one_and_their_own_direction(way):
    rng = np.random.default_rng(2)
    block = np.abs(rng.standard_normal((6, 100))) * np.array([1, 1e5, 0.3, 0.3, 0.3, 0.3])[:, None]
    frame = Frame.of(RAW, way)
    clipped = np.clip(block, frame.low[:, None], frame.high[:, None]) * frame.weights[:, None]
    expected = clipped / np.linalg.norm(clipped, axis=0)
    assert np.allclose(frame.place(block) / frame.one, expected, atol=2e-6)


def test_rows_that_keep_their_lengths_are_divided_by_the_radius():
    schema = Schema(SCHEMA.columns, norm="l2", norm_bound=4.0, scale="raw")
    frame = Frame.of(schema, "never")
    block = np.zeros((6, 2))
    block[0], block[5] = [1.0, 5.0], [0.5, 1.0]
    placed = frame.place(block) / frame.one
    assert np.allclose(placed[:, 0], [0.25, 0, 0, 0, 0, 0.125], atol=2e-6)
    assert np.allclose(placed[:, 1] * math.sqrt(26), [5, 0, 0, 0, 0, 1], atol=2e-5)


@pytest.mark.parametrize("way", WAYS)
def test_a_zero_row_stays_zero(way):
    schema = Schema.reals(4, low=0, high=1)
    frame = Frame.of(schema, way)
    placed = frame.place(np.zeros((4, 3)))
    assert not placed.any()
    assert not frame.about(placed, np.zeros(4, np.int64)).any()


def test_the_second_normalisation_lengthens_and_its_absence_does_not():
    frame, plain = Frame.of(SCHEMA, "twice"), Frame.of(SCHEMA, "once")
    placed = frame.place(np.abs(wild_block(np.random.default_rng(3))) + 0.1)
    centre = frame.centre(placed.mean(axis=1))
    assert np.allclose(lengths(frame.about(placed, centre)) / frame.one, 1, atol=1e-4)
    assert lengths(plain.about(placed, centre)).min() < 0.9 * plain.one


def test_a_row_one_step_from_the_centre_gets_length_one_as_well():
    frame = Frame.of(SCHEMA, "twice")
    centre = np.arange(6) * 1000
    steps = np.array([[1, 0, 0, 0, 0, 0], [0, -1, 1, 0, 0, 0], [1, 1, 0, 1, 0, 0], [0, 0, 0, 0, 0, 0]]).T
    about = frame.about((centre[:, None] + steps).astype(float), centre)
    assert np.allclose(lengths(about) / frame.one, [1, 1, 1, 0], atol=1e-5)


@pytest.mark.parametrize("way", WAYS)
def test_a_row_does_not_depend_on_the_rows_beside_it(way):
    """Bit by bit: under add-remove all rows after the new one move to other places in other blocks."""
    block = wild_block(np.random.default_rng(4), 60)
    frame = Frame.of(SCHEMA, way)
    centre, project = frame.centre(np.full(6, 1e5)), turned(frame)

    def whole_way(rows):
        return project.image(frame.about(frame.place(rows), centre))

    together = whole_way(block)
    for width in (1, 2, 7):
        apart = [whole_way(np.ascontiguousarray(block[:, i : i + width])) for i in range(0, 60, width)]
        assert (np.concatenate(apart, axis=1) == together).all()


def test_squared_lengths_are_exact_so_no_order_of_summation_shows():
    """A sum of floating-point squares would: NumPy adds a lone row in pairs, and rows together one after another."""
    frame = Frame.of(Schema.reals(3000, low=-1, high=1), "twice")
    rows = np.rint(np.random.default_rng(6).uniform(-1, 1, (3000, 20)) * frame.top)
    expected = [sum(int(x) ** 2 for x in row) for row in rows.T]
    assert [int(x) for x in _squares(rows)] == expected
    assert (_squares(rows[:, 3:4]) == _squares(rows)[3]).all()


def test_a_row_that_is_too_long_becomes_zero():
    rows = np.array([[3.0, 4.0, -5.0], [4.0, 4.0, 0.0]])
    assert (_guarded(rows, 5) == [[3, 0, -5], [4, 0, 0]]).all()


@pytest.mark.parametrize(("m", "p"), [(1, 1), (5, 5), (64, 16), (300, 3)])
def test_the_longest_image_fits_and_its_unit_is_right(m, p):
    frame = Frame.of(Schema.reals(m, low=-1, high=1), "twice")
    project = turned(frame, p)
    along = np.linalg.svd(project.entries)[0][:, :p]
    rows = frame.place(np.concatenate([along, np.random.default_rng(5).standard_normal((m, 50))], axis=1))
    image = project.image(rows)
    exact = project.matrix.T @ (rows / frame.one)
    assert lengths(image).max() <= project.top
    assert lengths(image)[:p].min() > project.top - math.sqrt(p) - 3
    assert np.abs(image * project.unit - exact).max() < 0.51 * project.unit
    assert np.allclose(project.matrix.T @ project.matrix, np.eye(p), atol=1e-5)


def test_means_are_brought_into_the_ball():
    frame = Frame.of(SCHEMA, "twice")
    assert lengths(frame.centre(np.full(6, 1e12))) <= frame.top
    inside = np.array([1.0, -2, 3, 0, 0, 7])
    assert (frame.centre(inside) == inside).all()


@pytest.mark.parametrize("centring", ["private", "public"])
@pytest.mark.parametrize("way", WAYS)
def test_where_a_column_has_its_zero_changes_no_row_under_scale_by_bounds(way, centring):
    moved = Schema([replace(c, low=c.low + 2**20, high=c.high + 2**20) if c.name == "a" else c for c in SCHEMA.columns])
    block = np.random.default_rng(6).integers(-4, 7, (6, 50)).astype(float)
    elsewhere = block + np.array([2**20, 0, 0, 0, 0, 0])[:, None]
    here, there = (Frame.of(schema, way, centring) for schema in (SCHEMA, moved))
    assert (here.place(block) == there.place(elsewhere)).all()
    assert here.radius == there.radius
    assert (here.origin == SCHEMA.encoding.low).all()


def test_lengths_are_about_zero_in_raw_units_and_under_a_clip():
    clipped = Schema(SCHEMA.columns, norm="l2", norm_bound=4.0, scale="bounds")
    for schema, centring in ((RAW, "private"), (clipped, "private"), (clipped, "public")):
        assert not Frame.of(schema, "once", centring).origin.any()
    assert Frame.of(RAW, "once", "public").origin.tolist() == [1, 5e5, 0.5, 0.5, 0.5, 0]


def test_clips_in_the_l1_norm_and_absurd_bounds_are_refused():
    with pytest.raises(ParameterError, match="Euclidean"):
        Frame.of(Schema(SCHEMA.columns, norm="l1", norm_bound=1.0, scale="raw"), "twice")
    with pytest.raises(ParameterError, match="bounds times weights"):
        Frame.of(Schema([Real("x", 0, 1e300)], scale="raw"), "twice")
