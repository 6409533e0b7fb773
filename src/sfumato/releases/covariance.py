"""Covariances in the analyst's hands: covariance and correlation tables, regressions and components, with error bars.

What is asked by the names of columns is in the columns' own units; a category is one 0/1 column per value. Vectors of
numbers (principal components, ``centre``, ``second_moments``) are in the schema's weighted units: column j counts as
weight_j * value_j. Divisors are the number of records, not one less. Everything is about the records that were
released, as they were clipped: error bars are those of the noise, without any sampling error. Intervals allow for what
rounding to the grid may have done as well (docs/mathematics.md, section 11). Nothing here costs privacy.
"""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sfumato import check
from sfumato.errors import MissingDependency, ParameterError, ReleaseError
from sfumato.estimation import linear_models, moment_table, quantities
from sfumato.estimation.covariances import Noisy, Sketched, View
from sfumato.estimation.linear_models import LeastSquares, PrincipalComponents, Regression
from sfumato.estimation.moment_table import MomentColumns, MomentTable
from sfumato.estimation.summed_noise import SummedLaw
from sfumato.fileformat import kinds
from sfumato.fileformat.manifest import CovarianceFacts, CovarianceManifest
from sfumato.intervals.estimate import Estimate, Quantity
from sfumato.intervals.moments import NoiseLaw
from sfumato.numerics.types import Floats
from sfumato.projection.moment_grid import MomentGrid
from sfumato.releases.release import NumbersRelease
from sfumato.tables.encoding import encoded_names

Direction = str | Mapping[str, float] | Sequence[float] | Floats

