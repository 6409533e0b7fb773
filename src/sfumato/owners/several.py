"""What somebody loses who is with several owners: the composed loss of their releases, from the manifests alone.

Every release promises something to those who are in it. Somebody who is in several of them has one unit in each, and
what all releases together tell of these units is the composition of their losses, in one unit:

- ``record`` where all protect whole records, or some do and the others protect single values: a release that protects
  a value costs a record as many times as it has values there (``privacy.units``).
- ``attribute`` where all protect single values: one value with each. What a whole record costs is stated beside it.
- ``each`` where there is no common unit, as with changes within a ball or with different groups: one unit of each
  owner, as each promises.

- A manifest with sensitivity and scale of fixed noise gives the loss itself (Gaussian or Laplace), and such losses
  compose tightly: Gaussians exactly, the others through privacy-loss distributions.
- Any other release is known by its promise: its epsilon and delta are added to the rest (basic composition).

Formal guarantee: for inputs of all owners that differ in one stated unit of each, the releases together satisfy
(epsilon, delta). Neighbours are those of the guarantees; where some protect the number of rows and others do not, a
unit is replaced, which is one out and one in for the former.
Assumes:   no owner chose its noise by looking at what another had released (``privacy.composition``); what it released
           may depend on it. Basic composition, the sum of all epsilons, holds without that.
"""

import json
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from sfumato import check
from sfumato.errors import LedgerError, ParameterError
from sfumato.fileformat.manifest import LossFacts, Manifest, OwnerFacts, SeveralFacts
from sfumato.privacy.composition import Book, Charge
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Gaussian, Laplace, Loss
from sfumato.privacy.stored_losses import group_delta
from sfumato.privacy.units import Cap, units
from sfumato.tables.schema import Schema

StatedUnit = Literal["record", "attribute", "each"]

_FIXED_NOISE = ("sketch", "distances", "covariance", "histogram")  # mechanisms whose loss is that of their noise alone
_FURTHER = ("choice", "split", "moments", "radius", "count_scale")  # facts of a run that has other parts, or is fresh
_UP = 1 + 1e-14  # what dividing and multiplying in doubles can lose of a sensitivity
_DISTRIBUTIONS = 64  # distinct losses that are composed as distributions; of more, Gaussian ones above them
_SMALL = 100.0  # epsilons that are worth a distribution: it takes long for larger ones, which say little


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


def several(manifests: Sequence[Manifest], delta: float | None = None, *, parts: bool = False) -> SeveralFacts:
    """The composed loss of somebody who is with all of these owners, rounded to the private side, and its unit.

    delta : at which epsilon is stated (default: the sum of the deltas that were promised). A release that is known by
            its promise alone needs its own delta within it.
    parts : the owners hold different columns of the same records, so one value is with one of them only.

    Guarantee: for one unit of each owner that change together, as above. Nothing is read but manifests.
    """
    if not manifests:
        raise ParameterError("several needs the manifest of at least one release, got none")
    unit = _common_unit(manifests)
    if unit == "attribute":
        costs = _costs(manifests, "attribute")
        each = [_composed([cost], delta) for cost in costs] if parts else [_composed(costs, delta)]
        value: SeveralFacts = {
            "epsilon": max(one["epsilon"] for one in each),
            "delta": max(one["delta"] for one in each),
            "unit": "attribute",
        }
        whole = _of_a_record(manifests, delta)
        return value if whole is None else value | {"record": whole}
    if unit == "record":
        record = _of_a_record(manifests, delta)
        if record is not None:
            return {"epsilon": record["epsilon"], "delta": record["delta"], "unit": "record"}
    each_own = _composed(_costs(manifests, "each"), delta)
    return {"epsilon": each_own["epsilon"], "delta": each_own["delta"], "unit": "each"}


# ---- units ----------------------------------------------------------------------------------------------------------


class _Cost(NamedTuple):
    """What a release costs: its promise, its loss if that is known, and how many units of its own change."""

    epsilon: float
    delta: float
    loss: Loss | None
    times: int = 1


def _common_unit(manifests: Sequence[Manifest]) -> StatedUnit:
    """The unit that what these releases cost together can be stated in."""
    promises = [manifest["guarantee"] for manifest in manifests]
    within = any(promise["change"]["kind"] not in ("attribute", "box") for promise in promises)
    groups = {promise["group"] for promise in promises if promise["unit"] == "record"}
    summed = any(manifest["several"]["unit"] == "each" for manifest in manifests if "several" in manifest)
    kinds = {promise["unit"] for promise in promises}
    if within or summed or len(groups) > 1 or "edge" in kinds:
        return "each"
    return "attribute" if kinds == {"attribute"} else "record"


