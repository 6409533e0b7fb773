"""The package as others get it: wheel and sdist are built, checked, installed away from the checkout, and used.

Usage: make package [PYTHONS="python3.12 python3.13"] [PIPX=1] [RECORD=1]
The wheel is built from the sdist, so both are complete or neither. RECORD=1 writes the sizes of what is installed, with
and without each extra, to docs/install.md.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "install.md"
COMMAND = "make package"
USES = {
    "pyarrow": "reads tables, writes releases",
    "scipy": "distribution functions, optimisation, sparse matrices",
    "numpy": "arrays",
    "sqlalchemy": "ledgers, in SQLite or PostgreSQL",
    "python-flint": "ball arithmetic: proved bounds on privacy losses",
    "cryptography": "ChaCha20, which makes the noise",
    "jsonschema-rs": "checks the manifest of a release",
    "dp-accounting": "privacy-loss distributions: several answers together, tight composition, graph sketches",
    "threadpoolctl": "one BLAS thread for each of ours",
    "sfumato": "this package",
}
EXTRAS = {
    "excel": "tables in Excel workbooks, schemas as `.xlsx` sheets",
    "postgres": "ledgers in PostgreSQL",
    "sklearn": "`sfumato.sklearn`, `sfumato attack`",
    "sql": "`sfumato sql`, `Session.sql`",
    "studio": "`sfumato studio`, a local web page",
    "spark": "`--engine spark`; needs Java",
}
SIZES = """
import importlib.metadata as m, json, re
found = {}
for one in m.distributions():
    files = {f.locate() for f in one.files or []}
    found[re.sub("[-_.]+", "-", one.metadata["Name"]).lower()] = sum(f.stat().st_size for f in files if f.is_file())
print(json.dumps(found))
"""
SCHEMA = """
[[columns]]
name = "age"
kind = "integer"
low = 0
high = 120

[[columns]]
name = "smoker"
kind = "flag"
"""
STEPS = (
    "ledger init budget.db --dataset people --epsilon 2 --delta 1e-5",
    "release table people.csv --schema people.toml --epsilon 1 --delta 1e-6 --ledger budget.db --out people.release",
    "show people.release",
)


def run(*command: str | Path, folder: Path) -> str:
    """What a command prints, where no variable leads back to the checkout."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def built(folder: Path) -> Path:
    """Build the sdist, and the wheel from it, and give the wheel."""
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, folder=folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


