"""The smallest level whose loss meets a guarantee.

A mechanism is a one-parameter family of losses that fall as the level grows (a noise scale, a ridge). One search
serves all of them: bracket by doubling, then narrow the bracket until its ends agree to one part in 2^40, and return
the upper end, which has been *checked*: its loss satisfies delta(epsilon) <= delta with no tolerance. Where the bracket
is narrowed is guided by the size of delta, which saves most of the evaluations; what is returned does not rest on it.
A mechanism whose loss takes a second to evaluate may offer a guess: a level close above it is checked first.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
import scipy

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Loss

_AGREE = 2.0**-40
_RANGE = 2.0**100
_MARGIN = 1 + 2.0**-11  # above a guess, so that it can be checked at once
_CLOSE = 0.02  # a delta this close below the wanted one, as a logarithm, is close enough for a guessed level


class Family(Protocol):
    """What calibration needs of a mechanism."""

    __slots__ = ()

    @property
    def guess(self) -> float | None:
        """About the least level of calibration, where a search by itself would take long; checked. None: search."""
        return None

    def loss(self, level: float) -> Loss:
        """The loss of a run at this level of noise; it falls as the level grows."""
        ...


F = TypeVar("F", bound=Family)


@dataclass(frozen=True, slots=True)
class Calibrated(Generic[F]):
    """A mechanism at a level that is proved to meet a guarantee. Only ``calibrate`` makes one."""

    mechanism: F
    guarantee: Guarantee
    level: float

    @property
    def loss(self) -> Loss:
        """What a run of the calibrated mechanism will cost."""
        return self.mechanism.loss(self.level)


def calibrate(mechanism: F, guarantee: Guarantee) -> Calibrated[F]:
    """Calibration: the mechanism at the least level that keeps the promise.

    Formal guarantee: the returned level satisfies mechanism.loss(level).delta(epsilon) <= delta, and delta() is
    itself never below the truth.
    """
    guess, terms = mechanism.guess, (mechanism.loss, guarantee.epsilon, guarantee.delta)
    level = least_level(*terms) if guess is None else near_level(*terms, guess)
    return Calibrated(mechanism, guarantee, level)


def near_level(loss: Callable[[float], Loss], epsilon: float, delta: float, guess: float) -> float:
    """Calibrated level a little above a guess, or the least one.

    A level a little above a guess if it keeps the promise with hardly anything to spare, else the least level.

    Formal guarantee: loss(level).delta(epsilon) <= delta, checked; the guess decides nothing else.
    """
    level = guess * _MARGIN
    if math.isfinite(level) and -_CLOSE < _excess(loss(level).delta(epsilon), delta) <= 0:
        return level
    return least_level(loss, epsilon, delta)


def replaced_guess(rows: int, epsilon: float, delta: float) -> float:
    """Guess for calibrating a ``ChiSquare`` that replaces.

    About the least level 1/s of a ``ChiSquare`` that replaces, by quadrature: a guide, no bound.

    The likelihood ratio depends on (1+s) A - B with independent chi-square A and B, whose law is summed over B. NaN
    where that finds nothing.
    """
    width = 9 * math.sqrt(2 * rows)
    b = np.linspace(max(1e-9, rows - width), rows + width + 40, 2001)
    density = np.exp((rows / 2 - 1) * np.log(b / rows) - (b - rows) / 2)
    density /= density.sum()

    def excess(log_level: float) -> float:
        s = math.exp(-log_level)
        t = 2 * (1 + s) * epsilon / s
        above, other = scipy.special.chdtrc(rows, (t + b) / (1 + s)), scipy.special.chdtrc(rows, t + (1 + s) * b)
        return float(density @ (above - math.exp(min(epsilon, 700.0)) * other)) - delta

    try:
        return math.exp(scipy.optimize.brentq(excess, -7.0, 40.0, rtol=1e-10))
    except ValueError:  # the same sign at both ends
        return math.nan


def least_level(loss: Callable[[float], Loss], epsilon: float, delta: float, start: float = 1.0) -> float:
    """Calibrated level: the least at which a loss satisfies (epsilon, delta).

    The least level (to one part in 2^40) with ``loss(level).delta(epsilon) <= delta``; always on that side.

    Least for the bound that ``delta`` computes: for composed losses that is limited by the grid of their PLDs.
    """
    check.positive(epsilon=epsilon)
    check.probability_below_one(delta=delta)
    wanted = f"epsilon={epsilon!r} and delta={delta!r}"
    return _least(lambda level: _excess(loss(level).delta(epsilon), delta), start, wanted)


def least_epsilon(loss: Loss, delta: float) -> float:
    """Calibrated epsilon: the least at which a loss satisfies (epsilon, delta).

    To one part in 2^40; always on the safe side.
    """
    check.probability_below_one(delta=delta)
    return _least(lambda epsilon: _excess(loss.delta(epsilon), delta), 1.0, f"delta={delta!r} at any epsilon")


def _excess(found: float, wanted: float) -> float:
    """Sign of what is sought in calibration: positive exactly if ``found`` > ``wanted``.

    Positive exactly if ``found`` > ``wanted``; the logarithm of their ratio where there is one.
    """
    if not found <= wanted:
        return max(math.log(found / wanted), math.ulp(0.0)) if found > wanted > 0 else math.inf
    return min(math.log(found / wanted), 0.0) if found > 0 else -math.inf


def _least(excess: Callable[[float], float], start: float, wanted: str) -> float:
    """Root search of calibration.

    The least x > 0 at which the excess, which falls as x grows, is no longer positive.
    """
    high = start
    while (above := excess(high)) > 0:
        high *= 2
        if high > start * _RANGE:
            raise ParameterError(
                f"no level gives {wanted}: this mechanism cannot promise it "
                "(delta = 0 needs Laplace noise or randomized response; composed deltas below 1e-12 are not resolved)"
            )
    low = high / 2
    while (below := excess(low)) <= 0:
        low, high, above = low / 2, low, below
        if low < start / _RANGE:
            return high
    while high - low > _AGREE * high:
        for x in _guesses(low, high, below, above):
            if low < x < high:
                found = excess(x)
                low, high, below, above = (low, x, below, found) if found <= 0 else (x, high, found, above)
    return high


def _guesses(low: float, high: float, below: float, above: float) -> Iterator[float]:
    """Next guesses in the root search of calibration.

    Where the line through the ends crosses 0, a little to each side of it to trap the root, and the middle.
    """
    if math.isfinite(below) and math.isfinite(above):
        root = low + (high - low) * below / (below - above)
        width = max((high - low) ** 2 / high, high * _AGREE / 4)
        yield from (root + width, root - width)
    yield (low + high) / 2
