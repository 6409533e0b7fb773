"""The two comparison tables of the slides with measurements for ticks, and their picture of distances."""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

import graphs
from figure import figure
from page import Cell, Experiment, Measured, Part, Picture, Setting, Table
from sfumato.answering.multiplicative_weights import Weights
from sfumato.errors import ExhaustedError
from sfumato.mechanisms.covariance import Covariance
from sfumato.mechanisms.graph_pairs import EdgeResponse
from sfumato.mechanisms.graph_sketch import GraphSketch
from sfumato.mechanisms.sketch import Sketch
from sfumato.pipeline.release import release
from sfumato.planning import covariance_options
from sfumato.privacy.calibration import calibrate, least_level
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.privacy.losses import ChiSquare, Gaussian
from sfumato.queries.domain import Domain
from sfumato.randomness.secret import Secret
from sfumato.tables.columns import Category, Real
from sfumato.tables.schema import Schema

Floats = NDArray[np.float64]
EPSILON, DELTA, ROWS = 1.0, 1e-6, 119

# ---- input, output, weights, sketch ---------------------------------------------------------------------------------


def perturbed_input(case: graphs.Case, sets: Floats, secret: Secret) -> Floats:
    """Randomized response on every pair."""
    return _cuts(case, sets, EdgeResponse(vertices=case.graph.vertices), secret)


def perturbed_output(case: graphs.Case, sets: Floats, secret: Secret) -> Floats:
    """Noise on each answer: Laplace at its share of epsilon, or Gaussian at the root of their number, what is less."""
    count, rng = len(sets), np.random.default_rng(abs(int(secret.words("answers").draw(1)[0])))
    normal = least_level(lambda level: Gaussian(math.sqrt(count), level), EPSILON, DELTA)
    if normal < math.sqrt(2) * count / EPSILON:
        return case.cuts(sets) + rng.normal(0, normal, count)
    return case.cuts(sets) + rng.laplace(0, count / EPSILON, count)


def weighed(case: graphs.Case, sets: Floats, secret: Secret) -> Floats:
    """Private multiplicative weights over pairs of vertices; a record is an edge, added or removed."""
    n = case.graph.vertices
    names = tuple(range(n))
    domain = Domain.of(Schema((Category("u", names, 0), Category("v", names, 0))))
    codes = [domain.codes(name) for name in ("u", "v")]
    counts = np.zeros((n, n), np.int64)
    counts[case.graph.first, case.graph.second] = 1
    guarantee = Guarantee(epsilon=EPSILON, delta=DELTA, neighbours="add-remove")
    prepared = Weights.suggested(int(counts.sum()), EPSILON).prepare(domain, guarantee)
    live = prepared.begin(counts.ravel(), calibrate(prepared, guarantee).level, secret)
    found = []
    for x in sets.astype(bool):
        query = x[codes[0]] != x[codes[1]]
        try:
            found.append(float(live.ask(query).value))
        except ExhaustedError:
            found.append(float(live.histogram.answer(query)))
    return np.array(found)


def unseen(case: graphs.Case, sets: Floats, _: Secret) -> Floats:
    """Without a look at the graph, but for the number of its edges: as if all pairs were alike."""
    side, n = sets.sum(axis=1), case.graph.vertices
    return np.asarray(case.graph.weights.sum() * side * (n - side) * 2 / (n * (n - 1)))


def sketched(case: graphs.Case, sets: Floats, secret: Secret) -> Floats:
    """A graph sketch."""
    return _cuts(case, sets, GraphSketch(rows=ROWS, vertices=case.graph.vertices), secret)


def _cuts(case: graphs.Case, sets: Floats, recipe: EdgeResponse | GraphSketch, secret: Secret) -> Floats:
    promise = Guarantee(epsilon=EPSILON, delta=DELTA, unit="edge")
    made = release(case.edges, schema=None, mechanism=recipe, guarantee=promise, secret=secret)
    return np.asarray(made.cuts(sets).uncut)


WAYS = {
    "input perturbation": perturbed_input,
    "output perturbation": perturbed_output,
    "multiplicative weights": weighed,
    "JL-based": sketched,
    "data unseen": unseen,
}


def _erring(case: graphs.Case, sets: Floats, setting: Setting, repeats: int) -> list[Cell]:
    """Mean absolute error over the mean cut, of each way; each run has the same sets."""
    cuts, secrets = case.cuts(sets), setting.secrets(f"{case.graph.vertices} {len(sets)} {sets.sum():g}")
    runs = {
        name: [np.abs(way(case, sets, next(secrets)) - cuts).mean() / cuts.mean() for _ in range(repeats)]
        for name, way in WAYS.items()
    }
    return [found[0] if name == "data unseen" else Measured.of(found) for name, found in runs.items()]


