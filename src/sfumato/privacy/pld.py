"""Privacy-loss distributions (PLDs), for composition with ``dp_accounting``: its own, and those of our profiles.

Connect-the-dots (Doroshenko et al. 2022): a profile is evaluated at chosen epsilons and joined by straight lines in
e^epsilon. A profile is convex there, so the lines lie above it everywhere.
"""

import importlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from dp_accounting.pld.pld_pmf import PLDPmf
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

Profile = Callable[[float], float]

# All PLDs share this grid of losses, or they could not be composed.
INTERVAL = 1e-4
# Losses beyond this are counted as infinite: safe, and it keeps the grid small.
LARGEST_LOSS = 64.0
# Composition is by FFT in doubles. Against exact Gaussian composition it falls short by 3e-14 at 1,000 folds, 7e-14 at
# 5,000 and 6e-12 at 100,000 (make figures); this much is allowed, at least and per 1,000 folds.
_FFT_ALLOWANCE = 1e-12
# Moves beyond this many scales would make dp_accounting's own grids huge; our own dots serve there.
_STRONG = 6.0


def library(module: str) -> Any:
    """A module of dp_accounting's PLDs.

    Part of dp_accounting; it takes a second to import, and a single release never needs it.
    """
    return importlib.import_module(f"dp_accounting.pld.{module}")


def symmetric(pmf: "PLDPmf") -> "PrivacyLossDistribution":
    """The PLD of a pair of neighbours that looks the same in both directions."""
    return library("privacy_loss_distribution").PrivacyLossDistribution(pmf)


def of_noise(law: str, sensitivity: float, scale: float, profile: Profile) -> "PrivacyLossDistribution":
    """The PLD of Laplace or Gaussian noise, from ``dp_accounting`` where its grids are small."""
    if sensitivity > _STRONG * scale:
        return of_profile(profile)
    make = getattr(library("privacy_loss_distribution"), f"from_{law}_mechanism")
    found: PrivacyLossDistribution = make(scale, sensitivity=sensitivity, value_discretization_interval=INTERVAL)
    return found


def of_profile(profile: Profile, corners: Sequence[float] = ()) -> "PrivacyLossDistribution":
    """The PLD of a profile that is the same in both directions; ``corners`` as in ``sampled``."""
    return symmetric(dots(profile, profile, corners))


def shifted(whole: "PrivacyLossDistribution", epsilon: float) -> "PrivacyLossDistribution":
    """A PLD whose losses are all larger by a pure epsilon, rounded up to the grid."""
    steps = math.ceil(epsilon / INTERVAL)
    return whole.compose(symmetric(library("pld_pmf").create_pmf({steps: 1.0}, INTERVAL, 0.0, True)))


def failing(whole: "PrivacyLossDistribution", failure: float) -> "PrivacyLossDistribution":
    """A PLD beside an event of this probability, in which the loss is infinite."""
    return whole.compose(symmetric(library("pld_pmf").create_pmf({0: 1.0 - failure}, INTERVAL, failure, True)))


def composed_delta(pld: "PrivacyLossDistribution", epsilon: float, folds: int) -> float:
    """The delta of a composed PLD, with the allowance for as many folds."""
    found = max(0.0, float(pld.get_delta_for_epsilon(epsilon)))
    return min(1.0, found + _FFT_ALLOWANCE * max(1.0, folds / 1000))


@dataclass(frozen=True, slots=True)
class Dots:
    """A profile at chosen multiples of the interval, from 0 on, in both directions; upper bounds do as well."""

    steps: tuple[int, ...]
    forward: tuple[float, ...]
    backward: tuple[float, ...]

    def joined(self) -> "PLDPmf":
        """The PLD whose profile joins the forward dots, and so lies above it everywhere.

        At negative epsilon the profile follows from the other direction, delta(-e) = 1 - e^-e + e^-e * delta'(e).
        """
        steps = np.array(self.steps, np.int64)
        negative = steps[:0:-1] * INTERVAL
        below = -np.expm1(-negative) + np.exp(-negative) * np.array(self.backward)[:0:-1]
        # A profile of exactly 1 has no logarithm in dp_accounting; the allowance of composed deltas covers the 2^-50.
        deltas = np.minimum.accumulate(np.clip(np.concatenate([below, self.forward]), 0.0, 1 - 2.0**-50))
        every = np.concatenate([-steps[:0:-1], steps])
        kept = _lowest(np.exp(every * INTERVAL), deltas)
        return library("pld_pmf").create_pmf_pessimistic_connect_dots(INTERVAL, every[kept], deltas[kept])

    def turned(self) -> "Dots":
        """The dots of the PLD with the directions exchanged."""
        return Dots(self.steps, self.backward, self.forward)


def _lowest(x: np.ndarray, y: np.ndarray) -> list[int]:
    """Connect-the-dots: corners of the convex hull's lower side.

    The corners of the convex hull's lower side: where dots are only bounds, the best line through them.

    Leaving a dot out is always safe, for a convex function lies below every chord between bounds of it.
    """
    kept: list[int] = []
    for i in range(len(x)):
        while len(kept) > 1:
            a, b = kept[-2:]
            if (y[b] - y[a]) * (x[i] - x[a]) < (y[i] - y[a]) * (x[b] - x[a]):
                break
            kept.pop()
        kept.append(i)
    return kept


def sampled(forward: Profile, backward: Profile, corners: Sequence[float] = ()) -> Dots:
    """Dots of a PLD: a profile at a few hundred epsilons, or around the corners of one that is made of lines."""
    steps = _around(corners) if len(corners) else _support(forward, backward)
    epsilons = (steps * INTERVAL).tolist()
    found = tuple(map(forward, epsilons))
    return Dots(tuple(steps.tolist()), found, found if backward == forward else tuple(map(backward, epsilons)))


def dots(forward: Profile, backward: Profile, corners: Sequence[float] = ()) -> "PLDPmf":
    """Connect-the-dots: the PLD whose profile joins the given one at chosen epsilons, and so lies above everywhere."""
    return sampled(forward, backward, corners).joined()


def _support(forward: Profile, backward: Profile, points: int = 200) -> np.ndarray:
    """Grid of a PLD's dots.

    Multiples of the interval from 0 to where delta is negligible, dense near 0 where most of the mass lies.
    """
    end = INTERVAL
    while end < LARGEST_LOSS and (forward(end) > 1e-16 or (backward != forward and backward(end) > 1e-16)):
        end *= 1.5
    end = min(end, LARGEST_LOSS)
    spread = 4.0
    grid = end * np.sinh(spread * np.linspace(0, 1, points)) / math.sinh(spread)
    return np.unique(np.ceil(grid / INTERVAL).astype(np.int64))


def _around(corners: Sequence[float]) -> np.ndarray:
    """Grid of the dots of a PLD with few losses: 0 and the two multiples of the interval around each of +-corners."""
    at = np.minimum(corners, LARGEST_LOSS) / INTERVAL
    return np.unique(np.concatenate([[0], np.floor(at), np.ceil(at)]).astype(np.int64))
