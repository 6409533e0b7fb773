"""Numbers that no picture can hold: what is computed of them overflows, and they come from no release of this package.

A double holds 1e308, but sums of its squares and fourth powers do not. Cells are drawn as the nearest number between
1e-50 and 1e50 in size, or as 0, and the page says so. A manifest with such numbers is refused: all errors rest on it.
"""

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ReleaseError
from sfumato.releases.release import NumbersRelease

if TYPE_CHECKING:
    from sfumato.releases.release import AnyRelease

_LARGEST, _SMALLEST = 1e50, 1e-50


def _beyond(facts: object) -> bool:
    """Whether a manifest has an extreme number: one that is too large, or that stands by itself and is too small."""
    if isinstance(facts, dict):
        return any(_beyond(fact) or _tiny(fact) for name, fact in facts.items() if name != "values")  # of categories
    if isinstance(facts, list):
        return any(map(_beyond, facts))
    return isinstance(facts, (int, float)) and abs(facts) > _LARGEST


def _tiny(fact: object) -> bool:
    return isinstance(fact, (int, float)) and 0 < abs(fact) < _SMALLEST


def drawable(release: "AnyRelease") -> tuple["AnyRelease", int]:
    """The release with extreme cells replaced by ones that can be drawn, and how many cells were extreme."""
    _check_manifest(release)
    if not isinstance(release, NumbersRelease):  # its cells are within the bounds of its columns
        return release, 0
    changed = 0 if release.columns.dtype != np.float64 else sum(map(_extremes, release.columns))
    if not changed:
        return release, 0
    nearest = np.clip(release.columns, -_LARGEST, _LARGEST)
    nearest[np.abs(nearest) < _SMALLEST] = 0.0
    return dataclasses.replace(release, columns=nearest), changed


def check_computable(release: "AnyRelease") -> None:
    """Refuse a release whose extreme numbers overflow every computation; those only too small do no harm."""
    _check_manifest(release)
    if not isinstance(release, NumbersRelease) or not release.columns.size:
        return
    if max(float(release.columns.max()), -float(release.columns.min())) > _LARGEST:
        raise ReleaseError(
            f"the release has numbers above {_LARGEST:g} in size, of which nothing can be computed: do not trust it"
        )


def _extremes(cells: NDArray[np.float64]) -> int:
    """How many cells are extreme: too large or too small. Other types than doubles hold nothing so extreme."""
    size = np.abs(cells)
    return int(np.count_nonzero((size > _LARGEST) | ((size < _SMALLEST) & (size > 0))))


def _check_manifest(release: "AnyRelease") -> None:
    facts = release.manifest["mechanism"], release.manifest.get("schema"), release.manifest.get("lattice")
    if any(map(_beyond, facts)):
        raise ReleaseError(
            f"the manifest has a number above {_LARGEST:g} or below {_SMALLEST:g} in size among its noise, bounds or "
            "weights, and what follows from it cannot be computed"
        )
