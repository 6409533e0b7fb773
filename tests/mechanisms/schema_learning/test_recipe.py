"""What one unit moves in all stages of a learned schema together, searched over neighbours; and the price of it."""

from collections import Counter

import numpy as np
import pytest

from sfumato.audit.recorder import Tape, secret
from sfumato.errors import ParameterError
from sfumato.mechanisms.schema_learning.recipe import SchemaLearning
from sfumato.mechanisms.schema_learning.wanted import Wanted
from sfumato.privacy.guarantee import Change, Guarantee
from tests.support.learning import WANTED, learned, learning, record, table

ROWS = 40
FAR = {
    "number": -3e7,
    "count": -(2**40),
    "word": "only me",
    "day": None,
    "mixed": "2020-02-03T10:00",
    "point": [1e9, -1e9, 0.0],
    "items": ["mine", "own", "alone", "four"],
}
NEAR = {
    "number": 1.5,
    "count": 7,
    "word": "common",
    "day": None,
    "mixed": "word",
    "point": [0.5, 0.5, 0.5],
    "items": ["i1", "i2", "i3"],
}


def text_move(first, second):
    """The squared move of counts of words, and of at most three distinct items a record."""
    words = [Counter(r["word"] for r in side if r["word"] is not None) for side in (first, second)]
    items = [Counter(i for r in side for i in list(dict.fromkeys(r["items"] or []))[:3]) for side in (first, second)]
    return tuple(sum((a[k] - b[k]) ** 2 for k in a | b) for a, b in (words, items))


def moved(calibrated, first, second):
    """Sum of squared moves over squared scales of all noise, with the outcomes of the first run imposed on the second.

    Texts are counted here by hand, because their noise is drawn for as many texts as there are.
    """
    tape = Tape()
    again = tape.replay()
    for records, taped in ((first, tape), (second, again)):
        learned(calibrated, table(records), secret(taped))
    total, scales = 0.0, {}
    for (place, number), draw in tape.draws.items():
        if place[1] == "texts":
            scales[place[2]] = draw.scale
            continue
        other = again.draws[place, number]
        assert draw.scale == other.scale
        assert np.array_equal(draw.came, other.came)
        total += float(((draw.fed - other.fed) ** 2).sum()) / draw.scale**2
    word, items = text_move(first, second)
    return total + sum(move / scales[name] ** 2 for name, move in (("word", word), ("items", items)) if name in scales)


def neighbours(rng, relation, group):
    """Two tables that differ in at most ``group`` records, some of them as far as they can."""
    base = [record(rng) for _ in range(ROWS)]
    old, new = ([record(rng) if rng.random() < 0.5 else dict(kind) for _ in range(group)] for kind in (NEAR, FAR))
    if relation == "replace":
        return base + old, base + new
    return base + old, base


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("group", [1, 2])
def test_no_neighbour_moves_further_than_the_budget(relation, group):
    columns = [Wanted("word", kind="category") if c.name == "word" else c for c in WANTED]
    calibrated = learning(columns, neighbours=relation, group=group)
    most = 1 / calibrated.level**2
    rng = np.random.default_rng(group)
    found = [moved(calibrated, *neighbours(rng, relation, group)) for _ in range(12)]
    assert max(found) <= most
    assert max(found) >= 0.3 * most


def test_the_budget_is_attained_where_every_cell_moves():
    """Columns of one partition each: a record that leaves its cell everywhere moves what was paid for."""
    columns = [Wanted("number", kind="real"), Wanted("count", kind="integer"), Wanted("word", kind="category")]
    calibrated = learning(columns)
    rng = np.random.default_rng(0)
    base = [record(rng) for _ in range(ROWS)]
    far = dict(FAR, number=None, count=None)  # kinds of cells change as well
    text = moved(calibrated, [*base, NEAR], [*base, FAR])
    assert 0.8 / calibrated.level**2 <= text <= 1 / calibrated.level**2
    assert moved(calibrated, [*base, NEAR], [*base, far]) <= 1 / calibrated.level**2


