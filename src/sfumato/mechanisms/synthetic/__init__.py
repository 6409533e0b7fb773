"""Synthetic rows from a Gaussian model."""
