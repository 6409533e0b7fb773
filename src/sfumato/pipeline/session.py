"""``Session``: questions about a table, answered one by one or in batches, each charged to a ledger before it is read.

A question is a condition, whose answer is the number of records for which it holds (``predicates``), or asks for sums,
means, quantiles and more in groups (``questions``, ``aggregates.asked``). Answers get exact noise. No key and no noise
is kept: every question is reserved, drawn from a key of its own, and committed.

Formal guarantee: the answer to a condition at ``epsilon`` satisfies pure epsilon-differential privacy for the unit and
neighbours of the session; one with aggregates satisfies what ``aggregates.asked`` states. A record adds 0 or 1 to a
count, by itself (``predicates``). Adding or removing one moves the count by at most 1, and so does replacing one: the
others add what they added. A value of a record is less than a record. ``group`` records of one person: at most
``group``, one after another. So noise of Laplace scale group/epsilon on the exact count is pure epsilon (Dwork et al.
2006), and rounding to whole numbers is exact (``noise``). Questions may be chosen by looking at earlier answers;
whether their epsilons may be too depends on the ledger's composition (``privacy.filters``: the default ``filter``
allows it, and so do ``basic``, ``advanced`` and ``gaussian``; ``tight`` wants them fixed beforehand unless delta is 0).
A question that is refused, as a text or because it does not fit the budget, costs nothing, and no row is read for it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np

from sfumato import check, defaults
from sfumato.aggregates.asked import PreparedQuestion, prepare, sums_of
from sfumato.answering.base import PreparedAnswers, check_counts, count_move
from sfumato.answering.median import Median
from sfumato.answering.multiplicative_weights import Weights
from sfumato.answering.mwem import MWEM, PreparedMWEM
from sfumato.answering.workload import check_room, questions
from sfumato.engines.local import Engine, Local
from sfumato.errors import BudgetError, LedgerError, ParameterError
from sfumato.fileformat.manifest import Facts
from sfumato.files.open_table import open_table
from sfumato.intervals import additive_noise
from sfumato.ledger.ledger import schema_text
from sfumato.ledger.reservation import Reservation
from sfumato.ledger.state import Quote, Request
from sfumato.numerics.types import Integers
from sfumato.pipeline.answers import Answer, assembled, sealed
from sfumato.pipeline.charging import charged
from sfumato.pipeline.fitting import settled
from sfumato.pipeline.open_session import Opened, level_of, passes_over, recipe_of
from sfumato.pipeline.release import FROM_BOUNDS, Budget, account_of, source_of, table_of
from sfumato.privacy import composition
from sfumato.privacy.guarantee import Guarantee, Neighbours
from sfumato.privacy.losses import Composed, Laplace, Loss
from sfumato.queries.axes import Bins
from sfumato.queries.domain import Domain
from sfumato.queries.histogram import SyntheticHistogram
from sfumato.queries.parser import parse
from sfumato.queries.predicates import Predicate, count
from sfumato.queries.questions import AggregateQuestion, question_of
from sfumato.queries.sql import sql_question
from sfumato.randomness import noise
from sfumato.randomness.noise import laplace_scale
from sfumato.randomness.secret import Secret
from sfumato.tables.blocks import Blocks, Rows, ignore
from sfumato.tables.columns import DataColumn
from sfumato.tables.patterns import positions
from sfumato.tables.schema import Schema

Unit = Literal["record", "attribute"]
Question: TypeAlias = str | AggregateQuestion  # a text, or one that was read from SQL
Put = TypeVar("Put")
Read = TypeVar("Read")
Method = Literal["weights", "median"]

MOST = 10_000  # questions of one batch


class Session:
    """Answers to questions about a table, charged to a budget.

    data       : what ``open_table`` takes; the same rows for as long as the session lasts.
    ledger     : an account, a ledger with one dataset, or the place of one.
    unit       : ``record``, which costs a count no more than ``attribute``.
    neighbours : left out, those of the ledger's first cap; likewise ``group``, how many rows one person owns.
    engine     : where rows are counted; left out, by threads of this process.
    """

    def __init__(
        self,
        data: Any,
        *,
        schema: Schema,
        ledger: Budget,
        unit: Unit = defaults.UNIT,
        neighbours: Neighbours | None = None,
        group: int | None = None,
        engine: Engine | None = None,
    ) -> None:
        account = account_of(ledger)
        if account is None:
            raise ParameterError("a session spends from a budget: say which (ledger)")
        check.one_of(("record", "attribute"), unit=unit)
        cap = account.dataset.caps[0].guarantee
        if cap.unit == "edge":
            raise LedgerError(f"{account.name!r} is a graph, by its cap: a session answers questions about records")
        whole = group if group is not None else cap.group if unit == "record" else 1
        self.origin, self._engine = source_of(data), engine or Local()
        data, schema = settled(data, schema)
        self.account, self.schema = account, schema
        self.promise = Guarantee(epsilon=1.0, unit=unit, neighbours=neighbours or cap.neighbours, group=whole)
        check_counts(self.promise)
        self.table = table_of(account, open_table(data, schema), schema)
        positions(self.table.schema.names, schema.source_names)

    @property
    def remaining(self) -> float:
        """The largest epsilon that one more pure answer can have, as ``sfumato ledger show`` says."""
        return self.account.dataset.remaining_under_every_cap()

    def ask(self, query: Question, *, epsilon: float, delta: float = 0.0) -> Answer:
        """The answer to one question at this epsilon, with Laplace noise; with Gaussian noise if delta > 0.

        A condition (``age >= 40 and smoker``) counts records; ``mean(age), count where smoker by sex`` is more
        (``queries.questions``). All numbers of an answer together cost epsilon and delta, once.
        """
        return self.ask_all([query], epsilon=epsilon, delta=delta)[0]

    def sql(self, text: str, *, epsilon: float, delta: float = 0.0) -> Answer:
        """The answer to a question in SQL: ``select city, avg(age) from people where smoker group by city``.

        It costs what the same question to ``ask`` costs. Needs the extra ``sql``. Nothing is executed: the text is
        translated into such a question, and what has no translation is refused (``queries.sql``).
        """
        return self.ask(sql_question(text, self.schema), epsilon=epsilon, delta=delta)

    def ask_all(self, queries: Sequence[Question], *, epsilon: float, delta: float = 0.0) -> list[Answer]:
        """The answers to several questions in one pass over the rows, at this price each: all, or none if refused."""
        asked = self._questions(queries)
        if delta == 0 and all(question.plain for question in asked):
            return self._counted([question.where for question in asked if question.where is not None], epsilon)
        return self._aggregated(self._prepared(asked, epsilon, delta), epsilon, delta)

    def price(self, queries: Sequence[Question], *, epsilon: float, delta: float = 0.0) -> list[Quote]:
        """What questions would cost together, cap by cap; nothing is read, drawn or charged."""
        asked = self._questions(queries)
        if delta == 0 and all(question.plain for question in asked):
            return self.account.price(self._counting(len(asked), epsilon))
        return self.account.price(self._summing(self._prepared(asked, epsilon, delta), epsilon, delta))

    def _rows(self, schema: Schema) -> Rows:
        """The rows of the session's table, encoded by a schema of some of the columns."""
        return self._engine.rows(Blocks.of(self.table, schema), ignore)

    def _parsed(self, queries: Sequence[str]) -> list[Predicate]:
        """Conditions, which are all that mechanisms for many questions answer."""
        return self._each(queries, parse)

    def _questions(self, queries: Sequence[Question]) -> list[AggregateQuestion]:
        return self._each(queries, question_of)

    def _each(self, queries: Sequence[Put], read: Callable[[Put, Schema], Read]) -> list[Read]:
        if isinstance(queries, str) or not isinstance(queries, Sequence):
            raise ParameterError("queries are a list of texts such as ['age >= 40', 'smoker']")
        if not 1 <= len(queries) <= MOST:
            raise ParameterError(f"a batch has 1 to {MOST:,} questions, got {len(queries):,}")
        found = []
        for number, query in enumerate(queries, 1):
            try:
                found.append(read(query, self.schema))
            except ParameterError as error:
                if len(queries) == 1:
                    raise
                raise ParameterError(f"question {number} of {len(queries)}: {error}") from None
        return found

    def _laplace_scale(self, epsilon: float) -> float:
        """The scale b of the noise on a count: what one unit moves / b <= epsilon."""
        check.positive(epsilon=epsilon)
        move = count_move(self.promise)
        least, most = move / noise.LARGEST_SCALE, move / noise.SMALLEST_SCALE
        if not least <= epsilon <= most:
            raise check.fail("epsilon", epsilon, f"above {least:.3g} and below {most:.3g}")
        return laplace_scale(move, float(epsilon))

    def _counting(self, count: int, epsilon: float) -> Request:
        """Questions as a ledger sees them: together one release, whose losses add up like those of single ones."""
        b = self._laplace_scale(epsilon)
        total = float(Decimal(repr(float(epsilon))) * count)

        def loss_at(times: float) -> Loss:
            one = Laplace(count_move(self.promise), b * times)
            return one if count == 1 else Composed([one] * count)

        return self._request("Answer" if count == 1 else f"Answer x {count}", self._promise(total), loss_at)

    def _request(self, mechanism: str, guarantee: Guarantee, loss_at: Callable[[float], Loss]) -> Request:
        return Request(
            mechanism,
            guarantee,
            loss_at(1.0),
            loss_at,
            self.schema.encoding.values,
            schema_text(self.schema.to_dict()),
            self.origin,
            (FROM_BOUNDS,) if self.schema.bounds_from_data else (),
        )

    def _promise(self, epsilon: float, delta: float = 0.0) -> Guarantee:
        return replace(self.promise, epsilon=epsilon, delta=delta)

    def _prepared(self, questions: Sequence[AggregateQuestion], epsilon: float, delta: float) -> list[PreparedQuestion]:
        check.positive(epsilon=epsilon)
        check.probability_below_one(delta=delta)
        return [prepare(question, self._promise(float(epsilon), float(delta))) for question in questions]

    def _summing(self, prepared: Sequence[PreparedQuestion], epsilon: float, delta: float) -> Request:
        """Questions with aggregates as a ledger sees them: together one release."""
        count = len(prepared)
        promise = self._promise(*(float(Decimal(repr(float(part))) * count) for part in (epsilon, delta)))

        def loss_at(times: float) -> Loss:
            losses = [question.spending.loss(times) for question in prepared]
            return losses[0] if count == 1 else Composed(losses)

        return self._request("Answer" if count == 1 else f"Answer x {count}", promise, loss_at)

    def _aggregated(self, prepared: Sequence[PreparedQuestion], epsilon: float, delta: float) -> list[Answer]:
        """Answer a batch of questions with aggregates: reserve, sum, draw, commit."""
        request = self._summing(prepared, epsilon, delta)
        with _for_each(len(prepared)), charged(self.account, request) as charge:
            schema = _needed(self.schema, [column for q in prepared for column in q.question.columns])
            sums = sums_of(self._rows(schema), schema, prepared)
            secret = Secret.fresh().announced(charge.draw)
            noisy = [q.noisy(own, secret, turn) for turn, (q, own) in enumerate(zip(prepared, sums, strict=True))]
            rows = [int(own[0]) for own in sums]
            found = [assembled(q, q.answered(n, r)) for q, n, r in zip(prepared, noisy, rows, strict=True)]
            texts = [question.question.text for question in prepared]
            facts = {"name": "aggregate", "statistics": [question.described() for question in prepared]}
            told = [[array.ravel().tolist() for array in arrays] for arrays in noisy]
            record = sealed(request.guarantee, facts, list(zip(texts, told, strict=True)), charge)
            charge.commit(record)
        dataset = self.account.dataset
        return [
            Answer(text, estimate, float(epsilon), record, dataset, float(delta), **described)
            for text, (estimate, described) in zip(texts, found, strict=True)
        ]

    def _counted(self, predicates: list[Predicate], epsilon: float) -> list[Answer]:
        """Answer a batch of conditions: reserve, count, draw, commit."""
        request, b = self._counting(len(predicates), epsilon), self._laplace_scale(epsilon)
        with _for_each(len(predicates)), charged(self.account, request) as charge:
            schema = _needed(self.schema, [leaf.column for p in predicates for leaf in p.leaves])
            *counts, rows = count(self._rows(schema), schema, predicates)
            seen = _noisy(np.array(counts, np.int64), predicates, b, charge)
            most = float(rows) if self.promise.neighbours == "replace" else None
            texts = [predicate.text for predicate in predicates]
            facts = {"name": "count", "noise": "laplace", "laplace_scale": b}
            record = sealed(request.guarantee, facts, list(zip(texts, seen, strict=True)), charge)
            charge.commit(record)
        dataset = self.account.dataset
        bounded = {} if most is None else {"most": most}
        return [
            Answer(p.text, additive_noise.counted(value, b, **bounded), float(epsilon), record, dataset)
            for p, value in zip(predicates, seen, strict=True)
        ]

    def open(
        self,
        method: Method | Weights | Median,
        *,
        epsilon: float,
        delta: float = 0.0,
        queries: Sequence[str] = (),
        updates: int | None = None,
        columns: Sequence[str] | None = None,
        bins: Mapping[str, Bins] | None = None,
    ) -> Opened:
        """A mechanism that answers any number of questions about a finite domain, charged whole, now.

        Formal guarantee: all its answers together satisfy (epsilon, delta), as proved for the mechanism.
        method        : ``weights`` or ``median``, or a recipe of one of them.
        queries       : questions that will be asked: the domain is cut so that it can answer them.
        updates       : how many questions can be measured; left out, 20 or as many as there are queries (weights), or
                        what the mechanism proposes (median).
        columns, bins : the domain of other questions, see ``Domain.of``.
        """
        domain = self._domain(queries, columns, bins)
        recipe = recipe_of(method, len(queries), domain, updates)
        prepared = recipe.prepare(domain, self._promise(epsilon, delta))
        level, request = self._whole(type(recipe).__name__, prepared)
        with charged(self.account, request) as charge:
            secret = Secret.fresh().announced(charge.draw)
            started = prepared.start(self._rows(domain.schema), level, secret)
        return Opened(started, domain, self.schema, prepared.guarantee, charge)

    def synthesise(
        self, queries: Sequence[str], *, epsilon: float, delta: float = 0.0, updates: int | None = None
    ) -> tuple[SyntheticHistogram, Facts]:
        """A synthetic histogram made for questions by MWEM, and what was committed to the ledger.

        Formal guarantee: the histogram satisfies (epsilon, delta), as proved for MWEM; what is computed from it is
        free. ``Domain.mask`` turns a question into cells, of which ``SyntheticHistogram.answer`` knows the rows.
        """
        predicates, domain = self._parsed(queries), self._domain(queries, None, None)
        recipe = self._mwem(queries, domain, updates)
        prepared = recipe.prepare(domain, self._promise(epsilon, delta))
        level, request = self._whole(type(recipe).__name__, prepared)
        with charged(self.account, request) as charge:
            secret = Secret.fresh().announced(charge.draw)
            made = prepared.run(self._rows(domain.schema), level, secret).histogram
            answers = [(p.text, made.answer(domain.mask(p))) for p in predicates]
            facts = {"name": "MWEM", "rounds": recipe.rounds, "histogram": made.digest}
            record = sealed(prepared.guarantee, facts, answers, charge)
            charge.commit(record)
        return made, record

    def price_whole(
        self,
        method: Method | Weights | Median | Literal["mwem"],
        queries: Sequence[str],
        *,
        epsilon: float,
        delta: float = 0.0,
        updates: int | None = None,
    ) -> list[Quote]:
        """What ``open`` or ``synthesise`` would cost for these questions, cap by cap; nothing is read or charged."""
        self._parsed(queries)
        domain = self._domain(queries, None, None)
        if method == "mwem":
            recipe: MWEM | Weights | Median = self._mwem(queries, domain, updates)
        else:
            recipe = recipe_of(method, len(queries), domain, updates)
        prepared = recipe.prepare(domain, self._promise(epsilon, delta))
        return self.account.price(self._whole(type(recipe).__name__, prepared)[1])

    def _mwem(self, queries: Sequence[str], domain: Domain, updates: int | None) -> MWEM:
        check_room(len(queries), domain)
        workload = questions(np.array([domain.mask(p) for p in self._parsed(queries)]), domain)
        rounds = min(10, len(workload)) if updates is None else updates
        return MWEM(workload=workload, rounds=rounds, passes=passes_over(domain))

    def _domain(
        self,
        queries: Sequence[str],
        columns: Sequence[str] | None,
        bins: Mapping[str, Bins] | None,
    ) -> Domain:
        """The finite domain of a session: over a schema of its own columns alone, which are all that is read."""
        if queries and (columns is not None or bins is not None):
            raise ParameterError("a domain is made from queries, or from columns and bins: give one or the other")
        if queries:
            predicates = self._parsed(queries)
            return Domain.of_questions(
                _needed(self.schema, [leaf.column for p in predicates for leaf in p.leaves]), predicates
            )
        whole = [column.name for column in self.schema.data_columns]
        for name in columns or ():
            check.one_of(whole, column=name)
        some = tuple(c for c in self.schema.data_columns if columns is None or c.name in columns)
        small = Schema(some, scale=self.schema.scale)
        return Domain.of(small, columns, bins)

    def _whole(self, name: str, prepared: PreparedAnswers | PreparedMWEM) -> tuple[float, Request]:
        """The level of a mechanism that the session charges whole, and what the ledger is asked for."""
        level = level_of(prepared, prepared.guarantee)
        return level, self._request(name, prepared.guarantee, lambda times: prepared.loss(level * times))


@contextmanager
def _for_each(count: int) -> Iterator[None]:
    """Where a session's batch of questions is refused, say what would fit for each of them."""
    try:
        yield
    except BudgetError as error:
        each = composition.rounded_down(error.remaining / count)
        if count > 1:
            error.args = (f"{error} for all {count:,} questions together, {each:g} for each",)
        raise


def _needed(schema: Schema, asked: Sequence[DataColumn]) -> Schema:
    """The schema of the columns that a session's questions ask about (one, if none): others need not be read."""
    names = {column.name for column in asked}
    columns = tuple(column for column in schema.data_columns if column.name in names)
    return Schema(columns or schema.data_columns[:1], scale=schema.scale)


def _noisy(counts: Integers, predicates: Sequence[Predicate], b: float, charge: Reservation) -> list[int]:
    """Answers of a session's batch: counts with noise of a key for it alone, told to the ledger before it is drawn."""
    secret = Secret.fresh().announced(charge.draw)
    words = secret.words("counts", "laplace", repr(b), len(predicates), *(p.text for p in predicates), counts)
    return [int(value) for value in counts + words.laplace(counts.size, b)]
