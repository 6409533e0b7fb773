"""Families, golden matrices, and the contract: stated sensitivity against a search over neighbours."""

import itertools
import math

import numpy as np
import pytest
from scipy import sparse

from sfumato.errors import ParameterError
from sfumato.numerics.lattice import InputGrid, coarsen, coarsened_sensitivity, product
from sfumato.numerics.spectral_norm import norm_bound
from sfumato.privacy.guarantee import Change
from sfumato.projection.projection import Projection
from support.groups import chosen

FAMILIES = ["identity", "gaussian", "rademacher", "achlioptas", "sparse", "orthonormal"]
RANGES = np.array([1.0, 3.0, 0.5, 2.0, 1.0, 1.0, 7.0])


def make(family, d=7, k=4, seed=5, sparsity=None):
    return Projection(family=family, dim_in=d, dim_out=d if family == "identity" else k, seed=seed, sparsity=sparsity)


def dense(matrix):
    return matrix.toarray() if sparse.issparse(matrix) else matrix


# ---- the draw -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_integer_matrices_never_change(family):
    lattice = make(family, d=3, k=2).on_lattice([1.0, 2.0, 0.5])
    assert dense(lattice.entries).astype(int).tolist() == GOLDEN[family]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_seed_decides_and_nothing_else(family):
    one, again, other = (dense(make(family, seed=s).draw().values) for s in (1, 1, 2))
    assert (one == again).all()
    assert family == "identity" or (one != other).any()


@pytest.mark.parametrize(("family", "sparsity"), [(f, None) for f in FAMILIES] + [("sparse", 3)])
def test_squared_lengths_are_kept_on_average(family, sparsity):
    """E||vP||^2 = ||v||^2 over seeds; a matrix 5% too large is told apart."""
    v = np.linspace(1, 2, 7)
    drawn = [make(family, seed=s, sparsity=sparsity).draw() for s in range(4000)]
    ratios = np.array([np.sum((v @ dense(x.values) * x.factor) ** 2) for x in drawn]) / (v @ v)
    error = max(ratios.std() / math.sqrt(ratios.size), 1e-12)
    assert abs(ratios.mean() - 1) < 6.2 * error
    if family != "orthonormal":
        assert family == "identity" or abs(ratios.mean() * 1.05**2 - 1) > 4 * error


def variance_formula(family, v, k, d):
    r4, v4 = (v @ v) ** 2, np.sum(v**4)
    return {
        "identity": 0.0,
        "gaussian": 2 * r4 / k,
        "rademacher": 2 * (r4 - v4) / k,
        "achlioptas": 2 * r4 / k,
        "sparse": 2 * (r4 - v4) / k,
        "orthonormal": 2 * r4 * (d - k) / (k * (d + 2)),
    }[family]


@pytest.mark.parametrize(("family", "sparsity"), [(f, None) for f in FAMILIES] + [("sparse", 3)])
def test_the_variance_of_squared_lengths_is_the_tabled_one(family, sparsity):
    v = np.linspace(1, 2, 7)
    drawn = [make(family, seed=s, sparsity=sparsity).draw() for s in range(6000)]
    squares = np.array([np.sum((v @ dense(x.values) * x.factor) ** 2) for x in drawn])
    expected = variance_formula(family, v, 4, 7)
    deviations = (squares - v @ v) ** 2
    error = deviations.std() / math.sqrt(squares.size)
    assert abs(deviations.mean() - expected) <= 6.2 * error + 1e-12
    assert family == "identity" or abs(deviations.mean() - 1.5 * expected) > 6.2 * error


def test_sparse_rows_hold_s_distinct_places_all_equally_likely():
    projection = Projection(family="sparse", dim_in=60_000, dim_out=5, seed=1, sparsity=2)
    values = projection.draw().values
    assert isinstance(values, sparse.csr_array)
    assert values.nnz == 120_000
    places = values.indices.reshape(-1, 2)
    assert (places[:, 0] < places[:, 1]).all()
    pairs = np.bincount(places[:, 0] * 5 + places[:, 1], minlength=25)
    counts = pairs[[a * 5 + b for a, b in itertools.combinations(range(5), 2)]]
    assert np.abs(counts - 6000).max() < 6.2 * math.sqrt(6000)


def test_sparse_products_touch_only_the_entries_there_are():
    lattice = Projection(family="sparse", dim_in=2000, dim_out=300_000, sparsity=2).on_lattice(1.0)
    assert isinstance(lattice.entries, sparse.csr_array)  # dense: 4.8 GB
    block = np.ones((2000, 2))
    assert product(lattice.entries, block).sum() == 2 * lattice.entries.sum()


