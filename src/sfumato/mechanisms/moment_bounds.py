"""How far one row can move a private second moment: the bounds behind its sensitivities.

How far one row moves it. Let x become y, M = x x^T - y y^T, a = x + y, b = x - y. Then M = (a b^T + b a^T)/2 and
|a_j| + |b_j| = 2 max(|x_j|, |y_j|) <= 2 h_j. Write F for the sum of |M_ij| over all (i, j) and D for that over the
diagonal; the l1 norm of the triangle is (F + D)/2. F <= |a|_1 |b|_1, and D = sum |a_j| |b_j| <= |h|_2^2.

A constant c, the *anchor*, may stand beside each row: the sum of (x, c)(x, c)^T holds the second moment, c times the
sum and c^2 times the number of rows, in one matrix that moves less than its parts would add up to. It never moves
itself: in the bounds below it is a column with |b| = 0 and |a| = 2c.
"""

import math

import numpy as np

from sfumato.numerics.types import Integers, Order
from sfumato.projection.unit_ball import rounded_up
from sfumato.tables.encoding import Group


def box(half: Integers, order: Order, anchor: int = 0) -> float:
    """How far a second moment moves when a row moves anywhere within |x_j| <= h_j; exact for order 1, no anchor.

    Order 1: |a|_1 + |b|_1 <= 2|h|_1 gives F <= |h|_1^2, so (F + D)/2 <= (|h|_1^2 + |h|_2^2)/2, the sum of h_i h_j over
    i <= j; x = h, y = 0 attains it. Order 2: |M|_F^2 = |x|^4 + |y|^4 - 2<x, y>^2 <= 2|h|_2^4; also |M_jj| <= h_j^2 and
    |M_ij| <= 2 h_i h_j, which is less where one column outweighs the others.
    With an anchor c, order 1: c |b|_1 comes on top. The whole is at most the sum over j of |b_j| (|h|_1 + h_j + c) less
    (|b|_1^2 + |b|_2^2)/2, largest at |b_j| = h_j + c/(p + 1) for p columns. Order 2: (x, c) has squared length at most
    |h|_2^2 + c^2; also |M_jc| <= 2 h_j c.
    """
    total, squares = _sum(half), _sum(half**2)
    if order == 1:
        beside = anchor * total + anchor**2 * half.size / (2 * (half.size + 1))
        alone = (total**2 + squares) // 2  # exact: both are even or both are odd
        return (
            rounded_up(alone + rounded_up(beside))
            if anchor
            else float(alone)
            if alone <= 1 << 53
            else rounded_up(alone)
        )
    by_length = math.sqrt(2) * (squares + anchor**2)
    fourths = sum(h**4 for h in half.tolist())  # of Python's integers, which have no limit
    return rounded_up(min(by_length, math.sqrt(4 * squares**2 - 3 * fourths + 8 * anchor**2 * squares)))


def arrival(lengths: tuple[float, float], order: Order, anchor: int, *, centred: bool) -> float:
    """How far a second moment moves when a row x with |x|_1 <= L1 and |x|_2 <= L2 comes or goes; c^2 counts it.

    The triangle of x x^T has the l1 norm (|x|_1^2 + |x|_2^2)/2 and, in the norm of order 2, |x|_2^2. Centred, the row
    is (x, c): the same with L1 + c and L2^2 + c^2. Otherwise c^2 is one more number beside the triangle.
    """
    first, second = lengths
    if centred:
        first, squared = first + anchor, second**2 + anchor**2
        return rounded_up((first**2 + squared) / 2 if order == 1 else squared)
    return rounded_up((first**2 + second**2) / 2 + anchor**2 if order == 1 else math.hypot(second**2, anchor**2))


