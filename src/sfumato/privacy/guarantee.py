"""What a release promises: epsilon and delta, and the five facts without which they mean nothing.

A guarantee compares two inputs that differ in one *unit*. It says what the unit is, which pairs count as
*neighbours*, how far one unit may move (*change*), and whether the projection was fixed beforehand or drawn afresh.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, Self, TypedDict, get_args

from sfumato import check, defaults
from sfumato.errors import ParameterError

Unit = Literal["attribute", "record", "edge"]
Neighbours = Literal["replace", "add-remove"]
ProjectionUse = Literal["fixed", "fresh"]
ChangeKind = Literal["attribute", "box", "l1", "l2"]


class ChangeFields(TypedDict):
    """A change as JSON has it."""

    kind: ChangeKind
    radius: NotRequired[float]


class GuaranteeFields(TypedDict):
    """A guarantee as JSON has it: in manifests and in ledgers."""

    epsilon: float
    delta: float
    unit: Unit
    group: int
    neighbours: Neighbours
    change: ChangeFields
    projection: ProjectionUse


@dataclass(frozen=True, slots=True)
class Change:
    """The set of differences v = x - x' that one unit may make to a row.

    ``attribute``: one value moves anywhere within its column's bounds. ``box``: all of them do.
    ``l1``, ``l2``: the whole row moves by at most ``radius`` in that norm, in the schema's weighted units.
    """

    kind: ChangeKind
    radius: float | None = None

    def __post_init__(self) -> None:
        check.one_of(get_args(ChangeKind), kind=self.kind)
        if self.kind in ("l1", "l2"):
            if self.radius is None:
                raise ParameterError(f"an {self.kind} change needs a radius, got radius=None")
            check.positive(radius=self.radius)
            object.__setattr__(self, "radius", float(self.radius))
        elif self.radius is not None:
            raise ParameterError(
                f"a change of kind {self.kind!r} is bounded by the schema, without a radius, got radius={self.radius!r}"
            )

    @classmethod
    def attribute(cls) -> Self:
        """Guaranteed change: one value of one record, within its column's bounds."""
        return cls("attribute")

    @classmethod
    def box(cls) -> Self:
        """Guaranteed change: a whole record, every value within its column's bounds."""
        return cls("box")

    @classmethod
    def l1(cls, radius: float) -> Self:
        """Guaranteed change: a whole record, moved by at most ``radius`` in the sum of absolute values."""
        return cls("l1", radius)

    @classmethod
    def l2(cls, radius: float) -> Self:
        """Guaranteed change: a whole record, moved by at most ``radius`` in Euclidean length."""
        return cls("l2", radius)

    def describe(self) -> str:
        """The change that a guarantee covers, in plain words."""
        return {
            "attribute": "one value anywhere within its declared bounds",
            "box": "every value of a row anywhere within its declared bounds",
            "l1": f"a row by at most {self.radius!r} in the sum of absolute values",
            "l2": f"a row by at most {self.radius!r} in Euclidean length",
        }[self.kind]


_DEFAULT_CHANGE: dict[str, ChangeKind] = {"attribute": "attribute", "record": "box", "edge": "attribute"}


