"""Answers of aggregates from noisy statistics: values, standard errors and exact intervals. All of it is free."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from sfumato.aggregates.noise_scale import NoiseScale
from sfumato.aggregates.quantiles import QuantileStatistic
from sfumato.aggregates.statistics import Grid, LevelCounts, Moments, PublicSpread, Statistic, Totalled
from sfumato.intervals import additive_noise
from sfumato.intervals.estimate import NOISE_ONLY, Bounds, Ends, Estimate, Quantity
from sfumato.intervals.weighted_noise import MomentNoise, NoisyMoments
from sfumato.numerics.types import Floats, Integers
from sfumato.queries.axes import Level
from sfumato.queries.questions import Aggregate

_UNBOUNDED = 2.0**53
_FOR_NUMBER = 0.02  # the part of what an interval of a sum may miss that the number of its records may
Seen = tuple[Integers, NoiseScale]


@dataclass(frozen=True, slots=True)
class AggregateAnswer:
    """The answer of one aggregate: an estimate with one number for each group and level, the levels fastest.

    labels : of each number within a group; (None,) where there is one.
    places : for a ``top``, which levels of each group are shown: (groups, labels); None elsewhere.
    """

    aggregate: Aggregate
    estimate: Estimate
    labels: tuple[str | None, ...] = (None,)
    places: Integers | None = None


def part_of(
    aggregate: Aggregate, statistic: Statistic | None, seen: Seen | None, groups: int, most: float | None
) -> AggregateAnswer:
    """The answer of an aggregate. ``most``: the number of rows of the table, where that is public."""
    if statistic is None or seen is None:
        assert most is not None
        return AggregateAnswer(aggregate, _known(np.full(groups, most)))
    if isinstance(statistic, QuantileStatistic):
        found = statistic.quantiles(*seen, aggregate.orders, most)
        return AggregateAnswer(aggregate, found, tuple(f"{q:g}" for q in aggregate.orders))
    if isinstance(statistic, LevelCounts):
        return _levels(aggregate, statistic, seen, most)
    return AggregateAnswer(aggregate, _number(aggregate.name, statistic, seen, most))


def _number(name: str, statistic: Statistic, seen: Seen, most: float | None) -> Estimate:
    """The answer of an aggregate that has one number for each group."""
    if isinstance(statistic, Moments):
        return _of_moments(name, statistic, seen, most)
    if isinstance(statistic, PublicSpread):
        return _of_spread(statistic, seen, most or 0.0)
    if isinstance(statistic, Totalled):
        return _of_total(name, statistic, seen, most)
    return counts(seen[0][:, 0], seen[1], most)


def counts(values: Integers, noise: NoiseScale, most: float | None) -> Estimate:
    """Counts of records, each with its own noise."""
    top = _UNBOUNDED if most is None else most
    return additive_noise.tallied(values, noise.law(), top).of(Quantity("records"))


def _known(values: Floats) -> Estimate:
    """Numbers that are public, as estimates without error."""
    return Estimate(values, np.zeros(values.shape), "nothing: this number is public", lambda _: (values, values))


def _levels(aggregate: Aggregate, statistic: LevelCounts, seen: Seen, most: float | None) -> AggregateAnswer:
    values, noise = seen
    labels = tuple(map(_label, statistic.axis.levels))
    if aggregate.name == "histogram":
        return AggregateAnswer(aggregate, counts(values.ravel(), noise, most), labels)
    shown = min(aggregate.most, statistic.axis.size)
    places = np.argsort(-values, axis=1, kind="stable")[:, :shown]
    found = counts(np.take_along_axis(values, places, axis=1).ravel(), noise, most)
    bounds = partial(_of_chosen, found.bounds, statistic.axis.size)
    chosen = Estimate(found.uncut, found.standard_error, NOISE_ONLY, bounds, found.quantity)
    return AggregateAnswer(aggregate, chosen, labels, places.astype(np.int64))


def _of_chosen(bounds: Bounds, levels: int, tail: float) -> Ends:
    """Intervals of counts that were picked for being large: as wide as if all levels were covered at once."""
    return bounds(tail / levels)


def _label(level: Level) -> str:
    if level is None:
        return "missing"
    if isinstance(level, tuple):
        return " to ".join(f"{end:g}" if isinstance(end, float) else str(end) for end in level)
    return str(level).lower() if isinstance(level, bool) else str(level)


def _of_moments(name: str, statistic: Moments, seen: Seen, most: float | None) -> Estimate:
    values, noise = seen
    grid, whole = statistic.grid, statistic.whole
    assert noise.kind != "discrete laplace"
    law = MomentNoise(noise.kind, noise.scale / whole, 1.0 / whole)
    moments = NoisyMoments(values / whole, statistic.basis, law)
    width = grid.high - grid.low
    if name == "mean":
        value, error = grid.low + width * moments.mean, width * moments.mean_error
        quantity = Quantity("", grid.low, grid.high)
        return _estimate(value, error, _moved(moments.mean_interval, width, grid.low, grid.rounding), quantity)
    if name == "variance":
        slack = 2 * width * grid.rounding
        ends = _moved(moments.variance_interval, width**2, 0.0, slack)
        value, error = width**2 * moments.variance, width**2 * moments.variance_error
        return _estimate(value, error, ends, Quantity("squared", 0.0, width**2 / 4))
    if name == "count":
        quantity = Quantity("records", 0.0, np.inf if most is None else most)
        return _weighted(moments, moments.powers(1.0), noise, quantity)
    terms = moments.powers(grid.low, width)
    found = _weighted(moments, terms, noise, _sums(grid, None))
    if grid.rounding == 0:
        return found
    number = _weighted(moments, moments.powers(1.0), noise, Quantity(""))
    return replace(found, bounds=partial(_rounded, found.bounds, number.bounds, grid.rounding))


def _weighted(moments: NoisyMoments, terms: Floats, noise: NoiseScale, quantity: Quantity) -> Estimate:
    """The sum of a polynomial of records, from noisy moments."""
    weights, step = moments.weights(terms)[0], moments.noise.step
    law = additive_noise.summed_law(noise.kind, [(float(weight) * step, 1, noise.scale) for weight in weights])
    return _shifted(moments.total(terms), law, quantity, float(np.abs(weights).sum()) * step / 2)


def _rounded(bounds: Bounds, number: Bounds, rounding: float, tail: float) -> Ends:
    """Intervals of sums of records that were each rounded, of which there are not more than an interval says."""
    low, high = bounds(tail * (1 - _FOR_NUMBER))
    slack = rounding * np.maximum(number(tail * _FOR_NUMBER)[1], 0.0)
    return low - slack, high + slack


def _of_total(name: str, statistic: Totalled, seen: Seen, most: float | None) -> Estimate:
    values, noise = seen[0].astype(np.float64), seen[1]
    grid, step = statistic.grid, statistic.grid.step
    rows = (most or 0.0) if statistic.from_low else None
    origin = 0.0 if rows is None else grid.low * rows
    if name == "sum":
        slack = grid.rounding * (most or 0.0) + step * noise.rounded
        return _shifted(origin + values[:, 0] * step, noise.law(step), _sums(grid, rows), slack)
    assert rows is not None
    unit = step / max(rows, 1.0)
    value = grid.low + values[:, 0] * unit
    return _shifted(value, noise.law(unit), Quantity("", grid.low, grid.high), grid.rounding + unit * noise.rounded)


def _of_spread(statistic: PublicSpread, seen: Seen, rows: float) -> Estimate:
    values, noise = seen[0].astype(np.float64), seen[1]
    unit = statistic.grid.step**2 / max(rows, 1.0)
    width = statistic.grid.high - statistic.grid.low
    slack = 2 * width * statistic.grid.rounding + (1 + noise.rounded) * unit
    return _shifted(values[:, 0] * unit, noise.law(unit), Quantity("squared", 0.0, width**2 / 4), slack)


def _sums(grid: Grid, rows: float | None) -> Quantity:
    if rows is not None:
        return Quantity("", grid.low * rows, grid.high * rows)
    low = 0.0 if grid.low >= 0 else -np.inf
    return Quantity("", low, 0.0 if grid.high <= 0 else np.inf)


def _shifted(value: ArrayLike, law: additive_noise.Law, quantity: Quantity, slack: float = 0.0) -> Estimate:
    """Numbers that are the truth plus noise of a known law, which gives exact intervals.

    slack : what is added on either side, for rounding: at least half a step of the whole numbers that got the noise, so
            that steps lose no coverage; a law of whole numbers needs none of it.
    """
    seen = np.asarray(value, np.float64)

    def bounds(tail: float) -> Ends:
        margin = law.tail(np.full(seen.shape, tail), 1) + slack
        return np.asarray(seen - margin), np.asarray(seen + margin)

    return _estimate(seen, np.full(seen.shape, law.scale), bounds, quantity)


def _estimate(value: Floats, error: Floats, bounds: Bounds, quantity: Quantity) -> Estimate:
    return Estimate(np.asarray(value), np.asarray(error), NOISE_ONLY, bounds, quantity)


def _moved(interval: Callable[[float], Ends], width: float, low: float, slack: float) -> Bounds:
    """Intervals in [0, 1] in the units of a column, wider by what rounding to the grid may have done."""

    def bounds(tail: float) -> Ends:
        first, last = interval(tail)
        return np.asarray(low + width * first - slack), np.asarray(low + width * last + slack)

    return bounds
