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
    sqrt(2) (1 + a^2), as above. With a label, u = (x, a) with x = (z, y), and |x|^2 <= R^2 = 1 + label^2 stands for 1.
within_classes: no count moves, as n is public. Order 2: with c = <x, y> the squared norm is
    f = |x|^4 + |y|^4 - 2c^2 + 2a^2 (|x|^2 + |y|^2 - 2c) = (|x|^2 + a^2)^2 + (|y|^2 + a^2)^2 - 2 (c + a^2)^2.
    Where a <= R the last term is at best 0 and the others grow with the lengths: f <= 2 (R^2 + a^2)^2, attained by
    rows of length R with c = -a^2. Where a > R, c + a^2 >= a^2 - |x||y| > 0, so c = -|x||y| is worst; then
    f = (|x| + |y|)^2 ((|x| - |y|)^2 + 2a^2), which grows with either length (its derivative in |x| has the sign of
    |x|^2 - |x||y| + a^2 >= a^2 - |y|^2/4 > 0), so f <= 8 a^2 R^2, attained by opposite rows of length R.
    Order 1: part by part, as above; or <S, uu' - vv'> for a symmetric S as for triangles, one column larger, whose
    corner is 0: at most (R^2 + a^2) sqrt(2) |S|_F = (R^2 + a^2) sqrt(q (q + 5)/2) for q columns beside the constant.
    (lambda_min(S) <= 0 <= lambda_max(S), since a diagonal entry is 0, so shorter rows gain nothing.)
Several rows of one person move the same sums, so the caller multiplies by their number, in either norm.
"""

import math

from sfumato.numerics.lattice import Order
from sfumato.privacy.guarantee import Neighbours


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


def classes(
    dim: int, order: Order, neighbours: Neighbours, *, constant: float, label: float = 0.0, top: float = 1.0
) -> float:
    """The second moments of (z, y, constant), one for each class, when labels may change: counts, sums, triangles.

    Where there is but one class, which none can leave, this is for add-remove; ``within_classes`` is for replace.
    """
    if order == 2:
        return labelled(dim, 2, neighbours, label=math.hypot(constant, label), top=top)
    one = labelled(dim, 1, "add-remove", label=label, top=top) + constant * (math.sqrt(dim) * top + label) + constant**2
    return _up(one if neighbours == "add-remove" else 2 * one)


def within_classes(dim: int, order: Order, *, constant: float, label: float = 0.0, top: float = 1.0) -> float:
    """The same when a record is replaced by another of its class, so that no count moves."""
    squared, columns = top**2 + label**2, dim + (label > 0)
    if order == 2:
        far = 2 * constant * math.sqrt(squared) if constant**2 > squared else squared + constant**2
        return _up(math.sqrt(2) * far)
    parts = labelled(dim, 1, "replace", label=label, top=top) + 2 * constant * (math.sqrt(dim) * top + label)
    return _up(min(parts, (squared + constant**2) * math.sqrt(columns * (columns + 5) / 2)))


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
