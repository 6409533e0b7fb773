"""What a choice by the exponential mechanism costs in Gaussian differential privacy."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from sfumato.mechanisms.table.budget import TableMoves

NORMAL = NormalDist()


def trade_off(chances, others, false_alarms):
    """The least chance to miss at most so many false alarms: the likeliest outcomes first, the last one by a coin."""
    order = np.argsort(-chances / others)
    ends, hits = np.cumsum(others[order]), np.cumsum(chances[order])
    return 1 - np.interp(false_alarms, np.concatenate([[0.0], ends]), np.concatenate([[0.0], hits]))


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("relative", [0.05, 0.5, 2.0])
def test_a_choice_is_as_private_as_the_gaussian_noise_that_it_counts_as(replace, relative):
    """Scores that move as far as they can, each its own way: no test tells more than the budget says; some as much."""
    rng, moves = np.random.default_rng(3), TableMoves(replace=replace, group=1, order=2)
    scale, closest = moves.score / relative, math.inf
    mu, levels = moves.choice / scale, np.linspace(0.001, 0.999, 199)
    allowed = np.array([NORMAL.cdf(NORMAL.inv_cdf(1 - level) - mu) for level in levels])
    for _ in range(300):
        count = int(rng.integers(2, 6))
        scores = rng.normal(0, 3, count) * moves.score
        moved = scores + moves.score * rng.choice([-1.0, 1.0], count)
        chances, others = (np.exp((s - s.max()) / scale) for s in (scores, moved))
        found = trade_off(chances / chances.sum(), others / others.sum(), levels)
        assert np.all(found >= allowed - 1e-12)
        closest = min(closest, float((found - allowed).min()))
    assert closest < 0.02
