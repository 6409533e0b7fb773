"""What a ledger says of a budget, in words and as facts: caps, their shares, what was spent, and prices."""

import math
from typing import TYPE_CHECKING, Any

from sfumato import untrusted
from sfumato.commands.console.options import finite

if TYPE_CHECKING:
    from sfumato.ledger.state import Dataset, Quote
    from sfumato.privacy.cap_shares import CapShares

_BAR = 40
_NAMES = {"pure": "sum of epsilons", "gaussian": "Gaussian noise", "programme": "programme"}


def described(dataset: "Dataset") -> str:
    """A dataset of a ledger in words: caps, what was spent of them, and every release."""
    from sfumato.ledger.division import division_words

    lines = [f"{dataset.name} ({dataset.composition} composition)"]
    for place, cap in enumerate(dataset.caps):
        spent, whole = dataset.total(place), cap.guarantee.epsilon
        filled = min(_BAR, math.ceil(_BAR * spent.epsilon / whole)) if spent.epsilon < math.inf else _BAR
        bar = f"[{'#' * filled}{'.' * (_BAR - filled)}]"
        lines += [
            f"  Cap:    {cap.describe()}",
            *(f"  {line}" for line in division_words(dataset, place)),
            f"  Spent:  epsilon {spent.epsilon:.4g} ({_spent_by(dataset, place)})  {bar}",
            f"  Left:   epsilon {dataset.remaining(place):g} (pure)",
        ]
    lines += _planned(dataset)
    if dataset.releases:
        lines += [
            "",
            f"  {'no.':>4}  {'time (UTC)':19}  {'mechanism':18} {'epsilon':>8} {'delta':>8}  {'total':>8}  state",
        ]
    for s in dataset.releases:
        total, part = s.totals[0].epsilon, f", part {s.part}" if s.part is not None else ""
        lines.append(
            f"  {s.number:>4}  {s.at[:19].replace('T', ' ')}  {s.mechanism:18} {s.guarantee.epsilon:>8g} "
            f"{s.guarantee.delta:>8g}  {total:>8.4g}  {s.state}{part}{'; ' if s.outside else ''}{'; '.join(s.outside)}"
        )
    return "\n".join(map(untrusted.line, lines))


def _spent_by(dataset: "Dataset", place: int) -> str:
    """The bound behind what was spent, or under a filter the shares that it was spent from."""
    from sfumato.privacy.filters import DividedBook

    delta = dataset.caps[place].guarantee.delta
    book = max(dataset.books(place), key=lambda book: book.total(delta).epsilon)
    if not isinstance(book, DividedBook):
        return dataset.total(place).bound
    parts = {_NAMES[share]: epsilon for share, epsilon in book.parts(delta).items()}
    if len(parts) < 2:
        return next(iter(parts), dataset.composition)
    return " + ".join(f"{name} {epsilon:.4g}" for name, epsilon in parts.items())


def _planned(dataset: "Dataset") -> list[str]:
    """The lines of a programme, and how often each was used, in the part that used it most."""
    from sfumato.privacy.filters import DividedBook

    if dataset.programme is None:
        return []
    books = [book for book in dataset.books(0) if isinstance(book, DividedBook)]
    lines = ["", f"  {'planned':8} {'epsilon':>8} {'delta':>8}  {'made':>9}  mechanism"]
    for number, item in enumerate(dataset.programme.planned):
        made = f"{max(book.of(number).total() for book in books)} of {item.count}"
        lines.append(f"  {item.law:8} {item.epsilon:>8g} {item.delta:>8g}  {made:>9}  {item.mechanism or 'any'}")
    return lines


def facts(dataset: "Dataset") -> dict[str, Any]:
    """A dataset of a ledger for --json."""
    totals = [dataset.total(place) for place in range(len(dataset.caps))]
    return {
        "name": dataset.name,
        "composition": dataset.composition,
        "programme": None if dataset.programme is None else dataset.programme.to_json(),
        "caps": [
            cap.guarantee.to_dict()
            | {"spent": finite(total.epsilon), "bound": total.bound, "remaining": dataset.remaining(place)}
            | {"shares": _shares_json(dataset.shares(place))}
            for place, (cap, total) in enumerate(zip(dataset.caps, totals, strict=True))
        ],
        "releases": [
            {"number": s.number, "at": s.at, "mechanism": s.mechanism, "guarantee": s.guarantee.to_dict()}
            | {
                "part": s.part,
                "state": s.state,
                "note": s.note,
                "total": [finite(t.epsilon) for t in s.totals],
                "outside": s.outside,
            }
            for s in dataset.releases
        ],
    }


def _shares_json(shares: "CapShares | None") -> dict[str, Any] | None:
    return None if shares is None else shares.to_json()


def described_price(quotes: "list[Quote]", what: str) -> list[str]:
    """What releases or answers would cost of each cap in the ledger, in words."""
    return [
        f"Cap: {q.cap.describe()}\n"
        f"  Spent: epsilon {q.before.epsilon:.4g}. After {what}: epsilon {q.after.epsilon:.4g} "
        f"({_charged_to(q)}{f', charged {q.times} times' if q.times > 1 else ''}). "
        f"{_verdict(q)}"
        for q in quotes
    ]


def _verdict(quote: "Quote") -> str:
    """Whether a price is within the cap, and how a filter divides it, if that decides."""
    if quote.fits:
        return "Within the cap."
    if quote.shares is None or quote.after.epsilon > quote.cap.guarantee.epsilon:
        return "EXCEEDS THE CAP."
    promise = quote.cap.guarantee
    return f"EXCEEDS ITS SHARE OF THE CAP: {quote.shares.describe(promise.epsilon, promise.delta)}."


def _charged_to(quote: "Quote") -> str:
    """The composition that a price is by, or the share of a filter that it is charged to."""
    if isinstance(quote.share, int):
        return f"line {quote.share + 1} of the programme"
    return f"{quote.after.bound} composition" if quote.share is None else _NAMES[quote.share]


def price_facts(quotes: "list[Quote]") -> list[dict[str, Any]]:
    """What releases or answers would cost of each cap in the ledger, for --json."""
    return [
        {"cap": q.cap.describe(), "before": finite(q.before.epsilon), "after": finite(q.after.epsilon)}
        | {"bound": q.after.bound, "fits": q.fits, "times": q.times}
        | {"share": q.share, "shares": _shares_json(q.shares)}
        for q in quotes
    ]
