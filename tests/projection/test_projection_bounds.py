"""Sensitivities of integer projections, to 40 digits where a bound is not a sum of integers."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from mpmath import mp

from sfumato.errors import ParameterError
from sfumato.numerics.spectral_norm import norm_bound
from sfumato.privacy.guarantee import Change
from sfumato.projection import lattice_projection
from sfumato.projection.projection import Given, Projection
from support.groups import chosen


@pytest.mark.parametrize("order", [1, 2])
def test_balls_are_rounded_up_past_every_product(order):
    """Many columns: the radius, with the rounding of inputs, times a certified norm, times sqrt(k) for the l1 norm."""
    lattice = Projection(family="gaussian", dim_in=9, dim_out=20, seed=3).on_lattice(1.0)
    norm = norm_bound(lattice.entries * (1 / lattice.step)[:, None])
    with mp.workdps(40):
        for radius in np.linspace(0.1, 3.0, 60).tolist():
            longer = mp.mpf(radius) + mp.mpf(lattice.rounding_growth(2))
            truth = longer * mp.mpf(norm) * (mp.sqrt(20) if order == 1 else 1)
            found = lattice.sensitivity(Change.l2(radius), order)
            assert truth <= found <= truth * (1 + mp.mpf(2) ** -40)


@pytest.mark.parametrize("order", [1, 2])
def test_l1_balls_are_rounded_up_past_every_product(order):
    lattice = Projection(family="gaussian", dim_in=9, dim_out=20, seed=3).on_lattice(1.0)
    with mp.workdps(40):
        per_step = [
            [mp.mpf(x) / mp.mpf(s) for x in row] for row, s in zip(lattice.entries.tolist(), lattice.step, strict=True)
        ]
        norms = [sum(map(abs, row)) if order == 1 else mp.sqrt(sum(x * x for x in row)) for row in per_step]
        for radius in np.linspace(0.1, 3.0, 20).tolist():
            truth = (mp.mpf(radius) + mp.mpf(lattice.rounding_growth(1))) * max(norms)
            found = lattice.sensitivity(Change.l1(radius), order)
            assert truth <= found <= truth * (1 + mp.mpf(2) ** -40)


def test_rounding_of_inputs_is_one_step_for_each_column():
    lattice = Projection(family="gaussian", dim_in=9, dim_out=4, seed=3).on_lattice(np.arange(1.0, 10.0))
    steps = lattice.step
    for order, truth in ((1, steps.sum()), (2, np.sqrt(np.square(steps).sum()))):
        assert truth < lattice.rounding_growth(order) <= truth * (1 + 1e-7)


@pytest.mark.parametrize("order", [1, 2])
def test_rows_of_a_category_are_compared_in_pairs(order):
    rows = np.array([[3.0, 0.0], [0.0, 4.0], [1.0, 1.0]])
    assert lattice_projection._widest_pair(rows, order) == (7.0 if order == 1 else 5.0)
    assert lattice_projection._widest_pair(rows[:1], order) == 0.0


def test_the_reach_of_a_box_moves_from_one_category_to_another_or_to_none():
    image, alone = np.array([[2.0, -3.0], [-1.0, -4.0], [-5.0, -6.0]]), np.array([True, False, False])
    assert lattice_projection._reach(image, alone, chosen((1, 3))).tolist() == [2 + 0 + 5, 3 + 0 + 6]
    assert lattice_projection._reach(-image, alone, chosen((1, 3))).tolist() == [2 + 5 - 0, 3 + 6 - 0]
    mixed = np.array([[0.0], [2.0], [-5.0]])
    assert lattice_projection._reach(mixed, alone, chosen((1, 3))).tolist() == [7.0]


def test_as_many_places_as_columns_are_sparse_enough():
    assert Projection(family="sparse", dim_in=3, dim_out=2, sparsity=2).sparsity == 2
    assert Projection(family="gaussian", dim_in=3, dim_out=5).dim_out == 5
    assert Projection(family="gaussian", dim_in=3, dim_out=5).seed == 0


def test_weights_that_no_double_counts_in_steps_are_refused():
    lattice_projection.check_steps(np.array([1.0, 1e-300]), 1e-300)
    lattice_projection.check_steps(np.array([1e300]), 1e300)
    with pytest.raises(ParameterError, match=r"weights\[1\]"):
        lattice_projection.check_steps(np.array([1.0, 1e300]), 1e-300)


@pytest.mark.parametrize("order", [1, 2])
def test_records_of_many_wide_categories_stay_within_the_bound_by_length(order):
    """Each of twelve values moves from one column of width 3 to another; the bound by length is the smaller one."""
    runs = tuple((2 * i, 2 * i + 2) for i in range(12))
    lattice = Projection(family="gaussian", dim_in=24, dim_out=20, seed=5).on_lattice(3.0)
    signs = np.random.default_rng(1).choice([-1.0, 1.0], (500, 12))
    moved = np.stack([signs, -signs], axis=2).reshape(500, 24) @ lattice.entries * 2.0**lattice.input_bits
    stated = lattice.sensitivity(Change.box(), order, groups=chosen(*runs))
    assert np.linalg.norm(moved, order, axis=1).max() <= stated
    by_column = sum(np.linalg.norm(lattice.entries[a] - lattice.entries[b - 1], order) for a, b in runs)
    assert stated <= by_column * 2.0**lattice.input_bits * (1 + 1e-9)
    alone = lattice.sensitivity(Change.box(), order)
    assert (
        np.linalg.norm(signs.repeat(2, axis=1) @ lattice.entries, order, axis=1).max() * 2.0**lattice.input_bits
        <= alone
    )


@pytest.mark.parametrize("order", [1, 2])
def test_records_beside_one_heavy_column_move_by_little_more_than_that_column(order):
    """The bound by length would count every column as heavy; that by column is the smaller one."""
    matrix = np.full((8, 20), 1e-3)
    matrix[0] = np.linspace(0.5, 1.0, 20)
    lattice = Given(matrix).on_lattice(1.0, input_bits=20, projection_bits=21)
    corners = np.array(list(itertools.product([-1.0, 1.0], repeat=8)))
    moved = np.linalg.norm(corners @ lattice.entries, order, axis=1).max() * 2.0**20
    by_column = np.linalg.norm(lattice.entries, order, axis=1).sum() * 2.0**20
    assert moved <= lattice.sensitivity(Change.box(), order) <= by_column * (1 + 1e-9)
    assert by_column < 1.02 * moved


@pytest.mark.parametrize(("family", "largest"), [("gaussian", 9.0), ("orthonormal", math.sqrt(6))])
def test_the_rounding_fixed_beforehand_is_the_stated_bound_and_draws_beyond_it_are_refused(family, largest):
    """Half a step and a little more in every entry, and 2^-18 for the error of the draw itself."""
    widths = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 0.5])
    drawn = Projection(family=family, dim_in=6, dim_out=3, seed=2).on_lattice(widths)
    bits = 2.0**-drawn.projection_bits
    stated = 0.51 * largest * 5.0 * math.sqrt((1 / widths**2).sum()) * bits + 2.0**-18
    assert drawn.rounding_beforehand == pytest.approx(stated, rel=1e-12)
    inexact = dataclasses.replace(drawn, draw_error=2.0**-18 * (1 - 1e-6))
    assert inexact.rounding <= inexact.rounding_beforehand == drawn.rounding_beforehand
    with pytest.raises(ParameterError, match="too uneven"):
        _ = dataclasses.replace(drawn, draw_error=stated).rounding_beforehand


@pytest.mark.parametrize("order", [1, 2])
def test_a_value_that_comes_from_no_category_moves_a_whole_row(order):
    """Two equal rows are no distance apart, but a cell that is in neither moves by all of one."""
    lattice = Given(np.ones((2, 20))).on_lattice(1.0, input_bits=20, projection_bits=21)
    moved = np.linalg.norm(lattice.entries[0], order) * 2.0**20
    assert moved <= lattice.sensitivity(Change.box(), order, groups=chosen((0, 2))) <= moved * (1 + 1e-9)
