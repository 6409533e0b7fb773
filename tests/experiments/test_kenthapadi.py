"""The experiments on Kenthapadi et al.: the paper's own numbers, closed forms, and whether the comparisons can fail."""

import math

import numpy as np
import pytest

import alternatives
import kenthapadi
import planning
import profiles
from page import Measured, Setting, Table
from published_constants import gaussian_epsilon, projection_error
from reproduce import catalogue
from sfumato.mechanisms.responses import RandomizedResponse
from sfumato.pipeline.release import release
from sfumato.planning.planner import plan
from sfumato.planning.scales import plan_scales
from sfumato.privacy.calibration import least_level
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import FreshGaussian
from sfumato.randomness.secret import Secret
from sfumato.tables.columns import Flag
from sfumato.tables.schema import Schema


def near(found, truth, errors=4.0):
    return abs(found.value - truth) <= errors * found.error


def tiny(tmp_path, name="tiny"):
    return Setting(name, tmp_path, quick=True)


def tables(parts):
    return {part.name: part for part in parts if isinstance(part, Table)}


# ---- Figure 1 and Theorem 1 -----------------------------------------------------------------------------------------


def test_the_noise_of_theorem_one_and_lemma_two_is_that_of_the_mathematics():
    assert kenthapadi.theorem_one(1.0, 1e-6) == pytest.approx(5.3146, abs=1e-4)
    assert planning.lemma_two(1000, 1.0, 1e-6)[1] == pytest.approx(14.868, abs=1e-3)
    assert kenthapadi.its_proof(1.0, 1e-6) < kenthapadi.theorem_one(1.0, 1e-6)
    assert gaussian_epsilon(kenthapadi.theorem_one(0.7, 1e-3), 1e-3) == pytest.approx(0.7)


def test_figure_one_needs_about_sigma_one_for_the_point_that_the_paper_reads_off(tmp_path):
    found = tables(kenthapadi.figure_one(tiny(tmp_path)))
    first = found["sigma"].rows[0]
    assert first[:2] == [1.0, 0.1]
    assert 1.0 < first[2] < 1.2 < first[4]
    assert all(exact < published for _, _, exact, published in found["epsilon"].rows)


# ---- Theorem 2 ------------------------------------------------------------------------------------------------------


def test_the_lambdas_meet_their_conditions_with_nothing_to_spare():
    k, mu = 512, 0.01
    jl, chi, normal = kenthapadi.lambdas(k, 3 * mu)
    assert 2 * math.exp(-k * jl**2 / 6) == pytest.approx(mu)
    assert 2 * math.exp(-(chi**2)) == pytest.approx(mu)
    assert math.exp(-(normal**2)) / (normal * math.sqrt(math.pi)) == pytest.approx(mu)


def test_the_bound_says_nothing_for_few_dimensions():
    assert kenthapadi.deviation(10.0, 1.0, 114, 0.05) is None
    assert kenthapadi.deviation(10.0, 1.0, 115, 0.05) > 0


def test_theorem_two_is_reached_and_its_bound_is_loose_but_holds(tmp_path):
    (table,) = tables(kenthapadi.theorem_two(tiny(tmp_path))).values()
    for _k, squared, _sigma, mean, formula, variance, bound, tail, beyond in table.rows:
        assert near(mean, squared)
        assert near(variance, formula)
        assert not near(variance, 1.2 * formula)
        if bound is not None:
            assert bound > tail.value
            assert beyond.value < 0.05


# ---- the best dimension ---------------------------------------------------------------------------------------------


def test_the_best_dimension_of_the_formula_has_error_four_sigma_over_r():
    squared, scale = 800.0, 2.0
    assert kenthapadi._least(squared, scale, 400) == 100
    assert kenthapadi._relative(squared, scale, 100) == pytest.approx(4 * scale / math.sqrt(squared))


def test_lemma_two_allows_its_best_dimension_only_from_so_many_flags_on():
    found = kenthapadi.least_columns(1.0, 1e-6)
    for d, allowed in ((found, True), (found - 1, False)):
        k, scale = planning.lemma_two(d, 1.0, 1e-6)
        assert (d / (2 * scale**2) >= k) == allowed


def test_the_best_fresh_gaussian_has_exactly_calibrated_noise():
    k, scale, _error = kenthapadi.best_gaussian(1000, 1000.0, 4.0, 1e-6)
    exact = least_level(
        lambda s: FreshGaussian(family="gaussian", dim_in=1000, dim_out=k, radius=1.0, scale=s), 4.0, 1e-6
    )
    assert scale == pytest.approx(exact, rel=1e-4)


