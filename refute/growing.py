"""Contests of streams: neighbours in any period, on random schedules, with rows that leave."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from refute import levels, losses, schemas
from refute.luck import chance, pick
from refute.pairs import Neighbourhood, Pair
from refute.released import Storage, both, fault_of, public_seed, side_by_side
from refute.schemas import Row, Terms
from refute.search import Measured, brief, terms_of
from sfumato.audit import recorder
from sfumato.audit.claimed_moves import moves
from sfumato.audit.recorder import Tape
from sfumato.audit.stream_trials import InMemory
from sfumato.mechanisms.base import Recipe
from sfumato.mechanisms.covariance import Covariance
from sfumato.mechanisms.histogram import Histogram
from sfumato.mechanisms.synthetic.recipe import Synthetic
from sfumato.numerics.lattice import Total
from sfumato.privacy.guarantee import Guarantee
from sfumato.streams import running
from sfumato.streams.description import StreamDescription
from sfumato.streams.factorisation import SquareRoot, Tree
from sfumato.streams.measuring import Measuring
from sfumato.streams.statistic import statistic_of
from sfumato.tables.columns import Category, Flag, Ordinal
from sfumato.tables.schema import Schema

_HORIZONS = (1, 2, 3, 4, 5, 8)

Period = tuple[list[Row], list[Row]]  # rows that arrive, and rows that leave


@dataclass(frozen=True, slots=True)
class Streamed:
    """A recipe whose sums are streamed, prepared as a mechanism is."""

    recipe: Recipe
    method: SquareRoot | Tree
    horizon: int

    def prepare(self, schema: Schema, guarantee: Guarantee) -> Measuring:
        """How the stream is measured."""
        return Measuring.of(statistic_of(self.recipe, schema, guarantee), self.method, guarantee, self.horizon)


@dataclass(frozen=True, slots=True)
class Scheduled:
    """Two streams, period by period."""

    tables: tuple[list[Period], list[Period]]


@dataclass(frozen=True, slots=True)
class Growing:
    """A stream at its noise."""

    streamed: Streamed
    about: StreamDescription
    storage: Storage
    around: Neighbourhood

    @property
    def settings(self) -> str:
        """In one line."""
        kinds = " ".join(column.kind for column in self.around.schema.data_columns)
        method, horizon = self.streamed.method.name, self.streamed.horizon
        return f"{brief(self.streamed.recipe)}; {method}, {horizon} periods; {terms_of(self.around.guarantee)}; {kinds}"

    def draw(self, luck: Generator) -> Pair:
        """A pair of neighbours; when their rows come is drawn from its outcome."""
        return self.around.draw(luck)

    def changed(self, luck: Generator, pair: Pair) -> Pair:
        """Another one, close to it."""
        return self.around.changed(luck, pair)

    def schedule(self, pair: Pair) -> Scheduled:
        """When every row comes, or leaves: the rows of a unit in any periods, often all of them in the first."""
        luck, horizon = np.random.default_rng([pair.outcome, 7]), self.streamed.horizon
        promise = self.around.guarantee
        leaves = promise.neighbours == "add-remove" and promise.group > 1
        first = chance(luck, 0.5)
        count = len(pair.common) + max(len(pair.ones), len(pair.twos))
        periods, gone = luck.integers(0, horizon, count).tolist(), (luck.random(count) < 0.3).tolist()
        tables = []
        for unit in (pair.ones, pair.twos):
            made: list[Period] = [([], []) for _ in range(horizon)]
            for place, row in enumerate((*pair.common, *unit)):
                own = place >= len(pair.common)
                made[0 if own and first else periods[place]][int(leaves and gone[place])].append(row)
            tables.append(made)
        return Scheduled((tables[0], tables[1]))

    def measure(self, pair: Pair) -> Measured:
        """Append all periods on both sides, with the same outcomes, and compare what got noise."""
        tape = Tape()
        again = tape.replay()
        secrets = iter([recorder.secret(tape), recorder.secret(again)])

        def run(periods: Any, folder: Path) -> int:
            stream: Any = InMemory(self.about)
            secret = next(secrets)
            for number, (arriving, leaving) in enumerate(periods, 1):
                exact = self._exact(arriving, folder)
                if leaving:
                    (high, low), (less, lower) = exact.halves, self._exact(leaving, folder).halves
                    exact = Total.of(high - less, low - lower)
                running.add(stream, number, exact, secret)
            return len(stream.found)

        results = both(self.schedule(pair), run)  # type: ignore[arg-type]
        if fault := fault_of(results, tape, again):
            return Measured(fault=fault)
        pairs, made = side_by_side(tape, again), self.about.measuring
        moved = moves(pairs, ["stream"]).get("stream", 0.0)
        stage = moved * self.about.scale / made.sensitivity(self.streamed.horizon)
        return Measured(losses.share(losses.of(pairs), self.around.guarantee), stage)

    def _exact(self, rows: list[Row], folder: Path) -> Total:
        stored = self.storage.rows(self.around.schema, rows, 1, folder)
        return self.about.measuring.statistic.exact(stored)[0]


def _contest(luck: Generator, recipe: Recipe, around: Neighbourhood) -> Growing:
    method: SquareRoot | Tree = pick(luck, (SquareRoot(), Tree()))
    streamed = Streamed(recipe, method, pick(luck, _HORIZONS))
    made = levels.prepared(streamed, around.schema, around.guarantee)
    scale = made.scale(levels.level(made, around.guarantee))
    about = StreamDescription("0" * 32, around.schema, made, scale, streamed.horizon, protected=False)
    return Growing(streamed, about, Storage.drawn(luck), around)


def _around(luck: Generator, of: Schema, *, whole: bool) -> Neighbourhood:
    promise = schemas.promise(luck, of, "gaussian", whole=whole, comes=True)
    return Neighbourhood(schema=of, guarantee=replace(promise, change=None) if whole else promise)


def covariance(luck: Generator) -> Growing:
    """Second moments, and sums."""
    of = schemas.schema(luck, Terms())
    return _contest(luck, Covariance(centred=chance(luck, 0.5)), _around(luck, of, whole=False))


def histogram(luck: Generator) -> Growing:
    """Counts of every column, or of some together."""
    of = schemas.schema(luck, Terms(columns=3, clips=(None,)))
    names = tuple(column.name for column in of.data_columns)
    tables = pick(luck, (None, (names[:2],), ((names[0],),)))
    return _contest(luck, Histogram(tables), _around(luck, of, whole=True))


def synthetic(luck: Generator) -> Growing:
    """Moments of classes."""
    of = schemas.schema(luck, Terms(clips=(None, None, "l2")))
    labels = [c.name for c in of.data_columns if isinstance(c, Category | Ordinal | Flag) and c.missing != "level"]
    label = pick(luck, labels) if labels and len(of.data_columns) > 1 and chance(luck, 0.7) else None
    recipe = Synthetic(
        dimension=pick(luck, (1, 2)),
        label=label,
        kind=None if label is None else "classes",
        normalise=pick(luck, (None, "once", "never")),
        centring="public",
        seed=public_seed(luck),
    )
    return _contest(luck, recipe, _around(luck, of, whole=True))
