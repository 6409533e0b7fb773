"""The data and mechanisms of Dhaliwal et al.: two blobs of unit variance, 4 apart, made by scikit-learn; epsilon is 4.

Noise "as published" is numpy's, quick and never private; ours comes from releases with testing secrets.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs

from sfumato.mechanisms.sketch import Sketch
from sfumato.pipeline.release import release
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.randomness.secret import Secret
from sfumato.tables.schema import Schema

Floats = NDArray[np.float64]
EPSILON, DELTA, APART, POINTS = 4.0, 1e-6, 4.0, 1000


def element_wise(k: int) -> float:
    """The Laplace scale c/epsilon of Theorem 3, c = 2 sqrt(k)."""
    return 2 * math.sqrt(k) / EPSILON


def row_wise(k: int) -> float:
    """The Laplace scale of Theorem 5, c = k t at the least t it allows, sqrt(2 ln(2k) / k) for changes of length 1."""
    return math.sqrt(2 * k * math.log(2 * k)) / EPSILON


PUBLISHED = {"element-wise": element_wise, "row-wise": row_wise}


@dataclass(frozen=True)
class Blobs:
    """Two blobs, and which of them each row is of."""

    rows: Floats
    side: NDArray[np.int64]

    @classmethod
    def drawn(cls, d: int, rng: np.random.Generator, points: int = POINTS) -> "Blobs":
        """Centres 4 apart in a direction drawn at random, by ``sklearn.datasets.make_blobs`` as in the paper."""
        direction = rng.normal(size=d)
        centre = APART / 2 * direction / np.linalg.norm(direction)
        state = int(rng.integers(2**31))
        rows, side = make_blobs(points, centers=np.array([-centre, centre]), cluster_std=1.0, random_state=state)
        return cls(rows, side)

    @property
    def line(self) -> Floats:
        """From the middle of one blob to that of the other."""
        return np.asarray(self.rows[self.side == 1].mean(axis=0) - self.rows[self.side == 0].mean(axis=0))

    def accuracy(self, published: Floats) -> float:
        """Of k-means with two clusters, whichever way round they are called."""
        found = KMeans(2, n_init=4, random_state=0).fit_predict(published)
        agree = float(np.mean(found == self.side))
        return max(agree, 1 - agree)


def projection(d: int, k: int, rng: np.random.Generator) -> Floats:
    """P with entries N(0, 1/k)."""
    return rng.normal(size=(d, k)) / math.sqrt(k)


def noisy(rows: Floats, laplace_scale: float, rng: np.random.Generator) -> Floats:
    """Algorithm 1 after its projection, with numpy's noise."""
    return np.asarray(rows + rng.laplace(0, laplace_scale, rows.shape))


def ours(rows: Floats, guarantee: Guarantee, secret: Secret) -> Floats:
    """A release without a projection, as the planner recommends here."""
    schema = Schema.reals(rows.shape[1], low=-8, high=8)
    mechanism = Sketch(projection="identity", noise="gaussian" if guarantee.delta else "laplace")
    return np.asarray(release(rows, schema=schema, mechanism=mechanism, guarantee=guarantee, secret=secret).array())


PURE = Guarantee(epsilon=EPSILON, change=Change.l1(1.0))  # covers one element, and a row within ||x - x'||_1 <= 1
WHOLE = Guarantee(epsilon=EPSILON, delta=DELTA, change=Change.l2(1.0))  # a row within ||x - x'||_2 <= 1
