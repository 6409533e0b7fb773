"""Tables by a Gaussian copula: rows of bounded length, what one of them moves, and correlations that come out."""

import itertools
import math
import warnings

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import InexactWarning, ParameterError, ReleaseError
from sfumato.mechanisms.table import copula, methods
from sfumato.mechanisms.table.budget import Meter, Shares, TableMoves, TableScales
from sfumato.mechanisms.table.recipe import Table
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness.secret import Secret
from sfumato.report import table_scenes
from sfumato.tables.columns import Category, Flag, Integer, Real, Vector
from sfumato.tables.schema import Schema
from tests.support.forging import reseal
from tests.support.tables_run import run

RECORD = Guarantee(epsilon=1.0, delta=1e-6, unit="record")


def rows_of(vectors, top):
    """Vectors of steps as the mechanism places them: every vector is a bin of its own in each variable."""
    vectors = np.asarray(vectors, float)
    codes = [np.arange(vectors.shape[1])] * len(vectors)
    return copula.placed(codes, list(vectors), top)


def usual(columns):
    """The least length that rows are shrunk to."""
    return math.isqrt(columns * copula.STEPS**2)


def svec(rows):
    """The triangle of x x' for each row, in exact integers: its diagonal, and what is above."""
    whole = rows.astype(np.int64)
    above = np.triu_indices(len(rows), 1)
    return np.vstack([whole**2, whole[above[0]] * whole[above[1]]])


def norm(moves, columns, order):
    moves = np.abs(moves).astype(float)
    if order == 1:
        return moves.sum(axis=0)
    return np.sqrt((moves[:columns] ** 2).sum(axis=0) + 2 * (moves[columns:] ** 2).sum(axis=0))


# ---- what one unit moves --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("larger", [1.0, 1.37, 2.5])
@pytest.mark.parametrize("columns", [1, 2, 3, 7, 40, 500, 4096])
def test_no_row_is_longer_than_the_noise_allows(columns, larger):
    """With Python's integers, on hostile vectors: at the clip, just longer than allowed, and of all sizes."""
    rng, top = np.random.default_rng(columns), int(larger * usual(columns))
    some = 20 if columns > 100 else 300
    vectors = [rng.choice([-1280, 0, 1280], (columns, some)), rng.integers(-1280, 1281, (columns, some))]
    near = rng.normal(size=(columns, some))
    vectors.append(np.clip(np.rint(near / np.linalg.norm(near, axis=0) * (top + 1)), -1280, 1280))
    for given in vectors:
        found = rows_of(given, top)
        assert (found == np.trunc(found)).all()
        for before, after in zip(given.T, found.T, strict=True):
            exact = sum(int(x) ** 2 for x in after)
            assert exact <= top**2
            assert exact >= 0.98 * min(top**2, float((before**2).sum()))  # and no row is thrown away
            assert (after * before >= 0).all()
            if (before**2).sum() <= top**2:
                assert (after == before).all()


def test_a_row_depends_on_its_own_bins_alone():
    rng = np.random.default_rng(1)
    vectors = rng.integers(-1280, 1281, (9, 300))
    found = rows_of(vectors, usual(9))
    for place in (0, 7, 299):
        assert (rows_of(vectors[:, place : place + 1], usual(9))[:, 0] == found[:, place]).all()
    assert (rows_of(vectors[:, ::-1], usual(9))[:, ::-1] == found).all()


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("columns", [2, 3, 4])
def test_neighbours_move_the_second_moment_as_far_as_the_budget_says_and_no_further(columns, order, replace):
    """All pairs of vectors at corners and of many random ones, in exact integers."""
    rng, top = np.random.default_rng(columns), usual(columns)
    corners = np.array(list(itertools.product([-1280, 0, 1280], repeat=columns))).T
    found = svec(rows_of(np.hstack([corners, rng.integers(-1280, 1281, (columns, 400))]), top))
    furthest = norm(found, columns, order).max()
    if replace:
        furthest = max(norm(found - one[:, None], columns, order).max() for one in found.T)
    claimed = TableMoves(replace, 1, order).moment(columns, top)
    assert furthest <= claimed
    assert furthest > (0.85 if order == 1 and replace else 0.99) * claimed  # the l1 bound for pairs has some room
    assert TableMoves(replace, 3, order).moment(columns, top) == pytest.approx(3 * claimed)


