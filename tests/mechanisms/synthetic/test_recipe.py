"""Synthetic rows: losses of two stages, contract, audits with broken twins, bad input."""

import json
import math

import numpy as np
import pyarrow as pa
import pytest

from sfumato.audit.bound import lower_bound
from sfumato.errors import ParameterError, ReleaseError
from sfumato.estimation import gaussians
from sfumato.files.open_table import open_table
from sfumato.mechanisms.synthetic import stages
from sfumato.mechanisms.synthetic.recipe import Synthetic, best_share
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Composed, Gaussian, Laplace
from sfumato.projection.unit_ball import Turned
from sfumato.randomness.secret import Secret
from sfumato.tables.columns import Category, Real
from sfumato.tables.labels import Labelled
from sfumato.tables.schema import Schema
from support.evidence import agrees
from support.mixed import MIXED, MODES, mixed_table
from support.rows import table_rows

NOISES = ["laplace", "gaussian"]
RELATIONS = ["replace", "add-remove"]
MODES |= {f"{mode} in one pass": recipe | {"centring": "public"} for mode, recipe in MODES.items() if mode != "flag"}
CASES = [(m, relation) for m in MODES for relation in RELATIONS if "public" not in m or relation == "replace"]


class Block:
    """An engine of one block in memory."""

    def __init__(self, block):
        self.block = np.asarray(block, float)

    def sum(self, function):
        return function(0, self.block)


def prepare(schema=MIXED, noise="laplace", neighbours="replace", epsilon=1.0, group=1, **recipe):
    promise = Guarantee(epsilon=epsilon, delta=0.0 if noise == "laplace" else 1e-3, neighbours=neighbours, group=group)
    usual = {"dimension": 2, "seed": 7, "noise": noise, "centring": "private"}
    return Synthetic(**(usual | recipe)).prepare(schema, promise)


def run(prepared, data, seed=1, level=None):
    level = calibrate(prepared, prepared.guarantee).level if level is None else level
    rows = table_rows(open_table(data, prepared.schema), prepared.schema)
    published = prepared.run(rows, level, Secret.for_testing(seed))
    return published, np.concatenate(list(published.blocks), axis=1)


# ---- the losses of the stages ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", ["best", "paper", (0.5, 0.5)])
def test_pure_stages_add_up_to_epsilon(split):
    prepared = prepare(split=split, epsilon=2.0)
    level = calibrate(prepared, prepared.guarantee).level
    first, second = prepared.levels(level)
    assert 1 / first + 1 / second == pytest.approx(2.0, rel=1e-9)
    assert 1 / first == pytest.approx(2.0 * prepared.share, rel=1e-9)
    assert prepared.loss(level) == Composed([Laplace(1.0, first), Laplace(1.0, second)])
    assert prepared.loss(level).delta(2.0) == 0 < prepared.loss(level * 0.999).delta(2.0)


def test_gaussian_stages_compose_to_the_gaussian_of_the_level():
    prepared = prepare(noise="gaussian", split="paper")
    first, second = prepared.levels(3.0)
    assert first**-2 == pytest.approx(0.3 * 3.0**-2)
    for epsilon in (0.0, 0.5):
        assert prepared.loss(3.0).delta(epsilon) == pytest.approx(Gaussian(1.0, 3.0).delta(epsilon), rel=1e-9)
        slow = Composed([Gaussian(1.0, first), Gaussian(1.0, second)]).delta(epsilon)
        assert prepared.loss(3.0).delta(epsilon) <= slow <= prepared.loss(3.0).delta(epsilon) + 1e-3


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("mode", "relation"), CASES)
def test_each_stage_has_noise_of_its_level_times_its_sensitivity(noise, mode, relation):
    prepared = prepare(noise=noise, neighbours=relation, **MODES[mode])
    stages = (prepared.mean, prepared.moment)
    for scale, level, stage in zip(prepared.scales(2.0), prepared.levels(2.0), stages, strict=True):
        if stage is None:
            assert (scale, level) == (0.0, math.inf)
        else:
            assert level * stage.sensitivity <= scale <= level * stage.sensitivity * (1 + 1e-12)


