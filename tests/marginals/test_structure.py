"""Which tables go into the model."""

import numpy as np
import pytest

from sfumato.marginals import structure
from sfumato.marginals.fitting import Measured

RNG = np.random.default_rng(3)


def test_one_way_tables_are_pooled_by_variance():
    tables = [Measured((0,), np.array([10.0, 20.0]), 4.0), Measured((0, 1), np.array([[5.0, 9.0], [8.0, 8.0]]), 1.0)]
    first, second = structure.pooled((2, 2), tables)
    assert first.counts == pytest.approx((np.array([10, 20]) / 4 + np.array([14, 16]) / 2) / (1 / 4 + 1 / 2))
    assert first.variance == pytest.approx(np.full(2, 4 / 3))
    assert second.counts == pytest.approx([13, 17])


def test_the_nearest_distribution_is_on_the_simplex():
    found = structure.on_simplex(np.array([0.9, 0.4, -0.2]))
    assert found == pytest.approx([0.75, 0.25, 0.0])


def pair(first, second, dependence):
    exact = np.full((4, 4), 600.0 * (1 - dependence)) + np.diag(np.full(4, 2400.0 * dependence))
    return Measured((first, second), exact + RNG.normal(0, 20, (4, 4)), 400.0)


def test_pairs_that_depend_gain_and_independent_ones_do_not():
    tables = [pair(0, 1, 0.5), pair(0, 2, 0.0), pair(1, 2, 0.2)]
    found = structure.gains(tables, structure.pooled((4, 4, 4), tables), 9600.0, 20.0)
    assert found[0, 1].net > found[1, 2].net > 0 > found[0, 2].net


def gains(**net):
    return {tuple(int(c) for c in key[1:]): structure.Gain(max(value, 0.0), value) for key, value in net.items()}


def test_a_spanning_tree_comes_first_and_the_label_has_all_its_pairs():
    found = gains(_01=3.0, _02=2.0, _12=1.0, _03=0.1, _13=0.1, _23=0.1)
    assert structure.chosen((9,) * 4, found, 1e9, label=3, most=0.0) == [(0, 1), (0, 2), (0, 3), (1, 3), (2, 3)]


def test_no_more_pairs_than_the_limit_of_cells_allows():
    found = gains(_01=3.0, _02=2.0, _12=1.0)
    assert set(structure.chosen((9,) * 3, found, 1e9, label=None)) == {(0, 1), (0, 2), (1, 2)}
    assert set(structure.chosen((9,) * 3, found, 200.0, label=None)) == {(0, 1), (0, 2)}


def test_triples_join_pairs_that_share_a_variable():
    assert structure.triples([(0, 1), (1, 2), (3, 4)], (2,) * 5, 8.0) == [(0, 1, 2)]
    assert structure.triples([(0, 1), (1, 2)], (2, 2, 3), 8.0) == []
