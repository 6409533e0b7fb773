"""Runs on neighbours with the same outcomes: nothing but the noise may carry what the data say."""

import math
import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.audit import recorder
from sfumato.audit.block_rows import Copies, Ready
from sfumato.audit.grey_box import greybox
from sfumato.errors import ReleaseError
from sfumato.mechanisms.chosen_sketch import ChosenSketch
from sfumato.mechanisms.components import Components
from sfumato.mechanisms.covariance import Covariance, PreparedCovariance
from sfumato.mechanisms.distances import NoisyDistances
from sfumato.mechanisms.graph_pairs import EdgeNoise, EdgeResponse
from sfumato.mechanisms.graph_sketch import GraphSketch
from sfumato.mechanisms.histogram import Histogram
from sfumato.mechanisms.responses import PreparedResponses, RandomizedResponse
from sfumato.mechanisms.sketch import PreparedSketch, Sketch
from sfumato.mechanisms.synthetic.recipe import PreparedSynthetic, Synthetic
from sfumato.numerics.lattice import InputGrid
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.projection.space import Space
from sfumato.tables.columns import Category, Flag, Id, Real
from sfumato.tables.schema import Schema

COLUMNS = [Real("a", -1, 1, missing=0.5), Flag("f"), Category("c", ["x", "y", "z"]), Real("b", 0, 10, weight=0.3)]
TABLE = Schema([*COLUMNS, Id("who")], scale="raw")
ANSWERS = Schema([Flag("f"), Category("c", ["x", "y", "z"]), Id("who")])
CLIPPED = Schema([*COLUMNS, Id("who")], norm="l2", norm_bound=1.5, scale="raw")
VALUE, COMES, SLACK = {"unit": "attribute"}, {"neighbours": "add-remove"}, {"delta": 0.01}

NUMBERS = st.one_of(
    st.none(),
    st.sampled_from([math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -0.0, 1.0, -1.0, 10.0]),
    st.floats(-2, 12),
)
ROWS = st.fixed_dictionaries(
    {
        "a": NUMBERS,
        "f": st.sampled_from([True, False, None]),
        "c": st.sampled_from(["x", "y", "z", "nowhere", "", None]),
        "b": NUMBERS,
        "who": st.sampled_from(["ann", "bob", "", None]),
    }
)
KINDS = pa.schema(
    [("a", pa.float64()), ("f", pa.bool_()), ("c", pa.string()), ("b", pa.float64()), ("who", pa.string())]
)


def table(rows):
    return pa.Table.from_pylist(rows, KINDS)


@st.composite
def replaced(draw, least=1, *, value=False):
    """Two tables that differ in one record, or in one value of it; ids are public, so they stay."""
    rows = draw(st.lists(ROWS, min_size=least, max_size=5))
    place, other = draw(st.integers(0, len(rows) - 1)), draw(ROWS)
    keys = [draw(st.sampled_from(["a", "f", "c", "b"]))] if value else ["a", "f", "c", "b"]
    changed = rows[place] | {key: other[key] for key in keys}
    return table(rows), table([*rows[:place], changed, *rows[place + 1 :]])


@st.composite
def removed(draw):
    """Two tables of which one has one record more, anywhere; the other may be empty."""
    rows = draw(st.lists(ROWS, min_size=1, max_size=5))
    place = draw(st.integers(0, len(rows) - 1))
    return table(rows), table(rows[:place] + rows[place + 1 :])


def near(pair_table):
    """Rows of a l2 ball of radius 0.4: the second moves one number a little, within its bounds."""
    rows = pair_table.to_pylist()
    rows[0] |= {"a": 0.1}
    return table(rows), table([rows[0] | {"a": 0.4}, *rows[1:]])