@pytest.mark.parametrize("noise", NOISES)
def test_one_pass_has_all_of_the_budget(noise):
    prepared = prepare(noise=noise, centring="public", epsilon=2.0)
    level = calibrate(prepared, prepared.guarantee).level
    assert prepared.levels(level)[1] == level
    alone = Laplace(1.0, level) if noise == "laplace" else Gaussian(1.0, level)
    for epsilon in (0.5, 2.0):
        assert prepared.loss(level).delta(epsilon) == pytest.approx(alone.delta(epsilon), rel=1e-9)
    assert prepared.loss(level * 0.999).delta(2.0) > prepared.guarantee.delta


@pytest.mark.parametrize("order", [1, 2])
def test_the_best_split_has_the_least_predicted_error(order):
    power = 2 if order == 1 else 1

    def error(share):
        return 3.0 / share**power + 70.0 / (1 - share) ** power

    best = best_share(3.0, 70.0, order)
    assert error(best) < min(error(best * 1.02), error(best * 0.98), error(0.3))


def test_more_columns_move_the_budget_to_the_second_moment():
    shares = [prepare(Schema.reals(40, low=0, high=1), "gaussian", dimension=p).share for p in (2, 8, 40)]
    assert shares[0] > shares[1] > shares[2] > 0.05


def test_rows_are_read_once_but_for_classes_and_what_needs_two_stages():
    assert Synthetic().about == Synthetic(label="y").about == "public"
    assert Synthetic(label="y", kind="classes").about == "private"
    assert Synthetic(label="y", kind="classes", centring="public").about == "public"
    two_stages = [{"normalise": "twice"}, {"split": "paper"}]
    assert {Synthetic(**asked).about for asked in two_stages} == {"private"}


# ---- the dimension ---------------------------------------------------------------------------------------------------


def chosen(noise="laplace", epsilon=1.0, schema=None, neighbours="replace", **recipe):
    promise = Guarantee(epsilon=epsilon, delta=0.0 if noise == "laplace" else 1e-6, neighbours=neighbours)
    recipe = {"centring": "private"} | recipe
    return Synthetic(noise=noise, **recipe).prepare(schema or Schema.reals(60, low=0, high=1), promise).dimension


def test_gaussian_noise_leaves_the_dimension_as_it_is_whatever_the_budget():
    assert {chosen("gaussian", epsilon, expected_rows=n) for epsilon in (0.1, 10.0) for n in (100, 10**6)} == {60}


def test_laplace_noise_has_a_dimension_that_grows_with_budget_and_rows():
    found = [
        chosen(epsilon=epsilon, expected_rows=n) for epsilon, n in ((0.1, 100), (1, 2000), (1, 10**4), (10, 10**6))
    ]
    assert found[0] == 1
    assert found[1] < found[2] < found[3] == 60
    assert chosen(expected_rows=10**4) == chosen()
    assert chosen(epsilon=0.5, expected_rows=2 * 10**4) == chosen(epsilon=1.0, expected_rows=10**4)
    assert chosen(expected_rows=10**4, centring="public") < chosen(expected_rows=10**4)
    assert chosen(label="c0", expected_rows=10**4) < chosen(expected_rows=10**4)


def test_classes_share_the_records_and_the_room_for_covariances():
    columns = [Real(f"x{i}", 0, 1) for i in range(60)]
    few, many = (Schema([*columns, Category("c", list(range(k)))]) for k in (2, 400))
    recipe = {"label": "c", "kind": "classes", "expected_rows": 10**4}
    assert chosen(schema=few, **recipe) > chosen(schema=many, **recipe)
    assert 400 * chosen("gaussian", schema=many, **recipe) ** 2 <= 2**20 < 400 * 60**2


@pytest.mark.parametrize(("label", "kind", "most"), [(None, "values", 1024), ("group", "classes", 512)])
def test_all_covariances_together_have_at_most_a_million_numbers(label, kind, most):
    schema = Schema([Category("group", ["a", "b", "c", "d"]), Real("x", 0, 1)])
    labelled = Labelled.of(schema, label, kind)
    assert [stages.largest_dimension(labelled, columns) for columns in (1, most - 1, most, most + 1, 3000)] == [
        *(1, most - 1, most, most, most)
    ]


