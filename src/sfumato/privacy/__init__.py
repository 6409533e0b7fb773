"""Guarantees, and what releases cost."""
