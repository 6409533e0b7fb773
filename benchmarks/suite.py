"""All benchmarks in one run, to benchmarks/results.md: ratios to peers or to limits that were measured beside them.

Usage: make bench [ONLY="stages sketch"]
"""

import os
import platform
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).parent
PARTS = {
    "ground": "Exact noise and exact products",
    "stages": "Stages of a sketch, and what bounds them",
    "sketch": "A sketch from file to file, and on Spark",
    "growth": "Growth",
    "lists": "Embeddings and sets",
    "nearest": "Nearest rows",
    "starting": "Starting",
    "synthetic": "Synthetic rows",
    "tables": "Counting the pairs of a table",
    "ledger": "The ledger",
}
LIBRARIES = ("numpy", "pyarrow", "scipy", "polars", "pyspark", "opendp", "diffprivlib")


def machine() -> str:
    """What it was run on."""
    about = Path("/proc/cpuinfo").read_text(encoding="utf-8") if Path("/proc/cpuinfo").exists() else ""
    model = next((line.partition(":")[2].strip() for line in about.splitlines() if "model name" in line), "unknown")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in LIBRARIES)
    return (
        f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()}; "
        f"Python {platform.python_version()}, {versions}."
    )


def told(command: list[str]) -> str:
    """What a script prints, shown as it comes; the end, if it fails."""
    lines: list[str] = []
    with subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own script
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    if process.returncode != 0:
        sys.exit(f"{command[0]} failed")
    return "".join(lines)


def main(only: list[str]) -> None:
    """Run the parts, show them as they come, and write the page if all were run."""
    load, start, page = os.getloadavg()[0], time.monotonic(), []
    for name in only or PARTS:
        text = told([str(HERE / f"{name}.py")])
        page.append(f"## {PARTS[name]}\n\n`benchmarks/{name}.py`\n\n```\n{text}```\n")
    if only:
        return
    about = f"{machine()} Load average at the start {load:.2f}; {(time.monotonic() - start) / 60:.0f} minutes."
    head = "# Benchmarks\n\nMade by `make bench` in one run. Seconds are this machine's; ratios travel better.\n\n"
    (HERE / "results.md").write_text(head + about + "\n\n" + "\n".join(page), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
