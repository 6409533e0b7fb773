"""Drawings: ``release.plot()``. Nothing but the release enters them, so they cost no privacy."""

import re
from dataclasses import dataclass
from pathlib import Path

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.marginals.parts import title
from sfumato.notebook.frame import framed
from sfumato.releases.release import Release
from sfumato.releases.table import TableRelease
from sfumato.report import error_plots, scenes, svg, table_scenes
from sfumato.report.extreme import drawable
from sfumato.report.html import Markup, document, tag
from sfumato.report.scenes import Scene

_FEW = 8  # columns that are drawn where none are named
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


@dataclass(frozen=True, slots=True, repr=False)
class Drawing:
    """Pictures of a release, which a notebook shows. ``save`` writes them to a page of their own."""

    title: str
    pictures: tuple[Scene, ...]
    mark: str

    def __repr__(self) -> str:
        return f"<drawing of {self.title}: {'; '.join(scene.title for scene in self.pictures)}>"

    def _repr_html_(self) -> str:
        figures = (
            tag("figure", tag("h5", scene.title), self._own(scene.picture), tag("figcaption", scene.caption))
            for scene in self.pictures
        )
        return str(framed(self.title, tag("div", *figures, class_="panels")))

    def _own(self, picture: Markup) -> Markup:
        """A picture whose names are its own, beside those of other releases on a page."""
        return Markup(re.sub(r'( id="|url\(#)', rf"\1{self.mark}-", picture))

    def save(self, path: str | Path) -> None:
        """Write the pictures as one .html page that needs nothing else and runs no script."""
        if Path(path).suffix.lower() != ".html":
            raise ParameterError(f"path must end in .html, got {str(path)!r}")
        text = document(self.title, "body { margin: 1rem; }", _POLICY, Markup(self._repr_html_()))
        Path(path).write_text(text, encoding="utf-8")


def plot(release: Release, columns: tuple[str, ...]) -> Drawing:
    """The drawing of a release: of a table some columns, of others how answers err and what was released."""
    shown, _ = drawable(release)
    if isinstance(shown, TableRelease):
        pictures = _of_table(shown, columns)
    elif columns:
        raise ParameterError(f"columns are drawn of tables, and this is a release of kind {release.manifest['kind']!r}")
    else:
        errors = error_plots.plot(shown)
        pictures = [*scenes.scenes(shown), *([] if errors is None else [_errors(errors)])]
    return Drawing(repr(release).strip("<>"), tuple(pictures), f"d{release.manifest['digest'][:8]}")


def _of_table(release: TableRelease, columns: tuple[str, ...]) -> list[Scene]:
    """Columns of a synthetic table, as its report shows them."""
    partition, _ = table_scenes.column_counts(release)
    names = [title(variable) for variable in partition.variables]
    for name in columns:
        check.one_of(names, columns=name)
    drawn = table_scenes.scenes(release)[1:]
    return [scene for scene in drawn if scene.title in columns] if columns else drawn[:_FEW]


def _errors(found: svg.Plot) -> Scene:
    name = found.title or found.y_name
    return Scene(f"{name[:1].upper()}{name[1:]}", Markup(svg.draw(found, "errors") + svg.legend(found.keys)), "")
