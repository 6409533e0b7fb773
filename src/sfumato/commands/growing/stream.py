"""``sfumato stream``: data that grow, published after every period under one guarantee."""

import argparse
from typing import TYPE_CHECKING, Any

from sfumato import untrusted
from sfumato.commands.console.options import (
    LEDGER,
    SCHEMA,
    TABLE,
    account,
    add_account,
    add_dialect,
    add_guarantee,
    add_neighbours,
    command,
    guarantee_of,
    subcommands,
    table,
    tell,
)
from sfumato.commands.growing.statistic import add_statistic, recipe_of
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from sfumato.pipeline.stream import Stream
    from sfumato.streams.description import StreamDescription
    from sfumato.tables.schema import Schema


def add_stream(commands: Any) -> None:
    """``sfumato stream``, with one subcommand for each act."""
    text = "Publish running sums of data that grow, after every period, under one guarantee for all of them."
    example = "sfumato stream append people.stream monday.csv --period 2026-11-16"
    acts = subcommands(commands, "stream", "ACTION", text, example)
    _add_init(acts)
    _add_append(acts)
    _add_publish(acts)
    _add_extend(acts)
    _add_show(acts)


def _act(acts: Any, name: str, text: str, example: str, run: Any) -> argparse.ArgumentParser:
    parser = command(acts, name, text, f"sfumato stream {name} people.stream {example}".rstrip(), run)
    parser.add_argument("stream", metavar="STREAM", help="File of the stream, which is secret.")
    return parser


def _add_ledger(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ledger", metavar="LEDGER", help=f"Where the ledger of the stream is now: {LEDGER} (default: where it was)."
    )


# ---- init ------------------------------------------------------------------------------------------------------------


def _add_init(acts: Any) -> None:
    parser = _act(
        acts,
        "init",
        "Make a stream. Its whole horizon is charged now; appending and publishing cost nothing more.",
        "--schema people.toml --horizon 365 --epsilon 1 --delta 1e-6",
        _init,
    )
    parser.set_defaults(stands="the stream was made")
    parser.add_argument("--schema", metavar="FILE", help=SCHEMA)
    parser.add_argument(
        "--space", metavar="FILE", help="Shared space (instead of --schema): its schema is the stream's."
    )
    parser.add_argument("--horizon", type=int, required=True, metavar="N", help="Number of periods it may have.")
    parser.add_argument(
        "--method",
        choices=("square-root", "tree"),
        help="How noise is shared by periods: square-root has the least, tree goes beyond 4096 periods (default: "
        "square-root as far as it goes).",
    )
    group = parser.add_argument_group("what is summed up")
    add_statistic(group)
    group.add_argument("--label", metavar="COLUMN", help="Of synthetic records: column to keep as the label.")
    add_neighbours(add_guarantee(parser, summed=True))
    add_account(parser, "default none")


def _schema(options: Any) -> "str | Schema":
    """The schema of a new stream: its own file, or that of a shared space."""
    from sfumato.projection.space import Space

    if (options.schema is None) == (options.space is None):
        raise ParameterError("a stream needs --schema, or --space, which has one: give one of them")
    return options.schema if options.space is None else Space.read(options.space).schema


def _init(options: Any) -> None:
    from sfumato.pipeline.stream import Stream

    made = Stream.init(
        options.stream,
        schema=_schema(options),
        guarantee=guarantee_of(options),
        horizon=options.horizon,
        mechanism=recipe_of(options),
        method=options.method,
        ledger=account(options),
    )
    _tell(options, made, f"Stream written to {options.stream}. It is secret: keep it as you keep the data.")


# ---- append, publish, extend, show -----------------------------------------------------------------------------------


def _add_append(acts: Any) -> None:
    text = "Append the rows of a period. A label that is there already is refused, so a retry is safe."
    parser = _act(acts, "append", text, "monday.csv --period 2026-11-16", _append)
    parser.set_defaults(stands="the period was appended", many_blocks=True)
    parser.add_argument("data", metavar="TABLE", help=TABLE)
    parser.add_argument("--period", metavar="LABEL", required=True, help="Label of the period, such as 2026-11-16.")
    parser.add_argument(
        "--leaving",
        metavar="TABLE",
        help="Rows of earlier periods that leave or are corrected; needs add-remove neighbours and --group 2 or more.",
    )
    parser.add_argument(
        "--again",
        action="store_true",
        help="Take a file that was appended before: its people have rows in both periods; needs --group 2 or more.",
    )
    parser.add_argument("--empty", action="store_true", help="Take a table without rows, where their number is public.")
    add_dialect(parser)
    _add_ledger(parser)