def _halves(count: int, n: int) -> Floats:
    """Random halves; the same for every seed."""
    return (np.random.default_rng(count).random((count, n)) < 0.5).astype(float)


def mechanisms(setting: Setting) -> Iterator[Part]:
    """Comparison of Differential Privacy Mechanisms."""
    repeats = setting.often(10, 5)
    yield MECHANISMS.format(repeats=repeats)
    rows: list[list[Cell]] = []
    for n in (50, 100, 200):
        case = graphs.generated(vertices=n, blocks=2)
        what = f"100 balanced cuts, {n} vertices"
        rows.append(["high-dim utility", what, *_erring(case, _halves(100, n), setting, repeats)])
    case = graphs.generated(vertices=100, blocks=2)
    near = np.abs(case.labels - (np.random.default_rng(1).random((100, 100)) < 0.1)).astype(float)
    rows.append(["high-dim utility", "100 cuts near the blocks, 100 vertices", *_erring(case, near, setting, repeats)])
    for count in (10, 1000):
        what = f"{count:,} balanced cuts, 100 vertices"
        rows.append(["many queries", what, *_erring(case, _halves(count, 100), setting, repeats)])
    rows.append(["many queries", "all 100 degrees", *_erring(case, np.eye(100), setting, repeats)])
    rows += [
        ["one-time publish", "numbers published for 1,000 questions", 4950, 1000, 1000, ROWS * 100, 1],
        ["one-time publish", "questions that can be asked later", "any", 0, "any", "any", "any"],
        ["simple to use", "settings beside the promise", 0, 1, 4, 1, 0],
        ["non-interactive", "questions known when the noise is drawn", 0, 1000, 1, 0, 0],
    ]
    yield Table("mechanisms", ("feature", "measured", *WAYS), rows, dict.fromkeys(WAYS, ".3g"))
    yield MECHANISMS_VERDICT


MECHANISMS = f"""\
The slides' table "Comparison of Differential Privacy Mechanisms" has ticks for input perturbation, output perturbation,
multiplicative weights and the transform: high-dim utility (no, limited, yes, yes), many queries (yes, no, yes, yes),
one-time publish (yes, yes, no, yes), simple to use (yes, yes, no, yes), non-interactive (yes, yes, no, yes). Here
numbers, on cuts of block models with two blocks, one edge protected, epsilon = {EPSILON:g}, delta = {DELTA:g}: the mean
error of a cut over the mean cut, {{repeats}} runs. Input: randomized response on every pair. Output: the lesser of
Laplace and Gaussian noise on all answers. Multiplicative weights: online, records are edges, pairs of vertices the
cells. Transform: `GraphSketch` with {ROWS} rows and the exact ridge. Settings: the number of questions; updates,
threshold, shares and passes; rows."""

MECHANISMS_VERDICT = """\
*Many queries*: as the slides say, output perturbation alone pays for each question. *High-dim utility*: the cross for
input perturbation and the tick for the transform are the wrong way round on these graphs: relative errors of both fall
alike as the graph grows, for cuts grow, and the sketch errs several times as much at every size, by more than the cut
itself. It is for graphs of thousands of vertices, and for single vertices of them (see "Cuts of graphs").
Multiplicative weights earn their tick where cuts follow the blocks; for random halves they are good because all such
cuts are nearly alike, so that knowing the number of edges alone would do better still. *Non-interactive*: weights need
not be interactive, for MWEM publishes a histogram once for a list of questions (see "Questions about histograms").
*One-time publish* is no advantage of output perturbation: what was not asked then cannot be asked later."""

# ---- Kenthapadi and Blocki ------------------------------------------------------------------------------------------


def _schema(columns: int, norm: float) -> Schema:
    return Schema(tuple(Real(f"c{j}", -1.0, 1.0) for j in range(columns)), norm="l2", norm_bound=norm)


def _ball(rows: Floats, norm: float = 1.0) -> Floats:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows * np.minimum(1.0, norm / np.maximum(lengths, 1e-300)))


def digits() -> Floats:
    """scikit-learn's digits about the middle of their range, within the unit ball."""
    return _ball((load_digits().data - 8) / 8 / 8)


def distance_error(rows: Floats, radius: float, setting: Setting, repeats: int) -> Measured:
    """Of squared distances from a gaussian sketch: root mean square over pairs, over the mean squared distance."""
    promise = Guarantee(epsilon=EPSILON, delta=DELTA, change=Change.l2(radius), projection="fresh")
    secrets, found = setting.secrets(f"{rows.shape} {radius}"), []
    truth = np.sum((rows[:500] - rows[500:1000]) ** 2, axis=1)
    for _ in range(repeats):
        recipe = Sketch(projection="gaussian", noise="gaussian", dimension=16)
        made = release(
            rows[:1000], schema=_schema(rows.shape[1], 1.0), mechanism=recipe, guarantee=promise, secret=next(secrets)
        )
        z = np.asarray(made.array())
        scale = made.noise.scale
        estimate = np.sum((z[:500] - z[500:]) ** 2, axis=1) - 2 * 16 * scale**2
        found.append(math.sqrt(np.mean((estimate - truth) ** 2)) / truth.mean())
    return Measured.of(found)


