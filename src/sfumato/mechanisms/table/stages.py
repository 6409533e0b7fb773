"""The run of a synthetic table: its stages one after the other, the model, and rows drawn from it."""

import numpy as np

from sfumato.marginals.fitting import FittedTree
from sfumato.marginals.table_model import RowModel, TableModel
from sfumato.mechanisms.base import Published
from sfumato.mechanisms.table import methods, published
from sfumato.mechanisms.table.budget import Meter, TableScales
from sfumato.mechanisms.table.copula import fitted_copula
from sfumato.mechanisms.table.one_ways import measure_one_ways
from sfumato.mechanisms.table.pairs import first_model, measure_pairs
from sfumato.mechanisms.table.rounds import one_round
from sfumato.mechanisms.table.state import State, Task
from sfumato.mechanisms.table.tree import tree_model
from sfumato.randomness.secret import Secret
from sfumato.tables.blocks import Rows

MOST_ROWS = 1 << 30  # that are drawn


def _by_pairs(state: State) -> FittedTree:
    """The model of pairs that are measured at once, and of what rounds choose."""
    measure_pairs(state)
    fitted, cliques = first_model(state)
    for number, shares in enumerate(state.shares.rounds):
        fitted, cliques = one_round(state, number, shares, fitted, cliques)
    return fitted


def _model(state: State) -> RowModel:
    """The model that the stages of the method give."""
    if state.choice.method == "copula":
        return fitted_copula(state)
    fitted = tree_model(state) if state.choice.method == "tree" else _by_pairs(state)
    return TableModel(state.prepared.partition, state.bins, fitted.tree, tuple(fitted.beliefs))


def run(prepared: Task, rows: Rows, scales: TableScales, secret: Secret) -> Published:
    """A synthetic table: the stages, the model, and rows drawn from it."""
    context = f"table {prepared.recipe!r} {prepared.guarantee!r} {prepared.schema.digest}"
    state = State(
        prepared,
        rows,
        Meter(scales, secret, context),
        methods.before(prepared.recipe, len(prepared.partition.variables)),
    )
    measure_one_ways(state)
    state.rng = np.random.default_rng(np.frombuffer(secret.words("table samples", context).key(), np.uint64).tolist())
    model = _model(state)
    wanted = prepared.recipe.rows or min(max(1, round(state.records)), MOST_ROWS)
    names = tuple(prepared.schema.source_names)
    facts, beside = published.facts(state, model), published.beside(state, model)
    return Published(facts, names, model.sampled(wanted, state.rng), by_record=False, beside=beside)
