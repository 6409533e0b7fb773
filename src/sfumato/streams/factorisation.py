"""Factorisations of running sums: what is measured in each period, how running sums are decoded, and what both cost.

Periods 1 .. T have exact sums X_1 .. X_T. What is wanted after each period t is S_t = X_1 + .. + X_t, which is S = A X
with A the lower triangle of ones. What is measured is M = C X + z, with C lower triangular in *integers*, so that it is
exact before the noise; S is decoded as B M, with B C = A: that is post-processing, unbiased, and errs by B z.

A record of period i moves X_i by v, so M by column i of C times v. The whole stream therefore moves by at most |v|
times the largest column norm, the root of ``squared_norm``; noise of standard deviation sigma on every measurement
gives S_t the variance sigma^2 times ``variance(t)``, the squared length of row t of B. Only their product matters: a
factor on C is taken out by B.

``SquareRoot`` : C is Toeplitz with the coefficients of (1 - x)^(-1/2), so that C C = A but for rounding to multiples of
                 2^-BITS (Fichtenberger, Henzinger, Upadhyay 2023; Henzinger, Upadhyay, Upadhyay 2023). One measurement
                 a period, which needs all the sums so far.
``Tree``       : one measurement for each dyadic interval of periods, when it is complete (Dwork, Naor, Pitassi,
                 Rothblum 2010; Chan, Shi, Song 2011), decoded with the least variance (Honaker 2015, from below).
``PlainTree``  : the same measurements, of which a running sum is decoded from as few as possible.
``Repeated``   : every running sum is measured by itself, as if it were released anew: what others are compared with.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Protocol, TypeAlias

import numpy as np

from sfumato import check
from sfumato.numerics.types import Floats, Integers

BITS = 20  # weights of the square root are multiples of 2^-20
MOST_PERIODS = 4096  # of the square root, whose work for a period grows with the number of periods before it

SQUARE_ROOT, TREE = "square-root", "tree"


@dataclass(frozen=True, slots=True, order=True)
class Node:
    """One measurement of a stream: made at the end of ``period``; ``level`` tells those of one period apart.

    In a tree it is of the 2^level periods that end with this one.
    """

    period: int
    level: int = 0


Decoder: TypeAlias = tuple[tuple[Node, ...], Floats]  # the measurements that a running sum is decoded from, and weights


class Factorisation(Protocol):
    """What is measured of a stream of sums, and how running sums are decoded; it does not depend on the horizon."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The factorisation as manifests and the command name it."""
        ...

    @property
    def whole(self) -> int:
        """The weight that stands for 1: weights are integers."""
        return 1

    def measured(self, period: int) -> tuple[Node, ...]:
        """The measurements that are made at the end of a period."""
        ...

    def weights(self, node: Node) -> Integers:
        """A row of C: the integer weights of the sums of periods 1 .. node.period in one measurement."""
        ...

    def squared_norm(self, horizon: int) -> int:
        """N(T): the largest squared length of a column of C over so many periods, exact; it never falls."""
        ...

    def touched(self, horizon: int, rows: int = 1) -> int:
        """The most measurements that so many rows, in any periods, enter: each may round apart by one step more."""
        ...

    def decoder(self, period: int) -> Decoder:
        """A row of B: how the running sum after a period is made from the measurements up to it."""
        ...

    def variance(self, period: int) -> float:
        """The squared length of a row of B: the variance of a running sum, per variance of one measurement."""
        return float(np.sum(np.square(self.decoder(period)[1])))


