"""The stages of synthetic rows: exact sums of rows within a ball, what one unit moves them by, and their noise.

Formal guarantee: ``protected`` at a scale of level times ``sensitivity`` has the loss of Laplace(1, level), or of
Gaussian(1, level) for order 2, for whole records and the neighbours of the guarantee: rows are clipped and brought into
the ball one by one (``unit_ball``, which also says how far they move sums), sums are exact, coarsening adds less than a
step per entry, the noise is exact. That holds for every public centre and every projection, so also for a centre that
an earlier stage has published.

How many numbers a synthetic row should have, from public facts alone. A random W keeps p/m of every squared distance.
Of a signal of squared length s in m columns (the distance between the means of two classes) it shows s p/m in p
coordinates, each with noise of variance v; of a covariance of squared norm s, which a regression divides by, s (p/m)^2
in p^2 entries. So noise is to signal as m v/s, or m^2 v/s, and what can be told grows with p/(1 + that): with p while
noise is small, not at all beyond.

Gaussian noise: v does not depend on p, so p = m is best at any epsilon and n: p is the largest that a release can hold.
Laplace noise: v grows with p^2, and the best p lies where noise is as large as the signal. How large that is was fitted
by eye on development sets (docs/mathematics.md, section 13); all else is known beforehand.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sfumato import check
from sfumato.estimation.gaussians import Fitting, Shrink
from sfumato.fileformat.manifest import LARGEST
from sfumato.mechanisms.base import coarsening
from sfumato.numerics import lattice
from sfumato.numerics.lattice import coarsened_sensitivity
from sfumato.numerics.types import Floats, Integers, Order
from sfumato.privacy.guarantee import Guarantee
from sfumato.projection import unit_ball
from sfumato.projection.unit_ball import Centring, Frame, Turned
from sfumato.randomness.secret import Words
from sfumato.tables.blocks import Rows
from sfumato.tables.labels import Labelled

Counts = Literal["private", "public"]
ROWS = 10_000  # where nobody says how many to expect
_SIGNAL = {"private": 0.25, "public": 0.0625}  # rows have length 1; about a public centre they differ by less
_SHARE = {"private": 0.7, "public": 1.0}  # of the budget, for second moments, about
_NUMBERS = 1 << 20  # of all covariances together: a manifest of some 40 MB
_WRITTEN = 40  # bytes of a number in a manifest, at most


@dataclass(frozen=True, slots=True, eq=False)
class MeanStage:
    """The sum of placed rows, of a numeric label, and the number of records: all that a mean needs."""

    labelled: Labelled
    frame: Frame
    guarantee: Guarantee
    order: Order
    label_weight: float

    @property
    def public_rows(self) -> bool:
        """Whether the number of records may be shown."""
        return self.guarantee.neighbours == "replace"

    @property
    def label(self) -> int:
        """How far a numeric label goes beside the rows, in steps; 0 without one."""
        return round(self.label_weight * self.frame.top) if self.labelled.numeric else 0

    @property
    def counter(self) -> int:
        """What each record adds to the private count, in steps; 0 where the count is public.

        The error of sum over count is least where (1 + b^2)(m + 1/b^2) is, for Gaussian noise: b = m^(-1/4); for
        Laplace noise (sqrt(m) + b)^2 (m + 1/b^2): b = m^(-1/6). For a mean of length 1, the longest there is.
        """
        if self.public_rows:
            return 0
        power = -1 / 6 if self.order == 1 else -1 / 4
        return max(1, round(math.pow(self.frame.dim, power) * self.frame.top))

    @property
    def sensitivity(self) -> float:
        """How far one unit moves the exact sums, in steps."""
        appended = tuple(float(x) for x in (self.label, self.counter) if x)
        neighbours, top = self.guarantee.neighbours, float(self.frame.top)
        one = unit_ball.sums_move(self.frame.dim, self.order, neighbours, top=top, appended=appended)
        return _grouped(one, self.guarantee.group)

    @property
    def energy(self) -> float:
        """The noise's expected squared length at level 1, rows of length 1 being 1, but for a factor of the law."""
        return self.frame.dim * (self.sensitivity / self.frame.top) ** 2

    def exact(self, rows: Rows) -> Integers:
        """The sums of the placed rows, of the label, and the number of records."""

        def one(position: int, block: Floats) -> Integers:
            del position
            features, sums = self.labelled.features(block), np.zeros(self.frame.dim)
            for start in range(0, block.shape[1], self.frame.piece):
                sums += self.frame.place(features[:, start : start + self.frame.piece]).sum(axis=1)
            label = self.labelled.numbers(block, self.label).sum() if self.labelled.numeric else 0.0
            return np.array([*sums, label, block.shape[1]]).astype(np.int64)

        return rows.sum(one)

    def moved(self, exact: Integers) -> Integers:
        """Of the exact sums, those that need noise: all but what is absent or public."""
        sums = exact[:-1] if self.labelled.numeric else exact[:-2]
        return sums if self.public_rows else np.append(sums, exact[-1] * self.counter)

    def protected(self, moved: Integers, scale: float, words: Words) -> Integers:
        """Sums with noise of this scale on each."""
        return moved + (words.laplace if self.order == 1 else words.gaussian)(moved.size, scale)


