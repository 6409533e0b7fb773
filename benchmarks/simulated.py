"""Figures of the documents that are simulated or timed: costs, shortfalls, coverage at its edges, what audits reach.

Usage: python benchmarks/simulated.py [composition coverage audits]
"""

import itertools
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.audit.cases import CASES, EPSILONS
from sfumato.audit.examine import Effort, examine
from sfumato.estimation import response_law, responses, sketches
from sfumato.estimation.response_columns import ResponseColumn
from sfumato.estimation.response_law import Channel, Questionnaire
from sfumato.intervals.moments import Geometry, NoiseLaw
from sfumato.privacy.calibration import least_level
from sfumato.privacy.losses import Composed, FreshLaplace, Gaussian
from sfumato.projection.projection import Projection

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
from published_constants import row_wise_laplace
from published_synthetic import ron_gauss

Floats = NDArray[np.float64]
Kind = Literal["laplace", "gaussian"]
KINDS: tuple[Kind, Kind] = ("gaussian", "laplace")
FAMILIES = ("identity", "gaussian", "rademacher", "achlioptas", "sparse", "orthonormal")
REPEATS = 4000
DIRECTIONS: dict[str, list[float]] = {
    **{f"{m} equal": [1.0] * m for m in (1, 2, 3, 5, 8, 11, 16, 24)},
    "2.6 and seven 1": [math.sqrt(7)] + [1.0] * 7,
    "8, 7, ..., 1": [8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0],
    "1, 1/2, ..., 1/128": [2.0**-i for i in range(8)],
    "10, 10 and twenty 1": [10.0, 10.0] + [1.0] * 20,
}


def fresh_laplace() -> None:
    """Scale over radius at (1, 1e-6), by composition."""
    print("Laplace noise after a fresh gaussian projection, b/R at (1, 1e-6), composed")
    for k in (2, 3, 10, 20, 64):
        level = least_level(lambda b, k=k: FreshLaplace(dim_out=k, radius=1.0, laplace_scale=b), 1.0, 1e-6, start=4.0)
        print(f"  k = {k:2}   {level:.2f}")


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


def inner_products() -> None:
    """What the first interval of a law and level costs, and each further pair."""
    rng, noise = np.random.default_rng(1), NoiseLaw("laplace", 1.0)
    print("Intervals of inner products, 100,000 pairs of 32 numbers, Laplace noise")
    for family in ("identity", "gaussian", "orthonormal"):
        z, w = rng.normal(size=(2, 100_000, 32)) * 3
        asked = sketches.inner_product(z, w, noise, Geometry(family, 120 if family != "identity" else 32, 32))
        start = time.perf_counter()
        asked.interval()
        first, further = time.perf_counter() - start, best(asked.interval)
        print(f"  {family:12} first of a law and level {first - further:.2f} s, then {further * 10:.2f} µs a pair")


def coverage() -> None:
    """How often 95% intervals cover, for lengths and where it is hardest, and simultaneous ones."""
    print(
        "Coverage of 95% intervals of squared lengths, near to far, one and two copies of the noise, 20,000 repetitions"
    )
    worst = {}
    for family, k in itertools.product(FAMILIES, (4, 32, 128)):
        for kind, shares in _spread_coverage(family, k, 20_000).items():
            worst[family, kind, k] = min(shares), max(shares)
    for family, kind in itertools.product(FAMILIES, KINDS):
        ends = (f"k = {k}: {worst[family, kind, k][0]:.1%} to {worst[family, kind, k][1]:.1%}" for k in (4, 32, 128))
        print(f"  {family:12}{kind:9}", "   ".join(ends))
    low, high = min(low for low, _ in worst.values()), max(high for _, high in worst.values())
    print(f"  lengths over all {10 * len(worst)} cells: {low:.1%} to {high:.1%}")
    print("Rows differing in few columns, 10,000 repetitions (lowest and highest)")
    for family in ("identity", "sparse"):
        shares = {
            (name, k): _few_coverage(family, k, DIRECTIONS[name], 10_000) for name in DIRECTIONS for k in (32, 128)
        }
        for (name, k), found in shares.items():
            print(f"  {family:10}{name:22} k = {k:3}   {min(found):.1%} to {max(found):.1%}")
        low, high = min(map(min, shares.values())), max(map(max, shares.values()))
        print(f"  {family}, over all: {low:.1%} to {high:.1%}", flush=True)
    print("Releases of which all pairs are covered at once, of 200, pairs differing in 1, 2, 3, 5, 8, 11 columns")
    for family, k, pairs in itertools.product(("identity", "sparse"), (32, 128), (150, 2000)):
        found = ", ".join(f"{kind} {_simultaneous_coverage(family, k, kind, pairs):.1%}" for kind in KINDS)
        print(f"  {family:9} k = {k:3}   {pairs:5} pairs   {found}")
    print("Inner products and cosines: near to far, four angles, lengths equal and 1 to 10 (lowest and highest)")
    for k in (4, 8, 32, 128):
        over: dict[str, list[float]] = {}
        for family, kind in itertools.product(FAMILIES, KINDS):
            found = _pair_coverage(family, kind, k, 20_000)
            print(f"  {family:12}{kind:9} k = {k:3}", _ends(found), flush=True)
            over = {name: over.get(name, []) + shares for name, shares in found.items()}
        print(f"  over all, k = {k:3}", _ends(over), flush=True)


