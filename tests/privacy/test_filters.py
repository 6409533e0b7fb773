"""Caps that are divided into shares: what fits, what is spent, what is left, and what fixes the shares."""

import math
from dataclasses import replace
from decimal import Decimal

import pytest

from sfumato.errors import ParameterError
from sfumato.privacy.calibration import least_epsilon, least_level
from sfumato.privacy.cap_shares import CapShares
from sfumato.privacy.composition import Charge
from sfumato.privacy.filters import DividedBook, largest_mu, placed, remaining
from sfumato.privacy.losses import ChiSquare, Composed, Gaussian, Laplace, Pure, Response, Responses
from sfumato.privacy.programme import PlannedRelease, Programme
from sfumato.privacy.stored_losses import tabulated
from sfumato.privacy.threshold_loss import FailingGaussian

CAP = (1.0, 1e-6)
CHI = Charge.of(0.5, 1e-7, tabulated(ChiSquare(rows=119, ratio=1 / 80)))


def pure(epsilon):
    return Charge.of(epsilon, 0.0, Laplace(epsilon, 1.0))


def gaussian(epsilon, delta=1e-6):
    scale = least_level(lambda scale: Gaussian(1.0, scale), epsilon, delta)
    return Charge.of(epsilon, delta, Gaussian(1.0, scale))


def failing(mu=0.05, failure=1e-8, epsilon=0.2, delta=1e-7):
    return Charge.of(epsilon, delta, FailingGaussian(mu, 1.0, failure))


def spent(*charges, cap=CAP, shares=None, programme=None):
    """A book with these charges, placed one after another; each must fit."""
    book = DividedBook([], shares, programme)
    for charge in charges:
        option, (settled,) = placed([book], charge, cap)
        book = settled.and_(option)
        assert book.fits(*cap)
    return book


def fits(book, charge, cap=CAP):
    option, (settled,) = placed([book], charge, cap)
    return settled.and_(option).fits(*cap)


# ---- exactness -------------------------------------------------------------------------------------------------------


def test_one_gaussian_fits_its_own_cap_and_nothing_fits_after_it():
    book = spent(gaussian(1.0))
    assert book.total(1e-6).epsilon == 1.0
    assert not fits(book, pure(1e-3))
    assert not fits(book, gaussian(0.01))
    assert remaining([book], CAP) == 0


def test_one_pure_release_fits_its_own_cap_and_nothing_fits_after_it():
    book = spent(pure(1.0))
    assert book.total(1e-6).epsilon == 1.0
    assert not fits(book, pure(1e-9))
    assert remaining([book], CAP) == 0
    assert not fits(DividedBook([]), pure(math.nextafter(1.0, 2.0)))


def test_ten_tenths_are_one_and_an_eleventh_is_refused():
    book = spent(*[pure(0.1)] * 10)
    assert book.total(1e-6).epsilon == 1.0
    assert not fits(book, pure(0.1))
    assert remaining([spent(*[pure(0.1)] * 3)], CAP) == 0.7


def test_a_composed_loss_fits_by_itself_where_its_majorant_does_not():
    loss = Composed([Gaussian(1.0, 5.5), Laplace(0.1, 1.0)])
    charge = Charge.of(least_epsilon(loss, 1e-6), 1e-6, loss)
    cap = (charge.epsilon, 1e-6)
    book = spent(charge, cap=cap)
    assert book.shares == CapShares(0.0)
    assert Gaussian(charge.majorised().mu, 1.0).delta(cap[0]) > 1e-6
    assert not fits(book, pure(1e-3), cap)


# ---- what fixes the shares -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "shares"),
    [
        (pure(0.1), CapShares(None)),
        (Charge.of(0.1, 0.0, Composed([Laplace(0.05, 1.0)] * 2)), CapShares(None)),
        (Charge.of(0.1, 1e-7, Response(0.1, 3)), CapShares(None)),
        (gaussian(0.5), CapShares(0.0)),
        (Charge.of(0.5, 1e-7, Composed([Gaussian(1.0, 20.0), Pure(0.01)])), CapShares(0.0)),
        (Charge.of(0.5, 1e-7, Responses(0.01, [2] * 50)), CapShares(0.0)),
        (Charge.of(1.0, 1e-7, Composed([Laplace(0.5, 1.0)] * 2)), CapShares(None)),
        (failing(), CapShares(0.0, 0.05 * 1e-6)),
        (failing(failure=8e-8), CapShares(0.0, 8e-8)),
        (failing(failure=0.0), CapShares(0.0)),
        (failing(failure=1e-6, delta=2e-6), CapShares(None)),
        (CHI, CapShares(None)),
        (Charge.of(0.5, 1e-7, Composed([Gaussian(1.0, 20.0), CHI.loss])), CapShares(None)),
    ],
)
def test_the_first_charge_fixes_the_shares(first, shares):
    assert CapShares.of_first(first, 1e-6) == shares


