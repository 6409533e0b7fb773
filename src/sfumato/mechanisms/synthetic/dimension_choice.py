"""How many numbers a synthetic row should have, from public facts alone.

A random W keeps p/m of every squared distance. Of a signal of squared length s in m columns (the distance between the
means of two classes) it shows s p/m in p coordinates, each with noise of variance v; of a covariance of squared norm s,
which a regression divides by, s (p/m)^2 in p^2 entries. So noise is to signal as m v/s, or m^2 v/s, and what can be
told grows with p/(1 + that): with p while noise is small, not at all beyond.

Gaussian noise: v does not depend on p, so p = m is best at any epsilon and n: p is the largest that a release can hold.
Laplace noise: v grows with p^2, and the best p lies where noise is as large as the signal. How large that is was fitted
by eye on development sets (docs/mathematics.md, section 13); all else is known beforehand.
"""

import math

from sfumato import check
from sfumato.fileformat.manifest import LARGEST
from sfumato.mechanisms.synthetic import sensitivities
from sfumato.privacy.guarantee import Guarantee
from sfumato.projection.unit_ball import Centring
from sfumato.tables.labels import Labelled

ROWS = 10_000  # where nobody says how many to expect
_SIGNAL = {"private": 0.25, "public": 0.0625}  # rows have length 1; about a public centre they differ by less
_SHARE = {"private": 0.7, "public": 1.0}  # of the budget, for second moments, about
_NUMBERS = 1 << 20  # of all covariances together: a manifest of some 40 MB
_WRITTEN = 40  # bytes of a number in a manifest, at most


def largest(labelled: Labelled, columns: int) -> int:
    """The most columns of which the covariances of all classes can be published."""
    matrices = max(1, len(labelled.classes))
    return max(p for p in range(1, columns + 1) if p == 1 or matrices * p * p <= _NUMBERS)


def check_published(labelled: Labelled, dimension: int) -> None:
    """Refuse a model that no manifest can hold, before anything is read or spent."""
    numbers = max(1, len(labelled.classes)) * (dimension + 1) ** 2
    if numbers * _WRITTEN > LARGEST:
        most = math.isqrt(LARGEST // _WRITTEN // max(1, len(labelled.classes))) - 1
        raise check.fail("dimension", dimension, f"at most {most} here: the manifest holds all covariances")


def best(
    labelled: Labelled, columns: int, guarantee: Guarantee, centring: Centring, *, weight: float, rows: int | None
) -> int:
    """The best dimension under Laplace noise; ``rows`` is how many records the owner publicly expects."""
    each = (rows or ROWS) / max(1, len(labelled.classes)) * guarantee.epsilon * _SHARE[centring] / guarantee.group
    spread = columns if labelled.classes else columns**2

    def told(p: int) -> float:
        noise = _moved(labelled, p, guarantee, weight) / each
        variance = 2 * noise * noise  # infinite, and no error, at an epsilon that a release will refuse by name
        return p / (1 + spread * variance / _SIGNAL[centring])

    return max(range(1, largest(labelled, columns) + 1), key=told)


def _moved(labelled: Labelled, p: int, guarantee: Guarantee, weight: float) -> float:
    """What one record moves, in units of what is to be told."""
    if labelled.classes:
        return sensitivities.classes(p, 1, guarantee.neighbours, constant=weight) / weight
    if labelled.numeric:
        return sensitivities.labelled(p, 1, guarantee.neighbours, label=weight) / weight
    return sensitivities.triangle(p, 1, guarantee.neighbours)
