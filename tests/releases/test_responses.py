"""Randomized response as a mechanism: contract, audits with broken twins, refusals, and the analyst's release."""

import itertools
import math
from collections import Counter
from datetime import date

import numpy as np
import pyarrow as pa
import pytest

from sfumato.audit.bound import lower_bound
from sfumato.errors import ParameterError, ReleaseError
from sfumato.estimation import response_columns
from sfumato.estimation.response_law import Channel
from sfumato.files.open_table import open_table
from sfumato.mechanisms.responses import RandomizedResponse
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.privacy.losses import Composed, Pure, Response, Responses
from sfumato.randomness.secret import Secret, Words
from sfumato.releases.responses import ResponsesRelease
from sfumato.tables.columns import Category, Date, Flag, Id, Integer, Ordinal, Real, Set, Vector
from sfumato.tables.schema import Schema
from support.asked_kinds import KINDS
from support.asked_kinds import table as kinds_table
from support.rows import table_rows
from support.twins import secret_of

FLAGS = Schema([Flag("a"), Flag("b"), Flag("c")])
TINY = Schema([Flag("a"), Category("b", ["x", "y", "z"], missing="x"), Category("c", ["u", "v"])])
PEOPLE = Schema(
    [
        Id("who"),
        Flag("smoker", weight=2.0),
        Category("city", ["Bern", "Basel", "Biel"]),
        Category("room", [1, 2, 30], missing=2, weight=0.5),
    ]
)


PLACES = Schema(
    [
        Ordinal("o", ["low", "middle", "high"]),
        Integer("i", 3, 4, missing="level"),
        Flag("f", missing="level"),
        Category("c", ["u", "v"], missing="level"),
    ]
)


class Blocks:
    """An engine over encoded blocks in memory; by default each block begins where the last one ended."""

    def __init__(self, *blocks, position=None):
        self.blocks, self.position = [np.asarray(block, float) for block in blocks], position

    def map(self, function):
        starts = np.cumsum([0, *(block.shape[1] for block in self.blocks)])
        at = self.position or (lambda i: int(starts[i]))
        return (function(at(i), block) for i, block in enumerate(self.blocks))


def run(prepared, level, *blocks, seed=1, position=None, words=Words):
    published = prepared.run(Blocks(*blocks, position=position), level, secret_of(words, seed))
    assert published.matrix is None
    return np.concatenate(list(published.blocks), axis=1)


def encoded(schema, codes):
    """The encoded block of rows of codes."""
    return response_columns.encoded(schema, np.atleast_2d(codes).T)


def all_rows(schema):
    return list(itertools.product(*(range(a.categories) for a in response_columns.answers(schema))))


# ---- contract -------------------------------------------------------------------------------------------------------


def output_law(schema, epsilon, row):
    """The probability of every output, written out."""
    law = []
    for output in all_rows(schema):
        each = []
        for told, truth, answer in zip(output, row, response_columns.answers(schema), strict=True):
            each.append((math.exp(epsilon) if told == truth else 1.0) / (math.exp(epsilon) + answer.categories - 1))
        law.append(math.prod(each))
    return np.array(law)


UNITS = {
    "attribute": ({"unit": "attribute"}, TINY, lambda changed: changed <= 1),
    "box": ({}, TINY, lambda _changed: True),
    "l1": ({"change": Change.l1(2.5)}, FLAGS, lambda changed: changed <= 2),
    "value at a place": ({"unit": "attribute"}, PLACES, lambda changed: changed <= 1),
    "record of places": ({}, PLACES, lambda _changed: True),
}


@pytest.mark.parametrize("delta", [0.0, 0.02])
@pytest.mark.parametrize("kind", UNITS)
def test_no_neighbour_exceeds_the_stated_loss_and_one_attains_it(kind, delta):
    promise, schema, allowed = UNITS[kind]
    guarantee = Guarantee(epsilon=1.3, delta=delta, **promise)
    prepared = RandomizedResponse().prepare(schema, guarantee)
    level = calibrate(prepared, guarantee).level
    each, loss = prepared.epsilon_per_value(level), prepared.loss(level)
    laws = {row: output_law(schema, each, row) for row in all_rows(schema)}
    for epsilon in (0.0, 0.4, 1.0, 1.3):
        worst = 0.0
        for one, two in itertools.permutations(laws, 2):
            if allowed(sum(a != b for a, b in zip(one, two, strict=True))):
                worst = max(worst, float(np.maximum(laws[one] - math.exp(epsilon) * laws[two], 0).sum()))
        assert worst <= loss.delta(epsilon) + 1e-15
        assert worst == pytest.approx(loss.delta(epsilon), abs=1e-12)
    assert loss.delta(1.3) <= delta
    ratio = max(
        float(np.log(laws[a] / laws[b]).max())
        for a, b in itertools.permutations(laws, 2)
        if allowed(sum(x != y for x, y in zip(a, b, strict=True)))
    )
    assert (ratio <= 1.3 * (1 + 1e-12)) == (delta == 0)
    if delta == 0:
        assert ratio == pytest.approx(1.3, rel=1e-9)


