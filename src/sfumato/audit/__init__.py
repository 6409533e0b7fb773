"""Audits: empirical lower bounds on epsilon, and what a run lets one see beside its noise.

The package is itself the function ``audit``: ``sfumato.audit(mechanism, ...)``, and beside it are
``sfumato.audit.greybox``, ``sfumato.audit.one_run``, ``sfumato.audit.stream``, ``sfumato.audit.suite`` and what they
need.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

_PUBLIC = {
    "Effort": "examine",
    "Finding": "examine",
    "GreyBox": "grey_box",
    "greybox": "grey_box",
    "guesses_bound": "canaries",
    "lower_bound": "bound",
    "one_run": "canaries",
    "greybox_stream": "stream_trials",
    "stream": "stream_trials",
    "suite": "cases",
}


class _Audit(ModuleType):
    """A module that can be called, since function and package have one name."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return import_module("sfumato.audit.cases").audit(*arguments, **options)

    def __getattr__(self, name: str) -> Any:
        if name in _PUBLIC:
            return getattr(import_module(f"sfumato.audit.{_PUBLIC[name]}"), name)
        raise AttributeError(f"module 'sfumato.audit' has no attribute {name!r}")


audit = sys.modules[__name__]
audit.__class__ = _Audit
