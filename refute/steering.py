"""Tapes whose early draws come out as the search likes: every outcome is possible, so a proof must hold for all.

A mechanism of two stages goes on from what its first stage published. What that was is part of what is searched.
"""

import zlib
from dataclasses import dataclass, replace

import numpy as np

from refute.luck import chance, pick
from sfumato.audit.recorder import Draw, Tape
from sfumato.numerics.types import Integers

_FAR = 1 << 40


@dataclass(slots=True, eq=False)
class Steered(Tape):
    """A tape whose draws of some stages, by the first words of their streams, come out at random, by a seed."""

    outcome: int = 0
    stages: tuple[str, ...] = ()

    def noted(self, draw: Draw, number: int) -> Integers:
        """Keep a draw; what shall come of it."""
        if draw.place[0].startswith(self.stages):
            draw = replace(draw, came=self._came(draw, number))
        return Tape.noted(self, draw, number)

    def _came(self, draw: Draw, number: int) -> Integers:
        if draw.place[0].startswith("comparison"):  # the same answer whenever the same is asked, but for some
            above = pick(np.random.default_rng(self.outcome), (0.2, 0.5, 1.0))
            luck = np.random.default_rng([self.outcome, zlib.crc32(draw.place[-1].encode())])
            return draw.came if chance(luck, 0.1) else draw.fed + (_FAR if chance(luck, above) else -_FAR)
        return _came(draw, np.random.default_rng([self.outcome, number, len(self.draws)]))


def _came(draw: Draw, luck: np.random.Generator) -> Integers:
    """An outcome: any choice, numbers anywhere, one that outweighs all others, none at all, or what came by itself."""
    if draw.law in ("choice", "flips"):
        return np.array([luck.integers(draw.fed.size)])
    way = pick(luck, ("far", "far", "one", "none", "itself"))
    if way == "itself":
        return draw.came
    came = np.zeros_like(draw.fed)
    if way == "far":
        came = np.asarray(luck.integers(-_FAR, _FAR, draw.fed.shape), np.int64)
    elif way == "one" and came.size:
        came.flat[int(luck.integers(came.size))] = _FAR
    return draw.fed + came
