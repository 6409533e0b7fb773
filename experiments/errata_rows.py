"""Errata of the papers on sketches of rows: Dhaliwal et al., and Kenthapadi et al. in the copy we read."""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from blobs import EPSILON, Blobs, element_wise, noisy, projection
from dhaliwal import published_variance
from erratum import Erratum
from page import Cell, Measured, Part, Setting, Table
from sfumato.attacks.reconstruction import independent_components, known_pairs, matched, most_likely_bits, rotation
from sfumato.intervals.moments import Geometry, NoiseLaw, SketchLaw
from sfumato.privacy import profiles
from sfumato.privacy.calibration import least_epsilon, least_level
from sfumato.privacy.losses import FreshGaussian, FreshLaplace, Gaussian
from simulation import pieces

Floats = NDArray[np.float64]
TABLE_1 = ((3, 2, 0.9441), (10, 3, 0.9082), (50, 10, 0.6954), (100, 20, 0.6927))  # d, k, accuracy, element-wise
DELTA = 1e-6


# ---- Dhaliwal -------------------------------------------------------------------------------------------------------


def failure_bound(d: int, k: int) -> float:
    """The "probability" of failure of Theorem 3: d exp(-k/2)."""
    return d * math.exp(-k / 2)


def theorem_3(setting: Setting) -> Iterator[Part]:
    """Failure at the parameters of Table 1."""
    rows = []
    for d, k, _ in TABLE_1:
        exact = -math.expm1(d * stats.chi2.logcdf(4 * k, k))
        rng = setting.rng(f"rows {d}")
        sums = [np.abs(rng.standard_normal((d, k))).sum(axis=1).max() / math.sqrt(k) for _ in range(400)]
        rows.append([f"d = {d}, k = {k}", failure_bound(d, k), exact, 2 * math.sqrt(k), Measured.of(sums)])
    header = (
        "Table 1",
        "d exp(-k/2)",
        "exact Pr[max row > 2]",
        "noise as published, times epsilon",
        "noise that suffices",
    )
    yield Table("failure", header, rows)
    yield (
        'The first two columns of their Table 1 come with a guarantee that may fail with a "probability" above 1. The\n'
        "true probability of what they need is small; and with noise for the P in hand (last column: mean of the "
        "largest l1 norm of a row over draws of P) there is nothing left to fail, with less noise."
    )


THEOREM_3 = Erratum(
    "dhaliwal-theorem3",
    "Dhaliwal, Theorem 3: a failure probability above 1",
    "Theorem 3",
    "Algorithm 1 is epsilon-private with probability at least 1 - d exp(-k/2).",
    "vacuous for k <= 2 ln d, so in half of their Table 1. For a fixed P no probability is needed: Laplace noise of "
    "scale max_j |P_j|_1 / epsilon is epsilon-private with certainty, whatever P is.",
    "Lemma 2 is a union bound over d rows of a tail bound that is loose for small k. The sensitivity of x -> xP to "
    "one element is max_j |P_j|_1, which can be looked up once P is drawn; P is independent of the data, so noise "
    "may depend on it.",
    theorem_3,
)


def theorem_5_bound(k: int, alpha: float) -> float:
    """The probability with which Theorem 5 says that privacy holds, at its least t."""
    t = math.sqrt(2 * math.log(2 * k) / k) * alpha
    return round(1 - 2 * k * math.exp(-k * t**2 / (2 * alpha)), 12)


def theorem_5(_: Setting) -> Iterator[Part]:
    """What the printed t gives."""
    bounds = [[k, *(theorem_5_bound(k, a) for a in (0.25, 1.0, 4.0))] for k in (2, 3, 10, 20)]
    yield Table("probability of privacy", ("k", "alpha = 1/4", "alpha = 1", "alpha = 4"), bounds, {})
    rows = []
    for k in (2, 10, 20):
        t = math.sqrt(2 * math.log(2 * k) / k)
        for claimed in (1.0, 4.0):
            loss = FreshLaplace(dim_out=k, radius=1.0, laplace_scale=k * t / claimed)
            rows.append([k, claimed, loss.delta(claimed), least_epsilon(loss, DELTA)])
    yield Table(
        "as an (epsilon, delta) claim", ("k", "claimed epsilon", "delta there", "epsilon at delta = 1e-6"), rows
    )
    yield (
        "At alpha = 1 the theorem promises privacy with probability at least 0. Read as an (epsilon, 1e-6) claim for "
        "whoever knows P it is false for k = 2; for larger k its noise is more than enough. `sfumato audit` refutes "
        "the first from samples."
    )


