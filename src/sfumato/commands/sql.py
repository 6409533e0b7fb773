"""``sfumato sql``: questions in SQL, translated into those of ``sfumato ask``."""

from typing import Any

from sfumato.commands.ask import answer, open_session
from sfumato.commands.console.answers import add_guarantee_of_questions, add_out
from sfumato.commands.console.options import add_account, add_level, add_table, command

_EXAMPLES = """sfumato sql people.csv --schema people.toml --ledger budget.db --epsilon 1 "select avg(age) from people"

also:
  select city, avg(age) as mean_age, count(*) from people where smoker group by city

what can be asked:
  select   columns of GROUP BY, count(*), sum, avg, var_pop, min, max, median, quantile(age, 0.9),
           percentile_cont(0.9) within group (order by age); aliases are the labels of the answers
  from     one table: any name
  where    comparisons with values, and, or, not, in, between, is null, boolean columns, dates
  group by columns, also by their place in the select list"""


def add_sql(commands: Any) -> None:
    """``sfumato sql``: its options."""
    parser = command(
        commands,
        "sql",
        "Answer a SELECT with aggregates about a table with noise. It costs what the same question to ask costs, and "
        "nothing in it is executed. Needs the extra sql.",
        _EXAMPLES,
        _sql,
    )
    parser.set_defaults(stands="the questions were charged", prints=True)
    add_table(parser)
    parser.add_argument("query", nargs="+", metavar="SQL", help="SELECT statement, see below.")
    parser.add_argument("--price", action="store_true", help="Show what the questions would cost. Reads no data.")
    add_level(parser, "each interval")
    add_out(parser)
    add_guarantee_of_questions(
        parser,
        "Privacy loss of each SELECT, with all its aggregates and groups.",
        "Delta of each SELECT: above 0, answers have Gaussian noise (default 0).",
    )
    add_account(parser, "required")


def _sql(options: Any) -> None:
    from sfumato.queries.sql import sql_question

    session = open_session(options)
    answer(options, session, [sql_question(query, session.schema) for query in options.query])
