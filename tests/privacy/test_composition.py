import itertools
import math

import numpy as np
import pytest
from scipy import special

from sfumato.errors import LedgerError
from sfumato.mechanisms.covariance import Beside
from sfumato.privacy import pld
from sfumato.privacy.calibration import least_level
from sfumato.privacy.composition import Book, Charge, largest_epsilon, majorant, rounded_down
from sfumato.privacy.losses import (
    ChiSquare,
    Composed,
    FreshGaussian,
    FreshLaplace,
    Gaussian,
    Laplace,
    Pure,
    Response,
    Responses,
)
from sfumato.privacy.stored_losses import Tabulated, from_json, group_delta, grouped, tabulated, to_json

FRESH = FreshGaussian(family="gaussian", dim_in=100, dim_out=16, radius=1.0, scale=5.06)
CHI = ChiSquare(rows=119, ratio=1 / 38.2)
SWAP = ChiSquare(rows=119, ratio=1 / 47.2, neighbours="replace")
LOSSES = {
    "pure": Pure(0.3),
    "laplace": Laplace(1.0, 2.0),
    "gaussian": Gaussian(1.0, 4.3),
    "response": Response(0.5, 4),
    "responses": Responses(0.1, [2, 3, 3]),
    "composed": Composed([Laplace(1.0, 4.0), Gaussian(1.0, 6.0)]),
    "fresh gaussian": FRESH,
    "fresh laplace": FreshLaplace(dim_out=4, radius=1.0, laplace_scale=4.0),
    "chi-square": CHI,
    "chi-square, replace": SWAP,
    "sketch and count": Beside(CHI, 0.02),
}


def pure(epsilon):
    return Charge.of(epsilon, 0.0, Laplace(epsilon, 1.0))


def gaussian(mu, epsilon=1.0, delta=1e-6):
    return Charge.of(epsilon, delta, Gaussian(mu, 1.0))


def bounds(book, delta):
    return {total.bound: total.epsilon for total in book.totals(delta)}


# ---- closed forms ----------------------------------------------------------------------------------------------------


def test_ten_tenths_are_one():
    book = Book([pure(0.1)] * 10)
    assert book.total(0.0).epsilon == 1.0
    assert book.fits(1.0, 0.0)
    assert not book.and_(pure(0.1)).fits(1.0, 0.0)
    assert not book.fits(math.nextafter(1.0, 0.0), 0.0)


@pytest.mark.parametrize("count", [1, 7, 100])
def test_gaussians_compose_exactly(count):
    mu = 0.3 / math.sqrt(count)
    found = bounds(Book([gaussian(mu)] * count), 1e-6)["tight"]
    assert found == pytest.approx(least_level(lambda e: _At(Gaussian(0.3, 1.0), e), 1.0, 1e-6), rel=1e-9)


class _At:
    """A profile turned into a family, so that the search for levels finds an epsilon."""

    def __init__(self, loss, epsilon):
        self.loss, self.epsilon = loss, epsilon

    def delta(self, _):
        return self.loss.delta(self.epsilon)


@pytest.mark.parametrize("count", [2, 20])
def test_pure_losses_compose_as_the_closed_form_of_randomized_response_says(count):
    """Kairouz, Oh and Viswanath 2015: a sum over binomial outcomes."""
    each, total = 0.2, 1.1 if count == 20 else 0.25
    heads = np.arange(count + 1)
    log_p = special.gammaln(count + 1) - special.gammaln(heads + 1) - special.gammaln(count - heads + 1)
    log_p += heads * -np.log1p(math.exp(-each)) + (count - heads) * -np.log1p(math.exp(each))
    loss = each * (2 * heads - count)
    exact = float((np.exp(log_p) * -np.expm1(np.minimum(0, total - loss))).sum())
    found = Composed([Pure(each)] * count).delta(total)
    assert exact <= found <= exact * (1 + 2e-3) + 1e-9


def test_advanced_composition_has_its_closed_form_and_wins_for_many_small_losses():
    book = Book([pure(0.01)] * 400)
    expected = math.sqrt(2 * math.log(1e6) * 400 * 1e-4) + 400 * 1e-4 / 2
    assert bounds(book, 1e-6)["advanced"] == pytest.approx(expected, rel=1e-9)
    assert expected < bounds(book, 1e-6)["basic"]
    assert Book([pure(0.01)] * 400, "advanced").total(1e-6).bound == "advanced"