def test_orthonormal_columns_are_orthonormal_and_haar():
    drawn = Projection(family="orthonormal", dim_in=40, dim_out=12, seed=2).draw()
    assert np.abs(drawn.values.T @ drawn.values - np.eye(12)).max() < 1e-13
    firsts = np.array([make("orthonormal", d=3, k=2, seed=s).draw().values[0, 0] for s in range(4000)])
    # A coordinate of a Haar vector in three dimensions is uniform on [-1, 1] (Archimedes).
    assert abs(firsts.mean()) < 6.2 / math.sqrt(3 * 4000)
    assert abs(np.mean(firsts**2) - 1 / 3) < 6.2 * 0.3 / math.sqrt(4000)


@pytest.mark.parametrize("family", FAMILIES)
def test_rounding_bounds_the_distance_to_the_real_matrix(family):
    for seed in range(5):
        projection = make(family, seed=seed)
        drawn, lattice = projection.draw(), projection.on_lattice(RANGES, projection_bits=12)
        distance = np.linalg.norm(dense(lattice.matrix()) - dense(drawn.values) * drawn.factor)
        assert distance <= lattice.rounding
        assert family not in ("gaussian", "orthonormal") or distance > lattice.rounding / 5


# ---- the contract ---------------------------------------------------------------------------------------------------


def extreme_changes(change, d, levels, step, categories=()):
    """Integer changes of one row that the change set allows, extreme ones first of all."""
    rng = np.random.default_rng(9)
    numeric = [j for j in range(d) if not any(a <= j < b for a, b in categories)]
    if change.kind == "attribute":
        singles = [s * levels * np.eye(d)[j] for j in numeric for s in (1, -1)]
        for a, b in categories:
            singles += [levels * (np.eye(d)[i] - np.eye(d)[j]) for i in range(a, b) for j in range(a, b) if i != j]
        return np.array(singles)
    if change.kind == "box":
        corners = np.array(list(itertools.product((-1.0, 1.0), repeat=d)))
        return levels * np.concatenate([corners, rng.integers(-1, 2, (500, d))])
    if change.kind == "l1":
        vectors = np.concatenate(
            [np.eye(d), -np.eye(d), rng.dirichlet(np.ones(d), 300) * rng.choice([-1, 1], (300, d))]
        )
    else:
        vectors = rng.standard_normal((4000, d))
        vectors = np.concatenate([np.eye(d), vectors])
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.rint(vectors * change.radius / step)  # rounding to the lattice may lengthen the change a little


CHANGES = [Change.attribute(), Change.box(), Change.l1(0.8), Change.l2(0.8)]


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("change", CHANGES, ids=lambda c: c.kind)
@pytest.mark.parametrize("family", FAMILIES)
def test_no_neighbour_moves_further_than_stated(family, change, order):
    for seed in range(4):
        lattice = make(family, seed=seed).on_lattice(RANGES)
        moves = extreme_changes(change, 7, 2.0**20, lattice.step)
        moved = np.linalg.norm(moves @ dense(lattice.entries), order, axis=1)
        assert moved.max() <= lattice.sensitivity(change, order)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("change", CHANGES, ids=lambda c: c.kind)
@pytest.mark.parametrize("family", FAMILIES)
def test_where_the_table_says_exact_a_neighbour_attains_it(family, change, order):
    lattice = make(family).on_lattice(RANGES)
    entries, step = dense(lattice.entries), lattice.step
    stated = lattice.sensitivity(change, order)
    radius = change.radius and change.radius + lattice.rounding_growth(1 if change.kind == "l1" else 2)
    if change.kind == "attribute" or (change.kind == "box" and order == 1):
        moves = extreme_changes(change, 7, 2.0**20, step)
    elif change.kind == "l1":
        moves = np.eye(7) * radius / step
    elif change.kind == "l2":
        per_step = entries / step[:, None]
        if order == 2:
            best = np.linalg.svd(per_step)[0][:, 0]
        else:
            signs = np.array(list(itertools.product((-1, 1), repeat=entries.shape[1]))).T
            image = per_step @ signs
            best = image[:, np.linalg.norm(image, axis=0).argmax()]
        moves = (best / np.linalg.norm(best) * radius / step)[None]
    else:
        return  # a box in the l2 norm is an upper bound only
    attained = np.linalg.norm(moves @ entries, order, axis=1).max()
    assert attained == pytest.approx(stated, rel=1e-9)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("change", [Change.box(), Change.l2(1.0)], ids=lambda c: c.kind)
