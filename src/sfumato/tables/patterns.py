"""Names that stand for many columns: ``WAP*`` for those of a table that match, ``WAP{001..520}`` for a numbered range.

``*`` matches any letters, ``?`` one letter, ``[0-9]`` one of several, as in names of files; case matters. ``[*]``,
``[?]``, ``[[]`` and ``[{]`` are the letters themselves. A name that another entry spells out belongs to that entry, and
of two patterns the earlier one has it. Matching looks at the names of columns alone, which are public.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import translate
from itertools import product
from typing import Any

from sfumato.errors import SchemaError

_SPECIAL = "*?[{"
_ESCAPED = re.compile(r"\[([*?\[{])\]")
_GLOB = re.compile(r"[*?]|\[!?.[^\]]*\]")
_RANGE = re.compile(r"\{([0-9]{1,9})\.\.([0-9]{1,9})\}")
_LAST_NUMBER = re.compile(r"(.*?)([0-9]{1,9})([^0-9]*)", re.DOTALL)
_MOST = 1 << 20  # names of one numbered range


class Exact(str):
    """The name of a column as it is in the table: no letter of it makes a pattern."""

    __slots__ = ()


def exact(name: str) -> str:
    """A column's name as it is, no pattern."""
    return Exact(name) if any(letter in name for letter in _SPECIAL) else name


def escaped(name: str) -> str:
    """A column's name as a file writes it, so that it is read back as this name and not as a pattern."""
    plain = not isinstance(name, Exact) or not (is_pattern(str(name)) or _RANGE.search(name) or _ESCAPED.search(name))
    return str(name) if plain else "".join(f"[{letter}]" if letter in _SPECIAL else letter for letter in name)


def is_pattern(name: str) -> bool:
    """Whether a name is a pattern, which needs the columns of a table."""
    return not isinstance(name, Exact) and _GLOB.search(_ESCAPED.sub("", name)) is not None


def numbered(name: str) -> list[str]:
    """The names that a numbered range stands for, such as ``x{1..3}``; of any other name, itself without escapes."""
    if isinstance(name, Exact) or not any(letter in name for letter in _SPECIAL):
        return [name]
    ranges = [_numbers(name, *found.groups()) for found in _RANGE.finditer(name)]
    count = 1
    for texts in ranges:
        count *= len(texts)
    if count > _MOST:
        raise SchemaError(f"the name {name!r} stands for {count:,} columns: at most {_MOST:,} are allowed")
    between = _RANGE.split(name)[::3]
    made = ["".join(map("".join, zip(between, (*texts, ""), strict=True))) for texts in product(*ranges)]
    return [each if is_pattern(each) else _literal(each) for each in made]


def _literal(name: str) -> str:
    """A name that is no pattern, without its escapes."""
    return name if isinstance(name, Exact) else exact(_ESCAPED.sub(r"\1", name))


def _numbers(name: str, first: str, last: str) -> Sequence[str]:
    """The numbers of a range in a name."""
    low, high = int(first), int(last)
    if low > high:
        raise SchemaError(f"the range in the name {name!r} must go up: {{{last}..{first}}}")
    if high - low >= _MOST:
        raise SchemaError(f"the name {name!r} stands for {high - low + 1:,} columns: at most {_MOST:,} are allowed")
    return [_like(first, number) for number in range(low, high + 1)]


def _like(first: str, number: int) -> str:
    """A number of a range, as wide as its first one where that begins with a zero."""
    return f"{number:0{len(first) if first.startswith('0') else 1}}"


def sources_of(column: Any) -> tuple[str, ...]:
    """The names, some of them maybe patterns, of the columns of a table that an entry of a schema is read from."""
    return getattr(column, "columns", None) or (column.name,)


def open_patterns(columns: Iterable[Any]) -> tuple[str, ...]:
    """The patterns among the names in a schema, which need the names of a table."""
    return tuple(name for column in columns for name in sources_of(column) if is_pattern(name))