def test_the_exact_profile_meets_composition_from_below():
    for categories in ((2,) * 40, (2, 3, 5) * 10, (7,) * 6):
        exact, grid = Responses(0.11, categories), Composed([Response(0.11, m) for m in categories])
        for epsilon in (0.05, 0.3, 1.0):
            assert exact.delta(epsilon) <= grid.delta(epsilon)
            assert exact.delta(epsilon) == pytest.approx(grid.delta(epsilon), rel=2e-3, abs=2e-12)
        assert exact.delta(0.11 * len(categories) * (1 + 1e-12)) == 0
        assert exact.delta(0.11 * len(categories) * (1 - 1e-3)) > 0
        assert exact.pld().get_delta_for_epsilon(0.3) == grid.pld().get_delta_for_epsilon(0.3)
    assert Responses(0.7, (4,)).delta(0.2) == pytest.approx(Response(0.7, 4).delta(0.2), rel=1e-10)


def test_pure_epsilons_add_up_and_delta_buys_more():
    schema, group = Schema([Flag(f"f{i}") for i in range(300)]), 3
    pure = RandomizedResponse().prepare(schema, Guarantee(epsilon=1.0, group=group))
    level = calibrate(pure, pure.guarantee).level
    assert 1 - 1e-10 < pure.epsilon_per_value(level) * 300 * group <= 1.0
    approximate = RandomizedResponse().prepare(schema, Guarantee(epsilon=1.0, delta=1e-6))
    bought = approximate.epsilon_per_value(calibrate(approximate, approximate.guarantee).level)
    assert 3.5 < bought * 300 < 4.5


def test_beyond_what_is_composed_pure_epsilons_are_added():
    wide = RandomizedResponse().prepare(FLAGS, Guarantee(epsilon=1.0, delta=1e-6, group=5000))
    loss = wide.loss(1000.0)
    assert isinstance(loss, Pure)
    assert 15_000 * 0.001 <= loss.epsilon <= 15_000 * 0.001 * (1 + 1e-12)


def test_the_value_with_the_fewest_answers_is_the_worst():
    prepared = RandomizedResponse().prepare(TINY, Guarantee(epsilon=1.0, unit="attribute"))
    for epsilon in (0.0, 0.3):
        deltas = [Response(1.0, m).delta(epsilon) for m in (2, 3, 5)]
        assert prepared.loss(1.0).delta(epsilon) == max(deltas) == deltas[0]
        assert sorted(deltas, reverse=True) == deltas


def test_a_huge_epsilon_is_cut_to_what_can_be_drawn():
    prepared = RandomizedResponse().prepare(FLAGS, Guarantee(epsilon=5000.0, unit="attribute"))
    level = calibrate(prepared, prepared.guarantee).level
    assert prepared.epsilon_per_value(level) == 700.0
    assert (run(prepared, level, encoded(FLAGS, [(1, 0, 1)])) == [[1], [0], [1]]).all()


# ---- audits ---------------------------------------------------------------------------------------------------------


def scores(outputs, first, second):
    """Exact log-likelihood ratios, in units of the epsilon of each value."""
    first, second = np.array(first)[:, None], np.array(second)[:, None]
    return ((outputs == first).sum(axis=0) - (outputs == second).sum(axis=0)).astype(float)


def refuted(prepared, level, first, second, epsilon, count=100_000, words=Words):
    """Whether many records with one truth, and as many with another, refute the claim."""
    schema = prepared.schema
    delta = prepared.guarantee.delta
    sides = []
    for seed, row in enumerate((first, second)):
        block = np.tile(encoded(schema, [row]), (1, count))
        sides.append(scores(run(prepared, level, block, seed=seed, words=words), first, second))
    found = lower_bound(*sides, delta=delta, confidence=1 - 1e-6)
    assert found.epsilon > 0.2 * epsilon, found
    return found.refutes(epsilon)


