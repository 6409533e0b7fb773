"""HTML from small pieces: every text is escaped unless it is markup made here."""

import html
import json
import math
from typing import Any

from sfumato import untrusted

_VOID = {"meta", "br", "hr", "image", "img", "path", "line", "rect", "circle", "use"}
_SUPERSCRIPT = str.maketrans("-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")
_IN_SCRIPT = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


class Markup(str):
    """A text that is HTML already. Only this module, and fixed texts of this package, make one."""

    __slots__ = ()

    def __html__(self) -> str:
        """As templates ask for it."""
        return self


def escape(text: object) -> Markup:
    """A text as HTML shows it, in elements and in quoted attributes; characters that HTML cannot hold become U+FFFD."""
    if isinstance(text, Markup):
        return text
    return Markup(html.escape(untrusted.marked(text), quote=True))


def join(*parts: object) -> Markup:
    """Pieces one after the other."""
    return Markup("".join(map(escape, parts)))


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """An element; ``class_`` is class, ``data_x`` is data-x. None leaves an attribute out, True gives it no value."""
    shown = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(value)}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _VOID:
        return Markup(f"<{name}{shown}>" if name in ("meta", "br", "hr", "img") else f"<{name}{shown}/>")
    return Markup(f"<{name}{shown}>{join(*children)}</{name}>")


def data_block(name: str, value: Any) -> Markup:
    """JSON in a script element that is never executed; nothing in it can end the element or begin another."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).translate(_IN_SCRIPT)
    return Markup(f'<script type="application/json" id="{escape(name)}">{text}</script>')


def number(value: float, digits: int = 4) -> str:
    """A number for people: with commas, to so many digits, and powers of ten where it must be."""
    value = float(value)
    if not math.isfinite(value):
        return "unknown" if math.isnan(value) else "\u2212\u221e" if value < 0 else "\u221e"
    if value == 0:
        return "0"
    if value == round(value) and abs(value) < 1e9:
        return f"{value:,.0f}".replace("-", "\u2212")
    if 1e-3 <= abs(value) < 1e7:
        places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
        text = f"{value:,.{places}f}"
        return (text.rstrip("0").rstrip(".") if "." in text else text).replace("-", "\u2212")
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    mantissa = (mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa).replace("-", "\u2212")
    power = f"10{str(int(exponent)).translate(_SUPERSCRIPT)}"
    return power if mantissa == "1" else f"{mantissa} \u00d7 {power}"


def tick(value: float) -> str:
    """A number beside an axis: thousands as k, millions as M."""
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if unit * (10 if unit < 1e6 else 1) <= abs(value) < 1e9:
            return f"{number(value / unit)}{letter}"
    return number(value)
