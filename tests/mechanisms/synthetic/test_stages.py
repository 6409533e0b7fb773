"""The stages of synthetic rows: what stands beside the rows, how sums are coarsened, and the law of their noise."""

import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.mechanisms.synthetic.recipe import Synthetic, best_share
from sfumato.mechanisms.synthetic.stages import MomentStage, least
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.tables.columns import Category, Flag, Real
from sfumato.tables.schema import Schema

MIXED = Schema([Real("a", -3, 5), Flag("b"), Category("c", ["x", "y", "z"]), Real("d", -1, 1), Real("y", -2, 10)])
NOISES = pytest.mark.parametrize("noise", ["laplace", "gaussian"])


def prepare(noise="laplace", neighbours="replace", group=1, **recipe):
    promise = Guarantee(epsilon=1.0, delta=0.0 if noise == "laplace" else 1e-3, neighbours=neighbours, group=group)
    usual = {"dimension": 2, "seed": 7, "noise": noise, "centring": "private"}
    return Synthetic(**(usual | recipe)).prepare(MIXED, promise)


@NOISES
def test_a_label_goes_as_far_as_its_weight_says_and_nothing_stands_for_none(noise):
    plain, labelled = prepare(noise), prepare(noise, label="y", label_weight=0.375)
    assert (plain.mean.label, plain.moment.label) == (0, 0)
    assert labelled.mean.label == 0.375 * labelled.frame.top
    assert labelled.moment.label == 0.375 * labelled.moment.turned.top
    assert prepare(noise, label="c", kind="classes", label_weight=0.375).moment.constant == 0.375 * 2**15
    assert plain.moment.constant == 0


@NOISES
def test_the_private_count_is_worth_what_makes_the_error_of_a_mean_least(noise):
    """(1 + b^2)(m + 1/b^2) for Gaussian noise, (sqrt(m) + b)^2 (m + 1/b^2) for Laplace noise."""
    stage = prepare(noise, "add-remove").mean
    m, b = stage.frame.dim, stage.counter / stage.frame.top

    def error(b):
        return ((1 + b * b) if noise == "gaussian" else (math.sqrt(m) + b) ** 2) * (m + 1 / b**2)

    assert error(b) < min(error(1.01 * b), error(b / 1.01))
    assert prepare(noise).mean.counter == 0


@NOISES
@pytest.mark.parametrize("recipe", [{}, {"label": "y"}, {"label": "c", "kind": "classes"}, {"centring": "public"}])
def test_sums_are_coarsened_to_about_four_million_steps(noise, recipe):
    moment = prepare(noise, **recipe).moment
    assert 2**22 <= moment.reach * 2.0**-moment.shift < 2**23
    assert moment.sensitivity >= moment.reach * 2.0**-moment.shift
    assert moment.unit == pytest.approx(moment.turned.unit**2 * 2**moment.shift, rel=1e-12)


@NOISES
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("label", [None, "y"])
def test_the_error_that_a_constant_is_chosen_by_is_that_of_its_description(noise, neighbours, label):
    """The moment's entries, the sum's that enter a product twice, and the count's where it is private."""
    moment = prepare(noise, neighbours, centring="public", label=label).moment
    q = moment.columns
    for a in (0.1, 0.5, 1.0):
        entries = q * q if noise == "laplace" else q * (q + 1) / 2
        sums = 2 * (q + 1) / a**2 * (1.0 if noise == "laplace" else 0.5)
        count = 1 / a**4 if neighbours == "add-remove" else 0.0
        moved = moment._one_row(a * moment.turned.top) / moment.turned.top**2
        assert moment._predicted_error(a) == pytest.approx(moved**2 * (entries + sums + count), rel=1e-9)
    tried = np.exp2(-np.arange(0, 4.01, 0.125))
    best = min(map(moment._predicted_error, tried))
    assert moment._predicted_error(moment.constant / moment.turned.top) <= best * (1 + 1e-3)


def test_the_weight_of_least_error_lies_between_a_sixteenth_and_one():
    assert least(lambda w: w) == 1 / 16
    assert least(lambda w: -w) == 1
    assert least(lambda w: abs(w - 0.5)) == 0.5


@NOISES
def test_the_energy_of_noise_is_the_sum_of_its_variances(noise):
    """Laplace: 2 b^2 everywhere. Gaussian: s^2 on the diagonal, half of it off the diagonal."""
    moment, scale = prepare(noise).moment, 12.5
    unit = scale * moment.unit
    diagonal, off = (2 * unit**2, 2 * unit**2) if noise == "laplace" else (unit**2, unit**2 / 2)
    for dim in (1, 2, 5):
        expected = dim * diagonal + dim * (dim - 1) * off
        assert moment.noise_energy(scale, dim) == pytest.approx(expected, rel=1e-12)
    assert moment.off_variance(scale) == pytest.approx(off, rel=1e-12)


