"""The two stages of synthetic rows: exact sums of rows within a ball, what one unit moves them by, and their noise.

Formal guarantee: ``protected`` at a scale of level times ``sensitivity`` has the loss of Laplace(1, level), or of
Gaussian(1, level) for order 2, for whole records and the neighbours of the guarantee: rows are clipped and brought into
the ball one by one (``directions``), sums are exact, coarsening adds less than a step per entry, the noise is exact.
That holds for every public centre and every projection, so also for a centre that an earlier stage has published.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sfumato import lattice, noise
from sfumato.directions import Frame, Turned
from sfumato.guarantee import Guarantee
from sfumato.labels import Labelled
from sfumato.lattice import Floats, Integers
from sfumato.mechanisms import unit_moments
from sfumato.projection import Order, coarsened
from sfumato.rows import Rows
from sfumato.secret import Words

Counts = Literal["private", "public"]
Constants = Literal["proved", "published"]
_STEPS = 22  # one unit's largest move is about 2^22 steps of the noise's grid, or more for many entries


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
        one = unit_moments.sums(self.frame.dim, self.order, neighbours, top=top, appended=appended)
        return _grouped(one, self.guarantee.group)

    @property
    def energy(self) -> float:
        """The noise's expected squared length at level 1, rows of length 1 being 1, but for a factor of the law."""
        return self.frame.dim * (self.sensitivity / self.frame.top) ** 2

    def exact(self, rows: Rows) -> Integers:
        """The sums of the placed rows, of the label, and the number of records."""

        def one(position: int, block: Floats) -> Integers:
            del position
            placed = self.frame.place(self.labelled.features(block))
            label = self.labelled.numbers(block, self.label).sum() if self.labelled.numeric else 0.0
            return np.array([*placed.sum(axis=1), label, block.shape[1]]).astype(np.int64)

        return rows.sum(one)

    def moved(self, exact: Integers) -> Integers:
        """Of the exact sums, those that need noise: all but what is absent or public."""
        sums = exact[:-1] if self.labelled.numeric else exact[:-2]
        return sums if self.public_rows else np.append(sums, exact[-1] * self.counter)

    def protected(self, moved: Integers, scale: float, words: Words) -> Integers:
        """Sums with noise of this scale on each."""
        return moved + (noise.laplace if self.order == 1 else noise.gaussian)(words, moved.size, scale)


