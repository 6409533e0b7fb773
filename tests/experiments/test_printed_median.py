"""The median mechanism as printed: what its comparisons cost together, and that it answers."""

import math

import numpy as np
import pytest
from mpmath import mp

from printed_median import Classified, PrintedMedian, classified
from sfumato.errors import ParameterError
from sfumato.privacy.calibration import calibrate, least_epsilon
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Composed, Laplace
from sfumato.privacy.stored_losses import tabulated
from sfumato.queries.domain import Domain
from sfumato.randomness.secret import Secret
from sfumato.tables.columns import Category, Flag
from sfumato.tables.schema import Schema

DOMAIN = Domain.of(Schema((Flag("a"), Flag("b"), Category("c", ("x", "y"), "x")), scale="raw"))
COUNTS = np.array([400, 90, 10, 0, 200, 250, 0, 50])
SLACK = Guarantee(epsilon=1.0, delta=1e-6)


def simulated_loss(rate, positives, chance, towards, runs, rng):
    """Losses of runs of yes-or-no answers whose chances differ as much as the rate allows, in one direction."""
    if towards > 0:
        other = min(math.exp(rate) * chance, 1 - math.exp(-rate) * (1 - chance))
    else:
        other = max(math.exp(-rate) * chance, 1 - math.exp(rate) * (1 - chance))
    noes = rng.negative_binomial(positives, chance, runs)
    return positives * math.log(chance / other) + noes * math.log((1 - chance) / (1 - other))


@pytest.mark.parametrize("rate", [0.02, 0.3, 2.0])
@pytest.mark.parametrize("positives", [1, 8])
def test_the_bound_on_many_comparisons_lies_above_runs_of_them(rate, positives):
    rng = np.random.default_rng(8)
    for chance in (1e-3, 0.1, 1 / (1 + math.exp(rate)), 0.7):
        for towards in (1, -1):
            losses = simulated_loss(rate, positives, chance, towards, 40_000, rng)
            for epsilon in (0.0, 0.5 * positives * rate, 2 * positives * rate, 5 * positives * rate):
                seen = np.maximum(0, -np.expm1(epsilon - losses))
                bound = classified(epsilon, positives=positives, rate=rate)
                assert seen.mean() - 5 * seen.std() / 200 <= bound


def test_the_bound_is_the_integral_it_says():
    rate, positives, epsilon = 0.1, 5, 1.0
    ratio = math.log1p(math.exp(rate)) / math.log1p(math.exp(-rate))
    g = np.random.default_rng(9).gamma(positives, size=2_000_000)
    seen = np.maximum(0, -np.expm1(epsilon - positives * rate - (ratio - 1) * g))
    assert classified(epsilon, positives=positives, rate=rate) == pytest.approx(seen.mean(), rel=0.02)


def test_the_ratio_of_hazards_is_largest_where_its_two_bounds_meet():
    for rate in (0.01, 0.5, 3.0):
        h = np.linspace(1e-6, 1 - 1e-6, 200_001)
        other = np.minimum(np.exp(rate) * h, 1 - np.exp(-rate) * (1 - h))
        ratio = np.log1p(-other) / np.log1p(-h)
        bound = math.log1p(math.exp(rate)) / math.log1p(math.exp(-rate))
        assert bound * (1 - 1e-4) < ratio.max() <= bound * (1 + 1e-9)


def test_as_printed_it_costs_a_sixteenth_of_its_claim():
    """alpha' = alpha / (720 m ln|X|), 20 m ln|X| hard answers: m = 20, |X| = 8, alpha = 1."""
    hard = math.ceil(20 * 20 * math.log(8))
    each = 1 / (720 * 20 * math.log(8))
    found = least_epsilon(Composed([Classified(hard, each / 2), *[Laplace(1.0, 1 / each)] * hard]), 1e-9)
    assert found < 0.07
    assert least_epsilon(Classified(hard, each / 2), 1e-9) == pytest.approx(0.04, rel=0.2)


def test_no_finite_epsilon_is_pure_as_printed():
    assert Classified(3, 0.1).delta(2.0) > 0
    assert Classified(3, 0.1).delta(20.0) > 0


def test_the_printed_comparison_is_calibrated_and_answers():
    prepared = PrintedMedian(size=6, hard=5).prepare(DOMAIN, SLACK)
    level = calibrate(prepared, SLACK).level
    assert prepared.loss(level).delta(1.0) <= 1e-6
    assert tabulated(prepared.loss(level)).delta(1.0) <= 1.05e-6
    live = prepared.begin(COUNTS * 10_000, level, Secret.for_testing(1))
    assert (live._comparisons.threshold == 0).all()
    assert abs(live.ask(np.arange(8) < 4).value - COUNTS[:4].sum() * 10_000) < 10**6
    assert Classified(5, 0.1).pld().get_delta_for_epsilon(1.0) >= Classified(5, 0.1).delta(1.0) * (1 - 1e-9)


def test_a_pure_promise_is_refused():
    with pytest.raises(ParameterError, match="delta > 0"):
        PrintedMedian(size=4).prepare(DOMAIN, Guarantee(epsilon=1.0))


def test_answers_are_those_of_the_first_version():
    """Streams are keyed as they were when this was an option of ``Median``."""
    prepared = PrintedMedian(size=6, hard=5).prepare(DOMAIN, SLACK)
    live = prepared.begin(COUNTS * 1000, calibrate(prepared, SLACK).level, Secret.for_testing(1))
    assert [live.ask(np.arange(8) % q < 1).value for q in (2, 3, 4)] == [610062.0, 400041.0, 599975.0]


@pytest.mark.parametrize(("positives", "rate"), [(1, 0.5), (3, 0.25), (10, 0.1), (2, 2.0)])
@pytest.mark.parametrize("over", [-0.3, 0.0, 0.4, 3.0])
def test_the_profile_of_answers_until_some_are_yes_is_the_mean_over_its_clock(positives, rate, over):
    with mp.workdps(40):
        epsilon = positives * rate + over
        a, c, e = mp.mpf(rate), positives, mp.mpf(epsilon)
        ratio = mp.log(1 + mp.exp(a)) / mp.log(1 + mp.exp(-a))

        def part(g):
            return g ** (c - 1) * mp.exp(-g) / mp.gamma(c) * (1 - mp.exp(e - c * a - (ratio - 1) * g))

        start = max(mp.mpf(0), e - c * a) / (ratio - 1)
        truth = mp.quad(part, [start, start + c, start + 4 * c + 10, start + 40 * c + 100])
        bound = mp.mpf(classified(epsilon, positives=positives, rate=rate))
        assert truth <= bound <= truth * (1 + mp.mpf(2) ** -38)
