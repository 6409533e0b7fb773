"""What pages show of a stream: all of it public, and how many rows it has only where their number is."""

from dataclasses import dataclass
from pathlib import Path

from sfumato.errors import ParameterError, SfumatoError
from sfumato.report.numbers import number
from sfumato.streams.description import LONGEST_HORIZON, StreamDescription, check_horizon
from sfumato.streams.store import Period, StreamStore
from sfumato.studio.growing.stream_orders import without_place
from sfumato.studio.inputs.page_words import UNITS, said

_NEWEST = 12  # periods that a page lists


@dataclass(frozen=True, slots=True)
class StreamLine:
    """What the Streams screen shows of a stream; ``wrong`` alone where it cannot be read."""

    name: str
    about: StreamDescription | None = None
    periods: int = 0
    newest: tuple[Period, ...] = ()
    rows: int | None = None  # only where their number is public
    wrong: str = ""

    @property
    def statistic(self) -> str:
        """What the stream sums up, in words."""
        assert self.about is not None
        facts = self.about.measuring.statistic.facts
        if facts["name"] == "histogram":
            return "counts of " + "; ".join(" and ".join(table) for table in facts["tables"])
        if facts["name"] == "synthetic":
            label = "" if facts["label"] is None else f", label {facts['label']}"
            return f"synthetic records of {facts['dimension']} numbers{label}"
        about = "their mean" if facts["centred"] else "the middle of their bounds"
        return f"covariance of {len(self.about.schema.data_columns)} columns, about {about}"

    @property
    def promised(self) -> str:
        """Epsilon, delta and whom they protect, in short."""
        assert self.about is not None
        promise = self.about.guarantee
        whom = f"{promise.group} records of a person" if promise.group > 1 else UNITS[promise.unit]
        pair = {"replace": "replaced", "add-remove": "added or removed"}[promise.neighbours]
        return f"epsilon {number(promise.epsilon)}, delta {number(promise.delta)}, {whom}, {pair}"

    @property
    def charged(self) -> str:
        """Who paid for the stream."""
        assert self.about is not None
        if self.about.ledger is None:
            return "no ledger: what other releases of these data cost is not accounted for"
        entries = ", ".join(str(entry.number) for entry in self.about.entries)
        return f"the budget of {self.about.ledger[1]}, entry {entries} of its ledger"

    @property
    def doubling(self) -> str:
        """What twice the horizon costs, in words."""
        assert self.about is not None
        try:
            return more_words(self.about, 2 * self.about.horizon)
        except SfumatoError as error:
            return said(error)

    @property
    def leaving(self) -> bool:
        """Whether rows that leave are protected, so that they can be appended."""
        assert self.about is not None
        return self.about.guarantee.neighbours == "add-remove" and self.about.guarantee.group >= 2


def more_words(about: StreamDescription, horizon: int) -> str:
    """What a longer horizon of a stream costs, in words."""
    check_longer(about, horizon)
    made, scale = about.measuring, about.scale
    now, then = number(about.guarantee.epsilon), number(made.promise(scale, horizon).epsilon)
    if made.more(scale, about.horizon, horizon) is None:
        return f"{horizon:,} periods cost nothing more than epsilon {now}"
    return f"{horizon:,} periods: epsilon {then} in all, instead of {now}"


def check_longer(about: StreamDescription, horizon: int) -> None:
    """Refuse a horizon that a stream cannot be extended to."""
    check_horizon(about.measuring.method, horizon)  # type: ignore[arg-type]
    if horizon <= about.horizon:
        raise ParameterError(f"the horizon is {about.horizon:,} periods: give more")
    if horizon > LONGEST_HORIZON:
        raise ParameterError(f"give a horizon of at most {LONGEST_HORIZON:,} periods")


def line_of(path: Path, name: str) -> StreamLine:
    """What the file of a stream says of it, or why it cannot be read."""
    try:
        with StreamStore(path).reading() as found:
            about, last = found.description, found.last()
            count = 0 if last is None else last.number
            newest = [found.numbered(n) for n in range(count, max(count - _NEWEST, 0), -1)]
            rows = found.rows_until(count) if about.counted else None
    except SfumatoError as error:
        return StreamLine(name, wrong=said(without_place(error, path)))
    return StreamLine(name, about, count, tuple(period for period in newest if period is not None), rows)
