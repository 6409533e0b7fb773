"""What a run of a synthetic table publishes: facts for the manifest, the model, and all noisy counts."""

from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.fileformat.manifest import Facts
from sfumato.marginals.table_model import RowModel
from sfumato.mechanisms.table.state import State


def beside(state: State, model: RowModel) -> dict[str, pa.Table]:
    """The model, and all noisy counts, as files beside the table."""
    numbers = [*(b.shares for b in model.bins), *(own.ravel() for own in model.parameters)]
    counts = [table.counts.ravel() for table in state.measured]
    return {
        "model.parquet": pa.table({"value": np.concatenate(numbers)}),
        "counts.parquet": pa.table({"value": np.concatenate(counts)}),
    }


def facts(state: State, model: RowModel) -> Facts:
    """What the manifest says: functions of the recipe and of what is published."""
    prepared, shares = state.prepared, state.shares
    mechanism: dict[str, Any] = {
        "name": "table",
        "noise": prepared.noise,
        "method": state.choice.method,
        "reason": state.choice.reason,
        "records": state.records,
        "sensitivity": prepared.moves.table,
        "shares": shares.stages,
        "bins": [b.of_cell.tolist() for b in model.bins],
        "cliques": [list(clique) for clique in model.cliques],
        "tables": [
            {
                "columns": list(table.columns),
                "scale": table.scale,
                "stage": table.stage,
                "cells": "fine" if table.fine else "bins",
            }
            for table in state.measured
        ],
    }
    if state.moment is not None:
        mechanism["moment"] = state.moment
    if prepared.facts.questions:
        mechanism["forbid"] = [fact.text for fact in prepared.facts.questions]
    if prepared.facts.cuts:
        mechanism["cuts"] = {name: list(cuts) for name, cuts in prepared.facts.cuts.items()}
    if prepared.recipe.label is not None:
        mechanism["label"] = prepared.recipe.label
    return {"kind": "table", "mechanism": mechanism, "warnings": []}
