"""Sessions replayed on every neighbour with the same outcomes: what moved is what is stated, and nothing else does."""

import functools
import itertools

import numpy as np
import pytest

from sfumato.answering.counting import Counting, histogram_counts
from sfumato.answering.median import Median
from sfumato.answering.multiplicative_weights import Weights
from sfumato.answering.mwem import MWEM
from sfumato.answering.sparse_vector import SparseVector
from sfumato.answering.workload import marginals
from sfumato.audit import recorder
from sfumato.audit.recorder import Tape, stage
from sfumato.privacy.guarantee import Guarantee
from sfumato.queries.domain import Domain
from sfumato.tables.columns import Category, Flag
from sfumato.tables.schema import Schema

DOMAIN = Domain.of(Schema((Flag("a"), Category("c", ("x", "y", "z"), "x"))))
COUNTS = np.array([40, 9, 3, 20, 1, 7])
QUESTIONS = np.random.default_rng(1).random((12, 6)) < 0.5
LEVEL = 0.2


def counting(counts, guarantee, secret):
    prepared = Counting.of(DOMAIN, QUESTIONS, guarantee.neighbours).prepare(guarantee)
    return [a.value for a in prepared.answer(histogram_counts(counts, QUESTIONS), LEVEL, secret)]


def session(live):
    answers = []
    for query in QUESTIONS:
        if live.remaining:
            answer = live.ask(query)
            answers.append((answer.value, answer.positive, answer.laplace_scale, answer.remaining))
    return answers


def comparing(counts, guarantee, secret):
    recipe = SparseVector(threshold=40, positives=4, numeric=0.3)
    return session(recipe.prepare(DOMAIN, guarantee).begin(counts, LEVEL, secret))


def weighing(counts, guarantee, secret):
    live = Weights(updates=6, threshold=8).prepare(DOMAIN, guarantee).begin(counts, LEVEL, secret)
    return session(live), live.rows, live.histogram.weights.tolist()


def agreeing(counts, guarantee, secret):
    live = Median(size=6, hard=5, width=1.0).prepare(DOMAIN, guarantee).begin(counts, LEVEL, secret)
    return session(live), live.rows, live.candidates


def synthesising(counts, guarantee, secret, selection="exponential"):
    recipe = MWEM(workload=marginals(DOMAIN, 1), rounds=3, selection=selection)
    made = recipe.prepare(DOMAIN, guarantee).make(counts, LEVEL, secret)
    return made.selected, made.rows, made.histogram.weights.tolist()


def neighbours(pair):
    one = np.eye(len(COUNTS), dtype=int)
    if pair == "add-remove":
        return [COUNTS + sign * one[i] for i in range(len(COUNTS)) for sign in (1, -1)]
    return [COUNTS - one[i] + one[j] for i, j in itertools.permutations(range(len(COUNTS)), 2)]


def move(one, two):
    """How far a draw's integers moved: a choice's scores one by one, all else in the l1 norm."""
    gaps = np.abs(one.fed - two.fed)
    return int(gaps.max() if one.law == "choice" else gaps.sum())


def cost(one, two):
    """The most that a draw tells the two apart by: the move over the scale, twice the rate for each step of a score."""
    return move(one, two) * (2 * one.scale if one.law == "choice" else 1 / one.scale)


def moves(run, pair, measure=move):
    """The largest move of each stage over all neighbours; whatever was said must be the same for all."""
    guarantee, tape = Guarantee(epsilon=1 / LEVEL, neighbours=pair), Tape()
    found = {}
    said = run(COUNTS, guarantee, recorder.secret(tape))
    for other in neighbours(pair):
        again = tape.replay()
        assert run(other, guarantee, recorder.secret(again)) == said
        assert not again.faults
        assert not again.missing()
        for key, draw in tape.draws.items():
            name = "count" if stage(draw).startswith("count ") else stage(draw).split(" 0x")[0]
            found[name] = max(found.get(name, 0), measure(draw, again.draws[key]))
    return found


@pytest.mark.parametrize("pair", ["replace", "add-remove"])
def test_a_list_of_counts_moves_as_stated(pair):
    stated = Counting.of(DOMAIN, QUESTIONS, pair).move
    assert moves(counting, pair) == {"count": stated}


@pytest.mark.parametrize("pair", ["replace", "add-remove"])
def test_a_sparse_vector_moves_by_one_in_every_comparison_and_number(pair):
    assert moves(comparing, pair) == {"threshold": 0, "comparison": 1, "number": 1}


@pytest.mark.parametrize("pair", ["replace", "add-remove"])
def test_multiplicative_weights_move_by_one_in_everything(pair):
    counted = {"row count": 1} if pair == "add-remove" else {}
    assert moves(weighing, pair) == {"threshold": 0, "comparison": 1, "measured count": 1} | counted


@pytest.mark.parametrize("pair", ["replace", "add-remove"])
def test_the_median_mechanism_moves_its_agreement_as_stated_and_its_answers_by_one(pair):
    found = moves(agreeing, pair)
    rows = agreeing(COUNTS, Guarantee(epsilon=1 / LEVEL, neighbours=pair), recorder.secret(Tape()))[1]
    stated = Median(size=6).prepare(DOMAIN, Guarantee(epsilon=1.0, neighbours=pair)).agreement_move(rows)
    assert 0.3 * stated < found.pop("comparison") <= stated
    assert found == {"threshold": 0, "hard answer": 1} | ({"row count": 1} if pair == "add-remove" else {})


@pytest.mark.parametrize("pair", ["replace", "add-remove"])
def test_mwem_moves_scores_and_partitions_as_stated(pair):
    far = 2 if pair == "replace" else 1
    counted = {"row count": 1} if pair == "add-remove" else {}
    assert moves(synthesising, pair) == {"selected partition": far, "measured partition": far} | counted


@pytest.mark.parametrize("selection", ["permute-and-flip", "noisy-max"])
def test_every_way_of_selecting_is_replayed(selection):
    """What was selected is the same for all neighbours, and so is all that follows from it."""
    found = moves(functools.partial(synthesising, selection=selection), "replace")
    assert found["selected partition"] >= 2
    assert found["measured partition"] == 2


@pytest.mark.parametrize("pair", ["replace", "add-remove"])
def test_the_noise_of_mwem_is_that_of_its_moves(pair):
    """Three rounds: each stage costs its share of epsilon for the neighbour that is worst for it, and no more."""
    found = moves(synthesising, pair, cost)
    total = 3 * (found["selected partition"] + found["measured partition"]) + found.get("row count", 0.0)
    assert 0.999 / LEVEL < total <= 1 / LEVEL
