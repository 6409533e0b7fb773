"""What is summed up of each period of a stream: integers that are exact, and what becomes of a running sum of them.

Formal guarantee: none by itself. ``reach`` bounds how far one unit moves the exact integers of all its rows together,
each over its relative deviation, in length; that rows are clipped and rounded one by one is the statistic's own
(``SecondMoment``, ``MomentStage``), and so is the proof of its bound.
"""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError
from sfumato.estimation import gaussians
from sfumato.fileformat.manifest import Facts
from sfumato.mechanisms.base import Published, Recipe, noise_facts
from sfumato.mechanisms.covariance import Covariance, PreparedCovariance
from sfumato.mechanisms.histogram import Histogram, PreparedHistogram
from sfumato.mechanisms.synthetic.recipe import PreparedSynthetic, Synthetic
from sfumato.numerics.lattice import Total
from sfumato.numerics.types import Floats, Integers
from sfumato.privacy.guarantee import Guarantee
from sfumato.tables.blocks import Rows
from sfumato.tables.schema import Schema

_SAMPLED = 1 << 14  # synthetic rows at a time
_MOST_SAMPLES = 1 << 20


class StreamStatistic(Protocol):
    """Integers that are summed up over the rows of a period, and a release that a running sum of them becomes."""

    __slots__ = ()

    @property
    def facts(self) -> Facts:
        """The statistic of a stream as its file describes it; ``statistic_of`` reads it."""
        ...

    @property
    def reach(self) -> float:
        """How far one unit moves the exact integers of a stream, each over its deviation, if periods were added up."""
        ...

    @property
    def deviations(self) -> Floats:
        """The deviation of the noise on each integer of a stream, relative to the scale of the noise."""
        ...

    @property
    def rounding(self) -> float:
        """The squared length, over deviations, of a move by one step in every integer that one unit can move."""
        return float(np.sum(self.deviations**-2.0))

    def exact(self, rows: Rows) -> tuple[Total, int]:
        """The integers of the rows of a period, and how many rows these are."""
        ...

    def published(self, sums: Floats, noise: tuple[float, float], records: int | None) -> Published:
        """The release that a running sum of a stream becomes.

        noise   : sensitivity and scale of the noise on the sums, as the manifest states them.
        records : the number of rows so far, or None where it is protected.
        """
        ...


def statistic_of(recipe: Recipe, schema: Schema, guarantee: Guarantee) -> StreamStatistic:
    """The statistic of a stream from a recipe of ordinary releases; refuses those that are no sums with one noise."""
    if guarantee.delta == 0:
        raise ParameterError("streams have Gaussian noise, which needs delta > 0, got delta=0.0: give a small delta")
    if getattr(recipe, "space", None) is not None:
        raise ParameterError("streams are in no shared space: leave it out, and give the schema of the periods")
    if isinstance(recipe, Covariance):
        return _covariance(recipe, schema, guarantee)
    if isinstance(recipe, Histogram):
        return _histogram(recipe, schema, guarantee)
    if isinstance(recipe, Synthetic):
        return _classes(recipe, schema, guarantee)
    raise ParameterError(
        f"streams are of sums, Covariance(), Histogram() or Synthetic(), got {type(recipe).__name__}: it cannot be "
        "added up over periods"
    )


def recipe_of_facts(facts: Facts) -> Recipe:
    """The recipe of a stream's statistic, from what the file of the stream says of it."""
    told = dict(facts)
    name = told.pop("name")
    if name == "covariance":
        return Covariance(noise="gaussian", **told)
    if name == "histogram":
        return Histogram(tuple(map(tuple, told["tables"])), noise="gaussian", bins=told["bins"])
    if name == "synthetic":
        return Synthetic(noise="gaussian", centring="public", **told)
    raise ParameterError(f"there is no statistic {str(name)[:40]!r} for streams")


# ---- second moments --------------------------------------------------------------------------------------------------


def _check_gaussian(noise: str | None) -> None:
    if noise not in (None, "gaussian"):
        raise ParameterError(f"streams have Gaussian noise, got noise={noise!r}: leave it out")


def _covariance(recipe: Covariance, schema: Schema, guarantee: Guarantee) -> "StreamedCovariance":
    _check_gaussian(recipe.noise)
    prepared = replace(recipe, noise="gaussian").prepare(schema, guarantee)
    assert isinstance(prepared, PreparedCovariance)
    return StreamedCovariance(prepared)


@dataclass(frozen=True, slots=True, eq=False)
class StreamedCovariance(StreamStatistic):
    """Second moments about the public centre, and sums if centred, of the rows of each period."""

    prepared: PreparedCovariance

    @property
    def facts(self) -> Facts:
        """Whether a streamed covariance has sums."""
        return {"name": "covariance", "centred": self.prepared.recipe.centred}

    @property
    def reach(self) -> float:
        """How far one unit moves the second moments of a stream, in Frobenius norm, in squared steps of the grid."""
        return self.prepared.moment.reach

    @property
    def deviations(self) -> Floats:
        """1 on the diagonal of a streamed covariance, and less by sqrt(2) off it."""
        moment = self.prepared.moment
        diagonal = np.arange(moment.kept.size) < moment.dim
        return np.where(diagonal, 1.0, math.sqrt(0.5))[moment.kept]

    def exact(self, rows: Rows) -> tuple[Total, int]:
        """The published part of the triangle of a streamed covariance, and the number of rows."""
        moment = self.prepared.moment
        whole = moment.exact(rows)
        (anchors,) = whole.part(slice(moment.dim - 1, moment.dim)).integers()
        return whole.part(moment.kept), int(anchors) // moment.grid.anchor**2

    def published(self, sums: Floats, noise: tuple[float, float], records: int | None) -> Published:
        """An ordinary covariance release of the running sums of a stream."""
        moment = self.prepared.moment
        unit = moment.grid.step**2
        facts = self.prepared.facts(1.0, records)
        facts["mechanism"] |= noise_facts(2, *(number * unit for number in noise))
        facts["lattice"] |= {"shift": 0, "unit": unit}
        return Published(facts, ("value",), iter([sums[None] * unit]), by_record=False)


# ---- counts ----------------------------------------------------------------------------------------------------------


def _histogram(recipe: Histogram, schema: Schema, guarantee: Guarantee) -> "StreamedHistogram":
    _check_gaussian(recipe.noise)
    return StreamedHistogram(replace(recipe, noise="gaussian").prepare(schema, guarantee))


@dataclass(frozen=True, slots=True, eq=False)
class StreamedHistogram(StreamStatistic):
    """Counts of public cells, of the rows of each period."""

    prepared: PreparedHistogram

    @property
    def facts(self) -> Facts:
        """The tables of a streamed histogram, and their cuts."""
        tables = [list(names) for names in self.prepared.cells.names]
        bins = {name: np.asarray(cuts).tolist() for name, cuts in self.prepared.recipe.bins.items()}
        return {"name": "histogram", "tables": tables, "bins": bins}

    @property
    def reach(self) -> float:
        """How far one unit moves the counts of a stream, each over its deviation."""
        return self.prepared.reach

    @property
    def deviations(self) -> Floats:
        """Counts of a stream have the deviations that they have in a histogram."""
        return self.prepared.deviations

    def exact(self, rows: Rows) -> tuple[Total, int]:
        """The counts of all cells of a stream's histogram in a period, and the number of rows."""
        found, count = self.prepared.counted(rows)
        return Total(found.shape).add(found), count

    def published(self, sums: Floats, noise: tuple[float, float], records: int | None) -> Published:
        """An ordinary histogram release of the running counts of a stream."""
        made = self.prepared.published(sums, noise[1], records)
        made.facts["mechanism"]["sensitivity"] = noise[0]
        return made


# ---- moments of classes ----------------------------------------------------------------------------------------------


def _classes(recipe: Synthetic, schema: Schema, guarantee: Guarantee) -> "StreamedClasses":
    _check_gaussian(recipe.noise)
    if recipe.counts == "public":
        raise ParameterError("streams protect the class of a record: use counts='private'")
    if recipe.centring == "private":
        raise ParameterError("the mean of a stream is not known while it is summed up: use centring='public'")
    prepared = replace(recipe, noise="gaussian", centring="public").prepare(schema, guarantee)
    return StreamedClasses(replace(prepared, recipe=replace(prepared.recipe, seed=prepared.seed)))


