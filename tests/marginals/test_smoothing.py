"""Noisy counts of an ordered variable freed of noise."""

import numpy as np
import pytest

from sfumato.marginals.partition import Partition
from sfumato.marginals.smoothing import completed, smoothed
from sfumato.tables.columns import Integer
from sfumato.tables.schema import Schema

DEVIATION = 60.0


def variable(high=4400):
    return Partition.of(Schema((Integer("loss", 0, high),))).variables[0]


def noisy(exact, seed):
    return np.rint(exact + np.random.default_rng(seed).normal(0, DEVIATION, len(exact)))


def mostly_zero(size):
    """Most records have the value 0; few lie in each of the other cells, far fewer than noise."""
    exact = np.full(size, 0.0)
    exact[size // 2 :] = 10.0
    exact[0] = 30_000 - exact.sum()
    return exact


@pytest.mark.parametrize("seed", range(5))
def test_records_that_noise_hides_are_not_lost(seed):
    loss = variable()
    exact = mostly_zero(loss.size)
    counts = noisy(exact, seed)
    found = completed(loss, counts, smoothed(loss, counts, DEVIATION), DEVIATION, exact.sum())
    assert found.min() >= 0
    assert found[1:].sum() > 0.7 * exact[1:].sum()


def test_estimates_that_lack_nothing_are_kept():
    loss = variable()
    exact = np.zeros(loss.size)
    exact[0] = 30_000
    counts = exact.copy()
    counts[0] += DEVIATION
    assert completed(loss, counts, exact, DEVIATION, 30_000.0) is exact
    assert completed(loss, counts, exact, DEVIATION, 30_000.0 + 0.5 * DEVIATION) is exact


def test_what_is_missing_goes_to_cells_that_seemed_empty_by_their_width_if_nothing_else_is_known():
    loss = variable()
    estimates = np.zeros(loss.size)
    estimates[0] = 20_000.0
    counts = np.where(estimates > 0, estimates, -DEVIATION)
    found = completed(loss, counts, estimates, DEVIATION, 30_000.0)
    assert found[0] == 20_000
    rates = found[1:] / loss.widths()[1:]
    assert rates == pytest.approx(np.full(len(rates), 10_000 / loss.widths()[1:].sum()))


def test_counts_without_noise_stay():
    loss = variable(high=40)
    exact = np.arange(loss.size) * 100.0 + 500
    found = smoothed(loss, exact, 1e-3)
    assert found == pytest.approx(exact)
    assert completed(loss, exact, found, 1e-3, exact.sum()) == pytest.approx(exact)
