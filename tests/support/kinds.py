"""One small release of every kind, that tests of reports and of questions share."""

import functools
import random
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pyarrow as pa

from sfumato.mechanisms.components import Components
from sfumato.mechanisms.covariance import Covariance
from sfumato.mechanisms.distances import NoisyDistances
from sfumato.mechanisms.graph_pairs import EdgeNoise, EdgeResponse
from sfumato.mechanisms.graph_sketch import GraphSketch
from sfumato.mechanisms.histogram import Histogram
from sfumato.mechanisms.responses import RandomizedResponse
from sfumato.mechanisms.sketch import Sketch
from sfumato.mechanisms.synthetic.recipe import Synthetic
from sfumato.pipeline.release import release
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.tables.columns import Category, Flag, Real
from sfumato.tables.schema import Schema
from support.synthetic_tables import FixedTable, decoded

ROWS = 157
PEOPLE = Schema(
    [Real("age", 0, 100), Real("income", 0, 10, weight=2.0), Flag("smoker"), Category("city", ["Bern", "Basel"])],
    scale="bounds",
)
ANSWERS = Schema([Flag("smoker"), Flag("driver"), Category("city", ["Bern", "Basel", "Genf"], missing="Bern")])
FLAGS = Schema([Flag(f"f{i}") for i in range(12)])


def people(rows=ROWS, seed=1):
    rng = np.random.default_rng(seed)
    group = rng.random(rows) < 0.4
    return pa.table(
        {
            "age": np.clip(rng.normal(np.where(group, 30, 70), 8), 0, 100),
            "income": np.clip(rng.normal(np.where(group, 3, 7), 1), 0, 10),
            "smoker": rng.random(rows) < 0.3,
            "driver": rng.random(rows) < 0.6,
            "city": np.where(group, "Bern", "Basel"),
        }
    )


def edges(vertices=40):
    return np.array([(u, v) for u in range(vertices) for v in range(u) if (u % 2 == v % 2) and (u + v) % 3])


VALUE = Guarantee(epsilon=4.0, unit="attribute")
RECORD = Guarantee(epsilon=2.0, delta=1e-6, unit="record")
EDGE = Guarantee(epsilon=2.0, delta=1e-6, unit="edge")
ADDED = Guarantee(epsilon=2.0, delta=1e-6, unit="record", neighbours="add-remove")
FRESH = Guarantee(epsilon=2.0, delta=1e-6, unit="record", change=Change.l2(1.0), projection="fresh")

_MADE = {
    "sketch": (people, PEOPLE, Sketch(dimension=4, projection="gaussian", seed=1), VALUE),
    "fresh sketch": (people, PEOPLE, Sketch(dimension=3, projection="gaussian", noise="gaussian"), FRESH),
    "components": (people, PEOPLE, Components(dimension=2), VALUE),
    "responses": (people, ANSWERS, RandomizedResponse(), VALUE),
    "distances": (people, PEOPLE, NoisyDistances(noise="laplace"), VALUE),
    "covariance": (people, PEOPLE, Covariance(noise="gaussian", centred=True), RECORD),
    "counted covariance": (people, PEOPLE, Covariance(noise="gaussian"), ADDED),
    "covariance sketch": (people, PEOPLE, Covariance(noise="sketch", rows=30), RECORD),
    "histogram": (people, PEOPLE, Histogram((("age",), ("smoker", "city"))), RECORD),
    "counted histogram": (people, PEOPLE, Histogram(), ADDED),
    "synthetic": (people, PEOPLE, Synthetic(dimension=3, label="city", kind="classes", noise="gaussian"), RECORD),
    "plain synthetic": (people, PEOPLE, Synthetic(dimension=2, noise="gaussian"), ADDED),
    "table": (people, PEOPLE, FixedTable(decoded(PEOPLE, people())), RECORD),
    "graph-sketch": (edges, None, GraphSketch(rows=12, vertices=40), EDGE),
    "graph-noise": (edges, None, EdgeNoise(vertices=40), EDGE),
    "graph-responses": (edges, None, EdgeResponse(vertices=40), EDGE),
}
KINDS = tuple(_MADE)


@functools.cache
def made(kind):
    """A release of a kind, made once, and the same whichever test asks first."""
    data, schema, mechanism, guarantee = _MADE[kind]
    luck = random.Random(kind)  # noqa: S311 - nobody is protected here
    with (
        mock.patch("secrets.randbits", luck.getrandbits),
        mock.patch("sfumato.randomness.secret.os", SimpleNamespace(urandom=luck.randbytes)),
    ):
        return release(data(), schema=schema, mechanism=mechanism, guarantee=guarantee)
