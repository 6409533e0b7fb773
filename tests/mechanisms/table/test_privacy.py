"""The guarantee of synthetic tables: what one unit moves, what all noise spends, and that nothing else shows the data.

Neighbours are searched: schemas of all kinds of columns, records at the corners of their domains and beyond, one record
or a group, replaced, or added or removed. Runs on both sides have the same noisy outcomes (``audit.recorder``), so what
was fed to each draw, and all that is published, can be compared.
"""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.audit import recorder
from sfumato.audit.block_rows import Copies
from sfumato.audit.recorder import Tape
from sfumato.errors import ParameterError
from sfumato.mechanisms.table import counting
from sfumato.mechanisms.table.budget import Meter, TableMoves, TableScales
from sfumato.mechanisms.table.recipe import Table
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Gaussian, Pure
from sfumato.randomness.secret import Secret
from sfumato.tables.schema import Schema
from tests.support.all_kinds import LEVELS, PLAIN, changed_rows, encoded
from tests.support.short_fits import shorten
from tests.support.table_draws import claim, longest, moved, stage

_HALF_PI = Fraction(math.nextafter(math.pi, 4.0)) / 2  # not less than pi/2
REPLACE, COMES = {"delta": 0.01}, {"delta": 0.01, "neighbours": "add-remove"}
PATHS = {
    "pairs": (Table(method="pairs", rounds=0), REPLACE),
    "label": (Table(method="pairs", rounds=0, label="flag"), REPLACE),
    "a round": (Table(method="pairs", rounds=1), REPLACE),
    "label, two rounds": (Table(method="pairs", rounds=2, label="flag"), REPLACE),
    "label of no share": (Table(method="pairs", rounds=0, label="flag", label_share=0.0), REPLACE),
    "group": (Table(method="pairs", rounds=1, label="flag"), REPLACE | {"group": 3}),
    "add-remove": (Table(method="pairs", rounds=2, label="flag"), COMES),
    "add-remove, group": (Table(method="pairs", rounds=1), COMES | {"group": 2}),
    "pure": (Table(method="pairs", rounds=1, label="flag"), {}),
    "pure, group": (Table(method="pairs", rounds=0), {"group": 4}),
    "pure, add-remove": (Table(method="pairs", rounds=2), {"neighbours": "add-remove"}),
    "Laplace beside a delta": (Table(method="pairs", rounds=1, noise="laplace"), COMES),
    "tree": (Table(method="tree"), REPLACE),
    "tree, label": (Table(method="tree", label="flag"), REPLACE),
    "tree, group": (Table(method="tree", label="flag"), REPLACE | {"group": 3}),
    "tree, add-remove": (Table(method="tree"), COMES | {"group": 2}),
    "tree, pure": (Table(method="tree", label="flag"), {}),
    "copula": (Table(method="copula"), REPLACE),
    "copula, label, group": (Table(method="copula", label="flag"), REPLACE | {"group": 3}),
    "copula, add-remove": (Table(method="copula", label="flag"), COMES),
    "copula, pure": (Table(method="copula", label="flag"), {}),
    "copula, pure, add-remove": (Table(method="copula"), {"neighbours": "add-remove", "group": 2}),
}


@pytest.fixture(autouse=True)
def short_fits(monkeypatch):
    shorten(monkeypatch)


def small_schema(rng, most=7):
    """A few columns of any kinds, always with a flag, of at most so many variables."""
    while True:
        places = [2, *(int(i) for i in rng.permutation(len(PLAIN))[: rng.integers(1, 4)] if i != 2)]
        schema = Schema(tuple((PLAIN, LEVELS)[int(rng.integers(2))][i] for i in places), scale="bounds")
        if 2 <= Table().prepare(schema, Guarantee(epsilon=1.0)).dimension <= most:
            return schema


def neighbours(rng, schema, guarantee, rows=40):
    """Two encoded tables that differ in one unit: a group's records all change, come or go, all in the same way."""
    group = guarantee.group
    one, two = encoded(schema, changed_rows(rng, schema, rows))
    ends = np.repeat(one[:, :1], group, axis=1), np.repeat(two[:, :1], group, axis=1)
    if rng.random() < 0.3:  # or each in its own way
        ends = one[:, :group], two[:, :group]
    others = np.repeat(one[:, group:], int(rng.integers(1, 6)), axis=1)
    if guarantee.neighbours == "add-remove":
        ends = ends[0], ends[1][:, :0]
    pair = tuple(np.hstack([end, others]) for end in ends)
    return pair if rng.random() < 0.5 else pair[::-1]


