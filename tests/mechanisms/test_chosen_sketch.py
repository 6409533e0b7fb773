"""A dimension chosen from private data: exact choices, what one record can move, an audit with broken twins."""

import math

import numpy as np
import pytest

from sfumato.audit.bound import lower_bound
from sfumato.errors import ParameterError
from sfumato.files.open_table import open_table
from sfumato.mechanisms.chosen_sketch import ChosenSketch
from sfumato.mechanisms.sketch import Sketch
from sfumato.pipeline.release import release
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import private_selection
from sfumato.randomness.secret import Secret, Words
from sfumato.tables.schema import Schema
from support.evidence import agrees
from support.rows import table_rows
from support.twins import TwiceTheEpsilon, secret_of

BOX = Schema.reals(16, low=0, high=1)
PROMISE = Guarantee(epsilon=2.0, unit="attribute")


# ---- the exponential mechanism --------------------------------------------------------------------------------------


def picks(scores, rate, count, **more):
    return np.array([Secret.for_testing(i).words("pick").choose(scores, rate, **more) for i in range(count)])


@pytest.mark.parametrize(("scores", "rate"), [([0, 0], 1.0), ([3, 1, 0], 0.4), ([0, 5], 0.1)])
def test_choices_have_the_stated_probabilities(scores, rate):
    weights = np.exp(rate * np.array(scores))
    found = picks(scores, rate, 6000)
    for i, probability in enumerate(weights / weights.sum()):
        assert agrees((found == i).astype(float), probability)
        assert not agrees((found == i).astype(float), probability * 1.2)


def test_scores_may_be_in_fractions():
    assert (picks([7 << 20, 9 << 20], 0.5, 50, bits=20) == picks([7, 9], 0.5, 50)).all()


def test_a_draw_that_64_bits_leave_open_is_settled_by_further_ones():
    """Three equal scores end at 1/3 and 2/3; a first word of all 01 bits agrees with 1/3 to the last of its bits."""

    class Rigged:
        position = 0

        def __init__(self, further):
            self.further = further

        def draw(self, size):
            return np.full(size, 0x5555555555555555, np.uint64).view(np.int64)

        def more(self, _index, _turn):
            return self.further

    assert private_selection.choose(Rigged(0), [1, 1, 1], 1.0) == 0
    assert private_selection.choose(Rigged((1 << 64) - 1), [1, 1, 1], 1.0) == 1


def test_a_far_better_score_always_wins():
    assert set(picks([0, 10_000], 1.0, 20)) == {1}


# ---- the mechanism --------------------------------------------------------------------------------------------------


def prepared(**facts):
    return ChosenSketch(**({"choice": 0.5} | facts)).prepare(BOX, PROMISE)


def scores(rows, mechanism, level=1.0):
    return table_rows(open_table(rows, BOX), BOX).sum(mechanism._scorer(level)) / 2**20


def test_the_parts_of_epsilon_add_up():
    mechanism = prepared()
    level = calibrate(mechanism, PROMISE).level
    assert level == pytest.approx(1 / 1.5, rel=1e-9)
    assert mechanism.loss(level).delta(2.0) == 0
    assert mechanism.loss(level * 0.999).delta(2.0) > 0


def test_no_record_moves_a_score_by_more_than_one():
    rng, mechanism = np.random.default_rng(3), prepared()
    worst = 0.0
    for _ in range(200):
        rows = rng.random((rng.integers(2, 7), 16)) * rng.choice([0.01, 1.0])
        other = rows.copy()
        other[rng.integers(len(rows))] = rng.choice([0.0, 1.0, np.nan, np.inf, -5.0], 16)
        worst = max(worst, float(np.abs(scores(rows, mechanism) - scores(other, mechanism)).max()))
    assert 0.5 < worst <= 1.0


def test_a_pair_scores_between_zero_and_one_and_the_best_dimension_scores_one():
    found = scores(np.vstack([np.zeros(16), np.ones(16)]), prepared())
    assert found.max() == 1.0
    assert (found > 0).all()
    assert (scores(np.zeros((1, 16)), prepared()) == 0).all()


