"""Units of privacy: how many units of a release one unit of a cap can be, or why it cannot be said.

A cap promises something about one unit (a value, a record, an edge), for its neighbours and its changes. A release
promises about its own. ``units`` counts how many steps of the release's kind lead from any dataset to any neighbour in
the cap's sense; a loss then counts for that many (``stored_losses.grouped``).
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from sfumato import check
from sfumato.errors import LedgerError, ParameterError
from sfumato.privacy.guarantee import Change, Guarantee


@dataclass(frozen=True, slots=True)
class Cap:
    """What all releases of a dataset together may cost: a guarantee, for one value or ``attributes`` of a record."""

    guarantee: Guarantee
    attributes: int = 1

    def __post_init__(self) -> None:
        check.whole(1, attributes=self.attributes)
        if self.attributes > 1 and self.guarantee.unit != "attribute":
            raise ParameterError(
                f"attributes={self.attributes} counts values of a record, so it needs unit='attribute', "
                f"got unit={self.guarantee.unit!r}"
            )
        if self.guarantee.projection != "fixed":
            raise ParameterError("a cap holds for all projections: use projection='fixed'")

    @property
    def key(self) -> tuple[str, str]:
        """What tells caps apart: a dataset has one for each unit of privacy and relation of neighbours."""
        return self.guarantee.unit, self.guarantee.neighbours

    def describe(self) -> str:
        """The cap on a unit of privacy in a few words."""
        promise = self.guarantee
        whose = {"attribute": "value", "record": "record", "edge": "edge"}[promise.unit]
        many = self.attributes if promise.unit == "attribute" else promise.group
        unit = f"{many} {whose}s" if many > 1 else f"one {whose}"
        radius = "" if promise.allowed_change.radius is None else f" by {promise.allowed_change.describe()}"
        pair = "changed" if promise.neighbours == "replace" else "added or removed"
        return f"epsilon {promise.epsilon:g}, delta {promise.delta:g} for {unit} {pair}{radius}"


def units(release: Guarantee, cap: Cap, columns: int) -> int:
    """How many units of the release one unit of the cap is at most; ``columns``: how many values a record has.

    Each case names its chain of neighbours. Raises LedgerError where there is none.
    """
    wanted = cap.guarantee
    if (release.unit == "edge") != (wanted.unit == "edge"):
        raise _incomparable(release, cap, "edges of a graph and records of a table are different things")
    if wanted.neighbours == "add-remove" and release.neighbours == "replace":
        raise _incomparable(release, cap, "it shows how many rows there are, which the cap protects")
    pairs = 2 if release.neighbours == "add-remove" and wanted.neighbours == "replace" else 1  # out, then in
    return pairs * (1 if release.unit == "edge" else _within_a_table(release, cap, columns))


def _within_a_table(release: Guarantee, cap: Cap, columns: int) -> int:
    wanted = cap.guarantee
    if release.unit == "attribute":  # one value after another, in one row after another
        if wanted.unit == "attribute":
            return min(cap.attributes, columns)
        return columns * wanted.group
    rows = math.ceil(wanted.group / release.group)  # one person's rows, as many at a time as the release covers
    return rows * _moves(release.allowed_change, wanted.allowed_change, release, cap)


def _moves(release: Change, wanted: Change, promise: Guarantee, cap: Cap) -> int:
    """How many changes of the release's unit make one of the cap's.

    Changes of its kind are steps on the straight line between two rows.
    """
    if release.kind == "box":
        return 1
    shorter = {"l1": ("l1",), "l2": ("l1", "l2")}[release.kind]  # what is short in l1 is short in l2
    if wanted.kind not in shorter:
        raise _incomparable(promise, cap, f"it protects changes of a row within an {release.kind} ball only")
    assert release.radius is not None
    assert wanted.radius is not None
    return math.ceil(Fraction(wanted.radius) / Fraction(release.radius))  # exactly: a double may round down


def _incomparable(release: Guarantee, cap: Cap, why: str) -> LedgerError:
    return LedgerError(
        f"this release cannot be charged to the cap of {cap.describe()}: {why} "
        f"(it promises unit={release.unit!r}, neighbours={release.neighbours!r})"
    )
