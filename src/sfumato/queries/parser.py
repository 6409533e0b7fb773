"""Questions read from a text, and checked against a schema.

    age >= 40 and smoker            20 <= age < 40           city in ("Bern", "Basel")
    not smoker or age < 30          age between 20 and 30    `blood pressure` > 120
    joined >= 2020-01-01            age is missing           basket contains "milk"

``parse`` reads such a text with a tokenizer and a parser of its own: nothing of it is ever executed. Names, types and
values are checked against the schema there and then, so that a text which is no question is refused before anything is
read or charged. How long, how deep and how manifold a question may be is bounded.
"""

import difflib
import functools
import math
import unicodedata
from collections.abc import Callable, Sequence
from typing import NoReturn

from sfumato.errors import ParameterError
from sfumato.queries.predicates import RELATIONS, Among, Compared, Joined, Missing, Node, Not, Predicate, Raised
from sfumato.queries.tokens import Token, refuse, shown, tokens
from sfumato.tables import dates
from sfumato.tables.columns import Category, DataColumn, Date, Flag, Id, Integer, Listed, Ordinal, Real, Set, Vector
from sfumato.tables.declared import keeps_missing
from sfumato.tables.lists import bucket
from sfumato.tables.schema import Schema

LONGEST, MOST, DEEPEST = 10_000, 500, 50  # characters, comparisons, parentheses and nots within each other
_LONGEST_NUMBER = 40
_COMPARED = 80  # so many characters of a name are compared with others
_NEAREST = 1000  # and so many others
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def parse(text: str, schema: Schema) -> Predicate:
    """The question that a text asks about the records of a schema.

    Raises ParameterError, in one line that repeats no more than a few characters, for anything else.
    """
    if not isinstance(text, str):
        raise ParameterError(f"a query is a text such as 'age >= 40', got an object of type {type(text).__name__}")
    if len(text) > LONGEST:
        raise ParameterError(f"a query has at most {LONGEST:,} characters, got {len(text):,}: ask several")
    if not text.strip():
        raise ParameterError("the query is empty: ask something such as 'age >= 40', or 'true' for all records")
    return Predicate(text.strip(), QueryParser(tokens(text), schema).whole())


