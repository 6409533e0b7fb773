"""Scores of canaries: how much what was released looks like the first of two records, for those in and those out.

Everything goes through sfumato's public functions. Releases get test noise, which repeats; answers are drawn from keys
of the system, and vary.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import sfumato as sf
from sfumato.randomness.secret import Secret

Floats = NDArray[np.float64]
Scores = tuple[Floats, Floats]

DELTA = 1e-3
_SEED = 2024
SQUARE = sf.Schema.reals(2, low=-1.0, high=1.0)
LINE = sf.Schema.reals(16, low=0.0, high=1.0)
_ANSWERS = sf.Schema((sf.Flag("f"), sf.Category("c", ("x", "y", "z"))))
_FLAG = sf.Schema((sf.Flag("f"),))


CORNERS = np.array([[1.0, 1.0], [-1.0, -1.0]])


def _coins(count: int, seed: int) -> NDArray[np.bool_]:
    return np.random.default_rng([_SEED, seed]).random(count) < 0.5


def _split(scores: Floats, coins: NDArray[np.bool_]) -> Scores:
    return np.round(scores[coins], 9), np.round(scores[~coins], 9)


def _release(data: Any, recipe: Any, schema: sf.Schema | None, promise: sf.Guarantee, seed: int) -> Any:
    """A release with test noise, which repeats and protects nobody."""
    return sf.release(data, schema=schema, mechanism=recipe, guarantee=promise, secret=Secret.for_testing(seed))


# ---- many canaries in one release, each with numbers of its own -----------------------------------------------------


def _likelihood(made: Any, ends: Floats) -> Floats:
    """For every published row, how much likelier it is about the image of the first end than about the second's."""
    power = 1 if made.manifest["mechanism"]["noise"] == "laplace" else 2
    images = made.transform(ends)
    gaps = [(np.abs(made.array() - image) ** power).sum(axis=1) for image in images]
    return np.asarray(gaps[1] - gaps[0])


def sketched(
    recipe: sf.Sketch, schema: sf.Schema, ends: Floats, epsilon: float, canaries: int, seed: int, **promise: Any
) -> Scores:
    """Rows of a sketch at either end."""
    coins = _coins(canaries, seed)
    made = _release(ends[np.where(coins, 0, 1)], recipe, schema, sf.Guarantee(epsilon=epsilon, **promise), seed)
    return _split(_likelihood(made, ends), coins)


def responses(epsilon: float, canaries: int, seed: int, **promise: Any) -> Scores:
    """Answers of records that differ in all that one unit may change."""
    coins = _coins(canaries, seed)
    whole = promise.get("unit", "record") == "record"
    table = pa.table({"f": coins, "c": np.where(coins & whole, "x", "y")})
    made = _release(table, sf.RandomizedResponse(), _ANSWERS, sf.Guarantee(epsilon=epsilon, **promise), seed)
    one, two = made.transform(pa.table({"f": [True, False], "c": ["x" if whole else "y", "y"]}))
    agree = [np.equal(np.asarray(made.codes).T, end).sum(axis=1) for end in (one, two)]
    return _split((agree[0] - agree[1]).astype(float), coins)


def edges(recipe: Callable[..., Any], epsilon: float, canaries: int, seed: int, **promise: Any) -> Scores:
    """Pairs of vertices with and without an edge; each pair has a number of its own."""
    vertices = int((2 * canaries) ** 0.5)
    pairs = np.array(np.triu_indices(vertices, 1)).T
    coins = _coins(len(pairs), seed)
    made = _release(pairs[coins], recipe(vertices=vertices), None, sf.Guarantee(epsilon=epsilon, **promise), seed)
    return _split(np.asarray(made.weights()), coins)


def graph_sketch(epsilon: float, canaries: int, seed: int) -> Scores:
    """Pairs of vertices that have no other edge, so that what is seen of one is independent of all others."""
    coins, promise = _coins(canaries, seed), sf.Guarantee(epsilon=epsilon, delta=DELTA, unit="edge")
    pairs = np.arange(2 * canaries).reshape(-1, 2)
    made = _release(pairs[coins], sf.GraphSketch(rows=2, vertices=2 * canaries), None, promise, seed)
    seen = np.asarray(made.array(), np.float64)
    return _split(((seen[0::2] - seen[1::2]) ** 2).sum(axis=1), coins)


