"""What judges say: lines of a table, the counts below it, the section of the results page, and the exit code."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "judges-results.md"
_HEAD = """# What the judges say

Written by `make judges RECORD=1`, section by section. [The page about judges](judges.md) says who they are and what
they are asked.
"""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One thing that was judged beside its broken twins.

    cells   : what the table shows of it.
    accused : whether the judge found what is promised to be untrue.
    twins   : for every broken twin, whether the judge caught it.
    """

    cells: tuple[str, ...]
    accused: bool
    twins: tuple[bool, ...]


def counts(verdicts: Sequence[Verdict]) -> str:
    """The counts in one line."""
    twins = [caught for verdict in verdicts for caught in verdict.twins]
    accused = sum(verdict.accused for verdict in verdicts)
    return f"{len(verdicts)} judged, {sum(twins)} of {len(twins)} broken twins caught, {accused} wrongly accused"


def failed(verdicts: Sequence[Verdict]) -> bool:
    """Whether a claim was found untrue, or a broken twin got by."""
    return not verdicts or any(v.accused or not v.twins or not all(v.twins) for v in verdicts)


def table(head: Sequence[str], verdicts: Sequence[Verdict]) -> list[str]:
    """The lines of a table in Markdown."""
    rows = [head, ["---"] * len(head), *(verdict.cells for verdict in verdicts)]
    return ["| " + " | ".join(row) + " |" for row in rows]


def section(page: str, title: str, body: str) -> str:
    """The page with one section replaced, or added at its end."""
    rest = page.split("\n## ")[1:]
    kept = {part.partition("\n")[0]: part.partition("\n")[2] for part in rest}
    kept[title] = f"\n{body.strip()}\n"
    return _HEAD + "".join(f"\n## {name}\n{text.rstrip()}\n" for name, text in kept.items())


def settle(title: str, about: str, head: Sequence[str], judge: Callable[[], Sequence[Verdict]]) -> None:
    """Let a judge speak; print its table and counts; exit non-zero if it found something. ``--record`` writes them."""
    verdicts = judge()
    lines = [*table(head, verdicts), "", f"{counts(verdicts)}."]
    print("\n".join([title, *lines]))
    if "--record" in sys.argv[1:]:
        before = PAGE.read_text() if PAGE.exists() else ""
        PAGE.write_text(section(before, title, "\n".join([about, "", *lines])))
    sys.exit(1 if failed(verdicts) else 0)
