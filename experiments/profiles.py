"""Boolean user vectors: how well each mechanism keeps nearest neighbours and distances, against epsilon.

Usage: python experiments/profiles.py [--data FOLDER] [--quick]     prints a section of docs/results.md, draws a picture
The folder holds msweb_pairs.parquet and msnbc_counts.parquet (UCI); without it, vectors of the same shape are drawn.
"""

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sfumato.columns import Flag
from sfumato.errors import ParameterError
from sfumato.guarantee import Guarantee
from sfumato.mechanism import Recipe
from sfumato.mechanisms.components import Components
from sfumato.mechanisms.distances import NoisyDistances
from sfumato.mechanisms.responses import RandomizedResponse
from sfumato.mechanisms.sketch import Sketch
from sfumato.pictures import figure
from sfumato.pipeline import release
from sfumato.planner import plan
from sfumato.schema import Schema

Bits = NDArray[np.int8]
Curves: TypeAlias = dict[str, list[tuple[float, float]]]  # recall and error, one for each epsilon
USERS, NEIGHBOURS, DELTA = 1000, 10, 1e-6
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


@dataclass(frozen=True)
class Users:
    """Boolean vectors, and the distance that the owner plans for: a guess from public facts, not from the data."""

    name: str
    bits: Bits
    distance: float


def msweb(folder: Path | None, rng: np.random.Generator) -> Users:
    """Visitors of microsoft.com in 1998, by the areas they saw: about 3 of 294 each."""
    path = None if folder is None else folder / "msweb_pairs.parquet"
    if path is None or not path.exists():
        chances = np.minimum(0.3, 0.6 / np.arange(1, 295))
        return Users("generated, 294 flags", (rng.random((USERS, 294)) < chances).astype(np.int8), math.sqrt(6))
    table = pq.read_table(path)
    user, area = (table[name].to_numpy() for name in ("user", "area"))
    bits = np.zeros((int(user.max()) + 1, 294), np.int8)
    codes = {code: i for i, code in enumerate(np.unique(area))}
    bits[user, [codes[a] for a in area]] = 1
    return Users("MS-Web, 294 flags", bits[rng.choice(len(bits), USERS, replace=False)], math.sqrt(6))


def msnbc(folder: Path | None, rng: np.random.Generator) -> Users:
    """Visitors of msnbc.com on one day, by the kinds of pages they saw: about 1.7 of 17 each."""
    path = None if folder is None else folder / "msnbc_counts.parquet"
    if path is None or not path.exists():
        chances = np.minimum(0.4, 0.5 / np.arange(1, 18))
        return Users("generated, 17 flags", (rng.random((USERS, 17)) < chances).astype(np.int8), math.sqrt(3))
    counts = np.column_stack([column.to_numpy() for column in pq.read_table(path).columns])
    some = counts[rng.choice(len(counts), USERS, replace=False)]
    return Users("MSNBC, 17 flags", (some > 0).astype(np.int8), math.sqrt(3))


def mechanisms(users: Users, schema: Schema, epsilon: float) -> Iterator[tuple[str, Recipe, Guarantee]]:
    """Every mechanism under the same promise for one value; Gaussian noise has delta = 1e-6, the others none."""
    pure, gaussian = (Guarantee(epsilon=epsilon, delta=d, unit="attribute") for d in (0.0, DELTA))
    made = plan(schema=schema, guarantee=pure, distance=users.distance).only(lambda o: o.name == "sketch")
    columns = users.bits.shape[1]
    yield "sketch, planned", made.mechanism, pure
    yield "identity + Laplace", Sketch(projection="identity"), pure
    yield "identity + Gaussian", Sketch(projection="identity", noise="gaussian"), gaussian
    yield "compressive (Li et al.)", Sketch(dimension=min(32, columns), projection="rademacher"), pure
    yield "PCA + noise (Jiang et al.)", Components(dimension=min(8, columns)), pure
    yield "randomized response", RandomizedResponse(), pure
    yield "noise on distances", NoisyDistances(), gaussian


