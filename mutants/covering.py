"""Which tests run which line, and how long each takes: one run of the tests under coverage.py, file by file.

A file's map is kept until the package, the file or what tests share changes, so the run can be stopped and resumed.
Lines that ran while a test was set up belong to all tests of its file, since a fixture may serve them all.
"""

import hashlib
import json
import os
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import forking

TESTS = forking.ROOT / "tests"
CARRYING = (  # the folders of tests that may catch a mutant; the others are of pages, studio, files, plans, estimates
    *("answering", "audit", "fileformat", "ledger", "mechanisms", "numerics", "pipeline", "privacy", "projection"),
    *("queries", "randomness", "releases", "tables", "tools"),
)
SLOW = {"test_cases.py", "test_mutants.py"}  # audits of everything, and the tests of these tools
SETUP = " [setup]"


def test_files() -> list[Path]:
    """The files of tests that may catch a mutant."""
    found = (path for folder in CARRYING for path in sorted((TESTS / folder).rglob("test_*.py")))
    return [*(path for path in found if path.name not in SLOW), *sorted(TESTS.glob("test_*.py"))]


def busy() -> float:
    """Seconds that this process and those it waited for have computed: what others do does not change them."""
    return sum(os.times()[:4])


def own(file: str) -> str:
    """How the names of a module's own tests begin."""
    return f"tests/{Path(file).parent}/test_{Path(file).stem}"


def _name(path: Path) -> str:
    """The file of tests in one word."""
    return "-".join(path.relative_to(TESTS).with_suffix("").parts)


def digest(paths: Iterable[Path]) -> str:
    """One hash of several files."""
    sums = (f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in sorted(paths))
    return hashlib.sha256("\n".join(sums).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Covered:
    """What one run of a file of tests showed."""

    seconds: dict[str, float] = field(default_factory=dict)
    """How long each test took, of those that passed."""
    lines: dict[str, dict[int, list[str]]] = field(default_factory=dict)
    """File of the package, line: the tests that ran it, and ``[setup]`` after those that did in their set-up."""


class Recorder:
    """A plugin of pytest that tells coverage which test is running, and keeps the seconds of those that pass."""

    def __init__(self, coverage: Any) -> None:
        self.coverage, self.seconds, self.failed, self.start = coverage, dict[str, float](), set[str](), 0.0

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Leave out what needs a server."""
        items[:] = [item for item in items if "postgres" not in item.nodeid.lower()]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A test begins."""
        self.start = busy()
        self.coverage.switch_context(nodeid + SETUP)

    def pytest_runtest_call(self, item: Any) -> None:
        """Its own body begins."""
        self.coverage.switch_context(item.nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """A part of it has ended."""
        if not report.passed:
            self.failed.add(report.nodeid)
        if report.when == "teardown" and report.nodeid not in self.failed:
            self.seconds[report.nodeid] = busy() - self.start


class Map:
    """The tests that cover each line, gathered file by file and kept in a folder."""

    def __init__(self, folder: Path, files: list[str]) -> None:
        self.folder, self.files = folder, files
        self.seconds: dict[str, float] = {}
        self._tests: dict[tuple[str, int], set[str]] = defaultdict(set)
        self._modules: dict[str, set[str]] = defaultdict(set)

    def gather(self, copy: forking.Copy, say: Any) -> None:
        """Run every file of tests whose map is not known yet."""
        package = digest(forking.PACKAGE.rglob("*.py")) + digest([TESTS / "conftest.py", *TESTS.glob("support/*.py")])
        self.folder.mkdir(parents=True, exist_ok=True)
        for path in test_files():
            kept, key = self.folder / f"{_name(path)}.json", package + digest([path])
            known = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
            if known.get("key") != key:
                start = time.monotonic()
                ended = forking.fork(copy, kept.with_suffix(".log"), lambda p=path: self._record(copy, p), limit=1800)
                if ended.code not in {0, 5}:
                    say(f"{_name(path)}: tests fail without any mutant, and are left out: {kept.with_suffix('.log')}")
                made = self.folder / f"{_name(path)}.new"
                known = {"key": key, **json.loads(made.read_text(encoding="utf-8"))}
                kept.write_text(json.dumps(known), encoding="utf-8")
                made.unlink()
                say(f"{_name(path)}: {len(known.get('seconds', ()))} tests, {time.monotonic() - start:.0f} s")
            self._add(known)

    def _record(self, copy: forking.Copy, path: Path) -> int:
        """In a fork: run one file of tests under coverage, and write what it covers."""
        from coverage import Coverage  # noqa: PLC0415 - not where mutants are tried

        inside = {str(copy.folder / "sfumato" / name): name for name in self.files}
        coverage = Coverage(data_file=None, config_file=False, include=list(inside))
        recorder = Recorder(coverage)
        coverage.start()
        code = forking.pytest([str(path)], [recorder])
        coverage.stop()
        data, lines = coverage.get_data(), dict[str, dict[int, list[str]]]()
        for long, name in inside.items():
            lines[name] = {line: [t for t in tests if t] for line, tests in data.contexts_by_lineno(long).items()}
        text = json.dumps({"seconds": recorder.seconds, "lines": lines})
        (self.folder / f"{_name(path)}.new").write_text(text, encoding="utf-8")
        return code

    def _add(self, known: dict[str, Any]) -> None:
        seconds: dict[str, float] = known.get("seconds", {})
        self.seconds |= seconds
        for name, lines in known.get("lines", {}).items():
            for line, tests in lines.items():
                ran = {test for test in tests if test in seconds}
                if any(test.endswith(SETUP) for test in tests):
                    ran |= set(seconds)
                self._tests[name, int(line)] |= ran
                self._modules[name] |= ran

    def of(self, file: str, first: int, last: int, *, static: bool) -> list[str]:
        """The tests that run any of these lines; of the whole file, where they run when it is imported.

        Those of the module's own file of tests come first, and quick ones before slow ones. None, if none runs them.
        """
        ran = [self._tests[file, line] for line in range(first, last + 1) if (file, line) in self._tests]
        if not ran:
            return []
        tests = set[str]().union(*ran)
        if static or not tests:
            tests = tests | self._modules[file]
        tests = tests | {test for test in self.seconds if test.startswith(own(file))}
        return sorted(tests, key=lambda test: (not test.startswith(own(file)), self.seconds[test], test))