def test_beyond_sixteen_columns_the_bounds_still_hold(change, order):
    lattice = make("gaussian", d=7, k=40).on_lattice(RANGES)
    entries = lattice.entries
    stated = lattice.sensitivity(change, order)
    moves = extreme_changes(change, 7, 2.0**20, lattice.step)[:128]
    for _ in range(30):  # climb: v -> the best v for the dual of the present image
        image = moves @ entries
        dual = np.sign(image) if order == 1 else image / np.linalg.norm(image, axis=1, keepdims=True)
        pull = dual @ entries.T
        if change.kind == "box":
            moves = np.sign(pull) * 2.0**20
        else:
            weighted = pull / lattice.step
            moves = weighted / np.linalg.norm(weighted, axis=1, keepdims=True) / lattice.step
    assert np.linalg.norm(moves @ entries, order, axis=1).max() <= stated


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_category_moves_two_columns(family, order):
    categories = ((1, 4), (5, 7))
    for seed in range(4):
        lattice = make(family, seed=seed).on_lattice(np.ones(7))
        moves = extreme_changes(Change.attribute(), 7, 2.0**20, lattice.step, categories)
        moved = np.linalg.norm(moves @ dense(lattice.entries), order, axis=1).max()
        stated = lattice.sensitivity(Change.attribute(), order, groups=chosen(*categories))
        assert moved <= stated
        assert moved == pytest.approx(stated, rel=1e-9) or stated == pytest.approx(
            lattice.sensitivity(Change.attribute(), order), rel=1e-9
        )
    if family == "identity":
        forgotten = lattice.sensitivity(Change.attribute(), order)
        assert stated == pytest.approx(forgotten * (2 if order == 1 else math.sqrt(2)), rel=1e-9)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("k", [4, 20])
def test_a_record_with_categories_is_covered(order, k):
    categories = ((0, 3), (3, 5))
    lattice = make("gaussian", k=k).on_lattice(np.ones(7))
    eye = np.eye(7)
    states = [[np.zeros(7), *eye[0:3]], [np.zeros(7), *eye[3:5]], [np.zeros(7), eye[5]], [np.zeros(7), eye[6]]]
    rows = np.array([sum(parts) for parts in itertools.product(*states)])
    moves = 2.0**20 * (rows[:, None] - rows[None]).reshape(-1, 7)
    moved = np.linalg.norm(moves @ lattice.entries, order, axis=1).max()
    stated = lattice.sensitivity(Change.box(), order, groups=chosen(*categories))
    assert moved <= stated <= lattice.sensitivity(Change.box(), order) * (1 + 1e-9)
    if order == 1 and k == 4:
        assert moved == stated


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("change", CHANGES[:2], ids=lambda c: c.kind)
def test_real_neighbours_stay_within_it_after_rounding_and_coarsening(change, order):
    """End to end on real numbers: clip, round, project, coarsen two neighbouring rows."""
    rng, shift = np.random.default_rng(8), 18
    low = rng.normal(size=7)
    grid, lattice = InputGrid(low, low + RANGES), make("gaussian").on_lattice(RANGES)
    stated = coarsened_sensitivity(lattice.sensitivity(change, order), shift, 4, order)
    one = rng.choice([-50.0, 50.0, np.nan, 0.3], (7, 5000))
    two = rng.choice([-50.0, 50.0, np.inf, 0.1], (7, 5000))
    if change.kind == "attribute":
        keep = rng.integers(0, 7, 5000)[None] != np.arange(7)[:, None]
        two = np.where(keep, one, two)
    a, b = (coarsen(product(lattice.entries, grid.round(rows)), shift) for rows in (one, two))
    assert np.linalg.norm(a - b, order, axis=0).max() <= stated