TABLES = {
    "sketch of values": (Sketch(dimension=3, seed=1), TABLE, VALUE, replaced(value=True)),
    "sketch in a space": (Sketch(space=Space(TABLE, dimension=3, seed=1)), TABLE, VALUE, replaced(value=True)),
    "sketch of records": (Sketch(dimension=3, projection="gaussian", noise="gaussian"), TABLE, SLACK, replaced()),
    "sketch of clipped rows": (Sketch(dimension=2, projection="rademacher"), CLIPPED, {}, replaced()),
    "sketch of a ball": (
        Sketch(),
        TABLE,
        {"change": Change.l2(0.4)},
        st.lists(ROWS, min_size=1, max_size=4).map(table).map(near),
    ),
    "fresh sketch": (
        Sketch(dimension=2, projection="gaussian", noise="gaussian"),
        TABLE,
        SLACK | {"change": Change.l2(0.4), "projection": "fresh"},
        st.lists(ROWS, min_size=1, max_size=4).map(table).map(near),
    ),
    "responses": (RandomizedResponse(), ANSWERS, {}, replaced()),
    "responses of values": (RandomizedResponse(), ANSWERS, VALUE, replaced(value=True)),
    "responses of levels": (RandomizedResponse(levels=3), TABLE, VALUE, replaced(value=True)),
    "distances": (NoisyDistances(noise="laplace"), TABLE, {}, replaced(2)),
    "distances of values": (NoisyDistances(), TABLE, VALUE | SLACK, replaced(2, value=True)),
    "components": (Components(dimension=2), TABLE, {}, replaced()),
    "components, Gaussian": (Components(dimension=2, noise="gaussian"), TABLE, SLACK, replaced()),
    "covariance of values": (Covariance(noise="laplace"), TABLE, VALUE, replaced(value=True)),
    "covariance": (Covariance(centred=True), CLIPPED, SLACK, replaced()),
    "covariance, add-remove": (Covariance(noise="laplace", centred=True), TABLE, COMES, removed()),
    "covariance sketch": (Covariance(noise="sketch", rows=3), TABLE, SLACK | COMES, removed()),
    "histogram": (Histogram(), TABLE, SLACK, replaced()),
    "histogram of pairs, add-remove": (Histogram((("a",), ("c", "b"), ("a", "f"))), TABLE, COMES, removed()),
    "synthetic": (Synthetic(dimension=2, centring="private"), TABLE, {}, replaced()),
    "synthetic, one pass": (Synthetic(dimension=2), TABLE, {}, replaced()),
    "synthetic, label": (Synthetic(dimension=3, label="b", noise="gaussian"), TABLE, SLACK | COMES, removed()),
    "synthetic, classes": (
        Synthetic(dimension=3, label="c", kind="classes", noise="gaussian"),
        TABLE,
        SLACK,
        replaced(),
    ),
    "synthetic, classes, add-remove": (Synthetic(dimension=2, label="f", kind="classes"), TABLE, COMES, removed()),
}


def drawn_faults(name, data):
    recipe, schema, promise, pairs = TABLES[name]
    promise = Guarantee(epsilon=1.0, **promise)
    return greybox(*data.draw(pairs), schema=schema, mechanism=recipe, guarantee=promise).faults


@pytest.mark.parametrize("name", TABLES)
@settings(max_examples=6)
@given(data=st.data())
def test_nothing_but_the_noise_depends_on_a_record(name, data):
    assert drawn_faults(name, data) == ()


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
@settings(max_examples=100)
@given(data=st.data())
def test_nothing_but_the_noise_depends_on_a_record_in_many_examples(name, data):
    assert drawn_faults(name, data) == ()


@settings(max_examples=3)
@given(pair=replaced(2))
def test_nothing_but_the_noise_depends_on_a_record_where_the_dimension_is_chosen(pair):
    recipe = ChosenSketch(choice=0.5, candidates=(1, 4), sketch=Sketch(dimension=1, seed=1))
    found = greybox(*pair, schema=TABLE, mechanism=recipe, guarantee=Guarantee(epsilon=1.0))
    assert found.faults == ()
    assert set(found.moved) == {"dimension", "sketch"}


