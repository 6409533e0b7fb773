"""The experiments on Dhaliwal et al.: the paper's own numbers, closed forms, and whether the comparisons can fail."""

import math

import numpy as np
import pytest

import dhaliwal
from page import Measured, Picture, Setting, Table
from sfumato.intervals.moments import Geometry, NoiseLaw, SketchLaw
from sfumato.privacy.losses import FreshLaplace
from simulation import images, pieces, quantile, root_mean_square, spread


def near(found, truth, errors=4.0):
    return abs(found.value - truth) <= errors * found.error


def tiny(tmp_path, name="tiny"):
    return Setting(name, tmp_path, quick=True)


# ---- the mechanism as published -------------------------------------------------------------------------------------


def test_the_failure_probabilities_of_theorem_three_are_those_of_the_errata():
    found = [d * math.exp(-k / 2) for d, k in dhaliwal.SHAPES]
    assert found == pytest.approx([1.10, 2.23, 0.337, 0.00454], rel=5e-3)


def test_row_wise_noise_is_the_smaller_below_four_dimensions_as_the_order_of_table_one_wants():
    for (_, k), element, row in zip(
        dhaliwal.SHAPES, dhaliwal.TABLE["element-wise"], dhaliwal.TABLE["row-wise"], strict=True
    ):
        assert (dhaliwal.row_wise(k) < dhaliwal.element_wise(k)) == (row > element) == (math.log(2 * k) < 2)


def test_at_theorem_fives_own_t_its_bound_is_one():
    k = 10
    t = dhaliwal.row_wise(k) * dhaliwal.EPSILON / k
    assert 2 * k * math.exp(-k * t**2 / 2) == pytest.approx(1)


def test_published_noise_is_too_small_for_few_dimensions_and_too_large_for_many():
    def delta(k):
        return FreshLaplace(dim_out=k, radius=1.0, laplace_scale=dhaliwal.element_wise(k)).delta(dhaliwal.EPSILON)

    assert delta(3) > 50 * dhaliwal.DELTA
    assert delta(10) < 1e-4 * dhaliwal.DELTA


def test_blobs_have_centres_four_apart_and_bayes_accuracy():
    blobs = dhaliwal.Blobs.drawn(10, np.random.default_rng(1), 20_000)
    assert np.linalg.norm(blobs.line) == pytest.approx(4, abs=0.06)
    within = blobs.rows - np.where(blobs.side[:, None], blobs.line, -blobs.line) / 2
    assert within.std() == pytest.approx(1, abs=0.01)
    assert blobs.accuracy(blobs.rows) == pytest.approx(0.97725, abs=0.005)  # Phi(2), the paper's .977 to .980


def test_the_separation_of_two_blobs_without_noise_or_projection_is_the_distance_of_their_centres():
    centre = np.array([2.0, 0, 0])
    assert dhaliwal.separation(np.eye(3), centre, 0.0) == pytest.approx(4)
    assert dhaliwal.separation(np.eye(3), centre, 0.25) == pytest.approx(4 / math.sqrt(1.125))


def test_recovered_distances_are_unbiased_with_the_corrected_variance():
    rng, v = np.random.default_rng(2), np.tile([[1.0, 2.0, 0.5]], (400, 1))
    for k, geometry in ((2, Geometry("gaussian", 3, 2)), (0, Geometry("identity", 3, 3))):
        errors = dhaliwal.recovered(v, k, 0.5, 100, rng).ravel()
        variance = float(SketchLaw(NoiseLaw("laplace", math.sqrt(0.5)), geometry).distance_variance(5.25))
        assert near(Measured.of(errors), 0.0)
        assert near(Measured.of(errors**2), variance)


# ---- Claim 7 --------------------------------------------------------------------------------------------------------


def test_the_variance_table_refutes_the_printed_claim_and_not_the_corrected_one(tmp_path):
    (table,) = (part for part in dhaliwal.variance(tiny(tmp_path)) if isinstance(part, Table))
    *_, printed, corrected, simulated = zip(*table.rows, strict=True)
    assert all(near(s, c) for s, c in zip(simulated, corrected, strict=True))
    assert sum(not near(s, p) for s, p in zip(simulated, printed, strict=True)) >= 8
    assert min(printed) < 0


def test_the_printed_claim_is_copied_rightly():
    assert dhaliwal.published_variance(16.0, 1.0, 2) == 2 * 256 / 2 + 4 * (7 - 1) + 4 * 16


# ---- whole experiments, in small ------------------------------------------------------------------------------------


def test_a_projection_costs_more_than_our_pure_noise_on_average(tmp_path):
    found = {name: np.mean(v) for name, v in dhaliwal.accuracies(10, 3, 20, tiny(tmp_path), points=300).items()}
    assert found["no privacy"] > found["ours, pure"] - 0.01 > 0.94
    assert found["element-wise"] < found["projection alone"] + 0.05 < 0.9
    assert found["element-wise"] < dhaliwal.TABLE["element-wise"][1]


def test_figure_three_draws_its_errors_and_agrees_with_its_prediction(tmp_path):
    parts = list(dhaliwal.distances(tiny(tmp_path)))
    (table,) = (part for part in parts if isinstance(part, Table))
    for _name, _published, mean, sd, predicted, _median, below in table.rows:
        assert near(mean, 0.0)
        assert abs(sd.value - predicted.value) < 4 * sd.error
        assert below.value > 0.5
    (picture,) = (part for part in parts if isinstance(part, Picture))
    assert (tmp_path / "figures" / picture.file).stat().st_size < 200_000


# ---- simulation -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["identity", "gaussian", "orthonormal", "sparse", "rademacher", "achlioptas"])
def test_simulated_images_have_the_variance_of_their_family(family):
    d = k = 12
    k = d if family == "identity" else 4
    w = images(family, d, k, 60_000, np.random.default_rng(3))
    stretch = np.square(w).sum(axis=1) - 1
    truth = Geometry(family, d, k).stretch_variance(1.0, 1 / d)
    if truth == 0:
        assert np.abs(stretch).max() < 1e-12
        return
    assert near(Measured.of(stretch), 0.0)
    assert near(Measured.of(stretch**2), truth, 5)
    assert not near(Measured.of(stretch**2), 1.1 * truth, 5)


def test_pieces_make_the_errors_of_every_distance_and_noise():
    drawn = pieces(("gaussian", 1, 8), "laplace", 60_000, np.random.default_rng(4))
    for squared, scale in ((1.0, 0.2), (9.0, 1.5)):
        law = SketchLaw(NoiseLaw("laplace", scale), Geometry("gaussian", 8, 8))
        truth = math.sqrt(law.distance_variance(squared))
        found = root_mean_square(drawn.errors(squared, scale))
        assert near(found, truth)
        assert not near(found, 1.08 * truth)


def test_standard_errors_of_spreads_and_quantiles_are_those_of_repetition():
    rng = np.random.default_rng(5)
    draws = [rng.normal(size=400) for _ in range(400)]
    for measure in (spread, lambda x: quantile(x, 0.8)):
        found = [measure(x) for x in draws]
        actual = np.std([m.value for m in found])
        assert np.mean([m.error for m in found]) == pytest.approx(actual, rel=0.15)
