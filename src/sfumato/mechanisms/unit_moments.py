"""How far one unit moves sums and second moments of rows within a ball: sensitivities, as pure functions.

Rows z have Euclidean length at most ``top``, which the caller enforces. What is appended to them is bounded too: a
label |y| <= label, a constant. Sums are not divided by the number of rows. Second moments are upper triangles with the
diagonal; in order 1 their entries count as they are, in order 2 off-diagonal entries count sqrt(2) times (svec), so
that the norm is the Frobenius norm of the whole matrix.

Proofs, for rows of length 1; M = xx' - yy'.
triangle, replace, order 1: the sum of |M_ij| over i <= j is <S, M> for a symmetric S with |S_ii| = 1, |S_ij| = 1/2,
    so x'Sx - y'Sy <= lambda_max(S) + |lambda_min(S)| <= sqrt(2) |S|_F = sqrt(p (p + 3)/2). For p = 1 it is 1.
triangle, replace, order 2: |M|_F^2 = |x|^4 + |y|^4 - 2 <x, y>^2 <= 2.
triangle, add-remove: (|x|_1^2 + |x|_2^2)/2 <= (p + 1)/2; |xx'|_F = |x|^2.
appended: u = (z, y) has squared length at most 1 + a^2, so what holds for triangles of p + 1 columns holds, times
    1 + a^2; in order 1 also the parts added up: z_i y move by 2 a sqrt(p) in all (a sqrt(p) when one row is added),
    y^2 by a^2.
classes: the triangles of u = (z, a) of all classes as one vector. A record that leaves one class for another moves two
    of them as if it were removed and added: twice add-remove in order 1, sqrt(2) (1 + a^2) in order 2. One that stays
    moves one triangle: in order 1 by sqrt(p (p + 3)/2) + 2 a sqrt(p), which is less; in order 2 by at most
    sqrt(2) (1 + a^2), as above. That the corner a^2 does not move then is not used.
Several rows of one person move the same sums, so the caller multiplies by their number, in either norm.
"""

import math

from sfumato.guarantee import Neighbours
from sfumato.projection import Order


def sums(
    dim: int, order: Order, neighbours: Neighbours, *, top: float = 1.0, appended: tuple[float, ...] = ()
) -> float:
    """The sum over all rows of (z, appended numbers within +- these)."""
    moved = math.sqrt(dim) * top + math.fsum(appended) if order == 1 else math.hypot(top, *appended)
    return _up(moved if neighbours == "add-remove" else 2 * moved)


def triangle(dim: int, order: Order, neighbours: Neighbours, *, top: float = 1.0) -> float:
    """The second moment of z."""
    if neighbours == "add-remove":
        return _up(((dim + 1) / 2 if order == 1 else 1.0) * top**2)
    if dim == 1:
        return top**2
    return _up((math.sqrt(dim * (dim + 3) / 2) if order == 1 else math.sqrt(2)) * top**2)


def labelled(dim: int, order: Order, neighbours: Neighbours, *, label: float, top: float = 1.0) -> float:
    """The second moment of (z, y), |y| <= label."""
    squared = top**2 + label**2
    if order == 2:
        return _up(squared * (math.sqrt(2) if neighbours == "replace" else 1.0))
    cross = label * math.sqrt(dim) * top * (2 if neighbours == "replace" else 1)
    parts = triangle(dim, 1, neighbours, top=top) + cross + label**2
    return _up(min(parts, triangle(dim + 1, 1, neighbours) * squared))


def classes(dim: int, order: Order, neighbours: Neighbours, *, constant: float, top: float = 1.0) -> float:
    """The second moments of (z, constant), one for each class, when labels may change: counts, sums and triangles."""
    if order == 2:
        return labelled(dim, 2, neighbours, label=constant, top=top)
    one = triangle(dim, 1, "add-remove", top=top) + constant * math.sqrt(dim) * top + constant**2
    return _up(one if neighbours == "add-remove" else 2 * one)


def within_classes(dim: int, order: Order, *, constant: float, top: float = 1.0) -> float:
    """The same when labels are public, so that a record is replaced by another of its class and no count moves."""
    if order == 2:
        return labelled(dim, 2, "replace", label=constant, top=top)
    return _up(triangle(dim, 1, "replace", top=top) + 2 * constant * math.sqrt(dim) * top)


def published(dim: int, *, top: float = 1.0) -> float:
    """What Chanyaswad et al. 2019, Lemma 4, say of the whole matrix in order 1. False for more than two columns.

    The truth is sqrt(2) * dim for even dim, attained along the extreme eigenvectors of [[J, J], [J, -J]].
    """
    return 2 * math.sqrt(dim) * top**2


def whole(dim: int, *, top: float = 1.0) -> float:
    """A proved bound for the whole matrix in order 1: as for triangles, with |S_ij| = 1; exact for even dim."""
    return top**2 if dim == 1 else _up(math.sqrt(2) * dim * top**2)


def _up(value: float) -> float:
    """Past the roundings of a few operations."""
    return value * (1 + 2.0**-45)
