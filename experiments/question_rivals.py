"""The questions of ``question_list`` to OpenDP, diffprivlib and SmartNoise SQL, at our epsilon, neighbours and bounds.

Usage: SFUMATO_DATA=FOLDER python experiments/question_rivals.py RIVAL [--runs 200] [--only PART_OF_TEXT] [--again]

Each answers in an environment of its own (`make rivals` makes both). Where a library has several ways, all
are run. Errors of each are added to question_rivals.jsonl, which ``questions`` reads. With --again they are added to
question_rivals_again.jsonl: ``questions`` shows them beside comparisons that were lost, and decides none by them.
"""

import argparse
import json
import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

from page import Measured
from question_list import QUESTIONS, Asked, errors, named, rank_errors
from table_data import load

EPSILONS, RELATIONS, RUNS = (0.1, 1.0), ("add-remove", "replace"), 200
_HERE = Path(__file__).parent
KEPT = _HERE / "question_rivals.jsonl"
AGAIN = _HERE / "question_rivals_again.jsonl"
RIVALS = {"opendp": ".venv-questions", "diffprivlib": ".venv-questions", "smartnoise": ".venv-questions-sql"}


def adult() -> Asked:
    """All rows of Adult."""
    table = load("adult")
    return Asked.of(pd.concat([table.train, table.test], ignore_index=True), table.schema)


def answers(rival: str, asked: Asked, wanted: dict[str, Any]) -> dict[str, Any]:
    """What a rival answers in its environment."""
    python = _HERE.parent / RIVALS[rival] / "bin" / "python"
    histogram = next(q.parts[0] for q in QUESTIONS if q.parts[0].kind == "histogram")
    with TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("asked.json", "table.npz", "told.json")]
        files[0].write_text(json.dumps(asked.as_values() | wanted))
        np.savez(files[1], part=asked.bins(histogram), **asked.codes)
        command = [str(python), "-W", "ignore", str(_HERE / f"{rival}_answers.py"), *map(str, files)]
        one = os.environ | {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"}
        subprocess.run(command, check=True, env=one)  # noqa: S603
        return dict(json.loads(files[2].read_text()))


def scored(asked: Asked, told: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """For each question, relation, epsilon and way the errors."""
    for own in told["told"]:
        question = named(own["question"])
        error = Measured.of(errors(asked, question, own["answers"]))
        line = {k: own[k] for k in ("question", "relation", "epsilon", "way", "seconds")}
        line |= {"error": error.value, "standard_error": error.error, "repetitions": error.repetitions}
        if question.ranked:
            line["rank_error"] = float(rank_errors(asked, question, own["answers"]).mean())
        yield line


def kept(file: Path | None = None) -> list[dict[str, Any]]:
    """What was measured: the last line for each rival, question, relation, epsilon and way."""
    path = file or KEPT
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    keys = ("rival", "question", "relation", "epsilon", "way")
    return list({tuple(line[k] for k in keys): line for line in lines}.values())


def best(lines: Iterable[dict[str, Any]]) -> dict[tuple[str, str, float, str], dict[str, Any]]:
    """For each question, relation, epsilon and rival the way with the smallest error."""
    found: dict[tuple[str, str, float, str], dict[str, Any]] = {}
    for line in lines:
        key = (line["question"], line["relation"], line["epsilon"], line["rival"])
        if key not in found or line["error"] < found[key]["error"]:
            found[key] = line
    return found


def main() -> None:
    """Ask one rival, and add what it answers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rival", choices=RIVALS)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--only", default="")
    parser.add_argument("--again", action="store_true")
    given = parser.parse_args()
    asked = adult()
    wanted: dict[str, Any] = {"epsilons": EPSILONS, "relations": RELATIONS, "runs": given.runs}
    for question in asked.as_values()["questions"]:
        if given.only not in question["text"]:
            continue
        told = answers(given.rival, asked, wanted | {"questions": [question]})
        with (AGAIN if given.again else KEPT).open("a") as file:  # as they come: all of them take an hour
            for line in scored(asked, told):
                file.write(json.dumps({"rival": given.rival, "version": told["version"]} | line) + "\n")


if __name__ == "__main__":
    main()
