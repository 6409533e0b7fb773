"""Noisy distances: the squared distances between all pairs of records, with noise on each.

Kenthapadi et al. 2013, Algorithms 3 and 4 (noise addition), for any schema, Laplace or Gaussian noise, and one value, a
whole record, a bounded change or several rows of one person as the unit. It is a baseline: a unit takes part in n - 1
distances, so the noise grows with the number of rows, where that of a sketch does not.

Formal guarantee: a run at a level whose loss satisfies delta(epsilon) <= delta is (epsilon, delta)-differentially
private for the unit, neighbours and change of the guarantee it was prepared for. Steps of the argument: the clip and
rounding of ``DistanceGrid`` bound what one unit can change, in integers; squared distances of integers are exact
integers and move by at most ``PreparedDistances.moves`` each; coarsening keeps that, rounded up to a step; the noise is
exact; the rest is post-processing. The number of rows is shown: neighbours replace, not add.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from sfumato import check, defaults
from sfumato.errors import ParameterError
from sfumato.estimation import distance_matrix
from sfumato.fileformat.manifest import Facts
from sfumato.mechanisms.base import (
    Noise,
    Prepared,
    Published,
    Recipe,
    check_noise,
    check_scale,
    check_shows_rows,
    coarsening,
    effective_change,
    noise_facts,
    noise_loss,
    order_of,
    settled,
)
from sfumato.numerics import lattice
from sfumato.numerics.types import Floats, Order
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Loss
from sfumato.projection.lattice_projection import check_steps
from sfumato.randomness.secret import Secret
from sfumato.tables.blocks import Rows
from sfumato.tables.schema import Schema

MOST_ROWS = 20_000  # their triangle has 200 million entries
_LEAST_STEPS = 5  # a single entry moves by at least 2^5 steps, so that rounding it up costs 3% at most
_CELLS = 1 << 21  # of one block of inner products: 16 MiB of doubles
_NARROWEST = 1e-100  # widths beyond this, or its reciprocal, could overflow or underflow when squared


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyDistances(Recipe):
    """The recipe: the squared distances between all pairs of records, with noise on each.

    noise : left out, Gaussian where delta > 0, else Laplace.
    """

    noise: Noise | None = defaults.NOISE

    def __post_init__(self) -> None:
        check.one_of(("laplace", "gaussian"), noise=self.noise or "gaussian")

    @property
    def order(self) -> Order:
        """The norm that the noise protects against."""
        return order_of(settled(self.noise))

    def prepare(self, schema: Schema, guarantee: Guarantee) -> "PreparedDistances":
        """Compute what one unit can move, before any data is read."""
        if self.noise is None:
            return replace(self, noise=defaults.noise_of_sums(guarantee.delta)).prepare(schema, guarantee)
        _check_possible(self, guarantee)
        grid = DistanceGrid(schema)
        return PreparedDistances(self, schema, guarantee, grid, _moves(schema, guarantee, grid))


def _check_possible(recipe: NoisyDistances, guarantee: Guarantee) -> None:
    """Refuse what no mechanism of noisy distances can promise."""
    check_shows_rows(guarantee, "noisy distances show one number per pair of records")
    check_noise(guarantee, settled(recipe.noise))
    if guarantee.projection == "fresh":
        raise ParameterError(
            "noisy distances have no projection that could be fresh, got projection='fresh': use projection='fixed'"
        )


class DistanceGrid:
    """The lattice of clipped inputs, with one step for all columns, so that squared distances are whole numbers.

    Column j runs from 0 to ``tops[j]`` steps, the widest one to 2^bits. With d columns d 4^bits <= 2^52.
    Guarantee: ``round`` maps any block whatever to integers in [0, tops], and leaves at most one column of each
    category above 0, of a set as many as it may have. A cell moves its own integers only, and two cells that differ by
    w weighted units give integers that differ by at most w/step + 1 (+ 2^-24 for the arithmetic in doubles).
    Exactness: norms, inner products and their partial sums are integers of at most 2^52, so |a|^2 + |b|^2 and 2<a, b>
    are integers of at most 2^53, and a float64 computation of |a|^2 + |b|^2 - 2<a, b> is exact in any order.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema, self.encoding = schema, schema.encoding
        widest = float(self.encoding.ranges.max())
        if not _NARROWEST <= widest <= 1 / _NARROWEST:
            expected = f"between {_NARROWEST:g} and {1 / _NARROWEST:g} for its square to be a double"
            raise check.fail("the widest weighted column", widest, expected)
        self.bits = (lattice.EXACT_BITS - 1 - (self.encoding.dim - 1).bit_length()) // 2
        self.step = widest * 2.0**-self.bits
        self.tops = np.rint(self.encoding.ranges / self.step)
        check_steps(self.encoding.weights, self.step)

    @property
    def squares(self) -> list[int]:
        """The squared widths of the columns, in squared steps of the grid."""
        return [int(top) ** 2 for top in self.tops]

    def steps(self, length: float) -> float:
        """Upper bound, in steps, on the distance of two clipped rows on the grid that are this far apart before."""
        return length / self.step * (1 + 1e-9) + math.sqrt(self.encoding.dim) * (1 + 1e-6)

    def round(self, block: Floats) -> Floats:
        """Clip a (columns, rows) block to the schema's norm, if any, and to the bounds; integers, held in doubles."""
        if self.schema.clips:
            block = self.schema.clip(block)
        with np.errstate(over="ignore", invalid="ignore"):
            cells = (block - self.encoding.low[:, None]) * (self.encoding.weights / self.step)[:, None]
        cells = np.rint(np.fmin(np.fmax(cells, 0.0), self.tops[:, None]))  # fmax(NaN, 0) = 0
        for group in self.encoding.groups:
            own = cells[group.start : group.stop]
            if group.most == 1:
                own *= np.arange(len(own))[:, None] == own.argmax(axis=0)
            elif group.most is not None:
                own *= np.cumsum(own > 0, axis=0) <= group.most
        return cells


