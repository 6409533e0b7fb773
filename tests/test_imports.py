"""Imports point one way: each module may import only those listed before it."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "sfumato"


def listed_order():
    text = (ROOT / "docs" / "architecture.md").read_text()
    block = re.search(r"```\nsrc/sfumato/\n(.*?)```", text, re.DOTALL)
    assert block, "docs/architecture.md must list the modules"
    return [line.split()[0].removesuffix(".py") for line in block.group(1).splitlines() if line.startswith("  ")]


def imported_modules(source):
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide their direction"
            if node.module == "sfumato":
                yield from (f"sfumato.{alias.name}" for alias in node.names)
            else:
                yield node.module


def wrong_imports(name, source, order):
    allowed = {entry.removesuffix("/") for entry in order[: order.index(name)]} - {"__init__"}
    allowed |= {name.removesuffix("/")} if name.endswith("/") else set()
    own = [m for m in imported_modules(source) if m == "sfumato" or m.startswith("sfumato.")]
    return [m for m in own if m.removeprefix("sfumato.").split(".")[0] not in allowed]


def test_every_module_is_listed_once_in_the_architecture():
    packages = [p.parent.name + "/" for p in SOURCE.glob("*/__init__.py")]
    assert sorted(listed_order()) == sorted([*(p.stem for p in SOURCE.glob("*.py")), *packages])


def room(path):
    """The entry of the list that a file belongs to: itself, or its folder."""
    return path.stem if path.parent == SOURCE else path.parent.name + "/"


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_up_the_list(path):
    assert wrong_imports(room(path), path.read_text(), listed_order()) == []


@pytest.mark.parametrize(
    "line", ["from sfumato import loss", "import sfumato.loss", "from sfumato.loss import Pure", "import sfumato"]
)
def test_a_wrong_import_is_seen(line):
    assert wrong_imports("guarantee", line, listed_order())


def test_the_analysts_path_imports_no_mechanism():
    """Loading and asking must work where nothing can be released."""
    reached, todo = set(), ["releases"]
    while todo:
        module = todo.pop()
        if module not in reached:
            reached.add(module)
            files = (SOURCE / module).glob("*.py") if (SOURCE / module).is_dir() else [SOURCE / f"{module}.py"]
            own = [m for f in files for m in imported_modules(f.read_text()) if m.startswith("sfumato.")]
            todo += [m.removeprefix("sfumato.").split(".")[0] for m in own]
    assert reached.isdisjoint(
        {"mechanism", "mechanisms", "pipeline", "noise", "secret", "projection", "calibration", "loss"}
    )
