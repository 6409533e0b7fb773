"""The frame of everything that a notebook shows: one element with a style of its own, which reaches nothing else."""

from collections.abc import Iterable, Sequence

from sfumato.report import svg
from sfumato.report.html import Markup, tag

_CLASS = "sfumato-view"
_STYLE = """
background: var(--ground); color: var(--text); padding: .75rem 1rem; max-width: 68rem; text-align: left;
overflow-x: auto; line-height: 1.45;
h4 { margin: 0 0 .5rem; font-size: 1rem; } h5 { margin: 0 0 .25rem; font-size: .95rem; }
p { margin: .35rem 0; } .quiet { color: var(--quiet); } .warn { color: var(--warn); } ul { margin: .35rem 0; }
table { border-collapse: collapse; margin: .35rem 0; }
th, td { text-align: left; vertical-align: top; padding: .15rem 1rem .15rem 0; font-size: .9rem; }
thead th { border-bottom: 1px solid var(--line); } pre { white-space: pre-wrap; font-size: .85rem; }
td.number { text-align: right; } figure { margin: 0; } figcaption { color: var(--quiet); font-size: .85rem; }
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: 1.25rem 2rem; }
"""


def framed(title: str, *parts: object) -> Markup:
    """Parts under a title, as one element of HTML for a notebook. Its style is nested, so that it reaches no other."""
    style = svg.style().replace(":root", "&") + _STYLE
    return tag("div", tag("style", Markup(f".{_CLASS} {{ {style} }}")), tag("h4", title), *parts, class_=_CLASS)


def listed(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Markup:
    """A table for a notebook: a line of names, and rows of cells."""
    names = tag("tr", *(tag("th", name, scope="col") for name in head))
    body = (tag("tr", *(tag("td", cell) for cell in row)) for row in rows)
    return tag("table", tag("thead", names), tag("tbody", *body))


def facts(pairs: Iterable[tuple[str, object]]) -> Markup:
    """Facts for a notebook, each with its name before it."""
    rows = (tag("tr", tag("th", name, scope="row"), tag("td", value)) for name, value in pairs)
    return tag("table", tag("tbody", *rows))


def lines(texts: Iterable[str], kind: str | None = None) -> list[Markup]:
    """Sentences for a notebook, one paragraph each."""
    return [tag("p", text, class_=kind) for text in texts]
