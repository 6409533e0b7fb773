"""Exact arithmetic: integers on a lattice, and doubles with proved bounds."""
