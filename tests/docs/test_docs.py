"""Every page runs: its commands and its Python, from top to bottom, in a fresh folder, and prints what it shows."""

import hashlib
import importlib.util
import itertools
import os
import re
import stat
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.compute as pc
import pyarrow.csv
import pytest
from sklearn.cluster import KMeans

import sfumato
from sfumato.cli import parser_of
from support import pages

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "sfumato"
DOCS = ROOT / "docs"
ELSEWHERE = {"results.md", "errata.md"}  # made by `sfumato reproduce`
PAGES = {p.name: p.read_text() for p in sorted(DOCS.glob("*.md"))}
README = (ROOT / "README.md").read_text()
RUN = [name for name, text in PAGES.items() if name not in ELSEWHERE and list(pages.steps(text))]
LEFT_OUT = {
    "README.md": ["make demo", ". .venv/bin/activate"],
    "architecture.md": ["class Loss(Protocol):"],
    "tour.md": ["pip install", "sfumato studio", "sfumato audit"],
    "studio.md": ["pip install", "sfumato studio"],
    "tutorial.md": ["make demo", ". .venv/bin/activate", "pip install pandas scikit-learn", "sfumato studio"],
}


def module(path):
    """A file of the documentation or of the examples."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    made = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = made  # where a dataclass looks for its own module
    spec.loader.exec_module(made)
    return made


docstrings, offline = module(DOCS / "docstrings.py"), module(DOCS / "offline.py")


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
    monkeypatch.setattr("sfumato.randomness.secret.os", SimpleNamespace(urandom=lambda _: next(keys)))
    monkeypatch.chdir(tmp_path)
    return f"{tools}{os.pathsep}{os.environ['PATH']}"


@pytest.mark.parametrize("name", RUN)
def test_a_page_prints_what_it_shows(name, folder):
    names = {"__name__": "page"}
    for step in pages.steps(PAGES[name]):
        if not step.left_out:
            if step.code.startswith("sfumato sql"):
                pytest.importorskip("sqlglot")
            printed = pages.played(step, names, folder)
            assert pages.agrees(step.shown, printed, by_shape=step.by_shape), f"{step.code}\n{printed}"


def test_the_readme_runs_as_written_in_order(folder):
    """On a clean checkout: each step may use only what those before it made; the README shows the output of some."""
    names = {"__name__": "page"}
    for step in pages.steps(README):
        if not step.left_out:
            printed, shown = pages.played(step, names, folder), step.shown
            assert not shown or pages.agrees(shown, printed, by_shape=step.by_shape), f"{step.code}\n{printed}"
    low, high = names["smokers"].interval(1 - 1e-9)
    assert low <= pc.sum(pyarrow.csv.read_csv("patients.csv")["smoker"]).as_py() <= high


def test_the_readme_is_short_and_has_one_picture():
    assert len(README.splitlines()) <= 120
    assert len(re.findall(r"!\[", README)) == 1


def test_only_these_blocks_are_not_run():
    texts = {"README.md": README, **PAGES}
    found = {name: [s.code for s in pages.steps(text) if s.left_out] for name, text in texts.items()}
    found = {name: codes for name, codes in found.items() if codes}
    assert found.keys() == LEFT_OUT.keys()
    for name, codes in found.items():
        for code, start in zip(codes, LEFT_OUT[name], strict=True):
            assert code.startswith(start)


def test_every_block_of_code_is_one_that_is_run():
    """A fence with another name, or a command without its prompt, would go unnoticed."""
    for name, text in {"README.md": README, **{name: PAGES[name] for name in RUN}}.items():
        fences = re.findall(r"^```(.*)\n", text, re.MULTILINE)[::2]
        assert set(fences) <= {"console", "python", "text", "toml", "", "{eval-rst}", "{toctree}"}, name
        blocks = re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        assert all(block.startswith("$ ") for block in blocks), name
        assert sum(f in ("console", "python") for f in fences) == len({s.line for s in pages.steps(text)}), name


def test_other_commands_that_pages_show_are_commands():
    found = 0
    for text in PAGES.values():
        for line in re.findall(r"^    \$ sfumato ((?:[^\n]*\\\n)*[^\n]*)$", text, re.MULTILINE):
            words = pages.shlex.split(line.replace("\\\n", " "), comments=True)
            assert parser_of().parse_args(words).run
            found += 1
    assert found >= 3


@pytest.mark.parametrize(
    ("shown", "printed", "by_shape", "agree"),
    [
        ("a 1\nb", "a 1\nb\n", False, True),
        ("a 1\nb", "a 2\nb\n", False, False),
        ("a 1\nb", "a 2\nb\n", True, True),
        ("a  -1.5e+03 kB", "a 27 kB", True, True),
        ("a 1\nb", "a 2\nc\n", True, False),
        ("a 1", "a 1 1", True, False),
        ("a 1\n...\nz", "a 1\nb\nc\nz", False, True),
        ("a 1\n...\nz", "a 1\nz", False, True),
        ("a 1\n...\nz", "a 2\nz", False, False),
        ("hash ... here", "hash 0af here", False, True),
        ("", "something", False, False),
        ("a.b", "axb", False, False),
    ],
)
def test_what_is_shown_is_compared(shown, printed, by_shape, agree):
    assert pages.agrees(shown, printed, by_shape=by_shape) == agree


def test_a_command_that_fails_must_be_shown_to_fail(folder):
    wrong = pages.Step("console", "sfumato show nowhere.release", "", "", 1)
    with pytest.raises(AssertionError, match="exit 2"):
        pages.played(wrong, {}, folder)
    with pytest.raises(AssertionError, match="exit 1"):
        pages.played(pages.Step("console", "false", "", "", 1), {}, folder)


def test_the_tutorial_knows_the_true_numbers():
    made = module(ROOT / "examples" / "households.py")
    table = made.households(3000, 1)
    readings = np.clip([table[name].to_numpy() for name in made.NAMES], 0, 2)
    car, region = table["car"].to_numpy(), np.array(table["region"].to_pylist())
    apart = np.sum((readings[:, 0] - readings[:, 1]) ** 2) + (car[0] != car[1]) + 2 * (region[0] != region[1])
    assert f"The true number is {apart:.1f}. Only" in PAGES["tutorial.md"]
    regions = [region == name for name in ("north", "south", "east")]
    rows = np.vstack([readings, car, *regions]).T
    sizes = sorted(np.bincount(KMeans(3, n_init=10, random_state=0).fit(rows).labels_))
    assert "clusters of {}, {} and {:,} households".format(*sizes) in " ".join(PAGES["tutorial.md"].split())
    people = module(ROOT / "examples" / "patients.py").patients(20_000, 1)
    age, smoker, ill = (people[name].to_numpy() for name in ("age", "smoker", "diabetes"))
    north = np.array(people["region"].to_pylist()) == "north"
    counts = ill.sum(), (age >= 65).sum(), (north & ill).sum()
    assert "The true numbers are {:,}, {:,} and {:,}. Only".format(*counts) in PAGES["tutorial.md"]
    assert f"The true number is {((age >= 75) & smoker).sum()}. [" in PAGES["tutorial.md"]


def test_the_mathematics_states_the_shares_of_a_table():
    shares, page = sfumato.Table(label="any").shares, " ".join(PAGES["mathematics.md"].split())
    label, rounds = shares.label_pairs / (1 - shares.one_ways), dict.fromkeys(shares.rounds)
    assert f"one-way tables {shares.one_ways:.0%}; of the rest, pairs with the label {label:.0%};" in page
    ((choices, tables),) = rounds
    words = f"{choices / (choices + tables):.0%} of each to choices and {tables / (choices + tables):.0%} to tables"
    assert f"what is left goes to four rounds alike, {words}" in page
    assert len(shares.rounds) == 4


def test_every_page_has_its_place_in_the_contents():
    listed = set()
    for block in re.findall(r"```\{toctree\}\n(.*?)```", PAGES["index.md"], re.DOTALL):
        lines = [line for line in block.splitlines() if line and not line.startswith(":")]
        listed |= {re.sub(r".*<(.*)>", r"\1", line) + ".md" for line in lines}
    assert {name for name in PAGES if name != "index.md"} <= listed
    assert all((DOCS / name).exists() for name in listed)


def test_every_public_name_is_on_its_page():
    named = set(re.findall(r"^\.\. auto\w+:: (\S+)$", PAGES["api.md"], re.MULTILINE))
    public = {f"sfumato.{name}" for name in sfumato.__all__ if name != "audit"}
    assert public | {"sfumato.audit.cases.audit"} <= named
    for name in named - public:
        inside, _, last = name.rpartition(".")
        assert hasattr(importlib.import_module(inside), last), name


def test_every_mechanism_states_its_guarantee():
    found = docstrings.promises()
    formal = {p.module for p in found if p.text.startswith("Formal guarantee: ")}
    recipes = {
        ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        for path in [*(SOURCE / "mechanisms").rglob("*.py"), *(SOURCE / "answering").glob("*.py")]
        if re.search(r"^class (?!Prepared)\w+.*\n    \"\"\"The recipe", path.read_text(), re.MULTILINE)
    }
    assert len(recipes) >= 13
    assert recipes <= formal
    shown = "\n".join(docstrings.page("mechanisms"))
    assert "PreparedSketch.run" in shown
    assert "PreparedSketch.run" not in "\n".join(docstrings.page("others"))


def test_a_guarantee_is_collected_whole_and_ends_where_it_ends(tmp_path):
    (tmp_path / "a.py").write_text(
        '"""A.\n\nFormal guarantee: all of it,\nand\n\nthe rest.\n"""\n\n\n'
        'class B:\n    def c(self):\n        """C.\n\n        Guarantee: of c,\n        two lines.\n'
        '        name : of it\n        Error: none.\n        """\n\n\ndef d():\n    """No guarantee here."""\n'
    )
    assert [(p.module, p.name, p.text) for p in docstrings.promises(tmp_path)] == [
        ("a", "", "Formal guarantee: all of it,\nand\n\nthe rest."),
        ("a", "B.c", "Guarantee: of c,\ntwo lines."),
    ]


