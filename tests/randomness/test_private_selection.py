"""Selection: exact laws, with arms that a slightly wrong law fails; privacy of the whole law, computed."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, stats

from sfumato.errors import ParameterError
from sfumato.randomness import private_selection
from sfumato.randomness.secret import Secret, Words
from support.evidence import ALPHA

METHODS = ("exponential", "permute-and-flip", "noisy-max")
SCORES = [4, 2, 1, -3]


def exponential_law(scores, rate):
    weights = np.exp(rate * (np.array(scores) - max(scores)))
    return weights / weights.sum()


def flipped_law(scores, rate):
    """Over all subsets of heads."""
    heads = np.exp(rate * (np.array(scores, float) - max(scores)))
    law = np.zeros(len(scores))
    for shown in itertools.product((0, 1), repeat=len(scores)):
        if any(shown):
            law += np.array(shown) / sum(shown) * np.where(shown, heads, 1 - heads).prod()
    return law


def rounded_laplace(scale, reach=400):
    """Masses of floor(eta + 1/2) for whole numbers from -reach to reach."""
    at = np.arange(-reach, reach + 1)
    return stats.laplace.cdf(at + 0.5, scale=scale) - stats.laplace.cdf(at - 0.5, scale=scale)


def noisy_law(scores, scale):
    """Who is the largest of score + rounded noise, ties shared: enumerated over sets of ties."""
    reach = 400
    mass = rounded_laplace(scale, reach)
    values = np.arange(-reach, reach + 1)
    equal, below = [], []
    for score in scores:
        shifted = np.interp(values - score, values, mass, left=0, right=0)
        equal.append(shifted)
        below.append(np.concatenate([[0], np.cumsum(shifted)[:-1]]))
    law = np.zeros(len(scores))
    for tied in itertools.product((0, 1), repeat=len(scores)):
        if any(tied):
            chance = np.prod([equal[i] if t else below[i] for i, t in enumerate(tied)], axis=0).sum()
            law += np.array(tied) / sum(tied) * chance
    return law


def law_of(method, scores, epsilon, sensitivity=1):
    rate = epsilon / (2 * sensitivity)
    return {
        "exponential": lambda: exponential_law(scores, rate),
        "permute-and-flip": lambda: flipped_law(scores, rate),
        "noisy-max": lambda: noisy_law(scores, 1 / rate),
    }[method]()


def drawn(method, scores, count, **more):
    words = Secret.for_testing(11).words(method)
    options = {"epsilon": 0.8, "sensitivity": 1} | more
    found = [private_selection.select(words, scores, method=method, **options) for _ in range(count)]
    return np.bincount(found, minlength=len(scores))


def fits(counts, law):
    return stats.chisquare(counts, law / law.sum() * counts.sum()).pvalue > ALPHA


@pytest.mark.parametrize("method", METHODS)
def test_selections_follow_their_law_and_no_other(method):
    counts = drawn(method, SCORES, 6000)
    assert fits(counts, law_of(method, SCORES, 0.8))
    assert not fits(counts, law_of(method, SCORES, 1.2))
    assert not fits(counts, law_of(method, SCORES, 0.5))


@pytest.mark.parametrize("method", METHODS)
def test_the_law_depends_on_the_ratio_of_scores_and_sensitivity(method):
    """Ten times the scores at ten times the sensitivity; where noise is rounded, but for the rounding."""
    counts = drawn(method, [10 * s for s in SCORES], 6000, sensitivity=10)
    assert fits(counts, law_of(method, [10 * s for s in SCORES], 0.8, 10))
    assert not fits(counts, law_of(method, [10 * s for s in SCORES], 0.8, 20))


@pytest.mark.parametrize("method", METHODS)
def test_monotone_scores_are_told_apart_twice_as_well(method):
    assert fits(drawn(method, SCORES, 6000, monotone=True), law_of(method, SCORES, 1.6))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_no_neighbour_changes_a_chance_by_more_than_the_epsilon(method, epsilon):
    """All moves of four scores by -1, 0 or 1: the whole law, computed, and the worst comes close for two of them."""
    worst = 0.0
    base = law_of(method, [3, 3, 1, 0], epsilon)
    for move in itertools.product((-1, 0, 1), repeat=4):
        other = law_of(method, [3 + move[0], 3 + move[1], 1 + move[2], move[3]], epsilon)
        worst = max(worst, float(np.abs(np.log(base / other)).max()))
    assert worst <= epsilon * (1 + 1e-9)
    assert worst > 0.5 * epsilon


@pytest.mark.parametrize("method", METHODS)
def test_half_of_it_would_do_for_scores_that_only_rise(method):
    epsilon, worst = 1.0, 0.0
    base = law_of(method, [3, 3, 1, 0], 2 * epsilon)
    for move in itertools.product((0, 1), repeat=4):
        other = law_of(method, [3 + move[0], 3 + move[1], 1 + move[2], move[3]], 2 * epsilon)
        worst = max(worst, float(np.abs(np.log(base / other)).max()))
    assert 0.5 * epsilon < worst <= epsilon * (1 + 1e-9)


def test_permute_and_flip_is_the_largest_with_exponential_noise():
    rate, scores = 0.4, [3, 1, 0]

    def density(x, i):
        others = [1 - math.exp(-rate * (x - s)) if x > s else 0.0 for j, s in enumerate(scores) if j != i]
        return rate * math.exp(-rate * (x - scores[i])) * math.prod(others) if x > scores[i] else 0.0

    law = [integrate.quad(density, max(scores), 120, args=(i,), epsabs=1e-12)[0] for i in range(3)]
    assert law == pytest.approx(flipped_law(scores, rate), abs=1e-9)


def test_permute_and_flip_never_scores_worse_than_the_exponential_mechanism():
    rng = np.random.default_rng(5)
    for _ in range(50):
        scores = rng.integers(-6, 7, 5)
        flipped, weighed = (law @ scores for law in (flipped_law(scores, 0.5), exponential_law(scores, 0.5)))
        assert flipped >= weighed - 1e-12


def test_ties_are_shared_evenly():
    for method in METHODS:
        assert fits(drawn(method, [5, 5, 5], 3000), np.ones(3))


def test_a_coin_that_64_bits_leave_open_is_settled_by_further_ones():
    leading, following = private_selection._bits(3, 0.7, 0), private_selection._bits(3, 0.7, 1)
    assert leading == math.floor(math.exp(-2.1) * 2**53) << 11 | leading & 2047
    for slip, shown in ((-1, True), (1, False)):
        assert private_selection._tossed(leading, 3, 0.7, lambda _turn, s=slip: following + s) == shown
        assert private_selection._tossed(leading + slip, 3, 0.7, None) == shown


def test_rates_and_scales_err_on_the_private_side():
    for epsilon in (0.1, 0.3, 1.1, 7.7):
        for sensitivity in (1, 3, 7, 1 << 40):
            rate = Fraction(private_selection._rate(epsilon, sensitivity, False))
            assert rate * 2 * sensitivity <= Fraction(epsilon)
            assert Fraction(2 * sensitivity) <= Fraction(
                private_selection.noisy_max_scale(epsilon, sensitivity)
            ) * Fraction(epsilon)


def test_large_scores_do_not_overflow():
    scores = [2**62, -(2**62), 2**62 - 5]
    assert private_selection.select(Secret.for_testing(1).words(), scores, epsilon=50.0, sensitivity=1) == 0
    assert private_selection.permute_and_flip(Secret.for_testing(1).words(), scores, epsilon=50.0, sensitivity=1) == 0
    assert private_selection.noisy_max(Secret.for_testing(1).words(), scores, epsilon=50.0, sensitivity=1) == 0


@pytest.mark.parametrize(
    ("scores", "more", "words"),
    [
        ([], {}, "at least one"),
        ([0.5], {}, "public denominator"),
        ([[1]], {}, "list"),
        ([1], {"sensitivity": 0.5}, "sensitivity"),
        ([1], {"epsilon": 0.0}, "epsilon"),
        ([1], {"method": "best"}, "method"),
    ],
)
def test_what_has_no_exact_law_is_refused(scores, more, words):
    with pytest.raises(ParameterError, match=words):
        private_selection.select(Secret.for_testing(1).words(), scores, **({"epsilon": 1.0, "sensitivity": 1} | more))


def test_the_noise_of_the_maximum_is_the_exact_one():
    asked = []

    class Noted(Words):
        __slots__ = ()

        def laplace(self, size, laplace_scale):
            return asked.append((size, laplace_scale)) or np.zeros(size, np.int64)

    assert Noted(bytes(32)).select([1, 7], epsilon=0.5, sensitivity=3, method="noisy-max") == 1
    assert asked == [(2, 12.0)]


def test_one_of_very_many_scores_is_chosen_with_the_same_law(monkeypatch):
    """By rejection: exact chances against counted ones, with every comparison decided by doubles, and by bits."""
    scores = np.array([0, 3, 5, 5, 1] * 2)
    chances = np.exp(0.7 * scores) / np.exp(0.7 * scores).sum()
    monkeypatch.setattr(private_selection, "_MANY", 4)
    monkeypatch.setattr(private_selection, "_TRIES", 8)
    for unsure in (private_selection._UNSURE, 2.0):
        monkeypatch.setattr(private_selection, "_UNSURE", unsure)
        words, count = Secret.for_testing(9).words("many"), 3000
        found = np.bincount([private_selection.choose(words, scores, 0.7) for _ in range(count)], minlength=10)
        assert np.all(np.abs(found - count * chances) < 5 * np.sqrt(count * chances) + 1)


@pytest.mark.parametrize("unsure", [2.0**-40, 2.0], ids=["doubles", "balls"])
def test_runs_of_equal_scores_are_chosen_from_as_if_each_stood_alone(monkeypatch, unsure):
    """Exact chances against counted ones, with every comparison decided by doubles, and by balls; and no other law."""
    monkeypatch.setattr(private_selection, "_UNSURE", unsure)
    scores, counts = np.array([-2, 0, -1, -2]), np.array([2, 1, 3, 4])
    words = Secret.for_testing(9).words("runs")
    found = [private_selection.choose_repeated(words, scores, counts, 0.7) for _ in range(3000)]
    seen = np.bincount(found, minlength=10)
    assert fits(seen, exponential_law(np.repeat(scores, counts), 0.7))
    assert not fits(seen, exponential_law(np.repeat(scores, counts), 0.5))


def test_the_doubles_of_a_choice_among_runs_agree_with_balls(monkeypatch):
    """The same words give the same place: on very many runs, and where most chances are far below what doubles hold."""
    luck = np.random.default_rng(2)
    for size, spread in ((1, 3), (2, 5), (300, 10), (300, 4000)):
        scores, counts = luck.integers(-spread, 1, size), luck.integers(1, 1000, size)
        plain = [private_selection.choose_repeated(_stream(i), scores, counts, 0.3) for i in range(5)]
        with monkeypatch.context() as patch:
            patch.setattr(private_selection, "_UNSURE", 2.0)
            assert plain == [private_selection.choose_repeated(_stream(i), scores, counts, 0.3) for i in range(5)]


def _stream(number):
    return Secret.for_testing(number).words("runs")
