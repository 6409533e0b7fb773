"""Principal components from private covariances: noise off the diagonal, and the variance that components capture.

From mnist.parquet and gfe.parquet; without them, rows of low rank are drawn. What the peers capture is measured by
experiments/peers.py, in a process of the environment that they need (.venv-bench, from ``make bench``).
"""

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from page import Cell, Experiment, Measured, Part, Setting
from page import Table as Shown
from sfumato.mechanisms.base import Recipe
from sfumato.mechanisms.components import Components
from sfumato.mechanisms.covariance import Covariance, PreparedCovariance
from sfumato.pipeline.release import release
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness.secret import Secret
from sfumato.tables.columns import Real
from sfumato.tables.schema import Schema

Floats = NDArray[np.float64]
Errors = tuple[Measured, Measured, float]
DELTA, WIDE = 1e-6, 100  # columns from which there are fewer repetitions
EPSILONS, COUNTS = (0.1, 1.0, 4.0), (5, 10, 20)
HERE = Path(__file__).parent
BENCH = HERE.parent / ".venv-bench" / "bin" / "python"


# ---- data -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Data:
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
    def schema(self) -> Schema:
        """With the same clip."""
        columns = tuple(Real(f"c{j}", self.low, 1.0) for j in range(self.raw.shape[1]))
        return Schema(columns, norm="l2", norm_bound=self.norm)

    def captured(self, vectors: Floats) -> float:
        """The variance along orthonormal columns, as a share of the most that as many can capture."""
        return float(np.sum((self.covariance @ vectors) * vectors) / self.best[vectors.shape[1] - 1])


def tables(folder: Path | None, *, small: bool = False) -> Iterator[Data]:
    """The data sets, reduced and whole; only the reduced ones if ``small``."""
    if folder is None or not (folder / "mnist.parquet").exists():
        yield generated()
        return
    table = pq.read_table(folder / "mnist.parquet")
    pixels = np.column_stack([table[f"p{i}"].to_numpy() for i in range(784)])
    for side, norm in ((4, 1.3), (7, 2.5)):
        yield Data(f"MNIST, {side} x {side} means", _pooled(pixels, side), norm, 0.0)
    faces = _faces(folder / "gfe.parquet")
    for columns, norm in ((15, 2.0), (60, 4.0)):
        yield Data(f"GFE, first {columns} columns", np.ascontiguousarray(faces[:, :columns]), norm)
    if not small:
        yield Data("MNIST, 784 pixels", pixels / 255, 11.0, 0.0)
        yield Data("GFE, 300 columns", faces, 9.0)


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


def generated(count: int = 20_000, columns: int = 40) -> Data:
    """Gaussian rows whose variances fall as 1 / j, along random axes."""
    rng = np.random.default_rng(1)
    axes = np.linalg.qr(rng.standard_normal((columns, columns)))[0]
    rows = rng.standard_normal((count, columns)) / np.sqrt(np.arange(1, columns + 1)) @ axes.T
    return Data(f"generated, {columns} columns", np.clip(rows / 4, -1.0, 1.0), 0.75)


# ---- off the diagonal -----------------------------------------------------------------------------------------------


def off_diagonal(
    table: Data, epsilon: float, luck: tuple[Iterator[Secret], np.random.Generator], repeats: int
) -> Errors:
    """Frobenius errors off the diagonal: of releases, of equal noise on every number of the triangle, of the rounding.

    Replacing a row moves the triangle, each number once, by sqrt(2) R^2 at most, from one axis to another: equal noise
    is that times the level of the release. A release has it on the diagonal, and less by sqrt(2) off it. Its errors are
    those of the noise, so about the rows as they were clipped and rounded; what rounding did to them is apart.
    """
    promise, (secrets, rng) = Guarantee(epsilon=epsilon, delta=DELTA), luck
    recipe = Covariance(noise="gaussian", centred=False)
    prepared = recipe.prepare(table.schema, promise)
    assert isinstance(prepared, PreparedCovariance)
    alone = calibrate(prepared, promise).level * math.sqrt(2) * table.norm**2
    grid, above = prepared.moment.grid, np.triu_indices(table.rows.shape[1], 1)
    held = grid.round(table.rows.T)[:-1] * grid.step
    exact = held @ held.T
    ours, theirs = [], []
    for _ in range(repeats):
        made = release(table.rows, schema=table.schema, mechanism=recipe, guarantee=promise, secret=next(secrets))
        ours.append(_both_sides((made.second_moments() - exact)[above]))
        theirs.append(_both_sides(alone * rng.standard_normal(above[0].size)))
    rounding = _both_sides((exact - table.rows.T @ table.rows)[above])
    return Measured.of(ours), Measured.of(theirs), rounding


