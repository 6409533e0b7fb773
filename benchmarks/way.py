"""The way of one record: the files of sfumato in which a function runs during one call.

Usage: python benchmarks/way.py [--json]. Each call is made once before it is counted, so that imports and what is
computed once for all do not count. The bodies of modules and classes are no functions, and public names are looked up
before. The fewer files, the less there is to read to follow a record into a release and back out of it.
"""

import argparse
import inspect
import json
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import sfumato
from sfumato import Guarantee, Real, Schema, Sketch, Synthetic, load, release_to

PACKAGE = Path(sfumato.__file__).parent
MOST = {"release_to, Sketch": 22, "release_to, Synthetic": 26, "load, distance, interval": 11}
_ROWS, _COLUMNS, _DIMENSION = 200, 8, 4


def files(call: Callable[[], Any], package: Path = PACKAGE) -> list[str]:
    """The files of a package in which a function runs during the call, in this thread or in one that it starts."""
    seen: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED:  # which bodies of modules and classes lack
            seen.add(frame.f_code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return sorted(str(Path(name).relative_to(package)) for name in seen if Path(name).is_relative_to(package))


def ways(place: Path) -> dict[str, list[str]]:
    """The files of each call, after one that is not counted; what the calls write goes to a folder."""
    schema, table = _people(place)
    sketch = {"schema": schema, "mechanism": Sketch(dimension=_DIMENSION), "guarantee": Guarantee(epsilon=1.0)}
    synthetic = {
        "schema": schema,
        "mechanism": Synthetic(dimension=_DIMENSION, noise="laplace"),
        "guarantee": Guarantee(epsilon=1.0, delta=1e-6, unit="record"),
    }
    calls: dict[str, Callable[[str], Any]] = {
        "release_to, Sketch": lambda time: release_to(place / f"{time}.sketch", table, **sketch),
        "release_to, Synthetic": lambda time: release_to(place / f"{time}.synthetic", table, **synthetic),
        "load, distance, interval": lambda time: load(place / f"{time}.sketch").distance(0, 1).interval(),
    }
    found = {}
    for name, call in calls.items():
        call("warm")
        found[name] = files(lambda call=call: call("counted"))  # type: ignore[misc]
    return found


def _people(place: Path) -> tuple[Schema, Path]:
    """A schema, and a CSV file of records that fit it."""
    names, table = [f"answer{i}" for i in range(_COLUMNS)], place / "people.csv"
    rows = np.random.default_rng(1).random((_ROWS, _COLUMNS))
    np.savetxt(table, rows, "%.6f", ",", header=",".join(names), comments="")
    return Schema(tuple(Real(name, 0.0, 1.0) for name in names)), table


def table_of(found: dict[str, list[str]]) -> str:
    """One line for each file, with a mark under each call in which it works; the number of them last."""
    width = max(len(file) for of_call in found.values() for file in of_call)
    lines = [" " * width + "".join(f"  {name}" for name in found)]
    for file in sorted({file for of_call in found.values() for file in of_call}):
        marks = (("x" if file in of_call else "").center(len(name)) for name, of_call in found.items())
        lines.append(f"{file:{width}}" + "".join(f"  {mark}" for mark in marks))
    counts = (f"{len(of_call)} (<= {MOST[name]})".center(len(name)) for name, of_call in found.items())
    return "\n".join(line.rstrip() for line in [*lines, f"{'files':{width}}" + "".join(f"  {c}" for c in counts)])


def main() -> None:
    """Count, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print the files of each call as JSON")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        found = ways(Path(place))
    print(json.dumps(found, indent=2) if asked.json else table_of(found))


if __name__ == "__main__":
    main()
