"""Columns of plain numbers that become doubles a range of rows at a time, while they are in the cache."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.numerics.types import Floats


class Plain:
    """Columns as they were read, floating numbers without gaps; NaN stands for what ``missing`` has for its column."""

    def __init__(self, columns: Sequence[NDArray[np.floating]], missing: Floats) -> None:
        self._columns, self._missing = columns, missing

    @property
    def shape(self) -> tuple[int, int]:
        """Columns and rows."""
        return len(self._columns), len(self._columns[0])

    def __getitem__(self, key: tuple[slice, slice]) -> "Plain":
        """``plain[:, start:stop]``: some of the rows."""
        some, rows = key
        return Plain([column[rows] for column in self._columns[some]], self._missing[some])

    def doubles(self, out: Floats | None = None) -> Floats:
        """The encoded block; ``out`` is contiguous."""
        out = np.empty(self.shape) if out is None else out
        assert out.flags.c_contiguous
        np.concatenate(self._columns, out=out.reshape(-1))  # one call: threads wait for the interpreter less often
        if out.size and np.isnan(out.min()):
            np.copyto(out, self._missing[:, None], where=np.isnan(out))
        return out


def doubles(block: Floats | Plain, out: Floats | None = None) -> Floats:
    """A block as an array, made in ``out`` if it is made here."""
    return block.doubles(out) if isinstance(block, Plain) else block
