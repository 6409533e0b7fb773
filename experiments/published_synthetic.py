"""RON-Gauss with the constants of its paper: NOT PRIVATE for more than two columns. For comparisons and errata alone.

Chanyaswad, Liu and Mittal 2019, Lemma 4: one record is said to move the second moment of p columns by 2 sqrt(p) in the
l1 norm; it moves it by sqrt(2) p for even p, along the outermost eigenvectors of [[J, J], [J, -J]]. So the largest loss
of a run that claims epsilon is sqrt(p/2) epsilon. A release made here says that it does not keep its claim; it must not
be charged to a ledger, which would take the claim for its cost.

To let an audit see the second moment alone, ``second_moment_draws`` has W = I, the centre 0, and all of epsilon for
that stage: what another stage adds would only hide it.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.block_rows import Copies
from sfumato.audit.recorder import Draw
from sfumato.audit.trials import Trial, of_draws
from sfumato.errors import ParameterError
from sfumato.mechanisms.base import Noise
from sfumato.mechanisms.synthetic.recipe import PreparedSynthetic, Synthetic
from sfumato.mechanisms.synthetic.stages import MomentStage
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Composed, Laplace, Loss
from sfumato.projection.unit_ball import Centring, Turned
from sfumato.tables.schema import Schema

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

WARNING = (
    "NOT PRIVATE AS CLAIMED: made with the constants published for RON-Gauss, whose proof fails for more "
    "than two columns; a baseline for comparison alone"
)


def published_move(dim: int, *, top: float = 1.0) -> float:
    """What Lemma 4 says of the whole matrix in order 1. False for more than two columns.

    The truth is sqrt(2) * dim for even dim, attained along the extreme eigenvectors of [[J, J], [J, -J]].
    """
    return 2 * math.sqrt(dim) * top**2


def whole_move(dim: int, *, top: float = 1.0) -> float:
    """A proved bound for the whole matrix in order 1: as for triangles, with |S_ij| = 1; exact for even dim."""
    return top**2 if dim == 1 else math.sqrt(2) * dim * top**2 * (1 + 2.0**-45)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSynthetic(Synthetic):
    """The recipe with the noise of the paper: Laplace, on every entry of the matrix, for rows without labels."""

    noise: Noise | None = "laplace"

    @property
    def about(self) -> Centring:
        """The paper has two stages."""
        return "private" if self.centring == "best" else self.centring

    @property
    def not_covered(self) -> tuple[str, ...]:
        """All of it: the claim does not hold, so a ledger refuses it unless exceptions are asked for."""
        return (*Synthetic.not_covered.fget(self), WARNING)  # type: ignore[attr-defined]

    @property
    def context(self) -> str:
        """As version 0.1.0 wrote it, so that results can be made again to the bit."""
        usual = Synthetic.context.fget(self).replace("PublishedSynthetic(", "Synthetic(", 1)  # type: ignore[attr-defined]
        return usual.replace("constants='proved', as_published=False", "constants='published', as_published=True")

    def prepare(self, schema: Schema, guarantee: Guarantee) -> "PreparedPublished":
        """Like ours, but for the sensitivity of the second moment."""
        asked = (self.noise, self.label, guarantee.neighbours, self.about)
        if asked != ("laplace", None, "replace", "private"):
            raise ParameterError(
                "the published constants are for Laplace noise, no label, neighbours='replace', and a private centre"
            )
        honest = Synthetic.prepare(self, schema, guarantee)
        moment = PublishedMoments(**{field.name: getattr(honest.moment, field.name) for field in fields(MomentStage)})
        return PreparedPublished(honest.recipe, guarantee, honest.labelled, honest.mean, moment, honest.seed)


class PublishedMoments(MomentStage):
    """The second moment as the paper has it: noise on every entry, in proportion to what its Lemma 4 says."""

    def _one_row(self, constant: float) -> float:
        del constant
        return whole_move(self.turned.dim, top=float(self.turned.top))

    @property
    def places(self) -> tuple[Integers, Integers]:
        """All entries of a matrix."""
        everywhere = np.indices((self.dim, self.dim)).reshape(2, -1)
        return everywhere[0], everywhere[1]

    @property
    def entries(self) -> int:
        """How many numbers of a matrix get noise."""
        return self.dim**2

    @property
    def proved(self) -> float:
        """How far one unit really moves the coarsened sums at most, in steps."""
        return float(MomentStage.sensitivity.fget(self))  # type: ignore[attr-defined]

    @property
    def sensitivity(self) -> float:
        """What the paper says in its place."""
        one, group = published_move(self.turned.dim, top=float(self.turned.top)), self.guarantee.group
        return (one if group == 1 else one * group * (1 + 2.0**-45)) * 2.0**-self.shift

    def whole(self, protected: Integers) -> Floats:
        """The matrices, which such noise leaves unsymmetric."""
        first, second = self.places
        matrices = np.zeros((self.matrices, self.dim, self.dim))
        matrices[:, first, second] = protected * self.unit
        return matrices


class PreparedPublished(PreparedSynthetic):
    """What is calibrated for its claim, by ``loss``; ``true_loss`` is what holds."""

    moment: PublishedMoments

    def true_loss(self, level: float) -> Loss:
        """A bound on the loss: the published constant lets the second stage move too far."""
        first, second = self.levels(level)
        return Composed([Laplace(1.0, first), Laplace(self.moment.proved / self.moment.sensitivity, second)])

    def facts(self, *given: Any) -> dict[str, Any]:
        """Those of ours, with what is not kept."""
        facts = PreparedSynthetic.facts(self, *given)
        own = {"constants": "published", "satisfies_claim": False}
        return facts | {"mechanism": facts["mechanism"] | own}


# ---- what an audit sees ---------------------------------------------------------------------------------------------


def farthest_rows(columns: int) -> tuple[Floats, Floats]:
    """The unit rows x, y that move x x' - y y' farthest in the l1 norm of the whole matrix, for an even number."""
    ones = np.ones((columns // 2, columns // 2))
    vectors = np.linalg.eigh(np.block([[ones, ones], [ones, -ones]]))[1]
    return vectors[:, -1:], vectors[:, :1]


def _fed(columns: int, moment: MomentStage) -> Iterator[Integers]:
    centre = np.zeros(columns, np.int64)
    for row in farthest_rows(columns):
        yield moment.moved(moment.exact(Copies(row), centre)[0]).ravel()


def second_moment_draws(columns: int, epsilon: float, published: bool = True) -> tuple[Draw, Draw]:
    """The draw of stage 2 on both rows, with W = I, about 0, and noise for the whole of epsilon."""
    recipe = (PublishedSynthetic if published else Synthetic)(dimension=columns, centring="private", seed=0)
    prepared = recipe.prepare(Schema.reals(columns, low=-1.0, high=1.0), Guarantee(epsilon=epsilon))
    moment = replace(prepared.moment, turned=Turned.of(np.eye(columns), prepared.moment.frame))
    scale = moment.sensitivity / epsilon
    one, two = (Draw(("second moment",), "laplace", scale, 0, fed, fed) for fed in _fed(columns, moment))
    return one, two


def largest_loss(one: Draw, two: Draw) -> float:
    """The exact largest loss of Laplace noise about two centres: the l1 distance over b, attained beyond both."""
    return float(np.abs(one.fed - two.fed).sum() / one.scale)


def ron_gauss(columns: int = 4, epsilon: float = 4.0, published: bool = True) -> Trial:
    """The second moment of RON-Gauss, with its published constant or with the proved one."""
    return of_draws(Guarantee(epsilon=epsilon), [second_moment_draws(columns, epsilon, published)])
