"""The lines of the table: how contests of each mechanism are drawn."""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from numpy.random import Generator

from refute import aggregates, graphs, growing, questions, released, schemas
from refute.luck import chance, pick
from refute.pairs import Neighbourhood
from refute.released import Released, contest, family_of, public_seed
from refute.schemas import Terms
from refute.search import Line
from sfumato.errors import ParameterError
from sfumato.mechanisms.chosen_sketch import ChosenSketch
from sfumato.mechanisms.components import Components
from sfumato.mechanisms.covariance import Covariance
from sfumato.mechanisms.distances import NoisyDistances
from sfumato.mechanisms.histogram import Histogram
from sfumato.mechanisms.in_space import lattice_in
from sfumato.mechanisms.responses import RandomizedResponse
from sfumato.mechanisms.sketch import Sketch
from sfumato.mechanisms.synthetic.recipe import Synthetic
from sfumato.mechanisms.table.recipe import Table
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.projection.space import Space
from sfumato.tables.columns import Category, Flag, Integer, Ordinal, Real
from sfumato.tables.schema import Schema

Drawn = Callable[..., Any]
_COUNTED = ("real", "flag", "category", "integer", "ordinal", "date")  # columns that have cells


def lines() -> list[Line]:
    """All lines."""
    drawn = list[tuple[str, Drawn]]()
    for noise in ("laplace", "gaussian"):
        for name, draw in _NOISY.items():
            drawn.append((f"{name}, {noise}", partial(draw, noise=noise)))
    drawn += _OTHERS.items()
    made = [Line(name, draw) for name, draw in sorted(drawn, key=lambda pair: pair[0].lower())]
    return [*made, Line("reading a table", released.missing_cell)]


def _around(luck: Generator, of: Schema, noise: str, **more: Any) -> Neighbourhood:
    asked = {name: more.pop(name) for name in ("whole", "comes", "grouped") if name in more}
    return Neighbourhood(schema=of, guarantee=schemas.promise(luck, of, noise, **asked), **more)


def _sketch(luck: Generator, *, noise: Any) -> Released:
    of = schemas.schema(luck, Terms())
    recipe = Sketch(noise=noise, seed=public_seed(luck), **family_of(luck, of.encoding.dim))
    return contest(luck, recipe, _around(luck, of, noise, least=1))


def _in_space(luck: Generator) -> Released:
    """A sketch in a shared space, often of an owner who holds only some of its columns."""
    of, noise = schemas.schema(luck, Terms()), pick(luck, ("laplace", "gaussian"))
    given = family_of(luck, of.encoding.dim)
    given = {"family" if name == "projection" else name: value for name, value in given.items()}
    space = Space(of, seed=public_seed(luck), **given)
    names = [column.name for column in of.data_columns]
    held = [name for name in names if chance(luck, 0.5)] or names[:1]
    recipe = Sketch(space=space, noise=noise)
    if of.norm is None and chance(luck, 0.7):
        with contextlib.suppress(ParameterError):  # beside a far wider column, a projection can be 0 on narrow ones
            lattice_in(space, held)
            recipe = Sketch(space=space, columns=held, noise=noise)
    schema = recipe.schema_for(None)
    assert schema is not None
    return contest(luck, recipe, _around(luck, schema, noise, least=1))


def _one_column(luck: Generator) -> Released:
    """A single column that takes several encoded ones: what it moves is not hidden by wider columns."""
    kinds = ("vector", "vector", "vector", "set", "integer", "date")
    of = schemas.schema(luck, Terms(kinds=kinds, clips=(None,), columns=1))
    noise: Any = pick(luck, ("laplace", "gaussian"))
    recipe = Sketch(noise=noise, seed=public_seed(luck), **family_of(luck, of.encoding.dim))
    unit: Any = pick(luck, ("attribute", "attribute", "record"))
    promise = Guarantee(epsilon=1.0, delta=0.0 if noise == "laplace" else 1e-6, unit=unit)
    return contest(luck, recipe, Neighbourhood(schema=of, guarantee=promise, least=1))


