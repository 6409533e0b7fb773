"""Private histograms: the record of their kind. ``data.parquet`` holds the noisy counts, table after table."""

import math
from typing import TYPE_CHECKING

from sfumato import untrusted
from sfumato.errors import ParameterError
from sfumato.fileformat.kind import Kind, noise_fits, summed_deviation
from sfumato.fileformat.manifest import HistogramFacts, HistogramManifest
from sfumato.tables.schema import Schema

if TYPE_CHECKING:
    from sfumato.marginals.cell_tables import CellTables

_SHOWN = 3  # tables that are named


def cell_tables(manifest: HistogramManifest, schema: Schema) -> "CellTables":
    """The tables of cells that a histogram's manifest states; a ParameterError where there can be none such."""
    from sfumato.marginals.cell_tables import CellTables  # noqa: PLC0415 - of this kind alone

    tables = manifest["mechanism"]["tables"]
    return CellTables.stated(schema, [(table["columns"], table["cuts"]) for table in tables])


def noises(facts: HistogramFacts, place: int) -> list[tuple[str, float, int]]:
    """The independent noises on each count of a histogram's table: law, scale, and how many there are of it."""
    table = facts["tables"][place]
    if facts["noise"] != "sum":
        return [(facts["noise"], float(table["scale"]), 1)]
    return [(one["noise"], float(one["scale"]), int(one["owners"])) for one in table["noises"]]


def deviation(facts: HistogramFacts, place: int) -> float:
    """The standard deviation of the noise on each count of a histogram's table."""
    table = facts["tables"][place]
    if facts["noise"] == "sum":
        return summed_deviation(table["noises"])
    return float(table["scale"]) * (math.sqrt(2) if facts["noise"] == "laplace" else 1.0)


def _size(manifest: HistogramManifest) -> int:
    return sum(int(table["cells"]) for table in manifest["mechanism"]["tables"])


def _agrees(manifest: HistogramManifest, schema: Schema) -> bool:
    facts = manifest["mechanism"]
    stated = [table["cells"] for table in facts["tables"]]
    try:
        sizes = list(cell_tables(manifest, schema).sizes)
    except ParameterError:
        return False
    if facts["noise"] == "sum":
        fits = abs(facts["standard_deviation"] / min(deviation(facts, p) for p in range(len(stated))) - 1) < 1e-9
    else:
        fits = noise_fits(facts["noise"], facts["scale"], facts["standard_deviation"])
    return fits and all(type(cells) is int for cells in stated) and sizes == stated


def _contents(manifest: HistogramManifest) -> str:
    facts, rows = manifest["mechanism"], manifest.get("rows")
    whose = "a protected number of records" if rows is None else f"{rows:,} records"
    tables = [untrusted.line(" and ".join(table["columns"])) for table in facts["tables"]]
    more = f"; {len(tables) - _SHOWN} more" if len(tables) > _SHOWN else ""
    named = f"{len(tables):,} table{'s' if len(tables) > 1 else ''} ({'; '.join(tables[:_SHOWN])}{more})"
    return f"counts of {whose} in {_size(manifest):,} public cells of {named}, {_noise(manifest)}"


def _noise(manifest: HistogramManifest) -> str:
    """The noise of a histogram in words."""
    facts = manifest["mechanism"]
    found = sorted(deviation(facts, place) for place in range(len(facts["tables"])))
    size = f"{found[0]:.6g}" if found[0] == found[-1] else f"{found[0]:.6g} to {found[-1]:.6g}"
    law = "summed" if facts["noise"] == "sum" else facts["noise"]
    return f"with {law} noise of standard deviation {size} on each"


HISTOGRAM = Kind(
    title="A private histogram",
    product="Perturbed counts of records",
    served_by=("histogram", "HistogramRelease"),
    columns=lambda _: ("value",),
    size=_size,
    agrees=_agrees,
    contents=_contents,
    sensitivity=lambda manifest: f"Sensitivity: {manifest['mechanism']['sensitivity']:.6g}.",
    use=(
        ("release.tables", "which columns were counted together"),
        ('release.counts("age")', "the counts of a column as a labelled table, each with its error"),
        ("release.count(\"age >= 40 and sex = 'F'\")", "how many records a question holds for, with error bars"),
    ),
    example=lambda _: "release.total()",
)
