"""Make docs/results.md and its pictures.

Usage: make results [DATA=folder of the data sets]
"""

import argparse
import platform
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import components
import graphs
import planning
import profiles
import queries
from sfumato.guarantee import Guarantee
from sfumato.pictures import draw_feasible, draw_plan, draw_regions
from sfumato.planner import plan
from sfumato.regions import borders, describe, rows_where_projection_wins

DOCS = Path(__file__).parent.parent / "docs"


def regions() -> Iterator[str]:
    """Where projection, randomized response and noise on distances win; Figure 1."""
    yield "## Regions (Kenthapadi et al., sections 4.2 and 4.3.3)\n"
    for columns, epsilon in ((100, 1.0), (1000, 1.0), (1000, 4.0), (10_000, 1.0)):
        promise = Guarantee(epsilon=epsilon, delta=1e-4, unit="attribute")
        found = borders(columns=columns, rows=10_000, guarantee=promise)
        yield f"{columns:,} flags, 10,000 users, epsilon {epsilon:g}, delta = 1e-4:\n\n```\n{describe(found)}\n```\n"
    yield "Users from which a sketch beats noise on distances, at epsilon 1 and delta = 1e-4:\n"
    yield "| flags | r^2 = 10 | r^2 = 100 | r^2 = 1000 |\n|---|---|---|---|"
    promise = Guarantee(epsilon=1.0, delta=1e-4, unit="attribute")
    for columns in (1000, 10_000):
        least = [
            rows_where_projection_wins(columns=columns, distance=squared**0.5, guarantee=promise)
            for squared in (10, 100, 1000)
        ]
        yield f"| {columns:,} | " + " | ".join(f"{n:,}" for n in least) + " |"
    draw_regions(DOCS / "figures" / "regions.svg", columns=1000, rows=10_000, guarantee=promise)
    draw_feasible(DOCS / "figures" / "feasible.svg", [0.5, 1.0, 2.0])
    draw_plan(plan(columns=1000, rows=10_000, guarantee=promise, distance=10.0), DOCS / "figures" / "plan.svg")
    yield "\n![regions](figures/regions.svg)\n\nFigure 1, exact and by Theorem 1:\n"
    yield "![feasible](figures/feasible.svg)\n"
    yield "A plan for 1,000 flags at distance 10:\n\n![plan](figures/plan.svg)\n"


def lines(data: Path | None, quick: bool) -> Iterator[str]:
    """The whole page."""
    yield "# Results\n"
    yield "Made by `make results`, but for what peers capture (`make peers`); every number comes from there.\n"
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("sfumato", "numpy", "scipy"))
    yield f"Python {platform.python_version()}, {versions}, {platform.machine()}.\n"
    yield from planning.section(quick)
    yield ""
    yield from regions()
    yield from profiles.section(data, DOCS / "figures" / "profiles.svg", quick)
    yield ""
    yield from graphs.section(data, DOCS / "figures" / "cuts.svg", quick)
    yield ""
    yield from components.section(data, quick)
    yield ""
    yield from queries.section(data, DOCS / "figures" / "questions.svg", quick)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of the data sets; what is missing is generated")
    parser.add_argument("--quick", action="store_true", help="a tenth of the repetitions")
    options = parser.parse_args()
    (DOCS / "figures").mkdir(exist_ok=True)
    page = []
    for line in lines(options.data, options.quick):
        print(line, flush=True)
        page.append(line)
    (DOCS / "results.md").write_text("\n".join(page) + "\n", encoding="utf-8")