def variance_error(rows: Floats, setting: Setting, repeats: int) -> Measured:
    """Of the variance along the first component from a covariance sketch, over that variance."""
    promise = Guarantee(epsilon=EPSILON, delta=DELTA)
    recipe = Covariance(noise="sketch", rows=ROWS, centred=False)
    values, vectors = np.linalg.eigh(rows.T @ rows / len(rows))
    secrets, found = setting.secrets(f"covariance {rows.shape}"), []
    for _ in range(repeats):
        made = release(
            rows, schema=_schema(rows.shape[1], 1.0), mechanism=recipe, guarantee=promise, secret=next(secrets)
        )
        u = vectors[:, -1]
        found.append(abs(u @ made.second_moments() @ u / len(rows) / values[-1] - 1))
    return Measured.of(found)


def generated(columns: int, rng: np.random.Generator, count: int = 2000) -> Floats:
    """Rows whose variances fall as 1/j^2, within the unit ball: the same signal whatever the number of columns."""
    return _ball(rng.standard_normal((count, columns)) / np.arange(1, columns + 1) / 2)


def differences(setting: Setting) -> Iterator[Part]:
    """Key Differences Between Kenthapadi et al. and Blocki et al."""
    repeats, rows = setting.often(12, 6), digits()
    yield DIFFERENCES.format(repeats=repeats)
    scatter = np.linalg.eigvalsh(rows.T @ rows)
    ridge = covariance_options.ridge(ROWS, Guarantee(epsilon=EPSILON, delta=DELTA), centred=False)
    bare = ChiSquare(rows=ROWS, ratio=1 / max(float(scatter[0]), 1e-9), neighbours="add-remove").delta(EPSILON)
    table: list[list[Cell]] = [
        ["noise addition", "noise on each number, one record (R = 2)", _noise(2.0), 0.0],
        ["noise addition", "noise on each number, changes of length 0.01", _noise(0.01), None],
        ["data requirements", "least eigenvalue of X'X that is needed", 0.0, ridge],
        ["data requirements", "least eigenvalue of the digits", float(max(scatter[0], 0)), float(max(scatter[0], 0))],
        ["data requirements", "delta at epsilon 1 without a ridge, digits", None, bare],
        ["applications", "distances, one record (R = 2)", distance_error(rows, 2.0, setting, repeats), "none"],
        ["applications", "distances, changes of length 0.1", distance_error(rows, 0.1, setting, repeats), "none"],
        ["applications", "distances, changes of length 0.01", distance_error(rows, 0.01, setting, repeats), "none"],
        ["applications", "variance along the first component", "none", variance_error(rows, setting, 2 * repeats)],
    ]
    for columns in (16, 64, 256):
        some = generated(columns, np.random.default_rng(columns))
        near, far = distance_error(some, 0.01, setting, repeats), variance_error(some, setting, 2 * repeats)
        table.append(["utility", f"changes of 0.01; variance: {columns} columns, generated", near, far])
    yield Table("differences", ("aspect", "measured", "Kenthapadi", "Blocki"), table, {"Blocki": ".3g"})
    yield DIFFERENCES_VERDICT


def _noise(radius: float) -> float:
    promise = Guarantee(epsilon=EPSILON, delta=DELTA, change=Change.l2(radius), projection="fresh")
    recipe = Sketch(projection="gaussian", noise="gaussian", dimension=16)
    prepared = recipe.prepare(_schema(64, 1.0), promise)
    return round(prepared.scale(calibrate(prepared, promise).level) * prepared.unit, 9)


DIFFERENCES = f"""\
The slides' table "Key Differences": explicit noise against none; no requirements on the data against large singular
values; distances against cuts and covariances; good accuracy of distances against "superior scalability (dimension-
independent noise magnitude)". Here numbers for both on rows in the unit ball, epsilon = {EPSILON:g}, delta = {DELTA:g}:
a gaussian sketch of 16 columns with Gaussian noise and a fresh projection, calibrated exactly, and a covariance sketch
of {ROWS} rows with the exact ridge, one record replaced. scikit-learn's digits, or generated rows with variances 1/j^2.
Errors: root mean square over 500 pairs, over the mean squared distance; mean absolute error of the variance, over it;
{{repeats}} releases and twice as many."""