# ---- one canary in each release -------------------------------------------------------------------------------------


def one_by_one(
    recipe: Any,
    pair: tuple[Floats, Floats],
    score: Callable[[Any], float],
    epsilon: float,
    canaries: int,
    seed: int,
    **promise: Any,
) -> Scores:
    """A release of one table or the other, again and again."""
    coins, guarantee = _coins(canaries, seed), sf.Guarantee(epsilon=epsilon, **promise)
    found = [
        score(_release(pair[0] if coin else pair[1], recipe, SQUARE, guarantee, 1_000_000 * (seed + 1) + turn))
        for turn, coin in enumerate(coins)
    ]
    return _split(np.array(found), coins)


def first_row(ends: Floats) -> Callable[[Any], float]:
    """A score of sketches: that of their first row, which is at one of two ends."""
    return lambda made: float(_likelihood(made, ends)[0])


def product(made: Any) -> float:
    """The noisy sum of products of the two columns."""
    return float(made.second_moments()[0, 1])


def at_ends(made: Any) -> float:
    """Noisy counts at the ends of the bounds of both columns: how many more at the high one than at the low one."""
    sizes = [len(cells) for cells in made.manifest["mechanism"]["bins"]]
    columns = np.split(np.asarray(made.beside["counts.parquet"])[: sum(sizes)], np.cumsum(sizes)[:-1])
    return float(sum(int(counts[-1]) - int(counts[0]) for counts in columns))


def at_corners(made: Any) -> float:
    """Noisy counts of a histogram at the ends of the bounds of both columns: more at the high one than at the low."""
    columns = made.cells.split(np.asarray(made.array()))
    return float(sum(counts[-1] - counts[0] for counts in columns))


def across(made: Any) -> float:
    """The sketch of a covariance, along the record that comes or goes."""
    return float(((np.asarray(made.view.rows) @ np.ones(2)) ** 2).sum())


def model(made: Any) -> float:
    """How far the model's mean lies along the first record, against the second."""
    ends = np.asarray(made.transform(CORNERS))
    return float(made.model().means[0] @ (ends[0] - ends[1]))


# ---- answers --------------------------------------------------------------------------------------------------------


@contextmanager
def _session(table: pa.Table) -> Iterator[sf.Session]:
    """A session with a budget that hardly ends; what it answers is drawn from keys of the system, so it varies."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = sf.Ledger.create(Path(folder) / "budget.db")
        ledger.add_dataset("canaries", sf.Guarantee(epsilon=1e6), composition="basic")
        yield sf.Session(table, schema=_FLAG, ledger=ledger)


def _flags(true: int, false: int, *, inside: bool) -> pa.Table:
    """A table with so many others, and the canary."""
    return pa.table({"f": np.array([True] * true + [False] * false + [inside])})


def counted(epsilon: float, canaries: int, seed: int) -> Scores:
    """One question, again and again, about tables with and without the record; each answer is charged by itself."""
    del seed

    def answers(inside: bool) -> Floats:
        found: list[float] = []
        with _session(_flags(1, 0, inside=inside)) as session:
            while len(found) < canaries // 2:
                found += [a.value for a in session.ask_all(["f"] * 5000, epsilon=epsilon)]
        return np.array(found)

    return answers(True), answers(False)


def whole(
    ask: Callable[[sf.Session, float], float], others: tuple[int, int], epsilon: float, canaries: int, seed: int
) -> Scores:
    """Sessions that are charged whole, one for each canary; a few share a ledger, which is slower the longer it is."""
    del seed

    def answers(inside: bool) -> Floats:
        found: list[float] = []
        while len(found) < canaries // 2:
            with _session(_flags(*others, inside=inside)) as session:
                found += [ask(session, epsilon) for _ in range(20)]
        return np.array(found)

    return answers(True), answers(False)


def weights(session: sf.Session, epsilon: float) -> float:
    """The histogram is far off at first, so the question is measured."""
    with session.open("weights", epsilon=epsilon, queries=["f"], updates=1) as opened:
        return float(opened.ask("f").value)


def mwem(session: sf.Session, epsilon: float) -> float:
    """What the synthetic histogram says of the only question."""
    record = session.synthesise(["f"], epsilon=epsilon, updates=1)[1]
    return float(record["answers"][0]["value"])
