"""Streams: variances of running sums against releases anew, and principal components that are followed online.

The stream by square root is the mechanism itself, its periods appended within one transaction of its file. Its rivals
are simulated in doubles, with noise of the same law, at the same guarantee.
"""

import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from figure import figure
from page import Cell, Experiment, Measured, Paper, Part, Picture, Setting, Table
from sfumato.audit.block_rows import Copies
from sfumato.mechanisms.covariance import Covariance
from sfumato.numerics.types import Floats
from sfumato.pipeline.stream import Stream
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness.secret import Secret
from sfumato.streams import running
from sfumato.streams.factorisation import Factorisation, PlainTree, Repeated, SquareRoot, Tree, variances
from sfumato.streams.leaders import leaders
from sfumato.streams.measuring import Measuring
from sfumato.streams.plan import OwnRows
from sfumato.streams.statistic import statistic_of
from sfumato.streams.store import Period, StreamStore
from sfumato.tables.columns import Real
from sfumato.tables.schema import Schema

EPSILONS, DELTA = (0.3, 1.0, 3.0), 1e-6
HORIZONS = (10, 30, 90, 365, 1000, 4096)
YEAR, SHORT = 365, 40  # periods; of quick runs
PLAYED = 3  # dimension of the subspaces
STREAMS, DRAWS = (3, 1), (5, 2)  # repetitions: of the mechanism itself, and simulated
RUNS = (6, 2)  # streams whose errors are measured
TENTH = 10  # one release only, after this part of the periods


def _promise(epsilon: float = 1.0) -> Guarantee:
    return Guarantee(epsilon=epsilon, delta=DELTA, unit="record")


# ---- the mechanism itself --------------------------------------------------------------------------------------------


def appended(folder: Path, schema: Schema, promise: Guarantee, periods: list[Floats], secret: Secret) -> Stream:
    """A stream of second moments with these periods (rows, columns): as ``Stream.append``, in one transaction."""
    made = Stream.init(
        folder / "made.stream",
        schema=schema,
        guarantee=promise,
        horizon=len(periods),
        mechanism=Covariance(centred=False),
        testing=True,
    )
    with StreamStore(Path(made.path)).writing() as stream:
        statistic = stream.description.measuring.statistic
        for number, rows in enumerate(periods, 1):
            exact, count = statistic.exact(Copies(np.ascontiguousarray(rows.T)))
            stream.add_period(Period(number, str(number), count, "then"))
            running.add(stream, number, exact, secret)
    return made


# ---- variances of running sums ---------------------------------------------------------------------------------------


def _lattice(schema: Schema, horizon: int) -> Floats:
    """Variances of a stream's running sums, relative to ordinary releases that share its guarantee; by period."""
    promise, recipe = _promise(), Covariance(centred=False, noise="gaussian")
    measuring = Measuring.of(statistic_of(recipe, schema, promise), SquareRoot(), promise, horizon)
    prepared = recipe.prepare(schema, promise)
    level = calibrate(measuring, promise).level
    anew = prepared.facts(level * math.sqrt(horizon), None)["mechanism"]["standard_deviation"]
    unit, scale = prepared.moment.grid.step**2, measuring.scale(level)
    return np.array([measuring.noise(scale, t, horizon)[1] * unit / anew for t in range(1, horizon + 1)]) ** 2


def ratios(setting: Setting) -> Iterator[Part]:
    """Variances by formula, over horizons."""
    del setting
    schema, lines = Schema.reals(10, low=-1, high=1), list[list[Cell]]()
    for horizon in HORIZONS:
        anew = variances(Repeated(), horizon)[0]
        found = [variances(method, horizon) / anew for method in (OwnRows(), PlainTree(), Tree(), SquareRoot())]
        found.append(_lattice(schema, horizon))
        lines.append([horizon, *(cell for one in found for cell in (float(one.mean()), float(one[-1])))])
    names = ("own rows", "plain tree", "refined tree", "square root", "ours")
    header = ["periods", *(f"{name}{which}" for name in names for which in ("", ", last"))]
    yield (
        "Variance of a running sum relative to that of a release anew after every period, all at one guarantee: mean\n"
        "over all periods, and after the last. *Ours* is the square root with weights rounded to integers and sums\n"
        "coarsened, as the mechanism states its noise, for second moments of ten columns."
    )
    yield Table("ratios", header, lines, dict.fromkeys(header[1:], ".3g"))
    yield (
        "The square root has the least mean variance at every horizon. After the last period alone a refined tree is\n"
        "better where the number of periods is a power of two, for then one interval covers them all."
    )


def _triangle(matrices: Floats) -> Floats:
    """Matrices as what is published of them: diagonals, then what is above."""
    above = np.triu_indices(matrices.shape[-1], 1)
    return np.concatenate([np.diagonal(matrices, axis1=-2, axis2=-1), matrices[..., *above]], axis=-1)


