"""An estimate with its standard error and its intervals: what every question to a release is answered with."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.numerics.types import Floats

Number: TypeAlias = Any  # a float or an array of them; the answer has the shape of the question
Ends: TypeAlias = tuple[Floats, Floats]  # low and high, of intervals
Bounds: TypeAlias = Callable[[float], Ends]  # from the probability left out on each side


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate with its standard error: floats, or arrays of equal shape for many at once.

    ``value``          may leave the range of the quantity (a negative squared distance) when the noise is larger.
    ``standard_error`` the standard deviation of the estimate, with the estimate itself plugged in.
    ``covers``         which randomness the error speaks of, in plain words.
    """

    value: Number
    standard_error: Number
    covers: str
    bounds: Bounds = field(repr=False, compare=False)

    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> tuple[Number, Number]:
        """(low, high) that hold the truth with probability ``level``, cut to the range of the quantity.

        Each entry by itself, or with ``simultaneous`` all entries of this estimate at once (Bonferroni: right for any
        dependence between them, such as the projection they share). For lengths the law of the estimate is computed
        (``squared_lengths``): 95% intervals cover 95% for differences spread over many columns. That module says what
        they cannot know: a sparse projection of rows that differ in a few columns makes them cautious, and at
        simultaneous levels leaves the upper end open (infinite) where nothing stands out of the noise.
        """
        if not 0 < level < 1:
            raise check.fail("level", level, "strictly between 0 and 1")
        count = max(np.size(self.value), 1) if simultaneous else 1
        low, high = self.bounds((1 - level) / (2 * count))
        return plain(low), plain(high)


def plain(values: Number) -> Number:
    """A float for a single number, an array for many."""
    return float(values) if np.ndim(values) == 0 else values


def in_step(arrays: dict[str, NDArray[Any]], width: int, what: str, source: str) -> list[NDArray[Any]]:
    """The arrays of a question: rows of ``width`` numbers, one or many, the same number in each array."""
    shape = next(iter(arrays.values())).shape
    for name, rows in arrays.items():
        if rows.ndim not in (1, 2) or rows.shape[-1] != width or rows.shape != shape:
            raise ParameterError(
                f"{name} must be a row of {width} {what}, or as many such rows as its partner, "
                f"got {name}.shape={rows.shape}: pass rows of the same {source}, pairwise in step"
            )
    return list(arrays.values())