def check_guarantee(guarantee: "Guarantee") -> None:
    """Refuse what is no guarantee, by the name of the argument."""
    if not isinstance(guarantee, Guarantee):
        said, kind = "guarantee must be a Guarantee, such as Guarantee(epsilon=1, delta=1e-6)", type(guarantee).__name__
        raise ParameterError(f"{said}, got an object of type {kind}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """Differential privacy with all its fields.

    For every pair of neighbouring inputs D, D' and every set S of outputs,
    Pr[M(D) in S] <= e^epsilon * Pr[M(D') in S] + delta.

    epsilon, delta : delta = 0 is pure differential privacy.
    unit           : ``attribute`` (one value of one record), ``record`` (a whole record; ``group`` = g for people
                     who own up to g rows), ``edge`` (the weight of one edge, by at most 1).
    neighbours     : ``replace`` (the number of rows is public) or ``add-remove`` (it is protected).
    change         : how far one unit may move. Default: one value for attribute and edge, the box for record.
    projection     : ``fixed`` (holds for every projection, reused or known beforehand) or ``fresh`` (holds because
                     the projection is drawn after the data are fixed and is used for this release alone).
    """

    epsilon: float
    delta: float = defaults.DELTA
    unit: Unit = defaults.UNIT
    neighbours: Neighbours = defaults.NEIGHBOURS
    change: Change | None = None
    projection: ProjectionUse = "fixed"
    group: int = defaults.GROUP

    def __post_init__(self) -> None:
        check.positive(epsilon=self.epsilon)
        check.probability_below_one(delta=self.delta)
        check.one_of(get_args(Unit), unit=self.unit)
        check.one_of(get_args(Neighbours), neighbours=self.neighbours)
        check.one_of(get_args(ProjectionUse), projection=self.projection)
        check.whole(1, group=self.group)
        check.between(1, 2**31, group=self.group)
        for name, plain in (("epsilon", float), ("delta", float), ("group", int)):
            object.__setattr__(self, name, plain(getattr(self, name)))
        if self.change is None:
            object.__setattr__(self, "change", Change(_DEFAULT_CHANGE[self.unit]))
        self._check_together()

    @classmethod
    def from_dict(cls, fields: GuaranteeFields) -> Self:
        """A guarantee from JSON fields, the inverse of ``to_dict``.

        The inverse of ``to_dict``; whatever else comes in is refused as when it is written in Python.
        """
        values: dict[str, Any] = {**fields, "change": Change(**fields["change"])}
        return cls(**values)

    def to_dict(self) -> GuaranteeFields:
        """All fields of the guarantee, as JSON has them."""
        change: ChangeFields = {"kind": self.allowed_change.kind}
        if self.allowed_change.radius is not None:
            change["radius"] = self.allowed_change.radius
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "unit": self.unit,
            "group": self.group,
            "neighbours": self.neighbours,
            "change": change,
            "projection": self.projection,
        }

    def _check_together(self) -> None:
        kind = self.allowed_change.kind
        if (self.unit == "record") == (kind == "attribute"):
            raise ParameterError(
                f"unit={self.unit!r} cannot go with a change of kind {kind!r}: "
                "an attribute or an edge is one value, a record is a box or a ball"
            )
        if self.group > 1 and self.unit != "record":
            raise ParameterError(
                f"group={self.group} counts the rows of one person, so it needs unit='record', got unit={self.unit!r}"
            )
        if self.projection == "fresh" and (kind != "l2" or self.delta == 0):
            raise ParameterError(
                "projection='fresh' is proved for changes in an l2 ball and delta > 0 only, "
                f"got change={kind!r}, delta={self.delta!r}: "
                "use Change.l2(radius) and a small delta, or projection='fixed'"
            )

    @property
    def allowed_change(self) -> Change:
        """The change that the guarantee covers, never missing once the guarantee exists."""
        assert self.change is not None
        return self.change

    def describe_change(self) -> str:
        """What one unit may change under the guarantee, in plain words."""
        weight = "the weight of one pair of vertices, within [0, 1]"
        return weight if self.unit == "edge" else self.allowed_change.describe()

    def describe(self, *, projected: bool = True) -> str:
        """The guarantee in plain words; ``projected``: say of the projection what it may be, where there is one."""
        whose = {"attribute": "one value of one record", "record": "one record", "edge": "one edge"}[self.unit]
        if self.group > 1:
            whose = f"all of one person's records (at most {self.group})"
        pair = "replaced by another" if self.neighbours == "replace" else "added or removed"
        factor = f"e^{self.epsilon:g} = {math.exp(min(self.epsilon, 700)):.4g}"
        odds = f"the probability of any outcome changes by a factor of at most {factor}"
        slack = f", and beyond that by at most {self.delta:g}" if self.delta else ""
        origin = "drawn after the data were fixed and used once" if self.projection == "fresh" else "known or reused"
        projection = f"The projection was {origin}" if self.projection == "fresh" else f"The projection may be {origin}"
        change = self.describe_change()
        if self.unit == "edge":
            pair = "the weight of one edge changes" if self.neighbours == "replace" else "one edge is added or removed"
            return f"If {pair}, {odds}{slack}. What may change: {change}."
        more = f" {projection}." if projected else ""
        return f"If {whose} is {pair}, {odds}{slack}. What may change: {change}.{more}"
