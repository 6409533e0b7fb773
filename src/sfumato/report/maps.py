"""Maps as SVG: points in the plane, and matrices as heat maps (a small PNG within the picture)."""

import base64
import struct
import zlib
from collections.abc import Sequence

import numpy as np

from sfumato.numerics.types import Floats, Integers
from sfumato.report.html import Markup, join, tag
from sfumato.report.svg import Key, legend, shortened

_POSITIVE, _NEGATIVE = (27, 108, 168), (200, 85, 61)
_SIDE = 380


def cloud(points: Floats, label: str, *, codes: Integers | None = None, keys: Sequence[Key] = ()) -> Markup:
    """A map of points in the plane along two directions; with ``codes``, each in the colour of the key of its code."""
    low, high = points.min(axis=0), points.max(axis=0)
    reach = float(max(high - low)) * 1.06 or 1.0
    placed = _SIDE / 2 + (points - (low + high) / 2) / reach * _SIDE * np.array([1, -1])
    parts = [tag("rect", x=0.5, y=0.5, width=_SIDE - 1, height=_SIDE - 1, class_="field")]
    styles = {code: key.style for code, key in enumerate(keys)} if codes is not None else {0: "c0"}
    for code, colour in styles.items():
        path = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in (placed if codes is None else placed[codes == code]))
        parts += [tag("path", d=path, class_=f"cloud {colour}")] if path else []
    middle = {"text_anchor": "middle", "class_": "name"}
    parts.append(tag("text", "first direction", x=_SIDE / 2, y=_SIDE + 18, **middle))
    parts.append(tag("text", "second direction", x=-_SIDE / 2, y=-8, transform="rotate(-90)", **middle))
    return join(_square(parts, (-26, 0, _SIDE + 27, _SIDE + 26), label), legend(keys))


def tiles(matrix: Floats, most: float, **place: object) -> Markup:
    """A small heat map as an image within an SVG picture: fully coloured where entries reach ``most`` in size."""
    image = "data:image/png;base64," + base64.b64encode(_png(matrix, most)).decode()
    return tag("image", **place, href=image, class_="pixels", preserveAspectRatio="none")


def heat(matrix: Floats, label: str, names: Sequence[str] = ()) -> Markup:
    """A matrix as a heat map: one colour above 0, another below, stronger farther from it."""
    rows = len(matrix)
    left = min(150, 8 + 7 * max((min(len(n), 18) for n in names), default=0)) if names and rows <= 24 else 0
    place: dict[str, object] = {"x": left, "y": 0, "width": _SIDE, "height": _SIDE}
    parts = [tag("rect", **place, class_="field"), tiles(matrix, float(np.abs(matrix).max()), **place)]
    for i, name in enumerate(names if left else ()):
        y = (i + 0.5) * _SIDE / rows + 4
        parts.append(tag("text", shortened(name), x=left - 6, y=f"{y:.1f}", text_anchor="end", class_="small"))
    return _square(parts, (0, 0, _SIDE + left, _SIDE + 1), label)


def _square(parts: Sequence[Markup], box: tuple[int, int, int, int], label: str) -> Markup:
    return tag("svg", *parts, viewBox=" ".join(map(str, box)), class_="square", role="img", aria_label=label)


def _png(matrix: Floats, most: float) -> bytes:
    """The pixels of a heat map as PNG: transparent at 0, and fully coloured where entries reach ``most`` in size."""
    share = np.minimum(np.abs(matrix) / (most or 1.0), 1.0)
    pixels = np.empty((*matrix.shape, 4), np.uint8)
    pixels[..., :3] = np.where((matrix >= 0)[..., None], _POSITIVE, _NEGATIVE)
    pixels[..., 3] = np.rint(255 * share)
    raw = b"".join(b"\0" + row.tobytes() for row in pixels)
    size = struct.pack(">IIBBBBB", matrix.shape[1], matrix.shape[0], 8, 6, 0, 0, 0)
    chunks = ((b"IHDR", size), (b"IDAT", zlib.compress(raw, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )
