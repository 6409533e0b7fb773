"""``release``: the one place where data, guarantee, mechanism and disk meet."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from sfumato import check
from sfumato.engines.local import Engine, Ids, Local, with_ids
from sfumato.engines.spark import Spark
from sfumato.errors import ParameterError, ReleaseError
from sfumato.fileformat import leftovers, writer
from sfumato.fileformat.manifest import RANDOMNESS, Facts, Manifest
from sfumato.files.edges import EdgeRows, open_edges
from sfumato.files.open_table import open_table
from sfumato.files.source import Source, part_of
from sfumato.files.table_file import TableFile
from sfumato.ledger.account import Account
from sfumato.ledger.ledger import Ledger, schema_text
from sfumato.ledger.reservation import Reservation
from sfumato.ledger.sources import MEMORY, Origin
from sfumato.ledger.state import Price, Request
from sfumato.mechanisms.base import FROM_DATA, Prepared, Published, Recipe
from sfumato.pipeline.arguments import Mechanism, recipe_of, schema_for
from sfumato.pipeline.charging import charged, record
from sfumato.pipeline.fitting import settled
from sfumato.pipeline.origins import origin_of
from sfumato.privacy.calibration import Calibrated, calibrate
from sfumato.privacy.guarantee import Guarantee, check_guarantee
from sfumato.randomness.secret import Secret, protects
from sfumato.tables.blocks import Blocks, Progress, Rows, ignore
from sfumato.tables.schema import AnySchema, Schema, schema_of

if TYPE_CHECKING:
    from sfumato.releases.release import AnyRelease

Budget: TypeAlias = Ledger | Account | str | Path | None  # a path or URL stands for its ledger's only dataset
FROM_BOUNDS = "bounds were taken from the data, which is outside the guarantee"


def release(
    data: Any,
    *,
    schema: AnySchema = None,
    mechanism: Mechanism,
    guarantee: Guarantee,
    ledger: Budget = None,
    engine: Engine | str = "local",
    secret: Secret | None = None,
) -> "AnyRelease":
    """Make a private release of a table, or of a graph's edges (then without a schema), in memory.

    Formal guarantee: what is returned satisfies ``guarantee``, as proved for the mechanism. The level of noise is fixed
    before a row is read. ``release_to`` streams to disk instead. ``schema``: or the path of its file; a recipe in a
    shared space brings its own, so it may be left out. ``mechanism``: a recipe, or its name as ``sfumato release`` has
    it (table, sketch, synthetic, covariance, histogram, responses, distances), with the settings that the command has
    by default. ``ledger``: where it is charged, or a ledger with one dataset; without one the release says that nothing
    was accounted for. ``engine``: local, spark, or one of the
    classes ``Local`` and ``Spark`` with settings of its own. ``secret`` is for tests: ``Secret.for_testing``, and a
    release made with it is marked as unprotected. Without it the release draws a key, which serves no other.
    """
    from sfumato.releases.release import of_kind  # noqa: PLC0415 - much to load where releases are only written

    key, account, worker = key_of(secret), account_of(ledger), engine_of(engine)
    beside = Path(tempfile.gettempdir()) / "sfumato"
    with worker.opened(data, beside) as still, ExitStack() as stack:
        planned = _PlannedRelease.of(still, schema, mechanism, guarantee, key, worker, source_of(data)).of_part(account)
        rows = planned.rows(ignore)
        charge = stack.enter_context(planned.charged(account))
        published = planned.run(rows, charge)
        parts = list(with_ids(published.blocks, planned.ids(published)))
        if not parts:
            raise ReleaseError("the data have no rows, so there is nothing to release")
        rows_made = sum(writer.rows_in(block) for block, _ in parts)
        manifest = writer.seal(planned.fields(published, rows_made, charge) | {"files": {}})
        made = of_kind(manifest).of_blocks(manifest, parts, published.matrix, published.beside)
        if charge is not None:
            charge.commit(manifest)
    return made


def release_to(  # noqa: PLR0913 - everything meets here
    path: str | Path,
    data: Any,
    *,
    schema: AnySchema = None,
    mechanism: Mechanism,
    guarantee: Guarantee,
    ledger: Budget = None,
    engine: Engine | str = "local",
    progress: Progress = ignore,
    secret: Secret | None = None,
) -> Manifest:
    """Stream a private release of a table to a folder, which appears whole or not at all; returns its manifest.

    Formal guarantee: as for ``release``. Memory does not grow with the number of rows (but for mechanisms that compare
    all pairs of them, and for graphs).
    """
    key, account, worker = key_of(secret), account_of(ledger), engine_of(engine)
    writer.check_free(Path(path))
    if writer.any_hidden(Path(path).parent):
        leftovers.warn(Path(path).parent)
    with worker.opened(data, Path(path)) as still, ExitStack() as stack:
        planned = _PlannedRelease.of(still, schema, mechanism, guarantee, key, worker, source_of(data)).of_part(account)
        rows = planned.rows(progress)
        charge = stack.enter_context(planned.charged(account))
        announce, ready = ((lambda: None),) * 2 if charge is None else (charge.draw, charge.ready)
        folder = stack.enter_context(writer.new_folder(Path(path), ready))
        published = planned.run(rows, charge)
        written = worker.write(folder, published.names, published.blocks, planned.ids(published), announce)
        if published.matrix is not None:
            writer.write_projection(folder, published.matrix)
        writer.write_beside(folder, published.beside)
        manifest = writer.finish(folder, planned.fields(published, written.rows, charge), written.files)
    if charge is not None:
        record(charge, manifest, path)
    return manifest


def price(
    data: Any,
    *,
    schema: AnySchema = None,
    mechanism: Mechanism,
    guarantee: Guarantee,
    ledger: Budget,
) -> Price:
    """What a release would cost, cap by cap; nothing is read off the rows, drawn or charged."""
    account = account_of(ledger)
    if account is None:
        raise ParameterError("ledger is missing: a price is what a release costs of a budget")
    return account.price(prospect(data, schema=schema, mechanism=mechanism, guarantee=guarantee)[1])


def prospect(
    data: Any, *, schema: AnySchema = None, mechanism: Mechanism, guarantee: Guarantee
) -> tuple[Prepared, Request]:
    """A release before it is made: the prepared mechanism, and what a ledger would be asked; nothing is read."""
    planned = _PlannedRelease.of(data, schema, mechanism, guarantee, Secret.fresh(), Local(), source_of(data))
    return planned.calibrated.mechanism, planned.request()


def source_of(data: Any) -> Origin:
    """Where the data of a release come from, for a ledger: what ``origins`` knows of a file; else ``memory``."""
    place = data.path if isinstance(data, TableFile) else data
    return origin_of(Path(place)) if isinstance(place, (str, Path)) else Origin(f"{MEMORY} {type(place).__name__}")


def table_of(account: Account, table: Source, schema: Schema) -> Source:
    """The records that a release reads, as charged: all of the dataset, or those of the account's part."""
    if account.part is None:
        return table
    assert account.parts_by is not None
    if any(c.name == account.parts_by and c.kind != "id" for c in schema.columns):
        raise ParameterError(
            f"parts go by {account.parts_by!r}, which is public: leave it out of the schema, which protects columns"
        )
    return part_of(table, account.parts_by, account.part)


