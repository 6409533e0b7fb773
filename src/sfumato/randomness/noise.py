"""Exact noise in whole numbers: floor(eta + 1/2) for eta ~ Laplace(b) or N(0, s^2), and the discrete Laplace law.

None of the laws has a rounding error.

How: the noise is a function of random real numbers U (uniform), given bit by bit. The first bits give a double
approximation of eta with a proved error radius (the *filter*). Unless eta lies within that radius of a half-integer,
its rounding is settled. Otherwise ball arithmetic evaluates the same function on the same bits and draws further bits
of the same U until the rounding is certain (the *refinement*). The result is exactly floor(eta + 1/2) of the ideal law.

Guarantee: adding it to an integer y gives floor(y + eta + 1/2), which is post-processing of the textbook mechanism,
so its theorem holds unchanged, pure epsilon included. Attacks on the low bits of floating-point noise (Mironov 2012)
have nothing to see.

Error radius. A random word w is made odd, so that |w| * 2^-63 is the middle of one of 2^62 intervals of U, of half
width 2^-63, and the sign of w is an independent fair bit. u denotes the double |w| * 2^-63.

1. w to double: relative error 2^-53. Scaling by 2^-63 and taking |.| are exact. With the interval's half width, for
   u >= 2^-60, |ln U - ln u| <= 2^-52 + 2^-62/u.
2. log, sin, cos: NumPy promises 4 units in the last place (2^-50 relative) and glibc less than 1. We *assume* twice
   that, 2^-49 (relative for log, absolute for sin and cos): the one assumption about floating point here. It is
   measured on hundreds of points before the first draw (``check_platform``).
3. Each multiplication and square root: relative 2^-53.

Laplace, eta = -b ln U: radius b * (|ln u| * 2^-48 + 2^-52 + 2^-62/u).
Gaussian, eta = s * sqrt(-2 ln U) * cos(pi V), and sin for its twin: with e = |ln u| * 2^-49 + 2^-52 + 2^-62/u, the
length R has error s * (sqrt(2) e / sqrt|ln u| + 2^-51 sqrt(2|ln u|)); the angle pi V has error below 2^-49 (three
roundings of a number below pi, and the interval of V), so cos and sin err by at most 2^-48. Radius: their sum, R's
error + R * 2^-48 + |eta| * 2^-53.

While 2^-20 <= u and |ln u| >= 2^-20 all of these are below scale * 2^-41, so one comparison with a constant settles
whole chunks; draws outside that region, or close to a half-integer, are looked at one by one.

Discrete Laplace, k with probability (1 - q) / (1 + q) * q^|k|, q = e^(-1/b): a fair sign times floor(-b ln U + c) with
c = b ln(2 / (1 + q)) = 1/2 - b ln cosh(1/(2b)). Proof: for whole k >= 1 this is at least k where U <= e^((c - k)/b) =
2 q^k / (1 + q), the sum of both tails of the law; and 0 <= c < 1/2, as 1 <= cosh(x) < e^x, so k = 0 takes the rest.
So |k| <= floor(|eta| + 1/2) for the eta of the same word: it is never farther out than rounded Laplace noise.
Guarantee: added to integers that move by whole numbers, D in all, the ratio of two probabilities is at most
q^-D = e^(D/b) in every outcome, by the triangle inequality: pure epsilon = D/b, for the double b exactly.
Radius: that of eta, and 2^-52 + |eta| 2^-52 for c, its sum with eta, and what is compared. In the easy region, and for
b >= 2^-10, all of it is below b * 2^-40.
"""

import functools
import math
import threading
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from flint import arb
from numpy.typing import NDArray

from sfumato import check
from sfumato.errors import SfumatoError
from sfumato.numerics.balls import precision
from sfumato.numerics.types import Floats, Integers, Order
from sfumato.randomness.stream import WordStream

SMALLEST_SCALE, LARGEST_SCALE = 2.0**-10, 2.0**40
_LARGEST_DRAW = 1 << 61
_CHUNK = 1 << 17  # draws at a time: in the cache, and long enough that threads do not wait for the interpreter
_PAIRED = 1 << 18  # the same of Gaussian ones, which are made in pairs, so that another length would be other draws

_TO_UNIT = 2.0**-63
_RADIUS = 2.0**-41  # of the filter, in units of the scale, inside the easy region
_OFFSET_RADIUS = 2.0**-40  # the same for the discrete law
_EASY_LOG = 13.5  # easy region: |ln u| <= 13.5 (u > 2^-20) and, for Gaussian, |ln u| >= 2^-19
_EASY_LENGTH = (2.0**-9, 5.19)  # the same for R = sqrt(2 |ln u|)
_OVER = 1 + 2.0**-40  # more than the rounding of one product
_ASSUMED_ERROR = 2.0**-49
_MEASURING = threading.Lock()


