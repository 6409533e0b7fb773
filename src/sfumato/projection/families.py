"""The six projection families: how each draws its matrix from a stream of public random words.

Only ChaCha20, integers, exact rounded Gaussians and single IEEE operations in a fixed order are used, so the same words
give the same matrix on every machine and with every NumPy version.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy
from numpy.typing import NDArray

from sfumato.numerics.types import Floats
from sfumato.randomness.secret import Words

Matrix: TypeAlias = Any  # a dense array of doubles or a scipy.sparse.csr_array

_GAUSSIAN_BITS = 30


@dataclass(frozen=True, slots=True)
class Drawn:
    """A projection P = values * factor. ``error`` bounds the Frobenius distance of P from a draw of the ideal law."""

    values: Matrix
    factor: float
    error: float = 0.0


def identity(words: Words, dim_in: int, dim_out: int, sparsity: int) -> Drawn:
    """P = I; draws nothing."""
    del words, dim_out, sparsity
    return Drawn(scipy.sparse.csr_array(scipy.sparse.eye_array(dim_in, format="csr")), 1.0)


def gaussian(words: Words, dim_in: int, dim_out: int, sparsity: int) -> Drawn:
    """N(0, 1/k) entries, rounded to 2^-30 standard deviations."""
    del sparsity
    values = _standard_normals(words, dim_in, dim_out)
    return Drawn(values, 1 / math.sqrt(dim_out), math.sqrt(dim_in) * 2.0 ** -(_GAUSSIAN_BITS + 1))


def rademacher(words: Words, dim_in: int, dim_out: int, sparsity: int) -> Drawn:
    """Signs over sqrt(k), one random bit each."""
    del sparsity
    size = dim_in * dim_out
    packed = words.draw((size + 63) // 64).astype("<i8").view(np.uint8)
    signs = np.unpackbits(packed, count=size, bitorder="little").reshape(dim_in, dim_out)
    return Drawn(2.0 * signs - 1.0, 1 / math.sqrt(dim_out))


def achlioptas(words: Words, dim_in: int, dim_out: int, sparsity: int) -> Drawn:
    """A die for each entry: +sqrt(3/k), -sqrt(3/k), or 0 on four faces.

    A third of the entries are not zero; at that density a dense product is 3 to 6 times as fast as a sparse one, so
    the matrix is dense.
    """
    del sparsity
    faces = _below(words, 6, dim_in * dim_out).reshape(dim_in, dim_out)
    return Drawn((faces == 0).astype(float) - (faces == 1), math.sqrt(3 / dim_out))


def sparse_signs(words: Words, dim_in: int, dim_out: int, sparsity: int) -> Drawn:
    """Signs over sqrt(s) at s distinct places of each row (Kane and Nelson 2014), by Floyd's algorithm."""
    places = np.empty((dim_in, sparsity), np.int64)
    for turn, last in enumerate(range(dim_out - sparsity, dim_out)):
        candidate = _below(words, last + 1, dim_in)
        taken = (places[:, :turn] == candidate[:, None]).any(axis=1)
        places[:, turn] = np.where(taken, last, candidate)
    signs = np.where(words.draw(dim_in * sparsity) < 0, -1.0, 1.0).reshape(dim_in, sparsity)
    order = np.argsort(places, axis=1)
    data, columns = np.take_along_axis(signs, order, 1).ravel(), np.take_along_axis(places, order, 1).ravel()
    rows = np.arange(0, dim_in * sparsity + 1, sparsity)
    return Drawn(scipy.sparse.csr_array((data, columns, rows), shape=(dim_in, dim_out)), 1 / math.sqrt(sparsity))


def orthonormal(words: Words, dim_in: int, dim_out: int, sparsity: int) -> Drawn:
    """Haar columns times sqrt(d/k): Gram-Schmidt of Gaussians, which is QR with the diagonal of R positive.

    The Gaussians are rounded to 2^-30; Q moves by at most (1 + sqrt 2) ||dG||_F / (s_min - ||dG||) (Sun 1991). For the
    arithmetic 2^-40 times the condition number is allowed, thousands of times what it is seen to add.
    """
    del sparsity
    gaussians = _standard_normals(words, dim_out, dim_in)
    spectrum = np.linalg.svd(gaussians, compute_uv=False)
    moved = math.sqrt(dim_in * dim_out) * 2.0 ** -(_GAUSSIAN_BITS + 1)
    least = 0.99 * float(spectrum[-1]) - moved
    error = (2.42 * moved + 2.0**-40 * float(spectrum[0])) / least if least > 0 else math.inf
    factor = math.sqrt(dim_in / dim_out)
    return Drawn(np.ascontiguousarray(orthonormalise(gaussians).T), factor, factor * error)


DRAWS: dict[str, Callable[[Words, int, int, int], Drawn]] = {
    "identity": identity,
    "gaussian": gaussian,
    "rademacher": rademacher,
    "achlioptas": achlioptas,
    "sparse": sparse_signs,
    "orthonormal": orthonormal,
}


def orthonormalise(rows: Floats) -> Floats:
    """Gram-Schmidt, each vector twice, with every sum taken in one fixed order so that the result never varies."""
    basis = np.zeros_like(rows)
    for j, row in enumerate(rows):
        vector = row
        for _ in range(2):
            along = _fixed_sum(basis[:j] * vector, axis=1)
            vector = vector - _fixed_sum(basis[:j] * along[:, None], axis=0)
        basis[j] = vector / np.sqrt(_fixed_sum(vector * vector, axis=0))
    return basis


def _fixed_sum(terms: Floats, axis: int) -> Floats:
    """Sum along an axis by halving; NumPy's own order depends on version and processor."""
    terms = np.moveaxis(terms, axis, 0)
    while len(terms) > 1:
        half = len(terms) // 2
        folded = terms[:half] + terms[half : 2 * half]
        terms = np.concatenate([folded, terms[2 * half :]]) if len(terms) % 2 else folded
    return terms[0] if len(terms) else np.zeros(terms.shape[1:])


def _standard_normals(words: Words, rows: int, columns: int) -> Floats:
    steps = words.gaussian(rows * columns, 2.0**_GAUSSIAN_BITS).reshape(rows, columns)
    return np.asarray(steps * 2.0**-_GAUSSIAN_BITS, np.float64)


def _below(words: Words, bound: int, count: int) -> NDArray[np.int64]:
    """Integers below a bound, from 63 random bits each; the bias (below 2^-40) touches accuracy alone, not privacy."""
    return (words.draw(count) & np.int64(2**63 - 1)) % bound
