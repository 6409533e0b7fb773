"""Statistics over several owners: what their releases reach together, beside pooled rows and beside one owner alone.

Every owner releases its own rows: second moments in one shared space, whole records protected, which add up
(``sf.add``), and a sketch, each value protected, which are joined (``sf.join``). Labels are a column of the moments.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

import sfumato as sf
from figure import figure
from page import Cell, Experiment, Measured, Paper, Part, Picture, Setting, Table
from sfumato.errors import ReleaseError
from sfumato.estimation import neighbours
from sfumato.files.open_table import open_table
from sfumato.numerics.types import Floats, Integers
from sfumato.pipeline.release import release
from sfumato.randomness.secret import Secret
from table_data import adult, rounded_range

OWNERS, CUTS = (2, 5, 20), ("even", "uneven", "by group", "own epsilons")
TIMES = (1.0, 2.0, 0.5)  # epsilons of owners who have their own, relative to the others'
MOMENTS = sf.Guarantee(epsilon=1.0, delta=1e-6, unit="record")
ROWS = sf.Guarantee(epsilon=4.0, unit="attribute")  # of sketches: each value
WHOLE = sf.Guarantee(epsilon=4.0, delta=1e-6, unit="record")  # of a sketch that protects whole records, to compare
COMPONENTS, CLUSTERS = 3, 5
RIDGE = 1.0  # of the noise's spectral norm
LABEL_WEIGHT = 0.5  # of the label's range among the columns
CLUSTERED = (5_000, 600)  # rows whose sketches are clustered
KEPT = (160_000, 3_000)  # rows of a data set, at most
TESTED = (10_000, 500)
REPETITIONS, OFTEN = (4, 1), (4, 1)  # of all statistics, and of correlations alone
_DIGITS = 12  # of scores: order of summation alone is no spread
ASKED = 5  # owners, at most, of whom the mean of one alone is taken
EACH = (100, 300, 1_000, 3_000, 8_000)  # rows of each owner
FEW = (30, 100)  # in quick runs
STATISTICS = {
    "correlation": ("Mean absolute error of correlations", ".4f"),
    "components": (f"Share of the variance that the best {COMPONENTS} components keep", ".4f"),
    "classifier": ("Area under the curve of a linear classifier, on other rows", ".4f"),
    "clusters": (f"Share of the variance that {CLUSTERS} plain clusters explain, on other rows", ".3f"),
}
HEADER = ("owners", "cut", "rows of the largest", "together", "largest, own rows", "largest, released")
HEADER += ("mean owner, own rows", "mean owner, released")


Parts = Sequence[Integers]  # the rows of each owner


# ---- tables ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Pooled:
    """Rows that owners hold together, others to test on, and the groups by which they could be owned."""

    rows: pd.DataFrame
    test: pd.DataFrame
    columns: tuple[Any, ...]
    label: str
    groups: Integers
    natural: int | None = None  # how many groups there are, if they are owners themselves
    moments: sf.Space = field(init=False)
    sketches: sf.Space = field(init=False)

    def __post_init__(self) -> None:
        every = (*self.columns, sf.Flag(self.label, weight=LABEL_WEIGHT))
        object.__setattr__(self, "moments", sf.Space(sf.Schema(every, scale="bounds"), seed=1))
        object.__setattr__(self, "sketches", sf.Space(sf.Schema(self.columns, scale="bounds"), seed=1))

    def some(self, rows: int, tested: int, rng: np.random.Generator) -> "Pooled":
        """At most so many rows, and so many to test on."""
        kept = np.sort(rng.permutation(len(self.rows))[:rows])
        test = np.sort(rng.permutation(len(self.test))[:tested])
        taken = self.rows.iloc[kept].reset_index(drop=True), self.test.iloc[test].reset_index(drop=True)
        return Pooled(*taken, self.columns, self.label, self.groups[kept], self.natural)


def encoded(space: sf.Space, rows: pd.DataFrame) -> Floats:
    """Rows as numbers, in the weighted units of a space: what releases are about, without noise."""
    blocks = open_table(rows, space.schema).blocks(space.schema.source_names, 1 << 14)
    columns = np.concatenate([space.schema.clip(space.schema.encode(block)) for block in blocks], axis=1)
    return np.asarray(columns.T * space.schema.encoding.weights)


def forest(path: Path) -> Pooled:
    """Covertype: ten measures of a cell, whether spruces cover it; groups are wilderness areas, then soils."""
    cells = pd.read_parquet(path)
    named = [tuple(name for name in cells if name.startswith(part)) for part in ("Wilderness", "Soil")]
    area, soil = (cells[list(names)].to_numpy().argmax(axis=1) for names in named)
    rows = cells.iloc[:, :10].astype(float)
    columns = tuple(sf.Real(name, *rounded_range(rows[name])) for name in rows)
    rows["spruce"] = cells["Cover_Type"] == 1
    tested = np.random.default_rng(7).random(len(rows)) < 0.1
    return Pooled(rows[~tested], rows[tested], columns, "spruce", (area * 100 + soil)[~tested])


def sports(path: Path) -> Pooled:
    """Sensors of persons who do sports, 45 numbers, whether they walk; groups are persons, and other minutes test."""
    cells = pd.read_parquet(path)
    rows, reach = cells.iloc[:, 3:].astype(float), np.tile(np.repeat([40.0, 10.0, 1.5], 3), 5)
    columns = tuple(sf.Real(name, -high, high) for name, high in zip(rows, reach, strict=True))
    rows["walks"] = cells["activity"].isin([9, 10, 11])
    tested = cells["segment"].to_numpy() % 6 == 0
    return Pooled(rows[~tested], rows[tested], columns, "walks", cells["subject"].to_numpy()[~tested], 8)


def census(path: Path) -> Pooled:
    """Adult: ages, schooling, hours, sex and marital status, whether income is above 50,000; groups are occupations."""
    table = adult(path.parent)
    named = ("age", "education_num", "hours_per_week", "sex", "marital_status")
    columns = tuple(column for name in named for column in table.columns if column.name == name)
    parts = [part[list(named)].assign(rich=part[str(table.label)] == 1) for part in (table.train, table.test)]
    groups = pd.factorize(table.train["occupation"], sort=True)[0]
    return Pooled(parts[0], parts[1], columns, "rich", groups)


def made_up(count: int = 4_000) -> Pooled:
    """Stand-in: records of three kinds in eight columns, for runs without data."""
    rng = np.random.default_rng(1)
    kinds = rng.integers(3, size=count)
    values = np.clip(rng.random((3, 8))[kinds] + rng.normal(0, 0.1, (count, 8)), 0, 1)
    rows = pd.DataFrame(values, columns=[f"c{j}" for j in range(8)])
    rows["label"] = values[:, 0] + values[:, 1] + rng.normal(0, 0.1, count) > 1
    columns = tuple(sf.Real(name, 0, 1) for name in rows.columns[:8])
    tested = np.arange(count) % 4 == 0
    return Pooled(rows[~tested], rows[tested], columns, "label", kinds[~tested])


def cut(data: Pooled, owners: int, how: str, rng: np.random.Generator) -> list[Integers]:
    """The rows of each owner: at random, of equal sizes or of sizes 1, 1/2, 1/3 and so on, or in order of groups."""
    order = rng.permutation(len(data.rows))
    if how == "by group":
        order = order[np.argsort(data.groups[order], kind="stable")]
    shares = 1 / np.arange(1, owners + 1) if how == "uneven" else np.ones(owners)
    ends = np.round(np.cumsum(shares) / shares.sum() * len(order)).astype(int)
    return [np.sort(part) for part in np.split(order, ends[:-1])]


# ---- statistics ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """What plain pooled rows say, and how near a statistic of somebody else comes to it."""

    data: Pooled
    correlations: Floats
    covariance: Floats
    test: Floats
    labels: Floats
    plain: Floats
    explained: float

    @classmethod
    def of(cls, data: Pooled, clustered: int) -> "Truth":
        """Of pooled rows, of which so many are clustered."""
        rows, test = encoded(data.moments, data.rows), encoded(data.moments, data.test)
        plain = encoded(data.sketches, data.test)
        chosen = np.random.default_rng(2).permutation(len(data.rows))[:clustered]
        centres = plain_centres(encoded(data.sketches, data.rows.iloc[chosen]))
        found = correlations(rows), np.cov(rows.T, bias=True), test[:, :-1], test[:, -1] > 0
        return cls(data, *found, plain, explained(plain, centres))

    def correlation(self, found: Floats) -> float:
        """Mean absolute error of correlations between different columns; an unknown one counts as 0."""
        apart = ~np.eye(len(found), dtype=bool)
        return float(np.abs(np.nan_to_num(found) - self.correlations)[apart].mean())

    def components(self, vectors: Floats) -> float:
        """What directions keep of the variance of pooled rows, relative to the best."""
        best = np.linalg.eigvalsh(self.covariance)[-COMPONENTS:].sum()
        return float(np.trace(vectors.T @ self.covariance @ vectors) / best)

    def classifier(self, slopes: Floats) -> float:
        """The area under the curve on test rows, by a linear function of them in weighted units."""
        return float(roc_auc_score(self.labels, self.test @ slopes))

    def clusters(self, centres: Floats) -> float:
        """What clusters about centres explain of test rows, relative to those of plain pooled rows."""
        return explained(self.plain, centres) / self.explained


def correlations(rows: Floats) -> Floats:
    """Of plain rows; nan where a column has one value."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.corrcoef(rows.T))


