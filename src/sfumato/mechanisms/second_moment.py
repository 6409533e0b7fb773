"""The private second moment: the exact Gram matrix of clipped rows, and how far one unit can move it.

Rows are centred at a public point, weighted, and rounded to integers x with |x_j| <= h_j on one common step: 2^-20 of
the widest column's extent or, for so many columns that products of 8,192 rows would not be exact, a few times that
(noise grows much faster with the columns). The sum of x x^T over all rows is exact, however many there are; its upper
triangle with the diagonal gets exact noise. It is not divided by the number of rows. Neighbours replace, unless said
otherwise.

Laplace noise is the same on every entry, so what counts is the l1 norm of the move of the triangle. Gaussian noise has
the standard deviation s on the diagonal and s/sqrt(2) off it: it is isotropic once off-diagonal entries are multiplied
by sqrt(2), and then the l2 norm of the move is the Frobenius norm of the move of the whole matrix.

How far one row moves it. Let x become y, M = x x^T - y y^T, a = x + y, b = x - y. Then M = (a b^T + b a^T)/2 and
|a_j| + |b_j| = 2 max(|x_j|, |y_j|) <= 2 h_j. Write F for the sum of |M_ij| over all (i, j) and D for that over the
diagonal; the l1 norm of the triangle is (F + D)/2. F <= |a|_1 |b|_1, and D = sum |a_j| |b_j| <= |h|_2^2.

A constant c, the *anchor*, may stand beside each row: the sum of (x, c)(x, c)^T holds the second moment, c times the
sum and c^2 times the number of rows, in one matrix that moves less than its parts would add up to. It never moves
itself: in the bounds below it is a column with |b| = 0 and |a| = 2c.
"""

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sfumato.estimation import covariances
from sfumato.fileformat.manifest import Facts
from sfumato.mechanisms.base import check_scale, coarsening, noise_facts
from sfumato.mechanisms.sketch import effective_change
from sfumato.numerics import lattice
from sfumato.numerics.lattice import coarsened_sensitivity
from sfumato.numerics.types import Floats, Integers, Order
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.projection.lattice_projection import Runs, check_steps, check_widths
from sfumato.projection.moment_grid import MomentGrid
from sfumato.projection.unit_ball import rounded_up
from sfumato.randomness.secret import Secret
from sfumato.tables.blocks import Rows
from sfumato.tables.schema import Schema

BITS = 20  # the widest column, or the anchor, has at most 2^20 steps: products of 2^13 rows are exact in doubles


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


def attribute(half: Integers, order: Order, categories: Runs = (), anchor: int = 0) -> float:
    """How far a second moment moves when one value of a row moves; exact for order 1.

    Only b_j is not 0. With B = |b_j|, |a_j| <= 2 h_j - B and |a_i| <= 2 h_i, so the l1 norm is at most
    B (2 h_j - B + H), H the sum of the other h_i: the largest over whole B is 2 h_j H (B = 2 h_j) if H >= 2 h_j, and
    floor((h_j + H/2)^2) otherwise; x_j = h_j, y_j = h_j - B and x_i = y_i = h_i attain it. The squared l2 norm is at
    most B^2 ((2 h_j - B)^2 + 2 Q), Q the sum of the other h_i^2, which grows with B unless h_j^2 > 4 Q; then its one
    local maximum inside is at B = (3 h_j - sqrt(h_j^2 - 4 Q))/2.
    A value of a category moves two columns instead (``two_columns``). An anchor is one of the others.
    """
    pairs = [two_columns(half, a, order, anchor) for a, b in categories if b > a + 1]
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


