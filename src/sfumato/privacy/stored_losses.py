"""Losses as a ledger writes them: plain JSON that any later version can read and compose, and groups of units.

Laws that are cheap to compose are written by their parameters. Others are written as a table of their profile
(``Tabulated``): upper bounds at a few hundred epsilons, computed once, in ball arithmetic, when budget is reserved.
"""

import functools
import math
from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import check
from sfumato.errors import LedgerError
from sfumato.privacy import pld
from sfumato.privacy.discrete_loss import DiscreteLaplace
from sfumato.privacy.losses import ChiSquare, Composed, FreshLaplace, Gaussian, Laplace, Loss, Pure, Response
from sfumato.privacy.threshold_loss import FailingGaussian

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

_BY_PARAMETERS = {
    "pure": Pure,
    "laplace": Laplace,
    "discrete laplace": DiscreteLaplace,
    "gaussian": Gaussian,
    "failing gaussian": FailingGaussian,
    "response": Response,
    "fresh": FreshLaplace,
}
_MOST = 1 << 16  # parts of one composed loss


@dataclass(frozen=True, slots=True)
class Tabulated:
    """A loss of which upper bounds at chosen epsilons are known, in both directions."""

    dots: pld.Dots

    def delta(self, epsilon: float) -> float:
        """Delta of a stored loss, from its table.

        The larger direction, on the line in e^epsilon between two dots; a profile is convex, so below it.
        """
        check.not_negative(epsilon=epsilon)
        at = np.array(self.dots.steps) * pld.INTERVAL
        after = int(np.searchsorted(at, epsilon, side="right"))
        values = np.maximum(self.dots.forward, self.dots.backward)
        if after == len(at):
            return float(values[-1])
        share = math.expm1(epsilon - at[after - 1]) / math.expm1(at[after] - at[after - 1])
        return float(min(1.0, (values[after - 1] * (1 - share) + values[after] * share) * (1 + 1e-12)))

    def pld(self) -> "PrivacyLossDistribution":
        """The stored loss as a distribution: its dots, connected."""
        forward = self.dots.joined()
        if self.dots.forward == self.dots.backward:
            return pld.symmetric(forward)
        return pld.library("privacy_loss_distribution").PrivacyLossDistribution(self.dots.turned().joined(), forward)


@functools.lru_cache(maxsize=256)
def tabulated(loss: Loss) -> Loss:
    """A loss as a ledger stores it.

    A loss in the words of a ledger: itself where its parameters say all, its profile in a table otherwise.
    """
    if isinstance(loss, (*_BY_PARAMETERS.values(), Tabulated)):
        return loss
    if isinstance(loss, Composed):
        return Composed(tabulated(part) for part in loss.losses)
    if isinstance(loss, ChiSquare):
        dots = pld.sampled(loss._adding, loss._removing)
        both = [Tabulated(dots), Tabulated(dots.turned())]
        return both[0] if loss.neighbours == "add-remove" else Composed(both)
    return Tabulated(pld.sampled(loss.delta, loss.delta))


def grouped(loss: Loss, times: int) -> Loss:
    """The loss to store for ``times`` units that change together.

    Noise of a fixed law on something that one unit moves by s moves by times * s (triangle inequality), and a pure
    epsilon adds up. Otherwise, by induction over the units, delta(times * e) <= delta(e) (e^(times e) - 1)/(e^e - 1).
    Parts of a composition are grouped one by one: each has its own chain of neighbours.
    """
    check.whole(1, times=times)
    if times == 1:
        return tabulated(loss)
    if isinstance(loss, Composed):
        return Composed(grouped(part, times) for part in loss.losses)
    if isinstance(loss, (Pure, Response)):
        return Pure(_up(loss.epsilon * times))
    if isinstance(loss, Laplace):
        moved = loss.sensitivity * times
        return replace(loss, sensitivity=moved if isinstance(loss, DiscreteLaplace) else _up(moved))
    if isinstance(loss, Gaussian):
        return Gaussian(_up(loss.sensitivity * times), loss.scale)

    def bound(epsilon: float) -> float:
        return group_delta(epsilon / times, loss.delta(epsilon / times), times)

    return Tabulated(_falling(pld.sampled(bound, bound)))


def _falling(dots: pld.Dots) -> pld.Dots:
    """Dots of a stored loss that bound it from above, lowered where an earlier one says more: a profile never rises."""
    forward, backward = (tuple(np.minimum.accumulate(side).tolist()) for side in (dots.forward, dots.backward))
    return pld.Dots(dots.steps, forward, backward)


def group_delta(epsilon: float, delta: float, times: int) -> float:
    """Group privacy of a stored promise.

    What ``times`` units together have at times * epsilon, if one has (epsilon, delta), rounded up.
    """
    if times == 1:
        return delta
    if epsilon == 0:
        return min(1.0, _up(delta * times)) if delta else 0.0
    if delta == 0 or epsilon * times > 600:
        return 1.0 if delta else 0.0
    return min(1.0, delta * math.expm1(times * epsilon) / math.expm1(epsilon) * (1 + 1e-12))


def _up(value: float) -> float:
    return math.nextafter(value, math.inf)


def to_json(loss: Loss) -> dict[str, Any]:
    """A stored loss as JSON; equal parts are counted."""
    if isinstance(loss, Tabulated):
        dots = loss.dots
        backward = {} if dots.backward == dots.forward else {"backward": list(dots.backward)}
        return {"law": "table", "interval": pld.INTERVAL, "steps": list(dots.steps), "forward": list(dots.forward)} | (
            backward
        )
    if isinstance(loss, Composed):
        if len(loss.losses) > _MOST:
            raise LedgerError(f"a loss of more than {_MOST} parts cannot be charged to a ledger")
        return {"law": "composed", "parts": [[count, to_json(part)] for part, count in Counter(loss.losses).items()]}
    law = next(name for name, kind in _BY_PARAMETERS.items() if type(loss) is kind)
    return {"law": law, **asdict(loss)}  # type: ignore[call-overload]


def from_json(fields: Any) -> Loss:
    """A stored loss from JSON, the inverse of ``to_json``.

    The inverse of ``to_json``; refuses what it does not know, for a loss that is misread is not accounted for.
    """
    try:
        law, rest = fields["law"], {name: value for name, value in fields.items() if name != "law"}
        if law == "composed":
            return _composed([(int(count), from_json(part)) for count, part in rest["parts"]])
        if law == "table":
            return Tabulated(_dots(**rest))
        found: Loss = _BY_PARAMETERS[law](**rest)
    except LedgerError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError):
        raise LedgerError("a loss in the ledger is not of a form that this version of sfumato knows") from None
    return found


def _composed(counted: list[tuple[int, Loss]]) -> Composed:
    if not 0 < sum(count for count, _ in counted) <= _MOST or min(count for count, _ in counted) < 1:
        raise ValueError
    return Composed(part for count, part in counted for _ in range(count))


def _dots(interval: float, steps: list[int], forward: list[float], backward: list[float] | None = None) -> pld.Dots:
    dots = pld.Dots(tuple(steps), tuple(forward), tuple(forward if backward is None else backward))
    known = interval == pld.INTERVAL and len(steps) == len(dots.forward) == len(dots.backward) > 1
    rising = all(a < b for a, b in zip(dots.steps, dots.steps[1:], strict=False)) and dots.steps[:1] == (0,)
    if not known or not rising or not all(0 <= d <= 1 for d in (*dots.forward, *dots.backward)):
        raise ValueError
    return dots
