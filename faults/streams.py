"""Streams killed at random instants: ``python -m faults.streams --kills 100``.

A process makes a stream on a ledger, appends periods, publishes each, and extends the horizon when it is full, and says
what it has done. It is killed (SIGKILL) at a random instant, and another one goes on where it was. After every kill,
and in the end, the judge looks at the file, the ledger and the folders:

lost     : a period that was reported as appended is not there, or a folder that was reported does not load.
twice    : a measurement differs from what it was, or a publication from what the stream would publish of its period
           (two draws for one node); more reservations than the stream has entries, but for one that was never drawn.
untrue   : the ledger has spent less than the stream promises, or an error other than a refusal.
"""

import argparse
import random
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

from sfumato.errors import LeftoverWarning, SfumatoError
from sfumato.ledger.ledger import Ledger
from sfumato.mechanisms.covariance import Covariance
from sfumato.pipeline.stream import Stream
from sfumato.privacy.guarantee import Guarantee
from sfumato.releases.release import load
from sfumato.streams import running
from sfumato.streams.description import StreamDescription
from sfumato.streams.factorisation import Node
from sfumato.streams.store import StreamStore
from sfumato.tables.schema import Schema

SCHEMA = Schema.reals(2, low=0, high=1)
PROMISE = Guarantee(epsilon=1.0, delta=1e-6, unit="record")
ROWS = np.random.default_rng(1).random((200, 2))
_LONGEST = 0.6  # seconds until a kill, at most
_MORE = 3  # periods that an extension adds


def work(folder: Path, method: str) -> None:
    """Go on with the stream in a folder until killed, and report every step that is done."""
    warnings.simplefilter("ignore", LeftoverWarning)
    stream = Stream(folder / "a.stream")
    Ledger(folder / "budget.db").dataset("people")  # so that all is loaded
    StreamDescription.new(Covariance(), SCHEMA, PROMISE, 2, method)
    _say("ready")
    if not Path(stream.path).exists():
        Stream.init(
            stream.path, schema=SCHEMA, guarantee=PROMISE, horizon=2, method=method, ledger=folder / "budget.db"
        )
    while True:
        number = len(stream.periods) + 1
        if number > stream.description.horizon:
            stream.extend(stream.description.horizon + _MORE)
            _say(f"extended {stream.description.horizon}")
        stream.append(ROWS, period=f"p{number}")
        _say(f"appended p{number}")
        stream.publish(folder / f"p{number}.release")
        _say(f"published p{number}")


def _say(text: str) -> None:
    print(text, flush=True)


