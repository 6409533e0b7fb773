"""The command: search for some seconds, print a table, and fail if anything was refuted."""

import argparse
import sys

from refute import page
from refute.lines import lines
from refute.search import for_seconds


def main() -> int:
    """Search, print, and with ``--record`` write docs/refute.md."""
    parser = argparse.ArgumentParser(prog="refute", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="lines whose names begin with this")
    parser.add_argument("--record", action="store_true", help="write the table to docs/refute.md")
    asked = parser.parse_args()
    chosen = [line for line in lines() if line.name.startswith(asked.only)]
    tallies = for_seconds(chosen, asked.seconds, asked.seed, lambda text: print(text, flush=True))
    print("\n".join(page.table(tallies)))
    if asked.record:
        page.write(tallies, seconds=asked.seconds, seed=asked.seed)
    return int(any(tally.refuted for tally in tallies))


if __name__ == "__main__":
    sys.exit(main())
