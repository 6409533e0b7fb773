"""Arms of intervals, stretched until intervals of simulated pairs cover what they should (Beran 1987, prepivoting).

A rule gives an interval around the estimate; its arms are right in shape but not in level where the columns are few.
Under a truth (squared length x of both rows, cosine c) the factor by which an arm must be stretched is a quantile of
(estimate - truth) / arm, found by simulation (``pair_law``). The truth is unknown, and reading the factor at an
estimate of it would not do. It is read at the end itself: an end misses where the truth lies beyond it, and there the
factor that counts is the one for a truth at the end, with the length that goes with it given what is seen. This is the
test of each value with the length plugged in, turned round. What plugging in leaves is taken away by repeating:
simulate with the factors found, and make up for most of what is still needed (all would overshoot, as neighbouring
truths share factors).

Factors are tables: over truths while they are found, over what is released when they are used.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from sfumato.intervals.estimate import Ends
from sfumato.intervals.moments import SketchLaw
from sfumato.intervals.pair_law import Gram, draws
from sfumato.numerics.bisection import bisected
from sfumato.numerics.types import Bools, Floats

Rule: TypeAlias = Callable[[float, Gram, SketchLaw], Ends]

_LENGTHS = (1.8 ** np.arange(10) - 1) / 2  # squared lengths of truths, in units of what the noise adds
_TURNS = 4  # steps of the angle from a right one to none
_COSINES = np.sin(np.arange(_TURNS + 1) * (math.pi / 2 / _TURNS))
_SIZES = np.exp2(np.arange(-5.0, 10.1, 1 / 3))  # squared lengths as released, in the same units
_ANGLES = np.sin(np.linspace(-math.pi / 2, math.pi / 2, 33))
_ROUNDS = (1.0, 0.6)  # how much of what is still needed is made up for
_LONGEST, _HALVINGS = 30.0, 24  # in the search for ends that are just not missed
_UNEQUAL = 100.0  # the ratio of squared lengths, besides 1, at which orthonormal P is simulated


@dataclass(frozen=True)
class Arms:
    """What the factors depend on; ``law`` is that of rows in units of the noise's scale."""

    rule: Rule
    tail: float
    law: SketchLaw

    @property
    def ratios(self) -> tuple[float, ...]:
        """Ratios of squared lengths at which arms are simulated.

        Elsewhere the law depends, nearly, on one mean of the two alone.
        """
        return (1.0, _UNEQUAL) if self.law.geometry.family == "orthonormal" and not self.law.fixed else (1.0,)

    def of(self, pair: Gram) -> Ends:
        """The lower and the upper arm of the rule's interval, before stretching."""
        low, high = self.rule(self.tail, pair, self.law)
        return pair.inner - low, high - pair.inner


def stretched(pair: Gram, arms: Arms) -> Ends:
    """Prepivoted interval: the rule's interval of a released pair with its arms stretched."""
    table, (down, up) = _table(arms), arms.of(pair)
    at, angle, unequal = _place(pair, arms)
    low, high = (arm * _read(table, at, sign * angle, unequal) for arm, sign in ((down, 1), (up, -1)))
    return pair.inner - low, pair.inner + high


def _place(pair: Gram, arms: Arms) -> tuple[Floats, Floats, Floats]:
    """Coordinates of released pairs in a table of stretching factors.

    Coordinates of released pairs in a table: steps of the size, steps of the angle from 0, share of inequality.

    Under noise alone the law depends on the mean of the squared lengths (under Gaussian noise exactly). Over
    projections the shorter row settles how much of the error is noise, which the harmonic mean follows.
    """
    bias = arms.law.geometry.dim_out
    n, m = (np.maximum(squared / bias - 1, 0.0) for squared in (pair.squared_z, pair.squared_w))
    if arms.law.fixed:
        whole = (pair.squared_z + pair.squared_w) / 2
        size = whole / bias
    else:
        whole = np.sqrt(pair.squared_z * pair.squared_w)
        size = 1 + 2 * n * m / np.maximum(n + m, 1e-300)
    unequal = np.minimum(np.abs(np.log((n + 0.25) / (m + 0.25))) / math.log(_UNEQUAL), 1.0)
    cosine = pair.inner / np.maximum(whole, 1e-300)
    at = np.log2(np.clip(size, _SIZES[0], _SIZES[-1]) / _SIZES[0]) * 3
    return at, np.arcsin(np.clip(cosine, -1.0, 1.0)) * ((_ANGLES.size - 1) / math.pi), unequal


def _read(table: Floats, at: Floats, angle: Floats, unequal: Floats) -> Floats:
    """Stretching factors of arms at these coordinates, linearly between the nodes of their table."""
    if table.size == 1:
        return np.asarray(table[0, 0])
    middle = (table.shape[2] - 1) / 2
    found = bilinear(table[0], at, angle + middle)
    return found if len(table) == 1 else found + unequal * (bilinear(table[1], at, angle + middle) - found)


def bilinear(table: Floats, i: Floats, j: Floats) -> Floats:
    """Bilinear interpolation of tables, such as that of arms' factors, at places in steps of rows and columns."""
    a, b = (np.minimum(x.astype(np.int64), n - 2) for x, n in zip((i, j), table.shape, strict=True))
    flat, width, u, v = table.ravel(), table.shape[1], i - a, j - b
    at = a * width + b
    one, two = ((1 - v) * flat[at + off] + v * flat[at + off + 1] for off in (0, width))
    return np.asarray((1 - u) * one + u * two)


