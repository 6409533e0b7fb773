"""How mechanisms that select or answer are sampled and scored, each on a bad pair.

What is sampled is the mechanism's own code, or, for whole mechanisms, the draws of one recorded run; a score is the
logarithm of the likelihood ratio of what came out, or grows with it.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from sfumato.answering.base import Noises
from sfumato.answering.counting import Counting
from sfumato.answering.median import Median, PreparedMedian
from sfumato.answering.multiplicative_weights import PreparedWeights, Weights
from sfumato.answering.mwem import MWEM, PreparedMWEM
from sfumato.answering.sparse_vector import Comparisons, Scales
from sfumato.answering.workload import DisjointParts
from sfumato.audit.recorder import replayed_pair
from sfumato.audit.trials import Trial, of_draws
from sfumato.numerics.types import Floats, Integers
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.guarantee import Guarantee
from sfumato.queries.domain import Domain
from sfumato.randomness.private_selection import Method
from sfumato.randomness.secret import Secret
from sfumato.tables.columns import Category, Flag
from sfumato.tables.schema import Schema

_OTHERS = 7  # candidates whose scores move against the first
QUESTIONS = 3  # that one record raises, and as many that it lowers
IMPOSSIBLE = -50.0  # logarithm of a chance that is 0
_REACH = 400


def _scores(side: int, others: int = _OTHERS) -> list[int]:
    """Scores of candidates in the trial of a selection.

    The first candidate leads by one, or all others do: every score moves by one.
    """
    return [1, *[0] * others] if side == 0 else [0, *[1] * others]


def selection(method: Method, epsilon: float, *, forgotten: bool = False) -> Trial:
    """The trial of selecting one of a few whose scores move against each other.

    ``forgotten``: the twin without its factor 2.
    """

    def sample(side: int, count: int, secret: Secret) -> Floats:
        words, scores = secret.words("audit selection"), _scores(side)
        draw = functools.partial(
            words.select, scores, epsilon=epsilon, sensitivity=1, monotone=forgotten, method=method
        )
        return np.array([float(draw() == 0) for _ in range(count)])

    return Trial(Guarantee(epsilon=epsilon), "closed", sample, 1000)


def counts(epsilon: float, *, share: float = 1.0) -> Trial:
    """The trial of Laplace counts that answer queries, 1 against 0, many at once.

    ``share``: of the noise that a broken twin keeps.
    """
    guarantee = Guarantee(epsilon=epsilon)
    level = calibrate(Counting().prepare(guarantee), guarantee).level * share

    def sample(side: int, count: int, secret: Secret) -> Floats:
        prepared = Counting(questions=count, move=1).prepare(guarantee)
        answers = prepared.answer(np.full(count, 1 - side), level, secret)
        values = np.array([answer.value for answer in answers], float)
        return np.asarray(np.round(np.abs(values) - np.abs(values - 1), 9))

    return Trial(guarantee, "closed", sample, 1 << 14)


# ---- sparse vector --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VectorSetting:
    """A sparse vector of sensitivity 1: its scales, and how many positives it allows."""

    scales: Scales
    positives: int

    def run(self, noises: Noises, runs: int) -> Comparisons:
        """Many independent runs of the sparse vector in a trial at once."""
        return Comparisons(noises, self.scales, self.positives, runs)

    def above(self, gaps: Integers) -> Floats:
        """Trial of a sparse vector: chance that a query is above, its value so far below its noisy threshold."""
        return np.asarray(stats.laplace.sf(gaps - 0.5, scale=self.scales.query))

    def chance(self, values: Integers, answers: Integers) -> float:
        """Trial of a sparse vector: probability of a transcript, a sum over the threshold's rounded noise."""
        r, left = np.arange(-_REACH, _REACH + 1), self.positives
        mass = np.diff(stats.laplace.cdf(np.arange(-_REACH, _REACH + 2) - 0.5, scale=self.scales.threshold))
        for value, answer in zip(values.tolist(), answers.tolist(), strict=True):
            above = self.above(r - value)
            if left:
                mass = mass * (above if answer else 1.0 - above)
                left -= answer
            elif answer:
                return 0.0
        return float(mass.sum())

    def losses(self, asked: Integers) -> Floats:
        """Trial of a sparse vector: loss of every transcript, by answers as bits, for these values of two sides."""
        codes = np.arange(1 << asked.shape[1])
        logs = []
        for values in asked:
            chances = np.array([self.chance(values, code >> np.arange(len(values)) & 1) for code in codes])
            with np.errstate(divide="ignore"):
                logs.append(np.maximum(np.log(chances), IMPOSSIBLE))
        return np.asarray(np.round(logs[0] - logs[1], 9))


