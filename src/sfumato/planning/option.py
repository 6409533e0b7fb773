"""One configuration that a plan considers: ready to run, with predictions of how it would err."""

import math
from dataclasses import dataclass, field
from typing import Literal, Protocol

from sfumato.intervals import estimate
from sfumato.mechanisms.base import Recipe
from sfumato.mechanisms.responses import RandomizedResponse
from sfumato.planning.forecast import ColumnWidths
from sfumato.planning.public_guess import PublicGuess
from sfumato.privacy.guarantee import Guarantee
from sfumato.tables.schema import Schema

Purpose = Literal["distances", "nearest", "clustering", "covariance", "learning", "cuts"]

SIMILAR: tuple[Purpose, ...] = ("nearest", "clustering", "learning")  # ranked by what analysts find of similar records
ROWS = 10_000  # records that are assumed where their number matters and is not stated
NEAR = 0.05  # share of all records that counts as near
_HOPELESS = 0.05  # of the way from chance to perfection


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
class Alike:
    """What analysts are expected to find of similar records, with the prior that they learn from the release.

    recall : of the ``shown`` nearest of a record, how many are shown, as a share.
    near   : of those that are shown, how many are among the nearest twentieth of all records, as a share.
    order  : how often, of two other records, the one that looks nearer is.
    rows   : among so many records, of which ``simulated`` were simulated.
    """

    recall: float
    near: float
    order: float
    shown: int
    rows: int
    simulated: int

    def share(self, purpose: Purpose) -> float:
        """What of this counts for a purpose: recall, for learning near, for clustering order."""
        return {"clustering": self.order, "learning": self.near}.get(purpose, self.recall)

    def chance(self, purpose: Purpose) -> float:
        """What a ranking by chance would find of similar records."""
        return {"clustering": 0.5, "learning": NEAR}.get(purpose, self.shown / max(self.rows - 1, self.shown))

    def gain(self, purpose: Purpose) -> float:
        """How far the share of similar records is from chance (0) to perfection (1)."""
        chance = self.chance(purpose)
        return 1.0 if chance >= 1 else (self.share(purpose) - chance) / (1 - chance)

    def hopeless(self, purpose: Purpose) -> bool:
        """Whether what is found of similar records is close to chance."""
        return self.gain(purpose) < _HOPELESS

    def words(self, purpose: Purpose) -> str:
        """What is expected of similar records, in a sentence without its end."""
        share, chance = f"{_percent(self.share(purpose))}", f"by chance {_percent(self.chance(purpose))}"
        if purpose == "clustering":
            return f"of two records, the one that looks nearer to a third is nearer in {share} of cases ({chance})"
        if purpose == "learning":
            return f"{share} of the {self.shown} records shown as nearest are among the nearest {NEAR:.0%} ({chance})"
        return f"of the {self.shown} records nearest to one, {share} are shown ({chance})"


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.095 else f"{share:.1%}" if share >= 0.00095 else f"{share:.2g}"


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
    alike: Alike | None = None

    @property
    def levels(self) -> int | None:
        """How many levels the option cuts numbers into, if it does."""
        return self.mechanism.levels if isinstance(self.mechanism, RandomizedResponse) else None

    @property
    def settings(self) -> str:
        """What sets the option apart from others of its mechanism: its projection, or its levels."""
        return self.family if self.levels is None else f"{self.levels} levels"

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
    ``guess``: rows that stand for the records, where similar ones are to be found.
    """

    schema: Schema | None
    widths: ColumnWidths
    guarantee: Guarantee
    purpose: Purpose
    rows: int | None
    scale: float
    largest_dimension: int
    dimension: int | None = None
    guess: PublicGuess | None = field(default=None, compare=False)

    def merit(self, option: Option) -> tuple[bool, float]:
        """Merit by which an option is ranked, smaller is better.

        Of a plan for learning, options for models from sums come before those for neighbours; they do not compare.
        """
        if option.alike is not None:
            return True, -option.alike.gain(self.purpose)
        if self.purpose == "clustering":
            return False, option.errors.mistake(self.scale)
        return False, option.standard_error(self.scale)
