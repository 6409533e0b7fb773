"""The discrete Laplace law: exact against ball arithmetic and its own tails, its probabilities, and who is caught."""

import itertools
import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from flint import arb
from scipy import stats

from sfumato.errors import ParameterError
from sfumato.numerics.balls import precision
from sfumato.randomness import noise
from sfumato.randomness.secret import Secret
from support.evidence import ALPHA

TESTING = Secret.for_testing(3)
SCALES = [2.0**-10, 0.1, 0.3, 1.0, 1.44, 10.0, 1000.7, 2.0**22, 2.0**31 / 3, 2.0**40]


@pytest.mark.parametrize("scale", SCALES)
def test_every_scale_equals_ball_arithmetic_on_the_same_bits(scale):
    count = 4001
    words = TESTING.words("same", scale.hex())
    drawn = (words.draw(count) | 1).tolist()
    slow = [noise.exact_discrete_laplace(w, scale, partial(words.more, i)) for i, w in enumerate(drawn)]
    assert noise.discrete_laplace(TESTING.words("same", scale.hex()), count, scale).tolist() == slow


def tail_places(scale, sizes):
    """For each k the first 62 bits of 2 q^k / (1 + q), the chance of at least k on either side."""
    found = []
    for k in sizes:
        with precision(400):
            q = (-1 / arb(scale)).exp()
            found.append(int((2 * q**k / (1 + q) * arb(2) ** 62).floor().unique_fmpz()))
    return found


def chunk_of(positions, scale, bits):
    words = np.array([2 * position + 1 for position in positions], np.int64)
    return noise.discrete_chunk(words, scale, lambda _i, _turn: bits).tolist()


def some_sizes(scale):
    rng = np.random.default_rng(4)
    return sorted({1, 2, *(1 + math.floor(scale * x) for x in rng.exponential(1.5, 100))})


@pytest.mark.parametrize("scale", [0.1, 0.3, 1.0, 3.0, 2.0**10, 2.0**22, 2.0**25 / 3, 2.0**40])
def test_as_many_words_are_at_least_k_as_the_law_says(scale):
    """Word by word around each boundary: the law is exact, and what 62 bits leave open their further bits settle."""
    pairs = [(k, p) for k, p in zip(some_sizes(scale), tail_places(scale, some_sizes(scale)), strict=True) if p > 2]
    for bits, settled in ((0, True), (2**64 - 1, False)):
        for slip, expected in ((-2, True), (-1, True), (0, settled), (1, False), (2, False)):
            inside = [(k, p + slip) for k, p in pairs if p + slip < 2**62]
            drawn = chunk_of([p for _, p in inside], scale, bits)
            assert [value >= k for value, (k, _) in zip(drawn, inside, strict=True)] == [expected] * len(inside)


def test_the_filter_would_be_wrong_without_its_radius(monkeypatch):
    scale = 2.0**22
    places = [p + slip for p in tail_places(scale, some_sizes(scale)) for slip in (-1, 0, 1)]
    right = chunk_of(places, scale, 0)
    monkeypatch.setattr(noise, "_OFFSET_RADIUS", 0.0)
    monkeypatch.setattr(noise, "_laplace_radius", lambda words, _eta, _b: np.full(words.size, -1.0))
    assert chunk_of(places, scale, 0) != right


def law(scale, ends):
    """Probabilities of all whole numbers within +-ends, those beyond added to the last."""
    q = math.exp(-1 / scale)
    found = (1 - q) / (1 + q) * q ** np.abs(np.arange(-ends, ends + 1))
    found[[0, -1]] += q ** (ends + 1) / (1 + q)
    return found


def fitted(draws, scale, ends):
    seen = np.bincount(np.clip(draws, -ends, ends) + ends, minlength=2 * ends + 1)
    return stats.chisquare(seen, law(scale, ends) * draws.size).pvalue


@pytest.mark.parametrize(("scale", "ends"), [(0.5, 4), (1.0, 8), (10.0, 60)])
def test_draws_follow_their_law_and_no_other(scale, ends):
    draws = noise.discrete_laplace(TESTING.words("law", scale.hex()), 1_000_000, scale)
    assert fitted(draws, scale, ends) > ALPHA
    for wrong in (0.9, 1.1):
        assert fitted(draws, scale * wrong, ends) < ALPHA
    assert fitted(noise.laplace(TESTING.words("rounded"), 1_000_000, scale), scale, ends) < ALPHA or scale > 5


@pytest.mark.parametrize("scale", [0.1, 0.5, 1.0, 3.0, 37.7, 2.0**20])
def test_neighbouring_numbers_differ_by_exactly_the_factor_that_is_paid_for(scale):
    """The law that is drawn, from the very thresholds of the sampler, in balls of 300 bits."""
    with precision(300):
        c = noise._exact_offset(scale)
        beyond = [((c - k) / arb(scale)).exp() for k in range(1, 40)]  # at least k, on either side
        chances = [1 - beyond[0], *((a - b) / 2 for a, b in itertools.pairwise(beyond))]
        for one, two in itertools.pairwise(chances):
            paid = (one / two).log() * arb(scale)
            assert paid.contains(1)
            assert paid.rad() < 1e-40


@pytest.mark.parametrize(("move", "epsilon"), [(1, 1.0), (1, 0.1), (2, 0.3), (7, 1e-3), (99, 3.3)])
def test_the_scale_of_a_move_costs_no_more_than_epsilon(move, epsilon):
    assert Fraction(move) / Fraction(noise.laplace_scale(move, epsilon)) <= Fraction(epsilon)


@pytest.mark.parametrize("scale", [0.3, 1.0, 5.0, 2.0**30])
def test_it_is_never_farther_out_than_rounded_noise_of_the_same_words(scale):
    ours, rounded = (getattr(TESTING.words("both"), name)(50_000, scale) for name in ("discrete_laplace", "laplace"))
    assert (np.abs(ours) <= np.abs(rounded)).all()
    assert (np.abs(rounded) - np.abs(ours)).max() == (1 if scale < 2.0**20 else 0)


def test_draws_never_change():
    drawn = [TESTING.words("golden").discrete_laplace(8, scale).tolist() for scale in (1.0, 1e6)]
    assert drawn == GOLDEN


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, 2.0**-11, 2.0**41, "1", None])
def test_scales_out_of_range_are_refused_and_nothing_is_drawn(scale):
    words = TESTING.words("none")
    with pytest.raises(ParameterError, match="scale"):
        words.discrete_laplace(5, scale)
    assert words.position == 0
    assert words.discrete_laplace(0, 1.0).size == 0


GOLDEN = [[1, 0, -1, 0, 0, 1, 0, 1], [1437019, -207239, -1483042, 288833, -178850, 1266462, -287816, 1243308]]
