"""How far one unit moves a second moment, to 40 digits: never less than the proofs say, and more by a hair."""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp

from sfumato.mechanisms import moment_bounds
from sfumato.mechanisms.base import effective_change
from sfumato.mechanisms.distances import NoisyDistances
from sfumato.mechanisms.second_moment import CentredGrid, SecondMoment
from sfumato.mechanisms.sketch import Sketch
from sfumato.numerics.lattice import Total
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.randomness.secret import Words
from sfumato.tables.columns import Real
from sfumato.tables.schema import Schema
from support.groups import chosen
from support.twins import secret_of

LONG = [(7,), (3, 5), (2048, 1000, 3), (2047, 2047, 1), (*[2048] * 40,), (2, 2, 3), (5, 5, 1)]
ANCHORS = [0, 1, 5, 900]


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(40):
        yield


def covered(found, truth):
    return truth <= mp.mpf(found) <= truth * (1 + mp.mpf(2) ** -42)


@pytest.mark.parametrize(
    ("half", "anchor"),
    [
        *((half, anchor) for half in LONG for anchor in ANCHORS if len(half) < 9 or anchor == 0),
        (LONG[4], 5),
    ],
    ids=lambda h: str(h[:4]) if isinstance(h, tuple) else str(h),
)
def test_the_move_in_a_box_is_rounded_up(half, anchor):
    """Order 1: the sum that the proof maximises, at its maximum. Order 2: the entries' bounds, or the length's."""
    h, c, array = [mp.mpf(x) for x in half], mp.mpf(anchor), np.array(half)
    gap = [x + c / (len(h) + 1) for x in h] if anchor else h
    first = sum(b * (sum(h) + x + c) for b, x in zip(gap, h, strict=True))
    first -= (sum(gap) ** 2 + sum(b**2 for b in gap)) / 2
    assert covered(moment_bounds.box(array, 1, anchor), first)
    entries = sum(x**4 for x in h) + 2 * sum((2 * x * y) ** 2 for x, y in itertools.combinations(h, 2))
    entries += 2 * sum((2 * x * c) ** 2 for x in h)
    second = min(mp.sqrt(entries), mp.sqrt(2) * (sum(x**2 for x in h) + c**2))
    assert covered(moment_bounds.box(array, 2, anchor), second)


@pytest.mark.parametrize("half", [(3,), (3, 5), (2, 2, 3), (5, 5, 1, 1)], ids=str)
def test_what_an_anchor_adds_is_rounded_up(half):
    """Thirds and fifths of whole numbers, which doubles round down as often as up."""
    p, total, squares = len(half), sum(half), sum(h * h for h in half)
    for anchor in range(1, 200):
        exact = Fraction(total**2 + squares, 2) + anchor * total + Fraction(anchor**2 * p, 2 * (p + 1))
        found = Fraction(moment_bounds.box(np.array(half), 1, anchor))
        assert exact <= found <= exact * (1 + Fraction(1, 2**42))


@pytest.mark.parametrize("lengths", [(3.0, 2.0), (2048.5, 700.25), (1e4, 1e3)])
@pytest.mark.parametrize("anchor", [1, 5, 900])
def test_the_move_of_a_row_that_comes_is_rounded_up(lengths, anchor):
    """A row of these norms, by its squares: the triangle's l1 norm, or its Frobenius norm; and the anchor's part."""
    one, two, c = mp.mpf(lengths[0]), mp.mpf(lengths[1]), mp.mpf(anchor)
    assert covered(moment_bounds.arrival(lengths, 1, anchor, centred=False), (one**2 + two**2) / 2 + c**2)
    assert covered(moment_bounds.arrival(lengths, 2, anchor, centred=False), mp.sqrt(two**4 + c**4))
    whole = ((one + c) ** 2 + two**2 + c**2) / 2
    assert covered(moment_bounds.arrival(lengths, 1, anchor, centred=True), whole)
    assert covered(moment_bounds.arrival(lengths, 2, anchor, centred=True), two**2 + c**2)


@pytest.mark.parametrize("half", LONG, ids=lambda h: str(h[:4]))
@pytest.mark.parametrize("anchor", ANCHORS)
def test_the_move_of_one_value_is_the_largest_and_rounded_up(half, anchor):
    first, second = 0, mp.mpf(0)
    for h in half:
        others, squares = sum(half) - h + anchor, sum(x**2 for x in half) - h**2 + anchor**2
        first = max(first, *(b * (2 * h - b + others) for b in range(2 * h + 1)))
        inside = [(3 * h + s * mp.sqrt(h**2 - 4 * squares)) / 2 for s in (-1, 1)] if h**2 >= 4 * squares else []
        second = max(second, *(b**2 * ((2 * h - b) ** 2 + 2 * squares) for b in (mp.mpf(2 * h), *inside) if b <= 2 * h))
    assert moment_bounds.attribute(np.array(half), 1, anchor=anchor) == first
    assert covered(moment_bounds.attribute(np.array(half), 2, anchor=anchor), mp.sqrt(second))


