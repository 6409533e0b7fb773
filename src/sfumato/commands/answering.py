"""``sfumato ask``: questions about a table, answered with noise and charged to a ledger."""

import argparse
from typing import TYPE_CHECKING, Any

from sfumato.commands.parsing import account, add_account, command, finite, tell

if TYPE_CHECKING:
    from sfumato.budget import Quote
    from sfumato.session import Answer, Session

_LONGEST_FILE = 1 << 24  # bytes


def add_ask(commands: Any) -> None:
    """``sfumato ask``."""
    parser = command(
        commands,
        "ask",
        "Count the records for which something holds, with noise, and charge it to a ledger.",
        'sfumato ask people.csv --schema people.toml --ledger budget.db --epsilon 0.1 "age >= 40 and smoker"\n'
        "\n"
        "a question:\n"
        '  age >= 40 and smoker      20 <= age < 40      city in ("Bern", "Basel")      not smoker or age < 30\n'
        "  age between 20 and 30     `blood pressure` > 120 (a name with a space)      true (all records)",
        _ask,
    )
    parser.add_argument("data", help="CSV or Parquet file, or a folder of Parquet files")
    asked = parser.add_argument("query", nargs="+", default=[], help="what is to hold for a record")
    asked.required = False  # there may be a batch instead; with nargs="*" it could not stand after options
    parser.add_argument("--schema", required=True, help="schema file (TOML)")
    parser.add_argument("--epsilon", type=float, required=True, help="what each question may cost")
    parser.add_argument("--batch", metavar="FILE", help="more questions, one on each line (# begins a comment line)")
    parser.add_argument("--price", action="store_true", help="say what all questions would cost; nothing is read")
    parser.add_argument("--level", type=float, default=0.95, help="of the intervals, each by itself (default 0.95)")
    _add_promise(parser)
    add_account(parser)


def _add_promise(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--unit",
        choices=("record", "attribute"),
        default="record",
        help="what is protected (default record, which costs a count no more)",
    )
    parser.add_argument("--neighbours", choices=("replace", "add-remove"), help="default: those of the ledger's cap")
    parser.add_argument("--group", type=int, help="most rows one person owns (default: as the ledger's cap says)")


def _ask(options: Any) -> None:
    from sfumato import check
    from sfumato.errors import ParameterError
    from sfumato.schema import Schema
    from sfumato.session import Session

    queries = [*options.query, *([] if options.batch is None else _lines(options.batch))]
    if not queries:
        raise ParameterError('there is no question: write one, such as "age >= 40", or name a file of them (--batch)')
    if not 0 < options.level < 1:
        raise check.fail("level", options.level, "strictly between 0 and 1")
    if options.ledger is None:
        raise ParameterError("answers are charged to a budget: say which (--ledger)")
    session = Session(
        options.data,
        schema=Schema.read(options.schema),
        ledger=account(options),
        unit=options.unit,
        neighbours=options.neighbours,
        group=options.group,
    )
    if options.price:
        _quote(options, session.price(queries, epsilon=options.epsilon), len(queries))
    else:
        _answer(options, session, session.ask_all(queries, epsilon=options.epsilon))


def _lines(path: str) -> list[str]:
    """The questions in a file."""
    from pathlib import Path

    from sfumato.errors import ParameterError

    try:
        with Path(path).open("rb") as file:
            raw = file.read(_LONGEST_FILE + 1)
        lines = [] if len(raw) > _LONGEST_FILE else raw.decode().splitlines()
    except (OSError, UnicodeError):
        raise ParameterError(f"{path}: no such file of questions, or not one that can be read as UTF-8 text") from None
    if len(raw) > _LONGEST_FILE:
        raise ParameterError(f"{path}: a file of questions has at most {_LONGEST_FILE >> 20} MiB")
    found = [line for line in map(str.strip, lines) if line and not line.startswith("#")]
    if not found:
        raise ParameterError(f"{path}: there is no question in this file")
    return found


def _answer(options: Any, session: "Session", answers: "list[Answer]") -> None:
    facts = []
    for answer in answers:
        low, high = answer.estimate.interval(options.level)
        error = answer.estimate.standard_error
        facts.append(
            {"query": answer.query, "value": int(answer.value), "standard_error": error, "low": low, "high": high}
        )
    lines = [
        f"{' '.join(f['query'].split())}: {f['value']:,} +- {f['standard_error']:.3g} "
        f"({options.level:.0%}: {f['low']:,.0f} to {f['high']:,.0f})"
        for f in facts
    ]
    dataset, record, left = answers[0].dataset, answers[0].record, answers[0].remaining
    spent = [dataset.total(place).epsilon for place in range(len(dataset.caps))]
    told = "; ".join(f"{e:.4g} of {cap.describe()}" for e, cap in zip(spent, dataset.caps, strict=True))
    lines.append(f"{dataset.name}: spent {told}; remaining: one more pure release of epsilon up to {left:g}")
    budget = {"dataset": dataset.name, "spent": [finite(e) for e in spent], "remaining": left}
    promise = session.promise
    protects = {"unit": promise.unit, "neighbours": promise.neighbours, "group": promise.group}
    each = {"epsilon": options.epsilon, "level": options.level, **protects}
    tell(options, {"answers": facts, "each": each, "budget": budget, "record": record}, "\n".join(lines))


def _quote(options: Any, quotes: "list[Quote]", count: int) -> None:
    lines = [
        f"{count:,} question{'s' * (count > 1)} at epsilon {options.epsilon:g}{' each' * (count > 1)}; nothing was read"
    ]
    lines += [
        f"of {q.cap.describe()}:\n  spent {q.before.epsilon:.4g}; with these answers {q.after.epsilon:.4g} "
        f"({q.after.bound} composition{f', counted {q.times} times' if q.times > 1 else ''}): "
        f"{'they fit' if q.fits else 'THEY DO NOT FIT'}"
        for q in quotes
    ]
    facts = [
        {"cap": q.cap.describe(), "before": finite(q.before.epsilon), "after": finite(q.after.epsilon)}
        | {"bound": q.after.bound, "fits": q.fits, "times": q.times}
        for q in quotes
    ]
    tell(options, {"questions": count, "epsilon": options.epsilon, "quotes": facts}, "\n".join(lines))
