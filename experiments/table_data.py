"""Real tables with public schemas, for tables of synthetic data: rows to release, rows to test on, and a label.

Bounds of Adult and of NIST's excerpt are what their documents say. Those of Covertype and BlogFeedback are the range of
the data, rounded outwards to two digits: good enough to compare methods that are all given the same, and no more.
"""

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sfumato.tables.columns import Category, DataColumn, Integer, Real
from sfumato.tables.schema import Schema

_ADULT = {
    "age": (17, 90),
    "fnlwgt": (0, 1_500_000),
    "education_num": (1, 16),
    "capital_gain": (0, 100_000),
    "capital_loss": (0, 4400),
    "hours_per_week": (1, 99),
}
NIST_TEN = ("AGEP", "SEX", "MSP", "RAC1P", "HOUSING_TYPE", "OWN_RENT", "EDU", "PINCP_DECILE", "DVET", "DEYE")
NIST_TWENTY = (
    *("PUMA", "AGEP", "SEX", "MSP", "HISP", "RAC1P", "NOC", "NPF", "HOUSING_TYPE", "OWN_RENT", "DENSITY", "INDP_CAT"),
    *("EDU", "PINCP_DECILE", "POVPIP", "DVET", "DREM", "DPHY", "DEYE", "DEAR"),
)  # all from PUMA to DEAR but INDP, of which INDP_CAT is the coarse form, and PINCP, of which PINCP_DECILE is

_NIST_NUMBERS = {"AGEP": Integer("AGEP", 0, 99), "POVPIP": Integer("POVPIP", 0, 501, missing="level")}


@dataclass(frozen=True, slots=True, eq=False)
class RealTable:
    """A table to release, and what is publicly known of it.

    test  : other rows, on which what was learnt is tested; none for NIST's excerpt.
    label : the column to predict, or None.
    tuned : whether shares, bins and caps of our mechanism were chosen on this table.
    """

    name: str
    train: pd.DataFrame
    test: pd.DataFrame
    schema: Schema
    label: str | None
    tuned: bool = False

    @property
    def columns(self) -> tuple[DataColumn, ...]:
        """What is declared of each column."""
        return self.schema.data_columns


def data_folder(given: Path | None = None) -> Path:
    """The folder of the data sets: the one given, or $SFUMATO_DATA."""
    found = given or os.environ.get("SFUMATO_DATA")
    if not found:
        raise SystemExit("where are the data sets? Give their folder, or set SFUMATO_DATA")
    return Path(found)


def rounded_range(values: pd.Series) -> tuple[float, float]:
    """The range of values, rounded outwards to two digits of its width."""
    low, high = float(values.min()), float(values.max())
    step = 10.0 ** math.floor(math.log10(high - low if high > low else 1.0) - 1)
    return math.floor(low / step) * step, math.ceil(high / step) * step


def number(name: str, values: pd.Series, bounds: tuple[float, float] | None) -> DataColumn:
    """An integer where all values are whole, else a real; a column of one value gets a second, one above it."""
    low, high = bounds or rounded_range(values)
    high = high if high > low else low + 1
    return Integer(name, int(low), int(high)) if np.all(values == np.round(values)) else Real(name, low, high)


def category(name: str, values: pd.Series) -> Category:
    """A category of the values that occur, in their order."""
    return _complete(name, sorted(values.unique().tolist()))


def _complete(name: str, values: Sequence[Any]) -> Category:
    """A category in which, publicly, no cell is missing: a synthetic one is none of no value either."""
    return Category(name, tuple(values), missing=values[0])


def _split(
    name: str, cells: pd.DataFrame, tested: Any, label: str, listed: tuple[str, ...] = (), **known: Any
) -> RealTable:
    bounds, tuned = known.get("bounds", {}), known.get("tuned", False)
    columns: list[DataColumn] = []
    for column, values in cells.items():
        kept = column in (label, *listed) or values.dtype.kind not in "iuf"
        columns.append(category(column, values) if kept else number(column, values, bounds.get(column)))
    whole = {c.name: "int64" for c in columns if isinstance(c, Integer)}
    cells = cells.astype(whole | {c.name: "float64" for c in columns if isinstance(c, Real)})
    parts = [cells[rows].reset_index(drop=True) for rows in (~tested, tested)]
    return RealTable(name, parts[0], parts[1], Schema(tuple(columns)), label, tuned)


def adult(folder: Path) -> RealTable:
    """Persons, whether their income is above 50,000 dollars; the publisher's split."""
    cells = pd.read_parquet(folder / "adult.parquet")
    tested = cells.pop("test").to_numpy() == 1
    return _split("adult", cells, tested, "income_gt50k", bounds=_ADULT, tuned=True)


def covertype(folder: Path) -> RealTable:
    """Cells of a forest, and which of seven trees covers them; a fifth of the rows tests."""
    cells = pd.read_parquet(folder / "covertype.parquet")
    for prefix in ("Wilderness", "Soil"):
        flags = [name for name in cells if name.startswith(prefix)]
        chosen = cells[flags].to_numpy().argmax(axis=1)
        cells = cells.drop(columns=flags)
        cells[prefix] = chosen
    tested = np.random.default_rng(7).random(len(cells)) < 0.2
    return _split("covertype", cells, tested, "Cover_Type", ("Wilderness", "Soil"), tuned=True)


def blog(folder: Path) -> RealTable:
    """Posts of blogs, and whether a comment follows within a day; the publisher's split."""
    cells = pd.read_parquet(folder / "blogfeedback.parquet")
    tested = cells.pop("test").to_numpy() == 1
    cells["target"] = (cells["target"] > 0).astype(int)
    return _split("blog", cells, tested, "target")


def nist(folder: Path, columns: tuple[str, ...] = NIST_TEN) -> RealTable:
    """NIST's national excerpt of 2019, without a label; values are those that its dictionary lists.

    Cells are texts, "N" where a question does not apply. Ages are integers, and so are ratios to poverty, missing where
    they do not apply. Written as CSV with "N" for missing cells, a frame of these columns is what NIST's scorer reads.
    """
    place = folder / "nist_national2019"
    cells = pd.read_csv(place / "national2019.csv", dtype=str, keep_default_na=False)[list(columns)]
    described = json.loads((place / "national2019.json").read_text())["schema"]
    given = tuple(_NIST_NUMBERS.get(n) or _nist_category(n, described[n], cells[n]) for n in columns)
    for column in given:
        if isinstance(column, Integer):
            numbers = pd.to_numeric(cells[column.name], errors="coerce")
            cells[column.name] = numbers.astype("int64" if column.missing is None else "Int64")
    return RealTable(f"nist{len(columns)}", cells, cells.iloc[:0], Schema(given), None)


def _nist_category(name: str, described: dict[str, Any], values: pd.Series) -> Category:
    if "values" in described:
        return _complete(name, [str(value) for value in described["values"]])
    return category(name, values)  # DENSITY: one for each PUMA


def nist_ten(folder: Path) -> RealTable:
    """The ten columns of NIST's published reports ("demographic-focused")."""
    return nist(folder, NIST_TEN)


def nist_twenty(folder: Path) -> RealTable:
    """Twenty columns."""
    return nist(folder, NIST_TWENTY)


LOADERS = {"adult": adult, "covertype": covertype, "blog": blog, "nist10": nist_ten, "nist20": nist_twenty}


def load(name: str, folder: Path | None = None) -> RealTable:
    """The table of this name."""
    return LOADERS[name](data_folder(folder))
