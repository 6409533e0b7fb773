"""The rows of a table as releases on this machine read them, and a guard that nothing reads them."""

import pytest

from sfumato.engines.local import LocalRows
from sfumato.files.source import Source
from sfumato.tables.blocks import Blocks

READ = "rows were read"


def table_rows(table, schema, **settings):
    return LocalRows(Blocks.of(table, schema), **settings)


def forbid_reading(monkeypatch):
    """From here on a row that is read fails the test; whoever uses this shows that what is allowed does read."""
    monkeypatch.setattr(Source, "blocks", lambda *_: pytest.fail(READ))


def reading():
    """What a call raises that reads a row where that is forbidden."""
    return pytest.raises(pytest.fail.Exception, match=READ)
