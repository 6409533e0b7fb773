"""The noise on sums over owners: a sum of independent noises, Gaussian and Laplace, of several scales.

Gaussian noise alone sums to Gaussian noise, exactly. A sum with Laplace noise in it is told by its variance and its
kurtosis: it is taken for a sum of equal Laplace draws with the same of both (``covariances.laplace_sum_tail``).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from sfumato.numerics.types import Bools, Floats


@dataclass(frozen=True, slots=True)
class SummedLaw:
    """The noise on each number of a summed covariance; Gaussian noise is less by sqrt(2) off its diagonal.

    gaussian : the variance of all Gaussian noise together, on the diagonal.
    laplace  : of Laplace noise, standard deviations and how many owners have each.
    """

    gaussian: float
    laplace: tuple[tuple[float, int], ...]

    kind: Literal["laplace"] = "laplace"  # what its tails are like

    @classmethod
    def of(cls, noises: Iterable[tuple[str, float, int]]) -> Self:
        """The law of noises by their name, scale (b, or the deviation) and number."""
        listed = list(noises)
        normal = math.fsum(many * scale**2 for name, scale, many in listed if name == "gaussian")
        return cls(normal, tuple((math.sqrt(2) * scale, many) for name, scale, many in listed if name == "laplace"))

    @property
    def heavy(self) -> float:
        """Variance of the Laplace noise in a summed covariance, the same on and off its diagonal."""
        return math.fsum(many * deviation**2 for deviation, many in self.laplace)

    @property
    def variance(self) -> float:
        """Variance of the noise on the diagonal of a summed covariance."""
        return self.gaussian + self.heavy

    @property
    def scale(self) -> float:
        """Standard deviation of the noise on the diagonal of a summed covariance."""
        return math.sqrt(self.variance)

    @property
    def off(self) -> float:
        """Variance of the noise off the diagonal, over that on it."""
        return (self.gaussian / 2 + self.heavy) / self.variance

    @property
    def alike(self) -> float:
        """How many equal Laplace draws have the kurtosis of the noise on one number.

        Off the diagonal, where they are fewer: there is less Gaussian noise beside them.
        """
        fourths = math.fsum(many * deviation**4 for deviation, many in self.laplace)
        return (self.gaussian / 2 + self.heavy) ** 2 / fourths

    def drawn(self, rng: np.random.Generator, diagonal: Bools) -> Floats:
        """New noise of the law for each number of a summed covariance, for simulations; on the diagonal or not."""
        found = rng.standard_normal(diagonal.size) * math.sqrt(self.gaussian) * np.where(diagonal, 1.0, math.sqrt(0.5))
        for deviation, many in self.laplace:
            # a sum of equal Laplace draws is sqrt(2 W) b Z, W of the gamma law
            spread = np.sqrt(rng.standard_gamma(many, diagonal.size))
            found += deviation * spread * rng.standard_normal(diagonal.size)
        return found
