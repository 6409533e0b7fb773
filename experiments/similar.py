"""Similar records from a sketch, ranked as released and under a learned prior: how many are right, and intervals.

All columns are published (``Sketch()``): with Laplace noise where each value is protected, with normal noise where a
whole record is, moved by at most 1 in Euclidean length. Bounds are public facts of the data or the range of the
columns, rounded outwards. Labels are not released: they only score.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from page import Cell, Experiment, Measured, Paper, Part, Setting, Table
from sfumato.files.open_table import open_table
from sfumato.mechanisms.sketch import Sketch
from sfumato.numerics.types import Floats, Integers
from sfumato.pipeline.release import release
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.releases.release import Nearest
from sfumato.releases.sketch import Prior
from sfumato.tables.columns import Flag
from sfumato.tables.schema import Schema
from table_data import adult

ROWS, QUERIES, SHOWN, LEVEL = (10_000, 3_000), (1_000, 100), 10, 0.95
EPSILONS = (1.0, 2.0, 4.0, 8.0)
PRIORS: tuple[Prior, ...] = ("none", "learned")
MOVED = (1.0, 4.0)  # epsilons for records that move by at most RADIUS in Euclidean length
RADIUS, DELTA = 1.0, 1e-6
HEADER = ("protected", "epsilon", "intervals", "recall", "same label", "held", "width", "expected", "found")
COUNTED = (25, 10)  # queries of which the expected number of true neighbours is computed
SCORED = 200  # queries at a time


@dataclass(frozen=True, slots=True, eq=False)
class Similar:
    """Rows to release under a public schema, the same in its weighted units, and a label that similar ones share."""

    rows: Any
    schema: Schema
    records: Floats
    labels: NDArray[np.generic]

    @classmethod
    def of(cls, records: Floats, labels: NDArray[np.generic]) -> "Similar":
        """Of records between 0 and 1 in every column."""
        return cls(records, Schema.reals(records.shape[1], low=0, high=1), records, labels)

    def some(self, count: int, rng: np.random.Generator) -> "Similar":
        """So many of them, in their order."""
        if count >= len(self.records):
            return self
        kept = np.sort(rng.choice(len(self.records), count, replace=False))
        rows = self.rows.iloc[kept] if isinstance(self.rows, pd.DataFrame) else self.rows[kept]
        return Similar(rows, self.schema, self.records[kept], self.labels[kept])

    def squared(self, queries: Integers) -> Floats:
        """Squared distances of records to all others; infinite to themselves."""
        lengths = np.sum(self.records**2, axis=1)
        found = lengths[queries][:, None] + lengths - 2 * self.records[queries] @ self.records.T
        found[np.arange(len(queries)), queries] = np.inf
        return np.asarray(np.maximum(found, 0.0))


def _within(values: NDArray[np.generic], low: Floats, high: Floats) -> Floats:
    return np.asarray(np.clip((values.astype(float) - low) / (high - low), 0.0, 1.0))


def mnist(path: Path) -> Similar:
    """Digits, 784 pixels; the label is the digit."""
    rows = pd.read_parquet(path)
    return Similar.of(rows.iloc[:, 2:].to_numpy(np.float64) / 255, rows["label"].to_numpy())


def msweb(path: Path) -> Similar:
    """Visitors of a web site, a flag for each area; the label is the most visited area that they saw."""
    pairs = pd.read_parquet(path)
    bits = pd.crosstab(pairs["user"], pairs["area"]).to_numpy() > 0
    return _by_rank(bits)


def msnbc(path: Path) -> Similar:
    """Visitors of a news site, a flag for each of 17 kinds of pages; labels as for the other."""
    return _by_rank(pd.read_parquet(path).to_numpy() > 0)


def _by_rank(bits: NDArray[np.bool_]) -> Similar:
    order = np.argsort(-bits.sum(axis=0), kind="stable")
    schema = Schema(tuple(Flag(f"c{j}") for j in range(bits.shape[1])))
    labels = order[bits[:, order].argmax(axis=1)]
    return Similar(pd.DataFrame(bits, columns=list(schema.source_names)), schema, bits.astype(float), labels)


def census(path: Path) -> Similar:
    """Adult, persons of the training part in their declared ranges; the label is the income."""
    table = adult(path.parent)
    schema = Schema(tuple(column for column in table.columns if column.name != table.label), scale="bounds")
    blocks = open_table(table.train, schema).blocks(schema.source_names, 1 << 14)
    weighted = np.concatenate([schema.encode(block) for block in blocks], axis=1).T * schema.encoding.weights
    return Similar(table.train[list(schema.source_names)], schema, weighted, table.train[table.label].to_numpy())


def gfe(path: Path) -> Similar:
    """Points of a face in frames of video, 300 numbers; the label is whether it makes the expression."""
    rows = pd.read_parquet(path)
    low, high = (np.tile(ends, 100).astype(float) for ends in ((200, 120, 0), (410, 350, 1700)))
    return Similar.of(_within(rows.iloc[:, 3:].to_numpy(), low, high), rows["target"].to_numpy())


def sports(path: Path) -> Similar:
    """Sensors of persons who do sports, 45 numbers; the label is what they do."""
    rows = pd.read_parquet(path)
    reach = np.tile(np.repeat([40.0, 10.0, 1.5], 3), 5)
    return Similar.of(_within(rows.iloc[:, 3:].to_numpy(), -reach, reach), rows["activity"].to_numpy())


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Of the records shown: which are true neighbours, share the label, and are held by their intervals."""

    recall: Floats
    agreement: Floats
    held: Floats
    width: float

    def cells(self) -> list[Cell]:
        """As they stand in the table: means over queries."""
        parts = [Measured.of(part.mean(axis=1)) for part in (self.recall, self.agreement, self.held)]
        return [*parts, self.width]