@pytest.mark.parametrize(("label", "kind", "most"), [(None, "values", 1294), ("group", "classes", 646)])
def test_more_covariances_than_a_manifest_holds_are_refused(label, kind, most):
    """40 bytes for each of (p + 1)^2 numbers for each class, and 2^26 bytes in all."""
    labelled = Labelled.of(Schema([Category("group", ["a", "b", "c", "d"]), Real("x", 0, 1)]), label, kind)
    stages.check_dimension(labelled, most)
    with pytest.raises(ParameterError, match=f"at most {most} here"):
        stages.check_dimension(labelled, most + 1)


def test_the_dimension_is_known_before_any_row_is_read():
    """It comes from ``prepare``, which sees none; two tables of other sizes get rows of as many numbers."""
    for rows in (3, 300):
        _, out = run(prepare(dimension=None, rows=5), mixed_table(np.random.default_rng(1), rows))
        assert len(out) == chosen(schema=MIXED)


# ---- contract --------------------------------------------------------------------------------------------------------


def candidates(rng, count=60):
    """Rows of the mixed schema, many of them at corners, some beyond all bounds, some of no class."""
    block = np.zeros((7, count))
    block[0], block[5], block[6] = rng.uniform(-5, 7, count), rng.uniform(-2, 2, count), rng.uniform(-4, 12, count)
    block[1] = rng.random(count) < 0.5
    corner = rng.random(count) < 0.6
    block[6, corner] = rng.choice([-2.0, 10.0], corner.sum())
    block[0, ::6], block[5, ::8], block[0, 1::9] = np.inf, np.nan, 0.0
    city = rng.integers(0, 4, count)
    for value in range(3):
        block[2 + value] = city == value
    return block


def moved_norm(change, stage):
    """The norm that the noise protects against, of a move of one stage's coarsened sums."""
    change = change.astype(float)
    if stage.order == 1:
        return np.abs(change).sum()
    if change.ndim == 1:
        return np.linalg.norm(change)
    return math.sqrt(np.square(change[:, : stage.squares]).sum() + 2 * np.square(change[:, stage.squares :]).sum())


def stages_of(prepared, columns, centre):
    """Each stage with its coarsened sums of each table."""
    mean, moment = prepared.mean, prepared.moment
    if mean is not None:
        yield mean, [mean.moved(mean.exact(Block(c))) for c in columns]
    yield moment, [moment.moved(moment.exact(Block(c), None if mean is None else centre)[0]) for c in columns]


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("mode", "relation"), CASES)
@pytest.mark.parametrize(("way", "scale"), [(None, "raw"), ("never", "raw"), (None, "bounds")])
def test_no_neighbour_moves_a_stage_further_than_stated(noise, mode, relation, way, scale):
    schema = Schema(MIXED.columns, scale=scale)
    prepared = prepare(schema, noise=noise, neighbours=relation, normalise=way, **MODES[mode])
    rng = np.random.default_rng(3)
    block, base = candidates(rng), candidates(rng, 5)
    centre = prepared.frame.centre(rng.uniform(-0.3, 0.3, prepared.frame.dim) * prepared.frame.one)
    columns = [np.column_stack([base, row]) for row in block.T]
    for stage, (alone, *found) in stages_of(prepared, [base, *columns], centre):
        same = np.ones((block.shape[1],) * 2, bool)
        if "public" in mode:
            codes = prepared.labelled.codes(block)
            same = codes[:, None] == codes
        pairs = [moved_norm(f - alone, stage) for f in found] if relation == "add-remove" else [
            moved_norm(f - g, stage) for i, f in enumerate(found) for j, g in enumerate(found) if i < j and same[i, j]
        ]  # fmt: skip
        assert max(pairs) <= stage.sensitivity
        if way is None and scale == "raw":  # about the low end of their bounds, no two rows are opposite
            assert max(pairs) > stage.sensitivity * 0.5


