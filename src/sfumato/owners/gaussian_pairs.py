"""How much likelier two released rows are if they are one person's, for numbers under any projection.

Records vary as the mixture of Gaussians that is learned from one release (``posterior.prior``), and by a small variance
in the directions that do not stand out of its noise. Given component c, with eigenvalues a of its covariance, the rows
z and w of one person are normal about the component's mean with variances a + s and a + t + d along each eigenvector
and covariance a: s and t are the variances of the owners' noise, d that of what typing errors change, which is one of a
few sizes with learned shares. Laplace noise is taken as normal noise of its variance. Post-processing of releases.
"""

from dataclasses import dataclass, replace

import numpy as np
import scipy

from sfumato.intervals.moments import NoiseLaw
from sfumato.numerics.types import Floats, Integers
from sfumato.owners.candidate_pairs import blocks
from sfumato.posterior import prior
from sfumato.posterior.prior import LearnedPrior

_SIZES = np.array([0.0, 0.003, 0.03, 0.2])  # variances of what errors change, in units of the records' mean variance
_FIRST = np.array([0.4, 0.2, 0.2, 0.2])  # their shares that learning starts from
_BORROWED = 10.0  # pairs' worth by which the shares are drawn towards these
_BLOCK = 1 << 12  # pairs at a time


@dataclass(frozen=True, slots=True, eq=False)
class GaussianPairs:
    """Coordinates of rows and ``others``, the rest of each across the basis, and shares of sizes of typing errors."""

    known: LearnedPrior
    rows: tuple[Floats, Floats]
    others: tuple[Floats, Floats]
    noises: tuple[float, float]
    shares: Floats

    @classmethod
    def of(cls, rows: Floats, others: Floats, noises: tuple[NoiseLaw, NoiseLaw]) -> "GaussianPairs":
        """Of released rows, each side with its noise; the first side is what the prior is learned from."""
        known, _ = prior.learn(rows, noises[0])
        one, two = (_split(known, table) for table in (rows, others))
        return cls(known, one, two, (noises[0].variance, noises[1].variance), _FIRST)

    @property
    def _sizes(self) -> Floats:
        found = self.known.spectrum
        mean = (float(found.variances.sum()) + found.rest * found.tail) / len(found.mean)
        return np.asarray(_SIZES * mean)

    def features(self) -> tuple[Floats, Floats]:
        """Of rows and others: products are log likelihood ratios under one Gaussian, but for a number for each row."""
        found, error = self.known.spectrum, float(self._sizes[1:3].mean())
        parts, lengths = [], np.zeros(len(self.others[0]))
        for variances, mine, theirs in (
            (found.variances, self.rows[0], self.others[0]),
            (np.array([found.tail]), self.rows[1], self.others[1]),
        ):
            gain = variances / (variances + self.noises[0])
            left = variances - variances * gain + self.noises[1] + error
            parts.append(mine * (gain / left))
            lengths += np.sum(theirs**2 * (1 / left - 1 / (variances + self.noises[1] + error)), axis=1) / 2
        left_side = np.concatenate([*parts, np.ones((len(parts[0]), 1))], axis=1)
        right_side = np.concatenate([*self.others, -lengths[:, None]], axis=1)
        return left_side.astype(np.float32), right_side.astype(np.float32)

    def log_ratios(self, rows: Integers, others: Integers) -> Floats:
        """How much likelier pairs are as one person than as two, in logarithms, in step."""
        parts = [
            scipy.special.logsumexp(self._by_size(rows[at], others[at]), axis=1) for at in blocks(len(rows), _BLOCK)
        ]
        return np.concatenate(parts) if parts else np.empty(0)

    def learned(self, rows: Integers, others: Integers, weights: Floats) -> "GaussianPairs":
        """Shares of the sizes of typing errors by pairs that are one person with these probabilities: a step of EM."""
        sized = self._by_size(rows, others)
        found = weights @ np.exp(sized - scipy.special.logsumexp(sized, axis=1, keepdims=True))
        return replace(self, shares=(found + _BORROWED * _FIRST) / (found.sum() + _BORROWED))

    def _by_size(self, rows: Integers, others: Integers) -> Floats:
        """Log likelihood ratios for each size of errors, its share included: (pairs, sizes)."""
        mixture, (s, t) = self.known.mixture, self.noises
        one, two = self.rows[0][rows], self.others[0][others]
        alone, joint = mixture.log_density(one, s), np.empty((len(rows), mixture.count, len(_SIZES)))
        for c in range(mixture.count):
            values, vectors = np.linalg.eigh(mixture.covariances[c])
            spread = np.concatenate([np.maximum(values, 0.0), mixture.beyond[c]])
            u, v = (_turned(part - mixture.means[c], vectors) for part in (one, two))
            apart = (v - u * (spread / (spread + s))) ** 2
            for k, size in enumerate(self._sizes):
                left = spread * s / (spread + s) + t + size
                joint[:, c, k] = alone[:, c] - (apart @ (1 / left) + np.log(2 * np.pi * left).sum()) / 2
        both = scipy.special.logsumexp(joint, axis=1)
        first, second = (scipy.special.logsumexp(mixture.log_density(p, n), axis=1) for p, n in ((one, s), (two, t)))
        return np.asarray(both - (first + second)[:, None] + self._rest(rows, others) + np.log(self.shares))

    def _rest(self, rows: Integers, others: Integers) -> Floats:
        """The same for what lies across the basis."""
        (s, t), tail, rest = self.noises, self.known.spectrum.tail, self.known.spectrum.rest
        one, two = self.rows[1][rows], self.others[1][others]
        apart = np.sum((two - one * (tail / (tail + s))) ** 2, axis=1)[:, None]
        left, whole = tail * s / (tail + s) + t + self._sizes, tail + t
        plain = np.sum(two**2, axis=1)[:, None] / whole
        return np.asarray((plain - apart / left - rest * np.log(left / whole)) / 2)


def _turned(apart: Floats, vectors: Floats) -> Floats:
    m = len(vectors)
    return np.concatenate([apart[:, :m] @ vectors, apart[:, m:]], axis=1)


def _split(known: LearnedPrior, table: Floats) -> tuple[Floats, Floats]:
    """Coordinates along the basis, and what is left across it, in single precision."""
    coordinates = known.spectrum.coordinates(table)
    centred = table - known.spectrum.mean
    left = centred - (centred @ known.spectrum.basis) @ known.spectrum.basis.T
    return coordinates, left.astype(np.float32)
