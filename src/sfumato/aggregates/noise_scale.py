"""The exact noise on the numbers of a statistic."""

import math
from dataclasses import dataclass, replace
from typing import Literal

from sfumato.numerics.types import Integers
from sfumato.randomness.secret import Secret

_ROUNDED = 1 / 12  # what rounding to a whole number adds to the variance


@dataclass(frozen=True, slots=True)
class NoiseScale:
    """The exact noise on every number of a statistic: ``laplace`` of scale b, or ``gaussian`` of scale sigma."""

    kind: Literal["laplace", "gaussian"]
    scale: float

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise on a number, rounding included."""
        return math.sqrt((2.0 if self.kind == "laplace" else 1.0) * self.scale**2 + _ROUNDED)

    def added(self, exact: Integers, secret: Secret, *context: str | int) -> Integers:
        """The numbers of a statistic with noise, from a stream of their own."""
        words = secret.words("aggregate", self.kind, self.scale.hex(), *context, exact)
        draw = words.laplace if self.kind == "laplace" else words.gaussian
        return exact + draw(exact.size, self.scale).reshape(exact.shape)

    def times(self, factor: float) -> "NoiseScale":
        """Noise of so many times this scale."""
        return replace(self, scale=self.scale * factor)
