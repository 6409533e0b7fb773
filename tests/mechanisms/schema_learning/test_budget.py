"""Noise of a learned schema: it never takes more than was paid for, and thresholds fail as rarely as they say."""

import numpy as np
import pytest
from mpmath import mp

from sfumato.errors import ParameterError
from sfumato.mechanisms.schema_learning.budget import Budget, CountMoves, threshold
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness.secret import Secret

CELLS = {"a": (1, False), "b": (1, True), "c": (2, False), "d": (8, True)}


@pytest.mark.parametrize(("neighbours", "each"), [("replace", 2), ("add-remove", 1)])
@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.parametrize("refines", [True, False])
def test_all_stages_together_take_at_most_the_budget(neighbours, each, group, refines):
    guarantee = Guarantee(epsilon=1.0, delta=1e-6, neighbours=neighbours, group=group)
    level = 4.2
    kinds, after = Budget.of(guarantee, level).kinds(4)
    scales, last = after.measured(CELLS, refines=refines)
    even = last.refined({"a": 1, "c": 2} if refines else {})
    unit = each * group**2
    total = 4 * unit / kinds**2 + sum(unit * CELLS[n][0] / s**2 for n, s in scales.items())
    total += sum(unit * {"a": 1, "c": 2}[n] / s**2 for n, s in even.items())
    assert 0.999 / level**2 <= total <= 1 / level**2


def test_huge_budgets_take_the_least_noise_and_tiny_ones_are_refused():
    guarantee = Guarantee(epsilon=1.0, delta=1e-6)
    scales, _ = Budget.of(guarantee, 1e-6).measured(CELLS, refines=True)
    assert min(scales.values()) == 2.0**-10
    with pytest.raises(ParameterError, match="larger epsilon"):
        Budget.of(guarantee, 1e15).kinds(4)


@pytest.mark.parametrize(("deviation", "values", "group"), [(150.0, 16, 1), (3.7, 1, 4), (0.3, 5, 1)])
def test_a_threshold_is_the_least_that_fails_as_rarely_as_it_says(deviation, values, group):
    failure = 4e-9
    found = threshold(deviation, values, group, failure)

    def fails(count):
        with mp.workdps(40):
            return values * group * mp.erfc((count - group + mp.mpf(1) / 2) / deviation / mp.sqrt(2)) / 2

    assert fails(found.count) <= failure
    assert fails(found.count - 1) > failure * (1 - 1e-9)


def test_noise_passes_a_threshold_as_often_as_computed():
    """Exact rounded noise against the lattice's tail, at a failure large enough to be seen."""
    deviation, failure, count = 7.0, 0.01, 400_000
    limit = threshold(deviation, 1, 1, failure)
    noise = Secret.for_testing(5).words("noise").gaussian(count, deviation)
    passed = float((1 + noise > limit.count).mean())
    error = 6.2 * (failure / count) ** 0.5
    assert passed <= failure + error
    half = Secret.for_testing(5).words("noise").gaussian(count, deviation * 1.2)
    assert float((1 + half > limit.count).mean()) > failure + error


def test_moves_are_those_of_a_record_in_one_cell_of_each_partition():
    for replace, group in ((True, 1), (False, 1), (True, 3)):
        before, after = np.zeros(5, int), np.zeros(5, int)
        before[1] += group
        after[2] += group if replace else 0
        assert CountMoves(replace, group).squared() == ((before - after) ** 2).sum()
