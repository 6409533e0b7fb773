"""The private second moment: exact sums, and the largest move of one unit against searches over all neighbours."""

import math

import numpy as np
import pyarrow as pa
import pytest

from sfumato.audit.bound import lower_bound
from sfumato.errors import ParameterError, RangeError
from sfumato.files.open_table import open_table
from sfumato.mechanisms import moment_bounds, second_moment
from sfumato.mechanisms.second_moment import BITS, CentredGrid, SecondMoment
from sfumato.numerics.lattice import Total, coarsen
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.privacy.losses import Gaussian
from sfumato.randomness.secret import Secret
from sfumato.tables.columns import Category, Flag, Real
from sfumato.tables.schema import Schema
from support.evidence import agrees
from support.moments import HALVES, MIXED, Block, every_pair, moves, neighbours
from support.rows import table_rows

CUBE = Schema.reals(4, low=-1, high=1)


def promise(kind, order, **more):
    fields = {
        "attribute": {"unit": "attribute"},
        "box": {"unit": "record"},
        "l1": {"unit": "record", "change": Change.l1(0.7)},
        "l2": {"unit": "record", "change": Change.l2(0.7)},
    }[kind]
    return Guarantee(epsilon=1.0, delta=0.0 if order == 1 else 1e-3, **fields, **more)


# ---- the largest move, over all pairs of integer rows ----------------------------------------------------------------


@pytest.mark.parametrize("half", HALVES)
def test_no_row_in_a_box_moves_the_matrix_further_than_stated_and_one_does_as_far(half):
    x, y = every_pair(half)
    assert moves(x, y, 1).max() == moment_bounds.box(np.array(half), 1)
    found = moves(x, y, 2).max()
    assert found <= moment_bounds.box(np.array(half), 2) <= 1.42 * found


def test_balanced_boxes_attain_the_length_stated():
    x, y = every_pair((2, 2, 2, 2), keep=lambda gap: (np.abs(gap) % 4 == 0).all(axis=0))
    assert moves(x, y, 2).max() == pytest.approx(moment_bounds.box(np.full(4, 2), 2), rel=1e-12)


@pytest.mark.parametrize("half", HALVES)
def test_no_value_moves_the_matrix_further_than_stated_and_one_does_as_far(half):
    x, y = every_pair(half, keep=lambda gap: np.count_nonzero(gap, axis=0) <= 1)
    assert moves(x, y, 1).max() == moment_bounds.attribute(np.array(half), 1)
    found = moves(x, y, 2).max()
    assert found <= moment_bounds.attribute(np.array(half), 2) <= found * (1.03 if sum(half) > max(half) else 1.2)


@pytest.mark.parametrize("half", [(1000,), (1000, 1), (1000, 300), (1000, 499), (1000, 501), (1000, 2000)])
def test_the_best_length_of_one_value_is_found_on_a_fine_grid(half):
    """A dominant column: the largest move is inside, not from one bound to the other."""
    best = 0.0
    for j, h in enumerate(half):
        t = np.arange(-h, h + 1.0)
        x = np.repeat(np.array(half, float)[:, None], t.size, axis=1)
        y = x.copy()
        y[j] = t
        best = max(best, moves(x, y, 2).max())
    stated = moment_bounds.attribute(np.array(half), 2)
    assert best <= stated <= best * (1 + 1e-6)


@pytest.mark.parametrize("half", [(2, 2), (2, 2, 1), (1, 1, 3), (2, 2, 2), (1, 1, 1, 1), (3, 3, 5)])
def test_two_columns_of_a_category_move_as_far_as_stated_whatever_their_values(half):
    x, y = every_pair(half, keep=lambda gap: ~gap[2:].any(axis=0))
    assert moves(x, y, 1).max() == moment_bounds.two_columns(np.array(half), 0, 1)
    found, stated = moves(x, y, 2).max(), moment_bounds.two_columns(np.array(half), 0, 2)
    assert found <= stated <= found * 1.42
    if sum(h**2 for h in half[2:]) >= half[0] ** 2:
        assert stated == pytest.approx(found, rel=1e-12)


