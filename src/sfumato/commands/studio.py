"""``sfumato studio``: the local page."""

import contextlib
import sys
from typing import Any

from sfumato.commands.console.options import LEDGER, command, tell


def add_studio(commands: Any) -> None:
    """``sfumato studio``: its options."""
    parser = command(
        commands,
        "studio",
        "Serve a web page to describe data, plan, release and watch the budget. Only this machine can reach it.",
        "sfumato studio --data survey --ledger budget.db",
        _studio,
    )
    parser.set_defaults(working=None)
    parser.add_argument("--data", default=".", metavar="FOLDER", help="Folder of tables (default: the current folder).")
    parser.add_argument("--out", metavar="FOLDER", help="Folder for releases (default: the folder of tables).")
    parser.add_argument("--ledger", metavar="LEDGER", help=f"Ledger to charge: {LEDGER} (default none).")
    parser.add_argument("--port", type=int, default=0, metavar="PORT", help="Port on 127.0.0.1 (default: a free one).")


def _studio(options: Any) -> None:
    from sfumato.errors import MissingDependency

    try:
        from sfumato.studio.server import Server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("starlette", "uvicorn", "jinja2"):
            raise
        raise MissingDependency(
            "the studio needs starlette, uvicorn and jinja2: pip install 'sfumato[studio]'"
        ) from None
    from sfumato.studio.inputs.folder import Folder

    server = Server.of(Folder.of(options.data, options.out), options.ledger, options.port)
    asked = _in_the_foreground()
    how = "Press Enter here for another address, such as for another browser. " if asked else ""
    text = f"Open this address in a browser. It works once.\n\n  {server.address}\n\n{how}Press Ctrl-C to stop it."
    if options.ledger is not None and server.studio.ledger() is None:
        text += f"\nThere is no ledger at {options.ledger}. It will be created."
    tell(options, {"address": server.address}, text)
    sys.stdout.flush()
    if asked:
        server.answer_terminal(sys.stdin, lambda address: print(f"  {address}", flush=True))
    with contextlib.suppress(KeyboardInterrupt):  # how it is meant to end
        server.run()


def _in_the_foreground() -> bool:
    """Whether somebody can press Enter: a terminal, which stops nobody who reads from it behind its back."""
    import os
    import signal

    if sys.stdin is None or not sys.stdin.isatty():
        return False
    signal.signal(signal.SIGTTIN, signal.SIG_IGN)  # then reading ends, if this goes to the background later
    return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
