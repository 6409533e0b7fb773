"""Audits of streams: neighbours in any period, all that was measured, and broken twins that are caught."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato
from sfumato.audit.cases import GROWING
from sfumato.audit.examine import Effort, examine
from sfumato.audit.recorder import Tape, secret
from sfumato.audit.stream_trials import (
    STREAMS,
    Again,
    InMemory,
    greybox_stream,
    measurements,
    stream_trial,
    worst_periods,
)
from sfumato.errors import ParameterError, ReleaseError
from sfumato.mechanisms.covariance import Covariance
from sfumato.mechanisms.histogram import Histogram
from sfumato.mechanisms.synthetic.recipe import Synthetic
from sfumato.pipeline import stream as pipeline
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness.secret import Secret
from sfumato.streams import running
from sfumato.streams.description import StreamDescription
from sfumato.streams.factorisation import Node, SquareRoot, Tree
from sfumato.streams.measuring import Measuring
from sfumato.tables.columns import Category, Flag, Real
from sfumato.tables.schema import Schema

FLAGS = Schema((Flag("f"), Category("c", ("x", "y", "z"))))
SQUARE = Schema.reals(2, low=-1.0, high=1.0)
CLASSED = Schema((Real("a", -1, 1), Real("b", -1, 1), Category("c", ("x", "y", "z"))))
RARE = 1 - 1e-9  # confidence: false alarms of each assertion are rarer than one in a thousand million
FOREVER = 1e9


def described(recipe, schema, horizon=5, method="square-root", **promise):
    guarantee = Guarantee(**({"epsilon": 1.0, "delta": 0.01, "unit": "record"} | promise))
    return StreamDescription.new(recipe, schema, guarantee, horizon, method)


def found(about, samples=20_000, confidence=RARE, **more):
    return examine(stream_trial(about, **more), Effort(samples=samples, seconds=FOREVER, seed=1, confidence=confidence))


def caught(about, samples=20_000, **more):
    """Whether a broken twin is refuted, at the confidence that audits have."""
    return found(about, samples, 0.999, **more).refuted


def test_the_suite_has_streams():
    assert {case.name for case in GROWING} == set(STREAMS)


@pytest.mark.parametrize("name", STREAMS)
def test_no_stream_is_refuted(name):
    honest = examine(STREAMS[name](1.0), Effort(samples=6_000, seconds=FOREVER, seed=2, confidence=RARE))
    assert honest.passed, honest
    assert honest.share > 0.1


CONFIGURATIONS = {
    "counts": lambda: described(Histogram(), FLAGS, 8),
    "counts, tree": lambda: described(Histogram(), FLAGS, 8, "tree", neighbours="add-remove"),
    "moments": lambda: described(Covariance(), SQUARE, 8),
    "moments, group": lambda: described(Covariance(centred=False), SQUARE, 8, "tree", group=3),
    "classes": lambda: described(Synthetic(dimension=1, label="c", kind="classes"), CLASSED, 4),
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_half_the_noise_is_caught(name):
    about = CONFIGURATIONS[name]()
    assert caught(replace(about, scale=about.scale / 2))


@pytest.mark.parametrize("at", [2, 5, 8])
def test_no_period_is_worse_than_the_first(at):
    """Of a tree all are as bad; of the square root the later ones are in fewer measurements, so they lose less."""
    for name in ("counts", "counts, tree"):
        about = CONFIGURATIONS[name]()
        assert found(about, samples=5_000, at=at).passed
        gaps = [_gap(about, period) for period in (1, at)]
        assert gaps[1] <= gaps[0] * (1 + 1e-9)
        assert gaps[0] * 0.99 < about.measuring.sensitivity(8) / about.scale >= gaps[0]


def _gap(about, at):
    """How far neighbours in a period are apart, in deviations of the noise: mu of all that is measured."""
    fed = []
    for periods in worst_periods(about, at):
        tape = Tape()
        measurements(about, periods, secret(tape))
        fed.append(np.concatenate([draw.fed / draw.scale for draw in tape.draws.values()]))
    return float(np.linalg.norm(fed[0] - fed[1]))


@pytest.mark.parametrize(("method", "horizon"), [(SquareRoot, 24), (Tree, 8)])
def test_noise_for_one_period_only_is_caught(method, horizon, monkeypatch):
    """A twin that forgets that a record is in many measurements."""
    recipe, name = Histogram((("f",),)), method().name
    assert found(described(recipe, FLAGS, horizon, name)).passed
    monkeypatch.setattr(method, "squared_norm", lambda self, _horizon: self.whole**2)
    assert caught(described(recipe, FLAGS, horizon, name))


def test_a_forgotten_group_is_caught():
    one, several = (described(Histogram(), FLAGS, 6, group=group) for group in (1, 3))
    assert found(several).passed
    assert caught(replace(several, scale=one.scale))


def _shared(self, _node, sums, scale, key, honest=Measuring.measured):
    """The noise of the first measurement, again for all others."""
    return sums + honest(self, Node(1), np.zeros_like(sums), scale, key)


def test_noise_that_measurements_share_is_caught_by_what_is_learned(monkeypatch):
    about = described(Histogram(), FLAGS, 3)
    assert found(about, samples=6_000, method="learned").passed
    monkeypatch.setattr(Measuring, "measured", _shared)
    assert caught(about, samples=6_000, method="learned")


def test_noise_that_two_nodes_of_a_tree_share_is_caught(monkeypatch):
    about, honest = described(Histogram(), FLAGS, 4, "tree"), Measuring.measured

    def twin(self, node, sums, scale, key):
        shared = Node(2) if node == Node(2, 1) else node  # the interval of two periods has the noise of the second
        return sums + honest(self, shared, np.zeros_like(sums), scale, key)

    monkeypatch.setattr(Measuring, "measured", twin)
    assert found(about, samples=6_000, method="learned", at=2).passed  # it moves both of them alike
    assert caught(about, samples=6_000, method="learned", at=1)  # their difference is the first period's sum


def test_coarsening_left_out_is_fine():
    """Finer steps only add what is stated for coarser ones: nothing is lost."""
    about = described(Covariance(), SQUARE, 4)
    finer = replace(about.measuring, shift=about.measuring.shift - 2)
    assert found(replace(about, measuring=finer, scale=about.scale * 4)).passed


def test_many_equal_streams_are_what_appending_makes_one_by_one(tmp_path):
    """The same integers get noise, of the same law, as those of a stream's own file."""
    about = replace(described(Covariance(), SQUARE, 3), protected=False)
    rows = [np.array([[0.5, -1.0], [0.25, 0.0]]), np.array([[1.0, 1.0]]), np.empty((0, 2))]
    pipeline.StreamStore(tmp_path / "a.stream").make(about)
    made, key = pipeline.Stream(tmp_path / "a.stream"), Secret.for_testing(5)
    for number, table in enumerate(rows, 1):
        made.append(table, period=str(number), empty=not len(table), secret=key)
    with pipeline.StreamStore(tmp_path / "a.stream").reading() as stream:
        wanted = running.all_measurements(stream, 3)
    periods = tuple(np.ascontiguousarray(table.T) for table in rows)
    again = measurements(about, periods, key)
    assert all(np.array_equal(wanted[node], again[node]) for node in wanted)
    many = replace(about, measuring=replace(about.measuring, statistic=Again(about.measuring.statistic, 400)))
    noise = measurements(many, periods, key)[Node(1)].reshape(400, -1) - wanted[Node(1)]
    assert np.unique(noise[:, 0]).size > 300
    with pytest.raises(NotImplementedError):
        many.measuring.statistic.published(np.zeros(1), (1.0, 1.0), None)
    assert InMemory(many).size == 400 * about.measuring.statistic.deviations.size
    assert many.measuring.statistic.facts == about.measuring.statistic.facts
    assert many.measuring.sensitivity(3) == about.measuring.sensitivity(3)


