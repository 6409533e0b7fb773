"""The version of this software; the package takes it from here."""

__version__ = "0.1.0"
