"""Four million rows of a hundred columns to a sketch of 32 numbers each, beside the same job without privacy.

Usage: make bench. Every job is a process of its own, in turn; peak memory is the largest resident set.
The job without privacy is done in two ways: as one writes it (read the table, X @ P, write the table), and streamed in
blocks of columns that are never transposed, in single precision, as fast as we could make it. What OpenDP and
diffprivlib would take is the time of the first plus their noise, measured on a slice and scaled.
"""

import os
import shutil
import tempfile
import time
from pathlib import Path
from statistics import median

from ground import peers
from timed import Taken, at_once, in_turn, run, sketch, write_data

ROWS, COLUMNS, DIMENSION, ROUNDS, SLICE = 4_000_000, 100, 32, 5, 100_000
TURNS = 11  # of one core, two, and two processes
CSV_ROWS, FEW_ROWS = 1_000_000, 1_000

PLAIN = f"""
import sys
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
table = pq.read_table(sys.argv[1])
rows = np.column_stack([column.to_numpy() for column in table.columns])
projection = np.random.default_rng(0).standard_normal(({COLUMNS}, {DIMENSION})).astype(np.float32)
sketch = rows @ projection
table = pa.table({{f"z{{i}}": np.ascontiguousarray(sketch[:, i]) for i in range({DIMENSION})}})
pq.write_table(table, sys.argv[2], use_dictionary=False, compression="none")
"""
STREAMED = f"""
import sys
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
projection = np.random.default_rng(0).standard_normal(({DIMENSION}, {COLUMNS})).astype(np.float32)
names, writer = [f"z{{i}}" for i in range({DIMENSION})], None
for batch in pq.ParquetFile(sys.argv[1], pre_buffer=False).iter_batches(batch_size=1 << 15):
    block = projection @ np.stack([column.to_numpy() for column in batch.columns])
    made = pa.RecordBatch.from_arrays([pa.array(column) for column in block], names)
    writer = writer or pq.ParquetWriter(sys.argv[2], made.schema, use_dictionary=False, compression="none")
    writer.write_batch(made)
writer.close()
"""
POLARS = "import sys, polars; polars.read_csv(sys.argv[1])"
TO_CSV = "import sys, polars; polars.read_parquet(sys.argv[1]).write_csv(sys.argv[2])"
ARROW = "import sys, pyarrow.csv; pyarrow.csv.read_csv(sys.argv[1])"
ON_SPARK = f"""
import sys, time
from pathlib import Path
import sfumato as sf
from sfumato.engines.local import Local
from sfumato.pipeline.release import release_to
from sfumato.engines.spark import Spark
terms = dict(schema=sf.Schema.read(sys.argv[2]), mechanism=sf.Sketch(dimension={DIMENSION}, seed=1),
             guarantee=sf.Guarantee(epsilon=1.0, unit="attribute"))
out, taken = Path(sys.argv[3]), []
for number, engine in enumerate([Spark(master="local[2]"), Local(), Spark(), Local(), Spark()]):
    start = time.perf_counter()
    release_to(out / str(number), sys.argv[1], engine=engine, **terms)
    taken.append(time.perf_counter() - start)
(out / "taken").write_text(" ".join(map(str, taken)))
"""


def ours(folder: Path, rows: int, *more: str, out: str = "release") -> list[str]:
    """The command that sketches so many rows, into a folder that is not there."""
    shutil.rmtree(folder / out, ignore_errors=True)
    return sketch(folder / f"{rows}x{COLUMNS}.parquet", COLUMNS, DIMENSION, folder / out, *more)


