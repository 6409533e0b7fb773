"""Defaults agree: of the command, of calls in Python, and of the forms of the studio; all come from one table."""

import argparse
import dataclasses
import inspect

import pytest

import sfumato as sf
from sfumato import defaults
from sfumato.cli import parser_of
from sfumato.commands.kinds.listed import KINDS
from sfumato.mechanisms.graph_pairs import EdgeNoise
from sfumato.privacy.calibration import calibrate
from sfumato.studio.inputs import release_form
from sfumato.studio.inputs.form_fields import guarantee_in
from sfumato.studio.inputs.release_form import ReleaseFacts, recipe_in
from sfumato.studio.schema_form import scale_in
from support.forms import untouched
from support.visiting import SCHEMA, Visitor, make_studio, write_people

RECIPES = {
    "table": sf.Table,
    "sketch": sf.Sketch,
    "components": sf.Components,
    "responses": sf.RandomizedResponse,
    "distances": sf.NoisyDistances,
    "synthetic": sf.Synthetic,
    "covariance": sf.Covariance,
    "histogram": sf.Histogram,
}
SHARED = {  # options of the command, and fields of recipes and guarantees, by the names that they share
    "noise": defaults.NOISE,
    "centred": defaults.CENTRED,
    "method": defaults.METHOD,
    "centring": defaults.CENTRING,
    "split": defaults.SPLIT,
    "unit": defaults.UNIT,
    "delta": defaults.DELTA,
    "neighbours": defaults.NEIGHBOURS,
    "group": defaults.GROUP,
}


def commands(top, *path):
    """The parser of a command, found by its words."""
    for word in path:
        top = next(a for a in top._actions if isinstance(a, argparse._SubParsersAction)).choices[word]
    return top


def field_defaults(made):
    return {field.name: field.default for field in dataclasses.fields(made)}


@pytest.fixture
def visitor(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    write_people(folder)
    return Visitor(make_studio(folder))


@pytest.mark.parametrize("kind", sorted(RECIPES))
def test_the_command_and_calls_in_python_begin_with_the_same(kind):
    parser, recipe = commands(parser_of(), "release", kind), field_defaults(RECIPES[kind])
    promise = field_defaults(sf.Guarantee)
    for name, value in SHARED.items():
        if name in promise:
            assert promise[name] == parser.get_default(name) == value, name
        elif name in recipe and not (kind == "synthetic" and name == "split"):  # of which the command knows nothing
            assert recipe[name] == parser.get_default(name) == value, name
    for name in ("dimension", "label", "rows", "projection", "sparsity", "seed", "expected_rows", "space", "columns"):
        if name in recipe and recipe[name] is not dataclasses.MISSING:
            assert recipe[name] == parser.get_default(name) is None, name


def test_every_kind_of_the_command_is_compared():
    assert {kind.name for kind in KINDS} == {*RECIPES, "graph"}


def test_other_ways_in_agree():
    plan = commands(parser_of(), "plan")
    assert plan.get_default("purpose") == inspect.signature(sf.plan).parameters["purpose"].default == defaults.PURPOSE
    assert inspect.signature(sf.Session).parameters["unit"].default == defaults.UNIT
    transformer = inspect.signature(pytest.importorskip("sfumato.sklearn").SketchTransformer).parameters
    for name in ("unit", "noise", "delta"):
        assert transformer[name].default == SHARED[name]
    assert transformer["scale"].default == SCHEMA.scale == scale_in(None) == defaults.SCALE


@pytest.mark.parametrize("kind", sorted(set(RECIPES) - {"components"}))  # which the studio does not offer
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_form_that_nobody_touched_means_what_a_call_without_arguments_means(visitor, kind, delta, monkeypatch):
    planned = []
    monkeypatch.setattr(release_form, "plan_sketch", lambda **terms: (None, planned.append(terms)))
    fields = untouched(visitor.get(f"/release?mechanism={kind}").text, "/release/price")
    promise = guarantee_in(fields)
    assert promise == sf.Guarantee(epsilon=1.0, delta=1e-6)
    promise = dataclasses.replace(promise, delta=delta)
    made = recipe_in(fields, ReleaseFacts(SCHEMA, promise, 40))
    if kind == "sketch":  # nobody said how many numbers: a plan does, as on the command line
        assert planned == [{"schema": SCHEMA, "guarantee": promise, "rows": 40, "noise": defaults.NOISE}]
        return
    public = {"expected_rows": 40} if kind == "synthetic" else {}
    assert made == RECIPES[kind](**public)


def test_the_other_forms_begin_with_the_same(visitor):
    plan = untouched(visitor.get("/plan").text, "/plan")
    suggested = (defaults.UNIT, defaults.SUGGESTED["epsilon"], defaults.SUGGESTED["delta"])
    assert (plan["unit"], plan["epsilon"], plan["delta"]) == suggested
    assert plan["purpose"] == defaults.PURPOSE
    cap = untouched(visitor.get("/budget").text, "/budget/dataset")
    assert cap["unit"] == defaults.UNIT
    schema = untouched(visitor.get("/data/people.csv").text, "/data/people.csv/form")
    assert schema["scale"] == defaults.SCALE


@pytest.mark.parametrize(
    "recipe", [sf.Covariance(), sf.NoisyDistances(), sf.Synthetic(), sf.Table(), sf.Components(dimension=2)]
)
def test_sums_get_gaussian_noise_where_the_guarantee_allows_it(recipe):
    for delta, noise in ((1e-6, "gaussian"), (0.0, "laplace")):
        assert recipe.prepare(SCHEMA, sf.Guarantee(epsilon=1.0, delta=delta)).settings["noise"] == noise


def test_a_sketch_gets_the_noise_that_deviates_less():
    def deviation(noise, unit):
        promise = sf.Guarantee(epsilon=1.0, delta=1e-6, unit=unit)
        prepared = sf.Sketch(dimension=100, noise=noise, seed=1).prepare(sf.Schema.reals(400, 0, 1), promise)
        facts = prepared.noise_facts(calibrate(prepared, promise).level)
        return prepared.recipe.noise, facts["standard_deviation"]

    chosen = {unit: deviation(None, unit) for unit in ("attribute", "record")}
    for unit, (noise, least) in chosen.items():
        both = dict(deviation(n, unit) for n in ("laplace", "gaussian"))
        assert least == both[noise] == min(both.values())
    assert {noise for noise, _ in chosen.values()} == {"laplace", "gaussian"}


def test_the_noise_of_a_sketch_does_not_depend_on_the_projection_that_is_drawn():
    """Else a price would not hold for the release that follows. Here both noises deviate by nearly the same."""
    schema, promise = sf.Schema([sf.Real(f"x{i}", 0, 1) for i in range(30)]), sf.Guarantee(epsilon=1.0, delta=1e-6)
    recipe = sf.Sketch(dimension=16, projection="gaussian")
    assert len({recipe.prepare(schema, promise).recipe.noise for _ in range(12)}) == 1


def test_noise_on_every_pair_of_vertices_is_laplace_everywhere():
    assert EdgeNoise().noise == "laplace"  # one edge moves one number, on which Laplace noise deviates less
