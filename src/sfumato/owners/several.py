"""What somebody loses who is with several owners: the composed loss of their releases, from the manifests alone.

Every release promises something to those who are in it. Somebody who is in several of them has one unit in each, and
what all releases together tell of these units is the composition of their losses.

- A manifest with sensitivity and scale of fixed noise gives the loss itself (Gaussian or Laplace), and such losses
  compose tightly: Gaussians exactly, the others through privacy-loss distributions.
- Any other release is known by its promise: its epsilon and delta are added to the rest (basic composition).

Formal guarantee: for inputs of all owners that differ in one unit of each, as each guarantee says what a unit, its
change and its neighbours are, the releases together satisfy (epsilon, delta).
Assumes:   no owner chose its noise by looking at what another had released (``privacy.composition``); what it released
           may depend on it. Basic composition, the sum of all epsilons, holds without that.
"""

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.fileformat.manifest import Manifest, OwnerFacts, SeveralFacts
from sfumato.privacy.composition import Book, Charge
from sfumato.privacy.losses import Gaussian, Laplace, Loss

_FIXED_NOISE = ("sketch", "distances", "covariance", "histogram")  # mechanisms whose loss is that of their noise alone
_FURTHER = ("choice", "split", "moments", "radius", "count_scale")  # facts of a run that has other parts, or is fresh
_UP = 1 + 1e-14  # what dividing and multiplying in doubles can lose of a sensitivity
_DISTRIBUTIONS = 64  # distinct losses that are composed as distributions; of more, Gaussian ones above them


def owners(manifests: Sequence[Manifest]) -> list[OwnerFacts]:
    """The owners' facts: each release by its digest, with its promise; its rows where public, and its stream."""
    facts: list[OwnerFacts] = []
    for manifest in manifests:
        if "owners" in manifest:  # a sum of several already
            facts += manifest["owners"]
            continue
        one: OwnerFacts = {"digest": manifest["digest"], "guarantee": manifest["guarantee"]}
        if "rows" in manifest:
            one["rows"] = manifest["rows"]
        if "stream" in manifest:
            one["stream"] = manifest["stream"]["id"]
        facts.append(one)
    return facts


def several(manifests: Sequence[Manifest], delta: float | None = None) -> SeveralFacts:
    """The composed loss of somebody who is with all of these owners, rounded to the private side.

    delta : at which epsilon is stated (default: the sum of the deltas that were promised). A release that is known by
            its promise alone needs its own delta within it.

    Guarantee: for one unit of each owner that change together, as above. Nothing is read but manifests.
    """
    if not manifests:
        raise ParameterError("several needs the manifest of at least one release, got none")
    promises = [_promise(manifest) for manifest in manifests]
    at = _added(delta for _, delta in promises) if delta is None else delta
    check.probability_below_one(delta=at)
    losses = [loss_of(manifest) for manifest in manifests]
    both = list(zip(promises, losses, strict=True))
    known = [Charge.of(*promise, loss) for promise, loss in both if loss is not None]
    others = [promise for promise, loss in both if loss is None]
    left = Decimal(repr(at)) - sum((Decimal(repr(delta)) for _, delta in others), Decimal(0))
    if left < 0:
        raise check.fail("delta", delta, "at least the sum of the deltas of the releases that have no known noise")
    rest = _least_epsilon(known, math.nextafter(float(left), 0.0) if others and left else float(left))
    if math.isinf(rest):
        raise check.fail("delta", delta, "larger: at this delta no epsilon can be stated")
    return {"epsilon": _added([*(epsilon for epsilon, _ in others), rest]), "delta": at}


def loss_of(manifest: Manifest) -> Loss | None:
    """The loss of a release out of its manifest; None if it is known by its promise alone.

    Sensitivity and scale are in one unit, of which the loss does not depend. A loss that does not keep the promise
    that the manifest states is not believed.
    """
    facts: Mapping[str, Any] = manifest["mechanism"]
    plain = facts.get("name") in _FIXED_NOISE and {"noise", "sensitivity", "scale"} <= set(facts)
    if not plain or any(name in facts for name in _FURTHER) or not {"several", "stream"}.isdisjoint(manifest):
        return None
    moved = facts["sensitivity"] / facts["scale"] * _UP
    loss: Loss = Gaussian(moved, 1.0) if facts["noise"] == "gaussian" else Laplace(moved, 1.0)
    epsilon, delta = _promise(manifest)
    return loss if loss.delta(epsilon * (1 + 1e-9)) <= delta * (1 + 1e-6) else None


def _promise(manifest: Manifest) -> tuple[float, float]:
    """Epsilon and delta that a manifest promises to a unit of its owner, or of all owners whose sum it is."""
    said: Any = manifest.get("several", manifest["guarantee"])
    return float(said["epsilon"]), float(said["delta"])


def _least_epsilon(charges: Sequence[Charge], delta: float) -> float:
    """The least epsilon of composed losses at a delta, by the bounds that are quick enough; 0 of no loss."""
    if not charges:
        return 0.0
    distinct = {charge.loss for charge in charges if not isinstance(charge.loss, Gaussian)}
    if len(distinct) <= _DISTRIBUTIONS:
        return Book(charges, "tight").total(delta).epsilon
    majorised = [charge.majorised() for charge in charges]
    return min(Book(majorised, rule).total(delta).epsilon for rule in ("basic", "advanced", "gaussian"))


def _added(numbers: Any) -> float:
    """A sum of numbers as they were written, in decimals, rounded up where a double cannot hold it."""
    whole = sum((Decimal(repr(float(number))) for number in numbers), Decimal(0))
    found = float(whole)
    return found if Decimal(repr(found)) >= whole else math.nextafter(found, math.inf)
