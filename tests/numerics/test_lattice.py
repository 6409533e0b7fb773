import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from threadpoolctl import threadpool_limits

from sfumato.errors import ParameterError, RangeError
from sfumato.numerics import lattice
from sfumato.numerics.lattice import InputGrid, Plain, Total, gram

RNG = np.random.default_rng(11)


def python_product(matrix, block):
    return [[sum(int(p) * int(x) for p, x in zip(col, row, strict=True)) for row in block.T] for col in matrix.T]


def widest_operands(dim, rows, k, input_bits, projection_bits):
    """Integers at the very edge of the exact range, with all signs."""
    block = RNG.integers(0, 2**input_bits, (dim, rows), endpoint=True).astype(float)
    matrix = RNG.integers(-(2**projection_bits), 2**projection_bits, (dim, k), endpoint=True).astype(float)
    block[:, 0], matrix[:, 0] = 2.0**input_bits, 2.0**projection_bits
    matrix[:, 1] = -(2.0**projection_bits)
    return matrix, block


@pytest.mark.parametrize(("dim", "input_bits", "projection_bits"), [(64, 20, 21), (64, 26, 21), (100, 20, 21)])
def test_products_are_exact_at_the_edge_of_the_range(dim, input_bits, projection_bits):
    lattice.check_exact(input_bits=input_bits, projection_bits=projection_bits, terms=dim)
    matrix, block = widest_operands(dim, 9, 5, input_bits, projection_bits)
    expected = python_product(matrix, block)
    assert lattice.product(matrix, block).astype(np.int64).tolist() == expected
    assert lattice.product(sparse.csr_array(matrix), block).astype(np.int64).tolist() == expected


def test_a_wider_product_would_not_be_exact():
    """The power arm: beyond 53 bits the same check fails, so it can see inexactness."""
    matrix, block = widest_operands(64, 9, 5, 28, 28)
    got = lattice.product(matrix, block)
    assert [[int(v) for v in row] for row in got] != python_product(matrix, block)


@pytest.mark.parametrize(("bits", "terms", "excess"), [((20, 21), 4097, 1), ((30, 30), 2, 8), ((27, 27), 1, 1)])
def test_too_many_bits_are_refused_with_what_to_lower(bits, terms, excess):
    with pytest.raises(ParameterError, match=rf"lower input_bits or projection_bits by {excess} in all"):
        lattice.check_exact(input_bits=bits[0], projection_bits=bits[1], terms=terms)


def test_the_largest_allowed_widths_pass():
    lattice.check_exact(input_bits=20, projection_bits=21, terms=4096)
    lattice.check_exact(input_bits=20, projection_bits=33, terms=1)


def test_rounded_products_do_not_depend_on_blocks_threads_or_layout():
    dim, rows, k = 37, 20_011, 8
    grid = InputGrid(np.full(dim, -1.0), np.full(dim, 2.0))
    matrix = RNG.integers(-(2**21), 2**21, (dim, k)).astype(float)
    columns = RNG.normal(0.5, 2.0, (dim, rows))
    whole = lattice.rounded_product(grid, matrix, columns, projection_bits=21)
    assert (whole == lattice.product(matrix, grid.round(columns))).all()
    assert (whole == lattice.rounded_product(grid, matrix, np.asfortranarray(columns), projection_bits=21)).all()
    assert (whole == lattice.rounded_product(grid, sparse.csr_array(matrix), columns, projection_bits=21)).all()
    for size in (1, 777, 4096):
        windows = [slice(a, a + size) for a in range(0, min(rows, 40 * size), size)]
        with ThreadPoolExecutor(3) as pool:
            parts = list(
                pool.map(lambda w: lattice.rounded_product(grid, matrix, columns[:, w], projection_bits=21), windows)
            )
        assert (np.concatenate(parts, axis=1) == whole[:, : windows[-1].stop]).all()


def test_products_do_not_depend_on_the_threads_of_blas():
    dim, rows, k = 100, 1024, 64
    matrix, block = widest_operands(dim, rows, k, 20, 21)
    cells = block.astype(np.int64)
    expected, squares = matrix.astype(np.int64).T @ cells, (cells @ cells.T).tolist()
    for threads in (1, 2, 3):
        with threadpool_limits(threads, user_api="blas"):
            assert (lattice.product(matrix, block) == expected).all()
            assert lattice.gram([block], dim, 20).integers().tolist() == squares


def test_float32_columns_are_taken_as_they_are():
    grid = InputGrid([0.0], [1.0])
    single = RNG.random((1, 50)).astype(np.float32)
    assert (grid.round(single) == grid.round(single.astype(float))).all()


@settings(max_examples=200, deadline=None)
@given(st.floats(), st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(1, 40))
def test_any_double_whatever_lands_on_the_lattice(cell, low, width, bits):
    grid = InputGrid([low], [low + width], bits)
    rounded = float(grid.round(np.array([[cell]]))[0, 0])
    assert 0 <= rounded <= 2**bits
    assert rounded == int(rounded)
    if math.isnan(cell) or cell <= low:
        assert rounded == 0
    elif cell >= low + width:
        assert rounded == 2**bits
    else:
        assert abs(low + rounded * grid.step[0] - cell) <= grid.step[0] * 0.5001 + 1e-9 * (abs(low) + width)


def test_bounds_are_lattice_points():
    grid = InputGrid([0.0, -3.0], [120.0, 7.0])
    assert grid.round(np.array([[0.0, 120.0], [-3.0, 7.0]])).tolist() == [[0, 2**20], [0, 2**20]]