def _fresh(luck: Generator) -> Released:
    of, noise = schemas.schema(luck, Terms()), pick(luck, ("laplace", "gaussian", "gaussian", "gaussian"))
    families = ("gaussian",) if noise == "laplace" else ("gaussian", "orthonormal")
    radius = pick(luck, (0.01, 0.3, 1.0, 2.0)) * float(pick(luck, of.encoding.ranges.tolist()))
    promise = Guarantee(epsilon=pick(luck, (0.7, 5.0)), delta=1e-3, change=Change.l2(radius), projection="fresh")
    given = family_of(luck, of.encoding.dim, families=families) | {"noise": noise}
    given["dimension"] = min(given["dimension"], 2)
    around = Neighbourhood(schema=of, guarantee=promise, least=1)
    return contest(luck, Sketch(**given), around)


def _chosen(luck: Generator, *, noise: Any) -> Released:
    of = schemas.schema(luck, Terms())
    drawn = schemas.promise(luck, of, noise)
    # With a delta the two parts are composed by a library, which takes a second or more: few promises, then.
    few = {"delta": 0.0} if noise == "laplace" else {"epsilon": 1.0, "delta": 1e-3}
    around = Neighbourhood(schema=of, guarantee=replace(drawn, **few), least=2, most=5)
    given = family_of(luck, of.encoding.dim, families=("gaussian", "rademacher", "sparse", "achlioptas"))
    inner = Sketch(noise=noise, dimension=1, projection=given["projection"], seed=public_seed(luck))
    choice = around.guarantee.epsilon * pick(luck, (0.1, 0.5, 0.9) if noise == "laplace" else (0.5,))
    return contest(luck, ChosenSketch(choice=choice, candidates=(1, 2, 3), sketch=inner), around)


def _components(luck: Generator, *, noise: Any) -> Released:
    of = schemas.schema(luck, Terms())
    dimension = int(luck.integers(1, of.encoding.dim + 1))
    recipe = Components(dimension=dimension, noise=noise, split=pick(luck, (0.3, 0.05, 0.8)))
    return contest(luck, recipe, _around(luck, of, noise, least=1))


def _covariance(luck: Generator, *, noise: Any) -> Released:
    of = schemas.schema(luck, Terms())
    recipe = Covariance(noise=noise, centred=chance(luck, 0.5))
    around = _around(luck, of, noise, comes=True)
    return contest(luck, recipe, around if around.guarantee.neighbours == "add-remove" else _some(around))


def _scatter(luck: Generator) -> Released:
    of = schemas.schema(luck, Terms())
    comes = chance(luck, 0.7)
    epsilon, delta = (pick(luck, (0.7, 5.0)), pick(luck, (1e-6, 1e-3))) if comes else (1.0, 1e-3)
    promise = Guarantee(epsilon=epsilon, delta=delta, neighbours="add-remove" if comes else "replace")
    recipe = Covariance(noise="sketch", rows=pick(luck, (1, 5, 40)) if comes else 5, centred=chance(luck, 0.5))
    around = Neighbourhood(schema=of, guarantee=promise, most=8, least=0 if comes else 1)
    return contest(luck, recipe, around)


def _some(around: Neighbourhood) -> Neighbourhood:
    """The same with at least one row, where their number is public."""
    return replace(around, least=1)


def _synthetic(luck: Generator, *, noise: Any) -> Released:
    of = schemas.schema(luck, Terms(clips=(None, None, "l2")))
    label, kind = _label(luck, of)
    shown = kind == "classes" and chance(luck, 0.3)
    centring = pick(luck, ("best", "private", "public"))
    normalise = pick(luck, (None, None, "once", "never", *(() if centring == "public" else ("twice",))))
    split = pick(luck, ("best", "paper")) if centring == "private" else "best"
    recipe = Synthetic(
        noise=noise,
        dimension=pick(luck, (None, 1, 2)),
        label=label,
        kind=kind,
        counts="public" if shown else "private",
        centring=centring,
        normalise=normalise,
        split=split,
        label_weight=pick(luck, (1.0, 0.0625, 4.0, 0.5)),
        rows=1,
        seed=public_seed(luck),
    )
    around = _around(luck, of, noise, whole=True, comes=not shown, kept=(label,) if shown and label else ())
    return contest(luck, recipe, around if around.guarantee.neighbours == "add-remove" else _some(around))


