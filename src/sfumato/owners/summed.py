"""What all sums of releases share: which promises are comparable, no release twice, what the manifest of a sum says."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from sfumato.errors import ReleaseError
from sfumato.fileformat.manifest import RANDOMNESS, Facts, Manifest
from sfumato.owners.several import owners, several
from sfumato.privacy.guarantee import Guarantee
from sfumato.releases.release import AnyRelease

_MOST_WARNINGS = 20


def remember(seen: set[str], release: AnyRelease) -> Manifest:
    """The manifest of a release that is added, its digest that of this one release; refused if it is added twice.

    The digest of a release that is in no folder is that of its settings alone, which owners of as many rows share: here
    it is of its numbers too.
    """
    numbers = hashlib.sha256(np.ascontiguousarray(release.columns).tobytes()).hexdigest()
    manifest, found = release.manifest, release.manifest["digest"]
    if not manifest["files"]:
        found = hashlib.sha256(f"{found} {numbers}".encode()).hexdigest()
    own = {numbers, found, *(owner["digest"] for owner in manifest.get("owners", []))}
    if own & seen:
        raise ReleaseError("the same release is in the sum twice: give each owner's release once")
    seen |= own
    return cast("Manifest", manifest | {"digest": found})


def different_promises(one: Mapping[str, Any], two: Mapping[str, Any]) -> Iterator[str]:
    """What makes two guarantees of a sum not comparable: all but epsilon and delta."""
    for name in ("unit", "neighbours", "group", "change", "projection"):
        if one[name] != two[name]:
            yield f"the guarantee's {name} ({one[name]} and {two[name]})"


def weakest(promises: Sequence[Any]) -> Facts:
    """The guarantee of a sum to a unit that one owner has: the largest epsilon and the largest delta of all."""
    found = Guarantee.from_dict(promises[0]).to_dict()
    return dict(found) | {name: max(promise[name] for promise in promises) for name in ("epsilon", "delta")}


def summed_facts(manifests: Sequence[Manifest]) -> Facts:
    """What the manifest of any sum says of its owners, and what it has from all of them."""
    spaces = [manifest.get("space") for manifest in manifests]
    return {
        **({"space": spaces[0]} if spaces[0] is not None and all(s == spaces[0] for s in spaces) else {}),
        "owners": owners(manifests),
        "several": several(manifests),
        "protected": all(manifest["protected"] for manifest in manifests),
        "accounted": False,
        "numerics": "exact" if all(m["numerics"] == "exact" for m in manifests) else "idealized",
        "randomness": RANDOMNESS,
        "warnings": _warnings(manifests),
    }


def _warnings(manifests: Sequence[Manifest]) -> list[str]:
    """The warnings of all owners in a sum, each once with how many had it; the rest are counted."""
    found = Counter(line for manifest in manifests for line in dict.fromkeys(manifest["warnings"]))
    lines = [f"{many} of {len(manifests)} releases: {line}" for line, many in found.most_common(_MOST_WARNINGS)]
    more = len(found) - len(lines)
    return [*lines, *([f"{more} further warnings of the owners are in their releases"] if more > 0 else [])]