def _ends(found: dict[str, list[float]]) -> str:
    return "   ".join(f"{name} {min(shares):.1%} to {max(shares):.1%}" for name, shares in found.items())


def _images(family: str, vector: Floats, k: int, count: int, rng: np.random.Generator) -> Floats:
    """The images of a vector under ``count`` independent projections."""
    d = len(vector)
    if family == "identity":
        return np.broadcast_to(vector, (count, d))
    if family in ("gaussian", "orthonormal"):
        head = rng.normal(size=(count, k)) * np.linalg.norm(vector)
        if family == "gaussian":
            return head / math.sqrt(k)
        total = np.sum(rng.normal(size=(count, d - k)) ** 2, axis=1) + np.sum(head**2, axis=1) / (vector @ vector)
        return np.asarray(head / np.sqrt(total)[:, None] * math.sqrt(d / k))
    image = np.zeros((count, k))
    for value in vector[vector != 0]:
        if family == "sparse":
            image[np.arange(count), rng.integers(0, k, count)] += value * rng.choice([-1, 1], count)
        elif family == "rademacher":
            image += value / math.sqrt(k) * rng.choice([-1, 1], (count, k))
        else:
            image += value * math.sqrt(3 / k) * rng.choice([-1, 0, 0, 0, 0, 1], (count, k))
    return image


def _lengths(image: Floats, kind: Kind, geometry: Geometry, rng: np.random.Generator) -> list[float]:
    """Coverage of both questions behind images of unit vectors, at five distances."""
    shares, noise = [], NoiseLaw(kind, 1.0)
    for ratio in (0.0, 0.3, 3.0, 30.0, 1e4):
        squared = ratio * math.sqrt(geometry.dim_out)
        z, other = math.sqrt(squared) * image + _noise(kind, image.shape, rng), _noise(kind, image.shape, rng)
        for found in (sketches.squared_distance(z, other, noise, geometry), sketches.squared_norm(z, noise, geometry)):
            low, high = found.interval()
            shares.append(float(np.mean((low <= squared) & (squared <= high))))
    return shares


