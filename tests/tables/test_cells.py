"""A cell means the same in every type that it may be stored in: one record never changes how another is read."""

import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato import Category, Flag, Guarantee, Ledger, Real, Schema, Sketch
from sfumato.errors import SchemaError
from sfumato.files.open_table import open_table
from sfumato.pipeline.release import release_to
from sfumato.tables.blocks import Blocks

LARGE = 999000011000001104  # a code of 18 digits, as medicine has them
COLUMNS = {
    "real": Real("real", -5, 5, missing=2.0),
    "flag": Flag("flag", missing=True),
    "numbers": Category("numbers", (0, 1, 7, -3, "2.5", 2**53 - 1)),
    "floats": Category("floats", ("0.0", "1.0", "7.0", "inf")),
    "truths": Category("truths", ("True", "False")),
    "texts": Category("texts", ("a", "1", "nan", "", "0")),
}
BASE = [0, -3, 2**53 - 1, 2**53 + 1, 2.5, -0.0, 1e16, float("inf"), True, "a", "1.0", "07", "True"]
ODD = [1, 0.5, False, "abc", None, float("nan"), 2**63, -(2**63), 10**30, 10**400, 1 + 2j, np.longdouble(1), b"1"]
ODD += [decimal.Decimal("1.00"), decimal.Decimal("sNaN"), decimal.Decimal("1E+400"), pd.NA, pd.NaT]


def written(frame, path):
    frame.to_parquet(path)
    return path


def as_csv(frame, path):
    frame.to_csv(path.with_suffix(".csv"), index=False)
    return path.with_suffix(".csv")


def columns(cells):
    return dict.fromkeys(COLUMNS, cells)


STORED = {  # how cells become a table, every column of it the same
    "pandas": lambda cells, _: pd.DataFrame(columns(cells)),
    "pandas objects": lambda cells, _: pd.DataFrame(columns(pd.Series(cells, dtype=object))),
    "pandas categories": lambda cells, _: pd.DataFrame(columns(pd.Series(cells).astype("category"))),
    "numpy objects": lambda cells, _: np.array([[cell] * len(COLUMNS) for cell in cells], dtype=object),
    "parquet": lambda cells, path: written(pd.DataFrame(columns(cells)), path),
    "csv": lambda cells, path: as_csv(pd.DataFrame(columns(cells)), path),
    "polars": lambda cells, _: pl.DataFrame(columns(cells), strict=False),
    "arrow": lambda cells, _: pa.table(columns(cells)),
}


def encoded(data, schema):
    blocks = Blocks.of(open_table(data, schema), schema)
    return np.concatenate([schema.encode(batch) for batch in blocks], axis=1)


def stored(how, cells, path):
    """A table of the cells; None if the other library cannot store them together, or loses some before we see them."""
    try:
        table = STORED[how](cells, path)
    except (Exception, pl.exceptions.PanicException):  # noqa: BLE001
        return None
    if how == "polars":
        return None if pl.Object in table.dtypes or len({isinstance(c, str) for c in cells}) > 1 else table
    # pandas writes large whole numbers as floating ones and real numbers as complex ones, if there is a cell for it
    lost = any(isinstance(c, complex) or (isinstance(c, int) and abs(c) > 2**53) for c in cells)
    return None if how == "csv" and lost else table


@pytest.mark.parametrize("how", STORED)
def test_no_cell_changes_how_another_is_read_by_changing_the_type_of_its_column(tmp_path, how):
    schema, tried = Schema(tuple(COLUMNS.values())), 0
    for base in BASE:
        alone = stored(how, [base], tmp_path / "alone.parquet")
        for odd in ODD:
            both = stored(how, [base, odd], tmp_path / "both.parquet")
            if alone is not None and both is not None:
                tried += 1
                assert np.array_equal(encoded(both, schema)[:, 0], encoded(alone, schema)[:, 0]), (base, odd)
    assert tried > 40


@pytest.mark.parametrize("values", [(LARGE, 5), (2**53, 1), (-(2**53), 1), (str(LARGE), "b"), ("1e+16", "b")])
def test_a_category_beyond_what_doubles_tell_apart_is_refused_from_every_type_but_text(tmp_path, values):
    schema = Schema((Category("x", values),))
    number = 5
    frames = [pd.DataFrame({"x": cells}) for cells in ([number, number], [number, None], [number, 0.5], [True, False])]
    frames += [pd.DataFrame({"x": pd.Series([number, "b"], dtype=object)})]
    frames += [pl.DataFrame({"x": [number, None]}), np.array([[number]]), np.array([[number], [None]], dtype=object)]
    frames += [frames[0].astype("category"), pa.table({"x": pa.array([5], pa.decimal128(20, 0))})]
    complaints = set()
    for data in [*frames, written(frames[0], tmp_path / "a.parquet"), written(frames[1], tmp_path / "b.parquet")]:
        with pytest.raises(SchemaError, match="store the column as text") as caught:
            open_table(data, schema).check_types(schema)
        complaints.add(str(caught.value))
    assert len(complaints) == 1  # the type depends on whether a cell is missing, so that no word may depend on it
    assert "\n" not in complaints.pop()
    texts = pd.DataFrame({"x": [str(values[0]), None]})
    for data in (texts, written(texts, tmp_path / "c.parquet"), as_csv(texts.assign(y=0), tmp_path / "d.csv")):
        assert encoded(data, schema).tolist() == [[1, 0], [0, 0]]


