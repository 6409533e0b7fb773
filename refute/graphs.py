"""Contests of mechanisms on graphs: the lines of one pair of vertices are the unit, whatever they say."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import scipy
from numpy.random import Generator

from refute import levels, losses
from refute.luck import chance, pick
from refute.released import fault_of, side_by_side
from refute.schemas import DELTAS, EPSILONS
from refute.search import Measured, SkippedError, brief, terms_of
from sfumato.audit import recorder
from sfumato.audit.claimed_moves import allowed, moves, row_covariance, stretch
from sfumato.audit.recorder import Tape
from sfumato.errors import SfumatoError
from sfumato.files.edges import open_edges
from sfumato.mechanisms.graph_pairs import EdgeNoise, EdgeResponse
from sfumato.mechanisms.graph_sketch import GraphSketch, PreparedGraphSketch
from sfumato.privacy.guarantee import Guarantee, Neighbours

Lines = tuple[tuple[float, float, float], ...]

_SIZES = (1.0, 1.0, 0.3, 0.0, -2.0, 5.0, math.nan, math.inf, -math.inf, 0.5, 0.4999999, 2.0**-21, 1e308)
_STRANGE = (-1.0, 2.5, math.nan, math.inf, 1e300)
_FORMS = ("NumPy", "Arrow", "pandas", "SciPy")


@dataclass(frozen=True, slots=True)
class EdgePair:
    """Two edge lists: common lines, and those of one pair of vertices."""

    common: Lines
    ones: Lines
    twos: Lines
    place: int

    @property
    def tables(self) -> tuple[Lines, Lines]:
        """The two lists; the pair's lines stand together, anywhere."""
        return tuple(self.common[: self.place] + unit + self.common[self.place :] for unit in (self.ones, self.twos))  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Graphs:
    """A mechanism on graphs, prepared, at its level."""

    recipe: Any
    prepared: Any
    level: float
    guarantee: Guarantee
    form: str

    @property
    def settings(self) -> str:
        """In one line."""
        return f"{brief(self.recipe)}; {terms_of(self.guarantee)}; {self.form}"

    @property
    def vertices(self) -> int:
        """How many there are."""
        return int(self.recipe.vertices)

    def draw(self, luck: Generator) -> EdgePair:
        """A pair of neighbours."""
        u, v = (float(x) for x in luck.choice(self.vertices, 2, replace=False))
        common = self._common(luck, {u, v})
        return EdgePair(common, *self._unit(luck, u, v), int(luck.integers(len(common) + 1)))

    def _common(self, luck: Generator, unit: set[float]) -> Lines:
        strange = () if self.form == "SciPy" else (*_STRANGE, float(self.vertices))

        def end() -> float:
            return pick(luck, strange) if strange and chance(luck, 0.1) else float(luck.integers(self.vertices))

        drawn = ((end(), end(), pick(luck, _SIZES)) for _ in range(int(luck.integers(0, 13))))
        return tuple(line for line in drawn if {line[0], line[1]} != unit)

    def _unit(self, luck: Generator, u: float, v: float) -> tuple[Lines, Lines]:
        def some() -> Lines:
            ends = [(u, v), (v, u)]
            return tuple((*pick(luck, ends), pick(luck, _SIZES)) for _ in range(int(luck.integers(0, 4))))

        return some(), some()

    def changed(self, luck: Generator, pair: EdgePair) -> EdgePair:
        """Another one, close to it."""
        lines = pair.ones + pair.twos
        if not lines or chance(luck, 0.3):
            return self.draw(luck)
        u, v, _ = lines[0]
        ones, twos = self._unit(luck, u, v)
        if chance(luck, 0.5):
            return replace(pair, ones=ones, twos=twos)
        common = self._common(luck, {u, v})
        return replace(pair, common=common, place=min(pair.place, len(common)))

    def measure(self, pair: EdgePair) -> Measured:
        """Run on both, with the same outcomes, and compare what got noise."""
        if isinstance(self.prepared, PreparedGraphSketch):
            return self._stretched(pair)
        tape = Tape()
        again = tape.replay()
        results = [self._run(lines, t) for lines, t in zip(pair.tables, (tape, again), strict=True)]
        if all(isinstance(one, SfumatoError) for one in results) and repr(results[0]) == repr(results[1]):
            raise SkippedError
        if fault := fault_of(results, tape, again):
            return Measured(fault=fault)
        pairs, limits = side_by_side(tape, again), allowed(self.prepared, self.level)
        moved = moves(pairs, limits)
        stage = max(moved[name] / limits[name] for name in limits)
        return Measured(losses.share(losses.of(pairs), self.guarantee), stage)

    def _run(self, lines: Lines, tape: Tape) -> int | Exception:
        try:
            published = self.prepared.run(open_edges(self._stored(lines)), self.level, recorder.secret(tape))
            return sum(1 for _ in published.blocks)
        except Exception as error:  # noqa: BLE001 - one that is not of the package's own is a finding
            return error

    def _stored(self, lines: Lines) -> Any:
        table = np.array(lines, float).reshape(-1, 3)
        columns = {name: table[:, i] for i, name in enumerate(("src", "dst", "weight"))}
        if self.form == "SciPy":
            ends = table[:, 0].astype(int), table[:, 1].astype(int)
            return scipy.sparse.coo_array((table[:, 2], ends), shape=(self.vertices,) * 2)
        if self.form == "Arrow":
            return pa.table({name: pa.array(cells, from_pandas=True) for name, cells in columns.items()})
        return pd.DataFrame(columns) if self.form == "pandas" else table

    def _stretched(self, pair: EdgePair) -> Measured:
        """How far the covariance of the drawn rows stretches, and what the promise allows."""
        if not self.prepared.ridge(self.level, self.vertices) < self.vertices:
            raise SkippedError  # the mechanism refuses: nothing would be left of a graph of this size
        with np.errstate(invalid="ignore"):
            both = [row_covariance(self.prepared, self.level, open_edges(self._stored(lines))) for lines in pair.tables]
        found, promise = stretch(*both), self.guarantee
        whole = found / losses.largest_stretch(promise.epsilon, promise.delta, self.recipe.height)
        return Measured(whole, found / self.prepared.ratio(self.level), exact=False)


