"""Which mechanism, which projection, how many columns: a ranked answer before any data is read.

A plan knows a schema (or only the number of columns), a guarantee and a purpose. It compares every configuration at the
noise that the promise really costs there, so that noise depends on the dimension, and says in plain words what is
distinguishable from what. Planning touches no data and costs no budget; predictions use the formulas of the error bars.
"""

import math
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from sfumato import check, defaults
from sfumato.errors import ParameterError
from sfumato.mechanisms.base import Recipe
from sfumato.planning import covariance_options, cut_options, per_record
from sfumato.planning.forecast import ColumnWidths
from sfumato.planning.option import Option, PlanRequest, Purpose
from sfumato.planning.per_record import SketchCurve
from sfumato.privacy.guarantee import Change, ChangeKind, Guarantee
from sfumato.tables.schema import Schema

_SUMMED: tuple[Purpose, ...] = ("covariance", "learning", "cuts")
_GOOD = 0.25  # relative error that advice aims at
_DISTANCES, _EPSILONS = (1e-30, 1e30), (1e-9, 1e9)  # beyond, variances are no doubles any more


@dataclass(frozen=True, slots=True)
class Plan:
    """Options in order of merit for a purpose, with a verdict and what would help."""

    purpose: Purpose
    guarantee: Guarantee
    distance: float
    assumed: bool
    rows: int | None
    options: tuple[Option, ...]
    advice: tuple[str, ...]
    request: PlanRequest = field(repr=False, compare=False)

    @property
    def best(self) -> Option:
        """The best option of the plan, which is the first."""
        return self.options[0]

    @property
    def mechanism(self) -> Recipe:
        """The best option's mechanism, ready to run."""
        return self.best.mechanism

    def only(self, wanted: Callable[[Option], bool]) -> "Plan":
        """The plan restricted to some of its options; refuses to have none."""
        kept = tuple(option for option in self.options if wanted(option))
        if not kept:
            raise ParameterError("no such option keeps this promise (Gaussian noise needs delta > 0)")
        return replace(self, options=kept)

    @property
    def hopeless(self) -> bool:
        """Whether the distance is indistinguishable from 0 by every option."""
        return self._keenest.detectable > self.distance

    @property
    def _keenest(self) -> Option:
        """The option that detects the smallest distance; often not the one with the smallest error."""
        return min(self.options, key=lambda option: option.detectable)

    @property
    def noun(self) -> str:
        """What the scale of the plan is: a distance, a deviation, a cut."""
        return _NOUNS[self.purpose].removesuffix("s")

    @property
    def verdict(self) -> str:
        """Verdict of the plan: what the best option can do, in plain sentences."""
        best, r, other = self.best, self.distance, self._keenest
        nouns, shown = _NOUNS[self.purpose], other if self.hopeless else best
        blind = f"{nouns} below {shown.detectable:.3g} are indistinguishable from 0 at this epsilon"
        if self.hopeless:
            return f"Hopeless at {r:.3g}: {blind}, whatever the mechanism."
        if best.detectable > r:
            name = " ".join(filter(None, (other.name, other.family, str(other.dimension))))
            blind += f"; {name} detects them from {other.detectable:.3g}, at a larger error"
        return f"{self._recovered()} {blind[0].upper()}{blind[1:]}."

    def _recovered(self) -> str:
        """Verdict of the plan on how well the best option estimates quantities at the scale."""
        best, r = self.best, self.distance
        if self.purpose == "clustering":
            return f"Groups {r:.3g} apart: {best.errors.mistake(r):.1%} of records land in the wrong one."
        what = f"{_NOUNS[self.purpose]} near {r:.3g}"
        if best.power == 2:
            squares = "variances" if self.purpose in _SUMMED else "squared distances"
            what = f"{squares} near {r:.3g}^2 = {r * r:.3g}"
        near = f"{what[0].upper()}{what[1:]} are recovered to within {_percent(best.relative_error(r))}"
        told = f"{near} (one standard error)."
        if self.purpose == "nearest":
            gap = math.sqrt(2) * best.standard_error(r)
            told += f" Candidates whose squared distances differ by less than {gap:.3g} are confused."
        return told

    def curves(self) -> tuple[SketchCurve, ...]:
        """Every dimension of every sketch that was planned, for pictures; none where only sums are published."""
        return () if self.purpose in _SUMMED else tuple(per_record.curves(self.request))

    def all_sketches(self, dimensions: Container[int] | None = None) -> list[Option]:
        """Every sketch that the plan considered as an option.

        Every point of every curve as an option, with typical sensitivities; or those of some dimensions, drawn.
        """
        options = [
            per_record.option_at(self.request, curve.guarantee, errors)
            for curve in self.curves()
            for errors in curve.errors
        ]
        if dimensions is None:
            return options
        return [per_record.drawn(option, self.request) for option in options if option.dimension in dimensions]

    def to_dict(self) -> dict[str, Any]:
        """The ranked plan as values for machines."""
        return {
            "purpose": self.purpose,
            "distance": self.distance,
            "distance_assumed": self.assumed,
            "rows": self.rows,
            "hopeless": self.hopeless,
            "verdict": self.verdict,
            "advice": list(self.advice),
            "options": [self._facts(option) for option in self.options],
        }

    def _facts(self, option: Option) -> dict[str, Any]:
        return {
            "mechanism": option.name,
            "family": option.family,
            "dimension": option.dimension,
            "noise": option.noise,
            "projection": option.guarantee.projection,
            "noise_scale": option.noise_scale,
            "standard_error": option.standard_error(self.distance),
            "relative_error": option.relative_error(self.distance),
            "detectable": option.detectable,
            "mistakes": None if math.isnan(wrong := option.errors.mistake(self.distance)) else wrong,
            "numbers": option.numbers,
        }

    def _merit(self, option: Option) -> str:
        if self.purpose == "clustering":
            return f"{option.errors.mistake(self.distance):.1%} wrong"
        return _percent(option.relative_error(self.distance))

    def describe(self) -> str:
        """The ranked plan in words: a table of options and the verdict."""
        head = ("mechanism", "projection", "columns", "noise", "its sd", "std error", "relative", "detectable", "size")
        rows = [
            (
                o.name,
                f"{o.family} {o.guarantee.projection}" if o.family else "-",
                f"{o.dimension:,}",
                o.noise,
                f"{o.noise_scale:.3g}",
                f"{o.standard_error(self.distance):.4g}",
                self._merit(o),
                f">= {o.detectable:.3g}",
                _size(o.numbers),
            )
            for o in self.options
        ]
        widths = [max(len(r[i]) for r in [head, *rows]) for i in range(len(head))]
        lines = ["  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in [head, *rows]]
        typical = (
            "a column that is filled evenly" if self.purpose in _SUMMED else "two random records within the bounds"
        )
        origin = f" ({typical}; set distance for your own)" if self.assumed else ""
        title = f"{self.purpose} at {self.noun} {self.distance:.4g}{origin}"
        return "\n".join([title, *lines, self.verdict, *self.advice])


_NOUNS: dict[Purpose, str] = {
    "distances": "distances",
    "nearest": "distances",
    "clustering": "distances",
    "covariance": "deviations",
    "learning": "deviations",
    "cuts": "cuts",
}


def _percent(share: float) -> str:
    if share >= 10:
        return f"{share:.3g} times"
    return f"{share:.0%}" if share >= 0.01 else f"{share:.2%}"


def _size(numbers: int | None) -> str:
    if numbers is None:
        return "-"
    size = 8.0 * numbers
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} PB"


