"""The grey-box audit: run a mechanism on two neighbouring inputs with the same outcomes, and compare everything else.

A run on the first input is recorded; on the second it is replayed so that every draw has the recorded outcome
(``recorder``). Then:

- what was fed to the draws of each stage moved by no more than the mechanism says that one unit moves it
  (``claimed_moves``);
- the draws are the same in number, place, law, scale and size, and no two streams share a place;
- the release folder is the same to the byte: numbers, projection, manifest, page, file sizes; and so is what was said
  on the way: progress, warnings, output, or the error that ended it.

Sketches that are private by themselves add no noise to anything. For them the covariance of the published rows is
compared instead, and of the folder all but the numbers.

What it does not see: time, memory, and what both inputs share. The progress of graphs is left out: it counts lines as
the owner's own file is read, on the owner's terminal, and they are no public number.
"""

import contextlib
import io
import json
import shutil
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.audit import recorder
from sfumato.audit.block_rows import Ready
from sfumato.audit.claimed_moves import SLACK, Stages, allowed, moves, row_covariance, stretch
from sfumato.audit.recorder import Tape
from sfumato.engines.local import LocalRows
from sfumato.errors import ReleaseError
from sfumato.files.edges import open_edges
from sfumato.files.open_table import open_table
from sfumato.mechanisms.base import Prepared, Recipe
from sfumato.mechanisms.covariance import PreparedCovarianceSketch
from sfumato.mechanisms.graph_sketch import PreparedGraphSketch
from sfumato.pipeline.fitting import settled
from sfumato.pipeline.release import release_to
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness.secret import Secret
from sfumato.tables.blocks import Blocks, Rows
from sfumato.tables.schema import Schema

_DIGESTS = ("data.parquet", "manifest.json", "registry.yaml")  # they hold the numbers, or a digest of them


@dataclass(frozen=True, slots=True)
class GreyBox:
    """What the two runs had in common, and what not.

    moved  : of each stage, the share of what one unit may move that these inputs moved.
    faults : what depended on the data and should not have; empty where the audit passed. Never a value of a cell.
    """

    moved: Stages
    faults: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether the grey-box audit found nothing."""
        return not self.faults


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything that a run lets one see in a grey-box audit."""

    files: dict[str, bytes]
    said: str
    progress: tuple[int, ...]
    error: str


def greybox(first: Any, second: Any, *, schema: Schema | None, mechanism: Recipe, guarantee: Guarantee) -> GreyBox:
    """Grey-box audit: compare a release of two neighbouring inputs; each is anything that ``release`` takes.

    Whether they are neighbours in the sense of the guarantee is for the caller to know. Raises ReleaseError if neither
    can be released: a comparison of two refusals would say that nothing was found.
    """
    schema = None if schema is None else settled(first, schema)[1]
    prepared = mechanism.prepare(schema, guarantee)
    level, alone = (
        calibrate(prepared, guarantee).level,
        isinstance(prepared, PreparedCovarianceSketch | PreparedGraphSketch),
    )
    recorded = Tape(settle=not alone)
    replayed = recorded.replay(settle=not alone)
    with tempfile.TemporaryDirectory() as place:
        runs = (first, recorded), (second, replayed)
        one, two = (_observed(prepared, data, Path(place) / "release", recorder.secret(tape)) for data, tape in runs)
    if one.error and one.error == two.error:
        raise ReleaseError(f"neither input could be released, so there is nothing to compare: {one.error}")
    limits = allowed(prepared, level)
    if alone:
        moved = {} if one.error else _stretched(prepared, level, first, second)
        faults = [*differences(one, two, apart=_DIGESTS), *_manifests(one, two)]
    else:
        pairs = [(draw, replayed.draws[key]) for key, draw in recorded.draws.items() if key in replayed.draws]
        moved = moves([p for p in pairs if p[0].kind == p[1].kind], limits)
        faults = [*recorded.faults, *replayed.faults, *replayed.missing(), *differences(one, two)]
    shares = {stage: value / limits[stage] if stage in limits else value for stage, value in moved.items()}
    faults += [
        f"{stage!r} moved by {share:.4g} times its stated sensitivity"
        for stage, share in shares.items()
        if share > SLACK
    ]
    faults += [f"{stage!r} has noise but declares no sensitivity" for stage in moved if stage not in limits]
    return GreyBox(shares, tuple(dict.fromkeys(faults)))


def _observed(prepared: Prepared, data: Any, folder: Path, secret: Secret) -> Observed:
    """Grey-box audit: release to a folder, the same for both runs, and collect all that can be seen of a run."""
    recipe, schema, promise = Ready(prepared), prepared.schema, prepared.guarantee

    def run(progress: Callable[[int], None]) -> None:
        more = {"progress": progress, "secret": secret}
        release_to(folder, data, schema=schema, mechanism=recipe, guarantee=promise, **more)  # type: ignore[arg-type]

    said, progress, error = watched(run)
    files = {p.name: p.read_bytes() for p in sorted(folder.iterdir())} if folder.is_dir() else {}
    shutil.rmtree(folder, ignore_errors=True)
    return Observed(files, said, () if schema is None else progress, error)


def watched(run: Callable[[Callable[[int], None]], None]) -> tuple[str, tuple[int, ...], str]:
    """Grey-box audit: what a run says, its progress, and the error that ended it, if one did."""
    out, error, progress = io.StringIO(), "", list[int]()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), warnings.catch_warnings(record=True) as w:
        warnings.simplefilter("always")
        try:
            run(progress.append)
        except Exception as caught:  # noqa: BLE001 - any error is something that can be seen
            error = f"{type(caught).__name__}: {caught}"
    said = out.getvalue() + "".join(f"{one.category.__name__}: {one.message}\n" for one in w)
    return said, tuple(progress), error


def _manifests(one: Observed, two: Observed) -> list[str]:
    """Grey-box audit: fields of the manifest that differ between two runs, but for digests of the numbers."""
    read = [json.loads(seen.files.get("manifest.json", b"{}")) for seen in (one, two)]
    names = [n for n in read[0].keys() | read[1].keys() if n not in ("files", "digest")]
    return [f"the manifest's {n!r} depends on the data" for n in sorted(names) if read[0].get(n) != read[1].get(n)]


def differences(one: Observed, two: Observed, apart: tuple[str, ...] = ()) -> list[str]:
    """Grey-box audit: what differs between two runs, in words that show no value."""
    faults = [
        f"{what} depends on the data"
        for what, a, b in (
            ("output, or a warning,", one.said, two.said),
            ("the progress", one.progress, two.progress),
            ("an error, or its absence,", one.error, two.error),
            ("the list of files", one.files.keys(), two.files.keys()),
        )
        if a != b
    ]
    shared = [name for name in one.files if name in two.files and name not in apart]
    changed = [name for name in shared if one.files[name] != two.files[name]]
    sizes = [name for name in changed if len(one.files[name]) != len(two.files[name])]
    faults += [f"{name} depends on the data{' in its size' if name in sizes else ''}" for name in changed]
    return faults


def _stretched(prepared: Prepared, level: float, first: Any, second: Any) -> Stages:
    tables = [row_covariance(prepared, level, _rows(prepared, data)) for data in (first, second)]
    return {"covariance of the rows": stretch(*tables)}


def _rows(prepared: Prepared, data: Any) -> Rows:
    if prepared.schema is None:
        return open_edges(data)
    return LocalRows(Blocks.of(open_table(data, prepared.schema), prepared.schema))
