"""Normal numbers in floating point, for mechanisms whose guarantee is stated for ideal real numbers.

Sketches that are private by themselves publish Gaussian rows whose *covariance* depends on the data, so there is no
integer to which exact noise could be added (``noise``). Their rows are computed in doubles, and the manifest of such a
release says ``numerics: idealized``: the theorem speaks of real numbers, what is published are doubles rounded to a
coarse grid, and what lies between the two is not proved. No mechanism that calls itself exact may draw from here.
"""

import math

import numpy as np

from sfumato.numerics.types import Floats
from sfumato.randomness.stream import WordStream

_CHUNK = 1 << 14  # words at a time: the working set stays in a core's own cache
_TO_UNIT = 2.0**-53


def normals(words: WordStream, size: int) -> Floats:
    """Idealized normal noise, not exact: ``size`` standard normal doubles by Box and Muller.

    Made from 53-bit uniforms in (0, 1); the largest is 8.6 in size.
    """
    out = np.empty(size + size % 2)
    buffer = np.empty(_CHUNK, np.uint64)
    for start in range(0, out.size, _CHUNK):
        some = out[start : start + _CHUNK]
        half = some.size // 2
        words.fill(buffer[: some.size].view(np.int64))
        np.right_shift(buffer, np.uint64(11), out=buffer)
        uniform = (buffer[: some.size].astype(np.float64) + 0.5) * _TO_UNIT
        length, angle = uniform[:half], uniform[half:]
        np.log(length, out=length)
        np.multiply(length, -2.0, out=length)
        np.sqrt(length, out=length)
        np.multiply(angle, 2 * math.pi, out=angle)
        np.multiply(length, np.cos(angle), out=some[:half])
        np.multiply(length, np.sin(angle), out=some[half:])
    return out[:size]
