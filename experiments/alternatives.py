"""Kenthapadi et al., section 4: noise addition and randomized response against projection."""

import itertools
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from figure import figure
from page import Measured, Part, Picture, Setting, Table
from published_constants import projection_error
from sfumato.mechanisms.distances import NoisyDistances
from sfumato.pipeline.release import release
from sfumato.planning.forecast import fixed_level
from sfumato.planning.planner import plan
from sfumato.planning.regions import NAMES, borders, region, rows_where_projection_wins
from sfumato.privacy.guarantee import Guarantee
from sfumato.tables.columns import Flag
from sfumato.tables.schema import Schema
from simulation import pieces, root_mean_square

# ---- sections 4.1 and 4.2 -------------------------------------------------------------------------------------------


def published_addition(rows: int, epsilon: float, delta: float) -> float:
    """The noise of Algorithm 3 on each squared distance, as published."""
    return math.sqrt(rows * 2 * (math.log(1 / (2 * delta)) + epsilon)) / epsilon


def exact_addition(rows: int, epsilon: float, delta: float) -> float:
    """The least noise for flags: Gaussian for n - 1 changes of 1, or Laplace."""
    gaussian = fixed_level("gaussian", epsilon, delta) * math.sqrt(rows - 1)
    return min(gaussian, fixed_level("laplace", epsilon, delta) * (rows - 1))


def addition(setting: Setting) -> Iterator[Part]:
    """Noise on all distances against projection."""
    yield (
        "Algorithm 3 adds Gaussian noise to every squared distance. One flag of one user moves n - 1 of them by 1,\n"
        "so sigma grows with the root of n (the paper writes n). The paper: projection has the smaller variance if\n"
        "the weight nu of a user's vector is much smaller than n epsilon^2 / ln n. Standard errors at delta = 1/n,\n"
        "epsilon 1, for two users of nu flags each that share none (r^2 = 2 nu; the paper has *||x - y||_2 equals\n"
        "the Hamming distance*: its square does). Projection as published: Lemma 2's noise, k = nu or the least k\n"
        "it allows."
    )
    rows = []
    for weight, users in itertools.product((10, 100, 1000), (10**3, 10**5, 10**7)):
        squared, guarantee = 2.0 * weight, Guarantee(epsilon=1.0, delta=1 / users, unit="attribute")
        k = max(weight, math.floor(2 * (math.log(10_000) + math.log(2 * users))) + 1)
        projected = projection_error(math.sqrt(squared), columns=10_000, rows=users, epsilon=1.0, dimension=k)
        made = plan(columns=10_000, guarantee=guarantee, distance=math.sqrt(squared))
        sketch = made.only(lambda o: o.name == "sketch").best.standard_error(math.sqrt(squared))
        published, exact = published_addition(users, 1.0, 1 / users), exact_addition(users, 1.0, 1 / users)
        rows.append([weight, users, published, projected, exact, sketch])
    header = ("nu", "users", "addition, published", "projection, published", "addition, exact", "best sketch")
    yield Table("addition", header, rows)
    yield "Users from which a sketch beats noise on distances, at epsilon 1 and delta = 1e-4:"
    yield _least_users()
    yield (
        "Section 4.2 leaves open whether fitting a Euclidean metric to the noisy distances helps. Root mean square\n"
        "errors of squared distances, 100 users with 16 flags set or not at even odds, one value as the unit, delta\n"
        "= 1e-4: as published, after classical scaling to 16 dimensions, and the nearest Euclidean distance matrix."
    )
    yield _cleaned(setting)
    yield (
        "Reached as an order of magnitude. As published, projection wins only where users outnumber the weight by\n"
        "far more than the paper's *much*: its variance has the fourth power of sigma = 4 sqrt(ln n). A planned\n"
        "sketch wins from about four users for each differing flag on. The open question: yes, by much, for the\n"
        "nearest Euclidean matrix, which never does harm (it projects onto a convex set that holds the truth); no\n"
        "for classical scaling, which is biased where the noise exceeds the distances and makes things worse here."
    )


def _least_users() -> Table:
    promise, squares = Guarantee(epsilon=1.0, delta=1e-4, unit="attribute"), (10, 100, 1000)
    rows = [
        [d, *(rows_where_projection_wins(columns=d, distance=s**0.5, guarantee=promise) for s in squares)]
        for d in (1000, 10_000)
    ]
    return Table("users", ("flags", *(f"r^2 = {s}" for s in squares)), rows)


