"""Neighbours among released rows against a plain blocked search in NumPy, as a ratio measured in one run.

Then neighbours under a learned prior, with their credible intervals, against those among released rows. Learning
happens once for a release, so its time stands beside.

Usage: python benchmarks/nearest.py [ROWS]
"""

import sys
import time
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ground import seconds
from sfumato.estimation.neighbours import nearest
from sfumato.intervals.moments import Geometry, NoiseLaw, SketchLaw
from sfumato.releases.posterior import Posterior
from sfumato.tables.schema import Schema

ROWS, DIMENSION, QUERIES, K = 1_000_000, 32, 1_000, 10
BLOCK = 4096


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
    noise = NoiseLaw("gaussian", 1.0)
    if not (nearest(columns.T, own, K, noise).indices == plain(columns, own)).all():
        raise SystemExit("the two searches disagree")
    ours, theirs = seconds(partial(nearest, columns.T, own, K, noise), partial(plain, columns, own))
    print(
        f"nearest(k={K}), {QUERIES:,} queries over {rows:,} x {DIMENSION}: {ours:.2f} s, plain {theirs:.2f} s, ", end=""
    )
    print(f"{ours / theirs:.2f} x (target <= 1.2)")
    learned(columns, own, noise)


def learned(columns: NDArray[np.float64], own: NDArray[np.int64], noise: NoiseLaw) -> None:
    """Print the same for a posterior, of rows with a few strong directions."""
    rng = np.random.default_rng(2)
    columns += 3 * rng.standard_normal((DIMENSION, 8)) @ rng.standard_normal((8, columns.shape[1]))
    law, schema = SketchLaw(noise, Geometry("identity", DIMENSION, DIMENSION)), Schema.reals(DIMENSION, -100, 100)
    posterior, start = Posterior(columns.T, law, schema), time.perf_counter()
    posterior.nearest(own[:1], K)
    once = time.perf_counter() - start

    def asked() -> object:
        return posterior.nearest(own, K).distances.interval()

    ours, theirs = seconds(asked, partial(nearest, columns.T, own, K, noise))
    print(f"under a learned prior, with intervals: {ours:.2f} s, as released {theirs:.2f} s, ", end="")
    print(f"{ours / theirs:.2f} x (target <= 1.3); learning, once: {once:.1f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS)
