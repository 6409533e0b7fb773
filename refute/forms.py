"""The same rows in the forms that people have them in: Arrow, pandas, polars, NumPy, SciPy, Parquet and CSV.

Types are left to each form's own devices where it guesses them, so that one cell may change how a column is stored.
"""

import csv
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import scipy

from refute.schemas import Row
from sfumato.tables.columns import Category, DataColumn, Date, Flag, Integer, Real, Set, Vector, source_names
from sfumato.tables.schema import Schema


class UnstorableError(Exception):
    """The form cannot hold such cells: its own writer refuses, so nobody has that table."""


def _columns(schema: Schema, rows: Sequence[Row]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for j, column in enumerate(schema.data_columns):
        cells = [row[j] for row in rows]
        if isinstance(column, Vector) and column.columns is not None:
            found |= {name: [cell[i] for cell in cells] for i, name in enumerate(column.columns)}
        else:
            found[column.name] = cells
    return found


def _typed(schema: Schema, rows: Sequence[Row], folder: Path) -> pa.Table:
    """Arrow with the types that the schema suggests: each cell as what it means, or missing where it means nothing."""
    del folder
    declared = {name: column for column in schema.data_columns for name in source_names(column)}
    cells = _columns(schema, rows)
    return pa.table({n: pa.array([_plain(c, cell) for cell in cells[n]], _kind(c)) for n, c in declared.items()})


def _kind(column: DataColumn) -> pa.DataType:
    if isinstance(column, Real | Integer):
        return pa.float64()
    if isinstance(column, Flag):
        return pa.bool_()
    if isinstance(column, Date):
        return pa.string()
    if isinstance(column, Vector):
        return pa.float64() if column.columns is not None else pa.list_(pa.float64())
    if isinstance(column, Set):
        return pa.list_(pa.string() if column.values is None or isinstance(column.values[0], str) else pa.int64())
    return pa.string() if isinstance(column.values[0], str) or _wide(column) else pa.int64()


def _plain(column: DataColumn, cell: Any) -> Any:
    if isinstance(column, Real | Integer):
        return cell if isinstance(cell, int | float) else None
    if isinstance(column, Date):
        return cell.isoformat() if isinstance(cell, date) else cell
    if isinstance(column, Vector | Set):
        return cell
    if isinstance(column, Flag):
        return {"yes": True, "no": False, 0: False, 1: True}.get(cell)
    if isinstance(column.values[0], str) or cell is None:
        return cell
    return str(int(cell)) if _wide(column) else int(cell)


def _arrow(schema: Schema, rows: Sequence[Row], folder: Path) -> pa.Table:
    del folder
    return pa.table({name: pa.array(cells) for name, cells in _columns(schema, rows).items()})


def _pandas(schema: Schema, rows: Sequence[Row], folder: Path) -> pd.DataFrame:
    del folder
    return pd.DataFrame(_columns(schema, rows))


def _polars(schema: Schema, rows: Sequence[Row], folder: Path) -> pl.DataFrame:
    del folder
    return pl.DataFrame(_columns(schema, rows))


def _objects(schema: Schema, rows: Sequence[Row], folder: Path) -> np.ndarray:
    del folder
    if any(map(_holds_lists, schema.data_columns)):
        raise UnstorableError  # an array has no cells that are lists
    columns = list(_columns(schema, rows).values())
    made = np.empty((len(rows), len(columns)), object)
    for j, cells in enumerate(columns):
        made[:, j] = cells
    return made


def _numbers(schema: Schema, rows: Sequence[Row]) -> np.ndarray:
    if not all(isinstance(column, Real | Integer) for column in schema.data_columns):
        raise UnstorableError
    plain = [[cell if isinstance(cell, int | float) else np.nan for cell in row] for row in rows]
    return np.array(plain, float).reshape(len(rows), len(schema.data_columns))


def _numpy(schema: Schema, rows: Sequence[Row], folder: Path) -> np.ndarray:
    del folder
    return _numbers(schema, rows)


def _sparse(schema: Schema, rows: Sequence[Row], folder: Path) -> Any:
    del folder
    return scipy.sparse.csr_array(_numbers(schema, rows))


def _parquet(schema: Schema, rows: Sequence[Row], folder: Path) -> Path:
    path = folder / f"{len(list(folder.iterdir()))}.parquet"
    _pandas(schema, rows, folder).to_parquet(path)
    return path


def _csv(schema: Schema, rows: Sequence[Row], folder: Path) -> Path:
    """Cell by cell, as Python writes each of them."""
    _check_zeros(schema, rows)
    path = folder / f"{len(list(folder.iterdir()))}.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        columns = _columns(schema, rows)
        writer.writerow(list(columns))
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def _check_zeros(schema: Schema, rows: Sequence[Row]) -> None:
    """In a file of texts a cell means what its text says, and -0.0 is another text than 0."""
    places = [j for j, column in enumerate(schema.data_columns) if isinstance(column, Category)]
    if any(str(row[j]) == "-0.0" for row in rows for j in places):
        raise UnstorableError


def _pandas_csv(schema: Schema, rows: Sequence[Row], folder: Path) -> Path:
    """As pandas writes it: a column of whole numbers with a gap has lost what a double cannot hold."""
    if any(isinstance(column, Category) and _wide(column) for column in schema.data_columns):
        raise UnstorableError  # the other cells are no longer the same in the file, before anyone reads it
    _check_zeros(schema, rows)
    path = folder / f"{len(list(folder.iterdir()))}.csv"
    _pandas(schema, rows, folder).to_csv(path, index=False)
    return path


_FORMS: dict[str, Callable[[Schema, Sequence[Row], Path], Any]] = {
    "Arrow, typed": _typed,
    "Arrow": _arrow,
    "pandas": _pandas,
    "polars": _polars,
    "NumPy objects": _objects,
    "NumPy": _numpy,
    "SciPy": _sparse,
    "Parquet by pandas": _parquet,
    "CSV": _csv,
    "CSV by pandas": _pandas_csv,
}
FORMS = tuple(_FORMS)

_REFUSALS = (pa.ArrowInvalid, pa.ArrowTypeError, pl.exceptions.PolarsError, TypeError, OverflowError)


def _untyped(schema: Schema, rows: Sequence[Row]) -> bool:
    """Whether a category that must be stored as text, or a column of lists, has no cell at all.

    A form that guesses types has none for such a column, be it one of numbers, which are refused, or of texts. Which of
    the two it is cannot be told from it, so a column's having a type at all counts as public (docs/sharp-edges.md).
    """
    typed = [j for j, c in enumerate(schema.data_columns) if _holds_lists(c) or (isinstance(c, Category) and _wide(c))]
    return any(all(row[j] is None for row in rows) for j in typed)


def _holds_lists(column: DataColumn) -> bool:
    return isinstance(column, Set) or (isinstance(column, Vector) and column.columns is None)


def _wide(column: Category) -> bool:
    return any(isinstance(value, int) and abs(value) >= 2**53 for value in column.values)


def stored(form: str, schema: Schema, rows: Sequence[Row], folder: Path) -> Any:
    """The rows in a form that ``open_table`` takes; files go to the folder."""
    if _untyped(schema, rows):
        raise UnstorableError
    try:
        return _FORMS[form](schema, rows, folder)
    except _REFUSALS:
        raise UnstorableError from None