class QueryParser:
    """Recursive descent, as deep as DEEPEST allows; each rule is a method."""

    def __init__(self, found: list[Token], schema: Schema) -> None:
        self.tokens, self.names, self.place, self.comparisons = found, Names(schema), 0, 0

    @property
    def next(self) -> Token:
        """The token that comes next in the query."""
        return self.tokens[self.place]

    def whole(self) -> Node:
        """A condition that is the whole query."""
        found = self.either(0)
        if self.next.kind != "end":
            self.unexpected("and, or, or the end of the query")
        return found

    def either(self, depth: int) -> Node:
        """Conditions of which any holds, in a query."""
        return self.joined("or", lambda: self.joined("and", lambda: self.one(depth)))

    def joined(self, word: str, rule: Callable[[], Node]) -> Node:
        """Parts of a query that a word joins."""
        parts = [rule()]
        while self.take(word):
            parts.append(rule())
        return parts[0] if len(parts) == 1 else Joined(word == "and", tuple(parts))

    def one(self, depth: int) -> Node:
        """One condition of a query: negated, in parentheses, or a comparison."""
        if depth > DEEPEST:
            refuse(self.next.at, f"parentheses and nots lie at most {DEEPEST} deep in each other")
        if self.take("not"):
            return Not(self.one(depth + 1))
        if self.take("("):
            found = self.either(depth + 1)
            self.expect(")")
            return found
        return self.comparison()

    def comparison(self) -> Node:
        """A comparison in a query, of any form."""
        first = self.operand()
        after = self.tokens[min(self.place + 1, len(self.tokens) - 1)]
        negated = self.next.says("not") and (after.says("in") or after.says("between") or after.reads("contains"))
        self.place += negated
        if self.take("in"):
            found = self.listed(self.names.column(first))
        elif self.take("between"):
            found = self.between(self.names.column(first))
        elif self.next.reads("contains"):
            found = self.contains(self.names.column(first))
        elif self.next.reads("is"):
            return self.missing(self.names.column(first))
        elif self.next.kind == "sign" and self.next.text in RELATIONS:
            return self.chain(first)
        else:
            return self.alone(first)
        return Not(found) if negated else found

    def listed(self, column: DataColumn) -> Node:
        """``column in (...)`` in a query."""
        self.expect("(")
        parts = [self.leaf(column, "==", self.operand())]
        while self.take(","):
            parts.append(self.leaf(column, "==", self.operand()))
        self.expect(")")
        if isinstance(column, Category):
            return Among(column, tuple(sorted({place for part in parts for place in _places(part)})))
        return Joined(False, tuple(parts))

    def contains(self, column: DataColumn) -> Node:
        """``set contains item`` in a query."""
        at, self.place = self.next.at, self.place + 1
        if not isinstance(column, Set):
            refuse(at, f"the column {shown(column.name)} is {_KIND[column.kind]}, which contains nothing: use ==")
        return self.leaf(column, "contains", self.operand())

    def missing(self, column: DataColumn) -> Node:
        """``column is missing`` in a query."""
        at, self.place = self.next.at, self.place + 1
        negated = self.take("not")
        if not self.next.reads("missing"):
            self.unexpected("'missing'")
        self.place += 1
        kept = keeps_missing(column) or (isinstance(column, Category) and column.missing is None)
        if not kept:
            refuse(at, f'the schema keeps no missing cells of {shown(column.name)}: missing = "level" would keep them')
        self.count(at)
        return Not(Missing(column)) if negated else Missing(column)

    def between(self, column: DataColumn) -> Node:
        """``column between a and b`` in a query."""
        low = self.leaf(column, ">=", self.operand())
        if not self.take("and"):
            self.unexpected("the and of between ... and ...")
        return Joined(True, (low, self.leaf(column, "<=", self.operand())))

    def chain(self, first: Token) -> Node:
        """A chain of comparisons in a query: ``20 <= age < 40``."""
        operands, relations = [first], []
        while self.next.kind == "sign" and self.next.text in RELATIONS:
            relations.append(self.next.text)
            self.place += 1
            operands.append(self.operand())
        operands = self.names.singled_out(operands)
        parts = []
        for left, relation, right in zip(operands, relations, operands[1:], strict=False):
            if (left.kind == "name") == (right.kind == "name"):
                for name in (o for o in (left, right) if o.kind == "name"):
                    self.names.column(name)
                refuse(right.at, "a comparison has a column on one side and a value on the other")
            if left.kind == "name":
                parts.append(self.leaf(self.names.column(left), relation, right))
            else:
                parts.append(self.leaf(self.names.column(right), _MIRRORED.get(relation, relation), left))
        return parts[0] if len(parts) == 1 else Joined(True, tuple(parts))

    def alone(self, operand: Token) -> Node:
        """An operand that stands alone in a query: a flag, true or false."""
        if operand.kind == "word":
            return operand.text == "true"
        if operand.kind in ("number", "date"):
            self.unexpected("a comparison")
        column = self.names.column(operand)
        if not isinstance(column, Flag):
            refuse(
                operand.at, f"the column {shown(column.name)} is {_KIND[column.kind]}: {_HOW.get(column.kind, _OTHER)}"
            )
        return self.leaf(column, "==", Token("word", "true", operand.at))

    def operand(self) -> Token:
        """A column or a value in a query, with its sign."""
        token, sign = self.next, ""
        if token.says("-") or token.says("+"):
            sign, self.place = token.text.replace("+", ""), self.place + 1
            if self.next.kind != "number":
                self.unexpected("a number after its sign")
        found = self.next
        if found.kind not in ("name", "text", "number", "date") and not (found.says("true") or found.says("false")):
            self.unexpected("a column or a value")
        self.place += 1
        return Token(found.kind, sign + found.text, found.at)

    def leaf(self, column: DataColumn, relation: str, value: Token) -> Node:
        """A comparison of a query, counted and checked."""
        self.count(value.at)
        return _leaf(column, relation, value)

    def count(self, at: int) -> None:
        """Count one comparison more; refuse a query that has too many."""
        self.comparisons += 1
        if self.comparisons > MOST:
            refuse(at, f"a query has at most {MOST} comparisons: ask several")

    def take(self, text: str) -> bool:
        """Whether the next token of the query is this word or sign, which is then passed."""
        taken = self.next.says(text)
        self.place += taken
        return taken

    def expect(self, text: str) -> None:
        """Pass this word or sign, or refuse the query."""
        if not self.take(text):
            self.unexpected(repr(text))

    def unexpected(self, wanted: str) -> NoReturn:
        """Refuse a query for what stands at this place."""
        came = "the query ends" if self.next.kind == "end" else f"{shown(self.next.text)} stands"
        refuse(self.next.at, f"{came} where {wanted} should be")


_KIND = {
    "real": "a number",
    "integer": "a whole number",
    "flag": "true or false",
    "ordinal": "an ordinal",
    "category": "a category",
    "date": "a date",
    "datetime": "a date with a time",
    "set": "a set",
}
_HOW, _OTHER = {"set": "ask whether it contains something"}, "compare it with something"
_COMPARED_WITH = {
    "real": ("number",),
    "integer": ("number",),
    "flag": ("word",),
    "ordinal": ("text", "number"),
    "category": ("text", "number"),
    "date": ("date", "text"),
    "datetime": ("date", "text"),
    "set": ("text", "number"),
}


