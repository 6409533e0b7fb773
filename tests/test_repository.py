"""The repository as a newcomer meets it: documents that run, and nothing of one machine in them."""

import re
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import sfumato
from support import pages

ROOT = Path(__file__).parent.parent
DOCUMENTS = [
    "README.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "CONTRIBUTING.md",
    *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")),
]


def run(code, folder=ROOT):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder).stdout  # noqa: S603


def test_the_make_targets_that_documents_name_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {t for d in DOCUMENTS for t in re.findall(r"make ([a-z]+(?:-[a-z]+)*)\b", (ROOT / d).read_text())}
    named -= {"a", "does", "the", "one"}
    assert {"demo", "test", "bench", "slow"} <= named
    assert named <= targets


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_between_documents_lead_somewhere(document):
    path = ROOT / document
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
        assert (path.parent / target).exists(), target


def test_the_names_that_documents_give_exist():
    named = {n for d in DOCUMENTS for n in re.findall(r"`sfumato\.([A-Za-z_.]+)`", (ROOT / d).read_text())}
    assert named
    for name in named:
        value = __import__("sfumato")
        for i, part in enumerate(name.split(".")):
            if not hasattr(value, part):
                value = __import__("importlib").import_module("sfumato." + ".".join(name.split(".")[: i + 1]))
            else:
                value = getattr(value, part)


def test_the_version_is_the_packages_own():
    assert sfumato.__version__ == metadata.version("sfumato")


def test_importing_the_package_loads_nothing_heavy():
    loaded = run(
        "import sys, sfumato; print(*[m for m in ('numpy', 'scipy', 'flint', 'dp_accounting') if m in sys.modules])"
    )
    assert loaded.strip() == ""


def loaded_by(code, folder):
    heavy = ("pandas", "polars", "sklearn", "pyspark", "sqlalchemy", "dp_accounting", "scipy.optimize", "scipy.stats")
    return run(f"{code}\nimport sys; print(*[m for m in {heavy} if m in sys.modules])", folder).split()


DATA = "import numpy as np, sfumato as sf; schema = sf.Schema.reals(8, 0, 1); rows = np.eye(8)\n"
RELEASE = """
terms = dict(schema=schema, mechanism=sf.Sketch(dimension=4), guarantee=sf.Guarantee(epsilon=1.0, unit="record"))
sf.release(rows, **terms).save("a.release")
"""


def test_releases_and_questions_load_only_what_they_need(tmp_path):
    """Each of these takes from a quarter of a second to more than one to import."""
    assert loaded_by(DATA + RELEASE, tmp_path) == []
    asked = loaded_by("import sfumato as sf; print(end=str(sf.load('a.release').distance(0, 1))[:0])", tmp_path)
    assert asked == []


def test_numbers_are_read_from_arrow_without_pandas(tmp_path):
    """If it is installed, Arrow imports it to turn an array into one of NumPy, and that takes long."""
    (tmp_path / "t.csv").write_text("c0,c1\n1,2\n3,4\n5,6\n")
    code = "import sfumato as sf; from sfumato.files.open_table import open_table; schema = sf.Schema.reals(2, 0, 9)\n"
    blocks = "[schema.encode(b) for b in open_table('t.csv', schema).blocks(['c0', 'c1'], 2)]"
    assert loaded_by(code + blocks, tmp_path) == []
    assert loaded_by(code + "import pyarrow; pyarrow.array([1])", tmp_path) == ["pandas"]


def test_the_demo_makes_what_it_says_with_what_everybody_has(tmp_path):
    """Without scikit-learn, which the package can do without."""
    code = "import runpy, sys; sys.modules.update(sklearn=None); runpy.run_path({!r}, run_name='__main__')"
    shown = run(code.format(str(ROOT / "examples" / "demo.py")), tmp_path)
    made = tmp_path / "demo-output"
    assert all((made / name).exists() for name in ("people.release/README.txt", "quality.html", "report.html"))
    low, high, true = (
        int(n.replace(",", "")) for n in re.search(r"95%: (\S+) to (\S+)\).*knows: (\S+)\.", shown, re.DOTALL).groups()
    )
    assert low - 100 < true < high + 100  # the interval may miss it, once in twenty runs
    synthetic, real = (
        float(score) for score in re.search(r"AUC (0\.\d+) \(trained on real rows (0\.\d+)\)", shown).groups()
    )
    assert real - 0.03 < synthetic < 0.95
    assert real > 0.88
    assert shown.count("$ sfumato ") == 6
    assert f"people.csv: {32_561:,} people of a census" in shown
    (block,) = re.findall(r"```text\n(2\. Plan.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    said, printed = (re.sub("#+", "#", text) for text in (f"...\n{block}...", shown))
    assert pages.agrees(said, printed, by_shape=True)
    assert max(map(len, shown.splitlines())) < 300


def test_the_commands_of_the_readme_are_commands():
    from sfumato.cli import parser_of  # noqa: PLC0415

    lines = re.findall(r"^\$ sfumato (.*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert len(lines) >= 6
    assert all(parser_of().parse_args(shlex.split(line, comments=True)).run for line in lines)


def test_the_example_schemas_of_the_documentation_are_schemas(tmp_path):
    from sfumato.tables.schema import Schema  # noqa: PLC0415

    page = (ROOT / "docs" / "file-format.md").read_text()
    text, many = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (sheet,) = re.findall(r"```text\n(name,.*?)```", page, re.DOTALL)
    for name, written in (("many.toml", many), ("sheet.csv", sheet), ("buildings.txt", "a\nb\n")):
        (tmp_path / name).write_text(written)
    wide = Schema.read(tmp_path / "many.toml")
    names = [f"WAP{i:03}" for i in range(1, 521)]
    assert len(wide.matched([*names, *(c.name for c in wide.columns[1:])]).columns) == 526
    assert len(many.splitlines()) < 20
    assert [c.kind for c in Schema.read(tmp_path / "sheet.csv").columns] == ["integer", "category", "real"]
    schema = Schema.from_toml(text)
    assert [c.kind for c in schema.columns] == ["real", "flag", "category", "id"]
    assert schema.norm_bound == 1.0
