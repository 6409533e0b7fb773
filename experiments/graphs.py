"""Cuts of graphs: the error of each mechanism against epsilon, and how often its 95% bars hold.

Usage: python experiments/graphs.py [--data FOLDER] [--quick]     prints a section of docs/results.md, draws a picture
The folder holds graphs of SNAP as graph_NAME.parquet (src, dst), with graph_NAME_nodes.parquet where vertices have
public labels; without it, a stochastic block model is drawn. Directed edges, repeats and loops follow the rules of
``edges``.
"""

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy import sparse

from sfumato import cutplan, cutting
from sfumato.calibration import least_level
from sfumato.cutting import PairNoise
from sfumato.edges import Graph, gather, open_edges
from sfumato.estimate import Estimate
from sfumato.guarantee import Guarantee
from sfumato.loss import Laplace, Response
from sfumato.mechanisms.graph import GraphSketch
from sfumato.mechanisms.pairs import LARGEST_VERTICES, EdgeNoise, EdgeResponse
from sfumato.pictures import figure
from sfumato.pipeline import release
from sfumato.secret import Secret

Floats = NDArray[np.float64]
ROWS, DELTA, SETS = 119, 1e-6, 40
REPEATS, LARGE_REPEATS = 4, 2  # releases; fewer of graphs whose pairs are too many to publish
EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
TABLED = (0.1, 1.0, 4.0)
NAMES = ("ego_facebook", "ca_grqc", "email_enron", "musae_facebook", "email_eu_core", "polblogs")


# ---- graphs and questions -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A graph, with a community for each vertex and where that comes from."""

    name: str
    graph: Graph
    labels: NDArray[np.int64]
    source: str

    @property
    def edges(self) -> Floats:
        """The graph as an edge list."""
        return np.column_stack([self.graph.first, self.graph.second, self.graph.weights])

    @property
    def degrees(self) -> Floats:
        """The weight at each vertex."""
        ends = (self.graph.first, self.graph.second)
        return np.sum([np.bincount(end, self.graph.weights, self.graph.vertices) for end in ends], axis=0)

    def cuts(self, sets: Floats) -> Floats:
        """The truth."""
        return np.array([self.graph.weights @ (x[self.graph.first] != x[self.graph.second]) for x in sets])


def cases(folder: Path | None) -> Iterator[Case]:
    """The graphs that are there, or a generated one."""
    paths = [] if folder is None else [folder / f"graph_{name}.parquet" for name in NAMES]
    for path in filter(Path.exists, paths):
        name, nodes = path.stem.removeprefix("graph_"), path.with_name(f"{path.stem}_nodes.parquet")
        if nodes.exists():
            table = pq.read_table(nodes)
            kind = next(column for column in table.column_names if column != "node")
            graph = gather(open_edges(path), table.num_rows)
            order = np.argsort(table["node"].to_numpy())
            yield Case(name, graph, table[kind].to_numpy()[order].astype(np.int64), kind)
        else:
            graph = gather(open_edges(path), None)
            yield Case(name, graph, propagated(graph), "label propagation")
    if not any(map(Path.exists, paths)):
        yield generated()


def generated(vertices: int = 2000, blocks: int = 8) -> Case:
    """A stochastic block model: pairs within a block are joined with probability 0.06, others with 0.002."""
    rng, labels = np.random.default_rng(1), np.arange(vertices) % blocks
    first, second = np.triu_indices(vertices, 1)
    drawn = rng.random(first.size) < np.where(labels[first] == labels[second], 0.06, 0.002)
    graph = gather(open_edges(np.column_stack([first[drawn], second[drawn]])), vertices)
    return Case("generated", graph, labels, "block")


def propagated(graph: Graph, rounds: int = 10) -> NDArray[np.int64]:
    """Communities by label propagation (Raghavan, Albert, Kumara 2007). They look at the graph: for evaluation only."""
    n, rng = graph.vertices, np.random.default_rng(1)
    half = sparse.coo_array((graph.weights, (graph.first, graph.second)), shape=(n, n))
    matrix, labels = (half + half.T).tocsr(), np.arange(n)
    for _ in range(rounds):
        for v in rng.permutation(n):
            some = slice(matrix.indptr[v], matrix.indptr[v + 1])
            if some.start < some.stop:
                found, place = np.unique(labels[matrix.indices[some]], return_inverse=True)
                labels[v] = found[np.argmax(np.bincount(place, matrix.data[some]))]
    return labels


