"""``sfumato.plan_stream``: what running sums of growing data will be like, against other ways of publishing them.

Every way is a factorisation of running sums at the same guarantee, so the noise of each is the mechanism's own
(``Measuring``), coarsening included. No data are read.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, Literal

import numpy as np

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.in_notebooks import InNotebooks
from sfumato.mechanisms.base import Recipe
from sfumato.mechanisms.covariance import Covariance
from sfumato.numerics.types import Integers
from sfumato.privacy.calibration import calibrate, least_epsilon
from sfumato.privacy.guarantee import Guarantee, check_guarantee
from sfumato.streams.description import LONGEST_HORIZON
from sfumato.streams.factorisation import (
    MOST_PERIODS,
    Decoder,
    Factorisation,
    Node,
    Repeated,
    SquareRoot,
    Tree,
    best,
)
from sfumato.streams.measuring import Measuring
from sfumato.streams.statistic import StreamedClasses, StreamedCovariance, StreamStatistic, statistic_of
from sfumato.tables.schema import AnySchema, schema_of

Way = Literal["square-root", "tree", "own", "repeated", "end"]

GOOD, HOPELESS = 0.05, 0.25  # noise as a share of what is measured: a plan's verdict
_MOST_AVERAGED = 4096  # periods whose noise is averaged one by one; of more, so many by chance

_WAYS: dict[Way, str] = {
    "square-root": "a stream by square root",
    "tree": "a stream by tree",
    "own": "own rows of each period, added up by the analyst",
    "repeated": "released anew after every period",
    "end": "one release, at the end only",
}


@dataclass(frozen=True, slots=True)
class OwnRows(Factorisation):
    """The factorisation in which every period's own rows are measured once, and analysts add up what was measured."""

    @property
    def name(self) -> str:
        """What plans call releases of each period's own rows."""
        return "own"

    def measured(self, period: int) -> tuple[Node, ...]:
        """One release of a period's own rows."""
        check.whole(1, period=period)
        return (Node(period),)

    def weights(self, node: Node) -> Integers:
        """A release of a period's own rows has no others."""
        return np.asarray(np.arange(1, node.period + 1) == node.period, np.int64)

    def squared_norm(self, horizon: int) -> int:
        """A record is among the own rows of one period only: parallel composition."""
        check.whole(1, horizon=horizon)
        return 1

    def touched(self, horizon: int, rows: int = 1) -> int:
        """So many rows are among the own rows of as many periods, at most."""
        return min(horizon, rows)

    def decoder(self, period: int) -> Decoder:
        """All the periods' own rows so far, added up."""
        return tuple(Node(number) for number in range(1, period + 1)), np.ones(period)

    def variance(self, period: int) -> float:
        """The noise of all the periods' own rows so far, added up."""
        return float(period)


@dataclass(frozen=True, slots=True)
class StreamOption:
    """One way of publishing running sums under the guarantee of a plan.

    last  : standard deviation of the noise on a running sum after the last period, in records (``StreamPlan.unit``).
    mean  : the same over all periods: the root of the mean variance. None if there is nothing before the end.
    ratio : mean variance relative to releases anew after every period; ``last_ratio`` that after the last period.
    """

    way: Way
    last: float
    mean: float | None
    ratio: float | None
    last_ratio: float

    @property
    def name(self) -> str:
        """The way of publishing running sums, in words."""
        return _WAYS[self.way]

    def to_dict(self) -> dict[str, Any]:
        """A way of publishing running sums as values for machines."""
        facts = {"way": self.way, "last": self.last, "mean": self.mean}
        return facts | {"ratio": self.ratio, "last_ratio": self.last_ratio}


@dataclass(frozen=True, slots=True)
class Longer:
    """What a longer horizon of a stream would cost.

    extra : epsilon of the extension alone, at the delta of the guarantee: what a ledger is charged.
    whole : epsilon of the whole stream then, with the noise that it has now.
    noise : by which factor noise would be larger instead, if the horizon was declared from the start.
    """

    horizon: int
    extra: float
    whole: float
    noise: float

    def to_dict(self) -> dict[str, Any]:
        """A longer horizon of a stream as values for machines."""
        return {"horizon": self.horizon, "extra": self.extra, "whole": self.whole, "noise": self.noise}