def _squared(errors: Floats, dim: int) -> Floats:
    """Mean squares over the triangle of a matrix; half the noise's variance is off the diagonal, so it counts twice."""
    squares = errors**2
    return np.asarray((squares[..., :dim].sum(axis=-1) + 2 * squares[..., dim:].sum(axis=-1)) / errors.shape[-1])


def _squares(made: Stream, exact: Floats) -> Floats:
    """Squared errors of a stream's running second moments, a mean over entries for each period."""
    with StreamStore(Path(made.path)).reading() as stream:
        unit = stream.description.measuring.statistic.prepared.moment.grid.step**2  # type: ignore[attr-defined]
        found = np.array([running.decoded(stream, t) for t in range(1, len(exact) + 1)]) * unit
    return _squared(found - _triangle(exact), exact.shape[1])


def simulated(setting: Setting) -> Iterator[Part]:
    """The errors of running sums that streams of a year really make, beside those of ordinary releases."""
    horizon, dim = (SHORT if setting.quick else YEAR), 20
    rng, secrets = setting.rng(), setting.secrets()
    schema, promise = Schema.reals(dim, low=-1, high=1), _promise()
    periods = [rng.uniform(-1, 1, (5, dim)) for _ in range(horizon)]
    exact = np.cumsum([rows.T @ rows for rows in periods], axis=0)
    prepared = Covariance(centred=False, noise="gaussian").prepare(schema, promise)
    level = calibrate(prepared, promise).level * math.sqrt(horizon)
    stated = prepared.facts(level, None)["mechanism"]["standard_deviation"] ** 2
    means, lasts, anew = list[float](), list[float](), list[float]()
    for _ in range(setting.often(*RUNS)):
        with tempfile.TemporaryDirectory() as folder:
            found = _squares(appended(Path(folder), schema, promise, periods, next(secrets)), exact)
        means.append(float(found.mean()) / stated)
        lasts.append(float(found[-1]) / stated)
        rows = Copies(np.ascontiguousarray(np.concatenate(periods).T))
        released = [next(prepared.run(rows, level, next(secrets)).blocks)[0] for _ in range(20)]
        anew.append(float(_squared(np.array(released, float) - _triangle(exact[-1]), dim).mean()) / stated)
        setting.told(f"{len(means)} streams")
    formula = _lattice(schema, horizon)
    yield f"{horizon} periods, second moments of {dim} columns: squared errors over what a release anew states."
    lines: list[list[Cell]] = [
        ["stream, mean over periods", Measured.of(means), float(formula.mean())],
        ["stream, after the last", Measured.of(lasts), float(formula[-1])],
        ["released anew with its share", Measured.of(anew), 1.0],
    ]
    yield Table("simulated", ["what", "measured", "stated"], lines, {"measured": ".4f", "stated": ".4f"})


# ---- principal components --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Arriving:
    """Rows in their order: numbers between -1 and 1 by public bounds, shortened to a public length."""

    rows: Floats
    longest: float

    @property
    def schema(self) -> Schema:
        """What is public about them."""
        columns = tuple(Real(f"c{j}", -1, 1) for j in range(self.rows.shape[1]))
        return Schema(columns, norm="l2", norm_bound=self.longest)

    def periods(self, count: int) -> list[Floats]:
        """The rows cut into so many periods of about the same size."""
        cuts = np.linspace(0, len(self.rows), count + 1).astype(int)
        return [self.rows[first:last] for first, last in pairwise(cuts)]


def _between(values: NDArray[np.generic], low: Floats, high: Floats) -> Floats:
    return np.asarray(np.clip(2 * (values.astype(float) - low) / (high - low) - 1, -1.0, 1.0))


def sports(path: Path) -> Arriving:
    """Sensors of one person who does 19 sports one after another, 45 numbers."""
    rows = pd.read_parquet(path)
    rows = rows[rows["subject"] == 1].sort_values(["activity", "segment"], kind="stable")
    reach = np.tile(np.repeat([40.0, 10.0, 1.5], 3), 5)
    return Arriving(_between(rows.iloc[:, 3:].to_numpy(), -reach, reach), 2.0)


def blogs(path: Path) -> Arriving:
    """Posts in blogs, 60 numbers, on a logarithmic scale."""
    raw = pd.read_parquet(path).iloc[:, 2:62].to_numpy(float)
    return Arriving(np.clip(np.sign(raw) * np.log1p(np.abs(raw)) / math.log1p(10_000), -1, 1), 4.0)


