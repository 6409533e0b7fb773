"""Multiplicative perturbation: what the attacks are for. It protects nobody, and no release can be made of it.

Liu, Kargupta and Ryan 2006 publish U = XR for a secret random R: a rotation, which keeps all distances, or a projection
to fewer columns, which nearly does. There is no noise, hence no differential privacy: two tables that differ in one row
give outputs that differ in it, always. Nothing outside this folder and its command may import this module; a test holds
the release paths to that.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from sfumato import check
from sfumato.numerics.types import Floats


@dataclass(frozen=True, slots=True, eq=False)
class MultiplicativePerturbation:
    """Rows times a secret matrix. Guarantee: none."""

    matrix: Floats

    @classmethod
    def rotation(cls, dim: int, rng: np.random.Generator) -> Self:
        """A Haar-random orthogonal matrix."""
        check.whole(1, dim=dim)
        q, r = np.linalg.qr(rng.standard_normal((dim, dim)))
        return cls(q * np.sign(np.diag(r)))

    @classmethod
    def projection(cls, dim_in: int, dim_out: int, rng: np.random.Generator) -> Self:
        """Independent normal entries of variance 1 / dim_out."""
        check.whole(1, dim_in=dim_in, dim_out=dim_out)
        return cls(rng.standard_normal((dim_in, dim_out)) / np.sqrt(dim_out))

    def publish(self, rows: Floats) -> Floats:
        """What would be published: nothing in it is random once the matrix is drawn."""
        return np.asarray(rows @ self.matrix)
