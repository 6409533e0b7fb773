"""What is ordered of streams: to start one, to extend one, to append a period, to publish what there is.

Starting and extending are charged what was confirmed, or nothing; appending and publishing cost nothing more.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from sfumato.errors import SfumatoError, StreamError
from sfumato.ledger.account import Account
from sfumato.mechanisms.base import Recipe
from sfumato.pipeline.stream import Stream
from sfumato.studio.frame.jobs import JobWords, Order
from sfumato.tables.blocks import Progress
from sfumato.tables.schema import Schema

TOGETHER = "This is about all that the stream publishes up to its horizon, together."


def without_place(error: SfumatoError, path: Path) -> StreamError:
    """What an error says of a stream of the folder by its name, and not by where it is."""
    return StreamError(str(error).replace(str(path), path.name))


def address_of(stream: str) -> str:
    """The address of a stream's page."""
    return f"/streams/{quote(stream, safe='')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOrder(Order):
    """An order of a new stream."""

    schema: Schema
    recipe: Recipe
    horizon: int

    @property
    def promise(self) -> str:
        """What is promised of a whole stream."""
        return f"{self.guarantee.describe(projected=False)} {TOGETHER}"

    @property
    def words(self) -> JobWords:
        """How pages speak of a new stream."""
        return _START

    @property
    def result(self) -> str:
        """The address of the stream."""
        return address_of(self.name)

    def carry_out(self, account: Account | None, tick: Progress) -> None:
        """Charge the whole horizon and make the file of the stream."""
        tick(0)
        try:
            Stream.init(
                self.path,
                schema=self.schema,
                guarantee=self.guarantee,
                horizon=self.horizon,
                mechanism=self.recipe,
                ledger=account,
            )
        except StreamError as error:
            raise without_place(error, self.path) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionOrder(Order):
    """An order of a longer horizon of a stream; its guarantee is that of the whole stream from then on."""

    horizon: int

    @property
    def promise(self) -> str:
        """What is promised of the whole stream with its longer horizon."""
        return f"{self.guarantee.describe(projected=False)} {TOGETHER}"

    @property
    def words(self) -> JobWords:
        """How pages speak of a longer horizon."""
        return replace(_EXTEND, back=address_of(self.path.name))

    @property
    def result(self) -> str:
        """The address of the extended stream."""
        return address_of(self.path.name)

    def carry_out(self, account: Account | None, tick: Progress) -> None:
        """Charge the extra and make the horizon longer."""
        tick(0)
        try:
            Stream(self.path, account).extend(self.horizon)
        except StreamError as error:
            raise without_place(error, self.path) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodOrder(Order):
    """An order to append a table as the next period of a stream, which costs nothing more.

    ledger : where the ledger of the stream is now, if it is not where it was.
    """

    label: str
    leaving: Path | None
    ledger: str | None

    @property
    def words(self) -> JobWords:
        """How pages speak of a period."""
        return replace(_APPEND, back=address_of(self.path.name))

    @property
    def result(self) -> str:
        """The address of the stream that it was appended to."""
        return address_of(self.path.name)

    def carry_out(self, account: Account | None, tick: Progress) -> None:
        """Sum up the rows, draw the noise of the period, and store both."""
        del account
        stream = Stream(self.path, self.ledger)
        try:
            stream.append(self.data, period=self.label, leaving=self.leaving, progress=tick)
        except StreamError as error:
            raise without_place(error, self.path) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationOrder(Order):
    """An order to publish the newest state of a stream as a release folder; ``data`` is the stream's file."""

    @property
    def words(self) -> JobWords:
        """How pages speak of what a stream publishes."""
        return replace(_PUBLISH, back=address_of(self.data.name))

    @property
    def result(self) -> str:
        """The address of the release."""
        return f"/release/made/{quote(self.name, safe='')}"

    def carry_out(self, account: Account | None, tick: Progress) -> None:
        """Decode what was drawn, and write the release."""
        del account
        tick(0)
        try:
            Stream(self.data).publish(self.path)
        except StreamError as error:
            raise without_place(error, self.data) from None


_START = JobWords(
    screen="streams",
    back="/streams",
    title="A new stream",
    noun="stream",
    button="Start the stream",
    unaccounted="No ledger is charged: what other releases of these data cost is not accounted for, and all that the "
    "stream publishes will say so.",
    running="The stream is being made.",
    done="The stream is made. Append its first period.",
    cancelled="The stream was not made: it was stopped.",
    failed="The stream was not made.",
    opened="Open the stream",
    again="Back to the streams",
)
_EXTEND = JobWords(
    screen="streams",
    back="/streams",
    title="A longer horizon",
    noun="extension",
    button="Extend the stream",
    unaccounted="No ledger is charged: the stream was started without one. All that it publishes promises less from "
    "now on.",
    running="The horizon is being made longer.",
    done="The horizon is longer.",
    cancelled="The horizon is as it was: it was stopped.",
    failed="The horizon is as it was.",
    opened="Open the stream",
    again="Back to the stream",
)
_APPEND = JobWords(
    screen="streams",
    back="/streams",
    title="A period",
    noun="period",
    button="Append",
    unaccounted="",
    running="The period is being read.",
    done="The period is appended, with its noise.",
    cancelled="The period was not appended: it was stopped.",
    failed="The period was not appended.",
    opened="Open the stream",
    again="Back to the stream",
)
_PUBLISH = JobWords(
    screen="streams",
    back="/streams",
    title="A publication",
    noun="publication",
    button="Publish",
    unaccounted="",
    running="The newest state is being written.",
    done="The newest state is published.",
    cancelled="Nothing was published: it was stopped.",
    failed="Nothing was published.",
    opened="Open the release",
    again="Back to the stream",
)