class Names:
    """The columns of a schema by name."""

    def __init__(self, schema: Schema) -> None:
        self.columns = {column.name: column for column in schema.columns}

    def column(self, token: Token) -> DataColumn:
        """The column that a name in the query, or a quoted text in its place, stands for."""
        if token.kind not in ("name", "text"):
            refuse(token.at, f"{shown(token.text)} stands where a column should be")
        found = self.columns.get(token.text)
        if found is None:
            refuse(token.at, f"the schema has no column {shown(token.text)}{_near(token.text, list(self.columns))}")
        if isinstance(found, Id):
            refuse(token.at, f"the column {shown(found.name)} is the id of the rows, which cannot be asked about")
        if isinstance(found, Vector):
            refuse(
                token.at,
                f"the column {shown(found.name)} is a vector, which cannot be asked about: declare those of its "
                "numbers that you ask about as columns of their own",
            )
        return found

    def singled_out(self, operands: list[Token]) -> list[Token]:
        """Operands of a chain with its quoted column, if it has no other, as a name: the one text that is a column."""
        texts = [o for o in operands if o.kind == "text"]
        if any(o.kind == "name" for o in operands) or not texts:
            return operands
        known = [o for o in texts if o.text in self.columns] or texts[:1]
        if len(known) > 1:
            refuse(known[1].at, "two quoted texts are both names of columns: put the one that is meant in backticks")
        return [Token("name", o.text, o.at) if o is known[0] else o for o in operands]


def _near(name: str, known: Sequence[str]) -> str:
    """Hint for an unknown name in a query text: which known ones may have been meant."""
    plain = unicodedata.normalize("NFKC", name[:_COMPARED]).casefold()
    folded: dict[str, str] = {k[:_COMPARED].casefold(): k for k in known}
    others = [plain] if plain in folded else list(folded)
    if len(others) > _NEAREST:  # of so many, those that begin alike
        others = [other for other in others if other[:1] == plain[:1]][:_NEAREST]
    found = [folded[match] for match in difflib.get_close_matches(plain, others, 3)]
    listed = ", ".join(map(shown, found or known[:5])) + (", ..." if not found and len(known) > 5 else "")
    return f"; near it: {listed}" if found else f"; there are {listed}"


def _leaf(column: DataColumn, relation: str, value: Token) -> Node:
    """A comparison parsed from a query, checked that the types of column, relation and value agree."""
    if value.kind not in _COMPARED_WITH[column.kind]:
        what = {"word": "a truth", "name": "a column"}.get(value.kind, f"a {value.kind}")
        refuse(value.at, f"the column {shown(column.name)} is {_KIND[column.kind]}, which is not compared with {what}")
    if isinstance(column, Real | Integer):
        return Compared(column, relation, _number(value))
    if isinstance(column, Date):
        return Compared(column, relation, _steps(column, value))
    if isinstance(column, Ordinal):
        return Compared(column, relation, float(_place(column, value)))
    assert isinstance(column, Flag | Category | Set)
    wanted = ("contains",) if isinstance(column, Set) else ("==", "!=")
    if relation not in wanted:
        why = "which is not equal to an item" if isinstance(column, Set) else "which has no order"
        refuse(value.at, f"the column {shown(column.name)} is {_KIND[column.kind]}, {why}: use {' or '.join(wanted)}")
    leaf = Raised(column, value.text == "true") if isinstance(column, Flag) else Among(column, (_place(column, value),))
    return Not(leaf) if relation == "!=" else leaf


def _place(column: Listed, value: Token) -> int:
    """The place among a column's values of one in a query; of an item that is hashed, its bucket."""
    if isinstance(column, Set) and column.buckets is not None:
        return bucket(value.text.encode(), column.buckets)
    places = _listed(column)
    if value.text not in places:
        near = _near(value.text, list(places))
        refuse(value.at, f"the column {shown(column.name)} has no value {shown(value.text)}{near}")
    return places[value.text]


def _steps(column: Date, value: Token) -> float:
    """A date in a query as steps since the low bound of its column."""
    found = dates.written(value.text, column)
    if found is None:
        wanted = "a date such as 2020-12-31" + (
            "" if column.kind == "date" else ", or with a time: 2020-12-31T10:30:00"
        )
        refuse(value.at, f"the column {shown(column.name)} is compared with {wanted}, got {shown(value.text)}")
    return found


@functools.lru_cache(maxsize=64)
def _listed(column: Listed) -> dict[str, int]:
    """The listed values of a column by their texts, to parse a value of a query: their places."""
    return {str(listed): place for place, listed in enumerate(column.values or ())}


def _places(node: Node) -> tuple[int, ...]:
    assert isinstance(node, Among)
    return node.places


def _number(token: Token) -> float:
    if len(token.text) > _LONGEST_NUMBER:
        refuse(token.at, f"a number has at most {_LONGEST_NUMBER} characters, got {len(token.text):,}")
    number = float(token.text)
    if not math.isfinite(number):
        refuse(token.at, f"the number {token.text} is beyond what a double holds")
    return number
