"""The run of a learned schema: exact counts, noise on them in three stages, and what follows from noisy counts.

Between the stages only noisy counts and public facts are looked at. Exact counts go into ``_Noise.on`` and nowhere
else.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np

from sfumato.mechanisms.schema_learning import decisions, wanted
from sfumato.mechanisms.schema_learning.bounds import Bounds, NoisyCells, first_bounds, refined, refinement, repaired
from sfumato.mechanisms.schema_learning.budget import Budget
from sfumato.mechanisms.schema_learning.cell_kinds import Tally, parts
from sfumato.mechanisms.schema_learning.counting import Reading
from sfumato.mechanisms.schema_learning.decisions import NUMBERS, Guess, NoisyKinds
from sfumato.mechanisms.schema_learning.magnitudes import octaves
from sfumato.mechanisms.schema_learning.values import Values, apart, published
from sfumato.mechanisms.schema_learning.wanted import Wanted
from sfumato.numerics.types import Floats, Integers
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness.secret import Secret
from sfumato.tables.columns import Column
from sfumato.tables.learned import Learned


@dataclass(frozen=True, slots=True, eq=False)
class LearnedDraft:
    """What was learned: columns of a schema, and what they leave out."""

    columns: tuple[Column, ...]
    learned: Learned


@dataclass(frozen=True, slots=True)
class _Noise:
    """Exact Gaussian noise on the counts of a learned schema, from a stream for each stage and column."""

    secret: Secret

    def on(self, counts: Integers, scale: float, *where: str | int) -> Floats:
        """The counts with rounded Gaussian noise of this scale on each."""
        exact = np.ascontiguousarray(counts, np.int64)
        words = self.secret.words("learned schema", *where, repr(scale), exact)
        return np.asarray((exact.ravel() + words.gaussian(exact.size, scale)).reshape(exact.shape), np.float64)


@dataclass(slots=True, eq=False)
class _Outcome:
    """What noisy counts say of the columns of a learned schema; filled stage by stage."""

    kinds: dict[str, NoisyKinds]
    guesses: dict[str, Guess]
    rows: int
    octaves: dict[str, list[NoisyCells]] = field(default_factory=dict)
    bounds: dict[str, tuple[Bounds, ...]] = field(default_factory=dict)
    values: dict[str, Values] = field(default_factory=dict)
    cut: dict[str, float] = field(default_factory=dict)
    spread: dict[str, float] = field(default_factory=dict)


def learn(
    columns: Sequence[Wanted], guarantee: Guarantee, failure: float, reading: Reading, level: float, secret: Secret
) -> LearnedDraft:
    """Learn a schema: read the table once for all columns, and once more for those that turn out to hold texts."""
    noise, budget = _Noise(secret), Budget.of(guarantee, level)
    tallies, rows = reading.tallies({column.name: column.shape for column in columns})
    outcome, budget = _kinds(columns, tallies, noise, budget, rows if guarantee.neighbours == "replace" else None)
    refines = any(guess in NUMBERS for guess in outcome.guesses.values())
    scales, budget = wanted.measured(columns, outcome.guesses, budget, refines=refines)
    limits = wanted.thresholds(columns, outcome.guesses, scales, guarantee.group, failure)
    _first_bounds(outcome, tallies, scales, noise)
    most = {c.name: c.most if c.shape == "set" else None for c in columns if c.name in limits}
    with ExitStack() as stack:
        for name, counts in reading.texts(most, stack).items():

            def noisy(place: int, exact: Integers, name: str = name) -> Floats:
                return noise.on(exact, scales[name], "texts", name, place)

            outcome.values[name] = published(counts.chunks(), limits[name], noisy)
    _refine(outcome, tallies, budget, noise)
    return _draft(columns, guarantee, outcome)


def _kinds(
    columns: Sequence[Wanted], tallies: Mapping[str, Tally], noise: _Noise, budget: Budget, rows: int | None
) -> tuple[_Outcome, Budget]:
    """First stage: kinds of cells. Every column's counts add up to the number of rows, which gives it if protected."""
    scale, after = budget.kinds(len(columns))
    counts = noise.on(np.array([tallies[c.name].kinds for c in columns]), scale, "kinds")
    kinds = {c.name: NoisyKinds(counts[place], scale) for place, c in enumerate(columns)}
    guesses = {c.name: c.guess or kinds[c.name].guess() for c in columns}
    about = max(0, round(float(counts.sum(axis=1).mean()))) if rows is None else rows
    return _Outcome(kinds, guesses, about), after


