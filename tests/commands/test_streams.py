"""Real processes whose standard streams are closed, full, or read by nobody: the exit code tells what was done."""

import os
import subprocess
import sys
from typing import NamedTuple
from unittest import mock

import pytest

from sfumato.cli import main
from sfumato.commands.console import streams
from sfumato.ledger.ledger import Ledger
from sfumato.releases.release import load
from support.spending import pure, states

SCHEMA = '[[columns]]\nname = "age"\nkind = "real"\nlow = 0.0\nhigh = 120.0\n'
LOST = ("closed", "full", "unread")
RELEASE = "release sketch people.csv --schema people.toml --epsilon 1 --dimension 1 --out r --ledger budget.db"
ASK = "ask people.csv --schema people.toml --epsilon 1 --ledger budget.db age>40"


@pytest.fixture
def people(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text("age\n" + "\n".join(map(str, range(60))))
    (tmp_path / "people.toml").write_text(SCHEMA)
    Ledger.create("budget.db").add_dataset("people", pure(3.0))
    return tmp_path


def process(line, redirection):
    """Exit code and standard error of a real process, under a shell."""
    command = f"{sys.executable} -m sfumato.cli {line} {redirection}"
    done = subprocess.run(["/bin/sh", "-c", command], stderr=subprocess.PIPE, text=True, check=False, timeout=100)  # noqa: S603
    return done.returncode, done.stderr


class Output(NamedTuple):
    how: str
    stream: object

    def main(self, line, capsys):
        """Exit code and standard error of a command with this output."""
        with mock.patch.object(sys, "stdout", self.stream):
            code = main(line.split())
        return code, capsys.readouterr().err


@pytest.fixture(params=LOST)
def output(request):
    """A standard output that is closed, full, or read by nobody."""
    reader, writer = os.pipe()
    os.close(reader)
    place = {"full": "/dev/full", "closed": os.devnull}.get(request.param)
    number = writer if place is None else os.open(place, os.O_WRONLY if request.param == "full" else os.O_RDONLY)
    yield Output(request.param, streams._stream(number, None, needed=True))
    for each in {number, writer}:
        os.close(each)


@pytest.mark.parametrize("planned", [False, True])
def test_a_release_that_was_made_and_charged_is_a_success_though_nobody_can_be_told(people, output, planned, capsys):
    """With a plan, something is printed before a row is read, too."""
    line = RELEASE.replace(" --dimension 1", " --anyway") if planned else RELEASE
    code, said = output.main(line, capsys)
    told = "sfumato: the release was made, but the output was lost: No space left on device; "
    assert (code, said.count("\n")) == (0, int(output.how == "full"))
    assert said.startswith(told if output.how == "full" else "")
    assert load(people / "r").rows == 60
    assert states(Ledger("budget.db")) == ["committed"]


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize("line", ["ledger show budget.db", "plan --columns 2 --epsilon 1", f"{ASK} --price"])
def test_what_is_only_printed_ends_as_other_tools_do(output, line, capsys):
    code, said = output.main(line, capsys)
    full = (2, "sfumato: standard output: No space left on device\n")
    assert (code, said) == {"unread": (141, ""), "closed": (0, ""), "full": full}[output.how]
    assert states(Ledger("budget.db")) == []


def test_answers_that_are_charged_and_lost_are_no_success_and_a_histogram_is_written(people, output, capsys):
    line = f"{ASK} --method weights --updates 1 --histogram h.parquet"
    code, said = output.main(line, capsys)
    assert (code, said.count("\n")) == (141 if output.how == "unread" else 2, 1)
    assert said.startswith("sfumato: the questions were charged, but the output was lost: ")
    assert states(Ledger("budget.db")) == ["committed"]
    assert (people / "h.parquet").stat().st_size > 0


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize("line", ["show nothing", "ledger show nothing.db"])
def test_a_refusal_is_a_refusal_whatever_becomes_of_the_output(line, output, capsys):
    code, said = output.main(line, capsys)
    assert (code, "nothing" in said) == (2, True)


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize(
    ("line", "redirection", "code", "told"),
    [
        (RELEASE, ">&-", 0, ""),
        (RELEASE, ">/dev/full", 0, "release was made"),
        ("plan --columns 2 --epsilon 1", ">&-", 0, ""),
        (RELEASE, ">&- 2>&- <&-", 0, ""),
        ("ledger show budget.db", "| head -c0; exit 3", 3, ""),
        ("--help", ">/dev/full", 2, "standard output: No space"),
        ("show nothing", ">&- 2>&-", 2, ""),
    ],
)
def test_processes_say_what_they_can_and_no_traceback(line, redirection, code, told):
    """A file that got the number of a closed stream would hold what a library prints there."""
    found, said = process(line, redirection)
    assert found == code
    assert (told in said, said.count("\n"), "Traceback" in said) == (True, int(bool(told)), False)
    if line == RELEASE:
        assert load("r").rows == 60
        assert Ledger("budget.db").verify()[0] == 4


def test_a_reader_who_has_gone_ends_a_process_as_a_signal_would(people):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "sfumato.cli", "ledger", "show", "budget.db"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False, cwd=people)  # noqa: S603
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("without", [(), (0, 1, 2)])
def test_descriptors_of_streams_are_always_taken(without):
    taken = "import os; f = open(os.devnull); os._exit(f.fileno())"
    code = f"from sfumato.commands.console import streams; streams.install(); {taken}"
    shell = ["/bin/sh", "-c", 'exec "$@" ' + " ".join(f"{n}>&-" for n in without), "sh", sys.executable, "-c", code]
    assert subprocess.run(shell, check=False).returncode > 2  # noqa: S603


def test_letters_that_an_output_cannot_write_are_escaped(people):
    (people / "people.toml").write_text(SCHEMA.replace("age", "\u00e2ge"))
    (people / "people.csv").write_text("\u00e2ge\n1\n", encoding="utf-8")
    command = [sys.executable, "-m", "sfumato.cli", "schema", "people.csv"]
    plain = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run(command, capture_output=True, check=False, env=plain)  # noqa: S603
    assert (done.returncode, done.stderr) == (0, b"")
    assert b'name = "\\xe2ge"' in done.stdout
