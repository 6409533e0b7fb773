"""What a report says of the declared columns: what each may hold, how columns count, and where bounds come from."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sfumato.fileformat.manifest import Manifest
from sfumato.report.html import Markup, join, tag
from sfumato.report.numbers import number
from sfumato.tables.declared import LEVEL

_MOST_COLUMNS, _MOST_LIST = 60, 8
_SCALES = {
    "bounds": "Columns count in units of their declared range; weights are relative to that.",
    "raw": "Columns count in their own units, times their weights.",
}


def schema(manifest: Manifest) -> Markup:
    """A report's words on the declared columns, as a table; nothing for graphs."""
    if "schema" not in manifest:
        return Markup("")
    declared = manifest["schema"]
    columns = declared["columns"]
    head = tag("tr", *(tag("th", name, scope="col") for name in ("column", "kind", "may be", "weight")))
    rows = [
        tag(
            "tr",
            tag("th", c["name"], scope="row"),
            tag("td", c["kind"]),
            tag("td", may_be(c)),
            tag("td", "" if c["kind"] == "id" else number(c.get("weight", 1.0))),
        )
        for c in columns[:_MOST_COLUMNS]
    ]
    table = tag("table", tag("thead", head), tag("tbody", *rows), class_="columns")
    return join(tag("div", table, class_="wide"), tag("p", " ".join(_below(manifest)), class_="quiet"))


def _below(manifest: Manifest) -> list[str]:
    """What a report says below the table of columns."""
    declared = manifest["schema"]
    more, clip = len(declared["columns"]) - _MOST_COLUMNS, declared.get("clip")
    told = [f"{more:,} more columns are in manifest.json."] if more > 0 else []
    told.append(_SCALES[declared.get("scale", "raw")])
    told += (
        [f"Each row is shrunk to {clip['norm']} norm {number(clip['bound'], 6)}, in weighted units."] if clip else []
    )
    return told + ([learned(manifest)] if "learned" in declared else [])


def learned(manifest: Manifest) -> str:
    """A report's sentence on bounds and values that were learned privately: their price is not the release's."""
    found = manifest["schema"]["learned"]
    price = f"\u03b5 = {number(found['epsilon'], 6)} and \u03b4 = {number(found['delta'], 6)}"
    where = f", charged to the dataset {found['ledger']['dataset']}" if found.get("ledger") else ""
    return (
        f"Bounds and values were learned from the data under a guarantee of its own, {price} for one record{where}: "
        "what the release costs comes in addition."
    )


def may_be(column: Mapping[str, Any]) -> str:
    """A report's words on what a declared column may hold."""
    kept = ", or missing" if column.get("missing") == LEVEL and LEVEL not in column.get("values", ()) else ""
    return _RANGES.get(column["kind"], _listed)(column) + kept


def _bounds(column: Mapping[str, Any]) -> str:
    return f"{number(column['low'], 8)} to {number(column['high'], 8)}"


def _dates(column: Mapping[str, Any]) -> str:
    unit, step = "day" if column["kind"] == "date" else "second", column.get("step", 1)
    steps = f", in steps of {number(step, 6)} {unit}s" if step != 1 else ""
    return f"{column['low']} to {column['high']}".replace("T", " ") + steps


def _vector(column: Mapping[str, Any]) -> str:
    size, names = column.get("size", len(column.get("columns", ()))), column.get("columns", ())
    source = f" in the columns {listing(names)}" if names else ""
    length = f", of length at most {number(column['bound'], 6)}" if "bound" in column else ""
    apart = "" if column.get("whole", True) else ", each a value of its own"
    return f"{size:,} numbers{source}, {_bounds(column)}{length}{apart}"


def _set(column: Mapping[str, Any]) -> str:
    most = f"at most {column['most']:,} of "
    return most + (f"{column['buckets']:,} buckets" if "buckets" in column else _listed(column))


def _listed(column: Mapping[str, Any]) -> str:
    return listing(column["values"])


def _ordered(column: Mapping[str, Any]) -> str:
    return f"in this order: {listing(column['values'])}"


def listing(values: Sequence[object], most: int = _MOST_LIST) -> str:
    """A report's list of values: the first few, and how many more there are."""
    more = f" and {len(values) - most:,} more" if len(values) > most else ""
    return ", ".join(number(v) if isinstance(v, float) else str(v) for v in values[:most]) + more


_RANGES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "real": _bounds,
    "integer": _bounds,
    "flag": lambda _: "true or false",
    "ordinal": _ordered,
    "date": _dates,
    "datetime": _dates,
    "vector": _vector,
    "set": _set,
    "id": lambda _: "public, as it was",
}
