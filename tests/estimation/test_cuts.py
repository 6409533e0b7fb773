"""Cuts of private graphs: estimates, error bars, forecasts, and the way to disk and back."""

import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import sfumato as sf
from published_constants import graph_ridge
from sfumato.errors import ParameterError, ReleaseError
from sfumato.estimation import cuts
from sfumato.fileformat.plain_words import contents, sensitivity
from sfumato.files.edges import open_edges
from sfumato.pipeline.release import release
from sfumato.planning import cut_options
from sfumato.planning.cut_options import CutQuestion, small_graph
from sfumato.privacy.calibration import calibrate
from sfumato.randomness.secret import Secret
from sfumato.releases.release import of_kind
from support.evidence import agrees

N = 40
PROMISE = sf.Guarantee(epsilon=1.0, delta=1e-3, unit="edge")
RECIPES = {
    "sketch": sf.GraphSketch(rows=60, vertices=N),
    "laplace": sf.EdgeNoise(vertices=N),
    "gaussian": sf.EdgeNoise(noise="gaussian", vertices=N),
    "response": sf.EdgeResponse(vertices=N),
}
RNG = np.random.default_rng(1)
ADJACENCY = np.triu(RNG.random((N, N)) < np.where(np.add.outer(np.arange(N) < 15, np.arange(N) < 15) == 1, 0.1, 0.6), 1)
EDGES = np.argwhere(ADJACENCY)
LAPLACIAN = np.diag((ADJACENCY + ADJACENCY.T).sum(axis=1)) - (ADJACENCY + ADJACENCY.T)
SETS = np.array([np.arange(N) < 15, np.arange(N) == 3, np.arange(N) % 2 == 0, np.arange(N) >= 12]).astype(float)
CUTS = np.einsum("qi,ij,qj->q", SETS, LAPLACIAN, SETS)


def edges(epsilon, delta=1e-6):
    return sf.Guarantee(epsilon=epsilon, delta=delta, unit="edge")


def make(kind, seed, promise=PROMISE):
    return sf.release(EDGES, schema=None, mechanism=RECIPES[kind], guarantee=promise, secret=Secret.for_testing(seed))


@pytest.fixture(scope="module")
def many():
    """Several hundred releases of one graph by each mechanism."""
    rows, found = open_edges(EDGES), {}
    for kind, recipe in RECIPES.items():
        manifest, made = make(kind, 0).manifest, calibrate(recipe.prepare(None, PROMISE), PROMISE)
        runs = (made.mechanism.run(rows, made.level, Secret.for_testing(seed)).blocks for seed in range(400))
        found[kind] = [of_kind(manifest)(manifest, np.concatenate(list(blocks), axis=1)) for blocks in runs]
    return found


# ---- estimates ------------------------------------------------------------------------------------------------------


def predicted(kind, release):
    mechanism, spread, _ = release.manifest["mechanism"], *cuts.powers(SETS)
    if kind == "sketch":
        return cuts.sketch_variance(CUTS, spread, vertices=N, weight=mechanism["ridge"], rows=60)
    return cuts.pair_variance(spread, release.noise.variance)


@pytest.mark.parametrize("kind", RECIPES)
def test_cuts_are_unbiased_with_the_predicted_variance(kind, many):
    errors = np.array([r.cuts(SETS).uncut for r in many[kind]]) - CUTS
    variance = predicted(kind, many[kind][0])
    for error, expected in zip(errors.T, variance, strict=True):
        assert agrees(error, 0.0)
        assert not agrees(error, 0.5 * math.sqrt(expected))
        assert agrees(error**2, expected)
        assert not agrees(error**2, 2.2 * expected)
    stated = np.mean([r.cuts(SETS).standard_error for r in many[kind]], axis=0)
    assert stated == pytest.approx(np.sqrt(variance), rel=0.02)


@pytest.mark.parametrize("kind", RECIPES)
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_intervals_cover_as_they_say(kind, level, many):
    """Within three standard errors, those of responses cautious; bars of 0.7 of their length are told apart."""
    hits, short = [], []
    for r in many[kind]:
        found = r.cuts(SETS)
        low, high = found.interval(level)
        hits.append((low <= CUTS) & (high >= CUTS))
        middle, half = (low + high) / 2, 0.35 * (high - low)
        short.append(np.abs(CUTS - middle) <= half)
    error = math.sqrt(level * (1 - level) / len(hits))
    excess = np.mean(hits, axis=0) - level
    assert (excess >= -3 * error).all()
    assert (excess <= (0.25 * (1 - level) if kind == "response" else 0.0) + 3 * error).all()
    assert (np.mean(short) - level) < -3 * error


