"""Cells of a table's variables: read straight from a batch as from its encoded block, whatever its cells."""

import math
import pickle

import numpy as np
import pyarrow as pa
import pytest

from sfumato.errors import SchemaError
from sfumato.marginals.partition import EACH, Partition
from sfumato.tables.columns import Category, Date, Flag, Integer, Ordinal, Real, Set, Vector
from sfumato.tables.schema import Schema
from tests.support import all_kinds
from tests.support.all_kinds import SCHEMAS, corners, random_row, table

CUTS = {"r": (0.1, 0.2), "i": (3.0,)}


def naive(partition, batch):
    """The cells by the axes' own rule: doubles for each level, a search among edges, and no grid."""
    block = partition.schema.encode(batch)
    rows = []
    for variable in partition.variables:
        axis, column = variable.axis, variable.axis.column
        own = block[axis.start : axis.start + column.width]
        if variable.ordered:
            found = np.searchsorted(axis.edges[1:-1], own[0], side="right")
            missing = own[1] > 0.5 if column.missing == "level" else np.zeros(found.size, bool)
        elif isinstance(column, Flag):
            found = (own[0] > 0.5).astype(int)
            missing = own[1] > 0.5 if column.missing == "level" else np.zeros(found.size, bool)
        else:
            found, missing = own.argmax(axis=0), own.sum(axis=0) == 0
        rows.append(np.where(missing, axis.size - 1, found))
    return np.array(rows)


def agree(partition, batch):
    found = partition.read(batch)
    assert found.dtype == np.int32
    assert found.shape == (len(partition.variables), batch.num_rows)
    np.testing.assert_array_equal(found, naive(partition, batch))
    np.testing.assert_array_equal(found, partition.codes(partition.schema.encode(batch)))
    assert (found >= 0).all()
    assert (found < np.array(partition.sizes)[:, None]).all()
    return found


@pytest.mark.parametrize("cuts", [{}, CUTS], ids=["plain", "cut"])
@pytest.mark.parametrize("name", SCHEMAS)
def test_cells_of_every_kind_are_those_of_the_encoded_block(name, cuts):
    rng, schema = np.random.default_rng(5), SCHEMAS[name]
    partition = Partition.of(schema, {c.name: cuts[c.name] for c in schema.data_columns if c.name in cuts})
    whole = table(schema, [random_row(rng, schema) for _ in range(300)])
    found = agree(partition, whole)
    (batch,) = whole.combine_chunks().to_batches()
    np.testing.assert_array_equal(partition.read(batch.slice(13, 50)), found[:, 13:63])
    chunked = pa.concat_tables([whole.slice(0, 7), whole.slice(7, 0), whole.slice(7, 60), whole.slice(67)])
    np.testing.assert_array_equal(partition.read(chunked), found)
    np.testing.assert_array_equal(partition.read(whole.slice(0, 0)), found[:, :0])


@pytest.mark.parametrize("column", [*all_kinds.PLAIN, *all_kinds.LEVELS], ids=lambda c: f"{c.name} {c.missing}")
def test_cells_at_the_corners_of_every_kind_are_those_of_the_encoded_block(column):
    schema = Schema((column,), scale="bounds")
    agree(Partition.of(schema), table(schema, [(cell,) for cell in corners(column)]))


NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -3.0, 5.0, 7.0, 1e-300, 5e-324, -5e-324, 1e300, -1e300, 255.0, 256.0]
NUMBERS += [math.nan, math.inf, -math.inf, math.nextafter(5, 9), math.nextafter(5, 0), math.nextafter(-3, 0)]
ODD = {
    "double": pa.array(NUMBERS, pa.float64()),
    "double with gaps": pa.array([*NUMBERS, None], pa.float64()),
    "float": pa.array([n for n in NUMBERS if not 1e38 < abs(n) < math.inf], pa.float32()),
    "half": pa.array(np.array([0.0, 1.5, -3, 5, math.nan, math.inf], np.float16)),
    "int8": pa.array([0, 1, -3, 5, 127, -128, None], pa.int8()),
    "int64": pa.array([0, 1, -3, 5, 2**63 - 1, -(2**63), 2**53 + 1, None], pa.int64()),
    "uint64": pa.array([0, 1, 7, 2**64 - 1], pa.uint64()),
    "bool": pa.array([True, False, None]),
    "decimal": pa.array([0, 1, -3, 5, None, 123456], pa.decimal128(20, 0)),
    "null": pa.nulls(4),
    "string": pa.array(
        ["", "1", "01", "1.0", " 5 ", "-3", "x", "nan", "inf", "-inf", "1e999", "TRUE", "no", None, "\0"]
    ),
    "large_string": pa.array(["1", "a", "b", None, "7"], pa.large_string()),
    "view": pa.array(["1", "a", "b", None, "7"], pa.string_view()),
    "binary": pa.array([b"1", b"\xff\xfe", b"a", None], pa.binary()),
    "dictionary": pa.array(["a", "1", None, "a", "zzz", "7"]).dictionary_encode(),
    "dictionary of numbers": pa.array([1.0, 5.0, None, 1.0, -3.0]).dictionary_encode(),
    "dictionary with spare words": pa.DictionaryArray.from_arrays(pa.array([2, None, 2], pa.int8()), ["a", "b", "7"]),
    "dictionary with a missing word": pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 1, None]), ["a", None]),
}
READ = [
    Real("x", -3.0, 5.0),
    Real("x", 0.0, 5.0, missing=2.5),
    Real("x", -3.0, 5.0, missing="level"),
    Real("x", 1e-300, 1e300),
    Real("x", 0.0, 5e-324),
    Real("x", -1.7e308, 1.0),
    Integer("x", -3, 5),
    Integer("x", -3, 5, missing="level"),
    Integer("x", 0, EACH - 1),
    Integer("x", 0, EACH),
    Integer("x", -(2**52), 2**52, missing=7),
    Flag("x"),
    Flag("x", missing=True),
    Flag("x", missing="level"),
    Category("x", ("a", "b", 7, 1)),
    Category("x", ("a", "b", 7, 1), missing=7),
    Category("x", ("a", "b", 7, 1), missing="level"),
    Category("x", ("level", "a"), missing="level"),
    Ordinal("x", ("a", 1, 7)),
    Ordinal("x", ("a", 1, 7), missing="level"),
    Ordinal("x", tuple(range(300)), missing=7),
]


