"""Synthetic tables in the owner's own columns, from noisy counts."""
