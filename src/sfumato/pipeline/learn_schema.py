"""``learn_schema``: a schema learned from the data under differential privacy, charged before a row is read."""

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from pyarrow import types

from sfumato import check
from sfumato.engines.local import Engine, Local
from sfumato.errors import ParameterError, SchemaError
from sfumato.fileformat.manifest import RANDOMNESS, Facts
from sfumato.fileformat.reader import digest
from sfumato.files.open_table import open_table
from sfumato.files.source import Source, part_of
from sfumato.ledger.account import LEARNING, Account
from sfumato.ledger.folding import LEARNER
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.reservation import Reservation
from sfumato.ledger.sources import Origin
from sfumato.ledger.state import Request
from sfumato.mechanisms.schema_learning.cell_kinds import shape_of
from sfumato.mechanisms.schema_learning.counting import Reading
from sfumato.mechanisms.schema_learning.decisions import GUESSES, Guess
from sfumato.mechanisms.schema_learning.recipe import LearningForecast, SchemaLearning
from sfumato.mechanisms.schema_learning.wanted import Wanted
from sfumato.pipeline.charging import charged
from sfumato.pipeline.release import Budget, account_of, engine_of, key_of, source_of
from sfumato.privacy.calibration import Calibrated, calibrate
from sfumato.privacy.guarantee import Guarantee, Neighbours
from sfumato.randomness.secret import Secret, protects
from sfumato.tables.blocks import Progress, ignore
from sfumato.tables.columns import Column, Id, Real, Vector, source_names
from sfumato.tables.schema import Schema
from sfumato.version import __version__

MOST = 8  # items of a set, unless told otherwise


@dataclass(frozen=True, slots=True)
class Description:
    """What is known about a table before its schema is learned; all of it is public.

    id        : the column that labels the rows, if there is one. It is not learned.
    leave_out : columns that the schema will not have. Nothing is learned about them.
    kinds     : what some columns are, where the table itself could be taken for something else, such as a postal code:
                real, integer, flag, category, date or datetime.
    declared  : columns that are described in full. They become part of the schema, and nothing is learned about them.
    most      : how many items a record of a set has at most; of more, those that come first in its list count.
    """

    id: str | None = None
    leave_out: tuple[str, ...] = ()
    kinds: Mapping[str, str] | None = None
    declared: tuple[Column, ...] = ()
    most: int = MOST

    def wanted(self, table: Source) -> tuple[Wanted, ...]:
        """The columns of a table whose schema is to be learned, from names and types alone."""
        known = {name for column in self.declared for name in source_names(column)}
        kinds = dict(self.kinds or {})
        left_out = {*self.leave_out, *known, *([] if self.id is None else [self.id])}
        table.check_columns([*left_out, *kinds])
        check.whole(1, most=self.most)
        for name, kind in kinds.items():
            check.one_of(GUESSES, **{f"kinds[{name!r}]": kind})
        names = [name for name in table.schema.names if name not in left_out]
        table.check_columns(names)
        found = tuple(_wanted(table, name, kinds.get(name), self.most) for name in names)
        self._check_names(found)
        return found

    def _check_names(self, wanted: Sequence[Wanted]) -> None:
        """Refuse names that no schema could have, before anything is charged; values are kept apart from them later."""
        made = [Vector(c.name, c.size, 0.0, 1.0) if c.shape == "vector" else Real(c.name, 0.0, 1.0) for c in wanted]
        if made or self.declared:
            Schema((*made, *self.declared, *([] if self.id is None else [Id(self.id)])))

    def schema(self, learned: tuple[Column, ...], names: Sequence[str]) -> tuple[Column, ...]:
        """Learned columns, declared ones and the id of a schema, in the order of the table."""
        columns = [*learned, *self.declared, *([] if self.id is None else [Id(self.id)])]
        place = {name: i for i, name in enumerate(names)}
        return tuple(sorted(columns, key=lambda column: place[source_names(column)[0]]))


def _wanted(table: Source, name: str, kind: str | None, most: int) -> Wanted:
    found = table.types_of(name)
    shapes = {shape_of(name, each) for each in found if not types.is_null(each)} or {"scalar"}
    if len(shapes) > 1:
        raise SchemaError(f"the column {name!r} holds lists in some files and no lists in others")
    (shape,) = shapes
    if kind is not None and shape != "scalar":
        raise SchemaError(f"the column {name!r} holds lists in the data, which no column of kind {kind} is read from")
    size = next((each.list_size for each in found if types.is_fixed_size_list(each)), 0) if shape == "vector" else 0
    return Wanted(name, shape, size, most if shape == "set" else 1, cast("Guess | None", kind))