def test_ten_fresh_projections_cost_what_the_mathematics_says():
    assert Book([Charge.of(1.0, 1e-6, FRESH)] * 10).total(1e-6).epsilon == pytest.approx(2.98, abs=5e-3)


def test_deltas_that_do_not_fit_leave_the_other_bounds():
    book = Book([gaussian(0.2)] * 2)
    assert bounds(book, 1e-6)["basic"] == math.inf
    assert book.total(1e-6).bound == "tight"
    assert Book([gaussian(0.2)] * 2, "basic").total(1e-6).epsilon == math.inf


# ---- against an independent convolution ------------------------------------------------------------------------------


def convolved(epsilon, *, step=2e-4, up):
    """delta of Laplace(0.7) with Gaussian(0.4) and a response of 0.3, on a grid of losses rounded up or down."""
    side = math.ceil if up else math.floor
    grid = np.zeros(2 * (half := round(6 / step)) + 1)

    def put(mass, loss):
        grid_one = np.zeros_like(grid)
        place = np.clip(np.array([side(x / step) for x in loss]) + half, 0, 2 * half)
        np.add.at(grid_one, place, mass)
        return grid_one

    x = np.linspace(-14, 14, 200_001)
    middle = (x[1:] + x[:-1]) / 2
    edge = (x[1] - x[0]) / 2 * (1 if up else -1)
    laplace = np.where(x > 0, 1 - np.exp(-np.abs(x)) / 2, np.exp(-np.abs(x)) / 2)
    parts = [
        put(np.diff(laplace), np.abs(middle - 0.7) - np.abs(middle) + edge),
        put(np.diff(special.ndtr(x)), 0.4 * middle + 0.08 + 0.4 * edge),
        put([special.expit(0.3), special.expit(-0.3)], [0.3, -0.3]),
    ]
    size = 3 * (2 * half) + 1
    mass = np.fft.irfft(np.prod([np.fft.rfft(p, 1 << 18) for p in parts], axis=0), 1 << 18)[:size]
    losses = (np.arange(size) - 3 * half) * step
    return float((mass * -np.expm1(np.minimum(0, epsilon - losses))).sum())


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 2.0])
def test_the_tight_bound_lies_above_the_truth_and_close_to_it(epsilon):
    """The truth lies between two grids of one's own making; the rounded-down one is a power arm for the first."""
    charges = [pure(0.7), Charge.of(1.0, 1e-3, Gaussian(0.4, 1.0)), Charge.of(0.3, 0.0, Response(0.3))]
    found = Book(charges)._tight().delta(epsilon)
    low, high = convolved(epsilon, up=False), convolved(epsilon, up=True)
    assert low < high
    assert low <= found <= high
    assert found < convolved(epsilon - 5e-3, up=False)


def test_composition_does_not_depend_on_the_order():
    charges = [pure(0.2), gaussian(0.3), Charge.of(0.4, 0.0, Response(0.4, 3)), Charge.of(1.0, 1e-6, CHI)]
    orders = list(itertools.permutations(charges))[::5]
    totals = {Book(order).total(1e-5) for order in orders}
    assert len(totals) == 1


def test_a_book_that_grows_knows_what_a_new_one_would():
    charges = [pure(0.2), gaussian(0.3), Charge.of(1.0, 1e-6, CHI)]
    grown = Book(charges[:2]).and_(charges[2])
    assert grown.total(1e-5).epsilon == pytest.approx(Book(charges).total(1e-5).epsilon, rel=1e-6)


# ---- losses as they are written --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_that_was_written_is_read_as_one_that_is_not_smaller(name):
    loss = LOSSES[name]
    written = tabulated(loss)
    again = from_json(to_json(written))
    assert again == written
    for epsilon in (0.0, 0.05, 0.21, 0.9, 2.3):
        if name == "sketch and count":  # its own delta is by basic composition, which is looser
            assert again.delta(epsilon) <= loss.delta(epsilon) + 2e-12
        else:
            assert again.delta(epsilon) >= loss.delta(epsilon) * (1 - 1e-9) - 1e-15
            assert again.delta(epsilon) <= loss.delta(epsilon) * 1.01 + 2e-5
    twice = Composed([again, again]).delta(0.8)
    assert twice >= Composed([loss, loss]).delta(0.8) * (1 - 1e-9) - 2e-12


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"law": "magic"},
        {"law": "pure", "epsilon": -1.0},
        {"law": "pure", "epsilon": 1.0, "more": 1},
        {"law": "composed", "parts": []},
        {"law": "composed", "parts": [[10**9, {"law": "pure", "epsilon": 1.0}]]},
        {"law": "table", "interval": 1e-4, "steps": [0, 0], "forward": [0.1, 0.0]},
        {"law": "table", "interval": 1e-4, "steps": [0, 10], "forward": [0.1, -1.0]},
        {"law": "table", "interval": 1e-3, "steps": [0, 10], "forward": [0.1, 0.0]},
        [],
    ],
)
def test_what_is_no_loss_is_refused(fields):
    with pytest.raises(LedgerError, match="not of a form"):
        from_json(fields)


