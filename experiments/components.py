"""Principal components from private covariances: noise off the diagonal, and the variance that components capture.

Usage: python experiments/components.py [--data FOLDER] [--quick]     prints a section of docs/results.md
The folder holds mnist.parquet and gfe.parquet; without it, rows of low rank are drawn. What the peers capture is
measured by ``make peers`` (experiments/peers.py, in an environment of its own) and kept in experiments/peers.json.
"""

import argparse
import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy import stats

from sfumato.calibration import calibrate
from sfumato.columns import Real
from sfumato.guarantee import Guarantee
from sfumato.mechanism import Recipe
from sfumato.mechanisms.components import Components
from sfumato.mechanisms.covariance import Covariance, PreparedCovariance
from sfumato.pipeline import release
from sfumato.schema import Schema

Floats = NDArray[np.float64]
DELTA, REPEATS, SLOW = 1e-6, 10, 3  # fewer repetitions from 100 columns on
EPSILONS, COUNTS = (0.1, 1.0, 4.0), (5, 10, 20)
PEERS = Path(__file__).parent / "peers.json"


# ---- data -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """Rows within the l2 ball of radius ``norm`` about the origin: shorter as they are, longer ones shrunk to it.

    low : every cell is between this and 1, before that clip.
    """

    name: str
    raw: Floats
    norm: float
    low: float = -1.0

    @cached_property
    def rows(self) -> Floats:
        """The clipped rows."""
        lengths = np.linalg.norm(self.raw, axis=1, keepdims=True)
        return np.asarray(self.raw * np.minimum(1.0, self.norm / np.maximum(lengths, 1e-300)))

    @cached_property
    def covariance(self) -> Floats:
        """About their mean."""
        return np.asarray(np.cov(self.rows.T, bias=True))

    @cached_property
    def best(self) -> Floats:
        """The most variance that 1, 2, ... components can capture."""
        return np.cumsum(np.linalg.eigvalsh(self.covariance)[::-1])

    @property
    def digest(self) -> str:
        """Which rows these are, in a few letters."""
        return hashlib.sha256(self.raw.tobytes() + repr(self.norm).encode()).hexdigest()[:12]

    @property
    def schema(self) -> Schema:
        """With the same clip."""
        columns = tuple(Real(f"c{j}", self.low, 1.0) for j in range(self.raw.shape[1]))
        return Schema(columns, norm="l2", norm_bound=self.norm)

    def captured(self, vectors: Floats) -> float:
        """The variance along orthonormal columns, as a share of the most that as many can capture."""
        return float(np.sum((self.covariance @ vectors) * vectors) / self.best[vectors.shape[1] - 1])


def tables(folder: Path | None, *, small: bool = False) -> Iterator[Table]:
    """The data sets, reduced and whole; only the reduced ones if ``small``."""
    if folder is None or not (folder / "mnist.parquet").exists():
        yield generated()
        return
    table = pq.read_table(folder / "mnist.parquet")
    pixels = np.column_stack([table[f"p{i}"].to_numpy() for i in range(784)])
    for side, norm in ((4, 1.3), (7, 2.5)):
        yield Table(f"MNIST, {side} x {side} means", _pooled(pixels, side), norm, 0.0)
    faces = _faces(folder / "gfe.parquet")
    for columns, norm in ((15, 2.0), (60, 4.0)):
        yield Table(f"GFE, first {columns} columns", np.ascontiguousarray(faces[:, :columns]), norm)
    if not small:
        yield Table("MNIST, 784 pixels", pixels / 255, 11.0, 0.0)
        yield Table("GFE, 300 columns", faces, 9.0)


def _pooled(pixels: NDArray[np.uint8], side: int) -> Floats:
    """Means of square patches of pixels, in [0, 1]."""
    width = 28 // side
    patches = pixels.reshape(-1, side, width, side, width).astype(np.int64).sum(axis=(2, 4))
    return np.asarray(patches.reshape(-1, side * side) / (255 * width * width))


def _faces(path: Path) -> Floats:
    """Points of a face, each coordinate brought to [-1, 1] by the range that the data's description gives."""
    table = pq.read_table(path)
    names = [name for name in table.column_names if name not in ("user", "expression", "target")]
    ranges = {"x": (200.0, 420.0), "y": (120.0, 360.0), "z": (0.0, 1700.0)}
    columns = []
    for name in names:
        low, high = ranges[name[-1]]
        columns.append(np.clip((table[name].to_numpy().astype(float) - low) / (high - low) * 2 - 1, -1.0, 1.0))
    return np.column_stack(columns)


