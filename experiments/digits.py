"""Synthetic digits: a classifier that learnt from synthetic rows reads real ones. The figures of the mathematics page.

Usage: python experiments/digits.py [--splits 20]
The settings were found by looking at such scores on these same digits: they say what can be reached, not what a choice
made beforehand would give.
"""

import argparse

import numpy as np
import pyarrow as pa
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from sfumato.mechanisms.synthetic.recipe import Synthetic
from sfumato.pipeline.release import release
from sfumato.privacy.guarantee import Guarantee
from sfumato.tables.columns import Category, Real
from sfumato.tables.schema import Schema

SCHEMA = Schema([*(Real(f"p{i}", 0, 16) for i in range(64)), Category("digit", list(range(10)))], scale="raw")
PROMISE = Guarantee(epsilon=1.0, delta=1e-6)
BASE = {"dimension": 64, "label": "digit", "kind": "classes", "noise": "gaussian"}
SETTINGS = {
    "p = 64, replace": ({}, PROMISE),
    "p = 64, add-remove": ({}, Guarantee(epsilon=1.0, delta=1e-6, neighbours="add-remove")),
    "p = 32": ({"dimension": 32}, PROMISE),
    "p = 16": ({"dimension": 16}, PROMISE),
    "shrunk linearly": ({"shrink": "linear"}, PROMISE),
    "without shrinking": ({"shrink": "none"}, PROMISE),
    "in one pass": ({"centring": "public"}, PROMISE),
    "normalised once": ({"normalise": "once"}, PROMISE),
    "Laplace noise, epsilon 1": ({"noise": "laplace"}, Guarantee(epsilon=1.0)),
}


def accuracy(recipe: Synthetic, promise: Guarantee, split: int) -> float:
    """Of logistic regression on the synthetic rows of three quarters of the digits, on the real other quarter."""
    pixels, digits = load_digits(return_X_y=True)
    order = np.random.default_rng(split).permutation(len(pixels))
    train, test = order[:1347], order[1347:]
    table = pa.table({f"p{i}": column for i, column in enumerate(pixels.T)} | {"digit": digits})
    made = release(table.take(train), schema=SCHEMA, mechanism=recipe, guarantee=promise)
    learnt = LogisticRegression(max_iter=2000).fit(made.array(), made.labels())
    return float(learnt.score(made.transform(table.take(test)), digits[test]))


def main() -> None:
    """Mean and standard deviation of each setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=20)
    splits = parser.parse_args().splits
    for name, (changed, promise) in SETTINGS.items():
        scores = [accuracy(Synthetic(**(BASE | changed)), promise, split) for split in range(splits)]
        print(f"{name:26} {np.mean(scores):.3f}   standard deviation {np.std(scores, ddof=1):.3f}", flush=True)


if __name__ == "__main__":
    main()