@pytest.mark.parametrize("noise", NOISES)
def test_two_rows_attain_what_one_pass_is_said_to_move(noise):
    """Their images are told apart most by second moments and sums together: at a right angle with the constant."""
    schema = Schema.reals(3, low=-1, high=1)
    for p in (2, 3):
        moment = prepare(schema, noise, centring="public", dimension=p).moment
        a, w = moment.constant / moment.turned.top, moment.turned.matrix
        angles = [math.acos(-a * a)] if noise == "gaussian" else np.linspace(0, math.pi, 40)
        turns = [0.0] if noise == "gaussian" else np.linspace(0, math.pi, 40)
        worst = 0.0
        for turn in turns:
            rows = (
                w[:, 0] * math.cos(turn) + w[:, 1] * math.sin(turn),
                w[:, 1] * math.cos(turn) - w[:, 0] * math.sin(turn),
            )
            sums = [
                moment.moved(
                    moment.exact(Block(rows[0][:, None] * math.cos(t) + rows[1][:, None] * math.sin(t)), None)[0]
                )
                for t in [0.0, *angles]
            ]
            worst = max(worst, *(moved_norm(x - sums[0], moment) for x in sums[1:]))
        assert worst <= moment.sensitivity
        assert worst > moment.sensitivity * (0.999 if noise == "gaussian" else 0.7)


@pytest.mark.parametrize("noise", NOISES)
def test_a_group_moves_as_many_times_as_far(noise):
    one, three = (prepare(noise=noise, group=g, **MODES["classes"]) for g in (1, 3))
    assert three.mean.sensitivity == pytest.approx(3 * one.mean.sensitivity)
    assert three.moment.reach == pytest.approx(3 * one.moment.reach)
    moved = [x.moment.sensitivity * x.moment.unit for x in (one, three)]
    assert moved[1] == pytest.approx(3 * moved[0], rel=1e-3)


def test_adding_a_row_leaves_all_others_as_they_were_whatever_the_blocks():
    schema = Schema.reals(3, low=-1, high=1)
    prepared = prepare(schema, neighbours="add-remove")
    data = np.random.default_rng(4).standard_normal((70_001, 3))
    once = prepare(schema, neighbours="add-remove", centring="public")
    centre = prepared.frame.centre(np.array([1e5, -2e5, 3e4]))

    def exact(part):
        rows = table_rows(open_table(part, schema), schema)
        return prepared.mean.exact(rows), prepared.moment.exact(rows, centre)[0], once.moment.exact(rows, None)[0]

    for whole, less, one in zip(exact(data), exact(data[1:]), exact(data[:1]), strict=True):
        assert (whole - less == one).all()


def test_a_release_is_the_same_however_it_is_cut_into_blocks():
    data = np.random.default_rng(5).standard_normal((66_000, 3))
    schema, outs = Schema.reals(3, low=-1, high=1), []
    prepared = prepare(schema)
    for threads in (1, 3):
        rows = table_rows(open_table(data, schema), schema, threads=threads)
        published = prepared.run(rows, 1.0, Secret.for_testing(1))
        outs.append((json.dumps(published.facts), np.concatenate(list(published.blocks), axis=1)))
    assert outs[0][0] == outs[1][0]
    assert (outs[0][1] == outs[1][1]).all()


# ---- audits ----------------------------------------------------------------------------------------------------------


def audited(prepared, first, second, level, *, less=1.0):
    """A lower bound on the epsilon of stage 2, from many draws of its noise on two neighbouring tables."""
    moment, centre = prepared.moment, None if prepared.mean is None else np.zeros(prepared.frame.dim, np.int64)
    one, two = (moment.moved(moment.exact(Block(rows), centre)[0]) for rows in (first, second))
    scale = prepared.scales(level)[1] * less
    scores = []
    for seed, truth in enumerate((one, two)):
        words = Secret.for_testing(seed).words("audit")
        drawn = np.array([moment.protected(truth, scale, words).ravel() for _ in range(8_000)])
        if moment.order == 1:
            score = (np.abs(drawn - two.ravel()) - np.abs(drawn - one.ravel())).sum(axis=1) / scale
        else:
            squared = scale**2 * np.where(np.arange(moment.entries) < moment.squares, 1, 0.5)
            score = ((drawn - (one + two).ravel() / 2) * (one - two).ravel() / squared).sum(axis=1)
        scores.append(np.round(score, 9))
    return lower_bound(*scores, delta=prepared.guarantee.delta)


