"""The command line as a stranger meets it: what it prints, what it refuses, and how."""

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from importlib import metadata

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq
import pytest

from sfumato import cli
from sfumato.cli import main
from sfumato.commands.console.catalogue import COMMANDS
from sfumato.commands.console.options import unparsed
from sfumato.releases.release import load
from sfumato.tables.schema import Schema

SCHEMA = """
scale = "raw"

[[columns]]
name = "age"
kind = "real"
low = 0.0
high = 120.0
missing = 40.0

[[columns]]
name = "smoker"
kind = "flag"
"""


@pytest.fixture
def people(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    table = pa.table({"age": rng.uniform(20, 80, 300), "smoker": rng.random(300) < 0.3})
    pv.write_csv(table, "people.csv")
    (tmp_path / "people.toml").write_text(SCHEMA)
    return tmp_path


COMMAND = "release sketch people.csv --schema people.toml --epsilon 1 --unit attribute --dimension 2 --out r"
RELEASE = COMMAND.split(" ")


@pytest.mark.usefixtures("people")
def test_the_whole_way_from_table_to_answers(capsys):
    assert main(["schema", "people.csv"]) == 0
    assert "# low = " in capsys.readouterr().out
    assert main(["check", "people.csv", "--schema", "people.toml"]) == 0
    assert capsys.readouterr().out.startswith("NOT PRIVATE")
    assert main(RELEASE) == 0
    printed = capsys.readouterr()
    assert "300 records as 2 numbers each" in printed.out
    assert printed.out.endswith("Release written to r\n")
    assert printed.err == ""
    for command, expected in (
        ("show r", "probability of any outcome"),
        ("estimate distance r 3 17", "Squared distance: "),
        ("estimate nearest r 3 --k 4", "squared distance"),
        ("estimate cluster r 3", "Cluster 2:"),
    ):
        assert main(command.split()) == 0
        assert expected in capsys.readouterr().out


@pytest.mark.usefixtures("people")
def test_machines_get_json(capsys):
    assert main([*RELEASE, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["manifest"]["rows"] == 300
    for command, key in (
        ("show r", "guarantee"),
        ("estimate distance r 3 17", "standard_error"),
        ("estimate nearest r 3", "nearest"),
        ("estimate cluster r 3", "sizes"),
        ("check people.csv --schema people.toml", "findings"),
        ("schema people.csv", "schema"),
    ):
        assert main([*command.split(), "--json"]) == 0
        assert key in json.loads(capsys.readouterr().out)


def test_a_filled_in_draft_makes_a_release(people, capsys):
    main(["schema", "people.csv"])
    text = capsys.readouterr().out.replace("# low = ", "low = 0").replace("# high = ", "high = 120")
    (people / "draft.toml").write_text(text)
    assert main([*RELEASE[:3], "--schema", "draft.toml", *RELEASE[5:]]) == 0


@pytest.mark.usefixtures("people")
def test_bounds_from_the_data_need_a_flag_and_are_confessed(capsys):
    assert main(["schema", "people.csv", "--bounds-from-data"]) == 0
    printed = capsys.readouterr()
    assert "NOT PRIVATE" in printed.err
    with open("bounded.toml", "w") as file:  # noqa: PTH123
        file.write(printed.out)
    assert main([*RELEASE[:3], "--schema", "bounded.toml", *RELEASE[5:]]) == 0
    assert any("outside the guarantee" in w for w in load("r").manifest["warnings"])
    ages = load("r").schema.data_columns[0]
    assert 20 <= ages.low < 25
    assert 75 < ages.high <= 80


@pytest.mark.usefixtures("people")
def test_options_reach_the_release():
    command = "release sketch people.csv --schema people.toml --epsilon 2 --delta 1e-6 --change l2 --radius 1 --fresh "
    command += "--dimension 2 --projection gaussian --noise gaussian --keep-projection --out r"
    assert main(command.split()) == 0
    made = load("r")
    assert made.guarantee.projection == "fresh"
    assert made.guarantee.allowed_change.radius == 1.0
    assert not made.manifest["projection"]["published"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("people.csv", "absent.csv"), "absent.csv"),
        (("people.toml", "absent.toml"), "absent.toml"),
        (("--epsilon 1", "--epsilon -1"), "epsilon=-1.0"),
        (("--epsilon 1", "--epsilon nan"), "epsilon=nan"),
        (("--epsilon 1", "--epsilon 1 --delta 2"), "delta=2.0"),
        (("--dimension 2", "--dimension 0"), "dimension=0"),
        (("--dimension 2", "--dimension 9 --projection orthonormal"), "dim_out=9"),
        (("--dimension 2", "--dimension 2 --projection wavelet"), "wavelet"),
        (("--dimension 2", "--dimension 2 --sparsity 3"), "sparsity=3"),
        (("--out r", "--out nowhere/r"), "nowhere"),
        (("--out r", "--out people.csv"), "already exists"),
        (("--unit attribute", "--unit record --change l2"), "needs a radius"),
        (("--unit attribute", "--unit record --radius 2"), "--change"),
        (("--unit attribute", "--unit record --group 99999999999"), "group=99999999999"),
        (("--epsilon 1", "--epsilon 1e-9"), "epsilon=1e-09"),
        (("--out r", "--out " + "x" * 300), "x" * 300),
    ],
)
def test_refusals_are_one_line_and_leave_nothing(people, capsys, change, expected):
    before = sorted(people.iterdir())
    assert main(COMMAND.replace(*change).split()) == 2
    error = capsys.readouterr().err
    assert error.startswith("sfumato: ")
    assert error.count("\n") == 1
    assert expected in error
    assert sorted(people.iterdir()) == before


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SCHEMA.replace("age", "height"), "'height'"),
        (SCHEMA.replace('"flag"', '"dates"'), "dates"),
        (SCHEMA.replace("weight", "wait") + "\nwait = 1", "wait"),
        ("not toml", "people.toml"),
        ("", "people.toml"),
    ],
)
def test_schemas_that_do_not_fit_are_refused_in_one_line(people, capsys, text, expected):
    (people / "people.toml").write_text(text)
    assert main(RELEASE) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert expected in error


