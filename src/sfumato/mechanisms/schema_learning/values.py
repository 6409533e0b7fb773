"""Values of categories and items of sets that are published: texts whose noisy counts exceed a threshold."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from sfumato.mechanisms.schema_learning.budget import Threshold
from sfumato.numerics.types import Floats, Integers
from sfumato.tables import cells
from sfumato.tables.columns import Category, Column, Set
from sfumato.tables.declared import keeps_missing
from sfumato.tables.encoding import MISSING, encoded_names

_EXACT = 2.0**53


@dataclass(frozen=True, slots=True)
class Values:
    """Published texts of a column, about how many records have one of them, and the deviation of that count's noise."""

    texts: tuple[str, ...]
    kept: float
    spread: float


def published(
    chunks: Iterable[tuple[list[bytes], Integers]], limit: Threshold, noisy: Callable[[int, Integers], Floats]
) -> Values:
    """The texts whose noisy counts strictly exceed the threshold, sorted; ``noisy(place, counts)`` adds the noise.

    Every text that is there gets noise of its own, however rare it is. How many there are appears nowhere.
    """
    kept: list[tuple[bytes, float]] = []
    for place, (words, counts) in enumerate(chunks):
        seen = noisy(place, counts)
        kept += [(words[i], float(seen[i])) for i in (seen > limit.count).nonzero()[0].tolist()]
    texts = _distinct([text for word, _ in kept if (text := _decoded(word)) is not None])
    return Values(texts, sum(count for _, count in kept), limit.deviation * len(kept) ** 0.5)


def _decoded(word: bytes) -> str | None:
    try:
        return word.decode()
    except UnicodeDecodeError:
        return None


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    """Published texts without those that a category could not tell apart: of one number, or 2^53 and more."""
    found: dict[float | str, str] = {}
    for text in sorted(texts):
        number = cells.number_of(text)
        if number is None or not abs(number) >= _EXACT:
            found.setdefault(text if number is None else number, text)
    return tuple(sorted(found.values()))


def apart(columns: Iterable[Column]) -> tuple[Column, ...]:
    """Columns whose encoded names differ: published values are left out that would encode to another column's name."""
    made = list(columns)
    names = {column.name for column in made}
    made = [_without_level(c) if f"{c.name}={MISSING}" in names else c for c in made]
    taken = names | {name for c in made if not isinstance(c, Category | Set) for name in _encoded(c)}
    result: list[Column] = []
    for column in made:
        if isinstance(column, Category | Set) and column.values is not None:
            values = tuple(v for v in column.values if v != MISSING and f"{column.name}={v}" not in taken)
            taken |= {f"{column.name}={v}" for v in values}
            if not values:
                continue
            column = replace(column, values=values)  # noqa: PLW2901
        result.append(column)
    return tuple(result)


def _encoded(column: Column) -> list[str]:
    return [] if column.kind == "id" else list(encoded_names(column))  # type: ignore[arg-type]


def _without_level(column: Column) -> Column:
    kept = column.kind != "id" and keeps_missing(column)
    changed: Any = replace(column, missing=None) if kept else column  # type: ignore[arg-type]
    return changed  # type: ignore[no-any-return]