WEIGHTS = st.sampled_from([0.0, 0.3, 1.0, 7.0, -1.0, math.nan, math.inf])
LINES = st.lists(
    st.tuples(st.sampled_from([-1, 0, 1, 2, 3, 9, 0.5]), st.sampled_from([0, 1, 2, 3]), WEIGHTS), max_size=8
)


@pytest.mark.parametrize("recipe", [GraphSketch(rows=3, vertices=4), EdgeNoise(vertices=4), EdgeResponse(vertices=4)])
@settings(max_examples=15)
@given(lines=LINES, ends=st.permutations([0, 1, 2, 3]), weights=st.lists(WEIGHTS, max_size=3))
def test_nothing_but_the_noise_depends_on_an_edge(recipe, lines, ends, weights):
    """All lines of one pair are others, or gone; in either direction."""
    pair = {ends[0], ends[1]}
    kept = [line for line in lines if {line[0], line[1]} != pair]
    changed = [*kept, *((ends[i % 2], ends[1 - i % 2], w) for i, w in enumerate(weights))]
    tables = [np.array(some, float).reshape(-1, 3) for some in (lines, changed)]
    promise = Guarantee(epsilon=1.0, delta=0.01 if isinstance(recipe, GraphSketch) else 0.0, unit="edge")
    assert greybox(*tables, schema=None, mechanism=recipe, guarantee=promise).faults == ()


# ---- what it must catch ---------------------------------------------------------------------------------------------

ROW = {"a": 0.2, "f": True, "c": "x", "b": 1.0, "who": "ann"}
ONE, TWO = table([ROW, ROW]), table([ROW | {"a": -0.7, "f": False, "c": "z", "b": 9.0}, ROW])


def faults(recipe, promise=(), schema=TABLE, pair=(ONE, TWO)):
    return " ".join(
        greybox(*pair, schema=schema, mechanism=recipe, guarantee=Guarantee(epsilon=1.0, **dict(promise))).faults
    )


def test_a_move_beyond_what_is_declared_is_caught(monkeypatch):
    assert faults(Sketch()) == ""
    assert "times its stated sensitivity" in faults(Sketch(), VALUE)  # a whole record where one value was promised
    far = table([ROW | {"b": 1e6}, ROW])
    assert faults(Sketch(), VALUE, pair=(ONE, far)) == ""
    monkeypatch.setattr(InputGrid, "round", lambda _grid, columns, out: np.rint(columns * 2.0**20, out=out))
    assert "times its stated sensitivity" in faults(Sketch(), VALUE, pair=(ONE, far))


def test_a_manifest_that_tells_of_the_data_is_caught(monkeypatch):
    def telling(self, rows, level, secret):
        published = run(self, rows, level, secret)
        warning = {"warnings": [f"sum {int(rows.sum(lambda _p, block: np.array([int(block.sum() * 8)]))[0])}"]}
        return replace(published, facts=published.facts | warning)

    assert faults(Covariance(noise="laplace")) == ""
    run = PreparedCovariance.run
    monkeypatch.setattr(PreparedCovariance, "run", telling)
    found = faults(Covariance(noise="laplace"))
    assert "manifest.json depends on the data" in found
    assert "0.2" not in found


def test_what_is_said_on_the_way_is_caught(monkeypatch, capsys):
    run = PreparedSketch.run

    def chatty(self, rows, level, secret):
        published = run(self, rows, level, secret)
        blocks = list(published.blocks)
        sys.stdout.write(f"{sum(rows.map(lambda _p, block: int((block[0] > 0).sum())))} are positive")
        return replace(published, blocks=iter(blocks))

    monkeypatch.setattr(PreparedSketch, "run", chatty)
    assert "output, or a warning, depends on the data" in faults(Sketch())
    assert capsys.readouterr().out == ""


