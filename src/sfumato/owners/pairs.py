"""Estimates over rows of several owners: each pair by the law of its own two noises, all in one answer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sfumato.intervals.estimate import Ends, Estimate, plain
from sfumato.intervals.moments import Geometry, NoiseLaw, SketchLaw
from sfumato.numerics.types import Floats, Integers


@dataclass(frozen=True, slots=True)
class OwnersLaw:
    """The noises of several owners in one space: laws that occur, and which of them each owner has."""

    geometry: Geometry
    noises: tuple[NoiseLaw, ...]
    which: Integers

    @classmethod
    def of(cls, laws: Sequence[SketchLaw]) -> "OwnersLaw":
        """The laws of owners, Gaussian noises first and smaller ones before larger ones."""
        noises = sorted({law.noise for law in laws}, key=lambda noise: (noise.kind, noise.scale))
        places = {noise: place for place, noise in enumerate(noises)}
        return cls(laws[0].geometry, tuple(noises), np.array([places[law.noise] for law in laws], np.int64))

    @property
    def variances(self) -> Floats:
        """The variance of each owner's noise."""
        return np.array([noise.variance for noise in self.noises])[self.which]

    def pair(self, one: int, two: int) -> SketchLaw:
        """The law of pairs of rows whose noises have these places."""
        return SketchLaw(self.noises[one], self.geometry, None if one == two else self.noises[two])

    def of_rows(self, owners: Integers, ask: Callable[[Integers, SketchLaw], Estimate]) -> Estimate:
        """Estimates about single rows, by the noise of each row's owner."""
        kept = self.which[owners]
        return merged(kept, lambda place, where: ask(where, self.pair(place, place)))

    def of_pairs(self, one: Integers, two: Integers, ask: Callable[[Integers, bool, SketchLaw], Estimate]) -> Estimate:
        """Estimates about pairs of rows of these owners, by the noises of both.

        What is asked is symmetric, so of two noises the first is always in the first row: ``ask`` is told which pairs,
        and whether their rows are exchanged.
        """
        first, second = self.which[one], self.which[two]
        low, high, count = np.minimum(first, second), np.maximum(first, second), len(self.noises)
        turned = first > second

        def asked(key: int, where: Integers) -> Estimate:
            place, exchanged = divmod(key, 2)
            return ask(where, bool(exchanged), self.pair(*divmod(place, count)))

        return merged((low * count + high) * 2 + turned, asked)


def merged(keys: Integers, ask: Callable[[int, Integers], Estimate]) -> Estimate:
    """One estimate over several owners out of one for each key; entries stay in their order."""
    found = {int(key): np.flatnonzero(keys == key) for key in np.unique(keys)}
    if len(found) == 1:
        return next(ask(key, where) for key, where in found.items())
    parts = [(where, ask(key, where)) for key, where in found.items()]
    shape = (keys.size, *np.shape(parts[0][1].uncut)[1:]) if parts else (0,)

    def together(pick: Callable[[Estimate], Any]) -> Floats:
        whole = np.empty(shape)
        for where, part in parts:
            whole[where] = pick(part)
        return whole

    def bounds(tail: float) -> Ends:
        ends = [(where, part.bounds(tail)) for where, part in parts]
        low, high = np.empty(shape), np.empty(shape)
        for where, (least, most) in ends:
            low[where], high[where] = least, most
        return low, high

    first = parts[0][1]
    return replace(first, uncut=together(lambda e: e.uncut), standard_error=together(_error), bounds=bounds)


def _error(part: Estimate) -> Any:
    return part.standard_error


def single(found: Estimate) -> Estimate:
    """The only entry of an estimate over owners, as numbers."""
    return replace(
        found,
        uncut=plain(np.asarray(found.uncut)[0]),
        standard_error=plain(np.asarray(found.standard_error)[0]),
        bounds=lambda tail: _first(*found.bounds(tail)),
    )


def _first(low: Floats, high: Floats) -> Ends:
    """The interval of the only entry of an estimate over owners."""
    return np.asarray(np.ravel(low)[0]), np.asarray(np.ravel(high)[0])


def shaped(found: Estimate, shape: tuple[int, ...]) -> Estimate:
    """An estimate over owners in another shape."""

    def bounds(tail: float) -> Ends:
        low, high = found.bounds(tail)
        return np.reshape(low, shape), np.reshape(high, shape)

    return replace(
        found,
        uncut=np.reshape(found.uncut, shape),
        standard_error=np.reshape(found.standard_error, shape),
        bounds=bounds,
    )
