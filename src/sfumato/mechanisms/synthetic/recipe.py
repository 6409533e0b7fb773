"""Synthetic rows: a private Gaussian model of projected rows, and samples from it (RON-Gauss, made correct).

Chanyaswad, Liu and Mittal 2019 (*RON-Gauss*), Algorithms 1 to 5: rows are normalised; a private mean centres them; they
are normalised again, projected by one random orthonormal W, and their private second moment makes a Gaussian. The
paper's sensitivity of the second moment does not hold for more than two columns; those of ``stages`` do.

Formal guarantee: a run at a level whose loss satisfies delta(epsilon) <= delta is (epsilon, delta)-differentially
private for whole records, for the neighbours of the guarantee. Steps of the argument: ``unit_ball`` makes of each row,
by itself, integers within a ball; ``stages`` bounds what one unit moves of the exact sums of stage 1 (the mean) and of
stage 2 (second moments about the published mean, under a public W), the same for every mean and W; the noise is exact;
the two stages compose adaptively. With centring='public' there is no stage 1: the second moments hold sums and counts
too. The model and all samples are post-processing. With counts='public' neighbours keep their class: labels, and how
many records have each, are then not protected, and the release says so.
"""

import math
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato import check, defaults
from sfumato.errors import ParameterError
from sfumato.estimation import gaussians
from sfumato.estimation.gaussians import Component, Shrink
from sfumato.fileformat.manifest import Facts
from sfumato.mechanisms import base
from sfumato.mechanisms.base import Noise, Prepared, Published, Recipe
from sfumato.mechanisms.synthetic import stages
from sfumato.mechanisms.synthetic.stages import Counts, MeanStage, MomentStage
from sfumato.numerics.types import Integers, Order
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Laplace, Loss
from sfumato.projection.projection import Projection
from sfumato.projection.unit_ball import Centring, Frame, Normalise, Turned
from sfumato.randomness.secret import Secret, Words
from sfumato.tables.blocks import Rows
from sfumato.tables.labels import Kind, Labelled, usual_kind
from sfumato.tables.schema import Schema

