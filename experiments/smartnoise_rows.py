"""Rows that SmartNoise's MST makes, for ``rivals``: run by the Python of .venv-peers, which has smartnoise-synth.

Usage: .venv-peers/bin/python experiments/smartnoise_rows.py ASKED.npz TOLD.npy
MST takes columns of few values: numbers are given to it as the number of one of 8 equal parts between their public
bounds, and come back as the middle of the part. What is told: a row for each sample, the number of its class last.
"""

import sys

import numpy as np
import pandas as pd
from snsynth import Synthesizer

PARTS = 8


def main() -> None:
    """Learn from the rows, and sample."""
    asked, told = sys.argv[1:]
    given = np.load(asked)
    low, high = given["bounds"]
    width = (high - low) / PARTS
    parts = np.clip(np.floor((given["rows"] - low) / width), 0, PARTS - 1).astype(int)
    table = pd.DataFrame(np.column_stack([parts, given["labels"]]))
    table.columns = [f"c{i}" for i in table.columns]
    np.random.seed(int(given["seed"]))  # noqa: NPY002 - what SmartNoise chooses its pairs by; its noise takes no seed
    maker = Synthesizer.create("mst", epsilon=float(given["epsilon"]), delta=float(given["delta"]))
    maker.fit(table, categorical_columns=list(table.columns), preprocessor_eps=0.0)
    made = maker.sample(int(given["samples"])).to_numpy().astype(float)
    made[:, :-1] = low + (made[:, :-1] + 0.5) * width
    np.save(told, made)


if __name__ == "__main__":
    main()
