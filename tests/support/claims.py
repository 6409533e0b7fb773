"""The register of claims, docs/claims.toml, and the numbers that the pages state: each must have its entry.

A number of a page's prose counts as measured if it has a decimal point or an exponent, is 1,000 or more, fills a cell
of a table, or has a unit behind it: of time, size, rate or share, *times*, or what a simulation counts (repetitions,
samples, seeds, ...); also if it is written as a word (*four million rows*, *ten minutes*), stands before another such
number in a list (*1.09 to 1.24 times*), or in *33 of 49*.

Not seen are whole numbers below 1,000 without any of this, taken for dimensions, places and definitions; code, in
blocks or in the line, which other tests run; headings; targets of links; years; numbers after ``^``, ``/`` and the root
sign; ``1e-6`` and the like given to delta, and one-digit numbers given to epsilon or delta, which are settings; and the
level of an interval that was asked for (*95% intervals*).
"""

import ast
import importlib
import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
REGISTER = "docs/claims.toml"

# ---- the prose of a page ---------------------------------------------------------------------------------------------

_MADE = re.compile(r"^<!-- made by: (?P<command>[^>]+?) -->\n(?P<body>.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL)
_HIDDEN = (
    re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL),
    re.compile(r"<!--.*?-->", re.DOTALL),
    re.compile(r"(?<=\n\n)(?:(?: {4}.*)?\n)*(?: {4}.*\n)"),  # what is indented after an empty line is code
    re.compile(r"^#+ .*$", re.MULTILINE),
    re.compile(r"``.+?``|`[^`]+`", re.DOTALL),
    re.compile(r"\]\([^)]*\)"),
    re.compile(r"^\|[-|]+$", re.MULTILINE),
)


def _blank(found: re.Match[str]) -> str:
    """As long as what it stands for, so that places stay what they are."""
    return re.sub(r"[^\n]", "\0", found[0])


def prose(text: str) -> str:
    """A page without its code, headings, comments, targets of links and sections that a command made."""
    for hidden in (_MADE, *_HIDDEN):
        text = hidden.sub(_blank, text)
    return text


def made_sections(text: str) -> list[str]:
    """The commands that made parts of a page."""
    return [found["command"] for found in _MADE.finditer(text)]


# ---- numbers ---------------------------------------------------------------------------------------------------------

_COUNTED = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
)
_WORDS = {word: value for value, word in enumerate(re.findall(r"\w+", _COUNTED)) if value > 1} | {
    "twice": 2,
    "twenty": 20,
}
_NUMBER = re.compile(
    r"(?<![\w./^√\d])(?<!\d,)"
    r"(?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\w)|\d+e[-+]?\d+|\d+(?!\w)|(?:\d+\.\d+(?:e[-+]?\d+)?|\.\d+)(?!\d))"
    r"(?![.,]\d)(?P<percent>%?)"
    rf"|\b(?P<word>{'|'.join([*_WORDS, 'a'])})(?=\smillion\b)"
    rf"|\b(?P<timed>{'|'.join(_WORDS)})(?=\s(?:times\b|seconds|minutes|hours|days|weeks|seeds|as\b|runs\b))",
    re.IGNORECASE,
)
_UNIT = re.compile(
    r"\s?(?:ns|µs|ms|s|min|h|[kMGT]B|[KMG]iB|GB/s|bytes|(?:micro|milli)?seconds?|minutes?|hours?|days?|weeks?|times|x"
    r"|standard errors?|million"
    r"|samples|repetitions|releases|runs|draws|trials|seeds|splits|configurations|pairs|cells|turns|folds|tasks|lines"
    r"|rows|records|households|characters|operations|kills|mutants|attacks|queries|questions|tests|cases|times)\b"
)
_SHARE = re.compile(r"\s(?:out\s)?of\s(?:the\s|all\s)?\d")
_LIST = re.compile(r"(?:,|\s?(?:to|and|or|±)|,\sand)\s[+\u2212-]?")
_LEVEL = re.compile(r"\s(?:interval|confidence)")
_SETTING = re.compile(r"(?:\b(?:ε|δ|epsilon|delta)₀?\s(?:=\s)?|\(\S+,\s)$")
_SIZES = {"kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}


@dataclass(frozen=True, slots=True)
class Number:
    """A number of a text: as it is written, where, and what follows it."""

    shown: str
    start: int
    end: int
    percent: bool
    after: str

    @property
    def value(self) -> float:
        """Of *four* and *a* (million) too."""
        word = self.shown.lower()
        return float(_WORDS.get(word, 1 if word == "a" else self.shown.replace(",", "")))

    @property
    def half_a_digit(self) -> float:
        """How far the number that was rounded to this one may lie."""
        mantissa, _, exponent = self.shown.lower().partition("e")
        if not self.shown[-1].isdigit():
            return 0.5 if self.scale > 1 else 0.0
        return 0.5 * 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))

    @property
    def scale(self) -> float:
        """Of its unit, where that is a size, a share or millions."""
        unit = re.match(r"\s?(\w+)", self.after)
        name = unit[1] if unit else ""
        return 0.01 if self.percent else {"million": 1e6, **_SIZES}.get(name, 1.0)

    def rounds(self, other: float) -> bool:
        """Whether another number, more exact, may be shown as this one."""
        found = (abs(other), abs(other) / self.scale)
        return any(abs(value - self.value) <= self.half_a_digit + 1e-9 * value for value in found)


