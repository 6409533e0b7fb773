"""Exact noise and exact products against the usual ones, as ratios measured in one run on one core.

Usage: make bench
"""

import time
import tracemalloc
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sfumato.numerics.lattice import InputGrid
from sfumato.projection.projection import Projection
from sfumato.randomness.secret import Secret

DRAWS = 1 << 23
ROUNDS = 15


def seconds(*jobs: Callable[[], object]) -> list[float]:
    """The best time of each job, the jobs taking turns so that a busy machine slows them alike."""
    best = [float("inf")] * len(jobs)
    for _ in range(ROUNDS):
        for i, job in enumerate(jobs):
            start = time.perf_counter()
            job()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def peers() -> dict[str, dict[str, Callable[[int], object]]]:
    """Vector noise of OpenDP and of diffprivlib, as their users call it."""
    import diffprivlib.mechanisms as ibm  # noqa: PLC0415
    import opendp.prelude as dp  # noqa: PLC0415

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    laplace = (space, dp.l1_distance(T=float)) >> dp.m.then_laplace(scale=1.0)
    gaussian = (space, dp.l2_distance(T=float)) >> dp.m.then_gaussian(scale=1.0)
    one, two = ibm.Laplace(epsilon=1.0, sensitivity=1.0), ibm.GaussianAnalytic(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    return {
        "laplace": {
            "OpenDP": lambda n: laplace([0.0] * n),
            "diffprivlib": lambda n: [one.randomise(0.0) for _ in range(n)],
        },
        "gaussian": {
            "OpenDP": lambda n: gaussian([0.0] * n),
            "diffprivlib": lambda n: [two.randomise(0.0) for _ in range(n)],
        },
    }


def noise_table() -> None:
    """Draws per second, ours over theirs."""
    rng, secret = np.random.default_rng(), Secret.fresh()
    numpy_draw = {"laplace": partial(rng.laplace, size=DRAWS), "gaussian": partial(rng.standard_normal, DRAWS)}
    others = peers()
    print(f"Exact noise at scale 2^22 steps, {DRAWS:,} draws a call, one core")
    for name, target in (("laplace", 0.9), ("gaussian", 0.35)):
        ours, plain = seconds(partial(_draw, name, secret, DRAWS, 2.0**22), numpy_draw[name])
        rate = DRAWS / ours
        print(f"  {name:9} {rate / 1e6:7.1f} M/s   {plain / ours:6.2f} x numpy (target >= {target})")
        for peer, job in others[name].items():
            count = 20_000
            (taken,) = seconds(partial(job, count))
            ratio = rate * taken / count
            print(f"  {'':9} {count / taken / 1e6:7.3f} M/s   ours is {ratio:5.0f} x {peer} (target >= 100)")
        tracemalloc.start()
        out = _draw(name, secret, DRAWS, 2.0**22)
        extra = tracemalloc.get_traced_memory()[1] - out.nbytes
        tracemalloc.stop()
        print(f"  {'':9} memory beyond the output {extra / 2**20:.1f} MiB (target <= 64)")
    for power in (-10, 10, 30, 40):
        small = DRAWS >> 4
        taken = seconds(*(partial(_draw, name, secret, small, 2.0**power) for name in numpy_draw))
        rates = [small / t / 1e6 for t in taken]
        print(f"  scale 2^{power:<4} laplace {rates[0]:6.1f} M/s   gaussian {rates[1]:6.1f} M/s")


def _draw(name: str, secret: Secret, count: int, scale: float) -> NDArray[np.int64]:
    words = secret.words("bench")
    return words.laplace(count, scale) if name == "laplace" else words.gaussian(count, scale)


def product_table() -> None:
    """Clip, round and project exactly, over a plain float64 product of the same shapes."""
    print("Exact product with clipping and rounding, over plain float64 X @ P (target <= 1.3), one core")
    rng = np.random.default_rng(1)
    for rows, d, k in ((200_000, 100, 32), (50_000, 784, 64), (20_000, 2000, 128)):
        data = rng.random((rows, d))
        columns = np.ascontiguousarray(data.T)
        grid = InputGrid(np.zeros(d), np.ones(d))
        plain = rng.standard_normal((d, k)) / np.sqrt(k)
        dense = Projection(family="gaussian", dim_in=d, dim_out=k).on_lattice(1.0)
        count_sketch = Projection(family="sparse", dim_in=d, dim_out=k).on_lattice(1.0)
        base, by_columns, ours, thin = seconds(
            lambda data=data, plain=plain: data @ plain,
            lambda columns=columns, plain=plain: plain.T @ columns,
            lambda grid=grid, dense=dense, columns=columns: dense.apply(grid, columns),
            lambda grid=grid, count_sketch=count_sketch, columns=columns: count_sketch.apply(grid, columns),
        )
        name = f"{rows:7,} x {d:4} -> {k:3}"
        print(f"  {name}   gaussian {ours / base:5.2f} x   sparse(1) {thin / base:5.2f} x", end="   ")
        print(f"(a plain product of columns, P' @ X', {by_columns / base:5.2f} x)")


if __name__ == "__main__":
    with threadpool_limits(1):
        noise_table()
        product_table()
