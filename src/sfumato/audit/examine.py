"""One audit: sample a trial within a budget of samples and time, bound epsilon from below, control the audit itself.

Guarantee: a mechanism that keeps its promise is refuted with probability at most 1 - confidence, and so is the control,
which puts the same input on both sides. How long sampling goes on depends on the clock alone, not on what was found.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from sfumato.audit import classifier
from sfumato.audit.bound import Bound, lower_bound
from sfumato.audit.trials import Method, Trial
from sfumato.numerics.types import Floats
from sfumato.randomness.secret import Secret

Progress = Callable[[int], None]

_CONTROL = 20_000  # samples of the control, on either side


@dataclass(frozen=True, slots=True)
class Finding:
    """What an audit says of a mechanism.

    bound   : the lower bound on its epsilon, at its delta and a stated confidence.
    control : the same where both sides have one input; anything above 0 speaks against the audit.
    """

    epsilon: float
    delta: float
    method: Method
    bound: Bound
    control: Bound
    seconds: float

    @property
    def share(self) -> float:
        """How much of the claimed epsilon the examination reached."""
        return self.bound.epsilon / self.epsilon

    @property
    def refuted(self) -> bool:
        """Whether the examined claim is false, at the confidence of the bound."""
        return self.bound.refutes(self.epsilon)

    @property
    def passed(self) -> bool:
        """Whether the examined claim stands and the audit is sound."""
        return not self.refuted and self.control.epsilon == 0

    @property
    def verdict(self) -> str:
        """The verdict of an examination, in a word or two."""
        return "REFUTED" if self.refuted else "holds" if self.passed else "AUDIT UNSOUND"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How hard to try: samples of each side, seconds at most, and the confidence of each bound.

    seed : for tests; left out, the system's randomness.
    """

    samples: int = 1_000_000
    seconds: float = 60.0
    confidence: float = 0.999
    seed: int | None = None

    def secret(self, number: int) -> Secret:
        """A key for each part of an examination."""
        return Secret.fresh() if self.seed is None else Secret.for_testing(self.seed * 1_000_003 + number)


def examine(trial: Trial, effort: Effort, progress: Progress = lambda _: None) -> Finding:
    """One audit: sample both sides of a trial side by side, then bound epsilon from below, with a control."""
    start, delta = time.monotonic(), trial.guarantee.delta
    # The second of the two sides of the control is more of the first input.
    counts = effort.samples, effort.samples, min(_CONTROL, effort.samples)
    with ThreadPoolExecutor(3) as pool:
        until = start + effort.seconds
        jobs = [pool.submit(_sampled, trial, part, counts[part], effort, until, progress) for part in range(3)]
        first, second, again = (job.result() for job in jobs)
    size = min(len(first), len(second))
    scored = _scored(first[:size], second[:size])
    control = _scored(first[: len(again)], again[: len(first)])
    found, null = (lower_bound(*pair, delta=delta, confidence=effort.confidence) for pair in (scored, control))
    return Finding(trial.guarantee.epsilon, delta, trial.method, found, null, time.monotonic() - start)


def _sampled(trial: Trial, part: int, wanted: int, effort: Effort, until: float, progress: Progress) -> Floats:
    """One audit's samples: batches of one side of a trial until there are enough or the time is over; at least one."""
    found, count, number = list[Floats](), 0, part
    while count < wanted and (not found or time.monotonic() < until):
        scores = trial.sample(part % 2, min(trial.batch, wanted - count), effort.secret(number))
        found.append(scores)
        count += len(scores)
        number += 3
        progress(len(scores))
    return np.concatenate(found)


def _scored(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """One audit's scores; learnt on the first third where a trial gives features instead, and given for the rest."""
    if first.ndim == 1:
        return first, second
    cut = len(first) // 3
    score = classifier.classifier(first[:cut], second[:cut])
    return score(first[cut:]), score(second[cut:])
