"""Cards of budgets: what a notebook shows of a ledger, an account, a dataset and a price."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sfumato.notebook.frame import framed, listed
from sfumato.report.html import Markup, join, tag
from sfumato.report.numbers import number
from sfumato.report.svg import gauge

if TYPE_CHECKING:
    from sfumato.ledger.ledger import Ledger
    from sfumato.ledger.state import Quote, Spent, Standing

_RELEASES = 20  # the last ones


def price_card(quotes: "Sequence[Quote]") -> Markup:
    """What a release would cost, cap by cap."""
    parts = []
    for quote in quotes:
        whole = quote.cap.guarantee.epsilon
        taken = _share(quote.after.epsilon, whole), _share(quote.before.epsilon, whole)
        bar = gauge([(taken[0], "asked"), (taken[1], "spent")], "what would be spent of the cap, and what is spent")
        charged = f", charged {quote.times} times" if quote.times > 1 else ""
        told = f"Spent: epsilon {_epsilon(quote.before.epsilon)}. After this release: {_epsilon(quote.after.epsilon)}"
        verdict = "Within the cap." if quote.fits else "It does not fit: it would be refused."
        parts.append(join(tag("p", f"Cap: {quote.cap.describe()}"), bar, tag("p", f"{told}{charged}. {verdict}")))
    return framed("Price", *parts)


def ledger_card(ledger: "Ledger") -> Markup:
    """All datasets of a ledger."""
    found = ledger.datasets()
    nothing = tag("p", "There is no dataset in it yet: add_dataset(name, cap) enters one.")
    return framed("Ledger", *(join(*_dataset(dataset)) for dataset in found), *([] if found else [nothing]))


def standing_card(dataset: "Standing") -> Markup:
    """One dataset of a ledger: its caps, what was spent of them, and its releases if they are known here."""
    _, *parts = _dataset(dataset)
    return framed(f"Budget of {dataset.name}", *parts)


def _dataset(dataset: "Standing") -> Iterator[Markup]:
    yield tag("h5", dataset.name)
    for place, cap in enumerate(dataset.caps):
        spent, whole = dataset.total(place).epsilon, cap.guarantee.epsilon
        bar = gauge([(_share(spent, whole), "spent")], "what is spent of the cap")
        left = f"Spent: epsilon {_epsilon(spent)} of {number(whole, 6)}. Left for a pure release: "
        yield join(tag("p", f"Cap: {cap.describe()}"), bar, tag("p", f"{left}{number(dataset.remaining(place), 6)}."))
    releases: tuple[Spent, ...] = getattr(dataset, "releases", ())
    if releases:
        head = ("entry", "time (UTC)", "mechanism", "epsilon", "delta", "state")
        yield listed(head, (_row(spent) for spent in releases[-_RELEASES:]))
    if len(releases) > _RELEASES:
        yield tag("p", f"{len(releases) - _RELEASES:,} earlier releases are not shown.", class_="quiet")


def _row(spent: "Spent") -> tuple[object, ...]:
    promise, at = spent.guarantee, spent.at[:19].replace("T", " ")
    return (spent.number, at, spent.mechanism, number(promise.epsilon, 6), number(promise.delta, 6), spent.state)


def _share(epsilon: float, whole: float) -> float:
    return min(1.0, epsilon / whole) if epsilon < math.inf else 1.0


def _epsilon(value: float) -> str:
    return number(value, 4)
