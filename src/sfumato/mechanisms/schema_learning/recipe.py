"""A schema learned from the data under differential privacy: kinds of columns, bounds of numbers, values of texts.

Everything is decided by counts of records in cells of public partitions, and of records with each text, with exact
Gaussian noise on every count. What follows from noisy counts is post-processing. A text is published only if its noisy
count exceeds a threshold, so that one that only one unit has appears with a small probability, which is part of delta.

Formal guarantee: (epsilon, delta) for one record, or a group of them, replaced, or added or removed. It assumes that
names of columns are public, and which of them hold lists, and, where records are replaced, their number. Proofs:
``budget`` (noise, stage by stage), ``threshold_loss`` (thresholds), and docs/learned-schemas.md.

1. Kinds of cells, all columns: decides what a column is.
2. Octaves of numbers and counts of texts, of the columns that need them: first bounds, and values.
3. Equal cells within first bounds: refined bounds, and how many cells they cut.
"""

from dataclasses import dataclass

from sfumato.errors import ParameterError, SchemaError
from sfumato.mechanisms.schema_learning import stages, wanted
from sfumato.mechanisms.schema_learning.budget import FAILURE, Budget, Threshold
from sfumato.mechanisms.schema_learning.counting import Reading
from sfumato.mechanisms.schema_learning.decisions import TEXTS
from sfumato.mechanisms.schema_learning.stages import LearnedDraft
from sfumato.mechanisms.schema_learning.wanted import Wanted
from sfumato.privacy.calibration import Family
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.threshold_loss import FailingGaussian
from sfumato.randomness.secret import Secret


@dataclass(frozen=True, slots=True)
class LearningForecast:
    """What learning a schema will do, known before a row is read: standard deviations of noise, and thresholds.

    kinds     : noise on counts of kinds of cells.
    measured  : for each column, noise on counts of its octaves or texts, at most.
    threshold : for each column that may hold texts, what a noisy count must exceed, at most. A text that twice as many
                records have is kept, unless noise takes off the threshold, which is several deviations.
    """

    kinds: float
    measured: dict[str, float]
    threshold: dict[str, Threshold]


@dataclass(frozen=True, slots=True)
class SchemaLearning(Family):
    """The mechanism that learns a schema, for a guarantee of unit record: a family of losses, calibrated and run."""

    columns: tuple[Wanted, ...]
    guarantee: Guarantee

    def __post_init__(self) -> None:
        if self.guarantee.unit != "record" or self.guarantee.allowed_change.kind != "box":
            raise ParameterError("a schema is learned with unit='record', and a record may change to any other")
        if self.guarantee.delta == 0:
            raise ParameterError("a learned schema needs delta > 0, got delta=0.0: give a small delta")
        if not self.columns:
            raise SchemaError("there is no column to learn: all of them are ids or declared")

    @property
    def guess(self) -> None:
        """No guess at the level of a learned schema: its loss is quick to compute."""
        return None

    @property
    def failure(self) -> float:
        """The probability, at most, that a learned value is one that a single unit has."""
        return FAILURE * self.guarantee.delta if any(c.worst in TEXTS for c in self.columns) else 0.0

    def loss(self, level: float) -> FailingGaussian:
        """What learning a schema costs: noise of mu = 1/level in all stages together, and thresholds that may fail."""
        return FailingGaussian(1.0, level, self.failure)

    def forecast(self, level: float) -> LearningForecast:
        """What is known of a schema before it is learned; a column that may hold texts is taken to hold them."""
        kinds, budget = Budget.of(self.guarantee, level).kinds(len(self.columns))
        guesses = {column.name: column.worst for column in self.columns}
        scales, _ = wanted.measured(self.columns, guesses, budget, refines=True)
        limits = wanted.thresholds(self.columns, guesses, scales, self.guarantee.group, self.failure)
        return LearningForecast(kinds, scales, limits)

    def run(self, reading: Reading, level: float, secret: Secret) -> LearnedDraft:
        """Read the table, and learn its schema at the loss of ``level``."""
        return stages.learn(self.columns, self.guarantee, self.failure, reading, level, secret)
