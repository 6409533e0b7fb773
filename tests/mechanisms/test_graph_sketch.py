"""Graph sketches and their baselines: contract, law, audits with broken twins, and what they refuse."""

import dataclasses
import hashlib
import itertools
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse, stats

from sfumato.audit.bound import lower_bound
from sfumato.engines.local import LocalRows
from sfumato.errors import ParameterError, ReleaseError
from sfumato.estimation import cuts
from sfumato.fileformat.plain_words import contents
from sfumato.files.edges import gather, open_edges, weighted
from sfumato.mechanisms import graph_pairs, graph_sketch
from sfumato.mechanisms import graph_sketch as graphs
from sfumato.mechanisms.graph_pairs import EdgeNoise, EdgeResponse, triangle
from sfumato.mechanisms.graph_sketch import GraphSketch, PreparedGraphSketch, rows_for
from sfumato.numerics.lattice import InputGrid
from sfumato.pipeline.release import release
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import ChiSquare
from sfumato.randomness.idealized import normals
from sfumato.randomness.secret import Secret, Words
from sfumato.tables.schema import Schema
from support.evidence import ALPHA, agrees
from support.twins import TwiceTheEpsilon, secret_of

PROMISE = Guarantee(epsilon=1.0, delta=1e-6, unit="edge")
ROUGH = Guarantee(epsilon=1.0, delta=0.01, unit="edge")
COMPLETE = {n: n * np.eye(n) - np.ones((n, n)) for n in range(2, 12)}


def laplacian(edges, n):
    """The dense Laplacian of a small list of (u, v, weight)."""
    found = np.zeros((n, n))
    for u, v, weight in edges:
        step = np.eye(n)[int(u)] - np.eye(n)[int(v)]
        found += weight * np.outer(step, step)
    return found


def random_edges(rng, n):
    """A weighted graph without loops or repeats, from empty to complete."""
    every = np.array(list(itertools.combinations(range(n), 2)), float)
    kept = every[rng.random(len(every)) < rng.random()]
    return np.column_stack([kept, rng.integers(1, 2**20 + 1, len(kept)) * 2.0**-20])


def sketch(edges, n, level, rows, seed=1, promise=PROMISE):
    """(rows, n) numbers of the real mechanism at a level."""
    prepared = GraphSketch(rows=rows, vertices=n).prepare(None, promise)
    blocks = prepared.run(open_edges(np.reshape(edges, (-1, 3))), level, Secret.for_testing(seed)).blocks
    return np.concatenate(list(blocks), axis=1).astype(float)


# ---- calibration ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accuracy", "rows", "large", "hundred"),
    [((0.5, 0.05), 119, 76.5, 43.3), ((0.25, 0.05), 473, 141.0, 58.5), ((0.1, 0.01), 4239, 400.0, 80.0)],
)
def test_the_ridge_is_the_tabled_one(accuracy, rows, large, hundred):
    """docs/mathematics.md: w = 76.5, 141, 400 for many vertices where the paper asks for 4697, 10010, 33043."""
    recipe = GraphSketch(distortion=accuracy[0], failure_probability=accuracy[1])
    assert recipe.rows == rows_for(*accuracy) == rows
    made = calibrate(recipe.prepare(None, PROMISE), PROMISE)
    assert made.mechanism.ridge(made.level, 10**12) == pytest.approx(large, rel=2e-3)
    assert made.mechanism.ridge(made.level, 100) == pytest.approx(hundred, rel=2e-3)
    assert made.loss == ChiSquare(rows=rows, ratio=made.mechanism.ratio(made.level))


def test_the_ridge_rounds_to_the_private_side():
    rng = np.random.default_rng(1)
    for level, n in zip(np.exp(rng.uniform(-5, 9, 2000)), rng.integers(2, 10**7, 2000), strict=True):
        prepared = PreparedGraphSketch(GraphSketch(rows=5), PROMISE)
        weight, ratio = Fraction(prepared.ridge(level, int(n))), Fraction(prepared.ratio(level))
        assert 2 * (1 - weight / int(n)) / weight <= ratio


# ---- contract -------------------------------------------------------------------------------------------------------


