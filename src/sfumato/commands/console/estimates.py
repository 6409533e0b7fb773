"""Estimates of a release as commands ask for them and print them: value, standard error and interval."""

import math
from typing import Any

from sfumato.commands.console.options import finite, tell

LISTED = 30  # entries of a table that are printed


def method_of(options: Any, question: str) -> Any:
    """The release's method for an estimate, which not every kind can give."""
    from sfumato.errors import ReleaseError
    from sfumato.releases.release import load
    from sfumato.report.extreme import check_computable

    release = load(options.release)
    check_computable(release)
    if not hasattr(release, question):
        kind = release.manifest["kind"]
        raise ReleaseError(f"{options.release} is a release of kind {kind!r}, which cannot estimate {question}")
    return getattr(release, question)


def print_bar(options: Any, name: str, found: Any) -> None:
    """Print one estimate with its error and interval."""
    low, high = (float(x) for x in found.interval(options.level))
    value, error = float(found.value), float(found.standard_error)
    facts = {"value": value, "standard_error": error, "low": low, "high": high}
    text = f"{name}: {value:.6g} +- {error:.3g}"
    text = f"{text} ({options.level:.0%}: {low:.6g} to {high:.6g})"
    lines = [
        text,
        *outside(found, low, high),
        *hidden(found, low, high),
        f"Unit: {found.unit}.",
        f"Error sources: {found.covers}.",
    ]
    told = {key: finite(number) for key, number in facts.items()}
    tell(options, told | {"unit": found.unit, "covers": found.covers}, "\n".join(lines))


def hidden(found: Any, low: Any, high: Any) -> list[str]:
    """Say so where the interval of an estimate excludes nothing."""
    from sfumato.intervals.estimate import HIDDEN

    return [HIDDEN] if found.quantity.filled_by(low, high) else []


def outside(found: Any, low: float, high: float) -> list[str]:
    """Say so where the released numbers give what cannot be, so that neither value nor interval looks exact.

    low, high : of the interval, which is a point where it lies outside as a whole.
    """
    raw, error, (least, most) = float(found.uncut), float(found.standard_error), map(float, found.limits)
    if not (raw < least or raw > most):
        return []
    told = f"The released numbers give {raw:.3g} +- {error:.3g}, outside what is possible ({_span(least, most)})"
    known = low < high and error < (most - least) / 2
    return [f"{told}: {'the nearest that is possible is shown' if known else 'the noise hides this answer'}."]


def _span(least: float, most: float) -> str:
    """The range of a quantity, in words."""
    if math.isinf(most):
        return f"{least:.6g} or more"
    return f"at most {most:.6g}" if math.isinf(least) else f"{least:.6g} to {most:.6g}"
