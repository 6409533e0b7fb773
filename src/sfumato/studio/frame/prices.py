"""Orders on their way: who pays, the page of a price, and whether all is as it was when it was looked at."""

from dataclasses import replace

from starlette.responses import Response

from sfumato.errors import ParameterError
from sfumato.ledger.account import Account
from sfumato.ledger.ledger import Ledger
from sfumato.studio.frame.jobs import Order
from sfumato.studio.frame.pages import page
from sfumato.studio.frame.shared_state import Studio
from sfumato.studio.inputs.folder import file_state
from sfumato.studio.inputs.form_fields import Form


def check_same(studio: Studio, order: Order) -> None:
    """Refuse an order whose table, or other file, is another one by now, or was written to.

    A link may have taken its place.
    """
    path = studio.folder.table(order.table) if order.table else order.data
    if path != order.data or file_state(path) != order.state:
        what = "table" if order.table else "file"
        raise ParameterError(f"the {what} has changed: look at the price again; nothing was spent")


def account_in(studio: Studio, fields: Form) -> Account | None:
    """What an order is charged to; None if the owner chose no dataset."""
    ledger, name = studio.ledger(), fields.get("dataset", "")
    if not name:
        return None
    if ledger is None:
        raise ParameterError("this studio was started without a ledger, so nothing can be charged")
    return ledger.account(name, convert=fields.get("convert") == "yes", exceptions=fields.get("exceptions") == "yes")


def patient(studio: Studio, account: Account) -> Account:
    """An account for a job, which waits longer for other writers to the ledger than a page."""
    return replace(account, journal=Ledger(str(studio.place)).journal)


def priced(studio: Studio, order: Order) -> Response:
    """The page of a price, whatever is ordered; it starts once it is confirmed."""
    studio.jobs.keep(order)
    fits = all(q.fits for q in order.quotes)
    return page(studio, "price.html", here=order.words.screen, order=order, words=order.words, fits=fits)
