"""Quantiles: what one unit moves, by search; exact intervals, and too narrow ones that fail; every kind of column.

A binomial test fails by chance with chance 1e-9.
"""

import functools
import itertools
import math
from collections import Counter
from datetime import date
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from sfumato.aggregates.asked import prepare, sums_of
from sfumato.aggregates.exposure import Exposure
from sfumato.aggregates.noise_scale import NoiseScale
from sfumato.aggregates.quantile_grid import CellGrid
from sfumato.aggregates.quantile_methods import quantile_statistic
from sfumato.aggregates.quantiles import CountTree
from sfumato.aggregates.ranks import RankCurve, exact_order
from sfumato.aggregates.selection import QuantileSelection, edges_around, scores
from sfumato.engines.local import LocalRows
from sfumato.errors import ParameterError
from sfumato.files.open_table import open_table
from sfumato.privacy.guarantee import Guarantee
from sfumato.queries.questions import parse_question
from sfumato.randomness.secret import Secret
from sfumato.tables.blocks import Blocks
from sfumato.tables.columns import Category, Date, Flag, Integer, Ordinal, Real
from sfumato.tables.schema import Schema
from support.evidence import ALPHA

# ---- what one unit moves --------------------------------------------------------------------------------------------

CELLS = 3
ORDERS = [Fraction(1, 2), Fraction(1, 4), Fraction(4, 5)]
EXPOSURES = {
    "add-remove": Exposure("add-remove", 1, everyone=False, grouped=False),
    "add-remove by group": Exposure("add-remove", 1, everyone=False, grouped=True),
    "replace": Exposure("replace", 1, everyone=True, grouped=False),
    "replace where": Exposure("replace", 1, everyone=False, grouped=False),
    "replace by group": Exposure("replace", 1, everyone=False, grouped=True),
}


def states(exposure):
    """Where a record can be: in a cell of a group, or, if not everyone counts, nowhere."""
    found = list(itertools.product(range(1 + exposure.grouped), range(CELLS)))
    return found if exposure.everyone or exposure.neighbours == "add-remove" else [*found, None]


def neighbours(exposure):
    """All pairs of small tables, as lists of records, that one unit makes of each other."""
    where = states(exposure)
    for size in range(3 if exposure.grouped else 9):
        for rest in itertools.combinations_with_replacement(where, size):
            if exposure.neighbours == "add-remove":
                yield from ((rest, (*rest, one)) for one in where)
            else:
                yield from (((*rest, one), (*rest, other)) for one, other in itertools.product(where, where))


def counts_of(records, exposure):
    held = Counter(records)
    groups = range(1 + exposure.grouped)
    return np.array([[held[group, cell] for cell in range(CELLS)] for group in groups], np.int64)


def scores_of(counts, order):
    filled = np.flatnonzero(counts)
    return np.repeat(*scores(filled, counts[filled], len(counts), order))


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("name", EXPOSURES)
def test_scores_move_as_stated_and_no_further(name, order):
    exposure = EXPOSURES[name]
    stated = exposure.of_scores(order.numerator, order.denominator)
    ranges = []
    for pair in neighbours(exposure):
        tables = [counts_of(records, exposure) for records in pair]
        moved = np.array([scores_of(b, order) - scores_of(a, order) for a, b in zip(*tables, strict=True)])
        ranges.append(moved.max(axis=1, initial=0) - moved.min(axis=1, initial=0))
    assert max(r.sum() for r in ranges) <= stated.l1
    assert max(np.sqrt((r**2).sum()) for r in ranges) <= stated.l2
    if not exposure.grouped:  # two groups move as much as each by itself, in tables too large for a search
        assert max(r.sum() for r in ranges) == stated.l1


def exponential_law(scores, rate):
    weights = np.exp(rate * scores)
    return weights / weights.sum()


def flipped_law(scores, rate):
    """Over all subsets of heads."""
    heads = np.exp(rate * (scores - scores.max()))
    law = np.zeros(len(scores))
    for shown in itertools.product((0, 1), repeat=len(scores)):
        if any(shown):
            law += np.array(shown) / sum(shown) * np.where(shown, heads, 1 - heads).prod()
    return law


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("name", EXPOSURES)
def test_no_choice_tells_neighbours_apart_by_more_than_its_epsilon(name, order):
    """The whole law of the chosen cells of all groups, computed: of the exponential mechanism and permute-and-flip."""
    exposure = EXPOSURES[name]
    column = Integer("x", 0, CELLS - 1)
    selection = QuantileSelection.of(column, [float(order)], exposure, 100)
    noise = NoiseScale("laplace", 1.0)
    (rate,), (choice, _) = selection.rates(noise), selection.losses(1.0, noise)

    @functools.cache
    def chances(counts, law):
        return np.log(law(scores_of(np.array(counts), order), rate))

    for law in (exponential_law, flipped_law):
        for pair in neighbours(exposure):
            tables = [[tuple(counts) for counts in counts_of(records, exposure).tolist()] for records in pair]
            lost = [np.abs(chances(b, law) - chances(a, law)).max() for a, b in zip(*tables, strict=True)]
            assert sum(lost) <= choice.epsilon


