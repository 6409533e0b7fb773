"""Where each mechanism wins: the comparisons of Kenthapadi et al. 2013, sections 4.2 and 4.3.3 and Figure 1, exactly.

The paper compares orders of magnitude: projection beats noise on distances when vectors are light and users many, and
beats randomized response between two distances. Here the variances are exact, so the borders are numbers.
"""

import math
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from sfumato.planning.option import Option
from sfumato.planning.planner import Plan, plan
from sfumato.privacy.calibration import least_epsilon
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Gaussian

NAMES = ("sketch", "responses", "distances")


@dataclass(frozen=True, slots=True)
class Region:
    """One distance: the standard error of every mechanism's best option there."""

    distance: float
    best: dict[str, Option]

    def error(self, name: str) -> float:
        """The standard error of one mechanism at this distance, infinite where it is not offered."""
        return self.best[name].standard_error(self.distance) if name in self.best else math.inf

    @property
    def winner(self) -> str:
        """The mechanism that wins at this distance, with the least error."""
        return min(NAMES, key=self.error)

    @property
    def useful(self) -> bool:
        """Whether the winner's standard error is below the squared distance itself."""
        return self.error(self.winner) < self.distance**2


def region(distance: float, *, columns: int, rows: int, guarantee: Guarantee) -> Region:
    """Which mechanism wins at one distance: every mechanism's best there, for flags."""
    made = plan(columns=columns, rows=rows, guarantee=guarantee, distance=distance)
    return Region(distance, _by_name(made))


def _by_name(made: Plan) -> dict[str, Option]:
    best: dict[str, Option] = {}
    for option in made.options:
        best.setdefault(option.name, option)
    return best


def borders(*, columns: int, rows: int, guarantee: Guarantee) -> list[Region]:
    """Borders between the regions in which mechanisms win.

    Distances at which the winner, or whether it is useful, changes: the first of each stretch, from 1 to sqrt(d).
    """
    at = partial(region, columns=columns, rows=rows, guarantee=guarantee)
    low, high = 1.0, math.sqrt(columns)
    steps = max(2, math.ceil(6 * math.log2(max(high, 2.0))))
    grid = [at(low * (high / low) ** (i / (steps - 1))) for i in range(steps)]
    found = [grid[0]]
    for a, b in pairwise(grid):
        left = a
        while _state(left) != _state(b):
            left = _first_after(left, b, at)
            found.append(left)
    return found


def _state(here: Region) -> tuple[str, bool]:
    return here.winner, here.useful


def _first_after(a: Region, b: Region, at: partial[Region]) -> Region:
    """Border of a region, found by bisection: the first place after ``a`` with another state, to 0.1%."""
    while b.distance / a.distance > 1.001:
        middle = at(math.sqrt(a.distance * b.distance))
        a, b = (middle, b) if _state(middle) == _state(a) else (a, middle)
    return b


def rows_where_projection_wins(*, columns: int, distance: float, guarantee: Guarantee) -> int:
    """The least number of rows from which the best sketch beats noise on all distances, at this distance (section 4.2).

    Noise on distances grows with n, in proportion to n - 1 (Laplace) or its root (Gaussian); that of a sketch does not.
    """
    made = plan(columns=columns, rows=2, guarantee=guarantee, distance=distance)
    error = _by_name(made)["sketch"].standard_error(distance)
    ratios = [
        (error / option.noise_scale) ** (1 if option.noise == "laplace" else 2)
        for option in made.options
        if option.name == "distances"
    ]
    return max(2, 1 + math.ceil(max(ratios)))


# ---- Figure 1 -------------------------------------------------------------------------------------------------------


def feasible_epsilon(scale: float, delta: float) -> float:
    """Border of the feasible region (Figure 1): the least epsilon of Gaussian noise of this scale.

    At sensitivity 1: exact.
    """
    return least_epsilon(Gaussian(1.0, scale), delta)


def facts(found: list[Region]) -> list[dict[str, object]]:
    """The borders of regions as values for machines."""
    return [
        {
            "distance": here.distance,
            "winner": here.winner,
            "useful": here.useful,
            "standard_errors": {name: here.error(name) for name in NAMES if name in here.best},
        }
        for here in found
    ]


def describe(found: list[Region]) -> str:
    """The borders of regions as a table."""
    lines = ["from distance   squared   winner      standard errors: sketch, responses, distances"]
    for here in found:
        errors = "   ".join(f"{here.error(name):10.4g}" for name in NAMES)
        word = here.winner if here.useful else f"{here.winner} (error above the distance itself)"
        lines.append(f"{here.distance:13.4g}  {here.distance**2:8.4g}   {word:10}  {errors}")
    return "\n".join(lines)