THEOREM_5 = Erratum(
    "dhaliwal-theorem5",
    "Dhaliwal, Theorem 5: a guarantee that holds with probability 0 or more",
    "Theorem 5",
    "for rows that differ by |x - x'|_2^2 <= alpha, any t >= sqrt(2 ln(2k)/k) alpha gives epsilon-privacy with "
    "probability at least 1 - 2k exp(-k t^2/(2 alpha)).",
    "at the least such t and alpha = 1 that probability is exactly 0; for alpha < 1 it is negative. The condition "
    "mixes alpha with its root. What was wanted is a delta: with P drawn for one release the loss is the k-fold "
    "composition of one coordinate, exactly (mathematics.md, section 4).",
    "k t^2/(2 alpha) = alpha ln(2k), so the bound is 1 - (2k)^(1 - alpha).",
    theorem_5,
)


def claim_7(setting: Setting) -> Iterator[Part]:
    """Printed, true and simulated variances."""
    rows, squared = [], 16.0
    for k, scale in ((2, 0.2), (2, 1.0), (20, 0.2), (20, 1.0)):
        rng, count = setting.rng(f"{k} {scale}"), 100_000
        seen = Measured.of(pieces(("gaussian", 16, k), "laplace", count, rng).errors(squared, scale) ** 2)
        true = SketchLaw(NoiseLaw("laplace", scale), Geometry("gaussian", 16, k)).distance_variance(squared)
        printed = published_variance(squared, scale**2, k)
        rows.append([k, scale, printed, true, seen, printed / true, 2 * k * (7 * scale**4 - scale**2)])
    header = ("k", "sigma", "printed", "true", "simulated", "printed / true", "printed part of the noise alone")
    yield Table("variance", header, rows)
    yield "The printed part of the noise is negative for sigma^2 < 1/7, which no variance can be."


CLAIM_7 = Erratum(
    "dhaliwal-claim7",
    "Dhaliwal, Claim 7: the variance of a recovered distance",
    "Claim 7",
    "2r^4/k + 2k(7 sigma^4 - sigma^2) + 4 sigma^2 r^2, for squared distance r^2 and noise of variance sigma^2.",
    "2r^4/k + 14 k sigma^4 + 8 sigma^2 r^2 (`SketchLaw.distance_variance`).",
    "subtracting the constant 2k sigma^2 does not change a variance. With v = x - y and e the difference of two "
    "noises, |vP + e|^2 = |vP|^2 + 2<vP, e> + |e|^2; the middle has variance 4 r^2 * 2 sigma^2, and an entry of e "
    "has fourth moment 2 * 6 sigma^4 + 6 sigma^4 = 18 sigma^4, so |e|^2 has variance k(18 - 4) sigma^4.",
    claim_7,
)


def table_1(setting: Setting) -> Iterator[Part]:
    """Accuracy after projection alone, of the mechanism as published, and with the identity."""
    rows, repeats = [], setting.often(150, 100)
    for d, k, published in TABLE_1:
        rng, found = setting.rng(f"blobs {d}"), np.empty((repeats, 3))
        for i in range(repeats):
            drawn = Blobs.drawn(d, rng, 400)
            image = drawn.rows @ projection(d, k, rng)
            found[i, :2] = [drawn.accuracy(each) for each in (image, noisy(image, element_wise(k), rng))]
            found[i, 2] = drawn.accuracy(noisy(drawn.rows, 1 / EPSILON, rng)) if i < 10 else math.nan
        reached = [Measured.share(int((found[:, j] >= published).sum()), repeats) for j in (0, 1)]
        means = Measured.of(found[:, 0]), Measured.of(found[:, 1]), Measured.of(found[:10, 2])
        rows.append([f"d = {d}, k = {k}", published, *means[:2], *reached, means[2]])
    draws = ("projection alone reaches it", "mechanism reaches it")
    header = ("Table 1", "published", "projection, no noise", "mechanism", *draws, "identity, Laplace(1/4)")
    yield Table("accuracy", header, rows, dict.fromkeys(header[1:], ".3f"))
    yield (
        "In the first two columns the published accuracy is above the mean of what projection without noise leaves, "
        "and few draws of the whole mechanism reach it: those are lucky draws. Without a projection, pure epsilon = "
        "4 under the same neighbours costs hardly anything."
    )


