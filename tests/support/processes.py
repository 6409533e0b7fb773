"""What real processes do with a ledger, for the tests of crashes and races: each runs in a process of its own."""

import os
import signal

import numpy as np

from faults.steps import around
from sfumato.errors import BudgetError
from sfumato.fileformat import writer
from sfumato.ledger import journal, reservation
from sfumato.ledger.ledger import Ledger
from sfumato.mechanisms.sketch import Sketch
from sfumato.pipeline.release import release, release_to
from sfumato.pipeline.session import Session
from sfumato.privacy.guarantee import Guarantee
from sfumato.tables.schema import Schema

ROWS = np.random.default_rng(1).random((200, 8))
TERMS = {
    "schema": Schema.reals(8, low=0, high=1),
    "mechanism": Sketch(dimension=4, seed=1),
    "guarantee": Guarantee(epsilon=1.0),
}
STEPS = {
    "before reserving": (journal.Journal, "append", "before"),
    "before drawing": (reservation.Reservation, "draw", "before"),
    "before the manifest": (writer, "finish", "before"),
    "before committing": (reservation.Reservation, "commit", "before"),
    "after committing": (reservation.Reservation, "commit", "after"),
}


def _kill(*_args, **_kwargs):
    os.kill(os.getpid(), signal.SIGKILL)


def _deadly(step):
    """Make a step of an answer or a release the last one of this process."""
    owner, name, when = STEPS[step]
    around(owner, name, **{when: _kill})


def release_once(where, path, step):
    """A release that is charged, and killed at a step."""
    _deadly(step)
    release_to(path, ROWS, ledger=where, **TERMS)


def ask_once(where, step=None, told=None):
    """A question that is charged; what it answers is told."""
    if step is not None:
        _deadly(step)
    answer = Session(ROWS, schema=TERMS["schema"], ledger=where).ask("c0 < 0.5", epsilon=1.0)
    if told is not None:
        told.put((answer.value, answer.remaining))


def open_and_die(where):
    """A session that is charged whole, asked once, and never closed."""
    session = Session(ROWS, schema=TERMS["schema"], ledger=where)
    session.open("weights", epsilon=2.0, queries=["c0 < 0.5"]).ask("c0 < 0.5")
    _kill()


def spend_the_last(where, rounds, barrier, wins):
    """Round after round, everybody tries to spend the last unit of that round's dataset at once."""
    for number in range(rounds):
        account = Ledger(where).account(f"round {number}")
        barrier.wait()
        try:
            release(ROWS, ledger=account, **TERMS)
        except BudgetError:
            continue
        wins.put((number, os.getpid()))
    wins.put(None)
