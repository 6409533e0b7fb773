"""Exact choices: randomized response, coins of given weights, and integers of a uniform or geometric law.

Randomized response is the truth with probability e^epsilon / (e^epsilon + m - 1), else another of m answers.

How: the truth is told if U < t, for a uniform U given bit by bit and the threshold t = e^epsilon / (e^epsilon + m - 1),
whose bits are known from ball arithmetic. The first 64 bits settle it unless they are equal; then the next 64 bits of
both are compared, and so on. t is irrational (e^epsilon is, for every double epsilon but 0), so the comparison ends.
Another answer is one of m - 1 equally likely ones: a word below the largest multiple of m - 1 gives its remainder, any
other word is put aside and further bits are drawn.

Guarantee: each answer has exactly the probability stated, so the likelihood ratio of any answer under two truths is
exactly e^epsilon, 1 or e^-epsilon. No floating-point number takes part in a draw.
"""

import functools
from collections.abc import Callable

import numpy as np
from flint import arb
from numpy.typing import NDArray

from sfumato import check
from sfumato.numerics.balls import precision
from sfumato.randomness.stream import WordStream

Codes = NDArray[np.int64]

SMALLEST_EPSILON, LARGEST_EPSILON = 1e-9, 700.0
_WORD = 64
_CHUNK = 1 << 14  # draws at a time: the working set stays in a core's own cache


def respond(words: WordStream, codes: Codes, categories: int, epsilon: float) -> Codes:
    """Randomized response to true ``codes`` in 0 .. categories - 1, each drawn by itself; same shape."""
    check.whole(2, categories=categories)
    check.between(2, 1 << 31, categories=categories)
    check.positive(epsilon=epsilon)
    check.between(SMALLEST_EPSILON, LARGEST_EPSILON, epsilon=epsilon)
    truth = np.ascontiguousarray(codes, np.int64).ravel()
    out = np.empty_like(truth)
    for start in range(0, truth.size, _CHUNK):
        some = slice(start, start + _CHUNK)
        lies = ~_told(words, truth[some].size, categories, float(epsilon))
        # Words are drawn for every cell, so how many are used says nothing about the answers.
        step = 1 + uniform(words, truth[some].size, categories - 1)
        out[some] = np.where(lies, (truth[some] + step) % categories, truth[some])
    return out.reshape(codes.shape)


def coins(words: WordStream, steps: Codes, bits: int) -> Codes:
    """Random choice of 0 or 1, by itself in each cell: 1 with probability exactly steps / 2^bits, steps in 0 .. 2^bits.

    The result has the shape of ``steps``.

    The first ``bits`` bits of a word are a uniform number below 2^bits, which is compared with the steps: 0 gives 0 and
    2^bits gives 1, always. One word is drawn for every cell, whatever its steps.
    """
    check.whole(1, bits=bits)
    check.between(1, 62, bits=bits)
    drawn = words.draw(steps.size).view(np.uint64) >> np.uint64(_WORD - bits)
    return np.asarray(drawn.astype(np.int64).reshape(steps.shape) < steps, np.int64)


def _told(words: WordStream, size: int, categories: int, epsilon: float) -> NDArray[np.bool_]:
    """Randomized response: which cells tell the truth."""
    first = words.position
    drawn = words.draw(size).view(np.uint64)
    bits = functools.partial(threshold_bits, categories, epsilon)

    def settle(i: int) -> bool:
        return below(functools.partial(words.more, first + i), bits)

    return told_of(drawn, bits(0), settle)


def told_of(drawn: NDArray[np.uint64], leading: int, settle: Callable[[int], bool]) -> NDArray[np.bool_]:
    """Randomized response: words below the leading bits of the threshold; equal ones are settled by further bits."""
    told = drawn < np.uint64(leading)
    for i in np.flatnonzero(drawn == np.uint64(leading)):
        told[i] = settle(int(i))
    return told


def below(more: Callable[[int], int], bits: Callable[[int], int]) -> bool:
    """Whether a choice's uniform U < t, if their first 64 bits agree.

    ``more(turn)`` are further bits of U, ``bits(turn + 1)`` of t.
    """
    turn = 0
    while (further := more(turn)) == (wanted := bits(turn + 1)):
        turn += 1
    return further < wanted


@functools.lru_cache(maxsize=1 << 12)
def threshold_bits(categories: int, epsilon: float, turn: int) -> int:
    """Bits 64 * turn to 64 * turn + 63 of t = e^epsilon / (e^epsilon + categories - 1) in randomized response."""
    end = _WORD * (turn + 1)
    extra = 64
    while True:
        with precision(end + extra):
            # 1 / (1 + (m - 1) e^-epsilon): the same number, with nothing large in it
            t = 1 / (1 + (categories - 1) * (-arb(epsilon)).exp())
            whole = (t * arb(2) ** end).floor().unique_fmpz()
        if whole is not None:
            return int(whole) & ((1 << _WORD) - 1)
        extra *= 2


def uniform(words: WordStream, size: int, count: int) -> Codes:
    """Random choice of integers in 0 .. count - 1, all exactly equally likely.

    One word is drawn for each, and further bits where it is put aside.
    """
    if count == 1:
        return np.zeros(size, np.int64)
    first = words.position
    drawn = words.draw(size).view(np.uint64)
    return uniform_of(drawn, count, lambda i, turn: words.more(first + i, turn))


def uniform_of(drawn: NDArray[np.uint64], count: int, more: Callable[[int, int], int]) -> Codes:
    """Uniform choice by words: remainders of words below the largest multiple of ``count``.

    ``more(i, turn)`` replaces a word that is not.
    """
    end = (1 << _WORD) - (1 << _WORD) % count
    out = (drawn % np.uint64(count)).astype(np.int64)
    for i in np.flatnonzero(drawn > np.uint64(end - 1)):
        turn = 0
        while (further := more(int(i), turn)) >= end:
            turn += 1
        out[i] = further % count
    return out


def geometric(words: WordStream) -> int:
    """Random choice of 0, 1, 2, ... with probabilities 1/2, 1/4, 1/8, ...: low bits of a word that are 0 before a 1.

    Exact up to 63, but for the word of zeros, which has probability 2^-64 and gives 0.
    """
    word = int(words.draw(1)[0])
    return (word & -word).bit_length() - 1 if word else 0
