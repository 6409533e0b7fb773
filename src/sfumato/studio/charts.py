"""Pictures as plain numbers for the templates: curves on two logarithmic scales, with a chosen point."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 420, 280  # of the picture, in its own units
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 12, 44  # margins
_MOST_TICKS = 6


@dataclass(frozen=True, slots=True)
class Curve:
    """Points in order, with a name for people; the main one stands out."""

    label: str
    points: tuple[tuple[float, float], ...]
    main: bool = False


@dataclass(frozen=True, slots=True)
class Scale:
    """A logarithmic scale from numbers to places."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, number: float) -> float:
        """The place of a number."""
        share = math.log(number / self.low) / math.log(self.high / self.low)
        return round(self.start + share * (self.stop - self.start), 1)

    def ticks(self) -> list[float]:
        """A few round numbers."""
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for steps in ((1, 2, 5), (1, 3), (1,)):
            found = [s * 10.0**d for d in decades for s in steps if self.low <= s * 10.0**d <= self.high]
            if len(found) <= _MOST_TICKS:
                return found
        return found[:: math.ceil(len(found) / _MOST_TICKS)]


@dataclass(frozen=True, slots=True)
class Chart:
    """Curves, the chosen point, and level lines for what does not depend on x."""

    title: str
    across: str
    curves: tuple[Curve, ...]
    point: tuple[float, float] | None
    levels: tuple[tuple[str, float], ...] = ()

    @property
    def _points(self) -> list[tuple[float, float]]:
        return [] if self.point is None else [self.point]

    @property
    def _numbers(self) -> tuple[list[float], list[float]]:
        points = [p for curve in self.curves for p in curve.points] + self._points
        return [x for x, _ in points], [y for _, y in points] + [y for _, y in self.levels]

    @property
    def x(self) -> Scale:
        """Across."""
        numbers = self._numbers[0]
        return Scale(*_widened(min(numbers), max(numbers)), LEFT, WIDTH - RIGHT)

    @property
    def y(self) -> Scale:
        """Upwards; what is far worse than the main curves is cut off."""
        numbers = self._numbers[1]
        low = max(min(numbers), *(y / 100 for _, y in self._points)) if self._points else min(numbers)
        shown = [y for curve in self.curves if curve.main for _, y in curve.points] + [y for _, y in self._points]
        high = max([min(max(numbers), 1000 * low, 5 * max(shown or numbers)), *(2 * y for _, y in self._points)])
        return Scale(*_widened(low / 1.2, high * 1.2), HEIGHT - BOTTOM, TOP)

    def path(self, curve: Curve) -> str:
        """A curve as SVG draws it."""
        x, y = self.x, self.y
        return "M" + " L".join(f"{x(a):g} {y(b):g}" for a, b in curve.points)


def _widened(low: float, high: float) -> tuple[float, float]:
    return (low, high) if high > low * 1.001 else (low / 2, high * 2)


def share(number: float) -> str:
    """A relative error, for people."""
    if number >= 10:
        return f"{float(f'{number:.2g}'):,.0f}x" if number < 1e5 else f"{number:.0e}x"
    return f"{100 * number:.3g}%"


def finite(points: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Those that a logarithmic scale can show."""
    return tuple((x, y) for x, y in points if 0 < x < math.inf and 1e-12 < y < math.inf)
