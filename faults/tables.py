"""A campaign as tables: for the terminal, and for the page of results."""

from collections.abc import Sequence

from faults.campaign import Campaign, Tally, headline, machine
from faults.judge import COUNTS
from faults.steps import PHASES
from sfumato.version import __version__

_HEAD = ("faults", *PHASES, "not felt", *COUNTS[:4], "untrue")


def _cells(name: str, tally: Tally) -> list[str]:
    wrong = [tally.wrong[kind] for kind in COUNTS[:5]]
    numbers = [tally.faults, *(tally.phases[p] for p in PHASES), tally.unfelt, *wrong]
    return [name, *(f"{number:,}" for number in numbers)]


def _rows(campaign: Campaign, which: str) -> list[list[str]]:
    tallies = campaign.by_kind if which == "fault" else campaign.by_job
    rows = [_cells(name, tally) for name, tally in tallies.items() if tally.faults]
    return [[which, *_HEAD], *rows, _cells("all", campaign.total)]


def _notes(campaign: Campaign) -> str:
    notes = ", ".join(f"{count:,} {name}" for name, count in sorted(campaign.notes.items()) if count)
    wrong = campaign.total.wrong
    others = ", ".join(f"{wrong[kind]} {what}" for kind, what in (("untrue", "untrue messages"), ("hung", "hung")))
    return f"also: {others}; noted: {notes or 'nothing'}"


def text(campaign: Campaign) -> str:
    """For the terminal: by kind and by job, then all in one line."""
    return "\n\n".join([*(_plain(_rows(campaign, which)) for which in ("fault", "job")), _end(campaign)])


def _end(campaign: Campaign) -> str:
    ground = campaign.ground
    lacking = [
        *(["a small disk (not allowed to mount one)"] if ground.disk is None else []),
        *(["PostgreSQL"] if "postgresql" not in campaign.databases else []),
    ]
    without = f"; without {' and '.join(lacking)}" if lacking else ""
    told = f"seed {campaign.seed}, {campaign.seconds:.0f} seconds, {' and '.join(campaign.databases)}{without}"
    return f"{_notes(campaign)}\n{told}\n{headline(campaign)}"


def _plain(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *cells[1:]]))
    return "\n".join(lines)


def page(campaign: Campaign) -> str:
    """docs/faults-results.md."""

    def table(which: str) -> str:
        head, *rows = _rows(campaign, which)
        lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    run = f"SECONDS={campaign.asked:g} SEED={campaign.seed}"
    return f"""# Faults: a recorded run

Written by `make faults {run} RECORD=1` with sfumato {__version__} on {machine()}
({" and ".join(campaign.databases)}). [Faults](faults.md) says what is injected and what is counted.

**{headline(campaign)}.**

{_notes(campaign)[0].upper()}{_notes(campaign)[1:]}.

## By fault

{table("fault")}

## By job

{table("job")}
"""
