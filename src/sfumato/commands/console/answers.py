"""Answers to questions as commands tell them: lines, tables, JSON, and a file made before anything is charged."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sfumato import defaults, untrusted
from sfumato.commands.console.options import add_neighbours, finite, tell
from sfumato.errors import ParameterError, ReleaseError

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.fileformat.manifest import Facts
    from sfumato.pipeline.answers import Answer
    from sfumato.pipeline.session import Session

_NUMBERS = ("value", "standard_error", "low", "high")
Write = Callable[["pa.Table | None"], None]


def add_guarantee_of_questions(parser: Any, epsilon: str, delta: str) -> None:
    """The options for what an answer costs and protects, with the help of the first two."""
    group = parser.add_argument_group("privacy guarantee")
    group.add_argument("--epsilon", type=float, required=True, metavar="EPSILON", help=epsilon)
    group.add_argument("--delta", type=float, default=defaults.DELTA, metavar="DELTA", help=delta)
    group.add_argument(
        "--unit",
        choices=("record", "attribute"),
        default="record",
        help="What is protected: one record, or one value of a record (default record, at the same cost).",
    )
    add_neighbours(group, None, "default: as in the cap")
    group.add_argument("--group", type=int, metavar="N", help="Maximum records per person (default: as in the cap).")


def add_out(parser: Any) -> None:
    """The option for a file that gets the table of answers."""
    parser.add_argument("--out", metavar="FILE", help="New .csv or .parquet file that gets the answers as a table.")


def tell_answers(options: Any, session: "Session", answers: "Sequence[Answer]") -> None:
    """Print the answers to questions, one number on a line and several in a table, then the budget."""
    from sfumato.pipeline.answers import summary, written

    lines = []
    for answer in answers:
        query = " ".join(answer.query.split())
        if answer.single:
            lines.append(f"{query}: {summary(answer, options.level)}")
        else:
            lines += [query, *(f"  {line}" for line in written(answer, options.level)), ""]
    facts = [_facts(answer, options.level) for answer in answers]
    tell_with_budget(options, session, facts, lines, answers[0].record)


def _facts(answer: "Answer", level: float) -> dict[str, Any]:
    """An answer for --json: the rows of its table, and of one number also the number itself."""
    table = answer.table(level)
    rows = [{name: _plain(value) for name, value in row.items()} for row in table.to_pylist()]
    if not answer.single:
        return {"query": answer.query, "rows": rows}
    numbers = map(_plain, (answer.value, answer.standard_error, *answer.interval(level)))
    return {"query": answer.query} | dict(zip(_NUMBERS, numbers, strict=True)) | {"rows": rows}


def _plain(value: Any) -> Any:
    """A value of an answer for --json: whole numbers without a point, None where there is none."""
    if not isinstance(value, float):
        return value
    return int(value) if value.is_integer() and abs(value) < 2**53 else finite(value)


def tell_with_budget(
    options: Any, session: "Session", facts: list[dict[str, Any]], lines: list[str], record: "Facts | None"
) -> None:
    """Print the answers to questions, then the budget as the ledger states it."""
    dataset = session.account.dataset
    spent = [dataset.total(place).epsilon for place in range(len(dataset.caps))]
    left = dataset.remaining_under_every_cap()
    told = "; ".join(f"{e:.4g} of {cap.describe()}" for e, cap in zip(spent, dataset.caps, strict=True))
    line = f"{dataset.name}: spent {told}. Left: epsilon {left:g} (pure)."
    budget = {"dataset": dataset.name, "spent": [finite(e) for e in spent], "remaining": left}
    promise = session.promise
    protects = {"unit": promise.unit, "neighbours": promise.neighbours, "group": promise.group}
    costs = {"epsilon": options.epsilon, "delta": options.delta}
    terms = {"method": noise_of(options), **costs, "level": options.level, **protects}
    text = "\n".join(map(untrusted.line, [*lines, line]))
    tell(options, {"answers": facts, "terms": terms, "budget": budget, "record": record}, text)


def noise_of(options: Any) -> str:
    """The method that answers questions: what --method says, and gaussian for noise on each answer with a delta."""
    method = getattr(options, "method", "laplace")
    return "gaussian" if method == "laplace" and options.delta else str(method)


def table_of_answers(answers: "Sequence[Answer]", level: float) -> "pa.Table":
    """The answers to questions as one table; of several questions, with the question in its first column."""
    import pyarrow as pa

    tables = [answer.table(level) for answer in answers]
    if len(tables) == 1:
        return tables[0]
    names = {name for table in tables for name in table.column_names}
    asked = "question" + "_" * ("question" in names)
    named = [
        table.add_column(0, asked, pa.array([answer.query] * table.num_rows))
        for table, answer in zip(tables, answers, strict=True)
    ]
    return pa.concat_tables(named, promote_options="default")


@contextmanager
def new_file(path: str | None, option: str, what: str, endings: Sequence[str]) -> Iterator[Write]:
    """Write a table that questions have paid for; its file is there before any charge, and gone if it is not written.

    option, what : the option that names the file, and what is in it, for errors.
    """
    from pathlib import Path

    if path is None:
        yield lambda _: None
        return
    check_new(path, option, endings)
    try:
        file = Path(path).open("xb")  # noqa: SIM115 - closed below, in any case
    except OSError as error:
        raise ParameterError(f"{path}: the {what} cannot be written there ({error.strerror})") from None
    whole = False

    def write(table: "pa.Table | None") -> None:
        nonlocal whole
        if table is None:
            return
        import pyarrow as pa

        try:
            with file:
                _write(table, file, csv=path.endswith(".csv"))
        except (OSError, pa.ArrowException):
            raise ReleaseError(
                f"{path}: the {what} could not be written; the answers stand and their budget is spent"
            ) from None
        whole = True

    try:
        yield write
    finally:
        file.close()
        if not whole:
            Path(path).unlink(missing_ok=True)


def check_new(path: str | None, option: str, endings: Sequence[str]) -> None:
    """Refuse a file for a table that is there already, or has another ending, or no folder."""
    from pathlib import Path

    if path is None:
        return
    if Path(path).exists():
        raise ParameterError(f"{path} already exists: choose another name; nothing was charged")
    if Path(path).suffix not in endings or not Path(path).parent.is_dir():
        raise ParameterError(
            f"{path}: {option} must name a new file that ends in {' or '.join(endings)}, in an existing folder"
        )


def _write(table: "pa.Table", file: Any, *, csv: bool) -> None:
    if csv:
        import pyarrow.csv as pv

        pv.write_csv(table, file)
    else:
        import pyarrow.parquet as pq

        pq.write_table(table, file)
