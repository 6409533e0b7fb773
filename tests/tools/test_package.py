"""The package as others get it, the lock of the development environment, and the container."""

import importlib.util
import re
import shlex
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCK = (ROOT / "requirements" / "dev.lock").read_text()


def script():
    spec = importlib.util.spec_from_file_location("package_script", ROOT / "benchmarks" / "package.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


package = script()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return package.built(tmp_path_factory.mktemp("dist"))


@pytest.mark.slow
def test_the_wheel_has_all_files_and_no_others(wheel, tmp_path):
    assert package.faults(wheel) == []
    names = zipfile.ZipFile(wheel).namelist()
    assert {"sfumato/py.typed", "sfumato/studio/templates/price.html"} <= set(names)
    assert any(re.fullmatch(r"sfumato-.*\.dist-info/licenses/LICENSE", name) for name in names)
    odd = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as whole, zipfile.ZipFile(odd, "w") as changed:
        for name in set(names) - {"sfumato/py.typed"}:
            changed.writestr(name, whole.read(name))
        changed.writestr("tests/test_mine.py", "")
    assert package.faults(odd) == ["sfumato/py.typed is missing", "tests/test_mine.py is nothing of ours"]


@pytest.mark.slow
def test_the_wheel_says_what_it_is(wheel):
    (path,) = (name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".dist-info/entry_points.txt"))
    assert "sfumato = sfumato.cli:entry" in zipfile.ZipFile(wheel).read(path).decode()
    told = zipfile.ZipFile(wheel).read(path.replace("entry_points.txt", "METADATA")).decode()
    assert set(re.findall(r"^Provides-Extra: (.*)$", told, re.MULTILINE)) == set(PROJECT["optional-dependencies"])
    assert "Requires-Python: >=3.11" in told


def test_the_page_lists_every_library_and_extra_that_users_choose():
    base = {Requirement(line).name for line in PROJECT["dependencies"]}
    assert set(package.USES) == base | {"sfumato"}
    for_us = {"bench", "browser", "dev", "docs", "mutants"}
    assert set(package.EXTRAS) == set(PROJECT["optional-dependencies"]) - for_us
    (shown,) = re.findall(r"<!-- made by: make package -->\n(.*?)<!-- end -->", package.PAGE.read_text(), re.DOTALL)
    for name, text in (package.USES | package.EXTRAS).items():
        assert re.search(rf"^\| `{name}` \| [\d.]+ \| {re.escape(text)} \|$", shown, re.MULTILINE), name


def test_sizes_are_shown_with_what_is_left_to_others():
    base = dict.fromkeys(package.USES, 2_000_000) | {"cffi": 400_000, "attrs": 300_000}
    shown = package.table(base, {"sql": {"sqlglot": 3_600_000}}).splitlines()
    assert shown[2] == "| all of the base | 21 | |"
    assert "| what these need | 0.7 | `attrs`, `cffi` |" in shown
    assert shown[-1] == f"| `sql` | 4 | {package.EXTRAS['sql']} |"


# ---- the lock --------------------------------------------------------------------------------------------------------


def locked():
    """The versions of every package in the lock."""
    found = {}
    for name, version in re.findall(r"^([\w.-]+)==(\S+)", LOCK, re.MULTILINE):
        found.setdefault(canonicalize_name(name), []).append(version)
    return found


def test_the_lock_has_a_version_of_everything_that_the_tests_need():
    (extras,) = re.findall(r"^EXTRAS := ([a-z ]+?) #", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(extras.split()) == set(PROJECT["optional-dependencies"]) - {"bench"}
    lines = PROJECT["dependencies"] + [
        line for name in extras.split() for line in PROJECT["optional-dependencies"][name]
    ]
    found = locked()
    for wanted in map(Requirement, lines):
        versions = found.get(canonicalize_name(wanted.name), [])
        assert versions, f"{wanted} is not in the lock: make lock"
        assert all(wanted.specifier.contains(version) for version in versions), f"{wanted} {versions}: make lock"


def test_the_lock_has_digests_and_no_address():
    entries = re.split(r"\n(?=\S)", LOCK.strip())
    assert len(entries) > 100
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", entry) for entry in entries)
    assert "://" not in LOCK
    assert "--index" not in LOCK


# ---- the container ---------------------------------------------------------------------------------------------------


def test_the_container_copies_what_is_there_and_runs_what_is_installed():
    lines = [line for line in (ROOT / "Containerfile").read_text().splitlines() if line and not line.startswith("#")]
    steps = [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]
    assert steps[0] == ("FROM", "python:3.13-slim")
    copied = [path for word, rest in steps if word == "COPY" for path in shlex.split(rest)[:-1]]
    assert {"pyproject.toml", "README.md", "LICENSE", "src"} == set(copied)
    assert all((ROOT / path).exists() for path in copied)
    assert {f"!{path}" for path in copied} <= set((ROOT / ".containerignore").read_text().split())
    (extras,) = re.findall(r"'\.\[(.*?)\]'", dict(steps)["RUN"])
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
    assert dict(steps)["ENTRYPOINT"] == '["sfumato"]'
    assert "sfumato" in PROJECT["scripts"]