@dataclass(frozen=True, slots=True)
class SquareRoot(Factorisation):
    """The factorisation of running sums by the square root of the matrix of ones, rounded to integers."""

    @property
    def name(self) -> str:
        """What manifests call the square root of the matrix of running sums."""
        return SQUARE_ROOT

    @property
    def whole(self) -> int:
        """The weight of a period's own sums in its measurement, which stands for 1."""
        return 1 << BITS

    def measured(self, period: int) -> tuple[Node, ...]:
        """One measurement a period of the square root."""
        return (Node(_within(period)),)

    def weights(self, node: Node) -> Integers:
        """The coefficients of the square root, the newest period's last."""
        return _coefficients()[: _within(node.period)][::-1].copy()

    def squared_norm(self, horizon: int) -> int:
        """The first column of the square root, which is the longest: its squared length as an integer."""
        return sum(int(weight) ** 2 for weight in _coefficients()[: _within(horizon)])

    def touched(self, horizon: int, rows: int = 1) -> int:
        """A record of the first period enters every measurement of the square root."""
        del rows
        return _within(horizon)

    def decoder(self, period: int) -> Decoder:
        """The series of 1/(1 - x) over that of the rounded square root, the newest period's last."""
        nodes = tuple(Node(number) for number in range(1, _within(period) + 1))
        return nodes, _inverse()[:period][::-1].copy()

    def variance(self, period: int) -> float:
        """The squared length of a row of the decoder of the square root."""
        return float(_lengths()[_within(period) - 1])


@dataclass(frozen=True, slots=True)
class PlainTree(Factorisation):
    """The factorisation of running sums by dyadic intervals, decoded from as few of them as possible."""

    @property
    def name(self) -> str:
        """What experiments call a tree whose intervals are added up as they are."""
        return "plain-tree"

    def measured(self, period: int) -> tuple[Node, ...]:
        """The intervals of a tree that are complete at the end of a period."""
        check.whole(1, period=period)
        return tuple(Node(period, level) for level in range((period & -period).bit_length()))

    def weights(self, node: Node) -> Integers:
        """1 for the periods of an interval of the tree, 0 before it."""
        inside = np.arange(1, node.period + 1) > node.period - (1 << node.level)
        return inside.astype(np.int64)

    def squared_norm(self, horizon: int) -> int:
        """How many intervals of the tree, complete within the horizon, the first period lies in: one of each level."""
        check.whole(1, horizon=horizon)
        return horizon.bit_length()

    def touched(self, horizon: int, rows: int = 1) -> int:
        """How many intervals of the tree so many rows enter, at most."""
        return min(self.squared_norm(horizon) * rows, 2 * horizon)

    def decoder(self, period: int) -> Decoder:
        """The largest intervals of the tree that make up the periods so far, each with weight 1."""
        nodes = maximal(period)
        return nodes, np.ones(len(nodes))


@dataclass(frozen=True, slots=True)
class Tree(PlainTree):
    """The factorisation of running sums by dyadic intervals, decoded with the least variance.

    An interval is measured by itself and, independently, as the sum of its two halves, each decoded in turn. Weights
    that are inverse to the variances give 1/u_l = 1 + 1/(2 u_(l-1)) with u_0 = 1: from 1 down to 1/2. The largest
    intervals up to a period share no measurement, and no other complete interval reaches beyond one of them. So this is
    the least variance of all unbiased decoders of what was measured up to that period (Gauss-Markov).
    """

    @property
    def name(self) -> str:
        """What manifests call a tree that is decoded with the least variance."""
        return TREE

    def decoder(self, period: int) -> Decoder:
        """All intervals of the tree within the largest ones, weighted for the least variance."""
        nodes: list[Node] = []
        weights: list[float] = []
        for top in maximal(period):
            share = 1.0
            for level in range(top.level, -1, -1):
                own = float(own_share(level))
                ends = range(top.period - (1 << top.level) + (1 << level), top.period + 1, 1 << level)
                nodes.extend(Node(end, level) for end in ends)
                weights.extend([share * own] * len(ends))
                share *= 1 - own
        return tuple(nodes), np.array(weights)

    def variance(self, period: int) -> float:
        """The variances of the largest intervals of the tree, added up."""
        return float(sum((refined_variance(node.level) for node in maximal(period)), Fraction(0)))


