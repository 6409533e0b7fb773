"""Attacks: what reconstruction and linkage achieve against epsilon; ``rongauss_figures`` has membership inference.

Noise comes from testing secrets, so that the numbers can be had again.
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from learning import prose
from page import Experiment, Measured, Paper, Part, Picture, Setting, Table
from sfumato.audit import linkage, reconstruction, targets
from sfumato.audit.success import Curve
from sfumato.audit.targets import Case
from sfumato.audit.victims import MultiplicativePerturbation
from sfumato.columns import Real
from sfumato.pictures import draw_attacks
from sfumato.schema import Schema

USERS = 1000
ADULT = {"age": 120, "fnlwgt": 1_500_000, "education-num": 20, "capital-gain": 100_000, "capital-loss": 10_000}
ADULT |= {"hours-per-week": 100}


def curve_table(name: str, curves: Sequence[Curve], runs: int, trials: int) -> Table:
    """Curves over the same epsilons as one table: success, at least with the error that ``trials`` guesses have."""
    epsilons = [p.epsilon for p in curves[0].points]

    def cell(success: float, error: float, count: int) -> Measured:
        share = (success * count + 1) / (count + 2)
        return Measured(success, max(error, math.sqrt(share * (1 - share) / (count + 2))), runs)

    rows = [
        [
            f"{c.attack}, {c.against}",
            *(cell(p.success, p.error, trials) for p in c.points),
            cell(c.unprotected, 0.0, max(1, trials // runs)),
            c.chance,
        ]
        for c in curves
    ]
    bound = ["*the bound*", *(p.bound for p in curves[0].points), None, None]
    head = ["attack", *(f"epsilon {e:g}" for e in epsilons), "unprotected", "guessing"]
    return Table(name, head, [*rows, bound], dict.fromkeys(head, ".3f"))


def adult(path: Path) -> Case:
    """Six numbers of 8,000 persons of the census, within bounds that are round numbers."""
    table = pq.read_table(path)
    names = {name.lower().replace("_", "-"): name for name in table.column_names}
    kept = {names[name]: high for name, high in ADULT.items()}
    schema = Schema(tuple(Real(name, 0, high, weight=1 / high) for name, high in kept.items()))
    return Case("6 columns of Adult", table.select(list(kept)).slice(0, 8000), schema)


def users(path: Path | None, rng: np.random.Generator) -> Case:
    """Visitors of microsoft.com by the areas they saw, or generated ones."""
    if path is None:
        return targets.users(USERS, rng)
    table = pq.read_table(path)
    user, area = (table[name].to_numpy() for name in ("user", "area"))
    bits = np.zeros((int(user.max()) + 1, np.unique(area).size), bool)
    bits[user, np.unique(area, return_inverse=True)[1]] = True
    return targets.of_bits(f"MS-Web, {bits.shape[1]} flags", bits[rng.choice(len(bits), USERS, replace=False)])


def all_pixels() -> Case:
    """Every pixel that is not always blank."""
    digits = targets.digits()
    kept = [c for c in digits.schema.data_columns[:-1] if np.ptp(digits.table[c.name].to_numpy()) > 0]
    return Case(f"all {len(kept)} pixels", digits.table.select([c.name for c in kept]), Schema(tuple(kept)))


def rotated(case: Case, rng: np.random.Generator, count: int) -> tuple[Measured, Measured]:
    """The share of columns that ICA, and that known pairs, recover from rotations of a case."""
    rows, shares = case.encoded(), []
    for _ in range(count):
        victim = MultiplicativePerturbation.rotation(rows.shape[1], rng)
        found = reconstruction.column_attacks(rows, victim.publish(rows), victim.matrix, int(rng.integers(2**31)))
        shares.append((found["ICA"].recovered, found["known pairs"].recovered))
    ica, pairs = np.mean(shares, axis=0)
    trials = count * rows.shape[1]
    return Measured.share(round(ica * trials), trials), Measured.share(round(pairs * trials), trials)


def rotations(setting: Setting) -> Iterator[Part]:
    """Where ICA works on bare rotations, and where it does not."""
    count, path = setting.often(5, 2), setting.file("adult.parquet")
    yield prose(f"""Columns recovered (correlation above 0.9) from {count} random rotations without noise. ICA finds
    independent directions, not columns: it needs columns that are nearly independent, and neighbouring pixels are far
    from it. The first grid of pixels (every third in both directions), and kurtosis as the contrast, were chosen by
    looking at such numbers; the other grids are here for that. One of the 61 pixels is blank in the half that known
    pairs are scored on.""")
    grids = [targets.pixels(row, column) for row in range(3) for column in range(3)]
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
    few, secrets = setting.often(5, 2), setting.secrets("columns")
    case = targets.pixels()
    epsilons = (0.5, 1.0, 2.0, 4.0, 16.0, 64.0, 256.0, 1024.0)
    seed = int(setting.rng("seed").integers(2**31))
    found = reconstruction.columns(case, epsilons, repeats=few, seed=seed, secrets=lambda: next(secrets))
    size = case.encoded().shape[1]
    yield f"{found[0].data}: {found[0].measure}"
    yield curve_table("columns recovered", found[:3], few, few * size)
    yield f"{found[3].data}: {found[3].measure}"
    yield curve_table("correlation", found[3:], few, few * case.rows)
    bits = targets.fair_bits(500, 10, setting.rng("bits"))
    guessed = reconstruction.bits(
        bits, (0.25, 0.5, 1.0, 2.0, 4.0, 8.0), repeats=few, seed=seed, secrets=lambda: next(secrets)
    )
    yield f"{guessed[0].data}: {guessed[0].measure}"
    yield curve_table("bits", guessed, few, few * 5000)
    draw_attacks(
        setting.picture("attacks-reconstruction.svg"),
        "Reconstruction: success against epsilon, bars of two standard errors",
        [*found, *guessed],
    )
    yield Picture("attacks-reconstruction.svg", "success of reconstruction against epsilon")
    yield prose("""Randomized response of one bit meets its bound; whole records behind noise stay hidden far beyond
    the epsilons that the bound alone would vouch for.""")


def links(setting: Setting) -> Iterator[Part]:
    """Which row is somebody's."""
    people = users(setting.file("msweb_pairs.parquet"), setting.rng("users"))
    asked = setting.often(300, 100)
    yield prose(f"""{people.name}, 1,000 users: which row belongs to somebody of whom 4 flags are known (Narayanan and
    Shmatikov 2008), for {asked} targets; where one value is protected, and where a whole record is. *Unprotected*:
    the same on the bits.""")
    few, secrets = setting.often(5, 2), setting.secrets("links")
    known = linkage.Knowledge.of(
        linkage.true_bits(people), known=4, targets=asked, seed=int(setting.rng("known").integers(2**31))
    )
    drawn: list[Curve] = []
    for unit, epsilons in (("attribute", (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)), ("record", (0.5, 1.0, 2.0, 4.0, 8.0))):
        found = linkage.curves(people, epsilons, known, unit=unit, repeats=few, secrets=lambda: next(secrets))
        yield f"One {'value' if unit == 'attribute' else unit} protected: {found[0].measure}"
        yield curve_table(f"linkage, {unit}", found, few, asked)
        drawn += found
    picture = setting.picture("attacks-linkage.svg")
    draw_attacks(picture, "Linkage: success against epsilon, bars of two standard errors", drawn)
    yield Picture("attacks-linkage.svg", "success of linkage against epsilon")
    yield prose("""With one value protected, somebody of whom four flags are known is found as often as without
    protection from epsilon 8 on (randomized response: 4). With whole records protected he is found no more often than
    by guessing, up to epsilon 8.""")


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