_PAPER = 0.3  # the share of the mean in Chanyaswad et al.
_MOST_SAMPLES = 1 << 30
_BLOCK = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Synthetic(Recipe):
    """The recipe: synthetic rows, drawn from a private Gaussian model of projected records.

    dimension    : how many numbers a synthetic row has, at most the number of encoded columns beside the label; left
                   out, what ``stages`` says of public facts, among them ``expected_rows``: how many records
                   the owner publicly expects, which has no part in anything else.
    label, kind  : a column to predict: a number (``values``), or a class (``classes``) with a Gaussian of its own; left
                   out, classes where the column is a category, an ordinal or a flag.
    noise        : left out, Gaussian where delta > 0, else Laplace.
    split        : the shares of the budget that mean and second moment get: of epsilon with Laplace noise, of
                   (sensitivity over scale)^2 with Gaussian noise. ``best`` minimises the predicted error
                   (``best_share``); ``paper`` is (0.3, 0.7).
    counts       : ``private`` protects classes with everything else; ``public`` shows how many records have each.
    rows         : how many rows to draw; left out, as many as there are records (with noise where that is protected).
    centring     : ``private`` reads the rows twice: about their private mean, which gets its share of the budget.
                   ``public`` reads them once: about the origin of ``unit_ball.Frame``, the budget going to one stage.
                   ``best``, by what was measured, is private for classes and public otherwise.
    normalise    : see ``unit_ball.Frame``; ``twice`` unless centring is public, where ``once`` is all there is.
    label_weight : how much the label, or being in a class, counts beside a row of length 1.
    shrink       : how covariances are freed of noise, whose law is known: ``spectrum`` (``gaussians.spectrum``, and a
                   floor with a numeric label), which was best by what was measured, ``linear`` (``gaussians.shrunk``)
                   or ``none``.
    """

    dimension: int | None = None
    label: str | None = None
    kind: Kind | None = None
    noise: Noise | None = defaults.NOISE
    split: Literal["best", "paper"] | tuple[float, float] = "best"
    counts: Counts = "private"
    rows: int | None = None
    seed: int | None = None
    centring: Centring | Literal["best"] = defaults.CENTRING
    normalise: Normalise | None = None
    label_weight: float = 1.0
    shrink: Shrink = "spectrum"
    expected_rows: int | None = None

    def __post_init__(self) -> None:
        given = {"dimension": self.dimension, "rows": self.rows, "expected_rows": self.expected_rows}
        check.whole(1, **{name: value for name, value in given.items() if value is not None})
        check.one_of(("laplace", "gaussian"), noise=self.noise or "gaussian")
        check.one_of(("values", "classes"), kind=self.kind or "values")
        check.one_of(("private", "public"), counts=self.counts)
        check.one_of(("best", "private", "public"), centring=self.centring)
        check.one_of(("twice", "once", "never"), normalise=self.normalised)
        check.one_of(("spectrum", "linear", "none"), shrink=self.shrink)
        check.between(1 / 16, 4, label_weight=self.label_weight)
        if self.rows is not None:
            check.between(1, _MOST_SAMPLES, rows=self.rows)
        _check_split(self.split)
        if self.centring == "public" and (self.normalise == "twice" or self.split != "best"):
            raise ParameterError(
                "centring='public' has one stage, about a centre that is known: it normalises rows once or never, and "
                "there is nothing to split"
            )

    @property
    def width(self) -> int | None:
        """The recipe of synthetic rows: how many numbers a row has, where that is given."""
        return self.dimension

    @property
    def order(self) -> Order:
        """The recipe of synthetic rows: the norm that the noise protects against."""
        return base.order_of(base.settled(self.noise))

    @property
    def normalised(self) -> Normalise:
        """The recipe of synthetic rows: how often real rows are normalised."""
        return self.normalise or ("twice" if self.about == "private" else "once")

    @property
    def about(self) -> Centring:
        """The recipe's centring: which centre rows are taken about.

        What only two stages can do asks for a private one.
        """
        if self.centring != "best":
            return self.centring
        two = self.normalise == "twice" or self.split != "best"
        return "private" if self._by_class or two else "public"

    @property
    def context(self) -> str:
        """The recipe in the keys of streams: as version 0.1.0 wrote it, with two fields more, so that draws stay."""
        head, last, value = repr(self).rpartition(", expected_rows=")
        return f"{head}, constants='proved', as_published=False{last}{value}"

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What no guarantee covers of synthetic rows by this recipe."""
        return (base.CLASSES_SHOWN,) if self.counts == "public" else ()

    @property
    def _by_class(self) -> bool:
        return self.label is not None and self.kind == "classes"

    def prepare(self, schema: Schema, guarantee: Guarantee) -> "PreparedSynthetic":
        """Draw the projection and compute what one unit can move, before any data is read."""
        noise = self.noise or defaults.noise_of_sums(guarantee.delta)
        kind = self.kind or usual_kind(schema, self.label)
        return replace(self, noise=noise, kind=kind)._settled(schema, guarantee)

    def _settled(self, schema: Schema, guarantee: Guarantee) -> "PreparedSynthetic":
        """Prepare a recipe that says its noise, and what its label is predicted as."""
        assert self.kind is not None
        _check_possible(self, guarantee)
        labelled = Labelled.of(schema, self.label, self.kind)
        frame = Frame.of(labelled.others, self.normalised, self.about)
        base.check_columns("a mean", frame.dim)
        order, weight = self.order, self.label_weight
        dimension = self.dimension or self._breadth(labelled, frame.dim, guarantee)
        if dimension > frame.dim:
            raise check.fail("dimension", dimension, f"at most {frame.dim}, the encoded columns beside the label")
        stages.check_dimension(labelled, dimension)
        seed = secrets.randbits(128) if self.seed is None else self.seed
        drawn = Projection(family="orthonormal", dim_in=frame.dim, dim_out=dimension, seed=seed).draw()
        turned = Turned.of(drawn.values, frame)
        alone = self.about == "public"
        mean = None if alone else MeanStage(labelled, frame, guarantee, order, weight)
        moment = MomentStage(labelled, frame, turned, guarantee, order, weight, self.counts, alone)
        return PreparedSynthetic(self, guarantee, labelled, mean, moment, seed)

    def _breadth(self, labelled: Labelled, columns: int, guarantee: Guarantee) -> int:
        if self.order == 2:
            return stages.largest_dimension(labelled, columns)
        weight, rows = self.label_weight, self.expected_rows
        return stages.best_dimension(labelled, columns, guarantee, self.about, weight=weight, rows=rows)


def _check_split(split: object) -> None:
    if split in ("best", "paper"):
        return
    if not isinstance(split, tuple) or len(split) != 2:
        raise check.fail("split", split, "'best', 'paper', or two shares")
    check.positive(mean_share=split[0], moment_share=split[1])
    if abs(split[0] + split[1] - 1) > 1e-9:
        raise check.fail("split", split, "two shares that add up to 1")


def _check_possible(recipe: Synthetic, guarantee: Guarantee) -> None:
    """Refuse what the recipe for synthetic rows cannot promise."""
    if guarantee.unit != "record":
        raise ParameterError(
            f"rows are normalised, which lets one value move a whole row: use unit='record', got {guarantee.unit!r}"
        )
    if guarantee.projection == "fresh":
        raise ParameterError("the guarantee holds for every projection: use projection='fixed'")
    base.check_noise(guarantee, base.settled(recipe.noise))
    if recipe.counts == "public" and guarantee.neighbours != "replace":
        raise ParameterError("counts='public' shows how many records there are: use neighbours='replace'")
    if recipe.counts == "public" and (recipe.label is None or recipe.kind != "classes"):
        raise ParameterError("counts='public' is about classes: give a label and kind='classes'")


def best_share(mean_energy: float, moment_energy: float, order: Order) -> float:
    """Recipe's budget: share f of the mean with the least predicted error, given the noise's energy in each at share 1.

    Error: expected squared length of the mean's noise, which lengthens every centred row, plus expected squared
    Frobenius norm of the second moments' noise. Both fall with the number of records alike, so it plays no part.
    Variances go with 1/f for Gaussian noise and 1/f^2 for Laplace noise: A/f^q + B/(1 - f)^q is least at
    f = A^r/(A^r + B^r), r = 1/(q + 1).
    """
    power = 1 / 3 if order == 1 else 1 / 2
    first, second = math.pow(mean_energy, power), math.pow(moment_energy, power)
    return first / (first + second)


@dataclass(frozen=True, slots=True, eq=False)
class PreparedSynthetic(Prepared):
    """Synthetic rows whose projection is drawn and whose sensitivities are known.

    level = noise scale over sensitivity that either stage would have with all of the budget.
    mean  : stage 1; None where the centre is public.
    """

    recipe: Synthetic
    guarantee: Guarantee
    labelled: Labelled
    mean: MeanStage | None
    moment: MomentStage
    seed: int

    @property
    def schema(self) -> Schema:
        """What the columns of the real rows are."""
        return self.labelled.schema

    @property
    def frame(self) -> Frame:
        """How real rows come into the unit ball."""
        return self.moment.frame

    @property
    def dimension(self) -> int:
        """How many numbers a synthetic row has, beside its label."""
        return self.moment.turned.dim

    @property
    def settings(self) -> dict[str, str | int | None]:
        """Numbers of a row, noise, and label."""
        return {"dimension": self.dimension, "noise": self.recipe.noise, "label": self.recipe.label}

    @property
    def share(self) -> float:
        """The share of the recipe's budget that the mean gets."""
        split = self.recipe.split
        if self.mean is None:
            return 0.0
        if split == "paper":
            return _PAPER
        if split == "best":
            return best_share(self.mean.energy, self.moment.energy, self.recipe.order)
        return float(split[0])

    def levels(self, level: float) -> tuple[float, float]:
        """Recipe's level split: noise scale over sensitivity of mean and moments, with the loss of ``level`` in all."""
        return base.split_levels(level, self.share, self.recipe.order)

    def loss(self, level: float) -> Loss:
        """The loss of a run of the recipe: its stages together, or the only one."""
        first, second = self.levels(level)
        alone = self.mean is None and self.recipe.order == 1
        return Laplace(1.0, second) if alone else base.split_loss(first, second, self.recipe.order)

    def scales(self, level: float) -> tuple[float, float]:
        """The recipe's noise scales, of mean and of moments in their steps, rounded up; 0 for a stage not there."""
        first, second = self.levels(level)
        return (
            0.0 if self.mean is None else self._scale(first * self.mean.sensitivity, level),
            self._scale(second * self.moment.sensitivity, level),
        )

    def _scale(self, scale: float, level: float) -> float:
        base.check_scale(self.guarantee, scale, level, "between 1e-4 and 1e6", room=(1, 2))
        return math.nextafter(scale, math.inf)

    def run(self, rows: Rows, level: float, secret: Secret) -> Published:
        """Synthetic rows, ``dimension`` numbers each and a label, if there is one: its value, or its class's place.

        Guarantee: as stated at the top, at the loss of ``level``. The rows are read, and clipped, once for each stage.
        """
        scales = self.scales(level)
        centred = None if self.mean is None else self._centred(self.mean, rows, scales[0], secret)
        exact, count = self.moment.exact(rows, None if centred is None else centred.centre)
        components, records = self._components(
            exact, base.public_rows(count, self.guarantee), centred, scales[1], secret
        )
        wanted = self.recipe.rows or min(max(1, round(records)), _MOST_SAMPLES)
        names = (*(f"z{i}" for i in range(self.dimension)), *(("label",) if self.labelled.column else ()))
        facts, blocks = self.facts(level, centred, components), self._samples(components, wanted, secret)
        return Published(facts, names, blocks, self.moment.turned.matrix, by_record=False)

    def _words(self, stage: str, scale: float, exact: Integers, secret: Secret) -> Words:
        parameters = f"synthetic {stage} {self.recipe.context} {self.seed} {self.guarantee!r} {scale.hex()}"
        return secret.words(parameters, self.schema.digest, exact)

    def _centred(self, stage: MeanStage, rows: Rows, scale: float, secret: Secret) -> "_Centred":
        """A run of the recipe begins: the noisy mean, and the number of records, with noise unless it is public."""
        exact, dim = stage.exact(rows), self.frame.dim
        known = base.public_rows(int(exact[-1]), self.guarantee)
        moved = stage.moved(exact)
        noisy = stage.protected(moved, scale, self._words("mean", scale, moved, secret))
        records = known or max(1.0, float(noisy[-1]) / stage.counter)
        label = float(noisy[dim]) / records / stage.label if self.labelled.numeric else 0.0
        return _Centred(self.frame.centre(noisy[:dim] / records), min(1.0, max(-1.0, label)), records)

    def _components(
        self, exact: Integers, known: int | None, centred: "_Centred | None", scale: float, secret: Secret
    ) -> tuple[list[Component], float]:
        """A run of the recipe goes on: noisy second moments, the Gaussians that fit, their number of records.

        Where the number of records is private, that of the classes together is known better than that of stage 1.
        """
        moved = self.moment.moved(exact)
        noisy = self.moment.protected(moved, scale, self._words("moments", scale, moved, secret))
        matrices, fitting = self.moment.whole(noisy), self.moment.fitting(scale, self.recipe.shrink)
        if centred is not None and not self.labelled.classes:
            return [fitting.about(matrices[0], centred.records, centred.label)], centred.records
        counts = matrices[:, -1, -1] / fitting.per_constant**2
        if self.recipe.counts == "public":
            counts = exact[:, -1, -1] / float(self.moment.constant) ** 2
        records = known or max(1.0, float(np.maximum(counts, 0.0).sum()))
        if self.labelled.classes:
            return fitting.classes(matrices, counts), records
        return [fitting.everyone(matrices[0], records)], records

    def _samples(self, components: list[Component], rows: int, secret: Secret) -> Iterator[NDArray[np.generic]]:
        """Blocks of synthetic rows; sampling costs no privacy, so its generator need not be exact."""
        key = secret.words("synthetic samples", self.seed).key()
        rng = np.random.default_rng(np.frombuffer(key, np.uint64).tolist())
        for start in range(0, rows, _BLOCK):
            drawn, which = gaussians.sample(components, min(_BLOCK, rows - start), rng)
            columns = np.ascontiguousarray(drawn.T)
            if self.labelled.numeric:
                columns[-1] = self.labelled.original(columns[-1])
            elif self.labelled.column is not None:
                columns = np.vstack([columns, which.astype(float)])
            yield columns

    def facts(self, level: float, centred: "_Centred | None", components: list[Component]) -> Facts:
        """What the manifest says: functions of the recipe and of what is published; no exact count that is private."""
        recipe, frame, (first, second) = self.recipe, self.frame, self.scales(level)
        mechanism: dict[str, Any] = {
            "name": "synthetic",
            "noise": recipe.noise,
            "split": [self.share, 1 - self.share],
            "moments": self._stage(self.moment.sensitivity, second, self.moment.unit),
            "centring": recipe.about,
            "normalise": frame.normalise,
            "constants": "proved",
            "satisfies_claim": True,
            "model": [c.to_dict() for c in components],
        }
        if self.mean is not None and centred is not None:
            mechanism["mean"] = self._stage(self.mean.sensitivity, first, 1 / frame.one)
            mechanism["centre"] = (centred.centre / frame.one).tolist()
        if recipe.label is not None:
            own = {"label": recipe.label, "kind": recipe.kind, "label_weight": recipe.label_weight}
            mechanism |= own | ({"counts": recipe.counts} if recipe.kind == "classes" else {})
        projection = {"family": "orthonormal", "dim_in": frame.dim, "dim_out": self.dimension, "seed": self.seed}
        return {
            "kind": "synthetic",
            "mechanism": mechanism,
            "projection": projection | {"published": True},
            "lattice": {"input_bits": frame.bits, "shift": self.moment.shift, "unit": self.moment.unit},
            "warnings": list(recipe.not_covered),
        }

    def _stage(self, sensitivity: float, scale: float, unit: float) -> Facts:
        """The recipe's facts on one stage: sensitivity and noise of sums not divided by the number of records."""
        return base.noise_facts(self.recipe.order, sensitivity * unit, scale * unit)


@dataclass(frozen=True, slots=True, eq=False)
class _Centred:
    """What stage 1 publishes: the centre in steps, the label's mean from -1 to 1, the number of records."""

    centre: Integers
    label: float
    records: float
