"""A million rows of a hundred columns to a sketch of 32 numbers each, beside the same job without privacy.

Usage: make bench-sketch. Both jobs run as processes of their own, in turn; peak memory is the largest resident set.
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

ROWS, COLUMNS, DIMENSION, ROUNDS = 1_000_000, 100, 32, 3

PLAIN = """
import sys
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
from sklearn.random_projection import SparseRandomProjection
table = pq.read_table(sys.argv[1])
rows = table.to_pandas().to_numpy()
sketch = SparseRandomProjection(32, random_state=0).fit_transform(rows)
sketch = sketch + np.random.default_rng().laplace(size=sketch.shape)
table = pa.table({f"z{i}": sketch[:, i] for i in range(32)})
pq.write_table(table, sys.argv[2], use_dictionary=False, compression="none")
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


def main() -> None:
    """Run both jobs in turn and print the ratio of their best times."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_data(folder)
        ours, plain = [], []
        for i in range(ROUNDS):
            command = [sys.executable, "-m", "sfumato.cli", "release", "sketch", str(folder / "data.parquet")]
            command += ["--schema", str(folder / "schema.toml"), "--epsilon", "1", "--unit", "attribute"]
            ours.append(run([*command, "--dimension", str(DIMENSION), "--out", str(folder / f"release{i}")]))
            plain.append(
                run([sys.executable, "-c", PLAIN, str(folder / "data.parquet"), str(folder / f"plain{i}.parquet")])
            )
        print(f"{ROWS:,} x {COLUMNS} -> {DIMENSION}, Parquet to Parquet, {os.cpu_count()} cores")
        times = [min(seconds for seconds, _ in job) for job in (ours, plain)]
        peaks = [max(peak for _, peak in job) for job in (ours, plain)]
        print(f"  sfumato, private       {times[0]:6.2f} s   peak {peaks[0]:6.0f} MiB (target <= 1024)")
        print(f"  the same, not private  {times[1]:6.2f} s   peak {peaks[1]:6.0f} MiB")
        print(f"  ratio                  {times[0] / times[1]:6.2f} x (target <= 2)")


if __name__ == "__main__":
    main()
