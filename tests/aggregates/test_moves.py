"""Neighbours by search: no statistic moves by more than it states, and each reaches what it states.

Statistics add up over rows (which is tested), so what a row adds says what any table of neighbours moves. The one that
is no sum, the public spread, is searched over all small tables.
"""

import functools
import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from sfumato.aggregates.asked import prepare, sums_of
from sfumato.aggregates.exposure import Exposure
from sfumato.aggregates.selection import scores
from sfumato.aggregates.statistics import Moments, PublicSpread, Totalled
from sfumato.engines.local import LocalRows
from sfumato.files.open_table import open_table
from sfumato.privacy.guarantee import Guarantee
from sfumato.queries.questions import parse_question
from sfumato.randomness.secret import Secret
from sfumato.tables.blocks import Blocks
from sfumato.tables.columns import Category, Flag, Integer, Real
from sfumato.tables.schema import Schema

SCHEMA = Schema(
    (
        Integer("i", -3, 2),
        Real("r", -5, -3),
        Real("huge", -1e60, 1e59),
        Integer("wide", -(2**52), 2**51, missing="level"),
        Real("far", 1e9, 1e9 + 1),
        Flag("f", missing="level"),
        Category("c", ("a", "b"), missing="a"),
    )
)
NUMBERS = ("i", "r", "huge", "wide", "far", "f")
ENDS = [
    (-3, -5.0, -1e60, -(2**52), 1e9),
    (2, -3.0, 1e59, 2**51, 1e9 + 1),
    (0, -4.0, 0.0, 0, 1e9 + 0.5),
    (None, math.nan, math.nan, None, math.nan),
    (10**15, math.inf, math.inf, 2**60, math.inf),
    (-(10**15), -math.inf, -math.inf, -(2**60), -math.inf),
    (-1, 5e-324, 1.7e308, -1, -1e308),
]
ROWS = [(*cells, f, c) for cells in ENDS for f in (False, True, None) for c in ("a", "b")]
ROWS += [(*ENDS[0], True, "unlisted"), (*ENDS[1], None, None), (*ENDS[2], False, "")]
TYPES = (pa.int64(), pa.float64(), pa.float64(), pa.int64(), pa.float64(), pa.bool_(), pa.string())
QUESTIONS = [f"{name}({column})" for name in ("sum", "mean", "variance") for column in NUMBERS]
QUESTIONS += [f"{name}({column}) where c == 'b'" for name in ("sum", "mean", "variance") for column in NUMBERS]
QUESTIONS += [f"{name}({column}) by c, f" for name in ("sum", "mean", "variance") for column in NUMBERS]
QUESTIONS += [
    "count",
    "count by c",
    "c == 'b'",
    "count where i >= 0 by f",
    "histogram(r, 3)",
    "histogram(wide, 4) by c",
    "histogram(f)",
    "top(c, 1) by f",
    "top(i, 2) where f",
    "count, mean(i), sum(r), variance(r), histogram(c) where i > -3 by f",
    "mean(wide), sum(wide), variance(i)",
    "median(i)",
    "quantile(i, 0.1 0.9), count by c",
]


def table(rows):
    columns = zip(SCHEMA.data_columns, TYPES, zip(*rows, strict=True) if rows else [()] * len(TYPES), strict=True)
    return pa.table({column.name: pa.array(list(cells), kind) for column, kind, cells in columns})


def rows_of(rows, size=100):
    return LocalRows(replace(Blocks.of(open_table(table(rows), SCHEMA), SCHEMA), size=size))


def prepared(text, **promise):
    return prepare(parse_question(text, SCHEMA), Guarantee(epsilon=1.0, **promise))


def measured(question, sums):
    """What gets the noise, statistic by statistic, as Python integers."""
    return [part.ravel().astype(object) for part in question.exact(sums)]


def exact(question, rows, size=100):
    return measured(question, sums_of(rows_of(rows, size), SCHEMA, [question])[0])


STARTS = dict(zip(SCHEMA.source_names, np.cumsum([0, *(c.width for c in SCHEMA.data_columns)]).tolist(), strict=False))


@functools.cache
def encoded():
    """All rows, as they are encoded."""
    seen = []
    rows_of(ROWS).sum(lambda _, block: seen.append(block.copy()) or np.zeros(1, np.int64))
    return np.concatenate(seen, axis=1)


def added_by_each(question):
    """What each row adds by itself."""
    block = encoded()
    return [measured(question, question.sums(block[:, [row]], STARTS, SCHEMA)) for row in range(block.shape[1])]


def norms(one, two):
    gaps = [abs(int(a) - int(b)) for a, b in zip(one, two, strict=True)]
    return sum(gaps), sum(gap**2 for gap in gaps)


def unit_moves(question, neighbours):
    """The largest l1 and squared l2 move of each statistic that one record makes, over all pairs of rows."""
    adds = added_by_each(question)
    for place in range(len(question.statistics)):
        own = {tuple(found[place]) for found in adds}
        others = {(0,) * len(next(iter(own)))} if neighbours == "add-remove" else own
        moved = [norms(one, two) for one in own for two in others]
        yield max(l1 for l1, _ in moved), max(l2 for _, l2 in moved)


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("text", QUESTIONS)
def test_no_unit_moves_a_statistic_by_more_than_is_stated_and_some_unit_reaches_it(text, neighbours):
    question = prepared(text, neighbours=neighbours)
    moves = unit_moves(question, neighbours)
    for statistic, (l1, squares) in zip(question.statistics, moves, strict=True):
        if isinstance(statistic, PublicSpread):
            continue
        stated = statistic.moves(question.exposure)
        assert l1 <= stated.l1
        assert squares <= Fraction(stated.l2) ** 2
        if statistic.__class__.__name__ == "Counted" and question.exposure.public:
            continue  # a number that is public, measured since nothing else was asked
        assert l1 >= stated.l1 * (1 - 1e-6)
        assert math.sqrt(squares) >= stated.l2 * (1 - 1e-6)


