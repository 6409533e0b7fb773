"""The posterior of a sketch in the analyst's hands: nearest records, credible intervals, answers and fallbacks."""

import math

import numpy as np
import pandas as pd
import pytest

from sfumato.errors import ParameterError
from sfumato.mechanisms.components import Components
from sfumato.mechanisms.sketch import Sketch
from sfumato.pipeline.release import release
from sfumato.posterior.held_out import HeldOut
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.randomness.secret import Secret
from sfumato.releases.posterior import Posterior
from sfumato.tables.columns import Flag
from sfumato.tables.schema import Schema

WIDTH, GROUPS = 40, 5
ATTRIBUTE = Guarantee(epsilon=4.0, unit="attribute")


def people(count=400, seed=1):
    """Records in a few groups, of columns between 0 and 1, and their groups."""
    rng = np.random.default_rng(seed)
    centres, groups = rng.random((GROUPS, WIDTH)), rng.integers(GROUPS, size=count)
    loadings = 0.12 * rng.standard_normal((3, WIDTH))
    return np.clip(centres[groups] + rng.standard_normal((count, 3)) @ loadings, 0, 1), groups


def made(data, mechanism=None, guarantee=ATTRIBUTE, seed=1):
    schema = Schema.reals(data.shape[1], low=0, high=1)
    terms = {"schema": schema, "mechanism": mechanism or Sketch(seed=1), "guarantee": guarantee}
    return release(data, **terms, secret=Secret.for_testing(seed))


@pytest.fixture(scope="module")
def grouped():
    data, groups = people()
    return data, groups, made(data)


def truly(data, first, second):
    return np.sum((data[first] - data[second]) ** 2, axis=-1)


def test_the_learned_prior_finds_more_of_the_true_neighbours(grouped):
    data, groups, sketch = grouped
    queries = np.arange(100)
    true = np.sum((data[queries][:, None] - data) ** 2, axis=2)
    true[queries, queries] = np.inf
    worst = np.sort(true, axis=1)[:, 9:10]
    recall, agreement = {}, {}
    for prior in ("learned", "none"):
        found = sketch.nearest(queries, 10, prior=prior).indices
        recall[prior] = np.mean(np.take_along_axis(true, found, 1) <= worst)
        agreement[prior] = np.mean(groups[found] == groups[queries][:, None])
    assert recall["learned"] > 1.15 * recall["none"]
    assert agreement["learned"] > 0.95 > agreement["none"]


def test_credible_intervals_of_the_records_shown_hold_and_are_narrower(grouped):
    data, _, sketch = grouped
    queries = np.arange(200)
    learned, plain = (sketch.nearest(queries, 10, prior=prior) for prior in ("learned", "none"))
    true = truly(data, queries[:, None], learned.indices)
    low, high = learned.distances.interval(0.95)
    assert 0.93 <= np.mean((low <= true) & (true <= high)) <= 1
    assert (learned.distances.kind, plain.distances.kind) == ("credible", "confidence")
    assert "learned" in learned.distances.covers
    widths = [np.mean(np.subtract(*part.distances.interval(0.95)[::-1])) for part in (learned, plain)]
    assert widths[0] < 0.5 * widths[1]
    assert (learned.distances.value > 0).all()
    assert (learned.distances.uncut > 0).all()
    assert abs(learned.distances.uncut.mean() - true.mean()) < abs(plain.distances.uncut.mean() - true.mean())


def test_one_query_is_the_first_of_many_and_nothing_is_drawn_twice(grouped):
    *_, sketch = grouped
    one, many = sketch.nearest(7, 5), sketch.nearest([7, 8], 5)
    assert one.indices.tolist() == many.indices[0].tolist()
    assert 7 not in one.indices
    assert np.array_equal(one.distances.value, many.distances.value[0])
    assert np.array_equal(one.distances.interval()[1], many.distances.interval()[1][0])
    assert sketch.posterior() is sketch.posterior()
    again = Posterior(sketch.array().copy(), sketch.law, sketch.schema).nearest(7, 5)
    assert np.array_equal(again.distances.value, one.distances.value)
    assert again.expected.among_k == one.expected.among_k


