"""The noise of a stream: how far one unit moves all its measurements, what that costs, and how sums are decoded.

Formal guarantee: all measurements of a stream up to a horizon, at noise of ``scale``, have together the loss of
Gaussian(sensitivity(horizon), scale) for one unit: a record (or one of its values) replaced within its period, or added
or removed in one, or all of the up to g rows of a person, in any periods. Data of later periods, and whether the
horizon is extended, may depend on all that was published before (docs/mathematics.md, section 23). Proof sketch. Rows
of one unit in periods i_1, .., move the measurements by the sum of column i_j of C times their moves, so by at most
sqrt(N(T)) times ``reach`` in length over deviations. Coarsening moves every measured number that moves at all by less
than one step more. The noise is exact and rounded, which is post-processing.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.mechanisms.base import check_scale, coarsening
from sfumato.numerics.lattice import past_roundings
from sfumato.numerics.types import Floats, Integers
from sfumato.privacy.calibration import Family, least_epsilon
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Gaussian
from sfumato.randomness.secret import Secret
from sfumato.streams.factorisation import Factorisation, Node, own_share
from sfumato.streams.statistic import StreamStatistic

_SAFE = 1 + 2.0**-40


@dataclass(frozen=True, slots=True, eq=False)
class Measuring(Family):
    """How a stream is measured; level = noise scale over sensitivity at the horizon it was made for.

    shift : bits by which the weighted sums are coarsened; fixed when the stream is made, as its noise is.
    """

    statistic: StreamStatistic
    method: Factorisation
    guarantee: Guarantee
    horizon: int
    shift: int

    @classmethod
    def of(cls, statistic: StreamStatistic, method: Factorisation, guarantee: Guarantee, horizon: int) -> "Measuring":
        """How a new stream is measured."""
        moved = statistic.reach * _root(method.squared_norm(horizon))
        shift = coarsening(moved, statistic.deviations.size * method.touched(horizon, guarantee.group))
        return cls(statistic, method, guarantee, horizon, shift)

    def sensitivity(self, horizon: int) -> float:
        """How far one unit moves all measurements up to a horizon, over deviations, in coarsened steps; rounded up."""
        exact = self.statistic.reach * _root(self.method.squared_norm(horizon)) * _SAFE
        if self.shift == 0:
            return exact
        apart = self.method.touched(horizon, self.guarantee.group) * self.statistic.rounding
        return past_roundings(exact * 2.0**-self.shift + math.sqrt(apart), 2)

    def loss(self, level: float) -> Gaussian:
        """The loss of all measurements of a stream up to its horizon."""
        return Gaussian(1.0, level)

    def scale(self, level: float) -> float:
        """The scale of the noise on measurements, in coarsened steps, rounded up; refuses what cannot be drawn."""
        scale = math.nextafter(level * self.sensitivity(self.horizon), math.inf)
        for deviation in (float(self.statistic.deviations.min()), float(self.statistic.deviations.max())):
            check_scale(self.guarantee, scale * deviation, level, "nearer to 1 for this stream", room=(2, 1))
        return scale

    def whole(self, scale: float, horizon: int) -> Gaussian:
        """The loss of all measurements of a stream up to any horizon."""
        return Gaussian(self.sensitivity(horizon), scale)

    def more(self, scale: float, before: int, after: int) -> Gaussian | None:
        """What extending the horizon of a stream costs; None if it costs nothing.

        Composed with what it cost before it is ``whole`` of the new horizon: squared sensitivities add up.
        """
        squared = Fraction(self.sensitivity(after)) ** 2 - Fraction(self.sensitivity(before)) ** 2
        return Gaussian(math.sqrt(float(squared)) * (1 + 2.0**-45), scale) if squared > 0 else None

    def promise(self, scale: float, horizon: int) -> Guarantee:
        """What is promised of a whole stream of this horizon: more epsilon if it is longer than it was made for."""
        if horizon <= self.horizon:
            return self.guarantee
        epsilon = max(self.guarantee.epsilon, least_epsilon(self.whole(scale, horizon), self.guarantee.delta))
        fields = self.guarantee.to_dict() | {"epsilon": epsilon}
        return Guarantee.from_dict(fields)

    def measured(self, node: Node, sums: Integers, scale: float, secret: Secret) -> Integers:
        """One measurement of a stream: weighted sums that are exact and coarsened, with noise."""
        context = f"stream {self.method.name} {node.period} {node.level} {self.guarantee!r} {scale.hex()} {self.shift}"
        order = np.argsort(self.statistic.deviations, kind="stable")  # numbers of one deviation are drawn together
        deviations, counts = np.unique(self.statistic.deviations, return_counts=True)
        words, noisy = secret.words(context, sums[order]), sums.copy()
        scales = zip(counts.tolist(), (scale * deviations * _SAFE).tolist(), strict=True)
        noisy[order] += np.concatenate([words.gaussian(count, each) for count, each in scales])
        return noisy

    def refined(self, node: Node, noisy: Integers, halves: tuple[Floats, Floats] | None) -> Floats:
        """The sum of an interval of a stream's tree with the least variance, in coarsened steps."""
        own = float(own_share(node.level))
        return noisy.astype(float) if halves is None else np.asarray(own * noisy + (1 - own) * (halves[0] + halves[1]))

    def noise(self, scale: float, period: int, horizon: int) -> tuple[float, float]:
        """Sensitivity and scale of the noise on a running sum of a stream, in units of its exact integers.

        The sensitivity is that of the whole stream at this noise: their ratio is what all publications cost together.
        """
        own = scale * 2.0**self.shift * math.sqrt(self.method.variance(period))
        return own / scale * self.sensitivity(horizon), own


def _root(square: int) -> float:
    """The square root of an integer, rounded up."""
    found = math.sqrt(square)
    while Fraction(found) ** 2 < square:
        found = math.nextafter(found, math.inf)
    return found
