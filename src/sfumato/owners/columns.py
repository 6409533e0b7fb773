"""Sums of sketches of different columns over the same records, in one shared space.

An owner who holds some columns of a space publishes its records under the rows of the joint projection for them. The
exact images of the parts of a record add up to the image of the record, and so do the released numbers, row by row,
with the sum of the independent noises: Gaussian noises sum to Gaussian noise exactly. With Laplace noise in it, the sum
is taken for one Laplace noise of the same variance: variances and bias are right, and as its fourth moment is larger
than that of the sum, intervals at the usual levels (90% and above) are a little wide.

Formal guarantee: none is spent. Each record is with all owners, so what protects one value of it (unit 'attribute') is
the promise of the owner who has it, of which the weakest is stated; and what protects a whole record is the composition
of all promises, which is stated for units of records (``several``, and its ``record`` beside one value).
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy

from sfumato.errors import ParameterError, ReleaseError
from sfumato.fileformat import writer
from sfumato.fileformat.manifest import Facts, Manifest
from sfumato.fileformat.spaces import space_in
from sfumato.owners.summed import different_promises, remember, summed_facts, weakest
from sfumato.projection.space import Space, told
from sfumato.releases.release import AnyRelease, of_kind


def add_columns(releases: Sequence[AnyRelease]) -> AnyRelease:
    """The sum of sketches of different columns of the same records; refused, by what differs, if they do not fit.

    Columns of the space that no owner holds are left out: the sum is then of the others, and says so.
    """
    if len(releases) < 2:
        raise ParameterError("a sum is of two or more releases, got one")
    seen: set[str] = set()
    manifests = [remember(seen, release) for release in releases]
    space = _common_space(manifests)
    columns = _columns(manifests, space)
    _check_rows(releases)
    manifest = writer.seal(_fields(manifests, space, columns) | {"files": {}})
    values = np.sum([np.asarray(release.columns, np.float64) for release in releases], axis=0)
    return of_kind(manifest).of_blocks(manifest, [(values, releases[0].ids)], _projection(releases, space), {})


def _common_space(manifests: Sequence[Manifest]) -> Space:
    """The space of all sketches that are added."""
    first: Space | None = None
    for manifest in manifests:
        if manifest["kind"] != "sketch":
            raise ReleaseError(f"releases of one kind add up, got 'sketch' and {manifest['kind']!r}")
        space = space_in(manifest)
        if space is None:
            raise ReleaseError("sketches add up in a shared space: one of these names none, so its columns are its own")
        different = () if first is None else first.differences(space)
        if different:
            raise ReleaseError(f"these sketches are in different spaces: {told(different)}")
        first = space
        promises = list(different_promises(manifests[0]["guarantee"], manifest["guarantee"]))
        if promises or "choice" in manifest["mechanism"]:
            raise ReleaseError(f"these sketches do not add up: {told(promises or ['a dimension that was chosen'])}")
    assert first is not None
    return first


def _columns(manifests: Sequence[Manifest], space: Space) -> list[str]:
    """The columns of all owners together, in the space's order; none may be with two of them."""
    found: list[str] = []
    for manifest in manifests:
        if "columns" not in manifest["space"]:
            raise ReleaseError(
                "one of these sketches holds all columns of the space: sketches of different columns of the same "
                "records add up, and those of different records are joined"
            )
        twice = set(found) & set(manifest["space"]["columns"])
        if twice:
            raise ReleaseError(f"two of these sketches hold the column {min(twice)!r}: columns must be different")
        found += manifest["space"]["columns"]
    return [column.name for column in space.schema.data_columns if column.name in found]


def _check_rows(releases: Sequence[AnyRelease]) -> None:
    """Sketches that are added are of the same records in the same order: as many, and with the same public ids."""
    rows = {release.rows for release in releases}
    if len(rows) > 1:
        raise ReleaseError(f"sketches of the same records add up, got {min(rows)} and {max(rows)} rows")
    ids = [release.ids for release in releases]
    if any(one is not None for one in ids) and not all(one is not None and one.equals(ids[0]) for one in ids):
        raise ReleaseError("the ids of these sketches differ: rows must be the same records in the same order")


def _fields(manifests: Sequence[Manifest], space: Space, columns: Sequence[str]) -> Facts:
    """What the manifest of the sum says."""
    part = space.part(columns)
    whole = part.rows.size == space.schema.encoding.dim
    facts = summed_facts(manifests, parts=True)
    held = {} if whole else {"columns": list(columns), "schema": space.schema.to_dict()}
    missing = [column.name for column in space.schema.data_columns if column.name not in columns]
    warnings = facts["warnings"] if whole else [*facts["warnings"], _without(missing)]
    finest = min((manifest["lattice"] for manifest in manifests), key=lambda lattice: lattice["unit"])
    return {
        "kind": "sketch",
        "guarantee": _promise(manifests, facts),
        "mechanism": _mechanism(manifests),
        "projection": dict(manifests[0]["projection"]) | {"dim_in": part.rows.size},
        "lattice": dict(finest) | {"numbers": "float64"},
        "schema": (space.schema if whole else part.schema).to_dict(),
        "rows": manifests[0]["rows"],
        **facts,
        "space": {"digest": space.digest, **space.facts, **held},
        "warnings": warnings,
    }


def _without(missing: Sequence[str]) -> str:
    some = ", ".join(missing[:10]) + (", ..." if len(missing) > 10 else "")
    return f"no release in this sum has these columns of the space, which are left out: {some}"


def _promise(manifests: Sequence[Manifest], facts: Facts) -> Facts:
    """The guarantee of a sum over columns: of one value the weakest, of a whole record what all owners promise."""
    found = weakest([manifest["guarantee"] for manifest in manifests])
    if found["unit"] == "attribute" and found["group"] == 1:
        return found
    return found | {name: facts["several"][name] for name in ("epsilon", "delta")}


def _mechanism(manifests: Sequence[Manifest]) -> Facts:
    """The noise of the sum, and how far a whole record moves it at most."""
    facts: list[Any] = [manifest["mechanism"] for manifest in manifests]
    deviation = math.sqrt(math.fsum(one["standard_deviation"] ** 2 for one in facts))
    laplace = any(one["noise"] == "laplace" for one in facts)
    return {
        "name": "sketch",
        "noise": "laplace" if laplace else "gaussian",
        "sensitivity": math.fsum(one["sensitivity"] for one in facts),
        "scale": deviation / (math.sqrt(2) if laplace else 1.0),
        "standard_deviation": deviation,
    }


def _projection(releases: Sequence[AnyRelease], space: Space) -> Any:
    """The rows of the joint projection for all columns of the sum, in the space's order; None if not published."""
    matrices = [release.projection for release in releases]
    if any(matrix is None for matrix in matrices):
        raise ReleaseError("the projection of a shared space is published, and one of these releases has none")
    rows = np.concatenate([space.part(release.manifest["space"]["columns"]).rows for release in releases])
    order = np.argsort(rows)
    if all(isinstance(matrix, np.ndarray) for matrix in matrices):
        return np.concatenate(matrices)[order]
    return scipy.sparse.vstack([scipy.sparse.csr_array(matrix) for matrix in matrices]).tocsr()[order]
