"""Audits of what selects or answers: what is right stands, what was published wrongly or broken here falls."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import sparse_vectors
from sfumato.answering.median import PreparedMedian
from sfumato.answering.multiplicative_weights import PreparedWeights
from sfumato.answering.mwem import PreparedMWEM
from sfumato.audit.aggregate_trials import AGGREGATES
from sfumato.audit.cases import ANSWERS, EPSILONS
from sfumato.audit.examine import Effort, examine
from sfumato.audit.query_trials import HONEST, counts, median, mwem, selection, sparse_vector, weights
from sparse_vectors import setting


class Doubled(PreparedMWEM):
    """Twice the epsilon for selecting that is accounted for."""

    def parts(self, level):
        honest = PreparedMWEM.parts(self, level)
        return replace(honest, selecting=2 * honest.selecting)


class LoudWeights(PreparedWeights):
    """Half the noise on what is measured."""

    def parts(self, level):
        honest = PreparedWeights.parts(self, level)
        return replace(honest, measuring=honest.measuring / 2)


class LoudMedian(PreparedMedian):
    """Half the noise on hard answers."""

    def parts(self, level):
        honest = PreparedMedian.parts(self, level)
        return replace(honest, measuring=honest.measuring / 2)


BROKEN = {
    "exponential mechanism without its factor 2": partial(selection, "exponential", forgotten=True),
    "permute-and-flip without its factor 2": partial(selection, "permute-and-flip", forgotten=True),
    "noisy maximum without its factor 2": partial(selection, "noisy-max", forgotten=True),
    "Laplace counts with half the noise": partial(counts, share=0.5),
    "multiplicative weights that measure with half the noise": partial(weights, twin=LoudWeights),
    "median mechanism that answers with half the noise": partial(median, twin=LoudMedian),
    "MWEM that selects with twice its share": partial(mwem, twin=Doubled),
    **sparse_vectors.BROKEN,
}

FOREVER = 1e9  # seconds: what tests find must not depend on the clock
RUNS = {"multiplicative weights": 100_000, "median mechanism": 100_000, "sparse vector": 200_000}
SELECTIONS = 6000


def samples(name):
    return next((count for start, count in RUNS.items() if name.startswith(start)), SELECTIONS)


def found(trial, count, seed=1):
    return examine(trial, Effort(samples=count, seconds=FOREVER, seed=seed))


@pytest.mark.parametrize("name", HONEST)
def test_what_is_right_stands(name):
    finding = found(HONEST[name](1.0), samples(name))
    assert finding.passed, finding
    assert finding.bound.epsilon > 0.1


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_caught(name):
    finding = found(BROKEN[name](1.0), samples(name))
    assert finding.refuted, finding
    assert finding.control.epsilon == 0


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_caught_at_every_epsilon(name, epsilon):
    many = samples(name) * (50 if "Roth" in name else 10)
    assert found(BROKEN[name](epsilon), many).refuted


def test_every_honest_mechanism_is_a_line_of_the_suite():
    assert [case.name for case in ANSWERS if case.name not in AGGREGATES] == list(HONEST)
    assert not set(HONEST) & set(BROKEN)


def test_the_computed_losses_of_sparse_vector_stay_within_epsilon_and_those_of_the_published_forms_do_not():
    """Exact, without sampling: the largest loss of any of the 64 transcripts."""
    asked = np.array([[0] * 6, [1] * 3 + [-1] * 3])
    largest = {form: np.abs(setting(form, 1.0).losses(asked)).max() for form in ("correct", "lee", "stoddard", "chen")}
    assert largest["correct"] <= 1.0
    assert largest["lee"] > 3.0
    assert largest["chen"] > 2.0
    assert largest["stoddard"] > 10
    one_way = np.array([[0] * 6, [1] * 6])
    assert np.abs(setting("monotone", 1.0).losses(one_way)).max() <= 1.0
    assert np.abs(setting("monotone", 1.0).losses(asked)).max() > 1.0


def test_the_scores_of_a_transcript_are_likelihood_ratios():
    trial = sparse_vector(4.0)
    first, second = (trial.sample(side, 200_000, Effort(seed=2).secret(side)) for side in (0, 1))
    for value in np.unique(first)[::12]:
        counts = [(side == value).sum() for side in (first, second)]
        if min(counts) > 400:
            assert math.log(counts[0] / counts[1]) == pytest.approx(value, abs=0.3)
