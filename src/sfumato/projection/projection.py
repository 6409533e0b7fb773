"""Random projections from a public seed: a matrix of one of six families, drawn from a stream of public random words.

A ``Projection`` names a d x k matrix P with E||vP||^2 = ||v||^2; a ``Given`` one holds a matrix from elsewhere.
``on_lattice`` gives the integer form, which is in use from then on (``lattice_projection``).

Only ChaCha20, integers, exact rounded Gaussians and single IEEE operations in a fixed order are used, so the same words
give the same matrix on every machine and with every NumPy version.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.numerics import lattice
from sfumato.numerics.types import Floats
from sfumato.projection.families import Family, check_shape, settled_sparsity
from sfumato.projection.lattice_projection import Drawn, LatticeProjection, on_lattice
from sfumato.randomness.secret import Words, public_words

_GAUSSIAN_BITS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """A d x k projection of one of six families.

    identity     P = I.                          gaussian     N(0, 1/k) entries.
    rademacher   +-1/sqrt(k).                    achlioptas   +-sqrt(3/k) with probability 1/6 each, else 0.
    sparse       ``sparsity`` entries +-1/sqrt(s) at distinct places of each row (s = 1 is CountSketch); kept as CSR.
    orthonormal  sqrt(d/k) times k orthonormal columns of Haar law.
    """

    family: Family
    dim_in: int
    dim_out: int
    seed: int = 0
    sparsity: int | None = None

    def __post_init__(self) -> None:
        check.whole(0, seed=self.seed)
        object.__setattr__(self, "sparsity", settled_sparsity(self.family, self.sparsity))
        check_shape(self.family, self.dim_in, self.dim_out, self.sparsity)

    def draw(self) -> Drawn:
        """The matrix in real form, the same for the same seed everywhere and for ever."""
        sparsity = self.sparsity or 0
        words = public_words(self.seed, self.family, self.dim_in, self.dim_out, sparsity)
        return _DRAWS[self.family](words, self.dim_in, self.dim_out, sparsity)

    def on_lattice(
        self,
        ranges: ArrayLike,
        *,
        input_bits: int = lattice.INPUT_BITS,
        projection_bits: int = lattice.PROJECTION_BITS,
    ) -> LatticeProjection:
        """The integer form, for columns of weighted widths ``ranges`` with data in [0, 2^input_bits].

        Entry (j, l) becomes the integer nearest to ranges_j * P_jl / unit, where the unit is such that the largest
        entry is 2^projection_bits.
        """
        drawn = self.draw()
        if float(abs(drawn.values).max()) == 0:
            raise ParameterError(f"seed={self.seed} draws a projection of zeros: choose another seed or dim_out")
        return on_lattice(self, drawn, ranges, input_bits, projection_bits)


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """A d x k projection that is given as a dense matrix, and public: its guarantees are those of a fixed projection.

    Principal components are one, once they are computed from what has been published.
    """

    values: Floats
    family: ClassVar[Literal["principal"]] = "principal"
    sparsity: ClassVar[None] = None

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or not np.isfinite(self.values).all() or not self.values.any():
            raise ParameterError(
                f"a projection must be a finite matrix that is not zero, got one of shape {self.values.shape}"
            )

    @property
    def dim_in(self) -> int:
        """The number of input columns of the given projection."""
        return int(self.values.shape[0])

    @property
    def dim_out(self) -> int:
        """The number of output columns of the given projection."""
        return int(self.values.shape[1])

    def on_lattice(self, ranges: ArrayLike, *, input_bits: int, projection_bits: int) -> LatticeProjection:
        """The integer form of the given projection, as of one that is drawn."""
        return on_lattice(self, Drawn(self.values, 1.0), ranges, input_bits, projection_bits)


# ---- the six families ------------------------------------------------------------------------------------------------


def _identity(words: Words, dim_in: int, dim_out: int, sparsity: int) -> Drawn:
    """The family ``identity`` of projections: P = I; draws nothing."""
    del words, dim_out, sparsity
    return Drawn(scipy.sparse.csr_array(scipy.sparse.eye_array(dim_in, format="csr")), 1.0)


def _gaussian(words: Words, dim_in: int, dim_out: int, sparsity: int) -> Drawn:
    """Gaussian random projection: N(0, 1/k) entries, rounded to 2^-30 standard deviations."""
    del sparsity
    values = _standard_normals(words, dim_in, dim_out)
    return Drawn(values, 1 / math.sqrt(dim_out), math.sqrt(dim_in) * 2.0 ** -(_GAUSSIAN_BITS + 1))


def _rademacher(words: Words, dim_in: int, dim_out: int, sparsity: int) -> Drawn:
    """Rademacher random projection: signs over sqrt(k), one random bit each."""
    del sparsity
    size = dim_in * dim_out
    packed = words.draw((size + 63) // 64).astype("<i8").view(np.uint8)
    signs = np.unpackbits(packed, count=size, bitorder="little").reshape(dim_in, dim_out)
    return Drawn(2.0 * signs - 1.0, 1 / math.sqrt(dim_out))


def _achlioptas(words: Words, dim_in: int, dim_out: int, sparsity: int) -> Drawn:
    """Achlioptas random projection: a die for each entry, +sqrt(3/k), -sqrt(3/k), or 0 on four faces.

    A third of the entries are not zero; at that density a dense product is 3 to 6 times as fast as a sparse one, so
    the matrix is dense.
    """
    del sparsity
    faces = _below(words, 6, dim_in * dim_out).reshape(dim_in, dim_out)
    return Drawn((faces == 0).astype(float) - (faces == 1), math.sqrt(3 / dim_out))


def _sparse_signs(words: Words, dim_in: int, dim_out: int, sparsity: int) -> Drawn:
    """Sparse random projection (Kane and Nelson 2014): signs over sqrt(s) at s distinct places of a row, by Floyd."""
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


def _orthonormal(words: Words, dim_in: int, dim_out: int, sparsity: int) -> Drawn:
    """Orthonormal random projection: Haar columns times sqrt(d/k), by Gram-Schmidt (QR, diagonal of R positive).

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


_DRAWS: dict[str, Callable[[Words, int, int, int], Drawn]] = {
    "identity": _identity,
    "gaussian": _gaussian,
    "rademacher": _rademacher,
    "achlioptas": _achlioptas,
    "sparse": _sparse_signs,
    "orthonormal": _orthonormal,
}


def orthonormalise(rows: Floats) -> Floats:
    """Gram-Schmidt for random projections, each vector twice, sums in one fixed order: the result never varies."""
    basis = np.zeros_like(rows)
    for j, row in enumerate(rows):
        vector = row
        for _ in range(2):
            along = _fixed_sum(basis[:j] * vector, axis=1)
            vector = vector - _fixed_sum(basis[:j] * along[:, None], axis=0)
        basis[j] = vector / np.sqrt(_fixed_sum(vector * vector, axis=0))
    return basis


def _fixed_sum(terms: Floats, axis: int) -> Floats:
    """Sum by halving, so that a seed's projection never varies; NumPy's order depends on version and processor."""
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
    """Integers below a bound to draw a projection, 63 bits each; a bias under 2^-40 touches accuracy, not privacy."""
    return (words.draw(count) & np.int64(2**63 - 1)) % bound
