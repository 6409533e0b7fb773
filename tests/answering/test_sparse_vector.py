"""Sparse vector: the exact probability of every transcript against its bound, the broken forms, and the object."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from sfumato.answering.base import Noises
from sfumato.answering.sparse_vector import Comparisons, Scales, SparseVector
from sfumato.errors import ExhaustedError, ParameterError
from sfumato.files.open_table import open_table
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Composed
from sfumato.privacy.stored_losses import from_json, tabulated, to_json
from sfumato.queries.domain import Domain
from sfumato.randomness.secret import Secret
from sfumato.tables.columns import Flag
from sfumato.tables.schema import Schema
from support.evidence import agrees
from support.rows import table_rows

PAIR = Schema((Flag("a"), Flag("b")))
DOMAIN = Domain.of(PAIR)
BOTH = Guarantee(epsilon=1.0), Guarantee(epsilon=1.0, neighbours="add-remove")


def chance(values, answers, scales, threshold=0):
    """The exact probability of a transcript: a sum over the rounded noise of the threshold."""
    r = np.arange(-600, 601)
    mass = stats.laplace.cdf(r + 0.5, scale=scales.threshold) - stats.laplace.cdf(r - 0.5, scale=scales.threshold)
    for value, answer in zip(values, answers, strict=True):
        above = stats.laplace.sf(threshold + r - value - 0.5, scale=scales.query)
        mass = mass * (above if answer else 1 - above)
    return mass.sum()


def worst_loss(scales, positives, moves, length=4):
    """Over all transcripts with so many positives, and all neighbours of a few starting points."""
    worst = 0.0
    for start in (0, 7):
        for move in itertools.product(moves, repeat=length):
            for answers in itertools.product((0, 1), repeat=length):
                if sum(answers) <= positives and not (sum(answers) == positives and not answers[-1]):
                    one = chance([start] * length, answers, scales)
                    two = chance([start + m for m in move], answers, scales)
                    worst = max(worst, abs(math.log(one / two)))
    return worst


@pytest.mark.parametrize(("positives", "monotone"), [(1, False), (2, False), (2, True)])
def test_no_transcript_costs_more_than_stated(positives, monotone):
    scales, cost = Scales.of(2.0, positives, 1, monotone=monotone)
    assert cost == pytest.approx(2.0, rel=1e-12)
    found = max(worst_loss(scales, positives, moves) for moves in (((0, 1), (-1, 0)) if monotone else ((-1, 1),)))
    assert 0.35 * cost < found <= cost


def test_the_noise_for_monotone_questions_is_too_little_for_others():
    scales, cost = Scales.of(2.0, 2, 1, monotone=True)
    assert worst_loss(scales, 2, (-1, 1)) > cost


def test_noise_that_does_not_grow_with_the_positives_is_too_little():
    one, cost = Scales.of(2.0, 1, 1, monotone=False)
    assert worst_loss(one, 3, (-1, 1)) > cost


def test_transcripts_come_as_often_as_computed():
    scales, _ = Scales.of(2.0, 2, 1, monotone=False)
    runs = 20_000
    gate = Comparisons(Noises(Secret.for_testing(1), "x"), scales, 2, runs)
    values = [1, -1, 2]
    found = np.array([gate.above(np.full(runs, v), 0) for v in values]).T
    for answers in ((0, 0, 0), (1, 0, 0), (0, 1, 1)):
        seen = (found == np.array(answers)).all(axis=1).astype(float)
        assert agrees(seen, chance(values, answers, scales))
        assert not agrees(seen, 1.3 * chance(values, answers, scales))


def test_a_run_stops_after_its_last_positive():
    gate = Comparisons(Noises(Secret.for_testing(1), "x"), Scales(1.0, 1.0), 2, 500)
    found = np.array([gate.above(np.full(500, 10_000), 0) for _ in range(4)])
    assert found.sum(axis=0).tolist() == [2] * 500
    assert found[:2].all()
    assert (gate.left == 0).all()


def test_noise_of_a_comparison_is_exceeded_as_rarely_as_stated():
    scales, size = Scales(40.0, 300.0), 200_000
    gate = Comparisons(Noises(Secret.for_testing(2), "x"), scales, size, size)
    for probability in (0.3, 0.01):
        edge = scales.exceeded(probability)
        seen = gate.above(np.zeros(size, np.int64), math.ceil(edge)).mean()
        assert 0.9 * probability < seen < 1.05 * probability


# ---- the object -----------------------------------------------------------------------------------------------------


def opened(guarantee, counts, **recipe):
    prepared = SparseVector(**({"threshold": 100} | recipe)).prepare(DOMAIN, guarantee)
    return prepared.begin(np.array(counts), calibrate(prepared, guarantee).level, Secret.for_testing(3))


@pytest.mark.parametrize("guarantee", BOTH, ids=lambda g: g.neighbours)
@pytest.mark.parametrize("numeric", [0.0, 0.3])
def test_the_parts_of_epsilon_add_up_and_no_more(guarantee, numeric):
    prepared = SparseVector(threshold=5, positives=4, numeric=numeric).prepare(DOMAIN, guarantee)
    level = calibrate(prepared, guarantee).level
    assert level == pytest.approx(1.0, rel=1e-9)
    assert prepared.loss(level).delta(1.0) == 0
    assert prepared.loss(level * 0.999).delta(1.0) > 0
    assert from_json(to_json(tabulated(prepared.loss(level)))) == tabulated(prepared.loss(level))


def test_scales_are_those_of_the_theorem():
    """c = 4, d = 1: Lap(1/e1), Lap(2c/e2) where records are replaced, Lap(c/e2) where they come and go."""
    for guarantee, factor in zip(BOTH, (8, 4), strict=True):
        prepared = SparseVector(threshold=5, positives=4, numeric=0.5).prepare(DOMAIN, guarantee)
        scales, cost, number = prepared.parts(1.0)
        assert 1 / scales.threshold + factor / scales.query == pytest.approx(0.5, rel=1e-12)
        assert 1 / scales.threshold + factor / scales.query <= cost
        assert number == 8.0
        assert scales.query / scales.threshold == pytest.approx(factor ** (1 / 3), rel=1e-9)


def test_people_with_several_rows_get_as_much_more_noise():
    one, three = (
        SparseVector(threshold=5).prepare(DOMAIN, Guarantee(epsilon=1.0, group=g)).parts(1.0)[0] for g in (1, 3)
    )
    assert three.query == pytest.approx(3 * one.query)
    assert three.threshold == pytest.approx(3 * one.threshold)


def test_large_counts_are_above_and_small_ones_below_until_it_stops():
    live = opened(Guarantee(epsilon=1.0), [10**6, 0, 0, 0], positives=2, numeric=0.5)
    large, small = np.array([True, False, False, False]), np.array([False, True, True, True])
    for _ in range(50):
        assert live.ask(small, threshold=10**5) == live.ask(small, threshold=10**5)
    first = live.ask(large)
    assert first.positive
    assert abs(first.value - 10**6) < first.margin(1 - 1e-9)
    assert live.remaining == 1
    assert live.ask(large).value != first.value
    with pytest.raises(ExhaustedError, match="used up"):
        live.ask(small)


def test_without_numbers_nothing_but_the_side_is_told():
    live = opened(Guarantee(epsilon=1.0), [10**6, 0, 0, 0])
    answer = live.ask(np.array([True, False, False, False]))
    assert (answer.value, answer.positive, answer.margin, answer.remaining) == (None, True, None, 0)


def test_rows_are_read_once_and_give_the_histogram():
    prepared = SparseVector(threshold=50).prepare(DOMAIN, Guarantee(epsilon=20.0))
    rows = table_rows(open_table(np.ones((300, 2)), PAIR), PAIR)
    live = prepared.start(rows, 0.05, Secret.for_testing(1))
    assert live.ask(np.array([False, False, False, True])).positive


@pytest.mark.parametrize(
    ("recipe", "words"),
    [({"threshold": 0.5}, "threshold"), ({"positives": 0}, "positives"), ({"numeric": 1.0}, "numeric")],
)
def test_recipes_that_cannot_be_are_refused(recipe, words):
    with pytest.raises(ParameterError, match=words):
        SparseVector(**({"threshold": 1} | recipe))


@pytest.mark.parametrize(
    ("promise", "words"),
    [
        ({"unit": "edge"}, "edge"),
        ({"unit": "attribute", "neighbours": "add-remove"}, "whole record"),
    ],
)
def test_promises_that_counts_cannot_keep_are_refused(promise, words):
    with pytest.raises(ParameterError, match=words):
        SparseVector(threshold=1).prepare(DOMAIN, Guarantee(epsilon=1.0, **promise))


@pytest.mark.parametrize("query", [np.ones(4), np.ones(3, bool), np.ones((1, 4), bool)])
def test_questions_that_are_no_truths_over_the_cells_are_refused_and_cost_nothing(query):
    live = opened(Guarantee(epsilon=1.0), [10**6, 0, 0, 0])
    with pytest.raises(ParameterError, match="4 truths"):
        live.ask(query)
    with pytest.raises(ParameterError, match="threshold"):
        live.ask(np.ones(4, bool), threshold=0.5)
    assert live.remaining == 1


def test_noise_is_never_used_twice():
    noises = Noises(Secret.for_testing(1), "x")
    drawn = [int(noises.added("count", np.zeros(1, np.int64), 1e6)[0]) for _ in range(100)]
    assert len(set(drawn)) == 100


def test_losses_compose_with_others():
    prepared = SparseVector(threshold=1, positives=2, numeric=0.5).prepare(DOMAIN, BOTH[0])
    assert isinstance(prepared.loss(1.0), Composed)
    assert prepared.loss(1.0).delta(0.8) < prepared.loss(0.5).delta(0.8)
