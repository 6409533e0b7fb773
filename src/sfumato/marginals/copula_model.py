"""A Gaussian copula over the bins of a table's variables: their distributions, and one correlation for each pair.

A row is a vector of normal numbers with these correlations. Each number tells, by its rank, which bin of its variable
the row is in, so every variable has the distribution that it is given, and bins that lie side by side are alike.

Guarantee: post-processing of noisy counts and a noisy second moment; nothing here costs privacy.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from sfumato.marginals.junction_tree import Clique
from sfumato.marginals.partition import Codes
from sfumato.marginals.questions import TableQuestion
from sfumato.marginals.table_model import TOGETHER, RowModel
from sfumato.numerics.types import Floats
from sfumato.queries.predicates import Predicate

CLIP = 2.5  # normal scores reach no further
_EDGE = 1e-9  # ranks are so far from 0 and 1 at least
_LEAST_SPREAD = 0.3  # of scores: those of a smaller deviation are not brought to deviation 1
_TERMS = 24  # of a Hermite series
_HALVINGS = 24  # of an interval that holds a correlation
_LARGEST = 0.98  # correlation, in size
_FLOOR = 0.02  # of a correlation matrix's eigenvalues
_NUMBERS = 1 << 24  # normal numbers that are drawn together: 128 MiB
_FEWEST = 1 << 12  # rows that are drawn together: ranks among fewer would blur the correlations


@dataclass(frozen=True, slots=True, eq=False)
class CopulaModel(RowModel):
    """A distribution over the rows of a table: of bins, by ranks of correlated normal numbers; within one, by shares.

    masses      : the distribution of each variable over its bins, in their order.
    correlation : of the normal numbers; symmetric and positive definite, with a diagonal of ones.
    """

    masses: tuple[Floats, ...]
    correlation: Floats

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """Every variable of the copula by itself."""
        return tuple((place,) for place in range(len(self.masses)))

    @property
    def parameters(self) -> list[Floats]:
        """The distributions of all variables of the copula, and the correlations."""
        return [*self.masses, self.correlation]

    @property
    def together(self) -> int:
        """How many rows of the copula are drawn together."""
        return max(_FEWEST, min(TOGETHER, _NUMBERS // len(self.masses)))

    def codes(self, rows: int, rng: np.random.Generator) -> Codes:
        """The bins of so many rows of the copula, (variables, rows); their counts are as even as can be."""
        return self._codes_of(range(len(self.masses)), rows, rng)

    def probability(self, predicate: Predicate) -> float:
        """The probability that a question holds for a row of the copula.

        Computed for questions about one variable. Others are estimated from about a million rows of the model, with a
        standard deviation below 0.0005; an ``InexactWarning`` says so. No error bars: how far a model is off is not
        known.
        """
        question = TableQuestion.of(self.partition, predicate)
        if len(question.asked) > 1:
            return self._estimated(question, "a copula has no exact probability for a question about several columns")
        found = np.ones(())
        for asked in question.asked:
            found = self.masses[asked.variable] @ asked.weights(self.bins[asked.variable])
        return min(max(float(found[question.table()].sum()), 0.0), 1.0)

    def _asked_codes(self, question: TableQuestion, rows: int, rng: np.random.Generator) -> dict[int, Codes]:
        return dict(zip(question.variables, self._codes_of(question.variables, rows, rng), strict=True))

    def _codes_of(self, variables: Sequence[int], rows: int, rng: np.random.Generator) -> Codes:
        """The bins of some variables of the copula; among few rows, those of the first of more."""
        drawn = max(rows, _FEWEST)
        root = np.linalg.cholesky(self.correlation[np.ix_(variables, variables)])
        normals = root @ rng.standard_normal((len(variables), drawn))
        codes = np.empty(normals.shape, np.int32)
        for place, variable in enumerate(variables):
            points = (np.arange(drawn) + rng.random()) / drawn
            codes[place, np.argsort(normals[place])] = _bin_at(self.masses[variable], points)
        return codes[:, :rows]


def _bin_at(masses: Floats, points: Floats) -> Codes:
    """The bin at each point from 0 to below 1 of a cumulative distribution; one of mass 0 is never met."""
    ends = np.cumsum(masses)
    last = int(np.flatnonzero(masses)[-1])
    return np.minimum(np.searchsorted(ends / ends[-1], points, side="right"), last).astype(np.int32)


def normal_scores(masses: Floats) -> Floats:
    """Scores of a variable's bins: normal numbers at their middle ranks, of mean 0 and deviation 1 unless clipped."""
    ranks = np.cumsum(masses) - masses / 2
    scores = np.array([NormalDist().inv_cdf(rank) for rank in np.clip(ranks, _EDGE, 1 - _EDGE)])
    scores -= masses @ scores
    scores /= max(math.sqrt(masses @ scores**2), _LEAST_SPREAD)
    return np.asarray(np.clip(scores, -CLIP, CLIP))


