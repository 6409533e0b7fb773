"""A few colours for people at a terminal: headings, warnings, what was refused and what was made.

Never in a pipe, a file or JSON, nor where NO_COLOR is set to something or the terminal is a dumb one. Colours go by the
layout and the words of a text and are put on last, when strangers' letters in it are plain already.
"""

import os
import re
from typing import TextIO

_BOLD, _RED, _GREEN, _YELLOW = "1", "31", "32", "33"
_HEADING = re.compile(r"^(?=\S)(?!warning:|NOT PRIVATE).+$(?=\n +\S)", re.MULTILINE)  # over indented lines
_WORDS = (
    (re.compile(r"^(?:sfumato: )?(?:warning:|note:|NOT PRIVATE\b|Hopeless\b)", re.MULTILINE), _YELLOW),
    (re.compile(r"EXCEEDS THE CAP|\bFAILED\b|\(does not fit\)"), _RED),
    (re.compile(r"^(?:[A-Z][a-z]+ )?[A-Za-z]+ written to\b|^No guarantee was refuted\b", re.MULTILINE), _GREEN),
)


def wanted(stream: TextIO) -> bool:
    """Whether somebody who likes colours sees the stream, on a terminal that has them."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


def painted(text: str, stream: TextIO) -> str:
    """A text as the stream is to get it: in colours if they are wanted there, as it is otherwise."""
    if not wanted(stream):
        return text
    text = _HEADING.sub(lambda found: _in(found[0], _BOLD), text)
    for pattern, colour in _WORDS:
        text = pattern.sub(lambda found, colour=colour: _in(found[0], colour), text)  # type: ignore[misc]
    return text


def refused(reason: str, stream: TextIO) -> str:
    """The line that says why something was refused, as the stream is to get it: our name in colour, if wanted."""
    return f"{_in('sfumato:', _RED) if wanted(stream) else 'sfumato:'} {reason}"


def _in(text: str, colour: str) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m"
