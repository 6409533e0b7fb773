"""Small wrong changes of a source text: one operator, comparison, constant, clip, rounding or guard at a time.

A mutant replaces one node of the syntax tree, at its place in the text. Documentation, annotations, decorators, texts,
what errors say and how values are shown are left alone.
"""

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
}
_COMPARISON: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_PAIRS = (("min", "max"), ("minimum", "maximum"), ("fmin", "fmax"), ("floor", "ceil"), ("rounded_up", "rounded_down"))
_OTHER = {a: b for pair in _PAIRS for a, b in (pair, pair[::-1])}
_METHODS = {"upper": "lower", "lower": "upper"}  # of balls
_CLIPS = {"min", "max", "minimum", "maximum", "fmin", "fmax"}  # of two numbers
_DROPPED = {"clip", "abs", "ceil", "nextafter", "nonnegative_part", "up", "_up", "down", "_down"}
_UNTOUCHED = {"__repr__", "__str__"}
_MESSAGES = {"warn", "fail", "isinstance", "cast", "TypeVar"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one file of the package."""

    file: str
    function: str
    """Where it is: the function's qualified name, or the class's; empty at the top of the module."""
    line: str
    """The text of its line, without white space around."""
    change: str
    kind: str
    static: bool
    """Whether it runs when the module is imported, outside functions."""
    turn: int
    """0, or its number among those that are alike in all of these."""
    first: int
    last: int
    start: int
    end: int
    new: str

    @property
    def key(self) -> str:
        """What names it as long as its line and its function's name stay."""
        return "\n".join((self.file, self.function, self.line, self.change, str(self.turn)))

    def apply(self, text: str) -> str:
        """The file's text with the change made."""
        raw = text.encode()
        return (raw[: self.start] + self.new.encode() + raw[self.end :]).decode()


def mutants_of(file: str, text: str) -> list[Mutant]:
    """Every mutant of a file."""
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    lines, seen, made = text.splitlines(), Counter[tuple[str, ...]](), []
    for function, static, kind, old, new in _changes(ast.parse(text), "", True):
        line, change = lines[old.lineno - 1].strip(), f"{_short(old)} => {_short(new)}"
        turn = seen[function, line, change]
        seen[function, line, change] += 1
        start, end = starts[old.lineno - 1] + old.col_offset, starts[old.end_lineno - 1] + old.end_col_offset
        written = ast.unparse(new) if isinstance(new, ast.stmt) else f"({ast.unparse(new)})"
        span = (old.lineno, old.end_lineno, start, end)
        made.append(Mutant(file, function, line, change, kind, static, turn, *span, written))
    return made


def _short(node: ast.AST) -> str:
    """A node's text, without what an error says."""
    if isinstance(node, ast.Raise):
        return "raise"
    return ast.unparse(node)


def _changes(node: ast.AST, function: str, static: bool) -> Iterator[tuple[str, bool, str, ast.AST, ast.AST]]:
    """The changes of a node and of everything in it: where, of what kind, the node, and what it becomes."""
    for kind, new in _changed(node):
        yield function, static, kind, node, new
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        function = f"{function}.{node.name}" if function else node.name
        static = static and isinstance(node, ast.ClassDef)
    for child in _children(node):
        yield from _changes(child, function, static)


def _left_alone(node: ast.AST) -> bool:
    """Whether nothing is changed inside: texts, types, what errors say, how values are shown."""
    match node:
        case ast.Raise() | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return True
        case ast.FunctionDef(name=name):
            return name in _UNTOUCHED
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name.startswith("__") or _is_type(node.value)
        case ast.AnnAssign(annotation=ast.Name(id=name)):
            return name == "TypeAlias"
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in _MESSAGES
    return False


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node in which something is changed."""
    if _left_alone(node):
        return
    left_out = {"annotation", "returns", "decorator_list", "type_comment"}
    if isinstance(node, ast.BinOp) and _is_float_power(node):
        left_out = {"left"}
    for name, value in ast.iter_fields(node):
        if name not in left_out:
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield child


def _is_float_power(node: ast.BinOp) -> bool:
    return isinstance(node.op, ast.Pow) and isinstance(node.left, ast.Constant) and isinstance(node.left.value, float)


def _is_type(node: ast.expr) -> bool:
    """Whether this names a type: a subscript or a union of names that begin with a capital letter."""
    match node:
        case ast.BinOp(op=ast.BitOr()):
            return _is_type(node.left) and _is_type(node.right)
        case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name[:1].isupper()
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name[:1].isupper() and not name.isupper()
    return False


def _with(node: ast.AST, **fields: object) -> ast.AST:
    made = copy.copy(node)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def _changed(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """What a node may become, without regard to what is in it."""
    match node:
        case ast.BinOp() | ast.AugAssign():
            yield from _operators(node)
        case ast.Compare() | ast.BoolOp() | ast.UnaryOp():
            yield from _logic(node)
        case ast.Constant():
            yield from (("constant", value) for value in _constants(node.value))
        case ast.Call():
            yield from _calls(node)
        case ast.Raise():
            yield "guard", ast.Pass()
        case ast.Expr(value=ast.Call(func=ast.Name() | ast.Attribute() as called)) if _checks(called):
            yield "guard", ast.Pass()


def _operators(node: ast.BinOp | ast.AugAssign) -> Iterator[tuple[str, ast.AST]]:
    texts = isinstance(node, ast.BinOp) and (_is_text(node.left) or _is_text(node.right))
    if type(node.op) in _ARITHMETIC and not texts:
        yield "arithmetic", _with(node, op=_ARITHMETIC[type(node.op)]())
    if isinstance(node, ast.BinOp) and _is_float_power(node):  # negated, it would be the same for even powers
        yield "constant", _with(node, left=ast.Constant(2 * node.left.value))


def _logic(node: ast.Compare | ast.BoolOp | ast.UnaryOp) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Compare():
            for i, op in enumerate(node.ops):
                yield "comparison", _with(node, ops=[*node.ops[:i], _COMPARISON[type(op)](), *node.ops[i + 1 :]])
        case ast.BoolOp():
            yield "logic", _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not() | ast.Invert()):
            yield "logic", node.operand
        case ast.UnaryOp(op=ast.USub()):
            yield "arithmetic", node.operand


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr | ast.List | ast.Tuple) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )


def _checks(called: ast.expr) -> bool:
    """Whether a call is a guard: ``check.positive(...)``, ``self._check(...)``."""
    names = [called.attr, getattr(called.value, "id", "")] if isinstance(called, ast.Attribute) else [called.id]
    return any(name.lstrip("_").startswith("check") for name in names)


def _constants(value: object) -> Iterator[ast.AST]:
    match value:
        case bool():
            yield ast.Constant(not value)
        case int():
            yield from (ast.Constant(value + 1), ast.Constant(value - 1))
        case float():
            yield from (ast.Constant(2 * value), ast.Constant(-value)) if value else (ast.Constant(1.0),)


def _calls(node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    """Minimum for maximum, the other direction of rounding, and a clip or an absolute value that is left out."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if isinstance(node.func, ast.Attribute) and name in _OTHER | _METHODS:
        yield "direction", _with(node, func=_with(node.func, attr=(_OTHER | _METHODS)[name]))
    elif name in _OTHER:
        yield "direction", _with(node, func=_with(node.func, id=_OTHER[name]))
    if name in _CLIPS and len(node.args) == 2 and not any(isinstance(a, ast.Starred) for a in node.args):
        yield from (("clip", argument) for argument in node.args)
    elif name in _DROPPED and (node.args or isinstance(node.func, ast.Attribute)):
        yield "clip", node.args[0] if node.args else node.func.value
    if name == "nextafter" and len(node.args) == 2:
        yield "direction", _with(node, args=[node.args[0], ast.UnaryOp(ast.USub(), node.args[1])])
