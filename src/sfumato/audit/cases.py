"""``audit``, and the suite over all mechanisms that ``sfumato audit`` runs."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from sfumato.audit.aggregate_trials import AGGREGATES
from sfumato.audit.canaries import one_run
from sfumato.audit.examine import Effort, Finding, Progress, examine
from sfumato.audit.query_trials import HONEST
from sfumato.audit.stream_trials import STREAMS
from sfumato.audit.trials import Method, Trial, trial
from sfumato.errors import ParameterError
from sfumato.mechanisms.base import Recipe
from sfumato.mechanisms.chosen_sketch import ChosenSketch
from sfumato.mechanisms.components import Components
from sfumato.mechanisms.covariance import Covariance
from sfumato.mechanisms.distances import NoisyDistances
from sfumato.mechanisms.graph_pairs import EdgeNoise, EdgeResponse
from sfumato.mechanisms.graph_sketch import GraphSketch
from sfumato.mechanisms.histogram import Histogram
from sfumato.mechanisms.responses import RandomizedResponse
from sfumato.mechanisms.sketch import Sketch
from sfumato.mechanisms.synthetic.recipe import Synthetic
from sfumato.mechanisms.table.recipe import Table
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.projection.space import Space
from sfumato.tables.columns import Category, Flag, Integer, Real
from sfumato.tables.schema import Schema

EPSILONS = (0.5, 1.0, 4.0)
DELTA = 0.01  # large, so that the events that matter are seen in a few million samples
_SHARES: dict[str | None, int] = {"learned": 5}  # of the time, where one sample is a whole run
_RARE = 1e-6  # one run of m canaries knows epsilon up to about m delta


def audit(
    mechanism: Recipe,
    *,
    schema: Schema | None,
    guarantee: Guarantee,
    method: Method | None = None,
    effort: Effort | None = None,
    progress: Progress = lambda _: None,
) -> Finding:
    """Audit one mechanism: a lower bound on its epsilon at its delta, on neighbours that are the worst for it or close.

    Formal guarantee: for a mechanism that keeps its promise ``Finding.refuted`` is true with probability at most
    1 - ``effort.confidence``. No data are needed: the neighbours are made from the schema.
    method : as ``trials`` describes; left out, the best one that there is. ``one run`` audits a whole release.
    """
    effort = effort or Effort()
    if method == "one run":
        if schema is None:
            raise ParameterError("method='one run' plants canary records, so it needs a schema")
        return one_run(mechanism, schema=schema, guarantee=guarantee, effort=effort)
    found = trial(mechanism, schema=schema, guarantee=guarantee, method=method)
    return examine(found, effort, progress)


@dataclass(frozen=True, slots=True)
class Case:
    """A mechanism as the suite audits it, for any epsilon."""

    name: str
    mechanism: Callable[[float], Recipe]
    schema: Schema | None
    promise: dict[str, Any]
    method: Method | None = None

    def run(self, epsilon: float, effort: Effort, progress: Progress) -> Finding:
        """Audit the case's mechanism at one epsilon of the suite."""
        guarantee, recipe = Guarantee(epsilon=epsilon, **self.promise), self.mechanism(epsilon)
        return audit(
            recipe, schema=self.schema, guarantee=guarantee, method=self.method, effort=effort, progress=progress
        )


@dataclass(frozen=True, slots=True)
class QueryCase:
    """A mechanism that selects or answers, or a stream, as the suite audits it, for any epsilon."""

    name: str
    trial: Callable[[float], Trial]
    method: Method = "closed"

    def run(self, epsilon: float, effort: Effort, progress: Progress) -> Finding:
        """Audit the case's selecting or answering mechanism at one epsilon of the suite."""
        return examine(self.trial(epsilon), effort, progress)


_LINE = Schema.reals(16, low=0.0, high=1.0)
_SQUARE = Schema.reals(2, low=-1.0, high=1.0)
_WIDE = Schema.reals(32, low=-1.0, high=1.0)
_MIXED = Schema((Real("a", -1, 1), Real("b", -1, 1), Category("c", ("x", "y", "z"))))
_ANSWERS = Schema((Flag("f"), Category("c", ("x", "y", "z"))))
_PEOPLE = Schema((Integer("i", 0, 9), Category("c", ("x", "y", "z")), Flag("f", missing="level")))
_SPACE, _HELD = Space(_LINE, dimension=8, seed=1), ("c0", "c3", "c4", "c9")  # an owner of some columns
_EDGE: dict[str, Any] = {"unit": "edge"}
_VALUE: dict[str, Any] = {"unit": "attribute"}
_SLACK: dict[str, Any] = {"delta": DELTA}
_COMES: dict[str, Any] = {"neighbours": "add-remove"}
_BALL: dict[str, Any] = {"change": Change.l2(0.5)}


