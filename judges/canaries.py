"""Canaries before the auditor of jax-privacy: its lower bounds on epsilon, and the broken twins that it catches.

A canary is a record (or an edge) that is one of two by the toss of a coin. Whoever sees a release scores how much it
looks like the first. From the scores of canaries that were in (the first) and out (the second), jax-privacy's
``CanaryScoreAuditor`` computes a lower bound on epsilon that holds but with a small probability; it must not exceed
the epsilon that the release claims. The broken twin of a case is the same release with a multiple of the epsilon
that it claims, so with too little noise; its bound must exceed the claim.

jax-privacy sees scores only (``samples``).
"""

import functools
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import samples
import sfumato as sf
from samples import CORNERS, DELTA, LINE, SQUARE, Floats, Scores
from verdicts import Verdict, settle

FALSE_ALARM = 1e-6  # that any honest line of the whole table is accused


@dataclass(frozen=True, slots=True)
class Case:
    """A kind of release before the judge.

    scores    : (epsilon, canaries, seed) gives the scores of canaries that were in and of those that were out, from
                releases at that epsilon; where it is larger than what is claimed, they are those of the broken twin.
    canaries  : how many, in and out together.
    threshold : scores from here on are taken for "in"; left out, the judge picks it on one half and bounds the other.
    one_run   : whether the bound is the one for canaries of one release (Steinke et al. 2023), not Clopper-Pearson's.
    """

    name: str
    scores: Callable[[float, int, int], Scores]
    canaries: int = 40_000
    epsilon: float = 1.0
    delta: float = 0.0
    threshold: float | None = None
    twin: float = 2.0
    one_run: bool = False


# ---- the cases ------------------------------------------------------------------------------------------------------

_SLACK: dict[str, Any] = {"delta": DELTA}
_VALUE: dict[str, Any] = {"unit": "attribute"}
_EDGE: dict[str, Any] = {"unit": "edge"}
_COMES: dict[str, Any] = {"neighbours": "add-remove"}
_TOP = np.vstack([np.eye(16)[0], np.zeros(16)])
_TURNED = np.array([[1.0, 1.0], [-1.0, 1.0]])
_SHIFTED = np.array([[0.25, 0.0], [-0.25, 0.0]])
_FEW = 600  # canaries of releases that hold one each

_BALL: dict[str, Any] = {"change": sf.Change.l2(0.5)}
_laplace_rows = functools.partial(samples.sketched, sf.Sketch(dimension=8, seed=1), LINE, _TOP, **_VALUE)
_identity = sf.Sketch(seed=1)


def _farthest() -> Floats:
    """Two rows, half a unit apart, whose images under the projection of the l2 ball are far apart in the l1 norm."""
    matrix = np.asarray(sf.Projection(family="gaussian", dim_in=16, dim_out=4, seed=1).draw().values, np.float64)
    signs = np.array(list(itertools.product((1.0, -1.0), repeat=matrix.shape[1])))
    moves = signs @ matrix.T
    moves *= 0.499 / np.linalg.norm(moves, axis=1, keepdims=True)
    best = moves[np.abs(moves @ matrix).sum(axis=1).argmax()]
    return np.array([0.5 + best / 2, 0.5 - best / 2])


def _pair(ends: Floats) -> tuple[Floats, Floats]:
    return ends[:1], ends[1:]


def _beside(ends: Floats, other: Floats) -> tuple[Floats, Floats]:
    return np.vstack([ends[0], other]), np.vstack([ends[1], other])


def _singly(name: str, recipe: Any, pair: Any, score: Any, promise: dict[str, Any], **options: Any) -> Case:
    """A case of releases that hold one canary each."""
    made = functools.partial(samples.one_by_one, recipe, pair, score, **promise)
    return Case(name, made, **({"canaries": _FEW, "twin": 5.0, "delta": promise.get("delta", 0.0)} | options))


