"""``sfumato ask``: questions about a table, answered with noise and charged to a ledger."""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sfumato import untrusted
from sfumato.commands.options import (
    account,
    add_account,
    add_level,
    add_neighbours,
    add_table,
    command,
    finite,
    schema_of,
    table,
    tell,
)
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from sfumato.fileformat.manifest import Facts
    from sfumato.ledger.state import Quote
    from sfumato.pipeline.open_session import Answer, Opened
    from sfumato.pipeline.session import Session
    from sfumato.queries.histogram import SyntheticHistogram

_LONGEST_FILE = 1 << 24  # bytes

Write = Callable[["SyntheticHistogram | None"], None]


def add_ask(commands: Any) -> None:
    """``sfumato ask``: its options."""
    parser = command(
        commands,
        "ask",
        "Count the records that satisfy a condition, with noise. Each answer is charged to a ledger.",
        'sfumato ask people.csv --schema people.toml --ledger budget.db --epsilon 0.1 "age >= 40 and smoker"\n'
        "\n"
        "conditions:\n"
        "  age >= 40 and smoker           20 <= age < 40\n"
        '  city in ("Bern", "Basel")      not smoker or age < 30\n'
        "  age between 20 and 30          `blood pressure` > 120 (a name with a space)\n"
        "  true (all records)",
        _ask,
    )
    parser.set_defaults(stands="the questions were charged", prints=True)
    add_table(parser)
    asked = parser.add_argument("query", nargs="+", default=[], metavar="QUESTION", help="Condition on a record.")
    asked.required = False  # there may be a batch instead; with nargs="*" it could not stand after options
    parser.add_argument("--batch", metavar="FILE", help="File of more questions, one per line (# starts a comment).")
    parser.add_argument("--price", action="store_true", help="Show what the questions would cost. Reads no data.")
    add_level(parser, "each interval")
    _add_method(parser)
    _add_guarantee(parser)
    add_account(parser, "required")


def _add_method(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--method",
        choices=("laplace", "weights", "median", "mwem"),
        default="laplace",
        help="Laplace noise on each count, or a mechanism that measures a few questions and predicts the others: "
        "private multiplicative weights, the median mechanism, or MWEM (default laplace).",
    )
    parser.add_argument(
        "--updates", type=int, metavar="N", help="Maximum number of questions measured (not for laplace)."
    )
    parser.add_argument("--histogram", metavar="FILE", help="Parquet file for the histogram (weights and mwem only).")


