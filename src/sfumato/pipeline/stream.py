"""``Stream``: data that grow. Periods arrive one by one, and running sums of them are published under one guarantee.

Formal guarantee: all that a stream publishes up to its horizon, together, satisfies its guarantee, as proved for
``streams.measuring``: neighbours differ by one unit in any period, or by the rows of one person in any periods. What
the owner decides meanwhile (what to publish, when, whether to extend) may depend on what was published. The file of the
stream holds exact sums, and no key: noise is drawn from a fresh key of the system when a period is appended, and stored
with the period in one transaction.

With a ledger the whole horizon is charged when the stream is made, and the rest when it is extended. The order is:
reserve, store, draw, commit. What a killed process leaves half done is finished by the next one: a stream whose file is
there is charged, and draws only once its ledger has recorded that.
"""

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato import check, untrusted
from sfumato.engines.local import Local
from sfumato.errors import ParameterError, StreamError
from sfumato.estimation import covariances
from sfumato.fileformat import leftovers, writer
from sfumato.fileformat.manifest import RANDOMNESS, Facts, Manifest
from sfumato.files.open_table import open_table
from sfumato.mechanisms.base import Published, Recipe
from sfumato.mechanisms.covariance import Covariance
from sfumato.numerics.lattice import Total
from sfumato.numerics.types import Floats
from sfumato.pipeline import stream_sources
from sfumato.pipeline.release import FROM_BOUNDS, Budget, account_of, key_of, source_of
from sfumato.pipeline.stream_charges import StreamCharges
from sfumato.privacy.calibration import least_epsilon
from sfumato.privacy.guarantee import Guarantee, check_guarantee
from sfumato.randomness.secret import Secret, protects
from sfumato.streams import leaders, running
from sfumato.streams.description import StreamDescription, check_horizon
from sfumato.streams.factorisation import SquareRoot, Tree
from sfumato.streams.statistic import StreamedCovariance
from sfumato.streams.store import Period, StreamStore, Transaction
from sfumato.tables.blocks import Blocks, Progress, ignore
from sfumato.tables.schema import AnySchema, schema_of

if TYPE_CHECKING:
    from sfumato.releases.release import AnyRelease

