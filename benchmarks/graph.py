"""Graph sketches of generated graphs up to a million vertices and ten million edges: time, memory, and a cut.

Usage: python benchmarks/graph.py --large
Each size runs in a process of its own, so that its peak memory is its own.
"""

import multiprocessing
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from sfumato.mechanisms.graph_sketch import GraphSketch
from sfumato.pipeline.release import release_to
from sfumato.privacy.guarantee import Guarantee
from sfumato.releases.release import load

PROMISE = Guarantee(epsilon=1.0, delta=1e-6, unit="edge")
SIZES = ((250_000, 2_500_000, 119), (1_000_000, 10_000_000, 30), (1_000_000, 10_000_000, 119))


def sketch(size: tuple[int, int, int]) -> None:
    """Time of a release to disk, per number drawn too, and its peak memory; then a question."""
    n, m, rows = size
    edges = np.random.default_rng(1).integers(0, n, (m, 2), dtype=np.int32)
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        recipe = GraphSketch(rows=rows, vertices=n)
        release_to(Path(folder) / "r", edges, schema=None, mechanism=recipe, guarantee=PROMISE)
        taken, peak = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        each, size_gb = taken / (rows * (n + m)) * 1e9, 4e-9 * rows * n
        print(
            f"{n:,} vertices, {m:,} edges, {rows} rows: {taken:.0f} s, {each:.1f} ns for each of rows (n + m);", end=" "
        )
        print(f"peak {peak:.2f} GiB, of which the sketch is {size_gb:.2f} GB")
        found = load(Path(folder) / "r").cut(np.arange(1000))
        true = np.count_nonzero((edges < 1000).sum(axis=1) == 1)
        print(f"  a cut of 1,000 vertices: {found.value:.0f} +- {found.standard_error:.0f}, in truth about {true}")


if __name__ == "__main__":
    if sys.argv[1:] != ["--large"]:
        sys.exit(__doc__)
    for one in SIZES:
        process = multiprocessing.get_context("spawn").Process(target=sketch, args=(one,))
        process.start()
        process.join()
