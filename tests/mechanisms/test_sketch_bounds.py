"""A sketch's allowances: for its clip, for coarsening, and for numbers of single precision."""

import math
from fractions import Fraction

import pytest

from sfumato.mechanisms.base import effective_change
from sfumato.mechanisms.sketch import Sketch
from sfumato.numerics.lattice import coarsened_sensitivity
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.projection.lattice_projection import input_bits
from sfumato.tables.schema import Schema


@pytest.mark.parametrize(("norm", "times"), [("l2", 1), ("l1", 2)])
@pytest.mark.parametrize("columns", [1, 3, 50])
def test_a_clips_own_rounding_is_allowed_for(norm, times, columns):
    schema = Schema(Schema.reals(columns, low=-1, high=1).columns, norm=norm, norm_bound=1e9)
    change = getattr(Change, norm)(2.0**-10)
    found = effective_change(schema, Guarantee(epsilon=1.0, change=change)).radius
    allowance = Fraction(columns + 16) * Fraction(2) ** -50 * 10**9
    assert Fraction(found) - times * Fraction(2) ** -10 == pytest.approx(float(allowance), rel=1e-6)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_two_clipped_rows_are_at_most_a_diameter_apart(norm):
    schema = Schema(Schema.reals(3, low=-1, high=1).columns, norm=norm, norm_bound=0.75)
    for change in (None, getattr(Change, norm)(100.0)):
        fields = {} if change is None else {"change": change}
        assert effective_change(schema, Guarantee(epsilon=1.0, **fields)) == Change(norm, 1.5)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_fresh_losses_allow_for_rounding_and_coarsening(noise):
    promise = Guarantee(epsilon=1.0, delta=1e-6, change=Change.l2(1.0), projection="fresh")
    recipe = Sketch(dimension=4, projection="gaussian", noise=noise, publish_projection=False)
    prepared = recipe.prepare(Schema.reals(20, low=0, high=1), promise)
    least = Fraction(prepared.projection.rounding_beforehand) + 2 * Fraction(2) ** -22
    assert least <= Fraction(prepared.loss(2.0).rounding) <= least * (1 + Fraction(1, 10**9))


@pytest.mark.parametrize(("level", "expected"), [(1.01, "float32"), (0.99, "float64"), (1e-3, "float64")])
def test_numbers_are_single_where_the_largest_is_small_beside_the_noise(level, expected):
    """Numbers from 2^11 to 2^12, and noise of about 1: the largest is 2^12 noises."""
    schema = Schema.reals(1, low=2048, high=4096)
    prepared = Sketch(noise="laplace").prepare(schema, Guarantee(epsilon=1.0))
    assert prepared.precision(level / 2048) == expected


@pytest.mark.parametrize("shift", [1, 7, 40])
@pytest.mark.parametrize("outputs", [1, 9, 100])
def test_coarsening_adds_a_step_for_each_output(shift, outputs):
    reach = 12345678.9
    first = Fraction(reach) / 2**shift + outputs
    assert first <= Fraction(coarsened_sensitivity(reach, shift, outputs, 1)) <= first * (1 + Fraction(1, 2**40))
    second = Fraction(reach) / 2**shift + math.isqrt(outputs)
    assert second <= Fraction(coarsened_sensitivity(reach, shift, outputs, 2)) <= second * (1 + Fraction(1, 2**40))
    assert coarsened_sensitivity(reach, 0, outputs, 1) == reach


def test_inputs_have_as_many_bits_as_an_exact_product_over_all_columns_allows():
    """Inputs of b bits times entries of b + 1, summed over all columns, stay within the 53 bits of a double."""
    for power in range(1, 25):
        for columns in (2**power - 1, 2**power, 2**power + 1):
            bits = input_bits(columns)
            assert columns * 2 ** (2 * bits + 1) <= 2**53
            assert bits == 20 or columns * 2 ** (2 * bits + 3) > 2**53
    assert (input_bits(1), input_bits(2**12), input_bits(2**12 + 1)) == (20, 20, 19)