@pytest.mark.parametrize(
    ("low", "high", "bits", "named"),
    [
        ([0.0], [math.inf], 20, r"high\[0\]=inf"),
        ([math.nan], [1.0], 20, r"low\[0\]=nan"),
        ([0.0, 1.0], [1.0, 1.0], 20, r"high\[1\]"),
        ([0.0], [-1.0], 20, r"low=0.0, high=-1.0"),
        ([-1.7e308], [1.7e308], 20, "usable width"),
        ([0.0], [5e-324], 20, "usable width"),
        ([0.0], [1.0], 0, "input_bits=0"),
        ([0.0], [1.0, 2.0], 20, "one length"),
    ],
)
def test_unusable_bounds_are_refused(low, high, bits, named):
    with pytest.raises(ParameterError, match=named):
        InputGrid(low, high, bits)


def test_columns_of_another_shape_are_refused():
    with pytest.raises(ParameterError, match=r"shape \(2, rows\)"):
        InputGrid([0, 0], [1, 1]).round(np.zeros((3, 4)))


@given(st.integers(-(2**53), 2**53), st.integers(0, 40))
def test_coarsening_rounds_half_up_exactly(value, shift):
    expected = (value + (1 << shift >> 1)) >> shift
    assert int(lattice.coarsen(np.array([float(value)]), shift)[0]) == expected


def test_grams_are_exact_whatever_the_order_and_the_blocks():
    dim, rows, bits = 5, 3000, 20
    data = RNG.integers(-(2**bits), 2**bits, (dim, rows), endpoint=True).astype(float)
    data[:, 0] = 2.0**bits
    as_python = [[int(v) for v in row] for row in data]
    gram = [[sum(a * b for a, b in zip(x, y, strict=True)) for y in as_python] for x in as_python]
    for order, size in ((np.arange(rows), rows), (np.arange(rows)[::-1], 64), (RNG.permutation(rows), 1)):
        shuffled = data[:, order]
        blocks = [shuffled[:, a : a + size] for a in range(0, rows, size)]
        assert lattice.gram(blocks, dim, bits).integers().tolist() == gram


def test_grams_of_wide_integers_are_cut_into_exact_pieces():
    bits, rows = 26, 64  # 2 * 26 + 6 bits: one float64 product would not be exact
    data = np.full((2, rows), 2.0**bits - 1)
    assert lattice.gram([data], 2, bits).integers().tolist() == [[rows * (2**26 - 1) ** 2] * 2] * 2
    assert float((data @ data.T)[0, 0]) != rows * (2**26 - 1) ** 2


def test_totals_go_beyond_64_bits_and_merge():
    block = np.array([2.0**53, -(2.0**53)])
    one, other = Total((2,)), Total((2,))
    for _ in range(3000):
        one.add(block)
        other.add(block.astype(np.int64) - 7)
    one.merge(other)
    assert one.integers().tolist() == [6000 * 2**53 - 21000, -6000 * 2**53 - 21000]
    with pytest.raises(RangeError, match="64-bit sums"):
        one.int64()


def test_sums_of_numbers_that_are_too_wide_are_refused():
    for bad in (2.0**21, np.nan):
        with pytest.raises(OverflowError, match="20 bits"):
            lattice.gram([np.full((2, 3), bad)], 2, 20)
    with pytest.raises(RangeError, match="62 bits"):
        Total((1,)).add(np.array([2.0**63]))


def test_the_grid_clips_by_itself_whatever_its_columns_let_through():
    """Even columns that put NaN in the place of NaN: the bound on a change must not rest on who encodes."""
    cells = np.array([np.nan, -np.inf, np.inf, 0.5], np.float32)
    grid = InputGrid([0.0, 0.0], [1.0, 1.0], 4)
    rounded = grid.round(Plain([cells, cells], np.array([np.nan, 1.0])))
    assert rounded.tolist() == [[0, 0, 16, 8], [16, 0, 16, 8]]


@pytest.mark.parametrize("shift", [0, 1, 5, 18, 31, 32, 33, 40, 60])
def test_coarsened_totals_are_those_of_their_integers(shift):
    rng = np.random.default_rng(shift)
    total = Total((500,))
    for _ in range(3):
        total.add(rng.integers(-(2**61), 2**61, 500))
    total.add(np.concatenate([np.arange(-250, 250) << min(shift, 40) >> 1]))
    whole = total.integers()
    if shift < 2:
        total = total.part(np.array([abs(x) < 2**60 for x in whole]))
        whole = total.integers()
    expected = [(x + (1 << shift >> 1)) >> shift for x in whole.tolist()]
    assert total.coarsened(shift).tolist() == expected
    assert np.allclose(total.doubles(), whole.astype(float), rtol=1e-15)


def test_coarsened_totals_are_cut_and_never_refused_as_which_ones_are_large_depends_on_cells():
    total, steps = Total((6,)), np.array([2**62, 2**62 - 1, -(2**62), -(2**62) - 1, 5, -7])
    for _ in range(4):
        total.add(steps)
    whole = [4 * int(x) for x in steps]
    for shift in (0, 1, 2, 3, 31, 32, 33, 60):
        rounded = [(x + (1 << shift >> 1)) >> shift for x in whole]
        assert total.coarsened(shift).tolist() == [min(max(x, -(2**62)), 2**62 - 1) for x in rounded]
    with pytest.raises(RangeError, match="64-bit sums"):
        total.int64()


@pytest.mark.parametrize("bits", [11, 20, 23, 26])
def test_gram_matrices_are_exact_at_every_width(bits):
    rng = np.random.default_rng(bits)
    block = rng.integers(-(2**bits), 2**bits, (3, 5000), endpoint=True).astype(float)
    block[0] = 2.0**bits
    whole = block.astype(np.int64).astype(object)
    assert (gram([block, block[:, :7]], 3, bits).integers() == whole @ whole.T + whole[:, :7] @ whole[:, :7].T).all()