def plain_centres(rows: Floats) -> Floats:
    """Centres of k-means of plain rows."""
    return neighbours.cluster(rows, CLUSTERS, np.random.default_rng(0)).centres


def explained(rows: Floats, centres: Floats) -> float:
    """The share of the variance of rows that lies between the clusters to whose centres they are nearest."""
    labels, _ = neighbours.assign(rows, centres)
    total = float(((rows - rows.mean(axis=0)) ** 2).sum())
    parts = [rows[labels == label] for label in np.unique(labels)]
    return 1 - sum(float(((part - part.mean(axis=0)) ** 2).sum()) for part in parts) / total


def plain_scores(truth: Truth, rows: Floats) -> dict[str, float]:
    """What an owner finds in its own rows, which it may look at: no noise, no guarantee."""
    covariance = np.cov(rows.T, bias=True)
    vectors = np.linalg.eigh(covariance)[1][:, -COMPONENTS:]
    slopes = np.linalg.lstsq(covariance[:-1, :-1] + 1e-9 * np.eye(len(covariance) - 1), covariance[:-1, -1])[0]
    found = {"correlation": truth.correlation(correlations(rows)), "components": truth.components(vectors)}
    return found | {"classifier": truth.classifier(slopes)}


def slopes_of(made: Any, label: str) -> Floats:
    """A linear classifier from released moments, in weighted units, with a ridge by the public size of their noise."""
    deviation, weights = made.manifest["mechanism"]["standard_deviation"], made.schema.encoding.weights
    features, ridge = list(made.names[:-1]), RIDGE * deviation * np.sqrt(2 * len(weights)) / made.records
    while True:
        try:
            found = made.regression(label, features, ridge=ridge).coefficients.value
        except ReleaseError:  # singular still
            ridge *= 2
        else:
            return np.asarray(found / weights[:-1])


