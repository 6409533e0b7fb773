"""Defaults that the command, calls in Python and the forms of the studio share: the one table of them.

A recipe, an option or a form takes what nobody chose from here, so that the same words mean the same release
everywhere. ``NOISE`` is None wherever somebody may choose a noise: the better one by what is predicted, which follows
from the guarantee and public facts alone, when a mechanism is prepared.
"""

from typing import Final, Literal

UNIT: Final = "record"
NEIGHBOURS: Final = "replace"
GROUP: Final = 1
DELTA: Final = 0.0
NOISE: Final = None
CENTRED: Final = True  # covariances are about the mean
SCALE: Final = "bounds"  # columns count in units of their declared range
METHOD: Final = "auto"  # of synthetic tables
CENTRING: Final = "best"  # of synthetic rows
SPLIT: Final = 0.3  # of components: the share that finding them costs
PURPOSE: Final = "distances"  # of plans
LEVEL: Final = 0.95  # of intervals

# What the studio's forms begin with where a call or a command must state it, or states 0: a form shows what it holds.
SUGGESTED: Final = {"epsilon": "1", "delta": "1e-6"}
SUGGESTED_QUESTION: Final = {"epsilon": "0.1", "delta": "0"}
SUGGESTED_CAP: Final = {"epsilon": "3", "delta": "1e-6"}
SUGGESTED_LEARNING: Final = {"epsilon": "0.2", "delta": "1e-7"}


def noise_of_sums(delta: float) -> Literal["gaussian", "laplace"]:
    """The better noise on many sums that one unit moves together: Gaussian, where the guarantee allows it."""
    return "gaussian" if delta > 0 else "laplace"
