"""The Explore screen of several releases together: sketches of one shared space compared, others added up.

Post-processing of releases: costs no privacy and reads no data. Names of releases hold no ``/``, which parts them in a
form.
"""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import numpy as np
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from sfumato import untrusted
from sfumato.errors import ParameterError, ReleaseError, SfumatoError
from sfumato.fileformat.owners import composed_words
from sfumato.intervals.estimate import HIDDEN
from sfumato.owners import sums
from sfumato.owners.joined import JoinedSketches, join
from sfumato.owners.links import link
from sfumato.releases.release import AnyRelease, load
from sfumato.releases.sketch import SketchRelease
from sfumato.report.extreme import check_computable
from sfumato.report.numbers import number, percent
from sfumato.studio import explore_screen
from sfumato.studio.frame.pages import page, reading, writing
from sfumato.studio.frame.shared_state import Studio
from sfumato.studio.inputs.folder import LARGEST_MANIFEST, NotHereError
from sfumato.studio.inputs.form_fields import Choice, Form, Number, Whole, read
from sfumato.studio.inputs.page_words import said
from sfumato.studio.replies import (
    LEVEL,
    SHARE,
    Question,
    Reply,
    Row,
    Values,
    bar,
    between,
    interval_names,
    level_in,
    rows_of,
)

MOST_TOGETHER = 40
_MOST_NUMBERS = 1 << 25  # that releases have together
_MOST_LINKED, _FEWEST_LINKED = 4000, 100  # records of each of two owners
_MOST_NEAREST, _SHOWN_LINKS = 100, 100
_ALL = "all owners"
_DIGEST = 12  # digits of a digest that a page shows


def routes(studio: Studio) -> list[Route]:
    """The routes of several releases together, and of the list that they are chosen from."""
    return [
        reading(studio, "/explore", releases),
        reading(studio, "/together", together),
        writing(studio, "/together/keep", keep),
    ]


def releases(studio: Studio, request: Request) -> Response:
    """The Explore screen: the releases in the folder."""
    del request
    found, unnamed = [_listed(studio, name) for name in studio.folder.releases()], studio.folder.unnamed()
    return page(studio, "explore_list.html", here="explore", releases=found, unnamed=unnamed)


def _listed(studio: Studio, name: str) -> dict[str, str]:
    """A release in the list: its kind and its shared space as it says, unchecked."""
    facts: dict[str, str] = {"name": name, "kind": "", "space": ""}
    try:
        told = untrusted.loads(untrusted.read(studio.folder.release(name) / "manifest.json", LARGEST_MANIFEST))
        kind, space = told.get("kind"), told.get("space", {}).get("digest", "")
    except (NotHereError, OSError, ValueError, AttributeError, RecursionError, untrusted.NotOrdinaryError):
        return facts
    return facts | {"kind": str(kind)[:40], "space": str(space)[:_DIGEST]}


# ---- several at once -------------------------------------------------------------------------------------------------


def together(studio: Studio, request: Request) -> Response:
    """Several releases at once: joined or added up, with questions to them; a GET: nothing changes."""
    names, fields = request.query_params.getlist("name"), dict(request.query_params)
    try:
        found = _loaded(studio, names)
        taken = _taken(found)
    except NotHereError:
        raise
    except SfumatoError as error:
        return page(studio, "together.html", 400, here="explore", names=names, refused=said(error))
    asked = fields.get("question")
    questions = _of_joined(taken) if isinstance(taken, JoinedSketches) else explore_screen.questions_of(taken)
    with studio.plans.mine():
        answer = None if asked is None else _answer(questions, taken, asked, fields)
    shown: dict[str, Any] = {
        "refused": "",
        "told": _told(taken),
        "warnings": _warnings(found),
        "owners": [_owner(name, one) for name, one in found.items()],
        "lost": composed_words(taken.manifest),
        "questions": [question.plain() for question in questions],
        "summed": not isinstance(taken, JoinedSketches),
        "free": _free_name(studio),
        "action": "/together",
        "hidden": names,
    }
    return page(
        studio, "together.html", here="explore", names=names, asked=asked, fields=fields, answer=answer, **shown
    )