def _cleaned(setting: Setting) -> Table:
    schema, rng, secrets = (
        Schema([Flag(f"f{i}") for i in range(16)]),
        setting.rng("cleaned"),
        setting.secrets("cleaned"),
    )
    first, second = np.triu_indices(100, 1)
    rows = []
    for epsilon in (1.0, 4.0, 16.0):
        found: dict[str, list[float]] = {"published": [], "mds": [], "nearest": []}
        guarantee = Guarantee(epsilon=epsilon, delta=1e-4, unit="attribute")
        for _ in range(setting.often(20, 6)):
            bits = rng.integers(0, 2, (100, 16))
            made = release(bits, schema=schema, mechanism=NoisyDistances(), guarantee=guarantee, secret=next(secrets))
            true = np.square(bits[first] - bits[second]).sum(axis=1)
            tried = {"published": made.matrix(), "mds": made.cleaned("mds"), "nearest": made.cleaned("nearest")}
            for name, matrix in tried.items():
                found[name].append(float(np.sqrt(np.mean((matrix[first, second] - true) ** 2))))
        rows.append([epsilon, *(Measured.of(values) for values in found.values())])
    header = ("epsilon", "as published", "classical scaling", "nearest Euclidean")
    return Table("cleaned", header, rows, {"epsilon": "g"} | dict.fromkeys(header[1:], ".3f"))


# ---- section 4.3 ----------------------------------------------------------------------------------------------------


def response_variance(columns: int, epsilon: float) -> float:
    """Of a squared distance recovered from randomized response on flags, at any distance."""
    one = plan(columns=1, guarantee=Guarantee(epsilon=epsilon, unit="attribute"), distance=1.0)
    return columns * one.only(lambda o: o.name == "responses").best.errors.variance(0.0)


def published_borders(columns: int, k: int, users: int, epsilon: float) -> tuple[float, float | None]:
    """The r^2 from which the published projection errs by less than r^2, and up to which by less than responses.

    Both solve quadratics in r^2: 2 r^4/k + 8 s^2 r^2 + 8 s^4 k against r^4, and against the responses' variance.
    """
    s2 = 16 * math.log(users) / epsilon**2
    useful = s2 * (4 + math.sqrt(16 + 8 * (k - 2))) / (1 - 2 / k)
    left = response_variance(columns, epsilon) - 8 * s2**2 * k
    return useful, None if left < 0 else (math.sqrt(64 * s2**2 + 8 * left / k) - 8 * s2) * k / 4


def responded(columns: int, squared: int, epsilon: float, count: int, rng: np.random.Generator) -> Measured:
    """The error of Algorithm 6, simulated: squared distances of flipped bits are sums of two binomials."""
    p = 1 / (1 + math.exp(epsilon))
    flipped = 2 * p * (1 - p)
    seen = rng.binomial(squared, 1 - flipped, count) + rng.binomial(columns - squared, flipped, count)
    return root_mean_square((seen - columns * flipped) / (1 - 2 * p) ** 2 - squared)


def regions(setting: Setting) -> Iterator[Part]:
    """Randomized response, and the three regions of section 4.3.3."""
    yield (
        "Section 4.3.3: for a fixed k, both mechanisms are inaccurate below r^2 = sqrt(k); projection is better\n"
        "between sqrt(k) and sqrt(dk)/epsilon^2; randomized response is better above. The constants are left out.\n"
        "Here they are in: projection as published (gaussian P, Lemma 2's noise at delta = 1/n, n = 10,000 users)\n"
        "and randomized response. *Useful*: a standard error below r^2 itself."
    )
    rows = []
    for epsilon, columns, k in itertools.product((1.0, 0.5), (10**4, 10**6, 10**7, 10**8), (64, 256)):
        useful, better = published_borders(columns, k, 10_000, epsilon)
        rows.append([epsilon, columns, k, math.sqrt(k), useful, math.sqrt(columns * k) / epsilon**2, better])
    header = (
        "epsilon",
        "flags",
        "k",
        "sqrt(k)",
        "useful from r^2",
        "sqrt(dk)/epsilon^2",
        "better than responses up to r^2",
    )
    yield Table("published", header, rows, {"epsilon": "g"} | dict.fromkeys(header[3:], ".0f"))
    yield "The three regions at 10^7 flags, k = 64, epsilon 1: standard errors by the formulas and simulated."
    yield _simulated(setting)
    yield (
        "With the best option of each mechanism instead (a planned sketch, pure or delta = 1e-4; 10,000 users for\n"
        "noise on distances), each row is the first distance of a stretch with one winner:"
    )
    yield _best_regions()
    promise = Guarantee(epsilon=1.0, delta=1e-4, unit="attribute")
    _draw_regions(setting.picture("kenthapadi-regions.svg"), columns=1000, rows=10_000, guarantee=promise)
    yield Picture("kenthapadi-regions.svg", "standard errors of the three mechanisms over distance, 1,000 flags")
    yield (
        "The order of the regions is reached, and so is the upper border, to within 40% but for the case next to\n"
        "none (10^7 flags, k = 256). The lower border is not sqrt(k): the error at small distances is sigma^2\n"
        "sqrt(8k) with sigma^2 = 16 ln(n)/epsilon^2, so it lies hundreds to thousands of times higher. The middle\n"
        "region is empty unless there are millions of flags: as published, randomized response is better at *all*\n"
        "distances for fewer. A planned sketch does have a middle region, at usual sizes too."
    )


