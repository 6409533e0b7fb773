"""Two accountants that are not ours, asked what releases cost together, beside what sfumato's ledger says.

Releases are made and charged to a ledger. From their manifests alone (law, sensitivity and scale of the noise, epsilon
of an answer), prv-accountant computes certified bounds of the epsilon that all have together at the cap's delta, and
dp_accounting's RDP accountant an upper one. The ledger must not say less than the certified lower bound. Where it
composes tightly it must not say more than the certified upper bound by more than ``CLOSE``, nor more than RDP.

Broken twins, each of which must be caught, by a lower bound above what they say: a ledger in which the last release is
missing, and one that says its epsilon for half the delta.
"""

import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import sfumato as sf
from verdicts import Verdict, settle

DELTA = 1e-6
EPSILON_ERROR = 2e-3  # prv-accountant's own, in epsilon; in delta a thousandth of what is asked for
CLOSE = 1.01
_REALS = sf.Schema.reals(4, low=-1.0, high=1.0)
_ROWS = np.zeros((3, 4))
_SURVEY = sf.Schema(
    (
        *(sf.Flag(f"f{i}") for i in range(6)),
        *(sf.Category(f"c{i}", ("a", "b", "c")) for i in range(4)),
        *(sf.Category(f"d{i}", tuple("abcde")) for i in range(2)),
    )
)
_EDGES = np.array([[0, 1], [1, 2]])


@dataclass(slots=True)
class Parts:
    """What other accountants are told of the releases: (law, its parameters, how often)."""

    laws: list[tuple[str, tuple[float, ...], int]] = field(default_factory=list)

    def add(self, law: str, *parameters: float, times: int = 1) -> None:
        """One release more, or a stage of one."""
        self.laws.append((law, parameters, times))

    def told(self, manifest: dict[str, Any]) -> None:
        """What a release says of itself."""
        facts = manifest["mechanism"]
        if manifest["guarantee"].get("projection") == "fresh":
            self.add("fresh", facts["radius"], facts["scale"], manifest["projection"]["dim_out"])
        elif "ratio" in facts:
            self.add("chi-square", facts["rows"], facts["ratio"])
        elif "epsilon_per_value" in facts:
            for categories in _categories(facts):
                self.add("response", facts["epsilon_per_value"], categories)
        else:
            for stage in (facts, facts.get("moments")):
                if stage is not None:
                    self.add(facts["noise"], stage["sensitivity"], stage["scale"])


def _categories(facts: dict[str, Any]) -> list[int]:
    """How many answers there are, column by column, from how often the true one is kept."""
    each = np.exp(facts["epsilon_per_value"])
    return [round(float(each / keep - each + 1)) for keep in np.atleast_1d(facts["keep"])]


@dataclass(slots=True)
class Books:
    """A ledger, and beside it what others are told."""

    ledger: sf.Ledger
    parts: Parts = field(default_factory=Parts)
    said: list[float] = field(default_factory=list)

    def _note(self) -> None:
        self.said.append(float(self.ledger.dataset("books").total(0).epsilon))

    def release(self, data: Any, recipe: Any, schema: sf.Schema | None, **promise: Any) -> None:
        """Make a release, charged."""
        guarantee = sf.Guarantee(**promise)
        made = sf.release(data, schema=schema, mechanism=recipe, guarantee=guarantee, ledger=self.ledger)
        self.parts.told(made.manifest)
        self._note()

    def ask(self, times: int, epsilon: float) -> None:
        """Answer questions, charged as one batch."""
        session = sf.Session(_ROWS, schema=_REALS, ledger=self.ledger)
        session.ask_all(["c0 > 0"] * times, epsilon=epsilon)
        self.parts.add("laplace", epsilon, 1.0, times=times)
        self._note()


def _gaussian(books: Books, epsilon: float, delta: float = 1e-8) -> None:
    recipe = sf.Sketch(dimension=2, projection="rademacher", noise="gaussian", seed=1)
    books.release(_ROWS, recipe, _REALS, epsilon=epsilon, delta=delta)


def _laplace(books: Books, epsilon: float) -> None:
    books.release(_ROWS, sf.Sketch(dimension=2, seed=1), _REALS, epsilon=epsilon)


def gaussians(books: Books) -> None:
    """Gaussian sketches of several scales."""
    for epsilon in (0.3, 0.3, 0.5, 0.5, 0.8, 0.8, 1.0, 1.0):
        _gaussian(books, epsilon)


