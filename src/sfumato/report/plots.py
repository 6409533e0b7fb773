"""Plots of plans, regions, promises, budgets and attacks: for ``--plot``, and the studio's Plan screen.

They show what is public: declared schemas, promises, the state of a ledger. Attacks alone may have read data.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sfumato import untrusted
from sfumato.attacks.curves import Curve
from sfumato.ledger.state import Dataset, Spent
from sfumato.numerics.types import Floats
from sfumato.planning import per_record
from sfumato.planning.option import Option
from sfumato.planning.planner import Plan
from sfumato.planning.regions import NAMES, feasible_epsilon, region, rows_where_projection_wins
from sfumato.privacy.guarantee import Guarantee
from sfumato.report.axes import log_range
from sfumato.report.figures import Figure, check_kind, write
from sfumato.report.numbers import number, relative
from sfumato.report.svg import COLOURS, Bars, Chosen, Mark, Plot, Trace, colour

_POINTS = 40  # of a curve over dimensions
_LISTED = 24  # releases whose mechanisms are named below their bars


# ---- plans ----------------------------------------------------------------------------------------------------------


def draw_plan(plan: Plan, path: str | Path) -> None:
    """Plot a plan: predicted error of the best sketches over dimension, and of the best options over distance."""
    check_kind(path)
    dimensions = over_dimension(plan)
    panels = (_over_scale(plan),) if dimensions is None else (dimensions, _over_scale(plan))
    write(Figure(plan.verdict, panels), path)


def shown_error(plan: Plan, option: Option) -> float:
    """The error that plots of plans show: how often a record is put into the wrong group, or the relative error."""
    if plan.purpose == "clustering":
        return option.errors.mistake(plan.distance)
    return option.relative_error(plan.distance)


def error_name(plan: Plan) -> str:
    """The axis name of the error that plots of plans show."""
    return "records in the wrong group" if plan.purpose == "clustering" else "standard error, relative"


def positive_points(points: Iterable[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """The points of a plan's plot that two logarithmic axes can show."""
    return tuple((float(x), float(y)) for x, y in points if 0 < x < math.inf and 1e-12 < y < math.inf)


def trace(points: Sequence[tuple[float, float]], name: str, style: str) -> Trace:
    """A curve for plots of plans, through points."""
    xs, ys = np.array(points, np.float64).T
    return Trace(xs, ys, name, style)


def over_dimension(plan: Plan) -> Plot | None:
    """Plot of a plan: errors of the best sketches at every dimension, beside mechanisms that have none.

    The plan's best option is marked.

    None where a plan has no sketch of records, only one dimension to choose from, or options that are ranked by what
    analysts find of similar records, not by these errors.
    """
    best = next((option for option in plan.options if option.family), None)
    if best is None or best.alike is not None or not plan.curves() or plan.request.widths.dim == 1:
        return None
    traces = _families(plan, best)
    if not traces:
        return None
    found = positive_points([(best.dimension, shown_error(plan, best))])
    point = next((Chosen(x, y, relative(y)) for x, y in found), None)
    others = {o.name: shown_error(plan, o) for o in reversed(plan.options) if not o.family}
    marks = tuple(Mark(level, name, down=False) for name, level in others.items() if 1e-12 < level < math.inf)
    told = "" if point is None else f": {point.text} at k {point.x:g}"
    return Plot(
        x_name="numbers per record, k",
        y_name=error_name(plan),
        title=f"Error over k, at {plan.noun} {number(plan.distance, 3)}",
        traces=traces,
        marks=marks,
        chosen=point,
        x_range=log_range(np.concatenate([[x for x, _ in found], *(t.xs for t in traces)])),
        y_range=error_range(traces, marks, point),
        log="xy",
        y_text=relative,
        label=f"Error over k{told}",
    )


def _families(plan: Plan, best: Option) -> tuple[Trace, ...]:
    """The curves in a plot of a plan: those with the least errors, that of the best sketch first and thicker."""
    request = replace(plan.request, dimension=None)
    beside = next((o for o in plan.options if o.family not in ("", "identity")), best)  # identity has only one k
    found: list[tuple[bool, float, str, tuple[tuple[float, float], ...]]] = []
    for curve in per_record.curves(request):
        kept = np.unique(np.geomspace(1, len(curve.shapes), _POINTS).astype(int)) - 1
        tried = [per_record.option_at(request, curve.guarantee, curve.errors[i]) for i in kept]
        points = positive_points((o.dimension, shown_error(plan, o)) for o in tried)
        other = (tried[0].family, tried[0].noise) != (beside.family, beside.noise)
        if points:
            found.append((other, min(y for _, y in points), curve.label, points))
    best_ones = sorted(found)[:COLOURS]
    return tuple(
        trace(points, label, f"{colour(i)}{'' if i else ' main'}") for i, (_, _, label, points) in enumerate(best_ones)
    )


