"""Errata of Blocki et al. as the survey of Prakash and Gujar and the slides tell it, and of these two themselves."""

import math
from collections.abc import Iterator

import numpy as np
from scipy import stats

import graphs
import published_constants
from erratum import Erratum
from page import Cell, Measured, Part, Setting, Table
from sfumato.estimation import cuts
from sfumato.mechanisms.graph_sketch import GraphSketch
from sfumato.pipeline.release import release
from sfumato.planning import cut_options
from sfumato.planning.regions import region
from sfumato.privacy import profiles
from sfumato.privacy.calibration import least_epsilon, least_level
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import ChiSquare, Gaussian, Responses

DELTA = 1e-6


def _edges(epsilon: float) -> Guarantee:
    return Guarantee(epsilon=epsilon, delta=DELTA, unit="edge")


# ---- Blocki ---------------------------------------------------------------------------------------------------------


def ridge(_: Setting) -> Iterator[Part]:
    """What the published weight really costs."""
    rows = []
    for count in (119, 473, 4239):
        for epsilon in (0.1, 1.0, 4.0):
            theirs = published_constants.graph_ridge(count, epsilon, DELTA)
            ours = cut_options.sketch_ridge(10**12, count, _edges(epsilon))
            spent = least_epsilon(ChiSquare(rows=count, ratio=2 / theirs), DELTA)
            rows.append([count, epsilon, theirs, ours, spent])
    header = ("rows", "claimed epsilon", "published w", "exact w", "epsilon that the published w costs")
    yield Table("ridge", header, rows, {"claimed epsilon": "g"})


RIDGE = Erratum(
    "blocki-ridge",
    "Blocki et al.: a ridge of 55 to 96 times what is needed",
    "survey, Algorithm 1; slides, appendix D",
    "w = sqrt(32 r ln(2/delta)) ln(4r/delta)/epsilon makes the sketch (epsilon, delta)-private.",
    "true, but the same w has a far smaller epsilon, so that graphs and data must be larger than need be.",
    "each row is bounded apart and r of them are composed by the advanced theorem. All rows together are r samples "
    "of N(0, 1+s) against N(0, 1), s = 2/w for many vertices, whose likelihood ratio is a function of a chi-square "
    "sum: the profile is closed (`loss.ChiSquare`).",
    ridge,
)


def half(setting: Setting) -> Iterator[Part]:
    """Cuts from the printed estimate and from the mean over rows."""
    case, count = graphs.generated(vertices=200, blocks=2), 119
    side = (np.arange(200) < 100).astype(float)
    truth, weight = float(case.cuts(side[None])[0]), cut_options.sketch_ridge(200, count, _edges(4.0))
    mixed = float(cuts.mixed(truth, 100 * 100, vertices=200, weight=weight))
    secrets, printed = setting.secrets("half"), []
    promise = _edges(4.0)
    for _ in range(50):
        recipe = GraphSketch(rows=count, vertices=200)
        made = release(case.edges, schema=None, mechanism=recipe, guarantee=promise, secret=next(secrets))
        image = side @ np.asarray(made.array())
        printed.append(float(image @ image) / 2 / mixed)
    seen = Measured.of(printed)
    mean = Measured(seen.value * 2 / count, seen.error * 2 / count, 50)
    rows: list[list[Cell]] = [["1/2 (printed)", seen, count / 2], ["1/r", mean, 1.0]]
    yield Table("estimate over truth", ("factor", "measured", "expected"), rows)
    yield f"A balanced cut of a block model of 200 vertices, ridge included, {count} rows, 50 releases."


HALF = Erratum(
    "survey-half",
    "Survey, Algorithm 1: the sketch is not divided by its rows",
    "survey, Algorithm 1, line 4",
    "L = (1/2) E'M'ME is the published Laplacian.",
    "(1/r) E'M'ME, as in its own Algorithm 3 and in the slides: the printed one is r/2 times too large.",
    "E[M'M] = r I for an r-rowed M of standard normal entries. Nor is the result the covariance or the Laplacian: "
    "the ridge must be taken off, w^2 I or (w/n) times that of the complete graph.",
    half,
)


