"""What mechanisms share that answer questions: counts, moves, and settings."""

import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.answering import base, mwem, workload
from sfumato.answering.counting import Counting
from sfumato.answering.multiplicative_weights import Weights
from sfumato.answering.mwem import MWEM
from sfumato.answering.sparse_vector import MOST_POSITIVES, Scales, SparseVector
from sfumato.answering.workload import DisjointParts
from sfumato.errors import ParameterError
from sfumato.privacy.guarantee import Guarantee
from sfumato.queries.domain import Domain
from sfumato.randomness import noise
from sfumato.randomness.secret import Secret
from sfumato.tables.columns import Flag
from sfumato.tables.schema import Schema

DOMAIN = Domain.of(Schema((Flag("a"), Flag("b"))))
REPLACE, ADD = Guarantee(epsilon=1.0), Guarantee(epsilon=1.0, neighbours="add-remove")


@pytest.mark.parametrize("counts", [[1.0, 2, 3, 4], [1, 2, 3], [[1, 2, 3, 4]], [1, 2, 3, -1], [2**53, 1, 0, 0]])
def test_what_is_no_histogram_is_refused(counts):
    with pytest.raises(ParameterError, match="histogram"):
        base.checked_counts(counts, DOMAIN)


def test_a_histogram_of_as_many_rows_as_doubles_count_is_taken():
    assert base.checked_counts([2**53, 0, 0, 0], DOMAIN).tolist() == [2**53, 0, 0, 0]
    assert base.checked_counts(np.zeros(4, np.uint8), DOMAIN).dtype == np.int64


def test_there_is_at_least_one_row_to_divide_by():
    nobody = np.zeros(4, np.int64)
    noises = base.Noises(Secret.for_testing(1), "x")
    assert base.rows_known(REPLACE, nobody, noises, None) == 1
    known = {base.rows_known(ADD, nobody, noises, 50.0) for _ in range(20)}
    assert min(known) == 1
    assert max(known) > 1
    assert base.rows_known(REPLACE, np.full(4, 3), noises, None) == 12


def test_every_step_has_noise_of_its_own():
    noises = base.Noises(Secret.for_testing(1), "x")
    zero = np.zeros(4, np.int64)
    drawn = {tuple(noises.added("same", zero, 2.0**20).tolist()) for _ in range(10)}
    assert len(drawn) == 10


def test_questions_that_nobody_answers_move_one_at_least():
    assert Counting.of(DOMAIN, np.zeros((2, 4), bool), "replace").move == 1
    assert Counting.of(DOMAIN, np.ones((2, 4), bool), "replace").move == 1
    assert Counting.of(DOMAIN, np.ones((2, 4), bool), "add-remove").move == 2
    assert Counting.of(DOMAIN, np.eye(4, dtype=bool), "replace").move == 2
    assert Counting.of(DOMAIN, np.eye(4, dtype=bool), "add-remove").move == 1


def test_counts_get_noise_for_all_that_one_unit_moves():
    prepared = Counting(questions=3).prepare(Guarantee(epsilon=1.0, group=2))
    assert prepared.sensitivity == 6
    assert prepared.scale(2.0) == 12.0
    assert prepared.loss(2.0).delta(0.5) == 0


def test_suggested_settings_are_those_of_the_scan():
    made = Weights.suggested(10_000, 1.0)
    assert (made.updates, made.threshold) == (44, 500)
    assert Weights.suggested(10**13, 1.0).updates == MOST_POSITIVES


@pytest.mark.parametrize("positives", [0, -1, 1.5, MOST_POSITIVES + 1])
def test_numbers_of_positives_that_make_no_sense_are_refused(positives):
    with pytest.raises(ParameterError, match="positives"):
        SparseVector(threshold=5, positives=positives)


@pytest.mark.parametrize(("positives", "monotone", "factor"), [(1, False, 2), (4, False, 8), (4, True, 4)])
def test_the_two_parts_of_a_comparison_are_shared_as_is_best(positives, monotone, factor):
    """Variances 1/e1^2 and c^2/e2^2 together are least where e2/e1 = c^(2/3)."""
    scales, cost = Scales.of(2.0, positives, 3, monotone=monotone)
    first, second = 3 / scales.threshold, factor * 3 / scales.query
    assert second / first == pytest.approx(factor ** (2 / 3), rel=1e-12)
    assert first + second == pytest.approx(2.0, rel=1e-12)
    assert cost == pytest.approx(2.0, rel=1e-12)


