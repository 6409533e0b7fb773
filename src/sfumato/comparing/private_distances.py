"""The mechanism of a private comparison: how far a real table is from a synthetic one, with exact noise.

A distance is the l1 distance of a table of exact counts from public whole numbers: counts of the synthetic rows, scaled
to the number of records that their release states. There is one for each variable, and one for pairs: the mean over a
public list of pairs, rounded down to a whole number.

Formal guarantee: a run at a level whose loss satisfies delta(epsilon) <= delta is (epsilon, delta)-differentially
private for whole records, or groups of them, replaced, or added or removed. Proof. A record is in one cell of each
table. One that is added or removed changes one count by 1, so a distance moves by at most a = 1; one that is replaced
changes two, so a = 2; a group of g records moves it g times as far. The sum S of the distances of p pairs moves by at
most p a, and floor((S + p a) / p) = floor(S / p) + a, so the mean, rounded down, moves by at most a too. All q numbers
go through ``Meter.scored`` at once, whose proof (``mechanisms.table.budget``) asks for no more. It assumes that the
release is public, at a price of its own, and with it the parts of the columns, the list of pairs and the whole numbers;
and, where records are replaced, that their number is public.
"""

import functools
from dataclasses import dataclass

import numpy as np

from sfumato.comparing.tally import ComparedParts
from sfumato.marginals.partition import Codes
from sfumato.mechanisms import base
from sfumato.mechanisms.base import Noise
from sfumato.mechanisms.table import counting
from sfumato.mechanisms.table.budget import Meter, TableMoves, TableScales
from sfumato.numerics.types import Floats, Integers, Order
from sfumato.privacy.calibration import Family
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Gaussian, Loss, Pure
from sfumato.randomness.secret import Secret
from sfumato.tables.blocks import Rows


@dataclass(frozen=True, slots=True, eq=False)
class NoisyDistanceCounts:
    """Noisy l1 distances in records, of every variable and (the last, if there are pairs) the mean of all pairs."""

    values: Integers
    deviation: float


@dataclass(frozen=True, slots=True, eq=False)
class PrivateDistances(Family):
    """The mechanism, for a guarantee of unit record; ``target``: public counts, of variables and then of pairs."""

    compared: ComparedParts
    target: Integers
    guarantee: Guarantee
    noise: Noise

    @classmethod
    def of(cls, compared: ComparedParts, synthetic: Integers, records: int, guarantee: Guarantee) -> "PrivateDistances":
        """The mechanism beside counts of synthetic rows (``counts``), which are scaled to so many records."""
        noise: Noise = "gaussian" if guarantee.delta > 0 else "laplace"
        base.check_noise(guarantee, noise)
        parts = [scaled(part, records) for part in _cut(compared, synthetic)]
        return cls(compared, np.concatenate(parts), guarantee, noise)

    @property
    def guess(self) -> None:
        """No guess at the level of a private comparison: its loss is quick to compute."""
        return None

    @property
    def order(self) -> Order:
        """The norm that the noise protects against."""
        return base.order_of(self.noise)

    @property
    def count(self) -> int:
        """How many distances are published: one for each variable, and one for all pairs together."""
        return len(self.compared.ones) + bool(self.compared.pairs)

    def loss(self, level: float) -> Loss:
        """The loss of a private comparison: that of all its noisy distances together."""
        return Pure(1 / level) if self.order == 1 else Gaussian(1.0, level)

    def _scales(self, level: float) -> TableScales:
        return TableScales(TableMoves.of(self.guarantee, self.order), level)

    def deviation(self, level: float) -> float:
        """The standard deviation of the noise on every distance, in records; known before a row is read."""
        scales = self._scales(level)
        return scales.deviation(scales.scores(self.count, 1.0))

    def run(self, rows: Rows, level: float, secret: Secret) -> NoisyDistanceCounts:
        """Read the rows once, and publish the distances with noise."""
        exact = distances(self.compared, rows.sum(functools.partial(_counted, self.compared)), self.target)
        scales = self._scales(level)
        scale = scales.scores(self.count, 1.0)
        values = Meter(scales, secret, "comparison").scored(exact, scale, "distances")
        return NoisyDistanceCounts(values, self.deviation(level))


def counts(compared: ComparedParts, codes: Codes) -> Integers:
    """Exact counts of rows for a private comparison: the parts of every variable, then those of every pair."""
    both = zip(compared.ones, codes, strict=True)
    ones = [np.bincount(parts.of_cell[row], minlength=parts.size) for parts, row in both]
    return np.concatenate([*ones, compared.pair_counts(codes)]).astype(np.int64)


def _counted(compared: ComparedParts, _: int, block: Floats) -> Integers:
    return counts(compared, counting.fine_codes(compared.partition, block))


def distances(compared: ComparedParts, found: Integers, target: Integers) -> Integers:
    """The exact l1 distances of a private comparison, in records; that of pairs is their mean, rounded down."""
    apart = [int(part.sum()) for part in _cut(compared, abs(found - target))]
    ones, pairs = apart[: len(compared.ones)], apart[len(compared.ones) :]
    return np.array([*ones, *([sum(pairs) // len(pairs)] if pairs else [])], np.int64)


def _cut(compared: ComparedParts, flat: Integers) -> list[Integers]:
    """Counts of a private comparison, table by table."""
    sizes = [parts.size for parts in compared.ones]
    sizes += [compared.sizes[one] * compared.sizes[two] for one, two in compared.pairs]
    return np.split(flat, np.cumsum(sizes)[:-1])


def scaled(found: Integers, total: int) -> Integers:
    """Counts of synthetic rows as whole numbers that add up to ``total``, each within 1 of its share; public."""
    exact = found * (total / max(int(found.sum()), 1))
    whole: Integers = np.floor(exact).astype(np.int64)
    missing = int(np.clip(total - whole.sum(), 0, len(whole)))
    whole[np.argsort(whole - exact, kind="stable")[:missing]] += 1
    return whole