def _noise(kind: Kind, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    return rng.laplace(0.0, math.sqrt(0.5), shape) if kind == "laplace" else rng.normal(size=shape)


def _spread_coverage(family: str, k: int, count: int) -> dict[str, list[float]]:
    """For one direction drawn at random, of 120 columns (sparse 300)."""
    rng = np.random.default_rng(k)
    vector = rng.normal(size={"identity": k, "orthonormal": 2 * k, "sparse": 300}.get(family, 120))
    image = _images(family, vector / np.linalg.norm(vector), k, count, rng)
    return {kind: _lengths(image, kind, Geometry(family, len(vector), k), rng) for kind in KINDS}


def _few_coverage(family: str, k: int, columns: list[float], count: int) -> list[float]:
    rng, vector = np.random.default_rng(k), np.zeros(k if family == "identity" else 300)
    vector[: len(columns)] = columns / np.linalg.norm(columns)
    image, geometry = _images(family, vector, k, count, rng), Geometry(family, len(vector), k)
    return [share for kind in KINDS for share in _lengths(image, kind, geometry, rng)]


def _simultaneous_coverage(family: str, k: int, kind: Kind, pairs: int) -> float:
    rng, d, hits, repeats = np.random.default_rng(k), k if family == "identity" else 300, 0, 200
    apart = np.zeros((pairs, d))
    for i, vector in enumerate(apart):
        vector[rng.choice(d, (1, 2, 3, 5, 8, 11)[i % 6], replace=False)] = rng.choice([3.0, 10.0, 100.0])
    for _ in range(repeats):
        p = np.eye(d)
        if family == "sparse":
            p = np.zeros((d, k))
            p[np.arange(d), rng.integers(0, k, d)] = rng.choice([-1.0, 1.0], d)
        z, other = apart @ p + _noise(kind, (pairs, k), rng), _noise(kind, (pairs, k), rng)
        found = sketches.squared_distance(z, other, NoiseLaw(kind, 1.0), Geometry(family, d, k))
        low, high = found.interval(simultaneous=True)
        truth = np.sum(apart**2, axis=1)
        hits += bool(np.all((low <= truth) & (truth <= high)))
    return hits / repeats


def _pair_coverage(family: str, kind: Kind, k: int, count: int) -> dict[str, list[float]]:
    """For two directions drawn at random, of 120 columns (sparse 300). Far: lengths 1000 times the noise's or more."""
    rng = np.random.default_rng(k)
    shares: dict[str, list[float]] = {"inner products": [], "cosines": [], "far cosines": []}
    d = {"identity": k, "orthonormal": 2 * k, "sparse": 300}.get(family, 120)
    noise, geometry = NoiseLaw(kind, 1.0), Geometry(family, d, k)
    clean = _pair_images(family, np.linalg.qr(rng.normal(size=(d, 2)))[0], k, count, rng)
    for angle, longer, ratio in itertools.product((0.0, 0.5, 0.9, -0.9), (1.0, 10.0), (0.0, 1.0, 10.0, 1e6)):
        shorter, truth = math.sqrt(ratio / longer) * k**0.25, ratio * math.sqrt(k) * angle
        x, y = clean[0], angle * clean[0] + math.sqrt(1 - angle**2) * clean[1]
        z, w = (v + _noise(kind, v.shape, rng) for v in (shorter * x, shorter * longer * y))
        low, high = sketches.inner_product(z, w, noise, geometry).interval()
        shares["inner products"].append(float(np.mean((low <= truth) & (truth <= high))))
        if ratio > 0:
            low, high = sketches.cosine(z, w, noise, geometry).interval()
            name = "far cosines" if ratio > 100 else "cosines"
            shares[name].append(float(np.mean((low <= angle) & (angle <= high))))
    return shares


def _pair_images(family: str, columns: Floats, k: int, count: int, rng: np.random.Generator) -> Floats:
    """The images of two orthonormal vectors, given as columns, under the same ``count`` projections: (2, count, k)."""
    d = len(columns)
    if family == "identity":
        return np.stack([np.broadcast_to(vector, (count, d)) for vector in columns.T])
    if family in ("gaussian", "orthonormal"):  # rotation invariant
        head = rng.normal(size=(2, count, k))
        if family == "gaussian":
            return head / math.sqrt(k)
        one, two = np.concatenate([head, rng.normal(size=(2, count, d - k))], axis=2)
        one /= np.linalg.norm(one, axis=1, keepdims=True)
        two -= np.sum(one * two, axis=1, keepdims=True) * one
        two /= np.linalg.norm(two, axis=1, keepdims=True)
        return np.stack([one[:, :k], two[:, :k]]) * math.sqrt(d / k)
    image = np.zeros((2, count, k))
    for values in columns:
        if family == "sparse":
            signs, places = rng.choice([-1, 1], count), rng.integers(0, k, count)
            image[:, np.arange(count), places] += values[:, None] * signs
        else:
            faces = [-1, 1] if family == "rademacher" else [-math.sqrt(3), 0, 0, 0, 0, math.sqrt(3)]
            image += values[:, None, None] * rng.choice(faces, (count, k)) / math.sqrt(k)
    return image


def answers_coverage() -> None:
    """Intervals of distances from answers in columns that are not alike."""
    kinds = (
        ResponseColumn(1, 0, 1.0),
        ResponseColumn(3, 3, 1.5),
        ResponseColumn(4, -1, 1.0),
        ResponseColumn(1, 0, 2.0),
    )
    heavy = (ResponseColumn(1, 0, 1.0),) * 10 + (ResponseColumn(3, -1, 0.05),) * 10
    print("Randomized response, mixed columns: coverage of 95% intervals of distances, 4,000 repetitions")
    for name, columns in (("20 columns", kinds * 5), ("100 columns", kinds * 25), ("20, 10 of them heavy", heavy)):
        found = [_answers_covered(columns, e, share) for e in (0.2, 1.0, 3.0, 6.0) for share in (0.0, 0.1, 0.6)]
        print(f"  {name:22} {min(found):.1%} to {max(found):.1%}")


def _answers_covered(columns: tuple[ResponseColumn, ...], epsilon: float, share: float) -> float:
    rng, form = np.random.default_rng(round(1000 * epsilon + 10 * share)), Questionnaire(columns, epsilon)
    sizes = np.array([answer.categories for answer in columns])
    keep = np.array([Channel(epsilon, answer.categories).keep for answer in columns])
    x = rng.integers(0, sizes)
    y = np.where(rng.random(sizes.size) < share, (x + 1) % sizes, x)
    truth = float(response_law.total(form.law(response_law.DISTANCE, 2).truth, form.ways(x[None], y[None]))[0])

    def answered(codes: NDArray[np.int64]) -> NDArray[np.int64]:
        other = (codes + 1 + rng.integers(0, sizes - 1, (REPEATS, sizes.size))) % sizes
        return np.where(rng.random((REPEATS, sizes.size)) < keep, codes, other)

    low, high = responses.squared_distance(answered(x), answered(y), form).interval()
    return float(np.mean((low <= truth + 1e-9) & (truth - 1e-9 <= high)))


def audits() -> None:
    """What audits reach of tight claims, and of published constants, with as many samples as the documents say."""
    print("Audits at 99.9%: the share of the claim that ten million samples a side reach, epsilon 0.5, 1, 4")
    tight = ("sketch, Laplace, one value", "sketch, Gaussian, one value", "graph sketch", "responses, one value")
    for case in (c for c in CASES if c.name in tight):
        found = [case.run(epsilon, _effort(10_000_000, 1), lambda _: None).share for epsilon in EPSILONS]
        print(f"  {case.name:28} {'  '.join(f'{share:.1%}' for share in found)}", flush=True)
    print("Published constants: lower bounds with three seeds")
    for name, trial, samples in (
        ("RON-Gauss, p = 4, claimed 4", ron_gauss(), 8_000_000),
        ("the same with our constant", ron_gauss(published=False), 8_000_000),
        ("Dhaliwal, k = 2, claimed 4", row_wise_laplace(), 4_000_000),
        ("Dhaliwal, k = 2, claimed 1", row_wise_laplace(epsilon=1.0), 4_000_000),
    ):
        found = [examine(trial, _effort(samples, seed)).bound.epsilon for seed in (1, 2, 3)]
        print(f"  {name:28} {'  '.join(f'{bound:.2f}' for bound in found)}", flush=True)


def _effort(samples: int, seed: int) -> Effort:
    return Effort(samples=samples, seconds=1e6, confidence=0.999, seed=seed)


def composition() -> None:
    """What composing costs."""
    fresh_laplace()
    fourier_shortfall()


def timings() -> None:
    """Of choices that were made for speed, on this machine."""
    achlioptas_storage()
    inner_products()


PARTS = {
    "composition": composition,
    "timings": timings,
    "coverage": coverage,
    "answers": answers_coverage,
    "audits": audits,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or PARTS:
        PARTS[name]()
