"""Releases of every mechanism under the testing secret, as version 0.1.0 made them: ``tests/golden/0.1.0``.

``python tests/support/golden.py FOLDER`` makes them anew. Mostly public names are used, so that moves of the code
change little here. Numbers from the lattice are compared to the bit. Numbers that pass through doubles may differ in
the last bits between processors.
"""

import json
import random
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pyarrow as pa

import sfumato as sf
from sfumato.randomness.secret import Secret

FOLDER = Path(__file__).parents[1] / "golden" / "0.1.0"
ROWS = 40

PEOPLE = sf.Schema(
    [
        sf.Real("age", 0, 100),
        sf.Real("income", 0, 10, weight=2.0),
        sf.Flag("smoker"),
        sf.Category("city", ["Bern", "Basel"]),
    ],
    scale="raw",
)
ANSWERS = sf.Schema(
    [sf.Flag("smoker"), sf.Flag("driver"), sf.Category("city", ["Bern", "Basel"], missing="Bern")], scale="raw"
)
NAMED = sf.Schema([sf.Id("name"), *PEOPLE.columns], scale="raw")
VALUE = sf.Guarantee(epsilon=4.0, unit="attribute")
VALUE_DELTA = sf.Guarantee(epsilon=4.0, delta=1e-6, unit="attribute")
RECORD = sf.Guarantee(epsilon=2.0, delta=1e-6, unit="record")
PURE_RECORD = sf.Guarantee(epsilon=2.0, unit="record")
ADDED = sf.Guarantee(epsilon=2.0, delta=1e-6, unit="record", neighbours="add-remove")
PAIR = sf.Guarantee(epsilon=2.0, delta=1e-6, unit="record", group=2)
FRESH = sf.Guarantee(epsilon=2.0, delta=1e-6, unit="record", change=sf.Change.l2(1.0), projection="fresh")
EDGE = sf.Guarantee(epsilon=2.0, delta=1e-6, unit="edge")
PURE_EDGE = sf.Guarantee(epsilon=2.0, unit="edge")


def people():
    luck = np.random.default_rng(1)
    young = luck.random(ROWS) < 0.4
    return pa.table(
        {
            "name": [f"p{i}" for i in range(ROWS)],
            "age": luck.integers(0, 100, ROWS) / 2.0 + 25 * ~young,
            "income": luck.integers(0, 100, ROWS) / 10.0,
            "smoker": luck.random(ROWS) < 0.3,
            "driver": luck.random(ROWS) < 0.6,
            "city": np.where(young, "Bern", "Basel"),
        }
    )


def edges(vertices=14):
    return np.array([(u, v) for u in range(vertices) for v in range(u) if (u % 2 == v % 2) and (u + v) % 3])


def _families():
    for family in ("identity", "gaussian", "rademacher", "achlioptas", "sparse", "orthonormal"):
        dimension = None if family == "identity" else 3
        yield f"sketch-{family}", people, PEOPLE, sf.Sketch(dimension=dimension, projection=family, seed=1), VALUE


def _records():
    yield from _families()
    gaussian = sf.Sketch(dimension=3, projection="sparse", noise="gaussian", seed=2, publish_projection=False)
    yield "sketch-noise-gaussian", people, NAMED, gaussian, VALUE_DELTA
    yield "sketch-fresh", people, PEOPLE, sf.Sketch(dimension=3, projection="gaussian", noise="gaussian"), FRESH
    sketch = sf.Sketch(dimension=1, projection="gaussian", seed=3)
    yield "sketch-chosen", people, PEOPLE, sf.ChosenSketch(choice=0.5, candidates=(1, 2, 4), sketch=sketch), PURE_RECORD
    yield "components", people, PEOPLE, sf.Components(dimension=2), VALUE
    yield "responses", people, ANSWERS, sf.RandomizedResponse(), VALUE
    yield "distances-laplace", people, PEOPLE, sf.NoisyDistances(noise="laplace"), VALUE
    yield "distances-gaussian", people, PEOPLE, sf.NoisyDistances(), RECORD


def _sums():
    yield "covariance-gaussian", people, PEOPLE, sf.Covariance(centred=False), RECORD
    yield "covariance-centred", people, PEOPLE, sf.Covariance(centred=True), PAIR
    yield "covariance-counted", people, PEOPLE, sf.Covariance(centred=False), ADDED
    yield "covariance-laplace", people, PEOPLE, sf.Covariance(noise="laplace", centred=False), PURE_RECORD
    yield "covariance-sketch", people, PEOPLE, sf.Covariance(noise="sketch", rows=12, centred=False), RECORD
    yield "synthetic-plain", people, PEOPLE, sf.Synthetic(dimension=2, noise="gaussian", seed=4), ADDED
    classes = sf.Synthetic(dimension=3, label="city", kind="classes", noise="gaussian", seed=5)
    yield "synthetic-classes", people, PEOPLE, classes, RECORD
    yield "synthetic-values", people, PEOPLE, sf.Synthetic(dimension=2, label="income", seed=6), PURE_RECORD
    yield "graph-sketch", edges, None, sf.GraphSketch(rows=12, vertices=14), EDGE
    yield "graph-noise-gaussian", edges, None, sf.EdgeNoise(vertices=14), EDGE
    yield "graph-noise-laplace", edges, None, sf.EdgeNoise(noise="laplace", vertices=14), PURE_EDGE
    yield "graph-responses", edges, None, sf.EdgeResponse(vertices=14), PURE_EDGE


CASES = {name: rest for name, *rest in (*_records(), *_sums())}
QUESTIONS = ["age >= 40", "smoker", "age >= 40 and smoker"]


def made(name):
    """A release of one of the cases, under the testing secret and a public seed that is always the same."""
    data, schema, mechanism, guarantee = CASES[name]
    luck = random.Random(name)  # noqa: S311 - nobody is protected here
    with mock.patch("secrets.randbits", luck.getrandbits):
        return sf.release(
            data(), schema=schema, mechanism=mechanism, guarantee=guarantee, secret=Secret.for_testing(23)
        )


def answers():
    """What sessions answer where the system's randomness is always the same, method by method."""
    always = SimpleNamespace(urandom=lambda count: bytes([23]) * count)
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(sys.modules[Secret.__module__], "os", always):
        ledger = sf.Ledger.create(Path(folder) / "budget.db")
        ledger.add_dataset("people", sf.Cap(sf.Guarantee(epsilon=50.0, delta=1e-3, unit="record")))
        session = sf.Session(people(), schema=PEOPLE, ledger=ledger)
        found = {"ask": [a.value for a in session.ask_all(QUESTIONS, epsilon=1.0)]}
        for method in ("weights", "median"):
            with session.open(method, epsilon=4.0, delta=1e-6, queries=QUESTIONS) as opened:
                found[method] = [float(opened.ask(q).value) for q in QUESTIONS]
        _, record = session.synthesise(QUESTIONS, epsilon=4.0)
        return found | {"mwem": [answer["value"] for answer in record["answers"]]}


def main(folder):
    folder.mkdir(parents=True)
    for name in CASES:
        made(name).save(folder / f"{name}.release")
        for words in ("README.txt", "registry.yaml"):  # what they say may be said better
            (folder / f"{name}.release" / words).unlink()
    (folder / "answers.json").write_text(json.dumps(answers(), indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
