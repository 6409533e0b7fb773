"""Membership inference against synthetic tables: by rows, by the model, and by the noisy counts behind it.

*Nearest rows*: how close the nearest synthetic rows are, beside the attacker's own. *Model likelihood*: how much
likelier a record is under the published model than under independent columns of the attacker's own. *Noisy counts*:
they are published, and nothing else depends on the data. The sum over all noisy tables of the count of the record's
cell, less what the attacker expects there, over the variance of its noise, is the likelihood ratio of Gaussian noise,
but for what the attacker does not know of the other records. Thresholds are learnt from shadow tables, as in
``membership``.
"""

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

import numpy as np

from sfumato.attacks.curves import Curve
from sfumato.attacks.example_data import Secrets, untouched
from sfumato.attacks.membership import UNPROTECTED, accuracies, as_curves
from sfumato.attacks.table_game import TableGame
from sfumato.marginals.junction_tree import JunctionTree
from sfumato.marginals.partition import Codes
from sfumato.mechanisms import base
from sfumato.numerics.types import Floats, Integers
from sfumato.randomness import noise
from sfumato.releases.table import TableRelease

Attack: TypeAlias = Callable[[TableGame, TableRelease, Integers], Floats]  # evidence, (records, features)

_NEAR = 5  # rows whose mean distance is evidence


def nearest_rows(game: TableGame, made: TableRelease, records: Integers) -> Floats:
    """Membership by distance: to the nearest rows of a synthetic table, and to the attacker's own nearest record."""
    return _nearest(game, game.codes(made.table()), records)


def _nearest(game: TableGame, rows: Codes, records: Integers) -> Floats:
    asked = game.of_records(records)
    to_rows = np.sort(game.distances(asked, rows), axis=1)
    to_own = game.distances(asked, game.of_records(game.own))
    to_own[records[:, None] == game.own[None]] = np.inf
    return np.column_stack([to_rows[:, 0], to_rows[:, :_NEAR].mean(axis=1), to_own.min(axis=1)])


def model_likelihood(game: TableGame, made: TableRelease, records: Integers) -> Floats:
    """Membership by likelihood: the model of a synthetic table against independent columns of the attacker's own."""
    asked, own = game.of_records(records), game.of_records(game.own)
    facts, (shares, beliefs) = made.manifest["mechanism"], made._model_tables
    maps = [np.array(cells) for cells in facts["bins"]]
    binned = [cells[row] for cells, row in zip(maps, asked, strict=True)]
    tree = JunctionTree.of([int(cells.max()) + 1 for cells in maps], map(tuple, facts["cliques"]))
    found = np.zeros(records.size)
    for clique, table in zip(tree.cliques, tree.potentials(beliefs), strict=True):
        found += table[tuple(binned[place] for place in clique)]
    inside = np.isin(records, game.own)
    for place, row in enumerate(asked):
        seen = np.bincount(own[place], minlength=len(maps[place]))[row] - inside
        found += np.log(np.maximum(shares[place][row], 1e-12))
        found -= np.log((seen + 0.5) / (game.own.size + 0.5 * len(maps[place])))
    return np.maximum(found, -200.0)[:, None]


def noisy_counts(game: TableGame, made: TableRelease, records: Integers) -> Floats:
    """Membership by counts: those of a record's cells in all noisy tables, less what others' records let expect."""
    asked, own = game.of_records(records), game.of_records(game.own)
    facts, inside = made.manifest["mechanism"], np.isin(records, game.own)
    maps = [np.array(cells) for cells in facts["bins"]]
    order = base.order_of(facts["noise"])
    found = np.zeros(records.size)
    for table, counts in zip(facts["tables"], made._noisy_counts, strict=True):
        columns, fine = table["columns"], table["cells"] == "fine"
        places, theirs = (
            np.ravel_multi_index(tuple(some[c] if fine else maps[c][some[c]] for c in columns), counts.shape)
            for some in (asked, own)
        )
        usual = np.bincount(theirs, minlength=counts.size)[places] - inside
        expected = usual * (game.members / max(game.own.size - 1, 1))
        found += (counts.ravel()[places] - expected) / noise.deviation(order, table["scale"]) ** 2
    return np.asarray(found[:, None] / max(float(np.abs(found).max()), 1e-300))


ATTACKS: dict[str, Attack] = {
    "nearest rows": nearest_rows,
    "model likelihood": model_likelihood,
    "noisy counts": noisy_counts,
}


def curves(
    game: TableGame,
    epsilons: Sequence[float],
    *,
    attacks: Collection[str] = tuple(ATTACKS),
    shadows: int = 4,
    runs: int = 4,
    seed: int = 0,
    secrets: Secrets = untouched,
) -> list[Curve]:
    """Membership attacks on synthetic tables at every epsilon, and where nothing is protected.

    Unprotected: a table without noise to speak of; for nearest rows the members' own rows.
    """
    chosen = {name: attack for name, attack in ATTACKS.items() if name in attacks}
    rng = np.random.default_rng(seed)

    def against(epsilon: float) -> dict[str, list[float]]:
        def seen(members: Integers, records: Integers) -> dict[str, Floats]:
            made = game.made(members, epsilon, secrets())
            return {name: attack(game, made, records) for name, attack in chosen.items()}

        return accuracies(game, seen, shadows=shadows, runs=runs, rng=rng)

    def bare(members: Integers, records: Integers) -> dict[str, Floats]:
        return {"nearest rows": _nearest(game, game.of_records(members), records)}

    reached = against(UNPROTECTED) if set(chosen) - {"nearest rows"} else {}
    if "nearest rows" in chosen:
        reached |= accuracies(game, bare, shadows=shadows, runs=runs, rng=rng)
    unprotected = {name: float(np.mean(reached[name])) for name in chosen}
    return as_curves(game, "synthetic tables", {epsilon: against(epsilon) for epsilon in epsilons}, unprotected)
