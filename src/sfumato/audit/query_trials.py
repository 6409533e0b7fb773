"""How mechanisms that select or answer are sampled and scored, each on a bad pair; and the published forms that fail.

What is sampled is the mechanism's own code, or, for whole mechanisms, the draws of one recorded run; a score is the
logarithm of the likelihood ratio of what came out, or grows with it. Sparse vector is there in its correct form and in
four that were published and are not private, as Lyu, Su and Li 2017 list them:

roth      Algorithm 3 (lecture notes, 2011): the number told of a positive question is the one that was compared, so it
          bounds the noise of the threshold, and every negative answer costs.
lee       Algorithm 4 (Lee and Clifton 2014): the noise of a question does not grow with the positives.
stoddard  Algorithm 5 (Stoddard, Chen and Machanavajjhala 2014): no noise on the questions, and no end.
chen      Algorithm 6 (Chen, Xiao, Zhang and Xu 2015): noise on both, and no end.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from sfumato.answering.base import Noises
from sfumato.answering.counting import Counting
from sfumato.answering.median import Median, PreparedMedian
from sfumato.answering.median import Parts as MedianParts
from sfumato.answering.multiplicative_weights import Parts as WeightsParts
from sfumato.answering.multiplicative_weights import PreparedWeights, Weights
from sfumato.answering.mwem import MWEM, Parts, PreparedMWEM
from sfumato.answering.sparse_vector import Comparisons, Scales
from sfumato.answering.workload import Partition
from sfumato.audit import recorder
from sfumato.audit.recorder import Draw, Tape
from sfumato.audit.trials import Trial, of_draws
from sfumato.numerics.types import Floats, Integers
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.guarantee import Guarantee
from sfumato.queries.domain import Domain
from sfumato.randomness.private_selection import Method
from sfumato.randomness.secret import Secret
from sfumato.tables.columns import Category, Flag
from sfumato.tables.schema import Schema

Form = Literal["correct", "monotone", "roth", "lee", "stoddard", "chen"]

_OTHERS = 7  # candidates whose scores move against the first
_QUESTIONS = 3  # below the threshold, and as many above it
_IMPOSSIBLE = -50.0  # logarithm of a chance that is 0
_REACH = 400


def _scores(side: int, others: int = _OTHERS) -> list[int]:
    """The first candidate leads by one, or all others do: every score moves by one."""
    return [1, *[0] * others] if side == 0 else [0, *[1] * others]


def selection(method: Method, epsilon: float, *, forgotten: bool = False) -> Trial:
    """Selecting one of a few whose scores move against each other. ``forgotten``: the twin without its factor 2."""

    def sample(side: int, count: int, secret: Secret) -> Floats:
        words, scores = secret.words("audit selection"), _scores(side)
        draw = functools.partial(
            words.select, scores, epsilon=epsilon, sensitivity=1, monotone=forgotten, method=method
        )
        return np.array([float(draw() == 0) for _ in range(count)])

    return Trial(Guarantee(epsilon=epsilon), "closed", sample, 1000)


def counts(epsilon: float, *, share: float = 1.0) -> Trial:
    """Laplace counts of 1 against 0, many at once. ``share``: of the noise that a broken twin keeps."""
    guarantee = Guarantee(epsilon=epsilon)
    level = calibrate(Counting().prepare(guarantee), guarantee).level * share

    def sample(side: int, count: int, secret: Secret) -> Floats:
        prepared = Counting(questions=count, move=1).prepare(guarantee)
        answers = prepared.answer(np.full(count, 1 - side), level, secret)
        values = np.array([answer.value for answer in answers], float)
        return np.asarray(np.round(np.abs(values) - np.abs(values - 1), 9))

    return Trial(guarantee, "closed", sample, 1 << 14)


# ---- sparse vector --------------------------------------------------------------------------------------------------


class _Silent(Comparisons):
    """Questions are compared without noise of their own."""

    def above(self, values: Integers, threshold: int, question: bytes = b"") -> NDArray[np.bool_]:
        """With the noise of the threshold alone."""
        del question
        return np.asarray(values >= threshold + self.threshold)


class _Telling(Comparisons):
    """What was compared is told."""

    told: Integers

    def above(self, values: Integers, threshold: int, question: bytes = b"") -> NDArray[np.bool_]:
        """As it should be, but remembered."""
        self.told = self.noises.added("comparison", values, self.scales.query, question)
        found = (self.told >= threshold + self.threshold) & (self.left > 0)
        self.left = self.left - found
        return np.asarray(found)


@dataclass(frozen=True, slots=True)
class _Setting:
    """A form of sparse vector with as many positives as it allows."""

    scales: Scales
    positives: int
    kind: type[Comparisons] = Comparisons


def _setting(form: Form, epsilon: float) -> _Setting:
    """Each form as it was published, for sensitivity 1 and, where it has an end, three positives."""
    endless = 1 << 30
    return {
        "correct": lambda: _Setting(Scales.of(epsilon, _QUESTIONS, 1, monotone=False)[0], _QUESTIONS),
        "monotone": lambda: _Setting(Scales.of(epsilon, _QUESTIONS, 1, monotone=True)[0], _QUESTIONS),
        "roth": lambda: _Setting(Scales(2 / epsilon, 2 / epsilon), 1, _Telling),
        "lee": lambda: _Setting(Scales(4 / epsilon, 4 / (3 * epsilon)), _QUESTIONS),
        "stoddard": lambda: _Setting(Scales(2 / epsilon, 1.0), endless, _Silent),
        "chen": lambda: _Setting(Scales(2 / epsilon, 2 / epsilon), endless),
    }[form]()


def sparse_vector(form: Form, epsilon: float) -> Trial:
    """Three questions that one record raises, then three that it lowers (monotone: raises as well).

    Scores are likelihood ratios of all six answers; for the form that tells numbers, the number told after negative
    answers, turned round.
    """
    setting, guarantee = _setting(form, epsilon), Guarantee(epsilon=epsilon)
    if form == "roth":
        return Trial(guarantee, "closed", functools.partial(_told, setting), 1 << 14)
    asked = np.array([[0] * 2 * _QUESTIONS, [1] * _QUESTIONS + [1 if form == "monotone" else -1] * _QUESTIONS])
    losses = _losses(setting, asked)

    def sample(side: int, count: int, secret: Secret) -> Floats:
        run = setting.kind(Noises(secret, "audit"), setting.scales, setting.positives, count)
        answers = [run.above(np.full(count, value), 0) for value in asked[side].tolist()]
        return np.asarray(losses[np.array(answers).T @ (1 << np.arange(2 * _QUESTIONS))])

    return Trial(guarantee, "closed", sample, 1 << 15)


def _losses(setting: _Setting, asked: Integers) -> Floats:
    """The loss of every transcript, by its answers as bits."""
    codes = np.arange(1 << asked.shape[1])
    logs = []
    for values in asked:
        chances = np.array([_chance(setting, values, code >> np.arange(len(values)) & 1) for code in codes])
        with np.errstate(divide="ignore"):
            logs.append(np.maximum(np.log(chances), _IMPOSSIBLE))
    return np.asarray(np.round(logs[0] - logs[1], 9))


def _chance(setting: _Setting, values: Integers, answers: Integers) -> float:
    """The probability of a transcript: a sum over the rounded noise of the threshold."""
    r, scales, left = np.arange(-_REACH, _REACH + 1), setting.scales, setting.positives
    mass = np.diff(stats.laplace.cdf(np.arange(-_REACH, _REACH + 2) - 0.5, scale=scales.threshold))
    for value, answer in zip(values.tolist(), answers.tolist(), strict=True):
        above = (value >= r) if setting.kind is _Silent else stats.laplace.sf(r - value - 0.5, scale=scales.query)
        if left:
            mass = mass * (above if answer else 1.0 - above)
            left -= answer
        elif answer:
            return 0.0
    return float(mass.sum())


def _told(setting: _Setting, side: int, count: int, secret: Secret) -> Floats:
    """Questions that one record raises, all below; then one above, with a number: low numbers bound the threshold."""
    run = _Telling(Noises(secret, "audit"), setting.scales, setting.positives, count)
    below = np.ones(count, bool)
    for _ in range(_QUESTIONS + 1):
        below &= ~run.above(np.full(count, side), 0)
    above = run.above(np.zeros(count, np.int64), 0)
    return np.asarray(np.where(below & above, -run.told.astype(np.float64), _IMPOSSIBLE))


# ---- whole mechanisms -----------------------------------------------------------------------------------------------


_CELLS = Domain.of(Schema((Category("c", tuple("abcd"), "a"),)))


class _Doubled(PreparedMWEM):
    """Twice the epsilon for selecting that is accounted for."""

    def parts(self, level: float) -> Parts:
        """As if, but for that."""
        honest = PreparedMWEM.parts(self, level)
        return replace(honest, selecting=2 * honest.selecting)


def mwem(epsilon: float, *, doubled: bool = False) -> Trial:
    """One round of MWEM, where one record moves the score of one question up and of all others down.

    Uniform weights guess 10 rows for each of four cells. A record moves between the first two: then the first question
    is off by one, or all the others are, which ask for the second cell. ``doubled``: the broken twin.
    """
    guarantee, cells = Guarantee(epsilon=epsilon), np.eye(4, dtype=bool)
    workload = tuple(Partition.question(cells[min(i, 1)], _CELLS, f"{i}") for i in range(1 + _OTHERS))
    recipe = MWEM(workload=workload, rounds=1, selecting=0.9, passes=1, selection="exponential")
    prepared = recipe.prepare(_CELLS, guarantee)
    level = calibrate(prepared, guarantee).level
    run = (_Doubled if doubled else PreparedMWEM)(recipe, _CELLS, guarantee)
    tables = np.array([11, 10, 10, 9]), np.array([10, 11, 10, 9])
    return of_draws(guarantee, _recorded(tables, lambda table, secret: run.make(table, level, secret)))


def _recorded(tables: tuple[Integers, Integers], run: Callable[[Integers, Secret], object]) -> list[tuple[Draw, Draw]]:
    """The draws of a run on two histograms, the second with the outcomes of the first."""
    tape = Tape()
    again = tape.replay()
    for table, secret in zip(tables, (recorder.secret(tape), recorder.secret(again)), strict=True):
        run(table, secret)
    assert not again.faults, again.faults
    return [(draw, again.draws[key]) for key, draw in tape.draws.items()]


class _LoudWeights(PreparedWeights):
    """Half the noise on what is measured."""

    def parts(self, level: float) -> WeightsParts:
        """As if, but for that."""
        honest = PreparedWeights.parts(self, level)
        return replace(honest, measuring=honest.measuring / 2)


class _LoudMedian(PreparedMedian):
    """Half the noise on hard answers."""

    def parts(self, level: float) -> MedianParts:
        """As if, but for that."""
        honest = PreparedMedian.parts(self, level)
        return replace(honest, measuring=honest.measuring / 2)


_TWO = Domain.of(Schema((Flag("a"),)))


def weights(epsilon: float, *, louder: bool = False) -> Trial:
    """Private multiplicative weights that measure their only update at nearly all of epsilon. ``louder``: the twin."""
    guarantee = Guarantee(epsilon=epsilon)
    honest = Weights(updates=1, threshold=-(1 << 40), measuring=0.9, passes=1).prepare(_TWO, guarantee)
    level = calibrate(honest, guarantee).level
    return _measured(guarantee, _LoudWeights(honest.recipe, _TWO, guarantee) if louder else honest, level)


def median(epsilon: float, *, louder: bool = False) -> Trial:
    """The median mechanism with one hard question, which hardly any candidate answers. ``louder``: the twin."""
    guarantee = Guarantee(epsilon=epsilon)
    honest = Median(size=2, hard=1, accuracy=0.01, measuring=0.9).prepare(_TWO, guarantee)
    level = calibrate(honest, guarantee).level
    return _measured(guarantee, _LoudMedian(honest.recipe, _TWO, guarantee, 1) if louder else honest, level)


def _measured(guarantee: Guarantee, prepared: PreparedWeights | PreparedMedian, level: float) -> Trial:
    """One question of which one record moves the count by one, of so many rows that it is hard for certain, nearly.

    Its comparison is drawn as well: one of them alone costs less than what sparse vector is accounted for.
    """
    tables, first = (10**8 * np.array([3, 2]) + [1, -1], 10**8 * np.array([3, 2])), np.array([True, False])
    return of_draws(guarantee, _recorded(tables, lambda table, secret: prepared.begin(table, level, secret).ask(first)))


Made = Callable[[float], Trial]

HONEST: dict[str, Made] = {
    "exponential mechanism": functools.partial(selection, "exponential"),
    "permute-and-flip": functools.partial(selection, "permute-and-flip"),
    "noisy maximum": functools.partial(selection, "noisy-max"),
    "Laplace counts": counts,
    "sparse vector": functools.partial(sparse_vector, "correct"),
    "sparse vector, monotone": functools.partial(sparse_vector, "monotone"),
    "multiplicative weights": weights,
    "median mechanism": median,
    "MWEM": mwem,
}
BROKEN: dict[str, Made] = {
    "exponential mechanism without its factor 2": functools.partial(selection, "exponential", forgotten=True),
    "permute-and-flip without its factor 2": functools.partial(selection, "permute-and-flip", forgotten=True),
    "noisy maximum without its factor 2": functools.partial(selection, "noisy-max", forgotten=True),
    "Laplace counts with half the noise": functools.partial(counts, share=0.5),
    "sparse vector of Roth's notes 2011": functools.partial(sparse_vector, "roth"),
    "sparse vector of Lee and Clifton 2014": functools.partial(sparse_vector, "lee"),
    "sparse vector of Stoddard et al. 2014": functools.partial(sparse_vector, "stoddard"),
    "sparse vector of Chen et al. 2015": functools.partial(sparse_vector, "chen"),
    "multiplicative weights that measure with half the noise": functools.partial(weights, louder=True),
    "median mechanism that answers with half the noise": functools.partial(median, louder=True),
    "MWEM that selects with twice its share": functools.partial(mwem, doubled=True),
}
