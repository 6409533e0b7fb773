"""A schema as values: to and from TOML and the dictionaries of a manifest, with every problem told at once.

In TOML a name may be a pattern, and ``values`` may be a file beside the schema, one value a line. In a manifest names
are those of the columns, and nothing refers to a file.
"""

import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date
from pathlib import Path, PurePath
from types import SimpleNamespace
from typing import Any

from sfumato import untrusted
from sfumato.errors import SchemaError
from sfumato.tables import declared, patterns
from sfumato.tables.columns import KINDS, NEEDED, Column, Id
from sfumato.tables.encoding import of_one_range
from sfumato.tables.learned import Learned

LARGEST = 1 << 26  # bytes of a schema file, or of a file of values
_KEYS = ("columns", "clip", "bounds_from_data", "scale", "learned")
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,18})")


@dataclass(frozen=True, slots=True)
class WrittenSchema:
    """What a file says of a schema: columns and other arguments, and every problem found in it."""

    columns: tuple[Column, ...]
    settings: dict[str, Any]
    problems: tuple[str, ...]


def written(values: Mapping[str, Any], *, exact: bool = True, folder: Path | None = None) -> WrittenSchema:
    """A schema from its values, as ``Schema.to_dict`` or TOML has them.

    exact  : names are those of columns, as in a manifest; otherwise they may be patterns.
    folder : where files of values are; without one, none is read.
    """
    clip, columns = values.get("clip", {}), values.get("columns", [])
    if not isinstance(columns, list) or not isinstance(clip, Mapping):
        raise SchemaError("columns must be written as [[columns]] and clip as [clip]")
    problems = [*unknown(values, _KEYS, "the schema"), *unknown(clip, ("norm", "bound"), "clip")]
    made: list[Column] = []
    for place, entry in enumerate(columns, 1):
        try:
            made.append(_column(place, entry, exact=exact, folder=folder))
        except SchemaError as error:
            problems += declared.told(error)
    problems += declared.repeated((c.name for c in made), "column") if problems else []
    settings = {
        "norm": clip.get("norm"),
        "norm_bound": clip.get("bound"),
        "bounds_from_data": values.get("bounds_from_data", False),
        "scale": values.get("scale", "raw" if exact else None),
    }
    if "learned" in values:
        try:
            settings["learned"] = Learned.from_dict(values["learned"])
        except SchemaError as error:
            problems += declared.told(error)
    if settings["scale"] is None:
        problems += _unstated(made, settings["norm"] is not None, columns)
    return WrittenSchema(tuple(made), settings, tuple(problems))


def from_toml(text: str, folder: Path | None = None) -> WrittenSchema:
    """A schema from a TOML text; without a scale it is by bounds, and refused where that could be mistaken."""
    try:
        values = tomllib.loads(text)
    except ValueError as error:  # TOMLDecodeError, or a number with thousands of digits
        raise SchemaError(f"not TOML: {error}") from None
    except RecursionError:
        raise SchemaError("not a schema: its brackets are nested too deeply") from None
    return written(values, exact=False, folder=folder)


def text_of(path: Path, what: str = "schema file", *, follow: bool = True) -> str:
    """The text of a schema file, or of one that it names, in UTF-8, with lines that end as they do here."""
    try:
        found = untrusted.read(path, LARGEST, follow=follow).decode("utf-8-sig")
    except untrusted.NotOrdinaryError as error:
        raise SchemaError(f"{error}, so it is not read: name the file of a schema") from None
    except (OSError, UnicodeError):
        raise SchemaError(f"there is no such {what}, or it is not UTF-8 text") from None
    return found.replace("\r\n", "\n").replace("\r", "\n")


# ---- one column of a schema file ------------------------------------------------------------------------------------


def _column(place: int, entry: object, *, exact: bool, folder: Path | None) -> Column:
    if not isinstance(entry, Mapping) or "name" not in entry:
        raise SchemaError(f"column number {place} has no name")
    where, kind = f"column {entry['name']!r}", entry.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise SchemaError(f"kind of {where} must be one of {', '.join(KINDS)}, got {kind!r}")
    keys = [f.name for f in fields(KINDS[kind])]
    listed = ["values_file"] if "values" in keys and not exact else []
    problems = unknown(entry, ["kind", *keys, *listed], f"{where} of kind {kind}")
    given = {key: entry[key] for key in keys if key in entry}
    try:
        given |= _exact_names(given) if exact else _read_values(entry, folder) if listed else {}
    except SchemaError as error:
        problems += declared.told(error)
        given["values" if listed else "columns"] = ["?"]  # stands in for what is wrong, so that the rest is looked at
    try:
        column: Column = KINDS[kind](**given)
        if column.kind != kind:
            problems.append(f"{where} is of kind {kind}, and its bounds are those of kind {column.kind}")
    except SchemaError as error:
        problems += _unfit(kind, given) or declared.told(error)
    if problems:
        raise declared.gathered(problems)
    return column


def _exact_names(given: Mapping[str, Any]) -> dict[str, Any]:
    """The names in an entry of a manifest's schema, none of them a pattern."""
    found = {"name": patterns.exact(given["name"])} if isinstance(given["name"], str) else {}
    names = given.get("columns")
    if isinstance(names, str):
        raise SchemaError(f"columns of the vector {given['name']!r} must be a list of names, got {names!r}")
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        return found | {"columns": [patterns.exact(name) for name in names]}
    return found