@pytest.mark.parametrize(
    ("noise", "p", "relation", "recipe"),
    [
        ("laplace", 1, "replace", {"split": (0.01, 0.99)}),
        ("gaussian", 2, "add-remove", {"split": (0.01, 0.99)}),
        ("laplace", 1, "replace", {"centring": "public"}),
        ("gaussian", 2, "replace", {"centring": "public"}),
    ],
)
def test_audits_leave_the_truth_standing_and_refute_broken_twins(noise, p, relation, recipe, monkeypatch):
    """Pairs that attain the sensitivity, or nearly: along W or across it, there or not."""
    prepared = prepare(Schema.reals(3, low=-1, high=1), noise, relation, dimension=p, **recipe)
    level = calibrate(prepared, prepared.guarantee).level
    along = prepared.moment.turned.matrix[:, :1]
    across = prepared.moment.turned.matrix[:, 1:] if p == 2 else np.linalg.svd(along)[0][:, 1:2]
    a = prepared.moment.constant / prepared.moment.turned.top  # 0 in two stages
    turn = math.acos(-(a * a if noise == "gaussian" else a / 2))
    other = along * math.cos(turn) + across * math.sin(turn) if relation == "replace" else np.empty((3, 0))
    honest = audited(prepared, along, other, level)
    assert not honest.refutes(1.0)
    assert honest.epsilon > (0.5 if noise == "laplace" else 0.2)
    assert audited(prepared, along, other, level, less=0.4).refutes(1.0)
    image = Turned.image
    monkeypatch.setattr(Turned, "image", lambda self, rows: 2 * image(self, rows))  # as if rows were twice as long
    monkeypatch.setattr("sfumato.numerics.lattice._check_size", lambda *_: None)
    assert audited(prepared, along, other, level).refutes(1.0)


# ---- what is published -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", NOISES)
def test_the_noise_has_the_scale_that_the_manifest_says(noise):
    prepared = prepare(Schema.reals(3, low=-1, high=1), noise, dimension=3, epsilon=3.0)
    level = calibrate(prepared, prepared.guarantee).level
    data = np.random.default_rng(6).uniform(-1, 1, (2000, 3))
    facts = run(prepared, data, 1, level)[0].facts["mechanism"]
    truth = (data / np.linalg.norm(data, axis=1)[:, None]).mean(axis=0)
    stated = facts["mean"]["standard_deviation"]
    assert stated / 10 < np.linalg.norm(np.array(facts["centre"]) - truth) * 2000 < stated * 10
    (first, second), mean, moment = prepared.scales(level), prepared.mean, prepared.moment
    sums = mean.protected(np.zeros(20_000, np.int64), first, Secret.for_testing(1).words("x")) / mean.frame.one
    zeros, words = np.zeros((1, moment.entries), np.int64), Secret.for_testing(2).words("x")
    drawn = np.array([moment.protected(zeros, second, words)[0] for _ in range(4000)]) * moment.unit
    diagonal = facts["moments"]["standard_deviation"]
    above = diagonal if noise == "laplace" else diagonal / math.sqrt(2)
    for part, expected in ((sums, stated), (drawn[:, :3], diagonal), (drawn[:, 3:], above)):
        assert agrees(part.ravel() ** 2, expected**2)
        assert not agrees(part.ravel() ** 2, 1.4 * expected**2)


