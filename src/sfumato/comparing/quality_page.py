"""A comparison as one HTML page that needs nothing else and runs no script, marked as not private throughout."""

from collections.abc import Iterator

from sfumato.comparing.judgement import NOT_PRIVATE, ComparedColumn, ComparedPair, QualityFigures
from sfumato.comparing.pair_pictures import pair_picture
from sfumato.marginals.parts import MOST_PARTS, MOST_PARTS_OF_PAIRS, shares
from sfumato.report import svg
from sfumato.report.column_pictures import ColumnPicture, ShareSeries
from sfumato.report.html import Markup, document, join, packaged, tag
from sfumato.report.numbers import number, percent

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
STYLE = """
main { max-width: 68rem; } .text { max-width: 46rem; }
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 28rem), 1fr)); gap: 0 2.5rem; }
.seal { background: var(--bad-ground); border-left: 4px solid var(--bad); border-radius: 0 8px 8px 0; color: var(--bad);
  font-weight: 600; padding: 1rem 1.25rem; margin: 0 0 2rem; }
.open-seal { background: var(--raised); border-left: 4px solid var(--accent); border-radius: 0 8px 8px 0;
  padding: 1rem 1.25rem; margin: 0 0 2rem; }
figure { break-inside: avoid; } figcaption .bad { color: var(--bad); }
"""
_MOST_COLUMNS = 60  # with a picture each: those that are farthest apart
_MARK = "Not private: real data."


def page(quality: QualityFigures) -> str:
    """The page of a comparison."""
    body = tag("main", *_sections(quality))
    return document("Real beside synthetic \u00b7 sfumato", svg.style() + packaged("report.css") + STYLE, POLICY, body)


def _sections(quality: QualityFigures) -> Iterator[Markup]:
    yield tag("p", NOT_PRIVATE, class_="seal", role="alert")
    yield tag(
        "header",
        tag("p", "sfumato", class_="maker"),
        tag("h1", "Real beside synthetic"),
        tag("p", _lead(quality), class_="lead text"),
        _key(quality),
    )
    yield tag("section", tag("h2", "Models"), *_models(quality), class_="text")
    yield tag("section", tag("h2", "Telling real from synthetic"), *_told_apart(quality), class_="text")
    yield tag("section", tag("h2", "Copies of real rows"), tag("p", _copies(quality)), class_="text")
    yield tag("section", tag("h2", "Column by column"), *_columns(quality))
    yield tag("section", tag("h2", "The pairs that are farthest apart"), *_pairs(quality))
    yield tag("footer", tag("p", NOT_PRIVATE, class_="warn"))


def _lead(quality: QualityFigures) -> str:
    real, synthetic = (number(rows) for rows in quality.rows)
    return (
        f"{real} real rows beside {synthetic} synthetic ones. Total variation is the largest difference between the "
        "shares of rows that any set of cells has in the two tables: 0 where they agree, 1 where they share no cell."
    )


def _key(quality: QualityFigures) -> Markup:
    told = quality.propensity
    facts = [
        ("one column, total variation", _far(quality.one_way)),
        ("two columns, total variation", _far(quality.two_way)),
        ("real from synthetic, AUC", "unknown" if told is None else f"{told.auc:.3f}"),
        *((f"{m.model}, {m.measure}", f"{m.synthetic:.3f} (real {m.real:.3f})") for m in quality.models),
        ("rows that equal a real one", number(quality.copies.synthetic)),
    ]
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in facts), class_="key")


def _models(quality: QualityFigures) -> Iterator[Markup]:
    if not quality.models:
        why = quality.without_models
        yield tag("p", f"{why[:1].upper()}{why[1:]}.")
        return
    tested = (
        f"{number(quality.held_out)} real rows that are in neither table."
        if quality.held_out
        else "the same held-out real rows. The synthetic table was made of all real rows, these included; privacy "
        "bounds what it can know of them."
    )
    about = f"Models that predict {quality.label}, trained on synthetic rows and on as many real ones, both tested on"
    yield tag("p", f"{about} {tested}")
    names = ("model", "measure", "trained on synthetic", "trained on real")
    head = tag("tr", *(tag("th", name, scope="col") for name in names))
    rows = [
        tag("tr", tag("th", m.model, scope="row"), *(tag("td", c) for c in (m.measure, *_scores(m.synthetic, m.real))))
        for m in quality.models
    ]
    yield tag("div", tag("table", tag("thead", head), tag("tbody", *rows), class_="errors"), class_="wide")
    yield tag("p", f"{_MARK} An AUC of 0.5 is guessing, and so is a balanced accuracy of 1 over the number of classes.")