def test_the_package_audits_streams():
    effort = Effort(samples=3_000, seconds=FOREVER, seed=3)
    terms = {"schema": FLAGS, "guarantee": Guarantee(epsilon=1.0, delta=0.01), "horizon": 3, "effort": effort}
    assert sfumato.audit.stream(Histogram(), **terms).passed
    with pytest.raises(ParameterError, match="at=4"):
        sfumato.audit.stream(Histogram(), at=4, **terms)


# ---- grey box --------------------------------------------------------------------------------------------------------


def tables(rng, periods):
    """Some rows for each period."""
    counts = rng.integers(1, 4, periods)
    return [
        pa.table({"f": rng.integers(0, 2, n).astype(bool), "c": np.array(["x", "y", "z"])[rng.integers(0, 3, n)]})
        for n in counts
    ]


def neighbour(rng, first, *, comes):
    """The same periods, with one row of one of them otherwise, or one more."""
    second, at = list(first), int(rng.integers(len(first)))
    row = pa.table({"f": [bool(rng.integers(2))], "c": [str(rng.choice(["x", "y", "z"]))]})
    second[at] = pa.concat_tables([row, first[at] if comes else first[at].slice(1)])
    return second


@pytest.mark.parametrize("method", ["square-root", "tree"])
@pytest.mark.parametrize("comes", [False, True])
@settings(max_examples=1)
@given(seed=st.integers(0, 2**32))
def test_all_publications_of_a_stream_show_nothing_but_noise(method, comes, seed):
    rng = np.random.default_rng(seed)
    about = described(Histogram(), FLAGS, 3, method, neighbours="add-remove" if comes else "replace")
    first = tables(rng, 3)
    audited = greybox_stream(first, neighbour(rng, first, comes=comes), about)
    assert audited.passed, audited
    assert all(share <= 1 for share in audited.moved.values())