def test_a_column_that_cannot_be_read_is_refused_before_anything_is_charged(tmp_path):
    schema = Schema((Category("x", (LARGE,)),))
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("people", Guarantee(epsilon=1.0))
    with pytest.raises(SchemaError, match="store the column as text"):
        release_to(
            tmp_path / "out",
            pd.DataFrame({"x": [LARGE]}),
            schema=schema,
            mechanism=Sketch(),
            guarantee=Guarantee(epsilon=1.0),
            ledger=ledger.account("people"),
        )
    assert not ledger.dataset("people").releases


def folder(path, *tables):
    path.mkdir()
    for place, table in enumerate(tables):
        pq.write_table(table, path / f"{place}.parquet")
    return path


MIXED = {  # files of one folder, whose types differ by what their cells happen to be
    "numbers": ([1, 0], [1.0, None], [None, None], [True, False]),
    "texts too": ([1, 0], ["1", "x"], [2.5, None], [None, None]),
    "boxed": ([1, 0], pa.ExtensionArray.from_storage(pa.json_(), pa.array(["1", "HIV"])), [None, None], [2.5, 1.0]),
    "truths": ([True, False], ["True", "maybe"], [1, 0]),
    "decimals": ([1, 0], [decimal.Decimal("1.00"), None], ["1.0", "0"]),
}


@pytest.mark.parametrize("cells", MIXED.values(), ids=MIXED)
def test_each_file_of_a_folder_is_read_by_its_own_types(tmp_path, cells):
    schema = Schema(tuple(COLUMNS.values()))
    tables = [pa.table(columns(part)) for part in cells]
    expected = np.concatenate([encoded(table, schema) for table in tables], axis=1)
    table = open_table(folder(tmp_path / "parts", *tables), schema)
    for rows in (1, 2, 3, 100):
        blocks = [schema.encode(batch) for batch in table.blocks(list(COLUMNS), rows)]
        assert np.array_equal(np.concatenate(blocks, axis=1), expected)
    assert np.array_equal(encoded(tmp_path / "parts", schema), expected)


def test_files_of_a_folder_may_order_their_columns_differently_but_name_them_alike(tmp_path):
    schema = Schema((Real("x", 0, 9), Real("y", 0, 9)))
    one, other = pa.table({"x": [1], "y": [2]}), pa.table({"y": [4.0], "x": [3.0]})
    assert encoded(folder(tmp_path / "a", one, other), schema).tolist() == [[1, 3], [2, 4]]
    with pytest.raises(SchemaError, match="other names than those of"):
        open_table(folder(tmp_path / "b", one, other.rename_columns(["y", "z"])), schema)


def test_a_type_that_cannot_be_read_is_refused_in_whichever_file_it_is_without_naming_the_file(tmp_path):
    schema = Schema((Real("x", 0, 9),))
    parts = folder(tmp_path / "parts", pa.table({"x": [1]}), pa.table({"x": [[1]]}))
    with pytest.raises(SchemaError, match="'x' is of type list") as caught:
        open_table(parts, schema).check_types(schema)
    assert "parquet" not in str(caught.value)


@pytest.mark.parametrize("dtype", [">f8", ">i4", np.longdouble, complex])
def test_numbers_in_odd_types_of_numpy_are_read_as_the_numbers_they_are(dtype):
    frame = pd.DataFrame({"x": np.array([1, 2, 3], dtype), "y": np.array([0.5, -0.0, np.nan])})
    schema = Schema((Real("x", 0, 9), Category("y", ("0.5", 0))))
    assert encoded(frame, schema).tolist() == [[1, 2, 3], [1, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize("cells", [pd.to_timedelta([1, 2], "D"), pd.period_range("1970-02-01", periods=2)])
def test_spans_and_periods_are_refused_by_their_type_in_one_line(cells):
    schema = Schema((Real("x", 0, 9),))
    with pytest.raises(SchemaError, match="'x' is of type") as caught:
        encoded(pd.DataFrame({"x": cells}), schema)
    assert "\n" not in str(caught.value)


def test_a_decimal_is_the_same_number_however_many_digits_its_type_has():
    schema = Schema((Real("x", 0, 1),))
    numbers = [decimal.Decimal(k) / 1000 for k in range(1000)]
    for kind in (pa.decimal128(4, 3), pa.decimal128(38, 30), pa.decimal256(70, 60)):
        assert encoded(pa.table({"x": pa.array(numbers, kind)}), schema)[0].tolist() == [k / 1000 for k in range(1000)]
