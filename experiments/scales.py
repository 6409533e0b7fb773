"""Columns in units of their declared bounds, beside raw units: synthetic rows and distances of mixed tables.

Settings are the defaults. The point that rows are placed about was chosen on NIST's excerpt, Covertype, buzz and
dsa_sports, with other splits and noise; Adult, GFE and BlogFeedback had no part in it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from learning import prose
from page import Cell, Experiment, Measured, Paper, Part, Setting, Table
from sfumato.mechanisms.synthetic.recipe import Synthetic
from sfumato.numerics.types import Floats
from sfumato.pipeline.release import release
from sfumato.privacy.guarantee import Guarantee
from sfumato.releases.synthetic import SyntheticRelease
from sfumato.tables.columns import Category, DataColumn, Flag, Integer, Real
from sfumato.tables.encoding import Scale
from sfumato.tables.schema import Schema

OFTEN = (8, 2)
PAIRS = (200_000, 20_000)
LABEL = "label"
PROMISE = Guarantee(epsilon=1.0, delta=1e-6)
NIST = "nist_national2019/national2019.csv"
FILES = ("adult.parquet", NIST, "covertype.parquet", "gfe.parquet", "blogfeedback.parquet")
_SCALES: tuple[Scale, ...] = ("raw", "bounds")
_ADULT = {
    "age": (0, 100),
    "fnlwgt": (0, 1_500_000),
    "education_num": (1, 16),
    "capital_gain": (0, 100_000),
    "capital_loss": (0, 5000),
    "hours_per_week": (0, 100),
}
_NIST = {
    "AGEP": (0, 99),
    "NOC": (0, 20),
    "NPF": (0, 20),
    "DENSITY": (0, 100_000),
    "PWGTP": (0, 3000),
    "WGTP": (0, 3000),
}
_FOREST = [(1000, 4400), (0, 360), (0, 60), (0, 2000), (-600, 600), (0, 8000), *[(0, 255)] * 3, (0, 8000)]


@dataclass(frozen=True, slots=True, eq=False)
class Mixed:
    """A table with a flag to predict, and columns of several units; no column has a weight."""

    name: str
    predicted: str
    table: pa.Table
    columns: tuple[DataColumn, ...]

    def schema(self, scale: Scale) -> Schema:
        """What is publicly known, with the flag to predict."""
        return Schema((*self.columns, Flag(LABEL)), scale=scale)

    def features(self, scale: Scale) -> Floats:
        """The encoded rows, weighted, without the flag, (rows, encoded columns)."""
        schema = Schema(self.columns, scale=scale)
        return np.asarray((schema.clip(schema.encode(self.table)) * schema.encoding.weights[:, None]).T)

    @property
    def labels(self) -> np.ndarray[Any, Any]:
        """What is to be predicted."""
        return self.table[LABEL].to_numpy(zero_copy_only=False)


def _mixed(name: str, predicted: str, cells: pa.Table, columns: list[DataColumn], label: Any) -> Mixed:
    kept = cells.select([c.name for c in columns]).append_column(LABEL, label)
    return Mixed(name, predicted, kept.combine_chunks(), tuple(columns))


def _listed(cells: pa.Table, name: str) -> Category:
    """A category whose values the publisher's documents list; those that occur are as good here."""
    return Category(name, tuple(sorted(v for v in cells[name].unique().to_pylist() if v is not None)))


def adult(folder: Path) -> Mixed:
    """Persons, whether their income is above 50,000 dollars; the draft of a schema, filled in."""
    cells = pq.read_table(folder / "adult.parquet")
    texts = [n for n in cells.column_names if n not in (*_ADULT, "income_gt50k", "test")]
    columns = [Integer(n, low, high) for n, (low, high) in _ADULT.items()]
    label = pc.equal(cells["income_gt50k"], 1)
    return _mixed("Adult", "income above 50,000", cells, [*columns, *(_listed(cells, n) for n in texts)], label)


