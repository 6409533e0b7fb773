"""Interactive mechanisms on a domain: sensitivities by search, losses, answers, exhaustion, post-processing."""

import copy
import itertools
import math
import os
import pickle
import threading

import numpy as np
import pyarrow as pa
import pytest

from sfumato.answering import workload
from sfumato.answering.base import Noises
from sfumato.answering.median import Median, agreement, candidates, candidates_of
from sfumato.answering.multiplicative_weights import Weights
from sfumato.answering.mwem import MWEM, suggested_rounds
from sfumato.answering.sparse_vector import SparseVector
from sfumato.answering.workload import DisjointParts, marginals, questions, refitted, uniform_weights
from sfumato.errors import ExhaustedError, ParameterError
from sfumato.files.open_table import open_table
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.stored_losses import from_json, tabulated, to_json
from sfumato.queries.domain import Domain
from sfumato.queries.histogram import SyntheticHistogram
from sfumato.randomness.secret import Secret
from sfumato.tables.columns import Category, Flag
from sfumato.tables.schema import Schema
from support.rows import table_rows

SCHEMA = Schema((Flag("a"), Flag("b"), Category("c", ("x", "y"), "x")), scale="raw")  # draws depend on it
DOMAIN = Domain.of(SCHEMA)
COUNTS = np.array([400, 90, 10, 0, 200, 250, 0, 50])
REPLACE, COMES = Guarantee(epsilon=1.0), Guarantee(epsilon=1.0, neighbours="add-remove")
SLACK = Guarantee(epsilon=1.0, delta=1e-6)
WORKLOAD = marginals(DOMAIN, 2)


def neighbours_of(counts, pair):
    """All histograms that one record can make of one."""
    cells, one = len(counts), np.eye(len(counts), dtype=int)
    if pair == "add-remove":
        moved = [counts + one[i] for i in range(cells)] + [counts - one[i] for i in range(cells)]
    else:
        moved = [counts - one[i] + one[j] for i, j in itertools.permutations(range(cells), 2)]
    return [other for other in moved if other.min() >= 0]


def every_question(rng, count):
    return rng.random((count, DOMAIN.size)) < rng.random((count, 1))


def recipes():
    return Weights(updates=5), Median(size=4, hard=3), MWEM(workload=WORKLOAD, rounds=3)


# ---- losses ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("guarantee", [REPLACE, COMES], ids=lambda g: g.neighbours)
@pytest.mark.parametrize("recipe", recipes(), ids=lambda r: type(r).__name__)
def test_the_parts_of_epsilon_add_up_and_no_more(recipe, guarantee):
    prepared = recipe.prepare(DOMAIN, guarantee)
    level = calibrate(prepared, guarantee).level
    assert level == pytest.approx(1.0, rel=1e-9)
    assert prepared.loss(level).delta(1.0) == 0
    assert prepared.loss(level * 0.999).delta(1.0) > 0
    assert from_json(to_json(tabulated(prepared.loss(level)))) == tabulated(prepared.loss(level))


@pytest.mark.parametrize(
    "recipe", [Weights(updates=50), MWEM(workload=WORKLOAD, rounds=50)], ids=lambda r: type(r).__name__
)
def test_a_little_delta_buys_much_less_noise(recipe):
    prepared = recipe.prepare(DOMAIN, SLACK)
    level = calibrate(prepared, SLACK).level
    assert level < 0.9
    assert prepared.loss(level).delta(1.0) <= 1e-6


@pytest.mark.parametrize("recipe", recipes(), ids=lambda r: type(r).__name__)
def test_people_with_several_rows_cost_as_much_more(recipe):
    for pair in ("replace", "add-remove"):
        one, two = (recipe.prepare(DOMAIN, Guarantee(epsilon=1.0, neighbours=pair, group=g)) for g in (1, 2))
        parts = [prepared.parts(1.0) for prepared in (one, two)]
        if isinstance(recipe, MWEM):
            assert two.score_move == 2 * one.score_move
        else:
            assert parts[1].measuring == pytest.approx(2 * parts[0].measuring)
        if pair == "add-remove":
            assert parts[1].counting == pytest.approx(2 * parts[0].counting)
        else:
            assert parts[0].counting is None