@pytest.mark.parametrize("moved", [0.1, 0.5, 2 / 3, 0.7, 1.0, 1.3, 1.5, 2.0])
def test_a_ball_of_changes_in_a_ball_of_rows_is_exact(moved):
    rng = np.random.default_rng(1)
    angle = rng.uniform(-math.pi, math.pi, (2, 400_000))
    length = 3.0 * np.where(rng.random((2, 400_000)) < 0.5, 1.0, rng.random((2, 400_000)))
    x, y = (length[i] * np.stack([np.cos(angle[i]), np.sin(angle[i])]) for i in (0, 1))
    gap = np.linalg.norm(y - x, axis=0)
    y = x + (y - x) * np.minimum(1, 3.0 * moved / gap)
    inside = np.linalg.norm(y, axis=0) <= 3.0
    found, stated = moves(x[:, inside], y[:, inside], 2).max(), moment_bounds.length_ball(3.0, 3.0 * moved)
    assert 0.99 * stated < found <= stated


@pytest.mark.parametrize("largest", [2, 3, 9])
@pytest.mark.parametrize("moved", [1, 2, 4, 6])
def test_sums_of_changes_stay_within_what_is_stated(moved, largest):
    half = (3, 2, 2)
    x, y = every_pair(half, keep=lambda gap: np.abs(gap).sum(axis=0) <= moved)
    inside = (np.abs(x).sum(axis=0) <= largest) & (np.abs(y).sum(axis=0) <= largest)
    found, stated = moves(x[:, inside], y[:, inside], 1).max(), moment_bounds.sum_ball(np.array(half), largest, moved)
    assert 0.59 * stated < found <= stated
    if (moved, largest) == (4, 2):
        assert found == pytest.approx(stated, rel=1e-12)


# ---- from encoded rows to the matrix ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["attribute", "box", "l1", "l2"])
@pytest.mark.parametrize("order", [1, 2])
def test_no_neighbour_moves_the_second_moment_further_than_stated(kind, order):
    grid = CentredGrid.of(MIXED)
    one, two = (grid.round(side) for side in neighbours(np.random.default_rng(1), 60_000, kind))
    found, stated = moves(one, two, order).max(), grid.reach(promise(kind, order), order)
    assert 0.5 * stated < found <= stated


@pytest.mark.parametrize("order", [1, 2])
def test_a_value_of_a_category_counts_as_two_columns(order):
    schema = Schema([Category("city", ["Bern", "Basel", "Biel"]), Flag("smoker"), Flag("driver")], scale="raw")
    grid = CentredGrid.of(schema)
    one, two = (grid.round(np.array([*city, 1, 1], float)[:, None]) for city in ([1, 0, 0], [0, 1, 0]))
    found, stated = moves(one, two, order).max(), grid.reach(promise("attribute", order), order)
    assert found == pytest.approx(stated, rel=1e-12)
    assert found > moment_bounds.attribute(grid.half, order)


@pytest.mark.parametrize("order", [1, 2])
def test_coarsened_matrices_move_by_a_little_more_and_that_is_stated(order):
    """The same move of one row, among other rows that shift where its sums fall between the coarse steps."""
    schema = Schema([Real(f"c{j}", -1, 1, weight=w) for j, w in enumerate((1, 1, 0.97, 0.97))], scale="raw")
    moment = SecondMoment.prepare(schema, promise("box", order), order)
    assert moment.shift > 0
    h, rng = moment.grid.half.astype(float), np.random.default_rng(6)
    rows = np.stack([h, h * [1, -1, 1, -1] if order == 2 else 0 * h])
    moved, weights = [], np.where(np.arange(moment.entries) < moment.dim, 1, order)
    for _ in range(300):
        others = moment.exact(Block(rng.uniform(-1, 1, (4, 3)))).int64()
        sums = [others + triangle_of(np.outer(x, x)) for x in rows]
        gap = np.abs(np.subtract(*(coarsen(side, moment.shift) for side in sums)))
        moved.append((weights @ gap**order) ** (1 / order))
    assert moment.reach * 2.0**-moment.shift < max(moved) <= moment.sensitivity


