"""HTML from small pieces: every text is escaped unless it is markup made here."""

import html
import json
from importlib import resources
from typing import Any

from sfumato import untrusted

_VOID = {"meta", "br", "hr", "image", "img", "path", "line", "rect", "circle", "use"}
_IN_SCRIPT = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


class Markup(str):
    """A text that is HTML already. Only this module, and fixed texts of this package, make one."""

    __slots__ = ()

    def __html__(self) -> str:
        """The HTML itself, as templates ask for it."""
        return self


def escape(text: object) -> Markup:
    """A text as HTML shows it, in elements and in quoted attributes; characters that HTML cannot hold become U+FFFD."""
    if isinstance(text, Markup):
        return text
    return Markup(html.escape(untrusted.marked(text), quote=True))


def join(*parts: object) -> Markup:
    """Pieces of HTML one after the other, each escaped unless it is markup."""
    return Markup("".join(map(escape, parts)))


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """An HTML element; ``class_`` is class, ``data_x`` is data-x. None leaves an attribute out, True gives no value."""
    shown = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(value)}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _VOID:
        return Markup(f"<{name}{shown}>" if name in ("meta", "br", "hr", "img") else f"<{name}{shown}/>")
    return Markup(f"<{name}{shown}>{join(*children)}</{name}>")


def packaged(name: str) -> str:
    """A style sheet or script of this package, as text to put into an HTML page."""
    return resources.files("sfumato.report").joinpath(name).read_text(encoding="utf-8")


def document(title: str, style: str, policy: str, *body: object) -> str:
    """A whole HTML document: its style is in it, and ``policy`` says what more it may run, show or load."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        tag("style", Markup(style)),
    )
    return "<!doctype html>\n" + tag("html", head, tag("body", *body), lang="en") + "\n"


def data_block(name: str, value: Any) -> Markup:
    """JSON in an HTML script element that is never executed; nothing in it can end the element or begin another."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).translate(_IN_SCRIPT)
    return Markup(f'<script type="application/json" id="{escape(name)}">{text}</script>')
