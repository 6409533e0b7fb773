"""Reconstruction: the original columns or bits out of transformed rows, with or without noise.

What a curve is compared with is multiplicative perturbation (Liu, Kargupta and Ryan 2006): rows times a secret random
matrix, a ``rotation`` or a ``projection``, without noise. It protects nobody, no release can be made of it, and all
three attacks win: independent components need nothing but non-Gaussian columns that are nearly independent (Guo and Wu
2007), known pairs need as many rows as there are columns (Liu, Giannella and Kargupta 2006), and bits are found even
from fewer columns than there are bits (Sang, Shen and Tian 2012).

A private sketch shows its projection outright and is left with the noise, which is what the bounds of
``attack_bounds`` are about. Attacks see what an analyst sees; only ``matched`` and the curves look at the truth, to
keep the score.
"""

import itertools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.decomposition import FastICA
from sklearn.exceptions import ConvergenceWarning

from sfumato import check
from sfumato.attacks.curves import Curve, Point
from sfumato.attacks.example_data import Secrets, TargetTable, untouched
from sfumato.errors import ParameterError
from sfumato.intervals.moments import NoiseLaw
from sfumato.mechanisms.responses import RandomizedResponse
from sfumato.mechanisms.sketch import Sketch
from sfumato.numerics.types import Bools, Floats
from sfumato.privacy import attack_bounds
from sfumato.privacy.guarantee import Guarantee, Unit
from sfumato.randomness.secret import Secret

RECOVERED = 0.9  # a column counts as recovered beyond this correlation
_MOST_BITS = 16
_CELLS = 1 << 22  # of the candidates' likelihoods at a time


def rotation(dim: int, rng: np.random.Generator) -> Floats:
    """Secret rotation that reconstruction undoes: a perturbation that keeps all distances.

    The secret matrix of a perturbation that keeps all distances: Haar-random and orthogonal. It protects nobody.
    """
    check.whole(1, dim=dim)
    q, r = np.linalg.qr(rng.standard_normal((dim, dim)))
    return np.asarray(q * np.sign(np.diag(r)))


def projection(dim_in: int, dim_out: int, rng: np.random.Generator) -> Floats:
    """Secret projection to fewer columns that reconstruction undoes.

    Independent normal entries of variance 1 / dim_out. It protects nobody.
    """
    check.whole(1, dim_in=dim_in, dim_out=dim_out)
    return np.asarray(rng.standard_normal((dim_in, dim_out)) / np.sqrt(dim_out))


def independent_components(released: Floats, *, seed: int = 0) -> Floats:
    """Reconstruction of columns by independent component analysis.

    As many independent components as there are columns, in no order, sign or scale (FastICA, by kurtosis).
    """
    centred = released - released.mean(axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # on noise it may never settle
        found = FastICA(fun="cube", whiten="unit-variance", max_iter=400, random_state=seed).fit_transform(centred)
    return np.asarray(found)


def known_pairs(inputs: Floats, outputs: Floats, released: Floats) -> Floats:
    """Reconstruction from known pairs: rows by the linear map that fits known rows best to what became of them."""
    if len(inputs) != len(outputs):
        raise ParameterError(f"known pairs must be pairs, got {len(inputs)} inputs and {len(outputs)} outputs")
    with_one = np.column_stack([outputs, np.ones(len(outputs))])
    fitted, *_ = np.linalg.lstsq(with_one, inputs, rcond=None)
    return np.asarray(np.column_stack([released, np.ones(len(released))]) @ fitted)


def unprojected(released: Floats, matrix: Floats) -> Floats:
    """Reconstruction by a public projection: the shortest rows that it takes to what was released."""
    return np.asarray(released @ np.linalg.pinv(matrix))


def dense(matrix: Any) -> Floats:
    """The public projection that reconstruction inverts, sparse or not, as a plain matrix."""
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix, float)


