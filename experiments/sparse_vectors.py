"""Four sparse vectors that were published and are not private, as Lyu, Su and Li 2017 list them, for audits.

roth      Algorithm 3 (lecture notes, 2011): the number told of a positive question is the one that was compared, so it
          bounds the noise of the threshold, and every negative answer costs.
lee       Algorithm 4 (Lee and Clifton 2014): the noise of a question does not grow with the positives.
stoddard  Algorithm 5 (Stoddard, Chen and Machanavajjhala 2014): no noise on the questions, and no end.
chen      Algorithm 6 (Chen, Xiao, Zhang and Xu 2015): noise on both, and no end.
"""

import functools
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.answering.base import Noises
from sfumato.answering.sparse_vector import Comparisons, Scales
from sfumato.audit import query_trials
from sfumato.audit.query_trials import IMPOSSIBLE, QUESTIONS, VectorSetting
from sfumato.audit.trials import Trial
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness.secret import Secret

Form = Literal["correct", "monotone", "roth", "lee", "stoddard", "chen"]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_ENDLESS = 1 << 30


class _Silent(Comparisons):
    """Questions are compared without noise of their own."""

    def above(self, values: Integers, threshold: int, question: bytes = b"") -> NDArray[np.bool_]:
        """With the noise of the threshold alone."""
        del question
        return np.asarray(values >= threshold + self.threshold)


class _SilentSetting(VectorSetting):
    """Its transcripts have other chances."""

    def run(self, noises: Noises, runs: int) -> Comparisons:
        """Many independent runs at once."""
        return _Silent(noises, self.scales, self.positives, runs)

    def above(self, gaps: Integers) -> Floats:
        """For certain, or not at all."""
        return np.asarray(gaps <= 0)


class _Telling(Comparisons):
    """What was compared is told."""

    told: Integers

    def above(self, values: Integers, threshold: int, question: bytes = b"") -> NDArray[np.bool_]:
        """As it should be, but remembered."""
        self.told = self.noises.added("comparison", values, self.scales.query, question)
        found = (self.told >= threshold + self.threshold) & (self.left > 0)
        self.left = self.left - found
        return np.asarray(found)


def setting(form: Form, epsilon: float) -> VectorSetting:
    """Each form as it was published, for sensitivity 1 and, where it has an end, three positives; and ours."""
    return {
        "correct": lambda: query_trials.correct_setting(epsilon, monotone=False),
        "monotone": lambda: query_trials.correct_setting(epsilon, monotone=True),
        "roth": lambda: VectorSetting(Scales(2 / epsilon, 2 / epsilon), 1),
        "lee": lambda: VectorSetting(Scales(4 / epsilon, 4 / (3 * epsilon)), QUESTIONS),
        "stoddard": lambda: _SilentSetting(Scales(2 / epsilon, 1.0), _ENDLESS),
        "chen": lambda: VectorSetting(Scales(2 / epsilon, 2 / epsilon), _ENDLESS),
    }[form]()


def sparse_vector(form: Form, epsilon: float) -> Trial:
    """The trial of ``query_trials``; for the form that tells numbers, the one told after negative answers counts."""
    if form == "roth":
        return Trial(Guarantee(epsilon=epsilon), "closed", functools.partial(_told, setting(form, epsilon)), 1 << 14)
    return query_trials.vector_trial(setting(form, epsilon), epsilon, monotone=form == "monotone")


def _told(roth: VectorSetting, side: int, count: int, secret: Secret) -> Floats:
    """Questions that one record raises, all below; then one above, with a number: low numbers bound the threshold."""
    run = _Telling(Noises(secret, "audit"), roth.scales, roth.positives, count)
    below = np.ones(count, bool)
    for _ in range(QUESTIONS + 1):
        below &= ~run.above(np.full(count, side), 0)
    above = run.above(np.zeros(count, np.int64), 0)
    return np.asarray(np.where(below & above, -run.told.astype(np.float64), IMPOSSIBLE))


BROKEN = {
    "sparse vector of Roth's notes 2011": functools.partial(sparse_vector, "roth"),
    "sparse vector of Lee and Clifton 2014": functools.partial(sparse_vector, "lee"),
    "sparse vector of Stoddard et al. 2014": functools.partial(sparse_vector, "stoddard"),
    "sparse vector of Chen et al. 2015": functools.partial(sparse_vector, "chen"),
}
