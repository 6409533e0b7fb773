"""What analysts will find of similar records, forecast by simulation: releases of guessed records, ranked as they will.

Records of a public guess are projected and given noise of an option's own level; the analyst's own code learns a prior
from that and ranks by it; and what is shown is compared with the truth of the guess. Draws come from a fixed public
seed and doubles: nothing here protects anybody, no private row is read and no secret is drawn.

Options are many, so all but a few are left out by a closed form: how far estimated and true squared distances correlate
if records were normal with the covariance of the guess (section 12 of the mathematics).
"""

import functools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy

from sfumato.estimation import neighbours, response_columns
from sfumato.estimation.response_law import Channel, Questionnaire
from sfumato.intervals.moments import NoiseLaw
from sfumato.numerics.types import Floats, Integers
from sfumato.planning import per_record
from sfumato.planning.option import NEAR, ROWS, Alike, Option, PlanRequest
from sfumato.planning.per_record import ResponsesErrors, SketchCurve, SketchErrors
from sfumato.planning.public_guess import PublicGuess
from sfumato.projection.projection import Projection
from sfumato.releases.level_posterior import posterior_of

SHOWN, SEED = 10, 3
_QUERIES, _PAIRS = 800, 50  # pairs of others for each query
_GROWTH = 1.6  # of the dimensions that are tried


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """Rows of a guess, and of some of them the squared distances to all."""

    guess: PublicGuess
    count: int

    @property
    def rows(self) -> Floats:
        """The rows of this rehearsal."""
        return self.guess.rows[: self.count]

    @cached_property
    def queries(self) -> Integers:
        """The records that are asked about."""
        return np.unique(np.linspace(0, self.count - 1, _QUERIES).astype(np.int64))

    @cached_property
    def squared(self) -> Floats:
        """True squared distances of queries to all rows; infinite to themselves."""
        return squared_distances(self.rows, self.queries)

    @cached_property
    def pairs(self) -> Integers:
        """For each query, pairs of others."""
        return np.random.default_rng(1).integers(self.count, size=(2, len(self.queries), _PAIRS))

    def alike(self, shown: Integers, seen: Floats) -> Alike:
        """What is found, if these are shown for the queries, and squared distances to the pairs look like this."""
        k, true = shown.shape[1], self.squared
        nearest = math.ceil(NEAR * (self.count - 1))
        limits = np.partition(true, [k - 1, nearest - 1], axis=1)[:, [k - 1, nearest - 1]] * (1 + 1e-9) + 1e-12
        found = np.take_along_axis(true, shown, 1)
        first, second = (np.take_along_axis(true, pair, 1) for pair in self.pairs)
        apart = np.isfinite(first) & np.isfinite(second) & (first != second)
        right = (first < second) == (seen[0] < seen[1])
        order = float(right[apart].mean()) if apart.any() else 0.5
        recall, near = (float(np.mean(found <= limits[:, i : i + 1])) for i in range(2))
        return Alike(recall, near, order, k, self.count, self.count)


def squared_distances(points: Floats, queries: Integers) -> Floats:
    """Squared distances of some points to all, infinite to themselves."""
    lengths = np.sum(points**2, axis=1)
    found = np.maximum(lengths[queries][:, None] + lengths - 2 * points[queries] @ points.T, 0.0)
    found[np.arange(len(queries)), queries] = np.inf
    return np.asarray(found)


# ---- one option -----------------------------------------------------------------------------------------------------


def simulated(option: Option, rehearsal: Rehearsal) -> Alike | None:
    """What analysts would find in a release of a rehearsal's rows."""
    rng, noise = np.random.default_rng(2), option.noise_scale
    if isinstance(option.errors, SketchErrors):
        return _of_sketch(option.errors, rehearsal, rng)
    if isinstance(option.errors, ResponsesErrors):
        return _of_points(_answered(option.errors.epsilon, option.levels, rehearsal, rng), rehearsal)
    if option.name == "distances":
        law = NoiseLaw("laplace" if option.noise == "laplace" else "gaussian", noise)
        seen = rehearsal.squared + drawn_noise(law, rehearsal.squared.shape, rng)
        shown = np.argpartition(seen, _shown(rehearsal) - 1, axis=1)[:, : _shown(rehearsal)]
        return rehearsal.alike(shown, np.stack([np.take_along_axis(seen, pair, 1) for pair in rehearsal.pairs]))
    return None


def _shown(rehearsal: Rehearsal) -> int:
    return min(SHOWN, rehearsal.count - 1)


