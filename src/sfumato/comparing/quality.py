"""``compare``: how well a synthetic table stands for the real one, for the eyes of the real one's owner.

NOT PRIVATE: everything here is computed from the real table without noise. ``private_quality`` has a summary that may
travel.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa

from sfumato import check
from sfumato.comparing import learners
from sfumato.comparing.judgement import ComparedColumn, ComparedPair, QualityFigures, RowCopies
from sfumato.comparing.learners import Propensity, Target, Trained
from sfumato.comparing.quality_page import page
from sfumato.comparing.tally import TOGETHER, ComparedParts, TableTally, fine_counts, tally
from sfumato.errors import ParameterError
from sfumato.files.open_table import open_table
from sfumato.marginals.partition import Partition, Variable
from sfumato.marginals.parts import Parts, centres, title, total_variation, zoomed
from sfumato.numerics.types import Floats, Integers
from sfumato.releases.release import AnyRelease, load
from sfumato.releases.table import TableRelease
from sfumato.tables.columns import Date, Ordinal
from sfumato.tables.schema import Schema

WORST = 10  # pairs that are shown
_FEWER = 2  # rows of either table that a comparison needs


@dataclass(frozen=True, slots=True, eq=False)
class Quality(QualityFigures):
    """A real table beside a synthetic one, with the page of it. NOT PRIVATE: for the owner of the real table alone."""

    def write(self, path: str | Path, *, force: bool = False) -> None:
        """Write the comparison as one HTML page that only its owner may read (mode 0600). NOT PRIVATE."""
        write_for_owner(path, page(self), force=force)


def write_for_owner(path: str | Path, text: str, *, force: bool) -> None:
    """Write a file of a comparison that nobody but its owner may read; one that is there is replaced, not followed."""
    place = Path(path)
    if force:
        place.unlink(missing_ok=True)
    try:
        handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ParameterError(f"{place} already exists: choose another name or use force; nothing was written") from None
    with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)


def compare(data: Any, release: AnyRelease | str | Path, *, label: str | None = None, held_out: Any = None) -> Quality:
    """Compare the owner's real table with a synthetic one: column by column, pair by pair, and by models.

    NOT PRIVATE: what is returned is exact, and for the owner of the real table alone. Nothing is charged.

    data     : the real table, in any form that ``release`` takes.
    release  : of kind table, or the path of one; its schema says how the columns are read.
    label    : a column for models to predict; left out, that of the release.
    held_out : real rows that are not in ``data``, to test models on; left out, some of ``data`` are kept for that.
    """
    made = table_release(release)
    partition, label = partition_of(made), label or made.manifest["mechanism"].get("label")
    if label is not None:
        check.one_of([column.name for column in made.schema.data_columns], label=label)
    compared = ComparedParts.of(partition, fine_counts(partition, synthetic_batches(made)))
    real = tally(compared, real_batches(data, made.schema), 0)
    synthetic = tally(compared, synthetic_batches(made), 1)
    if min(real.rows, synthetic.rows) < _FEWER:
        raise ParameterError("a comparison needs at least two rows in either table")
    others = None if held_out is None else tally(compared, real_batches(held_out, made.schema), 2)
    return _judged(compared, real, synthetic, label, others)


def table_release(release: AnyRelease | str | Path) -> TableRelease:
    """A release of kind table to compare with; others are refused."""
    made = load(release) if isinstance(release, str | Path) else release
    if not isinstance(made, TableRelease):
        raise ParameterError("only a release of kind table can be compared with a table")
    return made


def partition_of(release: TableRelease) -> Partition:
    """The fine cells of a synthetic table's columns, as its release has them."""
    return Partition.of(release.schema, release.manifest["mechanism"].get("cuts"))


def synthetic_batches(release: TableRelease) -> Iterator[pa.RecordBatch]:
    """The rows of a synthetic table, in blocks to compare."""
    return iter(release.table().to_batches(max_chunksize=TOGETHER))