def forest(path: Path) -> Arriving:
    """Cells of forest, 10 numbers."""
    low = np.array([1800, 0, 0, 0, -200, 0, 0, 0, 0, 0], float)
    high = np.array([4000, 360, 90, 1500, 700, 8000, 255, 255, 255, 8000], float)
    return Arriving(_between(pd.read_parquet(path).iloc[:, :10].to_numpy(), low, high), 2.0)


@dataclass(frozen=True, slots=True, eq=False)
class Game:
    """Second moments of periods, and the best subspace of them all: what playing others loses, cumulated.

    Losses are in parts of the whole second moment of all periods.
    """

    moments: Floats
    best: Floats

    @classmethod
    def of(cls, periods: list[Floats], longest: float) -> "Game":
        """Of rows as they are released: shortened."""
        lengths = [np.maximum(np.linalg.norm(rows, axis=1), 1e-300) for rows in periods]
        short = [rows * np.minimum(1, longest / size)[:, None] for rows, size in zip(periods, lengths, strict=True)]
        moments = np.array([rows.T @ rows for rows in short])
        return cls(moments, np.linalg.eigh(moments.sum(axis=0))[1][:, -PLAYED:].T)

    @property
    def dim(self) -> int:
        """Columns."""
        return self.moments.shape[1]

    @property
    def running(self) -> Floats:
        """Second moments of all rows so far."""
        return np.cumsum(self.moments, axis=0)

    def regret(self, played: list[Floats]) -> Floats:
        """What the best subspace in hindsight keeps beyond what those played keep, after each period."""
        kept = np.array([np.sum((basis @ moment) * basis) for basis, moment in zip(played, self.moments, strict=True)])
        most = np.array([np.sum((self.best @ moment) * self.best) for moment in self.moments])
        return np.asarray(np.cumsum(most - kept) / np.trace(self.running[-1]))

    def followed(self, running_moments: Floats) -> Floats:
        """The regret of following the leader of these running moments."""
        return self.regret(list(leaders(running_moments[:-1], self.dim, PLAYED)))


def _symmetric(rng: np.random.Generator, count: int, dim: int) -> Floats:
    """Noise as on second moments: deviation 1 on the diagonal, less by sqrt(2) off it."""
    drawn = rng.standard_normal((count, dim, dim))
    return np.asarray((drawn + drawn.transpose(0, 2, 1)) / 2)  # the diagonal keeps deviation 1


def _noise(method: Factorisation, horizon: int, rng: np.random.Generator, dim: int) -> Floats:
    """Noise of a factorisation on all running sums, where one unit moves a period's sums by 1 and mu is 1."""
    nodes = [node for t in range(1, horizon + 1) for node in method.measured(t)]
    place = {node: i for i, node in enumerate(nodes)}
    decoders = np.zeros((horizon, len(nodes)))
    for t in range(1, horizon + 1):
        used, weights = method.decoder(t)
        decoders[t - 1, [place[node] for node in used]] = weights
    drawn = _symmetric(rng, len(nodes), dim) * math.sqrt(method.squared_norm(horizon))
    return np.tensordot(decoders, drawn, 1)


RIVALS: dict[str, Factorisation] = {
    "stream, tree": Tree(),
    "own rows, added up": OwnRows(),
    "paid anew each period": Repeated(),
}
OURS = "stream, square root"