def test_no_edge_counts_for_more_than_stated_and_a_lonely_one_attains_it():
    """Search: s = v' S^-1 v over graphs, edges and how much of its weight is new, on the dense mixture."""
    rng, found = np.random.default_rng(2), []
    for n in (2, 3, 5, 8):
        for level in (0.3, 2.0, 40.0):
            weight, ratio = cuts.ridge(1 / level, n), 1 / level
            for _ in range(60):
                edges = random_edges(rng, n)
                u, v = rng.choice(n, 2, replace=False)
                others = [e for e in edges if {int(e[0]), int(e[1])} != {int(u), int(v)}]
                old = rng.choice([0.0, rng.random()])
                mixture = weight / n * COMPLETE[n] + (1 - weight / n) * laplacian([*others, (u, v, old)], n)
                step = math.sqrt((1 - old) * (1 - weight / n)) * (np.eye(n)[u] - np.eye(n)[v])
                found.append(step @ np.linalg.pinv(mixture) @ step / ratio)
                assert found[-1] <= 1 + 1e-9
            lonely = step / np.linalg.norm(step) * math.sqrt(2 * (1 - weight / n))
            assert lonely @ np.linalg.pinv(weight / n * COMPLETE[n]) @ lonely == pytest.approx(ratio, rel=1e-9)
    assert max(found) > 0.9999


@pytest.mark.parametrize("kind", [EdgeNoise, EdgeResponse])
def test_one_pair_moves_one_number_by_at_most_one(kind):
    rng = np.random.default_rng(3)
    for _ in range(60):
        edges = np.column_stack([rng.integers(0, 6, (20, 2)), rng.uniform(-2, 3, 20)])
        changed = edges.copy()
        pair = {int(edges[0, 0]), int(edges[0, 1])}
        mine = [i for i, e in enumerate(edges) if {int(e[0]), int(e[1])} == pair]
        changed[mine, 2] = rng.uniform(-9, 9, len(mine))
        one, two = (np.concatenate([b for _, b in triangle(gather(open_edges(e), 6))]) for e in (edges, changed))
        assert np.count_nonzero(one != two) <= 1
        assert np.abs(one - two).max() <= 2**20
    assert calibrate(kind().prepare(None, PROMISE), PROMISE).loss.delta(1.0) <= 1e-6


# ---- the law --------------------------------------------------------------------------------------------------------


def literal(edges, n, weight, rows, rng):
    """Algorithm 1 as it is written: a Gaussian matrix with a column for each of the n (n - 1) / 2 pairs."""
    weights = {(int(u), int(v)): a for u, v, a in edges}
    every = list(itertools.combinations(range(n), 2))
    incidence = np.zeros((len(every), n))
    for i, (u, v) in enumerate(every):
        incidence[i, [u, v]] = np.sqrt(weight / n + (1 - weight / n) * weights.get((u, v), 0.0)) * np.array([1, -1])
    return rng.standard_normal((rows, len(every))) @ incidence


def largest_error(rows, covariance):
    """The largest error of the second moments, in standard errors."""
    count = len(rows)
    spread = np.sqrt((np.outer(np.diag(covariance), np.diag(covariance)) + covariance**2) / count)
    return float(np.abs((rows.T @ rows / count - covariance) / spread).max())


def test_rows_have_the_mixtures_covariance_and_no_mean(monkeypatch):
    monkeypatch.setattr(graph_sketch, "_EDGES", 4)  # so that edges come in several blocks
    rng, n, level, count = np.random.default_rng(4), 7, 1.3, 120_000
    edges = random_edges(rng, n)
    weight = cuts.ridge(1 / level, n)
    rows = sketch(edges, n, level, count)
    truth = weight / n * COMPLETE[n] + (1 - weight / n) * laplacian(edges, n)
    assert len(edges) > 8
    assert largest_error(rows, truth) < 6.2
    assert np.abs(rows.mean(axis=0) / np.sqrt(np.diag(truth) / count)).max() < 6.2
    assert np.abs(np.corrcoef(rows[:-1, 0], rows[1:, 0])[0, 1]) < 6.2 / math.sqrt(count)
    for wrong in (1.05 * weight, 0.95 * weight):
        assert largest_error(rows, wrong / n * COMPLETE[n] + (1 - weight / n) * laplacian(edges, n)) > 6.2
    assert largest_error(rows, weight / n * COMPLETE[n] + laplacian(edges, n)) > 6.2
    assert np.abs(rows.sum(axis=1)).max() < 1e-3


