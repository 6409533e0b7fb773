"""Imports point one way: each package and module may import only those listed before it."""

import ast
import re

import pytest

from support.sources import MODULES, PATHS, ROOT, SOURCE, imported_modules, module_of

MOST_MODULES, MOST_LINES, MOST_BODY = 15, 400, 40


def listed_order():
    """The modules as the page lists them, dotted: those of a package stand indented below its name."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    block = re.search(r"```\nsrc/sfumato/\n(.*?)```", text, re.DOTALL)
    assert block, "docs/architecture.md must list the modules"
    package, order = "", []
    for line in block.group(1).splitlines():
        name = line.split()[0]
        if name.endswith("/"):
            package = name.replace("/", ".")
            order.append(package.removesuffix("."))
        else:
            order.append((package if line.startswith("    ") else "") + name.removesuffix(".py"))
    return order


def wrong_imports(name, source, order):
    allowed = set(order[: order.index(name)]) - {"__init__"}
    return [module for module in imported_modules(source) if module not in allowed]


def test_every_module_is_listed_once_in_the_architecture():
    assert sorted(listed_order()) == sorted(MODULES)


@pytest.mark.parametrize("path", PATHS, ids=module_of)
def test_imports_point_up_the_list(path):
    assert wrong_imports(module_of(path), path.read_text(), listed_order()) == []


@pytest.mark.parametrize(
    "line",
    [
        "from sfumato.privacy import losses",
        "import sfumato.privacy.losses",
        "from sfumato.privacy.losses import Pure",
        "from sfumato.tables.schema import Schema",
        "import sfumato",
    ],
)
def test_a_wrong_import_is_seen(line):
    assert wrong_imports("privacy.guarantee", line, listed_order())


@pytest.mark.parametrize("package", sorted({p.parent for p in PATHS}), ids=lambda p: p.name)
def test_a_package_has_a_sentence_and_few_modules(package):
    source = (package / "__init__.py").read_text()
    assert ast.get_docstring(ast.parse(source))
    assert len([path for path in PATHS if path.parent == package and path.name != "__init__.py"]) <= MOST_MODULES


def test_the_analysts_path_imports_no_mechanism():
    """Loading and asking must work where nothing can be released."""
    reached, todo = set(), [module for module in MODULES if module.startswith("releases.")]
    while todo:
        module = todo.pop()
        if module not in reached:
            reached.add(module)
            file = SOURCE / f"{module.replace('.', '/')}.py"
            todo += imported_modules(file.read_text()) if file.exists() else []
    packages = {module.split(".")[0] for module in reached}
    assert packages.isdisjoint({"mechanisms", "answering", "pipeline", "randomness", "ledger", "engines"})
    assert reached.isdisjoint({"projection.projection", "privacy.calibration", "privacy.losses"})


def test_modules_are_short():
    assert {module_of(p): n for p in PATHS if (n := len(p.read_text().splitlines())) > MOST_LINES} == {}


def bodies(source):
    """Every function of a source with the number of lines of its body, its docstring left out."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            said = isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant)
            body = node.body[said:] or node.body
            yield node.name, body[-1].end_lineno - body[0].lineno + 1


def test_functions_are_short():
    long = [(module_of(p), name, lines) for p in PATHS for name, lines in bodies(p.read_text()) if lines > MOST_BODY]
    assert long == []
    assert dict(bodies('def f():\n    """Said."""\n    x = 1\n    return x\n')) == {"f": 2}


def test_each_class_name_means_one_thing():
    named = [n.name for p in PATHS for n in ast.walk(ast.parse(p.read_text())) if isinstance(n, ast.ClassDef)]
    assert sorted(name for name in set(named) if named.count(name) > 1) == []