class StreamJudge:
    """What is known of a stream from outside, and whether the next look agrees with it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.counts = folder, Counter[str](lost=0, twice=0, untrue=0)
        self._seen: dict[Node, bytes] = {}
        self._reported: set[str] = set()
        self._folders: dict[str, str] = {}

    def heard(self, lines: list[str]) -> None:
        """Take note of what a process has reported."""
        for line in lines:
            word, _, what = line.partition(" ")
            if word == "appended":
                self._reported.add(what)
            if word == "published" and not (self.folder / f"{what}.release").is_dir():
                self._fault("lost", f"{what} was published")

    def look(self) -> None:
        """Compare file, ledger and folders with what was there before."""
        stream = Stream(self.folder / "a.stream")
        entries: tuple[int, ...] = ()
        if Path(stream.path).exists():
            self._look_at(stream)
            entries = tuple(entry.number for entry in stream.description.entries)
        self._look_at_ledger(entries)

    def _look_at(self, stream: Stream) -> None:
        labels = [period.label for period in stream.periods]
        if not self._reported <= set(labels) or len(set(labels)) < len(labels):
            self._fault("lost", "a period that was appended")
        with StreamStore(Path(stream.path)).reading() as one:
            found = {node: raw.tobytes() for node, raw in running.all_measurements(one, len(labels)).items()}
        if any(found.get(node) != raw for node, raw in self._seen.items()):
            self._fault("twice", "a measurement has changed")
        self._seen = found
        for label in labels:
            folder = self.folder / f"{label}.release"
            if folder.is_dir() and label not in self._folders:
                self._folders[label] = load(folder).manifest["digest"]
                if not np.array_equal(load(folder).columns, stream.release(label).columns):
                    self._fault("twice", f"{label} was published with other noise")

    def _look_at_ledger(self, entries: tuple[int, ...]) -> None:
        ledger = Ledger(self.folder / "budget.db")
        ledger.verify()
        others = [one for one in ledger.dataset("people").releases if one.number not in entries and one.state != "void"]
        if len(others) > 1:
            self._fault("twice", "several reservations are nobody's")
        for one in others:
            if not entries and one.state == "reserved":  # of a stream that was never made
                ledger.void(one.number, "its process was killed")
            elif not entries:
                self._fault("twice", "something was drawn for no stream")

    def finish(self) -> int:
        """The last look: everything is committed once, and the ledger has spent what the stream promises."""
        stream, ledger = Stream(self.folder / "a.stream"), Ledger(self.folder / "budget.db")
        about = stream.description
        dataset = ledger.dataset("people")
        states = Counter(one.state for one in dataset.releases)
        if states["committed"] != len(about.entries) or states["drawn"] or states["reserved"]:
            self._fault("twice", f"the ledger has {dict(states)} for {len(about.entries)} entries")
        if not dataset.total(0).epsilon >= about.guarantee.epsilon * (1 - 1e-6):
            self._fault("untrue", "the ledger has spent less than the stream promises")
        return len(stream.periods)

    def _fault(self, kind: str, what: str) -> None:
        self.counts[kind] += 1
        print(f"{kind}: {what}", file=sys.stderr)


def _run(folder: Path, method: str, seconds: float | None, judge: StreamJudge) -> list[str]:
    """One process, killed so long after it is ready; or, without seconds, as soon as it has done a few steps."""
    command = [sys.executable, "-m", "faults.streams", "--work", str(folder), "--method", method]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stdout is not None
        assert process.stderr is not None
        heard = [process.stdout.readline().strip()]
        if seconds is None:
            heard += [process.stdout.readline().strip() for _ in range(3 * _MORE)]
        else:
            time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        heard += process.stdout.read().split("\n")
        told = process.stderr.read().strip()
    if told:
        judge.counts["untrue"] += 1
        print(f"untrue: {told[-300:]}", file=sys.stderr)
    return [line.strip() for line in heard if line.strip()]


def campaign(folder: Path, kills: int, seed: int, method: str = "square-root") -> Counter[str]:
    """Kill so many processes that work on one stream, and judge after each."""
    chance, judge, steps = random.Random(seed), StreamJudge(folder), Counter[str]()  # noqa: S311
    Ledger.create(folder / "budget.db").add_dataset("people", Guarantee(epsilon=50.0, delta=1e-6, unit="record"))
    for _ in range(kills):
        heard = _run(folder, method, chance.uniform(0, _LONGEST), judge)
        steps[heard[-1].split(" ")[0] if heard else "nothing"] += 1
        judge.heard(heard)
        judge.look()
    judge.heard(_run(folder, method, None, judge))
    judge.look()
    periods = judge.finish()
    last = ", ".join(f"{count} after {word!r}" for word, count in sorted(steps.items()))
    print(f"{method}: {kills} kills ({last}), {periods} periods: {_words(judge.counts)}")
    return judge.counts


def _words(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[kind]} {kind}" for kind in ("lost", "twice", "untrue"))


def main() -> int:
    """The command: half of the kills with each method; exit code 1 if anything is lost, twice or untrue."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--method", default="square-root", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work is not None:
        try:
            work(options.work, options.method)
        except SfumatoError as error:
            print(error, file=sys.stderr)
            return 2
    seed = secrets.randbits(32) if options.seed is None else options.seed
    print(f"seed {seed}")
    found = Counter[str]()
    for place, method in enumerate(("square-root", "tree")):
        folder = Path(tempfile.mkdtemp(prefix="sfumato-streams-"))
        try:
            found += campaign(folder, (options.kills + place) // 2, seed + place, method)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return 1 if any(found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
