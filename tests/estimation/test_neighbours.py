"""Neighbours against brute force, clusters of separated blobs, and denoising with known noise."""

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.estimation.neighbours import cluster, denoise, nearest
from sfumato.intervals.moments import NoiseLaw

NOISE = NoiseLaw("gaussian", 0.5)


def draw(kind, scale, shape, rng):
    return rng.normal(0, scale, shape) if kind == "gaussian" else rng.laplace(0, scale / np.sqrt(2), shape)


# ---- nearest --------------------------------------------------------------------------------------------------------


def brute_force(rows, points, k, own=None):
    squared = ((points[:, None] - rows[None]) ** 2).sum(axis=2)
    if own is not None:
        squared[np.arange(len(own)), own] = np.inf
    order = np.argsort(squared, axis=1)[:, :k]
    return order, np.take_along_axis(squared, order, 1)


@pytest.mark.parametrize("block", [1, 7, 64, 10_000])
def test_nearest_rows_are_those_of_brute_force_for_every_block(block):
    rng = np.random.default_rng(1)
    rows, public = rng.normal(size=(300, 5)), rng.normal(size=(11, 5))
    own = np.array([0, 5, 299, 5])
    found = nearest(rows, own, 6, NOISE, block=block)
    indices, squared = brute_force(rows, rows[own], 6, own)
    assert (found.indices == indices).all()
    assert found.squared == pytest.approx(squared - 2 * 5 * 0.25, abs=1e-12)
    found = nearest(rows, public, 6, NOISE, block=block)
    indices, squared = brute_force(rows, public, 6)
    assert (found.indices == indices).all()
    assert found.squared == pytest.approx(squared - 5 * 0.25, abs=1e-12)


@pytest.mark.parametrize("scores", [1, 100, 1 << 21])
def test_rows_that_tie_are_found_wherever_blocks_end(scores, monkeypatch):
    monkeypatch.setattr("sfumato.estimation.neighbours._SCORES", scores)
    rng = np.random.default_rng(5)
    rows = rng.integers(0, 3, (400, 3)).astype(float)  # exact in doubles, and many of them alike
    own = np.arange(0, 400, 7)
    found = nearest(rows, own, 8, NOISE)
    squared = ((rows[own][:, None] - rows[None]) ** 2).sum(axis=2)
    squared[np.arange(len(own)), own] = np.inf
    assert np.array_equal(found.squared + 2 * 3 * 0.25, np.sort(squared, axis=1)[:, :8])
    assert (np.take_along_axis(squared, found.indices, 1) == np.sort(squared, axis=1)[:, :8]).all()
    assert all(len(set(row)) == 8 for row in found.indices.tolist())


def test_one_query_gives_one_row_and_a_row_is_not_its_own_neighbour():
    rows = np.array([[0.0, 0.0], [1.0, 0.0], [3.0, 0.0]])
    assert nearest(rows, 0, 2, NOISE).indices.tolist() == [1, 2]
    assert nearest(rows, np.array([0.0, 0.0]), 2, NOISE).indices.tolist() == [0, 1]
    assert nearest(rows, [1], 1, NOISE).indices.tolist() == [[0]]