def released_scores(truth: Truth, made: Any) -> dict[str, float]:
    """What anybody finds in released moments of one owner, or in their sum."""
    found = np.asarray(made.correlation()), made.principal_components(COMPONENTS).vectors
    scores = {"correlation": truth.correlation(found[0]), "components": truth.components(found[1])}
    return scores | {"classifier": truth.classifier(slopes_of(made, truth.data.label))}


# ---- owners ----------------------------------------------------------------------------------------------------------


def promises(usual: sf.Guarantee, owners: int, how: str) -> list[sf.Guarantee]:
    """What each owner promises: all the same, or epsilons of their own."""
    times = TIMES if how == "own epsilons" else (1.0,)
    return [replace(usual, epsilon=usual.epsilon * factor) for factor in islice(cycle(times), owners)]


def released(recipe: Any, rows: pd.DataFrame, parts: Parts, promised: Any, secrets: Iterator[Secret]) -> list[Any]:
    """A release by every owner of its own rows, in the space of the recipe."""
    names = list(recipe.space.schema.source_names)
    return [
        release(rows.iloc[part][names], mechanism=recipe, guarantee=promise, secret=next(secrets))
        for part, promise in zip(parts, promised, strict=True)
    ]


def together(kind: Callable[[Sequence[Any]], Any], made: Sequence[Any]) -> Any:
    """The releases of all owners as one; that of one is itself."""
    return kind(made) if len(made) > 1 else made[0]


