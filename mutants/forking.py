"""Tests run in forks of a process that has the libraries loaded, but not ours: each starts in a moment.

A fork sees a private copy of the package before any other (``Copy``), so nothing is ever changed in the work tree. It
is a session of its own, with a limit of memory, and every test in it has a limit of time; what it leaves running is
ended.
"""

import compileall
import importlib.util
import os
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "sfumato"
MEMORY = 12 << 30
LOADED = (
    "cryptography.hazmat.primitives.ciphers",
    "dp_accounting.pld.privacy_loss_distribution",
    "flint",
    "hypothesis.strategies",
    "jsonschema_rs",
    "numpy",
    "pandas",
    "polars",
    "pyarrow.compute",
    "pyarrow.csv",
    "pyarrow.parquet",
    "pytest",
    "scipy.integrate",
    "scipy.optimize",
    "scipy.sparse",
    "scipy.special",
    "scipy.stats",
    "sqlalchemy",
    "sqlalchemy.dialects.sqlite",
    "threadpoolctl",
)


class Copy:
    """A private copy of the package; at most one file of it differs from the work tree."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(PACKAGE, folder / "sfumato", ignore=shutil.ignore_patterns("__pycache__"))
        compileall.compile_dir(folder, quiet=2)

    @contextmanager
    def changed(self, file: str, text: str) -> Iterator[None]:
        """The copy with another text in one file, inside the block."""
        path = self.folder / "sfumato" / file
        before = path.read_text(encoding="utf-8")
        compiled = Path(importlib.util.cache_from_source(str(path)))
        try:
            compiled.unlink(missing_ok=True)  # forks write none, so none can be stale
            path.write_text(text, encoding="utf-8")
            yield
        finally:
            path.write_text(before, encoding="utf-8")
            compileall.compile_file(path, quiet=2, force=True)


class Ended(NamedTuple):
    """How a fork ended: its exit code, or the signal that ended it, negative; and after how many seconds."""

    code: int
    seconds: float

    @property
    def out_of_time(self) -> bool:
        """Whether a test in it went over its limit."""
        return self.code in {-signal.SIGPROF, -signal.SIGKILL}


def load() -> None:
    """Import what tests need, in the process that will be forked."""
    for name in LOADED:
        importlib.import_module(name)


def fork(copy: Copy, output: Path, run: Callable[[], int], *, limit: float) -> Ended:
    """Run a function in a fork that imports the package from the copy, and wait for it."""
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        _alone(copy, output, run)
    code = None
    while code is None and time.monotonic() - start < limit:
        done, status = os.waitpid(child, os.WNOHANG)
        code = os.waitstatus_to_exitcode(status) if done else None
        time.sleep(0 if done else 0.01)
    _end_group(child)
    if code is None:
        os.waitpid(child, 0)
        code = -signal.SIGKILL
    return Ended(code, time.monotonic() - start)


def _end_group(leader: int) -> None:
    """End what a fork left running in its session."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return


def _alone(copy: Copy, output: Path, run: Callable[[], int]) -> None:
    """What a fork does; it never returns."""
    code = 70
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        sink = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for stream in (1, 2):
            os.dup2(sink, stream)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(ROOT)
        os.environ.update(PYTHONPATH=str(copy.folder), PYTHONDONTWRITEBYTECODE="1")
        sys.dont_write_bytecode = True
        sys.path[:0] = [str(copy.folder)]
        code = run()
    except BaseException:  # noqa: BLE001 - whatever it is, it must not go on in the parent's place
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


class Limits:
    """A plugin of pytest: a test that computes for longer than its limit ends the process, with SIGPROF."""

    def __init__(self, seconds: Callable[[str], float]) -> None:
        self.seconds = seconds

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Start the clock of a test."""
        signal.setitimer(signal.ITIMER_PROF, self.seconds(nodeid))

    def pytest_runtest_logfinish(self) -> None:
        """Stop it."""
        signal.setitimer(signal.ITIMER_PROF, 0)


def pytest(arguments: list[str], plugins: list[Any]) -> int:
    """Run pytest in this process."""
    loaded = "ignore::pytest.PytestAssertRewriteWarning"  # of plugins that were imported before it
    return int(importlib.import_module("pytest").main(["-W", loaded, "--tb=short", *arguments], plugins))
