"""Docstrings as pages: guarantees collected from the source, and docstrings as reStructuredText for the API's page.

Docstrings here are plain text for people who read code. What they use is little: blank lines between paragraphs,
``code``, labels (``Guarantee:``), and lists of names with what they mean, aligned. All else is text and stays so.
"""

import ast
import functools
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parent.parent / "src" / "sfumato"
LABEL = re.compile(r"(Formal guarantee|Guarantee|Assumes|Error|Exactness|Reference|Raises):\s+")
_MECHANISMS = ("mechanisms.", "answering.", "aggregates.")
GUARANTEE = re.compile(r"^(Formal guarantee|Guarantee): ", re.MULTILINE)
_NUMBERED = re.compile(r"(?:\d+\.|\([a-z]\)) ")
# ``name : text``, or ``name   text``; lines that go on are indented
_FIELD = re.compile(r"([\w`][\w`, *-]*?)(?:\s+:\s+|\s{3,})(\S.*)")


@dataclass(frozen=True, slots=True)
class Promise:
    """A guarantee as the source states it: where, and in which words."""

    module: str
    name: str  # empty for the module itself
    text: str


@functools.cache
def promises(source: Path = SOURCE) -> tuple[Promise, ...]:
    """Every guarantee that a docstring of the package states, in the order of the modules' names."""
    found = list[Promise]()
    for path in sorted(source.rglob("*.py")):
        module = ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
        tree = ast.parse(path.read_text())
        found += [Promise(module, name, text) for name, text in _stated(tree)]
    return tuple(found)


def _stated(tree: ast.Module) -> Iterator[tuple[str, str]]:
    whole = ast.get_docstring(tree) or ""
    if said := GUARANTEE.search(whole):
        yield "", whole[said.start() :]  # a module's argument goes on to the end
    for name, docstring in _documented(tree, ""):
        if said := GUARANTEE.search(docstring):
            yield name, _paragraph(docstring[said.start() :])


def _documented(node: ast.AST, inside: str) -> Iterator[tuple[str, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.ClassDef, ast.FunctionDef)):
            name = f"{inside}.{child.name}".lstrip(".")
            yield name, ast.get_docstring(child) or ""
            if isinstance(child, ast.ClassDef):
                yield from _documented(child, name)


def _paragraph(text: str) -> str:
    """Up to a blank line, or another label or a name at the margin."""
    lines = text.split("\n")
    ends = [i for i, line in enumerate(lines) if i and (not line.strip() or LABEL.match(line) or _FIELD.match(line))]
    return "\n".join(lines[: ends[0]] if ends else lines)


# ---- as reStructuredText --------------------------------------------------------------------------------------------


def restructured(docstring: str) -> list[str]:
    """A docstring as lines of reStructuredText, in which nothing but ``code`` is markup."""
    lines = []
    for block in re.split(r"\n\s*\n", docstring.strip("\n")):
        for part in _parts(block.split("\n")):
            lines += [*part, ""]
    return lines


def _parts(lines: list[str]) -> Iterator[list[str]]:
    """A paragraph, cut where a label, a number or a name of a list begins."""
    named = [_FIELD.fullmatch(line) is not None for line in lines]
    following = [*zip(lines[1:], named[1:], strict=True), ("", True)]
    named = [n and (goes_on or line.startswith(" ")) for n, (line, goes_on) in zip(named, following, strict=True)]
    starts = [i for i, line in enumerate(lines) if not i or named[i] or LABEL.match(line) or _NUMBERED.match(line)]
    for start, end in itertools.pairwise([*starts, len(lines)]):
        yield _part(lines[start:end], listed=named[start])


def _part(lines: list[str], *, listed: bool) -> list[str]:
    found = _FIELD.fullmatch(lines[0]) if listed else None
    if found:
        name = found[1] if "`" in found[1] else f"``{found[1]}``"
        return [name, f"   {_escaped(' '.join([found[2], *(line.strip() for line in lines[1:])]))}"]
    if all(line.startswith("    ") for line in lines):
        return ["::", "", *lines]
    text = " ".join(line.strip() for line in lines)
    label = LABEL.match(text)
    return [f"**{label[1]}:** {_escaped(text[label.end() :])}" if label else _NUMBERED.sub(r"\\\g<0>", _escaped(text))]


def _escaped(text: str) -> str:
    """Text as text: only ``code`` keeps its meaning."""
    pieces = re.split(r"(``[^`]+``)", text)
    return "".join(p if p.startswith("``") else re.sub(r"([\\*|_`])", r"\\\1", p) for p in pieces)


# ---- for Sphinx -----------------------------------------------------------------------------------------------------


def setup(app: Any) -> dict[str, bool]:
    """The directive ``guarantees``, and docstrings as they are written here."""
    from sphinx.util.docutils import SphinxDirective  # noqa: PLC0415 - tests read this file without Sphinx

    class Guarantees(SphinxDirective):
        """``.. guarantees:: mechanisms``: what the mechanisms promise; ``others``: all other modules."""

        required_arguments = 1

        def run(self) -> list[Any]:
            return self.parse_text_to_nodes("\n".join(page(self.arguments[0])), allow_section_headings=True)

    app.add_directive("guarantees", Guarantees)
    app.connect("autodoc-process-docstring", _processed)
    return {"parallel_read_safe": True}


def page(which: str) -> Iterator[str]:
    """The lines of a list of guarantees: a section for each module, its own first."""
    chosen = [p for p in promises() if p.module.startswith(_MECHANISMS) == (which == "mechanisms")]
    for module, stated in itertools.groupby(chosen, lambda p: p.module):
        title = module.removeprefix("mechanisms.").removeprefix("answering.").removeprefix("aggregates.")
        yield from (title, "-" * len(title), "", *restructured(_first_line(module)))
        for promise in stated:
            lines = restructured(promise.text)
            yield from lines if not promise.name else (f"``{promise.name}``", *(f"   {line}" for line in lines))


def _first_line(module: str) -> str:
    path = SOURCE / Path(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n")[0]


def _processed(*event: Any) -> None:
    lines = event[-1]
    lines[:] = restructured("\n".join(lines))
