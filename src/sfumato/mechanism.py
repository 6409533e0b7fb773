"""What every mechanism gives back."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Published:
    """What a run gives: blocks of numbers, and the public matrix that goes with them, if any."""

    blocks: Iterator[NDArray[Any]]  # each (columns, rows); doubles, or integers for codes
    matrix: Any = None  # the published projection in weighted units