@dataclass(frozen=True, slots=True, eq=False)
class MomentStage:
    """The sums of u u' over the rows, one matrix for each class: u is an image and what is appended to it.

    Appended are a numeric label and, where this stage has to tell means as well, a constant: u = (z, a) makes of the
    second moment a count (a^2), a sum (a) and the moment of z. That is so for classes, and for all rows together where
    no stage before this one has centred them.
    """

    labelled: Labelled
    frame: Frame
    turned: Turned
    guarantee: Guarantee
    order: Order
    label_weight: float
    counts: Counts
    alone: bool  # whether there is no stage before this one

    @property
    def label(self) -> int:
        """How far a numeric label goes beside an image, in steps; 0 without one."""
        return round(self.label_weight * self.turned.top) if self.labelled.numeric else 0

    @property
    def constant(self) -> int:
        """What marks being in a class, or being there at all, in steps; 0 where no count or sum is wanted."""
        if self.labelled.classes:
            return round(self.label_weight * self.turned.top)
        return round(least(self._predicted_error) * self.turned.top) if self.alone else 0

    @property
    def columns(self) -> int:
        """The columns of a second moment beside the constant: those of an image and of a numeric label."""
        return self.turned.dim + self.labelled.numeric

    @property
    def dim(self) -> int:
        """The columns of a second moment."""
        return self.columns + (self.alone or bool(self.labelled.classes))

    @property
    def matrices(self) -> int:
        """How many second moments there are."""
        return max(1, len(self.labelled.classes))

    @property
    def public_count(self) -> bool:
        """Whether the last entry is the number of all records, which is public, times a^2: it gets no noise."""
        return self.alone and not self.labelled.classes and self.guarantee.neighbours == "replace"

    @property
    def reach(self) -> float:
        """How far one unit moves the exact second moments."""
        return _grouped(self._one_row(float(self.constant)), self.guarantee.group)

    def _one_row(self, constant: float) -> float:
        p, order, neighbours, top = self.turned.dim, self.order, self.guarantee.neighbours, float(self.turned.top)
        if constant == 0 and self.labelled.numeric:
            return unit_ball.labelled_move(p, order, neighbours, label=self.label, top=top)
        if constant == 0:
            return unit_ball.triangle_move(p, order, neighbours, top=top)
        if self.public_count or self.counts == "public":
            return unit_ball.within_classes_move(p, order, constant=constant, label=self.label, top=top)
        return unit_ball.classes_move(p, order, neighbours, constant=constant, label=self.label, top=top)

    def _predicted_error(self, weight: float) -> float:
        """The expected squared Frobenius norm of what noise does to M/N - mean mean', but for a factor, at constant a.

        For a mean of length 1, the longest there is: noise of variance v/a^2 on each entry of it makes 2 (q + 1) v/a^2
        in its product with itself. A noisy count, where it is private, moves M/N by noise/a^2 times M/N at most.
        """
        q, squared = self.columns, weight**2
        moment, off_diagonal = (q * (q + 1) / 2, 0.5) if self.order == 2 else (float(q * q), 1.0)
        count = 0.0 if self.public_count else 1 / squared**2
        moved = self._one_row(weight * self.turned.top) / self.turned.top**2
        return moved**2 * (moment + 2 * (q + 1) * off_diagonal / squared + count)

    @property
    def places(self) -> tuple[Integers, Integers]:
        """Which entries of a matrix get noise: its diagonal, then the triangle above."""
        diagonal, above = np.arange(self.squares), np.triu_indices(self.dim, 1)
        return np.concatenate([diagonal, above[0]]), np.concatenate([diagonal, above[1]])

    @property
    def squares(self) -> int:
        """How many numbers of a diagonal get noise."""
        return self.dim - self.public_count

    @property
    def entries(self) -> int:
        """How many numbers of a matrix get noise."""
        return self.squares + self.dim * (self.dim - 1) // 2

    @property
    def shift(self) -> int:
        """How many bits the exact sums are coarsened by, so that the noise fits its sampler."""
        return coarsening(self.reach, self.entries * self.matrices)

    @property
    def sensitivity(self) -> float:
        """How far one unit moves the coarsened sums, in steps.

        Only classes that a unit leaves or joins move at all: at most two of them for each row that is replaced.
        """
        rows = self.guarantee.group * (2 if self.guarantee.neighbours == "replace" else 1)
        outputs = min(self.matrices, rows) * (self.entries if self.order == 1 else self.dim**2)
        return coarsened_sensitivity(self.reach, self.shift, outputs, self.order)

    @property
    def unit(self) -> float:
        """What one step of the coarsened sums is worth, where rows of length 1 are worth 1."""
        return self.turned.unit**2 * 2.0**self.shift

    @property
    def energy(self) -> float:
        """The noise's expected squared Frobenius norm at level 1, rows of length 1 being 1, as in ``MeanStage``."""
        entries = self.dim**2 if self.order == 1 else self.dim * (self.dim + 1) / 2
        return self.matrices * entries * (self.reach / self.turned.top**2) ** 2

    def exact(self, rows: Rows, centre: Integers | None) -> tuple[Integers, int]:
        """The matrices about a public centre, or about the frame's own middle, (classes, dim, dim); and how many rows.

        That number is of all rows, also those of no class; it may be shown where it is public.
        """
        label, constant, dim = self.label, self.constant, self.dim
        bits = max(self.turned.top, label, constant).bit_length()

        def one(position: int, block: Floats) -> Integers:
            del position
            image = np.full((dim, block.shape[1]), float(constant))
            self._project(self.labelled.features(block), centre, image[: self.turned.dim])
            if label:
                image[self.turned.dim] = self.labelled.numbers(block, label)
            parts = [image]
            if self.labelled.classes:
                codes = self.labelled.codes(block)
                parts = [image[:, codes == c] for c in range(self.matrices)]
            return np.append([lattice.gram([part], dim, bits).int64() for part in parts], block.shape[1])

        total = rows.sum(one)
        return total[:-1].reshape(self.matrices, dim, dim), int(total[-1])

    def _project(self, block: Floats, centre: Integers | None, out: Floats) -> None:
        """Place, centre and project rows, as many at a time as fit a cache."""
        for start in range(0, block.shape[1], self.frame.piece):
            window = slice(start, start + self.frame.piece)
            placed = self.frame.place(block[:, window])
            out[:, window] = self.turned.image(placed if centre is None else self.frame.about(placed, centre))

    def moved(self, exact: Integers) -> Integers:
        """The entries that need noise, coarsened, (classes, entries)."""
        first, second = self.places
        return lattice.coarsen(exact[:, first, second], self.shift)

    def protected(self, moved: Integers, scale: float, words: Words) -> Integers:
        """Entries with noise: Laplace of one scale; or Gaussian of this scale on the diagonal, over sqrt(2) off it.

        That is isotropic noise in svec form, where off-diagonal entries count sqrt(2) times.
        """
        if self.order == 1:
            return moved + words.laplace(moved.size, scale).reshape(moved.shape)
        off_diagonal = unit_ball.off_diagonal(scale)
        above = self.entries - self.squares
        drawn = (
            words.gaussian(self.matrices * self.squares, scale).reshape(self.matrices, self.squares),
            words.gaussian(self.matrices * above, off_diagonal).reshape(self.matrices, above),
        )
        return np.asarray(moved + np.concatenate(drawn, axis=1))

    def whole(self, protected: Integers) -> Floats:
        """The matrices, symmetric, where rows of length 1 are worth 1; a public count is left out."""
        first, second = self.places
        matrices = np.zeros((self.matrices, self.dim, self.dim))
        matrices[:, second, first] = protected * self.unit
        matrices[:, first, second] = protected * self.unit
        return matrices

    def fitting(self, scale: float, shrink: Shrink) -> Fitting:
        """What makes Gaussians of the matrices, whose noise had this scale."""
        return Fitting(
            columns=self.columns,
            numeric=self.labelled.numeric,
            per_label=self.label * self.turned.unit,
            per_constant=self.constant * self.turned.unit,
            noise_energy=self.noise_energy(scale, self.columns),
            off_variance=self.off_variance(scale),
            shrink=shrink,
        )

    def noise_energy(self, scale: float, dim: int) -> float:
        """The expected squared Frobenius norm of the noise on dim x dim of a matrix, in the units of ``whole``."""
        return (scale * self.unit) ** 2 * (2.0 * dim**2 if self.order == 1 else dim * (dim + 1) / 2)

    def off_variance(self, scale: float) -> float:
        """The variance of the noise off the diagonal, in the units of ``whole``."""
        return (scale * self.unit) ** 2 * (2.0 if self.order == 1 else 0.5)