def measured(users: Users, made: Any, rng: np.random.Generator) -> tuple[float, float]:
    """Recall of true neighbours, and root mean square error of squared distances."""
    exact = users.bits.astype(float)
    squares = exact.sum(axis=1)
    true = squares[:, None] + squares[None, :] - 2 * exact @ exact.T
    hits = []
    for query in rng.choice(USERS, 100, replace=False):
        others = np.delete(true[query], query)
        worst = np.partition(others, NEIGHBOURS - 1)[NEIGHBOURS - 1]
        hits.append(np.mean(true[query][made.nearest(int(query), NEIGHBOURS).indices] <= worst))
    first = rng.integers(0, USERS, 4000)
    second = (first + rng.integers(1, USERS, 4000)) % USERS
    error = np.asarray(made.distances(first, second).value) - true[first, second]
    return float(np.mean(hits)), float(np.sqrt(np.mean(error**2)))


def curves(users: Users, epsilons: tuple[float, ...], repeats: int) -> Curves:
    """Recall and error of every mechanism at every epsilon, averaged over releases."""
    rng, schema = np.random.default_rng(5), Schema([Flag(f"f{i}") for i in range(users.bits.shape[1])])
    found: Curves = {}
    for epsilon in epsilons:
        for label, recipe, guarantee in mechanisms(users, schema, epsilon):
            runs = []
            for _ in range(repeats):
                try:
                    made = release(users.bits, schema=schema, mechanism=recipe, guarantee=guarantee)
                    runs.append(measured(users, made, rng))
                except ParameterError:  # a draw of zeros; counted as no answer
                    continue
            recall, error = np.mean(np.array(runs), axis=0)
            found.setdefault(label, []).append((float(recall), float(error)))
    return found


def table(users: Users, epsilons: tuple[float, ...], found: Curves) -> Iterator[str]:
    """Recall@10 / RMSE."""
    yield f"{users.name}, {USERS:,} users; recall@{NEIGHBOURS} / RMSE of squared distances\n"
    yield "| mechanism | " + " | ".join(f"epsilon {e:g}" for e in epsilons) + " |"
    yield "|---" * (len(epsilons) + 1) + "|"
    for label, points in found.items():
        yield f"| {label} | " + " | ".join(f"{recall:.2f} / {error:.3g}" for recall, error in points) + " |"
    chance = np.mean([_chance(users, q) for q in range(0, USERS, 10)])
    yield f"\nRecall of ten users drawn at random: {chance:.2f} (many users share a distance; ties count as found).\n"


def _chance(users: Users, query: int) -> float:
    squared = np.delete(((users.bits.astype(int) - users.bits[query]) ** 2).sum(axis=1), query)
    return float(np.mean(squared <= np.partition(squared, NEIGHBOURS - 1)[NEIGHBOURS - 1]))


def draw(path: Path, results: list[tuple[Users, Curves]], epsilons: tuple[float, ...]) -> None:
    """One picture: recall and error against epsilon, for both sets of users."""
    title = "One value of one user protected: neighbours found, and error of squared distances"
    with figure(path, title, (11, 7)) as picture:
        for row, (users, found) in zip(picture.subplots(len(results), 2, squeeze=False), results, strict=True):
            for label, points in found.items():
                row[0].plot(epsilons, [p[0] for p in points], marker="o", markersize=3, label=label)
                row[1].plot(epsilons, [p[1] for p in points], marker="o", markersize=3, label=label)
            row[0].set(xscale="log", xlabel="epsilon", ylabel=f"recall@{NEIGHBOURS}", title=users.name)
            row[1].set(xscale="log", yscale="log", xlabel="epsilon", ylabel="RMSE", title=users.name)
            row[0].legend(fontsize=7, frameon=False)


def section(folder: Path | None, picture: Path, quick: bool) -> Iterator[str]:
    """The lines of docs/results.md that this experiment makes."""
    rng = np.random.default_rng(4)
    epsilons = EPSILONS[1::2] if quick else EPSILONS
    yield "## User vectors\n"
    yield "Unit: one value of one user. Gaussian noise has delta = 1e-6, everything else is pure. The sketch is planned"
    yield "for squared distances of 6 (294 flags) and 3 (17 flags). PCA keeps 8 components.\n"
    results = []
    for users in (msweb(folder, rng), msnbc(folder, rng)):
        found = curves(users, epsilons, 1 if quick else 3)
        results.append((users, found))
        yield from table(users, epsilons, found)
    draw(picture, results, epsilons)
    yield f"![recall and error](figures/{picture.name})"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of the data sets")
    parser.add_argument("--quick", action="store_true", help="fewer values of epsilon, one release each")
    parser.add_argument("--picture", type=Path, default=Path("docs/figures/profiles.svg"))
    options = parser.parse_args()
    for line in section(options.data, options.picture, options.quick):
        print(line, flush=True)