AUDITS = {
    "attribute": ({"unit": "attribute"}, TINY, (0, 0, 0), (1, 0, 0)),
    "category": ({"unit": "attribute"}, Schema([Category("c", list("abcde"), missing="a")]), (1,), (3,)),
    "record": ({}, TINY, (0, 0, 0), (1, 1, 1)),
    "record with delta": ({"delta": 0.01}, TINY, (0, 0, 0), (1, 1, 1)),
    "l1": ({"change": Change.l1(2)}, FLAGS, (0, 0, 0), (1, 1, 0)),
    "ordinal": ({"unit": "attribute"}, Schema([Ordinal("o", list("abcde"))]), (1,), (3,)),
    "integer": ({"unit": "attribute"}, Schema([Integer("i", -1, 2, missing="level")]), (0,), (4,)),
    "record of places": ({}, PLACES, (0, 0, 0, 0), (2, 2, 2, 2)),
}


@pytest.mark.parametrize("case", AUDITS)
def test_audits_pass_and_a_doubled_epsilon_is_caught(case):
    promise, schema, first, second = AUDITS[case]
    prepared = RandomizedResponse().prepare(schema, Guarantee(epsilon=1.5, **promise))
    level = calibrate(prepared, prepared.guarantee).level
    assert not refuted(prepared, level, first, second, 1.5)
    assert refuted(prepared, level / 2, first, second, 1.5)


class AsIfTwo(Words):
    """Tells the truth as often as if there were one other answer."""

    __slots__ = ()

    def respond(self, codes, categories, epsilon):
        return super().respond(codes, categories, epsilon + math.log(categories - 1))


@pytest.mark.parametrize("case", ["category", "ordinal", "integer"])
def test_a_value_answered_as_if_it_had_two_answers_is_caught(case):
    promise, schema, first, second = AUDITS[case]
    prepared = RandomizedResponse().prepare(schema, Guarantee(epsilon=1.5, **promise))
    level = calibrate(prepared, prepared.guarantee).level
    assert not refuted(prepared, level, first, second, 1.5)
    assert refuted(prepared, level, first, second, 1.5, words=AsIfTwo)


def test_a_record_answered_with_the_whole_epsilon_in_every_column_is_caught():
    prepared = RandomizedResponse().prepare(FLAGS, Guarantee(epsilon=1.5))
    level = calibrate(prepared, prepared.guarantee).level
    assert not refuted(prepared, level, (0, 0, 0), (1, 1, 1), 1.5)
    assert refuted(prepared, 1 / 1.5, (0, 0, 0), (1, 1, 1), 1.5)


@pytest.mark.parametrize("reused", [False, True])
def test_answers_reused_between_equal_blocks_are_caught(reused):
    """If the draws depended on a block's content alone, equal records would be answered equally."""
    schema = Schema([Flag(f"f{i}") for i in range(12)])
    prepared = RandomizedResponse().prepare(schema, Guarantee(epsilon=0.5, unit="attribute"))
    level = calibrate(prepared, prepared.guarantee).level
    same, other = np.zeros((12, 1)), np.eye(12)[:, :1]
    alike = []
    for side, pair in enumerate(((same, same), (same, other))):
        gaps = []
        for i in range(500):  # a key for each pair, so that only its two halves can share draws
            at = (lambda _i: 0) if reused else None
            out = run(prepared, level, *pair, seed=9000 * side + i, position=at)
            gaps.append(-np.count_nonzero(out[:, 0] != out[:, 1]))
        alike.append(np.array(gaps, float))
    assert lower_bound(*alike, confidence=1 - 1e-6).refutes(0.5) == reused


def test_a_retry_repeats_its_answers_and_another_place_level_or_content_does_not():
    prepared = RandomizedResponse().prepare(FLAGS, Guarantee(epsilon=1.0, unit="attribute"))
    block, other = np.zeros((3, 4000)), np.zeros((3, 4000))
    other[0, 0] = 1
    once = run(prepared, 1.0, block)
    assert (run(prepared, 1.0, block) == once).all()
    for again in (
        run(prepared, 1.0, block, position=lambda _i: 5),
        run(prepared, 1.0 + 1e-12, block),
        run(prepared, 1.0, other),
        run(prepared, 1.0, block, seed=2),
    ):
        assert abs(np.corrcoef(once.ravel(), again.ravel())[0, 1]) < 6 / math.sqrt(once.size)


