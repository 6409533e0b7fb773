"""Mutants: small wrong changes of the modules that carry privacy, and whether a test notices each.

Usage: make mutants [COUNT=300] [SEED=22] [MINUTES=60] [SECONDS=60] [ONLY="noise profile"] [RECORD=1]
       [FRESH=1]

The sample is the COUNT mutants of lowest hash with the seed, so a change of one line leaves the others in it. For each,
the tests that run its line are run, in a fork that sees a changed copy of the package: those of the module's own file
first, quick ones first, until one fails or SECONDS of them have passed. What is known is kept in .mutants/, and a run
that was stopped goes on from there; a verdict is found again when the module, or the test that gave it, has changed.
Mutants that change nothing that can be observed are listed in equivalent.toml, each with its reason.
"""

import argparse
import hashlib
import json
import os
import re
import sys
import tempfile
import time
import tomllib
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import covering
import forking
from mutations import Mutant, mutants_of

HERE, ROOT = Path(__file__).parent, forking.ROOT
KEPT = ROOT / ".mutants"
PAGE = ROOT / "docs" / "mutants.md"
GOAL = 0.95
PACKAGES = (
    "numerics",
    "randomness",
    "privacy",
    "projection",
    "ledger",
    "mechanisms",
    "mechanisms/synthetic",
    "answering",
    "aggregates",
)
AFTER = {  # no part in what is promised: types, files, bounds for attackers, what sees published numbers only
    "numerics/types.py",
    "privacy/attack_bounds.py",
    "privacy/guarantee.py",
    "projection/moment_grid.py",
    "projection/projection.py",
    "ledger/database.py",
    "ledger/journal.py",
    "mechanisms/base.py",
    "randomness/idealized.py",
    "randomness/stream.py",
    "aggregates/estimates.py",
}


def files() -> list[str]:
    """The files that are mutated, within the package."""
    found = (
        f"{package}/{path.name}" for package in PACKAGES for path in sorted((forking.PACKAGE / package).glob("*.py"))
    )
    return [name for name in found if name not in AFTER and not name.endswith("__init__.py")]


def sample(count: int, seed: int) -> list[Mutant]:
    """The first mutants in the order of a hash with the seed; one for each constant."""
    made: dict[tuple[str, int, int, str], tuple[str, Mutant]] = {}
    for file in files():
        for mutant in mutants_of(file, (forking.PACKAGE / file).read_text(encoding="utf-8")):
            rank = hashlib.sha256(f"{seed}\n{mutant.key}".encode()).hexdigest()
            place = (file, mutant.start, mutant.end, mutant.change if mutant.kind != "constant" else "")
            made[place] = min(made.get(place, (rank, mutant)), (rank, mutant), key=lambda pair: pair[0])
    return [mutant for _, mutant in sorted(made.values(), key=lambda pair: pair[0])][:count]


def equivalents() -> dict[tuple[str, ...], str]:
    """The mutants that no test can tell from the original, with reasons."""
    entries = tomllib.loads((HERE / "equivalent.toml").read_text(encoding="utf-8"))["mutant"]
    named_by = ("file", "function", "line", "change")
    return {(*(e[name] for name in named_by), str(e.get("turn", 0))): e["reason"] for e in entries}


def named(mutant: Mutant) -> tuple[str, ...]:
    """How equivalent.toml names a mutant; its turn is 0 there, unless the entry says another."""
    return (mutant.file, mutant.function, mutant.line, mutant.change, str(mutant.turn))


class Chosen:
    """A plugin of pytest: only these tests, in this order; and the first that failed."""

    def __init__(self, tests: list[str], found: Path) -> None:
        self.order, self.found = {test: i for i, test in enumerate(tests)}, found

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Choose and sort."""
        items[:] = sorted((i for i in items if i.nodeid in self.order), key=lambda i: self.order[i.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Write which test runs, in case that it never ends."""
        self.found.write_text(nodeid, encoding="utf-8")

    def pytest_collectreport(self, report: Any) -> None:
        """A file that cannot be imported any more is a failure as well."""
        if report.failed:
            self.found.write_text(report.nodeid, encoding="utf-8")


