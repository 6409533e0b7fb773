import numpy as np
import pytest
from scipy.optimize import nnls

from sfumato.errors import ParameterError
from sfumato.marginals.fitting import Measured, fit
from sfumato.marginals.junction_tree import JunctionTree
from support.brute_force import joint, over, random_potentials

TOTAL = 1000.0


def counted(rng, tree, columns, noise=0.0):
    """Counts of a distribution on the tree, with noise."""
    truth = joint(tree, random_potentials(rng, tree))
    return [
        Measured(key, TOTAL * over(truth, key) + noise * rng.normal(size=over(truth, key).shape), max(noise, 1.0) ** 2)
        for key in columns
    ]


CHAIN = JunctionTree.of([3, 4, 2, 3], [(0, 1), (1, 2), (2, 3)])
PAIRS = [(0, 1), (1, 2), (2, 3), (1,)]


def test_exact_counts_are_recovered():
    measured = counted(np.random.default_rng(1), CHAIN, PAIRS)
    fitted = fit(CHAIN, measured, TOTAL, iterations=2000)
    for table in measured:
        np.testing.assert_allclose(TOTAL * CHAIN.marginal(fitted.beliefs, table.columns), table.counts, atol=0.2)
    for belief, again in zip(fitted.beliefs, CHAIN.propagate(fitted.potentials), strict=True):
        np.testing.assert_allclose(belief, again, atol=1e-12)
        assert belief.sum() == pytest.approx(1)


def least_loss(sizes, measured, allowed):
    """The smallest loss of any distribution on the allowed combinations: least squares with weights of at least 0."""
    unit = np.eye(allowed.size)[allowed.ravel()].reshape(-1, *sizes)
    deviations = [np.sqrt(np.broadcast_to(table.variance, table.counts.shape)).ravel() for table in measured]
    sums = [np.array([over(cell, table.columns).ravel() for cell in unit]).T for table in measured]
    rows = [TOTAL * part / deviation[:, None] for part, deviation in zip(sums, deviations, strict=True)]
    counts = [table.counts.ravel() / deviation for table, deviation in zip(measured, deviations, strict=True)]
    one = 1e7 * np.ones((1, len(unit)))
    return nnls(np.vstack([*rows, one]), np.concatenate([*counts, [1e7]]))[1] ** 2


@pytest.mark.parametrize("noise", [5.0, 60.0])
def test_the_loss_is_the_smallest_of_any_distribution(noise):
    tree = JunctionTree.of([2, 3, 2], [(0, 1), (1, 2)])
    measured = counted(np.random.default_rng(2), tree, [(0, 1), (1, 2), (1,), (0, 1)], noise)
    fitted = fit(tree, measured, TOTAL, iterations=3000)
    assert fitted.loss == pytest.approx(least_loss(tree.sizes, measured, np.ones(tree.sizes, bool)), rel=1e-3)


def test_forbidden_cells_stay_at_zero_and_the_rest_fits_best():
    tree = JunctionTree.of([2, 3, 2], [(0, 1), (1, 2)])
    measured = counted(np.random.default_rng(3), tree, [(0, 1), (1, 2)], 20.0)
    never = np.zeros((2, 3), bool)
    never[0, 1] = never[1, 1] = never[1, 2] = True
    fitted = fit(tree, measured, TOTAL, iterations=3000, forbidden=[((0, 1), never)])
    pair = tree.marginal(fitted.beliefs, (0, 1))
    assert np.array_equal(pair == 0, never)
    assert not tree.marginal(fitted.beliefs, (1,))[1]
    allowed = np.broadcast_to(~never[:, :, None], tree.sizes)
    assert fitted.loss == pytest.approx(least_loss(tree.sizes, measured, allowed), rel=1e-3)


def test_precise_counts_weigh_more():
    tree = JunctionTree.of([2], [])
    counts = [Measured((0,), np.array([200.0, 800]), 1.0), Measured((0,), np.array([600.0, 400]), 3.0)]
    fitted = fit(tree, counts, TOTAL)
    np.testing.assert_allclose(TOTAL * fitted.beliefs[0], [300, 700], atol=0.01)
    assert fitted.loss == pytest.approx(2 * (100**2 + 300**2 / 3), rel=1e-6)
    each = [Measured((0,), np.array([200.0, 800]), np.array([1.0, 3.0]))]
    np.testing.assert_allclose(fit(tree, each, 1400.0).beliefs[0] * 1400, [300, 1100], atol=0.01)


def test_what_is_not_measured_is_uniform_and_independent():
    tree = JunctionTree.of([2, 2, 1], [(0, 1)])
    fitted = fit(tree, [Measured((0,), np.array([1.0, 3]), 1.0)], 4.0)
    np.testing.assert_allclose(tree.marginal(fitted.beliefs, (0, 1)), [[0.125] * 2, [0.375] * 2], atol=1e-6)
    assert fitted.beliefs[tree.home((2,))].tolist() == [1.0]


def test_a_fit_starts_where_an_earlier_one_ended():
    measured = counted(np.random.default_rng(4), CHAIN, PAIRS, 10.0)
    first = fit(CHAIN, measured, TOTAL, iterations=2000)
    wider = JunctionTree.of(CHAIN.sizes, [(0, 1, 2), (1, 2, 3)])
    again = fit(wider, measured, TOTAL, iterations=0, start=first)
    assert again.loss == pytest.approx(first.loss)
    for columns in (PAIRS[0], (0, 3)):
        np.testing.assert_allclose(
            wider.marginal(again.beliefs, columns), CHAIN.marginal(first.beliefs, columns), atol=1e-12
        )
    with pytest.raises(ParameterError, match="within a clique"):
        fit(CHAIN, measured, TOTAL, start=again)


def test_fits_are_deterministic_and_stop_early():
    measured = counted(np.random.default_rng(5), CHAIN, PAIRS, 10.0)
    one, two = (fit(CHAIN, measured, TOTAL, iterations=5000) for _ in range(2))
    assert one.loss == two.loss
    assert one.steps == two.steps < 5000
    assert all(np.array_equal(a, b) for a, b in zip(one.beliefs, two.beliefs, strict=True))


def test_iterations_bound_how_often_beliefs_are_propagated():
    measured = counted(np.random.default_rng(7), CHAIN, PAIRS)
    losses = [fit(CHAIN, measured, TOTAL, iterations=count).loss for count in (0, 1, 20, 60)]
    assert losses[0] == losses[1] > 100 * losses[2] > 100 * losses[3]
    assert fit(CHAIN, measured, TOTAL, iterations=20).steps == 20


def test_nothing_measured_gives_the_uniform_distribution():
    fitted = fit(CHAIN, [], 1.0)
    assert fitted.loss == 0
    np.testing.assert_allclose(fitted.beliefs[0], 1 / fitted.beliefs[0].size)


@pytest.mark.parametrize(
    ("measured", "message"),
    [
        (Measured((0, 2), np.zeros((3, 2)), 1.0), "within a clique"),
        (Measured((1, 0), np.zeros((4, 3)), 1.0), "sorted"),
        (Measured((0, 1), np.zeros((4, 3)), 1.0), r"must have shape \(3, 4\)"),
        (Measured((0,), np.zeros(3), 0.0), "variance"),
    ],
)
def test_tables_that_do_not_fit_the_tree_are_refused(measured, message):
    with pytest.raises(ParameterError, match=message):
        fit(CHAIN, [measured], TOTAL)
