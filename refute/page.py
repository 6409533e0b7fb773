"""The table of what was found, and docs/refute.md, of which it is a part."""

import math
from collections.abc import Sequence
from pathlib import Path

from refute.losses import SLACK
from refute.search import Tally

PAGE = Path(__file__).parent.parent / "docs" / "refute.md"
_BEGIN, _END = "<!-- made by: make refute -->", "<!-- end -->"


def table(tallies: Sequence[Tally]) -> list[str]:
    """Lines of Markdown, one for each mechanism."""
    head = "| mechanism | pairs | realised over claimed | of a stage | where it was largest |"
    return [head, "|---|---:|---:|---:|---|", *map(_row, tallies)]


def _row(tally: Tally) -> str:
    whole, stage = (_share(value) for value in (tally.whole, tally.stage))
    settings = tally.settings.replace("|", "/")
    return f"| {tally.name} | {tally.pairs:,} | {whole} | {stage} | `{settings}` |"


def _share(value: float | None) -> str:
    """Six digits; a share below 1 is never shown as 1, nor one above it but for what the doubles are allowed."""
    if value is None:
        return ""
    if 1 <= value <= SLACK:
        return "1"
    return f"{math.floor(value * 1e6) / 1e6 if value < 1 else math.ceil(value * 1e6) / 1e6:.6f}"


def write(tallies: Sequence[Tally], *, seconds: float, seed: int) -> None:
    """Put the table into the page, between its two marks."""
    before, rest = PAGE.read_text(encoding="utf-8").split(_BEGIN)
    after = rest.split(_END)[1]
    pairs, refuted = sum(t.pairs for t in tallies), sum(len(t.refuted) for t in tallies)
    said = f"`make refute SECONDS={seconds:g} SEED={seed}`: {pairs:,} pairs, {refuted} refuted."
    text = "\n".join([_BEGIN, "", said, "", *table(tallies), "", _END])
    PAGE.write_text(before + text + after, encoding="utf-8")