@pytest.mark.parametrize("half", [(2, 2, 3), (5, 5, 1), (4, 4, 4, 4), (9, 9, 30), (3, 3)])
@pytest.mark.parametrize("anchor", ANCHORS)
def test_the_move_of_a_category_is_the_largest_and_rounded_up(half, anchor):
    h, others = half[0], sum(half[2:]) + anchor
    steps = range(2 * h + 1)
    first = max(others * (b + c) + 3 * h * (b + c) - (b * b + c * c + b * c) for b in steps for c in steps)
    assert first <= moment_bounds.two_columns(np.array(half), 0, 1, anchor) <= first + 1
    squares = sum(x**2 for x in half[2:]) + anchor**2
    second = 4 * h * mp.sqrt(squares if squares >= h**2 else squares + h**2)
    assert covered(moment_bounds.two_columns(np.array(half), 0, 2, anchor), second)
    assert moment_bounds.attribute(np.array(half), 1, chosen((0, 2)), anchor) >= first
    alone = moment_bounds.attribute(np.array(half), 1, (), anchor)
    assert moment_bounds.attribute(np.array(half), 1, chosen((0, 1)), anchor) == alone


@pytest.mark.parametrize("moved", [0.1, 0.6, 0.7, 1.0, 1.3, 1.5, 2.0])
def test_the_move_within_balls_is_rounded_up(moved):
    longest, r = mp.mpf(700.3), min(mp.mpf(moved * 700.3), mp.sqrt(2) * mp.mpf(700.3))
    ends = r * (2 * longest - r), r * mp.sqrt(2 * longest**2 - r**2 / 2)
    assert covered(moment_bounds.length_ball(700.3, moved * 700.3), max(ends))


@pytest.mark.parametrize("half", [(3, 5), (2048, 1000, 3), (*[2048] * 9,)], ids=str)
@pytest.mark.parametrize("largest", [2.5, 900.0, 1e5])
@pytest.mark.parametrize("moved", [0.3, 40.0, 3000.0, 1e6])
def test_the_move_within_balls_of_l1_is_rounded_up(half, largest, moved):
    """The least of every bound on the whole matrix and of every bound on its diagonal."""
    width, top, r = sum(half), mp.mpf(largest), mp.mpf(moved)
    full = min(r * (2 * width - r) if r <= width else mp.mpf(width) ** 2, 2 * top * r, 2 * top**2)
    diagonal = min(2 * max(half) * r, mp.mpf(sum(x**2 for x in half)), 2 * top**2)
    assert covered(moment_bounds.sum_ball(np.array(half), largest, moved), (full + diagonal) / 2)


# ---- the grid's own bounds -------------------------------------------------------------------------------------------

CLIPPED = Schema(Schema.reals(5, low=-1, high=1).columns, norm="l2", norm_bound=0.9, scale="raw")
MANHATTAN = Schema(Schema.reals(5, low=-1, high=1).columns, norm="l1", norm_bound=0.9, scale="raw")
OPEN = Schema([Real("a", 0, 3), Real("b", -1, 1), Real("c", 5, 5.5)], scale="raw")


def columns_of(grid):
    return int(np.count_nonzero(grid.half))


@pytest.mark.parametrize("schema", [CLIPPED, MANHATTAN, OPEN], ids=["l2", "l1", "box"])
@pytest.mark.parametrize("order", [1, 2])
def test_no_rounded_row_is_longer_than_stated(schema, order):
    """The box's corner or, where rows are clipped to a norm, that norm and half a step for each column."""
    grid = CentredGrid.of(schema)
    half = [mp.mpf(int(h)) for h in grid.half]
    corner = sum(half) if order == 1 else mp.sqrt(sum(h**2 for h in half))
    truth = corner
    if schema.norm is not None and not (schema.norm == "l2" and order == 1):
        columns = columns_of(grid)
        rounding = (mp.mpf(columns) if order == 1 else mp.sqrt(columns)) / 2
        truth = min(corner, mp.mpf(schema.norm_bound) / mp.mpf(grid.step) + rounding)
    assert truth <= grid.longest(order) <= truth * (1 + mp.mpf(2) ** -38)