def cores(folder: Path) -> tuple[Taken, Taken, list[float]]:
    """All cores, one, and two processes that share nothing with half of the rows and a core each.

    In turn, one after the other, for the machine's own speed drifts.
    """
    every, one, apart = Taken(), Taken(), []
    halves = [write_data(folder, rows, COLUMNS) for rows in (ROWS // 2, ROWS // 2 + 1)]  # a file each
    for _ in range(TURNS):
        run(every, ours(folder, ROWS))
        run(one, ours(folder, ROWS), 1)
        apart.append(at_once([ours(folder, ROWS // 2 + i, out=f"alone-{i}") for i in range(2)]))
    for half in halves:
        half.unlink()
    return every, one, apart


def parquet(folder: Path) -> dict[str, Taken]:
    """The sketch in other ways, and the job without privacy; fresh folders each time."""
    data = folder / f"{ROWS}x{COLUMNS}.parquet"

    def plain(program: str) -> list[str]:
        return ["-c", program, str(data), str(folder / "plain.parquet")]

    jobs = {
        "sfumato, gaussian P": lambda _: ours(folder, ROWS, "--projection", "gaussian"),
        "start-up": lambda _: ours(folder, FEW_ROWS),
        "start-up, one core": lambda _: ours(folder, FEW_ROWS),
        "without privacy": lambda _: plain(PLAIN),
        "without privacy, streamed": lambda _: plain(STREAMED),
        "without privacy, streamed, one core": lambda _: plain(STREAMED),
    }
    return in_turn(jobs, ROUNDS, {name: 1 for name in jobs if name.endswith("one core")})


def show(taken: dict[str, Taken], apart: list[float]) -> None:
    """The table, and the ratios that matter."""
    print(f"{ROWS:,} x {COLUMNS} float32 -> {DIMENSION}, Parquet to Parquet, {os.cpu_count()} cores, at best")
    for name, job in taken.items():
        print(f"  {name:36} {job.seconds:6.2f} s   processors {job.work:6.2f} s   peak {job.peak:5.0f} MiB")
    ours = taken["sfumato"]
    plain, streamed = taken["without privacy"], taken["without privacy, streamed"]
    fastest = min(streamed.seconds, taken["without privacy, streamed, one core"].seconds)
    print(f"  over the same without privacy        {ours.seconds / plain.seconds:6.2f} x (target <= 1.5)")
    print(f"  over the streamed one, at its best   {ours.seconds / fastest:6.2f} x (target <= 1.5)")
    one, start, start_one = (taken[name] for name in ("sfumato, one core", "start-up", "start-up, one core"))
    pairs = list(zip(one.runs, ours.runs, strict=True))
    gains = sorted(a / b for a, b in pairs)
    beyond = median((a - start_one.seconds) / (b - start.seconds) for a, b in pairs)
    print(f"  two cores over one, in {TURNS} turns       {median(gains):6.2f} x (target >= 1.6)")
    print(f"  of these, the middle half            {gains[TURNS // 4]:6.2f} x to {gains[-1 - TURNS // 4]:.2f} x")
    print(f"  beyond start-up                      {beyond:6.2f} x")
    most = median(a / b for a, b in zip(one.runs, apart, strict=True))
    print(f"  two processes that share nothing     {most:6.2f} x")
    print(f"  peak memory                          {ours.peak / 1024:6.2f} GiB (target <= 1)")
    for peer, job in peers()["laplace"].items():
        start = time.perf_counter()
        job(SLICE)
        noise = (time.perf_counter() - start) / SLICE * ROWS * DIMENSION
        ratio = (plain.seconds + noise) / ours.seconds
        print(f"  {peer + ', noise scaled from ' + format(SLICE, ','):36} {ratio:6.0f} x (target >= 50)")


def csv(folder: Path) -> None:
    """CSV to the same sketch, against reading alone."""
    data = write_data(folder, CSV_ROWS, COLUMNS)
    text = folder / "rows.csv"
    run(Taken(), ["-c", TO_CSV, str(data), str(text)])

    def from_text(_: int) -> list[str]:
        shutil.rmtree(folder / "release", ignore_errors=True)
        return sketch(text, COLUMNS, DIMENSION, folder / "release")

    jobs = {
        "sfumato, from CSV": from_text,
        "sfumato, from Parquet": lambda _: ours(folder, CSV_ROWS),
        "polars reads the CSV": lambda _: ["-c", POLARS, str(text)],
        "pyarrow reads the CSV": lambda _: ["-c", ARROW, str(text)],
    }
    taken = in_turn(jobs, ROUNDS, {})
    print(f"{CSV_ROWS:,} x {COLUMNS} from CSV ({text.stat().st_size / 1e9:.2f} GB)")
    for name, job in taken.items():
        print(f"  {name:36} {job.seconds:6.2f} s   processors {job.work:6.2f} s   peak {job.peak:5.0f} MiB")
    whole, parquet_only, *readers = (job.seconds for job in taken.values())
    print(f"  beyond Parquet, over fastest reader  {(whole - parquet_only) / min(readers):6.2f} x")
    print(f"  whole, over fastest reader + Parquet {whole / (min(readers) + parquet_only):6.2f} x (target <= 1.3)")


def spark(folder: Path, command: float) -> None:
    """The same file by Spark in this machine's two cores, beside the local engine in the same process, and the command.

    ``command``: what the command takes beyond its start-up.
    """
    (folder / "spark").mkdir()
    data, taken = folder / f"{ROWS}x{COLUMNS}.parquet", Taken()
    run(taken, ["-c", ON_SPARK, str(data), str(folder / f"{COLUMNS}.toml"), str(folder / "spark")])
    first, here, there, here_again, there_again = map(float, (folder / "spark" / "taken").read_text().split())
    local, cluster = min(here, here_again), min(there, there_again)
    print(f"Spark local[2], the same {ROWS:,} rows")
    print(f"  first release, start-up included     {first:6.2f} s")
    print(f"  further releases                     {cluster:6.2f} s   local engine {local:6.2f} s")
    print(f"  over the local engine                {cluster / local:6.2f} x (target <= 4)")
    print(f"  over the command, beyond start-up    {cluster / command:6.2f} x (target <= 4)")


def main() -> None:
    """Everything, in one folder."""
    with tempfile.TemporaryDirectory() as name:
        for rows in (ROWS, FEW_ROWS):
            write_data(Path(name), rows, COLUMNS)
        every, one, apart = cores(Path(name))
        taken = {"sfumato": every, "sfumato, one core": one} | parquet(Path(name))
        show(taken, apart)
        if shutil.which("java"):
            spark(Path(name), every.seconds - taken["start-up"].seconds)
        else:
            print("Spark was not measured: there is no Java here (Debian: default-jre-headless)")
        (Path(name) / f"{ROWS}x{COLUMNS}.parquet").unlink()
        csv(Path(name))


if __name__ == "__main__":
    main()