# ---- multiplicative weights -----------------------------------------------------------------------------------------


def weighing(guarantee=REPLACE, seed=1, counts=COUNTS, **recipe):
    prepared = Weights(**recipe).prepare(DOMAIN, guarantee)
    return prepared.begin(counts, 1 / guarantee.epsilon, Secret.for_testing(seed))


@pytest.mark.parametrize("pair", ["replace", "add-remove"])
def test_no_record_moves_a_gap_from_a_guess_by_more_than_one(pair):
    rng, worst = np.random.default_rng(1), 0
    for query in every_question(rng, 20):
        guess = int(rng.integers(0, 1000))
        for other in neighbours_of(COUNTS, pair):
            worst = max(worst, abs(abs(int(COUNTS[query].sum()) - guess) - abs(int(other[query].sum()) - guess)))
    assert worst == 1


def test_questions_are_answered_within_their_margins():
    live = weighing(Guarantee(epsilon=20.0), updates=20)
    for query in every_question(np.random.default_rng(3), 60):
        answer = live.ask(query)
        assert abs(answer.value - COUNTS[query].sum()) <= answer.margin(1 - 1e-6)


def test_the_weights_learn_and_then_answer_without_updates():
    live = weighing(Guarantee(epsilon=50.0), seed=2, updates=40, passes=100)
    queries = [part.labels == i for part in marginals(DOMAIN, 3) for i in range(8)]
    for query in queries * 3:
        live.ask(query)
    used = 40 - live.remaining
    assert 3 <= used <= 39
    assert sum(live.ask(query).positive for query in queries) == 0
    assert np.abs(live.histogram.weights - COUNTS).max() < 30
    assert live.histogram.rows == pytest.approx(COUNTS.sum())


def test_an_answer_from_the_weights_is_what_anyone_could_compute():
    live = weighing(Guarantee(epsilon=1e-3), threshold=10**7)
    query = np.arange(8) < 3
    answer = live.ask(query)
    assert not answer.positive
    assert answer.value == math.floor(live.histogram.answer(query) + 0.5)
    assert answer.laplace_scale is None


def test_with_no_update_left_questions_are_refused_but_the_histogram_stays():
    live = weighing(Guarantee(epsilon=100.0), updates=1, threshold=-(10**6))
    assert live.ask(np.arange(8) < 3).positive
    with pytest.raises(ExhaustedError, match="histogram still answers"):
        live.ask(np.arange(8) < 3)
    assert live.histogram.answer(np.ones(8, bool)) == pytest.approx(1000)


def test_the_number_of_rows_is_measured_where_it_is_protected_and_exact_where_public():
    assert weighing(REPLACE).rows == 1000
    found = {weighing(COMES, seed=s).rows for s in range(20)}
    assert len(found) > 5
    assert abs(np.mean(list(found)) - 1000) < 60
    assert weighing(COMES, counts=np.zeros(8, np.int64)).rows >= 1


def test_a_default_threshold_is_seldom_reached_by_noise_alone():
    """All questions are answered right by the uniform weights of a uniform histogram."""
    flat, positives = np.full(8, 100), 0
    for seed in range(10):
        live = weighing(Guarantee(epsilon=1.0), seed=seed, counts=flat, questions=100)
        positives += sum(live.ask(np.arange(8) < i % 9).positive for i in range(100))
    assert positives <= 3


def test_suggested_settings_go_by_rows_times_epsilon():
    assert Weights.suggested(10_000, 1.0) == Weights(updates=44, threshold=500, measuring=0.3)
    assert Weights.suggested(40_000, 1.0).updates == 87
    assert suggested_rounds(10_000, 1.0) == 20
    assert suggested_rounds(1, 1e-9) == 1
    with pytest.raises(ParameterError, match="rows"):
        Weights.suggested(0, 1.0)