def test_an_error_that_depends_on_a_cell_is_caught(monkeypatch):
    run = PreparedResponses.run

    def fussy(self, rows, level, secret):
        if any(rows.map(lambda _p, block: bool(block[0].min() < 0.5))):
            raise ValueError("a flag is false")
        return run(self, rows, level, secret)

    monkeypatch.setattr(PreparedResponses, "run", fussy)
    assert "an error, or its absence, depends on the data" in faults(RandomizedResponse(), schema=ANSWERS)


def test_noise_added_to_something_else_than_what_was_accounted_for_is_caught(monkeypatch):
    """The stream belongs to the clipped sums, and what is published is the unclipped mean."""
    centred = PreparedSynthetic._centred

    def leaking(self, stage, rows, scale, secret):
        found = centred(self, stage, rows, scale, secret)
        return replace(found, centre=found.centre + stage.exact(rows)[: found.centre.size] // 1000)

    monkeypatch.setattr(PreparedSynthetic, "_centred", leaking)
    assert "depends on the data" in faults(Synthetic(dimension=2, centring="private"))


def test_a_number_of_draws_that_depends_on_the_data_is_caught(monkeypatch):
    run = PreparedSketch.run

    def greedy(self, rows, level, secret):
        if any(rows.map(lambda _p, block: bool(block[1].min() > 0.5))):
            secret.words("sketch again", np.zeros(3, np.int64)).laplace(3, 5.0)
        return run(self, rows, level, secret)

    monkeypatch.setattr(PreparedSketch, "run", greedy)
    assert "is no longer there" in faults(Sketch())
    assert "was not there before" in faults(Sketch(), pair=(TWO, ONE))


def test_two_blocks_with_one_place_are_caught():
    """What a constant position would do: the noise of equal blocks would be equal."""

    class SamePlace(Copies):
        def map(self, function):
            return super().map(lambda _position, block: function(0, block))

    prepared = Sketch().prepare(TABLE, Guarantee(epsilon=1.0))
    for rows, shared in ((Copies, False), (SamePlace, True)):
        tape = recorder.Tape()
        list(prepared.run(rows(np.zeros((6, 2)), 2, most=2), 1.0, recorder.secret(tape)).blocks)
        assert any("share noise" in fault for fault in tape.faults) == shared


def test_a_ridge_that_is_too_small_is_caught(monkeypatch):
    edges = np.array([[0, 1, 1.0]]), np.empty((0, 3))
    promise = {"delta": 0.01, "unit": "edge"}
    assert faults(GraphSketch(rows=3, vertices=9), promise, None, edges) == ""
    monkeypatch.setattr("sfumato.estimation.cuts.ridge", lambda ratio, n: 1 / (ratio + 2 / n))
    assert "'covariance of the rows' moved by" in faults(GraphSketch(rows=3, vertices=9), promise, None, edges)


def test_vertices_taken_from_the_data_are_seen():
    """That is outside the guarantee, as the release says; the audit says so too."""
    edges = np.array([[0, 1, 1.0], [1, 2, 1.0]]), np.array([[0, 1, 1.0]])
    assert "depends on the data" in faults(EdgeResponse(), {"unit": "edge"}, None, edges)


def test_moves_are_shares_of_what_is_declared_and_attained():
    found = greybox(
        np.array([[1.0, 0.0]]),
        np.array([[0.0, 0.0]]),
        schema=Schema.reals(2, low=0, high=1),
        mechanism=Ready(Sketch().prepare(Schema.reals(2, low=0, high=1), Guarantee(epsilon=1.0, **VALUE))),
        guarantee=Guarantee(epsilon=1.0, **VALUE),
    )
    assert found.passed
    assert found.moved["sketch"] == pytest.approx(1.0, abs=1e-5)


def test_two_refusals_are_no_comparison():
    rows = np.empty((0, 2))
    with pytest.raises(ReleaseError, match="neither input could be released"):
        greybox(rows, rows, schema=Schema.reals(2, low=0, high=1), mechanism=Sketch(), guarantee=Guarantee(epsilon=1.0))
