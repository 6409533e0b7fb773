"""What an experiment gives: text, tables of numbers, pictures; and how they look on a page and in JSON."""

import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.randomness.secret import Secret


@dataclass(frozen=True, slots=True)
class Measured:
    """A number with its standard error, from so many repetitions; ``sd``: of one of them, where that is of interest."""

    value: float
    error: float
    repetitions: int
    sd: float | None = None

    @classmethod
    def of(cls, values: Sequence[float] | Any) -> "Measured":
        """The mean of repetitions, with its standard error."""
        given = np.asarray(values, float)
        sd = float(given.std(ddof=1)) if given.size > 1 else math.nan
        return cls(float(given.mean()), sd / math.sqrt(given.size), given.size, sd)

    @classmethod
    def share(cls, count: int, total: int) -> "Measured":
        """How often something happened; its error is never 0 (Agresti and Coull)."""
        middle = (count + 2) / (total + 4)
        return cls(count / total, math.sqrt(middle * (1 - middle) / (total + 4)), total)


Cell = str | int | float | Measured | None


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under a header. ``name`` is unique within its experiment; ``formats`` by column, as for ``format``.

    Numbers stand as they are measured in the JSON, and are rounded on the page only.
    """

    name: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    formats: Mapping[str, str] = field(default_factory=dict)

    def markdown(self) -> Iterator[str]:
        """The lines of the table."""
        yield "| " + " | ".join(self.header) + " |"
        yield "|---" * len(self.header) + "|"
        for row in self.rows:
            shown = (_shown(c, self.formats.get(h, ".4g")) for h, c in zip(self.header, row, strict=True))
            yield "| " + " | ".join(shown) + " |"


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that was drawn to ``figures/file`` of the output folder, with what it shows in words."""

    file: str
    alt: str


Part = str | Table | Picture


def _shown(cell: Cell, form: str) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, Measured):
        error = f" ± {format(cell.error, '.2g')}" if math.isfinite(cell.error) and cell.error else ""
        return format(cell.value, form) + error
    if isinstance(cell, bool | str):
        return str(cell)
    return f"{cell:,}" if isinstance(cell, int) else format(cell, form)


@dataclass(frozen=True, slots=True)
class Setting:
    """What an experiment may use: where data are, where pictures go, how much time there is, and seeds."""

    name: str
    out: Path
    data: Path | None = None
    quick: bool = False
    seed: int = 1
    told: Callable[[str], None] = lambda _: None  # what goes on, for people who wait

    def rng(self, what: str = "") -> np.random.Generator:
        """Random numbers of this experiment; another stream for each ``what``."""
        return np.random.default_rng([self.seed, zlib.crc32(f"{self.name} {what}".encode())])

    def secrets(self, what: str = "") -> Iterator[Secret]:
        """Secrets for releases that can be repeated; never private."""
        rng = self.rng(f"secrets {what}")
        while True:
            yield Secret.for_testing(int(rng.integers(2**62)))

    def file(self, name: str) -> Path | None:
        """A data file, or None where it is missing."""
        path = None if self.data is None else self.data / name
        return path if path is not None and path.exists() else None

    def picture(self, name: str) -> Path:
        """Where a picture of this name is drawn."""
        folder = self.out / "figures"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / name

    def often(self, full: int, quick: int) -> int:
        """How many repetitions."""
        return quick if self.quick else full


@dataclass(frozen=True, slots=True)
class Experiment:
    """One table or figure of a paper. ``files``: data it uses where they are; ``stand_in``: what it uses where not.

    Without a stand-in it is left out where one of its files is missing, and the page says so.
    """

    name: str
    title: str
    run: Callable[[Setting], Iterable[Part]]
    files: tuple[str, ...] = ()
    stand_in: str = ""

    def missing(self, data: Path | None) -> list[str]:
        """The data files that are not there."""
        return [name for name in self.files if data is None or not (data / name).exists()]


@dataclass(frozen=True, slots=True)
class Paper:
    """The experiments on one paper, with the page they stand on and a text that comes before them."""

    name: str
    title: str
    experiments: tuple[Experiment, ...]
    introduction: str = ""
    page: str = "results"


def as_json(part: Part) -> Any:
    """A part as JSON keeps it."""
    if isinstance(part, str):
        return {"text": part}
    if isinstance(part, Picture):
        return {"picture": part.file, "alt": part.alt}
    rows = [[_kept(cell) for cell in row] for row in part.rows]
    return {"table": part.name, "header": list(part.header), "rows": rows, "formats": dict(part.formats)}


def _kept(cell: Cell) -> Any:
    if isinstance(cell, Measured):
        kept = {"value": cell.value, "error": cell.error, "repetitions": cell.repetitions}
        return {k: _kept(v) for k, v in (kept if cell.sd is None else kept | {"sd": cell.sd}).items()}
    if isinstance(cell, np.generic):
        return _kept(cell.item())
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def from_json(kept: Any) -> Part:
    """What ``as_json`` made."""
    if "text" in kept:
        return str(kept["text"])
    if "picture" in kept:
        return Picture(kept["picture"], kept["alt"])
    rows = [[_cell(cell) for cell in row] for row in kept["rows"]]
    return Table(kept["table"], kept["header"], rows, kept["formats"])


def _cell(kept: Any) -> Cell:
    if not isinstance(kept, dict):
        return kept  # type: ignore[no-any-return]
    numbers = {k: math.nan if v is None else v for k, v in kept.items()}
    return Measured(**numbers)


def markdown(part: Part) -> str:
    """A part as it stands on the page."""
    if isinstance(part, str):
        return part
    if isinstance(part, Picture):
        return f"![{part.alt}](figures/{part.file})"
    return "\n".join(part.markdown())