def _table(luck: Generator, *, noise: Any) -> Released:
    """One row is drawn: how many a noisy count asks for, whatever its outcome, does not matter here."""
    rounds, cells = pick(luck, (0, 0, 1, 2)), pick(luck, (100, 300_000))
    of = schemas.schema(luck, Terms(columns=3))
    if len(of.data_columns) == 1 and chance(luck, 0.8):  # no pairs
        of = replace(of, columns=(*of.columns, Flag("beside")))
    label = pick(luck, (None, *(column.name for column in of.data_columns)))
    share = pick(luck, (0.0, 0.37, 0.9))
    method: Any = pick(luck, ("pairs", "pairs", "tree", "copula"))
    recipe = Table(label, rows=1, method=method, noise=noise, rounds=rounds, label_share=share, cells=cells)
    around = _around(luck, of, noise, whole=True, comes=True)
    around = replace(around, guarantee=replace(around.guarantee, change=None))
    return contest(luck, recipe, around if around.guarantee.neighbours == "add-remove" else _some(around))


def _histogram(luck: Generator, *, noise: Any) -> Released:
    """Tables of one to three columns; sets and vectors have no cells."""
    of = schemas.schema(luck, Terms(kinds=_COUNTED, columns=4, clips=(None,)))
    names = [column.name for column in of.data_columns]
    drawn = {tuple(sorted(luck.choice(names, min(len(names), 1 + i % 3), replace=False).tolist())) for i in range(4)}
    tables = None if chance(luck, 0.3) else tuple(sorted(drawn))
    around = _around(luck, of, noise, whole=True, comes=True)
    around = replace(around, guarantee=replace(around.guarantee, change=None))
    recipe = Histogram(tables, noise=noise)
    return contest(luck, recipe, around if around.guarantee.neighbours == "add-remove" else _some(around))


def _label(luck: Generator, of: Schema) -> tuple[str | None, Any]:
    if len(of.data_columns) < 2 or chance(luck, 0.3):
        return None, "values"
    column = pick(luck, of.data_columns)
    if column.missing == "level" or not isinstance(column, Real | Integer | Category | Ordinal | Flag):
        return None, "values"
    if isinstance(column, Real | Integer):
        return column.name, "values"
    return column.name, "classes" if isinstance(column, Category | Ordinal) else pick(luck, ("classes", "values"))


def _responses(luck: Generator) -> Released:
    flags = chance(luck, 0.2)
    levels = None if flags else pick(luck, (None, 2, 5))
    kinds = ("flag",) if flags else ("flag", "category") if levels is None else ("flag", "category", "real", "integer")
    of = schemas.schema(luck, Terms(kinds=kinds, clips=(None,), levels=False, scales=("raw",)))
    if flags:  # of weight 1, so that a change in the l1 norm counts them
        of = replace(of, columns=tuple(replace(column, weight=1.0) for column in of.data_columns))
    noise = pick(luck, ("laplace", "gaussian"))  # without a delta, or with one
    return contest(luck, RandomizedResponse(levels=levels), _around(luck, of, noise, least=1))


def _distances(luck: Generator, *, noise: Any) -> Released:
    of = schemas.schema(luck, Terms())
    return contest(luck, NoisyDistances(noise=noise), _around(luck, of, noise, least=2))


_NOISY: dict[str, Drawn] = {
    "Sketch": _sketch,
    "ChosenSketch": _chosen,
    "Components": _components,
    "Covariance": _covariance,
    "Synthetic": _synthetic,
    "Table": _table,
    "Histogram": _histogram,
    "NoisyDistances": _distances,
    "EdgeNoise": graphs.edge_noise,
    "Question": aggregates.contest,
}
_OTHERS: dict[str, Drawn] = {
    "Sketch, fresh projection": _fresh,
    "Sketch, one column": _one_column,
    "Sketch, shared space": _in_space,
    "Covariance, sketch": _scatter,
    "RandomizedResponse": _responses,
    "GraphSketch": graphs.graph_sketch,
    "EdgeResponse": graphs.edge_response,
    "Question, one column": aggregates.of_moments,
    "Question, quantiles": aggregates.of_quantiles,
    "Counting": questions.counting,
    "SparseVector": questions.sparse_vector,
    "Weights": questions.weights,
    "Median": questions.median,
    "Median, as printed": questions.median_as_printed,
    "MWEM": questions.mwem,
    "Stream, covariance": growing.covariance,
    "Stream, histogram": growing.histogram,
    "Stream, synthetic": growing.synthetic,
}
