"""How far a synthetic table is from the real one: distances of tables of counts, range queries, models learnt from it.

Usage: SFUMATO_DATA=FOLDER python experiments/table_figures.py adult synthetic.parquet    (also covertype, blog)
       SFUMATO_DATA=FOLDER python experiments/table_figures.py nist10 synthetic.parquet   (also nist20: NIST's scorer)

A synthetic table has the columns of the schema, in their own types. All figures are computed from the real rows without
noise: they are for experiments on public data, and never part of a release.
"""

import json
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from threadpoolctl import threadpool_limits

from sfumato.numerics.types import Floats, Integers
from sfumato.tables.columns import Category, DataColumn, Flag
from table_data import NIST_TEN, RealTable, data_folder, load

FIGURES = ("tv1", "tv2", "tv2lab", "tv3", "ks", "qmean", "qmax", "lr", "hgb")
FINE, COARSE = 32, 8  # equal parts of a number, for tables of one column and of several
PAIRS, TRIPLES, QUERIES, MOST_ROWS = 100, 50, 200, 50_000
_ROOT = Path(__file__).parent.parent
SDNIST, SDMETRICS = (
    _ROOT / f".venv-judges-{n}" / "bin" / "python" for n in ("sdnist", "sdmetrics")
)  # make judges-tables

Question = list[tuple[str, Any]]


def levels(column: DataColumn) -> tuple[Any, ...] | None:
    """The values of a listed column, or None for a number."""
    if isinstance(column, Flag):
        return (False, True)
    return column.values if isinstance(column, Category) else None  # noqa: PD011


def places(column: DataColumn, cells: pd.Series) -> Integers:
    """The place of each cell among the values of a listed column; a value that is not listed is an error."""
    found = pd.Index(list(levels(column) or ())).get_indexer(pd.Index(cells))
    if (found < 0).any():
        raise SystemExit(f"column {column.name!r} has values that its schema does not list")
    return np.asarray(found, dtype=np.int64)


def in_units(column: Any, cells: pd.Series) -> Floats:
    """Numbers in units of their bounds."""
    return np.asarray((cells.to_numpy(float) - column.low) / (column.high - column.low))


def cut(columns: Sequence[DataColumn], frame: pd.DataFrame, parts: int) -> tuple[Integers, list[int]]:
    """Every cell as the number of a value or of an equal part of the bounds, (rows, columns), and how many each has."""
    coded, sizes = [], []
    for column in columns:
        cells, listed = frame[column.name], levels(column)
        if listed is not None:
            coded.append(places(column, cells))
        else:
            coded.append(np.clip((in_units(column, cells) * parts).astype(int), 0, parts - 1))
        sizes.append(parts if listed is None else len(listed))
    return np.column_stack(coded), sizes


def variation(real: Integers, made: Integers, sizes: Sequence[int], chosen: Sequence[int]) -> float:
    """The total variation distance of two tables of counts over the chosen columns."""
    shape = tuple(sizes[j] for j in chosen)
    shares = []
    for rows in (real, made):
        cells = np.ravel_multi_index(tuple(rows[:, j] for j in chosen), shape)
        shares.append(np.bincount(cells, minlength=int(np.prod(shape))) / len(rows))
    return float(0.5 * np.abs(shares[0] - shares[1]).sum())


def variations(table: RealTable, made: pd.DataFrame) -> dict[str, float]:
    """Mean total variation of all one-way tables, of pairs and triples drawn at random, and of pairs with the label."""
    columns, found = table.columns, {}
    real, fake = (cut(columns, frame, FINE) for frame in (table.train, made))
    found["tv1"] = _mean(variation(real[0], fake[0], real[1], (j,)) for j in range(len(columns)))
    (real_cells, sizes), (fake_cells, _) = (cut(columns, frame, COARSE) for frame in (table.train, made))
    rng = np.random.default_rng(3)
    pairs = [(i, j) for i in range(len(columns)) for j in range(i)]
    pairs = [pairs[k] for k in rng.choice(len(pairs), min(len(pairs), PAIRS), replace=False)]
    sets = {"tv2": pairs, "tv2lab": [], "tv3": [rng.choice(len(columns), 3, replace=False) for _ in range(TRIPLES)]}
    if table.label is not None:
        label = [c.name for c in columns].index(table.label)
        sets["tv2lab"] = [(j, label) for j in range(len(columns)) if j != label]
    return found | {
        name: _mean(variation(real_cells, fake_cells, sizes, chosen) for chosen in some)
        for name, some in sets.items()
        if some
    }


