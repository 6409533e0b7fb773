"""`make quick`: which tests it leaves out, and that the others enter every module."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.quick import LIST, NOTES, TESTS, entered, left_out
from support.sources import PATHS, module_of

WITHOUT = {"engines.spark", "randomness.stream"}  # it needs Java; a protocol


def has_functions(path):
    """Whether there is anything to enter: a module of names alone has no function."""
    return any(isinstance(node, ast.FunctionDef) for node in ast.walk(ast.parse(path.read_text())))


def test_the_listed_tests_exist():
    files = {name.partition("::")[0] for name in left_out()}
    assert [name for name in sorted(files) if not (TESTS.parent / name).exists()] == []
    assert LIST.read_text().startswith("# Written by")


@pytest.mark.slow
def test_quick_tests_enter_every_module(tmp_path):
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "--quick", "-n", "auto"],
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
        cwd=TESTS.parent,
        env=os.environ | {NOTES: str(tmp_path)},
    )
    paths = [path for path in PATHS if path.name != "__init__.py" and has_functions(path)]
    missing = {module_of(path) for path in paths} - {module_of(Path(name)) for name in entered(tmp_path)}
    assert missing == WITHOUT, (run.returncode, run.stdout[-2000:], run.stderr[-2000:])
