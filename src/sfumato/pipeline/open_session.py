"""Sessions of mechanisms that are charged whole when they open.

Such a session lives in one process. Its noise and its key are never kept: killed, it is spent and cannot be resumed,
and the ledger shows its reservation as drawn. Closed, it is committed with a digest of all that it answered. What it
has answered is public and may be used for ever, its histogram included.
"""

import math
from dataclasses import replace
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sfumato import check
from sfumato.answering.base import Answered, Live, OpenMechanism
from sfumato.answering.median import Median
from sfumato.answering.multiplicative_weights import Weights
from sfumato.errors import ParameterError
from sfumato.fileformat.manifest import Facts
from sfumato.intervals import additive_noise
from sfumato.intervals.estimate import Estimate, Quantity
from sfumato.ledger.reservation import Reservation
from sfumato.pipeline.answers import sealed
from sfumato.privacy.calibration import Family, calibrate
from sfumato.privacy.guarantee import Guarantee
from sfumato.queries.domain import Domain
from sfumato.queries.histogram import SyntheticHistogram
from sfumato.queries.parser import parse
from sfumato.tables.schema import Schema

_KNOWN = "the comparison with what was known before, which found no more of a difference; nothing else is random"


class Opened(Live):
    """An open session: ask, then close. Made by ``Session.open``; also a context that closes itself.

    It belongs to the process that opened it: another one, forked from it, can neither ask nor close it, and there is no
    copy of it.
    """

    def __init__(
        self, mechanism: OpenMechanism, domain: Domain, schema: Schema, guarantee: Guarantee, charge: Reservation
    ) -> None:
        super().__init__()
        self._mechanism, self.domain, self.schema = mechanism, domain, schema
        self.guarantee, self.charge = guarantee, charge
        self._told: list[tuple[str, float]] = []
        self.record: Facts | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.record is None and self.at_home:
            self.close()

    @property
    def left(self) -> int:
        """How many more questions this session can measure; the others are answered from what is known."""
        return self._mechanism.remaining

    @property
    def histogram(self) -> SyntheticHistogram | None:
        """The public histogram behind the answers, if the mechanism of this session keeps one."""
        return self._mechanism.histogram

    def ask(self, query: str) -> Estimate:
        """The answer of an open session to one question, at no further cost.

        Raises ExhaustedError when nothing more can be promised. Where the answer comes from what was known before, its
        interval rests on a comparison that found no large difference, and there is no standard error: it is NaN.
        """
        predicate = parse(query, self.schema)
        cells = self.domain.mask(predicate)
        with self.turn():
            if self.record is not None:
                raise ParameterError("this session is closed: open another, at its own cost")
            answered = self._mechanism.ask(cells)
            assert answered.value is not None
            self._told.append((predicate.text, answered.value))
        rows = self._mechanism.rows
        public = rows is not None and self.guarantee.neighbours == "replace"
        return _estimate(answered, float(rows or 0) if public else 2.0**53)

    def close(self) -> Facts:
        """End the session: the ledger commits to a digest of all that was answered."""
        with self.turn():
            if self.record is None:
                facts: Facts = {"name": type(self._mechanism).__name__, "rows": self._mechanism.rows}
                if self.histogram is not None:
                    facts |= {"histogram": self.histogram.digest}
                record = sealed(self.guarantee, facts, self._told, self.charge)
                self.charge.commit(record)
                self.record = record
            return self.record


def _estimate(answered: Answered, most: float) -> Estimate:
    """An answer of an open session with its interval: of its own noise if measured, else of the comparison.

    Error: a truth is covered with the level of the interval, whichever of the two answers it gets.
    """
    value = answered.value
    assert value is not None
    if answered.laplace_scale is not None:
        seen = additive_noise.counted(value, answered.laplace_scale, most)
        return replace(seen, bounds=lambda tail: seen.bounds(tail * answered.missing))

    def bounds(tail: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        margin = math.inf if answered.margin is None else answered.margin(1 - 2 * tail)
        low, high = np.clip([value - margin, value + margin], 0.0, most if most < 2.0**53 else math.inf)
        return np.asarray(low), np.asarray(high)

    return Estimate(value, math.nan, _KNOWN, bounds, Quantity("records"))


def level_of(prepared: Family, guarantee: Guarantee) -> float:
    """Level at which a session's mechanism keeps its promise, checked; if pure, just above 1 / epsilon, no search."""
    near = (1 + 2.0**-40) / guarantee.epsilon
    if guarantee.delta == 0 and prepared.loss(near).delta(guarantee.epsilon) == 0:
        return near
    return calibrate(prepared, guarantee).level


def recipe_of(method: str | Weights | Median, count: int, domain: Domain, updates: int | None) -> Weights | Median:
    """The recipe of a mechanism that a session charges whole: as given, or by its name."""
    if isinstance(method, (Weights, Median)):
        if updates is not None:
            raise ParameterError("updates are a part of the recipe that was given")
        return method
    check.one_of(("weights", "median"), method=method)
    if method == "median":
        return Median(hard=updates)
    expected = count or 1000
    most = min(20, expected) if updates is None else updates
    return Weights(updates=most, questions=expected, passes=passes_over(domain))


def passes_over(domain: Domain) -> int:
    """How often a session's mechanism refits weights: this costs no privacy, so often where it costs no time."""
    return max(20, min(400, (1 << 22) // domain.size))