def test_a_cap_without_delta_is_all_pure():
    assert CapShares.of_first(gaussian(0.5), 0.0) == CapShares(None)


def test_shares_that_are_fixed_stay():
    book = spent(pure(0.1))
    assert book.divided(CapShares(0.0)).shares == CapShares(None)
    option, (settled,) = placed([book], gaussian(0.5), CAP)
    assert (settled.shares, option.share) == (CapShares(None), "pure")


# ---- sums ------------------------------------------------------------------------------------------------------------


def test_all_pure_adds_up_epsilons_and_deltas():
    book = spent(pure(0.3), gaussian(0.2, 4e-7), CHI)
    assert {charge.share for charge in book.counts} == {"pure"}
    assert book.total(1e-6).epsilon == 1.0
    assert book.total(4e-7).epsilon == math.inf


def test_deltas_of_the_pure_share_are_held_to_the_cap():
    book = spent(pure(0.3), gaussian(0.2, 6e-7))
    assert book.total(1e-6).epsilon == 0.5
    assert not fits(book, gaussian(0.2, 6e-7))
    assert fits(book, gaussian(0.2, 4e-7))
    assert remaining([book], CAP) == 0.5


def test_gaussians_add_their_squares():
    mu = largest_mu(*CAP)
    half = Charge.of(0.7, 1e-6, Gaussian(mu / math.sqrt(2) * (1 - 1e-9), 1.0))
    book = spent(half, half)
    assert book.total(1e-6).epsilon == pytest.approx(1.0, rel=1e-6)
    larger = replace(half, loss=Gaussian(mu / math.sqrt(2) * (1 + 1e-6), 1.0))
    assert not fits(spent(half), larger)


def test_pure_losses_count_by_their_majorant_where_all_is_gaussian():
    book = spent(gaussian(0.5), pure(0.1))
    (charge,) = [c for c in book.counts if c.delta == 0]
    assert charge.share == "gaussian"
    assert charge.mu == charge.majorised().mu > 0.125
    both = Gaussian(math.hypot(*(c.mu for c in book.counts)), 1.0)
    assert book.total(1e-6).epsilon == pytest.approx(least_epsilon(both, 1e-6), rel=1e-9)


def test_a_pure_tenth_costs_as_much_as_gaussian_noise_of_a_half():
    assert pure(0.1).majorised().mu == pytest.approx(0.125, abs=5e-4)
    assert largest_mu(0.5, 1e-6) == pytest.approx(0.125, abs=1.5e-3)


def test_declared_shares_take_each_kind():
    shares = CapShares(0.5)
    book = spent(pure(0.3), gaussian(0.5), pure(0.2), shares=shares)
    assert [charge.share for charge in book.counts] == ["pure", "gaussian", "pure"]
    assert book.total(1e-6).epsilon == 1.0
    assert not fits(book, pure(0.01))
    assert not fits(book, gaussian(0.01))


def test_a_pure_release_goes_to_the_gaussian_share_once_its_own_is_full():
    book = spent(pure(0.5), gaussian(0.25), shares=CapShares(0.5))
    option, _ = placed([book], pure(0.1), CAP)
    assert option.share == "gaussian"
    assert not fits(book, pure(0.1))
    assert fits(book, pure(0.05))


def test_a_declared_pure_share_takes_no_delta():
    option, _ = placed([DividedBook([], CapShares(0.5))], gaussian(0.1, 1e-7), CAP)
    assert option.share == "gaussian"
    book = DividedBook([replace(gaussian(0.1), share="pure")], CapShares(0.5))
    assert book.full(*CAP) == ["pure"]