@dataclass(frozen=True, slots=True, eq=False)
class CentredGrid:
    """Rows as integers about a public centre, on one common step of the weighted units.

    The centre is the middle of the bounds or, where rows are clipped to a norm, the origin, the centre of that ball;
    rounding then lengthens a row by at most half a step in each column, which ``longest`` knows. An anchored grid puts
    a constant beside each row, half as large as the longest row: a good choice where the mean is about a third of that
    from the centre, or less.
    Guarantee: ``round`` maps any block whatever, NaN and infinities included, to integers |x_j| <= half_j.
    """

    schema: Schema
    centre: Floats
    half: Integers
    step: float
    column_bits: int
    anchor: int = 0

    @classmethod
    def of(cls, schema: Schema, *, anchored: bool = False) -> Self:
        """The finest grid for a private second moment with ``BITS`` bits, the anchor included; no data needed."""
        check_widths(schema.encoding.ranges)
        if schema.norm_bound is not None:
            check_widths(np.array([schema.norm_bound]))
        bits, grid = BITS, cls._of_bits(schema, BITS, anchored=anchored)
        while grid.bits > BITS:
            bits -= 1
            grid = cls._of_bits(schema, bits, anchored=anchored)
        return grid

    @classmethod
    def _of_bits(cls, schema: Schema, bits: int, *, anchored: bool) -> Self:
        """The grid of a private second moment on which the widest column has 2^bits steps on either side."""
        frame = MomentGrid.of(schema, bits)
        check_steps(schema.encoding.weights, frame.step)
        plain = cls(schema, frame.centre, frame.half, frame.step, bits)
        return replace(plain, anchor=max(1, round(plain.longest(2) / 2))) if anchored else plain

    @property
    def dim(self) -> int:
        """The number of columns of the second moment, the anchor's included."""
        return self.half.size + (self.anchor > 0)

    @property
    def bits(self) -> int:
        """No number of a block that is rounded for a second moment is beyond 2 to this."""
        return max(self.column_bits, (self.anchor - 1).bit_length())

    def round(self, block: Floats) -> Floats:
        """Clip, centre, weigh and round an encoded block for an exact second moment; integers, held in doubles."""
        steps = self.schema.clip(block)
        steps -= self.centre[:, None]
        steps *= (self.schema.encoding.weights / self.step)[:, None]
        np.rint(steps, out=steps)
        np.fmax(steps, -self.half[:, None], out=steps)
        np.fmin(steps, self.half[:, None], out=steps)
        return np.concatenate([steps, np.full((1, steps.shape[1]), float(self.anchor))]) if self.anchor else steps

    def longest(self, order: Order) -> float:
        """A bound on the norm of every row rounded for a second moment."""
        widest = float(np.linalg.norm(self.half, order)) * (1 + 2.0**-40)
        if self.schema.norm_bound is None or (self.schema.norm == "l2" and order == 1):
            return widest
        moving = float(np.count_nonzero(self.half))
        rounding = moving / 2 if order == 1 else math.sqrt(moving) / 2
        return min(widest, (self.schema.norm_bound / self.step + rounding) * (1 + 2.0**-40))

    def reach(self, guarantee: Guarantee, order: Order, *, centred: bool = False) -> float:
        """Sensitivity of an exact second moment: how far one unit moves what is published of it, in the noise's norm.

        ``centred``: the sums beside the anchor are published too, so it counts.
        Rounding moves each number by less than one step more, which lengthens a change within a ball. Rows of one
        person move the same matrix, so a group counts in full, in either norm.
        """
        if guarantee.neighbours == "add-remove":
            first, second = self.longest(1), self.longest(2)
            first = min(first, second * math.sqrt(np.count_nonzero(self.half)) * (1 + 2.0**-45))
            found = arrival((first, second), order, self.anchor, centred=centred)
        else:
            found = self._replacing(effective_change(self.schema, guarantee), order, self.anchor if centred else 0)
        return found if guarantee.group == 1 else found * guarantee.group * (1 + 2.0**-45)

    def _replacing(self, change: Change, order: Order, anchor: int) -> float:
        """Sensitivity of an exact second moment to one row that becomes another.

        An l1 norm over the triangle of p columns is at most sqrt(p (p + 3))/2 times the Frobenius norm (Cauchy: weights
        1 on the diagonal, 1/2 off it). An anchor lengthens rows, and no change.
        """
        if change.kind == "attribute":
            return attribute(self.half, order, self.schema.encoding.categories, anchor)
        found, moving = box(self.half, order, anchor), int(np.count_nonzero(self.half))
        if change.radius is not None:
            steps, columns = change.radius / self.step * (1 + 2.0**-40), moving + (anchor > 0)
            longest = math.hypot(self.longest(2), anchor) * (1 + 2.0**-50)
            ball = length_ball(longest, steps + math.sqrt(moving) * (1 + 2.0**-20))
            found = min(found, ball if order == 2 else ball * math.sqrt(columns * (columns + 3)) / 2 * (1 + 2.0**-45))
            if order == 1 and change.kind == "l1":
                half = np.append(self.half, anchor)
                found = min(found, sum_ball(half, self.longest(1) + anchor, steps + moving * (1 + 2.0**-20)))
        return found


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
    centred: bool = False

    @classmethod
    def prepare(cls, schema: Schema, guarantee: Guarantee, order: Order) -> Self:
        """Compute what one unit can move in the bare second moment, before any data is read."""
        grid = CentredGrid.of(schema)
        return cls(grid, guarantee, order, grid.reach(guarantee, order))

    @classmethod
    def anchored(cls, schema: Schema, guarantee: Guarantee, order: Order, *, centred: bool) -> Self:
        """Compute what one unit can move in a second moment with sums, if centred, and a protected number of rows."""
        grid = CentredGrid.of(schema, anchored=True)
        return cls(grid, guarantee, order, grid.reach(guarantee, order, centred=centred), centred)

    @property
    def dim(self) -> int:
        """The number of columns, an anchor's included."""
        return self.grid.dim

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Which numbers of the triangle are published: all, or those that ``scatter.kept`` says."""
        if not self.grid.anchor:
            return np.ones(self.dim * (self.dim + 1) // 2, bool)
        counted = self.guarantee.neighbours == "add-remove"
        return covariances.kept(self.dim - 1, centred=self.centred, counted=counted)

    @property
    def entries(self) -> int:
        """How many numbers are published."""
        return int(self.kept.sum())

    @property
    def shift(self) -> int:
        """How many bits the exact sums are coarsened by, so that the noise fits its sampler."""
        return coarsening(self.reach, self.entries)

    @property
    def sensitivity(self) -> float:
        """How far one unit moves the coarsened matrix, in steps; coarsening adds less than 0.4%."""
        return coarsened_sensitivity(
            self.reach, self.shift, self.entries if self.order == 1 else self.dim**2, self.order
        )

    @property
    def unit(self) -> float:
        """What one step of the coarsened matrix is worth, in squared weighted units."""
        return self.grid.step**2 * 2.0**self.shift

    def scale(self, level: float) -> float:
        """The noise's scale in steps (b for Laplace, standard deviation on the diagonal for Gaussian), rounded up."""
        return math.nextafter(level * self.sensitivity, math.inf)

    def exact(self, rows: Rows) -> lattice.Total:
        """The sum of x x^T over all rows, with the anchor if there is one: the diagonal, then the rest row by row.

        Its halves are added up over the blocks, so that no number of rows is too large.
        """
        place = tuple(covariances.places(self.dim))

        def one(position: int, block: Floats) -> Integers:
            del position
            found = lattice.gram([self.grid.round(block)], self.dim, self.grid.bits)
            return np.stack([half[place] for half in found.halves])

        return lattice.Total.of(*rows.sum(one))

    def noisy(self, rows: Rows, level: float, secret: Secret) -> Floats:
        """The matrix with noise, symmetric, in squared weighted units; it may have negative eigenvalues."""
        scale = self.checked_scale(level)
        return self._matrix(self.protected(self.exact(rows), scale, secret))

    def _matrix(self, triangle: Integers) -> Floats:
        return covariances.square(np.asarray(triangle * self.unit, np.float64), self.dim)

    def checked_scale(self, level: float) -> float:
        """The scale of the noise in steps; refuses what cannot be drawn."""
        scale = self.scale(level)
        advice = f"nearer to 1 for the second moment of {self.dim} columns"
        check_scale(self.guarantee, scale, level, advice, room=(2, 1))
        return scale

    def noise_facts(self, level: float) -> Facts:
        """Sensitivity, scale and standard deviation of the noise at this level, in squared weighted units."""
        return noise_facts(self.order, self.sensitivity * self.unit, self.scale(level) * self.unit)

    def protected(self, exact: lattice.Total, scale: float, secret: Secret) -> Integers:
        """What is published of the triangle, coarsened, with noise of this scale."""
        triangle = exact.part(self.kept).coarsened(self.shift)
        kind = f"{self.order} {self.centred} {self.grid.anchor}"
        parameters = f"second moment {kind} {self.guarantee!r} {scale.hex()} {self.shift}"
        words = secret.words(parameters, self.grid.schema.digest, triangle)
        if self.order == 1:
            return triangle + words.laplace(triangle.size, scale)
        squares = int(self.kept[: self.dim].sum())
        off_diagonal = math.nextafter(scale / math.sqrt(2), math.inf)
        sizes = (squares, scale), (triangle.size - squares, off_diagonal)
        drawn: Integers = np.concatenate([words.gaussian(*size) for size in sizes])
        return triangle + drawn