@dataclass(slots=True, eq=False)
class Ways:
    """Scores of one statistic by what they were found in, a list of repetitions each."""

    together: list[float] = field(default_factory=list)
    largest: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    mean: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))

    def add(self, joint: float, own: Sequence[float], released: Sequence[float]) -> None:
        """Add a repetition: owners' scores in their own rows and in their releases, the largest owner first."""
        self.together.append(joint)
        for place, scores in enumerate((own, released)):
            self.largest[place].append(round(scores[0], _DIGITS))
            self.mean[place].append(round(float(np.mean(scores)), _DIGITS))

    def cells(self) -> list[Cell]:
        """As they stand in a table."""
        return [Measured.of(part) for part in (self.together, *self.largest, *self.mean)]


def asked(parts: Parts) -> list[int]:
    """The largest owner, and some others that are spread over all of them."""
    order = np.argsort([-len(part) for part in parts], kind="stable")
    return [int(order[place]) for place in np.unique(np.linspace(0, len(parts) - 1, ASKED).astype(int))]


def by_moments(truth: Truth, parts: Parts, how: str, secrets: Iterator[Secret]) -> Iterator[tuple[str, Any]]:
    """Scores of what second moments tell: together, and of some owners in their own rows and in their releases."""
    data, recipe, chosen = truth.data, sf.Covariance(space=truth.data.moments), asked(parts)
    made = released(recipe, data.rows, parts, promises(MOMENTS, len(parts), how), secrets)
    joint = released_scores(truth, together(sf.add, made))
    own = [plain_scores(truth, encoded(data.moments, data.rows.iloc[parts[place]])) for place in chosen]
    alone = [released_scores(truth, made[place]) for place in chosen]
    for name, score in joint.items():
        yield name, (score, [one[name] for one in own], [one[name] for one in alone])


def by_sketches(truth: Truth, parts: Parts, how: str, secrets: Iterator[Secret]) -> tuple[str, Any]:
    """The same of clusters."""
    data, chosen = truth.data, asked(parts)
    promised = promises(WHOLE if how == "pooled, records" else ROWS, len(parts), how)
    made = released(sf.Sketch(space=data.sketches), data.rows, parts, promised, secrets)
    joint = together(partial(sf.join, allow_unprotected=True), made)
    own = [plain_centres(encoded(data.sketches, data.rows.iloc[parts[place]])) for place in chosen]
    alone = [made[place].cluster(CLUSTERS).centres for place in chosen]
    score = truth.clusters(joint.cluster(CLUSTERS).centres)
    return "clusters", (score, *([truth.clusters(one) for one in scored] for scored in (own, alone)))


