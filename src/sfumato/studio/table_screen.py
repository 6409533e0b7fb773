"""The Explore screen of a synthetic table: rows, questions, columns; and the real table beside it, for its owner.

Answers are post-processing of the release and cost no privacy. ``beside`` reads the real table: its page is NOT
PRIVATE, is marked so, and is stored nowhere.
"""

import contextlib
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sfumato.comparing.judgement import NOT_PRIVATE, ComparedColumn
from sfumato.comparing.quality import compared_column, partition_of, real_batches, table_release
from sfumato.comparing.quality_page import column_figure
from sfumato.comparing.tally import fine_counts
from sfumato.errors import ParameterError
from sfumato.marginals.parts import MOST_PARTS, parts_of, title
from sfumato.queries.parser import parse
from sfumato.releases.histogram import HistogramRelease
from sfumato.releases.release import AnyRelease, load
from sfumato.releases.table import TableRelease
from sfumato.report.html import tag
from sfumato.report.numbers import number, percent
from sfumato.report.scenes import table_scene
from sfumato.report.table_scenes import column_counts, column_picture
from sfumato.studio.frame.pages import page, reading
from sfumato.studio.frame.shared_state import Studio
from sfumato.studio.inputs.form_fields import Choice, TextLine, Whole, whole_in
from sfumato.studio.replies import (
    LEVEL,
    SHARE,
    Question,
    Reply,
    Values,
    bar,
    between,
    cell_in_words,
    interval_names,
    level_in,
)
from sfumato.tables.columns import Category, Flag

FIRST = "columns"  # the question that is answered before any is asked
MOST_ROWS, _SHOWN, _WIDE, _MOST_COLUMNS, _MOST_SHARES = 200, 20, 24, 3000, 40
_ON_A_PAGE, _AT_A_GLANCE = 24, 8  # pictures of columns
_HOW = "such as age > 40 and sex = 'Female'; columns and values are those of the schema"


def routes(studio: Studio) -> list[Route]:
    """The routes of the Explore screen that only a synthetic table has."""
    return [reading(studio, "/explore/{name}/beside", beside)]


def questions(release: TableRelease) -> list[Question]:
    """The questions that the Explore screen offers for a synthetic table."""
    titles = tuple(title(variable) for variable in partition_of(release).variables)
    rows = Whole("rows", "How many", str(_SHOWN), low=1, high=MOST_ROWS)
    asked = TextLine("query", "Question about one record", _example(release), _HOW)
    column = Choice("column", "Column", titles[0], "", titles)
    chance = "For which share of all records it holds, by the model."
    first = Whole("first", "From column", "1", low=1, high=len(titles))
    glance = "The columns of the synthetic rows at a glance."
    return [
        Question(FIRST, "Every column", glance, (first,), _columns),
        Question("rows", "Synthetic rows", "The first rows of the release. No row is a person.", (rows,), _rows),
        Question("probability", "Probability", chance, (asked,), _chance),
        Question("count", "Count", "How many records it holds for, from noisy counts.", (asked, LEVEL), _count),
        Question("column", "Column", "One column of the synthetic rows, beside its noisy counts.", (column,), _column),
    ]


def histogram_questions(release: HistogramRelease) -> list[Question]:
    """The questions that the Explore screen offers for a histogram."""
    asked = TextLine("query", "Question about one record", _example(release), _HOW)
    tables = tuple(" and ".join(table) for table in release.tables)
    table = Choice("table", "Table", tables[0], "", tables)
    return [
        Question("counts", "Counts", "How many records each cell of a table holds.", (table, LEVEL), _counts),
        Question("count", "Count", "How many records it holds for, from noisy counts.", (asked, LEVEL), _count),
    ]


def _counts(release: HistogramRelease, values: Values) -> Reply:
    place = [" and ".join(table) for table in release.tables].index(values["table"])
    columns = release.tables[place]
    found = release.counts(*columns, level=level_in(values))
    cells = zip(*(column.to_pylist() for column in found.slice(0, MOST_ROWS).columns), strict=True)
    rows = tuple(
        (", ".join(str(cell_in_words(cell)) for cell in row[: len(columns)]), *row[len(columns) :]) for row in cells
    )
    scene = table_scene(release, columns, "counts-picture")
    more = f" The first {MOST_ROWS} of {found.num_rows:,} cells are listed." if found.num_rows > MOST_ROWS else ""
    told = f"Noisy counts of {values['table']}, in {found.num_rows:,} cells."
    return Reply(told, ("", *interval_names(values)), rows, release.total(), scene.caption + more, scene.picture)