def laplaces(books: Books) -> None:
    """Laplace sketches and components, in two stages."""
    for epsilon in (0.1, 0.2, 0.3, 0.3, 0.4):
        _laplace(books, epsilon)
    books.release(_ROWS, sf.Components(dimension=1), _REALS, epsilon=0.5)


def answers(books: Books) -> None:
    """Questions: two hundred small ones, and ten larger ones."""
    books.ask(200, 0.05)
    books.ask(10, 0.3)


def survey(books: Books) -> None:
    """Randomized response in twelve columns of two, three and five answers, twice."""
    table = {c.name: ["a"] if c.name[0] != "f" else [True] for c in _SURVEY.columns}
    for epsilon in (2.0, 3.0):
        books.release(_arrow(table), sf.RandomizedResponse(), _SURVEY, epsilon=epsilon, delta=1e-8)


def _arrow(table: dict[str, Any]) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    return pa.table(table)


def mixture(books: Books) -> None:
    """Gaussian and Laplace noise, answers, and a covariance."""
    for epsilon in (0.3, 0.6):
        _gaussian(books, epsilon)
    _laplace(books, 0.5)
    books.ask(50, 0.05)
    books.release(_ROWS, sf.Covariance(centred=False), _REALS, epsilon=0.5, delta=1e-8)
    _laplace(books, 1.0)


def fresh(books: Books) -> None:
    """Fresh projections: the law of the loss is a mixture."""
    for epsilon in (0.5, 0.5, 1.0):
        recipe = sf.Sketch(dimension=8, projection="gaussian", noise="gaussian")
        books.release(_ROWS, recipe, _REALS, epsilon=epsilon, delta=1e-7, projection="fresh", change=sf.Change.l2(0.5))


def graphs(books: Books) -> None:
    """Graph sketches, whose loss differs with the direction."""
    for rows in (1, 4, 16):
        recipe = sf.GraphSketch(rows=rows, vertices=4)
        books.release(_EDGES, recipe, None, epsilon=0.8, delta=1e-7, unit="edge")


def pairs(books: Books) -> None:
    """A graph sketch, noise on edges and random answers about them."""
    edge: dict[str, Any] = {"unit": "edge"}
    books.release(_EDGES, sf.GraphSketch(rows=4, vertices=4), None, epsilon=0.8, delta=1e-7, **edge)
    books.release(_EDGES, sf.EdgeNoise(vertices=4), None, epsilon=0.5, **edge)
    books.release(_EDGES, sf.EdgeNoise(vertices=4, noise="gaussian"), None, epsilon=0.5, delta=1e-8, **edge)
    books.release(_EDGES, sf.EdgeResponse(vertices=4), None, epsilon=1.0, **edge)


@dataclass(frozen=True, slots=True)
class Case:
    """Releases that are charged together.

    composition : of the ledger.
    cap         : what its cap protects.
    forgotten   : how many of the last releases the broken twin forgets: one, or more where the ledger's bound is loose.
    halved      : whether a twin halves delta: not where delta plays no part, nor where the bound is loose.
    """

    name: str
    make: Callable[[Books], None]
    composition: str = "tight"
    cap: dict[str, Any] = field(default_factory=dict)
    forgotten: int = 1
    halved: bool = True


_EDGE: dict[str, Any] = {"unit": "edge"}
_BALL: dict[str, Any] = {"change": sf.Change.l2(0.5)}
CASES = (
    Case("8 Gaussian sketches", gaussians),
    Case("8 Gaussian sketches, as a filter", gaussians, "gaussian"),
    Case("5 Laplace sketches and components", laplaces, halved=False),
    Case("5 Laplace sketches and components, as a filter", laplaces, "advanced", forgotten=5, halved=False),
    Case("210 answers", answers),
    Case("2 surveys by randomized response", survey),
    Case("Gaussian, Laplace, answers, covariance", mixture),
    Case("Gaussian, Laplace, answers, covariance, as a filter", mixture, "gaussian", forgotten=5, halved=False),
    Case("3 fresh projections", fresh, cap=_BALL),
    Case("3 graph sketches", graphs, cap=_EDGE),
    Case("graph sketch, edge noise, edge responses", pairs, cap=_EDGE),
)
TWINS = ("releases forgotten", "delta halved")
HEAD = ("releases", "composition", "ledger's epsilon", "PRV bounds", "RDP", *(f"twin: {twin}" for twin in TWINS))