def _draw_regions(path: Path, *, columns: int, rows: int, guarantee: Guarantee) -> None:
    """As ``sfumato regions --plot`` draws them, beside projection as published."""
    title = f"{columns:,} flags, {rows:,} records, epsilon {guarantee.epsilon:g}, delta {guarantee.delta:g}"
    distances = np.geomspace(1.0, np.sqrt(columns), 25)
    with figure(path, title, (11.0, 4.4)) as picture:
        errors, least = picture.subplots(1, 2)
        found = [region(float(r), columns=columns, rows=rows, guarantee=guarantee) for r in distances]
        for name, colour in zip(NAMES, ("#1b6ca8", "#c8553d", "#2a9d5c"), strict=True):
            errors.plot(distances**2, [here.error(name) for here in found], color=colour, label=name)
        for k, style in ((16, ":"), (256, "--")):
            old = [
                projection_error(float(r), columns=columns, rows=rows, epsilon=guarantee.epsilon, dimension=k)
                for r in distances
            ]
            label = f"projection as published, k = {k}"
            errors.plot(distances**2, old, color="#999999", linestyle=style, label=label)
        errors.plot(distances**2, distances**2, color="#000000", linewidth=0.8, label="the squared distance itself")
        errors.set(xscale="log", yscale="log", xlabel="squared distance", ylabel="standard error")
        errors.legend(fontsize=7, frameon=False)
        wins = [rows_where_projection_wins(columns=columns, distance=float(r), guarantee=guarantee) for r in distances]
        least.plot(distances**2, wins, color="#1b6ca8")
        least.set(xscale="log", yscale="log", xlabel="squared distance", ylabel="records")
        least.set_title("a sketch beats noise on distances above this many records", fontsize=9)


def _simulated(setting: Setting) -> Table:
    columns, k, users, count = 10**7, 64, 10_000, setting.often(200_000, 20_000)
    scale = 4 * math.sqrt(math.log(users))
    drawn = pieces(("gaussian", 1, k), "gaussian", count, setting.rng("projection"))
    rows = []
    for squared, where in ((1_000, "neither"), (10_000, "projection"), (100_000, "responses")):
        formula = projection_error(math.sqrt(squared), columns=columns, rows=users, epsilon=1.0, dimension=k)
        found = root_mean_square(drawn.errors(squared, scale))
        other = responded(columns, squared, 1.0, count, setting.rng(f"responses {squared}"))
        rows.append([squared, where, formula, found, math.sqrt(response_variance(columns, 1.0)), other])
    header = ("r^2", "region", "projection", "projection, simulated", "responses", "responses, simulated")
    return Table("simulated", header, rows)


def _best_regions() -> Table:
    rows: list[list[str | int | float]] = []
    for columns, epsilon in ((100, 1.0), (1000, 1.0), (1000, 4.0), (10_000, 1.0)):
        promise = Guarantee(epsilon=epsilon, delta=1e-4, unit="attribute")
        for here in borders(columns=columns, rows=10_000, guarantee=promise):
            told = "yes" if here.useful else "no"
            errors = [here.error(name) for name in ("sketch", "responses", "distances")]
            rows.append([columns, epsilon, here.distance**2, here.winner, told, *errors])
    header = ("flags", "epsilon", "from r^2", "winner", "useful", "sketch", "responses", "noise on distances")
    return Table("best", header, rows, {"epsilon": "g"})