@NOISES
def test_what_shares_are_chosen_by_is_the_noise_of_each_stage(noise):
    prepared = prepare(noise, label="c", kind="classes")
    mean, moment = prepared.mean, prepared.moment
    assert mean.energy == pytest.approx(mean.frame.dim * (mean.sensitivity / mean.frame.top) ** 2)
    dim = moment.dim
    entries = 3 * (dim**2 if noise == "laplace" else dim * (dim + 1) / 2)
    assert moment.energy == pytest.approx(entries * (moment.reach / moment.turned.top**2) ** 2)
    share, power = prepared.share, 2 if noise == "laplace" else 1

    def error(f):
        return mean.energy / f**power + moment.energy / (1 - f) ** power

    assert error(share) <= min(error(share * 1.01), error(share / 1.01))
    assert best_share(1.0, 1.0, 1) == 0.5


@NOISES
def test_groups_move_sums_by_their_number(noise):
    one, three = prepare(noise), prepare(noise, group=3)
    for first, second in ((one.mean.sensitivity, three.mean.sensitivity), (one.moment.reach, three.moment.reach)):
        assert 3 * first <= second <= 3 * first * (1 + 1e-12)


@NOISES
def test_the_matrices_that_are_published_are_whole_numbers_of_their_unit(noise):
    moment = prepare(noise, label="c", kind="classes").moment
    entries = np.arange(moment.matrices * moment.entries).reshape(moment.matrices, -1)
    whole = moment.whole(entries)
    assert whole.shape == (3, moment.dim, moment.dim)
    assert (whole == whole.transpose(0, 2, 1)).all()
    assert np.sort(np.unique(whole / moment.unit)) == pytest.approx(np.arange(entries.size), rel=1e-12)


@pytest.mark.parametrize(
    ("reach", "entries", "shift"), [(2.0**30.5, 3, 8), (2.0**22, 3, 0), (2.0**10, 3, 0), (2.0**40, 2**20, 11)]
)
def test_sums_are_coarsened_no_further_than_they_must(reach, entries, shift):
    stage = SimpleNamespace(reach=reach, entries=entries, matrices=1)
    assert MomentStage.shift.fget(stage) == shift


def test_gaussian_noise_takes_all_columns_and_laplace_noise_as_many_as_can_be_told():
    """Its noise on each number does not grow with their number; that of Laplace does."""
    assert prepare("gaussian", dimension=None).dimension == prepare("gaussian").frame.dim
    promise = Guarantee(epsilon=1.0)
    drawn = Synthetic(seed=7, noise="laplace", expected_rows=100).prepare(Schema.reals(30, low=-1, high=1), promise)
    assert drawn.dimension < 30


@pytest.mark.parametrize("split", [(0.0, 1.0), (1.0, 0.0), (-0.5, 1.5), (1.5, -0.5), (0.5, 0.6), (0.5,), "half"])
def test_shares_that_make_no_sense_are_refused(split):
    with pytest.raises(ParameterError, match=r"share|split"):
        Synthetic(split=split)


def test_a_projection_that_is_fresh_protects_nothing_here():
    fresh = Guarantee(epsilon=1.0, delta=1e-6, projection="fresh", change=Change.l2(1.0))
    with pytest.raises(ParameterError, match="projection='fixed'"):
        Synthetic(noise="gaussian").prepare(MIXED, fresh)


@pytest.mark.parametrize("centring", ["private", "public"])
def test_gaussian_stages_cost_together_what_one_would_rounded_up(centring):
    loss = prepare("gaussian", centring=centring).loss(3.0)
    assert (
        Fraction(1, 3)
        <= Fraction(loss.sensitivity) / Fraction(loss.scale)
        <= Fraction(1, 3) * (1 + Fraction(1, 10**14))
    )


def test_noise_that_no_grid_holds_is_refused():
    prepared = prepare()
    assert prepared._scale(2.0**39, 1.0) == math.nextafter(2.0**39, math.inf)
    assert prepared._scale(2.0**-10, 1.0) == math.nextafter(2.0**-10, math.inf)
    for scale in (math.nextafter(2.0**39, math.inf), math.nextafter(2.0**-10, 0.0)):
        with pytest.raises(ParameterError, match="which no grid here can hold"):
            prepared._scale(scale, 1.0)
