"""Bounds of composition to 30 digits, where they begin to hold, and numbers that messages name."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp

from sfumato.privacy.composition import Book, Charge, epsilon_at, majorant, round_number, rounded_down
from sfumato.privacy.losses import Gaussian, Laplace, Response


def charge(epsilon, delta):
    return Charge.of(epsilon, delta, Gaussian(epsilon / 4, 1.0))


def by(book, bound, delta):
    return next(total.epsilon for total in book.totals(delta) if total.bound == bound)


@pytest.mark.parametrize("count", [1, 3, 40])
@pytest.mark.parametrize(("spent", "delta"), [(0.0, 1e-6), (1e-8, 1e-6), (2e-8, 1e-3)])
@pytest.mark.parametrize("filtered", [False, True])
def test_advanced_composition_is_never_below_its_formula(count, spent, delta, filtered):
    book = Book([charge(0.1 + 0.01 * i, spent) for i in range(count)], "advanced" if filtered else "tight")
    with mp.workdps(30):
        squares = sum(mp.mpf(0.1 + 0.01 * i) ** 2 for i in range(count))
        left = mp.mpf(delta) / 2 if filtered else mp.mpf(delta) - count * mp.mpf(spent)
        truth = mp.sqrt(2 * mp.log(1 / left) * squares) + squares / 2
        found = by(book, "advanced", delta)
        assert truth <= found <= truth * (1 + mp.mpf(10) ** -12)
    assert book.fits(math.nextafter(found, math.inf), delta)


@pytest.mark.parametrize("composition", ["tight", "advanced"])
def test_deltas_that_use_up_all_that_there_is_leave_no_advanced_bound(composition):
    share = 1.0 if composition == "tight" else 0.5
    full = Book([charge(0.1, 2.0**-20 * share / 2)] * 2, composition)
    if composition == "tight":  # with a hair left over, the sums of doubles could be wrong
        assert by(full, "advanced", 2.0**-20) == math.inf
    assert by(full, "advanced", 2.0**-20 * (1 - 1e-9)) == math.inf
    assert by(full, "advanced", 2.0**-20 * (1 + 1e-9)) < math.inf


def test_gaussian_parts_of_a_book_are_one_gaussian_of_the_root_of_their_squares():
    charges = [Charge.of(1.0, 1e-6, Gaussian(s, 2.0)) for s in (0.3, 0.5, 0.7)]
    one = Gaussian(math.sqrt(0.3**2 + 0.5**2 + 0.7**2), 2.0)
    for book in (Book(charges), Book(charges[:1]).and_(charges[1]).and_(charges[2])):
        loss = book._tight()
        for epsilon in (0.1, 0.5, 1.0):
            assert one.delta(epsilon) <= loss.delta(epsilon) <= one.delta(epsilon) * (1 + 1e-9)


def test_majorants_are_never_below_what_they_stand_for():
    with mp.workdps(40):
        for epsilon in (1e-17, 1e-14, 9.5e-13, 1e-8, 2.3e-5, 0.01, 0.3, 0.999, 1.0, 5.0, 30.0):
            found = mp.mpf(majorant(Response(epsilon, 2), 0.0))
            corner = 1 / (1 + mp.exp(mp.mpf(epsilon)))  # where the trade-off curve of randomized response bends
            assert mp.ncdf(-found / 2) <= corner
            assert mp.ncdf(-found * (1 - mp.mpf(10) ** -9) / 2) > corner
            assert majorant(Laplace(epsilon, 1.0), 0.0) >= found * (1 - mp.mpf(10) ** -14)
    assert majorant(Response(2000.0, 2), 0.0) == math.inf
    assert majorant(Gaussian(1.0, 3.0), 0.0) > 1 / 3


def test_the_gaussian_rule_keeps_a_part_of_delta_for_tails():
    inside = Charge(1.0, 1e-6, Gaussian(0.1, 1.0), mu=0.1, tail=4.9e-8)
    outside = Charge(1.0, 1e-6, Gaussian(0.1, 1.0), mu=0.1, tail=5.1e-8)
    assert Book([inside], "gaussian").total(1e-6).epsilon == pytest.approx(
        epsilon_at(Gaussian(0.1, 1.0), 0.95e-6), rel=1e-9
    )
    assert Book([outside], "gaussian").total(1e-6).epsilon == math.inf
    assert not Book([outside], "gaussian").fits(1e6, 1e-6)
    assert Book([inside], "gaussian").fits(1.0, 1e-6)


def test_an_empty_book_costs_nothing_and_fits():
    assert Book([]).fits(1e-9, 0.0)
    assert Book([]).total(0.0).epsilon == 0


@given(st.floats(1e-12, 1e12))
def test_what_a_message_says_is_left_is_never_more_than_there_is(value):
    said = rounded_down(value)
    assert value * 0.99 < said <= value * (1 + 1e-15)
    assert len(f"{said:.10e}".partition("e")[0].rstrip("0").replace(".", "")) <= 3


def test_three_digits_are_said_and_nothing_is_left_of_nothing():
    assert [rounded_down(x) for x in (0.0, -1.0, 0.98765, 7.777, 0.00123456)] == [0.0, 0.0, 0.987, 7.77, 0.00123]


def test_the_roundest_number_between_two_is_taken():
    assert round_number(0.9981, 1.0) == 1.0
    assert round_number(0.51, 0.59) is not None
    assert round_number(0.123, 0.1231) == 0.123
    assert round_number(0.1225, 0.1235) == 0.123
    assert round_number(1.4, 1.6) == 1.4
    assert round_number(0.12345, 0.123451) is None
