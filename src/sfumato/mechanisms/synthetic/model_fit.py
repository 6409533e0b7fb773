"""Gaussians that fit noisy second moments, knowing the law of the noise. All of it is post-processing: no cost."""

from dataclasses import dataclass

import numpy as np

from sfumato.estimation import gaussians
from sfumato.estimation.gaussians import Component, Shrink
from sfumato.mechanisms.synthetic.stages import MomentStage
from sfumato.numerics.types import Floats

_FLOOR = 0.2  # with a label: slopes divide by variances, and go astray along directions whose variance is noise


@dataclass(frozen=True, slots=True, eq=False)
class Fitting:
    """What makes Gaussians of the matrices of a stage whose noise had this scale.

    Everything is in units where rows of length 1 are worth 1 and the noise is the same in all columns; a numeric label
    is put in its own, from -1 to 1, at the end.
    """

    stage: MomentStage
    scale: float
    shrink: Shrink

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
        return self._component(1.0, mean, matrix / records - np.outer(mean, mean), records)

    def everyone(self, matrix: Floats, records: float) -> Component:
        """One Gaussian for all rows, whose sum is in the matrix."""
        return self._component(1.0, *self._moments(matrix, records), records)

    def classes(self, matrices: Floats, counts: Floats) -> list[Component]:
        """One Gaussian for each class, weighted by its count."""
        records = np.maximum(counts, 1.0)
        found = [self._moments(matrix, n) for matrix, n in zip(matrices, records, strict=True)]
        weights = np.maximum(counts, 0.0) / max(1.0, float(np.maximum(counts, 0.0).sum()))
        parts = zip(weights, records, found, strict=True)
        return [self._component(float(w), mean, covariance, n) for w, n, (mean, covariance) in parts]

    def _moments(self, matrix: Floats, records: float) -> tuple[Floats, Floats]:
        """Mean and covariance from a count, a sum and a second moment.

        The product of a noisy mean with itself is too large by the variance of its noise, which is added back.
        """
        q, p = self.stage.columns, self.stage.turned.dim
        mean = matrix[:q, q] / self.per_constant / records
        mean[:p] = gaussians.within_ball(mean[:p])
        mean[p:] = np.clip(mean[p:], -self.per_label, self.per_label)
        variance = self.stage.off_variance(self.scale) / (self.per_constant * records) ** 2
        return mean, matrix[:q, :q] / records - np.outer(mean, mean) + variance * np.eye(q)

    def _component(self, weight: float, mean: Floats, covariance: Floats, records: float) -> Component:
        """A Gaussian whose covariance is freed of noise. No direction varies by more than the longest row's square."""
        energy = self.stage.noise_energy(self.scale, self.stage.columns) / records**2
        numeric = self.stage.labelled.numeric
        found = gaussians.repaired(
            covariance,
            noise_energy=energy,
            shrink=self.shrink,
            floor=_FLOOR if numeric and self.shrink == "spectrum" else 0.0,
            most=1 + self.per_label**2,
        )
        units = np.ones(self.stage.columns)
        if numeric:
            units[-1] = 1 / self.per_label
        return Component(weight, mean * units, found * np.outer(units, units))
