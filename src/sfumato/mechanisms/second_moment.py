"""The private second moment: the exact Gram matrix of clipped rows, and how far one unit can move it.

Rows are centred at a public point, weighted, and rounded to integers x with |x_j| <= h_j on one common step. The sum of
x x^T over all rows is exact; its upper triangle with the diagonal gets exact noise. It is not divided by the number of
rows. Neighbours replace.

Laplace noise is the same on every entry, so what counts is the l1 norm of the move of the triangle. Gaussian noise has
the standard deviation s on the diagonal and s/sqrt(2) off it: it is isotropic once off-diagonal entries are multiplied
by sqrt(2), and then the l2 norm of the move is the Frobenius norm of the move of the whole matrix.

How far one row moves it. Let x become y, M = x x^T - y y^T, a = x + y, b = x - y. Then M = (a b^T + b a^T)/2 and
|a_j| + |b_j| = 2 max(|x_j|, |y_j|) <= 2 h_j. Write F for the sum of |M_ij| over all (i, j) and D for that over the
diagonal; the l1 norm of the triangle is (F + D)/2. F <= |a|_1 |b|_1, and D = sum |a_j| |b_j| <= |h|_2^2.
"""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from sfumato import lattice, noise
from sfumato.errors import ParameterError
from sfumato.guarantee import Guarantee
from sfumato.lattice import Floats, Integers
from sfumato.mechanisms.sketch import effective_change
from sfumato.projection import Order, Runs, check_widths, coarsened
from sfumato.rows import Rows
from sfumato.schema import Schema
from sfumato.secret import Secret

BITS = 11  # the widest column has 2^11 steps on either side of its centre: sums over 2^40 rows fit 64 bits
_STEPS = 22  # one unit's largest move is about 2^22 steps of the noise's grid, or more for many entries


def box(half: Integers, order: Order) -> float:
    """How far the matrix moves when a row moves anywhere within |x_j| <= h_j; exact for order 1.

    Order 1: |a|_1 + |b|_1 <= 2|h|_1 gives F <= |h|_1^2, so (F + D)/2 <= (|h|_1^2 + |h|_2^2)/2, the sum of h_i h_j over
    i <= j; x = h, y = 0 attains it. Order 2: |M|_F^2 = |x|^4 + |y|^4 - 2<x, y>^2 <= 2|h|_2^4; also |M_jj| <= h_j^2 and
    |M_ij| <= 2 h_i h_j, which is less where one column outweighs the others.
    """
    squares = _sum(half**2)
    if order == 1:
        return (_sum(half) ** 2 + squares) / 2
    return _up(min(math.sqrt(2) * squares, math.sqrt(4 * squares**2 - 3 * _sum(half**4))))


