"""Plots as SVG: axes, curves, points, bars and marks, with legends. Reports, the studio and ``--plot`` draw with it.

Colours are classes of one style sheet (``pictures.css``), so that one picture serves dark, light and paper. No script
is needed, and every text is escaped.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sfumato import untrusted
from sfumato.numerics.types import Floats
from sfumato.report.axes import Scale
from sfumato.report.html import Markup, join, packaged, tag
from sfumato.report.numbers import tick

COLOURS = 7  # classes c0 to c6 of the style sheet
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 20, 14, 50  # margins; the left one grows with the ticks
_LETTER = 8.0  # how wide one is, about
_LINE = 17  # from one line of text to the next


def style() -> str:
    """The style sheet of every SVG picture, with the colours of light and of dark pages."""
    return packaged("pictures.css")


def colour(place: int) -> str:
    """The style class of the first, second, ... colour of an SVG picture; they come round again."""
    return f"c{place % COLOURS}"


# ---- what a plot shows ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Trace:
    """A curve, or points where it is not ``joined``. ``style``: classes of the style sheet. No name, no key."""

    xs: Floats
    ys: Floats
    name: str
    style: str = "c0"
    marker: Literal["", "dot", "triangle"] = ""
    joined: bool = True

    @property
    def shape(self) -> Literal["line", "dot", "triangle"]:
        """What the curve looks like in a legend: a single point is no line."""
        return "line" if self.joined and len(self.xs) != 1 else self.marker or "dot"


@dataclass(frozen=True, slots=True)
class Bars:
    """Values, each with an interval; a bar chart where these begin at 0."""

    xs: Floats
    ys: Floats
    lows: Floats
    highs: Floats
    name: str = ""
    style: str = "c0"
    width: float = 2.0  # of a bar, in the picture's units


@dataclass(frozen=True, slots=True)
class Mark:
    """A place on an axis worth a line of its own: ``down`` is a vertical one."""

    at: float
    name: str
    down: bool = True


@dataclass(frozen=True, slots=True)
class Chosen:
    """The one point that a picture is about, with what is written beside it."""

    x: float
    y: float
    text: str


@dataclass(frozen=True, slots=True)
class Key:
    """An entry of a legend."""

    name: str
    style: str
    shape: Literal["line", "dot", "triangle", "bar"] = "dot"


@dataclass(frozen=True, slots=True)
class Plot:
    """Curves or bars on two axes. ``told``: what is said of each point when it is touched, ``first`` before that."""

    x_name: str
    y_name: str
    title: str = ""
    traces: tuple[Trace, ...] = ()
    bars: tuple[Bars, ...] = ()
    marks: tuple[Mark, ...] = ()
    chosen: Chosen | None = None
    told: tuple[str, ...] = ()
    first: int = 0
    x_range: tuple[float, float] = (0.0, 1.0)
    y_range: tuple[float, float] = (0.0, 1.0)
    log: Literal["", "x", "y", "xy"] = ""
    whole: bool = False  # x counts things
    x_ticks: tuple[tuple[float, str], ...] = ()  # instead of round ones
    y_text: Callable[[float], str] = tick
    size: tuple[int, int] = (560, 330)
    label: str = ""

    @property
    def axes(self) -> tuple[Scale, Scale]:
        """The axes across and up; what the ticks say has room on the left."""
        width, height = self.size
        up = Scale(*self.y_range, height - _BOTTOM, _TOP, "y" in self.log)
        left = max(_LEFT, 14 + _LETTER * max(len(self.y_text(value)) for value in up.ticks()))
        return Scale(*self.x_range, left, width - _RIGHT, "x" in self.log), up

    @property
    def keys(self) -> list[Key]:
        """The legend: curves and bars that have a name."""
        traces = [Key(t.name, t.style, t.shape) for t in self.traces if t.name]
        return traces + [Key(b.name, b.style, "bar") for b in self.bars if b.name]

    def probe(self) -> dict[str, Any]:
        """Where the points lie and what is said of each, for the page's script."""
        across, up = self.axes
        shown = self.bars or self.traces
        ys = [np.clip(up.place(s.ys), up.stop, up.start) for s in shown if len(s.ys) == len(self.told)]
        places = {"x": _short(across.place(shown[0].xs)), "y": [_short(y) for y in ys]}
        return places | {"told": list(self.told), "first": self.first, "top": up.stop, "floor": up.start}