def error_range(traces: Sequence[Trace], marks: Sequence[Mark], point: Chosen | None) -> tuple[float, float]:
    """The range of errors in a plot of a plan: much worse than the best curve, or better than the point, is cut off."""
    every = np.concatenate([[m.at for m in marks], *(t.ys for t in traces)])
    least, most = float(every.min()), float(every.max())
    if point is None:
        return max(least, most / 1000) / 1.2, most * 1.2
    low = max(min(least, point.y), point.y / 100)
    high = max(min(most, 1000 * low, 5 * float(traces[0].ys.max())), 2 * point.y)
    return low / 1.2, high * 1.2


def _over_scale(plan: Plan) -> Plot:
    scales = np.geomspace(plan.distance / 10, plan.distance * 10, 60)
    traces = []
    for place, option in enumerate(plan.options[:COLOURS]):
        name = " ".join(filter(None, (option.name, option.family, f"{option.dimension:,}", option.noise)))
        errors = np.array([option.relative_error(float(scale)) for scale in scales])
        traces.append(Trace(scales, errors, name, colour(place)))
    return Plot(
        x_name=plan.noun,
        y_name="standard error, relative",
        title="The best options at other scales",
        traces=tuple(traces),
        marks=(Mark(plan.distance, "planned"), Mark(1.0, "100%", down=False)),
        x_range=(float(scales[0]), float(scales[-1])),
        y_range=log_range([t.ys for t in traces]),
        log="xy",
        y_text=relative,
    )


# ---- regions and promises -------------------------------------------------------------------------------------------


def draw_regions(
    path: str | Path,
    *,
    columns: int,
    rows: int,
    guarantee: Guarantee,
    beside: Mapping[str, Callable[[float], float]] | None = None,
) -> None:
    """Plot standard errors of the three mechanisms over distance, and where projection beats noise on distances.

    ``beside``: other curves by their names, each the standard error at a distance.
    """
    check_kind(path)
    title = f"{columns:,} flags, {rows:,} records, epsilon {guarantee.epsilon:g}, delta {guarantee.delta:g}"
    distances = np.geomspace(1.0, np.sqrt(columns), 25) if columns > 1 else np.array([1.0, 1.0001])
    found = [region(float(r), columns=columns, rows=rows, guarantee=guarantee) for r in distances]
    curves = {name: np.array([here.error(name) for here in found]) for name in NAMES}
    traces = [Trace(distances**2, ys, name, colour(i)) for i, (name, ys) in enumerate(curves.items())]
    for i, (name, error) in enumerate((beside or {}).items()):
        kind = ("dotted", "dashed")[i % 2]
        traces.append(Trace(distances**2, np.array([error(float(r)) for r in distances]), name, f"reference {kind}"))
    traces.append(Trace(distances**2, distances**2, "the squared distance itself", "strong thin"))
    wins = [rows_where_projection_wins(columns=columns, distance=float(r), guarantee=guarantee) for r in distances]
    border = Trace(distances**2, np.array(wins, np.float64), "")
    errors = _over_squares("standard error", "Standard error by mechanism", traces)
    records = _over_squares("records", "A sketch beats noise on distances above this many records", [border])
    write(Figure(title, (errors, records)), path)


def _over_squares(y_name: str, title: str, traces: Sequence[Trace]) -> Plot:
    return Plot(
        x_name="squared distance",
        y_name=y_name,
        title=title,
        traces=tuple(traces),
        x_range=(float(traces[0].xs[0]), float(traces[0].xs[-1])),
        y_range=log_range([t.ys for t in traces]),
        log="xy",
    )


def draw_feasible(path: str | Path, scales: Sequence[float]) -> None:
    """Plot which (epsilon, delta) a scale of Gaussian noise gives: figure 1 of Kenthapadi et al."""
    check_kind(path)
    deltas = np.geomspace(1e-9, 0.3, 60)
    traces = []
    for place, scale in enumerate(scales):
        epsilons = np.array([feasible_epsilon(scale, float(d)) for d in deltas])
        traces.append(Trace(epsilons, deltas, f"sigma = {scale:g}", colour(place)))
    plot = Plot(
        x_name="epsilon",
        y_name="delta",
        traces=tuple(traces),
        x_range=(0.0, 1.03 * max(float(t.xs.max()) for t in traces)),
        y_range=(1e-9, 0.3),
        log="y",
    )
    write(Figure("What Gaussian noise promises at sensitivity 1", (plot,)), path)


# ---- budgets --------------------------------------------------------------------------------------------------------


def draw_spending(dataset: Dataset, path: str | Path) -> None:
    """Plot what was spent of a budget, release by release, under its first cap."""
    check_kind(path)
    shown = [spent for spent in dataset.releases if spent.state != "void"]
    named = (f"{entry.number} {untrusted.line(entry.mechanism, 40)}" for entry in shown)
    notes = f"Releases: {', '.join(named)}." if 0 < len(shown) <= _LISTED else ""
    plot = _spending(shown, dataset.caps[0].guarantee.epsilon)
    write(Figure(f"{dataset.name}: {dataset.caps[0].describe()}", (plot,), notes=notes), path)


