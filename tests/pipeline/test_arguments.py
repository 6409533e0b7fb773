"""Arguments as people give them: mechanisms by name, schemas by path, and errors that name the argument."""

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.pipeline.arguments import _NAMED, recipe_of
from support.kinds import PEOPLE, people

PURE, APPROXIMATE = sf.Guarantee(epsilon=1.0), sf.Guarantee(epsilon=1.0, delta=1e-6)
REALS = sf.Schema.reals(3, 0, 1)
ROWS = np.random.default_rng(1).random((40, 3))
TERMS = {"schema": REALS, "mechanism": "covariance", "guarantee": APPROXIMATE}


@pytest.mark.parametrize(
    ("name", "promise", "recipe"),
    [
        ("table", APPROXIMATE, sf.Table()),
        ("synthetic", APPROXIMATE, sf.Synthetic(noise="gaussian", expected_rows=40)),
        ("synthetic", PURE, sf.Synthetic(noise="laplace", expected_rows=40)),
        ("synthetic", sf.Guarantee(epsilon=1.0, neighbours="add-remove"), sf.Synthetic(noise="laplace")),
        ("covariance", PURE, sf.Covariance(noise="laplace")),
        ("covariance", APPROXIMATE, sf.Covariance(noise="gaussian")),
        ("distances", PURE, sf.NoisyDistances(noise="laplace")),
        ("responses", PURE, sf.RandomizedResponse()),
    ],
)
def test_a_name_stands_for_what_the_command_makes(name, promise, recipe):
    assert recipe_of(name, ROWS, REALS, promise) == (recipe, promise)


def test_a_sketch_by_name_is_the_one_that_a_plan_puts_first():
    promise = sf.Guarantee(epsilon=4.0, unit="attribute")
    best = sf.plan(schema=REALS, guarantee=promise, rows=40).only(lambda o: isinstance(o.mechanism, sf.Sketch)).best
    found, kept = recipe_of("sketch", ROWS, REALS, promise)
    assert isinstance(found, sf.Sketch)
    assert (found.dimension, found.noise, kept) == (best.mechanism.dimension, best.noise, best.guarantee)


def test_every_name_can_be_released(tmp_path):
    PEOPLE.write(tmp_path / "people.toml")
    kinds = {"table", "sketch", "synthetic", "covariance", "histogram", "distances"}
    found = {
        name: sf.release(people(), schema=tmp_path / "people.toml", mechanism=name, guarantee=APPROXIMATE)
        for name in kinds
    }
    assert {name: made.manifest["kind"] for name, made in found.items()} == dict(zip(kinds, kinds, strict=True))
    assert kinds | {"responses"} == set(_NAMED)
    folder = tmp_path / "r"
    sf.release_to(folder, people(), schema=str(tmp_path / "people.toml"), mechanism="table", guarantee=APPROXIMATE)
    assert sf.load(folder).schema == PEOPLE


def test_a_stream_is_asked_for_once():
    class Once:
        asked = 0

        def __arrow_c_stream__(self, wanted=None):
            self.asked += 1
            return pa.table({f"c{i}": ROWS[:, i] for i in range(3)}).__arrow_c_stream__(wanted)

    data = Once()
    sf.release(data, **TERMS)
    assert data.asked == 1


@pytest.mark.parametrize(
    ("argument", "value", "said"),
    [
        ("schema", {"columns": []}, "schema must be a Schema or the path of its file, got an object of type dict"),
        ("schema", 5, "schema must be a Schema"),
        ("schema", None, "needs a schema"),
        ("schema", "nowhere.toml", "nowhere.toml: there is no such schema file"),
        ("mechanism", sf.Table, r"mechanism must be a recipe such as Table\(\.\.\.\)"),
        ("mechanism", 5, "mechanism must be a recipe such as .*'table', 'sketch', .* type int"),
        ("mechanism", "tabel", "mechanism must be one of 'table', 'sketch', .* got mechanism='tabel'"),
        ("mechanism", "components", r"mechanism='components' needs settings: .*Components\(dimension"),
        ("mechanism", "graph", "mechanism='graph' needs settings"),
        ("guarantee", 1.0, "guarantee must be a Guarantee, .* type float"),
        ("guarantee", None, "guarantee must be a Guarantee"),
        ("ledger", 5, "ledger must be a Ledger, an Account or the place of a ledger"),
        ("engine", 5, "engine must be one of 'local', 'spark'"),
        ("secret", 5, "secret takes"),
        ("data", None, "data must be a path, .* type NoneType"),
        ("data", [[0.123456]], "data must be a path, .* type list"),
    ],
)
def test_an_error_names_the_argument_and_no_value_of_the_data(argument, value, said):
    terms = TERMS | {"data": ROWS, argument: value}
    with pytest.raises(sf.SfumatoError, match=said) as error:
        sf.release(terms.pop("data"), **terms)
    assert "0.123" not in str(error.value)


def test_a_graph_needs_no_schema_but_its_mechanism_has_settings():
    with pytest.raises(sf.ParameterError, match="mechanism='covariance' needs a schema"):
        recipe_of("covariance", ROWS, None, sf.Guarantee(epsilon=1.0, unit="edge"))


@pytest.mark.parametrize(
    ("wrong", "said"), [({"schema": 5}, "schema must be"), ({"guarantee": 5}, "guarantee must be")]
)
def test_a_plan_names_its_arguments_and_reads_schemas_by_path(tmp_path, wrong, said):
    terms = {"schema": REALS, "guarantee": APPROXIMATE, "purpose": "table", "rows": 40}
    with pytest.raises(sf.ParameterError, match=said):
        sf.plan(**terms | wrong)
    REALS.write(tmp_path / "s.toml")
    assert sf.plan(**terms | {"schema": tmp_path / "s.toml"}).to_dict() == sf.plan(**terms).to_dict()