@pytest.mark.parametrize("form", ODD)
@pytest.mark.parametrize("column", READ, ids=repr)
def test_odd_cells_are_those_of_the_encoded_block_in_every_type(column, form):
    schema = Schema((column,), scale="raw")
    cuts = {"x": (0.0, 1.0, 1.0 + 2**-52)} if isinstance(column, Real) else {}
    (batch,) = pa.table({"x": ODD[form]}).to_batches()
    for partition in (Partition.of(schema), Partition.of(schema, cuts)):
        agree(partition, batch)


@pytest.mark.parametrize("seed", range(8))
def test_numbers_near_the_cuts_fall_into_the_cells_that_a_search_gives(seed):
    """Every edge and its neighbours among doubles, wherever the bounds lie."""
    rng = np.random.default_rng(seed)
    middle, width = rng.choice([0.0, 1.0, -1e6, 1e12, 3.7]), 10.0 ** rng.uniform(-3, 9)
    low, high = middle - width * rng.choice([0, 1]), middle + width
    partition = Partition.of(Schema((Real("x", low, high),)), {"x": tuple(rng.uniform(low, high, 20))})
    edges = np.array(partition.variables[0].axis.edges)
    near = np.concatenate([edges, np.nextafter(edges, -math.inf), np.nextafter(edges, math.inf)])
    cells = np.concatenate(
        [near, rng.uniform(low - width, high + width, 5000), middle + width * rng.standard_cauchy(5000)]
    )
    (batch,) = pa.table({"x": rng.permutation(cells)}).to_batches()
    found = agree(partition, batch)
    assert len(set(found[0].tolist())) == partition.sizes[0]  # the test reaches every cell


def test_vectors_and_sets_have_a_variable_for_each_number_and_item():
    schema = Schema(
        (
            Vector("v", low=-1.0, high=1.0, columns=("v1", "v2", "v3")),
            Vector("w", 2, 0.0, 4.0),
            Set("s", ("a", "b", 7), most=2),
            Set("t", buckets=5, most=3),
            Date("d", "2020-01-01", "2021-12-31", missing="level"),
        )
    )
    columns = {
        "t": [["a", "x", "y"], None, [], ["q", None]],
        "v2": ["0.5", None, "x", "9"],
        "v1": [0.25, math.nan, math.inf, None],
        "w": [[1.0, 2.0], None, [3.0], [math.nan, 9.0]],
        "v3": [1, 2, None, -5],
        "s": [["a", "b", "7"], ["7.0"], None, ["z", None, "b"]],
        "d": ["2020-02-29", None, "never", "2050-01-01"],
    }
    found = agree(Partition.of(schema), pa.table(columns).to_batches()[0])
    assert len(found) == 3 + 2 + 3 + 5 + 1


def test_a_column_that_is_absent_or_of_a_wrong_type_is_refused_as_the_encoder_does():
    partition = Partition.of(Schema((Category("x", ("a", "b")), Real("y", 0.0, 1.0))))
    for columns in ({"x": ["a"]}, {"x": [["a"]], "y": [1.0]}, {"x": ["a"], "y": [[1.0]]}):
        batch = pa.table(columns).to_batches()[0]
        with pytest.raises(SchemaError) as theirs:
            partition.schema.encode(batch)
        with pytest.raises(SchemaError) as ours:
            partition.read(batch)
        assert str(ours.value) == str(theirs.value)


def test_a_partition_reads_the_same_in_another_process():
    partition = Partition.of(SCHEMAS["levels"])
    rng = np.random.default_rng(1)
    rows = table(partition.schema, [random_row(rng, partition.schema) for _ in range(50)])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(partition)).read(rows), partition.read(rows))  # noqa: S301


def test_a_category_of_many_levels_needs_no_column_for_each_of_them():
    values, rows = tuple(f"level {i}" for i in range(100_000)), 1 << 15  # doubles for each level would take 26 GB
    partition = Partition.of(Schema((Category("x", values),)))
    places = np.random.default_rng(0).integers(0, len(values), rows)
    (batch,) = pa.table({"x": [*np.array(values)[places], None, "level"]}).to_batches()
    assert partition.read(batch)[0].tolist() == [*places, len(values), len(values)]
