"""Noisy distances: exact integers, contract, audits with broken twins, and what is refused."""

import itertools
import json
import math

import numpy as np
import pytest

from sfumato.audit.bound import lower_bound
from sfumato.errors import ParameterError
from sfumato.estimation import distance_matrix
from sfumato.fileformat.writer import seal
from sfumato.files.open_table import open_table
from sfumato.mechanisms import distances
from sfumato.mechanisms.distances import MOST_ROWS, DistanceGrid, NoisyDistances, PreparedDistances, _triangles
from sfumato.numerics import lattice
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.randomness.secret import Secret
from sfumato.tables.columns import Category, Flag, Real
from sfumato.tables.schema import Schema
from support.evidence import agrees
from support.rows import table_rows

NOISES = ["laplace", "gaussian"]
RADIUS = 0.7
CHANGES = {
    "attribute": {"unit": "attribute"},
    "box": {"unit": "record"},
    "l1": {"unit": "record", "change": Change.l1(RADIUS)},
    "l2": {"unit": "record", "change": Change.l2(RADIUS)},
}
CUBE = Schema.reals(3, low=0.0, high=1.0)
MIXED = Schema(
    [Real("age", 0, 120, weight=0.01), Flag("smoker"), Category("city", ["Bern", "Basel", "Biel"]), Real("x", -1, 1)],
    scale="raw",
)


class Blocks:
    """An engine over encoded blocks in memory."""

    def __init__(self, *blocks):
        self.blocks = [np.asarray(block, float) for block in blocks]

    def map(self, function):
        starts = np.cumsum([0, *(block.shape[1] for block in self.blocks)])
        return (function(int(start), block) for start, block in zip(starts, self.blocks, strict=False))


def prepare(noise, kind, schema=MIXED, epsilon=1.0, delta=1e-3, **more):
    promise = Guarantee(epsilon=epsilon, delta=0.0 if noise == "laplace" else delta, **CHANGES[kind], **more)
    return NoisyDistances(noise=noise).prepare(schema, promise)


def exact(prepared, block, shift=0):
    """The integers of the triangle before noise."""
    rows = [row for _, run in _triangles(prepared.grid.round(np.asarray(block, float))) for row in run]
    return lattice.coarsen(np.concatenate(rows), shift)


def released(prepared, level, block, seed=1, secrets=Secret):
    blocks = prepared.run(Blocks(block), level, secrets.for_testing(seed)).blocks
    return np.concatenate(list(blocks), axis=1)[0]


# ---- exact integers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [1, 3, 700, 4096])
def test_integers_are_those_of_python(dim):
    schema = Schema.reals(dim, low=-3.0, high=5.0)
    grid, rng = DistanceGrid(schema), np.random.default_rng(dim)
    assert 2 * dim * 4**grid.bits <= 2**53 < 2 * dim * 4 ** (grid.bits + 1)
    block = rng.uniform(-4, 6, (dim, 7))
    block[:, 0], block[:, 1], block[:, 2] = -3.0, 5.0, np.where(np.arange(dim) % 2, 5.0, -3.0)
    rounded = grid.round(block)
    assert rounded.min() == 0
    assert rounded.max() == 2**grid.bits
    whole = [[int(q) for q in column] for column in rounded.T]
    expected = [sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) for x, y in itertools.combinations(whole, 2)]
    found = exact(prepare("laplace", "box", schema), block)
    assert found.tolist() == expected
    assert max(expected) == dim * 4**grid.bits


def test_one_bit_more_would_not_be_exact():
    """The bound of the docstring is the last that always works: with a step half as wide sums pass 2^53."""
    grid = DistanceGrid(Schema.reals(4, low=0.0, high=1.0))
    odd = np.full((4, 2), 2.0 ** (grid.bits + 2) - 1)
    odd[0, 1] -= 2
    (_, ((found,),)) = next(_triangles(odd))
    assert int(found) != 4


