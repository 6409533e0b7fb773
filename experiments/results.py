"""Make docs/results.md and its pictures.

Usage: make results [DATA=folder of the data sets]
"""

import argparse
import platform
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import attacks
import components
import graphs
import queries
from learning_report import HEADING

DOCS = Path(__file__).parent.parent / "docs"


def lines(data: Path | None, quick: bool) -> Iterator[str]:
    """The whole page."""
    yield "# Results\n"
    yield "Made by `make results`, but for the last section (`make learning`) and what peers capture (`make peers`)."
    yield "Every number on this page comes from there.\n"
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("sfumato", "numpy", "scipy"))
    yield f"Python {platform.python_version()}, {versions}, {platform.machine()}.\n"
    yield from graphs.section(data, DOCS / "figures" / "cuts.svg", quick)
    yield ""
    yield from components.section(data, quick)
    yield ""
    yield from queries.section(data, DOCS / "figures" / "questions.svg", quick)
    yield ""
    yield from attacks.section(data, DOCS / "figures" / "attacks.svg", quick)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of the data sets; what is missing is generated")
    parser.add_argument("--quick", action="store_true", help="a tenth of the repetitions")
    options = parser.parse_args()
    (DOCS / "figures").mkdir(exist_ok=True)
    learnt = (DOCS / "results.md").read_text(encoding="utf-8").partition(f"\n{HEADING}")  # made by make learning
    page = []
    for line in lines(options.data, options.quick):
        print(line, flush=True)
        page.append(line)
    (DOCS / "results.md").write_text("\n".join(page) + "\n" + "".join(learnt[1:]), encoding="utf-8")