@pytest.mark.parametrize("group", [2, 5])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("text", ["sum(r) by c", "mean(i) where f", "variance(r)", "histogram(r, 2)", "count by c"])
def test_the_rows_of_one_person_add_up(text, neighbours, group):
    one, several = (prepared(text, neighbours=neighbours, group=g) for g in (1, group))
    for statistic in one.statistics:
        single, whole = statistic.moves(one.exposure), statistic.moves(several.exposure)
        assert whole.l1 == group * single.l1
        assert whole.l2 == pytest.approx(group * single.l2, rel=1e-12)
        assert Fraction(whole.l2) >= group * Fraction(single.l2) * (1 - Fraction(1, 2**51))


@pytest.mark.parametrize("text", ["variance(i)", "variance(r)", "variance(far)"])
def test_the_public_spread_moves_by_the_square_of_the_range_at_most_over_all_small_tables(text):
    question = prepared(text)
    (statistic,) = question.statistics
    assert isinstance(statistic, PublicSpread)
    stated, worst = statistic.moves(question.exposure).l1, 0
    at = [int(exact_places(statistic, row)) for row in ROWS]
    for size in range(1, 5):
        for rest in itertools.combinations_with_replacement(sorted(set(at)), size - 1):
            found = [spread(statistic, [*rest, place]) for place in set(at)]
            worst = max(worst, max(found) - min(found))
        assert worst <= stated
    many = [min(at)] * 500, [max(at)] + [min(at)] * 499
    assert spread(statistic, many[1]) - spread(statistic, many[0]) >= stated * 0.99 - 1


def exact_places(statistic, row):
    place = [column.name for column in SCHEMA.data_columns].index(statistic.of.name)
    cell = np.array([np.nan if row[place] is None else float(row[place])])
    return statistic.grid.places(cell)[0]


def spread(statistic, places):
    sums = np.array([[sum(places), sum(place**2 for place in places)]])
    return int(statistic.finished(sums, len(places))[0, 0])


def test_the_public_spread_is_the_sum_of_squared_deviations_rounded_down():
    statistic = prepared("variance(i)").statistics[0]
    for places in itertools.product(range(6), repeat=4):
        mean = Fraction(sum(places), 4)
        assert spread(statistic, places) == math.floor(sum((place - mean) ** 2 for place in places))


# ---- scores of quantiles --------------------------------------------------------------------------------------------


def all_scores(counts, order):
    counts = np.array(counts)
    filled = np.flatnonzero(counts)
    return np.repeat(*scores(filled, counts[filled], len(counts), order))


def tables(cells, most):
    return [counts for counts in itertools.product(range(most + 1), repeat=cells) if sum(counts) <= most]


@pytest.mark.parametrize("order", [Fraction(1, 2), Fraction(1, 4), Fraction(9, 10), Fraction(1, 100)])
def test_no_record_moves_scores_of_a_quantile_apart_by_more_than_is_stated(order):
    comes, stays = (
        Exposure(kind, 1, everyone=False, grouped=False).of_scores(order.numerator, order.denominator).l1
        for kind in ("add-remove", "replace")
    )
    worst = {"add-remove": 0, "replace": 0}
    for counts in tables(4, 4):
        before = all_scores(counts, order)
        for place, other in itertools.product(range(4), range(-1, 4)):
            more = [count + (cell == place) - (cell == other) for cell, count in enumerate(counts)]
            if min(more) < 0 or place == other:
                continue
            gaps = all_scores(more, order) - before
            kind = "add-remove" if other < 0 else "replace"
            worst[kind] = max(worst[kind], int(gaps.max() - gaps.min()))
    assert worst["add-remove"] <= comes
    assert worst["replace"] <= stays
    assert worst["replace"] >= stays / 2


# ---- sums -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", QUESTIONS[:3] + QUESTIONS[-13:])
def test_sums_add_up_over_rows_in_blocks_of_any_size(text):
    question = prepared(text, neighbours="add-remove")
    luck = np.random.default_rng(1)
    places = luck.integers(0, len(ROWS), 37)
    chosen = [ROWS[i] for i in places]
    alone = added_by_each(question)
    for size in (1, 7, 100):
        found = exact(question, chosen, size)
        for place, values in enumerate(found):
            added = sum(alone[i][place] for i in places)
            assert (values == added).all()


def test_sums_of_a_million_rows_are_exact():
    for statistic in (Totalled(Real("x", 0, 1), from_low=False), Moments(Real("x", 0, 1), 2)):
        count = (1 << 20) + 3
        cells = np.ones((1, count))
        found = statistic.added(cells, np.zeros(count, np.int64), 1)
        assert int(found[0, -1]) == count * statistic.moves(prepared("count", neighbours="add-remove").exposure).l1


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_an_empty_table_is_answered_as_any_other(neighbours):
    for text in QUESTIONS[-13:]:
        question = prepared(text, neighbours=neighbours)
        (sums,) = sums_of(rows_of([]), SCHEMA, [question])
        assert not sums.any()
        assert not any(part.any() for part in question.exact(sums))
        question.answered(question.noisy(sums, Secret.for_testing(1)), 0)