@dataclass(frozen=True, slots=True)
class Repeated(Factorisation):
    """Running sums that are measured one by one, as releases anew after every period would."""

    @property
    def name(self) -> str:
        """What plans call releases that are made anew after every period."""
        return "repeated"

    def measured(self, period: int) -> tuple[Node, ...]:
        """One repeated release a period."""
        check.whole(1, period=period)
        return (Node(period),)

    def weights(self, node: Node) -> Integers:
        """A repeated release has all periods so far."""
        return np.ones(node.period, np.int64)

    def squared_norm(self, horizon: int) -> int:
        """A record of the first period is in all the repeated releases."""
        check.whole(1, horizon=horizon)
        return horizon

    def touched(self, horizon: int, rows: int = 1) -> int:
        """A record of the first period is in all the repeated releases."""
        del rows
        return self.squared_norm(horizon)

    def decoder(self, period: int) -> Decoder:
        """A repeated release is the running sum."""
        return (Node(period),), np.ones(1)


def factorisation(name: str) -> SquareRoot | Tree:
    """A factorisation that streams may have, by its name."""
    check.one_of((SQUARE_ROOT, TREE), method=name)
    return SquareRoot() if name == SQUARE_ROOT else Tree()


def best(horizon: int) -> SquareRoot | Tree:
    """The factorisation that streams have by default: the square root, as far as it goes."""
    check.whole(1, horizon=horizon)
    return SquareRoot() if horizon <= MOST_PERIODS else Tree()


def variances(method: Factorisation, horizon: int) -> Floats:
    """Variances of the running sums after periods 1 .. T, at Gaussian noise with mu = 1 and one unit that moves by 1.

    Divide by mu^2 and multiply by the squared sensitivity of a period's sums for those of a stream.
    """
    norm = method.squared_norm(horizon)
    return np.array([method.variance(period) * norm for period in range(1, horizon + 1)])


def against_repeated(method: Factorisation, horizon: int) -> float:
    """Mean variance of the running sums of a stream, relative to as many releases anew that share its budget."""
    return float(np.mean(variances(method, horizon)) / np.mean(variances(Repeated(), horizon)))


# ---- the tree --------------------------------------------------------------------------------------------------------


def maximal(period: int) -> tuple[Node, ...]:
    """The largest complete intervals of a tree that make up periods 1 .. t: one for each digit 1 of t in binary."""
    check.whole(1, period=period)
    levels = [level for level in range(period.bit_length() - 1, -1, -1) if period >> level & 1]
    return tuple(Node(period >> level << level, level) for level in levels)


@lru_cache(maxsize=64)
def refined_variance(level: int) -> Fraction:
    """u_l: the least variance of the sum of an interval of 2^l periods of a tree, per variance of one measurement."""
    return Fraction(1) if level == 0 else 1 / (1 + 1 / (2 * refined_variance(level - 1)))


def own_share(level: int) -> Fraction:
    """The weight of an interval's own measurement in its decoded sum; its two halves have the rest."""
    return refined_variance(level)


# ---- the square root -------------------------------------------------------------------------------------------------


def _within(periods: int) -> int:
    check.whole(1, periods=periods)
    check.between(1, MOST_PERIODS, periods=periods)
    return periods


@lru_cache(maxsize=1)
def _coefficients() -> Integers:
    """binom(2k, k) / 4^k for k = 0, 1, .., rounded to multiples of 2^-BITS, as integers; halves round up."""
    found, ratio = [], Fraction(1)
    doubled = 1 << (BITS + 1)
    for k in range(MOST_PERIODS):
        found.append((math.floor(ratio * doubled) + 1) >> 1)
        ratio *= Fraction(2 * k + 1, 2 * k + 2)
        ratio = Fraction(math.floor(ratio * 2**200), 2**200)  # far below what rounding could notice, and quick
    made = np.array(found, np.int64)
    made.setflags(write=False)
    return made


@lru_cache(maxsize=1)
def _inverse() -> Floats:
    """The coefficients of 1/(1 - x) over the series of the rounded square root, term by term, in doubles."""
    weights = _coefficients().astype(float)
    found = np.zeros(MOST_PERIODS)
    for k in range(MOST_PERIODS):
        found[k] = (1.0 - weights[1 : k + 1][::-1] @ found[:k]) / weights[0]
    found.setflags(write=False)
    return found


@lru_cache(maxsize=1)
def _lengths() -> Floats:
    """Squared lengths of the rows of the decoder of the square root."""
    return np.cumsum(np.square(_inverse()))
