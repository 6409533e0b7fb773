"""Contests of mechanisms that answer questions: sessions on two tables with the same questions and the same answers.

What a session lets one see are yes and no, noisy numbers, and which of many was selected. The loss of the yes and no is
the logarithm of a ratio of likelihoods, summed over the noise of the threshold that all comparisons share; the others
are as everywhere.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from experiments.printed_median import PrintedMedian
from refute import levels, losses, schemas
from refute.losses import Comparison
from refute.luck import chance, pick
from refute.pairs import Neighbourhood, Pair
from refute.released import Storage, both, fault_of, side_by_side
from refute.schemas import EPSILONS, Row, Terms
from refute.search import Measured, brief, terms_of
from refute.steering import Steered
from sfumato.answering.counting import Counting
from sfumato.answering.median import Median
from sfumato.answering.multiplicative_weights import Weights
from sfumato.answering.mwem import MWEM
from sfumato.answering.sparse_vector import Scales, SparseVector
from sfumato.answering.workload import marginals
from sfumato.answering.workload import questions as single
from sfumato.audit import recorder
from sfumato.errors import ExhaustedError
from sfumato.privacy.guarantee import Guarantee, Neighbours
from sfumato.queries.domain import Domain
from sfumato.randomness.secret import Secret
from sfumato.tables.blocks import Rows
from sfumato.tables.columns import Real

_COMPARED = ("comparison", "threshold")
_STEERED = ("comparison", "selected partition")
_CELLS = 12
_OFTEN = 25  # times that a question is asked, so that answers which cost nothing add up to something
_LIKELIHOOD = 1e-6  # allowed where a threshold's noise has so many steps that its law is taken as continuous


class _Watched:
    """Comparisons that note what was compared with what."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.seen = inner, list[Comparison]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def above(self, values: np.ndarray, threshold: int, question: bytes = b"") -> np.ndarray:
        """Ask, and note."""
        found = self.inner.above(values, threshold, question)
        self.seen.append(Comparison(int(values[0]), int(threshold), bool(found[0])))
        return np.asarray(found)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a run lets one see beside its draws, and its comparisons."""

    said: Any
    compared: tuple[Comparison, ...] = ()
    scales: Scales | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A mechanism that answers questions, prepared, at its level. ``run`` asks it all of them."""

    recipe: Any
    run: Callable[[Rows, float, Secret], Seen]
    level: float
    storage: Storage
    around: Neighbourhood
    note: str = ""
    rates: tuple[float, float] | None = None  # of the median as printed: of one comparison, of one hard answer

    @property
    def guarantee(self) -> Guarantee:
        """What is claimed."""
        return self.around.guarantee

    @property
    def settings(self) -> str:
        """In one line."""
        return f"{brief(self.recipe)}; {self.note}; {terms_of(self.guarantee)}; {self.storage.form}"

    def draw(self, luck: Generator) -> Pair:
        """A pair of neighbours."""
        return self.around.draw(luck)

    def changed(self, luck: Generator, pair: Pair) -> Pair:
        """Another one, close to it."""
        return self.around.changed(luck, pair)

    def measure(self, pair: Pair) -> Measured:
        """Ask both the same, with the same answers, and add up what these tell."""
        tape = Steered(outcome=pair.outcome, stages=_STEERED)
        again = tape.replay()
        secrets = iter([recorder.secret(tape, pair.outcome), recorder.secret(again, pair.outcome)])

        def run(table: list[Row], folder: Path) -> Seen:
            rows = self.storage.rows(self.around.schema, table, 1, folder)
            return self.run(rows, self.level, next(secrets))

        results = both(pair, run)
        if fault := fault_of(results, tape, again):
            return Measured(fault=fault)
        one, two = results
        if one.said != two.said:
            return Measured(fault="what was answered depends on the data beside the noise")
        draws = side_by_side(tape, again)
        if self.rates is not None:
            return Measured(stage=self._printed(draws), exact=False)
        told = losses.of([pair for pair in draws if not pair[0].place[0].startswith(_COMPARED)])
        told.pure += Fraction(self._compared(one, two))
        wide = one.scales is not None and (one.scales.threshold or 0.0) > 4000
        return Measured(losses.share(told, self.guarantee), exact=not one.compared, slack=_LIKELIHOOD if wide else 1e-9)

    def _compared(self, one: Seen, two: Seen) -> float:
        """What yes and no tell of the two, all of them together."""
        if not one.compared or one.scales is None:
            return 0.0
        scales = one.scales.threshold, one.scales.query
        return abs(losses.transcript(one.compared, *scales) - losses.transcript(two.compared, *scales))

    def _printed(self, draws: list[Any]) -> float:
        """The largest move of a comparison, or of a hard answer, over what its rate allows."""
        assert self.rates is not None
        found = [0.0]
        for one, two in draws:
            moved = float(np.abs(one.fed - two.fed).sum()) / one.scale
            rate = self.rates[0] if one.place[0].startswith("comparison") else self.rates[1]
            found.append(moved / rate if one.place[0].startswith(("comparison", "hard answer")) else 0.0)
        return max(found)


# ---- drawing contests -----------------------------------------------------------------------------------------------


def _ground(luck: Generator, cells: int = _CELLS) -> tuple[Domain, Neighbourhood]:
    """A small domain, and neighbours that come and go or are replaced."""
    terms = Terms(kinds=("real", "flag", "category"), clips=(None,), columns=2, levels=False, scales=("raw",))
    while True:
        of = schemas.schema(luck, terms)
        bins = {c.name: int(luck.integers(1, 4)) for c in of.data_columns if isinstance(c, Real)}
        domain = Domain.of(of, bins=bins)
        if 2 <= domain.size <= cells:
            break
    neighbours: Neighbours = pick(luck, ("replace", "add-remove"))
    group = pick(luck, (1, 1, 2, 3))
    promise = Guarantee(epsilon=pick(luck, EPSILONS), neighbours=neighbours, group=group)
    return domain, Neighbourhood(schema=of, guarantee=promise, most=6, least=1)


