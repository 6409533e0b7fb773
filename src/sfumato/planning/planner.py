"""Which mechanism, which projection, how many columns: a ranked answer before any data is read.

A plan knows a schema (or only the number of columns), a guarantee and a purpose. It compares every configuration at the
noise that the promise really costs there, so that noise depends on the dimension, and says in plain words what is
distinguishable from what. Planning touches no data and costs no budget; predictions use the formulas of the error bars.
"""

import math
from collections.abc import Callable, Container, Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, get_args

from sfumato import check, defaults
from sfumato.errors import ParameterError
from sfumato.in_notebooks import InNotebooks
from sfumato.mechanisms.base import Recipe
from sfumato.mechanisms.sketch import Sketch
from sfumato.planning import candidates, per_record, public_guess, similarity
from sfumato.planning.candidates import SUMMED
from sfumato.planning.forecast import ColumnWidths
from sfumato.planning.option import ROWS, SIMILAR, Option, PlanRequest, Purpose
from sfumato.planning.per_record import SketchCurve
from sfumato.planning.public_guess import GuessedSpectrum, PublicGuess
from sfumato.privacy.guarantee import Guarantee
from sfumato.tables.schema import Schema

_DISTANCES, _EPSILONS = (1e-30, 1e30), (1e-9, 1e9)  # beyond, variances are no doubles any more


