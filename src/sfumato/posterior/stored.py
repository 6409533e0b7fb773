"""A learned prior as a file that the analyst keeps beside a release, so that it is learned once.

JSON: the digest of the release, numbers as they are, and arrays as base64 of little-endian doubles. The file may come
from anybody, so it is read as what strangers wrote: no more bytes than a release of this width needs, every shape, sign
and sum checked, nothing executed or unpickled. It holds what was computed from published numbers and nothing else, so
keeping it costs no privacy. A forged one can mislead its reader about records, as a forged answer can, and no more.
"""

import base64
import binascii
import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from sfumato import untrusted
from sfumato.errors import ReleaseError
from sfumato.new_file import write_new
from sfumato.numerics.types import Floats
from sfumato.posterior.held_out import Correction
from sfumato.posterior.levels import Levels
from sfumato.posterior.mixture import Mixture
from sfumato.posterior.prior import LearnedPrior, Rest
from sfumato.posterior.products import FittedProducts, Products
from sfumato.posterior.spectrum import Spectrum

FORMAT, VERSION = "sfumato posterior", 1
_FREE, _PER_COLUMN = 1 << 24, 1 << 12  # bytes at most of such a file, and more for each released column
_NUMBER = "<f8"
Ranking = Literal["learned", "released"]  # what neighbours are ranked by
# Shapes of the arrays: d columns, r directions, c components, m of the directions with covariances, b beyond these,
# p parts of a correction, t levels.
SHAPES = {
    "spectrum.mean": "d",
    "spectrum.basis": "dr",
    "spectrum.variances": "r",
    "spectrum.shrink": "r",
    "mixture.shares": "c",
    "mixture.means": "cr",
    "mixture.covariances": "cmm",
    "mixture.beyond": "cb",
    "rest.means": "c",
    "correction.believed": "p",
    "correction.within": "p",
    "correction.deviation": "p",
    "correction.across": "p",
    "correction.spread": "p",
    "products.shares": "c",
    "products.chances": "ct",
}
_SIGNED = {"spectrum.mean", "spectrum.basis", "spectrum.fitted", "mixture.means", "mixture.covariances", "gain"}
_OF_LEVELS = ("products.shares", "products.chances", "gain", "error")
_PARTS: dict[str, type[Any]] = {"spectrum": Spectrum, "mixture": Mixture, "rest": Rest, "correction": Correction}


@dataclass(frozen=True, slots=True, eq=False)
class StoredPrior:
    """A prior that was learned from a release, and what held-out noise says of it."""

    prior: LearnedPrior
    correction: Correction
    ranking: Ranking

    def write(self, path: Path, digest: str) -> None:
        """To a new file, whole or not at all, for the release of this digest."""
        parts: tuple[Any, ...] = (self.prior.spectrum, self.prior.mixture, self.prior.rest, self.correction)
        kept = {
            f"{name}.{field.name}": _kept(getattr(part, field.name))
            for name, part in zip(_PARTS, parts, strict=True)
            for field in fields(part)
        }
        _write(path, {"release": digest, "ranking": self.ranking, **kept})

    @classmethod
    def read(cls, path: Path, digest: str, width: int, noise: float) -> "StoredPrior":
        """From a file, for the release of this digest, with so many columns and this variance of noise on each."""
        found = _loaded(path, width, digest)
        with _refusing(path):
            known = {name: _given(name, found[name]) for name in _names()}
            _check(known, width, noise)
            ranking = found["ranking"]
            if ranking not in get_args(Ranking):
                raise ValueError(ranking)
        parts = {
            name: kind(**{field.name: known[f"{name}.{field.name}"] for field in fields(kind)})
            for name, kind in _PARTS.items()
        }
        factors = Correction(*(tuple(known[f"correction.{field.name}"].tolist()) for field in fields(Correction)))
        return cls(LearnedPrior(parts["spectrum"], parts["mixture"], parts["rest"]), factors, ranking)


@dataclass(frozen=True, slots=True, eq=False)
class StoredLevels:
    """A prior of levels that was learned from a release."""

    fitted: FittedProducts

    def write(self, path: Path, digest: str) -> None:
        """To a new file, whole or not at all, for the release of this digest."""
        found = self.fitted
        numbers: list[Floats | float] = [found.products.shares, found.products.chances, found.gain, found.error]
        _write(path, {"release": digest, **dict(zip(_OF_LEVELS, map(_kept, numbers), strict=True))})

    @classmethod
    def read(cls, path: Path, digest: str, levels: Levels) -> "StoredLevels":
        """From a file, for the release of this digest, whose cells have these levels."""
        found = _loaded(path, levels.count, digest)
        with _refusing(path):
            shares, chances, gain, error = (_given(name, found[name]) for name in _OF_LEVELS)
            whole = [chances[:, group].sum(axis=1) for group in levels.groups]
            if chances.shape != (len(shares), levels.count) or not np.allclose(whole, 1, atol=1e-6):
                raise ValueError("chances")
            if not (shares > 0).all() or not (chances > 0).all() or abs(float(shares.sum()) - 1) > 1e-6:
                raise ValueError("shares")
        return cls(FittedProducts(Products(levels, shares, chances), gain, error))


