"""Cuts of graphs (Blocki et al., Algorithm 1): the error of each mechanism, and how often its 95% bars hold.

Graphs of SNAP are files graph_NAME.parquet (src, dst), with graph_NAME_nodes.parquet where vertices have public
labels; without them, a stochastic block model is drawn. Directed edges, repeats and loops follow the rules of
``edges``.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy import sparse

import published_constants
from figure import figure
from page import Measured, Part, Picture, Setting, Table
from sfumato.estimation import cuts as cutting
from sfumato.estimation.cuts import PairNoise
from sfumato.files.edges import Graph, gather, open_edges
from sfumato.intervals.estimate import Estimate
from sfumato.mechanisms.graph_pairs import LARGEST_VERTICES, EdgeNoise, EdgeResponse
from sfumato.mechanisms.graph_sketch import GraphSketch
from sfumato.pipeline.release import release
from sfumato.planning import cut_options
from sfumato.privacy.calibration import least_level
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Laplace, Response
from sfumato.randomness.secret import Secret

Floats = NDArray[np.float64]
ROWS, DELTA, SETS = 119, 1e-6, 40
EPSILONS, FEWER = (0.1, 0.5, 1.0, 4.0), (0.1, 1.0)
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


def cases(folder: Path | None, names: tuple[str, ...] = NAMES) -> Iterator[Case]:
    """Those of the graphs that are there, or a generated one."""
    paths = [] if folder is None else [folder / f"graph_{name}.parquet" for name in names]
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

Answer = Callable[[Case, Floats, float, Secret], Estimate | None]  # to all sets, at an epsilon, from one new release


def exact(case: Case, sets: Floats, epsilon: float, secret: Secret) -> Estimate:
    """A graph sketch, with the ridge of a release."""
    return _released(case, sets, GraphSketch(rows=ROWS, vertices=case.graph.vertices), epsilon, secret)


def published(case: Case, sets: Floats, epsilon: float, secret: Secret) -> Estimate | None:
    """The same sampler at the ridge of the paper; None where that is no less than the number of vertices."""
    n, weight = case.graph.vertices, published_constants.graph_ridge(ROWS, epsilon, DELTA)
    if weight >= n:
        return None
    prepared = GraphSketch(rows=ROWS, vertices=n).prepare(None, _promise(epsilon))
    drawn = prepared.run(open_edges(case.edges), 1 / (2 / weight - 2 / n), secret)
    sketch = np.concatenate(list(drawn.blocks), axis=1).astype(float)
    centred = sets - sets.mean(axis=1, keepdims=True)
    squared = np.mean((sketch @ centred.T) ** 2, axis=0)
    return cutting.from_sketch(squared, cutting.powers(centred)[0], vertices=n, weight=weight, rows=ROWS)


def laplace(case: Case, sets: Floats, epsilon: float, secret: Secret) -> Estimate:
    """Noise on every pair: a release, or the law of its cuts where there are too many pairs.

    The noise of a cut of N pairs is a sum of N Laplace draws, the difference of two gamma draws of shape N.
    """
    if case.graph.vertices <= LARGEST_VERTICES:
        return _released(case, sets, EdgeNoise(vertices=case.graph.vertices), epsilon, secret)
    scale = least_level(lambda level: Laplace(1.0, level), epsilon, DELTA)
    rng, pairs = _rng(secret), _spread(sets)
    noise = scale * (rng.standard_gamma(pairs) - rng.standard_gamma(pairs))
    return cutting.from_pairs(case.cuts(sets) + noise, pairs, pairs, 1.0, PairNoise.laplace(math.sqrt(2) * scale))


def response(case: Case, sets: Floats, epsilon: float, secret: Secret) -> Estimate:
    """Randomized response on every pair: a release, or the law of its cuts where there are too many pairs."""
    if case.graph.vertices <= LARGEST_VERTICES:
        return _released(case, sets, EdgeResponse(vertices=case.graph.vertices), epsilon, secret)
    each = 1 / least_level(lambda level: Response(1 / level), epsilon, DELTA)
    rng, flip, pairs, cuts = _rng(secret), 1 / (1 + math.exp(each)), _spread(sets), case.cuts(sets)
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


def _released(
    case: Case, sets: Floats, recipe: GraphSketch | EdgeNoise | EdgeResponse, epsilon: float, secret: Secret
) -> Estimate:
    made = release(case.edges, schema=None, mechanism=recipe, guarantee=_promise(epsilon), secret=secret)
    found: Estimate = made.cuts(sets)
    return found


def _rng(secret: Secret) -> np.random.Generator:
    return np.random.default_rng(abs(int(secret.words("law of a cut").draw(1)[0])))


def _spread(sets: Floats) -> Floats:
    size = sets.sum(axis=1)
    return np.asarray(size * (sets.shape[1] - size))


# ---- what is shown --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Score:
    """The cuts of one kind: median relative error of each release, and how many of the 95% bars of each held."""

    medians: Floats
    held: Floats
    asked: int


Key = tuple[str, str, float]  # kind of cut, mechanism, epsilon
Scores = dict[Key, Score | None]


def scores(case: Case, epsilons: tuple[float, ...], repeats: int, secrets: Iterator[Secret]) -> Scores:
    """Of all mechanisms on one graph; None where a mechanism has no answer."""
    asked = questions(case)
    every = np.concatenate(list(asked.values()))
    cuts, ends = case.cuts(every), np.cumsum([len(sets) for sets in asked.values()])
    found: Scores = {}
    for epsilon in epsilons:
        for name, answer in MECHANISMS.items():
            made = [e for e in (answer(case, every, epsilon, next(secrets)) for _ in range(repeats)) if e is not None]
            errors = np.array([np.abs(e.uncut / cuts - 1) for e in made])
            held = np.array([(e.interval()[0] <= cuts) & (cuts <= e.interval()[1]) for e in made])
            for kind, end in zip(asked, ends, strict=True):
                some = slice(end - len(asked[kind]), end)
                found[kind, name, epsilon] = _score(errors[:, some], held[:, some]) if made else None
    return found


def _score(errors: Floats, held: NDArray[np.bool_]) -> Score:
    return Score(np.median(errors, axis=1), held.mean(axis=1), errors.shape[1])


def medians(results: list[tuple[Case, Scores]]) -> Table:
    """One row for each graph, kind of cut and epsilon."""
    rows = []
    for case, found in results:
        for kind, epsilon in dict.fromkeys((kind, epsilon) for kind, _, epsilon in found):
            cells = [found[kind, name, epsilon] for name in MECHANISMS]
            shown = ["no: w >= n" if cell is None else Measured.of(cell.medians) for cell in cells]
            rows.append([case.name, kind, epsilon, *shown])
    formats = dict.fromkeys(MECHANISMS, ".2g") | {"epsilon": "g"}
    return Table("median relative error", ("graph", "cut", "epsilon", *MECHANISMS), rows, formats)


def coverage(results: list[tuple[Case, Scores]]) -> Table:
    """How many bars held, over all graphs and epsilons; cuts of one release err together, so errors are over those."""
    rows = []
    for kind in dict.fromkeys(kind for _, found in results for kind, _, _ in found):
        cells: list[str | Measured] = [kind]
        for name in MECHANISMS:
            each = [s for _, found in results for key, s in found.items() if key[:2] == (kind, name) and s]
            cells.append(_held(each) if each else "none")
        rows.append(cells)
    return Table("95% bars that held", ("cut", *MECHANISMS), rows, dict.fromkeys(MECHANISMS, ".3f"))


def _held(scores_of_one: list[Score]) -> Measured:
    shares = np.concatenate([score.held for score in scores_of_one])
    total = sum(score.held.size * score.asked for score in scores_of_one)
    alone = Measured.share(round(shares.mean() * total), total)
    return Measured(float(shares.mean()), max(alone.error, Measured.of(shares).error), shares.size)


def draw(path: Path, results: list[tuple[Case, Scores]], epsilons: tuple[float, ...]) -> None:
    """Median relative error against epsilon; a row of panels for each graph."""
    kinds = list(dict.fromkeys(kind for _, found in results for kind, _, _ in found))
    title = f"Cuts under edge privacy, delta = {DELTA:g}, {ROWS} rows: median relative error, mean over releases"
    with figure(path, title, (11, 1 + 2.0 * len(results))) as picture:
        panels = picture.subplots(len(results), len(kinds), squeeze=False, sharex=True)
        for row, (case, found) in zip(panels, results, strict=True):
            for axes, kind in zip(row, kinds, strict=True):
                for name, colour in zip(MECHANISMS, ("#1b6ca8", "#8e5ea2", "#c8553d", "#2a9d5c"), strict=True):
                    known = {e: s.medians.mean() for e in epsilons if (s := found[kind, name, e]) is not None}
                    axes.plot(list(known), list(known.values()), color=colour, marker="o", markersize=3, label=name)
                axes.axhline(1.0, color="#999999", linewidth=0.8, linestyle=":")
                axes.set(xscale="log", yscale="log")
                axes.minorticks_off()
                axes.set_title(f"{case.name}: {kind}", fontsize=8)
            row[0].set_ylabel("relative error")
        for axes in panels[-1]:
            axes.set_xlabel("epsilon")
            axes.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
        panels[0][0].legend(fontsize=7, frameon=False)


# ---- experiments ----------------------------------------------------------------------------------------------------

RIDGE = """\
Algorithm 1 mixes the complete graph into the graph with weight w = sqrt(32 r ln(2/delta)) ln(4r/delta) / epsilon, from
a bound on the loss of each row and advanced composition over the r rows. The loss of all rows together is known in
closed form ([mathematics.md](mathematics.md), section 7), so the least w is too. A graph of n vertices is shown with
weight 1 - w/n, so w >= n shows nothing. Exact numbers, delta = 1e-6, many vertices; r by eta and nu as in the paper:
(1/2, .05), (1/4, .05), (.1, .01)."""

INTRODUCTION = f"""\
The papers bound the error of cuts and measure nothing; the slides say that one release gives accurate answers for all
cuts. Here the unit is the weight of one edge, delta = {DELTA:g} for all, {ROWS} rows, {{repeats}} releases each. The
published w runs on the same sampler; where it is no less than n there is no sketch. Graphs of more than
{LARGEST_VERTICES:,} vertices have too many pairs for the two last mechanisms: their cuts are drawn from the exact law
of each. Directed graphs are taken as undirected ones, a pair that is listed several times counts once, loops go.
Communities by label propagation and sets by degree look at the graph: such questions are for evaluation only. The sets
of one kind overlap (those of highest degrees are nested), so the bars of one release hold or fail together, and errors
are over releases."""

VERDICT = """\
Settings in which the sketch with the exact w beats both baselines: {won}. So "accurate answers for all cuts" is nearest
to true for single vertices, whose cuts are their degrees; the more balanced a cut, the more accurate is randomized
response on every pair, where a graph has few enough vertices for it. Where a median above is over 1, no answer is of
use. {theirs}"""


def ridges(_: Setting) -> Iterator[Part]:
    """The weight of the complete graph: as published, and exact for a graph of many vertices."""
    yield RIDGE
    rows = []
    for count in (119, 473, 4239):
        for epsilon in (0.1, 1.0, 4.0):
            theirs = published_constants.graph_ridge(count, epsilon, DELTA)
            ours = cut_options.sketch_ridge(10**12, count, _promise(epsilon))
            rows.append([count, epsilon, theirs, ours, theirs / ours])
    header = ("rows", "epsilon", "published w", "exact w", "published / exact")
    yield Table("ridge", header, rows, {"epsilon": "g", "published w": ".0f", "exact w": ".1f"})
    least, most = (f(row[4] for row in rows) for f in (min, max))
    yield (
        f"The published weight is {least:.0f} to {most:.0f} times what the promise needs. It protects, so it is no\n"
        "error of privacy; but at epsilon 0.1 it shows nothing of a graph with fewer than 47,000 vertices."
    )


def run(setting: Setting) -> Iterator[Part]:
    """Errors of cuts and the coverage of their bars."""
    epsilons, repeats = (FEWER if setting.quick else EPSILONS), setting.often(6, 5)
    names = NAMES[-2:] if setting.quick else NAMES
    yield INTRODUCTION.format(repeats=repeats)
    results, facts = [], []
    for case in cases(setting.data, names):
        n = case.graph.vertices
        shares = [1 - cut_options.sketch_ridge(n, ROWS, _promise(epsilon)) / n for epsilon in (0.1, 1.0)]
        facts.append([case.name, n, case.graph.steps.size, case.source, *shares])
        results.append((case, scores(case, epsilons, repeats, setting.secrets(case.name))))
    shown = ("share in a sketch, epsilon 0.1", "epsilon 1")
    formats = dict.fromkeys(shown, ".3f")
    yield Table("graphs", ("graph", "vertices", "edges", "communities by", *shown), facts, formats)
    yield "The median over the cuts of one kind of the relative error, mean over releases:"
    yield medians(results)
    yield "Shares of the 95% bars that held, over all graphs and epsilons above:"
    yield coverage(results)
    draw(setting.picture("cuts.svg"), results, epsilons)
    yield Picture("cuts.svg", "Median relative error of cuts against epsilon, by graph, kind of cut and mechanism")
    yield verdict(results)


def verdict(results: list[tuple[Case, Scores]]) -> str:
    """How often the sketch beats both baselines, by kind of cut."""
    first, _, *baselines = MECHANISMS
    lines = []
    for kind in dict.fromkeys(kind for _, found in results for kind, _, _ in found):
        cells = [(found, e) for _, found in results for k, name, e in found if (k, name) == (kind, first)]
        won = sum(_mean(f, kind, first, e) < min(_mean(f, kind, name, e) for name in baselines) for f, e in cells)
        lines.append(f"{kind} {won} of {len(cells)}")
    worse = [
        _mean(found, kind, "sketch, published w", e) / _mean(found, kind, first, e)
        for _, found in results
        for kind, name, e in found
        if name == first and found[kind, "sketch, published w", e] is not None
    ]
    theirs = "With the published w there is no sketch of these graphs at all."
    if worse:
        theirs = f"The published w errs {min(worse):.2g} to {max(worse):.2g} times as much as the exact one."
    return VERDICT.format(won=", ".join(lines), theirs=theirs)


def _mean(found: Scores, kind: str, name: str, epsilon: float) -> float:
    score = found[kind, name, epsilon]
    return math.inf if score is None else float(score.medians.mean())
