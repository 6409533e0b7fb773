"""The picture of the README: four views of the demo's table, real beside synthetic.

Run ``make demo`` first, then ``python examples/picture.py docs/images/beside.svg``. Such a picture shows real data
without noise: of people who are not public, it is for their owner alone.
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

import sfumato as sf
from sfumato.report.figures import Figure, write
from sfumato.report.numbers import percent
from sfumato.report.svg import Bars, Plot

FOLDER = Path("demo-output")
AGES = np.arange(17, 90, 4)
SERIES = (("real", "c1"), ("synthetic", "c0"))


def main(path: str) -> None:
    """Read both tables and draw them."""
    release = sf.load(FOLDER / "people.release")
    tables = pyarrow.csv.read_csv(FOLDER / "people.csv"), release.table()
    levels = next(column.values for column in release.schema.columns if column.name == "education")
    ages = [(float(place), f"{age}") for place, age in enumerate(AGES) if place % 3 == 0]
    schools = [(place + 0.5, levels[place]) for place in (1, 5, 8, 12, 15)]
    by_age, by_school = ([codes(table, levels) for table in tables] for codes in (aged, schooled))
    rich = [np.array(table["income"].to_pylist()) == ">50K" for table in tables]
    panels = (
        bars("age", "Share of people by age", [shares(found, len(AGES)) for found in by_age], ages),
        bars("education", "Share of people by education", [shares(found, len(levels)) for found in by_school], schools),
        bars("age", "Share that earns more than 50K, by age", [*map(rates, by_age, rich, [len(AGES)] * 2)], ages),
        bars(
            "education",
            "Share that earns more than 50K, by education",
            [*map(rates, by_school, rich, [len(levels)] * 2)],
            schools,
        ),
    )
    promise = release.guarantee
    stated = f"epsilon {promise.epsilon:g}, delta {promise.delta:g}"
    title = f"{tables[0].num_rows:,} people beside as many synthetic rows: {stated}"
    notes = "In the lower row, groups of fewer than 50 people are left out."
    write(Figure(title, panels, notes=notes), path)


def aged(table: pa.Table, _: object) -> np.ndarray:
    """The group of ages of each person."""
    return np.clip(np.searchsorted(AGES, table["age"].to_numpy(), "right") - 1, 0, len(AGES) - 1)


def schooled(table: pa.Table, levels: tuple[str, ...]) -> np.ndarray:
    """The level of education of each person."""
    return np.array([levels.index(level) for level in table["education"].to_pylist()])


def shares(codes: np.ndarray, count: int) -> np.ndarray:
    """The share of people in each group."""
    return np.bincount(codes, minlength=count) / len(codes)


def rates(codes: np.ndarray, rich: np.ndarray, count: int) -> np.ndarray:
    """The share of each group that earns more; nothing for groups of fewer than 50."""
    sizes = np.bincount(codes, minlength=count)
    return np.where(sizes >= 50, np.bincount(codes, rich, count) / np.maximum(sizes, 1), 0.0)


def bars(name: str, title: str, heights: list[np.ndarray], ticks: list[tuple[float, str]]) -> Plot:
    """Bars of the real table beside those of the synthetic one."""
    count = len(heights[0])
    drawn = tuple(
        Bars(np.arange(count) + 0.5 + place, high, np.zeros(count), high, named, style, 190 / count)
        for place, high, (named, style) in zip((-0.2, 0.2), heights, SERIES, strict=True)
    )
    top = 1.1 * max(float(high.max()) for high in heights)
    ranges = {"x_range": (0.0, float(count)), "y_range": (0.0, top)}
    return Plot(name, "", title=title, bars=drawn, x_ticks=tuple(ticks), y_text=percent, size=(540, 250), **ranges)


if __name__ == "__main__":
    main(sys.argv[1])
