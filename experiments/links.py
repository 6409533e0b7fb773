"""Records of two owners linked: how many are found, how many links are false, and how many are believed to be.

A real table is cut in two with an overlap of 30%. In the second part a share of the cells is mistyped: numbers off by
a bit, other cells replaced by those of other records. Both parts are released by sketches with noise of their own, and
linked. Beside it stands the same without noise to speak of, and mutual nearest neighbours of the unprotected rows.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy

import similar
import table_data
from page import Cell, Experiment, Paper, Part, Setting, Table
from sfumato.files.open_table import open_table
from sfumato.mechanisms.sketch import Sketch
from sfumato.numerics.types import Floats, Integers
from sfumato.owners.links import Links, link
from sfumato.pipeline.release import release
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.tables.columns import Category
from sfumato.tables.schema import Schema

ROWS, MORE, CUTS, OVERLAP, MISTYPED = (2_000, 600), (10_000, 1_000), (3, 1), 0.3, 0.03
EPSILONS, PLAIN = (1.0, 2.0, 4.0, 8.0, 16.0), 1e3
LEVELS = (0.05, 0.2)
HEADER = (
    *("protected", "records each", "epsilon", "links at 5%", "estimated false", "false", "recall"),
    *("links at 20%", "estimated false ", "false ", "recall ", "matches", "believed"),
)
NIST = tuple(name for name in table_data.NIST_TWENTY if name != "POVPIP")  # a number and a flag if it is missing


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """Two owners' tables, and the numbers of their records in the table that was cut."""

    first: pd.DataFrame
    second: pd.DataFrame
    numbers: tuple[Integers, Integers]

    def right(self, pairs: Integers) -> Any:
        """Which pairs are the same record."""
        return self.numbers[0][pairs[:, 0]] == self.numbers[1][pairs[:, 1]]


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A table with its public schema; ``apart`` is a column by which owners may have different people."""

    rows: pd.DataFrame
    schema: Schema
    apart: str | None = None

    def cut(self, count: int, rng: np.random.Generator, *, alike: bool = True) -> Parts:
        """Two parts of so many records; if not alike, the second's own records have the commonest value of a column."""
        both = int(OVERLAP * count)
        order = rng.permutation(len(self.rows))
        one, left = order[:count], order[count:]
        if not alike:
            column = self.rows[self.apart]
            left = left[(column == column.mode()[0]).to_numpy()[left]]
        two = rng.permutation(np.concatenate([one[:both], left[: count - both]]))
        return Parts(self._at(one), mistyped(self._at(two), rng), (one, two))

    def _at(self, kept: Integers) -> pd.DataFrame:
        return self.rows.iloc[kept].reset_index(drop=True)


