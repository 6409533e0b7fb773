"""What all sums of releases share: which promises are comparable, no release twice, what the manifest of a sum says."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from sfumato.errors import ReleaseError
from sfumato.fileformat.manifest import RANDOMNESS, Facts, Manifest, SeveralFacts
from sfumato.owners.several import owners, several
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.releases.release import AnyRelease

_MOST_WARNINGS = 20
_UNITS = {"attribute": "single values", "record": "whole records", "edge": "edges"}
_NEIGHBOURS = {"replace": "shows the number of rows", "add-remove": "protects the number of rows"}
_SAID: dict[str, Callable[[Any], str]] = {  # fields of a guarantee, and what one that has a value does
    "unit": lambda unit: f"protects {_UNITS[unit]}",
    "neighbours": lambda neighbours: _NEIGHBOURS[neighbours],
    "group": lambda group: f"protects {group} rows of a person" if group > 1 else "protects one row of a person",
    "change": lambda change: f"protects a change of {Change(**change).describe()}",
    "projection": lambda use: f"holds for a {use} projection",
}


def remember(seen: set[str], release: AnyRelease) -> Manifest:
    """Refuse a release that is added twice: the same manifest, the same numbers, or another period of its stream.

    The manifest of the release, whose digest tells it from all others: one in memory has no files that would.
    """
    numbers = hashlib.sha256(np.ascontiguousarray(release.columns).tobytes()).hexdigest()
    manifest: Manifest = release.manifest
    if not manifest["files"]:
        named = hashlib.sha256(f"{manifest['digest']} {numbers}".encode()).hexdigest()
        manifest = cast("Manifest", dict(manifest) | {"digest": named})
    within = owners([manifest])
    streams = {f"stream {owner['stream']}" for owner in within if "stream" in owner}
    if streams & seen:
        raise ReleaseError(
            "two of these releases are of one stream, whose running sums hold the same records: give the newest alone"
        )
    own = {numbers, manifest["digest"], *(owner["digest"] for owner in within)}
    if own & seen:
        raise ReleaseError("the same release is in the sum twice: give each owner's release once")
    seen |= own | streams
    return manifest


def different_promises(one: Mapping[str, Any], two: Mapping[str, Any]) -> Iterator[str]:
    """What makes two guarantees of a sum not comparable, in words: all but epsilon and delta."""
    for name, words in _SAID.items():
        if one[name] != two[name] and (name != "change" or one["unit"] == two["unit"]):
            yield f"the guarantee's {name} (one {words(one[name])}, the other {words(two[name])})"


def weakest(promises: Sequence[Any]) -> Facts:
    """The guarantee of a sum to a unit that one owner has: the largest epsilon and the largest delta of all."""
    found = Guarantee.from_dict(promises[0]).to_dict()
    return dict(found) | {name: max(promise[name] for promise in promises) for name in ("epsilon", "delta")}


def summed_facts(manifests: Sequence[Manifest], *, parts: bool = False) -> Facts:
    """What the manifest of any sum says of its owners, and what it has from all of them; parts: of one record each."""
    spaces = [manifest.get("space") for manifest in manifests]
    return {
        **({"space": spaces[0]} if spaces[0] is not None and all(s == spaces[0] for s in spaces) else {}),
        "owners": owners(manifests),
        "several": _with_all(manifests, parts=parts),
        "protected": all(manifest["protected"] for manifest in manifests),
        "accounted": False,
        "numerics": "exact" if all(m["numerics"] == "exact" for m in manifests) else "idealized",
        "randomness": RANDOMNESS,
        "warnings": _warnings(manifests),
    }


def _with_all(manifests: Sequence[Manifest], *, parts: bool) -> SeveralFacts:
    """What a sum states for a unit that is with all owners: their composed loss, and no less than one of them promises.

    At the sum of very different deltas all may cost less epsilon than one says at its own. Readers, who know promises
    alone, could not tell that from a forged sum.
    """
    found = several(manifests, parts=parts)
    most = max(float(owner["guarantee"]["epsilon"]) for owner in owners(manifests))
    found["epsilon"] = max(found["epsilon"], most)
    if "record" in found:
        found["record"]["epsilon"] = max(found["record"]["epsilon"], found["epsilon"])
    return found


def _warnings(manifests: Sequence[Manifest]) -> list[str]:
    """The warnings of all owners in a sum, each once with how many had it; the rest are counted."""
    found = Counter(line for manifest in manifests for line in dict.fromkeys(manifest["warnings"]))
    lines = [f"{many} of {len(manifests)} releases: {line}" for line, many in found.most_common(_MOST_WARNINGS)]
    more = len(found) - len(lines)
    return [*lines, *([f"{more} further warnings of the owners are in their releases"] if more > 0 else [])]
