"""Bisection of many numbers at once."""

from collections.abc import Callable

import numpy as np

from sfumato.numerics.types import Bools, Floats


def bisected(below: Callable[[Floats], Bools], low: Floats, high: Floats, rounds: int) -> tuple[Floats, Floats]:
    """Bisection, each entry by itself: two close numbers between which a condition, true at ``low``, becomes false."""
    for _ in range(rounds):
        middle = np.asarray((low + high) / 2)
        holds = below(middle)
        low, high = np.where(holds, middle, low), np.where(holds, high, middle)
    return low, high


def crossings(excess: Callable[[Floats], Floats], count: int, start: float, rounds: int = 40) -> Floats:
    """Bisection of a falling function: where it crosses 0, for many at once, between start/8 and 8 start or beyond."""
    low, high = np.full(count, start / 8), np.full(count, start * 8)
    while (excess(high) > 0).any():
        high *= 4
    for _ in range(rounds):
        middle = np.sqrt(low * high)
        above = excess(middle) > 0
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return high
