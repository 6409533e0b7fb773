"""Errata of Chanyaswad, Liu and Mittal 2019 (RON-Gauss)."""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from erratum import Erratum
from page import Cell, Measured, Part, Setting, Table
from published_synthetic import farthest_rows, largest_loss, published_move, second_moment_draws, whole_move
from sfumato.projection.projection import orthonormalise

Floats = NDArray[np.float64]


def moved(x: Floats, y: Floats) -> float:
    """The l1 norm of x x' - y y', the whole matrix."""
    return float(np.abs(np.outer(x, x) - np.outer(y, y)).sum())


def climbed(p: int, rng: np.random.Generator, starts: int = 40) -> float:
    """The largest that a climb finds for unit rows: signs of the matrix, then its outermost eigenvectors, by turns."""
    best = 0.0
    for _ in range(starts):
        x, y = rng.standard_normal((2, p))
        x, y = x / np.linalg.norm(x), y / np.linalg.norm(y)
        for _ in range(40):
            signs = np.sign(np.outer(x, x) - np.outer(y, y))
            vectors = np.linalg.eigh(signs)[1]
            x, y = vectors[:, -1], vectors[:, 0]
        best = max(best, moved(x, y))
    return round(best, 9)


def lemma_4(setting: Setting) -> Iterator[Part]:
    """Published and attained sensitivities, and the loss that follows."""
    rows: list[list[Cell]] = []
    for p in (2, 3, 4, 8, 16):
        attained = climbed(p, setting.rng("climb"))
        rows.append([p, published_move(p), attained, whole_move(p), attained / (2 * math.sqrt(p))])
    header = ("p", "published, times n", "attained", "proved bound", "loss over claimed epsilon")
    yield Table("sensitivity", header, rows)
    losses = [
        [p, epsilon, *(largest_loss(*second_moment_draws(p, epsilon, published)) for published in (True, False))]
        for p in (4, 16)
        for epsilon in (1.0, 4.0)
    ]
    header = ("p", "claimed epsilon", "largest loss, published constant", "with ours, same rows")
    yield Table("largest loss", header, losses)
    yield (
        "The second table is computed on what the mechanism really adds noise to, with W = I and all of epsilon on "
        "the second moment: the published constant is exceeded from p = 3 on. `sfumato audit` refutes it from "
        "samples."
    )


LEMMA_4 = Erratum(
    "ron-lemma4",
    "RON-Gauss, Lemma 4: the sensitivity of the covariance",
    "Lemma 4, so Theorem 3; Lemma 6 in the appendix repeats it",
    "one record moves the covariance of p columns by at most 2 sqrt(p)/n in the l1 norm, so Laplace noise of scale 2 "
    "sqrt(p)/(n epsilon) is epsilon-private.",
    "sqrt(2) p/n for even p and sqrt(17)/n at p = 3. As published RON-Gauss is not epsilon-private for p > 2; the "
    "largest loss is sqrt(p/2) epsilon.",
    "the proof bounds the sum of the p^2 entries of a matrix by sqrt(p) times its Frobenius norm, which is the "
    "inequality for vectors of p entries. With S = [[J, J], [J, -J]], J all ones, <S, xx' - yy'> = lambda_max(S) - "
    "lambda_min(S) = sqrt(2) p for its outermost eigenvectors x and y; and for any signs S, x'Sx - y'Sy <= sqrt(2) "
    "|S|_F = sqrt(2) p.",
    lemma_4,
)


def published_lemma_5(p: int, a: float) -> float:
    """Times n."""
    return 2 * math.sqrt(p) + 4 * a * math.sqrt(p) + a**2


def augmented(p: int, a: float) -> float:
    """What two records attain in the augmented matrix: the farthest rows, both with label 0 or both with label a."""
    x, y = (v.ravel() for v in farthest_rows(p))
    far = max(np.abs(x - y).sum(), np.abs(x + y).sum())
    return moved(x, y) + 2 * a * float(far)


