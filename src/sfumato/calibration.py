"""The smallest level whose loss meets a guarantee.

A mechanism is a one-parameter family of losses that fall as the level grows (a noise scale, a ridge). One search
serves all of them: bracket by doubling, then narrow the bracket until its ends agree to one part in 2^40, and return
the upper end, which has been *checked*: its loss satisfies delta(epsilon) <= delta with no tolerance. Where the bracket
is narrowed is guided by the size of delta, which saves most of the evaluations; what is returned does not rest on it.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.guarantee import Guarantee
from sfumato.loss import Loss

_AGREE = 2.0**-40
_RANGE = 2.0**100


class Family(Protocol):
    """What calibration needs of a mechanism."""

    def loss(self, level: float) -> Loss:
        """The loss of a run at this level; it falls as the level grows."""
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
        """What a run will cost."""
        return self.mechanism.loss(self.level)


def calibrate(mechanism: F, guarantee: Guarantee) -> Calibrated[F]:
    """The mechanism at the least level that keeps the promise.

    Formal guarantee: the returned level satisfies mechanism.loss(level).delta(epsilon) <= delta, and delta() is
    itself never below the truth.
    """
    return Calibrated(mechanism, guarantee, least_level(mechanism.loss, guarantee.epsilon, guarantee.delta))


def least_level(loss: Callable[[float], Loss], epsilon: float, delta: float, start: float = 1.0) -> float:
    """The least level (to one part in 2^40) with ``loss(level).delta(epsilon) <= delta``; always on that side.

    Least for the bound that ``delta`` computes: for composed losses that is limited by the grid of their PLDs.
    """
    check.positive(epsilon=epsilon)
    check.probability_below_one(delta=delta)
    wanted = f"epsilon={epsilon!r} and delta={delta!r}"
    return _least(lambda level: _excess(loss(level).delta(epsilon), delta), start, wanted)


def least_epsilon(loss: Loss, delta: float) -> float:
    """The least epsilon (to one part in 2^40) at which a loss satisfies (epsilon, delta); always on the safe side."""
    check.probability_below_one(delta=delta)
    return _least(lambda epsilon: _excess(loss.delta(epsilon), delta), 1.0, f"delta={delta!r} at any epsilon")


def _excess(found: float, wanted: float) -> float:
    """Positive exactly if ``found`` > ``wanted``; the logarithm of their ratio where there is one."""
    if not found <= wanted:
        return max(math.log(found / wanted), math.ulp(0.0)) if found > wanted > 0 else math.inf
    return min(math.log(found / wanted), 0.0) if found > 0 else -math.inf


def _least(excess: Callable[[float], float], start: float, wanted: str) -> float:
    """The least x > 0 at which the excess, which falls as x grows, is no longer positive."""
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
    """Where the line through the ends crosses 0, a little to each side of it to trap the root, and the middle."""
    if math.isfinite(below) and math.isfinite(above):
        root = low + (high - low) * below / (below - above)
        width = max((high - low) ** 2 / high, high * _AGREE / 4)
        yield from (root + width, root - width)
    yield (low + high) / 2
