"""What the silhouette of synthetic rows does not say: rows that never saw the data, and costs on real rows."""

from collections.abc import Iterator
from functools import partial

import numpy as np
from sklearn.preprocessing import StandardScaler

import rivals
from figure import figure
from learning import PUBLISHED, REAL, Found, Line, learnt, measure, ours, prose, table, unseen
from learning_tasks import Lesson, Scores, Trial, cost, digit_groups, gfe, partition_cost, real_centres
from page import Part, Picture, Setting

NOISE, OURS = "a Gaussian that never saw the data", "ours, Gaussian noise"
DIMENSIONS = (1, 2, 3, 4, 8, 16, 32)
_PICTURE = "rongauss-silhouettes.svg"


def standardised(trial: Trial) -> Lesson:
    """The rows themselves, every column with variance 1."""
    lesson = rivals.real(trial)
    scaler = StandardScaler().fit(lesson.rows)
    return Lesson(scaler.transform(lesson.rows), None, scaler.transform(lesson.tests))


def one_group(trial: Trial) -> tuple[Scores, None]:
    """All rows in one group: what useless groups cost."""
    original = trial.task.columns[trial.tested]
    whole = partition_cost(original, np.zeros(len(original), np.int64))
    reached = whole / cost(original, real_centres(trial.task))
    return (np.nan, np.nan, reached), None


def run(setting: Setting) -> Iterator[Part]:
    """Silhouettes and costs against dimension."""
    yield prose("""The silhouette of synthetic rows asks whether these rows fall into groups among themselves, not
    whether the groups are those of the data. The fewer columns, the higher it is, whatever they hold: four groups of
    a round Gaussian have 0.53 in one column, 0.31 in two, 0.04 in sixteen. Below, such a Gaussian, which never saw
    the data, stands beside RON-Gauss and ours in as many columns. A better measure needs real rows: put each of them
    to the nearest centre, and take the cost of these groups in the original columns, over that of groups by centres
    learnt on real rows. An owner of data can compute it; it is not private.""")
    there = setting.file("gfe.parquet")
    task, often = (gfe(there.parent) if there else digit_groups()), (10, 3)
    dimensions = (1, 2, 3, 8) if setting.quick else DIMENSIONS
    lines = [
        Line(REAL, learnt(rivals.real), often, None),
        Line("real rows, standardised columns", learnt(standardised), often, None),
        Line("all rows in one group", one_group, often, None),
        *(Line(NOISE, learnt(unseen(p)), often, None) for p in dimensions),
        *(Line(PUBLISHED, learnt(rivals.published(p)), often) for p in dimensions),
        *(Line(OURS, learnt(partial(ours, dimension=p)), often) for p in dimensions),
        Line(OURS, learnt(ours), often),
    ]
    found = [measure(setting, task, line) for line in lines]
    yield table(f"silhouettes, {task.name}", task, found)
    _draw(setting, task.name, found)
    yield Picture(
        _PICTURE,
        "silhouettes fall with the number of columns for any rows; costs of groups fall too where rows saw the data",
    )
    yield prose(verdict(found))


def verdict(found: list[Found]) -> str:
    """Rows that beat the data by silhouette, and what their groups are worth."""
    real, standard, useless = found[0].mean(0), found[1].mean(0), found[2].mean(2)
    beat = [f for f in found if f.line.name == NOISE and f.mean(0) > real]
    said = ", ".join(f"{f.mean(0):.2f} (p = {f.columns}, cost of groups {f.mean(2):.2f})" for f in beat)
    three, ours = next(f for f in found if f.line.name == PUBLISHED and f.columns == 3), found[-1]
    return f"""By silhouette these rows, which never saw the data, are better than the data ({real:.2f}): {said}. One
    group for all rows costs {useless:.2f}, so these groups are worth next to nothing. RON-Gauss as published has
    {three.mean(0):.2f} in three columns (the paper's figure is 0.274), real rows have {standard:.2f} where columns
    are standardised (the paper's is 0.286; it does not say how columns were scaled): the paper's Table 3 can be had
    again, and does not tell rows that resemble the data from rows that do not. The cost of groups does:
    {three.mean(2):.2f} for these three columns, {ours.mean(2):.2f} for ours in all columns, whose silhouette is
    {ours.mean(0):.2f}. By it more columns are better, the opposite of what silhouettes say."""


def _draw(setting: Setting, name: str, found: list[Found]) -> None:
    kinds = {NOISE: "#5a6572", PUBLISHED: "#c8553d", OURS: "#1b6ca8"}
    with figure(setting.picture(_PICTURE), f"Groups in synthetic rows of {name}, epsilon 1", (9.0, 3.8)) as picture:
        for axes, place, title in zip(
            picture.subplots(1, 2), (0, 2), ("silhouette", "cost of groups, original columns"), strict=True
        ):
            for kind, colour in kinds.items():
                some = sorted((f for f in found if f.line.name == kind), key=lambda f: f.columns or 0)
                means = [f.mean(place) for f in some]
                axes.plot([f.columns for f in some], means, color=colour, marker="o", ms=3, label=kind)
            axes.axhline(found[0].mean(place), color="#000000", linestyle="--", linewidth=0.9, label="real rows")
            if place:
                axes.axhline(found[2].mean(2), color="#999999", linestyle=":", label="all rows in one group")
            axes.set(xscale="log", xlabel="columns", ylabel=title)
            axes.legend(fontsize=7, frameon=False)
