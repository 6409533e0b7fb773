"""What a learned schema says of itself: the guarantee under which it was learned, and what it leaves out.

Everything here is private already: it was computed from noisy counts. It is part of the schema, in its file and in the
manifests of releases that use it, because their guarantee is additional to the one stated here.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from sfumato import check
from sfumato.errors import ParameterError, SchemaError

METHOD = "octaves and thresholds, version 1"
_FIELDS = ("epsilon", "delta", "unit", "neighbours", "group", "method", "rows", "noise", "cut", "unlisted", "ledger")


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """How a schema was learned privately, and at which price.

    epsilon, delta, neighbours, group : of the guarantee, whose unit is the record.
    rows     : the number of rows: public if one record is replaced, else a noisy count.
    cut      : for each column of numbers or dates, about how many cells lie outside its bounds: a noisy count.
    unlisted : for each category, about how many cells are missing or have no listed value: a noisy count.
    noise    : for each column, the standard deviation of that count's noise.
    ledger   : where it was charged, if it was: the dataset, and the number of the entry.
    """

    epsilon: float
    delta: float
    neighbours: str = "replace"
    group: int = 1
    method: str = METHOD
    rows: int = 0
    cut: Mapping[str, int] = field(default_factory=dict)
    unlisted: Mapping[str, int] = field(default_factory=dict)
    noise: Mapping[str, float] = field(default_factory=dict)
    ledger: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        try:
            check.positive(epsilon=self.epsilon)
            check.probability_below_one(delta=self.delta)
            check.one_of(("replace", "add-remove"), neighbours=self.neighbours)
            check.whole(1, group=self.group)
        except ParameterError as error:
            raise SchemaError(f"[learned]: {error}") from None
        for name in ("cut", "unlisted", "noise"):
            counts = getattr(self, name)
            if not isinstance(counts, Mapping) or not all(_number(value) for value in counts.values()):
                raise SchemaError(f"{name} in [learned] must be a number for each column")
            object.__setattr__(self, name, dict(counts))

    def __hash__(self) -> int:
        return hash((self.epsilon, self.delta, self.neighbours, self.group, self.method, self.rows))

    def to_dict(self) -> dict[str, Any]:
        """What was learned as JSON-able values; the unit is always the record."""
        values = {name: getattr(self, name) for name in _FIELDS if name != "unit"}
        return {"unit": "record"} | {name: value for name, value in values.items() if value not in (None, {})}

    @classmethod
    def from_dict(cls, values: object) -> Self:
        """The inverse of ``to_dict``."""
        if not isinstance(values, Mapping) or not set(values) <= set(_FIELDS) or values.get("unit") != "record":
            raise SchemaError(f'[learned] must hold unit = "record" and may hold {", ".join(_FIELDS)}')
        if not {"epsilon", "delta"} <= set(values):
            raise SchemaError("[learned] must say the epsilon and delta under which the schema was learned")
        return cls(**{name: value for name, value in values.items() if name != "unit"})

    def toml_lines(self) -> list[str]:
        """What was learned as tables of a schema file; names of columns may be any text."""
        lines: list[str] = []
        values = self.to_dict()
        tables: dict[str, Mapping[str, Any]] = {
            "": {key: value for key, value in values.items() if not isinstance(value, Mapping)}
        }
        tables |= {f".{key}": value for key, value in values.items() if isinstance(value, Mapping)}
        for name, table in tables.items():
            lines += [f"[learned{name}]", *(f"{_key(key)} = {json.dumps(value)}" for key, value in table.items()), ""]
        return lines

    def comments(self) -> list[str]:
        """What was learned, in plain words, as comments of a schema file."""
        pair = "is replaced by another" if self.neighbours == "replace" else "is added or removed"
        whose = "one record" if self.group == 1 else f"a person with at most {self.group} records"
        return [
            "# Bounds and values below were learned from the data under differential privacy:",
            f"# epsilon {self.epsilon:g}, delta {self.delta:g}, where {whose} {pair}.",
            "# Releases that use this schema cost their own privacy loss in addition.",
            "# cut: cells outside the bounds, about. unlisted: cells without a listed value, about. noise: standard",
            "# deviation of these noisy counts.",
        ]


def _key(text: str) -> str:
    """A key of a learned schema's tables: bare where TOML allows it, else as a JSON text, which is TOML."""
    return text if re.fullmatch("[A-Za-z0-9_-]+", text) else json.dumps(text)


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