def expanded(columns: Sequence[Any]) -> tuple[Any, ...]:
    """The entries of a schema, numbered ranges name by name; a range leaves out what other entries spell out."""
    if not any(letter in column.name for column in columns for letter in _SPECIAL):
        return tuple(columns)
    lists = [[_literal(c.name)] if _reads_several(c) else numbered(c.name) for c in columns]
    ranged = [_RANGE.search(c.name) is not None and len(names) > 1 for c, names in zip(columns, lists, strict=True)]
    taken = {name for names, many in zip(lists, ranged, strict=True) if not many for name in names}
    taken.update(name for column in columns if _reads_several(column) for name in column.columns)
    made: list[Any] = []
    for column, names, many in zip(columns, lists, ranged, strict=True):
        left = [name for name in names if name not in taken] if many else names
        if not left:
            raise SchemaError(f"other entries name every column of {column.name!r}: leave it out")
        taken.update(left)
        made += [replace(column, name=name) for name in left]
    return tuple(made)


def matched(columns: Sequence[Any], names: Iterable[str]) -> tuple[Any, ...]:
    """The entries of a schema with their patterns settled by the names of a table's columns, in the table's order.

    A pattern that is itself the name of a column stands for that column alone. One SchemaError names every pattern
    that matches nothing.
    """
    free = dict.fromkeys(names)
    patterns = {name: None for name in open_patterns(columns) if name not in free}
    for name in (name for column in columns for name in sources_of(column)):
        free.pop(name, None)
    found = {pattern: _taken(free, pattern) for pattern in patterns}
    empty = [pattern for pattern in found if not found[pattern]]
    if empty:
        raise SchemaError(
            f"no column of the table is left for the pattern{'s' * (len(empty) > 1)} {_listing(empty, 20)}"
        )
    made: list[Any] = []
    for column in columns:
        its = [each for name in sources_of(column) for each in found.get(name, [exact(name)])]
        many = _reads_several(column)
        made += [replace(column, columns=tuple(its))] if many else [replace(column, name=name) for name in its]
    return tuple(made)


def fits(pattern: str, name: str) -> bool:
    """Whether a pattern matches the name of a column."""
    return re.compile(translate(pattern)).match(name) is not None


def stem(name: str) -> tuple[str, str] | None:
    """What stands before and behind the last number in a column's name, which like-named columns share."""
    found = _LAST_NUMBER.fullmatch(name)
    return None if found is None else (found[1], found[3])


def runs(names: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Columns of one stem as numbered ranges, each with its names; a number that is missing ends a range."""
    numbers = sorted(
        (found for found in map(_LAST_NUMBER.fullmatch, names) if found is not None), key=lambda f: int(f[2])
    )
    found: list[list[re.Match[str]]] = []
    for number in numbers:
        if found and number[2] == _like(found[-1][0][2], int(found[-1][-1][2]) + 1):
            found[-1].append(number)
        else:
            found.append([number])
    before, after = (escaped(exact(text)) for text in (numbers[0][1], numbers[0][3]))
    return [(f"{before}{{{run[0][2]}..{run[-1][2]}}}{after}", [number[0] for number in run]) for run in found]


def _reads_several(column: Any) -> bool:
    """Whether an entry's own name is no column of the table: its columns are listed, and may be patterns."""
    return bool(getattr(column, "columns", None))


def _taken(free: dict[str, None], pattern: str) -> list[str]:
    """The names that a pattern matches, taken out of those that no other entry has."""
    found = [name for name in free if fits(pattern, name)]
    for name in found:
        del free[name]
    return [exact(name) for name in found]


def positions(names: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Where columns of a schema are among the names of a table; refuses what is absent or there more than once."""
    place, count = {name: i for i, name in enumerate(names)}, Counter(names)
    absent = [name for name in wanted if name not in place]
    if absent:
        raise SchemaError(f"the table has no column{'s' * (len(absent) > 1)} {_listing(absent, 5)}")
    twice = next((name for name in wanted if count[name] > 1), None)
    if twice is not None:
        raise SchemaError(f"the column of the data {twice!r} is there more than once: names must be unique")
    return [place[name] for name in wanted]


def _listing(names: Sequence[str], most: int) -> str:
    return ", ".join(map(repr, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")
