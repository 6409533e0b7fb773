"""Graphs in: edge lists of many forms, streamed in blocks, combined to one weight in [0, 1] for each pair of vertices.

What an edge list says, and what is made of it (``gather``):

- a graph is undirected: (u, v) and (v, u) are one pair;
- a weight is clipped to [0, 1] and rounded to steps of 2^-20; NaN, nothing and what is no number count as 0, and
  without a column of weights every edge counts as 1;
- a pair that is listed several times, in one direction or both, has the *largest* of its clipped weights, so that
  however many lines speak of a pair, together they say one number in [0, 1];
- loops are dropped, and so are lines whose ids are not whole numbers in [0, n).

Guarantee: whatever is listed, each pair of vertices has one weight in [0, 1], and the lines of one pair decide that
pair's weight and nothing else. So changing, adding or removing any lines of one pair changes one weight by at most 1.
A line that is moved from one pair to another changes two weights, which is two units.

The number of vertices n is public. It is what the owner says; else the size of an adjacency matrix or of the vertex
list; else the largest id plus one, and then it was taken from the data, which is outside the guarantee.

Combining needs every pair once in memory, 20 bytes each, and a sort; nothing else here grows with the edges.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import scipy
from numpy.typing import NDArray

from sfumato import check
from sfumato.errors import ReleaseError, SchemaError
from sfumato.files.open_table import open_table
from sfumato.files.table_file import StandardInput, TableFile
from sfumato.numerics.lattice import INPUT_BITS, InputGrid, Total
from sfumato.numerics.types import Floats, Integers
from sfumato.tables import cells
from sfumato.tables.blocks import Blocks, Progress, Rows, TableBlocks, ignore
from sfumato.tables.columns import Real

Result = TypeVar("Result")

LARGEST_VERTICES = 1 << 31
_BLOCK = 1 << 18  # lines at a time
_PENDING = 1 << 22  # lines that wait to be combined, at least
_NAMES = ("src", "dst", "weight")
_WITH_WEIGHTS = len(_NAMES)
_ANY = Real("edge", 0.0, 1.0)  # how a cell is read; bounds are enforced by ``gather``


@dataclass(frozen=True, slots=True, eq=False)
class EdgeRows:
    """An edge list as an engine offers it: blocks of shape (3, lines) of doubles, as they came: from, to, weight.

    ``vertices``: how many there are, where the source says so publicly (a matrix by its shape).
    ``from_data``: which vertices there are, and their numbers, were taken from the edges.
    ``weighted``: False where the form of the source, which is public, has no place for weights: each edge counts as 1.
    """

    vertices: int | None
    _read: Callable[[], Iterator[Floats]] = field(repr=False)
    progress: Progress = ignore
    from_data: bool = False
    blocks: Blocks | None = field(default=None, repr=False)  # of a table, for engines other than this
    weighted: bool = True

    def map(self, function: Callable[[int, Floats], Result]) -> Iterator[Result]:
        """``function(position, block)`` for every block of lines, in order."""
        position = 0
        for block in self._read():
            yield function(position, block)
            position += block.shape[1]
            self.progress(block.shape[1])

    def sum(self, function: Callable[[int, Floats], Integers]) -> Integers:
        """``function(position, block)`` added up over the blocks of lines, exactly."""
        found = list(self.map(function))
        total = Total(found[0].shape if found else function(0, np.empty((3, 0))).shape)
        for part in found:
            total.add(part)
        return total.int64()


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """An undirected graph: pairs first < second in order, each once, with its weight in steps of 2^-20, from 1 up.

    ``from_data``: whether the number of vertices, or their numbers, were taken from the edges.
    """

    vertices: int
    first: NDArray[np.int32]
    second: NDArray[np.int32]
    steps: NDArray[np.int32]
    from_data: bool = False

    @property
    def weights(self) -> Floats:
        """The weights of the edges, in (0, 1]."""
        return np.asarray(self.steps * 2.0**-INPUT_BITS)

    @property
    def codes(self) -> Integers:
        """One whole number for each pair of vertices, in increasing order."""
        return _code(self.first, self.second)


# ---- reading --------------------------------------------------------------------------------------------------------


def open_edges(data: Any, *, progress: Progress = ignore) -> EdgeRows:
    """Open an edge list: a graph in one of many forms.

    A table as ``open_table`` takes it, with a header: columns src, dst and, if there is one,
    weight; if neither src nor dst is there, its only two or three columns in that order. A NumPy array of shape (m, 2)
    or (m, 3). A SciPy sparse adjacency matrix, n x n. A networkx graph, whose vertices are numbered in its own order.
    """
    if isinstance(data, EdgeRows):
        return replace(data, progress=progress)
    if callable(getattr(data, "edges", None)) and hasattr(data, "nodes"):
        return _open_networkx(data, progress)
    if hasattr(data, "tocsr") and hasattr(data, "shape"):
        return _open_adjacency(data, progress)
    if isinstance(data, np.ndarray):
        return _open_array(data, progress)
    return _open_table(data, progress)


def _open_table(data: Any, progress: Progress) -> EdgeRows:
    table = open_table(data)
    names = list(table.schema.names)
    if isinstance(data, (str, Path, TableFile, StandardInput)) and all(map(_is_number, names)):
        raise SchemaError(
            f"{table.description}: the columns are named by numbers: give it a header, src,dst or src,dst,weight"
        )
    wanted = [name for name in _NAMES if name in names] if {"src", "dst"} & set(names) else names
    if len(wanted) not in (2, 3) or ("src" in wanted) != ("dst" in wanted) or len(set(wanted)) != len(wanted):
        raise SchemaError(
            f"{table.description}: an edge list has columns src, dst and perhaps weight, "
            f"or no more than two or three columns in that order; this one has {len(names)}"
        )

    blocks = Blocks(table, tuple(wanted), _BLOCK, 3, _encode)
    return EdgeRows(None, lambda: map(_encode, blocks), progress, blocks=blocks, weighted=len(wanted) == _WITH_WEIGHTS)


def _encode(batch: pa.RecordBatch) -> Floats:
    return _lines([cells.read(column, _ANY).astype(np.float64) for column in batch.columns])


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def _open_array(array: NDArray[Any], progress: Progress) -> EdgeRows:
    if array.ndim != 2 or array.shape[1] not in (2, 3) or array.dtype.kind not in "biuf":
        raise SchemaError(
            "an array of edges holds numbers and has shape (m, 2) or (m, 3), "
            f"got shape {array.shape} of type {array.dtype} (a dense adjacency matrix: make it a SciPy sparse one)"
        )

    def read() -> Iterator[Floats]:
        for start in range(0, len(array), _BLOCK):
            block = np.ma.filled(array[start : start + _BLOCK].astype(np.float64), np.nan)
            yield _lines(list(block.T))

    return EdgeRows(None, read, progress, weighted=array.shape[1] == _WITH_WEIGHTS)


def _open_adjacency(matrix: Any, progress: Progress) -> EdgeRows:
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1] or matrix.dtype.kind not in "biuf":
        raise SchemaError(f"an adjacency matrix holds numbers and is square, got shape {matrix.shape}")
    entries = scipy.sparse.coo_array(matrix.tocsr())  # entries that are stored twice are added up, as SciPy means them

    def read() -> Iterator[Floats]:
        for start in range(0, entries.nnz, _BLOCK):
            some = slice(start, start + _BLOCK)
            row, column = (c[some].astype(np.float64) for c in entries.coords)
            yield np.stack([row, column, entries.data[some].astype(np.float64)])

    return EdgeRows(int(matrix.shape[0]), read, progress)


def _open_networkx(graph: Any, progress: Progress) -> EdgeRows:
    """Edges of a networkx graph, by what it can do, without its import. Weights that are no numbers count as 0.

    Such a graph knows the vertices that its edges name, so which there are is data, and the manifest says so. Vertices
    that are whole numbers keep them; others are numbered in the order of their names.
    """
    vertices = list(graph.nodes)
    numbered = all(type(vertex) is int and 0 <= vertex < LARGEST_VERTICES for vertex in vertices)
    place = {v: v for v in vertices} if numbered else {v: i for i, v in enumerate(sorted(vertices, key=repr))}

    def read() -> Iterator[Floats]:
        lines = iter(graph.edges(data="weight", default=1.0))
        while some := list(islice(lines, _BLOCK)):
            yield np.array([(place[u], place[v], _number(weight)) for u, v, weight in some], np.float64).T

    return EdgeRows(1 + max(place.values(), default=-1), read, progress, from_data=True)


def _number(weight: Any) -> float:
    if not isinstance(weight, (bool, int, float, np.integer, np.floating)):
        return np.nan
    try:
        return float(weight)
    except OverflowError:  # a whole number that no double holds
        return np.inf if weight > 0 else -np.inf
    except TypeError:  # a span of time
        return np.nan


def _lines(columns: list[Floats]) -> Floats:
    weight = columns[2] if len(columns) == 3 else np.ones(len(columns[0]))
    return np.stack([columns[0], columns[1], weight])


def weighted(rows: Rows) -> bool:
    """Whether edges of a list may have weights, by the form of their source alone; True where it does not say."""
    if isinstance(rows, EdgeRows):
        return rows.weighted
    return not isinstance(rows, TableBlocks) or len(rows.blocks.columns) == _WITH_WEIGHTS


# ---- combining ------------------------------------------------------------------------------------------------------


def gather(rows: Rows, vertices: int | None) -> Graph:
    """The graph that an edge list means, by the rules above; every weight is clipped here, whatever came in."""
    known = rows if isinstance(rows, EdgeRows) else None
    public = known.vertices if vertices is None and known is not None else vertices
    if public is not None:
        check.whole(2, vertices=public)
        check.between(2, LARGEST_VERTICES, vertices=public)
    limit = LARGEST_VERTICES if public is None else int(public)
    held, waiting, largest = _NOTHING, [_NOTHING], -1
    for lines, end in rows.map(lambda _, block: _clean(block, limit)):
        waiting.append(lines)
        largest = max(largest, end)
        if sum(codes.size for codes, _ in waiting) > max(_PENDING, held[0].size):
            held, waiting = _combined([held, *waiting]), []
    codes, steps = _combined([held, *waiting])
    number = largest + 1 if public is None else int(public)
    if number < 2:
        raise ReleaseError("a graph needs at least two vertices: give their number as vertices=")
    first, second = (codes >> 31).astype(np.int32), (codes & (LARGEST_VERTICES - 1)).astype(np.int32)
    from_data = public is None or (known is not None and known.from_data)
    return Graph(number, first, second, steps, from_data=from_data)


Weighted: TypeAlias = tuple[Integers, NDArray[np.int32]]
_NOTHING: Weighted = np.empty(0, np.int64), np.empty(0, np.int32)


def _clean(block: Floats, limit: int) -> tuple[Weighted, int]:
    """Edges as pairs with weights in steps, and the largest id of a line that counts; loops and bad ids are dropped."""
    ends, weight = block[:2], block[2:]
    valid = ((ends >= 0) & (ends < limit) & (np.floor(ends) == ends)).all(axis=0)  # false for NaN
    u, v = ends[:, valid].astype(np.int64)
    largest = int(max(u.max(), v.max())) if u.size else -1
    steps = _WEIGHTS.round(weight[:, valid])[0].astype(np.int32)
    kept = (u != v) & (steps > 0)
    low, high = np.minimum(u, v)[kept], np.maximum(u, v)[kept]
    return (_code(low, high), steps[kept]), largest


_WEIGHTS = InputGrid(0.0, 1.0)


def _code(first: NDArray[Any], second: NDArray[Any]) -> Integers:
    return np.asarray((first.astype(np.int64) << 31) | second)


def _combined(parts: list[Weighted]) -> Weighted:
    """Each pair of vertices once, in order, with the largest weight of its edges."""
    codes, steps = np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
    if codes.size == 0:
        return codes, steps
    order = np.argsort(codes, kind="stable")
    codes, steps = codes[order], steps[order]
    starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
    return codes[starts], np.maximum.reduceat(steps, starts)