def nist(folder: Path) -> Mixed:
    """Persons of 15 years or more, whether their income is in the upper half of the deciles."""
    nothing = pyarrow.csv.ConvertOptions(null_values=["N"], strings_can_be_null=True)
    cells = pyarrow.csv.read_csv(folder / NIST, convert_options=nothing)
    cells = cells.filter(pc.is_valid(cells["PINCP_DECILE"]))
    listed = ["PUMA", "SEX", "MSP", "HISP", "RAC1P", "HOUSING_TYPE", "OWN_RENT", "INDP_CAT", "EDU"]
    listed += ["DVET", "DREM", "DPHY", "DEYE", "DEAR"]
    numbers = [Real(n, low, high) for n, (low, high) in _NIST.items()]
    label = pc.greater(cells["PINCP_DECILE"], 4)
    columns = [*numbers, *(_listed(cells, n) for n in listed)]
    return _mixed("NIST national 2019", "income in decile 5 to 9", cells, columns, label)


def forest(folder: Path) -> Mixed:
    """Every eighth cell of a forest, whether its commonest tree is the lodgepole pine."""
    cells = pq.read_table(folder / "covertype.parquet")
    cells = cells.take(np.arange(0, len(cells), 8))
    names = [n for n in cells.column_names if n != "Cover_Type"]
    columns: list[DataColumn] = [Real(n, low, high) for n, (low, high) in zip(names, _FOREST, strict=False)]
    columns += [Flag(n) for n in names[len(_FOREST) :]]
    return _mixed("Covertype", "lodgepole pine", cells, columns, pc.equal(cells["Cover_Type"], 2))


def face(folder: Path) -> Mixed:
    """Face points of a video frame, in pixels and millimetres; whether there is a grammatical expression."""
    cells = pq.read_table(folder / "gfe.parquet")
    columns = [
        Real(f"{i}{axis}", 0, high) for i in range(100) for axis, high in zip("xyz", (640, 480, 2000), strict=True)
    ]
    return _mixed("GFE", "an expression", cells, list(columns), pc.equal(cells["target"], 1))


def blog(folder: Path) -> Mixed:
    """Posts, whether comments follow within a day: counts up to 1,000, lengths up to 100,000, words and weekdays."""
    cells = pq.read_table(folder / "blogfeedback.parquet")
    counted = [i < 62 or i >= 276 for i in range(280)]
    columns: list[DataColumn] = [
        Real(f"f{i + 1}", -1000, 1000) if counts else Flag(f"f{i + 1}") for i, counts in enumerate(counted)
    ]
    columns[61] = Real("f62", 0, 100_000)
    return _mixed("BlogFeedback", "any comment", cells, columns, pc.greater(cells["target"], 0))


SETS: tuple[Callable[[Path], Mixed], ...] = (adult, nist, forest, face, blog)


@cache
def _tables(folder: Path) -> list[Mixed]:
    return [make(folder) for make in SETS]


def area(model: Any, rows: Floats, labels: Any, tests: Floats, truth: Any) -> float:
    """The area under the curve of a logistic regression that learnt from rows, on others."""
    return float(roc_auc_score(truth, model.fit(rows, labels).decision_function(tests)))


def learnt(mixed: Mixed, scale: Scale, split: tuple[Any, Any], rng: np.random.Generator, secret: Any) -> float:
    """The area of what is learnt from synthetic rows, on real rows in the space of the release."""
    private, tested = split
    recipe = Synthetic(label=LABEL, kind="classes", noise="gaussian", seed=int(rng.integers(2**62)))
    given = mixed.table.take(private)
    found = release(given, schema=mixed.schema(scale), mechanism=recipe, guarantee=PROMISE, secret=secret)
    assert isinstance(found, SyntheticRelease)
    tests = found.transform(mixed.table.take(tested))
    return area(LogisticRegression(max_iter=1000), found.array(), found.labels(), tests, mixed.labels[tested])


def real(mixed: Mixed, split: tuple[Any, Any]) -> float:
    """The area of what is learnt from the real rows."""
    rows, (private, tested), labels = mixed.features("bounds"), split, mixed.labels
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    return area(model, rows[private], labels[private], rows[tested], labels[tested])


