"""Sketches of several owners joined from their folders: time and memory of clustering, and coverage across owners.

Every measurement of the first kind is a process of its own, whose largest resident memory Linux reports: it joins the
folders and clusters all rows. Releases are made beforehand, with epsilons that differ from owner to owner.

Usage: python benchmarks/owners.py [scale | coverage] [--owners N --rows N --dimension N --clusters N]
"""

import argparse
import math
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import sfumato as sf
from sfumato.estimation import sketches
from sfumato.intervals.moments import Geometry, NoiseLaw, SketchLaw

COLUMNS, CENTRES = 40, 10
EPSILONS = (20.0, 40.0, 80.0, 160.0)
SIZES = [(20, 200_000, 16), (10, 2_000, 16), (100, 2_000, 16), (1_000, 2_000, 16)]
CLUSTERS, CORES = 10, 2
REPEATS = 20_000


# ---- scale ----------------------------------------------------------------------------------------------------------


def table(rows: int, owner: int) -> pa.Table:
    """Records about a few centres, the same for all owners, in which each owner has its own shares."""
    centres = np.random.default_rng(7).random((CENTRES, COLUMNS))
    luck = np.random.default_rng(1000 + owner)
    which = luck.choice(CENTRES, rows, p=luck.dirichlet(np.full(CENTRES, 3.0)))
    cells = np.clip(centres[which] + 0.05 * luck.standard_normal((rows, COLUMNS)), 0, 1)
    return pa.table({f"x{i}": column for i, column in enumerate(cells.T)})


def make(folder: Path, owners: int, rows: int, dimension: int) -> None:
    """The releases of so many owners in one space; every other one has Laplace noise."""
    schema = sf.Schema([sf.Real(f"x{i}", 0, 1) for i in range(COLUMNS)], scale="raw")
    space = sf.Space(schema, "orthonormal" if dimension <= COLUMNS else "gaussian", dimension, seed=11)
    for owner in range(owners):
        laplace, epsilon = bool(owner % 2), EPSILONS[owner % len(EPSILONS)]
        sf.release_to(
            folder / f"o{owner:05d}.release",
            table(rows, owner),
            mechanism=sf.Sketch(space=space, noise="laplace" if laplace else "gaussian"),
            guarantee=sf.Guarantee(epsilon=epsilon * (5 if laplace else 1), delta=0.0 if laplace else 1e-6),
        )


def measured(folder: Path, clusters: int) -> None:
    """Join the folders and cluster: print seconds of both, and the largest memory, of this process alone."""
    begun = time.perf_counter()
    with threadpool_limits(CORES):
        joined = sf.join(sorted(folder.iterdir()))
        read = time.perf_counter()
        found = joined.cluster(clusters)
    done = time.perf_counter()
    peak = int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024  # type: ignore[index]
    sizes = np.bincount(found.labels, minlength=clusters)
    print(
        f"{len(joined.owners):>6,} owners, {joined.rows:>9,} rows of {joined.dimension:>2}, {clusters} clusters: "
        f"checked in {read - begun:5.1f} s, clustered in {done - read:5.1f} s, {peak:.0f} MiB at most "
        f"(the smallest cluster has {sizes.min():,} rows)"
    )


def scale(sizes: list[tuple[int, int, int]], clusters: int) -> None:
    """Make releases of each size, and measure each in a process of its own."""
    for owners, rows, dimension in sizes:
        with TemporaryDirectory() as folder:
            make(Path(folder), owners, rows, dimension)
            words = [sys.executable, __file__, "measure", "--folder", folder, "--clusters", str(clusters)]
            print(subprocess.run(words, check=True, capture_output=True, text=True).stdout, end="", flush=True)  # noqa: S603


# ---- coverage -------------------------------------------------------------------------------------------------------


def pairs(law: SketchLaw, rng: np.random.Generator) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64], float]]:
    """Released pairs at several squared distances, with the true one: lost in the noise, comparable to it, and far."""
    k, d = law.geometry.dim_out, law.geometry.dim_in
    projection = rng.standard_normal((REPEATS, 2, k)) / math.sqrt(k)  # gaussian P of two orthogonal unit vectors
    if law.geometry.family == "identity":
        projection = np.broadcast_to(np.linalg.qr(rng.standard_normal((d, 2)))[0].T, (REPEATS, 2, k))
    noises = [
        rng.normal(0, noise.scale, (REPEATS, k))
        if noise.kind == "gaussian"
        else rng.laplace(0, noise.scale / math.sqrt(2), (REPEATS, k))
        for noise in law.noises
    ]
    unit = math.sqrt(k * (law.noises[0].variance + law.noises[1].variance))
    for ratio in (0.0, 0.3, 1.0, 5.0, 100.0):
        x, y = unit * ratio * projection[:, 0], 0.3 * unit * projection[:, 1]
        yield x + y + noises[0], y + noises[1], (unit * ratio) ** 2


def coverage() -> None:
    """Print the least and the largest coverage over distances, for each combination of noises and ratio of scales."""
    print(f"95% intervals of pairs across owners, {REPEATS:,} repetitions at each of five distances")
    for kinds in (("gaussian", "gaussian"), ("laplace", "laplace"), ("gaussian", "laplace")):
        for family in ("identity", "gaussian"):
            for k in (8, 32):
                shares: dict[str, list[float]] = {"distances": [], "inner products": []}
                for ratio in (0.3, 1.0, 3.0):
                    one, two = NoiseLaw(kinds[0], 1.0), NoiseLaw(kinds[1], ratio)  # type: ignore[arg-type]
                    law = SketchLaw(one, Geometry(family, k if family == "identity" else 64, k), two)
                    for z, w, apart in pairs(law, np.random.default_rng(k)):
                        truth = 0.09 * k * (1.0 + ratio**2)  # <x + y, y>
                        for name, found, right in (
                            ("distances", sketches.squared_distance(z, w, law), apart),
                            ("inner products", sketches.inner_product(z, w, law), truth),
                        ):
                            low, high = found.interval()
                            shares[name].append(float(np.mean((low <= right) & (right <= high))))
                told = "   ".join(f"{name} {min(got):.1%} to {max(got):.1%}" for name, got in shares.items())
                print(f"  {kinds[0]:8} and {kinds[1]:8}  {family:8}  k = {k:<2}  {told}", flush=True)


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=["scale", "coverage", "measure"], default="scale")
    for name, kind in (("owners", int), ("rows", int), ("dimension", int), ("folder", Path)):
        parser.add_argument(f"--{name}", type=kind)
    parser.add_argument("--clusters", type=int, default=CLUSTERS)
    options = parser.parse_args()
    if options.what == "measure":
        measured(options.folder, options.clusters)
    elif options.what == "coverage":
        coverage()
    else:
        chosen = (options.owners, options.rows, options.dimension)
        scale([chosen] if all(chosen) else SIZES, options.clusters)


if __name__ == "__main__":
    main()