def test_published_numbers_are_squared_distances_in_weighted_units():
    prepared = prepare("gaussian", "attribute", epsilon=1e6)
    rng = np.random.default_rng(3)
    block = np.zeros((6, 40))
    block[0], block[1], block[5] = rng.uniform(0, 120, 40), rng.random(40) < 0.5, rng.uniform(-1, 1, 40)
    block[2 + rng.integers(0, 3, 40), np.arange(40)] = 1
    weighted = block * MIXED.encoding.weights[:, None]
    truth = distance_matrix.between(weighted.T)[np.triu_indices(40, 1)]
    found = released(prepared, 1e-4, block)
    assert np.abs(found - truth).max() < 6 * 1e-4 * prepared.sensitivity(40) * prepared.unit(40)


def test_blocks_of_input_and_of_work_do_not_change_a_release(monkeypatch):
    prepared = prepare("laplace", "box", CUBE)
    data = np.random.default_rng(4).random((3, 50))
    whole = released(prepared, 1.0, data)
    pieces = prepared.run(Blocks(data[:, :1], data[:, 1:30], data[:, 30:]), 1.0, Secret.for_testing(1)).blocks
    assert (np.concatenate(list(pieces), axis=1)[0] == whole).all()
    rows = table_rows(open_table(data.T, CUBE), CUBE)
    assert (np.concatenate(list(prepared.run(rows, 1.0, Secret.for_testing(1)).blocks), axis=1)[0] == whole).all()
    monkeypatch.setattr(distances, "_CELLS", 120)
    few = list(prepared.run(Blocks(data), 1.0, Secret.for_testing(1)).blocks)
    assert len(few) > 20
    assert (np.concatenate(few, axis=1)[0] == whole).all()


# ---- contract -------------------------------------------------------------------------------------------------------


def random_rows(rng, count):
    """Encoded rows of MIXED: at their ends, within and far outside their bounds; one category or none."""
    block = np.zeros((6, count))
    block[0] = rng.choice([0.0, 120.0, 60.0, -5.0, np.inf, np.nan, rng.uniform(0, 120)], count)
    block[5] = rng.choice([-1.0, 1.0, 0.0, -np.inf, 3.0, rng.uniform(-1, 1)], count)
    block[1] = rng.random(count) < 0.5
    city = rng.integers(-1, 3, count)
    block[2 + np.maximum(city, 0), np.arange(count)] = city >= 0
    return block


def neighbour(rng, block, kind, group=1):
    """Another table that differs from this one in one unit."""
    other = block.copy()
    for row in rng.permutation(block.shape[1])[:group]:
        if kind == "attribute":
            a, b = [(0, 1), (1, 2), (2, 5), (5, 6)][rng.integers(4)]
            other[a:b, row] = random_rows(rng, 1)[a:b, 0]
        elif kind == "box":
            other[:, row] = random_rows(rng, 1)[:, 0]
        else:
            move = rng.standard_normal(6) * np.array([1, 0, 0, 0, 0, 1])
            move *= RADIUS / np.linalg.norm(move, 1 if kind == "l1" else 2)
            inside = MIXED.clip(block[:, [row]])[:, 0]
            other[:, row] = inside + move / MIXED.encoding.weights
    return other


@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.parametrize("kind", CHANGES)
@pytest.mark.parametrize("noise", NOISES)
def test_no_neighbour_moves_the_triangle_further_than_stated(noise, kind, group):
    group = 1 if kind == "attribute" else group
    prepared, rng, order = prepare(noise, kind, group=group), np.random.default_rng(5), 1 if noise == "laplace" else 2
    most = 0.0
    for _ in range(600):
        count = int(rng.integers(2, 6))
        block, shift = random_rows(rng, count), prepared.shift(count)
        moved = exact(prepared, block, shift) - exact(prepared, neighbour(rng, block, kind, group), shift)
        ratio = np.linalg.norm(moved.astype(float), order) / prepared.sensitivity(count)
        assert ratio <= 1
        most = max(most, ratio)
    assert most > (0.99 if kind == "attribute" else 0.5)


