"""A made-up table for the README and the tutorial: 20,000 people of a health survey, and the schema of its columns.

Writes patients.csv and patients.toml to the current folder. The seed is fixed, so every run writes the same files.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

ROWS, SEED = 20_000, 1
REGIONS = ("north", "south", "east", "west")
SCHEMA = """# The bounds come from the questionnaire, not from the data.
columns = [
  {name = "age", kind = "integer", low = 0, high = 100},
  {name = "sex", kind = "category", values = ["F", "M"]},
  {name = "region", kind = "category", values = ["north", "south", "east", "west"]},
  {name = "income", kind = "integer", low = 0, high = 150000},
  {name = "smoker", kind = "flag"},
  {name = "bmi", kind = "real", low = 10, high = 50, missing = "level"},
  {name = "visits", kind = "integer", low = 0, high = 30},
  {name = "last_visit", kind = "date", low = 2024-01-01, high = 2024-12-31},
  {name = "diabetes", kind = "flag"},
]
"""


def patients(rows: int, seed: int) -> pa.Table:
    """Nine columns that depend on one another; children have no income, and one bmi in twelve is missing."""
    rng = np.random.default_rng(seed)
    age = np.clip(rng.gamma(6, 7, rows), 0, 100).astype(int)
    sex, region = rng.choice(("F", "M"), rows), rng.choice(REGIONS, rows, p=(0.4, 0.3, 0.2, 0.1))
    earning = np.where(age < 18, 0.0, np.where(age < 67, 0.85, 0.2)) * (1 + (region == "north")) / 2
    earns = (age >= 15) & (rng.random(rows) < np.maximum(earning, 0.05 * (age >= 18)))
    income = earns * np.clip(rng.lognormal(10.4, 0.5, rows) * (1 + 0.2 * (sex == "M")), 0, 200_000)
    smoker = rng.random(rows) < np.where(age < 15, 0.0, 0.15 + 0.15 * (income == 0))
    bmi = np.clip(16 + 0.35 * np.minimum(age, 30) + rng.normal(0, 3, rows), 10, 50)
    risk = (age - 60) / 12 + (bmi - 27) / 3 + smoker - 1
    diabetes = rng.random(rows) < 1 / (1 + np.exp(-risk))
    visits = rng.poisson(1 + age / 40 + 4 * diabetes)
    days = np.where(rng.random(rows) < 0.3, rng.integers(330, 366, rows), rng.integers(0, 366, rows))
    people = {"age": age, "sex": sex, "region": region, "income": income.astype(int), "smoker": smoker}
    seen = pa.array(np.round(bmi, 1), mask=rng.random(rows) < 1 / 12)
    dates = pa.array(np.datetime64("2024-01-01") + days)
    return pa.table(people | {"bmi": seen, "visits": visits, "last_visit": dates, "diabetes": diabetes})


if __name__ == "__main__":
    pa.csv.write_csv(patients(ROWS, SEED), "patients.csv")
    Path("patients.toml").write_text(SCHEMA)
    print(f"patients.csv: {ROWS:,} people: age, sex, region, income, smoker, bmi, visits, last_visit, diabetes")
    print("patients.toml: the schema, with bounds filled in")
