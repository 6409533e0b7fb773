"""Covariances in the analyst's hands: unbiased, with the errors stated, saved whole, and no row count leaked."""

import itertools
import json
import math
import sys
from dataclasses import replace

import numpy as np
import pytest

import sfumato
from sfumato.errors import MissingDependency, ParameterError, ReleaseError
from sfumato.estimation import covariances, linear_models
from sfumato.fileformat import kinds, writer
from sfumato.fileformat.plain_words import readme, registry_draft, sensitivity
from sfumato.fileformat.reader import digest
from sfumato.fileformat.writer import seal
from sfumato.intervals.moments import NoiseLaw
from sfumato.mechanisms import second_moment
from sfumato.mechanisms.covariance import Covariance
from sfumato.mechanisms.second_moment import SecondMoment
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.projection.moment_grid import MomentGrid
from sfumato.randomness.secret import Secret
from sfumato.releases.covariance import CovarianceRelease
from sfumato.tables.columns import Category, Flag, Real
from sfumato.tables.schema import Schema
from support.covariances import CUBE, LEVEL, releases
from support.evidence import agrees
from support.moments import Block

NOISES, NEIGHBOURS = ["gaussian", "laplace", "sketch"], ["replace", "add-remove"]


def data(rows=4000):
    """Correlated rows within the cube, with a mean of their own."""
    rng = np.random.default_rng(1)
    spread = np.array([[0.3, 0.0, 0.0], [0.2, 0.2, 0.0], [0.0, 0.1, 0.1]])
    return np.clip(rng.uniform(-1, 1, (rows, 3)) @ spread.T + [0.2, -0.3, 0.1], -1, 1)


def truth(rows, centred):
    """Of the rows as they are on the grid, so that rounding is no error."""
    grid = SecondMoment.anchored(CUBE, Guarantee(epsilon=1.0), 1, centred=True).grid
    exact = grid.round(rows.T)[:-1] * grid.step
    return np.cov(exact, bias=True) if centred else exact @ exact.T / exact.shape[1]


def prepared_for(noise, *, centred, neighbours, rows=60):
    recipe = Covariance(noise=noise, centred=centred, rows=rows if noise == "sketch" else None)
    delta = 0.0 if noise == "laplace" else 1e-3
    return recipe.prepare(CUBE, Guarantee(epsilon=1.0, delta=delta, neighbours=neighbours))


ALL = [*itertools.product(NOISES, [False, True], NEIGHBOURS)]


@pytest.mark.parametrize(("noise", "centred", "neighbours"), ALL)
def test_variances_are_unbiased_with_the_error_stated_and_intervals_cover(noise, centred, neighbours):
    rows, direction = data(), np.array([1.0, -0.5, 2.0])
    expected = direction @ truth(rows, centred) @ direction
    prepared = prepared_for(noise, centred=centred, neighbours=neighbours)
    found = [release.variance(direction) for release in releases(prepared, rows, range(500))]
    values, errors = (np.array([getattr(f, name) for f in found]) for name in ("uncut", "standard_error"))
    typical = math.sqrt(np.mean(errors**2))
    assert agrees(values, expected)
    assert not agrees(values, expected + 0.4 * typical)
    assert agrees((values - expected) ** 2 / typical**2, 1.0)
    assert not agrees((values - expected) ** 2 / typical**2, 1.8)
    low, high = np.array([f.interval(0.9) for f in found]).T
    cautious = noise == "sketch" and neighbours == "add-remove"  # the number of records may be missed by itself
    assert 0.86 < np.mean((low <= expected) & (expected <= high)) < (0.98 if cautious else 0.94)
    middle, less = (low + high) / 2, (high - low) / 4
    assert np.mean(np.abs(middle - expected) < less) < 0.75


@pytest.mark.parametrize(("noise", "centred"), [*itertools.product(NOISES, [False, True])])
def test_the_whole_matrix_is_unbiased_and_repairing_it_is_not(noise, centred):
    rows = data(400)
    expected = truth(rows, centred)
    prepared = prepared_for(noise, centred=centred, neighbours="replace")
    found = [*releases(prepared, rows, range(500))]
    plain = np.array([release.covariance(repair=False).values for release in found])
    fixed = np.array([release.covariance().values for release in found])
    for i, j in itertools.combinations_with_replacement(range(3), 2):
        assert agrees(plain[:, i, j], expected[i, j])
    assert (np.linalg.eigvalsh(fixed) > -1e-9).all()
    assert not agrees(fixed.trace(axis1=1, axis2=2), expected.trace())
    assert (
        np.linalg.norm(fixed - expected, axis=(1, 2)) <= np.linalg.norm(plain - expected, axis=(1, 2)) + 1e-12
    ).all()


