"""A mixture of Gaussians behind noisy coordinates, fitted by EM with the noise known.

Coordinates c = a + e, a of the mixture, e normal with the same known variance in every direction. Components have any
covariance in the leading directions and variances in the others. A single Gaussian is a mixture of one. More are taken
only where rows that were held out are likelier under them. Post-processing of a release.
"""

from dataclasses import dataclass

import numpy as np
import scipy

from sfumato.numerics.types import Floats

SIZES = (8, 32)  # numbers of components that are tried beside one
_LEADING = 32  # directions at most in which components have covariances
_FITTED = 9_000  # rows at most that a mixture is fitted to; a third of them are held out
_FEWEST = 40  # rows for each component at least
_ROUNDS = 8  # of EM
_BLOCK = 1 << 13  # rows at a time


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """Components: ``shares``, ``means`` (components, width), ``covariances`` of the leading directions, and ``beyond``.

    The covariances are (components, leading, leading); ``beyond`` holds variances of the others.
    """

    shares: Floats
    means: Floats
    covariances: Floats
    beyond: Floats

    @property
    def count(self) -> int:
        """The number of components."""
        return len(self.shares)

    @property
    def leading(self) -> int:
        """The number of directions in which components have covariances."""
        return int(self.covariances.shape[1])

    def squares(self, coordinates: Floats, noise: float) -> tuple[Floats, Floats]:
        """Squared Mahalanobis distances to components, (rows, components), and the other part of -log density."""
        found, m = np.empty((len(coordinates), self.count)), self.leading
        scales = 0.5 * self.means.shape[1] * np.log(2 * np.pi) - np.log(self.shares)
        for c in range(self.count):
            inverse = np.linalg.inv(np.linalg.cholesky(self.covariances[c] + noise * np.eye(m)))
            apart, total = coordinates - self.means[c], self.beyond[c] + noise
            found[:, c] = np.sum((apart[:, :m] @ inverse.T) ** 2, axis=1) + apart[:, m:] ** 2 @ (1 / total)
            scales[c] += np.log(total).sum() / 2 - np.log(np.diag(inverse)).sum()
        return found, scales

    def log_density(self, coordinates: Floats, noise: float) -> Floats:
        """The log density of noisy coordinates with each component, times its share: (rows, components)."""
        squares, scales = self.squares(coordinates, noise)
        return np.asarray(-0.5 * squares - scales)

    def responsibilities(self, coordinates: Floats, noise: float) -> Floats:
        """The probability of each component given noisy coordinates: (rows, components)."""
        if self.count == 1:
            return np.ones((len(coordinates), 1))
        return _normalised(self.log_density(coordinates, noise))

    def gains(self, noise: float) -> Floats:
        """For each component the matrix from leading coordinates to means; times the noise, the covariance."""
        total = self.covariances + noise * np.eye(self.leading)
        gains = np.linalg.solve(total, self.covariances)
        return np.asarray((gains + np.transpose(gains, (0, 2, 1))) / 2)

    def given(self, coordinates: Floats, component: int, gain: Floats, noise: float) -> Floats:
        """The posterior mean of records, given their noisy coordinates and a component."""
        m, apart = self.leading, coordinates - self.means[component]
        share = self.beyond[component] / (self.beyond[component] + noise)
        return np.asarray(self.means[component] + np.concatenate([apart[:, :m] @ gain, apart[:, m:] * share], axis=1))

    def posterior_means(self, coordinates: Floats, noise: float, value: Floats) -> tuple[Floats, Floats, Floats]:
        """Means of the records' own coordinates, given noisy ones, and of each component's ``value``.

        Beside them the squared Mahalanobis distance to the nearest component.
        """
        gains, found = self.gains(noise), np.empty(coordinates.shape)
        values, apart = np.empty((2, len(coordinates)))
        for start in range(0, len(coordinates), _BLOCK):
            here, where = coordinates[start : start + _BLOCK], slice(start, start + _BLOCK)
            squares, scales = self.squares(here, noise)
            shares = _normalised(-0.5 * squares - scales)
            found[where] = sum(shares[:, c, None] * self.given(here, c, gains[c], noise) for c in range(self.count))
            values[where], apart[where] = shares @ value, squares.min(axis=1)
        return found, values, apart


def _normalised(density: Floats) -> Floats:
    return np.asarray(np.exp(density - scipy.special.logsumexp(density, axis=1, keepdims=True)))


def gaussian(variances: Floats) -> Mixture:
    """One component about 0 with these variances."""
    m = min(_LEADING, len(variances))
    return Mixture(np.ones(1), np.zeros((1, len(variances))), np.diag(variances[:m])[None], variances[None, m:])


def fit(coordinates: Floats, variances: Floats, noise: float, sizes: tuple[int, ...] = SIZES) -> Mixture:
    """The likeliest of one Gaussian with these variances and mixtures of several sizes, by rows that are held out."""
    single = gaussian(variances)
    if not len(variances):
        return single
    sample = coordinates[:: max(len(coordinates) // _FITTED, 1)][:_FITTED]
    held = np.arange(len(sample)) % 3 == 2
    fitted = [_em(sample[~held], variances, noise, size) for size in sizes if size * _FEWEST <= np.sum(~held)]
    return max([single, *fitted], key=lambda mixture: likelihood(mixture, sample[held], noise))


def likelihood(mixture: Mixture, coordinates: Floats, noise: float) -> float:
    """The mean log likelihood of noisy coordinates."""
    if not len(coordinates):
        return 0.0
    return float(np.mean(scipy.special.logsumexp(mixture.log_density(coordinates, noise), axis=1)))


def _em(rows: Floats, variances: Floats, noise: float, size: int) -> Mixture:
    """EM from clusters of shrunken rows, for a fixed number of rounds."""
    shrunken = rows * (variances / (variances + noise))
    start = scipy.cluster.vq.kmeans2(shrunken, size, minit="++", seed=np.random.default_rng(0))[1]
    mixture = _maximised(rows, np.eye(size)[start], variances, noise)
    for _ in range(_ROUNDS):
        mixture = _maximised(rows, mixture.responsibilities(rows, noise), variances, noise)
    return mixture


def _maximised(rows: Floats, shares: Floats, variances: Floats, noise: float) -> Mixture:
    """The M step. Each covariance is drawn towards half the whole one as by as many rows as there are directions.

    What is left of a covariance once the noise is taken off has no negative eigenvalue.
    """
    weights, m = shares.sum(axis=0) + 1e-9, min(_LEADING, rows.shape[1])
    means, whole = (shares.T @ rows) / weights[:, None], variances / 2 + noise
    covariances, beyond = np.empty((len(weights), m, m)), np.empty((len(weights), rows.shape[1] - m))
    for c, weight in enumerate(weights):
        apart = (rows - means[c]) * np.sqrt(shares[:, c, None])
        drawn = (apart[:, :m].T @ apart[:, :m] + m * np.diag(whole[:m])) / (weight + m)
        values, vectors = np.linalg.eigh(drawn - noise * np.eye(m))
        covariances[c] = (vectors * np.maximum(values, 0.0)) @ vectors.T
        beyond[c] = (np.sum(apart[:, m:] ** 2, axis=0) + m * whole[m:]) / (weight + m) - noise
    return Mixture(weights / weights.sum(), means, covariances, np.maximum(beyond, 0.0))
