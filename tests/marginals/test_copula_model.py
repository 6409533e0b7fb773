"""Gaussian copulas over bins: scores, correlations behind them, and rows by ranks."""

import numpy as np
import pytest

from sfumato.errors import InexactWarning
from sfumato.marginals.binning import Bins
from sfumato.marginals.copula_model import CLIP, CopulaModel, correlations, normal_scores
from sfumato.marginals.partition import Partition
from sfumato.queries.parser import parse
from sfumato.tables.columns import Category
from sfumato.tables.schema import Schema

MASSES = (np.full(32, 1 / 32), np.array([0.5, 0.5]), np.array([0.1, 0.0, 0.6, 0.3]), np.array([0.97, 0.03]))
TRUE = np.array([[1, 0.8, -0.5, 0.3], [0.8, 1, -0.3, 0.2], [-0.5, -0.3, 1, 0.6], [0.3, 0.2, 0.6, 1]])


def model(masses=MASSES, correlation=TRUE):
    schema = Schema(tuple(Category(f"c{p}", tuple(map(str, range(len(m)))), missing="0") for p, m in enumerate(masses)))
    bins = tuple(Bins(np.arange(len(mass)), np.ones(len(mass))) for mass in masses)
    return CopulaModel(Partition.of(schema), bins, masses, correlation)


@pytest.mark.parametrize("masses", MASSES)
def test_scores_rise_with_rank_and_are_centred_and_clipped(masses):
    scores = normal_scores(masses)
    assert (np.diff(scores) >= 0).all()
    assert np.abs(scores).max() <= CLIP
    if np.abs(scores).max() < CLIP:
        assert masses @ scores == pytest.approx(0, abs=1e-12)
        assert masses @ scores**2 == pytest.approx(1)


def test_one_bin_and_bins_of_no_mass_have_scores():
    assert normal_scores(np.ones(1)).tolist() == [0.0]
    assert np.isfinite(normal_scores(np.array([0.0, 1.0, 0.0]))).all()


def test_every_variable_has_its_distribution_in_each_draw():
    codes = model().codes(10_007, np.random.default_rng(1))
    for row, masses in zip(codes, MASSES, strict=True):
        counts = np.bincount(row, minlength=len(masses))
        assert np.abs(counts - 10_007 * masses).max() < 2
        assert (counts[masses == 0] == 0).all()


def test_correlations_are_found_again_from_the_moment_of_scores():
    """Two levels keep little of a normal number; their correlation is found all the same."""
    codes = model().codes(1 << 19, np.random.default_rng(2))
    scores = [normal_scores(masses) for masses in MASSES]
    rows = np.array([own[row] for own, row in zip(scores, codes, strict=True)])
    moment = rows @ rows.T / rows.shape[1]
    assert abs(moment[0, 1] - 0.8) > 0.1
    assert correlations(moment, 0.0, scores, MASSES) == pytest.approx(TRUE, abs=0.02)
    assert correlations(moment / 3, 0.0, scores, MASSES) == pytest.approx(TRUE, abs=0.02)  # rows that were shortened


def test_noise_alone_makes_a_correlation_matrix_near_none():
    rng = np.random.default_rng(3)
    scores = [normal_scores(masses) for masses in MASSES]
    for deviation in (0.01, 1.0, 1e6):
        noise = rng.normal(size=(4, 4)) * deviation
        found = correlations(np.eye(4) + noise + noise.T, np.sqrt(2) * deviation, scores, MASSES)
        assert (found == found.T).all()
        assert (np.diag(found) == 1).all()
        assert np.linalg.eigvalsh(found).min() > 0.001
        assert deviation > 0.01 or np.abs(found - np.eye(4)).max() < 0.3
    assert correlations(np.ones((2, 2)), 0.1, [np.zeros(1)] * 2, [np.ones(1)] * 2).tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("rows", [1, 3])
def test_few_rows_are_as_correlated_as_many(rows):
    rng, own = np.random.default_rng(4), model()
    found = np.hstack([own.codes(rows, rng) for _ in range(400)])
    assert found.shape == (4, 400 * rows)
    high, second = found[0] >= 16, found[1] == 1
    assert np.mean(high == second) == pytest.approx(1 - np.arccos(0.8) / np.pi, abs=0.06)


def test_probabilities_of_one_column_are_exact_and_of_several_estimated():
    own, schema = model(), model().partition.schema
    assert own.probability(parse("c2 in ('0', '3')", schema)) == pytest.approx(0.4, abs=1e-12)
    assert own.probability(parse("not (c2 in ('0', '3'))", schema)) == pytest.approx(0.6, abs=1e-12)
    assert own.probability(parse("true", schema)) == 1
    assert own.probability(parse("false", schema)) == 0
    with pytest.warns(InexactWarning, match="a copula has no exact probability"):
        found = own.probability(parse("c1 = '1' and c3 = '1'", schema))
    codes = own.codes(1 << 19, np.random.default_rng(5))
    assert found == pytest.approx(np.mean((codes[1] == 1) & (codes[3] == 1)), abs=0.002)
    assert found > 1.2 * 0.5 * 0.03