@contextmanager
def _books(case: Case) -> Iterator[Books]:
    with tempfile.TemporaryDirectory() as folder:
        ledger = sf.Ledger.create(Path(folder) / "budget.db")
        ledger.add_dataset("books", sf.Guarantee(epsilon=1e3, delta=DELTA, **case.cap), composition=case.composition)
        yield Books(ledger)


def certified(parts: Parts, delta: float) -> tuple[float, float]:
    """prv-accountant's bounds on the epsilon of everything together, in the worse direction."""
    found = [_one_way(parts, delta, removed=removed) for removed in (False, True)]
    return max(low for low, _ in found), max(high for _, high in found)


def _one_way(parts: Parts, delta: float, *, removed: bool) -> tuple[float, float]:
    import prv_accountant as prv  # noqa: PLC0415

    import laws  # noqa: PLC0415 - in an environment of its own

    make: dict[str, Callable[..., Any]] = {
        "gaussian": lambda sensitivity, scale: prv.GaussianMechanism(scale, sensitivity),
        "laplace": lambda sensitivity, scale: prv.LaplaceMechanism(sensitivity / scale),
        "response": laws.Response,
        "fresh": laws.Fresh,
        "chi-square": lambda rows, ratio: laws.ChiSquare(rows, ratio, removed=removed),
    }
    counted: dict[tuple[str, tuple[float, ...]], int] = {}
    for law, parameters, times in parts.laws:
        counted[law, parameters] = counted.get((law, parameters), 0) + times
    losses, folds = [make[law](*parameters) for law, parameters in counted], list(counted.values())
    judge = prv.PRVAccountant(losses, eps_error=EPSILON_ERROR, delta_error=delta / 1000, max_self_compositions=folds)
    low, _, high = judge.compute_epsilon(delta, folds)
    return low, high


def renyi(parts: Parts, delta: float) -> float | None:
    """What dp_accounting's RDP accountant says, if it knows all of the laws."""
    import dp_accounting as dpa  # noqa: PLC0415
    from dp_accounting import rdp  # noqa: PLC0415

    make: dict[str, Callable[..., Any]] = {
        "gaussian": lambda sensitivity, scale: dpa.GaussianDpEvent(scale / sensitivity),
        "laplace": lambda sensitivity, scale: dpa.LaplaceDpEvent(scale / sensitivity),
        "response": lambda e, k: dpa.RandomizedResponseDpEvent(k / (np.exp(e) + k - 1), int(k)),
    }
    if any(law not in make for law, _, _ in parts.laws):
        return None
    judge = rdp.RdpAccountant(neighboring_relation=dpa.NeighboringRelation.REPLACE_ONE)
    for law, parameters, times in parts.laws:
        judge.compose(make[law](*parameters), times)
    return float(judge.get_epsilon(delta))


def judged(case: Case) -> Verdict:
    """A case and its broken twins."""
    start = time.process_time()
    with _books(case) as books:
        case.make(books)
    said, without, parts = books.said[-1], books.said[-1 - case.forgotten], books.parts
    low, high = certified(parts, DELTA)
    other = renyi(parts, DELTA)
    accused = said < low
    if case.composition == "tight":
        accused |= said > CLOSE * high or (other is not None and said > other)
    twins = [(f"{case.forgotten}: says {without:.3f}", without, low)]
    if case.halved:
        twins.append((f"says {said:.3f}", said, certified(parts, DELTA / 2)[0]))
    print(f"{case.name}: {said:.4f}, {low:.4f} to {high:.4f} ({time.process_time() - start:.1f} s)", flush=True)
    caught = [f"{text}, is at least {least:.3f}" for text, _, least in twins] + [""] * (len(TWINS) - len(twins))
    shown = "" if other is None else f"{other:.3f}"
    cells = case.name, case.composition, f"{said:.3f}", f"{low:.3f} to {high:.3f}", shown, *caught
    return Verdict(cells, accused, tuple(claim < least for _, claim, least in twins))


def judge() -> list[Verdict]:
    """All cases."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [judged(case) for case in CASES]


def main() -> None:
    """Run, print, write."""
    from importlib.metadata import version  # noqa: PLC0415

    about = (
        f"prv-accountant {version('prv-accountant')} and the RDP accountant of dp_accounting "
        f"{version('dp-accounting')}, at delta {DELTA:g}. The ledger's epsilon must be at least the certified lower "
        f"bound; with tight composition also at most {CLOSE:g} times the upper bound, and at most what RDP says. "
        "Nothing here is left to chance."
    )
    settle("Ledgers before prv-accountant and RDP", about, HEAD, judge)


if __name__ == "__main__":
    main()