@dataclass(frozen=True, slots=True)
class Plan(InNotebooks):
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
        """The best option's mechanism, ready to run; refused where the plan is hopeless."""
        if self.hopeless:
            raise ParameterError(f"{self.verdict} To release it anyway, take best.mechanism")
        return self.best.mechanism

    def only(self, wanted: Callable[[Option], bool]) -> "Plan":
        """The plan restricted to some of its options; refuses to have none."""
        kept = tuple(option for option in self.options if wanted(option))
        if not kept:
            raise ParameterError("no such option keeps this promise (Gaussian noise needs delta > 0)")
        return replace(self, options=kept)

    @property
    def hopeless(self) -> bool:
        """Whether no option finds similar records much better than chance, or tells the distance from 0."""
        return not any(self._useful(option) for option in self.options)

    def _useful(self, option: Option) -> bool:
        if option.alike is not None:
            return not option.alike.hopeless(self.purpose)
        return option.detectable <= self.distance

    @property
    def _keenest(self) -> Option:
        """The option that detects the smallest distance; often not the one with the smallest error."""
        plain = [option for option in self.options if option.alike is None]
        return min(plain or self.options, key=lambda option: option.detectable)

    @property
    def noun(self) -> str:
        """What the scale of the plan is: a distance, a deviation, a cut."""
        return _NOUNS[self.purpose].removesuffix("s")

    @property
    def verdict(self) -> str:
        """Verdict of the plan: what the best option can do, in plain sentences."""
        found = next((o.alike.words(self.purpose) for o in self.options if o.alike is not None), None)
        if found is None:
            return self._measured()
        if self.hopeless:
            return f"Hopeless: {found}, {self._by_what}."
        told = f"{found[0].upper()}{found[1:]}."
        return told if self.best.alike is not None else f"{self._measured()} From a sketch: {found}."

    @property
    def _by_what(self) -> str:
        """What the plan looked at: every mechanism, or the one sketch that was given."""
        return "whatever the mechanism" if self.request.dimension is None else "with this projection"

    def _measured(self) -> str:
        """Verdict of the plan on quantities at the scale, as they are released."""
        best, r, other = self.best, self.distance, self._keenest
        hopeless = other.detectable > r
        nouns, shown = _NOUNS[self.purpose], other if hopeless else best
        blind = f"{nouns} below {shown.detectable:.3g} are indistinguishable from 0 at this epsilon"
        if hopeless:
            return f"Hopeless at {r:.3g}: {blind}, {self._by_what}."
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
            squares = "variances" if self.purpose in SUMMED else "squared distances"
            what = f"{squares} near {r:.3g}^2 = {r * r:.3g}"
        near = f"{what[0].upper()}{what[1:]} are recovered to within {_percent(best.relative_error(r))}"
        told = f"{near} (one standard error)."
        if self.purpose == "nearest":
            gap = math.sqrt(2) * best.standard_error(r)
            told += f" Candidates whose squared distances differ by less than {gap:.3g} are confused."
        return told

    def curves(self) -> tuple[SketchCurve, ...]:
        """Every dimension of every sketch that was planned, for pictures; none where only sums are published."""
        return () if self.purpose in SUMMED else tuple(per_record.curves(self.request))

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
            "assumed": self.guessed,
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
            "levels": option.levels,
            "noise": option.noise,
            "projection": option.guarantee.projection,
            "noise_scale": option.noise_scale,
            "standard_error": option.standard_error(self.distance),
            "relative_error": option.relative_error(self.distance),
            "detectable": option.detectable,
            "mistakes": None if math.isnan(wrong := option.errors.mistake(self.distance)) else wrong,
            "numbers": option.numbers,
            "expected": None if option.alike is None else asdict(option.alike),
        }

    def _merit(self, option: Option) -> str:
        if self.purpose == "clustering":
            return f"{option.errors.mistake(self.distance):.1%} wrong"
        return _percent(option.relative_error(self.distance))

    @property
    def guessed(self) -> str | None:
        """What the plan assumes of the records, in words; None where it assumes nothing but their bounds."""
        found = next((option.alike for option in self.options if option.alike is not None), None)
        if found is None or self.request.guess is None:
            return None
        told = f"{found.rows:,} records{' (set rows for your own)' if self.rows is None else ''}"
        less = (
            "" if found.simulated == found.rows else f"; {found.simulated:,} were simulated, and the rest extrapolated"
        )
        return f"{told}; {self.request.guess.words}{less}"

    def describe(self) -> str:
        """The ranked plan in words: a table of options and the verdict."""
        plain = [option for option in self.options if option.alike is None]
        lines = [*(self._plain_table(plain) if plain else ()), *self._alike_table()]
        return "\n".join([*lines, self.verdict, *self.advice])

    def _plain_table(self, options: list[Option]) -> list[str]:
        """Options with the errors of what they release."""
        head = ("mechanism", "projection", "columns", "noise", "its sd", "std error", "relative", "detectable", "size")
        rows = [
            (
                *_configured(o),
                f"{o.standard_error(self.distance):.4g}",
                self._merit(o),
                f">= {o.detectable:.3g}",
                _size(o.numbers),
            )
            for o in options
        ]
        typical = "a column that is filled evenly" if self.purpose in SUMMED else "two random records within the bounds"
        origin = f" ({typical}; set distance for your own)" if self.assumed else ""
        return [f"{self.purpose} at {self.noun} {self.distance:.4g}{origin}", *_aligned([head, *rows])]

    def _alike_table(self) -> list[str]:
        """Options with what analysts are expected to find of similar records."""
        found = [(option, option.alike) for option in self.options if option.alike is not None]
        if not found:
            return []
        head = ("mechanism", "projection", "columns", "noise", "its sd", "recall", "near", "order", "size")
        rows = [
            (*_configured(o), f"{a.recall:.3f}", f"{a.near:.3f}", f"{a.order:.3f}", _size(o.numbers)) for o, a in found
        ]
        title = f"{self.purpose}: similar records, as analysts find them (in sketches with the prior that they learn)"
        return [title, f"Assumed: {self.guessed}.", *_aligned([head, *rows]), _LEGEND.format(found[0][1].shown)]


def _configured(option: Option) -> tuple[str, ...]:
    """The first cells of an option's line in the table of a plan."""
    family = f"{option.family} {option.guarantee.projection}" if option.family else option.settings
    return option.name, family or "-", f"{option.dimension:,}", option.noise, f"{option.noise_scale:.3g}"


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows]


_LEGEND = (
    "recall: share of the {} nearest that are shown; near: of those shown, among the nearest 5% of all; order: how "
    "often of two records the nearer looks nearer"
)
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


