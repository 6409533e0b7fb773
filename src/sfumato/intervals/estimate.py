"""An estimate with its standard error and its intervals: what every question to a release is answered with."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.numerics.types import Floats

NOISE_ONLY = "noise only"  # what makes an estimate err, where nothing else is random
_DETECTED = 1.96  # standard errors of 0 above which a quantity is distinguishable from 0

Number: TypeAlias = Any  # a float or an array of them; the answer has the shape of the question
Ends: TypeAlias = tuple[Floats, Floats]  # low and high, of intervals
Bounds: TypeAlias = Callable[[float], Ends]  # from the probability left out on each side


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate with its standard error: floats, or arrays of equal shape for many at once.

    ``value``          may leave the range of the quantity (a negative squared distance) when the noise is larger.
    ``standard_error`` the standard deviation of the estimate, with the estimate itself plugged in.
    ``covers``         the sources of the error, in plain words.
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
    """Value of an estimate in plain types: a float for a single number, an array for many."""
    return float(values) if np.ndim(values) == 0 else values


def fieller(score: Number, ratio: tuple[Number, Number], moments: tuple[Number, Number, Number]) -> Ends:
    """Interval of an estimated ratio in [0, 1], given unbiased estimates of both its parts (Fieller 1954).

    All f under which top - f bottom is within ``score`` standard errors of 0, for its own variance: between the roots
    of a quadratic. All of [0, 1] where the bottom itself is indistinguishable from 0.
    moments : variance of the top, covariance, variance of the bottom.
    """
    (top, bottom), squared = ratio, np.asarray(score) ** 2
    tt, tb, bb = (squared * moment for moment in moments)
    a, b, c = bottom**2 - bb, top * bottom - tb, top**2 - tt
    known = (a > 0) & (bottom > 0)
    root, safe = np.sqrt(np.maximum(b**2 - a * c, 0.0)), np.where(known, a, 1.0)
    low, high = (np.clip((b + sign * root) / safe, 0.0, 1.0) for sign in (-1, 1))
    return np.where(known, low, 0.0), np.where(known, high, 1.0)


def in_step(arrays: dict[str, NDArray[Any]], width: int, what: str, source: str) -> list[NDArray[Any]]:
    """Arrays that an estimate is asked of, checked for shape.

    The arrays of a question: rows of ``width`` numbers, one or many, the same number in each array.
    """
    shape = next(iter(arrays.values())).shape
    for name, rows in arrays.items():
        if rows.ndim not in (1, 2) or rows.shape[-1] != width or rows.shape != shape:
            raise ParameterError(
                f"{name} must be a row of {width} {what}, or as many such rows as its partner, "
                f"got {name}.shape={rows.shape}: pass rows of the same {source}, pairwise in step"
            )
    return list(arrays.values())


def detectable(error_of_zero: Number, power: int = 1) -> Number:
    """Least detectable scale of an estimate, given its standard error at a truth of 0.

    The scale to this ``power`` is 1.96 such errors, so distinguishable from 0.
    """
    return (_DETECTED * error_of_zero) ** (1 / power)
