"""Tapes see every draw of every mechanism, and say so where words are taken in any other way."""

import inspect
import pickle

import numpy as np
import pytest

from sfumato.answering.median import Median
from sfumato.answering.mwem import MWEM
from sfumato.answering.workload import marginals
from sfumato.audit import recorder
from sfumato.audit.block_rows import Copies
from sfumato.audit.cases import RELEASES
from sfumato.audit.grey_box import greybox
from sfumato.audit.recorder import Tape, TapeWords
from sfumato.audit.worst_pairs import candidates, recorded_pair
from sfumato.errors import ParameterError
from sfumato.files.edges import open_edges
from sfumato.mechanisms.graph_pairs import EdgeResponse
from sfumato.mechanisms.sketch import PreparedSketch, Sketch
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.guarantee import Guarantee
from sfumato.queries.domain import Domain
from sfumato.randomness import idealized, noise, randomized_choice
from sfumato.randomness.secret import Secret, Words
from sfumato.tables.columns import Flag
from sfumato.tables.schema import Schema

SCORES, CODES = np.array([3, 1, 4]), np.array([0, 2, 1])
LINE = Schema.reals(2, low=0.0, high=1.0)
EDGES = np.array([[0, 1, 0.3], [1, 2, 1.0]])
COUNTS = np.array([400, 3, 9, 20])
DOMAIN = Domain.of(Schema((Flag("a"), Flag("b"))))

# Each way to draw, and what is on the tape of it: noise, answers and choices, then what protects nothing by itself.
WAYS = {
    "laplace": (lambda words: words.laplace(3, 9.0), ["laplace"], []),
    "discrete_laplace": (lambda words: words.discrete_laplace(3, 9.0), ["discrete laplace"], []),
    "gaussian": (lambda words: words.gaussian(3, 9.0), ["gaussian"], []),
    "respond": (lambda words: words.respond(CODES, 3, 1.0), ["response"], []),
    "choose": (lambda words: words.choose(SCORES.tolist(), 0.5), ["choice"], []),
    "choose_repeated": (lambda words: words.choose_repeated(SCORES, np.ones(3, np.int64), 0.5), ["choice"], []),
    "flip": (lambda words: words.flip(SCORES.tolist(), 0.5), ["flips"], []),
    "coins": (lambda words: words.coins(SCORES, 3), [], ["coins"]),
    "uniform": (lambda words: words.uniform(4, 6), [], ["uniform"]),
    "geometric": (lambda words: words.geometric(), [], ["geometric"]),
    "normals": (lambda words: words.normals(5), [], ["normals"]),
    "key": (lambda words: words.key(), [], ["key"]),
}
NOISE = ("laplace", "discrete_laplace", "gaussian")
SELECTIONS = {
    "exponential": (["choice"], []),
    "permute-and-flip": (["flips"], []),
    "noisy-max": (["laplace"], ["uniform"]),
}


def laws(tape):
    return [draw.law for draw in tape.draws.values()], [draw.law for draw in tape.beside.values()]


def stream(tape, *integers):
    return recorder.secret(tape).words("stage", 7, *integers)


def raw(tape):
    return [fault for fault in tape.faults if "taken raw" in fault]


def test_every_method_that_draws_has_a_line_here():
    methods = {name for name, _ in inspect.getmembers(Words, inspect.isfunction) if not name.startswith("_")}
    assert methods == WAYS.keys() | {"select", "fill", "draw", "more"}


@pytest.mark.parametrize("name", WAYS)
def test_every_draw_is_on_the_tape_and_is_what_the_stream_gives(name):
    draw, protecting, beside = WAYS[name]
    tape = Tape()
    drawn = draw(stream(tape, SCORES))
    assert np.array_equal(drawn, draw(Secret.for_testing(1).words("stage", 7)))
    assert laws(tape) == (protecting, beside)
    assert tape.faults == []
    for found in (*tape.draws.values(), *tape.beside.values()):
        assert found.place == ("stage", "7")
    for found in tape.draws.values():
        assert np.array_equal(found.fed, CODES if name == "respond" else SCORES)
        offset = found.fed if name in NOISE else 0
        assert np.array_equal(found.came, np.atleast_1d(drawn) + offset)