def _same(recipe: Recipe) -> Callable[[float], Recipe]:
    return lambda _epsilon: recipe


RELEASES = (
    Case("sketch, Laplace, one value", _same(Sketch(dimension=8)), _LINE, _VALUE),
    Case(
        "sketch, Gaussian, one value",
        _same(Sketch(dimension=8, projection="rademacher", noise="gaussian")),
        _LINE,
        _VALUE | _SLACK,
    ),
    Case("sketch, Laplace, l2 ball", _same(Sketch(dimension=4, projection="gaussian")), _LINE, _BALL),
    Case(
        "sketch, Gaussian, l2 ball",
        _same(Sketch(dimension=4, projection="orthonormal", noise="gaussian")),
        _LINE,
        _BALL | _SLACK,
    ),
    Case("sketch, Laplace, whole record", _same(Sketch(dimension=2, projection="rademacher")), _SQUARE, {}),
    Case(
        "sketch, Gaussian, fresh projection",
        _same(Sketch(dimension=2, projection="gaussian", noise="gaussian")),
        _LINE,
        _BALL | _SLACK | {"projection": "fresh"},
    ),
    Case(
        "sketch, Laplace, fresh projection",
        _same(Sketch(dimension=2, projection="gaussian")),
        _LINE,
        _BALL | _SLACK | {"projection": "fresh"},
    ),
    Case(
        "sketch, Laplace, part of a shared space",
        _same(Sketch(space=_SPACE, columns=_HELD)),
        _SPACE.part(_HELD).schema,
        _VALUE,
    ),
    Case("sketch of a chosen dimension", lambda e: ChosenSketch(choice=e / 10, candidates=(1, 16)), _LINE, _VALUE),
    Case("components, Laplace", _same(Components(dimension=1)), _SQUARE, {}),
    Case("components, Gaussian", _same(Components(dimension=1, noise="gaussian")), _SQUARE, _SLACK),
    Case("components, its rows alone", _same(Components(dimension=1)), _SQUARE, {}, "learned"),
    Case("responses, one value", _same(RandomizedResponse()), _ANSWERS, _VALUE),
    Case("responses, whole record", _same(RandomizedResponse()), _ANSWERS, {}),
    Case("responses, levels of numbers", _same(RandomizedResponse(levels=4)), _SQUARE, _VALUE),
    Case("responses, whole record, delta", _same(RandomizedResponse()), _ANSWERS, _SLACK),
    Case("distances, Laplace", _same(NoisyDistances(noise="laplace")), _SQUARE, {}),
    Case("distances, Gaussian", _same(NoisyDistances()), _SQUARE, _SLACK),
    Case("covariance, Laplace", _same(Covariance(noise="laplace")), _SQUARE, {}),
    Case("covariance, Gaussian", _same(Covariance()), _SQUARE, _SLACK),
    Case("covariance, Gaussian, add-remove", _same(Covariance(centred=True)), _SQUARE, _SLACK | _COMES),
    Case("covariance sketch, replace", _same(Covariance(noise="sketch", rows=2)), _SQUARE, _SLACK),
    Case("covariance sketch, add-remove", _same(Covariance(noise="sketch", rows=2)), _SQUARE, _SLACK | _COMES),
    Case("histogram, Laplace", _same(Histogram()), _PEOPLE, {}),
    Case("histogram, Gaussian, of pairs", _same(Histogram((("i", "c"), ("f",)))), _PEOPLE, _SLACK),
    Case("histogram, Laplace, add-remove", _same(Histogram((("c", "f"),))), _PEOPLE, _COMES),
    Case("histogram, Gaussian, group", _same(Histogram()), _PEOPLE, _SLACK | _COMES | {"group": 3}),
    Case("synthetic, Laplace", _same(Synthetic(dimension=2, centring="private")), _SQUARE, {}),
    Case("synthetic, Gaussian", _same(Synthetic(dimension=2, centring="private", noise="gaussian")), _SQUARE, _SLACK),
    Case("synthetic, numeric label", _same(Synthetic(dimension=1, centring="private", label="c1")), _SQUARE, {}),
    Case("synthetic, one pass", _same(Synthetic(dimension=2, noise="gaussian")), _SQUARE, _SLACK),
    Case(
        "synthetic, private classes",
        _same(Synthetic(dimension=2, label="c", kind="classes", noise="gaussian")),
        _MIXED,
        _SLACK,
    ),
    Case(
        "synthetic, classes, add-remove",
        _same(Synthetic(dimension=2, label="c", kind="classes")),
        _MIXED,
        _COMES,
    ),
    Case(
        "synthetic, its rows alone",
        _same(Synthetic(dimension=2, centring="private", noise="gaussian", rows=500)),
        _SQUARE,
        _SLACK,
        "learned",
    ),
    Case("table, Laplace", _same(Table(rounds=0)), _PEOPLE, {}),
    Case("table, Gaussian", _same(Table(rounds=0)), _PEOPLE, _SLACK),
    Case("table, Gaussian, label and rounds", _same(Table(label="f", rounds=2)), _PEOPLE, _SLACK),
    Case("table, Laplace, add-remove", _same(Table(label="f", rounds=1)), _PEOPLE, _COMES),
    Case("table, Gaussian, group, add-remove", _same(Table(label="c")), _PEOPLE, _SLACK | _COMES | {"group": 3}),
    Case("graph sketch", _same(GraphSketch(rows=2)), None, _SLACK | _EDGE),
    Case("edge noise, Laplace", _same(EdgeNoise()), None, _EDGE),
    Case("edge noise, Gaussian", _same(EdgeNoise(noise="gaussian")), None, _EDGE | _SLACK),
    Case("edge responses", _same(EdgeResponse(weighted=False)), None, _EDGE),
    Case("edge responses, weights", _same(EdgeResponse(weighted=True)), None, _EDGE),
    Case("release of sketches", _same(Sketch(dimension=8)), _LINE, _VALUE, "one run"),
    Case("release of a covariance", _same(Covariance()), _WIDE, {"delta": _RARE}, "one run"),
    Case(
        "release of synthetic rows",
        _same(Synthetic(dimension=32, noise="gaussian", shrink="none", centring="private")),
        _WIDE,
        {"delta": _RARE},
        "one run",
    ),
)
ANSWERS = tuple(QueryCase(name, made) for name, made in (HONEST | AGGREGATES).items())
GROWING = tuple(QueryCase(name, made) for name, made in STREAMS.items())
CASES: tuple[Case | QueryCase, ...] = (*RELEASES, *ANSWERS, *GROWING)

