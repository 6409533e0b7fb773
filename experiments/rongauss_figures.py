"""Figures 1 to 3 of Chanyaswad et al.: error against dimension, membership inference, sampled digits."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import rivals
from attacks import curve_table, merged, repeated
from figure import figure
from learning import PUBLISHED, REAL, Found, Line, few, guess, learnt, measure, ours, prose, table
from learning_tasks import LABEL, Floats, Lesson, Task, accuracy, blog, diabetes, digits, learner, mnist, sports
from page import Measured, Part, Picture, Setting, Table
from sfumato.attacks import example_data, membership
from sfumato.attacks.curves import Curve
from sfumato.attacks.example_data import Secrets, TargetTable
from sfumato.attacks.membership import Game
from sfumato.mechanisms.synthetic.recipe import Synthetic
from sfumato.pipeline.release import release
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness.secret import Secret

LAPLACE, GAUSSIAN = "ours, Laplace noise", "ours, Gaussian noise"
COLOURS = {PUBLISHED: "#c8553d", LAPLACE: "#2a9d5c", GAUSSIAN: "#1b6ca8"}
DIMENSIONS = (1, 2, 4, 8, 16, 32, 64, 128)
EPSILONS = (0.1, 1.0, 10.0)
_FIRST, _SECOND, _THIRD = "rongauss-dimensions.svg", "rongauss-leakage.svg", "rongauss-digits.png"


def dimensions(setting: Setting) -> Iterator[Part]:
    """Figure 1: what is learnt from rows of fewer and of more columns."""
    there = setting.file("blogfeedback.parquet")
    task = blog(there.parent) if there else diabetes()
    stands = "blogfeedback stands in for the paper's Twitter data" if there else "diabetes stands in"
    yield prose(f"""The paper's error (Twitter, kernel ridge regression) is least in 4 columns, whatever epsilon:
    fewer columns, less noise. {stands}. Laplace noise on a second moment grows with the number of columns; Gaussian
    noise does not, so that fewer columns gain nothing there.""")
    some = (2, 8, 32) if setting.quick else DIMENSIONS
    widths = [*(p for p in some if p < task.columns.shape[1]), task.columns.shape[1]]
    often, epsilons = (4, 2), (1.0,) if setting.quick else EPSILONS
    given: dict[str, Any] = {
        PUBLISHED: rivals.published,
        LAPLACE: lambda p: partial(ours, dimension=p, noise="laplace"),
        GAUSSIAN: lambda p: partial(ours, dimension=p),
    }
    real = measure(setting, task, Line(REAL, learnt(rivals.real), often, None))
    mean = measure(setting, task, Line("nothing learnt: the mean label", guess, often, None))
    found = [
        measure(setting, task, Line(name, learnt(teacher(p)), often, epsilon))
        for name, teacher in given.items()
        for epsilon in epsilons
        for p in widths
    ]
    yield table("dimensions", task, [real, mean, *found])
    _draw_dimensions(setting, task.name, (real, mean), found)
    yield Picture(_FIRST, "root mean squared error against the number of columns, for three epsilons")
    least = [_least(PUBLISHED, e, found).columns for e in epsilons]
    yield "\n".join(prose(_said(epsilon, found)) for epsilon in epsilons)
    yield prose(f"""RON-Gauss as published, whose label has mean 0, is best in
    {" or ".join(map(str, dict.fromkeys(least)))} columns here, in the paper in 4: which dimension is best depends on
    the data, and looking for it is not private. With Gaussian noise all columns are taken.""")


def _least(name: str, epsilon: float, found: list[Found]) -> Found:
    """Where the error is least."""
    return min((f for f in found if (f.line.name, f.line.epsilon) == (name, epsilon)), key=lambda f: f.mean(1))


def _said(epsilon: float, found: list[Found]) -> str:
    """Where the error is least, for each kind."""
    least = {name.removesuffix(": NOT PRIVATE"): _least(name, epsilon, found) for name in COLOURS}
    said = "; ".join(f"{name} {f.mean(1):.3f} in {f.columns} columns" for name, f in least.items())
    return f"- Least error (ridge) at epsilon {epsilon:g}: {said}."


def _draw_dimensions(setting: Setting, name: str, beside: tuple[Found, ...], found: list[Found]) -> None:
    epsilons, widths = sorted({f.line.epsilon or 0.0 for f in found}), sorted({f.columns or 0 for f in found})
    title = f"RMSE of ridge regression learnt from synthetic rows of {name}"
    with figure(setting.picture(_FIRST), title, (3.4 * len(epsilons) + 1.5, 4.0)) as picture:
        for axes, epsilon in zip(
            picture.subplots(1, len(epsilons), sharey=True, squeeze=False)[0], epsilons, strict=True
        ):
            for kind, colour in COLOURS.items():
                some = [f for f in found if (f.line.name, f.line.epsilon) == (kind, epsilon)]
                means = [f.mean(1) for f in some]
                axes.plot([f.columns for f in some], means, color=colour, marker="o", ms=3, label=kind)
            for line, style in zip(beside, ("--", ":"), strict=True):
                axes.axhline(line.mean(1), color="#000000", linestyle=style, linewidth=0.9, label=line.line.name)
            axes.set(xscale="log", xlabel="columns", title=f"epsilon {epsilon:g}")
            axes.set_xticks(widths, [str(p) for p in widths])
            axes.minorticks_off()
        picture.axes[0].set_ylabel("RMSE")
        picture.legend(
            *picture.axes[0].get_legend_handles_labels(),
            loc="outside lower center",
            ncol=2 * len(epsilons),
            fontsize=7,
            frameon=False,
        )


def _case(setting: Setting) -> tuple[TargetTable, str, str]:
    """Records, what their label is called, and what is to be said of them."""
    there = setting.file("dsa_sports.parquet")
    if there is None:
        return example_data.digits(), "digit", "Digits stand in."
    task = sports(there.parent, moving=True)
    some = setting.rng("records").choice(len(task.columns), 12_000, replace=False)
    told = "dsa_sports stands in for REALDISP, with two classes as in Table 4; 1,000 of its rows make a release."
    return TargetTable("dsa_sports, moving or not", task.table(some), task.schema), LABEL, told


def _game(case: TargetTable, label: str, rng: np.random.Generator) -> Game:
    """Half of a pool of records becomes a release; the attacker has half as many others."""
    pool = 2 * min(1000, case.rows // 4)
    some = replace(case, table=case.some(rng.choice(case.rows, pool + pool // 2, replace=False)))
    width = len(case.schema.data_columns) - 1
    return Game.of(some, label, dimension=width, pool=pool, seed=int(rng.integers(2**31)))


def leakage(setting: Setting) -> Iterator[Part]:
    """Figure 2: membership inference against epsilon; use of the rows against what they leak."""
    case, label, told = _case(setting)
    yield prose(f"""The paper attacks its synthetic rows by shadow models (Shokri et al. 2017) and finds attacks near
    a guess up to epsilon 1.5, and 88% of use where the attack is less than 10 points above a guess. {told} Two
    attacks: the paper's, and a likelihood ratio that knows the model, as the paper leaves to others. *Unprotected*:
    shadow models against a classifier of the records themselves, as in the paper; the ratio against a model without
    noise. *The bound*: what no attack can exceed. Gaussian noise, delta = 1e-6.""")
    epsilons = (1.0, 16.0, 1000.0) if setting.quick else (0.5, 1.0, 1.5, 4.0, 16.0, 64.0, 1000.0)
    runs, shadows = setting.often(4, 1), setting.often(10, 2)
    used: dict[float, list[float]] = {epsilon: [] for epsilon in epsilons}

    def attacked(seed: int, secrets: Secrets) -> list[Curve]:
        rng = np.random.default_rng(seed)
        game = _game(case, label, rng)
        for epsilon in epsilons:
            used[epsilon] += [usefulness(game, epsilon, rng, secrets()) for _ in range(2)]
        return membership.curves(game, epsilons, shadows=shadows, runs=runs, seed=seed, secrets=secrets)

    found = repeated(setting, "membership", (5, 3), attacked)
    trials = runs * 2 * min(1000, case.rows // 4)
    curves, useful = merged(found, trials), {e: few(np.array(scores)) for e, scores in used.items()}
    yield curve_table("membership", found, trials)
    rows = [[e, useful[e], *(_leaks(c, e) for c in curves)] for e in epsilons]
    head = ["epsilon", "accuracy of a classifier", *(f"leakage: {c.attack}" for c in curves)]
    yield Table("utility and leakage", head, rows, {"epsilon": "g"} | dict.fromkeys(head[1:], ".3f"))
    _draw_leakage(setting, curves, useful)
    yield Picture(_SECOND, "accuracy of attacks against epsilon, and of a classifier against what is leaked")
    yield _leak_verdict(curves, useful)


def _leaks(curve: Curve, epsilon: float) -> Measured:
    point = next(p for p in curve.points if p.epsilon == epsilon)
    return Measured(point.success - 0.5, point.error, 1)


def _leak_verdict(curves: list[Curve], useful: dict[float, Measured]) -> str:
    leaks = {e: max((_leaks(c, e) for c in curves), key=lambda m: m.value) for e in useful}
    worst = max((leaks[e] for e in useful if e <= 1.5), key=lambda m: m.value)
    best = max((e for e in useful if leaks[e].value < 0.1), key=lambda e: useful[e].value)
    return prose(f"""Up to epsilon 1.5 the better attack is {round(100 * worst.value, 1) + 0.0} points above a guess
    where it is best (standard error {100 * worst.error:.1f}); in the paper attacks are near a guess there too. With
    less than 10 points of leakage a classifier reaches {100 * useful[best].value:.0f}% (at epsilon {best:g}; the
    paper: almost 88%, on its data). At epsilon 1 it reaches {100 * useful[1.0].value:.0f}%. Attacks that fail say
    little where rows are worth little too; a bound that holds for every attack says more than any one of them.""")


def usefulness(game: Game, epsilon: float, rng: np.random.Generator, secret: Secret) -> float:
    """What the attacked synthetic rows are good for: an SVM that learnt from them, on records of the attacker."""
    made = game.made(rng.permutation(game.pool)[: game.members], epsilon, secret)
    lesson = Lesson(made.array(), made.labels(), made.transform(game.case.some(game.own)))
    model, most = learner("svm", lesson.rows.shape[1])
    return accuracy(model, lesson, most, game.case.some(game.own)[game.label].to_numpy())


def _draw_leakage(setting: Setting, curves: list[Curve], useful: dict[float, Measured]) -> None:
    with figure(setting.picture(_SECOND), curves[0].data, (9.0, 3.8)) as picture:
        left, right = picture.subplots(1, 2)
        for curve, colour in zip(curves, ("#1b6ca8", "#c8553d"), strict=True):
            epsilons = [p.epsilon for p in curve.points]
            bars = [2 * p.error for p in curve.points]
            reached = [p.success for p in curve.points]
            left.errorbar(epsilons, reached, bars, color=colour, marker="o", ms=3, label=curve.attack)
            left.axhline(
                curve.unprotected, color=colour, linestyle="--", linewidth=0.9, label=f"{curve.attack}, unprotected"
            )
            leaked = [100 * (success - 0.5) for success in reached]
            use = [100 * useful[e].value for e in epsilons]
            right.plot(leaked, use, color=colour, marker="o", ms=4, label=curve.attack)
            if curve is curves[0]:
                for x, y, epsilon in zip(leaked, use, epsilons, strict=True):
                    right.annotate(f"{epsilon:g}", (x, y), textcoords="offset points", xytext=(5, -9), fontsize=7)
        left.plot(
            epsilons, [p.bound for p in curves[0].points], "v", color="#000000", mfc="none", label="privacy's bound"
        )
        left.axhline(0.5, color="#777777", linestyle=":", label="guessing")
        left.set(xscale="log", xlabel="epsilon", ylabel="accuracy of the attack", ylim=(0.45, 1.03))
        left.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
        left.minorticks_off()
        left.legend(fontsize=7, frameon=False)
        right.set(xlabel="leakage: accuracy of the attack above 50%, points", ylabel="accuracy of a classifier, %")
        right.legend(fontsize=7, frameon=False, loc="lower right")


LEVELS = 8  # of grey, so that the file is small
SETTINGS = (
    ("hardly any noise, half of the columns, as in the paper", 1e5, 0.5),
    ("hardly any noise, an eighth of the columns", 1e5, 0.125),
    ("epsilon 1, delta 1e-6, half of the columns", 1.0, 0.5),
)


def samples(setting: Setting) -> Iterator[Part]:
    """Figure 3: sampled digits."""
    there = setting.file("mnist.parquet")
    task = mnist(there.parent) if there else digits()
    columns = task.columns.shape[1]
    yield prose(f"""The paper shows digits of MNIST sampled from its model without noise, in 392 of 784 columns, which
    can be read; below 100 columns they cannot, it says. Here {task.name}, in {round(columns / 2)} and
    {round(columns / 8)} of {columns} columns, and with a promise that is kept. Lengths are lost by normalisation, so
    contrast is stretched. One row of each class, the first that was sampled.""")
    _draw_samples(setting, task, setting.picture(_THIRD))
    yield Picture(_THIRD, "real digits, and sampled ones with and without noise")
    yield prose("""Reached: in half of the columns, without noise, most digits can be read; in an eighth of them they
    cannot, as the paper says. On MNIST most can still be read with a promise that is kept, epsilon 1; on the few rows
    of scikit-learn's digits they cannot.""")


