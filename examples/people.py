"""A made-up table for the README: a survey of 2,000 people, and its schema with bounds filled in.

Writes people.csv and people.toml to the current folder. The seed is fixed, so every run writes the same files.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

ROWS, ANSWERS, SEED = 2000, 80, 1
ATTITUDES = 3
NAMES = [f"q{number:02d}" for number in range(1, ANSWERS + 1)]
CITIES = ("Bern", "Basel", "Geneva")

SCHEMA = """# The bounds come from the questionnaire, not from the data.
columns = [
  {name = "age", kind = "integer", low = 0, high = 120},
  {name = "smoker", kind = "flag"},
  {name = "city", kind = "category", values = ["Bern", "Basel", "Geneva"]},
  {name = "q{01..80}", kind = "integer", low = 0, high = 4},
]
"""


def people(rows: int, seed: int) -> pa.Table:
    """Age, smoker, city, and answers from 0 to 4 that follow one of three attitudes."""
    rng = np.random.default_rng(seed)
    attitudes = rng.uniform(0.5, 3.5, (ATTITUDES, ANSWERS))[rng.choice(ATTITUDES, rows)]
    answers = np.clip(np.rint(attitudes + rng.normal(0, 0.8, (rows, ANSWERS))), 0, 4).astype(int)
    person = {"age": rng.integers(18, 95, rows), "smoker": rng.random(rows) < 0.25, "city": rng.choice(CITIES, rows)}
    return pa.table(person | dict(zip(NAMES, answers.T, strict=True)))


if __name__ == "__main__":
    pa.csv.write_csv(people(ROWS, SEED), "people.csv")
    Path("people.toml").write_text(SCHEMA)
    print(f"people.csv: {ROWS:,} people: age, smoker, city, and {ANSWERS} survey answers from 0 to 4")
    print("people.toml: the schema, with bounds filled in")