# ---- cells ----------------------------------------------------------------------------------------------------------


def test_every_number_gets_a_code_of_its_own_cell():
    wild = [math.nan, math.inf, -math.inf, -3.0, 0.0, 0.49, 0.5, 1.0, 7.0, 1e308]
    rng = np.random.default_rng(1)
    block = rng.choice(wild, (7, 20_000))
    codes = response_columns.codes(PEOPLE, block)
    assert (codes >= 0).all()
    assert (codes.max(axis=1) == [1, 3, 2]).all()
    changed = block.copy()
    changed[1:4] = rng.choice(wild, (3, 20_000))
    assert (response_columns.codes(PEOPLE, changed)[[0, 2]] == codes[[0, 2]]).all()


def test_missing_and_unknown_cells_become_what_the_schema_says():
    table = pa.table(
        {
            "who": ["p", "q", "r", "s"],
            "smoker": [True, None, False, True],
            "city": ["Basel", None, "Paris", "Bern"],
            "room": [30, None, 99, 1],
        }
    )
    codes = response_columns.codes(PEOPLE, PEOPLE.encode(table.to_batches()[0]))
    assert codes.tolist() == [[1, 0, 0, 1], [1, 3, 3, 0], [2, 1, 1, 0]]
    assert (response_columns.codes(PEOPLE, np.full((7, 1), math.nan)).T == [0, 3, 1]).all()
    half = np.array([math.nan, math.nan, 1.0, 0.0, math.nan, -1.0, math.inf])[:, None]
    assert (response_columns.codes(PEOPLE, half).T == [0, 1, 2]).all()


ASKED = Schema(c for c in KINDS.data_columns if c.kind in ("integer", "ordinal", "flag", "category"))


def test_every_code_is_that_of_its_encoded_cell():
    rng = np.random.default_rng(2)
    for schema in (PEOPLE, PLACES, ASKED):
        sizes = [answer.categories for answer in response_columns.answers(schema)]
        codes = np.array([rng.integers(size, size=500) for size in sizes])
        assert (response_columns.codes(schema, response_columns.encoded(schema, codes)) == codes).all()


def test_cells_of_every_kind_become_codes_and_missing_ones_a_code_of_their_own():
    codes = response_columns.codes(ASKED, ASKED.encode(kinds_table()))
    found = dict(zip((column.name for column in ASKED.data_columns), codes.tolist(), strict=True))
    assert found["age"] == [39, 40, 41, 40, 0, 120, 40, 41]
    assert found["children"] == [0, 1, 2, 10, 9, 0, 9, 4]
    assert found["education"] == [0, 1, 2, 3, 1, 1, 3, 0]
    assert found["stage"] == [0, 1, 2, 3, 3, 1, 0, 2]
    assert found["smoker"] == [1, 0, 2, 1, 0, 2, 1, 0]
    assert found["city"] == [0, 1, 2, 2, 0, 1, 0, 2]
    assert found["sex"] == [0, 1, 2, 2, 0, 1, 0, 1]
    kept = Schema([Category("c", ["u", "v"], missing="level")])
    assert response_columns.codes(kept, np.zeros((3, 1))).tolist() == [[2]]  # no value at all is a missing one


def test_a_cell_changes_the_code_of_its_own_column_and_row_alone():
    rng, wild = np.random.default_rng(3), [math.nan, math.inf, -math.inf, -3.0, 0.49, 0.5, 1.0, 7.2, 1e308]
    block, start = rng.choice(wild, (ASKED.encoding.dim, 2000)), 0
    codes = response_columns.codes(ASKED, block)
    sizes = np.array([answer.categories for answer in response_columns.answers(ASKED)])
    assert ((codes >= 0) & (codes < sizes[:, None])).all()
    for i, column in enumerate(ASKED.data_columns):
        other = block.copy()
        other[start : start + column.width, 7] = rng.choice(wild, column.width)
        moved = response_columns.codes(ASKED, other) != codes
        moved[i, 7] = False
        assert not moved.any()
        start += column.width


