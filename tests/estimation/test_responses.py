"""Formulas for randomized answers: bias, exact variance, coverage; the same checks reject slightly wrong formulas."""

import itertools
import math

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.estimation import responses
from sfumato.estimation.response_columns import ResponseColumn
from sfumato.estimation.response_law import DISTANCE, INNER, Channel, Questionnaire, SumLaw, total
from support.evidence import agrees

FLAG = ResponseColumn(1, 0, 1.0)
PLACES = ResponseColumn(5, -1, 0.5, tuple((0.5 * i - 0.25,) for i in range(5)))
MISSING = ResponseColumn(4, -1, 1.0, ((0.0, 0.0), (0.5, 0.0), (1.0, 0.0), (0.5, 0.75)))
COLUMNS = [
    FLAG,
    ResponseColumn(1, 0, 1.3),
    ResponseColumn(4, -1, 0.7),
    ResponseColumn(4, 4, 0.7),
    ResponseColumn(2, -1, 1.0),
    ResponseColumn(1, 1, 2.0),
    PLACES,
    MISSING,
    ResponseColumn(2, -1, 1.0, ((3.0,), (5.0,))),
]
MIXED = (
    FLAG,
    ResponseColumn(3, 3, 1.5),
    ResponseColumn(8, -1, 0.5),
    ResponseColumn(1, 0, 2.0),
    ResponseColumn(5, -1, 1.0),
    PLACES,
    MISSING,
)


def simulate(columns, epsilon, row, count, rng):
    """Answers by an independent way: an index into the cumulative law of each column."""
    out = np.empty((count, len(columns)), np.int64)
    for j, answer in enumerate(columns):
        law = np.ones(answer.categories)
        law[row[j]] = math.exp(epsilon)
        out[:, j] = rng.choice(answer.categories, count, p=law / law.sum())
    return out


def embedded(columns, row):
    """The weighted one-hot row, written out."""
    parts = []
    for answer, code in zip(columns, row, strict=True):
        if answer.points:
            parts.append(np.array(answer.points[code]))
            continue
        part = np.zeros(answer.values)
        if code != answer.none:
            part[code - (answer.none == 0)] = answer.weight
        parts.append(part)
    return np.concatenate(parts)


def rows_apart(columns, share, rng):
    one = np.array([rng.integers(answer.categories) for answer in columns])
    two = one.copy()
    for j in rng.permutation(len(columns))[: round(share * len(columns))]:
        two[j] = (one[j] + rng.integers(1, columns[j].categories)) % columns[j].categories
    return one, two


# ---- the law of a column --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 4.0])
@pytest.mark.parametrize("answer", COLUMNS, ids=str)
def test_a_column_equals_the_channel_written_out_over_all_pairs_of_codes(answer, epsilon):
    m, channel = answer.categories, Channel(epsilon, answer.categories)
    weights = np.ones((m, m)) + (math.exp(epsilon) - 1) * np.eye(m)
    forth = weights / weights.sum(axis=1, keepdims=True)
    assert channel.keep == pytest.approx(forth[0, 0], rel=1e-12)
    assert channel.other == pytest.approx(forth[0, 1], rel=1e-12)
    assert channel.gap == pytest.approx(forth[0, 0] - forth[0, 1], rel=1e-9)
    back, image = np.linalg.inv(forth), np.array([embedded([answer], [c]) for c in range(m)])
    gaps = ((image[:, None] - image[None]) ** 2).sum(axis=-1)
    ways = Questionnaire((answer,), epsilon).ways(np.arange(m)[:, None, None], np.arange(m)[None, :, None])[..., 0]
    for units, truth in ((DISTANCE, gaps), (INNER, image @ image.T)):
        both, one = (SumLaw.of((answer,), epsilon, units, sides) for sides in (2, 1))
        estimate, single = back @ truth @ back, back @ truth
        assert np.allclose(both.truth[ways], truth)
        assert np.allclose(both.estimate[ways], estimate, rtol=1e-6)
        assert np.allclose(one.estimate[ways], single, rtol=1e-6)
        assert np.allclose(both.variance[ways], forth @ estimate**2 @ forth - truth**2, rtol=1e-6)
        assert np.allclose(one.variance[ways], forth @ single**2 - truth**2, rtol=1e-6, atol=1e-9)
        cube = forth @ estimate**3 @ forth - 3 * truth * (forth @ estimate**2 @ forth) + 2 * truth**3
        scale = np.abs(estimate).max() ** 3
        assert np.allclose(both.third[ways], cube, rtol=1e-6, atol=1e-9 * scale)
        assert set(np.unique(ways)) == set(np.flatnonzero(both.possible))
    debiased = Questionnaire((answer,), epsilon).debiased(np.arange(m)[:, None])
    assert np.allclose(forth @ debiased, image)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_the_variance_for_flags_is_the_published_formula_whatever_the_distance(epsilon):
    p = 1 / (1 + math.exp(epsilon))
    q = 2 * p * (1 - p)
    law = Questionnaire((FLAG,), epsilon).law(DISTANCE, 2)
    expected = q * (1 - q) / (1 - 2 * p) ** 4
    assert np.allclose(law.variance[law.possible], expected)
    seen = np.array([[1, 0, 1, 1, 0]]), np.array([[0, 0, 1, 0, 0]])
    found = responses.squared_distance(*seen, Questionnaire((FLAG,) * 5, epsilon))
    assert found.value[0] == pytest.approx((2 - 2 * 5 * p * (1 - p)) / (1 - 2 * p) ** 2)
    assert found.standard_error[0] == pytest.approx(math.sqrt(5 * expected))


