"""The quality score of sdmetrics for a synthetic table: run by the Python of .venv-judges-sdmetrics.

Usage: .venv-judges-sdmetrics/bin/python experiments/sdmetrics_score.py REAL.parquet SYNTHETIC.parquet NUMBERS
NUMBERS: the names of numbers, joined by commas; all other columns are categories. What is told: the score, the mean of
its parts for columns and for pairs of columns, each from 0 to 1, as a line of JSON.
"""

import json
import sys

import pandas as pd
from sdmetrics.reports.single_table import QualityReport


def main() -> None:
    """Score the file."""
    real, made = (pd.read_parquet(file) for file in sys.argv[1:3])
    numbers = sys.argv[3].split(",")
    kinds = {name: {"sdtype": "numerical" if name in numbers else "categorical"} for name in real}
    report = QualityReport()
    report.generate(real, made, {"columns": kinds}, verbose=False)
    parts = report.get_properties().set_index("Property")["Score"]
    told = {"score": report.get_score(), "columns": parts["Column Shapes"], "pairs": parts["Column Pair Trends"]}
    print(json.dumps({name: float(value) for name, value in told.items()}))


if __name__ == "__main__":
    main()