def _far(distance: float) -> str:
    return f"{distance:.4f}"


def _scores(*values: float) -> list[str]:
    return [f"{value:.3f}" for value in values]


def _told_apart(quality: QualityFigures) -> Iterator[Markup]:
    told = quality.propensity
    if told is None:
        why = quality.untrained or "There are too few rows to tell"
        yield tag("p", f"{why[:1].upper()}{why[1:]}.")
        return
    right = max(told.auc, 1 - told.auc)
    verdict = "hardly" if right < 0.6 else "sometimes" if right < 0.8 else "mostly"
    yield tag(
        "p",
        f"Given one real and one synthetic row, gradient boosting picks the real one in {percent(told.auc)} of cases, "
        f"so it can {verdict} tell them apart; a coin is right in 50%. Propensity error (pMSE): "
        f"{told.error:.4f}, where 0 is no difference and 0.25 a perfect one. {_MARK}",
    )


def _copies(quality: QualityFigures) -> str:
    copies = quality.copies
    more = "no more than" if copies.synthetic <= copies.expected else "more than"
    return (
        f"{number(copies.synthetic)} of {number(quality.rows[1])} synthetic rows are in the same cell as a real row in "
        f"every column (numbers: within 1/128 of their bounds). Of as many fresh real rows about "
        f"{number(round(copies.expected))} would be, so there are {more} chance and common rows explain. {_MARK}"
    )


def _columns(quality: QualityFigures) -> Iterator[Markup]:
    far = sorted(quality.columns, key=lambda column: -column.distance)[:_MOST_COLUMNS]
    shown = [column for column in quality.columns if column in far]
    more = f" The {len(shown)} that are farthest apart are shown." if len(shown) < len(quality.columns) else ""
    yield tag(
        "p",
        f"Total variation is taken over all levels, and of numbers and dates over {MOST_PARTS} equal parts of their "
        f"declared bounds. Pictures show where the rows are; their ends hold what lies beyond.{more}",
        class_="text",
    )
    yield tag("div", *(column_figure(column, f"column{i}") for i, column in enumerate(shown)), class_="panels")


def column_figure(column: ComparedColumn, name: str) -> Markup:
    """A column of both tables as an HTML figure, marked as not private."""
    series = ShareSeries("real", shares(column.real), "c1"), ShareSeries("synthetic", shares(column.synthetic), "c0")
    picture = ColumnPicture(column.name, column.parts.names, column.parts.starts, series)
    said = [f"Total variation {_far(column.distance)}."]
    if column.means is not None:
        (mean, spread), (mean2, spread2) = column.means
        said.append(f"Mean {number(mean)} real, {number(mean2)} synthetic.")
        said.append(f"Standard deviation {number(spread)} and {number(spread2)}.")
    if column.missing is not None:
        said.append(f"Missing: {percent(column.missing[0])} and {percent(column.missing[1])}.")
    said += [picture.cut_off] if picture.cut_off else []
    caption = join(" ".join(said), " ", tag("span", _MARK, class_="bad"))
    return tag("figure", tag("h3", column.name), picture.drawn(name), tag("figcaption", caption))


def _pairs(quality: QualityFigures) -> Iterator[Markup]:
    if not quality.worst:
        yield tag("p", "There is only one column.")
        return
    yield tag(
        "p",
        f"Of {number(quality.pairs)} pairs, the {len(quality.worst)} with the largest total variation, over "
        f"{MOST_PARTS_OF_PAIRS} equal parts of numbers and dates. Darker cells hold more rows. In the last map of a "
        "row, blue cells have more synthetic rows than real ones, red cells fewer.",
        class_="text",
    )
    for place, pair in enumerate(quality.worst):
        yield _pair(pair, f"pair{place}")


def _pair(pair: ComparedPair, name: str) -> Markup:
    caption = join(f"Total variation {_far(pair.distance)}. ", tag("span", _MARK, class_="bad"))
    title = f"{pair.names[0]} by {pair.names[1]}"
    return tag("figure", tag("h3", title), pair_picture(pair, name), tag("figcaption", caption))
