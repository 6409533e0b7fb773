"""Answers from noisy statistics: grids, rounding and coverage. A binomial test fails by chance with chance 1e-9."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import stats

from sfumato.aggregates.asked import prepare, sums_of
from sfumato.aggregates.estimates import part_of
from sfumato.aggregates.statistics import FINEST, Grid, Moments, Totalled
from sfumato.engines.local import LocalRows
from sfumato.errors import ParameterError
from sfumato.files.open_table import open_table
from sfumato.privacy.guarantee import Guarantee
from sfumato.queries.questions import parse_question
from sfumato.randomness.secret import Secret
from sfumato.tables.blocks import Blocks
from sfumato.tables.columns import Category, Flag, Integer, Real
from sfumato.tables.schema import Schema
from support.twins import always, secret_of

SCHEMA = Schema((Integer("i", 0, 20), Real("r", -1, 3), Flag("f"), Category("c", ("a", "b"), missing="a")))
ROWS = 300


def data():
    luck = np.random.default_rng(5)
    return {
        "i": luck.integers(0, 21, ROWS),
        "r": luck.beta(2, 5, ROWS) * 4 - 1,
        "f": luck.random(ROWS) < 0.7,
        "c": luck.choice(["a", "b"], ROWS),
    }


def exact_of(question, cells, schema=SCHEMA):
    rows = LocalRows(Blocks.of(open_table(pa.table(cells), schema), schema))
    return sums_of(rows, schema, [question])[0]


def asked(text, schema=SCHEMA, **promise):
    return prepare(parse_question(text, schema), Guarantee(**{"epsilon": 0.5} | promise))


# ---- coverage -------------------------------------------------------------------------------------------------------

RUNS = 300
TRUTHS = {
    "sum(r), mean(i), variance(i)": lambda d: [d["r"].sum(), d["i"].mean(), d["i"].var()],
    "count, sum(i), mean(r) where f": lambda d: [d["f"].sum(), d["i"][d["f"]].sum(), d["r"][d["f"]].mean()],
    "sum(r), variance(r) by c": lambda d: [
        function(d["r"][d["c"] == level]) for function in (np.sum, np.var) for level in ("a", "b")
    ],
    "histogram(i, 3) by f": lambda d: [
        ((d["i"] // 7 == part) & (d["f"] == flag)).sum() for flag in (False, True) for part in range(3)
    ],
}


def intervals(question, sums, times=1.0):
    """Ends of the 90% intervals of all numbers in many draws at once, each draw as if it were further groups.

    times : how much more noise there is than is said.
    """
    drawn = [replace(noise, scale=noise.scale * times) for noise in question.spending.scales]
    loud = replace(question, spending=replace(question.spending, scales=tuple(drawn)))
    runs = [loud.noisy(sums, Secret.for_testing(run)) for run in range(RUNS)]
    stacked = [np.concatenate(parts) for parts in zip(*runs, strict=True)]
    most = float(ROWS) if question.exposure.neighbours == "replace" else None
    for aggregate, statistic in zip(question.question.aggregates, question.of_aggregate, strict=True):
        place = question.statistics.index(statistic)
        seen = stacked[place], question.spending.scales[place]
        estimate = part_of(aggregate, statistic, seen, RUNS * question.question.groups, most).estimate
        low, high = (np.asarray(end).reshape(RUNS, -1) for end in estimate.interval(0.9))
        yield low, high


def misses(question, cells, truths, times=1.0):
    """How often the interval of each number misses the truth."""
    ends = list(intervals(question, exact_of(question, cells), times))
    low, high = (np.concatenate([pair[side] for pair in ends], axis=1) for side in (0, 1))
    return ((low > truths + 1e-6) | (truths - 1e-6 > high)).sum(axis=0)


ALLOWED = stats.binom.ppf(1 - 1e-9, RUNS, 0.1)


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("text", TRUTHS)
def test_intervals_hold_the_truth_as_often_as_they_say(text, delta, neighbours):
    question, cells = asked(text, delta=delta, neighbours=neighbours), data()
    truths = np.array(TRUTHS[text](cells), float)
    assert (misses(question, cells, truths) <= ALLOWED).all()


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_with_more_noise_than_is_said_they_are_caught(delta):
    text, cells = "count, sum(i), mean(r) where f", data()
    truths = np.array(TRUTHS[text](cells), float)
    assert (misses(asked(text, delta=delta), cells, truths, times=2.5) > ALLOWED).all()


# ---- without noise --------------------------------------------------------------------------------------------------

PARTS = {
    "count": len,
    "sum(i)": lambda d: d["i"].sum(),
    "sum(r)": lambda d: d["r"].sum(),
    "mean(i)": lambda d: d["i"].mean(),
    "mean(r)": lambda d: d["r"].mean(),
    "variance(i)": lambda d: d["i"].var(ddof=0),
    "variance(r)": lambda d: d["r"].var(ddof=0),
}


def quiet(text, schema, cells, neighbours):
    """The answers to a question without noise: the first number of each aggregate and group."""
    question = asked(text, schema, neighbours=neighbours)
    sums = exact_of(question, cells, schema)
    parts = question.answered(question.noisy(sums, secret_of(always(0))), int(sums[0]))
    return np.array([np.atleast_1d(part.estimate.uncut) for part in parts])


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("names", [*([name] for name in PARTS), list(PARTS)], ids=str)
def test_without_noise_answers_are_the_truth(names, neighbours):
    cells = data()
    frame = pd.DataFrame(cells)
    text = ", ".join(names)
    for rest, groups in (("", [frame]), (" where f", [frame[frame.f]]), (" by c", [g for _, g in frame.groupby("c")])):
        found = quiet(text + rest, SCHEMA, cells, neighbours)
        truths = np.array([[float(PARTS[name](group)) for group in groups] for name in names])
        assert found == pytest.approx(truths, rel=1e-4, abs=5e-3)


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_missing_cells_add_nothing_where_missingness_is_kept(neighbours):
    schema = Schema((Integer("i", 2, 20, missing="level"), Real("r", 1, 3, missing="level")))
    cells = {"i": [4, None, 8, None], "r": [None, 1.5, 2.5, None]}
    for text, truths in {
        "sum(i), sum(r)": [12, 4],
        "mean(i), mean(r)": [6, 2],
        "variance(i), variance(r)": [4, 0.25],
    }.items():
        assert quiet(text, schema, cells, neighbours)[:, 0] == pytest.approx(truths, rel=1e-3)


def test_questions_of_a_batch_have_sums_of_their_own():
    cells, texts = data(), ("count where f", "sum(i), count by c", "histogram(i, 3)")
    questions = [asked(text, neighbours="add-remove") for text in texts]
    rows = LocalRows(Blocks.of(open_table(pa.table(cells), SCHEMA), SCHEMA))
    for question, sums in zip(questions, sums_of(rows, SCHEMA, questions), strict=True):
        assert sums.tolist() == exact_of(question, cells).tolist()


# ---- grids and rounding ---------------------------------------------------------------------------------------------


def test_grids_hold_every_cell_between_their_ends_and_round_to_the_nearest_step():
    luck = np.random.default_rng(1)
    for column in (Real("x", -5, -3), Real("x", 1e9, 1e9 + 1), Integer("x", -(2**50), 2**51), Real("x", -1e-9, 7e59)):
        for degree in (0, 1, 2):
            grid = Grid.of(column, degree)
            cells = luck.uniform(grid.low, grid.high, 1000)
            places = grid.places(cells)
            assert grid.steps <= 1 << FINEST[degree]
            assert ((places >= 0) & (places <= grid.steps) & (places == np.rint(places))).all()
            gaps = np.abs(grid.low + places * grid.step - cells)
            assert gaps.max() <= grid.rounding * (1 + 1e-6) + 4 * np.spacing(max(abs(grid.low), abs(grid.high)))
            hostile = grid.places(np.array([np.nan, -np.inf, np.inf, -1e308, 1e308]))
            assert hostile.tolist() == [0, 0, grid.steps, 0, grid.steps]


def test_whole_numbers_lie_on_their_grid_and_real_numbers_never_do_for_sure():
    assert Grid.of(Integer("x", 3, 90), 2).rounding == 0
    assert Grid.of(Real("x", 0, 2.0 ** FINEST[2]), 2).rounding == 0.5
    assert Grid.of(Integer("x", 0, 2 << FINEST[2]), 2).rounding == 1.0


@pytest.mark.parametrize("bounds", [(-5, -3), (1e9, 1e9 + 1), (-1, 1e60), (0.1, 0.3), (-7e-60, 0)])
def test_the_grid_of_a_sum_has_zero_on_it_exactly(bounds):
    made = Totalled(Real("x", *bounds), from_low=False)
    assert made.grid.low == made.offset * made.grid.step
    assert made.grid.high == (made.offset + made.grid.steps) * made.grid.step
    assert made.grid.low <= bounds[0] < bounds[1] <= made.grid.high
    assert max(abs(made.offset), abs(made.offset + made.grid.steps)) <= 1 << FINEST[0]


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_an_interval_of_a_sum_allows_for_the_rounding_of_every_record(neighbours):
    """All cells lie just below the middle of a step, so that rounding errs in one direction."""
    schema, count = Schema((Real("r", 0, 1), Flag("f"))), 200_000
    question = asked("sum(r), variance(r) where f", schema, epsilon=8.0, neighbours=neighbours)
    (statistic,) = question.statistics
    assert isinstance(statistic, Moments)
    cell = (3000 + 0.499) * statistic.grid.step
    sums = exact_of(question, {"r": np.full(count, cell), "f": np.ones(count, bool)}, schema)
    bias, quiet = count * 0.499 * statistic.grid.step, statistic.grid.rounding
    for run in range(20):
        part = question.answered(question.noisy(sums, Secret.for_testing(run)), count)[0]
        low, high = (float(end[0]) for end in part.estimate.interval(0.9999))
        assert low <= count * cell <= high
        assert 2 * bias < high - low < 8 * count * quiet


@pytest.mark.parametrize("bounds", [(0, 1e-320), (1e300, 1.7e308), (-1e70, 1)])
@pytest.mark.parametrize("text", ["sum(x)", "mean(x) by f", "variance(x) where f"])
def test_bounds_that_squares_cannot_hold_are_refused_before_anything_is_read(bounds, text):
    with pytest.raises(ParameterError, match="declare it in another unit"):
        asked(text, Schema((Real("x", *bounds), Flag("f"))))


def test_a_number_that_is_public_has_no_error():
    question, cells = asked("count, mean(i)"), data()
    sums = exact_of(question, cells)
    count = question.answered(question.noisy(sums, Secret.for_testing(1)), int(sums[0]))[0].estimate
    assert np.all(count.value == ROWS)
    assert np.all(count.standard_error == 0)


def test_the_number_of_rows_has_no_part_in_answers_where_it_is_protected():
    for text in TRUTHS:
        question = asked(text, neighbours="add-remove")
        noisy = question.noisy(exact_of(question, data()), Secret.for_testing(1))
        one, two = (question.answered(noisy, rows) for rows in (ROWS, 10**6))
        for part, other in zip(one, two, strict=True):
            assert np.array_equal(part.estimate.uncut, other.estimate.uncut, equal_nan=True)
            assert np.array_equal(part.estimate.interval(), other.estimate.interval())
        sums = exact_of(question, data())
        changed = sums.copy()
        changed[0] += 1000
        again = question.noisy(changed, Secret.for_testing(1))
        assert all(np.array_equal(a, b) for a, b in zip(noisy, again, strict=True))
