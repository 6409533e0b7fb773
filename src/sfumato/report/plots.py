"""Plots, through matplotlib: as SVG, PNG, or one HTML file that needs nothing else."""

import html
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sfumato import untrusted
from sfumato.attacks.curves import Curve as AttackCurve
from sfumato.errors import MissingDependency, ParameterError
from sfumato.ledger.state import Dataset
from sfumato.planning.per_record import Curve
from sfumato.planning.planner import Plan
from sfumato.planning.regions import (
    NAMES,
    feasible_epsilon,
    region,
    rows_where_projection_wins,
)
from sfumato.privacy.guarantee import Guarantee

_SHOWN = 7  # curves in one picture
_COLOURS = ("#1b6ca8", "#c8553d", "#2a9d5c", "#8e5ea2", "#b08900", "#5a6572", "#d17ab0")


def draw_plan(plan: Plan, path: str | Path) -> None:
    """Predicted relative error of the best sketches over dimension, and of the best options over distance."""
    with figure(path, plan.verdict, (11.0, 4.4)) as picture:
        curves = plan.curves()
        axes = picture.subplots(1, 2 if curves else 1, squeeze=False)[0]
        if curves:
            _over_dimension(plan, curves, axes[0])
        _over_scale(plan, axes[-1])


def _over_dimension(plan: Plan, curves: Sequence[Curve], axes: Any) -> None:
    squared = plan.distance**2
    best = sorted(curves, key=lambda c: min(e.variance(squared) for e in c.errors))[:_SHOWN]
    for curve, colour in zip(best, _COLOURS, strict=False):
        relative = [np.sqrt(e.variance(squared)) / squared for e in curve.errors]
        marker = "o" if len(relative) == 1 else None
        axes.plot([s.dim_out for s in curve.shapes], relative, color=colour, marker=marker, label=curve.label)
    axes.set(xscale="log", yscale="log", xlabel="numbers per record", ylabel="standard error / squared distance")
    axes.set_title(f"at distance {plan.distance:.3g}")
    axes.legend(fontsize=7, frameon=False)


def _over_scale(plan: Plan, axes: Any) -> None:
    scales = np.geomspace(plan.distance / 10, plan.distance * 10, 60)
    for option, colour in zip(plan.options[:_SHOWN], _COLOURS, strict=False):
        label = " ".join(filter(None, (option.name, option.family, str(option.dimension), option.noise)))
        axes.plot(scales, [option.relative_error(float(r)) for r in scales], color=colour, label=label)
    axes.axvline(plan.distance, color="#999999", linewidth=0.8, linestyle=":")
    axes.axhline(1.0, color="#999999", linewidth=0.8, linestyle=":")
    axes.set(xscale="log", yscale="log", xlabel=plan.noun, ylabel="standard error, relative")
    axes.set_title("the same options at other scales")
    axes.legend(fontsize=7, frameon=False)


def draw_regions(path: str | Path, *, columns: int, rows: int, guarantee: Guarantee) -> None:
    """Standard errors of the three mechanisms over distance, and where projection beats noise on distances."""
    title = f"{columns:,} flags, {rows:,} records, epsilon {guarantee.epsilon:g}, delta {guarantee.delta:g}"
    distances = np.geomspace(1.0, np.sqrt(columns), 25)
    with figure(path, title, (11.0, 4.4)) as picture:
        errors, borders = picture.subplots(1, 2)
        found = [region(float(r), columns=columns, rows=rows, guarantee=guarantee) for r in distances]
        for name, colour in zip(NAMES, _COLOURS, strict=False):
            errors.plot(distances**2, [here.error(name) for here in found], color=colour, label=name)
        errors.plot(distances**2, distances**2, color="#000000", linewidth=0.8, label="the squared distance itself")
        errors.set(xscale="log", yscale="log", xlabel="squared distance", ylabel="standard error")
        errors.legend(fontsize=7, frameon=False)
        wins = [rows_where_projection_wins(columns=columns, distance=float(r), guarantee=guarantee) for r in distances]
        borders.plot(distances**2, wins, color=_COLOURS[0])
        borders.set(xscale="log", yscale="log", xlabel="squared distance", ylabel="records")
        borders.set_title("a sketch beats noise on distances above this many records", fontsize=9)


def draw_feasible(path: str | Path, scales: Sequence[float]) -> None:
    """Figure 1 of Kenthapadi et al., exactly: which (epsilon, delta) a scale of Gaussian noise gives."""
    deltas = np.geomspace(1e-9, 0.3, 60)
    with figure(path, "what Gaussian noise promises at sensitivity 1", (6.0, 4.4)) as picture:
        axes = picture.subplots()
        for scale, colour in zip(scales, _COLOURS, strict=False):
            exact = [feasible_epsilon(scale, float(d)) for d in deltas]
            axes.plot(exact, deltas, color=colour, label=f"sigma = {scale:g}")
        axes.set(yscale="log", xlabel="epsilon", ylabel="delta", xlim=(0, None))
        axes.legend(fontsize=7, frameon=False)


