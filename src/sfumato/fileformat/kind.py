"""The record of a kind of release: columns, types, size, checks, sentences, and the class that serves it."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from sfumato.fileformat.manifest import Manifest, SummedNoiseFacts

NumberType = Literal["float64", "float32", "int32", "int8"]


def noise_fits(law: str, scale: float, deviation: float) -> bool:
    """Check of a kind: whether the scale and the standard deviation in a manifest are of the same noise."""
    return abs(deviation / scale - (math.sqrt(2) if law == "laplace" else 1)) < 1e-9


def summed_deviation(noises: Iterable[SummedNoiseFacts]) -> float:
    """The standard deviation of a kind's numbers that are sums over owners, from the noises on each."""
    found = ((2 if one["noise"] == "laplace" else 1) * one["owners"] * one["scale"] ** 2 for one in noises)
    return math.sqrt(math.fsum(found))


def _rows(manifest: Manifest) -> int:
    return int(manifest["rows"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of release. Functions get manifests whose mechanism says the facts of the kind."""

    title: str  # what a report is headed with
    product: str  # the data product type in the OpenDP registry
    served_by: tuple[str, str]  # module and class within ``releases``, imported when such a release is loaded
    columns: Callable[[Any], tuple[str, ...]]  # the names of the published columns, in order
    numbers: NumberType = "float64"  # the type of the published numbers, where the lattice states none
    size: Callable[[Any], int] = _rows  # how many numbers each column holds
    agrees: Callable[[Any, Any], bool]  # whether a manifest agrees with itself and its schema (None for graphs)
    contents: Callable[[Any], str]  # what the release holds, in a few words
    sensitivity: Callable[[Any], str]  # what one unit changes, as a sentence
    use: tuple[tuple[str, str], ...]  # lines of Python, each with what it gives
    example: Callable[[Any], str | None]  # Python that asks for an estimate, if there is one to ask for
    graph: bool = False
    beside: tuple[str, ...] = ()  # files of numbers that go along with the data, which are then one file
