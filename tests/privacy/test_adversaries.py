"""Releases whose sizes are chosen after seeing the last result: what they reach under tight composition and filters."""

import math

import numpy as np
import pytest
from scipy import optimize, special, stats

from sfumato.privacy.calibration import least_epsilon, least_level
from sfumato.privacy.cap_shares import CapShares
from sfumato.privacy.composition import Book, Charge
from sfumato.privacy.filters import DividedBook, placed
from sfumato.privacy.losses import Composed, Gaussian, Laplace, Pure

# A release is given by the law of its loss: values, and their probabilities on the first of two neighbours. Losses are
# rounded down, so what is computed is at most the true delta.


def response(epsilon, count=1):
    """Several randomized responses of the same size."""
    truths = np.arange(count + 1)
    return (2 * truths - count) * epsilon, stats.binom.pmf(truths, count, special.expit(epsilon))


def normal(mu, size=20_001):
    """Gaussian noise: the law of its loss in narrow bins, each at its lower end."""
    edges = np.linspace(-9, 9, size)
    return mu * mu / 2 + mu * edges, np.append(np.diff(special.ndtr(edges)), special.ndtr(-edges[-1]))


def counts(epsilon, count=1, step=1e-3):
    """Several counting questions with Laplace noise: the loss of one is uniform in between, with mass at both ends."""
    last = math.ceil(epsilon / step - 1e-9)
    edges = np.arange(-last, last + 2) * step
    inside = 0.5 * np.exp(-epsilon * np.clip((1 - edges / epsilon) / 2, 0, 1))
    law = np.diff(np.where(edges > epsilon, 1.0, np.where(edges <= -epsilon, 0.0, inside)))
    whole = law
    for _ in range(count - 1):
        whole = np.convolve(whole, law)
    return (np.arange(whole.size) - last * count) * step, whole


def profile(law, epsilons):
    """Delta at many epsilons, below 0 too."""
    values, mass = law
    order = np.argsort(values)
    values, mass = values[order], mass[order]
    above = np.append(np.cumsum(mass[::-1])[::-1], 0)
    weighted = np.append(np.cumsum((mass * np.exp(-values))[::-1])[::-1], 0)
    at = np.searchsorted(values, epsilons, side="right")
    return above[at] - np.exp(epsilons) * weighted[at]


def reached(first, seconds, epsilon):
    """The delta at epsilon if after each outcome of the first release the worst of the seconds is made."""
    values, mass = first
    return float(mass @ np.max([profile(second, epsilon - values) for second in seconds], axis=0))


def sized(first, family, cap, high):
    """The largest loss of a family that the tight composition of a ledger accepts after the first, and its law.

    first, family : a loss and its law. The size is found by the laws, and must fit by the ledger's own composition.
    """
    values, mass = first[1]
    excess = lambda size: math.log(max(1e-300, mass @ profile(family(size)[1], cap[0] - values)) / cap[1])  # noqa: E731
    found = optimize.brentq(excess, high / 50, high, rtol=1e-7)
    book = Book([unpromised(first[0])], "tight")
    accepted = (found * (1 - 10 ** -(part / 10)) for part in range(45, 12, -3))
    return family(next(size for size in accepted if book.and_(unpromised(family(size)[0])).fits(*cap)))[1]


def unpromised(loss):
    """A charge whose loss is all that is known of it, so that only tight composition applies."""
    return Charge(math.inf, 0.0, loss)


def gaussian(mu):
    return Gaussian(mu, 1.0), normal(mu)


def responses(count):
    return lambda size: (Composed([Pure(size)] * count), response(size, count))


def questions(count):
    return lambda size: (Composed([Laplace(size, 1.0)] * count), counts(size, count))


def largest_gaussian(epsilon, delta):
    """The mu of the Gaussian that satisfies (epsilon, delta)."""
    return 1 / least_level(lambda scale: Gaussian(1.0, scale), epsilon, delta)


# ---- tight composition is for sizes chosen beforehand ----------------------------------------------------------------


@pytest.mark.parametrize(("delta", "part", "least"), [(1e-3, 0.2, 2.75), (1e-6, 0.1, 4.77)])
def test_a_gaussian_followed_by_sized_responses_exceeds_the_tight_cap_several_times(delta, part, least):
    """After the first outcome, a number of responses is chosen, and sized to fit the cap exactly."""
    cap = (4.0, delta)
    first = gaussian(part * largest_gaussian(*cap))
    numbers = (1, 3, 5, 7, 9, 10, 12, 14, 16, 18, 40)
    seconds = [sized(first, responses(n), cap, 6 / n**0.7) for n in numbers]
    assert reached(first[1], seconds, cap[0]) > least * delta


@pytest.mark.parametrize(("delta", "least"), [(1e-3, 2.1), (1e-6, 2.4)])
def test_counting_questions_alone_exceed_the_tight_cap(delta, least):
    """Sixteen small counts, and then, by what they said, one large count or several smaller ones."""
    cap, first = (1.0, delta), questions(16)(0.02)
    seconds = [sized(first, questions(n), cap, 2 / math.sqrt(n)) for n in (1, 2, 3, 4, 6, 8, 16)]
    assert reached(first[1], seconds, cap[0]) > least * delta


