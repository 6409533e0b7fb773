"""Records as commands name them: 17 of one release, b:17 of several, where b is the owner's name."""

import argparse
from typing import Any, NamedTuple

from sfumato.commands.console.estimates import method_of


class RecordName(NamedTuple):
    """A record as the command line names it; without an owner where there is one release."""

    owner: str | None
    number: int

    def __str__(self) -> str:
        return f"{self.number}" if self.owner is None else f"{self.owner}:{self.number}"


def record_name(text: str) -> RecordName:
    """A record out of a word of the command line: 17, or b:17."""
    owner, colon, number = text.rpartition(":")
    try:
        return RecordName(owner if colon else None, int(number))
    except ValueError:
        raise argparse.ArgumentTypeError(f"a record is a number from 0, or OWNER:NUMBER, got {text!r}") from None


def add_releases(parser: argparse.ArgumentParser) -> None:
    """The option for the release that a command reads, or for several of one shared space."""
    parser.add_argument(
        "release",
        nargs="+",
        metavar="RELEASE",
        help="Release folder; or several sketches of one shared space, each called by its stem or as NAME=FOLDER.",
    )


def add_record(parser: argparse.ArgumentParser, name: str, which: str) -> None:
    """The option for a record that a command is asked about."""
    text = f"Number of {which}, from 0; OWNER:NUMBER where there are several releases."
    parser.add_argument(name, type=record_name, metavar="RECORD", help=text)


def joined_of(options: Any) -> Any:
    """Several releases joined, as the command line names them."""
    from sfumato.owners.joined import join
    from sfumato.report.extreme import check_computable

    joined = join(_named(options.release))
    for one in joined.held:
        check_computable(one.release)
    return joined


class AskedRecords:
    """What answers a question about records: the method of one release, or of several joined; and records for it."""

    def __init__(self, options: Any, question: str) -> None:
        self.joined: Any = None
        if len(options.release) == 1:
            (options.release,) = options.release
            self.ask = method_of(options, question)
            return
        self.joined = joined_of(options)
        self.ask = getattr(self.joined, question)

    def place(self, record: RecordName) -> int:
        """A record's number in the one release, or its position among those of all owners."""
        from sfumato.errors import ParameterError

        if self.joined is None:
            if record.owner is not None:
                raise ParameterError(f"{record}: there is one release, so a record is a number from 0")
            return record.number
        if record.owner is None:
            owners = self.joined.owners
            raise ParameterError(f"{record}: say whose record it is, such as {owners[0]}:{record.number}")
        return int(self.joined.at(record.owner, record.number))

    def names(self, indices: Any) -> list[RecordName]:
        """Records by number or position, as the command line names them."""
        if self.joined is None:
            return [RecordName(None, int(index)) for index in indices]
        owners, numbers = self.joined.owner_of(indices), self.joined.record_of(indices)
        return [RecordName(owner, int(number)) for owner, number in zip(owners, numbers, strict=True)]


def _named(words: list[str]) -> dict[str, str] | list[str]:
    """Releases of several owners: as they are, or with the names that some of them have before an equals sign."""
    from pathlib import Path

    from sfumato.errors import ParameterError

    split = [("", "", word) if Path(word).exists() else word.rpartition("=") for word in words]
    if not any(name for name, _, _ in split):
        return words
    named = [(name or Path(path).stem, path) for name, _, path in split]
    if len({name for name, _ in named}) < len(named):
        raise ParameterError("two releases have the same name: give each its own, as in north=FOLDER south=FOLDER")
    return dict(named)