@dataclass(frozen=True, slots=True, eq=False)
class _PlannedRelease:
    """A calibrated mechanism beside the table it will read: what both ways of releasing share."""

    recipe: Recipe
    calibrated: Calibrated[Prepared]
    origin: Origin
    source: Source | EdgeRows
    secret: Secret
    engine: Engine

    @classmethod
    def of(
        cls,
        data: Any,
        schema: AnySchema,
        mechanism: Mechanism,
        guarantee: Guarantee,
        secret: Secret,
        engine: Engine,
        origin: Origin,
    ) -> "_PlannedRelease":
        check_guarantee(guarantee)
        schema = schema_of(schema)
        if schema is not None:
            data, schema = settled(data, schema)
        schema = schema_for(mechanism, schema)
        if schema is None and guarantee.unit != "edge":
            raise ParameterError(f"unit={guarantee.unit!r} needs a schema of the columns; a graph needs unit='edge'")
        if schema is not None:
            data = open_table(data, schema) if isinstance(mechanism, str) else data
        recipe, guarantee = recipe_of(mechanism, data, schema, guarantee)
        calibrated = calibrate(recipe.prepare(schema, guarantee), guarantee)
        source = open_edges(data) if schema is None else open_table(data, schema)
        return cls(recipe, calibrated, origin, source, secret, engine)

    @property
    def schema(self) -> Schema | None:
        return self.calibrated.mechanism.schema

    def request(self) -> Request:
        """What the ledger is told of the planned release, to charge it."""
        prepared, level = self.calibrated.mechanism, self.calibrated.level
        return Request(
            type(self.recipe).__name__,
            self.calibrated.guarantee,
            prepared.loss(level),
            lambda times: prepared.loss(level * times),
            1 if self.schema is None else self.schema.encoding.values,
            schema_text(None if self.schema is None else self.schema.to_dict()),
            self.origin,
            tuple(self._outside()),
        )

    def _outside(self) -> Iterator[str]:
        """What of the release no guarantee covers, as far as it is known before a row is read."""
        if self.schema is not None and self.schema.bounds_from_data:
            yield FROM_BOUNDS
        yield from self.recipe.not_covered
        if isinstance(self.source, EdgeRows):
            vertices = self.recipe.vertices or self.source.vertices
            if self.source.from_data or vertices is None:
                yield FROM_DATA

    def of_part(self, account: Account | None) -> "_PlannedRelease":
        """The release of the records of the account's part only: what is charged to a part reads no other."""
        if account is None or account.part is None:
            return self
        if not isinstance(self.source, Source) or self.schema is None:
            raise ParameterError("parts are of tables: a graph has none")
        return replace(self, source=table_of(account, self.source, self.schema))

    @contextmanager
    def charged(self, account: Account | None) -> Iterator[Reservation | None]:
        """Spend before anything is read, as ``charging`` has it; nothing where there is no account."""
        if account is None:
            yield None
            return
        if not protects(self.secret):
            raise ParameterError("test noise protects nobody, so it cannot be charged to a ledger")
        with charged(account, self.request()) as reservation:
            yield reservation

    def run(self, rows: Rows, charge: Reservation | None) -> Published:
        secret = self.secret if charge is None else self.secret.announced(charge.draw)
        return self.calibrated.mechanism.run(rows, self.calibrated.level, secret)

    def rows(self, progress: Progress) -> Rows:
        """The rows that the mechanism will read, not read yet; an engine that cannot offer them refuses here."""
        if isinstance(self.source, EdgeRows):
            if self.source.blocks is None or isinstance(self.engine, Local):
                return replace(self.source, progress=progress)
            return self.engine.rows(self.source.blocks, progress)
        assert self.schema is not None
        prepared, memory = self.calibrated.mechanism, self.engine.memory
        if prepared.reader is None:
            blocks = Blocks.of(self.source, self.schema, width=prepared.dimension, memory=memory)
        else:
            blocks = Blocks.read_by(prepared.reader, self.source, self.schema, width=prepared.dimension, memory=memory)
        return self.engine.rows(blocks, progress)

    def ids(self, published: Published) -> Ids | None:
        """The public ids of the published rows, if they have any."""
        if not published.by_record or not isinstance(self.source, Source) or self.schema is None:
            return None
        return Ids.of(self.source, self.schema)

    def fields(self, published: Published, rows: int, charge: Reservation | None) -> Facts:
        """Everything the manifest says but what depends on the files; facts that name the rows go before a count."""
        shared = {
            "guarantee": self.calibrated.guarantee.to_dict(),
            **({} if self.schema is None else {"schema": self.schema.to_dict()}),
            "rows": rows,
            "protected": protects(self.secret),
            "accounted": charge is not None,
            **(
                {}
                if charge is None
                else {"ledger": {"dataset": charge.name, "entry": charge.number, "hash": charge.hash}}
            ),
            "numerics": "exact",
            "randomness": RANDOMNESS,
        }
        warnings = [*_warnings(self.schema, self.secret, charge), *published.facts.get("warnings", [])]
        return shared | published.facts | {"warnings": warnings}


