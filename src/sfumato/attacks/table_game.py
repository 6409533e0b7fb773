"""Synthetic tables under attack: half of a pool becomes a table, and what it tells of members beyond others.

A synthetic table shows how columns depend on each other in the population, and so something of everybody, in the data
or not. What it tells of a record because that record was in the data is the difference between records that were in and
records that were not. The game is that of ``membership``: exchanging a record that was in with one that was not gives a
neighbour under replace that is as likely. So whatever an attacker counts as a hit, the share of hits among members
exceeds that among the others by at most ``attack_bounds.advantage``.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from sfumato.attacks.curves import Curve, Point
from sfumato.attacks.example_data import Secrets, TargetTable, untouched
from sfumato.marginals.partition import Codes, Partition, Variable
from sfumato.mechanisms.table.recipe import Table
from sfumato.numerics.types import Bools, Floats, Integers
from sfumato.privacy import attack_bounds
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness.secret import Secret
from sfumato.releases.table import TableRelease

Hits: TypeAlias = Callable[[pa.Table, Integers], Bools]  # of a synthetic table, and records: where an attack is right


@dataclass(frozen=True, slots=True, eq=False)
class TableGame:
    """A pool of records half of which become a synthetic table, and the attacker's own, which are none of them."""

    case: TargetTable
    recipe: Table
    partition: Partition
    pool: Integers
    own: Integers
    delta: float

    @classmethod
    def of(
        cls, case: TargetTable, recipe: Table | None = None, *, pool: int = 800, delta: float = 1e-6, seed: int = 0
    ) -> "TableGame":
        """A game of a synthetic table: records dealt out at random."""
        return cls(case, recipe or Table(), Partition.of(case.schema), *case.dealt(pool, seed), delta)

    @property
    def members(self) -> int:
        """How many records are members: those that a synthetic table is made of."""
        return self.pool.size // 2

    def made(self, members: Integers, epsilon: float, secret: Secret | None) -> TableRelease:
        """The synthetic table made of some records, its members."""
        promise = Guarantee(epsilon=epsilon, delta=self.delta)
        found = replace(self.case, table=self.case.some(members)).released(self.recipe, promise, secret)
        assert isinstance(found, TableRelease)
        return found

    def codes(self, table: pa.Table) -> Codes:
        """The fine cells of rows of the table under attack, synthetic or real: (variables, rows)."""
        return self.partition.codes(self.case.schema.encode(table))

    def of_records(self, records: Integers) -> Codes:
        """The fine cells of some records of the table under attack."""
        return self.codes(self.case.some(records))

    def apart(self, rows: Codes, others: Codes) -> Floats:
        """How far rows of the table under attack are from as many others in each variable: (variables, rows)."""
        both = zip(self.partition.variables, rows, others, strict=True)
        return np.array([_apart(variable, one, two) for variable, one, two in both])

    def distances(self, rows: Codes, others: Codes, known: Bools | None = None) -> Floats:
        """How far rows of the table under attack are from others, (rows, others): the sum over variables.

        known : which variables count for each row, (variables, rows); all of them if left out.
        """
        found = np.zeros((rows.shape[1], others.shape[1]))
        for place, variable in enumerate(self.partition.variables):
            apart = _apart(variable, rows[place][:, None], others[place][None])
            found += apart if known is None else apart * known[place][:, None]
        return found


def _apart(variable: Variable, one: Codes, two: Codes) -> Floats:
    """The distance of cells of a table under attack, 0 to 1: of numbers as they lie, of levels whether they differ."""
    if not variable.ordered:
        return np.asarray(one != two, float)
    gap = np.abs(one - two) / max(variable.values - 1, 1)
    missing = (one >= variable.values) != (two >= variable.values)
    return np.where(missing, 1.0, gap)


@dataclass(frozen=True, slots=True)
class Excess:
    """How often an attack was right about members of a synthetic table, and how often about others."""

    inside: float
    outside: float

    @classmethod
    def of(cls, hits: Bools, members: int) -> "Excess":
        """The rates of an attack's hits; members of the synthetic table come first."""
        return cls(float(np.mean(hits[:members])), float(np.mean(hits[members:])))

    @property
    def value(self) -> float:
        """What a synthetic table told of its members beyond others."""
        return self.inside - self.outside

    @property
    def variance(self) -> float:
        """The binomial variance of one member's hit and one other's."""
        return self.inside * (1 - self.inside) + self.outside * (1 - self.outside)


def excess_curve(
    game: TableGame,
    names: tuple[str, str],
    hits: Hits,
    epsilons: Sequence[float],
    *,
    runs: int = 4,
    seed: int = 0,
    secrets: Secrets = untouched,
) -> Curve:
    """What an attack tells of the members of a synthetic table beyond others, against epsilon.

    names : of the attack, and what a hit is. Unprotected: the same attack on the members' own rows.
    """
    rng = np.random.default_rng(seed)

    def rates(table: Callable[[Integers], pa.Table]) -> list[Excess]:
        found = []
        for _ in range(runs):
            dealt = rng.permutation(game.pool)
            found.append(Excess.of(hits(table(dealt[: game.members]), dealt), game.members))
        return found

    def point(epsilon: float) -> Point:
        found = rates(lambda members: game.made(members, epsilon, secrets()).table())
        values = [one.value for one in found]
        spread = Point.of(epsilon, values, 0.0).error
        binomial = math.sqrt(sum(one.variance for one in found) / game.members) / runs
        bound = attack_bounds.advantage(epsilon, game.delta)
        return Point(float(epsilon), float(np.mean(values)), max(spread, binomial), bound)

    bare = float(np.mean([one.value for one in rates(game.case.some)]))
    data = f"{game.members} of {game.case.name}, one record protected"
    measure = f"{names[1]}, members less others"
    return Curve(names[0], "synthetic tables", data, measure, 0.0, bare, tuple(map(point, epsilons)))