def prepared_for(recipe, schema, promise, epsilon=1.0):
    prepared = recipe.prepare(schema, Guarantee(epsilon=epsilon, **promise))
    return prepared, calibrate(prepared, prepared.guarantee).level


def published(prepared, level, table, tape):
    """All that leaves a run, as values that can be compared."""
    found = prepared.run(Copies(table), level, recorder.secret(tape))
    beside = {name: file.to_pydict() for name, file in found.beside.items()}
    return found.facts, found.names, [block.to_pylist() for block in found.blocks], beside


def runs(prepared, level, one, two):
    """A run on one table, and one on another with the same noisy outcomes: draws side by side, and what leaves them."""
    tape = Tape()
    again = tape.replay()
    outputs = published(prepared, level, one, tape), published(prepared, level, two, again)
    assert tape.faults == again.faults == again.missing() == []
    return [(draw, again.draws[key]) for key, draw in tape.draws.items()], outputs


# ---- what one unit moves --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS)
def test_no_neighbours_move_counts_or_scores_further_than_the_budget_says_and_some_move_tables_as_far(path):
    recipe, promise = PATHS[path]
    rng, furthest = np.random.default_rng(len(path)), {}
    for epsilon in (1.0, 1.0, 60.0, 60.0, 60.0, 60.0):  # little noise leaves many bins, and rounds that choose tables
        prepared, level = prepared_for(recipe, small_schema(rng), promise, epsilon)
        draws, (output, _) = runs(prepared, level, *neighbours(rng, prepared.schema, prepared.guarantee))
        for one, two in draws:
            share = moved(prepared, one, two) / max(claim(prepared, one, longest(output)), 1e-300)
            assert share <= 1 + 1e-12
            furthest[stage(one)] = max(furthest.get(stage(one), 0.0), share)
    tables = {name: share for name, share in furthest.items() if name not in ("choice", "tree")}
    if recipe.method == "copula":  # rows at the end of two orthogonal vectors are in test_copula
        assert tables.pop("moment") > 0.05
        tables.pop("label", None)  # of categories alone, which may not be among the columns
        assert set(tables) == {"one-way"}
    else:
        found = {"one-way", "round" if recipe.rounds or recipe.method == "tree" else "pair"}
        found |= {"label"} if recipe.shares.label_pairs else set()
        assert set(tables) == found
    assert all(share > 1 - 1e-12 for share in tables.values()), furthest
    if recipe.rounds and recipe.method != "copula":
        assert furthest["tree" if recipe.method == "tree" else "choice"] > 0


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.parametrize("order", [1, 2])
def test_scores_move_as_far_as_the_budget_says_and_no_further(replace, group, order):
    """All neighbours of small tables, against public whole numbers on every side of them."""
    rng, furthest, claimed = np.random.default_rng(1), 0.0, TableMoves(replace, group, order).scores(2)
    sizes, cliques = (3, 2), [(0,), (0, 1)]
    for _ in range(200):
        codes = np.vstack([rng.integers(0, s, 6) for s in sizes]).astype(np.int32)
        public = [rng.integers(-1, 5, np.prod([sizes[c] for c in clique])) for clique in cliques]
        other = codes.copy()
        other[:, :group] = np.array([[rng.integers(s)] for s in sizes])
        other = other if replace else codes[:, group:]
        scores = [
            [
                np.abs(counting.tables(list(some), sizes, [clique]) - held).sum()
                for clique, held in zip(cliques, public, strict=True)
            ]
            for some in (codes, other)
        ]
        furthest = max(furthest, float(np.linalg.norm(np.subtract(*scores).astype(float), order)))
    assert furthest <= claimed * (1 + 1e-12)
    assert furthest > 0.99 * claimed


# ---- what all noise spends ------------------------------------------------------------------------------------------


def spending(prepared, draw, top=0):
    """What a draw spends, as a fraction: claims are roots of whole numbers, and those of choices have a proof."""
    if draw.law == "choice":
        relative = Fraction(draw.scale) * Fraction(claim(prepared, draw))
        return 2 * relative if prepared.order == 1 else relative**2 * _HALF_PI
    if prepared.order == 1:
        return Fraction(claim(prepared, draw, top)) / Fraction(draw.scale)
    if stage(draw) == "moment":
        squared = prepared.moves.group**2 * top**4 * (2 if prepared.moves.replace else 1)
        return Fraction(squared) / Fraction(draw.scale) ** 2
    return Fraction(round(claim(prepared, draw) ** 2)) / Fraction(draw.scale) ** 2


