"""Cards: what a notebook shows of a schema, a plan, a release or an estimate. Every text is escaped.

A card shows what is declared, planned or released, so it costs no privacy; ``budget_cards`` has those of ledgers.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from sfumato.fileformat import kinds, plain_words
from sfumato.fileformat.manifest import Manifest
from sfumato.fileformat.owners import composed_words
from sfumato.intervals.estimate import HIDDEN, Estimate
from sfumato.notebook import budget_cards
from sfumato.notebook.frame import facts, framed, lines, listed
from sfumato.projection.space import Space
from sfumato.releases.release import Release
from sfumato.releases.table import TableRelease
from sfumato.report import column_words, words
from sfumato.report.html import Markup, tag
from sfumato.report.numbers import number
from sfumato.tables.schema import Schema

_COLUMNS, _ROWS, _ESTIMATES = 60, 5, 20  # that a card shows
_WIDE = 10  # columns of synthetic rows


def card(value: Any) -> Markup:
    """The card of a value of this package."""
    names = [each.__name__ for each in type(value).__mro__]
    return next(_CARDS[name] for name in names if name in _CARDS)(value)


def schema_card(schema: Schema) -> Markup:
    """The columns of a schema and what they may hold."""
    title = f"Schema of {len(schema.columns):,} columns"
    if schema.open_patterns:
        return framed(title, tag("pre", schema.to_toml()))
    declared = schema.to_dict()
    rows = [
        (c["name"], c["kind"], column_words.may_be(c), "" if c["kind"] == "id" else number(c.get("weight", 1.0)))
        for c in declared["columns"][:_COLUMNS]
    ]
    more = len(declared["columns"]) - _COLUMNS
    said = [f"{more:,} more columns are not shown."] if more > 0 else []
    if schema.bounds_from_data:
        said.append("Bounds were taken from the data, which no guarantee covers.")
    return framed(title, listed(("column", "kind", "may be", "weight"), rows), *lines(said, "quiet"))


def space_card(space: Space) -> Markup:
    """A shared space: its projection, its digest, and the columns of its schema."""
    pairs = [(key, str(value)) for key, value in (space.facts | {"digest": space.digest}).items()]
    return framed("Shared space", facts(pairs), schema_card(space.schema))


def joined_card(joined: Any) -> Markup:
    """Sketches of several owners, joined, as ``describe`` tells it."""
    title, *told = joined.describe().splitlines()
    return framed(title, tag("pre", "\n".join(told)))


def plan_card(plan: Any) -> Markup:
    """A plan as ``describe`` tells it."""
    title, *told = plan.describe().splitlines()
    return framed(f"Plan: {title}", tag("pre", "\n".join(told)))


def table_plan_card(plan: Any) -> Markup:
    """The plan of a synthetic table: the verdict first, then its facts and advice."""
    title = f"Plan: {plan.describe().splitlines()[0]}"
    return framed(title, tag("p", tag("b", plan.verdict)), facts(plan.facts.items()), *lines(plan.advice, "quiet"))


def release_card(release: Release) -> Markup:
    """What a release is and promises; of a synthetic table some rows too, which are as public as all of it."""
    manifest, promise = release.manifest, release.guarantee
    pairs = [
        ("guarantee", f"epsilon {number(promise.epsilon, 6)}, delta {number(promise.delta, 6)}, unit {promise.unit}"),
        ("neighbours", {"replace": "one replaced", "add-remove": "one added or removed"}[promise.neighbours]),
        ("budget", "charged" if manifest["accounted"] else "not charged to a ledger"),
        *([("space", manifest["space"]["digest"])] if "space" in manifest else []),
        *_also(manifest),
    ]
    warned = tag("ul", *(tag("li", line) for line in words.warnings(manifest)), class_="warn")
    hint = tag("p", "plot() draws it, save(path) writes it.", class_="quiet")
    rows = [_some_rows(release)] if isinstance(release, TableRelease) else []
    lead = tag("p", words.lead(manifest))
    promised = tag("p", plain_words.promise(manifest), class_="quiet")
    return framed(kinds.of(manifest).title, lead, facts(pairs), promised, warned, *rows, hint)


def _also(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """What a card says of a state of a stream, and of a sum of owners."""
    if "stream" in manifest:
        told = manifest["stream"]
        yield "stream", f"period {told['period']:,} of {told['horizon']:,}; the guarantee is for all of them together"
    if "owners" in manifest:
        lost = f"somebody who is with all of them loses up to {composed_words(manifest)}"
        yield "owners", f"{len(manifest['owners']):,}; {lost}"


def _some_rows(release: TableRelease) -> Markup:
    """The first synthetic rows of a release."""
    names = release.names[:_WIDE]
    rows = release.table().select(names).slice(0, _ROWS).to_pylist()
    cells = [["" if cell is None else str(cell) for cell in row.values()] for row in rows]
    shown = "" if len(names) == len(release.names) else f", {len(names)} of {len(release.names):,} columns"
    said = f"The first synthetic rows{shown}. None is a person."
    return tag("div", listed(names, cells), tag("p", said, class_="quiet"))


def estimate_card(estimate: Estimate) -> Markup:
    """An estimate with its error and its 95% interval; of many, the first ones."""
    values, errors = np.ravel(estimate.value), np.ravel(estimate.standard_error)
    errors = np.broadcast_to(errors, values.shape)
    shown = min(len(values), _ESTIMATES)
    ends = (
        [np.broadcast_to(np.ravel(end), values.shape) for end in estimate.interval(0.95)]
        if shown == len(values)
        else []
    )
    kind = "95% credible interval" if estimate.kind == "credible" else "95% interval"
    head = ["estimate", "standard error", *([kind] if ends else [])]
    rows = [
        [
            number(values[i], 6),
            number(errors[i], 3),
            *([f"{number(ends[0][i], 6)} to {number(ends[1][i], 6)}"] if ends else []),
        ]
        for i in range(shown)
    ]
    return framed(
        "Estimate" if shown == 1 else f"{len(values):,} estimates", listed(head, rows), *_below(estimate, ends)
    )


def _below(estimate: Estimate, ends: list[Any]) -> Iterator[Markup]:
    """What is said below the numbers of an estimate."""
    if ends and estimate.quantity.filled_by(*ends):
        yield tag("p", HIDDEN, class_="warn")
    unit = f"Unit: {estimate.unit}. " if estimate.unit else ""
    more = "" if ends else f" The first {_ESTIMATES} are shown; interval() has the intervals."
    yield tag("p", f"{unit}Error sources: {estimate.covers}.{more}", class_="quiet")


_CARDS: dict[str, Callable[[Any], Markup]] = {
    "Schema": schema_card,
    "Space": space_card,
    "JoinedSketches": joined_card,
    "Plan": plan_card,
    "StreamPlan": plan_card,
    "TablePlan": table_plan_card,
    "Release": release_card,
    "Estimate": estimate_card,
    "Price": budget_cards.price_card,
    "Quote": lambda quote: budget_cards.price_card([quote]),
    "Standing": budget_cards.standing_card,
    "Account": lambda account: budget_cards.standing_card(account.dataset),
    "Ledger": budget_cards.ledger_card,
}
