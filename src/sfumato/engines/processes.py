"""Ranges of a table worked on by processes of this machine, each of which writes one file of the release.

Threads of Python wait for each other between operations; processes share nothing but the machine. They are forks of
this one, so the function of the blocks and the release's key reach them as they are, through nothing that could keep
them. What makes forks dangerous elsewhere, a generator that goes on with the same numbers in both, does not exist here:
the noise of a block is a function of the key, the parameters, the block's position and its integers (``secret``).

A fork keeps the locks of threads that it leaves behind, so it is made only where no other thread of Python runs (those
of Arrow and of BLAS begin anew in a fork). A ledger is told before it that noise is drawn, as a fork must not do so.
"""

import itertools
import multiprocessing
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa

from sfumato.engines.local import Announce, Ids, Local, LocalRows, with_ids
from sfumato.errors import ReleaseError
from sfumato.fileformat import writer
from sfumato.fileformat.manifest import part_name
from sfumato.fileformat.writer import Written
from sfumato.numerics.types import Floats
from sfumato.tables.blocks import Blocks, Progress, Rows

Result = TypeVar("Result")
Part: TypeAlias = tuple[int, dict[str, Any]]  # rows, and digest and size of the file that holds them

_FEWEST = 4  # blocks that are worth a process
_MIB = 1 << 20
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True, kw_only=True)
class Processes(Local):
    """The machine at hand: at most so many processes for what is published row by row, threads for all else.

    Only for programs that have no thread of their own when a release begins; with one, threads do all of it. Fewer
    processes are used where there are few rows or little memory, and one where rows cannot be read from the middle.
    """

    processes: int

    def rows(self, blocks: Blocks, progress: Progress) -> Rows:
        """Rows whose blocks are worked on by processes, or by threads where they cannot be divided."""
        ranges = divided(blocks, min(self.processes, self.memory // taken(blocks)))
        if len(ranges) == 1:
            return Local.rows(self, blocks, progress)
        return DividedRows(blocks, ranges, progress, self.threads)

    def write(
        self, folder: Path, names: tuple[str, ...], blocks: Iterator[Any], ids: Ids | None, announce: Announce
    ) -> Written:
        """One file for each process if several may make the blocks; otherwise one file."""
        if isinstance(blocks, Divided) and sys.platform == "linux" and threading.active_count() == 1:
            announce()
            return blocks.write(folder, names, ids)
        return Local.write(self, folder, names, blocks, ids, announce)


def taken(blocks: Blocks) -> int:
    """Bytes of memory to count for one process: columns being read, blocks in doubles, rows being written."""
    narrow = blocks.width <= blocks.dim == len(blocks.columns)  # numbers stay as they were read, other cells do not
    return (64 + len(blocks.columns)) * _MIB + (2 if narrow else 4) * 8 * blocks.size * max(blocks.dim, blocks.width)


def divided(blocks: Blocks, processes: int) -> list[tuple[int, int]]:
    """Ranges of rows, one for each process that is worth it: about equally many rows, beginning with a block."""
    rows, size = blocks.table.rows or 0, blocks.size
    many = max(1, min(processes, -(-rows // size) // _FEWEST)) if blocks.table.divisible else 1
    starts = [rows * i // many // size * size for i in range(many)]
    return list(itertools.pairwise([*starts, rows]))


class DividedRows(LocalRows):
    """Blocks that several processes may work on, each on a range of rows."""

    def __init__(self, blocks: Blocks, ranges: list[tuple[int, int]], progress: Progress, threads: int | None) -> None:
        super().__init__(blocks, progress=progress, threads=threads)
        self.ranges = ranges

    def map(self, function: Callable[[int, Floats], Result]) -> "Divided[Result]":
        """A function of the blocks, not yet run: by processes if it is written, by threads here if it is asked for."""
        return Divided(self, function)

    def part(self, number: int, function: Callable[[int, Floats], Result], progress: Progress) -> Iterator[Result]:
        """Results of the blocks of one process's range of rows, one block after the other."""
        start, stop = self.ranges[number]
        return LocalRows(self.blocks.within(start, stop), first=start, progress=progress, threads=1).map(function)


class Divided(Iterator[Result]):
    """The results of a function of the blocks, not yet computed."""

    def __init__(self, rows: DividedRows, function: Callable[[int, Floats], Result]) -> None:
        self._rows, self._function = rows, function
        self._results = LocalRows.map(rows, function)  # begins when it is first asked

    def __next__(self) -> Result:
        return next(self._results)

    def write(self, folder: Path, names: tuple[str, ...], ids: Ids | None) -> Written:
        """One file for each process's range, the first by this process; on any error no other process is left."""
        helpers: list[_Helper] = []

        def count(rows: int) -> None:
            self._rows.progress(rows)
            _listen(helpers, self._rows.progress, patient=False)

        def write(number: int, made: Iterator[Any]) -> Part:
            mine = None if ids is None else ids.within(*self._rows.ranges[number])
            return writer.write_part(folder / part_name(number), names, with_ids(made, mine))

        def help_with(number: int) -> Callable[[Progress], Part]:
            return lambda progress: write(number, self._rows.part(number, self._function, progress))

        before = pa.cpu_count()
        try:
            pa.set_cpu_count(1)  # for each process; more of them would be in each other's way
            with _undisturbed():
                for number in range(1, len(self._rows.ranges)):
                    helpers.append(_Helper(help_with(number), [helper.connection for helper in helpers]))
            parts = [write(0, self._rows.part(0, self._function, count))]
            _listen(helpers, self._rows.progress, patient=True)
        finally:
            pa.set_cpu_count(before)
            for helper in helpers:
                helper.end()
        parts += [helper.part for helper in helpers if helper.part is not None]
        return Written(sum(rows for rows, _ in parts), {part_name(n): facts for n, (_, facts) in enumerate(parts)})


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Keep signals while processes are forked: within a fork, an interrupt would be lost, or a process forgotten.

    A mask keeps them from this thread and from forks. Threads of libraries take them all the same, and have Python call
    a handler here, so meanwhile it is one that only takes note.
    """
    came: list[int] = []
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    heard = {number: handler for number, handler in handlers.items() if handler not in (None, signal.SIG_IGN)}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        for number in heard:
            signal.signal(number, lambda number, _: came.append(number))
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in heard.items():
            signal.signal(number, handler)
        for late in dict.fromkeys(came):
            signal.raise_signal(late)


class _Helper:
    """A fork of this process that writes a part; it tells how many rows it has done, and in the end what it wrote.

    ``others``: connections of this process that a fork must not keep open.
    """

    def __init__(self, task: Callable[[Progress], Part], others: list[Connection]) -> None:
        context = multiprocessing.get_context("fork")
        self.connection, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=_help, args=(task, theirs, [*others, self.connection]), daemon=True)
        try:
            self._process.start()
        except OSError as error:
            raise ReleaseError(f"no further process could be started ({error.strerror})") from None
        theirs.close()
        self.part: Part | None = None

    def hear(self, progress: Progress) -> None:
        """Receive one message of the forked process: progress, its finished part, or its error, raised here."""
        try:
            told = self.connection.recv()
        except EOFError:
            self._process.join()
            raise ReleaseError(
                f"a process that made a part of the release was ended (exit code {self._process.exitcode}), "
                "perhaps for lack of memory: lower --memory"
            ) from None
        if isinstance(told, Exception):
            raise told
        if isinstance(told, int):
            progress(told)
        else:
            self.part = told

    def end(self) -> None:
        """Kill the forked process, if it has not ended."""
        self._process.kill()
        self._process.join()
        self.connection.close()


def _listen(helpers: list[_Helper], progress: Progress, *, patient: bool) -> None:
    """Receive messages of the forked processes: those that wait, or until each has told which part it wrote."""
    while busy := {helper.connection: helper for helper in helpers if helper.part is None}:
        told = wait(list(busy), None if patient else 0)
        if not told:
            return
        for connection in told:
            busy[connection].hear(progress)  # type: ignore[index]


def _help(task: Callable[[Progress], Part], told: Connection, others: list[Connection]) -> None:
    """What a forked process runs. It ends by a signal without a word, and at its next word once nobody listens."""
    for other in others:
        other.close()
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    with suppress(BrokenPipeError):
        try:
            last: Any = task(told.send)
        except Exception as error:  # noqa: BLE001 - raised again by the process that waits for it
            last = _portable(error)
        told.send(last)


def _portable(error: Exception) -> Exception:
    """An error as a forked process can send it; otherwise its kind alone, for its words may quote a cell."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    except Exception:  # noqa: BLE001 - whatever its class makes of it
        return ReleaseError(f"a process that made a part of the release failed ({type(error).__name__})")
    return error
