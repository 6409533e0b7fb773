"""Boolean user vectors: how well each mechanism keeps nearest neighbours and distances, against epsilon."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from figure import figure
from page import Measured, Part, Picture, Setting, Table
from sfumato.errors import ParameterError
from sfumato.mechanisms.base import Recipe
from sfumato.mechanisms.components import Components
from sfumato.mechanisms.distances import NoisyDistances
from sfumato.mechanisms.responses import RandomizedResponse
from sfumato.mechanisms.sketch import Sketch
from sfumato.pipeline.release import release
from sfumato.planning.planner import plan
from sfumato.privacy.guarantee import Guarantee
from sfumato.releases.sketch import SketchRelease
from sfumato.tables.columns import Flag
from sfumato.tables.schema import Schema

Bits = NDArray[np.int8]
Curves: TypeAlias = dict[str, list[tuple[Measured, Measured]]]  # recall and error, one for each epsilon
FILES = ("msweb_pairs.parquet", "msnbc_counts.parquet")
USERS, NEIGHBOURS, DELTA = 1000, 10, 1e-6
CHANCE = "ten users at random"
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


@dataclass(frozen=True)
class Users:
    """Boolean vectors, and the distance that the owner plans for: a guess from public facts, not from the data.

    ``bits`` draws the vectors of so many users.
    """

    name: str
    columns: int
    distance: float
    bits: Callable[[np.random.Generator], Bits]

    @property
    def schema(self) -> Schema:
        """Flags."""
        return Schema([Flag(f"f{i}") for i in range(self.columns)])


def msweb(path: Path | None) -> Users:
    """Visitors of microsoft.com in 1998, by the areas they saw: about 3 of 294 each."""
    if path is None:
        return Users("generated, 294 flags", 294, math.sqrt(6), partial(_generated, 294, 0.3, 0.6))
    table = pq.read_table(path)
    user, area = (table[name].to_numpy() for name in ("user", "area"))
    bits = np.zeros((int(user.max()) + 1, 294), np.int8)
    codes = {code: i for i, code in enumerate(np.unique(area))}
    bits[user, [codes[a] for a in area]] = 1
    return Users("MS-Web, 294 flags", 294, math.sqrt(6), partial(_chosen, bits))


def msnbc(path: Path | None) -> Users:
    """Visitors of msnbc.com on one day, by the kinds of pages they saw: about 1.7 of 17 each."""
    if path is None:
        return Users("generated, 17 flags", 17, math.sqrt(3), partial(_generated, 17, 0.4, 0.5))
    counts = np.column_stack([column.to_numpy() for column in pq.read_table(path).columns])
    return Users("MSNBC, 17 flags", 17, math.sqrt(3), partial(_chosen, (counts > 0).astype(np.int8)))


def _chosen(bits: Bits, rng: np.random.Generator) -> Bits:
    return bits[rng.choice(len(bits), USERS, replace=False)]


def _generated(columns: int, most: float, first: float, rng: np.random.Generator) -> Bits:
    chances = np.minimum(most, first / np.arange(1, columns + 1))
    return (rng.random((USERS, columns)) < chances).astype(np.int8)


def mechanisms(users: Users, epsilon: float) -> Iterator[tuple[str, Recipe, Guarantee]]:
    """Every mechanism under the same promise for one value; Gaussian noise has delta = 1e-6, the others none."""
    pure, gaussian = (Guarantee(epsilon=epsilon, delta=d, unit="attribute") for d in (0.0, DELTA))
    made = plan(schema=users.schema, guarantee=pure, distance=users.distance).only(lambda o: o.name == "sketch")
    yield "sketch, planned", made.best.mechanism, pure
    yield "identity + Laplace", Sketch(projection="identity"), pure
    yield "identity + Gaussian", Sketch(projection="identity", noise="gaussian"), gaussian
    yield "compressive (Li et al.)", Sketch(dimension=min(32, users.columns), projection="rademacher"), pure
    yield "PCA + noise (Jiang et al.)", Components(dimension=min(8, users.columns)), pure
    yield "randomized response", RandomizedResponse(), pure
    yield "noise on distances", NoisyDistances(), gaussian


def measured(bits: Bits, made: Any, rng: np.random.Generator) -> tuple[float, float]:
    """Recall of true neighbours, and root mean square error of squared distances."""
    true = _between(bits)
    hits, plain = [], {"prior": "none"} if isinstance(made, SketchRelease) else {}
    for query in rng.choice(USERS, 100, replace=False):
        others = np.delete(true[query], query)
        worst = np.partition(others, NEIGHBOURS - 1)[NEIGHBOURS - 1]
        hits.append(np.mean(true[query][made.nearest(int(query), NEIGHBOURS, **plain).indices] <= worst))
    first = rng.integers(0, USERS, 4000)
    second = (first + rng.integers(1, USERS, 4000)) % USERS
    error = np.asarray(made.distances(first, second).uncut) - true[first, second]
    return float(np.mean(hits)), float(np.sqrt(np.mean(error**2)))


def _between(bits: Bits) -> NDArray[np.float64]:
    exact = bits.astype(float)
    squares = exact.sum(axis=1)
    return np.asarray(squares[:, None] + squares[None, :] - 2 * exact @ exact.T)


def curves(users: Users, setting: Setting, epsilons: tuple[float, ...], repeats: int) -> Curves:
    """Recall and error of every mechanism at every epsilon, over releases of samples of users."""
    rng, secrets = setting.rng(users.name), setting.secrets(users.name)
    samples = [users.bits(rng) for _ in range(repeats)]
    found: Curves = {}
    for epsilon in epsilons:
        for label, recipe, guarantee in mechanisms(users, epsilon):
            runs = []
            for bits in samples:
                own = replace(recipe, seed=int(rng.integers(2**62))) if isinstance(recipe, Sketch) else recipe
                try:
                    made = release(bits, schema=users.schema, mechanism=own, guarantee=guarantee, secret=next(secrets))
                    runs.append(measured(bits, made, rng))
                except ParameterError:  # a draw of zeros; counted as no answer
                    continue
            recall, error = (Measured.of(column) for column in zip(*runs, strict=True))
            found.setdefault(label, []).append((recall, error))
        setting.told(f"{users.name}, epsilon {epsilon:g}")
    chance = Measured.of([np.mean([_chance(_between(bits)[q], q) for q in range(0, USERS, 10)]) for bits in samples])
    found[CHANCE] = [(chance, Measured(math.nan, math.nan, repeats))] * len(epsilons)
    return found


def _chance(squared: NDArray[np.float64], query: int) -> float:
    others = np.delete(squared, query)
    return float(np.mean(others <= np.partition(others, NEIGHBOURS - 1)[NEIGHBOURS - 1]))


def tables(users: Users, epsilons: tuple[float, ...], found: Curves) -> Iterator[Part]:
    """Recall and root mean square error."""
    header = ("mechanism", *(f"epsilon {e:g}" for e in epsilons))
    yield f"{users.name}, {USERS:,} users at a time: recall@{NEIGHBOURS} (ties count as found)"
    rows = [[label, *(recall for recall, _ in points)] for label, points in found.items()]
    yield Table(f"recall, {users.name}", header, rows, dict.fromkeys(header, ".2f"))
    yield f"{users.name}: root mean square error of squared distances"
    rows = [[label, *(error for _, error in points)] for label, points in found.items() if label != CHANCE]
    yield Table(f"error, {users.name}", header, rows, dict.fromkeys(header, ".3g"))


def draw(path: Path, results: list[tuple[Users, Curves]], epsilons: tuple[float, ...]) -> None:
    """One picture: recall and error against epsilon, for both sets of users."""
    title = "One value of one user protected: neighbours found, and error of squared distances"
    with figure(path, title, (11, 7)) as picture:
        for row, (users, found) in zip(picture.subplots(len(results), 2, squeeze=False), results, strict=True):
            for label, points in found.items():
                style = {"color": "#999999", "linestyle": ":"} if label == CHANCE else {"marker": "o", "markersize": 3}
                row[0].plot(epsilons, [p[0].value for p in points], label=label, **style)
                row[1].plot(epsilons, [p[1].value for p in points], label=label, **style)
            row[0].set(xscale="log", xlabel="epsilon", ylabel=f"recall@{NEIGHBOURS}", title=users.name)
            row[1].set(xscale="log", yscale="log", xlabel="epsilon", ylabel="root mean square error", title=users.name)
            for axes in row:
                axes.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
                axes.minorticks_off()
            row[0].legend(fontsize=7, frameon=False)


def users(setting: Setting) -> Iterator[Part]:
    """Nearest neighbours and distances of user vectors."""
    epsilons, repeats = (EPSILONS[1::2], 5) if setting.quick else (EPSILONS, 10)
    yield (
        "The paper names nearest neighbours of users as an application (section 5.1) and does not try it. Here:\n"
        f"which areas of a site a visitor saw. Unit: one value of one user. {repeats} releases, each of other users.\n"
        "Gaussian noise has delta = 1e-6, everything else is pure. The sketch is planned for squared distances of 6\n"
        "(294 flags) and 3 (17 flags), and draws another projection each time. PCA keeps 8 components."
    )
    results = []
    for some in (msweb(setting.file(FILES[0])), msnbc(setting.file(FILES[1]))):
        found = curves(some, setting, epsilons, repeats)
        results.append((some, found))
        yield from tables(some, epsilons, found)
    draw(setting.picture("kenthapadi-users.svg"), results, epsilons)
    yield Picture("kenthapadi-users.svg", "recall and error against epsilon, for every mechanism")
    yield (
        "These vectors are light and short, so this is the paper's region where nothing is accurate: below epsilon\n"
        "2 no mechanism finds more neighbours than chance by much. From epsilon 4 on randomized response is best,\n"
        "with the sketch and plain Laplace noise behind it; noise on distances and Gaussian noise are far off\n"
        "throughout."
    )
