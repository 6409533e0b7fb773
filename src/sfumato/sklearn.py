"""scikit-learn estimators over the same mechanism.

Fitting spends no privacy: it learns the number of columns and nothing else. **Every** ``transform`` of private
rows is a new release with fresh noise, and releases of the same rows add up; transform once and keep the result.
"""

from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from sfumato import defaults
from sfumato.estimation import neighbours
from sfumato.mechanisms.sketch import Sketch
from sfumato.numerics.types import Floats
from sfumato.pipeline import release
from sfumato.privacy.guarantee import Guarantee
from sfumato.projection.families import Family
from sfumato.tables.encoding import Scale
from sfumato.tables.schema import Schema


class SketchTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Private sketches as a transformer: one row of ``n_components`` noisy numbers for each record.

    Guarantee: each call of ``transform`` is an (epsilon, delta)-private release for the unit, with values clipped to
    [low, high]; k calls on the same rows are k releases. The projection is fixed by ``seed``, which is public.

    low, high : bounds of every column (numbers, or one per column), from knowledge and never from the data.
    scale     : as of a schema: columns of different bounds count in units of their range (``bounds``), or in their own
                (``raw``).
    ledger    : where every call of ``transform`` is charged.
    """

    def __init__(  # noqa: PLR0913 - scikit-learn wants every parameter here
        self,
        n_components: int = 32,
        *,
        low: Any = 0.0,
        high: Any = 1.0,
        epsilon: float = 1.0,
        delta: float = defaults.DELTA,
        unit: Literal["attribute", "record"] = defaults.UNIT,
        projection: Family = "sparse",
        noise: Literal["laplace", "gaussian"] | None = defaults.NOISE,
        seed: int = 0,
        scale: Scale = defaults.SCALE,
        ledger: release.Budget = None,
    ) -> None:
        self.n_components = n_components
        self.low = low
        self.high = high
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.projection = projection
        self.noise = noise
        self.seed = seed
        self.scale = scale
        self.ledger = ledger

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803
        """Learn the number of columns and check the parameters. Spends nothing."""
        del y
        validate_data(self, X, reset=True, dtype=None, ensure_all_finite=False)
        schema = replace(Schema.reals(self.n_features_in_, low=self.low, high=self.high), scale=self.scale)
        guarantee = Guarantee(epsilon=self.epsilon, delta=self.delta, unit=self.unit)
        mechanism = Sketch(
            dimension=self.n_components,
            projection=self.projection,
            noise=self.noise,
            seed=self.seed,
        )
        mechanism.prepare(schema, guarantee)
        self.schema_, self.guarantee_, self.mechanism_ = schema, guarantee, mechanism
        self._n_features_out = self.n_components
        return self

    def __sklearn_tags__(self) -> Any:
        """Missing and infinite cells are clipped; they never raise, for that would tell about a cell."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def transform(self, X: Any) -> Floats:  # noqa: N803
        """A NEW private release of these rows: fresh noise, and a cost of (epsilon, delta) each time."""
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False, dtype=None, ensure_all_finite=False)
        terms: dict[str, Any] = {"mechanism": self.mechanism_, "guarantee": self.guarantee_, "ledger": self.ledger}
        made = release.release(rows, schema=self.schema_, **terms)
        return np.ascontiguousarray(made.array())


class SketchKMeans(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """K-means of rows that are already private; costs nothing. Noise of one law everywhere moves no centre."""

    def __init__(self, n_clusters: int = 8, *, seed: int = 0) -> None:
        self.n_clusters = n_clusters
        self.seed = seed

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803
        """Find the centres."""
        del y
        rows = validate_data(self, X, reset=True, dtype=np.float64)
        found = neighbours.cluster(rows, self.n_clusters, np.random.default_rng(self.seed))
        self.cluster_centers_, self.labels_ = found.centres, found.labels
        return self

    def predict(self, X: Any) -> NDArray[np.int64]:  # noqa: N803
        """The nearest centre of each row."""
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False, dtype=np.float64)
        labels, _ = neighbours.assign(rows, np.asarray(self.cluster_centers_))
        return labels