def test_without_its_correction_a_centred_covariance_is_biased():
    """Squared noise on the sums is taken off; a few rows with much noise show it."""
    rows = data(40)
    prepared = prepared_for("gaussian", centred=True, neighbours="replace")
    found = [release.view for release in releases(prepared, rows, range(600))]
    traces = np.array([view.covariance().trace() for view in found])
    assert agrees(traces, truth(rows, True).trace())
    assert not agrees(traces - 3 * found[0].sum_variance / 40**2, truth(rows, True).trace())


@pytest.mark.parametrize(
    ("noise", "centred"), [("gaussian", False), ("gaussian", True), ("laplace", False), ("sketch", True)]
)
def test_intervals_hold_all_eigenvalues_at_once_and_single_ones_do_not(noise, centred):
    """Equal eigenvalues, which noise drives apart. The widths of one release serve for all: they hardly differ."""
    rows = np.array([*itertools.product([-0.5, 0.5], repeat=3)] * 200)
    expected = np.linalg.eigvalsh(truth(rows, centred))[::-1]
    prepared = prepared_for(noise, centred=centred, neighbours="replace")
    every = [*releases(prepared, rows, range(400, 800))]
    found = [release.principal_components(3).variances for release in every]
    values, errors = (np.array([getattr(f, name) for f in found]) for name in ("uncut", "standard_error"))
    low, high = every[0].view.eigenvalue_bounds(values.ravel(), 0.05)
    inside = (low.reshape(-1, 3) <= expected) & (expected <= high.reshape(-1, 3))
    assert np.mean(inside.all(axis=1)) > 0.865
    assert np.mean(inside.all(axis=1)) < (0.995 if noise == "sketch" else 0.96)
    alone = np.abs(values - expected) < 1.645 * errors
    assert np.mean(alone.all(axis=1)) < 0.75
    plain = found[0].interval(0.9)
    assert np.array_equal(plain, found[0].interval(0.9, simultaneous=True))
    assert np.allclose(plain[1], np.minimum(high[:3], 3.0))


# ---- rounding -------------------------------------------------------------------------------------------------------

PEOPLE = Schema([Real("age", 0, 120), Real("share", 0, 1, weight=120.0)], scale="raw")


def views_of_many_records():
    """300 releases of a million records that lie between the points of any grid: 20.01, and 0 or 0.3."""
    share = np.where(np.arange(1_000_000) % 10 == 0, 0.3, 0.0)
    rows = np.stack([np.full(share.size, 20.01), share])
    guarantee = Guarantee(epsilon=2.0, delta=1e-6)
    prepared = Covariance(centred=False).prepare(PEOPLE, guarantee)
    views = [r.view for r in releases(prepared, rows.T, range(300), calibrate(prepared, guarantee).level, PEOPLE)]
    return views, np.array([39.99**2, 3600 * np.mean((2 * share - 1) ** 2)])


def shares_covered(views, truth):
    """How often 95% intervals hold the variances of both columns."""
    ends = np.array([[view.variance(axis, 3600.0).interval() for axis in np.eye(2)] for view in views])
    return np.mean((ends[..., 0] <= truth) & (truth <= ends[..., 1]), axis=0)


def test_intervals_of_many_records_that_lie_between_grid_points_cover_what_they_were(monkeypatch):
    """Rounding is a bias that grows with the number of records, and noise does not."""
    least = 0.95 - 6.2 * math.sqrt(0.95 * 0.05 / 300)
    views, truth = views_of_many_records()
    assert (shares_covered(views, truth) >= least).all()
    alone, both = (replace(views[0], rounding=t).variance(np.eye(2)[0], 3600.0) for t in (0.0, views[0].rounding))
    widths = [float(np.diff(found.interval())[0]) for found in (alone, both)]
    assert widths[0] < widths[1] < 1.2 * widths[0]  # the grid is so fine that the bound hardly shows
    # the grid of 0.1.0: noise alone explains nothing, and with the bound releases of then are covered, if widely
    monkeypatch.setattr(second_moment, "BITS", 11)
    views, truth = views_of_many_records()
    assert (shares_covered([replace(view, rounding=0.0) for view in views], truth) < least).all()
    assert (shares_covered(views, truth) >= least).all()