def _moves(schema: Schema, guarantee: Guarantee, grid: DistanceGrid) -> tuple[int, int]:
    """Noisy distances: most by which one squared distance moves if one of its rows moves, if both; squared steps.

    One value: distances along a column of width c lie in [0, c^2], along a category in [0, 2 w^2]; sets and vectors are
    groups of columns (``distance_matrix.one_value_squared``). A record in the box:
    all distances lie in [0, D^2], D the diameter. Both are attained, by a unit that goes from one end to the other
    while all others stay at the first. A ball: let the difference of two rows move by at most R, from length a to
    length b <= a <= D. With t = a - b <= min(R, a), a^2 - b^2 = t (2a - t) grows with a and with t <= a, so it is
    at most R (2D - R), or D^2 if R >= D. If both rows move, their difference moves by up to 2R. An l1 ball lies in
    the l2 ball of its radius.
    """
    squares, groups = grid.squares, grid.encoding.groups
    change = effective_change(schema, guarantee)
    box = int(distance_matrix.diameter_squared(squares, groups, grid.step))
    if change.kind == "attribute":
        one = int(distance_matrix.one_value_squared(squares, groups, grid.step))
        return one, one
    if change.kind == "box":
        return box, box
    diameter = min(math.sqrt(box), grid.steps(distance_matrix.clip_diameter(schema)))
    assert change.radius is not None
    reach = grid.steps(change.radius)
    one, both = (_farther(moved, diameter, box) for moved in (reach, 2 * reach))
    return one, both


def _farther(reach: float, diameter: float, box: int) -> int:
    """Noisy distances: how much a square <= diameter^2 <= box changes when its root changes by at most ``reach``."""
    bound = diameter**2 if reach >= diameter else reach * (2 * diameter - reach)
    return min(box, math.floor(bound * (1 + 1e-12)))