@pytest.mark.parametrize("count", [2, 3, 17])
@pytest.mark.parametrize("schema", [CUBE, MIXED, Schema([Category("city", ["a", "b", "c", "d"])], scale="raw")])
@pytest.mark.parametrize("kind", ["attribute", "box"])
def test_values_and_boxes_attain_what_is_stated(kind, schema, count):
    """All others stay at one end; over all corners for the one that moves."""
    encoding = schema.encoding
    spans = [(j, j + 1) for j in range(encoding.dim) if encoding.alone[j]]
    ends = [[(a, encoding.low[a]), (a, encoding.high[a])] for a, _ in spans]
    ends += [[(j, 1.0) for j in range(a, b)] for a, b in ((g.start, g.stop) for g in encoding.groups)]

    def row(choice):
        filled = np.zeros(encoding.dim)
        for j, value in choice:
            filled[j] = value
        return filled

    first = [end[0] for end in ends]
    single = ([*first[:i], other, *first[i + 1 :]] for i, end in enumerate(ends) for other in end)
    ways = list(itertools.product(*ends) if kind == "box" else single)
    prepared = prepare("laplace", kind, schema)
    start = np.tile(row(first)[:, None], count)
    before, found = exact(prepared, start), []
    for way in ways:
        start[:, 0] = row(way)
        found.append(np.abs(exact(prepared, start) - before))
    worst = max(found, key=np.sum)
    assert worst.max() == prepared.moves[0]
    for noise, order in (("laplace", 1), ("gaussian", 2)):
        prepared, largest = prepare(noise, kind, schema), np.linalg.norm(worst.astype(float), order)
        assert largest == pytest.approx(prepared.moves[0] * (count - 1) ** (1 / order), rel=1e-14)
        stated = prepared.sensitivity(count) * 2.0 ** prepared.shift(count)
        assert largest * (1 - 1e-15) <= stated <= largest * (1 + 2**-15)  # up to one step of the published grid


def test_the_stated_numbers_are_those_of_the_paper_for_bits():
    """Kenthapadi et al., Algorithm 3: n - 1 distances change by exactly 1, so sqrt(n - 1) in length."""
    bits = Schema([Flag(f"b{j}") for j in range(8)], scale="raw")
    for count in (2, 10, 1001):
        laplace, gaussian = (prepare(noise, "attribute", bits) for noise in NOISES)
        assert laplace.sensitivity(count) * laplace.unit(count) == count - 1
        found = gaussian.sensitivity(count) * gaussian.unit(count)
        assert math.sqrt(count - 1) <= found <= math.sqrt(count - 1) * (1 + 1e-14)
        whole = prepare("laplace", "box", bits)
        assert whole.sensitivity(count) * whole.unit(count) == 8 * (count - 1)


def test_a_person_with_a_category_in_each_row_attains_what_is_stated():
    """All three rows equal, then all different: every one of the three entries moves by 2."""
    schema = Schema([Category("city", ["a", "b", "c"])], scale="raw")
    prepared = prepare("laplace", "box", schema, group=2)
    moved = exact(prepared, np.eye(3)) - exact(prepared, np.eye(3)[:, [2, 2, 2]])
    assert moved.tolist() == [prepared.moves[0]] * 3
    assert prepared.moved(3) == (2, 1)
    assert prepared.sensitivity(3) * prepared.unit(3) == 6
    assert prepare("laplace", "box", schema, group=50).moved(3) == (0, 3)


