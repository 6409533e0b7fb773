"""Preparing and calibrating what is to be tried; levels are remembered, because some take a second to find."""

from dataclasses import dataclass
from typing import Any

from sfumato.privacy.calibration import Family, calibrate
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Composed, pure_epsilon

_KNOWN: dict[Any, float] = {}


def prepared(recipe: Any, of: Any, guarantee: Guarantee) -> Any:
    """The recipe, prepared for a schema or a domain."""
    return recipe.prepare(of, guarantee)


def level(ready: Any, guarantee: Guarantee) -> float:
    """The level at which the guarantee is kept; the family of losses is known by its member at level 1."""
    one = ready.loss(1.0)
    key = type(ready), one, guarantee.epsilon, guarantee.delta
    if key not in _KNOWN:
        quick = _Summed(ready) if isinstance(one, Composed) and guarantee.delta == 0 else ready
        _KNOWN[key] = calibrate(quick, guarantee).level
        assert ready.loss(_KNOWN[key]).delta(guarantee.epsilon) <= guarantee.delta
    return _KNOWN[key]


@dataclass(frozen=True, slots=True)
class _Summed(Family):
    """Several pure parts, which keep a promise without a delta where their epsilons add up: no law has to be folded."""

    ready: Any

    def loss(self, at: float) -> Any:
        """All or nothing."""
        return _Sum(pure_epsilon(self.ready.loss(at)))


@dataclass(frozen=True, slots=True)
class _Sum:
    epsilon: float

    def delta(self, epsilon: float) -> float:
        return 0.0 if self.epsilon <= epsilon else 1.0
