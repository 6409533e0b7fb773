"""How far a learned prior is right about pairs that look near, by noise that is held out.

With g normal noise of the same variance, z + a g and z - g / a are two views of the record behind z with independent
errors, if the noise of z is normal. A prior is learned from the first view. The pairs that look nearest under it are
tested on the second: unbiased estimates of their squared distances, of known variance. What the posterior gets wrong
about selected pairs is corrected by this: the mean by a factor, the standard deviation by another.

Laplace noise is made normal first. Noise of density (1 - b^2 d^2/dx^2) N(0, s^2), added to Laplace noise of scale b,
gives N(0, s^2), because the characteristic function of the latter is 1 / (1 + b^2 t^2). This density is negative far
out, where it is taken as 0; with s^2 = 6 b^2 little is lost. Only the release is used; it costs no privacy.
Reference: Neufeld et al. 2024 and Oliveira, Lei and Tibshirani 2021 for views of normal data.
"""

import math
from dataclasses import dataclass

import numpy as np

from sfumato.estimation import neighbours
from sfumato.intervals.moments import NoiseLaw
from sfumato.numerics.types import Floats, Integers
from sfumato.posterior import prior
from sfumato.posterior.beliefs import Beliefs

_SPLIT = 0.5  # a^2: the first view has noise 1 + a^2 times, the second 1 + 1 / a^2
_ROWS, _QUERIES, _SHOWN = 10_000, 2_000, 10
_FACTORS = (0.5, 1.5)  # of means that are believed
_WIDEST = 2.5  # factor of deviations
_FEWEST = 50  # pairs


@dataclass(frozen=True, slots=True)
class Correction:
    """Factors of squared distances within the directions that stand out (means, deviations) and across (means)."""

    within: float = 1.0
    deviation: float = 1.0
    across: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Views:
    """Two views of rows with independent normal errors: a prior is learned from ``one`` and tested on ``two``."""

    one: Floats
    two: Floats
    noise_one: float
    noise_two: float

    @classmethod
    def of(cls, rows: Floats, noise: NoiseLaw, rng: np.random.Generator) -> "Views":
        """Of released rows with this noise."""
        normal, variance = (rows, noise.variance) if noise.kind == "gaussian" else made_normal(rows, noise, rng)
        extra = rng.normal(0.0, math.sqrt(variance), rows.shape)
        one, two = normal + math.sqrt(_SPLIT) * extra, normal - extra / math.sqrt(_SPLIT)
        return cls(one, two, variance * (1 + _SPLIT), variance * (1 + 1 / _SPLIT))


def made_normal(rows: Floats, noise: NoiseLaw, rng: np.random.Generator) -> tuple[Floats, float]:
    """Rows with Laplace noise of scale b, given more so that it is nearly normal; and its variance, about 6 b^2."""
    b = noise.scale / math.sqrt(2)
    grid = np.linspace(-math.sqrt(42), math.sqrt(42), 4001)  # in units of b
    density = np.exp(-(grid**2) / 12) * (7 / 6 - grid**2 / 36)
    reached = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    more = float(np.sum(density * grid**2) / np.sum(density))
    return rows + b * np.interp(rng.random(rows.shape), reached / reached[-1], grid), (2 + more) * b**2


def correction(rows: Floats, noise: NoiseLaw) -> Correction:
    """What a prior learned from these rows needs; nothing where there are too few of them."""
    table = np.asarray(rows[:: max(len(rows) // _ROWS, 1)][:_ROWS], np.float64)
    shown = min(_SHOWN, len(table) - 1)
    asked = np.unique(np.linspace(0, len(table) - 1, _QUERIES).astype(np.int64))
    if shown * len(asked) < _FEWEST:
        return Correction()
    views = Views.of(table, noise, np.random.default_rng(0))
    learned, coordinates = prior.learn(views.one, NoiseLaw("gaussian", math.sqrt(views.noise_one)))
    if not learned.rank:
        return Correction()
    beliefs = Beliefs.of(learned, coordinates, views.one)
    found = neighbours.nearest(beliefs.means, asked, shown, noise).indices
    return compared(beliefs, views.two, views.noise_two, np.repeat(asked, shown), found.ravel())


def compared(beliefs: Beliefs, view: Floats, noise: float, first: Integers, second: Integers) -> Correction:
    """The factors by which a view of pairs, with normal noise of this variance, differs from what is believed."""
    spectrum, said = beliefs.prior.spectrum, beliefs.lengths(first, second)
    apart = view[first] - view[second]
    along = np.sum((apart @ spectrum.basis) ** 2, axis=1)
    across = np.sum(apart**2, axis=1) - along - 2 * spectrum.rest * noise
    within = _factor(along - 2 * spectrum.rank * noise, said.mean)
    believed = within * said.mean
    blur = 8 * noise * believed + 8 * spectrum.rank * noise**2
    excess = (along - 2 * spectrum.rank * noise - believed) ** 2 - blur
    upper = float(excess.mean()) + float(excess.std()) / math.sqrt(len(excess))
    wider = upper / max(within**2 * float(said.variance.mean()), np.finfo(float).tiny)
    rest = _factor(across, beliefs.rest(first, second).mean)
    return Correction(within, math.sqrt(float(np.clip(wider, 1.0, _WIDEST**2))), rest)


def _factor(seen: Floats, said: Floats) -> float:
    return float(np.clip(_trusted(seen, said), *_FACTORS))


def _trusted(seen: Floats, said: Floats) -> float:
    """The ratio of what is seen to what was said, drawn towards 1 as far as it does not stand out of its error."""
    total = float(said.sum())
    if total <= 0:
        return 1.0
    ratio = float(seen.sum()) / total
    error = float((seen - ratio * said).std()) * math.sqrt(len(seen)) / total
    return 1 + (ratio - 1) ** 3 / max((ratio - 1) ** 2 + error**2, np.finfo(float).tiny)
