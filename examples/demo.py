"""A synthetic table of 32,561 people at epsilon 1: described, planned, charged, released, and checked.

The data are those of the US census of 1994 (Adult; Becker and Kohavi 1996, UCI, CC BY 4.0), which the package ships.
Every command is printed before it runs. Steps 5 and 6 compare with the real table, which only its owner can do.
"""

import os
import shlex
import shutil
import sys
from importlib import resources
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from sfumato import load
from sfumato.cli import main as sfumato

OUTPUT = Path("demo-output")
PROMISE = "--epsilon 1 --delta 1e-6 --label income"
QUESTION = "sex = 'Female' and income = '>50K'"
SHOWN = ["age", "education", "marital_status", "occupation", "hours_per_week", "income"]


def step(text: str) -> None:
    """Say what comes next."""
    print(f"\n{text}\n", flush=True)


def command(line: str) -> None:
    """Show a command and run it."""
    print(f"$ sfumato {line}", flush=True)
    if sfumato(shlex.split(line)) != 0:
        sys.exit(2)


def main() -> None:
    """Describe, plan, charge, release, check, report; all in a folder of its own."""
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir()
    os.chdir(OUTPUT)
    people = written()
    print(
        f"{OUTPUT}/people.csv: {people.num_rows:,} people of a census, {people.num_columns} columns, one row a person"
    )
    step("1. Describe: what each column may hold. No row is read.")
    described(Path("people.toml"))
    step("2. Plan: how good the table will be. Still no row is read, and nothing is spent.")
    command(f"plan --purpose table --schema people.toml --rows {people.num_rows} {PROMISE}")
    step("3. Budget: all releases of these people together may cost epsilon 3.")
    command("ledger init budget.db --dataset people --epsilon 3 --delta 1e-6 --unit record")
    step("4. Release: a synthetic table, charged to the budget.")
    command(f"release table people.csv --schema people.toml {PROMISE} --ledger budget.db --out people.release")
    print(f"\nSome of its rows ({len(SHOWN)} of {people.num_columns} columns); none is a person:\n")
    rows()
    step("5. Check, as the owner: real columns beside synthetic ones, and models tested on people in neither table.")
    compared = "compare people.csv people.release --held-out held_out.csv --out quality.html"
    command(f"{compared} --show age education hours_per_week")
    step("6. Ask, as an analyst: how many women earn more than 50,000? This costs no more privacy.")
    command(f'estimate count people.release "{QUESTION}"')
    true = pc.sum(pc.and_(pc.equal(people["sex"], "Female"), pc.equal(people["income"], ">50K"))).as_py()
    print(f"The true number, which only the owner knows: {true:,}.")
    step("7. Report: one page that travels with the table.")
    command("report people.release --out report.html --ledger budget.db")
    print(f"\nOpen {OUTPUT}/report.html in a browser. For your own table, type: .venv/bin/sfumato schema YOURS.csv")


def written() -> pa.Table:
    """Write the files of the demo; returns the table to protect."""
    shipped = resources.files("sfumato").joinpath("data")
    Path("people.toml").write_bytes(shipped.joinpath("adult.toml").read_bytes())
    with shipped.joinpath("adult.parquet").open("rb") as file:
        every = pq.read_table(file)
    people, others = (
        every.filter(which).drop_columns("held_out") for which in (pc.invert(every["held_out"]), every["held_out"])
    )
    pyarrow.csv.write_csv(people, "people.csv")
    pyarrow.csv.write_csv(others, "held_out.csv")
    return people


def described(schema: Path) -> None:
    """Show the first columns of the schema, long lines cut."""
    print(f"$ head -6 {schema}")
    for line in schema.read_text().splitlines()[:6]:
        print(line if len(line) <= 100 else f"{line[:97]}...")


def rows() -> None:
    """Show some synthetic rows."""
    found = load("people.release").table().select(SHOWN).slice(0, 4).to_pylist()
    texts = [SHOWN, *([str(cell) for cell in row.values()] for row in found)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in texts:
        print("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


if __name__ == "__main__":
    main()