def shift(_: Setting) -> Iterator[Part]:
    """Eigenvalues of a smoothed Laplacian."""
    case = graphs.generated(vertices=60, blocks=2)
    n, rows = 60, []
    adjacency = np.zeros((n, n))
    adjacency[case.graph.first, case.graph.second] = case.graph.weights
    adjacency += adjacency.T
    laplacian = np.diag(adjacency.sum(axis=0)) - adjacency
    complete = n * np.eye(n) - 1
    for w in (6.0, 30.0):
        smooth = np.linalg.eigvalsh(w / n * complete + (1 - w / n) * laplacian)
        plain = np.linalg.eigvalsh((1 - w / n) * laplacian)
        rows.append([w, w / n, float((smooth - plain)[1:].min()), float((smooth - plain)[1:].max()), float(smooth[0])])
    header = ("w", "w/n", "least shift", "largest shift", "eigenvalue of (1, ..., 1)")
    yield Table("shift", header, rows, {"eigenvalue of (1, ..., 1)": ".1f"})


SHIFT = Erratum(
    "slides-shift",
    "Slides, appendix E: what smoothing does to eigenvalues",
    "slides, appendix E",
    "L_H = (w/n) K + (1 - w/n) L_G shifts all eigenvalues by w/n.",
    "by w, all but that of (1, ..., 1), which stays 0; after L_G was scaled by 1 - w/n. Appendix D, which needs "
    "eigenvalues of at least w, has it right.",
    "the Laplacian of the complete graph has eigenvalue n on everything orthogonal to (1, ..., 1), so (w/n) K has w.",
    shift,
)


def additive(_: Setting) -> Iterator[Part]:
    """The additive error, with and without w."""
    rows, n = [], 100_000
    for eta, nu in ((0.5, 0.05), (0.25, 0.05), (0.1, 0.01)):
        count = math.ceil(8 * math.log(2 / nu) / eta**2)
        w = published_constants.graph_ridge(count, 1.0, DELTA)
        printed = math.sqrt(math.log(1 / DELTA) * math.log(1 / nu))
        exact = cut_options.sketch_ridge(n, count, _edges(1.0))
        rows.append([eta, nu, eta, printed, eta * w * (n - 1) / (n - w), eta * exact * (n - 1) / (n - exact)])
    header = ("eta", "nu", "s eta", "s sqrt(ln 1/delta ln 1/nu)/epsilon", "true, published w", "true, exact w")
    yield Table("additive error, s = 1", header, rows)
    yield "A vertex without edges among 100,000, epsilon = 1: what its degree may be off by, at probability 1 - nu."


ADDITIVE = Erratum(
    "slides-additive",
    "Slides, appendix E: the additive error of a cut",
    "slides, appendix E (Theorem 3.2 of Blocki et al., with its logarithms dropped)",
    "the error is eta times the cut and O(s eta) = O(s sqrt(ln(1/delta) ln(1/nu))/epsilon).",
    "O(s eta w): w, which is thousands, is missing in the first form, and 16 ln(4r/delta) in the second.",
    "the error is eta q_H/(1 - w/n) with q_H = (w/n) s(n-s) + (1 - w/n) cut, so at cut 0 it is about eta w s; and "
    "eta w = sqrt(8 ln(2/nu)/r) sqrt(32 r ln(2/delta)) ln(4r/delta)/epsilon. The last logarithm is 20 at r = 119.",
    additive,
)


def multiplicative(_: Setting) -> Iterator[Part]:
    """The standard deviation of a cut of a sketch against its weight."""
    n, rows, w = 100_000, [], cut_options.sketch_ridge(100_000, 119, _edges(1.0))
    for cut in (0.0, 1e5, 1e6, 1e7):
        sketch = math.sqrt(float(cuts.sketch_variance(cut, n * n / 4, vertices=n, weight=w, rows=119)))
        pairs = math.sqrt(float(cuts.pair_variance(n * n / 4, cuts.response_noise(1.0))))
        rows.append([cut, sketch, pairs])
    header = ("weight of the cut", "standard deviation, sketch", "randomized response")
    yield Table("balanced cuts", header, rows, {"weight of the cut": ",.0f"})
    yield "Balanced cuts of 100,000 vertices, epsilon = 1, delta = 1e-6, 119 rows."


