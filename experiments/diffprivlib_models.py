"""What models of diffprivlib predict, for ``rivals``: run by the Python of .venv-bench, which has diffprivlib.

Usage: .venv-bench/bin/python experiments/diffprivlib_models.py clusters|classes|values ASKED.npz TOLD.npy
"""

import sys

import numpy as np
from diffprivlib import models


def main() -> None:
    """Learn from the rows, predict for the tests; for clusters, the centres."""
    kind, asked, told = sys.argv[1:]
    given = np.load(asked)
    rows, bounds = given["rows"], tuple(given["bounds"])
    kept = {"epsilon": float(given["epsilon"]), "random_state": int(given["seed"])}
    if kind == "clusters":
        found = models.KMeans(int(given["groups"]), bounds=bounds, **kept).fit(rows).cluster_centers_
    elif kind == "classes":
        found = models.GaussianNB(bounds=bounds, **kept).fit(rows, given["labels"]).predict(given["tests"])
    else:
        line = models.LinearRegression(bounds_X=bounds, bounds_y=tuple(given["label_bounds"]), **kept)
        found = line.fit(rows, given["labels"]).predict(given["tests"])
    np.save(told, found)


if __name__ == "__main__":
    main()