def _both_sides(above: Floats) -> float:
    """The Frobenius norm of what lies above a diagonal and, the same again, below it."""
    return float(math.sqrt(2) * np.linalg.norm(above))


def triangle(setting: Setting) -> Iterator[Part]:
    """Noise that is isotropic in the Frobenius norm against equal noise."""
    repeats = setting.often(10, 5)
    yield TRIANGLE.format(repeats=repeats)
    rows = []
    for table in tables(setting.data, small=True):
        luck = setting.secrets(table.name), setting.rng(table.name)
        ours, theirs, rounding = off_diagonal(table, 1.0, luck, repeats)
        ratio = theirs.value / ours.value
        error = ratio * math.hypot(ours.error / ours.value, theirs.error / theirs.value)
        rows.append([table.name, ours, theirs, Measured(ratio, error, repeats), rounding])
    yield Shown("off the diagonal", ("data", "`Covariance`", "equal noise", "ratio", "rounding"), rows)
    yield "The ratio is sqrt(2) within its error."


# ---- components -----------------------------------------------------------------------------------------------------

OURS: dict[str, Recipe] = {
    "Gaussian": Covariance(noise="gaussian", centred=True),
    "Laplace, pure": Covariance(noise="laplace", centred=True),
    "sketch, 473 rows": Covariance(noise="sketch", centred=True),
}
TWO_STAGES = "`Components`"


def shares(table: Data, name: str, epsilon: float, counts: tuple[int, ...], secrets: Iterator[Secret]) -> list[float]:
    """What one new release captures with each number of components; one for each number if rows are released too."""
    pure = name.startswith("Laplace")
    promise = Guarantee(epsilon=epsilon, delta=0.0 if pure else DELTA, neighbours="replace")

    def made(recipe: Recipe) -> Any:
        return release(table.rows, schema=table.schema, mechanism=recipe, guarantee=promise, secret=next(secrets))

    if name == TWO_STAGES:
        recipes = [Components(dimension=k, noise="gaussian") for k in counts]
        return [table.captured(np.linalg.qr(made(recipe).projection)[0]) for recipe in recipes]
    vectors = made(OURS[name]).principal_components(max(counts)).vectors
    return [table.captured(vectors[:, :k]) for k in counts]


Key = tuple[int, float, str]  # components, epsilon, mechanism


def measured(table: Data, setting: Setting) -> Iterator[tuple[Key, Cell]]:
    """All of ours on one table; fewer of them on wide tables."""
    columns = table.raw.shape[1]
    counts, wide = tuple(k for k in COUNTS if k < columns), columns >= WIDE
    secrets = setting.secrets(table.name)
    for epsilon in EPSILONS:
        for name in OURS if wide else (*OURS, TWO_STAGES):
            times = 4 if wide else setting.often(10, 5)
            runs = [shares(table, name, epsilon, counts, secrets) for _ in range(times)]
            for k, found in zip(counts, zip(*runs, strict=True), strict=True):
                yield (k, epsilon, name), Measured.of(found)