@pytest.mark.parametrize("path", PATHS)
def test_all_that_is_drawn_spends_no_more_than_the_loss_says(path):
    """With exact fractions: the sum of (move/scale)^2 with Gaussian noise, of move/scale with Laplace noise."""
    recipe, promise = PATHS[path]
    rng = np.random.default_rng(2 + len(path))
    for epsilon in (0.05, 1.0, 20.0):
        prepared, level = prepared_for(recipe, small_schema(rng), promise, epsilon)
        tape = Tape()
        output = published(prepared, level, neighbours(rng, prepared.schema, prepared.guarantee)[0], tape)
        draws = [draw for (_, number), draw in tape.draws.items() if number == 1]
        for (place, number), draw in tape.draws.items():
            if number > 1:  # entries off a diagonal
                first = tape.draws[place, 1]
                assert (stage(draw), number) == ("moment", 2)
                assert prepared.order * Fraction(draw.scale) ** 2 >= Fraction(first.scale) ** 2
        laws = {draw.law for draw in draws}
        choosing = recipe.method == "tree" and prepared.dimension > 1 + (recipe.label is not None)
        may_choose = recipe.method == "pairs" and recipe.rounds > 0  # not where every table is too large for its noise
        assert ("choice" in laws) == choosing or may_choose
        assert laws - {"choice"} == {"laplace" if prepared.order == 1 else "gaussian"}
        spent = sum(spending(prepared, draw, longest(output)) for draw in draws)
        budget = 1 / Fraction(level) ** prepared.order
        assert 0.2 * budget < spent <= budget
        loss = prepared.loss(level)
        assert loss == (Pure(1 / level) if prepared.order == 1 else Gaussian(1.0, level))
        assert loss.delta(epsilon) <= prepared.guarantee.delta


def test_a_run_without_rounds_spends_all_that_it_is_given():
    rng = np.random.default_rng(3)
    prepared, level = prepared_for(Table(rounds=0, method="pairs"), Schema((*PLAIN[:3],), scale="bounds"), REPLACE)
    tape = Tape()
    published(prepared, level, neighbours(rng, prepared.schema, prepared.guarantee)[0], tape)
    spent = sum((claim(prepared, draw) / draw.scale) ** 2 for draw in tape.draws.values())
    assert spent == pytest.approx(1 / level**2, rel=1e-9)


class Counted(Secret):
    """A secret that counts its streams."""

    __slots__ = ("streams",)

    def words(self, *context):
        self.streams = getattr(self, "streams", 0) + 1
        return super().words(*context)


@pytest.mark.parametrize("order", [1, 2])
def test_a_meter_refuses_what_would_overspend_before_it_draws(order):
    secret = Counted.for_testing(1)
    meter = Meter(TableScales(TableMoves(replace=True, group=1, order=order), 1.0), secret, "table")
    counts, half = np.arange(4), meter.scales.alike(2, 1.0)
    for place in range(2):
        meter.table(counts, half, "pair", place)
    assert meter.spent == pytest.approx(1.0)
    for refused in (
        lambda: meter.table(counts, 1e3, "pair", 2),
        lambda: meter.scored(counts, 1e3, "scores", 0),
        lambda: meter.choose(counts, 1e3, "tree", 0),
        lambda: meter.moment(np.eye(3, dtype=np.int64), 9, 1e3, "moment"),
    ):
        with pytest.raises(ParameterError, match="nothing was drawn"):
            refused()
    assert secret.streams == 2


@pytest.mark.parametrize(("order", "level"), [(1, 0.7), (1, 5.1), (2, 0.27), (2, 1.0)])
def test_a_meter_adds_up_the_pairs_of_hundreds_of_columns_exactly(order, level):
    """Doubles that are added one by one drift by more than the room that scales leave, and the last is refused."""
    meter = Meter(TableScales(TableMoves(replace=True, group=1, order=order), level), Secret.for_testing(1), "table")
    pairs = 500 * 499 // 2
    scale = meter.scales.alike(pairs, 1.0)
    for _ in range(pairs):
        meter._charge(meter.scales.moves.table, scale)
    assert 1 - 1e-11 < meter.spent <= 1
    with pytest.raises(ParameterError, match="nothing was drawn"):
        meter._charge(meter.scales.moves.table, scale)