def plan(
    *,
    guarantee: Guarantee,
    schema: Schema | None = None,
    columns: int | None = None,
    purpose: Purpose = defaults.PURPOSE,
    rows: int | None = None,
    distance: float | None = None,
    largest_dimension: int | None = None,
) -> Plan:
    """Plan: rank the configurations that keep ``guarantee``, for a purpose at a scale.

    schema or columns : what will be released; a number of columns alone means that many flags.
    rows              : how many records, or vertices of a graph; needed for release sizes and for sums over records.
    distance          : the scale that matters, in weighted units. For distances, nearest and clustering the Euclidean
                        distance (not squared); left out, that of two records drawn at random within the bounds. For
                        covariance and learning the standard deviation in a direction; left out, that of one column
                        filled evenly. For cuts of a graph in two halves the weight of the cut.
    Privacy: no data is read, nothing is spent.
    """
    request = ask(
        guarantee=guarantee,
        schema=schema,
        columns=columns,
        purpose=purpose,
        rows=rows,
        distance=distance,
        largest_dimension=largest_dimension,
    )
    draft = outline(request, assumed=distance is None, options=_options(request))
    return replace(draft, advice=tuple(advice(draft)))


def ask(
    *,
    guarantee: Guarantee,
    schema: Schema | None = None,
    columns: int | None = None,
    purpose: Purpose = defaults.PURPOSE,
    rows: int | None = None,
    distance: float | None = None,
    largest_dimension: int | None = None,
) -> PlanRequest:
    """The request of a plan from the arguments of ``plan``, checked and completed."""
    check.one_of(get_args(Purpose), purpose=purpose)
    if columns is not None:
        check.whole(1, columns=columns)
    if rows is not None:
        check.whole(1, rows=rows)
    widths = _widths(schema, columns, purpose, guarantee, rows, distance)
    wanted = distance if distance is not None else _typical(widths, purpose)
    check.between(*_DISTANCES, distance=wanted)
    check.between(*_EPSILONS, epsilon=guarantee.epsilon)
    largest = widths.dim if largest_dimension is None else largest_dimension
    check.whole(1, largest_dimension=largest)
    return PlanRequest(schema, widths, guarantee, purpose, rows, wanted, largest)


def outline(request: PlanRequest, *, assumed: bool, options: Iterable[Option] | None = None) -> Plan:
    """An outline of a plan, without advice.

    A plan without advice; unless told otherwise with typical sensitivities, so that it takes milliseconds.
    """
    found = tuple(sorted(_typical_options(request) if options is None else options, key=request.merit))
    if not found:
        raise ParameterError("no mechanism can keep this promise: see what each one says with its own prepare()")
    return Plan(request.purpose, request.guarantee, request.scale, assumed, request.rows, found, (), request)


