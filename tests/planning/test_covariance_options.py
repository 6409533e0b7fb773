"""Standard errors of covariances before any data: against the published ridges, and against real releases."""

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.planning import covariance_options
from sfumato.planning.covariance_options import Setting
from sfumato.privacy.guarantee import Guarantee
from support.covariances import releases

PROMISE = Guarantee(epsilon=1.0, delta=1e-6, neighbours="add-remove")


@pytest.mark.parametrize(("rows", "plain", "centred"), [(119, 38.2, 153), (473, 70.5, 282), (4239, 200, 800)])
def test_ridges_are_those_of_the_table(rows, plain, centred):
    promise = Guarantee(epsilon=1.0, delta=1e-6, neighbours="add-remove")
    assert covariance_options.ridge(rows, promise, centred=False) == pytest.approx(plain, rel=2e-3)
    assert covariance_options.ridge(rows, promise, centred=True) == pytest.approx(centred, rel=2e-3)


def setting(**fields):
    usual = {"records": 3000, "columns": 3, "guarantee": PROMISE, "variance": 0.1, "centred": False}
    return Setting(**(usual | fields))


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_gaussian_errors_are_the_analytic_ones(neighbours):
    promise = Guarantee(epsilon=1.0, delta=1e-6, neighbours=neighbours)
    found = covariance_options.standard_error("gaussian", setting(guarantee=promise, variance=0.0))
    stated = 4.2247 * (2**0.5 if neighbours == "replace" else (1 + 1 / 16) ** 0.5)
    assert found * 3000 == pytest.approx(stated, rel=5e-3)
    about_the_mean = covariance_options.standard_error(
        "gaussian", Setting(records=3000, columns=3, guarantee=promise, variance=0.0)
    )
    assert about_the_mean / found == pytest.approx(
        1.25 if neighbours == "replace" else 1.25 / (1 + 1 / 16) ** 0.5, rel=5e-3
    )


@pytest.mark.parametrize("noise", ["gaussian", "laplace", "sketch"])
@pytest.mark.parametrize("centred", [False, True])
def test_predicted_errors_are_those_of_releases(noise, centred):
    """The same levels, a cube, and rows with the variance and the mean of the setting along its diagonal."""
    rng = np.random.default_rng(1)
    rows = rng.uniform(-0.5, 0.5, (3000, 3)) + 0.2
    direction = np.full(3, 3**-0.5)
    scores = rows @ direction
    variance = scores.var() if centred else np.mean(scores**2)
    promise = Guarantee(epsilon=1.0, delta=1e-6, neighbours="add-remove")
    asked = Setting(
        records=3000,
        columns=3,
        guarantee=promise,
        variance=variance,
        mean=scores.mean(),
        longest=3**0.5,
        centred=centred,
    )
    predicted = covariance_options.standard_error(noise, asked, 60)
    recipe = covariance_options.Covariance(noise=noise, centred=centred, rows=60 if noise == "sketch" else None)
    prepared = recipe.prepare(asked.schema, promise)
    level = covariance_options._level(prepared)
    found = [r.variance(direction).uncut for r in releases(prepared, rows, range(400), level)]
    assert 0.87 < np.std(found) / predicted < 1.13


NOISES = ("gaussian", "laplace", "sketch")


def forecast(rows=60, **terms):
    """The standard error that each noise would give a variance, the smallest first."""
    errors = {noise: covariance_options.standard_error(noise, setting(**terms), rows) for noise in NOISES}
    return {noise: errors[noise] for noise in sorted(errors, key=errors.get)}


def test_gaussian_noise_wins_wide_tables_laplace_noise_narrow_ones_and_sketches_come_near_where_variances_are_small():
    wide, narrow = (forecast(119, columns=d, variance=0.01) for d in (30, 2))
    assert list(wide) == ["gaussian", "sketch", "laplace"]
    assert next(iter(narrow)) == "laplace"
    small = forecast(4239, records=100, columns=30, variance=1e-3)
    assert list(small)[1] == "sketch"
    assert small["sketch"] / small["gaussian"] < 1.1


def test_settings_that_cannot_be_are_refused():
    for wrong in ({"records": 0}, {"columns": 0}, {"variance": 1.5}, {"mean": -2.0}, {"longest": 0.0}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            setting(**wrong)