def test_a_pure_loss_that_was_given_a_delta_leaves_it_to_others():
    sketch = Charge.of(0.5, 1e-6, Laplace(0.5000001, 1.0))
    book = spent(sketch, gaussian(0.4))
    (first, _) = book.counts
    assert (first.epsilon, first.delta, first.share) == (0.500001, 0.0, "pure")
    assert book.total(1e-6).epsilon == 0.900001
    whole = spent(Charge.of(1.0, 1e-6, Laplace(1.000001, 1.0)))  # which fits only with its delta
    assert whole.total(1e-6).epsilon == 1.0
    divided = spent(sketch, shares=CapShares(0.6))
    assert [charge.share for charge in divided.counts] == ["pure"]
    survey = Charge.of(0.3, 1e-6, Responses(0.01, [2] * 50))  # whose epsilons add up to far more
    assert [charge.share for charge in spent(survey, shares=CapShares(0.6)).counts] == ["gaussian"]


def test_failures_are_held_to_the_share_of_tails():
    book = spent(failing(failure=8e-8))
    assert book.shares == CapShares(0.0, 8e-8)
    assert fits(book, gaussian(0.5))
    assert fits(book, pure(0.1))
    assert not fits(book, failing(failure=1e-12))
    assert fits(spent(failing()), failing())
    shares = CapShares(0.0, 1e-8)
    assert fits(spent(failing(failure=5e-9), shares=shares), failing(failure=4.9e-9))
    assert not fits(spent(failing(failure=5e-9), shares=shares), failing(failure=5.1e-9))


def test_tails_are_taken_from_delta():
    mu = largest_mu(*CAP) * (1 - 1e-7)
    small = Charge.of(0.01, 1e-6, Gaussian(1e-5, 1.0))
    large = Charge.of(1.0, 1e-6, Gaussian(math.sqrt(mu**2 - 1e-10), 1.0))
    assert fits(spent(small, shares=CapShares(0.0)), large)
    assert not fits(spent(small, shares=CapShares(0.0, 1e-8)), large)
    left = (1e-6 - 1e-8) / (1 - 1e-8)
    book = spent(small, gaussian(0.5), shares=CapShares(0.0, 1e-8))
    both = Gaussian(math.hypot(*(c.mu for c in book.counts)), 1.0)
    assert book.total(1e-6).epsilon == pytest.approx(least_epsilon(both, left), rel=1e-9)


def test_a_loss_that_needs_a_tail_fits_a_gaussian_share_only_alone_or_with_tails():
    book = spent(CHI, shares=CapShares(0.4))
    assert not fits(book, gaussian(0.01))
    assert fits(book, pure(0.4))
    assert fits(spent(CHI, shares=CapShares(0.4, 5e-8)), gaussian(0.01))


def test_small_losses_show_an_epsilon_of_nothing():
    assert spent(*[Charge.of(0.1, 1e-6, Gaussian(1e-7, 1.0))] * 2).total(1e-6).epsilon == 0.0


# ---- caps that change ------------------------------------------------------------------------------------------------


def test_a_raised_cap_keeps_the_meaning_of_its_shares():
    whole = spent(pure(1.0))
    assert fits(whole, pure(1.0), (2.0, 1e-6))
    both = spent(pure(0.5), gaussian(0.5), shares=CapShares(0.5))
    assert not fits(both, pure(0.9), (2.0, 1e-6))
    assert fits(both, gaussian(0.9), (2.0, 1e-6))
    assert CapShares(0.5).gaussian(2.0) == 1.5


def test_a_lowered_cap_has_room_for_nothing():
    book = spent(pure(0.5), gaussian(0.5), shares=CapShares(0.5))
    assert book.full(0.4, 1e-6) == ["pure", "gaussian"]
    assert remaining([book], (0.4, 1e-6)) == 0
    assert CapShares(0.5).gaussian(0.3) == 0.0


# ---- what is left ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("charges", "shares"),
    [
        ([], None),
        ([pure(0.3)], None),
        ([pure(1 / 3)], None),
        ([gaussian(0.5)], None),
        ([gaussian(0.5), pure(0.1)], None),
        ([failing()], None),
        ([failing(), gaussian(0.5)], None),
        ([gaussian(0.3)], CapShares(0.5)),
        ([gaussian(0.3), pure(0.5)], CapShares(0.5)),
        ([pure(0.5)], CapShares(0.5)),
        ([], CapShares(0.25)),
    ],
)
def test_what_is_left_fits_and_a_little_more_does_not(charges, shares):
    book = spent(*charges, shares=shares)
    left = remaining([book], CAP)
    assert left > 0
    assert fits(book, pure(left))
    assert not fits(book, pure(left * 1.011))
    assert Decimal(repr(left)) == Decimal(f"{left:g}")  # what is shown is what fits