def test_rows_go_in_by_any_engine():
    rows = table_rows(open_table(pa.table({"a": [1, 0] * 50, "b": [1] * 100, "c": ["x", "y"] * 50})), SCHEMA)
    for recipe in (Weights(updates=3), Median(size=4)):
        prepared = recipe.prepare(DOMAIN, Guarantee(epsilon=100.0))
        live = prepared.start(rows, 0.01, Secret.for_testing(1))
        assert live.rows == 100
        assert abs(live.ask(DOMAIN.codes("a") == 1).value - 50) < 30
    made = MWEM(workload=WORKLOAD).prepare(DOMAIN, Guarantee(epsilon=100.0)).run(rows, 0.01, Secret.for_testing(1))
    assert made.histogram.answer(DOMAIN.codes("b") == 1) > 90


# ---- MWEM -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pair", ["replace", "add-remove"])
@pytest.mark.parametrize("whole", [True, False])
def test_no_record_moves_a_score_by_more_than_stated(pair, whole):
    rng = np.random.default_rng(4)
    several = WORKLOAD if whole else questions(every_question(rng, 12), DOMAIN)
    prepared = MWEM(workload=several).prepare(DOMAIN, Guarantee(epsilon=1.0, neighbours=pair))
    parts, worst, far = prepared.parts(1.0), 0, 0
    for _ in range(10):
        weights = rng.random(8) * 300
        here = prepared.scores(COUNTS, weights, parts)
        for other in neighbours_of(COUNTS, pair):
            worst = max(worst, int(np.abs(prepared.scores(other, weights, parts) - here).max()))
            far = max(far, *(int(np.abs(p.exact(other) - p.exact(COUNTS)).sum()) for p in several))
    assert worst == prepared.score_move == far == (2 if whole and pair == "replace" else 1)


def synthesised(guarantee=REPLACE, seed=1, **recipe):
    prepared = MWEM(**({"workload": WORKLOAD, "rounds": 6} | recipe)).prepare(DOMAIN, guarantee)
    return prepared.make(COUNTS, 1 / guarantee.epsilon, Secret.for_testing(seed))


def error(made, workload=WORKLOAD):
    return max(float(np.abs(p.totals(made.histogram.weights) - p.exact(COUNTS)).max()) for p in workload)


@pytest.mark.parametrize("selection", ["exponential", "permute-and-flip", "noisy-max"])
def test_the_histogram_answers_its_workload(selection):
    flat = max(float(np.abs(p.totals(np.full(8, 125.0)) - p.exact(COUNTS)).max()) for p in WORKLOAD)
    made = synthesised(Guarantee(epsilon=50.0), selection=selection, passes=200)
    assert error(made) < 0.1 * flat
    assert made.histogram.weights.min() >= 0
    assert made.histogram.rows == pytest.approx(made.rows)
    assert len(made.selected) == 6


def test_more_epsilon_gives_smaller_errors():
    mean = {e: np.mean([error(synthesised(Guarantee(epsilon=e), seed=s)) for s in range(8)]) for e in (0.02, 20.0)}
    assert mean[20.0] < 0.4 * mean[0.02]


def test_partitions_of_many_parts_get_noise_for_what_they_move(monkeypatch):
    seen = []
    monkeypatch.setattr(
        Noises, "added", lambda _self, stage, exact, scale: seen.append((stage, len(exact), scale)) or exact
    )
    synthesised(REPLACE, rounds=1)
    assert seen == [("measured partition", 4, pytest.approx(2 * 2.0))]
    seen.clear()
    synthesised(COMES, rounds=1)
    assert seen[1] == ("measured partition", 4, pytest.approx(2 / 0.95))
    seen.clear()
    synthesised(REPLACE, rounds=1, workload=questions(np.arange(8) < 3, DOMAIN))
    assert seen == [("measured partition", 1, pytest.approx(2.0))]


