"""Noisy distances in the analyst's hands: exact intervals at every truth, neighbours, cleaning, clusters."""

import math
import pickle

import numpy as np
import pytest
from scipy import stats

from sfumato.errors import ParameterError, ReleaseError
from sfumato.estimation import distance_matrix
from sfumato.files.open_table import open_table
from sfumato.intervals.additive_noise import located
from sfumato.intervals.moments import NoiseLaw
from sfumato.mechanisms.distances import NoisyDistances
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness.secret import Secret
from sfumato.releases.distances import DistancesRelease
from sfumato.tables.columns import Flag
from sfumato.tables.schema import Schema
from support.rows import table_rows

NOISES = ["laplace", "gaussian"]
CUBE = Schema.reals(4, low=0.0, high=1.0)


def release(data, schema=CUBE, noise="laplace", epsilon=10.0, seed=1):
    promise = Guarantee(epsilon=epsilon, delta=0.0 if noise == "laplace" else 1e-6, unit="attribute")
    calibrated = calibrate(NoisyDistances(noise=noise).prepare(schema, promise), promise)
    rows = table_rows(open_table(data, schema), schema)
    published = calibrated.mechanism.run(rows, calibrated.level, Secret.for_testing(seed))
    manifest = {"guarantee": promise.to_dict(), "schema": schema.to_dict()} | published.facts
    return DistancesRelease(manifest, np.concatenate(list(published.blocks), axis=1))


def true_distances(data):
    return distance_matrix.between(np.asarray(data, float))


# ---- intervals ------------------------------------------------------------------------------------------------------


def draws(kind, scale, count, seed):
    rng = np.random.default_rng(seed)
    return rng.normal(0, scale, count) if kind == "gaussian" else rng.laplace(0, scale / math.sqrt(2), count)


def covered(interval, truth):
    low, high = interval
    assert (np.asarray(low) <= np.asarray(high)).all()
    return float(np.mean((low <= truth) & (truth <= high)))


def slack(count, level=0.95):
    return 3 * math.sqrt(level * (1 - level) / count)


@pytest.mark.parametrize("level", [0.95, 0.3])
@pytest.mark.parametrize("scale", [0.02, 0.3, 5.0])
@pytest.mark.parametrize("kind", NOISES)
def test_intervals_cover_as_often_as_they_say_at_every_truth(kind, scale, level):
    noise, count = NoiseLaw(kind, scale), 4000
    for place, truth in enumerate((0.0, 0.001, 0.2, 1.0, 1.99, 2.0)):
        found = located(truth + draws(kind, scale, count, place), noise, 2.0)
        low, high = found.interval(level)
        assert low.min() >= 0
        assert high.max() <= 2
        assert abs(covered((low, high), truth) - level) <= slack(count, level)


@pytest.mark.parametrize("kind", NOISES)
def test_what_the_coverage_test_would_reject(kind):
    """Noise taken for 15% smaller or larger, and plain intervals cut to the range: too often right at its ends."""
    count, noise = 4000, NoiseLaw(kind, 0.3)
    for wrong in (0.85, 1.15):
        found = located(1.0 + draws(kind, 0.3, count, 1), NoiseLaw(kind, 0.3 * wrong), 2.0)
        assert abs(covered(found.interval(), 1.0) - 0.95) > slack(count)
    reach = noise.tail(0.025, 1)
    for truth in (0.0, 2.0):
        seen = truth + draws(kind, 0.3, count, 2)
        assert covered(np.clip([seen - reach, seen + reach], 0, 2), truth) > 0.95 + slack(count)


@pytest.mark.parametrize("kind", NOISES)
def test_the_ends_of_an_interval_are_where_the_value_becomes_extreme(kind):
    """Probabilities beyond the value under each end, against SciPy's laws."""
    scale, most, missed = 0.3, 5.0, 0.1
    law = stats.norm(0, scale) if kind == "gaussian" else stats.laplace(0, scale / math.sqrt(2))
    for value in (-0.2, 0.0, 0.4, 2.5, 4.8, 5.1):
        low, high = located(value, NoiseLaw(kind, scale), most).interval(1 - missed)

        def share(truth):
            gaps = [min(max(gap / (4 * scale), 1e-3), 1) for gap in (truth, most - truth)]
            return (1 + gaps[0] - gaps[1]) / 2

        if low > 0:
            assert law.sf(value - low) == pytest.approx(missed * (1 - share(low)), rel=1e-6)
        if high < most:
            assert law.cdf(value - high) == pytest.approx(missed * share(high), rel=1e-6)
        assert (low > 0) or law.sf(value) >= missed * (1 - share(0)) * (1 - 1e-9)


