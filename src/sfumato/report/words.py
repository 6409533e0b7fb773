"""What a report says: the promise, what it leaves open, the budget, the parameters, and how to load the release."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sfumato.fileformat import kinds, plain_words
from sfumato.fileformat.manifest import Manifest
from sfumato.fileformat.owners import owners_sentence
from sfumato.fileformat.spaces import space_sentence
from sfumato.privacy.attack_bounds import guess
from sfumato.privacy.guarantee import Guarantee
from sfumato.report import column_words
from sfumato.report.html import Markup, escape, join, tag
from sfumato.report.numbers import number
from sfumato.report.svg import gauge

if TYPE_CHECKING:
    from sfumato.ledger.state import Dataset, Spent
    from sfumato.releases.release import AnyRelease

_MOST_LIST = 8
_MOST_OWNERS, _DIGEST = 100, 12  # owners in a table, and digits of their digests


# ---- the promise ----------------------------------------------------------------------------------------------------


def kept(manifest: Manifest) -> bool:
    """Whether a release keeps its promise, which decides the words of a report."""
    return bool(manifest["protected"] and kinds.claim_kept(manifest))


def meaning(guarantee: Guarantee) -> str:
    """A report's words on what the numbers leave to an attacker who must decide between two inputs: one sentence."""
    right = guess(guarantee.epsilon, guarantee.delta)
    share = f"{math.ceil(right * 1000) / 10:.1f}%".replace(".0%", "%") if right < 0.999 else "nearly all"
    unit = {"attribute": "one value of one record", "record": "one record", "edge": "one edge"}[guarantee.unit]
    whose = f"one person\u2019s {guarantee.group} records" if guarantee.group > 1 else unit
    radius = guarantee.allowed_change.radius
    near = "" if radius is None else f" that are no farther apart than {number(radius, 6)}"
    task = f"holds two candidates{near} at even odds"
    if guarantee.neighbours == "add-remove":
        task = "wonders, at even odds, whether it is in the data"
    return (
        f"Somebody who knows everything but {whose}, {task}, and sees this release, is right in at most {share} of "
        "cases. A coin is right in 50%."
    )


def symbols(guarantee: Guarantee) -> Markup:
    """A report's words on the promise as a formula, with who the neighbours are."""
    epsilon, delta = tag("i", "\u03b5"), tag("i", "\u03b4")
    data, other = tag("i", "D"), join(tag("i", "D"), "\u2032")
    left = join("Pr[\u2009", tag("i", "M"), "(", data, ") \u2208 ", tag("i", "S"), "\u2009]")
    right = join("Pr[\u2009", tag("i", "M"), "(", other, ") \u2208 ", tag("i", "S"), "\u2009]")
    more = join(" + ", delta) if guarantee.delta else ""
    formula = join(left, " \u2264 ", "e", tag("sup", epsilon), "\u2009", right, more)
    values = join("with ", epsilon, " = ", number(guarantee.epsilon, 6))
    if guarantee.delta:
        values = join(values, " and ", delta, " = ", number(guarantee.delta, 6))
    return join(
        tag("p", formula, class_="formula"),
        tag(
            "p",
            "for every set ",
            tag("i", "S"),
            " of outcomes and all ",
            data,
            ", ",
            other,
            " ",
            values,
            ", where ",
            _neighbours(guarantee),
            ".",
        ),
    )


def _neighbours(guarantee: Guarantee) -> Markup:
    row, moved, low, high = _x("x", "i"), _x("x\u2032", "i"), _x("l", "j"), _x("u", "j")
    if guarantee.unit == "edge":
        weight, changed = _x("a", "uv"), _x("a\u2032", "uv")
        return join("they differ in one weight ", weight, " \u2260 ", changed, " of a pair, both within [0, 1]")
    if guarantee.unit == "attribute":
        one, two = _x("x", "ij"), _x("x\u2032", "ij")
        return join("they differ in one value ", one, " \u2260 ", two, ", both within [", low, ", ", high, "]")
    rows = "one row" if guarantee.group == 1 else f"at most {guarantee.group} rows"
    if guarantee.neighbours == "add-remove":
        return join("one of them has ", rows, " more than the other, within the bounds [", low, ", ", high, "]")
    change = guarantee.allowed_change
    if change.kind == "box":
        return join(
            "they differ in ", rows, ", ", row, " \u2260 ", moved, ", every value within [", low, ", ", high, "]"
        )
    norm = tag("sub", "1" if change.kind == "l1" else "2")
    return join(
        "they differ in ",
        rows,
        ", and \u2016",
        row,
        " \u2212 ",
        moved,
        "\u2016",
        norm,
        " \u2264 ",
        number(change.radius or 0, 6),
        ", in weighted units",
    )