def real_batches(data: Any, schema: Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a real table, in blocks to compare; what the schema cannot be read from is refused first."""
    source = open_table(data, schema)
    source.check_types(schema)
    return source.blocks(schema.source_names, TOGETHER)


def _judged(
    compared: ComparedParts, real: TableTally, synthetic: TableTally, label: str | None, others: TableTally | None
) -> Quality:
    """The figures of a comparison from what was counted of both tables."""
    variables = compared.partition.variables
    columns = tuple(
        compared_column(variables[i], compared.ones[i], real.fine[i], synthetic.fine[i]) for i in range(len(variables))
    )
    distances = np.array([total_variation(a.ravel(), b.ravel()) for a, b in _both(real.pairs, synthetic.pairs)])
    far = np.argsort(-distances, kind="stable")[:WORST]
    models, told, untrained = _trained(compared.partition, (real, synthetic, others), label)
    return Quality(
        (real.rows, synthetic.rows),
        float(np.mean([column.distance for column in columns])),
        float(distances.mean()) if len(distances) else 0.0,
        len(distances),
        columns,
        tuple(_pair(compared, int(i), distances[i], real, synthetic) for i in far),
        label,
        models,
        told,
        untrained,
        _copies(real, synthetic),
        0 if others is None else others.sample.shape[1],
    )


def _both(first: list[Integers], second: list[Integers]) -> Iterator[tuple[Integers, Integers]]:
    return cast("Iterator[tuple[Integers, Integers]]", zip(first, second, strict=True))


def compared_column(variable: Variable, parts: Parts, real: Integers, synthetic: Integers) -> ComparedColumn:
    """One column of a comparison, from counts of its fine cells. NOT PRIVATE."""
    distance = total_variation(parts.counts(real), parts.counts(synthetic))
    shown = zoomed(variable, real / max(real.sum(), 1) + synthetic / max(synthetic.sum(), 1))
    gaps = variable.size > variable.values
    missing = tuple(float(c[variable.values :].sum() / max(c.sum(), 1)) for c in (real, synthetic)) if gaps else None
    return ComparedColumn(
        title(variable),
        distance,
        shown,
        shown.counts(real),
        shown.counts(synthetic),
        _means(variable, real, synthetic),
        cast("tuple[float, float] | None", missing),
    )


def _means(variable: Variable, *tables: Integers) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """Means and standard deviations of a compared number in both tables, by the middles of its fine cells."""
    middle = centres(variable)
    if middle is None or isinstance(variable.axis.column, Date | Ordinal):
        return None
    one, two = (_moments(middle, counts[: len(middle)]) for counts in tables)
    return one, two


def _moments(values: Floats, counts: Integers) -> tuple[float, float]:
    weights = counts / max(counts.sum(), 1)
    mean = float(values @ weights)
    return mean, float(np.sqrt(max(float((values - mean) ** 2 @ weights), 0.0)))


def _pair(
    compared: ComparedParts, place: int, distance: float, real: TableTally, synthetic: TableTally
) -> ComparedPair:
    one, two = compared.pairs[place]
    variables = compared.partition.variables
    names = title(variables[one]), title(variables[two])
    parts = compared.of_pairs[one], compared.of_pairs[two]
    return ComparedPair(names, float(distance), parts, real.pairs[place], synthetic.pairs[place])


def _trained(
    partition: Partition, tables: tuple[TableTally, TableTally, TableTally | None], label: str | None
) -> tuple[tuple[Trained, ...], Propensity | None, str]:
    """What models say in a comparison, and what is missing to train all of them."""
    real, synthetic, others = tables
    missing = learners.without_boosting()
    told = None if missing else learners.propensity(partition, real.sample, synthetic.sample)
    if label is None:
        return (), told, missing
    kept = int(learners.HELD_OUT * real.sample.shape[1]) if others is None else 0
    test = real.sample[:, :kept] if others is None else others.sample
    target = Target.of(partition, label, synthetic.fine[partition.place(label)])
    found = learners.trained(partition, target, test, real.sample[:, kept:], synthetic.sample)
    return tuple(found), told, missing


def _copies(real: TableTally, synthetic: TableTally) -> RowCopies:
    """Synthetic rows that equal a real one, and how many fresh real rows would: those that equal another one do."""
    marks, counts = np.unique(real.marks, return_counts=True)
    again = float(counts[counts > 1].sum() / real.rows)
    return RowCopies(int(np.isin(synthetic.marks, marks).sum()), again * synthetic.rows)
