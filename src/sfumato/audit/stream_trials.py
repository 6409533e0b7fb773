"""How streams are sampled and scored: neighbours in any period, and all that was measured in all periods.

A stream of many equal numbers is as many streams at the price of one: the statistic's integers stand there again and
again, and every copy gets noise of its own through the very code that appends periods (``streams.running``). What is
scored is the whole vector of measurements, not one publication: whatever is published is made from it.
"""

import math
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sfumato.audit import classifier, recorder
from sfumato.audit.block_rows import Copies
from sfumato.audit.claimed_moves import SLACK, moves
from sfumato.audit.examine import Effort, Finding, examine
from sfumato.audit.grey_box import GreyBox, Observed, differences, watched
from sfumato.audit.recorder import Tape
from sfumato.audit.trials import Trial, log_ratio
from sfumato.audit.worst_pairs import Pair, unit_pairs
from sfumato.errors import ParameterError, ReleaseError
from sfumato.fileformat.manifest import Facts
from sfumato.mechanisms.base import Published, Recipe
from sfumato.mechanisms.covariance import Covariance
from sfumato.mechanisms.histogram import Histogram
from sfumato.mechanisms.synthetic.recipe import Synthetic
from sfumato.numerics.lattice import Total
from sfumato.numerics.types import Floats, Integers
from sfumato.pipeline.stream import Stream
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness.secret import Secret
from sfumato.streams import running
from sfumato.streams.description import StreamDescription
from sfumato.streams.factorisation import Node
from sfumato.streams.measuring import Measuring
from sfumato.streams.statistic import StreamStatistic
from sfumato.streams.store import StreamStore
from sfumato.tables.blocks import Rows
from sfumato.tables.columns import Category, Flag, Real
from sfumato.tables.schema import Schema

_CELLS = 1 << 21  # numbers drawn at a time


@dataclass(frozen=True, slots=True, eq=False)
class Again(StreamStatistic):
    """A stream's statistic whose integers stand there ``count`` times: as many streams at once."""

    one: StreamStatistic
    count: int

    @property
    def facts(self) -> Facts:
        """The facts of the stream that stands there again and again."""
        return self.one.facts

    @property
    def reach(self) -> float:
        """What one unit moves in one of many equal streams."""
        return self.one.reach

    @property
    def deviations(self) -> Floats:
        """The deviations of many equal streams."""
        return np.tile(self.one.deviations, self.count)

    @property
    def rounding(self) -> float:
        """What rounding moves in one of many equal streams."""
        return self.one.rounding

    def exact(self, rows: Rows) -> tuple[Total, int]:
        """The integers of a period of a stream, again and again."""
        total, count = self.one.exact(rows)
        return Total.of(*(np.tile(half, self.count) for half in total.halves)), count

    def published(self, sums: Floats, noise: tuple[float, float], records: int | None) -> Published:
        """Many equal streams are not published."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class Noiseless(Measuring):
    """A stream's measuring that leaves the noise out: what noise of the true one is about."""

    def measured(self, node: Node, sums: Integers, scale: float, secret: Secret) -> Integers:
        """The exact sums of a measurement, for an audit alone."""
        del node, scale, secret
        return sums.copy()


@dataclass(slots=True, eq=False)
class InMemory:
    """What appending needs of a stream's file, kept in memory: many equal streams would fill a disk."""

    description: StreamDescription
    found: dict[Node, Integers] = field(default_factory=dict)
    _sums: dict[Node, tuple[Integers, Integers]] = field(default_factory=dict)
    _decoded: dict[Node, Floats | None] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """How many numbers a measurement has."""
        return self.description.measuring.statistic.deviations.size

    def sums(self, nodes: Sequence[Node]) -> tuple[Integers, Integers]:
        """Exact sums of the stream, a row each."""
        kept = [self._sums[node] for node in nodes]
        return np.stack([high for high, _ in kept]), np.stack([low for _, low in kept])

    def decoded(self, nodes: Sequence[Node]) -> Floats:
        """What intervals of the stream's tree were decoded to."""
        return np.stack([kept for node in nodes if (kept := self._decoded[node]) is not None])

    def add_sums(self, node: Node, high: Integers, low: Integers) -> None:
        """Keep exact sums of the stream."""
        self._sums[node] = high, low

    def drop_sums(self, node: Node) -> None:
        """Forget exact sums of the stream."""
        del self._sums[node]

    def add_measurement(self, node: Node, noisy: Integers, decoded: Floats | None) -> None:
        """Keep a measurement of the stream."""
        self.found[node], self._decoded[node] = noisy, decoded


