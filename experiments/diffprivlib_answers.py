"""Answers of diffprivlib to the questions of ``question_list``: run by the Python of .venv-questions.

Usage: .venv-questions/bin/python experiments/diffprivlib_answers.py ASKED.json TABLE.npz TOLD.json

Its sum, mean and variance take a record to be replaced and the number of rows to be public. Its histogram protects one
that is added or removed, so one that is replaced costs twice. A mean of some rows, whose number is private, is a sum
over a count. Where a record that is replaced leaves one group for another, each group has half.
"""

import json
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from diffprivlib import tools

Answer = Callable[[], list[float]]


class Asker:
    """One question at one epsilon, for one relation between neighbours."""

    def __init__(self, asked: dict[str, Any], table: Any, question: dict[str, Any], setting: tuple[str, float]) -> None:
        self.asked, self.table, self.question = asked, table, question
        self.replaced, self.epsilon = setting[0] == "replace", setting[1]
        self.rows = len(table["age"])

    def answer(self) -> list[float] | None:
        """The numbers, or None where the library has no way."""
        parts, by = self.question["parts"], self.question["by"]
        kind, whole = parts[0]["kind"], not by and not self.question["where"]
        if kind in ("sum", "mean", "variance") or len(parts) > 1:
            if not self.replaced:
                return None
            share = self.epsilon / len(parts)
            if whole:
                return [self.whole(part, share) for part in parts]
            return self.ratios()
        if kind == "quantile":
            return self.quantiles(parts[0])
        if kind == "count" and not by:
            return [float(tools.count_nonzero(self.meant(), epsilon=self.epsilon))]
        return self.counts(parts[0])

    def meant(self) -> Any:
        """Which rows the question is about."""
        found = np.full(self.rows, True)
        for name, sign, value in self.question["where"]:
            found &= self.table[name] == value if sign == "=" else self.table[name] >= value
        return found

    def groups(self) -> list[Any]:
        """Which rows are in each group."""
        by, rows = self.question["by"], self.meant()
        return [rows & (self.table[by] == g) for g in range(self.asked["levels"][by])] if by else [rows]

    @property
    def share(self) -> float:
        """The budget of one group: a record that is replaced changes two."""
        return self.epsilon / 2 if self.replaced and self.question["by"] else self.epsilon

    def whole(self, part: dict[str, Any], epsilon: float) -> float:
        """An aggregate of all rows."""
        function = {"sum": tools.sum, "mean": tools.mean, "variance": tools.var}[part["kind"]]
        bounds = self.asked["bounds"][part["column"]]
        return float(function(self.table[part["column"]], epsilon=epsilon, bounds=tuple(bounds)))

    def ratios(self) -> list[float]:
        """Means of some rows, with their number where that is asked too."""
        column = self.question["parts"][-1]["column"]
        low, high = self.asked["bounds"][column]
        found: list[float] = []
        for rows in self.groups():
            count = float(tools.count_nonzero(rows, epsilon=self.share / 2))
            masked = np.where(rows, self.table[column], 0)
            total = float(tools.sum(masked, epsilon=self.share / 2, bounds=(min(low, 0), max(high, 0))))
            mean = float(np.clip(total / max(count, 1), low, high))
            found += [count, mean] if len(self.question["parts"]) > 1 else [mean]
        return found

    def quantiles(self, part: dict[str, Any]) -> list[float]:
        """Quantiles of each group: a record that is added or removed moves a rank by at most 1, as the library says."""
        bounds = tuple(self.asked["bounds"][part["column"]])
        found: list[float] = []
        for rows in self.groups():
            values = self.table[part["column"]][rows]
            found += np.ravel(tools.quantile(values, part["numbers"], epsilon=self.share, bounds=bounds)).tolist()
        return found

    def counts(self, part: dict[str, Any]) -> list[float]:
        """Counts of all levels or parts, or the levels with most records."""
        column = self.question["by"] or {"histogram": "part"}.get(part["kind"], part["column"])
        size = int(part["numbers"][0]) if part["kind"] == "histogram" else self.asked["levels"][column]
        epsilon = self.epsilon / 2 if self.replaced else self.epsilon
        found, _ = tools.histogram(self.table[column], epsilon=epsilon, bins=np.arange(size + 1) - 0.5)
        if part["kind"] == "top":
            return np.argsort(-found)[: int(part["numbers"][0])].astype(float).tolist()
        return np.asarray(found, float).tolist()


def main(asked: Path, table: Path, told: Path) -> None:
    """Answer every question as often as is asked."""
    wanted, given = json.loads(asked.read_text()), dict(np.load(table))
    found = []
    for text, question in ((q["text"], q) for q in wanted["questions"]):
        for setting in ((r, e) for r in wanted["relations"] for e in wanted["epsilons"]):
            asker = Asker(wanted, given, question, setting)
            if asker.answer() is None:
                continue
            start = time.process_time()
            answers = [asker.answer() for _ in range(wanted["runs"])]
            seconds = (time.process_time() - start) / len(answers)
            way = "tools"
            found.append(
                {"question": text, "relation": setting[0], "epsilon": setting[1], "way": way, "answers": answers}
                | {"seconds": seconds}
            )
            print(text, setting, flush=True)
    told.write_text(json.dumps({"version": metadata.version("diffprivlib"), "told": found}))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
