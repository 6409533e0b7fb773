"""Labelled tables of covariances and correlations: they cover, are semidefinite, and say what the repair changed."""

import itertools
import sys

import numpy as np
import pytest

from sfumato.errors import MissingDependency, ParameterError
from sfumato.estimation.covariances import Noisy, Sketched, kept
from sfumato.estimation.moment_table import MomentColumns, Repair, correlation_table, covariance_table
from sfumato.intervals.moments import NoiseLaw

MEAN = np.array([0.3, -0.2, 0.05])
COVARIANCE = np.array([[0.3, 0.1, -0.05], [0.1, 0.2, 0.02], [-0.05, 0.02, 0.05]])
CORRELATION = COVARIANCE / np.sqrt(np.outer(np.diag(COVARIANCE), np.diag(COVARIANCE)))
RECORDS, ANCHOR = 2000, 0.87
COLUMNS = MomentColumns(("a", "b", "c"), np.ones(3), np.ones(3))
ABOVE, OFF = np.triu_indices(3), np.triu_indices(3, 1)


def view(rng, kind, scale, *, counted=False, covariance=COVARIANCE, rounding=0.0):
    """What a release about the mean holds of these moments, with new noise."""
    if kind == "sketch":
        root = np.linalg.cholesky(RECORDS * covariance + scale * np.eye(3))
        law = NoiseLaw("laplace", 20.0) if counted else None
        count = RECORDS + (rng.laplace(0, 20 / 2**0.5) if counted else 0)
        return Sketched(rng.standard_normal((60, 3)) @ root.T, scale, (float(count), law), rounding)
    second = RECORDS * (covariance + np.outer(MEAN, MEAN))
    sums = RECORDS * ANCHOR * MEAN
    whole = np.block([[second, sums[:, None]], [sums, np.array(RECORDS * ANCHOR**2)]])
    published = kept(3, centred=True, counted=counted)
    triangle = np.concatenate([np.diag(whole), whole[np.triu_indices(4, 1)]])[published]
    size = np.where(np.flatnonzero(published) <= 3, 1, 0.5**0.5)
    noise = (
        rng.laplace(0, scale / 2**0.5, triangle.size)
        if kind == "laplace"
        else scale * size * rng.standard_normal(triangle.size)
    )
    return Noisy(triangle + noise, 3, NoiseLaw(kind, scale), ANCHOR, True, None if counted else RECORDS, rounding)


def covered(kind, scale, *, counted, times=400, level=0.9):
    """How often intervals of covariances and of correlations hold the truth, and how often half as wide ones would."""
    rng, found = np.random.default_rng(7), []
    for _ in range(times):
        seen = view(rng, kind, scale, counted=counted)
        for table, truth, place in (
            (covariance_table(seen, COLUMNS, "the mean", repair=True), COVARIANCE, ABOVE),
            (correlation_table(seen, COLUMNS, repair=True), CORRELATION, OFF),
        ):
            low, high = table.interval(level)
            half = (high - low) / 4
            found.append(
                [((low <= truth) & (truth <= high))[place], ((low + half <= truth) & (truth <= high - half))[place]]
            )
    return [np.mean(found[k::2], axis=0) for k in (0, 1)]


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize(("kind", "scale"), [("gaussian", 10.0), ("laplace", 8.0), ("sketch", 20.0)])
def test_intervals_of_covariances_and_correlations_cover_and_halves_of_them_do_not(kind, scale, counted):
    for both in covered(kind, scale, counted=counted):
        assert (both[0] > 0.85).all()
        assert (both[0] < 0.96).all()
        assert (both[1] < 0.75).all()


@pytest.mark.parametrize(("kind", "scale"), [("gaussian", 40.0), ("laplace", 60.0), ("sketch", 200.0)])
def test_intervals_cover_where_a_variance_is_hardly_distinguishable_from_0(kind, scale):
    """The third column's variance of 0.05 has an error of about 0.02 to 0.04."""
    for both in covered(kind, scale, counted=False):
        assert (both[0] > 0.85).all()


def test_a_delta_method_interval_would_not_cover_there():
    """What the quadratic in the correlation is for: intervals about the estimate miss more often."""
    rng, hits = np.random.default_rng(8), []
    strong = np.array([[0.3, 0.1, 0.1], [0.1, 0.2, 0.02], [0.1, 0.02, 0.05]])
    truth = strong[0, 2] / (0.3 * 0.05) ** 0.5
    for _ in range(600):
        table = correlation_table(view(rng, "gaussian", 25.0, covariance=strong), COLUMNS, repair=False)
        if np.isfinite(table.values[0, 2]):
            low, high = (end[0, 2] for end in table.interval(0.95))
            reach = 1.96 * table.standard_error[0, 2]
            hits.append([low <= truth <= high, abs(table.raw[0, 2] - truth) <= reach])
    ours, delta = np.mean(hits, axis=0)
    assert ours > 0.93
    assert delta < ours