def _mean(values: Any) -> float:
    return float(np.mean(list(values)))


def distribution_distance(real: pd.Series, made: pd.Series) -> float:
    """The largest distance of two distribution functions, at up to 2,000 quantiles of the real one."""
    ordered = [np.sort(cells.to_numpy(float)) for cells in (real, made)]
    at = np.unique(ordered[0][:: max(1, len(real) // 2000)])
    shares = [np.searchsorted(cells, at, "right") / len(cells) for cells in ordered]
    return float(np.abs(shares[0] - shares[1]).max())


def questions(table: RealTable, often: int = QUERIES, seed: int = 5) -> list[Question]:
    """Random conditions on two or three columns: a range between two values that occur, or some of a list of values."""
    rng, columns, asked = np.random.default_rng(seed), table.columns, []
    for _ in range(often):
        question: Question = []
        width = rng.integers(2, 4)
        for j in rng.choice(len(columns), width, replace=False):
            column, listed = columns[j], levels(columns[j])
            first, second = table.train[column.name].to_numpy()[rng.integers(0, len(table.train), 2)]
            if listed is None:
                question.append((column.name, (min(first, second), max(first, second))))
            else:
                more = [v for v, taken in zip(listed, rng.random(len(listed)) < 1 / 3, strict=True) if taken]
                question.append((column.name, [first, *more]))
        asked.append(question)
    return asked


def shares(frame: pd.DataFrame, asked: Sequence[Question]) -> Floats:
    """The share of rows that fulfil each condition."""
    found = []
    for question in asked:
        fulfilled = np.full(len(frame), True)
        for name, wanted in question:
            cells = frame[name]
            fulfilled &= (cells.isin(wanted) if isinstance(wanted, list) else cells.between(*wanted)).to_numpy()
        found.append(fulfilled.mean())
    return np.array(found)


def _linear_features(columns: Sequence[DataColumn], frame: pd.DataFrame) -> Any:
    blocks = []
    for column in columns:
        cells, listed = frame[column.name], levels(column)
        if listed is None:
            blocks.append(sparse.csr_matrix(in_units(column, cells)[:, None]))
        else:
            spots = (np.arange(len(frame)), places(column, cells))
            blocks.append(sparse.csr_matrix((np.ones(len(frame)), spots), (len(frame), len(listed))))
    return sparse.hstack(blocks).tocsr()


def _tree_features(columns: Sequence[DataColumn], frame: pd.DataFrame) -> Floats:
    cells = [frame[c.name] for c in columns]
    return np.column_stack(
        [x.to_numpy(float) if levels(c) is None else places(c, x) for c, x in zip(columns, cells, strict=True)]
    )


def _success(model: Any, features: Any, truth: Integers) -> float:
    """Area under the curve for two classes, balanced accuracy for more."""
    if len(set(truth.tolist())) > 2:
        return float(balanced_accuracy_score(truth, model.predict(features)))
    place = list(model.classes_).index(truth.max())
    return float(roc_auc_score(truth, model.predict_proba(features)[:, place]))


def learnt(table: RealTable, made: pd.DataFrame) -> dict[str, float]:
    """What a logistic regression and boosted trees that learnt from these rows predict on the real test rows."""
    rng = np.random.default_rng(0)
    rows, tests = (
        f if len(f) <= MOST_ROWS else f.iloc[rng.choice(len(f), MOST_ROWS, replace=False)] for f in (made, table.test)
    )
    features = [c for c in table.columns if c.name != table.label]
    label = next(c for c in table.columns if c.name == table.label)
    known, truth = places(label, rows[label.name]), places(label, tests[label.name])
    if len(set(known.tolist())) < 2:
        return {"lr": 0.5, "hgb": 0.5}
    linear = LogisticRegression(max_iter=200)
    several = [len(levels(c) or ()) > 2 for c in features]
    rounds = 100 if len(set(truth.tolist())) == 2 else 60
    trees = HistGradientBoostingClassifier(categorical_features=several, max_iter=rounds, random_state=0)
    with warnings.catch_warnings(), threadpool_limits(1):  # one core: on a busy machine, threads wait for each other
        warnings.simplefilter("ignore", ConvergenceWarning)
        linear.fit(_linear_features(features, rows), known)
        trees.fit(_tree_features(features, rows), known)
    return {
        "lr": _success(linear, _linear_features(features, tests), truth),
        "hgb": _success(trees, _tree_features(features, tests), truth),
    }


def figures(table: RealTable, made: pd.DataFrame, *, models: bool = True) -> dict[str, float]:
    """All figures of a synthetic table; without ``models``, only those that take seconds."""
    found = variations(table, made)
    numbers = [c.name for c in table.columns if levels(c) is None]
    found["ks"] = _mean(distribution_distance(table.train[n], made[n]) for n in numbers) if numbers else 0.0
    asked = questions(table)
    errors = np.abs(shares(table.train, asked) - shares(made, asked))
    found |= {"qmean": float(errors.mean()), "qmax": float(errors.max())}
    return found | (learnt(table, made) if models and table.label is not None else {})


def evaluate(name: str, made: pd.DataFrame, folder: Path | None = None, *, models: bool = True) -> dict[str, float]:
    """All figures of a synthetic ``adult``, ``covertype`` or ``blog``."""
    return figures(load(name, folder), made, models=models)


def _told(python: Path, script: str, *arguments: Any) -> Any:
    """What a script tells that is run by another Python: its last line, as JSON."""
    command = [str(python), "-W", "ignore", str(Path(__file__).parent / script), *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    return json.loads(done.stdout.splitlines()[-1])


def quality(table: RealTable, made: pd.DataFrame) -> float:
    """The quality score of sdmetrics, from 0 to 1: the mean of its scores for columns and for pairs of columns."""
    numbers = ",".join(c.name for c in table.columns if levels(c) is None)
    with TemporaryDirectory() as scratch:
        files = [Path(scratch) / f"{name}.parquet" for name in ("real", "made")]
        for frame, file in zip((table.train, made), files, strict=True):
            frame.to_parquet(file)
        return float(_told(SDMETRICS, "sdmetrics_score.py", *files, numbers)["score"])


def nist_score(made: pd.DataFrame, columns: Sequence[str] = NIST_TEN, folder: Path | None = None) -> float:
    """The k-marginal score of NIST's own scorer (sdnist 2.4), from 0 to 1,000, in an environment of its own.

    Columns that are not given do not count. NIST's scorer leaves out columns with values that it does not know, which
    would raise the score: that is an error here.
    """
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / "synthetic.csv"
        made[list(columns)].to_csv(path, index=False, na_rep="N")
        data = data_folder(folder) / "nist_national2019"
        told = _told(SDNIST, "nist_kmarginal.py", path, data.resolve())
    if sorted(told["columns"]) != sorted(columns):
        raise SystemExit(f"NIST's scorer left out {sorted(set(columns) - set(told['columns']))}")
    return float(told["score"])


def main() -> None:
    """The figures of a file, as JSON."""
    name, file = sys.argv[1:]
    made = pd.read_parquet(file)
    if name.startswith("nist"):
        found = {"score": nist_score(made, [c.name for c in load(name).columns])}
    else:
        found = evaluate(name, made)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