def numbers_in(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from numbers_in(part)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value


@pytest.mark.parametrize("mode", [mode for mode in MODES if "public" not in mode])
def test_the_manifest_has_no_exact_count_under_add_remove(mode):
    rng = np.random.default_rng(7)
    records = 1237
    data = mixed_table(rng, records)
    prepared = prepare(neighbours="add-remove", **MODES[mode])
    published, out = run(prepared, data)
    assert json.loads(json.dumps(published.facts, allow_nan=False)) == published.facts
    assert not any(abs(x - records) < 1e-6 for x in numbers_in(published.facts))
    others = [run(prepared, data, seed)[1].shape[1] for seed in range(2, 8)]
    assert len({out.shape[1], *others}) > 3
    assert not published.by_record
    _, out = run(prepare(neighbours="add-remove", rows=50, **MODES[mode]), data)
    assert out.shape[1] == 50
    _, out = run(prepare(**MODES[mode]), data)
    assert out.shape[1] == records


def test_classes_together_say_better_how_many_records_there_are():
    """So as many rows as that are drawn: here stage 1 would be wrong by hundreds."""
    data = mixed_table(np.random.default_rng(13), 2000)
    prepared = prepare(neighbours="add-remove", split=(0.001, 0.999), epsilon=2.0, **MODES["classes"])
    drawn = [run(prepared, data, seed)[1].shape[1] for seed in range(5)]
    assert max(abs(count - 2000) for count in drawn) < 100
    assert len(set(drawn)) > 1


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("mode", "relation"), CASES)
def test_with_much_budget_the_model_is_that_of_the_rows(noise, mode, relation):
    data = mixed_table(np.random.default_rng(8), 3000)
    prepared = prepare(noise=noise, neighbours=relation, epsilon=1e4, dimension=3, **MODES[mode])
    published, _ = run(prepared, data)
    facts, labelled, frame = published.facts["mechanism"], prepared.labelled, prepared.frame
    block = MIXED.encode(data)
    placed = frame.place(labelled.features(block)) / frame.one
    if prepared.mean is None:
        assert "centre" not in facts
        image = published.matrix.T @ placed
    else:
        assert np.allclose(facts["centre"], placed.mean(axis=1), atol=2e-3)
        centred = placed - np.array(facts["centre"])[:, None]
        image = published.matrix.T @ (centred / np.linalg.norm(centred, axis=0))
    codes = labelled.codes(block) if labelled.classes else np.zeros(3000, int)
    if labelled.numeric:
        image = np.vstack([image, (block[6] - 4) / 6])
    for code, component in enumerate(facts["model"]):
        mine = image[:, codes == code]
        about = labelled.classes or prepared.mean is None
        mean = mine.mean(axis=1) if about else np.append(np.zeros(3), mine.mean(axis=1)[3:])
        covariance = mine @ mine.T / mine.shape[1] - np.outer(mean, mean)
        assert np.allclose(component["mean"], mean, atol=5e-3)
        assert np.allclose(component["covariance"], covariance, atol=5e-3)
        assert component["weight"] == pytest.approx(mine.shape[1] / 3000, abs=5e-3)


@pytest.mark.parametrize("noise", NOISES)
def test_the_noise_of_a_class_mean_is_not_taken_for_covariance(noise):
    """What is added back to the covariance is the variance that the mean has over draws of the noise."""
    prepared = prepare(noise=noise, **MODES["classes"])
    moment, scale, records = prepared.moment, prepared.scales(1.0)[1], 400.0
    fitting = moment.fitting(scale, "none")
    exact = np.zeros((3, 3, 3), np.int64)
    exact[:] = np.diag([0.3, 0.4, 1.0]) * records * moment.turned.top**2
    words, errors, added = Secret.for_testing(1).words("x"), [], []
    for _ in range(1500):
        noisy = moment.whole(moment.protected(moment.moved(exact), scale, words))[0]
        (found,) = fitting.classes(noisy[None], np.array([records]))
        plain = np.trace(noisy[:2, :2]) / records - found.mean @ found.mean
        errors.append(found.mean)
        added.append((np.trace(found.covariance) - plain) / 2)
    assert np.ptp(added) < 1e-9
    assert agrees(np.ravel(errors) ** 2, added[0])
    assert not agrees(np.ravel(errors) ** 2, 1.5 * added[0])


def test_covariances_are_shrunk_as_was_found_best_unless_told_otherwise(monkeypatch):
    used, repaired = set(), gaussians.repaired

    def spied(matrix, **options):
        used.add((options["shrink"], options["floor"] > 0))
        return repaired(matrix, **options)

    monkeypatch.setattr(gaussians, "repaired", spied)
    data = mixed_table(np.random.default_rng(14), 20)
    best = {"none": ("spectrum", False), "values": ("spectrum", True), "classes": ("spectrum", False)}
    for mode, expected in best.items():
        for recipe, wanted in (({}, expected), ({"shrink": "none"}, ("none", False))):
            used.clear()
            run(prepare(**MODES[mode], **recipe), data)
            assert used == {wanted}


def test_public_classes_are_said_to_be_unprotected():
    published, _ = run(prepare(**MODES["public"]), mixed_table(np.random.default_rng(9), 100))
    assert any("not protected" in warning for warning in published.facts["warnings"])
    weights = [c["weight"] for c in published.facts["mechanism"]["model"]]
    assert all(w * 100 == pytest.approx(round(w * 100)) for w in weights)


