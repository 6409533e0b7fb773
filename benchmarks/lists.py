"""Embeddings and sets from Parquet to a sketch, beside the same numbers in plain columns: ratios in one run.

Usage: make bench ONLY=lists. The releases take turns in one process; seconds are those of processors, which others who
use the machine disturb least: medians of several rounds, ratios within a round.
"""

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sfumato as sf

ROWS, SIZE, ITEMS, MOST, DIMENSION, ROUNDS = 100_000, 384, 300, 10, 32, 11
WORDS = tuple(f"item{i:03}" for i in range(ITEMS))
NUMBERS = tuple(f"c{j}" for j in range(SIZE))
PLAIN, CLIPPED, FLAGS = "384 plain columns", "384 plain columns, clipped", "300 flags"
UNITS = {CLIPPED: "record", "lists of 384, clipped": "record"}  # a clip lets one value move a whole row
OVER = {
    "fixed-size lists of 384": PLAIN,
    "lists of 384": PLAIN,
    "lists of 384, clipped": CLIPPED,
    "sets of 300 items": FLAGS,
    "sets in 300 buckets": FLAGS,
}
GROUP = 1 << 15  # rows


def write(folder: Path, rows: int) -> None:
    """The same unit vectors in three forms, the same sets in two."""
    rng = np.random.default_rng(1)
    numbers = rng.standard_normal((rows, SIZE), dtype=np.float32)
    numbers /= np.linalg.norm(numbers, axis=1, keepdims=True)
    flat, starts = pa.array(numbers.reshape(-1)), pa.array(np.arange(rows + 1, dtype=np.int32) * SIZE)
    sizes = rng.integers(0, MOST + 1, rows)
    places = np.concatenate([rng.choice(ITEMS, size, replace=False) for size in sizes])
    ends = pa.array(np.append(0, np.cumsum(sizes)).astype(np.int32))
    bits = np.zeros((rows, ITEMS), bool)
    bits[np.repeat(np.arange(rows), sizes), places] = True
    made = {
        "plain": {name: np.ascontiguousarray(numbers[:, j]) for j, name in enumerate(NUMBERS)},
        "fixed": {"e": pa.FixedSizeListArray.from_arrays(flat, SIZE)},
        "lists": {"e": pa.ListArray.from_arrays(starts, flat)},
        "flags": {name: np.ascontiguousarray(bits[:, i]) for i, name in enumerate(WORDS)},
        "sets": {"s": pa.ListArray.from_arrays(ends, pa.array(np.array(WORDS)[places]))},
    }
    for name, columns in made.items():
        numbers_only = name in ("plain", "fixed", "lists")
        pq.write_table(
            pa.table(columns), folder / f"{name}.parquet", use_dictionary=not numbers_only, row_group_size=GROUP
        )


def jobs() -> dict[str, tuple[str, sf.Schema]]:
    """Files and what is declared of them."""
    reals = tuple(sf.Real(name, -1.0, 1.0) for name in NUMBERS)
    vector = sf.Schema((sf.Vector("e", SIZE, -1.0, 1.0),))
    return {
        PLAIN: ("plain", sf.Schema(reals)),
        CLIPPED: ("plain", sf.Schema(reals, norm="l2", norm_bound=1.0)),
        "fixed-size lists of 384": ("fixed", vector),
        "lists of 384": ("lists", vector),
        "lists of 384, clipped": ("lists", sf.Schema((sf.Vector("e", SIZE, -1.0, 1.0, bound=1.0),))),
        FLAGS: ("flags", sf.Schema(tuple(map(sf.Flag, WORDS)))),
        "sets of 300 items": ("sets", sf.Schema((sf.Set("s", WORDS, MOST),))),
        "sets in 300 buckets": ("sets", sf.Schema((sf.Set("s", buckets=ITEMS, most=MOST),))),
    }


def seconds(folder: Path, name: str, file: str, schema: sf.Schema) -> float:
    """Of processors, for one release from file to file."""
    shutil.rmtree(folder / "release", ignore_errors=True)
    promise = sf.Guarantee(epsilon=1.0, unit="record" if name in UNITS else "attribute")
    os.sync()
    start = time.process_time()
    recipe = sf.Sketch(dimension=DIMENSION, seed=1)
    sf.release_to(folder / "release", folder / f"{file}.parquet", schema=schema, mechanism=recipe, guarantee=promise)
    return time.process_time() - start


def main(rows: int) -> None:
    """Print the seconds and the ratios."""
    print(f"{rows:,} rows to a sketch of {DIMENSION} numbers, Parquet to Parquet, seconds of processors")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, rows)
        taken: dict[str, list[float]] = {name: [] for name in jobs()}
        for _ in range(ROUNDS):
            for what, job in jobs().items():
                taken[what].append(seconds(folder, what, *job))
    for what, runs in taken.items():
        told = f"  {what:28} {median(runs):6.2f} s"
        if what in OVER:
            ratio = median(ours / plain for ours, plain in zip(runs, taken[OVER[what]], strict=True))
            told += f"   {ratio:5.2f} x {OVER[what]} (target <= 1.2)"
        print(told)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS)
