"""Private covariances: sums of squares and products of the columns, with noise, or a Gaussian sketch of them.

``gaussian`` : Analyze Gauss (Dwork, Talwar, Thakurta, Zhang 2014), with noise that is isotropic in the Frobenius norm.
``laplace``  : the same triangle with Laplace noise; pure epsilon.
``sketch``   : r rows of N(0, S + ridge I), S the scatter of the rows (Blocki, Blum, Datta, Sheffet 2012, with the exact
               ridge); positive by construction, and r numbers per column instead of half as many as there are columns.

Rows are taken about a public centre, so they lie in a ball of radius R about it. ``centred`` means about their mean:
the first two publish the sums too (an anchor beside each row, see ``second_moment``), the sketch takes the scatter
about the mean. Under add-remove neighbours the number of rows is protected: nothing published depends on it but through
noise, and an estimate of it is published.

Formal guarantee: a run at a level whose loss satisfies delta(epsilon) <= delta is (epsilon, delta)-differentially
private for the unit, neighbours and change of the guarantee it was prepared for. With noise: as proved for
``SecondMoment``. Sketch: let m be the mean and C the scatter of the other rows, n of them. A row x adds v v^T to the
whole: v = x about the public centre, so |v| <= R; about the mean v = sqrt(n/(n+1)) (x - m), so |v| <= 2R since x and m
lie in the ball. A row replaced is one such vector instead of another. That is ``ChiSquare``, with what is left as its
base, at least ridge I. The number of rows, if it is protected, gets Laplace noise at a share of epsilon, which is taken
off (basic composition).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import scipy

from sfumato import check, defaults
from sfumato.errors import ParameterError
from sfumato.estimation import covariances
from sfumato.fileformat.manifest import Facts
from sfumato.mechanisms import in_space
from sfumato.mechanisms.base import (
    Prepared,
    Published,
    Summed,
    check_columns,
    check_noise,
    idealized_warning,
    noise_facts,
    noise_loss,
    public_rows,
    settled,
)
from sfumato.mechanisms.second_moment import CentredGrid, SecondMoment
from sfumato.numerics.lattice import Total
from sfumato.numerics.types import Floats, Integers
from sfumato.privacy.calibration import replaced_guess
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import ChiSquare, Composed, Laplace, Loss
from sfumato.projection.space import AnySpace
from sfumato.randomness.secret import Secret
from sfumato.tables.blocks import Rows
from sfumato.tables.schema import Schema

CovarianceNoise = Literal["gaussian", "laplace", "sketch"]
COUNT_SHARE = 0.02  # of epsilon, for the number of rows beside a sketch
SKETCH_ROWS = 473
_GRID_BITS = 16  # published numbers of a sketch are multiples of about 2^-16 of the ridge's standard deviation


@dataclass(frozen=True, slots=True, kw_only=True)
class Covariance(in_space.InSpace):
    """The recipe: sums of squares and products of the columns, with noise, or a Gaussian sketch of them.

    noise   : left out, Gaussian where delta > 0, else Laplace.
    centred : about the mean of the rows, which is what covariances and correlations are; the guarantee is the same, and
              noise pays for the sums. False: about the middle of the bounds, which is public and costs nothing.
    rows    : how many rows a sketch has; for noise='sketch' only.
    space   : a shared space, or its file: its schema is that of the release, and the manifest names it.
    columns : those of the space that the owner holds, where they are not all.
    """

    noise: CovarianceNoise | None = defaults.NOISE
    centred: bool = defaults.CENTRED
    rows: int | None = None
    space: AnySpace = field(default=None, repr=False)
    columns: Sequence[str] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check.one_of(("gaussian", "laplace", "sketch"), noise=self.noise or "gaussian")
        in_space.take_place(self)
        if not isinstance(self.centred, bool):
            raise check.fail("centred", self.centred, "True or False")
        if self.rows is not None:
            check.whole(1, rows=self.rows)
            if self.noise != "sketch":
                raise ParameterError(f"rows are those of a sketch, got rows={self.rows} with noise={self.noise!r}")

    @property
    def width(self) -> int | None:
        """The recipe of a private covariance: how many rows its Gaussian sketch has."""
        return self.rows

    def prepare(self, schema: Schema | None, guarantee: Guarantee) -> "PreparedCovariance | PreparedCovarianceSketch":
        """Compute what one unit can move, before any data is read."""
        schema = in_space.schema_needed(self, schema)
        in_space.check_fixed(self.place[0], guarantee)
        if self.noise is None:
            return replace(self, noise=defaults.noise_of_sums(guarantee.delta)).prepare(schema, guarantee)
        _check_possible(self, schema, guarantee)
        if self.noise == "sketch":
            _check_sketch(guarantee)
            grid = CentredGrid.of(schema, anchored=True)
            return PreparedCovarianceSketch(self, schema, guarantee, grid, self.rows or SKETCH_ROWS)
        moment = SecondMoment.anchored(schema, guarantee, 1 if self.noise == "laplace" else 2, centred=self.centred)
        return PreparedCovariance(self, schema, guarantee, moment)


def _check_possible(recipe: Covariance, schema: Schema, guarantee: Guarantee) -> None:
    """Refuse what no mechanism for covariances can promise."""
    if guarantee.unit == "edge":
        raise ParameterError("covariances protect values or records, got unit='edge': use unit='attribute' or 'record'")
    if guarantee.projection == "fresh":
        raise ParameterError("covariances project nothing, so no drawn projection protects: use projection='fixed'")
    if guarantee.neighbours == "add-remove" and (guarantee.unit != "record" or guarantee.allowed_change.kind != "box"):
        raise ParameterError(
            "what is added or removed is a whole record, anywhere within the bounds: neighbours='add-remove' needs "
            f"unit='record' and a change of kind 'box', got unit={guarantee.unit!r}, "
            f"change={guarantee.allowed_change.kind!r}"
        )
    check_noise(guarantee, settled(recipe.noise))
    check_columns("covariances", schema.encoding.dim)


def _check_sketch(guarantee: Guarantee) -> None:
    """Refuse, for a Gaussian sketch of the covariance, what is proved for covariances with added noise only."""
    if guarantee.unit != "record" or guarantee.allowed_change.kind != "box" or guarantee.group > 1:
        raise ParameterError(
            "noise='sketch' is proved for one whole record (which protects each of its values too): it needs "
            "unit='record', a change of kind 'box' and group=1, "
            f"got unit={guarantee.unit!r}, change={guarantee.allowed_change.kind!r}, group={guarantee.group}"
        )


# ---- noise on the triangle ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class PreparedCovariance(Summed):
    """A triangle whose sensitivity is known; level = noise scale over sensitivity.

    What is published is one vector of sums: steps of the coarsened triangle, which one unit moves by ``reach``.
    """

    recipe: Covariance
    schema: Schema
    guarantee: Guarantee
    moment: SecondMoment

    @property
    def settings(self) -> dict[str, str | int | None]:
        """Which noise the covariance gets."""
        return {"noise": self.recipe.noise}

    def loss(self, level: float) -> Loss:
        """The loss of the noise on the covariance."""
        return noise_loss(self.moment.order, level)

    def run(self, rows: Rows, level: float, secret: Secret) -> Published:
        """The published triangle in weighted units, as one column; the rows are read once.

        Guarantee: as stated at the top, at the loss of ``level``.
        """
        scale = self.moment.checked_scale(level)
        exact, count = self.counted(rows)
        records = public_rows(count, self.guarantee)
        return self.published(self.moment.perturbed(exact, scale, secret), scale, records)

    @property
    def reach(self) -> float:
        """How far one unit moves the coarsened triangle in steps, off the diagonal as its noise counts."""
        return self.moment.sensitivity

    @property
    def deviations(self) -> Floats:
        """The relative deviation of the noise on each number of the triangle."""
        return self.moment.deviations

    @property
    def unit(self) -> float:
        """What one step of the triangle is worth, in squared weighted units."""
        return self.moment.unit

    def counted(self, rows: Rows) -> tuple[Integers, int]:
        """The coarsened triangle, exact but for that, and the number of rows."""
        exact = self.moment.exact(rows)
        return self.moment.coarse(exact), _count(exact, self.moment.grid)

    def published(self, values: Integers | Floats, scale: float, records: int | None) -> Published:
        """What is published of a triangle that has its noise: facts for the manifest, and one column."""
        column = np.asarray(values * self.unit, np.float64)[None]
        return Published(self._facts(scale, records), ("value",), iter([column]), by_record=False)

    def facts(self, level: float, records: int | None) -> Facts:
        """What the manifest says of a run; it has no number of rows where that is protected."""
        return self._facts(self.moment.scale(level), records)

    def _facts(self, scale: float, records: int | None) -> Facts:
        moment = self.moment
        mechanism = {
            "name": "covariance",
            "noise": self.recipe.noise,
            "centred": self.recipe.centred,
            "columns": moment.grid.half.size,
            "longest": moment.grid.longest(2) * moment.grid.step,
            "anchor": moment.grid.anchor * moment.grid.step,
            **noise_facts(moment.order, self.reach * self.unit, scale * self.unit),
        }
        on_grid = {"input_bits": moment.grid.column_bits, "shift": moment.shift, "unit": moment.unit}
        facts = {"kind": "covariance", "mechanism": mechanism, "lattice": on_grid, "rows": records}
        return facts | in_space.space_facts(*self.recipe.place)


def _count(exact: Total, grid: CentredGrid) -> int:
    """The number of rows that went into the exact sums of a private covariance, from its anchored triangle."""
    (anchors,) = exact.part(slice(grid.dim - 1, grid.dim)).integers()
    return int(anchors) // grid.anchor**2


# ---- sketches -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, init=False)
class Beside(Composed):
    """A sketch beside a count with Laplace noise, in basic composition: quick, and enough to calibrate by."""

    def __init__(self, sketch: ChiSquare, pure: float) -> None:
        Composed.__init__(self, [sketch, Laplace(pure, 1.0)])

    def delta(self, epsilon: float) -> float:
        """The delta of a covariance sketch beside a noisy count: the sketch's, at what the count leaves of epsilon."""
        sketch, count = self.losses
        assert isinstance(count, Laplace)
        left = math.nextafter(epsilon - count.sensitivity, 0.0)
        return sketch.delta(left) if left > 0 else 1.0