def _unfit(kind: str, given: Mapping[str, Any]) -> list[str]:
    """What is wrong with each key of an entry in a schema file by itself: absent, or not of the type it needs."""
    settled = (
        {"size"} if given.get("columns") is not None else {"values"} if given.get("buckets") is not None else set()
    )
    name, found = given["name"], list[str]()
    for key in dict.fromkeys((*NEEDED.get(kind, ()), *given)):
        check = _CHECKS.get((kind, key)) or _CHECKS.get(("", key))
        if check is None or (key in settled and key not in given):
            continue
        found += declared.complaints(check, SimpleNamespace(name=name, missing=None, **{key: given.get(key)}), key)
    return found


def _number_or_default(column: Any, key: str) -> None:
    if getattr(column, key) is not None:
        declared.finite(column, key)


_CHECKS: dict[tuple[str, str], Any] = {
    **{(kind, key): declared.finite for kind in ("real", "vector") for key in ("low", "high")},
    **{("integer", key): declared.whole for key in ("low", "high")},
    **{(kind, key): declared.moment for kind in ("date", "datetime") for key in ("low", "high")},
    **{("", key): declared.finite for key in ("weight", "step")},
    **{("", key): declared.check_count for key in ("size", "most", "buckets")},
    ("", "values"): lambda column, _: declared.check_values(column),
    ("", "bound"): _number_or_default,
}


def _read_values(entry: Mapping[str, Any], folder: Path | None) -> dict[str, Any]:
    """The values of an entry in a schema file that stand in a file of their own: ``@FILE``, or ``values_file``."""
    name, values = entry["name"], entry.get("values")
    if "values_file" in entry and "values" in entry:
        raise SchemaError(f"column {name!r} has values and values_file: give one of them")
    reference = entry.get("values_file", values[1:] if isinstance(values, str) and values.startswith("@") else None)
    if reference is None:
        return {}
    where = f"values of column {name!r}"
    if not isinstance(reference, str) or not reference:
        raise SchemaError(f"{where} must be a list, or the name of a file such as '@cities.txt'")
    if folder is None:
        raise SchemaError(f"{where} stand in a file, which can only be read where the schema is a file beside it")
    if PurePath(reference).is_absolute() or ".." in PurePath(reference).parts:
        raise SchemaError(f"{where}: {reference!r} must lie in the folder of the schema, or in one below it")
    try:
        lines = text_of(folder / reference, "file of values", follow=False).split("\n")
    except SchemaError as error:
        raise SchemaError(f"{where}: {reference}: {error}") from None
    return {"values": listed_values([line.strip() for line in lines if line.strip()])}


def listed_values(texts: Sequence[str]) -> list[str | int]:
    """Values of a schema's column that were written as plain texts: whole numbers if all of them look like one."""
    if texts and all(_WHOLE.fullmatch(text) and text != "-0" for text in texts):
        return [int(text) for text in texts]
    return list(texts)


def _unstated(made: Iterable[Column], clips: bool, entries: Sequence[Any]) -> list[str]:
    """A complaint about a schema file that states no scale where a weight or a clip could mean either."""
    weighted = [entry["name"] for entry in entries if isinstance(entry, Mapping) and "weight" in entry]
    columns = [column for column in made if not isinstance(column, Id)]
    if not weighted and (not clips or not columns or of_one_range(columns)):
        return []
    what = f"the weight of column {weighted[0]!r}" if weighted else "the bound of the clip"
    return [
        (
            f'{what} can be read in two ways: write scale = "bounds" if columns count in units of their declared range '
            'and it is relative to that, or scale = "raw" if it is in the columns\' own units, as in version 0.1.0'
        )
    ]


def unknown(values: Mapping[str, Any], known: Sequence[str], where: str) -> list[str]:
    """Complaints about keys of a schema file that mean nothing."""
    return [f"unknown key {key!r} in {where}: it may hold {', '.join(known)}" for key in values if key not in known]


# ---- writing --------------------------------------------------------------------------------------------------------


def column_values(column: Column) -> dict[str, Any]:
    """What is declared about a column, as JSON-able values of a schema file, defaults left out."""
    given = {f.name: getattr(column, f.name) for f in fields(column) if getattr(column, f.name) != f.default}
    for key, value in given.items():
        given[key] = (
            list(value) if isinstance(value, tuple) else value.isoformat() if isinstance(value, date) else value
        )
    return {"name": given.pop("name"), "kind": column.kind} | given


def entry_of(column: Column) -> dict[str, Any]:
    """A column as an entry of a schema file: dates as dates, and names so that they are read back as they are."""
    found = column_values(column)
    found |= {key: getattr(column, key) for key in found if isinstance(getattr(column, key), date)}
    found["name"] = patterns.escaped(column.name)
    if "columns" in found:
        found["columns"] = [patterns.escaped(name) for name in found["columns"]]
    return found


def toml_text(settings: Mapping[str, Any], columns: Iterable[Column]) -> str:
    """A schema as a TOML text that people can read and edit; ``settings`` are values but the columns."""
    learned = Learned.from_dict(settings["learned"]) if "learned" in settings else None
    lines = [] if learned is None else [*learned.comments(), ""]
    lines += ["bounds_from_data = true"] if settings.get("bounds_from_data") else []
    lines += [f"scale = {toml_value(settings.get('scale', 'bounds'))}", ""]
    if "clip" in settings:
        lines += ["[clip]", *_toml_lines(settings["clip"]), ""]
    lines += [] if learned is None else learned.toml_lines()
    for column in columns:
        lines += ["[[columns]]", *_toml_lines(entry_of(column)), ""]
    return "\n".join(lines)


def _toml_lines(values: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {toml_value(value)}" for key, value in values.items()]


def toml_value(value: object) -> str:
    """A value in a schema's TOML; JSON's texts, whole numbers and booleans are valid TOML but for one character."""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
