"""Texts of strangers as plain text: nothing in them moves a cursor, breaks a line or turns the letters around it.

A manifest, a ledger and the names in a table may come from anybody, and a terminal obeys what it is sent. What is shown
of them goes through here: ``line`` and ``lines`` for terminals and files of text, ``marked`` for pages.
"""

import unicodedata

LONGEST = 2000  # letters of a line that are shown
_JOINING = "\u200c\u200d"  # writing of several languages needs them, and they move nothing


def _odd(letter: str) -> bool:
    """Whether it is no plain letter: a control, a direction, a separator of lines, half a letter, or not assigned."""
    return not letter.isprintable() and letter not in _JOINING and unicodedata.category(letter) != "Zs"


def _escape(letter: str) -> str:
    return f"\\u{ord(letter):04x}" if ord(letter) < 1 << 16 else f"\\U{ord(letter):08x}"


def line(text: object, most: int = LONGEST) -> str:
    """A text as one line of plain letters, odd ones as JSON and TOML write them, cut if it is longer than ``most``."""
    cut = str(text)
    cut = cut if len(cut) <= most else cut[: most - 3] + "..."
    return cut if cut.isprintable() else "".join(_escape(letter) if _odd(letter) else letter for letter in cut)


def lines(text: str) -> str:
    """The same for each line of a text of ours, however long: where strangers' texts are in it, none adds a line."""
    return "\n".join(line(each, max(len(each), 1)) for each in text.split("\n"))


def marked(text: object) -> str:
    """A text for a page, which may have several lines: a mark (U+FFFD) for each odd letter but tabs and line ends."""
    whole = str(text)
    if whole.isprintable():
        return whole
    return "".join("\ufffd" if _odd(letter) and letter not in "\n\t" else letter for letter in whole)
