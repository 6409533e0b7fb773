"""Models of synthetic tables fitted in a few steps, for tests of what does not depend on how well they fit."""


def shorten(monkeypatch):
    """A few steps of each fit, and few rows to score: the guarantee of a table does not depend on either."""
    for module in ("pairs", "rounds", "tree"):
        monkeypatch.setattr(f"sfumato.mechanisms.table.{module}.ITERATIONS", 4)
    monkeypatch.setattr("sfumato.mechanisms.table.rounds._DRAWN", 500)
