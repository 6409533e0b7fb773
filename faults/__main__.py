"""``python -m faults``: faults for as long as it is told, then what they did, in tables. Exit 1: something is wrong."""

import argparse
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from faults import jobs, tables
from faults.campaign import KINDS, Campaign
from faults.disk import give_back, small_disk
from faults.jobs import JOBS
from faults.server import Server, programs
from faults.strike import Ground
from faults.twins import TWINS

_RESULTS = Path(__file__).parent.parent / "docs" / "faults-results.md"


def main() -> int:
    """Run a campaign and print it."""
    options = _options()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sfumato-faults-")))
        server = None
        if options.database != "sqlite":
            if programs() is None and options.database == "postgresql":
                print("PostgreSQL is not installed: apt-get install postgresql", file=sys.stderr)
                return 2
            server = None if programs() is None else stack.enter_context(Server.start(folder / "postgres.log"))
        disk = folder / "disk"
        mounted = small_disk(disk)
        if mounted:
            stack.callback(give_back, disk)
        ground = Ground(folder, folder / "data", disk if mounted else None, server)
        jobs.prepare(ground.data)
        databases = [name for name in ("sqlite", "postgresql") if options.database in (name, "both")]
        databases = [name for name in databases if name == "sqlite" or server is not None]
        campaign = Campaign(
            ground, databases, options.seed, options.twin, options.jobs or tuple(JOBS), options.faults or KINDS
        )
        first, most = (0, None) if options.only is None else (options.only, 1)
        for line in campaign.run(options.seconds, first, most):
            print(line, flush=True)
    print(tables.text(campaign))
    if options.record:
        _RESULTS.write_text(tables.page(campaign), encoding="utf-8")
    return 0 if campaign.clean else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long new faults are begun (default 600)")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3)), help="default: another each time")
    parser.add_argument("--database", choices=("sqlite", "postgresql", "both"), default="both")
    parser.add_argument("--job", action="append", dest="jobs", choices=tuple(JOBS), help="only these")
    parser.add_argument("--fault", action="append", dest="faults", choices=KINDS, help="only these")
    parser.add_argument(
        "--only", type=int, metavar="NUMBER", help="one fault of a seed again, with the same databases, jobs and faults"
    )
    parser.add_argument("--twin", choices=tuple(TWINS), help="a pipeline that is broken on purpose")
    parser.add_argument("--record", action="store_true", help=f"write {_RESULTS.name} in docs")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