def test_blocks_of_any_size_pair_the_same_records():
    rng = np.random.default_rng(4)
    rows, mechanism = rng.random((64, 16)), prepared()
    score = mechanism._scorer(1.0)
    whole = score(0, rows.T)
    assert (whole == score(0, rows[:20].T) + score(20, rows[20:].T)).all()
    assert (score(1, rows[1:].T) == score(0, rows[2:].T)).all()  # an odd start leaves the cut pair out


def test_near_records_choose_few_columns_and_distant_ones_many():
    rng = np.random.default_rng(5)
    near, far = 1e-3 * rng.random((400, 16)), rng.integers(0, 2, (400, 16)).astype(float)
    promise = Guarantee(epsilon=8.0, unit="attribute")
    found = [
        release(rows, schema=BOX, mechanism=ChosenSketch(choice=2.0), guarantee=promise).dimension
        for rows in (near, far)
    ]
    assert found[0] <= 2 < found[1]


def test_the_manifest_says_what_the_choice_cost():
    made = release(np.zeros((10, 16)), schema=BOX, mechanism=ChosenSketch(choice=0.5), guarantee=PROMISE)
    assert made.manifest["mechanism"]["choice"]["epsilon"] == 0.5
    assert made.dimension in made.manifest["mechanism"]["choice"]["candidates"]
    assert made.guarantee == PROMISE


@pytest.mark.parametrize("width", [1e-99, 1e-79, 2e77, 1e90, 1e99])
def test_no_range_makes_a_score_or_an_error_depend_on_cells(width):
    schema, promise = Schema.reals(4, low=0.0, high=width), Guarantee(epsilon=100.0, unit="attribute")
    mechanism = ChosenSketch(choice=0.5, candidates=(1, 4)).prepare(schema, promise)
    one = np.zeros((6, 4))
    one[4, 3] = width / 2
    two = one.copy()
    two[0, 0] = width
    found = [
        table_rows(open_table(rows, schema), schema).sum(mechanism._scorer(calibrate(mechanism, promise).level)) / 2**20
        for rows in (one, two)
    ]
    assert (np.abs(found[0] - found[1]) <= 1).all()
    assert (found[0] >= 0).all()


# ---- audit ----------------------------------------------------------------------------------------------------------


class OneBlock:
    def __init__(self, rows):
        self.rows = np.asarray(rows, float).T

    def sum(self, function):
        return function(0, self.rows)


@pytest.mark.parametrize("broken", [False, True])
def test_an_audit_of_the_choice_passes_and_catches_a_forgotten_factor(broken):
    """One pair that agrees wants one column, one that differs wants any of many: the odds move by nearly e^choice."""
    recipe = ChosenSketch(choice=2.0, candidates=(1, *range(10, 17)), sketch=Sketch(dimension=1, seed=1))
    words = TwiceTheEpsilon if broken else Words  # the 2 of exp(epsilon * score / 2) left out
    mechanism = recipe.prepare(BOX, Guarantee(epsilon=9.0, unit="record"))
    near, far = np.zeros((2, 16)), np.vstack([np.zeros(16), np.ones(16)])
    one, two = (
        np.array([mechanism.choose(OneBlock(rows), 0.002, secret_of(words, i)) for i in range(4000)], float)
        for rows in (near, far)
    )
    bound = lower_bound(one, two, delta=0.0, confidence=1 - 1e-6)
    assert bound.refutes(2.0) == broken
    assert bound.epsilon > 0.7


# ---- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: ChosenSketch(choice=0.0), "choice=0.0"),
        (lambda: ChosenSketch(choice=math.nan), "choice=nan"),
        (lambda: ChosenSketch(choice=1.0, candidates=(3,)), "candidates"),
        (lambda: ChosenSketch(choice=1.0, candidates=(3, 0)), "candidates[1]"),
        (lambda: ChosenSketch(choice=2.0).prepare(BOX, PROMISE), "below epsilon=2.0"),
    ],
)
def test_what_makes_no_sense_is_refused(make, named):
    with pytest.raises(ParameterError) as caught:
        make()
    assert named in str(caught.value)
