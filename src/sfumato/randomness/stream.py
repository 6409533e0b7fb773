"""What samplers draw from: a run of random 64-bit words, and further bits of any of them."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class WordStream(Protocol):
    """Uniform, independent words, none given twice. ``secret.Words`` is the one that releases use."""

    @property
    def position(self) -> int:
        """How many words samplers took from the stream so far."""

    def fill(self, out: NDArray[np.int64]) -> None:
        """Overwrite a contiguous array with the next words of the stream."""

    def draw(self, count: int) -> NDArray[np.int64]:
        """The next ``count`` words of the stream."""

    def more(self, word: int, turn: int) -> int:
        """64 further bits of the word at a position; the same for the same (word, turn)."""
