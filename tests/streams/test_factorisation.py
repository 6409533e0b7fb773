"""Factorisations of running sums: what a record moves, by brute force; decoders that give back running sums; costs."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.streams import factorisation
from sfumato.streams.factorisation import Factorisation, Node, PlainTree, Repeated, SquareRoot, Tree

METHODS = (SquareRoot(), Tree(), PlainTree(), Repeated())


def measurement_matrix(method: Factorisation, horizon: int) -> tuple[list[Node], list[list[int]]]:
    """All measurements within a horizon, and C in Python integers."""
    nodes = [node for period in range(1, horizon + 1) for node in method.measured(period)]
    rows = [[*map(int, method.weights(node)), *[0] * (horizon - node.period)] for node in nodes]
    return nodes, rows


def decoding_matrix(method: Factorisation, horizon: int) -> np.ndarray:
    """B in doubles, a row for each period."""
    nodes, _ = measurement_matrix(method, horizon)
    place = {node: number for number, node in enumerate(nodes)}
    made = np.zeros((horizon, len(nodes)))
    for period in range(1, horizon + 1):
        for node, weight in zip(*method.decoder(period), strict=True):
            made[period - 1, place[node]] = weight
    return made


def squared_move(rows: list[list[int]], one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """How far the whole measured vector moves between two streams of sums: its squared length, exactly."""
    moved = [a - b for a, b in zip(one, other, strict=True)]
    return sum(sum(weight * move for weight, move in zip(row, moved, strict=True)) ** 2 for row in rows)


@pytest.mark.parametrize("method", METHODS)
def test_no_neighbours_over_four_periods_move_further_than_stated_and_some_do(method: Factorisation) -> None:
    """Replaced: every stream of one row from {0, 1, 3} a period, and every replacement in any period."""
    _, rows = measurement_matrix(method, 4)
    domain, largest = (0, 1, 3), 0
    for stream in itertools.product(domain, repeat=4):
        for period, value in itertools.product(range(4), domain):
            other = (*stream[:period], value, *stream[period + 1 :])
            largest = max(largest, squared_move(rows, stream, other))
    assert largest == 3**2 * method.squared_norm(4)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("group", [1, 2])
def test_people_with_rows_in_any_periods_move_the_stream_by_their_number_at_most(
    method: Factorisation, group: int
) -> None:
    """Added: every stream of sums from 0 .. 2, and up to ``group`` rows from {1, 2} more in any periods."""
    _, rows = measurement_matrix(method, 4)
    added = list(itertools.product(range(4), (1, 2)))
    largest = 0
    for stream in itertools.product((0, 1, 2), repeat=4):
        for chosen in itertools.combinations_with_replacement(added, group):
            other = list(stream)
            for period, value in chosen:
                other[period] += value
            largest = max(largest, squared_move(rows, stream, tuple(other)))
    assert largest == (2 * group) ** 2 * method.squared_norm(4)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("horizon", [1, 2, 3, 7, 8, 37, 64])
def test_norms_are_those_of_the_matrix_and_decoders_give_back_running_sums(method: Factorisation, horizon: int) -> None:
    """N(T), touched entries and variances are read off C and B, and B C = A."""
    _, rows = measurement_matrix(method, horizon)
    columns = list(zip(*rows, strict=True))
    assert method.squared_norm(horizon) == max(sum(weight**2 for weight in column) for column in columns)
    assert method.touched(horizon) == max(sum(weight != 0 for weight in column) for column in columns)
    decoding = decoding_matrix(method, horizon)
    np.testing.assert_allclose(decoding @ np.array(rows, float), np.tril(np.ones((horizon,) * 2)), atol=1e-13)
    lengths = np.square(decoding).sum(axis=1)
    np.testing.assert_allclose([method.variance(t) for t in range(1, horizon + 1)], lengths, rtol=1e-12)


def test_norms_never_fall_so_that_longer_horizons_cost_more() -> None:
    """What extending charges is never negative, and a tree charges one level for each doubling."""
    for method in METHODS:
        norms = [method.squared_norm(horizon) for horizon in range(1, 300)]
        assert norms == sorted(norms)
    assert [Tree().squared_norm(2**level) for level in range(12)] == list(range(1, 13))


def test_weights_of_the_square_root_are_binomials_to_the_last_bit() -> None:
    """Against integers of any size."""
    weights = SquareRoot().weights(Node(factorisation.MOST_PERIODS))[::-1]
    for k in (*range(60), 500, 4095):
        exact = Fraction(math.comb(2 * k, k), 4**k) * 2**factorisation.BITS
        assert int(weights[k]) == math.floor(exact + Fraction(1, 2))


def test_decoders_of_the_square_root_are_exact_to_the_precision_of_doubles() -> None:
    """Against the same series in fractions."""
    weights = [int(weight) for weight in SquareRoot().weights(Node(80))[::-1]]
    series: list[Fraction] = []
    for k in range(80):
        series.append((1 - sum((weights[j] * series[k - j] for j in range(1, k + 1)), Fraction(0))) / weights[0])
    decoder = SquareRoot().decoder(80)[1][::-1]
    np.testing.assert_allclose(decoder, [float(term) for term in series], rtol=1e-13)


def test_trees_are_decoded_with_the_least_variance_of_all_that_was_measured() -> None:
    """Against least squares over every measurement up to each period."""
    for period in range(1, 40):
        _, rows = measurement_matrix(Tree(), period)
        covariance = np.linalg.inv(np.array(rows, float).T @ np.array(rows, float))
        assert Tree().variance(period) == pytest.approx(float(covariance.sum()), rel=1e-10)


def test_a_year_of_days_has_a_fiftieth_of_the_variance_of_releases_anew() -> None:
    """The figures of the page: 365 periods against 365 releases that share the budget."""
    found = {method.name: factorisation.against_repeated(method, 365) for method in METHODS}
    assert found["repeated"] == 1
    assert found["plain-tree"] == pytest.approx(0.1007, abs=5e-5)
    assert found["tree"] == pytest.approx(0.0602, abs=5e-5)
    assert found["square-root"] == pytest.approx(0.0212, abs=5e-5)


def test_the_square_root_is_the_default_as_far_as_it_goes() -> None:
    """Beyond its horizon the tree is; other names are refused."""
    assert factorisation.best(4096) == SquareRoot()
    assert factorisation.best(4097) == Tree()
    assert factorisation.factorisation("tree") == Tree()
    with pytest.raises(ParameterError, match="method"):
        factorisation.factorisation("plain-tree")
    with pytest.raises(ParameterError, match="periods"):
        SquareRoot().squared_norm(4097)
