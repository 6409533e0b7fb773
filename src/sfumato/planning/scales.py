"""Plans for several scales of distance at once: one sketch for all, or one for each with the budget split among them.

A sketch has a best dimension for one distance; for shorter ones fewer columns are better, for longer ones more. Several
sketches of the same records can share the budget (their epsilons and deltas add up), and their independent estimates of
one distance are averaged with weights 1/variance. What is minimised is the largest *regret* over the scales: the
standard error over that of a sketch made for this scale alone with the whole budget.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.numerics.types import Floats
from sfumato.planning.option import Option, PlanRequest
from sfumato.planning.per_record import quick_sketch
from sfumato.planning.planner import Plan, plan

_LEAST_SHARE = 0.02


@dataclass(frozen=True, slots=True)
class ScalesPlan:
    """The better of one sketch and several: ``parts`` are released one by one, each under its own guarantee."""

    distances: tuple[float, ...]
    own: tuple[Option, ...]
    single: Option
    several: tuple[Option, ...]

    def regret(self, options: Sequence[Option]) -> float:
        """Regret over several scales: the largest ratio of the error to that of the scale's own sketch."""
        return max(a / b for a, b in zip(self.errors(options), self.best_errors, strict=True))

    @property
    def best_errors(self) -> list[float]:
        """Relative errors where each scale has the whole budget to itself: out of reach for all at once."""
        return [o.relative_error(r) for o, r in zip(self.own, self.distances, strict=True)]

    def errors(self, options: Sequence[Option]) -> list[float]:
        """Relative errors of averages over the options with weights 1/variance."""
        together = [1 / math.fsum(1 / o.errors.variance(r * r) for o in options) for r in self.distances]
        return [math.sqrt(v) / r**2 for v, r in zip(together, self.distances, strict=True)]

    @property
    def parts(self) -> tuple[Option, ...]:
        """The sketches to release: one for all scales, or several."""
        return self.several if self.regret(self.several) < self.regret([self.single]) else (self.single,)

    def describe(self) -> str:
        """One sketch or several, scale by scale, and which to take, in words."""
        ways = [("One sketch", self._words([self.single]), self.errors([self.single]))]
        ways += [("Several sketches", self._words(self.several), self.errors(self.several))]
        ways += [("Not possible at once: the whole budget for each scale", self._words(self.own), self.best_errors)]
        lines = [f"{label}: {words}: relative error {self._at(errors)}" for label, words, errors in ways]
        return "\n".join([*lines, f"Recommended: {'one sketch' if len(self.parts) == 1 else 'several sketches'}."])

    def to_dict(self) -> dict[str, Any]:
        """For machines: what to release, with the relative error at each distance."""
        parts = [
            {"family": o.family, "dimension": o.dimension, "noise": o.noise, "epsilon": o.guarantee.epsilon}
            | {"delta": o.guarantee.delta}
            for o in self.parts
        ]
        return {"distances": list(self.distances), "relative_errors": self.errors(self.parts), "parts": parts}

    def _at(self, errors: Sequence[float]) -> str:
        return ", ".join(f"{e:.0%} at {r:.3g}" for e, r in zip(errors, self.distances, strict=True))

    def _words(self, options: Sequence[Option]) -> str:
        return " + ".join(f"{o.family} {o.dimension} at epsilon {o.guarantee.epsilon:.3g}" for o in options)


def plan_scales(distances: Sequence[float], **facts: Any) -> ScalesPlan:
    """Plan for several distances at once; ``facts`` are those of ``plan`` but its distance. Reads no data.

    Privacy: the parts' epsilons and deltas add up to the guarantee's, so releasing all of them keeps it.
    """
    wanted = tuple(sorted(map(float, distances)))
    if len(wanted) < 2:
        raise ParameterError("a plan for several scales needs at least two distances: for one, use plan(distance=...)")
    check.positive(**{f"distances[{i}]": r for i, r in enumerate(wanted)})
    plans = [plan(distance=r, **facts) for r in wanted]
    own = tuple(_sketch(made) for made in plans)
    draft = ScalesPlan(wanted, own, own[0], own)
    single = min(plans[0].all_sketches(), key=lambda option: draft.regret([option]))
    return replace(draft, single=single, several=_split(draft, [made.request for made in plans]))


def _sketch(made: Plan) -> Option:
    return next(option for option in made.options if option.name == "sketch")


def _split(draft: ScalesPlan, requests: list[PlanRequest]) -> tuple[Option, ...]:
    """Split of the budget among sketches for several scales, at which the largest regret is least."""

    def part(request: PlanRequest, share: float) -> Option:
        whole = request.guarantee
        portion = replace(whole, epsilon=whole.epsilon * share, delta=whole.delta / len(requests))
        return quick_sketch(replace(request, guarantee=portion))

    def parts(logits: Floats) -> tuple[Option, ...]:
        return tuple(part(r, float(s)) for r, s in zip(requests, _shares(logits), strict=True))

    start, most = np.zeros(len(requests)), 25 * len(requests)
    found = scipy.optimize.minimize(
        lambda x: draft.regret(parts(x)), start, method="Nelder-Mead", options={"maxfev": most}
    )
    return parts(found.x)


def _shares(logits: Floats) -> Floats:
    """Shares of the budget for several scales: positive, adding up to 1, none tiny, never above 1 by rounding."""
    raw = np.exp(logits - logits.max())
    shares = _LEAST_SHARE + (1 - _LEAST_SHARE * raw.size) * raw / raw.sum()
    return np.asarray(shares * (1 - 1e-12))