def test_one_row_and_bad_cells_are_answered():
    prepared = RandomizedResponse().prepare(PEOPLE, Guarantee(epsilon=1.0, unit="attribute"))
    for value in (math.nan, math.inf, -1e300):
        out = run(prepared, 1.0, np.full((7, 1), value))
        assert out.shape == (3, 1)
        assert out.dtype == np.int32
    assert run(prepared, 1.0, np.empty((7, 0))).shape == (3, 0)
    with pytest.raises(ParameterError, match=r"\(7, rows\)"):
        run(prepared, 1.0, np.zeros((6, 2)))


@pytest.mark.slow
def test_many_values_need_wider_codes():
    schema = Schema([Category("c", list(range(40_000)))])
    prepared = RandomizedResponse().prepare(schema, Guarantee(epsilon=20.0, unit="attribute"))
    out = run(prepared, 1 / 20.0, encoded(schema, [(39_999,)]))
    assert out.dtype == np.int32


def test_threads_and_engines_do_not_change_a_release():
    prepared = RandomizedResponse().prepare(FLAGS, Guarantee(epsilon=1.0, unit="attribute"))
    data = np.random.default_rng(3).integers(0, 2, (200_000, 3)).astype(float)
    table = open_table(data, FLAGS)
    runs = [
        np.concatenate(
            list(prepared.run(table_rows(table, FLAGS, threads=t), 1.0, Secret.for_testing(1)).blocks), axis=1
        )
        for t in (1, 3)
    ]
    assert (runs[0] == runs[1]).all()


# ---- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "promise", "named"),
    [
        (Schema([Flag("a"), Real("age", 0, 120)]), {}, "'age' is of kind real"),
        (Schema([Flag("a"), Date("d", date(2020, 1, 1), date(2021, 1, 1))]), {}, "'d' is of kind date: set levels"),
        (Schema([Flag("a"), Vector("v", 3, 0, 1)]), {}, "'v' is of kind vector: leave it out, or use a sketch"),
        (Schema([Flag("a"), Set("s", ["x", "y"], most=1)]), {}, "declare the items that matter as flags"),
        (Schema([Flag("a"), Integer("i", 0, 256)]), {}, "at most 256 answers a column, and 'i' has 257"),
        (Schema([Flag("a"), Integer("i", 1, 256, missing="level")]), {}, "'i' has 257"),
        (Schema([Flag("a"), Ordinal("o", list("ab"))]), {"change": Change.l1(1.0)}, "flags of weight 1"),
        (Schema([Flag("a", missing="level")]), {"change": Change.l1(1.0)}, "flags of weight 1"),
        (Schema([Flag("a"), Integer("i", 0, 1)]), {"change": Change.l1(1.0)}, "flags of weight 1"),
        (Schema([Category("c", ["x"], missing="x")]), {}, "'c' can have one answer"),
        (Schema([Flag("a")], norm="l2", norm_bound=1.0), {}, "without a clip"),
        (FLAGS, {"unit": "edge"}, "unit='edge'"),
        (FLAGS, {"neighbours": "add-remove"}, "neighbours='add-remove'"),
        (FLAGS, {"change": Change.l2(1.0)}, "change='l2'"),
        (FLAGS, {"change": Change.l2(1.0), "delta": 0.1, "projection": "fresh"}, "projection='fresh'"),
        (FLAGS, {"change": Change.l1(0.9)}, "radius=0.9"),
        (TINY, {"change": Change.l1(1.0)}, "flags of weight 1"),
        (Schema([Flag("a", weight=2.0)]), {"change": Change.l1(1.0)}, "flags of weight 1"),
    ],
)
def test_what_answers_cannot_promise_is_refused_in_one_line(schema, promise, named):
    with pytest.raises(ParameterError) as caught:
        RandomizedResponse().prepare(schema, Guarantee(**({"epsilon": 1.0} | promise)))
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("radius", "flags"), [(1.0, 1), (1.9, 1), (2.0, 2), (9.0, 3)])
def test_a_ball_holds_as_many_changed_flags_as_its_radius_or_as_there_are(radius, flags):
    prepared = RandomizedResponse().prepare(FLAGS, Guarantee(epsilon=1.0, change=Change.l1(radius)))
    assert prepared.changed == (2,) * flags


def test_an_epsilon_too_small_to_draw_is_refused():
    prepared = RandomizedResponse().prepare(FLAGS, Guarantee(epsilon=1e-9))
    level = calibrate(prepared, prepared.guarantee).level
    with pytest.raises(ParameterError, match="epsilon=1e-09"):
        run(prepared, level, np.zeros((3, 2)))


# ---- the release ----------------------------------------------------------------------------------------------------


