"""Bits of the probability of heads: 64 at a time, of one number."""

import pytest
from mpmath import mp

from sfumato.randomness import private_selection, randomized_choice


@pytest.mark.parametrize(("gap", "rate"), [(1, 0.5), (7, 0.01), (3, 1.25), (1, 2.0**-30)])
def test_further_bits_continue_the_ones_before(gap, rate):
    with mp.workdps(90):
        truth = int(mp.floor(mp.exp(-mp.mpf(rate) * gap) * mp.mpf(2) ** 256))
    parts = [private_selection._bits(gap, rate, turn) for turn in range(4)]
    assert all(0 <= part < 2**64 for part in parts)
    assert sum(part << 64 * (3 - i) for i, part in enumerate(parts)) == truth


@pytest.mark.parametrize(("categories", "epsilon"), [(2, 0.5), (10, 0.01), (3, 5.0)])
def test_further_bits_of_the_truth_continue_the_ones_before(categories, epsilon):
    with mp.workdps(90):
        top = mp.exp(mp.mpf(epsilon))
        truth = int(mp.floor(top / (top + categories - 1) * mp.mpf(2) ** 256))
    parts = [randomized_choice.threshold_bits(categories, epsilon, turn) for turn in range(4)]
    assert all(0 <= part < 2**64 for part in parts)
    assert sum(part << 64 * (3 - i) for i, part in enumerate(parts)) == truth
