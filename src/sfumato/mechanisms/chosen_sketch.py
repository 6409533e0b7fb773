"""A sketch whose dimension is chosen from the private data, by the exponential mechanism, at a stated cost.

The plan needs a scale of distance. Whoever cannot name one may let the data choose among a few dimensions: records are
paired in order (first with second, third with fourth, ...), and each pair scores every dimension by how close it comes
to the best one at this pair's distance, between 0 and 1. One dimension is then drawn with probability in proportion to
exp(epsilon * score / (2 g)), exactly.

Formal guarantee: a run at a level whose loss satisfies delta(epsilon) <= delta is (epsilon, delta)-differentially
private for the guarantee it was prepared for. A record belongs to one pair, so the rows of one person (at most g) move
each score by at most g, and the choice is Pure(choice) (McSherry and Talwar 2007). Given the choice, the sketch is one
with a fixed projection; adaptive composition adds the two up. Scores are sums of integers, so no rounding can add to
what a pair moves.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.intervals.moments import Geometry, NoiseLaw, SketchLaw
from sfumato.mechanisms.base import Prepared, Published, Recipe, settled
from sfumato.mechanisms.sketch import PreparedSketch, Sketch
from sfumato.numerics.types import Floats, Integers
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Composed, Loss, Pure
from sfumato.randomness.noise import deviation
from sfumato.randomness.secret import Secret
from sfumato.tables.blocks import Rows
from sfumato.tables.schema import Schema

_FINEST = 20  # bits of a pair's score
_CANDIDATES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenSketch(Recipe):
    """The recipe: a sketch whose dimension is chosen from the private data.

    choice     : the part of epsilon that choosing costs; the rest is for the sketch.
    candidates : dimensions to choose from; left out, up to 12 between 1 and the number of columns.
    sketch     : everything but the dimension. Its noise is one for all of them: left out, Laplace.
    """

    choice: float
    candidates: tuple[int, ...] | None = None
    sketch: Sketch = field(default_factory=lambda: Sketch(dimension=1))

    def __post_init__(self) -> None:
        check.positive(choice=self.choice)
        if self.sketch.space is not None:
            raise ParameterError(
                "a shared space fixes the dimension, so there is none to choose: use Sketch(space=...)"
            )
        object.__setattr__(self, "sketch", replace(self.sketch, noise=self.sketch.noise or "laplace"))
        if self.candidates is not None:
            check.whole(1, **{f"candidates[{i}]": k for i, k in enumerate(self.candidates)})
            if len(set(self.candidates)) < 2:
                raise check.fail("candidates", self.candidates, "at least two different dimensions")

    def prepare(self, schema: Schema, guarantee: Guarantee) -> "PreparedChoice":
        """Prepare a sketch of every candidate dimension, before any data is read."""
        if guarantee.projection == "fresh":
            raise ParameterError(
                "a dimension is chosen from the data for fixed projections only: use projection='fixed'"
            )
        if self.choice >= guarantee.epsilon:
            raise check.fail("choice", self.choice, f"below epsilon={guarantee.epsilon!r}: the sketch needs the rest")
        dims = self.candidates or _spread(schema.encoding.dim)
        sketches = tuple(replace(self.sketch, dimension=k).prepare(schema, guarantee) for k in dims)
        return PreparedChoice(self, schema, guarantee, sketches)


def _spread(columns: int) -> tuple[int, ...]:
    """Candidate dimensions for a sketch to choose from, in equal ratios from 1 to the number of columns."""
    return tuple(sorted({round(x) for x in np.geomspace(1, columns, _CANDIDATES)}))


@dataclass(frozen=True, slots=True, eq=False)
class PreparedChoice(Prepared):
    """Sketches of every candidate dimension, of which one will be run; level = noise scale over its sensitivity."""

    recipe: ChosenSketch
    schema: Schema
    guarantee: Guarantee
    sketches: tuple[PreparedSketch, ...]

    def loss(self, level: float) -> Loss:
        """The loss of choosing the sketch's dimension and of the sketch, together."""
        return Composed([Pure(self.recipe.choice), self.sketches[0].loss(level)])

    def run(self, rows: Rows, level: float, secret: Secret) -> Published:
        """Choose the dimension, then sketch: the rows are read twice, and clipped both times."""
        published = self.sketches[self.choose(rows, level, secret)].run(rows, level, secret)
        choice = {"epsilon": self.recipe.choice, "candidates": [s.dimension for s in self.sketches]}
        mechanism = published.facts["mechanism"] | {"choice": choice}
        return replace(published, facts=published.facts | {"mechanism": mechanism})

    def choose(self, rows: Rows, level: float, secret: Secret) -> int:
        """The place of the dimension chosen for the sketch. Guarantee: Pure(choice), as stated at the top."""
        scores = rows.sum(self._scorer(level))
        parameters = f"dimension {self.recipe!r} {self.guarantee!r} {self.schema.digest}"
        rate = math.nextafter(self.recipe.choice / (2 * self.guarantee.group), 0.0)
        return secret.words(parameters, 0, scores).choose(scores.tolist(), rate, bits=_FINEST)

    def _scorer(self, level: float) -> Callable[[int, Floats], Integers]:
        """Scores of the sketch's candidate dimensions: a block to sums over its pairs, in units of 2^-20."""
        encoding = self.schema.encoding
        scales = [sketch.scale(level) * sketch.unit for sketch in self.sketches]
        unit = max(scales)  # lengths and noise are measured in the largest noise, so that no square is out of range
        laws = [
            SketchLaw(self._law(sketch, scale / unit), Geometry(sketch.recipe.family, encoding.dim, sketch.dimension))
            for sketch, scale in zip(self.sketches, scales, strict=True)
        ]

        def scores(position: int, block: Floats) -> Integers:
            clipped = self.schema.clip(np.nan_to_num(block)) * (encoding.weights / unit)[:, None]
            first = position % 2  # blocks start anywhere; a pair that a block's edge cuts does not score
            even, odd = clipped[:, first::2], clipped[:, first + 1 :: 2]
            with np.errstate(all="ignore"):
                squared = np.square(even[:, : odd.shape[1]] - odd).sum(axis=0)
                variances = np.array([law.distance_variance(squared) for law in laws])
                shares = np.nan_to_num(variances.min(axis=0) / variances, nan=0.0, posinf=1.0, neginf=0.0)
            return np.asarray(np.floor(np.clip(shares, 0.0, 1.0) * 2.0**_FINEST).astype(np.int64).sum(axis=1))

        return scores

    def _law(self, sketch: PreparedSketch, scale: float) -> NoiseLaw:
        return NoiseLaw(settled(sketch.recipe.noise), deviation(sketch.order, scale))