def mistyped(rows: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Rows of which a share of the cells is wrong: numbers by a twentieth of their range or so, others by any other."""
    found = rows.copy()
    for name in rows:
        cells = rows[name].to_numpy().copy()
        wrong = rng.random(len(cells)) < MISTYPED
        if cells.dtype.kind in "if":
            low, high = cells.min(), cells.max()
            off = np.maximum(np.rint(rng.exponential(0.05 * (high - low), len(cells))), 1) * rng.choice(
                [-1, 1], len(cells)
            )
            cells[wrong] = np.clip(cells + off, low, high).astype(cells.dtype)[wrong]
        else:
            cells[wrong] = cells[rng.integers(0, len(cells), int(wrong.sum()))]
        found[name] = cells
    return found


def adult(path: Path) -> Source:
    """Persons of the training part, but for their income."""
    found = similar.census(path)
    return Source(found.rows, found.schema, "sex")


def flags(read: Callable[[Path], similar.Similar], path: Path) -> Source:
    """Visitors who saw two areas at least; of the others, many are the same."""
    found = read(path)
    kept = found.records.sum(axis=1) >= 2
    return Source(found.rows[kept], found.schema)


def nist(path: Path) -> Source:
    """NIST's excerpt: an age and 18 categories."""
    found = table_data.nist(path.parent.parent, NIST)
    return Source(found.train, Schema(found.columns, scale="bounds"), "SEX")


def covertype(path: Path) -> Source:
    """Cells of a forest: ten numbers and three categories."""
    found = table_data.covertype(path.parent)
    return Source(found.train, Schema(found.columns, scale="bounds"))


def sketches(setting: Setting, source: Source, parts: Parts, what: str, epsilon: float) -> tuple[Any, Any]:
    """Both parts released, each with noise of its own."""
    secrets = setting.secrets(f"{what} {epsilon} {parts.numbers[0][:3]}")
    schema, given = source.schema, Guarantee(epsilon=epsilon, unit="attribute")
    recipe = Sketch(noise="laplace")
    if what == "value, sparse":
        recipe = Sketch(noise="laplace", dimension=min(48, schema.encoding.dim), seed=29)
    if what == "l2 move":
        recipe, given = Sketch(noise="gaussian"), Guarantee(epsilon=epsilon, delta=1e-6, change=Change.l2(0.5))
    made = [
        release(rows, schema=schema, mechanism=recipe, guarantee=given, secret=next(secrets))
        for rows in (parts.first, parts.second)
    ]
    return made[0], made[1]


def line(setting: Setting, source: Source, count: int, what: str, epsilon: float) -> list[Cell]:
    """Links of a few cuts, pooled."""
    cuts = setting.often(*CUTS) if count <= ROWS[0] else 1
    found: list[tuple[Links, Any]] = []
    for cut in range(cuts):
        parts = source.cut(count, setting.rng(f"cut {cut} {count}"), alike=what != "value, other people")
        links = link(*sketches(setting, source, parts, what, epsilon))
        found.append((links, parts.right(links.pairs)))
    true, cells = int(OVERLAP * count), []
    for level in LEVELS:
        kept = [(links.at(fdr=level), right) for links, right in found]
        number = sum(len(links) for links, _ in kept)
        wrong = sum(int(np.sum(~right[: len(links)])) for links, right in kept)
        guess = sum(float(links.rates[-1]) * len(links) for links, _ in kept if len(links))
        cells += [number, guess / number if number else None, wrong / number if number else None]
        cells += [(number - wrong) / (cuts * true)]
    setting.told(f"{what} {count} {epsilon:g}")
    said = "none" if epsilon == PLAIN else epsilon
    return [what, count, said, *cells, cuts * true, round(sum(links.expected_matches for links, _ in found))]


def nearest(source: Source, parts: Parts) -> tuple[int, int]:
    """Mutual nearest neighbours of unprotected rows, nearer than any other: how many, and how many are right."""
    one, two = (_weighted(source.schema, rows) for rows in (parts.first, parts.second))
    (near, mine), (_, theirs) = scipy.spatial.cKDTree(two).query(one, 2), scipy.spatial.cKDTree(one).query(two, 2)
    mutual = (theirs[mine[:, 0], 0] == np.arange(len(one))) & (near[:, 0] < near[:, 1])
    pairs = np.column_stack([np.flatnonzero(mutual), mine[mutual, 0]])
    return len(pairs), int(np.sum(parts.right(pairs)))


def _weighted(schema: Schema, rows: pd.DataFrame) -> Floats:
    blocks = open_table(rows, schema).blocks(schema.source_names, 1 << 14)
    return np.concatenate([schema.encode(block) for block in blocks], axis=1).T * schema.encoding.weights


def compared(setting: Setting, file: str, read: Callable[[Path], Source], more: bool) -> Iterator[Part]:
    """A line for each epsilon, and some for other ways to protect."""
    path = setting.file(file)
    if path is None:
        return
    source, few, many = read(path), setting.often(*ROWS), setting.often(*MORE)
    wanted = [("value", few, epsilon) for epsilon in (*EPSILONS, PLAIN)]
    if more:
        wanted += [("value", many, epsilon) for epsilon in (8.0, 16.0, PLAIN)]
        wanted += [("value, sparse", few, epsilon) for epsilon in (16.0, PLAIN)]
        wanted += [("l2 move", few, epsilon) for epsilon in (1.0, 4.0)]
    if source.apart:
        wanted += [("value, other people", few, epsilon) for epsilon in (16.0, PLAIN)]
    lines = [line(setting, source, count, what, epsilon) for what, count, epsilon in wanted]
    number, right = nearest(source, source.cut(few, setting.rng(f"cut 0 {few}")))
    columns = sum(1 if not isinstance(c, Category) else c.width for c in source.schema.data_columns)
    yield (
        f"{len(source.schema.data_columns)} columns, {columns} encoded. Mutual nearest neighbours of the unprotected "
        f"rows, {few:,} each: {number:,} links, of which {1 - right / max(number, 1):.3f} are false, recall "
        f"{right / int(OVERLAP * few):.3f}. By chance, a link is right with probability {OVERLAP / few:.5f}."
    )
    formats = {name: ".3f" for name in HEADER if name.strip() in ("estimated false", "false", "recall")}
    yield Table("links", HEADER, lines, formats)


def _experiment(name: str, title: str, file: str, read: Callable[[Path], Source], more: bool = False) -> Experiment:
    return Experiment(f"links-{name}", title, partial(compared, file=file, read=read, more=more), (file,))


PAPER = Paper(
    "links",
    "Records of two owners linked",
    (
        _experiment("adult", "Adult (tuned on)", "adult.parquet", adult),
        _experiment("msweb", "MS-Web visitors (tuned on)", "msweb_pairs.parquet", partial(flags, similar.msweb)),
        _experiment("nist", "NIST's national excerpt", "nist_national2019/national2019.csv", nist, more=True),
        _experiment("covertype", "Covertype", "covertype.parquet", covertype),
        _experiment("msnbc", "MSNBC visitors", "msnbc_counts.parquet", partial(flags, similar.msnbc)),
    ),
    "A table is cut in two parts of as many records with an overlap of 30%. In the second, 3% of the cells are\n"
    "mistyped: numbers are off by about a twentieth of their range, others are replaced by those of other records.\n"
    "Protected is each value by Laplace noise, as columns or under a sparse projection, or a record that moves by 1/2\n"
    "in Euclidean length, by normal noise. `sf.link` declares the most links of which it estimates at most 5%, or\n"
    "20%, to be false. The table has what it estimated, and the truth; three cuts are pooled, but for large tables.\n"
    "Epsilon `none` has so little noise (1000 for each value) that it is linkage of plain rows by the same method.\n"
    "Adult and MS-Web were looked at while it was made, the others were not. Where links are few, the share of false\n"
    "ones is known badly: of tables with nothing to link, up to one in five has a few links at 20%. `other people`:\n"
    "the second owner's own records all have the commonest value of the column for sex, which decoys do not know; the\n"
    "share of false links was then estimated too high, so on the safe side.",
)