@dataclass(frozen=True, slots=True, eq=False)
class MomentStage:
    """The sums of u u' over the rows, one matrix for each class: u is an image and what is appended to it."""

    labelled: Labelled
    frame: Frame
    turned: Turned
    guarantee: Guarantee
    order: Order
    label_weight: float
    counts: Counts
    constants: Constants

    @property
    def appended(self) -> int:
        """How far the label goes beside an image, or what marks being in a class, in steps; 0 without a label."""
        return 0 if self.labelled.column is None else round(self.label_weight * self.turned.top)

    @property
    def dim(self) -> int:
        """The columns of a second moment: those of an image and one for the label."""
        return self.turned.dim + (self.appended > 0)

    @property
    def matrices(self) -> int:
        """How many second moments there are."""
        return max(1, len(self.labelled.classes))

    @property
    def reach(self) -> float:
        """How far one unit moves the exact second moments."""
        p, order, neighbours, top = self.turned.dim, self.order, self.guarantee.neighbours, float(self.turned.top)
        if self.constants == "published":
            one = unit_moments.whole(p, top=top)
        elif self.labelled.column is None:
            one = unit_moments.triangle(p, order, neighbours, top=top)
        elif self.labelled.numeric:
            one = unit_moments.labelled(p, order, neighbours, label=self.appended, top=top)
        elif self.counts == "public":
            one = unit_moments.within_classes(p, order, constant=self.appended, top=top)
        else:
            one = unit_moments.classes(p, order, neighbours, constant=self.appended, top=top)
        return _grouped(one, self.guarantee.group)

    @property
    def places(self) -> tuple[Integers, Integers]:
        """Which entries of a matrix get noise: its diagonal, then the triangle above; all, as in the paper."""
        if self.constants == "published":
            everywhere = np.indices((self.dim, self.dim)).reshape(2, -1)
            return everywhere[0], everywhere[1]
        diagonal, above = np.arange(self.dim), np.triu_indices(self.dim, 1)
        return np.concatenate([diagonal, above[0]]), np.concatenate([diagonal, above[1]])

    @property
    def entries(self) -> int:
        """How many numbers of a matrix get noise."""
        return self.dim**2 if self.constants == "published" else self.dim * (self.dim + 1) // 2

    @property
    def shift(self) -> int:
        """How many bits the exact sums are coarsened by, so that the noise fits its sampler."""
        finest = max(_STEPS, (self.entries * self.matrices).bit_length() + 8)
        return max(0, math.floor(math.log2(self.reach)) - finest)

    @property
    def proved(self) -> float:
        """How far one unit moves the coarsened sums, in steps.

        Only classes that a unit leaves or joins move at all: at most two of them for each row that is replaced.
        """
        rows = self.guarantee.group * (2 if self.guarantee.neighbours == "replace" else 1)
        outputs = min(self.matrices, rows) * (self.entries if self.order == 1 else self.dim**2)
        return coarsened(self.reach, self.shift, outputs, self.order)

    @property
    def sensitivity(self) -> float:
        """What the noise is in proportion to: ``proved``, or what the paper says in its place."""
        if self.constants == "proved":
            return self.proved
        one = unit_moments.published(self.turned.dim, top=float(self.turned.top))
        return _grouped(one, self.guarantee.group) * 2.0**-self.shift

    @property
    def unit(self) -> float:
        """What one step of the coarsened sums is worth, where rows of length 1 are worth 1."""
        return self.turned.unit**2 * 2.0**self.shift

    @property
    def energy(self) -> float:
        """The noise's expected squared Frobenius norm at level 1, rows of length 1 being 1, as in ``MeanStage``."""
        entries = self.dim**2 if self.order == 1 else self.dim * (self.dim + 1) / 2
        return self.matrices * entries * (self.reach / self.turned.top**2) ** 2

    def exact(self, rows: Rows, centre: Integers) -> Integers:
        """The matrices about a public centre, (classes, dim, dim)."""
        bits = max(self.turned.top, self.appended).bit_length()

        def one(position: int, block: Floats) -> Integers:
            del position
            placed = self.frame.about(self.frame.place(self.labelled.features(block)), centre)
            image = self._append(self.turned.image(placed), block)
            if not self.labelled.classes:
                return lattice.gram([image], self.dim, bits).int64()[None]
            codes = self.labelled.codes(block)
            return np.stack(
                [lattice.gram([image[:, codes == c]], self.dim, bits).int64() for c in range(self.matrices)]
            )

        return rows.sum(one)

    def _append(self, image: Floats, block: Floats) -> Floats:
        if self.labelled.column is None:
            return image
        constant = np.full(image.shape[1], float(self.appended))
        return np.vstack([image, self.labelled.numbers(block, self.appended) if self.labelled.numeric else constant])

    def moved(self, exact: Integers) -> Integers:
        """The entries that need noise, coarsened, (classes, entries)."""
        first, second = self.places
        return lattice.coarsen(exact[:, first, second], self.shift)

    def protected(self, moved: Integers, scale: float, words: Words) -> Integers:
        """Entries with noise: Laplace of one scale; or Gaussian of this scale on the diagonal, over sqrt(2) off it.

        That is isotropic noise in svec form, where off-diagonal entries count sqrt(2) times.
        """
        if self.order == 1:
            return moved + noise.laplace(words, moved.size, scale).reshape(moved.shape)
        off_diagonal = math.nextafter(scale / math.sqrt(2), math.inf)
        diagonal = noise.gaussian(words, self.matrices * self.dim, scale)
        above = noise.gaussian(words, self.matrices * (self.entries - self.dim), off_diagonal)
        both = diagonal.reshape(self.matrices, -1), above.reshape(self.matrices, self.entries - self.dim)
        return np.asarray(moved + np.concatenate(both, axis=1))

    def whole(self, protected: Integers) -> Floats:
        """The matrices, symmetric but for the paper's noise, where rows of length 1 are worth 1."""
        first, second = self.places
        matrices = np.zeros((self.matrices, self.dim, self.dim))
        if self.constants == "proved":
            matrices[:, second, first] = protected * self.unit
        matrices[:, first, second] = protected * self.unit
        return matrices

    def noise_energy(self, scale: float, dim: int) -> float:
        """The expected squared Frobenius norm of the noise on dim x dim of a matrix, in the units of ``whole``."""
        return (scale * self.unit) ** 2 * (2.0 * dim**2 if self.order == 1 else dim * (dim + 1) / 2)

    def off_variance(self, scale: float) -> float:
        """The variance of the noise off the diagonal, in the units of ``whole``."""
        return (scale * self.unit) ** 2 * (2.0 if self.order == 1 else 0.5)


def _grouped(reach: float, group: int) -> float:
    """Rows of one person move the same sums."""
    return reach if group == 1 else reach * group * (1 + 2.0**-45)