def test_the_fast_sampler_has_the_law_of_the_literal_algorithm():
    """Two samples along several directions, and the length of the whole row; a row 8% too long is told apart."""
    rng, n, level, count = np.random.default_rng(5), 6, 0.8, 120_000
    edges = random_edges(rng, n)
    fast = sketch(edges, n, level, count, seed=2)
    slow = literal(edges, n, cuts.ridge(1 / level, n), count, rng)
    views = [lambda y, x=x: y @ x for x in rng.standard_normal((4, n))] + [lambda y: np.sum(y**2, axis=1)]
    for view in views:
        assert stats.ks_2samp(view(fast), view(slow)).pvalue > ALPHA
        assert stats.ks_2samp(view(fast), view(1.08 * slow)).pvalue < ALPHA


def test_normal_numbers_are_normal():
    draws = normals(Secret.for_testing(1).words("normals"), 400_001)
    assert draws.size == 400_001
    assert stats.kstest(draws, "norm").pvalue > ALPHA
    assert stats.kstest(1.03 * draws, "norm").pvalue < ALPHA
    pairs_of = draws[: 2 * (draws.size // 2)].reshape(-1, 2)
    assert abs(np.mean(pairs_of[:, 0] * pairs_of[:, 1])) < 6.2 / math.sqrt(len(pairs_of))
    assert agrees(draws**4, 3.0)
    assert np.unique(draws).size > 400_000


def test_published_numbers_lie_on_the_stated_grid():
    made = release(np.array([[0, 1], [1, 2]]), schema=None, mechanism=GraphSketch(rows=9), guarantee=PROMISE)
    grid, ridge = made.manifest["mechanism"]["grid"], made.manifest["mechanism"]["ridge"]
    assert (np.remainder(made.columns, grid) == 0).all()
    assert 2.0**-17 < grid / math.sqrt(ridge) <= 2.0**-16
    assert made.manifest["numerics"] == "idealized"
    assert repr(grid) in made.manifest["warnings"][1]


# ---- randomness -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("recipe", [GraphSketch(rows=20), EdgeNoise(), EdgeResponse()])
def test_a_retry_repeats_its_noise_and_other_graphs_get_other_noise(recipe, monkeypatch):
    edges = np.array(list(itertools.combinations(range(41), 2)))[::4]

    def published(lines, seed=3):
        prepared = dataclasses.replace(recipe, vertices=41).prepare(None, PROMISE)
        return np.concatenate(
            list(prepared.run(open_edges(lines), 1.0, Secret.for_testing(seed)).blocks), axis=1
        ).astype(float)

    first = published(edges)
    told = []
    monkeypatch.setattr(graphs, "usual_threads", lambda: told.append(1) or 1)
    assert (published(edges[::-1, ::-1]) == first).all()  # the same graph, listed otherwise, on one thread
    assert bool(told) == isinstance(recipe, GraphSketch)  # others have no threads
    assert (published(edges, seed=4) != first).any()
    weights = np.ones(len(edges))
    weights[0] = 0.001  # one weight is another (and rounded to another bit), and every edge keeps its place
    other = published(np.column_stack([edges, weights]))
    assert np.mean(other == first) < (0.7 if isinstance(recipe, EdgeResponse) else 0.01)  # two answers agree often


@pytest.mark.parametrize("recipe", [EdgeNoise(), EdgeResponse()])
def test_equal_blocks_of_pairs_get_their_own_noise(recipe, monkeypatch):
    """An empty graph is a run of equal blocks; if they shared their noise, it would be seen."""
    monkeypatch.setattr(graph_pairs, "_BLOCK", 500)
    found = whole_triangle(recipe, [], 1.0, 1, 60)[:1500].reshape(3, 500)
    assert np.abs(np.corrcoef(found) - np.eye(3)).max() < 6.2 / math.sqrt(500)
    assert np.mean(found[0] == found[1]) < 0.75


@pytest.mark.parametrize("recipe", [GraphSketch(rows=3), EdgeNoise(), EdgeResponse()])
def test_no_published_row_of_a_graph_belongs_to_a_record(recipe):
    """Edges have no public ids that could go along."""
    edges = open_edges(np.array([(0, 1, 1.0), (1, 2, 1.0)]))
    assert not recipe.prepare(None, PROMISE).run(edges, 1.0, Secret.for_testing(1)).by_record


def test_rows_of_different_groups_share_nothing():
    rows = sketch([(0, 1, 1.0)], 500, 1.0, 24)
    related = np.corrcoef(rows)
    assert np.abs(related - np.eye(24)).max() < 6.2 / math.sqrt(500)


# ---- audits ---------------------------------------------------------------------------------------------------------


def refuted(first, second, delta=ROUGH.delta, epsilon=1.0):
    return lower_bound(first, second, delta=delta, confidence=1 - 1e-6).refutes(epsilon)


def sums_of_squares(rows, each):
    """What the likelihood ratio of the lonely edge {0, 1} depends on, for sketches of ``each`` rows."""
    return ((rows[:, 0] - rows[:, 1]) ** 2).reshape(-1, each).sum(axis=1)


SIX = 6  # vertices: small, so that the complete graph's share is large


def audit_sketch(each, level, heavy=1.0, lines=1, count=60_000):
    """Many sketches of ``each`` rows, with and without the edge {0, 1}: rows are independent, so one run gives all."""
    sides = [sketch(edges, SIX, level, each * count, seed) for seed, edges in enumerate([[(0, 1, heavy)] * lines, []])]
    return refuted(*(sums_of_squares(rows, each) for rows in sides))


@pytest.mark.parametrize("each", [1, 4])
def test_sketch_audits_pass_and_half_the_ridge_is_caught(each, monkeypatch):
    level = calibrate(GraphSketch(rows=each).prepare(None, ROUGH), ROUGH).level
    assert not audit_sketch(each, level)
    honest = cuts.ridge
    monkeypatch.setattr(cuts, "ridge", lambda ratio, n: honest(ratio, n) / 2)
    assert audit_sketch(each, level)


def test_a_graph_that_is_not_scaled_down_is_caught(monkeypatch):
    """Without the factor 1 - w/n an edge counts for 2/w: here several times what the level allows."""
    level = calibrate(GraphSketch(rows=4).prepare(None, ROUGH), ROUGH).level

    def unscaled(self):
        share = 1 - self.weight / self.graph.vertices
        return ((start, incidence / math.sqrt(share)) for start, incidence in scaled(self))

    assert not audit_sketch(4, level)
    scaled = graph_sketch._Sampler._incidences
    monkeypatch.setattr(graph_sketch._Sampler, "_incidences", unscaled)
    assert audit_sketch(4, level)


def test_a_weight_clip_left_out_is_caught(monkeypatch):
    level = calibrate(GraphSketch(rows=4).prepare(None, ROUGH), ROUGH).level
    assert not audit_sketch(4, level, heavy=4.0)
    monkeypatch.setattr(InputGrid, "round", lambda _grid, columns: np.rint(columns * 2.0**20))
    assert audit_sketch(4, level, heavy=4.0)


def test_lines_that_add_up_are_caught(monkeypatch):
    """Four lines of one pair are one edge; if their weights were summed, they would be four."""
    level = calibrate(GraphSketch(rows=4).prepare(None, ROUGH), ROUGH).level
    assert not audit_sketch(4, level, lines=4)
    monkeypatch.setattr("sfumato.files.edges.np.maximum", _Summing)
    assert audit_sketch(4, level, lines=4)


class _Summing:
    """Stands where the largest of several lines is taken."""

    reduceat = staticmethod(np.add.reduceat)

    def __new__(cls, *arguments):
        return np.fmax(*arguments)


def whole_triangle(recipe, edges, level, seed, vertices, words=Words):
    prepared = dataclasses.replace(recipe, vertices=vertices).prepare(None, PROMISE)
    blocks = prepared.run(open_edges(np.reshape(edges, (-1, 3))), level, secret_of(words, seed)).blocks
    return np.concatenate(list(blocks), axis=1)[0].astype(float)


@pytest.mark.parametrize("recipe", [EdgeNoise(), EdgeNoise(noise="gaussian"), EdgeResponse()])
@pytest.mark.parametrize(("factor", "caught"), [(1.0, False), (0.5, True)])
def test_audits_of_the_baselines_pass_and_half_the_noise_is_caught(recipe, factor, caught):
    """A complete graph against an empty one: each pair is an audit of its own. Half a response's level is 2 epsilon."""
    n, delta = 500, 0.001 if recipe == EdgeNoise(noise="gaussian") else 0.0
    promise = Guarantee(epsilon=1.5, delta=delta, unit="edge")
    level = calibrate(recipe.prepare(None, promise), promise).level
    edges = np.array([(u, v, 1.0) for u, v in itertools.combinations(range(n), 2)])
    first, second = (whole_triangle(recipe, e, level * factor, seed, n) for seed, e in enumerate((edges, [])))
    if recipe == EdgeNoise():
        first, second = (np.round(np.abs(z) - np.abs(z - 1), 9) for z in (first, second))
    bound = lower_bound(first, second, delta=delta, confidence=1 - 1e-6)
    assert bound.refutes(1.5) == caught
    assert bound.epsilon > 0.8


def test_a_response_of_twice_the_epsilon_is_caught():
    edges = np.array([(u, v, 1.0) for u, v in itertools.combinations(range(300), 2)])
    level = calibrate(EdgeResponse().prepare(None, PROMISE), PROMISE).level
    sides = [whole_triangle(EdgeResponse(), e, level, seed, 300) for seed, e in enumerate((edges, []))]
    assert not refuted(*sides, delta=0.0)
    sides = [whole_triangle(EdgeResponse(), e, level, seed, 300, TwiceTheEpsilon) for seed, e in enumerate((edges, []))]
    assert refuted(*sides, delta=0.0)


def test_an_edge_that_is_not_there_gives_an_audit_nothing():
    rows = [sketch([(0, 1, 1.0)], SIX, 1.0, 60_000, seed) for seed in (1, 2)]
    assert lower_bound(*(sums_of_squares(r, 6) for r in rows)).epsilon == 0


# ---- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (GraphSketch, "needs rows"),
        (lambda: GraphSketch(rows=0), "rows=0"),
        (lambda: GraphSketch(rows=5, distortion=0.5), "not both"),
        (lambda: GraphSketch(distortion=0.5), "failure_probability"),
        (lambda: GraphSketch(distortion=1.5, failure_probability=0.1), "distortion=1.5"),
        (lambda: GraphSketch(rows=5, vertices=1), "vertices=1"),
        (lambda: EdgeNoise(noise="uniform"), "noise='uniform'"),
        (lambda: GraphSketch(rows=5).prepare(None, Guarantee(epsilon=1.0, unit="edge")), "delta=0.0"),
        (lambda: GraphSketch(rows=5).prepare(None, Guarantee(epsilon=1.0, delta=0.1)), "unit='record'"),
        (lambda: GraphSketch(rows=5).prepare(Schema.reals(2, low=0, high=1), PROMISE), "schema"),
        (lambda: GraphSketch(rows=1 << 20, vertices=1 << 30).prepare(None, PROMISE), "fewer rows"),
        (lambda: EdgeNoise(vertices=10**6).prepare(None, PROMISE), "vertices=1000000"),
        (lambda: EdgeNoise(noise="gaussian").prepare(None, Guarantee(epsilon=1.0, unit="edge")), "delta=0.0"),
        (lambda: EdgeResponse(vertices=10**6).prepare(None, PROMISE), "GraphSketch"),
    ],
)
def test_what_a_graph_mechanism_cannot_promise_is_refused(make, named):
    with pytest.raises(ParameterError) as caught:
        make()
    assert named in str(caught.value)


