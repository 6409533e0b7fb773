"""Schemas learned from the data under differential privacy: bounds of numbers, and values of categories and sets."""
