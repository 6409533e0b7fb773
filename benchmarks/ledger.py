"""How a ledger grows: reserve, ask and show beside 10 to 10,000 asks; and the price of a release after 100 mixed ones.

Usage: python benchmarks/ledger.py

Times of growth are seconds of a processor, not of the clock: commits are durable, and wait for a disk. The exponent is
the slope of the logarithm of the time with the logarithm of the number of asks: 0 is flat, 1 linear. Ledgers are filled
with the entries of one ask, written many times over, chained as any others.
"""

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv

from faults.server import Server, programs
from sfumato.ledger.database import ENTRIES, HEADING
from sfumato.ledger.entries import Entry, canonical, sealed
from sfumato.ledger.journal import Journal
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.sources import Origin
from sfumato.ledger.state import Request
from sfumato.pipeline.session import Session
from sfumato.privacy.composition import Book, Charge, Composition
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import ChiSquare, FreshGaussian, FreshLaplace, Gaussian, Laplace, Response
from sfumato.tables.schema import Schema

CHEAP = Laplace(1.0, 100.0)
CAP = Guarantee(epsilon=200.0, delta=1e-3)
ASKS = (10, 100, 1_000, 10_000)
COMPOSITIONS: tuple[Composition, ...] = ("filter", "basic", "tight")
QUESTION, EPSILON, TIMES = "c0 < 0.5", 0.01, 5
ROWS, SCHEMA = 1_000, Schema.reals(3, low=0, high=1)


# ---- growth ----------------------------------------------------------------------------------------------------------


def filled(place: str, folder: Path, asks: int, composition: Composition) -> Ledger:
    """A new ledger with so many asks; the last are real ones, so that there is a snapshot."""
    ledger = Ledger.create(place)
    ledger.add_dataset("people", Guarantee(epsilon=1e6, delta=1e-6), composition=composition)
    session(folder, ledger).ask(QUESTION, epsilon=EPSILON)
    write(ledger.journal, asks - 2)
    session(folder, ledger).ask(QUESTION, epsilon=EPSILON)
    return Ledger(place)


def write(journal: Journal, asks: int) -> None:
    """The entries of the first ask again and again, in one transaction."""
    entries = journal.entries()
    rows = list(repeated(entries[-1], entries[1:4], asks))
    with journal._database.writing() as connection:
        connection.execute(ENTRIES.insert(), [row for row, _ in rows])
        connection.execute(HEADING.update().values(entries=rows[-1][1].number, last=rows[-1][1].hash))


def repeated(last: Entry, ask: list[Entry], asks: int) -> Iterator[tuple[dict[str, object], Entry]]:
    """Rows of further asks, each with its entry."""
    for _ in range(asks):
        first = last.number + 1
        for old in ask:
            body = old.body | ({"reservation": first} if "reservation" in old.body else {})
            last = sealed(last.hash, last.number + 1, old.at, (old.dataset, old.kind), body)
            row = {"number": last.number, "at": last.at, "dataset": last.dataset, "kind": last.kind}
            yield row | {"body": canonical(body), "hash": last.hash}, last


def session(folder: Path, ledger: Ledger) -> Session:
    """Questions about a small file."""
    return Session(folder / "people.csv", schema=SCHEMA, ledger=ledger)


def work(job: Callable[[], object], times: int = TIMES) -> float:
    """The least seconds of a processor, this one's and those of processes that it waited for."""
    found = []
    for _ in range(times):
        before = spent()
        job()
        found.append(spent() - before)
    return min(found)