@pytest.mark.parametrize("kind", RECIPES)
def test_conductance_bars_cover(kind, many):
    degrees = np.diag(LAPLACIAN)
    truth = CUTS / np.minimum(SETS @ degrees, (1 - SETS) @ degrees)
    asked = [r.conductances(SETS) for r in many[kind]]
    bars = np.array([found.interval(0.95) for found in asked])
    covered = np.mean((bars[:, 0] <= truth) & (bars[:, 1] >= truth), axis=0)
    assert (covered >= 0.95 - 4 * math.sqrt(0.05 * 0.95 / len(asked))).all()
    first = np.array([found.value[0] for found in asked])
    assert np.nanmedian(first) == pytest.approx(truth[0], rel=0.25)
    assert many[kind][0].conductance(np.arange(15)).value == pytest.approx(first[0], rel=1e-9, nan_ok=True)


@pytest.mark.parametrize("kind", RECIPES)
def test_one_question_many_and_forms_agree(kind, many):
    made = many[kind][0]
    every = made.cuts(SETS.astype(bool))
    alone = made.cut(np.flatnonzero(SETS[0]))
    assert isinstance(alone.value, float)
    assert alone.value == pytest.approx(every.value[0], rel=1e-9)
    assert alone.standard_error == pytest.approx(every.standard_error[0])
    assert alone.interval(0.9) == pytest.approx([b[0] for b in every.interval(0.9)])
    assert made.cuts(sparse.csr_array(SETS)).value == pytest.approx(every.value)
    assert made.laplacian_quadratic_form(SETS[0] + 5).value == pytest.approx(alone.value, rel=1e-6)
    assert made.laplacian_quadratic_form(-3 * SETS[0]).value == pytest.approx(9 * alone.value)
    assert made.cut(np.flatnonzero(1 - SETS[0])).value == pytest.approx(alone.value, rel=1e-6)
    wide, narrow = every.interval(0.9, simultaneous=True), every.interval(0.9)
    assert (wide[0] <= narrow[0]).all()
    assert (wide[1] >= narrow[1]).all()
    everything = made.cut(np.arange(N))
    assert everything.value == pytest.approx(0.0, abs=1e-9)
    assert everything.interval() == (0.0, 0.0)


@pytest.mark.parametrize("kind", RECIPES)
def test_forms_of_any_vector_are_unbiased(kind, many):
    x = np.random.default_rng(2).standard_normal(N)
    found = [r.laplacian_quadratic_form(x) for r in many[kind]]
    errors = np.array([f.value for f in found]) - x @ LAPLACIAN @ x
    assert agrees(errors, 0.0)
    assert np.mean([f.standard_error for f in found]) == pytest.approx(errors.std(), rel=0.12)


def test_simultaneous_bars_cover_all_cuts_at_once(many):
    asked = [r.cuts(SETS) for r in many["sketch"]]
    all_in = [
        bool(((b[0] <= CUTS) & (b[1] >= CUTS)).all()) for b in (a.interval(0.9, simultaneous=True) for a in asked)
    ]
    assert np.mean(all_in) >= 0.9 - 3 * 0.015


def test_powers_are_sums_over_pairs():
    for x in np.random.default_rng(3).standard_normal((5, 9)):
        gaps = [(a - b) for i, a in enumerate(x) for b in x[:i]]
        spread, fourth = cuts.powers(x)
        assert spread == pytest.approx(sum(g**2 for g in gaps))
        assert fourth == pytest.approx(sum(g**4 for g in gaps))
    assert cuts.powers(SETS)[0] == pytest.approx(SETS.sum(axis=1) * (N - SETS.sum(axis=1)))


