"""Outputs that one input can give and its neighbour cannot, told by their low bits (Mironov 2012).

Noise that is computed in floating point and added to a number in floating point can take only some of the doubles, and
which ones depends on the number: 1 + eta is a multiple of 2^-53 wherever it is small, 0 + eta is hardly ever. One such
output is proof of delta > 0, whatever the epsilon. Noise that is added on a lattice leaves the same doubles possible
for every input.
"""

import numpy as np

from sfumato.numerics.types import Floats, Integers

_ENOUGH = 1000  # outputs of a size on either side, before what was not seen counts as impossible


def lowest_bit(outputs: Floats) -> Integers:
    """The exponent of the lowest bit that is set in each double; 2^12 for 0, which has none."""
    mantissa, exponent = np.frexp(np.abs(outputs))
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    lowest = np.log2(np.maximum(whole & -whole, 1).astype(np.float64)).astype(np.int64)
    return np.where(whole == 0, 1 << 12, lowest + exponent - 53)


def impossible(first: Floats, second: Floats) -> int:
    """How many outputs of either side are finer than any of the other side, among those of about the same size.

    For one law on both sides the finest bit of a size occurs in about half of its outputs, so it is missed with
    probability 2^-1000 or so; a lattice has the same finest bit for all inputs. So this counts 0 for them.
    """
    sizes, bits = [np.frexp(side)[1] for side in (first, second)], [lowest_bit(side) for side in (first, second)]
    count = 0
    for size in np.intersect1d(sizes[0], sizes[1]):
        here = [b[s == size] for b, s in zip(bits, sizes, strict=True)]
        if min(map(len, here)) >= _ENOUGH:
            finest = [int(side.min()) for side in here]
            count += int((here[0] < finest[1]).sum() + (here[1] < finest[0]).sum())
    return count