def learn_schema(  # noqa: PLR0913 - everything meets here
    data: Any,
    *,
    epsilon: float,
    delta: float,
    ledger: Budget = None,
    dataset: str | None = None,
    neighbours: Neighbours = "replace",
    group: int = 1,
    id: str | None = None,  # noqa: A002 - as the kind is called
    leave_out: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    declared: Sequence[Column] = (),
    most: int = MOST,
    engine: Engine | str = "local",
    progress: Progress = ignore,
    secret: Secret | None = None,
) -> Schema:
    """Learn the schema of a table: what its columns are, bounds of numbers, values of categories and sets.

    Formal guarantee: the schema satisfies (epsilon, delta) for unit record, as ``schema_learning.recipe`` proves: all
    of it is computed from counts with exact noise. It is charged to ``ledger`` (a path, or an account; ``dataset``
    names one of several) before a row is read. Releases that use the schema cost their own loss in addition.

    neighbours, group : as in a ``Guarantee``. id, leave_out, kinds, declared, most : see ``Description``.
    engine            : its memory bounds blocks of rows and counts of texts, which go to disk beyond it.
    secret            : for tests, as in ``release``; such a schema protects nobody, and cannot be charged.
    """
    guarantee = Guarantee(epsilon=epsilon, delta=delta, neighbours=neighbours, group=group)
    about = Description(id, tuple(leave_out), kinds, tuple(declared), most)
    account, worker = _account(ledger, dataset), engine_of(engine)
    with worker.opened(data, Path(tempfile.gettempdir()) / "sfumato") as still:
        planned = PlannedSchema.of(still, about, guarantee, account, source_of(data))
        return planned.run(key_of(secret), worker, progress)


@dataclass(frozen=True, slots=True, eq=False)
class PlannedSchema:
    """A schema before it is learned: the calibrated mechanism beside its table. Nothing was read off the rows."""

    table: Source
    about: Description
    calibrated: Calibrated[SchemaLearning]
    account: Account | None
    origin: Origin

    @classmethod
    def of(
        cls, data: Any, about: Description, guarantee: Guarantee, account: Account | None, origin: Origin | None = None
    ) -> "PlannedSchema":
        """Plan to learn the schema of a table, or of the account's part of it, by whose column the schema goes not."""
        table = open_table(data)
        if account is not None and account.part is not None:
            assert account.parts_by is not None
            table = part_of(table, account.parts_by, account.part)
            if account.parts_by != about.id:
                about = replace(about, leave_out=(*about.leave_out, account.parts_by))
        mechanism = SchemaLearning(about.wanted(table), guarantee)
        return cls(table, about, calibrate(mechanism, guarantee), account, origin or source_of(data))

    @property
    def forecast(self) -> LearningForecast:
        """What is known of the schema before it is learned: noise, and thresholds in rows."""
        return self.calibrated.mechanism.forecast(self.calibrated.level)

    def request(self) -> Request:
        """What the ledger is told, to charge a schema that is learned."""
        mechanism, level = self.calibrated.mechanism, self.calibrated.level
        return Request(
            LEARNER,
            self.calibrated.guarantee,
            mechanism.loss(level),
            lambda times: mechanism.loss(level * times),
            len(mechanism.columns),
            LEARNING,
            self.origin,
        )

    def run(self, secret: Secret, engine: Engine | None = None, progress: Progress = ignore) -> Schema:
        """Charge the schema, read the table, and learn it."""
        engine = engine or Local()
        reading = Reading(self.table, engine.memory, getattr(engine, "threads", None), progress)
        with ExitStack() as stack:
            charge = None
            if self.account is not None:
                if not protects(secret):
                    raise ParameterError("test noise protects nobody, so it cannot be charged to a ledger")
                charge = stack.enter_context(charged(self.account, self.request()))
                secret = secret.announced(charge.draw)
            schema = self._learned(reading, secret, charge)
            if charge is not None:
                charge.commit(_sealed(schema, charge))
        return schema

    def _learned(self, reading: Reading, secret: Secret, charge: Reservation | None) -> Schema:
        draft = self.calibrated.mechanism.run(reading, self.calibrated.level, secret)
        where = None if charge is None else {"dataset": charge.name, "entry": charge.number}
        columns = self.about.schema(draft.columns, self.table.schema.names)
        if not any(column.kind != "id" for column in columns):
            raise SchemaError(
                "no column could be learned: no value is in enough records to be published at this price; use a larger "
                "epsilon, or describe the columns by hand"
            )
        return Schema(columns, scale="bounds", learned=replace(draft.learned, ledger=where))


def _account(ledger: Budget, dataset: str | None) -> Account | None:
    """The account that a learned schema is charged to."""
    if dataset is None:
        return account_of(ledger)
    if ledger is None or isinstance(ledger, Account):
        raise ParameterError(f"dataset={dataset!r} names a dataset of a ledger: give the ledger as a path or a Ledger")
    return (ledger if isinstance(ledger, Ledger) else Ledger(ledger)).account(dataset)


def _sealed(schema: Schema, charge: Reservation) -> Facts:
    """Record of a learned schema that the ledger commits to."""
    body: Facts = {
        "format": "sfumato-schema",
        "version": 1,
        "software": {"sfumato": __version__},
        "schema": schema.to_dict(),
        "ledger": {"dataset": charge.name, "entry": charge.number, "hash": charge.hash},
        "numerics": "exact",
        "randomness": RANDOMNESS,
    }
    return body | {"digest": digest(body)}
