"""Selecting one of many by integer scores, exactly: exponential mechanism, permute-and-flip, report-noisy-max.

Scores are whole numbers, and ``sensitivity`` is the most by which one unit can move any of them, in the same steps.
Rational scores are multiplied by a *public* common denominator first: one found from the scores would itself depend on
the data. All three are Pure(epsilon); none says by how much the winner won. ``monotone`` states that one unit moves all
scores in the same direction, as counts do where a record comes or goes, and never where one is replaced; it halves
what has to be paid.

Guarantee, with D and D' neighbours, s and s' their scores, d the sensitivity:

exponential       Pr[i] is in proportion to w_i = exp(epsilon s_i / (2 d)). Then w_i / w'_i <= e^(epsilon/2), and so is
                  the ratio of the totals, the other way round (McSherry and Talwar 2007). If scores only rise, one of
                  the two ratios is at most 1, and epsilon / d may stand where epsilon / (2 d) does.
permute-and-flip  Candidates in random order are taken with probability exp(epsilon (s_i - max s) / (2 d)), until one
                  is (McKenna and Sheldon 2020; never worse than the exponential mechanism). The order is independent
                  of the coins, so this is: toss all coins, then take one of the heads, all equally likely. It is the
                  law of the largest of s_i + exponential noise of mean 2 d / epsilon, and the proof below is one for
                  that noise as well: the logarithm of its tail falls by at most 1 / b for each step.
noisy maximum     The largest of s_i + Z_i with Z_i = floor(eta + 1/2), eta ~ Laplace(2 d / epsilon). Fix the noise of
                  all others and the order pi in which ties are settled: i wins if and only if Z_i >= t, t whole, and
                  t moves by at most 2 d between D and D', since the others' sums and s_i move by d each. As Pr[Z_i >=
                  t] = Pr[eta >= t - 1/2], it changes by at most e^(2 d / b) = e^epsilon: rounding to whole numbers
                  costs nothing, and neither do ties, pi being drawn without a look at the data. If scores only rise,
                  t moves by at most d (Dwork and Roth 2014, Claim 3.9).

No floating-point number takes part in a draw but the rate, which is rounded to the private side and then exact.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal, Protocol, get_args

import numpy as np
from flint import arb
from numpy.typing import NDArray

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.numerics.balls import precision
from sfumato.numerics.types import Integers
from sfumato.randomness import noise, randomized_choice
from sfumato.randomness.stream import WordStream

Method = Literal["exponential", "permute-and-flip", "noisy-max"]

_WORD = 64
_MANY = 4096  # scores from which on one is chosen by rejection
_TRIES = 1 << 14  # of a rejection, at a time
_UNSURE = 2.0**-40  # distance of a uniform from a chance within which doubles decide nothing


class Draws(WordStream, Protocol):
    """A stream with the draws that a selection is made of, each a method, so that whoever records it sees them."""

    def laplace(self, size: int, laplace_scale: float) -> Integers:
        """As ``noise.laplace``: what report-noisy-max draws."""

    def choose(self, scores: Sequence[int], rate: float, *, bits: int = 0) -> int:
        """As ``choose`` below: what the exponential mechanism draws."""

    def choose_repeated(self, scores: Integers, counts: Integers, rate: float) -> int:
        """As ``choose_repeated`` below: what the exponential mechanism draws over runs of equal scores."""

    def flip(self, scores: Sequence[int], rate: float) -> int:
        """As ``flip`` below: what permute-and-flip draws."""

    def uniform(self, size: int, count: int) -> Integers:
        """As ``randomized_choice.uniform``: how ties of a selection are settled."""


def select(
    words: Draws,
    scores: Sequence[int] | NDArray[np.int64],
    *,
    epsilon: float,
    sensitivity: int,
    monotone: bool = False,
    method: Method = "exponential",
) -> int:
    """Private selection: place of one score, a high one more likely. Guarantee: Pure(epsilon), as stated at the top."""
    check.one_of(get_args(Method), method=method)
    draw = {"exponential": exponential, "permute-and-flip": permute_and_flip, "noisy-max": noisy_max}[method]
    return draw(words, scores, epsilon=epsilon, sensitivity=sensitivity, monotone=monotone)


def exponential(
    words: Draws,
    scores: Sequence[int] | NDArray[np.int64],
    *,
    epsilon: float,
    sensitivity: int,
    monotone: bool = False,
) -> int:
    """The exponential mechanism. Guarantee: Pure(epsilon), as stated at the top."""
    return words.choose(_whole(scores), _rate(epsilon, sensitivity, monotone))


def choose(words: WordStream, scores: Sequence[int] | Integers, rate: float, *, bits: int = 0) -> int:
    """The exponential mechanism: an index with probability in proportion to exp(rate * score / 2^bits), exactly.

    A uniform U is compared with the cumulative probabilities, all of them balls; while U's interval and a ball overlap,
    U gets 64 more bits and the balls as many. Of very many scores one is chosen by rejection, which has the same law.
    """
    check.positive(rate=rate)
    if len(scores) > _MANY and not bits:
        return _accepted(words, np.asarray(scores, np.int64), rate)
    scores = _whole(scores)
    first = words.position
    known = int(words.draw(1).view(np.uint64)[0])
    return _inverted(known, functools.partial(words.more, first), scores, [1] * len(scores), rate, bits)


def _inverted(
    known: int, more: functools.partial[int], scores: Sequence[int], counts: Sequence[int], rate: float, bits: int
) -> int:
    """The exponential mechanism's index for a uniform that begins with ``known``, as many bits of it as it takes."""
    length = _WORD
    for turn in itertools.count():
        with precision(length + _WORD):
            low, high = (arb(end) / arb(2) ** length for end in (known, known + 1))
            ends = _cumulative(scores, counts, arb(rate) / arb(2) ** bits)
            if all(end <= low or end >= high for end in ends):
                return sum(1 for end in ends if end <= low)
        known, length = (known << _WORD) | more(turn), length + _WORD
    raise AssertionError  # unreachable: count() has no end


