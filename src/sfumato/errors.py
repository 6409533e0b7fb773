"""The errors a user can meet. Each also has a built-in parent, and none ever carries a cell value."""


class SfumatoError(Exception):
    """Parent of every error that sfumato raises on purpose."""


class ParameterError(SfumatoError, ValueError):
    """A parameter is out of range; the message names it, its value and what would be accepted."""
