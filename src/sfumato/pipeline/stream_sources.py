"""The files that the periods of a stream are read from: the same one is not taken twice, and none is empty by mistake.

A stream keeps no rows, so it cannot know a person again; it does know a file again, by what ``origins`` finds in it.
Somebody whose rows are appended twice has moved the stream twice, which a guarantee of group 1 does not cover.

Privacy: fingerprints of files depend on cells. They stay in the file of the stream, which is secret as they are.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sfumato import untrusted
from sfumato.errors import ParameterError, StreamError
from sfumato.files.table_file import TableFile
from sfumato.ledger.sources import Origin
from sfumato.pipeline.release import source_of
from sfumato.privacy.guarantee import Guarantee
from sfumato.streams.description import StreamDescription
from sfumato.streams.store import Transaction

_CONTENT = "content "  # a path may get other rows every day, and an inode another file


def fingerprints(about: StreamDescription, data: Any, leaving: Any) -> tuple[str, ...]:
    """What the files of a period are known by later in their stream: rows that come, and rows that leave.

    Files without rows are all alike, so they are not for this.
    """
    told = [f"{what} {mark}" for what, one in (("in", data), ("out", leaving)) for mark in _contents(one)]
    key = about.name.encode()
    return tuple(sorted({hashlib.blake2b(text.encode(), digest_size=16, key=key).hexdigest() for text in told}))


def _contents(data: Any) -> list[str]:
    return [] if data is None else [mark for mark in source_of(data).marks if mark.startswith(_CONTENT)]


def check_first(stream: Transaction, data: Any, leaving: Any, *, again: bool) -> None:
    """Refuse a file that a stream was appended before, before it is read; ``again``: people have rows in both."""
    about = stream.description
    group = about.measuring.guarantee.group
    if again and group > 1:
        return
    for what, one in (("appended", (data, None)), ("subtracted", (None, leaving))):
        known = stream.read_from(fingerprints(about, *one))
        if known is None:
            continue
        told = f"{_name(data if what == 'appended' else leaving)} was {what} as {untrusted.line(known.label)!r} already"
        if group == 1:
            raise StreamError(f"{told}: a row may be in one period only with group 1")
        raise StreamError(
            f"{told}: say --again (again=True) if its people are to have rows in both periods, which count towards the "
            f"{group} rows of each"
        )


def check_rows(about: StreamDescription, data: Any, rows: int, *, empty: bool) -> None:
    """Refuse a period without rows where their number is public; where it is protected, it is as any other."""
    if about.counted and rows == 0 and not empty:
        raise StreamError(
            f"{_name(data)} has no rows, and a period cannot be taken back: nothing was drawn; say --empty "
            "(empty=True) if nothing came in this period"
        )


def check_leaving(guarantee: Guarantee) -> None:
    """Refuse rows that leave a stream where its unit does not protect that."""
    if guarantee.neighbours == "replace":
        raise ParameterError(
            "rows that leave are protected where records are added or removed: make the stream with "
            "neighbours='add-remove' and group=2 or more"
        )
    if guarantee.group < 2:
        raise ParameterError(
            "somebody who comes and leaves has two rows, an arrival and a departure: leaving needs a stream with "
            f"group=2 or more (3 for corrections), got group={guarantee.group}"
        )


def noted(origins: Sequence[Origin]) -> str:
    """What a ledger is to be told of the files of a period: the first is its place, the others are marks of it."""
    first, *others = origins
    others = [other for other in others if not other.in_memory]
    marks = [*first.marks, *(mark for other in others for mark in (other.place, *other.marks))]
    links = [*first.links, *(link for other in others for link in other.links)]
    return json.dumps([first.place, marks, links])


def _name(data: Any) -> str:
    place = data.path if isinstance(data, TableFile) else data
    return untrusted.line(Path(place).name) if isinstance(place, (str, Path)) else "the table"