QUICK = Effort(samples=50_000, seconds=30.0)
FULL = Effort(samples=2_000_000, seconds=300.0)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the suite's table."""

    name: str
    finding: Finding

    def to_dict(self) -> dict[str, Any]:
        """A line of the audit suite's table, for machines."""
        found = self.finding
        return {
            "mechanism": self.name,
            "epsilon": found.epsilon,
            "delta": found.delta,
            "method": found.method,
            "lower_bound": found.bound.epsilon,
            "share": found.share,
            "control": found.control.epsilon,
            "confidence": found.bound.confidence,
            "samples": found.bound.samples,
            "seconds": found.seconds,
            "verdict": found.verdict,
        }


def suite(
    effort: Effort = FULL,
    *,
    cases: tuple[Case | QueryCase, ...] = CASES,
    epsilons: tuple[float, ...] = EPSILONS,
    progress: Progress = lambda _: None,
) -> Iterator[Line]:
    """The audit suite: case after case. ``effort`` is for all: seconds are shared out, its confidence is for the table.

    Guarantee: if all mechanisms keep their promises, some line of the whole table says otherwise, or some control
    finds something, with probability at most 1 - confidence (union bound over all lines and controls).
    """
    todo = [(case, epsilon) for case in cases for epsilon in epsilons]
    each = 1 - (1 - effort.confidence) / (2 * len(todo))
    until, shares = time.monotonic() + effort.seconds, [_SHARES.get(case.method, 1) for case, _ in todo]
    for number, (case, epsilon) in enumerate(todo):
        left = max(0.0, until - time.monotonic()) * shares[number] / sum(shares[number:])
        seed = None if effort.seed is None else effort.seed + number
        yield Line(case.name, case.run(epsilon, replace(effort, seconds=left, confidence=each, seed=seed), progress))
