"""What private schemas of real tables cut, keep and cost: the tables of docs/learned-schemas.md.

Usage: python experiments/learned_schemas.py DATA [--runs N] [--write]

DATA is the folder of the data sets: adult, covertype, blogfeedback and mnist, as Parquet files. With --write the tables
go into the page, between its marks.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv
import pyarrow.parquet as pq

from sfumato.pipeline.learn_schema import Description, PlannedSchema
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness.secret import Secret
from sfumato.tables.columns import Category, Flag, Integer, Real

PAGE = Path(__file__).parents[1] / "docs" / "learned-schemas.md"
COMMAND = "python experiments/learned_schemas.py DATA --write"
CASES = (("adult", 0.2), ("covertype", 0.2), ("blogfeedback", 2.0), ("mnist", 2.0))
DELTA = 1e-7
WIDE = 4.0
ONE = "import sys; sys.path.insert(0, 'experiments'); from learned_schemas import timed; timed(*sys.argv[1:])"


def measured(path: Path, epsilon: float, runs: int) -> Iterator[dict[str, float]]:
    """What each of several private schemas of a table cuts and keeps, against the table itself."""
    table = pq.read_table(path)
    guarantee = Guarantee(epsilon=epsilon, delta=DELTA)
    for _ in range(runs):
        planned = PlannedSchema.of(table, Description(), guarantee, None)
        limit = max(limit.count for limit in planned.forecast.threshold.values())
        schema = planned.run(Secret.fresh())
        cuts, widths, kept, lost = [], [], [], 0
        for column in schema.columns:
            cells = table[column.name]
            if isinstance(column, Category):
                listed = pc.is_in(cells, pa.array(column.values, cells.type))
                kept.append(float(pc.mean(pc.cast(listed, pa.float64())).as_py()))
                often = [v["values"] for v in pc.value_counts(cells).to_pylist() if v["counts"] > 2 * limit]
                lost += len(set(often) - set(column.values))
            elif isinstance(column, Real | Integer | Flag):
                low, high = (0, 1) if isinstance(column, Flag) else (column.low, column.high)
                numbers = cells.to_numpy().astype(float)
                cuts.append(float(((numbers < low) | (numbers > high)).mean()))
                least = 0.0 if isinstance(column, Real) else 1.0  # whole numbers have a width of at least 1
                widths.append((high - low) / max(float(np.ptp(numbers)), least, 1e-300))
        yield {
            "limit": limit,
            "cut": max(cuts),
            "narrow": float(np.mean(np.array(widths) <= WIDE)),
            "kept": float(np.mean(kept)) if kept else np.nan,
            "lost": lost,
            "columns": len(schema.columns),
        }


def accuracy(folder: Path, runs: int) -> list[str]:
    """The table of what is cut and kept."""
    heads = (
        "table", "rows", "columns", "epsilon", "threshold, rows", "largest share cut in any column and run",
        "columns at most 4 times as wide as their range, all runs (worst run)", "mass of categories kept, mean",
        "values above twice the threshold that were lost",
    )  # fmt: skip
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, epsilon in CASES:
        path = folder / f"{name}.parquet"
        file = pq.ParquetFile(path).metadata
        found = list(measured(path, epsilon, runs))
        kept = np.mean([run["kept"] for run in found])
        lines.append(
            f"| {name} | {file.num_rows:,} | {file.num_columns} | {epsilon:g} | {found[0]['limit']:,.0f} "
            f"| {max(run['cut'] for run in found):.2%} | {np.mean([run['narrow'] for run in found]):.1%} "
            f"({min(run['narrow'] for run in found):.1%}) "
            f"| {'no categories' if np.isnan(kept) else f'{kept:.1%}'} | {sum(run['lost'] for run in found):.0f} |"
        )
        print(lines[-1], flush=True)
    return [*lines, "", f"{runs} runs of each, delta 1e-7, `replace`. Noise is fresh in every run."]


def mixed(rows: int) -> pa.Table:
    """A table of 43 mixed columns, two of them different in every row."""
    rng = np.random.default_rng(1)
    columns = {f"whole{i}": rng.integers(0, 10 ** (i // 2 + 1), rows) for i in range(10)}
    columns |= {f"real{i}": np.round(rng.normal(size=rows) * 10.0 ** (i - 4), 6) for i in range(10)}
    for i in range(12):
        words = np.array([f"value {j}" for j in range(3 ** (i // 2 + 1))])
        columns[f"category{i}"] = words[rng.integers(0, len(words), rows)]
    columns |= {f"flag{i}": rng.random(rows) < 0.3 for i in range(6)}
    columns |= {f"day{i}": np.datetime64("2015-01-01") + rng.integers(0, 3000, rows) for i in range(2)}
    columns |= {"moment": np.datetime64("2020-01-01T00:00:00") + rng.integers(0, 10**8, rows)}
    columns |= {f"name{i}": np.char.add("person ", np.arange(rows).astype(str)) for i in range(2)}
    return pa.table(columns)


def timed(path: str) -> None:
    """Seconds of the clock and of the processor, and megabytes at the peak, of learning one file's schema."""
    started, busy = time.perf_counter(), time.process_time()
    planned = PlannedSchema.of(path, Description(), Guarantee(epsilon=0.5, delta=DELTA), None)
    planned.run(Secret.fresh())
    status = Path("/proc/self/status").read_text()  # not getrusage, which remembers what the parent had
    peak = int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) / 1024
    print(time.perf_counter() - started, time.process_time() - busy, peak)


def speed() -> list[str]:
    """The table of time and memory, each in a process of its own."""
    lines = ["| rows | file | seconds | processor seconds | peak memory, MB |", "|---|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        for rows in (200_000, 800_000):
            table = mixed(rows)
            pq.write_table(table, f"{folder}/mixed.parquet")
            pv.write_csv(table, f"{folder}/mixed.csv")
            for kind in ("parquet", "csv"):
                run = [sys.executable, "-c", ONE, f"{folder}/mixed.{kind}"]
                told = subprocess.run(run, capture_output=True, text=True, check=True, cwd=PAGE.parents[1]).stdout  # noqa: S603
                seconds, busy, peak = map(float, told.split())
                lines.append(f"| {rows:,} | {kind} | {seconds:.1f} | {busy:.1f} | {peak:.0f} |")
                print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Measure, print, and write into the page if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    made = [*accuracy(options.data, options.runs), "", *speed()]
    if options.write:
        page = PAGE.read_text()
        first, rest = page.split(f"<!-- made by: {COMMAND} -->\n")
        _, last = rest.split("<!-- end -->", 1)
        body = "\n".join(made)
        PAGE.write_text(f"{first}<!-- made by: {COMMAND} -->\n{body}\n<!-- end -->{last}")


if __name__ == "__main__":
    main()