Periods = tuple[Floats, ...]  # encoded tables (columns, rows), one for each period


def measurements(about: StreamDescription, periods: Periods, secret: Secret) -> dict[Node, Integers]:
    """Append periods to a stream in memory; all that was measured."""
    stream: Any = InMemory(about)
    for number, table in enumerate(periods, 1):
        running.add(stream, number, about.measuring.statistic.exact(Copies(table))[0], secret)
    return dict(stream.found)


def worst_periods(about: StreamDescription, at: int) -> tuple[Periods, Periods]:
    """Neighbouring streams: one unit at its worst in period ``at``, and no other record in any period."""
    group, statistic = about.measuring.guarantee.group, about.measuring.statistic
    empty = np.empty((about.schema.encoding.dim, 0))

    def moved(pair: Pair) -> float:
        exact = [np.array(statistic.exact(Copies(table))[0].doubles()) for table in pair]
        return float(np.linalg.norm((exact[0] - exact[1]) / statistic.deviations))

    pairs = unit_pairs(statistic.prepared)  # type: ignore[attr-defined]
    one, two = max(pairs, key=moved)
    rows = [np.repeat(table, group, axis=1) for table in (one, two)]
    both = [(empty,) * (at - 1) + (unit,) + (empty,) * (about.horizon - at) for unit in rows]
    return both[0], both[1]


