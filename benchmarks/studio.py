"""How fast the Plan screen answers when epsilon or k moves: what the server does for one change, in milliseconds.

For each kind of plan: 50 changes, one after another, after a first answer that is not counted (it finds what does not
depend on either). The whole work of the page is timed: the form, the plan, both pictures, the table as HTML. The clock
counts what others do on the machine too; the processor's time, of which the median is printed, does not.
"""

import statistics
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sfumato.studio.frame.guard import Keys
from sfumato.studio.frame.shared_state import Studio
from sfumato.studio.inputs.folder import Folder
from sfumato.studio.plan_screen import plan_answer
from sfumato.tables.schema import Schema

CHANGES = 50
ATTRIBUTE = {"unit": "attribute", "delta": "0", "rows": "10000"}
RECORD = {"unit": "record", "delta": "1e-6", "rows": "10000"}
GRAPH = {"unit": "edge", "delta": "1e-6", "rows": "1000", "distance": "100000", "purpose": "cuts"}
CASES: list[tuple[int, dict[str, str]]] = [
    *((64, terms | {"purpose": purpose}) for terms in (ATTRIBUTE, RECORD) for purpose in ("distances", "clustering")),
    (64, RECORD | {"purpose": "covariance"}),
    *((1000, terms | {"purpose": "distances"}) for terms in (ATTRIBUTE, RECORD)),
    (1000, RECORD | {"purpose": "clustering"}),
    (1000, RECORD | {"purpose": "covariance"}),
    (0, GRAPH),
]


def changes(columns: int, terms: dict[str, str]) -> list[dict[str, str]]:
    """Epsilon and k in turn, never the same twice."""
    moved = [f"{10 ** (i / 25 - 1):.4g}" for i in range(CHANGES)]
    dimensions = [str(1 + (7 * i) % columns) if columns and i % 2 else "" for i in range(CHANGES)]
    return [terms | {"epsilon": e, "k": k} for e, k in zip(moved, dimensions, strict=True)]


def measured(studio: Studio, columns: int, terms: dict[str, str]) -> tuple[list[float], list[float]]:
    """Seconds for each change, by the clock and of the processor, in order of size."""
    data = {"data": f"wide{columns}.csv" if columns else ""}
    nothing: Any = SimpleNamespace()
    plan_answer(studio, nothing, terms | data | {"epsilon": "1.2345"})
    seconds, work = [], []
    for form in changes(columns, terms):
        start, begun = time.perf_counter(), time.process_time()
        plan_answer(studio, nothing, form | data)
        seconds.append(time.perf_counter() - start)
        work.append(time.process_time() - begun)
    return sorted(seconds), sorted(work)


def main() -> None:
    """Print the table."""
    print(f"{'columns':>7}  {'unit':9}  {'purpose':10}  {'median ms':>9}  {'95% ms':>7}  {'processor':>9}")
    with tempfile.TemporaryDirectory() as folder:
        studio = Studio(Folder.of(folder), None, Keys())
        for columns in {c for c, _ in CASES if c}:
            (Path(folder) / f"wide{columns}.csv").write_text("")
            Schema.reals(columns, 0, 16).write(Path(folder) / f"wide{columns}.toml")
        for columns, terms in CASES:
            seconds, work = measured(studio, columns, terms)
            what = f"{columns or '-':>7}  {terms['unit']:9}  {terms['purpose']:10}"
            median, late, busy = statistics.median(seconds), seconds[int(0.95 * CHANGES)], statistics.median(work)
            print(f"{what}  {1e3 * median:9.0f}  {1e3 * late:7.0f}  {1e3 * busy:9.0f}", flush=True)


if __name__ == "__main__":
    main()
