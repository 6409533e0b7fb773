"""Experiments of streams: variances by formula, the mechanism itself, and regret against brute force and its bound."""

import math

import numpy as np
import pandas as pd
import pytest

import streams
from page import Picture, Setting, Table
from sfumato.mechanisms.covariance import Covariance
from sfumato.pipeline.stream import Stream
from sfumato.randomness.secret import Secret
from sfumato.streams import leaders
from sfumato.streams.factorisation import Repeated, SquareRoot, Tree, variances
from sfumato.streams.plan import OwnRows
from streams import Arriving, Game, appended

QUICK = {"quick": True}


def test_variances_are_those_of_the_factorisations(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "HORIZONS", (4, 365))
    _, table, _ = streams.ratios(Setting("streams-ratios", tmp_path))
    few, year = (dict(zip(table.header, row, strict=True)) for row in table.rows)
    assert few["own rows"] == 2.5 / 4
    assert few["refined tree, last"] == pytest.approx(variances(Tree(), 4)[-1] / 4)
    assert year["ours"] <= 0.0213
    assert year["ours, last"] <= 0.0238
    assert year["square root"] <= year["ours"] * 1.0001
    assert year["refined tree"] <= 0.0603
    assert year["plain tree"] <= 0.102


def test_errors_of_streams_are_those_they_state(tmp_path):
    _, table = streams.simulated(Setting("streams-simulated", tmp_path, **QUICK))
    for _, measured, stated in table.rows:
        assert measured.value == pytest.approx(stated, rel=0.35)  # of two streams of 210 numbers: one standard error 7%


def test_one_transaction_makes_what_appending_makes(tmp_path):
    rng, key = np.random.default_rng(1), Secret.for_testing(3)
    data = Arriving(rng.uniform(-1, 1, (30, 3)), 1.5)
    periods, promise = data.periods(4), streams._promise()
    (tmp_path / "one").mkdir()
    one = appended(tmp_path / "one", data.schema, promise, periods, key)
    terms = {"horizon": 4, "mechanism": Covariance(centred=False), "testing": True}
    two = Stream.init(tmp_path / "two.stream", schema=data.schema, guarantee=promise, **terms)
    for number, rows in enumerate(periods, 1):
        two.append(rows, period=str(number), secret=key)
    assert all(np.array_equal(a, b) for a, b in zip(one.leaders(2), two.leaders(2), strict=True))


@pytest.mark.parametrize("method", [SquareRoot(), Tree(), OwnRows(), Repeated()], ids=lambda method: method.name)
def test_simulated_noise_has_the_variances_of_its_factorisation(method):
    found = streams._noise(method, 7, np.random.default_rng(1), 120)
    above = np.triu_indices(120, 1)
    diagonal = np.diagonal(found, axis1=1, axis2=2)
    assert np.allclose(2 * np.square(found[:, *above]).mean(axis=1) / variances(method, 7), 1, atol=0.1)
    assert np.allclose(np.square(diagonal).mean(axis=1) / variances(method, 7), 1, atol=0.6)
    assert np.array_equal(found, found.transpose(0, 2, 1))


def game(rng, dim=5, periods=12):
    rows = rng.normal(size=(20 * periods, dim)) * np.linspace(1, 0.2, dim)
    return Game.of(np.split(rows, periods), 1.0)


def test_regret_is_what_the_best_subspace_keeps_more():
    made = game(np.random.default_rng(2))
    total = np.trace(made.moments.sum(axis=0))
    assert made.regret([made.best] * 12)[-1] == pytest.approx(0)
    worst = np.linalg.eigh(made.moments.sum(axis=0))[1][:, : streams.PLAYED].T
    kept = [sum(np.trace(basis @ m @ basis.T) for m in made.moments) for basis in (made.best, worst)]
    assert made.regret([worst] * 12)[-1] == pytest.approx((kept[0] - kept[1]) / total)
    assert 0 <= made.followed(made.running)[-1] < made.regret([worst] * 12)[-1]


def test_rows_are_shortened_as_they_are_released():
    rows = np.array([[3.0, 4.0, 0.0, 0.0], [0.3, 0.4, 0.0, 0.0]])
    made = Game.of([rows], 1.0)
    assert np.trace(made.moments[0]) == pytest.approx(1.25)
    assert made.dim == 4