@pytest.mark.parametrize("kind", ["l1", "l2"])
def test_balls_attain_what_is_stated_but_for_rounding(kind):
    """One row at the far end comes nearer by the radius; two rows of a person at opposite ends come nearer by two."""
    line = Schema.reals(1, low=0.0, high=1.0)
    prepared, pair = prepare("laplace", kind, line), prepare("laplace", kind, line, group=2)
    moved = np.abs(exact(prepared, [[0.0, 1.0]]) - exact(prepared, [[0.0, 1 - RADIUS]]))[0]
    assert 1 - 1e-6 < moved / prepared.moves[0] <= 1
    assert prepared.moves[0] * prepared.grid.step**2 == pytest.approx(RADIUS * (2 - RADIUS), rel=1e-6)
    plane = Schema.reals(2, low=0.0, high=2.0)
    pair, step = prepare("laplace", kind, plane, group=2), np.array([[RADIUS], [RADIUS]]) / 2
    step /= np.linalg.norm(step, 1 if kind == "l1" else 2) / RADIUS
    before = np.array([[0.0, 2.0], [0.0, 2.0]])
    moved = np.abs(exact(pair, before) - exact(pair, before + np.hstack([step, -step])))[0]
    assert moved <= pair.moves[1]
    if kind == "l2":
        assert moved / pair.moves[1] > 1 - 1e-6
        assert moved > 1.2 * pair.moves[0]  # as much as if only one of them moved would not be enough


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize(("low", "factor"), [(-5, 4), (0, 2)])
def test_a_row_norm_clip_bounds_any_two_rows(norm, low, factor):
    schema = Schema([Real(f"c{i}", low, 5, weight=1 + i) for i in range(4)], norm=norm, norm_bound=2.0, scale="raw")
    prepared, rng = prepare("laplace", "box", schema), np.random.default_rng(6)
    limit = prepared.moves[0]
    assert limit * prepared.grid.step**2 == pytest.approx(factor * 4, rel=1e-4)
    ends = np.concatenate([np.eye(4), -np.eye(4)], axis=1) * 9
    tables = [
        ends,
        rng.choice([-9.0, 9.0, 0.0, 0.1, np.inf], (4, 400)),
        np.array([[1e9], [0], [0], [np.nan]]) * [[1, 0]],
    ]
    most = max(exact(prepared, table).max() for table in tables)
    assert 1 - 1e-4 < most / limit <= 1
    ball = prepare("laplace", norm, schema)
    assert ball.moves[0] < limit
    with pytest.raises(ParameterError, match="unit='record'"):
        prepare("laplace", "attribute", schema)
    with pytest.raises(ParameterError, match="cannot go with a row clip"):
        prepare("laplace", "l1" if norm == "l2" else "l2", schema)


def test_a_row_that_is_no_category_is_made_one():
    """Whoever states that a category adds 2 enforces that a row holds one value."""
    schema = Schema([Category("city", ["a", "b", "c", "d"])], scale="raw")
    prepared = prepare("laplace", "box", schema)
    wild = np.array([[1.0, 0, np.inf, np.nan], [1, 0, 5, -1], [0, 1, 5, 0.2], [0, 1, 5, 0.1]])
    assert exact(prepared, wild).max() <= prepared.moves[0]
    assert (np.count_nonzero(prepared.grid.round(wild), axis=0) <= 1).all()


def test_coarsening_never_brings_the_claim_below_the_exact_one():
    for count, group, noise in itertools.product((2, 5, 300, MOST_ROWS), (1, 4, 2**31), NOISES):
        prepared = prepare(noise, "box", group=group)
        one, both = prepared.moved(count)
        assert one + both <= distance_matrix.pairs(count)
        fine = (one + both) * prepared.moves[0] if noise == "laplace" else math.sqrt(one + both) * prepared.moves[0]
        coarse = prepared.sensitivity(count) * 2.0 ** prepared.shift(count)
        assert fine * (1 - 1e-15) <= coarse <= fine * (1 + 2.0**-5) * (1 + 1e-12)
        assert prepared.sensitivity(count) < 2**23.1 or group > 1000


