"""How time and memory grow with rows, columns, numbers per record and edges; every release a process of its own.

Usage: make bench. A slope is the growth of the logarithm of the time, less that of starting on a few rows, with the
logarithm of the size: 1 is linear.
"""

import math
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from timed import Taken, run, sketch, write_data

ROWS, COLUMNS, DIMENSION, ROUNDS = 250_000, 100, 32, 2
EDGES, VERTICES, HEIGHT = 1_000_000, 100_000, 30


def measured(folder: Path, command: list[str]) -> Taken:
    """The best of a few runs."""
    taken = Taken()
    for _ in range(ROUNDS):
        shutil.rmtree(folder / "release", ignore_errors=True)
        run(taken, [*command, "--out", str(folder / "release")])
    return taken


def release(folder: Path, rows: int, columns: int, dimension: int, family: str) -> Taken:
    """A sketch of so many rows and columns."""
    data = folder / f"{rows}x{columns}.parquet"
    if not data.exists():
        write_data(folder, rows, columns)
    command = sketch(data, columns, dimension, folder / "release", "--projection", family)
    return measured(folder, [part for part in command if part not in ("--out", str(folder / "release"))])


def slope(start: float, small: float, large: float, times: int) -> float:
    """Of the time beyond starting."""
    return math.log((large - start) / (small - start)) / math.log(times)


def sketches(folder: Path) -> None:
    """Rows, columns and numbers per record, one after the other."""
    print(f"Sketches, from {ROWS:,} x {COLUMNS} -> {DIMENSION}")
    start = release(folder, 1000, COLUMNS, DIMENSION, "gaussian").seconds
    base = release(folder, ROWS, COLUMNS, DIMENSION, "gaussian")
    print(f"  {'start alone':22} {start:6.2f} s")
    print(f"  {'the smallest':22} {base.seconds:6.2f} s   peak {base.peak:5.0f} MiB")
    for name, times, size in (
        ("4 x rows", 4, (4 * ROWS, COLUMNS, DIMENSION)),
        ("16 x rows", 16, (16 * ROWS, COLUMNS, DIMENSION)),
        ("4 x columns", 4, (ROWS, 4 * COLUMNS, DIMENSION)),
        ("4 x numbers per record", 4, (ROWS, COLUMNS, 4 * DIMENSION)),
    ):
        taken = release(folder, *size, "gaussian")
        found = slope(start, base.seconds, taken.seconds, times)
        print(f"  {name:22} {taken.seconds:6.2f} s   peak {taken.peak:5.0f} MiB   slope {found:5.2f}")


def graphs(folder: Path) -> None:
    """Edges, of as many vertices."""
    print(f"Graph sketches of {VERTICES:,} vertices, {HEIGHT} rows")
    found = []
    for edges in (1000, EDGES, 10 * EDGES):
        ends = np.random.default_rng(1).integers(0, VERTICES, (2, edges), dtype=np.int32)
        pq.write_table(pa.table({"src": ends[0], "dst": ends[1]}), folder / "edges.parquet")
        promise = ["--epsilon", "1", "--delta", "1e-6", "--rows", str(HEIGHT), "--vertices", str(VERTICES)]
        found.append(
            measured(folder, ["-m", "sfumato.cli", "release", "graph", str(folder / "edges.parquet"), *promise])
        )
        print(f"  {edges:10,} edges      {found[-1].seconds:6.2f} s   peak {found[-1].peak:5.0f} MiB")
    start, small, large = (job.seconds for job in found)
    print(f"  10 x edges                                        slope {slope(start, small, large, 10):5.2f}")


def main() -> None:
    """Both, in one folder."""
    with tempfile.TemporaryDirectory() as name:
        sketches(Path(name))
        graphs(Path(name))


if __name__ == "__main__":
    main()
