"""Releases of several owners in one analyst's hands."""
