"""Synthetic tables in the owner's own columns: noisy counts of cells, a model that fits them, and rows drawn from it.

1. One-way tables of all variables over fine cells, which the schema gives. Bins of fine cells follow from them.
2. Pairs with a label, over bins at once; they get a share of their own. Without rounds, all other pairs too.
3. Which of these pairs the model needs follows from their noisy tables.
4. Rounds: pairs and triples are chosen privately, by how far the model is off, and their tables are measured.
5. The model: the distribution on a junction tree that fits all noisy tables best (Private-PGM, McKenna, Sheldon and
   Miklau 2019); rows are drawn from it, and values from the fine cells of their bins.

Instead of 2 to 4, where there are many variables or few records: pairs with the label, and a tree of pairs (``tree``);
or one number for each pair, and a Gaussian copula (``copula``).

Formal guarantee: a run at a level whose loss satisfies delta(epsilon) <= delta is (epsilon, delta)-differentially
private for whole records, or groups of them, replaced, or added or removed. All that is read off the rows are exact
counts and sums, which go through ``budget.Meter`` and nowhere else; what one unit moves of them, and why choices
between the stages cost nothing, is proved there. Bins, structure, model and rows are post-processing, and so is
everything that an analyst does with them. It assumes that, where records are replaced, their number is public, and that
the table can be read to its end, which a CSV row of more than 8 MiB, or of too few or too many fields, prevents
(``pipeline.charging``).
"""

from dataclasses import KW_ONLY, dataclass
from typing import Literal

from sfumato import check, defaults
from sfumato.errors import ParameterError
from sfumato.marginals.forbidden import StructuralFacts
from sfumato.marginals.partition import Partition
from sfumato.mechanisms import base
from sfumato.mechanisms.base import Noise, Prepared, Published, Recipe
from sfumato.mechanisms.table import copula, stages
from sfumato.mechanisms.table.budget import Shares, TableMoves, TableScales
from sfumato.numerics.types import Order
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Gaussian, Loss, Pure
from sfumato.randomness.secret import Secret
from sfumato.tables.blocks import CodeReader, Rows
from sfumato.tables.schema import Schema

Method = Literal["auto", "pairs", "tree", "copula"]
_ONE_WAYS = 0.14
_CHOICES = 0.07  # of what a round gets
LABEL_SHARE = 0.16  # of what one-way tables leave


@dataclass(frozen=True, slots=True)
class Table(Recipe):
    """The recipe: a synthetic table in the owner's own columns.

    label       : a column that models will predict: its pairs get a share of the budget of their own.
    rows        : how many rows to draw; left out, as many as there are records (with noise where that is protected).
    method      : ``pairs`` measures pairs with the label, and pairs and triples that rounds choose; ``tree`` those with
                  the label and those of a tree found by private choices, for many columns or few records. ``auto``
                  chooses one of the two by public facts. ``copula`` measures one correlation for each pair of columns
                  instead of its table: an option for many smooth numbers, whose relations are monotone. Other
                  relations are lost, so categories and what models learn of them come out worse than with ``pairs``.
    noise       : left out, Gaussian where delta > 0, else Laplace.
    rounds      : of private choices and chosen tables; 0 measures all pairs at once, in one further pass over the data.
    label_share : of what one-way tables leave of the budget, for pairs with the label.
    forbid      : what no record can be, publicly: questions such as ``age < 15 and income > 0``, each over one to three
                  columns. No row that is drawn breaks them. State what you know, not what you see in the data.
    cells       : of the model, at most: more take longer.
    """

    label: str | None = None
    rows: int | None = None
    _: KW_ONLY
    method: Method = defaults.METHOD
    noise: Noise | None = defaults.NOISE
    rounds: int = 4
    label_share: float = LABEL_SHARE
    forbid: tuple[str, ...] = ()
    cells: int = 300_000

    def __post_init__(self) -> None:
        if self.rows is not None:
            check.whole(1, rows=self.rows)
            check.between(1, stages.MOST_ROWS, rows=self.rows)
        check.one_of(("auto", "pairs", "tree", "copula"), method=self.method)
        check.one_of(("laplace", "gaussian"), noise=self.noise or "gaussian")
        check.whole(0, rounds=self.rounds)
        check.between(0, 6, rounds=self.rounds)
        check.whole(100, cells=self.cells)
        check.between(0, 0.9, label_share=self.label_share)
        if isinstance(self.forbid, str):
            raise ParameterError(f"forbid takes a list of questions, got one text: forbid=[{self.forbid!r}]")
        if self.method == "copula" and self.forbid:
            raise ParameterError("method='copula' cannot keep what is forbidden: use 'pairs' or 'tree', or no forbid")
        object.__setattr__(self, "forbid", tuple(self.forbid))

    def prepare(self, schema: Schema, guarantee: Guarantee) -> "PreparedTable":
        """The cells of the schema, and what one unit moves of their counts; nothing is read."""
        if guarantee.unit != "record" or guarantee.allowed_change.kind != "box":
            raise ParameterError(
                "a table of counts protects whole records, which may change to any other: use unit='record'"
            )
        noise: Noise = self.noise or defaults.noise_of_sums(guarantee.delta)
        base.check_noise(guarantee, noise)
        if self.label is not None:
            check.one_of([column.name for column in schema.data_columns], label=self.label)
        facts = StructuralFacts.of(schema, self.forbid)
        if self.method == "copula":
            copula.check_variables(len(facts.partition.variables))
        return PreparedTable(self, schema, guarantee, facts, noise)

    @property
    def shares(self) -> Shares:
        """How the budget is shared out over the stages."""
        label = (self.label_share if self.label is not None else 0.0) * (1 - _ONE_WAYS)
        left = 1 - _ONE_WAYS - label
        if not self.rounds:
            return Shares(_ONE_WAYS, left, label)
        one = left / self.rounds
        return Shares(_ONE_WAYS, 0.0, label, ((_CHOICES * one, one - _CHOICES * one),) * self.rounds)


@dataclass(frozen=True, slots=True, eq=False)
class PreparedTable(Prepared):
    """A synthetic table whose cells are known; level = noise scale over move that one stage would have alone."""

    recipe: Table
    schema: Schema
    guarantee: Guarantee
    facts: StructuralFacts
    noise: Noise

    @property
    def partition(self) -> Partition:
        """The fine cells of the table's columns."""
        return self.facts.partition

    @property
    def order(self) -> Order:
        """The norm that the noise protects against."""
        return base.order_of(self.noise)

    @property
    def moves(self) -> TableMoves:
        """How far one unit moves counts and scores."""
        return TableMoves.of(self.guarantee, self.order)

    @property
    def settings(self) -> dict[str, str | int | None]:
        """Method, noise and label."""
        return {"method": self.recipe.method, "noise": self.noise, "label": self.recipe.label}

    @property
    def reader(self) -> CodeReader:
        """Rows as the fine cells they fall into, which is all that is counted."""
        return CodeReader(self.partition.read, len(self.partition.variables))

    @property
    def dimension(self) -> int:
        """How many numbers a row becomes: one for each variable."""
        return len(self.partition.variables)

    def loss(self, level: float) -> Loss:
        """The loss of a run: that of all noisy counts together."""
        return Pure(1 / level) if self.order == 1 else Gaussian(1.0, level)

    def run(self, rows: Rows, level: float, secret: Secret) -> Published:
        """Count, fit and draw; the rows are read once for each stage."""
        return stages.run(self, rows, TableScales(self.moves, level), secret)