@dataclass(frozen=True, slots=True, repr=False)
class StreamPlan(InNotebooks):
    """Ways of publishing running sums, those after every period first, by their mean variance; and what is best when.

    rows   : records of each period, as far as anybody knows; None where nobody said.
    unit   : what a record is, in which noise is stated.
    error  : noise after the last period as a share of ``measured``, by the best way; None without ``rows``.
    longer : what doublings of the horizon would cost.
    """

    mechanism: Recipe
    guarantee: Guarantee
    horizon: int
    rows: int | None
    unit: str
    measured: str
    options: tuple[StreamOption, ...]
    error: float | None
    longer: tuple[Longer, ...]

    @property
    def purpose(self) -> str:
        """What the plan of a stream is for."""
        return "stream"

    @property
    def best(self) -> StreamOption:
        """The way with the least mean variance of all that publish after every period."""
        return self.options[0]

    @property
    def hopeless(self) -> bool:
        """Whether a stream's noise would be more than a quarter of what is measured, even after the last period."""
        return self.error is not None and self.error > HOPELESS

    def option(self, way: Way) -> StreamOption:
        """One way of publishing running sums."""
        return next(option for option in self.options if option.way == way)

    @property
    def verdict(self) -> str:
        """Verdict of the plan of a stream, in plain sentences."""
        least = self.best
        if self.horizon == 1:
            return "One period is an ordinary release: all ways are the same."
        told = f"{least.name} errs least over all periods, by {_number(least.last)} records after the last one"
        if self.error is None:
            return f"Best: {told}. Say how many records a period has (rows) for a verdict."
        word = "Hopeless" if self.hopeless else "Good" if self.error <= GOOD else "Rough"
        return f"{word}: {told}, {_percent(self.error)} of {self.measured}."

    @property
    def advice(self) -> tuple[str, ...]:
        """Which way is best when, and what a longer horizon of the stream costs."""
        return tuple(_advice(self))

    def __repr__(self) -> str:
        return f"<plan of a {self.title}; {self.verdict}>"

    @property
    def title(self) -> str:
        """The stream that a plan is for, in short."""
        rows = "" if self.rows is None else f" of {self.rows:,} {'record' if self.rows == 1 else 'records'} each"
        return f"stream of {self.horizon:,} {'period' if self.horizon == 1 else 'periods'}{rows}"

    def to_dict(self) -> dict[str, Any]:
        """The plan of a stream as values for machines."""
        return {
            "purpose": self.purpose,
            "horizon": self.horizon,
            "rows": self.rows,
            "unit": self.unit,
            "options": [option.to_dict() for option in self.options],
            "best": self.best.way,
            "error": self.error,
            "hopeless": self.hopeless,
            "longer": [longer.to_dict() for longer in self.longer],
            "verdict": self.verdict,
            "advice": list(self.advice),
        }

    def describe(self) -> str:
        """The plan of a stream in words: every way with its noise, the verdict and advice."""
        head = f"{'standard deviation of the noise, in records*':50}{'mean':>8}{'last':>8}{'variance against anew':>23}"
        lines = [_line(option) for option in self.options]
        return "\n".join([self.title, head, *lines, f"* {self.unit}", self.verdict, *self.advice])


def plan_stream(
    *,
    guarantee: Guarantee,
    schema: AnySchema,
    horizon: int,
    mechanism: Recipe | None = None,
    rows: int | None = None,
) -> StreamPlan:
    """Plan a stream: how well its running sums will do, against releases anew and other ways of publishing them.

    horizon   : how many periods will come; what is published after each of them has one guarantee together.
    mechanism : what is summed up: ``Covariance()`` (the default), ``Histogram(...)`` or ``Synthetic(...)``.
    rows      : how many records a period has, about, by public knowledge: for a verdict.
    Privacy: no data are read, nothing is spent. All figures are functions of public facts.
    """
    check_guarantee(guarantee)
    check.whole(1, horizon=horizon)
    check.between(1, LONGEST_HORIZON, horizon=horizon)
    if rows is not None:
        check.whole(1, rows=rows)
    found = schema_of(schema)
    if found is None:
        raise ParameterError("a plan of a stream needs a schema")
    mechanism = Covariance() if mechanism is None else mechanism
    statistic = statistic_of(mechanism, found, guarantee)
    worth, unit, measured, share = _worth(statistic)
    options = tuple(_options(statistic, guarantee, horizon, worth))
    records = None if rows is None else rows * horizon
    error = None if records is None else options[0].last * share / records
    longer = tuple(_longer(statistic, guarantee, horizon))
    return StreamPlan(mechanism, guarantee, horizon, rows, unit, measured, options, error, longer)


# ---- ways ------------------------------------------------------------------------------------------------------------


def _options(statistic: StreamStatistic, guarantee: Guarantee, horizon: int, worth: float) -> Iterator[StreamOption]:
    """All ways that there are, ranked: those after every period by mean variance, then the one at the end only."""
    methods: list[tuple[Way, Factorisation]] = [("tree", Tree()), ("own", OwnRows()), ("repeated", Repeated())]
    if horizon <= MOST_PERIODS:
        methods.insert(0, ("square-root", SquareRoot()))
    squares = {way: _squares(statistic, method, guarantee, horizon, worth) for way, method in methods}
    anew_mean, anew_last = squares["repeated"]
    for way, (mean, last) in sorted(squares.items(), key=lambda item: item[1][0]):
        yield StreamOption(way, math.sqrt(last), math.sqrt(mean), mean / anew_mean, last / anew_last)
    _mean, last = _squares(statistic, Repeated(), guarantee, 1, worth)
    yield StreamOption("end", math.sqrt(last), None, None, last / anew_last)