def stream_trial(about: StreamDescription, *, at: int = 1, method: Literal["closed", "learned"] = "closed") -> Trial:
    """How an audit samples a stream: many equal streams on either side of neighbours that differ in period ``at``.

    closed  : the likelihood ratio of everything that was measured, if noise is what it is said to be.
    learned : logistic regression on it, which also finds noise that several measurements share.
    """
    both, made = worst_periods(about, at), about.measuring
    plain = replace(about, measuring=Noiseless(made.statistic, made.method, made.guarantee, made.horizon, made.shift))
    exact = [measurements(plain, periods, Secret.for_testing(0)) for periods in both]
    nodes = list(exact[0])
    centres = [np.stack([one[node] for node in nodes]).astype(float) for one in exact]
    some = centres[0] != centres[1]
    if method == "learned":  # what a unit does not move may still share the noise of what it moves
        some = np.tile(some.any(axis=0), (len(nodes), 1))
    scales = np.tile(about.scale * about.measuring.statistic.deviations, (len(nodes), 1))[some]

    def drawn(side: int, count: int, secret: Secret) -> Floats:
        many = replace(about.measuring, statistic=Again(about.measuring.statistic, count))
        found = measurements(replace(about, measuring=many), both[side], secret)
        whole = np.stack([found[node] for node in nodes]).reshape(len(nodes), count, -1)
        return np.asarray(whole.transpose(0, 2, 1)[some] / scales[:, None])

    ends = [(centre[some] / scales)[:, None] for centre in centres]

    def sample(side: int, count: int, secret: Secret) -> Floats:
        found = drawn(side, count, secret)
        return log_ratio("gaussian", found, ends, 1.0) if method == "closed" else classifier.features(found.T)

    cells = about.measuring.statistic.deviations.size * len(nodes)
    return Trial(about.measuring.guarantee, method, sample, max(1, _CELLS // cells))


def stream(
    mechanism: Recipe,
    *,
    schema: Schema,
    guarantee: Guarantee,
    horizon: int,
    factorisation: str | None = None,
    at: int = 1,
    effort: Effort | None = None,
) -> Finding:
    """Audit a stream: a lower bound on the epsilon of all that it measures up to its horizon, at its delta.

    at : the period in which neighbours differ; the first is the worst, for its records are in most measurements.
    Formal guarantee: as for ``audit``. No data are needed.
    """
    about = StreamDescription.new(mechanism, schema, guarantee, horizon, factorisation)
    if not 1 <= at <= horizon:
        raise ParameterError(f"at is one of {horizon} periods, got at={at}")
    return examine(stream_trial(about, at=at), effort or Effort())


# ---- the grey-box audit ----------------------------------------------------------------------------------------------


def greybox_stream(first: Sequence[Any], second: Sequence[Any], about: StreamDescription) -> GreyBox:
    """Grey-box audit of a stream: append periods on two neighbouring sides, publish after each, and compare.

    first, second : tables, one for each period; whether the two are neighbours is for the caller to know.
    With the same outcomes of all measurements, everything that is published must be the same to the byte, and what got
    noise must have moved by no more than the stream says that one unit moves it.
    """
    about, recorded = replace(about, protected=False), Tape()
    again = recorded.replay()
    one, two = (_run(about, tables, recorder.secret(tape)) for tables, tape in ((first, recorded), (second, again)))
    if one.error and one.error == two.error:
        raise ReleaseError(f"neither stream could be published, so there is nothing to compare: {one.error}")
    pairs = [(draw, again.draws[key]) for key, draw in recorded.draws.items() if key in again.draws]
    limit = about.measuring.sensitivity(about.horizon) / about.scale
    moved = moves([pair for pair in pairs if pair[0].kind == pair[1].kind], ["stream"])
    shares = {stage: value / limit if stage == "stream" else math.inf for stage, value in moved.items()}
    faults = [*recorded.faults, *again.faults, *again.missing(), *differences(one, two)]
    faults += [f"{s!r} moved by {x:.4g} times its stated sensitivity" for s, x in shares.items() if x > SLACK]
    return GreyBox(shares, tuple(dict.fromkeys(faults)))


def _run(about: StreamDescription, tables: Sequence[Any], secret: Secret) -> Observed:
    """All that can be seen of a stream whose periods are appended and published one by one."""
    with tempfile.TemporaryDirectory() as place:
        made, files = Stream(Path(place) / "audited.stream"), dict[str, bytes]()

        def run(progress: Callable[[int], None]) -> None:
            StreamStore(Path(made.path)).make(about)
            for number, table in enumerate(tables, 1):
                made.append(table, period=str(number), progress=progress, secret=secret)
                folder = Path(place) / "published"
                made.publish(folder)
                files.update({f"{number}/{p.name}": p.read_bytes() for p in sorted(folder.iterdir())})
                shutil.rmtree(folder)

        said, progress, error = watched(run)
        counted = progress if about.measuring.guarantee.neighbours == "replace" else ()
        return Observed(files, said.replace(place, ""), counted, error.replace(place, ""))


# ---- the suite -------------------------------------------------------------------------------------------------------

_PAIR = Schema((Flag("f"), Category("c", ("x", "y", "z"))))
_SQUARE = Schema.reals(2, low=-1.0, high=1.0)
_CLASSED = Schema((Real("a", -1, 1), Real("b", -1, 1), Category("c", ("x", "y", "z"))))
_DELTA = 0.01  # as that of the suite


def _case(
    recipe: Recipe, schema: Schema, horizon: int, factorisation: str, *, at: int = 1, **promise: Any
) -> Callable[[float], Trial]:
    method: Literal["closed", "learned"] = promise.pop("method", "closed")

    def made(epsilon: float) -> Trial:
        guarantee = Guarantee(epsilon=epsilon, delta=_DELTA, **promise)
        about = StreamDescription.new(recipe, schema, guarantee, horizon, factorisation)
        return stream_trial(about, at=at, method=method)

    return made


_COMES: dict[str, Any] = {"neighbours": "add-remove"}
STREAMS: dict[str, Callable[[float], Trial]] = {
    "stream of counts, square root": _case(Histogram(), _PAIR, 6, "square-root"),
    "stream of counts, tree": _case(Histogram(), _PAIR, 8, "tree", **_COMES),
    "stream of counts, shared noise": _case(Histogram(), _PAIR, 4, "square-root", method="learned"),
    "stream of second moments": _case(Covariance(), _SQUARE, 5, "square-root"),
    "stream of second moments, group": _case(Covariance(), _SQUARE, 5, "square-root", group=3, **_COMES),
    "stream of classes, tree, third period": _case(
        Synthetic(dimension=2, label="c", kind="classes"), _CLASSED, 5, "tree", at=3
    ),
}