def test_what_is_left_is_left_in_every_part():
    books = [spent(pure(0.3)), spent(pure(0.6))]
    assert remaining(books, CAP) == 0.4
    option, settled = placed(books, pure(0.5), CAP)
    assert [book.and_(option).fits(*CAP) for book in settled] == [True, False]


def test_a_release_of_all_parts_goes_to_a_share_that_has_room_in_each():
    shares = CapShares(0.5)
    books = [spent(pure(0.1), gaussian(0.1), shares=shares), spent(pure(0.5), gaussian(0.1), shares=shares)]
    option, settled = placed(books, pure(0.05), CAP)
    assert option.share == "gaussian"
    assert all(book.and_(option).fits(*CAP) for book in settled)


# ---- with a programme ------------------------------------------------------------------------------------------------

PLAN = Programme.of([PlannedRelease("pure", 0.01, count=50), PlannedRelease("gaussian", 0.3, 1e-6)], *CAP)


def test_a_programme_is_spent_once_and_the_rest_is_pure():
    book = spent(*[pure(0.01)] * 50, gaussian(0.3), programme=PLAN)
    assert {charge.share for charge in book.counts} == {0, 1}
    assert book.total(1e-6).epsilon == PLAN.epsilon < 0.8
    assert not fits(book, gaussian(0.01))
    left = remaining([book], CAP)
    assert left == pytest.approx(1 - PLAN.epsilon)
    assert book.total(1e-6).epsilon + left == pytest.approx(1.0)
    full = spent(*[pure(0.01)] * 50, gaussian(0.3), pure(left), programme=PLAN)
    assert not fits(full, pure(1e-3))


def test_a_programme_has_all_of_delta():
    book = DividedBook([], None, PLAN)
    option, _ = placed([book], gaussian(0.1, 1e-9), CAP)
    assert option.share == 1
    assert not fits(book.and_(option), gaussian(0.1, 1e-9))


def test_a_programme_under_a_lowered_cap_is_refused():
    book = DividedBook([], None, PLAN)
    assert fits(book, gaussian(0.3))
    assert not fits(book, gaussian(0.3), (0.4, 1e-6))
    assert not fits(book, gaussian(0.3), (1.0, 1e-7))


def test_the_shares_of_a_charge_are_checked():
    with pytest.raises(ValueError, match="no share"):
        DividedBook([pure(0.1)], CapShares(None)).fits(*CAP)
    with pytest.raises(ValueError, match="no share"):
        DividedBook([replace(pure(0.1), share=7)], None, PLAN).fits(*CAP)
    assert DividedBook([replace(gaussian(0.1).majorised(), share="gaussian")], CapShares(None)).full(*CAP) == [
        "gaussian"
    ]


# ---- declared shares -------------------------------------------------------------------------------------------------


def test_shares_are_declared_as_an_epsilon_and_a_part_of_delta():
    assert CapShares.declared(0.5, 0.05, *CAP) == CapShares(0.5, 0.05 * 1e-6)
    assert CapShares.declared("all", 0.0, *CAP) == CapShares.declared(1.0, 0.0, *CAP) == CapShares(None)
    assert CapShares.declared(0, 0.0, *CAP) == CapShares(0.0)
    assert CapShares.declared("all", 0.0, 1.0, 0.0) == CapShares(None)


@pytest.mark.parametrize(
    ("pure_share", "tails", "delta", "match"),
    [
        (1.5, 0.0, 1e-6, "larger than the cap"),
        (-0.1, 0.0, 1e-6, "at least 0"),
        ("some", 0.0, 1e-6, "'all'"),
        (0.5, 1.0, 1e-6, "part of delta"),
        (0.5, -0.1, 1e-6, "part of delta"),
        ("all", 0.1, 1e-6, "Gaussian share"),
        (0.5, 0.0, 0.0, "no Gaussian share"),
    ],
)
def test_shares_that_cannot_be_are_refused(pure_share, tails, delta, match):
    with pytest.raises(ParameterError, match=match):
        CapShares.declared(pure_share, tails, 1.0, delta)


@pytest.mark.parametrize("shares", [CapShares(None), CapShares(0.0), CapShares(0.5, 1e-8)])
def test_shares_are_read_as_they_were_written(shares):
    assert CapShares.from_json(shares.to_json()) == shares
    assert shares.describe(*CAP)