def plan(*, distance: float | None = None, **facts: Any) -> Plan:
    """Plan: rank the configurations that keep a guarantee, for a purpose at a scale. ``facts`` are those of ``ask``.

    schema or columns : what will be released; a number of columns alone means that many flags.
    rows              : how many records, or vertices of a graph; needed for release sizes and for sums over records.
    distance          : the scale that matters, in weighted units. For distances, nearest and clustering the Euclidean
                        distance (not squared); left out, that of two records drawn at random within the bounds. For
                        covariance and learning the standard deviation in a direction; left out, that of one column
                        filled evenly. For cuts of a graph in two halves the weight of the cut.
    spectrum          : for nearest, clustering and learning, a public guess of the records: "flat", "decaying" (the
                        default), or public rows of the same schema (a path, a table or an array).
    Privacy: no private data is read, nothing is spent.
    """
    request = ask(distance=distance, **facts)
    draft = outline(request, assumed=distance is None, options=candidates.options(request))
    return replace(draft, advice=tuple(candidates.advice(draft.options, request)))


def ask(  # noqa: PLR0913
    *,
    guarantee: Guarantee,
    schema: Schema | None = None,
    columns: int | None = None,
    purpose: Purpose = defaults.PURPOSE,
    rows: int | None = None,
    distance: float | None = None,
    largest_dimension: int | None = None,
    spectrum: GuessedSpectrum = None,
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
    made = PlanRequest(schema, widths, guarantee, purpose, rows, wanted, largest)
    return replace(made, guess=_guess(made, spectrum))


def _guess(request: PlanRequest, spectrum: GuessedSpectrum) -> PublicGuess | None:
    """Rows of a plan that stand for the records, where similar ones are to be found among not too many columns."""
    if request.purpose not in SIMILAR:
        if spectrum is not None:
            raise ParameterError(f"spectrum is for purposes {', '.join(SIMILAR)}: it says nothing about others")
        return None
    if request.widths.dim > public_guess.WIDEST:
        if spectrum is not None:
            raise ParameterError(f"a spectrum is for at most {public_guess.WIDEST:,} encoded columns")
        return None
    wanted = "decaying" if spectrum is None else spectrum
    if request.schema is None and not public_guess.named(wanted):
        raise ParameterError("spectrum: public rows need a schema")
    schema = public_guess.flags(request.widths.dim) if request.schema is None else request.schema
    return public_guess.guess(wanted, schema, request.rows or ROWS)


def judge(
    sketch: Sketch, *, schema: Schema, guarantee: Guarantee, purpose: Purpose, rows: int | None, **facts: Any
) -> Plan:
    """The plan of one sketch that is given, for a purpose: what it can do. ``facts`` as for ``plan``."""
    known = rows or ROWS if purpose in SUMMED else rows
    request = ask(schema=schema, guarantee=guarantee, purpose=purpose, rows=known, **facts)
    whole = sketch.family == "identity" or sketch.dimension is None  # also of an owner of some columns of a space
    request = replace(request, dimension=request.widths.dim if whole else sketch.dimension)
    options = [
        per_record.option_at(request, curve.guarantee, errors)
        for curve in per_record.curves(request)
        for errors in curve.errors
        if errors.law.geometry.family == sketch.family
        and sketch.noise in (None, errors.law.noise.kind)
        and curve.guarantee.projection == guarantee.projection
    ]
    if request.guess is not None:
        options = similarity.with_expected(options, request, similarity.QUICK)
    return outline(request, assumed=facts.get("distance") is None, options=options)


def outline(request: PlanRequest, *, assumed: bool, options: Iterable[Option] | None = None) -> Plan:
    """An outline of a plan, without advice.

    A plan without advice; unless told otherwise with typical sensitivities, so that it takes milliseconds.
    """
    found = tuple(sorted(candidates.typical_options(request) if options is None else options, key=request.merit))
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
    if purpose in SUMMED and rows is None:
        raise ParameterError(
            f"a plan for purpose={purpose!r} needs the number of records (rows): its error falls with it"
        )
    return ColumnWidths.flags_of(columns or 0) if schema is None else ColumnWidths.of(schema)


def _typical(widths: ColumnWidths, purpose: Purpose) -> float:
    squared = widths.squared_typical
    return math.sqrt(squared / (2 * widths.dim) if purpose in ("covariance", "learning") else squared)
