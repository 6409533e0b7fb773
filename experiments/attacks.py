"""Attacks: what reconstruction and linkage achieve against epsilon; ``rongauss_figures`` has membership inference.

Noise comes from testing secrets, so that the numbers can be had again.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from learning import few, prose
from page import Experiment, Measured, Paper, Part, Picture, Setting, Table
from sfumato.attacks import example_data, linkage, reconstruction
from sfumato.attacks.curves import Curve, Point
from sfumato.attacks.example_data import Secrets, TargetTable
from sfumato.report.plots import draw_attacks
from sfumato.tables.columns import Real
from sfumato.tables.schema import Schema

USERS = 1000
Often = tuple[int, int]  # repetitions in a full and in a quick run
OFTEN: Often = (8, 3)
ADULT = {"age": 120, "fnlwgt": 1_500_000, "education-num": 20, "capital-gain": 100_000, "capital-loss": 10_000}
ADULT |= {"hours-per-week": 100}


Repeated = Sequence[Sequence[Curve]]  # the same curves from repetitions with data, projections and noise of their own


def curve_table(name: str, found: Repeated, trials: int) -> Table:
    """Curves over the same epsilons as one table: success, with errors over repetitions of so many guesses each."""
    epsilons, total = [p.epsilon for p in found[0][0].points], trials * len(found)
    rows = []
    for some in zip(*found, strict=True):
        reached = [few(np.array([c.points[i].success for c in some]), total) for i in range(len(epsilons))]
        unprotected = few(np.array([c.unprotected for c in some]), total)
        rows.append(
            [f"{some[0].attack}, {some[0].against}", *reached, unprotected, few(np.array([c.chance for c in some]))]
        )
    bounds = np.array([[p.bound for p in curves[0].points] for curves in found])
    bound = ["*the bound*", *(few(column) for column in bounds.T), None, None]
    head = ["attack", *(f"epsilon {e:g}" for e in epsilons), "unprotected", "guessing"]
    return Table(name, head, [*rows, bound], dict.fromkeys(head, ".3f"))


def merged(found: Repeated, trials: int) -> list[Curve]:
    """The means of curves from several repetitions."""

    def mean(some: Sequence[Curve], place: int) -> Point:
        points = [c.points[place] for c in some]
        reached = few(np.array([p.success for p in points]), trials * len(some))
        return Point(points[0].epsilon, reached.value, reached.error, float(np.mean([p.bound for p in points])))

    return [
        replace(
            some[0],
            chance=float(np.mean([c.chance for c in some])),
            unprotected=float(np.mean([c.unprotected for c in some])),
            points=tuple(mean(some, place) for place in range(len(some[0].points))),
        )
        for some in zip(*found, strict=True)
    ]


def repeated(setting: Setting, what: str, often: Often, make: Callable[[int, Secrets], list[Curve]]) -> Repeated:
    """Curves from several seeds; each repetition has secrets of its own."""
    rng, secrets = setting.rng(what), setting.secrets(what)
    return [make(int(rng.integers(2**31)), lambda: next(secrets)) for _ in range(setting.often(*often))]


def adult(path: Path) -> TargetTable:
    """Six numbers of 8,000 persons of the census, within bounds that are round numbers."""
    table = pq.read_table(path)
    names = {name.lower().replace("_", "-"): name for name in table.column_names}
    kept = {names[name]: high for name, high in ADULT.items()}
    schema = Schema(tuple(Real(name, 0, high, weight=1 / high) for name, high in kept.items()), scale="raw")
    return TargetTable("6 columns of Adult", table.select(list(kept)).slice(0, 8000), schema)


def users(path: Path | None, rng: np.random.Generator) -> TargetTable:
    """Visitors of microsoft.com by the areas they saw, or generated ones."""
    if path is None:
        return example_data.users(USERS, rng)
    table = pq.read_table(path)
    user, area = (table[name].to_numpy() for name in ("user", "area"))
    bits = np.zeros((int(user.max()) + 1, np.unique(area).size), bool)
    bits[user, np.unique(area, return_inverse=True)[1]] = True
    return example_data.of_bits(f"MS-Web, {bits.shape[1]} flags", bits[rng.choice(len(bits), USERS, replace=False)])


def all_pixels() -> TargetTable:
    """Every pixel that is not always blank."""
    digits = example_data.digits()
    kept = [c for c in digits.schema.data_columns[:-1] if np.ptp(digits.table[c.name].to_numpy()) > 0]
    return TargetTable(f"all {len(kept)} pixels", digits.table.select([c.name for c in kept]), Schema(tuple(kept)))


def rotated(case: TargetTable, rng: np.random.Generator, count: int) -> tuple[Measured, Measured]:
    """The share of columns that ICA, and that known pairs, recover from rotations of a case."""
    rows, shares = case.encoded(), []
    for _ in range(count):
        turned = reconstruction.rotation(rows.shape[1], rng)
        found = reconstruction.column_attacks(rows, rows @ turned, turned, int(rng.integers(2**31)))
        shares.append((found["ICA"].recovered, found["known pairs"].recovered))
    ica, pairs = (few(column, count * rows.shape[1]) for column in np.array(shares).T)
    return ica, pairs


def rotations(setting: Setting) -> Iterator[Part]:
    """Where ICA works on bare rotations, and where it does not."""
    count, path = setting.often(*OFTEN), setting.file("adult.parquet")
    yield prose(f"""Columns recovered (correlation above 0.9) from {count} random rotations without noise. ICA finds
    independent directions, not columns: it needs columns that are nearly independent, and neighbouring pixels are far
    from it. The first grid of pixels (every third in both directions), and kurtosis as the contrast, were chosen by
    looking at such numbers; the other grids are here for that. One of the 61 pixels is blank in the half that known
    pairs are scored on.""")
    grids = [example_data.pixels(row, column) for row in range(3) for column in range(3)]
    cases = {f"pixels, grid {place}": case for place, case in enumerate(grids, 1)}
    cases |= {} if path is None else {"6 columns of Adult": adult(path)}
    cases |= {"all pixels that are not blank": all_pixels()}
    rows = [[name, case.encoded().shape[1], *rotated(case, setting.rng(name), count)] for name, case in cases.items()]
    yield Table("rotations", ["data", "columns", "ICA", "known pairs"], rows, {"ICA": ".0%", "known pairs": ".0%"})
    yield "A rotation without noise hides nothing from whoever knows a few records, and little from whoever knows none."


def columns(setting: Setting) -> Iterator[Part]:
    """Columns and bits out of sketches."""
    yield prose("""The same attacks, and the public projection itself, against private sketches; then the
    likeliest bits behind noise, sketches and randomized response. *Unprotected*: the same attack on a rotation
    or projection without noise. *The bound*: what no attack can exceed ([mathematics.md](mathematics.md),
    section 15). Delta is 0.""")
    case = example_data.pixels()
    epsilons = (0.5, 1.0, 2.0, 4.0, 16.0, 64.0, 256.0, 1024.0)

    def attacked(seed: int, secrets: Secrets) -> list[Curve]:
        return reconstruction.columns(case, epsilons, repeats=1, seed=seed, secrets=secrets)

    def guessed(seed: int, secrets: Secrets) -> list[Curve]:
        bits = example_data.fair_bits(500, 10, np.random.default_rng(seed))
        return reconstruction.bits(bits, (0.25, 0.5, 1.0, 2.0, 4.0, 8.0), repeats=1, seed=seed, secrets=secrets)

    found, bits = (repeated(setting, name, OFTEN, make) for name, make in (("columns", attacked), ("bits", guessed)))
    shares, means, size = [f[:3] for f in found], [f[3:] for f in found], case.encoded().shape[1]
    yield f"{found[0][0].data}: {found[0][0].measure}"
    yield curve_table("columns recovered", shares, size)
    yield f"{found[0][3].data}: {found[0][3].measure}"
    yield curve_table("correlation", means, case.rows)
    yield f"{bits[0][0].data}: {bits[0][0].measure}"
    yield curve_table("bits", bits, 5000)
    drawn = merged(shares, size) + merged(means, case.rows) + merged(bits, 5000)
    title = "Reconstruction: success against epsilon, bars of two standard errors"
    draw_attacks(setting.picture("attacks-reconstruction.svg"), title, drawn)
    yield Picture("attacks-reconstruction.svg", "success of reconstruction against epsilon")
    yield prose("""Randomized response of one bit meets its bound; whole records behind noise stay hidden far beyond
    the epsilons that the bound alone would vouch for.""")


def links(setting: Setting) -> Iterator[Part]:
    """Which row is somebody's."""
    path, asked = setting.file("msweb_pairs.parquet"), setting.often(300, 100)
    kind = "Generated users" if path is None else "Users of MS-Web, by the areas they saw"
    yield prose(f"""{kind}, 1,000 at a time: which row belongs to somebody of whom 4 flags are known (Narayanan and
    Shmatikov 2008), for {asked} targets; where one value is protected, and where a whole record is. *Unprotected*:
    the same on the bits.""")
    drawn: list[Curve] = []
    for unit, epsilons in (("attribute", (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)), ("record", (0.5, 1.0, 2.0, 4.0, 8.0))):

        def linked(seed: int, secrets: Secrets, unit: Any = unit, epsilons: Any = epsilons) -> list[Curve]:
            people = users(path, np.random.default_rng(seed))
            known = linkage.Knowledge.of(linkage.true_bits(people), known=4, targets=asked, seed=seed)
            return linkage.curves(people, epsilons, known, unit=unit, repeats=1, secrets=secrets)

        found = repeated(setting, unit, OFTEN, linked)
        yield f"One {'value' if unit == 'attribute' else unit} protected: {found[0][0].measure}"
        yield curve_table(f"linkage, {unit}", found, asked)
        drawn += merged(found, asked)
    picture = setting.picture("attacks-linkage.svg")
    draw_attacks(picture, "Linkage: success against epsilon, bars of two standard errors", drawn)
    yield Picture("attacks-linkage.svg", "success of linkage against epsilon")
    values, records = drawn[: len(drawn) // 2], drawn[len(drawn) // 2 :]
    said = ", ".join(f"{c.points[-1].success:.0%} ({c.against})" for c in values)
    most = max(p.success for c in records for p in c.points)
    yield prose(f"""With one value protected and epsilon 8, {said} of those of whom four flags are known are found,
    without protection {values[0].unprotected:.0%}. With whole records protected at most {most:.1%} are, up to epsilon
    8; a guess finds 0.1%.""")


PAPER = Paper(
    "attacks",
    "Attacks on releases",
    (
        Experiment("attacks-rotations", "Rotations without noise", rotations, ("adult.parquet",), "nothing"),
        Experiment("attacks-reconstruction", "Reconstruction of columns and bits", columns),
        Experiment("attacks-linkage", "Linkage", links, ("msweb_pairs.parquet",), "a set of generated users"),
    ),
    "Success of attacks on releases, with standard errors. Membership inference is Figure 2 of RON-Gauss, above.",
)
