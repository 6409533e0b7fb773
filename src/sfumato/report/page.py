"""A report that travels with a release: one HTML file that needs nothing else.

It shows the release, and the state of a ledger where one is given, and nothing besides: no time, no path, no machine.
All that it shows is post-processing, so it costs no privacy. Texts of the release are escaped; the one script is
allowed by its digest, and the page may load nothing.
"""

import base64
import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sfumato.fileformat import kinds, plain_words
from sfumato.releases.table import TableRelease
from sfumato.report import column_words, error_plots, scenes, svg, table_scenes, words
from sfumato.report.extreme import drawable
from sfumato.report.html import Markup, data_block, document, join, packaged, tag
from sfumato.report.numbers import number

if TYPE_CHECKING:
    from sfumato.ledger.state import Dataset
    from sfumato.releases.release import AnyRelease
    from sfumato.report.svg import Plot


def page(release: "AnyRelease", *, ledger: "Dataset | None" = None) -> str:
    """The report of a release of any kind as one HTML page; with ``ledger``, of the state of its budget too."""
    release, extreme = drawable(release)
    plot = error_plots.plot(release)
    script = packaged("report.js")
    data = data_block("plots", {} if plot is None else {"errors": plot.probe()})
    body = tag("main", *_sections(release, plot, extreme, ledger), _foot(release))
    title = f"{kinds.of(release.manifest).title} \u00b7 sfumato"
    style = svg.style() + packaged("report.css")
    return document(title, style, _policy(script), body, data, tag("script", Markup(script)))


def _sections(release: "AnyRelease", plot: "Plot | None", extreme: int, ledger: "Dataset | None") -> Iterator[Markup]:
    manifest = release.manifest
    yield _top(release)
    yield _section("What is promised", _promise(release))
    if "stream" in manifest:
        yield _section("The stream", words.stream(manifest))
    if "owners" in manifest:
        yield _section("The owners", words.owners(manifest))
    yield _section("What it does not cover", _open(release))
    yield _section("The budget", words.budget(manifest, ledger))
    yield _section("How answers err", _errors(release, plot))
    yield _section("What was released", _extreme(extreme), *map(_figure, _scenes(release)))
    yield _section("Load it", _load(release))
    yield _section("The mechanism", words.parameters(manifest))
    if "schema" in manifest:
        yield _section("The columns", column_words.schema(manifest))


def _foot(release: "AnyRelease") -> Markup:
    made = f"The release was made with sfumato {release.manifest['software']['sfumato']}."
    told = f"{made} Everything here follows from the release itself and costs no privacy."
    return tag("footer", tag("p", told, class_="quiet"))


def _policy(script: str) -> str:
    """The content security policy of a report's page: it runs its own script, shows its own pictures, loads nothing.

    Nothing is sent or framed.
    """
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = f"script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def _section(title: str, *parts: object) -> Markup:
    return tag("section", tag("h2", title), *parts)


def _top(release: "AnyRelease") -> Markup:
    manifest, promise = release.manifest, release.guarantee
    protected = {"attribute": "one value", "record": "one record", "edge": "one edge"}[promise.unit]
    if promise.group > 1:
        protected = f"{promise.group} records of a person"
    facts = [
        ("\u03b5 (epsilon)", number(promise.epsilon, 6)),
        ("\u03b4 (delta)", number(promise.delta, 6)),
        ("protects", protected),
        ("neighbours", {"replace": "replaced", "add-remove": "added or removed"}[promise.neighbours]),
        ("arithmetic", manifest["numerics"]),
        ("budget", "charged" if manifest["accounted"] else "not charged"),
    ]
    warnings = words.warnings(manifest)
    listed = tag("ul", *(tag("li", line) for line in warnings))
    style = "warnings" if words.kept(manifest) else "warnings bad"
    return tag(
        "header",
        tag("p", "sfumato", class_="maker"),
        tag("h1", kinds.of(manifest).title),
        tag("p", words.lead(manifest), class_="lead"),
        tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in facts), class_="key"),
        tag("aside", tag("h2", "Before you use it"), listed, class_=style) if warnings else "",
    )


def _promise(release: "AnyRelease") -> Markup:
    promise = release.guarantee
    broken = (
        ""
        if words.kept(release.manifest)
        else tag("p", "What follows is what was claimed. This release does not keep it.", class_="warn")
    )
    told = plain_words.promise(release.manifest)
    return join(broken, tag("p", told), tag("p", words.meaning(promise)), words.symbols(promise))


def _open(release: "AnyRelease") -> Markup:
    rows = [join(tag("dt", name), tag("dd", text)) for name, text in words.uncovered(release.manifest)]
    return tag("dl", *rows, class_="open")


def _errors(release: "AnyRelease", plot: "Plot | None") -> Markup:
    said = [tag("p", line) for line in error_plots.said(release)]
    if plot is None:
        return join(*said)
    hint = "Move over the plot, or focus it and use the arrow keys."
    told = tag("output", plot.told[plot.first], id="errors-told"), tag("figcaption", hint, class_="hint")
    figure = svg.framed(plot, "errors", *told)
    return join(*said[:1], figure, *said[1:], _column_table(release))


def _column_table(release: "AnyRelease") -> Markup:
    found = error_plots.column_errors(release)
    if not found:
        return Markup("")
    head = tag(
        "tr", *(tag("th", name, scope="col") for name in ("column", "variance", "standard error", "95% interval"))
    )
    rows = []
    for name, estimate in found:
        low, high = estimate.interval(0.95)
        cells = (number(estimate.value), number(estimate.standard_error, 3), f"{number(low)} to {number(high)}")
        rows.append(tag("tr", tag("th", name, scope="row"), *(tag("td", cell) for cell in cells)))
    more = len(release.names) - len(found)
    rest = tag("p", f"The other {more:,} columns: release.variance(name).", class_="quiet") if more else ""
    table = tag("table", tag("thead", head), tag("tbody", *rows), class_="errors")
    return join(tag("div", table, class_="wide"), rest)


def _extreme(count: int) -> Markup:
    if not count:
        return Markup("")
    told = (
        f"{number(count)} of the published numbers are too large or too small in size for any computation here, and "
        "are shown as 10\u2075\u2070 or 0. No release of people\u2019s data has such numbers: do not trust it."
    )
    return tag("p", told, class_="warn")


def _scenes(release: "AnyRelease") -> "list[scenes.Scene]":
    return table_scenes.scenes(release) if isinstance(release, TableRelease) else scenes.scenes(release)


def _figure(scene: "scenes.Scene") -> Markup:
    return tag("figure", tag("h3", scene.title), scene.picture, tag("figcaption", scene.caption))


def _load(release: "AnyRelease") -> Markup:
    code = words.five_lines(release)
    said = "Put the folder of the release beside you, and its name in the second line. Loading checks every file first."
    return join(tag("p", said), tag("pre", tag("code", code)))
