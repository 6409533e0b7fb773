"""One-line checks of parameters: ``check.positive(epsilon=epsilon)``.

Each takes the parameters by name, so that the message can say which one is wrong and what it was.
"""

import math
import operator
from collections.abc import Collection
from typing import SupportsFloat, SupportsIndex

from sfumato.errors import ParameterError


def fail(name: str, value: object, expected: str) -> ParameterError:
    """The error for a parameter that is not what was expected."""
    return ParameterError(f"{name} must be {expected}, got {name}={value!r}")


def _as_float(name: str, value: SupportsFloat, expected: str) -> float:
    """A parameter as a number; neither a text nor a truth is one."""
    truth = isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", "") == "b"
    if truth or isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        raise fail(name, value, expected)
    return float(value)


def positive(**parameters: SupportsFloat) -> None:
    """Check parameters: finite numbers above zero."""
    for name, value in parameters.items():
        number = _as_float(name, value, "a positive finite number")
        if not (math.isfinite(number) and number > 0):
            raise fail(name, value, "positive and finite")


def not_negative(**parameters: SupportsFloat) -> None:
    """Check parameters: finite numbers of at least zero."""
    for name, value in parameters.items():
        number = _as_float(name, value, "a finite number of at least 0")
        if not (math.isfinite(number) and number >= 0):
            raise fail(name, value, "at least 0 and finite")


def probability_below_one(**parameters: SupportsFloat) -> None:
    """Check parameters: numbers in [0, 1)."""
    for name, value in parameters.items():
        if not 0 <= _as_float(name, value, "a number in [0, 1)") < 1:
            raise fail(name, value, "in [0, 1)")


def between(low: float, high: float, **parameters: SupportsFloat) -> None:
    """Check parameters: numbers in [low, high]."""
    for name, value in parameters.items():
        if not low <= _as_float(name, value, f"a number between {low:g} and {high:g}") <= high:
            raise fail(name, value, f"between {low:g} and {high:g}")


def whole(at_least: int, **parameters: SupportsIndex) -> None:
    """Check parameters: whole numbers of at least ``at_least`` (booleans are not numbers here)."""
    for name, value in parameters.items():
        if isinstance(value, bool) or not hasattr(value, "__index__") or operator.index(value) < at_least:
            raise fail(name, value, f"a whole number of at least {at_least}")


def one_of(choices: Collection[str], **parameters: str) -> None:
    """Check parameters: one of a few words."""
    for name, value in parameters.items():
        if not isinstance(value, str) or value not in choices:
            raise fail(name, value, "one of " + ", ".join(repr(c) for c in choices))