def numbers(text: str) -> list[Number]:
    """All numbers of a text."""
    return [
        Number(m["digits"] or m["word"] or m["timed"], m.start(), m.end(), bool(m["percent"]), text[m.end() :][:40])
        for m in _NUMBER.finditer(text)
    ]


def measured(text: str) -> list[Number]:
    """The numbers of a page's prose that must have an entry, by the rule above."""
    hidden, found = prose(text), []
    for number in reversed(numbers(hidden)):
        if _is_measured(number, hidden) or (found and _LIST.fullmatch(_gap(hidden, number, found[-1]))):
            found.append(number)
    return found[::-1]


def _gap(text: str, one: Number, two: Number) -> str:
    return re.sub(r"\s+", " ", text[one.end : two.start])


def _is_measured(number: Number, text: str) -> bool:
    before = re.sub(r"\s+", " ", text[max(0, number.start - 30) : number.start])
    if number.percent:
        return not _LEVEL.match(number.after)
    if number.shown[0].isalpha():
        return True
    if _SETTING.search(before) and re.fullmatch(r"1e-\d+|\d\.\d|0\.01", number.shown):
        return False
    if re.fullmatch(r"(?:19|20)\d\d", number.shown) and not _UNIT.match(number.after):
        return False
    cell = re.search(r"\|\s$", before) and re.match(r"\s(?:\||\()", number.after)
    large = number.value >= 1000 or not re.fullmatch(r"\d+", number.shown)
    return bool(large or cell or _UNIT.match(number.after) or _SHARE.match(number.after))


# ---- the register ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Claim:
    """What is claimed, its words on the pages, the command that measures it, and the test or record that holds it."""

    id: str
    claim: str
    pages: list[str]
    quote: str | list[str]
    command: str
    test: str | list[str] = field(default_factory=list)
    held: str = ""  # how the test holds numbers that do not stand in it
    record: str = ""
    lines: str | list[str] = field(default_factory=list)
    unrecorded: str = ""  # why nothing holds it but the command; a test lists these


@dataclass(frozen=True, slots=True)
class Stated:
    """Numbers of a page that nobody measured, with the reason, or the constants of the code that they are."""

    page: str
    quote: str | list[str]
    why: str
    constants: str | list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Made:
    """A page that one command writes, or the sections of it that are marked so.

    ``by_hand``: what ``command`` says was done once, outside the repository, and why no command here can repeat it.
    """

    id: str
    claim: str
    page: str
    command: str
    sections: bool = False
    test: str | list[str] = field(default_factory=list)
    by_hand: str = ""


def listed(value: str | list[str]) -> list[str]:
    """One or several."""
    return [value] if isinstance(value, str) else value


