"""Triangles, diameters, classical scaling, and the nearest matrix of squared distances against independent oracles."""

import itertools

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.estimation import distance_matrix
from sfumato.tables.columns import Category, Flag, Real
from sfumato.tables.schema import Schema


def noisy(rng, count, dim, scale):
    """Squared distances of random points, and the same with symmetric noise off the diagonal."""
    truth = distance_matrix.between(rng.normal(size=(count, dim)))
    noise = rng.normal(0, scale, distance_matrix.pairs(count))
    return truth, truth + distance_matrix.square(noise, count)


def gram_eigenvalues(matrix):
    centre = np.eye(len(matrix)) - 1 / len(matrix)
    return np.linalg.eigvalsh(-centre @ matrix @ centre / 2)


def is_squared_distances(matrix):
    """Schoenberg's criterion."""
    slack = 1e-9 * np.abs(matrix).max()
    symmetric = (matrix == matrix.T).all() and (np.diag(matrix) == 0).all()
    return symmetric and gram_eigenvalues(matrix).min() >= -slack


# ---- triangle and diameter ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [2, 3, 10, 57])
def test_places_in_the_triangle_are_those_of_a_matrix(rows):
    first, second = np.triu_indices(rows, 1)
    everywhere = np.arange(distance_matrix.pairs(rows))
    assert (distance_matrix.place(first, second, rows) == everywhere).all()
    assert (distance_matrix.place(second, first, rows) == everywhere).all()
    matrix = distance_matrix.square(everywhere.astype(float), rows)
    assert (matrix == matrix.T).all()
    assert (matrix[first, second] == everywhere).all()
    assert not np.diag(matrix).any()


def test_a_triangle_of_another_size_is_refused():
    with pytest.raises(ParameterError, match="the triangle of 4 rows has 6 entries"):
        distance_matrix.square(np.zeros(5), 4)


def test_the_diameter_is_the_largest_distance_between_any_two_rows():
    schema = Schema(
        [Real("x", -1, 2, weight=0.5), Category("a", ["p", "q", "r"], weight=2.0), Flag("f"), Category("b", ["only"])],
        scale="raw",
    )
    city, other = [(0, 0, 0), (2, 0, 0), (0, 2, 0), (0, 0, 2)], [(0,), (1,)]
    ways = itertools.product([(-0.5,), (1.0,)], city, [(0,), (1,)], other)
    rows = np.array([sum(way, ()) for way in ways], float)
    assert distance_matrix.widest_squared(schema) == distance_matrix.between(rows).max() == 2.25 + 8 + 1 + 1
    squares = (schema.encoding.ranges**2).tolist()
    assert distance_matrix.one_value_squared(squares, schema.encoding.groups) == 8


@pytest.mark.parametrize(("low", "squared"), [(-5, 16.0), (0, 8.0)])
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_a_row_norm_clip_bounds_the_diameter(norm, low, squared):
    schema = Schema([Real("x", low, 5), Real("y", low, 5)], norm=norm, norm_bound=2.0, scale="raw")
    assert distance_matrix.widest_squared(schema) == pytest.approx(squared, rel=1e-12)
    rows = schema.clip(np.random.default_rng(1).choice([-9.0, 9.0, 0.0, 1.0], (2, 100)))
    assert 0.99 * squared < distance_matrix.between(rows.T).max() <= squared
    narrow = Schema([Real("x", 0, 1), Real("y", 0, 1)], norm=norm, norm_bound=2.0, scale="raw")
    assert distance_matrix.widest_squared(narrow) == 2


# ---- classical scaling ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [3, 5, 20, 40])
def test_scaling_gives_back_points_that_have_the_distances(rank):
    truth, _ = noisy(np.random.default_rng(2), 20, 3, 1.0)
    found = distance_matrix.points(truth, rank)
    assert found.shape == (20, rank)
    assert distance_matrix.between(found) == pytest.approx(truth, abs=1e-9)
    assert np.abs(found.sum(axis=0)).max() < 1e-6
    assert not np.allclose(distance_matrix.between(distance_matrix.points(truth, 2)), truth)


def test_scaling_keeps_the_largest_eigenvalues_and_drops_negative_ones():
    _, matrix = noisy(np.random.default_rng(3), 15, 2, 3.0)
    values = gram_eigenvalues(matrix)[::-1]
    found = distance_matrix.points(matrix, 15)
    assert (found**2).sum(axis=0) == pytest.approx(np.maximum(values, 0), abs=1e-8)
    assert (values < -0.1).any()


