"""How the search for a level works: few evaluations, and an excess with the right sign."""

import math

import pytest

from sfumato.privacy import calibration
from sfumato.privacy.calibration import least_level
from sfumato.privacy.losses import Gaussian, Laplace


@pytest.mark.parametrize(
    ("law", "epsilon", "delta", "most"),
    [(Gaussian, 1.0, 1e-6, 19), (Gaussian, 0.01, 1e-12, 27), (Gaussian, 8.0, 1e-3, 16), (Laplace, 1.0, 0.01, 16)],
)
def test_a_level_is_found_with_few_evaluations(law, epsilon, delta, most):
    """A profile takes long for some laws; halving alone would take 40 evaluations and more."""
    seen = []

    def loss(level):
        seen.append(level)
        return law(1.0, level)

    level = least_level(loss, epsilon, delta)
    assert law(1.0, level).delta(epsilon) <= delta
    assert len(seen) <= most


@pytest.mark.parametrize(
    ("found", "wanted", "expected"),
    [
        (2e-6, 1e-6, math.log(2)),
        (1e-6, 2e-6, -math.log(2)),
        (0.5, 0.25, math.log(2)),
        (0.25, 0.5, -math.log(2)),
        (1e-6, 1e-6, 0.0),
        (1e-6, 0.0, math.inf),
        (0.0, 1e-6, -math.inf),
        (0.0, 0.0, -math.inf),
        (math.nan, 1e-6, math.inf),
    ],
)
def test_the_excess_is_the_logarithm_of_a_ratio_with_the_right_sign(found, wanted, expected):
    assert calibration._excess(found, wanted) == pytest.approx(expected)


def test_the_smallest_difference_has_a_sign():
    above, wanted = math.nextafter(1e-6, 1), 1e-6
    assert calibration._excess(above, wanted) > 0
    assert calibration._excess(wanted, above) <= 0


def test_guesses_trap_the_root_of_a_line():
    guesses = list(calibration._guesses(1.0, 2.0, 1.0, -3.0))  # a line that crosses 0 at 1.25
    assert guesses[0] == pytest.approx(1.25 + 0.5)
    assert guesses[1] == pytest.approx(1.25 - 0.5)
    assert guesses[2] == 1.5
    assert list(calibration._guesses(1.0, 2.0, math.inf, -3.0)) == [1.5]
    narrow = list(calibration._guesses(1.0, 1.0 + 1e-9, 1.0, -1.0))
    assert narrow[1] < 1.0 + 0.5e-9 < narrow[0]


def test_the_guess_for_rows_that_are_replaced_is_the_tabled_one():
    assert calibration.replaced_guess(119, 1.0, 1e-6) == pytest.approx(47.127, rel=1e-4)
