import time

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.marginals.junction_tree import JunctionTree
from sfumato.marginals.sampling import sample, stratified
from support.brute_force import joint, over, random_potentials, random_tree


def test_counts_of_each_group_differ_from_expectation_by_less_than_one():
    rng = np.random.default_rng(21)
    conditionals = rng.dirichlet(np.ones(7), size=30)
    groups = rng.integers(0, 30, 5000)
    drawn = stratified(conditionals, groups, rng)
    for group, conditional in enumerate(conditionals):
        found = np.bincount(drawn[groups == group], minlength=7)
        assert np.all(np.abs(np.cumsum(found) - found.sum() * np.cumsum(conditional)) < 1 + 1e-9)


def test_each_row_has_the_distribution_of_its_group():
    rng = np.random.default_rng(22)
    conditionals = np.array([[0.2, 0.5, 0.3], [0.9, 0.0, 0.1]])
    groups = np.array([0, 1, 0, 0])
    drawn = np.array([stratified(conditionals, groups, rng) for _ in range(6000)])
    for row, group in enumerate(groups):
        shares = np.bincount(drawn[:, row], minlength=3) / len(drawn)
        np.testing.assert_allclose(shares, conditionals[group], atol=0.025)


def test_weights_need_not_sum_to_one_and_zeros_are_never_drawn():
    rng = np.random.default_rng(23)
    weights = np.array([[0.0, 5, 0, 1e-3, 0], [0, 0, 0, 0, 1e-300], [0, 0, 0, 0, 0]])
    groups = np.repeat([0, 1], [9000, 10])
    drawn = stratified(weights, groups, rng)
    assert set(drawn[:9000]) == {1, 3}
    assert set(drawn[9000:]) == {4}
    with pytest.raises(ParameterError, match="positive probability"):
        stratified(weights, np.array([2]), rng)


def test_samples_have_the_proportions_of_the_tree():
    rng = np.random.default_rng(24)
    for _ in range(20):
        tree = random_tree(rng)
        potentials = random_potentials(rng, tree, 0.1)
        expected = joint(tree, potentials)
        if not expected.any():
            continue
        beliefs = tree.propagate(potentials)
        codes = sample(tree, beliefs, 20000, rng)
        assert codes.dtype == np.int32
        found = np.zeros(tree.sizes)
        np.add.at(found, tuple(codes), 1 / 20000)
        assert np.abs(found - expected).max() < 0.012
        assert not found[expected == 0].any()
        root = tree.cliques[tree.order[0]]
        difference = np.cumsum(over(found, root) - over(expected, root)) * 20000
        assert np.abs(difference).max() < 1 + 1e-6


def test_columns_that_are_independent_given_a_third_stay_so():
    tree = JunctionTree.of([2, 5, 5], [(0, 1), (0, 2)])
    codes = sample(tree, tree.propagate([np.zeros((2, 5))] * 2), 50000, np.random.default_rng(25))
    assert abs(np.corrcoef(codes[1], codes[2])[0, 1]) < 0.02


def test_rows_are_in_random_order():
    tree = JunctionTree.of([50], [])
    codes = sample(tree, tree.propagate([np.zeros(50)]), 20000, np.random.default_rng(26))
    assert abs(np.corrcoef(codes[0], np.arange(20000))[0, 1]) < 0.03


def test_no_rows_and_constant_columns():
    tree = JunctionTree.of([1, 3], [])
    beliefs = tree.propagate([np.zeros(1), np.zeros(3)])
    assert sample(tree, beliefs, 0, np.random.default_rng(1)).shape == (2, 0)
    assert not sample(tree, beliefs, 9, np.random.default_rng(1))[0].any()
    with pytest.raises(ParameterError, match="rows"):
        sample(tree, beliefs, -1, np.random.default_rng(1))


def test_five_hundred_variables_are_sampled():
    tree = JunctionTree.of([2] * 500, [])
    codes = sample(tree, tree.propagate([np.zeros(2)] * 500), 100, np.random.default_rng(27))
    assert (codes.sum(axis=1) == 50).all()


def test_many_rows_are_sampled_quickly():
    tree = JunctionTree.of([8] * 15, [(i, i + 1, i + 2) for i in range(13)])
    beliefs = tree.propagate([np.zeros((8, 8, 8))] * 13)
    started = time.process_time()
    sample(tree, beliefs, 200_000, np.random.default_rng(28))
    assert time.process_time() - started < 2
