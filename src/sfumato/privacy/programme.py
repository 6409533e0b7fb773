"""A programme: releases that are declared before the first of them is made, for tight composition.

Formal guarantee: a release uses one planned release that dominates it, and each is used at most ``count`` times, in
any order. Then all of them together satisfy (``Programme.epsilon``, ``Programme.delta``), the tight composition of the
whole programme, also if the order, the questions, and which planned releases are used at all are chosen after seeing
earlier results; and together with a pure share of epsilon1 (``privacy.filters``), (epsilon1 + epsilon, delta).

Proof. A planned release stands for a pair of laws (P, Q). A release that it dominates is a random function of one draw
from P if it reads D, and of one from Q if it reads D' (Blackwell; Dong, Roth and Su 2022, Theorem 2.10). Draw for all
planned releases at the start, independently. Everything published is then a random function of these draws, whatever is
chosen on the way, so it satisfies what the product of the pairs satisfies. For sessions that go on answering while
others are opened: Vadhan and Zhang 2023.
"""

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, Self

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.privacy.calibration import least_level
from sfumato.privacy.composition import Book, Charge, rounded_up, without_tail
from sfumato.privacy.losses import Gaussian, Loss, Pure

_KEYS = ("loss", "epsilon", "delta", "count", "mechanism")
_MOST = 100_000
_AGREE = 2.0**-39  # more than a search for the level of a Gaussian leaves open


@dataclass(frozen=True, slots=True)
class PlannedRelease:
    """One line of a programme: a loss, how often it may be spent, and, if it is named, by which mechanism.

    law : 'pure' stands for every release of this epsilon, delta 0. 'gaussian' stands for the Gaussian mechanism with
          exactly this delta at this epsilon, and every release whose profile lies below its profile everywhere.
    """

    law: Literal["pure", "gaussian"]
    epsilon: float
    delta: float = 0.0
    count: int = 1
    mechanism: str | None = None

    def __post_init__(self) -> None:
        check.one_of(("pure", "gaussian"), loss=self.law)
        check.positive(epsilon=self.epsilon)
        check.probability_below_one(delta=self.delta)
        check.whole(1, count=self.count)
        object.__setattr__(self, "epsilon", float(self.epsilon))
        object.__setattr__(self, "delta", float(self.delta))
        if (self.delta == 0) != (self.law == "pure"):
            raise ParameterError(f"a planned {self.law} release has {'no' if self.law == 'pure' else 'a'} delta")

    @property
    def loss(self) -> Loss:
        """The worst loss that a planned release stands for."""
        if self.law == "pure":
            return Pure(self.epsilon)
        level = least_level(lambda level: Gaussian(1.0, level), self.epsilon, self.delta)
        return Gaussian((1 + _AGREE) / level, 1.0)

    def dominates(self, charge: Charge, mechanism: str) -> bool:
        """Whether a release with this charge may use the planned one.

        Gaussian profiles are ordered, so that one at most ``delta`` at ``epsilon`` lies below the planned one.
        """
        if self.mechanism not in (None, mechanism):
            return False
        if self.law == "pure":
            return charge.delta == 0 and Decimal(repr(charge.epsilon)) <= Decimal(repr(self.epsilon))
        if isinstance(charge.loss, Gaussian):
            return charge.loss.delta(self.epsilon) <= self.delta
        if not without_tail(charge.loss):
            return False
        mu = charge.majorised().mu
        return mu < math.inf and Gaussian(mu, 1.0).delta(self.epsilon) <= self.delta

    def to_json(self) -> dict[str, Any]:
        """One line of a programme as a ledger writes it, and as a TOML file has it."""
        named = {} if self.mechanism is None else {"mechanism": self.mechanism}
        return {"loss": self.law, "epsilon": self.epsilon, "delta": self.delta, "count": self.count} | named

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """One line of a programme; refuses what it does not know."""
        unknown = sorted(set(fields) - set(_KEYS))
        if unknown or not {"loss", "epsilon"} <= set(fields):
            raise ParameterError(
                f"a planned release has loss and epsilon, and may have delta, count and mechanism; got {sorted(fields)}"
            )
        mechanism = fields.get("mechanism")
        if mechanism is not None and not isinstance(mechanism, str):
            raise ParameterError(f"the mechanism of a planned release is a name, got {mechanism!r}")
        return cls(fields["loss"], fields["epsilon"], fields.get("delta", 0.0), fields.get("count", 1), mechanism)


@dataclass(frozen=True, slots=True)
class Programme:
    """Releases that were declared beforehand, and the (epsilon, delta) of all of them together."""

    planned: tuple[PlannedRelease, ...]
    epsilon: float
    delta: float

    @classmethod
    def of(cls, planned: Iterable[PlannedRelease], epsilon: float, delta: float) -> Self:
        """A programme for a cap (epsilon, delta); refused if all its releases together exceed it."""
        items = tuple(planned)
        if not items:
            raise ParameterError("a programme lists at least one release")
        if sum(item.count for item in items) > _MOST:
            raise ParameterError(f"a programme lists at most {_MOST:,} releases")
        counts: dict[Charge, int] = {}
        for item in items:
            charge = Charge.of(item.epsilon, item.delta, item.loss)
            counts[charge] = counts.get(charge, 0) + item.count
        book = Book(counts, "tight")
        if not book.fits(epsilon, delta):
            raise ParameterError(
                f"the releases of this programme together cost epsilon {book.total(delta).epsilon:.4g} at delta "
                f"{delta:g}, and the cap is {epsilon:g}: plan fewer or smaller ones, or raise the cap"
            )
        return cls(items, min(rounded_up(book.total(delta).epsilon), epsilon), delta)

    def matching(self, charge: Charge, mechanism: str) -> list[int]:
        """The planned releases that a charge may use, those that name its mechanism and the smallest first."""
        found = [i for i, item in enumerate(self.planned) if item.dominates(charge, mechanism)]
        return sorted(found, key=lambda i: (self.planned[i].mechanism is None, self.planned[i].epsilon))

    def to_json(self) -> dict[str, Any]:
        """A programme as a ledger writes it."""
        return {
            "release": [item.to_json() for item in self.planned],
            "epsilon": self.epsilon,
            "delta": self.delta,
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """A programme as a ledger wrote it."""
        planned = tuple(map(PlannedRelease.from_json, fields["release"]))
        return cls(planned, float(fields["epsilon"]), float(fields["delta"]))


def planned_releases(lines: str | Sequence[Mapping[str, Any]]) -> list[PlannedRelease]:
    """The releases of a programme: the text of a TOML file with [[release]] tables, or such tables."""
    if isinstance(lines, str):
        try:
            told = tomllib.loads(lines)
        except tomllib.TOMLDecodeError as error:
            raise ParameterError(f"the programme is no TOML file ({error})") from None
        if set(told) != {"release"} or not isinstance(told["release"], list):
            raise ParameterError("a programme is a TOML file of [[release]] tables, each with loss and epsilon")
        lines = told["release"]
    if not all(isinstance(line, Mapping) for line in lines):
        raise ParameterError("a programme is a list of releases, each with loss and epsilon")
    return [PlannedRelease.from_json(line) for line in lines]
