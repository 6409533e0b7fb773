"""Audits of questions with aggregates: each stands, and every broken twin is caught."""

import copy
import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest

from sfumato.aggregates.noise_scale import NoiseScale
from sfumato.aggregates.sharing import Spending
from sfumato.aggregates.statistics import Grid
from sfumato.audit.aggregate_trials import AGGREGATES, answer_trial, quantile_trial
from sfumato.audit.cases import ANSWERS, EPSILONS
from sfumato.audit.examine import examine
from sfumato.randomness.secret import Words
from support.twins import ErringEffort, share_of_the_noise

SLOW = {"median, selection": 3000, "scores of a quantile that are off by one": 10_000}
FOREVER = 1e9  # seconds: what tests find must not depend on the clock


def found(trial, samples=20_000, seed=1, words=Words):
    return examine(trial, ErringEffort(samples=samples, seconds=FOREVER, seed=seed, words=words))


# ---- broken twins ---------------------------------------------------------------------------------------------------


class UnclippedGrid(Grid):
    """A grid on which cells may lie beyond the ends."""

    def places(self, cells):
        return np.rint((np.nan_to_num(cells) - self.low) / self.step)


def unclipped(question):
    """A sum that forgets to clip."""
    statistics = []
    for statistic in question.statistics:
        made, grid = copy.copy(statistic), statistic.grid
        object.__setattr__(made, "grid", UnclippedGrid(grid.low, grid.high, grid.steps))
        statistics.append(made)
    return replace(question, statistics=tuple(statistics))


@dataclass(frozen=True)
class SharedNoise(NoiseScale):
    """One draw for all groups."""

    def added(self, exact, secret, *context):
        first = super().added(exact[..., :1, :], secret, *context) - exact[..., :1, :]
        return exact + first


@dataclass(frozen=True)
class PresentGroups(NoiseScale):
    """Groups come from the data: one that does not occur is left out, and shows as 0."""

    def added(self, exact, secret, *context):
        return np.where(exact == 0, 0, super().added(exact, secret, *context))


def noised_by(kind, question):
    scales = tuple(kind(noise.kind, noise.scale) for noise in question.spending.scales)
    return replace(question, spending=replace(question.spending, scales=scales))


def counted_twice(question):
    """The first statistic is drawn twice at the share that is charged for once."""
    spending = question.spending
    more = replace(spending, scales=(spending.scales[0], *spending.scales), moves=(spending.moves[0], *spending.moves))
    return replace(question, statistics=(question.statistics[0], *question.statistics), spending=more)


def as_if_removed(question):
    """The sensitivity of add-remove where records are replaced."""
    exposure = replace(question.exposure, neighbours="add-remove")
    return replace(question, spending=Spending.of(question.statistics, exposure, _epsilon(question), 0.0))


def _epsilon(question):
    spending = question.spending
    return sum(move / noise.scale for move, noise in zip(spending.moves, spending.scales, strict=True))


def one_row(question):
    """The rows of one person are taken to be one."""
    scales = tuple(replace(n, scale=n.scale / question.exposure.group) for n in question.spending.scales)
    return replace(question, spending=replace(question.spending, scales=scales))


def whole_budget_for_each(question):
    """Every statistic of a question gets all of epsilon."""
    spending = question.spending
    scales = tuple(
        NoiseScale(noise.kind, move / _epsilon(question))
        for move, noise in zip(spending.moves, spending.scales, strict=True)
    )
    return replace(question, spending=replace(question.spending, scales=scales))


def off_by_one(filled, counts, cells, order):
    """Scores about a whole rank, the next above that of the median: it moves by 1 or 0 as records come and go."""
    rank = -(-order.numerator * int(counts.sum()) // order.denominator)
    below = np.cumsum(np.bincount(filled, counts, cells).astype(np.int64))
    return -order.denominator * np.abs(below - rank), np.ones(cells, np.int64)


BROKEN = {
    "scores of a quantile that are off by one": partial(quantile_trial, scored=off_by_one),
    "a sum without a clip": partial(answer_trial, "sum(age) where smoker", twin=unclipped),
    "a mean without a clip": partial(answer_trial, "mean(age) where smoker", twin=unclipped),
    "a variance without a clip": partial(answer_trial, "variance(age)", twin=unclipped),
    "noise that groups share": partial(answer_trial, "count by sex", twin=partial(noised_by, SharedNoise)),
    "noise that groups share, Gaussian": partial(
        answer_trial, "sum(age) by sex", delta=0.01, twin=partial(noised_by, SharedNoise)
    ),
    "groups from the data": partial(answer_trial, "count by sex", twin=partial(noised_by, PresentGroups)),
    "groups from the data, add-remove": partial(
        answer_trial, "histogram(age)", neighbours="add-remove", twin=partial(noised_by, PresentGroups)
    ),
    "a count that is charged once and drawn twice": partial(answer_trial, "count where smoker", twin=counted_twice),
    "a mean of replaced records with the sensitivity of add-remove": partial(
        answer_trial, "mean(age) by sex", twin=as_if_removed
    ),
    "counts of replaced records with the sensitivity of add-remove": partial(
        answer_trial, "count by sex", twin=as_if_removed
    ),
    "a top list of replaced records with the sensitivity of add-remove": partial(
        answer_trial, "top(age, 3) by sex", twin=as_if_removed
    ),
    "a histogram of replaced records with the sensitivity of add-remove": partial(
        answer_trial, "histogram(age, 5)", twin=as_if_removed
    ),
    "a person with two rows taken for one": partial(
        answer_trial, "sum(age)", neighbours="add-remove", group=2, twin=one_row
    ),
    "all of the budget for each aggregate": partial(
        answer_trial, "count, mean(age), histogram(smoker) by sex", twin=whole_budget_for_each
    ),
}


@pytest.mark.parametrize("name", AGGREGATES)
def test_what_is_right_stands_and_with_half_its_noise_is_caught(name):
    made = AGGREGATES[name]
    finding = found(made(1.0), SLOW.get(name, 20_000))
    assert finding.passed, finding
    assert finding.bound.epsilon > (0.1 if name in SLOW else 0.4)
    if name in SLOW:
        return
    less = found(made(1.0), words=share_of_the_noise(0.4))
    assert less.refuted, less
    assert less.control.epsilon == 0


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_caught(name):
    finding = found(BROKEN[name](1.0), SLOW.get(name, 40_000))
    assert finding.refuted, finding
    assert finding.control.epsilon == 0


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_caught_at_every_epsilon(name, epsilon):
    assert found(BROKEN[name](epsilon), 10 * SLOW.get(name, 40_000)).refuted


def test_every_aggregate_is_a_line_of_the_suite():
    assert [case.name for case in ANSWERS][-len(AGGREGATES) :] == list(AGGREGATES)


def test_the_worst_pair_attains_what_is_stated():
    """The audit's own pair: the likelihood ratio of some answer reaches epsilon."""
    for name in ("count by group, replace", "sum, condition", "histogram, add-remove", "several aggregates"):
        trial = AGGREGATES[name](1.0)
        scores = trial.sample(0, 20_000, ErringEffort(seed=1, words=Words).secret(0))
        assert math.isclose(scores.max(), 1.0, rel_tol=1e-3), name
        assert scores.max() <= 1.0 + 1e-9