def keep(studio: Studio, request: Request, form: Form) -> Response:
    """Keep the sum of several releases as a release of its own in the folder."""
    del request
    path = studio.folder.new_release(form.get("release", "").strip())
    taken = _taken(_loaded(studio, form.get("names", "").split("/")))
    if isinstance(taken, JoinedSketches):
        raise ParameterError("sums are kept, and what is compared row by row is not: choose covariances or histograms")
    taken.save(path)
    return RedirectResponse(f"/release/made/{quote(path.name, safe='')}", 303)


def _free_name(studio: Studio) -> str:
    names = ("sum.release", *(f"sum-{i}.release" for i in range(2, 1000)))
    return next((name for name in names if not (studio.folder.out / name).exists()), "")


def _loaded(studio: Studio, names: Sequence[str]) -> dict[str, AnyRelease]:
    """Releases of the folder by their owners' names, checked; refused if they are too few, too many or too large."""
    if not 2 <= len(names) <= MOST_TOGETHER:
        raise ParameterError(f"choose at least two releases, and at most {MOST_TOGETHER}, got {len(names)}")
    if len(set(names)) < len(names):
        raise ParameterError("choose every release once")
    found: dict[str, AnyRelease] = {}
    numbers = 0
    for name in names:
        one = load(studio.folder.release(name))
        numbers += getattr(one, "columns", np.empty(0)).size
        if numbers > _MOST_NUMBERS:
            raise ReleaseError("together they are too large for a page: sf.join in Python reads them some at a time")
        check_computable(one)
        found[name.removesuffix(".release")] = one
    return found


def _taken(found: dict[str, AnyRelease]) -> Any:
    """Releases together: sketches of the same columns of a space joined, everything else added up."""
    kinds = [one.manifest["kind"] for one in found.values()]
    if len(set(kinds)) > 1:
        raise ReleaseError(f"releases of one kind are taken together, got {' and '.join(dict.fromkeys(kinds))}")
    parts = {tuple(one.manifest.get("space", {}).get("columns", ())) for one in found.values()}
    if kinds[0] == "sketch" and len(parts) == 1:
        return join(found)
    return sums.add(found.values())


def _told(taken: Any) -> str:
    if isinstance(taken, JoinedSketches):
        facts = taken.manifest["space"]
        return (
            f"{len(taken.owners)} owners with {taken.rows:,} records in the shared space {facts['digest'][:_DIGEST]}, "
            f"{taken.dimension} numbers each. Intervals know the noise of both owners."
        )
    return f"The sum of {len(taken.manifest['owners'])} releases. Its error bars are those of the sum of their noises."


def _warnings(found: dict[str, AnyRelease]) -> list[str]:
    return list(dict.fromkeys(line for one in found.values() for line in one.manifest["warnings"]))


def _owner(name: str, release: AnyRelease) -> dict[str, Any]:
    promise = release.guarantee
    return {"name": name, "rows": release.manifest.get("rows"), "epsilon": promise.epsilon, "delta": promise.delta}


def _answer(questions: Sequence[Question], taken: Any, asked: str, fields: dict[str, str]) -> dict[str, Any]:
    found = next((question for question in questions if question.name == asked), None)
    if found is None:
        raise ParameterError("these releases do not answer that question")
    values, wrong = read(found.fields, fields)
    if wrong:
        return {"wrong": wrong}
    try:
        return found.ask(taken, values).plain()
    except SfumatoError as error:
        return {"refused": said(error)}


# ---- rows of several owners ------------------------------------------------------------------------------------------


