"""Axes of a picture: values, linear or logarithmic, laid out between two places, with round ticks."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

_MOST_TICKS = 6


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis: values from ``low`` to ``high``, evenly or by their logarithms, laid out between two places."""

    low: float
    high: float
    start: float
    stop: float
    log: bool = False

    def place(self, values: Any) -> Any:
        """Where values lie along the axis, in the picture's units."""
        values = np.asarray(values, np.float64)
        if self.log:
            share = np.log(np.maximum(values, self.low * 1e-3) / self.low) / math.log(self.high / self.low)
        else:
            share = (values - self.low) / (self.high - self.low)
        return self.start + share * (self.stop - self.start)

    def shows(self, value: float) -> bool:
        """Whether a value lies within the axis."""
        return self.low <= value <= self.high

    def ticks(self) -> list[float]:
        """A few round values for the ticks of the axis."""
        found = self._powers() if self.log else []
        return found if len(found) > 1 else self._steps()

    def _powers(self) -> list[float]:
        """Ticks of a logarithmic axis: multiples of powers of ten, or powers alone where there are many."""
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        found: list[float] = []
        for multiples in ((1, 2, 5), (1, 3), (1,)):
            every = (m * 10.0**d for d in decades for m in multiples)
            found = [v for v in every if self.low * 0.999 <= v <= self.high * 1.001]
            if len(found) <= _MOST_TICKS:
                return found
        return found[:: math.ceil(len(found) / _MOST_TICKS)]

    def _steps(self) -> list[float]:
        """Ticks of a linear axis: multiples of the least of 1, 2 or 5 times a power of ten of which there are few."""
        power = 10.0 ** math.floor(math.log10((self.high - self.low) / _MOST_TICKS))
        for step in (power, 2 * power, 5 * power, 10 * power, 20 * power):
            first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
            if last - first < _MOST_TICKS:
                break
        return [i * step for i in range(first, last + 1)]


def log_range(values: Any) -> tuple[float, float]:
    """The range of a logarithmic axis: that of the positive finite values, with some room."""
    values = np.asarray(values, np.float64).ravel()
    known = values[np.isfinite(values) & (values > 0)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (1.0, 1.0)
    return (low / 2, high * 2) if high < low * 1.001 else (low / 1.15, high * 1.15)
