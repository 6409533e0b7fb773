"""Scripts of completion, tried in the shells that are there."""

import argparse
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sfumato.cli import main, parser_of
from sfumato.commands.console.completion import words_of

TRY = """
source "$1"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_sfumato
printf '%s\\n' "${COMPREPLY[@]}"
complete -p sfumato
"""


@pytest.fixture
def script(tmp_path, capsys):
    def written(shell):
        assert main(["completion", shell]) == 0
        path = tmp_path / f"sfumato.{shell}"
        path.write_text(capsys.readouterr().out)
        return str(path)

    return written


def run(*command, folder=None):
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=folder)  # noqa: S603
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_commands_options_and_choices(script):
    path = script("bash")
    for words, expected in (
        (["re"], ["regions", "release", "report", "reproduce"]),
        (["release", "sk"], ["sketch"]),
        (["release", "table", "people.csv", "--un"], ["--unit"]),
        (["release", "table", "people.csv", "--unit", ""], ["attribute", "record", "edge"]),
        (["release", "table", "--unit", "=", "r"], ["record"]),
        (["release", "table", "--unit", "="], ["attribute", "record", "edge"]),
        (["ledger", "price", "covariance", "--noise", "s"], ["sketch"]),
        (["release", "covariance", "--epsilon", ""], [""]),
        (["release", "table", "peo"], [""]),  # left to the shell, which completes file names
        (["completion", "z"], ["zsh"]),
    ):
        found = run("bash", "--norc", "-c", TRY, "bash", path, "sfumato", *words)
        assert found == [*expected, "complete -o default -F _sfumato sfumato"], words


FILES = """
complete() { :; }
compopt() { echo "$@"; }
source "$1"
COMP_WORDS=("${@:2}") COMP_CWORD=$(($# - 2))
_sfumato
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_file_names_where_one_is_expected_and_nowhere_else(script):
    path = script("bash")
    for words, files in (
        (["release", "table", "peo"], True),
        (["release", "table", "--schema", ""], True),
        (["release", "table", "--epsilon", ""], False),
        (["release", "table", "--noise", ""], False),
        (["completion", ""], False),
    ):
        said = run("bash", "--norc", "-c", FILES, "bash", path, "sfumato", *words)
        assert (said[-1] == "-o default") == files, words


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_reads_its_script(script):
    path = script("zsh")
    defined = 'compdef() { :; }; source "$1"; functions -m "_sfumato*" | grep -c "^_sfumato"'
    assert run("zsh", "-f", "-c", defined, "zsh", path) == [str(len(list(words_of(parser_of()))))]


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes(script, tmp_path):
    path = script("fish")
    (tmp_path / "people.csv").write_text("age\n")
    for line, expected in (
        ("sfumato relea", "release"),
        ("sfumato release table --unit rec", "record"),
        ("sfumato release table peo", "people.csv"),
        ("sfumato completion z", "zsh"),
    ):
        found = run("fish", "--no-config", "-c", f"source {path}; complete -C '{line}'", folder=tmp_path)
        assert [one.split("\t")[0] for one in found] == [expected], line


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_option_of_every_command_is_in_the_script(shell, script):
    text = Path(script(shell)).read_text()
    for word in words_of(parser_of()):
        assert re.search(re.sub("[ -]", "[ _-]", word.name), text)
        for name in (name for slot in word.options for name in slot.names):
            spelt = name.replace("--", "-l ") if name.startswith("--") else name.replace("-", "-s ")
            assert (f"{spelt} " if shell == "fish" else name) in text


def test_the_words_are_those_of_the_parsers():
    words = {word.name: word for word in words_of(parser_of())}
    table = words["sfumato release table"]
    assert [slot.files for slot in table.places] == [True]
    unit, epsilon = (next(s for s in table.options if name in s.names) for name in ("--unit", "--epsilon"))
    assert (unit.choices, unit.takes, unit.files) == (("attribute", "record", "edge"), True, False)
    assert (epsilon.choices, epsilon.takes, epsilon.files) == ((), True, False)
    assert isinstance(parser_of(), argparse.ArgumentParser)
    assert "price" in words["sfumato ledger"].below
