"""Synthetic rows from a million rows of a hundred columns, in one pass and in two, beside X'X without privacy.

Usage: make bench. Every job is a process of its own, in turn; peak memory is the largest resident set.
The job without privacy reads the same file in blocks and adds up X'X of each in doubles.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS, COLUMNS, DIMENSION, ROUNDS = 1_000_000, 100, 16, 3

PLAIN = f"""
import sys
import numpy as np, pyarrow.parquet as pq
total = np.zeros(({COLUMNS}, {COLUMNS}))
with pq.ParquetFile(sys.argv[1]) as file:
    for batch in file.iter_batches(batch_size=1 << 16):
        block = np.stack([column.to_numpy() for column in batch.columns])
        total += block @ block.T
np.save(sys.argv[2], total)
"""


def make_data(folder: Path) -> None:
    """Parquet with row groups of the usual size, and its schema."""
    rng = np.random.default_rng(1)
    table = pa.table({f"c{i}": rng.random(ROWS) for i in range(COLUMNS)})
    pq.write_table(table, folder / "data.parquet", use_dictionary=False, row_group_size=1 << 17)
    columns = "\n".join(f'[[columns]]\nname = "c{i}"\nkind = "real"\nlow = 0.0\nhigh = 1.0\n' for i in range(COLUMNS))
    (folder / "schema.toml").write_text(columns)


def run(command: list[str]) -> tuple[float, float]:
    """Seconds, and peak memory in MiB."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"failed: {' '.join(command[:4])}")
    return time.perf_counter() - start, usage.ru_maxrss / 1024


def release(folder: Path, out: str, *more: str) -> list[str]:
    """The command that makes synthetic rows."""
    command = [sys.executable, "-m", "sfumato.cli", "release", "synthetic", str(folder / "data.parquet")]
    command += ["--schema", str(folder / "schema.toml"), "--epsilon", "1", "--delta", "1e-6", "--noise", "gaussian"]
    return [*command, "--dimension", str(DIMENSION), "--out", str(folder / out), *more]


def main() -> None:
    """Run the jobs in turn and print the ratios of their best times."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_data(folder)
        jobs: dict[str, list[tuple[float, float]]] = {"X'X, not private": [], "one pass": [], "two passes": []}
        plain, once, twice = jobs.values()
        for i in range(ROUNDS):
            plain.append(run([sys.executable, "-c", PLAIN, str(folder / "data.parquet"), str(folder / "gram.npy")]))
            once.append(run(release(folder, f"once{i}", "--centring", "public")))
            twice.append(run(release(folder, f"twice{i}")))
        print(f"{ROWS:,} x {COLUMNS} -> a model in {DIMENSION} columns and as many rows, {os.cpu_count()} cores")
        base = min(seconds for seconds, _ in plain)
        for job, found in jobs.items():
            seconds, peak = min(s for s, _ in found), max(p for _, p in found)
            print(f"  {job:18} {seconds:6.2f} s   peak {peak:6.0f} MiB   {seconds / base:5.2f} x")
        print("  targets for one pass: at most 1024 MiB and 1.50 x")


if __name__ == "__main__":
    main()