# ---- finding the factors --------------------------------------------------------------------------------------------


@lru_cache(maxsize=128)
def _table(arms: Arms) -> Floats:
    """Stretching factors of arms, tabulated.

    Factors of lower arms, by what is released. Those of upper arms are the same with the other sign.
    """
    cells = [_cell(arms, *truth) for truth in _truths(arms)]
    shape = (len(arms.ratios), _LENGTHS.size, _TURNS + 1)
    factors = luck = table = np.ones((1, 1, 1))
    for share in _ROUNDS:
        found = [_needed(arms.tail, cell, table) for cell in cells]
        down, up = (np.reshape(side, shape) for side in zip(*found, strict=True))
        needed = np.concatenate([up[:, :, :0:-1], down], axis=2)
        luck = _luck(arms, needed) if table.size == 1 else luck
        factors = factors * (needed / luck) ** share
        table = _by_release(arms, factors)
    return table


def _luck(arms: Arms, needed: Floats) -> Floats:
    """What simulation's luck alone adds to the arms' stretching factors.

    What the draws alone are off by: seen far away, where rules are exact, and shared by shorter lengths.

    Exact at every angle under noise alone; over projections at right angles and for parallel rows.
    """
    far, turns = np.log(needed[:, -1:]), np.arange(2 * _TURNS + 1)
    if not arms.law.fixed:
        known = [0, _TURNS, 2 * _TURNS]
        far = np.stack([np.interp(turns, known, row[0, known]) for row in far])[:, None]
    return np.exp(far * (_LENGTHS / (1 + _LENGTHS))[:, None])


def _truths(arms: Arms) -> list[tuple[float, float, float]]:
    """Truths at which arms are simulated: pairs of squared lengths, and cosines.

    (squared length, squared length, cosine), of the same harmonic mean whatever their ratio.
    """
    means = _LENGTHS * arms.law.geometry.dim_out
    return [
        (mean * (1 + 1 / ratio) / 2, mean * (1 + ratio) / 2, float(cosine))
        for ratio, mean, cosine in itertools.product(arms.ratios, means, _COSINES)
    ]


Cell: TypeAlias = tuple[Floats, Floats, tuple[Floats, Floats, Floats], bool]


def _cell(arms: Arms, squared_x: float, squared_y: float, cosine: float) -> Cell:
    """Errors of simulated pairs in units of their arms, under one truth.

    Simulated (estimate - truth) over lower arms, its negative over upper ones, places, whether both are alike.
    """
    one, two = (noise.kind for noise in arms.law.noises)
    pair = draws(one, arms.law.geometry, two).pair(squared_x, squared_y, cosine)
    truth = cosine * math.sqrt(squared_x * squared_y)
    down, up = arms.of(pair)
    return (pair.inner - truth) / down, (truth - pair.inner) / up, _place(pair, arms), truth == 0


def _needed(tail: float, cell: Cell, table: Floats) -> tuple[float, float]:
    """By how much lower and upper arms are still to be stretched under one simulated truth."""
    below, above, (at, angle, unequal), alike = cell
    below, above = below / _read(table, at, angle, unequal), above / _read(table, at, -angle, unequal)
    if alike:
        both = float(np.quantile(np.concatenate([below, above]), 1 - tail))
        return both, both
    return float(np.quantile(below, 1 - tail)), float(np.quantile(above, 1 - tail))


def _by_release(arms: Arms, factors: Floats) -> Floats:
    """Stretching factors of arms for lower ends, from those for truths at these ends."""
    size = _SIZES[:, None] * np.ones(_ANGLES.size) * arms.law.geometry.dim_out
    pair = Gram(size, size, size * _ANGLES)
    arm = arms.of(pair)[0]

    def found(part: Floats) -> Floats:
        def short(factor: Floats) -> Bools:
            return ~np.asarray(factor > bilinear(part, *_truth_at(arms, pair, pair.inner - factor * arm)))

        least, most = bisected(short, np.zeros_like(arm), np.full_like(arm, _LONGEST), _HALVINGS)
        return np.asarray((least + most) / 2)

    return np.stack([found(part) for part in factors])


def _truth_at(arms: Arms, pair: Gram, end: Floats) -> Ends:
    """Place of a true inner product among the simulated truths at which arms were stretched.

    Where in the table of truths stands an inner product, with the length that goes with it given what is seen.

    Under noise alone: the length seen, less half of its regression on the error (the whole would be first order right,
    but lets lengths go astray when it is large). Over projections: the likeliest one for a Wishart matrix, which solves
    l^3 - s l^2 + (2 s r t - t^2) l - s t^2 = 0 (Newton from above).
    """
    bias, size, seen = arms.law.geometry.dim_out, pair.squared_z, pair.inner
    if arms.law.fixed:
        length = size - end * (seen - end) / np.maximum(2 * size - bias, bias)
    else:
        length, slope = size + 2 * np.abs(end), 2 * seen * end - end**2
        for _ in range(12):
            value = ((length - size) * length + slope) * length - size * end**2
            length = length - value / ((3 * length - 2 * size) * length + slope)
    x = np.maximum(length - bias, np.abs(end))
    cosine = np.clip(end / np.maximum(x, 1e-300), -1.0, 1.0)
    at = np.minimum(np.log1p(2 * x / bias) / math.log(1.8), _LENGTHS.size - 1)
    return at, _TURNS + np.arcsin(cosine) * (2 * _TURNS / math.pi)
