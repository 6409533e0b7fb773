"""The application: every screen's routes, behind the guard."""

from importlib import resources

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from sfumato.report import svg
from sfumato.studio import (
    ask_screen,
    budget_screen,
    data_screen,
    explore_screen,
    learn_screen,
    plan_screen,
    release_screen,
    space_screen,
    together_screen,
)
from sfumato.studio.frame.guard import Guard
from sfumato.studio.frame.pages import reading
from sfumato.studio.frame.shared_state import Studio
from sfumato.studio.growing import streams_screen


def application(studio: Studio, port: int) -> Guard:
    """The studio's application at a port of 127.0.0.1: the guard is around all of it, what answers errors included."""
    return Guard(screens(studio), studio.keys, port)


def screens(studio: Studio) -> Starlette:
    """The application behind the guard: the routes of every screen, and files."""
    static = str(resources.files("sfumato.studio") / "static")
    routes = [
        reading(studio, "/", _home),
        *data_screen.routes(studio),
        *plan_screen.routes(studio),
        *release_screen.routes(studio),
        *budget_screen.routes(studio),
        *learn_screen.routes(studio),
        *space_screen.routes(studio),
        *streams_screen.routes(studio),
        *explore_screen.routes(studio),
        *together_screen.routes(studio),
        *ask_screen.routes(studio),
        reading(studio, "/static/pictures.css", _pictures),
        Mount("/static", StaticFiles(directory=static)),
    ]
    made = Starlette(routes=routes)
    made.router.redirect_slashes = False  # a path is what it is
    return made


def _home(studio: Studio, request: Request) -> Response:
    del studio, request
    return RedirectResponse("/data", 303)


def _pictures(studio: Studio, request: Request) -> Response:
    """The application's style sheet of pictures, which reports carry too."""
    del studio, request
    return Response(svg.style(), media_type="text/css")