def peers(setting: Setting) -> Iterator[dict[str, Any]]:
    """What experiments/peers.py finds on the same rows, line by line; nothing without its environment."""
    if not BENCH.exists():
        return
    data = [] if setting.data is None else ["--data", str(setting.data)]
    command = [str(BENCH), str(HERE / "peers.py"), *data, "--seed", str(setting.seed), *["--quick"] * setting.quick]
    path = os.pathsep.join(p for p in sys.path if p and "site-packages" not in p and "lib/python" not in p)
    done = subprocess.run(  # noqa: S603 - our own script
        command, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": path}
    )
    if done.returncode:
        raise RuntimeError(f"experiments/peers.py failed: {done.stderr[-2000:]}")
    yield from map(json.loads, done.stdout.splitlines())


def captured(setting: Setting) -> Iterator[Part]:
    """Ours and the peers', one row for each table, number of components and epsilon."""
    yield CAPTURED.format(repeats=setting.often(10, 5))
    lines = list(peers(setting))
    runs, notes = [line for line in lines if "captured" in line], [line["note"] for line in lines if "note" in line]
    yield notes[0] if notes else NO_PEERS
    others = list(dict.fromkeys(run["library"] for run in runs))
    names, rows = [*OURS, TWO_STAGES, *others], []
    for table in list(tables(setting.data, small=setting.quick))[:: 2 if setting.quick else 1]:
        found = dict(measured(table, setting))
        mine = (run for run in runs if run["data"] == table.name)
        found |= {(run["components"], run["epsilon"], run["library"]): _peer(run["captured"]) for run in mine}
        for k, epsilon in sorted({(k, epsilon) for k, epsilon, _ in found}):
            rows.append([table.name, k, epsilon, *(found.get((k, epsilon, name)) for name in names)])
    yield Shown(
        "captured variance",
        ("data", "components", "epsilon", *names),
        rows,
        {"epsilon": "g"} | dict.fromkeys(names, ".3f"),
    )
    yield VERDICT


def _peer(found: list[float]) -> Cell:
    return Measured.of(found) if found else "no"


TRIANGLE = f"""\
The survey tells of Analyze Gauss (Dwork et al. 2014): Gaussian noise on X'X. Frobenius error of the off-diagonals of
X'X, one record replaced: Gaussian noise that is isotropic in the Frobenius norm (`Covariance`) against equal Gaussian
noise on the triangle, each at its own sensitivity; delta = {DELTA:g}, epsilon 1, {{repeats}} releases. Predicted ratio:
sqrt(2) = 1.414. Rows are rounded to 2^-20 of the widest column before they are summed: the last column is what that
moved, which is exact."""

CAPTURED = f"""\
The variance of the rows along the components found, over the most that as many can capture, from {{repeats}} releases,
4 from {WIDE} columns on. Unit: one record replaced. Every row is in an l2 ball of the same public radius for all. Ours
about the mean, delta = {DELTA:g} but for Laplace noise, which is pure; the sketch is Blocki et al., Algorithm 3, with
the exact ridge; `Components` finds its components about the origin with 0.3 of the budget, and releases all rows with
the rest. The peers are pure: both follow Amin et al. 2019, which spends part of epsilon on the mean and on the
eigenvalues."""

NO_PEERS = """\
diffprivlib and OpenDP are not measured here: `make bench` sets up .venv-bench, the environment that they need."""

VERDICT = """\
Gaussian noise (Analyze Gauss) captures most in every row, as its error bound says it should: the sketch has the same
error in directions without variance and a larger one, in proportion to the variance, in all others. What the sketch has
for itself is that it is positive and r d numbers. Laplace noise, pure, needs few columns or a large epsilon."""

EXPERIMENTS = (
    Experiment(
        "blocki-triangle",
        "Noise off the diagonal of a covariance",
        triangle,
        ("mnist.parquet", "gfe.parquet"),
        "rows with variances 1/j",
    ),
    Experiment(
        "blocki-components",
        "Principal components, and those of diffprivlib and OpenDP",
        captured,
        ("mnist.parquet", "gfe.parquet"),
        "rows with variances 1/j",
    ),
)