# ---- the noise ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", NOISES)
def test_numbers_are_unbiased_and_vary_as_stated(noise):
    prepared = prepare(noise, "attribute", CUBE)
    level = calibrate(prepared, prepared.guarantee).level
    data = np.random.default_rng(7).random((3, 300))
    truth = distance_matrix.between(data.T)[np.triu_indices(300, 1)]
    errors = released(prepared, level, data) - truth
    scale = prepared.facts(level, 300)["mechanism"]["standard_deviation"]
    assert agrees(errors, 0.0)
    assert not agrees(errors, 0.05 * scale)
    assert agrees(errors**2, scale**2)
    assert not agrees(errors**2, 0.9 * scale**2)
    assert not agrees(errors**2, 1.1 * scale**2)
    matrix = distance_matrix.square(errors, 300) / scale
    assert abs(np.corrcoef(matrix[0, 2:], matrix[1, 2:])[0, 1]) < 0.3  # rows of the triangle share nothing


def test_what_the_manifest_says_is_what_was_done():
    for noise, ratio in (("laplace", math.sqrt(2)), ("gaussian", 1.0)):
        prepared = prepare(noise, "attribute", CUBE)
        level = calibrate(prepared, prepared.guarantee).level
        published = prepared.run(Blocks(np.zeros((3, 5))), level, Secret.for_testing(1))
        facts = published.facts
        assert facts == prepared.facts(level, 5)
        assert (published.names, published.by_record, published.matrix) == (("squared_distance",), False, None)
        assert facts["mechanism"]["scale"] == pytest.approx(level * facts["mechanism"]["sensitivity"], rel=1e-12)
        assert facts["mechanism"]["standard_deviation"] == pytest.approx(ratio * facts["mechanism"]["scale"])
        assert json.loads(json.dumps(facts)) == facts
        rest = {"guarantee": prepared.guarantee.to_dict(), "schema": CUBE.to_dict(), "files": {}}
        rest |= {"protected": False, "accounted": False, "numerics": "exact", "randomness": "test", "warnings": []}
        assert seal(rest | facts)["rows"] == 5
        assert {block.shape for block in published.blocks} == {(1, 10)}


def test_a_retry_repeats_its_noise_and_other_content_does_not():
    prepared, data = prepare("laplace", "attribute", CUBE), np.full((3, 60), 0.3)
    one, two = (released(prepared, 1.0, data, 7) for _ in range(2))
    assert (one == two).all()
    other = released(prepared, 1.0, np.full((3, 60), 0.4), 7)
    assert (other == one).all()  # all distances are 0 in both, so these are one input
    data[0, 0] = 0.9
    moved = released(prepared, 1.0, data, 7) - one
    assert (moved[:59] != moved[0]).any()  # the first row of the triangle holds other integers, so other noise
    assert (moved[59:] == 0).all()
    assert np.unique(one).size > 0.99 * one.size


def test_each_row_of_the_triangle_draws_from_a_stream_of_its_parameters_place_and_content():
    contexts = []

    class Noted(Secret):
        __slots__ = ()

        def words(self, *context):
            contexts.append(context)
            return super().words(*context)

    prepared, data = prepare("laplace", "box", CUBE), np.random.default_rng(8).random((3, 6))
    released(prepared, 1.0, data, secrets=Noted)
    released(prepared, 2.0, data, secrets=Noted)
    assert [place for _, place, _ in contexts] == [*range(5), *range(5)]
    integers = [row for _, _, row in contexts]
    assert np.array_equal(np.concatenate(integers[:5]), exact(prepared, data, prepared.shift(6)))
    assert len({parameters for parameters, _, _ in contexts}) == 2  # one for each scale of the noise


# ---- audits ---------------------------------------------------------------------------------------------------------


def scores(prepared, level, tables, runs):
    """Log-likelihood ratios of many runs on each of two tables, up to what does not matter."""
    power = 1 if prepared.recipe.noise == "laplace" else 2
    means = [exact(prepared, table) * prepared.grid.step**2 for table in tables]
    for side, table in enumerate(tables):
        outputs = np.array([released(prepared, level, table, 2 * seed + side) for seed in range(runs)])
        gaps = [np.abs(outputs - mean) ** power for mean in means]
        yield (gaps[1] - gaps[0]).sum(axis=1)


