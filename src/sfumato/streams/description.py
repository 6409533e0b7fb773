"""What a stream says of itself, in its file: all of it public, and checked as what strangers wrote when it is read."""

import hashlib
import json
import secrets
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from sfumato import untrusted
from sfumato.errors import ParameterError, SfumatoError
from sfumato.mechanisms.base import Recipe
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.guarantee import Guarantee
from sfumato.streams.factorisation import MOST_PERIODS, SQUARE_ROOT, SquareRoot, Tree, best, factorisation
from sfumato.streams.measuring import Measuring
from sfumato.streams.statistic import recipe_of_facts, statistic_of
from sfumato.tables.schema import Schema

FORMAT, VERSION = "sfumato-stream", 1
LONGEST_HORIZON = 1 << 40
_ID = 32  # hexadecimal digits


@dataclass(frozen=True, slots=True)
class Entered:
    """An entry of a ledger that a stream was charged to, when it was made or extended."""

    number: int
    hash: str
    horizon: int


@dataclass(frozen=True, eq=False)
class StreamDescription:
    """A stream without its numbers.

    horizon   : how many periods it may have now; ``measuring.horizon`` is what it was made for.
    scale     : of the noise on measurements, in coarsened steps.
    ledger    : where it is charged: the place of the ledger, if that is a file, and the dataset; None without one.
    entries   : of the ledger.
    protected : whether its keys are the system's; False for tests.
    """

    name: str
    schema: Schema
    measuring: Measuring
    scale: float
    horizon: int
    ledger: tuple[str | None, str] | None = None
    entries: tuple[Entered, ...] = ()
    protected: bool = True

    @classmethod
    def new(
        cls, recipe: Recipe, schema: Schema, guarantee: Guarantee, horizon: int, method: str | None
    ) -> "StreamDescription":
        """A stream that is to be made: its noise is calibrated for the whole horizon; no data are needed."""
        chosen = best(horizon) if method is None else factorisation(method)
        measuring = Measuring.of(statistic_of(recipe, schema, guarantee), chosen, guarantee, horizon)
        level = calibrate(measuring, guarantee).level
        return cls(secrets.token_hex(_ID // 2), schema, measuring, measuring.scale(level), horizon)

    @property
    def guarantee(self) -> Guarantee:
        """What is promised of all that a stream publishes up to its horizon, together."""
        return self.measuring.promise(self.scale, self.horizon)

    @property
    def counted(self) -> bool:
        """Whether the number of rows of each period of a stream is public."""
        return self.measuring.guarantee.neighbours == "replace"

    @cached_property
    def digest(self) -> str:
        """A digest of what never changes of a stream, by which ledgers and publications name it."""
        body = {key: value for key, value in self.to_dict().items() if key not in ("horizon", "ledger")}
        return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    def extended(self, horizon: int, entry: Entered | None) -> "StreamDescription":
        """A stream with a longer horizon, and what was charged for it."""
        entries = self.entries if entry is None else (*self.entries, entry)
        return replace(self, horizon=horizon, entries=entries)

    def check_kept(self) -> None:
        """Refuse a stream, before it is charged, whose file would not say the same of it as it does now."""
        try:
            text = json.dumps(self.to_dict(), allow_nan=False)
        except (TypeError, ValueError):
            raise ParameterError(
                "the file of a stream holds plain numbers and texts: state its recipe in these"
            ) from None
        if StreamDescription.from_text(text).to_dict() != self.to_dict():
            raise ParameterError("the file of a stream cannot hold this recipe")

    def to_dict(self) -> dict[str, Any]:
        """All fields of a stream's description, as JSON has them."""
        made = self.measuring
        told: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "id": self.name,
            "statistic": made.statistic.facts,
            "schema": self.schema.to_dict(),
            "guarantee": made.guarantee.to_dict(),
            "method": made.method.name,
            "made_for": made.horizon,
            "shift": made.shift,
            "scale": self.scale,
            "protected": self.protected,
            "horizon": self.horizon,
        }
        if self.ledger is not None:
            where, dataset = self.ledger
            entries = [{"number": e.number, "hash": e.hash, "horizon": e.horizon} for e in self.entries]
            told["ledger"] = {"where": where, "dataset": dataset, "entries": entries}
        return told

    @classmethod
    def from_text(cls, text: str) -> "StreamDescription":
        """The description in a stream's file; ParameterError where it says what no stream can be."""
        try:
            return cls._of(untrusted.loads(text))
        except ParameterError:
            raise
        except (SfumatoError, KeyError, TypeError, ValueError, AttributeError, RecursionError):
            raise ParameterError("its description is damaged") from None

    @classmethod
    def _of(cls, told: dict[str, Any]) -> "StreamDescription":
        if told["format"] != FORMAT:
            raise ParameterError("it is not the file of a stream")
        if told["version"] != VERSION:
            raise ParameterError("it was made by another version of sfumato")
        schema, guarantee = Schema.from_dict(told["schema"]), Guarantee.from_dict(told["guarantee"])
        statistic = statistic_of(recipe_of_facts(told["statistic"]), schema, guarantee)
        method: SquareRoot | Tree = factorisation(told["method"])
        numbers = told["made_for"], told["shift"], told["horizon"]
        if any(type(n) is not int for n in numbers) or not 1 <= numbers[0] <= numbers[2] <= LONGEST_HORIZON:
            raise ParameterError("its description is damaged")
        measuring = Measuring(statistic, method, guarantee, told["made_for"], told["shift"])
        scale, ledger = float(told["scale"]), told.get("ledger")
        if not measuring.whole(scale, measuring.horizon).delta(guarantee.epsilon) <= guarantee.delta:
            raise ParameterError("its noise does not keep its promise, by this version of sfumato")
        where = None if ledger is None else (ledger["where"], str(ledger["dataset"]))
        entries = [] if ledger is None else [Entered(e["number"], e["hash"], e["horizon"]) for e in ledger["entries"]]
        if ledger is not None and not (entries and isinstance(ledger["where"], str | None)):
            raise ParameterError("its description is damaged")
        name, protected = told["id"], told["protected"]
        if not (isinstance(name, str) and len(name) == _ID and name.isalnum() and isinstance(protected, bool)):
            raise ParameterError("its description is damaged")
        return cls(name, schema, measuring, scale, told["horizon"], where, tuple(entries), protected)


def check_horizon(method: SquareRoot | Tree, horizon: int) -> None:
    """Refuse a horizon that a stream's method cannot have."""
    if method.name == SQUARE_ROOT and horizon > MOST_PERIODS:
        raise ParameterError(
            f"the square root goes up to {MOST_PERIODS} periods, got horizon={horizon}: make a new stream with "
            "method='tree'"
        )