def _short(values: Floats) -> list[float]:
    return [round(float(v), 1) for v in np.atleast_1d(values)]


def _at(value: Any) -> float:
    return round(float(value), 1)


# ---- drawing --------------------------------------------------------------------------------------------------------


def draw(plot: Plot, name: str, **place: object) -> Markup:
    """A plot as SVG, complete without any script; ``name`` is its id, ``place`` where it lies in a larger one."""
    across, up = plot.axes
    box = tag("rect", x=across.start, y=up.stop, width=across.stop - across.start, height=up.start - up.stop)
    inside = [*_marks(plot.marks, across, up)]
    inside += [_bars(bars, across, up) for bars in plot.bars]
    inside += [_trace(trace, across, up) for trace in plot.traces]
    return tag(
        "svg",
        tag("clipPath", box, id=f"{name}-clip"),
        *_grid(plot, across, up),
        tag("g", *inside, clip_path=f"url(#{name}-clip)"),
        "" if plot.chosen is None else _chosen(plot.chosen, across, up),
        tag("g", class_="probe", aria_hidden="true"),
        viewBox=f"0 0 {plot.size[0]} {plot.size[1]}",
        class_="plot",
        id=name,
        role="img",
        aria_label=plot.label or f"{plot.y_name} against {plot.x_name}",
        **({"width": plot.size[0]} | place),
    )


def _grid(plot: Plot, across: Scale, up: Scale) -> Iterator[Markup]:
    for value in up.ticks():
        y = _at(up.place(value))
        yield tag("line", x1=across.start, x2=across.stop, y1=y, y2=y, class_="grid")
        yield tag("text", plot.y_text(value), x=across.start - 8, y=y + 4, text_anchor="end")
    round_ones = ((v, tick(v)) for v in across.ticks() if not plot.whole or v == round(v))
    for value, text in plot.x_ticks or round_ones:
        x = _at(across.place(value))
        yield tag("line", x1=x, x2=x, y1=up.start, y2=up.start + 5, class_="axis")
        yield tag("text", text, x=x, y=up.start + 19, text_anchor="middle")
    yield tag("line", x1=across.start, x2=across.stop, y1=up.start, y2=up.start, class_="axis")
    middle = (across.start + across.stop) / 2
    yield tag("text", plot.x_name, x=middle, y=up.start + 42, text_anchor="middle", class_="name")


def _trace(trace: Trace, across: Scale, up: Scale) -> Markup:
    known = np.isfinite(trace.xs) & ~np.isnan(trace.ys)
    xs, ys = across.place(trace.xs[known]), np.clip(up.place(trace.ys[known]), -1e4, 1e4)
    parts: list[Markup] = [tag("title", trace.name)] if trace.name else []
    if trace.joined and len(xs) > 1:
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True))
        parts.append(tag("polyline", points=points, class_=f"curve {trace.style}"))
    marker = trace.marker or ("dot" if len(xs) == 1 else "")
    parts += [_marker(marker, x, y, trace.style) for x, y in zip(xs, ys, strict=True) if marker]
    return tag("g", *parts)