def correct_setting(epsilon: float, *, monotone: bool) -> VectorSetting:
    """Our sparse vector for its trial, with as many positives as there are queries of a kind."""
    return VectorSetting(Scales.of(epsilon, QUESTIONS, 1, monotone=monotone)[0], QUESTIONS)


def vector_trial(setting: VectorSetting, epsilon: float, *, monotone: bool = False) -> Trial:
    """The trial of a sparse vector: three queries that one record raises, then three that it lowers (monotone: raises).

    Scores are likelihood ratios of all six answers.
    """
    asked = np.array([[0] * 2 * QUESTIONS, [1] * QUESTIONS + [1 if monotone else -1] * QUESTIONS])
    losses = setting.losses(asked)

    def sample(side: int, count: int, secret: Secret) -> Floats:
        run = setting.run(Noises(secret, "audit"), count)
        answers = [run.above(np.full(count, value), 0) for value in asked[side].tolist()]
        return np.asarray(losses[np.array(answers).T @ (1 << np.arange(2 * QUESTIONS))])

    return Trial(Guarantee(epsilon=epsilon), "closed", sample, 1 << 15)


def sparse_vector(epsilon: float, *, monotone: bool = False) -> Trial:
    """The trial of our sparse vector, for queries that may move either way, or for those that all move one way."""
    return vector_trial(correct_setting(epsilon, monotone=monotone), epsilon, monotone=monotone)


# ---- whole mechanisms -----------------------------------------------------------------------------------------------


_CELLS = Domain.of(Schema((Category("c", tuple("abcd"), "a"),)))


def mwem(epsilon: float, twin: type[PreparedMWEM] = PreparedMWEM) -> Trial:
    """The trial of one round of MWEM, where one record moves the score of one query up and of all others down.

    Uniform weights guess 10 rows for each of four cells. A record moves between the first two: then the first question
    is off by one, or all the others are, which ask for the second cell. ``twin``: what runs at the calibrated level.
    """
    guarantee, cells = Guarantee(epsilon=epsilon), np.eye(4, dtype=bool)
    workload = tuple(DisjointParts.question(cells[min(i, 1)], _CELLS, f"{i}") for i in range(1 + _OTHERS))
    recipe = MWEM(workload=workload, rounds=1, selecting=0.9, passes=1, selection="exponential")
    prepared = recipe.prepare(_CELLS, guarantee)
    level = calibrate(prepared, guarantee).level
    run = twin(recipe, _CELLS, guarantee)
    tables = np.array([11, 10, 10, 9]), np.array([10, 11, 10, 9])
    return of_draws(guarantee, replayed_pair(tables, lambda table, secret: run.make(table, level, secret)))


_TWO = Domain.of(Schema((Flag("a"),)))


def weights(epsilon: float, twin: type[PreparedWeights] = PreparedWeights) -> Trial:
    """The trial of multiplicative weights that answer queries, measuring their only update at nearly all of epsilon."""
    guarantee = Guarantee(epsilon=epsilon)
    honest = Weights(updates=1, threshold=-(1 << 40), measuring=0.9, passes=1).prepare(_TWO, guarantee)
    level = calibrate(honest, guarantee).level
    return _measured(guarantee, twin(honest.recipe, _TWO, guarantee), level)


def median(epsilon: float, twin: type[PreparedMedian] = PreparedMedian) -> Trial:
    """The trial of the median mechanism with one hard query, which hardly any candidate answers."""
    guarantee = Guarantee(epsilon=epsilon)
    honest = Median(size=2, hard=1, accuracy=0.01, measuring=0.9).prepare(_TWO, guarantee)
    level = calibrate(honest, guarantee).level
    return _measured(guarantee, twin(honest.recipe, _TWO, guarantee, honest.hard), level)


def _measured(guarantee: Guarantee, prepared: PreparedWeights | PreparedMedian, level: float) -> Trial:
    """The trial of one query whose count one record moves by one, of so many rows that it is hard for certain, nearly.

    Its comparison is drawn as well: one of them alone costs less than what sparse vector is accounted for.
    """
    tables, first = (10**8 * np.array([3, 2]) + [1, -1], 10**8 * np.array([3, 2])), np.array([True, False])
    return of_draws(
        guarantee, replayed_pair(tables, lambda table, secret: prepared.begin(table, level, secret).ask(first))
    )


Made = Callable[[float], Trial]

HONEST: dict[str, Made] = {
    "exponential mechanism": functools.partial(selection, "exponential"),
    "permute-and-flip": functools.partial(selection, "permute-and-flip"),
    "noisy maximum": functools.partial(selection, "noisy-max"),
    "Laplace counts": counts,
    "sparse vector": sparse_vector,
    "sparse vector, monotone": functools.partial(sparse_vector, monotone=True),
    "multiplicative weights": weights,
    "median mechanism": median,
    "MWEM": mwem,
}