def test_updates_are_free_and_reach_what_was_measured():
    measured = [(part, part.exact(COUNTS).astype(float)) for part in WORKLOAD]
    found = uniform_weights(DOMAIN, 1000)
    for _ in range(20):
        found = refitted(found, measured, 1000, 100)
    for part, values in measured:
        assert np.abs(part.totals(found) - values).max() < 5


def test_absurd_measurements_do_not_break_the_weights():
    part = DisjointParts.question(np.arange(8) < 3, DOMAIN)
    found = refitted(uniform_weights(DOMAIN, 1), [(part, np.array([1e15])), (part, np.array([-1e15]))], 1, 50)
    assert np.isfinite(found).all()
    assert found.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("labels", "parts", "says"),
    [
        ([0, 1, 2], 2, "between -1"),
        ([0, -2, 1], 2, "between -1"),
        ([0, 2**63], 2, "between -1"),
        ([0.0, 1.0], 2, "whole numbers"),
        ([0.5, 1.0], 2, "whole numbers"),
        ([False, True], 2, "whole numbers"),
        ([[0, 1]], 2, "one for each cell"),
        ([], 1, "one for each cell"),
        ([0, 0], 0, "parts must be"),
        ([0, 0], 1.0, "parts must be"),
    ],
)
def test_labels_that_are_no_partition_are_refused(labels, parts, says):
    """Its parts decide how much noise is drawn: one part moves by less than two."""
    array = np.array(labels, np.uint64 if 2**63 in labels else None)
    with pytest.raises(ParameterError, match=says):
        DisjointParts("p", array, parts)


def test_a_partition_stays_as_it_was_checked():
    labels = np.array([0, 1, -1])
    part = DisjointParts("p", labels, 2)
    labels[:] = 5
    assert part.labels.tolist() == [0, 1, -1]
    with pytest.raises(ValueError, match="read-only"):
        part.labels[0] = 5


def test_workloads_that_memory_may_not_hold_are_refused_with_what_can_be_asked(monkeypatch):
    monkeypatch.setattr(workload, "MOST", 24)
    assert len(questions(np.ones((3, 8), bool), DOMAIN)) == len(marginals(DOMAIN, 2)) == 3
    with pytest.raises(ParameterError, match="of so many cells at most 3 can be asked, and so many of at most 6 cells"):
        questions(np.ones((4, 8), bool), DOMAIN)
    monkeypatch.setattr(workload, "MOST", 16)
    with pytest.raises(ParameterError, match="at most 2 can be asked"):
        marginals(DOMAIN, 2)


def test_workloads_that_do_not_fit_are_refused():
    with pytest.raises(ParameterError, match="one of the 2 cells"):
        MWEM(workload=WORKLOAD).prepare(Domain.of(SCHEMA, ["a"]), REPLACE).loss(1.0)
    with pytest.raises(ParameterError, match="at least one partition"):
        MWEM(workload=())
    with pytest.raises(ParameterError, match="order"):
        marginals(DOMAIN, 4)


# ---- the median mechanism -------------------------------------------------------------------------------------------


def test_all_databases_are_listed_once():
    found = candidates(4, 5)
    assert len(found) == candidates_of(4, 5) == 56
    assert len(np.unique(found, axis=0)) == 56
    assert (found.sum(axis=1) == 5).all()
    assert candidates(1, 3).tolist() == [[3]]


@pytest.mark.parametrize("pair", ["replace", "add-remove"])
def test_no_record_moves_the_agreement_by_more_than_stated(pair):
    """Over counts, votes and accuracies; and it comes within a step of it."""
    rng, closest = np.random.default_rng(5), math.inf
    for rows, accuracy in itertools.product((3, 50, 1000), (0.01, 0.1, 1.0)):
        prepared = Median(size=4, accuracy=accuracy).prepare(DOMAIN, Guarantee(epsilon=1.0, neighbours=pair))
        allowed = prepared.agreement_move(rows)
        for _ in range(60):
            votes, count = rng.integers(0, 50, 5), int(rng.integers(0, rows))
            votes[rng.integers(5)] += 1
            one, two = (agreement(c, votes, rows, accuracy) for c in (count, count + 1))
            assert abs(one - two) <= allowed
            only = np.zeros(5, np.int64)
            only[0] = 7
            closest = min(
                closest, allowed / max(1, abs(agreement(0, only, rows, accuracy) - agreement(1, only, rows, accuracy)))
            )
    assert 1 <= closest < 1.01


