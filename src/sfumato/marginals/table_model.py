"""The model of a table: bins of its variables, their distribution on a junction tree, rows and probabilities of it.

Guarantee: post-processing of noisy counts; nothing here costs privacy.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sfumato.errors import InexactWarning, ParameterError
from sfumato.marginals.binning import Bins
from sfumato.marginals.junction_tree import Clique, JunctionTree
from sfumato.marginals.partition import Codes, Partition
from sfumato.marginals.questions import TableQuestion
from sfumato.marginals.sampling import sample, stratified, stratified_points
from sfumato.numerics.types import Floats
from sfumato.queries.predicates import Predicate

TOGETHER = 1 << 19  # rows that are drawn together, so that their counts are as even as can be
_FEW_COMBINATIONS = 1 << 6  # of a question's signatures: with more, what is about one column is taken one by one
_MOST_COMBINATIONS = 1 << 20  # of a question's signatures whose probabilities are computed
_DRAWN, _TIMES = 1 << 17, 8  # rows that a probability is estimated from where it cannot be computed, and how often


@dataclass(frozen=True, slots=True, eq=False)
class RowModel(ABC):
    """A distribution over the rows of a table: of bins, as its kind says; within a bin, by shares of fine cells."""

    partition: Partition
    bins: tuple[Bins, ...]

    @property
    @abstractmethod
    def cliques(self) -> Sequence[Clique]:
        """The variables of each table that the model keeps."""

    @property
    @abstractmethod
    def parameters(self) -> Sequence[Floats]:
        """The numbers of the model beside shares: the table of each clique, and what else there is."""

    @property
    def together(self) -> int:
        """How many rows of the model are drawn together."""
        return TOGETHER

    @abstractmethod
    def codes(self, rows: int, rng: np.random.Generator) -> Codes:
        """The bins of so many rows of the model, (variables, rows)."""

    @abstractmethod
    def probability(self, predicate: Predicate) -> float:
        """The probability that a question holds for a row of the model."""

    def sampled(self, rows: int, rng: np.random.Generator) -> Iterator[pa.RecordBatch]:
        """So many rows in the table's own columns, in batches."""
        for start in range(0, rows, self.together):
            yield self._decoded(self.codes(min(self.together, rows - start), rng), rng)

    def _asked_codes(self, question: TableQuestion, rows: int, rng: np.random.Generator) -> Mapping[int, Codes]:
        """The bins of the variables that a question is about, for so many rows."""
        codes = self.codes(rows, rng)
        return {variable: codes[variable] for variable in question.variables}

    def _estimated(self, question: TableQuestion, why: str) -> float:
        """The probability of a question from rows of the model, with a warning."""
        rows = _DRAWN * _TIMES
        warnings.warn(
            f"{why}: estimated from {rows:,} rows of the model, with a standard deviation of at most 0.0005",
            InexactWarning,
            stacklevel=3,
        )
        rng = np.random.default_rng(0)
        return float(np.mean([self._frequency(question, rng) for _ in range(_TIMES)]))

    def _frequency(self, question: TableQuestion, rng: np.random.Generator) -> float:
        """The part of some rows, drawn as evenly as can be, for which a question holds."""
        codes, signatures = self._asked_codes(question, _DRAWN, rng), []
        for asked in question.asked:
            groups = codes[asked.variable].astype(np.int64)
            signatures.append(stratified(asked.weights(self.bins[asked.variable]), groups, rng))
        return float(np.mean(question.holds(signatures, _DRAWN)))

    def _decoded(self, codes: Codes, rng: np.random.Generator) -> pa.RecordBatch:
        fine = np.empty_like(codes)
        for place, (row, bins) in enumerate(zip(codes, self.bins, strict=True)):
            fine[place] = _within(bins, row, rng)
        return self.partition.decoded(fine, rng)


