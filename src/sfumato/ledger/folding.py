"""The state of a ledger, folded from its entries one by one, each once; and a snapshot of it, to continue from.

A reservation that is committed or void leaves the state but for its cost, which is counted among equal ones. So what a
process keeps, and what a snapshot holds, grows with datasets, kinds of costs and open reservations, not with entries.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from sfumato.errors import LedgerError
from sfumato.ledger.entries import Entry, canonical
from sfumato.ledger.state import STEPS, Dataset, Pending, Standing, cap_json, cap_of, cost_of, releases_of

LEARNER = "SchemaLearning"  # the mechanism of a release that learns a schema
FORMAT = 1  # of snapshots: another one is left unread, and the entries are folded instead


@dataclass(frozen=True, slots=True)
class Folded:
    """What the entries of a ledger say up to one of this number and hash. A value: it never changes."""

    number: int
    hash: str
    datasets: Mapping[str, Standing] = field(default_factory=dict)

    def after(self, entries: Iterable[Entry], where: str) -> "Folded":
        """The state after further entries, which follow each other; refuses an entry that cannot be so."""
        number, last, own = self.number, self.hash, dict[str, Standing]()
        for entry in entries:
            try:
                self._fold(own, entry)
            except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
                if isinstance(error, LedgerError):
                    raise
                raise LedgerError(f"{where}: entry {entry.number} cannot be read; nothing was released") from None
            number, last = entry.number, entry.hash
        return Folded(number, last, {**self.datasets, **own})

    def standing(self, name: str, where: str) -> Standing:
        """How a dataset stands; refuses the name of none."""
        if name not in self.datasets:
            raise LedgerError(f"{where} has no dataset {name!r}: enter it with `sfumato ledger init`")
        return self.datasets[name]

    def pending(self, number: int) -> tuple[str, Pending] | None:
        """The reservation of this number, if it is neither committed nor void, and its dataset."""
        found = ((name, standing.pending.get(number)) for name, standing in self.datasets.items())
        return next(((name, one) for name, one in found if one is not None), None)

    def _fold(self, own: dict[str, Standing], entry: Entry) -> None:
        name = entry.dataset
        known = name in own or name in self.datasets
        if entry.kind == "dataset":
            if known:
                raise ValueError
            own[name] = Standing(name, entry.body, (cap_of(entry.body),), moved=entry.hash)
            return
        if name not in own:
            own[name] = _copied(self.datasets[name])
        _FOLDS[entry.kind](own[name], entry)


def _copied(standing: Standing) -> Standing:
    return replace(
        standing,
        costs={part: Counter(costs) for part, costs in standing.costs.items()},
        sources=Counter(standing.sources),
        marks={source: set(marks) for source, marks in standing.marks.items()},
        pending=dict(standing.pending),
        learned=set(standing.learned),
    )


def _cap(standing: Standing, entry: Entry) -> None:
    cap = cap_of(entry.body)
    places = [i for i, old in enumerate(standing.caps) if old.key == cap.key]
    caps = [cap if i in places else old for i, old in enumerate(standing.caps)] + ([] if places else [cap])
    standing.caps, standing.moved = tuple(caps), entry.hash


def _admit(standing: Standing, entry: Entry) -> None:
    body = entry.body
    standing.sources[body["schema"], body["source"]] += 1
    if "marks" in body:
        standing.marks.setdefault(body["source"], set()).update(body["marks"])


def _reserve(standing: Standing, entry: Entry) -> None:
    body = entry.body
    made = Pending(
        "reserved",
        entry.hash,
        cost_of(body),
        body["part"],
        body["schema"],
        body["source"],
        body["mechanism"] == LEARNER,
    )
    standing.pending[entry.number] = made
    standing.costs.setdefault(made.part, Counter())[made.cost] += 1
    _admit(standing, entry)
    standing.made, standing.moved = standing.made + 1, entry.hash


def _step(standing: Standing, entry: Entry) -> Pending:
    number = entry.body["reservation"]
    before, state = STEPS[entry.kind]
    found = standing.pending.get(number)
    if found is None or found.state != before:
        what = "no open reservation" if found is None else found.state
        raise LedgerError(f"entry {entry.number} of the ledger makes {state} what is {what}: it was tampered with")
    return found


def _draw(standing: Standing, entry: Entry) -> None:
    found, number = _step(standing, entry), entry.body["reservation"]
    standing.pending[number] = replace(found, state="drawn")
    if found.learner:
        standing.learned.add(number)


def _commit(standing: Standing, entry: Entry) -> None:
    _step(standing, entry)
    del standing.pending[entry.body["reservation"]]


def _void(standing: Standing, entry: Entry) -> None:
    """Give back what a reservation cost, and what it tied the dataset to: nothing of the data was read for it."""
    found = _step(standing, entry)
    del standing.pending[entry.body["reservation"]]
    _less(standing.costs[found.part], found.cost)
    if not standing.costs[found.part]:
        del standing.costs[found.part]
    _less(standing.sources, (found.schema, found.source))
    if not any(source == found.source for _, source in standing.sources):
        standing.marks.pop(found.source, None)
    standing.moved = entry.hash


def _less(counts: Counter[Any], key: object) -> None:
    counts[key] -= 1
    if counts[key] == 0:
        del counts[key]


_FOLDS = {"cap": _cap, "admit": _admit, "reserve": _reserve, "draw": _draw, "commit": _commit, "void": _void}


def datasets_of(entries: list[Entry], where: str) -> list[Dataset]:
    """Every dataset with all its releases, in the order they were entered, from all entries of a ledger."""
    folded = Folded(0, "").after(entries, where)
    releases = releases_of(entries)
    return [
        Dataset(**{f.name: getattr(s, f.name) for f in fields(s)}, releases=releases[name])
        for name, s in folded.datasets.items()
    ]


def to_text(folded: Folded) -> str:
    """The datasets of a state as one text, in one spelling for equal states."""
    return canonical({"format": FORMAT, "datasets": [_standing_json(s) for s in folded.datasets.values()]})


def from_text(text: str, number: int, last: str) -> Folded | None:
    """The inverse of ``to_text``; None for a format that this version does not know."""
    found = json.loads(text)
    if found["format"] != FORMAT:
        return None
    standings = [_standing(told) for told in found["datasets"]]
    return Folded(number, last, {standing.name: standing for standing in standings})


def _standing_json(standing: Standing) -> dict[str, Any]:
    return {
        "name": standing.name,
        "declared": standing.declared,
        "caps": [cap_json(cap) for cap in standing.caps],
        "costs": [[part, sorted(costs.items())] for part, costs in sorted(standing.costs.items(), key=_named)],
        "sources": [[*key, count] for key, count in sorted(standing.sources.items())],
        "marks": [[source, sorted(marks)] for source, marks in sorted(standing.marks.items())],
        "pending": [[number, asdict(one)] for number, one in sorted(standing.pending.items())],
        "learned": sorted(standing.learned),
        "made": standing.made,
        "moved": standing.moved,
    }


def _named(item: tuple[str | None, object]) -> tuple[bool, str]:
    """Costs of the whole come first, then those of parts by name."""
    return item[0] is not None, item[0] or ""


def _standing(told: dict[str, Any]) -> Standing:
    return Standing(
        told["name"],
        told["declared"],
        tuple(map(cap_of, told["caps"])),
        {part: Counter(dict(costs)) for part, costs in told["costs"]},
        Counter({(schema, source): count for schema, source, count in told["sources"]}),
        {source: set(marks) for source, marks in told["marks"]},
        {number: Pending(**one) for number, one in told["pending"]},
        set(told["learned"]),
        told["made"],
        told["moved"],
    )