@pytest.mark.parametrize("order", [1, 2])
def test_a_second_moment_is_charged_and_gets_its_noise_once(order):
    scales = TableScales(TableMoves(replace=True, group=1, order=order), 1.0)
    scale, columns = scales.moment(60, 500, 1.0), 60
    meter = Meter(scales, Secret.for_testing(1), "table")
    exact = np.arange(columns**2).reshape(columns, columns)
    exact = exact + exact.T
    noisy = meter.moment(exact, 500, scale, "moment") - exact
    assert meter.spent == pytest.approx(1.0)
    assert (noisy == noisy.T).all()
    off = noisy[np.triu_indices(columns, 1)]
    assert off.std() == pytest.approx(scales.deviation(scale) / (np.sqrt(2) if order == 2 else 1), rel=0.1)
    assert np.diag(noisy).std() == pytest.approx(scales.deviation(scale), rel=0.5)
    with pytest.raises(ParameterError, match="nothing was drawn"):
        meter.moment(exact, 500, 1e3 * scale, "again")


def test_shares_of_a_copula_are_those_of_its_stages():
    with_label, without = (methods.shares(Table(label, method="copula"), "copula", 5) for label in ("y", None))
    assert set(with_label.stages) == {"one-way", "label pair", "moment"}
    assert set(without.stages) == {"one-way", "moment"}
    with pytest.raises(ParameterError, match="add up to 1"):
        Shares(0.5, 0.0, 0.0, moment=0.6)


def test_auto_never_chooses_a_copula():
    scales = TableScales(TableMoves(replace=True, group=1, order=2), 4.0)
    found = {methods.chosen(Table(), v, scales, 10.0**p).method for v in (1, 20, 400) for p in range(9)}
    assert found == {"pairs", "tree"}


# ---- what comes out -------------------------------------------------------------------------------------------------

NUMBERS = Schema((Real("a", -4, 4), Real("b", -4, 4), Integer("c", 0, 50), Category("d", tuple("wxyz")), Flag("y")))


def numbers(rows=20_000, seed=1):
    """Numbers that hang together, and a category whose levels are in no order by themselves."""
    rng = np.random.default_rng(seed)
    a, noise, more = rng.normal(size=(3, rows))
    b = -0.8 * a + 0.6 * noise
    level = np.digitize(0.7 * a + 0.7 * more, [-0.6, 0, 0.6])
    return {
        "a": a.clip(-4, 4),
        "b": b.clip(-4, 4),
        "c": np.clip(np.exp(1 + a), 0, 50).astype(int),
        "d": np.array(list("ywzx"))[level],
        "y": 0.9 * a + 0.4 * rng.normal(size=rows) > 0,
    }


@pytest.mark.parametrize("promise", [{}, {"neighbours": "add-remove"}, {"delta": 0.0, "epsilon": 4.0}])
def test_correlations_and_single_columns_come_out(promise):
    guarantee = Guarantee(**{"epsilon": 1.0, "delta": 1e-6, "unit": "record"} | promise)
    given = numbers()
    published, found = run(Table("y", method="copula"), NUMBERS, guarantee, given, Secret.for_testing(1))
    facts = published.facts["mechanism"]
    assert facts["method"] == "copula"
    assert facts["cliques"] == [[0], [1], [2], [3], [4]]
    moves, moment = TableMoves.of(guarantee, 1 if guarantee.delta == 0 else 2), facts["moment"]
    assert moment["sensitivity"] == moves.moment(5, moment["longest"])
    assert usual(5) <= moment["longest"] <= 2.5 * (usual(5) + 1)
    assert np.corrcoef(found["a"], found["b"])[0, 1] == pytest.approx(-0.8, abs=0.05)
    for name in "abc":
        assert np.mean(found[name]) == pytest.approx(np.mean(given[name]), abs=0.1 * np.std(given[name]))
    for level in "wxyz":
        means = [np.mean(np.array(some["y"])[np.array(some["d"]) == level]) for some in (given, found)]
        assert means[1] == pytest.approx(means[0], abs=0.08)


def test_without_categories_nothing_is_measured_for_their_order():
    schema, given = Schema(NUMBERS.columns[:3]), numbers(2000)
    published, _ = run(
        Table("c", method="copula"), schema, RECORD, {name: given[name] for name in "abc"}, Secret.for_testing(1)
    )
    facts = published.facts["mechanism"]
    assert {table["stage"] for table in facts["tables"]} == {"one-way"}
    budget = TableScales(TableMoves(replace=True, group=1, order=2), 1.0)
    one_way, moment = facts["shares"]["one-way"], facts["moment"]
    ratio = moment["scale"] / facts["tables"][0]["scale"]  # what the label does not need, the moment gets
    expected = budget.moment(3, moment["longest"], 1 - one_way) / budget.alike(3, one_way)
    assert ratio == pytest.approx(expected, rel=1e-6)


