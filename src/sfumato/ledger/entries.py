"""Entries of a ledger, and the chain of hashes that ties each to the one before it."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

VERSION = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the journal. ``body`` is JSON."""

    number: int
    at: str
    dataset: str
    kind: str
    body: dict[str, Any]
    hash: str


class BrokenChainError(ValueError):
    """Stored entries that are not what was written; the words say which."""


def canonical(body: dict[str, Any]) -> str:
    """The one spelling of a JSON object that a ledger stores and hashes."""
    return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)


def parsed(text: object) -> dict[str, Any]:
    """A JSON object from its one spelling; raises ValueError for anything else."""
    found = json.loads(text) if isinstance(text, str) else None  # a page of zeros has neither text nor number
    if not isinstance(found, dict) or canonical(found) != text:
        raise ValueError
    return found


def sealed(last: str, number: int, at: str, what: tuple[str, str], body: dict[str, Any]) -> Entry:
    """An entry with its hash, which covers the hash of the one before it."""
    sealed_ = json.dumps([last, number, at, *what, canonical(body)])
    return Entry(number, at, what[0], what[1], body, hashlib.sha256(sealed_.encode()).hexdigest())


def first_hash(key: str) -> str:
    """What stands for the hash before the first entry: it names the ledger by its key."""
    return hashlib.sha256(f"sfumato ledger {VERSION} {key}".encode()).hexdigest()


def checked(row: Any, number: int, last: str) -> Entry:
    """A stored row as the entry of this number, after one of this hash; raises BrokenChainError if it is another."""
    if row.number != number:
        raise BrokenChainError(f"entry {number} is missing")
    try:
        body = parsed(row.body)
    except ValueError:
        raise BrokenChainError(f"entry {number} is no JSON object") from None
    try:
        entry = sealed(last, number, row.at, (row.dataset, row.kind), body)
    except TypeError:  # bytes in the place of a text
        entry = None
    if entry is None or entry.hash != row.hash:
        raise BrokenChainError(f"entry {number} is not what was written, or not in its place")
    return entry


def chained(rows: Iterable[Any], number: int, last: str) -> Iterator[Entry]:
    """The entries after one of this number and hash, each checked against the hash before it."""
    for row in rows:
        number += 1
        entry = checked(row, number, last)
        last = entry.hash
        yield entry
