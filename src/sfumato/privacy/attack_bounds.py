"""What (epsilon, delta) leaves to any attack whatever: bounds on success that need no attacker.

All rest on one fact (Kairouz, Oh and Viswanath 2015): what a private mechanism tells of two neighbours can be made from
an answer that is the truth outright with probability delta and otherwise a randomized response at epsilon.
"""

import math

import numpy as np
from numpy.typing import NDArray

from sfumato import check


def advantage(epsilon: float, delta: float = 0.0) -> float:
    """Bound on any attack's advantage Pr[say yes | yes] - Pr[say yes | no] between neighbours.

    Most that Pr[say yes | yes] - Pr[say yes | no] can be between neighbours: (e^eps - 1 + 2 delta)/(e^eps + 1).
    """
    _check(epsilon, delta)
    return min(1.0, math.tanh(epsilon / 2) + 2 * delta / (1 + math.exp(min(epsilon, 700.0))))


def guess(epsilon: float, delta: float = 0.0, prior: float = 0.5) -> float:
    """Bound on any attack's guessing.

    Most often that one of two values is guessed rightly, the likelier of which has this prior probability.
    """
    _check(epsilon, delta)
    check.between(0.5, 1, prior=prior)
    return delta + (1 - delta) * max(prior, (1 + math.tanh(epsilon / 2)) / 2)


def correlation(epsilon: float, delta: float = 0.0) -> float:
    """Bound on any attack's reconstruction by correlation.

    Largest correlation between a function of one unit and any function of the release: sqrt(d + (1-d) tanh^2(e/2)).

    Assumes: the release depends on this unit through a private mechanism and all else it depends on is independent of
    the unit; so for a record, independent records; for one value, independent values too.
    Reference: the squared maximal correlation of a channel is its chi^2 contraction, which two inputs attain
    (Ordentlich and Polyanskiy 2021); for these it is that of the answer above (Asoodeh and Zhang 2024 for delta = 0).
    """
    _check(epsilon, delta)
    return math.sqrt(delta + (1 - delta) * math.tanh(epsilon / 2) ** 2)


def link(epsilon: float, users: int, changes: NDArray[np.integer] | int = 1, delta: float = 0.0) -> float:
    """Bound on any attack's linkage.

    Most often that the row of a target is found among ``users`` rows in random order.

    changes : in how many units the target's record differs from each of some records drawn from its population; 1 where
              the unit is a record.
    Proof: let p be the chance to name the target's place, and q(x') that chance when the place holds another record x',
    drawn as all the others are, differing in h units. Then p <= e^(h eps) q(x') + delta_h, where by h steps delta_h =
    delta (e^(h eps) - 1) / (e^eps - 1). Divided by e^(h eps) and averaged over x': p E[e^(-h eps)] <= q +
    E[e^(-h eps) delta_h], where q is the chance to name that place when the target is in none. Over all places, each of
    which may be the target's, these q sum to at most 1.
    """
    _check(epsilon, delta)
    check.whole(1, users=users)
    kept = np.exp(-np.asarray(changes, float) * epsilon)
    slack = delta * (1 - kept) / math.expm1(min(epsilon, 700.0))
    return float(min(1.0, (1 / users + slack.mean()) / max(float(kept.mean()), 1e-300)))


def _check(epsilon: float, delta: float) -> None:
    check.positive(epsilon=epsilon)
    check.probability_below_one(delta=delta)