def least(error: Callable[[float], float]) -> float:
    """A moment stage's constant: the weight between 1/16 and 1 whose error is least, to a twelfth of its size."""
    return float(min(np.exp2(-np.arange(33) / 8), key=error))


def _grouped(reach: float, group: int) -> float:
    """Sensitivity of a stage's sums to a group: rows of one person move the same sums."""
    return reach if group == 1 else unit_ball.rounded_up(reach * group)


# ---- the dimension --------------------------------------------------------------------------------------------------


def largest_dimension(labelled: Labelled, columns: int) -> int:
    """The most columns of synthetic rows for which a moment stage can publish the covariances of all classes."""
    matrices = max(1, len(labelled.classes))
    return max(p for p in range(1, columns + 1) if p == 1 or matrices * p * p <= _NUMBERS)


def check_dimension(labelled: Labelled, dimension: int) -> None:
    """Refuse a moment stage whose Gaussian model no manifest can hold, before anything is read or spent."""
    numbers = max(1, len(labelled.classes)) * (dimension + 1) ** 2
    if numbers * _WRITTEN > LARGEST:
        most = math.isqrt(LARGEST // _WRITTEN // max(1, len(labelled.classes))) - 1
        raise check.fail("dimension", dimension, f"at most {most} here: the manifest holds all covariances")


def best_dimension(
    labelled: Labelled, columns: int, guarantee: Guarantee, centring: Centring, *, weight: float, rows: int | None
) -> int:
    """The best dimension of the moment stage under Laplace noise.

    ``rows`` is how many records the owner publicly expects.
    """
    each = (rows or ROWS) / max(1, len(labelled.classes)) * guarantee.epsilon * _SHARE[centring] / guarantee.group
    spread = columns if labelled.classes else columns**2

    def told(p: int) -> float:
        noise = _moved(labelled, p, guarantee, weight) / each
        variance = 2 * noise * noise  # infinite, and no error, at an epsilon that a release will refuse by name
        return p / (1 + spread * variance / _SIGNAL[centring])

    return max(range(1, largest_dimension(labelled, columns) + 1), key=told)


def _moved(labelled: Labelled, p: int, guarantee: Guarantee, weight: float) -> float:
    """What one record moves in a moment stage of this dimension, in units of what is to be told."""
    if labelled.classes:
        return unit_ball.classes_move(p, 1, guarantee.neighbours, constant=weight) / weight
    if labelled.numeric:
        return unit_ball.labelled_move(p, 1, guarantee.neighbours, label=weight) / weight
    return unit_ball.triangle_move(p, 1, guarantee.neighbours)
