"""Pictures of one column: a histogram of a number or a date, bars for levels; one or two series side by side."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.numerics.types import Floats, Integers
from sfumato.report import svg
from sfumato.report.html import Markup, join, tag
from sfumato.report.numbers import percent
from sfumato.report.svg import Bars, Key, Plot, legend, shortened

MOST_BARS = 12  # levels of a picture
_TICKS = 6
_TOWERS = 4.0  # times as high as all others: a part that is cut off
_WIDTH, _ROW, _NAME, _NUMBERS = 560, 42, 180, 118  # of bars that lie: all of it, one level, names, and numbers


@dataclass(frozen=True, slots=True, eq=False)
class ShareSeries:
    """Shares of a column's parts in one table: ``name`` and style class, with half-lengths of error bars if any."""

    name: str
    shares: Floats
    style: str = "c0"
    errors: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ColumnPicture:
    """What a picture of a column shows: its parts by name (and, of an axis, their first values), and series."""

    title: str
    names: tuple[str, ...]
    starts: tuple[str, ...]
    series: tuple[ShareSeries, ...]
    said: Callable[[float], str] = percent
    measure: str = "share of rows"
    most: int = MOST_BARS  # levels that are drawn by themselves

    def drawn(self, name: str) -> Markup:
        """The picture as SVG with its legend; ``name`` is its id."""
        picture = svg.draw(self._histogram(), name) if self.starts else self._levels(name)
        keys = [Key(s.name, s.style, "bar") for s in self.series]
        return join(picture, legend(keys) if len(keys) > 1 else "")

    def _histogram(self) -> Plot:
        """Bars that stand: parts of a number or a date, and one for missing cells."""
        count, many = len(self.names), len(self.series)
        places, room = np.arange(count, dtype=float), 470 / count
        bars = []
        for place, series in enumerate(self.series):
            at = places + 0.5 + (place - (many - 1) / 2) * 0.42 * (many > 1)
            wide = max(1.5, room * (0.8 if many == 1 else 0.4))
            bars.append(Bars(at, series.shares, np.zeros(count), series.shares, style=series.style, width=max(wide, 4)))
            if series.errors is not None:
                low, high = series.shares - series.errors, series.shares + series.errors
                bars.append(Bars(at, series.shares, low, high, style="strong", width=1.5))
        return Plot(
            x_name=shortened(self.title, 40),
            y_name=self.measure,
            bars=tuple(bars),
            x_range=(0.0, float(count)),
            y_range=(0.0, 1.08 * self._top),
            x_ticks=self._ticks(),
            y_text=self.said,
            size=(560, 270),
            label=f"{self.title}: {self.measure} in each part",
        )

    @property
    def _reached(self) -> Floats:
        """How high each part of a picture reaches, with its error bar."""
        return np.asarray(np.max([s.shares + (0 if s.errors is None else s.errors) for s in self.series], axis=0))

    @property
    def _top(self) -> float:
        """How high a histogram is drawn: a part that towers above all others is cut off."""
        heights = np.sort(self._reached)[::-1]
        towers = len(heights) > 1 and heights[0] > _TOWERS * heights[1] > 0
        return max(1e-6, float(1.3 * heights[1] if towers else heights[0]))

    @property
    def cut_off(self) -> str:
        """A sentence on the part of a histogram that is higher than its picture; empty if there is none."""
        place = int(self._reached.argmax())
        if not self.starts or self._reached[place] <= self._top:
            return ""
        each = (f"{percent(s.shares[place])} ({s.name})" for s in self.series)
        return f"Higher than the picture: {self.names[place]} has {' and '.join(each)}."

    def _ticks(self) -> tuple[tuple[float, str], ...]:
        """Ticks at the first values of some parts, as many as have room, and at missing cells."""
        count, missing = len(self.starts), len(self.names) - len(self.starts)
        longest = max(map(len, self.starts))
        every = max(1, -(-count // max(2, min(_TICKS, 56 // (longest + 2)))))
        last = count - (every / 2 if missing else 0)
        found = [(float(i), self.starts[i]) for i in range(0, count, every) if i <= last]
        return (*found, *([(count + 0.5, "missing")] if missing else []))

    def _levels(self, name: str) -> Markup:
        """Bars that lie: the commonest levels with their shares, and one for the others."""
        names, series = self._common()
        most = max(1e-6, *(float((s.shares + (0 if s.errors is None else s.errors)).max()) for s in series))
        scale, thick = (_WIDTH - _NAME - _NUMBERS) / most, 16 if len(series) > 1 else 20
        parts: list[Markup] = []
        for row, level in enumerate(names):
            middle = row * _ROW + _ROW / 2
            parts.append(tag("text", shortened(level, 20), x=0, y=middle + 4))
            for place, one in enumerate(series):
                parts += _lying(
                    one, row, middle + (place - (len(series) - 1) / 2) * (thick + 1), thick, scale, self.said
                )
        parts.append(tag("line", x1=_NAME, x2=_NAME, y1=0, y2=len(names) * _ROW, class_="axis"))
        box = f"0 0 {_WIDTH} {len(names) * _ROW + 4}"
        said = f"{self.title}: {self.measure} of each"
        return tag("svg", *parts, viewBox=box, width=_WIDTH, class_="plot", id=name, role="img", aria_label=said)

    def _common(self) -> tuple[list[str], list[ShareSeries]]:
        """The commonest levels of all series together, in their order, and the others as one."""
        if len(self.names) <= self.most + 1:
            return list(self.names), list(self.series)
        total = np.sum([s.shares for s in self.series], axis=0)
        kept = np.sort(np.argsort(-total, kind="stable")[: self.most])
        rest = np.setdiff1d(np.arange(len(self.names)), kept)
        joined = [_shortened(s, kept, rest) for s in self.series]
        return [*(self.names[i] for i in kept), f"{len(rest):,} others"], joined


def _shortened(series: ShareSeries, kept: Integers, rest: Integers) -> ShareSeries:
    """The commonest levels of a picture, and all others as one, which has no error bar."""
    errors = None if series.errors is None else np.append(series.errors[kept], 0.0)
    together = np.append(series.shares[kept], series.shares[rest].sum())
    return ShareSeries(series.name, together, series.style, errors)


def _lying(
    series: ShareSeries, row: int, y: float, thick: int, scale: float, words: Callable[[float], str]
) -> Sequence[Markup]:
    """One bar of a picture's level, with its error bar and its number."""
    share, error = float(series.shares[row]), 0.0 if series.errors is None else float(series.errors[row])
    end = _NAME + max(share, 0.0) * scale
    places = {"x1": _NAME, "x2": f"{end:.1f}", "y1": f"{y:.1f}", "y2": f"{y:.1f}"}
    found = [tag("line", **places, stroke_width=thick, class_=f"bar {series.style}")]
    if error:
        ends = {"x1": f"{max(_NAME, end - error * scale):.1f}", "x2": f"{end + error * scale:.1f}"}
        found.append(tag("line", **(places | ends), stroke_width=1.5, class_="bar strong"))
    at = max(end, end + error * scale) + 6
    said = words(share) + (f" \u00b1 {words(error)}" if error else "")
    return [*found, tag("text", said, x=f"{at:.1f}", y=f"{y + 4:.1f}")]
