"""Mechanisms in a shared space: the same images whoever releases them, parts by columns, refusals, and audits."""

import itertools
import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

import sfumato as sf
from sfumato.audit.examine import Effort, examine
from sfumato.audit.trials import sketch_trial
from sfumato.audit.worst_pairs import sketch_pair
from sfumato.errors import ParameterError
from sfumato.files.open_table import open_table
from sfumato.intervals.moments import Geometry
from sfumato.mechanisms.in_space import lattice_in
from sfumato.mechanisms.sketch import _exact_rows
from sfumato.privacy.calibration import calibrate
from sfumato.randomness.secret import Secret, Words
from support.spaces import PARTS, SCHEMA, SPACE, people, space

FAMILIES = ["identity", "gaussian", "rademacher", "achlioptas", "sparse", "orthonormal"]
RECORD = sf.Guarantee(epsilon=1.0, delta=1e-6)
VALUE = sf.Guarantee(epsilon=4.0, unit="attribute")
EFFORT = Effort(samples=60_000, confidence=1 - 1e-9, seed=3)
PROMISES = {
    "attribute": {"unit": "attribute"},
    "box": {"unit": "record"},
    "l2": {"unit": "record", "change": sf.Change.l2(0.7)},
}


def encoded(table, schema):
    return np.hstack([schema.encode(batch) for batch in open_table(table, schema).blocks(schema.source_names, 1 << 14)])


def images(recipe, table, guarantee=RECORD, shift=0):
    """The exact images of a table's rows before noise, coarsened by so many bits."""
    prepared = recipe.prepare(None, guarantee)
    return _exact_rows(prepared.schema, prepared.projection, shift)(encoded(table, prepared.schema))


def silent(monkeypatch):
    """No noise at all: what is released is the image."""
    for name in ("laplace", "gaussian"):
        monkeypatch.setattr(Words, name, lambda _words, size, _scale: np.zeros(size, np.int64))


# ---- the same images to the bit -------------------------------------------------------------------------------------

GOLDEN = {
    "sparse": [0, 0, -647564886016, 1876983545856, 1222649053184],
    "gaussian": [-1523688367416, 3302873491556, -534596584228, 623830583418, -1207802298427],
}


@pytest.mark.parametrize("family", sorted(GOLDEN))
def test_images_in_a_space_never_change(family):
    """Owners release in different years: the image of a row is the same in all of them."""
    assert images(sf.Sketch(space=space(family)), people(1))[:, 0].tolist() == GOLDEN[family]


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_have_the_same_images_whether_released_together_or_apart(family):
    """Whatever the epsilon, the noise and the unit of each owner: before coarsening nothing depends on them."""
    table, shared = people(61), space(family)
    together = images(sf.Sketch(space=shared), table)
    apart = [
        images(sf.Sketch(space=shared, noise="laplace"), table.slice(0, 23), VALUE),
        images(sf.Sketch(space=shared, noise="gaussian"), table.slice(23), replace(RECORD, epsilon=0.1, group=3)),
    ]
    assert np.array_equal(np.hstack(apart), together)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_sketch_in_a_space_has_the_images_of_one_with_its_settings(family):
    shared = space(family)
    plain = sf.Sketch(dimension=shared.dimension, projection=family, seed=shared.seed, noise="laplace")
    prepared = plain.prepare(SPACE.schema, RECORD)
    own = _exact_rows(prepared.schema, prepared.projection, 0)(encoded(people(), prepared.schema))
    assert np.array_equal(own, images(sf.Sketch(space=shared, noise="laplace"), people()))


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_what_two_owners_release_is_what_one_would_but_for_noise(noise, monkeypatch):
    silent(monkeypatch)
    table = people(50)
    recipe = sf.Sketch(space=SPACE, noise=noise)
    promises = (RECORD, replace(RECORD, epsilon=0.05), replace(RECORD, epsilon=7.0))
    whole, *halves = (
        sf.release(some, mechanism=recipe, guarantee=promise, secret=Secret.for_testing(i))
        for i, (some, promise) in enumerate(zip((table, table.slice(0, 20), table.slice(20)), promises, strict=True))
    )
    assert len({made.manifest["lattice"]["shift"] for made in (whole, *halves)}) == 1
    assert len({made.manifest["lattice"]["unit"] for made in (whole, *halves)}) == 1
    assert len({made.manifest["mechanism"]["scale"] for made in (whole, *halves)}) == 3
    both = np.hstack([made.columns for made in halves])
    assert np.array_equal(both.astype(np.float32), whole.columns.astype(np.float32))  # as one of them is stored
    assert [*halves[0].ids, *halves[1].ids] == [*whole.ids]