@pytest.mark.parametrize("tail", [0.1, 0.025, 1e-3, 1e-6])
@pytest.mark.parametrize("count", [1, 2, 5, 30, 1000])
def test_laplace_sums_reach_no_further_than_the_quantile(tail, count):
    """A sum of N Laplace draws is a difference of two gamma draws; its true quantile by Monte Carlo or closed form."""
    claimed = cuts.PairNoise.laplace(1.0).quantile(1 / count)(tail)
    if count == 1:
        assert claimed >= -math.log(2 * tail) / math.sqrt(2)
    elif tail >= 1e-3:
        rng = np.random.default_rng(4)
        sums = (rng.gamma(count, size=400_000) - rng.gamma(count, size=400_000)) / math.sqrt(2 * count)
        assert np.mean(sums > claimed) <= tail * 1.05 + 4 * math.sqrt(tail / sums.size)
        assert np.mean(sums > 0.8 * claimed) > tail


@pytest.mark.parametrize(("epsilon", "pairs"), [(6.0, 200), (1.0, 39), (3.0, 4000), (0.2, 100)])
def test_response_bars_cover_even_where_flips_are_rare(epsilon, pairs):
    rng, flip = np.random.default_rng(5), 1 / (1 + math.exp(epsilon))
    for true in (0, pairs // 2, pairs):
        ones = rng.binomial(true, 1 - flip, 20_000) + rng.binomial(pairs - true, flip, 20_000)
        value = (ones - pairs * flip) / (1 - 2 * flip)
        found = cuts.from_pairs(
            value, np.full(20_000, pairs), np.full(20_000, pairs), np.ones(20_000), cuts.PairNoise.response(epsilon)
        )
        low, high = found.interval(0.95)
        assert np.mean((low <= true) & (high >= true)) >= 0.945
        assert found.standard_error[0] == pytest.approx(value.std(), rel=0.05)


def test_sketch_intervals_are_the_chi_square_law_itself():
    rng, rows, true = np.random.default_rng(6), 3, 50.0
    shown = cuts.mixed(true, 400.0, vertices=40, weight=20.0)
    squared = shown * rng.chisquare(rows, 100_000) / rows
    low, high = cuts.from_sketch(squared, 400.0, vertices=40, weight=20.0, rows=rows).interval(0.9)
    assert agrees((low > true).astype(float), 0.05)
    assert agrees((high < true).astype(float), 0.05)
    assert not agrees((low > true).astype(float), 0.06)


# ---- questions that make no sense -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sketch", "laplace"])
def test_questions_that_make_no_sense_are_refused(kind):
    made = make(kind, 1)
    for ask in (
        lambda: made.cut([N]),
        lambda: made.cut([-1]),
        lambda: made.cut([0.5]),
        lambda: made.cuts(np.ones((2, N + 1))),
        lambda: made.cuts(np.full((2, N), 2)),
        lambda: made.cuts(np.ones(N)),
        lambda: made.laplacian_quadratic_form(np.ones(N - 1)),
        lambda: made.laplacian_quadratic_form(np.full(N, np.nan)),
        lambda: made.laplacian_quadratic_form(np.arange(N) * 1e100),
    ):
        with pytest.raises(ParameterError):
            ask()
    assert np.isfinite(made.laplacian_quadratic_form(np.arange(N) * 1e57).interval()).all()
    with pytest.raises(ReleaseError, match="schema"):
        _ = made.schema


def test_a_single_row_gives_cuts_but_no_conductance():
    recipe = sf.GraphSketch(rows=1, vertices=N)
    made = release(EDGES, schema=None, mechanism=recipe, guarantee=PROMISE, secret=Secret.for_testing(1))
    assert made.cut([0]).interval()[1] > 0
    with pytest.raises(ReleaseError, match="two rows"):
        made.conductance([0])


# ---- to disk and back -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", RECIPES)
def test_saving_loading_and_streaming_are_the_identity(kind, tmp_path):
    made = make(kind, 7)
    made.save(tmp_path / "saved")
    sf.release_to(
        tmp_path / "streamed",
        pa.table({"src": EDGES[:, 0], "dst": EDGES[:, 1]}),
        schema=None,
        mechanism=RECIPES[kind],
        guarantee=PROMISE,
        secret=Secret.for_testing(7),
    )
    for folder in ("saved", "streamed"):
        back = sf.load(tmp_path / folder, allow_unprotected=True)
        assert (back.columns == made.columns).all()
        assert back.columns.dtype == made.columns.dtype
        assert back.guarantee == PROMISE
        assert back.vertices == N
        assert back.cut([1, 2]).interval() == made.cut([1, 2]).interval()
        assert f"{N} vertices" in repr(back)
        assert back.table().num_rows == made.columns.shape[1]


def test_the_papers_say_what_a_graph_release_is(tmp_path):
    sf.release(EDGES, schema=None, mechanism=sf.GraphSketch(rows=119), guarantee=PROMISE).save(tmp_path / "r")
    manifest = json.loads((tmp_path / "r" / "manifest.json").read_text())
    assert manifest["numerics"] == "idealized"
    assert "schema" not in manifest
    assert any("idealized" in line for line in manifest["warnings"])
    assert any("which vertices there are was taken from the data" in line for line in manifest["warnings"])
    text = (tmp_path / "r" / "README.txt").read_text()
    for part in ("If the weight of one edge changes", "release.cut", "number of vertices", contents(manifest)):
        assert part in text
    assert "rojection" not in text
    entry = yaml.safe_load((tmp_path / "r" / "registry.yaml").read_text())
    assert "exact to the last bit" not in entry["deployment"]["implementation"]["mechanisms"]
    assert "edge weights" in entry["deployment"]["dp_flavor"]["data_domain"]
    for kind in RECIPES:
        made = make(kind, 1).manifest
        assert made["numerics"] == ("idealized" if kind == "sketch" else "exact")
        assert not any("vertices" in line for line in made["warnings"])
        assert sensitivity(made)
        assert contents(made)


@pytest.mark.parametrize(
    ("kind", "place", "value"),
    [
        ("sketch", ("mechanism", "ridge"), 20.0),
        ("sketch", ("mechanism", "ridge"), 4000.0),
        ("sketch", ("mechanism", "rows"), 61),
        ("sketch", ("numerics",), "exact"),
        ("sketch", ("rows",), N + 1),
        ("sketch", ("schema",), {"columns": []}),
        ("laplace", ("mechanism", "standard_deviation"), 0.1),
        ("laplace", ("mechanism", "sensitivity"), 0.5),
        ("laplace", ("guarantee", "unit"), "attribute"),
        ("response", ("mechanism", "keep"), 0.99),
        ("response", ("mechanism", "weighted"), 1),
        ("response", ("rows",), N - 1),
    ],
)
def test_forged_manifests_of_graphs_are_refused(kind, place, value, tmp_path):
    from sfumato.fileformat import reader  # noqa: PLC0415

    make(kind, 1).save(tmp_path / "r")
    path = Path(tmp_path / "r" / "manifest.json")
    forged = json.loads(path.read_text())
    part = forged
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    path.write_text(json.dumps(forged | {"digest": reader.digest(forged)}))
    with pytest.raises(ReleaseError):
        sf.load(tmp_path / "r", allow_unprotected=True)


# ---- forecasts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "published"), [(119, 4697), (473, 10010), (4239, 33043)])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_the_exact_ridge_is_a_small_part_of_the_published_one(rows, published, epsilon):
    asked = graph_ridge(rows, epsilon, 1e-6)
    assert asked == pytest.approx(published / epsilon, rel=1e-4)
    assert 55 <= round(asked / cut_options.sketch_ridge(10**12, rows, edges(epsilon))) <= 96


def forecast(question, rows, guarantee):
    """The standard error that each mechanism would give a cut, the most accurate first."""
    variances = {
        "GraphSketch": cut_options.sketch_variance(question, rows, guarantee),
        "EdgeNoise": cut_options.noise_variance(question, guarantee),
        "EdgeResponse": cut_options.response_variance(question, guarantee),
    }
    return {name: math.sqrt(variances[name]) for name in sorted(variances, key=variances.get)}


def test_forecasts_are_what_releases_have():
    question = CutQuestion(vertices=N, side=15, weight=float(CUTS[0]))
    ridge = make("sketch", 1).manifest["mechanism"]["ridge"]
    assert cut_options.sketch_ridge(N, 60, edges(1.0, 1e-3)) == pytest.approx(ridge, rel=1e-9)
    stated = {"GraphSketch": "sketch", "EdgeNoise": "laplace", "EdgeResponse": "response"}
    for mechanism, error in forecast(question, 60, edges(1.0, 1e-3)).items():
        kind = stated[mechanism]
        assert error == pytest.approx(math.sqrt(predicted(kind, make(kind, 1))[0]), rel=1e-9)


def test_the_ranking_follows_the_size_of_the_cut():
    """docs/mathematics.md: noise on pairs wins balanced cuts, the sketch cuts of few vertices and large graphs."""
    errors = forecast(CutQuestion(vertices=4000, side=2000, weight=20_000), 119, edges(1.0))
    assert list(errors) == ["EdgeResponse", "EdgeNoise", "GraphSketch"]
    assert 3.3 < errors["GraphSketch"] / errors["EdgeNoise"] < 4.5
    assert errors["EdgeNoise"] == pytest.approx(2000 * math.sqrt(2), rel=1e-5)
    single = forecast(CutQuestion(vertices=4000, side=1, weight=40), 119, edges(1.0))
    assert next(iter(single)) == "GraphSketch"


def test_the_verdict_on_small_graphs_says_what_would_do():
    poor = small_graph(40, 119, edges(1.0))
    assert poor.share == pytest.approx(1 - cut_options.sketch_ridge(40, 119, edges(1.0)) / 40)
    assert not poor.enough
    assert poor.floor == pytest.approx(math.sqrt(2 / 119) * 39 * (1 / poor.share - 1))
    assert small_graph(poor.vertices, 119, edges(1.0)).share == pytest.approx(0.5, abs=0.01)
    assert small_graph(poor.vertices, 119, edges(1.0)).enough
    assert small_graph(40, 119, edges(poor.epsilon * 1.0001)).enough
    assert not small_graph(40, 119, edges(poor.epsilon * 0.999)).enough
    assert small_graph(40, poor.rows, edges(1.0)).enough
    assert not small_graph(40, poor.rows + 1, edges(1.0)).enough
    for part in (f"{poor.share:.1%}", f"{poor.rows} rows", f"{poor.vertices} vertices"):
        assert part in poor.describe()
    hopeless = small_graph(10, 119, edges(0.01))
    assert hopeless.rows is None
    assert "rows" not in hopeless.describe()
    assert "too little" not in small_graph(10**5, 119, edges(1.0)).describe()


@given(st.integers(2, 10**6), st.integers(1, 500), st.floats(0.1, 5.0), st.floats(1e-9, 1e-2))
def test_ridges_stay_below_the_number_of_vertices_and_fall_with_epsilon(vertices, rows, epsilon, delta):
    weight = cut_options.sketch_ridge(vertices, rows, edges(epsilon, delta))
    assert 0 < weight < vertices
    assert cut_options.sketch_ridge(vertices, rows, edges(1.5 * epsilon, delta)) < weight


@pytest.mark.parametrize("wrong", [{"side": 0}, {"side": 10}, {"weight": -1.0}, {"weight": 22.0}, {"vertices": 1}])
def test_cuts_that_cannot_be_are_refused(wrong):
    with pytest.raises(ParameterError):
        CutQuestion(**({"vertices": 10, "side": 3, "weight": 5.0} | wrong))


# ---- randomized answers about weights -------------------------------------------------------------------------------

EVERY = np.array(np.triu_indices(60, 1)).T
GRAPHS = {
    "0.4 in a third": [(u, v, 0.4) for u, v in EVERY[::3]],
    "0.6 in a third": [(u, v, 0.6) for u, v in EVERY[::3]],
    "half in all": [(u, v, 0.5) for u, v in EVERY],
    "any": [(u, v, (u * 37 + v * 11) % 100 / 99) for u, v in EVERY],
    "a star": [(0, v, 1.0) for v in range(1, 60)],
}


def share_covered(edges, recipe, epsilon, runs=400):
    """How often 95% intervals hold the weight of a cut, the volume's share of it, and a form of any vector."""
    dense = np.zeros((60, 60))
    for u, v, w in edges:
        dense[int(u), int(v)] = dense[int(v), int(u)] = w
    laplacian, side = np.diag(dense.sum(axis=1)) - dense, (np.arange(60) < 20).astype(float)
    x, cut = np.cos(np.arange(60.0)), side @ laplacian @ side
    share = cut / min(side @ dense.sum(axis=1), (1 - side) @ dense.sum(axis=1))
    rows, guarantee = open_edges(np.array(edges, float)), sf.Guarantee(epsilon=epsilon, unit="edge")
    manifest = release(np.array(edges, float), schema=None, mechanism=recipe, guarantee=guarantee).manifest
    made, hits, values = calibrate(recipe.prepare(None, guarantee), guarantee), np.zeros((runs, 3)), []
    for seed in range(runs):
        blocks = made.mechanism.run(rows, made.level, Secret.for_testing(seed)).blocks
        one = of_kind(manifest)(manifest, np.concatenate(list(blocks), axis=1))
        found = one.cut(np.arange(20)), one.conductance(np.arange(20)), one.laplacian_quadratic_form(x)
        values.append((found[0].value - cut, found[0].standard_error))
        for place, (estimate, true) in enumerate(zip(found, (cut, share, x @ laplacian @ x), strict=True)):
            low, high = estimate.interval()
            hits[seed, place] = low - 1e-6 <= true <= high + 1e-6
    return hits.mean(axis=0), np.array(values).T


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize("graph", GRAPHS)
def test_randomized_answers_estimate_weights_with_intervals_that_cover(graph, epsilon):
    least = 0.95 - 6.2 * math.sqrt(0.95 * 0.05 / 400)
    covered, (errors, stated) = share_covered(GRAPHS[graph], sf.EdgeResponse(vertices=60), epsilon)
    assert (covered >= least).all()
    assert agrees(errors, 0.0)
    assert np.mean(errors**2) <= 1.3 * np.mean(stated**2)
    if graph == "half in all":  # the worst that a cut of this weight can be, so that the error stated is the error
        assert agrees(errors**2, np.mean(stated**2))
        assert not agrees(errors**2, 1.8 * np.mean(stated**2))


@pytest.mark.parametrize("graph", ["0.4 in a third", "0.6 in a third"])
def test_pairs_of_weight_one_half_are_no_estimate_of_weights(graph):
    covered, _ = share_covered(GRAPHS[graph], sf.EdgeResponse(vertices=60, weighted=False), 1.0, 100)
    assert covered[0] < 0.2
    if graph == "0.6 in a third":
        counted = [(u, v, 1.0) for u, v, _ in GRAPHS[graph]]
        covered, _ = share_covered(counted, sf.EdgeResponse(vertices=60, weighted=False), 1.0, 100)
        assert (covered > 0.8).all()


def test_intervals_that_leave_rounding_out_do_not_cover_weights(monkeypatch):
    monkeypatch.setattr(cuts, "rounding_variance", lambda form, *_: 0.0 * form)
    covered, _ = share_covered(GRAPHS["half in all"], sf.EdgeResponse(vertices=60), 4.0, 200)
    assert covered[0] < 0.7


def test_what_rounding_adds_is_bounded_for_every_form():
    rng = np.random.default_rng(8)
    for _ in range(500):
        x, scale = rng.standard_normal(7) * rng.integers(0, 2, 7), rng.choice([0.1, 1.0, 10.0])
        weights = rng.beta(scale, rng.choice([0.1, 1.0, 10.0]), (7, 7))
        c = np.subtract.outer(x, x)[np.triu_indices(7, 1)] ** 2
        w = weights[np.triu_indices(7, 1)]
        spread, fourth = cuts.powers(x)
        added = np.sum(c**2 * w * (1 - w))
        assert added <= cuts.rounding_variance(np.sum(c * w), spread, fourth, np.ptp(x)) * (1 + 1e-9) + 1e-12
    assert cuts.rounding_variance(3.0, 10.0, 10.0, 1.0) == pytest.approx(2.1)  # ten pairs of weight 0.3


def test_a_release_of_0_1_0_still_speaks_of_pairs_of_weight_one_half():
    made = make("response", 1)
    mechanism = {k: v for k, v in made.manifest["mechanism"].items() if k != "weighted"}
    older = made.manifest | {"mechanism": mechanism}
    old = of_kind(older)(older, made.columns)
    assert old.thresholded
    assert old.cut([1, 2]).interval() == made.cut([1, 2]).interval()
    assert "at least one half" in contents(old.manifest)
