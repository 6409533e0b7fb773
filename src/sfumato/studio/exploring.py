"""The Explore screen: which questions a release can answer, and answers with error bars.

Post-processing of a release: costs no privacy and reads no data.
"""

from collections.abc import Mapping
from typing import Any

from sfumato.releases.loading import AnyRelease


def questions(release: AnyRelease) -> list[dict[str, Any]]:
    """The questions that this kind of release can answer: plain values for the template."""
    del release
    return []


def answer(release: AnyRelease, question: str, fields: Mapping[str, str]) -> dict[str, Any]:
    """The answer to one of them, with its error: plain values for the template."""
    del release, question, fields
    return {}