@pytest.mark.parametrize(("kind", "order"), list(itertools.product(("l1", "l2"), (1, 2))))
def test_balls_in_real_numbers_stay_within_it_after_rounding(kind, order):
    rng, radius, bits = np.random.default_rng(8), 0.05, 6  # a coarse grid, so that rounding matters
    grid = InputGrid(np.zeros(7), RANGES, bits)
    lattice = make("sparse").on_lattice(RANGES, input_bits=bits)
    change = Change(kind, radius)
    one = rng.random((7, 40_000)) * RANGES[:, None]
    steps = rng.standard_normal(one.shape) * (rng.random(one.shape) < 0.4)
    steps *= radius / np.maximum(np.linalg.norm(steps, 1 if kind == "l1" else 2, axis=0), 1e-9)
    a, b = (product(lattice.entries, grid.round(rows)) for rows in (one, one + steps))
    moved = np.linalg.norm(a - b, order, axis=0).max()
    stated = lattice.sensitivity(change, order)
    without_rounding = stated * radius / (radius + lattice.rounding_growth(1 if kind == "l1" else 2))
    assert without_rounding < moved <= stated


def test_countsketch_costs_one_whatever_the_dimension():
    for k in (2, 64, 1000):
        lattice = make("sparse", d=50, k=k).on_lattice(1.0)
        assert lattice.sensitivity(Change.attribute(), 1) * lattice.unit == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize(("d", "k", "expected"), [(300, 2, 53.6), (300, 16, 22.1), (300, 64, 13.2), (100, 20, 13.2)])
def test_fixed_gaussian_projections_cost_what_the_table_says(d, k, expected):
    """Mean over P of the certified sigma_max times 4.2247."""
    bounds = [
        (lattice := Projection(family="gaussian", dim_in=d, dim_out=k, seed=s).on_lattice(1.0)).unit
        * lattice.sensitivity(Change.l2(1.0), 2)
        for s in range(150)
    ]
    error = np.std(bounds) / math.sqrt(len(bounds)) * 4.2247
    assert abs(np.mean(bounds) * 4.2247 - expected) < 0.05 + 4 * error


# ---- the certified norm ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 1), (300, 2), (3, 50), (40, 40)])
def test_the_certified_norm_is_above_the_true_one_and_close(shape):
    from flint import arb, arb_mat, ctx  # noqa: PLC0415

    matrix = np.random.default_rng(1).standard_normal(shape) * 1e5
    bound = norm_bound(matrix)
    assert bound == pytest.approx(np.linalg.norm(matrix, 2), rel=1e-10)
    side = matrix if shape[0] >= shape[1] else matrix.T
    with ctx.workprec(300):  # bound^2 I - A^T A has only positive pivots in exact arithmetic
        gram = arb_mat([[arb(float(x)) for x in row] for row in side.T.tolist()])
        gram = gram * gram.transpose()
        n = gram.nrows()
        shifted = [[(arb(bound) ** 2 if i == j else arb(0)) - gram[i, j] for j in range(n)] for i in range(n)]
        for i in range(n):
            assert shifted[i][i] > 0
            for r in range(i + 1, n):
                factor = shifted[r][i] / shifted[i][i]
                shifted[r] = [x - factor * y for x, y in zip(shifted[r], shifted[i], strict=True)]


@pytest.mark.parametrize("scale", [1e-300, 1e-158, 1e155, 1e300])
def test_the_certified_norm_does_not_depend_on_units(scale):
    matrix = np.random.default_rng(0).normal(size=(5, 3))
    assert norm_bound(matrix * scale) / scale == pytest.approx(norm_bound(matrix), rel=1e-12)
    assert norm_bound(matrix * 2.0**-520) == norm_bound(matrix) * 2.0**-520


def test_a_matrix_that_is_not_finite_has_no_norm():
    with pytest.raises(ParameterError, match="finite"):
        norm_bound(np.array([[1.0, np.inf]]))


def test_the_certified_norm_of_sparse_and_degenerate_matrices():
    eye = sparse.csr_array(sparse.eye_array(30, format="csr"))
    assert 1 <= norm_bound(eye) < 1 + 1e-10
    assert norm_bound(np.zeros((4, 3))) == 0
    repeated = np.ones((50, 6))
    assert norm_bound(repeated) == pytest.approx(math.sqrt(300), rel=1e-10)
    large = sparse.csr_array(sparse.eye_array(5000, format="csr")) * 3.0
    assert 3 <= norm_bound(large) < 3.001