@pytest.mark.parametrize("kind", NOISES)
def test_simultaneous_intervals_hold_all_at_once(kind):
    truths, repeats = np.array([0.0, 0.0, 0.01, 0.3, 1.0, 1.7, 2.0, 2.0]), 3000
    seen = truths + draws(kind, 0.4, (repeats, truths.size), 3)
    found = located(seen, NoiseLaw(kind, 0.4), 2.0)
    low, high = found.bounds(0.05 / (2 * truths.size))
    one = located(seen[0], NoiseLaw(kind, 0.4), 2.0).interval(simultaneous=True)
    assert np.allclose(one, (low[0], high[0]), rtol=1e-9)
    together = np.mean(((low <= truths) & (truths <= high)).all(axis=1))
    assert abs(together - (1 - 0.05 / 8) ** 8) <= slack(repeats)
    low, high = found.interval()
    assert np.mean(((low <= truths) & (truths <= high)).all(axis=1)) < 0.8


def test_values_far_out_of_range_give_ends_of_it():
    noise = NoiseLaw("gaussian", 0.1)
    assert located(1e6, noise, 2.0).interval() == pytest.approx((2.0, 2.0))
    assert located(-1e6, noise, 2.0).interval() == pytest.approx((0.0, 0.0))
    certain = located(0.7, noise, 0.0)
    assert (certain.value, certain.standard_error, certain.interval()) == (0.0, 0.0, (0.0, 0.0))


@pytest.mark.parametrize("noise", NOISES)
def test_intervals_of_a_release_cover_records_that_are_equal_and_ones_at_opposite_ends(noise):
    """The real mechanism: half of the records at each corner, so that every truth is an end of the range."""
    data = np.repeat([[0.0] * 4, [1.0] * 4], 60, axis=0)
    made, truth = release(data, noise=noise, epsilon=300.0), true_distances(data)
    first, second = np.triu_indices(120, 1)
    found = made.distances(first, second)
    near = truth[first, second] == 0
    assert made.noise.scale > 0.1
    for some in (near, ~near):
        low, high = (end[some] for end in found.interval())
        assert abs(covered((low, high), truth[first, second][some]) - 0.95) <= slack(some.sum())


# ---- questions ------------------------------------------------------------------------------------------------------


def test_distances_are_the_published_numbers_with_the_error_of_the_noise():
    data = np.random.default_rng(4).random((9, 4))
    made = release(data, epsilon=1e4)
    matrix = made.matrix()
    assert (made.array() == matrix).all()
    assert matrix == pytest.approx(true_distances(data), abs=0.02)
    assert made.rows == 9
    assert made.values.shape == (36,)
    assert made.distance(2, 7).value == made.distance(7, 2).value == matrix[2, 7]
    assert made.distance(2, 7).standard_error == made.noise.scale
    many = made.distances([0, 3, 8, 5], [4, 3, 0, 6])
    assert many.value.tolist() == [matrix[0, 4], 0.0, matrix[8, 0], matrix[5, 6]]
    assert many.standard_error[1] == 0
    assert many.interval()[1][1] == 0
    assert made.distance(8, 8).interval() == (0.0, 0.0)
    assert pickle.loads(pickle.dumps(many)).interval()[0].tolist() == many.interval()[0].tolist()  # noqa: S301
    assert repr(made) == "<distances of 9 records; epsilon=10000, delta=0, unit='attribute'>"


def test_neighbours_are_those_of_the_published_numbers():
    made = release(np.random.default_rng(5).random((30, 4)))
    for record in (0, 13, 29):
        row = made.matrix()[record]
        row[record] = np.inf
        found = made.nearest(record, 7)
        assert found.indices.tolist() == np.argsort(row)[:7].tolist()
        assert found.distances.uncut.tolist() == np.sort(row)[:7].tolist()


