"""Sampled digits as pictures, as in Figure 3 of Chanyaswad et al.: hardly any noise, and a promise that is kept.

Usage: make learning [DATA=folder of the data sets], or python experiments/sampled_digits.py [--data FOLDER]
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from learning_tasks import LABEL, Floats, Task, digits, mnist
from sfumato.guarantee import Guarantee
from sfumato.mechanisms.synthetic import Synthetic
from sfumato.pictures import figure
from sfumato.pipeline import release

PICTURE = Path(__file__).parent.parent / "docs" / "figures" / "synthetic-digits.png"
LEVELS = 8  # of grey, so that the file is small
SETTINGS = (
    ("hardly any noise, half of the columns, as in the paper", 1e5, 0.5),
    ("epsilon 1, delta 1e-6, half of the columns", 1.0, 0.5),
)


def sampled(task: Task, epsilon: float, share: float) -> Floats:
    """One sampled row of each class, in the original columns."""
    columns = task.columns.shape[1]
    recipe = Synthetic(dimension=round(share * columns), label=LABEL, kind="classes", noise="gaussian")
    promise = Guarantee(epsilon=epsilon, delta=1e-6)
    made: Any = release(
        task.table(np.arange(len(task.columns))), schema=task.schema, mechanism=recipe, guarantee=promise
    )
    drawn = made.sample(500, 1)
    labels = list(drawn.labels())
    whole = drawn.table(reconstruct=True).drop_columns([LABEL])
    return np.array([[column[labels.index(value)].as_py() for column in whole.columns] for value in task.classes])


def draw(task: Task, path: Path) -> None:
    """Real rows above, then one line of samples for each setting."""
    side = round(task.columns.shape[1] ** 0.5)
    assert task.labels is not None
    first = [int(np.flatnonzero(task.labels == value)[0]) for value in task.classes]
    lines = [("real rows", task.columns[first]), *((name, sampled(task, e, s)) for name, e, s in SETTINGS)]
    with figure(path, f"{task.name}: real rows, and one sampled row of each class", (6.5, 2.8)) as picture:
        for axes, (name, rows) in zip(picture.subplots(len(lines), 1), lines, strict=True):
            shown = np.hstack([_stretched(row).reshape(side, side) for row in rows])
            axes.imshow(np.round(shown * LEVELS), cmap="gray_r", vmin=0, vmax=LEVELS, interpolation="nearest")
            axes.set_title(name, fontsize=7, loc="left", pad=2)
            axes.set_axis_off()


def _stretched(row: Floats) -> Floats:
    """From 0 to its largest value: lengths are lost by normalisation, so only contrast is left to choose."""
    return np.clip(row, 0, None) / max(float(row.max()), 1e-300)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of the data sets; without it, scikit-learn's digits")
    parser.add_argument("--picture", type=Path, default=PICTURE)
    options = parser.parse_args()
    draw(digits() if options.data is None else mnist(options.data), options.picture)
