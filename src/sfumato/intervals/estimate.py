"""An estimate with its standard error and its intervals: what every question to a release is answered with."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.in_notebooks import InNotebooks
from sfumato.numerics.types import Floats

HIDDEN = "At this level nothing is excluded: the interval is the whole range that the bounds allow."
NOISE_ONLY = "noise only"  # what makes an estimate err, where nothing else is random
_DETECTED = 1.96  # standard errors of 0 above which a quantity is distinguishable from 0

Kind: TypeAlias = Literal["confidence", "credible"]
Number: TypeAlias = Any  # a float or an array of them; the answer has the shape of the question
Ends: TypeAlias = tuple[Floats, Floats]  # low and high, of intervals
Bounds: TypeAlias = Callable[[float], Ends]  # from the probability left out on each side


@dataclass(frozen=True, slots=True)
class Quantity:
    """What is estimated: its ``unit`` in words, and the range from ``low`` to ``high`` that the truth cannot leave.

    The range follows from what is public (bounds of columns, numbers of vertices), never from data.
    """

    unit: str = ""
    low: Number = -math.inf
    high: Number = math.inf

    def cut(self, values: Number) -> Floats:
        """Values moved to the nearest that the quantity can have; nan stays nan."""
        return np.asarray(np.clip(np.asarray(values, np.float64), self.low, self.high))

    def filled_by(self, low: Number, high: Number) -> bool:
        """Whether intervals are all the whole range, so that they exclude nothing."""
        return bool(np.all(np.less_equal(low, self.low)) and np.all(np.greater_equal(high, self.high)))


@dataclass(frozen=True, slots=True, repr=False)
class Estimate(InNotebooks):
    """An estimate with its standard error: floats, or arrays of equal shape for many at once.

    ``uncut``          the estimate as it is computed. Noise can take it out of the range of the quantity: a squared
                       distance below 0, or above what the bounds of the columns allow. Where an estimator is unbiased,
                       this number is: take averages and sums of it, not of ``value``.
    ``standard_error`` the standard deviation of ``uncut``, with the estimate itself plugged in.
    ``covers``         the sources of the error, in plain words.
    ``quantity``       what is estimated: its unit and its range.
    ``kind``           of its intervals: "confidence" intervals hold the truth of a question that was chosen beforehand
                       with probability ``level``, whatever the truth is; "credible" ones hold it with this
                       probability given the release, however the question was chosen, as far as the prior is right.
    """

    uncut: Number
    standard_error: Number
    covers: str
    bounds: Bounds = field(compare=False)
    quantity: Quantity = Quantity()
    kind: Kind = "confidence"

    def __repr__(self) -> str:
        said = f"value={self.value!r}, standard_error={self.standard_error!r}"
        return f"{type(self).__name__}({said}, unit={self.unit!r}, covers={self.covers!r})"

    @property
    def value(self) -> Number:
        """The estimate, cut to the range of the quantity.

        Never farther from the truth than ``uncut``, because the truth is within the range. Not unbiased where the range
        is near: cutting moves the average of many values inwards.
        """
        return plain(self.quantity.cut(self.uncut))

    @property
    def unit(self) -> str:
        """The unit of value, error and interval, in words."""
        return self.quantity.unit

    @property
    def limits(self) -> tuple[Number, Number]:
        """The least and the largest number that the truth can be; infinite where nothing public bounds it."""
        return self.quantity.low, self.quantity.high

    def of(self, quantity: Quantity) -> Self:
        """The same as an estimate of a quantity, whose unit it states and whose range cuts its value and intervals."""
        return replace(self, quantity=quantity)

    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> tuple[Number, Number]:
        """(low, high) that hold the truth with probability ``level``, cut to the range of the quantity.

        Each entry by itself, or with ``simultaneous`` all entries of this estimate at once (Bonferroni: right for any
        dependence between them, such as the projection they share). For lengths the law of the estimate is computed
        (``squared_lengths``): 95% intervals cover 95% for differences spread over many columns. That module says what
        they cannot know: a sparse projection of rows that differ in a few columns makes them cautious, and at
        simultaneous levels leaves the upper end at the limit of the range where nothing stands out of the noise.

        The truth is within the range, so cutting loses no coverage. An interval that lies outside of the range
        altogether becomes the nearest end of the range, low = high. That is one of the intervals that miss the truth
        (unless the truth is this end), which happens with probability 1 - ``level`` at most. It does not say that the
        truth is known exactly.
        """
        if not 0 < level < 1:
            raise check.fail("level", level, "strictly between 0 and 1")
        count = max(np.size(self.uncut), 1) if simultaneous else 1
        low, high = self.bounds((1 - level) / (2 * count))
        return plain(self.quantity.cut(low)), plain(self.quantity.cut(high))


def plain(values: Number) -> Number:
    """Value of an estimate in plain types: a float for a single number, an array for many."""
    return float(values) if np.ndim(values) == 0 else values


def fieller(
    score: Number, ratio: tuple[Number, Number], moments: tuple[Number, Number, Number], least: float = 0.0
) -> Ends:
    """Interval of an estimated ratio in [least, 1], given unbiased estimates of both its parts (Fieller 1954).

    All f under which top - f bottom is within ``score`` standard errors of 0, for its own variance: between the roots
    of a quadratic. All of [least, 1] where the bottom itself is indistinguishable from 0.
    moments : variance of the top, covariance, variance of the bottom.
    """
    (top, bottom), squared = ratio, np.asarray(score) ** 2
    tt, tb, bb = (squared * moment for moment in moments)
    a, b, c = bottom**2 - bb, top * bottom - tb, top**2 - tt
    known = (a > 0) & (bottom > 0)
    root, safe = np.sqrt(np.maximum(b**2 - a * c, 0.0)), np.where(known, a, 1.0)
    low, high = (np.clip((b + sign * root) / safe, least, 1.0) for sign in (-1, 1))
    return np.where(known, low, least), np.where(known, high, 1.0)


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
