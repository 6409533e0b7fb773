"""Processes that are timed: the best seconds and the largest resident sets of commands that take turns.

A process that is started counts the memory of the one that starts it, so this one stays small: data are written by
others (``python timed.py FOLDER ROWS COLUMNS``). The resident sets of a command and of its processes are added up, what
they share counted for each.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SKETCH = ["-m", "sfumato.cli", "release", "sketch"]
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}  # as where it is installed


@dataclass
class Taken:
    """What a command took, in the best of its runs: seconds, seconds of processors, and MiB at its peak."""

    seconds: float = float("inf")
    work: float = float("inf")
    peak: float = 0.0
    runs: list[float] = field(default_factory=list)


def in_turn(jobs: Mapping[str, Callable[[int], list[str]]], rounds: int, cores: Mapping[str, int]) -> dict[str, Taken]:
    """Run the commands round by round, so that a busy machine slows them alike; ``cores`` pins some to so many."""
    taken = {name: Taken() for name in jobs}
    for number in range(rounds):
        for name, command in jobs.items():
            run(taken[name], command(number), cores.get(name))
    return taken


def run(taken: Taken, command: list[str], cores: int | None = None) -> None:
    """One run of a Python command, with what it took."""
    os.sync()  # so that no command waits for what another one wrote
    every = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(every)[:cores])  # inherited by the process
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.DEVNULL, env=ENVIRONMENT)  # noqa: S603
    with _watched(process.pid) as seen:
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
    os.sched_setaffinity(0, every)
    if status != 0:
        sys.exit(f"failed: {' '.join(command[:6])}")
    taken.runs.append(seconds)
    taken.seconds = min(taken.seconds, seconds)
    taken.work = min(taken.work, usage.ru_utime + usage.ru_stime)
    taken.peak = max(taken.peak, usage.ru_maxrss / 1024, *seen)


@contextmanager
def _watched(pid: int) -> Iterator[list[float]]:
    """MiB of a command and its processes, looked at again and again until the block ends."""
    seen, over = [0.0], threading.Event()

    def look() -> None:
        while not over.wait(0.02):
            seen.append(_resident(pid) * os.sysconf("SC_PAGESIZE") / 2**20)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield seen
    finally:
        over.set()
        watcher.join()


def _resident(pid: int) -> int:
    """Pages of a process and of those that it began."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (OSError, IndexError):  # it has ended
        return 0
    return pages + sum(_resident(int(child)) for child in children)


def at_once(commands: list[list[str]]) -> float:
    """Seconds until all of these Python commands have ended, each on a core of its own."""
    os.sync()
    every = sorted(os.sched_getaffinity(0))
    start, processes = time.perf_counter(), []
    for core, command in zip(every, commands, strict=False):
        os.sched_setaffinity(0, [core])  # inherited by the process
        processes.append(
            subprocess.Popen([sys.executable, *command], stdout=subprocess.DEVNULL, env=ENVIRONMENT)  # noqa: S603
        )
    os.sched_setaffinity(0, every)
    if any(process.wait() for process in processes):
        sys.exit(f"failed: {' '.join(commands[0][:6])}")
    return time.perf_counter() - start


def write_data(folder: Path, rows: int, columns: int) -> Path:
    """Parquet of float32 in [0, 1] with row groups of 131,072 rows, and its schema beside it, by another process."""
    run(Taken(), [__file__, str(folder), str(rows), str(columns)])
    return folder / f"{rows}x{columns}.parquet"


def _write(folder: Path, rows: int, columns: int) -> None:
    rng, path = np.random.default_rng(1), folder / f"{rows}x{columns}.parquet"
    schema = pa.schema([(f"c{j}", pa.float32()) for j in range(columns)])
    with pq.ParquetWriter(path, schema, use_dictionary=False) as writer:
        for start in range(0, rows, 1 << 17):
            block = rng.random((columns, min(1 << 17, rows - start)), dtype=np.float32)
            writer.write_batch(pa.RecordBatch.from_arrays([pa.array(column) for column in block], schema=schema))
    text = "\n".join(f'[[columns]]\nname = "c{j}"\nkind = "real"\nlow = 0.0\nhigh = 1.0\n' for j in range(columns))
    (folder / f"{columns}.toml").write_text(text)


def sketch(data: Path, columns: int, dimension: int, out: Path, *more: str) -> list[str]:
    """The command that releases a sketch."""
    schema = str(data.parent / f"{columns}.toml")
    promise = ["--schema", schema, "--epsilon", "1", "--unit", "attribute", "--dimension", str(dimension)]
    return [*SKETCH, str(data), *promise, "--out", str(out), *more]


if __name__ == "__main__":
    _write(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