_LONGEST_LABEL = 200


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream by the path of its file. ``ledger``: where its ledger is now, if not where it was.

    >>> stream = Stream.init("people.stream", schema=schema, guarantee=promise, horizon=365)  # doctest: +SKIP
    >>> stream.append("monday.csv", period="2026-11-16")  # doctest: +SKIP
    >>> stream.release().correlation()["age", "income"]  # doctest: +SKIP
    """

    path: str | Path
    ledger: Budget = None

    @classmethod
    def init(  # noqa: PLR0913 - everything that is declared beforehand
        cls,
        path: str | Path,
        *,
        schema: AnySchema,
        guarantee: Guarantee,
        horizon: int,
        mechanism: Recipe | None = None,
        method: str | None = None,
        ledger: Budget = None,
        testing: bool = False,
    ) -> "Stream":
        """Make the file of a new stream, and charge its whole horizon. No data are needed.

        horizon   : how many periods it may have; ``extend`` makes it longer later, for what that costs.
        mechanism : what is summed up: ``Covariance()`` (default), ``Histogram(...)``, or ``Synthetic(...)``.
        method    : ``square-root`` (default up to 4,096 periods) or ``tree``.
        ledger    : what it is charged to; without one, every publication warns that other releases of these data are
                    not accounted for.
        testing   : whether periods may be drawn under a testing secret; whatever it publishes is marked.
        """
        check_guarantee(guarantee)
        check.whole(1, horizon=horizon)
        settled, account = schema_of(schema), account_of(ledger)
        if settled is None:
            raise ParameterError("a stream needs a schema of the columns of its periods")
        if settled.open_patterns:
            raise ParameterError(
                f"the pattern {settled.open_patterns[0]!r} has no names to match before there are data: list them"
            )
        store = StreamStore(Path(path))
        store.check_free()
        made = StreamDescription.new(mechanism or Covariance(), settled, guarantee, horizon, method)
        made = replace(made, protected=not testing)
        made.check_kept()
        if account is None:
            store.make(made)
        elif testing:
            raise ParameterError("test noise protects nobody, so it cannot be charged to a ledger")
        else:
            StreamCharges.opened(account, store, made)
        return cls(path, ledger)

    # ---- what it is ----

    @property
    def description(self) -> StreamDescription:
        """What the stream says of itself: statistic, guarantee, horizon, method and noise."""
        with self._store.reading() as stream:
            return stream.description

    @property
    def guarantee(self) -> Guarantee:
        """What is promised of all that the stream publishes up to its horizon, together."""
        return self.description.guarantee

    @property
    def periods(self) -> tuple[Period, ...]:
        """The periods that were appended, in order."""
        with self._store.reading() as stream:
            return tuple(stream.periods())

    @property
    def _store(self) -> StreamStore:
        return StreamStore(Path(self.path))

    # ---- periods arrive ----

    def append(
        self,
        data: Any,
        *,
        period: str,
        leaving: Any = None,
        again: bool = False,
        empty: bool = False,
        progress: Progress = ignore,
        secret: Secret | None = None,
    ) -> int:
        """Append the rows of a period under a label of its own, and draw its noise; the number of the period.

        Guarantee: it is stored whole or not at all. A label that is there already is refused, and nothing is read or
        drawn: after a crash the same call can be made again. ``leaving``: rows of earlier periods that leave, which are
        subtracted; each arrival or departure counts as one row of its person.

        again : take a file that was appended before, where the group is more than 1: its people have rows in both.
        empty : take a table without rows, where the number of rows is public.
        """
        _check_label(period)
        key = key_of(secret)
        with self._store.writing() as stream:
            about, number = stream.description, self._room(stream, period)
            _check_key(about, key)
            if leaving is not None:
                stream_sources.check_leaving(about.measuring.guarantee)
            charges = StreamCharges.of(about, self.ledger)
            origins = [source_of(one) for one in (data, leaving) if one is not None]
            if charges is not None:
                charges.settle(about)
                charges.tell(about, stream)
                charges.check_new(about, number, origins)
            stream_sources.check_first(stream, data, leaving, again=again)
            exact, rows = _summed(data, about, progress)
            stream_sources.check_rows(about, data, rows, empty=empty)
            left = 0
            if leaving is not None:
                gone, left = _summed(leaving, about, ignore)
                exact = _without(exact, gone)
            now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
            noted = None if charges is None else stream_sources.noted(origins)
            files = stream_sources.fingerprints(about, data if rows else None, leaving if left else None)
            stream.add_period(Period(number, period, rows if about.counted else None, now, noted, files))
            running.add(stream, number, exact, key)
        if charges is not None:
            with self._store.writing(wait=True) as stream:
                charges.tell(about, stream)
        return number

    def _room(self, stream: Transaction, label: str) -> int:
        """The number of the next period of the stream; refuses a label that is there, and one period too many."""
        known, last = stream.labelled(label), stream.last()
        if known is not None:
            raise StreamError(
                f"{self.path} has a period {untrusted.line(label)!r} already, number {known.number}: nothing was read "
                "or drawn"
            )
        number = 1 if last is None else last.number + 1
        about = stream.description
        if number > about.horizon:
            raise StreamError(f"{self.path} has all its {about.horizon} periods: {_cost_of_more(about)}")
        return number

    def extend(self, horizon: int) -> Guarantee:
        """Make the horizon longer, at the same noise; what is promised of the whole stream from now on.

        With a ledger the extra is charged: the squared sensitivities of both horizons differ by it, and by no more.
        """
        check.whole(1, horizon=horizon)
        with self._store.writing() as stream:
            about = stream.description
            check_horizon(_method(about), horizon)
            if horizon <= about.horizon:
                raise ParameterError(f"the horizon is {about.horizon} periods: extend it to more, got {horizon}")
            charges = StreamCharges.of(about, self.ledger)
            if charges is None:
                stream.describe(about.extended(horizon, None))
            else:
                charges.settle(about)
                with charges.extended(about, horizon) as entry:
                    stream.describe(about.extended(horizon, entry))
            made = stream.description
        if charges is not None:
            charges.settle(made)
        return made.guarantee

    # ---- what is published ----

    def release(self, period: str | None = None) -> "AnyRelease":
        """The running sum up to a period, the newest unless told, as an ordinary release in memory.

        Guarantee: post-processing of what was drawn when periods were appended, so it costs nothing more; the same
        numbers however often it is asked for.
        """
        from sfumato.releases.release import of_kind  # noqa: PLC0415 - much to load where releases are only written

        published, fields = self._published(period)
        parts = [(block, None) for block in published.blocks]
        rows = sum(writer.rows_in(block) for block, _ in parts)
        manifest = writer.seal(_counted(fields, rows) | {"files": {}})
        return of_kind(manifest).of_blocks(manifest, parts, published.matrix, published.beside)

    def publish(self, path: str | Path, period: str | None = None) -> Manifest:
        """Write the running sum up to a period as a release folder, whole or not at all; its manifest.

        Guarantee: as for ``release``.
        """
        writer.check_free(Path(path))
        if writer.any_hidden(Path(path).parent):
            leftovers.warn(Path(path).parent)
        published, fields = self._published(period)
        with writer.new_folder(Path(path)) as folder:
            written = writer.write_numbers(folder, published.names, ((block, None) for block in published.blocks))
            if published.matrix is not None:
                writer.write_projection(folder, published.matrix)
            writer.write_beside(folder, published.beside)
            return writer.finish(folder, _counted(fields, written.rows), written.files)

    def _told(self) -> None:
        """Tell the ledger of periods that it does not know yet, before anything of them is shown."""
        with self._store.reading() as stream:
            about, untold = stream.description, stream.untold()
        charges = StreamCharges.of(about, self.ledger) if untold else None
        if charges is not None:
            with self._store.writing(wait=True) as stream:
                charges.tell(about, stream)

    def _published(self, label: str | None) -> tuple[Published, Facts]:
        self._told()
        with self._store.reading() as stream:
            period, about = _asked(stream, label), stream.description
            sums = running.decoded(stream, period.number)
            records = stream.rows_until(period.number) if about.counted else None
        if records == 0:
            raise StreamError(f"{self.path} has no rows yet, so there is nothing to publish")
        noise = about.measuring.noise(about.scale, period.number, about.horizon)
        made = about.measuring.statistic.published(sums, noise, records)
        return made, _fields(about, period) | made.facts | {"warnings": _warnings(about, made)}

    # ---- principal components ----

    def leaders(self, dimension: int) -> Iterator[Floats]:
        """The subspace to play in every period so far and in the next, by what was published before it.

        An orthonormal basis each, (dimension, encoded columns), in weighted units about the public centre: the leading
        directions of the running second moment with its noise (``streams.leaders``).
        Guarantee: post-processing; costs nothing more.
        """
        self._told()
        with self._store.reading() as stream:
            statistic, last = stream.description.measuring.statistic, stream.last()
            if not isinstance(statistic, StreamedCovariance):
                raise StreamError("principal components are of second moments: make a stream of Covariance()")
            moment = statistic.prepared.moment
            dim = moment.dim - 1

            def matrices() -> Iterator[Floats]:
                for number in range(1, 1 + (0 if last is None else last.number)):
                    whole = moment.grid.step**2 * running.decoded(stream, number)
                    triangle = covariances.placed(whole, moment.kept)
                    yield covariances.square(triangle, moment.dim)[:dim, :dim]

            yield from leaders.leaders(matrices(), dim, dimension)


def _check_label(label: object) -> None:
    plain = isinstance(label, str) and label.strip() == label and 0 < len(label) <= _LONGEST_LABEL
    if not plain or not str(label).isprintable():
        raise ParameterError(f"period is a label of 1 to {_LONGEST_LABEL} printable characters, such as '2026-11-18'")


def _check_key(about: StreamDescription, key: Secret) -> None:
    if about.protected and not protects(key):
        raise ParameterError("this stream protects people: a testing secret needs a stream made with testing=True")


def _summed(data: Any, about: StreamDescription, progress: Progress) -> tuple[Total, int]:
    """The exact integers of rows, and how many rows there are; the rows are read once, by threads of this process."""
    worker = Local()
    blocks = Blocks.of(open_table(data, about.schema), about.schema, width=1, memory=worker.memory)
    return about.measuring.statistic.exact(worker.rows(blocks, progress))


def _without(exact: Total, gone: Total) -> Total:
    (high, low), (high_gone, low_gone) = exact.halves, gone.halves
    return Total.of(high - high_gone, low - low_gone)


def _asked(stream: Transaction, label: str | None) -> Period:
    found = stream.last() if label is None else stream.labelled(label)
    if found is None:
        which = "no periods yet" if label is None else f"no period {untrusted.line(label)!r}"
        raise StreamError(f"the stream has {which}, so there is nothing to publish")
    return found


def _cost_of_more(about: StreamDescription) -> str:
    """What extending a stream to twice its horizon costs, in words."""
    made, longer = about.measuring, 2 * about.horizon
    try:
        check_horizon(_method(about), longer)
    except ParameterError as error:
        return str(error)
    loss, whole = made.more(about.scale, about.horizon, longer), made.promise(about.scale, longer)
    more = 0.0 if loss is None else least_epsilon(loss, whole.delta)
    return (
        f"extending it to {longer} (`sfumato stream extend`) costs epsilon {more:.4g} at delta {whole.delta:g} more, "
        f"which makes epsilon {whole.epsilon:.4g} of the whole stream"
    )


def _method(about: StreamDescription) -> SquareRoot | Tree:
    method = about.measuring.method
    assert isinstance(method, SquareRoot | Tree)
    return method


def _fields(about: StreamDescription, period: Period) -> Facts:
    """What the manifest of a publication says beside what its kind does: guarantee and facts of the whole stream."""
    made = about.measuring
    ledger: Facts = {}
    if about.ledger is not None:
        first = about.entries[0]
        ledger = {"ledger": {"dataset": about.ledger[1], "entry": first.number, "hash": first.hash}}
    return {
        "guarantee": about.guarantee.to_dict(),
        "schema": about.schema.to_dict(),
        "protected": about.protected,
        "accounted": about.ledger is not None,
        **ledger,
        "numerics": "exact",
        "randomness": RANDOMNESS,
        "stream": {
            "id": about.name,
            "digest": about.digest,
            "period": period.number,
            "label": period.label,
            "horizon": about.horizon,
            "made_for": made.horizon,
            "method": made.method.name,
            "sensitivity": made.sensitivity(about.horizon),
            "scale": about.scale,
        },
    }


def _counted(fields: Facts, rows: int) -> Facts:
    """The fields of a manifest with the number of published rows, where its kind states none."""
    return fields if "rows" in fields else fields | {"rows": rows}


def _warnings(about: StreamDescription, made: Published) -> list[str]:
    found = list(made.facts.get("warnings", []))
    if about.ledger is None:
        found.append("no ledger was used: what other releases of these data cost is not accounted for")
    if about.schema.bounds_from_data:
        found.append(FROM_BOUNDS)
    if not about.protected:
        found.append("made with test noise: this release protects nobody")
    return found