def test_simultaneous_intervals_hold_all_entries_at_once():
    rng, hits = np.random.default_rng(9), []
    for _ in range(400):
        table = correlation_table(view(rng, "gaussian", 10.0), COLUMNS, repair=True)
        ends = [table.interval(0.9, simultaneous=at_once) for at_once in (True, False)]
        hits.append([((low <= CORRELATION) & (high >= CORRELATION)).all() for low, high in ends])
    together, singly = np.mean(hits, axis=0)
    assert together > 0.87
    assert singly < 0.85


def test_what_rounding_can_do_is_in_the_intervals():
    """Without noise to speak of, on a coarse grid: intervals hold the moments of the rows before they were rounded."""
    rng, step = np.random.default_rng(3), 1 / 16
    for _ in range(20):
        rows = rng.uniform(-1, 1, (3, 200)) * rng.uniform(0.2, 1, (3, 1))
        rows -= np.rint(rows.mean(axis=1) / step)[:, None] * step
        moved = np.rint(rows / step) * step
        sums = np.vstack([moved, np.full((1, 200), ANCHOR)])
        whole = sums @ sums.T
        triangle = np.concatenate([np.diag(whole), whole[np.triu_indices(4, 1)]])[kept(3, centred=True, counted=False)]
        seen = Noisy(triangle, 3, NoiseLaw("gaussian", 1e-9), ANCHOR, True, 200, np.full(3, step / 2))
        low, high = covariance_table(seen, COLUMNS, "the mean", repair=True).interval()
        truth = np.cov(rows, bias=True)
        assert ((low <= truth) & (truth <= high)).all()
        low, high = correlation_table(seen, COLUMNS, repair=True).interval()
        assert ((low <= np.corrcoef(rows) + 1e-12) & (np.corrcoef(rows) - 1e-12 <= high)).all()
        assert (high - low)[OFF].min() > 0


# ---- the repair ------------------------------------------------------------------------------------------------------

SINGULAR = np.eye(3) / 3 - 1 / 9  # the values of a category


def repaired(sign=1.0, seed=1, scale=20.0):
    """Tables that had a negative eigenvalue."""
    rng = np.random.default_rng(seed)
    while True:
        seen = view(rng, "gaussian", scale, covariance=SINGULAR * np.outer([1, 1, sign], [1, 1, sign]))
        if np.linalg.eigvalsh(seen.covariance())[0] < -0.003:
            return seen


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_tables_are_semidefinite_and_say_what_that_changed(sign):
    """With one sign entries grow by the repair, with the other some fall: intervals hold them all."""
    seen = repaired(sign)
    for make in (
        lambda **r: covariance_table(seen, COLUMNS, "the mean", **r),
        lambda **r: correlation_table(seen, COLUMNS, **r),
    ):
        fixed, plain = make(repair=True), make(repair=False)
        assert np.linalg.eigvalsh(fixed.values)[0] > -1e-12
        assert np.linalg.eigvalsh(plain.values)[0] < -1e-3
        assert np.array_equal(fixed.raw, plain.raw)
        change = np.abs(fixed.values - plain.values)
        errors = np.where(plain.standard_error > 0, plain.standard_error, np.inf)
        assert fixed.changed.eigenvalues == 1
        assert fixed.changed.largest == pytest.approx((change / errors).max())
        assert fixed.changed.norm == pytest.approx(np.linalg.norm(change) / np.linalg.norm(plain.values))
        assert plain.changed == Repair()
        assert "1 negative eigenvalue was set to 0" in str(fixed.changed)
        assert "standard errors (" in str(fixed.changed)
        assert str(fixed.changed) in repr(fixed)
        low, high = fixed.interval(0.01)
        assert ((low <= fixed.values) & (fixed.values <= high)).all()
    assert "Nothing was changed" in repr(plain)
    correlation = correlation_table(seen, COLUMNS, repair=True).values
    assert (correlation.diagonal() == 1).all()
    assert np.abs(correlation).max() <= 1


def test_two_negative_eigenvalues_are_counted():
    assert "2 negative eigenvalues were set to 0" in str(Repair(2, 0.5, ("a", "b"), 0.1))


