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
