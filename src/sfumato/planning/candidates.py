"""All options that a plan considers, and what would help where the best of them is poor."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from sfumato.planning import covariance_options, cut_options, per_record, similarity
from sfumato.planning.option import Alike, Option, PlanRequest, Purpose
from sfumato.privacy.guarantee import Change, ChangeKind, Guarantee

SUMMED: tuple[Purpose, ...] = ("covariance", "learning", "cuts")
SUMS = "Sums over records (synthetic data, a covariance): their noise does not grow with the number of records."
_GOOD = 0.25  # relative error, or share of the way from chance to perfection, that advice aims at
_FACTORS = (2, 4, 8, 16, 32, 64)  # of epsilon


def options(request: PlanRequest) -> Iterator[Option]:
    """Options of a plan, with projections drawn now where they are small enough, and their own sensitivities."""
    if request.guess is not None:
        yield from _sums(request)
        yield from similarity.options(request, effort=similarity.FULL)
        return
    yield from (per_record.drawn(option, request) for option in typical_options(request))


def typical_options(request: PlanRequest) -> Iterator[Option]:
    """Options of a plan with typical sensitivities, quickly."""
    if request.guess is not None:
        yield from _sums(request)
        yield from similarity.options(request, effort=similarity.QUICK)
        return
    yield from _sums(request)
    if request.purpose in SUMMED:
        return
    yield from per_record.sketches(request)
    yield from per_record.responses(request)
    if request.purpose != "clustering":
        yield from per_record.distances(request)


def _sums(request: PlanRequest) -> Iterator[Option]:
    """Options of a plan that publish sums over records, or a graph."""
    if request.purpose == "cuts":
        yield from cut_options.options(request)
    elif request.purpose == "learning" and request.guess is not None:
        yield from (option for option in covariance_options.options(request) if option.name != "sketch")
    elif request.purpose in SUMMED:
        yield from covariance_options.options(request)


def advice(options: tuple[Option, ...], request: PlanRequest) -> Iterator[str]:
    """Advice of a plan: what would help where the best option is poor, and where another one is better."""
    best = options[0]
    if request.purpose == "cuts":
        yield from cut_options.advice(options, request)
    if best.alike is not None:
        yield from _more_alike(best.alike, request)
        return
    if best.relative_error(request.scale) <= _GOOD:
        return
    epsilon = _needed(request, lambda scale: replace(request.guarantee, epsilon=request.guarantee.epsilon * scale))
    if epsilon is not None:
        yield f"More budget: epsilon {request.guarantee.epsilon * epsilon:.3g} would bring the error to {_GOOD:.0%}."
    if request.guarantee.unit == "record" and request.purpose not in SUMMED:
        yield from _smaller_change(request)
        yield SUMS


def _more_alike(found: Alike, request: PlanRequest) -> Iterator[str]:
    """Advice of a plan for similar records, where few are found."""
    if found.gain(request.purpose) >= _GOOD:
        return
    for factor in _FACTORS:
        more = replace(request, guarantee=replace(request.guarantee, epsilon=request.guarantee.epsilon * factor))
        best = max(similarity.options(more, effort=similarity.LEAST), key=lambda option: -request.merit(option)[1])
        if best.alike is not None and best.alike.gain(request.purpose) >= _GOOD:
            told = best.alike.words(request.purpose)
            yield f"More budget: epsilon {more.guarantee.epsilon:.3g} would do, about: {told}."
            break
    yield "Narrower bounds help like more budget: half the width is worth twice the epsilon."
    if request.guarantee.unit == "record":
        yield "Protecting one value (unit attribute) or a small change instead of a whole record helps most."
        yield SUMS


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
    if request.purpose in SUMMED:
        yield from options(request)
        return
    yield per_record.quick_sketch(replace(request, purpose="distances"))
    yield from per_record.responses(request)