def account_of(ledger: Budget) -> Account | None:
    """The account to charge a release to, from a ledger or the place of one."""
    if ledger is None or isinstance(ledger, Account):
        return ledger
    if not isinstance(ledger, Ledger | str | Path):
        kind = type(ledger).__name__
        raise ParameterError(
            f"ledger must be a Ledger, an Account or the place of a ledger, got an object of type {kind}"
        )
    return (ledger if isinstance(ledger, Ledger) else Ledger(ledger)).account()


def key_of(secret: Secret | None) -> Secret:
    """The secret key of one release: fresh, or a testing one. A key that protects somebody is nobody's to hand in.

    Two releases under one key would show which of their blocks are equal, with certainty and at any price.
    """
    if secret is None:
        return Secret.fresh()
    if not isinstance(secret, Secret) or protects(secret):
        raise ParameterError(
            "secret takes Secret.for_testing(seed) alone, for tests: a release that protects draws a key of its own, "
            "which serves no other, so leave secret out"
        )
    return secret


def _warnings(schema: Schema | None, secret: Secret, charge: Reservation | None) -> Iterator[str]:
    if charge is None:
        yield "no ledger was used: what other releases of these data cost is not accounted for"
    if schema is not None and schema.bounds_from_data:
        yield FROM_BOUNDS
    if not protects(secret):
        yield "made with test noise: this release protects nobody"


def engine_of(engine: Engine | str) -> Engine:
    """The engine of a release, from its name."""
    if not isinstance(engine, str) and hasattr(engine, "opened") and not isinstance(engine, type):
        return engine
    check.one_of(("local", "spark"), engine=cast("str", engine))
    return Local() if engine == "local" else Spark()
