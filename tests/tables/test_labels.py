"""The column to predict: classes of an ordinal, numbers of an integer, and what it cannot be."""

from datetime import date

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.tables.columns import Date, Flag, Integer, Ordinal, Real, Set, Vector
from sfumato.tables.labels import Labelled
from sfumato.tables.schema import Schema
from support.asked_kinds import KINDS, LEVELS, table


def test_an_ordinal_tells_classes_apart_by_its_places():
    labelled = Labelled.of(KINDS, "education", "classes")
    codes = labelled.codes(KINDS.encode(table()))
    assert labelled.classes == LEVELS
    assert codes.tolist() == [0, 1, 2, 3, 1, 1, 3, 0]
    assert labelled.decoded(codes).tolist() == [LEVELS[code] for code in codes]
    wild = np.full((KINDS.encoding.dim, 3), [np.nan, np.inf, -np.inf])
    assert labelled.codes(wild).tolist() == [0, 3, 0]


def test_an_integer_is_a_numeric_label_between_its_bounds():
    labelled = Labelled.of(KINDS, "age", "values")
    assert labelled.bounds == (0.0, 120.0)
    assert labelled.numbers(KINDS.encode(table()), 60).tolist() == [-21, -20, -19, -20, -60, 60, -20, -19]
    assert labelled.original(np.array([-1.0, 0.0, 1.0, 2.0])).tolist() == [0, 60, 120, 120]


@pytest.mark.parametrize("name", ["education", "age", "sex", "joined"])
def test_the_other_columns_keep_their_scale_and_their_place(name):
    for scale in ("bounds", "raw"):
        schema = Schema(KINDS.columns, scale=scale)
        column = next(c for c in schema.data_columns if c.name == name)
        labelled = Labelled(schema, column, "values")
        block = schema.encode(table())
        assert labelled.others.scale == scale
        assert (labelled.features(block) == labelled.others.encode(table())).all()
        kept = [i for i, n in enumerate(schema.encoding.names) if n in labelled.others.encoding.names]
        assert (schema.encoding.weights[kept] == labelled.others.encoding.weights).all()


@pytest.mark.parametrize(
    ("column", "kind", "words"),
    [
        (Date("y", date(2020, 1, 1), date(2021, 1, 1)), "values", "'y' is of kind date"),
        (Vector("y", 2, 0, 1), "values", "'y' is of kind vector"),
        (Set("y", ("a",), most=1), "classes", "'y' is of kind set"),
        (Ordinal("y", ("a", "b")), "values", "'y' is of kind ordinal: use kind='classes'"),
        (Integer("y", 0, 9), "classes", "'y' is of kind integer: use kind='values'"),
        (Ordinal("y", ("a", "b"), missing="level"), "classes", "keeps missing cells as a level"),
        (Flag("y", missing="level"), "values", "keeps missing cells as a level"),
    ],
)
def test_what_cannot_be_predicted_is_refused(column, kind, words):
    with pytest.raises(ParameterError, match=words):
        Labelled.of(Schema((Real("x", 0, 1), column)), "y", kind)
