"""Synthetic rows from a million rows of a hundred columns, in one pass and in two, beside X'X without privacy.

Usage: make bench. Every job is a process of its own, in turn; peak memory is the largest resident set. Seconds of
processors are for machines that do other work too; there OMP_NUM_THREADS=1 is fairer, for idle BLAS threads spin.
The job without privacy reads the same file in blocks and adds up X'X of each in doubles.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

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


DATA = f"""
import sys
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
rng = np.random.default_rng(1)
table = pa.table({{f"c{{i}}": rng.random({ROWS}) for i in range({COLUMNS})}})
pq.write_table(table, sys.argv[1], use_dictionary=False, row_group_size=1 << 17)
"""


def make_data(folder: Path) -> None:
    """Parquet with row groups of the usual size, and its schema.

    In another process: what this one has held would count as the peak of its children, until they start to run.
    """
    run([sys.executable, "-c", DATA, str(folder / "data.parquet")])
    columns = "\n".join(f'[[columns]]\nname = "c{i}"\nkind = "real"\nlow = 0.0\nhigh = 1.0\n' for i in range(COLUMNS))
    (folder / "schema.toml").write_text(columns)


def run(command: list[str]) -> tuple[float, float, float]:
    """Seconds, seconds of a processor, and peak memory in MiB."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"failed: {' '.join(command[:4])}")
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


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
        jobs: dict[str, list[tuple[float, float, float]]] = {"X'X, not private": [], "one pass": [], "two passes": []}
        plain, once, twice = jobs.values()
        for i in range(ROUNDS):
            plain.append(run([sys.executable, "-c", PLAIN, str(folder / "data.parquet"), str(folder / "gram.npy")]))
            once.append(run(release(folder, f"once{i}", "--centring", "public")))
            twice.append(run(release(folder, f"twice{i}", "--centring", "private")))
        print(f"{ROWS:,} x {COLUMNS} -> a model in {DIMENSION} columns and as many rows, {os.cpu_count()} cores")
        base = [min(column) for column in zip(*plain, strict=True)]
        for job, found in jobs.items():
            (seconds, busy, _), peak = (min(column) for column in zip(*found, strict=True)), max(f[2] for f in found)
            line = f"  {job:18} {seconds:6.2f} s  {seconds / base[0]:5.2f} x   peak {peak:6.0f} MiB"
            print(f"{line}   processors {busy:6.2f} s  {busy / base[1]:5.2f} x")
        print("  targets for one pass: at most 1024 MiB and 1.50 x")


if __name__ == "__main__":
    main()
