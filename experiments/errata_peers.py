"""Errata of mechanisms that were met on the way: the median mechanism, sparse vectors, samplers of other libraries."""

import math
from collections.abc import Iterator

import numpy as np

import bingham
from erratum import Erratum
from page import Cell, Measured, Part, Setting, Table
from printed_median import classified
from sfumato.answering.median import candidates_of
from sfumato.audit.examine import Effort, examine
from sparse_vectors import sparse_vector

# ---- the median mechanism -------------------------------------------------------------------------------------------


def median_cost(m: int, cells: int, alpha: float, tau: float) -> float:
    """The least epsilon at delta = tau that the printed constants cost: comparisons, then hard answers."""
    hard = math.ceil(20 * m * math.log(cells))
    share = alpha / (720 * m * math.log(cells))
    low, high = 0.0, 10 * alpha
    for _ in range(60):
        middle = (low + high) / 2
        fits = classified(middle, positives=hard, rate=share / 2) <= tau
        low, high = (low, middle) if fits else (middle, high)
    return high + hard * share


def median(_: Setting) -> Iterator[Part]:
    """Cost, candidates, and the width that leaves any."""
    rows: list[list[Cell]] = [
        [m, cells, candidates_of(cells, m), median_cost(m, cells, 1.0, 1e-6)]
        for m, cells in ((10, 4), (60, 4), (60, 16))
    ]
    yield Table("printed constants, alpha = 1", ("m", "cells", "candidates", "epsilon at delta = 1e-6"), rows)
    widths: list[list[Cell]] = []
    for accuracy in (0.5, 0.1):
        for m in (10, 60, math.ceil(25 / accuracy)):
            gap = _worst_gap(m)
            widths.append([accuracy, m, accuracy / 50, gap, "none" if gap > accuracy / 50 else "some"])
    header = ("accuracy", "m", "kept within", "worst distance to a multiple of 1/m", "candidates left at worst")
    yield Table("width", header, widths)


def _worst_gap(m: int) -> float:
    return 1 / (2 * m)


MEDIAN = Erratum(
    "survey-median",
    "Survey, Figure 1: the median mechanism",
    "survey, VIII-C, Figure 1",
    "the mechanism, with r_i, m, gamma and alpha' left out, is (alpha, tau)-private, and keeps the candidates within "
    "epsilon/50 of a hard answer.",
    "with the paper's alpha' = alpha/(720 m ln|X|) it costs about 0.06 alpha, so the claim holds with 16 times the "
    "noise that is needed; but it is never pure, however small alpha is. No candidate may be left unless m >= "
    "25/epsilon. And its candidates are all databases of m rows, which can be listed for tiny domains only.",
    "a question found easy costs a little too, and there is no end to them: the loss is bounded only in probability "
    "(`profile.classified`). Databases of m rows answer multiples of 1/m, which may all be 1/(2m) away from an "
    "answer.",
    median,
)

# ---- sparse vector --------------------------------------------------------------------------------------------------

FORMS = {
    "correct": "ours (Lyu, Su and Li 2017)",
    "roth": "lecture notes of Roth, 2011",
    "lee": "Lee and Clifton 2014",
    "stoddard": "Stoddard, Chen and Machanavajjhala 2014",
    "chen": "Chen, Xiao, Zhang and Xu 2015",
}


def sparse(setting: Setting) -> Iterator[Part]:
    """An audit of each form at epsilon 1."""
    rows: list[list[Cell]] = []
    for form, name in FORMS.items():
        trial, seeds = sparse_vector(form, 1.0), setting.rng(form).integers(2**31, size=3)
        found = [examine(trial, Effort(samples=200_000, seconds=3600.0, seed=int(seed))) for seed in seeds]
        refuted = sum(one.refuted for one in found)
        rows.append([name, 1.0, Measured.of([one.bound.epsilon for one in found]), f"refuted {refuted} of 3 times"])
    yield Table("audit", ("form", "claimed epsilon", "lower bound", "verdict"), rows)
    yield (
        "Lower bounds on epsilon, each at 99.9% confidence, from 200,000 samples a side; mean of three. A bound "
        "below 1 proves nothing; the proof of ours is in mathematics.md, section 17."
    )


