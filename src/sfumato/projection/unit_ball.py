"""Rows within the unit ball, as integers: normalise, centre, normalise again, project.

One module for both sides: the owner brings private rows here before they are summed, the analyst brings test rows of
the same kind to the same place.

Guarantee of every step: a row that comes out is a vector of integers of Euclidean length at most ``top`` (checked on
the integers themselves, which is exact; a row that broke it would become zero, and the room left for rounding is such
that none does), and it depends on nothing but the row that went in and what is public. Not on the block it came in:
lengths are taken of integers, so their sums are exact in any order, and everything else is one IEEE operation per
number. So where one row is added to a table and all others move to other places in other blocks, no other row changes
by a bit. A zero row stays zero.

Sensitivities: how far one unit moves sums and second moments over rows. Rows z have Euclidean length at most ``top``,
which the caller enforces. What is appended to them is bounded too: a label |y| <= label, a constant. Sums are not
divided by the number of rows. Second moments are upper triangles with the diagonal; in order 1 their entries count as
they are, in order 2 off-diagonal entries count sqrt(2) times (svec), so that the norm is the Frobenius norm of the
whole matrix.

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
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from sfumato.errors import ParameterError
from sfumato.numerics import lattice
from sfumato.numerics.spectral_norm import norm_bound
from sfumato.numerics.types import Floats, Integers, Order
from sfumato.privacy.guarantee import Neighbours
from sfumato.tables.schema import Schema

Normalise = Literal["twice", "once", "never"]
Centring = Literal["private", "public"]

IMAGE_BITS = 15  # of a projected row: its second moment over 2^32 rows fits 64 bits
_EDGE = 1e100  # numbers beyond this, or below its reciprocal, could overflow or underflow when squared
_PIECE = 1 << 19  # numbers that are placed together: few enough for a cache, so that many passes over them are quick


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """How rows of some columns come into the unit ball.

    twice : every row gets length 1, is centred, and gets length 1 again (Chanyaswad et al. 2019, Algorithm 1).
    once  : every row gets length 1; centred, it is shortened to length 1 where it is longer.
    never : rows are divided by ``radius``, which is public, and shortened where they are longer than it; then as once.

    Lengths are taken about ``origin``, which follows from the schema and the centring, see ``_origin``. Guarantee: it
    is public, and rows come into the same ball about any origin, so no sensitivity depends on it.
    """

    low: Floats
    high: Floats
    weights: Floats
    origin: Floats
    normalise: Normalise
    radius: float
    bits: int

    @classmethod
    def of(cls, schema: Schema, normalise: Normalise, centring: Centring = "private") -> Self:
        """The frame of a schema's columns; no data needed. The radius is that of the schema's clip or of its box."""
        encoding = schema.encoding
        origin = _origin(schema, centring)
        furthest = encoding.weights * np.maximum(np.abs(encoding.low - origin), np.abs(encoding.high - origin))
        if not ((furthest >= 1 / _EDGE) & (furthest <= _EDGE)).all():
            raise ParameterError(f"bounds times weights must lie between {1 / _EDGE:g} and {_EDGE:g} in size")
        if schema.norm == "l1":
            raise ParameterError("synthetic rows are bounded in Euclidean length: use a clip of norm 'l2', or none")
        radius = float(np.sqrt(np.square(furthest).sum())) if schema.norm_bound is None else schema.norm_bound
        most = (lattice.EXACT_BITS - 1 - (encoding.dim - 1).bit_length()) // 2
        bits = min(lattice.INPUT_BITS, most)
        return cls(encoding.low, encoding.high, encoding.weights, origin, normalise, radius, bits)

    @property
    def dim(self) -> int:
        """The number of encoded columns of rows within the ball."""
        return self.low.size

    @property
    def top(self) -> int:
        """What the length of no row within the unit ball exceeds, in steps."""
        return 1 << self.bits

    @property
    def one(self) -> float:
        """Radius 1 of the ball in steps: ``top`` less room for rounding, half a step per column and a little more."""
        return _one(self.top, self.dim)

    def place(self, block: Floats) -> Floats:
        """Encoded rows (dim, rows), whatever they hold, clipped and normalised into the ball: integers, in doubles."""
        inside = np.fmax(block, self.low[:, None])
        np.fmin(inside, self.high[:, None], out=inside)
        if self.origin.any():
            inside -= self.origin[:, None]
        if (self.weights != 1).any():
            inside *= self.weights[:, None]
        base = np.maximum(inside.max(axis=0), -inside.min(axis=0))
        if self.normalise == "never":
            base = np.maximum(base, self.radius)
        base[base == 0] = 1.0
        inside /= base
        inside *= self.top
        np.rint(inside, out=inside)
        return self._scaled(inside, base / self.radius * (self.one / self.top) if self.normalise == "never" else None)

    @property
    def piece(self) -> int:
        """How many rows are best brought into the ball together; it changes no bit of any row."""
        return max(1 << 8, _PIECE // self.dim)

    def about(self, placed: Floats, centre: Integers) -> Floats:
        """Placed rows about a public centre within the ball, normalised or shortened; integers, held in doubles."""
        centred = placed - centre[:, None]
        return self._scaled(centred, None if self.normalise == "twice" else np.ones(placed.shape[1]))

    def _scaled(self, integers: Floats, most: Floats | None) -> Floats:
        """Rows brought onto the unit ball: times what makes them of length 1, or times ``most`` where that is less."""
        length = np.sqrt(_squares(integers))
        factor = self.one / np.maximum(length, 1.0)
        integers *= factor if most is None else np.minimum(factor, most)
        return _guarded(np.rint(integers, out=integers), self.top)

    def centre(self, mean: Floats) -> Integers:
        """A mean in steps as integers, brought into the ball, where every mean of placed rows is."""
        length = float(np.linalg.norm(mean))
        return np.rint(mean * min(1.0, self.one / max(length, 1.0))).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Turned:
    """An orthonormal projection W as integers, and the images of rows under it, on ``IMAGE_BITS`` bits.

    Images are divided by a certified bound on the largest singular value of the integers, so rounding W lengthens none.
    """

    entries: Floats
    per_one: float  # what 1 is in entries
    sigma: float
    top_in: int
    one_in: float

    @classmethod
    def of(cls, matrix: Floats, frame: Frame) -> Self:
        """Round an orthonormal (dim, p) projection to integers, for rows of a frame of the unit ball."""
        peak = float(np.abs(matrix).max())
        bits = min(lattice.PROJECTION_BITS, lattice.EXACT_BITS - frame.bits - (frame.dim - 1).bit_length())
        lattice.check_exact(input_bits=frame.bits, projection_bits=bits, terms=frame.dim)
        entries = np.rint(matrix / peak * 2.0**bits)
        return cls(entries, 2.0**bits / peak, norm_bound(entries), frame.top, frame.one)

    @property
    def dim(self) -> int:
        """The number of numbers that a row within the unit ball is projected to."""
        return int(self.entries.shape[1])

    @property
    def matrix(self) -> Floats:
        """The orthonormal projection W of rows within the unit ball, as it is in use."""
        return self.entries / self.per_one

    @property
    def top(self) -> int:
        """What the length of no image of a row within the unit ball exceeds, in steps."""
        return 1 << IMAGE_BITS

    @property
    def _factor(self) -> float:
        return _one(self.top, self.dim) / (self.top_in * self.sigma)

    @property
    def unit(self) -> float:
        """What one step of an image is worth, where rows of length 1 in the unit ball are worth 1."""
        return 1 / (self._factor * self.one_in * self.per_one)

    def image(self, rows: Floats) -> Floats:
        """Rows of the unit ball (dim, rows), projected: integers (p, rows) of length at most ``top``, in doubles."""
        exact = lattice.product(self.entries, rows)
        exact *= self._factor
        return _guarded(np.rint(exact, out=exact), self.top)


def _origin(schema: Schema, centring: Centring) -> Floats:
    """The point that lengths of rows are taken about, before they come into the ball; public, in each column's units.

    Scale ``bounds``: the low end of the bounds, so that nothing depends on where a column has its zero. About 0, a
    column of years would be 19 to 20 of its ranges long in every row, and leave no length to the others.
    Scale ``raw``: 0; or the middle of the bounds, where there is no private centre. A clip of norms is about 0.
    """
    encoding = schema.encoding
    if schema.norm_bound is not None:
        return np.zeros(encoding.dim)
    if schema.scale == "bounds":
        return encoding.low
    return encoding.low / 2 + encoding.high / 2 if centring == "public" else np.zeros(encoding.dim)


def _one(top: int, dim: int) -> float:
    """Length 1 of the ball in steps: rounding moves a row by at most sqrt(dim)/2; one step more is for doubles."""
    room = top - math.sqrt(dim) / 2 - 1
    if room < top / 2:
        raise ParameterError(f"{dim} columns are too many for integers of this size")
    return room


def _squares(integers: Floats) -> Floats:
    """Squared lengths of rows in the ball, integers: exact below 2^53, so in any order of summation."""
    return np.asarray(np.einsum("ij,ij->j", integers, integers))


def _guarded(integers: Floats, top: int) -> Floats:
    """Rows kept within the ball of radius ``top``, in place: a longer one becomes zero."""
    longer = _squares(integers) > float(top) ** 2
    if longer.any():
        integers[:, longer] = 0.0
    return integers


# ---- sensitivities --------------------------------------------------------------------------------------------------


def sums_move(
    dim: int, order: Order, neighbours: Neighbours, *, top: float = 1.0, appended: tuple[float, ...] = ()
) -> float:
    """Sensitivity of the sum over rows z in the unit ball, with appended numbers within +- these."""
    moved = math.sqrt(dim) * top + math.fsum(appended) if order == 1 else math.hypot(top, *appended)
    return rounded_up(moved if neighbours == "add-remove" else 2 * moved)


def triangle_move(dim: int, order: Order, neighbours: Neighbours, *, top: float = 1.0) -> float:
    """Sensitivity of the second moment of rows z in the unit ball."""
    if neighbours == "add-remove":
        return rounded_up(((dim + 1) / 2 if order == 1 else 1.0) * top**2)
    if dim == 1:
        return top**2
    return rounded_up((math.sqrt(dim * (dim + 3) / 2) if order == 1 else math.sqrt(2)) * top**2)


def labelled_move(dim: int, order: Order, neighbours: Neighbours, *, label: float, top: float = 1.0) -> float:
    """Sensitivity of the second moment of rows in the unit ball with a label, (z, y), |y| <= label."""
    squared = top**2 + label**2
    if order == 2:
        return rounded_up(squared * (math.sqrt(2) if neighbours == "replace" else 1.0))
    cross = label * math.sqrt(dim) * top * (2 if neighbours == "replace" else 1)
    parts = triangle_move(dim, 1, neighbours, top=top) + cross + label**2
    return rounded_up(min(parts, triangle_move(dim + 1, 1, neighbours) * squared))


def classes_move(
    dim: int, order: Order, neighbours: Neighbours, *, constant: float, label: float = 0.0, top: float = 1.0
) -> float:
    """Sensitivity of counts, sums and second moments of unit-ball rows (z, y, constant), by class, if labels change.

    Where there is but one class, which none can leave, this is for add-remove; ``within_classes_move`` is for replace.
    """
    if order == 2:
        return labelled_move(dim, 2, neighbours, label=math.hypot(constant, label), top=top)
    sums = constant * (math.sqrt(dim) * top + label)
    one = labelled_move(dim, 1, "add-remove", label=label, top=top) + sums + constant**2
    return rounded_up(one if neighbours == "add-remove" else 2 * one)


def within_classes_move(dim: int, order: Order, *, constant: float, label: float = 0.0, top: float = 1.0) -> float:
    """Sensitivity of ``classes_move`` when a unit-ball row is replaced by one of its class: no count moves."""
    squared, columns = top**2 + label**2, dim + (label > 0)
    if order == 2:
        far = 2 * constant * math.sqrt(squared) if constant**2 > squared else squared + constant**2
        return rounded_up(math.sqrt(2) * far)
    parts = labelled_move(dim, 1, "replace", label=label, top=top) + 2 * constant * (math.sqrt(dim) * top + label)
    return rounded_up(min(parts, (squared + constant**2) * math.sqrt(columns * (columns + 5) / 2)))


def off_diagonal(scale: float) -> float:
    """Gaussian noise off the diagonal of a second moment of rows in the unit ball, beside that on it: in svec form."""
    return math.nextafter(scale / math.sqrt(2), math.inf)


def rounded_up(value: float) -> float:
    """A sensitivity of rows in the unit ball, rounded up past the roundings of a few operations."""
    return value * (1 + 2.0**-45)
