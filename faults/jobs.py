"""What is disturbed: releases by several mechanisms and both engines, the commands, and questions.

Every job is charged epsilon 1 to the only dataset of a ledger. It ends by an error, or returns what it shows other than
by a folder.
"""

import contextlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato import cli
from sfumato.engines.processes import Processes
from sfumato.errors import SfumatoError
from sfumato.ledger.ledger import Ledger
from sfumato.mechanisms.base import Recipe
from sfumato.mechanisms.components import Components
from sfumato.mechanisms.covariance import Covariance
from sfumato.mechanisms.distances import NoisyDistances
from sfumato.mechanisms.graph_pairs import EdgeResponse
from sfumato.mechanisms.responses import RandomizedResponse
from sfumato.mechanisms.sketch import Sketch
from sfumato.mechanisms.synthetic.recipe import Synthetic
from sfumato.pipeline.release import release, release_to
from sfumato.pipeline.session import Session
from sfumato.privacy.guarantee import Guarantee
from sfumato.tables.columns import Flag
from sfumato.tables.schema import Schema

EPSILON = 1.0
ROWS = np.random.default_rng(1).random((200, 8))
NUMBERS = Schema.reals(8, low=0, high=1)
FLAGS = Schema([Flag(f"f{i}") for i in range(4)])
BITS = pa.table({f"f{i}": ROWS[:, i] < 0.5 for i in range(4)})
EDGES = np.array([(u, v) for u in range(20) for v in range(u) if (u + v) % 3])
QUERY = "c0 < 0.5"
_LONG = 8 * (1 << 16) + 100  # rows enough for two processes

RECORD = Guarantee(epsilon=EPSILON, unit="record")
VALUE = Guarantee(epsilon=EPSILON, unit="attribute")
EDGE = Guarantee(epsilon=EPSILON, unit="edge")
APPROXIMATE = Guarantee(epsilon=EPSILON, delta=1e-6, unit="record")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job works: its ledger, the folder it is to make, and the folder of the data files."""

    ledger: str
    out: Path
    data: Path


@dataclass(frozen=True, slots=True)
class Job:
    """Something to disturb.

    promise : of one release, and the kind of its cap.
    folder  : whether it makes a folder, or shows what it returns.
    writers : how many processes do it at once, on one ledger that has room for one fewer.
    """

    run: Callable[[Place], Any]
    promise: Guarantee = RECORD
    folder: bool = True
    writers: int = 1

    @property
    def cap(self) -> float:
        """The epsilon of the ledger's cap."""
        return 50.0 if self.writers == 1 else (self.writers - 0.5) * EPSILON


def prepare(data: Path) -> None:
    """The files that jobs read."""
    data.mkdir(parents=True, exist_ok=True)
    named = {f"c{i}": column for i, column in enumerate(ROWS.T)}
    pq.write_table(pa.table(named), data / "numbers.parquet")
    NUMBERS.write(data / "numbers.toml")
    bits = np.random.default_rng(2).integers(0, 2, (4, _LONG), np.int8)
    pq.write_table(pa.table({f"f{i}": row for i, row in enumerate(bits)}), data / "long.parquet")


def _released(mechanism: Recipe, schema: Schema | None, data: Any, promise: Guarantee) -> Job:
    def run(place: Place) -> None:
        terms = {"schema": schema, "mechanism": mechanism, "guarantee": promise}
        release_to(place.out, data, ledger=Ledger(place.ledger), **terms)

    return Job(run, promise)


def _processes(place: Place) -> None:
    terms = {"schema": FLAGS, "mechanism": RandomizedResponse(), "guarantee": VALUE}
    release_to(
        place.out, place.data / "long.parquet", ledger=Ledger(place.ledger), engine=Processes(processes=2), **terms
    )


def _memory(place: Place) -> Any:
    terms = {"schema": NUMBERS, "mechanism": Sketch(dimension=4, seed=1), "guarantee": RECORD}
    return release(ROWS, ledger=Ledger(place.ledger), **terms).manifest["digest"]


def _ask(place: Place) -> Any:
    session = Session(ROWS, schema=NUMBERS, ledger=Ledger(place.ledger))
    return [answer.value for answer in session.ask_all([QUERY, "c1 < 0.5"], epsilon=EPSILON / 2)]


def _opened(place: Place) -> Any:
    session = Session(ROWS, schema=NUMBERS, ledger=Ledger(place.ledger))
    with session.open("weights", epsilon=EPSILON, queries=[QUERY, "c1 < 0.5"]) as opened:
        return [opened.ask(query).value for query in (QUERY, "c1 < 0.5")]


def _command(*words: Any) -> str:
    """A command in a process of its own; what it prints, or what it says when it refuses."""
    told, refused = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(refused):
        code = cli.main([str(word) for word in words], own_process=True)
    if code:
        raise SfumatoError(refused.getvalue().strip())
    return told.getvalue()


def _release_command(place: Place) -> None:
    data = place.data / "numbers.parquet", "--schema", place.data / "numbers.toml"
    promise = "--epsilon", EPSILON, "--unit", "record", "--dimension", 4, "--seed", 1
    _command("release", "sketch", *data, *promise, "--ledger", place.ledger, "--out", place.out)


def _ask_command(place: Place) -> Any:
    data = place.data / "numbers.parquet", "--schema", place.data / "numbers.toml"
    return _command("ask", *data, "--ledger", place.ledger, "--epsilon", EPSILON, QUERY)


_SKETCH = _released(Sketch(dimension=4, seed=1), NUMBERS, ROWS, RECORD)
JOBS = {
    "sketch": _SKETCH,
    "components": _released(Components(dimension=2), NUMBERS, ROWS, VALUE),
    "covariance": _released(Covariance(noise="laplace"), NUMBERS, ROWS, RECORD),
    "responses": _released(RandomizedResponse(), FLAGS, BITS, VALUE),
    "distances": _released(NoisyDistances(noise="laplace"), NUMBERS, ROWS, VALUE),
    "synthetic": _released(Synthetic(dimension=2, noise="gaussian"), NUMBERS, ROWS, APPROXIMATE),
    "graph": _released(EdgeResponse(vertices=20), None, EDGES, EDGE),
    "processes": Job(_processes, VALUE),
    "writers": Job(_SKETCH.run, RECORD, writers=3),
    "release command": Job(_release_command),
    "in memory": Job(_memory, folder=False),
    "ask": Job(_ask, folder=False),
    "session": Job(_opened, folder=False),
    "ask command": Job(_ask_command, folder=False),
}