@dataclass(frozen=True, slots=True, eq=False)
class StreamedClasses(StreamStatistic):
    """Number, sums and second moments of the rows of each class in each period, about the public centre."""

    prepared: PreparedSynthetic

    @property
    def facts(self) -> Facts:
        """What a stream of class moments needs to know of its recipe."""
        recipe = self.prepared.recipe
        told: dict[str, Any] = {"dimension": self.prepared.dimension, "seed": self.prepared.seed}
        for name in ("label", "kind", "normalise", "label_weight", "rows", "shrink"):
            told[name] = getattr(recipe, name)
        return {"name": "synthetic"} | told

    @property
    def reach(self) -> float:
        """How far one unit moves the class moments of a stream, in steps."""
        return self.prepared.moment.reach

    @property
    def deviations(self) -> Floats:
        """1 on the diagonals of streamed class moments, and less by sqrt(2) off them."""
        moment = self.prepared.moment
        own = np.where(np.arange(moment.entries) < moment.squares, 1.0, math.sqrt(0.5))
        return np.tile(own, moment.matrices)

    @property
    def rounding(self) -> float:
        """Of a stream's classes only those move that a row leaves or joins."""
        moment = self.prepared.moment
        rows = moment.guarantee.group * (2 if moment.guarantee.neighbours == "replace" else 1)
        return float(min(moment.matrices, rows) * moment.dim**2)

    def exact(self, rows: Rows) -> tuple[Total, int]:
        """The entries of all matrices of a period's classes that get noise, and the number of rows."""
        matrices, count = self.prepared.moment.exact(rows, None)
        first, second = self.prepared.moment.places
        found = Total((matrices[:, first, second].size,))
        return found.add(np.ascontiguousarray(matrices[:, first, second]).ravel()), count

    def published(self, sums: Floats, noise: tuple[float, float], records: int | None) -> Published:
        """An ordinary synthetic release: the Gaussians that fit a stream's running sums, and samples of them."""
        prepared, moment = self.prepared, self.prepared.moment
        step = 2.0**-moment.shift
        matrices = moment.whole((sums * step).reshape(moment.matrices, moment.entries))  # type: ignore[arg-type]
        fitting = moment.fitting(noise[1] * step, prepared.recipe.shrink)
        counts = matrices[:, -1, -1] / fitting.per_constant**2
        known = records or max(1.0, float(np.maximum(counts, 0.0).sum()))
        by_class = bool(prepared.labelled.classes)
        components = fitting.classes(matrices, counts) if by_class else [fitting.everyone(matrices[0], known)]
        facts = prepared.facts(noise[1] * step / moment.sensitivity, None, components)
        facts["mechanism"]["moments"] = noise_facts(2, *(number * moment.turned.unit**2 for number in noise))
        facts["lattice"] |= {"shift": 0, "unit": moment.turned.unit**2}
        wanted = prepared.recipe.rows or min(max(1, round(known)), _MOST_SAMPLES)
        names = (*(f"z{i}" for i in range(prepared.dimension)), *(("label",) if prepared.labelled.column else ()))
        blocks = self._samples(components, wanted, sums)
        return Published(facts, names, blocks, moment.turned.matrix, by_record=False)

    def _samples(self, components: list[Any], rows: int, sums: Floats) -> Iterator[NDArray[np.generic]]:
        """Synthetic rows, the same whenever a period of the stream is published: sampling costs no privacy."""
        key = hashlib.blake2b(np.ascontiguousarray(sums).tobytes(), digest_size=32).digest()
        rng, labelled = np.random.default_rng(np.frombuffer(key, np.uint64).tolist()), self.prepared.labelled
        for start in range(0, rows, _SAMPLED):
            drawn, which = gaussians.sample(components, min(_SAMPLED, rows - start), rng)
            columns = np.ascontiguousarray(drawn.T)
            if labelled.numeric:
                columns[-1] = labelled.original(columns[-1])
            elif labelled.column is not None:
                columns = np.vstack([columns, which.astype(float)])
            yield columns


class WeightedSum:
    """A sum of a stream's exact integers high * 2^32 + low, a row each, with integer weights; exact, however large.

    In 64 bits where they cannot overflow, in Python's integers otherwise.
    """

    __slots__ = ("_total", "_wide", "_within")

    def __init__(self, size: int) -> None:
        self._total, self._within = Total((size,)), 0
        self._wide: NDArray[np.object_] | None = None

    def add(self, weights: Integers, high: Integers, low: Integers) -> None:
        """Add rows of a stream's integers, each with its weight."""
        most = int(np.abs(weights).sum())
        self._within += most * (1 + max((abs(int(high.min())), abs(int(high.max()))) if high.size else (0,)))
        if self._wide is None and most < 1 << 30 and self._within < 1 << 62:
            self._total.merge(Total.of(weights @ high, weights @ low))
            return
        if self._wide is None:
            self._wide = self._total.integers()
        rows = (high.astype(object) << 32) + low.astype(object)
        self._wide = self._wide + (weights.astype(object)[:, None] * rows).sum(axis=0)

    def coarsened(self, shift: int) -> Integers:
        """The sum of a stream's integers on a coarser grid, cut to 62 bits, as ``Total.coarsened`` does."""
        if self._wide is None:
            return self._total.coarsened(shift)
        half, most = (1 << shift) >> 1, 1 << 62
        return np.array([min(max((int(n) + half) >> shift, -most), most - 1) for n in self._wide], np.int64)