def correlations(moment: Floats, deviation: float, scores: Sequence[Floats], masses: Sequence[Floats]) -> Floats:
    """The correlations of normal numbers behind bins, from a noisy second moment of the bins' scores.

    moment    : the mean of products of scores, with noise of a ``deviation`` on entries off its diagonal.
    scores    : of each variable's bins, not decreasing.
    masses    : the distribution of each variable over its bins.

    Of normal numbers with correlation r, scores f and g have the mean product sum_k f_k g_k r^k, where f_k and g_k are
    their coefficients in Hermite polynomials. It grows with r, so r is found by halving an interval. The rows behind
    the moment may be shortened; the diagonal says by how much.
    """
    series = np.array([_hermite(own, mass) for own, mass in zip(scores, masses, strict=True)])
    length = np.sqrt([mass @ own**2 for own, mass in zip(scores, masses, strict=True)])
    seen = np.sqrt(np.maximum(np.diag(moment), _LEAST_SPREAD**2 / 4))
    ratio = length / seen
    apart = np.outer(series[:, 0], series[:, 0])
    wanted = moment * np.outer(ratio, ratio) - apart
    noise = deviation * np.outer(ratio, ratio)
    kept = 1 - np.divide(noise, wanted, out=np.ones_like(wanted), where=np.abs(wanted) > noise) ** 2
    found = _solved(series[:, 1:], wanted * kept)
    np.fill_diagonal(found, 1.0)
    return _positive(found)


def _hermite(scores: Floats, masses: Floats) -> Floats:
    """Coefficients of a step function of a normal number in orthonormal Hermite polynomials.

    The integral of h_k over an interval, by the normal density p, is the fall of h_(k-1) p over it, over sqrt(k).
    """
    ends = np.clip(np.cumsum(masses)[:-1] / masses.sum(), _EDGE, 1 - _EDGE)
    cuts = np.array([NormalDist().inv_cdf(end) for end in ends])
    density = np.exp(-(cuts**2) / 2) / math.sqrt(2 * math.pi)
    before, last = np.zeros_like(cuts), np.ones_like(cuts)
    found = [float(masses @ scores)]
    for k in range(1, _TERMS + 1):
        found.append(float(np.diff(scores) @ (last * density)) / math.sqrt(k))
        before, last = last, (cuts * last - math.sqrt(k - 1) * before) / math.sqrt(k)
    return np.array(found)


def _solved(series: Floats, wanted: Floats) -> Floats:
    """For each pair of variables the correlation at which their Hermite series has the value that is wanted."""
    low, high = np.full(wanted.shape, -_LARGEST), np.full(wanted.shape, _LARGEST)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        value = np.zeros_like(middle)
        for own in series.T[::-1]:
            value = (value + np.outer(own, own)) * middle
        low, high = np.where(value < wanted, middle, low), np.where(value < wanted, high, middle)
    steep = np.outer(series[:, 0], series[:, 0]) > _EDGE
    return np.where(steep & (wanted != 0), (low + high) / 2, 0.0)


def _positive(matrix: Floats) -> Floats:
    """A correlation matrix near a symmetric one: eigenvalues at least a floor, then a diagonal of ones."""
    values, vectors = np.linalg.eigh(matrix)
    whole = (vectors * np.maximum(values, _FLOOR)) @ vectors.T
    root = np.sqrt(np.diag(whole))
    found = whole / root / root[:, None]
    found = (found + found.T) / 2
    np.fill_diagonal(found, 1.0)
    return np.asarray(found)