def test_extreme_epsilons_keep_their_digits():
    for epsilon in (1e-9, 1e-6, 50.0, 700.0):
        law = Questionnaire(MIXED, epsilon).law(DISTANCE, 2)
        assert np.isfinite(law.estimate).all()
        assert np.isfinite(law.variance).all()
        assert (law.variance[law.possible] >= 0).all()
    tiny = Questionnaire((FLAG,), 1e-6).law(DISTANCE, 2)
    assert tiny.variance[0] == pytest.approx(0.25 * (2 / 1e-6) ** 4, rel=1e-5)


# ---- estimators -----------------------------------------------------------------------------------------------------


QUESTIONS = {
    "distance": (lambda x, y, _b, form: responses.squared_distance(x, y, form), DISTANCE, 2),
    "public": (lambda x, _y, b, form: responses.squared_distance_to_public(x, b, form), DISTANCE, 1),
    "norm": (lambda x, _y, _b, form: responses.squared_norm(x, form), DISTANCE, 1),
    "inner": (lambda x, y, _b, form: responses.inner_product(x, y, form), INNER, 2),
}


def truth_of(question, columns, one, two):
    x, y = embedded(columns, one), embedded(columns, two)
    return {"norm": x @ x, "inner": x @ y}.get(question, (x - y) @ (x - y))


def ask(question, columns, epsilon, pair, count, rng):
    form = Questionnaire(tuple(columns), epsilon)
    x, y = (simulate(columns, epsilon, row, count, rng) for row in pair)
    return QUESTIONS[question][0](x, y, np.broadcast_to(pair[1], x.shape), form), form


@pytest.mark.parametrize("share", [0.0, 0.6])
@pytest.mark.parametrize("question", QUESTIONS)
def test_estimates_are_unbiased_with_the_exact_variance_and_no_other(question, share):
    rng = np.random.default_rng(5)
    columns, count = MIXED * 2, 100_000
    pair = rows_apart(columns, share, rng)
    found, form = ask(question, columns, 1.2, pair, count, rng)
    _, units, sides = QUESTIONS[question]
    law = form.law(units, sides)
    ways = form.ways(pair[0], form.origin if question == "norm" else pair[1])
    variance = float(law.variance[ways].sum())
    errors = found.value - truth_of(question, columns, *pair)
    assert agrees(errors, 0.0)
    assert not agrees(errors, 0.03 * math.sqrt(variance))
    for factor, right in ((1.0, True), (0.95, False), (1.05, False)):
        assert agrees(errors**2, factor * variance) == right
    least, most = law.ends(law.variance, law.open_groups(ways[None]))
    assert (found.standard_error**2 >= least * 0.999).all()
    assert (found.standard_error**2 <= most * 1.001).all()


@pytest.mark.parametrize("share", [0.0, 0.6])
def test_the_plugged_in_variance_is_unbiased_before_it_is_cut(share):
    rng, columns = np.random.default_rng(15), MIXED * 2
    one, two = rows_apart(columns, share, rng)
    form = Questionnaire(columns, 1.2)
    law = form.law(DISTANCE, 2)
    seen = form.ways(*(simulate(columns, 1.2, row, 100_000, rng) for row in (one, two)))
    variance = float(law.variance[form.ways(one, two)].sum())
    guesses = total(law.unbiased(law.variance), seen)
    assert agrees(guesses, variance)
    assert not agrees(guesses, 1.05 * variance)


def test_the_array_is_unbiased_for_the_weighted_encoded_row():
    rng = np.random.default_rng(6)
    one, _ = rows_apart(MIXED, 0.0, rng)
    form = Questionnaire(MIXED, 0.8)
    found, truth = form.debiased(simulate(MIXED, 0.8, one, 100_000, rng)), embedded(MIXED, one)
    assert found.shape[1] == truth.size
    for column, expected in zip(found.T, truth, strict=True):
        assert agrees(column, expected)
        assert not agrees(column, expected + 0.1)