def test_extremes_are_refused_in_words():
    edges = np.array([[0, 1]])
    for recipe, epsilon in ((EdgeNoise(), 1e-9), (EdgeResponse(), 1000.0), (EdgeNoise(), 1e12)):
        with pytest.raises(ParameterError, match="epsilon="):
            release(edges, schema=None, mechanism=recipe, guarantee=Guarantee(epsilon=epsilon, unit="edge"))
    with pytest.raises(ParameterError, match="leaves nothing"):
        GraphSketch(rows=5, vertices=2).prepare(None, PROMISE).run(open_edges(edges), 1e17, Secret.for_testing(1))
    with pytest.raises(ParameterError, match="use GraphSketch"):
        release(np.array([[0, 20_000]]), schema=None, mechanism=EdgeNoise(), guarantee=PROMISE)
    with pytest.raises(ReleaseError, match="vertices"):
        release(np.empty((0, 2)), schema=None, mechanism=GraphSketch(rows=3), guarantee=PROMISE)
    with pytest.raises(ParameterError, match="schema"):
        release(edges, schema=None, mechanism=GraphSketch(rows=3), guarantee=Guarantee(epsilon=1.0))


# ---- randomized answers about weights -------------------------------------------------------------------------------


def answers(edges, recipe, seed=5, vertices=30, epsilon=1.0):
    prepared = dataclasses.replace(recipe, vertices=vertices).prepare(None, Guarantee(epsilon=epsilon, unit="edge"))
    blocks = prepared.run(open_edges(edges), 1 / epsilon, Secret.for_testing(seed)).blocks
    return np.concatenate(list(blocks), axis=1)[0]