def generated(count: int = 20_000, columns: int = 40) -> Table:
    """Gaussian rows whose variances fall as 1 / j, along random axes."""
    rng = np.random.default_rng(1)
    axes = np.linalg.qr(rng.standard_normal((columns, columns)))[0]
    rows = rng.standard_normal((count, columns)) / np.sqrt(np.arange(1, columns + 1)) @ axes.T
    return Table(f"generated, {columns} columns", np.clip(rows / 4, -1.0, 1.0), 0.75)


# ---- off the diagonal -----------------------------------------------------------------------------------------------


def off_diagonal(table: Table, epsilon: float, repeats: int, seed: int = 1) -> tuple[float, float, float]:
    """Frobenius errors off the diagonal: of releases, of equal noise on every number of the triangle, of the rounding.

    Replacing a row moves the triangle, each number once, by sqrt(2) R^2 at most, from one axis to another: equal noise
    is that times the level of the release. A release has it on the diagonal, and less by sqrt(2) off it. Its errors are
    those of the noise, so about the rows as they were clipped and rounded; what rounding did to them is apart.
    """
    promise = Guarantee(epsilon=epsilon, delta=DELTA)
    recipe, rng = Covariance(noise="gaussian"), np.random.default_rng(seed)
    prepared = recipe.prepare(table.schema, promise)
    assert isinstance(prepared, PreparedCovariance)
    alone = calibrate(prepared, promise).level * math.sqrt(2) * table.norm**2
    grid, above = prepared.moment.grid, np.triu_indices(table.rows.shape[1], 1)
    held = grid.round(table.rows.T)[:-1] * grid.step
    exact = held @ held.T
    ours, theirs = [], []
    for _ in range(repeats):
        made = release(table.rows, schema=table.schema, mechanism=recipe, guarantee=promise)
        ours.append(_both_sides((made.array()[:-1, :-1] - exact)[above]))
        theirs.append(_both_sides(alone * rng.standard_normal(above[0].size)))
    rounding = _both_sides((exact - table.rows.T @ table.rows)[above])
    return float(np.mean(ours)), float(np.mean(theirs)), rounding


def _both_sides(above: Floats) -> float:
    """The Frobenius norm of what lies above a diagonal and, the same again, below it."""
    return float(math.sqrt(2) * np.linalg.norm(above))


# ---- components -----------------------------------------------------------------------------------------------------

OURS: dict[str, Recipe] = {
    "Gaussian": Covariance(noise="gaussian", centred=True),
    "Laplace, pure": Covariance(noise="laplace", centred=True),
    "sketch, 473 rows": Covariance(noise="sketch", centred=True),
}
TWO_STAGES = "`Components`"


def shares(table: Table, name: str, epsilon: float, counts: tuple[int, ...]) -> list[float]:
    """What one new release captures with each number of components; one for each number if rows are released too."""
    pure = name.startswith("Laplace")
    promise = Guarantee(epsilon=epsilon, delta=0.0 if pure else DELTA, neighbours="replace")

    def made(recipe: Recipe) -> Any:
        return release(table.rows, schema=table.schema, mechanism=recipe, guarantee=promise)

    if name == TWO_STAGES:
        recipes = [Components(dimension=k, noise="gaussian") for k in counts]
        return [table.captured(np.linalg.qr(made(recipe).projection)[0]) for recipe in recipes]
    vectors = made(OURS[name]).principal_components(max(counts)).vectors
    return [table.captured(vectors[:, :k]) for k in counts]


def cell(found: list[float] | None) -> str:
    """Mean with its 95% interval, of Student's law."""
    if not found:
        return "-" if found is None else "no"
    if len(found) == 1:
        return f"{found[0]:.3f}"
    reach = stats.t.ppf(0.975, len(found) - 1) * np.std(found, ddof=1) / math.sqrt(len(found))
    return f"{np.mean(found):.3f} +- {reach:.3f}"