def covered(found, truth, **more):
    low, high = found.interval(0.95, **more)
    return (low <= truth + 1e-9) & (truth <= high + 1e-9)


def within(shares, count):
    return 0.95 - 3 * math.sqrt(0.95 * 0.05 / count) <= shares


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize(
    ("answer", "epsilon"), list(itertools.product((FLAG, ResponseColumn(5, -1, 0.7)), (0.3, 1.0, 3.0)))
)
@pytest.mark.parametrize("columns", [20, 200])
def test_intervals_of_columns_that_are_alike_cover_what_they_say(columns, answer, epsilon, share):
    """Exact belts never cover less; more only by what whole numbers force, which falls with the number of columns."""
    rng, count = np.random.default_rng(columns + round(10 * share)), 2000
    kinds = (answer,) * columns
    pair = rows_apart(kinds, share, rng)
    truth = truth_of("distance", kinds, *pair)
    for question in ("distance", "public"):
        found, _ = ask(question, kinds, epsilon, pair, count, rng)
        hit = covered(found, truth).mean()
        assert within(hit, count)
        assert hit <= (0.995 if columns == 20 else 0.975)


@pytest.mark.parametrize("share", [0.0, 0.6])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("question", QUESTIONS)
def test_intervals_of_mixed_columns_cover_what_they_say(question, epsilon, share):
    rng, count = np.random.default_rng(round(10 * epsilon + 100 * share)), 2000
    columns = (FLAG, ResponseColumn(3, 3, 1.5), ResponseColumn(4, -1, 1.0), ResponseColumn(1, 0, 2.0)) * 10
    pair = rows_apart(columns, share, rng)
    found, _ = ask(question, columns, epsilon, pair, count, rng)
    hit = covered(found, truth_of(question, columns, *pair)).mean()
    assert within(hit, count)
    assert hit <= 0.99


def places(count, width):
    return ResponseColumn(count, -1, width / (count - 1), tuple((width * i / (count - 1),) for i in range(count)))


@pytest.mark.parametrize("share", [0.0, 1.0])
@pytest.mark.parametrize("epsilon", [1.0, 3.0])
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("columns", [(places(5, 1.0),) * 40, (FLAG, places(11, 1.0), MISSING) * 10], ids=["5", "mixed"])
def test_intervals_of_answers_at_places_cover_what_they_say(columns, question, epsilon, share):
    rng, count = np.random.default_rng(round(10 * epsilon + 100 * share)), 2000
    pair = rows_apart(columns, share, rng)
    found, _ = ask(question, columns, epsilon, pair, count, rng)
    hit = covered(found, truth_of(question, columns, *pair)).mean()
    assert within(hit, count)
    assert hit <= 0.99


def test_answers_at_places_keep_their_digits_where_random_ones_are_rare():
    law = Questionnaire((places(7, 100.0),), 40.0).law(DISTANCE, 2)
    chance = 7 * math.exp(-40.0)
    assert np.allclose(law.estimate[law.possible], law.truth[law.possible], rtol=1e-9, atol=1e-9)
    assert (law.variance[law.possible] > 0).all()
    assert (law.variance[law.possible] < 10 * chance * law.truth.max() ** 2).all()


@pytest.mark.parametrize("share", [0.0, 0.1])
def test_intervals_stay_right_where_the_variance_moves_with_the_truth(share):
    """Large categories: with the variance fixed at its estimate these cover 92%."""
    rng, columns = np.random.default_rng(12), (FLAG, ResponseColumn(10, -1, 1.0)) * 50
    pair = rows_apart(columns, share, rng)
    found, _ = ask("public", columns, 1.0, pair, 4000, rng)
    assert within(covered(found, truth_of("public", columns, *pair)).mean(), 4000)


def test_a_wrong_epsilon_would_be_seen_in_the_coverage():
    rng = np.random.default_rng(8)
    columns = (FLAG,) * 200
    pair = rows_apart(columns, 0.1, rng)
    x, y = (simulate(columns, 1.0, row, 2000, rng) for row in pair)
    right, wrong = (responses.squared_distance(x, y, Questionnaire(columns, e)) for e in (1.0, 1.1))
    truth = truth_of("distance", columns, *pair)
    assert within(covered(right, truth).mean(), 2000)
    assert not within(covered(wrong, truth).mean(), 2000)


