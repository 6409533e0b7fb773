"""Commands for several owners: what they agree on, and what their releases tell together."""
