"""Attacks must win where nothing is protected, and must not where something is: each claim has both arms."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import multivariate_normal

import sfumato
from sfumato.attacks import example_data, linkage, membership, reconstruction
from sfumato.attacks.curves import Curve, Point, table
from sfumato.cli import main
from sfumato.errors import ParameterError
from sfumato.intervals.moments import NoiseLaw
from sfumato.mechanisms.base import Recipe
from sfumato.mechanisms.sketch import Sketch
from sfumato.pipeline.release import release
from sfumato.privacy import attack_bounds
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness.secret import Secret
from sfumato.tables.columns import Flag, Real
from sfumato.tables.schema import Schema
from support.asked_kinds import KINDS
from support.asked_kinds import table as kinds_table
from support.sources import MODULES, SOURCE, imported_modules


def secrets(start=1):
    return map(Secret.for_testing, itertools.count(start)).__next__


# What privacy leaves to any attack


def response(epsilon, size):
    """Randomized response over some values."""
    return (np.ones((size, size)) + np.eye(size) * math.expm1(epsilon)) / (math.exp(epsilon) + size - 1)


def largest_correlation(chances, prior):
    """Of any function of the input with any function of the output: the second singular value."""
    joint = prior[:, None] * chances
    joint = joint[:, joint.sum(axis=0) > 0]
    return float(np.linalg.svd(joint / np.sqrt(np.outer(prior, joint.sum(axis=0))))[1][1])


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_no_private_channel_correlates_more_than_the_bound_and_randomized_response_reaches_it(epsilon):
    rng, found = np.random.default_rng(1), []
    for size in (2, 3, 5):
        for _ in range(100):
            chances = response(epsilon, size)
            if rng.random() < 0.5:  # any mixture of private channels is private
                merged = rng.random((size, 4))
                chances = chances @ (merged / merged.sum(axis=1, keepdims=True))
            found.append(largest_correlation(chances, rng.dirichlet(np.ones(size))))
    assert max(found) <= attack_bounds.correlation(epsilon) + 1e-12
    assert largest_correlation(response(epsilon, 2), np.array([0.5, 0.5])) == pytest.approx(
        attack_bounds.correlation(epsilon)
    )
    assert max(found) > 0.9 * attack_bounds.correlation(epsilon)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.0), (1.0, 0.01), (4.0, 1e-6)])
def test_the_bounds_are_those_of_the_answer_that_tells_most(epsilon, delta):
    """The truth with probability delta, otherwise randomized response: rows are the two truths."""
    chances = np.hstack([delta * np.eye(2), (1 - delta) * response(epsilon, 2)])
    apart = np.abs(chances[0] - chances[1]).sum() / 2
    assert attack_bounds.advantage(epsilon, delta) == pytest.approx(apart, rel=1e-12)
    assert attack_bounds.advantage(epsilon, delta) == pytest.approx(
        (math.exp(epsilon) - 1 + 2 * delta) / (math.exp(epsilon) + 1), rel=1e-12
    )
    for prior in (0.5, 0.7, 0.95):
        weighed = np.array([prior, 1 - prior])[:, None] * chances
        best = float(weighed.max(axis=0).sum())
        assert best <= attack_bounds.guess(epsilon, delta, prior) + 1e-12
        assert best == pytest.approx(attack_bounds.guess(epsilon, delta, prior), rel=1e-12)
    assert largest_correlation(chances, np.array([0.5, 0.5])) == pytest.approx(
        attack_bounds.correlation(epsilon, delta)
    )


def test_nobody_links_more_often_than_the_bound_and_four_times_the_epsilon_would_show():
    """Users with one of many values, answered by randomized response over them; the attacker knows the value whole."""
    users, size, epsilon, trials = 10, 40, 1.0, 40_000

    def found(actual):
        rng = np.random.default_rng(2)
        truth = rng.integers(0, size, (trials, users))
        kept = rng.random((trials, users)) < math.expm1(actual) / (math.exp(actual) + size - 1)
        answers = np.where(kept, truth, rng.integers(0, size, (trials, users)))
        score = (answers == truth[:, :1]) + 1e-3 * rng.random((trials, users))
        return np.mean(score.argmax(axis=1) == 0)

    most = attack_bounds.link(epsilon, users)
    assert most == pytest.approx(math.e / users)
    assert 0.4 * most < found(epsilon) < most
    assert found(4 * epsilon) > most


def test_a_bound_by_several_steps_is_that_of_one_step_of_the_whole_way():
    assert attack_bounds.link(1.0, 100, np.array([3, 3])) == pytest.approx(attack_bounds.link(3.0, 100))
    assert attack_bounds.link(1.0, 100, np.array([1, 5])) < attack_bounds.link(1.0, 100, np.array([5, 5]))
    assert attack_bounds.link(0.5, 100, np.array([2]), delta=1e-3) == pytest.approx(
        math.e * 1e-2 + 1e-3 * math.expm1(1.0) / math.expm1(0.5)
    )
    with pytest.raises(ParameterError, match="epsilon"):
        attack_bounds.link(0.0, 100)


# The victim exists for the attacks alone


def test_no_release_path_can_reach_the_victim():
    """Nothing that a release is made by imports the audits, so none of it can perturb by multiplication alone."""
    reached, todo = (
        set(),
        [m for m in MODULES if m.startswith(("pipeline.", "planning.", "ledger.", "commands.release", "sklearn"))],
    )
    while todo:
        module = todo.pop()
        path = SOURCE.joinpath(*module.split(".")).with_suffix(".py")
        if module in reached or not path.exists():
            continue
        reached.add(module)
        todo += imported_modules(path.read_text())
    assert "mechanisms.sketch" in reached
    assert not [module for module in reached if module.startswith("audit")]
    assert "attacks.reconstruction" not in reached  # which has perturbations that protect nobody, to compare with


def test_release_refuses_perturbations_without_noise_and_noise_of_nothing(capsys):
    case, turned = example_data.pixels(), reconstruction.rotation(6, np.random.default_rng(1))
    terms = {"schema": case.schema, "guarantee": Guarantee(epsilon=1.0)}
    with pytest.raises(ParameterError, match="mechanism"):
        release(case.table, mechanism=turned, **terms)
    for epsilon in (math.inf, 1e12):
        with pytest.raises(ParameterError):
            release(case.table, schema=case.schema, mechanism=Sketch(), guarantee=Guarantee(epsilon=epsilon))
    assert not any("erturb" in name for name in sfumato.__all__)
    for kind in ("rotation", "multiplicative", "perturbation"):
        with pytest.raises(SystemExit):
            main(["release", kind, "x.csv"])
    assert "invalid choice" in capsys.readouterr().err
    assert "prepare" in vars(Recipe)


# Reconstruction


def rotated(rows, seed):
    return rows @ reconstruction.rotation(rows.shape[1], np.random.default_rng(seed))


@pytest.mark.parametrize("seed", range(4))
def test_ica_recovers_the_columns_of_a_rotation_of_real_data(seed):
    rows = example_data.pixels().encoded()
    published = rotated(rows, seed)
    assert reconstruction.matched(published, rows).recovered < 0.5  # the rotation does hide them at first sight
    assert reconstruction.matched(reconstruction.independent_components(published, seed=seed), rows).recovered >= 0.8


def test_ica_recovers_nothing_of_a_rotation_of_gaussian_columns():
    rows = np.random.default_rng(3).standard_normal((1800, 6))
    found = [reconstruction.independent_components(rotated(rows, seed), seed=seed) for seed in range(4)]
    assert np.mean([reconstruction.matched(f, rows).recovered for f in found]) < 0.2


def test_nothing_of_the_columns_is_recovered_from_a_release_at_epsilon_1_and_all_without_noise_to_speak_of():
    case = example_data.pixels()
    rows, rng = case.encoded(), np.random.default_rng(4)
    by_chance = [reconstruction.matched(rng.standard_normal(rows.shape), rows).mean for _ in range(100)]
    shares, means = (
        {c.attack: c for c in reconstruction.columns(case, [1.0, 4096.0], repeats=2, secrets=secrets())[part]}
        for part in (slice(0, 3), slice(3, 6))
    )
    for attack in ("ICA", "known pairs", "public P"):
        private, bare = shares[attack].points
        assert private.success == shares[attack].chance == private.bound == 0
        assert bare.success >= 0.8
        assert shares[attack].unprotected >= 0.8
        assert means[attack].points[0].success < means[attack].points[0].bound
    assert means["ICA"].points[0].success <= max(by_chance)
    assert means["ICA"].points[1].success > 10 * max(by_chance)


def test_known_pairs_solve_for_a_rotation_as_soon_as_there_are_enough_of_them():
    rows = example_data.pixels().encoded()
    published = rotated(rows, 5)
    solved = reconstruction.known_pairs(rows[:40], published[:40], published[40:])
    np.testing.assert_allclose(solved, rows[40:], atol=1e-8)
    too_few = reconstruction.known_pairs(rows[:3], published[:3], published[40:])
    assert np.abs(too_few - rows[40:]).max() > 1
    with pytest.raises(ParameterError, match="pairs"):
        reconstruction.known_pairs(rows[:4], published[:5], published)


def test_bits_come_back_from_fewer_columns_than_there_are_bits():
    rng = np.random.default_rng(6)
    bits = rng.random((200, 12)) < 0.5
    secret = reconstruction.projection(12, 3, rng)
    found = reconstruction.most_likely_bits(bits.astype(float) @ secret, secret, None, np.full(12, 0.5))
    assert (found == bits).all()
    with pytest.raises(ParameterError, match="16 bits"):
        reconstruction.most_likely_bits(np.zeros((1, 2)), np.zeros((17, 2)), None, np.full(17, 0.5))


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_the_likeliest_bits_weigh_noise_and_prior(kind):
    """One bit at a time: z = x + noise, so the bit is 1 beyond a threshold that the prior moves."""
    law, rates = NoiseLaw(kind, 1.0), np.array([0.5])
    seen = np.array([[0.4], [0.6]])
    assert reconstruction.most_likely_bits(seen, np.eye(1), law, rates).tolist() == [[False], [True]]
    assert reconstruction.most_likely_bits(seen, np.eye(1), law, np.array([0.9])).tolist() == [[True], [True]]
    assert reconstruction.most_likely_bits(seen, np.eye(1), law, np.array([0.1])).tolist() == [[False], [False]]


def test_guesses_of_bits_stay_under_the_bound_and_randomized_response_reaches_it():
    case = example_data.fair_bits(400, 8, np.random.default_rng(7))
    curves = {c.against: c for c in reconstruction.bits(case, [0.5, 2.0], repeats=2, secrets=secrets(50))}
    for curve in curves.values():
        assert curve.unprotected > 0.99
        for point in curve.points:
            assert point.success < point.bound + 3 * point.error
    answers = curves["randomized response"].points
    assert all(abs(p.success - p.bound) < 3 * p.error for p in answers)
    assert answers[1].success > answers[0].bound + 10 * answers[0].error  # four times the epsilon would be seen
    assert curves["noise alone"].points[1].success > 0.75


def test_the_same_secrets_and_seeds_give_the_same_curves():
    case = example_data.fair_bits(40, 4, np.random.default_rng(7))
    assert len({str(reconstruction.bits(case, [1.0], repeats=1, secrets=secrets(60))) for _ in range(2)}) == 1
    known = linkage.Knowledge.of(linkage.true_bits(case), known=1, targets=40)
    assert len({str(linkage.curves(case, [1.0], known, repeats=1, secrets=secrets(70))) for _ in range(2)}) == 1


def test_matching_forgives_order_sign_and_scale_and_nothing_else():
    rng = np.random.default_rng(8)
    rows = rng.exponential(size=(500, 4))
    found = reconstruction.matched(-3 * rows[:, [2, 0, 3, 1]] + 7, rows)
    np.testing.assert_allclose(found.correlations, 1.0)
    rows[:, 0] = 5.0
    assert reconstruction.matched(rows, rows).correlations.tolist() == pytest.approx([0, 1, 1, 1])
    assert reconstruction.matched(rows[:, 1:3], rows).recovered == 0.5
    assert reconstruction.matched(rng.random((500, 4)), rows).mean < 0.2


# Membership


@pytest.fixture(scope="module")
def game():
    return membership.Game.of(example_data.digits(), "digit", dimension=16, pool=400, seed=1)


def test_likelihoods_tell_members_from_others_without_noise_and_not_at_epsilon_up_to_one_and_a_half(game):
    (curve,) = membership.curves(
        game, [0.5, 1.5, 1000.0], attacks=["likelihood ratio"], shadows=3, runs=16, secrets=secrets(100)
    )
    *private, loose = curve.points
    assert all(abs(point.success - 0.5) < 0.02 for point in private)
    assert all(point.error < 0.01 for point in private)
    assert all(point.success < point.bound for point in curve.points)
    assert loose.success > 0.5 + 6 * loose.error
    assert curve.unprotected > 0.8


def test_shadow_models_tell_members_of_bare_records_and_not_of_private_synthetic_rows(game):
    (curve,) = membership.curves(game, [1.5], attacks=["shadow models"], shadows=3, runs=10, secrets=secrets(200))
    assert abs(curve.points[0].success - 0.5) < 0.02
    assert curve.unprotected > 0.65


@pytest.mark.slow
def test_membership_stays_within_two_points_of_a_coin_over_many_releases(game):
    for curve in membership.curves(game, [0.5, 1.0, 1.5], shadows=8, runs=40, secrets=secrets(300)):
        assert all(abs(point.success - 0.5) < 0.02 for point in curve.points)
        assert curve.unprotected > 0.65


def test_the_attacker_has_no_record_of_the_pool_and_half_of_the_pool_is_in(game):
    assert not set(game.pool) & set(game.own)
    assert game.members == 200
    with pytest.raises(ParameterError, match="pool"):
        membership.Game.of(example_data.digits(), "digit", pool=1500)


def test_log_density_is_that_of_a_gaussian():
    rng = np.random.default_rng(9)
    root = rng.standard_normal((3, 3))
    component = membership.Component(1.0, rng.standard_normal(3), root @ root.T)
    rows = rng.standard_normal((5, 3))
    wider = multivariate_normal(component.mean, component.covariance + 1e-4 * np.eye(3))
    expected = wider.logpdf(rows) + 1.5 * math.log(2 * math.pi)
    np.testing.assert_allclose(membership.log_density(rows, component), expected)


# Linkage


def test_users_are_linked_by_a_few_bits_without_noise_and_not_at_a_small_epsilon():
    case = example_data.users(300, np.random.default_rng(10))
    known = linkage.Knowledge.of(linkage.true_bits(case), known=4, targets=100, seed=1)
    curves = linkage.curves(case, [0.25, 8.0], known, repeats=2, secrets=secrets(400))
    assert len(curves) == 3
    for curve in curves:
        private, loose = curve.points
        assert curve.unprotected > 0.9
        assert loose.success > 0.7
        assert private.success <= private.bound + 3 * private.error
        assert private.success < 0.05
    whole = linkage.curves(case, [1.0], known, unit="record", repeats=1, secrets=secrets(500))
    assert all(curve.points[0].bound == pytest.approx(math.e / 300) for curve in whole)
    assert all(curve.points[0].success < 0.05 for curve in whole)


def test_scores_count_rare_bits_more_and_equals_are_settled_by_lot():
    weight = linkage.weights(np.array([2, 100]))
    assert weight[0] > 3 * weight[1]
    bits = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    assert linkage.scores(bits, np.array([True, True]), weight).argsort().tolist() == [3, 1, 0, 2]
    assert linkage.scores(bits, np.array([False, False]), weight).argmax() == 3
    rng = np.random.default_rng(11)
    picks = {linkage.picked(np.array([1.0, 3.0, 3.0]), rng).row for _ in range(50)}
    assert picks == {1, 2}
    assert linkage.picked(np.array([0.0, 0.0, 3.0]), rng).eccentricity == pytest.approx(3 / math.sqrt(2))
    assert linkage.picked(np.zeros(3), rng).eccentricity == 0


def test_linkage_is_about_flags_and_needs_somebody_with_enough_of_them():
    with pytest.raises(ParameterError, match="flags"):
        linkage.true_bits(example_data.pixels())
    with pytest.raises(ParameterError, match="smaller"):
        linkage.Knowledge.of(np.eye(5, dtype=bool), known=2)


# Curves and commands


def test_an_error_is_that_of_the_runs_or_the_binomial_one_if_larger():
    assert Point.of(1.0, [0.4, 0.6], 1.0).error == pytest.approx(0.1)
    assert Point.of(1.0, [0.5, 0.5], 1.0, trials=98).error == pytest.approx(0.05)
    assert Point.of(1.0, [0.0, 0.0], 1.0, trials=98).error > 0.009
    point = Point(1.0, 0.25, 0.01, 0.73)
    text = table([Curve("MAP", "sketches", "bits", "bits guessed rightly", 0.5, 1.0, (point,))])
    assert "MAP against sketches (bits): bits guessed rightly" in text
    assert "guessing 0.500, unprotected 1.000" in text


@pytest.mark.parametrize(
    ("line", "curves"),
    [
        ("reconstruction --epsilons 1 64 --repeats 1", 9),
        ("membership --epsilons 2 --repeats 1 --shadows 1 --pool 300 --dimension 4", 2),
        ("linkage --epsilons 2 --repeats 1 --targets 10", 3),
    ],
)
def test_attacks_run_from_the_command_line(line, curves, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["attack", *line.split(), "--json", "--plot", "attack.svg"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["attack"] == line.split()[0]
    assert len(facts["curves"]) == curves
    assert {"epsilon", "success", "error", "bound"} == set(facts["curves"][0]["points"][0])
    assert Path("attack.svg").read_text().count("privacy&#x27;s bound") >= 1


def test_attacks_take_data_from_files(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(12)
    pq.write_table(pa.table({f"f{i}": rng.random(60) < 0.5 for i in range(6)}), "flags.parquet")
    Path("flags.toml").write_text("\n".join(f'[[columns]]\nname = "f{i}"\nkind = "flag"\n' for i in range(6)))
    given = ["--data", "flags.parquet", "--schema", "flags.toml", "--epsilons", "1", "--repeats", "1"]
    assert main(["attack", "reconstruction", *given]) == 0
    printed = capsys.readouterr().out
    assert "ICA against sketches (flags.parquet, one record protected)" in printed
    assert "MAP against randomized response" in printed
    assert main(["attack", "linkage", *given, "--known", "2"]) == 0
    assert "targets found among 60 by 2 known bits" in capsys.readouterr().out
    assert main(["attack", "membership", *given, "--label", "f5"]) == 0
    assert "15 of flags.parquet" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("reconstruction --data nothing.csv", "--schema"),
        ("reconstruction --epsilons 0", "epsilons[0]"),
        ("membership --pool 5000", "pool"),
        ("membership --dimension 65", "dimension"),
        ("linkage --known 200", "known"),
        ("linkage --repeats 0", "repeats"),
        ("linkage --plot x.pdf --targets 1 --repeats 1 --epsilons 1", ".svg"),
    ],
)
def test_what_cannot_be_attacked_is_said_in_one_line(line, says, capsys):
    assert main(["attack", *line.split()]) == 2
    complaint = capsys.readouterr().err
    assert says in complaint
    assert complaint.count("\n") == 1


@pytest.mark.parametrize("kind", ["reconstruction", "membership", "linkage"])
def test_help_shows_an_example(kind, capsys):
    with pytest.raises(SystemExit):
        main(["attack", kind, "--help"])
    assert f"example:\n  sfumato attack {kind}" in capsys.readouterr().out


def test_a_file_is_read_whole_however_its_rows_are_grouped(tmp_path):
    """A block of one row group keeps types that a block of several does not."""
    words = pa.array(["no", "yes"] * 40_000).dictionary_encode()
    fields = [pa.field("a", pa.float32(), nullable=False), pa.field("b", words.type)]
    columns = [pa.array(np.arange(80_000, dtype=np.float32)), words]
    pq.write_table(pa.table(columns, schema=pa.schema(fields)), tmp_path / "t.parquet", row_group_size=50_000)
    schema = sfumato.Schema((Real("a", low=0, high=80_000), Flag("b")))
    case = example_data.TargetTable.read(tmp_path / "t.parquet", schema)
    assert np.array_equal(case.table["a"].to_numpy(), np.arange(80_000))
    assert case.table["b"].to_pylist() == ["no", "yes"] * 40_000


def test_flags_that_keep_missing_cells_are_no_plain_bits():
    for column, plain in ((Flag("b"), True), (Flag("b", missing="level"), False), (Flag("b", weight=2.0), False)):
        schema = Schema((Flag("a"), column))
        case = example_data.TargetTable("two flags", pa.table({"a": [True] * 8, "b": [False] * 8}), schema)
        assert reconstruction.guessable(case) == plain
        if not plain:
            with pytest.raises(ParameterError, match="flags of weight 1 only"):
                linkage.true_bits(case)


def test_tables_of_every_kind_are_read_to_be_attacked(tmp_path):
    data = kinds_table()
    pq.write_table(data, tmp_path / "kinds.parquet")
    case = example_data.TargetTable.read(tmp_path / "kinds.parquet", KINDS)
    expected = KINDS.clip(KINDS.encode(data)) * KINDS.encoding.weights[:, None]
    assert (case.encoded() == expected.T).all()
    assert case.classes("education").tolist() == [0, 1, 2, 3, 1, 1, 3, 0]
    assert case.some(np.array([2, 0])).num_rows == 2