def triangle_of(matrix, kind=np.int64):
    return np.concatenate([np.diagonal(matrix), matrix[np.triu_indices(len(matrix), 1)]]).astype(kind)


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("low", [-5.0, 0.5])
def test_a_row_norm_clip_bounds_the_second_moment(norm, order, low):
    schema = Schema([Real(f"c{i}", low, 5, weight=1 + i) for i in range(5)], norm=norm, norm_bound=2.0, scale="raw")
    grid, rng = CentredGrid.of(schema), np.random.default_rng(2)
    one, two = (rng.choice([-9.0, 9.0, 0.0, 0.1, np.inf], (5, 30_000), p=[0.1, 0.1, 0.5, 0.2, 0.1]) for _ in range(2))
    one, two = grid.round(one), grid.round(two)
    own = 1 if norm == "l1" else 2
    assert 2.0 / grid.step < np.linalg.norm(one, own, axis=0).max() <= grid.longest(own) < 2.0 / grid.step + 2.6
    found, stated = moves(one, two, order).max(), grid.reach(promise("box", order), order)
    assert found <= stated
    assert found > 0.4 * stated
    near = Guarantee(epsilon=1.0, delta=0.1, change=Change(norm, 0.1))
    assert grid.reach(near, order) < 0.2 * stated


def test_rounding_under_a_norm_clip_shortens_no_row_on_average():
    """Numbers cut towards 0 would move sums in proportion to the number of rows, beyond every error bar."""
    schema = Schema([Real(f"c{i}", -1, 1) for i in range(4)], norm="l2", norm_bound=1.0, scale="raw")
    rows = np.random.default_rng(3).uniform(-0.5, 0.5, (4, 200_000))
    grid = CentredGrid.of(schema)
    moved = np.abs(grid.round(rows)) - np.abs(rows) / grid.step
    assert abs(moved.mean()) < 6 * moved.std() / math.sqrt(moved.size)
    assert abs(moved.mean()) < 0.01  # truncation gives -0.5


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("kind", ["l1", "l2"])
def test_small_changes_that_rounding_lengthens_stay_within_what_is_stated(kind, order):
    """A change of 2.51 steps that moves the integer by 3, where the square is steepest."""
    schema = Schema.reals(1, low=-1, high=1)
    grid = CentredGrid.of(schema)
    one, two = (grid.round(np.array([[1 - steps * grid.step]])) for steps in (0.0, 2.51))
    assert one - two == 3
    near = Guarantee(epsilon=1.0, delta=0.1, change=Change(kind, 2.52 * grid.step))
    assert moves(one, two, order).max() <= grid.reach(near, order) <= 1.3 * moves(one, two, order).max()


def test_an_l1_clip_is_attained_by_two_rows_along_two_axes():
    schema = Schema([Real("a", -5, 5), Real("b", -5, 5)], norm="l1", norm_bound=2.0, scale="raw")
    grid = CentredGrid.of(schema)
    found = moves(*(grid.round(np.array(x, float)[:, None]) for x in ((5, 0), (0, 5))), 1).max()
    assert found == pytest.approx(grid.reach(promise("box", 1), 1), rel=2e-3)


def test_a_group_counts_in_full_in_both_norms():
    """Equal rows of one person move the one matrix in the same direction."""
    for order in (1, 2):
        grid = CentredGrid.of(MIXED)
        one, four = (grid.reach(promise("box", order, group=g), order) for g in (1, 4))
        assert four == pytest.approx(4 * one, rel=1e-12)
        assert four >= 4 * one


