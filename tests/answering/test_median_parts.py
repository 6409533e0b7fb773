"""Parts of the median mechanism by themselves: what can be listed, the threshold, the lower median, the margin."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from sfumato.answering import median
from sfumato.answering.median import Median, OpenMedian
from sfumato.answering.sparse_vector import Scales
from sfumato.errors import ParameterError


@pytest.mark.parametrize(
    ("cells", "rows", "listable"),
    [(8, 15, True), (8, 16, True), (8, 17, False), (99, 3, True), (100, 3, False), (2, 262_143, True), (1, 5, True)],
)
def test_as_many_databases_are_listed_as_memory_holds(cells, rows, listable):
    """At most 2^18 candidates, and 2^24 numbers in all of them together."""
    found = median.candidates_of(cells, rows)
    assert listable == (found <= 2**18 and found * cells <= 2**24)
    assert median._listable(cells, rows) == listable


def test_a_refusal_says_how_many_there_are():
    with pytest.raises(ParameterError, match=r"346,104 databases of 17 rows over 8 cells.*size can be at most 16"):
        median._check_listable(8, 17)
    with pytest.raises(ParameterError, match=r"more than 10\^\d+ databases"):
        median._check_listable(64, 64)


@pytest.mark.parametrize("accuracy", [2.0**-11, 1.5, 0.0])
def test_accuracies_out_of_range_are_refused(accuracy):
    with pytest.raises(ParameterError, match="accuracy"):
        Median(accuracy=accuracy)


def test_candidates_stay_within_an_eighth_of_the_accuracy_or_one_row():
    assert Median(accuracy=1.0, size=16).kept == 0.125
    assert Median(accuracy=0.25, size=16).kept == 1 / 16
    assert Median(accuracy=0.25, size=16, width=0.3).kept == 0.3


@pytest.mark.parametrize("steps_up", [0, 1, 2, 62, 63])
def test_the_threshold_is_a_geometric_number_of_steps_up(steps_up):
    drawn = SimpleNamespace(geometric=lambda: steps_up)
    noises = SimpleNamespace(words=lambda *_: drawn)
    live = SimpleNamespace(_noises=noises, _scales=SimpleNamespace(query=2.0**20))
    gamma = 4 * 2.0**20 / 2**30
    steps = math.floor(0.15 / gamma)
    assert OpenMedian._threshold(live) == pytest.approx(0.75 + gamma * (steps_up % (steps + 1)), rel=1e-12)


@pytest.mark.parametrize(
    ("votes", "middle"), [([1, 1, 1], 1), ([2, 1], 0), ([1, 2], 1), ([1, 1], 0), ([0, 0, 3, 4], 3)]
)
def test_the_lower_median_of_candidates_is_answered(votes, middle):
    size = len(votes) - 1
    live = SimpleNamespace(prepared=SimpleNamespace(recipe=SimpleNamespace(size=size)), rows=40)
    assert OpenMedian._median(live, np.array(votes)) == middle / size * 40


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99])
def test_the_margin_follows_from_the_agreement_that_was_found(confidence):
    scales, edge, rows, accuracy = Scales(2.0**20, 2.0**21), math.floor(0.8 * 2**30), 1000, 0.25
    live = SimpleNamespace(
        _scales=scales, prepared=SimpleNamespace(recipe=SimpleNamespace(accuracy=accuracy)), rows=rows
    )
    agreed = (edge - scales.exceeded(0.2 * (1 - confidence))) / 2**30
    expected = -accuracy * rows * math.log(2 * agreed - 1)
    assert OpenMedian._margin(live, confidence, edge) == pytest.approx(expected, rel=1e-12)
    assert OpenMedian._margin(live, confidence, 2**28) == math.inf


def test_the_agreement_is_the_mean_over_candidates():
    votes, rows, accuracy = np.array([3, 0, 5]), 10, 0.25
    weights = [math.exp(-abs(4 / 10 - j / 2) / accuracy) for j in range(3)]
    expected = 2**30 * (3 * weights[0] + 5 * weights[2]) / 8
    assert median.agreement(4, votes, rows, accuracy) == pytest.approx(expected, abs=2)


@pytest.mark.parametrize(("beyond", "hard"), [(-1, True), (0, False), (1, False)])
def test_a_question_is_hard_when_the_agreement_lies_below_the_threshold(monkeypatch, beyond, hard):
    """Without noise: to one step, r >= t is easy and r < t is hard."""
    edge = 13 * 2**26
    monkeypatch.setattr(median, "agreement", lambda *_: edge + beyond)
    live = SimpleNamespace(
        prepared=SimpleNamespace(recipe=SimpleNamespace(size=2, accuracy=0.25)),
        rows=10,
        remaining=1,
        _left=np.array([[2, 0], [1, 1]]),
        _counts=np.array([7, 3]),
        _threshold=lambda _question: edge / 2**30,
        _comparisons=SimpleNamespace(above=lambda values, threshold, _question: values >= threshold),
        _noises=SimpleNamespace(added=lambda _stage, exact, _scale, _question: exact),
        _parts=SimpleNamespace(measuring=1.0),
        _check_left=lambda: None,
        _median=lambda _votes: 5.0,
        _keep=lambda _cells, _value: None,
    )
    found = OpenMedian._answered(live, np.array([True, False]))
    assert (found.positive, found.value) == ((True, 7.0) if hard else (False, 5.0))
