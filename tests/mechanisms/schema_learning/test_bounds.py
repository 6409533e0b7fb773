"""Bounds from noisy counts: they cut little, are not much too wide, and exist whatever the counts are."""

import numpy as np
import pytest

from sfumato.mechanisms.schema_learning.bounds import (
    SHARE,
    Bounds,
    NoisyCells,
    first_bounds,
    refined,
    refinement,
    repaired,
)
from sfumato.mechanisms.schema_learning.magnitudes import PARTS, octaves, parts_of

ROWS = 40_000


def found(numbers, deviation, rng, *, whole=False):
    """Bounds of numbers by both stages, with noise of this deviation on every count."""
    exact = np.bincount(parts_of(np.asarray(numbers, float)), minlength=PARTS)

    def noisy(cells):
        counts = cells.counts(exact)
        return NoisyCells(cells, counts + np.rint(rng.normal(size=len(counts)) * deviation), deviation)

    by_octave = noisy(octaves())
    first = first_bounds(by_octave, len(numbers), whole=whole)
    within = noisy(refinement(first, len(numbers), deviation, whole=whole))
    return repaired(refined(within, first, len(numbers)), first, within, by_octave, len(numbers))[0]


LAWS = {
    "normal": (lambda rng: rng.normal(size=ROWS), False),
    "shifted": (lambda rng: rng.normal(100, 1, ROWS), False),
    "ages": (lambda rng: rng.integers(17, 91, ROWS), True),
    "years": (lambda rng: rng.integers(1980, 2021, ROWS), True),
    "negative": (lambda rng: -50 * rng.random(ROWS), False),
    "negative whole, with zeros": (lambda rng: -rng.integers(0, 30, ROWS) * (rng.random(ROWS) < 0.5), True),
    "small": (lambda rng: rng.random(ROWS) * 1e-6, False),
    "mostly zero": (lambda rng: (rng.random(ROWS) < 0.05) * rng.integers(0, 5000, ROWS), True),
    "counts": (lambda rng: rng.poisson(5, ROWS), True),
    "two ends": (lambda rng: rng.choice([-1000.0, 1000.0], ROWS), False),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("deviation", [5.0, 30.0])
def test_bounds_cut_at_most_one_percent_and_are_not_much_too_wide(law, deviation):
    draw, whole = LAWS[law]
    for seed in range(8):
        rng = np.random.default_rng(seed)
        numbers = draw(rng)
        bounds = found(numbers, deviation, rng, whole=whole)
        assert ((numbers < bounds.low) | (numbers > bounds.high)).mean() <= SHARE
        assert bounds.high - bounds.low <= (8 if law == "years" else 4) * np.ptp(numbers)  # years are far from 0


@pytest.mark.parametrize("law", ["cauchy", "pareto"])
def test_heavy_tails_are_cut_where_little_is_left(law):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        numbers = rng.standard_cauchy(ROWS) if law == "cauchy" else rng.pareto(0.5, ROWS)
        bounds = found(numbers, 10.0, rng)
        assert ((numbers < bounds.low) | (numbers > bounds.high)).mean() <= SHARE
        assert bounds.high <= np.abs(numbers).max() * 4


@pytest.mark.parametrize("deviation", [5.0, 50.0, 500.0, 1e6])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("rows", [0, 50, ROWS])
def test_noise_alone_gives_bounds(deviation, whole, rows):
    for seed in range(30):
        rng = np.random.default_rng(seed)
        bounds = found(np.full(rows, np.inf), deviation, rng, whole=whole)
        assert bounds.low < bounds.high
        assert np.isfinite([bounds.low, bounds.high]).all()


@pytest.mark.parametrize("value", [0.0, 7.0, -3.5, 1e6, 1e12, 1e-9, 2.0**63, -1e300])
def test_a_constant_lies_within_its_bounds(value):
    for seed in range(8):
        bounds = found(np.full(ROWS, value), 20.0, np.random.default_rng(seed))
        assert bounds.low < bounds.high
        if abs(value) < 2.0**64:
            assert bounds.low <= value <= bounds.high
            assert bounds.high - bounds.low <= max(1.0, abs(value))


def test_without_evidence_bounds_are_zero_and_one():
    quiet = NoisyCells(octaves(), np.zeros(len(octaves())), 10.0)
    assert first_bounds(quiet, 1000, whole=False) == Bounds(0.0, 1.0)


def test_what_lies_beyond_is_noticed_and_taken_in():
    """A tail that is too thin in every octave to be seen there, and too much together."""
    rng = np.random.default_rng(0)
    tail = np.exp2(rng.uniform(1, 10, ROWS // 60))
    numbers = np.concatenate([np.zeros(ROWS - len(tail)), np.floor(tail)])
    for seed in range(8):
        bounds = found(numbers, 45.0, np.random.default_rng(seed), whole=True)
        assert (numbers > bounds.high).mean() <= SHARE
