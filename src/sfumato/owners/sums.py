"""Sums of releases of several owners, as one release: what analysts make of them costs no privacy.

*Owners of different records*: covariances and histograms of the same schema and settings add up, number by number.
Their noises are independent, so the noise of the sum is known: Gaussian noise sums to Gaussian noise exactly; with
Laplace noise in it, error bars are those of the sum of all noises (``estimation.summed_noise`` for covariances,
``intervals.additive_noise`` for counts). Epsilon and noise may differ from owner to owner. Owners must agree on the
neighbours: a sum over tables whose number of rows is public in some and protected in others would promise two different
things, so it is refused.

*Owners of different columns*: ``owners.columns``.

Formal guarantee: none is spent; a sum is post-processing. It states the largest epsilon and the largest delta of its
parts, which hold for a unit that one owner has; and ``several``, what a unit loses that is with all of them. That
owners hold different records is theirs to know: nothing in their releases tells.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from sfumato.errors import ParameterError, ReleaseError
from sfumato.fileformat import writer
from sfumato.fileformat.histogram_kind import noises
from sfumato.fileformat.kind import summed_deviation
from sfumato.fileformat.manifest import CellTableFacts, Facts, HistogramFacts, Manifest, SummedNoiseFacts
from sfumato.numerics.types import Floats
from sfumato.owners.columns import add_columns
from sfumato.owners.summed import different_promises, remember, summed_facts, weakest
from sfumato.projection.space import schema_differences, told
from sfumato.releases.release import AnyRelease, load, of_kind
from sfumato.tables.schema import Schema

Noise = tuple[str, float, int]  # law, scale, and how many owners have it

_ROUNDED = 1 / 12  # what rounding a count adds to the variance of its noise


def add(releases: Iterable[AnyRelease | str | Path] | Mapping[str, AnyRelease | str | Path]) -> AnyRelease:
    """The sum of releases of several owners, as a release of the same kind: covariances, histograms, or sketches.

    releases : two or more, or their folders, which are then loaded one by one; or a mapping from names to them, as
               ``join`` takes it, of which the names are not kept.

    Covariances and histograms are of owners who hold different records, with one schema and the same settings.
    Sketches are of owners who hold different columns of the same records, in one shared space, row by row.
    Guarantee: post-processing; costs no privacy. What is promised to whom is in the manifest: ``guarantee``, ``owners``
               and ``several``.
    Error:     that of the sum of independent noises, in the error bars of what is returned.
    """
    if isinstance(releases, str | Path) or not isinstance(releases, Iterable):
        raise ParameterError("releases must be a list of releases or of paths, or a mapping from names to them")
    given = releases.values() if isinstance(releases, Mapping) else releases
    loaded = (load(one) if isinstance(one, str | Path) else one for one in given)
    first = next(loaded, None)
    kind = getattr(first, "manifest", {}).get("kind")
    if first is None or kind not in ("covariance", "histogram", "sketch"):
        got = "none" if first is None else f"kind {kind!r}"
        raise ParameterError(f"covariances, histograms and sketches in a shared space add up, got {got}")
    if kind == "sketch":
        return add_columns([first, *loaded])
    total = _Total.of(first)
    for one in loaded:
        total.add(one)
    return total.release()


# ---- owners of different records ------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Total:
    """A running sum of releases: numbers, manifests and noises, but no release twice."""

    kind: str
    values: Floats
    manifests: list[Manifest] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, first: AnyRelease) -> "_Total":
        """The sum of one release."""
        made = cls(first.manifest["kind"], np.zeros(first.columns.shape))
        made.add(first)
        return made

    def add(self, release: AnyRelease) -> None:
        """Add a release; refused, by what differs, if it does not fit to the first."""
        manifest = release.manifest
        if self.manifests:
            check_alike(self.manifests[0], manifest)
        if manifest["mechanism"].get("noise") == "sketch":
            raise ReleaseError(
                "a covariance with noise='sketch' is drawn from its sums and does not add up: ask its owner for one "
                "with Gaussian or Laplace noise"
            )
        self.manifests.append(remember(self.seen, release))
        self.values += release.columns

    def release(self) -> AnyRelease:
        """The sum as a release."""
        if len(self.manifests) < 2:
            raise ParameterError("a sum is of two or more releases, got one")
        mechanism = _covariance(self.manifests) if self.kind == "covariance" else _histogram(self.manifests)
        promise = weakest([m["guarantee"] for m in self.manifests])
        rows = [m.get("rows") for m in self.manifests]
        fields = {
            "kind": self.kind,
            "guarantee": promise,
            "mechanism": mechanism,
            "schema": self.manifests[0]["schema"],
            "rows": None if None in rows else sum(cast("list[int]", rows)),
            **_shared(self.manifests),
            **summed_facts(self.manifests),
        }
        manifest = writer.seal(fields | {"files": {}})
        return of_kind(manifest).of_blocks(manifest, [(self.values, None)], None, {})


def check_alike(one: Manifest, two: Manifest) -> None:
    """Refuse to add releases that are not of the same schema, settings and kind of guarantee; says what differs."""
    if one["kind"] != two["kind"]:
        raise ReleaseError(f"releases of one kind add up, got {one['kind']!r} and {two['kind']!r}")
    found = list(different_promises(one["guarantee"], two["guarantee"]))
    if one["schema"] != two["schema"]:
        found += schema_differences(*(Schema.from_dict(m["schema"]) for m in (one, two)))
    settings = [_settings(manifest) for manifest in (one, two)]
    found += [name for name in settings[0] if settings[0][name] != settings[1].get(name)]
    if not found and one["kind"] == "histogram":
        found += _cell_differences(
            *(cast("HistogramFacts", manifest["mechanism"])["tables"] for manifest in (one, two))
        )
    if found:
        raise ReleaseError(f"these releases do not add up, they differ in: {told(found)}")


def _settings(manifest: Manifest) -> dict[str, Any]:
    """What releases must agree on to be summed, by name: not the noise."""
    facts: Mapping[str, Any] = manifest["mechanism"]
    if manifest["kind"] == "histogram":
        return {}  # but for its tables
    named = {"centred": "whether they are about the mean", "anchor": "the anchor", "longest": "the longest row"}
    found = {words: facts.get(name) for name, words in named.items() if facts.get("noise") != "sketch"}
    return found | {"the grid of rows": manifest["lattice"]["input_bits"]}


def _cell_differences(one: Sequence[CellTableFacts], two: Sequence[CellTableFacts]) -> list[str]:
    """The first thing in which tables of counts and their cells differ, in words."""
    if [table["columns"] for table in one] != [table["columns"] for table in two]:
        names = ["; ".join(" and ".join(table["columns"]) for table in tables) for tables in (one, two)]
        return [f"tables and their cells: of {names[0]}, and of {names[1]}"]
    for first, second in zip(one, two, strict=True):
        cells = {name: [table["cuts"].get(name) for table in (first, second)] for name in first["columns"]}
        name = next((name for name, (mine, theirs) in cells.items() if mine != theirs), None)
        if name is not None:
            return [f"tables and their cells: {name} {_counted(*(len(cuts or ()) + 1 for cuts in cells[name]))}"]
        if first["cells"] != second["cells"]:
            return [
                f"tables and their cells: {' and '.join(first['columns'])} {_counted(first['cells'], second['cells'])}"
            ]
    return []


def _counted(one: int, two: int) -> str:
    """How the cells of a column differ."""
    return f"in {one} cells and in {two}" if one != two else f"in {one} cells, cut at different places"


# ---- what the manifest of a sum says --------------------------------------------------------------------------------


def _shared(manifests: Sequence[Manifest]) -> Facts:
    """The lattice of a sum of covariances: the finest of all, of which the others are multiples."""
    if "lattice" not in manifests[0]:
        return {}
    finest = min((manifest["lattice"] for manifest in manifests), key=lambda lattice: lattice["unit"])
    return {"lattice": finest}


def grouped(found: Iterable[Noise]) -> list[SummedNoiseFacts]:
    """The noises of a sum, those of equal law and scale together."""
    many: Counter[tuple[str, float]] = Counter()
    for law, scale, count in found:
        many[law, scale] += count
    return [{"noise": law, "scale": scale, "owners": count} for (law, scale), count in sorted(many.items())]  # type: ignore[typeddict-item]


def _covariance(manifests: Sequence[Manifest]) -> Facts:
    """The mechanism of a sum of covariances."""
    facts = [cast("Mapping[str, Any]", manifest["mechanism"]) for manifest in manifests]
    kept = {name: facts[0][name] for name in ("name", "centred", "columns", "longest", "anchor")}
    kept["sensitivity"] = max(one["sensitivity"] for one in facts)
    found = grouped(noise for one in facts for noise in covariance_noises(one))
    deviation = summed_deviation(found)
    if all(one["noise"] == "gaussian" for one in found):
        return kept | {"noise": "gaussian", "scale": deviation, "standard_deviation": deviation}
    return kept | {"noise": "sum", "noises": found, "standard_deviation": deviation}


def covariance_noises(facts: Mapping[str, Any]) -> list[Noise]:
    """The noises on a covariance that goes into a sum: its own, or those of a sum."""
    if facts["noise"] == "sum":
        return [(one["noise"], one["scale"], one["owners"]) for one in facts["noises"]]
    return [(facts["noise"], facts["scale"], 1)]


def _histogram(manifests: Sequence[Manifest]) -> Facts:
    """The mechanism of a sum of histograms; of Gaussian noise on rounded counts the variance is exact."""
    facts = [manifest["mechanism"] for manifest in manifests]
    laws = {law for one in facts for law, _, _ in noises(one, 0)}
    tables = []
    for place, table in enumerate(facts[0]["tables"]):
        kept = {name: table[name] for name in ("columns", "cells", "cuts")}
        found = grouped(noise for one in facts for noise in noises(one, place))
        if laws == {"gaussian"}:
            tables.append(kept | {"scale": _rounded_scale(found)})
        else:
            tables.append(kept | {"noises": found})
    made = {"name": "histogram", "tables": tables, "sensitivity": max(one["sensitivity"] for one in facts)}
    if laws == {"gaussian"}:
        least = min(table["scale"] for table in tables)
        return made | {"noise": "gaussian", "scale": least, "standard_deviation": least}
    least = min(summed_deviation(table["noises"]) for table in tables)
    return made | {"noise": "sum", "standard_deviation": least}


def _rounded_scale(found: Sequence[SummedNoiseFacts]) -> float:
    """The scale of one rounded Gaussian noise on a count with the variance of a sum of several."""
    several_rounded = sum(one["owners"] for one in found) - 1
    return float(np.sqrt(summed_deviation(found) ** 2 + several_rounded * _ROUNDED))