def spent() -> float:
    """Seconds of processors up to now."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def measured(place: str, folder: Path, asks: int, composition: Composition) -> dict[str, float]:
    """What operations cost on a ledger with so many asks."""
    ledger = filled(place, folder, asks, composition)
    asking, account = session(folder, ledger), ledger.account()
    request = asking._counting(1, EPSILON)
    command = [sys.executable, "-m", "sfumato.cli", "ask", str(folder / "people.csv"), "--schema"]
    command += [str(folder / "people.toml"), "--ledger", place, "--epsilon", str(EPSILON), QUESTION]
    return {
        "reserve": work(lambda: account.reserve(request)),
        "ask": work(lambda: asking.ask(QUESTION, epsilon=EPSILON)),
        "open": work(lambda: Ledger(place).account().dataset),
        "show": work(lambda: Ledger(place).datasets(), 1),
        "new process": work(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL), 2),  # noqa: S603 - ours
    }


def growth(database: str, places: Callable[[], str], folder: Path, composition: Composition) -> None:
    """The table for one database."""
    table = {asks: measured(places(), folder, asks, composition) for asks in ASKS}
    print(f"{database}, {composition} composition: processor seconds on a ledger with so many asks")
    print(f"  {'':12}" + "".join(f"{asks:>10,}" for asks in ASKS) + "   10,000 / 10   exponent")
    for name in table[ASKS[0]]:
        times = [table[asks][name] for asks in ASKS]
        slope = np.polyfit(np.log(ASKS), np.log(times), 1)[0]
        print(f"  {name:12}" + "".join(f"{t:>10.4f}" for t in times) + f"{times[-1] / times[0]:>14.2f}{slope:>11.2f}")


def grown() -> None:
    """Both databases."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        values = np.random.default_rng(1).random((3, ROWS))
        pv.write_csv(pa.table({f"c{i}": column for i, column in enumerate(values)}), folder / "people.csv")
        (folder / "people.toml").write_text(SCHEMA.to_toml(), encoding="utf-8")
        numbers = iter(range(1000))
        for composition in COMPOSITIONS:
            growth("SQLite", lambda: str(folder / f"{next(numbers)}.db"), folder, composition)
        if programs() is None:
            print("PostgreSQL is not installed")
            return
        server = stack.enter_context(Server.start(folder / "postgres.log"))
        growth("PostgreSQL", server.emptied, folder, COMPOSITIONS[0])


# ---- prices ----------------------------------------------------------------------------------------------------------


def mixed(count: int) -> list[Charge]:
    """Releases of six laws, all of different sizes but for the fresh ones, of which there are a few sizes."""
    laws = [
        lambda i: (0.1, 0.0, Laplace(1.0, 10 + i)),
        lambda i: (0.3, 1e-6, Gaussian(1.0, 15 + i)),
        lambda i: (0.2, 0.0, Response(0.2 + i / 1e4)),
        lambda i: (0.5, 1e-6, ChiSquare(rows=119, ratio=1 / (100 + i))),
        lambda i: (0.5, 1e-6, FreshGaussian(family="gaussian", dim_in=64, dim_out=16, radius=1.0, scale=9 + i % 4)),
        lambda i: (0.5, 1e-6, FreshLaplace(dim_out=8, radius=1.0, laplace_scale=8 + i % 4)),
    ]
    return [Charge.of(*laws[i % len(laws)](i)) for i in range(count)]


def priced() -> None:
    """Print seconds: the first price in a process, with the library's import, and the next."""
    charges = mixed(100)
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.create(Path(folder) / "b.db")
        ledger.add_dataset("people", CAP)
        requests = [
            Request(
                "Mixed", Guarantee(epsilon=c.epsilon, delta=c.delta), c.loss, lambda _: CHEAP, 3, "{}", Origin("memory")
            )
            for c in charges
        ]
        begun = time.perf_counter()
        for request in requests:
            ledger.account().reserve(request)
        print(f"reserve, draw no noise: {(time.perf_counter() - begun) / 100:.2f} s each, over 100 mixed releases")
        _forget()
        begun = time.perf_counter()
        (quote,) = ledger.account().price(requests[0])
        print(f"price with 100 mixed releases before it, nothing remembered: {time.perf_counter() - begun:.2f} s")
        begun = time.perf_counter()
        ledger.account().price(requests[1])
        print(f"another price in the same process: {time.perf_counter() - begun:.2f} s")
    for total in Book(charges).totals(CAP.delta):
        print(f"  {total.bound:9} epsilon {total.epsilon:.3f} at delta {CAP.delta:g}")
    print(f"  the price: from {quote.before.epsilon:.3f} to {quote.after.epsilon:.3f} by {quote.after.bound}")


def _forget() -> None:
    from sfumato.privacy import losses  # noqa: PLC0415

    for value in vars(losses).values():
        if hasattr(value, "cache_clear"):
            value.cache_clear()


def main() -> None:
    """Growth, then prices."""
    grown()
    priced()


if __name__ == "__main__":
    main()