def refuted(prepared, level, first, second, runs=1400):
    """Whether an audit of many runs on two neighbouring tables refutes the claim."""
    found = lower_bound(
        *scores(prepared, level, (first, second), runs), delta=prepared.guarantee.delta, confidence=1 - 1e-6
    )
    return found.refutes(prepared.guarantee.epsilon)


def audited(noise, kind, schema, **more):
    """A claim that an audit of a few thousand runs can refute at half the noise."""
    prepared = prepare(noise, kind, schema, epsilon=2.0, delta=0.1, **more)
    return prepared, calibrate(prepared, prepared.guarantee).level


def ends(count, dim):
    """All rows at the low corner, and all but one of them."""
    second = np.zeros((dim, count))
    second[:, 0] = 1.0
    return np.zeros((dim, count)), second


@pytest.mark.parametrize(("noise", "kind"), [("laplace", "attribute"), ("gaussian", "attribute"), ("laplace", "box")])
def test_audits_pass_and_half_the_noise_is_caught(noise, kind):
    schema = Schema.reals(1 if kind == "attribute" else 2, low=0.0, high=1.0)
    prepared, level = audited(noise, kind, schema)
    pair = ends(2, schema.encoding.dim)
    assert not refuted(prepared, level, *pair)
    assert refuted(prepared, level / 2, *pair)


@pytest.mark.parametrize("noise", NOISES)
def test_noise_for_one_entry_where_all_of_a_row_move_is_caught(noise, monkeypatch):
    """The factor n - 1, or sqrt(n - 1), forgotten."""
    pair = ends(7, 1)
    prepared, level = audited(noise, "attribute", Schema.reals(1, low=0.0, high=1.0))
    assert not refuted(prepared, level, *pair, runs=300)
    monkeypatch.setattr(PreparedDistances, "moved", lambda _self, _rows: (1, 0))
    assert refuted(prepared, level, *pair, runs=900)


def test_a_clip_left_out_is_caught(monkeypatch):
    """A value far outside its bounds: clipped it keeps the promise, unclipped the audit refutes it."""
    prepared, level = audited("laplace", "attribute", Schema.reals(1, low=0.0, high=1.0))
    pair = np.zeros((1, 3)), np.array([[5.0, 0.0, 0.0]])
    assert not refuted(prepared, level, *pair, runs=500)
    monkeypatch.setattr(DistanceGrid, "round", lambda grid, block: np.rint(block / grid.step))
    assert refuted(prepared, level, *pair, runs=500)


def test_a_forgotten_factor_two_of_a_category_is_caught(monkeypatch):
    schema = Schema([Category("city", ["Bern", "Basel"])], scale="raw")
    pair = np.array([[1.0, 1], [0, 0]]), np.array([[0.0, 1], [1, 0]])
    assert not refuted(*audited("laplace", "attribute", schema), *pair)
    monkeypatch.setattr(distance_matrix, "one_value_squared", lambda squares, *_: max(squares))
    assert refuted(*audited("laplace", "attribute", schema), *pair)


class OneStream(Secret):
    """Gives all places of a mechanism the same stream."""

    __slots__ = ()

    def words(self, parameters, *_):
        return super().words(parameters)


@pytest.mark.parametrize("reused", [False, True])
def test_noise_reused_between_rows_of_the_triangle_is_caught(reused):
    """If all rows of the triangle drew from one stream, equal records would show equal numbers: delta = 1."""
    prepared = prepare("laplace", "attribute", CUBE)
    level = calibrate(prepared, prepared.guarantee).level
    secrets = OneStream if reused else Secret
    same, other = np.full((3, 3), 0.5), np.full((3, 3), 0.5)
    other[0, 2] = 1.0
    gaps = []
    for side, block in enumerate((same, other)):
        outputs = np.array([released(prepared, level, block, 2 * seed + side, secrets) for seed in range(500)])
        gaps.append(-np.abs(outputs[:, 0] - outputs[:, 2]))  # pairs (0,1) and (1,2): first draws of two rows
    assert lower_bound(*gaps, confidence=1 - 1e-6).refutes(1.0) == reused


