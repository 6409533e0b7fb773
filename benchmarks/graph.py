"""Cuts of a graph from each private release: relative error, and how often 95% bars hold, beside the paper's ridge.

Usage: python benchmarks/graph.py EDGES [EDGES ...]; each a Parquet or CSV file with columns src, dst.
       python benchmarks/graph.py --large: a generated graph of a million vertices, time and memory.
"""

import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sfumato import cutplan, cutting
from sfumato.edges import Graph, gather, open_edges
from sfumato.guarantee import Guarantee
from sfumato.mechanisms.graph import GraphSketch
from sfumato.mechanisms.pairs import LARGEST_VERTICES, EdgeNoise, EdgeResponse
from sfumato.pipeline import release, release_to
from sfumato.releases.loading import load

ROWS, DELTA, REPEATS, SETS = 119, 1e-6, 5, 40
Floats = NDArray[np.float64]


def questions(graph: Graph, degrees: Floats) -> dict[str, Floats]:
    """Rows of indicators: balanced at random, the highest degrees, neighbourhoods, single vertices."""
    rng, n = np.random.default_rng(1), graph.vertices
    order = np.argsort(-degrees)
    around = np.zeros((SETS, n))
    for row, v in zip(around, order[:: max(1, n // SETS)], strict=False):
        row[v] = 1
        row[graph.second[graph.first == v]] = row[graph.first[graph.second == v]] = 1
    return {
        "half, at random": (rng.random((SETS, n)) < 0.5).astype(float),
        "highest degrees": np.array([np.isin(np.arange(n), order[:k]) for k in range(5, 5 + 2 * SETS, 2)], float),
        "a neighbourhood": around,
        "one vertex": np.eye(n)[order[:: max(1, n // SETS)][:SETS]],
    }


def truth(graph: Graph, sets: Floats) -> Floats:
    """The cuts themselves."""
    return np.array([(graph.weights * (x[graph.first] != x[graph.second])).sum() for x in sets])


def table(path: Path) -> None:
    """Median relative error of each kind of cut, and coverage, at three epsilons."""
    graph = gather(open_edges(path), None)
    n = graph.vertices
    degrees = np.bincount(graph.first, graph.weights, n) + np.bincount(graph.second, graph.weights, n)
    recipes = {"sketch": GraphSketch(rows=ROWS, vertices=n)}
    if n <= LARGEST_VERTICES:
        recipes |= {"laplace": EdgeNoise(vertices=n), "response": EdgeResponse(vertices=n)}
    print(f"{path.name}: {n:,} vertices, {graph.steps.size:,} edges; median relative error (coverage of 95% bars)")
    for epsilon in (0.1, 1.0, 4.0):
        print(f"  epsilon {epsilon}: {cutplan.small_graph(n, ROWS, epsilon, DELTA).describe()}")
        promise = Guarantee(epsilon=epsilon, delta=DELTA, unit="edge")
        made = {
            name: [release(path, schema=None, mechanism=recipe, guarantee=promise) for _ in range(REPEATS)]
            for name, recipe in recipes.items()
        }
        for what, asked in questions(graph, degrees).items():
            sets = asked[truth(graph, asked) > 0]
            cuts = truth(graph, sets)
            line = [f"{_published(cuts, sets, n, epsilon):>12}"]
            for releases in made.values():
                found = [r.cuts(sets) for r in releases]
                error = np.median([np.abs(f.value / cuts - 1) for f in found])
                held = np.mean([(f.interval()[0] <= cuts) & (f.interval()[1] >= cuts) for f in found])
                line.append(f"{error:9.3g} ({held:.0%})")
            print(f"    {what:16} published w {' '.join(line)}   [{', '.join(made)}]")


def _published(cuts: Floats, sets: Floats, n: int, epsilon: float) -> str:
    """The median relative error that the paper's ridge would give, by formula."""
    weight = cutplan.published_ridge(ROWS, epsilon, DELTA)
    if weight >= n:
        return "w > n"
    variance = cutting.sketch_variance(cuts, cutting.powers(sets)[0], vertices=n, weight=weight, rows=ROWS)
    return f"{np.median(0.6745 * np.sqrt(variance) / cuts):.3g}"


def large() -> None:
    """A million vertices, ten million edges."""
    n, m = 10**6, 10**7
    edges = np.random.default_rng(1).integers(0, n, (m, 2), dtype=np.int32)
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        recipe, promise = GraphSketch(rows=ROWS, vertices=n), Guarantee(epsilon=1.0, delta=DELTA, unit="edge")
        release_to(Path(folder) / "r", edges, schema=None, mechanism=recipe, guarantee=promise)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"{n:,} vertices, {m:,} edges, {ROWS} rows: {time.perf_counter() - start:.0f} s, peak {peak:.1f} GiB")
        found = load(Path(folder) / "r").cut(np.arange(1000))
        true = np.count_nonzero((edges < 1000).sum(axis=1) == 1)
        print(f"a cut of 1,000 vertices: {found.value:.0f} +- {found.standard_error:.0f}, in truth about {true}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--large"]:
        large()
    for name in sys.argv[1:]:
        if not name.startswith("--"):
            table(Path(name))
    if len(sys.argv) == 1:
        print(__doc__)