def most_likely_bits(released: Floats, matrix: Floats, noise: NoiseLaw | None, rates: Floats) -> Bools:
    """Reconstruction of bits by maximum a posteriori.

    Of all rows of bits the likeliest after each released row (MAP), for bits that are true at independent rates.

    Without noise the row whose image is nearest. All 2^d rows are tried, for d up to 16.
    """
    if len(matrix) > _MOST_BITS:
        raise ParameterError(f"all rows of bits are tried, of at most {_MOST_BITS} bits, got {len(matrix)}")
    every = np.array(list(itertools.product((False, True), repeat=len(matrix))))
    images = every @ matrix
    inside = np.clip(rates, 1e-9, 1 - 1e-9)
    prior = np.where(every, np.log(inside), np.log1p(-inside)).sum(axis=1)
    step = max(1, _CELLS // images.size)
    pieces = [released[start : start + step] for start in range(0, len(released), step)]
    return np.concatenate([every[(_misfit(piece, images, noise) - prior).argmin(axis=1)] for piece in pieces])


def _misfit(released: Floats, images: Floats, noise: NoiseLaw | None) -> Floats:
    """Misfit of candidate bits' images to released rows.

    Minus the log-likelihood of each image for each row, up to a constant; without noise a steep square.
    """
    apart = released[:, None, :] - images[None, :, :]
    if noise is None:
        return np.asarray(np.square(apart).sum(axis=2) * 1e12)
    if noise.kind == "laplace":
        return np.asarray(np.abs(apart).sum(axis=2) * (np.sqrt(2) / noise.scale))
    return np.asarray(np.square(apart).sum(axis=2) / (2 * noise.variance))


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """The absolute correlation of each true column with the estimate it was matched to."""

    correlations: Floats

    @property
    def recovered(self) -> float:
        """The share of the true columns that count as reconstructed."""
        return float(np.mean(self.correlations > RECOVERED))

    @property
    def mean(self) -> float:
        """The mean correlation of reconstructed columns with the true ones."""
        return float(self.correlations.mean())


def matched(estimates: Floats, truth: Floats) -> Match:
    """Reconstructed columns matched to true ones.

    Estimates assigned to true columns, one to one, so that absolute correlations add up to most: the best case.

    A true column left without an estimate, and one that never varies, counts 0.
    """
    true, found = (_standard(m) for m in (truth, estimates))
    size = np.abs(true.T @ found) / len(truth)
    rows, columns = linear_sum_assignment(-size)
    correlations = np.zeros(truth.shape[1])
    correlations[rows] = size[rows, columns]
    return Match(correlations)


def _standard(matrix: Floats) -> Floats:
    centred = matrix - matrix.mean(axis=0)
    deviations = centred.std(axis=0)
    return np.asarray(centred / np.where(deviations > 0, deviations, np.inf))


def chance(truth: Floats, *, repeats: int = 20, seed: int = 0) -> float:
    """Reconstruction by chance: the mean correlation when what is matched is noise that never saw the data."""
    rng = np.random.default_rng(seed)
    return float(np.mean([matched(rng.standard_normal(truth.shape), truth).mean for _ in range(repeats)]))


def column_attacks(rows: Floats, released: Floats, matrix: Floats, seed: int) -> dict[str, Match]:
    """All reconstruction attacks on columns.

    All attacks on columns. Whoever knows pairs knows every other row; the score is kept on the rest.
    """
    known, rest = slice(0, None, 2), slice(1, None, 2)
    return {
        "ICA": matched(independent_components(released, seed=seed), rows),
        "known pairs": matched(known_pairs(rows[known], released[known], released[rest]), rows[rest]),
        "public P": matched(unprojected(released, matrix), rows),
    }


def columns(
    case: TargetTable,
    epsilons: Sequence[float],
    *,
    unit: Unit = "record",
    repeats: int = 3,
    seed: int = 0,
    secrets: Secrets = untouched,
) -> list[Curve]:
    """Reconstruction of columns by epsilon.

    ICA, known pairs and the public P against sketches that are rotations, and against a rotation without noise.
    """
    rows, rng = case.encoded(), np.random.default_rng(seed)
    turned = rotation(rows.shape[1], rng)
    bare = column_attacks(rows, rows @ turned, turned, seed)
    recipe = Sketch(dimension=rows.shape[1], projection="orthonormal", seed=seed)
    found = {}
    for epsilon in epsilons:
        promise = Guarantee(epsilon=epsilon, unit=unit)
        for run in range(repeats):
            made = case.released(recipe, promise, secrets())
            found[epsilon, run] = column_attacks(rows, made.array(), dense(made.projection), seed + run)

    def curve(attack: str, score: str, guessed: float, limit: dict[float, float]) -> Curve:
        runs = {e: [getattr(found[e, run][attack], score) for run in range(repeats)] for e in epsilons}
        points = tuple(Point.of(e, runs[e], limit[e]) for e in epsilons)
        measure = {"mean": "mean correlation", "recovered": f"columns with correlation above {RECOVERED}"}[score]
        data = f"{case.name}, one {'value' if unit == 'attribute' else unit} protected"
        return Curve(attack, "sketches", data, measure, guessed, getattr(bare[attack], score), points)

    most = {epsilon: attack_bounds.correlation(epsilon) for epsilon in epsilons}
    all_or_none = {epsilon: float(limit > RECOVERED) for epsilon, limit in most.items()}
    guessed = {attack: chance(rows[1::2] if attack == "known pairs" else rows, seed=seed) for attack in bare}
    shares = [curve(attack, "recovered", 0.0, all_or_none) for attack in bare]
    return shares + [curve(attack, "mean", guessed[attack], most) for attack in bare]


def guessable(case: TargetTable) -> bool:
    """Whether the bits of a table can be reconstructed by trying all: flags, and few enough of them."""
    return case.schema.encoding.only_bits and case.schema.encoding.dim <= _MOST_BITS


def bits(
    case: TargetTable,
    epsilons: Sequence[float],
    *,
    dimension: int | None = None,
    repeats: int = 3,
    seed: int = 0,
    secrets: Secrets = untouched,
) -> list[Curve]:
    """Reconstruction of the likeliest bits by epsilon.

    The likeliest bits, one value protected: behind noise, a sketch of ``dimension`` numbers, randomized response.

    The bound holds for bits that are independent of each other, at rates that the attacker knows.
    """
    truth = case.encoded() > 0.5
    rates, size = truth.mean(axis=0), truth.shape[1]
    dimension = max(1, size // 2) if dimension is None else dimension
    check.whole(1, dimension=dimension)
    secret = projection(size, dimension, np.random.default_rng(seed))
    bare = most_likely_bits(truth.astype(float) @ secret, secret, None, rates)
    prior = np.maximum(rates, 1 - rates)
    recipes: dict[str, Sketch | RandomizedResponse] = {
        "noise alone": Sketch(projection="identity", seed=seed),
        f"sketches of {dimension} numbers": Sketch(dimension=dimension, projection="gaussian", seed=seed),
        "randomized response": RandomizedResponse(),
    }

    def point(recipe: Sketch | RandomizedResponse, epsilon: float) -> Point:
        limit = float(np.mean([attack_bounds.guess(epsilon, prior=float(p)) for p in prior]))
        guesses = [_guessed(case, recipe, epsilon, rates, secrets()) == truth for _ in range(repeats)]
        return Point.of(epsilon, [float(g.mean()) for g in guesses], limit, trials=truth.size * repeats)

    return [
        Curve(
            "MAP",
            name,
            f"{case.name}, one value protected",
            "bits guessed rightly",
            float(prior.mean()),
            float(np.mean(bare == truth)),
            tuple(point(recipe, epsilon) for epsilon in epsilons),
        )
        for name, recipe in recipes.items()
    ]


def _guessed(
    case: TargetTable, recipe: Sketch | RandomizedResponse, epsilon: float, rates: Floats, secret: Secret | None
) -> Bools:
    """Reconstructed bits, the likeliest behind one release; each randomized answer is judged by itself."""
    promise = Guarantee(epsilon=epsilon, unit="attribute")
    made = case.released(recipe, promise, secret)
    if isinstance(recipe, Sketch):
        return most_likely_bits(made.array(), dense(made.projection), made.noise, rates)
    answers = made.codes.T.astype(bool)
    odds = np.log(np.clip(rates, 1e-9, 1 - 1e-9)) - np.log1p(-np.clip(rates, 1e-9, 1 - 1e-9))
    return np.asarray(odds + np.where(answers, epsilon, -epsilon) > 0)