def _write(path: Path, kept: dict[str, Any]) -> None:
    """To a new file, whole or not at all."""
    text = json.dumps({"format": FORMAT, "version": VERSION, **kept}, indent=1)
    write_new(path, text + "\n", ReleaseError)


@contextlib.contextmanager
def _refusing(path: Path) -> Iterator[None]:
    """Refuse numbers that are no prior."""
    try:
        yield
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, np.linalg.LinAlgError):
        raise ReleaseError(f"{path} does not hold a prior: remove it, and it is learned again") from None


def _names() -> list[str]:
    """The numbers and arrays of a stored prior."""
    return [f"{name}.{field.name}" for name, kind in _PARTS.items() for field in fields(kind)]


def _kept(value: Floats | float) -> Any:
    """A number or an array of a prior, for JSON."""
    if np.ndim(value) == 0:
        return float(value)
    array = np.ascontiguousarray(value, _NUMBER)
    return {"shape": list(array.shape), "float64": base64.b64encode(array.tobytes()).decode()}


def _loaded(path: Path, width: int, digest: str) -> dict[str, Any]:
    """The file as JSON, if it is one of ours, for the release of this digest."""
    try:
        found = untrusted.loads(untrusted.read(path, _FREE + _PER_COLUMN * width))
    except untrusted.NotOrdinaryError as error:
        raise ReleaseError(f"{path} is not read: {error}") from None
    except (OSError, ValueError, RecursionError):
        raise ReleaseError(f"{path} cannot be read as a stored posterior") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ReleaseError(f"{path} is not a stored posterior of sfumato")
    if found.get("version") != VERSION:
        raise ReleaseError(f"{path} was stored by another version of sfumato: remove it, and it is learned again")
    if found.get("release") != digest:
        raise ReleaseError(f"{path} was learned from another release: remove it, and it is learned again")
    return found


def _given(name: str, kept: Any) -> Any:
    """A stranger's number or array, finite and of the right sign."""
    value: Any
    if name not in SHAPES:
        if type(kept) not in (int, float):
            raise ValueError(name)
        value = float(kept)
    else:
        shape = kept["shape"]
        if not isinstance(shape, list) or len(shape) != len(SHAPES[name]) or {type(n) for n in shape} - {int}:
            raise ValueError(name)
        try:
            value = np.frombuffer(base64.b64decode(kept["float64"], validate=True), _NUMBER).reshape(shape)
        except binascii.Error:
            raise ValueError(name) from None
        if min(shape) < 0:
            raise ValueError(name)
    if not np.isfinite(value).all() or (name not in _SIGNED and np.any(value < 0)):
        raise ValueError(name)
    return value


def _check(known: Mapping[str, Any], width: int, noise: float) -> None:
    """Refuse numbers that contradict each other, or the release."""
    sizes = {"d": width, "r": len(known["spectrum.variances"]), "c": len(known["mixture.shares"])}
    sizes["m"] = known["mixture.covariances"].shape[1]
    sizes["b"] = sizes["r"] - sizes["m"]
    sizes["p"] = len(known["correction.believed"])
    for name, letters in SHAPES.items():
        if name in known and known[name].shape != tuple(sizes[letter] for letter in letters):
            raise ValueError(name)
    basis, shares, covariances = (known[f] for f in ("spectrum.basis", "mixture.shares", "mixture.covariances"))
    least = np.linalg.eigvalsh(covariances).min(initial=0.0) if covariances.size else 0.0
    little = 1e-9 * float(np.abs(covariances).max(initial=0.0))  # what rounding does
    sound = (
        0 < sizes["r"] <= width
        and known["spectrum.noise"] == noise
        and np.allclose(basis.T @ basis, np.eye(sizes["r"]), atol=1e-6)
        and (shares > 0).all()
        and abs(float(shares.sum()) - 1) < 1e-6
        and (known["spectrum.shrink"] <= 1).all()
        and np.abs(covariances - covariances.transpose(0, 2, 1)).max(initial=0.0) <= little
        and least >= -little
        and sizes["p"] > 0
        and (np.diff(known["correction.believed"]) >= 0).all()
    )
    if not sound:
        raise ValueError("the parts of a prior contradict each other")