def test_what_rounding_can_do_is_bounded_for_variances_components_and_regressions():
    """Without noise to speak of, on a grid so coarse that it shows: each interval holds the truth of the exact rows."""
    rng = np.random.default_rng(3)
    schema = Schema([Real("a", -1, 1), Real("b", -1, 1), Flag("f")])
    frame = MomentGrid.of(schema, 4)
    for _ in range(8):
        rows = rng.uniform(-1, 1, (2, 200)) * rng.uniform(0.05, 1, (2, 1))
        rows = np.vstack([rows, np.where(rng.random(200) < 0.3, 0.5, -0.5)])
        moved = np.rint(rows / frame.step) * frame.step
        assert (np.abs(moved - rows) <= frame.rounding[:, None]).all()
        values = np.concatenate([np.sum(moved**2, axis=1), (moved @ moved.T)[np.triu_indices(3, 1)]])
        view = covariances.Noisy(values, 3, NoiseLaw("gaussian", 1e-9), 1.0, False, 200, frame.rounding)
        truth, direction = rows @ rows.T / 200, rng.normal(size=3)
        low, high = view.variance(direction, 1e3).interval()
        assert low <= direction @ truth @ direction <= high
        low, high = linear_models.principal_components(view, 3, 1e3).variances.interval()
        assert ((low <= np.linalg.eigvalsh(truth)[::-1]) & (np.linalg.eigvalsh(truth)[::-1] <= high)).all()
        low, high = linear_models.LeastSquares.of(view, ([0, 2], 1), 0.1).coefficients(np.ones(2)).interval()
        expected = np.linalg.solve(truth[np.ix_([0, 2], [0, 2])] + 0.1 * np.eye(2), truth[[0, 2], 1])
        assert ((low <= expected) & (expected <= high)).all()
    assert frame.rounding[2] < 1e-9  # both values of a flag lie on this grid


@pytest.mark.parametrize(("noise", "neighbours"), [*itertools.product(NOISES, NEIGHBOURS)])
def test_regressions_are_near_least_squares_with_errors_that_cover(noise, neighbours):
    rows = data(20_000)
    prepared = prepared_for(noise, centred=True, neighbours=neighbours, rows=400)
    scale = {"gaussian": 4.0, "laplace": 1.0, "sketch": 4.0}[noise]
    found = [r.regression("c1", ["c0", "c2"]) for r in releases(prepared, rows, range(250), scale)]
    design = np.column_stack([rows[:, [0, 2]], np.ones(len(rows))])
    expected = np.linalg.lstsq(design, rows[:, 1], rcond=None)[0]
    values, errors = (np.array([getattr(f.coefficients, n) for f in found]) for n in ("value", "standard_error"))
    for k in range(2):
        assert 0.7 < np.mean((values[:, k] - expected[k]) ** 2) / np.mean(errors[:, k] ** 2) < 1.4
        low, high = np.array([np.transpose(f.coefficients.interval(0.9))[k] for f in found]).T
        assert 0.84 < np.mean((low <= expected[k]) & (expected[k] <= high)) < 0.96
    if noise == "sketch":
        assert found[0].intercept is None
        return
    low, high = np.array([f.intercept.interval(0.9) for f in found]).T
    assert 0.84 < np.mean((low <= expected[2]) & (expected[2] <= high)) < 0.96
    assert np.mean((low + high) / 2 - (high - low) / 4 > expected[2]) > 0.1  # half as wide would be too narrow


def test_regressions_are_in_the_columns_own_units():
    schema = Schema([Real("a", 0, 100, weight=0.01), Real("b", 0, 10, weight=0.2)], scale="raw")
    a = np.random.default_rng(2).uniform(0, 100, 50_000)
    table = np.column_stack([a, 2 + 0.05 * a])
    promise = Guarantee(epsilon=1.0, delta=1e-6)
    made = sfumato.release(table, schema=schema, mechanism=Covariance(centred=True), guarantee=promise)
    found = made.regression("b", ["a"])
    assert found.coefficients.value == pytest.approx([0.05], rel=0.05)
    assert found.intercept.value == pytest.approx(2, abs=0.2)
    assert made.variance({"a": 1.0}).value == pytest.approx(np.var(a), rel=0.05)
    assert made.variance([1.0, 0.0]).value == pytest.approx(np.var(a) * 1e-4, rel=0.05)  # weighted units
    assert np.allclose(made.centre() / [0.01, 0.2], table.mean(axis=0), rtol=0.02)


