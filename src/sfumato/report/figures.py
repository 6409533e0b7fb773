"""Plots as files of their own: one .svg, or one .html page that needs nothing else and runs no script.

An .svg is drawn for light pages with all its colours written out, since drawing programs know neither variables nor
dark pages; an .html page follows the reader's choice of light or dark.
"""

import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sfumato import untrusted
from sfumato.errors import ParameterError
from sfumato.report import svg
from sfumato.report.html import Markup, document, join, tag
from sfumato.report.svg import Key, Plot, shortened

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_FONTS = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Helvetica Neue", sans-serif'
_PAGE = f"""
body {{ margin: 2rem auto; padding: 0 1.25rem; max-width: 76rem; background: var(--ground); color: var(--text);
  font: 16px/1.5 {_FONTS}; overflow-wrap: anywhere; }}
h1 {{ font-size: 1.2rem; line-height: 1.4; margin: 0 0 1.5rem; }} h3 {{ font-size: 1rem; margin: 0; }}
.panels {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 28rem), 1fr)); gap: 2rem; }}
.panels > figure {{ max-width: 46rem; }}
.notes {{ color: var(--quiet); font-size: .9rem; }}
"""
_GAP, _LETTER, _LINE = 24, 7.6, 18  # between panels; how wide a letter and how high a line is, about


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure in a file of its own: plots side by side under one title, and what is said below them."""

    title: str
    panels: tuple[Plot, ...]
    across: int = 2
    notes: str = ""


def check_kind(path: str | Path) -> str:
    """The kind of figure that a file name asks for, svg or html; others are refused before any work is done."""
    kind = Path(path).suffix.lower().lstrip(".")
    if kind not in ("svg", "html"):
        raise ParameterError(f"pictures are written as .svg or .html, got {str(path)!r}")
    return kind


def write(figure: Figure, path: str | Path) -> None:
    """Write a figure to a file that ends in .svg or .html."""
    text = page(figure) if check_kind(path) == "html" else str(drawing(figure)) + "\n"
    Path(path).write_text(text, encoding="utf-8")


def page(figure: Figure) -> str:
    """A figure as an HTML page of its own."""
    title = untrusted.line(figure.title)
    panels = tag("div", *(svg.framed(plot, f"plot{i}") for i, plot in enumerate(figure.panels)), class_="panels")
    notes = tag("p", untrusted.line(figure.notes), class_="notes") if figure.notes else ""
    return document(title, svg.style() + _PAGE, _POLICY, tag("main", tag("h1", title), panels, notes))


# ---- one SVG --------------------------------------------------------------------------------------------------------


def drawing(figure: Figure) -> Markup:
    """A figure as one SVG file: titles, panels, their legends, and the notes."""
    across = min(figure.across, len(figure.panels))
    width = across * (figure.panels[0].size[0] + _GAP) + _GAP
    parts, y = _lines(_wrapped(untrusted.line(figure.title), width - 2 * _GAP), "title", _GAP, 30.0)
    y += 12
    for first in range(0, len(figure.panels), across):
        row = [_panel(plot, f"plot{first + i}") for i, plot in enumerate(figure.panels[first : first + across])]
        for place, (panel, _) in enumerate(row):
            x = _GAP + place * (figure.panels[0].size[0] + _GAP)
            parts.append(tag("g", panel, transform=f"translate({x} {y:g})"))
        y += max(height for _, height in row) + _GAP
    notes, y = _lines(_wrapped(untrusted.line(figure.notes), width - 2 * _GAP), "name", _GAP, y)
    height = round(y + 4)
    ground = tag("rect", width=width, height=height, fill="#ffffff")
    root: dict[str, object] = {"viewBox": f"0 0 {width} {height}", "width": width, "height": height}
    space, head = "http://www.w3.org/2000/svg", (tag("title", untrusted.line(figure.title)), tag("style", _light()))
    return tag("svg", *head, ground, *parts, *notes, xmlns=space, font_family=_FONTS, **root)


def _light() -> Markup:
    """The style sheet of a figure's SVG file: the colours of light pages, not variables, and nothing about pages."""
    text = svg.style()
    colours = dict(re.findall(r"(--[a-z0-9-]+): ([^;]+);", text[: text.index("@media")]))
    rules = text[text.index("/* drawing */") : text.index("/* pictures in a page */")]
    return Markup(re.sub(r"var\((--[a-z0-9-]+)\)", lambda found: colours[found[1]], rules))


def _wrapped(text: str, width: float) -> list[str]:
    return textwrap.wrap(text, max(20, int(width / _LETTER)))


def _lines(texts: Iterable[str], kind: str, x: float, y: float) -> tuple[list[Markup], float]:
    """Lines of text in a figure's SVG from ``y`` on, and where the next one would be."""
    parts = []
    for text in texts:
        parts.append(tag("text", text, x=x, y=f"{y:g}", class_=kind))
        y += _LINE
    return parts, y


def _panel(plot: Plot, name: str) -> tuple[Markup, float]:
    """One panel of a figure: a plot with its title above and its legend below, and how high that is."""
    width, height = plot.size
    title, y = _lines(_wrapped(plot.title, width), "title", 0, 14.0)
    upward, y = _lines(_wrapped(plot.y_name, width), "name", 0, y)
    picture = svg.draw(plot, name, x=0, y=f"{y - 10:g}", width=width, height=height, overflow="visible")
    keys, y = _keys(plot.keys, width, y + height)
    return join(*title, *upward, picture, keys), y


def _keys(keys: list[Key], width: float, y: float) -> tuple[Markup, float]:
    """The legend of a figure's panel in columns, and where it ends."""
    texts = [shortened(key.name, int((width - 40) / _LETTER)) for key in keys]
    room = 52 + _LETTER * max(map(len, texts), default=0)
    columns = max(1, int(width / room))
    parts = []
    for i, (key, text) in enumerate(zip(keys, texts, strict=True)):
        inside = svg.sample(key), tag("text", text, x=34, y=11, class_="entry")
        place = f"translate({i % columns * room:g} {y + i // columns * _LINE:g})"
        parts.append(tag("g", *inside, transform=place))
    return join(*parts), y + -(-len(keys) // columns) * _LINE
