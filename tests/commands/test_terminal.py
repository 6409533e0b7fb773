"""What somebody at a terminal sees: a progress line, few colours, and an interrupt that says what was charged."""

import contextlib
import io
import os
import pty
import re
import signal
import subprocess
import sys
from importlib.util import find_spec

import pytest

from sfumato.cli import main
from sfumato.commands.console.progress import LINE, STAGES, CountedRows, ProgressLine, stage_of
from sfumato.errors import ParameterError
from sfumato.ledger.ledger import Ledger
from support.spending import pure, states

SCHEMA = '[[columns]]\nname = "age"\nkind = "real"\nlow = 0.0\nhigh = 120.0\n'
COVARIANCE = "release covariance people.csv --schema people.toml --epsilon 1 --out r"
SKETCH = COVARIANCE.replace("covariance", "sketch --dimension 1")
SLOWED = """
import os, sys, time
from sfumato import cli
from sfumato.commands.console import progress
from sfumato.engines.local import LocalRows
from sfumato.ledger.reservation import Reservation

progress.DELAY = progress.EVERY = 0.02
owner, name, seconds = {"rows": LocalRows, "ledger": Reservation}[sys.argv[1]], sys.argv[2], float(sys.argv[3])
before = getattr(owner, name)

def slowed(*given):
    made = before(*given)
    os.write(2, b"here\\n")
    time.sleep(seconds)
    return made

setattr(owner, name, slowed)
sys.argv[1:] = sys.argv[4:]
cli.entry()
"""
ROWS, READY = ("rows", "sum"), ("ledger", "ready")  # the rows are read before a draw; after it, the ledger is asked


@pytest.fixture
def people(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text("age\n" + "\n".join(map(str, range(60))))
    (tmp_path / "people.toml").write_text(SCHEMA)
    Ledger.create("budget.db").add_dataset("people", pure(3.0))
    return tmp_path


def seen(words, *, terminal=True, interrupt=False, **environment):
    """Exit code and all that a command writes to its standard streams, on a terminal or into a pipe."""
    screen, writes = pty.openpty() if terminal else os.pipe()
    given = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "PYTHONUNBUFFERED")}
    running = subprocess.Popen(  # noqa: S603
        [sys.executable, *words], stdout=writes, stderr=writes, stdin=subprocess.DEVNULL, env=given | environment
    )
    os.close(writes)
    shown = b""
    while part := read(screen):
        shown += part
        if interrupt and b"here" in shown:
            interrupt = False
            running.send_signal(signal.SIGINT)
    os.close(screen)
    return running.wait(60), shown.decode().replace("\r\n", "\n")


def read(screen):
    try:
        return os.read(screen, 1 << 16)
    except OSError:  # the last writer has gone
        return b""


def slowed(where, line, seconds=0.4, **how):
    return seen(["-c", SLOWED, *where, str(seconds), *line.split()], **{"TERM": "xterm", "COLUMNS": "120"} | how)


def left(shown):
    """The lines on the screen in the end, as a terminal draws them: what is written over or erased has gone."""
    lines, column = [""], 0
    for sign in re.findall(r"\x1b\[[\d;]*[A-Za-z]|.|\n", shown):
        if sign == "\n":
            lines.append("")
        if sign in ("\n", "\r"):
            column = 0
        elif sign == "\x1b[K":
            lines[-1] = lines[-1][:column]
        elif len(sign) == 1:
            lines[-1] = lines[-1][:column] + sign + lines[-1][column + 1 :]
            column += 1
    return "\n".join(lines)


# ---- the progress line -----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("people")
def test_a_long_command_says_what_it_does_and_takes_that_away_again():
    code, shown = slowed(READY, f"{SKETCH} --ledger budget.db")
    assert code == 0
    assert re.search(r"\rsfumato release sketch: writing the release, \d s  60 rows, [\d,]+ rows/s\x1b", shown)
    told = left(shown).splitlines()
    assert [line for line in told if "release sketch:" in line] == [line for line in told if line.endswith("here")]
    assert told[1].startswith("60 records as 1 numbers each")
    assert told[-1] == "Release written to r"


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize(("neighbours", "public"), [("replace", True), ("add-remove", False)])
def test_where_the_number_of_records_is_protected_the_line_shows_stage_and_time_alone(neighbours, public, monkeypatch):
    def read(_path, _data, *, progress, **_):  # every engine counts what it has read
        progress(60)
        raise ParameterError(LINE.text(9.0, "drawing"))

    monkeypatch.setattr("sfumato.pipeline.release.release_to", read)
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        assert main([*COVARIANCE.split(), "--neighbours", neighbours]) == 2
    assert said.getvalue() == f"sfumato: : drawing, 9 s{'  60 rows, 7 rows/s' if public else ''}\n"


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize("how", [{"terminal": False}, {"TERM": "dumb"}])
def test_there_is_no_line_in_a_pipe_or_on_a_terminal_that_cannot_erase_it(how):
    code, shown = slowed(ROWS, COVARIANCE, seconds=0.1, **how)
    assert (code, "\r" in shown, "\x1b" in shown, "sfumato release" in shown) == (0, False, False, False)


