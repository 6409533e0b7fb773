"""`make quick`: which tests it leaves out, and that the others enter every module."""

import subprocess
import sys

import pytest

from support.quick import LIST, TESTS, left_out
from support.sources import PATHS, SOURCE, module_of

WITHOUT = {"engines.spark", "numerics.types", "randomness.stream", "version"}  # it needs Java; no functions
CODE = """
import sys
import pytest
from support.quick import Entered
from support.sources import SOURCE
entered = Entered(SOURCE)
code = pytest.main(["--quick", "-q", "-p", "no:xdist"], plugins=[entered])
print(*entered.files, sep="\\n")
sys.exit(code)
"""


def test_the_listed_tests_exist():
    files = {name.partition("::")[0] for name in left_out()}
    assert [name for name in sorted(files) if not (TESTS.parent / name).exists()] == []
    assert LIST.read_text().startswith("# Written by")


@pytest.mark.slow
def test_quick_tests_enter_every_module():
    run = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-c", CODE],
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
        cwd=TESTS.parent,
        env={"PYTHONPATH": "src:tests"},
    )
    entered = set(run.stdout.splitlines())
    missing = {module_of(path) for path in PATHS if str(path) not in entered and path.name != "__init__.py"}
    assert missing == WITHOUT, run.stdout[-500:]
    assert SOURCE.exists()