def test_expected_hits_are_said_of_the_learned_prior_only(grouped):
    data, _, sketch = grouped
    queries = np.arange(0, 400, 20)
    found = sketch.nearest(queries, 10)
    true = np.sum((data[queries][:, None] - data) ** 2, axis=2)
    true[np.arange(len(queries)), queries] = np.inf
    places = np.argsort(np.argsort(true, axis=1), axis=1)
    hits = np.take_along_axis(places, found.indices, 1)
    assert found.expected.among_k.mean() == pytest.approx(np.sum(hits < 10, axis=1).mean(), abs=2)
    assert found.expected.among_10k.mean() == pytest.approx(np.sum(hits < 100, axis=1).mean(), abs=1.5)
    assert sketch.nearest(0, 3, prior="none").expected is None


def test_pairs_norms_and_angles_are_near_the_truth(grouped):
    data, _, sketch = grouped
    posterior, first, second = sketch.posterior(), np.arange(0, 100), np.arange(100, 200)
    truths = {
        "distances": truly(data, first, second),
        "inner_product": np.sum(data[first] * data[second], axis=1),
        "cosine": np.sum(data[first] * data[second], axis=1)
        / np.linalg.norm(data[first], axis=1)
        / np.linalg.norm(data[second], axis=1),
    }
    for name, true in truths.items():
        found, raw = getattr(posterior, name)(first, second), getattr(sketch, name)(first, second)
        assert found.kind == "credible"
        low, high = found.interval(0.95)
        assert np.mean((low <= true) & (true <= high)) >= 0.93, name
        assert np.mean((found.value - true) ** 2) < np.mean((raw.value - true) ** 2), name
    one = posterior.distance(0, 100)
    assert isinstance(one.value, float)
    assert one.value == posterior.distances([0], [100]).value[0]
    assert posterior.distance(3, 3).interval() == (0.0, 0.0)


def test_groups_labels_and_rows_come_out_of_the_noise(grouped):
    data, groups, sketch = grouped
    posterior = sketch.posterior()
    error, raw = (np.mean((rows - data) ** 2) for rows in (posterior.denoised(), sketch.array()))
    assert error < 0.2 * raw
    labels = posterior.cluster(GROUPS).labels
    together = [np.bincount(labels[groups == group]).max() for group in range(GROUPS)]
    assert sum(together) > 0.9 * len(groups)
    public = np.arange(0, 400, 2)
    found = posterior.classify(np.arange(400), public, groups[public], k=5)
    assert np.mean(found == groups) > 0.97
    assert posterior.classify(1, public, np.array(list("abcde"))[groups[public]], k=5) == "abcde"[groups[1]]
    guessed = posterior.regress(np.arange(1, 400, 2), public, data[public, 0], k=5)
    assert np.corrcoef(guessed, data[1::2, 0])[0, 1] > 0.85
    assert isinstance(posterior.regress(1, public, data[public, 0]), float)
    own = posterior.classify(public[:20], public, np.arange(200), k=1)
    assert (own != np.arange(20)).all()  # a record is not its own neighbour


def test_labelled_records_say_how_right_guesses_of_others_are(grouped):
    """Leave-one-out: what the labelled records say of guesses is what happens to others; of wrong labels it is not."""
    data, groups, sketch = grouped
    posterior, public, others = sketch.posterior(), np.arange(0, 400, 2), np.arange(1, 400, 2)
    right = np.mean(posterior.classify(others, public, groups[public], k=5) == groups[others])
    assert posterior.share_right(public, groups[public], k=5) == pytest.approx(right, abs=0.03)
    mixed = np.random.default_rng(1).permutation(groups[public])
    assert posterior.share_right(public, mixed, k=5) < 0.5
    errors = np.abs(posterior.regress(others, public, data[public, 0], k=5) - data[others, 0])
    assert np.mean(errors <= posterior.within(public, data[public, 0], k=5, level=0.9)) == pytest.approx(0.9, abs=0.07)
    assert posterior.within(public[:20], data[public[:20], 0], k=5, level=0.99) == math.inf


