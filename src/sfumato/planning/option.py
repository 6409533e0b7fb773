"""One configuration that a plan considers: ready to run, with predictions of how it would err."""

import math
from dataclasses import dataclass
from typing import Literal, Protocol

from sfumato.intervals import estimate
from sfumato.mechanisms.base import Recipe
from sfumato.planning.forecast import ColumnWidths
from sfumato.privacy.guarantee import Guarantee
from sfumato.tables.schema import Schema

Purpose = Literal["distances", "nearest", "clustering", "covariance", "learning", "cuts"]


class Errors(Protocol):
    """How an option errs, as functions of the truth."""

    def variance(self, quantity: float) -> float:
        """Predicted variance of an option's estimate of a squared distance, a variance, or the weight of a cut."""
        ...

    def mistake(self, distance: float) -> float:
        """Predicted clustering mistakes of an option.

        How often a record of one of two tight groups looks nearer to the other's centre.
        """
        ...


@dataclass(frozen=True, slots=True)
class Option:
    """A configuration that is ready to run under ``guarantee``, and how it would err.

    ``power``: the quantity estimated is this power of the scale: 2 for a squared distance or a variance, 1 for a cut.
    """

    mechanism: Recipe
    guarantee: Guarantee
    name: str
    family: str
    dimension: int
    noise: str
    noise_scale: float
    numbers: int | None
    errors: Errors
    power: int = 2

    def standard_error(self, scale: float) -> float:
        """Predicted standard error of the option's estimate at this scale."""
        return math.sqrt(max(0.0, self.errors.variance(scale**self.power)))  # where nothing errs, rounding can

    def relative_error(self, scale: float) -> float:
        """Predicted standard error of the option over the quantity."""
        return self.standard_error(scale) / scale**self.power

    @property
    def detectable(self) -> float:
        """The least scale that the option distinguishes from 0."""
        return float(estimate.detectable(self.standard_error(0.0), self.power))


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What a plan is made from: ``scale`` is a distance, a standard deviation or the weight of a cut.

    ``dimension``: consider sketches of so many columns only.
    """

    schema: Schema | None
    widths: ColumnWidths
    guarantee: Guarantee
    purpose: Purpose
    rows: int | None
    scale: float
    largest_dimension: int
    dimension: int | None = None

    def merit(self, option: Option) -> float:
        """Merit by which an option is ranked, smaller is better."""
        if self.purpose == "clustering":
            return option.errors.mistake(self.scale)
        return option.standard_error(self.scale)
