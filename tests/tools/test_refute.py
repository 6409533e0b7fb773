"""The search for neighbours that lose more than is claimed: it finds none, and it finds every broken twin."""

import contextlib
import importlib
import inspect
import itertools
import math
import pkgutil
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import sfumato.answering
import sfumato.mechanisms
from refute import forms, losses, meanings, page, pairs, schemas
from refute.__main__ import main as command
from refute.forms import FORMS, UnstorableError, stored
from refute.lines import lines
from refute.losses import Comparison
from refute.pairs import Neighbourhood
from refute.schemas import Terms
from refute.search import Measured, Tally, for_contests, luck_of, try_contest
from refute.twins import TWINS
from sfumato.answering.sparse_vector import Scales
from sfumato.audit.recorder import Draw
from sfumato.files.open_table import open_table
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.privacy.losses import ChiSquare, Gaussian, Laplace, Responses
from sfumato.tables.columns import Category, Flag, Integer, Real, Vector
from sfumato.tables.schema import Schema

SEED = 4
LINES = {line.name: line for line in lines()}


def recipes():
    """Everything in the mechanisms' modules that can be prepared."""
    for package in (sfumato.mechanisms, sfumato.answering):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for name, value in vars(importlib.import_module(module.name)).items():
                protocol = getattr(value, "_is_protocol", False)
                if inspect.isclass(value) and inspect.isfunction(getattr(value, "prepare", None)) and not protocol:
                    yield name


def test_every_mechanism_has_a_line():
    assert set(recipes()) <= {name.split(",")[0] for name in LINES}


@pytest.mark.parametrize("name", LINES)
def test_no_neighbour_loses_more_than_is_claimed(name):
    tally = for_contests(LINES[name], 2, SEED)
    assert tally.pairs
    assert tally.refuted == []


def found(twin, name, contests):
    tally = Tally(name)
    with twin.made():
        for number in range(contests):
            try_contest(LINES[name], SEED, number, tally)
            if tally.refuted:
                return tally.refuted[0]
    return ""


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: f"{twin.mistake}, {twin.lines[0]}")
def test_a_broken_twin_is_found(twin):
    assert "of the claim" in found(twin, twin.lines[0], 20)


EVERY_TWIN = [(twin, name) for twin in TWINS for name in twin.lines[1:]]


@pytest.mark.slow
@pytest.mark.parametrize(("twin", "name"), EVERY_TWIN, ids=lambda one: getattr(one, "mistake", one))
def test_a_broken_twin_is_found_in_every_mechanism_that_makes_its_mistake(twin, name):
    assert "of the claim" in found(twin, name, 80)


def test_no_cell_decides_how_whole_numbers_beyond_2_to_the_53_are_read_elsewhere():
    tally = for_contests(LINES["reading a table"], 30, SEED)
    assert tally.refuted == []
    assert tally.whole == 1  # records differ, and each from itself alone


@pytest.mark.parametrize("broken", [False, True])
def test_the_command_fails_if_something_is_refuted(broken, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["refute", "--seconds", "0.2", "--only", "EdgeNoise, laplace"])
    with TWINS[0].made() if broken else contextlib.nullcontext():
        assert command() == int(broken)
    printed = capsys.readouterr().out
    assert ("REFUTED EdgeNoise, laplace, contest" in printed) == broken
    assert "| EdgeNoise, laplace |" in printed


def test_a_refutation_is_not_forgiven_where_integers_decide():
    above = Fraction(1) + Fraction(1, 10**30)
    assert Measured(above).refuted
    assert not Measured(Fraction(1)).refuted
    assert not Measured(1 + 1e-12, exact=False).refuted
    assert Measured(1 + 1e-8, exact=False).refuted
    assert Measured(0.5, fault="a draw is no longer there").refuted


# ---- neighbours -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(40))
def test_pairs_are_neighbours(number):
    luck = luck_of(SEED, "pairs", number)
    of = schemas.schema(luck, Terms())
    promise = schemas.promise(luck, of, "laplace", comes=True)
    around = Neighbourhood(schema=of, guarantee=promise, least=1)
    pair = around.draw(luck)
    for _ in range(20):
        one, two = pair.tables
        rows = list(zip(one, two, strict=False))
        changed = [(a, b) for a, b in rows if repr(a) != repr(b)]
        if promise.neighbours == "add-remove":
            assert abs(len(one) - len(two)) in range(1, promise.group + 1)
            longer, shorter = sorted((one, two), key=len, reverse=True)
            left = iter(map(repr, longer))
            assert all(repr(row) in left for row in shorter)
        else:
            assert len(one) == len(two)
            assert len(changed) <= promise.group
            assert all(allowed(of, promise, a, b) for a, b in changed)
        pair = around.changed(luck, pair)


def allowed(of, promise, one, two):
    change = promise.allowed_change
    if change.kind == "attribute":
        return sum(map(changes, of.data_columns, one, two)) == 1
    return change.kind == "box" or pairs.within(of, change, one, two)


