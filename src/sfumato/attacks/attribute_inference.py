"""Attribute inference: one column of somebody out of the others, by a model that learnt from a synthetic table.

A random forest learns the column from the others on the synthetic rows, and predicts it for members and for others.
That it predicts better than a guess is what the table is for. What counts is how much better it does for members.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from sklearn.ensemble import RandomForestClassifier

from sfumato import check
from sfumato.attacks.curves import Curve
from sfumato.attacks.example_data import Secrets, untouched
from sfumato.attacks.table_game import Hits, TableGame, excess_curve
from sfumato.numerics.types import Bools, Integers

_TREES = 40


def predicted(game: TableGame, column: str, seed: int = 0) -> Hits:
    """Attribute inference: for which records a forest that learnt from a table says the true cell of a column."""
    check.one_of([c.name for c in game.case.schema.data_columns], column=column)
    own = [place for place, v in enumerate(game.partition.variables) if v.column.name == column]
    others = [place for place in range(len(game.partition.variables)) if place not in own]

    def hits(table: pa.Table, records: Integers) -> Bools:
        learnt, asked = game.codes(table), game.of_records(records)
        found = np.ones(asked.shape[1], bool)
        for place in own:
            said = np.full(asked.shape[1], learnt[place][0])
            if np.unique(learnt[place]).size > 1 and others:
                forest = RandomForestClassifier(_TREES, random_state=seed).fit(learnt[others].T, learnt[place])
                said = forest.predict(asked[others].T)
            found &= said == asked[place]
        return found

    return hits


def curves(
    game: TableGame,
    column: str,
    epsilons: Sequence[float],
    *,
    runs: int = 4,
    seed: int = 0,
    secrets: Secrets = untouched,
) -> list[Curve]:
    """Attribute inference on synthetic tables: how much better a column is predicted of members, by epsilon."""
    names = "attribute inference", f"{column!r} predicted rightly"
    return [excess_curve(game, names, predicted(game, column, seed), epsilons, runs=runs, seed=seed, secrets=secrets)]
