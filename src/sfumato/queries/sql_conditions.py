"""Conditions of SQL translated into those of our own language: where they are true, and where they are false.

A condition is true, false or unknown, as in SQL: NULL is a missing cell where the schema keeps them, or a value that it
does not list. Every condition is therefore translated twice, into where it is true and where it is false, and NOT
exchanges the two. In our language a comparison is false for missing cells, and what negates it is true.

Nodes are those of sqlglot's tree; branches go by the names of their classes.
"""

import re
from collections.abc import Callable
from typing import Any, NoReturn

from sfumato.errors import ParameterError
from sfumato.queries.parser import Names
from sfumato.queries.tokens import Token, shown
from sfumato.tables.columns import Category, DataColumn, Flag
from sfumato.tables.declared import keeps_missing
from sfumato.tables.schema import Schema

NUMBER = re.compile(r"[0-9]{1,40}(\.[0-9]{0,40})?([eE][+-]?[0-9]{1,4})?|\.[0-9]{1,40}")
_RELATIONS = {"EQ": "==", "NEQ": "!=", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
PARTS = {
    "Window": "OVER (windows): use GROUP BY",
    "Filter": "FILTER: use WHERE",
    "Distinct": "DISTINCT: distinct values cannot be counted",
    "Subquery": "a subquery",
    "Select": "a subquery",
    "Exists": "EXISTS (subqueries)",
    "Star": "* outside of count(*)",
    "Like": "LIKE: compare with whole values, or use IN",
    "ILike": "ILIKE: compare with whole values, or use IN",
    "Case": "CASE: use WHERE",
    "Cast": "CAST of a column",
    "Add": "+ (arithmetic)",
    "Sub": "- (arithmetic)",
    "Mul": "* (arithmetic)",
    "Div": "/ (arithmetic)",
    "Mod": "% (arithmetic)",
    "Literal": "a value where a condition or an aggregate should be",
    "Placeholder": "? (a parameter): write the value",
    "Parameter": "a parameter: write the value",
    "Stddev": "STDDEV: ask VAR_POP and take the root",
    "StddevPop": "STDDEV_POP: ask VAR_POP and take the root",
    "StddevSamp": "STDDEV_SAMP: ask VAR_POP and take the root",
}


def refuse_part(part: str) -> NoReturn:
    """The error that refuses a part of SQL, which it names."""
    raise ParameterError(f"SQL: sfumato cannot answer {part}")


def refuse_node(node: Any) -> NoReturn:
    """Refuse a part of a SQL tree by its name."""
    if type(node).__name__ == "Anonymous":
        refuse_part(f"the function {shown(str(node.this).upper())}")
    refuse_part(_in_words(node))


def _in_words(node: Any) -> str:
    """A part of a SQL tree by the name that SQL has for it."""
    kind = type(node).__name__
    named = getattr(node, "sql_name", None)
    return PARTS.get(kind) or (str(named()) if named is not None else kind.upper())


def bare(node: Any) -> Any:
    """A part of a SQL tree without the parentheses around it."""
    while type(node).__name__ == "Paren":
        node = node.this
    return node


def quoted(name: str) -> str:
    """A column's name as our language writes it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


class SqlConditions:
    """Columns, values and conditions of a SELECT from a table that has these names, about a schema's columns."""

    def __init__(self, schema: Schema, tables: set[str]) -> None:
        self.names, self.tables = Names(schema), tables

    def known(self, node: Any) -> str | None:
        """The name of the schema's column that a name in SQL means: the same letters, or the only one but for case."""
        name = str(node.name)
        if name in self.names.columns:
            return name
        exact = bool(node.this.args.get("quoted"))
        alike = [] if exact else [known for known in self.names.columns if known.casefold() == name.casefold()]
        if len(alike) > 1:
            refuse_part(
                f"the column {shown(name)}: {', '.join(map(shown, alike))} differ by case only, so quote the name"
            )
        return alike[0] if alike else None

    def column(self, node: Any) -> DataColumn:
        """The column of the schema that a name in SQL means."""
        node = bare(node)
        if type(node).__name__ != "Column" or type(node.this).__name__ != "Identifier":
            refuse_node(node if type(node).__name__ != "Column" else node.this)
        qualifier = str(node.table)
        if node.args.get("db") or (qualifier and qualifier.casefold() not in self.tables):
            refuse_part(f"a column of another table, {shown(qualifier)}")
        name = self.known(node)
        hint = "; texts stand in single quotes" if name is None and node.this.args.get("quoted") else ""
        try:
            return self.names.column(Token("name", name or str(node.name), 1))
        except ParameterError as error:
            raise ParameterError(f"SQL: {str(error).partition(': ')[2]}{hint}") from None

    def value(self, node: Any, column: DataColumn) -> str:
        """A value that a column is compared with, as our language writes it."""
        node = bare(node)
        kind = type(node).__name__
        if kind == "Boolean":
            return "true" if node.this else "false"
        if kind in ("Cast", "TsOrDsToDate", "Date", "Timestamp") and not node.args.get("format"):
            return self.date(node)
        if kind == "Null":
            refuse_part("a comparison with NULL, which is never true: write IS NULL")
        if kind == "Literal" and node.is_string:
            return '"' + str(node.this).replace('"', '""') + '"'
        if kind in ("Literal", "Neg"):
            return self.number(node, column)
        if kind == "Column" and node.this.args.get("quoted") and self.known(node) is None:
            self.column(node)  # refuses it, and says how texts are quoted
        refuse_part("a comparison of two columns" if kind == "Column" else f"a comparison with {_in_words(node)}")

    def number(self, node: Any, column: DataColumn) -> str:
        """A number that a column is compared with; 0 and 1 for flags."""
        sign, inner = ("-", node.this) if type(node).__name__ == "Neg" else ("", node)
        number = str(inner.this)
        if type(inner).__name__ != "Literal" or inner.is_string or not NUMBER.fullmatch(number):
            refuse_part("a comparison with something other than a value")
        if isinstance(column, Flag) and not sign and number in ("0", "1"):
            return "true" if number == "1" else "false"
        return sign + number

    def date(self, node: Any) -> str:
        """DATE '2020-01-01' and the like."""
        inner, to = node.this, node.args.get("to")
        kind = "DATE" if to is None else str(getattr(to.this, "name", to.this))
        if type(inner).__name__ != "Literal" or not inner.is_string or not kind.startswith(("DATE", "TIMESTAMP")):
            refuse_part("CAST: only texts may be cast, to a date or a timestamp")
        return '"' + str(inner.this).replace('"', '""') + '"'

    def kept(self, column: DataColumn) -> bool:
        """Whether cells of a column can be NULL."""
        return keeps_missing(column) or (isinstance(column, Category) and column.missing is None)

    def true(self, node: Any) -> str:
        """Where a condition is true."""
        return self.either(node, holds=True)

    def either(self, node: Any, *, holds: bool) -> str:
        """Where a condition is true, or where it is false, which leaves out where it is unknown."""
        kind = type(node).__name__
        if kind == "Paren":
            return self.either(node.this, holds=holds)
        if kind == "Not":
            return self.either(node.this, holds=not holds)
        if kind in ("And", "Or"):
            word = "and" if (kind == "And") == holds else "or"
            parts = [self.either(part, holds=holds) for part in node.flatten()]
            return "(" + f" {word} ".join(parts) + ")"
        if kind == "Boolean":
            return "true" if bool(node.this) == holds else "false"
        if kind == "Column":
            column = self.column(node)
            return quoted(column.name) if holds else f"{quoted(column.name)} == false"
        return self.compared(node, kind, holds)

    def compared(self, node: Any, kind: str, holds: bool) -> str:
        """A comparison of any form."""
        if kind in _RELATIONS:
            return self.relation(node, _RELATIONS[kind], holds)
        rules: dict[str, Callable[[Any, bool], str]] = {"In": self.listed, "Between": self.between, "Is": self.is_}
        if kind not in rules:
            refuse_node(node)
        return rules[kind](node, holds)

    def relation(self, node: Any, relation: str, holds: bool) -> str:
        """A comparison of a column with a value, on either side."""
        left, right = bare(node.this), bare(node.expression)
        if type(left).__name__ != "Column" and type(right).__name__ == "Column":
            left, right, relation = right, left, _MIRRORED.get(relation, relation)
        if type(left).__name__ != "Column":
            refuse_part("a comparison without a column" if type(left).__name__ == "Literal" else _in_words(left))
        column = self.column(left)
        wanted = relation if holds else _OPPOSITE[relation]
        return self.known_cells(column, f"{quoted(column.name)} {wanted} {self.value(right, column)}", wanted == "!=")

    def known_cells(self, column: DataColumn, condition: str, negative: bool) -> str:
        """A condition without missing cells, for which a negative one holds in our language, and not in SQL."""
        if not negative or not self.kept(column):
            return condition
        return f"({condition} and {quoted(column.name)} is not missing)"

    def listed(self, node: Any, holds: bool) -> str:
        """IN with a list of values."""
        if any(node.args.get(other) for other in ("query", "unnest", "field")):
            refuse_part("IN with a subquery: list the values")
        column = self.column(node.this)
        values = ", ".join(self.value(value, column) for value in node.expressions)
        word = "in" if holds else "not in"
        return self.known_cells(column, f"{quoted(column.name)} {word} ({values})", not holds)

    def between(self, node: Any, holds: bool) -> str:
        """BETWEEN, with both ends included."""
        if node.args.get("symmetric"):
            refuse_part("BETWEEN SYMMETRIC")
        column = self.column(node.this)
        low, high = self.value(node.args["low"], column), self.value(node.args["high"], column)
        word = "between" if holds else "not between"
        return self.known_cells(column, f"{quoted(column.name)} {word} {low} and {high}", not holds)

    def is_(self, node: Any, holds: bool) -> str:
        """IS NULL, IS TRUE, IS FALSE: never unknown."""
        column, kind = self.column(node.this), type(node.expression).__name__
        if kind == "Null":
            return f"{quoted(column.name)} is {'' if holds else 'not '}missing"
        if kind != "Boolean":
            refuse_part("IS with something other than NULL, TRUE or FALSE")
        said = f"{quoted(column.name)} == {'true' if node.expression.this else 'false'}"
        return said if holds else f"not {said}"
