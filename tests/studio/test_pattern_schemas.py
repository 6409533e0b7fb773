"""The studio with a schema that has patterns: every screen knows the columns that they stand for."""

from sfumato.studio import plan_screen, release_screen
from sfumato.tables.columns import Category, Flag, Real
from sfumato.tables.schema import Schema
from support.visiting import SKETCH, Visitor, make_studio, write_people


def test_plans_and_orders_know_what_a_pattern_matches(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    write_people(folder)
    Schema((Real("a*", 0, 120), Flag("smok?r"), Category("city", ("Bern", "Basel")))).write(folder / "people.toml")
    visitor = Visitor(make_studio(folder))
    schema = release_screen.order_of(visitor.studio, SKETCH).schema
    assert [column.name for column in schema.columns] == ["age", "smoker", "city"]
    assert plan_screen._schema(visitor.studio, "people.csv") == schema
    assert visitor.get("/data/people.csv").status_code == 200
