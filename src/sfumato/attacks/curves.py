"""How well an attack does against epsilon, beside guessing, no privacy, and the most that privacy allows."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

_FACTS = ("attack", "against", "data", "measure", "chance", "unprotected")


@dataclass(frozen=True, slots=True)
class Point:
    """The success against releases of one epsilon, its standard error, and the bound."""

    epsilon: float
    success: float
    error: float
    bound: float

    @classmethod
    def of(cls, epsilon: float, runs: Sequence[float], bound: float, trials: int | None = None) -> Self:
        """A point of an attack's curve from the success in each of several runs.

        Error: that of the runs' mean; with ``trials`` guesses in all at least the binomial one of two guesses more, one
        right and one wrong: few runs may agree by chance, and none may succeed.
        """
        mean = float(np.mean(runs))
        error = float(np.std(runs, ddof=1)) / math.sqrt(len(runs)) if len(runs) > 1 else 0.0
        binomial = 0.0
        if trials:
            share = (mean * trials + 1) / (trials + 2)
            binomial = math.sqrt(share * (1 - share) / (trials + 2))
        return cls(float(epsilon), mean, max(error, binomial), float(bound))


@dataclass(frozen=True, slots=True)
class Curve:
    """One attack on one kind of release.

    against     : the kind of release.
    data        : what was released, and what of it was protected.
    measure     : what success is a share, a rate or a mean of.
    chance      : what guessing reaches.
    unprotected : what the same attack reaches where nothing is protected.
    """

    attack: str
    against: str
    data: str
    measure: str
    chance: float
    unprotected: float
    points: tuple[Point, ...]

    def to_dict(self) -> dict[str, Any]:
        """The curve of an attack's success as JSON-able values."""
        points = [{name: getattr(p, name) for name in ("epsilon", "success", "error", "bound")} for p in self.points]
        named = {name: getattr(self, name) for name in _FACTS}
        return named | {"points": points}


def table(curves: Iterable[Curve]) -> str:
    """All curves of attacks' success against epsilon as lines of text."""
    parts = []
    for curve in curves:
        parts += [
            f"{curve.attack} against {curve.against} ({curve.data}): {curve.measure}",
            f"  guessing {curve.chance:.3f}, unprotected {curve.unprotected:.3f}",
            "     epsilon   success   +- error   at most",
            *(f"  {p.epsilon:10g} {p.success:9.3f} {p.error:10.3f} {p.bound:9.3f}" for p in curve.points),
        ]
    return "\n".join(parts)