def choose_repeated(words: WordStream, scores: Integers, counts: Integers, rate: float) -> int:
    """The exponential mechanism over a list in which scores[i] stands counts[i] times, one run after another.

    The place in that list, with probability in proportion to exp(rate * score), exactly: a run by inversion, then a
    place within it, all equally likely. Doubles decide where the uniform is farther from all ends of runs than they err
    (2^-52 for each sum, and 2^-40 in all for exp, which *assumes* that exp is right to that); otherwise balls do.
    """
    check.positive(rate=rate)
    first = words.position
    known = int(words.draw(1).view(np.uint64)[0])
    ends = np.cumsum(counts * np.exp(-rate * (scores.max() - scores)))
    place = known * 2.0**-64 * ends[-1]
    run = min(int(np.searchsorted(ends, place)), len(scores) - 1)
    near = ends[max(run - 1, 0) : run + 1] - place
    if np.abs(near[: len(near) - (run == len(scores) - 1)]).min(initial=np.inf) <= ends[-1] * _erring(len(scores)):
        more = functools.partial(words.more, first)
        run = _inverted(known, more, _whole(scores), _whole(counts), rate, 0)
    within = randomized_choice.uniform(words, 1, int(counts[run]))[0]
    return int(counts[:run].sum() + within)


def _erring(runs: int) -> float:
    """How far doubles may be off in the cumulative probabilities of so many runs of a choice."""
    return runs * 2.0**-52 + _UNSURE


def _accepted(words: WordStream, scores: Integers, rate: float) -> int:
    """The exponential mechanism by rejection: uniform indices, until the coin of one shows heads.

    The coin of index i has chance exp(rate (score_i - max)), so the first that is taken has the law in proportion to
    these. Doubles decide where the uniform and the chance are 2^-40 apart, which *assumes* that exp is right to that;
    otherwise as many bits as it takes.
    """
    gaps = scores.max() - scores
    while True:
        places = randomized_choice.uniform(words, _TRIES, len(gaps))
        first = words.position
        drawn = words.draw(_TRIES).view(np.uint64)
        over = drawn * 2.0**-64 - np.exp(-rate * gaps[places])
        for i in np.flatnonzero(over < _UNSURE).tolist():
            more = functools.partial(words.more, first + i)
            if over[i] < -_UNSURE or _tossed(int(drawn[i]), int(gaps[places[i]]), rate, more):
                return int(places[i])


def _cumulative(scores: Sequence[int], counts: Sequence[int], rate: arb) -> list[arb]:
    """Cumulative probabilities of the exponential mechanism: where each index but the last ends on [0, 1]."""
    most = max(scores)
    weights = [(rate * (score - most)).exp() * count for score, count in zip(scores, counts, strict=True)]
    total = sum(weights, arb(0))
    return list(itertools.accumulate(weight / total for weight in weights))[:-1]