@pytest.mark.parametrize("name", EXPOSURES)
@pytest.mark.parametrize(("branches", "depth"), [(3, 1), (2, 2)])
def test_trees_move_as_stated_and_no_further(name, branches, depth):
    exposure = EXPOSURES[name]
    grid = CellGrid.of(Integer("x", 0, CELLS - 1), 100)
    tree = CountTree(Integer("x", 0, CELLS - 1), (Fraction(1, 2),), exposure, grid, branches, depth)
    stated, moved = tree.moves(exposure), []
    for pair in neighbours(exposure):
        first, second = (tree.finished(counts_of(records, exposure), 0) for records in pair)
        moved.append((second - first).ravel())
    assert max(np.abs(m).sum() for m in moved) == stated.l1
    longest = max(math.sqrt((m**2).sum()) for m in moved)
    assert stated.l2 * (1 - 1e-12) <= longest <= stated.l2


def test_scores_are_distances_of_ranks_in_runs():
    luck = np.random.default_rng(1)
    for _ in range(50):
        counts = luck.integers(0, 3, 9) * luck.integers(0, 2, 9)
        order = ORDERS[luck.integers(3)]
        below = np.cumsum(counts) - counts
        total = counts.sum()
        a, d = order.numerator, order.denominator
        away = [max(d * b - a * total, a * total - d * (b + c)) for b, c in zip(below, counts, strict=True)]
        assert scores_of(counts, order).tolist() == [-x for x in away]


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_all_parts_of_a_selection_cost_no_more_than_was_asked(delta):
    schema = Schema((Integer("x", 0, 10**6), Flag("f")))
    for text in ("median(x)", "quantile(x, 0.1 0.5 0.9) by f", "count, median(x), sum(x) where f"):
        for relation in ("replace", "add-remove"):
            question = prepare(
                parse_question(text, schema),
                Guarantee(epsilon=0.7, delta=delta, unit="record", neighbours=relation, group=2),
            )
            assert any(isinstance(s, QuantileSelection) for s in question.statistics)
            loss = question.spending.loss()
            assert loss.delta(0.7) <= delta
            assert loss.delta(0.7 * 0.99) > delta


def test_the_gaussian_price_of_a_selection_is_that_of_its_parts():
    exposure = EXPOSURES["replace by group"]
    selection = QuantileSelection.of(Integer("x", 0, 10**6), [0.25, 0.5], exposure, 1 << 20)
    noise = NoiseScale("gaussian", 4.0)
    choices = [
        math.sqrt(math.pi / 8) * rate * exposure.of_scores(q.numerator, q.denominator).l2
        for rate, q in zip(selection.rates(noise), selection.orders, strict=True)
    ]
    counts = exposure.of_shares(1).l2 / selection.drawn(noise).scale
    spent = math.fsum(mu**2 for mu in (*choices, counts))
    assert 0.999 / 16 < spent <= 1 / 16


# ---- answers --------------------------------------------------------------------------------------------------------

SCHEMA = Schema(
    (
        Integer("small", 0, 60),
        Integer("wide", 0, 10**5),
        Real("real", -2.0, 8.0),
        Ordinal("place", ("low", "middle", "high")),
        Date("day", date(2020, 1, 1), date(2023, 1, 1)),
        Integer("holes", 0, 50, missing="level"),
        Flag("f"),
        Category("c", ("a", "b"), missing="a"),
    )
)
ROWS = 2000


def data():
    luck = np.random.default_rng(3)
    spread = luck.gamma(3.0, 0.06, ROWS).clip(0, 1)
    days = np.datetime64("2020-01-01") + (spread * 1000).astype(int)
    holes = [None if luck.random() < 0.3 else int(x * 50) for x in spread]
    return {
        "small": (spread * 60).astype(int),
        "wide": (spread * 1e5).astype(int),
        "real": spread * 10 - 2,
        "place": luck.choice(["low", "middle", "high"], ROWS, p=[0.2, 0.5, 0.3]),
        "day": days,
        "holes": holes,
        "f": luck.random(ROWS) < 0.6,
        "c": np.repeat("a", ROWS),
    }


DATA = data()
EXACT = LocalRows(Blocks.of(open_table(pa.table(DATA), SCHEMA), SCHEMA))


def asked(text, **promise):
    return prepare(parse_question(text, SCHEMA), Guarantee(**{"epsilon": 1.0, "unit": "record"} | promise))