# ---- several units at once -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOSSES)
def test_a_group_costs_no_less_than_the_worst_chain_of_neighbours(name):
    """Against the (epsilon, delta) rule where that is all there is, and exactly where the law is known."""
    loss, times = LOSSES[name], 3
    together = grouped(loss, times)
    assert together.delta(0.9) >= loss.delta(0.9)
    if name == "gaussian":
        assert together.delta(0.9) == pytest.approx(Gaussian(3.0, 4.3).delta(0.9), rel=1e-9)
    elif name in ("laplace", "pure", "response"):
        assert together.delta(3 * 0.5 + 1e-9) == 0
    elif isinstance(together, Tabulated):
        exact = group_delta(0.3, loss.delta(0.3), times)
        assert exact * (1 - 1e-9) <= together.delta(0.9) <= exact * 1.05 + 1e-12


def test_the_group_rule_bounds_a_gaussian_whose_group_is_known():
    one = Gaussian(1.0, 5.0)
    for epsilon in (0.3, 1.0, 2.0):
        assert group_delta(epsilon / 3, one.delta(epsilon / 3), 3) >= Gaussian(3.0, 5.0).delta(epsilon)


def test_group_deltas_never_overflow():
    assert group_delta(1.0, 1e-6, 10_000) == 1.0
    assert group_delta(1.0, 0.0, 10_000) == 0.0
    assert group_delta(0.0, 1e-6, 10) == pytest.approx(1e-5)


# ---- Gaussian majorants ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOSSES)
def test_a_majorant_lies_above_and_a_smaller_one_does_not(name):
    loss, tail = tabulated(LOSSES[name]), 1e-9
    mu = majorant(loss, tail)
    epsilons = np.linspace(0, 6, 301)
    above = [loss.delta(e) <= tail + Gaussian(mu, 1.0).delta(e) + 1e-12 for e in epsilons]
    assert all(above)
    narrow = [loss.delta(e) <= tail + Gaussian(0.6 * mu, 1.0).delta(e) for e in epsilons]
    assert not all(narrow)


@pytest.mark.parametrize("delta", [0.0, 1e-10])
def test_a_loss_below_the_tail_has_the_least_majorant_that_is_looked_for(delta, monkeypatch):
    steps, ndtr = itertools.count(), special.ndtr
    monkeypatch.setattr(special, "ndtr", lambda x: ndtr(x) if next(steps) < 200 else pytest.fail("the search goes on"))
    nothing = Tabulated(pld.Dots((0, 1000), (delta, delta), (delta, delta)))
    assert 1e-9 < majorant(nothing, 1e-9) <= 1e-9 * (1 + 2e-4)


def test_a_loss_that_can_be_infinite_has_no_majorant_without_a_tail():
    assert majorant(tabulated(FRESH), 0.0) == math.inf


def test_the_gaussian_rule_lies_between_tight_and_basic():
    charges = [Charge.of(1.0, 1e-6, FRESH).majorised(), gaussian(0.2).majorised(), pure(0.1).majorised()]
    tight, rule = Book(charges).total(1e-5).epsilon, Book(charges, "gaussian").total(1e-5)
    assert rule.bound == "gaussian"
    assert tight < rule.epsilon < 1.25 * tight


# ---- what would still fit --------------------------------------------------------------------------------------------


def test_the_largest_epsilon_is_found_and_rounded_down():
    assert largest_epsilon(lambda e: e <= 0.73219, 2.0) == pytest.approx(0.731, abs=2e-3)
    assert largest_epsilon(lambda e: e <= 0.73219, 2.0) <= 0.73219
    assert largest_epsilon(lambda _: False, 2.0) == 0.0
    assert rounded_down(0.0123456) == 0.0123
    assert rounded_down(1234.5) == 1230.0
