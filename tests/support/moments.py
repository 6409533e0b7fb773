"""Rows, neighbours and schemas that the tests of second moments share."""

import itertools

import numpy as np

from sfumato.tables.columns import Category, Flag, Real
from sfumato.tables.schema import Schema

MIXED = Schema(
    [Real("age", 0, 120, weight=0.01), Flag("smoker"), Category("city", ["Bern", "Basel", "Biel"]), Real("x", -1, 1)],
    scale="raw",
)


HALVES = [(3,), (3, 1), (2, 2), (5, 1), (1, 4), (2, 1, 1), (1, 2, 2), (4, 1, 0)]


class Block:
    """An engine of one block in memory."""

    def __init__(self, block):
        self.block = np.asarray(block, float)

    def map(self, function):
        return iter([function(0, self.block)])

    def sum(self, function):
        return function(0, self.block)


def moves(x, y, order):
    """The norm that the noise protects against, of x x^T - y y^T for columns x and y, by the definition."""
    total = np.zeros(x.shape[1])
    for i, j in itertools.combinations_with_replacement(range(len(x)), 2):
        gap = np.abs(x[i] * x[j] - y[i] * y[j])
        total += gap if order == 1 else gap**2 * (1 if i == j else 2)
    return total if order == 1 else np.sqrt(total)


def every_pair(half, keep=lambda gap: np.ones(gap.shape[1], bool)):
    """All pairs of integer rows within the half-ranges whose differences are kept, as columns."""
    rows = np.array(list(itertools.product(*(range(-h, h + 1) for h in half))), float).T
    x, y = np.repeat(rows, rows.shape[1], axis=1), np.tile(rows, rows.shape[1])
    kept = keep(x - y)
    return x[:, kept], y[:, kept]


def random_rows(rng, count, wild):
    block = np.zeros((6, count))
    block[0], block[5] = rng.uniform(-60, 300, count), rng.uniform(-3, 3, count)
    if wild:
        block[0, ::7], block[5, ::5], block[5, ::11] = np.inf, -np.inf, np.nan
    block[1] = rng.random(count) < 0.5
    city = rng.integers(0, 4, count)
    for value in range(3):
        block[2 + value] = city == value
    return block


def neighbours(rng, count, kind):
    one, two = random_rows(rng, count, wild=True), random_rows(rng, count, wild=True)
    if kind == "attribute":
        which = rng.integers(0, 4, count)
        for i, (a, b) in enumerate([(0, 1), (1, 2), (2, 5), (5, 6)]):
            two[a:b, which != i] = one[a:b, which != i]
    elif kind in ("l1", "l2"):
        one = random_rows(rng, count, wild=False)
        steps = rng.standard_normal(one.shape) * (rng.random(one.shape) < 0.5)
        length = np.linalg.norm(steps, 1 if kind == "l1" else 2, axis=0)
        two = one + steps * 0.7 / np.maximum(length, 1e-9) / MIXED.encoding.weights[:, None]
    return one, two