@pytest.mark.parametrize("family", FAMILIES)
def test_images_of_the_parts_of_a_record_add_up_to_that_of_the_record(family):
    shared, table = space(family), people(40)
    parts = [images(sf.Sketch(space=shared, columns=part), table) for part in PARTS]
    assert np.array_equal(sum(parts), images(sf.Sketch(space=shared), table))
    prepared = [sf.Sketch(space=shared, columns=part, noise="laplace").prepare(None, VALUE) for part in PARTS]
    whole = sf.Sketch(space=shared, noise="laplace").prepare(None, VALUE)
    assert {each.projection.unit for each in (*prepared, whole)} == {whole.projection.unit}
    assert np.allclose(sum(each.offset for each in prepared), whole.offset, rtol=1e-12, atol=1e-12)
    dense = [np.asarray(each.projection.matrix() @ np.eye(whole.dimension)) for each in (*prepared, whole)]
    rows = np.concatenate([shared.part(part).rows for part in PARTS])
    assert np.array_equal(np.vstack(dense[:-1]), dense[-1][rows])


# ---- what one unit can move -----------------------------------------------------------------------------------------


def neighbours(luck, count, kind, schema):
    """Encoded rows of a part and neighbours of theirs: any rows, one value changed, or a short step."""
    encoding = schema.encoding
    spans = list(itertools.pairwise([0, *np.cumsum([c.width for c in schema.data_columns])]))

    def some():
        block = luck.uniform(encoding.low[:, None] - 1, encoding.high[:, None] + 1, (encoding.dim, count))
        ends = np.where(luck.random((encoding.dim, count)) < 0.5, encoding.low[:, None], encoding.high[:, None])
        block = np.where(luck.random((1, count)) < 0.7, ends, block)
        for column, (start, stop) in zip(schema.data_columns, spans, strict=True):
            if column.kind == "category":
                block[start:stop] = np.arange(column.width)[:, None] == luck.integers(0, column.width, count)
            if column.kind == "flag":
                block[start:stop] = luck.random(count) < 0.5
        return block

    one, two = some(), some()
    if kind == "attribute":
        which = luck.integers(0, len(spans), count)
        for place, (start, stop) in enumerate(spans):
            two[start:stop, which != place] = one[start:stop, which != place]
    if kind == "l2":
        one = np.clip(one, encoding.low[:, None], encoding.high[:, None])
        step = luck.standard_normal(one.shape) * (luck.random(one.shape) < 0.5)
        step *= 0.7 / np.maximum(np.linalg.norm(step, axis=0), 1e-9)
        two = one + step / encoding.weights[:, None]
    return one, two