# ---- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("recipe", "promise", "named"),
    [
        ({"noise": "uniform"}, {}, "noise='uniform'"),
        ({"noise": "gaussian"}, {}, "delta=0.0: give a small delta or use noise='laplace'"),
        ({"noise": "laplace"}, {"neighbours": "add-remove"}, "must be 'replace', got neighbours='add-remove'"),
        ({"noise": "laplace"}, {"unit": "edge"}, "unit='edge': use unit='attribute' or 'record'"),
        ({}, {"delta": 1e-6, "change": Change.l2(1.0), "projection": "fresh"}, "use projection='fixed'"),
    ],
)
def test_what_noisy_distances_cannot_promise_is_refused(recipe, promise, named):
    with pytest.raises(ParameterError) as caught:
        NoisyDistances(**recipe).prepare(CUBE, Guarantee(**({"epsilon": 1.0} | promise)))
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("count", "named"), [(0, "at least two rows, and the data have 0"), (1, "have 1"), (MOST_ROWS + 1, "use a sketch")]
)
def test_too_few_and_too_many_rows_are_refused_before_anything_is_drawn(count, named):
    prepared = prepare("laplace", "attribute", CUBE)
    with pytest.raises(ParameterError, match=named):
        prepared.run(Blocks(np.zeros((3, count))), 1.0, Secret.for_testing(1))
    with pytest.raises(ParameterError, match=named):
        prepared.sensitivity(count)


def test_cells_that_are_nan_or_out_of_bounds_count_as_the_nearest_bound():
    prepared = prepare("laplace", "attribute", CUBE)
    wild = np.array([[np.nan, 0.5, 7.0], [-np.inf, 0.2, np.inf], [-1.0, 2.0, 1e300]])
    tame = np.array([[0.0, 0.5, 1.0], [0.0, 0.2, 1.0], [0.0, 1.0, 1.0]])
    assert (released(prepared, 1.0, wild) == released(prepared, 1.0, tame)).all()


@pytest.mark.parametrize("level", [1e-12, 1e30])
def test_noise_that_no_grid_can_hold_is_refused(level):
    with pytest.raises(ParameterError, match="choose an epsilon between"):
        prepare("laplace", "attribute", CUBE).run(Blocks(np.zeros((3, 3))), level, Secret.for_testing(1))


@pytest.mark.parametrize("high", [1e-150, 1e150])
def test_widths_whose_squares_are_no_doubles_are_refused(high):
    with pytest.raises(ParameterError, match="the widest weighted column must be between"):
        prepare("laplace", "attribute", Schema([Real("x", 0.0, high)], scale="raw"))


def test_columns_far_narrower_than_others_vanish_without_harm():
    schema = Schema([Real("x", 0.0, 1.0), Real("y", 0.0, 1e-12), Real("z", 0.0, 1e-300, weight=1e300)], scale="raw")
    prepared = prepare("laplace", "box", schema)
    assert prepared.grid.tops.tolist() == [2.0**prepared.grid.bits, 0.0, 2.0**prepared.grid.bits]
    assert prepared.sensitivity(2) * prepared.unit(2) == 2
    rows = np.array([[0.0, 1.0], [1e-12, 0.0], [0.0, 1e-300]])
    assert exact(prepared, rows)[0] == prepared.moves[0]


def test_weights_that_a_grid_cannot_count_are_refused():
    """One step of the least double would move such a cell over its whole range."""
    schema = Schema((Real("a", 0.0, 1e-320, weight=1.1e220),), scale="raw")
    with pytest.raises(ParameterError, match=r"weights\[0\]"):
        NoisyDistances(noise="laplace").prepare(schema, Guarantee(epsilon=1.0, change=Change.l2(2e-103)))