TABLE_ONE = Erratum(
    "dhaliwal-table1",
    "Dhaliwal, Table 1: lucky draws of P",
    "Table 1",
    "k-means on private data is right for .94, .91, .70, .69 of the points.",
    "one draw of P stands for each column. Over draws, projection *alone* averages about .84, .76, .70, .70, so the "
    "first two are lucky. Under the paper's neighbours (|X - X'|_1 <= 1) noise of scale 1/epsilon on the data "
    "themselves is epsilon-private, and leaves .97 in every column.",
    "the distance of the centres after projection is 4 sqrt(chi^2_k/k), which for k = 2 or 3 is anything from 1 to "
    "8; the spread within clusters changes with it. The identity has l1 sensitivity 1, whatever d is.",
    table_1,
)


def reconstruction(setting: Setting) -> Iterator[Part]:
    """Three attacks on projections without noise, and one on the paper's own noise."""
    rng, found = setting.rng("reconstruction"), np.empty((10, 5))
    for row in found:
        sources = rng.laplace(size=(1000, 8))
        turned = sources @ rotation(8, rng)
        row[0] = matched(known_pairs(sources[:10], turned[:10], turned[10:]), sources[10:]).mean
        row[1] = matched(independent_components(turned), sources).mean
        bits, matrix = rng.random((100, 12)) < 0.5, rng.standard_normal((12, 3)) / math.sqrt(3)
        row[2] = _right_bits(bits, matrix, 0.0, rng)
        row[3:] = [_right_bits(bits, matrix, 2 * math.sqrt(3) / epsilon, rng) for epsilon in (4.0, 40.0)]
    exact, *seen = found.T
    attacks: list[list[Cell]] = [
        ["known pairs: 10 of 1,000 rows, 8 columns turned to 8", "mean correlation", round(float(exact.min()), 9), 0.0],
        ["independent components, the same", "mean correlation", Measured.of(seen[0]), 0.0],
        ["likeliest bits, 12 columns to 3, no noise", "right bits", float(seen[1].min()), 0.5],
        ["likeliest bits, noise of Theorem 3 at epsilon 4", "right bits", Measured.of(seen[2]), 0.5],
        ["likeliest bits, noise of Theorem 3 at epsilon 40", "right bits", Measured.of(seen[3]), 0.5],
    ]
    yield Table("attacks", ("attack", "score", "found", "by guessing"), attacks)
    yield (
        "The least of ten runs where there is no error, else their mean. Projection protects nothing by itself: "
        "three numbers give back twelve bits. With noise it is the noise that protects, by how much epsilon says; "
        "nothing becomes impossible."
    )


def _right_bits(bits: NDArray[np.bool_], matrix: Floats, b: float, rng: np.random.Generator) -> float:
    """The share of bits that are guessed right after noise of Laplace scale b, or none."""
    law = NoiseLaw("laplace", math.sqrt(2) * b) if b else None
    released = bits @ matrix + b * rng.laplace(size=(len(bits), matrix.shape[1]))
    return float(np.mean(most_likely_bits(released, matrix, law, np.full(len(matrix), 0.5)) == bits))


RECONSTRUCTION = Erratum(
    "dhaliwal-reconstruction",
    "Dhaliwal, abstract: reconstruction is impossible",
    "abstract and section 1, after Liu, Kargupta and Ryan 2006",
    "the mechanism makes reconstruction of the original data impossible, by the dimensions that a projection loses.",
    "projections have been inverted by known samples, by independent components and by priors on the data (Giannella "
    "et al.; Sang, Shen and Tian; Guo and Wu). What protects is the noise, and differential privacy bounds what an "
    "attacker gains; it never makes a guess impossible.",
    "fewer equations than unknowns leave one answer if the unknowns are known to be few: 12 bits have 4,096 values, "
    "and their images under a random P differ almost surely.",
    reconstruction,
)

# ---- Kenthapadi -----------------------------------------------------------------------------------------------------


def theorem_1_scale(epsilon: float, delta: float, denominator: float) -> float:
    """The noise of Theorem 1 with either denominator."""
    return math.sqrt(2 * (math.log(1 / (2 * delta)) + epsilon)) / denominator