def draw_spending(dataset: Dataset, path: str | Path) -> None:
    """Every release as a step: its own epsilon, and what all up to it had spent, under the cap."""
    cap = dataset.caps[0]
    shown = [s for s in dataset.releases if s.state != "void"]
    with figure(path, f"{dataset.name}: {cap.describe()}", (8.0, 4.2)) as picture:
        axes, places = picture.subplots(), np.arange(1, len(shown) + 1)
        axes.bar(
            places, [s.guarantee.epsilon for s in shown], width=0.5, color="#b9d3e6", label="each release by itself"
        )
        axes.step(places, [s.totals[0].epsilon for s in shown], where="mid", color=_COLOURS[0], label="spent in all")
        added = np.cumsum([s.charges[0].epsilon for s in shown])
        axes.step(places, added, where="mid", color="#999999", linestyle=":", label="epsilons added up")
        axes.axhline(cap.guarantee.epsilon, color=_COLOURS[1], label="cap")
        axes.set(xlabel="releases, in order", ylabel="epsilon", ylim=(0, 1.25 * cap.guarantee.epsilon))
        names = [f"{untrusted.line(s.mechanism, 40)}\n{s.number}" for s in shown] if len(shown) <= 12 else None
        axes.set_xticks(places, names, fontsize=7, parse_math=False)
        axes.legend(fontsize=7, frameon=False)


def draw_attacks(path: str | Path, title: str, curves: Sequence[AttackCurve], *, across: int = 3) -> None:
    """Success against epsilon, a field for each measure and data, with guessing, no protection and the bound."""
    fields: dict[tuple[str, str], list[AttackCurve]] = {}
    for curve in curves:
        fields.setdefault((curve.measure, curve.data), []).append(curve)
    down, wide = -(-len(fields) // across), min(across, len(fields))
    with figure(path, title, (4.8 * wide, 4.3 * down)) as picture:
        axes = picture.subplots(down, wide, squeeze=False).ravel()
        for unused in axes[len(fields) :]:
            unused.set_axis_off()
        for some, place in zip(fields.values(), axes, strict=False):
            _attacked(place, some)


def _attacked(axes: Any, curves: Sequence[AttackCurve]) -> None:
    one_attack, one_kind = (len({getattr(c, name) for c in curves}) == 1 for name in ("attack", "against"))
    for curve, colour in zip(curves, _COLOURS, strict=False):
        label = curve.against if one_attack else curve.attack if one_kind else f"{curve.attack}, {curve.against}"
        epsilons = [p.epsilon for p in curve.points]
        errors = [2 * p.error for p in curve.points]
        axes.errorbar(epsilons, [p.success for p in curve.points], errors, color=colour, marker="o", ms=3, label=label)
        axes.axhline(curve.unprotected, color=colour, linestyle="--", linewidth=0.9)
    first = curves[0]
    axes.plot(
        epsilons, [p.bound for p in first.points], "v", color="#000000", ms=5, mfc="none", label="privacy's bound"
    )
    axes.axhline(first.chance, color="#777777", linestyle=":", label="guessing")
    axes.plot([], [], color="#5a6572", linestyle="--", linewidth=0.9, label="the same, unprotected")
    axes.set(xscale="log", xlabel="epsilon", ylabel=first.measure, ylim=(-0.03, 1.05))
    axes.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
    axes.minorticks_off()
    axes.set_title(f"{first.attack if one_attack else first.against}: {first.data}", fontsize=8)
    axes.legend(fontsize=7, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.17), ncol=2)


@contextmanager
def figure(path: str | Path, title: str, size: tuple[float, float]) -> Iterator[Any]:
    """A matplotlib figure that is written to ``path`` when the block ends: .svg, .png or .html."""
    kind = Path(path).suffix.lower().lstrip(".")
    if kind not in ("svg", "png", "html"):
        raise ParameterError(f"a picture is a file that ends in .svg, .png or .html, got {str(path)!r}")
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependency("plots need matplotlib: pip install 'sfumato[plot]'") from None
    with rc_context({"svg.hashsalt": "sfumato", "svg.fonttype": "none", "font.size": 9}):
        picture = Figure(figsize=size, layout="constrained")
        yield picture
        picture.suptitle(untrusted.line(title), fontsize=9, parse_math=False)  # a name may hold dollars
        if kind == "html":
            Path(path).write_text(_page(picture, title), encoding="utf-8")
        else:
            picture.savefig(path, dpi=130, metadata={"Date": None} if kind == "svg" else None)


def _page(picture: Any, title: str) -> str:
    drawn = io.StringIO()
    picture.savefig(drawn, format="svg", metadata={"Date": None})
    body = drawn.getvalue()
    body = body[body.index("<svg") :]
    safe = html.escape(title)
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{safe}</title>\n<p>{safe}</p>\n{body}</html>\n'
    )