MULTIPLICATIVE = Erratum(
    "survey-additive",
    "Survey: the error is additive and independent of the data",
    "survey, section V (table) and VIII-A",
    "the error introduced is data independent (additive Gaussian noise).",
    "nothing is added, and the error grows in proportion to what is asked: it is multiplicative, with a floor from "
    "the ridge.",
    "the answer is q_H chi^2_r/r less the ridge, of standard deviation sqrt(2/r) q_H/(1 - w/n).",
    multiplicative,
)


def pointwise(_: Setting) -> Iterator[Part]:
    """How often one row's density ratio exceeds what is said to bound it."""
    rows = []
    for epsilon in (0.1, 1.0):
        each, tail = epsilon / math.sqrt(4 * 119 * math.log(2 / DELTA)), DELTA / (2 * 119)
        s = 2 / published_constants.graph_ridge(119, epsilon, DELTA)
        edge = 2 * (1 + s) / s * (math.log(math.exp(each) + tail) + math.log1p(s) / 2)
        exceeded = float(stats.chi2.sf(edge / (1 + s), 1))
        rows.append([epsilon, each, tail, exceeded, ChiSquare(rows=1, ratio=s).delta(each)])
    header = ("epsilon", "epsilon_0", "delta_0", "Pr[ratio above the bound]", "exact delta at epsilon_0")
    yield Table("density ratio of one row", header, rows)


POINTWISE = Erratum(
    "slides-ratio",
    "Slides, appendix D: a bound on densities",
    "slides, appendix D",
    "the ratio of the densities of one row under two neighbours is at most e^epsilon_0 + delta_0.",
    "it has no upper bound. What holds is about events: Pr[S] <= e^epsilon_0 Pr'[S] + delta_0.",
    "for N(0, 1+s) against N(0, 1) the ratio is exp(x^2 s/(2(1+s)))/sqrt(1+s), which grows without end; it exceeds "
    "e^epsilon_0 rarely, and delta_0 pays for that.",
    pointwise,
)

# ---- the survey's basics --------------------------------------------------------------------------------------------


def loss_tail(_: Setting) -> Iterator[Part]:
    """How often the loss of exact Gaussian noise exceeds epsilon."""
    rows = []
    for epsilon, delta in ((1.0, 1e-6), (0.1, 1e-6), (4.0, 1e-6), (1.0, 1e-3)):
        scale = least_level(lambda level: Gaussian(1.0, level), epsilon, delta)
        beyond = float(stats.norm.cdf(1 / (2 * scale) - epsilon * scale))
        rows.append(
            [epsilon, delta, scale, profiles.gaussian(epsilon, sensitivity=1.0, scale=scale), beyond, beyond / delta]
        )
    header = ("epsilon", "delta", "sigma", "delta at epsilon", "Pr[loss > epsilon]", "over delta")
    yield Table("Gaussian noise", header, rows, {"epsilon": "g", "delta": "g"})


LOSS_TAIL = Erratum(
    "survey-loss",
    "Survey: what delta is",
    'survey, II-C (and the slides: "probability of privacy guarantee failure")',
    "(epsilon, delta)-privacy ensures that the absolute value of the privacy loss is at most epsilon with "
    "probability at least 1 - delta.",
    "the converse holds: such a loss implies (epsilon, delta)-privacy. With the least Gaussian noise that is "
    "(epsilon, delta)-private the loss exceeds epsilon many times as often as delta.",
    "delta(epsilon) = E[(1 - e^(epsilon - L))+] <= Pr[L > epsilon], with equality only if the loss is infinite where "
    "it exceeds epsilon. For Gaussian noise L ~ N(mu^2/2, mu^2), mu = 1/sigma.",
    loss_tail,
)


