"""Columns to learn a schema of, and the noise that each of them gets: a function of public facts and noisy guesses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sfumato.mechanisms.schema_learning.budget import Budget, Threshold, threshold
from sfumato.mechanisms.schema_learning.decisions import TEXTS, Guess


@dataclass(frozen=True, slots=True)
class Wanted:
    """A column to learn: its name, the shape of its cells, and what is declared about it.

    shape : ``scalar``, ``vector`` (of ``size`` numbers) or ``set`` (of at most ``most`` items a record).
    kind  : what the column is, where that is declared; its bounds or values are learned all the same.
    """

    name: str
    shape: str = "scalar"
    size: int = 0
    most: int = 1
    kind: Guess | None = None

    @property
    def guess(self) -> Guess | None:
        """What the column is, where that is known before a row is read."""
        known: dict[str, Guess] = {"vector": "vector", "set": "set"}
        return known.get(self.shape, self.kind)

    @property
    def worst(self) -> Guess:
        """What the column would have to be to be learned with most noise."""
        return self.guess or "category"

    def cells(self, guess: Guess) -> int:
        """In how many counted cells or texts of the second stage a record is, if the column is of this kind."""
        if guess == "flag":
            return 0
        return {"vector": 2, "set": self.most}.get(guess, 1)


Guesses = Mapping[str, Guess]


def measured(
    columns: Sequence[Wanted], guesses: Guesses, budget: Budget, *, refines: bool
) -> tuple[dict[str, float], Budget]:
    """Noise of each column's octaves or texts, and the budget after it."""
    cells = {c.name: (c.cells(guesses[c.name]), guesses[c.name] in TEXTS) for c in columns}
    return budget.measured({name: entry for name, entry in cells.items() if entry[0]}, refines=refines)


def thresholds(
    columns: Sequence[Wanted], guesses: Guesses, scales: Mapping[str, float], group: int, failure: float
) -> dict[str, Threshold]:
    """The threshold of each column of texts: their failures add up to at most ``failure``."""
    counted = {c.name: c.cells(guesses[c.name]) for c in columns if guesses[c.name] in TEXTS}
    return {name: threshold(scales[name], sum(counted.values()), group, failure) for name in counted}