def test_flags_count_their_differences():
    flags = Schema([Flag(f"b{j}") for j in range(6)])
    data = np.random.default_rng(6).integers(0, 2, (8, 6))
    made = release(data.astype(float), flags, epsilon=1e5)
    found = made.hamming([0, 1], [5, 6])
    assert found.value == pytest.approx([np.sum(data[0] != data[5]), np.sum(data[1] != data[6])], abs=0.01)
    assert release(data.astype(float), flags, epsilon=0.1).hamming([0], [5]).interval()[1][0] <= 6
    with pytest.raises(ReleaseError, match="flags only"):
        release(np.zeros((3, 4))).hamming([0], [1])


@pytest.mark.parametrize("noise", NOISES)
def test_cleaning_brings_the_distances_nearer_to_the_truth(noise):
    data = np.random.default_rng(7).random((60, 4))
    made, truth = release(data, noise=noise, epsilon=100.0), true_distances(data)

    def error(matrix):
        return math.sqrt(np.mean((matrix - truth) ** 2))

    before, scaled, nearest = error(made.matrix()), error(made.cleaned("mds")), error(made.cleaned())
    assert before == pytest.approx(made.noise.scale, rel=0.1)
    assert scaled < 0.9 * before
    assert nearest < 0.6 * before
    distances = [np.linalg.norm(made.cleaned(*way) - made.matrix()) for way in (("nearest",), ("mds",), ("mds", 2))]
    assert distances[0] == min(distances)
    assert made.embedding(2).shape == (60, 2)
    assert made.cleaned("mds", 2) == pytest.approx(distance_matrix.between(made.embedding(2)))


def test_clusters_of_separated_records_are_found():
    rng = np.random.default_rng(8)
    truth = np.arange(60) % 3
    corners = np.array([[0, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 1]]) * 0.9 + 0.05
    made = release(corners[truth] + rng.uniform(-0.05, 0.05, (60, 4)), epsilon=600.0)
    assert made.embedding().shape == (60, 4)
    labels = made.cluster(3, rank=2).labels
    assert len({(a, b) for a, b in zip(labels.tolist(), truth.tolist(), strict=True)}) == 3
    assert (made.cluster(3, rank=2).labels == labels).all()


@pytest.mark.parametrize(
    ("question", "named"),
    [
        (lambda r: r.distance(0, 5), "records are numbered 0 to 4"),
        (lambda r: r.distance(-1, 2), "records are numbered"),
        (lambda r: r.distance([0, 1], 2), "use distances for many pairs"),
        (lambda r: r.distances([0, 1], [2]), "must have the same length"),
        (lambda r: r.nearest(0, 5), "k must be at most 4"),
        (lambda r: r.nearest(0, 0), "k must be a whole number"),
        (lambda r: r.cleaned("best"), "method must be one of"),
        (lambda r: r.cleaned("nearest", 2), "rank needs method='mds'"),
        (lambda r: r.cleaned("mds", 5), "rank must be at most 4"),
        (lambda r: r.embedding(0), "rank must be a whole number"),
        (lambda r: r.cluster(6), "clusters must be at most 5"),
    ],
)
def test_bad_questions_are_refused(question, named):
    with pytest.raises(ParameterError, match=named):
        question(release(np.zeros((5, 4))))


def test_numbers_that_are_no_triangle_of_the_records_are_refused():
    made = release(np.zeros((5, 4)))
    with pytest.raises(ReleaseError, match="5 records have 10 distances"):
        DistancesRelease(made.manifest, made.columns[:, :9])


def test_cleaning_that_does_not_end_says_so(monkeypatch):
    made, honest = release(np.random.default_rng(9).random((20, 4))), distance_matrix.nearest_distances
    monkeypatch.setattr(distance_matrix, "nearest_distances", lambda matrix: honest(matrix, rounds=2))
    with pytest.raises(ReleaseError, match="not found in 2 rounds: use method='mds'"):
        made.cleaned()