def attribute(half: Integers, order: Order, categories: Runs = ()) -> float:
    """How far the matrix moves when one value moves; exact for order 1.

    Only b_j is not 0. With B = |b_j|, |a_j| <= 2 h_j - B and |a_i| <= 2 h_i, so the l1 norm is at most
    B (2 h_j - B + H), H the sum of the other h_i: the largest over whole B is 2 h_j H (B = 2 h_j) if H >= 2 h_j, and
    floor((h_j + H/2)^2) otherwise; x_j = h_j, y_j = h_j - B and x_i = y_i = h_i attain it. The squared l2 norm is at
    most B^2 ((2 h_j - B)^2 + 2 Q), Q the sum of the other h_i^2, which grows with B unless h_j^2 > 4 Q; then its one
    local maximum inside is at B = (3 h_j - sqrt(h_j^2 - 4 Q))/2.
    A value of a category moves two columns instead (``two_columns``).
    """
    pairs = [two_columns(half, a, order) for a, b in categories if b > a + 1]
    if order == 1:
        others = _sum(half) - half
        moved = np.where(others >= 2 * half, 2 * half * others, (2 * half + others) ** 2 // 4)
        return max([float(moved.max()), *pairs])
    h, others = half.astype(float), (_sum(half**2) - half**2).astype(float)
    inside = (3 * h - np.sqrt(np.maximum(h**2 - 4 * others, 0))) / 2
    best = max(float((x**2 * ((2 * h - x) ** 2 + 2 * others)).max()) for x in (2 * h, inside))
    return max([_up(math.sqrt(best)), *pairs])


def two_columns(half: Integers, first: int, order: Order) -> float:
    """How far the matrix moves when the column ``first`` and another of the same half-range h move, to any values.

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
        others = _sum(half) - 2 * h
        return float(4 * h * others if others >= 3 * h else (others + 3 * h) ** 2 // 3)
    others = _sum(half**2) - 2 * h**2
    return _up(4 * h * math.sqrt(others if others >= h**2 else others + h**2))


def length_ball(longest: float, moved: float) -> float:
    """The largest |M|_F for |x|_2, |y|_2 <= L and |x - y|_2 <= r; exact.

    |M|_F^2 = X^2 + Y^2 - (X + Y - r^2)^2/2 with X = |x|^2 >= Y = |y|^2. It grows with X, so X = L^2 (where x and y are
    parallel both may grow), and is convex in Y, so Y is at an end: x and y parallel give r (2 L - r), and Y = L^2 gives
    r sqrt(2 L^2 - r^2/2), which is the larger from r = 2L/3 on and largest, sqrt(2) L^2, at r = sqrt(2) L.
    """
    moved = min(moved, math.sqrt(2) * longest)
    if moved <= 2 / 3 * longest:
        return _up(moved * (2 * longest - moved))
    return _up(moved * math.sqrt(2 * longest**2 - moved**2 / 2))


def sum_ball(half: Integers, largest: float, moved: float) -> float:
    """The l1 norm of the triangle for |x|_1, |y|_1 <= L and |x - y|_1 <= r: an upper bound.

    F <= |a|_1 |b|_1 <= r (2|h|_1 - r) for r <= |h|_1 (at most |h|_1^2 beyond), also 2 L r, and F <= |x|_1^2 + |y|_1^2,
    at most 2 L^2. D <= max|a_j| |b|_1 <= 2 max(h) r, D <= |h|_2^2, and D <= |x|^2 + |y|^2 <= 2 L^2. At r = 2L this is
    at most 2 L^2, which x = L e_1, y = L e_2 attain.
    """
    width = _sum(half)
    within = min(moved, width)
    full = min(within * (2 * width - within), 2 * largest * moved, 2 * largest**2)
    diagonal = min(2 * int(half.max()) * moved, _sum(half**2), 2 * largest**2)
    return _up((full + diagonal) / 2)


def _sum(integers: Integers) -> int:
    return int(integers.sum())


def _up(value: float) -> float:
    """Past the roundings of the few operations on exact sums that made the value."""
    return value * (1 + 2.0**-45)


@dataclass(frozen=True, slots=True, eq=False)
class CentredGrid:
    """Rows as integers about a public centre, on one common step of the weighted units.

    The centre is the middle of the bounds or, where rows are clipped to a norm, the origin, the centre of that ball;
    then numbers are cut towards 0, so that rounding lengthens no row.
    Guarantee: ``round`` maps any block whatever, NaN and infinities included, to integers |x_j| <= half_j.
    """

    schema: Schema
    centre: Floats
    half: Integers
    step: float

    @classmethod
    def of(cls, schema: Schema) -> Self:
        """The grid of a schema; no data needed."""
        encoding = schema.encoding
        check_widths(encoding.ranges)
        if schema.norm_bound is None:
            centre, extent = encoding.low / 2 + encoding.high / 2, encoding.ranges / 2
        else:
            check_widths(np.array([schema.norm_bound]))
            furthest = encoding.weights * np.maximum(np.abs(encoding.low), np.abs(encoding.high))
            centre, extent = np.zeros(encoding.dim), np.minimum(furthest, schema.norm_bound)
        step = float(extent.max()) * 2.0**-BITS
        return cls(schema, centre, np.rint(extent / step).astype(np.int64), step)

    def round(self, block: Floats) -> Floats:
        """Clip, centre, weigh and round an encoded block; integers, held in doubles."""
        steps = self.schema.clip(block)
        steps -= self.centre[:, None]
        steps *= (self.schema.encoding.weights / self.step)[:, None]
        (np.rint if self.schema.norm is None else np.trunc)(steps, out=steps)
        np.fmax(steps, -self.half[:, None], out=steps)
        return np.fmin(steps, self.half[:, None], out=steps)

    def longest(self, order: Order) -> float:
        """A bound on the norm of every rounded row."""
        widest = float(np.linalg.norm(self.half, order)) * (1 + 2.0**-40)
        if self.schema.norm_bound is None or (self.schema.norm == "l2" and order == 1):
            return widest
        return min(widest, self.schema.norm_bound / self.step * (1 + 2.0**-40))

    def reach(self, guarantee: Guarantee, order: Order) -> float:
        """How far one unit moves the exact matrix, in the norm that the noise protects against.

        Rounding moves each number by less than one step more, which lengthens a change within a ball. Rows of one
        person move the same matrix, so a group counts in full, in either norm. An l1 norm over the triangle of p
        columns is at most sqrt(p (p + 3))/2 times the Frobenius norm (Cauchy: weights 1 on the diagonal, 1/2 off it).
        """
        change, columns = effective_change(self.schema, guarantee), int(np.count_nonzero(self.half))
        if change.kind == "attribute":
            return attribute(self.half, order, self.schema.encoding.categories)
        found = box(self.half, order)
        if change.radius is not None:
            steps = change.radius / self.step * (1 + 2.0**-40)
            ball = length_ball(self.longest(2), steps + math.sqrt(columns) * (1 + 2.0**-20))
            found = min(found, ball if order == 2 else ball * math.sqrt(columns * (columns + 3)) / 2 * (1 + 2.0**-45))
            if order == 1 and change.kind == "l1":
                found = min(found, sum_ball(self.half, self.longest(1), steps + columns * (1 + 2.0**-20)))
        return found if guarantee.group == 1 else found * guarantee.group * (1 + 2.0**-45)


@dataclass(frozen=True, slots=True, eq=False)
class SecondMoment:
    """A second moment whose sensitivity is known; level = noise scale over sensitivity.

    Formal guarantee: ``noisy`` at a level has the loss of Laplace(1, level), or Gaussian(1, level) for order 2, for the
    unit, neighbours and change of the guarantee: the rows are clipped and rounded here, the sum is exact, coarsening
    adds less than a step per entry, the noise is exact.
    """

    grid: CentredGrid
    guarantee: Guarantee
    order: Order
    reach: float

    @classmethod
    def prepare(cls, schema: Schema, guarantee: Guarantee, order: Order) -> Self:
        """Compute what one unit can move, before any data is read."""
        grid = CentredGrid.of(schema)
        return cls(grid, guarantee, order, grid.reach(guarantee, order))

    @property
    def dim(self) -> int:
        """The number of columns."""
        return self.grid.half.size

    @property
    def entries(self) -> int:
        """How many numbers the triangle has."""
        return self.dim * (self.dim + 1) // 2

    @property
    def shift(self) -> int:
        """How many bits the exact sums are coarsened by, so that the noise fits its sampler."""
        return max(0, math.floor(math.log2(self.reach)) - max(_STEPS, self.entries.bit_length() + 8))

    @property
    def sensitivity(self) -> float:
        """How far one unit moves the coarsened matrix, in steps; coarsening adds less than 0.4%."""
        return coarsened(self.reach, self.shift, self.entries if self.order == 1 else self.dim**2, self.order)

    @property
    def unit(self) -> float:
        """What one step of the coarsened matrix is worth, in squared weighted units."""
        return self.grid.step**2 * 2.0**self.shift

    def scale(self, level: float) -> float:
        """The noise's scale in steps (b for Laplace, standard deviation on the diagonal for Gaussian), rounded up."""
        return math.nextafter(level * self.sensitivity, math.inf)

    def exact(self, rows: Rows) -> Integers:
        """The sum of x x^T over all rows: its diagonal, then what lies above it, row by row."""

        def one(position: int, block: Floats) -> Integers:
            del position
            return lattice.gram([self.grid.round(block)], self.dim, BITS).int64()

        whole = rows.sum(one)
        return np.concatenate([np.diagonal(whole), whole[np.triu_indices(self.dim, 1)]])

    def noisy(self, rows: Rows, level: float, secret: Secret) -> Floats:
        """The matrix with noise, symmetric, in squared weighted units; it may have negative eigenvalues."""
        scale = self.scale(level)
        if not 2 * noise.SMALLEST_SCALE <= scale <= noise.LARGEST_SCALE:
            raise ParameterError(
                f"epsilon={self.guarantee.epsilon!r} asks for {level:.3g} times the sensitivity as noise on the second "
                f"moment of {self.dim} columns, which no grid here can hold: choose an epsilon nearer to 1"
            )
        return self._matrix(self.protected(self.exact(rows), scale, secret))

    def protected(self, exact: Integers, scale: float, secret: Secret) -> Integers:
        """The triangle, coarsened, with noise of this scale."""
        triangle = lattice.coarsen(exact, self.shift)
        parameters = f"second moment {self.order} {self.guarantee!r} {scale.hex()} {self.shift}"
        words = secret.words(parameters, self.grid.schema.digest, triangle)
        if self.order == 1:
            return triangle + noise.laplace(words, self.entries, scale)
        off_diagonal = math.nextafter(scale / math.sqrt(2), math.inf)
        parts = noise.gaussian(words, self.dim, scale), noise.gaussian(words, self.entries - self.dim, off_diagonal)
        return triangle + np.concatenate(parts)

    def _matrix(self, triangle: Integers) -> Floats:
        above = np.zeros((self.dim, self.dim))
        above[np.triu_indices(self.dim, 1)] = triangle[self.dim :]
        return np.asarray((above + above.T + np.diag(triangle[: self.dim])) * self.unit)