@dataclass(frozen=True, slots=True, eq=False)
class PreparedDistances(Prepared):
    """Noisy distances whose sensitivities are known for any number of rows; level = noise scale over sensitivity.

    ``moves``: how far one entry moves, in squared steps of the grid, if one of its rows moves, and if both do.
    """

    recipe: NoisyDistances
    schema: Schema
    guarantee: Guarantee
    grid: DistanceGrid
    moves: tuple[int, int]

    @property
    def settings(self) -> dict[str, str | int | None]:
        """Which noise the distances get."""
        return {"noise": self.recipe.noise}

    def loss(self, level: float) -> Loss:
        """The loss of a run with noise scale level * sensitivity."""
        return noise_loss(self.recipe.order, level)

    def moved(self, rows: int) -> tuple[int, int]:
        """How many entries have one row, and how many have both rows, among the g of one person: g(n-g), g(g-1)/2."""
        _check_rows(rows)
        group = min(self.guarantee.group, rows)
        return group * (rows - group), distance_matrix.pairs(group)

    def shift(self, rows: int) -> int:
        """How many bits the exact distances are coarsened by, so that noise is a good number of steps."""
        reach = self._norm(self.moved(rows), self.moves)
        return max(0, min(coarsening(reach), self.moves[0].bit_length() - 1 - _LEAST_STEPS))

    def sensitivity(self, rows: int) -> float:
        """How far one unit moves the coarsened triangle, in the norm of the noise, in steps of the published grid.

        Integers at most m apart are at most ceil(m / 2^t) apart after floor(y / 2^t + 1/2). Which entries move is
        settled by ``moved``; that fewer rows move makes the norm smaller, since entries with both rows move most.
        """
        shift = self.shift(rows)
        one, both = (-(-move >> shift) for move in self.moves)
        return self._norm(self.moved(rows), (one, both))

    def _norm(self, counts: tuple[int, int], sizes: tuple[int, int]) -> float:
        """The norm of a move of the distances, with so many entries of each size; rounded up."""
        if self.recipe.order == 1:
            return float(sum(count * size for count, size in zip(counts, sizes, strict=True)))
        squares = sum(count * size**2 for count, size in zip(counts, sizes, strict=True))
        return math.sqrt(squares) * (1 + 2.0**-50)

    def unit(self, rows: int) -> float:
        """What one step of the published grid is worth, in squared weighted units."""
        return self.grid.step**2 * 2.0 ** self.shift(rows)

    def scale(self, level: float, rows: int) -> float:
        """The noise's scale in steps (b for Laplace, standard deviation for Gaussian), rounded up."""
        return math.nextafter(level * self.sensitivity(rows), math.inf)

    def facts(self, level: float, rows: int) -> Facts:
        """What the manifest says of a run at this level on that many rows, in squared weighted units."""
        unit = self.unit(rows)
        noisy = noise_facts(self.recipe.order, self.sensitivity(rows) * unit, self.scale(level, rows) * unit)
        return {
            "kind": "distances",
            "rows": rows,
            "mechanism": {"name": "distances", "noise": self.recipe.noise, **noisy},
            "lattice": {"input_bits": self.grid.bits, "shift": self.shift(rows), "unit": unit},
        }

    def run(self, rows: Rows, level: float, secret: Secret) -> Published:
        """The noisy strict upper triangle in row-major order, as blocks of shape (1, entries), in squared units.

        Guarantee: as stated at the top, at the loss of ``level``. Every block is clipped here, whatever came in.
        Memory: all n rows as integers, and one block of inner products. Refuses fewer than 2 rows and more than
        ``MOST_ROWS``, before anything is drawn.
        """
        table = self._gather(rows)
        count = table.shape[1]
        scale = self.scale(level, count)
        check_scale(self.guarantee, scale, level)
        blocks = self._blocks(table, scale, secret)
        return Published(self.facts(level, count), ("squared_distance",), blocks, by_record=False)

    def _gather(self, rows: Rows) -> Floats:
        """All rows as integers, (columns, rows), whose distances are taken."""
        parts, count = [], 0
        for part in rows.map(lambda _, block: self.grid.round(block)):
            parts.append(part)
            count += part.shape[1]
            _check_most(count)
        _check_rows(count)
        return np.concatenate(parts, axis=1)

    def _blocks(self, table: Floats, scale: float, secret: Secret) -> Iterator[Floats]:
        count = table.shape[1]
        shift, unit = self.shift(count), self.unit(count)
        parameters = f"distances {self.recipe!r} {self.guarantee!r} {scale.hex()} {shift} {count} {self.schema.digest}"
        for start, triangles in _triangles(table):
            noisy = []
            for i, exact in enumerate(triangles, start):
                integers = lattice.coarsen(exact, shift)
                words = secret.words(parameters, i, integers)
                draw = words.laplace if self.recipe.order == 1 else words.gaussian
                noisy.append(integers + draw(integers.size, scale))
            yield np.concatenate(noisy)[None, :] * unit


def _triangles(table: Floats) -> Iterator[tuple[int, list[Floats]]]:
    """Noisy distances before their noise: exact squared distances of each row to all later ones, in runs of rows.

    Each run comes with the position of its first row.
    """
    count, norms = table.shape[1], np.sum(table * table, axis=0)
    together = max(1, _CELLS // count)
    for start in range(0, count - 1, together):
        stop = min(start + together, count - 1)
        inner = table[:, start:stop].T @ table[:, start:]
        yield start, [norms[i] + norms[i + 1 :] - 2 * inner[i - start, i - start + 1 :] for i in range(start, stop)]


def _check_rows(count: int) -> None:
    if count < 2:
        raise ParameterError(
            f"distances need at least two rows, and the data have {count}: there is nothing to compare"
        )
    _check_most(count)


def _check_most(count: int) -> None:
    if count > MOST_ROWS:
        raise ParameterError(
            f"distances between all pairs are offered for at most {MOST_ROWS:,} rows, and the data have more: "
            "use a sketch, which answers the same questions with one row per record"
        )
