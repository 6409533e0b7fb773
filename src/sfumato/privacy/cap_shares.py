"""The shares of a cap: how large they are, and what fixes them. What they are for: ``privacy.filters``."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Self

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.privacy.composition import TAILS, Charge, epsilon_at, gaussian_sum, without_tail
from sfumato.privacy.losses import Gaussian, Loss, pure_epsilon
from sfumato.privacy.threshold_loss import FailingGaussian

_ALL = "all"


@dataclass(frozen=True, slots=True)
class CapShares:
    """How a filter divides a cap.

    pure  : the epsilon of the pure share; None for all of it.
    tails : the part of delta, in absolute terms, for events in which a release is not Gaussian.
    """

    pure: float | None
    tails: float = 0.0

    def __post_init__(self) -> None:
        if self.pure is not None:
            check.not_negative(pure=self.pure)
        check.probability_below_one(tails=self.tails)

    @classmethod
    def declared(cls, pure: float | str, tails: float, epsilon: float, delta: float) -> Self:
        """Shares of a cap as its owner declares them: an epsilon or 'all', and the part of delta for tails."""
        if isinstance(pure, str) and pure != _ALL:
            raise ParameterError(f"the pure share is an epsilon or 'all', got {pure!r}")
        if not 0 <= tails < 1:
            raise ParameterError(f"the share of tails is a part of delta, from 0 to below 1, got {tails!r}")
        if isinstance(pure, str) or pure == epsilon:
            if tails:
                raise ParameterError("tails are a part of the Gaussian share, and the pure share is all of this cap")
            return cls(None)
        check.not_negative(pure_share=pure)
        if pure > epsilon:
            raise ParameterError(f"the pure share {pure:g} is larger than the cap, epsilon {epsilon:g}")
        if delta == 0:
            raise ParameterError("a cap with delta 0 has no Gaussian share: its pure share is all of it")
        return cls(float(pure), tails * delta)

    @classmethod
    def of_first(cls, charge: Charge, delta: float) -> Self:
        """The shares of a cap that its first charge fixes, by the kind of its loss.

        A pure loss: all pure. A loss that lies below a Gaussian one, like Gaussian noise: all Gaussian, unless it is
        composed of pure losses and their epsilons add up to less. If it is Gaussian but for a failure, as a learned
        schema is, the share of tails is a small part of delta, or that failure if it is larger. Everything else: all
        pure, that is, epsilons and deltas add up.
        """
        if charge.delta == 0 or delta == 0:
            return cls(None)
        if isinstance(charge.loss, FailingGaussian) and charge.loss.failure < delta:
            return cls(0.0, max(charge.loss.failure, TAILS * delta) if charge.loss.failure else 0.0)
        if not without_tail(charge.loss):
            return cls(None)
        mu = charge.majorised().mu
        pays = mu < math.inf and epsilon_from_zero(Gaussian(mu, 1.0), delta) < pure_epsilon(charge.loss)
        return cls(0.0 if pays else None)

    def gaussian(self, epsilon: float) -> float:
        """The epsilon of the Gaussian share of a cap."""
        return 0.0 if self.pure is None else epsilon_less(epsilon, self.pure)

    def gaussian_left(self, charges: Mapping[Charge, int], delta: float) -> tuple[float, float]:
        """The mu of the charges to a Gaussian share together, and what the tails leave of delta to it, rounded down.

        Nothing is left if the charges have larger tails than the share allows.
        """
        tails = sum((decimal_of(charge.tail) * n for charge, n in charges.items()), Decimal(0))
        if tails > decimal_of(self.tails):
            return math.inf, 0.0
        left = (delta - self.tails) / (1 - self.tails) * (1 - 1e-15) if self.tails else delta
        return gaussian_sum(charges)[0], left

    def describe(self, epsilon: float, delta: float) -> str:
        """The shares of a cap in a few words."""
        if self.pure is None:
            return "epsilons of releases add up" + (f", and their deltas, to at most {delta:g}" if delta else "")
        noise = f"epsilon {self.gaussian(epsilon):g} at delta {delta:g} for Gaussian noise"
        tails = f" ({self.tails:g} of delta for failures)" if self.tails else ""
        if self.pure == 0:
            return f"{noise}{tails}; pure releases cost more than their epsilon, so ask with a delta"
        return f"epsilon {self.pure:g} for pure releases, {noise}{tails}"

    def to_json(self) -> dict[str, Any]:
        """The shares of a cap as a ledger writes them."""
        return {"pure": _ALL if self.pure is None else self.pure, "tails": self.tails}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        """The shares of a cap as a ledger wrote them."""
        return cls(None if fields["pure"] == _ALL else float(fields["pure"]), float(fields["tails"]))


def epsilon_from_zero(loss: Loss, delta: float) -> float:
    """The least epsilon of a share's loss at a delta, which may be 0; infinite where there is none."""
    return 0.0 if loss.delta(0.0) <= delta else epsilon_at(loss, delta)


def decimal_of(value: float) -> Decimal:
    """An epsilon or a part of delta in a share, read as the decimal that was written."""
    return Decimal(repr(value))


def epsilon_less(whole: float, part: float) -> float:
    """A difference of two epsilons, read as the decimals that were written; at least 0."""
    return float(max(Decimal(0), decimal_of(whole) - decimal_of(part)))