def row_publishing(_: Setting) -> Iterator[Part]:
    """Publishing a record at random."""
    rows = [[n, 1 / n, 1.0, 0.0] for n in (100, 10_000, 1_000_000)]
    header = ("records", "delta of publishing one at random", "records that leak for certain", "epsilon")
    yield Table("a mechanism with delta = 1/n", header, rows, {"delta of publishing one at random": "g"})
    yield "One record, drawn at random, published whole: (0, 1/n)-private when one record is replaced, by this count."


ONE_OVER_N = Erratum(
    "survey-delta",
    "Survey: how large delta may be",
    "survey, II-C",
    "we are interested in values of delta in the order of 1/|x|_1.",
    "in values far below it. Dwork and Roth, from whom the section is taken, say that values in the order of 1/|x|_1 "
    "are very dangerous.",
    "to publish one record, drawn at random, is (0, 1/n)-private: on two neighbours the output differs only if the "
    "replaced record is drawn. It always leaks somebody.",
    row_publishing,
)


def compositions(_: Setting) -> Iterator[Part]:
    """Basic, advanced as printed, and exact."""
    rows = []
    for epsilon, folds in ((0.1, 10), (0.1, 100), (0.1, 1000), (1.0, 10)):
        printed = math.sqrt(2 * folds * math.log(1 / DELTA)) * epsilon + folds * epsilon * math.expm1(epsilon)
        exact = least_epsilon(Responses(epsilon, [2] * folds), DELTA)
        rows.append([epsilon, folds, folds * epsilon, printed, exact])
    header = ("epsilon", "folds", "basic", "advanced, as printed", "exact")
    yield Table("composed epsilon at delta = 1e-6", header, rows, {"epsilon": "g", "folds": ",d"})


COMPOSITION = Erratum(
    "survey-composition",
    "Survey: the optimal composition theorem",
    'survey, II-I, "Optimal bound on Composition of Queries"',
    "epsilon' = sqrt(2k ln(1/delta')) epsilon + k epsilon (e^epsilon - 1).",
    "a valid bound, and not the optimal one: for few releases it is worse than adding up, and it is always above "
    "what pure releases compose to exactly (Kairouz, Oh and Viswanath 2015).",
    "k randomized responses of epsilon are the worst case, and their losses add up to a binomial law.",
    compositions,
)


def responses(_: Setting) -> Iterator[Part]:
    """Relative errors of randomized response and of the best sketch against distance."""
    rows, promise = [], Guarantee(epsilon=1.0, delta=1e-4, unit="attribute")
    for squared in (1, 4, 25, 100, 400, 1000):
        here = region(math.sqrt(squared), columns=1000, rows=10_000, guarantee=promise)
        rows.append([squared, here.error("responses") / squared, here.error("sketch") / squared])
    header = ("squared distance, of 1,000", "randomized response", "best sketch")
    yield Table("relative standard error", header, rows)
    yield "1,000 flags of 10,000 users, one flag protected, epsilon = 1, delta = 1e-4."


RESPONSES = Erratum(
    "slides-responses",
    "Slides: where randomized response is good",
    'slides, "Comparisons - Direct Noise Addition and Randomized Response"',
    "randomized response is good for very large or very small differences, and ineffective in between.",
    "its error is the same at all distances, so its relative error is worst for the smallest. Kenthapadi et al. "
    "(4.3.3) say that below sqrt(k) neither method is accurate, not that one is good.",
    "the variance of the estimate is d q(1-q)/(1-2p)^4, q = 2p(1-p): the distance is not in it.",
    responses,
)

ENTRIES = (
    RIDGE,
    HALF,
    MULTIPLICATIVE,
    LOSS_TAIL,
    ONE_OVER_N,
    COMPOSITION,
    SHIFT,
    ADDITIVE,
    POINTWISE,
    RESPONSES,
)