def _of_joined(joined: JoinedSketches) -> list[Question]:
    counts = [one.count for one in joined.held]
    most = max(counts) - 1
    owner, other = (Choice(key, title, name, "", joined.owners) for key, title, name in _two(joined))
    record = Whole("record", "Record", "0", low=0, high=most)
    another = Whole("another", "Record of the other", "0", low=0, high=most)
    among = Choice("among", "Among", joined.owners[1], "", (*joined.owners, _ALL))
    largest = min(_MOST_NEAREST, *counts)
    many = Whole("k", "How many", str(min(10, largest)), low=1, high=largest)
    text = "How far a record of one owner is from a record of another, squared."
    found = [
        Question("distance", "Distance", text, (owner, record, other, another, LEVEL), _distance),
        Question(
            "nearest",
            "Nearest records",
            "Which records look most like one.",
            (owner, record, among, many, LEVEL),
            _nearest,
        ),
    ]
    if len(counts) == 2 and min(counts) >= _FEWEST_LINKED and max(counts) <= _MOST_LINKED:
        share = Number("share", "Share of false links", "0.05", "at most, by the estimate", low=0.0, high=1.0)
        text = "Which records of both may be the same person\u2019s, the surest first."
        found.append(Question("links", "Links", text, (share,), _links))
    return found


def _two(joined: JoinedSketches) -> tuple[tuple[str, str, str], tuple[str, str, str]]:
    return ("owner", "Owner", joined.owners[0]), ("other", "Other owner", joined.owners[1])


def _distance(joined: JoinedSketches, values: Values) -> Reply:
    one, two = joined.at(values["owner"], values["record"]), joined.at(values["other"], values["another"])
    if one == two:
        raise ParameterError("give another record than the first")
    found = joined.distance(one, two)
    row = bar("squared distance", found, level_in(values))
    which = f"record {values['record']:,} of {values['owner']} and record {values['another']:,} of {values['other']}"
    told = f"The squared distance of {which} is about {number(row[1])}; {between(row, values)}."
    note = "It is indistinguishable from 0." if row[3] <= 0 else ""
    note = HIDDEN if found.quantity.filled_by(*row[3:]) else note
    return Reply(told, ("", *interval_names(values)), (row,), found, note)


def _nearest(joined: JoinedSketches, values: Values) -> Reply:
    among = None if values["among"] == _ALL else values["among"]
    found = joined.nearest(joined.at(values["owner"], values["record"]), values["k"], among)
    lows, highs = found.distances.interval(level_in(values))
    whose, places = joined.owner_of(found.indices), joined.record_of(found.indices)
    names = [f"{name}, {place:,}" for name, place in zip(whose, places.tolist(), strict=True)]
    rows = rows_of(names, found.distances.value, found.distances.standard_error, lows, highs)
    told = f"The {len(rows)} records of {values['among']} that look nearest to record {values['record']:,} of "
    note = "The intervals allow for the choice: they are as wide as if asked of all these records at once."
    note = f"{note} {HIDDEN}" if found.distances.quantity.filled_by(lows, highs) else note
    note = f"{note} {found.note}".strip()
    head = ("owner, record", *interval_names(values))
    return Reply(f"{told}{values['owner']}, by squared distance.", head, rows, found.distances, note)


def _links(joined: JoinedSketches, values: Values) -> Reply:
    one, two = (_sketch(held.release) for held in joined.held)
    every = link(one, two)
    found = every.at(values["share"])
    shown: list[Row] = [
        (f"{first:,}", f"{second:,}", percent(float(chance)), percent(float(rate)))
        for (first, second), chance, rate in zip(
            found.pairs[:_SHOWN_LINKS].tolist(), found.probability, found.rates, strict=False
        )
    ]
    told = " ".join(every.describe(values["share"]).splitlines())
    head = (f"record of {joined.owners[0]}", f"record of {joined.owners[1]}", "probability", f"false {SHARE}s up to it")
    more = f" The surest {_SHOWN_LINKS} are shown; sf.link has all." if len(found) > _SHOWN_LINKS else ""
    note = (
        "False links are counted by decoys. The estimate is right if both owners\u2019 other records come from one "
        f"population, and nobody has two records with one owner. {every.privacy}{more}"
    )
    return Reply(told, head, tuple(shown), note=note)


def _sketch(release: AnyRelease) -> SketchRelease:
    assert isinstance(release, SketchRelease)
    return release
