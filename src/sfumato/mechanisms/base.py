"""What every mechanism is: a recipe that is prepared for a schema and a guarantee, calibrated, and run once.

Describe, calibrate, run: a recipe sees no data and holds no budget; preparing it computes what one unit can move, or
refuses; calibration finds the least level that keeps the promise; only ``run`` reads rows.
"""

import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.errors import ParameterError, ReleaseError
from sfumato.fileformat.manifest import Facts
from sfumato.numerics.types import Floats, Integers, Order
from sfumato.privacy.calibration import Family
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.privacy.losses import Composed, Gaussian, Laplace, Loss
from sfumato.randomness import noise
from sfumato.randomness.secret import Secret
from sfumato.tables.blocks import CodeReader, Rows
from sfumato.tables.schema import Schema

Noise = Literal["laplace", "gaussian"]
Chosen = TypeVar("Chosen", bound=str)

STEPS = 22  # one unit's largest move is about 2^22 steps of the grid that noise is drawn on, or more for many numbers
MOST_COLUMNS = 3000  # of which second moments are published
FROM_DATA = "which vertices there are was taken from the data, which is outside the guarantee"
CLASSES_SHOWN = "classes are public here: the class of a record, and how many records have each, are not protected"


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """What a run gives.

    facts     : what the manifest says of it: kind, mechanism, and projection and lattice where they exist.
    names     : of the published columns.
    blocks    : the numbers, each of shape (columns, rows), in order; made as they are asked for. Of kind ``table``,
                record batches with the names and types that ``tables.decoding.arrow_fields`` gives.
    matrix    : the projection in weighted units, if it is published.
    by_record : one published row per record, so that public ids go along.
    beside    : further files by name, each one column ``value`` of numbers; which, the kind says.
    """

    facts: Facts
    names: tuple[str, ...]
    blocks: Iterator[NDArray[np.generic]] | Iterator[pa.RecordBatch]
    matrix: Any = None
    by_record: bool = True
    beside: Mapping[str, pa.Table] = field(default_factory=dict)


class Recipe(Protocol):
    """A frozen description of a mechanism. What most recipes agree on is here; the others say otherwise."""

    __slots__ = ()

    @property
    def width(self) -> int | None:
        """Any mechanism: how many numbers a record, or a vertex, becomes, where the recipe says so."""
        return None

    @property
    def vertices(self) -> int | None:
        """Any mechanism: how many vertices a graph has, where the recipe says so."""
        return None

    @property
    def not_covered(self) -> tuple[str, ...]:
        """Any mechanism: what of its release no guarantee covers, in words for the manifest and the ledger."""
        return ()

    def schema_for(self, schema: Schema | None) -> Schema | None:
        """Any mechanism: the schema of its release, which a recipe in a shared space brings along; else the given one.

        Refuses a given one that is not the space's.
        """
        return schema

    def prepare(self, schema: Any, guarantee: Guarantee) -> "Prepared":
        """Any mechanism: compute what one unit can move, before data is read; refuse what cannot be promised.

        ``schema`` is a Schema, or None for graphs.
        """
        ...


class Prepared(Family, Protocol):
    """A mechanism that knows what one unit can move; a one-parameter family of losses that fall with the level."""

    __slots__ = ()

    if TYPE_CHECKING:  # fields of most mechanisms: a dataclass would take a property here for their default

        @property
        def schema(self) -> Schema | None:
            """What the columns are; None for graphs."""
            ...

        @property
        def guarantee(self) -> Guarantee:
            """What it was prepared to promise."""
            ...

    @property
    def dimension(self) -> int:
        """Any mechanism: how many numbers are published for each row that is read; memory is shared out by it."""
        return 1

    @property
    def reader(self) -> CodeReader | None:
        """Any mechanism: how it reads rows as codes of its own; None if it takes them as the schema encodes them."""
        return None

    @property
    def settings(self) -> dict[str, str | int | None]:
        """Any mechanism: what is published, by name: projection, dimension, noise, rows, vertices, label."""
        return {}

    def run(self, rows: Rows, level: float, secret: Secret) -> Published:
        """Any mechanism: read the rows, clip them, and publish at the loss of ``level``."""
        ...