def test_answers_about_a_graph_without_weights_are_those_of_0_1_0_however_it_is_given():
    edges = np.array([(u, v) for u, v in itertools.combinations(range(30), 2) if (u * 7 + v * 3) % 5 == 0])
    listed = np.column_stack([edges, np.ones(len(edges))])
    for lines, recipe in itertools.product((edges, listed), (EdgeResponse(), EdgeResponse(weighted=True))):
        found = hashlib.sha256(answers(lines, recipe).tobytes()).hexdigest()
        assert found.startswith("46ab611afc571473")


@pytest.mark.parametrize("weight", [0.0, 0.1, 0.4, 0.5, 0.75, 1.0])
def test_answers_have_the_law_between_those_of_no_edge_and_of_one(weight):
    """1 with probability f + w (1 - 2 f), so no two weights are told apart better than 0 and 1."""
    n, flip = 400, 1 / (1 + math.e)
    edges = np.array([(u, v, weight) for u, v in itertools.combinations(range(n), 2)])
    ones = answers(edges, EdgeResponse(), vertices=n)
    assert agrees(ones.astype(float), flip + weight * (1 - 2 * flip))
    assert not agrees(ones.astype(float), flip + (weight + 0.05) * (1 - 2 * flip))
    threshold = answers(edges, EdgeResponse(weighted=False), vertices=n)
    assert agrees(threshold.astype(float), flip + (weight >= 0.5) * (1 - 2 * flip))