def scored(data: Similar, queries: Integers, found: Nearest) -> Scores:
    """What is shown for queries beside the truth."""
    low, high = found.distances.interval(LEVEL)
    parts = []
    for start in range(0, len(queries), SCORED):
        here, shown = queries[start : start + SCORED], found.indices[start : start + SCORED]
        true = data.squared(here)
        worst = np.partition(true, SHOWN - 1, axis=1)[:, SHOWN - 1 : SHOWN] + 1e-9
        exact = np.take_along_axis(true, shown, 1)
        held = (exact >= low[start : start + SCORED] - 1e-9) & (exact <= high[start : start + SCORED] + 1e-9)
        parts.append((exact <= worst, data.labels[shown] == data.labels[here][:, None], held))
    recall, agreement, inside = (np.concatenate(part).astype(float) for part in zip(*parts, strict=True))
    return Scores(recall, agreement, inside, float(np.mean(high - low)))


def promises() -> Iterator[Guarantee]:
    """What releases promise: of each value, and of a record that moves a little."""
    for epsilon in EPSILONS:
        yield Guarantee(epsilon=epsilon, unit="attribute")
    for epsilon in MOVED:
        yield Guarantee(epsilon=epsilon, delta=DELTA, unit="record", change=Change.l2(RADIUS))


def _said(promise: Guarantee) -> list[Cell]:
    return ["value" if promise.unit == "attribute" else "l2 move", promise.epsilon]


def _line(setting: Setting, data: Similar, queries: Integers, made: Any, prior: Prior) -> list[Cell]:
    found = made.nearest(queries, SHOWN, prior=prior)
    scores = scored(data, queries, found)
    some = setting.often(*COUNTED)
    expected = made.nearest(queries[:some], SHOWN, prior=prior).expected
    hits: list[Cell] = [None, None]
    if expected is not None:
        hits = [Measured.of(expected.among_k), Measured.of(scores.recall[:some].sum(axis=1))]
    return [found.distances.kind, *scores.cells(), *hits]


def compared(setting: Setting, file: str, read: Callable[[Path], Similar]) -> Iterator[Part]:
    """A line for each epsilon and prior."""
    path = setting.file(file)
    if path is None:
        return
    rng, secrets = setting.rng(), setting.secrets()
    data, lines = read(path).some(setting.often(*ROWS), rng), []
    queries = np.sort(rng.choice(len(data.records), min(setting.often(*QUERIES), len(data.records)), replace=False))
    for promise in promises():
        recipe = Sketch(noise="gaussian" if promise.delta else "laplace", seed=int(rng.integers(2**62)))
        made = release(data.rows, schema=data.schema, mechanism=recipe, guarantee=promise, secret=next(secrets))
        lines += [[*_said(promise), *_line(setting, data, queries, made, prior)] for prior in PRIORS]
        setting.told(" ".join(map(str, _said(promise))))
    yield (
        f"{len(data.records):,} records of {data.records.shape[1]} numbers, {len(queries):,} queries. The second line "
        "of an epsilon is under a learned prior; where its intervals are confidence intervals, none could be "
        "learned, or noise that was held out says that it ranks worse."
    )
    yield Table("similar", HEADER, lines, dict.fromkeys(HEADER[3:6], ".3f"))


def _experiment(name: str, title: str, file: str, read: Callable[[Path], Similar]) -> Experiment:
    return Experiment(f"similar-{name}", title, partial(compared, file=file, read=read), (file,))


PAPER = Paper(
    "similar",
    "Similar records under a learned prior",
    (
        _experiment("mnist", "MNIST digits", "mnist.parquet", mnist),
        _experiment("msweb", "MS-Web visitors", "msweb_pairs.parquet", msweb),
        _experiment("msnbc", "MSNBC visitors", "msnbc_counts.parquet", msnbc),
        _experiment("adult", "Adult", "adult.parquet", census),
        _experiment("gfe", "Facial expressions", "gfe.parquet", gfe),
        _experiment("sports", "Sports", "dsa_sports.parquet", sports),
    ),
    "The ten records that look most like one, from sketches of all columns: how many of them are among the ten truly\n"
    "nearest (ties count), share its label, and have a squared distance within their 95% interval; the mean width of\n"
    "these intervals; and how many true neighbours the posterior expects. Protected is each value, by Laplace noise,\n"
    "or a record that moves by at most 1 in Euclidean length, by normal noise with delta 1e-6. MS-Web and MSNBC are\n"
    "flags and Adult is categories for the most part, so their prior is one of levels. The caution at the ends of\n"
    "intervals was chosen on MNIST, Sports and facial expressions, that levels have it too on Adult and MS-Web, and\n"
    "the weight of a record's uncertainty in the ranking of levels on MS-Web and MSNBC, all on other draws, so these\n"
    "lines are no test on new data.",
)
