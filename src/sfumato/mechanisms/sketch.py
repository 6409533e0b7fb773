"""Private sketches: every record becomes k noisy numbers that keep the distances between records.

Dhaliwal et al. Algorithms 1-2 and Kenthapadi et al. Algorithms 1-2 in one: any projection family, Laplace or Gaussian
noise, one value, a whole record or a bounded change as the unit, with a fixed or a fresh projection.

Formal guarantee: a run at a level whose loss satisfies delta(epsilon) <= delta is (epsilon, delta)-differentially
private for the unit, neighbours and change of the guarantee it was prepared for. Steps of the argument: the clip and
rounding of ``InputGrid`` bound what one unit can change; the exact integer product moves by at most
``LatticeProjection.sensitivity``; coarsening adds less than one step per output; the noise is exact; the rest is
post-processing. Rows are handled one by one, so the number of rows is shown: neighbours replace, not add.
"""

import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sfumato import check, defaults
from sfumato.errors import ParameterError
from sfumato.fileformat.manifest import MOST_NUMBERS, Facts
from sfumato.mechanisms import in_space
from sfumato.mechanisms.base import (
    STEPS,
    Noise,
    Prepared,
    Published,
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
from sfumato.numerics.lattice import PIECE, InputGrid, coarsened_sensitivity, doubles
from sfumato.numerics.types import Floats, Order
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.privacy.losses import FreshGaussian, FreshLaplace, Loss
from sfumato.projection.families import Family
from sfumato.projection.lattice_projection import LatticeProjection, input_bits
from sfumato.projection.projection import Given, Projection
from sfumato.projection.space import AnySpace
from sfumato.randomness.secret import Secret
from sfumato.tables.blocks import Piecewise, Rows
from sfumato.tables.schema import Schema

_DRAWN = 1 << 18  # noises at a time
_SINGLE = 12  # numbers up to 2^12 noise scales are published in single precision: it errs by 2^-12 of the scale


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch(in_space.InSpace):
    """The recipe: every record becomes a few noisy numbers that keep the distances between records.

    dimension  : how many numbers each record becomes; left out, as many as it has encoded columns.
    projection : left out, ``sparse`` (CountSketch) to a given dimension and ``identity`` without one.
    noise      : left out, the one that is predicted to deviate less; Gaussian noise needs delta > 0.
    seed       : of the projection, and public; left out, one is drawn when the sketch is prepared.
    space      : a shared space, or its file, which says projection, dimension, sparsity and seed, and the schema.
    columns    : those of the space that the owner holds, where they are not all.
    """

    dimension: int | None = None
    projection: Family | None = None
    noise: Noise | None = defaults.NOISE
    sparsity: int | None = None
    seed: int | None = None
    publish_projection: bool = True
    space: AnySpace = field(default=None, repr=False)
    columns: Sequence[str] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check.one_of(("laplace", "gaussian"), noise=self.noise or "laplace")
        in_space.take_place(self, "projection", "dimension", "sparsity", "seed")
        if self.space is not None and not self.publish_projection:
            raise ParameterError("the projection of a space is public, got publish_projection=False")
        if self.dimension is not None:
            check.whole(1, dimension=self.dimension)
        if self.projection is None:
            object.__setattr__(self, "projection", "identity" if self.dimension is None else "sparse")
        check.one_of(get_args(Family), projection=self.family)
        if self.dimension is None and self.family != "identity":
            raise ParameterError(f"projection={self.projection!r} needs a dimension, got dimension=None")

    @property
    def width(self) -> int | None:
        """The recipe of a sketch: how many numbers each record becomes."""
        return self.dimension

    @property
    def family(self) -> Family:
        """The recipe's family of projections, which is never missing once the recipe exists."""
        assert self.projection is not None
        return self.projection

    @property
    def order(self) -> Order:
        """The recipe of a sketch: the norm that its noise protects against."""
        return order_of(settled(self.noise))

    def prepare(self, schema: Schema | None, guarantee: Guarantee) -> "PreparedSketch":
        """Draw the projection and compute what one unit can move, before any data is read.

        The noise, if nobody stated one, does not depend on the draw: a price must hold for the release that follows.
        """
        schema = in_space.schema_needed(self, schema)
        in_space.check_fixed(self.place[0], guarantee)
        if self.noise is None and (guarantee.delta == 0 or guarantee.projection == "fresh"):
            return replace(self, noise=defaults.noise_of_sums(guarantee.delta)).prepare(schema, guarantee)
        _check_possible(self, guarantee)
        columns, dimension = schema.encoding.dim, self.width or schema.encoding.dim
        if dimension > MOST_NUMBERS:
            raise check.fail("dimension", dimension, f"at most {MOST_NUMBERS:,}, which is what a release can hold")
        seed = secrets.randbits(128) if self.seed is None else self.seed
        noise = self.noise or _quieter(replace(self, dimension=dimension), schema, guarantee)
        settled = replace(self, seed=seed, dimension=dimension, noise=noise)
        return _prepared(settled, schema, guarantee, settled.projected(columns, dimension, seed))

    def projected(self, columns: int, dimension: int, seed: int) -> "Projection | LatticeProjection":
        """The projection of a settled sketch: its space's, on the lattice of the space, or one of its own."""
        space, held = self.place
        if space is not None:
            return in_space.lattice_in(space, held)
        return Projection(family=self.family, dim_in=columns, dim_out=dimension, seed=seed, sparsity=self.sparsity)


def prepare_given(recipe: Sketch, schema: Schema, guarantee: Guarantee, matrix: Floats) -> "PreparedSketch":
    """A sketch by a matrix that is given, in weighted units, instead of one drawn from a seed.

    Guarantee: that of a fixed projection, which holds for every matrix, so for one that is public by now.
    """
    return _prepared(recipe, schema, guarantee, Given(matrix))


def _prepared(
    recipe: Sketch, schema: Schema, guarantee: Guarantee, projection: Projection | Given | LatticeProjection
) -> "PreparedSketch":
    encoding = schema.encoding
    bits = input_bits(encoding.dim)
    on_lattice = (
        projection
        if isinstance(projection, LatticeProjection)
        else projection.on_lattice(encoding.ranges, input_bits=bits, projection_bits=bits + 1)
    )
    reach = (_fresh_reach if guarantee.projection == "fresh" else _fixed_reach)(recipe, schema, guarantee, on_lattice)
    return PreparedSketch(recipe, schema, guarantee, on_lattice, reach)


def _quieter(recipe: Sketch, schema: Schema, guarantee: Guarantee) -> Noise:
    """The noise that deviates less at the guarantee, under the projection of the stated seed or of a fixed one."""

    def deviation(noise: Noise) -> float:
        made = replace(recipe, noise=noise, seed=recipe.seed or 0).prepare(schema, guarantee)
        return float(made.noise_facts(calibrate(made, guarantee).level)["standard_deviation"])

    noises: tuple[Noise, ...] = ("laplace", "gaussian")
    return min(noises, key=deviation)


def _check_possible(sketch: Sketch, guarantee: Guarantee) -> None:
    """Refuse what no sketch can promise of its noise and projection."""
    check_shows_rows(guarantee, "a sketch shows one row per record")
    check_noise(guarantee, sketch.noise or "laplace")
    if guarantee.projection == "fresh":
        _check_fresh(sketch, guarantee)


def _check_fresh(sketch: Sketch, guarantee: Guarantee) -> None:
    families = ("gaussian",) if sketch.noise == "laplace" else ("gaussian", "orthonormal")
    if sketch.family not in families:
        raise ParameterError(
            f"projection='fresh' with {sketch.noise} noise is proved for {' and '.join(families)} projections only, "
            f"got projection={sketch.projection!r}"
        )
    if sketch.seed is not None:
        raise ParameterError(f"a fresh projection is drawn at the release and takes no seed, got seed={sketch.seed}")
    if guarantee.group > 1:
        raise ParameterError(f"projection='fresh' is proved for one record at a time, got group={guarantee.group}")


def _fixed_reach(recipe: Sketch, schema: Schema, guarantee: Guarantee, projection: LatticeProjection) -> float:
    """Sketch by a fixed projection: how far one unit moves the exact product, in the norm of the noise.

    Up to ``group`` rows of one person move.
    """

    def one_row(change: Change) -> float:
        return projection.sensitivity(change, recipe.order, groups=schema.encoding.groups)

    change = effective_change(schema, guarantee)
    exact = one_row(change)
    # Rows stay within their bounds, whatever the ball; and beside a very wide column, whose rounding alone is longer
    # than a narrow one, a ball says more than the exact product can hold.
    if (change.radius or 0.0) >= float(projection.ranges.max()) or exact > 2.0**lattice.EXACT_BITS:
        exact = min(exact, one_row(Change.box()))
    return exact * (guarantee.group if recipe.order == 1 else math.sqrt(guarantee.group)) * (1 + 1e-15)


def _fresh_reach(recipe: Sketch, schema: Schema, guarantee: Guarantee, projection: LatticeProjection) -> float:
    """Sketch by a fresh projection: radius of the change before projecting, in units of the exact product.

    Rounding of the inputs is included.
    """
    del recipe
    widest = float(np.linalg.norm(projection.ranges)) * (1 + 1e-12)
    radius = effective_change(schema, guarantee).radius or 0.0
    return min(radius + projection.rounding_growth(2), widest) / projection.unit * (1 + 1e-15)


@dataclass(frozen=True, slots=True, eq=False)
class PreparedSketch(Prepared):
    """A sketch whose projection is drawn and whose sensitivities are known; level = noise scale over sensitivity.

    For a fresh projection, level = noise scale over the radius of the change. ``reach`` is either, in units of the
    exact product.
    """

    recipe: Sketch
    schema: Schema
    guarantee: Guarantee
    projection: LatticeProjection
    reach: float

    @property
    def dimension(self) -> int:
        """How many numbers each record becomes."""
        return self.projection.dim_out

    @property
    def settings(self) -> dict[str, str | int | None]:
        """Projection, numbers of each record, and noise."""
        return {"projection": self.recipe.family, "dimension": self.dimension, "noise": self.recipe.noise}

    @property
    def order(self) -> Order:
        """The norm that the noise protects against."""
        return self.recipe.order

    @property
    def fresh(self) -> bool:
        """Whether the guarantee rests on the projection being new."""
        return self.guarantee.projection == "fresh"

    @property
    def shift(self) -> int:
        """How many bits the exact product is coarsened by, so that noise is a good number of steps."""
        return coarsening(self.reach)

    @property
    def sensitivity(self) -> float:
        """How far one unit moves the coarsened output, or for a fresh projection the radius of its move, in steps."""
        if self.fresh:
            return self.reach * 2.0**-self.shift * (1 + 1e-15)
        outputs = self.dimension * self.guarantee.group
        return coarsened_sensitivity(self.reach, self.shift, outputs, self.order)

    @property
    def unit(self) -> float:
        """What one step of the published grid is worth, in weighted units."""
        return self.projection.unit * 2.0**self.shift

    def loss(self, level: float) -> Loss:
        """The loss of a run with noise scale level * sensitivity."""
        if not self.fresh:
            return noise_loss(self.order, level)
        # The loss averages over draws of P, so nothing in it may depend on the draw: with sensitivity >= 2^22 steps
        # (or no coarsening at all) the coarsening adds at most sqrt(k) steps.
        rounding = (self.projection.rounding_beforehand + math.sqrt(self.dimension) * 2.0**-STEPS) * (1 + 1e-12)
        if self.order == 1:
            return FreshLaplace(dim_out=self.dimension, radius=1.0, laplace_scale=level, rounding=rounding)
        dim_in = self.projection.projection.dim_in
        family: Literal["gaussian", "orthonormal"] = "gaussian" if self.recipe.family == "gaussian" else "orthonormal"
        return FreshGaussian(
            family=family, dim_in=dim_in, dim_out=self.dimension, radius=1.0, scale=level, rounding=rounding
        )

    def scale(self, level: float) -> float:
        """The noise's scale in steps (b for Laplace, standard deviation for Gaussian), rounded up."""
        return math.nextafter(level * self.sensitivity, math.inf)

    def run(self, rows: Rows, level: float, secret: Secret) -> Published:
        """The published numbers, one row of ``dimension`` of them per record, in weighted units.

        Guarantee: as stated at the top, at the loss of ``level``. Every block is clipped here, whatever came in.
        """
        scale = self.scale(level)
        check_scale(self.guarantee, scale, level)
        space, where = self.recipe.place[0], self.schema.digest
        where = where if space is None else f"{where} {space.digest}"
        parameters = f"sketch {self.recipe!r} {self.guarantee!r} {scale.hex()} {self.shift} {where}"
        integers = _exact_rows(self.schema, self.projection, self.shift)
        unit, offset, precision = self.unit, self.offset[:, None], self.precision(level)
        records = max(1, _DRAWN // self.dimension)

        def one(position: int, block: Any) -> NDArray[np.floating]:
            exact = integers(block)
            words = secret.words(parameters, position, exact)
            draw = words.laplace if self.order == 1 else words.gaussian
            numbers = np.empty(exact.shape, precision)
            for start in range(0, exact.shape[1], records):  # a few at a time, while they are in the cache
                some = slice(start, start + records)
                steps = exact[:, some]
                noisy = draw(steps.size, scale).reshape(steps.shape)
                noisy += steps
                made = noisy * unit
                made += offset
                numbers[:, some] = made
            return numbers

        matrix = self.projection.matrix() if self.recipe.publish_projection else None
        names = tuple(f"z{i}" for i in range(self.dimension))
        return Published(self.facts(level), names, rows.map(Piecewise(one)), matrix)

    def facts(self, level: float) -> Facts:
        """What the manifest says of a run at this level."""
        drawn, noisy = self.projection.projection, self.noise_facts(level)
        projection: Facts = {"family": drawn.family, "dim_in": drawn.dim_in, "dim_out": self.dimension}
        projection |= {"published": self.recipe.publish_projection}
        if self.recipe.publish_projection and self.recipe.seed is not None:
            projection |= {"seed": self.recipe.seed}
        projection |= {"sparsity": drawn.sparsity} if drawn.sparsity is not None else {}
        return {
            "kind": "sketch",
            "mechanism": {
                "name": "sketch",
                "noise": self.recipe.noise,
                **({"radius": noisy.pop("sensitivity")} if self.fresh else {}),
                **noisy,
            },
            "projection": projection,
            "lattice": {
                "input_bits": self.projection.input_bits,
                "projection_bits": self.projection.projection_bits,
                "shift": self.shift,
                "unit": self.unit,
                "numbers": self.precision(level),
            },
            **in_space.space_facts(*self.recipe.place),
        }

    def noise_facts(self, level: float) -> Facts:
        """Sensitivity, scale and standard deviation of the noise at this level, in weighted units."""
        return noise_facts(self.order, self.sensitivity * self.unit, self.scale(level) * self.unit)

    def precision(self, level: float) -> Literal["float32", "float64"]:
        """The type of the published numbers: single precision where its error vanishes in the noise.

        Rounding what the noise has protected is post-processing. The choice depends on public bounds alone.
        """
        scale = self.scale(level) * self.unit
        reach = abs(self.projection.entries).sum(axis=0).max() * 2.0**self.projection.input_bits * self.projection.unit
        largest = float(np.abs(self.offset).max()) + float(reach)
        fits = scale > 2.0**-100 and max(largest, scale * 2.0**_SINGLE) < 2.0**100
        return "float32" if fits and largest <= scale * 2.0**_SINGLE else "float64"

    @property
    def offset(self) -> Floats:
        """What the low bounds become under the projection; public, added so that the origin is kept."""
        encoding = self.schema.encoding
        return np.asarray(self.projection.matrix().T @ (encoding.low * encoding.weights))


def _exact_rows(schema: Schema, projection: LatticeProjection, shift: int) -> Callable[[Any], NDArray[np.int64]]:
    """A sketch before its noise: an encoded block to the coarsened exact product (clip, round, multiply, coarsen)."""
    encoding = schema.encoding
    grid = InputGrid(encoding.low, encoding.high, projection.input_bits)

    def integers(block: Any) -> NDArray[np.int64]:
        if not schema.clips:  # the grid clips to the column bounds in any case
            return projection.apply(grid, block, shift)
        pieces = [block[:, start : start + PIECE] for start in range(0, max(1, block.shape[1]), PIECE)]
        return np.hstack([projection.apply(grid, schema.clip(doubles(piece)), shift) for piece in pieces])

    return integers
