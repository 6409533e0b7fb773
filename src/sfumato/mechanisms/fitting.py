"""Gaussians that fit noisy second moments, knowing the law of the noise. All of it is post-processing: no cost."""

from dataclasses import dataclass

import numpy as np

from sfumato import mixture
from sfumato.lattice import Floats
from sfumato.mechanisms.stages import MomentStage
from sfumato.mixture import Component


@dataclass(frozen=True, slots=True, eq=False)
class Fitting:
    """What makes Gaussians of the matrices of a stage whose noise had this scale.

    Everything is in units where rows of length 1 are worth 1 and the noise is the same in all columns; a numeric label
    is put in its own, from -1 to 1, at the end.
    """

    stage: MomentStage
    scale: float
    shrink: bool
    pool: bool

    @property
    def per_label(self) -> float:
        """What a numeric label of 1 is in the units of the matrices."""
        return self.stage.label * self.stage.turned.unit

    @property
    def per_constant(self) -> float:
        """What the constant is in the units of the matrices."""
        return self.stage.constant * self.stage.turned.unit

    def about(self, matrix: Floats, records: float, label: float) -> Component:
        """One Gaussian for all rows, which were centred; the mean of a numeric label is known from before."""
        mean = np.zeros(self.stage.columns)
        if self.stage.labelled.numeric:
            mean[-1] = label * self.per_label
        return self._component(
            1.0, mean, self._repaired(matrix / records - np.outer(mean, mean), self._energy / records**2)
        )

    def everyone(self, matrix: Floats, records: float) -> Component:
        """One Gaussian for all rows, whose sum is in the matrix."""
        mean, covariance = self._moments(matrix, records)
        return self._component(1.0, mean, self._repaired(covariance, self._energy / records**2))

    def classes(self, matrices: Floats, counts: Floats) -> list[Component]:
        """One Gaussian for each class, weighted by its count."""
        records = np.maximum(counts, 1.0)
        found = [self._moments(matrix, n) for matrix, n in zip(matrices, records, strict=True)]
        means, covariances = np.stack([m for m, _ in found]), np.stack([c for _, c in found])
        energies = self._energy / records**2
        if self.pool and self.shrink and len(found) > 1:
            repaired = self._pooled(covariances, records)
        else:
            repaired = [self._repaired(c, float(e)) for c, e in zip(covariances, energies, strict=True)]
        weights = np.maximum(counts, 0.0) / max(1.0, float(np.maximum(counts, 0.0).sum()))
        parts = zip(weights, means, repaired, strict=True)
        return [self._component(float(w), mean, covariance) for w, mean, covariance in parts]

    def _pooled(self, covariances: Floats, records: Floats) -> list[Floats]:
        """Class covariances, of which as much of the way from the pooled one is kept as is not noise.

        The pooled covariance, weighted by counts, has C times less noise than each of C classes alike; it is shrunk
        toward a sphere. What sets a class apart from it is multiplied by (1 - E|noise|^2/|.|^2)+, for that class.
        """
        shares = records / records.sum()
        pooled = np.tensordot(shares, covariances, 1)
        energies = self._energy / records**2
        energy = float(shares**2 @ energies)
        common = self._shrunk(pooled, energy)
        apart = energies * (1 - 2 * shares) + energy
        found = []
        for covariance, noise in zip(covariances, apart, strict=True):
            rest = covariance - pooled
            kept = max(0.0, 1 - float(noise) / max(float(np.square(rest).sum()), 1e-300))
            found.append(mixture.repaired(common + kept * rest, noise_energy=0.0, shrink=False, most=self._most))
        return found

    def _shrunk(self, matrix: Floats, energy: float) -> Floats:
        return mixture.shrunk(matrix, energy)

    @property
    def _energy(self) -> float:
        return self.stage.noise_energy(self.scale, self.stage.columns)

    @property
    def _most(self) -> float:
        """No direction has more variance than the square of the longest row."""
        return 1 + self.per_label**2

    def _moments(self, matrix: Floats, records: float) -> tuple[Floats, Floats]:
        """Mean and covariance from a count, a sum and a second moment.

        The product of a noisy mean with itself is too large by the variance of its noise, which is added back.
        """
        q, p = self.stage.columns, self.stage.turned.dim
        mean = matrix[:q, q] / self.per_constant / records
        mean[:p] = mixture.within_ball(mean[:p])
        mean[p:] = np.clip(mean[p:], -self.per_label, self.per_label)
        variance = self.stage.off_variance(self.scale) / (self.per_constant * records) ** 2
        return mean, matrix[:q, :q] / records - np.outer(mean, mean) + variance * np.eye(q)

    def _repaired(self, covariance: Floats, energy: float) -> Floats:
        return mixture.repaired(covariance, noise_energy=energy, shrink=self.shrink, most=self._most)

    def _component(self, weight: float, mean: Floats, covariance: Floats) -> Component:
        units = np.ones(self.stage.columns)
        if self.stage.labelled.numeric:
            units[-1] = 1 / self.per_label
        return Component(weight, mean * units, covariance * np.outer(units, units))