def questions(case: Case) -> dict[str, Floats]:
    """Rows of indicators of each kind, those whose cut is not 0."""
    rng, n = np.random.default_rng(1), case.graph.vertices
    order = np.argsort(-case.degrees, kind="stable")
    labels, sizes = np.unique(case.labels, return_counts=True)
    largest = labels[np.argsort(-sizes, kind="stable")][: SETS if labels.size > 2 else 1]  # two labels, one cut
    asked = {
        "random half": rng.random((SETS, n)) < 0.5,
        "highest degrees": np.array([np.isin(np.arange(n), order[:k]) for k in range(5, 5 + 2 * SETS, 2)]),
        "community": case.labels == largest[:, None],
        "one vertex": np.arange(n) == order[:: max(1, n // SETS)][:SETS, None],
    }
    return {kind: sets[case.cuts(sets) > 0].astype(float) for kind, sets in asked.items()}


# ---- mechanisms -----------------------------------------------------------------------------------------------------

Answer = Callable[[Case, Floats, float], Estimate | None]  # to all sets, at an epsilon, from one new release


def exact(case: Case, sets: Floats, epsilon: float) -> Estimate:
    """A graph sketch, with the ridge of a release."""
    return _released(case, sets, GraphSketch(rows=ROWS, vertices=case.graph.vertices), epsilon)


def published(case: Case, sets: Floats, epsilon: float) -> Estimate | None:
    """The same sampler at the ridge of the paper; None where that is no less than the number of vertices."""
    n, weight = case.graph.vertices, cutplan.published_ridge(ROWS, epsilon, DELTA)
    if weight >= n:
        return None
    prepared = GraphSketch(rows=ROWS, vertices=n).prepare(None, _promise(epsilon))
    drawn = prepared.run(open_edges(case.edges), 1 / (2 / weight - 2 / n), Secret.fresh())
    sketch = np.concatenate(list(drawn.blocks), axis=1).astype(float)
    centred = sets - sets.mean(axis=1, keepdims=True)
    squared = np.mean((sketch @ centred.T) ** 2, axis=0)
    return cutting.from_sketch(squared, cutting.powers(centred)[0], vertices=n, weight=weight, rows=ROWS)


def laplace(case: Case, sets: Floats, epsilon: float) -> Estimate:
    """Noise on every pair: a release, or the law of its cuts where there are too many pairs.

    The noise of a cut of N pairs is a sum of N Laplace draws, the difference of two gamma draws of shape N.
    """
    if case.graph.vertices <= LARGEST_VERTICES:
        return _released(case, sets, EdgeNoise(vertices=case.graph.vertices), epsilon)
    scale = least_level(lambda level: Laplace(1.0, level), epsilon, DELTA)
    rng, pairs = np.random.default_rng(), _spread(sets)
    noise = scale * (rng.standard_gamma(pairs) - rng.standard_gamma(pairs))
    return cutting.from_pairs(case.cuts(sets) + noise, pairs, pairs, 1.0, PairNoise.laplace(math.sqrt(2) * scale))


def response(case: Case, sets: Floats, epsilon: float) -> Estimate:
    """Randomized response on every pair: a release, or the law of its cuts where there are too many pairs."""
    if case.graph.vertices <= LARGEST_VERTICES:
        return _released(case, sets, EdgeResponse(vertices=case.graph.vertices), epsilon)
    each = 1 / least_level(lambda level: Response(1 / level), epsilon, DELTA)
    rng, flip, pairs, cuts = np.random.default_rng(), 1 / (1 + math.exp(each)), _spread(sets), case.cuts(sets)
    ones = rng.binomial(cuts.astype(np.int64), 1 - flip) + rng.binomial((pairs - cuts).astype(np.int64), flip)
    return cutting.from_pairs((ones - flip * pairs) / (1 - 2 * flip), pairs, pairs, 1.0, PairNoise.response(each))


MECHANISMS: dict[str, Answer] = {
    "sketch, exact w": exact,
    "sketch, published w": published,
    "Laplace on pairs": laplace,
    "randomized response": response,
}


def _promise(epsilon: float) -> Guarantee:
    return Guarantee(epsilon=epsilon, delta=DELTA, unit="edge")


def _released(case: Case, sets: Floats, recipe: GraphSketch | EdgeNoise | EdgeResponse, epsilon: float) -> Estimate:
    found: Estimate = release(case.edges, schema=None, mechanism=recipe, guarantee=_promise(epsilon)).cuts(sets)
    return found


def _spread(sets: Floats) -> Floats:
    size = sets.sum(axis=1)
    return np.asarray(size * (sets.shape[1] - size))


# ---- what is shown --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Score:
    """Relative errors of the cuts of one kind over all releases, and the share of their 95% bars that held in each."""

    median: float
    ninth: float
    held: Floats

    def __str__(self) -> str:
        return f"{self.median:.2g} / {self.ninth:.2g} / {self.held.mean():.0%}"


Scores = dict[tuple[str, str, float], Score | None]  # by kind of cut, mechanism, epsilon


def scores(case: Case, epsilons: tuple[float, ...], repeats: int) -> Scores:
    """Of all mechanisms on one graph; None where a mechanism has no answer."""
    asked = questions(case)
    every = np.concatenate(list(asked.values()))
    cuts, ends = case.cuts(every), np.cumsum([len(sets) for sets in asked.values()])
    found: Scores = {}
    for epsilon in epsilons:
        for name, answer in MECHANISMS.items():
            made = [e for e in (answer(case, every, epsilon) for _ in range(repeats)) if e is not None]
            errors = np.array([np.abs(e.value / cuts - 1) for e in made])
            held = np.array([(e.interval()[0] <= cuts) & (cuts <= e.interval()[1]) for e in made])
            for kind, end in zip(asked, ends, strict=True):
                some = slice(end - len(asked[kind]), end)
                found[kind, name, epsilon] = _score(errors[:, some], held[:, some]) if made else None
    return found


def _score(errors: Floats, held: NDArray[np.bool_]) -> Score:
    return Score(float(np.median(errors)), float(np.quantile(errors, 0.9)), held.mean(axis=1))


def table(results: list[tuple[Case, Scores]]) -> Iterator[str]:
    """One row for each graph, kind of cut and some of the epsilons."""
    yield "| graph | cut | epsilon | " + " | ".join(MECHANISMS) + " |"
    yield "|---" * (len(MECHANISMS) + 3) + "|"
    for case, found in results:
        kinds = dict.fromkeys(kind for kind, _, _ in found)
        for kind in kinds:
            for epsilon in (e for e in TABLED if (kind, next(iter(MECHANISMS)), e) in found):
                cells = [found[kind, name, epsilon] for name in MECHANISMS]
                shown = ("no: w >= n" if cell is None else str(cell) for cell in cells)
                yield f"| {case.name} | {kind} | {epsilon:g} | " + " | ".join(shown) + " |"


def coverage(results: list[tuple[Case, Scores]]) -> Iterator[str]:
    """How many bars held, over all graphs and epsilons; cuts of one release err together, so errors are over those."""
    kinds = dict.fromkeys(kind for _, found in results for kind, _, _ in found)
    yield "| 95% bars that held | " + " | ".join(MECHANISMS) + " |\n" + "|---" * (len(MECHANISMS) + 1) + "|"
    for kind in kinds:
        cells = []
        for name in MECHANISMS:
            each = [s.held for _, found in results for key, s in found.items() if key[:2] == (kind, name) and s]
            held = np.concatenate([np.empty(0), *each])
            error = held.std(ddof=1) / math.sqrt(held.size) if held.size > 1 else math.nan
            cells.append(f"{held.mean():.1%} +- {error:.1%}" if held.size else "none")
        yield f"| {kind} | " + " | ".join(cells) + " |"


def ridges() -> Iterator[str]:
    """The weight of the complete graph: as published, and exact for a graph of many vertices."""
    yield "| rows | epsilon | published w | exact w | published / exact |\n|---|---|---|---|---|"
    for rows in (119, 473, 4239):
        for epsilon in (0.1, 1.0, 4.0):
            theirs = cutplan.published_ridge(rows, epsilon, DELTA)
            ours = cutplan.sketch_ridge(10**12, rows, epsilon, DELTA)
            yield f"| {rows} | {epsilon:g} | {theirs:.0f} | {ours:.1f} | {theirs / ours:.1f} |"


def draw(path: Path, results: list[tuple[Case, Scores]], epsilons: tuple[float, ...]) -> None:
    """Median relative error against epsilon, shaded up to the 90% quantile; a row of panels for each graph."""
    kinds = list(dict.fromkeys(kind for _, found in results for kind, _, _ in found))
    title = (
        f"Cuts under edge privacy, delta = {DELTA:g}, {ROWS} rows: median relative error, shaded to the 90% quantile"
    )
    with figure(path, title, (12, 1 + 2.3 * len(results))) as picture:
        panels = picture.subplots(len(results), len(kinds), squeeze=False, sharex=True)
        for row, (case, found) in zip(panels, results, strict=True):
            for axes, kind in zip(row, kinds, strict=True):
                for name, colour in zip(MECHANISMS, ("#1b6ca8", "#8e5ea2", "#c8553d", "#2a9d5c"), strict=True):
                    known = {e: s for e in epsilons if (s := found[kind, name, e]) is not None}
                    medians, ninths = ([getattr(s, part) for s in known.values()] for part in ("median", "ninth"))
                    axes.plot(list(known), medians, color=colour, marker="o", markersize=3, label=name)
                    axes.fill_between(list(known), medians, ninths, color=colour, alpha=0.12, linewidth=0)
                axes.axhline(1.0, color="#999999", linewidth=0.8, linestyle=":")
                axes.set(xscale="log", yscale="log")
                axes.set_title(f"{case.name}: {kind}", fontsize=8)
            row[0].set_ylabel("relative error")
        for axes in panels[-1]:
            axes.set_xlabel("epsilon")
            axes.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
            axes.minorticks_off()
        panels[0][0].legend(fontsize=7, frameon=False)


def section(folder: Path | None, picture: Path, quick: bool) -> Iterator[str]:
    """The lines of docs/results.md that this experiment makes."""
    epsilons, repeats = (TABLED, (1, 1)) if quick else (EPSILONS, (REPEATS, LARGE_REPEATS))
    yield "## Cuts of graphs (Blocki et al., Algorithm 1)\n\n### The ridge\n"
    yield f"The weight w of the complete graph that is mixed in, delta = {DELTA:g}, many vertices: as published, and"
    yield "from the exact privacy profile.\n"
    yield from ridges()
    yield "\n### Errors\n"
    yield f"Unit: the weight of one edge; delta = {DELTA:g} for all, {ROWS} rows, {repeats[0]} releases each,"
    yield f"{repeats[1]} of graphs of more than {LARGEST_VERTICES:,} vertices. Cells: median / 90% quantile of the"
    yield "relative error / 95% bars that held. The published w runs on the same sampler; where it is no less than"
    yield "n there is no sketch. The larger graphs have too many pairs for the two last mechanisms: their cuts are"
    yield "drawn from the exact law of each. Directed graphs are taken as undirected ones, a pair that is listed"
    yield "several times counts once, loops are dropped. Communities by label propagation and sets by degree look"
    yield "at the graph: such questions are for evaluation only. The sets of one kind overlap (those of highest"
    yield "degrees are nested), so the bars of one release hold or fail together.\n"
    results = []
    yield "| graph | vertices | edges | communities by | share of the graph in a sketch, epsilon 0.1 | epsilon 1 |"
    yield "|---|---|---|---|---|---|"
    for case in cases(folder):
        n = case.graph.vertices
        shares = [1 - cutplan.sketch_ridge(n, ROWS, epsilon, DELTA) / n for epsilon in (0.1, 1.0)]
        seen = " | ".join(f"{share:.1%}" for share in shares)
        yield f"| {case.name} | {n:,} | {case.graph.steps.size:,} | {case.source} | {seen} |"
        results.append((case, scores(case, epsilons, repeats[n > LARGEST_VERTICES])))
    yield ""
    yield from table(results)
    yield "\nOver all graphs and all epsilons of the picture, +- the standard error over releases:\n"
    yield from coverage(results)
    yield ""
    draw(picture, results, epsilons)
    yield f"![cuts](figures/{picture.name})"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of the graphs")
    parser.add_argument("--quick", action="store_true", help="fewer values of epsilon, one release each")
    parser.add_argument("--picture", type=Path, default=Path("docs/figures/cuts.svg"))
    options = parser.parse_args()
    for line in section(options.data, options.picture, options.quick):
        print(line, flush=True)
