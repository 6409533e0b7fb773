"""The private second moment: the exact Gram matrix of clipped rows, and how far one unit can move it.

Rows are centred at a public point, weighted, and rounded to integers x with |x_j| <= h_j on one common step: 2^-20 of
the widest column's extent or, for so many columns that products of 8,192 rows would not be exact, a few times that
(noise grows much faster with the columns). The sum of x x^T over all rows is exact, however many there are; its upper
triangle with the diagonal gets exact noise. It is not divided by the number of rows. Neighbours replace, unless said
otherwise.

Laplace noise is the same on every entry, so what counts is the l1 norm of the move of the triangle. Gaussian noise has
the standard deviation s on the diagonal and s/sqrt(2) off it: it is isotropic once off-diagonal entries are multiplied
by sqrt(2), and then the l2 norm of the move is the Frobenius norm of the move of the whole matrix.

How far one row moves it is in ``moment_bounds``. A constant, the *anchor*, may stand beside each row.
"""

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sfumato.estimation import covariances
from sfumato.fileformat.manifest import Facts
from sfumato.mechanisms.base import check_scale, coarsening, effective_change, noise_facts
from sfumato.mechanisms.moment_bounds import arrival, attribute, box, length_ball, sum_ball
from sfumato.numerics import lattice
from sfumato.numerics.lattice import coarsened_sensitivity
from sfumato.numerics.types import Floats, Integers, Order
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.projection.lattice_projection import check_steps, check_widths
from sfumato.projection.moment_grid import MomentGrid
from sfumato.randomness.secret import Secret
from sfumato.tables.blocks import Rows
from sfumato.tables.encoding import Group
from sfumato.tables.schema import Schema

BITS = 20  # the widest column, or the anchor, has at most 2^20 steps: products of 2^13 rows are exact in doubles


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
        widest = self._widest(order)
        if self.schema.norm_bound is None or (self.schema.norm == "l2" and order == 1):
            return widest
        moving = float(np.count_nonzero(self.half))
        rounding = moving / 2 if order == 1 else math.sqrt(moving) / 2
        return min(widest, (self.schema.norm_bound / self.step + rounding) * (1 + 2.0**-40))

    @property
    def _bounded(self) -> tuple[Group, ...]:
        """The vectors with a bound on their length, which rows of a second moment have about the same origin."""
        groups = [group for group in self.schema.encoding.groups if group.bound is not None]
        return tuple(group for group in groups if not self.centre[group.start : group.stop].any())

    def _widest(self, order: Order) -> float:
        """A bound on the norm of every row of a second moment, by its columns and the lengths of its vectors."""
        half = self.half.astype(float)
        for group in self._bounded:
            assert group.bound is not None
            own = slice(group.start, group.stop)
            weight = float(self.schema.encoding.weights[group.start])
            length = group.bound * weight / self.step + math.sqrt(group.stop - group.start) / 2
            length *= (1 + 2.0**-40) * (math.sqrt(group.stop - group.start) if order == 1 else 1.0)
            half[own] *= min(1.0, length / max(float(np.linalg.norm(half[own], order)), 1e-300))
        return float(np.linalg.norm(half, order)) * (1 + 2.0**-40)

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
        groups = self.schema.encoding.groups
        if change.kind == "attribute":
            together = [self._together(group, order, anchor) for group in groups if group.most != 1]
            return max([attribute(self.half, order, groups, anchor), *together])
        found, moving = box(self.half, order, anchor), int(np.count_nonzero(self.half))
        if change.kind == "box":
            return min(found, self._in_length(2 * self.longest(2), order, anchor)) if self._bounded else found
        assert change.radius is not None
        steps = change.radius / self.step * (1 + 2.0**-40)
        found = min(found, self._in_length(steps + math.sqrt(moving) * (1 + 2.0**-20), order, anchor))
        if order == 1 and change.kind == "l1":
            found = min(found, self._in_sum(steps + moving * (1 + 2.0**-20), anchor))
        return found

    def _together(self, group: Group, order: Order, anchor: int) -> float:
        """Sensitivity of an exact second moment to one value of a group, rounded to the grid: a change that short."""
        size = group.stop - group.start
        length = group.reach2 / self.step * (1 + 2.0**-40) + math.sqrt(size) * (1 + 2.0**-20)
        found = self._in_length(length, order, anchor)
        if order == 1:
            found = min(found, self._in_sum(group.reach1 / self.step * (1 + 2.0**-40) + size * (1 + 2.0**-20), anchor))
        return min(found, box(self.half, order, anchor))

    def _in_length(self, moved: float, order: Order, anchor: int) -> float:
        """Sensitivity of an exact second moment to a row that moves by at most so many steps."""
        columns = int(np.count_nonzero(self.half)) + (anchor > 0)
        longest = math.hypot(self.longest(2), anchor) * (1 + 2.0**-50)
        ball = length_ball(longest, moved)
        return ball if order == 2 else ball * math.sqrt(columns * (columns + 3)) / 2 * (1 + 2.0**-45)

    def _in_sum(self, moved: float, anchor: int) -> float:
        """Sensitivity of an exact second moment, in l1, to a row whose numbers move by so many steps in all."""
        return sum_ball(np.append(self.half, anchor), self.longest(1) + anchor, moved)


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

    def coarse(self, exact: lattice.Total) -> Integers:
        """What is published of the triangle, coarsened, before its noise: steps that ``sensitivity`` is about."""
        return exact.part(self.kept).coarsened(self.shift)

    @property
    def deviations(self) -> Floats:
        """The relative deviation of the noise on each published number of the triangle: Gaussian, less off it."""
        squares = int(self.kept[: self.dim].sum())
        off = 1.0 if self.order == 1 else math.sqrt(0.5)
        return np.where(np.arange(self.entries) < squares, 1.0, off)

    def protected(self, exact: lattice.Total, scale: float, secret: Secret) -> Integers:
        """What is published of the triangle, coarsened, with noise of this scale."""
        return self.perturbed(self.coarse(exact), scale, secret)

    def perturbed(self, triangle: Integers, scale: float, secret: Secret) -> Integers:
        """The coarsened triangle with noise of this scale."""
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
