"""Mechanisms that make a release: recipe, preparation, loss, run."""
