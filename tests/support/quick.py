"""Which tests `make quick` runs: all but those that `tests/quick.toml` lists as slower.

A test function is slower if one of its cases takes more than LIMIT seconds of processor time. `make quick RECORD=1`
runs all tests and writes the list. `kept`, written by hand, names slower functions that run all the same, because no
other test enters some module. A test of `make slow` checks that the quick tests enter every module.
"""

import json
import os
import sys
import threading
import time
import tomllib
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
LIST = TESTS / "quick.toml"
LIMIT = 0.05
FOLDER = "SFUMATO_TEST_COSTS"  # the variable that names where the workers of a run leave what they measured
NOTES = "SFUMATO_TEST_ENTERED"  # and where they note the modules that they enter


def function(nodeid):
    """A test without its case."""
    return nodeid.partition("[")[0]


def left_out():
    """The test functions that a quick run leaves out."""
    listed = tomllib.loads(LIST.read_text(encoding="utf-8"))
    return set(listed["slower"]) - set(listed["kept"])


class Quick:
    """A plugin of pytest: leave out what is slower."""

    def pytest_collection_modifyitems(self, config, items):
        out = left_out()
        slower = [item for item in items if function(item.nodeid) in out]
        config.hook.pytest_deselected(items=slower)
        items[:] = [item for item in items if function(item.nodeid) not in out]


def spent():
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


class Costs:
    """A plugin of pytest: processor time of each test, left in a folder by every worker."""

    def __init__(self, folder):
        self.folder, self.costs = Path(folder), {}

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item):
        before = spent()
        yield
        name = function(item.nodeid)
        self.costs[name] = max(self.costs.get(name, 0.0), spent() - before)

    def pytest_sessionfinish(self):
        (self.folder / f"{os.getpid()}.json").write_text(json.dumps(self.costs), encoding="utf-8")


class Entered:
    """A plugin of pytest: the files under a folder in which a function ran, while tests ran, noted by every worker.

    Each file is noted when it is first seen, so that a worker that dies takes nothing with it.
    """

    def __init__(self, source, folder):
        self.source, self.files = str(source), set()
        self.notes = Path(folder) / f"{os.getpid()}.txt"

    def _seen(self, frame, event, _argument):
        code = frame.f_code
        if event == "call" and code.co_filename not in self.files and code.co_name != "<module>":
            self._note(code.co_filename)

    def _note(self, name):
        if name.startswith(self.source):
            self.files.add(name)
            with self.notes.open("a", encoding="utf-8") as notes:
                notes.write(f"{name}\n")

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self):
        threading.setprofile(self._seen)
        sys.setprofile(self._seen)
        yield
        sys.setprofile(None)
        threading.setprofile(None)


def entered(folder):
    """The files that workers have noted in a folder."""
    return {name for path in Path(folder).glob("*.txt") for name in path.read_text(encoding="utf-8").splitlines()}


def record(folder):
    """Write the list from what the workers of a run of all tests have left."""
    costs = {}
    for path in Path(folder).glob("*.json"):
        for name, cost in json.loads(path.read_text(encoding="utf-8")).items():
            costs[name] = max(cost, costs.get(name, 0.0))
    kept = tomllib.loads(LIST.read_text(encoding="utf-8"))["kept"] if LIST.exists() else []
    slower = sorted(name for name, cost in costs.items() if cost > LIMIT)
    head = "# Written by `make quick RECORD=1`, but for `kept`; tests/support/quick.py says what this is."
    text = f"{head}\n\nkept = {_lines(kept)}\n\nslower = {_lines(slower)}\n"
    LIST.write_text(text, encoding="utf-8")
    print(f"{len(slower)} of {len(costs)} test functions are slower than {LIMIT} s: {LIST.name}")  # noqa: T201


def _lines(names):
    return "[\n" + "".join(f'  "{name}",\n' for name in names) + "]"


if __name__ == "__main__":
    record(sys.argv[1])
