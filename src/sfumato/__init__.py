"""sfumato: publish data under differential privacy through random projections."""

from importlib import import_module
from typing import Any

_PUBLIC = {
    "BudgetError": "errors",
    "Cap": "conversion",
    "Category": "columns",
    "Change": "guarantee",
    "ChosenSketch": "mechanisms.chosen",
    "Components": "mechanisms.components",
    "Covariance": "mechanisms.covariance",
    "EdgeNoise": "mechanisms.pairs",
    "EdgeResponse": "mechanisms.pairs",
    "Estimate": "estimate",
    "Flag": "columns",
    "GraphSketch": "mechanisms.graph",
    "Guarantee": "guarantee",
    "Id": "columns",
    "Ledger": "ledger",
    "LedgerError": "errors",
    "MissingDependency": "errors",
    "NoisyDistances": "mechanisms.distances",
    "ParameterError": "errors",
    "Projection": "projection",
    "RandomizedResponse": "mechanisms.responses",
    "Real": "columns",
    "ReleaseError": "errors",
    "Schema": "schema",
    "SchemaError": "errors",
    "Session": "session",
    "SfumatoError": "errors",
    "Sketch": "mechanisms.sketch",
    "Synthetic": "mechanisms.synthetic",
    "audit": "audit",
    "load": "releases.loading",
    "plan": "planner",
    "plan_scales": "scales",
    "price": "pipeline",
    "release": "pipeline",
    "release_to": "pipeline",
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