def _spending(shown: Sequence[Spent], whole: float) -> Plot:
    """The plot of a budget: every release as a bar, its own epsilon; and as a step what all up to it had spent."""
    places = np.arange(1.0, len(shown) + 1)
    own = np.array([entry.guarantee.epsilon for entry in shown])
    spent = np.array([entry.totals[0].epsilon for entry in shown])
    added = np.cumsum([entry.charges[0].epsilon for entry in shown])
    reached = float(added[-1]) if shown and np.isfinite(added[-1]) else 0.0
    return Plot(
        x_name="releases by their entries in the ledger",
        y_name="epsilon",
        traces=(
            Trace(*_steps(places, spent), "spent in all"),
            Trace(*_steps(places, added), "epsilons added up", "reference dotted"),
        ),
        bars=(Bars(places, own, 0 * own, own, "each release by itself", width=min(30.0, 240 / max(1, len(shown)))),),
        marks=(Mark(whole, f"cap {number(whole)}", down=False),),
        x_range=(0.4, len(shown) + 0.6),
        y_range=(0.0, max(1.2 * whole, min(1.1 * reached, 3 * whole))),
        x_ticks=_entries([entry.number for entry in shown]),
        size=(760, 330),
    )


def _entries(numbers: Sequence[int]) -> tuple[tuple[float, str], ...]:
    """Ticks at the releases in the plot of a budget, as many as have room; a blank one where there are none."""
    every = max(1, -(-len(numbers) // _LISTED))
    found = [(i + 1.0, str(entry)) for i, entry in enumerate(numbers) if i % every == 0]
    return tuple(found) or ((0.5, ""),)


def _steps(xs: Floats, ys: Floats) -> tuple[Floats, Floats]:
    """A stepped curve for the plot of a budget: a step for each value, as wide as from one to the next."""
    return np.column_stack([xs - 0.5, xs + 0.5]).ravel(), np.repeat(ys, 2)


# ---- attacks --------------------------------------------------------------------------------------------------------


def draw_attacks(path: str | Path, title: str, curves: Sequence[Curve], *, across: int = 3) -> None:
    """Plot success of attacks over epsilon, for each measure and data, beside guessing, no protection, the bound."""
    check_kind(path)
    panels: dict[tuple[str, str], list[Curve]] = {}
    for curve in curves:
        panels.setdefault((curve.measure, curve.data), []).append(curve)
    write(Figure(title, tuple(map(_attacked, panels.values())), across), path)


def _attacked(curves: Sequence[Curve]) -> Plot:
    first = curves[0]
    epsilons = np.array([p.epsilon for p in first.points])
    low, high = log_range(epsilons)
    ends = np.array([low, high])
    one_attack, one_kind = (len({getattr(c, name) for c in curves}) == 1 for name in ("attack", "against"))
    traces, bars = [], []
    for place, curve in enumerate(curves):
        name = curve.against if one_attack else curve.attack if one_kind else f"{curve.attack}, {curve.against}"
        found, errors = (np.array([getattr(p, fact) for p in curve.points]) for fact in ("success", "error"))
        bars.append(Bars(epsilons, found, found - 2 * errors, found + 2 * errors, style=colour(place)))
        traces.append(Trace(epsilons, found, name, colour(place)))
        traces.append(Trace(ends, np.full(2, curve.unprotected), "", f"{colour(place)} thin dashed"))
    bounds = np.array([p.bound for p in first.points])
    traces += [
        Trace(epsilons, bounds, "privacy's bound", "strong", marker="triangle", joined=False),
        Trace(ends, np.full(2, first.chance), "guessing", "reference dotted"),
        Trace(ends[:0], ends[:0], "the same, unprotected", "reference thin dashed"),
    ]
    return Plot(
        x_name="epsilon",
        y_name=first.measure,
        title=f"{first.attack if one_attack else first.against}: {first.data}",
        traces=tuple(traces),
        bars=tuple(bars),
        x_range=(low, high),
        y_range=(-0.03, 1.05),
        x_ticks=_spaced(epsilons, low, high),
        log="x",
        size=(460, 310),
    )


def _spaced(epsilons: Floats, low: float, high: float) -> tuple[tuple[float, str], ...]:
    """Ticks at the epsilons in a plot of attacks, leaving out those that would touch the one before."""
    found: list[tuple[float, str]] = []
    for epsilon in sorted({float(e) for e in epsilons}):
        apart: Any = math.inf if not found else 390 * math.log(epsilon / found[-1][0]) / math.log(high / low)
        if apart > 4 * (len(f"{epsilon:g}") + len(found[-1][1]) if found else 0) + 8:
            found.append((epsilon, f"{epsilon:g}"))
    return tuple(found)
