"""sfumato: publish data under differential privacy through random projections."""

from importlib import import_module
from typing import Any

_PUBLIC = {
    "BudgetError": "errors",
    "Cap": "privacy.units",
    "Category": "tables.columns",
    "Change": "privacy.guarantee",
    "ChosenSketch": "mechanisms.chosen_sketch",
    "Components": "mechanisms.components",
    "Covariance": "mechanisms.covariance",
    "Date": "tables.columns",
    "Draft": "tables.schema_draft",
    "EdgeNoise": "mechanisms.graph_pairs",
    "EdgeResponse": "mechanisms.graph_pairs",
    "Estimate": "intervals.estimate",
    "Flag": "tables.columns",
    "GraphSketch": "mechanisms.graph_sketch",
    "Guarantee": "privacy.guarantee",
    "Histogram": "mechanisms.histogram",
    "Id": "tables.columns",
    "Integer": "tables.columns",
    "Ledger": "ledger.ledger",
    "LedgerError": "errors",
    "MissingDependency": "errors",
    "NoisyDistances": "mechanisms.distances",
    "Ordinal": "tables.columns",
    "ParameterError": "errors",
    "Projection": "projection.projection",
    "RandomizedResponse": "mechanisms.responses",
    "Real": "tables.columns",
    "ReleaseError": "errors",
    "Schema": "tables.schema",
    "SchemaError": "errors",
    "Session": "pipeline.session",
    "Set": "tables.columns",
    "SfumatoError": "errors",
    "Sketch": "mechanisms.sketch",
    "Space": "projection.space",
    "Stream": "pipeline.stream",
    "StreamError": "errors",
    "Synthetic": "mechanisms.synthetic.recipe",
    "Table": "mechanisms.table.recipe",
    "TableFile": "files.table_file",
    "Vector": "tables.columns",
    "add": "owners.sums",
    "audit": "audit",
    "compare": "comparing.quality",
    "compare_privately": "comparing.private_quality",
    "join": "owners.joined",
    "learn_schema": "pipeline.learn_schema",
    "link": "owners.links",
    "load": "releases.release",
    "plan": "planning.plans",
    "plan_scales": "planning.scales",
    "plan_stream": "streams.plan",
    "price": "pipeline.release",
    "release": "pipeline.release",
    "release_to": "pipeline.release",
}

__all__ = [*_PUBLIC]  # noqa: PLE0604 - a list of strings, spelled once


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(f"sfumato.{_PUBLIC[name]}"), name)
    if name == "__version__":
        return import_module("sfumato.version").__version__
    raise AttributeError(f"module 'sfumato' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