def changes(column, one, two):
    """How many values differ: of a vector that is not whole, numbers."""
    if isinstance(column, Vector) and not column.whole and repr(one) != repr(two):
        return sum(repr(a) != repr(b) for a, b in zip(one, two, strict=True))
    return int(repr(one) != repr(two))


@pytest.mark.parametrize("number", range(60))
def test_cells_mean_what_the_package_encodes(number):
    """Of every kind; and a unit counts what the schema says, a little more at most where it is scaled by bounds."""
    luck = luck_of(SEED, "meanings", number)
    of = schemas.schema(luck, Terms(clips=(None,)))
    rows = [schemas.row(luck, of) for _ in range(20)]
    encoding = of.encoding
    read = of.encode(stored("Arrow, typed", of, rows, None))
    read = np.fmin(np.fmax(read, encoding.low[:, None]), encoding.high[:, None])
    meant = [
        [float(x) for c, cell in zip(of.data_columns, row, strict=True) for x in meanings.meaning(c, _typed(c, cell))]
        for row in rows
    ]
    assert read.T.tolist() == meant
    units = [float(unit) for column in of.data_columns for unit in meanings.units(of, column)]
    assert (np.array(units) >= encoding.weights).all()
    np.testing.assert_allclose(units, encoding.weights, rtol=1e-11)


def _typed(column, cell):
    """A cell as the typed form holds it: a text among numbers is none."""
    return None if isinstance(cell, str) and isinstance(column, Real | Integer) else forms._plain(column, cell)


def test_balls_are_measured_exactly():
    of = Schema([Real("x", 0, 10, weight=0.1), Flag("f"), Category("c", ["a", "b"], weight=3.0)], scale="raw")
    apart = (1.0, True, "a"), (2.0, False, "b")
    assert pairs.distance(of, "l1", *apart) == Fraction(0.1) + 1 + 6
    assert pairs.distance(of, "l2", *apart) == Fraction(0.1) ** 2 + 1 + 18
    assert not pairs.within(of, Change.l1(0.1), (0.0, True, "a"), (math.nextafter(1.0, 2.0), True, "a"))
    assert pairs.within(of, Change.l1(0.1), (0.0, True, "a"), (1.0, True, "a"))
    assert pairs.distance(of, "l1", (None, None, "?"), ("text", 2.0, None)) == 0
    assert pairs.distance(of, "l1", (99.0, True, "a"), (math.inf, True, "a")) == 0


@pytest.mark.parametrize("form", FORMS)
def test_forms_hold_what_cells_mean(form, tmp_path):
    """What the package reads of a form is what the search says that a cell means."""
    rows = [(2.5, True, 3), (None, None, None), (7.0, False, 5), (math.nan, True, 3), (-4.0, False, 9)]
    columns = [Real("x", 0, 5, missing=1.0), Flag("f"), Category("c", [3, 5], missing=5)]
    if form in ("NumPy", "SciPy"):
        columns, rows = columns[:1], [row[:1] for row in rows]
    of = Schema(columns)
    try:
        table = open_table(stored(form, of, rows, tmp_path), of)
    except UnstorableError:
        pytest.skip("this form's own writer refuses such a table")
    read = np.concatenate([of.clip(of.encode(b)) for b in table.blocks([c.name for c in columns], 2)], axis=1)
    meant = [[x for c, cell in zip(columns, row, strict=True) for x in meanings.meaning(c, cell)] for row in rows]
    assert read.T.tolist() == meant


# ---- losses ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "delta"), [(0.05, 1e-9), (1.0, 1e-6), (12.0, 1e-3)])
def test_the_largest_moves_are_those_that_the_package_calibrates_to(epsilon, delta):
    """Two computations that share nothing: a hair below is private, a hair above is not."""
    mu, move = losses.largest_mu(epsilon, delta), losses.largest_laplace(epsilon, delta)
    for largest, law in ((mu, Gaussian), (move, Laplace)):
        assert law(largest * (1 - 1e-12), 1.0).delta(epsilon) <= delta < law(largest * (1 + 1e-12), 1.0).delta(epsilon)
    stretch = losses.largest_stretch(epsilon, delta, 5)
    below, above = (ChiSquare(rows=5, ratio=stretch * factor) for factor in (1 - 1e-9, 1 + 1e-9))
    assert below.delta(epsilon) <= delta < above.delta(epsilon)


def drawn(law, fed, scale=1.0, options=0, stage="stage"):
    array = np.array(fed, np.int64)
    return Draw((stage,), law, scale, options, array, array)


def test_answers_lose_what_their_composition_loses():
    changed = losses.of([(drawn("response", [0, 1, 2], 0.7, 3), drawn("response", [1, 1, 0], 0.7, 3))])
    assert losses.share(changed, Guarantee(epsilon=2.0)) == Fraction(0.7) * 2 / 2
    stated = Responses(0.7, (3, 3)).delta(1.0)
    assert losses._answers_delta(changed, 1.0) == pytest.approx(stated, rel=1e-12)
    assert losses.share(changed, Guarantee(epsilon=1.0, delta=stated)) == pytest.approx(1.0, abs=1e-12)
    assert losses.share(changed, Guarantee(epsilon=1.0, delta=stated * 0.999)) > 1