def agreeing(guarantee=REPLACE, seed=1, **recipe):
    prepared = Median(**({"size": 6} | recipe)).prepare(DOMAIN, guarantee)
    return prepared.begin(COUNTS, 1 / guarantee.epsilon, Secret.for_testing(seed))


def test_hard_questions_cut_the_candidates_until_easy_ones_are_answered_by_them():
    live = agreeing(Guarantee(epsilon=500.0), hard=40, size=12, accuracy=0.4, width=0.1)
    before = live.candidates
    queries = every_question(np.random.default_rng(6), 30)
    answers = [live.ask(query) for query in queries]
    assert live.candidates < before / 20
    assert not any(live.ask(query).positive for query in queries[:5])
    for query, answer in zip(queries, answers, strict=True):
        assert abs(answer.value - COUNTS[query].sum()) <= answer.margin(1 - 1e-6)


def test_easy_answers_are_medians_of_candidates():
    live = agreeing(Guarantee(epsilon=500.0), accuracy=1.0)
    answer = live.ask(np.arange(8) < 4)
    assert not answer.positive
    assert answer.value == 500.0
    assert answer.laplace_scale is None


def test_failure_is_reported_when_hard_questions_or_candidates_run_out():
    live = agreeing(Guarantee(epsilon=500.0), hard=1, accuracy=0.01)
    assert live.ask(np.arange(8) == 0).positive
    with pytest.raises(ExhaustedError, match="failure: all 1 hard"):
        live.ask(np.arange(8) == 0)
    live = agreeing(Guarantee(epsilon=500.0), hard=5, accuracy=0.01, width=1e-9)
    live.ask(np.arange(8) == 0)
    assert live.candidates == 0
    with pytest.raises(ExhaustedError, match="failure: no database"):
        live.ask(np.arange(8) == 0)


def test_the_threshold_of_agreement_halves_in_probability_step_by_step():
    live = agreeing(Guarantee(epsilon=500.0))
    gamma = 4 * live._scales.query * 2.0**-30
    drawn = np.rint((np.array([live._threshold() for _ in range(4000)]) - 0.75) / gamma).astype(int)
    most = math.floor(0.15 / gamma)
    assert drawn.max() <= most
    law = 0.5 ** np.arange(most + 1)
    for j in range(3):
        assert abs((drawn == j).mean() - law[j] / law.sum()) < 0.04


def test_what_cannot_be_listed_is_refused_with_what_can():
    with pytest.raises(ParameterError, match=r"with 8 cells size can be at most 16, .* at most 4 cells"):
        Median(size=60).prepare(DOMAIN, REPLACE)
    with pytest.raises(ParameterError, match=r"more than 10\^"):
        Median(size=2000).prepare(DOMAIN, REPLACE)


# ---- the histogram in the analyst's hands ----------------------------------------------------------------------------


def test_histograms_answer_sample_and_tell_their_levels():
    weights = np.arange(8.0)
    made = SyntheticHistogram(DOMAIN, weights)
    assert made.answers(np.eye(8, dtype=bool)).tolist() == weights.tolist()
    cells = made.sample(20_000, seed=1)
    assert np.bincount(cells, minlength=8) == pytest.approx(weights / 28 * 20_000, abs=350)
    table = made.table()
    assert table.column_names == ["a", "b", "c", "rows"]
    assert table.slice(5, 1).to_pylist() == [{"a": "true", "b": "false", "c": "y", "rows": 5.0}]
    with pytest.raises(ParameterError, match="8 truths"):
        made.answer(np.ones(7, bool))


# ---- one of each, in one process -------------------------------------------------------------------------------------