# ---- tables ---------------------------------------------------------------------------------------------------------

WORKERS = Schema([Real("age", 20, 70), Flag("owner"), Category("city", ["Bern", "Basel", "Genf"]), Real("pay", 0, 100)])


def workers(rows=40_000):
    rng = np.random.default_rng(4)
    age, owner, city = rng.uniform(20, 70, rows), rng.random(rows) < 0.3, rng.integers(0, 3, rows)
    pay = np.clip(20 + 0.5 * age + 10 * owner - 6 * (city == 2) + rng.normal(0, 5, rows), 0, 100)
    names = np.array(["Bern", "Basel", "Genf"])[city]
    encoded = np.stack([age, owner, *(city == k for k in range(3)), pay]).astype(float)
    return {"age": age, "owner": owner, "city": names, "pay": pay}, encoded


@pytest.fixture(scope="module")
def paid():
    """A release about the mean by default, with the encoded rows that it was made of."""
    pandas = pytest.importorskip("pandas")
    table, encoded = workers()
    promise = Guarantee(epsilon=1.0, delta=1e-6)
    terms = {"schema": WORKERS, "mechanism": Covariance(), "guarantee": promise, "secret": Secret.for_testing(5)}
    return sfumato.release(pandas.DataFrame(table), **terms), encoded


def test_a_release_is_about_the_mean_by_default_and_tables_are_of_the_columns_as_they_are(paid):
    made, encoded = paid
    assert Covariance().centred
    assert made.centred
    for table, truth in (
        (made.covariance(), np.cov(encoded, bias=True)),
        (made.correlation(), np.corrcoef(encoded)),
    ):
        assert table.names == made.names == ("age", "owner", "city=Bern", "city=Basel", "city=Genf", "pay")
        low, high = table.interval(0.999, simultaneous=True)
        assert ((low - 1e-9 <= truth) & (truth <= high + 1e-9)).all()
        assert np.linalg.eigvalsh(table.values)[0] > -1e-9
    owner = made.variance("owner")
    assert owner.value == pytest.approx(0.21, abs=0.01)
    assert owner.unit == "variance about the mean, in the columns' own units"
    assert made.covariance(repair=False)["owner", "owner"].value == pytest.approx(owner.value)
    assert made.variance({"pay": 1.0, "age": -0.5}).value == pytest.approx(np.var(encoded[5] - encoded[0] / 2), rel=0.1)
    assert made.encoded(["pay", "city"]) == ["pay", "city=Bern", "city=Basel", "city=Genf"]


def test_regressions_print_as_tables_with_an_intercept_and_predict(paid):
    made, encoded = paid
    for features in (None, ["age", "owner", "city"], ["age", "owner", "city=Basel", "city=Genf"]):
        found = made.regression("pay", features)
        assert found.features == ("age", "owner", "city=Basel", "city=Genf")
        design = np.column_stack([np.ones(encoded.shape[1]), *encoded[[0, 1, 3, 4]]])
        truth = np.linalg.lstsq(design, encoded[5], rcond=None)[0]
        terms = found.table(0.999, simultaneous=True).to_pydict()
        assert terms["term"] == ["(intercept)", *found.features]
        assert ((terms["low"] <= truth) & (truth <= terms["high"])).all()
        assert found.notes == ()
    assert terms["high"][0] - terms["low"][0] > found.table(0.999).to_pydict()["high"][0] - terms["low"][0]
    frame = found.to_pandas()
    assert frame.loc["age", "coefficient"] == found.coefficients.value[0]
    assert frame.loc["(intercept)", "standard_error"] == found.intercept.standard_error
    rows = dict(zip(made.names, encoded[:, :5], strict=True))
    expected = found.intercept.value + found.coefficients.value @ encoded[[0, 1, 3, 4], :5]
    assert found.predict(rows) == pytest.approx(expected)
    with pytest.raises(ParameterError, match="no column age"):
        found.predict({"owner": [1.0]})
    lines = repr(found).splitlines()
    assert lines[0] == "Least squares of pay"
    assert lines[1].split()[:2] == ["term", "coefficient"]
    assert lines[2].startswith("(intercept) ")
    assert "<td>" in found._repr_html_()


def test_what_a_release_about_the_middle_cannot_say_it_refuses_and_what_it_says_it_names():
    (release,) = releases(prepared_for("gaussian", centred=False, neighbours="replace"), data(), [1])
    with pytest.raises(ReleaseError, match="about the middle of the bounds and publishes no mean"):
        release.correlation()
    assert "about the middle of the bounds" in repr(release.covariance())
    assert "goes through the middle of the bounds" in repr(release.regression("c0", ["c1"]))


def test_a_sketch_about_the_mean_has_no_intercept_to_predict_from():
    (release,) = releases(prepared_for("sketch", centred=True, neighbours="replace"), data(), [1])
    found = release.regression("c0", ["c1"])
    assert found.table().column("term").to_pylist() == ["c1"]
    with pytest.raises(ReleaseError, match="no intercept"):
        found.predict({"c1": [0.0]})


def test_features_that_noise_hides_are_named_in_a_note():
    every = releases(prepared_for("gaussian", centred=True, neighbours="replace"), data(150), range(50), 4.0)
    notes = []
    for release in every:
        try:
            notes.append(release.regression("c2", ["c0", "c1"]).notes)
        except ReleaseError:
            continue
    assert ("Noise hides how some of the features differ: errors are larger than stated. Use fewer features.",) in notes


def test_the_published_numbers_are_no_matrix():
    for noise in NOISES:
        (release,) = releases(prepared_for(noise, centred=True, neighbours="replace"), data(), [1])
        assert release.array().shape == (release.columns.size,)
        assert (release.array() == release.columns[0]).all()
        assert release.second_moments().shape == (3, 3)
    (release,) = releases(prepared_for("gaussian", centred=False, neighbours="replace"), data(), [1])
    assert release.second_moments() / 4000 == pytest.approx(release.covariance(repair=False).values)


# ---- formulas --------------------------------------------------------------------------------------------------------


def test_sums_of_laplace_draws_have_the_tail_stated():
    rng = np.random.default_rng(3)
    for count in (1, 3, 40):
        sums = rng.laplace(0, 1, (400_000, count)).sum(axis=1) / math.sqrt(2 * count)
        for tail in (0.05, 0.005):
            assert agrees((sums > covariances.laplace_sum_tail(tail, count)).astype(float), tail)
        assert agrees((sums > covariances.laplace_sum_tail(0.005, 1e5)).astype(float), 0.005) == (count == 40)
    assert covariances.laplace_sum_tail(0.01, 1) == pytest.approx(math.log(50) / math.sqrt(2), rel=1e-4)
    assert covariances.laplace_sum_tail(0.5, 3) == 0


def test_the_layout_counts_what_it_keeps():
    for dim, centred, counted in itertools.product((1, 2, 5), (False, True), (False, True)):
        said = {"kind": "covariance"} | ({} if counted else {"rows": 9})
        said["mechanism"] = {"columns": dim, "centred": centred, "noise": "laplace"}
        assert covariances.kept(dim, centred=centred, counted=counted).sum() == kinds.of(said).size(said)
    sketch = {"columns": 3, "centred": True, "noise": "sketch", "sketch_rows": 7}
    assert kinds.KINDS["covariance"].size({"mechanism": sketch}) == 22


def test_norms_of_large_matrices_are_found_by_iteration():
    rng = np.random.default_rng(4)
    matrix = rng.standard_normal((200, 200))
    matrix += matrix.T
    exact = np.abs(np.linalg.eigvalsh(matrix)).max()
    assert exact <= covariances._norm(matrix) <= exact * 1.0001


def test_a_sketch_with_few_rows_has_no_upper_bound_but_the_public_one():
    prepared = prepared_for("sketch", centred=False, neighbours="replace", rows=2)
    (release,) = releases(prepared, data(500), [1])
    low, high = release.principal_components(1).variances.interval()
    assert 0 <= low[0] < high[0] == pytest.approx(3.0, rel=1e-3)


