"""Running sums of a stream: what a period adds to its file, and what is decoded from the measurements in it.

Memory does not grow with the number of periods: exact sums and measurements are read a few periods at a time.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from sfumato.numerics.lattice import Total
from sfumato.numerics.types import Floats, Integers
from sfumato.randomness.secret import Secret
from sfumato.streams.factorisation import Node, SquareRoot, maximal
from sfumato.streams.statistic import WeightedSum
from sfumato.streams.store import Transaction

_TOGETHER = 1 << 22  # numbers that are read at a time


def add(stream: Transaction, period: int, exact: Total, secret: Secret) -> None:
    """Store the exact sums of a stream's new period, and its measurements with noise; nothing is drawn twice.

    Guarantee: each node is measured once, under a key that serves this period alone, and with the noise that the
    stream's description states.
    """
    about, scale = stream.description.measuring, stream.description.scale
    if isinstance(about.method, SquareRoot):
        stream.add_sums(Node(period), *exact.halves)
        found = _weighted(stream, Node(period)).coarsened(about.shift)
        stream.add_measurement(Node(period), about.measured(Node(period), found, scale, secret), None)
        return
    total, refined = Total.of(*exact.halves), None
    for node in about.method.measured(period):
        if node.level:
            left = Node(period - (1 << (node.level - 1)), node.level - 1)
            high, low = stream.sums([left])
            total = total.merge(Total.of(high[0], low[0]))
            stream.drop_sums(left)
        noisy = about.measured(node, total.coarsened(about.shift), scale, secret)
        halves = None if refined is None else (stream.decoded([left])[0], refined)
        refined = about.refined(node, noisy, halves)
        stream.add_measurement(node, noisy, refined)
    stream.add_sums(node, *total.halves)


def _weighted(stream: Transaction, node: Node) -> WeightedSum:
    """The exact weighted sum of a stream's periods for one measurement of the square root."""
    found = WeightedSum(stream.size)
    weights = stream.description.measuring.method.weights(node)
    for some in _some(node.period, stream.size):
        found.add(weights[some[0].period - 1 : some[-1].period], *stream.sums(some))
    return found


def _some(periods: int, size: int) -> Iterator[Sequence[Node]]:
    """The periods of a stream, as many at a time as fit."""
    nodes, together = map(Node, range(1, periods + 1)), max(1, _TOGETHER // max(1, size))
    while some := list(islice(nodes, together)):
        yield some


def decoded(stream: Transaction, period: int) -> Floats:
    """The running sum of a stream after a period, with its noise, in units of its exact integers.

    Guarantee: post-processing of measurements; the same numbers whenever it is asked for.
    """
    about = stream.description.measuring
    if not isinstance(about.method, SquareRoot):
        return np.asarray(stream.decoded(maximal(period)).sum(axis=0) * 2.0**about.shift)
    _, weights = about.method.decoder(period)
    found = np.zeros(stream.size)
    for some in _some(period, stream.size):
        found += weights[some[0].period - 1 : some[-1].period] @ stream.measurements(some).astype(float)
    return found * 2.0**about.shift


def all_measurements(stream: Transaction, periods: int) -> dict[Node, Integers]:
    """Every measurement of a stream so far, by its node: for those who check that none is ever drawn again."""
    method = stream.description.measuring.method
    nodes = [node for period in range(1, periods + 1) for node in method.measured(period)]
    return {node: stream.measurements([node])[0] for node in nodes}