@pytest.mark.parametrize("order", [1, 2])
def test_a_meter_counts_more_than_a_step_spends_with_room_for_all_roundings(order):
    """A dozen roundings of 2^-53 are less than 2^-49; what was drawn is compared in exact fractions."""
    rng = np.random.default_rng(8)
    for _ in range(500):
        group, level, count = int(rng.integers(1, 200)), float(np.exp(rng.uniform(-6, 6))), int(rng.integers(1, 900))
        scales = TableScales(TableMoves(replace=True, group=group, order=order), level)
        scale = scales.scores(count, float(rng.uniform(1e-5, 1)))
        meter = Meter(scales, Secret.for_testing(1), "table")
        meter._charge(scales.moves.scores(count), scale)
        exact = Fraction((2 * group) ** order * count) * (Fraction(level) / Fraction(scale)) ** order
        assert Fraction(meter._spent, 1 << 64) > exact * (1 + Fraction(1, 1 << 49))


# ---- nothing else shows the data ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS)
def test_what_leaves_a_run_is_a_function_of_noisy_counts_and_public_facts(path):
    """The same noisy outcomes on other data altogether: everything that is published is the same."""
    recipe, promise = PATHS[path]
    rng = np.random.default_rng(4 + len(path))
    prepared, level = prepared_for(recipe, small_schema(rng), promise)
    one, two = encoded(prepared.schema, changed_rows(rng, prepared.schema, 50))
    others = [two, np.repeat(one[:, :1], 50, axis=1)]
    if prepared.guarantee.neighbours == "add-remove":
        others += [one[:, :0], np.tile(two, (1, 9))]
    for other in others:
        _, (first, second) = runs(prepared, level, one, other)
        assert first == second


@pytest.mark.parametrize("promise", [REPLACE, COMES])
def test_records_that_break_what_is_forbidden_are_protected_as_all_others(promise):
    """They are counted where they are; that they are there shows in noisy counts alone."""
    schema = Schema((PLAIN[1], PLAIN[2], PLAIN[4]), scale="bounds")
    recipe = Table(rounds=1, forbid=("flag = true and category = 'x'", "integer > 5 and category = 'y'"))
    prepared, level = prepared_for(recipe, schema, promise, 20.0)
    rng = np.random.default_rng(7)
    one, two = encoded(schema, changed_rows(rng, schema, 60))
    broken = encoded(schema, [((7, b"true", b"x"), (7, b"true", b"y"))] * 60)
    for other in (two, *broken):
        _, (first, second) = runs(prepared, level, one, other)
        assert first == second
    assert not any(row["flag"] and row["category"] == "x" for block in first[2] for row in block)


def test_the_number_of_rows_shows_where_it_is_public_and_nowhere_else():
    rng = np.random.default_rng(5)
    for path, public in (("label", True), ("add-remove", False)):
        recipe, promise = PATHS[path]
        prepared, level = prepared_for(dataclasses.replace(recipe, rounds=0), Schema(PLAIN[:3]), promise)
        table = encoded(prepared.schema, changed_rows(rng, prepared.schema, 77))[0]
        facts, _, blocks, _ = published(prepared, level, table, Tape())
        assert (facts["mechanism"]["records"] == 77) == public
        assert (sum(map(len, blocks)) == 77) == public


def test_hostile_cells_fall_into_cells_of_their_variables():
    """A code out of range would be an error, or a count that no budget covers."""
    rng = np.random.default_rng(6)
    for columns in (PLAIN, LEVELS):
        prepared = Table().prepare(Schema(columns, scale="bounds"), Guarantee(epsilon=1.0))
        block = np.hstack(encoded(prepared.schema, changed_rows(rng, prepared.schema, 400)))
        wild = rng.choice([math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -0.0, 0.5], block.shape)
        for some in (block, wild):
            codes = prepared.partition.codes(some)
            assert (codes >= 0).all()
            assert (codes.max(axis=1) < prepared.partition.sizes).all()
            flat = counting.one_ways(codes, prepared.partition.sizes)
            assert flat.size == sum(prepared.partition.sizes) + 1
            assert flat[:-1].sum() == codes.size