def _of_a_record(manifests: Sequence[Manifest], delta: float | None) -> LossFacts | None:
    """What a whole record with each owner costs; None if no epsilon can be stated."""
    try:
        costs = _costs(manifests, "record")
    except LedgerError:
        return None
    alike = all(cost.times == 1 for cost in costs)
    try:
        return _composed(costs, delta)
    except ParameterError:
        if alike:
            raise
        return None  # so many values that group privacy leaves nothing of a promise, or not at this delta


def _costs(manifests: Sequence[Manifest], unit: StatedUnit) -> list[_Cost]:
    """What each release costs for a unit."""
    if unit == "each":
        return [_Cost(*_promise(manifest), loss_of(manifest)) for manifest in manifests]
    promises = [Guarantee.from_dict(manifest["guarantee"]) for manifest in manifests]
    group = max(promise.group for promise in promises) if unit == "record" else 1
    replaced = any(promise.neighbours == "replace" for promise in promises)
    wanted = Guarantee(
        epsilon=1.0, delta=0.0, unit=unit, group=group, neighbours="replace" if replaced else "add-remove"
    )
    known: dict[str, int] = {}
    found = []
    for manifest, promise in zip(manifests, promises, strict=True):
        said, values = _promise(manifest), 1
        if unit == "record" and promise.unit == "attribute":
            if "several" in manifest:
                if "record" not in manifest["several"]:
                    raise LedgerError("a sum of releases that states nothing for whole records")
                whole = manifest["several"]["record"]
                said = whole["epsilon"], whole["delta"]
            else:
                values = _values(manifest, known)
        found.append(_Cost(*said, loss_of(manifest), units(promise, Cap(wanted), values)))
    return found


def _values(manifest: Manifest, known: dict[str, int]) -> int:
    """How many values a record has in a release; many have one schema, which is read once."""
    written = json.dumps(manifest["schema"], sort_keys=True)
    if written not in known:
        known[written] = Schema.from_dict(manifest["schema"]).encoding.values
    return known[written]


# ---- composition ----------------------------------------------------------------------------------------------------


def _composed(costs: Sequence[_Cost], delta: float | None) -> LossFacts:
    """All costs together, at a delta."""
    known = [cost for cost in costs if cost.loss is not None]
    others = [_grouped(cost) for cost in costs if cost.loss is None]
    at = _added([*(cost.delta for cost in known), *(d for _, d in others)]) if delta is None else delta
    check.probability_below_one(delta=at)
    left = Decimal(repr(at)) - sum((Decimal(repr(delta)) for _, delta in others), Decimal(0))
    if left < 0:
        raise check.fail("delta", delta, "at least the sum of the deltas of the releases that have no known noise")
    charges = [Charge.of(cost.epsilon, cost.delta, cost.loss, cost.times) for cost in known if cost.loss is not None]
    rest = _least_epsilon(charges, math.nextafter(float(left), 0.0) if others and left else float(left))
    if math.isinf(rest):
        raise check.fail("delta", delta, "larger: at this delta no epsilon can be stated")
    return {"epsilon": _added([*(epsilon for epsilon, _ in others), rest]), "delta": at}


def _grouped(cost: _Cost) -> tuple[float, float]:
    """The promise to as many units as change, by group privacy."""
    return _added([cost.epsilon] * cost.times), group_delta(cost.epsilon, cost.delta, cost.times)


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
    large = bool(distinct) and math.fsum(charge.epsilon for charge in charges) > _SMALL
    if len(distinct) <= _DISTRIBUTIONS and not large:
        return Book(charges, "tight").total(delta).epsilon
    majorised = [charge.majorised() for charge in charges]
    return min(Book(majorised, rule).total(delta).epsilon for rule in ("basic", "advanced", "gaussian"))


def _added(numbers: Any) -> float:
    """A sum of numbers as they were written, in decimals, rounded up where a double cannot hold it."""
    whole = sum((Decimal(repr(float(number))) for number in numbers), Decimal(0))
    found = float(whole)
    return found if Decimal(repr(found)) >= whole else math.nextafter(found, math.inf)