def _of_points(points: Floats, rehearsal: Rehearsal, shown: Integers | None = None) -> Alike:
    """What is found by distances between points that stand for the rows; or where these are shown for the queries."""
    if shown is None:
        shown = neighbours.nearest(points, rehearsal.queries, _shown(rehearsal), NoiseLaw("gaussian", 1.0)).indices
    mine = points[rehearsal.queries][:, None]
    return rehearsal.alike(shown, np.stack([np.sum((points[pair] - mine) ** 2, axis=2) for pair in rehearsal.pairs]))


def _answered(epsilon: float, levels: int | None, rehearsal: Rehearsal, rng: np.random.Generator) -> Floats:
    """Randomized answers of a rehearsal's rows, freed of their bias."""
    schema = rehearsal.guess.schema
    form = Questionnaire(response_columns.answers(schema, levels), epsilon)
    codes = response_columns.codes(schema, (rehearsal.rows / schema.encoding.weights).T, levels).T
    sizes = np.array([column.categories for column in form.columns])
    keep = np.array([Channel(epsilon, int(size)).keep for size in sizes])
    others = (codes + rng.integers(1, sizes, codes.shape)) % sizes
    return form.debiased(np.where(rng.random(codes.shape) < keep, codes, others))


def _of_sketch(errors: SketchErrors, rehearsal: Rehearsal, rng: np.random.Generator) -> Alike:
    """What the analyst of a sketch finds by the posterior, or by its rows, where no prior is learned."""
    law = errors.law
    images = project(rehearsal.rows, law.geometry.family, law.geometry.dim_out)
    released = images + drawn_noise(law.noise, images.shape, rng)
    posterior = posterior_of(released, law, rehearsal.guess.schema, whole=True)
    if not posterior.learned:
        return _of_points(released, rehearsal)
    return _of_points(posterior.means(), rehearsal, posterior.ranked(rehearsal.queries, _shown(rehearsal)))


