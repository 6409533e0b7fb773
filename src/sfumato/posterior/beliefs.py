"""What is believed of each record given its released row: a mean and a covariance in the directions that stand out."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import NDArray

from sfumato.numerics.types import Floats, Integers
from sfumato.posterior.lengths import LengthCumulants
from sfumato.posterior.prior import LearnedPrior

_RARE = 0.01  # odd records expected in a whole release that the prior describes
_PAIRS = 512  # at a time, whose covariances are held at once


@dataclass(frozen=True, eq=False)
class Beliefs:
    """Posterior of records under a prior: noisy ``coordinates`` of all of them, and their posterior ``means``.

    odd     : records whose rows are no part of what the prior describes. Nothing is believed of these beforehand, so
              their rows are taken as they are.
    squares : mean squared lengths of what records have across the basis.
    """

    prior: LearnedPrior
    coordinates: Floats
    means: Floats
    odd: NDArray[np.bool_]
    squares: Floats

    @classmethod
    def of(cls, prior: LearnedPrior, coordinates: Floats, rows: Floats) -> "Beliefs":
        """Given released rows and their coordinates."""
        across, rest = prior.spectrum.across(rows), prior.rest
        means, squares, apart = prior.mixture.posterior_means(coordinates, prior.spectrum.noise, rest.means)
        typical = float(rest.means @ prior.mixture.shares)
        rare = _RARE / len(rows)
        far = apart > scipy.special.chdtri(prior.rank, rare)
        long = across - typical > 2 * -scipy.special.ndtri(rare) * np.sqrt(rest.blur + rest.variance)
        odd = far | long
        squares = np.where(odd, np.maximum(across, 0.0), squares)
        return cls(prior, coordinates, np.where(odd[:, None], coordinates, means), odd, squares)

    @cached_property
    def _gains(self) -> Floats:
        return self.prior.mixture.gains(self.prior.spectrum.noise)

    @cached_property
    def _beyond(self) -> Floats:
        """Posterior variances in the directions beyond the leading ones, for each component."""
        noise, variances = self.prior.spectrum.noise, self.prior.mixture.beyond
        return np.asarray(noise * variances / (variances + noise))

    def shares(self, records: Integers) -> Floats:
        """Probabilities of components: (records, components)."""
        return self.prior.mixture.responsibilities(self.coordinates[records], self.prior.spectrum.noise)

    def given(self, records: Integers) -> Floats:
        """Posterior means of records given each component: (records, components, width)."""
        mixture, noise = self.prior.mixture, self.prior.spectrum.noise
        here = self.coordinates[records]
        return np.stack([mixture.given(here, c, self._gains[c], noise) for c in range(mixture.count)], axis=1)

    def covariances(self, records: Integers) -> tuple[Floats, Floats]:
        """Posterior covariances of records in the leading directions, and variances beyond."""
        shares, m = self.shares(records), self.prior.mixture.leading
        apart = self.given(records) - self.means[records, None]
        within = np.einsum("nc,cij->nij", shares, self.prior.spectrum.noise * self._gains)
        within += np.einsum("nci,ncj->nij", shares[:, :, None] * apart[:, :, :m], apart[:, :, :m], optimize=True)
        beyond = shares @ self._beyond + np.einsum("nc,nci->ni", shares, apart[:, :, m:] ** 2)
        odd, noise = self.odd[records], self.prior.spectrum.noise
        return np.where(odd[:, None, None], noise * np.eye(m), within), np.where(odd[:, None], noise, beyond)

    def lengths(self, first: Integers, second: Integers) -> LengthCumulants:
        """Squared distances between images, pairwise in step, in the directions that stand out."""
        return LengthCumulants.joined(list(self._blocks(first, second)))

    def _blocks(self, first: Integers, second: Integers) -> Iterator[LengthCumulants]:
        m = self.prior.mixture.leading
        for start in range(0, len(first), _PAIRS):
            a, b = first[start : start + _PAIRS], second[start : start + _PAIRS]
            apart = self.means[a] - self.means[b]
            (one, one_beyond), (two, two_beyond) = self.covariances(a), self.covariances(b)
            yield LengthCumulants.of(apart[:, :m], one + two) + LengthCumulants.along(
                apart[:, m:], one_beyond + two_beyond
            )

    def rest(self, first: Integers, second: Integers) -> LengthCumulants:
        """What the directions that do not stand out add to squared distances, pairwise in step."""
        spectrum, rest = self.prior.spectrum, self.prior.rest
        one, two = (np.where(self.odd[records], rest.blur, rest.variance) for records in (first, second))
        return LengthCumulants.gamma(self.squares[first] + self.squares[second], one + two + 4 * spectrum.spread)

    def sampler(self, records: Integers) -> Callable[[np.random.Generator], Floats]:
        """Draws of these records in the directions that stand out."""
        shares = self.shares(records)
        return lambda rng: self._drawn(records, shares, rng)

    def _drawn(self, records: Integers, shares: Floats, rng: np.random.Generator) -> Floats:
        mixture, components = self.prior.mixture, chosen(shares, rng)
        drawn, m = rng.standard_normal((len(records), self.means.shape[1])), mixture.leading
        drawn[:, m:] *= np.sqrt(self._beyond[components])
        for c, root in enumerate(self._roots):
            here = components == c
            drawn[here, :m] = drawn[here, :m] @ root.T
            drawn[here] += mixture.given(self.coordinates[records[here]], c, self._gains[c], self.prior.spectrum.noise)
        odd = self.odd[records]
        noise = rng.standard_normal((int(odd.sum()), drawn.shape[1])) * np.sqrt(self.prior.spectrum.noise)
        drawn[odd] = self.coordinates[records[odd]] + noise
        return np.asarray(drawn)

    @cached_property
    def _roots(self) -> Floats:
        """Square roots of the posterior covariances of components."""
        values, vectors = np.linalg.eigh(self.prior.spectrum.noise * self._gains)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :])


def chosen(shares: Floats, rng: np.random.Generator) -> Integers:
    """A component for each row, by its probabilities."""
    return np.asarray(np.argmax(np.cumsum(shares, axis=1) >= rng.random((len(shares), 1)) * (1 - 1e-12), axis=1))