# ---- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("mode", "relation"), CASES)
def test_bad_rows_become_what_the_schema_says(noise, mode, relation):
    """Zero rows, a constant column, an empty class, labels beyond their bounds or unseen, one row alone."""
    data = pa.table(
        {
            "a": [0.0, 0.0, 99.0, None],
            "b": [False, False, True, None],
            "c": ["x", "nowhere", "x", None],
            "d": [0.0, 0.0, 0.0, 0.0],
            "y": [99.0, -99.0, None, 4.0],
        }
    )
    for part in (data, data[:1]):
        for way in (None, "never"):
            prepared = prepare(noise=noise, neighbours=relation, rows=20, normalise=way, **MODES[mode])
            published, out = run(prepared, part)
            assert np.isfinite(out).all()
            assert out.shape == (2 + (prepared.labelled.column is not None), 20)
            if prepared.labelled.numeric:
                assert (out[-1] >= -2).all()
                assert (out[-1] <= 10).all()
            for component in published.facts["mechanism"]["model"]:
                assert np.linalg.eigvalsh(np.array(component["covariance"])).min() > -1e-12


def test_an_empty_class_is_never_drawn_when_counts_are_public():
    data = mixed_table(np.random.default_rng(10), 200)
    kept = data.filter(pa.array([c != "y" for c in data["c"].to_pylist()]))
    _, out = run(prepare(**MODES["public"]), kept)
    assert set(out[-1]) == {0.0, 2.0}


@pytest.mark.parametrize(("mode", "relation"), CASES)
def test_no_rows_are_an_error_only_where_their_number_is_public(mode, relation):
    empty = mixed_table(np.random.default_rng(11), 1)[:0]
    prepared = prepare(neighbours=relation, **MODES[mode])
    if relation == "replace":
        with pytest.raises(ReleaseError, match="no rows"):
            run(prepared, empty)
    else:
        assert run(prepared, empty)[1].shape[1] >= 1


@pytest.mark.parametrize(
    ("recipe", "promise", "message"),
    [
        ({"dimension": 8}, {}, "at most 7"),
        ({"dimension": 7, "label": "y"}, {}, "at most 6"),
        ({"label": "nobody"}, {}, "must name a column"),
        ({"label": "y", "kind": "classes"}, {}, "kind='values'"),
        ({"label": "c", "kind": "values"}, {}, "kind='classes'"),
        ({"counts": "public"}, {}, "about classes"),
        ({"label": "c", "kind": "classes", "counts": "public"}, {"neighbours": "add-remove"}, "neighbours='replace'"),
        ({"noise": "gaussian"}, {}, "delta > 0"),
        ({}, {"unit": "attribute"}, "unit='record'"),
        ({}, {"unit": "edge"}, "unit='record'"),
        ({"split": (0.5, 0.6)}, {}, "add up to 1"),
        ({"split": "worst"}, {}, "split must be"),
        ({"rows": 0}, {}, "rows must be"),
        ({"label_weight": 0.0}, {}, "label_weight"),
        ({"normalise": "thrice"}, {}, "normalise"),
        ({"shrink": True}, {}, "shrink must be one of"),
        ({"dimension": 0}, {}, "dimension"),
        ({"expected_rows": -1}, {}, "expected_rows"),
        ({"centring": "none"}, {}, "centring"),
        ({"centring": "public", "normalise": "twice"}, {}, "one stage"),
        ({"centring": "public", "split": "paper"}, {}, "nothing to split"),
    ],
)
def test_what_cannot_be_promised_is_refused_before_data_is_read(recipe, promise, message):
    with pytest.raises(ParameterError, match=message):
        Synthetic(**({"dimension": 2} | recipe)).prepare(MIXED, Guarantee(**({"epsilon": 1.0} | promise)))


def test_an_epsilon_beyond_all_grids_is_refused():
    prepared = prepare(epsilon=1e-9)
    with pytest.raises(ParameterError, match="no grid"):
        run(prepared, mixed_table(np.random.default_rng(12), 10))


def test_a_label_is_predicted_as_what_its_column_is():
    promise = Guarantee(epsilon=1.0, delta=1e-6)
    for label, kind in (("c", "classes"), ("b", "classes"), ("y", "values"), (None, "values")):
        prepared = Synthetic(dimension=2, label=label, noise="gaussian", seed=1).prepare(MIXED, promise)
        assert prepared.recipe.kind == prepared.labelled.kind == kind
        stated = Synthetic(dimension=2, label=label, kind=kind, noise="gaussian", seed=1).prepare(MIXED, promise)
        assert prepared.recipe == stated.recipe