def synthetic(setting: Setting) -> Iterator[Part]:
    """What is learnt from synthetic rows, with columns in raw units and in units of their bounds."""
    assert setting.data is not None
    yield prose("""Area under the curve of a logistic regression, learnt from synthetic rows at epsilon 1 and delta 1e-6
    for whole records and tested on real rows in the space of the release (`transform`). A third of the rows tests;
    splits, projections and noise are fresh for each repetition. No column has a weight, and every setting but the label
    and Gaussian noise is a default: `Synthetic(label=..., kind="classes", noise="gaussian")`. *Real*: learnt from the
    real rows, without privacy.""")
    rows: list[list[Cell]] = []
    for mixed in _tables(setting.data):
        found: dict[str, list[float]] = {"real": [], "raw": [], "bounds": []}
        for repetition in range(setting.often(*OFTEN)):
            rng, secrets = setting.rng(f"{mixed.name} {repetition}"), setting.secrets(f"{mixed.name} {repetition}")
            order = rng.permutation(len(mixed.table))
            split = np.split(order, [len(order) * 2 // 3])
            found["real"].append(real(mixed, (split[0], split[1])))
            for scale in _SCALES:
                found[scale].append(learnt(mixed, scale, (split[0], split[1]), rng, next(secrets)))
        setting.told(mixed.name)
        width = mixed.features("raw").shape[1]
        measured = [Measured.of(found[name]) for name in ("raw", "bounds", "real")]
        rows.append([mixed.name, mixed.predicted, len(mixed.table), width, *measured])
    head = ["table", "predicted", "rows", "columns", 'scale = "raw"', 'scale = "bounds"', "real"]
    yield Table("areas", head, rows, dict.fromkeys(head[4:], ".3f"))
    yield prose("""BlogFeedback is the exception: its counts are declared up to 1,000, a length up to 100,000, and most
    of them are far smaller. In units of such bounds they vary less than its words, which are 0 or 1.""")


def shares(mixed: Mixed, scale: Scale, pairs: tuple[Any, Any]) -> dict[str, float]:
    """The share that each column of the table has of the mean squared distance of pairs of records."""
    encoded, start, found = mixed.features(scale), 0, {}
    for column in mixed.columns:
        own = encoded[:, start : start + column.width]
        found[column.name] = float(np.square(own[pairs[0]] - own[pairs[1]]).sum(axis=1).mean())
        start += column.width
    total = sum(found.values())
    return {name: value / total for name, value in found.items()}


def distances(setting: Setting) -> Iterator[Part]:
    """How much of a distance one column is."""
    assert setting.data is not None
    yield prose(f"""The share that one column has of the mean squared distance of two records, over {max(PAIRS):,} pairs
    drawn at random: the largest, and the mean. A sketch, and every distance recovered from it, shows these distances.
    No privacy is involved.""")
    rows: list[list[Cell]] = []
    for mixed in _tables(setting.data):
        rng = setting.rng(mixed.name)
        first, second = rng.integers(0, len(mixed.table), (2, setting.often(*PAIRS)))
        raw, scaled = (shares(mixed, scale, (first, second)) for scale in _SCALES)
        widest, largest = (max(found, key=lambda name, found=found: found[name]) for found in (raw, scaled))
        rows.append([mixed.name, len(raw), widest, raw[widest], scaled[widest], largest, scaled[largest], 1 / len(raw)])
    head = ["table", "columns", "largest, raw", "share, raw", "its share, bounds"]
    head += ["largest, bounds", "share, bounds", "mean"]
    yield Table("shares", head, rows, {name: ".3f" for name in head if "share" in name} | {"mean": ".3f"})


PAPER = Paper(
    "scales",
    "Units of columns",
    (
        Experiment("scales-synthetic", "Synthetic rows of mixed tables, raw and scaled", synthetic, FILES),
        Experiment("scales-distances", "One column's share of a distance, raw and scaled", distances, FILES),
    ),
    'By default a column counts in units of its declared bounds (`scale = "bounds"`); in version 0.1.0 it counted in\n'
    'its own units (`scale = "raw"`).',
)
