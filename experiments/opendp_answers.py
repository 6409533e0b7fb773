"""Answers of OpenDP to the questions of ``question_list``: run by the Python of .venv-questions.

Usage: .venv-questions/bin/python experiments/opendp_answers.py ASKED.json TABLE.npz TOLD.json

Each question is asked in every way that its documentation has for it: the Polars interface, with public groups and, for
a record that is replaced, a public number of rows and two contributions; and the framework, with data of known size, a
resized copy where the size is private, scored candidates for quantiles, a tree of counts, or a noisy top k. A
measurement is made once and called for each repetition; its time is that of making it and of one call.
"""

import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import opendp.prelude as dp
import polars as pl

dp.enable_features("contrib")
MOST_ROWS = 100_000  # a public bound on the number of rows
MOST_CANDIDATES = 200_000  # more take seconds for one answer
Numbers = list[float]
Way = Callable[[], Callable[[], Numbers]]  # makes a measurement, which answers


class Asker:
    """One question at one epsilon, for one relation between neighbours: its ways by name."""

    def __init__(self, asked: dict[str, Any], table: Any, question: dict[str, Any], setting: tuple[str, float]) -> None:
        self.asked, self.table, self.question = asked, table, question
        self.replaced, self.epsilon = setting[0] == "replace", setting[1]
        self.parts, self.by = question["parts"], question["by"]
        self.kind, self.rows = self.parts[0]["kind"], len(table["age"])
        self.distance = 2 if self.replaced else 1  # added or removed records

    def ways(self) -> Iterator[tuple[str, Way]]:
        """All ways that this question has."""
        if self.kind == "quantile":
            yield from self.quantile_ways()
            return
        if self.kind == "variance":
            yield from self.variance_ways()
            return
        yield "polars", self.by_polars
        if self.kind == "top":
            yield "noisy top k", self.top
        if self.replaced and not self.by and self.question["where"]:
            yield "sums of known size", self.masked
        if self.kind == "mean" and not self.by and not self.replaced:
            yield "count, resize, sized mean", self.resized
        if len(self.parts) > 2 and not self.replaced:
            yield "polars, one length", self.one_length

    def meant(self) -> Any:
        """Which rows the question is about."""
        found = np.full(self.rows, True)
        for name, sign, value in self.question["where"]:
            found &= self.table[name] == value if sign == "=" else self.table[name] >= value
        return found

    def bounds(self, part: dict[str, Any]) -> tuple[int, int]:
        """The bounds of an aggregate's column."""
        low, high = self.asked["bounds"][part["column"]]
        return low, high

    # by Polars

    def query(self, terms: list[Any], by: str = "", more: str = "") -> Any:
        """The rows and a measurement of them by the Polars interface."""
        columns = sorted({p["column"] for p in self.parts} | {n for n, _, _ in self.question["where"]} | {by, more})
        frame = pl.LazyFrame({n: self.table[n] for n in columns if n})
        if not any(columns):
            frame = pl.LazyFrame({"age": self.table["age"]})
        known: dict[str, Any] = {"invariant": "lengths", "max_length": self.rows} if self.replaced else {}
        margins = [dp.polars.Margin(**({"max_length": MOST_ROWS} | known))]
        if by:
            margins.append(dp.polars.Margin(by=[by], max_length=MOST_ROWS, invariant="keys"))
        context = dp.Context.compositor(
            data=frame,
            privacy_unit=dp.unit_of(contributions=self.distance),
            privacy_loss=dp.loss_of(epsilon=self.epsilon),
            split_evenly_over=1,
            margins=margins,
        )
        query = context.query()
        for name, sign, value in self.question["where"]:
            query = query.filter(pl.col(name) == value if sign == "=" else pl.col(name) >= value)
        query = query.group_by(by).agg(*terms) if by else query.select(*terms)
        return frame, query.resolve()

    def term(self, part: dict[str, Any], place: int) -> Any:
        """An aggregate in Polars."""
        if part["kind"] in ("count", "histogram", "top"):
            return dp.len(signed=True).alias(f"x{place}")
        low, high = self.bounds(part)
        column = pl.col(part["column"]).fill_null(low)
        return {"sum": column.dp.sum, "mean": column.dp.mean}[part["kind"]]((low, high)).alias(f"x{place}")

    def by_polars(self) -> Callable[[], Numbers]:
        """The question as the Polars interface has it; a mean beside a count is a sum over this count."""
        part = self.parts[0]
        by = self.by or {"histogram": "part", "top": part["column"]}.get(self.kind, "")
        shared = [p["kind"] for p in self.parts] == ["count", "mean"]
        terms = [
            self.term(p | {"kind": "sum"} if shared and p["kind"] == "mean" else p, i) for i, p in enumerate(self.parts)
        ]
        frame, measurement = self.query(terms, by)

        def answer() -> Numbers:
            found = measurement(frame).collect()
            if by:
                found = found.sort("x0", descending=True).head(5) if self.kind == "top" else found.sort(by)
            columns = [by] if self.kind == "top" else [f"x{i}" for i in range(len(terms))]
            numbers = found.select(columns).to_numpy().astype(float).ravel().tolist()
            return [numbers[0], numbers[1] / max(numbers[0], 1.0)] if shared else numbers

        return answer

    def one_length(self) -> Callable[[], Numbers]:
        """Several means of the same rows: sums over one length."""
        terms = [dp.len(signed=True).alias("n"), *(self.term(p | {"kind": "sum"}, i) for i, p in enumerate(self.parts))]
        frame, measurement = self.query(terms)

        def answer() -> Numbers:
            count, *sums = measurement(frame).collect().to_numpy().astype(float).ravel().tolist()
            return [total / max(count, 1.0) for total in sums]

        return answer

    # by the framework

    def scaled(self, make: Callable[[float], Any], epsilon: float, distance: int | None = None) -> Any:
        """The measurement with the least noise that costs epsilon."""
        far = self.distance if distance is None else distance
        return make(dp.binary_search_param(make, d_in=far, d_out=epsilon, T=float))

    def sized_sum(self, values: Any, bounds: tuple[int, int], epsilon: float) -> Callable[[], float]:
        """A sum of a known number of integers, one of which is replaced."""
        domain = dp.vector_domain(dp.atom_domain(bounds=bounds, T="i64"), size=self.rows)
        total = (domain, dp.symmetric_distance()) >> dp.t.then_sum()
        measurement = self.scaled(lambda scale: total >> dp.m.then_laplace(scale), epsilon)
        return lambda: float(measurement(values))

    def masked(self) -> Callable[[], Numbers]:
        """Counts and sums of some rows as sums over all, with 0 for the others."""
        rows = self.meant()
        mean = self.parts[-1] if self.parts[-1]["kind"] == "mean" else None
        count = self.sized_sum(rows.astype(np.int64), (0, 1), self.epsilon / (2 if mean else 1))
        if mean is None:
            return lambda: [count()]
        low, high = self.bounds(mean)
        values = np.where(rows, self.table[mean["column"]], 0)
        total = self.sized_sum(values, (min(low, 0), max(high, 0)), self.epsilon / 2)

        def answer() -> Numbers:
            number = count()
            ratio = total() / max(number, 1.0)
            return [number, ratio] if len(self.parts) > 1 else [ratio]

        return answer

    def private_size(self, values: Any, epsilon: float) -> Callable[[], int]:
        """A noisy number of rows."""
        space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
        measurement = self.scaled(lambda scale: space >> dp.t.then_count() >> dp.m.then_laplace(scale), epsilon)
        return lambda: max(int(measurement(values)), 2)

    def sized(self, values: Any, part: dict[str, Any], size: int, epsilon: float) -> float:
        """A mean or variance after resizing to a number that is public by now."""
        low, high = map(float, self.bounds(part))
        space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
        resized = space >> dp.t.then_clamp((low, high)) >> dp.t.then_resize(size, (low + high) / 2)
        last = dp.t.then_mean() if part["kind"] == "mean" else dp.t.then_variance(ddof=0)
        return float(self.scaled(lambda scale: resized >> last >> dp.m.then_laplace(scale), epsilon)(values))

    def resized(self) -> Callable[[], Numbers]:
        """A noisy count, then means or variances of so many rows."""
        rows, count_too = self.meant(), self.kind == "count"
        parts = [p for p in self.parts if p["kind"] != "count"]
        share = self.epsilon / (len(parts) + 1)
        values = [self.table[p["column"]][rows].astype(float) for p in parts]
        count = self.private_size(values[0], share)

        def answer() -> Numbers:
            number = count()
            found = [self.sized(v, p, number, share) for v, p in zip(values, parts, strict=True)]
            return [float(number), *found] if count_too else found

        return answer

    def variance_ways(self) -> Iterator[tuple[str, Way]]:
        """Of known size, or as above, or from sums of x and of its square."""
        if self.replaced:
            yield "sized variance", self.sized_variance
            return
        yield "count, resize, sized variance", self.resized
        yield "polars: sums of x and its square, length", self.from_squares

    def sized_variance(self) -> Callable[[], Numbers]:
        """Of a public number of rows."""
        part = self.parts[0]
        bounds = tuple(map(float, self.bounds(part)))
        domain = dp.vector_domain(dp.atom_domain(bounds=bounds, T=float, nan=False), size=self.rows)
        found = (domain, dp.symmetric_distance()) >> dp.t.then_variance(ddof=0)
        measurement = self.scaled(lambda scale: found >> dp.m.then_laplace(scale), self.epsilon)
        values = self.table[part["column"]].astype(float)
        return lambda: [float(measurement(values))]

    def from_squares(self) -> Callable[[], Numbers]:
        """Two sums and a length, a third of epsilon each."""
        name = self.parts[0]["column"]
        low, high = self.bounds(self.parts[0])
        self.table["squared"] = self.table[name].astype(np.int64) ** 2
        first = pl.col(name).fill_null(low).dp.sum((low, high)).alias("x0")
        second = pl.col("squared").fill_null(low**2).dp.sum((low**2, high**2)).alias("x1")
        frame, measurement = self.query([first, second, dp.len(signed=True).alias("x2")], more="squared")

        def answer() -> Numbers:
            one, two, count = measurement(frame).collect().to_numpy().astype(float).ravel().tolist()
            count = max(count, 1.0)
            return [two / count - (one / count) ** 2]

        return answer

    def quantile_ways(self) -> Iterator[tuple[str, Way]]:
        """Candidates at several steps, or a tree of counts."""
        low, high = self.bounds(self.parts[0])
        if self.by:
            yield "polars, all candidates", self.grouped_quantiles
            return
        for step in (1, 10, 100, 1000):
            if (high - low) // step < MOST_CANDIDATES and (step == 1 or high - low > 1000 * step):
                yield f"candidates every {step}", lambda step=step: self.scored(step)
        if len(self.parts[0]["numbers"]) > 1:
            for branch in (4, 16):
                yield f"tree of {branch}", lambda branch=branch: self.tree(branch)

    def grouped_quantiles(self) -> Callable[[], Numbers]:
        """Quantiles of public groups, an equal share for each."""
        part = self.parts[0]
        low, high = self.bounds(part)
        column, candidates = pl.col(part["column"]).fill_null(low), list(range(low, high + 1))
        terms = [column.dp.quantile(q, candidates).alias(f"x{i}") for i, q in enumerate(part["numbers"])]
        frame, measurement = self.query(terms, self.by)
        names = [f"x{i}" for i in range(len(terms))]
        return lambda: (
            measurement(frame).collect().sort(self.by).select(names).to_numpy().astype(float).ravel().tolist()
        )

    def scored(self, step: int) -> Callable[[], Numbers]:
        """Quantiles one by one, an equal share for each."""
        part = self.parts[0]
        low, high = self.bounds(part)
        candidates = list(range(low, high + 1, step))
        known = {"size": self.rows} if self.replaced else {}
        space = dp.vector_domain(dp.atom_domain(T=int), **known), dp.symmetric_distance()
        values, share = self.table[part["column"]].astype(np.int32), self.epsilon / len(part["numbers"])

        def make(probability: float) -> Any:
            def private(scale: float, among: Any) -> Any:
                return dp.m.make_private_quantile(*space, dp.max_divergence(), among, probability, scale)

            few = [low, high]  # the scale is the same for any candidates
            return private(dp.binary_search_param(lambda s: private(s, few), self.distance, share, T=float), candidates)

        made = [make(probability) for probability in part["numbers"]]
        return lambda: [float(measurement(values)) for measurement in made]

    def tree(self, branch: int) -> Callable[[], Numbers]:
        """Quantiles from a tree of noisy counts, made consistent; leaves are integers, or 2,000 equal parts."""
        part = self.parts[0]
        low, high = self.bounds(part)
        width = max(1, math.ceil((high + 1 - low) / 2000))
        leaves = list(range(math.ceil((high + 1 - low) / width)))
        domain = dp.vector_domain(dp.atom_domain(T=int))
        counts = (domain, dp.symmetric_distance()) >> dp.t.then_count_by_categories(leaves, null_category=False)
        tree = counts >> dp.t.then_b_ary_tree(len(leaves), branch)
        measurement = self.scaled(lambda scale: tree >> dp.m.then_laplace(scale), self.epsilon)
        edges = [float(low + width * i) for i in range(len(leaves) + 1)]
        consistent = dp.t.make_consistent_b_ary_tree(branch)
        values = ((self.table[part["column"]] - low) // width).astype(np.int32)

        def answer() -> Numbers:
            last = consistent(measurement(values))[: len(leaves)]
            reached = np.cumsum(np.maximum(last, 0.0))
            places = [min(int(np.searchsorted(reached, q * reached[-1])), len(leaves) - 1) for q in part["numbers"]]
            return [edges[i] + (width - 1) / 2 for i in places]

        return answer

    def top(self) -> Callable[[], Numbers]:
        """The levels with most records, without their counts."""
        part = self.parts[0]
        counts = np.bincount(self.table[part["column"]], minlength=self.asked["levels"][part["column"]]).astype(
            np.int32
        )
        space = dp.vector_domain(dp.atom_domain(T=int)), dp.linf_distance(T=int, monotonic=not self.replaced)
        k = int(part["numbers"][0])
        chosen = lambda scale: space >> dp.m.then_noisy_top_k(dp.max_divergence(), k, scale)  # noqa: E731
        measurement = self.scaled(chosen, self.epsilon, distance=1)
        return lambda: [float(v) for v in measurement(counts)]


def answered(asker: Asker, name: str, way: Way, runs: int) -> dict[str, Any] | None:
    """Repeated answers of one way; None where it is refused."""
    about = {"question": asker.question["text"], "epsilon": asker.epsilon, "way": name}
    start = time.process_time()
    try:
        answer = way()
        answer()
    except (dp.OpenDPException, TypeError, ValueError) as refused:
        print("refused", about, str(refused)[:300], flush=True)
        return None
    seconds = time.process_time() - start
    relation = "replace" if asker.replaced else "add-remove"
    return about | {"relation": relation, "seconds": seconds, "answers": [answer() for _ in range(runs)]}


def main(asked: Path, table: Path, told: Path) -> None:
    """Answer every question in every way as often as is asked."""
    wanted, given, found = json.loads(asked.read_text()), dict(np.load(table)), []
    asks = [(q, (r, e)) for q in wanted["questions"] for r in wanted["relations"] for e in wanted["epsilons"]]
    for question, setting in asks:
        asker = Asker(wanted, given, question, setting)
        for name, way in list(asker.ways()):
            line = answered(asker, name, way, wanted["runs"])
            found += [line] * (line is not None)
            print(question["text"], setting, name, f"{time.process_time():.0f} s", flush=True)
    told.write_text(json.dumps({"version": metadata.version("opendp"), "told": found}))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
