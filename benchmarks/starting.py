"""What starting costs: the package, the command, and an analyst's first distance.

Usage: make bench
"""

import tempfile
from pathlib import Path

from timed import Taken, run

LOAD = "import sys, sfumato; sfumato.load(sys.argv[1]).distance(0, 1)"
MAKE = """
import sys, numpy as np, sfumato as sf
terms = dict(schema=sf.Schema.reals(8, low=0, high=1), mechanism=sf.Sketch(dimension=4))
sf.release(np.random.rand(100, 8), guarantee=sf.Guarantee(epsilon=1.0), **terms).save(sys.argv[1])
"""
JOBS = {
    "python alone": (["-c", "pass"], None),
    "import numpy": (["-c", "import numpy"], None),
    "import sfumato": (["-c", "import sfumato"], 0.3),
    "sfumato --help": (["-m", "sfumato.cli", "--help"], 0.5),
    "load and one distance": (["-c", LOAD], None),
}


def main() -> None:
    """The best of five starts of each."""
    with tempfile.TemporaryDirectory() as name:
        place = str(Path(name) / "r")
        run(Taken(), ["-c", MAKE, place])
        for title, (command, target) in JOBS.items():
            taken = Taken()
            for _ in range(5):
                run(taken, [*command, place] if "load" in title else command)
            print(f"  {title:24} {taken.seconds:5.2f} s{f' (target <= {target})' if target else ''}")


if __name__ == "__main__":
    print("Starting, best of five")
    main()
