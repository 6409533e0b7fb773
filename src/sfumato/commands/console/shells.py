"""Scripts of completion for bash, zsh and fish, from a list of commands and what each of them takes."""

import re
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Slot:
    """An option, or an argument without names, in a script of completion.

    ``files``: its value is the name of a file or folder; ``takes``: it has a value; ``many``: more than one.
    """

    names: tuple[str, ...]
    text: str
    metavar: str
    choices: tuple[str, ...]
    files: bool
    takes: bool
    many: bool


@dataclass(frozen=True, slots=True)
class Word:
    """A command in a script of completion: its whole name, the commands below it, its options and arguments."""

    name: str
    below: dict[str, str]
    options: tuple[Slot, ...]
    places: tuple[Slot, ...]


# ---- bash ------------------------------------------------------------------------------------------------------------

_BASH = """# completion of sfumato for bash, written by `sfumato completion bash`
_sfumato() {
  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" path=sfumato words= i
  if [ "$cur" = "=" ]; then
    cur=
  elif [ "$prev" = "=" ] && [ "$COMP_CWORD" -gt 2 ]; then
    prev="${COMP_WORDS[COMP_CWORD-2]}"
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$path ${COMP_WORDS[i]}" in
      @PATHS@) path="$path ${COMP_WORDS[i]}" ;;
    esac
  done
  COMPREPLY=()
  compopt +o default 2> /dev/null
  case "$path:$prev" in
@VALUES@
  esac
  case "$path" in
@WORDS@
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
_sfumato_files() {
  compopt -o default 2> /dev/null
  COMPREPLY=()
}
complete -o default -F _sfumato sfumato
"""


def bash(words: list[Word]) -> str:
    """The script of completion for bash, from 3.2 on (where a number is completed as a file name, too)."""
    paths = "|".join(f'"{word.name}"' for word in words[1:])
    values = [line for word in words for line in _bash_values(word)]
    shown = [line for word in words for line in _bash_words(word)]
    script = _BASH.replace("@PATHS@", paths).replace("@VALUES@", "\n".join(values))
    return script.replace("@WORDS@", "\n".join(shown))


def _bash_values(word: Word) -> list[str]:
    """The branches for values of a command's options: choices, file names, or nothing that a shell knows."""
    lines: dict[str, list[str]] = {}
    for slot in (slot for slot in word.options if slot.takes):
        done = "_sfumato_files; return" if slot.files else "return"
        if slot.choices:
            done = f'COMPREPLY=($(compgen -W "{" ".join(slot.choices)}" -- "$cur")); return'
        lines[done] = [*lines.get(done, []), *(f'"{word.name}:{name}"' for name in slot.names)]
    return [f"    {'|'.join(names)}) {done} ;;" for done, names in lines.items()]


def _bash_words(word: Word) -> list[str]:
    """The branch for what else may follow a command."""
    options = " ".join(name for slot in word.options for name in slot.names)
    choices = " ".join(choice for slot in word.places for choice in slot.choices)
    lines = [f'    "{word.name}")', f'      words="{" ".join(word.below) or choices or options}"']
    if word.below or choices:
        lines.append(f'      case "$cur" in -*) words="{options}" ;; esac')
    elif any(slot.files for slot in word.places):
        lines.append('      case "$cur" in -*) ;; *) _sfumato_files; return ;; esac')
    return [*lines, "      ;;"]


# ---- zsh -------------------------------------------------------------------------------------------------------------


def zsh(words: list[Word]) -> str:
    """The script of completion for zsh: a function for each command, which knows its arguments."""
    lines = ["#compdef sfumato", "# completion of sfumato for zsh, written by `sfumato completion zsh`"]
    for word in words:
        lines += ["", f"{_function(word.name)}() {{", *(_zsh_below(word) if word.below else _zsh_leaf(word)), "}"]
    return "\n".join([*lines, "", 'if [ "$funcstack[1]" = _sfumato ]; then', '  _sfumato "$@"', "else"]) + (
        "\n  compdef _sfumato sfumato\nfi\n"
    )


