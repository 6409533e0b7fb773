"""How much likelier two released rows are if they are one person's, for records whose cells are levels.

Columns are published as they are, and the schema lists what cells can be (``posterior.levels``). Under a mixture of
products p_ct, learned from one release, two rows of one person have in each column the same level, but for typing
errors, which draw a cell anew: with the likelihoods l_t(z) of levels and S_c(z) = sum_t p_ct l_t(z), a column's factor
is (1 - e) sum_t p_ct l_t(z) l_t(w) + e S_c(z) S_c(w). Two rows of different people have S_c(z) S_c'(w). The noise of
each owner is taken as it is. Post-processing of releases.
Reference: Fellegi and Sunter 1969.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy

from sfumato.intervals.moments import NoiseLaw
from sfumato.numerics.types import Floats, Integers
from sfumato.owners.candidate_pairs import blocks
from sfumato.posterior import products
from sfumato.posterior.levels import Levels
from sfumato.posterior.products import Products

_FIRST = 0.1  # share of cells with typing errors that learning starts from
_RANGE = (1e-3, 0.5)  # what such a share can be
_BORROWED = 10.0  # pairs' worth by which a column's share is drawn towards that of all
_PROXY = 0.1  # the share of errors by which candidates are chosen
_SEED = 29  # of the order in which rows are taken
_BLOCK = 1 << 10  # rows at a time
_NUMBERS = 1 << 22  # numbers held at once while shares are learned
_TOGETHER = 4  # columns whose factors are multiplied before a logarithm is taken


@dataclass(frozen=True, slots=True, eq=False)
class LevelPairs:
    """Rows of one owner and ``others`` as likelihoods of levels, their log densities, and shares of typing errors."""

    products: Products
    rows: Floats
    others: Floats
    densities: tuple[Floats, Floats]
    errors: Floats

    @classmethod
    def of(cls, levels: Levels, rows: Floats, others: Floats, noises: tuple[NoiseLaw, NoiseLaw]) -> "LevelPairs":
        """Of released rows, each side with its noise. The mixture is learned from the others, decoys as well as not."""
        mixed = np.random.default_rng(_SEED).permutation(len(others))
        fitted = products.fit(others[mixed], levels, noises[1]).products
        likelihoods, densities = [], []
        for table, noise in zip((rows, others), noises, strict=True):
            parts = [levels.likelihoods(table[at], noise) for at in blocks(len(table), _BLOCK)]
            densities.append(np.concatenate([fitted.likelihood(part) for part in parts]))
            likelihoods.append(np.concatenate([part.astype(np.float32) for part in parts]))
        errors = np.full(len(levels.starts), _FIRST)
        return cls(fitted, likelihoods[0], likelihoods[1], (densities[0], densities[1]), errors)

    def features(self) -> tuple[Floats, Floats]:
        """Of rows and others: products stand for a bound on the log likelihood ratio, which is sharp without noise."""
        chances = self.products.shares @ self.products.chances
        weights: Any = np.log1p((1 - _PROXY) / (_PROXY * chances)).astype(np.float32)
        return self._believed(self.rows) * weights, self._believed(self.others)

    def _believed(self, likelihoods: Floats) -> Floats:
        found: Any = np.empty(likelihoods.shape, np.float32)
        for at in blocks(len(likelihoods), _BLOCK):
            here = likelihoods[at].astype(np.float64)
            found[at] = self.products.posterior(here, self.products.responsibilities(here))
        return np.asarray(found)

    def log_ratios(self, rows: Integers, others: Integers) -> Floats:
        """How much likelier pairs are as one person than as two, in logarithms, in step."""
        parts = [self._log_ratios(rows[at], others[at]) for at in blocks(len(rows), 4 * _BLOCK)]
        return np.concatenate(parts) if parts else np.empty(0)

    def _log_ratios(self, rows: Integers, others: Integers) -> Floats:
        found = np.repeat(np.log(self.products.shares)[None], len(rows), axis=0)
        product = np.ones(found.shape)
        for place, (alike, apart) in enumerate(self._factors(rows, others)):
            product *= alike + apart
            if place % _TOGETHER == 0:
                found += np.log(product)
                product[...] = 1.0
        found += np.log(product)
        return np.asarray(scipy.special.logsumexp(found, axis=1) - self.densities[0][rows] - self.densities[1][others])

    def _factors(self, rows: Integers, others: Integers) -> Iterator[tuple[Floats, Floats]]:
        """For each column its factor without and with a typing error: (pairs, components) each."""
        one, two = self.rows[rows].astype(np.float64), self.others[others].astype(np.float64)
        for place, group in enumerate(self.products.levels.groups):
            chances, z, w = self.products.chances[:, group].T, one[:, group], two[:, group]
            error = self.errors[place]
            yield (1 - error) * ((z * w) @ chances), error * ((z @ chances) * (w @ chances))

    def learned(self, rows: Integers, others: Integers, weights: Floats) -> "LevelPairs":
        """Shares of typing errors by pairs that are one person with these probabilities: a step of EM."""
        most = max(_NUMBERS // (self.products.count * len(self.errors)), 50)
        kept = np.argsort(-weights, kind="stable")[:most]
        rows, others, weights = rows[kept], others[kept], weights[kept]
        factors = list(self._factors(rows, others))
        joint = np.log(self.products.shares) + sum(np.log(alike + apart) for alike, apart in factors)
        shares = weights[:, None] * np.exp(joint - scipy.special.logsumexp(joint, axis=1, keepdims=True))
        wrong = np.array([float(np.sum(shares * apart / (alike + apart))) for alike, apart in factors])
        total = float(weights.sum())
        mean = (float(wrong.mean()) + _BORROWED * _FIRST) / (total + _BORROWED)
        return replace(self, errors=np.clip((wrong + _BORROWED * mean) / (total + _BORROWED), *_RANGE))