def answers(question, runs, level=0.95):
    """Values and interval ends of all numbers of a question's first aggregate, one row for each run."""
    sums = sums_of(EXACT, SCHEMA, [question])[0]
    found = []
    for run in range(runs):
        published = question.noisy(sums, Secret.for_testing(run))
        estimate = question.answered(published, ROWS)[0].estimate
        found.append((estimate.value, *estimate.interval(level), estimate.standard_error))
    return [np.array(part) for part in zip(*found, strict=True)]


def quantile(values, order):
    return np.sort(values)[math.ceil(order * len(values) - 1e-9) - 1]


STEPS = (DATA["day"] - np.datetime64("2020-01-01")).astype(int)
KINDS = {
    "median(small)": quantile(DATA["small"], 0.5),
    "median(wide)": quantile(DATA["wide"], 0.5),
    "median(real)": quantile(DATA["real"], 0.5),
    "median(day)": quantile(STEPS, 0.5),
    "median(place)": 1.0,
    "median(holes)": quantile([x for x in DATA["holes"] if x is not None], 0.5),
    "median(wide) where f": quantile(DATA["wide"][DATA["f"]], 0.5),
}


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("text", KINDS)
def test_with_little_noise_quantiles_of_every_kind_are_exact(text, delta):
    value, low, high, error = (part[0, 0] for part in answers(asked(text, epsilon=100.0, delta=delta), 1))
    (aggregate,) = parse_question(text, SCHEMA).aggregates
    column = aggregate.column
    whole = {"small": 60, "wide": 1e5, "real": 10, "day": 1096, "place": 2, "holes": 50}[column.name]
    assert abs(value - KINDS[text]) <= whole / 1000
    assert low <= KINDS[text] <= high
    assert high - low <= whole / 50
    assert error <= whole / 200


def test_min_and_max_are_extreme_quantiles():
    value = [answers(asked(text, epsilon=100.0), 1)[0][0, 0] for text in ("min(small)", "max(small)")]
    assert value == [quantile(DATA["small"], 0.01), quantile(DATA["small"], 0.99)]


def test_quantiles_of_a_column_are_measured_once():
    question = asked("median(wide), quantile(wide, 0.25 0.75), median(small)")
    assert len(question.statistics) == 2
    sums = sums_of(EXACT, SCHEMA, [question])[0]
    parts = question.answered(question.noisy(sums, Secret.for_testing(1)), ROWS)
    assert [part.labels for part in parts] == [("0.5",), ("0.25", "0.75"), ("0.5",)]
    assert parts[1].estimate.value[0] < parts[0].estimate.value[0] < parts[1].estimate.value[1]


@pytest.mark.parametrize("column", ["small", "wide"])
def test_an_empty_group_excludes_nothing(column):
    """No record has c == 'b'."""
    _, low, high, error = answers(asked(f"median({column}) by c", epsilon=0.5), 20)
    whole = 60 if column == "small" else 10**5
    assert (high[:, 1] - low[:, 1] > 0.8 * whole).mean() > 0.8
    assert np.median(error[:, 1]) > 0.2 * whole


# ---- coverage -------------------------------------------------------------------------------------------------------

RUNS, LEVEL = 120, 0.8
COVERED = (
    "quantile(small, 0.2) by f",
    "quantile(small, 0.2 0.5) by f",
    "quantile(wide, 0.3) where f",
    "median(wide)",
    "quantile(real, 0.05 0.95)",
    f"quantile(day, {' '.join(f'{k / 20:g}' for k in range(1, 20))})",
)


def truths(text):
    question = parse_question(text, SCHEMA)
    (aggregate,) = question.aggregates
    values = {**DATA, "day": STEPS}[aggregate.column.name]
    kept = [DATA["f"]] if question.where else [~DATA["f"], DATA["f"]] if question.by else [slice(None)]
    return np.array([quantile(values[some], order) for some in kept for order in aggregate.orders])


def missed(text, promise):
    """How often each interval missed its quantile: above it or below it, whichever is more."""
    _, low, high, _ = answers(asked(text, **promise), RUNS, LEVEL)
    truth = truths(text)
    return np.maximum((low > truth).sum(axis=0), (high < truth).sum(axis=0)).max()


def too_many(count):
    """Whether the tail of one side was missed more often than chance allows."""
    return stats.binom.sf(count - 1, RUNS, (1 - LEVEL) / 2) < ALPHA


def test_a_deep_tree_a_flat_one_and_selections_are_among_what_is_covered():
    found = [asked(text, neighbours="add-remove").statistics[0] for text in COVERED]
    kinds = [(type(s), getattr(s, "depth", 0)) for s in found]
    chosen = (QuantileSelection, 0)
    assert kinds == [(CountTree, 1), chosen, chosen, chosen, chosen, (CountTree, 2)]