def _widths(
    schema: Schema | None,
    columns: int | None,
    purpose: Purpose,
    guarantee: Guarantee,
    rows: int | None,
    distance: float | None,
) -> ColumnWidths:
    """Column widths that a plan is made for; the vertices of a graph are each other's columns."""
    if purpose == "cuts":
        if guarantee.unit != "edge" or schema is not None or columns is not None or rows is None or distance is None:
            raise ParameterError(
                "a plan for cuts needs unit='edge', the number of vertices (rows) and a weight (distance), "
                "and neither schema nor columns"
            )
        check.whole(2, rows=rows)
        return ColumnWidths.flags_of(rows)
    if guarantee.unit == "edge":
        raise ParameterError(f"unit='edge' protects a graph, whose purpose is 'cuts', got purpose={purpose!r}")
    if (schema is None) == (columns is None):
        raise ParameterError("a plan needs a schema, or the number of columns alone: give exactly one of them")
    if purpose in _SUMMED and rows is None:
        raise ParameterError(
            f"a plan for purpose={purpose!r} needs the number of records (rows): its error falls with it"
        )
    return ColumnWidths.flags_of(columns or 0) if schema is None else ColumnWidths.of(schema)


def _typical(widths: ColumnWidths, purpose: Purpose) -> float:
    squared = widths.squared_typical
    return math.sqrt(squared / (2 * widths.dim) if purpose in ("covariance", "learning") else squared)


def _options(request: PlanRequest) -> Iterator[Option]:
    """Options of a plan, with projections drawn now where they are small enough, and their own sensitivities."""
    return (per_record.drawn(option, request) for option in _typical_options(request))


def _typical_options(request: PlanRequest) -> Iterator[Option]:
    if request.purpose in _SUMMED:
        yield from (cut_options if request.purpose == "cuts" else covariance_options).options(request)
        return
    yield from per_record.sketches(request)
    yield from per_record.responses(request)
    if request.purpose != "clustering":
        yield from per_record.distances(request)


def advice(draft: Plan) -> Iterator[str]:
    """Advice of a plan: what would help where the best option is poor, and where another one is better."""
    request = draft.request
    if request.purpose == "cuts":
        yield from cut_options.advice(draft.options, request)
    if draft.best.relative_error(draft.distance) <= _GOOD:
        return
    epsilon = _needed(request, lambda scale: replace(request.guarantee, epsilon=request.guarantee.epsilon * scale))
    if epsilon is not None:
        yield f"More budget: epsilon {request.guarantee.epsilon * epsilon:.3g} would bring the error to {_GOOD:.0%}."
    if request.guarantee.unit == "record" and request.purpose not in _SUMMED:
        yield from _smaller_change(request)
        yield "Sums over records (synthetic data, a covariance): their noise does not grow with the number of records."


def _smaller_change(request: PlanRequest) -> Iterator[str]:
    """Advice of a plan to protect a smaller change.

    A ball of changes of the stated kind, or an l1 ball instead of the box, at which the error would be good; an l2 ball
    beside a vector with a bound, since shortening it may stretch a change in the l1 norm.
    """
    stated, schema = request.guarantee.allowed_change, request.schema
    shortened = schema is not None and any(group.bound is not None for group in schema.encoding.groups)
    whole: tuple[ChangeKind, float] = ("l2", request.widths.length) if shortened else ("l1", request.widths.total)
    kind, radius = (stated.kind, stated.radius) if stated.radius is not None else whole
    if schema is not None:  # a radius is in the schema's units, be they stated or not
        request = replace(request, schema=replace(schema, scale=schema.scale))

    def ball(scale: float) -> Guarantee:
        return replace(request.guarantee, change=Change(kind, radius / scale))

    if schema is None or schema.norm in (None, kind):
        scale = _needed(request, ball)
        if scale is not None:
            norm = "sum of absolute values" if kind == "l1" else "Euclidean length"
            unit = ", in units of the declared ranges" if schema is not None and schema.scale == "bounds" else ""
            yield (
                f"A smaller change: protecting a record against changes of at most {radius / scale:.3g} ({norm}{unit}) "
                f"would bring the error to {_GOOD:.0%}."
            )


def _needed(request: PlanRequest, guarantee: Callable[[float], Guarantee]) -> float | None:
    """How much weaker a promise a plan would need for a good error.

    The least factor (to 5%) at which some option has the good relative error, or None below a million.
    """

    def good(scale: float) -> bool:
        asked = replace(request, guarantee=guarantee(scale))
        return any(option.relative_error(request.scale) <= _GOOD for option in _quick(asked))

    low, high = 1.0, 4.0
    while not good(high):
        low, high = high, high * 4
        if high > 1e6:
            return None
    while high / low > 1.05:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if good(middle) else (middle, high)
    return high


def _quick(request: PlanRequest) -> Iterator[Option]:
    """Enough options of a plan to know what is possible."""
    if request.purpose in _SUMMED:
        yield from _options(request)
        return
    yield per_record.quick_sketch(replace(request, purpose="distances"))
    yield from per_record.responses(request)
