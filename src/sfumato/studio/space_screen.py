"""Shared spaces: those of the folder, and a form that makes one. A space is public, and costs nothing."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from sfumato.errors import ParameterError, SchemaError, SfumatoError
from sfumato.projection.space import Space
from sfumato.studio.frame.pages import page, reading, writing
from sfumato.studio.frame.shared_state import Studio
from sfumato.studio.inputs.folder import read_schema, read_space
from sfumato.studio.inputs.form_fields import Form, whole_in
from sfumato.studio.inputs.page_words import said
from sfumato.studio.inputs.release_form import PROJECTIONS

_FIELDS = ("schema", "family", "dimension", "name")
_FAMILIES = {"": "the usual"} | {key: key for key in PROJECTIONS if key}
_DIGEST = 12  # digits of a digest that a page shows


def routes(studio: Studio) -> list[Route]:
    """The routes of shared spaces."""
    return [reading(studio, "/spaces", spaces), writing(studio, "/spaces/new", make)]


def spaces(studio: Studio, request: Request) -> Response:
    """The shared spaces of the folder, and the form that makes one."""
    return _spaces(studio, dict.fromkeys(_FIELDS, ""), made=request.query_params.get("made", ""))


def make(studio: Studio, request: Request, form: Form) -> Response:
    """Make a shared space from a schema of the folder: its seed is drawn, and everything in it is public."""
    del request
    fields = {key: form.get(key, "").strip() for key in _FIELDS}
    try:
        if not fields["schema"]:
            raise ParameterError("choose a schema: what the columns of all owners may hold")
        schema = read_schema(studio.folder.file(fields["schema"], ".toml"))
        path = studio.folder.new_file(fields["name"], ".space")
        made = Space(schema, fields["family"] or None, whole_in(fields, "dimension"))  # type: ignore[arg-type]
        _save(made, path)
    except SfumatoError as error:
        return _spaces(studio, fields, said(error))
    return RedirectResponse(f"/spaces?made={path.name}", 303)


def _save(space: Space, path: Any) -> None:
    try:
        space.save(path)
    except SchemaError as error:
        raise SchemaError(str(error).replace(str(path), path.name)) from None


def _spaces(studio: Studio, fields: Mapping[str, str], wrong: str = "", made: str = "") -> Response:
    facts: dict[str, Any] = {
        "spaces": [_shown(studio, name) for name in studio.folder.named(".space")],
        "schemas": studio.folder.named(".toml"),
        "families": _FAMILIES,
        "fields": fields,
        "wrong": wrong,
        "made": made,
    }
    return page(studio, "spaces.html", 422 if wrong else 200, here="data", **facts)


def _shown(studio: Studio, name: str) -> dict[str, Any]:
    """A shared space as the list shows it, or why it cannot be read."""
    try:
        space = read_space(studio.folder.file(name, ".space"))
    except SfumatoError as error:
        return {"name": name, "wrong": said(error)}
    columns = [column.name for column in space.schema.data_columns]
    about = {"dimension": space.dimension, "family": space.family, "digest": space.digest[:_DIGEST]}
    return {"name": name, "wrong": "", "columns": len(columns)} | about
