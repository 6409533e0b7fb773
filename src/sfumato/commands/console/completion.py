"""``sfumato completion``: a script that lets a shell complete commands, options, choices and file names.

The script is static: a shell runs it once, and no process of ours at each tab. It is made of the parsers of all
commands, so it knows exactly what they know.
"""

import argparse
from collections.abc import Iterator
from typing import Any

from sfumato.commands.console.catalogue import parser_of
from sfumato.commands.console.options import command
from sfumato.commands.console.shells import SCRIPTS, Slot, Word

_FILES = {"TABLE", "FILE", "FOLDER", "RELEASE", "LEDGER"}
_EXAMPLE = """sfumato completion bash > ~/.local/share/bash-completion/completions/sfumato

also:
  sfumato completion zsh > ~/.zfunc/_sfumato  with fpath+=~/.zfunc before compinit in ~/.zshrc
  sfumato completion fish > ~/.config/fish/completions/sfumato.fish"""


def add_completion(commands: Any) -> None:
    """``sfumato completion``: its options."""
    text = "Print a script that completes commands, options and file names in a shell."
    parser = command(commands, "completion", text, _EXAMPLE, _completion)
    parser.add_argument("shell", choices=sorted(SCRIPTS), help="Shell that will run the script.")


def _completion(options: Any) -> None:
    print(SCRIPTS[options.shell](list(words_of(parser_of()))), end="")


def words_of(parser: argparse.ArgumentParser) -> Iterator[Word]:
    """What can be completed after each command, from its parser: the command itself first, then those below it."""
    below = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    helps = {shown.dest: shown.help or "" for a in below for shown in a._choices_actions}
    options = tuple(_slot(a) for a in parser._actions if a.option_strings)
    places = tuple(_slot(a) for a in parser._actions if not a.option_strings and a not in below)
    yield Word(parser.prog, helps, options, places)
    for action in below:
        for child in action.choices.values():
            yield from words_of(child)


def _slot(action: argparse.Action) -> Slot:
    """What one option or argument takes."""
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    return Slot(
        names=tuple(action.option_strings),
        text=action.help or "",
        metavar=metavar,
        choices=tuple(map(str, action.choices or ())),
        files=metavar in _FILES,
        takes=action.nargs != 0,
        many=action.nargs in ("*", "+") or isinstance(action, argparse._AppendAction),
    )