def test_pure_or_gaussian_by_the_last_outcome_exceeds_the_tight_cap():
    cap = (1.0, 1e-3)
    first = gaussian(0.3 * largest_gaussian(*cap))
    seconds = [sized(first, responses(1), cap, 2.0), sized(first, gaussian, cap, 1.0)]
    assert reached(first[1], seconds, cap[0]) > 1.8 * cap[1]


# ---- the same choices under a filter ---------------------------------------------------------------------------------


def filtered(first, family, cap, shares=None):
    """The largest loss of a family that a filter accepts after the first, and its law; none if there is no room."""
    start, books = placed([DividedBook([], shares)], first, cap)
    book = books[0].and_(start)
    low, high = 0.0, 2 * cap[0]
    for _ in range(25):
        size = (low + high) / 2
        second, _ = placed([book], family(size)[0], cap)
        low, high = (size, high) if book.and_(second).fits(*cap) else (low, size)
    return family(low)[1] if low > 0 else None


def charged(family, count=1):
    """A family of charges with their laws: pure ones promise the sum of their epsilons."""
    if family is gaussian:
        return lambda size: (Charge(math.inf, 1e-6, Gaussian(size, 1.0)), normal(size))
    return lambda size: (Charge.of(size * count, 0.0, family(count)(size)[0]), family(count)(size)[1])


def charge_of(mu):
    return Charge(math.inf, 1e-6, Gaussian(mu, 1.0))


@pytest.mark.parametrize("pure", [None, 0.0, 0.5, 2.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_the_same_choices_stay_within_the_cap_of_a_filter(delta, pure):
    """With shares that the first release fixes, and with declared ones."""
    cap = (4.0, delta)
    shares = None if pure is None else CapShares(pure)
    mu = 0.1 * largest_gaussian(*cap)
    families = [charged(gaussian), *(charged(responses, n) for n in (1, 2, 3, 5, 8, 16, 32))]
    seconds = [law for law in (filtered(charge_of(mu), family, cap, shares) for family in families) if law is not None]
    assert len(seconds) == len(families)
    found = reached(normal(mu), seconds, cap[0])
    assert found <= delta
    assert found > 0.01 * delta or pure == 2.0


@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_counting_questions_stay_within_the_cap_of_a_filter(delta):
    cap = (1.0, delta)
    first, law = charged(questions, 16)(0.02)
    seconds = [filtered(first, charged(questions, n), cap) for n in (1, 2, 4, 8)]
    assert reached(law, seconds, cap[0]) <= 1e-9  # sums of epsilon keep epsilon with delta 0


def game(pure, mu, epsilon, units=3):
    """The best that any strategy reaches at epsilon, if shares are spent in equal units, pure or Gaussian by choice.

    Backwards from the end: what is spent next is chosen for every loss so far and every state of both shares.
    """
    losses = np.linspace(-4 * epsilon, 4 * epsilon, 3001)
    nodes = np.linspace(-8, 8, 401)
    weights = np.exp(-(nodes**2) / 2) / np.exp(-(nodes**2) / 2).sum()

    def expected(value, law):
        return law[1] @ np.interp(losses + law[0][:, None], losses, value).reshape(len(law[0]), -1)

    best = {}
    for p in range(units + 1):
        for g in range(units + 1):
            sizes = [mu * math.sqrt(i / units) for i in range(g + 1)]
            found = [expected(best[p - j, g], response(j * pure / units)) for j in range(1, p + 1)]
            found += [expected(best[p, g - i], (s**2 / 2 + s * nodes, weights)) for i, s in enumerate(sizes) if i]
            best[p, g] = np.max([np.maximum(-np.expm1(epsilon - losses), 0), *found], axis=0)
    return float(np.interp(0.0, losses, best[units, units]))


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7])
def test_no_strategy_of_a_game_beats_a_filter(share):
    epsilon, delta = 2.0, 1e-3
    pure = share * epsilon
    mu = largest_gaussian(epsilon - pure, delta)
    value = game(pure, mu, epsilon)
    assert value <= 1.005 * delta
    if share == 0:
        assert value > 0.995 * delta
        assert game(pure, 1.1 * mu, epsilon) > 1.1 * delta  # the game sees a share that is too large


def test_shares_that_are_chosen_on_the_way_are_no_filter():
    """After a Gaussian, the rest of the cap may be Gaussian or pure; whichever the outcome makes worse is too much."""
    cap = (2.0, 1e-3)
    whole = largest_gaussian(*cap)
    mu = 0.3 * whole
    spent = least_epsilon(Gaussian(mu, 1.0), cap[1])
    seconds = [normal(math.sqrt(whole**2 - mu**2)), response(cap[0] - spent)]
    assert reached(normal(mu), seconds, cap[0]) > 1.1 * cap[1]
