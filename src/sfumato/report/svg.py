"""Pictures as SVG, by hand: axes, curves, bars, clouds of points, and heat maps as small PNG files within.

Colours are classes of the style sheet, so that one picture serves dark, light and paper.
"""

import base64
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sfumato import untrusted
from sfumato.numerics.types import Floats
from sfumato.report.html import Markup, join, tag, tick

WIDTH, HEIGHT = 560, 330
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 14, 14, 50
_LETTER = 9.5  # how wide one is, about
_POSITIVE, _NEGATIVE = (27, 108, 168), (200, 85, 61)


@dataclass(frozen=True, slots=True)
class Axis:
    """Values from ``low`` to ``high``, evenly or by their logarithms, laid out between two places."""

    low: float
    high: float
    start: float
    stop: float
    log: bool = False

    def place(self, values: Any) -> Any:
        """Where values lie, in the picture's units."""
        values = np.asarray(values, np.float64)
        if self.log:
            share = np.log(np.maximum(values, self.low * 1e-3) / self.low) / math.log(self.high / self.low)
        else:
            share = (values - self.low) / (self.high - self.low)
        return self.start + share * (self.stop - self.start)

    def ticks(self, wanted: int = 5) -> list[float]:
        """Round values: steps of 1, 2 or 5, or powers of ten."""
        if self.log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            powers = [10.0**p for p in range(first, last + 1, max(1, (last - first) // wanted))]
            if len(powers) > 2:
                return powers
            steps = [m * 10.0**p for p in range(first - 1, last + 1) for m in (1, 2, 5)]
            return [v for v in steps if self.low * 0.999 <= v <= self.high * 1.001]
        rough = (self.high - self.low) / wanted
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)
        count = math.floor(self.high / step + 1e-9)
        return [i * step for i in range(math.ceil(self.low / step - 1e-9), count + 1)]


@dataclass(frozen=True, slots=True)
class Line:
    """A curve with a name; ``style`` is a class of the style sheet."""

    xs: Floats
    ys: Floats
    name: str
    style: str = "c0"


@dataclass(frozen=True, slots=True)
class Bars:
    """Points, each with an interval."""

    xs: Floats
    ys: Floats
    lows: Floats
    highs: Floats
    name: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A place on an axis worth a line of its own: ``down`` is a vertical one."""

    at: float
    name: str
    down: bool = True


@dataclass(frozen=True, slots=True)
class Plot:
    """Curves or bars on two axes, and what is said of each point when it is touched."""

    x_name: str
    y_name: str
    lines: tuple[Line, ...] = ()
    bars: tuple[Bars, ...] = ()
    marks: tuple[Mark, ...] = ()
    told: tuple[str, ...] = ()
    first: int = 0  # which point is told of before any is touched
    x_range: tuple[float, float] = (0.0, 1.0)
    y_range: tuple[float, float] = (0.0, 1.0)
    log: bool = False
    whole: bool = False  # x counts things
    label: str = field(default="")

    @property
    def axes(self) -> tuple[Axis, Axis]:
        """Across and up."""
        across = Axis(*self.x_range, _LEFT, WIDTH - _RIGHT, self.log)
        return across, Axis(*self.y_range, HEIGHT - _BOTTOM, _TOP, self.log)

    def probe(self) -> dict[str, Any]:
        """Where the points lie and what is said of each, for the page's script."""
        across, up = self.axes
        shown = self.bars or self.lines
        ys = np.stack([np.clip(up.place(s.ys), _TOP, HEIGHT - _BOTTOM) for s in shown if len(s.ys) == len(self.told)])
        xs = across.place(shown[0].xs)
        return {"x": _short(xs), "y": [_short(y) for y in ys], "told": list(self.told), "first": self.first}


def _short(values: Floats) -> list[float]:
    return [round(float(v), 1) for v in np.atleast_1d(values)]


def draw(plot: Plot, name: str) -> Markup:
    """A plot as SVG, complete without any script."""
    across, up = plot.axes
    inside = [_grid(plot, across, up), *(_mark(m, i, across, up) for i, m in enumerate(plot.marks))]
    inside += [_curve(line, across, up) for line in plot.lines]
    inside += [_bars(bars, across, up) for bars in plot.bars]
    inside.append(tag("g", class_="probe", aria_hidden="true"))
    label = plot.label or f"{plot.y_name} against {plot.x_name}"
    clip = tag("clipPath", tag("rect", **_box()), id=f"{name}-clip")
    body = tag("g", *inside[1:], clip_path=f"url(#{name}-clip)")
    return tag(
        "svg",
        clip,
        inside[0],
        body,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        class_="plot",
        id=name,
        role="img",
        aria_label=label,
    )


def _box() -> dict[str, object]:
    return {"x": _LEFT, "y": _TOP, "width": WIDTH - _RIGHT - _LEFT, "height": HEIGHT - _BOTTOM - _TOP}


def _grid(plot: Plot, across: Axis, up: Axis) -> Markup:
    parts: list[object] = []
    floor = HEIGHT - _BOTTOM
    for value in up.ticks():
        y = round(float(up.place(value)), 1)
        parts.append(tag("line", x1=_LEFT, x2=WIDTH - _RIGHT, y1=y, y2=y, class_="grid"))
        parts.append(tag("text", tick(value), x=_LEFT - 8, y=y + 4, text_anchor="end"))
    for value in across.ticks():
        if plot.whole and value != round(value):
            continue
        x = round(float(across.place(value)), 1)
        parts.append(tag("line", x1=x, x2=x, y1=floor, y2=floor + 5, class_="axis"))
        parts.append(tag("text", tick(value), x=x, y=floor + 19, text_anchor="middle"))
    parts.append(tag("line", x1=_LEFT, x2=WIDTH - _RIGHT, y1=floor, y2=floor, class_="axis"))
    parts.append(
        tag("text", plot.x_name, x=(_LEFT + WIDTH - _RIGHT) / 2, y=HEIGHT - 8, text_anchor="middle", class_="name")
    )
    return join(*parts)


def _curve(line: Line, across: Axis, up: Axis) -> Markup:
    xs, ys = across.place(line.xs), up.place(line.ys)
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, np.clip(ys, -1e4, 1e4), strict=True))
    return tag("polyline", tag("title", line.name), points=points, class_=f"curve {line.style}")


