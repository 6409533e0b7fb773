"""Counts from noisy tables: what they use, how they vary, and how often intervals hold the truth."""

import math

import numpy as np
import pytest
import scipy

from sfumato.errors import ReleaseError
from sfumato.estimation.noisy_tables import CountedCells, NoisyTables
from sfumato.intervals.additive_noise import LaplaceSum, summed_law, tallied
from sfumato.marginals.binning import Bins
from sfumato.marginals.partition import Partition
from sfumato.marginals.questions import TableQuestion
from sfumato.queries.parser import parse
from sfumato.tables.columns import Category, Flag, Integer, Real
from sfumato.tables.schema import Schema

SCHEMA = Schema((Integer("age", 0, 19), Flag("member"), Category("job", ("a", "b", "c"), missing="a"), Real("x", 0, 1)))
PARTITION = Partition.of(SCHEMA)
GROUPS = [range(5), range(5, 12), range(12, 15), range(15, 20)]
BINS = (
    Bins.of(GROUPS, np.ones(20), 0.0),
    Bins.of([[0], [1]], np.ones(2), 0.0),
    Bins.of([[0], [1, 2]], np.ones(3), 0.0),
    Bins.of([range(PARTITION.sizes[3])], np.ones(PARTITION.sizes[3]), 0.0),
)
COLUMNS = [
    ((0,), True),
    ((1,), True),
    ((2,), True),
    ((0, 1), False),
    ((0, 2), False),
    ((1, 2), False),
    ((0, 1, 2), False),
]
SCALES = [6.0, 5.0, 4.0, 7.0, 8.0, 9.0, 11.0]
RECORDS = 700
QUESTIONS = [
    "age > 7",
    "age in (3, 13, 14)",
    "age >= 12",
    "member",
    "job == 'b'",
    "age < 5 and member",
    "age >= 5 and age < 15 or not member",
    "member and age < 12 and job != 'a'",
    "age == 19 and age > 20 or job == 'c'",
]


def exact_tables():
    """Records that are few in some cells, as rows of codes, and the exact counts of all tables."""
    rng = np.random.default_rng(3)
    age = np.minimum(rng.geometric(0.15, RECORDS) - 1, 19)
    codes = np.array([age, rng.random(RECORDS) < 0.3 + 0.02 * age, rng.choice(3, RECORDS, p=[0.7, 0.28, 0.02])]).astype(
        int
    )
    found = []
    for columns, fine in COLUMNS:
        cells = [codes[c] if fine else BINS[c].of_cell[codes[c]] for c in columns]
        shape = [PARTITION.sizes[c] if fine else BINS[c].size for c in columns]
        found.append(np.bincount(np.ravel_multi_index(cells, shape), minlength=math.prod(shape)).reshape(shape))
    return codes, found


CODES, EXACT = exact_tables()


def asked(text):
    return TableQuestion.of(PARTITION, parse(text, SCHEMA))


def truth(text):
    question = asked(text)
    signatures = [a.of_cells()[CODES[a.variable]] for a in question.asked]
    return int(question.holds(signatures, RECORDS).sum())


def noisy(rng, noise, records, scales=SCALES):
    """Tables with rounded noise of their scales."""
    draw = rng.laplace if noise == "laplace" else rng.normal
    tables = [
        CountedCells(columns, fine, counts + np.rint(draw(0, scale, counts.shape)).astype(int), scale)
        for (columns, fine), counts, scale in zip(COLUMNS, EXACT, scales, strict=True)
    ]
    return NoisyTables(tables, BINS, noise, records)


def estimates(noise, records, runs):
    """Of each question, estimates under many draws of the noise."""
    rng = np.random.default_rng(11)
    drawn = [noisy(rng, noise, records) for _ in range(runs)]
    return {text: [tables.count(question) for tables in drawn] for text in QUESTIONS for question in [asked(text)]}


@pytest.mark.parametrize("records", [RECORDS, None], ids=["replace", "add-remove"])
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_intervals_hold_the_truth_as_often_as_they_say(noise, records):
    """A wrong alarm once in 100,000 runs; intervals that are half as wide as they should be are found out."""
    runs, level = 200, 0.8
    most = scipy.stats.binom.isf(1e-7, runs, 1 - level)
    least = scipy.stats.binom.ppf(1e-7, runs, (1 - level) * 0.9)  # half a record is a little wide
    for text, found in estimates(noise, records, runs).items():
        values, law = np.array([e.uncut for e in found]), found[0].bounds.keywords["noise"]
        low, high = tallied(values, law, RECORDS if records else 2.0**53).interval(level)
        assert (low[0], high[0]) == found[0].interval(level)
        exact = truth(text)
        assert least <= np.sum((exact < low) | (exact > high)) <= most, text
        middle = (low + high) / 2
        assert np.sum(abs(exact - middle) > 0.5 * (high - middle)) > most or exact < 3 * law.scale, text
        errors = (values - exact) / found[0].standard_error
        assert len({e.standard_error for e in found}) == 1
        assert abs(errors.mean()) < 5.5 / math.sqrt(runs), text
        assert abs(errors.std() - 1) < (0.28 if noise == "gaussian" else 0.45), text


def variance_by_algebra(text, records):
    """The least variance of an unbiased linear estimate from all tables: generalised least squares over all records."""
    question = asked(text)
    sizes = PARTITION.sizes[:3]
    cells = np.indices(sizes).reshape(3, -1)
    rows, variances = [], []
    for (columns, fine), scale in zip(COLUMNS, SCALES, strict=True):
        own = [cells[c] if fine else BINS[c].of_cell[cells[c]] for c in columns]
        shape = [PARTITION.sizes[c] if fine else BINS[c].size for c in columns]
        place = np.ravel_multi_index(own, shape)
        rows.append(place == np.arange(math.prod(shape))[:, None])
        variances += [scale**2 + 1 / 12] * math.prod(shape)
    design = np.concatenate(rows).astype(float)
    if records is not None:
        design, variances = np.vstack([design, np.ones(design.shape[1])]), [*variances, 1e-9]
    wanted = question.holds([a.of_cells()[cells[a.variable]] for a in question.asked], cells.shape[1]).astype(float)
    information = design.T @ (design / np.array(variances)[:, None])
    return float(wanted @ np.linalg.pinv(information, rcond=1e-13, hermitian=True) @ wanted)


@pytest.mark.parametrize("records", [RECORDS, None], ids=["replace", "add-remove"])
def test_errors_are_close_to_the_least_that_is_possible(records):
    """Of all weighted sums of all tables: little is lost by leaving out tables that hold a part of the question."""
    tables = noisy(np.random.default_rng(1), "gaussian", records)
    for text in QUESTIONS:
        least = math.sqrt(variance_by_algebra(text, records))
        assert least * 0.999 < tables.count(asked(text)).standard_error < 1.1 * least, text


def test_what_is_known_is_certain():
    tables = noisy(np.random.default_rng(1), "gaussian", RECORDS)
    assert tables.count(asked("true")).interval() == (RECORDS, RECORDS)
    assert tables.count(asked("age >= 0")).value == RECORDS
    assert tables.count(asked("age > 30 and member")).interval() == (0, 0)
    protected = noisy(np.random.default_rng(1), "gaussian", None)
    low, high = protected.count(asked("true")).interval()
    assert low < RECORDS < high
    assert protected.count(asked("false")).interval() == (0, 0)


def test_a_count_lies_between_none_and_all():
    for seed in range(10):
        estimate = noisy(np.random.default_rng(seed), "gaussian", RECORDS).count(asked("job == 'c'"))
        assert estimate.limits == (0, RECORDS)
        assert 0 <= estimate.value <= RECORDS
        assert 0 <= estimate.interval(0.99)[0] <= estimate.interval(0.99)[1] <= RECORDS
    assert estimate.unit == "records"


@pytest.mark.parametrize("text", ["age > 7 and member", "age < 5 and x > 0.5", "x > 0.123456", "job == 'b' and member"])
def test_a_question_that_no_table_can_tell_has_no_error_bars(text):
    with pytest.raises(ReleaseError, match=r"no error bars: .* probability\(\) gives the model's answer"):
        noisy(np.random.default_rng(1), "gaussian", RECORDS).count(asked(text))


@pytest.mark.parametrize("terms", [[(1.0, 1, 3.0)], [(0.9, 3, 5.0), (0.1, 27, 5.0), (0.3, 40, 2.0)], [(1.0, 50, 0.7)]])
def test_the_law_of_a_sum_of_laplace_noise(terms):
    """Against draws: P[sum > q] at quantiles of the law, between those half a step aside."""
    rng, rows = np.random.default_rng(2), 100_000
    drawn = sum(w * np.rint(rng.laplace(0, b, (n, rows))).sum(axis=0) for w, n, b in terms)
    law = LaplaceSum(tuple(terms))
    assert drawn.std() == pytest.approx(law.scale, rel=0.02)
    for tail in (0.4, 0.05, 0.001):
        place, slack = float(law.tail(np.array(tail), 1)), 5 * math.sqrt(tail / rows)
        assert np.mean(drawn > place + 0.5) - slack < tail < np.mean(drawn > place - 0.5) + slack
    assert float(law.tail(np.array(0.5), 1)) == pytest.approx(0, abs=1e-6)
    far = law.tail(np.array([1e-6, 1e-7, 0.9e-7, 1e-12, 1e-200]), 1)
    assert (np.diff(far) > 0).all()


def test_one_laplace_number_has_its_own_quantiles():
    law = summed_law("laplace", [(1.0, 1, 50.0), (0.0, 3, 9.0), (2.0, 0, 1.0)])
    for tail in (0.3, 0.025, 1e-6):
        assert float(law.tail(np.array(tail), 1)) == pytest.approx(-50 * math.log(2 * tail), rel=1e-3)
    bounded = float(law.tail(np.array(1e-9), 1))
    assert -50 * math.log(2e-9) < bounded < -1.3 * 50 * math.log(2e-9)
    far = math.floor(50 * math.log(10) + 0.5)
    assert tallied(500.0, law, 1000.0).interval(0.9) == (500 - far, 500 + far)
