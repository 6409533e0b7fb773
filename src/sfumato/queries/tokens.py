"""The words, numbers, quoted texts and signs that a query is made of, and how a query is refused."""

import re
import unicodedata
from dataclasses import dataclass
from typing import NoReturn

from sfumato.errors import ParameterError

_SHOWN = 40  # characters of a query that a message repeats
_SPELLINGS = {"=": "==", "<>": "!="}
_WORDS = ("and", "or", "not", "in", "between", "true", "false")
_WORD = {spelled: word for word in _WORDS for spelled in (word, word.upper())} | {"True": "true", "False": "false"}

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+)
    | (?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2}
        (?:[T\ ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?)
    | (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<text>"(?:[^"]|"")*+"|'(?:[^']|'')*+')
    | (?P<quoted>`(?:[^`]|``)++`)
    | (?P<sign><=|>=|==|!=|<>|[-+*<>=(),])
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Token:
    """kind: word, name (of a column), text, number, date, sign or end; text: as meant, without quotes; at: from 1."""

    kind: str
    text: str
    at: int

    def says(self, text: str) -> bool:
        """Whether the token is this word or sign, and no name or quoted text that looks like it."""
        return self.text == text and self.kind in ("word", "sign")

    def reads(self, word: str) -> bool:
        """Whether the token is a name that reads as a word of the language where no name can stand."""
        return self.kind == "name" and self.text in (word, word.upper())


def tokens(query: str) -> list[Token]:
    """Split a query into tokens, with an end; refuses what is none of these kinds."""
    found, at = [], 0
    while at < len(query):
        match = _TOKEN.match(query, at)
        if match is None:
            refuse(at + 1, _strange(query[at]))
        kind, text = str(match.lastgroup), match.group()
        if kind in ("number", "date") and re.match(r"[A-Za-z0-9_.]", query[match.end() : match.end() + 1]):
            refuse(at + 1, f"a {kind} runs into what follows it")
        if kind in ("text", "quoted"):
            quote = text[0]
            kind, text = ("text" if kind == "text" else "name"), text[1:-1].replace(quote * 2, quote)
        elif kind == "name" and text in _WORD:
            kind, text = "word", _WORD[text]
        if kind != "space":
            found.append(Token(kind, _SPELLINGS.get(text, text) if kind == "sign" else text, at + 1))
        at = match.end()
    return [*found, Token("end", "", len(query) + 1)]


def _strange(character: str) -> str:
    """Why no token of a query starts with this character."""
    if character in "\"'`":
        return f"the quote {character} is opened and not closed"
    if not character.isascii() or not character.isprintable():
        name = unicodedata.name(character, "a control character" if ord(character) < 128 else "without a name")
        return (
            f"U+{ord(character):04X} ({name}) stands outside of quotes: names of columns that are not plain ASCII "
            "go between backticks"
        )
    words = "and, or, not, in, between, contains, is missing"
    return f"{character!r} means nothing in a query: it has columns, values, comparisons, {words}"


def refuse(at: int, why: str) -> NoReturn:
    """The error that refuses a query, with the place of the token at fault."""
    raise ParameterError(f"query, at character {at}: {why}")


def shown(text: str) -> str:
    """A token of a query as a message may repeat it: short, on one line, in ASCII."""
    return ascii(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")
