"""Sign sketches: what their flips promise, what individual privacy does not, and a table for a small data set."""

import itertools
import math

import numpy as np
import pytest

import sign_sketches
from page import Setting, Table
from sfumato.planning.per_record import best_levels, level_error
from sign_sketches import Similar, bins, individual, kept_odds, places


def test_signs_that_far_changes_turn_are_kept_oftener_and_no_neighbour_loses_more():
    """All pairs of images at most one reach apart, on a fine grid: the probability of either sign."""
    grid, reach, worst = np.linspace(-3, 3, 241), 1.0, 0.0
    for epsilon in (0.5, 1.0, 4.0):
        flip = kept_odds(grid, np.array([reach]), epsilon)
        plus = np.where(grid >= 0, 1 - flip, flip)
        assert (np.diff(flip[grid > 0]) <= 0).all()
        near = np.abs(grid[:, None] - grid) <= reach + 1e-12
        losses = [np.abs(np.log(law[:, None] / law))[near].max() for law in (plus, 1 - plus)]
        assert max(losses) <= epsilon + 1e-12
        worst = max(worst, max(losses) / epsilon)
    assert worst > 1 - 1e-12  # attained


def test_one_value_turns_one_bin_at_most():
    rng = np.random.default_rng(1)
    records, sure = rng.random((40, 20)), 1e3
    data = Similar.of(records, np.zeros(40))
    for column in range(20):
        other = records.copy()
        other[:, column] = rng.random(40)
        signs = [
            bins(Similar.of(rows, np.zeros(40)), sure, 5, np.random.default_rng(2)) for rows in (data.records, other)
        ]
        assert np.sum(signs[0] != signs[1], axis=1).max() <= 1
    assert [part[:2] for part in places(data)] == [(j, j + 1) for j in range(20)]


def test_individual_privacy_is_not_differential_privacy():
    """Two neighbours of six flags: a sign that one never shows is shown by the other, so no epsilon holds."""

    def shown(flags):
        data = Similar.of(np.tile(np.array(flags, float), (2_000, 1)), np.zeros(2_000))
        return set(individual(data, 1.0, 1, np.random.default_rng(3))[:, 0])

    seen = {flags: shown(flags) for flags in itertools.product((0, 1), repeat=6)}
    pairs = [(a, b) for a in seen for b in seen if sum(x != y for x, y in zip(a, b, strict=True)) == 1]
    assert any(len(seen[a]) == 1 and len(seen[b]) == 2 for a, b in pairs)


def test_levels_follow_from_epsilon_alone():
    assert [best_levels(epsilon) for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0)] == [2, 2, 2, 4, 14]
    assert level_error(4.0, 4) < 2 / 4**2 / 7  # Laplace noise has 7 times as much


def test_the_error_of_a_level_is_that_of_simulated_answers():
    rng, epsilon, levels = np.random.default_rng(1), 2.0, 3
    truth = rng.random(400_000)
    code = np.floor(truth * levels).astype(int)
    keep = math.exp(epsilon) / (math.exp(epsilon) + levels - 1)
    answer = np.where(rng.random(truth.size) < keep, code, (code + rng.integers(1, levels, truth.size)) % levels)
    points, other = (np.arange(levels) + 0.5) / levels, (1 - keep) / (levels - 1)
    found = (points[answer] - other * points.sum()) / (keep - other)
    assert np.mean((found - truth) ** 2) == pytest.approx(level_error(epsilon, levels), rel=0.02)


def test_a_table_has_every_release(monkeypatch, tmp_path):
    monkeypatch.setattr(sign_sketches, "EPSILONS", (4.0,))
    (tmp_path / "x.parquet").write_bytes(b"")
    setting = Setting("signs-x", tmp_path, tmp_path, quick=True)
    rng = np.random.default_rng(1)
    groups = rng.integers(3, size=300)
    data = np.clip(rng.random((3, 20))[groups] + 0.1 * rng.standard_normal((300, 2)) @ rng.random((2, 20)), 0, 1)
    text, table = sign_sketches.compared(setting, "x.parquet", lambda _: Similar.of(data, groups))
    assert "300 records of 20 columns (20 numbers), 60 queries" in text
    assert isinstance(table, Table)
    named = {tuple(row[1:3]): row[3].value for row in table.rows}
    assert named["4 levels of columns", "none"] > named["sketch, Laplace", "none"]
    assert {"signs of columns", "16 signs of bins", "512 individual signs, not private"} <= {name for name, _ in named}
    assert not list(sign_sketches.compared(Setting("signs-x", tmp_path), "x.parquet", lambda _: None))
