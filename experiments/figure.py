"""Figures of the experiments, through matplotlib: as SVG or PNG."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure


@contextmanager
def figure(path: str | Path, title: str, size: tuple[float, float]) -> Iterator[Any]:
    """A matplotlib figure that is written to ``path``, .svg or .png, when the block ends."""
    with rc_context({"svg.hashsalt": "sfumato", "svg.fonttype": "none", "font.size": 9}):
        picture = Figure(figsize=size, layout="constrained")
        yield picture
        picture.suptitle(title, fontsize=9, parse_math=False)
        picture.savefig(path, dpi=130, metadata={"Date": None} if Path(path).suffix == ".svg" else None)