def shipped() -> set[str]:
    """The files of the package, as a wheel has to have them."""
    source = ROOT / "src"
    return {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def faults(wheel: Path) -> list[str]:
    """What a wheel lacks, or has and should not have."""
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    return [f"{name} is missing" for name in sorted(shipped() - names)] + [
        f"{name} is nothing of ours" for name in sorted(names - shipped())
    ]


def installed(wheel: Path, folder: Path, python: str) -> Path:
    """The folder of programs of a new environment with the wheel in it."""
    run(python, "-m", "venv", folder / "environment", folder=folder)
    programs = folder / "environment" / "bin"
    run(programs / "python", "-m", "pip", "--quiet", "install", wheel, folder=folder)
    return programs


def used(sfumato: Path, folder: Path) -> str:
    """Release a small table with the installed command, and give the version that it tells."""
    rows = "\n".join(f"{18 + 7 * i % 70},{i % 3 == 0}".lower() for i in range(500))
    (folder / "people.csv").write_text(f"age,smoker\n{rows}\n")
    (folder / "people.toml").write_text(SCHEMA)
    for step in STEPS:
        run(sfumato, *step.split(), folder=folder)
    return run(sfumato, "--version", folder=folder).strip()


def sizes(programs: Path, folder: Path) -> dict[str, int]:
    """Bytes of every installed package, compiled files included; pip is none of ours."""
    found: dict[str, int] = json.loads(run(programs / "python", "-c", SIZES, folder=folder))
    return {name: size for name, size in found.items() if name not in ("pip", "setuptools")}


def table(base: dict[str, int], extras: dict[str, dict[str, int]]) -> str:
    """The sizes as the page shows them."""
    others = {name: size for name, size in base.items() if name not in USES}
    rows = [(f"`{name}`", base[name], text) for name, text in USES.items()]
    rows += [("what these need", sum(others.values()), ", ".join(f"`{name}`" for name in sorted(others)))]
    rows.sort(key=lambda row: -row[1])
    lines = ["| package | MB | what for |", "|---|---|---|", f"| all of the base | {_mb(sum(base.values()))} | |"]
    lines += [f"| {name} | {_mb(size)} | {text} |" for name, size, text in rows]
    lines += ["", "| extra | MB more | what for |", "|---|---|---|"]
    lines += [f"| `{name}` | {_mb(sum(more.values()))} | {EXTRAS[name]} |" for name, more in extras.items()]
    return "\n".join(lines)


def _mb(size: int) -> str:
    return f"{size / 1e6:.0f}" if size >= 1e6 else f"{size / 1e6:.1f}"


def with_extras(wheel: Path, programs: Path, folder: Path) -> dict[str, dict[str, int]]:
    """What each extra adds to the base, one after the other: what two of them share counts for the first."""
    before, found = sizes(programs, folder), {}
    for name in EXTRAS:
        run(programs / "python", "-m", "pip", "--quiet", "install", f"{wheel}[{name}]", folder=folder)
        after = sizes(programs, folder)
        found[name] = {key: size for key, size in after.items() if key not in before}
        before = after
    return found


def recorded(text: str) -> None:
    """Put the sizes in their place on the page."""
    section = re.compile(rf"(<!-- made by: {COMMAND} -->\n).*?(^<!-- end -->$)", re.MULTILINE | re.DOTALL)
    page, count = section.subn(lambda found: f"{found[1]}{text}\n{found[2]}", PAGE.read_text(encoding="utf-8"))
    assert count == 1, "the page has no place for the sizes"
    PAGE.write_text(page, encoding="utf-8")


def with_pipx(wheel: Path, folder: Path) -> str:
    """Install the wheel with pipx, use it, and give the version that it tells."""
    run(sys.executable, "-m", "venv", folder / "pipx", folder=folder)
    run(folder / "pipx" / "bin" / "python", "-m", "pip", "--quiet", "install", "pipx", folder=folder)
    os.environ |= {"PIPX_HOME": str(folder / "home"), "PIPX_BIN_DIR": str(folder / "programs")}
    run(folder / "pipx" / "bin" / "pipx", "install", wheel, folder=folder)
    return used(folder / "programs" / "sfumato", folder)


def main() -> None:
    """Build, check, install and use the package; say what worked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pythons", nargs="+", default=[sys.executable])
    parser.add_argument("--pipx", action="store_true")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        wheel = built(Path(made))
        if found := faults(wheel):
            raise SystemExit("\n".join(found))
        print(f"{wheel.name}: {len(shipped())} files, {_mb(wheel.stat().st_size)} MB; the sdist makes it")
        for number, python in enumerate(options.pythons):
            with tempfile.TemporaryDirectory() as away:
                programs = installed(wheel, Path(away), python)
                version = run(programs / "python", "--version", folder=Path(away)).strip()
                print(f"{version}: sfumato {used(programs / 'sfumato', Path(away))} installed, a table released")
                base = sizes(programs, Path(away))
                print(f"{version}: {_mb(sum(base.values()))} MB in {len(base)} packages")
                if options.record and number == 0:
                    recorded(table(base, with_extras(wheel, programs, Path(away))))
        if options.pipx:
            with tempfile.TemporaryDirectory() as away:
                print(f"pipx: sfumato {with_pipx(wheel, Path(away))} installed, a table released")


if __name__ == "__main__":
    main()
