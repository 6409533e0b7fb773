"""Exactness of randomized response: thresholds against ball arithmetic, ties, rejection, laws, limits."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from flint import arb, fmpz
from scipy import stats

from sfumato.errors import ParameterError
from sfumato.numerics.balls import precision
from sfumato.randomness import randomized_choice
from sfumato.randomness.secret import Secret
from support.evidence import ALPHA, agrees

TESTING = Secret.for_testing(4)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-6, 0.1, 1.0, math.log(3), 20.0, 45.0, 700.0])
@pytest.mark.parametrize("categories", [2, 3, 5, 1000])
def test_the_bits_of_a_threshold_hold_the_probability_between_them(categories, epsilon):
    turns = 18
    bits = [randomized_choice.threshold_bits(categories, epsilon, turn) for turn in range(turns)]
    whole = sum(b << 64 * (turns - 1 - turn) for turn, b in enumerate(bits))
    with precision(4000):
        t = arb(epsilon).exp() / (arb(epsilon).exp() + categories - 1) * arb(fmpz(2) ** (64 * turns))
        assert arb(fmpz(whole)) <= t
        assert t < arb(fmpz(whole + 1))
        assert not t < arb(fmpz(whole))
    assert all(0 <= b < 2**64 for b in bits)


def test_words_beside_the_threshold_are_settled_at_once_and_equal_ones_by_their_further_bits():
    leading = randomized_choice.threshold_bits(3, 1.0, 0)
    words = np.array([leading - 1, leading, leading + 1, 0, 2**64 - 1], np.uint64)
    asked = []

    def settle_as(verdict):
        return randomized_choice.told_of(words, leading, lambda i: asked.append(i) or verdict).tolist()

    assert settle_as(True) == [True, True, False, True, False]
    assert settle_as(False) == [True, False, False, True, False]
    assert asked == [1, 1]


@pytest.mark.parametrize("equal", [0, 1, 3])
@pytest.mark.parametrize(("slip", "told"), [(-1, True), (1, False)])
def test_a_tie_goes_on_to_the_first_bits_that_differ(equal, slip, told):
    def bits(turn):
        return randomized_choice.threshold_bits(5, 0.7, turn)

    def more(turn):
        assert turn <= equal
        return bits(turn + 1) + (slip if turn == equal else 0)

    assert randomized_choice.below(more, bits) == told


def test_a_forced_tie_inside_a_draw_uses_the_further_bits_of_its_own_word(monkeypatch):
    words = TESTING.words("tie")
    drawn = TESTING.words("tie").draw(7).view(np.uint64)
    bits = [int(drawn[3]), TESTING.words("tie").more(3, 0)]
    for slip, told in ((1, True), (-1, False)):
        stream = TESTING.words("tie")
        monkeypatch.setattr(
            randomized_choice, "threshold_bits", lambda _m, _e, turn, slip=slip: bits[turn] + (slip if turn == 1 else 0)
        )
        assert randomized_choice._told(stream, 7, 2, 1.0)[3] == told
    assert words.position == 0


def test_words_beyond_the_last_multiple_are_put_aside():
    count = 3
    end = 2**64 - 2**64 % count
    words = np.array([0, 1, 2, end - 1, end, 2**64 - 1], np.uint64)
    asked = []

    def more(i, turn):
        asked.append((i, turn))
        return 2**64 - 1 if turn == 0 else 7

    assert randomized_choice.uniform_of(words, count, more).tolist() == [0, 1, 2, (end - 1) % 3, 1, 1]
    assert end == 2**64 - 1
    assert asked == [(4, 0), (4, 1), (5, 0), (5, 1)]


def chi_square(found, expected):
    return stats.chi2.sf(np.sum((found - expected) ** 2 / expected), len(expected) - 1)


@pytest.mark.parametrize("epsilon", [1e-6, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("categories", [2, 3, 5])
def test_a_million_answers_follow_their_law_and_no_other(categories, epsilon):
    count, truth = 1_000_000, categories - 1
    out = randomized_choice.respond(
        TESTING.words("law", categories, epsilon.hex()), np.full((2, count // 2), truth), categories, epsilon
    )
    assert out.shape == (2, count // 2)
    found = np.bincount(out.ravel(), minlength=categories)

    def law(epsilon):
        weights = np.ones(categories)
        weights[truth] = math.exp(epsilon)
        return count * weights / weights.sum()

    assert chi_square(found, law(epsilon)) > ALPHA
    for wrong in (epsilon - 0.05, epsilon + 0.05):
        assert chi_square(found, law(wrong)) < ALPHA
    if categories > 2:
        skewed, moved = law(epsilon), 0.03 * math.exp(epsilon / 2)
        skewed[0], skewed[1] = (1 - moved) * skewed[0], (1 + moved) * skewed[0]
        assert chi_square(found, skewed) < ALPHA


def test_answers_of_neighbouring_cells_are_independent():
    out = randomized_choice.respond(TESTING.words("pairs"), np.zeros(1_000_000, np.int64), 3, 1.0)
    expected = np.outer(*[np.bincount(out[a::2], minlength=3) / 500_000 for a in (0, 1)]) * 500_000
    found = np.bincount(3 * out[0::2] + out[1::2], minlength=9)
    assert chi_square(found, expected.ravel()) > ALPHA


def test_how_many_words_are_drawn_says_nothing_about_the_answers():
    positions = set()
    for truth in (0, 4):
        words = TESTING.words("count")
        randomized_choice.respond(words, np.full(20_000, truth), 5, 2.0)
        positions.add(words.position)
    assert positions == {40_000}


def test_a_huge_epsilon_tells_the_truth_and_every_code_stays_valid():
    truth = np.arange(30_000) % 7
    assert (randomized_choice.respond(TESTING.words("huge"), truth, 7, 700.0) == truth).all()
    out = randomized_choice.respond(TESTING.words("tiny"), truth, 7, 1e-9)
    assert out.min() == 0
    assert out.max() == 6
    assert randomized_choice.respond(TESTING.words("none"), np.empty(0, np.int64), 2, 1.0).size == 0


@pytest.mark.parametrize(
    ("categories", "epsilon"), [(1, 1.0), (2, 0.0), (2, 1e-10), (2, 701.0), (2, math.nan), (2, -1.0), (2.5, 1.0)]
)
def test_what_cannot_be_drawn_is_refused_before_a_word_is_used(categories, epsilon):
    words = TESTING.words("none")
    with pytest.raises(ParameterError):
        randomized_choice.respond(words, np.zeros(3, np.int64), categories, epsilon)
    assert words.position == 0


def test_answers_never_change():
    out = randomized_choice.respond(TESTING.words("golden"), np.arange(12) % 4, 4, 0.5)
    assert out.tolist() == GOLDEN


GOLDEN = [0, 0, 3, 0, 0, 3, 2, 1, 1, 2, 2, 3]


# ---- coins ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("steps", "bits"), [(1, 1), (1, 3), (419_430, 20), (2**20 - 1, 20), (2**20 - 50_000, 20)])
def test_coins_have_the_probability_stated(steps, bits):
    count = 400_000
    ones = int(randomized_choice.coins(TESTING.words("coins", steps), np.full(count, steps), bits).sum())

    def unlikely(share):
        return stats.binomtest(ones, count, share).pvalue < ALPHA

    assert not unlikely(steps / 2**bits)
    if steps < 2**20 - 1:
        assert unlikely(steps / 2**bits * 1.05)


def test_coins_of_weight_0_and_1_never_err_and_each_has_a_word():
    for steps in (0, 1 << 20):
        words = TESTING.words("sure", steps)
        assert set(randomized_choice.coins(words, np.full(100_000, steps), 20)) == {steps >> 20}
        assert words.position == 100_000


def test_a_coin_is_1_for_exactly_as_many_leading_bits_as_its_steps():
    class Every:
        def draw(self, size):
            return (np.arange(size, dtype=np.uint64) << np.uint64(61) | np.uint64(2**61 - 1)).view(np.int64)

    for steps in range(9):
        assert randomized_choice.coins(Every(), np.full(8, steps), 3).sum() == steps


# ---- geometric numbers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("word", "zeros"), [(1, 0), (2, 1), (-(2**62), 62), (-(2**63), 63), (0, 0), (-1, 0), (12, 2)])
def test_a_geometric_number_counts_the_low_zeros_of_a_word(word, zeros):
    assert randomized_choice.geometric(SimpleNamespace(draw=lambda _: np.array([word]))) == zeros


def test_geometric_numbers_have_the_stated_probabilities():
    words = TESTING.words("geometric")
    drawn = np.array([words.geometric() for _ in range(20_000)])
    for number in range(4):
        assert agrees((drawn == number).astype(float), 2.0 ** -(number + 1))