def permute_and_flip(
    words: Draws,
    scores: Sequence[int] | NDArray[np.int64],
    *,
    epsilon: float,
    sensitivity: int,
    monotone: bool = False,
) -> int:
    """Permute-and-flip. Guarantee: Pure(epsilon), as stated at the top."""
    return words.flip(_whole(scores), _rate(epsilon, sensitivity, monotone))


def flip(words: WordStream, scores: Sequence[int], rate: float) -> int:
    """Permute-and-flip at a rate: one of the heads among coins of probability exp(rate (score - max)).

    One word is drawn for each coin, whatever it shows.

    Guarantee: Pure(2 d rate) if one unit moves each score by at most d, and Pure(d rate) if all the same way.
    """
    most, first = max(scores), words.position
    drawn = words.draw(len(scores)).view(np.uint64).tolist()
    heads = [
        i
        for i, (word, score) in enumerate(zip(drawn, scores, strict=True))
        if _tossed(word, most - score, rate, functools.partial(words.more, first + i))
    ]
    return heads[int(randomized_choice.uniform(words, 1, len(heads))[0])]


def noisy_max(
    words: Draws,
    scores: Sequence[int] | NDArray[np.int64],
    *,
    epsilon: float,
    sensitivity: int,
    monotone: bool = False,
) -> int:
    """Report-noisy-max with Laplace noise. Guarantee: Pure(epsilon), as stated at the top."""
    plain, laplace_scale = _whole(scores), noisy_max_scale(epsilon, sensitivity, monotone=monotone)
    drawn = words.laplace(len(plain), laplace_scale).tolist()
    noisy = [score + z for score, z in zip(plain, drawn, strict=True)]
    most = max(noisy)
    best = [i for i, value in enumerate(noisy) if value == most]
    return best[int(words.uniform(1, len(best))[0])]


def noisy_max_scale(epsilon: float, sensitivity: int, *, monotone: bool = False) -> float:
    """The Laplace scale of report-noisy-max, rounded up."""
    check.positive(epsilon=epsilon)
    check.whole(1, sensitivity=sensitivity)
    return noise.laplace_scale((1 if monotone else 2) * int(sensitivity), epsilon)


def _rate(epsilon: float, sensitivity: int, monotone: bool) -> float:
    """Rate of a private selection: epsilon for each step that two scores can move apart, rounded down, exactly."""
    check.positive(epsilon=epsilon)
    check.whole(1, sensitivity=sensitivity)
    move = (1 if monotone else 2) * int(sensitivity)
    rate = epsilon / move
    while Fraction(rate) * move > Fraction(epsilon):
        rate = math.nextafter(rate, 0.0)
    check.positive(rate=rate)
    return rate


def _whole(scores: Sequence[int] | NDArray[np.int64]) -> list[int]:
    """Scores of a private selection as plain integers, so that nothing overflows."""
    array = np.asarray(scores)
    if array.ndim != 1 or not array.size or array.dtype.kind not in "iu":
        raise ParameterError(
            "scores must be a list of at least one 64-bit whole number: multiply rationals by a public denominator"
        )
    return [int(score) for score in array.tolist()]


def _tossed(word: int, gap: int, rate: float, more: functools.partial[int]) -> bool:
    """Whether a coin of permute-and-flip with chance exp(-rate * gap) shows heads, for a uniform that begins with word.

    exp(-rate * gap) is transcendental unless gap = 0, so that U and it differ after finitely many bits.
    """
    if gap == 0:
        return True
    leading = _bits(gap, rate, 0)
    return word < leading or (word == leading and randomized_choice.below(more, functools.partial(_bits, gap, rate)))


@functools.lru_cache(maxsize=1 << 14)
def _bits(gap: int, rate: float, turn: int) -> int:
    """Bits 64 * turn to 64 * turn + 63 of permute-and-flip's exp(-rate * gap), as an integer."""
    end, extra = _WORD * (turn + 1), 64
    while True:
        with precision(end + extra):
            whole = ((-arb(rate) * gap).exp() * arb(2) ** end).floor().unique_fmpz()
        if whole is not None:
            return int(whole) & ((1 << _WORD) - 1)
        extra *= 2