@pytest.mark.parametrize(("noise", "centred", "neighbours"), [row for row in ALL if row[0] != "sketch"])
def test_stated_errors_are_the_derivatives_times_the_noise(noise, centred, neighbours):
    """Of a variance and of a regression coefficient, by moving each published number a little."""
    (release,) = releases(prepared_for(noise, centred=centred, neighbours=neighbours), data(3000), [1], 0.5)
    direction = np.array([1.0, -0.5, 2.0])

    def answers(values):
        other = CovarianceRelease(release.manifest, values[None])
        variance, fit = direction @ other.view.covariance() @ direction, other.regression("c1", ["c0"])
        return np.array([variance, fit.coefficients.value[0], fit.intercept.value])

    values, view = release.columns[0], release.view
    steps = 1e-4 * view.law.scale * np.eye(values.size)
    slopes = np.array([(answers(values + s) - answers(values - s)) / (2e-4 * view.law.scale) for s in steps])
    diagonal = np.flatnonzero(view.published) <= view.dim
    scales = view.law.scale * np.where(diagonal, 1, math.sqrt(0.5) if noise == "gaussian" else 1)
    expected = np.linalg.norm(slopes * scales[:, None], axis=0)
    found, fit = release.variance(direction), release.regression("c1", ["c0"])
    assert found.standard_error == pytest.approx(expected[0], rel=1e-3)
    assert fit.coefficients.standard_error[0] == pytest.approx(expected[1], rel=1e-3)
    assert fit.intercept.standard_error == pytest.approx(expected[2], rel=1e-3)


def test_intervals_under_laplace_noise_have_its_tails():
    (release,) = releases(prepared_for("laplace", centred=False, neighbours="replace"), data(3000), [1])
    one, two = release.variance("c0"), release.variance([1.0, 1.0, 0.0])
    assert one.interval(0.99)[1] - one.value == pytest.approx(
        math.log(100) / math.sqrt(2) * one.standard_error, rel=1e-3
    )
    reach = covariances.laplace_sum_tail(0.005, 2) * two.standard_error  # weights 1, 1 and 2: as two equal draws
    assert two.interval(0.99)[1] - two.value == pytest.approx(reach, rel=1e-4)  # and what rounding may have done
    assert two.interval(0.99)[1] - two.value > reach


def test_noise_off_the_diagonal_is_less_by_the_square_root_of_two():
    view = covariances.Noisy(np.zeros(6), 3, NoiseLaw("gaussian", 1.0), 1.0, False, 1)
    along, across = view.form(np.eye(3)[0], np.eye(3)[0])[0], view.form(np.eye(3)[0], np.eye(3)[1])[0]
    assert along == pytest.approx(1.0)
    assert across == pytest.approx(math.sqrt(0.5))


# ---- on disk ---------------------------------------------------------------------------------------------------------


def saved(noise, neighbours, rows, folder, centred=True):
    prepared = prepared_for(noise, centred=centred, neighbours=neighbours, rows=5)
    published = prepared.run(Block(rows.T), LEVEL[noise], Secret.for_testing(3))
    shared = {
        "guarantee": prepared.guarantee.to_dict(),
        "schema": CUBE.to_dict(),
        "rows": 1,
        "protected": False,
        "accounted": False,
        "numerics": "exact",
        "randomness": "test",
        "warnings": [],
    }
    release = CovarianceRelease(seal(shared | published.facts | {"files": {}}), next(published.blocks))
    release.save(folder)
    return release


@pytest.mark.parametrize(("noise", "neighbours"), [*itertools.product(NOISES, NEIGHBOURS)])
def test_a_saved_release_loads_as_it_was(noise, neighbours, tmp_path):
    made = saved(noise, neighbours, data(50), tmp_path / "r")
    loaded = sfumato.load(tmp_path / "r", allow_unprotected=True)
    assert isinstance(loaded, CovarianceRelease)
    assert (loaded.columns == made.columns).all()
    assert (loaded.covariance().values == made.covariance().values).all()
    assert (loaded.array() == made.array()).all()
    assert loaded.table().column_names == ["value"]
    assert loaded.variance("c0").interval() == made.variance("c0").interval()
    assert loaded.manifest["numerics"] == ("idealized" if noise == "sketch" else "exact")
    assert ("rows" in loaded.manifest) == (neighbours == "replace")
    if noise == "sketch":
        steps = loaded.view.rows / loaded.manifest["lattice"]["unit"]
        assert (steps == np.rint(steps)).all()
        assert "rounded" in registry_draft(loaded.manifest)
        assert "rounded to multiples" in readme(loaded.manifest)
    assert "3 columns" in repr(loaded)
    assert "sums of squares" in readme(loaded.manifest)
    assert sensitivity(loaded.manifest).startswith("Sensitivity: ")


