"""How the statistics of one question share its budget, and the noise that each of them gets.

Statistic i with the share a_i has, of its answer, a relative variance v_i / a_i^2 under Laplace noise (scales go with
1 / a_i) and v_i / a_i under Gaussian noise, where shares are of mu^2. The sum over all statistics is least, with shares
that sum to 1, for a_i in proportion to v_i^(1/3) and v_i^(1/2). The v_i are public: they take records to be spread
evenly, for nothing else is known before anything is measured.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sfumato.aggregates.exposure import Exposure
from sfumato.aggregates.noise_scale import NoiseScale
from sfumato.aggregates.statistics import Statistic
from sfumato.errors import ParameterError
from sfumato.privacy.calibration import least_level
from sfumato.privacy.losses import Composed, Gaussian, Loss
from sfumato.randomness.noise import LARGEST_SCALE, SMALLEST_SCALE, laplace_scale

_DISCRETE: Literal["discrete laplace"] = "discrete laplace"
_ROUNDED: Literal["laplace"] = "laplace"
_BELOW = 1 - 2.0**-48  # so that shares which are rounded never sum to more than all
_UP = 1 + 2.0**-48


@dataclass(frozen=True, slots=True)
class Spending:
    """The noise of each statistic of a question, and what all of it costs.

    Formal guarantee: noise of these scales on the statistics, whose moves are stated, has the loss ``loss``.
    """

    scales: tuple[NoiseScale, ...]
    moves: tuple[float, ...]
    statistics: tuple[Statistic, ...]

    @classmethod
    def of(cls, statistics: Sequence[Statistic], exposure: Exposure, epsilon: float, delta: float) -> "Spending":
        """The noise that spends (epsilon, delta): Laplace noise if delta is 0, Gaussian noise otherwise.

        Laplace noise is discrete where every answer shows a noisy number by itself, and rounded elsewhere.
        """
        norms = [statistic.moves(exposure) for statistic in statistics]
        if delta == 0:
            l1 = [norm.l1 for norm in norms]
            shares = _shares([s.relative_variance * m**2 for s, m in zip(statistics, l1, strict=True)], 1 / 3)
            found = [laplace_scale(m, epsilon * a) for m, a in zip(l1, shares, strict=True)]
            kinds = [_DISCRETE if statistic.one_by_one else _ROUNDED for statistic in statistics]
            made = cls(tuple(map(NoiseScale, kinds, found)), tuple(l1), tuple(statistics))
        else:
            l2 = [norm.l2 for norm in norms]
            shares = _shares([s.relative_variance * m**2 for s, m in zip(statistics, l2, strict=True)], 1 / 2)
            level = least_level(lambda scale: Gaussian(1.0, scale), epsilon, delta)
            found = [m * level / math.sqrt(a) * _UP for m, a in zip(l2, shares, strict=True)]
            made = cls(tuple(NoiseScale("gaussian", sigma) for sigma in found), tuple(l2), tuple(statistics))
        made.check(epsilon)
        return made

    def check(self, epsilon: float) -> None:
        """Refuse noise that cannot be drawn, before anything is read."""
        drawn = [statistic.drawn(noise) for statistic, noise in zip(self.statistics, self.scales, strict=True)]
        if not all(SMALLEST_SCALE <= noise.scale <= LARGEST_SCALE for noise in drawn):
            raise ParameterError(
                f"epsilon={epsilon!r} asks for noise outside the exact sampler's range: choose another epsilon, or ask "
                "for fewer aggregates at once"
            )

    def loss(self, times: float = 1.0) -> Loss:
        """What the question costs with noise of so many times these scales."""
        if self.scales[0].kind == "gaussian":
            squares = math.fsum((m / n.scale) ** 2 for m, n in zip(self.moves, self.scales, strict=True))
            return Gaussian(1.0, times / math.sqrt(squares) / (1 + 2.0**-49))
        parts = [
            loss
            for statistic, move, noise in zip(self.statistics, self.moves, self.scales, strict=True)
            for loss in statistic.losses(move, noise.times(times))
        ]
        return parts[0] if len(parts) == 1 else Composed(parts)


def _shares(variances: Sequence[float], power: float) -> list[float]:
    """Shares of a budget in proportion to a power of variances; they sum to 1 at most."""
    if len(variances) == 1:
        return [1.0]
    sizes = [variance**power for variance in variances]
    whole = math.fsum(sizes)
    return [size / whole * _BELOW for size in sizes]