# ---- flags and categories -------------------------------------------------------------------------------------------


def visitors(count=800, seed=3):
    """Flags of visitors in a few groups, of whom many saw the same."""
    rng = np.random.default_rng(seed)
    chances = np.where(rng.random((4, 12)) < 0.2, 0.9, 0.03)
    return rng.random((count, 12)) < chances[rng.integers(4, size=count)]


def flagged(rows, guarantee=ATTRIBUTE, noise="laplace"):
    schema = Schema(tuple(Flag(f"c{j}") for j in range(rows.shape[1])))
    table = pd.DataFrame(rows, columns=list(schema.source_names))
    sketch = Sketch(noise=noise, seed=1)
    return release(table, schema=schema, mechanism=sketch, guarantee=guarantee, secret=Secret.for_testing(2))


@pytest.mark.parametrize(
    ("guarantee", "noise"),
    [(ATTRIBUTE, "laplace"), (Guarantee(epsilon=8.0, delta=1e-6, change=Change.l2(1.0)), "gaussian")],
    ids=["value", "l2 move"],
)
def test_flags_have_a_prior_of_levels_that_counts_ties(guarantee, noise):
    bits = visitors()
    data, sketch = bits.astype(float), flagged(bits, guarantee, noise)
    queries = np.arange(200)
    assert sketch.posterior().ranking == "learned"
    assert "levels" in repr(sketch.posterior())
    true = np.sum((data[queries][:, None] - data) ** 2, axis=2)
    true[queries, queries] = np.inf
    worst = np.sort(true, axis=1)[:, 9:10]
    found, plain = (sketch.nearest(queries, 10, prior=prior) for prior in ("learned", "none"))
    recall = [np.mean(np.take_along_axis(true, part.indices, 1) <= worst) for part in (found, plain)]
    assert recall[0] > 1.1 * recall[1]
    assert not (found.indices == queries[:, None]).any()
    low, high = found.distances.interval(0.95)
    inside = np.take_along_axis(true, found.indices, 1)
    assert np.mean((low <= inside) & (inside <= high)) > 0.93
    assert np.allclose(low, np.rint(low))
    assert np.allclose(high, np.rint(high))
    assert (found.distances.value >= 0).all()
    some = sketch.nearest(queries[:40], 10).expected.among_k.mean()
    assert some == pytest.approx(10 * np.mean((np.take_along_axis(true, found.indices, 1) <= worst)[:40]), abs=2.5)


def test_pairs_and_rows_of_flags_are_near_the_truth():
    bits = visitors()
    data, sketch = bits.astype(float), flagged(bits)
    posterior, first, second = sketch.posterior(), np.arange(100), np.arange(100, 200)
    assert np.mean((posterior.denoised() - data) ** 2) < 0.3 * np.mean((sketch.array() - data) ** 2)
    truths = {"distances": truly(data, first, second), "inner_product": np.sum(data[first] * data[second], axis=1)}
    for name, true in truths.items():
        found, raw = getattr(posterior, name)(first, second), getattr(sketch, name)(first, second)
        assert np.mean((found.value - true) ** 2) < np.mean((raw.value - true) ** 2), name
        low, high = found.interval(0.95)
        assert np.mean((low - 1e-9 <= true) & (true <= high + 1e-9)) > 0.9, name
    assert posterior.distance(3, 3).interval() == (0.0, 0.0)
    assert sketch.nearest(0, len(data) - 1).indices.shape == (len(data) - 1,)
    assert posterior.cluster(4).labels.shape == (len(data),)


def test_constant_flags_and_few_records_are_ranked_as_released():
    few = flagged(visitors(20))
    assert few.posterior().ranking == "released"
    assert few.nearest(0, 3).distances.kind == "confidence"