def test_the_sum_is_exact_over_blocks_and_threads():
    schema = Schema.reals(3, low=[0, -1, 5], high=[1, 1, 9])
    data = np.random.default_rng(3).uniform(-2, 10, (150_000, 3))
    moment = SecondMoment.prepare(schema, promise("box", 1), 1)
    integers = moment.grid.round(data.T).astype(int).tolist()
    expected = [sum(a * b for a, b in zip(integers[i], integers[j], strict=True)) for i, j in ((0, 0), (1, 1), (2, 2))]
    expected += [sum(a * b for a, b in zip(integers[i], integers[j], strict=True)) for i, j in ((0, 1), (0, 2), (1, 2))]
    for threads in (1, 3):
        found = moment.exact(table_rows(open_table(data, schema), schema, threads=threads))
        assert found.integers().tolist() == expected


def test_sums_beyond_64_bits_are_refused_and_smaller_ones_are_exact():
    schema = Schema.reals(1, low=0, high=1)
    rows = table_rows(open_table(np.zeros((300_000, 1)), schema), schema)
    (total,) = rows.sum(lambda position, _block: np.array([2**60 + position]))
    positions = range(0, 300_000, 1 << 16)
    assert total == 2**60 * len(positions) + sum(positions)
    with pytest.raises(RangeError, match="64-bit sums"):
        rows.sum(lambda _position, _block: np.array([2**61]))


def test_a_table_without_rows_sums_to_zeros_of_the_right_shape():
    moment = SecondMoment.prepare(MIXED, promise("box", 1), 1)
    empty = pa.table({"age": [1.0], "smoker": [True], "city": ["Bern"], "x": [0.0]}).slice(0, 0)
    assert moment.exact(table_rows(open_table(empty, MIXED), MIXED)).integers().tolist() == [0] * 21


def test_progress_counts_published_rows_only():
    seen = []
    schema = Schema.reals(1, low=0, high=1)
    rows = table_rows(open_table(np.zeros((100_000, 1)), schema), schema, progress=seen.append)
    rows.sum(lambda _position, block: np.array([block.shape[1]]))
    assert seen == []
    list(rows.map(lambda _position, block: block))
    assert sum(seen) == 100_000


@pytest.mark.parametrize(("order", "columns"), [(1, 1), (1, 30), (2, 1), (2, 30)])
def test_sums_over_2_to_the_38_rows_are_published(order, columns):
    """They need more than 64 bits, and what is published of them does not."""
    moment = SecondMoment.anchored(Schema.reals(columns, low=0, high=1), promise("box", order), order, centred=True)
    half = np.append(moment.grid.half, moment.grid.anchor).astype(object)
    whole = triangle_of(np.outer(half, half), object) << 38
    assert max(whole) > 2**63
    exact = Total.of((whole >> 32).astype(np.int64), (whole & (2**32 - 1)).astype(np.int64))
    assert (exact.integers() == whole).all()
    seen = moment.protected(exact, moment.scale(1.0), Secret.for_testing(1))
    off = np.abs(seen - (whole[moment.kept] >> moment.shift)).astype(float)
    assert 0 < off.max() < 30 * moment.scale(1.0)


@pytest.mark.parametrize("columns", [1, 4, 5, 20, 300, 3000])
def test_the_grid_is_as_fine_as_exact_products_of_8192_rows_allow(columns):
    schema = Schema.reals(columns, low=0, high=1)
    for anchored in (False, True):
        grid = CentredGrid.of(schema, anchored=anchored)
        assert grid.half.max() == 2**grid.column_bits
        assert grid.anchor <= 2**grid.bits
        assert 2 * grid.bits + 13 <= 53
        finer = CentredGrid._of_bits(schema, grid.column_bits + 1, anchored=anchored)
        assert 2 * finer.bits + 13 > 53
    assert grid.column_bits >= 20 - max(0, math.ceil(math.log2(columns) / 2 - 1))


# ---- the noise ------------------------------------------------------------------------------------------------------


