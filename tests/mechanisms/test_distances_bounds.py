"""The grid of noisy distances: as fine as exact arithmetic allows, with allowances that cover its rounding."""

import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.files.open_table import open_table
from sfumato.mechanisms.distances import DistanceGrid, NoisyDistances, _farther
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness.secret import Secret
from sfumato.tables.schema import Schema
from support.rows import table_rows


@pytest.mark.parametrize(("columns", "bits"), [(1, 26), (2, 25), (4, 25), (5, 24), (16, 24), (17, 23), (64, 23)])
def test_squared_distances_stay_exact_on_the_finest_grid_that_allows_it(columns, bits):
    grid = DistanceGrid(Schema.reals(columns, low=0, high=1))
    assert grid.bits == bits
    assert columns * 4**bits <= 2**52 < 4 * 4 * columns * 4**bits
    assert grid.step == 2.0**-bits


@pytest.mark.parametrize("columns", [1, 4, 9])
def test_lengths_on_the_grid_allow_for_rounding(columns):
    grid = DistanceGrid(Schema.reals(columns, low=0, high=1))
    for length in (0.0, 0.1, 2.5):
        least = Fraction(length) / Fraction(grid.step) + {1: 1, 4: 2, 9: 3}[columns]
        assert least <= Fraction(grid.steps(length)) <= least * (1 + Fraction(2, 10**6))


def test_a_length_that_changes_moves_its_square_as_stated():
    for reach, diameter in ((3.0, 10.0), (10.0, 10.0), (12.0, 10.0), (0.5, 10.0)):
        worst = math.floor(diameter**2 - max(0.0, diameter - reach) ** 2)  # squared lengths are whole
        assert _farther(reach, diameter, 10**9) == worst
    assert _farther(12.0, 10.0, 60) == 60


@pytest.mark.parametrize(("noise", "squared"), [("laplace", 2), ("gaussian", 1)])
def test_the_manifest_states_the_deviation_of_the_noise(noise, squared):
    promise = Guarantee(epsilon=1.0, delta=0.0 if noise == "laplace" else 1e-6)
    prepared = NoisyDistances(noise=noise).prepare(Schema.reals(2, low=0, high=1), promise)
    rows = table_rows(open_table(np.eye(2), prepared.schema), prepared.schema)
    published = prepared.run(rows, 3.0, Secret.for_testing(1))
    told = published.facts["mechanism"]
    assert (told["standard_deviation"] / told["scale"]) ** 2 == pytest.approx(squared)
    assert not published.by_record
