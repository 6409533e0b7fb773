"""A mixture of products of laws over levels, fitted by EM to the likelihoods that released rows give them.

Within a component the groups of levels are independent. Behind noise, EM for a latent class model needs nothing but the
likelihood of each level given the released numbers. More components than one are taken only where rows that were held
out are likelier under them. Post-processing of a release; it costs no privacy and is deterministic.
Reference: Goodman 1974 for latent classes; Dempster, Laird and Rubin 1977.
"""

from dataclasses import dataclass

import numpy as np
import scipy

from sfumato.intervals.moments import NoiseLaw
from sfumato.numerics.types import Floats
from sfumato.posterior.levels import Levels

SIZES = (8, 32)  # numbers of components that are tried beside one
_FITTED = 9_000  # rows at most, of which a third are held out
_NUMBERS = 1 << 22  # likelihoods held at once
_FEWEST = 40  # rows for each component at least
_ALONE, _ROUNDS = 30, 10  # rounds of EM, of one component and of several
_BORROWED = 2.0  # rows' worth by which components are drawn towards the law of all
_LEAST = 1e-4  # share of a group's levels that is spread over all of them
_TOGETHER = 4  # groups whose likelihoods are multiplied before a logarithm is taken


@dataclass(frozen=True, slots=True, eq=False)
class Products:
    """Components with ``shares`` and the ``chances`` of each level in them: (components, levels)."""

    levels: Levels
    shares: Floats
    chances: Floats

    @property
    def count(self) -> int:
        """The number of components."""
        return len(self.shares)

    def log_density(self, likelihoods: Floats) -> Floats:
        """Of rows with each component, times its share, up to a number for each row: (rows, components)."""
        found = np.repeat(np.log(self.shares)[None], len(likelihoods), axis=0)
        product = np.ones(found.shape)
        for place, group in enumerate(self.levels.groups):
            product *= likelihoods[:, group] @ self.chances[:, group].T
            if place % _TOGETHER == 0:
                found += np.log(product)
                product[...] = 1.0
        return found + np.log(product)

    def responsibilities(self, likelihoods: Floats) -> Floats:
        """The probability of each component: (rows, components)."""
        density = self.log_density(likelihoods)
        return np.asarray(np.exp(density - scipy.special.logsumexp(density, axis=1, keepdims=True)))

    def posterior(self, likelihoods: Floats, shares: Floats) -> Floats:
        """The probability of each level given rows whose components have these shares: (rows, levels)."""
        found = np.empty(likelihoods.shape)
        for group in self.levels.groups:
            chances, here = self.chances[:, group], likelihoods[:, group]
            found[:, group] = here * ((shares / (here @ chances.T)) @ chances)
        return found

    def likelihood(self, likelihoods: Floats) -> Floats:
        """The log likelihood of each row, up to a number for each."""
        return np.asarray(scipy.special.logsumexp(self.log_density(likelihoods), axis=1))


@dataclass(frozen=True, slots=True, eq=False)
class FittedProducts:
    """The likeliest mixture, and by how much rows that were held out are likelier than where any level is as likely.

    gain, error : the mean of this over rows, and its standard error.
    """

    products: Products
    gain: float
    error: float


def fit(rows: Floats, levels: Levels, noise: NoiseLaw, sizes: tuple[int, ...] = SIZES) -> FittedProducts:
    """To released rows with this noise."""
    most = max(min(_FITTED, _NUMBERS // levels.count), 3)
    sample = np.asarray(rows[:: max(len(rows) // most, 1)][:most], np.float64)
    held = np.arange(len(sample)) % 3 == 2
    given = levels.likelihoods(sample[~held], noise)
    tested = levels.likelihoods(sample[held], noise)
    flat = 1 / np.bincount(levels.group_of)[levels.group_of]
    nothing = Products(levels, np.ones(1), flat[None])
    guess = Products(levels, np.ones(1), levels.first_guess(sample[~held])[None])
    single = _alone(given, guess, flat)
    single = Products(levels, single.shares, levels.with_total(single.chances[0], sample)[None])
    fitted = [_em(given, single, size) for size in sizes if size * _FEWEST <= len(given)]
    best = max([single, *fitted], key=lambda products: float(products.likelihood(tested).sum()))
    gains = best.likelihood(tested) - nothing.likelihood(tested)
    return FittedProducts(best, float(gains.mean()), float(gains.std()) / np.sqrt(len(gains)))


def _alone(given: Floats, found: Products, flat: Floats) -> Products:
    """One component, from a first guess."""
    one = np.ones((len(given), 1))
    for _ in range(_ALONE):
        found = _maximised(given, one, found, flat, _LEAST * len(given))
    return found


def _em(given: Floats, single: Products, size: int) -> Products:
    """Several components, from clusters of posterior means under one."""
    levels, one = single.levels, np.ones((len(given), 1))
    posterior = single.posterior(given, one)
    means = posterior @ levels.rows
    labels = scipy.cluster.vq.kmeans2(means, size, minit="++", seed=np.random.default_rng(0))[1]
    shares = 0.9 * np.eye(size)[labels] + 0.1 / size
    weights = shares.sum(axis=0)
    chances = (shares.T @ posterior + _BORROWED * single.chances) / (weights + _BORROWED)[:, None]
    found = Products(levels, weights / weights.sum(), chances)
    for _ in range(_ROUNDS):
        found = _maximised(given, found.responsibilities(given), found, single.chances[0], _BORROWED)
    return found


def _maximised(given: Floats, shares: Floats, before: Products, whole: Floats, borrowed: float) -> Products:
    """The M step: levels as often as their posterior under the mixture before, drawn towards the whole."""
    weights = shares.sum(axis=0)
    chances = np.empty(before.chances.shape)
    for group in before.levels.groups:
        was, here = before.chances[:, group], given[:, group]
        chances[:, group] = was * ((shares / (here @ was.T)).T @ here)
    chances = (chances + borrowed * whole) / (weights + borrowed)[:, None]
    return Products(before.levels, (weights + 1e-9) / (weights + 1e-9).sum(), chances)