def measured(table: Table, repeats: int) -> Iterator[tuple[tuple[float, int, str], list[float]]]:
    """All of ours on one table, by epsilon, number of components and mechanism; fewer of them on wide tables."""
    columns = table.raw.shape[1]
    counts, wide = tuple(k for k in COUNTS if k < columns), columns >= 100
    for epsilon in EPSILONS:
        for name in OURS if wide else (*OURS, TWO_STAGES):
            times = min(repeats, SLOW) if wide else repeats
            runs = [shares(table, name, epsilon, counts) for _ in range(times)]
            for k, found in zip(counts, zip(*runs, strict=True), strict=True):
                yield (epsilon, k, name), list(found)


def peers(table: Table) -> dict[tuple[float, int, str], list[float]]:
    """What ``make peers`` found on the same rows; an empty list where a peer did not finish."""
    if not PEERS.exists():
        return {}
    stored = json.loads(PEERS.read_text(encoding="utf-8"))["runs"]
    mine = (run for run in stored if run["digest"] == table.digest)
    return {(run["epsilon"], run["components"], run["library"]): run["captured"] for run in mine}


def utility(folder: Path | None, repeats: int) -> Iterator[str]:
    """One row for each table, number of components and epsilon."""
    stored = json.loads(PEERS.read_text(encoding="utf-8")) if PEERS.exists() else {"runs": []}
    others = list(dict.fromkeys(run["library"] for run in stored["runs"]))
    names = [*OURS, TWO_STAGES, *others]
    yield "| data | components | epsilon | " + " | ".join(names) + " |\n" + "|---" * (len(names) + 3) + "|"
    for table in tables(folder):
        found = dict(measured(table, repeats)) | peers(table)
        for k in sorted({k for _, k, _ in found}):
            for epsilon in EPSILONS:
                cells = " | ".join(cell(found.get((epsilon, k, name))) for name in names)
                yield f"| {table.name} | {k} | {epsilon:g} | {cells} |"


def section(folder: Path | None, quick: bool) -> Iterator[str]:
    """The lines of docs/results.md that this experiment makes."""
    repeats = 2 if quick else REPEATS
    slow = min(repeats, SLOW)
    yield "## Covariances and principal components\n\n### Noise off the diagonal\n"
    yield "Frobenius error of the off-diagonals of X'X, one record replaced: Gaussian noise that is isotropic in the"
    yield "Frobenius norm (`Covariance`) against equal Gaussian noise on the triangle, each at its own sensitivity;"
    yield f"delta = {DELTA:g}, epsilon 1, {repeats} releases. Predicted ratio: sqrt(2) = 1.414."
    yield "Rows are rounded to 2^-11 of the widest column before they are summed: the last column is what that moved.\n"
    yield "| data | `Covariance` | equal noise on the triangle | ratio | rounding |\n|---|---|---|---|---|"
    for table in tables(folder, small=True):
        ours, theirs, rounding = off_diagonal(table, 1.0, repeats)
        yield f"| {table.name} | {ours:.4g} | {theirs:.4g} | {theirs / ours:.3f} | {rounding:.3g} |"
    yield "\n### Captured variance\n"
    yield "The variance of the rows along the components found, over the most that as many can capture: mean +- 95%"
    yield f"interval over {repeats} releases, {slow} from 100 columns on, 5 of the peers. Unit: one record replaced."
    yield f"Every row is in an l2 ball of the same public radius for all. Ours about the mean, delta = {DELTA:g} but"
    yield "for Laplace noise, which is pure; `Components` finds its components about the origin with 0.3 of the"
    yield "budget, and releases all rows with the rest. The peers are pure: both follow Amin et al. 2019, which"
    yield "spends part of epsilon on the mean and on the eigenvalues."
    yield from notes()
    yield ""
    yield from utility(folder, repeats)


def notes() -> Iterator[str]:
    """What must be said of the peers' columns; written by ``make peers``."""
    if PEERS.exists():
        yield from json.loads(PEERS.read_text(encoding="utf-8"))["notes"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of the data sets")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    options = parser.parse_args()
    for line in section(options.data, options.quick):
        print(line, flush=True)
