"""The smallest level whose loss meets a guarantee.

A mechanism is a one-parameter family of losses that fall as the level grows (a noise scale, a ridge). One search
serves all of them: bracket by doubling, then halve the bracket until its ends agree to one part in 2^40, and return
the upper end, which has been *checked*: its loss satisfies delta(epsilon) <= delta with no tolerance.
"""

from collections.abc import Callable
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
    return _least(lambda level: loss(level).delta(epsilon) <= delta, start, f"epsilon={epsilon!r} and delta={delta!r}")


def least_epsilon(loss: Loss, delta: float) -> float:
    """The least epsilon (to one part in 2^40) at which a loss satisfies (epsilon, delta); always on the safe side."""
    check.probability_below_one(delta=delta)
    return _least(lambda epsilon: loss.delta(epsilon) <= delta, 1.0, f"delta={delta!r} at any epsilon")


def _least(holds: Callable[[float], bool], start: float, wanted: str) -> float:
    """The least x > 0 at which a property holds that, once true, stays true as x grows."""
    high = start
    while not holds(high):
        high *= 2
        if high > start * _RANGE:
            raise ParameterError(
                f"no level gives {wanted}: this mechanism cannot promise it "
                "(delta = 0 needs Laplace noise or randomized response; composed deltas below 1e-12 are not resolved)"
            )
    low = high / 2
    while holds(low):
        low, high = low / 2, low
        if low < start / _RANGE:
            return high
    while high - low > _AGREE * high:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
