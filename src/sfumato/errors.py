"""The errors a user can meet. Each also has a built-in parent, and none ever carries a cell value."""

from collections.abc import Sequence


class SfumatoError(Exception):
    """Parent of every error that sfumato raises on purpose."""


class MissingDependency(SfumatoError, ImportError):  # noqa: N818 - the message is the error
    """Something optional is not installed; the message says how to get it."""


class ParameterError(SfumatoError, ValueError):
    """A parameter is out of range; the message names it, its value and what would be accepted."""


class ReleaseError(SfumatoError, ValueError):
    """A release folder is missing, damaged, unprotected or of an unknown version, or lacks what a question needs."""


class SchemaError(SfumatoError, ValueError):
    """A schema, or a table that does not fit it; the message names the file, column or key and never a cell.

    problems : each problem by itself, where there are several; the message has a numbered line for each.
    """

    def __init__(self, message: str = "", problems: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


class LedgerError(SfumatoError, ValueError):
    """A ledger is missing, damaged, locked or of another version, or cannot express what is asked of it."""


class BudgetError(LedgerError):
    """A release does not fit into what is left of a budget. Nothing was read, drawn or charged.

    requested : the epsilon that was asked for.
    remaining : the largest epsilon that the same release could have instead, at the same delta; 0 if none.
    """

    def __init__(self, message: str, *, requested: float, remaining: float) -> None:
        super().__init__(message)
        self.requested, self.remaining = requested, remaining


class StreamError(SfumatoError, ValueError):
    """A stream's file is missing, damaged, in use or of another version, or has no room for another period."""


class ExhaustedError(SfumatoError, RuntimeError):
    """A mechanism that answers questions has used up what it was opened with; nothing was read, drawn or charged."""


class RangeError(SfumatoError, OverflowError):
    """Exact sums do not fit into 64 bits: there are too many rows or columns."""


class LeftoverWarning(UserWarning):
    """A release that was killed has left a hidden folder beside a new one."""


class InexactWarning(UserWarning):
    """A number that is usually computed was estimated by drawing, because computing it would take too much memory."""
