"""Exact coins: heads with probability 1 / (1 + e^epsilon), which no double is.

How: heads if U < t for a uniform U given bit by bit and t = 1 / (1 + e^epsilon), whose bits come from ball arithmetic.
The first 64 bits settle it unless they are equal; then the next 64 bits of both are compared, and so on. t is
irrational (e^epsilon is, for every double epsilon but 0), so the comparison ends.

Guarantee: flipping a bit on heads is randomized response with a likelihood ratio of exactly e^epsilon. No
floating-point number takes part in a draw.
"""

import functools
from collections.abc import Callable

import numpy as np
from flint import arb
from numpy.typing import NDArray

from sfumato import check
from sfumato.ball import precision
from sfumato.secret import Words

SMALLEST_EPSILON, LARGEST_EPSILON = 1e-9, 40.0
_WORD = 64


def heads(words: Words, size: int, epsilon: float) -> NDArray[np.bool_]:
    """``size`` independent coins, each heads with probability exactly 1 / (1 + e^epsilon)."""
    check.whole(0, size=size)
    check.positive(epsilon=epsilon)
    check.between(SMALLEST_EPSILON, LARGEST_EPSILON, epsilon=epsilon)
    first = words.position
    drawn = words.draw(size).view(np.uint64)

    def settle(i: int) -> bool:
        return below(functools.partial(words.more, first + i), functools.partial(threshold, float(epsilon)))

    return compared(drawn, threshold(float(epsilon), 0), settle)


def compared(drawn: NDArray[np.uint64], leading: int, settle: Callable[[int], bool]) -> NDArray[np.bool_]:
    """Which words lie below the leading bits of t; those equal to them are settled by their further bits."""
    result: NDArray[np.bool_] = drawn < np.uint64(leading)
    for i in np.flatnonzero(drawn == np.uint64(leading)):
        result[i] = settle(int(i))
    return result


def below(more: Callable[[int], int], bits: Callable[[int], int]) -> bool:
    """Whether U < t once their first 64 bits agree; ``more(turn)`` are further bits of U, ``bits(turn + 1)`` of t."""
    turn = 0
    while (further := more(turn)) == (wanted := bits(turn + 1)):
        turn += 1
    return further < wanted


@functools.lru_cache(maxsize=1 << 8)
def threshold(epsilon: float, turn: int) -> int:
    """Bits 64 * turn to 64 * turn + 63 of t = 1 / (1 + e^epsilon), as a whole number."""
    end, extra = _WORD * (turn + 1), _WORD
    while True:
        with precision(end + extra):
            whole = (arb(2) ** end / (1 + arb(epsilon).exp())).floor().unique_fmpz()
        if whole is not None:
            return int(whole) & ((1 << _WORD) - 1)
        extra *= 2
