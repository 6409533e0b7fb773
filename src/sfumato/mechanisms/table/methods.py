"""What a synthetic table measures: pairs of variables, a tree of them, or correlations; and shares of the budget.

Guarantee: ``chosen`` is a function of public facts: recipe, schema, noise, and the number of records, which is public
where records are replaced and comes from noisy one-way tables otherwise. The one-way tables have the same share of the
budget whatever is chosen, so the choice may come after them.
"""

from dataclasses import dataclass
from typing import Literal, Protocol

from sfumato.mechanisms.table.budget import Shares, TableScales

Way = Literal["pairs", "tree", "copula"]

_DROWNED = 38.0  # records over the deviation of a pair's noise: below, a tree of pairs is measured
_MANY = 100  # variables from which on all pairs take too long to compare with a model
_FEW = 10  # variables up to which pairs are few
_TREE_SCORES = 0.15  # of what one-way tables leave: choices of a tree's pairs
_TREE_ONES = 0.3  # of the same: one-way tables again, over bins, which few pairs say little of
_TREE_LABEL = 0.9  # of what is left for pairs: those with the label, at most
_COPULA_LABEL = 0.15  # pairs with the label, which give categories an order


class Asked(Protocol):
    """What a run needs of the recipe of a table."""

    @property
    def label(self) -> str | None:
        """The column that models will predict."""
        ...

    @property
    def rows(self) -> int | None:
        """How many rows of the table to draw."""
        ...

    @property
    def rounds(self) -> int:
        """How many rounds of choices and chosen tables there are."""
        ...

    @property
    def cells(self) -> int:
        """How many cells the model of a table may have."""
        ...

    @property
    def shares(self) -> Shares:
        """How the budget of a table is shared out."""
        ...

    @property
    def method(self) -> Literal["auto", "pairs", "tree", "copula"]:
        """Which tables to measure."""
        ...

    @property
    def label_share(self) -> float:
        """The part of a table's budget for pairs that goes to those with the label."""
        ...


@dataclass(frozen=True, slots=True)
class MethodChoice:
    """A method, how it shares out the budget, and why it was chosen, in one sentence."""

    method: Way
    shares: Shares
    reason: str


def before(recipe: Asked, variables: int) -> MethodChoice:
    """What is known of the choice before one-way tables are measured: their share."""
    method: Way = "pairs" if recipe.method == "auto" or variables == 1 else recipe.method
    return MethodChoice(method, shares(recipe, method, variables), "")


def shares(recipe: Asked, method: Way, variables: int) -> Shares:
    """How a method shares out the budget over its stages; one variable has nothing else to spend it on."""
    if variables == 1:
        return Shares(1.0, 0.0, 0.0)
    if method == "pairs":
        return recipe.shares
    first = recipe.shares.one_ways
    if method == "copula":
        label = _COPULA_LABEL if recipe.label is not None else 0.0
        return Shares(first, 0.0, label, moment=1 - first - label)
    scores, ones = _TREE_SCORES * (1 - first), _TREE_ONES * (1 - first)
    left = 1 - first - scores - ones
    label = min(recipe.label_share * (1 - first), _TREE_LABEL * left) if recipe.label is not None else 0.0
    return Shares(first, 0.0, label, ((scores, left - label), (0.0, ones)))


def chosen(recipe: Asked, variables: int, scales: TableScales, records: float) -> MethodChoice:
    """The method that a recipe names or, for ``auto``, the one that these public facts ask for."""
    if recipe.method != "auto" and variables > 1:
        asked = f"method={recipe.method!r} was asked for"
        return MethodChoice(recipe.method, shares(recipe, recipe.method, variables), asked)
    many = f"{variables:,} variable{'s' if variables > 1 else ''} and about {records:,.0f} records"
    if variables > _FEW and records < _DROWNED * pair_noise(recipe, variables, scales):
        why = "they are too few for many tables, so a tree of pairs was measured"
        return MethodChoice("tree", shares(recipe, "tree", variables), f"{many}: {why}")
    if variables > _MANY:
        why = "too many for one model of pairs, so a tree of pairs was measured"
        return MethodChoice("tree", shares(recipe, "tree", variables), f"{many}: {why}")
    why = "pairs and triples were chosen in rounds" if recipe.rounds else "all pairs of variables were measured"
    return MethodChoice("pairs", shares(recipe, "pairs", variables), f"{many}: {why}")


def pair_noise(recipe: Asked, variables: int, scales: TableScales) -> float:
    """The deviation of the noise that a count of one pair would have if all pairs were measured."""
    pairs = variables * (variables - 1) // 2
    return scales.deviation(scales.alike(pairs, 1 - recipe.shares.one_ways)) if pairs else 0.0
