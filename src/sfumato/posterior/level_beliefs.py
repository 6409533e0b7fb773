"""What is believed of records whose cells are levels: probabilities of levels given the released rows.

Records are independent given the release, and groups of levels given a record's component. So a squared distance is a
sum of independent parts given two components, whose cumulants follow from the probabilities; components are drawn.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from sfumato.intervals.moments import NoiseLaw
from sfumato.numerics.types import Floats, Integers
from sfumato.posterior.beliefs import chosen
from sfumato.posterior.lengths import LengthCumulants
from sfumato.posterior.products import Products

_NUMBERS = 1 << 22  # probabilities held at once
_COMPONENTS = 8  # draws of components for each pair


@dataclass(frozen=True, eq=False)
class LevelBeliefs:
    """Posterior ``means`` of records in encoded columns, and ``variances``, summed over columns."""

    products: Products
    rows: Floats
    noise: NoiseLaw
    means: Floats
    variances: Floats
    _values: Floats = field(repr=False)

    @classmethod
    def of(cls, products: Products, rows: Floats, noise: NoiseLaw) -> "LevelBeliefs":
        """Given released rows with this noise."""
        levels, values = products.levels, products.levels.rows
        means, variances = np.empty((len(rows), len(levels.base))), np.empty(len(rows))
        found = cls(products, rows, noise, means, variances, values)
        block = max(_NUMBERS // levels.count, 1)
        for start in range(0, len(rows), block):
            where = np.arange(start, min(start + block, len(rows)))
            means[where], columns = found.moments(where)
            variances[where] = columns.sum(axis=1)
        return found

    def moments(self, records: Integers) -> tuple[Floats, Floats]:
        """Posterior means and variances of encoded columns: (records, columns) each."""
        given = self._given(records)
        posterior = self.products.posterior(given, self.products.responsibilities(given))
        inside = self.products.levels.widths**2 / 12
        apart = posterior @ self._values
        squares = posterior @ (self._values**2 + inside[:, None] * (self._values != 0))
        return self.products.levels.base + apart, np.maximum(squares - apart**2, 0.0)

    def _given(self, records: Integers) -> Floats:
        return self.products.levels.likelihoods(np.asarray(self.rows[records], np.float64), self.noise)

    # ---- distances --------------------------------------------------------------------------------------------------

    def lengths(self, first: Integers, second: Integers) -> LengthCumulants:
        """Squared distances between records, pairwise in step."""
        return LengthCumulants.joined(list(self._blocks(first, second)))

    def rest(self, first: Integers, _: Integers) -> LengthCumulants:
        """Nothing is left beside the columns."""
        return LengthCumulants(*np.zeros((3, len(first))))

    def _blocks(self, first: Integers, second: Integers) -> Iterator[LengthCumulants]:
        block = max(_NUMBERS // (2 * self.products.levels.count), 1)
        rng = np.random.default_rng(0)
        for start in range(0, len(first), block):
            a, b = first[start : start + block], second[start : start + block]
            records, places = np.unique(np.concatenate([a, b]), return_inverse=True)
            one, two = np.split(places, 2)
            given = self._given(records)
            shares = self.products.responsibilities(given)
            times = _COMPONENTS if self.products.count > 1 else 1
            laws = []
            for _ in range(times):
                levels = self.products.posterior(given, np.eye(self.products.count)[chosen(shares, rng)])
                laws.append(self._law(levels[one], levels[two]))
            yield _mixed(
                laws, np.sum((self.means[a] - self.means[b]) ** 2, axis=1), self.variances[a] + self.variances[b]
            )

    def _law(self, one: Floats, two: Floats) -> LengthCumulants:
        """Of independent levels with these probabilities, pairwise in step."""
        levels = self.products.levels
        if levels.in_pairs:
            return _differing(one[:, 1::2], two[:, 1::2], self._values.max(axis=0) ** 2)
        total = LengthCumulants(*np.zeros((3, len(one))))
        for group in levels.groups:
            total += _part(one[:, group], two[:, group], self._apart(group))
        return total

    def _apart(self, group: slice) -> Floats:
        """Squared distances between the levels of a group, with what is unknown within cells."""
        levels = self.products.levels
        rows = self._values[group][:, np.unique(levels.columns[group])]
        inside = levels.widths[group] ** 2 / 12
        return np.asarray(np.sum((rows[:, None] - rows) ** 2, axis=2) + inside[:, None] + inside)

    # ---- draws ------------------------------------------------------------------------------------------------------

    def sampler(self, records: Integers) -> Callable[[np.random.Generator], Floats]:
        """Draws of these records, in encoded columns."""
        levels, given = self.products.levels, self._given(records)
        shares, group_of = self.products.responsibilities(given), levels.group_of
        ends = np.append(levels.starts[1:], levels.count) - 1
        every = np.arange(len(records))[:, None]
        if levels.in_pairs:
            return lambda rng: self._flags(given, shares, rng)

        def draw(rng: np.random.Generator) -> Floats:
            chances = np.cumsum(given * self.products.chances[chosen(shares, rng)], axis=1)
            before = np.where(levels.starts > 0, chances[:, levels.starts - 1], 0.0)
            reached = before + rng.random(before.shape) * (chances[:, ends] - before)
            picked = levels.starts + np.add.reduceat(chances < reached[:, group_of], levels.starts, axis=1, dtype=int)
            picked = np.minimum(picked, ends)
            found = np.repeat(levels.base[None], len(records), axis=0)
            found[every, levels.columns[picked]] = levels.values[picked]
            if levels.widths.any():
                inside = levels.widths[picked] * (rng.random(picked.shape) - 0.5)
                found[every, levels.columns[picked]] += inside
            return found

        return draw

    def _flags(self, given: Floats, shares: Floats, rng: np.random.Generator) -> Floats:
        chances = given * self.products.chances[chosen(shares, rng)]
        second = rng.random((len(given), given.shape[1] // 2)) * (chances[:, ::2] + chances[:, 1::2])
        return np.asarray(self.products.levels.base + (second < chances[:, 1::2]) * self._values.max(axis=0))


def _differing(one: Floats, two: Floats, squares: Floats) -> LengthCumulants:
    """Cumulants where columns have two values, of which the second has these probabilities."""
    differ = one + two - 2 * one * two
    spread = differ * (1 - differ)
    return LengthCumulants(differ @ squares, spread @ squares**2, (spread * (1 - 2 * differ)) @ squares**3)


def _part(one: Floats, two: Floats, apart: Floats) -> LengthCumulants:
    """Cumulants of a squared distance between independent levels with these probabilities."""
    first, second, third = (np.einsum("nt,nt->n", one, two @ (apart**power)) for power in (1, 2, 3))
    variance = np.maximum(second - first**2, 0.0)
    return LengthCumulants(first, variance, third - 3 * first * second + 2 * first**3)


def _mixed(laws: list[LengthCumulants], squared: Floats, variances: Floats) -> LengthCumulants:
    """The law of which these are equal parts, with the mean that is known exactly."""
    means = np.array([law.mean for law in laws])
    apart = means - means.mean(axis=0)
    inner = np.array([law.variance for law in laws])
    variance = inner.mean(axis=0) + np.mean(apart**2, axis=0)
    third = (
        np.mean([law.third for law in laws], axis=0) + 3 * np.mean(apart * inner, axis=0) + np.mean(apart**3, axis=0)
    )
    return LengthCumulants(squared + variances, variance, third)
