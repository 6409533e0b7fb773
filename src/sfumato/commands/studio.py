"""``sfumato studio``: the local page."""

import contextlib
import sys
from typing import Any

from sfumato.commands.options import command, tell


def add_studio(commands: Any) -> None:
    """``sfumato studio``."""
    parser = command(
        commands,
        "studio",
        "Open a page in which to describe data, plan, release and watch the budget; only this machine can see it.",
        "sfumato studio --data survey --ledger budget.db",
        _studio,
    )
    parser.add_argument("--data", default=".", metavar="DIR", help="the folder with tables (default: this one)")
    parser.add_argument("--out", metavar="DIR", help="where releases go (default: beside the tables)")
    parser.add_argument("--ledger", help="charge this ledger: a SQLite file, or a postgresql:// URL (default: none)")
    parser.add_argument("--port", type=int, default=0, help="of 127.0.0.1 (default: a free one)")


def _studio(options: Any) -> None:
    from sfumato.errors import MissingDependency

    try:
        from sfumato.studio.server import Server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("starlette", "uvicorn", "jinja2"):
            raise
        raise MissingDependency("the studio needs three more packages: pip install 'sfumato[studio]'") from None
    from sfumato.studio.folder import Folder

    server = Server.of(Folder.of(options.data, options.out), options.ledger, options.port)
    text = f"The studio is at\n\n  {server.address}\n\nThe address can be opened once. Ctrl-C ends the studio."
    if options.ledger is not None and server.studio.ledger() is None:
        text += f"\nThere is no ledger at {options.ledger} yet; it will be made."
    tell(options, {"address": server.address}, text)
    sys.stdout.flush()
    with contextlib.suppress(KeyboardInterrupt):  # how it is meant to end
        server.run()
