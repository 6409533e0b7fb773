"""The exact noise on the numbers of a statistic."""

from dataclasses import dataclass, replace
from typing import Literal

from sfumato.intervals.additive_noise import Law, summed_law
from sfumato.numerics.types import Integers
from sfumato.randomness.secret import Secret


@dataclass(frozen=True, slots=True)
class NoiseScale:
    """The exact noise on every number of a statistic: of the scale b, or ``gaussian`` of the scale sigma.

    ``discrete laplace`` is noise k in proportion to exp(-|k|/b). ``laplace`` and ``gaussian`` are rounded.
    """

    kind: Literal["laplace", "discrete laplace", "gaussian"]
    scale: float

    def law(self, weight: float = 1.0) -> Law:
        """The law of the noise on a number, so many times."""
        return summed_law(self.kind, [(weight, 1, self.scale)])

    @property
    def rounded(self) -> float:
        """The most by which rounding moves the noise: half a step; 0 where its law is one of whole numbers."""
        return 0.0 if self.kind == "discrete laplace" else 0.5

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise on a number, rounding included."""
        return self.law().scale

    def added(self, exact: Integers, secret: Secret, *context: str | int) -> Integers:
        """The numbers of a statistic with noise, from a stream of their own."""
        words = secret.words("aggregate", self.kind, self.scale.hex(), *context, exact)
        draws = {"laplace": words.laplace, "discrete laplace": words.discrete_laplace, "gaussian": words.gaussian}
        return exact + draws[self.kind](exact.size, self.scale).reshape(exact.shape)

    def times(self, factor: float) -> "NoiseScale":
        """Noise of so many times this scale."""
        return replace(self, scale=self.scale * factor)
