"""``sfumato add``: sums of releases of several owners, as one release."""

from pathlib import Path
from typing import Any

from sfumato.commands.console.options import command, tell


def add_add(commands: Any) -> None:
    """``sfumato add``: its options."""
    parser = command(
        commands,
        "add",
        "Add up releases of several owners: sums, or sketches of different columns. Covariances and histograms are of "
        "different records, sketches of different columns of the same records in a space. Costs no privacy.",
        "sfumato add north.release south.release --out whole.release",
        _add,
    )
    parser.set_defaults(stands="the sum was written")
    parser.add_argument("releases", nargs="+", metavar="RELEASE", help="Releases of the owners, two or more.")
    parser.add_argument("--out", required=True, metavar="DIR", help="New folder for the sum.")


def _add(options: Any) -> None:
    from sfumato.fileformat.plain_words import summary
    from sfumato.fileformat.writer import check_free
    from sfumato.owners.sums import add

    check_free(Path(options.out))
    made = add(options.releases)
    made.save(options.out)
    said = f"{summary(made.manifest)}\nSum written to {options.out}"
    tell(options, {"release": options.out} | dict(made.manifest), said)