def test_what_is_left_is_told_while_the_rows_are_read_for_the_first_time():
    counted = CountedRows(1000)
    counted(250)
    assert counted.words(10.0) == "[######                  ]  25%  250 rows, 25 rows/s, 30 s left"
    counted(1000)
    assert counted.words(50.0) == "1,250 rows, 25 rows/s"
    line = ProgressLine()
    line.count(None, "samples")
    assert line.text(125.0, "drawing") == ": drawing, 2 min 5 s"


def test_a_stage_is_that_of_the_innermost_module_that_has_one():
    for name in STAGES:
        assert find_spec(name), name
    frames = {name: {"__name__": name, "sys": sys} for name in ("sfumato.mechanisms.table.counting", "numpy.odd")}
    exec("def outer(inner): return inner()", frames["sfumato.mechanisms.table.counting"])  # noqa: S102
    exec("def inner(): return sys._getframe()", frames["numpy.odd"])  # noqa: S102
    frame = frames["sfumato.mechanisms.table.counting"]["outer"](frames["numpy.odd"]["inner"])
    assert stage_of(frame) == "counting"
    assert stage_of(None) == "working"


# ---- interrupts ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize(
    ("where", "told", "state"),
    [
        (ROWS, "nothing was drawn, and nothing spent", "void"),
        (READY, "reservation 2 of 'people' stays spent, for noise may have been drawn: it cannot be voided", "drawn"),
    ],
)
def test_an_interrupt_says_what_became_of_the_charge(where, told, state, people):
    code, shown = slowed(where, f"{COVARIANCE} --ledger budget.db", seconds=60, interrupt=True, NO_COLOR="1")
    assert code == 130
    assert left(shown).endswith(f"here\nsfumato: interrupted; {told}\n")
    assert states(Ledger("budget.db")) == [state]
    assert sorted(path.name for path in people.iterdir()) == ["budget.db", "people.csv", "people.toml"]


@pytest.mark.usefixtures("people")
def test_an_interrupt_without_a_ledger_leaves_nothing_behind():
    code, shown = slowed(ROWS, COVARIANCE, seconds=60, interrupt=True, terminal=False)
    assert (code, shown) == (130, "here\nsfumato: interrupted; nothing was left behind\n")


# ---- colours ---------------------------------------------------------------------------------------------------------

CHECK, SHOW = "check people.csv --schema people.toml", "ledger show budget.db"
PRICE = "ledger price covariance people.csv --schema people.toml --epsilon 9 --ledger budget.db"


class Screen(io.StringIO):
    def __init__(self, *, terminal=True):
        super().__init__()
        self.isatty = lambda: terminal


def printed(line, *, terminal=True):
    """What a command writes to its standard streams, which are a terminal, or none."""
    screen = Screen(terminal=terminal)
    with contextlib.redirect_stdout(screen), contextlib.redirect_stderr(screen), contextlib.suppress(SystemExit):
        main(line.split())
    return screen.getvalue()


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize(
    ("line", "colour", "words"),
    [
        (CHECK, 33, "NOT PRIVATE"),
        ("schema people.csv --bounds-from-data", 33, "sfumato: NOT PRIVATE"),
        ("show nothing", 31, "sfumato:"),
        ("shaw", 31, "sfumato:"),
        (SHOW, 1, "people (filter composition)"),
        (PRICE, 31, "EXCEEDS THE CAP"),
        (SKETCH, 32, "Release written to"),
    ],
)
def test_a_few_words_have_colours(line, colour, words, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert f"\x1b[{colour}m{words}\x1b[0m" in printed(line)


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize("line", [CHECK, "show nothing", "shaw"])
def test_nobody_gets_colours_who_does_not_want_them(line, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b" in printed(line)
    assert "\x1b" not in printed(line, terminal=False)
    assert "\x1b" not in printed(f"{CHECK} --json")
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with monkeypatch.context() as setting:
            setting.setenv(name, value)
            assert "\x1b" not in printed(line)