@dataclass(frozen=True, slots=True, eq=False)
class PreparedCovarianceSketch(Prepared):
    """A sketch of rows in a ball of radius R; level = ridge / R^2."""

    recipe: Covariance
    schema: Schema
    guarantee: Guarantee
    grid: CentredGrid
    draws: int

    @property
    def settings(self) -> dict[str, str | int | None]:
        """Which noise the covariance sketch has, and how many rows are drawn."""
        return {"noise": self.recipe.noise, "rows": self.draws}

    @property
    def longest(self) -> float:
        """R: no row is farther from the public centre."""
        return self.grid.longest(2) * self.grid.step

    @property
    def counted(self) -> bool:
        """Whether the number of rows is protected, so published with noise."""
        return self.guarantee.neighbours == "add-remove"

    def loss(self, level: float) -> Loss:
        """The loss of one vector of length R (centred: 2R) more or less, or two; and of the number of rows."""
        ratio = self._stretch / level * (1 + 2.0**-50)
        sketch = ChiSquare(rows=self.draws, ratio=ratio, neighbours=self.guarantee.neighbours)
        return Beside(sketch, self._count_epsilon) if self.counted else sketch

    @property
    def guess(self) -> float | None:
        """About where the level will be, where finding it by search alone takes long; calibration checks it."""
        if self.counted:
            return None
        return self._stretch * replaced_guess(self.draws, self.guarantee.epsilon, self.guarantee.delta)

    @property
    def _stretch(self) -> float:
        """The largest squared length of a vector that one row adds, over R^2."""
        return 4.0 if self.recipe.centred else 1.0

    @property
    def _count_epsilon(self) -> float:
        return COUNT_SHARE * self.guarantee.epsilon

    @property
    def _count_scale(self) -> float:
        return math.nextafter(1 / self._count_epsilon, math.inf)

    def run(self, rows: Rows, level: float, secret: Secret) -> Published:
        """The drawn rows one after another, then the noisy number of rows if that is protected, as one column.

        Guarantee: as stated at the top, at the loss of ``level``, for the ideal Gaussian law; doubles stand in for it.
        """
        moment = SecondMoment(self.grid, self.guarantee, 2, 0.0, centred=True)
        exact = moment.exact(rows)
        count = _count(exact, self.grid)
        facts = self.facts(level, public_rows(count, self.guarantee))
        words = secret.words(
            f"scatter sketch {self.recipe!r} {self.guarantee!r} {level.hex()}", self.schema.digest, *exact.halves
        )
        root = scipy.linalg.cholesky(self._scatter(exact) + facts["mechanism"]["ridge"] * np.eye(self.grid.half.size))
        drawn, unit = words.normals(self.draws * len(root)).reshape(self.draws, -1), facts["lattice"]["unit"]
        values = np.rint(drawn @ root / unit).ravel() * unit
        if self.counted:
            values = np.append(values, count + words.laplace(1, self._count_scale))
        return Published(facts, ("value",), iter([values[None]]), by_record=False)

    def _scatter(self, exact: Total) -> Floats:
        """The sum of (x - m)(x - m)^T in weighted units, m the mean or the public centre."""
        whole = covariances.square(exact.doubles(), self.grid.dim) * self.grid.step**2
        moment, sums = whole[:-1, :-1], whole[:-1, -1]
        return moment - np.outer(sums, sums) / max(whole[-1, -1], 1e-300) if self.recipe.centred else moment

    def facts(self, level: float, records: int | None) -> Facts:
        """What the manifest says of a run; it has no number of rows where that is protected."""
        ridge = level * self.longest**2
        mechanism = {
            "name": "covariance",
            "noise": "sketch",
            "centred": self.recipe.centred,
            "columns": self.grid.half.size,
            "longest": self.longest,
            "sketch_rows": self.draws,
            "ridge": ridge,
        }
        if self.counted:
            mechanism["count_scale"] = self._count_scale
        unit = 2.0 ** math.floor(math.log2(ridge) / 2 - _GRID_BITS)
        return {
            "kind": "covariance",
            "mechanism": mechanism,
            "lattice": {"input_bits": self.grid.column_bits, "shift": 0, "unit": unit},
            "rows": records,
            "numerics": "idealized",
            "warnings": [idealized_warning(unit)],
            **in_space.space_facts(*self.recipe.place),
        }
