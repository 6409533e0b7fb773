"""AIM and MST on the tables of ``table_data``, by their authors' code, at the epsilon, neighbours and bounds of ours.

Usage: SFUMATO_DATA=FOLDER python experiments/table_rivals.py METHOD TABLE [--parts 32] [--cuts mass] [--runs 5] ...
Both take columns of few values, so numbers are cut into parts first, and drawn from a part again:

equal : equal parts of the public bounds; an integer of fewer values is not cut.
mass  : a tenth of the budget counts the public fine cells of every number with Gaussian noise, and parts have about
        equal noisy mass; a value that many records share is a part of its own. What is drawn follows the noisy counts.

Figures of each run are added as a line of JSON to table_rivals.jsonl, which ``tables`` reads.
"""

import argparse
import json
import math
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

from sfumato.numerics.types import Floats, Integers
from sfumato.tables.columns import DataColumn, Integer
from table_data import RealTable, load
from table_figures import figures, levels, nist_score, places, quality

EPSILON, DELTA = 1.0, 1e-6
FINE, SHARE, CLEAR = 128, 0.1, 1.5  # fine cells; their share of the budget; sds above 0 at which a cell counts
MOST_COLUMNS = 50  # for sdmetrics, which takes every pair of columns
_HERE = Path(__file__).parent
KEPT = _HERE / "table_rivals.jsonl"
MBI = _HERE.parent / ".venv-judges-mbi" / "bin" / "python"  # make judges-tables makes it


def fine_edges(column: Any, cells: int = FINE) -> Floats:
    """Edges of public cells of a number: its values if they are few integers, else equal parts, finer towards 0."""
    low, high, whole = float(column.low), float(column.high), isinstance(column, Integer)
    if whole and high - low < 2 * cells:
        return np.arange(low, high + 2) - 0.5
    centre = 0.0 if low <= 0 <= high else low
    steps = (high - low) * 2.0 ** (-np.arange(1, 49) / 4)
    edges = np.concatenate([np.linspace(low, high, cells + 1), centre + steps, centre - steps])
    edges = np.unique(edges[(edges >= low) & (edges <= high)])
    if not whole:
        return edges
    return np.unique(np.concatenate([[low - 0.5, high + 0.5, -0.5, 0.5], np.ceil(edges[1:-1]) - 0.5]).clip(low - 0.5))


@dataclass(frozen=True, slots=True, eq=False)
class Cuts:
    """How one number is cut: fine cells between edges, the part of each, and how likely each is within its part.

    A number that may be missing has one more part for that.
    """

    column: Any
    edges: Floats
    part: Integers
    likely: Floats

    @property
    def parts(self) -> int:
        """How many there are."""
        return int(self.part.max()) + 1 + (self.column.missing == "level")

    def read(self, cells: pd.Series) -> Integers:
        """The part of each cell."""
        found = self.part[fine_cells(self.edges, cells.fillna(self.column.low))]
        return np.where(cells.isna(), self.parts - 1, found)

    def drawn(self, parts: Integers, rng: np.random.Generator) -> pd.Series:
        """A number from each part."""
        found = np.full(len(parts), np.nan)
        for part in np.unique(self.part):
            rows, own = np.flatnonzero(parts == part), np.flatnonzero(self.part == part)
            weights = self.likely[own] / self.likely[own].sum()
            chosen = own[rng.choice(len(own), len(rows), p=weights)]
            low, high = self.edges[chosen], self.edges[chosen + 1]
            found[rows] = low + (high - low) * rng.random(len(rows))
        if isinstance(self.column, Integer):
            found = np.round(found)
        kind = "float64" if not isinstance(self.column, Integer) else "Int64" if self.column.missing else "int64"
        return pd.Series(found.clip(self.column.low, self.column.high)).astype(kind)


def fine_cells(edges: Floats, cells: pd.Series) -> Integers:
    """The fine cell of each number."""
    return np.clip(np.searchsorted(edges, cells.to_numpy(float), "right") - 1, 0, len(edges) - 2)


def equal(column: Any, parts: int) -> Cuts:
    """Equal parts of the bounds."""
    low, high, whole = float(column.low), float(column.high), isinstance(column, Integer)
    edges = np.linspace(low - 0.5 * whole, high + 0.5 * whole, parts + 1)
    if whole:
        edges = np.unique(np.concatenate([[low - 0.5, high + 0.5], np.ceil(edges[1:-1]) - 0.5]))
    return Cuts(column, edges, np.arange(len(edges) - 1), np.diff(edges))


def by_mass(column: Any, edges: Floats, noisy: Floats, scale: float, parts: int) -> Cuts:
    """Parts of about equal noisy mass; a cell with most of a part's mass stands alone."""
    mass = np.where(noisy > CLEAR * scale, noisy, 0.0)
    wanted, part, now, held = mass.sum() / parts, np.zeros(len(mass), np.int64), 0, 0.0
    for i, own in enumerate(mass):
        if held and (held >= wanted or own >= 0.7 * wanted):
            now, held = now + 1, 0.0
        part[i], held = now, held + own
    return Cuts(column, edges, part, mass + 1e-9 * np.diff(edges) * max(1.0, mass.sum()))


def cut_numbers(table: RealTable, kind: str, parts: int, sigma: float, rng: np.random.Generator) -> dict[str, Cuts]:
    """How every number is cut. ``sigma``: sd of the noise of one column's counts, were it the only one."""
    numbers: list[Any] = [c for c in table.columns if levels(c) is None]
    if kind == "equal":
        return {c.name: equal(c, parts) for c in numbers}
    scale, found = sigma * math.sqrt(len(numbers)), {}
    for column in numbers:
        edges = fine_edges(column)
        counts = np.bincount(fine_cells(edges, table.train[column.name].dropna()), minlength=len(edges) - 1)
        found[column.name] = by_mass(column, edges, counts + rng.normal(0, scale, len(counts)), scale, parts)
    return found