def lemma_5(_: Setting) -> Iterator[Part]:
    """Published and attained."""
    rows = []
    for p in (4, 8, 16, 32, 64):
        for a in (0.1, 1.0):
            said, found = published_lemma_5(p, a), augmented(p, a)
            rows.append([p, a, said, found, found / said])
    yield Table("sensitivity", ("p", "a", "published, times n", "attained", "ratio"), rows, {"a": "g"})
    yield "Above 1 the published constant is exceeded by a pair of records, so the claim is false there."


LEMMA_5 = Erratum(
    "ron-lemma5",
    "RON-Gauss, Lemma 5: the same with labels",
    "Lemma 5, so Theorem 4",
    "with labels in [-a, a] appended one record moves the augmented covariance by at most (2 sqrt(p) + 4a sqrt(p) + "
    "a^2)/n.",
    "false for many p and a: the part without labels alone moves by sqrt(2) p/n. What holds is in mathematics.md, "
    "section 13.",
    "Lemma 4 is its first summand. Two records with the rows of Lemma 4 and one label a move the rest as well, by 2a "
    "|x - y|_1.",
    lemma_5,
)


def haar(setting: Setting) -> Iterator[Part]:
    """How far the first column leans, and its fourth moments."""
    m, repeats = 30, setting.often(1000, 500)
    rng, found = setting.rng("haar"), {}
    draws = {
        "uniform on [0, 1]": lambda: np.linalg.qr(rng.random((m, m)))[0],
        "uniform on [-1, 1]": lambda: np.linalg.qr(rng.uniform(-1, 1, (m, m)))[0],
        "Gaussian (ours)": lambda: orthonormalise(rng.standard_normal((2, m))).T,
    }
    for name, draw in draws.items():
        first = np.array([draw()[:, 0] for _ in range(repeats)])
        found[name] = Measured.of(first.sum(axis=1) ** 2 / m), Measured.of((first**4).sum(axis=1))
    rows: list[list[Cell]] = [[name, *cells] for name, cells in found.items()]
    rows.append(["Haar, exactly", 1 / m, 3 / (m + 2)])
    header = ("entries", "squared cosine with (1, ..., 1)", "sum of fourth powers")
    yield Table("first column", header, rows)
    yield (
        f"The first of m = {m} columns. With entries in [0, 1] it lies about 30 degrees from (1, ..., 1) as m grows "
        f"(squared cosine 3/4); with entries in [-1, 1] no direction is favoured, but the law is still not uniform."
    )


HAAR = Erratum(
    "ron-haar",
    "RON-Gauss, Algorithm 2: a projection that is not random enough",
    "Algorithm 2",
    "a random orthonormal projection comes from the QR factorisation of a matrix with uniform entries.",
    "that is not the uniform (Haar) law that Meckes' theorem is about. Gaussian entries, with the signs of the "
    "diagonal of R made positive, give it; p columns are enough, where the algorithm makes m^2 numbers.",
    "the first column of Q is the first column of A, normalised; its law is rotation-invariant only if that of A's "
    "column is, as for independent Gaussians and for no other independent entries (Maxwell).",
    haar,
)


def classes(setting: Setting) -> Iterator[Part]:
    """Distances between classes with one W and with one for each."""
    data = load_digits()
    rows = data.data / np.linalg.norm(data.data, axis=1, keepdims=True)
    rng, repeats, table = setting.rng("classes"), setting.often(60, 30), []
    zeros, ones = rows[data.target == 0][:150], rows[data.target == 1][:150]
    true = _squares(zeros, ones)
    for p in (4, 16, 48):
        found = []
        for _ in range(repeats):
            first, second = (orthonormalise(rng.standard_normal((p, 64))).T for _ in range(2))
            same, apart = _squares(zeros @ first, ones @ first), _squares(zeros @ first, ones @ second)
            found.append([np.corrcoef(true, each)[0, 1] for each in (same, apart)])
        table.append([p, *(Measured.of(each) for each in np.array(found).T)])
    header = ("p of 64", "one W for all classes", "one W for each class")
    yield Table("correlation of squared distances", header, table, dict.fromkeys(header[1:], ".3f"))
    yield (
        "Digits 0 and 1, no noise: the correlation of squared distances between the classes with the true ones. With "
        "a W for each class the published rows of two classes are not in the same coordinates. A test row, whose "
        "class is unknown, cannot be brought to either."
    )