def _contest(luck: Generator, recipe: Any, delta: float, epsilon: float | None = None) -> Graphs:
    neighbours: Neighbours = pick(luck, ("replace", "add-remove"))
    epsilon = pick(luck, EPSILONS) if epsilon is None else epsilon
    promise = Guarantee(epsilon=epsilon, delta=delta, unit="edge", neighbours=neighbours)
    ready = levels.prepared(recipe, None, promise)
    return Graphs(recipe, ready, levels.level(ready, promise), promise, pick(luck, _FORMS))


def _vertices(luck: Generator) -> int:
    return int(luck.integers(2, 10))


def edge_noise(luck: Generator, *, noise: Any) -> Graphs:
    """Noise on every pair."""
    delta = pick(luck, DELTAS) if noise == "gaussian" else pick(luck, (0.0, 1e-3))
    return _contest(luck, EdgeNoise(noise=noise, vertices=_vertices(luck)), delta)


def edge_response(luck: Generator) -> Graphs:
    """An answer on every pair."""
    return _contest(luck, EdgeResponse(vertices=_vertices(luck)), pick(luck, (0.0, 1e-3)))


def graph_sketch(luck: Generator) -> Graphs:
    """Gaussian rows that know every cut."""
    recipe = GraphSketch(rows=pick(luck, (1, 3, 20)), vertices=int(luck.integers(4, 40)))
    return _contest(luck, recipe, pick(luck, (0.05, 1e-3)), pick(luck, (1.0, 5.0, 12.0)))