@pytest.mark.parametrize("promise", [{"neighbours": "add-remove"}, {"neighbours": "replace", "delta": 1e-5}])
@pytest.mark.parametrize("text", COVERED)
def test_intervals_cover_on_both_sides(text, promise, monkeypatch):
    assert not too_many(missed(text, {"epsilon": 0.2} | promise))
    if "small" not in text:  # of few cells, the one that was found is mostly right, and always within
        margins = RankCurve.margins
        monkeypatch.setattr(RankCurve, "margins", lambda *given: -margins(*given))
        assert too_many(missed(text, {"epsilon": 0.2} | promise))


# ---- which way ------------------------------------------------------------------------------------------------------


def test_a_tree_is_for_small_grids_and_long_lists_and_selection_for_the_rest():
    for exposure in EXPOSURES.values():
        for gaussian in (False, True):
            terms = {"exposure": exposure, "most": 1 << 20, "gaussian": gaussian}
            small, wide = Integer("x", 0, 99), Integer("x", 0, 10**6)
            long = [k / 200 for k in range(1, 200)]
            assert isinstance(quantile_statistic(small, [0.5], **terms), CountTree)
            assert isinstance(quantile_statistic(wide, [0.5], **terms), QuantileSelection)
            assert isinstance(quantile_statistic(small, long, **terms), CountTree)
            assert isinstance(quantile_statistic(wide, long, **terms), CountTree)


def test_a_tree_has_the_shape_of_least_variance():
    exposure = EXPOSURES["add-remove"]
    flat = CountTree.of(Integer("x", 0, 50), [0.5], exposure, 1 << 20, gaussian=False)
    assert (flat.depth, flat.branches) == (1, 51)
    deep = CountTree.of(Real("x", 0, 1), [0.5], exposure, 1 << 20, gaussian=False)
    assert deep.grid.cells == 1 << 16
    assert deep.depth > 2
    assert deep.branches**deep.depth >= deep.grid.cells


def test_both_sides_of_every_edge_of_a_tree_are_counted():
    exposure = EXPOSURES["add-remove"]
    counts = np.random.default_rng(2).integers(0, 9, (2, 23))
    grid = CellGrid.of(Integer("x", 0, 22), 100)
    for branches, depth in ((23, 1), (5, 2), (3, 3), (2, 5)):
        tree = CountTree(Integer("x", 0, 22), (Fraction(1, 2),), exposure, grid, branches, depth)
        curve = tree.curve(tree.finished(counts, 0), NoiseScale("laplace", 1.0), None)
        assert np.array_equal(curve.left, np.cumsum(counts, axis=1)[:, :-1])
        assert np.array_equal(curve.left + curve.right, np.repeat(counts.sum(axis=1)[:, None], 22, 1))
        assert curve.parts.max() < curve.whole


def test_grids_hold_every_value_in_its_cell():
    luck = np.random.default_rng(4)
    for column, most in ((Real("x", -3.0, 1e9), 1000), (Integer("x", -7, 10**6), 100), (Integer("x", 2, 9), 100)):
        grid = CellGrid.of(column, most)
        values = luck.uniform(column.low, column.high, 500)
        values = np.array([column.low, *(np.round(values) if grid.whole else values), column.high])
        cells = grid.places(values)
        assert np.all((grid.first(cells) <= values) & (values <= grid.last(cells)))
        assert (cells.min(), cells.max()) == (0, grid.cells - 1)
    assert grid.places(np.array([math.nan, -math.inf, math.inf])).tolist() == [0, 0, 7]


def test_bounds_that_doubles_cannot_cut_are_refused():
    with pytest.raises(ParameterError, match="another unit"):
        CellGrid.of(Real("x", 0.0, 1e-310), 1000)


def test_orders_are_exact_ratios_within_0_and_1():
    assert exact_order(0.1) == Fraction(1, 10)
    assert 0 < exact_order(1e-12) < exact_order(1 - 1e-12) < 1


def test_edges_lie_around_what_was_chosen():
    assert edges_around([3], 10).tolist() == [1, 2, 3, 4, 5, 6, 8]
    assert edges_around([0, 9], 10).tolist() == [1, 2, 3, 5, 7, 8, 9]


@pytest.mark.parametrize(
    "text",
    ["median(income), count by region", "median(income), mean(income), variance(income) by region", "median(y), count"],
)
def test_fine_grids_leave_room_for_what_is_asked_beside_quantiles(text):
    """Income has a cell for each of 2^20 steps in every group, which alone fills what an answer may hold."""
    asked = Schema((Real("income", 0, 1e5), Integer("y", 0, 2**30), Category("region", tuple("nesw"))))
    for promise in (Guarantee(epsilon=1.0), Guarantee(epsilon=1.0, delta=1e-6, neighbours="add-remove")):
        found = prepare(parse_question(text, asked), promise)
        assert len(found.of_aggregate) == text.count(",") + 1
