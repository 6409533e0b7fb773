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
_SEED = 29  # of the order in which rows are taken
_BLOCK = 1 << 12  # pairs at a time


@dataclass(frozen=True, slots=True, eq=False)
class GaussianPairs:
    """Coordinates of rows and ``others``, the rest of each across the basis, and shares of sizes of typing errors."""

    known: LearnedPrior
    rows: tuple[Floats, Floats]
    others: tuple[Floats, Floats]
    densities: tuple[Floats, Floats]
    noises: tuple[float, float]
    shares: Floats

    @classmethod
    def of(cls, rows: Floats, others: Floats, noises: tuple[NoiseLaw, NoiseLaw]) -> "GaussianPairs":
        """Of released rows, each side with its noise. The prior is learned from the others, decoys as well as not."""
        mixed = np.random.default_rng(_SEED).permutation(len(others))
        known, _ = prior.learn(others[mixed], noises[1])
        variances = (noises[0].variance, noises[1].variance)
        (one, mine), (two, theirs) = (_split(known, t, v) for t, v in zip((rows, others), variances, strict=True))
        return cls(known, one, two, (mine, scipy.special.logsumexp(theirs, axis=1)), variances, _FIRST)

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
        return np.asarray(scipy.special.logsumexp(self._by_size(rows, others), axis=1))

    def learned(self, rows: Integers, others: Integers, weights: Floats) -> "GaussianPairs":
        """Shares of the sizes of typing errors by pairs that are one person with these probabilities: a step of EM."""
        sized = self._by_size(rows, others)
        found = weights @ np.exp(sized - scipy.special.logsumexp(sized, axis=1, keepdims=True))
        return replace(self, shares=(found + _BORROWED * _FIRST) / (found.sum() + _BORROWED))

    def _by_size(self, rows: Integers, others: Integers) -> Floats:
        """Log likelihood ratios for each size of errors, its share included: (pairs, sizes)."""
        mixture, (s, t), whole = self.known.mixture, self.noises, (self.densities[0], self.densities[1])
        found = np.full((len(rows), len(_SIZES)), -np.inf)
        for c in range(mixture.count):
            values, vectors = np.linalg.eigh(mixture.covariances[c])
            spread = np.concatenate([np.maximum(values, 0.0), mixture.beyond[c]])
            left = (spread * s / (spread + s) + t)[:, None] + self._sizes
            u, v = (_turned(part - mixture.means[c], vectors) for part in (self.rows[0], self.others[0]))
            u, inverse = u * (spread / (spread + s)).astype(np.float32), (0.5 / left).astype(np.float32)
            constant = np.log(2 * np.pi * left).sum(axis=0) / 2
            for at in blocks(len(rows), _BLOCK):
                density = whole[0][rows[at], c][:, None] - (v[others[at]] - u[rows[at]]) ** 2 @ inverse - constant
                found[at] = np.logaddexp(found[at], density)
        for at in blocks(len(rows), _BLOCK):
            alone = scipy.special.logsumexp(whole[0][rows[at]], axis=1) + whole[1][others[at]]
            found[at] += self._rest(rows[at], others[at]) - alone[:, None]
        return np.asarray(found + np.log(self.shares))

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
    return np.concatenate([apart[:, :m] @ vectors, apart[:, m:]], axis=1).astype(np.float32)


def _split(known: LearnedPrior, table: Floats, noise: float) -> tuple[tuple[Floats, Floats], Floats]:
    """Coordinates along the basis, and what is left across it; and log densities with each component."""
    coordinates = known.spectrum.coordinates(table)
    density = [known.mixture.log_density(coordinates[at], noise) for at in blocks(len(table), _BLOCK)]
    centred = table - known.spectrum.mean
    left = centred - (centred @ known.spectrum.basis) @ known.spectrum.basis.T
    return (coordinates.astype(np.float32), left.astype(np.float32)), np.concatenate(density)