@pytest.mark.parametrize("method", SELECTIONS)
def test_a_selection_is_on_the_tape_as_what_it_is_made_of(method):
    tape = Tape()
    words = stream(tape, SCORES)
    plain = Secret.for_testing(1).words("stage", 7)
    terms = {"epsilon": 1.0, "sensitivity": 1, "method": method}
    assert words.select(SCORES, **terms) == plain.select(SCORES, **terms)
    assert (laws(tape), tape.faults) == (SELECTIONS[method], [])


@pytest.mark.parametrize("name", WAYS)
def test_a_replay_settles_what_protects_and_nothing_else(name):
    """On other integers the same outcome comes, of noise, answers and choices; coins and the like are as tossed."""
    draw, protecting, _ = WAYS[name]
    tape = Tape()
    again = tape.replay()
    other = SCORES + np.array([1, 0, 2])
    one, two = draw(stream(tape, SCORES)), draw(stream(again, other))
    if name in NOISE:
        assert np.array_equal(SCORES + one, other + two)
    else:
        assert np.array_equal(one, two)
    assert (again.faults, again.missing()) == ([], [])
    lost = tape.replay()
    assert len(lost.missing()) == 1
    assert "is no longer there" in lost.missing()[0]
    assert laws(tape)[0] == protecting


def test_coins_are_not_settled():
    tape = Tape()
    again = tape.replay()
    low, high = np.zeros(3, np.int64), np.full(3, 8)
    assert stream(tape, low).coins(low, 3).tolist() == [0, 0, 0]
    assert stream(again, high).coins(high, 3).tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (lambda words: words.normals(5), lambda words: words.normals(6)),
        (lambda words: words.uniform(4, 6), lambda words: words.uniform(4, 5)),
        (lambda words: words.uniform(4, 6), lambda words: words.uniform(3, 6)),
        (lambda words: words.key(), lambda words: words.geometric()),
        (lambda words: words.coins(SCORES, 3), lambda words: words.coins(SCORES, 4)),
    ],
)
def test_a_draw_beside_the_noise_whose_kind_changes_is_a_fault(before, now):
    tape = Tape()
    again = tape.replay()
    before(stream(tape))
    now(stream(again))
    assert len(again.faults) == 1
    assert "had another law, scale or size before" in again.faults[0]


# ---- words that are taken in any other way ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "take",
    [
        lambda words: words.draw(3),
        lambda words: words.fill(np.empty(3, np.int64)),
        lambda words: words.more(0, 0),
        lambda words: noise.laplace(words, 3, 9.0),
        lambda words: noise.gaussian(words, 3, 9.0),
        lambda words: randomized_choice.respond(words, CODES, 3, 1.0),
        lambda words: randomized_choice.coins(words, CODES, 2),
        lambda words: idealized.normals(words, 3),
        lambda words: Words.laplace(words, 3, 9.0),
    ],
)
def test_words_taken_past_the_methods_are_a_fault(take):
    """So a mechanism that imports a sampler by name escapes no tape."""
    tape = Tape()
    words = stream(tape, SCORES)
    words.laplace(3, 9.0)
    assert tape.faults == []
    take(words)
    assert set(tape.faults) == {"words of 'stage' are taken raw: what they are for is not on the tape"}


def test_words_are_raw_again_after_a_draw_that_failed():
    tape = Tape()
    words = stream(tape, SCORES)
    with pytest.raises(ParameterError):
        words.laplace(3, -1.0)
    words.draw(1)
    assert len(raw(tape)) == 1


def test_a_method_that_no_tape_knows_is_a_fault():
    class Newer(TapeWords):
        __slots__ = ()

        def poisson(self):
            return int(self.draw(1)[0])

    tape = Tape()
    Newer(bytes(32), tape, ("stage",), None).poisson()
    assert len(raw(tape)) == 1


@pytest.mark.parametrize("sampler", [lambda w, size: noise.laplace(w, size, 9.0), lambda w, size: w.draw(size) % 9])
def test_a_mechanism_with_noise_of_its_own_making_is_caught(sampler, monkeypatch):
    """In the grey box by what it publishes, too; in audits of draws as a fault."""
    run = PreparedSketch.run

    def own(self, rows, level, secret):
        published = run(self, rows, level, secret)
        drawn = sampler(secret.words("sketch more"), 1)
        blocks = (block + drawn for block in published.blocks)
        return type(published)(published.facts, published.names, blocks, published.matrix)

    monkeypatch.setattr(PreparedSketch, "run", own)
    tables = np.array([[1.0, 0.0]]), np.array([[0.0, 0.0]])
    found = greybox(*tables, schema=LINE, mechanism=Sketch(), guarantee=Guarantee(epsilon=1.0))
    assert found.faults == ("words of 'sketch' are taken raw: what they are for is not on the tape",)
    prepared = Sketch().prepare(LINE, Guarantee(epsilon=1.0))
    with pytest.raises(AssertionError, match="taken raw"):
        recorded_pair(prepared, 1.0, tuple(t.T for t in tables))