def theorem_1(_: Setting) -> Iterator[Part]:
    """Noise and true delta with 2 delta and with epsilon below the line."""
    rows = []
    for epsilon, delta in ((1.0, 1e-6), (0.1, 1e-4), (0.1, 0.3), (0.01, 0.45)):
        printed, meant = (theorem_1_scale(epsilon, delta, below) for below in (2 * delta, epsilon))
        exact = least_level(lambda level: Gaussian(1.0, level), epsilon, delta)
        true = profiles.gaussian(epsilon, sensitivity=1.0, scale=printed)
        rows.append([epsilon, delta, printed, meant, exact, true])
    header = ("epsilon", "delta", "sigma, 2 delta below", "sigma, epsilon below", "exact", "true delta as printed")
    yield Table("noise", header, rows, {"epsilon": "g", "delta": "g"})
    yield (
        "As printed the noise is absurd for small delta and too little for large delta: in the last line the true "
        "delta exceeds what is claimed. With epsilon the theorem is right, with more noise than is needed."
    )


THEOREM_1 = Erratum(
    "kenthapadi-theorem1",
    "Kenthapadi, Theorem 1: a wrong denominator",
    "Theorem 1, in the copy we read",
    "sigma >= w_2(P) sqrt(2 (ln(1/(2 delta)) + epsilon)) / (2 delta).",
    "the denominator is epsilon, as in Lemma 1 of the same paper.",
    "Lemma 1 is what the proof of Theorem 1 uses. A misprint of this copy; but whoever copies the formula from it "
    "gets noise that does not protect where delta is large.",
    theorem_1,
)


def lemma_2(_: Setting) -> Iterator[Part]:
    """What a fresh projection costs exactly."""
    rows, published = [], 4 * math.sqrt(math.log(1 / DELTA))
    for k in (2, 16, 41, 64):
        exact = least_level(
            lambda level, k=k: FreshGaussian(family="gaussian", dim_in=300, dim_out=k, radius=1.0, scale=level),
            1.0,
            DELTA,
        )
        allowed = k > 2 * (math.log(300) + math.log(2 / DELTA))
        rows.append([k, published if allowed else "k too small", exact, published / exact if allowed else None])
    yield Table("sigma", ("k, d = 300", "Lemma 2", "exact", "ratio"), rows)
    other = least_level(
        lambda level: FreshGaussian(family="gaussian", dim_in=10**6, dim_out=64, radius=1.0, scale=level), 1.0, DELTA
    )
    yield f"At d = 1,000,000 and k = 64 the exact value is {other:.4g}: it does not depend on d."


LEMMA_2 = Erratum(
    "kenthapadi-lemma2",
    "Kenthapadi, Lemma 2: a union bound that is not needed",
    "Lemma 2",
    "with k > 2 (ln d + ln(2/delta)) columns and sigma >= 4 sqrt(ln(1/delta))/epsilon Algorithm 1 is private: 14.87 "
    "at epsilon = 1, delta = 1e-6.",
    "true, and 2.9 to 3.3 times the noise that is needed; any k will do, and d does not matter.",
    "P has the same law for both neighbours and is published, so the profile is the average over P of the profile "
    "given P; only |vP| matters, and |vP|^2/|v|^2 ~ chi^2_k/k for every v. No bound on the largest of d rows is "
    "needed.",
    lemma_2,
)


def hamming(setting: Setting) -> Iterator[Part]:
    """Three distances of pairs of bits."""
    rng, rows = setting.rng("bits"), []
    for differing in (1, 4, 25, 100):
        x = (rng.random(1000) < 0.1).astype(float)
        y = x.copy()
        places = rng.choice(1000, differing, replace=False)
        y[places] = 1 - y[places]
        rows.append([differing, float(np.linalg.norm(x - y)), float(np.sum((x - y) ** 2))])
    yield Table("distances", ("Hamming distance", "length of x - y", "its square"), rows)


HAMMING = Erratum(
    "kenthapadi-hamming",
    "Kenthapadi, section 4.2: distance and Hamming distance",
    "section 4.2",
    "the distance |x - y|_2 of binary vectors equals their Hamming distance.",
    "|x - y|_2^2 does. The comparison that follows is of squared distances, so its conclusions stand.",
    "each of the h places in which x and y differ adds 1 to the sum of squares.",
    hamming,
)


ENTRIES = (THEOREM_3, THEOREM_5, CLAIM_7, TABLE_ONE, RECONSTRUCTION, THEOREM_1, LEMMA_2, HAMMING)
