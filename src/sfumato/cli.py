"""The command line: parse, call, print. Exit code 0: done; 1: an audit failed; 2: refused, with one line on stderr.

130 and 143: interrupted, by Ctrl-C or SIGTERM, with one line on what was charged.

Where nobody takes what is printed: 0 if a release, a report or an entry was made, without a word if the reader has gone
or the output is closed, with a line on stderr if it is full. Where printing was all there was to do: 141 without a word
if the reader has gone (as by SIGPIPE), the command's own code if the output is closed, and 2 with a line if it is full.
Answers that were paid for and are lost are always told.

Modules are imported by the commands that need them, so that help is quick and an interrupt is always caught.
"""

import argparse
import atexit
import contextlib
import ctypes
import errno
import gc
import importlib.util
import os
import signal
import sys
import time
from collections.abc import Sequence

from sfumato import untrusted
from sfumato.commands.console import streams
from sfumato.commands.console.catalogue import parser_of
from sfumato.commands.console.colours import refused
from sfumato.commands.console.options import unparsed
from sfumato.commands.console.progress import LINE
from sfumato.errors import SfumatoError

_READER_GONE = 128 + 13  # what a shell says of a process that SIGPIPE has ended
_GLIBC = {-3: 1 << 25, -1: 1 << 30, -2: 1 << 24}  # M_MMAP_THRESHOLD (at most this), M_TRIM_THRESHOLD, M_TOP_PAD


def main(arguments: Sequence[str] | None = None, *, own_process: bool = False) -> int:
    """The command line: run one command and give its exit code; a process of its own is set up for it."""
    before, options = signal.getsignal(signal.SIGTERM), unparsed()
    try:
        signal.signal(signal.SIGTERM, _stop)
        words = sys.argv[1:] if arguments is None else arguments
        options = parser_of(words[0] if words else None).parse_args(words)
        options.own_process = own_process
        streams.need_output(needed=options.stands is None)
        if own_process:
            _set_up(many_blocks=options.many_blocks)
        with LINE.around(options.working) if own_process and options.working else contextlib.nullcontext():
            code: int = options.run(options) or 0
        sys.stdout.flush()
        if (lost := streams.lost_output()) is not None:
            code = _unheard(options, lost, code)
    except SfumatoError as error:
        return _refuse(*(str(error).split("\n") if getattr(error, "problems", ()) else [str(error)]))
    except (KeyboardInterrupt, _Stopped) as ended:
        _refuse(f"interrupted{_spent(options, ended) or '; nothing was left behind'}")
        return 128 + (signal.SIGTERM if isinstance(ended, _Stopped) else signal.SIGINT)
    except (MemoryError, OverflowError) as error:
        few = "not enough memory: choose a lower dimension"
        return _refuse(f"{few if isinstance(error, MemoryError) else _too_large()}{_spent(options, error)}")
    except OSError as error:
        told = f"{error.filename or 'the output'}: {error.strerror or type(error).__name__}{_spent(options, error)}"
        return _unheard(options, error, 0) if error is streams.lost_output() else _refuse(told)
    finally:
        signal.signal(signal.SIGTERM, before)
    return code


def _unheard(options: argparse.Namespace, error: OSError, code: int) -> int:
    """The exit code of a command whose output was lost in part: ``stands`` says what was made in spite of that."""
    gone, closed = isinstance(error, BrokenPipeError), error.errno == errno.EBADF
    paid = options.stands is not None and options.prints
    if options.stands is not None and (paid or not (gone or closed)):
        _refuse(f"{options.stands}, but the output was lost: {error.strerror}{_spent(options, error)}")
    elif not (gone or closed):
        _refuse(f"standard output: {error.strerror}")
    if not paid and (closed or options.stands is not None):
        return code
    return _READER_GONE if gone else 2


def _spent(options: argparse.Namespace, error: BaseException) -> str:
    """For the error line of a command that was to spend from a ledger: what became of its charge, or where to look."""
    if became := getattr(error, "__notes__", []):
        return f"; {'; '.join(became)}"
    return "" if options.ledger is None else "; see `sfumato ledger show` for what was spent"


def _too_large() -> str:
    """The error line of an overflow: the time, which Python counts in 64 bits of nanoseconds, or a parameter."""
    try:
        time.time()
    except OverflowError:
        return "the system clock is past the year 2262, which Python cannot represent: correct the clock"
    return "arithmetic overflow, caused by an extreme epsilon, bound or size: choose a value nearer to 1"


def _refuse(reason: str, *further: str) -> int:
    print(refused(untrusted.line(reason), sys.stderr), *map(untrusted.line, further), sep="\n", file=sys.stderr)
    return 2


class _Stopped(BaseException):
    """Somebody asked the command line's process to end."""


def _stop(_number: int, _frame: object) -> None:
    raise _Stopped


def entry() -> None:
    """The console script: entry point of the command line."""
    streams.install()
    codes: list[int] = []
    if not atexit._ncallbacks():  # the first to be registered is called last: nobody is left out
        atexit.register(_end, codes)
    try:
        codes.append(main(own_process=True))
    except SystemExit as ended:  # help, a version, or words that are no command
        codes.append(_flushed(ended.code))
    sys.exit(codes[0])


def _flushed(code: object) -> int:
    """An exit code of the command line, once all is written that was said."""
    with contextlib.suppress(OSError):  # it is kept
        sys.stdout.flush()
    if code in (None, 0) and (lost := streams.lost_output()) is not None:
        return _unheard(unparsed(), lost, 0)
    return code if isinstance(code, int) else 0


def _end(codes: list[int]) -> None:
    """End the command line's process at once: what it holds goes with it, and taking it apart would take its time."""
    if codes:
        streams.need_output(needed=False)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(codes[0])


def _set_up(*, many_blocks: bool) -> None:
    """Set up the command line's process to start sooner and release faster."""
    gc.set_threshold(500_000)  # what is imported is no garbage
    if many_blocks:  # before NumPy is loaded
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # processes and threads of ours work on blocks; these spin
        if sys.platform == "linux":
            _keep_memory()
    _postpone("numpy.f2py", "numpy.testing")


def _postpone(*names: str) -> None:
    """Speed up the command line: load these modules when something in them is used.

    SciPy names them all, and nothing here uses these.

    No others: before Python 3.12, of two threads that use one first, the second finds a module that is half there.
    """
    for name in names:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None or name in sys.modules:
            continue
        spec.loader = importlib.util.LazyLoader(spec.loader)
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
        package, _, last = name.rpartition(".")
        setattr(sys.modules[package], last, sys.modules[name])


def _keep_memory() -> None:
    """Set the allocator of the command line's process to use the memory of one block again for the next.

    What is given back to the system comes back page by page, each filled with zeros, and taking it away interrupts all
    threads. Arrow's own allocator does so too.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        for parameter, value in _GLIBC.items():
            library.mallopt(parameter, value)


if __name__ == "__main__":
    entry()