def attribute(half: Integers, order: Order, groups: tuple[Group, ...] = (), anchor: int = 0) -> float:
    """How far a second moment moves when one value of a row moves; exact for order 1.

    Only b_j is not 0. With B = |b_j|, |a_j| <= 2 h_j - B and |a_i| <= 2 h_i, so the l1 norm is at most
    B (2 h_j - B + H), H the sum of the other h_i: the largest over whole B is 2 h_j H (B = 2 h_j) if H >= 2 h_j, and
    floor((h_j + H/2)^2) otherwise; x_j = h_j, y_j = h_j - B and x_i = y_i = h_i attain it. The squared l2 norm is at
    most B^2 ((2 h_j - B)^2 + 2 Q), Q the sum of the other h_i^2, which grows with B unless h_j^2 > 4 Q; then its one
    local maximum inside is at B = (3 h_j - sqrt(h_j^2 - 4 Q))/2.
    A value of a category moves two columns instead (``two_columns``). An anchor is one of the others. Sets, vectors and
    numbers whose missingness is kept move more, which is not counted here.
    """
    categories = [group.start for group in groups if group.most == 1 and group.stop > group.start + 1]
    pairs = [two_columns(half, first, order, anchor) for first in categories]
    if order == 1:
        others = _sum(half) + anchor - half
        moved = np.where(others >= 2 * half, 2 * half * others, (2 * half + others) ** 2 // 4)
        return max([float(moved.max()), *pairs])
    h, others = half.astype(float), (_sum(half**2) + anchor**2 - half**2).astype(float)
    inside = (3 * h - np.sqrt(np.maximum(h**2 - 4 * others, 0))) / 2
    best = max(float((x**2 * ((2 * h - x) ** 2 + 2 * others)).max()) for x in (2 * h, inside))
    return max([rounded_up(math.sqrt(best)), *pairs])


def two_columns(half: Integers, first: int, order: Order, anchor: int = 0) -> float:
    """How far a second moment moves when column ``first`` and another of equal half-range h move, to any values.

    Let B, C be their |b_j| and s = B + C. Order 1: with H the sum of the other h_i and |a_j| = 2h - |b_j| the triangle
    moves by at most H s + 3 h s - (B^2 + C^2 + B C), largest for B = C: (H + 3h) s - 3 s^2/4, so 4 h H (s = 4h) if
    H >= 3 h, and (H + 3h)^2/3 otherwise. Order 2: with Q the sum of the other h_i^2, B and C = m +- e, n = 2h - m,
    2|M|_F^2 = (4Q + |a'|^2)|b|^2 + <a, b>^2 = 8 Q (m^2 + e^2) + 8 m^2 n^2 + 4 e^2 (m - n)^2 + 8 e^4 (a' the part of a
    on the two columns). It grows with e, up to min(m, n). For m <= n one column then stands still (``attribute``). For
    e = n, |M|_F^2 <= 16 h^2 Q, the value at n = 0, iff Q (2h - n) >= h^2 (3 n - 4 n^2/h + 2 n^3/h^2), which holds for
    all n <= h if Q >= h^2. For smaller Q, Cauchy's inequality and |a'|^2 |b|^2 <= 16 h^4 give 16 h^2 (Q + h^2).
    """
    h = int(half[first])
    if order == 1:
        others = _sum(half) + anchor - 2 * h
        return float(4 * h * others if others >= 3 * h else (others + 3 * h) ** 2 // 3)
    others = _sum(half**2) + anchor**2 - 2 * h**2
    return rounded_up(4 * h * math.sqrt(others if others >= h**2 else others + h**2))


def length_ball(longest: float, moved: float) -> float:
    """How far a second moment moves in the Frobenius norm for |x|_2, |y|_2 <= L and |x - y|_2 <= r; exact.

    |M|_F^2 = X^2 + Y^2 - (X + Y - r^2)^2/2 with X = |x|^2 >= Y = |y|^2. It grows with X, so X = L^2 (where x and y are
    parallel both may grow), and is convex in Y, so Y is at an end: x and y parallel give r (2 L - r), and Y = L^2 gives
    r sqrt(2 L^2 - r^2/2), which is the larger from r = 2L/3 on and largest, sqrt(2) L^2, at r = sqrt(2) L.
    """
    moved = min(moved, math.sqrt(2) * longest)
    if moved <= 2 / 3 * longest:
        return rounded_up(moved * (2 * longest - moved))
    return rounded_up(moved * math.sqrt(2 * longest**2 - moved**2 / 2))


def sum_ball(half: Integers, largest: float, moved: float) -> float:
    """How far a second moment's triangle moves in l1 for |x|_1, |y|_1 <= L and |x - y|_1 <= r: an upper bound.

    F <= |a|_1 |b|_1 <= r (2|h|_1 - r) for r <= |h|_1 (at most |h|_1^2 beyond), also 2 L r, and F <= |x|_1^2 + |y|_1^2,
    at most 2 L^2. D <= max|a_j| |b|_1 <= 2 max(h) r, D <= |h|_2^2, and D <= |x|^2 + |y|^2 <= 2 L^2. At r = 2L this is
    at most 2 L^2, which x = L e_1, y = L e_2 attain.
    """
    width = _sum(half)
    within = min(moved, width)
    full = min(within * (2 * width - within), 2 * largest * moved, 2 * largest**2)
    diagonal = min(2 * int(half.max()) * moved, _sum(half**2), 2 * largest**2)
    return rounded_up((full + diagonal) / 2)


def _sum(integers: Integers) -> int:
    return int(integers.sum())