def test_a_column_of_dates_is_refused_by_its_type(people, capsys):
    pq.write_table(pa.table({"age": pa.array([0], pa.date32()), "smoker": [True]}), people / "dates.parquet")
    assert main(["release", "sketch", "dates.parquet", *RELEASE[3:]]) == 2
    assert "date32" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    ["", "releese", "release", "release sketch", "release sketch d --epsilon abc", "show", "estimate distance r 1 x"],
)
def test_words_that_are_no_command_are_refused_in_one_line(capsys, line):
    with pytest.raises(SystemExit) as stopped:
        main(line.split())
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("sfumato: ")
    assert error.count("\n") == 1


def test_the_version_is_told(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out.strip() == metadata.version("sfumato")


@pytest.mark.usefixtures("people")
def test_a_fresh_release_says_what_its_radius_means(capsys):
    command = COMMAND.replace("--unit attribute", "--delta 1e-6 --change l2 --radius 1 --fresh --projection gaussian")
    assert main(command.split()) == 0
    assert "before the projection, which was drawn for this release." in capsys.readouterr().out


OWN = """
import sys
from sfumato import cli

sys.argv = ["sfumato", *sys.argv[1:]]
try:
    cli.entry()
finally:
    heavy = ("numpy.f2py.crackfortran", "numpy.testing._private", "scipy.special", "scipy.linalg", "pyarrow.compute")
    loaded = [name for name in heavy if name in sys.modules]
    loaded += [name for name, module in sys.modules.items() if type(module).__name__ == "_LazyModule"]
    import pyarrow, numpy.testing
    numpy.testing.assert_array_equal([1], [1])
    print(loaded, pyarrow.default_memory_pool().backend_name)
"""


def test_a_process_of_its_own_loads_what_it_needs_and_keeps_its_memory(tmp_path):
    pq.write_table(pa.table({"c0": np.zeros(50), "c1": np.ones(50)}), tmp_path / "d.parquet")
    (tmp_path / "s.toml").write_text(Schema.reals(2, low=0, high=1).to_toml())
    command = ["release", "sketch", str(tmp_path / "d.parquet"), "--schema", str(tmp_path / "s.toml"), "--epsilon", "1"]
    command += ["--dimension", "2", "--out", str(tmp_path / "r")]
    environment = {name: value for name, value in os.environ.items() if name != "ARROW_DEFAULT_MEMORY_POOL"}
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", OWN, *command], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    loaded, pool = done.stdout.splitlines()[-1].rsplit(" ", 1)
    assert loaded == "['numpy.f2py', 'numpy.testing']"  # not loaded yet; others would be, by two threads at once
    assert pool == "system" or sys.platform != "linux"


INTERRUPTED = """
import os, signal, sys

def interrupt(event, details):
    if event == "import" and details[0] == sys.argv[1]:
        os.kill(os.getpid(), signal.SIGTERM)

sys.addaudithook(interrupt)
from sfumato.cli import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize(
    ("loading", "code", "told"),
    [
        ("sfumato.cli", -signal.SIGTERM, ""),
        ("sfumato.commands.console.options", -signal.SIGTERM, ""),
        ("sfumato.releases.release", 143, "sfumato: interrupted; nothing was left behind\n"),
        ("numpy", 143, "sfumato: interrupted; nothing was left behind\n"),
        ("decimal", 143, "sfumato: interrupted; nothing was left behind\n"),
    ],
)
def test_an_interrupt_at_any_time_is_at_most_one_line(tmp_path, loading, code, told):
    """Of a process that interrupts itself while it loads a module, so that the time does not depend on the machine."""
    command = [sys.executable, "-c", INTERRUPTED, loading, "show", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert (done.returncode, done.stdout, done.stderr) == (code, "", told)


def test_a_missing_bound_is_refused_with_what_to_do(people, capsys):
    (people / "people.toml").write_text(SCHEMA.replace("high = 120.0", ""))
    assert main(RELEASE) == 2
    assert "left to fill in" in capsys.readouterr().err


def test_no_cell_is_ever_printed(people, capsys):
    cell = "kryptonite-73571"
    (people / "people.csv").write_text(f"age,smoker\n{cell},{cell}\n12,\n1e999,maybe\n")
    for command in (COMMAND, "show r", "check people.csv --schema people.toml", "schema people.csv"):
        main(command.split())
    (people / "people.csv").write_text(f'age,smoker\n{cell}\n1,2,3,{cell}\n"')
    main([*RELEASE[:-1], "r2"])
    printed = capsys.readouterr()
    assert cell not in printed.out + printed.err
    texts = [p.read_bytes() for p in (people / "r").iterdir()]
    assert not any(cell.encode() in t for t in texts)


@pytest.mark.parametrize(
    "command", ["estimate distance r 0 300", "estimate nearest r 0 --k 300", "estimate cluster r 0"]
)
@pytest.mark.usefixtures("people")
def test_impossible_questions_are_refused(capsys, command):
    main(RELEASE)
    capsys.readouterr()
    assert main(command.split()) == 2
    assert capsys.readouterr().err.count("\n") == 1


def parsers(parser):
    """All parsers below one, which it has itself."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from parsers(below)


EVERY = {parser.prog: parser for parser in parsers(cli.parser_of())}
RUNNING = [name for name, parser in EVERY.items() if parser.get_default("run")]


@pytest.mark.parametrize("name", EVERY)
def test_every_help_shows_an_example_that_parses(capsys, name):
    with pytest.raises(SystemExit) as stopped:
        main([*name.split()[1:], "--help"])
    assert stopped.value.code == 0
    (example,) = re.findall(r"^example:\n  (sfumato .*)$", capsys.readouterr().out, re.MULTILINE)
    assert example.startswith(f"{name} ")
    assert cli.parser_of().parse_args(shlex.split(example.split(" > ")[0])[1:]).run


@pytest.mark.parametrize("name", EVERY)
def test_every_line_of_help_is_in_one_style(name):
    """Sentences with a full stop, defaults in brackets at their end, and names for values that say what is expected."""
    texts = [EVERY[name].description, *(action.help for action in EVERY[name]._actions if action.help)]
    texts += [shown.help for action in EVERY[name]._actions for shown in getattr(action, "_choices_actions", [])]
    for text in texts:
        assert re.fullmatch(r"[A-Z].*[^.]\.", text), text
        assert "default" not in text or re.search(r"\(([^()]*; )?default[ :;][^()]*\)\.$", text), text
    for action in EVERY[name]._actions:
        if action.nargs != 0 and action.choices is None:
            assert action.metavar, action
            assert action.metavar == action.metavar.upper(), action


@pytest.mark.parametrize("name", [name for name in EVERY if name not in RUNNING])
def test_a_list_of_commands_has_one_line_for_each_and_fits_a_terminal(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "130")
    text = EVERY[name].format_help()
    for below in EVERY:
        if below.rpartition(" ")[0] == name:
            assert re.search(rf"^    {below.split()[-1]} +[A-Z].*\.$", text, re.MULTILINE), below
    assert max(map(len, text.split("example:")[0].splitlines())) <= 130


@pytest.mark.parametrize("name", RUNNING)
def test_every_command_declares_what_is_asked_of_all(name):
    declared = EVERY[name]._defaults
    assert vars(unparsed()).keys() <= declared.keys()
    assert declared["many_blocks"] is (name.startswith("sfumato release ") or name == "sfumato stream append")


@pytest.mark.parametrize("name", [name for name in RUNNING if name.startswith("sfumato release ")])
def test_every_kind_of_release_sets_up_its_process_for_many_blocks(name, monkeypatch, tmp_path):
    """``cli`` asks the parser, and knows no module by its name. There is no data, so nothing more is done."""
    monkeypatch.chdir(tmp_path)
    set_up = []
    monkeypatch.setattr(cli, "_set_up", lambda **wishes: set_up.append(wishes))
    example = EVERY[name].epilog.split("sfumato ")[1]
    assert main(shlex.split(example), own_process=True) == 2
    assert set_up == [{"many_blocks": True}]


def test_a_command_that_reads_no_table_is_set_up_for_none(monkeypatch):
    set_up = []
    monkeypatch.setattr(cli, "_set_up", lambda **wishes: set_up.append(wishes))
    assert main(["show", "nowhere"], own_process=True) == 2
    assert set_up == [{"many_blocks": False}]


def test_the_module_runs_as_a_program():
    done = subprocess.run(
        [sys.executable, "-m", "sfumato.cli", "show", "nowhere"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == "sfumato: there is no release folder at nowhere\n"


@pytest.mark.parametrize("command", list(COMMANDS))
def test_a_command_has_the_same_options_with_and_without_the_others(capsys, command):
    said = []
    for parser in (cli.parser_of(command), cli.parser_of()):
        with pytest.raises(SystemExit):
            parser.parse_args([command, "--help"])
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] != ""


def test_a_word_that_is_no_command_is_answered_with_all_of_them(capsys):
    with pytest.raises(SystemExit):
        main(["releese"])
    said = capsys.readouterr().err
    assert all(re.search(rf"\b{command}\b", said) for command in COMMANDS)


ENDED = """
import atexit, sys
from sfumato import cli

if sys.argv[2] == "first":
    atexit.register(print, "handled")

def main(own_process):
    if sys.argv[2] == "later":
        atexit.register(print, "handled")
    print("said")
    print("complained", file=sys.stderr)
    return int(sys.argv[1])

cli.main = main
cli.entry()
"""


@pytest.mark.parametrize("registered", ["first", "later"])
@pytest.mark.parametrize("code", ["0", "2", "none"])
def test_a_process_ends_with_its_code_and_after_all_it_said(code, registered):
    """The third has an error of its own, which is shown as any other. Nobody's handler is left out."""
    command = [sys.executable, "-c", ENDED, code, registered]
    held = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}  # until it is full
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=held)  # noqa: S603
    assert done.stdout == "said\nhandled\n"
    assert done.stderr.startswith("complained\n")
    assert (done.returncode, "ValueError" in done.stderr) == ((1, True) if code == "none" else (int(code), False))


@pytest.mark.usefixtures("people")
def test_a_command_that_releases_leaves_the_cores_to_its_own_processes_and_threads():
    """One thread of BLAS: its threads spin, and a fork had better leave none behind."""
    code = (
        "import sys; from sfumato import cli; cli.main(sys.argv[1:], own_process=True); import threadpoolctl; "
        "print('threads', *(found['num_threads'] for found in threadpoolctl.threadpool_info()))"
    )
    clean = {key: value for key, value in os.environ.items() if not key.endswith("_NUM_THREADS")}
    command = [sys.executable, "-c", code, *RELEASE]
    done = subprocess.run(command, env=clean, capture_output=True, text=True, check=True)  # noqa: S603
    assert set(done.stdout.splitlines()[-1].split()[1:]) == {"1"}
