"""What a manifest says of several owners whose releases were added up: checked, and in words for people."""

import math
from collections.abc import Mapping
from typing import Any

from sfumato.fileformat.manifest import LossFacts, Manifest, SeveralFacts
from sfumato.fileformat.spaces import space_agrees
from sfumato.tables.schema import Schema

BY_COLUMNS = ("sketch",)  # kinds whose sums are of different columns of the same records
_BELOW = 1 - 1e-9  # what adding up in doubles may lose


def several_agree(manifest: Manifest, schema: Schema | None) -> bool:
    """Check of a manifest that is about several owners: of a shared space, and of what was added up."""
    return space_agrees(manifest, schema) and owners_agree(manifest)


def owners_agree(manifest: Manifest) -> bool:
    """Check of a manifest of several owners: no release twice, rows that fit, and promises that are not stronger.

    Owners of different records have theirs added up, owners of different columns have the same ones.
    """
    if "owners" not in manifest:
        return True
    owners = manifest["owners"]
    if len({owner["digest"] for owner in owners}) < len(owners):
        return False
    if not _promises_agree(manifest):
        return False
    rows = [owner.get("rows") for owner in owners]
    if manifest["kind"] in BY_COLUMNS:
        return all(count == manifest.get("rows") for count in rows)
    if "rows" not in manifest:
        return not any(rows)
    return all(rows) and sum(count or 0 for count in rows) == manifest["rows"]


def _promises_agree(manifest: Manifest) -> bool:
    """Whether a sum promises no more than its owners do: to a unit of one of them, and to one that is with all."""
    owners, several = manifest["owners"], manifest["several"]
    stated: list[Any] = [manifest["guarantee"], several, *([several["record"]] if "record" in several else [])]
    for said in stated:
        if any(said[name] < owner["guarantee"][name] * _BELOW for owner in owners for name in ("epsilon", "delta")):
            return False
    if not _unit_agrees(manifest):
        return False
    return several["delta"] <= math.fsum(owner["guarantee"]["delta"] for owner in owners) / _BELOW


def _unit_agrees(manifest: Manifest) -> bool:
    """Whether the unit of a composed loss is one that the owners' promises can be stated in."""
    several, promises = manifest["several"], [owner["guarantee"] for owner in manifest["owners"]]
    if several["unit"] == "attribute":
        record = several.get("record", several)
        values = all(promise["unit"] == "attribute" for promise in promises)
        return values and all(record[name] >= several[name] * _BELOW for name in ("epsilon", "delta"))
    return "record" not in several and (
        several["unit"] == "each" or all(promise["change"]["kind"] in ("attribute", "box") for promise in promises)
    )


def composed_words(manifest: Mapping[str, Any], digits: int = 6) -> str:
    """The composed loss of somebody who is with all owners, in a few words: with what it is the loss of."""
    several: SeveralFacts = manifest["several"]
    parts = manifest["kind"] in BY_COLUMNS
    group = max(owner["guarantee"]["group"] for owner in manifest["owners"])
    return loss_words(several, group, parts=parts, digits=digits)


def loss_words(several: SeveralFacts, group: int = 1, *, parts: bool = False, digits: int = 6) -> str:
    """A composed loss of several owners in a few words; parts: they hold different columns of the same records."""
    with_each = "" if parts else " with each"
    whole = "the whole record" if parts else f"a whole record{with_each}"
    whole = whole if group == 1 else f"the up to {group} records of a person{with_each}"
    if several["unit"] == "each":
        return f"{_loss(several, digits)} for one unit of each, as each promises"
    if several["unit"] == "record":
        return f"{_loss(several, digits)} for {whole}"
    value = f"{_loss(several, digits)} for one value{with_each}"
    if "record" in several:
        return f"{value}, {_loss(several['record'], digits)} for {whole}"
    return f"{value}; for {whole} no epsilon can be stated"


def _loss(said: LossFacts, digits: int) -> str:
    slack = f" and delta {said['delta']:.{digits}g}" if said["delta"] else ""
    return f"epsilon {said['epsilon']:.{digits}g}{slack}"


def owners_sentence(manifest: Manifest) -> str | None:
    """Sentences for people about the owners of what was added up; None for a release of one owner."""
    if "owners" not in manifest:
        return None
    count, loss = len(manifest["owners"]), composed_words(manifest)
    if manifest["kind"] in BY_COLUMNS:
        return (
            f"It is a sum of {count} releases, of owners who hold different columns of the same records, so each "
            f"record is with all of them: together they cost its person up to {loss}."
        )
    return (
        f"It is a sum of {count} releases, of owners who hold different records: the promise is that of the owner who "
        f"promised least, to somebody who is with one of them. Somebody who is with all of them loses up to {loss}."
    )
