"""Constants as papers print them, to compare with: too little noise for what is claimed, or far more than it needs.

None of them is used by a release.
"""

import math

from sfumato import check
from sfumato.audit.trials import Trial, fresh_rows
from sfumato.intervals.moments import Geometry, NoiseLaw, SketchLaw
from sfumato.privacy.guarantee import Change, Guarantee


def graph_ridge(rows: int, epsilon: float, delta: float) -> float:
    """The weight that Blocki et al. 2012, Algorithm 1, asks for: 55 to 96 times ours."""
    return math.sqrt(32 * rows * math.log(2 / delta)) / epsilon * math.log(4 * rows / delta)


def projection_error(distance: float, *, columns: int, rows: int, epsilon: float, dimension: int) -> float:
    """The standard error of Kenthapadi et al.'s own projection: gaussian P, Lemma 2's noise at delta = 1/n."""
    check.whole(2, rows=rows)
    noise = NoiseLaw("gaussian", 4 / epsilon * math.sqrt(math.log(rows)))
    return math.sqrt(SketchLaw(noise, Geometry("gaussian", columns, dimension)).distance_variance(distance**2))


def gaussian_epsilon(scale: float, delta: float) -> float:
    """The least epsilon by Kenthapadi et al.'s Theorem 1: scale = sqrt(2 (ln(1/(2 delta)) + epsilon)) / epsilon.

    Where delta >= 1/2 the theorem says nothing sensible; the logarithm is cut at 0 there.
    """
    log = max(0.0, math.log(1 / (2 * delta)))
    return (1 + math.sqrt(1 + 2 * scale**2 * log)) / scale**2


def row_wise_laplace(dimension: int = 2, epsilon: float = 4.0, delta: float = 1e-6) -> Trial:
    """Dhaliwal et al. 2020, Algorithm 1 with the constant of Theorem 5, as an (epsilon, delta) claim: it is false.

    A gaussian projection to k numbers with Laplace noise of scale k t / epsilon, t = sqrt(2 ln(2k) / k) for changes of
    length 1, is said to be epsilon-private with a probability that is 0 at this t.
    """
    t = math.sqrt(2 * math.log(2 * dimension) / dimension)
    promise = Guarantee(epsilon=epsilon, delta=delta, change=Change.l2(1.0), projection="fresh")
    return fresh_rows(promise, "laplace", dimension, dimension * t / epsilon)