def _bars(bars: Bars, across: Axis, up: Axis) -> Markup:
    parts = []
    lows, highs = (np.clip(up.place(v), -10, HEIGHT + 10) for v in (bars.lows, bars.highs))
    for x, y, low, high in zip(across.place(bars.xs), up.place(bars.ys), lows, highs, strict=True):
        parts.append(tag("line", x1=f"{x:.1f}", x2=f"{x:.1f}", y1=f"{low:.1f}", y2=f"{high:.1f}", class_="bar"))
        parts.append(tag("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=3.2, class_="dot"))
    return tag("g", *parts)


def _mark(mark: Mark, line: int, across: Axis, up: Axis) -> Markup:
    if not mark.down:
        y = round(float(up.place(mark.at)), 1)
        return join(
            tag("line", x1=_LEFT, x2=WIDTH - _RIGHT, y1=y, y2=y, class_="mark"),
            tag("text", mark.name, x=WIDTH - _RIGHT - 4, y=y - 6, text_anchor="end", class_="marked"),
        )
    x = round(float(across.place(mark.at)), 1)
    right = x + 6 + _LETTER * len(mark.name) < WIDTH
    return join(
        tag("line", x1=x, x2=x, y1=_TOP, y2=HEIGHT - _BOTTOM, class_="mark"),
        tag(
            "text",
            mark.name,
            x=x + (6 if right else -6),
            y=_TOP + 14 + 20 * line,
            text_anchor="start" if right else "end",
            class_="marked",
        ),
    )


def legend(names: Sequence[tuple[str, str]]) -> Markup:
    """Which colour is what: pairs of a class and a name."""
    return tag("ul", *(tag("li", tag("i", class_=style), name) for style, name in names), class_="legend")


def cloud(groups: Sequence[tuple[Floats, str]], names: tuple[str, str], label: str) -> Markup:
    """Points in the plane, one colour for each group: arrays of shape (points, 2) with a class."""
    points = np.concatenate([group for group, _ in groups])
    low, high = points.min(axis=0), points.max(axis=0)
    reach = float(max(high - low)) * 1.06 or 1.0
    middle = (low + high) / 2
    side = 380
    parts: list[object] = [tag("rect", x=0.5, y=0.5, width=side - 1, height=side - 1, class_="field")]
    for group, style in groups:
        placed = side / 2 + (group - middle) / reach * side * np.array([1, -1])
        path = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in placed)
        parts.append(tag("path", d=path, class_=f"cloud {style}"))
    parts.append(tag("text", names[0], x=side / 2, y=side + 18, text_anchor="middle", class_="name"))
    parts.append(tag("text", names[1], x=-side / 2, y=-8, transform="rotate(-90)", text_anchor="middle", class_="name"))
    return tag("svg", *parts, viewBox=f"-26 0 {side + 27} {side + 26}", class_="square", role="img", aria_label=label)


def heat(matrix: Floats, label: str, names: Sequence[str] = ()) -> Markup:
    """A matrix as a map: one colour above 0, another below, stronger farther from it."""
    side, rows = 380, len(matrix)
    name_room = min(150, 8 + 7 * max((min(len(n), 18) for n in names), default=0)) if names and rows <= 24 else 0
    image = base64.b64encode(_png(matrix)).decode()
    parts = [
        tag("rect", x=name_room, y=0, width=side, height=side, class_="field"),
        tag(
            "image",
            x=name_room,
            y=0,
            width=side,
            height=side,
            href=f"data:image/png;base64,{image}",
            class_="pixels",
            preserveAspectRatio="none",
        ),
    ]
    if name_room:
        for i, name in enumerate(names):
            y = (i + 0.5) * side / rows + 4
            parts.append(tag("text", shortened(name), x=name_room - 6, y=f"{y:.1f}", text_anchor="end", class_="small"))
    box = f"0 0 {side + name_room} {side + 1}"
    return tag("svg", *parts, viewBox=box, class_="square", role="img", aria_label=label)


def shortened(name: object, most: int = 18) -> str:
    """A name that fits beside a picture."""
    text = untrusted.marked(name)
    return text if len(text) <= most else text[: most - 1] + "\u2026"


def _png(matrix: Floats) -> bytes:
    """A picture of a matrix, transparent at 0; largest entries are fully coloured."""
    most = float(np.abs(matrix).max()) or 1.0
    share = np.abs(matrix) / most
    pixels = np.empty((*matrix.shape, 4), np.uint8)
    pixels[..., :3] = np.where((matrix >= 0)[..., None], _POSITIVE, _NEGATIVE)
    pixels[..., 3] = np.rint(255 * share)
    raw = b"".join(b"\0" + row.tobytes() for row in pixels)
    size = struct.pack(">IIBBBBB", matrix.shape[1], matrix.shape[0], 8, 6, 0, 0, 0)
    chunks = ((b"IHDR", size), (b"IDAT", zlib.compress(raw, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )
