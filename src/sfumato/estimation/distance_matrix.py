"""Squared distances between all pairs of n points: their order in a triangle, and what points in space can have.

The strict upper triangle is kept in row-major order: (0,1), (0,2), ..., (0,n-1), (1,2), ... Cleaning is post-processing
of a release and costs no privacy.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import scipy

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.numerics.types import Floats, Integers
from sfumato.tables.encoding import Group
from sfumato.tables.schema import Schema

Groups: TypeAlias = tuple[Group, ...]  # encoded columns that one value moves together

# ---- how far apart rows can be --------------------------------------------------------------------------------------


def one_value_squared(squares: Sequence[float], groups: Groups = (), step: float = 0.0) -> float:
    """The most that one value adds to a squared distance in the matrix, for columns of these squared widths.

    A category that changes moves two of its one-hot columns, a set two for each item, a vector all of its columns, as
    far as its length allows. Whole numbers in, a whole number out. ``step``: of the grid that widths are counted in.
    """
    alone, together = _values(squares, groups, step)
    return max([*alone, *together])


def diameter_squared(squares: Sequence[float], groups: Groups = (), step: float = 0.0) -> float:
    """Largest squared distance in the matrix of rows within their bounds, for columns of these squared widths.

    One category adds the squares of two of its columns, however many it has: two rows hold at most one value each.
    """
    alone, together = _values(squares, groups, step)
    return sum(alone) + sum(together)


def _values(squares: Sequence[float], groups: Groups, step: float) -> tuple[list[float], list[float]]:
    """What each column of its own, and each group, adds to a squared distance in the matrix at most."""
    taken = {j for group in groups for j in range(group.start, group.stop)}
    return [s for j, s in enumerate(squares) if j not in taken], [_together(squares, g, step) for g in groups]


def _together(squares: Sequence[float], group: Group, step: float) -> float:
    own = squares[group.start : group.stop]
    if group.choices is not None:
        return sum(sorted(own)[-group.choices :])
    if not step or not (group.bound is not None or group.level):
        return sum(own)
    longest = group.reach2 / step * (1 + 1e-9) + math.sqrt(len(own)) * (1 + 1e-6)  # rounded to the grid
    return min(sum(own), math.floor(longest**2 * (1 + 1e-12)))


def clip_diameter(schema: Schema) -> float:
    """Largest possible distance in the matrix of rows that are clipped to a norm.

    How far apart two rows can be once each is clipped to the schema's norm C; infinite without a clip.

    2C, and sqrt(2) C if no column takes both signs: then <a, b> >= 0, so ||a - b||^2 <= ||a||^2 + ||b||^2. An l1 ball
    lies in the l2 ball of its radius.
    """
    if schema.norm_bound is None:
        return math.inf
    encoding = schema.encoding
    one_sign = bool(np.all((encoding.low >= 0) | (encoding.high <= 0)))
    return (math.sqrt(2) if one_sign else 2) * schema.norm_bound


def widest_squared(schema: Schema) -> float:
    """Largest possible squared distance in the matrix of rows of a schema, in weighted units."""
    encoding = schema.encoding
    numbers = [group for group in encoding.groups if group.choices is None]
    squares = encoding.ranges**2
    for group in numbers:
        squares[group.start : group.stop] *= min(1.0, group.reach2**2 / squares[group.start : group.stop].sum())
    return min(diameter_squared(squares.tolist(), encoding.groups), clip_diameter(schema) ** 2)


# ---- the triangle ---------------------------------------------------------------------------------------------------


def pairs(rows: int) -> int:
    """How many pairs of rows, so entries, the triangle of a distance matrix has."""
    return rows * (rows - 1) // 2


def place(first: Integers, second: Integers, rows: int) -> Integers:
    """Where pairs of different rows stand in the triangle of a distance matrix.

    In step; the order within a pair does not matter.
    """
    i, j = np.minimum(first, second), np.maximum(first, second)
    return np.asarray(i * (2 * rows - i - 1) // 2 + j - i - 1)


def square(triangle: Floats, rows: int) -> Floats:
    """The whole distance matrix, symmetric with zeros on its diagonal, that has this strict upper triangle."""
    if triangle.shape != (pairs(rows),):
        raise ParameterError(f"the triangle of {rows} rows has {pairs(rows)} entries, got shape {triangle.shape}")
    matrix = np.zeros((rows, rows))
    matrix[np.triu_indices(rows, 1)] = triangle
    matrix += matrix.T
    return matrix


# ---- points behind distances ----------------------------------------------------------------------------------------


def between(points: Floats) -> Floats:
    """The distance matrix of a table of points: squared distances between all pairs of its rows."""
    return _of_gram(points @ points.T)


def _of_gram(gram: Floats) -> Floats:
    norms = np.diag(gram)
    matrix = np.maximum(norms + norms[:, None] - 2 * gram, 0.0)
    np.fill_diagonal(matrix, 0.0)
    return np.asarray((matrix + matrix.T) / 2)


def _centred(matrix: Floats) -> Floats:
    """Double centring of a distance matrix, J A J with J = I - ee^T/n: rows and columns less their means."""
    means = matrix.mean(axis=0)
    return np.asarray(matrix - means - means[:, None] + means.mean())


def points(matrix: Floats, rank: int) -> Floats:
    """Points in ``rank`` dimensions, centred, whose distance matrix comes near the given one: classical scaling.

    The Gram matrix of centred points is -JDJ/2; its ``rank`` largest eigenvalues are kept, those below 0 become 0. For
    squared distances of points in at most that many dimensions the answer is exact, up to rotation.
    Reference: Torgerson 1952; Gower 1966.
    """
    count = len(matrix)
    check.whole(1, rank=rank)
    kept = min(rank, count)
    gram = -_centred(matrix) / 2
    values, vectors = scipy.linalg.eigh(gram, subset_by_index=(count - kept, count - 1))
    if len(values) < kept:  # LAPACK may miss some where many are equal
        values, vectors = (all_of[..., -kept:] for all_of in np.linalg.eigh(gram))
    found = vectors[:, ::-1] * np.sqrt(np.maximum(values[::-1], 0.0))
    return np.pad(found, ((0, 0), (0, rank - kept)))


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """A matrix of squared distances that points can have, after how many rounds, and whether these were enough."""

    matrix: Floats
    rounds: int
    converged: bool


def nearest_distances(matrix: Floats, *, tolerance: float = 1e-7, rounds: int = 2000) -> Fitted:
    """The matrix of squared distances between points that is nearest to a symmetric one with zero diagonal (Frobenius).

    Squared distances are the symmetric matrices with zero diagonal that lie in the cone K = {A: x^T A x <= 0 for all x
    orthogonal to e} (Schoenberg 1935). Projection on K is A - (JAJ)_+, on the zero diagonals it is setting them to 0,
    and Dykstra's alternation of the two keeps of its past only a diagonal y: y grows by diag P_K(F - diag y), which is
    the gradient of the concave dual problem and is 0 at the optimum (Glunt, Hayden, Hong, Wells 1990). Nesterov's
    momentum with restarts makes the same steps longer. It ends when the diagonal is below ``tolerance`` times the
    norm of the matrix, or after ``rounds`` decompositions. What is returned is always made from a positive
    semidefinite Gram matrix, so it is one of squared distances in either case; after one round it is classical
    scaling with all positive eigenvalues.

    Error: the set is convex, so whatever squared distances the truth has, the answer is no farther from it than the
    noisy matrix was.
    """
    check.positive(tolerance=tolerance)
    check.whole(1, rounds=rounds)
    small = tolerance * float(np.linalg.norm(matrix))
    before = ahead = np.zeros(len(matrix))
    pace, turn, done = 1.0, 0, False
    while True:
        inside = _in_cone(matrix - np.diag(ahead))
        gap = np.diag(inside).copy()
        turn, done = turn + 1, float(np.linalg.norm(gap)) <= small
        if done or turn == rounds:
            return Fitted(_of_gram(-_centred(inside) / 2), turn, done)
        after = ahead + gap
        pace = 1.0 if gap @ (after - before) < 0 else pace  # momentum that points downhill is given up
        longer = (1 + math.sqrt(1 + 4 * pace**2)) / 2
        ahead, before, pace = after + (pace - 1) / longer * (after - before), after, longer


def _in_cone(matrix: Floats) -> Floats:
    """Projection of a symmetric matrix on the cone K, in which matrices of squared distances lie."""
    values, vectors = np.linalg.eigh(_centred(matrix))
    above = vectors[:, values > 0] * np.sqrt(values[values > 0])
    return np.asarray(matrix - above @ above.T)
