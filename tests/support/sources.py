"""The source of the package, and what its modules import."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "sfumato"
PATHS = sorted(SOURCE.rglob("*.py"))


def module_of(path):
    name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    return name if name == "__init__" else name.removesuffix(".__init__")


MODULES = [module_of(path) for path in PATHS]


def imported_modules(source):
    """Every module of ours that a source imports, as it is listed; the bare package is named by itself."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (a.name.removeprefix("sfumato.") for a in node.names if a.name.split(".")[0] == "sfumato")
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide their direction"
            if node.module.split(".")[0] == "sfumato":
                found = [f"{node.module}.{alias.name}".removeprefix("sfumato.") for alias in node.names]
                yield from (m if m in MODULES else node.module.removeprefix("sfumato.") for m in found)
