"""Pages that run: their blocks in order, in one folder, and what they print beside what they show.

A block of ``console`` holds commands after ``$ `` and what they print; a block of ``python`` may be followed by one of
``text`` with what it prints. What is shown is compared to the letter, but for ``...``, which stands for anything, on a
line by itself for any lines. A comment before a block changes that:

<!-- numbers vary -->    numbers, and the spaces of tables, are compared by their place only
<!-- not run: reason --> the block is not run; ``test_docs`` counts these
"""

import contextlib
import io
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sfumato.cli import main

_BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>[^>]*) -->\n)?```(?P<kind>console|python)\n(?P<body>.*?)^```\n"
    r"(?:\n```text\n(?P<said>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")


@dataclass(frozen=True, slots=True)
class Step:
    """A command, or some lines of Python, with what the page says it prints."""

    kind: str
    code: str
    shown: str
    mark: str
    line: int

    @property
    def left_out(self) -> bool:
        return self.mark.startswith("not run: ")

    @property
    def by_shape(self) -> bool:
        return self.mark == "numbers vary"


def steps(page: str) -> Iterator[Step]:
    """What a page runs, in order."""
    for block in _BLOCK.finditer(page):
        line, mark = page.count("\n", 0, block.start()) + 1, block["mark"] or ""
        assert mark in ("", "numbers vary") or mark.startswith("not run: "), f"line {line}: {mark}"
        if block["kind"] == "python":
            yield Step("python", block["body"], block["said"] or "", mark, line)
        else:
            yield from (Step("console", c, shown, mark, line) for c, shown in commands(block["body"]))


def commands(body: str) -> Iterator[tuple[str, str]]:
    """Commands and what is shown after them; one goes on after a backslash, and to END if it says so."""
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        end = r".*?<<'END'.*?^END\n" if re.match(r"[^\n]*<<'END'", part) else r"(?:[^\n]*\\\n)*[^\n]*\n"
        found = re.match(end, part, re.MULTILINE | re.DOTALL)
        assert found, part
        yield found[0].rstrip("\n"), part[found.end() :].strip("\n")


def played(step: Step, names: dict[str, object], path: str) -> str:
    """What a step prints; the folder it changes to is the folder of the next one."""
    if step.kind == "python":
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            exec(compile(step.code, f"line {step.line}", "exec"), names)  # noqa: S102 - our own pages
        return told.getvalue()
    status, told = _commanded(step.code, path)
    assert status == 0 or step.shown.split("\n")[-1].startswith("sfumato: "), f"{step.code}: exit {status}, {told}"
    return told


def _commanded(command: str, path: str) -> tuple[int, str]:
    """Exit code and all that was told; our own commands run in this process, which is quicker."""
    words = shlex.split(command.replace("\\\n", " "), comments=True)
    if words[0] != "sfumato" or {"|", "&&", ";"} & set(words):
        return _in_shell(command, path)
    file = Path(words[-1]) if words[-2:-1] == [">"] else None
    out, told = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(told if file is None else out), contextlib.redirect_stderr(told):
        try:
            status = main(words[1:] if file is None else words[1:-2])
        except SystemExit as ended:  # a command line that is none
            status = int(ended.code or 0)
    if file is not None:
        file.write_text(out.getvalue())
    return status, told.getvalue()


def _in_shell(command: str, path: str) -> tuple[int, str]:
    done = subprocess.run(  # noqa: S603 - our own pages
        ["bash", "-c", f"set -e\n{command}\npwd"],  # noqa: S607
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | {"PATH": path},
        check=False,
    )
    if done.returncode:
        return done.returncode, done.stdout
    *lines, folder = done.stdout.splitlines()
    os.chdir(folder)
    return 0, "\n".join(lines)


def masked(text: str) -> str:
    """Numbers, and how many spaces there are, do not count."""
    return "\n".join(re.sub(r" +", " ", _NUMBER.sub("#", line)).strip() for line in text.split("\n"))


def agrees(shown: str, printed: str, *, by_shape: bool) -> bool:
    """Whether a page shows what is printed, as far as it claims to."""
    shown, printed = (re.sub(r" +$", "", text, flags=re.MULTILINE).rstrip("\n") for text in (shown, printed))
    if by_shape:
        shown, printed = masked(shown), masked(printed)
    lines = (
        r"(?:.*\n)*" if line.strip() == "..." else re.escape(line).replace(re.escape("..."), ".*") + r"\n"
        for line in shown.split("\n")
    )
    return re.fullmatch("".join(lines), printed + "\n") is not None
