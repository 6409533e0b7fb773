"""An audit of learned schemas: the mechanism passes, and twins without a threshold, with half the noise, or with bounds
from the data are caught. Scores are of what a run publishes, or of all its noisy counts, which tell more.
"""

import numpy as np
import pyarrow as pa
import pytest

from sfumato.audit.bound import lower_bound
from sfumato.mechanisms.schema_learning import stages
from sfumato.mechanisms.schema_learning.bounds import Bounds
from sfumato.mechanisms.schema_learning.budget import Threshold
from sfumato.mechanisms.schema_learning.wanted import Wanted
from sfumato.randomness.secret import Secret
from tests.support.learning import learned, learning

EPSILON, DELTA = 1.0, 0.05
NUMBERS, TEXTS = [Wanted("x", kind="real")], [Wanted("x", kind="real"), Wanted("w", kind="category")]


def tables(columns):
    """Two neighbours: the last record has a number and a text of its own, or is like the others."""
    pair = []
    for far in (True, False):
        numbers, words = np.arange(24.0) + 1, ["a"] * 24
        numbers[-1], words[-1] = (1e6, "mine") if far else (2.0, "a")
        pair.append(pa.table({"x": numbers, "w": words}).select([c.name for c in columns]))
    return pair


def noisy_counts(columns, table, number, share=1.0):
    """All noisy counts of the first two stages with their scales, of a run that draws this share of its noise."""
    seen = {}

    class Noise(stages._Noise):
        def on(self, counts, scale, *where):
            noisy = super().on(counts, scale * share, *where)
            seen[where] = np.ravel(counts), noisy.ravel(), scale
            return noisy

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "_Noise", Noise)
        learned(learning(columns, epsilon=EPSILON, delta=DELTA), table, Secret.for_testing(number))
    return {where: entry for where, entry in seen.items() if where[0] in ("kinds", "octaves")}


def scores(columns, count, share=1.0):
    """The log likelihood ratio of the noisy counts, of runs on each of two neighbours."""
    pair = tables(columns)
    exact = [noisy_counts(columns, table, 0) for table in pair]
    moves = {place: (exact[0][place][0] - exact[1][place][0]) / exact[0][place][2] ** 2 for place in exact[0]}

    def score(table, number):
        seen = noisy_counts(columns, table, number, share)
        return sum(float(seen[place][1] @ move) for place, move in moves.items())

    return [np.array([score(table, 2 * i + side) for i in range(count)]) for side, table in enumerate(pair)]


def published(columns, count, score):
    """A score of what is published, of runs on each of two neighbours."""
    calibrated = learning(columns, epsilon=EPSILON, delta=DELTA)
    return [
        np.array([score(learned(calibrated, table, Secret.for_testing(2 * i + side)), table) for i in range(count)])
        for side, table in enumerate(tables(columns))
    ]


def shows(draft, _):
    return float(any("mine" in (getattr(column, "values", None) or ()) for column in draft.columns))


def highest(draft, _):
    return float(next(column.high for column in draft.columns if column.name == "x"))


def test_the_mechanism_passes_and_half_its_noise_does_not():
    claimed = lower_bound(*scores(NUMBERS, 3000), delta=DELTA)
    halved = lower_bound(*scores(NUMBERS, 3000, share=0.5), delta=DELTA)
    assert not claimed.refutes(EPSILON)
    assert halved.refutes(EPSILON)


def test_a_value_of_one_person_is_published_only_without_a_threshold(monkeypatch):
    assert not lower_bound(*published(TEXTS, 400, shows), delta=DELTA).refutes(EPSILON)

    def none(_columns, _guesses, scales, *_):
        return {"w": Threshold(0, scales["w"])}

    monkeypatch.setattr(stages.wanted, "thresholds", none)
    assert lower_bound(*published(TEXTS, 400, shows), delta=DELTA).refutes(EPSILON)


def test_bounds_from_the_data_are_caught(monkeypatch):
    assert not lower_bound(*published(NUMBERS, 400, highest), delta=DELTA).refutes(EPSILON)
    exact = {}

    def seen(_guess, tally):
        exact["high"] = float(np.flatnonzero(tally.numbers)[-1])
        return [tally.numbers]

    monkeypatch.setattr(stages, "_histograms", seen)
    monkeypatch.setattr(stages, "first_bounds", lambda *_, **__: Bounds(0.0, 1.0))
    monkeypatch.setattr(stages, "refined", lambda *_: Bounds(0.0, exact["high"]))
    monkeypatch.setattr(stages, "repaired", lambda bounds, *_: (bounds, 0.0))
    assert lower_bound(*published(NUMBERS, 400, highest), delta=DELTA).refutes(EPSILON)