def _sampled(setting: Setting, task: Task, epsilon: float, share: float) -> Floats:
    """One sampled row of each class, in the original columns."""
    rng, secret = setting.rng(f"sample {epsilon} {share}"), next(setting.secrets(f"sample {epsilon} {share}"))
    recipe = Synthetic(
        dimension=round(share * task.columns.shape[1]),
        label=LABEL,
        kind="classes",
        noise="gaussian",
        seed=int(rng.integers(2**62)),
    )
    rows = np.arange(len(task.columns)) if not setting.quick else rng.permutation(len(task.columns))[:20_000]
    promise = Guarantee(epsilon=epsilon, delta=1e-6)
    made: Any = release(task.table(rows), schema=task.schema, mechanism=recipe, guarantee=promise, secret=secret)
    drawn = made.sample(500, rng)
    labels = list(drawn.labels())
    whole = drawn.table(reconstruct=True).drop_columns([LABEL])
    return np.array([[column[labels.index(value)].as_py() for column in whole.columns] for value in task.classes])


def _draw_samples(setting: Setting, task: Task, path: Path) -> None:
    """Real rows above, then one line of samples for each setting."""
    side = round(task.columns.shape[1] ** 0.5)
    assert task.labels is not None
    first = [int(np.flatnonzero(task.labels == value)[0]) for value in task.classes]
    lines = [("real rows", task.columns[first]), *((n, _sampled(setting, task, e, s)) for n, e, s in SETTINGS)]
    with figure(path, f"{task.name}: real rows, and one sampled row of each class", (6.5, 3.6)) as picture:
        for axes, (name, rows) in zip(picture.subplots(len(lines), 1), lines, strict=True):
            shown = np.hstack([_stretched(row).reshape(side, side) for row in rows])
            axes.imshow(np.round(shown * LEVELS), cmap="gray_r", vmin=0, vmax=LEVELS, interpolation="nearest")
            axes.set_title(name, fontsize=7, loc="left", pad=2)
            axes.set_axis_off()


def _stretched(row: Floats) -> Floats:
    """From 0 to its largest value: lengths are lost by normalisation, so only contrast is left to choose."""
    return np.clip(row, 0, None) / max(float(row.max()), 1e-300)