def released(schema, codes, epsilon=1.0, ids=None, secret=7):
    """A release of rows of codes, at this epsilon for each value, as the pipeline will make it."""
    guarantee = Guarantee(epsilon=epsilon, unit="attribute")
    prepared = RandomizedResponse().prepare(schema, guarantee)
    level = calibrate(prepared, guarantee).level
    out = run(prepared, level, encoded(schema, codes), seed=secret)
    manifest = {"guarantee": guarantee.to_dict(), "schema": schema.to_dict(), "rows": len(codes)}
    return ResponsesRelease(manifest | prepared.facts(level), out, None, ids)


def test_facts_state_the_chance_of_the_truth():
    prepared = RandomizedResponse().prepare(PEOPLE, Guarantee(epsilon=1.0, unit="attribute"))
    facts = prepared.facts(0.5)["mechanism"]
    assert facts["name"] == "responses"
    assert facts["epsilon_per_value"] == 2.0
    assert facts["keep"] == pytest.approx([math.exp(2) / (math.exp(2) + m - 1) for m in (2, 4, 3)])
    assert facts["keep"][1] == Channel(2.0, 4).keep


def test_a_release_answers_in_the_schemas_own_values_and_units():
    codes = np.array([(1, 0, 2), (0, 3, 1), (1, 0, 0), (1, 2, 2)])
    release = released(PEOPLE, codes, epsilon=60.0, ids=pa.array(["p", "q", "r", "s"]))
    assert release.table().to_pylist() == [
        {"who": "p", "smoker": True, "city": "Bern", "room": 30},
        {"who": "q", "smoker": False, "city": None, "room": 2},
        {"who": "r", "smoker": True, "city": "Bern", "room": 1},
        {"who": "s", "smoker": True, "city": "Biel", "room": 30},
    ]
    weights = PEOPLE.encoding.weights
    exact = encoded(PEOPLE, codes).T * weights
    assert np.allclose(release.array(), exact)
    assert release.distance(0, 1).value == pytest.approx(((exact[0] - exact[1]) ** 2).sum())
    assert np.allclose(
        release.distances([0, 2], [3, 1]).value, [1.0, 4 + 1 / 2 + 1 / 4]
    )  # by bounds, a category that differs counts 1
    assert np.allclose(release.norm([0, 1]).value, (exact[:2] ** 2).sum(axis=1))
    assert np.allclose(release.inner_product([0, 0], [1, 3]).value, (exact[[0, 0]] * exact[[1, 3]]).sum(axis=1))
    public = pa.table({"who": ["x"], "smoker": [False], "city": ["Bern"], "room": [1]})
    target = encoded(PEOPLE, [(0, 0, 0)]).T * weights
    assert np.allclose(release.distances_to([0, 1, 2, 3], public).value, ((exact - target) ** 2).sum(axis=1))
    assert release.nearest(0, k=3).indices.tolist() == [2, 3, 1]
    assert release.rows == 4
    assert "responses of 4 records" in repr(release)
    assert release.guarantee.epsilon == 60.0


def test_answers_at_places_come_back_in_their_own_types_and_distances():
    codes = np.array([(0, 0, 0, 0), (2, 1, 1, 1), (1, 2, 2, 2), (0, 1, 2, 0)])
    release = released(PLACES, codes, epsilon=60.0)
    assert release.table().to_pylist() == [
        {"o": "low", "i": 3, "f": False, "c": "u"},
        {"o": "high", "i": 4, "f": True, "c": "v"},
        {"o": "middle", "i": None, "f": None, "c": None},
        {"o": "low", "i": 4, "f": None, "c": "u"},
    ]
    assert release.table().schema.field("i").type == pa.int64()
    exact = encoded(PLACES, codes).T * PLACES.encoding.weights
    assert np.allclose(release.array(), exact)
    gaps = ((exact[:3] - exact[1:]) ** 2).sum(axis=1)
    assert np.allclose(release.distances([0, 1, 2], [1, 2, 3]).value, gaps)
    assert release.distance(0, 1).value == pytest.approx(4.0)  # every column at its farthest: 1 each, by bounds
    assert np.allclose(release.norm([0, 1, 2]).value, (exact[:3] ** 2).sum(axis=1))
    assert np.allclose(release.inner_product([0, 2], [1, 3]).value, (exact[[0, 2]] * exact[[1, 3]]).sum(axis=1))
    public = pa.table({"o": ["middle"], "i": [3], "f": [None], "c": ["v"]})
    target = encoded(PLACES, [(1, 0, 2, 1)]).T * PLACES.encoding.weights
    assert np.allclose(release.distances_to([0, 1, 2], public).value, ((exact[:3] - target) ** 2).sum(axis=1))