@dataclass(frozen=True, slots=True, eq=False)
class TableModel(RowModel):
    """A distribution over the rows of a table: of bins, as a junction tree says; within a bin, by shares."""

    tree: JunctionTree
    beliefs: tuple[Floats, ...]

    @property
    def cliques(self) -> Sequence[Clique]:
        """The cliques of the junction tree."""
        return self.tree.cliques

    @property
    def parameters(self) -> Sequence[Floats]:
        """The table of each clique of the junction tree."""
        return self.beliefs

    def codes(self, rows: int, rng: np.random.Generator) -> Codes:
        """The bins of so many rows, (variables, rows)."""
        return sample(self.tree, self.beliefs, rows, rng)

    def probability(self, predicate: Predicate) -> float:
        """The probability that a question holds for a row of the model.

        The probability of bins is that of the junction tree, within a bin it goes by shares of its fine cells, and
        within a fine cell evenly: whole numbers by their number, others by length. The items of a set are variables of
        their own; rows that are drawn keep no more of them than the schema allows, which this does not count.
        Error: computed, so that it has the error of the model and of rounding alone. A question about so many columns
        that this would take too much memory is estimated from about a million rows of the model, with a standard
        deviation below 0.0005; an ``InexactWarning`` says so. No error bars: how far a model is off is not known.
        """
        question = TableQuestion.of(self.partition, predicate)
        try:
            found = self._computed(question)
        except ParameterError:  # a table on the way would have too many cells
            found = self._estimated(question, "this question is about too many columns for an exact probability")
        return min(max(found, 0.0), 1.0)

    def _computed(self, question: TableQuestion) -> float:
        """The probability of a question from that of all combinations of its signatures, of several at a time."""
        if question.combinations <= _FEW_COMBINATIONS:
            return float(self._joint(question)[question.table()].sum())
        if question.is_disjunction:
            return 1.0 - self._computed(question.negated())
        factors, rest = question.factors()
        model, found = self, 1.0
        for factor in factors:
            chance, model = model._given(factor)
            found *= chance
        if rest.combinations > _MOST_COMBINATIONS:
            raise ParameterError("a question about so many columns has too many combinations to be enumerated")
        return found * float(model._joint(rest)[rest.table()].sum())

    def _given(self, question: TableQuestion) -> tuple[float, "TableModel"]:
        """The probability of a question about one variable, and the model of rows for which it holds."""
        (asked,), (variable,) = question.asked, question.variables
        likely = asked.weights(self.bins[variable])[:, question.table()].sum(axis=1)
        chance = float(self.tree.marginal(self.beliefs, (variable,)) @ likely)
        if chance <= 0:
            return 0.0, self
        home = self.tree.home((variable,))
        potentials = []
        for index, (clique, separator) in enumerate(zip(self.tree.cliques, self.tree.separators, strict=True)):
            table = self.beliefs[index]
            above = table.sum(axis=separator.summed, keepdims=True) if separator.columns else np.ones(())
            if index == home:
                table = table * likely.reshape([-1 if column == variable else 1 for column in clique])
            with np.errstate(divide="ignore"):
                potentials.append(np.log(np.divide(table, above, out=np.zeros_like(table), where=above > 0)))
        beliefs = tuple(self.tree.propagate_in_place(potentials))
        return chance, TableModel(self.partition, self.bins, self.tree, beliefs)

    def _joint(self, question: TableQuestion) -> Floats:
        """The probabilities of all combinations of a question's signatures.

        Each signature is one more variable of the junction tree, which depends on the bin of its variable alone.
        """
        count = len(self.tree.sizes)
        beliefs = dict(zip(self.tree.cliques, self.beliefs, strict=True))
        for place, asked in enumerate(question.asked):
            one = self.tree.marginal(self.beliefs, (asked.variable,))
            beliefs.pop((asked.variable,), None)
            beliefs[asked.variable, count + place] = one[:, None] * asked.weights(self.bins[asked.variable])
        wider = JunctionTree.of((*self.tree.sizes, *(asked.size for asked in question.asked)), beliefs)
        return wider.marginal([beliefs[c] for c in wider.cliques], range(count, len(wider.sizes)))


def _within(bins: Bins, codes: Codes, rng: np.random.Generator) -> Codes:
    """A fine cell of each row's bin, by shares; one of share 0 is never drawn.

    The cells of a bin b end at points between b and b + 1.
    """
    order = np.argsort(bins.of_cell, kind="stable")
    owner, ends = bins.of_cell[order], np.cumsum(bins.shares[order])
    last = np.cumsum(bins.cells) - 1
    before = np.concatenate([[0.0], ends[last[:-1]]])
    inside = (ends - before[owner]) / np.maximum(ends[last] - before, 1e-300)[owner]
    points = codes + stratified_points(codes.astype(np.int64), rng)
    found = np.minimum(np.searchsorted(owner + inside, points, side="right"), last[codes])
    return order[found].astype(np.int32)