class Summed(Prepared, Protocol):
    """A mechanism that publishes one vector of exact sums over records, with independent noise on each entry.

    Its ``run`` reads the sums, adds noise of ``scale`` times ``deviations``, and publishes. Sums of disjoint tables add
    up entry by entry, exactly, so others can take the steps apart: streams sum over periods and add noise of their own.
    Length and order of the vector follow from schema and recipe alone.
    """

    __slots__ = ()

    if TYPE_CHECKING:  # as above

        @property
        def reach(self) -> float:
            """How far one unit moves the vector of sums, each entry over its relative deviation.

            Entries are steps, as ``exact`` gives them, so that what rounding and coarsening adds is in it. The norm is
            that of the noise: l2 for Gaussian, l1 for Laplace noise.
            """
            ...

        @property
        def deviations(self) -> Floats:
            """The deviation of the noise on each sum, relative to the stated scale: mostly 1."""
            ...

        @property
        def unit(self) -> float:
            """What one step of the sums is worth in what is published."""
            ...

    def counted(self, rows: Rows) -> tuple[Integers, int]:
        """The exact sums in steps, as int64, and how many rows were read; both are secret."""
        ...

    def exact(self, rows: Rows) -> Integers:
        """The exact sums in steps, as int64; secret."""
        return self.counted(rows)[0]

    def published(self, values: Integers | Floats, scale: float, records: int | None) -> Published:
        """What is published of sums that have their noise: facts for the manifest, and blocks.

        values  : the noisy sums, in steps.
        scale   : of the noise, in steps, where ``deviations`` is 1: b for Laplace, the deviation for Gaussian noise.
        records : the number of rows, or None where it is protected.
        Guarantee: none by itself; nothing but its arguments, the schema and the recipe enters.
        """
        ...


# ---- what recipes refuse ---------------------------------------------------------------------------------------------


def check_shows_rows(guarantee: Guarantee, shows: str) -> None:
    """Refuse what no mechanism can promise that publishes something for every record; ``shows`` says what."""
    if guarantee.unit == "edge":
        raise ParameterError("this protects values or records, got unit='edge': use unit='attribute' or 'record'")
    if guarantee.neighbours != "replace":
        raise ParameterError(
            f"{shows}, so the number of rows is public: "
            f"neighbours must be 'replace', got neighbours={guarantee.neighbours!r}"
        )


def check_noise(guarantee: Guarantee, noise: str) -> None:
    """Refuse, in any mechanism, noise that is never pure where a pure promise is asked for."""
    if noise != "laplace" and guarantee.delta == 0:
        raise ParameterError(
            f"noise={noise!r} needs delta > 0, got delta=0.0: give a small delta or use noise='laplace'"
        )


def settled(noise: Chosen | None) -> Chosen:
    """The noise of a recipe that is prepared; one that nobody chose is settled when a mechanism is prepared."""
    if noise is None:
        raise ParameterError("noise is not settled before a recipe is prepared for a guarantee: state it")
    return noise


def check_columns(what: str, columns: int, advice: str = "leave some out") -> None:
    """Refuse, in any mechanism, second moments or means of so many columns that noise is all there would be."""
    if columns > MOST_COLUMNS:
        raise ParameterError(
            f"{what} of more than {MOST_COLUMNS} encoded columns would be all noise, got {columns}: {advice}"
        )


def check_scale(
    guarantee: Guarantee,
    scale: float,
    level: float,
    advice: str = "between 1e-5 and 1e9",
    room: tuple[int, int] = (1, 1),
) -> None:
    """Refuse, in any mechanism, noise that the exact sampler cannot draw.

    ``room``: factors between its scales and those asked for.
    """
    if not noise.SMALLEST_SCALE * room[0] <= scale <= noise.LARGEST_SCALE / room[1]:
        raise ParameterError(
            f"epsilon={guarantee.epsilon!r} asks for {level:.3g} times the sensitivity as noise, "
            f"which no grid here can hold: choose an epsilon {advice}"
        )


def public_rows(count: int, guarantee: Guarantee) -> int | None:
    """For any mechanism: the number of rows where it is public, and then not 0; None where it is protected."""
    if guarantee.neighbours == "add-remove":
        return None
    if count == 0:
        raise ReleaseError("the data have no rows, so there is nothing to release")
    return count


# ---- what one unit can change ----------------------------------------------------------------------------------------


