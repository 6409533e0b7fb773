"""Bins of a variable from noisy counts."""

import numpy as np
import pytest

from sfumato.marginals.binning import WantedBins, bins
from sfumato.marginals.partition import Partition
from sfumato.tables.columns import Category, Integer
from sfumato.tables.schema import Schema

WANTED = WantedBins(records=10_000.0, mass=1_000.0, least=200.0, rare=150.0)


def variable(column):
    return Partition.of(Schema((column,))).variables[0]


def test_common_levels_have_bins_of_their_own_and_rare_ones_share_one():
    town = variable(Category("town", tuple("abcde"), missing="a"))
    found = bins(town, np.array([5000.0, 4700.0, 149.0, 100.0, 51.0]), 10.0, WANTED, whole=False)
    assert found.of_cell.tolist() == [0, 1, 2, 2, 2]
    assert found.shares[2:] == pytest.approx(np.array([149, 100, 51]) / 300)


def test_a_label_keeps_all_its_levels():
    town = variable(Category("town", tuple("abc"), missing="a"))
    assert bins(town, np.array([9990.0, 5.0, 5.0]), 10.0, WANTED, whole=True).size == 3


def test_numbers_are_cut_into_runs_of_about_equal_mass():
    age = variable(Integer("age", 0, 99))
    found = bins(age, np.full(100, 100.0), 1.0, WANTED, whole=False)
    assert found.cells.tolist() == [10] * 10
    assert np.all(np.diff(found.of_cell) >= 0)
    assert found.counts(found.shares) == pytest.approx(np.ones(10))


def test_a_value_that_many_have_is_a_bin_of_its_own():
    counts = np.full(100, 60.0)
    counts[40] = 4060.0
    found = bins(variable(Integer("hours", 0, 99)), counts, 1.0, WANTED, whole=False)
    assert np.count_nonzero(found.of_cell == found.of_cell[40]) == 1


def test_cells_apart_never_share_a_bin():
    apart = np.arange(100) % 7 // 4
    found = bins(variable(Integer("age", 0, 99)), np.full(100, 100.0), 1.0, WANTED, whole=False, apart=apart)
    for bin_ in range(found.size):
        assert len(set(apart[found.of_cell == bin_])) == 1


def test_few_records_beside_a_value_that_most_have_are_cut_where_they_are():
    """Noise of every cell exceeds its records, but all of them together do not get lost."""
    loss = variable(Integer("loss", 0, 4400))
    exact = np.zeros(loss.size)
    exact[loss.size // 2 :] = 10.0
    exact[0] = 30_000 - exact.sum()
    noisy = np.rint(exact + np.random.default_rng(1).normal(0, 60, loss.size))
    found = bins(loss, noisy, 60.0, WantedBins(30_000.0, 3_400.0, 300.0, 140.0), whole=False)
    assert found.size >= 3