def test_shares_of_answers_are_found_through_the_noise():
    rng, rows = np.random.default_rng(6), 40_000
    codes = np.stack([rng.choice(3, rows, p=[0.6, 0.3, 0.1]) for _ in PLACES.data_columns], axis=1)
    shares = released(PLACES, codes, epsilon=2.0).shares()
    assert list(shares)[:7] == ["o=low", "o=middle", "o=high", "i=3", "i=4", "i=(missing)", "f=False"]
    assert list(shares)[-3:] == ["c=u", "c=v", "c=(missing)"]
    assert np.allclose(list(shares.values()), [0.6, 0.3, 0.1] * 4, atol=0.03)
    flags = released(FLAGS, np.ones((rows, 3), int), epsilon=2.0)
    assert list(flags.shares()) == ["a", "b", "c"]
    assert np.allclose(list(flags.shares().values()), flags.array().mean(axis=0))


def test_weights_of_distances_are_those_of_the_scale():
    for scale in ("bounds", "raw"):
        schema = Schema([Ordinal("o", list("abcde"), weight=3.0), Category("c", ["u", "v"], missing="u")], scale=scale)
        release = released(schema, [(0, 0), (4, 1), (2, 0)], epsilon=60.0)
        far, near = (9.0 + 1, 9 / 4) if scale == "bounds" else (16 * 9 + 2, 4 * 9)
        assert np.allclose(release.distances([0, 0], [1, 2]).value, [far, near])
        assert release.questionnaire.between().most == pytest.approx(far)


def test_neighbours_and_clusters_are_found_through_the_noise():
    rng = np.random.default_rng(4)
    schema = Schema([Flag(f"f{i}") for i in range(120)] + [Category(f"c{i}", list("abc")) for i in range(40)])
    centres = np.array([[rng.integers(a.categories) for a in response_columns.answers(schema)] for _ in range(3)])
    groups = rng.integers(0, 3, 150)
    release = released(schema, centres[groups], epsilon=1.5)
    near = release.nearest(0, k=20)
    assert (groups[near.indices] == groups[0]).mean() > 0.9
    assert (np.diff(near.distances.value) >= 0).all()
    labels = release.cluster(3).labels
    assert sum(max(Counter(groups[labels == c]).values(), default=0) for c in range(3)) > 0.95 * 150


def test_hamming_and_jaccard_are_for_flags():
    schema = Schema([Flag(f"f{i}") for i in range(200)])
    codes = np.random.default_rng(5).integers(0, 2, (2, 200))
    release = released(schema, codes, epsilon=3.0)
    apart = (codes[0] != codes[1]).sum()
    low, high = release.hamming(0, 1).interval(0.999)
    assert low[0] <= apart <= high[0]
    both, either = (codes[0] & codes[1]).sum(), (codes[0] | codes[1]).sum()
    low, high = release.jaccard(0, 1).interval(0.999)
    assert low[0] <= both / either <= high[0]
    for question in ("hamming", "jaccard"):
        with pytest.raises(ReleaseError, match="flags only"):
            getattr(released(PEOPLE, [(1, 0, 2), (0, 3, 1)]), question)(0, 1)


def test_questions_that_make_no_sense_are_refused():
    release = released(PEOPLE, [(1, 0, 2), (0, 3, 1), (1, 1, 1)])
    for question, named in (
        (lambda: release.distance(0, 0), "two records must differ"),
        (lambda: release.distances([0], [1, 2]), "same length"),
        (lambda: release.distance(0, 3), "0 to 2"),
        (lambda: release.norm([0.5]), "integers"),
        (lambda: release.nearest(0, k=3), "k=3"),
    ):
        with pytest.raises(ParameterError, match=named):
            question()


def test_answers_that_the_schema_does_not_allow_are_refused():
    release = released(PEOPLE, [(1, 0, 2), (0, 3, 1)])
    for bad in (np.full((3, 2), 4), np.zeros((2, 2), int), np.zeros((3, 2)), np.full((3, 2), -1)):
        with pytest.raises(ReleaseError, match="answers"):
            ResponsesRelease(release.manifest, bad)
