"""The application: every screen's routes, behind the guard."""

from importlib import resources

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from sfumato.releases.release import load
from sfumato.studio import budget_screen, describe_screen, explore_screen, plan_screen, release_screen
from sfumato.studio.desk import Studio
from sfumato.studio.guard import Guard
from sfumato.studio.pages import page, reading


def application(studio: Studio, port: int) -> Guard:
    """The studio at a port of 127.0.0.1: the guard is around all of it, what answers errors included."""
    return Guard(screens(studio), studio.keys, port)


def screens(studio: Studio) -> Starlette:
    """What is behind the guard."""
    static = str(resources.files("sfumato.studio") / "static")
    routes = [
        reading(studio, "/", _home),
        *describe_screen.routes(studio),
        *plan_screen.routes(studio),
        *release_screen.routes(studio),
        *budget_screen.routes(studio),
        reading(studio, "/explore", _explore),
        reading(studio, "/explore/{name}", _explored),
        Mount("/static", StaticFiles(directory=static)),
    ]
    made = Starlette(routes=routes)
    made.router.redirect_slashes = False  # a path is what it is
    return made


def _home(studio: Studio, request: Request) -> Response:
    del studio, request
    return RedirectResponse("/data", 303)


def _explore(studio: Studio, request: Request) -> Response:
    """The releases in the folder."""
    del request
    releases, unnamed = studio.folder.releases(), studio.folder.unnamed()
    return page(studio, "explore_list.html", here="explore", releases=releases, unnamed=unnamed)


def _explored(studio: Studio, request: Request) -> Response:
    """One release: its questions and, if one is asked (``?question=...``), the answer; a GET, since nothing changes."""
    name, fields = request.path_params["name"], dict(request.query_params)
    release = load(studio.folder.release(name))
    asked = fields.get("question")
    told = None if asked is None else explore_screen.answer(release, asked, fields)
    facts = {"name": name, "manifest": release.manifest, "questions": explore_screen.questions(release)}
    return page(studio, "explore.html", here="explore", **facts, asked=asked, fields=fields, answer=told)