def _squares(first: Floats, second: Floats) -> Floats:
    return np.asarray(((first[:, None, :] - second[None, :, :]) ** 2).sum(axis=2).ravel())


CLASSES = Erratum(
    "ron-classes",
    "RON-Gauss, Algorithm 5: a projection for each class",
    "Algorithm 5",
    "each class is pre-processed and projected by itself, and the sampled rows of all classes are the training set.",
    "each class then has coordinates of its own, and so a mean of its own: what a classifier learns from them does "
    "not apply to a row of unknown class. One W and one centre for all classes will do.",
    "Algorithm 2 draws W anew at every call, and Algorithm 5 calls it for each class.",
    classes,
)


def definite(setting: Setting) -> Iterator[Part]:
    """How often the published covariance is none."""
    n, m, rng, rows = 27_936, 300, setting.rng("definite"), []
    for p in (4, 16, 64):
        for epsilon in (0.1, 1.0, 10.0):
            b = 2 * math.sqrt(p) / (n * 0.7 * epsilon)
            least, uneven = [], []
            for _ in range(setting.often(100, 50)):
                z = rng.laplace(0, b, (p, p))
                least.append(float(np.linalg.eigvalsh(np.eye(p) / m + (z + z.T) / 2)[0]) * m)
                uneven.append(float(np.abs(z - z.T).max()) * m)
            negative = Measured.share(sum(value < 0 for value in least), len(least))
            rows.append([p, epsilon, negative, Measured.of(least), Measured.of(uneven)])
    header = ("p", "epsilon", "negative eigenvalue", "least eigenvalue, of 1", "largest difference across the diagonal")
    yield Table("noisy covariances", header, rows, {"epsilon": "g"})
    yield (
        "Rows spread evenly over the unit sphere of 300 columns, as many as in the paper's first data set: the "
        "covariance is I/300, here times 300. It is symmetrised before its eigenvalues are taken, which the "
        "algorithm does not do."
    )


DEFINITE = Erratum(
    "ron-definite",
    "RON-Gauss, Algorithms 1, 3, 4, 5: covariances that are none",
    "steps that add Z to the covariance, and that divide by lengths",
    "samples are drawn from a Gaussian with covariance Sigma + Z, Z of p^2 independent Laplace numbers; every row is "
    "divided by its length.",
    "Sigma + Z is not symmetric, and has negative eigenvalues unless the noise is small: there is no such Gaussian. "
    "It must be made symmetric (noise on one triangle is enough) and repaired. A row of zeros has no direction; it "
    "must stay zero.",
    "the least eigenvalue of a symmetric noise matrix of standard deviation s off the diagonal is about -2s sqrt(p) "
    "(Wigner); here s = b, and Sigma has eigenvalues of about 1/m.",
    definite,
)


def meckes(m: float, log: str) -> float:
    """2 log m / log log m, by either logarithm."""
    f = math.log if log == "natural" else math.log10
    return 2 * f(m) / f(f(m))


def columns(_: Setting) -> Iterator[Part]:
    """The range by both logarithms."""
    rows = [[m, meckes(m, "natural"), math.floor(meckes(m, "natural")), meckes(m, "base 10")] for m in (100, 301, 1000)]
    yield Table("range", ("m", "natural logarithms", "largest p", "base 10"), rows)


COLUMNS = Erratum(
    "ron-columns",
    "RON-Gauss, section 3.4: how many columns are Gaussian",
    "section 3.4",
    "by Meckes' range p < 2 log(m)/log(log(m)), m = 100 allows p up to 13.",
    "p <= 6: the logarithms are natural. (The quotient is not even the same up to a factor in another base.)",
    "log_b(m)/log_b(log_b(m)) = ln(m)/ln(ln(m)/ln(b)), which depends on b.",
    columns,
)

ENTRIES = (LEMMA_4, LEMMA_5, HAAR, CLASSES, DEFINITE, COLUMNS)