@pytest.mark.parametrize("kind", PROMISES)
@pytest.mark.parametrize(("family", "noise"), list(itertools.product(FAMILIES, ["laplace", "gaussian"])))
@pytest.mark.parametrize("part", PARTS, ids=" ".join)
def test_no_neighbour_moves_the_image_of_a_part_further_than_stated(part, family, noise, kind):
    promise = sf.Guarantee(epsilon=1.0, delta=0.0 if noise == "laplace" else 1e-3, **PROMISES[kind])
    prepared = sf.Sketch(space=space(family), columns=part, noise=noise).prepare(None, promise)
    one, two = neighbours(np.random.default_rng(3), 6000, kind, prepared.schema)
    exact = _exact_rows(prepared.schema, prepared.projection, prepared.shift)
    moved = np.linalg.norm((exact(one) - exact(two)).astype(float), prepared.order, axis=0).max()
    assert moved <= prepared.sensitivity
    assert moved > prepared.sensitivity * (0.5 if kind == "attribute" else 0.2)


def test_a_part_moves_no_further_than_the_whole():
    whole = sf.Sketch(space=SPACE, noise="laplace").prepare(None, RECORD)
    for part in PARTS:
        held = sf.Sketch(space=SPACE, columns=part, noise="laplace").prepare(None, RECORD)
        assert held.sensitivity * held.unit < whole.sensitivity * whole.unit


# ---- audits ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [None, PARTS[0]], ids=["whole", "part"])
def test_an_audit_of_a_sketch_in_a_space_passes_and_half_the_noise_is_caught(columns):
    recipe = sf.Sketch(space=SPACE, columns=columns, noise="laplace")
    found = sf.audit(recipe, schema=recipe.schema_for(None), guarantee=VALUE, effort=EFFORT)
    assert not found.refuted
    assert found.bound.epsilon > 0.5 * VALUE.epsilon
    halved = sf.Sketch(space=SPACE, columns=columns, noise="laplace").prepare(None, VALUE)
    trial = sketch_trial(halved, calibrate(halved, VALUE).level / 2, sketch_pair(halved))
    assert examine(trial, EFFORT).refuted


def bound_of(prepared, guarantee):
    """A lower bound on epsilon for rows that are chosen once the projection is known, along its longest direction."""
    matrix = np.asarray(prepared.projection.matrix() @ np.eye(prepared.dimension))
    worst = np.linalg.svd(matrix)[0][:, 0] * guarantee.allowed_change.radius / 2
    pair = 0.5 + worst[:, None], 0.5 - worst[:, None]
    return examine(sketch_trial(prepared, calibrate(prepared, guarantee).level, pair), EFFORT)


def test_a_fresh_guarantee_that_is_kept_with_a_known_projection_is_caught():
    """The twin: noise for a projection drawn afterwards, of a projection that whoever chose the rows knows."""
    fresh = sf.Guarantee(epsilon=1.0, delta=1e-2, change=sf.Change.l2(1.0), projection="fresh")
    schema = sf.Schema.reals(200, 0.0, 1.0)
    honest = sf.Sketch(dimension=2, projection="gaussian", noise="gaussian").prepare(schema, fresh)
    assert bound_of(honest, fresh).refuted
    fixed = replace(fresh, projection="fixed")
    shared = sf.Space(schema, "gaussian", 2, 5)
    kept = bound_of(sf.Sketch(space=shared, noise="gaussian").prepare(None, fixed), fixed)
    assert not kept.refuted
    assert kept.bound.epsilon > fixed.epsilon / 2


# ---- what is refused ------------------------------------------------------------------------------------------------


def test_a_fresh_guarantee_is_refused_with_the_reason():
    fresh = sf.Guarantee(epsilon=1.0, delta=1e-6, change=sf.Change.l2(1.0), projection="fresh")
    shared = space("gaussian")
    for recipe in (sf.Sketch(space=shared), sf.Sketch(space=shared, columns=PARTS[0]), sf.Covariance(space=shared)):
        with pytest.raises(ParameterError, match="known before the data are fixed"):
            sf.release(people(), mechanism=recipe, guarantee=fresh)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"dimension": 6}, "space has dimension=5, got dimension=6"),
        ({"projection": "gaussian"}, "space has projection='sparse'"),
        ({"seed": 8}, "space has seed=7, got seed=8"),
        ({"sparsity": 2}, "space has sparsity=1"),
        ({"publish_projection": False}, "is public"),
        ({"columns": ("height",)}, "height"),
    ],
)
def test_settings_that_are_not_the_spaces_are_refused(settings, words):
    with pytest.raises(ParameterError, match=words):
        sf.Sketch(space=SPACE, **settings)


def test_settings_that_are_the_spaces_are_taken():
    assert sf.Sketch(space=SPACE) == sf.Sketch(space=SPACE, dimension=5, projection="sparse", sparsity=1, seed=7)
    assert replace(sf.Sketch(space=SPACE, columns=["age"]), noise="laplace").columns == ("age",)


def test_recipes_in_a_space_travel_to_other_processes():
    for recipe in (sf.Sketch(space=SPACE, columns=["age"]), sf.Covariance(space=SPACE)):
        again = pickle.loads(pickle.dumps(recipe))  # noqa: S301 - our own
        assert (again, hash(again)) == (recipe, hash(recipe))
        assert again.space.digest == SPACE.digest


def test_columns_need_a_space():
    for recipe in (sf.Sketch, sf.Covariance):
        with pytest.raises(ParameterError, match="give the space too"):
            recipe(columns=("age",))
        with pytest.raises(ParameterError, match="space must be a Space"):
            recipe(space=7)
        with pytest.raises(ParameterError, match="needs a schema, or a space"):
            recipe().prepare(None, RECORD)


def test_a_chosen_dimension_is_refused_in_a_space():
    with pytest.raises(ParameterError, match="fixes the dimension"):
        sf.ChosenSketch(choice=0.1, sketch=sf.Sketch(space=SPACE))
    with pytest.raises(TypeError):
        sf.Components(dimension=2, space=SPACE)


def test_a_schema_that_is_not_the_spaces_is_refused_by_what_differs():
    other = sf.Schema(
        [sf.Real("age", 0, 110, weight=2.0), *(c for c in SCHEMA.columns if c.name not in ("name", "age"))]
    )
    for recipe in (sf.Sketch(space=SPACE), sf.Covariance(space=SPACE)):
        with pytest.raises(ParameterError, match=r"'name' is in one only; column 'age': high \(120.0 and 110.0\)"):
            sf.release(people(), schema=other, mechanism=recipe, guarantee=RECORD)


def test_the_spaces_schema_may_be_given_too():
    silent_scale = sf.Schema(SCHEMA.columns)
    held = sf.Sketch(space=SPACE, columns=PARTS[0])
    for schema in (None, silent_scale, SPACE.schema, SPACE.part(PARTS[0]).schema):
        made = sf.release(people(), schema=schema, mechanism=held, guarantee=RECORD)
        assert made.schema == SPACE.part(PARTS[0]).schema
    with pytest.raises(ParameterError, match="is in one only"):
        sf.Sketch(space=SPACE).prepare(SPACE.part(PARTS[0]).schema, RECORD)


def test_a_projection_that_is_zero_on_the_columns_of_a_part_is_refused():
    schema = sf.Schema([sf.Real(f"c{i}", 0, 1) for i in range(12)])
    rows = {
        seed: sf.Projection(family="achlioptas", dim_in=12, dim_out=2, seed=seed).draw().values for seed in range(9)
    }
    seed, column = next((s, int(np.flatnonzero(~v.any(axis=1))[0])) for s, v in rows.items() if not v.any(axis=1).all())
    shared = sf.Space(schema, "achlioptas", 2, seed)
    with pytest.raises(ParameterError, match="zero on these columns"):
        sf.Sketch(space=shared, columns=(f"c{column}",)).prepare(None, RECORD)


# ---- what a release says --------------------------------------------------------------------------------------------


def test_a_manifest_names_the_space(tmp_path):
    SPACE.save(tmp_path / "cohort.space")
    for number, recipe in enumerate((sf.Sketch(space=tmp_path / "cohort.space"), sf.Covariance(space=SPACE))):
        manifest = sf.release_to(tmp_path / f"{number}", people(), mechanism=recipe, guarantee=RECORD)
        assert manifest["space"] == {"digest": SPACE.digest, **SPACE.facts}
        assert manifest["schema"] == SPACE.schema.to_dict()
        assert sf.load(tmp_path / f"{number}").manifest == manifest
        assert SPACE.digest[:12] in (tmp_path / f"{number}" / "README.txt").read_text()


def test_a_part_names_its_columns_and_the_joint_schema(tmp_path):
    for number, recipe in enumerate((sf.Sketch, sf.Covariance)):
        held = people().select(["name", *PARTS[0]])
        made = recipe(space=SPACE, columns=PARTS[0][::-1])
        manifest = sf.release_to(tmp_path / f"{number}", held, mechanism=made, guarantee=RECORD)
        assert manifest["space"]["columns"] == ["age", "city"]
        assert manifest["space"]["schema"] == SPACE.schema.to_dict()
        assert manifest["schema"] == SPACE.part(PARTS[0]).schema.to_dict()
        assert json.loads((tmp_path / f"{number}" / "manifest.json").read_text()) == manifest
        assert "holds these columns of it: age, city" in (tmp_path / f"{number}" / "README.txt").read_text()
        assert sf.load(tmp_path / f"{number}").schema == SPACE.part(PARTS[0]).schema


def test_what_is_outside_a_space_is_as_it_was():
    """Texts of recipes key the streams of noise: they say nothing of a space where there is none."""
    assert "space" not in repr(sf.Sketch(dimension=3))
    assert "space" not in repr(sf.Covariance())
    assert "space" not in sf.release(people(), schema=SCHEMA, mechanism=sf.Sketch(), guarantee=RECORD).manifest


def test_a_price_needs_no_schema_and_holds_for_the_release(tmp_path):
    ledger = sf.Ledger.create(tmp_path / "budget.db")
    ledger.add_dataset("people", sf.Guarantee(epsilon=5.0, delta=1e-5))
    (told,) = sf.price(people(), mechanism=sf.Sketch(space=SPACE), guarantee=RECORD, ledger=ledger)
    sf.release(people(), mechanism=sf.Sketch(space=SPACE), guarantee=RECORD, ledger=ledger)
    (spent,) = ledger.dataset("people").releases
    assert spent.totals[0] == told.after


@pytest.mark.parametrize("family", ["orthonormal", "identity"])
def test_distances_of_a_part_have_the_law_of_the_joint_projection(family):
    shared = space(family)
    made = sf.release(people(), mechanism=sf.Sketch(space=shared, columns=PARTS[0]), guarantee=RECORD)
    assert made.geometry.dim_in == SCHEMA.encoding.dim
    assert made.distance(0, 1).interval(0.95)
    assert made.manifest["projection"]["dim_in"] == made.schema.encoding.dim


def test_an_orthonormal_part_stretches_as_the_whole_does():
    """Seeds are fixed. By the width of the part, lengths would not vary at all where it is as wide as the image."""
    vector = np.array([3.0, -1.0, 2.0, 0.5, 1.0])
    rows = SPACE.part(PARTS[0]).rows
    assert rows.size == vector.size == 5
    found = []
    for seed in range(500):
        matrix = np.asarray(lattice_in(space("orthonormal", seed=seed), PARTS[0]).matrix())
        found.append(np.sum((vector @ matrix) ** 2) / np.sum(vector**2))
    law = Geometry("orthonormal", SCHEMA.encoding.dim, 5)
    assert np.mean(found) == pytest.approx(1.0, abs=0.03)
    assert np.var(found) == pytest.approx(law.stretch_variance(1.0), rel=0.25)
    assert Geometry("orthonormal", 5, 5).stretch_variance(1.0) == 0.0
