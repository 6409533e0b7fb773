"""NIST's k-marginal score of a synthetic table: run by the Python of .venv-judges-sdnist, which has sdnist 2.4.

Usage: .venv-judges-sdnist/bin/python experiments/nist_kmarginal.py SYNTHETIC.csv FOLDER
FOLDER holds the national excerpt of 2019 and its descriptions. The scorer wants them in folders of its own, which are
made here for the time that it runs. What is told: the score, and the columns that were scored, as a line of JSON.
"""

import contextlib
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import sdnist.report  # noqa: F401 - first: the modules of sdnist import each other in a circle
from sdnist.load import TestDatasetName
from sdnist.metrics.kmarginal import KMarginal
from sdnist.report.dataset import Dataset
from sdnist.utils import SimpleLogger


def main() -> None:
    """Score the file."""
    made, data = Path(sys.argv[1]), Path(sys.argv[2])
    with TemporaryDirectory() as scratch, contextlib.redirect_stdout(sys.stderr):
        root = Path(scratch) / "diverse_communities_data_excerpts"
        (root / "national").mkdir(parents=True)
        for name in ("config.json", "mappings.json", "data_dictionary.json"):
            (root / name).symlink_to(data / name)
        for name in ("national2019.csv", "national2019.json"):
            (root / "national" / name).symlink_to(data / name)
        read = Dataset(made, SimpleLogger(), TestDatasetName.national2019, root, download=False)
        judge = KMarginal(read.d_target_data, read.d_synthetic_data)
        judge.compute_score()
    print(json.dumps({"score": float(judge.score), "columns": list(read.d_synthetic_data.columns)}))


if __name__ == "__main__":
    main()
