"""A search for neighbours that lose more than a mechanism claims: random schemas, promises, settings, tables, climbs.

Scripts, and no part of the package: ``python -m refute`` (``make refute``). docs/refute.md says what is searched and
what was found.
"""