def effective_change(schema: Schema, guarantee: Guarantee) -> Change:
    """What any mechanism must hide: the change one unit can make once rows are clipped to the schema's norm, if any.

    Two rows in a ball of radius R are at most 2R apart. Radial clipping never lengthens an l2 change and at most
    doubles an l1 change, so a smaller ball of changes stays one; the clip's own rounding is added. Shortening vectors
    to their bounds never lengthens an l2 change either.
    """
    stated = guarantee.allowed_change
    _check_radius(schema, stated)
    if schema.norm is None or stated.kind == "attribute":
        if schema.norm is not None:
            raise ParameterError("a row-norm clip lets one value move a whole row: use unit='record' with it")
        if schema.clips and stated.radius is not None:
            return Change(stated.kind, stated.radius + _clip_rounding(schema))
        return stated
    assert schema.norm_bound is not None
    diameter = min(2 * schema.norm_bound, sys.float_info.max)
    if stated.kind == "box":
        return Change(schema.norm, diameter)
    if stated.kind != schema.norm:
        raise ParameterError(f"a change in the {stated.kind} norm cannot go with a row clip in the {schema.norm} norm")
    assert stated.radius is not None
    moved = stated.radius * (1 if stated.kind == "l2" else 2)
    return Change(stated.kind, min(diameter, moved + _clip_rounding(schema)))


def _clip_rounding(schema: Schema) -> float:
    """How much the rounding of its clips, of vectors and whole rows, can lengthen a change that a mechanism hides."""
    vectors = math.fsum(group.reach2 for group in schema.encoding.groups if group.bound is not None)
    return (schema.encoding.dim + 16) * 2.0**-50 * (vectors + (schema.norm_bound or 0.0))


def _check_radius(schema: Schema, change: Change) -> None:
    """Refuse, in any mechanism, a radius whose unit nobody stated, or which a vector's own clip would stretch."""
    if change.radius is None:
        return
    if not schema.scale_stated:
        raise ParameterError(
            f"the radius {change.radius:g} can be read in two ways: state scale='bounds' in the schema if columns "
            "count in units of their declared range, or scale='raw' if it is in their own units, as in version 0.1.0"
        )
    if change.kind == "l1" and any(group.bound is not None for group in schema.encoding.groups):
        raise ParameterError("a change in the l1 norm cannot go with a vector that has a bound: use a change in l2")


# ---- noise on sums ---------------------------------------------------------------------------------------------------


def coarsening(reach: float, numbers: int = 1) -> int:
    """For any mechanism: bits by which exact sums are coarsened, so that noise is many steps and fits its sampler.

    The more numbers get noise, the more steps it is.
    """
    return max(0, math.floor(math.log2(reach)) - max(STEPS, numbers.bit_length() + 8))


def order_of(noise: Noise) -> Order:
    """For any mechanism: the norm that its noise protects against, 1 for Laplace and 2 for Gaussian."""
    return 1 if noise == "laplace" else 2


def cells_move(order: Order, *, replace: bool, group: int) -> float:
    """For any mechanism: how far one unit moves the counts of one table of cells, of which a record is in exactly one.

    A record that comes or goes moves one count by 1, one that is replaced two; a group of records that many times as
    far, for all of them may be in the same cells.
    """
    return group * ((2.0 if order == 1 else math.sqrt(2)) if replace else 1.0)


def noise_loss(order: Order, level: float) -> Loss:
    """The loss of any mechanism that adds noise of ``level`` times its sensitivity, in the norm of the noise."""
    return Laplace(1.0, level) if order == 1 else Gaussian(1.0, level)


def split_levels(level: float, share: float, order: Order) -> tuple[float, float]:
    """Any mechanism of two stages: noise scale over sensitivity of each, the first with a share of the budget.

    Shares are of epsilon with Laplace noise, of (sensitivity over scale)^2, which is what adds up, with Gaussian noise.
    """
    shares = share, 1 - share
    first, second = shares if order == 1 else map(math.sqrt, shares)
    return level / first if first else math.inf, level / second


def split_loss(first: float, second: float, order: Order) -> Loss:
    """The loss of any mechanism of two stages at these levels; Gaussians compose to a Gaussian, exactly."""
    if order == 1:
        return Composed([Laplace(1.0, first), Laplace(1.0, second)])
    return Gaussian(math.hypot(1 / first, 1 / second) * (1 + 1e-15), 1.0)


def noise_facts(order: Order, sensitivity: float, scale: float) -> Facts:
    """What any mechanism's manifest says of its noise: sensitivity, scale, standard deviation, as published."""
    return {"sensitivity": sensitivity, "scale": scale, "standard_deviation": noise.deviation(order, scale)}


def idealized_warning(unit: float) -> str:
    """The warning in any mechanism's manifest where its Gaussian rows were computed in doubles."""
    return (
        "numerics are idealized: the guarantee is proved for real numbers, and the Gaussian rows were computed in "
        f"doubles; what is published was rounded to multiples of {unit!r}"
    )