def _function(name: str) -> str:
    return "_" + name.replace(" ", "_").replace("-", "_")


def _zsh_below(word: Word) -> list[str]:
    shown = [f"    {_quoted(name + ':' + _plain(text, ':'))}" for name, text in word.below.items()]
    calls = [f"        {name}) {_function(f'{word.name} {name}')} ;;" for name in word.below]
    options = " ".join(_zsh_option(slot) for slot in word.options)
    return [
        "  local context state state_descr line",
        "  typeset -A opt_args",
        "  local -a below",
        "  below=(",
        *shown,
        "  )",
        f"  _arguments -C {options} '1: :->below' '*:: :->rest'",
        "  case $state in",
        "    below) _describe command below ;;",
        "    rest)",
        "      case $words[1] in",
        *calls,
        "      esac",
        "      ;;",
        "  esac",
    ]


def _zsh_leaf(word: Word) -> list[str]:
    parts = [_zsh_option(slot) for slot in word.options]
    for number, slot in enumerate(word.places, 1):
        parts.append(_quoted(f"{'*' if slot.many else number}:{_plain(slot.metavar, ':')}:{_zsh_action(slot)}"))
    return ["  _arguments \\", *(f"    {part} \\" for part in parts[:-1]), f"    {parts[-1]}"]


def _zsh_option(slot: Slot) -> str:
    text = f"[{_plain(slot.text, '[]')}]"
    value = f":{slot.metavar}:{_zsh_action(slot)}" if slot.takes else ""
    again = "*" if slot.many else ""
    return " ".join(_quoted(f"{again}{name}{text}{value}") for name in slot.names)


def _zsh_action(slot: Slot) -> str:
    return f"({' '.join(slot.choices)})" if slot.choices else "_files" if slot.files else " "


# ---- fish ------------------------------------------------------------------------------------------------------------

_FISH = """# completion of sfumato for fish, written by `sfumato completion fish`
function __sfumato_path
    set -l path sfumato
    for word in (commandline -opc)[2..-1]
        if contains -- "$path $word" @PATHS@
            set path "$path $word"
        end
    end
    echo $path
end
function __sfumato_at
    test (__sfumato_path) = "$argv"
end
complete -c sfumato -f
"""


def fish(words: list[Word]) -> str:
    """The script of completion for fish: a line for each command, option and argument."""
    paths = " ".join(_quoted(word.name) for word in words[1:])
    lines = [line for word in words for line in _fish_lines(word)]
    return _FISH.replace("@PATHS@", paths) + "\n".join(lines) + "\n"


def _fish_lines(word: Word) -> list[str]:
    here = f"complete -c sfumato -n {_quoted(f'__sfumato_at {word.name}')}"
    lines = [f"{here} -a {name} -d {_quoted(_plain(text))}" for name, text in word.below.items()]
    for slot in word.options:
        names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in slot.names)
        lines.append(f"{here} {names}{_fish_value(slot)} -d {_quoted(_plain(slot.text))}")
    if any(slot.files for slot in word.places):
        lines.append(f"{here} -F")
    lines += [f"{here} -a {_quoted(' '.join(slot.choices))}" for slot in word.places if slot.choices]
    return lines


def _fish_value(slot: Slot) -> str:
    if slot.choices:
        return f" -x -a {_quoted(' '.join(slot.choices))}"
    return "" if not slot.takes else " -r -F" if slot.files else " -x"


def _plain(text: str, escaped: str = "") -> str:
    """The first sentence of a help, without its stop, with these signs escaped."""
    first = re.split(r"\. ", text.replace("%%", "%"), maxsplit=1)[0].removesuffix(".")
    return "".join(f"\\{letter}" if letter in escaped else letter for letter in first.replace("\\", "\\\\"))


def _quoted(text: str) -> str:
    """A text in single quotes, as all three shells read it, without an apostrophe in it."""
    return "'" + text.replace("'", "\u2019") + "'"


SCRIPTS: dict[str, Callable[[list[Word]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