def repeated(truth: Truth, cutting: tuple[int, str], setting: Setting) -> tuple[int, dict[str, Ways]]:
    """The rows of the largest owner, and scores of all statistics under one way to cut."""
    data, share = truth.data, min(1.0, setting.often(*CLUSTERED) / len(truth.data.rows))
    rng, secrets = setting.rng(f"{cutting}"), setting.secrets(f"{cutting}")
    ways, largest = {name: Ways() for name in STATISTICS}, 0
    for _ in range(setting.often(*REPETITIONS)):
        parts = cut(data, *cutting, rng)
        few = [np.sort(rng.permutation(part)[: max(CLUSTERS, round(share * len(part)))]) for part in parts]
        largest = max(map(len, parts))
        for name, scores in (
            *by_moments(truth, parts, cutting[1], secrets),
            by_sketches(truth, few, cutting[1], secrets),
        ):
            ways[name].add(*scores)
    setting.told(f"{cutting[0]} owners, {cutting[1]}")
    return largest, ways


def compared(setting: Setting, file: str, read: Callable[[Path], Pooled]) -> Iterator[Part]:
    """A table for each statistic, a line for each way to cut."""
    path, rng = setting.file(file), setting.rng()
    data = (made_up() if path is None else read(path)).some(setting.often(*KEPT), setting.often(*TESTED), rng)
    clustered = setting.often(*CLUSTERED)
    truth = Truth.of(data, clustered)
    cuts = [(1, "pooled"), (1, "pooled, records"), *((owners, how) for owners in OWNERS for how in CUTS)]
    cuts += [] if data.natural is None else [(data.natural, "by group")]
    found = {cutting: repeated(truth, cutting, setting) for cutting in cuts}
    yield (
        f"{len(data.rows):,} rows of {len(data.moments.schema.encoding.names)} encoded columns, {len(data.test):,} "
        f"others to test on. Sketches are of {min(clustered, len(data.rows)):,} of the rows, in proportion."
    )
    for name, (title, form) in STATISTICS.items():
        shown = found if name == "clusters" else {c: one for c, one in found.items() if c[1] != "pooled, records"}
        lines = [[*cutting, largest, *ways[name].cells()] for cutting, (largest, ways) in shown.items()]
        yield f"**{title}.**"
        yield Table(name, HEADER, lines, dict.fromkeys(HEADER[3:], form))


# ---- rows of each owner ----------------------------------------------------------------------------------------------


def of_rows(truth: Truth, each: int, cutting: tuple[int, str], rng: Any, secrets: Iterator[Secret]) -> Floats:
    """Errors of correlations if each owner has so many rows: together, one in its own rows, one released."""
    data, how = truth.data, cutting[1]
    parts = [np.sort(rng.permutation(part)[:each]) for part in cut(data, *cutting, rng)]
    promised, recipe = promises(MOMENTS, len(parts), how), sf.Covariance(space=data.moments)
    made, one = released(recipe, data.rows, parts, promised, secrets), int(rng.integers(len(parts)))
    own = correlations(encoded(data.moments, data.rows.iloc[parts[one]]))
    every = np.asarray(together(sf.add, made).correlation()), own, np.asarray(made[one].correlation())
    return np.array([truth.correlation(found) for found in every])


def by_rows(setting: Setting, file: str, read: Callable[[Path], Pooled]) -> Iterator[Part]:
    """Errors of correlations over the number of rows that each owner has."""
    path, rng, secrets = setting.file(file), setting.rng(), setting.secrets()
    data = (made_up() if path is None else read(path)).some(setting.often(*KEPT), setting.often(*TESTED), rng)
    truth, lines = Truth.of(data, 1 + CLUSTERS), list[list[Cell]]()
    for how in ("even", "by group"):
        for each in FEW if setting.quick else EACH:
            times = range(setting.often(*OFTEN))
            found = {m: [of_rows(truth, each, (m, how), rng, secrets) for _ in times] for m in OWNERS}
            alone = np.array([one for scores in found.values() for one in scores])
            cells = [Measured.of([one[0] for one in found[m]]) for m in OWNERS]
            lines.append([how, each, *cells, Measured.of(alone[:, 1]), Measured.of(alone[:, 2])])
            setting.told(f"{how}, {each} rows")
    yield (
        "Mean absolute error of correlations, against those of all rows, if each owner has so many rows: the sum over "
        "2, 5 and 20 owners, and one owner alone in its own rows (which it may look at) and in its release."
    )
    header = ("cut", "rows of each", *(f"{m} together" for m in OWNERS), "one, own rows", "one, released")
    yield Table("rows", header, lines, dict.fromkeys(header[2:], ".4f"))
    _drawn(setting.picture(f"{setting.name}.svg"), lines)
    yield Picture(f"{setting.name}.svg", "error of correlations over rows of each owner, together and alone")


