"""A made-up table for the tutorial: electricity use of 3,000 households on one day, in half-hourly readings.

Writes households.csv, which the tutorial protects, and volunteers.csv: 300 other households with public data.
"""

import numpy as np
import pyarrow as pa
import pyarrow.csv

HOURS = np.arange(48) / 2
NAMES = [f"kwh_{int(hour):02d}{'30' if hour % 1 else '00'}" for hour in HOURS]


def bump(centre: float, width: float, height: float) -> np.ndarray:
    """A load that peaks at an hour of the day."""
    apart = (HOURS - centre + 12) % 24 - 12
    return height * np.exp(-((apart / width) ** 2))


HABITS = np.array(
    [
        0.15 + bump(7, 1.5, 0.9) + bump(19.5, 2, 1.2),  # out by day
        0.20 + bump(12, 4, 1.2),  # at home by day
        0.20 + bump(3, 3, 1.5) + bump(19, 1, 0.5),  # heating at night
    ]
)
CAR = bump(23, 1.5, 1.2)


def households(rows: int, seed: int) -> pa.Table:
    """Readings in kWh, whether the household charges an electric car, and its region."""
    rng = np.random.default_rng(seed)
    habit = rng.choice(3, rows, p=(0.45, 0.3, 0.25))
    car = rng.random(rows) < 0.3
    mean = HABITS[habit] + car[:, None] * CAR
    used = mean * rng.gamma(16, 1 / 16, (rows, 1)) * rng.gamma(6, 1 / 6, (rows, 48))
    region = rng.choice(("north", "south", "east"), rows, p=(0.5, 0.3, 0.2))
    return pa.table(dict(zip(NAMES, np.round(used, 2).T, strict=True)) | {"car": car, "region": region})


if __name__ == "__main__":
    for name, rows, seed in (("households.csv", 3000, 1), ("volunteers.csv", 300, 2)):
        pa.csv.write_csv(households(rows, seed), name)
        print(f"{name}: {rows:,} households, {len(NAMES)} readings each, car, region")