def _queries(luck: Generator, domain: Domain, most: int) -> np.ndarray:
    return np.asarray(luck.random((int(luck.integers(1, most + 1)), domain.size)) < pick(luck, (0.2, 0.5, 0.8)))


def counting(luck: Generator) -> Asked:
    """A list of counts at once."""
    domain, around = _ground(luck)
    queries = _queries(luck, domain, 8)
    recipe = Counting.of(domain, queries, around.guarantee.neighbours)
    ready = levels.prepared(_Undirected(recipe), domain, around.guarantee)

    def run(rows: Rows, level: float, secret: Secret) -> Seen:
        found = ready.run(rows, lambda block: queries[:, domain.cells(block)], level, secret)
        return Seen([answer.value for answer in found])

    return Asked(recipe, run, levels.level(ready, around.guarantee), Storage.drawn(luck), around)


@dataclass(frozen=True, slots=True)
class _Undirected:
    """Counting needs no domain to be prepared for."""

    recipe: Counting

    def prepare(self, domain: Domain, guarantee: Guarantee) -> Any:
        """For a guarantee alone."""
        del domain
        return self.recipe.prepare(guarantee)


def _session(luck: Generator, recipe: Any, domain: Domain, around: Neighbourhood, edges: tuple[int, ...] = ()) -> Asked:
    """A mechanism that is opened and asked a few questions, each once or over and over, or until it refuses."""
    queries = _queries(luck, domain, 4)
    if chance(luck, 0.3):
        queries = np.concatenate([queries, ~queries])  # what leaves one of them enters the other
    times = [pick(luck, (1, 1, 3, _OFTEN)) for _ in queries]
    edges = tuple(np.repeat(edges[: len(queries)], times).tolist()) if edges else ()
    queries = np.repeat(queries, times, axis=0)
    ready = levels.prepared(recipe, domain, around.guarantee)
    level = levels.level(ready, around.guarantee)

    def run(rows: Rows, at: float, secret: Secret) -> Seen:
        live = ready.start(rows, at, secret)
        watched = live._comparisons = _Watched(live._comparisons)
        said = []
        for number, query in enumerate(queries):
            try:
                answer = live.ask(query, edges[number]) if edges else live.ask(query)
            except ExhaustedError:
                break
            said.append((answer.value, answer.positive, answer.remaining))
        return Seen((said, live.rows), tuple(watched.seen), live._comparisons.scales)

    rates = None
    if isinstance(recipe, PrintedMedian):
        parts = ready.parts(level)
        rates = parts.comparing, around.guarantee.group / parts.measuring
    note = f"{len(queries)} questions of {domain.size} cells"
    return Asked(recipe, run, level, Storage.drawn(luck), around, note, rates)


def sparse_vector(luck: Generator) -> Asked:
    """Counts compared with thresholds."""
    domain, around = _ground(luck)
    numeric = pick(luck, (0.0, 0.3))
    recipe = SparseVector(threshold=0, positives=int(luck.integers(1, 7)), numeric=numeric)
    far = math.ceil(pick(luck, (1, 10, 60)) / around.guarantee.epsilon)
    edges = tuple(int(luck.integers(-far, far + 1)) for _ in range(8))
    return _session(luck, recipe, domain, around, edges)


def weights(luck: Generator) -> Asked:
    """Private multiplicative weights."""
    domain, around = _ground(luck)
    threshold = pick(luck, (None, 0, 1, 3, 20))
    recipe = Weights(updates=int(luck.integers(1, 5)), threshold=threshold, measuring=pick(luck, (0.4, 0.1)), passes=2)
    return _session(luck, recipe, domain, around)


def _median(luck: Generator) -> Median:
    given = {
        "size": int(luck.integers(2, 6)),
        "hard": int(luck.integers(1, 4)),
        "accuracy": pick(luck, (0.5, 0.1, 1.0)),
    }
    return Median(**given, width=pick(luck, (None, 1.0)))


def median(luck: Generator) -> Asked:
    """The median mechanism."""
    domain, around = _ground(luck, cells=6)
    return _session(luck, _median(luck), domain, around)


def median_as_printed(luck: Generator) -> Asked:
    """The same as its survey prints it; what it loses has a bound but no closed form, so stages are compared."""
    domain, around = _ground(luck, cells=6)
    around = replace(around, guarantee=replace(around.guarantee, epsilon=1.0, delta=1e-3, group=1))
    return _session(luck, PrintedMedian(size=4, hard=2, width=1.0), domain, around)


def mwem(luck: Generator) -> Asked:
    """A synthetic histogram for a workload."""
    domain, around = _ground(luck)
    workload = marginals(domain, 1)
    if len(workload) < 2 or chance(luck, 0.4):
        workload = single(_queries(luck, domain, 5), domain)
    recipe = MWEM(
        workload=workload,
        rounds=int(luck.integers(1, 4)),
        selection=pick(luck, ("exponential", "permute-and-flip", "noisy-max")),
        selecting=pick(luck, (0.5, 0.1)),
        passes=2,
    )
    ready = levels.prepared(recipe, domain, around.guarantee)

    def run(rows: Rows, level: float, secret: Secret) -> Seen:
        made = ready.run(rows, level, secret)
        return Seen((made.selected, made.rows, made.histogram.weights.tolist()))

    note = f"{len(workload)} of {'one part' if workload[0].parts == 1 else 'several parts'}"
    return Asked(recipe, run, levels.level(ready, around.guarantee), Storage.drawn(luck), around, note)