def test_the_released_numbers_rank_where_held_out_noise_says_so(grouped, monkeypatch):
    data = grouped[0]
    sketch = made(data)
    monkeypatch.setattr(HeldOut, "released_ranks_better", lambda _: True)
    assert sketch.posterior().ranking == "released"
    same(sketch.nearest(0, 5), sketch.nearest(0, 5, prior="none"))
    assert sketch.posterior().nearest(0, 5).distances.kind == "credible"  # still there for whoever asks


# ---- where no prior is learned --------------------------------------------------------------------------------------


def same(one, two):
    assert np.array_equal(one.indices, two.indices)
    assert np.array_equal(one.distances.uncut, two.distances.uncut)
    assert one.distances.kind == two.distances.kind == "confidence"
    assert np.array_equal(one.distances.interval(), two.distances.interval())


@pytest.mark.parametrize(
    ("data", "epsilon"),
    [
        (np.random.default_rng(0).random((2, 6)), 4.0),
        (np.random.default_rng(0).random((29, 6)), 4.0),
        (np.full((100, 6), 0.5), 1.0),
        (np.full((100, 1), 0.5), 1.0),
        (people(200)[0], 0.02),
    ],
    ids=["2 rows", "few rows", "constant rows", "1 column", "noise"],
)
def test_without_signal_the_answer_is_that_of_the_released_numbers(data, epsilon):
    sketch = made(data, guarantee=Guarantee(epsilon=epsilon, unit="attribute"))
    same(sketch.nearest(0, 1), sketch.nearest(0, 1, prior="none"))
    assert not sketch.posterior().learned
    assert "no prior" in repr(sketch.posterior())
    for ask in ("denoised", "means"):
        with pytest.raises(ParameterError, match="prior='none'"):
            getattr(sketch.posterior(), ask)()


def test_one_row_has_no_neighbours():
    sketch = made(np.full((1, 4), 0.5))
    assert not sketch.posterior().learned
    with pytest.raises(ParameterError, match="k must be"):
        sketch.nearest(0, 1)


def test_one_column_has_a_posterior_too():
    data = np.random.default_rng(1).random((500, 1)) < 0.5
    sketch = made(data.astype(float), guarantee=Guarantee(epsilon=6.0, unit="attribute"))
    assert sketch.posterior().learned
    found = sketch.nearest(np.arange(50), 5)
    true = truly(data.astype(float), np.arange(50)[:, None], found.indices)
    low, high = found.distances.interval()
    assert np.mean((low <= true) & (true <= high)) > 0.93


@pytest.mark.parametrize("mechanism", [Sketch(dimension=24, projection="sparse", seed=3), Components(dimension=6)])
def test_projections_and_components_have_a_posterior_too(mechanism):
    data, groups = people(600)
    sketch = made(data, mechanism, Guarantee(epsilon=8.0, unit="attribute"))
    assert sketch.posterior().learned
    found = sketch.nearest(np.arange(100), 10)
    plain = sketch.nearest(np.arange(100), 10, prior="none")
    right, before = (np.mean(groups[part.indices] == groups[:100, None]) for part in (found, plain))
    assert right > before - 0.02
    low, high = found.distances.interval()
    assert (low >= 0).all()
    assert (found.expected.among_k <= 10).all()
    if isinstance(mechanism, Sketch):
        true = truly(data, np.arange(100)[:, None], found.indices)
        assert np.mean((low <= true) & (true <= high)) > 0.85


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda r: r.nearest(0, 3, prior="flat"), "prior must be"),
        (lambda r: r.nearest(400, 3), "0 to 399"),
        (lambda r: r.nearest(0, 400), "k must be at most 399"),
        (lambda r: r.posterior().distances([0], [1, 2]), "same length"),
        (lambda r: r.posterior().classify(0, [1, 2, 3], [1, 2], 1), "labels must be"),
        (lambda r: r.posterior().classify(0, [1, 2, 3], [1, 2, 3], 3), "k must be below 3"),
        (lambda r: r.posterior().classify(0, [1, 400], [1, 2], 1), "labelled are numbered"),
    ],
)
def test_what_cannot_be_asked_is_refused(grouped, ask, says):
    with pytest.raises(ParameterError, match=says):
        ask(grouped[2])