def test_rows_may_be_longer_where_the_noise_is_small():
    given = numbers(3000)
    found = []
    for epsilon in (0.01, 1.0, 50.0):
        guarantee = Guarantee(epsilon=epsilon, delta=1e-6, unit="record")
        published, _ = run(Table(method="copula"), NUMBERS, guarantee, given, Secret.for_testing(1))
        found.append(published.facts["mechanism"]["moment"]["longest"])
    assert found[0] == usual(5)
    assert found == sorted(found)
    assert found[-1] == int(2.5 * math.sqrt(5) * copula.STEPS)


def test_levels_of_a_label_lie_along_the_numbers():
    """Classes whose means are in another order than that of the schema; a copula of that order would mix them up."""
    rng = np.random.default_rng(1)
    label = rng.integers(0, 4, 8000)
    given = {
        "a": (np.array([0.0, 3.0, 1.0, 2.0])[label] + 0.3 * rng.normal(size=8000)).clip(-4, 4),
        "y": np.array(list("wxyz"))[label],
    }
    schema = Schema((Real("a", -4, 4), Category("y", tuple("wxyz"))))
    _, found = run(Table("y", method="copula"), schema, RECORD, given, Secret.for_testing(1))
    for level, mean in zip("wxyz", (0.0, 3.0, 1.0, 2.0), strict=True):
        assert np.mean(np.array(found["a"])[np.array(found["y"]) == level]) == pytest.approx(mean, abs=0.15)


# ---- what is refused ------------------------------------------------------------------------------------------------


def test_a_copula_keeps_nothing_that_is_forbidden_and_says_so():
    with pytest.raises(ParameterError, match="cannot keep what is forbidden"):
        Table(method="copula", forbid=("a > 1 and b > 1",))


def test_too_many_variables_are_refused_before_anything_is_read():
    schema = Schema((Vector("v", 4097, 0, 1),))
    with pytest.raises(ParameterError, match=r"at most 4,096 variables, got 4,097"):
        Table(method="copula").prepare(schema, RECORD)


# ---- in the analyst's hands -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made():
    data = pa.table(numbers(5000))
    return sf.release(
        data, schema=NUMBERS, mechanism=sf.Table("y", method="copula"), guarantee=RECORD, secret=Secret.for_testing(1)
    )


def test_a_copula_is_the_same_after_saving(made, tmp_path):
    made.save(tmp_path / "r")
    loaded = sf.load(tmp_path / "r", allow_unprotected=True)
    assert loaded.sample(50, seed=3).equals(made.sample(50, seed=3))
    assert loaded.to_pandas().equals(made.to_pandas())
    for text in ("a > 0", "d = 'x'", "true"):
        with warnings.catch_warnings():
            warnings.simplefilter("error", InexactWarning)
            assert loaded.probability(text) == made.probability(text)
    with pytest.warns(InexactWarning, match="several columns"):
        found = loaded.probability("a > 0 and b < 0")
    drawn = loaded.sample(100_000, seed=4)
    assert found == pytest.approx(np.mean((drawn["a"].to_numpy() > 0) & (drawn["b"].to_numpy() < 0)), abs=0.005)
    assert found > 0.3
    assert (loaded.model().correlation == made.model().correlation).all()


def test_counts_of_a_copula_have_error_bars(made):
    given = numbers(5000)
    for level, y in itertools.product("wxyz", (True, False)):
        found = made.count(f"d = '{level}' and y = {str(y).lower()}")
        low, high = found.interval(1 - 1e-8)
        assert low <= np.sum((given["d"] == level) & (given["y"] == y)) <= high
        assert high - low < 4000
    with pytest.raises(ReleaseError, match="no error bars"):
        made.count("a > 0 and b < 0")


@pytest.mark.parametrize(
    "change",
    [
        lambda facts: facts | {"method": "pairs"},
        lambda facts: facts | {"cliques": [[0, 1], [2], [3], [4]]},
        lambda facts: facts | {"cliques": facts["cliques"][::-1]},
        lambda facts: facts | {"forbid": ["a > 1"]},
        lambda facts: facts | {"moment": facts["moment"] | {"steps": 0}},
    ],
)
def test_facts_of_a_copula_that_contradict_themselves_are_refused(made, tmp_path, change):
    made.save(tmp_path / "r")
    sf.load(tmp_path / "r", allow_unprotected=True)
    reseal(tmp_path / "r", mechanism=change(made.manifest["mechanism"]))
    with pytest.raises(ReleaseError, match="manifest"):
        sf.load(tmp_path / "r", allow_unprotected=True)


def test_the_report_of_a_copula_shows_its_correlations(made):
    structure = table_scenes.scenes(made)[0]
    assert "Gaussian copula" in structure.caption
    assert "counted" not in structure.caption
    drawn, _ = table_scenes._correlations(made)
    assert drawn[0, 1] == abs(made.model().correlation[0, 1]) > 0.5
    assert (np.diag(drawn) == 0).all()
