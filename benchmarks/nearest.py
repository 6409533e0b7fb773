"""Neighbours among released rows against a plain blocked search in NumPy, as a ratio measured in one run.

Then neighbours under a learned prior, with their credible intervals, against those among released rows. Learning
happens once for a release, so its time stands beside. The latter are seconds of one processor: ratios that hold on a
busy machine.

Usage: python benchmarks/nearest.py [ROWS | --learned]
"""

import sys
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ground import seconds
from sfumato.estimation.neighbours import nearest
from sfumato.intervals.moments import Geometry, NoiseLaw, SketchLaw
from sfumato.posterior.stored import StoredPrior
from sfumato.releases.posterior import Posterior
from sfumato.tables.schema import Schema

ROWS, DIMENSION, QUERIES, K = 1_000_000, 32, 1_000, 10
BLOCK = 4096
EVERY = 20_000  # rows, of which all pairs are compared
ROUNDS = 3
NOISE = NoiseLaw("gaussian", 1.0)


def plain(columns: NDArray[np.float64], own: NDArray[np.int64]) -> NDArray[np.int64]:
    """Squared norms, a product, a partition and a sort for each block of rows; the best of all blocks are kept."""
    points = columns[:, own].T
    best, places = np.empty((len(own), 0)), np.empty((len(own), 0), np.int64)
    for start in range(0, columns.shape[1], BLOCK):
        block = columns[:, start : start + BLOCK]
        squared = (points**2).sum(axis=1)[:, None] + (block**2).sum(axis=0) - 2 * (points @ block)
        inside = np.flatnonzero((own >= start) & (own < start + BLOCK))
        squared[inside, own[inside] - start] = np.inf
        found = np.argpartition(squared, K - 1, axis=1)[:, :K]
        best = np.hstack([best, np.take_along_axis(squared, found, 1)])
        places = np.hstack([places, found + start])
        order = np.argsort(best, axis=1)[:, :K]
        best, places = np.take_along_axis(best, order, 1), np.take_along_axis(places, order, 1)
    return places


def main(rows: int) -> None:
    """Print the ratio, after a check that both find the same."""
    rng = np.random.default_rng(1)
    columns = rng.standard_normal((DIMENSION, rows))
    own = rng.choice(rows, QUERIES, replace=False)
    if not (nearest(columns.T, own, K, NOISE).indices == plain(columns, own)).all():
        raise SystemExit("the two searches disagree")
    ours, theirs = seconds(partial(nearest, columns.T, own, K, NOISE), partial(plain, columns, own))
    print(
        f"nearest(k={K}), {QUERIES:,} queries over {rows:,} x {DIMENSION}: {ours:.2f} s, plain {theirs:.2f} s, ", end=""
    )
    print(f"{ours / theirs:.2f} x (target <= 1.2)")


def work(*jobs: Callable[[], object]) -> list[float]:
    """Seconds of one processor that each job takes, the best of a few, in turns; others on the machine do not count."""
    best = [float("inf")] * len(jobs)
    with threadpool_limits(1):
        for _ in range(ROUNDS):
            for i, job in enumerate(jobs):
                start = time.process_time()
                job()
                best[i] = min(best[i], time.process_time() - start)
    return best


def strong(count: int, width: int, directions: int) -> Posterior:
    """A posterior of rows that vary in a few strong directions."""
    rng = np.random.default_rng(2)
    columns = rng.standard_normal((width, count))
    columns += 3 * rng.standard_normal((width, directions)) @ rng.standard_normal((directions, count))
    law, schema = SketchLaw(NOISE, Geometry("identity", width, width)), Schema.reals(width, -100, 100)
    return Posterior(columns.T, law, schema, digest="benchmark")


def learned(rows: int) -> None:
    """Print the ratio of a search under a learned prior to that among released rows."""
    posterior = strong(rows, DIMENSION, 8)
    own = np.random.default_rng(1).choice(rows, QUERIES, replace=False)
    start = time.process_time()
    with threadpool_limits(1):
        posterior.nearest(own[:1], K)
    once = time.process_time() - start

    def asked() -> object:
        return posterior.nearest(own, K).distances.interval()

    ours, theirs = work(asked, partial(nearest, posterior.rows, own, K, NOISE))
    print(
        f"under a learned prior, with intervals, {QUERIES:,} queries over {rows:,} x {DIMENSION}: {ours:.2f} s, ",
        end="",
    )
    print(f"as released {theirs:.2f} s, {ours / theirs:.2f} x (target <= 1.3); learning, once: {once:.1f} s")
    _faiss(posterior.rows, own, theirs)


def _faiss(rows: NDArray[np.float64], own: NDArray[np.int64], ours: float) -> None:
    """Print the ratio to faiss, where it is installed; it searches in single precision."""
    try:
        import faiss  # type: ignore[import-not-found] # noqa: PLC0415 - not needed for anything else
    except ImportError:
        return

    def search() -> object:
        single = np.ascontiguousarray(rows, np.float32)
        index = faiss.IndexFlatL2(single.shape[1])
        index.add(single)
        return index.search(single[own], K + 1)

    (theirs,) = work(search)
    print(f"the search as released is {ours / theirs:.2f} x faiss {faiss.__version__}, flat, in single precision")


def all_pairs() -> None:
    """Print time and memory of the nearest records of every record."""
    posterior = strong(EVERY, DIMENSION, 8)
    posterior.nearest(0, K)

    def asked() -> object:
        return posterior.nearest(np.arange(EVERY), K).distances.interval()

    (taken,) = work(asked)
    tracemalloc.start()
    asked()
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    print(f"all pairs of {EVERY:,} x {DIMENSION}: {taken:.1f} s, {peak:.0f} MiB beyond the release (target <= 1024)")


def kept() -> None:
    """Print what a stored prior saves: the first answer with it, and without."""
    posterior = strong(10_000, 784, 60)
    with TemporaryDirectory() as folder:
        path, law = Path(folder) / "kept.posterior", posterior.law
        posterior.save(path)

        def first(given: bool) -> object:
            stored = StoredPrior.read(path, "benchmark", 784, law.noise.variance) if given else None
            return Posterior(posterior.rows, law, posterior.schema, True, "benchmark", stored).nearest(0, K).expected

        ours, theirs = work(partial(first, True), partial(first, False))
        size = path.stat().st_size / 2**20
    print(
        f"first answer of 10,000 x 784 by a stored prior ({size:.1f} MiB): {ours:.2f} s, learned now {theirs:.2f} s, ",
        end="",
    )
    print(f"{theirs / ours:.1f} x")


if __name__ == "__main__":
    words = sys.argv[1:]
    if "--learned" not in words:
        main(int(words[0]) if words else ROWS)
    learned(ROWS)
    all_pairs()
    kept()