def _add_guarantee(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("privacy guarantee")
    group.add_argument(
        "--epsilon",
        type=float,
        required=True,
        metavar="EPSILON",
        help="Privacy loss of each question. For methods other than laplace: of all questions together.",
    )
    group.add_argument(
        "--delta", type=float, default=0.0, metavar="DELTA", help="Delta of methods other than laplace (default 0)."
    )
    group.add_argument(
        "--unit",
        choices=("record", "attribute"),
        default="record",
        help="What is protected: one record, or one value of a record (default record, at the same cost).",
    )
    add_neighbours(group, None, "default: as in the cap")
    group.add_argument("--group", type=int, metavar="N", help="Maximum records per person (default: as in the cap).")


def _ask(options: Any) -> None:
    from sfumato import check
    from sfumato.pipeline.session import Session

    options.stands = None if options.price else options.stands
    queries = [*options.query, *([] if options.batch is None else _lines(options.batch))]
    if not queries:
        raise ParameterError('no question: write one, such as "age >= 40", or name a file of questions with --batch')
    if not 0 < options.level < 1:
        raise check.fail("level", options.level, "strictly between 0 and 1")
    if options.ledger is None:
        raise ParameterError("answers are charged to a budget: name its ledger with --ledger")
    session = Session(
        table(options),
        schema=schema_of(options),
        ledger=account(options),
        unit=options.unit,
        neighbours=options.neighbours,
        group=options.group,
    )
    if options.method != "laplace":
        _whole(options, session, queries)
    elif options.updates is not None or options.histogram is not None or options.delta:
        raise ParameterError("--updates, --delta and --histogram need --method weights, median or mwem")
    elif options.price:
        _quote(options, session.price(queries, epsilon=options.epsilon), len(queries))
    else:
        _answer(options, session, session.ask_all(queries, epsilon=options.epsilon))


def _lines(path: str) -> list[str]:
    """The questions to ask, from a file."""
    from pathlib import Path

    try:
        with Path(path).open("rb") as file:
            raw = file.read(_LONGEST_FILE + 1)
        lines = [] if len(raw) > _LONGEST_FILE else raw.decode().splitlines()
    except (OSError, UnicodeError):
        raise ParameterError(f"{path}: there is no such file of questions, or it is not UTF-8 text") from None
    if len(raw) > _LONGEST_FILE:
        raise ParameterError(f"{path}: a file of questions may have at most {_LONGEST_FILE >> 20} MiB")
    found = [line for line in map(str.strip, lines) if line and not line.startswith("#")]
    if not found:
        raise ParameterError(f"{path}: the file has no questions")
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
    _tell(options, session, facts, lines, answers[0].record)


def _tell(
    options: Any, session: "Session", facts: list[dict[str, Any]], lines: list[str], record: dict[str, Any] | None
) -> None:
    """Print the answers to what was asked, then the budget as the ledger states it."""
    dataset = session.account.dataset
    spent = [dataset.total(place).epsilon for place in range(len(dataset.caps))]
    left = dataset.remaining_under_every_cap()
    told = "; ".join(f"{e:.4g} of {cap.describe()}" for e, cap in zip(spent, dataset.caps, strict=True))
    line = f"{dataset.name}: spent {told}. Left: epsilon {left:g} (pure)."
    budget = {"dataset": dataset.name, "spent": [finite(e) for e in spent], "remaining": left}
    promise = session.promise
    protects = {"unit": promise.unit, "neighbours": promise.neighbours, "group": promise.group}
    terms = {"method": options.method, "epsilon": options.epsilon, "level": options.level, **protects}
    text = "\n".join(map(untrusted.line, [*lines, line]))
    tell(options, {"answers": facts, "terms": terms, "budget": budget, "record": record}, text)


def _whole(options: Any, session: "Session", queries: list[str]) -> None:
    """Ask all questions of a mechanism that is charged at once."""
    if options.method == "median" and options.histogram is not None:
        raise ParameterError("--histogram needs --method weights or mwem: the median mechanism has no histogram")
    _check_free(options.histogram)
    terms = {"epsilon": options.epsilon, "delta": options.delta, "updates": options.updates}
    if options.price:
        _quote(options, session.price_whole(options.method, queries, **terms), len(queries))
        return
    with _new_file(options.histogram) as write:
        if options.method == "mwem":
            made, record = session.synthesise(queries, **terms)
            _tell_synthetic(options, session, record)
            write(made)
        else:
            _open(options, session, queries, session.open(options.method, queries=queries, **terms), write)


def _tell_synthetic(options: Any, session: "Session", record: "Facts") -> None:
    facts = [{"query": a["query"], "value": a["value"]} for a in record["answers"]]
    lines = [f"{' '.join(f['query'].split())}: {f['value']:,.0f}, from the synthetic histogram" for f in facts]
    _tell(options, session, facts, lines, record)


def _open(options: Any, session: "Session", queries: list[str], opened: "Opened", write: Write) -> None:
    """Ask until all is answered, or nothing more can be; what was answered is told in any case, and first."""
    import math

    from sfumato.errors import ExhaustedError

    facts: list[dict[str, Any]] = []
    lines, failure = [], None
    with opened:
        for query in queries:
            try:
                found = opened.ask(query)
            except ExhaustedError as error:
                failure = error
                break
            low, high = found.interval(options.level)
            error_ = None if math.isnan(found.standard_error) else found.standard_error
            known = {"standard_error": error_, "low": finite(low), "high": finite(high)}
            facts.append({"query": query, "value": found.value} | known)
            spread = "" if error_ is None else f" +- {error_:.3g}"
            how = ", not measured" if error_ is None else ""
            interval = f"({options.level:.0%}: {low:,.0f} to {high:,.0f})"
            lines.append(f"{' '.join(query.split())}: {found.value:,.0f}{spread} {interval}{how}")
    _tell(options, session, facts, lines, opened.record)
    write(opened.histogram)
    if failure is not None:
        raise ExhaustedError(f"{len(queries) - len(facts)} of {len(queries)} questions were not answered: {failure}")


def _check_free(path: str | None) -> None:
    from pathlib import Path

    if path is not None and (Path(path).suffix != ".parquet" or Path(path).exists() or not Path(path).parent.is_dir()):
        raise ParameterError(f"{path}: --histogram must name a new file that ends in .parquet, in an existing folder")


@contextmanager
def _new_file(path: str | None) -> Iterator[Write]:
    """Write the histogram of what was asked; its file is there before any charge, and gone if nothing is written."""
    from pathlib import Path

    from sfumato.errors import ReleaseError

    if path is None:
        yield lambda _: None
        return
    try:
        file = Path(path).open("xb")  # noqa: SIM115 - closed below, in any case
    except OSError as error:
        raise ParameterError(f"{path}: the histogram cannot be written there ({error.strerror})") from None
    whole = False

    def write(histogram: "SyntheticHistogram | None") -> None:
        nonlocal whole
        if histogram is None:
            return
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            with file:
                pq.write_table(histogram.table(), file)
        except (OSError, pa.ArrowException):
            raise ReleaseError(
                f"{path}: the histogram could not be written; the answers stand and their budget is spent"
            ) from None
        whole = True

    try:
        yield write
    finally:
        file.close()
        if not whole:
            Path(path).unlink(missing_ok=True)


def _quote(options: Any, quotes: "list[Quote]", count: int) -> None:
    from sfumato.commands.ledger import described_price, price_facts

    shared = "" if count == 1 else " each" if options.method == "laplace" else " together"
    head = f"{count:,} question{'s' * (count > 1)} at epsilon {options.epsilon:g}{shared}. No data was read."
    facts = {"questions": count, "epsilon": options.epsilon, "quotes": price_facts(quotes)}
    tell(options, facts, "\n".join([head, *described_price(quotes, "these answers")]))
