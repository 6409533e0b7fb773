"""The experiments on Blocki et al., the survey and the slides, in small: known values, and laws that must come out."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

import blocki
import bounds
import components
import graphs
import slides
from page import Measured, Picture, Setting, Table
from sfumato.randomness.secret import Secret


def tables(run, setting):
    return {part.name: part.rows for part in run(setting) if isinstance(part, Table)}


@pytest.fixture
def setting(tmp_path):
    return Setting("test", tmp_path, quick=True)


def test_names_are_unique_and_every_file_that_may_be_missing_has_a_stand_in():
    names = [e.name for e in blocki.PAPER.experiments]
    assert len(set(names)) == len(names)
    assert all(e.stand_in for e in blocki.PAPER.experiments if e.files)


def test_the_ridges_are_those_of_the_paper_and_of_the_closed_profile(setting):
    rows = {tuple(row[:2]): row[2:] for row in tables(graphs.ridges, setting)["ridge"]}
    assert rows[119, 1.0][:2] == pytest.approx([4696.6, 76.48], abs=0.1)
    assert rows[4239, 1.0][:2] == pytest.approx([33043, 400.0], abs=0.5)
    for (count, epsilon), (_, ours, _) in rows.items():
        s = 2 / ours
        t = 2 * (1 + s) / s * (epsilon + count / 2 * math.log1p(s))
        adding = stats.chi2.sf(t / (1 + s), count) - math.exp(epsilon) * stats.chi2.sf(t, count)
        assert adding <= 1.001e-6


# ---- bounds ---------------------------------------------------------------------------------------------------------


def test_the_tail_bound_is_above_the_exact_tail_and_asks_for_the_rows_of_the_paper():
    assert [bounds.rows_for(*target) for target in (*bounds.TARGETS, (0.1, 0.01))] == [119, 473, 4239]
    for eta, rows in itertools.product((0.1, 0.3, 0.5), (30, 119, 473)):
        assert bounds.exact_tail(eta, rows) < bounds.tail_bound(eta, rows)
    draws = np.random.default_rng(1).chisquare(119, 400_000) / 119
    seen = Measured.share(int((np.abs(draws - 1) > 0.3).sum()), draws.size)
    assert abs(seen.value - bounds.exact_tail(0.3, 119)) <= 6 * seen.error


def test_cuts_err_as_the_variance_of_a_sketch_says_and_stay_within_the_bound(setting):
    case, n, count = graphs.generated(vertices=200, blocks=2), 200, 119
    sets = (np.random.default_rng(1).random((2, n)) < 0.5).astype(float)
    errors = bounds._cut_errors(case, sets, count, (setting, 60))
    weight = bounds._ridges(n, count)[0]
    for x, truth, each in zip(sets, case.cuts(sets), errors.T, strict=True):
        mixed = truth + weight * x.sum() * (n - x.sum()) / (n - weight)
        row = bounds.Errors("a cut", truth, mixed, each).row(0.5, 0.05, math.inf)
        assert row[1] == count
        assert abs(row[5].value - math.sqrt(2 / count) * mixed) <= 6 * row[5].error
        assert row[6].value <= 0.05


# ---- graphs ---------------------------------------------------------------------------------------------------------


def test_errors_of_cuts_have_the_size_that_each_mechanism_should_have():
    case, n = graphs.generated(vertices=300, blocks=3), 300
    sets = (np.random.default_rng(1).random((200, n)) < 0.5).astype(float)
    truth = case.cuts(sets)
    size = sets.sum(axis=1)
    for answer, deviation in ((graphs.laplace, math.sqrt(2)), (graphs.response, 1 / (2 * math.sinh(0.5)))):
        found = [answer(case, sets, 1.0, Secret.for_testing(i)).value - truth for i in range(6)]
        spread = np.sqrt(np.mean(np.square(found) / (size * (n - size))))
        assert spread == pytest.approx(deviation, rel=0.25)


def test_the_published_weight_gives_no_sketch_of_a_small_graph():
    case = graphs.generated(vertices=300, blocks=3)
    sets = np.eye(300)[:2]
    assert graphs.published(case, sets, 1.0, Secret.for_testing(1)) is None
    assert graphs.exact(case, sets, 1.0, Secret.for_testing(1)) is not None


def test_scores_repeat_with_a_seed_and_medians_are_over_releases(setting):
    case = graphs.generated(vertices=120, blocks=3)
    first, again = (graphs.scores(case, (1.0,), 3, setting.secrets("x")) for _ in range(2))
    for key, score in first.items():
        if score is None:
            assert again[key] is None
        else:
            assert score.medians.shape == (3,)
            assert np.array_equal(score.medians, again[key].medians)


# ---- components -----------------------------------------------------------------------------------------------------


def test_noise_off_the_diagonal_is_less_by_the_root_of_two(setting):
    data = components.generated(count=500, columns=40)
    luck = setting.secrets("a"), setting.rng("a")
    ours, theirs, _ = components.off_diagonal(data, 1.0, luck, 8)
    ratio = theirs.value / ours.value
    error = ratio * math.hypot(ours.error / ours.value, theirs.error / theirs.value)
    assert abs(ratio - math.sqrt(2)) <= 6 * error
    assert error < 0.05


def test_components_capture_all_of_the_variance_without_noise_and_a_share_with_it(setting):
    data = components.generated(count=2000, columns=10)
    vectors = np.linalg.eigh(data.covariance)[1][:, ::-1]
    assert data.captured(vectors[:, :3]) == pytest.approx(1.0)
    assert data.captured(vectors[:, -3:]) < 0.5
    low, high = (
        np.mean([components.shares(data, "Gaussian", e, (3,), setting.secrets(str(e))) for _ in range(3)])
        for e in (0.01, 50.0)
    )
    assert low < high
    assert high > 0.99


def test_a_machine_without_the_peers_says_so(setting, monkeypatch, tmp_path):
    monkeypatch.setattr(components, "BENCH", tmp_path / "none")
    assert list(components.peers(setting)) == []


# ---- slides ---------------------------------------------------------------------------------------------------------


def test_output_perturbation_takes_the_lesser_noise_for_few_and_for_many_questions():
    case = graphs.generated(vertices=60, blocks=2)
    for count, deviation in ((1, math.sqrt(2)), (400, 4.2247 * 20)):
        sets = np.repeat(np.eye(60)[:1], count, axis=0)
        runs = [slides.perturbed_output(case, sets, Secret.for_testing(i)) for i in range(400 // count + 3)]
        errors = np.concatenate(runs) - case.cuts(sets[:1])
        assert errors.std() == pytest.approx(deviation, rel=0.2)


def test_multiplicative_weights_answer_cuts_of_edges():
    case = graphs.generated(vertices=60, blocks=2)
    sets = (np.random.default_rng(1).random((20, 60)) < 0.5).astype(float)
    answers = slides.weighed(case, sets, Secret.for_testing(1))
    assert np.abs(answers - case.cuts(sets)).mean() < case.cuts(sets).mean()


def test_distances_concentrate_and_a_projection_does_not_bring_contrast_back(setting):
    parts = list(slides.distances(setting))
    rows = {row[0]: row[1:] for part in parts if isinstance(part, Table) and part.name != "digits" for row in part.rows}
    near, far, contrast, projected = rows[1000]
    assert near.value < math.sqrt(1 / 6) < far.value
    assert contrast.value < 1.2 < projected.value
    assert rows[2][2].value > 10
    (picture,) = (part for part in parts if isinstance(part, Picture))
    assert setting.picture(picture.file).stat().st_size < 200_000


def test_distances_from_a_sketch_err_as_their_variance_says(setting):
    rows = slides.digits()
    found = slides.distance_error(rows, 0.1, setting, 4)
    truth = np.sum((rows[:500] - rows[500:1000]) ** 2, axis=1)
    noise = slides._noise(0.1)
    expected = math.sqrt(np.mean(2 * truth**2 / 16 + 8 * noise**2 * truth + 8 * 16 * noise**4)) / truth.mean()
    assert found.value == pytest.approx(expected, rel=0.15)