def test_rows_at_the_clip_come_close_to_the_bound():
    grid = CentredGrid.of(CLIPPED)
    rows = np.random.default_rng(2).standard_normal((5, 20_000))
    longest = np.sqrt(np.square(grid.round(10 * rows)).sum(axis=0)).max()
    assert longest <= grid.longest(2)
    assert longest > CLIPPED.norm_bound / grid.step


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("kind", ["l1", "l2"])
def test_changes_within_a_ball_reach_as_far_as_the_proof_says(order, centred, kind):
    """The ball in steps, a step more for each column that moves, in a ball of rows that an anchor lengthens."""
    grid = CentredGrid.of(CLIPPED if kind == "l2" else MANHATTAN, anchored=True)
    change, anchor, moving = getattr(Change, kind)(0.05), grid.anchor if centred else 0, columns_of(grid)
    found = grid.reach(Guarantee(epsilon=1.0, delta=1e-3, change=change), order, centred=centred)
    radius = mp.mpf(effective_change(grid.schema, Guarantee(epsilon=1.0, change=change)).radius)
    steps, more = radius / mp.mpf(grid.step), 1 + mp.mpf(2) ** -20
    longest = mp.sqrt(mp.mpf(grid.longest(2)) ** 2 + anchor**2)
    moved = steps + mp.sqrt(moving) * more
    ball = moved * (2 * longest - moved)  # short: less than two thirds of the longest
    truth, columns = ball, moving + (anchor > 0)
    if order == 1:
        truth = ball * mp.sqrt(columns * (columns + 3)) / 2
        if kind == "l1":
            half = np.append(grid.half, anchor)
            truth = min(
                truth, mp.mpf(moment_bounds.sum_ball(half, grid.longest(1) + anchor, float(steps + moving * more)))
            )
    truth = min(truth, mp.mpf(moment_bounds.box(grid.half, order, anchor)))
    assert truth * (1 - mp.mpf(2) ** -50) <= found <= truth * (1 + mp.mpf(2) ** -36)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("centred", [False, True])
def test_rows_that_come_and_go_reach_as_far_as_the_proof_says(order, centred):
    grid = CentredGrid.of(CLIPPED, anchored=True)
    promise = Guarantee(epsilon=1.0, delta=1e-3, neighbours="add-remove")
    second = mp.mpf(grid.longest(2))
    first = min(mp.mpf(grid.longest(1)), second * mp.sqrt(columns_of(grid)))
    c = mp.mpf(grid.anchor)
    if centred:
        truth = ((first + c) ** 2 + second**2 + c**2) / 2 if order == 1 else second**2 + c**2
    else:
        truth = (first**2 + second**2) / 2 + c**2 if order == 1 else mp.sqrt(second**4 + c**4)
    found = grid.reach(promise, order, centred=centred)
    assert truth <= found <= truth * (1 + mp.mpf(2) ** -42)
    three = grid.reach(replace(promise, group=3), order, centred=centred)
    assert 3 * mp.mpf(found) <= three <= 3 * mp.mpf(found) * (1 + mp.mpf(2) ** -42)


@pytest.mark.parametrize("order", [1, 2])
def test_scales_of_noise_are_rounded_up(order):
    """Level times sensitivity, as real numbers, is never more; for every mechanism with a scale of its own."""
    promise = Guarantee(epsilon=1.0, delta=0.0 if order == 1 else 1e-3)
    noise = "laplace" if order == 1 else "gaussian"
    moment = SecondMoment.prepare(CLIPPED, promise, order)
    sketch = Sketch(dimension=3, noise=noise, seed=1).prepare(OPEN, promise)
    distances = NoisyDistances(noise=noise).prepare(OPEN, promise)
    for level in np.linspace(0.3, 7.0, 80).tolist():
        for scale, sensitivity in (
            (moment.scale(level), moment.sensitivity),
            (sketch.scale(level), sketch.sensitivity),
            (distances.scale(level, 9), distances.sensitivity(9)),
        ):
            exact = Fraction(level) * Fraction(sensitivity)
            assert exact <= Fraction(scale) <= exact * (1 + Fraction(1, 2**51))


def test_a_second_moment_keeps_about_four_million_steps():
    moment = SecondMoment.prepare(CLIPPED, Guarantee(epsilon=1.0), 1)
    assert moment.shift == max(0, int(np.log2(moment.reach)) - 22)
    wide = SecondMoment(moment.grid, moment.guarantee, 1, 2.0**35)
    assert wide.shift == 13
    assert wide.unit == wide.grid.step**2 * 2**13
    assert SecondMoment(moment.grid, moment.guarantee, 1, 2.0**9).shift == 0


@pytest.mark.parametrize(("order", "law"), [(1, "laplace"), (2, "gaussian")])
def test_noise_is_drawn_from_the_law_that_was_priced(order, law):
    """And for order 2 with the scale on the diagonal, over sqrt(2) off it."""
    drawn = []

    class Noted(Words):
        __slots__ = ()

        def laplace(self, size, laplace_scale):
            return drawn.append(("laplace", size, laplace_scale)) or np.zeros(size, np.int64)

        def gaussian(self, size, scale):
            return drawn.append(("gaussian", size, scale)) or np.zeros(size, np.int64)

    moment = SecondMoment.prepare(OPEN, Guarantee(epsilon=1.0, delta=0.0 if order == 1 else 1e-3), order)
    exact = Total((6,)).add(np.arange(6) << moment.shift)
    assert moment.protected(exact, 100.0, secret_of(Noted)).tolist() == list(range(6))
    assert {name for name, _, _ in drawn} == {law}
    if order == 1:
        assert drawn == [("laplace", 6, 100.0)]
    else:
        assert drawn[0] == ("gaussian", 3, 100.0)
        assert drawn[1][1] == 3
        assert Fraction(100) ** 2 / 2 <= Fraction(drawn[1][2]) ** 2 <= Fraction(100) ** 2 / 2 * (1 + Fraction(1, 2**50))