def drawn_noise(law: NoiseLaw, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Noise of a law in doubles, for simulations."""
    return (
        rng.laplace(0.0, law.scale / math.sqrt(2), shape) if law.kind == "laplace" else rng.normal(0, law.scale, shape)
    )


def project(rows: Floats, family: str, dim_out: int) -> Floats:
    """Rows under a projection of a family, from a fixed public seed."""
    return np.asarray(rows if family == "identity" else rows @ _matrix(family, rows.shape[1], dim_out))


def _matrix(family: str, dim_in: int, dim_out: int) -> Floats:
    """A projection from a fixed public seed, which a fixed one of the release has as well."""
    drawn = Projection(family=family, dim_in=dim_in, dim_out=dim_out, seed=SEED).draw()  # type: ignore[arg-type]
    values = drawn.values.toarray() if scipy.sparse.issparse(drawn.values) else drawn.values
    return np.asarray(values * drawn.factor)


def with_expected(options: Iterable[Option], request: PlanRequest, effort: "RehearsalSize") -> list[Option]:
    """Options with what analysts will find, the best first.

    Where the guess has fewer rows than there will be records, the best option is rehearsed on half of them as well, and
    the logit of recall is taken to go on with the logarithm of the number of records as it does between these two.
    """
    guess, rows = request.guess, request.rows or ROWS
    assert guess is not None
    have = min(rows, len(guess.rows), effort.rows)
    whole = Rehearsal(guess, have)
    pairs = [(option, found) for option in options if (found := simulated(option, whole)) is not None]
    pairs.sort(key=lambda pair: -pair[1].gain(request.purpose))
    if not pairs or have == rows:
        return [replace(option, alike=found) for option, found in pairs]
    best, found = pairs[0]
    half = simulated(best, Rehearsal(guess, have // 2))
    assert half is not None
    slope = (_logit(found.recall) - _logit(half.recall)) / math.log(have / (have // 2))
    return [replace(option, alike=_extended(found, slope, rows)) for option, found in pairs]


def _extended(found: Alike, slope: float, rows: int) -> Alike:
    """What is found among more records than were simulated."""
    recall = float(scipy.special.expit(_logit(found.recall) + min(slope, 0.0) * math.log(rows / found.rows)))
    return replace(found, recall=recall, rows=rows)


def _logit(share: float) -> float:
    return float(scipy.special.logit(np.clip(share, 1e-5, 1 - 1e-5)))


# ---- a few of many --------------------------------------------------------------------------------------------------


def _alike(family: str) -> str:
    """A projection that does the same to lengths as one of this family, nearly, and is quick to draw."""
    return family if family in ("identity", "sparse", "orthonormal") else "rademacher"


def _like(family: str, dim_in: int, dim_out: int) -> Floats:
    """A projection of a family; not the exact draw of an orthonormal one, which takes long."""
    if family != "orthonormal":
        return _matrix(family, dim_in, dim_out)
    normal = np.random.default_rng(SEED).standard_normal((dim_in, dim_out))
    return np.asarray(np.linalg.qr(normal)[0] * math.sqrt(dim_in / dim_out))


@functools.lru_cache(maxsize=1)
def _covariance(guess: PublicGuess) -> Floats:
    centred = guess.rows - guess.rows.mean(axis=0)
    return np.asarray(centred.T @ centred / len(centred))


@functools.lru_cache(maxsize=128)
def _images(guess: PublicGuess, family: str, dim_out: int) -> tuple[Floats, Floats]:
    """Eigenvalues of the covariance of images, and the squared covariances of each direction with records."""
    covariance = _covariance(guess)
    across = covariance if family == "identity" else covariance @ (matrix := _like(family, len(covariance), dim_out))
    values, vectors = np.linalg.eigh(across if family == "identity" else matrix.T @ across)
    return np.maximum(values, 0.0), np.sum((across @ vectors) ** 2, axis=0)


def correlation(errors: SketchErrors, guess: PublicGuess, rows: int) -> float:
    """How far estimated and true squared distances of a sketch correlate, for normal records with a guess's covariance.

    With a prior that is learned, or without where nothing stands out of the noise.
    """
    shape, noise = errors.law.geometry, errors.law.noise.variance
    values, across = _images(guess, _alike(shape.family), shape.dim_out)
    whole, gamma = float(np.sqrt(np.sum(_covariance(guess) ** 2))), shape.dim_out / rows
    if whole == 0:
        return 0.0
    seen = values > noise * math.sqrt(gamma)
    if not seen.any():
        return float(across.sum() / (whole * np.sqrt(np.sum((values + noise) ** 2))))
    theta = values[seen] / noise
    cosine = (1 - gamma / theta**2) / (1 + gamma / theta)
    share = theta * cosine / (theta * cosine + 1)
    spread = np.sqrt(np.sum((share * theta * cosine * noise) ** 2))
    return float(np.sum(share**2 * cosine * across[seen]) / (whole * spread))


@dataclass(frozen=True, slots=True)
class RehearsalSize:
    """How many sketches are rehearsed, and on how many rows; ``drawn``: with the projection of the release."""

    finalists: int
    rows: int
    drawn: bool = False


FULL, QUICK, LEAST = RehearsalSize(8, 10_000, drawn=True), RehearsalSize(4, 1_500), RehearsalSize(1, 1_000)


def options(request: PlanRequest, effort: RehearsalSize) -> list[Option]:
    """Options of a plan for similar records, with what analysts will find in each, the best first."""
    chosen = finalists(request, effort)
    if request.purpose != "learning":
        chosen += [*per_record.responses(request), *per_record.by_levels(request)]
    if request.purpose == "nearest":
        chosen += per_record.distances(request)
    return with_expected(chosen, request, effort)


def finalists(request: PlanRequest, effort: RehearsalSize) -> list[Option]:
    """The sketches that a closed form puts first; of projections that do alike, the one with the least noise.

    Columns as they are come with them in any case: the closed form knows nothing of levels, of which more is learned.
    """
    assert request.guess is not None
    best: dict[tuple[str, str, int], tuple[float, Option]] = {}
    for curve in per_record.curves(request):
        for errors in some_dimensions(curve):
            option = per_record.option_at(request, curve.guarantee, errors)
            key = _alike(option.family), option.noise, option.dimension
            score = correlation(errors, request.guess, request.rows or ROWS)
            if key not in best or score > best[key][0]:
                best[key] = score, option
    ranked = [option for _, option in sorted(best.values(), key=lambda pair: -pair[0])]
    found = [o for place, o in enumerate(ranked) if place < effort.finalists or o.family == "identity"]
    return [per_record.drawn(per_record.seeded(option, SEED), request) for option in found] if effort.drawn else found


def some_dimensions(curve: SketchCurve) -> Iterator[SketchErrors]:
    """Some dimensions of a curve, from the largest down."""
    last = math.inf
    for errors in reversed(curve.errors):
        if errors.law.geometry.dim_out * _GROWTH <= last:
            last = errors.law.geometry.dim_out
            yield errors
