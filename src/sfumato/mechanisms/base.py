"""What every mechanism is: a recipe that is prepared for a schema and a guarantee, calibrated, and run once.

Describe, calibrate, run: a recipe sees no data and holds no budget; preparing it computes what one unit can move, or
refuses; calibration finds the least level that keeps the promise; only ``run`` reads rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError
from sfumato.fileformat.manifest import Facts
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Loss
from sfumato.randomness.secret import Secret
from sfumato.tables.blocks import Rows
from sfumato.tables.schema import Schema

FROM_DATA = "which vertices there are was taken from the data, which is outside the guarantee"
CLASSES_SHOWN = "classes are public here: the class of a record, and how many records have each, are not protected"


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """What a run gives.

    facts     : what the manifest says of it: kind, mechanism, and projection and lattice where they exist.
    names     : of the published columns.
    blocks    : the numbers, each of shape (columns, rows), in order; made as they are asked for.
    matrix    : the projection in weighted units, if it is published.
    by_record : one published row per record, so that public ids go along.
    """

    facts: Facts
    names: tuple[str, ...]
    blocks: Iterator[NDArray[np.generic]]
    matrix: Any = None
    by_record: bool = True


class Prepared(Protocol):
    """A mechanism that knows what one unit can move; a one-parameter family of losses that fall with the level."""

    @property
    def schema(self) -> Schema | None:
        """What the columns are; None for graphs."""
        ...

    @property
    def guarantee(self) -> Guarantee:
        """What it was prepared to promise."""
        ...

    def loss(self, level: float) -> Loss:
        """The loss of a run at this level."""
        ...

    def run(self, rows: Rows, level: float, secret: Secret) -> Published:
        """Read the rows, clip them, and publish at the loss of ``level``."""
        ...


class Recipe(Protocol):
    """A frozen description of a mechanism."""

    def prepare(self, schema: Any, guarantee: Guarantee) -> Prepared:
        """Compute what one unit can move, before any data is read; refuse what cannot be promised.

        ``schema`` is a Schema, or None for graphs.
        """
        ...


def check_shows_rows(guarantee: Guarantee, shows: str) -> None:
    """Refuse what nothing can promise that publishes something for every record; ``shows`` says what."""
    if guarantee.unit == "edge":
        raise ParameterError("this protects values or records, got unit='edge': use unit='attribute' or 'record'")
    if guarantee.neighbours != "replace":
        raise ParameterError(
            f"{shows}, so the number of rows is public: "
            f"neighbours must be 'replace', got neighbours={guarantee.neighbours!r}"
        )


def check_noise(guarantee: Guarantee, noise: str) -> None:
    """Refuse noise that is never pure where a pure promise is asked for."""
    if noise != "laplace" and guarantee.delta == 0:
        raise ParameterError(
            f"noise={noise!r} needs delta > 0, got delta=0.0: give a small delta or use noise='laplace'"
        )
