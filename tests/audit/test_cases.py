"""Audits of every mechanism: what holds stands, is reached closely where the mathematics says so, and twins fall."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import sfumato
from sfumato import cli
from sfumato.audit import cases
from sfumato.audit.block_rows import Copies
from sfumato.audit.canaries import guesses_bound, one_run
from sfumato.audit.cases import CASES, EPSILONS, RELEASES, suite
from sfumato.audit.classifier import classifier
from sfumato.audit.examine import Effort, examine
from sfumato.audit.trials import of_prepared, sketch_trial, trial
from sfumato.audit.worst_pairs import moved, searched_pair, sketch_pair
from sfumato.errors import ParameterError
from sfumato.estimation import cuts
from sfumato.mechanisms import second_moment
from sfumato.mechanisms.components import Components
from sfumato.mechanisms.covariance import Covariance
from sfumato.mechanisms.distances import NoisyDistances
from sfumato.mechanisms.graph_pairs import EdgeNoise
from sfumato.mechanisms.graph_sketch import GraphSketch
from sfumato.mechanisms.responses import RandomizedResponse
from sfumato.mechanisms.sketch import PreparedSketch, Sketch
from sfumato.mechanisms.synthetic.recipe import Synthetic
from sfumato.numerics import lattice
from sfumato.privacy.calibration import calibrate, least_level
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.privacy.losses import Gaussian
from sfumato.projection import unit_ball
from sfumato.randomness.secret import Secret, Words
from sfumato.tables.columns import Category, Real
from sfumato.tables.schema import Schema
from support.twins import ErringEffort, TwiceTheEpsilon, share_of_the_noise

FOREVER = 1e9  # seconds: what tests find must not depend on the clock
CASE = {case.name: case for case in CASES}
LINE = Schema.reals(4, low=0.0, high=1.0)
SQUARE = Schema.reals(2, low=-1.0, high=1.0)
VALUE = {"unit": "attribute"}


def effort(samples, seed=1, confidence=0.999, words=Words):
    return ErringEffort(samples=samples, seconds=FOREVER, seed=seed, confidence=confidence, words=words)


def found(trial_, samples=20_000, seed=1, words=Words):
    return examine(trial_, effort(samples, seed, words=words))


# ---- every mechanism ------------------------------------------------------------------------------------------------

SLOW = {"components, its rows alone": 150, "synthetic, its rows alone": 100, "sketch of a chosen dimension": 1000}
SLOW |= dict.fromkeys(("exponential mechanism", "permute-and-flip", "noisy maximum", "MWEM"), 3000)
CHOOSING = dict.fromkeys(("table, Laplace, add-remove", "table, Gaussian, group, add-remove"), 2000)  # tables
CAUGHT = {  # how much of its level each mechanism keeps when it is caught; the others are not by so few samples
    "closed": 0.5,
    "draws": 0.4,
}


@pytest.mark.parametrize("name", [case.name for case in RELEASES if case.method != "one run"])
def test_no_mechanism_is_refuted_and_each_is_with_too_little_noise(name):
    case, samples = CASE[name], (SLOW | CHOOSING).get(name, 20_000)
    guarantee, recipe = Guarantee(epsilon=1.0, **case.promise), case.mechanism(1.0)
    level = calibrate(recipe.prepare(case.schema, guarantee), guarantee).level
    more = {"schema": case.schema, "guarantee": guarantee}
    honest = found(trial(recipe, method=case.method, level=level, **more), samples)
    assert honest.passed, honest
    if name in SLOW:
        return
    weak = level * CAUGHT[honest.method] * (0.5 if "Laplace" not in name or "synthetic" in name else 1.0)
    broken = found(trial(recipe, level=weak, **more), samples)
    assert broken.refuted, broken
    assert broken.control.epsilon == 0


TIGHT = {
    "table, Gaussian": 0.70,
    "sketch, Laplace, one value": 0.80,
    "sketch, Gaussian, one value": 0.60,
    "graph sketch": 0.50,
    "responses, one value": 0.85,
    "responses, levels of numbers": 0.85,
}


@pytest.mark.parametrize("name", TIGHT)
def test_tight_mechanisms_are_reached_closely(name):
    assert CASE[name].run(1.0, effort(100_000), lambda _: None).share > TIGHT[name]


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", TIGHT)
def test_tight_mechanisms_are_reached_to_85_percent_with_ten_million_samples(name, epsilon):
    finding = CASE[name].run(epsilon, effort(10_000_000), lambda _: None)
    assert finding.passed
    assert finding.share >= 0.85


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", CASE)
def test_no_guarantee_is_refuted_over_the_whole_grid(name, epsilon):
    confidence = 1 - 0.001 / (2 * len(CASES) * len(EPSILONS))
    tried = effort(10 * (SLOW | CHOOSING).get(name, 100_000), seed=3, confidence=confidence)
    assert CASE[name].run(epsilon, tried, lambda _: None).passed


def test_the_suite_shares_time_and_confidence_and_runs_every_case_at_every_epsilon():
    few = CASES[:2]
    lines = list(suite(Effort(samples=1000, seconds=FOREVER, seed=3), cases=few))
    assert [(line.name, line.finding.epsilon) for line in lines] == [(c.name, e) for c in few for e in EPSILONS]
    assert {line.finding.bound.confidence for line in lines} == {1 - (1 - 0.999) / 12}


def test_neighbours_attain_what_is_declared_where_the_mathematics_says_so():
    for recipe, schema, promise in (
        (Sketch(dimension=3, projection="gaussian", seed=1), LINE, VALUE),
        (
            Sketch(dimension=3, projection="gaussian", noise="gaussian", seed=1),
            LINE,
            {"change": Change.l2(0.3), "delta": 0.1},
        ),
        (Sketch(dimension=3, projection="gaussian", seed=1), LINE, {}),
        (Sketch(), Schema([Category("c", ["x", "y"]), Real("a", 0, 1)], scale="raw"), VALUE),
    ):
        prepared = recipe.prepare(schema, Guarantee(epsilon=1.0, **promise))
        one, two = sketch_pair(prepared)
        matrix = prepared.projection.matrix()
        far = np.linalg.norm(
            (one - two)[:, 0] @ (matrix if isinstance(matrix, np.ndarray) else matrix.toarray()), prepared.order
        )
        assert 0.999 < far / (prepared.sensitivity * prepared.unit) <= 1 + 1e-6
    for recipe, promise in (
        (NoisyDistances(noise="laplace"), {}),
        (Covariance(noise="laplace", centred=False), {}),
        (Covariance(centred=False), {"delta": 0.1}),
    ):
        prepared = recipe.prepare(SQUARE, Guarantee(epsilon=1.0, **promise))
        (share,) = moved(prepared, 1.0, searched_pair(prepared, 1.0)).values()
        assert 0.99 < share <= 1 + 1e-9


# ---- broken twins ---------------------------------------------------------------------------------------------------


def caught(recipe, schema, promise, level=None, epsilon=1.0, samples=50_000, words=Words):
    """Whether an audit of a recipe, at the level it is calibrated to or another one, refutes the claim.

    words : the class of the streams that its runs draw from.
    """
    guarantee = Guarantee(epsilon=epsilon, **promise)
    finding = found(trial(recipe, schema=schema, guarantee=guarantee, level=level or 0.0), samples, words=words)
    assert finding.control.epsilon == 0
    return finding.refuted


@pytest.mark.parametrize(
    ("recipe", "schema", "promise"),
    [
        (Sketch(dimension=2), LINE, VALUE),
        (Sketch(dimension=2, noise="gaussian"), LINE, VALUE | {"delta": 0.01}),
        (NoisyDistances(noise="laplace"), SQUARE, {}),
        (Covariance(), SQUARE, {"delta": 0.01}),
        (EdgeNoise(), None, {"unit": "edge"}),
    ],
)
def test_half_the_noise_is_caught(recipe, schema, promise):
    assert not caught(recipe, schema, promise)
    assert caught(recipe, schema, promise, words=share_of_the_noise(1 / 2))


@pytest.mark.parametrize(("noise_", "factor"), [("gaussian", math.sqrt(2)), ("laplace", 2.0)])
def test_replace_treated_as_add_remove_is_caught(noise_, factor, monkeypatch):
    """A record that is replaced goes and another comes."""
    recipe, promise = Synthetic(dimension=2, noise=noise_, split=(0.5, 0.5)), {"delta": 0.01} if factor < 2 else {}
    assert not caught(recipe, SQUARE, promise, epsilon=4.0)
    for name in ("sums_move", "triangle_move"):
        honest = getattr(unit_ball, name)
        monkeypatch.setattr(
            unit_ball, name, lambda dim, order, _pair, _f=honest, **more: _f(dim, order, "add-remove", **more)
        )
    assert caught(recipe, SQUARE, promise, epsilon=4.0, samples=200_000)


def test_a_covariance_with_the_sensitivity_of_add_remove_is_caught(monkeypatch):
    recipe, promise = Covariance(), {"delta": 0.01}
    assert not caught(recipe, SQUARE, promise)
    honest = second_moment.box
    monkeypatch.setattr(second_moment, "box", lambda *arguments: honest(*arguments) / math.sqrt(2))
    assert caught(recipe, SQUARE, promise, samples=200_000)


def far_pair():
    return np.array([[9.0], [0.0], [0.0], [0.0]]), np.array([[-9.0], [0.0], [0.0], [0.0]])


def test_a_forgotten_clip_is_caught(monkeypatch):
    prepared = Sketch().prepare(LINE, Guarantee(epsilon=1.0, **VALUE))
    level = calibrate(prepared, prepared.guarantee).level
    assert not found(sketch_trial(prepared, level, far_pair())).refuted
    monkeypatch.setattr(lattice.InputGrid, "round", lambda _grid, columns, out: np.rint(columns * 2.0**20, out=out))
    assert found(sketch_trial(prepared, level, far_pair())).refuted


class SamePlace(Copies):
    """An engine that says of every block that it is the first."""

    def map(self, function):
        return super().map(lambda _position, block: function(0, block))


@pytest.mark.parametrize("reused", [False, True])
def test_one_block_of_noise_used_twice_is_caught(reused):
    """Two equal blocks at one place share their noise; then their difference tells whether they are equal."""
    prepared = Sketch().prepare(LINE, Guarantee(epsilon=1.0, **VALUE))
    rows, scores = (SamePlace if reused else Copies), []
    for side, end in enumerate((0.0, 1.0)):
        table = np.zeros((4, 1000))
        pairs = []
        for seed in range(100):
            other = table.copy()
            other[0] = end
            both = rows(np.hstack([table, other]), 1, most=1000)
            both = rows(table, 2, most=1000) if end == 0 else both
            blocks = list(prepared.run(both, 1.0, Secret.for_testing(1000 * side + seed)).blocks)
            out = np.concatenate(blocks, axis=1)
            pairs.append(-np.abs(out[1, :1000] - out[1, 1000:]))
        scores.append(np.concatenate(pairs))
    assert sfumato.audit.lower_bound(*scores).refutes(1.0) == reused


def test_row_norms_of_a_gaussian_projection_taken_as_1_are_caught():
    """The rows of a gaussian P of two columns are longer than 1 as often as not."""
    recipe = Sketch(dimension=2, projection="gaussian", noise="gaussian", seed=3)
    guarantee = Guarantee(epsilon=1.0, delta=0.01, **VALUE)
    prepared = recipe.prepare(LINE, guarantee)
    level = calibrate(prepared, guarantee).level
    longest = float(np.linalg.norm(prepared.projection.matrix(), axis=1).max())
    assert longest > 1.2
    assert not found(of_prepared(prepared, level)).refuted
    assert found(of_prepared(prepared, level / longest), 200_000).refuted


def kenthapadi(epsilon, delta):
    """Theorem 1 of Kenthapadi et al. 2013 for rows of length 1."""
    return math.sqrt(2 * (math.log(1 / (2 * delta)) + epsilon)) / epsilon


def gaussian_sketch(scale, epsilon, delta, samples=200_000):
    """One value in one number with noise of this standard deviation."""
    schema = Schema.reals(1, low=0.0, high=1.0)
    return caught(
        Sketch(noise="gaussian"), schema, VALUE | {"delta": delta}, level=scale, epsilon=epsilon, samples=samples
    )


def test_kenthapadis_formula_is_safe_with_delta_for_2_delta_and_false_without_its_epsilon():
    """The slip adds noise, so no sound audit may catch it; what lacks noise is caught."""
    for epsilon in (0.1, 0.5, 1.0, 4.0, 8.0):
        for delta in (1e-9, 1e-6, 0.01, 0.2):
            exact = least_level(lambda level: Gaussian(1.0, level), epsilon, delta)
            assert exact < kenthapadi(epsilon, delta) < kenthapadi(epsilon, delta / 2)
    assert not gaussian_sketch(kenthapadi(4.0, 0.01 / 2), 4.0, 0.01)
    assert not gaussian_sketch(kenthapadi(4.0, 0.3), 4.0, 0.3)
    assert gaussian_sketch(math.sqrt(2 * math.log(1 / 0.6)) / 4.0, 4.0, 0.3)


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_noise_for_2_delta_where_delta_is_claimed_is_caught(epsilon):
    scales = [least_level(lambda level: Gaussian(1.0, level), epsilon, delta) for delta in (0.01, 0.02)]
    assert not gaussian_sketch(scales[0], epsilon, 0.01)
    assert gaussian_sketch(scales[1], epsilon, 0.01, samples=1_000_000)


def test_a_forgotten_label_is_caught(monkeypatch):
    """Noise for the rows alone, while their label stands beside them."""
    recipe = Synthetic(dimension=1, label="c1", label_weight=4.0, split=(0.5, 0.5))
    assert not caught(recipe, SQUARE, {}, epsilon=2.0)
    monkeypatch.setattr(
        unit_ball,
        "labelled_move",
        lambda dim, order, pair, **more: unit_ball.triangle_move(dim, order, pair, top=more["top"]),
    )
    honest = unit_ball.sums_move
    monkeypatch.setattr(
        unit_ball, "sums_move", lambda dim, order, pair, **more: honest(dim, order, pair, top=more["top"])
    )
    assert caught(recipe, SQUARE, {}, epsilon=2.0)


def test_twice_the_epsilon_in_every_answer_and_half_a_ridge_are_caught(monkeypatch):
    answers = RandomizedResponse(), Schema([Category("c", ["x", "y", "z"])]), VALUE
    graph = GraphSketch(rows=2), None, {"unit": "edge", "delta": 0.01}
    assert not caught(*answers)
    assert not caught(*graph)
    ridge = cuts.ridge
    monkeypatch.setattr(cuts, "ridge", lambda ratio, n: ridge(ratio, n) / 2)
    assert caught(*answers, words=TwiceTheEpsilon)
    assert caught(*graph, samples=100_000)


# ---- projections that are drawn anew ------------------------------------------------------------------------------


def test_a_fresh_projection_for_each_sample_passes_and_weak_noise_is_caught():
    """Prepared as for a release each time, where rows of a tall projection stand for it otherwise."""
    promise = Guarantee(epsilon=1.0, delta=0.02, change=Change.l2(0.5), projection="fresh")
    recipe = Sketch(dimension=2, projection="orthonormal", noise="gaussian")
    level = calibrate(recipe.prepare(LINE, promise), promise).level
    assert not found(trial(recipe, schema=LINE, guarantee=promise), 300).refuted
    assert found(trial(recipe, schema=LINE, guarantee=promise, level=level * 0.1), 300).refuted


# ---- one run --------------------------------------------------------------------------------------------------------


def test_all_guesses_right_gives_the_closed_bound():
    for guesses in (10, 100):
        chance = 0.001 ** (1 / guesses)
        assert guesses_bound(guesses, guesses, guesses) == pytest.approx(math.log(chance / (1 - chance)), abs=1e-6)
    assert guesses_bound(1000, 100, 55) == 0
    with pytest.raises(ParameterError, match="right"):
        guesses_bound(10, 5, 6)


def test_delta_lowers_the_bound_by_what_the_theorem_allows():
    free, paid, hopeless = (guesses_bound(1000, 300, 300, delta=delta) for delta in (0.0, 1e-7, 0.01))
    assert free > paid > 3.5
    assert hopeless == 0


def test_guesses_of_an_exact_mechanism_are_refuted_as_rarely_as_stated():
    rng, right = np.random.default_rng(1), 1 / (1 + math.exp(-1.0))
    bounds = {v: guesses_bound(200, 200, v, confidence=0.9) for v in range(150, 165)}
    refuted = sum(bounds.get(v, 0.0) > 1.0 for v in rng.binomial(200, right, 300))
    assert refuted <= 30 + 6 * math.sqrt(27)
    assert refuted > 5
    leaky = guesses_bound(200, 200, int(stats.binom(200, 1 / (1 + math.exp(-2.0))).mean()), confidence=0.9)
    assert leaky > 1.0


def test_one_run_of_a_sketch_reaches_its_epsilon_nearly_and_half_the_noise_is_caught():
    audited = {"schema": Schema.reals(8, low=0.0, high=1.0), "guarantee": Guarantee(epsilon=1.0, **VALUE)}
    finding = one_run(Sketch(dimension=4, seed=1), **audited, effort=effort(0))
    assert finding.passed
    assert finding.share > 0.7
    assert one_run(Sketch(dimension=4, seed=1), **audited, effort=effort(0, words=share_of_the_noise(1 / 2))).refuted


@pytest.mark.parametrize(
    "recipe", [Covariance(), Synthetic(dimension=32, noise="gaussian", shrink="none", centring="private", seed=1)]
)
def test_one_run_of_sums_stands_and_sees_something_without_noise(recipe):
    schema, promise = Schema.reals(32, low=-1.0, high=1.0), Guarantee(epsilon=4.0, delta=1e-6)
    assert one_run(recipe, schema=schema, guarantee=promise, effort=effort(0)).passed
    quiet = effort(0, words=share_of_the_noise(1 / 50))
    bare = one_run(recipe, schema=schema, guarantee=promise, effort=quiet)
    assert bare.bound.epsilon > 0.5
    assert bare.control.epsilon == 0


def test_canaries_need_neighbours_that_replace():
    with pytest.raises(ParameterError, match="replace"):
        one_run(Covariance(), schema=SQUARE, guarantee=Guarantee(epsilon=1.0, delta=0.1, neighbours="add-remove"))
    with pytest.raises(ParameterError, match="no one-run audit"):
        one_run(NoisyDistances(noise="laplace"), schema=SQUARE, guarantee=Guarantee(epsilon=1.0), canaries=16)


# ---- learning -------------------------------------------------------------------------------------------------------


def test_a_learnt_score_tells_two_gaussians_apart_and_equal_ones_not():
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=(2, 4000, 3))
    first[:, 1] += 2.0
    score = classifier(first[:1000], second[:1000])
    assert sfumato.audit.lower_bound(score(first[1000:]), score(second[1000:])).epsilon > 1.5
    null = classifier(second[:1000], rng.normal(size=(1000, 3)))
    assert sfumato.audit.lower_bound(null(second[1000:]), null(rng.normal(size=(3000, 3)))).epsilon == 0


def test_published_numbers_alone_refute_components_without_noise():
    prepared = Components(dimension=1).prepare(SQUARE, Guarantee(epsilon=1.0))
    assert found(of_prepared(prepared, 0.02, "learned"), 120).refuted


# ---- the function and the command -----------------------------------------------------------------------------------


def test_audit_is_a_function_and_a_package():
    seen = []
    finding = sfumato.audit(
        Sketch(dimension=2),
        schema=LINE,
        guarantee=Guarantee(epsilon=1.0, **VALUE),
        effort=effort(5000),
        progress=seen.append,
    )
    assert finding.passed
    assert finding.method == "closed"
    assert sum(seen) == 15_000  # two sides and a control
    assert sfumato.audit.greybox is not None
    assert sfumato.audit(
        Sketch(), schema=SQUARE, guarantee=Guarantee(epsilon=1.0, **VALUE), method="one run", effort=effort(0)
    ).passed
    with pytest.raises(AttributeError, match="nothing"):
        sfumato.audit.nothing  # noqa: B018


def test_time_ends_an_audit():
    finding = examine(
        trial(Sketch(), schema=LINE, guarantee=Guarantee(epsilon=1.0, **VALUE)), Effort(samples=10**12, seconds=0.0)
    )
    assert finding.bound.samples < 10**8


def test_what_has_no_audit_is_refused():
    class Nothing:
        guarantee, schema = Guarantee(epsilon=1.0), SQUARE

    with pytest.raises(ParameterError, match="no audit is implemented for Nothing"):
        of_prepared(Nothing(), 1.0)


@pytest.fixture
def short_suite(monkeypatch):
    monkeypatch.setattr(cases, "CASES", CASES[:1])
    monkeypatch.setattr(cases.suite, "__kwdefaults__", cases.suite.__kwdefaults__ | {"cases": CASES[:1]})
    monkeypatch.setattr(cases, "QUICK", replace(cases.QUICK, samples=10_000, seconds=FOREVER))


@pytest.mark.usefixtures("short_suite")
def test_the_command_prints_a_table_and_succeeds(capsys):
    assert cli.main(["audit", "--quick", "--seed", "1"]) == 0
    out = capsys.readouterr().out
    assert out.count("holds") == 3
    assert "No guarantee was refuted in 3 audits" in out


@pytest.mark.usefixtures("short_suite")
def test_a_failed_audit_exits_1(capsys, monkeypatch):
    honest = PreparedSketch.scale
    monkeypatch.setattr(PreparedSketch, "scale", lambda self, level: honest(self, level) / 2)
    assert cli.main(["audit", "--quick", "--seed", "1", "--json"]) == 1
    facts = json.loads(capsys.readouterr().out)
    assert facts["failed"] == 3
    assert {line["verdict"] for line in facts["audits"]} == {"REFUTED"}
    assert all(line["confidence"] == pytest.approx(1 - 0.001 / 6) for line in facts["audits"])


def test_a_bad_time_is_refused(capsys):
    assert cli.main(["audit", "--seconds", "-1"]) == 2
    assert "seconds" in capsys.readouterr().err
