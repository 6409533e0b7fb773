"""Audits: empirical lower bounds on epsilon, from outputs alone."""
