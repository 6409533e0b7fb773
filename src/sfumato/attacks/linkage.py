"""Linkage: which row of a release belongs to somebody of whom a few bits are known (Narayanan and Shmatikov 2008).

Every row gets a score: the sum over the known bits of how well the row agrees, rare bits counting more. The row of the
best score is the guess; how far it stands out, over the standard deviation of the scores, tells how sure to be. Behind
noise the bits of a row are estimates, and agreement is linear in them, so that noise of mean 0 biases no score. How
popular each bit is counts as public.

A synthetic table has no row of anybody. There the row that is nearest in the columns known of a target is picked, and
the link is right if it tells the target's other columns, of numbers up to a twentieth of their cells.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato import check
from sfumato.attacks.curves import Curve, Point
from sfumato.attacks.example_data import Secrets, TargetTable, untouched
from sfumato.attacks.reconstruction import dense
from sfumato.attacks.table_game import Hits, TableGame, excess_curve
from sfumato.errors import ParameterError
from sfumato.mechanisms.base import Recipe
from sfumato.mechanisms.responses import RandomizedResponse
from sfumato.mechanisms.sketch import Sketch
from sfumato.numerics.types import Bools, Floats, Integers
from sfumato.privacy import attack_bounds
from sfumato.privacy.guarantee import Guarantee, Unit
from sfumato.releases.sketch import SketchRelease


@dataclass(frozen=True, slots=True)
class Link:
    """The row that was picked, and by how many standard deviations it stands out from the next one."""

    row: int
    eccentricity: float


def weights(counts: NDArray[np.integer]) -> Floats:
    """Weight of a known bit in a linkage score: 1 / log(count) by how many users have it, from 2 users on."""
    return np.asarray(1 / np.log(np.maximum(np.asarray(counts, float), 2.0)))


def scores(estimates: Floats, known: Bools, weight: Floats) -> Floats:
    """Linkage scores of rows of estimated bits (rows, known bits): agreement is 1, disagreement -1, doubt 0."""
    return np.asarray((2 * estimates - 1) @ (np.where(known, 1.0, -1.0) * weight))


def picked(score: Floats, rng: np.random.Generator) -> Link:
    """The row linked to a target: the one of the best score, at random among equals."""
    check.whole(2, rows=score.size)
    best = np.flatnonzero(score >= score.max() - 1e-9)
    first, second = np.partition(score, -2)[[-1, -2]]
    spread = float(score.std())
    return Link(int(rng.choice(best)), float(first - second) / spread if spread > 0 else 0.0)


def bit_estimates(made: Any) -> Floats:
    """Estimates of bits to link by.

    Estimates of the bits behind each row of a sketch, by its public P, or of randomized answers.
    """
    if not isinstance(made, SketchRelease):
        return np.asarray(made.array())
    matrix = dense(made.projection)
    return np.asarray(made.array() @ matrix.T / np.maximum(np.square(matrix).sum(axis=1), 1e-300))


@dataclass(frozen=True, slots=True, eq=False)
class Knowledge:
    """What the attacker knows of each target: so many of the flags that are true; and how popular every flag is.

    ``seed`` settles choices among equals and the public projection.
    """

    targets: Integers
    columns: Integers  # (targets, flags known)
    weight: Floats
    seed: int

    @classmethod
    def of(cls, bits: Bools, *, known: int = 4, targets: int = 200, seed: int = 0) -> "Knowledge":
        """Random targets of linkage with enough flags that are true, and random ones of these as what is known."""
        check.whole(1, known=known, targets=targets)
        able = np.flatnonzero(bits.sum(axis=1) >= known)
        if able.size == 0:
            raise ParameterError(f"no record has {known} true flags: use a smaller known")
        rng = np.random.default_rng(seed)
        chosen = rng.permutation(able)[:targets]
        columns = [rng.permutation(np.flatnonzero(bits[row]))[:known] for row in chosen]
        return cls(chosen, np.array(columns), weights(bits.sum(axis=0)), seed)


def true_bits(case: TargetTable) -> Bools:
    """The true bits that linkage starts from: flags of a table; refuses other columns."""
    if not case.schema.encoding.only_bits:
        raise ParameterError("linkage needs a schema of flags of weight 1 only")
    return np.asarray(case.encoded() > 0.5)


def success(estimates: Floats, known: Knowledge, rng: np.random.Generator) -> float:
    """Success of linkage: the share of the targets whose own row is picked."""
    hits = 0
    for target, columns in zip(known.targets, known.columns, strict=True):
        score = scores(estimates[:, columns], np.ones(columns.size, bool), known.weight[columns])
        hits += picked(score, rng).row == target
    return hits / known.targets.size


def curves(
    case: TargetTable,
    epsilons: Sequence[float],
    knowledge: Knowledge,
    *,
    unit: Unit = "attribute",
    dimension: int = 64,
    repeats: int = 3,
    secrets: Secrets = untouched,
) -> list[Curve]:
    """Linkage success by epsilon.

    How often targets are found behind noise, in sketches and in randomized answers, and in the bare bits.

    The bound takes the users as draws from one population; where one value is protected it needs as many steps as two
    users differ in, and soon allows everything.
    """
    bits, rng = true_bits(case), np.random.default_rng(knowledge.seed)
    dimension = min(dimension, bits.shape[1])
    apart = [(bits != bits[t]).sum(axis=1)[np.arange(len(bits)) != t] for t in knowledge.targets]
    bare = success(bits.astype(float), knowledge, rng)
    recipes: dict[str, Recipe] = {
        "noise alone": Sketch(projection="identity", seed=knowledge.seed),
        f"sketches of {dimension} numbers": Sketch(dimension=dimension, seed=knowledge.seed),
        "randomized response": RandomizedResponse(),
    }

    def point(recipe: Recipe, epsilon: float) -> Point:
        promise = Guarantee(epsilon=epsilon, unit=unit)
        runs = []
        for _ in range(repeats):
            made = case.released(recipe, promise, secrets())
            runs.append(success(bit_estimates(made), knowledge, rng))
        most = [attack_bounds.link(epsilon, len(bits), row if unit == "attribute" else 1) for row in apart]
        return Point.of(epsilon, runs, float(np.mean(most)), trials=repeats * knowledge.targets.size)

    what, known = "value" if unit == "attribute" else unit, knowledge.columns.shape[1]
    return [
        Curve(
            "linkage",
            name,
            f"{case.name}, one {what} protected",
            f"targets found among {len(bits):,} by {known} known bits",
            1 / len(bits),
            bare,
            tuple(point(recipe, epsilon) for epsilon in epsilons),
        )
        for name, recipe in recipes.items()
    ]


# ---- synthetic tables -----------------------------------------------------------------------------------------------

_CLOSE = 0.05  # of a number's cells


def linked(game: TableGame, known: int, seed: int = 0) -> Hits:
    """Linkage to a synthetic table: for which records the row nearest in some random columns tells all others."""
    variables = len(game.partition.variables)
    check.whole(1, known=known)
    if known >= variables:
        raise check.fail("known", known, f"less than {variables}, the columns of the table")

    def hits(table: pa.Table, records: Integers) -> Bools:
        rng = np.random.default_rng(seed)
        rows, asked = game.codes(table), game.of_records(records)
        given = np.argsort(rng.random((variables, records.size)), axis=0) < known
        found = game.distances(asked, rows, given)
        best = rows[:, [picked(-score, rng).row for score in found]]
        return np.asarray((given | (game.apart(asked, best) <= _CLOSE)).all(axis=0))

    return hits


def table_curves(
    game: TableGame,
    known: int,
    epsilons: Sequence[float],
    *,
    runs: int = 4,
    seed: int = 0,
    secrets: Secrets = untouched,
) -> list[Curve]:
    """Linkage to synthetic tables by epsilon: how much more often the rest of a member is told than that of others."""
    names = "linkage", f"all columns told by {known} known ones"
    return [excess_curve(game, names, linked(game, known, seed), epsilons, runs=runs, seed=seed, secrets=secrets)]
