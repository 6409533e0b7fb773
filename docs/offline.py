"""A page of the site loads nothing from a host: no scripts, styles, fonts or pictures. Links may lead anywhere."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_LOADING = re.compile(
    r"<(?:script|img|iframe|source|link(?![^>]*rel=.(?:canonical|search)))\b[^>]*(?:src|href)=.(?:https?:)?//"
)
_IMPORTED = re.compile(r"(?:@import|url\()\s*['\"]?(?:https?:)?//")


def loaded(site: Path) -> Iterator[str]:
    """Files of a built site that would load something from a host."""
    for path in sorted(site.rglob("*")):
        pattern = {".html": _LOADING, ".css": _IMPORTED}.get(path.suffix)
        if pattern is not None and pattern.search(path.read_text(encoding="utf-8")):
            yield str(path.relative_to(site))


def setup(app: Any) -> dict[str, bool]:
    """End the build with an error if a page needs the network."""

    def finished(app: Any, exception: Exception | None) -> None:
        found = [] if exception else list(loaded(Path(app.outdir)))
        if found:
            raise RuntimeError(f"these pages need the network: {', '.join(found)}")

    app.connect("build-finished", finished)
    return {"parallel_read_safe": True}
