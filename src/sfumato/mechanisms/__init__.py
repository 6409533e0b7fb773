"""Mechanisms: each is a recipe that is prepared for a schema and a guarantee, calibrated, and then run once."""