def coded(column: DataColumn, cells: pd.Series, cuts: dict[str, Cuts]) -> tuple[Integers, int]:
    """A column as numbers of values or parts, and how many there are."""
    listed = levels(column)
    if listed is not None:
        return places(column, cells), len(listed)
    return cuts[column.name].read(cells), cuts[column.name].parts


def decoded(table: RealTable, rows: Integers, cuts: dict[str, Cuts], rng: np.random.Generator) -> pd.DataFrame:
    """Rows of numbers of values or parts, in the columns of the table."""
    found = {}
    for column, own in zip(table.columns, rows.T, strict=True):
        listed = levels(column)
        if listed is None:
            found[column.name] = cuts[column.name].drawn(own, rng)
        else:
            found[column.name] = pd.Series(np.array(listed, dtype=object)[own]).infer_objects()
    return pd.DataFrame(found)


def rho_of(epsilon: float, delta: float) -> float:
    """The zero-concentrated privacy that gives (epsilon, delta), by the bound that private-pgm uses (at ``MBI``)."""
    code = f"import cdp2adp; print(cdp2adp.cdp_rho({epsilon}, {delta}))"
    there = MBI.parent.parent / "private-pgm" / "mechanisms"
    done = subprocess.run([str(MBI), "-c", code], cwd=there, check=True, capture_output=True, text=True)  # noqa: S603
    return float(done.stdout)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A method and its setting."""

    method: str
    table: str
    parts: int = 32
    cuts: str = "mass"
    replaced: bool = True
    epsilon: float = EPSILON
    degree: int = 2
    megabytes: float = 80.0
    inference: str = "sfumato"


def synthetic(wanted: Wanted, table: RealTable, seed: int) -> tuple[pd.DataFrame, dict[str, float]]:
    """A table by a rival, with what it took."""
    rng, share = np.random.default_rng([seed, 25]), SHARE if wanted.cuts == "mass" else 0.0
    moved = 2 if wanted.replaced else 1
    sigma = math.sqrt(moved / (2 * share * rho_of(wanted.epsilon, DELTA))) if share else 0.0
    cuts = cut_numbers(table, wanted.cuts, wanted.parts, sigma, rng)
    columns = [coded(c, table.train[c.name], cuts) for c in table.columns]
    asked = {"rows": np.column_stack([c for c, _ in columns]), "sizes": np.array([size for _, size in columns])}
    asked |= {"epsilon": wanted.epsilon, "delta": DELTA, "share": 1 - share, "replaced": wanted.replaced}
    more = {"method": wanted.method, "degree": wanted.degree, "megabytes": wanted.megabytes, "seed": seed}
    more |= {"inference": wanted.inference}
    with TemporaryDirectory() as folder:
        given, told = Path(folder) / "asked.npz", Path(folder) / "told.npz"
        np.savez(given, **asked, **more)
        script = _HERE / "mbi_rows.py"
        command = [str(MBI), "-W", "ignore", str(script), str(given), str(told)]
        place = {"PYTHONPATH": str(_HERE.parent / "src")}
        subprocess.run(command, check=True, env=os.environ | place)  # noqa: S603
        found = np.load(told)
        facts = {name: float(found[name]) for name in ("cpu", "wall", "mib")}
        return decoded(table, found["rows"], cuts, rng), facts


def judged(table: RealTable, made: pd.DataFrame) -> dict[str, float]:
    """All figures of a table, or NIST's score for NIST's; and the score of sdmetrics unless columns are very many."""
    found = {"sdmetrics": quality(table, made)} if len(table.columns) <= MOST_COLUMNS else {}
    if table.name.startswith("nist"):
        return found | {"score": nist_score(made, [c.name for c in table.columns])}
    return found | figures(table, made)


def main() -> None:
    """Runs of one method on one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("method", choices=("aim", "mst"))
    parser.add_argument("table")
    parser.add_argument("--parts", type=int, default=32)
    parser.add_argument("--cuts", choices=("equal", "mass"), default="mass")
    parser.add_argument("--added", action="store_true", help="a record added or removed, instead of replaced")
    parser.add_argument("--epsilon", type=float, default=EPSILON)
    parser.add_argument("--degree", type=int, default=2, help="columns of the tables that AIM is asked for")
    parser.add_argument("--megabytes", type=float, default=80.0, help="of AIM's model")
    parser.add_argument("--inference", choices=("sfumato", "mbi"), default="sfumato", help="of AIM's model")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="seed of the first run")
    parser.add_argument("--kept", type=Path, default=KEPT)
    parser.add_argument("--rows", type=Path, help="folder for the synthetic tables")
    given = vars(parser.parse_args())
    runs, first, kept, rows = (given.pop(name) for name in ("runs", "first", "kept", "rows"))
    wanted = Wanted(replaced=not given.pop("added"), **given)
    table = load(wanted.table)
    for seed in range(first, first + runs):
        made, facts = synthetic(wanted, table, seed)
        if rows is not None:
            rows.mkdir(parents=True, exist_ok=True)
            made.to_parquet(rows / f"{wanted.table}-{wanted.method}-{wanted.cuts}{wanted.parts}-{seed}.parquet")
        setting = {name: getattr(wanted, name) for name in wanted.__slots__}
        line = json.dumps(setting | {"seed": seed} | facts | judged(table, made))
        with kept.open("a") as file:
            file.write(line + "\n")
        print(line, flush=True)


if __name__ == "__main__":
    main()