# ---- the nearest squared distances ----------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.1, 3.0, 100.0])
@pytest.mark.parametrize("count", [2, 3, 12, 40])
def test_the_nearest_matrix_is_one_of_distances_and_satisfies_the_conditions_of_a_projection(count, scale):
    """On a closed convex cone P is the projection of F iff <F - P, P> = 0 and <F - P, E> <= 0 for all E in the cone."""
    rng = np.random.default_rng(count)
    _, matrix = noisy(rng, count, 3, scale)
    found = distance_matrix.nearest_distances(matrix, tolerance=1e-10)
    assert found.converged
    assert is_squared_distances(found.matrix)
    rest, norm = matrix - found.matrix, np.linalg.norm(matrix)
    assert abs(np.sum(rest * found.matrix)) < 1e-6 * norm**2
    for dim in (1, 1, 1, 2, 5):
        other = distance_matrix.between(rng.normal(size=(count, dim)))
        assert np.sum(rest * other) < 1e-6 * norm * np.linalg.norm(other)


def test_the_nearest_matrix_is_that_of_the_published_iteration():
    """Glunt et al. 1990, equation for F_k, without momentum and run far longer than needed."""
    _, matrix = noisy(np.random.default_rng(5), 10, 2, 2.0)
    centre, slow = np.eye(10) - 0.1, matrix.copy()
    for _ in range(3000):
        values, vectors = np.linalg.eigh(centre @ slow @ centre)
        inside = slow - vectors @ np.diag(np.maximum(values, 0)) @ vectors.T
        slow = slow - np.diag(np.diag(inside))
    fast = distance_matrix.nearest_distances(matrix, tolerance=1e-11)
    assert fast.matrix == pytest.approx(inside, abs=1e-7)
    assert fast.rounds < 60


@pytest.mark.parametrize("dim", [1, 3, 30])
def test_true_distances_stay_as_they_are(dim):
    truth, _ = noisy(np.random.default_rng(6), 25, dim, 1.0)
    found = distance_matrix.nearest_distances(truth)
    assert found.matrix == pytest.approx(truth, abs=1e-8)
    assert found.rounds == 1
    again = distance_matrix.nearest_distances(
        distance_matrix.nearest_distances(truth + distance_matrix.square(np.ones(300), 25)).matrix
    )
    assert again.rounds == 1
    assert distance_matrix.nearest_distances(np.zeros((4, 4))).matrix.max() == 0


@pytest.mark.parametrize("scale", [0.3, 3.0, 30.0])
def test_nothing_made_of_points_is_nearer_and_the_truth_comes_nearer(scale):
    rng = np.random.default_rng(7)
    for _ in range(6):
        truth, matrix = noisy(rng, 30, 3, scale)
        found = distance_matrix.nearest_distances(matrix).matrix
        distance = np.linalg.norm(found - matrix)
        for rank in (1, 3, 29):
            assert distance <= np.linalg.norm(distance_matrix.between(distance_matrix.points(matrix, rank)) - matrix)
        assert distance < np.linalg.norm(truth - matrix)
        assert np.linalg.norm(found - truth) < 0.8 * np.linalg.norm(matrix - truth)


def test_rounds_that_run_out_are_reported_and_still_give_distances():
    _, matrix = noisy(np.random.default_rng(8), 30, 3, 10.0)
    one, few = (distance_matrix.nearest_distances(matrix, rounds=rounds) for rounds in (1, 5))
    assert not one.converged
    assert not few.converged
    assert few.rounds == 5
    assert is_squared_distances(few.matrix)
    assert one.matrix == pytest.approx(distance_matrix.between(distance_matrix.points(matrix, 30)), abs=1e-8)


@pytest.mark.parametrize(("options", "named"), [({"tolerance": 0.0}, "tolerance"), ({"rounds": 0}, "rounds")])
def test_bad_limits_are_refused(options, named):
    with pytest.raises(ParameterError, match=named):
        distance_matrix.nearest_distances(np.zeros((3, 3)), **options)
    with pytest.raises(ParameterError, match="rank"):
        distance_matrix.points(np.zeros((3, 3)), 0)


def test_points_are_found_where_all_distances_are_equal():
    """Eigenvalues that are all equal: LAPACK found none for some sizes, and the points had no coordinates."""
    for size in (1e50, 1e10, 3.0, 1e-10):
        for rows in (2, 40, 157):
            matrix = np.full((rows, rows), size)
            np.fill_diagonal(matrix, 0.0)
            found = distance_matrix.points(matrix, 2)
            assert found.shape == (rows, 2)
            assert np.linalg.norm(found, axis=0)[0] == pytest.approx(np.sqrt(size / 2))