@pytest.mark.parametrize("noise", NOISES)
def test_nothing_but_noisy_numbers_depends_on_a_protected_number_of_rows(noise, tmp_path):
    few, many = (saved(noise, "add-remove", data(n), tmp_path / str(n)) for n in (7, 3001))
    texts = []
    for release in (few, many):
        left_out = ("digest", "files")
        texts.append(json.dumps({k: v for k, v in release.manifest.items() if k not in left_out}))
    assert texts[0] == texts[1]
    assert few.columns.shape == many.columns.shape
    sizes = [
        {path.name: path.stat().st_size for path in (tmp_path / str(n)).iterdir() if path.name != "manifest.json"}
        for n in (7, 3001)
    ]
    assert sizes[0].keys() == sizes[1].keys()
    assert all(abs(sizes[0][name] - sizes[1][name]) <= 8 for name in sizes[0])
    assert "the number of records is." in (tmp_path / "7" / "README.txt").read_text()
    with pytest.raises(ReleaseError, match="protected"):
        _ = many.rows
    assert 500 < many.records < 6000


def test_a_manifest_that_shows_a_protected_number_of_rows_or_hides_a_public_one_is_refused(tmp_path):
    made = saved("gaussian", "add-remove", data(50), tmp_path / "r")
    left_out = ("digest", "format", "version", "software")
    fields = {k: v for k, v in made.manifest.items() if k not in left_out}
    with pytest.raises(ReleaseError, match="form of a manifest"):
        seal(fields | {"rows": 50})
    public = saved("gaussian", "replace", data(50), tmp_path / "p").manifest
    with pytest.raises(ReleaseError):
        seal({k: v for k, v in public.items() if k not in (*left_out, "rows")})


@pytest.mark.parametrize(
    "change",
    [{"columns": 4}, {"columns": 3.0}, {"standard_deviation": 1e-3}, {"centred": False}],
)
def test_forged_releases_are_refused(change, tmp_path):
    made = saved("gaussian", "replace", data(50), tmp_path / "r")
    mechanism = made.manifest["mechanism"] | change
    folder = tmp_path / "r"
    (folder / "manifest.json").unlink()
    left_out = ("digest", "format", "version", "software", "files")
    fields = {k: v for k, v in made.manifest.items() if k not in left_out} | {"mechanism": mechanism}
    for name in ("README.txt", "registry.yaml"):
        (folder / name).unlink()
    writer.finish(folder, fields, {})
    with pytest.raises(ReleaseError):
        sfumato.load(folder, allow_unprotected=True)


@pytest.mark.parametrize("bits", [0, -3, 41, 10**6, 20.0])
def test_a_grid_that_cannot_be_is_refused(bits, tmp_path):
    """It says how far rounding can have moved a number, so it must be one that can be computed."""
    saved("gaussian", "replace", data(50), tmp_path / "r")
    path = tmp_path / "r" / "manifest.json"
    forged = json.loads(path.read_text())
    forged["lattice"]["input_bits"] = bits
    path.write_text(json.dumps(forged | {"digest": digest(forged)}))
    with pytest.raises(ReleaseError, match="contradicts itself"):
        sfumato.load(tmp_path / "r", allow_unprotected=True)


def test_release_to_and_release_agree_and_need_no_id_column(tmp_path):
    schema = Schema([Flag("f"), Category("city", ["Bern", "Basel"]), Real("x", 0, 1)])
    table = {"f": [True, False] * 40, "city": ["Bern", "Zug"] * 40, "x": [0.1, 0.9] * 40}
    arguments = {"schema": schema, "mechanism": Covariance(centred=True)}
    arguments |= {"guarantee": Guarantee(epsilon=1.0, delta=1e-6, neighbours="add-remove")}
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(table)
    made = sfumato.release(frame, secret=Secret.for_testing(1), **arguments)
    manifest = sfumato.release_to(tmp_path / "r", frame, secret=Secret.for_testing(1), **arguments)
    assert "rows" not in manifest
    assert (sfumato.load(tmp_path / "r", allow_unprotected=True).columns == made.columns).all()
    assert made.names == ("f", "city=Bern", "city=Basel", "x")


# ---- scikit-learn ----------------------------------------------------------------------------------------------------


