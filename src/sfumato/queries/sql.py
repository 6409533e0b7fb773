"""SQL translated into questions: one SELECT with aggregates over one table, with WHERE and GROUP BY.

    select city, avg(age), count(*) from people where smoker group by city

The text is parsed by sqlglot, which is optional, and nothing of it is executed. Its tree is written as a question in
our own language, and ``parse_question`` checks that against the schema like any other. What has no translation is
refused, and the part at fault is named.
"""

import importlib
import re
from dataclasses import dataclass, replace
from typing import Any

from sfumato.errors import MissingDependency, ParameterError
from sfumato.queries.parser import LONGEST
from sfumato.queries.questions import AggregateQuestion, parse_question
from sfumato.queries.sql_conditions import NUMBER, PARTS, SqlConditions, quoted, refuse_node, refuse_part
from sfumato.queries.tokens import shown
from sfumato.tables.columns import DataColumn
from sfumato.tables.schema import Schema

_FUNCTIONS = {"Sum": "sum", "Avg": "avg", "Min": "min", "Max": "max", "Median": "median"}
_OTHERS = {"VariancePop": "var_pop", "Variance": "variance"}  # SQL's name; the question's is variance
_QUANTILES = ("Quantile", "ApproxQuantile")
_FURTHER = ("quantile_cont", "quantile_disc", "percentile", "approx_percentile")  # the same, of some dialects
_FORM = "write SELECT ... FROM ... WHERE ... GROUP BY ..."
_CLAUSES = {
    "joins": ("JOIN", "a question is about one table"),
    "having": ("HAVING", "all groups of the schema are answered; filter the answer's table"),
    "distinct": ("DISTINCT", "groups come from the schema; use GROUP BY"),
    "order": ("ORDER BY", "sort the answer's table, which costs nothing"),
    "limit": ("LIMIT", "all groups of the schema are answered, at the same cost"),
    "offset": ("OFFSET", "all groups of the schema are answered, at the same cost"),
    "with": ("WITH", "a question is one SELECT"),
    "windows": ("WINDOW", "use GROUP BY"),
    "locks": ("FOR UPDATE", "nothing is changed"),
    "sample": ("TABLESAMPLE", "all records are asked about"),
}


def sql_question(text: str, schema: Schema) -> AggregateQuestion:
    """The question that a SELECT asks about the records of a schema, or a refusal in one line (ParameterError).

    The name of the table is not checked: there is only one. Its aliases are the labels of the answers.
    """
    if not isinstance(text, str):
        raise ParameterError(f"SQL is a text that starts with SELECT, got an object of type {type(text).__name__}")
    if len(text) > LONGEST:
        raise ParameterError(f"SQL has at most {LONGEST:,} characters, got {len(text):,}: ask several questions")
    try:
        sqlglot = importlib.import_module("sqlglot")
    except ImportError:
        raise MissingDependency("SQL needs sqlglot: pip install 'sfumato[sql]'") from None
    select = _parsed(sqlglot, text)
    try:
        return _Translation(schema, select).question(text.strip())
    except RecursionError:
        raise ParameterError("SQL: conditions are too deep in each other") from None


def _parsed(sqlglot: Any, text: str) -> Any:
    """The tree of a text that is one SELECT."""
    try:
        words = sqlglot.tokenize(text)
        first = words[0].text.upper() if words else ""
        if first != "SELECT":  # before the parser, which would read other statements as commands
            refuse_part((shown(first)[1:-1] or "an empty text") + ": " + _FORM)
        trees = [tree for tree in sqlglot.parse(text) if tree is not None]
    except ParameterError:
        raise
    except sqlglot.errors.ParseError as error:
        told = error.errors[0] if error.errors else {}
        raise ParameterError(f"SQL, {_place(told)}: it cannot be parsed") from None
    except Exception:  # noqa: BLE001 - a parser that is not ours, given a stranger's text
        raise ParameterError("SQL: the text cannot be parsed") from None
    if len(trees) != 1:
        refuse_part(f"{len(trees):,} statements: write one SELECT")
    if type(trees[0]).__name__ != "Select":
        refuse_part(f"{type(trees[0]).__name__.upper()}: write one SELECT")
    return trees[0]


def _place(told: dict[str, Any]) -> str:
    """Where a parser of SQL stopped."""
    near = told.get("highlight")
    return f"line {told.get('line', 1)}, column {told.get('col', 1)}" + (f", at {shown(str(near))}" if near else "")


