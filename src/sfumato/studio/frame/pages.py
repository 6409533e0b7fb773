"""Pages and forms: templates with every value escaped, and the one way in which a handler is called.

A POST reaches its handler only with the form's token; an error of ours becomes a page that says what was wrong, any
other one a page that says nothing of it, since its text might hold a cell.
"""

import functools
import hmac
from collections.abc import Callable
from typing import Any, TypeAlias

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from sfumato import untrusted
from sfumato.errors import SfumatoError
from sfumato.report import svg
from sfumato.report.numbers import file_size, number, relative
from sfumato.studio.frame.shared_state import Studio
from sfumato.studio.inputs.folder import NotHereError
from sfumato.studio.inputs.form_fields import Form, fields_in
from sfumato.studio.inputs.page_words import said

Reader: TypeAlias = Callable[[Studio, Request], Response]
Writer: TypeAlias = Callable[[Studio, Request, Form], Response]

SCREENS = (
    *(("data", "Data"), ("plan", "Plan"), ("release", "Release")),
    *(("streams", "Streams"), ("explore", "Explore"), ("ask", "Ask"), ("budget", "Budget")),
)
STEPS = {  # of the guided way, for a table
    "describe": ("Describe", "/data/{}"),
    "plan": ("Plan", "/plan?purpose=table&data={}"),
    "price": ("Price", "/release?data={}"),
    "release": ("Release", ""),
    "look": ("Look", "/look?data={}"),
}
_HALF = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")  # surrogates: halves of a letter


@functools.cache
def environment() -> Environment:
    """The templates of the studio's pages."""
    made = Environment(
        loader=PackageLoader("sfumato.studio"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"size": file_size, "kept": Kept, "number": number, "relative": relative}
    made.globals |= {"framed": svg.framed, "gauge": svg.gauge}
    return made


class Kept(str):
    """A text that a page puts into a form and that comes back as it is."""

    __slots__ = ()


def _shown(value: object) -> object:
    """A text as a page's template shows it, without what cannot be sent.

    Plain, unless it is to come back as it is; markup as it is.
    """
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return value.translate(_HALF) if isinstance(value, Kept) else untrusted.marked(value)


def render(studio: Studio, template: str, **facts: Any) -> str:
    """The text of a page or of a part of one, from its template."""
    shared = {
        "screens": SCREENS,
        "steps": STEPS,
        "step": "",
        "csrf": studio.keys.csrf,
        "folder": studio.folder.data.name,
    }
    return environment().get_template(template).render(shared | facts)


def page(studio: Studio, template: str, status: int = 200, **facts: Any) -> HTMLResponse:
    """A page as a response, from its template."""
    return HTMLResponse(render(studio, template, **facts), status)


def reading(studio: Studio, path: str, handler: Reader) -> Route:
    """The route of a page that changes nothing."""

    async def endpoint(request: Request) -> Response:
        return await _answer(studio, lambda: handler(studio, request), as_json=False)

    return Route(path, endpoint, methods=["GET"], name=handler.__name__)


def writing(studio: Studio, path: str, handler: Writer) -> Route:
    """The route of a page's form that may change something: the token of our forms is checked here, for all of them."""

    async def endpoint(request: Request) -> Response:
        form = fields_in(request.headers.get("content-type", ""), await request.body())
        as_json = request.headers.get("content-type", "").startswith("application/json")
        offered = request.headers.get("x-csrf") if as_json else (form or {}).get("csrf")
        if form is None or not hmac.compare_digest((offered or "").encode(), studio.keys.csrf.encode()):
            text = "This form is not one of this page's: reload it and try again."
            return _refused(studio, 403, text, as_json=as_json)
        return await _answer(studio, lambda: handler(studio, request, form), as_json=as_json)

    return Route(path, endpoint, methods=["POST"], name=handler.__name__)


async def _answer(studio: Studio, work: Callable[[], Response], *, as_json: bool) -> Response:
    try:
        return await run_in_threadpool(work)
    except NotHereError as error:
        status, text = 404, said(error)
    except SfumatoError as error:
        status, text = 400, said(error)
    except OSError as error:
        status, text = 500, f"the file system refused: {error.strerror or type(error).__name__}"
    except Exception as error:  # noqa: BLE001 - its text might hold a cell
        status, text = 500, f"this went wrong ({type(error).__name__}); nothing more is shown, to keep cells private"
    return _refused(studio, status, text, as_json=as_json)


def _refused(studio: Studio, status: int, text: str, *, as_json: bool) -> Response:
    """A refusal: a page for people, an object for a script."""
    if as_json:
        return JSONResponse({"error": untrusted.marked(text)}, status)
    return page(studio, "error.html", status, text=text)
