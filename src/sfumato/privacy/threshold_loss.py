"""The loss of counts that are published above a threshold: Gaussian noise, but for an event of small probability.

A value that only one unit has must not be published, and noise may lift its count above the threshold all the same.
That event has a probability of its own, the *failure*, and what happens then is not bounded at all. Everything else is
Gaussian noise. So the loss is a pair (mu, failure).

Formal guarantee. Let D and D' be neighbours, z all that a run publishes before it counts values, c the noisy counts of
values that both tables have, and u those that are published of values that only its own table has. What is counted, at
which scale and with which threshold may follow from z, so failure, the event that u is not empty, is not independent of
the noise in z. Assumed of a run on D, for every z: given z, u is independent of c, and f(z) = Pr[failure | z] <= t; of
a run on D', the same with f'(z) <= t. Let M* be the run in which u is empty always: z, c and what follows are drawn as
in M given an empty u. Assumed: M* is mu-GDP for these two tables, with the Gaussian profile d(epsilon).

For a set S of outcomes let h = Pr[M(D) in S | z, c, no failure], which is also Pr[M*(D) in S | z, c]. Given z and c,
the probability of S is at most (1 - f(z)) h + f(z) = h + f(z) (1 - h) <= t + (1 - t) h, and on D' at least (1 - f'(z))
h' >= (1 - t) h'. The means over z and c, whose law is the same in M and M*, are

    Pr[M(D) in S] <= t + (1 - t) Pr[M*(D) in S]   and   Pr[M(D') in S] >= (1 - t) Pr[M*(D') in S].

With Pr[M*(D) in S] <= d + e^epsilon Pr[M*(D') in S] in between,

    Pr[M(D) in S] <= t + (1 - t) d + e^epsilon (1 - t) Pr[M*(D') in S] <= t + (1 - t) d + e^epsilon Pr[M(D') in S].

So delta(epsilon) <= t + (1 - t) d(epsilon), and the same with D and D' exchanged: failures of the two
sides are not added up, the larger counts. The bound is the profile of the pair that shows a symbol of its own with
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
