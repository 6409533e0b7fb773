"""Every page runs: its commands and its Python, from top to bottom, in a fresh folder, and prints what it shows."""

import hashlib
import itertools
import os
import stat
import sys
from pathlib import Path

import pytest

import pages
from sfumato.secret import Secret

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
ELSEWHERE = {"queries.md"}  # run by test_ask_command
RUN = sorted(p.name for p in DOCS.glob("*.md") if p.name not in ELSEWHERE and list(pages.steps(p.read_text())))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A checkout as a page sees it, with noise that is fresh in every release and the same in every test."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    tools = tmp_path / ".tools"
    tools.mkdir()
    for name, command in (("python", ""), ("sfumato", "-m sfumato.cli")):
        (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {command} "$@"\n')
        (tools / name).chmod(stat.S_IRWXU)
    keys = (hashlib.sha256(b"%d" % number).digest() for number in itertools.count())
    monkeypatch.setattr(Secret, "fresh", lambda: Secret(next(keys)))
    monkeypatch.chdir(tmp_path)
    return f"{tools}{os.pathsep}{os.environ['PATH']}"


@pytest.mark.parametrize("name", RUN)
def test_a_page_prints_what_it_shows(name, folder):
    names = {"__name__": "page"}
    for step in pages.steps((DOCS / name).read_text()):
        if not step.left_out:
            printed = pages.played(step, names, folder)
            assert pages.agrees(step.shown, printed, by_shape=step.agrees_by_shape), f"{step.code}\n{printed}"
