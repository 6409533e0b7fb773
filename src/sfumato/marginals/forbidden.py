"""Structural facts: what no record can be, which an owner states publicly and a model of a table keeps exactly.

A fact is a question over one to three variables that holds for no record, such as ``age < 15 and income > 0``. It cuts
fine cells where it changes, keeps cells apart in bins that it tells apart, and has a table of the model's junction tree
that is 0 where it holds. So no row that is drawn breaks it.

Guarantee: facts come from the owner's knowledge, never from the data, and all that follows from them here is public.
Nothing depends on whether records keep to them: those that do not are counted, and not reproduced.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.errors import ParameterError
from sfumato.marginals.binning import Bins
from sfumato.marginals.junction_tree import MOST_CELLS, Clique, JunctionTree, cells
from sfumato.marginals.partition import Partition, Variable
from sfumato.marginals.questions import TableQuestion, cuts
from sfumato.numerics.types import Bools, Integers
from sfumato.queries.axes import Intervals
from sfumato.queries.parser import parse
from sfumato.queries.predicates import Compared, Predicate
from sfumato.queries.tokens import shown
from sfumato.tables.columns import Set
from sfumato.tables.schema import Schema

MOST_VARIABLES = 3
_BINS = 64  # of a number, for what a table of the model may take at most


@dataclass(frozen=True, slots=True, eq=False)
class StructuralFacts:
    """Facts about the records of a schema, and the fine cells that they cut.

    cuts : further cuts of columns, by name, in encoded units.
    """

    partition: Partition
    cuts: Mapping[str, tuple[float, ...]]
    questions: tuple[TableQuestion, ...]

    @classmethod
    def of(cls, schema: Schema, texts: Sequence[str]) -> "StructuralFacts":
        """Facts read from texts in the language of queries; refused, with what is wrong, before anything is read."""
        predicates = [_parsed(text, schema) for text in texts]
        found = _cuts(Partition.of(schema), predicates)
        partition = Partition.of(schema, found)
        facts = cls(partition, found, tuple(TableQuestion.of(partition, predicate) for predicate in predicates))
        for fact in facts.questions:
            _check(fact, partition)
        if facts.questions:
            facts._check_together()
        return facts

    @property
    def cliques(self) -> list[Clique]:
        """The variables of each fact, for which the model needs a table."""
        return [fact.variables for fact in self.questions]

    def apart(self, variable: int) -> Integers | None:
        """For each fine cell of a variable a number; no bin may hold cells of different numbers. None: any may."""
        found = [asked.of_cells() for fact in self.questions for asked in fact.asked if asked.variable == variable]
        if not found:
            return None
        return np.unique(np.array(found), axis=1, return_inverse=True)[1].ravel().astype(np.int64)

    def forbidden(self, bins: Sequence[Bins]) -> list[tuple[Clique, Bools]]:
        """For each fact its variables, and the combinations of their bins that cannot occur."""
        found = []
        for fact in self.questions:
            signatures = [asked.of_bins(bins[asked.variable]) for asked in fact.asked]
            if any(own is None for own in signatures):
                raise ParameterError(f"bins of the model must keep apart what {shown(fact.text)} tells apart")
            found.append((fact.variables, fact.table([own for own in signatures if own is not None])))
        return found

    def _check_together(self) -> None:
        """Refuse facts that leave no record, or that relate so many columns that no model could hold them."""
        variables = self.partition.variables
        related = {variable for clique in self.cliques for variable in clique}
        sizes = [_largest(variable) if place in related else 1 for place, variable in enumerate(variables)]
        if cells(sizes, self.cliques) > MOST_CELLS:
            raise ParameterError(
                "forbid relates too many columns with each other, or too many levels: state fewer facts"
            )
        groups = [self.apart(place) for place in range(len(variables))]
        bins = [
            _alike(np.zeros(variable.size, np.int64) if own is None else own)
            for variable, own in zip(variables, groups, strict=True)
        ]
        tree = JunctionTree.of([own.size for own in bins], self.cliques)
        potentials = [np.zeros(shape) for shape in tree.shapes]
        for columns, holds in self.forbidden(bins):
            home = tree.home(columns)
            assert home is not None
            missing = tuple(axis for axis, column in enumerate(tree.cliques[home]) if column not in columns)
            potentials[home] += np.expand_dims(np.where(holds, -np.inf, 0.0), missing)
        try:
            tree.propagate(potentials)
        except ParameterError:
            raise ParameterError("the facts in forbid together leave no record that could exist") from None


def _alike(numbers: Integers) -> Bins:
    """Bins of the cells that have the same number."""
    return Bins(numbers, 1.0 / np.bincount(numbers)[numbers])


def _largest(variable: Variable) -> int:
    """How many bins a variable may have, about, at most."""
    return min(variable.size, _BINS) if variable.ordered else variable.size


def _parsed(text: str, schema: Schema) -> Predicate:
    try:
        return parse(text, schema)
    except ParameterError as error:
        raise ParameterError(f"forbid: {error}") from None


def _cuts(partition: Partition, facts: Sequence[Predicate]) -> dict[str, tuple[float, ...]]:
    """Where facts change within fine cells, by column; cuts at or beyond the bounds are none."""
    found: dict[str, set[float]] = {}
    for fact in facts:
        for leaf in fact.leaves:
            if isinstance(leaf, Compared):
                axis = partition.variables[partition.place(leaf.column.name)].axis
                assert isinstance(axis, Intervals)
                low, high, known = axis.edges[0], axis.edges[-1], set(axis.edges[1:-1])
                inside = {cut for cut in cuts(Predicate("", leaf)) if low < cut <= high and cut not in known}
                found.setdefault(leaf.column.name, set()).update(inside)
    return {name: tuple(sorted(own)) for name, own in found.items() if own}


def _check(fact: TableQuestion, partition: Partition) -> None:
    """Refuse a fact that no model can keep."""
    text, count = shown(fact.text), len(fact.variables)
    if count > MOST_VARIABLES:
        raise ParameterError(f"forbid: {text} is about {count} columns or items: at most {MOST_VARIABLES} are possible")
    holds = fact.table()
    if holds.all():
        raise ParameterError(f"forbid: {text} holds for every record, so that none could exist")
    if not count:
        raise ParameterError(f"forbid: {text} holds for no record whatever: leave it out")
    for axis, asked in enumerate(fact.asked):
        column = partition.variables[asked.variable].column
        if not isinstance(column, Set):
            continue
        if column.buckets is not None:
            raise ParameterError(f"forbid: the items of {shown(column.name)} are hashed: list its values instead")
        absent, present = (holds.take(asked.signature[cell], axis=axis) for cell in (0, 1))
        if column.most < column.width and (absent & ~present).any():
            raise ParameterError(
                f"forbid: {text} asks for an item of {shown(column.name)}, of which a record may have {column.most} of "
                f"{column.width}: only what a record has can be forbidden, not what it lacks"
            )
