"""The figures that the documents quote and no table of a benchmark shows: costs, shortfalls, coverage at its edges.

Usage: make figures
"""

import math
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato import estimate
from sfumato.calibration import least_level
from sfumato.loss import Composed, FreshLaplace, Gaussian
from sfumato.moments import Geometry, NoiseLaw
from sfumato.profile import folded_sum_tail
from sfumato.projection import Projection

Floats = NDArray[np.float64]
REPEATS = 4000


def fresh_laplace() -> None:
    """Scale over radius at (1, 1e-6), by composition and by Chernoff's bound."""
    print("Laplace noise after a fresh gaussian projection, b/R at epsilon 1, delta 1e-6")
    for k in (2, 3, 10, 20, 64):
        composed = least_level(
            lambda b, k=k: FreshLaplace(dim_out=k, radius=1.0, laplace_scale=b), 1.0, 1e-6, start=4.0
        )
        low, high = 1.0, 20.0
        while high - low > 1e-4:
            middle = (low + high) / 2
            low, high = (low, middle) if folded_sum_tail(middle * math.sqrt(k), dim_out=k) <= 1e-6 else (middle, high)
        print(f"  k = {k:2}   composed {composed:.2f}   Chernoff {high:.2f}")


def fourier_shortfall() -> None:
    """How far below exact Gaussian composition the raw PLD falls, before the allowance."""
    print("Composed PLD below the exact delta, before the allowance")
    for folds, scale in ((1000, 60.0), (5000, 300.0), (100_000, 60.0)):
        pld, whole = Composed([Gaussian(1.0, scale)] * folds).pld(), math.sqrt(folds)
        grid = np.linspace(0.0, 60.0, 121)
        gaps = [Gaussian(whole, scale).delta(float(e)) - float(pld.get_delta_for_epsilon(float(e))) for e in grid]
        print(f"  {folds:7,} folds   {max(0.0, *gaps):.1e}")


def best(job: Callable[[], object]) -> float:
    """Seconds, the best of three."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        job()
        times.append(time.perf_counter() - start)
    return min(times)


def achlioptas_storage() -> None:
    """A product with a third of the entries, sparse over dense."""
    print("Achlioptas, product stored sparse over stored dense")
    for d, k in ((100, 32), (784, 64), (2000, 128)):
        dense = Projection(family="achlioptas", dim_in=d, dim_out=k).draw().values
        thin, block = sparse.csr_array(dense), np.random.default_rng(1).random((d, 20_000))
        ratio = best(lambda thin=thin, block=block: thin.T @ block) / best(
            lambda dense=dense, block=block: dense.T @ block
        )
        print(f"  {d:4} -> {k:3}   {ratio:.1f} x")


def coverage() -> None:
    """Where 95% intervals do not cover 95%."""
    print(f"Coverage of 95% intervals at their edges, {REPEATS} repetitions")
    few = [_sparse_coverage(columns) for columns in (2, 5, 11, 64)]
    print("  sparse(1), k = 128, far, rows differing in 2, 5, 11, 64 columns:", *(f"{c:.1%}" for c in few))
    inner = [_inner_coverage(kind, ratio) for kind in ("laplace", "gaussian") for ratio in (0.0, 3.0, 1e3)]
    print("  inner products, gaussian P, k = 4, near to far, both noises:", *(f"{c:.1%}" for c in inner))


def _sparse_coverage(columns: int) -> float:
    noise, geometry = NoiseLaw("gaussian", 1.0), Geometry("sparse", 200, 128)
    rng, hits = np.random.default_rng(columns), 0
    for seed in range(REPEATS):
        drawn = Projection(family="sparse", dim_in=200, dim_out=128, seed=seed).draw()
        image = 100.0 * np.asarray(drawn.values[:columns].sum(axis=0)).ravel()
        z, w = image + rng.standard_normal(128), rng.standard_normal(128)
        low, high = estimate.squared_distance(z, w, noise, geometry).interval()
        hits += bool(low <= columns * 1e4 <= high)
    return hits / REPEATS


def _inner_coverage(kind: str, ratio: float) -> float:
    rng, k, d = np.random.default_rng(4), 4, 40
    noise, geometry = NoiseLaw("laplace" if kind == "laplace" else "gaussian", 1.0), Geometry("gaussian", d, k)
    x, y = np.linalg.qr(rng.normal(size=(d, 2)))[0].T * math.sqrt(ratio * math.sqrt(k))
    y = 0.9 * x + math.sqrt(1 - 0.81) * y
    p = rng.normal(size=(REPEATS, d, k)) / math.sqrt(k)
    draw = rng.laplace if kind == "laplace" else rng.normal
    scale = 1 / math.sqrt(2) if kind == "laplace" else 1.0
    z, w = (v @ p + draw(0.0, scale, (REPEATS, k)) for v in (x, y))
    low, high = estimate.inner_product(z, w, noise, geometry).interval()
    return float(np.mean((low <= x @ y) & (x @ y <= high)))


if __name__ == "__main__":
    fresh_laplace()
    fourier_shortfall()
    achlioptas_storage()
    coverage()
