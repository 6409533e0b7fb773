"""Numbers as people read them: in sentences, in tables, and beside the axes of a picture."""

import math

_SUPERSCRIPT = str.maketrans("-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")


def number(value: float, digits: int = 4) -> str:
    """A number as people read it: with commas, to so many digits, and powers of ten where it must be."""
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
    """A number as people read it beside an axis: thousands as k, millions as M."""
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if unit * (10 if unit < 1e6 else 1) <= abs(value) < 1e9:
            return f"{number(value / unit)}{letter}"
    return number(value)


def percent(share: float) -> str:
    """A number as a percentage: a share of a whole, to a tenth of a percent."""
    return f"{share:.1%}".replace("-", "\u2212")


def relative(error: float) -> str:
    """A number for people that is a relative error: a percentage, or a multiple where it is large."""
    if error >= 10:
        return f"{float(f'{error:.2g}'):,.0f}x" if error < 1e5 else f"{error:.0e}x"
    return f"{100 * error:.3g}%"


def file_size(count: int) -> str:
    """A number of bytes as people read it: in kB, MB, GB or TB."""
    amount = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:.3g} TB"
