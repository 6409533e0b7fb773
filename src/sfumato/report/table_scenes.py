"""Pictures of a synthetic table: its columns beside their noisy counts, and which pairs its model knows.

Nothing but the release enters them.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from sfumato.fileformat.manifest import COUNTS, MODEL, TableFacts
from sfumato.fileformat.table_kind import Layout
from sfumato.marginals.partition import Partition, Variable
from sfumato.marginals.parts import shares, title, zoomed
from sfumato.numerics.types import Floats, Integers
from sfumato.releases.table import TableRelease
from sfumato.report import maps
from sfumato.report.column_pictures import ColumnPicture, ShareSeries
from sfumato.report.error_plots import table_deviation
from sfumato.report.numbers import number
from sfumato.report.scenes import Scene

MOST_COLUMNS, _MAPPED = 40, 96
_NORMAL = 1.96  # deviations of a 95% interval
_MEASURED = 0.3  # how dark a pair is that was counted and is not in the model


def scenes(release: TableRelease) -> list[Scene]:
    """The scenes of a synthetic table."""
    return [_structure(release), *_columns(release)]


def column_counts(release: TableRelease) -> tuple[Partition, list[Integers]]:
    """The fine cells of a synthetic table's columns, and how many of its rows are in each; for its scenes."""
    partition = Partition.of(release.schema, release.manifest["mechanism"].get("cuts"))
    total = [np.zeros(size, np.int64) for size in partition.sizes]
    for batch in release.table().to_batches(max_chunksize=1 << 16):
        rows = partition.read(batch)
        total = [found + np.bincount(row, minlength=len(found)) for found, row in zip(total, rows, strict=True)]
    return partition, total


def _columns(release: TableRelease) -> Iterator[Scene]:
    partition, counted = column_counts(release)
    noisy = dict(_one_ways(release.manifest["mechanism"], release.beside[COUNTS]))
    many = len(partition.variables)
    for place in range(min(many, MOST_COLUMNS)):
        scene = _column(release, partition.variables[place], counted[place], noisy.get(place), f"column{place}")
        if place == 0 and many > MOST_COLUMNS:
            scene = replace(scene, caption=f"{scene.caption} The first {MOST_COLUMNS} of {many:,} columns are shown.")
        yield scene


def column_picture(release: TableRelease, place: int) -> ColumnPicture:
    """The picture of one variable of a synthetic table, by its place, as its scene shows it."""
    facts = release.manifest["mechanism"]
    partition, counted = column_counts(release)
    noisy = dict(_one_ways(facts, release.beside[COUNTS]))
    return _picture(partition.variables[place], counted[place], noisy.get(place), facts["records"])


def _column(
    release: TableRelease, variable: Variable, own: Integers, noisy: tuple[Floats, float] | None, name: str
) -> Scene:
    picture = _picture(variable, own, noisy, release.manifest["mechanism"]["records"])
    about = " Bars of noisy counts have 95% intervals of the noise." if noisy is not None else ""
    said = f"{picture.cut_off}{' ' if picture.cut_off else ''}Share of rows.{about}"
    return Scene(picture.title, picture.drawn(name), said)


def _one_ways(facts: TableFacts, counts: Integers) -> Iterator[tuple[int, tuple[Floats, float]]]:
    """The noisy counts of single variables over fine cells behind a synthetic table's scenes, and their deviation."""
    for table, found in zip(facts["tables"], Layout.of(facts).counts(counts), strict=True):
        if len(table["columns"]) == 1 and table["cells"] == "fine":
            yield table["columns"][0], (found.astype(np.float64), table_deviation(facts["noise"], table["scale"]))


def _picture(variable: Variable, own: Integers, noisy: tuple[Floats, float] | None, records: float) -> ColumnPicture:
    parts = zoomed(variable, own)
    series = [ShareSeries("synthetic rows", shares(parts.counts(own)), "c0")]
    if noisy is not None and records >= 1:
        counts, spread = noisy
        found = np.bincount(parts.of_cell, counts, parts.size) / records
        cells = np.bincount(parts.of_cell, minlength=parts.size)
        series.append(ShareSeries("noisy counts", found, "c5", _NORMAL * spread * np.sqrt(cells) / records))
    return ColumnPicture(title(variable), parts.names, parts.starts, tuple(series))


def _structure(release: TableRelease) -> Scene:
    """The scene of a synthetic table's model: which pairs were counted, and which of them the model keeps."""
    facts = release.manifest["mechanism"]
    variables = Partition.of(release.schema, facts.get("cuts")).variables
    matrix, caption = _correlations(release) if facts["method"] == "copula" else _pairs(facts)
    shown = min(len(variables), _MAPPED)
    if shown < len(variables):
        caption += f" The first {shown} of {len(variables):,} columns are shown."
    names = [title(variable) for variable in variables[:shown]]
    picture = maps.heat(matrix[:shown, :shown], "pairs of columns that the model knows", names)
    return Scene("Which columns are related", picture, caption)


def _correlations(release: TableRelease) -> tuple[Floats, str]:
    """The scene of a copula: how strong the correlations of a synthetic table's columns are, by size."""
    matrix = np.abs(Layout.of(release.manifest["mechanism"]).correlation(release.beside[MODEL]))
    np.fill_diagonal(matrix, 0.0)
    caption = (
        "The darker, the stronger the correlation of two columns in the model, a Gaussian copula, whatever its sign. "
        "The model knows nothing else about pairs of columns."
    )
    return matrix, caption


def _pairs(facts: TableFacts) -> tuple[Floats, str]:
    """The scene of a junction tree: which pairs of a synthetic table's columns were counted, and which it keeps."""
    count = len(facts["bins"])
    matrix = np.zeros((count, count))
    for table in facts["tables"]:
        _mark(matrix, table["columns"], _MEASURED)
    for clique in facts["cliques"]:
        _mark(matrix, clique, 1.0)
    pairs = np.triu(matrix, 1)
    kept, counted, every = int((pairs == 1).sum()), int((pairs > 0).sum()), math.comb(count, 2)
    caption = (
        f"Dark: the {number(kept)} pairs of columns whose relation the model keeps exactly as it was fitted. Light: "
        f"counted, and left out as too close to independent to be worth its noise. {number(counted)} of "
        f"{number(every)} pairs are dark or light. Columns that are joined by others only are related through these."
    )
    return matrix, caption


def _mark(matrix: Floats, columns: list[int], value: float) -> None:
    """Mark all pairs of some columns in the map of a synthetic table's structure."""
    if len(columns) > 1:
        some = np.ix_(columns, columns)
        matrix[some] = np.maximum(matrix[some], value * (1 - np.eye(len(columns))))
