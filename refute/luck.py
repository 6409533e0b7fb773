"""Random values of Python, all from one seeded generator."""

from collections.abc import Sequence
from typing import TypeVar

from numpy.random import Generator

Value = TypeVar("Value")


def pick(luck: Generator, options: Sequence[Value]) -> Value:
    """One of the options, all equally likely."""
    return options[int(luck.integers(len(options)))]


def chance(luck: Generator, probability: float) -> bool:
    """True with this probability."""
    return bool(luck.random() < probability)