# ---- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"family": "fourier", "dim_in": 3, "dim_out": 2}, "family='fourier'"),
        ({"family": "gaussian", "dim_in": 0, "dim_out": 2}, "dim_in=0"),
        ({"family": "gaussian", "dim_in": 3, "dim_out": 0}, "dim_out=0"),
        ({"family": "gaussian", "dim_in": 3, "dim_out": 2.5}, "dim_out=2.5"),
        ({"family": "orthonormal", "dim_in": 3, "dim_out": 4}, "dim_out=4"),
        ({"family": "identity", "dim_in": 3, "dim_out": 2}, "dim_out=2"),
        ({"family": "sparse", "dim_in": 3, "dim_out": 2, "sparsity": 3}, "sparsity=3"),
        ({"family": "sparse", "dim_in": 3, "dim_out": 2, "sparsity": 0}, "sparsity=0"),
        ({"family": "gaussian", "dim_in": 3, "dim_out": 2, "sparsity": 1}, "sparsity=1"),
        ({"family": "gaussian", "dim_in": 3, "dim_out": 2, "seed": -4}, "seed=-4"),
    ],
)
def test_bad_projections_are_refused_by_name(fields, named):
    with pytest.raises(ParameterError) as caught:
        Projection(**fields)
    assert named in str(caught.value)


def test_a_projection_of_zeros_is_refused():
    with pytest.raises(ParameterError, match="another seed"):
        Projection(family="achlioptas", dim_in=1, dim_out=1, seed=1).on_lattice(1.0)


@pytest.mark.parametrize("ranges", [1e-90, 1.0, 1e90])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_units_of_the_data_do_not_matter(family, ranges):
    one, other = (make(family).on_lattice(r) for r in (1.0, ranges))
    for order in (1, 2):
        for kind in ("l1", "l2"):
            stated = [x.sensitivity(Change(kind, 0.5 * r), order) for x, r in ((one, 1.0), (other, ranges))]
            assert stated[0] == pytest.approx(stated[1], rel=1e-12)


def test_a_grid_that_does_not_fit_the_projection_is_refused():
    lattice = make("gaussian").on_lattice(1.0)
    for grid in (InputGrid(np.zeros(7), np.ones(7), 19), InputGrid(np.zeros(6), np.ones(6))):
        with pytest.raises(ParameterError, match="grid"):
            lattice.apply(grid, np.zeros((grid.dim, 2)))


def test_sums_beyond_53_bits_are_rounded_up():
    """Entries of 51 bits: sums of 16 of them are not exact in doubles, and the bound must still hold."""
    for seed in range(8):
        lattice = Projection(family="gaussian", dim_in=2, dim_out=16, seed=seed).on_lattice(
            1.0, input_bits=1, projection_bits=51
        )
        rows = [[int(x) for x in row] for row in lattice.entries]
        assert 2 * max(sum(map(abs, row)) for row in rows) <= lattice.sensitivity(Change.attribute(), 1)
        signs = itertools.product((-1, 1), repeat=2)
        box = max(sum(abs(2 * (a * x + b * y)) for x, y in zip(*rows, strict=True)) for a, b in signs)
        assert box <= lattice.sensitivity(Change.box(), 1)


@pytest.mark.parametrize("family", ["gaussian", "orthonormal"])
def test_the_rounding_fixed_beforehand_covers_every_draw(family):
    bounds = set()
    for seed in range(200):
        lattice = make(family, seed=seed).on_lattice(RANGES)
        bounds.add(lattice.rounding_beforehand)
        assert lattice.rounding <= lattice.rounding_beforehand
    assert len(bounds) == 1


@pytest.mark.parametrize("ranges", [0.0, -1.0, math.nan, math.inf, 1e-101, 1e101])
def test_bad_ranges_are_refused(ranges):
    with pytest.raises(ParameterError, match=r"ranges\[0\]"):
        make("gaussian").on_lattice(ranges)


def test_too_many_bits_for_the_dimension_are_refused():
    with pytest.raises(ParameterError, match="lower input_bits or projection_bits by 1"):
        Projection(family="sparse", dim_in=5000, dim_out=3).on_lattice(1.0)


def test_an_unknown_norm_is_refused():
    with pytest.raises(ParameterError, match="order"):
        make("gaussian").on_lattice(1.0).sensitivity(Change.box(), 3)


GOLDEN = {
    "identity": [[1048576, 0, 0], [0, 2097152, 0], [0, 0, 524288]],
    "gaussian": [[496212, -849024], [-2097152, 1714841], [61146, 32044]],
    "rademacher": [[-1048576, -1048576], [-2097152, 2097152], [524288, -524288]],
    "achlioptas": [[-1048576, -1048576], [0, 2097152], [0, 524288]],
    "sparse": [[1048576, 0], [-2097152, 0], [-524288, 0]],
    "orthonormal": [[-802240, 10567], [308878, -2097152], [350463, 121567]],
}