def test_a_fitted_pca_comes_out(monkeypatch):
    from sklearn.decomposition import PCA  # noqa: PLC0415

    rows = data(50_000)
    prepared = prepared_for("gaussian", centred=True, neighbours="replace")
    (release,) = releases(prepared, rows, [1], 0.01)
    mine, theirs = release.to_sklearn(2), PCA(2).fit(rows)
    assert np.allclose(np.abs(mine.components_ @ theirs.components_.T), np.eye(2), atol=1e-2)
    assert np.allclose(mine.explained_variance_, theirs.explained_variance_, rtol=1e-2)
    assert np.allclose(mine.explained_variance_ratio_, theirs.explained_variance_ratio_, rtol=1e-2)
    assert np.allclose(mine.noise_variance_, theirs.noise_variance_, rtol=2e-2)
    assert np.allclose(np.abs(mine.transform(rows[:20])), np.abs(theirs.transform(rows[:20])), atol=1e-2)
    assert mine.inverse_transform(mine.transform(rows[:5])).shape == (5, 3)
    assert release.to_sklearn().n_components_ == 3
    monkeypatch.setitem(sys.modules, "sklearn.decomposition", None)
    with pytest.raises(MissingDependency, match="pip install"):
        release.to_sklearn()


# ---- questions that cannot be answered -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ask", "named"),
    [
        (lambda r: r.variance("nobody"), "'nobody'"),
        (lambda r: r.variance([1.0, 2.0]), "3 finite numbers"),
        (lambda r: r.variance([0.0, 0.0, 0.0]), "not all 0"),
        (lambda r: r.variance([math.nan, 0.0, 0.0]), "finite"),
        (lambda r: r.principal_components(4), "k=4"),
        (lambda r: r.principal_components(0), "k=0"),
        (lambda r: r.regression(["c0"], "c1"), "target first"),
        (lambda r: r.regression("c0", "c1"), "list of columns"),
        (lambda r: r.regression("c0", ["d1"]), "did you mean"),
        (lambda r: r.regression("nobody"), "'nobody'"),
        (lambda r: r.regression("c0", []), "one or more"),
        (lambda r: r.regression("c0", ["c0"]), "without the target"),
        (lambda r: r.regression("c0", ["c1", "c1"]), "distinct"),
        (lambda r: r.regression("c0", ["c1"], ridge=-1.0), "ridge=-1.0"),
    ],
)
def test_questions_without_an_answer_are_refused(ask, named):
    (release,) = releases(prepared_for("laplace", centred=True, neighbours="replace"), data(50), [1])
    with pytest.raises(ParameterError, match=named):
        ask(release)


def test_a_regression_that_noise_has_made_singular_says_so_and_takes_a_ridge():
    every = releases(prepared_for("laplace", centred=True, neighbours="replace"), data(5), range(50), 100.0)
    release = next(r for r in every if np.linalg.eigvalsh(r.covariance().raw[:2, :2])[0] < 0)
    with pytest.raises(ReleaseError, match="a ridge well above") as told:
        release.regression("c2", ["c0", "c1"])
    least = float(str(told.value).split("above ")[1].split(" (")[0])
    with pytest.raises(ReleaseError, match="a ridge well above"):
        release.regression("c2", ["c0", "c1"], ridge=0.9 * least)
    assert np.isfinite(release.regression("c2", ["c0", "c1"], ridge=1.1 * least).coefficients.value).all()
    assert np.isfinite(release.regression("c2", ["c0", "c1"], ridge=1e6).coefficients.value).all()


def test_the_wrong_number_of_numbers_is_refused():
    (release,) = releases(prepared_for("laplace", centred=True, neighbours="replace"), data(50), [1])
    with pytest.raises(ReleaseError, match="9 numbers"):
        CovarianceRelease(release.manifest, release.columns[:, :-1])


def test_no_sum_of_many_records_is_refused_as_that_would_tell_of_cells():
    """Under a small radius sums are not coarsened: of these neighbours one adds up to 2^63, the other to less."""
    terms = {
        "schema": Schema([Real("c", -1, 1)]),
        "mechanism": Covariance(noise="gaussian", centred=False),
        "guarantee": Guarantee(epsilon=1.0, delta=1e-6, change=Change.l2(2.0**-20)),
    }
    for last in (1.0, 1.0 - 2.0**-20):
        rows = np.ones((1 << 23, 1))
        rows[-1] = last
        assert sfumato.release(rows, **terms).manifest["rows"] == len(rows)