def _histograms(guess: Guess, tally: Tally) -> list[Integers]:
    """The exact counts by part that bounds of a column are learned from: of a vector, least and largest numbers."""
    if guess == "vector":
        return [parts(tally.numbers), parts(tally.others)]
    return [parts(tally.others if guess in ("date", "datetime") else tally.numbers)]


def _whole(guess: Guess) -> bool:
    return guess in ("integer", "date", "datetime")


def _first_bounds(outcome: _Outcome, tallies: Mapping[str, Tally], scales: Mapping[str, float], noise: _Noise) -> None:
    """Second stage, of numbers: first bounds from octaves."""
    for name, guess in outcome.guesses.items():
        if guess in NUMBERS:
            outcome.octaves[name] = [
                NoisyCells(
                    octaves(), noise.on(octaves().counts(exact), scales[name], "octaves", name, place), scales[name]
                )
                for place, exact in enumerate(_histograms(guess, tallies[name]))
            ]
            found = [first_bounds(noisy, outcome.rows, whole=_whole(guess)) for noisy in outcome.octaves[name]]
            outcome.bounds[name] = tuple(found)


def _refine(outcome: _Outcome, tallies: Mapping[str, Tally], budget: Budget, noise: _Noise) -> None:
    """Third stage: bounds refined by equal cells, with all of the budget that is left, and what they cut."""
    numbers = {name: guess for name, guess in outcome.guesses.items() if guess in NUMBERS}
    scales = budget.refined({name: len(outcome.bounds[name]) for name in numbers})
    for name, guess in numbers.items():
        made, cut, cells = [], 0.0, 0
        for place, exact in enumerate(_histograms(guess, tallies[name])):
            first = outcome.bounds[name][place]
            even = refinement(first, outcome.rows, scales[name], whole=_whole(guess))
            noisy = NoisyCells(even, noise.on(even.counts(exact), scales[name], "equal", name, place), scales[name])
            inner = refined(noisy, first, outcome.rows)
            last, taken_in = repaired(inner, first, noisy, outcome.octaves[name][place], outcome.rows)
            below, above = inner.low, inner.high
            if guess == "vector":  # of the least numbers only those below count, of the largest those above
                below, above = (below, math.inf) if place == 0 else (-math.inf, above)
            outside, number = noisy.outside(below, above)
            made.append(last)
            cut, cells = cut + outside - taken_in, cells + number
        outcome.bounds[name] = tuple(made)
        outcome.cut[name], outcome.spread[name] = cut, scales[name] * math.sqrt(cells)
        if decisions.is_flag(guess, made[0]):
            outcome.guesses[name] = "flag"


def _draft(columns: Sequence[Wanted], guarantee: Guarantee, outcome: _Outcome) -> LearnedDraft:
    """Columns from what noisy counts say of them; one of texts without any value is left out."""
    unlisted = {
        name: max(0, round(outcome.rows - values.kept))
        for name, values in outcome.values.items()
        if outcome.guesses[name] == "category"
    }
    spread = outcome.spread | {name: outcome.values[name].spread for name in unlisted}
    made = [_column(column, outcome, unlisted) for column in columns]
    learned = Learned(
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        neighbours=guarantee.neighbours,
        group=guarantee.group,
        rows=outcome.rows,
        cut={name: max(0, round(count)) for name, count in outcome.cut.items()},
        unlisted=unlisted,
        noise={name: float(f"{deviation:.3g}") for name, deviation in spread.items()},
    )
    return LearnedDraft(apart(column for column in made if column is not None), learned)


def _column(column: Wanted, outcome: _Outcome, unlisted: Mapping[str, int]) -> Column | None:
    name, guess = column.name, outcome.guesses[column.name]
    if name in outcome.values:
        values = outcome.values[name]
        many = unlisted.get(name, 0) > decisions.EVIDENCE * max(values.spread, outcome.kinds[name].deviation)
        most = column.most if guess == "set" else None
        return decisions.text_column(name, values.texts, most, missing=many)
    if guess == "vector":
        return decisions.vector_column(name, column.size, *outcome.bounds[name])
    bounds = outcome.bounds.get(name, (Bounds(0.0, 1.0),))[0]
    return decisions.number_column(name, guess, bounds, missing=outcome.kinds[name].lacks(guess))