def test_laplace_losses_are_fractions():
    loss = losses.of([(drawn("laplace", [3, -2], 0.1), drawn("laplace", [5, 7], 0.1))])
    assert loss.pure == 11 / Fraction(0.1)
    assert losses.share(loss, Guarantee(epsilon=1.0)) == 11 / Fraction(0.1)
    assert losses.share(loss, Guarantee(epsilon=1.0, delta=0.01), stages=2) is None


def test_gaussian_losses_are_lengths():
    loss = losses.of([(drawn("gaussian", [3, 0], 2.0), drawn("gaussian", [0, 4], 2.0))])
    assert loss.squared == Fraction(25, 4)
    mu = losses.largest_mu(1.0, 1e-6)
    assert losses.share(loss, Guarantee(epsilon=1.0, delta=1e-6)) == pytest.approx(2.5 / mu)
    assert losses.share(loss, Guarantee(epsilon=1.0)) == math.inf


def permuted(scores, rate):
    """Permute-and-flip by its definition: in random order, the first whose coin shows heads."""
    chances = np.exp(rate * (np.array(scores) - max(scores)))
    total = np.zeros(len(scores))
    for order in itertools.permutations(range(len(scores))):
        left = 1.0
        for i in order:
            total[i] += left * chances[i]
            left *= 1 - chances[i]
    return total / math.factorial(len(scores))


def test_selections_lose_what_their_laws_say():
    one, two = [4, 2, 3], [3, 3, 3]
    first, second = (np.exp(0.5 * np.array(scores) / 2) for scores in (one, two))
    chosen = np.abs(np.log(first / first.sum()) - np.log(second / second.sum())).max()
    found = losses.of([(drawn("choice", one, 0.5, 1), drawn("choice", two, 0.5, 1))])
    assert float(found.pure) == pytest.approx(chosen)
    flipped = np.abs(np.log(permuted(one, 0.5) / permuted(two, 0.5))).max()
    assert float(losses.of([(drawn("flips", one, 0.5), drawn("flips", two, 0.5))]).pure) == pytest.approx(flipped)
    noisy = [drawn("laplace", scores, 4.0, stage="selected partition") for scores in (one, two)]
    assert losses.of([tuple(noisy)]).pure == Fraction(2, 4)


def test_a_transcript_has_the_probability_of_its_answers():
    """Against the joint law of threshold and question, summed over both."""
    r = np.arange(-400, 401)
    law = {b: np.diff(np.where(x < 0, np.exp(np.minimum(x, 0) / b) / 2, 1 - np.exp(-np.maximum(x, 0) / b) / 2))
           for b in (3.0, 5.0) for x in [np.append(r - 0.5, 400.5)]}  # fmt: skip
    asked = [Comparison(7, 9, above=True), Comparison(7, 6, above=False)]
    above = [(law[5.0][None, :] * (c.value + r[None, :] >= c.threshold + r[:, None])).sum(axis=1) for c in asked]
    joint = (law[3.0] * above[0] * (1 - above[1])).sum()
    assert losses.transcript(asked, 3.0, 5.0) == pytest.approx(math.log(joint), abs=1e-12)


def test_a_threshold_of_many_steps_is_as_good_as_continuous():
    """The same transcript in steps a thousand times finer."""
    asked = [Comparison(70, 90, above=True), Comparison(-30, 60, above=False), Comparison(10, 60, above=False)]
    fine = [replace(c, value=c.value * 1000, threshold=c.threshold * 1000) for c in asked]
    exact, many = losses.transcript(asked, 3000.0, 5000.0), losses.transcript(fine, 3e6, 5e6)
    assert exact == pytest.approx(many, abs=1e-3)
    scales, _ = Scales.of(1.0, 2, 1, monotone=False)
    moved = [replace(c, value=c.value + sign) for c, sign in zip(asked, (1, -1, -1), strict=True)]
    lost = [losses.transcript(some, scales.threshold, scales.query) for some in (asked, moved)]
    assert 0 < abs(lost[0] - lost[1]) <= 1


# ---- the page -------------------------------------------------------------------------------------------------------


def test_shares_are_not_rounded_across_one():
    assert page._share(1 - 1e-12) == "0.999999"
    assert page._share(1 + 1e-8) == "1.000001"
    assert page._share(1.0) == page._share(1 + 1e-12) == "1"
    assert page._share(None) == ""


def test_the_page_has_a_row_for_every_line():
    text = page.PAGE.read_text(encoding="utf-8")
    assert all(f"\n| {name} | " in text for name in LINES)
    assert text.count(", 0 refuted.") == 1
