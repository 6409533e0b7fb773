"""``sfumato ask``: questions about a table, answered with noise and charged to a ledger."""

import argparse
from typing import TYPE_CHECKING, Any

from sfumato import untrusted
from sfumato.commands.console.answers import (
    Write,
    add_guarantee_of_questions,
    add_out,
    check_new,
    new_file,
    noise_of,
    table_of_answers,
    tell_answers,
    tell_with_budget,
)
from sfumato.commands.console.options import (
    account,
    add_account,
    add_level,
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
    from sfumato.pipeline.open_session import Opened
    from sfumato.pipeline.session import Question, Session

_LONGEST_FILE = 1 << 24  # bytes
_EXAMPLES = """sfumato ask people.csv --schema people.toml --ledger budget.db --epsilon 0.1 "mean(age) by city"

questions:
  age >= 40 and smoker           number of records that satisfy a condition
  count by city                  one count for each city in the schema
  mean(age), count where smoker  several aggregates of the same records
  histogram(age, 10) by smoker   10 bins of equal width
  top(diagnosis, 5)              the 5 most frequent values
  quantile(age, 0.25 0.5 0.75)   also median(age), min(age), max(age)
  also sum(age), variance(age)

conditions:
  age >= 40 and smoker           20 <= age < 40
  city in ("Bern", "Basel")      not smoker or age < 30
  age between 20 and 30          `blood pressure` > 120 (a name with a space)
  age is missing                 true (all records)"""


def add_ask(commands: Any) -> None:
    """``sfumato ask``: its options."""
    parser = command(
        commands,
        "ask",
        "Answer questions about a table with noise: counts, sums, means, quantiles, histograms, by groups. "
        "Each answer is charged to a ledger.",
        _EXAMPLES,
        _ask,
    )
    parser.set_defaults(stands="the questions were charged", prints=True)
    add_table(parser)
    asked = parser.add_argument("query", nargs="+", default=[], metavar="QUESTION", help="Question, see below.")
    asked.required = False  # there may be a batch instead; with nargs="*" it could not stand after options
    parser.add_argument("--batch", metavar="FILE", help="File of more questions, one per line (# starts a comment).")
    parser.add_argument("--price", action="store_true", help="Show what the questions would cost. Reads no data.")
    add_level(parser, "each interval")
    add_out(parser)
    _add_method(parser)
    add_guarantee_of_questions(
        parser,
        "Privacy loss of each question, with all its aggregates and groups. For --method weights, median and mwem: of "
        "all questions together.",
        "Delta of each question: above 0, answers have Gaussian noise, which is better for many numbers at once. For "
        "other methods: of all questions together (default 0).",
    )
    add_account(parser, "required")


def _add_method(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--method",
        choices=("laplace", "weights", "median", "mwem"),
        default="laplace",
        help="Noise on each answer (Gaussian with --delta), or a mechanism that takes conditions only, measures a few "
        "of them and predicts the others: private multiplicative weights, the median mechanism, or MWEM (default "
        "laplace).",
    )
    parser.add_argument(
        "--updates", type=int, metavar="N", help="Maximum number of questions measured (not for laplace)."
    )
    parser.add_argument("--histogram", metavar="FILE", help="Parquet file for the histogram (weights and mwem only).")


def _ask(options: Any) -> None:
    queries = [*options.query, *([] if options.batch is None else _lines(options.batch))]
    if not queries:
        raise ParameterError('no question: write one, such as "mean(age)", or name a file of questions with --batch')
    session = open_session(options)
    if options.method != "laplace":
        _whole(options, session, queries)
    elif options.updates is not None or options.histogram is not None:
        raise ParameterError("--updates and --histogram need --method weights, median or mwem")
    else:
        answer(options, session, queries)


def open_session(options: Any) -> "Session":
    """The session that the options of a command for questions stand for."""
    from sfumato import check
    from sfumato.pipeline.session import Session

    options.stands = None if options.price else options.stands
    if not 0 < options.level < 1:
        raise check.fail("level", options.level, "strictly between 0 and 1")
    if options.ledger is None:
        raise ParameterError("answers are charged to a budget: name its ledger with --ledger")
    return Session(
        table(options),
        schema=schema_of(options),
        ledger=account(options),
        unit=options.unit,
        neighbours=options.neighbours,
        group=options.group,
    )


def answer(options: Any, session: "Session", questions: "list[Question]") -> None:
    """Answer questions with noise on each answer, or say what that would cost."""
    terms = {"epsilon": options.epsilon, "delta": options.delta}
    if options.delta > 0 and not any(cap.guarantee.delta for cap in session.account.dataset.caps):
        raise ParameterError("--delta needs a budget with a delta: this one has delta 0, so leave --delta out")
    if options.price:
        _quote(options, session.price(questions, **terms), len(questions))
        return
    with new_file(options.out, "--out", "table of answers", (".csv", ".parquet")) as write:
        answers = session.ask_all(questions, **terms)
        tell_answers(options, session, answers)
        write(table_of_answers(answers, options.level))


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


def _whole(options: Any, session: "Session", queries: list[str]) -> None:
    """Ask all questions of a mechanism that is charged at once."""
    if options.method == "median" and options.histogram is not None:
        raise ParameterError("--histogram needs --method weights or mwem: the median mechanism has no histogram")
    if options.out is not None:
        raise ParameterError("--out needs --method laplace: use --json, or --histogram")
    _check_conditions(options, session, queries)
    check_new(options.histogram, "--histogram", (".parquet",))
    terms = {"epsilon": options.epsilon, "delta": options.delta, "updates": options.updates}
    if options.price:
        _quote(options, session.price_whole(options.method, queries, **terms), len(queries))
        return
    with new_file(options.histogram, "--histogram", "histogram", (".parquet",)) as write:
        if options.method == "mwem":
            made, record = session.synthesise(queries, **terms)
            _tell_synthetic(options, session, record)
            write(made.table())
        else:
            _open(options, session, queries, session.open(options.method, queries=queries, **terms), write)


def _check_conditions(options: Any, session: "Session", queries: list[str]) -> None:
    """Refuse aggregates and groups where a method only counts records."""
    from sfumato.queries.questions import parse_question

    for query in queries:
        if not parse_question(query, session.schema).plain:
            asked = untrusted.line(query, 80)
            raise ParameterError(
                f"--method {options.method} answers conditions only, such as 'age >= 40 and smoker': ask {asked!r} "
                "without --method"
            )


def _tell_synthetic(options: Any, session: "Session", record: "Facts") -> None:
    facts = [{"query": a["query"], "value": a["value"]} for a in record["answers"]]
    lines = [f"{' '.join(f['query'].split())}: {f['value']:,.0f}, from the synthetic histogram" for f in facts]
    tell_with_budget(options, session, facts, lines, record)


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
    tell_with_budget(options, session, facts, lines, opened.record)
    write(None if opened.histogram is None else opened.histogram.table())
    if failure is not None:
        raise ExhaustedError(f"{len(queries) - len(facts)} of {len(queries)} questions were not answered: {failure}")


def _quote(options: Any, quotes: "list[Quote]", count: int) -> None:
    from sfumato.commands.console.budgets import described_price, price_facts

    shared = "" if count == 1 else " each" if noise_of(options) in ("laplace", "gaussian") else " together"
    delta = f", delta {options.delta:g}" * (options.delta > 0)
    head = f"{count:,} question{'s' * (count > 1)} at epsilon {options.epsilon:g}{delta}{shared}. No data was read."
    facts = {"questions": count, "epsilon": options.epsilon, "delta": options.delta, "quotes": price_facts(quotes)}
    tell(options, facts, "\n".join([head, *described_price(quotes, "these answers")]))
