"""Answers of SmartNoise SQL to the questions of ``question_list``: run by the Python of .venv-questions-sql.

Usage: .venv-questions-sql/bin/python experiments/smartnoise_answers.py ASKED.json TABLE.npz TOLD.json

It protects a record that is added or removed. Its epsilon is that of one column of the query as it rewrites it, so each
query is given the epsilon at which its own account of the cost is what is asked. It has no quantiles.
"""

import json
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from snsql import Privacy, from_df

DELTA = 1e-9  # it wants one; spent only where groups are censored, which is off
_FUNCTIONS = {"count": "count(*)", "sum": "sum({})", "mean": "avg({})", "variance": "variance({})"}


def described(asked: dict[str, Any], rows: int) -> dict[str, Any]:
    """The table as its metadata: bounds, rows as the unit, no censoring of groups, no clamping of counts."""
    numbers = {n: {"type": "int", "lower": low, "upper": high} for n, (low, high) in asked["bounds"].items()}
    others = {n: {"type": "int"} for n in [*asked["levels"], "part"]}
    table = {"row_privacy": True, "rows": rows, "censor_dims": False, "clamp_counts": False}
    return {"": {"": {"adult": table | numbers | others}}}


def query(question: dict[str, Any]) -> str | None:
    """A question in SQL."""
    parts = question["parts"]
    kind = parts[0]["kind"]
    if kind == "quantile":
        return None
    where = " and ".join(f"{n} {s} {v}" for n, s, v in question["where"])
    by = question["by"] or {"histogram": "part", "top": parts[0]["column"]}.get(kind, "")
    terms = [_FUNCTIONS.get(p["kind"], "count(*)").format(p["column"]) + f" as x{i}" for i, p in enumerate(parts)]
    text = f"select {', '.join([by] * bool(by) + terms)} from adult"  # noqa: S608
    text += f" where {where}" * bool(where) + f" group by {by}" * bool(by)
    return text if kind != "top" else f"{text} order by x0 desc limit {int(parts[0]['numbers'][0])}"


def _number(cell: Any) -> float:
    return np.nan if cell is None else float(cell)


def numbers(question: dict[str, Any], rows: list[Any]) -> list[float]:
    """The numbers of a result, in the order of the levels."""
    found = rows[1:]
    if question["parts"][0]["kind"] == "top":
        return [float(row[0]) for row in found]
    if question["by"] or question["parts"][0]["kind"] == "histogram":
        return [_number(v) for row in sorted(found) for v in row[1:]]
    return [_number(v) for v in found[0]]


def reader(frame: pd.DataFrame, asked: dict[str, Any], text: str, epsilon: float) -> Any:
    """A reader at which this query costs epsilon."""
    about = described(asked, len(frame))
    one = from_df(frame, privacy=Privacy(epsilon=1.0, delta=DELTA), metadata=about)
    share = epsilon / float(one.get_privacy_cost(text)[0])
    made = from_df(frame, privacy=Privacy(epsilon=share, delta=DELTA), metadata=about)
    spent = float(made.get_privacy_cost(text)[0])
    if abs(spent - epsilon) > 1e-6 * epsilon:
        raise SystemExit(f"{text} costs {spent}, not {epsilon}")
    return made


def main(asked: Path, table: Path, told: Path) -> None:
    """Answer every question as often as is asked."""
    wanted, found = json.loads(asked.read_text()), []
    frame = pd.DataFrame(dict(np.load(table)))
    asks = [(q, text, e) for q in wanted["questions"] if (text := query(q)) for e in wanted["epsilons"]]
    for question, text, epsilon in asks:
        try:
            own = reader(frame, wanted, text, epsilon)
        except ValueError as refused:  # a sum of squares that is too large for it
            print(text, refused, flush=True)
            continue
        start = time.process_time()
        answers = [numbers(question, own.execute(text)) for _ in range(wanted["runs"])]
        line = {"question": question["text"], "relation": "add-remove", "epsilon": epsilon, "way": text}
        found.append(line | {"answers": answers, "seconds": (time.process_time() - start) / len(answers)})
        print(text, epsilon, flush=True)
    told.write_text(json.dumps({"version": metadata.version("smartnoise-sql"), "told": found}))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