def draws(moment, level, block, seeds):
    """Noisy triangles of many runs, diagonal first: shape (entries, runs), in steps."""
    exact, scale = moment.exact(Block(block)), moment.scale(level)
    return np.stack([moment.protected(exact, scale, Secret.for_testing(s)) for s in seeds], axis=-1)


def test_laplace_noise_is_even_over_the_triangle_and_gaussian_noise_over_the_whole_matrix():
    schema = Schema.reals(3, low=-1, high=1)
    for order, spread in ((1, math.sqrt(2)), (2, 1.0)):
        moment = SecondMoment.prepare(schema, promise("box", order), order)
        out = draws(moment, 2.0, np.zeros((3, 1)), range(2000)) / (moment.scale(2.0) * spread)
        for place, entry in enumerate(out):
            variance = 1.0 if order == 1 or place < 3 else 0.5
            assert agrees(entry, 0.0)
            assert agrees(entry**2, variance)
            assert not agrees(entry**2, variance * (0.5 if order == 1 else 1.5))
        assert np.abs(np.corrcoef(out) - np.eye(6)).max() < 0.1


def test_the_noisy_matrix_is_symmetric_and_about_the_exact_one():
    block = np.random.default_rng(5).uniform(-1, 1, (4, 50))
    for order in (1, 2):
        moment = SecondMoment.prepare(CUBE, promise("box", order), order)
        noisy = moment.noisy(Block(block), 1e-3, Secret.for_testing(1))
        assert (noisy == noisy.T).all()
        assert 0 < np.abs(noisy - block @ block.T).max() < 0.1


def test_wide_tables_are_coarsened_so_that_their_noise_can_be_drawn():
    moment = SecondMoment.prepare(Schema.reals(400, low=0, high=1), promise("box", 1), 1)
    assert moment.reach > 2.0**36
    assert 2.0**24 < moment.sensitivity < 2.0**27
    assert moment.sensitivity * moment.unit == pytest.approx(moment.reach * moment.grid.step**2, rel=4e-3)
    assert moment.sensitivity * moment.unit >= moment.reach * moment.grid.step**2
    block = np.random.default_rng(4).random((400, 3))
    noisy = moment.noisy(Block(block), 1e-6, Secret.for_testing(1))
    error = noisy - (block - 0.5) @ (block - 0.5).T
    assert np.abs(error).max() < 20 * moment.scale(1e-6) * moment.unit


def audit(moment, level, pair, *, delta=0.0, runs=1200):
    """Whether many runs on two neighbouring tables refute epsilon = 1.5; scores are likelihood ratios."""
    centres = [moment.exact(Block(block)).doubles()[:, None] * 2.0**-moment.shift for block in pair]
    weights = np.where(np.arange(moment.entries) < moment.dim, 1, moment.order)
    scores = []
    for side, block in enumerate(pair):
        out = draws(moment, level, block, range(side * runs, (side + 1) * runs))
        gaps = [weights @ np.abs(out - c) ** moment.order for c in centres]
        scores.append(gaps[1] - gaps[0])
    return lower_bound(*scores, delta=delta, confidence=1 - 1e-6).refutes(1.5)


UNEVEN = Schema([Real("wide", -1, 1), Real("narrow", -0.1, 0.1)], scale="raw")  # one entry makes nearly all of a move
WORST = {
    "box": ([[0.2, 1.0], [0.05, 0.1]], [[0.2, 0.0], [0.05, 0.0]]),
    "attribute": ([[0.2, 1.0], [0.05, 0.1]], [[0.2, -0.05], [0.05, 0.1]]),
}


@pytest.mark.parametrize("kind", WORST)
@pytest.mark.parametrize("order", [1, 2])
def test_audits_of_the_second_moment_pass_and_too_little_noise_is_caught(kind, order):
    """Half the noise for Laplace, a quarter for Gaussian, whose losses are seldom near their bound."""
    moment = SecondMoment.prepare(UNEVEN, promise(kind, order), order)
    level, delta, less, runs = (1 / 1.5, 0.0, 0.5, 2000) if order == 1 else (1.9, 1e-2, 0.25, 1200)
    if order == 2:
        assert Gaussian(1.0, level).delta(1.5) <= delta
    assert not audit(moment, level, WORST[kind], delta=delta, runs=runs)
    assert audit(moment, level * less, WORST[kind], delta=delta, runs=runs)