def _x(letter: str, index: str) -> Markup:
    return join(tag("i", letter), tag("sub", tag("i", index)))


# ---- what it leaves open --------------------------------------------------------------------------------------------


_DEPENDENT = (
    "The promise compares inputs in which one unit changes and all else stays. Where {things} tell about each other "
    "(families, copies, repeated visits), what is learnt about one from the others is not counted."
)
_EVERYBODY = (
    "A fact that the data show about people in general can be applied to any one of them, whether or not they are in "
    "the data. The promise limits only what their own data add."
)
_FRESH = (
    "The promise rests on a projection that was drawn after the data were fixed. It does not hold for rows that "
    "somebody chose knowing the projection, nor for a second release with the same one."
)
_WHEN = (
    "Records are replaced within their period: how many records each period has is public, and the promise does not "
    "hide in which period a record came."
)
_IDEALIZED = (
    "The proof is about real numbers, and this release was computed in doubles and rounded to a coarse grid. No proof "
    "covers the difference."
)


def uncovered(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """A report's words on what the promise does not cover: each a few words, and a sentence or two."""
    guarantee, graph = Guarantee.from_dict(manifest["guarantee"]), kinds.of(manifest).graph
    yield "What is public", plain_words.unprotected(manifest) + _public(manifest)
    yield _more_than_a_unit(guarantee)
    things = "edges" if graph else "records"
    yield f"{things.capitalize()} that depend on each other", _DEPENDENT.format(things=things)
    yield "What is true of everybody", _EVERYBODY
    charged = (
        f"This one was {plain_words.accounted(manifest)}."
        if manifest["accounted"]
        else "This one was charged to no ledger."
    )
    if "stream" in manifest:
        yield "The rest of the stream", plain_words.streamed(manifest)
    yield "Other releases", f"What is published of the same data adds up: epsilons, at worst, as a plain sum. {charged}"
    owners = owners_sentence(manifest)
    if owners is not None:
        yield "Several owners", owners
    space = space_sentence(manifest)
    if space is not None:
        yield "Other owners", space
    if "stream" in manifest and guarantee.neighbours == "replace":
        yield "When a record came", _WHEN
    if guarantee.projection == "fresh":
        yield "Data chosen after the projection", _FRESH
    if manifest["numerics"] == "idealized":
        yield "The arithmetic", _IDEALIZED
    yield "The randomness", f"{manifest['randomness'][:1].upper()}{manifest['randomness'][1:]}."


def _public(manifest: Manifest) -> str:
    if "schema" not in manifest:
        return ""
    text = " Names, bounds and categories of the columns stand in the release as they were declared."
    if manifest["schema"].get("bounds_from_data"):
        return f"{text} Here the bounds were taken from the data, outside the guarantee: they show extreme values."
    if "learned" in manifest["schema"]:
        return f"{text} {column_words.learned(manifest)}"
    return f"{text} They are harmless only if they come from knowledge and not from the data."


def _more_than_a_unit(guarantee: Guarantee) -> tuple[str, str]:
    """A report's words on groups of units: they are protected less, and a person may be a group."""
    one, two = (number(times * guarantee.epsilon, 6) for times in (1, 2))
    slack = ", with a larger \u03b4" if guarantee.delta else ""
    if guarantee.unit == "record":
        return _more_rows(guarantee, two + slack)
    noun = "value" if guarantee.unit == "attribute" else "edge"
    text = f"One {noun} is protected by \u03b5 = {one}; two together by \u03b5 = {two}{slack}, and so on."
    if noun == "value":
        return "Several values of a record", f"{text} A whole record of many columns has little protection left."
    return "All edges of a vertex", f"{text} A vertex with many edges has little protection left."


def _more_rows(guarantee: Guarantee, twice: str) -> tuple[str, str]:
    own, radius = (
        "one row" if guarantee.group == 1 else f"up to {guarantee.group} rows",
        guarantee.allowed_change.radius,
    )
    text = f"The promise is to people who own {own}; somebody with twice as many is left with \u03b5 = {twice}."
    if radius is None:
        return "People with more rows", text
    text = f"{text} Records farther apart than {number(radius, 6)} are told apart more easily, in proportion."
    return "Larger differences, more rows", text


# ---- the budget -----------------------------------------------------------------------------------------------------


def budget(manifest: Manifest, dataset: "Dataset | None") -> Markup:
    """A report's words on the budget: the ledger's state, if one is given; otherwise what the release says about it."""
    if dataset is None:
        if not manifest["accounted"]:
            return tag("p", "No ledger was used: nobody keeps count of what else was published of these data.")
        return tag(
            "p",
            f"This release was {plain_words.accounted(manifest)}. The state of that ledger is not part of this report.",
        )
    entry = own_entry(manifest, dataset)
    return join(_entry(entry, dataset), *(_cap(dataset, place) for place in range(len(dataset.caps))))


def own_entry(manifest: Manifest, dataset: "Dataset") -> "Spent | None":
    """For a report's words on the budget: a release's entry in the ledger of a dataset, if it was charged there."""
    told = manifest.get("ledger")
    if told is None or told["dataset"] != dataset.name:
        return None
    return next((spent for spent in dataset.releases if spent.number == told["entry"]), None)


def _entry(entry: "Spent | None", dataset: "Dataset") -> Markup:
    if entry is None:
        return tag(
            "p",
            "This release was not charged to the budget of ",
            tag("b", dataset.name),
            ", whose state is below.",
            class_="warn",
        )
    part = f", for the part {entry.part}" if entry.part is not None else ""
    after = ", ".join(number(total.epsilon) for total in entry.totals)
    return tag(
        "p",
        "Charged to the budget of ",
        tag("b", dataset.name),
        f" as entry {entry.number}{part}: {entry.mechanism}, "
        f"\u03b5 = {number(entry.guarantee.epsilon, 6)}, \u03b4 = {number(entry.guarantee.delta, 6)}; it is "
        f"{entry.state}. With it, {after} had been spent.",
    )


def _cap(dataset: "Dataset", place: int) -> Markup:
    cap, total, left = dataset.caps[place], dataset.total(place), dataset.remaining(place)
    whole = cap.guarantee.epsilon
    share = min(1.0, total.epsilon / whole) if math.isfinite(total.epsilon) else 1.0
    counted = sum(s.state != "void" for s in dataset.releases)
    releases = "1 release" if counted == 1 else f"{counted} releases"
    return tag(
        "div",
        tag(
            "p",
            tag("b", f"{number(total.epsilon)} of {number(whole)}"),
            f" spent by {releases} ({total.bound} composition)",
        ),
        gauge([(share, "spent")], f"{share:.0%} spent"),
        tag("p", f"Cap: {cap.describe()}. Left: \u03b5 = {number(left)} (pure).", class_="quiet"),
        class_="cap",
    )


# ---- streams and several owners -------------------------------------------------------------------------------------


def stream(manifest: Manifest) -> Markup:
    """A report's words on the stream that a release is a state of: its period, its horizon, what the promise covers."""
    told = manifest["stream"]
    longer = (
        "" if told["made_for"] == told["horizon"] else f" It was made for {told['made_for']:,} periods and extended."
    )
    return join(
        tag(
            "p",
            f"The sums are those of all periods up to {told['label']!r}, {told['period']:,} of {told['horizon']:,}.",
        ),
        tag("p", f"The promise is about all that the stream publishes within that horizon, together.{longer}"),
        gauge(
            [(min(1.0, told["period"] / told["horizon"]), "spent")], f"{told['period']} of {told['horizon']} periods"
        ),
    )


def owners(manifest: Manifest) -> Markup:
    """A report's words on the owners of what was added up: what each promised, and what all cost together."""
    head = tag("tr", *(tag("th", name, scope="col") for name in ("owner", "records", "\u03b5", "\u03b4", "digest")))
    rows = []
    for place, owner in enumerate(manifest["owners"][:_MOST_OWNERS]):
        promise, count = owner["guarantee"], number(owner["rows"]) if "rows" in owner else "protected"
        cells = (count, number(promise["epsilon"]), number(promise["delta"]), owner["digest"][:_DIGEST])
        rows.append(tag("tr", tag("th", str(place + 1), scope="row"), *(tag("td", cell) for cell in cells)))
    more = len(manifest["owners"]) - len(rows)
    rest = tag("p", f"{more:,} more owners are in manifest.json.", class_="quiet") if more else ""
    table = tag("table", tag("thead", head), tag("tbody", *rows), class_="errors")
    wide = tag("div", table, class_="wide", tabindex="0", role="region", aria_label="The owners")
    return join(tag("p", "What each of them promised to those whose records it holds."), wide, rest)


# ---- parameters -----------------------------------------------------------------------------------------------------


def parameters(manifest: Manifest) -> Markup:
    """A report's words on the parameters: the mechanism with all its numbers, projection, lattice and files."""
    groups: dict[str, dict[str, Any]] = {
        name: {key: value for key, value in dict(manifest[name]).items() if key != "schema"}
        for name in ("mechanism", "projection", "space", "stream", "several", "lattice", "software")
        if name in manifest
    }
    alone = {
        name: manifest[name]
        for name in ("kind", "rows", "numerics", "randomness", "protected", "accounted", "digest")
        if name in manifest
    }
    rows: list[Markup] = [_row(key, value) for key, value in alone.items()]
    for group, facts in groups.items():
        rows += [_row(f"{group}: {key}", value) for key, value in _flat(facts)]
    for name, file in manifest["files"].items():
        rows.append(_row(f"file: {name}", f"{number(file['bytes'])} bytes, SHA-256 {file['sha256']}"))
    return tag("table", tag("tbody", *rows), class_="facts")


def _flat(facts: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in facts.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{key}, ")
        else:
            yield f"{above}{key}", value


def _row(name: object, value: object) -> Markup:
    return tag("tr", tag("th", str(name).replace("_", " "), scope="row"), tag("td", _value(value)))


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number(value, 8)
    if isinstance(value, list):
        plain = all(isinstance(v, (int, float, str)) for v in value)
        if plain and len(value) <= _MOST_LIST:
            return ", ".join(map(_value, value))
        return f"{len(value):,} entries, in manifest.json"
    return str(value)


# ---- loading --------------------------------------------------------------------------------------------------------


def five_lines(release: "AnyRelease", folder: str = "this.release") -> str:
    """A report's words on loading: Python that loads the release and asks it something."""
    manifest = release.manifest
    allow = "" if manifest["protected"] else ", allow_unprotected=True"
    head = f"import sfumato\n\nrelease = sfumato.load({folder!r}{allow})\nprint(release.guarantee.describe())\n"
    example = kinds.of(manifest).example(manifest)
    if manifest["kind"] == "table":
        return f"{head}print(release.table().slice(0, 5))"
    if example is None:
        return f"{head}print(release.array().shape, release.sample(1000, 0).array().mean(axis=0))"
    return f"{head}found = {example}\nprint(found.value, found.standard_error, found.interval(0.95), found.unit)"


def warnings(manifest: Manifest) -> list[str]:
    """A report's words of warning: everything that a reader must know first."""
    first = []
    if not manifest["protected"]:
        first.append("THIS RELEASE PROTECTS NOBODY. It was made with test noise: never publish it.")
    if not kinds.claim_kept(manifest):
        first.append("THE PROMISE BELOW IS NOT KEPT. The noise has published constants that are too small.")
    return first + [line[:1].upper() + line[1:] + "." * (not line.endswith(".")) for line in manifest["warnings"]]


def lead(manifest: Manifest) -> Markup:
    """A report's opening words: what is in the release, as a sentence."""
    text = plain_words.contents(manifest)
    return escape(text[:1].upper() + text[1:] + ".")
