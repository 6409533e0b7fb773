"""Attacks on releases, beside the bounds that privacy implies."""
