"""The loss of counts that are published above a threshold: Gaussian noise, but for an event of small probability.

A value that only one unit has must not be published, and noise may lift its count above the threshold all the same.
That event has a probability of its own, the *failure*, and what happens then is not bounded at all. Everything else is
Gaussian noise. So the loss is a pair (mu, failure).

Formal guarantee. Let E be the event, in a run on D, that no value is published which its neighbour D' does not have,
and E' the same in a run on D', with Pr[E], Pr[E'] >= 1 - t, decided by noise that is independent of all other noise.
Given E (E'), let the output be that of one mechanism M* on D (D') which is mu-GDP. Then for every set S and
epsilon >= 0, with p = Pr[E], p' = Pr[E'], q = min(p, p') and the Gaussian profile d(epsilon):

    Pr[M(D) in S] <= (1 - p) + p Pr[M*(D) in S] <= (1 - q) + q Pr[M*(D) in S]
                  <= (1 - q) + q d + q e^epsilon Pr[M*(D') in S] <= (1 - q) + q d + e^epsilon Pr[M(D') in S],

as Pr[M(D') in S] >= p' Pr[M*(D') in S]. And 1 - q <= t, so delta(epsilon) <= t + (1 - t) d(epsilon): failures of the
two sides are not added up, the larger counts. The bound is the profile of the pair that shows a symbol of its own with
probability t and is N(mu, 1) against N(0, 1) otherwise. So it composes, also adaptively, as that pair does: failures
add up at most, and mu as usual (trade-off functions; Dong, Roth and Su 2022, Theorem 3.2).
"""

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato import check
from sfumato.privacy import pld, profiles

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution


@dataclass(frozen=True, slots=True)
class FailingGaussian:
    """Gaussian noise on a vector that moves by at most ``sensitivity``, but for an event of probability ``failure``."""

    sensitivity: float
    scale: float
    failure: float

    def __post_init__(self) -> None:
        check.positive(sensitivity=self.sensitivity, scale=self.scale)
        check.probability_below_one(failure=self.failure)
        for name in ("sensitivity", "scale", "failure"):
            value = getattr(self, name)
            if float(value) != value:
                raise check.fail(name, value, "a number that a double can hold")
            object.__setattr__(self, name, float(value))

    def delta(self, epsilon: float) -> float:
        """Delta of Gaussian noise with a failure: failure + (1 - failure) * Gaussian profile, rounded up."""
        check.not_negative(epsilon=epsilon)
        return profiles.failing_gaussian(
            float(epsilon), sensitivity=self.sensitivity, scale=self.scale, failure=self.failure
        )

    def pld(self) -> "PrivacyLossDistribution":
        """The loss as a distribution: that of the noise, with the failure as a mass at an infinite loss."""
        return _pld(self)


@functools.lru_cache(maxsize=32)
def _pld(loss: FailingGaussian) -> "PrivacyLossDistribution":
    def profile(epsilon: float) -> float:
        return profiles.gaussian(epsilon, sensitivity=loss.sensitivity, scale=loss.scale)

    noise = pld.of_noise("gaussian", loss.sensitivity, loss.scale, profile)
    return noise if loss.failure == 0 else pld.failing(noise, loss.failure)