def _example(release: AnyRelease) -> str:
    """A question that fits the schema of a table or a histogram: about a flag or a level, if there is one."""
    named = set(release.names)
    for column in release.schema.data_columns:
        if column.name not in named and isinstance(release, HistogramRelease):
            continue
        if isinstance(column, Flag | Category):
            value = "" if isinstance(column, Flag) else f' = "{column.values[0]}"'
            text = f"`{column.name}`{value}" if not column.name.isidentifier() else f"{column.name}{value}"
            with contextlib.suppress(ParameterError):
                parse(text, release.schema)
                return text
    return "true"


def _rows(release: TableRelease, values: Values) -> Reply:
    table = release.table().slice(0, values["rows"])
    names = table.column_names[:_WIDE]
    cells = zip(*(table.column(i).to_pylist() for i in range(len(names))), strict=True)
    rows = tuple(tuple(map(cell_in_words, row)) for row in cells)
    more = "" if table.num_columns <= _WIDE else f" The first {_WIDE} of {table.num_columns} columns are shown."
    told = f"{len(rows)} of {release.rows:,} synthetic rows."
    note = f"Rows have no error bars. release.to_pandas() has all of them, release.sample(n) draws more.{more}"
    return Reply(told, tuple(names), rows, note=note, named=False)


def _chance(release: TableRelease, values: Values) -> Reply:
    found = release.probability(values["query"])
    every = round(release.records)
    told = f"By the model it holds for {percent(found)} of all records, about {number(round(found * every))} of them."
    note = "The model has no error bars: it errs by noise, by pairs that it leaves out and by bins. A count has them."
    return Reply(told, ("", SHARE), (("records that it holds for", found),), note=note)


def _count(release: AnyRelease, values: Values) -> Reply:
    found = release.count(values["query"])
    row = bar("records", found, level_in(values))
    told = f"It holds for about {number(row[1])} records; {between(row, values)}."
    return Reply(told, ("", *interval_names(values)), (row,), found)


def _columns(release: TableRelease, values: Values) -> Reply:
    of = len(partition_of(release).variables)
    places = range(values["first"] - 1, min(values["first"] - 1 + _AT_A_GLANCE, of))
    pictures = [column_picture(release, place) for place in places]
    shown = [tag("figure", tag("h3", p.title), p.drawn(f"glance{i}")) for i, p in enumerate(pictures)]
    told = f"Columns {places.start + 1:,} to {places.stop:,} of {of:,}, in {release.rows:,} synthetic rows."
    return Reply(told, note="Pictures of rows have no error bars.", picture=tag("div", *shown, class_="panels"))


def _column(release: TableRelease, values: Values) -> Reply:
    place = [title(variable) for variable in partition_of(release).variables].index(values["column"])
    picture = column_picture(release, place)
    rows = tuple(zip(picture.names, map(float, picture.series[0].shares), strict=True))
    told = (
        f"{picture.title} in {release.rows:,} synthetic rows{', beside its noisy counts' * (len(picture.series) > 1)}."
    )
    note = f"Synthetic rows have no error bars. Bars of noisy counts have 95% intervals of the noise. {picture.cut_off}"
    return Reply(told, ("", SHARE), rows[:_MOST_SHARES], note=note.strip(), picture=picture.drawn("column-picture"))


# ---- beside the real table ------------------------------------------------------------------------------------------


def beside(studio: Studio, request: Request) -> Response:
    """The real table of the data folder beside the synthetic one, column by column. NOT PRIVATE; stored nowhere."""
    name, data = request.path_params["name"], request.query_params.get("data", "")
    release = table_release(load(studio.folder.release(name)))
    columns = _compared(release, studio, data)
    wanted = request.query_params.get("column", "").strip()
    found = [column for column in columns if wanted.casefold() in column.name.casefold()]
    last = max(1, -(-len(found) // _ON_A_PAGE))
    turn = min(max(1, whole_in(dict(request.query_params), "page", 1) or 1), last)
    shown = found[(turn - 1) * _ON_A_PAGE : turn * _ON_A_PAGE]
    figures = [column_figure(column, f"column{i}") for i, column in enumerate(shown)]
    facts: dict[str, Any] = {"name": name, "data": data, "warning": NOT_PRIVATE, "figures": figures}
    facts |= {"column": wanted, "turn": turn, "last": last, "found": len(found), "of": len(columns)}
    return page(studio, "beside.html", here="explore", **facts)


def _compared(release: TableRelease, studio: Studio, data: str) -> list[ComparedColumn]:
    """The columns of a real and a synthetic table beside each other; the farthest apart come first."""
    partition, synthetic = column_counts(release)
    if len(partition.variables) > _MOST_COLUMNS:
        raise ParameterError(f"more than {_MOST_COLUMNS} columns: use sfumato compare on the command line")
    real = fine_counts(partition, real_batches(studio.folder.table(data), release.schema))
    both = zip(partition.variables, real, synthetic, strict=True)
    columns = [compared_column(v, parts_of(v, MOST_PARTS), one, two) for v, one, two in both]
    columns.sort(key=lambda column: -column.distance)
    return columns