@pytest.mark.parametrize("columns", [(FLAG,) * 60, (FLAG, ResponseColumn(4, -1, 1.0)) * 30], ids=["alike", "mixed"])
def test_simultaneous_intervals_cover_all_pairs_at_once(columns):
    rng, runs, pairs = np.random.default_rng(9), 300, 20
    drawn = [rows_apart(columns, share, rng) for share in np.linspace(0, 1, pairs)]
    form = Questionnaire(columns, 1.0)
    sides = [np.stack([simulate(columns, 1.0, pair[side], runs, rng) for pair in drawn], axis=1) for side in (0, 1)]
    truth = np.array([truth_of("distance", columns, *pair) for pair in drawn])
    found = responses.squared_distance(*(side.reshape(runs * pairs, -1) for side in sides), form)
    shares = []
    for tail in (0.025 / pairs, 0.025):
        low, high = (ends.reshape(runs, pairs) for ends in found.bounds(tail))
        shares.append(((low <= truth + 1e-9) & (truth <= high + 1e-9)).all(axis=1).mean())
        if tail < 0.025:
            first = responses.squared_distance(sides[0][0], sides[1][0], form).interval(0.95, simultaneous=True)
            assert np.allclose(first, (low[0], high[0]))
    assert within(shares[0], runs)
    assert not within(shares[1], runs)


@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_jaccard_intervals_cover_at_least_what_they_say(epsilon, share):
    rng, columns, count = np.random.default_rng(10), (FLAG,) * 150, 2000
    pair = rows_apart(columns, share, rng)
    x, y = (simulate(columns, epsilon, row, count, rng) for row in pair)
    form = Questionnaire(columns, epsilon)
    truth = (pair[0] & pair[1]).sum() / (pair[0] | pair[1]).sum()
    found = responses.jaccard(x, y, form)
    assert within(covered(found, truth).mean(), count)
    if epsilon == 3.0:
        assert np.nanmean(found.value) == pytest.approx(truth, abs=0.01)
        assert not within(covered(found, truth + 0.2).mean(), count)


def test_a_jaccard_lost_in_the_noise_says_so():
    form = Questionnaire((FLAG,) * 20, 0.5)
    found = responses.jaccard(np.zeros(20, int), np.zeros(20, int), form)
    assert math.isnan(found.value)
    assert found.standard_error == math.inf
    assert found.interval() == (0.0, 1.0)


def test_a_norm_that_nothing_can_change_is_known_exactly():
    form = Questionnaire((ResponseColumn(3, -1, 2.0),) * 4, 0.5)
    found = responses.squared_norm(np.array([0, 1, 2, 0]), form)
    assert found.value == pytest.approx(16.0)
    assert found.standard_error == pytest.approx(0.0, abs=1e-12)
    assert found.interval() == pytest.approx((16.0, 16.0))


def farthest(answer):
    """The largest squared distance of two answers, written out."""
    cells = [embedded([answer], [code]) for code in range(answer.categories)]
    return max(((one - two) ** 2).sum() for one, two in itertools.product(cells, cells))


def test_intervals_stay_in_the_range_and_hold_together():
    rng = np.random.default_rng(11)
    for columns in ((FLAG,) * 5, MIXED, (FLAG,) * 1200):
        form = Questionnaire(columns, 0.05)
        pair = rows_apart(columns, 0.5, rng)
        x, y = (simulate(columns, 0.05, row, 50, rng) for row in pair)
        most = sum(farthest(a) for a in columns)
        for level in (0.5, 0.95, 1 - 1e-6):
            low, high = responses.squared_distance(x, y, form).interval(level)
            assert (low >= 0).all()
            assert (high <= most + 1e-9).all()
            assert (low <= high).all()


def test_what_is_known_of_a_public_row_cuts_the_interval():
    """Nothing is further from no value than one value is: w^2, not 2 w^2."""
    columns = (ResponseColumn(5, 5, 1.0), ResponseColumn(3, 3, 2.0)) * 4
    form, codes = Questionnaire(columns, 0.01), np.array([[5, 3] * 4, [0, 0] * 4, [5, 0] * 4])
    _, high = responses.squared_norm(codes, form).interval(1 - 1e-9)
    assert (high <= 4 * (1 + 4) + 1e-9).all()
    _, high = responses.squared_distance_to_public(codes, np.zeros_like(codes), form).interval(1 - 1e-9)
    assert (high > 4 * (1 + 4)).all()


def test_rows_that_do_not_fit_are_refused():
    form = Questionnaire((FLAG,) * 3, 1.0)
    for a, b in (((2, 4), (2, 4)), ((2, 3), (1, 3)), ((1, 2, 3), (1, 2, 3))):
        with pytest.raises(ParameterError, match="3 answers"):
            responses.squared_distance(np.zeros(a, int), np.zeros(b, int), form)
