"""Sparse rows on the lattice: the same integers as dense ones, to the bit."""

import numpy as np
import pytest
from scipy import sparse

from sfumato.errors import ParameterError
from sfumato.numerics.lattice import InputGrid, rounded_product, rounded_sparse_product


@pytest.mark.parametrize("matrix", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_sparse_rows_give_the_integers_of_dense_ones(matrix):
    rng = np.random.default_rng(1)
    grid = InputGrid([-1.0, 0.0, -3.0, 0.5], [2.0, 1.0, 5.0, 4.0])
    entries = matrix(rng.integers(-(2**20), 2**20, (4, 3)).astype(float))
    rows = rng.uniform(-4, 6, (50, 4)) * (rng.random((50, 4)) < 0.4)
    rows[3] = [np.nan, np.inf, -np.inf, 0]
    stored = sparse.csr_array(rows)
    for shift in (0, 5):
        dense = rounded_product(grid, entries, rows.T.copy(), projection_bits=21, shift=shift)
        found = rounded_sparse_product(grid, entries, stored, projection_bits=21, shift=shift)
        assert (found == dense).all()
    assert (
        rounded_sparse_product(grid, entries, stored, projection_bits=21)
        == rounded_product(grid, entries, rows.T.copy(), projection_bits=21)
    ).all()


def test_sparse_rows_of_another_width_are_refused():
    grid = InputGrid([0.0, 0.0], [1.0, 1.0])
    with pytest.raises(ParameterError, match="2 columns"):
        rounded_sparse_product(grid, np.ones((2, 1)), sparse.csr_array(np.ones((3, 5))), projection_bits=21)