class Register:
    """The entries and the pages of one checkout; ``wrong`` tells what does not hold, and each line says where."""

    def __init__(self, root: Path = ROOT, text: str | None = None) -> None:
        """Read all of it; a wrong name of a field is an error."""
        self.root = root
        read = dict(_tables(text or (root / REGISTER).read_text(encoding="utf-8")))
        self.claims = [Claim(**entry) for entry in read.pop("claim", [])]
        self.stated = [Stated(**entry) for entry in read.pop("stated", [])]
        self.made = [Made(**entry) for entry in read.pop("made", [])]
        assert not read, f"unknown tables {sorted(read)}"

    @cached_property
    def pages(self) -> dict[str, str]:
        """The texts of all pages that state things."""
        names = ["README.md", "SECURITY.md", "CONTRIBUTING.md"]
        names += sorted(f"docs/{path.name}" for path in (self.root / "docs").glob("*.md"))
        return {name: (self.root / name).read_text(encoding="utf-8") for name in names}

    def wrong(self) -> list[str]:
        """Everything."""
        found = [*self.uncovered(), *self.misquoted(), *self.unmade()]
        entries = [*self.claims, *self.made]
        ids = [entry.id for entry in entries]
        found += [f"{name}: the id is used twice" for name in sorted({i for i in ids if ids.count(i) > 1})]
        for entry in entries:
            if not getattr(entry, "by_hand", ""):
                found += [f"{entry.id}: {fault}" for fault in command_faults(entry.command, self.root)]
            found += [f"{entry.id}: {fault}" for t in listed(entry.test) for fault in faults_of_test(t, self.root)]
        for claim in self.claims:
            found += [f"{claim.id}: {fault}" for fault in self.unheld(claim)]
        for stated in self.stated:
            found += [f"{stated.page}, stated: {fault}" for fault in self.untrue(stated)]
        return found

    # ---- pages ----

    def uncovered(self) -> Iterator[str]:
        """Measured numbers without an entry."""
        whole = {made.page for made in self.made if not made.sections}
        for name, text in self.pages.items():
            covers = [span for quote in self._quotes(name) for span in spans(quote, text)]
            for number in _measured(text) if name not in whole else []:
                if not any(start <= number.start < end for start, end in covers):
                    line = text.count("\n", 0, number.start) + 1
                    words = " ".join(text[max(0, number.start - 40) : number.end + 30].split())
                    yield f"{name}:{line}: {number.shown} has no entry in {REGISTER}: ... {words} ..."

    def _quotes(self, page: str) -> list[str]:
        claimed = [q for c in self.claims if page in c.pages for q in listed(c.quote)]
        return claimed + [q for s in self.stated if s.page == page for q in listed(s.quote)]

    def misquoted(self) -> Iterator[str]:
        """Entries whose words are not on their page, or hold no number that needs one."""
        places = [(c.id, page, q) for c in self.claims for page in c.pages for q in listed(c.quote)]
        places += [(f"{s.page}, stated", s.page, q) for s in self.stated for q in listed(s.quote)]
        for name, page, quote in places:
            if not spans(quote, self.pages.get(page, "")):
                yield f"{name}: {page} does not say: {quote}"
            elif not self._numbers(page, quote):
                yield f"{name}: no measured number in: {quote}"

    def _numbers(self, page: str, quote: str) -> list[Number]:
        text = self.pages.get(page, "")
        found = spans(quote, text)[:1]
        return [n for start, end in found for n in _measured(text) if start <= n.start < end]

    def unmade(self) -> Iterator[str]:
        """Pages or sections that are said to be made by a command, on one side only."""
        for name, text in self.pages.items():
            marked = set(made_sections(text))
            entered = {m.command for m in self.made if m.page == name and m.sections}
            yield from (f"{name}: a section made by {c!r} has no entry in {REGISTER}" for c in sorted(marked - entered))
            yield from (f"{name}: no section is marked as made by {c!r}" for c in sorted(entered - marked))
            if len(re.findall(r"^<!-- made by: ", text, re.MULTILINE)) != len(made_sections(text)):
                yield f"{name}: a section that a command makes does not end with <!-- end -->"
        for made in self.made:
            if not (self.root / made.page).exists():
                yield f"{made.id}: there is no page {made.page}"

    # ---- what holds a claim ----

    def unheld(self, claim: Claim) -> Iterator[str]:
        """Numbers of a claim that stand neither in its record nor in its test."""
        if sum(map(bool, (claim.record, claim.test, claim.unrecorded))) != 1:
            yield "a claim has either a record or a test"
        elif not (claim.held or claim.unrecorded):
            yield from self._missing(claim)

    def _missing(self, claim: Claim) -> Iterator[str]:
        if claim.record and not claim.lines:
            yield "a record needs the lines on which the numbers stand"
        known = list(self._recorded(claim)) if claim.record else self._tested(claim)
        if not known:
            yield f"nothing in {claim.record or claim.test} matches"
        for page, quote in ((p, q) for p in claim.pages for q in listed(claim.quote)):
            for number in self._numbers(page, quote):
                if not any(number.rounds(value) for value in known):
                    where = claim.record or ", ".join(listed(claim.test))
                    yield f"{number.shown} does not stand in {where}"

    def _recorded(self, claim: Claim) -> Iterator[float]:
        path = self.root / claim.record
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        for pattern in listed(claim.lines):
            for line in lines:
                if re.search(pattern, line):
                    yield from (number.value for number in numbers(_spaced(line)))

    def _tested(self, claim: Claim) -> list[float]:
        source = "\n".join(filter(None, (source_of(test, self.root) for test in listed(claim.test))))
        return [float(text.replace("_", "")) for text in re.findall(r"(?<![\w.])\d[\d_]*\.?\d*(?:e-?\d+)?", source)]

    def untrue(self, stated: Stated) -> Iterator[str]:
        """Numbers that should be constants of the code and are not."""
        if not stated.why:
            yield "no reason is given"
        values = []
        for name in listed(stated.constants):
            try:
                values.append(float(constant(name)))
            except (ImportError, AttributeError):
                yield f"no such constant: {name}"
        for number in (n for q in listed(stated.quote) for n in self._numbers(stated.page, q) if values):
            if not any(abs(value / number.scale - number.value) <= number.half_a_digit for value in values):
                yield f"{number.shown}{number.after[:8]} is none of {stated.constants}"