_SLOPES = Quantity("target per unit of the feature, in the columns' own units")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CovarianceRelease(NumbersRelease):
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
            law = summed_law(facts) or NoiseLaw(facts["noise"], facts["standard_deviation"])  # type: ignore[arg-type]
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
    def centred(self) -> bool:
        """Whether the release is about the mean of the records; otherwise it is about the middle of their bounds."""
        return bool(self._mechanism["centred"])

    @property
    def about(self) -> str:
        """What variances are about, in words; only a centred release speaks of the mean."""
        if self.centred:
            return "the mean"
        return "the middle of the bounds" if self.schema.norm is None else "the origin"

    def array(self) -> Floats:
        """The published numbers in one row, as the file has them: no matrix, and not the covariance.

        ``covariance``, ``correlation`` and ``second_moments`` are matrices that are made of them. Their order is in
        docs/file-format.md.
        """
        return np.array(self.columns[0], np.float64)

    def second_moments(self) -> Floats:
        """The noisy sums of squares and products over all records, about the public centre, in weighted units.

        From a sketch: the sums that it estimates, about the mean if it is centred.
        """
        view = self.view
        if isinstance(view, Sketched):
            return np.asarray(view.covariance() * view.records)
        return np.array(view.matrix[:-1, :-1])

    def centre(self) -> Floats:
        """What covariances are taken about, in weighted units: the noisy mean, or the public middle of the bounds.

        Sketches about the mean publish no mean: the public middle again.
        """
        view, encoding = self.view, self.schema.encoding
        moved = view.mean if isinstance(view, Noisy) else np.zeros(encoding.dim)
        return np.asarray(self._frame.centre * encoding.weights + moved)

    def covariance(self, *, repair: bool = True) -> MomentTable:
        """The covariance matrix as a labelled table with errors, in the columns' own units.

        About the mean if the release is centred, otherwise about the middle of the bounds. ``repair`` sets negative
        eigenvalues to 0, and the table says what that changed.
        Error:  unbiased before the repair where the number of records is public; otherwise but for the noise on that
                number. The repair brings the matrix nearer to the truth in the Frobenius norm of weighted units, and
                makes small variances look larger than they are: take averages of ``raw``.
        """
        return moment_table.covariance_table(self.view, self._moment_columns, self.about, repair=repair)

    def correlation(self, *, repair: bool = True) -> MomentTable:
        """The correlation matrix as a labelled table with errors: entries in [-1, 1], and 1 on the diagonal.

        A column whose variance is not distinguishable from 0 has no correlations (nan), and intervals from -1 to 1.
        Error:  consistent, not unbiased. Intervals are those in which the covariance less the correlation times both
                deviations is within its own noise of 0 (Fieller), so they allow for noise in the variances.
        """
        if not self.centred:
            raise ReleaseError(
                f"this release is about {self.about} and publishes no mean, so correlations are unknown: make one with "
                "centred=True, which is the default"
            )
        return moment_table.correlation_table(self.view, self._moment_columns, repair=repair)

    def variance(self, direction: Direction) -> Estimate:
        """The variance of a column, or of a weighted sum of a few, in their own units; or along a vector.

        direction : a column's name, or the weights of some columns by name. A vector of numbers, one for each encoded
                    column, is a direction in weighted units, as principal components are.
        """
        vector, named = self._vector(direction), isinstance(direction, (str, Mapping))
        half = self._frame.half * self._frame.step
        most = min(self._most * float(vector @ vector), float(np.abs(vector) @ half) ** 2)
        unit = "the columns' own units" if named else None
        return self.view.variance(vector, most).of(self._variance(most, unit))

    def principal_components(self, k: int) -> PrincipalComponents:
        """The k directions of largest variance, with intervals for all eigenvalues at once; in weighted units."""
        found = linear_models.principal_components(self.view, k, self._most)
        return replace(found, variances=found.variances.of(self._variance(self._most)))

    def regression(self, target: str, features: Sequence[str] | None = None, *, ridge: float = 0.0) -> Regression:
        """Least squares of one encoded column on others, in the columns' own units, from the noisy covariance.

        features : encoded columns, or columns of the schema: a category then stands for all its values but the first,
                   which is the one that the others are compared with. None: all columns but the target's.
        ridge    : added to each feature's variance, in squared weighted units.
        Error:  coefficients are consistent, not unbiased; errors by the delta method. A release that is not centred
                gives a line through the middle of the bounds.
        """
        names = self._features(target, features)
        places, aim = [self._place(name) for name in names], self._place(target)
        check.not_negative(ridge=ridge)
        if not places or aim in places or len(set(places)) < len(places):
            raise ParameterError("features must be one or more distinct columns, without the target")
        solved = LeastSquares.of(self.view, (places, aim), float(ridge))
        if solved is None:
            raise ReleaseError(
                "the noisy covariance of the features is singular: use fewer features, or a ridge > "
                f"{ridge:g} (in squared weighted units)"
            )
        weights = self.schema.encoding.weights
        intercept = None
        if not (self._mechanism["noise"] == "sketch" and self.centred):
            intercept = solved.intercept(self.centre(), 1 / weights[aim], mean=self.centred)
            intercept = intercept.of(Quantity("the target's own unit"))
        slopes = solved.coefficients(weights[places] / weights[aim]).of(_SLOPES)
        return Regression(target, names, slopes, intercept, self._cautions(solved))

    def _cautions(self, solved: LeastSquares) -> tuple[str, ...]:
        """What a reader of a regression should know."""
        found = []
        if not self.centred:
            found.append(f"The line goes through {self.about}: the release publishes no mean.")
        if not solved.distinguishable:
            found.append(
                "Noise hides how some of the features differ: errors are larger than stated. Use fewer features."
            )
        return tuple(found)

    def _features(self, target: str, features: Sequence[str] | None) -> tuple[str, ...]:
        """The encoded columns that a regression is on."""
        if not isinstance(target, str):
            raise ParameterError("name the target first, then the features: regression('income', ['age', 'hours'])")
        if isinstance(features, str):
            raise ParameterError(f"features is a list of columns, got {features!r}: use [{features!r}]")
        parts = {column.name: encoded_names(column) for column in self.schema.data_columns}
        if features is None:
            self._place(target)
            features = [name for name, encoded in parts.items() if target not in encoded]
        named = set(self.names)
        found = [[name] if name in named else _compared(parts.get(name, [name])) for name in features]
        return tuple(name for part in found for name in part)

    def encoded(self, columns: Sequence[str]) -> list[str]:
        """The encoded columns that some names mean: a category of the schema means all its values."""
        parts = {column.name: encoded_names(column) for column in self.schema.data_columns}
        found = [[name] if name in self.names else parts.get(name, [name]) for name in columns]
        return [name for part in found for name in part]

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

    @property
    def _moment_columns(self) -> MomentColumns:
        """The encoded columns, as tables of covariances and correlations have them."""
        frame, weights = self._frame, self.schema.encoding.weights
        return MomentColumns(self.names, weights, frame.half * frame.step / weights)

    def _variance(self, most: float, unit: str | None = None) -> Quantity:
        """Variances of the records along a direction: at most this, by the bounds."""
        what = f"variance about {self.about}"
        return Quantity(quantities.unit(self.schema, what) if unit is None else f"{what}, in {unit}", 0.0, most)

    def _place(self, name: str) -> int:
        return moment_table.place_of(name, self.names)

    def _vector(self, direction: Direction) -> Floats:
        if isinstance(direction, str):
            direction = {direction: 1.0}
        if isinstance(direction, Mapping):
            vector = np.zeros(len(self.names))
            for name, weight in direction.items():
                place = self._place(name)
                vector[place] = weight / self.schema.encoding.weights[place]
        else:
            vector = np.asarray(direction, np.float64)
        if vector.shape != (len(self.names),) or not np.isfinite(vector).all() or not vector.any():
            raise ParameterError(f"a direction has {len(self.names)} finite numbers that are not all 0")
        return vector


def summed_law(facts: CovarianceFacts) -> SummedLaw | None:
    """The noise on a covariance that is a sum over owners whose noises differ; None for others."""
    if facts["noise"] != "sum":
        return None
    return SummedLaw.of((one["noise"], one["scale"], one["owners"]) for one in facts["noises"])


def _compared(encoded: list[str]) -> list[str]:
    """The encoded columns of one column that a regression is on: of a category, all but the first."""
    return encoded[1:] if len(encoded) > 1 else encoded
