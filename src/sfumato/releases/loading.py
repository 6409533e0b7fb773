"""Opening a release folder, and which class serves which kind."""

from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
from numpy.typing import NDArray

from sfumato.fileformat import release_folder
from sfumato.fileformat.manifest import Manifest
from sfumato.releases.covariance import CovarianceRelease
from sfumato.releases.distances import DistancesRelease
from sfumato.releases.graph import GraphSketchRelease, PairsRelease
from sfumato.releases.responses import ResponsesRelease
from sfumato.releases.sketch import SketchRelease
from sfumato.releases.synthetic import SyntheticRelease

AnyRelease: TypeAlias = Any  # a class of this package, by kind; what can be asked of it depends on the kind

_KINDS: dict[str, Any] = {
    "sketch": SketchRelease,
    "synthetic": SyntheticRelease,
    "components": SketchRelease,
    "responses": ResponsesRelease,
    "distances": DistancesRelease,
    "covariance": CovarianceRelease,
    "graph-sketch": GraphSketchRelease,
    "graph-noise": PairsRelease,
    "graph-responses": PairsRelease,
}


def of_kind(manifest: Manifest, columns: NDArray[Any], projection: Any, ids: pa.Array | None) -> AnyRelease:
    """The release of a manifest's kind."""
    return _KINDS[manifest["kind"]](manifest, columns, projection, ids)


def load(path: str | Path, *, allow_unprotected: bool = False) -> AnyRelease:
    """Open a release folder: checks its form, version and digests first, executes nothing, refuses test noise."""
    folder = Path(path)
    manifest = release_folder.open_folder(folder, allow_unprotected=allow_unprotected)
    columns, ids = release_folder.read_numbers(folder, manifest)
    return of_kind(manifest, columns, release_folder.read_projection(folder, manifest), ids)