@cache
def _tables(text: str) -> dict[str, Any]:
    return tomllib.loads(text)


@cache
def _measured(text: str) -> list[Number]:
    return measured(text)


def _spaced(line: str) -> str:
    """Records are made by programs, which write 0.28x and k=4."""
    return re.sub(r"(?<=\d)(?=x\b)|(?<==)(?=\d)", " ", line)


@cache
def spans(quote: str, text: str) -> list[tuple[int, int]]:
    """Where words stand in a text, however its lines are broken."""
    return [found.span() for found in _anywhere(quote).finditer(text)] if quote.split() else []


@cache
def _anywhere(quote: str) -> re.Pattern[str]:
    return re.compile(r"\s+".join(re.escape(word) for word in quote.split()))


# ---- commands, tests and constants exist -----------------------------------------------------------------------------


def command_faults(command: str, root: Path = ROOT) -> Iterator[str]:
    """A target of make, a command of sfumato, or a script of ours."""
    match shlex.split(command):
        case ["make", target, *_]:
            if not re.search(rf"^{re.escape(target)}:", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE):
                yield f"no target of make: {command}"
        case ["sfumato", *words]:
            yield from _parsed(words)
        case ["python", script, *_]:
            if not (root / script).is_file():
                yield f"no such script: {command}"
        case _:
            yield f"not a target of make, a command of sfumato or a script: {command}"


def _parsed(words: list[str]) -> Iterator[str]:
    from sfumato.cli import parser_of  # noqa: PLC0415

    try:
        parser_of().parse_args(words)
    except SystemExit:
        yield f"no command: sfumato {' '.join(words)}"


def source_of(test: str, root: Path = ROOT) -> str | None:
    """The text of a test with its decorators, if there is one."""
    file, _, name = test.partition("::")
    path = root / file
    if not (path.is_file() and path.name.startswith("test_") and name.startswith("test")):
        return None
    text = path.read_text(encoding="utf-8")
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            return "\n".join(text.splitlines()[first - 1 : node.end_lineno])
    return None


def faults_of_test(test: str, root: Path = ROOT) -> Iterator[str]:
    """What is no test that pytest would find."""
    if source_of(test, root) is None:
        yield f"no such test: {test}"


def constant(name: str) -> Any:
    """A constant of the code, by module:NAME."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)