def _rivals(game: Game, unit: float, rng: np.random.Generator) -> Iterator[tuple[str, Floats]]:
    """Regret of simulated ways, once each; ``unit``: standard deviation of one release on the diagonal."""
    horizon = len(game.moments)
    for name, method in RIVALS.items():
        yield name, game.followed(game.running + unit * _noise(method, horizon, rng, game.dim))
    early = max(1, horizon // TENTH)
    once = game.running[early - 1] + unit * _symmetric(rng, 1, game.dim)[0]
    first, found = leaders([once], game.dim, PLAYED)
    yield f"one release, after 1/{TENTH}", game.regret([first] * early + [found] * (horizon - early))


def _ours(game: Game, data: Arriving, promise: Guarantee, secret: Secret) -> Floats:
    """Regret of following the published leaders of a stream."""
    periods = data.periods(len(game.moments))
    with tempfile.TemporaryDirectory() as folder:
        made = appended(Path(folder), data.schema, promise, periods, secret)
        return game.regret(list(made.leaders(PLAYED))[:-1])


def _unit(data: Arriving, promise: Guarantee) -> float:
    prepared = Covariance(centred=False, noise="gaussian").prepare(data.schema, promise)
    return float(prepared.facts(calibrate(prepared, promise).level, None)["mechanism"]["standard_deviation"])


def _played(setting: Setting, data: Arriving, game: Game, epsilon: float) -> dict[str, list[Floats]]:
    """Regrets by way, a curve for each repetition."""
    promise, secrets = _promise(epsilon), setting.secrets(f"{epsilon}")
    found: dict[str, list[Floats]] = {OURS: []}
    for _ in range(setting.often(*STREAMS)):
        found[OURS].append(_ours(game, data, promise, next(secrets)))
    rng, unit = setting.rng(f"{epsilon}"), _unit(data, promise)
    for _ in range(setting.often(*DRAWS)):
        for name, curve in _rivals(game, unit, rng):
            found.setdefault(name, []).append(curve)
    setting.told(f"epsilon {epsilon}")
    return found


def components(setting: Setting, file: str, read: Callable[[Path], Arriving]) -> Iterator[Part]:
    """Regret of every way to follow principal components, over epsilon."""
    path = setting.file(file)
    if path is None:
        return
    data, horizon = read(path), SHORT if setting.quick else YEAR
    game, rng = Game.of(data.periods(horizon), data.longest), setting.rng("random")
    plain = game.followed(game.running)
    chance = [game.regret([np.linalg.qr(rng.normal(size=(game.dim, PLAYED)))[0].T] * horizon) for _ in range(20)]
    marks = [max(0, horizon // 10 - 1), horizon // 3 - 1, horizon - 1]
    lines: list[list[Cell]] = [["-", "leader, not private", *(float(plain[m]) for m in marks)]]
    lines.append(["-", "a random subspace", *(Measured.of([curve[m] for curve in chance]) for m in marks)])
    curves = {epsilon: _played(setting, data, game, epsilon) for epsilon in EPSILONS}
    for epsilon, ways in curves.items():
        for name, found in ways.items():
            lines.append([epsilon, name, *(Measured.of([curve[m] for curve in found]) for m in marks)])
    kept = float(np.sum((game.best @ game.running[-1]) * game.best) / np.trace(game.running[-1]))
    yield (
        f"{len(data.rows):,} rows of {game.dim} numbers in the order of the file, cut into {horizon} periods;\n"
        f"the best {PLAYED} directions in hindsight keep {kept:.3f} of the second moment. Regret after a tenth, a\n"
        "third and all of the periods, as a share of the whole second moment; delta 1e-6, a record is a row."
    )
    header = ["epsilon", "played", "a tenth", "a third", "all"]
    yield Table("regret", header, lines, dict.fromkeys(header[2:], ".4f"))
    _drawn(setting.picture(f"{setting.name}.svg"), curves, plain)
    yield Picture(f"{setting.name}.svg", "cumulative regret over the periods, for each epsilon and way of playing")


def _drawn(path: Path, curves: dict[float, dict[str, list[Floats]]], plain: Floats) -> None:
    with figure(path, "cumulative regret, as a share of the whole second moment", (9.5, 3.6)) as picture:
        panels = picture.subplots(1, len(curves), sharey=True, squeeze=False)[0]
        for panel, (epsilon, ways) in zip(panels, curves.items(), strict=True):
            periods = np.arange(1, len(plain) + 1)
            for number, (name, found) in enumerate(ways.items()):
                width, shade = (2.2, "C3") if name == OURS else (1.2, f"C{(0, 2, 1, 4)[number - 1]}")
                panel.plot(periods, np.mean(found, axis=0), color=shade, lw=width, label=name)
            panel.plot(periods, plain, color="black", lw=1, ls=":", label="leader, not private")
            panel.set(title=f"epsilon {epsilon:g}", xlabel="period")
            panel.axhline(0, color="grey", lw=0.5)
        named = panels[0].get_legend_handles_labels()
        picture.legend(*named, fontsize=8, frameon=False, loc="outside lower center", ncols=3)


def _experiment(name: str, title: str, file: str, read: Callable[[Path], Arriving]) -> Experiment:
    return Experiment(f"streams-{name}", title, partial(components, file=file, read=read), (file,))


PAPER = Paper(
    "streams",
    "Data that grow",
    (
        Experiment("streams-ratios", "Running sums, against releases anew", ratios),
        Experiment("streams-simulated", "Running sums of a year, measured", simulated),
        _experiment("sports", "Principal components online: sports", "dsa_sports.parquet", sports),
        _experiment("blogs", "Principal components online: blogs", "blogfeedback.parquet", blogs),
        _experiment("forest", "Principal components online: forest", "covertype.parquet", forest),
    ),
    "Periods arrive one by one, and something is published after each: running sums, or a subspace to play in the\n"
    "next period (Analyze Gauss, Dwork, Talwar, Thakurta and Zhang 2014, their last section). All ways have one\n"
    "guarantee for the whole horizon. To play is to name three directions before the rows of a period arrive; what\n"
    "they keep of these rows' second moment is gained. Regret is what the best directions in hindsight would have\n"
    "gained more, so that it can be negative for a while where data drift. *Stream, square root* is the mechanism\n"
    "itself, with exact noise; the other ways are simulated with noise of the same law.",
)
