"""Randomized response: every value of every record is published, or in its place another one, with a known chance.

Kenthapadi et al. Algorithms 5 and 6 for flags, and the same for categories, ordinals and whole numbers of few values:
the truth is e^epsilon0 times as likely as each other answer (Warner 1965). With ``levels`` numbers are answered too, by
the part of their declared range that they are in. Two levels are the sign sketch of Li and Li 2023 (DP-SignOPORP) with
a bin for each column. Wider bins and dense projections were tried and are not offered (section 21 of the mathematics).

Formal guarantee: a run at a level whose loss satisfies delta(epsilon) <= delta is (epsilon, delta)-differentially
private for the unit, neighbours and change of the guarantee it was prepared for. Steps of the argument:
``response_columns.codes`` makes each answer a function of its own cell, so one unit changes the answers of the columns
it may touch and no others; ``choices.respond`` draws each answer exactly; the rest is post-processing. Rows are handled
one by one, so the number of rows is shown: neighbours replace, not add.

Which loss. A column with m answers has the profile (e^epsilon0 - e^epsilon)/(e^epsilon0 + m - 1), attained by every
pair of truths. It falls with m, so for one value the column with the fewest answers is the worst. For a whole record
all columns may change and are answered independently: the profile is that of the composition, attained when all change,
and g rows of one person are g times as many columns. An l1 ball of radius R around a row of flags of weight 1 holds the
rows that differ in at most floor(R) of them.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.estimation import response_columns
from sfumato.estimation.response_columns import ResponseColumn
from sfumato.estimation.response_law import Channel
from sfumato.fileformat.manifest import Facts
from sfumato.mechanisms.base import Prepared, Published, Recipe, check_shows_rows
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Loss, Pure, Response, Responses
from sfumato.randomness import randomized_choice
from sfumato.randomness.secret import Secret
from sfumato.tables.blocks import Rows
from sfumato.tables.schema import Schema

Codes = NDArray[Any]

_COMPOSED = 4096  # values beyond which the pure epsilons are added up: exact composition would take minutes


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomizedResponse(Recipe):
    """The recipe: flags, categories, ordinals and whole numbers of few values, each the truth or another answer.

    Each is the truth with a known probability.

    levels : numbers and dates are cut into so many equal parts of their declared range, and so are whole numbers and
             ordinals of more values; without it, they are refused. Few levels lose detail, many are drowned in other
             answers: for one value 2 err least up to epsilon 2, 4 at 4, and 14 at 8.
    """

    levels: int | None = None

    def prepare(self, schema: Schema, guarantee: Guarantee) -> "PreparedResponses":
        """Check that randomized response can keep the promise, before any data is read."""
        _check_promise(guarantee)
        if self.levels is not None:
            check.whole(2, levels=self.levels)
            if self.levels > response_columns.MOST:
                raise check.fail("levels", self.levels, f"at most {response_columns.MOST}")
        answers = response_columns.answers(schema, self.levels)
        _check_schema(schema, answers)
        return PreparedResponses(schema, guarantee, answers, _changed(answers, guarantee), self.levels)


def _check_promise(guarantee: Guarantee) -> None:
    """Refuse what randomized response cannot promise."""
    check_shows_rows(guarantee, "answers show one row per record")
    if guarantee.projection == "fresh":
        raise ParameterError("randomized response projects nothing, got projection='fresh': use projection='fixed'")
    if guarantee.allowed_change.kind == "l2":
        raise ParameterError(
            "answers are one of a few values, which do not move by lengths, got change='l2': "
            "use Change.box() or unit='attribute'"
        )


def _check_schema(schema: Schema, answers: tuple[ResponseColumn, ...]) -> None:
    if schema.norm is not None:
        raise ParameterError("answers are codes, which a row-norm clip cannot shorten: use a schema without a clip")
    for column, answer in zip(schema.data_columns, answers, strict=True):
        if answer.categories < 2:
            raise ParameterError(f"column {column.name!r} can have one answer only and tells nothing: leave it out")


def _changed(answers: tuple[ResponseColumn, ...], guarantee: Guarantee) -> tuple[int, ...]:
    """Randomized response: answers of each value that one unit may change in one row; the worst choice of values."""
    sizes = sorted(answer.categories for answer in answers)
    change = guarantee.allowed_change
    if change.kind == "attribute":
        return (sizes[0],)
    if change.kind == "box":
        return tuple(sizes)
    # A schema of flags alone is never scaled, so that a weight of 1 is a step of 1 whether or not it states its scale.
    if any(answer.values > 1 or answer.weight != 1 for answer in answers):
        raise ParameterError(
            "change='l1' counts changed flags, so it needs a schema of flags of weight 1: "
            "use Change.box() or unit='attribute'"
        )
    assert change.radius is not None
    flags = min(math.floor(change.radius), len(sizes))
    if flags < 1:
        raise ParameterError(
            f"no flag changes by less than 1, got radius={change.radius!r}: use a radius of at least 1"
        )
    return tuple(sizes[:flags])


def response_loss(epsilon: float, changed: tuple[int, ...], group: int = 1) -> Loss:
    """Randomized response: loss of answers of this epsilon if values with so many answers change, in ``group`` rows."""
    values = len(changed) * group
    if values == 1:
        return Response(epsilon, changed[0])
    if values > _COMPOSED:
        return Pure(epsilon * values * (1 + 2.0**-50))
    return Responses(epsilon, changed * group)


@dataclass(frozen=True, slots=True, eq=False)
class PreparedResponses(Prepared):
    """Randomized response whose columns are known; level = 1 / epsilon0, epsilon0 the epsilon of each value.

    ``changed`` holds, for each value that one unit may change in one row, how many answers it has.
    """

    schema: Schema
    guarantee: Guarantee
    answers: tuple[ResponseColumn, ...]
    changed: tuple[int, ...]
    levels: int | None = None

    def epsilon_per_value(self, level: float) -> float:
        """epsilon0, cut at what can be drawn: beyond that more privacy than asked for is given."""
        return min(1 / level, randomized_choice.LARGEST_EPSILON)

    def loss(self, level: float) -> Loss:
        """The loss of a run with epsilon0 = 1 / level for each value."""
        return response_loss(self.epsilon_per_value(level), self.changed, self.guarantee.group)

    def facts(self, level: float) -> Facts:
        """What the manifest says of a run at this level."""
        each = self.epsilon_per_value(level)
        keep = [Channel(each, answer.categories).keep for answer in self.answers]
        said = {} if self.levels is None else {"levels": self.levels}
        return {
            "kind": "responses",
            "mechanism": {"name": "responses", "epsilon_per_value": each, "keep": keep, **said},
        }

    def run(self, rows: Rows, level: float, secret: Secret) -> Published:
        """The answers, block by block, each of shape (data columns, rows), as codes.

        Guarantee: as stated at the top, at the loss of ``level``. Every block is brought to valid codes here first.
        """
        each = self.epsilon_per_value(level)
        if each < randomized_choice.SMALLEST_EPSILON:
            raise ParameterError(
                f"epsilon={self.guarantee.epsilon!r} leaves {each:.3g} for each value, which says nothing: "
                "choose a larger epsilon, fewer columns, or unit='attribute'"
            )
        cut = "" if self.levels is None else f" levels {self.levels}"
        parameters = f"responses {self.guarantee!r} {each.hex()} {self.schema.digest}{cut}"
        sizes = np.array([answer.categories for answer in self.answers])

        def one(position: int, block: NDArray[np.float64]) -> Codes:
            truth = response_columns.codes(self.schema, block, self.levels)
            words, out = secret.words(parameters, position, truth), np.empty(truth.shape, np.int32)
            for size in np.unique(sizes):
                out[sizes == size] = words.respond(truth[sizes == size], int(size), each)
            return out

        return Published(self.facts(level), tuple(f"r{i}" for i in range(sizes.size)), rows.map(one))
