"""The figures that the documents quote beside the benchmarks, to benchmarks/figures.md: computed, simulated, timed.

Usage: make figures [ONLY="computed audits"] [DATA=folder of the data sets]
Parts that are not run again stay as they are on the page. The development sets need the folder.
"""

import argparse
import re
import sys
from pathlib import Path

from suite import HERE, told

PAGE = HERE / "figures.md"
HEAD = """# Figures

Made by `make figures`: what the documents quote and the benchmarks do not show. Seconds are this machine's.
"""
PARTS = {
    "computed": ("Computed", ["benchmarks/computed.py"]),
    "composition": ("Composition", ["benchmarks/simulated.py", "composition"]),
    "timings": ("Timings", ["benchmarks/simulated.py", "timings"]),
    "coverage": ("Coverage", ["benchmarks/simulated.py", "coverage"]),
    "answers": ("Coverage of randomized answers", ["benchmarks/simulated.py", "answers"]),
    "audits": ("Audits", ["benchmarks/simulated.py", "audits"]),
    "nearest": ("Nearest records", ["benchmarks/nearest.py", "--learned"]),
    "owners": ("Several owners", ["benchmarks/owners.py", "scale"]),
    "across": ("Coverage across owners", ["benchmarks/owners.py", "coverage"]),
    "graph": ("Large graphs", ["benchmarks/graph.py", "--large"]),
    "digits": ("Synthetic digits", ["experiments/digits.py"]),
    "development": ("Development sets", ["experiments/development.py", "--data"]),
}


def main() -> None:
    """Run the parts, show them as they come, and write each to the page when it is done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", choices=[*PARTS, []], metavar="part")
    parser.add_argument("--data", type=Path)
    options = parser.parse_args()
    for name in options.only or PARTS:
        title, (script, *words) = PARTS[name]
        if words == ["--data"] and options.data is None:
            print(f"{title}: left as it is, for want of DATA", file=sys.stderr)
            continue
        more = [str(options.data)] if words == ["--data"] else []
        text = told([str(HERE.parent / script), *words, *more])
        _write(title, f"`{' '.join([script, *words])}`\n\n```\n{text}```\n")


def _write(title: str, section: str) -> None:
    """One section, among those that the page has."""
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    found = dict(re.findall(r"^## (.*?)\n\n(.*?```\n.*?```\n)", page, re.MULTILINE | re.DOTALL)) | {title: section}
    text = "\n".join(f"## {title}\n\n{found[title]}" for title, _ in PARTS.values() if title in found)
    PAGE.write_text(f"{HEAD}\n{text}", encoding="utf-8")


if __name__ == "__main__":
    main()
