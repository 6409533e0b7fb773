"""The loss of discrete Laplace noise on integers: pure, at the epsilon of Laplace noise of the same scale."""

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato import check
from sfumato.privacy import pld, profiles
from sfumato.privacy.losses import Laplace

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

_CORNERS = 100  # of a profile that its distribution keeps


@dataclass(frozen=True, slots=True)
class DiscreteLaplace(Laplace):
    """Noise k in proportion to exp(-|k|/b) on integers that one unit moves by ``sensitivity``, a whole number, in l1.

    Its pure epsilon, sensitivity/b, is that of ``Laplace``. All of it is lost more often: at sensitivity 1 the noise is
    as good as randomized response, the worst of all pure losses, and errs least among them (Ghosh, Roughgarden and
    Sundararajan 2012). So what is composed costs a little more than Laplace noise, where sums of epsilons do not count.
    """

    sensitivity: int

    def __post_init__(self) -> None:
        check.whole(1, sensitivity=self.sensitivity)
        check.positive(laplace_scale=self.laplace_scale)
        object.__setattr__(self, "sensitivity", int(self.sensitivity))
        object.__setattr__(self, "laplace_scale", float(self.laplace_scale))

    def delta(self, epsilon: float) -> float:
        """Delta of the loss under discrete Laplace noise, exact (``profiles.discrete_laplace``)."""
        check.not_negative(epsilon=epsilon)
        return profiles.discrete_laplace(float(epsilon), sensitivity=self.sensitivity, laplace_scale=self.laplace_scale)

    def pld(self) -> "PrivacyLossDistribution":
        """The loss as a distribution: lines between corners of the profile, all of them if there are not too many."""
        return _discrete_pld(self)


@functools.lru_cache(maxsize=32)
def _discrete_pld(loss: DiscreteLaplace) -> "PrivacyLossDistribution":
    most = loss.sensitivity // 2
    places = np.unique(np.round(np.linspace(0, most, min(most + 1, _CORNERS))))
    corners = (loss.sensitivity - 2 * places) / loss.laplace_scale
    return pld.of_profile(loss.delta, corners.tolist())