def test_a_mechanism_that_publishes_its_coins_is_caught(monkeypatch):
    """They are on the tape, but nothing stands for them: what they show of the data shows."""

    def tossed(_self, graph, _epsilon, secret, *, weighted):
        del weighted
        steps = np.full(3, 1 << 20) * (len(graph.steps) > 1)
        yield secret.words("edge rounding", steps).coins(steps, 20).astype(np.int8)[None]

    recipe, promise = EdgeResponse(vertices=3), Guarantee(epsilon=1.0, unit="edge")
    assert greybox(EDGES, EDGES[:1], schema=None, mechanism=recipe, guarantee=promise).passed
    monkeypatch.setattr("sfumato.mechanisms.graph_pairs.PreparedEdgeResponse._blocks", tossed)
    found = greybox(EDGES, EDGES[:1], schema=None, mechanism=recipe, guarantee=promise)
    assert any(fault.startswith("data.parquet depends on the data") for fault in found.faults)


# ---- every mechanism -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", RELEASES, ids=lambda case: case.name)
def test_every_word_that_a_mechanism_takes_belongs_to_a_draw_on_the_tape(case):
    guarantee = Guarantee(epsilon=1.0, **case.promise)
    prepared = case.mechanism(1.0).prepare(case.schema, guarantee)
    tape, level = Tape(), calibrate(prepared, guarantee).level
    rows = open_edges(EDGES) if case.schema is None else Copies(next(candidates(prepared))[0])
    for _ in prepared.run(rows, level, recorder.secret(tape)).blocks:
        pass
    assert tape.faults == []
    drawn = {draw.place for draw in (*tape.draws.values(), *tape.beside.values())}
    assert drawn == tape._streams != set()


def rounding(secret):
    prepared = EdgeResponse(weighted=True).prepare(None, Guarantee(epsilon=1.0, unit="edge"))
    list(prepared.run(open_edges(EDGES), 1.0, secret).blocks)


def agreeing(secret):
    prepared = Median(size=2, hard=1).prepare(DOMAIN, Guarantee(epsilon=9.0))
    prepared.begin(COUNTS, 0.2, secret).ask(np.array([True, False, True, False]))


def selecting(secret):
    recipe = MWEM(workload=marginals(DOMAIN, 1), rounds=1, selection="noisy-max")
    recipe.prepare(DOMAIN, Guarantee(epsilon=1.0)).make(COUNTS, 0.2, secret)


@pytest.mark.parametrize(("run", "law"), [(rounding, "coins"), (agreeing, "geometric"), (selecting, "uniform")])
def test_what_draws_beside_its_noise_has_that_on_the_tape(run, law):
    tape = Tape()
    run(recorder.secret(tape))
    assert set(laws(tape)[1]) == {law}
    assert tape.draws
    assert tape.faults == []


# ---- the secret of a tape --------------------------------------------------------------------------------------------


def test_a_tape_leaves_other_streams_alone():
    before = Secret.for_testing(1).words("x").laplace(5, 9.0)
    stream(Tape(), SCORES).laplace(3, 9.0)
    assert np.array_equal(Secret.for_testing(1).words("x").laplace(5, 9.0), before)
    assert type(Secret.for_testing(1).words("x")) is Words


@pytest.mark.parametrize("made", [recorder.secret(Tape()), recorder.TapeSecret.fresh()])
def test_the_secret_of_a_tape_is_never_protected(made):
    assert made.protected is False


def test_what_is_made_of_the_secret_of_a_tape_records_on_it():
    tape, told = Tape(), []
    made = recorder.secret(tape).announced(lambda: told.append("drawn"))
    made.words("one", SCORES).laplace(3, 9.0)
    made.twin().words("two", SCORES).laplace(3, 9.0)
    assert [draw.place for draw in tape.draws.values()] == [("one",), ("two",)]
    assert told == ["drawn", "drawn"]


def test_the_secret_of_a_tape_does_not_travel():
    """What another process draws would not be on the tape."""
    with pytest.raises(ParameterError, match="stays in one process"):
        pickle.dumps(recorder.secret(Tape()))