def test_a_variance_that_is_lost_in_the_noise_has_no_correlations():
    rng = np.random.default_rng(5)
    seen = view(rng, "gaussian", 30.0, covariance=np.diag([0.3, 0.2, 0.0]))
    table = correlation_table(seen, COLUMNS, repair=True)
    assert np.isnan(table.values[2]).all()
    assert np.isfinite(table.values[:2, :2]).all()
    low, high = table.interval()
    assert (low[2] == -1).all()
    assert (high[2] == 1).all()
    assert "No correlation (nan) for c: the variance is not distinguishable from 0" in repr(table)
    assert np.isnan(table["a", "c"].value)
    assert table["a", "c"].interval() == (-1.0, 1.0)
    many = MomentColumns(tuple("abc"), np.ones(3), np.ones(3))
    none = correlation_table(view(rng, "gaussian", 1e5), many, repair=True)
    assert np.isnan(none.values).all()
    assert "nan" in repr(none)


# ---- a table in the hand ---------------------------------------------------------------------------------------------


@pytest.fixture
def table():
    """In the columns' own units: the second column counts tenfold in the release."""
    columns = MomentColumns(("age", "hours", "<b>sex=Male</b>"), np.array([1.0, 10.0, 1.0]), np.array([1.0, 0.1, 1.0]))
    return covariance_table(view(np.random.default_rng(6), "gaussian", 5.0), columns, "the mean", repair=True)


def test_values_are_in_the_columns_own_units_and_labelled(table):
    pytest.importorskip("pandas")
    expected = COVARIANCE / np.outer([1, 10, 1], [1, 10, 1])
    assert (np.abs(table.values - expected) < 5 * table.standard_error).all()
    assert np.array_equal(np.asarray(table), table.values)
    assert np.asarray(table) is not table.values
    frame = table.to_pandas()
    assert list(frame.index) == list(frame.columns) == list(table.names)
    assert frame.loc["age", "hours"] == table.values[0, 1] == table["hours", "age"].value
    found = table["age", "hours"]
    low, high = table.interval(0.8)
    assert found.interval(0.8) == (low[0, 1], high[0, 1])
    assert found.standard_error == table.standard_error[0, 1]
    assert found.limits == pytest.approx((-0.1, 0.1))
    assert table["hours", "hours"].limits == pytest.approx((0.0, 0.01))
    rows = table.table(0.8).to_pylist()
    assert [(r["row"], r["column"]) for r in rows][3] == ("age", "hours")
    assert rows[3]["low"] == low[0, 1]
    assert table.table(0.8, simultaneous=True).to_pylist()[3]["low"] < low[0, 1]


def test_some_columns_keep_their_numbers(table):
    part = table.select(["<b>sex=Male</b>", "age"])
    assert part.names == ("<b>sex=Male</b>", "age")
    for a, b in itertools.product(part.names, repeat=2):
        assert part[a, b].value == table[a, b].value
        assert part[a, b].interval() == table[a, b].interval()
        assert part[a, b].limits == table[a, b].limits
    for wrong in ([], ["age", "age"]):
        with pytest.raises(ParameterError, match="distinct"):
            table.select(wrong)


def test_it_prints_as_a_table_for_terminals_and_notebooks(table):
    lines = repr(table).splitlines()
    assert lines[0] == "Covariance of 3 columns about the mean"
    assert lines[1].split() == ["age", "hours", "<b>sex=Male</b>"]
    assert lines[2].startswith("age ")
    assert lines[2].count("+-") == 3
    assert "in the columns' own units" in lines[5]
    page = table._repr_html_()
    assert "&lt;b&gt;sex=Male" in page
    assert "<b>" not in page
    assert page.count("\u00b1") == 9
    columns = MomentColumns(tuple(f"column {i}" for i in range(40)), np.ones(40), np.ones(40))
    wide = Noisy(np.arange(860.0), 40, NoiseLaw("gaussian", 1.0), 1.0, True, 1000)
    wide = covariance_table(wide, columns, "the mean", repair=True)
    assert "28 more columns are not shown" in repr(wide)
    assert "+-" not in repr(wide).splitlines()[2]
    assert "Standard errors (noise only) are " in repr(wide)


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        (("age", "hour"), "did you mean hours"),
        (("age", "nobody"), "the columns are age, hours"),
        ("age", "two columns"),
        (("age",), "two columns"),
        (0, "two columns"),
    ],
)
def test_wrong_names_are_refused_with_those_near_them(table, pair, said):
    with pytest.raises(ParameterError, match=said):
        _ = table[pair]


def test_without_pandas_it_says_so(table, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingDependency, match="pip install pandas"):
        table.to_pandas()