CASES = (
    Case("sketch, Laplace, one value", _laplace_rows),
    Case(
        "sketch, Gaussian, one value",
        functools.partial(
            samples.sketched,
            sf.Sketch(dimension=8, projection="rademacher", noise="gaussian", seed=1),
            LINE,
            _TOP,
            **_VALUE,
            **_SLACK,
        ),
        delta=DELTA,
        twin=4.0,
    ),
    Case(
        "sketch, Laplace, l2 ball",
        functools.partial(
            samples.sketched, sf.Sketch(dimension=4, projection="gaussian", seed=1), LINE, _farthest(), **_BALL
        ),
    ),
    Case("sketch, Laplace, whole record", functools.partial(samples.sketched, _identity, SQUARE, CORNERS)),
    Case("sketch, Laplace, in one run", _laplace_rows, one_run=True),
    Case("responses, one value", functools.partial(samples.responses, **_VALUE)),
    Case("responses, whole record", samples.responses),
    Case("responses, in one run", samples.responses, one_run=True),
    Case("edge noise, Laplace", functools.partial(samples.edges, sf.EdgeNoise, **_EDGE)),
    Case(
        "edge noise, Gaussian",
        functools.partial(samples.edges, functools.partial(sf.EdgeNoise, noise="gaussian"), **_EDGE, **_SLACK),
        delta=DELTA,
        twin=4.0,
    ),
    Case("edge responses", functools.partial(samples.edges, sf.EdgeResponse, **_EDGE)),
    Case("graph sketch", samples.graph_sketch, delta=DELTA, twin=4.0),
    Case("counts", samples.counted),
    _singly(
        "sketch, fresh projection",
        sf.Sketch(dimension=2, projection="gaussian", noise="gaussian"),
        _pair(_SHIFTED),
        samples.first_row(_SHIFTED),
        _BALL | _SLACK | {"projection": "fresh"},
        threshold=0.0,
        twin=200.0,
    ),
    _singly(
        "sketch of a chosen dimension",
        sf.ChosenSketch(choice=0.1, candidates=(1, 2)),
        _pair(_TURNED),
        samples.first_row(_TURNED),
        _VALUE,
        threshold=0.0,
        canaries=300,
        twin=8.0,
    ),
    _singly(
        "components",
        sf.Components(dimension=1),
        _beside(CORNERS, CORNERS[:1]),
        samples.first_row(CORNERS),
        {},
        threshold=0.0,
        canaries=400,
        twin=8.0,
    ),
    _singly(
        "distances, Laplace",
        sf.NoisyDistances(noise="laplace"),
        _beside(CORNERS, CORNERS[1:]),
        lambda made: float(made.values[0]),
        {},
        threshold=4.0,
    ),
    _singly(
        "distances, Gaussian",
        sf.NoisyDistances(),
        _beside(CORNERS, CORNERS[1:]),
        lambda made: float(made.values[0]),
        _SLACK,
        threshold=4.0,
        twin=15.0,
    ),
    _singly(
        "covariance, Laplace",
        sf.Covariance(noise="laplace", centred=False),
        _pair(_TURNED),
        samples.product,
        {},
        threshold=0.0,
    ),
    _singly(
        "covariance, Gaussian",
        sf.Covariance(centred=False),
        _pair(_TURNED),
        samples.product,
        _SLACK,
        threshold=0.0,
        twin=20.0,
    ),
    _singly(
        "histogram, Laplace",
        sf.Histogram(),
        _pair(CORNERS),
        samples.at_corners,
        {},
        threshold=0.0,
        canaries=400,
        twin=20.0,
    ),
    _singly(
        "covariance sketch",
        sf.Covariance(noise="sketch", rows=2, centred=False),
        (CORNERS[:1], np.empty((0, 2))),
        samples.across,
        _SLACK | _COMES,
        twin=80.0,
    ),
    _singly(
        "synthetic",
        sf.Synthetic(dimension=2, shrink="none", centring="public", rows=1, seed=1),
        _pair(CORNERS),
        samples.model,
        {},
        threshold=0.0,
        canaries=400,
        twin=20.0,
    ),
    _singly(
        "table, Gaussian",
        sf.Table(rows=1, rounds=0),
        _pair(CORNERS),
        samples.at_ends,
        _SLACK,
        threshold=0.0,
        canaries=400,
        twin=80.0,
    ),
    Case(
        "multiplicative weights",
        functools.partial(samples.whole, samples.weights, (999, 0)),
        120,
        0.5,
        threshold=999.5,
        twin=80.0,
    ),
    Case("MWEM", functools.partial(samples.whole, samples.mwem, (5, 4)), 120, 0.5, threshold=5.5, twin=80.0),
)
HEAD = ("release", "claimed epsilon, delta", "canaries", "lower bound", "twin: noise of epsilon", "its lower bound")


def bound(case: Case, scores: Scores, significance: float) -> float:
    """What jax-privacy says of the scores: epsilon is at least this, but with probability ``significance``."""
    from jax_privacy import auditing  # noqa: PLC0415 - in an environment of its own; tests read the cases without it

    auditor = auditing.CanaryScoreAuditor(*scores)
    pick = auditing.Split(seed=1) if case.threshold is None else auditing.Explicit(case.threshold)
    if case.one_run:  # it wants a delta above 0; what is private at delta 0 is so at any
        return float(auditor.epsilon_one_run(significance, max(case.delta, 1e-12), threshold_strategy=pick))
    found = auditor.epsilon_clopper_pearson(significance, case.delta, one_sided=False, threshold_strategy=pick)
    return float(found)


def judged(case: Case, seed: int, significance: float) -> Verdict:
    """A case and its broken twin."""
    start = time.process_time()
    honest = bound(case, case.scores(case.epsilon, case.canaries, 2 * seed), significance)
    broken = bound(case, case.scores(case.epsilon * case.twin, case.canaries, 2 * seed + 1), significance)
    print(f"{case.name}: {honest:.3f}, {broken:.3f} ({time.process_time() - start:.1f} s)", flush=True)
    claim = f"{case.epsilon:g}, {case.delta:g}"
    cells = (case.name, claim, f"{case.canaries:,}", f"{honest:.2f}", f"{case.epsilon * case.twin:g}", f"{broken:.2f}")
    return Verdict(cells, honest > case.epsilon, (broken > case.epsilon,))


def judge() -> list[Verdict]:
    """All cases."""
    return [judged(case, seed, FALSE_ALARM / len(CASES)) for seed, case in enumerate(CASES)]


def main() -> None:
    """Run, print, write."""
    from importlib.metadata import version  # noqa: PLC0415

    about = (
        f"jax-privacy {version('jax-privacy')}, `CanaryScoreAuditor`. All lower bounds of honest releases hold "
        f"together but with probability {FALSE_ALARM:g}. Each must be at most the claimed epsilon, and "
        "that of the broken twin, whose noise is that of a larger epsilon, above it."
    )
    settle("Canaries before jax-privacy", about, HEAD, judge)


if __name__ == "__main__":
    main()