def laplace(words: WordStream, size: int, laplace_scale: float) -> Integers:
    """Exact rounded noise: ``size`` independent floor(eta + 1/2), eta ~ Laplace(laplace_scale), in lattice steps."""
    laplace_scale = _check(size, laplace_scale=laplace_scale)
    out = np.empty(size, np.int64)
    buffer, x, y = np.empty(_CHUNK, np.int64), np.empty(_CHUNK), np.empty(_CHUNK)
    for start in range(0, size, _CHUNK):
        count = min(_CHUNK, size - start)
        more = functools.partial(_more, words, words.position)
        words.fill(buffer[:count])
        laplace_chunk(buffer[:count], laplace_scale, x[:count], y[:count], out[start : start + count], more)
    return out


def gaussian(words: WordStream, size: int, scale: float) -> Integers:
    """Exact rounded noise: ``size`` independent floor(eta + 1/2), eta ~ N(0, scale^2), in lattice steps."""
    scale = _check(size, scale=scale)
    out = np.empty(size, np.int64)
    buffer, scratch = np.empty(_PAIRED, np.int64), np.empty((4, _PAIRED // 2))
    for start in range(0, size, _PAIRED):
        count = min(_PAIRED, size - start)
        pairs = (count + 1) // 2
        more = functools.partial(_more, words, words.position)
        words.fill(buffer[: 2 * pairs])
        gaussian_chunk(buffer[: 2 * pairs], scale, scratch[:, :pairs], out[start : start + count], more)
    return out


def discrete_laplace(words: WordStream, size: int, laplace_scale: float) -> Integers:
    """Exact noise: ``size`` independent whole numbers k with probability in proportion to exp(-|k| / laplace_scale)."""
    laplace_scale = _check(size, laplace_scale=laplace_scale)
    out = np.empty(size, np.int64)
    buffer = np.empty(min(_CHUNK, size), np.int64)
    for start in range(0, size, _CHUNK):
        count = min(_CHUNK, size - start)
        more = functools.partial(_more, words, words.position)
        words.fill(buffer[:count])
        out[start : start + count] = discrete_chunk(buffer[:count], laplace_scale, more)
    return out


def _more(words: WordStream, first: int, i: int, turn: int) -> int:
    return words.more(first + i, turn)


def _check(size: int, **scale: float) -> float:
    check.whole(0, size=size)
    check.positive(**scale)
    check.between(SMALLEST_SCALE, LARGEST_SCALE, **scale)
    check_platform()
    (value,) = scale.values()
    return float(value)


More = Callable[[int, int], int]


def laplace_scale(move: int, epsilon: float) -> float:
    """The least Laplace scale b, a double, with move / b <= epsilon; decided exactly."""
    scale = move / epsilon
    while Fraction(move) > Fraction(scale) * Fraction(epsilon):
        scale = math.nextafter(scale, math.inf)
    return scale


def deviation(order: Order, scale: float) -> float:
    """The standard deviation of Laplace noise (order 1) or Gaussian noise (order 2) of this scale."""
    return scale * (math.sqrt(2) if order == 1 else 1.0)


def laplace_chunk(words: Integers, b: float, x: Floats, y: Floats, out: Integers, more: More) -> None:
    """Turn words into Laplace draws, in place; ``more(i, turn)`` gives further bits of word i."""
    np.bitwise_or(words, 1, out=words)
    np.copyto(x, words, casting="unsafe")
    np.multiply(x, _TO_UNIT, out=y)
    np.abs(y, out=y)
    np.log(y, out=y)
    np.multiply(y, b, out=y)
    easy = float(y.min()) > -_EASY_LOG * b
    np.copysign(y, x, out=y)
    np.rint(y, out=x)
    np.copyto(out, x, casting="unsafe")
    np.subtract(y, x, out=x)
    np.abs(x, out=x)
    certain = 0.5 - _RADIUS * b
    if not (easy and float(x.max()) < certain):
        hard = np.flatnonzero(~(x < certain) if easy else ~((x < certain) & (np.abs(y) < _EASY_LOG * b)))
        for i in hard[_unsettled(x[hard], _laplace_radius(words[hard], y[hard], b))].tolist():
            out[i] = exact_laplace(int(words[i]), b, functools.partial(more, i))


def _laplace_radius(words: Integers, eta: Floats, b: float) -> Floats:
    """Error radius of each Laplace draw; infinite where nothing is promised."""
    u = np.abs(words.astype(np.float64)) * _TO_UNIT
    return np.where(u >= 2.0**-60, np.abs(eta) * 2.0**-48 + b * (2.0**-52 + 2.0**-62 / u), np.inf)


def discrete_chunk(words: Integers, b: float, more: More) -> Integers:
    """Words as draws of the discrete Laplace law; ``more(i, turn)`` gives further bits of word i."""
    np.bitwise_or(words, 1, out=words)
    u = np.abs(words.astype(np.float64)) * _TO_UNIT
    eta = -b * np.log(u)
    raised = eta + _offset(b)
    whole = np.floor(raised)
    out = np.where(words < 0, -whole, whole).astype(np.int64)
    gap = np.minimum(raised - whole, whole + 1.0 - raised)
    hard = np.flatnonzero(~((gap > _OFFSET_RADIUS * b) & (eta < _EASY_LOG * b)))
    radius = _laplace_radius(words[hard], eta[hard], b) + (1 + eta[hard]) * 2.0**-52
    for i in hard[~(gap[hard] > radius)].tolist():
        out[i] = exact_discrete_laplace(int(words[i]), b, functools.partial(more, i))
    return out


@functools.lru_cache(maxsize=1024)
def _offset(b: float) -> float:
    """The c of the discrete Laplace law as a double, right to 2^-53."""
    with precision(256):
        return float(_exact_offset(b))


def _exact_offset(b: float) -> arb:
    """The c of the discrete Laplace law as a ball: 1/2 - b ln cosh(1/(2b))."""
    return arb(0.5) - arb(b) * (1 / (2 * arb(b))).cosh().log()


def gaussian_chunk(words: Integers, scale: float, scratch: Floats, out: Integers, more: More) -> None:
    """Turn pairs of words into Gaussian draws: cosines first, then as many sines as are wanted."""
    length, angle, eta, gap = scratch
    pairs = length.size
    np.bitwise_or(words, 1, out=words)
    np.copyto(length, words[:pairs], casting="unsafe")
    np.multiply(length, _TO_UNIT, out=length)
    np.abs(length, out=length)
    np.log(length, out=length)
    np.multiply(length, -2.0, out=length)
    np.sqrt(length, out=length)
    low, high = float(length.min()), float(length.max())
    certain = 0.5 - _RADIUS * scale
    easy = low > _EASY_LENGTH[0] and high < _EASY_LENGTH[1] and certain > 0
    np.multiply(length, scale, out=length)
    np.copyto(angle, words[pairs:], casting="unsafe")
    np.multiply(angle, math.pi * _TO_UNIT, out=angle)
    for function, part in ((np.cos, slice(0, pairs)), (np.sin, slice(pairs, out.size))):
        wanted = len(range(*part.indices(out.size)))
        function(angle, out=eta)
        np.multiply(eta, length, out=eta)
        np.rint(eta, out=gap)
        np.copyto(out[part], gap[:wanted], casting="unsafe")
        np.subtract(eta, gap, out=gap)
        np.abs(gap, out=gap)
        if not (easy and float(gap.max()) < certain):
            plain = (length > _EASY_LENGTH[0] * _OVER * scale) & (length < _EASY_LENGTH[1] / _OVER * scale)
            hard = np.flatnonzero(~((gap < certain) & plain)[:wanted])
            radius = _gaussian_radius(words[hard], eta[hard], length[hard], scale)
            for i in hard[_unsettled(gap[hard], radius)].tolist():
                settled = exact_gaussian(
                    int(words[i]),
                    int(words[pairs + i]),
                    scale,
                    part.start > 0,
                    functools.partial(more, i),
                    functools.partial(more, pairs + i),
                )
                out[part.start + i] = settled


def _gaussian_radius(words: Integers, eta: Floats, length: Floats, scale: float) -> Floats:
    """Error radius of each Gaussian draw; infinite where nothing is promised."""
    u = np.abs(words.astype(np.float64)) * _TO_UNIT
    log = (length / scale) ** 2 / 2
    safe = np.maximum(log, 2.0**-40)
    log_error = safe * 2.0**-49 + 2.0**-52 + 2.0**-62 / u
    radius = (
        scale * (math.sqrt(2) * log_error / np.sqrt(safe) + 2.0**-51 * np.sqrt(2 * safe))
        + length * 2.0**-48
        + np.abs(eta) * 2.0**-53
    )
    return np.where((u >= 2.0**-60) & (log >= 2.0**-40), radius * 1.01, np.inf)


def _unsettled(gap: Floats, radius: Floats) -> NDArray[np.bool_]:
    """Draws of noise whose distance to the nearest half-integer is not certainly positive.

    ``gap``: to the nearest integer.
    """
    return np.asarray(~(gap < 0.5 - radius))


def exact_laplace(word: int, b: float, more: Callable[[int], int]) -> int:
    """A draw of rounded Laplace noise by ball arithmetic alone, with as many further bits as it takes."""
    return _settled(word, b, more, lambda _b: arb(0.5))


def exact_discrete_laplace(word: int, b: float, more: Callable[[int], int]) -> int:
    """A draw of the discrete Laplace law by ball arithmetic alone, with as many further bits as it takes."""
    return _settled(word, b, more, _exact_offset)


def _settled(word: int, b: float, more: Callable[[int], int], offset: Callable[[float], arb]) -> int:
    """A draw of noise, floor(-b ln U + offset) with the sign of the word, with as many further bits as it takes."""
    bits, position, turn = 62, abs(word) >> 1, 0
    while True:
        with precision(bits + 64):
            settled = _below(offset(b) - arb(b) * _interval(position, bits).log())
        if settled is not None:
            return -settled if word < 0 else settled
        position, bits, turn = position << 64 | more(turn), bits + 64, turn + 1


def exact_gaussian(
    length_word: int,
    angle_word: int,
    scale: float,
    sine: bool,
    more_length: Callable[[int], int],
    more_angle: Callable[[int], int],
) -> int:
    """A draw of rounded Gaussian noise by ball arithmetic alone.

    It takes as many further bits of both uniforms as needed.
    """
    bits, length, angle, turn = 62, abs(length_word) >> 1, abs(angle_word) >> 1, 0
    while True:
        with precision(bits + 64):
            turned = _interval(angle, bits)
            wave = turned.sin_pi() * (-1 if angle_word < 0 else 1) if sine else turned.cos_pi()
            settled = _below(arb(0.5) + arb(scale) * (-2 * _interval(length, bits).log()).sqrt() * wave)
        if settled is not None:
            return settled
        length, angle = length << 64 | more_length(turn), angle << 64 | more_angle(turn)
        bits, turn = bits + 64, turn + 1


def _interval(position: int, bits: int) -> arb:
    """The uniform behind a draw of noise, as far as its bits are known: the ball [position, position + 1] * 2^-bits."""
    return arb(2 * position + 1, 1) * arb(2) ** -(bits + 1)


def _below(raised: arb) -> int | None:
    """Noise in whole numbers: the floor of a ball, if all of the ball agrees on it."""
    if not raised.is_finite():
        return None
    settled = raised.floor().unique_fmpz()
    if settled is not None and abs(int(settled)) > _LARGEST_DRAW:
        raise OverflowError("a noise draw left the 64-bit range, which has probability below e^-(2^21)")
    return None if settled is None else int(settled)


def check_platform() -> None:
    """Measure this machine's log, sin and cos, which noise is made of, and refuse to draw if they are too inaccurate.

    They are measured against ball arithmetic.

    The error radius rests on them being right to 2^-49; they must show half of that on points spread over the range
    used, with clusters where such functions are at their weakest (log near 1, sin and cos near multiples of pi/2).
    """
    with _MEASURING:  # threads that come meanwhile wait for the result instead of measuring again
        _measure()


@functools.cache
def _measure() -> None:
    near = np.geomspace(2.0**-52, 0.25, 120)
    units = np.concatenate([np.geomspace(2.0**-62, 1.0, 400), 1 - near, 0.5 + near, np.array([2.0**-63])])
    turns = np.concatenate(
        [c + s * near for c in (-math.pi / 2, 0.0, math.pi / 2) for s in (-1, 1)]
        + [np.linspace(-math.pi, math.pi, 200)]
    )
    with precision(120):
        for name, points, relative in (("log", units, True), ("sin", turns, False), ("cos", turns, False)):
            computed = getattr(np, name)(points)
            for point, value in zip(points, computed, strict=True):
                truth = getattr(arb(float(point)), name)()
                allowed = _ASSUMED_ERROR / 2 * (abs(truth) if relative else 1)
                if not abs(truth - arb(float(value))) <= allowed:
                    raise SfumatoError(
                        f"numpy.{name} on this machine is less accurate than the proof of the noise assumes, "
                        "so nothing was drawn: use another NumPy build, and please report this one"
                    )
