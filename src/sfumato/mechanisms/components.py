"""Principal components with noise: every record becomes its place within a subspace that was found privately.

Jiang et al. 2013 (*Differential-private data publication through component analysis*) take the principal components of
the data as they are; here they are private too. Stage 1 spends the share ``split`` of the budget on a noisy second
moment (``second_moment``), whose leading eigenvectors W are post-processing of it. Stage 2 spends the rest on a sketch
with the projection W: for whoever knows stage 1, W is fixed.

Formal guarantee: a run at a level whose loss satisfies delta(epsilon) <= delta is (epsilon, delta)-differentially
private for the unit, neighbours and change of the guarantee it was prepared for. Steps of the argument: stage 1 has the
loss stated in ``SecondMoment``; given any outcome of it, stage 2 has the loss of a sketch with a fixed projection, the
same for every W, since its noise is in proportion to the sensitivity of the W in hand; adaptive composition adds the
two up. What is published (W, rows) is less than what is accounted for (the noisy matrix, rows).
"""

from dataclasses import dataclass, replace

import numpy as np
import scipy

from sfumato import check, defaults
from sfumato.errors import ParameterError
from sfumato.fileformat.manifest import Facts
from sfumato.mechanisms.base import (
    Noise,
    Prepared,
    Published,
    Recipe,
    check_columns,
    check_noise,
    check_shows_rows,
    order_of,
    settled,
    split_levels,
    split_loss,
)
from sfumato.mechanisms.second_moment import SecondMoment
from sfumato.mechanisms.sketch import PreparedSketch, Sketch, prepare_given
from sfumato.numerics.types import Floats, Order
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Loss
from sfumato.randomness.secret import Secret
from sfumato.tables.blocks import Rows
from sfumato.tables.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Components(Recipe):
    """The recipe: every record becomes its noisy place within principal components that were found privately.

    dimension : how many components are kept, so how many numbers each record becomes.
    noise     : left out, Gaussian where delta > 0, else Laplace.
    split     : the share of the budget that finding them costs: of epsilon with Laplace noise, of (sensitivity over
                scale)^2, which is what adds up, with Gaussian noise.
    The second moment is taken about the middle of the bounds, which is public; data that lie far from it spend their
    first component on saying so.
    """

    dimension: int
    noise: Noise | None = defaults.NOISE
    split: float = defaults.SPLIT
    publish_projection: bool = True

    def __post_init__(self) -> None:
        check.whole(1, dimension=self.dimension)
        check.one_of(("laplace", "gaussian"), noise=self.noise or "gaussian")
        check.positive(split=self.split)
        if not self.split < 1:
            raise check.fail("split", self.split, "below 1: both stages need a share")

    @property
    def width(self) -> int:
        """How many numbers each record becomes."""
        return self.dimension

    @property
    def order(self) -> Order:
        """The norm that the noise protects against."""
        return order_of(settled(self.noise))

    def prepare(self, schema: Schema, guarantee: Guarantee) -> "PreparedComponents":
        """Compute what one unit can move in the second moment, before any data is read."""
        if self.noise is None:
            return replace(self, noise=defaults.noise_of_sums(guarantee.delta)).prepare(schema, guarantee)
        _check_possible(self, schema, guarantee)
        return PreparedComponents(self, schema, guarantee, SecondMoment.prepare(schema, guarantee, self.order))


def _check_possible(recipe: Components, schema: Schema, guarantee: Guarantee) -> None:
    """Refuse what a mechanism that publishes records by principal components cannot promise."""
    columns = schema.encoding.dim
    check_shows_rows(guarantee, "components show one row per record")
    check_noise(guarantee, settled(recipe.noise))
    if guarantee.projection == "fresh":
        raise ParameterError("components follow the data, so no law of theirs protects: use projection='fixed'")
    if recipe.dimension > columns:
        raise check.fail("dimension", recipe.dimension, f"at most {columns}, the number of encoded columns")
    check_columns("components", columns, "use a sketch")


@dataclass(frozen=True, slots=True, eq=False)
class PreparedComponents(Prepared):
    """Components whose first stage has a known sensitivity; level = noise scale over sensitivity, for both stages."""

    recipe: Components
    schema: Schema
    guarantee: Guarantee
    moment: SecondMoment

    @property
    def dimension(self) -> int:
        """How many numbers each record becomes."""
        return self.recipe.dimension

    @property
    def settings(self) -> dict[str, str | int | None]:
        """Numbers of each record, and noise."""
        return {"dimension": self.dimension, "noise": self.recipe.noise}

    def levels(self, level: float) -> tuple[float, float]:
        """Noise scale over sensitivity of the two stages, such that their losses add up to that of ``level``."""
        return split_levels(level, self.recipe.split, self.recipe.order)

    def loss(self, level: float) -> Loss:
        """The loss of the two stages together: finding principal components, and noise on each record's place."""
        return split_loss(*self.levels(level), self.recipe.order)

    def run(self, rows: Rows, level: float, secret: Secret) -> Published:
        """The published numbers, one row of ``dimension`` of them per record, in weighted units.

        Guarantee: as stated at the top, at the loss of ``level``. The rows are read twice, and clipped both times.
        """
        first, second = self.levels(level)
        components = principal(self.moment.noisy(rows, first, secret), self.dimension)
        stage = self.second_stage(components)
        return replace(stage.run(rows, second, secret), facts=self.facts(level, stage))

    def second_stage(self, components: Floats) -> PreparedSketch:
        """The sketch by these components, which are public and so as good as fixed."""
        recipe = Sketch(
            dimension=self.dimension,
            projection="orthonormal",
            noise=self.recipe.noise,
            publish_projection=self.recipe.publish_projection,
        )
        return prepare_given(recipe, self.schema, self.guarantee, components)

    def facts(self, level: float, stage: PreparedSketch) -> Facts:
        """What the manifest says of a run at this level with this second stage: functions of what is published."""
        first, second = self.levels(level)
        facts = stage.facts(second)
        own = {"name": "components", "split": self.recipe.split, "moments": self.moment.noise_facts(first)}
        return facts | {"kind": "components", "mechanism": facts["mechanism"] | own}


def principal(moment: Floats, dimension: int) -> Floats:
    """Principal components of the mechanism's noisy second moment, as orthonormal columns, largest eigenvalue first.

    The entry of largest size of each is positive, the first of them if there are several.
    """
    dim = len(moment)
    vectors = scipy.linalg.eigh(moment, subset_by_index=(dim - dimension, dim - 1))[1][:, ::-1]
    peaks = vectors[np.abs(vectors).argmax(axis=0), np.arange(dimension)]
    return np.asarray(vectors * np.where(peaks < 0, -1.0, 1.0))
