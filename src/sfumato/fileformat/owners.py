"""What a manifest says of several owners whose releases were added up: checked, and in words for people."""

import math
from collections.abc import Iterable

from sfumato.fileformat.manifest import Manifest
from sfumato.fileformat.spaces import space_agrees
from sfumato.privacy.guarantee import GuaranteeFields
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
    owners = manifest["owners"]
    for said in (manifest["guarantee"], manifest["several"]):
        if any(said[name] < owner["guarantee"][name] * _BELOW for owner in owners for name in ("epsilon", "delta")):
            return False
    return manifest["several"]["delta"] <= math.fsum(owner["guarantee"]["delta"] for owner in owners) / _BELOW


def by_value(promises: Iterable[GuaranteeFields]) -> str:
    """A sentence for people, after a composed loss of several owners, on those who protect values and no records."""
    if all(promise["unit"] != "attribute" for promise in promises):
        return ""
    return " It counts one value, and not a whole record, with each owner whose unit is attribute."


def owners_sentence(manifest: Manifest) -> str | None:
    """Sentences for people about the owners of what was added up; None for a release of one owner."""
    if "owners" not in manifest:
        return None
    count, several = len(manifest["owners"]), manifest["several"]
    slack = f" and delta {several['delta']:.6g}" if several["delta"] else ""
    loss = f"epsilon {several['epsilon']:.6g}{slack}"
    values = by_value(owner["guarantee"] for owner in manifest["owners"])
    if manifest["kind"] in BY_COLUMNS:
        return (
            f"It is a sum of {count} releases, of owners who hold different columns of the same records, so each "
            f"record is with all of them: together they cost its person up to {loss}.{values}"
        )
    return (
        f"It is a sum of {count} releases, of owners who hold different records: the promise is that of the owner who "
        f"promised least, to somebody who is with one of them. Somebody who is with all of them loses up to {loss}."
        f"{values}"
    )
