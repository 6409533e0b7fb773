"""Programmes: releases that are declared beforehand, and which releases may use them."""

import pytest

from sfumato.errors import ParameterError
from sfumato.privacy.calibration import least_level
from sfumato.privacy.composition import Book, Charge
from sfumato.privacy.losses import ChiSquare, Composed, Gaussian, Laplace, Pure
from sfumato.privacy.programme import PlannedRelease, Programme, planned_releases
from sfumato.privacy.stored_losses import tabulated

CAP = (1.0, 1e-6)
PLAN = """
[[release]]
loss = "gaussian"
epsilon = 0.5
delta = 1e-6
mechanism = "Table"

[[release]]
loss = "pure"
epsilon = 0.02
count = 20
"""


def gaussian(epsilon, delta=1e-6):
    scale = least_level(lambda scale: Gaussian(1.0, scale), epsilon, delta)
    return Charge.of(epsilon, delta, Gaussian(1.0, scale))


def test_a_programme_is_read_from_toml():
    table, counts = planned_releases(PLAN)
    assert table == PlannedRelease("gaussian", 0.5, 1e-6, mechanism="Table")
    assert counts == PlannedRelease("pure", 0.02, count=20)
    assert planned_releases([table.to_json(), counts.to_json()]) == [table, counts]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("release = 1", r"\[\[release\]\]"),
        ("[[release]]\nloss = 'pure'", "loss and epsilon"),
        ("[[release]]\nloss = 'pure'\nepsilon = 1\nsize = 2", "loss and epsilon"),
        ("[[release]]\nloss = 'zero'\nepsilon = 1", "loss must be"),
        ("[[release]]\nloss = 'pure'\nepsilon = '1'", "epsilon must be"),
        ("[[release]]\nloss = 'pure'\nepsilon = true", "epsilon must be"),
        ("[[release]]\nloss = 'pure'\nepsilon = 1\ncount = 0", "count must be"),
        ("[[release]]\nloss = 'pure'\nepsilon = 1\ndelta = 1e-6", "has no delta"),
        ("[[release]]\nloss = 'gaussian'\nepsilon = 1", "has a delta"),
        ("[[release]]\nloss = 'pure'\nepsilon = 1\nmechanism = 3", "is a name"),
        ("other = 2\n[[release]]\nloss = 'pure'\nepsilon = 1", r"\[\[release\]\]"),
        ("[[release", "no TOML"),
    ],
)
def test_what_is_no_programme_is_refused(text, match):
    with pytest.raises(ParameterError, match=match):
        planned_releases(text)


def test_a_list_that_is_no_programme_is_refused():
    with pytest.raises(ParameterError, match="a list of releases"):
        planned_releases([1])
    with pytest.raises(ParameterError, match="at least one"):
        Programme.of([], *CAP)
    with pytest.raises(ParameterError, match="at most 100,000"):
        Programme.of([PlannedRelease("pure", 1e-9, count=100_001)], *CAP)


def test_a_programme_costs_its_tight_composition():
    planned = planned_releases(PLAN)
    made = Programme.of(planned, *CAP)
    charges = [gaussian(0.5)] + [Charge.of(0.02, 0.0, Pure(0.02))] * 20
    tight = Book(charges, "tight").total(1e-6).epsilon
    assert tight <= made.epsilon <= tight * (1 + 1e-5)
    assert made.epsilon < 0.7  # sums would be 0.9
    assert Programme.from_json(made.to_json()) == made


def test_a_programme_beyond_its_cap_is_refused():
    with pytest.raises(ParameterError, match=r"together cost epsilon 1\.\d+ at delta 1e-06, and the cap is 1:"):
        Programme.of([PlannedRelease("gaussian", 0.8, 1e-6, count=2)], *CAP)


@pytest.mark.parametrize("planned", [PlannedRelease("gaussian", 1.0, 1e-6), PlannedRelease("pure", 0.1, count=10)])
def test_a_programme_fits_its_own_cap_exactly(planned):
    assert Programme.of([planned], *CAP).epsilon <= 1.0


def test_a_release_uses_what_dominates_it():
    pure, noise = PlannedRelease("pure", 0.5), PlannedRelease("gaussian", 0.5, 1e-6)
    assert pure.dominates(Charge.of(0.5, 0.0, Laplace(0.5, 1.0)), "Sketch")
    assert not pure.dominates(Charge.of(0.51, 0.0, Laplace(0.51, 1.0)), "Sketch")
    assert not pure.dominates(Charge.of(0.1, 1e-9, Laplace(0.1, 1.0)), "Sketch")
    assert noise.dominates(gaussian(0.5), "Sketch")
    assert noise.dominates(gaussian(0.3, 1e-7), "Sketch")
    assert not noise.dominates(gaussian(0.5 + 1e-6), "Sketch")
    assert not noise.dominates(gaussian(0.5, 1.01e-6), "Sketch")
    assert noise.dominates(Charge.of(0.05, 0.0, Laplace(0.05, 1.0)), "Sketch")
    assert not noise.dominates(Charge.of(0.4, 0.0, Laplace(0.4, 1.0)), "Sketch")
    assert noise.dominates(Charge.of(0.4, 1e-6, Composed([Gaussian(0.05, 1.0)] * 3)), "Sketch")
    assert not noise.dominates(Charge.of(0.1, 1e-9, tabulated(ChiSquare(rows=119, ratio=1e-3))), "GraphSketch")


def test_a_name_reserves_a_planned_release_and_the_smallest_comes_first():
    named = PlannedRelease("pure", 0.5, mechanism="Table")
    made = Programme.of([PlannedRelease("pure", 0.3), PlannedRelease("pure", 0.1), named], *CAP)
    charge = Charge.of(0.1, 0.0, Laplace(0.1, 1.0))
    assert made.matching(charge, "Sketch") == [1, 0]
    assert made.matching(charge, "Table") == [2, 1, 0]
    assert made.matching(Charge.of(0.4, 0.0, Laplace(0.4, 1.0)), "Sketch") == []