def _squares(
    statistic: StreamStatistic, method: Factorisation, guarantee: Guarantee, horizon: int, worth: float
) -> tuple[float, float]:
    """Variance of a running sum, mean over periods and after the last, by one way; in squared records."""
    measuring = Measuring.of(statistic, method, guarantee, horizon)
    one = (measuring.scale(calibrate(measuring, guarantee).level) * 2.0**measuring.shift / worth) ** 2
    some = range(1, horizon + 1)
    if horizon > _MOST_AVERAGED:
        some = np.random.default_rng(1).integers(1, horizon, _MOST_AVERAGED, endpoint=True).tolist()
    mean = math.fsum(map(method.variance, some)) / len(some)
    return one * mean, one * method.variance(horizon)


def _longer(statistic: StreamStatistic, guarantee: Guarantee, horizon: int) -> Iterator[Longer]:
    """What two doublings of the horizon cost, by the way that streams have by default."""
    method = best(horizon)
    now = Measuring.of(statistic, method, guarantee, horizon)
    scale = now.scale(calibrate(now, guarantee).level)
    most = MOST_PERIODS if isinstance(method, SquareRoot) else LONGEST_HORIZON
    for after in (after for after in (2 * horizon, 4 * horizon) if after <= most):
        extra = now.more(scale, horizon, after)
        alone = 0.0 if extra is None else least_epsilon(extra, guarantee.delta)
        whole = now.promise(scale, after).epsilon
        yield Longer(after, alone, whole, now.sensitivity(after) / now.sensitivity(horizon))


# ---- what noise is compared with -------------------------------------------------------------------------------------


@singledispatch
def _worth(statistic: Any) -> tuple[float, str, str, float]:
    """What a record adds to a sum at most, in the statistic's integers, in words; what is measured, and its share.

    The last two: noise of so many records, times the share, over all records, is relative to what is measured.
    """
    cells = float(max(statistic.prepared.cells.sizes))
    return 1.0, "records in a cell of the largest table", "a cell of average size in the largest table", cells


@_worth.register
def _(statistic: StreamedCovariance) -> tuple[float, str, str, float]:
    halves = statistic.prepared.moment.grid.half
    half = float(np.median(halves[halves > 0])) if (halves > 0).any() else 1.0
    told = "records at an end of a column's bounds, in its sum of squares"
    return half**2, told, "the variance of a column that fills its bounds evenly", 3.0


@_worth.register
def _(statistic: StreamedClasses) -> tuple[float, str, str, float]:
    moment = statistic.prepared.moment
    if moment.constant == 0 or not statistic.prepared.labelled.classes:
        told = "records of length 1, in a sum of squares"
        return float(moment.turned.top) ** 2, told, "the variance of an even row", float(moment.turned.dim)
    classes = float(moment.matrices)
    return float(moment.constant) ** 2, "records in a class", "a class of average size", classes


# ---- words -----------------------------------------------------------------------------------------------------------


def _line(option: StreamOption) -> str:
    mean = "-" if option.mean is None else _number(option.mean)
    ratio = "-" if option.ratio is None else f"{option.ratio:.3g}"
    return f"{option.name:50}{mean:>8}{_number(option.last):>8}{ratio:>23}"


def _advice(plan: StreamPlan) -> Iterator[str]:
    if plan.horizon == 1:
        return
    end, least = plan.option("end"), plan.best
    times = _number((least.last / end.last) ** 2)
    yield f"If nobody needs sums before the end, one release then has {times} times less variance than {least.name}."
    ends_best = min((option for option in plan.options if option.way != "end"), key=lambda option: option.last)
    if ends_best.way != least.way:
        yield f"If the last period is what counts, {ends_best.name} errs less ({_number(ends_best.last)})."
    if plan.horizon <= 8:
        yield "For so few periods all ways are close: the gain over releases anew grows with the number of periods."
    if plan.horizon > MOST_PERIODS:
        yield f"The square root goes up to {MOST_PERIODS:,} periods: fewer and longer periods would have less noise."
    for longer in plan.longer:
        yield (
            f"{longer.horizon:,} periods instead: {longer.extra:.3g} more epsilon at the same noise "
            f"({longer.whole:.3g} in all); declared at once, {_percent(longer.noise - 1)} more noise after each period."
        )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 999.5 else f"{value:.3g}"


def _percent(share: float) -> str:
    return f"{float(f'{100 * share:.2g}'):g}%"