def _expected_bound(moments, sigma, rank):
    """Section 24 of the mathematics, for noise of these deviations after each period."""
    running, (count, dim, _) = np.cumsum(moments, axis=0), moments.shape
    gains = [np.linalg.eigvalsh(m)[-rank:].sum() for m in moments]
    apart = [np.linalg.norm(running[t] / sigma[t] - running[t - 1] / sigma[t - 1]) for t in range(1, count)]
    late = sum(g * min(1.0, m / math.sqrt(2 * math.pi)) for g, m in zip(gains[1:], apart, strict=True))
    return rank * math.sqrt(2 * dim) * sigma[-1] + gains[0] + late


@pytest.mark.parametrize("scale", [1.0, 6.0])
def test_expected_regret_is_within_its_bound_also_for_rows_against_the_leader(scale):
    """Rows alternate, so that the plain leader is always wrong; noise helps, and the bound holds."""
    count, dim, rng = 120, 3, np.random.default_rng(1)
    axes = [0] + [1 + t % 2 for t in range(count - 1)]
    moments = np.array([np.diag(np.eye(dim)[axis] * (0.5 if t == 1 else 1.0)) for t, axis in enumerate(axes)])
    sigma = scale * np.sqrt(variances(SquareRoot(), count))
    best = np.linalg.eigvalsh(moments.sum(axis=0))[-1]

    def regret(noise):
        played = list(leaders.leaders((np.cumsum(moments, axis=0) + noise)[:-1], dim, 1))
        return best - sum(float(np.sum((basis @ m) * basis)) for basis, m in zip(played, moments, strict=True))

    found = [regret(scale * streams._noise(SquareRoot(), count, rng, dim)) for _ in range(30)]
    assert np.mean(found) <= _expected_bound(moments, sigma, 1)
    assert np.mean(found) + 5 * np.std(found) / math.sqrt(30) < regret(np.zeros((count, dim, dim)))


def test_a_table_has_every_way_and_a_stream_is_the_best_of_them(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "EPSILONS", (1.0,))
    monkeypatch.setattr(streams, "SHORT", 30)
    (tmp_path / "x.parquet").write_bytes(b"")
    rng = np.random.default_rng(1)
    rows = np.clip(rng.normal(size=(1500, 6)) * np.array([0.5, 0.4, 0.3, 0.1, 0.1, 0.1]), -1, 1)
    setting = Setting("streams-x", tmp_path, tmp_path, quick=True)
    text, table, picture = streams.components(setting, "x.parquet", lambda _: Arriving(rows, 1.0))
    assert "1,500 rows of 6 numbers" in text
    assert isinstance(table, Table)
    assert isinstance(picture, Picture)
    assert (tmp_path / "figures" / "streams-x.svg").exists()
    found = {row[1]: getattr(row[-1], "value", row[-1]) for row in table.rows}
    assert found["leader, not private"] < found[streams.OURS] < found["paid anew each period"]
    assert {"stream, tree", "own rows, added up", "one release, after 1/10", "a random subspace"} <= set(found)
    assert not list(streams.components(Setting("streams-x", tmp_path), "x.parquet", lambda _: None))


def test_every_reader_gives_rows_within_their_bounds(tmp_path):
    rng, count = np.random.default_rng(2), 12
    sports = pd.DataFrame(rng.normal(0, 20, (count, 48))).rename(columns=str)
    sports = sports.rename(columns={"0": "activity", "1": "subject", "2": "segment"}).assign(subject=1)
    frames = {
        "sports": sports,
        "blogs": pd.DataFrame(rng.normal(0, 5000, (count, 62))).rename(columns=str),
        "forest": pd.DataFrame(rng.normal(2000, 3000, (count, 12))).rename(columns=str),
    }
    for name, frame in frames.items():
        frame.to_parquet(tmp_path / "data.parquet")
        data = getattr(streams, name)(tmp_path / "data.parquet")
        assert len(data.rows) == count
        assert np.abs(data.rows).max() <= 1
        assert [len(period) for period in data.periods(5)] == [2, 2, 3, 2, 3]