SPARSE = Erratum(
    "sparse-vector",
    "Four published sparse vectors that are not private",
    "the four papers of the table; the survey lists the technique without a form",
    "each of them is epsilon-private.",
    "none is (Lyu, Su and Li 2017). Right is: noise on the threshold, noise on every question that grows with the "
    "number of positives, an end after them, and no number told but with noise of its own.",
    "a number that was compared and is then told bounds the noise of the threshold (Roth); c positives cost c times "
    "the noise of one (Lee and Clifton); without noise on questions two neighbours have outputs that the other "
    "cannot have (Stoddard et al.); without an end there is no bound on positives (Chen et al.).",
    sparse,
)

# ---- Bingham --------------------------------------------------------------------------------------------------------


def symmetric_loss(dim: int, strength: float, epsilon: float) -> tuple[float, float]:
    """The largest loss between two matrices that mirror each other: with the right law, and with the libraries'.

    One has a row x at 45 degrees to the first axis, the other its mirror image y; both have ``strength`` along it.
    Their spectra are equal, so b and the normalising constants are, and the loss at u is the difference of logarithms.
    """
    axis, across = np.eye(dim)[:2]
    angles = np.linspace(0, math.pi, 2001)
    u = np.outer(np.cos(angles), axis) + np.outer(np.sin(angles), across)
    right, wrong = [], []
    for sign in (1, -1):
        row = (axis + sign * across) / math.sqrt(2)
        tilted, _, omega = bingham.shape(strength * np.outer(axis, axis) + np.outer(row, row), epsilon)
        right.append(-np.sum((u @ tilted) * u, axis=1))
        wrong.append(right[-1] - dim * np.log(np.sum((u @ omega) * u, axis=1)))
    return tuple(float(np.abs(one - two).max()) for one, two in (right, wrong))  # type: ignore[return-value]


def sampler(setting: Setting) -> Iterator[Part]:
    """Losses, and how often proposals are accepted."""
    rows: list[list[Cell]] = []
    for dim in (2, 5, 16, 49, 100):
        losses = [symmetric_loss(dim, strength, 1.0) for strength in (0, 3, 10, 30, 100, 300, 1000)]
        rows.append([dim, 1.0, max(right for right, _ in losses), max(wrong for _, wrong in losses)])
    yield Table(
        "loss of one draw on a bad pair", ("columns", "claimed epsilon", "right law", "the libraries' law"), rows
    )
    chances: list[list[Cell]] = []
    for dim, strength in ((5, 100.0), (16, 100.0), (16, 1000.0)):
        matrix = np.diag([strength, *[0.0] * (dim - 1)])
        _, *logs = bingham.envelope(matrix, 1.0, 20_000, setting.rng(f"{dim} {strength}"))
        chances.append([dim, strength, *(Measured.of(np.exp(each)) for each in logs)])
    yield Table("share of proposals accepted", ("columns", "first eigenvalue", "right", "the libraries'"), chances)
    yield (
        "The first table is exact: two inputs that differ in one record of length 1, found by a search over "
        "strengths. From 16 columns on one draw exceeds epsilon. OpenDP charges 2 epsilon for a replaced record, "
        "which is exceeded at 100 columns."
    )


BINGHAM = Erratum(
    "bingham",
    "Bingham samplers of other libraries",
    "diffprivlib 0.6.6, `mechanisms.Bingham`; OpenDP 0.16.0, `extras.sklearn._make_eigenvector`",
    "an eigenvector is drawn from the Bingham law, density in proportion to exp(epsilon u'Cu/4), by rejection from "
    "an angular Gaussian; one draw is epsilon-private (Amin et al. 2019).",
    "the chance of acceptance is divided by (u'Wu)^(d/2) where Kent, Ganeiber and Mardia 2018 multiply by it. What "
    "is drawn has density in proportion to exp(-u'Au) (u'Wu)^(-d), to which the proof does not apply: its loss "
    "exceeds epsilon from about 16 columns on, and hardly any proposal is accepted.",
    "the envelope has density in proportion to (u'Wu)^(-d/2), so the target over it is exp(-u'Au) (u'Wu)^(d/2). As W "
    ">= I and M >= 1 the libraries' chance never exceeds 1, so the law above is exactly what they draw.",
    sampler,
)

ENTRIES = (MEDIAN, SPARSE, BINGHAM)