@pytest.mark.parametrize(
    "column", [Wanted("point", shape="vector", size=3), Wanted("items", shape="set", most=3)], ids=lambda c: c.shape
)
@pytest.mark.parametrize(("relation", "group"), [("replace", 1), ("replace", 3), ("add-remove", 2)])
def test_lists_move_no_further_than_the_budget_and_about_as_far(column, relation, group):
    """A vector leaves two cells in each stage, a set as many texts as it may have; kinds of cells stay."""
    calibrated = learning([column], neighbours=relation, group=group)
    rng = np.random.default_rng(1)
    base = [record(rng) for _ in range(ROWS)]
    second = base + [FAR] * group if relation == "replace" else base
    found = moved(calibrated, base + [NEAR] * group, second)
    assert 0.5 / calibrated.level**2 <= found <= 1 / calibrated.level**2


def test_a_table_and_its_neighbour_draw_the_same_noise_but_for_texts():
    rng = np.random.default_rng(3)
    calibrated = learning()
    tape = Tape()
    again = tape.replay()
    base = [record(rng) for _ in range(ROWS)]
    for records, taped in (([*base, NEAR], tape), ([*base, FAR], again)):
        learned(calibrated, table(records), secret(taped))
    assert not [fault for fault in tape.faults if "raw" in fault or "no known" in fault]
    assert set(tape.draws) == set(again.draws)


def test_the_loss_meets_the_guarantee_and_nothing_is_left_over():
    calibrated = learning(epsilon=0.2, delta=1e-7)
    assert 0.9999e-7 <= calibrated.loss.delta(0.2) <= 1e-7
    assert calibrated.loss.failure == pytest.approx(4e-9)


def test_without_texts_there_is_no_failure():
    numbers = [Wanted("a", kind="real"), Wanted("b", shape="vector", size=2)]
    assert learning(numbers).loss.failure == 0


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"delta": 0.0}, "delta > 0"), ({"unit": "attribute"}, "unit='record'"), ({"change": Change.l2(1.0)}, "unit=")],
)
def test_what_cannot_be_promised_is_refused(settings, words):
    with pytest.raises(ParameterError, match=words):
        SchemaLearning(WANTED, Guarantee(**({"epsilon": 1.0, "delta": 1e-6} | settings)))


def test_thresholds_of_the_forecast_are_never_exceeded():
    """Whatever the columns turn out to be, a threshold is at most what was said before."""
    calibrated = learning(epsilon=1.0, delta=1e-6)
    forecast = calibrated.mechanism.forecast(calibrated.level)
    rng = np.random.default_rng(5)
    tape = Tape()
    learned(calibrated, table([record(rng) for _ in range(3000)]), secret(tape))
    for (place, _), draw in tape.draws.items():
        if place[1] == "texts":
            assert draw.scale <= forecast.measured[place[2]]
            assert forecast.threshold[place[2]].deviation >= draw.scale


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_nothing_but_noisy_counts_is_published(relation):
    """With the outcomes of all noise imposed, a neighbour gives the same schema to the last bit.

    Replaced: the number of rows is public. Texts are the same on both sides, for new ones get noise of their own.
    """
    rng = np.random.default_rng(8)
    calibrated = learning(neighbours=relation, epsilon=3.0)
    for _ in range(6):
        base = [record(rng) for _ in range(60)]
        words, items = [r["word"] for r in base], [r["items"] for r in base]
        old, new = (dict(record(rng), word=rng.choice(words), items=items[rng.integers(60)]) for _ in range(2))
        mixed = {r["mixed"] for r in base}
        first = [*base, dict(old, mixed=base[0]["mixed"])]
        second = base if relation == "add-remove" else [*base, dict(new, mixed=base[1]["mixed"])]
        assert {r["mixed"] for r in second} == mixed
        tape = Tape()
        again = tape.replay()
        drafts = [learned(calibrated, table(side), secret(taped)) for side, taped in ((first, tape), (second, again))]
        assert not again.faults
        assert not again.missing()
        assert drafts[0].columns == drafts[1].columns
        assert drafts[0].learned.to_dict() == drafts[1].learned.to_dict()
