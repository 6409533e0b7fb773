"""The Budget screen: what was spent of each dataset, what remains, every release, and whether the record is whole."""

from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from sfumato import defaults
from sfumato.errors import ParameterError, SfumatoError
from sfumato.ledger.division import division_words
from sfumato.ledger.state import Dataset
from sfumato.privacy.units import Cap
from sfumato.studio.frame.pages import page, reading, writing
from sfumato.studio.frame.shared_state import Studio
from sfumato.studio.inputs.form_fields import Form, guarantee_in
from sfumato.studio.inputs.page_words import UNITS, said

_FIELDS = ("name", "unit", "epsilon", "delta", "neighbours")
_STATES = {
    "committed": "published",
    "drawn": "spent; not recorded as published",
    "reserved": "reserved, nothing drawn",
    "void": "given back",
}
_NEXT = {  # what to do about a state; LEDGER stands for its place, since a URL may hold a password
    "drawn": "Not recorded: if a release was written whole, `sfumato ledger confirm LEDGER NAME.release` records it.",
    "reserved": 'Reserved: if nothing will be drawn, `sfumato ledger void LEDGER NO --reason "..."` gives it back.',
}


def routes(studio: Studio) -> list[Route]:
    """The routes of the Budget screen."""
    return [
        reading(studio, "/budget", budget),
        writing(studio, "/budget/dataset", enter),
        writing(studio, "/budget/verify", verify),
    ]


@dataclass(frozen=True, slots=True)
class Bar:
    """What was spent of a cap, as a bar of the Budget screen."""

    words: str
    spent: float
    whole: float
    remaining: float
    composition: str
    division: str

    @property
    def share(self) -> float:
        """The share of the cap that is spent, at most all of it."""
        return min(1.0, self.spent / self.whole)


def bars(dataset: Dataset) -> list[Bar]:
    """A bar of the Budget screen for each cap of a dataset."""
    found = []
    for place, cap in enumerate(dataset.caps):
        spent, words = dataset.total(place).epsilon, said(" ".join(division_words(dataset, place)))
        amounts = spent, cap.guarantee.epsilon, dataset.remaining(place)
        found.append(Bar(cap.describe(), *amounts, dataset.composition, words))
    return found


def budget(studio: Studio, request: Request) -> Response:
    """The Budget screen: all datasets."""
    del request
    return _budget(studio)


def enter(studio: Studio, request: Request, form: Form) -> Response:
    """The Budget screen's form: enter a dataset with its cap; the ledger is made if it is not there yet."""
    del request
    fields = {key: form.get(key, "") for key in _FIELDS}
    try:
        studio.entered(fields["name"], Cap(guarantee_in(fields)))
    except SfumatoError as error:
        return _budget(studio, 422, fields=fields, wrong=said(error))
    return RedirectResponse("/budget", 303)


def verify(studio: Studio, request: Request, form: Form) -> Response:
    """The Budget screen's check that no entry was edited, removed or moved, and that a noted hash is still there."""
    del request
    ledger = studio.ledger()
    if ledger is None:
        raise ParameterError("there is no ledger to verify")
    try:
        entries, last = ledger.verify(form.get("expected", "").strip() or None)
    except SfumatoError as error:
        return _budget(studio, broken=said(error))
    return _budget(studio, verified={"entries": entries, "last": last})


def _budget(studio: Studio, status: int = 200, **facts: Any) -> Response:
    try:
        datasets, absent, unreadable = studio.datasets(), studio.ledger() is None, ""
    except SfumatoError as error:
        datasets, absent, unreadable = [], False, said(error)
    shared = {
        "place": studio.place,
        "datasets": [(d, bars(d)) for d in datasets],
        "absent": absent,
        "unreadable": unreadable,
        "states": _STATES,
        "next": _NEXT,
        "units": UNITS,
        "fields": {"name": "", "unit": defaults.UNIT, "neighbours": defaults.NEIGHBOURS} | defaults.SUGGESTED_CAP,
        "wrong": "",
        "verified": None,
        "broken": "",
    }
    return page(studio, "budget.html", status, here="budget", **(shared | facts))