def test_averages_over_several_sketches_have_the_predicted_error():
    made = plan_scales([3.0, 100.0], columns=100_000, guarantee=Guarantee(epsilon=1.0, unit="attribute"))
    found = kenthapadi.together(made, 9, 4_000, np.random.default_rng(1))
    assert near(found, made.errors(made.several)[0])
    assert not near(found, 1.5 * made.errors(made.several)[0])


# ---- section 4 ------------------------------------------------------------------------------------------------------


def test_the_borders_of_the_published_projection_solve_their_equations():
    columns, k, users = 10**7, 64, 10_000
    useful, better = alternatives.published_borders(columns, k, users, 1.0)

    def error(squared):
        return projection_error(math.sqrt(squared), columns=columns, rows=users, epsilon=1.0, dimension=k)

    assert error(useful) == pytest.approx(useful)
    assert error(better) == pytest.approx(math.sqrt(alternatives.response_variance(columns, 1.0)))
    assert alternatives.published_borders(10**6, k, users, 1.0)[1] is None
    assert error(0.0) > math.sqrt(alternatives.response_variance(10**6, 1.0))


def test_simulated_responses_err_as_releases_do():
    columns, differing, rows = 40, 8, 4_000
    bits = np.zeros((rows, columns), int)
    bits[1::2, :differing] = 1
    schema = Schema([Flag(f"f{i}") for i in range(columns)])
    promise = Guarantee(epsilon=1.0, unit="attribute")
    made = release(bits, schema=schema, mechanism=RandomizedResponse(), guarantee=promise, secret=Secret.for_testing(1))
    actual = Measured.of((made.distances(np.arange(0, rows, 2), np.arange(1, rows, 2)).uncut - differing) ** 2)
    found = alternatives.responded(columns, differing, 1.0, 20_000, np.random.default_rng(2))
    assert near(found, math.sqrt(alternatives.response_variance(columns, 1.0)))
    assert abs(actual.value - found.value**2) < 4 * actual.error


def test_published_noise_on_distances_exceeds_the_exact_one():
    for users in (100, 10_000):
        exact = alternatives.exact_addition(users, 1.0, 1 / users)
        assert exact < alternatives.published_addition(users, 1.0, 1 / users) < 2 * exact


# ---- plans ----------------------------------------------------------------------------------------------------------


def test_simulated_errors_of_options_are_as_predicted(tmp_path):
    simulator = planning.Simulator(tiny(tmp_path), 20_000)
    made = plan(schema=Schema.reals(16, low=0, high=1), guarantee=planning.promise("attribute", 1.0), distance=2.0)
    tried = made.all_sketches((4,))
    assert {o.family for o in tried} == {"sparse", "rademacher", "gaussian", "achlioptas", "orthonormal"}
    for option in tried:
        found = planning.ratio(option.standard_error(2.0), simulator.error(option, 4.0))
        assert near(found, 1.0, 5)
        assert not near(found, 1.2, 5)


def test_a_ratio_carries_the_errors_of_both_its_parts():
    found = planning.ratio(Measured(3.0, 0.03, 10), Measured(2.0, 0.02, 10))
    assert found.value == 1.5
    assert found.error == pytest.approx(1.5 * 0.01 * math.sqrt(2))


def test_the_recommended_sketch_beats_both_papers_at_their_settings(tmp_path):
    (table,) = tables(planning.settings(tiny(tmp_path))).values()
    assert len(table.rows) == 27
    assert min(row[6] for row in table.rows) > 4
    assert min(row[8] for row in table.rows) > 50


# ---- user vectors ---------------------------------------------------------------------------------------------------


def test_user_vectors_without_data_are_generated_and_every_mechanism_answers(tmp_path, monkeypatch):
    monkeypatch.setattr(profiles, "USERS", 250)
    users = profiles.msnbc(None)
    found = profiles.curves(users, tiny(tmp_path), (8.0,), 2)
    assert len(found) == 8
    recall = {name: points[0][0].value for name, points in found.items()}
    assert recall["randomized response"] > recall["identity + Laplace"] > recall["noise on distances"]
    both = list(profiles.tables(users, (8.0,), found))
    assert [len(part.rows) for part in both if isinstance(part, Table)] == [8, 7]


def test_the_catalogue_has_every_experiment_once():
    names = [e.name for paper in catalogue() for e in paper.experiments]
    assert len(names) == len(set(names))
    assert {"dhaliwal-table-1", "kenthapadi-figure-1", "kenthapadi-users"} <= set(names)