def test_what_a_comparison_costs_is_rounded_up():
    """The cost is a sum of two doubles, which rounding to the nearest would make less than it is for some."""
    rounded = 0
    for epsilon in np.linspace(0.1, 3.0, 300).tolist():
        for positives in (1, 3):
            _, cost = Scales.of(epsilon, positives, 1, monotone=False)
            first = epsilon / (1 + (2 * positives) ** (2 / 3))
            exact = Fraction(first) + Fraction(epsilon - first)
            assert exact <= Fraction(cost) <= exact * (1 + Fraction(1, 2**50))
            rounded += Fraction(first + (epsilon - first)) < exact
    assert rounded > 0


def test_one_round_is_a_run():
    parts = (DisjointParts.question(np.array([True, False, False, True]), DOMAIN),)
    prepared = MWEM(workload=parts, rounds=1).prepare(DOMAIN, REPLACE)
    assert prepared.parts(1.0).selecting == 0.5
    assert MWEM(workload=parts, rounds=4).prepare(DOMAIN, REPLACE).parts(1.0).selecting == 0.125
    assert MWEM(workload=parts, rounds=mwem._MOST_ROUNDS).rounds == 2**14
    with pytest.raises(ParameterError, match="rounds"):
        MWEM(workload=parts, rounds=2**14 + 1)


def test_a_workload_holds_a_gigabyte():
    assert workload.MOST * 8 == 2**30


def test_marginals_tell_combinations_apart():
    made = DisjointParts.marginal(DOMAIN, ["a", "b"])
    assert made.parts == 4
    assert sorted(made.labels.tolist()) == [0, 1, 2, 3]
    assert DisjointParts.marginal(DOMAIN, ["a"]).totals([1, 2, 4, 8]).sum() == 15


@pytest.mark.parametrize("probability", [0.5, 0.1, 1e-3])
@pytest.mark.parametrize("scales", [Scales(40.0, 300.0), Scales(300.0, 40.0), Scales(100.0, 100.0)])
def test_the_noise_of_a_comparison_exceeds_its_margin_as_rarely_as_stated(scales, probability):
    """The tail of a difference of two Laplace variables, at one less than the margin: each rounds by a half."""
    found = scales.exceeded(probability)

    def tail(x):
        a, b = max(scales.threshold, scales.query), min(scales.threshold, scales.query)
        b = min(b, a / (1 + 1e-6))
        return (a**2 * np.exp(-x / a) - b**2 * np.exp(-x / b)) / (2 * (a**2 - b**2))

    large = max(scales.threshold, scales.query)
    assert tail(found - 1) <= probability
    assert tail(found - 1 - 1e-5 * large) >= probability * (1 - 1e-9)


def test_scales_are_taken_up_to_both_ends_of_the_samplers_range_and_not_beyond():
    low, high = noise.SMALLEST_SCALE, noise.LARGEST_SCALE
    base.check_scales(REPLACE, low, 1.0, high)
    for scale in (math.nextafter(low, 0.0), math.nextafter(high, math.inf), math.nan):
        with pytest.raises(ParameterError, match="outside the exact sampler's range"):
            base.check_scales(REPLACE, 1.0, scale)


@pytest.mark.parametrize("pair", [REPLACE, ADD])
def test_scores_are_errors_less_what_noise_would_add_in_every_part(pair):
    """By hand: rows (3, 1, 0, 4) against (2.4, 2.6, 0.5, 2.5); rounded half up, (2, 3, 1, 3)."""
    workload = (DisjointParts.marginal(DOMAIN, ["a", "b"]), DisjointParts.question([True, False, False, True], DOMAIN))
    prepared = MWEM(workload=workload, rounds=2).prepare(DOMAIN, pair)
    parts = mwem.MWEMParts(0.1, 2.75, None)
    found = prepared.scores(np.array([3, 1, 0, 4]), np.array([2.4, 2.6, 0.5, 2.5]), parts)
    every = 4 * 2.75 * (2 if pair is REPLACE else 1)
    assert found.tolist() == [1 + 2 + 1 + 1 - math.floor(every), 2 - math.floor(2.75)]
