"""Shares of a budget: they never cost more than was promised, are the best there are, and noise is never shared."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.aggregates.asked import prepare
from sfumato.aggregates.exposure import Exposure
from sfumato.aggregates.sharing import Spending
from sfumato.aggregates.statistics import Counted, LevelCounts, Moments, Totalled
from sfumato.errors import ParameterError
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Composed, Gaussian, Laplace
from sfumato.queries.questions import parse_question
from sfumato.randomness.noise import laplace_scale
from sfumato.randomness.secret import Secret, Words
from sfumato.tables.columns import Category, Flag, Integer, Real
from sfumato.tables.schema import Schema
from support.twins import secret_of

SCHEMA = Schema((Integer("i", 17, 90), Real("r", -1, 1000), Category("c", tuple("abcdefg")), Flag("f")))
TEXTS = (
    "count, mean(i), sum(r) where f",
    "count, variance(i), sum(r), histogram(c), histogram(i, 7) by f",
    "mean(i)",
    "variance(r), sum(i)",
    ", ".join(f"histogram(i, {bins})" for bins in range(2, 60)),
)
SHARED = Exposure("replace", 2, everyone=False, grouped=True)


def prepared(text, **promise):
    return prepare(parse_question(text, SCHEMA), Guarantee(**promise))


def moves(question):
    return [statistic.moves(question.exposure) for statistic in question.statistics]


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("epsilon", [0.01, 1 / 3, math.pi, 9.0])
@pytest.mark.parametrize("text", TEXTS)
def test_pure_shares_sum_to_epsilon_at_most_and_nearly_to_it(text, epsilon, neighbours):
    question = prepared(text, epsilon=epsilon, neighbours=neighbours)
    scales = question.spending.scales
    spent = sum(Fraction(norm.l1) / Fraction(noise.scale) for norm, noise in zip(moves(question), scales, strict=True))
    assert Fraction(epsilon) * (1 - Fraction(1, 2**40)) < spent <= Fraction(epsilon)
    loss = question.spending.loss()
    parts = loss.losses if isinstance(loss, Composed) else [loss]
    assert sum(Fraction(part.sensitivity) / Fraction(part.laplace_scale) for part in parts) == spent
    assert isinstance(loss, Laplace) == (len(scales) == 1)
    if len(scales) == 1:
        assert scales[0].scale == laplace_scale(moves(question)[0].l1, epsilon)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (3.0, 1e-3)])
@pytest.mark.parametrize("text", TEXTS)
def test_gaussian_shares_sum_to_the_mu_of_the_promise_at_most(text, epsilon, delta):
    question = prepared(text, epsilon=epsilon, delta=delta)
    scales = question.spending.scales
    squares = sum(Fraction(n.l2) ** 2 / Fraction(s.scale) ** 2 for n, s in zip(moves(question), scales, strict=True))
    loss = question.spending.loss()
    assert isinstance(loss, Gaussian)
    assert squares <= Fraction(loss.sensitivity / loss.scale) ** 2
    assert loss.delta(epsilon) <= delta
    assert Gaussian(1.0, loss.scale * (1 - 1e-9)).delta(epsilon) > delta * (1 - 1e-6)


def relative(statistics, exposure, law, shares):
    """The sum of relative variances, up to a factor, that shares give."""
    norms = [statistic.moves(exposure) for statistic in statistics]
    sizes = [n.l1 if law == "laplace" else n.l2 for n in norms]
    power = 2 if law == "laplace" else 1
    return sum(s.relative_variance * m**2 / a**power for s, m, a in zip(statistics, sizes, shares, strict=True))


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_no_other_shares_have_a_smaller_sum_of_relative_variances(law):
    axis = parse_question("histogram(c)", SCHEMA).aggregates[0].axis
    column = SCHEMA.data_columns[0]
    statistics = (Counted(), Totalled(column, from_low=False), Moments(column, 2), LevelCounts(axis))
    spending = Spending.of(statistics, SHARED, 1.0, 0.0 if law == "laplace" else 1e-6)
    rates = [m / n.scale for m, n in zip(spending.moves, spending.scales, strict=True)]
    used = np.array([rate if law == "laplace" else rate**2 for rate in rates])
    best = relative(statistics, SHARED, law, used / used.sum())
    for shares in np.random.default_rng(1).dirichlet([3.0] * 4, 500):
        assert relative(statistics, SHARED, law, shares) >= best * (1 - 1e-9)


def test_noise_that_cannot_be_drawn_is_refused():
    with pytest.raises(ParameterError, match="epsilon=1e-09 asks for noise outside the exact sampler's range"):
        prepared("sum(r)", epsilon=1e-9)


# ---- streams --------------------------------------------------------------------------------------------------------


def noise_of(question, secret, turn=0):
    nothing = np.zeros(question.length, np.int64)
    return question.noisy(nothing, secret, turn)


def test_groups_statistics_and_questions_of_a_batch_have_noise_of_their_own():
    question = prepared("count, histogram(i, 50), sum(r) by c", epsilon=0.005)
    first, again = (noise_of(question, Secret.for_testing(1), turn) for turn in (0, 1))
    for part, other in zip(first, again, strict=True):
        assert (part == other).mean() < 0.05
    histogram = first[1]
    for one, two in itertools.combinations(histogram, 2):
        assert (one == two).mean() < 0.15
    assert len(set(first[0].ravel().tolist())) == len(first[0])


def test_two_aggregates_over_equal_numbers_have_streams_apart():
    question = prepared("histogram(i, 20), histogram(r, 20)", epsilon=0.01)
    one, two = (part.ravel() for part in noise_of(question, Secret.for_testing(1)))
    assert question.spending.scales[0] == question.spending.scales[1]
    assert (one != two).mean() > 0.9


def test_what_is_asked_twice_in_one_question_is_measured_once():
    question = prepared("mean(i), sum(i), count, count where f", epsilon=1.0)
    assert [type(statistic) for statistic in question.statistics] == [Moments]
    question = prepared("count, sum(i), count where f", epsilon=1.0)
    assert [type(statistic) for statistic in question.statistics] == [Counted, Totalled]


def test_a_count_beside_the_mean_of_a_column_with_missing_cells_is_measured_by_itself():
    kept = Schema([Integer("i", 0, 9, missing="level"), Integer("j", 0, 9), Flag("f")])
    guarantee = Guarantee(epsilon=1.0, unit="record", neighbours="add-remove")
    for text, kinds in {
        "mean(i), count where f": [Moments, Counted],
        "mean(i), mean(j), count where f": [Moments, Moments],
        "count, variance(j) by f": [Moments],
    }.items():
        found = prepare(parse_question(text, kept), guarantee)
        assert [type(statistic) for statistic in found.statistics] == kinds


def test_the_noise_has_the_stated_scale_and_law():
    seen = []

    class Noting(Words):
        __slots__ = ()

        def laplace(self, size, laplace_scale):
            seen.append(("laplace", size, laplace_scale))
            return super().laplace(size, laplace_scale)

        def discrete_laplace(self, size, laplace_scale):
            seen.append(("discrete laplace", size, laplace_scale))
            return super().discrete_laplace(size, laplace_scale)

        def gaussian(self, size, scale):
            seen.append(("gaussian", size, scale))
            return super().gaussian(size, scale)

    for delta in (0.0, 1e-6):
        question = prepared("count, histogram(c) by f", epsilon=1.0, delta=delta)
        seen.clear()
        noise_of(question, secret_of(Noting))
        assert seen == [(n.kind, s, n.scale) for n, s in zip(question.spending.scales, (2, 16), strict=True)]


@pytest.mark.parametrize("columns", [17, 33])  # with one cell each, and with none
def test_quantiles_that_leave_no_edge_to_a_grid_are_refused_before_anything_is_drawn(columns):
    many = Schema((Integer("g", 0, (1 << 17) - 1), *(Real(f"x{i}", 0, 1) for i in range(columns))))
    text = ", ".join(f"median(x{i})" for i in range(columns)) + " by g"
    with pytest.raises(ParameterError, match=f"quantiles of {columns} columns in 131,072 groups are too many"):
        prepare(parse_question(text, many), Guarantee(epsilon=1.0))