DIFFERENCES_VERDICT = """\
*Noise*: that Blocki et al. add none is a matter of words: the ridge does what noise does elsewhere, and without it
nothing is private (delta = 1 on digits, some pixels of which never vary). *Requirements*: with the ridge there are
none, as in the paper. *Applications*: each answers what the other does not. A sketch of rows has variances along a
direction only after a correction for its projection, which is not offered. *Accuracy of distances*: not "good" at
epsilon 1 with one record protected, nor for changes of length 0.1; where only changes of length 0.01 are protected the
error is about that of the projection, sqrt(2/16) = 0.35. *Scalability*: both errors are about the same at 16 and at 256
columns, so "dimension-independent" is no difference between the two."""

# ---- distances ------------------------------------------------------------------------------------------------------

DIMENSIONS = (2, 5, 10, 20, 50, 100, 200, 500, 1000)


def distances(setting: Setting) -> Iterator[Part]:
    """Illustration of the Curse of Dimensionality."""
    repeats, count, k = setting.often(20, 8), 500, 20
    yield DISTANCES.format(repeats=repeats, count=count, k=k)
    rows = []
    for d in DIMENSIONS:
        rng, each = setting.rng(f"cube {d}"), []
        for _ in range(repeats):
            points = rng.random((count + 1, d))
            image = points @ rng.standard_normal((d, k)) / math.sqrt(k)
            each.append([*_extremes(points), _contrast(points), _contrast(image)])
        near, far, contrast, projected = (Measured.of(values) for values in np.array(each).T)
        rows.append([d, near, far, contrast, projected])
    header = ("dimension", "nearest / sqrt(d)", "farthest / sqrt(d)", "farthest / nearest", f"after projection to {k}")
    yield Table("uniform points", header, rows)
    pixels, rng = load_digits().data, setting.rng("digits")
    each = []
    for _ in range(repeats):
        some = pixels[rng.choice(len(pixels), count + 1, replace=False)]
        each.append([_contrast(some), _contrast(some @ rng.standard_normal((64, k)) / math.sqrt(k))])
    before, after = (Measured.of(values) for values in np.array(each).T)
    yield Table("digits", ("data", "farthest / nearest", header[-1]), [["digits, 64 pixels", before, after]])
    _draw_distances(setting, rows, header)
    yield Picture("distances.svg", "Nearest and farthest distance of uniform points against dimension, and their ratio")
    yield DISTANCES_VERDICT


def _extremes(points: Floats) -> tuple[float, float]:
    lengths = np.linalg.norm(points[1:] - points[0], axis=1) / math.sqrt(points.shape[1])
    return float(lengths.min()), float(lengths.max())


def _contrast(points: Floats) -> float:
    near, far = _extremes(points)
    return far / near


def _draw_distances(setting: Setting, rows: list[list[int | Measured]], header: tuple[str, ...]) -> None:
    with figure(setting.picture("distances.svg"), "Distances from one of 501 uniform points", (10, 3.8)) as picture:
        left, right = picture.subplots(1, 2)
        for axes, columns in ((left, (1, 2)), (right, (3, 4))):
            for column, colour in zip(columns, ("#1b6ca8", "#c8553d"), strict=True):
                cells = [row[column] for row in rows]
                axes.errorbar(
                    DIMENSIONS,
                    [cell.value for cell in cells],
                    [cell.sd for cell in cells],
                    color=colour,
                    marker="o",
                    markersize=3,
                    label=header[column],
                )
            axes.set(xscale="log", xlabel="dimension")
            axes.legend(fontsize=8, frameon=False)
        left.set_ylabel("distance / sqrt(dimension)")
        right.set(yscale="log", ylabel="ratio")
        left.set_title("bars: one standard deviation of one draw", fontsize=8)


DISTANCES = """\
The slides show nearest and farthest distances that grow together with the dimension: points become "nearly
equidistant". {count} points uniform in the cube and one more from which distances are taken, {repeats} draws; then the
same points after a gaussian projection to {k} numbers, and scikit-learn's digits, which are not uniform."""

DISTANCES_VERDICT = """\
As the slides show: divided by sqrt(d) nearest and farthest meet at sqrt(1/6) = 0.408, and their ratio tends to 1. But
this is about uniform points. The transform does not cure it: projected to 20 numbers, distances of a thousand columns
look *more* different than they are, for relative errors of about sqrt(2/20) are added to distances that hardly differ.
Digits keep their contrast, before and after: what has structure in few directions does not suffer from many columns."""

EXPERIMENTS = (
    Experiment("slides-mechanisms", "Four mechanisms (slides, first table)", mechanisms),
    Experiment("slides-differences", "Kenthapadi against Blocki (slides, second table)", differences),
    Experiment("slides-distances", "The curse of dimensionality (slides, figure)", distances),
)