def test_second_moments_and_classes_show_nothing_but_noise():
    rng = np.random.default_rng(1)
    rows = rng.uniform(-1, 1, (9, 2))
    other = rows.copy()
    other[0] = 1.0
    for recipe in (Covariance(), Synthetic(dimension=2)):
        about = described(recipe, SQUARE, 3)
        audited = greybox_stream([rows, rows, rows], [other, rows, rows], about)
        assert audited.passed, audited


def test_a_pair_that_is_none_is_told():
    """Three rows that differ move more than one may."""
    about = described(Histogram((("f",),)), FLAGS, 2)
    ones, twos = (pa.table({"f": [value] * 3, "c": ["x"] * 3}) for value in (True, False))
    audited = greybox_stream([ones, ones], [twos, ones], about)
    assert any("times its stated sensitivity" in fault for fault in audited.faults)


def test_noise_that_is_left_out_or_shared_shows(monkeypatch):
    rng = np.random.default_rng(2)
    about, first = described(Histogram(), FLAGS, 3), tables(rng, 3)
    second = list(first)
    second[0] = pa.concat_tables([pa.table({"f": [not first[0]["f"][0].as_py()], "c": ["x"]}), first[0].slice(1)])
    honest = Measuring.measured
    monkeypatch.setattr(Measuring, "measured", lambda *given: np.append(given[2][:1], honest(*given)[1:]))
    assert any("depends on the data" in fault for fault in greybox_stream(first, second, about).faults)
    monkeypatch.setattr(Measuring, "measured", _shared)
    assert any("share noise" in fault for fault in greybox_stream(first, second, about).faults)


def test_two_refusals_say_nothing():
    about = described(Histogram(), FLAGS, 1)
    with pytest.raises(ReleaseError, match="neither stream"):
        greybox_stream([7, 7], [7, 7], about)