def _marker(shape: str, x: float, y: float, style: str) -> Markup:
    if shape == "triangle":
        path = f"M{x - 4.5:.1f} {y - 4:.1f}h9l-4.5 8z"
        return tag("path", d=path, class_=f"triangle {style}")
    return tag("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=3.2, class_=f"dot {style}")


def _bars(bars: Bars, across: Scale, up: Scale) -> Markup:
    parts = []
    lows, highs = (np.clip(up.place(v), -1e4, 1e4) for v in (bars.lows, bars.highs))
    for x, y, low, high in zip(across.place(bars.xs), up.place(bars.ys), lows, highs, strict=True):
        places = {"x1": f"{x:.1f}", "x2": f"{x:.1f}", "y1": f"{low:.1f}", "y2": f"{high:.1f}"}
        parts.append(tag("line", **places, stroke_width=bars.width, class_=f"bar {bars.style}"))
        if bars.width < 4:
            parts.append(_marker("dot", x, float(np.clip(y, -1e4, 1e4)), bars.style))
    return tag("g", *parts)


def _marks(marks: Sequence[Mark], across: Scale, up: Scale) -> Iterator[Markup]:
    yield from (_vertical(m, i, across, up) for i, m in enumerate(m for m in marks if m.down))
    above = up.start
    for mark in sorted((m for m in marks if not m.down and up.shows(m.at)), key=lambda m: m.at):
        y = _at(up.place(mark.at))
        above = min(y - 6, above - _LINE)  # labels of lines that lie close are stacked
        yield tag("line", x1=across.start, x2=across.stop, y1=y, y2=y, class_="mark")
        place = {"x": across.stop - 4, "y": max(above, up.stop + 12), "text_anchor": "end"}
        yield tag("text", mark.name, **place, class_="marked")


def _vertical(mark: Mark, line: int, across: Scale, up: Scale) -> Markup:
    x = _at(across.place(mark.at))
    right = x + 6 + 1.2 * _LETTER * len(mark.name) < across.stop
    place = {"x": x + (6 if right else -6), "y": up.stop + 14 + 20 * line, "text_anchor": "start" if right else "end"}
    return join(
        tag("line", x1=x, x2=x, y1=up.stop, y2=up.start, class_="mark"),
        tag("text", mark.name, **place, class_="marked"),
    )


def _chosen(point: Chosen, across: Scale, up: Scale) -> Markup:
    x, y = _at(across.place(point.x)), _at(up.place(point.y))
    right = x + 11 + 1.2 * _LETTER * len(point.text) < across.stop
    place = {
        "x": x + (11 if right else -11),
        "y": max(y - 11, up.stop + 12),
        "text_anchor": "start" if right else "end",
    }
    return join(tag("circle", cx=x, cy=y, r=7, class_="chosen"), tag("text", point.text, **place, class_="marked"))


# ---- around a plot --------------------------------------------------------------------------------------------------


def framed(plot: Plot, name: str, *below: object) -> Markup:
    """A plot as SVG in an HTML figure, with its title, its legend and what is said below."""
    above = plot.title or plot.y_name[:1].upper() + plot.y_name[1:]
    upward = tag("p", plot.y_name, class_="upward") if plot.title else ""
    return tag("figure", tag("h3", above), upward, draw(plot, name), legend(plot.keys), *below, class_="chart")


def legend(keys: Sequence[Key]) -> Markup:
    """The legend of an SVG plot in a page: which colour is what."""
    samples = ((tag("svg", sample(key), viewBox="0 0 26 12", aria_hidden="true"), key.name) for key in keys)
    return tag("ul", *(tag("li", *pair) for pair in samples), class_="legend") if keys else Markup("")


def sample(key: Key) -> Markup:
    """The SVG of a legend's key: what its line, point or bar looks like, 26 wide and 12 high."""
    if key.shape == "line":
        return tag("line", x1=1, x2=25, y1=6, y2=6, class_=f"curve {key.style}")
    if key.shape == "bar":
        return tag("line", x1=13, x2=13, y1=0, y2=12, stroke_width=9, class_=f"bar {key.style}")
    return _marker(key.shape, 13, 6, key.style)


def gauge(parts: Sequence[tuple[float, str]], label: str) -> Markup:
    """An SVG bar of how much of a whole is taken: shares from its beginning, the largest first, each with a class."""
    shares = (tag("rect", width=_at(1000 * min(max(s, 0.0), 1.0)), height=26, class_=kind) for s, kind in parts)
    room = tag("rect", width=1000, height=26, class_="room")
    box: dict[str, object] = {"viewBox": "0 0 1000 26", "preserveAspectRatio": "none", "class_": "gauge"}
    return tag("svg", room, *shares, **box, role="img", aria_label=label)


def shortened(name: object, most: int = 18) -> str:
    """A name cut to fit beside an SVG picture."""
    text = untrusted.marked(name)
    return text if len(text) <= most else text[: most - 1] + "\u2026"