def test_whether_there_are_weights_follows_from_the_form_of_the_source_alone():
    two, three = np.array([[0, 1], [1, 2]]), np.array([[0, 1, 1.0], [1, 2, 1.0]])
    tables = [pa.table(dict(zip(("src", "dst", "weight"), lines.T, strict=False))) for lines in (two, three)]
    for form, has in ((two, False), (three, True), (tables[0], False), (tables[1], True), (sparse.eye(3), True)):
        assert weighted(open_edges(form)) == has
        made = sf_release(form, EdgeResponse(vertices=3))
        assert made.manifest["mechanism"]["weighted"] == has
        assert made.thresholded != has
        assert ("at least one half" in contents(made.manifest)) != has
    for recipe in (EdgeResponse(vertices=3, weighted=False), EdgeResponse(vertices=3, weighted=True)):
        assert sf_release(three, recipe).manifest["mechanism"]["weighted"] == recipe.weighted
    blocks = open_edges(tables[0]).blocks
    assert not weighted(LocalRows(blocks))
    with pytest.raises(ParameterError, match="weighted must be"):
        EdgeResponse(weighted=1)


def sf_release(lines, recipe):
    return release(lines, schema=None, mechanism=recipe, guarantee=Guarantee(epsilon=1.0, unit="edge"))


def test_audits_of_weights_pass_and_rounding_that_tells_more_is_caught():
    """Weights 0.2 and 1 in every pair; the twin answers without a flip where a weight is below a half."""
    n = 300
    pairs_ = list(itertools.combinations(range(n), 2))
    graphs = [np.array([(u, v, w) for u, v in pairs_]) for w in (0.2, 1.0)]
    sides = [whole_triangle(EdgeResponse(), edges, 1.0, seed, n) for seed, edges in enumerate(graphs)]
    assert not refuted(*sides, delta=0.0)
    steps_seen = []

    class Telling(Words):
        __slots__ = ()

        def coins(self, steps, bits):
            steps_seen.append(steps)
            return super().coins(steps, bits)

        def respond(self, codes, categories, epsilon):
            return np.where(steps_seen[-1] < 1 << 19, codes, super().respond(codes, categories, epsilon))

    sides = [whole_triangle(EdgeResponse(), edges, 1.0, seed, n, Telling) for seed, edges in enumerate(graphs)]
    assert refuted(*sides, delta=0.0)