def _append(options: Any) -> None:
    from sfumato.files.table_file import TableFile
    from sfumato.pipeline.stream import Stream

    leaving = options.leaving
    if leaving is not None:
        leaving = TableFile(leaving, options.separator, options.encoding)
    number = Stream(options.stream, options.ledger).append(
        table(options), period=options.period, leaving=leaving, again=options.again, empty=options.empty
    )
    facts = {"stream": options.stream, "period": number, "label": options.period}
    tell(options, facts, f"Appended period {number}, {options.period!r}, to {options.stream}.")


def _add_publish(acts: Any) -> None:
    text = "Publish the running sum up to a period as a release folder. It costs nothing more, however often."
    parser = _act(acts, "publish", text, "--out people.release", _publish)
    parser.set_defaults(stands="the release was made")
    parser.add_argument("--out", metavar="FOLDER", required=True, help="Folder to create for the release.")
    parser.add_argument("--period", metavar="LABEL", help="Label of the last period in it (default: the newest).")
    _add_ledger(parser)


def _publish(options: Any) -> None:
    from sfumato.fileformat.plain_words import summary
    from sfumato.pipeline.stream import Stream

    made = Stream(options.stream, options.ledger).publish(options.out, options.period)
    tell(options, {"release": options.out, "manifest": made}, f"{summary(made)}\nRelease written to {options.out}")


def _add_extend(acts: Any) -> None:
    text = "Make the horizon longer, at the same noise. What that costs is charged to the ledger of the stream."
    parser = _act(acts, "extend", text, "--horizon 730", _extend)
    parser.set_defaults(stands="the stream was extended")
    parser.add_argument("--horizon", type=int, required=True, metavar="N", help="Number of periods it may have.")
    _add_ledger(parser)


def _extend(options: Any) -> None:
    from sfumato.pipeline.stream import Stream

    stream = Stream(options.stream, options.ledger)
    stream.extend(options.horizon)
    _tell(options, stream, f"Extended {options.stream}.")


def _add_show(acts: Any) -> None:
    parser = _act(acts, "show", "Show what a stream promises, and which periods it has.", "", _show)
    parser.set_defaults(stands=None)


def _show(options: Any) -> None:
    from sfumato.pipeline.stream import Stream

    _tell(options, Stream(options.stream), "")


def _tell(options: Any, stream: "Stream", done: str) -> None:
    """What a stream is, and what was done, in words or as JSON."""
    about, periods = stream.description, stream.periods
    facts = {
        "stream": str(options.stream),
        "id": about.name,
        "statistic": about.measuring.statistic.facts,
        "guarantee": about.guarantee.to_dict(),
        "horizon": about.horizon,
        "method": about.measuring.method.name,
        "accounted": about.ledger is not None,
        "periods": [{"number": p.number, "label": p.label} for p in periods],
    }
    tell(options, facts, "\n".join([*_described(about), *_periods(about, len(periods), periods), *[done] * bool(done)]))


def _described(about: "StreamDescription") -> list[str]:
    made, promise = about.measuring, about.guarantee
    end = made.noise(about.scale, about.horizon, about.horizon)[1] / made.noise(about.scale, 1, about.horizon)[1]
    lines = [
        f"A stream of {made.statistic.facts['name']} over at most {about.horizon} periods ({made.method.name}).",
        promise.describe(projected=False),
        "The promise is about all that it publishes within this horizon, together.",
        f"Noise: after the last period {end:.3g} times that after the first.",
    ]
    if about.ledger is None:
        lines.append("warning: no ledger was used: what other releases of these data cost is not accounted for")
    else:
        entries = ", ".join(str(entry.number) for entry in about.entries)
        lines.append(f"Charged to the budget of {untrusted.line(about.ledger[1])!r}, entry {entries} of its ledger.")
    if not about.protected:
        lines.append("warning: made for tests: what it publishes protects nobody")
    return lines


def _periods(about: "StreamDescription", count: int, periods: Any) -> list[str]:
    if not count:
        return ["Periods: none yet."]
    newest = periods[-1]
    rows = f", {sum(p.rows or 0 for p in periods):,} records" if about.counted else ""
    return [f"Periods: {count} of {about.horizon}, the newest {untrusted.line(newest.label)!r}{rows}."]
