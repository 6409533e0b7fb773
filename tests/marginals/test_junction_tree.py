import itertools
import time

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.marginals import junction_tree
from sfumato.marginals.junction_tree import JunctionTree, cells, triangulated
from support.brute_force import joint, over, random_potentials, random_tree

RNG = np.random.default_rng(11)


def test_chordal_cliques_come_out_as_they_are():
    assert triangulated([2, 3, 4, 5], [(0, 1, 2), (1, 2, 3)]) == [(0, 1, 2), (1, 2, 3)]
    assert triangulated([2, 2, 2], [(0, 1), (1,), (0, 1)]) == [(0, 1), (2,)]


def test_a_cycle_is_cut_through_its_smallest_cliques():
    cycle = [(0, 1), (1, 2), (2, 3), (0, 3)]
    assert triangulated([9, 2, 9, 2], cycle) == [(0, 1, 3), (1, 2, 3)]
    assert cells([9, 2, 9, 2], cycle) == 72


def test_a_variable_that_needs_no_edge_goes_before_a_smaller_one():
    chain = [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert triangulated([90, 2, 2, 2, 90], chain) == chain


def slowly_triangulated(sizes, cliques):
    """Greedy elimination with all costs computed anew at every step."""
    near = [{u for clique in cliques if v in clique for u in clique} - {v} for v in range(len(sizes))]
    left, found = set(range(len(sizes))), []
    while left:
        costs = {
            v: (
                any(b not in near[a] for a, b in itertools.combinations(near[v], 2)),
                np.prod([sizes[u] for u in (v, *near[v])]),
            )
            for v in left
        }
        gone = min(left, key=lambda v: (*costs[v], v))
        found.append({gone, *near[gone]})
        for v in near[gone]:
            near[v] = (near[v] | near[gone]) - {v, gone}
        left.remove(gone)
    return sorted({tuple(sorted(clique)) for clique in found if not any(clique < other for other in found)})


def test_costs_are_up_to_date_at_every_step():
    for _ in range(60):
        sizes = RNG.permutation([2, 3, 5, 7, 11, 13, 17, 19, 23, 29]).tolist()
        pairs = [tuple(sorted(RNG.choice(10, 2, replace=False).tolist())) for _ in range(18)]
        assert triangulated(sizes, pairs) == slowly_triangulated(sizes, pairs)
    sizes = [7, 29, 23, 2, 5, 3, 17, 19, 11]  # a variable that a new edge between others frees must go next
    pairs = [(0, 1), (0, 3), (0, 5), (0, 7), (1, 4), (2, 8), (3, 6), (4, 7), (4, 8), (6, 8)]
    assert triangulated(sizes, pairs) == slowly_triangulated(sizes, pairs)


def test_triangulating_twice_changes_nothing():
    for _ in range(50):
        tree = random_tree(RNG, 7)
        assert triangulated(tree.sizes, tree.cliques) == list(tree.cliques)
        assert JunctionTree.of(tree.sizes, tree.cliques) == tree


def test_no_clique_lies_within_another_and_each_is_kept():
    for _ in range(50):
        given = [tuple(sorted(RNG.choice(8, 2, replace=False).tolist())) for _ in range(12)]
        found = triangulated([2] * 8, given)
        assert not any(set(a) < set(b) for a, b in itertools.permutations(found, 2))
        assert all(any(set(pair) <= set(clique) for clique in found) for pair in given)


def test_what_two_cliques_share_is_in_all_between_them():
    for _ in range(50):
        tree = random_tree(RNG, 7)
        assert sorted(tree.order) == list(range(len(tree.cliques)))
        assert all(tree.parents[i] in tree.order[: tree.order.index(i)] for i in tree.order[1:])
        for variable in range(7):
            tops = [
                index
                for index, clique in enumerate(tree.cliques)
                if variable in clique and (tree.parents[index] < 0 or variable not in tree.cliques[tree.parents[index]])
            ]
            assert len(tops) == 1


@pytest.mark.parametrize("forbidden", [0.0, 0.25])
def test_beliefs_are_those_of_brute_force(forbidden):
    impossible = 0
    for _ in range(60):
        tree = random_tree(RNG)
        potentials = random_potentials(RNG, tree, forbidden)
        expected = joint(tree, potentials)
        if not expected.any():
            impossible += 1
            with pytest.raises(ParameterError, match="forbid all"):
                tree.propagate(potentials)
            continue
        for clique, belief in zip(tree.cliques, tree.propagate(potentials), strict=True):
            np.testing.assert_allclose(belief, over(expected, clique), atol=1e-12)
            assert np.array_equal(belief == 0, over(expected, clique) == 0)
    assert impossible == 0 or forbidden


def test_potentials_may_differ_by_thousands():
    tree = JunctionTree.of([2, 2, 2], [(0, 1), (1, 2)])
    far = [np.array([[0.0, -5000], [1, -5001]]), np.array([[0.0, 0], [5000, 5000]])]
    near = [np.array([[0.0, 0], [1, -1]]), np.zeros((2, 2))]
    for found, expected in zip(tree.propagate(far), tree.propagate(near), strict=True):
        np.testing.assert_allclose(found, expected)


def test_propagation_leaves_potentials_as_they_are():
    tree = JunctionTree.of([2, 2], [(0, 1)])
    potentials = [np.zeros((2, 2))]
    assert tree.propagate(potentials)[0].tolist() == [[0.25, 0.25]] * 2
    assert not potentials[0].any()


def test_potentials_of_beliefs_have_these_beliefs():
    for _ in range(30):
        tree = random_tree(RNG)
        beliefs = tree.propagate(random_potentials(RNG, tree))
        for found, expected in zip(tree.propagate(tree.potentials(beliefs)), beliefs, strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-12)
    tree = JunctionTree.of([2, 2, 2], [(0, 1), (1, 2)])
    beliefs = tree.propagate([np.array([[0.0, -np.inf], [0, -np.inf]]), np.zeros((2, 2))])
    assert tree.propagate(tree.potentials(beliefs))[1].tolist() == [[0.5, 0.5], [0, 0]]


def test_marginals_across_cliques_are_those_of_brute_force():
    across = 0
    for _ in range(40):
        tree = random_tree(RNG)
        potentials = random_potentials(RNG, tree, 0.1)
        expected = joint(tree, potentials)
        if not expected.any():
            continue
        beliefs = tree.propagate(potentials)
        for count in range(6):
            columns = RNG.permutation(5)[:count].tolist()
            across += tree.home(columns) is None
            np.testing.assert_allclose(tree.marginal(beliefs, columns), over(expected, columns), atol=1e-12)
    assert across > 20


def test_columns_far_apart_in_a_chain_are_joined():
    tree = JunctionTree.of([3] * 8, [(i, i + 1) for i in range(7)])
    potentials = random_potentials(RNG, tree)
    found = tree.marginal(tree.propagate(potentials), [7, 0, 4])
    np.testing.assert_allclose(found, over(joint(tree, potentials), [7, 0, 4]), atol=1e-12)


def test_pairs_far_apart_need_only_small_tables(monkeypatch):
    tree = JunctionTree.of([4] * 12, [(i, i + 1, i + 2) for i in range(10)])
    beliefs = tree.propagate(random_potentials(RNG, tree))
    monkeypatch.setattr(junction_tree, "MOST_CELLS", 4**4)
    np.testing.assert_allclose(tree.marginal(beliefs, [0, 11]).sum(axis=1), tree.marginal(beliefs, [0]))


def test_a_table_of_too_many_cells_is_refused(monkeypatch):
    tree = JunctionTree.of([10] * 4, [])
    beliefs = tree.propagate([np.zeros(10)] * 4)
    monkeypatch.setattr(junction_tree, "MOST_CELLS", 1000)
    assert tree.marginal(beliefs, [0, 1, 2]).shape == (10, 10, 10)
    with pytest.raises(ParameterError, match="10000 cells, more than 1000"):
        tree.marginal(beliefs, [0, 1, 2, 3])


@pytest.mark.parametrize("columns", [(0, 0), (2,), (-1,)])
def test_columns_that_do_not_exist_are_refused(columns):
    tree = JunctionTree.of([2, 2], [])
    with pytest.raises(ParameterError, match="different numbers from 0 to 1"):
        tree.marginal(tree.propagate([np.zeros(2)] * 2), columns)


@pytest.mark.parametrize(("sizes", "cliques"), [([], []), ([0], []), ([2], [(0, 1)])])
def test_a_tree_needs_variables_with_cells(sizes, cliques):
    with pytest.raises(ParameterError, match=r"at least one cell|from 0 to 0"):
        JunctionTree.of(sizes, cliques)


def test_home_is_the_smallest_clique():
    tree = JunctionTree.of([2, 2, 9, 3], [(0, 1, 2), (0, 1, 3)])
    assert tree.home((0, 1)) == tree.cliques.index((0, 1, 3))
    assert tree.home((2, 3)) is None


def test_five_hundred_variables_alone():
    tree = JunctionTree.of([2] * 500, [])
    assert len(tree.cliques) == 500
    beliefs = tree.propagate([np.array([0.0, np.log(3)])] * 500)
    np.testing.assert_allclose(tree.marginal(beliefs, [499, 0]), [[1 / 16, 3 / 16], [3 / 16, 9 / 16]])


def test_five_hundred_variables_in_a_tree_are_counted_quickly():
    pairs = [(int(RNG.integers(i)), i) for i in range(1, 500)]
    started = time.process_time()
    for _ in range(10):
        assert cells([4] * 500, pairs) == 499 * 16
    assert time.process_time() - started < 1
