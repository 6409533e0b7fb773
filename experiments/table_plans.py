"""Plans of synthetic tables against runs: predicted and measured total variation on real tables.

Usage: SFUMATO_DATA=FOLDER python experiments/table_plans.py [--runs N] [--write]

The constants of plans were chosen on Adult and Covertype, those of pairs on NIST's excerpt too. With --write the table
goes into docs/choosing.md.
"""

import argparse
import functools
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

import sfumato as sf
from sfumato.engines.local import LocalRows
from sfumato.files.open_table import open_table
from sfumato.mechanisms.table.recipe import Table
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness.secret import Secret
from sfumato.tables.blocks import Blocks
from sfumato.tables.columns import Integer
from sfumato.tables.schema import Schema
from table_data import RealTable, data_folder, load, number
from table_figures import variations

COMMAND = "python experiments/table_plans.py --write"
PAGE = Path(__file__).parent.parent / "docs" / "choosing.md"
_MOST_PAGES, _VISITORS = 20, 100_000


def buzz(folder: Path) -> RealTable:
    """Topics of a forum in 97 numbers, bounds rounded outwards; no label."""
    cells = pd.read_parquet(folder / "buzz_tomshardware.parquet")
    columns = tuple(number(name, cells[name], None) for name in cells)
    whole = {c.name: "int64" if isinstance(c, Integer) else "float64" for c in columns}
    return RealTable("buzz", cells.astype(whole), cells.iloc[:0], Schema(columns), None)


def msnbc(folder: Path) -> RealTable:
    """How many pages of 17 kinds 100,000 visitors saw, each clipped to 20."""
    cells = pd.read_parquet(folder / "msnbc_counts.parquet").clip(0, _MOST_PAGES).astype("int64")
    some = np.random.default_rng(7).choice(len(cells), _VISITORS, replace=False)
    columns = tuple(Integer(name, 0, _MOST_PAGES) for name in cells)
    return RealTable("msnbc", cells.iloc[some].reset_index(drop=True), cells.iloc[:0], Schema(columns), None)


OTHERS: dict[str, Callable[[Path], RealTable]] = {"buzz": buzz, "msnbc": msnbc}
NAMES = {
    "adult": "Adult (tuned on)",
    "covertype": "Covertype (tuned on)",
    "nist10": "NIST, ten columns",
    "nist20": "NIST, twenty columns",
    "buzz": "Buzz, Tom's Hardware",
    "blog": "BlogFeedback",
    "msnbc": "MSNBC counts",
}
SETTINGS: tuple[tuple[str, float, float | None], ...] = (
    *((name, 1.0, None) for name in NAMES),
    ("buzz", 1.0, 0.6),
    ("blog", 1.0, 0.8),
    ("msnbc", 1.0, 0.9),
    *((name, epsilon, None) for name in ("adult", "nist10") for epsilon in (0.3, 3.0)),
)  # name, epsilon, and how many records are zero in a typical number, if that is stated


@functools.cache
def table_of(name: str) -> RealTable:
    """The table of a name."""
    return OTHERS[name](data_folder()) if name in OTHERS else load(name)


@functools.cache
def measured(name: str, guarantee: Guarantee, runs: int) -> dict[str, float]:
    """Mean total variation over runs of the mechanism with testing secrets."""
    table = table_of(name)
    calibrated = calibrate(Table(table.label).prepare(table.schema, guarantee), guarantee)
    prepared, found = calibrated.mechanism, []
    source = open_table(pa.Table.from_pandas(table.train, preserve_index=False), table.schema)
    blocks = Blocks.of(source, table.schema, width=1).encoded_by(prepared.partition.read)
    for seed in range(runs):
        published = prepared.run(LocalRows(blocks), calibrated.level, Secret.for_testing(seed))
        made = pa.Table.from_batches(list(published.blocks)).to_pandas()
        found.append(variations(table, made.astype(table.train.dtypes.to_dict())))
    return {figure: float(np.mean([run[figure] for run in found])) for figure in ("tv1", "tv2")}


def line(name: str, epsilon: float, zeros: float | None, runs: int) -> str:
    """A line of the table: what was predicted of one setting, what was measured, and their ratio."""
    table = table_of(name)
    guarantee = Guarantee(epsilon=epsilon, delta=1e-6, unit="record")
    facts = {"schema": table.schema, "guarantee": guarantee, "rows": len(table.train), "label": table.label}
    plan = sf.plan(purpose="table", zeros=zeros, **facts)
    real = measured(name, guarantee, runs)
    stated = "" if zeros is None else f", zeros {zeros:g}"
    cells = [f"{NAMES[name]}{stated}", f"{len(table.train):,}", f"{len(table.columns)}", f"{epsilon:g}"]
    cells.append(plan.forecast.choice.method)
    for predicted, found in ((plan.one_way, real["tv1"]), (plan.two_way, real["tv2"])):
        cells += [f"{predicted:.4f}", f"{found:.4f}", f"{predicted / found:.2f}"]
    return "| " + " | ".join(cells) + " |"


def body(runs: int, settings: Sequence[tuple[str, float, float | None]] = SETTINGS) -> str:
    """The table of all settings, printed line by line."""
    head = ["table", "records", "columns", "epsilon", "method"]
    head += ["one-way, predicted", "measured", "ratio", "two-way, predicted", "measured", "ratio"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    print("\n".join(lines))
    for setting in settings:
        lines.append(line(*setting, runs))
        print(lines[-1], flush=True)
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and write into the page if asked to."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    table = body(options.runs)
    if options.write:
        first, rest = PAGE.read_text().split(f"<!-- made by: {COMMAND} -->\n")
        last = rest.split("<!-- end -->", 1)[1]
        PAGE.write_text(f"{first}<!-- made by: {COMMAND} -->\n{table}\n<!-- end -->{last}")


if __name__ == "__main__":
    main()
