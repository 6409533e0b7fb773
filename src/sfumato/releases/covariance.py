"""Covariances in the analyst's hands: variances, principal components and regressions with error bars.

Directions and covariances are in the schema's weighted units: column j counts as weight_j * value_j, a category as one
column per value. Divisors are the number of records, not one less. Everything is about the records that were released,
as they were clipped: error bars are those of the noise, without any sampling error. Intervals allow for what rounding
to the grid may have done as well (docs/mathematics.md, section 11). Nothing here costs privacy.
"""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sfumato import check, untrusted
from sfumato.errors import MissingDependency, ParameterError, ReleaseError
from sfumato.estimation import covariances, linear_models, quantities
from sfumato.estimation.covariances import Noisy, Sketched, View
from sfumato.estimation.linear_models import PrincipalComponents, Regression
from sfumato.fileformat import kinds
from sfumato.fileformat.manifest import CovarianceFacts, CovarianceManifest
from sfumato.intervals.estimate import Estimate, Quantity
from sfumato.intervals.moments import NoiseLaw
from sfumato.numerics.types import Floats
from sfumato.projection.moment_grid import MomentGrid
from sfumato.releases.release import Release

Direction = str | Mapping[str, float] | Sequence[float] | Floats

_SLOPES = Quantity("target per unit of the feature, in the columns' own units")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CovarianceRelease(Release):
    """Noisy sums of squares and products, or a sketch of them: ``columns`` has shape (1, numbers)."""

    manifest: CovarianceManifest

    def __post_init__(self) -> None:
        count = kinds.of(self.manifest).size(self.manifest)
        if self.columns.shape != (1, count):
            raise ReleaseError(f"this release must hold {count} numbers, got shape {self.columns.shape}")

    def __repr__(self) -> str:
        promise = self.guarantee
        what = f"epsilon={promise.epsilon:g}, delta={promise.delta:g}, unit={promise.unit!r}"
        whose = "about" if self._records is None else "of"
        return f"<covariance of {self._mechanism['columns']} columns, {whose} {self.records:.0f} records; {what}>"

    @property
    def _mechanism(self) -> CovarianceFacts:
        return self.manifest["mechanism"]

    @property
    def _records(self) -> int | None:
        """The number of records if it is public."""
        return self.manifest.get("rows")

    @property
    def rows(self) -> int:
        """The number of records, where it is public."""
        if self._records is None:
            raise ReleaseError("the number of records of this release is protected: use ``records``, a noisy estimate")
        return self._records

    @property
    def names(self) -> tuple[str, ...]:
        """The encoded columns, in the order of all vectors and matrices here."""
        return self.schema.encoding.names

    @property
    def view(self) -> View:
        """The published second moments with the law of their noise."""
        facts, values = self._mechanism, np.asarray(self.columns[0], np.float64)
        dim, rounding = int(facts["columns"]), self._frame.rounding
        if facts["noise"] != "sketch":
            law = NoiseLaw(facts["noise"], facts["standard_deviation"])
            return Noisy(values, dim, law, facts["anchor"], facts["centred"], self._records, rounding)
        drawn = values[: facts["sketch_rows"] * dim].reshape(-1, dim)
        if self._records is not None:
            return Sketched(drawn, facts["ridge"], (float(self._records), None), rounding)
        law = NoiseLaw("laplace", facts["count_scale"] * 2**0.5)
        return Sketched(drawn, facts["ridge"], (float(values[-1]), law), rounding)

    @property
    def _frame(self) -> MomentGrid:
        """The grid that the records were rounded to: 2^-11 of the widest column in 0.1.0, finer since."""
        return MomentGrid.of(self.schema, int(self.manifest["lattice"]["input_bits"]))

    @property
    def records(self) -> float:
        """The number of records, public or estimated; at least 1."""
        return self.view.records

    @property
    def about(self) -> str:
        """What variances are about, in words; only a centred release speaks of the mean."""
        if self._mechanism["centred"]:
            return "the mean"
        return "the middle of the bounds" if self.schema.norm is None else "the origin"

    def array(self) -> Floats:
        """The published numbers: sums of squares and products as a symmetric matrix, or the rows of the sketch.

        With sums or a number of records, these fill the last row and column: times the anchor, and its square.
        """
        view = self.view
        return view.rows if isinstance(view, Sketched) else view.matrix

    def centre(self) -> Floats:
        """What covariances are taken about, in weighted units: the noisy mean, or the public middle of the bounds.

        Sketches about the mean publish no mean: the public middle again.
        """
        view, encoding = self.view, self.schema.encoding
        moved = view.mean if isinstance(view, Noisy) else np.zeros(encoding.dim)
        return np.asarray(self._frame.centre * encoding.weights + moved)

    def covariance(self, *, repair: bool = False) -> Floats:
        """The covariance matrix: about the mean if the release is centred, otherwise about the middle of the bounds.

        Error:  unbiased where the number of records is public; otherwise but for the noise on that number. Such a
                matrix may have negative eigenvalues. ``repair`` sets them to 0, which brings it nearer to the truth in
                the Frobenius norm, and makes small variances look larger than they are.
        """
        found = self.view.covariance()
        return covariances.nearest_semidefinite(found) if repair else found

    def variance(self, direction: Direction) -> Estimate:
        """The variance of the records along a direction: a column's name, weights of a few columns, or a vector."""
        vector = self._vector(direction)
        most = self._most * float(vector @ vector)
        return self.view.variance(vector, most).of(self._variance(most))

    def principal_components(self, k: int) -> PrincipalComponents:
        """The k directions of largest variance, with intervals for all eigenvalues at once."""
        found = linear_models.principal_components(self.view, k, self._most)
        return replace(found, variances=found.variances.of(self._variance(self._most)))

    def regression(self, features: Sequence[str], target: str, *, ridge: float = 0.0) -> Regression:
        """Least squares of one encoded column on others, in the columns' own units, from the noisy covariance.

        Error:  coefficients are consistent, not unbiased; errors by the delta method. A release that is not centred
                gives a line through the middle of the bounds.
        """
        places, aim = [self._place(name) for name in features], self._place(target)
        check.not_negative(ridge=ridge)
        if not places or aim in places or len(set(places)) < len(places):
            raise ParameterError("features must be one or more distinct columns, without the target")
        weights = self.schema.encoding.weights
        found = linear_models.coefficients(self.view, (places, aim), weights[places] / weights[aim], float(ridge))
        if found is None:
            raise ReleaseError(
                "the noisy covariance of the features is singular: use fewer features, or a ridge > 0 (in squared "
                "weighted units)"
            )
        intercept = None
        if not (self._mechanism["noise"] == "sketch" and self._mechanism["centred"]):
            centre = self.centre() / weights
            intercept = float(centre[aim] - centre[places] @ np.atleast_1d(found.value))
        return Regression(tuple(features), target, found.of(_SLOPES), intercept)

    def to_sklearn(self, k: int | None = None) -> Any:
        """A fitted ``sklearn.decomposition.PCA`` of the repaired covariance, for encoded rows in weighted units.

        Its ``mean_`` is ``centre()``.
        """
        try:
            library = importlib.import_module("sklearn.decomposition")
        except ImportError:
            raise MissingDependency("to_sklearn needs scikit-learn: pip install 'sfumato[sklearn]'") from None
        dim = int(self._mechanism["columns"])
        count = dim if k is None else k
        found = self.principal_components(count)
        every = np.maximum(self.principal_components(dim).variances.value, 0.0)
        pca = library.PCA(n_components=count)
        pca.n_features_in_, pca.n_components_, pca.n_samples_ = dim, count, max(round(self.records), 1)
        pca.mean_, pca.components_ = self.centre(), np.ascontiguousarray(found.vectors.T)
        pca.explained_variance_ = every[:count]
        pca.explained_variance_ratio_ = every[:count] / max(float(every.sum()), np.finfo(float).tiny)
        pca.singular_values_ = np.sqrt(every[:count] * pca.n_samples_)
        pca.noise_variance_ = float(every[count:].mean()) if count < dim else 0.0
        return pca

    @property
    def _most(self) -> float:
        """The most that a variance along a direction of length 1 can be."""
        return float(self._mechanism["longest"]) ** 2

    def _variance(self, most: float) -> Quantity:
        """Variances of the records along a direction: at most this, by the bounds."""
        return Quantity(quantities.unit(self.schema, f"variance about {self.about}"), 0.0, most)

    def _place(self, name: str) -> int:
        if name not in self.names:
            raise ParameterError(
                f"there is no encoded column {name!r}: the columns are {untrusted.line(', '.join(self.names[:20]))}"
            )
        return self.names.index(name)

    def _vector(self, direction: Direction) -> Floats:
        if isinstance(direction, str):
            direction = {direction: 1.0}
        if isinstance(direction, Mapping):
            vector = np.zeros(len(self.names))
            for name, weight in direction.items():
                vector[self._place(name)] = weight
        else:
            vector = np.asarray(direction, np.float64)
        if vector.shape != (len(self.names),) or not np.isfinite(vector).all() or not vector.any():
            raise ParameterError(f"a direction has {len(self.names)} finite numbers that are not all 0")
        return vector
