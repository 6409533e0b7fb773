"""The perturbed leader: subspaces to play in each period of a stream, from what was published before it.

Online principal components (Dwork, Talwar, Thakurta and Zhang 2014, section 6): in period t a subspace of dimension k
is chosen, then the rows of the period arrive, and what the subspace keeps of them is the gain. To follow the leader is
to play the best subspace of all rows so far. The noise that protects the running second moments is what perturbs the
leader, so that following it does not fall for rows that are chosen against it.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import scipy

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.numerics.types import Floats


def leaders(matrices: Iterable[Floats], dim: int, dimension: int) -> Iterator[Floats]:
    """The subspace to play in each period of a stream, and in the next: an orthonormal basis each, (dimension, dim).

    matrices  : the running second moment after each period, with its noise.
    Guarantee : post-processing; the subspace of period t is a function of what was published up to period t - 1. In
                period 1 nothing is known, and the first columns are played.
    """
    check.whole(1, dimension=dimension)
    if dimension > dim:
        raise ParameterError(f"dimension must be at most {dim}, the encoded columns, got dimension={dimension}")
    yield np.eye(dim)[:dimension]
    for matrix in matrices:
        _, vectors = scipy.linalg.eigh(matrix, subset_by_index=(dim - dimension, dim - 1))
        yield np.ascontiguousarray(vectors[:, ::-1].T)