def test_forgotten_cross_terms_are_caught(monkeypatch):
    """One value moves a whole row of the matrix, not only its own square."""
    pair = [[[1.0]] * 4, [[-1.0], *[[1.0]] * 3]]
    assert not audit(SecondMoment.prepare(CUBE, promise("attribute", 1), 1), 1 / 1.5, pair)
    monkeypatch.setattr(second_moment, "attribute", lambda half, *_: float(half.max() ** 2))
    assert audit(SecondMoment.prepare(CUBE, promise("attribute", 1), 1), 1 / 1.5, pair)


def test_a_clip_left_out_of_the_second_moment_is_caught(monkeypatch):
    """A narrow column whose value lies far outside its bounds, but within those of its wide neighbour."""
    pair = [[1.0], [1.0]], [[1.0], [-1.0]]
    moment = SecondMoment.prepare(UNEVEN, promise("attribute", 1), 1)
    assert not audit(moment, 1 / 1.5, pair, runs=2500)
    monkeypatch.setattr(CentredGrid, "round", lambda grid, block: np.rint(block / grid.step))
    assert audit(moment, 1 / 1.5, pair, runs=2500)


def test_noise_differs_between_contents_and_repeats_for_a_retry():
    moment = SecondMoment.prepare(CUBE, promise("box", 1), 1)
    one, again = (moment.noisy(Block(np.zeros((4, 1))), 1.0, Secret.for_testing(1)) for _ in range(2))
    other = moment.noisy(Block(np.full((4, 1), 1e-3)), 1.0, Secret.for_testing(1))
    assert (one == again).all()
    assert (np.abs(one - other) > moment.unit * 100).all()


# ---- what comes in ---------------------------------------------------------------------------------------------------


def test_anything_becomes_integers_within_the_half_ranges():
    block = np.array([[np.nan, np.inf, -np.inf, 1e308, -1e308]] * 6)
    for schema in (MIXED, Schema(MIXED.columns, norm="l2", norm_bound=1.0, scale="raw")):
        grid = CentredGrid.of(schema)
        rounded = grid.round(block)
        assert (np.abs(rounded) <= grid.half[:, None]).all()
        assert (rounded == np.rint(rounded)).all()


def test_the_half_ranges_hold_even_if_the_schema_did_not_clip(monkeypatch):
    monkeypatch.setattr(Schema, "clip", lambda _schema, block: block.copy())
    grid = CentredGrid.of(MIXED)
    rounded = grid.round(np.array([[np.nan, np.inf, -np.inf, 1e6, -1e6]] * 6))
    assert (np.abs(rounded) == grid.half[:, None]).all()


def test_columns_too_narrow_to_matter_are_left_out():
    schema = Schema([Real("a", 0, 1), Real("b", 0, 1, weight=1e-7)], scale="raw")
    grid = CentredGrid.of(schema)
    assert grid.half.tolist() == [2**BITS, 0]
    assert grid.reach(promise("attribute", 1), 1) == 2.0 ** (2 * BITS)


@pytest.mark.parametrize("bound", [1e-200, 1e200])
def test_clips_that_no_grid_can_hold_are_refused(bound):
    with pytest.raises(ParameterError, match="positive and finite"):
        CentredGrid.of(Schema([Real("a", 0, 1)], norm="l2", norm_bound=bound, scale="raw"))


@pytest.mark.parametrize("level", [1e-20, 1e20])
def test_levels_that_no_grid_can_hold_are_refused_before_rows_are_read(level):
    moment = SecondMoment.prepare(CUBE, promise("box", 1), 1)
    with pytest.raises(ParameterError, match="second moment of 4 columns"):
        moment.noisy(None, level, Secret.for_testing(1))