@dataclass(frozen=True, slots=True)
class _Asked:
    """An aggregate of a SELECT: as our language writes it, its label, and its column.

    present : COUNT(column), for which cells must not be missing.
    """

    text: str
    label: str
    column: DataColumn | None
    present: bool = False


class _Translation:
    """One SELECT on its way into our language. Branches go by the names of sqlglot's classes, which are stable."""

    def __init__(self, schema: Schema, select: Any) -> None:
        self.schema, self.select = schema, select
        self.conditions = SqlConditions(schema, self.tables())

    def question(self, text: str) -> AggregateQuestion:
        self.check_clauses()
        items = [self.item(node) for node in self.select.expressions]
        by = self.groups(items)
        asked = [found for node, alias in items if (found := self.aggregate(node, alias, by)) is not None]
        if not asked:
            refuse_part("a SELECT without an aggregate: add count(*), avg(...), sum(...) or others")
        where = self.select.args.get("where")
        conditions = [] if where is None else [self.conditions.true(where.this)]
        conditions += self.present(asked)
        wanted = ", ".join(found.text for found in asked)
        wanted += f" where {' and '.join(conditions)}" if conditions else ""
        wanted += f" by {', '.join(map(quoted, by))}" if by else ""
        return self.checked(text, wanted, [found.label for found in asked], _headings(by))

    def checked(self, text: str, wanted: str, labels: list[str], headings: tuple[str, ...]) -> AggregateQuestion:
        """The question in our language, checked against the schema; places in its text say nothing to its author."""
        try:
            found = parse_question(wanted, self.schema)
        except ParameterError as error:
            raise ParameterError(re.sub(r"^query, at character \d+: ", "SQL: ", str(error))) from None
        named = tuple(replace(one, text=label) for one, label in zip(found.aggregates, labels, strict=True))
        return replace(found, text=text, aggregates=named, headings=headings)

    def check_clauses(self) -> None:
        for key, value in self.select.args.items():
            clause = key.rstrip("_")
            if value and clause not in ("expressions", "from", "where", "group"):
                part, why = _CLAUSES.get(clause, (clause.upper(), _FORM))
                refuse_part(f"{part}: {why}")

    def tables(self) -> set[str]:
        """One table by its name, which may be any: there is only one. Columns may be qualified by it."""
        source = self.select.args.get("from_") or self.select.args.get("from")
        if source is None:
            refuse_part("a SELECT without FROM: write FROM and any name for the table")
        table = source.this
        if type(table).__name__ != "Table" or type(table.this).__name__ != "Identifier":
            refuse_part("a FROM that is not the name of a table")
        for key, value in table.args.items():
            if value and key not in ("this", "db", "catalog", "alias"):
                part, why = _CLAUSES.get(key, (key.upper(), "a question is about one table"))
                refuse_part(f"{part}: {why}")
        return {name.casefold() for name in (table.name, table.alias) if name}

    def item(self, node: Any) -> tuple[Any, str | None]:
        """One item of the select list, and its alias."""
        if type(node).__name__ == "Alias":
            return node.this, str(node.alias)
        return node, None

    def groups(self, items: list[tuple[Any, str | None]]) -> dict[str, str | None]:
        """The columns that groups go by, in their order, with the alias that the select list gives them."""
        group = self.select.args.get("group")
        found: dict[str, str | None] = {}
        for key, value in ({} if group is None else group.args).items():
            if value and key != "expressions":
                refuse_part(f"GROUP BY {key.upper().replace('_', ' ')}: list the columns")
        for node in [] if group is None else group.expressions:
            name = self.group_column(node, items).name
            if name in found:
                refuse_part(f"GROUP BY {shown(name)} twice")
            found[name] = None
        for node, alias in items:
            if type(node).__name__ == "Column":
                name = self.conditions.column(node).name
                if name not in found:
                    refuse_part(f"the column {shown(name)} outside of aggregates: add GROUP BY {shown(name)[1:-1]}")
                found[name] = alias
        return found

    def group_column(self, node: Any, items: list[tuple[Any, str | None]]) -> DataColumn:
        """A column of GROUP BY: by its name, by its place in the select list, or by its alias there."""
        kind = type(node).__name__
        if kind == "Literal" and not node.is_string:
            place = int(str(node.this)) if re.fullmatch(r"[0-9]{1,4}", str(node.this)) else 0
            if not 1 <= place <= len(items):
                refuse_part(f"GROUP BY {shown(str(node.this))}: the select list has {len(items):,} items")
            node = items[place - 1][0]
        elif kind == "Column" and self.conditions.known(node) is None:
            node = next((item for item, alias in items if alias is not None and alias == node.name), node)
        if type(node).__name__ != "Column":
            refuse_part("GROUP BY of something other than a column")
        return self.conditions.column(node)

    def aggregate(self, node: Any, alias: str | None, by: dict[str, str | None]) -> _Asked | None:
        """An aggregate of the select list; None for a column that groups go by."""
        kind = type(node).__name__
        if kind == "Column":
            assert self.conditions.column(node).name in by
            return None
        if kind == "Count":
            found = self.count(node)
        elif kind in _FUNCTIONS or kind in _OTHERS:
            called = _FUNCTIONS.get(kind) or _OTHERS[kind]
            column = self.alone(node, called)
            name = "variance" if kind in _OTHERS else called
            found = _Asked(f"{name}({quoted(column.name)})", f"{called}({column.name})", column)
        elif kind in _QUANTILES:
            found = self.quantile(node.this, node.args.get("quantile"))
        elif kind == "Anonymous" and str(node.this).lower() in _FURTHER and len(node.expressions) == 2:
            found = self.quantile(*node.expressions)
        elif kind == "WithinGroup":
            found = self.percentile(node)
        else:
            refuse_node(node)
        return found if alias is None else replace(found, label=alias)

    def count(self, node: Any) -> _Asked:
        """COUNT of *, of a number, or of a column, which leaves out missing cells."""
        inner = node.this
        kind = type(inner).__name__
        if node.expressions:
            refuse_part("COUNT of several columns: write count(*)")
        if kind == "Star" or (kind == "Literal" and not inner.is_string):
            return _Asked("count()", "count(*)", None)
        column = self.alone(node, "count")
        return _Asked("count()", f"count({column.name})", column, present=self.conditions.kept(column))

    def alone(self, node: Any, called: str) -> DataColumn:
        """The column that an aggregate is of; refuses expressions in its place, and further arguments."""
        inner = node.this
        kind = type(inner).__name__
        if kind in PARTS:
            refuse_node(inner)
        if kind != "Column":
            refuse_part(f"an expression in {called.upper()}: it takes a column")
        if node.expressions:
            refuse_part(f"{called.upper()} of several columns")
        return self.conditions.column(inner)

    def quantile(self, column: Any, order: Any) -> _Asked:
        if type(column).__name__ != "Column":
            refuse_part("an expression in a quantile: it takes a column")
        of = self.conditions.column(column)
        if type(order).__name__ != "Literal" or order.is_string or not NUMBER.fullmatch(str(order.this)):
            refuse_part("a quantile whose order is no number between 0 and 1")
        called = f"quantile({{}}, {order.this})"
        return _Asked(called.format(quoted(of.name)), called.format(of.name), of)

    def percentile(self, node: Any) -> _Asked:
        """percentile_cont(0.5) within group (order by age), and percentile_disc."""
        function, order = node.this, node.expression
        if type(function).__name__ not in ("PercentileCont", "PercentileDisc"):
            refuse_node(function)
        within = order.expressions
        if len(within) != 1:
            refuse_part("WITHIN GROUP of several columns")
        if within[0].args.get("desc"):
            refuse_part("WITHIN GROUP (ORDER BY ... DESC): take 1 minus the order of the quantile")
        return self.quantile(within[0].this, function.this)

    def present(self, asked: list[_Asked]) -> list[str]:
        """The condition of COUNT(column): it holds for the other aggregates too, which must be of the same column."""
        counted = [found for found in asked if found.present]
        if not counted:
            return []
        column = counted[0].column
        if column is None or any(found.column != column for found in asked):
            refuse_part("COUNT of a column beside aggregates of others: ask it in a SELECT of its own")
        return [f"{quoted(column.name)} is not missing"]


def _headings(by: dict[str, str | None]) -> tuple[str, ...]:
    """The names of the groups' columns in the answer; none if they are those of the schema."""
    found = tuple(alias or name for name, alias in by.items())
    if len(set(found)) < len(found):
        refuse_part("two columns of the same alias")
    return () if found == tuple(by) else found
