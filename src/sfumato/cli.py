"""The command line: parse, call, print. Exit code 0: done; 1: an audit failed; 2: refused, with one line on stderr.

Modules are imported by the commands that need them, so that help is quick and an interrupt is always caught.
"""

import ctypes
import gc
import importlib.util
import os
import signal
import sys
from collections.abc import Sequence

from sfumato.commands.answering import add_ask
from sfumato.commands.asking import add_estimate, add_show
from sfumato.commands.attacking import add_attack
from sfumato.commands.auditing import add_audit
from sfumato.commands.budgeting import add_ledger
from sfumato.commands.describing import add_check, add_schema
from sfumato.commands.parsing import Parser
from sfumato.commands.planning import add_feasible, add_plan, add_regions
from sfumato.commands.releasing import add_release
from sfumato.commands.reporting import add_report
from sfumato.commands.reproducing import add_reproduce
from sfumato.commands.studying import add_studio
from sfumato.errors import SfumatoError
from sfumato.version import __version__

_GLIBC = {-3: 1 << 25, -1: 1 << 30, -2: 1 << 24}  # M_MMAP_THRESHOLD (at most this), M_TRIM_THRESHOLD, M_TOP_PAD


def main(arguments: Sequence[str] | None = None, *, own_process: bool = False) -> int:
    """Run one command; a process of its own is set up for it."""
    before, options = signal.getsignal(signal.SIGTERM), None
    try:
        signal.signal(signal.SIGTERM, _stop)
        options = _parser().parse_args(arguments)
        options.own_process = own_process
        if own_process:
            _set_up(releases=options.run.__module__.endswith("releasing"))
        code: int | None = options.run(options)
        sys.stdout.flush()
    except SfumatoError as error:
        return _refuse(str(error))
    except (KeyboardInterrupt, _Stopped):
        return _refuse(f"interrupted{_spent(options) or '; nothing was left behind'}")
    except MemoryError:
        return _refuse(f"there is not enough memory for this: lower the dimension{_spent(options)}")
    except OverflowError:
        return _refuse(f"there are more rows or columns than 64-bit sums can hold: release a part{_spent(options)}")
    except OSError as error:
        told = f"{error.filename or 'the output'}: {error.strerror or type(error).__name__}"
        return _refuse(f"{told}{_spent(options)}")
    finally:
        signal.signal(signal.SIGTERM, before)
    return code or 0


def _spent(options: object) -> str:
    """Where to look, if the command was to spend from a ledger."""
    return "; `sfumato ledger show` says what was spent" if getattr(options, "ledger", None) is not None else ""


def _refuse(reason: str) -> int:
    print(f"sfumato: {reason}", file=sys.stderr)
    return 2


class _Stopped(BaseException):
    """Somebody asked this process to end."""


def _stop(_number: int, _frame: object) -> None:
    raise _Stopped


def _parser() -> Parser:
    parser = Parser(prog="sfumato", description="Publish data under differential privacy through random projections.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    plans = (add_plan, add_regions, add_feasible)
    asks = (add_show, add_report, add_estimate, add_ask)
    tries = (add_audit, add_attack, add_reproduce)
    for add in (add_schema, add_check, *plans, add_release, *asks, add_ledger, *tries, add_studio):
        add(commands)
    return parser


def entry() -> None:
    """The console script."""
    code = main(own_process=True)
    gc.freeze()  # what is left goes with the process
    sys.exit(code)


def _set_up(*, releases: bool) -> None:
    """Start sooner, and release faster."""
    gc.set_threshold(500_000)  # what is imported is no garbage
    if releases:  # before NumPy is loaded
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # processes and threads of ours work on blocks; these spin
        if sys.platform == "linux":
            _keep_memory()
    _postpone("numpy.f2py", "numpy.testing")


def _postpone(*names: str) -> None:
    """Load these modules when something in them is used: SciPy names them all, and uses none here."""
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
    """Use the memory of one block again for the next.

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
