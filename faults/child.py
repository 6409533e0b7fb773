"""What a process does that is to be hurt: one job, watched."""

import os
import signal
from multiprocessing.connection import Connection

from faults.jobs import JOBS, Place
from faults.steps import ENDED, Plan, Teller, watch
from faults.twins import TWINS

_LONGEST = 1500  # characters of a message


def act(name: str, place: Place, plan: Plan | None, twin: str | None, line: Connection) -> None:
    """Do a job and tell its steps; the last one says how it ended: nothing if well, else the message."""
    os.setpgid(0, 0)  # forks can be found when this process is gone
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what matters is told; the rest are tracebacks of interrupts
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if twin is not None:
        TWINS[twin]()
    teller = Teller(line, plan)
    watch(teller)
    try:
        teller.tell("begun")
        JOBS[name].run(place)
        message = ""
    except BaseException as error:  # noqa: BLE001 - told, not hidden
        message = f"{type(error).__name__}: {error}"[:_LONGEST]
    teller.tell(ENDED, message)