LIVE = [
    SparseVector(threshold=-(10**6), positives=2, numeric=0.5),
    Weights(updates=2, threshold=-(10**6)),
    Median(size=4, hard=5, accuracy=0.01, width=1.0),
]


def begun(recipe, seed=1):
    return recipe.prepare(DOMAIN, Guarantee(epsilon=0.01)).begin(COUNTS, 100.0, Secret.for_testing(seed))


def parts_of(live):
    return [live, live._noises, live._comparisons]


@pytest.mark.parametrize("recipe", LIVE, ids=lambda r: type(r).__name__)
@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, pickle.dumps], ids=lambda c: f"{c.__module__}.{c.__name__}"
)
def test_what_draws_noise_as_it_goes_is_neither_copied_nor_pickled(recipe, copied):
    for part in parts_of(begun(recipe)):
        with pytest.raises(ParameterError, match="neither copied nor pickled"):
            copied(part)


@pytest.mark.parametrize("recipe", LIVE, ids=lambda r: type(r).__name__)
def test_in_another_process_nothing_is_answered_and_nothing_drawn(recipe, monkeypatch):
    live, query = begun(recipe), np.arange(8) < 3
    before = live._noises.step, live.remaining
    home = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: home + 1)
    with pytest.raises(ParameterError, match="belongs to the process that opened it"):
        live.ask(query)
    with pytest.raises(ParameterError, match="belongs to the process that opened it"):
        live._noises.added("count", COUNTS, 1.0)
    assert (live._noises.step, live.remaining) == before
    monkeypatch.undo()
    live.ask(query)


@pytest.mark.parametrize("recipe", LIVE, ids=lambda r: type(r).__name__)
def test_at_one_step_equal_counts_of_two_questions_get_noise_of_their_own(recipe):
    """Two of a kind under one key, which ought never to be: every draw that belongs to a question depends on it."""
    equal = np.full(8, 100)
    streams = []
    for query in (np.arange(8) < 3, np.arange(8) >= 5):
        prepared = recipe.prepare(DOMAIN, Guarantee(epsilon=0.01))
        live = prepared.begin(equal, 100.0, Secret.for_testing(1))
        before, drawn = live._noises.secret, []
        live._noises.secret = Heard(before, drawn)
        live.ask(query)
        streams.append(drawn)
    assert len(streams[0]) == len(streams[1]) >= 1
    for one, two in zip(*streams, strict=True):
        assert one != two


class Heard:
    """A secret whose streams are noted by their first words."""

    def __init__(self, secret, drawn):
        self.secret, self.drawn = secret, drawn

    def words(self, *context):
        self.drawn.append(self.secret.words(*context).draw(2).tolist())
        return self.secret.words(*context)


def test_the_threshold_that_a_question_is_compared_with_is_a_part_of_it():
    found = []
    for threshold in (5, 6):
        live = SparseVector(threshold=threshold).prepare(DOMAIN, REPLACE).begin(COUNTS, 1.0, Secret.for_testing(1))
        live._noises.parameters = "the same"
        live._noises.secret = Heard(live._noises.secret, found)
        live.ask(np.arange(8) < 3, threshold)
    assert found[0] != found[1]


@pytest.mark.parametrize("recipe", LIVE, ids=lambda r: type(r).__name__)
def test_questions_of_several_threads_are_answered_one_at_a_time(recipe, monkeypatch):
    """A question that is within its draw keeps every other one out."""
    live, inside, done = begun(recipe), threading.Event(), threading.Event()
    original, order = Noises.words, []

    def slow(self, *arguments):
        order.append(threading.current_thread())  # and not its number, which the next thread may get
        if not inside.is_set():
            inside.set()
            done.wait(0.3)
        return original(self, *arguments)

    monkeypatch.setattr(Noises, "words", slow)
    threads = [threading.Thread(target=lambda: live.ask(np.arange(8) < 3)) for _ in range(2)]
    threads[0].start()
    assert inside.wait(60)
    threads[1].start()
    for thread in threads:
        thread.join(60)
    assert len(list(itertools.groupby(order))) == 2
