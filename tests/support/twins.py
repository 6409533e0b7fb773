"""Streams that err on purpose, and secrets that hand them out: broken twins of mechanisms, and quiet ones for tests.

A mechanism draws through the methods of its ``Words``, so a twin is a subclass of ``Words``; nothing is replaced.
"""

from dataclasses import dataclass

import numpy as np

from sfumato.audit.examine import Effort
from sfumato.randomness.secret import Secret, Words


def secret_of(words: type[Words], seed: int = 1) -> Secret:
    """A testing secret whose streams are of this class."""
    return type(f"{words.__name__}Secret", (Secret,), {"__slots__": (), "_words": words}).for_testing(seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErringEffort(Effort):
    """An audit whose runs draw from streams of this class."""

    words: type[Words]

    def secret(self, number: int) -> Secret:
        """As without them, but for the class."""
        assert self.seed is not None
        return secret_of(self.words, self.seed * 1_000_003 + number)


def share_of_the_noise(share: float) -> type[Words]:
    """Noise of this share of its scale."""

    class Less(Words):
        __slots__ = ()

        def laplace(self, size, laplace_scale):
            return super().laplace(size, laplace_scale * share)

        def discrete_laplace(self, size, laplace_scale):
            return super().discrete_laplace(size, laplace_scale * share)

        def gaussian(self, size, scale):
            return super().gaussian(size, scale * share)

    return Less


class TwiceTheEpsilon(Words):
    """Answers and choices at twice the epsilon that was asked for."""

    __slots__ = ()

    def respond(self, codes, categories, epsilon):
        return super().respond(codes, categories, 2 * epsilon)

    def choose(self, scores, rate, *, bits=0):
        return super().choose(scores, 2 * rate, bits=bits)


def always(value: int) -> type[Words]:
    """Laplace noise that is always the same, so that what lies below it shows."""

    class Constant(Words):
        __slots__ = ()

        def laplace(self, size, laplace_scale):
            del laplace_scale
            return np.full(size, value, np.int64)

        discrete_laplace = laplace

    return Constant