@dataclass(slots=True)
class Trials:
    """The verdicts, and how they are found."""

    copy: forking.Copy
    map: covering.Map
    seconds: float
    _digests: dict[Path, str] = field(default_factory=dict)

    def digest(self, path: Path) -> str:
        """The hash of a file, computed once."""
        return self._digests.setdefault(path, covering.digest([path]) if path.is_file() else "")

    def kept(self, mutant: Mutant) -> Path:
        """Where a verdict is kept: a file for each, so that several runs can work side by side."""
        return KEPT / "verdicts" / f"{hashlib.sha256(mutant.key.encode()).hexdigest()[:24]}.json"

    def verdict(self, mutant: Mutant) -> dict[str, Any]:
        """What is known of a mutant, whether or not it still holds."""
        path = self.kept(mutant)
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def known(self, mutant: Mutant) -> bool:
        """Whether the kept verdict still holds."""
        kept = self.verdict(mutant)
        return bool(kept) and kept["of"] == self._of(mutant, kept["by"])

    def _of(self, mutant: Mutant, by: str) -> str:
        """What a verdict depends on: the module and the test that failed; all tests that there were, if none did."""
        if by:
            return self.digest(forking.PACKAGE / mutant.file) + self.digest(ROOT / by.partition("::")[0])
        tests = sorted(self.map.of(mutant.file, mutant.first, mutant.last, static=mutant.static))
        alike = [self.digest(ROOT / name) for name in sorted({test.partition("::")[0] for test in tests})]
        whole = "\n".join([self.digest(forking.PACKAGE / mutant.file), *tests, *alike, str(self.seconds)])
        return hashlib.sha256(whole.encode()).hexdigest()

    def find(self, mutant: Mutant) -> dict[str, Any]:
        """Run tests until one fails; the verdict, which is kept."""
        start, by = time.monotonic(), ""
        text = (forking.PACKAGE / mutant.file).read_text(encoding="utf-8")
        with self.copy.changed(mutant.file, mutant.apply(text)):
            for tests in self._batches(mutant):
                by = self._first_failure(tests)
                if by:
                    break
        verdict = {"by": by, "of": self._of(mutant, by), "seconds": round(time.monotonic() - start, 1)}
        self.kept(mutant).write_text(json.dumps(verdict | {"mutant": mutant.key}, indent=1), encoding="utf-8")
        return verdict

    def _batches(self, mutant: Mutant) -> list[list[str]]:
        """What caught it before; the module's own tests and others, a few seconds of each; then the rest in time."""
        tests = self.map.of(mutant.file, mutant.first, mutant.last, static=mutant.static)
        before, own = self.verdict(mutant).get("by", ""), covering.own(mutant.file)
        batches: list[list[str]] = [[before] if before in tests else [], [], [], []]
        spent = [0.0, 0.0]
        for test in (t for t in tests if t != before):
            other = not test.startswith(own)
            cost = self.map.seconds[test] + 0.01
            if (sum(spent) if other else 2 * spent[0]) + cost <= self.seconds:  # half of it for the module's own
                spent[other] += cost
                batches[3 if spent[other] > 3 else 2 if other else 1].append(test)
        return [batch for batch in batches if batch]

    def _first_failure(self, tests: list[str]) -> str:
        """The test that failed, or did not end, or could not be imported; empty if all passed."""
        found, output = KEPT / f"running-{os.getpid()}", KEPT / f"output-{os.getpid()}"
        found.write_text("(start)", encoding="utf-8")
        plugins = [Chosen(tests, found), forking.Limits(lambda test: 10 + 10 * self.map.seconds.get(test, 1))]
        paths = list(dict.fromkeys(test.partition("::")[0] for test in tests))
        limit = 600 + 30 * sum(self.map.seconds[test] for test in tests)  # for what waits; what computes has its own
        ended = forking.fork(self.copy, output, lambda: forking.pytest(["-x", *paths], plugins), limit=limit)
        return "" if ended.code == 0 else found.read_text(encoding="utf-8")