def test_noise_does_not_hide_the_neighbours_of_a_separated_group():
    rng = np.random.default_rng(2)
    centres = 20 * rng.normal(size=(4, 16))
    rows = np.repeat(centres, 25, axis=0) + draw("laplace", 1.0, (100, 16), rng)
    found = nearest(rows, np.arange(100), 24, NoiseLaw("laplace", 1.0))
    assert (found.indices // 25 == np.arange(100)[:, None] // 25).all()
    assert abs(found.squared.mean()) < 6.2 * found.squared.std() / np.sqrt(100)  # all of a group: nothing was selected


@pytest.mark.parametrize(
    ("query", "k", "block", "named"),
    [
        (3, 1, 8, "query must hold indices from 0 to 2"),
        (-1, 1, 8, "query must hold indices"),
        ([[0]], 1, 8, "query must hold indices"),
        ([0.0, 1.0, 2.0], 1, 8, "projected rows of 2 numbers"),
        (0, 3, 8, "k must be at most 2"),
        (0, 0, 8, "k must be a whole number"),
        (0, 1, 0, "block must be"),
    ],
)
def test_bad_questions_for_neighbours_are_refused(query, k, block, named):
    with pytest.raises(ParameterError, match=named):
        nearest(np.arange(6.0).reshape(3, 2), query, k, NOISE, block=block)


# ---- cluster --------------------------------------------------------------------------------------------------------


def test_separated_blobs_are_recovered():
    rng = np.random.default_rng(3)
    centres = 10 * np.eye(8)[:5]
    truth = rng.integers(0, 5, 5000)  # more than one block
    found = cluster(centres[truth] + rng.laplace(0, 0.7, (5000, 8)), 5, np.random.default_rng(0))
    names = [np.unique(found.labels[truth == group]) for group in range(5)]
    assert sorted(int(name[0]) for name in names) == list(range(5))
    assert all(len(name) == 1 for name in names)
    matched = found.centres[[int(name[0]) for name in names]]
    assert np.abs(matched - centres).max() < 6.2 * 1.0 / np.sqrt(900)


def test_clusters_are_the_same_for_the_same_generator_and_never_empty():
    rows = np.random.default_rng(4).normal(size=(60, 3))
    one, two = (cluster(rows, 12, np.random.default_rng(9)) for _ in range(2))
    assert (one.labels == two.labels).all()
    assert set(one.labels.tolist()) == set(range(12))
    nearest_centre = ((rows[:, None] - one.centres) ** 2).sum(axis=2)
    assert (nearest_centre.argmin(axis=1) == one.labels).all()
    assert one.within == pytest.approx(nearest_centre.min(axis=1).sum(), rel=1e-9)


def test_equal_rows_and_as_many_clusters_as_rows_are_no_trouble():
    assert cluster(np.ones((5, 2)), 3, np.random.default_rng(1)).within == 0
    assert cluster(np.arange(8.0).reshape(4, 2), 4, np.random.default_rng(1)).within == pytest.approx(0, abs=1e-9)


def test_more_clusters_than_rows_are_refused():
    with pytest.raises(ParameterError, match="clusters must be at most 3"):
        cluster(np.ones((3, 2)), 4, np.random.default_rng(1))


# ---- denoise --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("shape", [(2000, 40), (50, 50), (30, 200)])
def test_denoising_lowers_the_error_of_low_rank_rows(kind, shape):
    rng, noise = np.random.default_rng(5), NoiseLaw(kind, 1.0)
    truth = 2 * rng.normal(size=(shape[0], 2)) @ rng.normal(size=(2, shape[1]))
    released = truth + draw(kind, 1.0, shape, rng)
    found = denoise(released, noise)
    assert found.rank == 2
    before, after = ((rows - truth) ** 2 for rows in (released, found.rows))
    # What is left of the noise lies in two row and two column directions.
    assert after.mean() < 1.5 * 2 * sum(shape) / (shape[0] * shape[1]) * before.mean()


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("shape", [(2000, 4), (300, 60), (60, 60), (20, 500)])
def test_pure_noise_leaves_nothing_and_understated_noise_leaves_something(kind, shape):
    rng = np.random.default_rng(6)
    for _ in range(8):
        released = draw(kind, 3.0, shape, rng)
        assert denoise(released, NoiseLaw(kind, 3.0)).rank == 0
        assert not denoise(released, NoiseLaw(kind, 3.0)).rows.any()
        assert denoise(released, NoiseLaw(kind, 2.0)).rank > 0


def test_the_threshold_is_the_published_one():
    """Gavish and Donoho: 4/sqrt(3) for square matrices."""
    released = np.diag([4 / np.sqrt(3) * 10 * 1.001, 4 / np.sqrt(3) * 10 * 0.999, *np.zeros(98)])
    assert denoise(released, NoiseLaw("gaussian", 1.0)).rank == 1


@pytest.mark.parametrize("rows", [np.ones(3), np.ones((0, 3)), np.ones((2, 2, 2))])
def test_what_is_no_table_is_refused(rows):
    with pytest.raises(ParameterError, match="rows must be a table"):
        denoise(rows, NOISE)
