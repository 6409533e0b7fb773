"""Ball arithmetic: numbers that know their own error (FLINT's ``arb``).

A ball is a midpoint and a radius that is proved to hold the true value. Everything here is correct at any working
precision; precision only decides how small the balls are. FLINT keeps its precision in one global place, so it is
set under a lock, and a thread that interferes can make a result wider but never wrong.
"""

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import flint
from flint import arb

_LOCK = threading.RLock()


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Ball arithmetic with ``bits`` bits of precision inside the block."""
    with _LOCK, flint.ctx.workprec(bits):
        yield


def upper(ball: arb) -> float:
    """The least convenient double that is at least every number in the ball."""
    bound = float(ball.upper())
    return math.inf if math.isnan(bound) else math.nextafter(bound, math.inf)
