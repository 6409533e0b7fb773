"""``sfumato clean``: what killed releases have left, and its removal."""

import sys
from typing import TYPE_CHECKING, Any

from sfumato import untrusted
from sfumato.commands.console.options import command, tell

if TYPE_CHECKING:
    from sfumato.fileformat.leftovers import Leftover

_HOLDS = {"partial": "noisy numbers", "attempts": "noisy numbers", "copy": "RAW ROWS", "stream": "no period yet"}
_USE = {
    "left": "left by a killed release",
    "held": "in use by a running release, kept",
    "unknown": "kept, as this file system cannot tell whether it is in use",
}


def add_clean(commands: Any) -> None:
    """``sfumato clean``: its options."""
    parser = command(
        commands,
        "clean",
        "List the hidden folders that killed releases left behind, and remove them after confirmation.",
        "sfumato clean releases --yes",
        _clean,
    )
    parser.add_argument(
        "folder", nargs="?", default=".", metavar="FOLDER", help="Folder of releases (default: the current folder)."
    )
    parser.set_defaults(working=None)
    parser.add_argument("--yes", action="store_true", help="Remove without asking.")


def _clean(options: Any) -> None:
    from pathlib import Path

    from sfumato.fileformat import leftovers

    found = leftovers.found(Path(options.folder))
    left = [one for one in found if one.use == "left"]
    if not options.json:
        print("\n".join(map(_line, found)) or f"No leftovers of killed releases in {options.folder}")
    agreed = bool(left) and (options.yes or (not options.json and _agrees(len(left))))
    removed = [one for one in left if agreed and leftovers.remove(one)]
    options.stands = "leftovers were removed" if removed else None
    facts = [
        {"path": str(one.path), "holds": _HOLDS[one.kind].lower(), "files": one.files, "bytes": one.bytes}
        | {"use": one.use, "removed": one in removed}
        for one in found
    ]
    if options.json or left:
        text = (
            f"Removed: {len(removed)}." if agreed else "Nothing removed. Use --yes to remove what killed releases left."
        )
        tell(options, {"found": facts}, text)


def _line(one: "Leftover") -> str:
    files = f"{one.files} file{'' if one.files == 1 else 's'}, {one.bytes:,} bytes"
    return f"{untrusted.line(one.path.name)}: {files}, {_HOLDS[one.kind]}, {_USE[one.use]}"


def _agrees(count: int) -> bool:
    """Ask before leftovers are removed, if there is somebody to ask."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    what = "this folder" if count == 1 else f"these {count} folders"
    return input(f"Remove {what}? [y/N] ").strip().lower() in ("y", "yes")
