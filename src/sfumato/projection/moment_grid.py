"""The public grid of second moments: what rows are taken about, and what they are rounded to before they are summed.

It follows from the schema and a number of bits. So whoever reads a release knows it, and how far rounding can have
moved what was summed.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sfumato.numerics.types import Floats
from sfumato.tables.schema import Schema


@dataclass(frozen=True, slots=True, eq=False)
class MomentGrid:
    """A centre and a common step, in weighted units (the centre in the columns' own).

    half     : how many steps each column reaches to either side of the centre.
    rounding : how far rounding can move a number of each column: half a step, but for flags and categories without a
               clip of whole rows, whose two values are known.
    """

    centre: Floats
    half: NDArray[np.int64]
    step: float
    rounding: Floats

    @classmethod
    def of(cls, schema: Schema, bits: int) -> Self:
        """From a schema: the middle of the bounds, or the origin under a norm; 2^bits steps for the widest column."""
        encoding = schema.encoding
        known = np.zeros(encoding.dim, bool)
        if schema.norm_bound is None:
            centre, extent = encoding.low / 2 + encoding.high / 2, encoding.ranges / 2
            known[list(encoding.binary)] = True
        else:
            furthest = encoding.weights * np.maximum(np.abs(encoding.low), np.abs(encoding.high))
            centre, extent = np.zeros(encoding.dim), np.minimum(furthest, schema.norm_bound)
        step = float(extent.max()) * 2.0**-bits
        with np.errstate(divide="ignore", invalid="ignore"):  # of a stranger's schema; mechanisms refuse such widths
            steps = np.rint(extent / step)
            half = steps.astype(np.int64)
        rounding = np.where(known, np.abs(extent - steps * step), step / 2) + 2.0**-50 * extent
        return cls(centre, half, step, rounding)
