"""Counting all pairs of a mixed table from Parquet, beside reading it: ratios in one run, memory in fresh processes.

Usage: make bench ONLY=tables, or python benchmarks/tables.py 10000000 for the size of the target. Reading, reading as
cells and counting take turns, each in a process of its own, which times itself without its start.
"""

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sfumato as sf
from sfumato.engines.local import Local
from sfumato.files.open_table import open_table
from sfumato.marginals.partition import Partition
from sfumato.mechanisms.table import counting
from sfumato.tables.blocks import Blocks, CodeReader, ignore

ROWS, ROUNDS, GROUP = 1_000_000, 3, 1 << 17
LEVELS = (5, 8, 10, 12, 15, 20, 25, 30, 40, 50)
WIDE, WIDE_ROWS = 500, 50_000
MANY, MANY_ROWS = 100_000, 1_000_000
BINS = 16  # of a number, the most that a model has
JOBS = {"read": "reading it", "cells": "reading it as cells", "pairs": "counting all pairs"}


def schema(kind: str) -> sf.Schema:
    """Mixed: 20 numbers, 10 categories of 5 to 50 levels, 5 whole numbers, 5 flags. Wide: numbers. Many: a category."""
    if kind == "wide":
        return sf.Schema(tuple(sf.Real(f"n{j}", -5.0, 5.0) for j in range(WIDE)))
    if kind == "many":
        return sf.Schema((sf.Category("c", tuple(f"level {i}" for i in range(MANY))),))
    numbers = [sf.Real(f"n{j}", *((-5.0, 5.0) if j % 2 else (0.0, 20_000.0))) for j in range(20)]
    categories = [sf.Category(f"c{j}", tuple(f"level {i}" for i in range(n))) for j, n in enumerate(LEVELS)]
    integers = [sf.Integer(f"i{j}", 0, 150) for j in range(5)]
    return sf.Schema((*numbers, *categories, *integers, *(sf.Flag(f"f{j}") for j in range(5))))


def drawn(kind: str, rows: int, rng: np.random.Generator) -> pa.Table:
    """Rows: normal numbers, amounts of which a third are zero, categories with rare levels, counts, flags."""
    found = {}
    for column in schema(kind).data_columns:
        if isinstance(column, sf.Real):
            amounts = rng.gamma(1.0, 2000.0, rows) * (rng.random(rows) < 0.7)
            found[column.name] = pa.array(rng.standard_normal(rows) if column.low < 0 else amounts)
        elif isinstance(column, sf.Category):
            places = (rng.random(rows) ** 2 * len(column.values)).astype(np.int32)
            found[column.name] = pa.array(column.values).take(pa.array(places))
        else:
            integer = isinstance(column, sf.Integer)
            found[column.name] = pa.array(rng.poisson(40, rows) if integer else rng.random(rows) < 0.3)
    return pa.table(found)


def write(path: Path, kind: str, rows: int) -> None:
    """Parquet in row groups of 131,072 rows."""
    rng, writer = np.random.default_rng(1), None
    for start in range(0, rows, GROUP):
        some = drawn(kind, min(GROUP, rows - start), rng)
        writer = writer or pq.ParquetWriter(path, some.schema)
        writer.write_table(some, row_group_size=GROUP)
    assert writer is not None
    writer.close()


def work(job: str, path: Path, kind: str) -> None:
    """Do a job as a release does it, and print its seconds, those of processors, and MiB at the peak."""
    declared = schema(kind)
    partition = Partition.of(declared)
    reader = CodeReader(partition.read, len(partition.variables))
    blocks = Blocks.read_by(reader, open_table(path), declared)
    maps = [np.arange(v.size) * min(v.size, BINS if v.ordered else v.size) // v.size for v in partition.variables]
    sizes = [int(m.max()) + 1 for m in maps]
    pairs = [(i, j) for j in range(len(sizes)) for i in range(j)]
    rows = Local().rows(blocks, ignore)
    start, used = time.perf_counter(), time.process_time()
    if job == "read":
        for _ in blocks:
            pass
    elif job == "cells":
        rows.sum(lambda _, block: np.array([block.shape[1]]))
    else:
        counting.count(rows, sizes, counting.Reader(partition, maps), pairs)
    seconds, used = time.perf_counter() - start, time.process_time() - used
    print(seconds, used, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def told(*command: str) -> str:
    """What this script prints in a process of its own."""
    run = [sys.executable, __file__, *command]
    return subprocess.run(run, check=True, capture_output=True, text=True).stdout  # noqa: S603 - our own script


def measured(path: Path, kind: str, jobs: tuple[str, ...], rounds: int) -> Iterator[tuple[str, list[float]]]:
    """The least seconds, those of processors, and the largest peak of each job, which take turns."""
    runs: dict[str, list[list[float]]] = {job: [] for job in jobs}
    for _ in range(rounds):
        for job in jobs:
            runs[job].append([float(word) for word in told("work", job, str(path), kind).split()])
    for job, taken in runs.items():
        seconds, used, peak = zip(*taken, strict=True)
        yield job, [min(seconds), min(used), max(peak)]


def show(folder: Path, kind: str, title: str, rows: int, jobs: tuple[str, ...], rounds: int) -> None:
    """Write a table, measure the jobs, and print them beside the first."""
    print(f"{title}, {rows:,} rows from Parquet")
    path = folder / f"{kind}.parquet"
    told("write", str(path), kind, str(rows))
    base: list[float] = []
    for job, found in measured(path, kind, jobs, rounds):
        base = base or found
        ratios = f"{found[0] / base[0]:5.2f} x reading, of processors {found[1] / base[1]:5.2f} x"
        limit = " (target <= 8)" if job == "pairs" and kind == "mixed" else ""
        peak = f"{found[2]:6.0f} MiB" + (" (target <= 1024)" if limit else "")
        print(f"  {JOBS[job]:20} {found[0]:7.2f} s {found[1]:7.2f} s of processors   {ratios}{limit}   {peak}")
    path.unlink()


def main(rows: int) -> None:
    """Print what each table takes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        show(folder, "mixed", "40 mixed columns", rows, ("read", "cells", "pairs"), ROUNDS)
        show(folder, "wide", f"{WIDE} numbers", WIDE_ROWS, ("read", "cells", "pairs"), 1)
        show(folder, "many", f"a category of {MANY:,} levels", MANY_ROWS, ("read", "cells"), ROUNDS)


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"]:
        write(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
    elif sys.argv[1:2] == ["work"]:
        work(sys.argv[2], Path(sys.argv[3]), sys.argv[4])
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS)