@pytest.mark.parametrize(
    ("docstring", "lines"),
    [
        ("|x| <= a_ * ``code_`` of `b`", [r"\|x\| <= a\_ \* ``code_`` of \`b\`"]),
        ("Guarantee: yes,\nand no.\nError: none", ["**Guarantee:** yes, and no.", "", "**Error:** none"]),
        ("a   : one,\n      two\nbc  : three", ["``a``", "   one, two", "", "``bc``", "   three"]),
        ("``x``   left\n``y``   right", ["``x``", "   left", "", "``y``", "   right"]),
        ("e1 : e2 = 1 : 2 is\nno list of names", ["e1 : e2 = 1 : 2 is no list of names"]),
        ("1. first\n2. second,\n   long", [r"\1. first", "", r"\2. second, long"]),
        ("see\n\n    x = y_z\n\nthere", ["see", "", "::", "", "    x = y_z", "", "there"]),
    ],
)
def test_docstrings_become_text_and_not_markup(docstring, lines):
    assert docstrings.restructured(docstring)[:-1] == lines


def test_a_page_that_needs_the_network_is_found(tmp_path):
    pages_of = {
        "script.html": '<script async src="https://host/x.js"></script>',
        "style.html": '<link rel="stylesheet" href="//host/x.css">',
        "font.css": "@font-face { src: url('https://host/x.woff2') }",
        "link.html": '<a href="https://host/">there</a><script src="x.js"></script><link rel="icon" href="i.svg">',
    }
    for name, text in pages_of.items():
        (tmp_path / name).write_text(text)
    assert list(offline.loaded(tmp_path)) == ["font.css", "script.html", "style.html"]