def table(mutants: list[Mutant], trials: Trials, alike: dict[tuple[str, ...], str]) -> tuple[list[str], float]:
    """The verdicts by module, as a table; and the share of those caught among those that can be."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for mutant in mutants:
        verdict = trials.verdict(mutant)
        if verdict or named(mutant) in alike:
            column = 2 if named(mutant) in alike else 1 if verdict["by"] else 3
            for name in (mutant.file.removesuffix(".py"), "all"):
                counts[name][0] += 1
                counts[name][column] += 1
    rows = [file.removesuffix(".py") for file in files()]
    lines = ["| module | mutants | caught | equivalent | survived |", "|---|---|---|---|---|"]
    lines += [f"| {name} | {' | '.join(map(str, counts[name]))} |" for name in [*rows, "all"] if name in counts]
    tried, caught, same, _ = counts["all"]
    return lines, caught / max(1, tried - same)


def record(lines: list[str], seed: int) -> None:
    """Write the table into its page, where that has a place for this seed."""
    text = PAGE.read_text(encoding="utf-8")
    begin, end = f"<!-- made by: make mutants SEED={seed} -->", "<!-- end -->"
    made = "\n".join([begin, *lines, end])
    PAGE.write_text(re.sub(f"{begin}.*?{end}", lambda _: made, text, flags=re.DOTALL), encoding="utf-8")


def say(text: str) -> None:
    """Print now."""
    print(text, flush=True)


def main(arguments: argparse.Namespace) -> int:
    """Try the sample, show what survived, and the table."""
    end = time.monotonic() + 60 * arguments.minutes
    (KEPT / "verdicts").mkdir(parents=True, exist_ok=True)
    alike = equivalents()
    mutants = [m for m in sample(arguments.count, arguments.seed) if not arguments.only or _within(m, arguments.only)]
    forking.load()
    with tempfile.TemporaryDirectory() as folder:
        trials = Trials(forking.Copy(Path(folder)), covering.Map(KEPT / "map", files()), arguments.seconds)
        trials.map.gather(trials.copy, say)
        left = [m for m in mutants if named(m) not in alike and (arguments.fresh or not trials.known(m))]
        say(f"{len(mutants)} mutants, {len(left)} to try")
        while left and time.monotonic() < end:
            mutant = left.pop(0)
            if trials.known(mutant) and not arguments.fresh:  # by another run, meanwhile
                continue
            verdict = trials.find(mutant)
            by, where = verdict["by"], f"{mutant.file}:{mutant.first} {mutant.change}"
            say(f"{'caught' if by else 'SURVIVED'} {where} ({by.partition('::')[2] or by}, {verdict['seconds']} s)")
    return _close(mutants, len(left), trials, alike, arguments)


def _within(mutant: Mutant, only: list[str]) -> bool:
    return Path(mutant.file).stem in only or mutant.file.removesuffix(".py") in only


def _close(mutants: list[Mutant], left: int, trials: Trials, alike: dict[tuple[str, ...], str], arguments: Any) -> int:
    """Show survivors and the table; whether enough were caught."""
    for mutant in mutants:
        if named(mutant) not in alike and trials.verdict(mutant).get("by") == "":
            say(f"survivor: {mutant.file}:{mutant.first} in {mutant.function}\n  {mutant.line}\n  {mutant.change}")
    lines, share = table(mutants, trials, alike)
    said = f"Seed {arguments.seed}: {share:.1%} of the mutants that are not equivalent were caught."
    say("\n".join([*lines, said + (f" {left} were not tried yet: run it again." if left else "")]))
    if arguments.record and not left and not arguments.only:
        record([said, "", *lines], arguments.seed)
    return 0 if share >= GOAL else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=22)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seconds", type=float, default=60.0, help="of tests for one mutant")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--fresh", action="store_true")
    sys.exit(main(parser.parse_args()))