def _drawn(path: Path, lines: Sequence[Sequence[Any]]) -> None:
    names = [*(f"{m} owners together" for m in OWNERS), "one alone, own rows (plain)", "one alone, released"]
    looks = [("C0", "-"), ("C2", "-"), ("C3", "-"), ("black", ":"), ("grey", "--")]
    with figure(path, "mean absolute error of correlations, epsilon 1 for every owner", (8, 3.6)) as picture:
        panels = picture.subplots(1, 2, sharey=True)
        for panel, how in zip(panels, ("even", "by group"), strict=True):
            mine = [line for line in lines if line[0] == how]
            for place, (name, (shade, style)) in enumerate(zip(names, looks, strict=True), 2):
                shown = [line[place].value for line in mine]
                panel.plot([line[1] for line in mine], shown, style, color=shade, label=name, marker=".")
            said = "owners alike: rows at random" if how == "even" else "owners unlike: rows by group"
            panel.set(title=said, xlabel="rows of each owner", xscale="log", yscale="log")
        named = panels[0].get_legend_handles_labels()
        picture.legend(*named, fontsize=8, frameon=False, loc="outside lower center", ncols=3)


_STAND_IN = "a made-up table"


def _experiment(name: str, title: str, file: str, read: Callable[[Path], Pooled], run: Any = compared) -> Experiment:
    return Experiment(f"owners-{name}", title, partial(run, file=file, read=read), (file,), _STAND_IN)


PAPER = Paper(
    "owners",
    "Statistics over several owners",
    (
        _experiment("forest", "Covertype", "covertype.parquet", forest),
        _experiment("sports", "Sports", "dsa_sports.parquet", sports),
        _experiment("adult", "Adult", "adult.parquet", census),
        _experiment("forest-rows", "Rows of each owner: Covertype", "covertype.parquet", forest, by_rows),
        _experiment("sports-rows", "Rows of each owner: Sports", "dsa_sports.parquet", sports, by_rows),
    ),
    "A table is cut into owners, who release their own rows in one shared space: second moments at epsilon 1 and\n"
    "delta 1e-6 for whole records, and sketches at epsilon 4 for each value. *Together* is the sum of all moments\n"
    "(`sf.add`), or the clusters of all sketches (`sf.join`). Beside it stand the largest owner alone and the\n"
    "mean of up to five owners alone: in their own rows, which they may look at without noise, and in their one\n"
    "release. The first line has all rows with one owner: *together* is what a trusted party could release of\n"
    "pooled rows, *own rows* is pooled rows without privacy.\n\n"
    "Cuts are *even* (at random, equal sizes), *uneven* (at random, sizes as 1, 1/2, 1/3 and so on), *by group*\n"
    "(equal sizes in the order of a natural group, so that owners differ: wilderness areas and soils, persons,\n"
    "occupations), or even with *own epsilons* (1, 2 and 0.5 times the usual ones, in turn; the largest owner is\n"
    "then any of them). Correlations and components are judged against those of all rows; a correlation that a\n"
    "release calls unknown counts as 0. The label is a column of the moments, at half its weight. The classifier\n"
    "is least squares on it, with a ridge by the public size of the noise. In the line *pooled, records* the\n"
    "sketch protects whole records at epsilon 4 instead.\n\n"
    "The unit and the epsilon of sketches were chosen on Covertype and Sports, since sketches that protect whole\n"
    "records give much worse clusters. The ridge and the label were chosen on Covertype, nothing on Adult. In Sports\n"
    "a row is a moment of a person: rows are protected there, not persons.",
)
