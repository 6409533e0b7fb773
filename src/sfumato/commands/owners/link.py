"""``sfumato link``: records of two owners that look like the same person's."""

from pathlib import Path
from typing import Any

from sfumato.commands.console.options import command, tell

_SHOWN = 10  # links that are listed


def add_link(commands: Any) -> None:
    """``sfumato link``: its options."""
    parser = command(
        commands,
        "link",
        "Link records of two owners' sketches that look like the same person's. The share of false links is estimated. "
        "The sketches are in one shared space. Costs no privacy. All pairs are compared: time grows as the product of "
        "the numbers of records.",
        "sfumato link hill.release lake.release --fdr 0.05 --out pairs.csv",
        _link,
    )
    parser.set_defaults(stands="the links were written")
    parser.add_argument("first", metavar="RELEASE", help="Folder of a sketch.")
    parser.add_argument("second", metavar="RELEASE", help="Folder of another owner's sketch in the same space.")
    parser.add_argument(
        "--fdr", type=float, default=0.05, metavar="SHARE", help="Share of links that may be false (default 0.05)."
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="New CSV file for the links.")
    parser.add_argument("--allow-unprotected", action="store_true", help="Accept releases made with test noise.")


def _link(options: Any) -> None:
    from sfumato.owners.links import link

    if options.out is not None and options.out.exists():
        from sfumato.errors import ParameterError

        raise ParameterError(f"{options.out} exists: name a new file")
    every = link(options.first, options.second, allow_unprotected=options.allow_unprotected)
    found = every.at(fdr=options.fdr)
    facts: dict[str, Any] = {
        "links": len(found),
        "estimated_false": found.fdr(),
        "expected_matches": found.expected_matches,
        "several": found.several,
        "pairs": found.table().to_pylist(),
    }
    lines = [every.describe(options.fdr)]
    lines += [
        f"{i:10} {j:10}   probability {p:.3f}"
        for (i, j), p in zip(found.pairs[:_SHOWN], found.probability, strict=False)
    ]
    lines += [f"... and {len(found) - _SHOWN} more."] * (len(found) > _SHOWN)
    lines.append(found.privacy)
    if options.out is not None:
        import pyarrow.csv

        with options.out.open("xb") as file:
            pyarrow.csv.write_csv(found.table(), file)
        facts["out"] = str(options.out)
        lines.append(f"Links written to {options.out}")
    tell(options, facts, "\n".join(lines))
